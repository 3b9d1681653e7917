"""Keys of a known domain: where each stands in it, what is counted, what it costs, and that this is private."""

# ruff: noqa: SIM300 - no pandas here; expected == actual

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import dfprivacy as dp
from dfprivacy import ArgumentError
from dfprivacy._call.requests import decode_argument, encode_argument
from dfprivacy._measure.curator import Curator
from dfprivacy._measure.evaluate import Table
from dfprivacy._plugins.loader import register_mechanism, unregister
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.draws import draw_count_above
from dfprivacy._privacy.losses import Laplace
from dfprivacy._privacy.samplers import OpenDPSampler
from dfprivacy._table.declare import read_schema
from dfprivacy._table.domain import read_domain
from dfprivacy._table.frames import adapt
from dfprivacy.errors import DPError
from dfprivacy.schema import code_book_of
from dfprivacy.testing import SeededSampler
from dfprivacy_audit.harness import Replay

pytestmark = pytest.mark.pandas

RELATIONS = {"add_remove": 1, "replace_one": 2}


@dp.mechanism(columns={"column": "any"})
def known_keys(curator, column, *, domain=None):
    "The keys of a known domain that enough rows hold."
    found = curator.discover(column, domain=domain)
    return {"keys": list(found.keys), "counts": found.counts.tolist(), "threshold": found.threshold}


@pytest.fixture(autouse=True)
def mechanisms():
    register_mechanism(known_keys)
    yield
    unregister("known_keys")


def table_of(frame, **said):
    nothing = {"bounds": None, "categories": None, "public": (), "missing": None, "neighbors": "replace_one"}
    adapted = adapt(frame)
    return Table(adapted, read_schema(adapted, **{**nothing, **said}))


def plain(values, name="x"):
    return pd.DataFrame({name: pd.Series(values, dtype=object)})


# ---- where a key stands ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("domain", "keys"), [
    ("[a-c][0-9]", [f"{a}{b}" for a in "abc" for b in range(10)]), (r"\d{2}", [f"{n:02}" for n in range(100)]),
    (r"J\d\.[05]", [f"J{n}.{half}" for n in range(10) for half in "05"]), ("[ca-b-]", ["-", "a", "b", "c"]),
    (r"[\]\-ü]{2}", [a + b for a in "-]ü" for b in "-]ü"]), ("x", ["x"]), ("[aa]b{3}", ["abbb"]),
    (range(3, 9), [3, 4, 5, 6, 7, 8]), (range(9, 0, -4), [9, 5, 1]), (range(-2, 3, 2), [-2, 0, 2]),
    (["b", 3, "a", 0.5, True], ["b", 3, "a", 0.5, True]), (np.array([2.5, 1.0]), [2.5, 1.0]),
], ids=str)  # fmt: skip
def test_what_a_domain_holds(domain, keys):
    """A pattern, a range and a list each hold their keys, in an order of their own, each at its place."""
    found = read_domain(domain)

    assert len(keys) == found.size
    assert keys == [found.key(place) for place in range(found.size)]
    assert [*range(found.size)] == [found.position(key) for key in keys]


VALUES = st.one_of(
    st.integers(-12, 120),
    st.floats(-2, 12).map(lambda x: round(x, 1)),
    st.sampled_from(["", "1", "01", "1.0", "5.0", "-1", "True", "false", "00", "１", "1e1", "10", "100", "a\n"]),
    st.integers(0, 200).map(str),
    st.integers(0, 99).map(lambda n: f"{n:02}"),
    st.sampled_from([2**53, -(2**53), 1e300, 2**60, 0.1]),
)


@given(VALUES)
def test_a_value_is_where_it_would_be_among_as_many_categories(value):
    """Whatever a row holds, a pattern and a range count it as the declared list of the same keys would."""
    for domain in (range(12), range(1, 100, 3), r"\d{2}", r"\d", r"[01]\.[05]", "[-1]\\d", "[Tt]rue", r"\d{3}"):
        known = read_domain(domain)
        listed = tuple(known.key(place) for place in range(known.size))

        assert (
            code_book_of(listed).code(value, None) == known.position(value) == read_domain(listed).position(value)
        )


def test_a_domain_may_be_huge():
    """Of 10^15 texts, or numbers, the first, the last and any other are found at once."""
    texts, numbers = read_domain(r"\d{15}"), read_domain(range(10**15))

    for place in (0, 123_456_789_012_345, 10**15 - 1):
        assert (f"{place:015}", place) == (texts.key(place), numbers.key(place))
        assert (place, place) == (texts.position(f"{place:015}"), numbers.position(place))
    assert (10**15, 10**15) == (texts.size, numbers.size)


