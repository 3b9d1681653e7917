"""``view.chi2_unitcircle`` through the whole house."""

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
from dfprivacy_chi2 import Chi2, nulls, power
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.tables import paper_sensitivity, swap_sensitivity, tight_sensitivity, unit_circle_norm

NAMES = (f"unitcircle-{number}" for number in itertools.count())
N1, N0, C11, C10 = 100, 400, 40, 60
ENGINES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "polars lazy": pl.LazyFrame}
TERMS = {
    "categories": {"ill": [False, True], "arm": ["drug", "placebo"], "grade": [1, 2, 3]},
    "public": ["arm"],
}
INVARIANT = {"margin": "invariant", "nan_policy": "fill"}
MARGINS = [
    {},
    {"sensitivity": "paper"},
    {"margin": "public_rate", "rate": 0.2},
    {"margin": "public_rate", "rate": (0.1, 0.3)},
    {**INVARIANT, "rate": 0.2},
    {"nan_policy": "fill"},
    {"tau": 0.01},
]


def table(n1=N1, n0=N0, c11=C11, c10=C10):
    """A table with these counts."""
    return {
        "ill": [True] * c11 + [False] * (n1 - c11) + [True] * c10 + [False] * (n0 - c10),
        "arm": ["drug"] * n1 + ["placebo"] * n0,
        "grade": [1 + row % 3 for row in range(n1 + n0)],
    }


def protect(rows=None, engine=pd.DataFrame, **terms):
    terms = {"epsilon": 10**6, "ledger": "memory:", **TERMS, **terms}
    return dp.protect(engine(table() if rows is None else rows), next(NAMES), **terms)


def scale_of(found):
    """The scale of the noise in what was released."""
    return found.noise_standard_error[0] / math.sqrt(2)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_the_statistic_is_the_norm(engine):
    """At a huge epsilon the statistic is the norm, and its p-value that of the chi² test at the share."""
    how = {"margin": "public_rate", "rate": 0.2, "nan_policy": "fill"}
    found = protect(engine=engine).chi2_unitcircle("ill", "arm", **how, epsilon=10**5)

    assert found.released == pytest.approx([2.359312491498], abs=1e-4)
    assert found.statistic == pytest.approx(31.25, rel=1e-3)  # at the share given, which is the true one
    assert found.tau == TAU
    assert found.pvalue == pytest.approx(nulls.norm_null(N1, N0, TAU, 0.2).pvalue(2.3593, 1e-9), abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 2.0])
@pytest.mark.parametrize(
    ("how", "sensitivity"),
    [
        ({}, tight_sensitivity(N1, N0, TAU)),
        ({"sensitivity": "paper"}, paper_sensitivity(N1, N0, TAU)),
        ({"tau": 0.5}, tight_sensitivity(N1, N0, 0.5)),
        ({"margin": "public_rate", "rate": 0.2}, tight_sensitivity(N1, N0, TAU)),
        ({**INVARIANT, "rate": 0.2}, swap_sensitivity(N1, N0, TAU)),
    ],
)
def test_the_noise_is_what_the_sensitivity_asks_for(how, sensitivity, epsilon):
    """The scale of the noise is the sensitivity over epsilon; swaps pay for two rows that exchange their X."""
    view = protect()

    found = view.chi2_unitcircle("ill", "arm", **how, epsilon=epsilon)

    scale = found.noise_standard_error[0] / math.sqrt(2)
    assert sensitivity / epsilon * (1 - 1e-12) <= scale <= sensitivity / epsilon * (1 + 1e-6)
    assert float(view.budget.spent) == epsilon


def test_a_large_tau_never_makes_the_noise_of_swaps_too_small():
    """Where a single row moves the norm further than an exchange does, the noise is for that row."""
    n1, n0, tau = 10, 10, 1e4

    found = protect(table(n1, n0, 4, 2)).chi2_unitcircle("ill", "arm", tau=tau, **INVARIANT, rate=0.3, epsilon=1)

    assert swap_sensitivity(n1, n0, tau) < tight_sensitivity(n1, n0, tau) <= scale_of(found)


def test_a_guarantee_for_swaps_says_so():
    """Only with the invariant margin does the result say what is protected, and what is not."""
    view = protect()

    swaps, plain = (
        view.chi2_unitcircle("ill", "arm", **how, epsilon=1) for how in ({**INVARIANT, "rate": 0.2}, {})
    )

    assert "same margins" in swaps.guarantee
    assert swaps.guarantee in repr(swaps)
    assert plain.guarantee == ""


