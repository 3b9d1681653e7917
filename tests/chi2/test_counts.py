"""The statistics that are measured: their values, and that no row moves them by more than they claim."""

import math
from itertools import product

import numpy as np
import pytest

from dfprivacy.schema import Column
from dfprivacy_chi2 import counts
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.tables import signed_distance, tight_sensitivity, unit_circle_norm

X = Column("x", categories=(0, 1))
Z = Column("z", categories=("no", "yes"))
BY = Column("by", categories=("a", "b"), public=True)
LARGE = Column("x", categories=("u", "v", "w"))
PUBLIC = frozenset({"by"})


def of_all_tables(statistic, n1, n0):
    """A statistic of c11 and c10 in all tables, as it is noised."""
    every = [statistic.value(np.array([[c11], [c10]])) for c11 in range(n1 + 1) for c10 in range(n0 + 1)]
    return np.array(every, dtype=np.float64).reshape(n1 + 1, n0 + 1)


def statistics(n1, n0):
    """All statistics of the counts of X = 1 in two groups."""
    of = X, BY, ("a", "b"), (n1, n0)
    return {
        "difference": counts.Difference([X], *of[1:], fill=True),
        "norm": counts.UnitCircleNorm([of[0]], *of[1:], TAU, tight_sensitivity(n1, n0, TAU), fill=True),
        "distance": counts.Distance([of[0]], *of[1:], TAU),
        "signed": counts.Difference([X], *of[1:], fill=True, signed=True),
    }


@pytest.mark.parametrize("name", statistics(1, 1))
@pytest.mark.parametrize(("n1", "n0"), [(1, 1), (1, 6), (6, 3), (5, 5), (8, 8), (11, 4)])
def test_one_row_moves_each_by_1(name, n1, n0):
    """In all tables of two groups a row that changes its X moves each statistic by 1 at most, as it claims."""
    statistic = statistics(n1, n0)[name]
    every = of_all_tables(statistic, n1, n0)

    moved = max(np.abs(np.diff(every, axis=axis)).max() for axis in (0, 1))

    assert statistic.sensitivity("replace_one", 1, PUBLIC) == 1
    assert moved <= 1 + 2 * statistic.error
    if max(n1, n0) % 2 == 0 and min(n1, n0) > 1:
        assert moved >= 1 - 1e-9


def test_values_are_those_of_the_tables():
    """Divided by their weights, they are the statistics."""
    n1, n0, c11, c10 = 30, 50, 12, 3
    found = {
        name: float(np.ravel(s.value(np.array([[c11], [c10]])) / s.weights)[0])
        for name, s in statistics(n1, n0).items()
    }

    assert found == pytest.approx(
        {
            "difference": 30 * (12 / 30 - 3 / 50),  # its own weights are 1
            "norm": unit_circle_norm(c11, c10, n1, n0, TAU),
            "distance": int(signed_distance(c11, c10, n1, n0, TAU)),
            "signed": 30 * (12 / 30 - 3 / 50),
        }
    )


@pytest.mark.parametrize("name", statistics(1, 1))
def test_none_is_measured_where_the_groups_are_private(name):
    """Where neighbours may differ in the groups, or in the number of rows, there is no sensitivity."""
    statistic = statistics(4, 4)[name]

    assert statistic.sensitivity("replace_one", 1, frozenset()) == math.inf
    assert statistic.sensitivity("add_remove", 1, PUBLIC) == math.inf
    assert statistic.sensitivity("replace_one", 1, PUBLIC | {"x"}) == 0


def test_many_differences_move_together():
    """A row moves each of two differences by 1: 2 in all, √2 by length, 1 at most."""
    statistic = counts.Difference([X, Z], BY, ("a", "b"), (4, 6), fill=True)

    assert [statistic.sensitivity("replace_one", norm, PUBLIC) for norm in (1, 2, math.inf)] == [2, math.sqrt(2), 1]
    assert statistic.value(np.array([[4, 1], [0, 6]])).tolist() == [4, 3]


@pytest.mark.parametrize("kind", ["difference", "signed", "norm", "norm at a small tau"])
@pytest.mark.parametrize(("n1", "n0"), [(1, 1), (1, 6), (6, 3), (5, 5), (7, 8)])
def test_one_row_moves_what_complete_rows_say_by_1(n1, n0, kind):
    """In all tables of two groups, a row that changes, loses or gets its X moves each number by 1 at most."""
    statistic = counts.Difference([X], BY, ("a", "b"), (n1, n0), signed=kind == "signed")
    tau = 0.01 if "tau" in kind else TAU
    if "norm" in kind:
        statistic = counts.UnitCircleNorm([X], BY, ("a", "b"), (n1, n0), tau, tight_sensitivity(n1, n0, tau))
    groups = [[(c, m - c) for m in range(n + 1) for c in range(m + 1)] for n in (n1, n0)]
    value = {table: float(statistic.value(np.array(table))[0]) for table in product(*groups)}
    moves = [(1, -1), (1, 0), (0, 1)]

    moved = max(
        abs(value[after] - before)
        for (first, second), before in value.items()
        for a, b in moves
        for after in (((first[0] + a, first[1] + b), second), (first, (second[0] + a, second[1] + b)))
        if after in value
    )

    assert 0.4 <= moved <= 1 + 2 * statistic.error
    assert "norm" in kind or max(map(abs, value.values())) == min(n1, n0)


def test_rows_without_a_value_have_no_part_in_the_difference():
    """The difference is that of shares of complete rows, and 0 where a group has none."""
    statistic = counts.Difference([X, Z], BY, ("a", "b"), (30, 50), signed=True)

    found = statistic.value(np.array([[3, 7, 0, 0], [20, 10, 5, 5]]))  # X = 1, X = 0, Z = 1, Z = 0

    assert found.tolist() == pytest.approx([10 * (0.3 - 20 / 30), 0.0])
