"""Every fault around the noise is caught by the check that is named for it, and what only looks like one passes."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from dfprivacy.testing import check_mechanism

_SPEC = importlib.util.spec_from_file_location("faults_discipline", Path(__file__).parent / "faults_discipline.py")
if "faults_discipline" not in sys.modules:  # once: its classes are copied by their names
    sys.modules["faults_discipline"] = importlib.util.module_from_spec(_SPEC)
    _SPEC.loader.exec_module(sys.modules["faults_discipline"])
faults = sys.modules["faults_discipline"]


@pytest.fixture(autouse=True)
def _clean():
    yield
    faults.clean_up()


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: f"{fault.name}-{fault.caught_by}")
def test_the_fault_is_caught(fault):
    """The check that is named catches the fault, and does not merely break."""
    checks = check_mechanism(fault.make(), [fault.case])

    found = next(check for check in checks if check.name == fault.caught_by).run()

    assert "failed" == found.status, found.detail
    assert "the check broke" not in found.detail


@pytest.mark.parametrize("name", faults.HONEST)
def test_the_honest_pass(name):
    """No check fails on an honest mechanism. (Sampling takes long, and has honest mechanisms of its own.)"""
    make, case = faults.HONEST[name]
    checks = [check for check in check_mechanism(make(), [case]) if check.name != "outputs_do_not_tell"]

    found = [check.run() for check in checks]

    assert [] == [(o.check, o.detail) for o in found if o.status == "failed"]
