"""Private kernel two-sample tests. Mechanisms: ``view.kernel_two_sample`` and ``view.kernel_message``."""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_kernel.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_kernel.mechanisms import findings, kernel_two_sample
from dfprivacy_kernel.message import KernelMessage, kernel_message
from dfprivacy_kernel.results import KernelTest

__all__ = ["KernelMessage", "KernelTest", "kernel_message", "kernel_two_sample"]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Offer the test, and the message of one party."""
    register(kernel_two_sample.plans(findings))
    register(kernel_message)
