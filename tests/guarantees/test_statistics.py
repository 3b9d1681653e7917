"""The verbs for statistics with a proved sensitivity: their laws, their privacy on small inputs, their refusals."""

# ruff: noqa: PD011 - measurements have values, too
from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.losses import BoundedRange, Pure
from dfprivacy.features import OneHot
from dfprivacy.statistics import OfPermutations, OfRows, OfSums
from dfprivacy.testing import seeded_noise


class Largest(OfSums):
    """The counts of a column, or the largest of them, or anything else, fifty times."""

    def __init__(self, column, *, each=False, instead=None, times=1):
        self.features = OneHot(column)
        self.columns = (column,)
        self.each, self.instead = each, instead
        self.shape = self.features.shape if each else (times,)

    def value(self, sums):
        if self.instead == "raise":
            np.float64(1) / np.float64(0)
            raise ValueError(f"the counts are {sums}")
        return sums if self.each else np.full(self.shape, sums.max() if self.instead is None else self.instead)

    def sensitivity(self, relation, norm, public):
        if self.columns[0].name in public:
            return 0.0
        moved = self.shape[0] if not self.each else 1 if relation == "add_remove" else 2
        return float(moved) if norm == 1 else 1.0


class Spread(OfRows):
    """The range of a column and half of it, which have a bound only where the number of rows is public."""

    shape = (2,)
    weights = np.array([1.0, 0.5])

    def __init__(self, column, error=0.0):
        self.columns = (column,)
        self.error = error

    def value(self, rows):
        x = rows.values(self.columns[0])
        return (x.max() - x.min()) * np.array([1.0, 0.5]) * self.weights

    def sensitivity(self, relation, norm, public):
        width = self.columns[0].bounds[1] - self.columns[0].bounds[0]
        return math.inf if relation == "add_remove" else width * (1.25 if norm == 1 else 1.0)


class Rearranged(OfPermutations):
    """How often a column agrees with the first half of the rows, as they are and rearranged."""

    def __init__(self, column, count=99):
        self.columns = (column,)
        self.shape = (count + 1,)

    def value(self, rows, rng):
        x = rows.codes(self.columns[0])
        half = x.size // 2
        orders = [np.arange(x.size), *(rng.permutation(x.size) for _ in range(self.dimension - 1))]
        return [x[order[:half]].sum() for order in orders]

    def sensitivity(self, relation, norm, public):
        return 0.0 if self.columns[0].name in public else 1.0


@dp.mechanism(columns={"column": "numeric"}, delta=True)
def spread(curator, column, noise="laplace", error=0.0):
    measured = curator.measure(Spread(column, error), noise=noise)
    return {"values": measured.values.tolist(), "scales": measured.scales.tolist()}


@dp.mechanism(columns={"column": "category"})
def largest(curator, column, instead=None, times=1):
    return curator.measure(Largest(column, instead=instead, times=times)).values.tolist()


@dp.mechanism(columns={"column": "category"})
def commonest(curator, column, top=1):
    return [column.categories[i] for i in curator.select(Largest(column, each=True), top=top)]


@dp.mechanism(columns={"column": "category"})
def common(curator, column, threshold=10.0, most=1):
    scales = []

    def at(first, second):
        scales.extend([first, second])
        return threshold

    found = curator.above_threshold(Largest(column, each=True), at, most=most)
    return {"reached": found.reached.tolist(), "scales": scales}


@dp.mechanism(columns={"column": "category"})
def rearranged(curator, column, alpha=None):
    return curator.permutation_test(Rearranged(column), alpha=alpha)


@pytest.fixture(autouse=True)
def verbs():
    """The mechanisms of this page, for one test."""
    mine = [spread, largest, commonest, common, rearranged]
    for each in mine:
        dp.register_mechanism(each)
    yield
    for each in mine:
        dp.unregister(each.name)


