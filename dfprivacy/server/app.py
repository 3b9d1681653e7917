"""The server's requests: who asks, what of, and how much at once; answers and errors as plain JSON values."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial, wraps
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Route

from dfprivacy._call.wire import PROTOCOL, answer_about_account, write_error
from dfprivacy._plugins.loader import registry
from dfprivacy._table.frames import redact_errors
from dfprivacy.errors import ArgumentError, AwaitingApproval, BudgetError, DPError, LedgerError, ReadError
from dfprivacy.server.page import page_routes
from dfprivacy.server.questions import UNREADABLE, OwnAccount, answer_question, view_for, views_of
from dfprivacy.server.tokens import Holder, holder_named, holder_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from dfprivacy._ledger.accounts import Account
    from dfprivacy.server.config import Held
    from dfprivacy.view import PrivateFrame

__all__ = ["Desk", "make_app"]

_log = logging.getLogger("dfprivacy.server")
_STATUS = {BudgetError: 402, LedgerError: 503, ReadError: 503}  # of other errors, 400


class _HTTPError(Exception):
    """A request that is refused before anybody reads what it asks."""

    def __init__(self, status: int, what: str, hint: str) -> None:
        super().__init__(what)
        self.status, self.error = status, ArgumentError(what, hint)


@dataclass
class Desk:
    """Shared state of all requests: the tables, and who is being served.

    Attributes
    ----------
    held : Held
        The tables, the ledger and the limits.
    deciding : Lock
        Held by whoever approves or refuses a question.
    """

    held: Held
    deciding: threading.Lock = field(init=False, default_factory=threading.Lock)
    _workers: anyio.CapacityLimiter = field(init=False)
    _of_analyst: dict[str, anyio.CapacityLimiter] = field(init=False, default_factory=dict)
    _times: dict[str, list[float]] = field(init=False, default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._workers = anyio.CapacityLimiter(self.held.limits.workers)
        _ = registry().mechanisms  # all plugins are loaded before anybody asks

    # ---- who

    async def holder(self, request: Request) -> Holder:
        """Return the analyst who asks, by the token; refuse everybody else, and who asks too often."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        holder = None
        if scheme.lower() == "bearer" and token:
            holder = await to_thread.run_sync(self._known, token.strip())
        if holder is None:
            raise _HTTPError(401, "The token is unknown, past its day, or revoked.", "Ask the custodian for one.")
        if holder.role != "analyst":
            raise _HTTPError(
                403,
                "A custodian's token is for the page, and asks nothing.",
                "Add an analyst: dfprivacy analysts add.",
            )
        self._count(holder.name)
        return holder

    def _known(self, token: str) -> Holder | None:
        """Return whose a token is, of ours or of the identity provider's, which has two dots."""
        issuer, ledger = self.held.issuer, self.held.ledger
        if issuer is None or token.count(".") != 2:  # noqa: PLR2004 - between the parts of a JWT
            return holder_of(ledger, token)
        name = issuer.analyst(token)
        return None if name is None else holder_named(ledger, name)

    def _count(self, name: str) -> None:
        now, times = time.monotonic(), self._times[name]
        while times and times[0] < now - 60:
            times.pop(0)
        if len(times) >= self.held.limits.per_minute:
            raise _HTTPError(429, f"{len(times)} requests came in a minute.", "Wait a minute, and ask again.")
        times.append(now)

    # ---- what

    async def body(self, request: Request) -> Any:
        """Read a request's body, up to the limit, as plain JSON values."""
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > self.held.limits.body:
                raise _HTTPError(413, f"A request has {self.held.limits.body} bytes at most.", "Ask for less.")
        try:
            return json.loads(content, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated)
        except UNREADABLE:
            raise _HTTPError(
                400, "The request is no JSON that can be read.", "Use this version's client."
            ) from None

    def view(self, name: str, holder: Holder) -> PrivateFrame:
        """Return the view of a table, for whom it charges."""
        theirs = views_of(self.held, holder)
        if name not in theirs:
            raise _HTTPError(404, "There is no such table.", f"There are {[*theirs]!r}.")
        return view_for(theirs, name, holder.name)

    def account(self, name: str, holder: Holder) -> Account:
        """Return a table's account: of one to whom not all tables are open, with what was asked by them alone."""
        account = self.view(name, holder)._target.account  # noqa: SLF001 - a view of ours
        return account if holder.tables is None else OwnAccount(**vars(account), theirs=holder.tables)

    # ---- work

    async def work(self, holder: Holder, task: Callable[[], Any]) -> Any:
        """Do work for an analyst in a thread, so much at once; others wait for their turn, and not for his."""
        own = self._of_analyst.setdefault(holder.name, anyio.CapacityLimiter(self.held.limits.at_once))
        async with own:
            return await to_thread.run_sync(task, limiter=self._workers)


