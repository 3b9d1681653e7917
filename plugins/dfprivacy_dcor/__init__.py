"""Distance correlation, a measure of nonlinear dependence, in one private table and between two parties.

Mechanisms: ``view.dcor``, ``view.dcor_screen``, ``view.dcor_message``, ``view.dcor_with``,
``view.dcor_with_own``, ``view.hsic``. Without data: `load_message`.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_dcor.angles import DistanceMessage
from dfprivacy_dcor.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_dcor.mechanisms import dcor, dcor_screen, hsic, plan_dcor
from dfprivacy_dcor.message import Estimate, load_message
from dfprivacy_dcor.paper import ProjectionMessage
from dfprivacy_dcor.parties import dcor_message, dcor_with, estimate_without_noise, request_message, rows_and_keys
from dfprivacy_dcor.results import HSIC, DistanceCorrelation, Screening, SharedCorrelation

__all__ = [
    "HSIC",
    "DistanceCorrelation",
    "DistanceMessage",
    "Estimate",
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
    """Register the methods of distance correlation and HSIC."""
    register(dcor.plans(plan_dcor))
    register(dcor_screen)
    register(dcor_message.plans(rows_and_keys))
    register(hsic)
    register(dcor_with.prepares(request_message).holds(estimate_without_noise))