FRAME = pd.DataFrame({"g": list("aaabbbbcdd") * 8, "x": np.tile([0.5, 1.5, 2.0, 3.75], 20), "p": list("uv") * 40})
TERMS = {"bounds": {"x": (0, 4)}, "categories": {"g": list("abcd"), "p": ["u", "v"]}}
NAMES = (f"statistics-{number}" for number in itertools.count())


def view(frame=None, **terms):
    epsilon = 200 if "delta" in terms else 1000
    frame = FRAME.copy() if frame is None else frame
    return dp.protect(frame, next(NAMES), ledger="memory:", **{"epsilon": epsilon, **TERMS, **terms})


# measure


def test_a_measured_statistic_is_its_value_and_noise_for_its_sensitivity():
    """The joint sensitivity sets the noise, a bound on rounding adds to it, and weights divide value and scale."""
    release = view().spread("x", epsilon=5)
    rough = view().spread("x", epsilon=5, error=0.25)
    gaussian = view(delta=1e-6, accounting="basic").spread("x", noise="gaussian", epsilon=1, delta=1e-6)

    found = release.value
    assert found["scales"] == pytest.approx([1, 2], rel=1e-7)
    assert abs(found["values"][0] - 3.25) < 20
    sensitivities = [each.privacy.noise[0].sensitivity for each in (release, rough, gaussian)]
    assert sensitivities == pytest.approx([5, 5 + 2 * 2 * 0.25, 4], rel=1e-6)
    assert gaussian.value["scales"][0] == pytest.approx(4 * 4.2246788893, rel=1e-6)


def test_the_noise_of_a_statistic_is_the_law_that_was_charged():
    """What is added to the exact value follows the Laplace law of the scale in the ledger, in every coordinate."""
    noisy = [x - 32 for x in view().largest("g", times=1500, epsilon=750).value]

    assert stats.kstest(noisy, stats.laplace(scale=2.0).cdf).pvalue > 1e-7


@pytest.mark.parametrize("instead", [math.nan, math.inf, "raise"])
def test_a_statistic_that_is_no_number_fails_or_warns_says_nothing_of_the_rows(instead):
    """It counts as zero, the charge stays, and a warning is swallowed: an error would tell on the rows."""
    private = view()
    found = private.largest("g", instead, times=50, epsilon=500).value

    assert max(map(abs, found)) < 5
    assert private.budget.spent == 500


@pytest.mark.parametrize(("public", "factor"), [((), 2.0), (("p",), 1.0)])
def test_groups_of_a_private_column_share_one_price_at_twice_the_noise(public, factor):
    """A row that changes its group moves two statistics; one of a public group moves one."""
    private = view(public=public)
    found = private.group_by("p").largest("g", epsilon=0.5)

    assert [n.scale for n in found.privacy.noise] == pytest.approx([2 * factor] * 2, rel=1e-6)
    assert private.budget.spent == 0.5


def test_a_statistic_of_public_columns_is_exact_and_free():
    """Nothing private is looked at, so nothing is charged and nothing added."""
    private = view(public=["g"])

    assert private.largest("g", epsilon=1).value == [32.0]
    assert private.budget.spent == 0


# select

SCORES = {0: 0, 1: 2, 2: 4}


def exponential(scores, scale):
    weights = {i: math.exp(score / scale) for i, score in scores.items()}
    return {i: w / sum(weights.values()) for i, w in weights.items()}


def permute_and_flip(scores, scale):
    best = max(scores.values())
    law = Counter()
    orders = list(itertools.permutations(scores))
    for order in orders:
        left = 1.0 / len(orders)
        for i in order:
            heads = math.exp((scores[i] - best) / scale)
            law[i] += left * heads
            left *= 1 - heads
    return law


def fits(found, law):
    """Compare counts with a law."""
    keys, runs = sorted(law), sum(found.values())
    return stats.chisquare([found[key] for key in keys], [runs * law[key] for key in keys]).pvalue > 1e-7


