"""Survival curves and tests, through a view and by their formulas."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

import dfprivacy as dp
from dfprivacy_inference.curves import Curve, estimate
from dfprivacy_inference.scores import GehanScores

COUNT = itertools.count()
TERMS = {
    "bounds": {"t": (0.0, 1000.0)},
    "categories": {"died": [0, 1], "arm": ["old", "new"], "name": ["x", "y"]},
    "ledger": "memory:",
}


def table(n=1000, ratio=1.8, seed=0):
    """Weibull times, longer in one arm, censored at random, in whole days."""
    rng = np.random.default_rng(seed)
    arm = rng.choice(["old", "new"], n)
    times = rng.weibull(1.3, n) * 420 * np.where(arm == "new", ratio ** (1 / 1.3), 1.0)
    ends = rng.uniform(200, 1000, n)
    return pd.DataFrame({
        "t": np.floor(np.minimum(times, ends)).clip(0, 999),
        "died": (times <= ends).astype(int),
        "arm": arm,
        "name": "x",
    })  # fmt: skip


def protect(frame, **terms):
    """Protect rows with much to spend."""
    return dp.protect(frame, f"survival {next(COUNT)}", **{**TERMS, "epsilon": 10**6, **terms})


def test_reference_curve():
    """Survival and Greenwood's sum of four intervals."""
    found = estimate((10, 8, 6, 4), (2, 3, 5, 12), 0.0)

    assert found.survival == pytest.approx([0.795918367, 0.621470506, 0.469273647, 0.281564188], abs=1e-8)
    assert found.greenwood == pytest.approx([0.005232862, 0.012923321, 0.026161049, 0.092827716], abs=1e-8)


def test_reference_scores_of_censored_times():
    """Gehan's scores of six rows in one group, and three times the products of numbers at risk."""

    class Rows:
        size = 6

        def values(self, _):
            return np.array([2.0, 3, 3, 5, 7, 9])

        def codes(self, _):
            return np.array([1, 0, 1, 1, 0, 1])

        def missing(self, _):
            return np.zeros(6, dtype=bool)

    scores = GehanScores(dp.Column("t", bounds=(0.0, 10.0)), dp.Column("e", categories=(0, 1)))

    summed = scores.summed(Rows(), np.array([0, 1, 0, 1, 0, 1]), 2)

    assert summed == ([-5, 5], 3 * (3 * 3 + 2 * 3 + 1 * 2 + 0))


def test_hardly_any_noise_gives_the_curve_of_statsmodels():
    """Where intervals are days, the actuarial curve is that of Kaplan and Meier but for ties."""
    frame = table(4000)
    exact = SurvfuncRight(frame.t, frame.died)

    found = protect(frame).kaplan_meier("t", "died", 500, epsilon=10**6)

    at = np.searchsorted(exact.surv_times, np.array(found.edges[1:]) - 1e-9, side="left") - 1
    assert np.abs(np.array(found.survival[0]) - exact.surv_prob[np.maximum(at, 0)])[2:].max() < 0.01
    assert found.median[0] == pytest.approx(exact.quantile(0.5), abs=5)


def test_hardly_any_noise_gives_gehans_statistic():
    """Nearly the p-value of statsmodels, whose variance is not the largest one."""
    frame = table(600, ratio=1.3, seed=5)
    chi2, expected = survdiff(frame.t, frame.died, frame.arm, weight_type="gb")

    found = protect(frame).survival_test("t", "died", "arm", epsilon=10**5)

    assert chi2 > 0
    assert found.effect == pytest.approx(0.5 + found.statistic / 2 / np.prod(found.sizes), abs=1e-9)
    assert expected * 0.5 < found.pvalue < max(expected * 30, 0.2)
    assert found.statistic < 0  # the old arm dies sooner


@pytest.mark.statistical
def test_bands_cover():
    """At four times of 400 tables of 500 rows, ε = 1."""
    rng, runs, n = np.random.default_rng(7), 400, 500
    edges = np.linspace(0, 1000, 11)
    truth = np.exp(-((edges[1:] / 420) ** 1.3))
    covered = np.zeros(10)
    for _ in range(runs):
        times, ends = rng.weibull(1.3, n) * 420, rng.uniform(200, 1020, n)
        event, seen = times <= ends, np.minimum(np.minimum(times, ends), 999.9)
        counts = np.stack([np.histogram(seen[event == here], edges)[0] for here in (True, False)])
        low, high = Curve(counts + rng.laplace(0, 2, counts.shape), 2.0, edges).bands(0.95)
        covered += (low <= truth) & (truth <= high)

    assert (covered[[1, 2, 4, 6]] / runs >= 0.90).all()


