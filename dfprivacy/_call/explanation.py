"""Explanations of what a method would do."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dfprivacy._visible import visible
from dfprivacy.markup import Grid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dfprivacy.release import MeasurementRecord

__all__ = ["Explanation"]

_VERBS = {"reuses", "measures"}


@dataclass(frozen=True)
class Explanation:
    """The plan of a method: its measurements, their noise and price, and what it could find out.

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
    ended : str
        What a method of one piece raised when it went on from a measurement that says nothing, as a plan's does. It
        may measure more from numbers. Empty where the plan is whole.
    sample : str
        Of which secret sample it would measure, and with which epsilon there; empty where it is of all rows.
    sampling : str
        What the errors to expect leave out there.
    find, afford : callable
        Work out the findings, and the largest epsilon.
    """

    method: str
    account: str
    epsilon: float
    delta: float
    left: float
    measurements: tuple[MeasurementRecord, ...]
    ended: str = ""
    sample: str = ""
    sampling: str = ""
    find: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False, compare=False)
    afford: Callable[[], float] = field(default=float, repr=False, compare=False)

    @cached_property
    def largest(self) -> float:
        """The largest epsilon the account can pay at once: that of the moment when it is first read or shown."""
        affordable = self.afford()
        object.__setattr__(self, "afford", float)  # which knows the account
        return affordable

    @cached_property
    def findings(self) -> Mapping[str, Any]:
        """Findings of the method's planner, by name; computed when first read."""
        findings = dict(self.find())
        object.__setattr__(self, "find", dict)  # which knows the table
        return findings

    def __getstate__(self) -> dict[str, Any]:
        worked_out = {"findings": self.findings, "largest": self.largest}
        return {**vars(self), **worked_out, "find": dict, "afford": float}

    def _facts(self) -> list[tuple[str, str]]:
        afford = "can" if self.left <= self.largest else "CANNOT"
        spared = f", of which {self.left:g} is left to pay" if self.left < self.epsilon else ""
        return [
            ("price", f"epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else "") + spared),
            *([("of", self.sample)] if self.sample else []),
            *(("reuses" if noise.reused else "measures", str(noise)) for noise in self.measurements),
            *([("may measure more", f"without data it ends here, with {self.ended}")] if self.ended else []),
            *(
                (f"{name}{self._whose(name)}", f"{value:.4g}" if isinstance(value, float) else str(value))
                for name, value in self.findings.items()
            ),
            *([("sampling", self.sampling)] if any(map(self._whose, self.findings)) else []),
            (
                f"the account {self.account!r}",
                f"{afford} pay: the most it can pay at once is epsilon {self.largest:g}",
            ),
        ]

    def _whose(self, name: str) -> str:
        """Describe the rows that an expected error is about."""
        return ", for this sample" if self.sampling and name.startswith("expected") else ""

    def __repr__(self) -> str:
        first_line = (
            f"{name} {text}" if name in _VERBS or name.startswith("the account ") else f"{name}: {text}"
            for name, text in self._facts()
        )
        head = f"{self.method} would cost and measure (nothing was charged or read):"
        return "\n  ".join(map(visible, [head, *first_line]))

    def _repr_html_(self) -> str:
        return Grid((), self._facts()).html(f"{self.method} (nothing was charged or read)")
