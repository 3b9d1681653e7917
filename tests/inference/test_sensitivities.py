"""Every table of a few rows, with every neighbour: no row moves what is measured by more than is claimed."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dfprivacy import Column
from dfprivacy_inference.mcnemar import Discordant
from dfprivacy_inference.proportions import Outcome
from dfprivacy_inference.statistics import (
    GehanScores,
    GroupRankSums,
    MidRanks,
    RankSum,
    SignedSum,
    taper,
    taper_switch,
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


def most(make, columns, cells, n=4, relation="replace_one", norm=1, fixed=None):
    """The largest change of a statistic over all tables of n rows, as a part of what it claims.

    The column at `fixed` is public: the rows of a pair agree in it.
    """
    public = frozenset() if fixed is None else frozenset({columns[fixed].name})

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


RANKS, RANKED = MidRanks(X), MidRanks(X, (X,))  # of rows that have a value all, or of which some have none
CENSORED = GehanScores(X, EVENT, (X,))
TOLD = {"sizes": 0.2, "complete": 0.1, "ties": 0.1}


def private(scores, n=4, **told):
    """Two groups that a row may change."""
    return lambda _: RankSum(scores, TWO, (0, 1), n, **told)


def public(scores, group=TWO, **told):
    """Groups of which the sizes are those of the rows."""

    def make(rows):
        codes = range(len(group.categories))
        sizes = tuple(max(sum(row[1] == code for row in rows), 1) for code in codes)
        if group is TWO:
            return RankSum(scores, TWO, (0, 1), sum(sizes), sizes, **told)
        return GroupRankSums(scores, group, tuple(codes), 4, known=sizes, sizes=1.0, **told)

    return make


def several(scores, n=4, **told):
    """Three groups that a row may change."""
    return lambda _: GroupRankSums(scores, THREE, (0, 1, 2), n, **told)


def cells(values, *labels):
    """All rows."""
    return [(x, *label) for x in values for label in itertools.product(*labels)]


FEW = [*range(3), GONE]
PAIRS, TRIPLES = cells(FEW, range(2)), cells(FEW, range(3))
TIMES = cells(FEW, range(2), range(2))[:-1]  # its last two are of one row without a time
SOME, ALL = 0.5, 1 - 1e-9  # the claim is attained, or nearly
RELATIONS = ("add_remove", "replace_one")
OF_TWO = [
    *((private(RANKED, 3, sizes=c), [*PAIRS, (0, NOBODY)], {"n": 3}, ALL) for c in (0.0, 0.2)),
    *((private(RANKED, sizes=c), [*cells([*range(4), GONE], range(2)), (0, NOBODY)], {}, ALL) for c in (0.0, 0.2)),
    *((private(RANKED, **TOLD), [*PAIRS, (1, NOBODY)], {"norm": norm}, 0.7) for norm in (1, 2, math.inf)),
    (public(RANKS, ties=0.1), cells(range(3), range(2)), {"fixed": 1}, 0.8),
    (public(RANKED, complete=True, ties=0.1), PAIRS, {"fixed": 1}, 0.8),
    *((private(RANKED, None), PAIRS, {"relation": each}, SOME) for each in RELATIONS),
]
OF_THREE = [
    (several(RANKED), TRIPLES, {}, SOME),
    (several(RANKED, sizes=0.1, ties=0.1), TRIPLES, {}, SOME),
    (public(RANKED, THREE, ties=0.1), TRIPLES, {"fixed": 1}, SOME),
    *((several(RANKS, None), cells(range(3), range(3)), {"relation": each}, SOME) for each in RELATIONS),
]
OF_TIMES = [
    (private(CENSORED, sizes=0.0, ties=0.0), TIMES, {}, ALL),
    (private(CENSORED, sizes=0.2, ties=0.1), TIMES, {}, 0.9),
    (private(CENSORED, sizes=0.2, ties=9.0), TIMES, {}, 0.9),
    # a variance per row moves by an eighth if a row comes or goes
    *(pytest.param(private(CENSORED, None, ties=ties), TIMES, {"relation": each}, 0.3, marks=pytest.mark.one_in(2))
      for each in RELATIONS for ties in (0.1, 9.0)),
    (public(CENSORED, complete=1.0, ties=0.5), TIMES, {"fixed": 1}, 0.8),
]  # fmt: skip


def signed(n, *, ranks):
    """A sum of signed ranks, or of signs."""
    return SignedSum(X, Y, 0.0, (X, Y), n, ranks=ranks)


EVERY = [((X, TWO), *case) for case in OF_TWO] + [((X, THREE), *case) for case in OF_THREE]


@pytest.mark.parametrize(("columns", "make", "every", "how", "least"), EVERY)
def test_private_groups(columns, make, every, how, least):
    """A tapered rank sum moves by 1, its sizes and rows without value or group included, and attains it.

    Ties take what they are charged; where a row keeps its group, the larger one bounds it; D/n moves by 1/2 if a
    row comes or goes. T of several groups moves by less than n, and is counted and tied beside it.
    """
    assert least < most(make, columns, every, **how) <= 1 + 1e-9


@pytest.mark.parametrize(("make", "every", "how", "least"), OF_TIMES)
def test_censored_times(make, every, how, least):
    """The taper holds for Gehan's scores, and their variance takes what it is charged, tied and censored or not."""
    assert least < most(make, (X, TWO, EVENT), every, **how) <= 1 + 1e-9


