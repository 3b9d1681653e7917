"""The calibrated tests: reference values, duality, level and power."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dfprivacy import ArgumentError
from dfprivacy_ttest.calibrated import one_sample_t, one_sample_z, two_sample_t
from dfprivacy_ttest.distributions import normal_laplace_cdf, normal_two_laplace_cdf
from dfprivacy_ttest.group import Group
from dfprivacy_ttest.notes import notes, unreliable, worst_pvalue

METHODS = ["conv", "naive"]
ALTERNATIVES = ["two-sided", "less", "greater"]
PUBLIC = Group(total=30.0, squares=40.0, size=400, scale_total=2.0, scale_squares=4.0)
OTHER = Group(total=-12.0, squares=61.0, size=300, scale_total=2.0, scale_squares=4.0)
PRIVATE = Group(30.0, 40.0, 396.5, scale_total=1.5, scale_squares=0.0, scale_size=1.5, scale_both=3.0)
BESIDE = Group(30.0, 40.0, 397.1, scale_total=2.0, scale_squares=4.0, scale_both=2.0)
PRIVATE_OTHER = dataclasses.replace(PRIVATE, total=-12.0, squares=61.0, size=303.7)
ALMOST_NO_NOISE = {"scale_total": 1e-9, "scale_squares": 1e-9}


def every_test(method, alternative):
    """All tests of this module on one release each, as functions of nothing."""
    how = {"method": method, "alternative": alternative}
    return [
        one_sample_z(PUBLIC, 0.05, sd=0.3, **how),
        one_sample_t(PUBLIC, 0.05, **how),
        one_sample_z(PRIVATE, 0.05, sd=0.3, **how),
        one_sample_t(PRIVATE, 0.05, **how),
        two_sample_t(PUBLIC, OTHER, **how),
        two_sample_t(PUBLIC, OTHER, equal_variances=True, **how),
        two_sample_t(PRIVATE, PRIVATE_OTHER, **how),
        two_sample_t(PRIVATE, PRIVATE_OTHER, equal_variances=True, **how),
        one_sample_t(BESIDE, 0.05, **how),
        two_sample_t(BESIDE, PRIVATE_OTHER, **how),
    ]


def released(rng, runs, n, mean, sd, epsilon):
    """Joint releases of the sums of `runs` normal samples in [0, 1], clipped and mapped to [-1, 1]."""
    total, squares = np.empty(runs), np.empty(runs)
    for part in np.array_split(np.arange(runs), max(1, runs * n // 4_000_000)):
        y = 2 * np.clip(rng.normal(mean, sd, (len(part), n)), 0, 1) - 1
        total[part], squares[part] = y.sum(axis=1), np.einsum("ij,ij->i", y, y)
    return Group(
        total + rng.laplace(0, 2 / epsilon, runs),
        squares + rng.laplace(0, 4 / epsilon, runs),
        n,
        2 / epsilon,
        4 / epsilon,
    )


@pytest.mark.parametrize(
    ("total", "squares", "n", "epsilon", "mean", "expected"),
    [
        (30, 40, 400, 1, 0, 4.42707104e-5),
        (-12, 25, 100, 0.5, 0.05, 0.0324877050),
        (400, 2600, 10000, 0.5, 0.02, 9.36803723e-5),
    ],
)
def test_a_known_variance_has_the_reference_values(total, squares, n, epsilon, mean, expected):
    """With the variance about the hypothesis given, the p-value is the published one of the convolution."""
    variance = (squares - 2 * mean * total + n * mean**2) / n

    result = one_sample_z(Group(total, squares, n, 2 / epsilon, 4 / epsilon), mean, sd=math.sqrt(variance))

    assert result.pvalue == pytest.approx(expected, rel=1e-6)


def test_one_sample_z_is_the_convolution():
    """With a known standard deviation the p-value is P(|N(0, sd²/n) + Laplace(b/n)| > |D|)."""
    se = 0.3 / math.sqrt(400)
    distance = 30 / 400 - 0.05

    expected = 2 * normal_laplace_cdf(-distance / se, se * 400 / 2)

    assert one_sample_z(PUBLIC, 0.05, sd=0.3).pvalue == pytest.approx(float(expected), rel=1e-12)


def test_a_noisy_size_adds_its_noise():
    """Beside the noise of the sum there is that of the size, in proportion to the hypothetical mean."""
    n, se = 397.1, 0.3 / math.sqrt(397.1)

    expected = 2 * normal_two_laplace_cdf(-(30 / n - 0.05) / se, se * n / 2, se * n / (0.05 * 2))
    result = one_sample_z(BESIDE, 0.05, sd=0.3)

    assert result.pvalue == pytest.approx(float(expected), rel=1e-12)
    assert result.noise_standard_error == pytest.approx(math.sqrt(2 * 2**2 * (1 + 0.05**2)) / n, rel=1e-12)
    assert result.standard_error == pytest.approx(math.hypot(se, result.noise_standard_error), rel=1e-12)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("sizes", [(15, 22), (3, 4), (2, 30), (400, 5)])
def test_without_noise_it_is_scipys_t_test(sizes, alternative):
    """Without noise both tests are the textbook's, with Student's t: p-value, degrees of freedom and interval."""
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-0.02, 0.02, size) for size in sizes)
    first, second = (Group(y.sum(), (y**2).sum(), len(y), **ALMOST_NO_NOISE) for y in (a, b))
    how = {"alternative": alternative}
    near = 0.02 if min(sizes) == 2 else 1e-3  # of one degree of freedom the tail is long

    pairs = [
        (one_sample_t(first, 0.01, **how), stats.ttest_1samp(a, 0.01, **how)),
        (two_sample_t(first, second, **how), stats.ttest_ind(a, b, equal_var=False, **how)),
        (two_sample_t(first, second, equal_variances=True, **how), stats.ttest_ind(a, b, **how)),
    ]

    for ours, scipys in pairs:
        assert ours.statistic == pytest.approx(scipys.statistic, rel=1e-6)
        assert ours.df == pytest.approx(scipys.df, rel=1e-6)
        assert ours.pvalue == pytest.approx(scipys.pvalue, rel=near, abs=1e-12)
        assert ours.interval(0.9) == pytest.approx(tuple(scipys.confidence_interval(0.9)), rel=near)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_naive_without_noise_is_scipys_t_test(alternative):
    """The naive method is the textbook test: without noise it is scipy's."""
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, 15), rng.uniform(-1, 0.8, 22)
    first, second = (Group(y.sum(), (y**2).sum(), len(y), **ALMOST_NO_NOISE) for y in (a, b))
    how = {"method": "naive", "alternative": alternative}

    pairs = [
        (one_sample_t(first, 0.1, **how), stats.ttest_1samp(a, 0.1, alternative=alternative)),
        (two_sample_t(first, second, **how), stats.ttest_ind(a, b, equal_var=False, alternative=alternative)),
        (two_sample_t(first, second, equal_variances=True, **how), stats.ttest_ind(a, b, alternative=alternative)),
    ]

    for ours, scipys in pairs:
        assert (ours.statistic, ours.pvalue, ours.df) == pytest.approx(
            (scipys.statistic, scipys.pvalue, scipys.df), rel=1e-9
        )
        assert ours.interval(0.9) == pytest.approx(tuple(scipys.confidence_interval(0.9)), rel=1e-9)


