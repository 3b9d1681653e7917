"""What the conformance kit tries: tables of every shape, and the cases that an author left out."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import faults_search

from dfprivacy_audit import Case, Check
from dfprivacy_audit.cases import MOST, few_rows, further_tables, variants, variants_among
from dfprivacy_audit.discipline import Audit


def test_a_fault_elsewhere_hides_in_the_case_of_its_author():
    """Where a case is left out, the exact audit of the others says nothing of it."""
    hidden = [fault for fault in faults_search.FAULTS if fault.caught_by == faults_search.ELSEWHERE]

    audits = [Audit(fault.make(), fault.case, others=[fault.case], thorough=False) for fault in hidden]
    found = [Check("loss_within_charge", "", audit).run().status for audit in audits]

    assert ["passed"] * len(hidden) == found


def test_tables_have_groups_of_every_size():
    """Public groups are equal, unequal, single and empty."""
    case = Case(bounds={"x": (0.0, 1.0)}, categories={"g": ["a", "b"]}, public=["g"])

    made = {
        name: {tuple(sorted(key["g"] for key in [row, *rows[1:]])) for row in few_rows(case, rows)}
        for name, rows in further_tables(case).items()
    }

    assert ("a", *"b" * 12) in made["one row of the first group"]
    assert tuple("b" * 13) in made["one row of the first group"]
    assert 240 == len(further_tables(case)["many rows"])


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
