"""Counts of a huge known domain: noise on every key, of which only those that are shown are ever drawn."""

# ruff: noqa: SIM300 - no pandas here; expected == actual

from __future__ import annotations

import itertools
import math
from collections import Counter

import mpmath
import numpy as np
import pytest
from scipy import stats

from dfprivacy import ArgumentError
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.draws import binomial
from dfprivacy._privacy.samplers import OpenDPSampler
from dfprivacy.testing import Seeded

WORDS = 5  # of 32 bits, in a first draw


def tail(scale, threshold):
    """The probability that discrete Laplace noise reaches a threshold, to the working precision."""
    q = mpmath.exp(-1 / mpmath.mpf(scale))
    return q**threshold / (1 + q)


def at_most(n, trials, p):
    """The probability of at most n of independent events, summed from the law."""
    return mpmath.fsum(mpmath.binomial(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(n + 1))


class Digits:
    """The binary digits of a number between 0 and 1, word by word; it counts them."""

    def __init__(self, number):
        _, self.rest, exponent, _ = mpmath.mpf(number)._mpf_  # the number is rest times 2 to the exponent, exactly
        self.places, self.words = -exponent, 0

    def __call__(self, below):
        self.words += 1
        word, self.rest = divmod(self.rest * below, 1 << self.places)
        return word


# ---- how many zeros --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trials", "scale", "threshold"),
    [(1, 2.0, 1), (3, 0.3, 1), (7, 5.0, 2), (40, 1e6, 3), (10**5, 2.0, 22), (10**9, 2.0, 44), (10**15, 0.1, 4)],
)
@pytest.mark.parametrize("gap", ["1e-3", "1e-25", "1e-70", "1e-150"])
def test_their_number_is_drawn_by_inversion_to_any_digit(trials, scale, threshold, gap):
    """However near a uniform number is to a probability, it decides as that compares to 400 digits."""
    with mpmath.workdps(400):
        p, gap = tail(scale, threshold), mpmath.mpf(gap)
        for n in range(min(4, trials)):
            bound = at_most(n, trials, p)
            least = at_most(n - 1, trials, p) if n else mpmath.mpf(0)
            if gap < min(bound - least, 1 - bound) / 2:
                assert n == binomial(trials, scale, threshold, Digits(bound - gap))
                wanted = next(more for more in range(n + 1, trials + 1) if bound + gap < at_most(more, trials, p))
                assert wanted == binomial(trials, scale, threshold, Digits(bound + gap))


def test_no_more_digits_are_drawn_than_the_comparison_needs():
    """Where the first digits do not tell, more are drawn, and only then."""
    with mpmath.workdps(400):
        p = tail(2.0, 22)
        bound = at_most(0, 10**5, p)
        easy, hard = Digits(bound / 2), Digits(bound - mpmath.mpf("1e-60"))
        binomial(10**5, 2.0, 22, easy)
        binomial(10**5, 2.0, 22, hard)

    assert (WORDS, 2 * WORDS) == (easy.words, hard.words)


def test_there_are_none_of_none():
    """Of no trials none reach the threshold, and nothing is drawn; of one, never more than one."""
    ones = itertools.repeat(2**32 - 1)

    assert 0 == binomial(0, 2.0, 3, None)
    assert 1 == binomial(1, 2.0, 3, lambda _: next(ones))


# ---- the law of all that is shown ------------------------------------------------------------------------

REACH = 7  # values further beyond the threshold are taken together: they have one likelihood ratio


class Scripted(noise.FromLaplace):
    """A sampler whose draws are written down beforehand: noise of counts, a uniform number, ranks, noise beyond."""

    name, private = "NOT PRIVATE: scripted", False

    def __init__(self, own, uniform, ranks, beyond):
        self.noises = [own, beyond]
        self.digits, self.ranks = Digits(uniform), list(ranks)

    def laplace(self, values, scale):
        return values + np.array(self.noises.pop(0), dtype=np.int64)

    def below(self, n):
        return self.digits(n) if n == 2**32 else self.ranks.pop(0)


