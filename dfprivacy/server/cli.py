"""Command-line interface of the server: ``dfprivacy serve`` and ``dfprivacy analysts``."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfprivacy._call.payment import positive_price
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._ledger.names import checked_analyst
from dfprivacy._visible import visible
from dfprivacy.demo import load_survey, protect_survey
from dfprivacy.errors import ArgumentError
from dfprivacy.markup import Grid
from dfprivacy.server.config import ServedTables, read_config
from dfprivacy.server.oidc import HERE
from dfprivacy.server.run import serve
from dfprivacy.server.tokens import Role, add_identity, make_token, revoke_tokens, token_holders

if TYPE_CHECKING:
    import argparse

    from dfprivacy._ledger.ledger import Ledger

__all__ = ["add_commands"]

_WIDE = 1000  # characters of a line


def add_commands(commands: Any) -> None:
    """Add the commands ``serve`` and ``analysts`` to the subparsers of the command line."""
    serving = commands.add_parser("serve", help="hold tables, and answer analysts who connect to them")
    serving.add_argument("config", nargs="?", help="the file that names the tables and the ledger")
    serving.add_argument(
        "--demo", action="store_true", help="serve the demo's survey, with tokens that are printed"
    )
    serving.add_argument("--host", default="127.0.0.1", help="where to listen; default: this machine alone")
    serving.add_argument("--port", type=int, default=8765, help="the port; default: 8765; 0 takes a free port")
    serving.add_argument("--certfile", help="the certificate for TLS; without one, a proxy in front must do TLS")
    serving.add_argument("--keyfile", help="its key")
    serving.set_defaults(run=_run_serve, usage=serving.error)

    analysts = commands.add_parser("analysts", help="make, list and revoke the tokens of those who ask a server")
    analysts.add_argument("action", choices=["add", "list", "revoke"], help="what to do")
    analysts.add_argument("name", nargs="?", help="the analyst's name")
    analysts.add_argument("--cap", help="the share of the account's budget that the analyst may spend, such as 0.5")
    analysts.add_argument(
        "--account", help="the account whose budget the analyst may spend a share of; default: the only account"
    )
    analysts.add_argument("--expires", help="the last day on which the token is valid, such as 2027-01-01")
    analysts.add_argument("--tables", help="the tables that the analyst may ask, such as visits,labs; default: all")
    analysts.add_argument(
        "--oidc", action="store_true", help="the name is the identity provider's, and no token is made"
    )
    analysts.add_argument(
        "--custodian", action="store_true", help="a token for the custodian's page, which lists the questions"
    )
    where = "a SQLite file or database URL; default: DFPRIVACY_LEDGER, or the user's"
    analysts.add_argument("--ledger", help=where)
    analysts.set_defaults(run=_run_analysts, usage=analysts.error)


def _run_serve(options: argparse.Namespace) -> None:
    if options.demo == bool(options.config):
        options.usage("name a configuration file, or pass --demo")
    if options.host not in HERE and not options.certfile:
        print(
            f"Warning: {visible(options.host)} can be reached from other machines, and there is no --certfile. "
            "Tokens and answers can be read on the network, unless a proxy in front of the server uses TLS.",
            file=sys.stderr,
        )
    about = options.host, options.port, options.certfile, options.keyfile
    if options.demo:
        _serve_demo(*about)
        return
    held = read_config(options.config)
    serve(held, lambda address: print(f"{address}: {', '.join(map(visible, held.views))}", flush=True), *about)


def _serve_demo(*about: Any) -> None:
    """Serve the demo's survey table with a temporary ledger, until the process is interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the ledger is thrown away
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "demo.sqlite")
        survey, ledger = protect_survey(load_survey(), file), open_ledger(file)
        analyst, custodian = make_token(ledger, "ana"), make_token(ledger, "custodian", role="custodian")

        def announce(address: str) -> None:
            lines = (
                f"The survey of the demo is served at {address} until you press Ctrl-C.",
                "",
                f"An analyst's token:    {analyst}",
                f"A custodian's token:   {custodian}",
                f"The custodian's page:  {address}/",
                "",
                "In Python:",
                "  import dfprivacy as dp",
                f'  view = dp.connect("{address}", token="{analyst}")',
                '  view.mean("age", epsilon=0.5)',
            )
            print("\n".join(lines), flush=True)

        try:
            serve(ServedTables({survey.name: survey}, ledger), announce, *about)
        finally:
            ledger.close()


def _run_analysts(options: argparse.Namespace) -> int:
    if (options.action == "list") != (options.name is None):
        options.usage("add NAME, list, or revoke NAME")
    of_add = options.cap, options.account, options.expires, options.tables, options.oidc, options.custodian
    if options.action != "add" and any(of_add):
        options.usage("--cap, --account, --expires, --tables, --oidc and --custodian can be used with add only")
    if options.custodian and (options.cap, options.tables, options.oidc) != (None, None, False):
        options.usage("--custodian cannot be used with --cap, --tables or --oidc, as a custodian asks no questions")
    ledger = open_ledger(options.ledger)
    if options.action == "list":
        rows = [
            (
                holder.name,
                holder.role,
                "all" if holder.tables is None else ", ".join(holder.tables),
                holder.expires or "never",
                "yes" if holder.revoked else "no",
                "oidc" if holder.oidc else digest[:8],
            )
            for digest, holder in token_holders(ledger)
        ]
        for line in (
            Grid(("name", "role", "tables", "expires", "revoked", "token"), rows).lines(_WIDE) if rows else ()
        ):
            print(line)
        return 0
    if options.action == "revoke":
        count = revoke_tokens(ledger, options.name)
        print(visible(f"{options.name}: {count} token{'' if count == 1 else 's'} revoked"))
        return int(not count)
    name = checked_analyst(options.name)
    if options.cap is not None:
        _give_share(ledger, name, options)
    tables = None if options.tables is None else [each.strip() for each in options.tables.split(",")]
    if options.oidc:
        add_identity(ledger, name, expires=options.expires, tables=tables)
        print(visible(f"{name} was added: the user of this name at the identity provider can ask questions."))
        return 0
    role: Role = "custodian" if options.custodian else "analyst"
    token = make_token(ledger, name, role=role, expires=options.expires, tables=tables)
    print(visible(f"The token of {name}, which is shown only once:"), token, sep="\n")
    return 0


def _give_share(ledger: Ledger, name: str, options: argparse.Namespace) -> None:
    """Assign to an analyst a share of an account's budget; the share cannot be changed later."""
    cap, accounts = positive_price("--cap", options.cap), ledger.accounts()
    if options.account is None and len(accounts) != 1:
        raise ArgumentError(
            f"The ledger {ledger.where} has {len(accounts)} accounts, and none was named.",
            "Name one: --account NAME. An account is opened when its table is first served.",
        )
    account = accounts[0] if options.account is None else ledger.account(options.account)
    if cap > account.epsilon:
        raise ArgumentError(
            f"--cap is more than the whole budget of {account.name!r}, epsilon = {float(account.epsilon):g}.",
            "Give a smaller share.",
        )
    account.give_shares({name: cap})
