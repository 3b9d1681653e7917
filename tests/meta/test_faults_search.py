"""The search of the conformance kit is itself tested: faults that show on few tables or in few cases are caught."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import faults_search

from dfprivacy.testing import Case, check_mechanism
from dfprivacy.testing.cases import MOST, few, shapes, variants, variants_among


def outcomes(mechanism, case, names=None):
    checks = check_mechanism(mechanism, [case], samples=4_000)
    return [check.run() for check in checks if names is None or check.name in names]


@pytest.mark.parametrize("fault", faults_search.FAULTS, ids=lambda fault: f"{fault.name}-{fault.caught_by}")
def test_the_fault_is_caught(fault):
    """The check that is named catches the fault, and does not merely break."""
    (found,) = outcomes(fault.make(), fault.case, {fault.caught_by})

    assert "failed" == found.status, found.detail
    assert "the check broke" not in found.detail


@pytest.mark.parametrize("name", faults_search.HONEST)
def test_the_honest_pass(name):
    """No check fails on an honest mechanism, in the cases that its author left out either."""
    make, case = faults_search.HONEST[name]

    found = outcomes(make(), replace(case, tightness=0.0))

    assert [] == [(o.check, o.detail) for o in found if o.status == "failed"]


def test_a_fault_elsewhere_hides_in_the_case_of_its_author():
    """Where a case is left out, the exact audit of the others says nothing of it."""
    hidden = [fault for fault in faults_search.FAULTS if fault.caught_by == faults_search.ELSEWHERE]

    found = [outcomes(fault.make(), fault.case, {"loss_within_charge"})[0].status for fault in hidden]

    assert ["passed"] * len(hidden) == found


def test_tables_have_groups_of_every_size():
    """Public groups are equal, unequal, single and empty, and have the sizes that the author names."""
    case = Case(bounds={"x": (0.0, 1.0)}, categories={"g": ["a", "b"]}, public=["g"], sizes={"g": {"a": 2, "b": 5}})

    made = {
        name: {tuple(sorted(key["g"] for key in [row, *rows[1:]])) for row in few(case, rows)}
        for name, rows in shapes(case).items()
    }

    assert ("a", "a", *"bbbbb") in made["sizes given"]
    assert ("a", *"b" * 12) in made["one of the first group"]
    assert tuple("b" * 13) in made["one of the first group"]
    assert 240 == len(shapes(case)["many rows"])


def test_rows_of_the_author_are_in_every_variant():
    """A variant with one more column has it in the author's rows and tables as well."""
    row = {"x": 0.5}
    case = replace(faults_search.NUMBER, rows=[row], tables=[[row, row]])

    tried = [each for _, tried in variants(faults_search.numeric(faults_search.average), case) for each in tried]

    for each in tried:
        given = [*each.rows, *(one for rows in each.tables for one in rows)]
        assert all(set(each.columns) == set(one) for one in given)


def test_variants_are_shared_by_cases():
    """Many cases share a bounded number of variants, and a case that the author gives is no variant."""

    @faults_search.numeric
    def found(curator, column):
        return None

    one = faults_search.NUMBER
    cases = [replace(one, epsilon=1 + at) for at in range(10)]

    shared = [variants_among(found, cases, case) for case in cases]
    alone = [name for name, _ in variants_among(found, [one], one)]
    beside = [name for name, _ in variants_among(found, [one, replace(one, neighbors="add_remove")], one)]

    assert sum(map(len, shared)) <= MOST
    assert alone == [name for name, _ in variants(found, one)]
    assert ["add_remove"] == [name for name in alone if name not in beside]
