"""The command ``dfprivacy audit``, which audits many mechanisms and reports a table and JSON."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dfprivacy._visible import visible
from dfprivacy.progress import progress

if TYPE_CHECKING:
    import argparse
    from typing import Any

__all__ = ["add"]


def add(commands: Any) -> None:
    """Add the subcommand ``audit`` to the command line."""
    audit = commands.add_parser("audit", help="check that mechanisms keep their privacy guarantees")
    audit.add_argument("name", nargs="*", help="names of methods to audit; default: all installed methods")
    audit.add_argument("--output", help="also write every outcome to this file, as JSON")
    audit.add_argument(
        "--samples",
        type=int,
        help="number of outputs that a sampling audit draws for each of two tables; default: 30000",
    )
    audit.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from dfprivacy_audit import report  # slow to import, and the help names the command

    start = time.perf_counter()
    checks, outcomes = report.all_checks(options.name, options.samples), []
    with progress(len(checks), "checking", " checks") as bar:
        for check in checks:
            outcomes.append(check.run())
            bar.update()
    table = report.as_table(outcomes, time.perf_counter() - start)
    sys.stdout.write(visible(table, lines=True) + "\n")
    if options.output:
        Path(options.output).write_text(report.as_json(outcomes) + "\n", encoding="utf-8")
    return int(any(outcome.status == "failed" for outcome in outcomes))