@pytest.mark.statistical
@pytest.mark.parametrize(("flip", "law"), [(True, permute_and_flip), (False, exponential)])
@pytest.mark.parametrize(("sampler", "runs"), [("OpenDP", 4_000), ("seeded", 10_000)])
def test_selections_follow_their_law(flip, law, sampler, runs):
    """Both samplers select one position after the other with the probabilities of the mechanism."""
    scores = np.array(list(SCORES.values()), dtype=np.int64)
    with seeded_noise(8) as seeded:
        source = noise.OpenDPSampler() if sampler == "OpenDP" else seeded
        found = Counter(tuple(source.noisy_top_k(scores, 4.0, 2, flip=flip)) for _ in range(runs))

    expected = {}
    for i, p in law(SCORES, 4.0).items():
        rest = {j: score for j, score in SCORES.items() if j != i}
        expected |= {(i, j): p * q for j, q in law(rest, 4.0).items()}
    assert fits(found, expected)


@pytest.mark.parametrize("law", [permute_and_flip, exponential])
def test_selections_keep_their_promise_on_all_small_scores(law):
    """With scale 2 Δ k / ε no two vectors of scores that differ by Δ everywhere are told apart by more than ε."""
    epsilon, top = 1.0, 1
    vectors = list(itertools.product(range(4), repeat=3))
    laws = {v: law(dict(enumerate(v)), 2 * top / epsilon) for v in vectors}
    worst = max(
        abs(math.log(laws[a][i] / laws[b][i]))
        for a, b in itertools.product(vectors, repeat=2)
        if max(abs(x - y) for x, y in zip(a, b, strict=True)) <= 1
        for i in range(3)
    )

    assert 0.5 * epsilon < worst <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize(("terms", "loss", "kind"), [
    ({}, Pure(Fraction(1, 2)), "permute-and-flip"),
    ({"delta": 1e-6}, BoundedRange(Fraction(1, 2)), "exponential mechanism"),
])  # fmt: skip
def test_a_selection_is_charged_as_what_it_is(terms, loss, kind):
    """Where epsilons add up a selection is any pure release; elsewhere its bounded range counts for it."""
    private = view(**terms)
    asked = private.commonest("g", top=2, epsilon=1)
    accountant = private._target.account.accountant
    spent = accountant.after(accountant.after(accountant.no_charges, loss), loss)

    assert asked.privacy.noise[0].kind == kind
    assert private._target.account.spent() == spent
    assert view().commonest("g", top=4, epsilon=100).value == ["b", "a", "d", "c"]


# above_threshold


def laplace_law(scale, reach):
    support = np.arange(-reach, reach + 1)
    p = np.tanh(1 / (2 * scale)) * np.exp(-np.abs(support) / scale)
    return support, p


def sparse_law(gaps, scales, most):
    """Exact probabilities of all answers."""
    moves, weights = laplace_law(scales[0], 400)
    law = {}
    for answer in itertools.product([False, True], repeat=len(gaps)):
        if sum(answer) > most:
            continue
        end = len(gaps) if sum(answer) < most else max(i for i, a in enumerate(answer) if a) + 1
        if any(answer[end:]):
            continue
        p = weights.copy()
        for gap, positive in zip(gaps[:end], answer[:end], strict=True):
            # P(gap + v >= r) for discrete Laplace v
            x = moves - gap
            q = np.exp(-1 / scales[1])
            above = np.where(x > 0, q ** np.maximum(x, 0) / (1 + q), 1 - q ** np.maximum(1 - x, 0) / (1 + q))
            p = p * (above if positive else 1 - above)
        law[answer[:end]] = float(p.sum())
    return law


@pytest.mark.statistical
@pytest.mark.parametrize("most", [1, 2])
def test_a_sparse_vector_follows_its_law(most):
    """The sampler answers with the exact probabilities, and ends where it should."""
    gaps, scales = np.array([-3, 1, 4], dtype=np.int64), (4.0, 8.0)
    with seeded_noise(10) as sampler:
        found = Counter(tuple(sampler.sparse_vector(gaps, scales, most).tolist()) for _ in range(10_000))

    law = sparse_law(gaps.tolist(), scales, most)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert fits(found, law)


