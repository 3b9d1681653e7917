"""Power, sample size and detectable effect before any budget is spent."""

import math

import numpy as np
import pytest

from dfprivacy import ArgumentError
from dfprivacy.inference.engine import infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.laws import NoiseLaw
from dfprivacy_ttest.parameters import parameter
from dfprivacy_ttest.planning import minimum_detectable_effect, power, sample_size

RUNS = 4_000
TOLERANCE = 0.03 + 5 * 0.5 / math.sqrt(RUNS)  # the accuracy claimed, and five standard errors


def released(rng, sizes, means, sd, scale, *, private):
    """Releases of normal samples in y units, with noise of this scale in what is measured."""
    n = np.array(sizes, dtype=float)
    average = np.array(means) + sd / np.sqrt(n) * rng.standard_normal((RUNS, len(n)))
    total, squares = n * average, sd**2 * rng.chisquare(n - 1, (RUNS, len(n))) + n * average**2
    third, weights = (squares, (1, 1, 0.5)) if private else (n + 0 * total, (1, 0.5, 1))
    exact = np.stack([total, n - squares, third], axis=-1)
    scales = scale / np.array(weights)
    values = exact + scales * rng.laplace(size=exact.shape)
    rows = None if private else np.broadcast_to(n, (RUNS, len(n)))
    return NoisyMoments(values, [NoiseLaw(each) for each in scales], rows, "private" if private else "beside")


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n", "epsilon", "sd", "mean", "effect", "neighbors"),
    [
        (20, 1.0, 0.3, 0.0, 0.25, "replace_one"),
        (100, 0.5, 0.5, 0.0, 0.25, "replace_one"),
        (2000, 0.5, 0.3, 0.4, 0.02, "replace_one"),
        (400, 0.5, 0.5, 0.0, 0.1, "add_remove"),
        (2000, 0.5, 0.3, 0.4, 0.02, "add_remove"),
    ],
)
def test_one_sample_power_agrees_with_simulation(n, epsilon, sd, mean, effect, neighbors):
    """The power of the one-sample test is the simulated one, up to 0.03 and the error of the simulation."""
    private = neighbors == "add_remove"
    sensitivity = 1.5625 if private else 2.125
    rng = np.random.default_rng(n)
    sums = released(rng, [n], [mean + effect], sd, sensitivity / epsilon, private=private)

    expected = power(n, epsilon, effect=effect, sd=sd, mean=mean, neighbors=neighbors)

    assert (infer(sums, parameter(1), 512).pvalue(mean) < 0.05).mean() == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("neighbors", "fixed_groups", "sensitivity"),
    [("replace_one", True, 2.125), ("replace_one", False, 3.125), ("add_remove", False, 1.5625)],
)
@pytest.mark.parametrize(
    ("n", "n2", "epsilon", "sd", "mean", "effect"), [(50, 100, 1.0, 0.5, 0.2, 0.3), (1000, 500, 0.2, 0.4, 0.0, 0.1)]
)
def test_two_sample_power_agrees_with_simulation(
    n, n2, epsilon, sd, mean, effect, neighbors, fixed_groups, sensitivity
):
    """The power of the two-sample test is the simulated one, whatever is public about the groups."""
    rng = np.random.default_rng(n2)
    scale, private = sensitivity / epsilon, sensitivity != 2.125
    sums = released(rng, [n, n2], [mean + effect / 2, mean - effect / 2], sd, scale, private=private)
    how = {"n2": n2, "effect": effect, "sd": sd, "mean": mean, "neighbors": neighbors, "fixed_groups": fixed_groups}

    simulated = (infer(sums, parameter(2), 512).pvalue(0.0, "greater") < 0.05).mean()

    assert simulated == pytest.approx(power(n, epsilon, alternative="greater", **how), abs=TOLERANCE)


def test_power_is_the_level_without_effect_and_grows_with_everything():
    """No effect gives the level; more rows, more budget, more effect and less spread give more power."""
    base = {"n": 400, "epsilon": 0.5, "effect": 0.08, "sd": 0.5}
    better = [
        {"n": 500},
        {"epsilon": 0.8},
        {"effect": 0.1},
        {"sd": 0.4},
        {"alternative": "greater"},
        {"alpha": 0.1},
    ]

    assert power(**base | {"effect": 0.0}) == pytest.approx(0.05, abs=0.015)
    assert all(power(**base | change) > power(**base) + 0.03 for change in better)


