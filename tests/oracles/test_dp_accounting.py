"""Our formulas against Google's dp-accounting."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from dfprivacy._privacy import conversions

QUESTIONS = [
    *[["delta_gauss", epsilon, mu] for epsilon in (0.05, 0.5, 1.0, 3.0) for mu in (0.1, 0.25, 0.65, 2.0)],
    *[["laplace_renyi", epsilon, alpha] for epsilon in (0.05, 0.5, 1.0, 3.0) for alpha in (1.5, 2.0, 8.9, 22.0)],
]


@pytest.mark.oracle
def test_formulas_agree_with_dp_accounting(dp_accounting):
    """Gaussian deltas and Laplace Rényi divergences agree to nine digits, and ours are never the smaller."""
    script = Path(__file__).with_name("dp_accounting_numbers.py")
    answered = subprocess.run(
        [dp_accounting, script], input=json.dumps(QUESTIONS), capture_output=True, text=True, check=True
    )
    theirs = json.loads(answered.stdout)
    ours = [getattr(conversions, name)(*arguments) for name, *arguments in QUESTIONS]

    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-300)
    assert all(our >= their * (1 - 1e-12) for our, their in zip(ours, theirs, strict=True))
