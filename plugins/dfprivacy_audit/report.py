"""Reports of audits of many mechanisms, as a text table and as JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from dfprivacy._plugins.loader import registry
from dfprivacy.errors import ArgumentError
from dfprivacy_audit.conformance import CHECKS, check_mechanism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy_audit.conformance import Check, Outcome

__all__ = ["all_checks", "as_json", "as_table"]

_MARKS = {"passed": "passed", "failed": "FAILED", "skipped": "skipped", "expected": "expected"}


def all_checks(names: Sequence[str] = (), samples: int | None = None) -> list[Check]:
    """Return the checks of the named mechanisms, or of all registered mechanisms."""
    known = registry().mechanisms
    for name in names:
        if name not in known:
            raise ArgumentError(f"There is no method {name!r}.", f"The methods are {sorted(known)!r}.")
    terms: dict[str, Any] = {} if samples is None else {"samples": samples}
    return [check for name in names or known for check in check_mechanism(known[name], **terms)]


def as_table(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return the outcomes of checks as text, with a line for each case and a line for each failure.

    Parameters
    ----------
    outcomes : sequence of Outcome
        Of all checks.
    seconds : float
        How long that took.

    Returns
    -------
    str
        Lines of text.
    """
    lines = []
    cases = dict.fromkeys((outcome.mechanism, outcome.case) for outcome in outcomes)
    for mechanism, case in cases:
        mine = [outcome for outcome in outcomes if (outcome.mechanism, outcome.case) == (mechanism, case)]
        counts = [f"{sum(o.status == status for o in mine)} {mark}" for status, mark in _MARKS.items()]
        counts = [count for count in counts if not count.startswith("0 ")]
        loss = next((o for o in mine if o.loss is not None), None)
        largest = f"; loss {loss.loss:.6g} of {loss.charge:.6g}" if loss else ""
        lines.append(f"{mechanism}({case}): {', '.join(counts)}{largest}; {sum(o.seconds for o in mine):.1f} s")
        lines += [
            f"  {_MARKS[o.status]:<9} {o.check}: {o.detail}" for o in mine if o.status in {"failed", "expected"}
        ]
    failed = sum(outcome.status == "failed" for outcome in outcomes)
    lines.append(f"{len(cases)} cases, {len(CHECKS)} checks each, {failed} failed; {seconds:.0f} s")
    return "\n".join(lines)


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes of checks, and whether all passed, as a JSON text.

    Parameters
    ----------
    outcomes : sequence of Outcome
        Of all checks.

    Returns
    -------
    str
        JSON: whether all is well, and every outcome with its tightness. A loss that is infinite is null.
    """
    items = [dataclasses.asdict(outcome) | {"tightness": outcome.tightness} for outcome in outcomes]
    for item in items:
        for name in ("loss", "tightness"):
            if item[name] == float("inf"):
                item[name] = None
    return json.dumps({"passed": all(o.status != "failed" for o in outcomes), "outcomes": items}, indent=2)