def test_signs_and_sides():
    """A two-sided test does not care for the sign; a one-sided test finds nothing on its other side."""
    up = power(400, 0.5, effect=0.1, sd=0.5)

    assert power(400, 0.5, effect=-0.1, sd=0.5) == pytest.approx(up, abs=0.02)
    assert power(400, 0.5, effect=-0.1, sd=0.5, alternative="greater") < 0.003
    assert power(400, 0.5, effect=-0.1, sd=0.5, alternative="less") > up


def test_units_are_those_of_the_bounds():
    """Effect, standard deviation and mean may be given in the units of the data."""
    in_half_widths = power(400, 0.5, effect=0.1, sd=0.5, mean=0.2, neighbors="add_remove")

    in_years = power(400, 0.5, effect=6, sd=30, mean=72, bounds=(0, 120), neighbors="add_remove")

    assert in_years == pytest.approx(in_half_widths, rel=1e-9)


@pytest.mark.parametrize("ratio", [None, 0.5])
def test_sample_size_is_the_smallest_that_suffices(ratio):
    """The sample reaches the power, and one hundredth fewer rows do not."""
    how = {"effect": -0.15, "sd": 0.5, "alternative": "less"}

    n = sample_size(0.8, 0.5, ratio=ratio, **how)

    def reached(rows):
        return power(rows, 0.5, n2=None if ratio is None else round(ratio * rows), **how)

    assert reached(math.ceil(1.01 * n)) >= 0.8 > reached(math.floor(0.98 * n))


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize("n2", [None, 300])
def test_minimum_detectable_effect_has_its_power(n2, alternative):
    """The smallest detectable effect is detected with the wanted power, in the units of the bounds."""
    how = {"sd": 12.0, "n2": n2, "bounds": (10, 60), "alternative": alternative}

    effect = minimum_detectable_effect(400, 0.5, power=0.9, **how)
    signed = -effect if alternative == "less" else effect

    assert power(400, 0.5, effect=signed, **how) == pytest.approx(0.9, abs=0.01)


def test_nothing_is_detectable_in_too_much_noise():
    """Where no effect between the bounds can be found, the smallest one is infinite."""
    assert minimum_detectable_effect(20, 0.01, sd=0.5) == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: power(1, 1, effect=0.1, sd=0.5), "out of range"),
        (lambda: power(10, 1, effect=0.1, sd=0.5, n2=1), "out of range"),
        (lambda: power(10, 0, effect=0.1, sd=0.5), "epsilon"),
        (lambda: power(10, 1, effect=3, sd=0.5), "does not fit between the bounds"),
        (lambda: power(10, 1, effect=math.nan, sd=0.5), "does not fit between the bounds"),
        (lambda: power(10, 1, effect=0.1, sd=1.5), "at most half the width"),
        (lambda: power(10, 1, effect=0.1, sd=0.5, bounds=(1, 1)), "not an interval"),
        (lambda: power(10, 1, effect=0.1, sd=0.5, mean=2), "outside the bounds"),
        (lambda: power(10, 1, effect=0.1, sd=0.5, alpha=0), "alpha"),
        (lambda: power(10, 1, effect=0.1, sd=0.5, alternative="both"), "no alternative"),
        (lambda: power(10, 1, effect=0.1, sd=0.5, neighbors="none"), "no neighbors"),
        (lambda: sample_size(0.8, 1, effect=0, sd=0.5), "large enough"),
        (lambda: sample_size(0.8, 1, effect=-0.1, sd=0.5, alternative="greater"), "large enough"),
        (lambda: sample_size(0.8, 1, effect=0.1, sd=0.5, ratio=0), "ratio"),
        (lambda: sample_size(0.01, 1, effect=0.1, sd=0.5), "between alpha"),
        (lambda: sample_size(0.8, 1e-12, effect=0.1, sd=0.5), "would be needed"),
        (lambda: minimum_detectable_effect(10, 1, sd=0.5, power=1), "between alpha"),
    ],
)
def test_arguments_out_of_range_are_refused(call, message):
    """Every argument is checked, and the message says what is wrong."""
    with pytest.raises(ArgumentError, match=message):
        call()
