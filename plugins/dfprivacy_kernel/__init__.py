"""Private kernel two-sample tests. Mechanism: ``view.kernel_two_sample``."""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_kernel.mechanisms import KernelTest, kernel_two_sample

__all__ = ["KernelTest", "kernel_two_sample"]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Offer the test."""
    register(kernel_two_sample)
