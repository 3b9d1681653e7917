"""The t-tests on the engine: reference values, duality, level and power; and planning before budget is spent."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from dfprivacy import ArgumentError
from dfprivacy.inference.engine import Inference, infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.inference.notes import is_unreliable, notes, skewness, worst_pvalue
from dfprivacy.laws import NoiseLaw
from dfprivacy_ttest import minimum_detectable_effect, power, sample_size
from dfprivacy_ttest.exact import normal_laplace_cdf, normal_two_laplace_cdf
from dfprivacy_ttest.parameters import classical_inference, mean_parameter

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
    tested = mean_parameter(sums.values.shape[-2], **of)
    return classical_inference(sums, tested) if naive else infer(sums, tested, draws)


def released(rng, runs, sizes, means, sd, scale, form, apart=None):
    """Releases of normal groups: of a public size, the same measured beside the sums, or a private one."""
    n = np.array(sizes, dtype=float)
    average = np.array(means) + sd / np.sqrt(n) * rng.standard_normal((runs, len(n)))
    total, squares = n * average, sd**2 * rng.chisquare(n - 1, (runs, len(n))) + n * average**2
    rest = {"known": (squares,), "beside": (n - squares, n), "private": (n - squares, squares)}[form]
    weights = {"known": (1, 0.5), "beside": (1, 0.5, 1), "private": (1, 1, 0.5)}[form]
    exact = np.stack(np.broadcast_arrays(total, *rest), axis=-1)
    scales = scale / np.array(apart or weights)
    values = exact + scales * rng.laplace(size=exact.shape)
    rows = None if form == "private" else np.broadcast_to(n, (runs, len(n)))
    return NoisyMoments(values, [NoiseLaw(each) for each in scales], rows, form)


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
    """With a known standard deviation the p-value is P(|N(0, sd²/n) + Laplace(b/n)| > |D|).

    Beside the noise of the sum a noisy size has one, in proportion to the hypothetical mean.
    """
    of_public, of_beside = (known(sums, sigma=0.3, draws=16384) for sums in (PUBLIC, BESIDE))
    se, n, error = 0.3 / math.sqrt(400), 397.1, 0.3 / math.sqrt(397.1)
    one = 2 * normal_laplace_cdf(-(30 / 400 - 0.05) / se, se * 400 / 2)
    two = 2 * normal_two_laplace_cdf(-(30 / n - 0.05) / error, error * n / 2, error * n / (0.05 * 2))

    assert of_public.pvalue(0.05) == pytest.approx(float(one), rel=1e-3)
    assert of_beside.pvalue(0.05) == pytest.approx(float(two), rel=2e-2)
    assert of_beside.noise_standard_error == pytest.approx(math.sqrt(2 * 2**2 * (1 + 0.0756**2)) / n, rel=0.02)
    assert of_beside.standard_error == pytest.approx(math.hypot(error, of_beside.noise_standard_error), rel=1e-3)


@pytest.mark.parametrize("sizes", [(15, 22), (3, 4), (2, 30), (400, 5)])
@pytest.mark.parametrize("naive", [False, True])
def test_without_noise_it_is_scipys_t_test(sizes, naive):
    """Without noise both methods are the textbook's: p-value, degrees of freedom and interval."""
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-0.02, 0.02, size) for size in sizes)
    first, second = (public(y.sum(), (y**2).sum(), len(y), 1e-12, 1e-12) for y in (a, b))
    one, *two = (
        known(first, naive=naive),
        *(known(pair(first, second), equal_var=pooled, naive=naive) for pooled in (False, True)),
    )
    for side in ALTERNATIVES:
        its = [stats.ttest_ind(a, b, equal_var=pooled, alternative=side) for pooled in (False, True)]
        every = [(one, 0.01, stats.ttest_1samp(a, 0.01, alternative=side)), *zip(two, (0, 0), its, strict=True)]
        for ours, null, scipys in every:
            assert (ours.estimate - null) / ours.standard_error == pytest.approx(scipys.statistic, rel=1e-5)
            assert ours.degrees_of_freedom == pytest.approx(scipys.df, rel=1e-5)
            assert ours.pvalue(null, side) == pytest.approx(scipys.pvalue, rel=1e-4, abs=1e-12)
            assert interval(ours, 0.9, side) == pytest.approx(tuple(scipys.confidence_interval(0.9)), rel=1e-4)


