"""``view.chi2_many``: many columns, by the difference or the unit circle, asked one by one or selected."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.nulls import MissingRowsNull, share_nearest_half
from dfprivacy_chi2.tables import signed_distance, tight_sensitivity, unit_circle_norm

NAMES = (f"many-{number}" for number in itertools.count())
ROWS, GENES, SIZES = 1000, [f"gene{k}" for k in range(30)], (400, 600)
TERMS = {"categories": {**dict.fromkeys(GENES, (False, True)), "arm": ["drug", "placebo"]}, "public": ["arm"]}
ARM = np.where(np.arange(ROWS) < SIZES[0], "drug", "placebo")
DIFFERENT = {"gene3": 0.4, "gene11": 0.5, "gene20": 0.3}
CIRCLE = {"statistic": "unitcircle", "nan_policy": "fill"}
HOW = {
    "svt": {},
    "select": {"method": "select"},
    "circle, svt": CIRCLE,
    "circle, select": {"method": "select", **CIRCLE},
    "circle, distance": {"method": "select", "score": "distance", **CIRCLE},
}


def table(draw, different=DIFFERENT):
    """Columns that are independent of the arm, but for those that differ by so much."""
    shares = {gene: 0.3 + (ARM == "drug") * different.get(gene, 0.0) for gene in GENES}
    return {**{gene: draw.random(ROWS) < share for gene, share in shares.items()}, "arm": ARM}


TABLE = table(np.random.default_rng(20_261_121))
COUNTS = {gene: [int(TABLE[gene][arm == ARM].sum()) for arm in ("drug", "placebo")] for gene in GENES}


def protect(rows=TABLE, **terms):
    return dp.protect(pd.DataFrame(rows), next(NAMES), **{"epsilon": 10**6, "ledger": "memory:", **TERMS, **terms})


@pytest.fixture(scope="module")
def view():
    """The table, with much to spend."""
    return protect()


def scales_of(found):
    """The scales of the noise in a comparison."""
    return [deviation / math.sqrt(2) for deviation in found.noise_standard_error]


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_the_columns_that_differ_are_found(how, view):
    """At a huge epsilon those that differ are rejected, and no other; it is one measurement, or two."""
    found = view.chi2_many(GENES, "arm", **how, max_rejections=4, epsilon=10**4)

    assert set(found.discoveries) == set(DIFFERENT)
    assert (found.tests, found.sizes, found.groups) == (30, SIZES, ("drug", "placebo"))
    assert len(found.privacy.noise) == (1 if "method" not in how else 2)
    if "statistic" in how:
        assert found.tau == pytest.approx(stats.chi2.isf(0.05 / 30, 1))
        assert found.differences == ()


def test_selection_tells_the_differences(view, plt):
    """The largest are selected, best first, and released with their p-values; or the norms of the circle."""
    found = view.chi2_many(GENES, "arm", method="select", max_rejections=3, epsilon=10**4)
    circle = view.chi2_many(GENES, "arm", method="select", **CIRCLE, tau=5.0, max_rejections=3, epsilon=10**4)

    apart = {gene: abs(c / 400 - d / 600) for gene, (c, d) in COUNTS.items()}
    null, scales = MissingRowsNull(400, 0.5), scales_of(found)
    assert found.answered == ("gene11", "gene3", "gene20")
    assert found.differences == pytest.approx([apart[gene] for gene in found.answered], abs=1e-4)
    assert found.pvalues == pytest.approx([null.pvalue(d, *scales) for d in found.differences])
    norms = {gene: unit_circle_norm(*COUNTS[gene], *SIZES, 5.0) for gene in GENES}
    assert circle.answered[0] == "gene11"
    for each, word in ((found, "difference"), (circle, "norm")):
        ax = each.plot()
        assert (ax.get_title(), word in ax.get_xlabel()) == ("3 found", True)
    assert circle.norms == pytest.approx([float(norms[gene]) for gene in circle.answered], abs=1e-3)
    assert scales_of(circle) == pytest.approx([2 * 3 / 10**4 * tight_sensitivity(*SIZES, 5.0)], rel=1e-4)


@pytest.mark.parametrize("statistic", ["difference", "unitcircle"])
def test_the_distance_selects_what_the_most_rows_decide(statistic, view):
    """Columns are selected by the signed distance to the circle of tau."""
    asked = {"method": "select", "score": "distance", "statistic": statistic, "nan_policy": "fill", "tau": 6.0}

    found = view.chi2_many(GENES, "arm", **asked, max_rejections=2, epsilon=10**4)

    away = {gene: int(signed_distance(*COUNTS[gene], *SIZES, 6.0)) for gene in GENES}
    assert found.answered == tuple(sorted(GENES, key=away.__getitem__)[:-3:-1])
    assert found.tau == 6


def test_asking_stops(view):
    """At the last rejection that was paid for; and, with s₂ = 12, as if there were the first 12 columns alone."""
    found = view.chi2_many(GENES, "arm", max_rejections=2, epsilon=10**4)
    twelve = view.chi2_many(GENES, "arm", max_tests=12, max_rejections=4, epsilon=10**4)
    alone = view.chi2_many(GENES[:12], "arm", max_rejections=4, epsilon=10**4)
    told = [view.explain("chi2_many", GENES, "arm", **more, epsilon=1).findings for more in ({}, {"max_tests": 5})]

    assert found.discoveries == twelve.discoveries == ("gene3", "gene11")
    assert found.answered == twelve.answered == tuple(GENES[:12])
    assert len(found.thresholds) == 12
    assert found.notes == (
        "the budget allows max_rejections= rejections; after the last one, no further column was tested",
    )
    assert (twelve.tests, twelve.max_tests, twelve.notes) == (12, 12, ())
    assert twelve.thresholds == alone.thresholds
    assert [next(iter(each.values())) for each in told] == [0.05 / 30, 0.05 / 5]
    assert next(iter(told[1])) == "each of 5 columns is tested at level"


def test_how_the_budget_is_shared():
    """Threshold to values as 1 to (2 s)^(2/3), in units of the smaller group; half selects, and half tests."""
    for how, deviations in (
        ({"max_rejections": 5}, [1 / (0.177253 * 2 * 400), 10 / ((1 - 0.177253) * 2 * 400)]),
        ({"max_rejections": 4, "method": "select"}, [4 / 400]),
    ):
        view = protect()
        found = view.chi2_many(GENES, "arm", **how, epsilon=2)
        assert scales_of(found) == pytest.approx(deviations, rel=1e-4)
        assert view.budget.spent == 2


@pytest.mark.parametrize("how", [HOW["svt"], HOW["select"], HOW["circle, svt"] | {"rate": 0.3}], ids=str)
def test_each_column_is_tested_at_its_part_of_the_level(how, view):
    """A threshold is exceeded with probability alpha over the number of columns, noise included."""
    found = view.chi2_many(GENES, "arm", **how, max_rejections=3, alpha=0.1, epsilon=1)

    scales = scales_of(found)
    law = nulls.norm_null(*SIZES, found.tau, 0.3) if "rate" in how else MissingRowsNull(400, 0.5)
    assert len(found.thresholds) == len(found.answered) >= 3
    assert len(set(found.thresholds)) == 1
    assert 0.99 * 0.1 / 30 <= law.pvalue(found.thresholds[0], *scales) <= 0.1 / 30 * (1 + 1e-6)
    if "rate" in how:
        first, unit = 1 / (1 + 6 ** (2 / 3)), tight_sensitivity(*SIZES, stats.chi2.isf(0.1 / 30, 1))
        assert scales == pytest.approx([unit / first, 6 * unit / (1 - first)], rel=1e-4)


def test_rates(view):
    """A list has a share or a range for each column, a number or a range is for all; rare ones take less."""
    rates = [0.02, (0.1, 0.2), 0.5, (0.3, 0.8)] + [0.5] * 26
    found = view.chi2_many(GENES, "arm", max_rejections=30, rate=rates, nan_policy="fill", epsilon=5)
    one = [view.chi2_many(GENES, "arm", rate=rate, epsilon=1).thresholds[0] for rate in (0.1, (0.1, 0.2), None)]

    scales = scales_of(found)
    expected = [
        MissingRowsNull(400, share_nearest_half(rate)).critical_value(0.05 / 30, *scales) for rate in rates[:4]
    ]
    assert found.thresholds[:4] == pytest.approx(expected, rel=1e-9)
    assert found.thresholds[0] < found.thresholds[1] < found.thresholds[2]
    assert one[0] < one[1] < one[2]


@pytest.mark.statistical
@pytest.mark.parametrize("how", [HOW["svt"], HOW["select"], HOW["circle, distance"] | {"rate": 0.3}], ids=str)
def test_family_wise_error(how):
    """Of 20 tables without any difference, no more have a false rejection than the level of 20% lets."""
    draw, runs, wrong = np.random.default_rng(1), 20, 0
    for _ in range(runs):
        rows = table(draw, {})
        rows |= {f"gene{k}": rows["gene0"] for k in range(1, 5)}  # five that depend on each other
        found = protect(rows).chi2_many(GENES[:12], "arm", **how, max_rejections=2, alpha=0.2, epsilon=2)
        wrong += bool(found.discoveries)

    assert wrong <= stats.binom.isf(5e-7, runs, 0.2)


@pytest.mark.parametrize("scales", [-1e6, -20, 0, 20, 1e6])
@pytest.mark.parametrize("method", ["svt", "select"])
def test_any_noise_is_concluded_from(method, scales, steady, view):
    """Whatever the noise is, columns are rejected or not, and thresholds and p-values are numbers."""
    with steady(scales):
        found = view.chi2_many(GENES, "arm", method=method, max_rejections=3, epsilon=0.01, fresh=True)

    assert set(found.discoveries) <= set(found.answered)
    assert all(math.isfinite(number) for number in (*found.thresholds, *found.differences))
    assert all(0 <= p <= 1 for p in found.pvalues)
    if method == "select":  # what is rejected is what exceeds its threshold
        pairs = zip(found.answered, found.differences, found.thresholds, strict=True)
        assert found.discoveries == tuple(gene for gene, value, at in pairs if value >= at)


@pytest.mark.parametrize("method", ["svt", "select"])
def test_explain_says_what_could_be_found(method, view):
    """The level of each test and the smallest difference found, which grows with columns, and by the circle."""

    def told(count, **more):
        asked = {"method": method, "max_rejections": 2, **more}
        return [*view.explain("chi2_many", GENES[:count], "arm", **asked, epsilon=1).findings.values()]

    (level, few), (_, many), (_, circle) = told(2), told(30), told(30, **CIRCLE)
    assert level == 0.05 / 2
    assert 0 < few < many < circle < 0.5
    nothing = view.explain("chi2_many", GENES, "arm", method=method, max_rejections=20, epsilon=0.01)
    assert "none: spend more" in nothing.findings.values()


@pytest.mark.parametrize("method", ["svt", "select"])
def test_constant_columns_and_a_group_of_one_row(method):
    """Columns with one value are not rejected; with a group of one row thresholds are beyond any difference."""
    asked = {"method": method, "max_rejections": 2}
    constant = protect({**dict.fromkeys(GENES, np.zeros(ROWS, dtype=bool)), "arm": ARM})
    alone = protect({**TABLE, "arm": np.where(np.arange(ROWS) == 0, "drug", "placebo")})

    found = constant.chi2_many(GENES, "arm", **asked, epsilon=10**4)
    assert (found.discoveries, ["discoveries", "none"] in [line.split() for line in repr(found).splitlines()]) == (
        (),
        True,
    )
    assert repr(found).startswith("None of 30 columns is shown to differ between arm = ")
    assert min(alone.chi2_many(GENES, "arm", **asked, epsilon=1).thresholds) > 1


def test_missing_values_are_no_evidence():
    """A column of which more is missing in one arm is found if that is filled, and not if it is left out."""
    draw = np.random.default_rng(8)
    columns = {gene: np.where(draw.random(ROWS) < 0.6, 1.0, 0.0) for gene in GENES[:5]}
    columns["gene2"][draw.random(ROWS) < np.where(ARM == "drug", 0.5, 0.05)] = np.nan
    categories = {**dict.fromkeys(GENES[:5], (0, 1)), "arm": ["drug", "placebo"]}
    view = protect({**columns, "arm": ARM}, categories=categories)

    with seeded_noise(3):
        filled, omitted, circle = (
            view.chi2_many(GENES[:5], "arm", **how, max_rejections=2, epsilon=20)
            for how in ({"nan_policy": "fill"}, {}, {"statistic": "unitcircle"})
        )

    assert filled.discoveries == ("gene2",)
    assert omitted.discoveries == circle.discoveries == ()
