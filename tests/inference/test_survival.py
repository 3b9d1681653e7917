"""Survival curves and tests, through a view and by their formulas."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

import dfprivacy as dp
from dfprivacy.laws import NoiseLaw
from dfprivacy_inference.curves import Curve, LifeTable, cumulated_hazard
from dfprivacy_inference.groups import TwoGroups
from dfprivacy_inference.statistics import GehanScores

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


class Rows:
    """A few rows, as features and statistics read them."""

    def __init__(self, times, events):
        self.size, self.times, self.events = len(times), np.array(times, dtype=float), np.array(events)

    def values(self, _):
        return self.times

    def codes(self, _):
        return self.events

    def missing(self, _):
        return np.zeros(self.size, dtype=bool)


TIME, EVENT = dp.Column("t", bounds=(0.0, 1000.0)), dp.Column("e", categories=(0, 1))


def life_table(times, events, edges):
    """The exact table of some rows."""
    return (
        LifeTable(TIME, EVENT, np.asarray(edges, dtype=float)).rows(Rows(times, events)).sum(axis=0).reshape(3, -1)
    )


def test_reference_life_table():
    """Intervals hold their upper ends, the first both; a censored time is shared, and no row is more than 1."""
    times, events = [0.0, 2.0, 2.5, 4.0, 3.0, 4.0, 9.0, 1.0], [1, 1, 1, 1, 0, 0, 0, 2]

    found = life_table(times, events, [0, 2, 4, 5])

    assert found.tolist() == [[2, 2, 0], [0, 1.5, 1], [0, 0.5, 0]]


def test_reference_curve():
    """Times on edges: 1 - d/n multiplied, and Greenwood's sum."""
    d, c, n = np.array([10, 8, 6, 4]), np.array([2, 3, 5, 12]), np.array([50, 38, 27, 16])

    hazard, added, at_risk = cumulated_hazard(np.stack([d, c, 0 * c]).astype(float))

    assert np.exp(-hazard) == pytest.approx(np.cumprod(1 - d / n), abs=1e-12)
    assert added == pytest.approx(d / (n * (n - d)), abs=1e-12)
    assert at_risk.tolist() == n.tolist()


def test_times_within_intervals_are_exposed_as_long_as_they_lived():
    """Of exponential times censored evenly, the table of three intervals has the hazard that all have."""
    rng = np.random.default_rng(2)
    times, ends = rng.exponential(40, 10**6), rng.uniform(0, 60, 10**6)

    found = cumulated_hazard(life_table(np.minimum(times, ends), (times <= ends).astype(int), [0, 20, 40, 60]))[0]

    assert found == pytest.approx([0.5, 1.0, 1.5], abs=0.04)


def test_reference_scores_of_censored_times():
    """Gehan's scores of six rows in one group, and three times the products of numbers at risk."""

    rows = Rows([2, 3, 3, 5, 7, 9], np.array([1, 0, 1, 1, 0, 1]))

    summed = GehanScores(TIME, EVENT).summed(rows, np.array([0, 1, 0, 1, 0, 1]), 2)

    assert summed == ([-5, 5], 3 * (3 * 3 + 2 * 3 + 1 * 2 + 0))


@pytest.mark.parametrize("followed", ["all for 60", "half for 24", "at random"])
def test_hardly_any_noise_gives_the_curve_of_statsmodels(followed):
    """Kaplan and Meier's, with its bands, where times are whole months, censored at the end or before."""
    rng, n = np.random.default_rng(4), 1500
    ends = {
        "all for 60": np.full(n, 60),
        "half for 24": rng.choice([24, 60], n),
        "at random": rng.integers(1, 61, n),
    }
    times = np.ceil(rng.exponential(40, n))
    t, died = np.minimum(times, ends[followed]), (times <= ends[followed]).astype(int)
    view = protect(pd.DataFrame({"t": t, "died": died}), bounds={"t": (0.0, 60.0)}, categories={"died": [0, 1]})
    exact = SurvfuncRight(t, died)

    found = view.kaplan_meier("t", "died", 60, epsilon=10**5)

    at = np.searchsorted(exact.surv_times, found.edges[1:], side="right") - 1
    error = exact.surv_prob_se[at] / (exact.surv_prob[at] * -np.log(exact.surv_prob[at]))
    for ends, reach in ((found.survival, 0), (found.lows, 1.959964), (found.highs, -1.959964)):
        assert ends[0] == pytest.approx(exact.surv_prob[at] ** np.exp(reach * error), abs=1e-3 if reach else 2e-5)
    assert found.median[0] <= exact.quantile(0.5) <= found.median[0] + 1
    assert found.median_low[0] <= exact.quantile_ci(0.5)[0]
    assert exact.quantile_ci(0.5)[1] <= found.median_high[0] + 1


@pytest.mark.parametrize("terms", [{}, {"public": ["arm"]}, {"neighbors": "add_remove"}])
@pytest.mark.parametrize("ratio", [1.0, 1.3])
def test_hardly_any_noise_gives_gehans_statistic(terms, ratio):
    """Statsmodels' p-value, and an effect whose interval leaves 1/2 out if and only if the test rejects."""
    frame = table(600, ratio=ratio, seed=5)
    _, expected = survdiff(frame.t, frame.died, frame.arm, weight_type="gb")

    found = protect(frame, **terms).survival_test("t", "died", "arm", epsilon=10**5)

    assert found.pvalue == pytest.approx(expected, rel=0.02, abs=1e-4)
    assert found.effect == pytest.approx(0.5 + found.statistic / 2 / np.prod(found.sizes), abs=1e-9)
    assert found.rejected == (not found.low <= 0.5 <= found.high)


