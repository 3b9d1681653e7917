"""Analysts, and the part of a data set's budget that each has.

A share is a filter of its own beside that of the account: the same sums, with smaller caps, of the charges of one
analyst. A charge has to fit into both, and both are written in one transaction. Shares are given once, as budgets
are, and who has none of an account that has shares cannot ask.

Names are taken at their word, from the environment or the system: a share keeps colleagues in order. It binds those
who cannot write the ledger, for whom a custodian asks.
"""

from __future__ import annotations

import getpass
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from dfprivacy._ledger import statements
from dfprivacy._ledger.names import has_invisible, name_key
from dfprivacy._ledger.records import charged, covers, read_accountant, read_spent, read_text
from dfprivacy._ledger.tables import NAME_LENGTH, tables
from dfprivacy._privacy.filters import Accountant, Accounting, Spent
from dfprivacy._privacy.losses import loss_from_dict
from dfprivacy.errors import AccountMismatch, ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from sqlalchemy import Connection, Row

    from dfprivacy._ledger.accounts import Account

__all__ = ["Share", "checked_name", "give", "less_than_charged", "note", "share_of", "shares", "spend", "who_asks"]

VARIABLE = "DFPRIVACY_ANALYST"


@dataclass(frozen=True)
class Share:
    """The part of an account that one analyst may spend, and has spent."""

    id: int
    analyst: str
    accountant: Accountant
    spent: Spent

    @property
    def epsilon(self) -> Fraction:
        """The whole of it."""
        return self.accountant.epsilon


def who_asks() -> str:
    """Return who asks: whom ``DFPRIVACY_ANALYST`` names, or else the operating system's user."""
    if named := os.environ.get(VARIABLE, "").strip():
        return checked_name(named)
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name, as in some containers
        return "unknown"


def checked_name(name: object) -> str:
    """Return an analyst's name, or raise an `ArgumentError`."""
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_LENGTH or has_invisible(name):
        raise ArgumentError(
            "The analyst's name is not a short line of text.", f"Use 1 to {NAME_LENGTH} printable characters."
        )
    return name.strip()


def shares(connection: Connection, account: Account) -> dict[str, Share]:
    """Read the shares of an account, by the key of the analyst's name; none where no ledger keeps them."""
    if not account.ledger.keeps_analysts:
        return {}
    rows = connection.execute(statements.of("shares"), {"account": account.name})
    with account.ledger.decoding():
        return {name_key(share.analyst): share for share in map(_read, rows)}


def share_of(connection: Connection, account: Account, analyst: str) -> tuple[Share | None, bool]:
    """Return the share of an analyst, and whether he may ask at all."""
    known = shares(connection, account)
    share = known.get(name_key(analyst))
    return share, share is not None or not known


def give(connection: Connection, account: Account, wanted: Mapping[str, Fraction], at: str) -> None:
    """Add analysts with their shares; those that they have must be the same.

    Who has asked before has spent what that was charged. Called in a transaction that may write, and in which
    nobody else can charge the account.
    """
    known = shares(connection, account)
    for analyst, epsilon in wanted.items():
        share = known.get(name_key(analyst))
        if share is not None and (share.analyst, share.epsilon) != (analyst, epsilon):
            raise AccountMismatch(
                f"Of the data set {account.name!r}, {share.analyst!r} has a share of epsilon = {share.epsilon}, "
                f"not {analyst!r} one of {epsilon}.",
                "Use the share that was given first.",
            )
        if share is not None:
            continue
        if epsilon > account.epsilon:
            raise ArgumentError(
                f"The share of {analyst!r}, epsilon = {epsilon}, is more than the budget of {account.name!r}, "
                f"{account.epsilon}.",
                "Give at most all of it.",
            )
        delta = account.delta * epsilon / account.epsilon
        accountant = Accountant.open(cast("Accounting", account.accounting), epsilon, delta)
        connection.execute(
            statements.add("shares"),
            {
                "account": account.name,
                "analyst": analyst,
                "opened": at,
                "accountant": json.dumps(accountant.to_dict()),
                "spent": json.dumps(_charged(connection, account, accountant, analyst).to_list()),
            },
        )


def spend(connection: Connection, share: Share, spent: Spent) -> None:
    """Write down what is spent of a share."""
    connection.execute(statements.set_spent("shares"), {"whose": share.id, "spent": json.dumps(spent.to_list())})


def note(connection: Connection, accounts: Sequence[Account], event: Mapping[str, str], asker: Account) -> None:
    """Write down who makes a call, and for which request, once for each account."""
    for account in accounts:
        row = {"account": account.name, "analyst": asker.asker, "request": asker.request or None}
        connection.execute(statements.add_asker(), {**event, **row})


def less_than_charged(connection: Connection, account: Account, most: int | None) -> list[str]:
    """Name the analysts of whose share less was spent than they were charged, in so many of the newest charges."""
    short = []
    for share in shares(connection, account).values():
        least = _charged(connection, account, share.accountant, share.analyst, most)
        if not covers(_of(connection, share, account), least):  # read after the charges: it can only be more
            short.append(share.analyst)
    return short


def _of(connection: Connection, share: Share, account: Account) -> Spent:
    table = tables().shares
    row = connection.execute(table.select().where(table.c.id == share.id)).one()
    with account.ledger.decoding():
        return _read(row).spent


def _charged(
    connection: Connection, account: Account, accountant: Accountant, analyst: str, most: int | None = None
) -> Spent:
    """Add up what an analyst was charged, in so many of the newest charges."""
    rows = connection.execute(statements.newest_charges(most), {"account": account.name}).all()
    asked, calls = statements.of("askers"), [*{row.call for row in rows}]
    asked = asked if most is None else asked.where(asked.selected_columns.call.in_(calls))
    own = {
        row.call
        for row in connection.execute(asked, {"account": account.name})
        if name_key(row.analyst) == name_key(analyst)
    }
    with account.ledger.decoding():
        losses = [(loss_from_dict(json.loads(row.loss)), 1) for row in rows if row.call in own]
        return charged(accountant, accountant.nothing, losses)


def _read(row: Row[Any]) -> Share:
    accountant = read_accountant(row.accountant)
    return Share(row.id, read_text(row.analyst), accountant, read_spent(row.spent, accountant))
