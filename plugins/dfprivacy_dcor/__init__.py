"""Distance correlation: nonlinear dependence within one private table and between two parties.

Mechanisms: ``view.dcor``, ``view.dcor_screen``, ``view.dcor_message``, ``view.dcor_with``,
``view.dcor_with_own``, ``view.hsic``. Without data: `load_message`.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_dcor.angles import DistanceMessage
from dfprivacy_dcor.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_dcor.estimate import Estimate
from dfprivacy_dcor.hsic import hsic
from dfprivacy_dcor.mechanisms import dcor, findings, warn_of_gamma
from dfprivacy_dcor.message import load_message
from dfprivacy_dcor.paper import ProjectionMessage
from dfprivacy_dcor.receiver import dcor_with, estimate_of, message_of
from dfprivacy_dcor.results import HSIC, DistanceCorrelation, IndependenceTest, Screening, SharedCorrelation
from dfprivacy_dcor.screening import dcor_screen
from dfprivacy_dcor.sender import dcor_message, rows_and_keys

__all__ = [
    "HSIC",
    "DistanceCorrelation",
    "DistanceMessage",
    "Estimate",
    "IndependenceTest",
    "ProjectionMessage",
    "Screening",
    "SharedCorrelation",
    "dcor",
    "dcor_message",
    "dcor_screen",
    "dcor_with",
    "hsic",
    "load_message",
]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Offer the methods."""
    register(dcor.checks(warn_of_gamma).plans(findings))
    register(dcor_screen)
    register(dcor_message.plans(rows_and_keys))
    register(hsic)
    register(dcor_with.prepares(message_of).holds(estimate_of))