@pytest.mark.parametrize("most", [1, 2])
def test_a_sparse_vector_keeps_its_promise_on_all_small_values(most):
    """No two vectors that differ by Δ everywhere are told apart by more than ε; with less noise some are."""
    delta, epsilon = 2, 1.0
    first = epsilon / (1 + (2 * most) ** (2 / 3))
    honest = (delta / first, 2 * most * delta / (epsilon - first))

    def worst(scales):
        return max(
            abs(math.log(law[answer] / p))
            for gaps in [(0, 0, 0), (-9, 12, -9), (25, -25, 25), (-12, -12, 9)]
            for law in [sparse_law(gaps, scales, most)]
            for shift in itertools.product([-delta, delta], repeat=3)
            for answer, p in sparse_law([a + s for a, s in zip(gaps, shift, strict=True)], scales, most).items()
        )

    assert worst(honest) <= epsilon
    assert worst((honest[0] / 4, honest[1] / 4)) > epsilon


def test_thresholds_are_told_the_scales_in_the_statistics_units():
    """The split is Lyu's, the scales are those that are drawn; after the last that is reached no more is said."""
    found = view().common("g", threshold=28.0, most=2, epsilon=60).value
    first = 60 / (1 + 4 ** (2 / 3))

    assert found["scales"] == pytest.approx([1 / first, 4 / (60 - first)], rel=1e-6)
    assert found["reached"] == [False, True, False, False]  # 24, 32, 8, 16
    assert view().common("g", threshold=5.0, most=1, epsilon=60).value["reached"] == [True]


# permutation_test


@pytest.mark.statistical
def test_the_rank_of_one_among_equals_is_uniform():
    """Ties are broken by chance, so the place of the first of equal values is uniform."""
    with seeded_noise(13) as sampler:
        found = Counter(sampler.permutation_rank(np.zeros(4, dtype=np.int64), 0.7) for _ in range(10_000))

    assert fits(found, dict.fromkeys(range(1, 5), 0.25))


@pytest.mark.parametrize(("alpha", "factor"), [(0.05, 2.0), (None, 4.0)])
def test_a_p_value_takes_twice_the_noise_of_a_decision(alpha, factor):
    """Noise of 2 Δ/ε for a decision, 4 Δ/ε for the p-value; both cost epsilon."""
    private = view()
    found = private.rearranged("g", alpha=alpha, epsilon=0.5)

    assert found.privacy.noise[0].scale == pytest.approx(factor / 0.5, rel=1e-6)
    assert isinstance(found.value, float if alpha is None else bool)
    assert private.budget.spent == 0.5


def ranks(values, others, scale):
    """Exact law of the rank of one value among independent others, each drawn from `others`, all with noise."""
    support, p = laplace_law(scale, 300)
    reached = np.append(np.cumsum(p[::-1])[::-1], 0.0)  # the probabilities of each number of the support or more
    exactly = np.append(p, 0.0)
    at = {t: np.clip(support + values - t + 300, 0, 601) for t in set(others)}
    tail = {t: reached[place] for t, place in at.items()}
    atom = {t: np.where(support + values - t < -300, 0.0, exactly[place]) for t, place in at.items()}
    above = sum(tail[t] - atom[t] for t in others) / len(others)
    equal = sum(atom[t] for t in others) / len(others)
    below = 1 - above - equal
    # Two others, drawn independently; ties broken uniformly.
    law = {
        1: below**2 + below * equal + equal**2 / 3,
        2: 2 * above * below + (below + above) * equal + equal**2 / 3,
        3: above**2 + above * equal + equal**2 / 3,
    }
    return {r: float((q * p).sum()) for r, q in law.items()}


