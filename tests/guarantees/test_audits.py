"""Every case of every bundled method passes `dfprivacy audit`: what of it the suite can afford.

A job runs all of it each week. Here, the search for the worst tables is short where it finds that the charge is
tight, and tries few rows in tables but the first; beside the first case of each method one in sixteen of the others
is audited. The checks that take longest are asked of the first case of a part of the methods, and those of which
the contracts ask the like of every case, of the first; the law of the noise is of the house, and is asked of one.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from core_checks import PROMISES

from dfprivacy._plugins.loader import registry
from dfprivacy_audit.cases import cases_of
from dfprivacy_audit.conformance import CHECKS, Check
from dfprivacy_audit.discipline import Audit
from dfprivacy_audit.harness import Skipped, time_limit

EXACT = {"loss_within_charge", "charge_is_tight", "concludes_from_noise_alone"}
ONCE = {"same_on_every_frame", "charges_first_and_for_good", "explains_for_nothing"}
LONG = ["holds_in_other_cases", "keeps_level_and_coverage"]
LAW = "noise_follows_its_law"
# What follows the measurements of a mixture takes a minute for some hundred tables; its sketch is audited alone.
SLOW = {"n_components"}
BUNDLED = [m for m in registry().mechanisms.values() if m.origin.startswith("dfprivacy ")]
CASES = [
    pytest.param(mechanism, at, case, id=f"{mechanism.name}({case})", marks=[pytest.mark.one_in(16)] if at else [])
    for mechanism in BUNDLED
    for at, case in enumerate(cases_of(mechanism))
    if not SLOW & case.arguments.keys()
]


def audit_of(mechanism, case):
    """Prepare the short audit of a case."""
    return Audit(mechanism, case, others=cases_of(mechanism), thorough=False)


@pytest.mark.parametrize(("mechanism", "at", "case"), CASES)
def test_the_audit_is_passed(mechanism, at, case):
    """No check fails, and none of the exact ones is skipped: the charge is kept, and tight."""
    left_out = {*LONG, *(ONCE if at else ()), *({LAW} if at or mechanism is not BUNDLED[0] else ())}
    audit = audit_of(mechanism, case)

    outcomes = [Check(name, "", audit).run() for name in CHECKS if name not in left_out]

    assert [(o.check, o.detail) for o in outcomes if o.status == "failed"] == []
    assert {o.check for o in outcomes if o.status == "passed"} >= EXACT


FIRST = [
    pytest.param(mechanism, case, id=mechanism.name)
    for mechanism, at, case in (each.values for each in CASES)
    if at == 0
]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("check", LONG)
@pytest.mark.parametrize(("mechanism", "case"), FIRST)
def test_the_long_checks_are_passed(mechanism, case, check):
    """Nor does one of those fail that ask many variants of a case, or simulate it."""
    found = Check(check, "", audit_of(mechanism, case)).run()

    assert found.status != "failed", found.detail


@pytest.mark.one_in(8)
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize(("mechanism", "case"), FIRST)
def test_the_house_keeps_its_promises(mechanism, case, promise):
    """Of people with several rows, of samples, and of what was measured before."""
    with suppress(Skipped), time_limit():
        PROMISES[promise](Audit(mechanism, case))
