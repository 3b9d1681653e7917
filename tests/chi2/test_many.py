"""``view.chi2_many`` through the whole house."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_chi2 import Chi2Many
from dfprivacy_chi2.laws import by_binomials
from dfprivacy_chi2.nulls import MissingRowsNull, nearest_half

NAMES = (f"many-{number}" for number in itertools.count())
ENGINES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "polars lazy": pl.LazyFrame}
ROWS, GENES = 1000, [f"gene{k}" for k in range(30)]
TERMS = {"categories": {**dict.fromkeys(GENES, (False, True)), "arm": ["drug", "placebo"]}, "public": ["arm"]}
ARM = np.where(np.arange(ROWS) < 400, "drug", "placebo")
DIFFERENT = {"gene3": 0.4, "gene11": 0.5, "gene20": 0.3}


def table(draw, different=DIFFERENT, genes=GENES):
    """Columns that are independent of the arm, but for those that differ by so much."""
    shares = {gene: 0.3 + (ARM == "drug") * different.get(gene, 0.0) for gene in genes}
    return {**{gene: draw.random(ROWS) < share for gene, share in shares.items()}, "arm": ARM}


TABLE = table(np.random.default_rng(20_261_121))


def protect(rows=TABLE, engine=pd.DataFrame, **terms):
    terms = {"epsilon": 10**6, "ledger": "memory:", **TERMS, **terms}
    return dp.protect(engine(rows), next(NAMES), **terms)


def scales_of(found):
    """The scales of the noise in a comparison."""
    return [deviation / math.sqrt(2) for deviation in found.noise_standard_error]


def delta(gene):
    """The absolute difference of the shares."""
    return abs(TABLE[gene][ARM == "drug"].mean() - TABLE[gene][ARM == "placebo"].mean())


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def engine(request):
    return request.param


@pytest.mark.parametrize("method", ["svt", "select"])
def test_the_columns_that_differ_are_found(engine, method):
    """At a huge epsilon those that differ are rejected, and no other."""
    found = protect(engine=engine).chi2_many(GENES, "arm", method=method, max_rejections=4, epsilon=10**4)

    assert set(found.discoveries) == set(DIFFERENT)
    assert (found.tests, found.sizes, found.groups) == (30, (400, 600), ("drug", "placebo"))


def test_selection_tells_the_differences():
    """The largest differences are selected, best first, and released with their p-values."""
    found = protect().chi2_many(GENES, "arm", method="select", max_rejections=3, epsilon=10**4)

    assert found.answered == ("gene11", "gene3", "gene20")
    assert found.differences == pytest.approx([delta(gene) for gene in found.answered], abs=1e-4)
    null = MissingRowsNull(400, 0.5)
    assert found.pvalues == pytest.approx([null.pvalue(d, *scales_of(found)) for d in found.differences])


def test_asking_stops_at_the_last_rejection():
    """The sparse vector answers in order, and stops at the last rejection that was paid for."""
    found = protect().chi2_many(GENES, "arm", max_rejections=2, epsilon=10**4)

    assert found.discoveries == ("gene3", "gene11")
    assert found.answered == tuple(GENES[:12])
    assert len(found.thresholds) == 12
    assert found.notes == ("stopped at the last rejection paid for: the columns after it were not tested",)


def test_the_budget_of_the_sparse_vector():
    """The noise of the threshold and of the values is split as 1 to (2 s)^(2/3), in units of the smaller group."""
    view = protect()

    found = view.chi2_many(GENES, "arm", max_rejections=5, epsilon=2)

    first = 0.177253 * 2
    deviations = [math.sqrt(2) / (first * 400), math.sqrt(2) * 10 / ((2 - first) * 400)]
    assert found.noise_standard_error == pytest.approx(deviations, rel=1e-4)
    assert view.budget.spent == 2


def test_the_budget_of_a_selection():
    """Half of it selects, and each test of what is selected has its part of the other."""
    view = protect()

    found = view.chi2_many(GENES, "arm", method="select", max_rejections=4, epsilon=2)

    assert found.noise_standard_error == pytest.approx([math.sqrt(2) * 4 / (1 * 400)], rel=1e-6)
    assert view.budget.spent == 2


@pytest.mark.parametrize("method", ["svt", "select"])
def test_each_column_is_tested_at_its_part_of_the_level(method):
    """A threshold is exceeded with probability alpha over the number of columns, noise included."""
    found = protect().chi2_many(GENES, "arm", method=method, max_rejections=3, alpha=0.1, epsilon=1)

    null, scales = MissingRowsNull(400, 0.5), scales_of(found)
    assert len(found.thresholds) == len(found.answered) >= 3
    assert len(set(found.thresholds)) == 1
    assert 0.99 * 0.1 / 30 <= null.pvalue(found.thresholds[0], *scales) <= 0.1 / 30 * (1 + 1e-9)


def test_an_answer_says_that_nothing_was_found():
    """Whoever looks at a result without discoveries reads so, and does not find the line gone."""
    found = protect(table(np.random.default_rng(4), {})).chi2_many(GENES, "arm", epsilon=1)

    assert found.discoveries == ()
    assert ["discoveries", "none"] in [line.split() for line in repr(found).splitlines()]


def test_rates_of_each_column():
    """A list gives a share or a range for each column; rarer columns have lower thresholds."""
    rates = [0.02, (0.1, 0.2), 0.5, (0.3, 0.8)] + [0.5] * 26

    found = protect().chi2_many(GENES, "arm", max_rejections=30, rate=rates, nan_policy="fill", epsilon=5)

    scales = scales_of(found)
    expected = [MissingRowsNull(400, nearest_half(rate)).critical_value(0.05 / 30, *scales) for rate in rates[:4]]
    assert found.thresholds[:4] == pytest.approx(expected, rel=1e-9)
    assert found.thresholds[0] < found.thresholds[1] < found.thresholds[2]


def test_one_rate_for_all():
    """A number or a range is for all columns."""
    view = protect()

    known, between, nothing = (
        view.chi2_many(GENES, "arm", rate=rate, epsilon=1).thresholds[0] for rate in (0.1, (0.1, 0.2), None)
    )

    assert known < between < nothing


def test_all_columns_in_one_pass():
    """However many columns, they are one measurement."""
    found = protect().chi2_many(GENES, "arm", epsilon=1)

    assert len(found.privacy.noise) == 1


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["svt", "select"])
def test_family_wise_error(method):
    """Of 60 tables without any difference, no more have a false rejection than the level of 20% lets."""
    draw, runs, wrong = np.random.default_rng(1), 60, 0
    with seeded_noise(2):
        for _ in range(runs):
            rows = table(draw, {})
            rows |= {f"gene{k}": rows["gene0"] for k in range(1, 10)}  # ten that depend on each other
            found = protect(rows).chi2_many(GENES, "arm", method=method, max_rejections=2, alpha=0.2, epsilon=1)
            wrong += bool(found.discoveries)

    assert wrong <= stats.binom.isf(5e-7, runs, 0.2)


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["svt", "select"])
def test_strong_differences_are_found(method):
    """With an epsilon of 3, three columns that differ by 0.3 and more are found in nearly all tables."""
    draw, runs, hits = np.random.default_rng(3), 20, 0
    with seeded_noise(4):
        for _ in range(runs):
            found = protect(table(draw)).chi2_many(GENES, "arm", method=method, max_rejections=3, epsilon=3)
            hits += len(set(found.discoveries) & set(DIFFERENT))

    assert hits >= 0.9 * 3 * runs


@pytest.mark.parametrize("scales", [-1e6, -20, 0, 20, 1e6])
@pytest.mark.parametrize("method", ["svt", "select"])
def test_any_noise_is_concluded_from(method, scales, steady):
    """Whatever the noise is, columns are rejected or not, and thresholds and p-values are numbers."""
    with steady(scales):
        found = protect().chi2_many(GENES, "arm", method=method, max_rejections=3, epsilon=0.01)

    assert set(found.discoveries) <= set(found.answered)
    assert all(math.isfinite(number) for number in (*found.thresholds, *found.differences))
    assert all(0 <= p <= 1 for p in found.pvalues)


def test_a_rejection_is_a_difference_beyond_its_threshold():
    """What is rejected is what exceeds its threshold."""
    for seed in range(20):
        with seeded_noise(seed):
            found = protect().chi2_many(GENES, "arm", method="select", max_rejections=10, alpha=0.9, epsilon=2)

        pairs = zip(found.answered, found.differences, found.thresholds, strict=True)
        assert found.discoveries == tuple(gene for gene, value, at in pairs if value >= at)


@pytest.mark.parametrize("method", ["svt", "select"])
def test_explain_says_what_could_be_found(method):
    """Explain gives the level of each test and the smallest difference found; it costs nothing."""
    view = protect()

    few, many = (
        view.explain("chi2_many", GENES[:count], "arm", method=method, max_rejections=2, epsilon=1)
        for count in (2, 30)
    )

    (level, smallest), (_, larger) = few.findings.values(), many.findings.values()
    assert level == 0.05 / 2
    assert 0 < smallest < larger < 0.5
    assert view.budget.spent == 0


def test_explain_says_if_nothing_can_be_found():
    """Where the noise hides every difference, explain says so."""
    explained = protect().explain("chi2_many", GENES, "arm", max_rejections=20, epsilon=0.01)

    assert "none: spend more" in explained.findings.values()


@pytest.mark.parametrize("method", ["svt", "select"])
def test_a_release_survives_json_and_has_a_picture(method):
    """A release makes the same release again from its dictionary, and can be drawn."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    found = protect().chi2_many(GENES, "arm", method=method, max_rejections=3, rate=(0.2, 0.4), epsilon=5)

    again = dp.Release.from_dict(json.loads(json.dumps(found.to_dict())))

    assert isinstance(again, Chi2Many)
    assert json.dumps(again.to_dict()) == json.dumps(found.to_dict())
    ax = again.plot()
    ax.figure.canvas.draw()
    pyplot.close(ax.figure)
    assert f"{len(found.discoveries)} found" == ax.get_title()


