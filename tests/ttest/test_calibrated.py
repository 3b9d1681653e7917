"""The calibrated tests: reference values, duality, level and power."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dfprivacy import ArgumentError
from dfprivacy_ttest.calibrated import Group, one_sample_t, one_sample_z, two_sample_t
from dfprivacy_ttest.distributions import normal_laplace_cdf, normal_two_laplace_cdf

METHODS = ["conv", "mc", "naive"]
ALTERNATIVES = ["two-sided", "less", "greater"]
PUBLIC = Group(total=30.0, squares=40.0, size=400, scale_total=2.0, scale_squares=4.0)
OTHER = Group(total=-12.0, squares=61.0, size=300, scale_total=2.0, scale_squares=4.0)
PRIVATE = Group(30.0, 40.0, 396.5, scale_total=1.5, scale_squares=3.0, size_variance=2 * 1.5**2 + 2 * 3.0**2)
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
        (30, 40, 400, 0.1, 0, 0.23457028),
        (-12, 25, 100, 0.5, 0.05, 0.0324877050),
        (400, 2600, 10000, 0.5, 0.02, 9.36803723e-5),
    ],
)
def test_one_sample_reference_values(total, squares, n, epsilon, mean, expected):
    """The p-value of the convolution has its reference values."""
    result = one_sample_t(Group(total, squares, n, 2 / epsilon, 4 / epsilon), mean)

    assert result.pvalue == pytest.approx(expected, rel=1e-6)


def test_one_sample_z_is_the_convolution():
    """With a known standard deviation the p-value is P(|N(0, sd²/n) + Laplace(b/n)| > |D|)."""
    se = 0.3 / math.sqrt(400)
    distance = 30 / 400 - 0.05

    expected = 2 * normal_laplace_cdf(-distance / se, se * 400 / 2)

    assert one_sample_z(PUBLIC, 0.05, sd=0.3).pvalue == pytest.approx(float(expected), rel=1e-12)


def test_welch_is_the_convolution_with_each_groups_own_scale():
    """Two samples with different noise: each variance is debiased, each Laplace part scaled, by its own."""
    first, second = PUBLIC, Group(-12.0, 61.0, 300, scale_total=5.0, scale_squares=10.0)
    v1 = (40 - (30**2 - 2 * 2.0**2) / 400) / 399
    v2 = (61 - (12**2 - 2 * 5.0**2) / 300) / 299
    se = math.sqrt(v1 / 400 + v2 / 300)
    distance = 30 / 400 + 12 / 300

    expected = 2 * normal_two_laplace_cdf(-distance / se, se * 400 / 2, se * 300 / 5)
    result = two_sample_t(first, second)

    assert result.variances == pytest.approx((v1, v2), rel=1e-12)
    assert result.pvalue == pytest.approx(float(expected), rel=1e-12)


def test_private_size_adds_its_noise_to_the_normal_part():
    """With a noisy size the variance of the size enters in proportion to the squared mean."""
    n, var = 396.5, 22.5
    variance = (40 - 2 * 0.05 * 30 + n * 0.05**2) / n
    se = math.sqrt(variance / n + 0.05**2 * var / n**2)

    expected = 2 * normal_laplace_cdf(-abs(30 / n - 0.05) / se, se * n / 1.5)
    result = one_sample_t(PRIVATE, 0.05)

    assert result.pvalue == pytest.approx(float(expected), rel=1e-12)
    assert result.noise_standard_error == pytest.approx(math.sqrt(2 * 1.5**2 + 0.05**2 * var) / n, rel=1e-12)
    assert result.standard_error == pytest.approx(math.hypot(se, math.sqrt(2) * 1.5 / n), rel=1e-12)


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
    assert result.warnings[0].startswith("Undefined")


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
    """The alternative on the estimate's side has the smaller p-value; the two add up to one."""
    less, greater = every_test(method, "less"), every_test(method, "greater")
    slack = 2 / 1000 if method == "mc" else 1e-12

    for low, high in zip(less, greater, strict=True):
        assert low.pvalue + high.pvalue == pytest.approx(1, abs=slack)
        assert (high.pvalue < low.pvalue) == (low.statistic > 0)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(("release", "sd"), [(PUBLIC, None), (PUBLIC, 0.3), (PRIVATE, None), (PRIVATE, 0.3)])
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


def test_the_same_release_has_the_same_bootstrap_pvalue():
    """The bootstrap is a function of the release, and another release has other random numbers."""
    first, again = every_test("mc", "two-sided"), every_test("mc", "two-sided")
    other = one_sample_t(dataclasses.replace(PUBLIC, squares=40.0 + 1e-9), method="mc")

    assert [r.pvalue for r in first] == [r.pvalue for r in again]
    assert [r.interval() for r in first] == [r.interval() for r in again]
    assert other.interval() != first[1].interval()


