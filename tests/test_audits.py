"""Every case of every bundled method keeps its charge, as far as `dfprivacy audit` computes it in closed form."""

from __future__ import annotations

import pytest

from dfprivacy._plugins.loader import registry
from dfprivacy.testing.conformance import check_mechanism

EXACT = ("loss_within_charge", "charge_is_tight", "concludes_from_noise_alone", "noise_is_what_was_charged")
BUNDLED = [m for m in registry().mechanisms.values() if m.origin.startswith("dfprivacy ")]
# What follows the measurements of a mixture takes a minute for some hundred tables; its sketch is audited alone.
SLOW = {"n_components"}
CHECKS = [
    check
    for mechanism in BUNDLED
    for check in check_mechanism(mechanism)
    if check.name in EXACT and not SLOW & check.audit.case.arguments.keys()
]


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_charge_is_kept(check):
    """The exact checks of the conformance kit pass."""
    outcome = check.run()

    assert outcome.status == "passed", outcome.detail