def releases(rng, runs, n, hazards, ends, epsilon):
    """P-values of two public groups of n rows."""
    exact = np.empty((2, runs))
    for run in range(runs):
        times = np.concatenate([rng.exponential(1 / hazard, n) for hazard in hazards])
        last = np.concatenate([draw(n) for draw in ends])
        rows = Rows(np.minimum(times, last), (times <= last).astype(int))
        (one, _), spread = GehanScores(TIME, EVENT).summed(rows, np.repeat([0, 1], n), 2)
        exact[:, run] = one / 2, spread / (2 * n * (4 * n**2 - 1))
    scales = [1.1 * n / epsilon, 0.0, 0.0, 1.1 * 1.5 / (0.1 * (2 * n + 1)) / epsilon]
    rank_sum, spread = exact + rng.laplace(size=(2, runs)) * np.array([[scales[0]], [scales[3]]])
    sizes = np.full(runs, float(n))
    values = np.stack([rank_sum, sizes, sizes, spread], axis=-1)
    return TwoGroups(values, scales, 2 * n, rows=(n, n), complete=True, spread="variance").effect().pvalue(0.5)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("hazards", "until", "power"),
    [((1 / 1000, 1.8 / 1000), (60, 60), 0.85), ((1 / 30, 1.25 / 30), (30, None), 0.75)],
    ids=["few events", "unequal censoring"],
)
def test_level_and_power_of_censored_times(hazards, until, power):
    """Of 500 tables of 1,000 rows each, ε = 1: where the variance of uncensored times finds a third of them."""
    rng = np.random.default_rng(8)
    ends = [lambda n, last=last: np.full(n, 60.0) if last != 30 else rng.uniform(0, last, n) for last in until]

    level = (releases(rng, 500, 1000, hazards[:1] * 2, ends, 1.0) <= 0.05).mean()
    found = (releases(rng, 500, 1000, hazards, ends, 1.0) <= 0.05).mean()

    assert level <= 0.10
    assert found >= power


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n", "epsilon", "shape", "ends"),
    [(20_000, 1.0, 1.0, (24.0, 60.0)), (20_000, 1.0, 2.5, (60.0,)), (2000, 0.5, 1.0, (60.0,))],
)
def test_bands_medians_and_means_cover(n, epsilon, shape, ends):
    """Of 200 tables with ten intervals, censored at the end of the study, or half of them before."""
    rng, runs, edges = np.random.default_rng(7), 200, np.linspace(0, 60, 11)
    truth, median = np.exp(-((edges[1:] / 40) ** shape)), 40 * np.log(2) ** (1 / shape)
    fine = np.linspace(0, 60, 6001)
    mean = (np.exp(-((fine / 40) ** shape)) * 0.01).sum()
    covered = np.zeros(12)
    for _ in range(runs):
        times, last = rng.weibull(shape, n) * 40, rng.choice(ends, n)
        exact = life_table(np.minimum(times, last), (times <= last).astype(int), edges)
        curve = Curve(exact + rng.laplace(0, 2 / epsilon, exact.shape), NoiseLaw(2 / epsilon), edges)
        low, high = curve.bands(0.95)
        (_, after, before), (_, least, most) = curve.median(low, high), curve.restricted_mean(0.95)
        covered += [*((low <= truth) & (truth <= high)), after <= median <= before, least <= mean <= most]

    assert (covered / runs >= 0.87).all()


def test_times_on_the_ends_of_intervals_are_within_the_medians_interval():
    """Half of all credits end at 36 months, and the table of years cannot tell that from any time after 24."""
    frame = pd.DataFrame({"t": np.repeat([12.0, 24.0, 36.0, 48.0], [150, 250, 400, 200]), "died": 1})

    view = protect(frame, bounds={"t": (0.0, 60.0)}, categories={"died": [0, 1]})

    found = view.kaplan_meier("t", "died", 5, epsilon=5)

    assert (found.median_low[0], found.median_high[0]) == (24.0, 36.0)
    assert "ends of the intervals" in found.notes[0]


def test_a_curve_that_stays_high_has_no_median():
    """Infinity, and a restricted mean all the same."""
    frame = pd.DataFrame({"t": np.full(500, 900.0), "died": 0, "arm": "old", "name": "x"})

    found = protect(frame).kaplan_meier("t", "died", 10, epsilon=5)

    assert found.median == (float("inf"),)
    assert found.median_high == (float("inf"),)
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
    assert curves.to_frame().shape[0] == 24
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
        (lambda view: view.survival_test("t", "died", "arm", groups=["old"], epsilon=1), "compares two groups"),
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


def test_a_curve_is_in_the_text_and_in_the_table():
    """Ten times of each group in the one, all in the other."""
    found = protect(table()).kaplan_meier("t", "died", 20, by="arm", epsilon=5)

    frame = found.to_frame()

    curve = frame[frame.term == "survival"]
    assert len(curve) == 40
    assert (curve.low <= curve.estimate).all()
    assert (curve.estimate <= curve.high).all()
    assert [line.split()[:2] for line in repr(found).splitlines() if line.strip().startswith("new ")] == [
        ["new", f"{time}"] for time in range(100, 1001, 100)
    ]


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