def _refuse_constant(_: str) -> None:
    raise ValueError


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    once = dict(pairs)
    if len(once) < len(pairs):
        raise ValueError
    return once


def _answered(
    handle: Callable[[Request], Awaitable[Any]], ledger: str
) -> Callable[[Request], Awaitable[JSONResponse]]:
    """Decorate a handler: it answers in JSON, errors too, without a trace or the ledger's address."""

    def refused(error: DPError, status: int) -> tuple[dict[str, str], int]:
        return {key: text.replace(ledger, "of the server") for key, text in write_error(error).items()}, status

    @wraps(handle)
    async def respond(request: Request) -> JSONResponse:
        plain: Any
        try:
            plain, status = await handle(request), 200
        except _HTTPError as error:
            plain, status = refused(error.error, error.status)
        except AwaitingApproval as error:
            plain, status = refused(error, 409)
        except DPError as error:
            plain, status = refused(error, next((s for kind, s in _STATUS.items() if isinstance(error, kind)), 400))
            if isinstance(error, LedgerError):
                _log.error("%s", error)
        except ClientDisconnect:
            plain, status = {}, 400  # which nobody reads
        except Exception as error:  # noqa: BLE001 - its text may quote the data
            _log.error("a request failed with %s, whose text is withheld", type(error).__name__)
            failed = LedgerError("The server failed; the text is withheld.", "Ask its custodian.")
            plain, status = refused(failed.after("What was charged, if anything, stays charged."), 500)
        return JSONResponse(plain, status, headers={"Cache-Control": "no-store"})

    return respond


def make_app(held: Held) -> Starlette:
    """Return the server's application."""
    desk = Desk(held)
    answered = partial(_answered, ledger=held.ledger.where)

    @answered
    async def hello(request: Request) -> Any:
        await desk.holder(request)
        return {"dfprivacy": version("dfprivacy"), "protocol": PROTOCOL}

    @answered
    async def tables(request: Request) -> Any:
        return [{"name": name} for name in views_of(held, await desk.holder(request))]

    @answered
    async def table(request: Request) -> Any:
        holder = await desk.holder(request)
        return await desk.work(holder, lambda: describe_table(desk.view(request.path_params["name"], holder)))

    @answered
    async def ask(request: Request) -> Any:
        holder, plain = await desk.holder(request), await desk.body(request)
        view = desk.view(request.path_params["name"], holder)
        return {"release": await desk.work(holder, lambda: answer_question(held, holder, view, plain).to_dict())}

    @answered
    async def account(request: Request) -> Any:
        holder, plain = await desk.holder(request), await desk.body(request)
        paying = desk.account(request.path_params["name"], holder)

        def known() -> Any:
            try:
                return answer_about_account(paying, plain["asked"], plain["given"])
            except DPError:
                raise
            except UNREADABLE:
                raise ArgumentError(
                    "The request asks for nothing that is known.", "Use this version's client."
                ) from None

        return {"answer": await desk.work(holder, known)}

    @answered
    async def public(request: Request) -> Any:
        holder = await desk.holder(request)
        view = desk.view(request.path_params["name"], holder)
        return await desk.work(holder, lambda: public_columns(view))

    routes = [
        Route("/v1/hello", hello),
        Route("/v1/tables", tables),
        # A name may have slashes, which come decoded: what is asked of the table comes first.
        Route("/v1/table/{name:path}", table),
        Route("/v1/public/{name:path}", public),
        Route("/v1/ask/{name:path}", ask, methods=["POST"]),
        Route("/v1/account/{name:path}", account, methods=["POST"]),
        *page_routes(desk),
    ]
    return Starlette(routes=routes)


def public_columns(view: PrivateFrame) -> dict[str, list[Any]]:
    """Return the columns that are public by declaration, for plans; dates as text."""
    table = view._target.table  # noqa: SLF001 - a view of ours
    names = [name for name, column in table.schema.columns.items() if column.public and name in table.rows.columns]
    lists = redact_errors(lambda: table.rows.lists(names)) if names else {}
    return {name: [*map(_plain_value, values)] for name, values in lists.items()}


def _plain_value(value: Any) -> Any:
    """Return a public value as JSON has it: a missing number as null, and a date as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def describe_table(view: PrivateFrame) -> dict[str, Any]:
    """Return what a client needs to know of a table before it asks: its schema and its account's terms."""
    target = view._target  # noqa: SLF001 - a view of ours
    account, default = target.account, target.default_epsilon
    return {
        "schema": view.schema.to_toml(),
        "table": view.schema.table,
        "library": view.schema.library,
        "default_epsilon": None if default is None else str(default),
        "analyst": account.asker,
        "account": {
            "name": account.name,
            "epsilon": str(account.epsilon),
            "delta": str(account.delta),
            "accounting": account.accounting,
            "opened": account.opened.isoformat(),
            "accountant": account.accountant.to_dict(),
        },
    }
