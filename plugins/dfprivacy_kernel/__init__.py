"""Private kernel two-sample tests of two groups, of two tables, and of two parties.

Mechanisms: ``view.kernel_two_sample``, ``view.kernel_message`` and ``view.kernel_locations``.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_kernel.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_kernel.locations import KernelLocations, kernel_locations
from dfprivacy_kernel.mechanisms import kernel_two_sample, plan_test
from dfprivacy_kernel.message import KernelMessage, kernel_message
from dfprivacy_kernel.results import KernelTest

__all__ = [
    "KernelLocations",
    "KernelMessage",
    "KernelTest",
    "kernel_locations",
    "kernel_message",
    "kernel_two_sample",
]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Register the two-sample test, the message to another party, and the choice of test locations."""
    register(kernel_two_sample.plans(plan_test))
    register(kernel_message)
    register(kernel_locations)
