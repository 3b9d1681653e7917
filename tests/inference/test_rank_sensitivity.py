"""Every table of a few rows, with every neighbour: no row moves what is measured by more than is claimed."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

from dfprivacy import Column
from dfprivacy_inference.statistics import (
    GehanScores,
    GroupRankSums,
    MidRanks,
    RankSum,
    SignedSum,
)

X = Column("x", bounds=(0.0, 5.0), fill=2.0)
Y = Column("y", bounds=(0.0, 5.0), fill=2.0)
TWO = Column("g", categories=("a", "b"))
THREE = Column("g", categories=("a", "b", "c"))
EVENT = Column("e", categories=(0, 1))
GONE = math.nan
NOBODY = 9  # a label that is no category


class Rows:
    """A few rows, as statistics read them."""

    def __init__(self, rows, *columns):
        self.size = len(rows)
        self.of = {c.name: np.array([row[at] for row in rows], dtype=float) for at, c in enumerate(columns)}

    def values(self, column):
        found = self.of[column.name]
        return np.where(np.isnan(found), column.fill, found)

    def codes(self, column):
        return np.minimum(self.of[column.name], len(column.categories)).astype(np.intp)

    def missing(self, column):
        return np.isnan(self.of[column.name])


def most(make, columns, cells, n, relation="replace_one", public=frozenset(), norm=1, fixed=None):
    """The largest change of a statistic over all tables of n rows, as a part of what it claims."""

    @functools.cache
    def of(places):  # a table is met from each of its rows
        rows = [cells[at] for at in places]
        statistic = make(rows)
        claim = statistic.sensitivity(relation, norm, public)
        return np.ravel(statistic.value(Rows(rows, *columns))) / claim

    found = 0.0
    classes = {}
    for at, cell in enumerate(cells):
        classes.setdefault(None if fixed is None else cell[fixed], []).append(at)
    for rest in itertools.combinations_with_replacement(range(len(cells)), n - 1):
        for each in [range(len(cells))] if relation == "add_remove" else classes.values():
            one = np.stack([of(tuple(sorted((*rest, at)))) for at in each])
            other = of(rest)[None] if relation == "add_remove" else one
            found = max(found, float(np.linalg.norm(one[:, None] - other, ord=norm, axis=2).max()))
    return found


def cells(values, *labels):
    """All rows."""
    return [(x, *label) for x in values for label in itertools.product(*labels)]


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("sizes", [0.0, 0.2])
def test_private_groups(n, sizes):
    """A tapered rank sum moves by 1, its sizes and rows without value or group included, and attains it."""
    scores = MidRanks(X, (X,))
    every = [*cells([*range(n), GONE], range(2)), (0, NOBODY)]

    found = most(lambda _: RankSum(scores, TWO, (0, 1), n, sizes=sizes), (X, TWO), every, n)

    assert 1 - 1e-9 < found <= 1 + 1e-9


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_private_groups_with_everything_told(norm):
    """Ties take what they are charged beside the rest; in the other norms nothing moves more."""
    scores = MidRanks(X, (X,))
    every = [*cells([*range(3), GONE], range(2)), (1, NOBODY)]

    found = most(
        lambda _: RankSum(scores, TWO, (0, 1), 4, sizes=0.2, complete=0.1, ties=0.1), (X, TWO), every, 4, norm=norm
    )

    assert 0.7 < found <= 1 + 1e-9


@pytest.mark.parametrize("n", [6, 9, 13])
def test_private_groups_of_more_rows(n):
    """Without equal values, a table is the order of its groups: one row goes anywhere, to either group or none."""
    statistic = RankSum(MidRanks(X), TWO, (0, 1), n, sizes=0.2, complete=0.1 if n >= 13 else 0.0)
    rng = np.random.default_rng(n)
    few = (rng.integers(2, size=n - 1) for _ in range(200))
    found = 0.0
    for rest in itertools.product((0, 1), repeat=n - 1) if n < 9 else few:
        tables = [[*rest[:at], label, *rest[at:]] for at in range(n) for label in (0, 1, NOBODY)]
        values = np.array([statistic.value(Rows(list(enumerate(labels)), X, TWO)) for labels in tables])
        found = max(found, np.abs(values[:, None] - values[None]).sum(axis=2).max())

    assert 0.9 < found <= 1 + 1e-9


@pytest.mark.parametrize("complete", [False, True])
def test_public_groups(complete):
    """Where a row keeps its group, the larger one bounds a rank sum, and counting rows with a value is free."""
    scores = MidRanks(X, (X,) if complete else ())
    every = cells([*range(3), *([GONE] if complete else [])], range(2))

    def make(rows):
        sizes = tuple(max(sum(row[1] == code for row in rows), 1) for code in (0, 1))
        return RankSum(scores, TWO, (0, 1), sum(sizes), sizes, complete=complete, ties=0.1)

    found = most(make, (X, TWO), every, 4, public=frozenset("g"), fixed=1)

    assert 0.8 < found <= 1 + 1e-9


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_private_number_of_rows(relation):
    """D/n, and T/n, move by 1/2 if a row comes or goes, by 1 if it changes."""
    two = most(
        lambda _: RankSum(MidRanks(X, (X,)), TWO, (0, 1), None),
        (X, TWO),
        cells([*range(4), GONE], range(2)),
        4,
        relation,
    )
    three = most(
        lambda _: GroupRankSums(MidRanks(X), THREE, (0, 1, 2), None),
        (X, THREE),
        cells(range(3), range(3)),
        4,
        relation,
    )

    assert 0.5 < two <= 1 + 1e-9
    assert 0.5 < three <= 1 + 1e-9


def test_several_groups():
    """T moves by less than n, and is counted and tied beside it."""
    scores = MidRanks(X, (X,))
    every = cells([*range(3), GONE], range(3))

    plain = most(lambda _: GroupRankSums(scores, THREE, (0, 1, 2), 4), (X, THREE), every, 4)
    told = most(lambda _: GroupRankSums(scores, THREE, (0, 1, 2), 4, sizes=0.1, ties=0.1), (X, THREE), every, 4)

    def known(rows):
        sizes = tuple(max(sum(row[1] == code for row in rows), 1) for code in range(3))
        return GroupRankSums(scores, THREE, (0, 1, 2), 4, known=sizes, sizes=1.0, ties=0.1)

    public = most(known, (X, THREE), every, 4, public=frozenset("g"), fixed=1)

    assert 0.5 < plain <= 1 + 1e-9
    assert 0.5 < told <= 1 + 1e-9
    assert 0.5 < public <= 1 + 1e-9


CENSORED = [(x, g, e) for x, g, e in itertools.product([*range(3), GONE], range(2), range(2))]


@pytest.mark.parametrize(("sizes", "ties", "least"), [(0.0, 0.0, 1 - 1e-9), (0.2, 0.1, 0.9), (0.2, 9.0, 0.9)])
def test_censored_times(sizes, ties, least):
    """The taper holds for Gehan's scores, and their variance takes what it is charged, tied and censored or not."""
    scores = GehanScores(X, EVENT, (X,))

    found = most(lambda _: RankSum(scores, TWO, (0, 1), 4, sizes=sizes, ties=ties), (X, TWO, EVENT), CENSORED, 4)

    assert least < found <= 1 + 1e-9


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("ties", [0.1, 9.0])
def test_censored_times_of_a_private_number_of_rows(relation, ties):
    """A variance per row moves by an eighth if a row comes or goes."""
    scores = GehanScores(X, EVENT, (X,))

    found = most(lambda _: RankSum(scores, TWO, (0, 1), None, ties=ties), (X, TWO, EVENT), CENSORED, 4, relation)

    assert 0.3 < found <= 1 + 1e-9


def test_censored_times_of_public_groups():
    """A row keeps its group, and may lose its time."""

    def make(rows):
        sizes = tuple(max(sum(row[1] == code for row in rows), 1) for code in (0, 1))
        return RankSum(GehanScores(X, EVENT, (X,)), TWO, (0, 1), sum(sizes), sizes, complete=1.0, ties=0.5)

    found = most(make, (X, TWO, EVENT), CENSORED, 4, public=frozenset("g"), fixed=1)

    assert 0.8 < found <= 1 + 1e-9


@pytest.mark.parametrize("ranks", [True, False])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("n", [4, None])
def test_differences(ranks, relation, n):
    """Signed ranks and signs move by what is claimed, rows without a value included."""
    if n is not None and relation == "add_remove":
        assert SignedSum(X, Y, 0.0, (X, Y), n, ranks=ranks).sensitivity(relation, 1, frozenset()) == math.inf
        return
    every = [(d, 0.0) for d in (-4, -3, -2, -1, 0, 1, 2, 3, 4)] + [(GONE, 0.0)]

    found = most(lambda _: SignedSum(X, Y, 0.0, (X, Y), n, ranks=ranks), (X, Y), every, 4, relation)

    assert 0.5 < found <= 1 + 1e-9
