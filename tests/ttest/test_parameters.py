"""The t-tests on the engine: reference values, duality, level and power."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from dfprivacy import ArgumentError
from dfprivacy.inference.engine import infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.inference.notes import notes, skewness, unreliable, worst_pvalue
from dfprivacy.laws import NoiseLaw
from dfprivacy_ttest.exact import normal_laplace_cdf, normal_two_laplace_cdf
from dfprivacy_ttest.parameters import parameter, textbook

ALTERNATIVES = ["two-sided", "less", "greater"]


def public(total, squares, n, b=2.0, b2=4.0):
    """A release of the sums of y and y² of a public number of rows."""
    return NoisyMoments(np.array([[total, squares]]), [NoiseLaw(b), NoiseLaw(b2)], np.array([float(n)]))


def private(total, squares, n, b=1.5):
    """A release of the sums of y, 1 - y² and y²."""
    laws = [NoiseLaw(b), NoiseLaw(b), NoiseLaw(2 * b)]
    return NoisyMoments(np.array([[total, n - squares, squares]]), laws, form="private")


def beside(total, squares, n, rows, b=2.0):
    """A release of the sums of y, 1 - y² and 1 of a public number of rows."""
    laws = [NoiseLaw(b), NoiseLaw(2 * b), NoiseLaw(b)]
    return NoisyMoments(np.array([[total, n - squares, n]]), laws, np.array([float(rows)]), "beside")


def pair(first, second):
    """The release of two groups."""
    rows = None if first.rows is None else np.concatenate([first.rows, second.rows], axis=-1)
    return replace(first, values=np.concatenate([first.values, second.values], axis=-2), rows=rows)


def known(sums, *, naive=False, draws=1024, **of):
    """What is known of the mean, or of the difference."""
    tested = parameter(sums.values.shape[-2], **of)
    return textbook(sums, tested) if naive else infer(sums, tested, draws)


PUBLIC, OTHER = public(30.0, 40.0, 400), public(-12.0, 61.0, 300)
PRIVATE, PRIVATE_OTHER = private(30.0, 40.0, 396.5), private(-12.0, 61.0, 303.7)
BESIDE = beside(30.0, 40.0, 397.1, 400)


def every_test(*, naive=False):
    """All tests of this module on one release each, and their null hypotheses."""
    return [
        *([] if naive else [(known(PUBLIC, sigma=0.3), 0.05), (known(PRIVATE, sigma=0.3), 0.05)]),
        (known(PUBLIC, naive=naive), 0.05),
        (known(PRIVATE, naive=naive), 0.05),
        (known(BESIDE, naive=naive), 0.05),
        (known(pair(PUBLIC, OTHER), naive=naive), 0.0),
        (known(pair(PUBLIC, OTHER), equal_var=True, naive=naive), 0.0),
        (known(pair(PRIVATE, PRIVATE_OTHER), naive=naive), 0.0),
        (known(pair(PRIVATE, PRIVATE_OTHER), equal_var=True, naive=naive), 0.0),
    ]


def interval(found, confidence=0.95, alternative="two-sided"):
    return tuple(float(end) for end in found.interval(confidence, alternative))


def test_a_known_variance_is_the_convolution():
    """With a known standard deviation the p-value is P(|N(0, sd²/n) + Laplace(b/n)| > |D|)."""
    se = 0.3 / math.sqrt(400)
    distance = 30 / 400 - 0.05

    expected = 2 * normal_laplace_cdf(-distance / se, se * 400 / 2)

    assert known(PUBLIC, sigma=0.3, draws=16384).pvalue(0.05) == pytest.approx(float(expected), rel=1e-3)


def test_a_noisy_size_adds_its_noise():
    """Beside the noise of the sum there is that of the size, in proportion to the hypothetical mean."""
    n, se = 397.1, 0.3 / math.sqrt(397.1)

    expected = 2 * normal_two_laplace_cdf(-(30 / n - 0.05) / se, se * n / 2, se * n / (0.05 * 2))
    result = known(BESIDE, sigma=0.3, draws=16384)

    assert result.pvalue(0.05) == pytest.approx(float(expected), rel=2e-2)
    assert result.noise_standard_error == pytest.approx(math.sqrt(2 * 2**2 * (1 + 0.0756**2)) / n, rel=0.02)
    assert result.standard_error == pytest.approx(math.hypot(se, result.noise_standard_error), rel=1e-3)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("sizes", [(15, 22), (3, 4), (2, 30), (400, 5)])
@pytest.mark.parametrize("naive", [False, True])
def test_without_noise_it_is_scipys_t_test(sizes, alternative, naive):
    """Without noise both methods are the textbook's: p-value, degrees of freedom and interval."""
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-0.02, 0.02, size) for size in sizes)
    first, second = (public(y.sum(), (y**2).sum(), len(y), 1e-12, 1e-12) for y in (a, b))
    both, how = pair(first, second), {"alternative": alternative}

    pairs = [
        (known(first, naive=naive), 0.01, stats.ttest_1samp(a, 0.01, **how)),
        (known(both, naive=naive), 0.0, stats.ttest_ind(a, b, equal_var=False, **how)),
        (known(both, equal_var=True, naive=naive), 0.0, stats.ttest_ind(a, b, **how)),
    ]

    for ours, null, scipys in pairs:
        assert (ours.estimate - null) / ours.standard_error == pytest.approx(scipys.statistic, rel=1e-5)
        assert ours.degrees_of_freedom == pytest.approx(scipys.df, rel=1e-5)
        assert ours.pvalue(null, alternative) == pytest.approx(scipys.pvalue, rel=1e-4, abs=1e-12)
        assert interval(ours, 0.9, alternative) == pytest.approx(tuple(scipys.confidence_interval(0.9)), rel=1e-4)