def test_naive_is_undefined_without_a_positive_variance():
    """Where the noisy variance is not positive, the naive test says so instead of inventing a number."""
    result = one_sample_t(dataclasses.replace(PUBLIC, squares=-3.0), method="naive")

    assert math.isnan(result.statistic)
    assert math.isnan(result.pvalue)
    assert all(math.isnan(end) for end in result.interval())
    assert notes(result, 1, 0.05, known_sd=False)[0][0].startswith("Undefined")


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", METHODS)
def test_pvalues_are_probabilities_and_scalars(method, alternative):
    """Scalars in, Python floats out, and every p-value is a probability."""
    for result in every_test(method, alternative):
        assert 0 <= result.pvalue <= 1
        assert all(
            type(value) is float
            for value in (result.pvalue, result.statistic, result.df, *result.variances, *result.interval())
        )


@pytest.mark.parametrize("method", METHODS)
def test_one_sided_pvalues_complete_each_other(method):
    """The alternative on the estimate's side has the smaller p-value, half of the other; both add up to one."""
    less, greater, both = (every_test(method, alternative) for alternative in ("less", "greater", "two-sided"))

    for low, high, two in zip(less, greater, both, strict=True):
        assert low.pvalue + high.pvalue == pytest.approx(1, abs=1e-12)
        assert two.pvalue == pytest.approx(2 * min(low.pvalue, high.pvalue), rel=1e-12)
        assert (high.pvalue < low.pvalue) == (low.statistic > 0)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(
    ("release", "sd"), [(PUBLIC, None), (PUBLIC, 0.3), (PRIVATE, None), (PRIVATE, 0.3), (BESIDE, None)]
)
def test_one_sample_intervals_hold_what_is_not_rejected(release, sd, alternative):
    """The ends of the interval are the hypotheses whose p-value is one minus the confidence."""

    def test(mean):
        if sd is None:
            return one_sample_t(release, mean, alternative=alternative)
        return one_sample_z(release, mean, sd=sd, alternative=alternative)

    low, high = test(0.0).interval(0.9)

    assert (math.isinf(low), math.isinf(high)) == (alternative == "less", alternative == "greater")
    assert all(test(end).pvalue == pytest.approx(0.1, rel=1e-9) for end in (low, high) if math.isfinite(end))


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("method", METHODS)
def test_two_sample_intervals_hold_zero_exactly_if_it_is_not_rejected(method, alternative):
    """At confidence 1 - p the interval ends at zero, so it excludes zero exactly at larger levels."""
    for pair in [(PUBLIC, OTHER), (PRIVATE, PRIVATE_OTHER)]:
        first = dataclasses.replace(pair[0], total=1.0 if alternative != "less" else -20.0)
        result = two_sample_t(first, pair[1], method=method, alternative=alternative)

        inside = result.interval(1 - result.pvalue * 0.9)
        outside = result.interval(1 - result.pvalue - 0.1 * min(result.pvalue, 1 - result.pvalue))

        assert inside[0] <= 0 <= inside[1]
        assert not outside[0] <= 0 <= outside[1]


