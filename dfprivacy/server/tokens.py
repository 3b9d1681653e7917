"""Access tokens of analysts and custodians: shown once, stored in the ledger as digests, and revoked there."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dfprivacy._ledger.names import checked_analyst, checked_name
from dfprivacy.errors import ArgumentError, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy._ledger.ledger import Ledger

__all__ = [
    "Role",
    "TokenHolder",
    "add_identity",
    "holder_named",
    "holder_of",
    "make_token",
    "revoke_tokens",
    "token_holders",
]

Role = Literal["analyst", "custodian"]
_BYTES = 32  # of chance


@dataclass(frozen=True)
class TokenHolder:
    """Analyst or custodian who has an access token, with the token's last day and tables.

    Attributes
    ----------
    name : str
        The analyst's, or the custodian's.
    role : {"analyst", "custodian"}
        A custodian sees who asked what, and approves; an analyst asks.
    expires : str
        The last day, as ISO 8601; empty where there is none.
    tables : sequence of str, or None
        The tables that an analyst may ask; None for all.
    oidc : bool
        Whether the identity provider says who it is, and there is no token of ours.
    revoked : bool
        Whether it counts no longer.
    """

    name: str
    role: Role
    expires: str = ""
    tables: Sequence[str] | None = None
    oidc: bool = False
    revoked: bool = False

    def is_valid_on(self, day: dt.date) -> bool:
        """Return whether the token is valid on a day: neither revoked nor expired."""
        return not self.revoked and (not self.expires or day <= dt.date.fromisoformat(self.expires))

    def may_ask(self, table: str) -> bool:
        """Return whether the analyst may ask questions of a table."""
        return self.tables is None or table in self.tables


def make_token(
    ledger: Ledger,
    name: str,
    *,
    role: Role = "analyst",
    expires: str | None = None,
    tables: Sequence[str] | None = None,
) -> str:
    """Make a token, store its digest in the ledger, and return it; it cannot be shown again.

    Raises
    ------
    ArgumentError
        If the name, the day or the name of a table cannot be used.
    """
    token = secrets.token_urlsafe(_BYTES)
    _record_holder(ledger, _digest(token), name, expires, tables, role=role)
    return token


def add_identity(
    ledger: Ledger, name: str, *, expires: str | None = None, tables: Sequence[str] | None = None
) -> None:
    """Add an analyst by the name that the identity provider uses; raise the errors of `make_token`."""
    digest = secrets.token_hex(_BYTES)  # of no token that anybody could find
    ledger.record("oidc", _record_holder(ledger, digest, name, expires, tables, oidc=True), digest)


def _record_holder(
    ledger: Ledger, digest: str, name: str, expires: str | None, tables: Sequence[str] | None, **more: Any
) -> str:
    """Record a token's holder, last day and tables in the ledger, by the token's digest; return the name."""
    name = checked_analyst(name)
    try:
        until = "" if expires is None else dt.date.fromisoformat(expires).isoformat()
    except ValueError:
        raise ArgumentError(f"expires{quoted(expires)} is not a date.", "For example 2027-01-01.") from None
    said = {"name": name, "role": "analyst", "expires": until, **more}
    said |= {} if tables is None else {"tables": [checked_name("A table's name", each) for each in tables]}
    ledger.record("token", digest, json.dumps(said))
    return name


def holder_of(ledger: Ledger, token: str) -> TokenHolder | None:
    """Return the holder of a token; None if it is unknown, revoked or expired.

    It is looked up by its digest: how long that takes follows from the digest, of which nobody can choose a part.
    """
    return _holder(ledger, _digest(token))


def holder_named(ledger: Ledger, name: str) -> TokenHolder | None:
    """Return the analyst whose name at the identity provider is given; None if unknown, revoked or expired."""
    added = (each.value for each in ledger.records_about(name) if each.event == "oidc")
    return next(filter(None, (_holder(ledger, digest) for digest in added)), None)


def _holder(ledger: Ledger, digest: str) -> TokenHolder | None:
    made = ledger.records_about(digest)
    given = next((each for each in made if each.event == "token"), None)
    if given is None:
        return None
    holder = TokenHolder(**json.loads(given.value), revoked=any(each.event == "revoked" for each in made))
    return holder if holder.is_valid_on(dt.datetime.now(dt.UTC).date()) else None


def revoke_tokens(ledger: Ledger, name: str) -> int:
    """Revoke all tokens of a holder's name with immediate effect; return how many were revoked."""
    some = [digest for digest, holder in token_holders(ledger) if holder.name == name and not holder.revoked]
    for digest in some:
        ledger.record("revoked", digest, name)
    return len(some)


def token_holders(ledger: Ledger) -> list[tuple[str, TokenHolder]]:
    """Return the digest and the holder of every token, oldest first."""
    records = ledger.records()
    revoked = {each.subject for each in records if each.event == "revoked"}
    return [
        (each.subject, TokenHolder(**json.loads(each.value), revoked=each.subject in revoked))
        for each in records
        if each.event == "token"
    ]


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()
