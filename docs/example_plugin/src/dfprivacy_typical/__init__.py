"""What is typical of a private column: its mode, its median."""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_typical.median import Histogram, Median, median
from dfprivacy_typical.mode import Mode, mode

__all__ = ["Histogram", "Median", "Mode", "median", "mode"]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Offer the mode and the median."""
    register(mode)
    register(median)