REFUSED = [
    ({"xs": []}, "no column to test|at least one"),
    ({"xs": ["gene0", "gene1", "gene0"]}, "named twice"),
    ({"xs": ["gene0", "arm"]}, "the column that is tested"),
    ({"xs": ["gene0", "grade"]}, "'grade' has 3 categories, where two are needed"),
    ({"xs": ["gene0", "nobody"]}, "no column 'nobody'"),
    ({"xs": ["gene0", 7]}, "named by a string"),
    ({"by": "nobody"}, "no column 'nobody'"),
    ({"by": "gene5", "xs": ["gene0", "gene1"]}, "how many rows each group of 'gene5'"),
    ({"by": "grade", "xs": ["gene0"]}, "compares two groups|how many rows"),
    ({"method": "svn"}, "method='svn' is unknown"),
    ({"max_rejections": 0}, "max_rejections=0 is not a whole number from 1 on"),
    ({"max_rejections": -1}, "max_rejections=-1"),
    ({"max_rejections": 31}, "max_rejections=31 of 30 columns"),
    ({"max_rejections": 2.0}, r"max_rejections=2\.0"),
    ({"max_rejections": True}, "max_rejections=True"),
    ({"max_rejections": None}, "max_rejections=None"),
    ({"alpha": 0}, "alpha=0 is not between"),
    ({"alpha": 1}, "alpha=1 is not between"),
    ({"alpha": math.nan}, "alpha=nan is not between"),
    ({"alpha": "5%"}, "alpha='5%' is not between"),
    ({"rate": 0}, "no share"),
    ({"rate": (0.4, 0.2)}, "no range"),
    ({"rate": [0.2, 0.3]}, "2 entries for 30 columns"),
    ({"rate": [0.2] * 29 + [1.0]}, "no share"),
    ({"rate": [0.2] * 29 + ["a lot"]}, "rate"),
    ({"groups": ("drug",)}, "compares two groups"),
    ({"groups": ("drug", "drug")}, "compares two groups"),
    ({"groups": ("drug", "herbs")}, "'herbs' is not a category"),
]


