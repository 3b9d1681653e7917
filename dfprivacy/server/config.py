"""Configuration file of a server: its tables, its ledger, its limits and its identity provider."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfprivacy._ledger.ledger import open_ledger
from dfprivacy._table.frames.files import open_database_table, open_table
from dfprivacy.errors import ArgumentError
from dfprivacy.protection import protect
from dfprivacy.schema.files import read_file
from dfprivacy.server.oidc import Issuer

if TYPE_CHECKING:
    import os

    from dfprivacy._ledger.ledger import Ledger
    from dfprivacy.view import PrivateFrame

__all__ = ["Limits", "ServedTables", "read_config"]


@dataclass(frozen=True)
class Limits:
    """Limits on the size, rate and number of an analyst's requests.

    Attributes
    ----------
    body : int
        Bytes of a request.
    per_minute : int
        Requests of one analyst in a minute.
    at_once : int
        Questions of one analyst that are worked on at once; others wait.
    workers : int
        Questions of all analysts that are worked on at once.
    waiting : int
        Questions of one analyst that wait for approval.
    """

    body: int = 1 << 20
    per_minute: int = 3000
    at_once: int = 2
    workers: int = 8
    waiting: int = 50


@dataclass(frozen=True)
class ServedTables:
    """Tables that a server holds, as views by name, with their ledger and the server's settings.

    Attributes
    ----------
    views : mapping of str to PrivateFrame
        The tables.
    ledger : Ledger
        Of all their accounts.
    approve : bool
        Whether a question that costs something waits until the custodian approves it.
    limits : Limits
        What is allowed.
    issuer : Issuer, optional
        An identity provider whose tokens say who asks.
    """

    views: Mapping[str, PrivateFrame]
    ledger: Ledger
    approve: bool = False
    limits: Limits = Limits()
    issuer: Issuer | None = None


def read_config(path: str | os.PathLike[str]) -> ServedTables:
    """Read a server's configuration file, and protect the tables that it names.

    Raises
    ------
    ArgumentError
        If it cannot be read, or says what no such file says.
    """
    file = Path(path)
    try:
        plain = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArgumentError(
            f"The file {file} cannot be read: {error}.", "Check its path, and that it is TOML: https://toml.io."
        ) from None
    tables, limits = plain.pop("tables", {}), plain.pop("limits", {})
    approve, where, oidc = plain.pop("approve", False), plain.pop("ledger", None), plain.pop("oidc", None)
    known = set(Limits.__dataclass_fields__)
    if plain or not isinstance(tables, dict) or not tables or not isinstance(limits, dict) or {*limits} - known:
        strange = next(iter([*plain, *({*limits} - known if isinstance(limits, dict) else ())]), "tables")
        raise ArgumentError(
            f"The file {file} has the unknown key {strange!r}, or a key with a value that cannot be used.",
            f"Write ledger, approve, [oidc], [limits] with {', '.join(sorted(known))}, and [tables.NAME] with "
            "data and schema.",
        )
    if not isinstance(approve, bool) or not all(type(each) is int and each > 0 for each in limits.values()):
        raise ArgumentError(
            f"In {file}, approve is not true or false, or a limit is not a positive integer.",
            "For example approve = true, and in [limits] per_minute = 60.",
        )
    issuer = None if oidc is None else _read_issuer(file, oidc)
    ledger = None if where is None else where if "://" in str(where) else str(file.parent / str(where))
    views = {name: _protected_view(file, name, said, ledger) for name, said in tables.items()}
    return ServedTables(views, open_ledger(ledger), approve, Limits(**limits), issuer)


def _read_issuer(file: Path, said: Any) -> Issuer:
    """Return the identity provider that the section [oidc] of the configuration file describes."""
    keys = {*said} if isinstance(said, Mapping) else set()
    if not {"issuer", "audience"} <= keys <= {"issuer", "audience", "claim"} or not all(
        isinstance(each, str) and each for each in said.values()
    ):
        raise ArgumentError(
            f"In {file}, the section [oidc] lacks issuer or audience, or has a key or value that cannot be used.",
            'Write issuer = "https://..." and audience = "..."; if analysts are not named by email, claim = "...".',
        )
    return Issuer(**said)


def _protected_view(file: Path, name: str, said: Any, ledger: str | None) -> PrivateFrame:
    """Protect a table that the configuration file names, and return its view."""
    keys = {*said} if isinstance(said, Mapping) else set()
    if not {"data", "schema"} <= keys <= {"data", "schema", "table"} or not all(
        isinstance(each, str) for each in said.values()
    ):
        raise ArgumentError(
            f"In {file}, [tables.{name}] lacks data or schema, or has a key or value that cannot be used.",
            "Write data = FILE and schema = FILE; for a database, data = FILE or ADDRESS, table = NAME and schema.",
        )
    schema = file.parent / said["schema"]
    terms = read_file(schema).terms
    called = terms.get("name", name)
    if called != name and "edition" not in terms:  # editions of one table are served under names of their own
        raise ArgumentError(
            f"The table is named {name!r} in {file}, and {called!r} in its schema file {schema}.",
            "Use the same name in both files.",
        )
    where = said["data"] if "://" in said["data"] else file.parent / said["data"]
    table = open_database_table(where, said["table"]) if "table" in said else open_table(where)
    return protect(table, called, schema=schema, ledger=ledger)
