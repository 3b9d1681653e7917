"""How far one row moves a statistic: by all that is claimed, and never by more, whatever is public or missing."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dfprivacy import Column
from dfprivacy_dcor.angles import PLACES, DistanceMessage
from dfprivacy_dcor.paper import ProjectionMessage, Projections
from dfprivacy_dcor.parties import MessageStatistics
from dfprivacy_dcor.spaces import KernelSpace, kernel_factor, kernel_space, metric_space
from dfprivacy_dcor.statistics import CandidateScores, DistanceDeviation, PairStatistics, largest_changes

NOTHING: frozenset[str] = frozenset()
X = Column("x", bounds=(-3.0, 1.5), fill=-0.75)
FAR = Column("far", bounds=(1e16, 1e16 + 4), fill=1e16)  # four floats wide
TINY = Column("tiny", bounds=(-1e-290, 1e-290), fill=0.0)
HUGE = Column("huge", bounds=(-8e307, 8e307), fill=0.0, public=True)
W, Y, Z = (Column(name, bounds=(0.0, 1.0), fill=0.5) for name in "wyz")
G = Column("g", categories=("a", "b", "c"))
FEW = Column("f", categories=("a", "b"))  # and none of them: three points, but where they are left out
OTHER = Column("o", categories=("a", "other"), other=True)  # two points, which are on a line
PUBLIC_X, PUBLIC_G = replace(X, public=True), replace(G, public=True)


def of(*columns, metric="euclidean", seed=0, omit=False):
    """A space of these columns."""
    return metric_space(columns, metric, 2, seed, nan_policy="omit" if omit else "fill")


def kernel(*columns, kind="gaussian", scale=1.0, omit=False):
    """A space of a kernel."""
    return kernel_space(columns, kind, scale, nan_policy="omit" if omit else "fill")


def omitting(*columns, **more):
    """A space whose incomplete rows are left out."""
    return of(*columns, omit=True, **more)


@pytest.fixture
def gaps(search):
    """The search for tables that refute a sensitivity, some values of which are missing."""

    class Gaps(search):
        def drawn(self, column):
            gap = len(column.categories) if column.bounds is None else math.nan
            none_of_them = column.bounds is None and column.other
            return gap if not none_of_them and self.rng.random() < 0.2 else super().drawn(column)

        def batch(self, table):
            batch = super().batch(np.where(np.isnan(table), 0.0, table))
            for column, values in zip(self.columns, table.T, strict=True):
                if column.bounds is not None:
                    gone = np.isnan(values)
                    batch._cleaned[column] = np.where(gone, column.fill, batch._cleaned[column])
                    batch._missing[column] = gone
            return batch

    return Gaps


# All tables


@pytest.mark.parametrize(
    ("x", "y", "values", "first"),
    [
        (of(W), of(Y), (0, 0.5, 1), 1),
        (omitting(W), omitting(Y), (0, 1, math.nan), 1),
        (of(G), of(replace(G, name="h")), (0, 1, 2), math.sqrt(1.5)),
        (omitting(FEW), omitting(replace(FEW, name="h")), (0, 1, 2), 1),
        (kernel(W, scale=2.0), kernel(Y, scale=2.0), (0, 0.5, 1), math.sqrt(1.5)),
        (kernel(W, kind="laplace", scale=2.0), kernel(Y, kind="laplace", scale=2.0), (0, 0.5, 1), math.sqrt(1.5)),
    ],
    ids=["lines", "lines with gaps", "categories", "categories with gaps", "gaussian", "laplace"],
)
def test_of_all_tables_none_moves_more(gaps, x, y, values, first):
    """Of four rows and all moves of one: each number reaches its claim, s_xy but for √1.5 where no line is.

    All of them reach it together, and where a row is left out together with their share.
    """
    cells, statistic = [*itertools.product(values, repeat=2)], PairStatistics(x, y, 4)
    batch = gaps([*x.columns, *y.columns], 0).batch
    known = {
        rows: statistic.value(batch(np.array([cells[row] for row in rows], dtype=float)))
        for rows in itertools.combinations_with_replacement(range(9), 4)
    }
    moved = np.array([
        np.abs(one - known[tuple(sorted((*rows[:at], new, *rows[at + 1 :])))])
        for rows, one in known.items()
        for at, new in itertools.product(range(4), range(9))
    ])  # fmt: skip

    together = 1 - statistic.shares[0] * (1 - 1 / first)
    assert [1 / first, 1, 1, 1, 1] == pytest.approx(moved.max(axis=0)[:5] / statistic.shares, rel=1e-9)
    assert together == pytest.approx(moved.sum(axis=1).max(), rel=1e-9)
    assert statistic.sensitivity("replace_one", 1, NOTHING) == pytest.approx(1, rel=1e-12)
    if x.omit:
        apart = moved[moved[:, 5] > 0].sum(axis=1)
        assert 0.9 < apart.max() <= 1 + 1e-12  # the bound for the mean distances of few rows is not tight


@pytest.mark.parametrize(
    ("statistic", "n", "first"),
    [
        *((PairStatistics(of(W), of(Y), n), n, 1) for n in (4, 5, 100)),
        (PairStatistics(of(W, Z), of(Y, X), 10), 10, math.sqrt(1.5)),
        (CandidateScores([of(W), of(Z)], of(Y), 10), 10, 1),
        (DistanceDeviation(of(W, Z), 10), 10, 1),
    ],
)
def test_a_lone_row_moves_by_all_that_is_claimed(search, statistic, n, first):
    """All rows at one corner, and one of them at the other."""
    columns = statistic.columns
    low, high = (np.array([column.bounds[end] for column in columns]) for end in (0, 1))
    alone = np.vstack([high, *[low] * (n - 1)])

    moved = statistic.value(search(columns, 0).batch(alone))
    moved = moved - statistic.value(search(columns, 0).batch(np.vstack([low] * n)))
    np.ravel(moved)[0] *= first

    for norm in (1, 2, math.inf):
        claimed = statistic.sensitivity("replace_one", norm, NOTHING)
        assert claimed == pytest.approx(np.linalg.norm(np.ravel(moved), ord=norm), rel=1e-6)
    assert statistic.sensitivity("add_remove", 1, NOTHING) == math.inf


# A search


COMMON = {"columns": ("x",), "deviation": 0.2, "deviation_scale": 0.01, "keys": None}


def message_of_angles(n):
    """Angles of all sorts, in two blocks."""
    arc = {"places": PLACES, "reach": 9000, "inside": 3, "outside": 1}
    blocks = {"turns": np.arange(n) % 2, "harmonics": (1, 3), "directions": np.ones((2, 1)), "length": 1.0}
    angles = np.random.default_rng(1).integers(0, PLACES, n)
    return DistanceMessage(rows=n, angles=angles, **COMMON, **blocks, **arc)


def message_of_projections(n, count=1, scale=1.0):
    """Projections of all sorts and of any size: one, all of several, or one of several."""
    rng = np.random.default_rng(2)
    directions = rng.normal(size=(abs(count), 1))
    turns = np.arange(n) % abs(count) if count < 0 else np.zeros(n, dtype=np.int64)
    values = rng.normal(size=(n, max(count, 1))) ** 3 * scale
    return ProjectionMessage(rows=n, projections=values, turns=turns, directions=directions, scale=1.0, **COMMON)


ONE_BLOCK = {"turns": np.zeros(6, dtype=np.int64), "harmonics": (1,), "directions": np.ones((1, 1))}
LONE, HALVES = (
    replace(message_of_angles(6), angles=np.array(ends) * PLACES // 2, **ONE_BLOCK)
    for ends in ([0, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1])
)
DIRECTIONS = np.random.default_rng(6).normal(size=(3, 3))
TURNS = np.zeros(4, dtype=np.int64)
SEARCHED = {  # a statistic, its rows, the norm, and how much of the claim is reached
    "lines": (PairStatistics(of(X), of(Y), 5), 5, 1, 0.98),
    "a public line": (PairStatistics(of(PUBLIC_X), of(Y), 5), 5, 1, 0.9),
    "few floats": (PairStatistics(of(FAR), of(TINY), 5), 5, 1, 0.98),
    "a huge public line": (PairStatistics(of(HUGE), of(TINY), 5), 5, 1, 0.9),
    "categories": (PairStatistics(of(G), of(FEW), 5), 5, 1, 0.7),  # a half is √1.5 of what any search has found
    "public categories": (PairStatistics(of(PUBLIC_G), of(Y), 5), 5, 1, 0.9),
    "other": (PairStatistics(of(OTHER), of(Y), 5), 5, 1, 0.98),
    "a plane": (PairStatistics(of(X, Z), of(Y, TINY), 5), 5, 1, 0.6),
    "half of it public": (PairStatistics(of(HUGE, Z), of(Y, FAR), 5), 5, 2, 0.5),
    "a sum": (PairStatistics(of(X, Z, metric="l1"), of(Y), 5), 5, 1, 0.7),
    "directions": (PairStatistics(of(X, HUGE, metric="projected"), of(Y), 5), 5, 1, 0.5),
    "lines with gaps": (PairStatistics(omitting(X), omitting(Y), 5), 5, 1, 0.95),
    "lines with gaps, Euclidean norm": (PairStatistics(omitting(X), omitting(Y), 5), 5, 2, 0.3),
    "a public line with gaps": (PairStatistics(omitting(PUBLIC_X), omitting(Y), 5), 5, 1, 0.6),
    "categories with gaps": (PairStatistics(omitting(G), omitting(FEW), 5), 5, 1, 0.8),
    "public categories with gaps": (PairStatistics(omitting(PUBLIC_G), omitting(Y), 5), 5, 1, 0.6),
    "other with gaps": (PairStatistics(omitting(OTHER), omitting(Y), 5), 5, 1, 0.8),
    "a plane with gaps": (PairStatistics(omitting(X, Z), omitting(Y), 5), 5, 1, 0.5),
    "gaussian": (PairStatistics(kernel(W), kernel(Y), 5), 5, 1, 0.85),
    "laplace": (PairStatistics(*(kernel(each, kind="laplace", scale=3.0) for each in (W, Y)), 5), 5, 1, 0.75),
    "a plane and two categories": (PairStatistics(kernel(W, Z, scale=30.0), kernel(OTHER), 5), 5, 1, 0.85),
    "a gaussian and categories": (PairStatistics(kernel(FAR), kernel(G), 5), 5, 1, 0.7),
    "a public gaussian": (PairStatistics(kernel(PUBLIC_X), kernel(Y), 5), 5, 1, 0.8),
    "gaussian with gaps": (PairStatistics(kernel(X, omit=True), kernel(Y, omit=True), 5), 5, 1, 0.7),
    "laplace and categories with gaps": (
        PairStatistics(kernel(Z, kind="laplace", omit=True), kernel(G, omit=True), 5), 5, 1, 0.7,
    ),
    "scores": (CandidateScores([of(Z), of(PUBLIC_X), of(G), of(HUGE)], of(Y), 5), 5, 1, 0.6),
    "scores with gaps": (
        CandidateScores([omitting(Z), omitting(PUBLIC_X), omitting(G)], omitting(Y), 5), 5, 2, 0.5,
    ),
    **{
        f"the deviation of {name}": (DistanceDeviation(of(*columns), 6), 6, 1, 0.4 if HUGE in columns else 0.9)
        for name, columns in {"a line": [X], "categories": [G], "two": [OTHER], "half public": [HUGE, Z]}.items()
    },
    **{
        f"the deviation of {name} with gaps": (DistanceDeviation(omitting(*columns), 6), 6, 1, 0.4)
        for name, columns in {"a line": [X], "categories": [G], "two": [OTHER], "public": [PUBLIC_X, Z]}.items()
    },
    "the deviation of a gaussian": (DistanceDeviation(kernel(W), 6), 6, 1, 0.9),
    "the deviation of categories of a kernel with gaps": (DistanceDeviation(kernel(G, omit=True), 6), 6, 1, 0.7),
    **{f"shown of {scale:g}": (MessageStatistics(message_of_projections(6, 1, scale), of(Y)), 6, 1, 0.5)
       for scale in (1e-150, 1e150)},
    "shown with categories": (MessageStatistics(message_of_projections(6), of(G)), 6, 1, 0.5),
    "shown with a half public plane": (MessageStatistics(message_of_projections(6), of(Y, HUGE)), 6, 1, 0.4),
    **{f"shown with gaps in {name}": (MessageStatistics(LONE, omitting(*columns)), 6, 1, 0.4)
       for name, columns in {"a line": [Y], "categories": [G], "two": [OTHER], "a plane": [Y, Z]}.items()},
    **{
        f"projections, {'one' if split else 'all'}, norm {norm}": (
            Projections((X, HUGE, Y), DIRECTIONS, TURNS, split=split), 4, norm, 0.4 if split else 0.9,
        ) for split, norm in ((True, 1), (True, 2), (False, 2), (False, math.inf))
    },
    "projections with gaps": (Projections((X, Y), DIRECTIONS[:, :2], TURNS, split=True, omit=True), 4, 2, 0.4),
    "projections with gaps beside a public column": (
        Projections((Z, PUBLIC_X), np.array([[0.1, 0.99]]), TURNS, split=True, omit=True), 4, 2, 0.4,
    ),
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", SEARCHED)
def test_no_row_moves_a_statistic_more(search, gaps, case):
    """Whatever is public, one row moves it by what is claimed at most, and mostly by nearly that."""
    statistic, n, norm, reached = SEARCHED[case]

    most = (gaps if "gaps" in case else search)(statistic.columns, 1).statistic(
        statistic, norm, n, tries=2, steps=100
    )

    assert reached < most <= 1 + 1e-9


def test_claims_that_are_too_small_are_found_out(gaps):
    """Nine tenths of the numbers', and a message's features taken from the centre of all rows."""

    class Understated(PairStatistics):
        def sensitivity(self, relation, norm, public):
            return 0.9 * super().sensitivity(relation, norm, public)

    class Covariance(MessageStatistics):
        def sensitivity(self, relation, norm, public):
            return 0.6

        def value(self, rows):
            return super().value(rows) * [1, 0, 0, 0]

    class Centred(Covariance):
        def _max_squared_change(self, n):
            return float((self.parts[0].squares * (2 / n) ** 2).max())

    for statistic, tries, least in (
        (Understated(of(X), of(Y), 5), 3, 1),
        (Understated(omitting(X), omitting(Y), 5), 3, 1),
        (Centred(HALVES, omitting(Y)), 6, 1.1),
    ):
        n = 6 if tries > 3 else 5
        assert gaps(statistic.columns, 6).statistic(statistic, 1, n, tries=tries, steps=80) > least
    assert gaps([Y], 6).statistic(Covariance(HALVES, omitting(Y)), 1, 6, tries=6, steps=80) <= 1 + 1e-9


# Messages


@pytest.mark.parametrize(
    "message",
    [message_of_angles(12), *(message_of_projections(12, count) for count in (1, 3, -3))],
    ids=["angles", "one projection", "equation 3", "equation 4"],
)
def test_what_is_shown_of_a_message_moves_by_what_is_claimed(search, message):
    """With y constant but for the row that is farthest from the centre, the covariance moves by all it can."""
    n, statistic = message.rows, MessageStatistics(message, of(Y))

    def moved(row, seed):
        base = np.zeros(n) if seed is None else np.random.default_rng(seed).random(n)
        tables = np.stack([base, base])
        tables[:, row] = 0, 1
        one, other = (statistic.value(search([Y], 0).batch(table[:, None])) for table in tables)
        return np.abs(one - other)

    lone = [moved(row, None)[0] for row in range(n)]
    others = [moved(row, seed) for row in range(n) for seed in range(3)]

    assert pytest.approx(max(lone), rel=1e-6) == 0.6
    assert max(each[0] for each in others) <= 0.6 + 1e-9
    assert max(each.sum() for each in others) <= statistic.sensitivity("replace_one", 1, NOTHING) + 1e-9


@pytest.mark.parametrize("split", [True, False])
def test_projections_move_by_what_is_claimed(search, split):
    """Over all corners of the box the largest norm of a change is the sensitivity; public columns do not move."""
    columns, turns = (W, Y, Z), np.arange(8) % 4
    statistic = Projections(columns, np.random.default_rng(3).normal(size=(4, 3)), turns, split=split)
    corners = np.array([*itertools.product([0.0, 1.0], repeat=3)])
    values = [statistic.value(search(columns, 0).batch(np.tile(corner, (8, 1)))) for corner in corners]

    for norm in (1, 2, math.inf):
        found = max(
            np.linalg.norm(a[row] - b[row], ord=norm)
            for a, b in itertools.combinations(values, 2)
            for row in range(4)
        )
        assert found == pytest.approx(statistic.sensitivity("replace_one", norm, NOTHING))
    assert statistic.sensitivity("replace_one", 2, frozenset("wyz")) == 0
    assert statistic.sensitivity("add_remove", 2, NOTHING) == math.inf


@pytest.mark.parametrize("p", [1, 13, 200])
def test_projections_of_many_columns(search, p):
    """Against fractions each is right to what is declared; beyond twelve columns no corner is looked for."""
    columns = tuple(Column(f"c{k}", bounds=(0.0, 1.0), fill=0.5) for k in range(p))
    directions = np.random.default_rng(p).normal(size=(3, p)) * 10
    statistic = Projections(columns, directions, np.zeros(1, dtype=np.int64), split=False)
    batch = search(columns, 0).batch(np.random.default_rng(1).random((1, p)))

    found = statistic.value(batch)[0]

    units = [Fraction(float(batch.standardized(column)[0])) / 2 + Fraction(1, 2) for column in columns]
    exact = [sum(Fraction(float(u)) * x for u, x in zip(row, units, strict=True)) for row in directions]
    bound = np.linalg.norm(np.abs(directions).sum(axis=1))
    assert all(abs(Fraction(float(a)) - b) <= statistic.error for a, b in zip(found, exact, strict=True))
    assert statistic.sensitivity("replace_one", 2, NOTHING) == pytest.approx(bound)


def test_what_is_public_of_a_kernel():
    """Its diameter is that of two corners, and its unit 1; that of the kernel 1 - d / D is D."""
    plane, distance = kernel(W, Y, kind="laplace", scale=6.0), kernel(W, Y, kind="distance", scale=None)

    assert isinstance(plane, KernelSpace)
    assert (1 - math.exp(-2), 1.0) == pytest.approx((plane.diameter, kernel_factor(plane)))
    assert (math.sqrt(2),) * 2 == (distance.diameter, kernel_factor(distance))
    assert largest_changes(of(G), of(FEW), 4) == pytest.approx(2 * 3 / 16 * np.array([math.sqrt(1.5), 1, 1, 1, 1]))
