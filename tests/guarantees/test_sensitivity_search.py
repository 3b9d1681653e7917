"""No pair of neighbouring tables moves the exact sums of any features by more than is charged: a random search.

What a question reads at once is compared in whole steps: all groups of a call, all parts of a stack.
`DFPRIVACY_TEST_SEARCH` says how often the search is as long.
"""

from __future__ import annotations

import itertools
import math
import os
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._measure.price import NORMS, RowRequest, measurement_grid, unit_grid
from dfprivacy._measure.query import Query
from dfprivacy._measure.steps import GroupRunner
from dfprivacy.features import Beyond, Bins, Count, Given, Moments, OneHot, Outer, RowFeatures, Stack

LONGER = int(os.environ.get("DFPRIVACY_TEST_SEARCH", "1"))
TRIALS = 60
BOUNDS = {"x": (-3.0, 5.0), "y": (0.0, 1e-3), "z": (1e6, 1e6 + 7)}
CATEGORIES = {"a": ["p", "q", "r"], "b": [0, 1], "c": ["u", "v"]}
COLUMNS = [*BOUNDS, *CATEGORIES]
KEY = b"k" * 16  # by which a person's rows are chosen: that of the account, and so the same of both tables
EPSILONS = (Fraction(1, 10**9), Fraction(1), Fraction(100))
NAMES = (f"searched {at}" for at in itertools.count())


def any_of(rng, values):
    return values[rng.integers(len(values))]


def row(rng):
    """A row: ends of bounds, values between and far outside, unheard-of categories, gaps."""
    made = {}
    for name, (low, high) in BOUNDS.items():
        width = high - low
        made[name] = any_of(
            rng, [low, high, low + width / 2, low + rng.random() * width, 10 * high, -1e300, math.inf]
        )
    for name, known in CATEGORIES.items():
        made[name] = any_of(rng, [*known, "unheard of"])
    return {name: None if rng.random() < 0.12 else value for name, value in made.items()}


def bundled(rng, schema, depth=0):
    """Bundled features, within each other."""
    numbers, labels = ([schema.columns[name] for name in names] for names in (BOUNDS, CATEGORIES))
    x, g = any_of(rng, numbers), any_of(rng, labels)
    some = [numbers[at] for at in rng.choice(3, size=int(rng.integers(1, 4)), replace=False)]
    edges = np.linspace(*x.bounds, 9)

    def inner():
        return bundled(rng, schema, depth + 1) if depth < 2 else Count()

    def kept():
        return list(g.categories)[: int(rng.integers(1, len(g.categories) + 1))]

    return any_of(
        rng,
        [
            lambda: Moments(x, degree=int(rng.integers(1, 3)), count=bool(rng.integers(2))),
            lambda: Moments(x, count="beside"),
            lambda: Beyond(x, weight=2.0 ** int(rng.integers(-5, 3))),
            lambda: OneHot(g),
            Count,
            lambda: Bins(x, edges, missing=bool(rng.integers(2))),
            lambda: Bins(
                x, edges, widths=(4, 1), weights=(int(rng.integers(1, 4)), 2), missing=bool(rng.integers(2))
            ),
            lambda: Outer(some, count=any_of(rng, [False, True, 2.5])),
            lambda: Outer(some, radius=any_of(rng, [0.3, 0.9, 1.0]), count=bool(rng.integers(2))),
            lambda: OneHot(g, of=inner()),
            lambda: OneHot(g, groups=kept(), of=inner()),
            lambda: Given(any_of(rng, numbers + labels), of=inner(), tally=any_of(rng, [None, (0, 1), (3, 0.1)])),
            lambda: Stack(*(inner() for _ in range(int(rng.integers(1, 4))))),
        ],
    )()


class Theirs(RowFeatures):
    """Somebody else's features: at any scale, with wrong claims, other weights and units, no vectors and errors."""

    def __init__(self, column, rng, scale, dimension):
        self.columns, self.shape = (column,), (dimension,)
        self.table = rng.normal(size=(17, dimension)) * scale
        self.lengths = {norm: scale * rng.uniform(0.1, 3) for norm in (1, 2, math.inf)}
        self.weights = rng.uniform(0.1, 3, dimension) if rng.random() < 0.5 else 1.0
        self.step = 2.0 ** int(math.log2(scale) - rng.integers(5)) if rng.random() < 0.5 else None

    @property
    def unit(self):
        return self.step

    def rows(self, batch):
        x = batch.values(self.columns[0])
        rows = self.table[(np.abs(x * 1e6).astype(np.int64)) % 17]
        rows[x > 4.5], rows[x < -2.5] = np.inf, -1e308
        if ((x > 4) & (x <= 4.5)).any():
            raise ValueError("too large")
        return rows

    def radius(self, norm):
        return self.lengths[norm]


def others(rng, schema):
    """Features of others, alone and within bundled ones."""
    x, g = schema.columns["x"], schema.columns["a"]
    scale = 10.0 ** any_of(rng, [-200, -30, -3, 0, 3, 30, 200]) * rng.uniform(0.1, 3)
    theirs = Theirs(x, rng, scale, int(rng.integers(1, 5)))
    return any_of(
        rng,
        [
            theirs,
            OneHot(g, of=theirs),
            Given(x, g, of=theirs, tally=any_of(rng, [None, (0, scale), (scale / 2, scale)])),
            Stack(theirs, Given(g, of=Theirs(x, rng, scale / 7, 1))),
            OneHot(g, groups=["q"], of=Given(x, of=Stack(theirs, theirs))),
        ],
    )