@pytest.mark.parametrize("df", [1, 7.5, 299, 300, 1e4, np.inf, np.nan])
def test_confidence_is_students_distribution(df):
    at = np.linspace(-9, 9, 1001)
    alone = Inference(np.array(0.0), np.array([0.0]), np.array([4.0]), np.array([df]), np.array([1.0]))
    right = stats.norm.cdf(at / 2) if np.isnan(df) else stats.t.cdf(at / 2, df)  # without a number it is known
    np.testing.assert_allclose(alone.cdf(at), right, rtol=0, atol=2e-7)


def test_naive_is_undefined_without_a_positive_variance():
    """Where the noisy variance is not positive, the naive test has no number."""
    result = known(public(30.0, -3.0, 400), naive=True)

    assert all(map(math.isnan, (result.pvalue(0.0), *interval(result))))


@pytest.mark.parametrize("naive", [False, True])
def test_intervals_hold_what_is_not_rejected(naive):
    """Their ends are the hypotheses whose p-value is 1 minus the confidence; they are nested; sides add up to 1."""
    for found, null in every_test(naive=naive):
        low, high, two = (float(found.pvalue(null, side)) for side in ("less", "greater", "two-sided"))
        assert 0 <= min(low, high, two) <= max(low, high, two) <= 1
        assert low + high == pytest.approx(1, abs=1e-12)
        assert two == pytest.approx(2 * min(low, high), rel=1e-12)
        assert (high < low) == (found.estimate > null)
        for side in ALTERNATIVES:
            ends = interval(found, 0.9, side)
            assert [math.isinf(end) for end in ends] == [side == "less", side == "greater"]
            held = [float(found.pvalue(end, side)) for end in ends if math.isfinite(end)]
            assert held == pytest.approx([0.1] * len(held), rel=1e-6)
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
        (public(6.4, 9.5, 1000, 0.2, 0.4), ["nearly normal"]),
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
    """A note on skewness needs a rejection that the worst skewness would undo; a known spread needs none.

    The skewness of two alike groups cancels in their difference.
    """
    sums = public(7.0, 9.5, 1000, 0.2, 0.4)
    both = pair(public(5.0, 9.5, 1000, 0.2, 0.4), public(-5.0, 9.5, 1000, 0.2, 0.4))
    (found, p), (apart, other) = ((each, float(each.pvalue(0.0))) for each in map(known, (sums, both)))
    worst = worst_pvalue(p, skewness(found, sums))

    assert (p, worst) == pytest.approx((0.0238, 0.0509), abs=1e-3)
    assert [is_unreliable(p, worst, level) for level in (0.01, 0.03, 0.04, 0.05)] == [False, True, True, False]
    assert notes(found, sums, p, 0.04, normal=True) == ()
    assert worst_pvalue(other, skewness(apart, both)) == pytest.approx(other, rel=0.05)


finite = st.floats(-1e6, 1e6)
scales = st.floats(1e-3, 1e6)


@settings(max_examples=60)
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


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "epsilon"), [(100, 0.5), (400, 0.2), (400, 2.0)])
def test_levels_hold(n, epsilon):
    """Of queries of their own a true hypothesis is rejected at its level; by the textbook's test more often."""
    rng, runs = np.random.default_rng(n), 4_000
    both = released(rng, runs, [n, n], [0, 0], 0.4, 4 / epsilon, "known", apart=(1, 2))
    one = replace(both, values=both.values[:, :1], rows=both.rows[:, :1])
    with np.errstate(invalid="ignore"):
        rates = {
            name: np.nanmean(np.where(np.isnan(p), np.nan, p <= 0.05))
            for name, p in {
                "one": known(one, draws=128).pvalue(0.0),
                "two": known(both, draws=128).pvalue(0.0),
                "naive": known(one, naive=True).pvalue(0.0),
            }.items()
        }

    assert all(0.03 <= rates[each] <= 0.055 + 5.5 * math.sqrt(0.05 * 0.95 / runs) for each in ("one", "two"))
    assert rates["naive"] > rates["one"]


