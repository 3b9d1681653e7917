"""Mechanisms of a statistic: what ten lines give."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy.inference import planning
from dfprivacy.inference.draws import sums_of_two_releases
from dfprivacy.inference.engine import Inference
from dfprivacy.inference.groups import mean
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.laws import NoiseLaw
from dfprivacy.testing import seeded_noise

NAMES = (f"estimates-{number}" for number in itertools.count())
ROWS = 4000
RNG = np.random.default_rng(8)
TABLE = {
    "wage": RNG.gamma(9, 5, ROWS),
    "g": np.where(np.arange(ROWS) % 2, "a", "b"),
    "p": np.arange(ROWS) // 2,
}


def variation(s):
    """Estimate the coefficient of variation."""
    cv = s.sd / s.mean
    return cv, cv**2 * (0.5 + cv**2) / s.n


@pytest.fixture(autouse=True)
def registered():
    """The mechanism, as long as a test."""
    made = dp.statistic(null=1.0)(variation)
    dp.register_mechanism(made)
    yield
    dp.unregister("variation")


def protect(rows=TABLE, **terms):
    known = {"bounds": {"wage": (0.0, 150.0)}, "categories": {"g": ["a", "b"]}, "ledger": "memory:"}
    return dp.protect(pd.DataFrame(rows), next(NAMES), **{"epsilon": 10**6, **known, **terms})


@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}, {"unit": "p", "max_rows": 2}])
def test_with_little_noise_it_is_the_statistic(terms):
    """At a huge epsilon estimate and standard error are those of the rows."""
    x = TABLE["wage"].clip(0, 150)
    cv = x.std(ddof=1) / x.mean()

    found = protect(**terms).variation("wage", epsilon=10**4)

    assert found.estimate == pytest.approx(cv, rel=1e-3)
    assert found.standard_error == pytest.approx(np.sqrt(cv**2 * (0.5 + cv**2) / ROWS), rel=2e-2)
    assert found.n == pytest.approx(ROWS, abs=0.5)
    assert found.rejected


@pytest.mark.statistical
def test_its_interval_covers_and_its_error_is_expected():
    """Of 300 answers about as many cover the number of the population as is said; explain expects their error."""
    truth = 1 / 3  # of a gamma variable of shape 9
    rng = np.random.default_rng(5)
    rows = {"wage": rng.gamma(9, 5, 300 * 500), "r": np.repeat(np.arange(300), 500)}
    view = protect(rows, categories={"r": list(range(300))}, public=["r"])

    with seeded_noise(6):
        found = view.group_by("r").variation("wage", epsilon=1).releases
    expected = view.where(r=0).explain("variation", "wage", epsilon=1).findings

    covered = sum(each.low <= truth <= each.high for each in found)
    noise = np.median([each.noise_standard_error for each in found])
    assert 270 <= covered <= 298
    assert 0.25 <= expected["expected standard error of the variation from noise"] / noise <= 4


def test_other_statistics_of_the_same_sums_are_free():
    """What was measured answers another statistic, at another level; what may be infinite has open ends."""

    @dp.statistic()
    def spread_squared(s):
        """Estimate the variance."""
        return s.variance, 2 * s.variance**2 / s.n

    @dp.statistic()
    def log_above(s):
        """Estimate the logarithm of the mean above 45."""
        return np.log(s.mean - 45), 1 / s.n

    view = protect()
    found, level = view.variation("wage", epsilon=1), view.variation("wage", epsilon=1, confidence=0.8)
    for each in (spread_squared, log_above):
        dp.register_mechanism(each)
    try:
        other, open_ = view.spread_squared("wage", epsilon=1), protect().log_above("wage", epsilon=0.01)
    finally:
        for each in (spread_squared, log_above):
            dp.unregister(each.name)

    assert view.budget.spent == pytest.approx(1)
    assert (other.pvalue, other.rejected) == (None, None)
    assert tuple(found.confidence_interval(0.8)) == pytest.approx((level.low, level.high), rel=1e-9)
    assert tuple(found.confidence_interval()) == (found.low, found.high)
    assert (open_.low, open_.high) == (-np.inf, np.inf)


def test_an_estimate_is_shown_everywhere():
    """By group, in a plan and in power, and in words of its own."""
    view = protect()
    found = view.variation("wage", epsilon=1)

    planned = view.plan([("variation", "wage"), ("mean", "wage")], epsilon=1)
    power = view.power(("variation", "wage"), n=[200], epsilon=[1], runs=3)

    assert "The variation of wage limited to [0, 150] is" in repr(found)
    assert found.to_frame()["term"].tolist() == ["variation(wage)"]
    assert len(view.group_by("g").variation("wage", epsilon=1).releases) == 2
    assert "variation('wage')" in repr(planned)
    assert "normal values" in repr(power)
    assert dp.Release.from_json(found.to_json()) == found
    assert found.plot().get_xlabel() == "variation of wage"


def test_what_is_expected_of_a_mean():
    """The noise of a mean is that of the sum over the rows, up to 5%; an effect is found, or none is."""
    sums = NoisyMoments(np.zeros((1, 2)), [NoiseLaw(4.0), NoiseLaw(8.0)], np.array([1000.0]), bounds=(0.0, 10.0))
    releases = sums.simulate([1000], [5.0], [1.0], planning.FEW)

    noise, both = planning.expected_errors(releases, lambda moments: mean(moments[0]))

    assert noise == pytest.approx(5 * 4 * 2**0.5 / 1000, rel=0.05)
    assert both == pytest.approx((noise**2 + 1 / 1000) ** 0.5, rel=0.05)
    assert planning.smallest_effect("effect", lambda effect: effect, 1.0, given=", once") == {
        "smallest effect found with probability 0.8, once": "0.800"
    }
    assert [*planning.smallest_effect("effect", lambda _: 0.0, 1.0).values()] == [planning.NONE]


def test_the_confidence_distribution_is_a_mixture_of_students_t():
    """Where a draw has no sampling variance, it is a step there; the quantile is where the distribution has it."""
    theta, weights = np.array([-0.4, 0.3, 0.5, 2.0]), np.array([0.1, 0.2, 0.3, 0.4])
    variance, df = np.array([0.0, 0.25, 4.0, 0.0]), np.array([5.0, 3.0, 1000.0, 5.0])
    found = Inference(np.array(0.5), theta, variance, df, weights)
    steps = Inference(np.array(0.5), theta, np.zeros(4), df, weights)

    for x in (-9.0, -0.39, 0.0, 0.45, 1.0, 1.999, 2.0, 2.5):
        known = np.where(variance > 0, stats.t.cdf(x, df, theta, np.sqrt(np.maximum(variance, 1e-9))), x >= theta)
        assert found.cdf(x) == pytest.approx(known @ weights, abs=1e-6)
        assert steps.cdf(x) == pytest.approx((x >= theta) @ weights)
    assert [found.cdf(found.quantile(q)) for q in (0.05, 0.3, 0.95)] == pytest.approx([0.05, 0.3, 0.95])
    assert [found.quantile(q) for q in (0.15, 0.55)] == pytest.approx([-0.4, 2.0])  # in a step
    assert [steps.quantile(q) for q in (0.05, 0.25, 0.55, 0.7)] == [-0.4, 0.3, 0.5, 2.0]


@pytest.mark.parametrize("floor", [-30.0, 4.0, 6.0])
@pytest.mark.parametrize("scales", [(2.0, 0.7), (0.7, 2.0), (1.5, 1.5)])
@pytest.mark.parametrize("kind", ["Laplace", "Gaussian"])
def test_a_sum_given_two_releases_has_the_product_of_their_laws(kind, scales, floor):
    """The quantiles, with the lower bound of the sum, are those of the density by numerical integration."""
    released, laws = (3.0, 5.0), tuple(NoiseLaw(scale, kind=kind) for scale in scales)
    x = np.linspace(floor, 40, 400_001)
    logs = [np.abs(x - each) / scale for each, scale in zip(released, scales, strict=True)]
    density = np.exp(-sum(logs if kind == "Laplace" else [each**2 / 2 for each in logs]))
    u = np.array([0.95, 0.5, 0.2, 0.01])

    found = sums_of_two_releases(tuple(np.array([each]) for each in released), laws, np.array([floor]), u)

    above = np.cumsum(density[::-1])[::-1] / density.sum()
    assert found.ravel() == pytest.approx(np.interp(u, above[::-1], x[::-1]), abs=1e-3)
