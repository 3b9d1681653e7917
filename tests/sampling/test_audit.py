"""The check of secret samples finds what it is there for."""

from __future__ import annotations

import functools
import itertools
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from core_checks import samples_stand_alone

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._call import question
from dfprivacy._measure.evaluate import Table
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy._table.sample import DrawnFrame, SampledFrame
from dfprivacy_audit import Case
from dfprivacy_audit.discipline import Audit, Failed


def audited(neighbors, **arguments):
    """What is found of a method that counts rows by category."""
    case = Case(arguments={"by": "g"}, categories={"g": ["a", "b"]}, neighbors=neighbors, **arguments)

    @dp.mechanism(columns={"by": "category"})
    def counted(curator, by):
        "The number of rows in each category."
        return [float(count) for count in curator.sum(features.OneHot(by)).values]

    return samples_stand_alone(Audit(counted, case))


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("arguments", [{}, {"group_by": "g"}, {"where": {"g": "a"}}, {"public": ["g"]}])
def test_nothing_wrong_is_found(neighbors, arguments):
    """And a row of a sample uses up what the charge is worth there."""
    if neighbors == "add_remove" and "public" in arguments:
        pytest.skip("no column is public")

    assert "loss" in audited(neighbors, **arguments)


def reused(monkeypatch):
    monkeypatch.setattr(SampledFrame, "drawn", functools.lru_cache(SampledFrame.drawn))


def forgotten(monkeypatch):
    monkeypatch.setattr(question, "on_sample", lambda epsilon, share: epsilon / share)


def spent_beyond(monkeypatch):
    monkeypatch.setattr(question, "on_sample", lambda epsilon, _: epsilon * 3)


def of_the_table(monkeypatch):
    """Public columns stay public, so that a row that comes in place of another moves less."""
    real = Table.sampled

    def sampled(self, share):
        found = real(self, share)
        return found._with(schema=replace(found.schema, columns=self.schema.columns))

    monkeypatch.setattr(Table, "sampled", sampled)


def all_rows(monkeypatch):
    monkeypatch.setattr(DrawnFrame, "batches", lambda self, reads, size: self.frame.batches(reads, size))


BOTH = "add_remove", "replace_one"
FAULTS = [*itertools.product([reused, forgotten, spent_beyond], BOTH), (all_rows, "add_remove")]


@pytest.mark.parametrize(("broken", "neighbors"), FAULTS)
def test_what_is_broken_is_found(neighbors, broken, monkeypatch):
    """One sample for two questions, prices that take q for more than it is worth, rows that are not drawn."""
    broken(monkeypatch)

    with pytest.raises(Failed):
        audited(neighbors)


def test_public_columns_of_a_sample_are_found(monkeypatch):
    """What a public column says of a sample costs nothing, and tells who is in it."""
    of_the_table(monkeypatch)

    with pytest.raises(Failed):
        audited("replace_one", public=["g"])


def test_a_share_is_what_rows_are_drawn_with():
    """Of ten rows a third are three: the charge is for three tenths."""
    frame = adapt(pl.DataFrame({"g": ["a"] * 10}))
    said = {"bounds": None, "categories": {"g": ["a", "b"]}, "public": (), "missing": None}
    table = Table(frame, read_schema(frame, **said, neighbors="replace_one"))

    assert table.sampled(Fraction(1, 3)).sample.share == Fraction(3, 10)