def neighbours(rng, relation, most, public):
    """Two tables that differ in a row, or in all rows of a person."""
    rows = [row(rng) for _ in range(int(rng.integers(1, 9)))]
    if most is None:
        if relation == "add_remove":
            return rows, [rows[at] for at in rng.permutation(len(rows))] + [row(rng)]
        changed = {**row(rng), **{name: rows[0][name] for name in public}}
        return rows, [changed, *rows[1:]]
    rows = [{**each, "id": int(rng.integers(3))} for each in rows]
    rest = [each for each in rows if each["id"] != rows[0]["id"]]
    more = int(rng.integers(1, 2 * min(most, 4) + 2)) if relation == "replace_one" else 0
    return rows, rest + [{**row(rng), "id": 9} for _ in range(more)]


def views(rng, tables, relation, most, public):
    """Views of two tables, alike: of all rows, of a part, or of one row a person."""
    unit = {} if most is None else {"unit": "id", "max_rows": most, "unit_missing": "omit"}
    known = {"bounds": BOUNDS, "categories": CATEGORIES, "public": public, "neighbors": relation, **unit}
    where = any_of(rng, [{}, {}, {"x": (0, 4)}, {"a": ["p", "q"]}, {"y": dp.missing}])
    per = most is not None and rng.random() < 0.35
    how = {name: any_of(rng, ["mean", "sum", "min", "max", "first", "last", (name, "count")]) for name in BOUNDS}
    how |= {name: any_of(rng, ["first", "last"]) for name in CATEGORIES}
    made = []
    for rows in tables:
        frame = pd.DataFrame(rows, columns=[*(["id"] if unit else []), *COLUMNS])
        view = dp.protect(frame, next(NAMES), epsilon=1, ledger="memory:", **known)
        if unit:
            frame = view._target.table.frame
            whose, _, of_a_row = frame._chosen_by
            frame._chosen_by = whose, KEY, of_a_row
            object.__setattr__(view._target.account, "key", KEY.hex())
        view = view.where(**where) if where else view
        made.append(view.per("id").agg(how) if per else view)
    return made


def sums(table, query, k, by):
    """Exact sums of a view, of all groups if it is by group."""
    if not by:
        return [int(each) for each in table.value(query.copy(), k)]
    parts = table.groups(by)
    steps = GroupRunner(None, whole=table)
    values = steps._exact_values([RowRequest(table=part, query=query, k=k) for part in parts])
    return [int(each) for value in values for each in value]


def moved(one, other, norm, groups):
    """How far two sums are apart; in the norm of infinity, the losses of groups of a private column add up."""
    apart = [abs(a - b) for a, b in zip(one, other, strict=True)]
    if norm == 1:
        return sum(apart)
    if norm == 2:
        return math.sqrt(sum(each * each for each in apart))
    width = len(apart) // groups
    return sum(max(apart[at : at + width]) for at in range(0, len(apart), width))


@pytest.mark.parametrize("features", [bundled, others])
@pytest.mark.parametrize("seed", range(LONGER))
def test_no_neighbour_moves_a_sum_by_more_than_is_charged(seed, features):
    """Bundled features or others', of rows or people, by group, in parts: the loss is the charge at most."""
    rng = np.random.default_rng(seed)
    checks, worst = 0, 0.0
    for _ in range(TRIALS):
        relation, most = any_of(rng, ["replace_one", "add_remove"]), any_of(rng, [None, None, 1, 3, 2**20])
        may = relation == "replace_one" and most is None and rng.random() < 0.5
        public = [name for name in COLUMNS if may and rng.random() < 0.3]
        tables = neighbours(rng, relation, most, public)
        if not all(tables):
            continue
        first, second = (view._target.table for view in views(rng, tables, relation, most, public))
        by = tuple(first.schema.columns[name] for name in any_of(rng, [(), (), ("a",), ("a", "c")]))
        try:
            query = Query.read(features(rng, first.schema))
        except dp.ArgumentError:  # a radius that does not fit so many columns
            continue
        if first.is_public([*query.columns_read, *by]):
            assert sums(first, query, 20, by) == sums(second, query, 20, by)
            continue
        for name, norm in NORMS.items():
            grid = measurement_grid(first._with(by=by), query, norm, any_of(rng, EPSILONS))
            grids = [grid, unit_grid(first, query, grid)] if norm == 1 and not by else [grid]
            private = by and not all(column.public for column in by)
            groups = math.prod(len(column.categories) for column in by) if private else 1
            for each in grids:
                found = moved(*(sums(table, query, each.k, by) for table in (first, second)), norm, groups)
                share = float(Fraction(found) / each.steps)
                checks, worst = checks + 1, max(worst, share)
                assert share <= 1 + 1e-12, (name, query.of.describe(), relation, most, public, by, tables)
    assert checks > TRIALS
    assert worst > 0.9, "the search is blind"