@pytest.mark.parametrize(("domain", "match"), [
    ("", "character 1"), ("ab*", "character 3"), ("a.", "character 2"), ("[^a]", "character 1"),
    ("[]", "character 1"), ("[z-a]", "character 1"), (r"a\w", "character 2"), (r"[\d-z]", "character 1"),
    ("a{0}", "character 2"), ("a{2,3}", "character 2"), ("a{1000}", "character 2"), ("(a)", "character 1"),
    ("a\\", "character 2"), (r"\d{16}", "more than 1,000,000,000,000,000 keys"), (r"\d{99}" * 2, "more than"),
    (r"a{999}" * 5, "256 characters"), ("ab{256}", "256 characters"), ("ab" * 10**5, "256 characters"),
    (range(10**15 + 1), "more than"), (range(5, 5), "no keys"), (range(2**53 + 2), r"beyond 2\^53"),
    ([], "at least one value"), (["a", "a"], "each value once"), ([1, True], "each value once"),
    ([math.nan], "finite numbers"), ([None], "finite numbers"), ({"a": 1}, "not a list, a range or a pattern"),
    (pd.Series(["a", "b"]), "tolist"), (5, "not a list, a range or a pattern"),
], ids=str)  # fmt: skip
def test_what_is_no_domain_is_refused_before_it_is_paid(domain, match):
    """A pattern that cannot be read, and what is empty, twice there, or too large: nothing is charged or read."""
    log = []
    table = table_of(Watched(log, {"x": ["a"]}))
    log.clear()

    with pytest.raises(DPError, match=match):
        Curator(table, Budget(log)).discover(table.schema.named("x"), domain=domain)

    assert [] == log


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
                assert n == draw_count_above(trials, scale, threshold, Digits(bound - gap))
                wanted = next(more for more in range(n + 1, trials + 1) if bound + gap < at_most(more, trials, p))
                assert wanted == draw_count_above(trials, scale, threshold, Digits(bound + gap))
                easy, hard = Digits(bound / 2), Digits(bound - mpmath.mpf("1e-60"))
                for digits in (easy, hard) if n == 0 and trials == 10**5 else ():
                    draw_count_above(trials, scale, threshold, digits)
                assert n or trials != 10**5 or (WORDS, 2 * WORDS) == (easy.words, hard.words)  # as many as it needs
        assert 0 == draw_count_above(0, scale, threshold, None)  # of none there are none, and of one at most one
        assert 1 == draw_count_above(1, scale, threshold, lambda below: below - 1)


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

    def uniform_below(self, n):
        return self.digits(n) if n == 2**32 else self.ranks.pop(0)


def law(counts, scale, threshold):
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


def law_of_draws(counts, scale, threshold):
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
                    found = Scripted(*script).sparse_counts(held, len(counts), scale, threshold)
                    seen = [found.get(place) for place in range(len(counts))]
                    probability = math.prod((each for _, each in of_zeros), start=likely)
                    law[tuple("more" if x and x >= threshold + REACH else x for x in seen)] += probability
    return law


@pytest.mark.parametrize(("counts", "scale", "threshold"), [
    ((0, 0), 1.5, 1), ((0, 2, 0), 1.5, 2), ((1, 0, 0), 0.7, 2), ((0, 3), 4.0, 1), ((3, 1), 1.0, 2),
], ids=str)  # fmt: skip
def test_its_law_is_that_of_noise_on_all_and_a_threshold(counts, scale, threshold):
    """By enumeration of all that is drawn, every outcome has the probability that noise on every zero gives it."""
    with mpmath.workdps(60):
        wanted = law(counts, scale, threshold)
        found = law_of_draws(counts, scale, threshold)

        assert set(wanted) == set(found)
        assert max(abs(wanted[seen] - found[seen]) for seen in wanted) < mpmath.mpf("1e-50")


