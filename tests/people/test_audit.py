"""The conformance kit on people with several rows."""

from __future__ import annotations

import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._measure.evaluate import Table
from dfprivacy._table.people import BoundedFrame
from dfprivacy.schema import Unit
from dfprivacy_audit import Case, elsewhere
from dfprivacy_audit.discipline import Audit, Failed
from dfprivacy_audit.elsewhere import people_stand_together


def audited(neighbors, **arguments):
    """What the kit finds of a method that counts rows by category."""
    case = Case(arguments={"by": "g"}, categories={"g": ["a", "b"]}, neighbors=neighbors, **arguments)

    @dp.mechanism(columns={"by": "category"})
    def counted(curator, by):
        "The number of rows in each category."
        return list(curator.sum(features.OneHot(by)).values)

    return people_stand_together(Audit(counted, case))


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("arguments", [{}, {"group_by": "g"}, {"where": {"g": "a"}}])
def test_the_kit_finds_nothing_wrong(neighbors, arguments):
    """And of all rows the worst person uses up what is charged."""
    said = audited(neighbors, **arguments)

    assert said.startswith("rows: answered, loss" if arguments else "rows: answered, loss 0.333333")


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("broken", ["noise for one row", "all rows count", "nobody's rows count"])
def test_the_kit_finds_what_is_broken(neighbors, broken, monkeypatch):
    """Noise for one row alone, rows beyond k that are read, and rows of nobody that are."""
    if broken == "noise for one row":
        monkeypatch.setattr(Table, "rows_each", 1)
    elif broken == "all rows count":
        monkeypatch.setattr(BoundedFrame, "batches", lambda self, reads, size: self.frame.batches(reads, size))
    else:
        monkeypatch.setattr(elsewhere, "_UNIT", Unit(elsewhere._WHO, 2, "own"))

    with pytest.raises(Failed):
        audited(neighbors)
