"""A search for tables on which one row moves a statistic of exploration by more than is claimed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dfprivacy import Column
from dfprivacy._table.batch import Batch, number
from dfprivacy_eda.moments import Centred, Spread, Total

X = Column("x", bounds=(-3.0, 1.5), fill=-0.75)
GRID = [-3.0, -2.0, -0.75, 0.0, 0.6, 1.5, math.nan]
CENTRES = [-1.0, -0.9, 0.0, 0.4, 1.0]
SPREADS = [((-1.0, -0.8), 0.0), ((0.0, 0.0), 0.3), ((-0.1, 0.5), 1.0), ((1.0, 1.0), 0.2), ((-1.0, 1.0), 0.0)]


def value(asked, x):
    """The statistic of a table of some values."""
    batch = Batch(len(x), {number(X): np.array(x, dtype=float)})
    sums = asked.features.rows(batch).sum(axis=0).reshape(asked.features.shape) / asked.features.weights
    return asked.value(sums)


def moved(asked, gaps):
    """How far one row moves it: where it changes, and where it comes or goes. It is a sum, so one row is enough."""
    every = [value(asked, [x]) for x in GRID if gaps or not math.isnan(x)]
    return max(every) - min(every), max(map(abs, every))


@pytest.mark.parametrize("gaps", [(), (X,)])
def test_centred_sums_move_by_what_is_claimed(gaps):
    """Over all pairs of rows of a grid, missing values among them; some reach the claim."""
    tightest = 0.0
    for t in CENTRES:
        asked = Centred(X, gaps, t)
        changed, added = moved(asked, gaps)
        assert changed <= asked.sensitivity("replace_one", 1, frozenset()) + 1e-9
        assert added <= asked.sensitivity("add_remove", 1, frozenset()) + 1e-9
        tightest = max(tightest, changed / asked.sensitivity("replace_one", 1, frozenset()))

    assert tightest > 0.99


@pytest.mark.parametrize("gaps", [(), (X,)])
def test_sums_of_squares_move_by_what_is_claimed(gaps):
    """Over all pairs of rows of a grid beside tables of other rows; some reach the claim, but for few rows."""
    values = [x for x in GRID if gaps or not math.isnan(x)]
    tables = [[], [0.0], [-3.0, 1.5], [-3.0] * 40, [1.5] * 200, [-0.75] * 9 + [1.5] * 3]
    for ends, v in SPREADS:
        asked, tightest = Spread(X, gaps, ends, v), 0.0
        for table in tables:
            every = [value(asked, [*table, x]) for x in values]
            assert max(every) - min(every) <= asked.sensitivity("replace_one", 1, frozenset()) + 1e-9
            added = [found - (value(asked, table) if table else 0.0) for found in every]
            assert max(map(abs, added)) <= asked.sensitivity("add_remove", 1, frozenset()) + 1e-9
            tightest = max(tightest, max(every) - min(every))
        assert tightest > 0.97


def test_the_least_is_about_the_mean_where_it_may_be():
    """It is the sum of squares about the mean within the interval, and about the nearest end outside."""
    x = [-3.0, -2.0, 0.6, 1.5, 1.5]
    y = (np.array(x) + 0.75) / 2.25

    for low, high in [(-1.0, 1.0), (-1.0, -0.5), (0.4, 0.5), (0.0, 0.2)]:
        asked = Spread(X, (), (low, high), 0.3)
        t = min(max(y.mean(), low), high)
        assert ((y - t) ** 2 - 0.3).sum() == pytest.approx(value(asked, x) * asked.unit)


@pytest.mark.parametrize("ends", [(-3.0, 1.5), (0.0, 1.5), (1.0, 1.5), (-3.0, -2.0)])
@pytest.mark.parametrize("gaps", [False, True])
def test_sums_move_by_what_is_claimed(ends, gaps):
    """The claim is reached, whatever the signs of the bounds, and whether or not values may be missing."""
    column = replace(X, bounds=ends, fill=ends[0])
    asked = Total(column, (column,) if gaps else ())
    batches = [Batch(1, {number(column): np.array([x])}) for x in [*ends, *([math.nan] if gaps else [])]]
    sums = [asked.features.rows(each).sum(axis=0) / asked.features.weights for each in batches]
    every = [asked.value(each) for each in sums]

    assert [ends[0], ends[1]] == pytest.approx([x * asked.most for x in every[:2]])
    claim = asked.sensitivity("replace_one", 1, frozenset())
    assert max(every) - min(every) <= claim + 1e-12
    assert max(map(abs, every)) == pytest.approx(asked.sensitivity("add_remove", 1, frozenset()))
    assert claim == pytest.approx(max(every) - min(every))


def test_rounded_sums_move_a_centred_one_by_less_than_is_charged():
    """The Lipschitz constant holds in L1 of the weighted sums, over random sums."""
    rng = np.random.default_rng(1)
    for asked in [*(Centred(X, (), t) for t in CENTRES), *(Spread(X, (), ends, v) for ends, v in SPREADS)]:
        for _ in range(50):
            one, two = rng.normal(size=(2, 3)) * 100
            apart = np.abs((one - two) * asked.features.weights).sum()
            assert abs(asked.value(one) - asked.value(two)) <= asked.lipschitz * apart + 1e-9
