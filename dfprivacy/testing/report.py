"""Audits from the command line: of many mechanisms, with a bar, a table and JSON."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any
from unittest import mock

from dfprivacy._plugins.loader import registry
from dfprivacy.errors import ArgumentError
from dfprivacy.testing.conformance import CHECKS, Outcome, check_mechanism

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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


def run(names: Sequence[str] = (), samples: int | None = None, processes: int = 1) -> list[Outcome]:
    """Audit mechanisms.

    Parameters
    ----------
    names : sequence of str
        Their names; all that are registered if empty.
    samples : int, optional
        Outputs on each side of a sampling audit.
    processes : int, default 1
        Processes that share the cases. Mechanisms that are registered in this process alone are audited in it.

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
    cases = [checks[at : at + len(CHECKS)] for at in range(0, len(checks), len(CHECKS))]
    shared = {at: place for at, place in enumerate(_places(cases)) if place[0] in _installed()}
    outcomes: dict[int, list[Outcome]] = {}
    with tqdm(total=len(cases), unit=" cases", leave=False, disable=not sys.stderr.isatty()) as bar:
        for at, done in _shared(shared, samples, processes) if processes > 1 and len(shared) > 1 else ():
            outcomes[at] = done
            bar.update()
        for at, case in enumerate(cases):
            if at not in outcomes:
                bar.set_description(str(case[0].audit.mechanism.name))
                outcomes[at] = [check.run() for check in case]
                bar.update()
    return [outcome for at in range(len(cases)) for outcome in outcomes[at]]


_Place = tuple[str, int]  # a mechanism by name, and which of its cases


def _places(cases: Sequence[Sequence[Check]]) -> Iterator[_Place]:
    seen: Counter[str] = Counter()
    for first, *_ in cases:
        name = first.audit.mechanism.name
        yield name, seen[name] % len(first.audit.others)
        seen[name] += 1


def _installed() -> set[str]:
    """Name the mechanisms that another process finds as well."""
    return {name for plugin in registry().plugins if plugin.distribution for name in plugin.mechanisms}


def _shared(
    cases: Mapping[int, _Place], samples: int | None, processes: int
) -> Iterator[tuple[int, list[Outcome]]]:
    """Audit cases in other processes, started anew, each with one thread for its arithmetic."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    with (
        mock.patch.dict(os.environ, dict.fromkeys(threads, "1")),
        ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool,
    ):
        tasks = {pool.submit(_audited, place, samples): at for at, place in cases.items()}
        for done in as_completed(tasks):
            yield tasks[done], done.result()


def _audited(place: _Place, samples: int | None) -> list[Outcome]:
    """Run all checks of one case."""
    name, at = place
    return [check.run() for check in all_checks([name], samples)[at * len(CHECKS) : (at + 1) * len(CHECKS)]]


def as_table(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Write outcomes for people: a line for each case, and what is wrong.

    Parameters
    ----------
    outcomes : sequence of Outcome
        What `run` returned.
    seconds : float
        How long that took; a case has the time of its process.

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
