"""A search for rows whose vectors are farther apart than is claimed, for the sums that the fits take."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dfprivacy import Column, features
from dfprivacy.features import Batch, Given, number

X = Column("x", bounds=(-3.0, 1.5), fill=-0.75)
KNOWN = Column("k", bounds=(-8e307, 8e307), fill=0.0, public=True)
FAR = Column("far", bounds=(1e16, 1e16 + 4), fill=1e16)  # four floats wide
BY = Column("by", categories=("a", "b"))
PUBLIC_BY = replace(BY, public=True)
OTHER_BY = Column("by", categories=("a", "other"), other=True)

COLUMNS = {"one": [X], "two": [X, FAR], "half public": [X, KNOWN], "three": [X, KNOWN, FAR]}


@pytest.mark.parametrize("by", [None, BY, PUBLIC_BY, OTHER_BY], ids=["all", "private", "public", "other"])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize(("norm", "radius"), [(1, None), (2, None), (2, 0.6), (2, 1.0)])
def test_no_row_moves_the_moments_more(search, columns, by, norm, radius):
    """Counts, sums and products of one to three columns, by group or of all, within a ball or the cube."""
    of = COLUMNS[columns]
    ball = radius and radius * math.sqrt(len(of))
    asked = features.Outer(of, radius=ball, count=by is not PUBLIC_BY)
    every = of
    if by is not None:
        asked, every = features.OneHot(by) * asked, [*of, by]

    most = search(every, 1).features(asked, norm, tries=3, steps=120)

    assert 0.4 < most <= 1 + 1e-9


@pytest.mark.parametrize("columns", COLUMNS)
def test_no_row_moves_the_sketch_more(search, columns):
    """Cosines and sines."""
    of = COLUMNS[columns]
    d, half = len(of), np.array([column.half for column in of])
    rng = np.random.default_rng(d)
    waves = features.Fourier(of, rng.normal(size=(5, d)) * 2 / half)

    most = search(of, 2).features(waves, 2, tries=3, steps=120)

    assert 0.5 < most <= 1 + 1e-9


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


@pytest.mark.parametrize("by", [None, BY, PUBLIC_BY, OTHER_BY], ids=["all", "private", "public", "other"])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("norm", [1, 2])
def test_no_row_moves_the_moments_of_complete_rows_more(search, columns, by, norm):
    """A row may also lose or gain a value; where rows keep their group, complete ones count with a large weight."""
    of = COLUMNS[columns]
    ball = 0.7 * math.sqrt(len(of)) if norm == 2 else None
    heavy = ball and ball * math.sqrt(2 if len(of) == 1 else 2.5)
    count = heavy if heavy and by in {None, PUBLIC_BY} else True
    asked = Given(*of, of=features.Outer(of, radius=ball, count=count))
    every = of
    if by is not None:
        asked, every = features.OneHot(by) * asked, [*of, by]

    most = with_gaps(search)(every, 1).features(asked, norm, tries=3, steps=120)

    assert 0.4 < most <= 1 + 1e-9


@pytest.mark.parametrize("columns", COLUMNS)
def test_no_row_moves_the_sketch_of_complete_rows_more(search, columns):
    """The same of cosines and sines."""
    of = COLUMNS[columns]
    d, half = len(of), np.array([column.half for column in of])
    rng = np.random.default_rng(d)
    waves = features.Fourier(of, rng.normal(size=(5, d)) * 2 / half)

    most = with_gaps(search)(of, 2).features(Given(*of, of=waves), 2, tries=3, steps=120)

    assert 0.5 < most <= 1 + 1e-9


def test_a_heavier_count_would_not_be_free(search):
    """With half as much weight again, the search finds rows farther apart than two complete ones can be."""
    of, r = COLUMNS["two"], 0.7 * math.sqrt(2)
    heavy = Given(*of, of=features.Outer(of, radius=r, count=1.5 * r * math.sqrt(2.5)))
    free = features.Outer(of, radius=r).diameter(2, frozenset())

    most = with_gaps(search)(of, 1).features(heavy, 2, tries=3, steps=120) * heavy.diameter(2, frozenset())

    assert most > 1.1 * free
