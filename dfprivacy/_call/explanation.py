"""What a method would do, for people to look at."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dfprivacy.release import MeasurementRecord

__all__ = ["Explanation"]


@dataclass(frozen=True)
class Explanation:
    """What a method would do: its measurements, their noise and price, and what it could find out.

    Attributes
    ----------
    method, account : str
        What would be asked of which account.
    epsilon, delta : float
        The price asked.
    left : float
        The epsilon that is left of it to pay: that of what the ledger keeps already is spared.
    measurements : tuple of MeasurementRecord
        What would be measured, in order.
    largest : float
        The largest epsilon the account can still pay at once.
    ended : str
        What a method of one piece raised when it went on from a measurement that says nothing, as a plan's does. It
        may measure more from numbers. Empty where the plan is whole.
    find : callable
        Works out the findings.
    """

    method: str
    account: str
    epsilon: float
    delta: float
    left: float
    measurements: tuple[MeasurementRecord, ...]
    largest: float
    ended: str = ""
    find: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False, compare=False)

    @cached_property
    def findings(self) -> Mapping[str, Any]:
        """What the method could find out, in its own words: a dictionary, worked out when it is first read."""
        found = dict(self.find())
        object.__setattr__(self, "find", dict)  # which knows the table
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "findings": self.findings, "find": dict}

    def _lines(self) -> list[str]:
        afford = "can" if self.left <= self.largest else "CANNOT"
        spared = f", of which {self.left:g} is left to pay" if self.left < self.epsilon else ""
        return [
            f"price: epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else "") + spared,
            *(f"{'reuses' if noise.reused else 'measures'} {noise}" for noise in self.measurements),
            *([f"may measure more: without data it ends here, with {self.ended}"] if self.ended else []),
            *(
                f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}"
                for name, value in self.findings.items()
            ),
            f"the account {self.account!r} {afford} pay: the most it can pay at once is epsilon {self.largest:g}",
        ]

    def __repr__(self) -> str:
        return "\n  ".join([f"{self.method} would cost and measure (nothing was charged or read):", *self._lines()])

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in self._lines())
        return f"<b>{html.escape(self.method)}</b> (nothing was charged or read)<ul>{lines}</ul>"