def noised_and_thresholded(counts, scale, threshold):
    """The law of noise on all counts and a threshold, by enumeration: of None or a value, for each."""
    q = mpmath.exp(-1 / mpmath.mpf(scale))
    law = {(): mpmath.mpf(1)}
    for count in counts:
        one = {x: (1 - q) / (1 + q) * q ** abs(x - count) for x in range(threshold, threshold + REACH)}
        beyond = threshold + REACH - count  # above 0 in these tests
        one["more"] = q**beyond / (1 + q)
        one[None] = 1 - mpmath.fsum(one.values())
        law = {(*seen, x): p * each for seen, p in law.items() for x, each in one.items()}
    return law


def drawn(counts, scale, threshold):
    """The law of what the sampler gives, by enumeration of all that it may draw."""
    q, p = mpmath.exp(-1 / mpmath.mpf(scale)), tail(scale, threshold)
    held = {place: count for place, count in enumerate(counts) if count}
    zeros = len(counts) - len(held)
    steps = range(-threshold - REACH, threshold + REACH + 1)
    own = {x: (1 - q) / (1 + q) * q ** abs(x) for x in steps}
    own[steps[-1]] += q ** (steps[-1] + 1) / (1 + q)
    own[steps[0]] += q ** (1 - steps[0]) / (1 + q)
    # Noise beyond: x and -x-1 are the same step above the threshold.
    beyond = {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-REACH - 1, REACH + 1)}
    beyond[REACH] += q ** (REACH + 1) / (1 + q)
    beyond[-REACH - 1] += q ** (REACH + 2) / (1 + q)
    law = Counter()
    for n in range(zeros + 1):
        least = at_most(n - 1, zeros, p) if n else mpmath.mpf(0)
        weight = at_most(n, zeros, p) - least
        orders = [*itertools.permutations(range(zeros), n)]
        for of_own in itertools.product(own.items(), repeat=len(held)):
            likely = math.prod((each for _, each in of_own), start=weight / len(orders))
            for ranks in orders:
                for of_zeros in itertools.product(beyond.items(), repeat=n):
                    script = [x for x, _ in of_own], least + weight / 2, ranks, [x for x, _ in of_zeros]
                    found = Scripted(*script).sparse(held, len(counts), scale, threshold)
                    seen = [found.get(place) for place in range(len(counts))]
                    probability = math.prod((each for _, each in of_zeros), start=likely)
                    law[tuple("more" if x and x >= threshold + REACH else x for x in seen)] += probability
    return law


@pytest.mark.parametrize(
    ("counts", "scale", "threshold"),
    [
        ((0, 0), 1.5, 1),
        ((0, 2, 0), 1.5, 2),
        ((1, 0, 0), 0.7, 2),
        ((0, 3), 4.0, 1),
        ((3, 1), 1.0, 2),
    ],
    ids=str,
)
def test_its_law_is_that_of_noise_on_all_and_a_threshold(counts, scale, threshold):
    """By enumeration of all that is drawn, every outcome has the probability that noise on every zero gives it."""
    with mpmath.workdps(60):
        wanted = noised_and_thresholded(counts, scale, threshold)
        found = drawn(counts, scale, threshold)

        assert set(wanted) == set(found)
        assert max(abs(wanted[seen] - found[seen]) for seen in wanted) < mpmath.mpf("1e-50")


