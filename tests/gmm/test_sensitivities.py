"""A search for rows whose vectors are farther apart than is claimed, for the sums that the fits take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dfprivacy import Column, features
from dfprivacy_gmm.sums import Entry

X = Column("x", bounds=(-3.0, 1.5), fill=-0.75)
KNOWN = Column("k", bounds=(-8e307, 8e307), fill=0.0, public=True)
FAR = Column("far", bounds=(1e16, 1e16 + 4), fill=1e16)  # four floats wide
BY = Column("by", categories=("a", "b"))
GROUPS = {"all": None, "private": BY, "public": replace(BY, public=True)}


def by_group(asked, by):
    """The same by group."""
    return asked if by is None else features.OneHot(by) * asked


@pytest.mark.parametrize("by", GROUPS)
@pytest.mark.parametrize("factors", [(X,), (X, X), (X, FAR), (X, KNOWN)], ids=["y", "square", "product", "known"])
def test_no_row_moves_a_sum_more(search, factors, by):
    """One row moves each sum by what its query claims, of all rows or of classes."""
    asked, group = Entry(*factors), GROUPS[by]
    every = [*asked.columns, *([] if group is None else [group])]

    assert 0.9 < search(every, 1).features(by_group(asked, group), 1, tries=3, steps=100) <= 1 + 1e-9