def test_more_confidence_needs_a_wider_interval():
    """Intervals are nested, with every method."""
    for method in METHODS:
        for result in every_test(method, "two-sided"):
            narrow, wide = result.interval(0.8), result.interval(0.99)

            assert wide[0] < narrow[0] < result.estimate < narrow[1] < wide[1]


def test_arrays_of_releases_are_tested_one_by_one():
    """An array of releases gives the same as each release alone."""
    totals, squares = np.array([30.0, -5.0, 300.0]), np.array([40.0, -9.0, 399.0])
    alone = [
        one_sample_t(dataclasses.replace(PUBLIC, total=t, squares=s), 0.05)
        for t, s in zip(totals, squares, strict=True)
    ]

    together = one_sample_t(dataclasses.replace(PUBLIC, total=totals, squares=squares), 0.05)

    assert together.pvalue == pytest.approx([result.pvalue for result in alone], rel=1e-14)
    assert together.interval()[0] == pytest.approx([result.interval()[0] for result in alone], rel=1e-12)


@pytest.mark.parametrize(("mean", "most"), [(0.0, 1.001), (0.3, 1.01), (0.5, 1.02), (0.75, 1.04)])
def test_leaving_rows_out_costs_complete_data_hardly_any_accuracy(mean, most):
    """At 1,000 rows, none missing, and ε = 1, a noisy number of rows widens the error by a few percent at most."""
    n, sd = 1000, 0.25
    squares = n * (mean**2 + sd**2)
    filled = Group(n * mean, squares, n, 2.0, 4.0)
    left_out = Group.measured([n * mean, n - squares, float(n)], [2.0, 4.0, 2.0], float(n))

    errors = [one_sample_t(group, mean).standard_error for group in (left_out, filled)]
    differences = [two_sample_t(group, group).standard_error for group in (left_out, filled)]

    assert errors[0] / errors[1] + 1e-3 >= 1
    assert errors[0] / errors[1] <= most
    assert differences[0] / differences[1] <= most
    assert errors[1] == pytest.approx(math.sqrt(sd**2 / n + 8 / n**2), rel=0.02)


# What is said about a result.


@pytest.mark.parametrize(
    ("group", "mean", "words"),
    [
        (Group(30.0, 200.0, 400, scale_total=2.0, scale_squares=4.0), 0.0, []),
        (
            dataclasses.replace(PRIVATE, size=-2.0, total=0.1, squares=1.0),
            0.0,
            ["mostly noise", "at least", "wilcoxon() asks ranks"],
        ),
        (
            dataclasses.replace(PRIVATE, size=12.0, total=0.1, squares=1.0),
            0.0,
            ["mostly noise", "at least", "wilcoxon() asks ranks"],
        ),
        (Group(1.0, 5.0, 18, scale_total=20, scale_squares=40), 0.0, ["Uninformative", "asks ranks"]),
        (Group(10.0, 60.0, 400, scale_total=40, scale_squares=80), 0.0, ["times the rows", "asks ranks"]),
        (Group(10.0, 60.0, 400, scale_total=8, scale_squares=16), 0.0, ["asks ranks"]),
        (Group(6.4, 9.5, 1000, scale_total=0.2, scale_squares=0.4), 0.0, ["near normal"]),
        (Group(16.0, 9.5, 1000, scale_total=0.2, scale_squares=0.4), 0.0, []),
        (Group(6.0, 9.5, 1000, scale_total=0.2, scale_squares=0.4), 0.0, []),
    ],
)
def test_notes(group, mean, words):
    """What makes a result doubtful or uninformative is said, and nothing else."""
    (found,) = notes(one_sample_t(group, mean), 1, 0.05, known_sd=False)

    assert len(found) == len(words), found
    assert all(word in note for word, note in zip(words, found, strict=True))