def test_naive_is_undefined_without_a_positive_variance():
    """Where the noisy variance is not positive, the naive test has no number."""
    result = known(public(30.0, -3.0, 400), naive=True)

    assert math.isnan(result.pvalue(0.0))
    assert all(math.isnan(end) for end in interval(result))


@pytest.mark.parametrize("naive", [False, True])
def test_one_sided_pvalues_complete_each_other(naive):
    """The alternative on the estimate's side has the smaller p-value, half of the other; both add up to one."""
    for found, null in every_test(naive=naive):
        low, high, two = (float(found.pvalue(null, side)) for side in ("less", "greater", "two-sided"))

        assert 0 <= min(low, high, two) <= max(low, high, two) <= 1
        assert low + high == pytest.approx(1, abs=1e-12)
        assert two == pytest.approx(2 * min(low, high), rel=1e-12)
        assert (high < low) == (found.estimate > null)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("naive", [False, True])
def test_intervals_hold_what_is_not_rejected(alternative, naive):
    """The ends of the interval are the hypotheses whose p-value is one minus the confidence."""
    for found, _ in every_test(naive=naive):
        low, high = interval(found, 0.9, alternative)

        assert (math.isinf(low), math.isinf(high)) == (alternative == "less", alternative == "greater")
        ends = [end for end in (low, high) if math.isfinite(end)]
        assert [float(found.pvalue(end, alternative)) for end in ends] == pytest.approx([0.1] * len(ends), rel=1e-6)


def test_more_confidence_needs_a_wider_interval():
    """Intervals are nested."""
    for found, _ in [*every_test(), *every_test(naive=True)]:
        narrow, wide = interval(found, 0.8), interval(found, 0.99)

        assert wide[0] < narrow[0] < found.estimate < narrow[1] < wide[1]


def test_arrays_of_releases_are_tested_one_by_one():
    """An array of releases gives the same as each release alone."""
    values = np.array([[30.0, 40.0], [-5.0, -9.0], [300.0, 399.0]])
    alone = [known(public(*each, 400)) for each in values]

    together = known(replace(PUBLIC, values=values[:, None], rows=np.full((3, 1), 400.0)))

    assert together.pvalue(0.05) == pytest.approx([float(each.pvalue(0.05)) for each in alone], rel=1e-12)
    assert together.interval()[0] == pytest.approx([interval(each)[0] for each in alone], rel=1e-9)


@pytest.mark.parametrize(("mean", "most"), [(0.0, 1.001), (0.3, 1.01), (0.5, 1.02), (0.75, 1.04)])
def test_leaving_rows_out_costs_complete_data_hardly_any_accuracy(mean, most):
    """At 1,000 rows, none missing, and ε = 1, a noisy number of rows widens the error by a few percent at most."""
    n, sd = 1000, 0.25
    squares = n * (mean**2 + sd**2)
    filled, left_out = public(n * mean, squares, n), beside(n * mean, squares, n, n)

    errors = [float(known(sums, draws=8192).standard_error) for sums in (left_out, filled)]

    assert errors[0] / errors[1] + 5e-3 >= 1
    assert errors[0] / errors[1] <= most + 5e-3
    assert errors[1] == pytest.approx(math.sqrt(sd**2 / n + 8 / n**2), rel=0.02)


# What is said about a result.


