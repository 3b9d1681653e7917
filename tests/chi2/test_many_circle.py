"""``view.chi2_many`` by the unit circle, by the signed distance, and with a second stop: Algorithms 3 and 4."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.tables import signed_distance, tight_sensitivity, unit_circle_norm

NAMES = (f"circle-{number}" for number in itertools.count())
ROWS, GENES = 1000, [f"gene{k}" for k in range(20)]
SIZES = (400, 600)
TERMS = {"categories": {**dict.fromkeys(GENES, (False, True)), "arm": ["drug", "placebo"]}, "public": ["arm"]}
ARM = np.where(np.arange(ROWS) < SIZES[0], "drug", "placebo")
DIFFERENT = {"gene3": 0.4, "gene11": 0.5, "gene17": 0.3}
CIRCLE = {"statistic": "unitcircle", "nan_policy": "fill"}


def table(draw, different=DIFFERENT):
    """Columns that are independent of the arm, but for those that differ by so much."""
    shares = {gene: 0.3 + (ARM == "drug") * different.get(gene, 0.0) for gene in GENES}
    return {**{gene: draw.random(ROWS) < share for gene, share in shares.items()}, "arm": ARM}


TABLE = table(np.random.default_rng(20_170_806))


def protect(rows=TABLE, **terms):
    return dp.protect(pd.DataFrame(rows), next(NAMES), **{"epsilon": 10**6, "ledger": "memory:", **TERMS, **terms})


def counted(gene):
    """The rows with X = 1 in each arm."""
    return [int(TABLE[gene][arm == ARM].sum()) for arm in ("drug", "placebo")]


def critical(level):
    """The critical value of chi²."""
    return float(stats.chi2.isf(level, 1))


@pytest.mark.parametrize("method", ["svt", "select"])
@pytest.mark.parametrize("score", ["statistic", "distance"])
def test_the_columns_that_differ_are_found(method, score):
    """At a huge epsilon those that differ are rejected, and no other."""
    asked = {"score": score} if method == "select" else {}

    found = protect().chi2_many(GENES, "arm", method=method, **asked, **CIRCLE, max_rejections=4, epsilon=10**4)

    assert set(found.discoveries) == set(DIFFERENT)
    assert (found.statistic, found.tau) == ("unitcircle", pytest.approx(critical(0.05 / 20)))
    assert found.differences == ()


def test_what_is_compared_is_the_norm():
    """The norms of the selected are those of their tables, with noise of their common sensitivity."""
    found = protect().chi2_many(GENES, "arm", method="select", **CIRCLE, tau=5.0, max_rejections=3, epsilon=10**4)

    expected = [unit_circle_norm(*counted(gene), *SIZES, 5.0) for gene in found.answered]
    assert found.answered[0] == "gene11"
    assert found.norms == pytest.approx(np.array(expected), abs=1e-3)
    scale = 2 * 3 / 10**4 * tight_sensitivity(*SIZES, 5.0)
    assert found.noise_standard_error == pytest.approx([math.sqrt(2) * scale], rel=1e-4)


@pytest.mark.parametrize("statistic", ["difference", "unitcircle"])
def test_the_distance_selects_what_the_most_rows_decide(statistic):
    """Columns are selected by the signed distance to the circle of tau."""
    asked = {"method": "select", "score": "distance", "statistic": statistic, "nan_policy": "fill", "tau": 6.0}

    found = protect().chi2_many(GENES, "arm", **asked, max_rejections=2, epsilon=10**4)

    away = {gene: int(signed_distance(*counted(gene), *SIZES, 6.0)) for gene in GENES}
    assert found.answered == tuple(sorted(GENES, key=away.__getitem__)[:-3:-1])


def test_each_column_is_tested_at_its_part_of_the_level():
    """A threshold is exceeded with probability alpha over the number of tests, both noises included."""
    found = protect().chi2_many(GENES, "arm", **CIRCLE, rate=0.3, max_rejections=2, alpha=0.1, epsilon=1)

    scales = [deviation / math.sqrt(2) for deviation in found.noise_standard_error]
    first = 1 / (1 + 4 ** (2 / 3))
    unit = tight_sensitivity(*SIZES, critical(0.1 / 20))
    assert scales == pytest.approx([unit / first, 4 * unit / (1 - first)], rel=1e-4)
    law = nulls.norm_law(*SIZES, found.tau, 0.3, 0.3)
    assert law.sf(found.thresholds[0], *scales) == pytest.approx(0.1 / 20, rel=1e-6)


def test_the_second_stop_tests_the_first_columns():
    """With s₂ = 12 the first 12 columns are tested, each at alpha/12, and what is paid is the same."""
    view = protect()

    found = view.chi2_many(GENES, "arm", max_tests=12, max_rejections=4, epsilon=10**4)
    again = view.chi2_many(GENES[:12], "arm", max_rejections=4, epsilon=10**4)

    assert found.discoveries == ("gene3", "gene11")
    assert found.answered == tuple(GENES[:12])
    assert (found.tests, found.max_tests) == (12, 12)
    assert found.thresholds == again.thresholds


def test_the_second_stop_is_told_beforehand():
    """Explain gives the level of each of s₂ tests."""
    view = protect()

    told = [
        view.explain("chi2_many", GENES, "arm", **asked, epsilon=1).findings for asked in ({}, {"max_tests": 5})
    ]

    assert [next(iter(each.values())) for each in told] == [0.05 / 20, 0.05 / 5]
    assert next(iter(told[1])) == "each of 5 columns is tested at level"


@pytest.mark.parametrize("method", ["svt", "select"])
def test_explain_says_what_the_circle_could_find(method):
    """The circle finds larger differences only than the difference itself does."""
    view = protect()

    found = [
        list(view.explain("chi2_many", GENES, "arm", method=method, **asked, epsilon=1).findings.values())[1]
        for asked in ({"nan_policy": "fill"}, CIRCLE)
    ]

    assert 0 < found[0] < found[1] < 0.5


@pytest.mark.statistical
@pytest.mark.parametrize(("method", "score"), [("svt", "statistic"), ("select", "distance")])
def test_family_wise_error(method, score):
    """Of 60 tables without any difference, no more have a false rejection than the level of 20% lets."""
    draw, runs, wrong = np.random.default_rng(1), 60, 0
    asked = {"method": method, "score": score, **CIRCLE, "rate": 0.3}
    with seeded_noise(2):
        for _ in range(runs):
            rows = table(draw, {})
            rows |= {f"gene{k}": rows["gene0"] for k in range(1, 10)}  # ten that depend on each other
            found = protect(rows).chi2_many(GENES, "arm", **asked, max_rejections=2, alpha=0.2, epsilon=2)
            wrong += bool(found.discoveries)

    assert wrong <= stats.binom.isf(5e-7, runs, 0.2)


@pytest.mark.parametrize("method", ["svt", "select"])
def test_a_release_survives_json_and_has_a_picture(method):
    """A release makes the same release again from its dictionary, and can be drawn."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    found = protect().chi2_many(GENES, "arm", method=method, **CIRCLE, max_rejections=3, epsilon=5)

    again = dp.Release.from_dict(json.loads(json.dumps(found.to_dict())))

    assert json.dumps(again.to_dict()) == json.dumps(found.to_dict())
    ax = again.plot()
    ax.figure.canvas.draw()
    pyplot.close(ax.figure)
    assert "norm" in ax.get_xlabel()


REFUSED = [
    ({"statistic": "circle", "nan_policy": "fill"}, "statistic='circle' is unknown"),
    ({"score": "distance", "method": "select"}, "needs public sizes"),
    ({"score": "distance", "nan_policy": "fill"}, 'is an option of method="select"'),
    ({"max_tests": 0}, "max_tests=0 is not a whole number from 1 on"),
    ({"max_tests": 2, "max_rejections": 3}, "max_rejections=3 of max_tests=2"),
    ({"max_tests": 2, "method": "select"}, "compares all columns"),
    ({"tau": 3.84}, "tau= is an option of statistic="),
    ({**CIRCLE, "tau": 0}, "tau=0"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_says_nothing_together_costs_nothing(arguments, message):
    """Arguments that do not go together are refused before any charge."""
    view = protect()

    with pytest.raises(dp.ArgumentError, match=message):
        view.chi2_many(GENES, "arm", **arguments, epsilon=1)

    assert view.budget.spent == 0