def test_a_shape_that_cannot_decide_is_not_mentioned():
    """A note on skewness needs a rejection that the worst skewness would undo; a known spread needs none."""
    group = Group(7.0, 9.5, 1000, scale_total=0.2, scale_squares=0.4)
    result = one_sample_t(group)

    assert (result.pvalue, float(worst_pvalue(result))) == pytest.approx((0.0238, 0.0509), abs=1e-3)
    assert [bool(unreliable(result, level)) for level in (0.01, 0.03, 0.04, 0.05)] == [False, True, True, False]
    assert notes(one_sample_z(group, sd=0.0975), 1, 0.04, known_sd=True) == [()]


def test_two_groups_of_one_shape_and_size_are_not_skewed():
    """The skewness of two alike groups cancels in their difference."""
    one, other = (Group(total, 9.5, 1000, scale_total=0.2, scale_squares=0.4) for total in (5.0, -5.0))
    result = two_sample_t(one, other)

    assert float(worst_pvalue(result)) == pytest.approx(result.pvalue, rel=0.05)


finite = st.floats(-1e6, 1e6)
scales = st.floats(1e-3, 1e6)


@settings(max_examples=60, deadline=None)
@given(
    total=finite,
    squares=finite,
    size=st.integers(2, 10**9),
    b1=scales,
    b2=scales,
    mean=st.floats(-1, 1),
    alternative=st.sampled_from(ALTERNATIVES),
)
def test_any_release_gives_a_probability_and_an_interval_around_the_estimate(
    total, squares, size, b1, b2, mean, alternative
):
    """However absurd the noise made the release, p is in [0, 1] and the interval is in order."""
    public = Group(total, squares, size, b1, b2)
    private = dataclasses.replace(public, size=total, scale_size=b1, scale_both=b2)

    for group in (public, private):
        for result in (one_sample_t(group, mean, alternative=alternative), two_sample_t(group, OTHER)):
            low, high = result.interval()

            assert 0 <= result.pvalue <= 1
            assert low <= result.estimate + 1e-9 * abs(result.estimate)
            assert result.estimate <= high + 1e-9 * abs(high)


@pytest.mark.statistical
def test_level_and_power_of_the_one_sample_test():
    """At n = 400, ε = 0.5 the convolution keeps its level and finds a shift of 0.05; the naive level is off."""
    rng = np.random.default_rng(400)
    runs, n, sd, epsilon = 20_000, 400, 0.25, 0.5
    null, shifted = (released(rng, runs, n, mean, sd, epsilon) for mean in (0.5, 0.55))
    # The paper's release at the same total ε: mean and variance in data units, each with ε/2.
    z = rng.standard_normal(runs)
    mean = 0.5 + sd / math.sqrt(n) * z + rng.laplace(0, 2 / (n * epsilon), runs)
    variance = sd**2 * rng.chisquare(n - 1, runs) / (n - 1) + rng.laplace(0, 2 / (n * epsilon), runs)
    y, v = 2 * mean - 1, 4 * variance
    paper = one_sample_t(Group(n * y, (n - 1) * v + n * y**2, n, 1.0, 1.0), method="naive").pvalue
    paper = paper[~np.isnan(paper)]

    assert 0.042 <= (one_sample_t(null).pvalue < 0.05).mean() <= 0.058
    assert 0.90 <= (one_sample_t(shifted).pvalue < 0.05).mean() <= 0.95
    assert 0.17 <= (paper < 0.05).mean() <= 0.21


