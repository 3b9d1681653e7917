"""Numbers of different values: moved by one row by one at most, and of what is declared only."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import pandas as pd
import pytest

from dfprivacy import Column
from dfprivacy.errors import ArgumentError
from dfprivacy_eda.counts import Categories, Values


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_number_is_that_of_pandas(neighbors, frame, protect):
    """With next to no noise, of numbers, of categories, and of gaps that are filled in."""
    view = protect(neighbors=neighbors)

    for name in frame:
        assert frame[name].nunique() == pytest.approx(float(view[name].nunique(epsilon=500)), abs=0.1)
    filled = view.nunique("income", nan_policy="fill", epsilon=500)
    assert frame["income"].fillna(1e5).nunique() == pytest.approx(float(filled), abs=0.1)


def test_on_every_frame(constructor, protect):
    """The same of every library; what is no category is no value."""
    view = protect(constructor({"x": [1.0, 9.0, None, 1.0], "g": ["a", "b", "z", None]}), bounds={"x": (0, 5)},
                   categories={"g": ["a", "b", "c"]})  # fmt: skip

    assert [2, 2] == [round(float(view.nunique(name, epsilon=500))) for name in "xg"]


def test_by_group_and_of_nobody(protect):
    """Each group has its own values, and an empty one none."""
    frame = pd.DataFrame({"x": [1.0, 2.0, 2.0], "g": ["a", "b", "b"]})
    view = protect(frame, bounds={"x": (0, 5)}, categories={"g": ["a", "b", "c"]})

    found = view.group_by("g").nunique("x", epsilon=500)

    assert [1, 1, 0] == [round(float(found[key])) for key in "abc"]


def test_the_noise_is_that_of_one_row(protect):
    """The scale at an epsilon of 1 is 1; the interval is within what is possible."""
    found = protect().nunique("sex", confidence=0.9, epsilon=1)

    (noise,) = found.privacy.noise
    assert 1 == pytest.approx(noise.scale, rel=1e-6)
    assert 0 <= found.low <= found.high <= 2
    assert "nunique of sex" in repr(found)


def test_public_values_are_counted_exactly(frame, protect):
    """At no price."""
    found = protect(public=["visits"]).nunique("visits", epsilon=1)

    assert (frame["visits"].nunique(), 0) == (float(found), found.privacy.epsilon)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_no_row_moves_it_more(search, rows):
    """A search for tables that refute the sensitivity finds it attained, and no more."""
    x, g = Column("x", bounds=(0.0, 1.0), fill=0.5), Column("g", categories=("a", "b", "c"))

    most = [search([column], 1).statistic(of, 1, rows, tries=3, steps=60) for column, of in
            ((x, Values(x, omit=False)), (g, Categories(g)))]  # fmt: skip

    assert [1.0, 1.0] == most if rows > 1 else max(most) <= 1


def test_nothing_declared_is_refused(protect):
    """Before any charge, with what to do."""
    view = protect(pd.DataFrame({"note": ["a", "b"]}), bounds={}, categories={})

    with pytest.raises(ArgumentError, match=r"nothing is declared.*Declare categories=\{'note'"):
        view.nunique("note", epsilon=1)

    assert not list(view.releases)
