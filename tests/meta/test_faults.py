"""The conformance kit is itself tested: every planted fault is caught by the check that is named for it."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import faults
import faults_discipline
import faults_search
from core_checks import PROMISES

from dfprivacy_audit import CHECKS, Check
from dfprivacy_audit.discipline import Audit
from dfprivacy_audit.harness import Failed, Skipped

FAULTS = [*faults.FAULTS, *faults_discipline.FAULTS, *faults_search.FAULTS]
HONEST = faults.HONEST | {name: (*asked, set()) for name, asked in faults_discipline.HONEST.items()}
HONEST |= {name: (make, replace(case, tightness=0.0), set()) for name, (make, case) in faults_search.HONEST.items()}


OF_A_METHOD = [fault for fault in FAULTS if fault.caught_by in CHECKS]
OF_THE_HOUSE = [fault for fault in FAULTS if fault.caught_by in PROMISES]


@pytest.mark.parametrize("fault", OF_A_METHOD, ids=lambda fault: f"{fault.name}-{fault.caught_by}")
def test_the_fault_is_caught(fault):
    """The check that is named catches the fault, and does not merely break."""
    faults.CHANCE.seed(1)
    with getattr(fault, "around", contextlib.nullcontext)():
        audit = Audit(fault.make(), fault.case, 4_000, [fault.case], thorough=False)  # as the suite audits
        found = Check(fault.caught_by, "", audit).run()

    assert "failed" == found.status, found.detail
    assert "the check itself raised" not in found.detail


@pytest.mark.parametrize(
    "fault", OF_THE_HOUSE, ids=lambda fault: f"{fault.around.__name__}-{fault.name}-{fault.caught_by}"
)
def test_the_fault_of_the_house_is_caught(fault):
    """A promise that the house breaks to every method is seen to be broken."""
    with fault.around(), pytest.raises(Failed):
        PROMISES[fault.caught_by](Audit(fault.make(), fault.case))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("name", HONEST)
def test_the_house_keeps_its_promises_to_the_honest(name, promise):
    """No promise is seen to be broken with an honest mechanism."""
    make, case, _ = HONEST[name]
    faults.CHANCE.seed(1)

    with contextlib.suppress(Skipped):
        PROMISES[promise](Audit(make(), case))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", HONEST)
def test_the_honest_pass(name):
    """No check fails on an honest mechanism, in an eighth of the variants of its case, another for each."""
    make, case, waived = HONEST[name]
    cases = [replace(case) for _ in range(8)]
    one = cases[[*HONEST].index(name) % 8]
    faults.CHANCE.seed(1)

    audit = Audit(make(), one, samples=1_000, others=cases, thorough=False)
    found = [Check(check, "", audit).run() for check in CHECKS]

    assert [] == [(o.check, o.detail) for o in found if o.status == "failed" and o.check not in waived]
    assert {o.status for o in found} <= {"passed", "skipped", "failed"}


def test_every_check_has_a_fault():
    """No check is there that catches nothing, and there are many faults."""
    assert {*CHECKS, *PROMISES} == {fault.caught_by for fault in FAULTS}
    assert len({fault.name for fault in FAULTS}) >= 90