KINDS = {
    "fill": ("known", 2.0),
    "omit": ("beside", 2.0),
    "private": ("private", 3.0),
    "add_remove": ("private", 1.5),
}

SMALL = [
    ((5, 250), 0.4, 0.3, 50),
    ((5, 250), 0.4, 0.3, 0.1),
    ((200, 200), 0.4, 0.05, 3),
    ((30, 600), 0.4, 0.03, 10),
    ((10_000,), 0.9, 0.03, 1),
    ((100,), 0, 0.1, 3),
    ((10,), 0, 0.05, 30),
]
LEVELS = [  # no row changes its group where there is one
    (kind, *each) for kind in KINDS for each in SMALL if kind != "private" or len(each[0]) > 1
]


@pytest.mark.statistical
@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kind", "sizes", "mean", "sd", "epsilon"), LEVELS)
def test_the_level_holds(kind, sizes, mean, sd, epsilon):
    """Of small, unequal and noisy groups, of which the noise hides the variance, or far from the middle.

    At .05, .01 and .001, on both sides and each, there are no more rejections than a fifth above nominal lets in a
    million. Releases whose sizes are mostly noise are left out, as a note says of them.
    """
    form, scale = KINDS[kind]
    sums = released(np.random.default_rng(5), 2_000, sizes, [mean] * len(sizes), sd, scale / epsilon, form)
    less = known(sums, draws=128).cdf(mean if len(sizes) == 1 else 0.0)

    for p in (2 * np.minimum(less, 1 - less), 1 - less, less):
        for level in (0.05, 0.01, 0.001):
            assert ((p <= level) & ~sums.size_is_doubtful).sum() <= stats.binom.isf(1e-6, len(p), 1.2 * level)


# Planning.


@pytest.mark.statistical
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("sizes", "epsilon", "sd", "mean", "effect", "neighbors", "fixed"),
    [
        ((20,), 1.0, 0.3, 0.0, 0.25, "replace_one", False),
        ((2000,), 0.5, 0.3, 0.4, 0.02, "replace_one", False),
        ((400,), 0.5, 0.5, 0.0, 0.1, "add_remove", False),
        ((2000,), 0.5, 0.3, 0.4, 0.02, "add_remove", False),
        *(
            (*of, *how)
            for of in (((50, 100), 1.0, 0.5, 0.2, 0.3), ((1000, 500), 0.2, 0.4, 0.0, 0.1))
            for how in (("replace_one", True), ("replace_one", False), ("add_remove", False))
        ),
    ],
)
def test_power_agrees_with_simulation(sizes, epsilon, sd, mean, effect, neighbors, fixed):
    """Up to 0.03 and five errors of the simulation, of one sample and two, whatever is public about them."""
    two, runs = len(sizes) == 2, 2_000
    private = neighbors == "add_remove" or (two and not fixed)
    scale = (1.5625 if neighbors == "add_remove" else 3.125 if private else 2.125) / epsilon
    means = [mean + effect / 2, mean - effect / 2] if two else [mean + effect]
    form = "private" if private else "beside"
    sums = released(np.random.default_rng(sizes[-1]), runs, sizes, means, sd, scale, form)
    side, null = ("greater", 0.0) if two else ("two-sided", mean)
    how = {"effect": effect, "sd": sd, "mean": mean, "neighbors": neighbors, "fixed_groups": fixed}

    planned = power(sizes[0], epsilon, n2=sizes[1] if two else None, alternative=side, **how)

    simulated = (known(sums, draws=128).pvalue(null, side) < 0.05).mean()
    assert simulated == pytest.approx(planned, abs=0.03 + 5 * 0.5 / math.sqrt(runs))