@pytest.mark.parametrize(
    ("sums", "words"),
    [
        (public(30.0, 200.0, 400), []),
        (private(0.1, 1.0, -2.0), ["mostly noise"]),
        (private(0.1, 1.0, 12.0), ["mostly noise", "at least", "wilcoxon() compares ranks"]),
        (public(1.0, 5.0, 18, 20, 40), ["Uninformative", "compares ranks"]),
        (public(10.0, 60.0, 400, 40, 80), ["times the rows", "compares ranks"]),
        (public(10.0, 60.0, 400, 8, 16), ["compares ranks"]),
        (public(6.4, 9.5, 1000, 0.2, 0.4), ["near normal"]),
        (public(16.0, 9.5, 1000, 0.2, 0.4), []),
        (public(6.0, 9.5, 1000, 0.2, 0.4), []),
    ],
)
def test_notes(sums, words):
    """What makes a result doubtful or uninformative is said, and nothing else."""
    result = known(sums)

    found = notes(result, sums, float(result.pvalue(0.0)), 0.05)

    assert len(found) == len(words), found
    assert all(word in note for word, note in zip(words, found, strict=True))


def test_a_shape_that_cannot_decide_is_not_mentioned():
    """A note on skewness needs a rejection that the worst skewness would undo; a known spread needs none."""
    sums = public(7.0, 9.5, 1000, 0.2, 0.4)
    found = known(sums)
    p = float(found.pvalue(0.0))
    worst = worst_pvalue(p, skewness(found, sums))

    assert (p, worst) == pytest.approx((0.0238, 0.0509), abs=1e-3)
    assert [unreliable(p, worst, level) for level in (0.01, 0.03, 0.04, 0.05)] == [False, True, True, False]
    assert notes(found, sums, p, 0.04, normal=True) == ()


def test_two_groups_of_one_shape_and_size_are_not_skewed():
    """The skewness of two alike groups cancels in their difference."""
    both = pair(public(5.0, 9.5, 1000, 0.2, 0.4), public(-5.0, 9.5, 1000, 0.2, 0.4))
    found = known(both)

    p = float(found.pvalue(0.0))
    assert worst_pvalue(p, skewness(found, both)) == pytest.approx(p, rel=0.05)


finite = st.floats(-1e6, 1e6)
scales = st.floats(1e-3, 1e6)


@settings(max_examples=60, deadline=None)
@example(total=0.0, squares=0.5625, size=2, b=0.001, null=0.0)
@given(total=finite, squares=finite, size=st.integers(2, 10**9), b=scales, null=st.floats(-1, 1))
def test_any_release_gives_a_probability_and_an_interval_in_order(total, squares, size, b, null):
    """However absurd the noise made the release, p is in [0, 1] and the interval is in order."""
    counted, unknown = public(total, squares, size, b, 2 * b), private(total, squares, total + squares, b)

    for sums in (counted, unknown, beside(total, squares, total, size, b), pair(counted, OTHER)):
        found = known(sums, draws=128)
        low, high = interval(found)

        assert 0 <= found.pvalue(null) <= 1
        assert low <= high


# Level and power.