@pytest.mark.parametrize("sampler", [SeededSampler(3), OpenDPSampler()])
def test_draws_of_both_samplers_have_the_law_of_noise_on_all(sampler):
    """Draws for seven keys, of which two have rows, are as of noise on all seven: places, values, and together."""
    # The law itself is enumerated above; here are draws that nobody wrote down. Values of all five zeros together,
    # 25,000 of them beside 500,000 with noise on all, tell if those that reach the threshold do so with a scale of
    # 1.3 times the right one: noncentrality 122 at 5 degrees of freedom, which is missed once in a million times.
    counts, size, scale, threshold, draws = {1: 2, 4: 5}, 7, 1.3, 3, 5_000
    every = np.zeros((20 * draws, size), dtype=np.int64)
    every[:, [*counts]] = [*counts.values()]
    direct = SeededSampler(4).laplace(every, scale)

    found = np.zeros((draws, size), dtype=np.int64)
    for row in found:
        shown = sampler.sparse_counts(counts, size, scale, threshold)
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


class Counted(SeededSampler):
    """SeededSampler noise that counts what is drawn."""

    def __init__(self, seed):
        super().__init__(seed)
        self.noises = self.numbers = 0

    def laplace(self, values, scale):
        self.noises += values.size
        return super().laplace(values, scale)

    def uniform_below(self, n):
        self.numbers += 1
        return super().uniform_below(n)