def test_power_is_the_level_without_effect_and_grows_with_everything():
    """More rows, budget and effect, and less spread, give more; a sign only on one side; units do not matter."""
    base = {"n": 400, "epsilon": 0.5, "effect": 0.08, "sd": 0.5}
    better = (
        {"n": 500},
        {"epsilon": 0.8},
        {"effect": 0.1},
        {"sd": 0.4},
        {"alternative": "greater"},
        {"alpha": 0.1},
    )
    found, more = power(**base), [power(**base | change) for change in better]
    down = [power(**base | {"effect": -0.08, "alternative": side}) for side in ALTERNATIVES]
    scaled = {"n": 400, "epsilon": 0.5, "neighbors": "add_remove"}

    assert power(**base | {"effect": 0.0}) == pytest.approx(0.05, abs=0.015)
    assert min(more) > found + 0.03
    assert down[0] == pytest.approx(found, abs=0.02)
    assert down[2] < 0.003
    assert down[1] > found
    assert power(**scaled, effect=6, sd=30, mean=72, bounds=(0, 120)) == pytest.approx(
        power(**scaled, effect=0.1, sd=0.5, mean=0.2), rel=1e-9
    )


def test_sample_size_is_the_smallest_that_suffices():
    """The sample reaches the power, and one hundredth fewer rows do not."""
    how = {"effect": -0.15, "sd": 0.5, "alternative": "less"}
    n = sample_size(0.8, 0.5, ratio=0.5, **how)

    enough, few = (
        power(rows, 0.5, n2=round(0.5 * rows), **how) for rows in (math.ceil(1.01 * n), math.floor(0.98 * n))
    )

    assert enough >= 0.8 > few


def test_minimum_detectable_effect_has_its_power():
    """It is detected with the wanted power, in the units of the bounds; in too much noise it is infinite."""
    how = {"sd": 12.0, "n2": 300, "bounds": (10, 60), "alternative": "greater"}

    effect = minimum_detectable_effect(400, 0.5, power=0.9, **how)

    assert power(400, 0.5, effect=effect, **how) == pytest.approx(0.9, abs=0.01)
    assert minimum_detectable_effect(20, 0.01, sd=0.5) == math.inf


ASKED = {"n": 10, "epsilon": 1, "effect": 0.1, "sd": 0.5}
SIZE = {"power": 0.8, "epsilon": 1, "effect": 0.1, "sd": 0.5}


@pytest.mark.parametrize(
    ("function", "asked", "message"),
    [
        (public, {"total": 1, "squares": 1, "n": 1}, "fewer than two rows"),
        (power, ASKED | {"n": 1}, "out of range"),
        (power, ASKED | {"n2": 1}, "out of range"),
        (power, ASKED | {"epsilon": 0}, "epsilon"),
        (power, ASKED | {"effect": 3}, "outside the bounds"),
        (power, ASKED | {"effect": math.nan}, "outside the bounds"),
        (power, ASKED | {"sd": 1.5}, "at most half the width"),
        (power, ASKED | {"bounds": (1, 1)}, "not a finite interval"),
        (power, ASKED | {"mean": 2}, "outside the bounds"),
        (power, ASKED | {"alpha": 0}, "alpha"),
        (power, ASKED | {"alternative": "both"}, "no alternative"),
        (power, ASKED | {"neighbors": "none"}, "no neighbouring relation"),
        (sample_size, SIZE | {"effect": 0}, "large enough"),
        (sample_size, SIZE | {"effect": -0.1, "alternative": "greater"}, "large enough"),
        (sample_size, SIZE | {"ratio": 0}, "ratio"),
        (sample_size, SIZE | {"power": 0.01}, "between alpha"),
        (sample_size, SIZE | {"epsilon": 1e-12}, "would be needed"),
        (minimum_detectable_effect, {"n": 10, "epsilon": 1, "sd": 0.5, "power": 1}, "between alpha"),
    ],
)
def test_arguments_out_of_range_are_refused(function, asked, message):
    """Every argument is checked, and the message says what is wrong."""
    with pytest.raises(ArgumentError, match=message):
        function(**asked)
