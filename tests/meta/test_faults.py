"""The conformance kit is itself tested: every planted fault is caught by the check that is named for it."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from dfprivacy.testing import CHECKS, check_mechanism


def module_of(name):
    """Import a module that lies beside this one, once: its classes are copied by their names."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


faults, beside, searched = module_of("faults"), module_of("faults_discipline"), module_of("faults_search")


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
    planted = [*faults.FAULTS, *beside.FAULTS, *searched.FAULTS]

    elsewhere = {"says_what_its_interval_covers"}  # which has releases of its own in tests/test_conformance.py
    assert set(CHECKS) - elsewhere == {fault.caught_by for fault in planted}
    assert len({fault.name for fault in faults.FAULTS}) >= 25