@pytest.mark.parametrize("method", ["svt", "select"])
@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_cannot_be_tested_costs_nothing(arguments, message, method):
    """Tests that make no sense are refused before any charge."""
    categories = {**TERMS["categories"], "grade": [1, 2, 3]}
    view = protect({**TABLE, "grade": np.arange(ROWS) % 3 + 1}, categories=categories)

    with pytest.raises((dp.ArgumentError, dp.SchemaError), match=message):
        view.chi2_many(**{"xs": GENES, "by": "arm", "method": method, **arguments}, epsilon=1)

    assert view.budget.spent == 0


@pytest.mark.parametrize("terms", [{"public": []}, {"public": [], "neighbors": "add_remove"}])
@pytest.mark.parametrize("method", ["svt", "select"])
def test_private_groups_are_refused(method, terms):
    """Many columns are tested in public groups only."""
    view = protect(**terms)

    with pytest.raises(dp.ArgumentError, match="how many rows each group of 'arm' has"):
        view.chi2_many(GENES, "arm", method=method, epsilon=1)

    assert view.budget.spent == 0


def test_an_empty_group_is_refused():
    """Labels with one class empty are told from the public sizes."""
    view = protect({**TABLE, "arm": np.full(ROWS, "placebo")})

    with pytest.raises(dp.ArgumentError, match="A group of 'arm' has 0 rows"):
        view.chi2_many(GENES, "arm", epsilon=1)

    assert view.budget.spent == 0


