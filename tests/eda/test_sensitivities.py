"""What a row moves: claims of sums and statistics against searches and grids."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from dfprivacy import Column, features
from dfprivacy.features import Batch, Given, Moments, Stack, number
from dfprivacy_eda.counts import Categories, Values
from dfprivacy_eda.moments import Centred, Spread, Total
from dfprivacy_eda.quantiles import RankOfLeaf

X = Column("x", bounds=(-3.0, 1.5), fill=-0.75)
NOBODY = frozenset()


def test_no_row_moves_a_number_of_different_values_more(search):
    """It moves by one, of numbers and of categories."""
    x, g = Column("x", bounds=(0.0, 1.0), fill=0.5), Column("g", categories=("a", "b", "c"))

    for column, of in ((x, Values(x, omit=False)), (g, Categories(g))):
        assert [search([column], 1).statistic(of, 1, rows, tries=3, steps=60) for rows in (2, 5)] == [1, 1]


def test_diameters_and_radii_of_moments():
    """The L1 diameter of (y, y²/2) and 1/2 for a missing row is 2, the radius with a count and 3/2 is 3/2.

    That of y alone and 1 for a missing row is 2 as well.
    """
    x = Column("x", bounds=(0.0, 1.0), fill=0.5)
    free = Given(x, of=Moments(x, count=True), tally=(0, 1.5))
    diameters = [
        (Moments(x), 2),
        (Given(x, of=Moments(x), tally=(0, 0.5)), 2),
        (Given(x, of=Moments(x, degree=1), tally=(0, 1)), 2),
        (free, 3),
    ]

    for asked, known in diameters:
        assert asked.diameter(1, NOBODY) == pytest.approx(known, abs=1e-12)
    assert [Moments(x, count=True).radius(1), free.radius(1)] == pytest.approx([1.5, 1.5], abs=1e-12)
    assert Stack(*(Moments(column, centred=True) for column in (X, x))).radius(math.inf) == 1


# Claims of statistics, over grids

GRID = [-3.0, -2.0, -0.75, 0.0, 0.6, 1.5, math.nan]
CENTRES = [-1.0, -0.9, 0.0, 0.4, 1.0]
SPREADS = [((-1.0, -0.8), 0.0), ((0.0, 0.0), 0.3), ((-0.1, 0.5), 1.0), ((1.0, 1.0), 0.2), ((-1.0, 1.0), 0.0)]


def value(asked, x, column=X):
    """The statistic of a table of some values."""
    batch = Batch(len(x), {number(column): np.array(x, dtype=float)})
    sums = asked.features.rows(batch).sum(axis=0).reshape(asked.features.shape) / asked.features.weights
    return asked.value(sums)


def claims(asked):
    """How far a row that changes moves a statistic, and one that comes or goes."""
    return [asked.sensitivity(relation, 1, NOBODY) for relation in ("replace_one", "add_remove")]


@pytest.mark.parametrize("gaps", [(), (X,)], ids=["complete", "gaps"])
def test_sums_move_by_what_is_claimed(gaps):
    """Over all pairs of rows of a grid, beside tables of other rows; some reach the claim, whatever the bounds."""
    values = [x for x in GRID if gaps or not math.isnan(x)]
    tables = [[], [0.0], [-3.0, 1.5], [-3.0] * 40, [1.5] * 200, [-0.75] * 9 + [1.5] * 3]
    centred = [(Centred(X, gaps, t), [[]]) for t in CENTRES]  # a sum, so one row is enough
    tightest = []
    for asked, others in centred + [(Spread(X, gaps, ends, v), tables) for ends, v in SPREADS]:
        changes, added = claims(asked)
        most = 0.0
        for table in others:
            every = [value(asked, [*table, x]) for x in values]
            before = value(asked, table) if table else 0.0
            most = max(most, max(every) - min(every))
            assert max(abs(found - before) for found in every) <= added + 1e-9
        assert most <= changes + 1e-9
        tightest.append(most / changes)
    for ends in [(-3.0, 1.5), (0.0, 1.5), (1.0, 1.5), (-3.0, -2.0)]:
        column = replace(X, bounds=ends, fill=ends[0])
        asked = Total(column, (column,) if gaps else ())
        every = [value(asked, [x], column) for x in [*ends, *([math.nan] if gaps else [])]]
        assert [*ends] == pytest.approx([x * asked.most for x in every[:2]])
        assert claims(asked) == pytest.approx([max(every) - min(every), max(map(abs, every))])

    assert max(tightest[: len(CENTRES)]) > 0.99
    assert min(tightest[len(CENTRES) :]) > 0.97


def test_the_least_is_about_the_mean_where_it_may_be():
    """It is the sum of squares about the mean within the interval, and about the nearest end outside."""
    x = [-3.0, -2.0, 0.6, 1.5, 1.5]
    y = (np.array(x) + 0.75) / 2.25

    for low, high in [(-1.0, 1.0), (-1.0, -0.5), (0.4, 0.5), (0.0, 0.2)]:
        asked = Spread(X, (), (low, high), 0.3)
        t = min(max(y.mean(), low), high)
        assert ((y - t) ** 2 - 0.3).sum() == pytest.approx(value(asked, x) * asked.unit)


def test_rounded_sums_move_a_centred_one_by_less_than_is_charged():
    """The Lipschitz constant holds in L1 of the weighted sums, over random sums."""
    rng = np.random.default_rng(1)
    for asked in [*(Centred(X, (), t) for t in CENTRES), *(Spread(X, (), ends, v) for ends, v in SPREADS)]:
        for one, two in rng.normal(size=(50, 2, 3)) * 100:
            apart = np.abs((one - two) * asked.features.weights).sum()
            assert abs(asked.value(one) - asked.value(two)) <= asked.lipschitz * apart + 1e-9


@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.8, 1.0])
def test_how_far_a_score_moves(q):
    """Over all small counts, no row that changes, comes, goes or loses its value moves a score by more; some do."""
    asked = RankOfLeaf(features.Bins(Column("x", bounds=(0.0, 4.0), fill=2.0), np.arange(5.0)), q)
    ranks = {counts: asked.value(np.array(counts, dtype=float)) for counts in itertools.product(range(5), repeat=4)}
    most = dict.fromkeys(("replace_one", "add_remove"), 0.0)
    for counts in itertools.product(range(4), repeat=4):
        grown = [ranks[*counts[:leaf], counts[leaf] + 1, *counts[leaf + 1 :]] for leaf in range(4)]
        added = max(np.abs(more - ranks[counts]).max() for more in grown)
        moved = max(np.abs(one - other).max() for one in grown for other in grown)
        most["add_remove"] = max(most["add_remove"], added)
        most["replace_one"] = max(most["replace_one"], added, moved)

    for relation, found in most.items():
        bound = asked.sensitivity(relation, math.inf, NOBODY)
        assert found <= bound + 1e-9
        assert found >= 0.9 * bound if relation == "add_remove" else found >= 0.7
