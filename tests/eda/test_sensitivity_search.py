"""A search for rows whose vectors are farther apart than is claimed, for the sums that exploration takes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dfprivacy import Column, features
from dfprivacy.features import Batch, Count, Given, Moments, OneHot, Outer, Stack, number

X = Column("x", bounds=(-3.0, 1.5), fill=-0.75)
Y = Column("y", bounds=(0.0, 1.0), fill=0.5)
FAR = Column("far", bounds=(1e16, 1e16 + 4), fill=1e16)  # four floats wide
BY = Column("by", categories=("a", "b"))
COLUMNS = {"two": [X, Y], "narrow": [X, FAR], "three": [X, Y, FAR]}
CUBE = math.inf


@pytest.fixture
def with_gaps(search):
    """The search over tables in which values of columns with bounds may be missing."""

    class Gaps(search):
        def drawn(self, column):
            return math.nan if column.bounds and self.rng.random() < 0.25 else super().drawn(column)

        def batch(self, table):
            numbers = [(at, column) for at, column in enumerate(self.columns) if column.bounds]
            batch = Batch(len(table), {number(column): table[:, at] for at, column in numbers})
            for at, column in enumerate(self.columns):
                if not column.bounds:
                    batch._encoded[column] = table[:, at].astype(np.intp)
            return batch

    return Gaps


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("count", [False, 1.0, 2.0])
@pytest.mark.parametrize("norm", [1, 2, CUBE])
def test_no_row_moves_the_products_more(search, columns, count, norm):
    """The sums of y_i, 2y_i²-1 and y_i y_j, with the number of rows or without."""
    of = COLUMNS[columns]

    most = search(of, 1).features(Outer(of, count=count, centred=True), norm, tries=3, steps=80)

    assert 0.4 < most <= 1 + 1e-9
    assert norm != CUBE or most > 0.99


@pytest.mark.parametrize("columns", COLUMNS)
def test_no_gap_moves_the_products_of_complete_rows_more(with_gaps, columns):
    """A row may lose or gain a value: complete rows count twice, within the diameter of 2."""
    of = COLUMNS[columns]
    asked = Given(*of, of=Outer(of, count=2.0, centred=True))

    most = with_gaps(of, 1).features(asked, CUBE, tries=3, steps=80)

    assert asked.diameter(CUBE, frozenset()) == 2
    assert 0.99 < most <= 1 + 1e-9


def test_a_heavier_count_would_not_be_free(with_gaps):
    """With half as much weight again, the search finds rows farther apart than two complete ones can be."""
    asked = Given(X, Y, of=Outer([X, Y], count=3.0, centred=True))

    most = with_gaps([X, Y], 2).features(asked, CUBE, tries=3, steps=80) * asked.diameter(CUBE, frozenset())

    assert most > 2.9


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("by", [None, BY, replace(BY, public=True)], ids=["all", "private", "public"])
def test_no_row_moves_the_sums_of_an_aggregation_more(with_gaps, degree, by):
    """Sums of two columns, rows without a value counted twice, and those of a third by category."""
    x = Given(X, of=Moments(X, degree=1) if degree == 1 else Moments(X, centred=True), tally=(0, 2))
    asked = Stack(x, Given(Y), Count())
    every = [X, Y]
    if by is not None:
        asked, every = OneHot(by) * asked, [*every, by]

    most = with_gaps(every, 3).features(asked, CUBE, tries=3, steps=80)

    assert asked.diameter(CUBE, frozenset()) == 2
    assert 0.99 < most <= 1 + 1e-9


def test_no_row_moves_a_tally_of_categories_more(search):
    """Rows in no category have a cell of their own, which costs nothing."""
    asked = Given(BY, of=OneHot(BY), tally=(0, 1))

    most = search([BY], 1).features(asked, 1, tries=3, steps=60)

    assert asked.diameter(1, frozenset()) == 2
    assert asked.radius(1) == 1
    assert 0.99 < most <= 1 + 1e-9


@pytest.mark.parametrize("columns", COLUMNS)
def test_a_radius_of_one_where_rows_come_and_go(search, columns):
    """No coordinate of any row is above 1."""
    of = COLUMNS[columns]
    drawn = search(of, 4)
    batch = drawn.batch(np.array([[drawn.drawn(column) for column in of] for _ in range(500)]))
    asked = [Outer(of, count=1.0, centred=True), Stack(*(features.Moments(column, centred=True) for column in of))]

    assert [each.radius(CUBE) for each in asked] == [1, 1]
    assert max(abs(each.rows(batch)).max() for each in asked) <= 1
