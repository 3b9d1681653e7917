"""The command line: ``dfprivacy demo | plugins | stubs | ledger | audit``."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dfprivacy._ledger.backup import backup, forget, restore
from dfprivacy._ledger.budget import Budget, Releases
from dfprivacy._ledger.ledger import Ledger, ledger_file, open_ledger
from dfprivacy._plugins.loader import registry
from dfprivacy._plugins.stubs import stub
from dfprivacy.errors import DPError, LedgerError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``dfprivacy``; default: those of the process.

    Returns
    -------
    int
        0, or 1 after an error that was explained, or where an audit or a look at the ledger found something.
    """
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # bars and Greek letters must not fail on an old terminal
            stream.reconfigure(errors="replace")
    try:
        return options.run(options) or 0
    except DPError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dfprivacy", description="Differential privacy on any dataframe.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="protect a real survey and ask it questions until the budget is spent")
    demo.add_argument("--ledger", help="keep the account here instead of in a throwaway file")
    demo.set_defaults(run=_demo)

    plugins = commands.add_parser("plugins", help="list the plugins, their methods, and what was left out")
    plugins.add_argument("--json", action="store_true", help="as JSON")
    plugins.set_defaults(run=_plugins)

    stubs = commands.add_parser("stubs", help="write the methods of all plugins down for editors and type checkers")
    stubs.add_argument("--output", help="put a partial stub package into this folder instead of printing the text")
    stubs.set_defaults(run=_stubs)

    ledger = commands.add_parser("ledger", help="list the accounts, what they have spent and what is left")
    ledger.add_argument(
        "account",
        nargs="*",
        metavar="ACCOUNT | backup TARGET | restore SOURCE | forget PATH",
        help="show the entries of an account; copy the ledger to a new file; put such a copy back, which never "
        "lowers what was spent; forget a ledger file that was deleted on purpose",
    )
    ledger.add_argument("--ledger", help="a SQLite file or database URL; default: DFPRIVACY_LEDGER, or the user's")
    ledger.add_argument("--json", action="store_true", help="as JSON")
    ledger.set_defaults(run=_ledger, usage=ledger.error)

    audit = commands.add_parser("audit", help="check that mechanisms keep the privacy they promise")
    audit.add_argument("name", nargs="*", help="methods; default: all that are installed")
    audit.add_argument("--output", help="also write every outcome to this file, as JSON")
    audit.add_argument("--samples", type=int, help="outputs on each side of a sampling audit; default: 100000")
    audit.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        help="processes that share the cases; default: one for each core",
    )
    audit.set_defaults(run=_audit)
    return parser


def _demo(options: argparse.Namespace) -> None:
    from dfprivacy.demo import run

    if options.ledger:
        run(options.ledger)
        return
    with tempfile.TemporaryDirectory() as folder:
        run(str(Path(folder) / "demo.sqlite"))


def _plugins(options: argparse.Namespace) -> None:
    plugins_found = registry()
    if options.json:
        plugins = [
            {
                "name": plugin.name,
                "distribution": plugin.distribution,
                "version": plugin.version,
                "status": plugin.status,
                "methods": list(plugin.mechanisms),
                "seconds": round(plugin.seconds, 3),
                "problem": plugin.problem,
            }
            for plugin in plugins_found.plugins
        ]
        print(json.dumps({"plugins": plugins, "problems": list(plugins_found.problems)}, indent=2))
        return
    for plugin in plugins_found.plugins:
        methods = ", ".join(plugin.mechanisms) or "no methods"
        print(f"{plugin.name:<16} {plugin.distribution} {plugin.version}: {plugin.status}: {methods}")
    for problem in plugins_found.problems:
        print(f"left out: {problem}")


def _stubs(options: argparse.Namespace) -> None:
    text = stub(registry().mechanisms)
    if options.output is None:
        print(text, end="")
        return
    folder = Path(options.output) / "dfprivacy-stubs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "_bundled.pyi").write_text(text, encoding="utf-8")
    (folder / "py.typed").write_text("partial\n", encoding="utf-8")
    print(f"{folder}: the methods of all plugins")


def _ledger(options: argparse.Namespace) -> int:
    match options.account:
        case []:
            return _accounts(options, None)
        case [account]:
            return _accounts(options, account)
        case ["backup", target]:
            print(f"{backup(_existing(options), target)}: a copy of the ledger, complete until now")
        case ["restore", source]:
            print(f"{restore(source, ledger_file(options.ledger))}: restored")
        case ["forget", path]:
            known = forget(path)
            outcome = "forgotten; a ledger made there is a new budget" if known else "nothing was known of it"
            print(f"{path}: {outcome}")
        case words:
            options.usage(f"{' '.join(words)!r} is neither an account nor a command")
    return 0


def _existing(options: argparse.Namespace) -> Ledger:
    if options.ledger and "://" not in options.ledger and not Path(options.ledger).is_file():
        raise LedgerError(
            f"The ledger {options.ledger!r} does not exist.", "Check the path: looking does not make one."
        )
    return open_ledger(options.ledger)


def _accounts(options: argparse.Namespace, name: str | None) -> int:
    ledger = _existing(options)
    accounts = ledger.accounts() if name is None else [ledger.account(name)]
    problems = ledger.problems()
    if options.json:
        rows = [
            Budget(account).to_dict()
            | {
                "entries": [
                    {
                        "id": entry.id,
                        "at": entry.at.isoformat(timespec="seconds"),
                        "mechanism": entry.mechanism,
                        "epsilon": str(entry.epsilon),
                        "delta": str(entry.delta),
                        "loss": entry.loss.to_dict(),
                    }
                    for entry in account.entries()
                ]
            }
            for account in accounts
        ]
        print(json.dumps({"ledger": ledger.where, "accounts": rows, "problems": problems}, indent=2))
        return int(bool(problems))
    print(f"{ledger.where}: {len(accounts)} account{'' if len(accounts) == 1 else 's'}")
    for account in accounts:
        entries = account.entries()
        print(f"\n{account.name}: {len(entries)} charges, {len(Releases(account))} answers")
        print(f"  {Budget(account)}")
        for entry in entries if name else ():
            at = entry.at.isoformat(sep=" ", timespec="seconds")
            print(f"  {entry.id:>6}  {at}  {entry.mechanism:<12} epsilon {float(entry.epsilon):g}")
    for problem in problems:
        print(f"\nproblem: {problem}")
    return int(bool(problems))


def _audit(options: argparse.Namespace) -> int:
    from dfprivacy.testing import report

    start = time.perf_counter()
    outcomes = report.run(options.name, options.samples, options.processes)
    print(report.as_table(outcomes, time.perf_counter() - start))
    if options.output:
        Path(options.output).write_text(report.as_json(outcomes) + "\n", encoding="utf-8")
    return int(any(outcome.status == "failed" for outcome in outcomes))