def test_a_curve_that_stays_high_has_no_median():
    """Infinity, and a restricted mean all the same."""
    frame = pd.DataFrame({"t": np.full(500, 900.0), "died": 0, "arm": "old", "name": "x"})

    found = protect(frame).kaplan_meier("t", "died", 10, epsilon=5)

    assert found.median == (float("inf"),)
    assert found.restricted_mean[0] == pytest.approx(1000, abs=60)


@pytest.mark.parametrize("terms", [{}, {"public": ["arm"]}, {"neighbors": "add_remove"}])
def test_every_way_of_asking_answers(constructor, terms):
    """Private and public groups, both relations, some rows and by group, with times missing."""
    frame = table()
    frame.loc[::10, "t"] = np.nan
    view = protect(constructor(frame.to_dict("list")), **terms)

    curves = view.kaplan_meier("t", "died", list(range(0, 1001, 100)), by="arm", epsilon=20)
    test = view.survival_test("t", "died", "arm", epsilon=20)
    some = view.where(name="x").kaplan_meier("t", "died", 5, epsilon=20)
    each = view.group_by("arm").kaplan_meier("t", "died", 5, epsilon=20)

    assert test.rejected
    assert test.effect < 0.5
    assert curves.median[0] < curves.median[1]
    assert all(
        low < middle < high
        for low, middle, high in zip(curves.median_low, curves.median, curves.median_high, strict=True)
    )
    assert curves.table().shape[0] == 20
    assert curves.at_risk[0][0] > curves.at_risk[0][5]
    assert len(some.survival[0]) == 5
    assert len(each.releases) == 2


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda view: view.kaplan_meier("t", "arm", 10, epsilon=1), "not 0 and 1"),
        (lambda view: view.kaplan_meier("t", "died", [0, 500], epsilon=1), "do not cover"),
        (lambda view: view.kaplan_meier("t", "died", [0, 900, 800, 1000], epsilon=1), "rise"),
        (lambda view: view.kaplan_meier("t", "died", 0, epsilon=1), "too many, or none"),
        (lambda view: view.kaplan_meier("t", "died", ["a", "b"], epsilon=1), "no times"),
        (lambda view: view.kaplan_meier("t", "died", 10, groups=["old"], epsilon=1), "without by="),
        (lambda view: view.survival_test("t", "died", "died", epsilon=1), "named twice"),
        (lambda view: view.survival_test("t", "died", "arm", groups=["old"], epsilon=1), "needs 2 groups"),
        (lambda view: view.survival_test("t", "name", "arm", epsilon=1), "not 0 and 1"),
    ],
)
def test_bad_input_costs_nothing(ask, message):
    """It is refused before anything is paid."""
    view = protect(table(60))

    with pytest.raises(dp.ArgumentError, match=message):
        ask(view)

    assert view.budget.spent == 0


def test_negative_times_are_refused():
    """Bounds below 0 say that something is wrong."""
    view = protect(table(60), bounds={"t": (-1.0, 1000.0)})

    with pytest.raises(dp.ArgumentError, match="cannot be negative"):
        view.kaplan_meier("t", "died", 10, epsilon=1)


def test_many_intervals_are_noted():
    """Fewer would have narrower bands."""
    assert "many intervals" in protect(table(200)).kaplan_meier("t", "died", 50, epsilon=1).notes[0]


def _height(band, edge):
    """How high a band is at an edge, counted from 0."""
    at = np.unique(band.get_paths()[0].vertices[:, 0])[edge]
    here = band.get_paths()[0].vertices
    return np.ptp(here[here[:, 0] == at, 1])


def test_a_plot_has_curves_bands_and_numbers_at_risk():
    """Two of each, and within each band that without the noise."""
    ax = protect(table()).kaplan_meier("t", "died", 10, by="arm", epsilon=5).plot()

    assert len(ax.lines) == 2
    assert len(ax.collections) == 4
    tall = [_height(band, 5) for band in ax.collections]
    assert tall[0] > tall[1] > 0
    assert tall[2] > tall[3] > 0
    assert "at risk" in [text.get_text() for text in ax.texts]
