"""Explanations of what a method would measure, and whether finding bounds first would help."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dfprivacy._call.payment import PlanPayer
from dfprivacy._measure.curator import Planner
from dfprivacy._plugins.loader import registry
from dfprivacy._visible import visible
from dfprivacy.errors import ArgumentError
from dfprivacy.markup import Grid
from dfprivacy.wording import significant

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfprivacy._call.call import Call
    from dfprivacy.mechanism import Mechanism
    from dfprivacy.release import MeasurementRecord

__all__ = ["PART", "RELATIVE", "Explanation", "bounds_finder", "recommend_bounds"]

RELATIVE = "expected relative error"
"""Name of the planner's finding by which `plan` splits an epsilon; `explain` shows absolute errors beside it."""
PART = Fraction(1, 4)
"""Share of a question's epsilon that a search for bounds spends."""
_TENTH = 0.1  # of the bounds, over which the values spread
_SEEN = 0.2  # relative error of the search, up to which it sees an interval with a fifth of the rows
_VERBS = {"reuses", "measures"}


@dataclass(frozen=True)
class Explanation:
    """Plan of a method: its measurements, their noise and price, and the expected accuracy.

    Attributes
    ----------
    method, account : str
        The method, and the account that would pay.
    epsilon, delta : float
        The price of the question.
    left : float
        The part of epsilon that is still to pay: measurements that the ledger keeps are free.
    measurements : tuple of MeasurementRecord
        What would be measured, in order.
    ended : str
        Name of the error with which the method ended, as a plan's measurements have void values; with real values
        it may measure more. Empty if the plan is complete.
    sample : str
        Description of the secret sample and of the epsilon on it; empty if all rows are asked.
    sampling : str
        The sampling error that the expected errors leave out on a sample.
    find, afford : callable
        Functions that compute the findings, and the largest epsilon.
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
        """Largest epsilon that the account can pay at once; computed when first read."""
        affordable = self.afford()
        object.__setattr__(self, "afford", float)  # which knows the account
        return affordable

    @cached_property
    def findings(self) -> Mapping[str, Any]:
        """Findings of the method's planner, such as expected errors, by name; computed when first read."""
        findings = dict(self.find())
        object.__setattr__(self, "find", dict)  # which knows the table
        return findings

    def __getstate__(self) -> dict[str, Any]:
        computed = {"findings": self.findings, "largest": self.largest}
        return {**vars(self), **computed, "find": dict, "afford": float}

    def _facts(self) -> list[tuple[str, str]]:
        afford = "can" if self.left <= self.largest else "CANNOT"
        price = f"epsilon {self.epsilon:g}" + (f", delta {self.delta:g}" if self.delta else "")
        if not self.left:
            price = f"nothing: it follows from what was paid before (otherwise {price})"
        elif self.left < self.epsilon:
            price = f"{price}; {self.left:g} is left to pay, as the rest was paid before"
        return [
            ("price", price),
            *([("of", self.sample)] if self.sample else []),
            *(("reuses" if noise.reused else "measures", str(noise)) for noise in self.measurements),
            *([("may measure more", f"without data, the plan ended here with {self.ended}")] if self.ended else []),
            *(
                (f"{name}{self._sample_suffix(name)}", _finding_as_text(value))
                for name, value in self.findings.items()
                if name != RELATIVE or len(self.findings) == 1
            ),
            *([("sampling", self.sampling)] if any(map(self._sample_suffix, self.findings)) else []),
            (
                f"the account {self.account!r}",
                f"{afford} pay: the most it can pay at once is epsilon {self.largest:g}",
            ),
        ]

    def _sample_suffix(self, name: str) -> str:
        """Return ", for this sample" for an expected error that leaves out sampling error, else an empty string."""
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


def _finding_as_text(value: Any) -> str:
    """Format a finding: floats with three digits, a mapping as names and values."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_finding_as_text(each)}" for name, each in value.items())
    return significant(value, 3) if isinstance(value, float) else str(value)


def bounds_finder() -> Mechanism:
    """Return the mechanism of ``find_bounds``; raise an `ArgumentError` if its plugin is not installed."""
    if (found := registry().mechanisms.get("find_bounds")) is None:
        raise ArgumentError(
            'bounds="find" needs a plugin with the method find_bounds(), and none is installed.',
            "Install dfprivacy with its bundled plugins, or declare bounds=.",
        )
    return found


def recommend_bounds(question: Call, planner: Planner, findings: Mapping[str, Any]) -> dict[str, str]:
    """Return advice to find bounds first, if that would reduce the noise for data that fill a tenth of the bounds.

    That is where the noise, which follows from the bounds, is more than the error of sampling of such values.

    Parameters
    ----------
    question : Call
        The question.
    planner : Planner
        The planner that has planned its measurements.
    findings : mapping
        The findings of the mechanism's planner, with its relative error (relative to a sixth of the range).

    Returns
    -------
    dict
        One further finding, or none.
    """
    error, target = findings.get(RELATIVE, 0.0), question.target
    known = sorted(column.name for column in planner.numbers if column.beyond is None and not column.find)
    takes = "bounds" not in question.mechanism.signature.parameters and not target.table.parts
    noisy = isinstance(error, str) or error > _TENTH / math.sqrt(max(planner.supposed_size[0], 1))
    search = registry().mechanisms.get("find_bounds")
    if not (planner.scaled and known and takes and noisy) or search is None or search.planner is None:
        return {}
    arguments = search.resolve(target.table.schema, {"columns": known})
    looking = Planner(target.table, PlanPayer(target, question.spending[0] * PART, Fraction(0)))
    looking.planned = search.measure(looking, arguments)
    if search.planner(looking, **arguments).get(RELATIVE, math.inf) > _SEEN:
        return {}
    left = f"reduces the noise to {_TENTH / float(1 - PART):.0%} of that with the declared bounds"
    return {'bounds="find"': f"{left}, if the values fill a tenth of them"}
