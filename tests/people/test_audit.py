"""The check of people with several rows finds what it is there for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import core_checks

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._measure.evaluate import Table
from dfprivacy._table.people import BoundedFrame
from dfprivacy.schema import Unit
from dfprivacy_audit import Case
from dfprivacy_audit.discipline import Audit, Failed


def audited(neighbors, **arguments):
    """What is found of a method that counts rows by category."""
    case = Case(arguments={"by": "g"}, categories={"g": ["a", "b"]}, neighbors=neighbors, **arguments)

    @dp.mechanism(columns={"by": "category"})
    def counted(curator, by):
        "The number of rows in each category."
        return list(curator.sum(features.OneHot(by)).values)

    return core_checks.people_stand_together(Audit(counted, case))


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("arguments", [{}, {"group_by": "g"}, {"where": {"g": "a"}}])
def test_nothing_wrong_is_found(neighbors, arguments):
    """And of all rows the worst person uses up what is charged."""
    said = audited(neighbors, **arguments)

    assert said.startswith("rows: answered, loss" if arguments else "rows: answered, loss 0.333333")


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("broken", ["noise for one row", "all rows count", "nobody's rows count"])
def test_what_is_broken_is_found(neighbors, broken, monkeypatch):
    """Noise for one row alone, rows beyond k that are read, and rows of nobody that are."""
    if broken == "noise for one row":
        monkeypatch.setattr(Table, "rows_each", 1)
    elif broken == "all rows count":
        monkeypatch.setattr(BoundedFrame, "batches", lambda self, reads, size: self.frame.batches(reads, size))
    else:
        monkeypatch.setattr(core_checks, "_UNIT", Unit(core_checks._WHO, 2, "own"))

    with pytest.raises(Failed):
        audited(neighbors)
