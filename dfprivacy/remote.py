"""Views of tables that a server holds: the server receives each question, answers it and returns the release."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from dfprivacy._call.payment import Target, positive_price
from dfprivacy._call.question import remember_question
from dfprivacy._call.wire import PROTOCOL, read_account_answer, read_error
from dfprivacy._json import read_release
from dfprivacy._ledger.accounts import Account
from dfprivacy._ledger.tables import read_accountant, read_spent, read_time
from dfprivacy._measure.evaluate import Table
from dfprivacy._table.frames import AbsentFrame
from dfprivacy.errors import ArgumentError, LedgerError, quoted, trimmed
from dfprivacy.progress import waiting
from dfprivacy.release import Release
from dfprivacy.request import plain_question, schema_of_file
from dfprivacy.schema.files import parse_schema
from dfprivacy.view import PrivateFrame

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dfprivacy._call.question import Question
    from dfprivacy._ledger.calls import CallRecord, CallSelection, KeptAnswer
    from dfprivacy._ledger.tables import DataTable, KeptMeasurement
    from dfprivacy._privacy.filters import Spent

__all__ = ["RemoteFrame", "connect"]

VARIABLE = "DFPRIVACY_TOKEN"
_HERE = {"localhost", "127.0.0.1", "::1"}
_LARGEST = 1 << 28  # bytes of an answer
_SECONDS = 600  # that a server may take for an answer


@trimmed
def connect(
    url: str, table: str | None = None, *, token: str | None = None, cafile: str | os.PathLike[str] | None = None
) -> RemoteFrame:
    """Return the private view of a table that a server holds.

    Parameters
    ----------
    url : str
        The server's address, ``"https://clinic.example"``. An address without TLS (``http://``) must be this
        machine, since others could read the token on the network.
    table : str, optional
        The table's name; default: the only one that the server has.
    token : str, optional
        The token that the custodian gave to the analyst; default: the environment variable ``DFPRIVACY_TOKEN``.
    cafile : str or path, optional
        The certificates that verify the server's certificate; default: those of the operating system.

    Returns
    -------
    RemoteFrame
        A view with all methods of a view of `protect`. The rows stay on the server.

    Raises
    ------
    ArgumentError
        If the address, the table or the token cannot be used.
    LedgerError
        If the server cannot be reached.

    Notes
    -----
    Arguments are checked here, before anything is sent. `explain`, `plan` and `power` are computed here, and ask
    the server only what it keeps. An answer whose connection broke is kept by the server: ask again, and it costs
    nothing.
    """
    server = ServerClient(url, token, cafile)
    server.check_version()
    known = server.get("tables")
    names = [str(each["name"]) for each in known]
    if table is None and len(names) == 1:
        (table,) = names
    if table not in names:
        which = f"no table {table!r}" if table is not None else f"{len(names)} tables"
        raise ArgumentError(
            f"The server has {which} for this token.", f"Name one of the tables {names!r}: connect(url, name)."
        )
    return server.view_of(str(table))


class ServerClient:
    """Client of a server: sends requests to its address, with the token of an analyst."""

    def __init__(self, url: object, token: str | None, cafile: str | os.PathLike[str] | None = None) -> None:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise ArgumentError(
                f"url{quoted(url)} is not an http or https address.", "For example https://clinic.example."
            )
        if parts.scheme == "http" and parts.hostname not in _HERE:
            raise ArgumentError(
                "Without TLS, others could read the token on the network.",
                "Use the server's address with https://.",
            )
        secret = token if token is not None else os.environ.get(VARIABLE, "")
        if not isinstance(secret, str) or not secret.strip().isascii() or not secret.strip().isprintable():
            raise ArgumentError(
                "The token is not a line of printable ASCII text.", "Pass the token as the custodian gave it."
            )
        if not secret.strip():
            raise ArgumentError("No token was given.", f"Pass token=, or set {VARIABLE}.")
        self.where = f"{parts.scheme}://{parts.netloc}"
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._tls = ssl.create_default_context(cafile=cafile) if parts.scheme == "https" else None
        self._headers = {"Authorization": f"Bearer {secret.strip()}", "Content-Type": "application/json"}

    # ---- what an account needs of its ledger

    keeps_measurements = keeps_analysts = True

    @contextmanager
    def reporting_damage(self) -> Iterator[None]:
        """Convert errors raised in the block by an answer that cannot be read to a `LedgerError`."""
        try:
            yield
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            if isinstance(error, ArgumentError):
                raise
            raise LedgerError(
                f"This version of dfprivacy cannot read the answer of the server {self.where}.",
                "Install the server's version of dfprivacy.",
            ) from error

    # ---- requests

    def get(self, *path: str) -> Any:
        """Send a GET request for a path, and return the JSON values of the answer."""
        return self._send("GET", path, None)

    def post(self, *path: str, body: Any) -> Any:
        """Send JSON values in a POST request to a path, and return the JSON values of the answer."""
        return self._send("POST", path, json.dumps(body, allow_nan=False).encode())

    def check_version(self) -> None:
        """Raise a `LedgerError` if the server uses another version of the protocol."""
        said = self.get("hello")
        if said.get("protocol") != PROTOCOL:
            raise LedgerError(
                f"The server has dfprivacy {str(said.get('dfprivacy'))[:20]}, and this is {version('dfprivacy')}.",
                "Install the server's version of dfprivacy.",
            )

    def view_of(self, name: str) -> RemoteFrame:
        """Return the view of a table of the server, by the table's name."""
        said = self.get("table", name)
        with self.reporting_damage():
            terms, default = said["account"], said["default_epsilon"]
            file = parse_schema(f"of {self.where}", said["schema"].encode())
            schema = replace(schema_of_file(file), table=said["table"], library=said["library"])
            account = RemoteAccount(
                name=str(terms["name"]),
                epsilon=Fraction(terms["epsilon"]),
                delta=Fraction(terms["delta"]),
                accounting=str(terms["accounting"]),
                neighbors=schema.neighbors,
                opened=read_time(terms["opened"]),
                accountant=read_accountant(json.dumps(terms["accountant"])),
                ledger=self,  # type: ignore[arg-type]  # as far as a client needs it
                analyst=str(said["analyst"]),
                table=name,
            )
            usual = None if default is None else positive_price("default_epsilon", default)
        frame = AbsentFrame(schema.names, schema.library, partial(self.get, "public", name))
        return RemoteFrame(Target(account, Table(frame, schema), usual, question_handler=account.ask))

    def _send(self, method: str, path: Sequence[str], body: bytes | None) -> Any:
        where = "/".join([self._path, "v1", *(quote(each, safe="") for each in path)])
        try:
            status, content = self._exchange(method, where, body)
        except (OSError, http.client.HTTPException) as error:
            raise LedgerError(
                f"The server {self.where} cannot be reached, or ended the connection: {type(error).__name__}.",
                "Ask again: an answer that the server has computed is kept there, and costs nothing.",
            ).after("The question may have been charged.") from None
        with self.reporting_damage():
            plain = json.loads(content) if content else {}
            if status >= 400:  # noqa: PLR2004 - errors of HTTP
                raise read_error(plain)
        return plain

    def _exchange(self, method: str, where: str, body: bytes | None) -> tuple[int, bytes]:
        """Send one HTTP request on a new connection, and return the status and the content of the answer."""
        kind = (
            http.client.HTTPConnection
            if self._tls is None
            else partial(http.client.HTTPSConnection, context=self._tls)
        )
        with closing(kind(self._host, self._port, timeout=_SECONDS)) as connection:
            connection.request(method, where, body, self._headers)
            answer = connection.getresponse()
            content = answer.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise http.client.HTTPException
        return answer.status, content

    def __reduce__(self) -> Any:
        raise TypeError("A connection, and its token, stay with their process: connect again.")