def test_a_p_value_keeps_its_promise_on_small_inputs():
    """Over neighbouring inputs the exact law of the place moves by ε at most."""
    scale = 4.0  # Δ = 1, ε = 1: the price of a p-value
    worst = 0.0
    for first, others in itertools.product([0, 3, 8], [(-2, 2), (0, 8), (-6, 9)]):
        law = ranks(first, others, scale)
        for shift in itertools.product([-1, 1], repeat=3):
            other = ranks(first + shift[0], tuple(o + s for o, s in zip(others, shift[1:], strict=True)), scale)
            worst = max(worst, *(abs(math.log(law[r] / other[r])) for r in law))

    assert 0.1 < worst <= 1.0


def test_a_p_value_at_the_price_of_a_decision_would_break_its_promise():
    """With many rearrangements the p-value has density f(t)/g(t), which moves by 1.1236 ε at noise 2 Δ/ε."""
    b, atoms, weights = 2.0, np.array([-1.149, 2.725]), np.array([0.0624, 0.9376])
    f = stats.laplace(scale=b)

    def density(first, places, at):
        return f.pdf(at - first) / float(weights @ f.pdf(at - places))

    def tail(places, at):
        return float(weights @ f.sf(at - places))

    t = -1.051
    moved = atoms + np.array([-1.0, 1.0])
    u = tail(atoms, t)
    low, high = -50.0, 50.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(moved, middle) > u else (low, middle)
    first = density(1.227, atoms, t)
    ratio = max(abs(math.log(density(1.227 + shift, moved, low) / first)) for shift in (-1, 1))

    assert ratio == pytest.approx(1.1236, abs=2e-3)


@pytest.mark.statistical
def test_the_level_of_a_permutation_test_is_exact():
    """Under the null hypothesis the p-value is uniform over its 100 values."""
    rng, groups = np.random.default_rng(15), [f"group {i}" for i in range(400)]
    frame = pd.DataFrame({"g": rng.choice(list("abcd"), 400 * 20), "r": groups * 20})
    terms = {"public": ["r"], "categories": {"g": list("abcd"), "r": groups}}
    asked = view(frame, bounds=None, **terms).group_by("r").rearranged("g", epsilon=1)
    found = np.array([each.value for each in asked.releases])

    assert stats.kstest(found - rng.uniform(0, 0.01, 400), "uniform").pvalue > 1e-7


# refusals

UNBOUNDED = "The sensitivity of .* is infinite"
REFUSED = [
    *(({"public": ["g"]}, lambda v, name=name: getattr(v, name)("g", epsilon=1), "public columns only")
      for name in ("commonest", "common", "rearranged")),
    ({}, lambda v: v.where({"g": "b"}).spread("x", epsilon=1), UNBOUNDED),
    ({}, lambda v: v.group_by("g").spread("x", epsilon=1), UNBOUNDED),
    ({"neighbors": "add_remove"}, lambda v: v.spread("x", epsilon=1), UNBOUNDED),
    *(({}, lambda v, top=top: v.commonest("g", top=top, epsilon=1), f"top={top} of 4 scores")
      for top in (0, 5, -1)),
    *(({}, lambda v, most=most: v.common("g", most=most, epsilon=1), f"most={most} is not from 1 to 4")
      for most in (0, 5)),
    *(({}, lambda v, alpha=alpha: v.rearranged("g", alpha=alpha, epsilon=1), "alpha")
      for alpha in (0.0, 1.0, -0.1, math.nan)),
]  # fmt: skip


@pytest.mark.parametrize(("terms", "ask", "words"), REFUSED)
def test_what_cannot_be_measured_is_refused_before_any_charge(terms, ask, words):
    """Where rows may come and go some sensitivities are infinite; a decision about public columns is not sold."""
    private = view(delta=1e-6, **terms)

    with pytest.raises(dp.ArgumentError, match=words):
        ask(private)
    assert private.budget.spent == 0
