"""A search for rows whose vectors are farther apart than is claimed, for the sums that the fits take."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dfprivacy import Column, features
from dfprivacy.features import Batch, Given, number
from dfprivacy_gmm.sums import Entry

X = Column("x", bounds=(-3.0, 1.5), fill=-0.75)
KNOWN = Column("k", bounds=(-8e307, 8e307), fill=0.0, public=True)
FAR = Column("far", bounds=(1e16, 1e16 + 4), fill=1e16)  # four floats wide
BY = Column("by", categories=("a", "b"))
COLUMNS = {"one": [X], "two": [X, FAR], "half public": [X, KNOWN], "three": [X, KNOWN, FAR]}
GROUPS = {
    "all": None,
    "private": BY,
    "public": replace(BY, public=True),
    "other": Column("by", categories=("a", "other"), other=True),
}
BALLS = [(1, None), (2, None), (2, 0.6), (2, 1.0)]


def by_group(asked, by):
    """The same by group."""
    return asked if by is None else features.OneHot(by) * asked


@pytest.fixture
def gaps(search):
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


@pytest.mark.parametrize("by", GROUPS)
@pytest.mark.parametrize("columns", COLUMNS)
def test_no_row_moves_the_moments_more(search, gaps, columns, by):
    """Counts, sums and products of one to three columns, by group or of all, within a ball or the cube.

    A row may also lose or gain a value; where rows keep their group, complete ones count with a large weight.
    """
    of, group = COLUMNS[columns], GROUPS[by]
    every, root = [*of, *([] if group is None else [group])], math.sqrt(len(of))
    for norm, radius in BALLS if columns == "two" else BALLS[:3:2]:
        asked = features.Outer(of, radius=radius and radius * root, count=by != "public")
        assert 0.4 < search(every, 1).features(by_group(asked, group), norm, tries=3, steps=100) <= 1 + 1e-9
    for norm, ball in ((1, None), (2, 0.7 * root)):
        heavy = ball and ball * math.sqrt(2 if len(of) == 1 else 2.5)
        count = heavy if heavy and by in {"all", "public"} else True
        given = Given(*of, of=features.Outer(of, radius=ball, count=count))
        assert 0.4 < gaps(every, 1).features(by_group(given, group), norm, tries=3, steps=100) <= 1 + 1e-9


@pytest.mark.parametrize("by", ["all", "private", "public"])
@pytest.mark.parametrize("factors", [(X,), (X, X), (X, FAR), (X, KNOWN)], ids=["y", "square", "product", "known"])
def test_no_row_moves_a_sum_more(search, factors, by):
    """One row moves each sum by what its query claims, of all rows or of classes."""
    asked, group = Entry(*factors), GROUPS[by]
    every = [*asked.columns, *([] if group is None else [group])]

    assert 0.9 < search(every, 1).features(by_group(asked, group), 1, tries=3, steps=100) <= 1 + 1e-9
