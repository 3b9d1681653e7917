"""The conformance kit is itself tested: every planted fault is caught by the check that is named for it."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from dfprivacy.testing import CHECKS, check_mechanism

_SPEC = importlib.util.spec_from_file_location("faults", Path(__file__).parent / "faults.py")
faults = importlib.util.module_from_spec(_SPEC)
sys.modules["faults"] = faults
_SPEC.loader.exec_module(faults)


def outcome_of(check_name, mechanism, case, samples=20_000):
    checks = check_mechanism(mechanism, [case], samples=samples)
    (check,) = (check for check in checks if check.name == check_name)
    return check.run()


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: f"{fault.name}-{fault.caught_by}")
def test_the_fault_is_caught(fault):
    """The check that is named catches the fault, and does not merely break."""
    faults.CHANCE.seed(1)
    with fault.around():
        found = outcome_of(fault.caught_by, fault.make(), fault.case, fault.samples)

    assert "failed" == found.status, found.detail
    assert "the check broke" not in found.detail


@pytest.mark.parametrize("name", faults.HONEST)
def test_the_honest_pass(name):
    """No check fails on an honest mechanism."""
    make, case, waived = faults.HONEST[name]
    faults.CHANCE.seed(1)

    found = [check.run() for check in check_mechanism(make(), [case], samples=4_000)]

    assert [] == [(o.check, o.detail) for o in found if o.status == "failed" and o.check not in waived]
    assert {o.status for o in found} <= {"passed", "skipped", "failed"}


def test_every_check_has_a_fault():
    """No check is there that catches nothing, and there are many faults."""
    assert set(CHECKS) == {fault.caught_by for fault in faults.FAULTS}
    assert len({fault.name for fault in faults.FAULTS}) >= 25