@pytest.mark.statistical
def test_level_power_and_coverage_of_the_welch_test():
    """Two samples of 400 at ε = 0.5: level, power at a difference of 0.1, and the coverage of the interval."""
    rng = np.random.default_rng(800)
    first, same, other = (released(rng, 10_000, 400, mean, 0.25, 0.5) for mean in (0.5, 0.5, 0.4))
    low, high = two_sample_t(first, other).interval(0.95)
    # The difference of means of the clipped data, in y units, is a little below 0.2.
    law, shape = stats.norm(0.4, 0.25), np.linspace(0, 1, 20_001)
    difference = 2 * (0.5 - float(np.trapezoid(1 - law.cdf(shape), shape)))

    assert 0.038 <= (two_sample_t(first, same).pvalue < 0.05).mean() <= 0.064
    assert (two_sample_t(first, other).pvalue < 0.05).mean() >= 0.99
    assert 0.939 <= ((low <= difference) & (difference <= high)).mean() <= 0.961


def normal_group(rng, runs, n, mean, sd, epsilon, kind):
    """Releases of normal samples: of a public size, the same measured beside the sums, or a private one."""
    average = mean + sd / math.sqrt(n) * rng.standard_normal(runs)
    total, squares = n * average, sd**2 * rng.chisquare(n - 1, runs) + n * average**2
    scale = {"fill": 2.0, "omit": 2.0, "private": 3.0, "add_remove": 1.5}[kind] / epsilon
    first, second, third = (rng.laplace(0, scale, runs) for _ in range(3))
    if kind == "fill":
        return Group(total + first, squares + 2 * second, n, scale, 2 * scale)
    if kind == "omit":
        sums = [total + first, n - squares + 2 * second, n + third]
        return Group.measured(sums, [scale, 2 * scale, scale], float(n))
    return Group.measured(
        [total + first, n - squares + second, squares + 2 * third], [scale, scale, 2 * scale], None
    )


def too_many(result, doubtful):
    """Alternatives and levels at which there are more rejections than a fifth above nominal lets in a million.

    One evaluation tells all alternatives: one-sided p-values add up to one, and the two-sided is twice the smaller,
    as is tested above.
    """
    less = result.pvalue
    greater = 1 - less
    assert result.alternative == "less"
    return [
        (alternative, level)
        for alternative, p in zip(ALTERNATIVES, (2 * np.minimum(less, greater), less, greater), strict=True)
        for level in (0.05, 0.01, 0.001)
        if ((p <= level) & ~doubtful).sum() > stats.binom.isf(1e-6, len(p), 1.2 * level)
    ]


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["fill", "omit", "private", "add_remove"])
@pytest.mark.parametrize(
    ("sizes", "sd", "epsilon"),
    [((5, 250), 0.3, 50), ((10, 10), 0.3, 50), ((5, 250), 0.3, 0.1), ((200, 200), 0.05, 3), ((30, 600), 0.03, 10)],
)
def test_the_level_of_two_samples(kind, sizes, sd, epsilon):
    """Small, unequal and noisy groups: at .05, .01 and .001, on both sides and each, and the 95% interval."""
    rng = np.random.default_rng(5)
    first, second = (normal_group(rng, 20_000, n, 0.4, sd, epsilon, kind) for n in sizes)
    result = two_sample_t(first, second, alternative="less")

    assert too_many(result, first.doubtful_size | second.doubtful_size) == []


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
    group = normal_group(np.random.default_rng(6), 20_000, n, mean, sd, epsilon, kind)
    result = one_sample_t(group, mean, alternative="less")

    assert too_many(result, group.doubtful_size) == []


@pytest.mark.statistical
@pytest.mark.parametrize(("sizes", "epsilon"), [((5, 250), 50), ((200, 300), 1)])
def test_the_interval_covers_a_difference_that_there_is(sizes, epsilon):
    """The 95% interval holds a true difference of means as often as it says, and is not far too wide."""
    rng = np.random.default_rng(7)
    pair = [
        normal_group(rng, 4000, n, mean, 0.3, epsilon, "fill") for n, mean in zip(sizes, (0.3, -0.1), strict=True)
    ]
    low, high = two_sample_t(*pair).interval(0.95)

    assert (
        stats.binom.ppf(1e-6, 4000, 0.94)
        <= ((low <= 0.4) & (high >= 0.4)).sum()
        <= stats.binom.isf(1e-6, 4000, 0.985)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Group(math.nan, 1, 10, 1, 1), "not finite"),
        (lambda: Group(1, 1, 10, -1, 1), "is negative"),
        (lambda: Group(1, 1, 1, 1, 1), "fewer than two rows"),
        (lambda: one_sample_t(PUBLIC, math.inf), "not finite"),
        (lambda: one_sample_z(PUBLIC, sd=0.0), "must be positive"),
        (lambda: one_sample_t(PUBLIC).interval(1.0), "between 0 and 1"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(call, message):
    """Every argument is checked, and the message says what is wrong."""
    with pytest.raises(ArgumentError, match=message):
        call()
