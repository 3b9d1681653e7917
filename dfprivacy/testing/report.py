"""Audits from the command line: of many mechanisms, with a bar, a table and JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from dfprivacy.errors import ArgumentError
from dfprivacy.plugins import registry
from dfprivacy.testing.conformance import CHECKS, Outcome, check_mechanism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy.testing.conformance import Check

__all__ = ["all_checks", "as_json", "as_table", "run"]

_MARKS = {"passed": "passed", "failed": "FAILED", "skipped": "skipped", "expected": "expected"}


def all_checks(names: Sequence[str] = (), samples: int | None = None) -> list[Check]:
    """Give the checks of mechanisms by name, of all that are registered if none is named."""
    known = registry().mechanisms
    for name in names:
        if name not in known:
            raise ArgumentError(f"There is no method {name!r}.", f"The methods are {sorted(known)!r}.")
    terms: dict[str, Any] = {} if samples is None else {"samples": samples}
    return [check for name in names or known for check in check_mechanism(known[name], **terms)]


def run(names: Sequence[str] = (), samples: int | None = None) -> list[Outcome]:
    """Audit mechanisms.

    Parameters
    ----------
    names : sequence of str
        Their names; all that are registered if empty.
    samples : int, optional
        Outputs on each side of a sampling audit.

    Returns
    -------
    list of Outcome
        One for each check of each case.

    Raises
    ------
    ArgumentError
        If a name is not registered, or a mechanism has no cases.
    """
    from tqdm.std import tqdm

    checks = all_checks(names, samples)
    outcomes = []
    with tqdm(checks, unit=" checks", leave=False, disable=not sys.stderr.isatty()) as bar:
        for check in bar:
            bar.set_description(f"{check.audit.mechanism.name}: {check.name}")
            outcomes.append(check.run())
    return outcomes


def as_table(outcomes: Sequence[Outcome]) -> str:
    """Write outcomes for people: a line for each case, and what is wrong.

    Parameters
    ----------
    outcomes : sequence of Outcome
        What `run` returned.

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
        found = f"; loss {loss.loss:.6g} of {loss.charge:.6g}" if loss else ""
        lines.append(f"{mechanism}({case}): {', '.join(counts)}{found}; {sum(o.seconds for o in mine):.1f} s")
        lines += [
            f"  {_MARKS[o.status]:<9} {o.check}: {o.detail}" for o in mine if o.status in {"failed", "expected"}
        ]
    failed = sum(outcome.status == "failed" for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    lines.append(f"{len(cases)} cases, {len(CHECKS)} checks each, {failed} failed; {seconds:.0f} s")
    return "\n".join(lines)


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Write outcomes for machines.

    Parameters
    ----------
    outcomes : sequence of Outcome
        What `run` returned.

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