def test_constant_columns_are_no_evidence():
    """Columns with one value are not rejected."""
    view = protect({**{gene: np.zeros(ROWS, dtype=bool) for gene in GENES}, "arm": ARM})

    for method in ("svt", "select"):
        assert view.chi2_many(GENES, "arm", method=method, max_rejections=3, epsilon=10**4).discoveries == ()


def test_a_group_of_one_row_finds_nothing():
    """With a group of one row thresholds are beyond any difference."""
    view = protect({**TABLE, "arm": np.where(np.arange(ROWS) == 0, "drug", "placebo")})

    found = view.chi2_many(GENES, "arm", max_rejections=2, epsilon=1)

    assert min(found.thresholds) > 1


def test_missing_values_are_no_evidence():
    """A column of which more is missing in one arm is found if that is filled, and not if it is left out."""
    draw = np.random.default_rng(8)
    columns = {gene: np.where(draw.random(ROWS) < 0.6, 1.0, 0.0) for gene in GENES[:5]}
    columns["gene2"][draw.random(ROWS) < np.where(ARM == "drug", 0.5, 0.05)] = np.nan
    categories = {**dict.fromkeys(GENES[:5], (0, 1)), "arm": ["drug", "placebo"]}
    view = protect({**columns, "arm": ARM}, categories=categories)

    with seeded_noise(3):
        filled, omitted = (
            view.chi2_many(GENES[:5], "arm", nan_policy=policy, max_rejections=2, epsilon=20)
            for policy in ("fill", "omit")
        )

    assert filled.discoveries == ("gene2",)
    assert omitted.discoveries == ()


def test_the_family_wise_error_is_proved_where_one_half_is_not_the_worst():
    """In groups of 500 and 10, with a thousand columns, no share makes a false discovery too probable."""
    level, scales = 0.05 / 1000, (1 / (10 * 2.0), 2 / (10 * 8.0))
    at = MissingRowsNull(10).critical_value(level, *scales)

    laws = [by_binomials(lambda c, d: np.abs(c / 500 - d / 10), 500, 10, p, p) for p in np.linspace(0.01, 0.5, 99)]

    assert max(law.sf(at, *scales) for law in laws) <= level