@dataclass(frozen=True)
class RemoteAccount(Account):
    """Account whose ledger is on a server; all facts about it are requested there, and the server charges it."""

    table: str = field(default="", repr=False)

    @property
    def _server(self) -> ServerClient:
        return self.ledger  # type: ignore[return-value]

    def ask(self, question: Question) -> Release:
        """Send a question to the server, and return its answer."""
        with waiting("waiting for the answer of the server"):
            plain = self._server.post("ask", self.table, body=plain_question(question).to_dict())
        with self._server.reporting_damage():
            release = read_release(Release, plain["release"])
        known = question.target.table.schema
        words = {name: each.of(name) for name, each in known.words.items()}
        units = {name: each.units for name, each in known.words.items() if each.units}
        release = release.with_library(known.library, words, units)
        if question.target.table.sample is None:
            remember_question(question, release)
        return release

    def _request_fact(self, what: str, *given: Any) -> Any:
        plain = self._server.post("account", self.table, body={"asked": what, "given": list(given)})
        with self._server.reporting_damage():
            return read_account_answer(what, plain["answer"])

    def spent(self) -> Spent:
        """Return the sums of the account's privacy filters after all charges so far."""
        return read_spent(json.dumps(self._request_fact("spent")), self.accountant)

    def total_charged(self) -> Fraction:
        """Return the sum of the epsilons that were charged."""
        return Fraction(self._request_fact("total_charged"))

    def largest(self, *kind: Any) -> Fraction:
        """Return the largest epsilon that one question of the analyst can have now."""
        return Fraction(self._request_fact("largest", *map(str, kind)))

    def tables(self) -> list[DataTable]:
        """Return the tables of the account, oldest first."""
        return list(self._request_fact("tables"))

    def shares(self) -> list[Any]:
        """Return an empty list, as a client does not receive the shares of analysts."""
        return []

    def measurements(self, keys: Sequence[str], *, private: bool) -> dict[tuple[str, str], list[KeptMeasurement]]:
        """Return kept measurements, by the digest of their description and their kind of noise."""
        return dict(self._request_fact("measurements", [*dict.fromkeys(keys)], private))

    def answer(self, *questions: str) -> KeptAnswer | None:
        """Return the newest answer to the first of several questions that has one, else None."""
        found: KeptAnswer | None = self._request_fact("answer", *questions)
        return found

    def newest_answers(self, wanted: CallSelection, most: int, skipped: int = 0) -> list[KeptAnswer]:
        """Return answers to the selected calls, newest first: at most `most`, after the first `skipped`."""
        return list(self._request_fact("newest_answers", _plain_selection(wanted), most, skipped))

    def newest_questions(self, wanted: CallSelection, most: int) -> list[str]:
        """Return the questions of the newest answers to the analyst."""
        return [each.question or "" for each in self.newest_answers(wanted, most)]

    def count(self, kind: str, wanted: CallSelection) -> int:
        """Return the number of charges, or of answers, of the selected calls."""
        return int(self._request_fact("count", kind, _plain_selection(wanted)))

    def calls(
        self, wanted: CallSelection, last: int | None = None, *, answered: bool = False, skipped: int = 0
    ) -> list[CallRecord]:
        """Return the selected calls, oldest first; at most the newest thousand."""
        if skipped:
            raise NotImplementedError
        return list(self._request_fact("calls", _plain_selection(wanted), last, answered))


def _plain_selection(wanted: CallSelection) -> Mapping[str, Any]:
    method = list(wanted.method) if isinstance(wanted.method, tuple) else wanted.method
    times = {
        name: None if each is None else str(each)
        for name, each in (("since", wanted.since), ("until", wanted.until))
    }
    return {"method": method, "analyst": wanted.analyst, **times}


class RemoteFrame(PrivateFrame):
    """View of a table on a server, returned by `connect`: a `PrivateFrame` without rows."""