@pytest.mark.parametrize("ranks", [True, False])
def test_differences(ranks):
    """Signed ranks and signs move by what is claimed, rows without a value included."""
    every = [(d, 0.0) for d in (-4, -3, -2, -1, 0, 1, 2, 3, 4, GONE)]
    for n, relation in ((4, "replace_one"), (None, "replace_one"), (None, "add_remove")):
        found = most(lambda _, n=n: signed(n, ranks=ranks), (X, Y), every, relation=relation)
        assert 0.5 < found <= 1 + 1e-9

    assert signed(4, ranks=ranks).sensitivity("add_remove", 1, frozenset()) == math.inf


@pytest.mark.parametrize("n", [6, 9, 13])
def test_private_groups_of_more_rows(n):
    """Without equal values, a table is the order of its groups: one row goes anywhere, to either group or none."""
    statistic = RankSum(RANKS, TWO, (0, 1), n, sizes=0.2, complete=0.1 if n >= 13 else 0.0)
    rng = np.random.default_rng(n)
    few = rng.integers(2, size=(40, n - 1))
    found = 0.0
    for rest in itertools.product((0, 1), repeat=n - 1) if n < 9 else few:
        tables = [[*rest[:at], label, *rest[at:]] for at in range(n) for label in (0, 1, NOBODY)]
        values = np.array([statistic.value(Rows(list(enumerate(labels)), X, TWO)) for labels in tables])
        found = max(found, np.abs(values[:, None] - values[None]).sum(axis=2).max())

    assert 0.9 < found <= 1 + 1e-9


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_rows_are_no_farther_apart_than_is_claimed(norm):
    """Every two rows of three categories, and of none; every pair of outcomes."""
    rows = Rows(list(itertools.product(range(4), range(3))), THREE, EVENT)
    features = [
        *(Outcome(THREE, 1, form) for form in ("hits", "counts", "halves")),
        Discordant(THREE, EVENT, (0, 0)),
    ]

    for feature in features:
        vectors = feature.rows(rows)
        apart = np.linalg.norm(vectors[:, None] - vectors[None], ord=norm, axis=2).max()
        assert 0.99 * feature.diameter(norm, frozenset()) <= apart <= feature.diameter(norm, frozenset())
        assert np.linalg.norm(vectors, ord=norm, axis=1).max() <= feature.radius(norm)


# The factor of a rank sum, against the recursion that its proof needs, and reference values.


@pytest.mark.parametrize(
    ("n", "c", "larger", "expected"),
    [
        (10, 0, range(5, 11), [1.866667, 1.666667, 1.428571, 1.25, 1.111111, 1]),
        (10, 0.2, range(5, 11), [1.638095, 1.559524, 1.428571, 1.25, 1.111111, 1]),
        (11, 0.2, range(6, 9), [1.595, 1.5125, 1.375]),
        (100, 0, (50, 60, 75, 90), [1.761305, 1.630536, 1.333333, 1.111111]),
        (100, 0.2, (50, 60, 75, 90), [1.521965, 1.474386, 1.331649, 1.111111]),
        (1000, 0.2, (500,), [1.511184]),
    ],
)
def test_reference_values(n, c, larger, expected):
    """n H(M) has its known values."""
    assert [n * taper(n, m, c) for m in larger] == pytest.approx(expected, abs=1e-6)


def exact(n, larger, c):
    """H(M) by the closed form, in fractions."""
    last = taper_switch(n, float(c))
    if larger >= last:
        return Fraction(1, larger)
    rest = Fraction(n - last, last * (last - 1)) + 2 * (1 - c) * (Fraction(1, larger - 1) - Fraction(1, last - 1))
    return Fraction(larger - 1, n - larger) * rest


@pytest.mark.parametrize("c", [Fraction(0), Fraction(1, 10), Fraction(1, 5), Fraction(1, 2)])
def test_what_the_proof_needs(c):
    """H(M) M is at most 1, H falls, and one label costs at most 1 - c, for every M of up to 60 rows and of 499."""
    for n in [*range(2, 61), 499]:
        h = {m: exact(n, m, c) for m in range(max((n + 1) // 2, 1), n + 1)}
        for m, value in h.items():
            assert value * m <= 1
            assert abs(taper(n, m, float(c)) - value) <= 1e-12 * value
            if m < n:
                assert value >= h[m + 1]
                assert value * m * (n - m) <= 2 * (1 - c) + h[m + 1] * (n - 1 - m) * (m - 1)


def test_rows_in_both_groups_are_counted_for_nothing():
    """A row that leaves the first group moves H(M) D by so much less that sizes and complete rows fit beside it."""
    c, counted = Fraction(1, 5), Fraction(1, 10)
    for n in [*range(13, 60), 500]:
        for m in range((n + 1) // 2, n):
            here, more = exact(n, m, c), exact(n, m + 1, c)
            leaves = (m * (n - 1 - m) * (here - more) + here * m) / 2
            assert leaves + c + counted <= 1
