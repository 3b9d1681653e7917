"""Distance correlation: nonlinear dependence within one private table.

Mechanisms: ``view.dcor``, ``view.dcor_screen``.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_dcor.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_dcor.mechanisms import (
    DistanceCorrelation,
    IndependenceTest,
    Screening,
    dcor,
    dcor_screen,
    findings,
)

__all__ = ["DistanceCorrelation", "IndependenceTest", "Screening", "dcor", "dcor_screen"]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Offer the methods."""
    register(dcor.plans(findings))
    register(dcor_screen)