@pytest.mark.parametrize("sampler", [Seeded(3), OpenDPSampler()])
def test_draws_of_both_samplers_have_the_law_of_noise_on_all(sampler):
    """Draws for seven keys, of which two have rows, are as of noise on all seven: places, values, and together."""
    # The law itself is enumerated above; here are draws that nobody wrote down. Values of all five zeros together,
    # 25,000 of them beside 500,000 with noise on all, tell if those that reach the threshold do so with a scale of
    # 1.3 times the right one: noncentrality 122 at 5 degrees of freedom, which is missed once in a million times.
    counts, size, scale, threshold, draws = {1: 2, 4: 5}, 7, 1.3, 3, 5_000
    every = np.zeros((20 * draws, size), dtype=np.int64)
    every[:, [*counts]] = [*counts.values()]
    direct = Seeded(4).laplace(every, scale)

    found = np.zeros((draws, size), dtype=np.int64)
    for row in found:
        shown = sampler.sparse(counts, size, scale, threshold)
        row[[*shown]] = [*shown.values()]
    cells = [np.minimum(np.where(each >= threshold, each, 0), threshold + 4) for each in (direct, found)]

    for places in (*range(size), [place for place in range(size) if place not in counts]):  # two samples of one law
        table = [np.bincount(each[:, places].ravel(), minlength=threshold + 5) for each in cells]
        assert pvalue(table) > 1e-7, places
    assert pvalue([np.bincount((each > 0).sum(axis=1), minlength=size + 1) for each in cells]) > 1e-7
    pairs = [np.bincount((each[:, 0] > 0) * 2 + (each[:, 6] > 0), minlength=4) for each in cells]
    assert pvalue(pairs) > 1e-7


def pvalue(table):
    """P-value of two samples of one law; rare cells together."""
    table = np.array(table)
    rare = table.sum(axis=0) * table.sum(axis=1).min() / table.sum() < 10  # expected in the smaller sample
    together = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    return stats.chi2_contingency(together[:, together.sum(axis=0) > 0]).pvalue


class Counted(Seeded):
    """Seeded noise that counts what is drawn."""

    def __init__(self, seed):
        super().__init__(seed)
        self.noises = self.numbers = 0

    def laplace(self, values, scale):
        self.noises += values.size
        return super().laplace(values, scale)

    def below(self, n):
        self.numbers += 1
        return super().below(n)


@pytest.mark.parametrize("size", [10**4, 10**9, 10**15])
def test_what_is_drawn_does_not_grow_with_the_domain(size):
    """For a thousand keys that are held, a thousand draws of noise and a few more, however large the domain is."""
    sampler = Counted(1)
    threshold = calibrate.sparse_threshold(2.0, size, 0.05)

    found = sampler.sparse({place * (size // 1000): 1000 for place in range(1000)}, size, 2.0, threshold)

    assert 1000 <= sampler.noises == len(found) <= 1003
    assert sampler.numbers <= WORDS + 10


@pytest.mark.parametrize("scale", [0.2, 2.0, 60.0, 1e6])
@pytest.mark.parametrize("size", [1, 20, 10**5, 10**9, 10**15])
@pytest.mark.parametrize("expected", [0.05, 1.0])
def test_the_threshold_is_the_smallest(scale, size, expected):
    """To 60 digits, as few zeros are shown on average as was said, and with a threshold of one less, more."""
    found = calibrate.sparse_threshold(scale, size, expected)

    with mpmath.workdps(60):
        assert size * tail(scale, found) <= expected
        assert found == 1 or size * tail(scale, found - 1) > expected * (1 - mpmath.mpf("1e-9"))


@pytest.mark.parametrize("threshold", [0, -3, 2**62])
def test_a_threshold_that_most_zeros_reach_is_refused(threshold):
    """A threshold below 1, or one that 64 bits hardly hold, is no threshold."""
    with pytest.raises(ArgumentError, match="cannot be drawn"):
        Seeded(1).sparse({}, 10, 2.0, threshold)


def test_noise_ends_where_64_bits_end():
    """Noise of a zero that goes beyond what 64 bits hold stays there, as that of counts does."""
    huge = 2**63 - 1

    found = Scripted([], 0.9, [0], [huge]).sparse({}, 1, 2.0, 1)

    assert {0: huge} == found
    assert math.isfinite(float(found[0]))
