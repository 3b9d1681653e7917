"""Command line: ``dfprivacy demo | plugins | stubs | schema | ledger | answer``, and commands of plugins."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from dfprivacy._call.requests import key_fingerprint, read_key, write_new_file
from dfprivacy._ledger.backup import backup_ledger, forget_ledger, restore_ledger
from dfprivacy._ledger.budget import PAGE, Budget, calls_as_csv, ledger_as_dict, questions_grid
from dfprivacy._ledger.calls import CallSelection
from dfprivacy._ledger.ledger import Ledger, ledger_file, open_ledger
from dfprivacy._plugins.loader import registry
from dfprivacy._plugins.stubs import write_stub
from dfprivacy._table.frames.files import declared_columns, open_table
from dfprivacy._visible import visible
from dfprivacy.errors import ArgumentError, DPError, LedgerError
from dfprivacy.protection import protect
from dfprivacy.request import ReceivedRequest
from dfprivacy.schema.files import skeleton
from dfprivacy.server.cli import add_commands

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from dfprivacy._ledger.accounts import Account
    from dfprivacy._ledger.calls import CallRecord

__all__ = ["main"]

_COMMANDS = "dfprivacy.commands"  # the group of entry points
_WIDE = 1000  # characters of a line: questions are shown in full
_RECORDS = {
    "found": "opened without a record of the ledger's last state, so an older copy would not be noticed",
    "forgotten": "the custodian had the ledger forgotten",
    "restored": "restored from a backup of the ledger",
    "key": "key",
    "token": "token",
    "revoked": "revoked token",
    "asked": "waits for approval",
    "approved": "approved by",
    "refused": "refused",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line ``dfprivacy``.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments after ``dfprivacy``; default: the arguments of the process.

    Returns
    -------
    int
        Exit status: 0, or 1 after an error, or if an audit or a check of the ledger found a problem.
    """
    words = sys.argv[1:] if arguments is None else arguments
    options = _make_parser(words).parse_args(words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # bars and Greek letters must not fail on an old terminal
            stream.reconfigure(errors="replace")
    try:
        return options.run(options) or 0
    except DPError as error:
        _print_escaped(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _make_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dfprivacy", description="Differential privacy on any dataframe.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="protect a real survey and ask it questions until the budget is spent")
    demo.add_argument("--ledger", help="keep the account in this ledger instead of in a temporary file")
    demo.add_argument("--picture", help="write the picture to this file instead of to a temporary folder")
    demo.set_defaults(run=_run_demo)

    plugins = commands.add_parser("plugins", help="list the plugins, their methods, and plugins that were left out")
    plugins.add_argument("--json", action="store_true", help="as JSON")
    plugins.set_defaults(run=_run_plugins)

    stubs = commands.add_parser(
        "stubs", help="write the signatures of the methods of all plugins for editors and type checkers"
    )
    stubs.add_argument("--output", help="put a partial stub package into this folder instead of printing the text")
    stubs.set_defaults(run=_run_stubs)

    schema = commands.add_parser("schema", help="write a schema file to fill in, from a table's names and types")
    schema.add_argument("action", choices=["init"], metavar="init", help="write a new schema file")
    schema.add_argument("data", help="a table, in .parquet, .arrow or .csv; its values are not read")
    schema.add_argument("--output", help="write the schema to this new file instead of printing it")
    schema.set_defaults(run=_run_schema)

    ledger = commands.add_parser("ledger", help="list the accounts, what they have spent and what is left")
    ledger.add_argument(
        "account",
        nargs="*",
        metavar="ACCOUNT | backup TARGET | restore SOURCE | forget PATH | key ANALYST KEYFILE",
        help="show the charges of an account; copy the ledger to a new file; restore such a copy, which never "
        "lowers the spent budget; forget a ledger that was deleted on purpose; record the analyst of a key",
    )
    ledger.add_argument("--ledger", help="a SQLite file or database URL; default: DFPRIVACY_LEDGER, or the user's")
    ledger.add_argument("--method", help="questions of this method only")
    ledger.add_argument("--analyst", help="questions of this analyst only")
    ledger.add_argument("--since", help="questions since this day or time only, such as 2026-01-31")
    ledger.add_argument("--until", help="questions until this day (included) or time only")
    ledger.add_argument("--json", action="store_true", help="as JSON")
    ledger.add_argument("--csv", action="store_true", help="the questions as CSV")
    ledger.set_defaults(run=_run_ledger, usage=ledger.error)

    answer = commands.add_parser("answer", help="show the questions of a request to a custodian, and answer them")
    answer.add_argument("request", help="the request file that an analyst wrote")
    answer.add_argument("--data", required=True, help="the table, in .parquet, .arrow or .csv")
    answer.add_argument("--schema", required=True, help="its schema file")
    answer.add_argument(
        "--key", help="the file of the key that analyst and custodian share; default: DFPRIVACY_KEY"
    )
    answer.add_argument("--output", default="answers.json", help="the new file of answers; default: answers.json")
    answer.add_argument("--ledger", help="a SQLite file or database URL; default: DFPRIVACY_LEDGER, or the user's")
    answer.add_argument("--analyst", help="refuse the request if another analyst made it")
    answer.add_argument("--yes", action="store_true", help="answer all questions without confirmation")
    answer.set_defaults(run=_run_answer)

    add_commands(commands)

    if not words or words[0] not in commands.choices:  # of plugins, where one may be meant
        for command in entry_points(group=_COMMANDS):
            try:
                command.load()(commands)
            except Exception as error:  # noqa: BLE001 - of somebody else
                reason = f"{type(error).__name__}: {error}"
                _print_escaped(f"The command {command.name!r} was left out: {reason}", file=sys.stderr)
    return parser


def _run_demo(options: argparse.Namespace) -> None:
    from dfprivacy.demo import run

    picture = Path(options.picture or Path(tempfile.mkdtemp(prefix="dfprivacy-")) / "demo.png")
    if options.ledger:
        run(options.ledger, picture)
        return
    with tempfile.TemporaryDirectory() as folder:
        run(str(Path(folder) / "demo.sqlite"), picture)


def _run_plugins(options: argparse.Namespace) -> None:
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
        _print_escaped(json.dumps({"plugins": plugins, "problems": list(plugins_found.problems)}, indent=2))
        return
    for plugin in plugins_found.plugins:
        methods = ", ".join(plugin.mechanisms) or "no methods"
        _print_escaped(f"{plugin.name:<16} {plugin.distribution} {plugin.version}: {plugin.status}: {methods}")
    for problem in plugins_found.problems:
        _print_escaped(f"left out: {problem}")


def _run_stubs(options: argparse.Namespace) -> None:
    text = write_stub(registry().mechanisms.values())
    if options.output is None:
        _print_escaped(text, end="")
        return
    folder = Path(options.output) / "dfprivacy-stubs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "_bundled.pyi").write_text(text, encoding="utf-8")
    (folder / "py.typed").write_text("partial\n", encoding="utf-8")
    _print_escaped(f"{folder}: now has the methods of all plugins")


def _run_schema(options: argparse.Namespace) -> None:
    text = skeleton(declared_columns(options.data), Path(options.data).stem)
    if options.output is None:
        _print_escaped(text, end="")
        return
    write_new_file(options.output, text)
    _print_escaped(f"{options.output}: a schema file; fill in the public facts about the table")


def _run_ledger(options: argparse.Namespace) -> int:
    match options.account:
        case []:
            return _print_accounts(options, None)
        case [account]:
            return _print_accounts(options, account)
        case ["backup", target]:
            _print_escaped(
                f"{backup_ledger(_open_existing_ledger(options), target)}: a copy of the ledger, complete until now"
            )
        case ["restore", source]:
            _print_escaped(f"{restore_ledger(source, ledger_file(options.ledger))}: restored")
        case ["forget", path]:
            known = forget_ledger(path)
            outcome = "forgotten; a new ledger at this path has new budgets, and a record of what was forgotten"
            _print_escaped(f"{path}: {outcome if known else 'no charge of this ledger is known'}")
        case ["key", analyst, path]:
            open_ledger(options.ledger).add_key(key_fingerprint(read_key(path)), analyst)
            _print_escaped(f"{path}: requests signed with this key are requests of {analyst}")
        case words:
            options.usage(f"{' '.join(words)!r} is neither the name of an account nor a command")
    return 0


def _open_existing_ledger(options: argparse.Namespace) -> Ledger:
    if options.ledger and "://" not in options.ledger and not Path(options.ledger).is_file():
        raise LedgerError(f"The ledger {options.ledger!r} does not exist.", "Check the path.")
    return open_ledger(options.ledger)


def _print_accounts(options: argparse.Namespace, name: str | None) -> int:
    ledger = _open_existing_ledger(options)
    accounts = ledger.accounts() if name is None else [ledger.account(name)]
    given = {each: getattr(options, each) for each in ("method", "analyst", "since", "until")}
    wanted, shown = CallSelection(**given), name is not None or any(given.values())
    every = options.csv or options.json
    calls = {
        account: account.calls(wanted, None if every else PAGE) if every or shown else [] for account in accounts
    }
    problems = ledger.problems()
    if options.csv:
        sys.stdout.write(calls_as_csv(calls))
    elif options.json:
        _print_escaped(json.dumps(ledger_as_dict(ledger, calls, problems), indent=2))
    else:
        _print_escaped(f"{ledger.where}: {len(accounts)} account{'' if len(accounts) == 1 else 's'}")
        for account in accounts:
            _print_account(account, calls[account])
        for each in [] if name else ledger.records()[1:]:  # the first says when it was made
            _print_escaped(
                f"\n{each.at:%Y-%m-%d %H:%M}  {_RECORDS.get(each.event, each.event)} {each.subject}: {each.value}"
            )
        for problem in problems:
            _print_escaped(f"\nproblem: {problem}")
    return int(bool(problems))


def _print_account(account: Account, calls: Sequence[CallRecord]) -> None:
    charges, answers = (account.count(kind, CallSelection()) for kind in ("charges", "answers"))
    _print_escaped(f"\n{account.name}: {charges:,} charges, {answers:,} answers")
    _print_escaped(f"  {Budget(account)}")
    for share in account.shares():
        _print_escaped(
            f"  share of {share.analyst}: epsilon {float(share.epsilon):g}; {float(share.remaining):g} left"
        )
    if len(calls) == PAGE:
        _print_escaped(f"  the last {PAGE} questions; --json and --csv have all:")
    for line in questions_grid(calls, account.ledger).lines(_WIDE) if calls else ():
        _print_escaped(f"  {line}")


def _print_escaped(*texts: object, end: str = "\n", file: TextIO | None = None) -> None:
    """Print texts with their hidden characters escaped."""
    print(*(visible(text, lines=True) for text in texts), end=end, file=file)


def _run_answer(options: argparse.Namespace) -> int:
    key = read_key(options.key)
    received = ReceivedRequest.read(options.request, options.schema, key)
    analyst = received.signer(open_ledger(options.ledger))
    if options.analyst is not None and analyst != options.analyst:
        raise ArgumentError(
            f"The request was made by {analyst!r}, not by {options.analyst!r}.", "Check who sent it."
        )
    _refuse_output(options.output)
    view = protect(open_table(options.data), received.data_set, schema=options.schema, ledger=options.ledger)
    pending = received.pending(view)
    due = float(sum(each.due for each in pending))
    _print_escaped(f"{analyst} asks {len(pending)} questions of {received.data_set!r}, for epsilon {due:g} in all")
    _print_escaped(view.budget)
    items = []
    for each in pending:
        _print_escaped(f"\n{each.wanted}\n{'answered before, at no charge' if each.kept else each.explanation}")
        answered = options.yes or _ask_to_confirm("answer it? [y/n] ")
        items.append(each.ask() if answered else each.refused())
        _print_escaped("  refused: " + items[-1]["refused"] if "refused" in items[-1] else "  answered")
    write_new_file(options.output, received.signed_answers(items, key))
    _print_escaped(
        f"\n{options.output}: {sum('release' in item for item in items)} of {len(items)} questions answered"
    )
    _print_escaped(view.budget)
    return 0


def _refuse_output(path: str) -> None:
    """Raise an error if the file of answers exists or cannot be written; called before anything is charged."""
    if Path(path).exists():
        raise ArgumentError(f"The file {path} exists.", "Name a new file with --output.")
    if not os.access(Path(path).absolute().parent, os.W_OK):
        raise ArgumentError(f"The file {path} cannot be written.", "Name another file with --output.")


def _ask_to_confirm(question: str) -> bool:
    try:
        return input(question).strip().lower() in {"y", "yes"}
    except EOFError:  # nobody is there to ask
        _print_escaped()
        return False