def test_bootstrap_and_convolution_agree():
    """With many replicates the bootstrap's p-value is that of the convolution for samples of hundreds of rows."""
    group, other = dataclasses.replace(PUBLIC, total=10.0), dataclasses.replace(OTHER, total=-3.0)
    pairs = [
        [one_sample_t(group, 0.0, method=m, replicates=40_000).pvalue for m in ("conv", "mc")],
        [two_sample_t(group, other, method=m, replicates=40_000).pvalue for m in ("conv", "mc")],
    ]

    for conv, mc in pairs:
        assert 0.05 < conv < 0.4
        assert mc == pytest.approx(conv, abs=0.015)


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


def test_results_survive_pickling():
    """A result can be stored and asked for another interval later."""
    for result in every_test("conv", "two-sided") + every_test("mc", "less"):
        copy = pickle.loads(pickle.dumps(result))  # noqa: S301 - our own bytes

        assert copy.interval(0.8) == result.interval(0.8)


@pytest.mark.parametrize(
    ("group", "mean", "words"),
    [
        (PUBLIC, 0.0, []),
        (dataclasses.replace(PUBLIC, squares=-40.0), 0.0, ["at its floor"]),
        (dataclasses.replace(PUBLIC, squares=900.0), 0.0, ["at its cap"]),
        (dataclasses.replace(PRIVATE, size=-2.0, total=0.1, squares=1.0), 0.0, ["below 5"]),
        (Group(1.0, 5.0, 18, scale_total=2 / 3, scale_squares=4 / 3), 0.0, ["Narrower bounds"]),
        (Group(1.0, 5.0, 18, scale_total=2 / 1, scale_squares=4 / 1), 0.0, []),
        (dataclasses.replace(PUBLIC, total=-200.0, squares=120.0), 0.9, []),
    ],
)
def test_warnings(group, mean, words):
    """What makes a result doubtful is said, and nothing else."""
    warnings = one_sample_t(group, mean).warnings

    assert len(warnings) == len(words)
    assert all(word in warning for word, warning in zip(words, warnings, strict=True))


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
    private = dataclasses.replace(public, size=total, size_variance=3 * b2**2)

    for group in (public, private):
        for result in (one_sample_t(group, mean, alternative=alternative), two_sample_t(group, OTHER)):
            low, high = result.interval()

            assert 0 <= result.pvalue <= 1
            assert low <= result.estimate <= high


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


@pytest.mark.statistical
def test_bootstrap_keeps_its_level_in_a_small_sample():
    """With 20 rows and ε = 1 the bootstrap keeps its level."""
    group = released(np.random.default_rng(10), 12_000, 20, 0.5, 0.25, 1.0)

    assert 0.04 <= (one_sample_t(group, method="mc", replicates=199).pvalue <= 0.05).mean() <= 0.068


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n", "epsilon", "sd"),
    [(100, 3.0, 0.1), (100, 5.0, 0.05), (400, 5.0, 0.03), (100, 10.0, 0.03), (10, 30.0, 0.05)],
)
def test_the_level_is_kept_where_the_variance_is_mostly_noise(n, epsilon, sd):
    """Where the noise hides the variance but not the mean, "conv" is conservative and the result says so."""
    rng = np.random.default_rng(100)
    group, other = (released(rng, 20_000, n, 0.5, sd, epsilon) for _ in range(2))
    result = one_sample_t(group)

    assert (result.pvalue < 0.05).mean() <= 0.055
    assert (two_sample_t(group, other).pvalue < 0.05).mean() <= 0.055
    assert any("conservative" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Group(math.nan, 1, 10, 1, 1), "not finite"),
        (lambda: Group(1, 1, 10, 0, 1), "must be positive"),
        (lambda: Group(1, 1, 1, 1, 1), "fewer than two rows"),
        (lambda: Group(1, 1, 10, 1, 1, size_variance=1.0), "smaller than that of the noise"),
        (lambda: one_sample_t(PUBLIC, math.inf), "not finite"),
        (lambda: one_sample_z(PUBLIC, sd=0.0), "must be positive"),
        (lambda: one_sample_t(PUBLIC, method="exact"), "no method"),
        (lambda: two_sample_t(PUBLIC, OTHER, alternative="both"), "no alternative"),
        (lambda: two_sample_t(PUBLIC, OTHER, method="mc", replicates=0), "must be positive"),
        (lambda: one_sample_t(PUBLIC).interval(1.0), "between 0 and 1"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(call, message):
    """Every argument is checked, and the message says what is wrong."""
    with pytest.raises(ArgumentError, match=message):
        call()
