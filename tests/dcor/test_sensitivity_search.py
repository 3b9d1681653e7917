"""A search for tables on which one row moves a statistic by more than is claimed, public columns among them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest

from dfprivacy import ArgumentError, Column, protect
from dfprivacy_dcor.cases import _message
from dfprivacy_dcor.message import checked
from dfprivacy_dcor.paper import ProjectionMessage, Projections
from dfprivacy_dcor.parties import Shown
from dfprivacy_dcor.points import Points, five_numbers
from dfprivacy_dcor.spaces import error, space
from dfprivacy_dcor.statistics import Deviation, FiveNumbers, Scores

X = Column("x", bounds=(-3.0, 1.5), fill=-0.75)
PUBLIC_X = replace(X, public=True)
FAR = Column("far", bounds=(1e16, 1e16 + 4), fill=1e16)  # four floats wide
TINY = Column("tiny", bounds=(-1e-290, 1e-290), fill=0.0)
HUGE = Column("huge", bounds=(-8e307, 8e307), fill=0.0, public=True)
Y, Z = (Column(name, bounds=(0.0, 1.0), fill=0.5) for name in "yz")
G = Column("g", categories=("a", "b", "c"))
PUBLIC_G = replace(G, public=True)
FEW = Column("f", categories=("a", "b"))  # and none of them: three points
OTHER = Column("o", categories=("a", "other"), other=True)  # two points, which are on a line

PAIRS = {  # the columns and metric of x, those of y, and how much of the claim is reached
    "lines": ([X], "euclidean", [Y], 0.98),
    "a public line": ([PUBLIC_X], "euclidean", [Y], 0.9),
    "few floats": ([FAR], "euclidean", [TINY], 0.98),
    "a huge public line": ([HUGE], "euclidean", [TINY], 0.9),
    "categories": ([G], "discrete", [FEW], 0.7),  # half of the claim is √1.5 of what any search has found
    "public categories": ([PUBLIC_G], "discrete", [Y], 0.9),
    "other": ([OTHER], "discrete", [Y], 0.98),
    "a plane": ([X, Z], "euclidean", [Y, TINY], 0.6),
    "half of it public": ([HUGE, Z], "euclidean", [Y, FAR], 0.5),
    "a sum": ([X, Z], "l1", [Y], 0.7),
    "directions": ([X, HUGE], "projected", [Y], 0.5),
}


def spaces(case):
    """Two spaces, and their columns."""
    x, metric, y, _ = PAIRS[case]
    other = "euclidean" if metric == "discrete" and y[0].bounds else metric
    return space(tuple(x), metric, 2), space(tuple(y), other, 2, seed=1), [*x, *y]


@pytest.mark.parametrize(
    ("case", "norm"), [*((case, 1) for case in PAIRS), ("a plane", 2), ("lines", math.inf), ("other", math.inf)]
)
def test_no_row_moves_the_five_numbers_more(search, case, norm):
    """Whatever is public, one row moves the five by their joint sensitivity at most, and mostly by nearly that."""
    x, y, columns = spaces(case)

    most = search(columns, 1).statistic(FiveNumbers(x, y, 5), norm, 5, tries=2, steps=100)

    assert PAIRS[case][3] < most <= 1 + 1e-9


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_no_row_moves_the_scores_more(search, norm):
    """Candidates are numbers and categories, public and private; the target is private."""
    columns = [Z, PUBLIC_X, G, HUGE, Y]
    candidates = [space((column,), "euclidean") for column in columns[:-1]]

    most = search(columns, 3).statistic(Scores(candidates, space((Y,), "euclidean"), 5), norm, 5, tries=2)

    assert 0.6 < most <= 1 + 1e-9


@pytest.mark.parametrize("columns", [[X], [G], [OTHER], [X, Z], [HUGE, Z]])
def test_no_row_moves_a_deviation_more(search, columns):
    """Of numbers, categories, and several columns of which one may be public."""
    most = search(columns, 4).statistic(Deviation(space(tuple(columns), "euclidean"), 6), 1, 6, tries=2)

    assert (0.5 if HUGE in columns else 0.9) < most <= 1 + 1e-9


def message(scale=1.0, n=6):
    """Projections as another party might send them, of any size."""
    values = np.linspace(-1.0, 1.0, n)[:, None] ** 3 * scale
    return ProjectionMessage(
        columns=("other",),
        rows=n,
        projections=values,
        turns=np.zeros(n, dtype=np.int64),
        directions=np.ones((1, 1)),
        scale=1.0,
        deviation=0.2,
        deviation_scale=0.01,
        keys=None,
    )


@pytest.mark.parametrize("columns", [[Y], [G], [Y, HUGE]])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_no_row_moves_what_is_shown_of_a_message_more(search, columns, scale):
    """However large or small the numbers of the message are."""
    statistic = Shown(message(scale), space(tuple(columns), "euclidean"))

    most = search(columns, 5).statistic(statistic, 1, 6, tries=2, steps=100)

    assert 0.5 < most <= 1 + 1e-9


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-300, 1.7e308])
def test_a_message_beyond_the_range_of_numbers_is_refused(scale):
    """Where products underflow or overflow, no bound can be computed: refused, before anything is charged."""
    sent = checked(message(scale))

    with pytest.raises(ArgumentError, match="tells no two rows apart"), np.errstate(all="ignore"):
        Shown(sent, space((Y,), "euclidean"))


@pytest.mark.parametrize("norm", [1, 2, math.inf])
@pytest.mark.parametrize("split", [True, False])
def test_no_row_moves_its_projections_more(search, split, norm):
    """Of three columns one is public."""
    columns = [X, HUGE, Y]
    directions = np.random.default_rng(6).normal(size=(3, 3))
    statistic = Projections(tuple(columns), directions, np.zeros(4, dtype=np.int64), split=split)

    most = search(columns, 6).statistic(statistic, norm, 4)

    assert (0.4 if split else 0.9) < most <= 1 + 1e-9  # the first direction need not be the longest


def test_a_claim_of_nine_tenths_is_found_out(search):
    """The search refutes five numbers that claim a tenth too little."""

    class Understated(FiveNumbers):
        def sensitivity(self, relation, norm, public):
            return 0.9 * super().sensitivity(relation, norm, public)

    x, y, columns = spaces("lines")

    assert search(columns, 1).statistic(Understated(x, y, 5), 1, 5, tries=3, steps=100) > 1


def exact_squares(x, y):
    """Squared distance covariance and variances of points, to 40 digits."""
    with mpmath.workdps(40):
        sides = []
        for points in (x, y):
            rows = [[mpmath.mpf(float(value)) for value in row] for row in points]
            sides.append(
                [[mpmath.sqrt(sum((a - b) ** 2 for a, b in zip(p, q, strict=True))) for q in rows] for p in rows]
            )
        found = []
        for a, b in (sides, sides[:1] * 2, sides[1:] * 2):
            n, its, others = len(a), [sum(row) for row in a], [sum(row) for row in b]
            first = sum(u * v for p, q in zip(a, b, strict=True) for u, v in zip(p, q, strict=True))
            second = sum(u * v for u, v in zip(its, others, strict=True))
            found.append(mpmath.sqrt(max(0, first / n**2 - 2 * second / n**3 + sum(its) * sum(others) / n**4)))
        return found


@pytest.mark.parametrize("kind", ["anywhere", "corners", "crowded", "independent"])
@pytest.mark.parametrize("p", [2, 12])
def test_the_error_of_pairs_of_points_is_bounded(kind, p):
    """Against 40 digits, covariance and deviations are right to what is declared, also where they vanish."""
    rng = np.random.default_rng(p)
    unit = [space(tuple(Column(f"{at}{k}", bounds=(0.0, 1.0)) for k in range(p)), "euclidean") for at in "xy"]
    x, y = rng.random((2, 16, p))
    if kind == "corners":
        x, y = np.round(x), np.round(y)
    elif kind == "crowded":
        x, y = 0.5 + x * 1e-9, 0.5 + y * 1e-9
    elif kind == "independent":
        x, y = np.repeat(x[:4], 4, axis=0), np.tile(y[:4], (4, 1))

    found, exact = five_numbers(Points(x), Points(y)), exact_squares(x, y)

    allowed = error(*unit)
    assert all(abs(float(found[at] - exact[at])) <= allowed[at] for at in range(3))


@pytest.mark.parametrize("p", [1, 200])
def test_the_error_of_projections_is_bounded(p, search):
    """Against fractions, a projection is right to what is declared, however many columns it is of."""
    columns = [Column(f"c{k}", bounds=(0.0, 1.0), fill=0.5) for k in range(p)]
    directions = np.random.default_rng(p).normal(size=(3, p)) * 10
    statistic = Projections(tuple(columns), directions, np.zeros(1, dtype=np.int64), split=False)
    table = np.random.default_rng(1).random((1, p))
    batch = search(columns, 0).batch(table)

    found = statistic.value(batch)[0]

    units = [Fraction(float(batch.standardized(column)[0])) / 2 + Fraction(1, 2) for column in columns]
    exact = [sum(Fraction(float(u)) * x for u, x in zip(row, units, strict=True)) for row in directions]
    assert all(abs(Fraction(float(a)) - b) <= statistic.error for a, b in zip(found, exact, strict=True))


def test_a_message_of_nothing_is_refused_at_no_charge():
    """Whoever wrote it, whoever asks with it pays nothing."""
    view = protect(pd.DataFrame({"y": np.linspace(0, 1, 6)}), "crafted", epsilon=2, bounds={"y": (0, 1)})

    with pytest.raises(ArgumentError, match="tells no two rows apart"):
        view.dcor_with(message(0.0), "y", epsilon=1)

    assert view.budget.spent == 0
    assert view.dcor_with(message(1.0), "y", epsilon=1).rows == 6


@pytest.mark.parametrize("crafted", [{"harmonics": (10**400,)}, {"inside": 10**30 + 1, "outside": 10**30}])
def test_a_message_with_absurd_numbers_does_not_fit(crafted):
    """A harmonic beyond any float, and angles that say next to nothing, are refused when the message is read."""
    with pytest.raises(ArgumentError, match="do not fit together"):
        checked(replace(_message(), **crafted))