def released(rng, runs, n, mean, sd, epsilon):
    """Joint releases of the sums of `runs` normal samples in [0, 1], clipped and mapped to [-1, 1]."""
    values = np.empty((runs, 1, 2))
    for part in np.array_split(np.arange(runs), max(1, runs * n // 4_000_000)):
        y = 2 * np.clip(rng.normal(mean, sd, (len(part), n)), 0, 1) - 1
        values[part, 0, 0], values[part, 0, 1] = y.sum(axis=1), np.einsum("ij,ij->i", y, y)
    scales = np.array([2 / epsilon, 4 / epsilon])
    values += scales * rng.laplace(size=values.shape)
    return NoisyMoments(values, [NoiseLaw(each) for each in scales], np.full((runs, 1), float(n)))


@pytest.mark.statistical
def test_level_and_power_of_the_one_sample_test():
    """At n = 400, ε = 0.5 the engine keeps its level and finds a shift of 0.05; the naive level is off."""
    rng = np.random.default_rng(400)
    runs, n, sd, epsilon = 10_000, 400, 0.25, 0.5
    null, shifted = (released(rng, runs, n, mean, sd, epsilon) for mean in (0.5, 0.55))
    # The paper's release at the same total ε: mean and variance in data units, each with ε/2.
    z = rng.standard_normal(runs)
    mean = 0.5 + sd / math.sqrt(n) * z + rng.laplace(0, 2 / (n * epsilon), runs)
    variance = sd**2 * rng.chisquare(n - 1, runs) / (n - 1) + rng.laplace(0, 2 / (n * epsilon), runs)
    y, v = 2 * mean - 1, 4 * variance
    printed = np.stack([n * y, (n - 1) * v + n * y**2], axis=-1)[:, None]
    with np.errstate(invalid="ignore"):
        paper = known(replace(null, values=printed), naive=True).pvalue(0.0)
    paper = paper[~np.isnan(paper)]

    assert 0.040 <= (known(null, draws=512).pvalue(0.0) < 0.05).mean() <= 0.060
    assert 0.90 <= (known(shifted, draws=512).pvalue(0.0) < 0.05).mean() <= 0.95
    assert 0.17 <= (paper < 0.05).mean() <= 0.21


@pytest.mark.statistical
def test_level_power_and_coverage_of_the_welch_test():
    """Two samples of 400 at ε = 0.5: level, power at a difference of 0.1, and the coverage of the interval."""
    rng = np.random.default_rng(800)
    first, same, other = (released(rng, 4_000, 400, mean, 0.25, 0.5) for mean in (0.5, 0.5, 0.4))
    # The difference of means of the clipped data, in y units, is a little below 0.2.
    law, shape = stats.norm(0.4, 0.25), np.linspace(0, 1, 20_001)
    difference = 2 * (0.5 - float(np.trapezoid(1 - law.cdf(shape), shape)))

    apart = known(pair(first, other), draws=512)

    assert 0.034 <= (known(pair(first, same), draws=512).pvalue(0.0) < 0.05).mean() <= 0.068
    assert (apart.pvalue(0.0) < 0.05).mean() >= 0.99
    assert 0.932 <= ((apart.cdf(difference) > 0.025) & (apart.cdf(difference) < 0.975)).mean() <= 0.967


def normal_groups(rng, runs, sizes, mean, sd, epsilon, kind):
    """Releases of normal samples: of a public size, the same measured beside the sums, or a private one."""
    n = np.array(sizes, dtype=float)
    average = mean + sd / np.sqrt(n) * rng.standard_normal((runs, len(n)))
    total, squares = n * average, sd**2 * rng.chisquare(n - 1, (runs, len(n))) + n * average**2
    form = {"fill": "known", "omit": "beside"}.get(kind, "private")
    scale = {"fill": 2.0, "omit": 2.0, "private": 3.0, "add_remove": 1.5}[kind] / epsilon
    rest = {"known": (squares,), "beside": (n - squares, n), "private": (n - squares, squares)}[form]
    weights = {"known": (1, 0.5), "beside": (1, 0.5, 1), "private": (1, 1, 0.5)}[form]
    exact = np.stack(np.broadcast_arrays(total, *rest), axis=-1)
    scales = scale / np.array(weights)
    values = exact + scales * rng.laplace(size=exact.shape)
    rows = None if form == "private" else np.broadcast_to(n, (runs, len(n)))
    return NoisyMoments(values, [NoiseLaw(each) for each in scales], rows, form)


def too_many(found, null, sums):
    """Alternatives and levels at which there are more rejections than a fifth above nominal lets in a million.

    Releases whose sizes are mostly noise are left out, as a note says of them.
    """
    less = found.cdf(null)
    return [
        (alternative, level)
        for alternative, p in zip(ALTERNATIVES, (2 * np.minimum(less, 1 - less), 1 - less, less), strict=True)
        for level in (0.05, 0.01, 0.001)
        if ((p <= level) & ~sums.doubtful).sum() > stats.binom.isf(1e-6, len(p), 1.2 * level)
    ]


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["fill", "omit", "private", "add_remove"])
@pytest.mark.parametrize(
    ("sizes", "sd", "epsilon"),
    [((5, 250), 0.3, 50), ((10, 10), 0.3, 50), ((5, 250), 0.3, 0.1), ((200, 200), 0.05, 3), ((30, 600), 0.03, 10)],
)
def test_the_level_of_two_samples(kind, sizes, sd, epsilon):
    """Small, unequal and noisy groups: at .05, .01 and .001, on both sides and each."""
    sums = normal_groups(np.random.default_rng(5), 4_000, sizes, 0.4, sd, epsilon, kind)

    assert too_many(known(sums, draws=512), 0.0, sums) == []


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["fill", "omit", "add_remove"])
@pytest.mark.parametrize(
    ("n", "mean", "sd", "epsilon"),
    [
        (10_000, 0.9, 0.03, 1),
        (1000, 0.9, 0.03, 10),
        (100, 0, 0.1, 3),
        (400, 0.5, 0.03, 5),
        (10, 0, 0.05, 30),
        (10, 0.5, 0.2, 50),
    ],
)
def test_the_level_of_one_sample(kind, n, mean, sd, epsilon):
    """Where the noise hides the variance but not the mean, and where data lie far from the middle: all sides."""
    sums = normal_groups(np.random.default_rng(6), 4_000, [n], mean, sd, epsilon, kind)

    assert too_many(known(sums, draws=512), mean, sums) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: public(1, 1, 1), "fewer than two rows"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(call, message):
    """Every argument is checked, and the message says what is wrong."""
    with pytest.raises(ArgumentError, match=message):
        call()