def test_the_margin_is_judged_by_itself():
    """With the invariant margin the null law is hypergeometric, given the published share."""
    found = protect(table(100, 100, 40, 20)).chi2_unitcircle("ill", "arm", **INVARIANT, rate=0.3, epsilon=0.5)

    law = nulls.norm_given_margin(100, 100, TAU, 60)
    assert found.pvalue == pytest.approx(law.sf(found.released[0], scale_of(found)), rel=1e-9)
    assert found.critical_value(0.01) == pytest.approx(law.critical_value(0.01, scale_of(found)), rel=1e-9)


@pytest.mark.parametrize("how", MARGINS)
def test_decisions_at_any_level_come_for_free(how):
    """Levels, p-value and critical values agree, and all are from one release."""
    view = protect()
    found = view.chi2_unitcircle("ill", "arm", **how, epsilon=0.5)

    for alpha in (1e-4, 0.05, 0.3):
        assert (found.pvalue <= alpha) == (found.released[0] >= found.critical_value(alpha))
    assert float(view.budget.spent) == 0.5


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("how", "least"), [({}, 0.0), ({"margin": "public_rate", "rate": 0.3}, 0.1), ({"tau": 0.01}, 0.0)]
)
def test_a_true_hypothesis_is_rejected_at_its_level(how, least):
    """Of 60 tests at 20% of columns without association, no more reject than that lets."""
    draw, runs, rejected = np.random.default_rng(1), 60, 0
    with seeded_noise(2):
        for _ in range(runs):
            rows = table(60, 60, draw.binomial(60, 0.3), draw.binomial(60, 0.3))
            rejected += protect(rows).chi2_unitcircle("ill", "arm", **how, alpha=0.2, epsilon=1).rejected

    assert stats.binom.ppf(5e-7, runs, least) <= rejected <= stats.binom.isf(5e-7, runs, 0.2)


@pytest.mark.parametrize("scales", [-1e6, -50, 0, 50, 1e6])
@pytest.mark.parametrize("how", MARGINS)
def test_any_noise_is_concluded_from(how, scales, steady):
    """Whatever the noise is, the result is a p-value, 1 for a norm below 0."""
    with steady(scales):
        found = protect().chi2_unitcircle("ill", "arm", **how, epsilon=0.01)

    assert 0 <= found.pvalue <= 1
    assert (found.pvalue > 0.99) if scales < 0 else (found.pvalue < 1e-6) if scales > 0 else True


@pytest.mark.statistical
def test_missing_values_are_left_out():
    """Three in ten of one group have no X: that is no evidence, as it was when they counted as a category."""
    rng = np.random.default_rng(0)
    ill = (rng.random(4000) < 0.4).astype(object)
    ill[:2000][rng.random(2000) < 0.3] = None
    rows = {"ill": ill, "arm": ["drug"] * 2000 + ["placebo"] * 2000}
    views = [
        protect(rows, categories={"ill": values, "arm": ["drug", "placebo"]})
        for values in ([False, True], [True, False])
    ]

    with seeded_noise(1):
        omitted = [view.chi2_unitcircle("ill", "arm", epsilon=1) for view in views]
        filled = [view.chi2_unitcircle("ill", "arm", nan_policy="fill", epsilon=1) for view in views]

    assert min(one.pvalue for one in omitted) > 0.05
    assert min(one.pvalue for one in filled) < 1e-6
    assert views[0].chi2_many(["ill"], "arm", statistic="unitcircle", epsilon=1).discoveries == ()


@pytest.mark.parametrize("tau", [0.3, 3.84])
@pytest.mark.parametrize(("n1", "n0"), [(6, 6), (6, 14)])
def test_the_level_holds_whatever_rows_are_left_out(n1, n0, tau):
    """Of all numbers of complete rows; tables are small, and levels up to a twentieth too large by their steps."""
    scale = tight_sensitivity(n1, n0, tau) / 2
    critical = nulls.norm_null(n1, n0, tau, None, complete=False).critical_value(0.05, scale)

    levels = [
        nulls.norm_law(n1, n0, tau, p, p, (m, k)).sf(critical, scale)
        for m in range(1, n1 + 1)
        for k in range(1, n0 + 1)
        for p in (0.01, 0.1, 0.3, 0.5)
    ]

    assert 0.02 < max(levels) <= 0.0525


@pytest.mark.statistical
def test_a_constant_column_is_no_evidence():
    """X with one value has the norm 1, and is significant at 5 % by the noise alone."""
    constant = [protect(table(c11=ones * N1, c10=ones * N0)) for ones in (0, 1)]
    with seeded_noise(5):
        found = [view.chi2_unitcircle("ill", "arm", epsilon=9, fresh=True) for view in constant for _ in range(40)]

    assert all(abs(one.released[0] - 1) < 30 * scale_of(one) for one in found)
    assert sum(one.rejected for one in found) <= 0.05 * 80 + 5 * math.sqrt(0.05 * 0.95 * 80)