@pytest.mark.parametrize("size", [10**4, 10**9, 10**15])
def test_what_is_drawn_does_not_grow_with_the_domain(size):
    """For a thousand keys that are held, a thousand draws of noise and a few more, however large the domain is."""
    sampler = Counted(1)
    threshold = calibrate.sparse_threshold(2.0, size, 0.05)

    found = sampler.sparse_counts({place * (size // 1000): 1000 for place in range(1000)}, size, 2.0, threshold)

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


def test_noise_and_thresholds_are_of_64_bits():
    """Noise of a zero that goes beyond them stays there; one below 1, or that they hardly hold, is no threshold."""
    huge = 2**63 - 1

    assert {0: huge} == Scripted([], 0.9, [0], [huge]).sparse_counts({}, 1, 2.0, 1)
    for threshold in (0, -3, 2**62):
        with pytest.raises(ArgumentError, match="out of range"):
            SeededSampler(1).sparse_counts({}, 10, 2.0, threshold)


# ---- what is counted, and what it costs ------------------------------------------------------------------


class Budget:
    """What pays for a call, and notes when."""

    basic_composition = True

    def __init__(self, log, epsilon="1", delta="0"):
        self.epsilon, self.delta, self.log = Fraction(epsilon), Fraction(delta), log

    def pay(self, losses, reserve):
        self.log += losses


class Watched:
    """A table that notes when its rows are read."""

    def __init__(self, log, data):
        self.log, self.table = log, pa.table(data)

    def __arrow_c_stream__(self, requested_schema=None):
        self.log.append("read")
        return self.table.__arrow_c_stream__(requested_schema)


def drawn(table, domain, epsilon="1"):
    """What is drawn for the keys of a domain, what is paid, and what is said."""
    log, sampler = [], Replay()
    with noise.use_sampler(sampler):
        found = Curator(table, Budget(log, epsilon)).discover(table.schema.named("x"), domain=domain)
    [draw] = sampler.draws
    return draw, log, found


@pytest.mark.parametrize(("neighbors", "moved"), [("replace_one", 2), ("add_remove", 1)])
@pytest.mark.parametrize("epsilon", ["1/3", "1", "7"])
def test_it_pays_first_and_draws_what_was_proved(neighbors, moved, epsilon):
    """Laplace noise for what a row moves is charged, then rows are read; the threshold is of public numbers."""
    log = []
    table = table_of(Watched(log, {"x": ["b", "a", "b", None, "zzz"]}), neighbors=neighbors)
    log.clear()
    scale = calibrate.laplace_scale(moved, Fraction(epsilon))
    threshold = calibrate.sparse_threshold(scale, 26)

    draw, paid, found = drawn(table, "[a-z]", epsilon)

    assert [Laplace(moved, scale, Fraction(epsilon))] == paid
    assert ["read"] == log
    assert ("sparse", scale, (scale, threshold, 26)) == (draw.kind, draw.scale, draw.law)
    assert {0: 1, 1: 2} == dict(zip(draw.keys, draw.sums.tolist(), strict=True))
    assert (threshold, scale, 26) == (found.threshold, found.scale, found.domain)
    assert 0 < found.false <= 0.05


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_people_of_many_rows_have_noise_for_all_of_them(neighbors):
    """Where a person may have three rows, the noise is for three, and at most three of each are counted."""
    frame = pd.DataFrame({"who": [1] * 5 + [2], "x": ["a"] * 5 + ["b"]})
    view = dp.protect(frame, "people", epsilon=1000, neighbors=neighbors, unit="who", max_rows=3)
    plan = view.explain("known_keys", "x", domain="[a-z]", epsilon=1)
    found = view.known_keys("x", domain="[a-z]", epsilon=500)

    [said] = found.privacy.noise
    assert re.search("rows of each key of x in a domain of 26, shown if at least ", " ".join(repr(plan).split()))
    assert 3 * RELATIONS[neighbors] == said.sensitivity
    assert {"a": 3, "b": 1} == dict(zip(found.value["keys"], found.value["counts"], strict=True))


@pytest.mark.parametrize("accounting", ["basic", "rdp", "gdp", "portfolio"])
def test_it_is_charged_as_laplace_noise(accounting):
    """Its price is that of any sum with the same noise, in every currency: the account has as much left."""
    frame, terms = (
        plain(["a", "b"] * 300),
        {"accounting": accounting, "delta": "1e-6", "categories": {"x": ["a", "b"]}},
    )
    sums, keys = (dp.protect(frame, f"{accounting} {at}", epsilon=5, **terms) for at in "ab")

    sums.value_counts("x", epsilon="1/2")
    keys.known_keys("x", domain="[a-z]", epsilon="1/2")

    assert sums.budget.spent == pytest.approx(keys.budget.spent, rel=1e-3)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_no_row_moves_more_than_is_charged(neighbors):
    """Over all neighbouring tables of up to three rows, with missing and foreign values; some pair is as far."""
    values = ["a", "b", None, "zzz", 1]
    tables = {
        rows: dict(zip(draw.keys, draw.sums.tolist(), strict=True))
        for size in (1, 2, 3)
        for rows in itertools.product(values, repeat=size)
        for draw in [drawn(table_of(plain([*rows]), neighbors=neighbors), "[ab1]")[0]]
    }
    far = [
        sum(abs(one.get(place, 0) - other.get(place, 0)) for place in range(3))
        for rows, one in tables.items()
        for near in neighbours(rows, values, neighbors)
        if (other := tables.get(near)) is not None
    ]

    assert RELATIONS[neighbors] == max(far)


def neighbours(rows, values, relation):
    if relation == "add_remove":
        return [rows[:at] + rows[at + 1 :] for at in range(len(rows))]
    return [(*rows[:at], value, *rows[at + 1 :]) for at in range(len(rows)) for value in values]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(5)])
@pytest.mark.parametrize("threshold", [1, 3, 20])
def test_neighbouring_tables_differ_by_epsilon_at_most(relation, epsilon, threshold):
    """By enumeration of all that is seen of the keys that differ, no chance is off by more, wherever they stand."""
    with mpmath.workdps(50):
        scale = calibrate.laplace_scale(RELATIONS[relation], epsilon)
        most = max(
            abs(mpmath.log(p / other[seen]))
            for pair in pairs(relation)
            for one, other in itertools.permutations([law(counts, scale, threshold) for counts in pair])
            for seen, p in one.items()
        )

        limit = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        assert most <= limit + mpmath.mpf("1e-45")  # of 50 digits
        assert threshold > 5 or most > limit * (1 - mpmath.mpf("1e-12"))  # where both keys may reach it


def pairs(relation, most=5):
    """Counts of the keys that differ, on neighbouring tables."""
    if relation == "add_remove":
        return [((count,), (count + 1,)) for count in range(most)]
    return [((a + 1, b), (a, b + 1)) for a, b in itertools.product(range(most), repeat=2)]


def test_public_keys_are_exact_and_free():
    """All keys of a public column that are in the domain are shown, and nothing else is."""
    log = []
    table = table_of(plain(["a", "b", "a", "B", None]), public=["x"])

    found = Curator(table, Budget(log)).discover(table.schema.named("x"), domain="[a-z]")

    assert (("a", "b"), [2, 1], 0.0, None) == (found.keys, found.counts.tolist(), found.scale, found.noise)
    assert [] == log
    assert 0 == found.false


def test_a_request_holds_a_range():
    """A range goes into a request's file and comes out, and what only looks like one does not."""
    for said in (range(5), range(9, -3, -4), [range(10**15)]):
        assert said == decode_argument(json.loads(json.dumps(encode_argument(said, "domain="))))
    for wrong in (
        {"$range": [0, 5, 0]},
        {"$range": [0, 5]},
        {"$range": [0, 5, 1.0]},
        {"$range": [0, 5, 1], "x": 1},
    ):
        with pytest.raises(ValueError, match=r"^$"):
            decode_argument(wrong)