@pytest.mark.parametrize(("n1", "n0"), [(1, 1), (1, 7), (50, 1)])
def test_groups_of_one_row(n1, n0):
    """Groups of one row have the tight sensitivity, which no table exceeds."""
    found = protect(table(n1, n0, 1, 0)).chi2_unitcircle("ill", "arm", epsilon=1)

    every = unit_circle_norm(*np.indices((n1 + 1, n0 + 1)), n1, n0, TAU)
    assert scale_of(found) * (1 + 1e-12) >= max(np.abs(np.diff(every, axis=axis)).max() for axis in (0, 1))
    assert 0 <= found.pvalue <= 1


def test_explain_says_what_could_be_found():
    """Explain gives the power that planning gives, for the tau and share asked for; it costs nothing."""
    view = protect()

    explained = view.explain("chi2_unitcircle", "ill", "arm", tau=0.5, margin="public_rate", rate=0.3, epsilon=0.1)

    how = {"method": "unit_circle", "rate": 0.3, "tau": 0.5}
    expected = [
        power(N1, N0, 0.1, base=0.3 - d / 2, difference=d, **how, bound=bound)
        for d in (0.05, 0.1, 0.2)
        for bound in (False, True)
    ]
    assert list(explained.findings.values()) == pytest.approx(expected)
    assert view.budget.spent == 0


@pytest.mark.parametrize("how", MARGINS)
def test_a_release_survives_json_and_has_a_picture(how):
    """A release makes the same release again from its dictionary, and can be drawn."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    found = protect().chi2_unitcircle("ill", "arm", **how, epsilon=1)

    again = dp.Release.from_dict(json.loads(json.dumps(found.to_dict())))

    assert isinstance(again, Chi2)
    assert again.critical_value(0.01) == found.critical_value(0.01)
    ax = again.plot()
    ax.figure.canvas.draw()
    pyplot.close(ax.figure)
    assert "unit circle" in ax.get_xlabel()


REFUSED = [
    ({"tau": 0}, "tau=0 is not a number from 1e-06"),
    ({"tau": -3.84}, "tau=-3.84 is not a number from"),
    ({"tau": math.nan}, "tau"),
    ({"tau": math.inf}, "tau"),
    ({"tau": "5%"}, "tau"),
    ({"tau": 1e-300}, "tau=1e-300 is not a number from"),
    ({"margin": "known"}, "margin='known'"),
    ({"margin": None}, "margin=None"),
    ({"sensitivity": "loose"}, "sensitivity='loose'"),
    ({"rate": 0.2}, "does not go with margin='private'"),
    ({"margin": "public_rate"}, "rate=None does not go with"),
    ({"margin": "invariant"}, "rate=None does not go with"),
    ({"margin": "invariant", "rate": (0.1, 0.2)}, "does not go with margin='invariant'"),
    ({"margin": "public_rate", "rate": 0}, "no share between 0 and 1"),
    ({"margin": "public_rate", "rate": 1}, "no share between 0 and 1"),
    ({"margin": "public_rate", "rate": (0.3, 0.1)}, "no range"),
    ({"margin": "invariant", "rate": 0.2}, "needs public sizes"),
    ({"margin": "invariant", "rate": math.nan}, "rate"),
    ({"margin": "invariant", "rate": "a fifth"}, "rate"),
    ({"x": "grade"}, "'grade' has 3 categories, where two are needed"),
    ({"x": "arm"}, "the column that is tested"),
    ({"by": "ill"}, "the column that is tested"),
    ({"by": "grade"}, "compares two groups|how many rows"),
    ({"groups": ("drug",)}, "compares two groups"),
    ({"groups": ("drug", "drug")}, "compares two groups"),
    ({"groups": ("drug", "herbs")}, "'herbs' is not a category"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_cannot_be_tested_costs_nothing(arguments, message):
    """A test that makes no sense is refused before any charge."""
    view = protect()

    with pytest.raises((dp.ArgumentError, dp.SchemaError), match=message):
        view.chi2_unitcircle(**{"x": "ill", "by": "arm", **arguments}, epsilon=1)

    assert view.budget.spent == 0


@pytest.mark.parametrize("terms", [{"public": []}, {"public": [], "neighbors": "add_remove"}])
def test_private_groups_are_refused(terms):
    """The unit circle mechanism needs public groups, and says how to say so."""
    view = protect(**terms)

    with pytest.raises(dp.ArgumentError, match="how many rows each group of 'arm' has") as caught:
        view.chi2_unitcircle("ill", "arm", epsilon=1)

    assert "public=['arm']" in caught.value.hint
    assert view.budget.spent == 0
