"""State that all requests to a server share: authentication, rate limits, tables and worker threads."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from dfprivacy._plugins.loader import registry
from dfprivacy.errors import ArgumentError
from dfprivacy.server.questions import UNREADABLE, OwnAccount, view_for, views_of
from dfprivacy.server.tokens import TokenHolder, holder_named, holder_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from dfprivacy._ledger.accounts import Account
    from dfprivacy.server.config import ServedTables
    from dfprivacy.view import PrivateFrame

__all__ = ["HTTPError", "SharedState"]


class HTTPError(Exception):
    """Error with an HTTP status, for a request that is refused before its content is used."""

    def __init__(self, status: int, what: str, hint: str) -> None:
        super().__init__(what)
        self.status, self.error = status, ArgumentError(what, hint)


@dataclass
class SharedState:
    """State that all requests share: the tables, and each analyst's recent requests and running tasks.

    Attributes
    ----------
    held : ServedTables
        The tables, the ledger and the limits.
    deciding : Lock
        Held while a custodian's approval or refusal of a question is carried out.
    """

    held: ServedTables
    deciding: threading.Lock = field(init=False, default_factory=threading.Lock)
    _workers: anyio.CapacityLimiter = field(init=False)
    _of_analyst: dict[str, anyio.CapacityLimiter] = field(init=False, default_factory=dict)
    _times: dict[str, list[float]] = field(init=False, default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._workers = anyio.CapacityLimiter(self.held.limits.workers)
        _ = registry().mechanisms  # all plugins are loaded before anybody asks

    # ---- who

    async def holder(self, request: Request) -> TokenHolder:
        """Return the analyst whose token a request has; raise an `HTTPError` for any other request."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        holder = None
        if scheme.lower() == "bearer" and token:
            holder = await to_thread.run_sync(self._holder_of_token, token.strip())
        if holder is None:
            raise HTTPError(401, "The token is unknown, expired or revoked.", "Ask the custodian for a new token.")
        if holder.role != "analyst":
            raise HTTPError(
                403,
                "This is a custodian's token, which opens the custodian's page and cannot ask questions.",
                "Add an analyst: dfprivacy analysts add.",
            )
        self._count(holder.name)
        return holder

    def _holder_of_token(self, token: str) -> TokenHolder | None:
        """Return the holder of a token made by this server or by the identity provider; None if it is not valid."""
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
            raise HTTPError(429, f"{len(times)} requests came within one minute.", "Wait a minute, and ask again.")
        times.append(now)

    # ---- what

    async def body(self, request: Request) -> Any:
        """Read a request's body, up to the limit, as plain JSON values."""
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > self.held.limits.body:
                raise HTTPError(
                    413,
                    f"The request is larger than {self.held.limits.body} bytes.",
                    "Send a smaller question, for example with fewer categories.",
                )
        try:
            return json.loads(content, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated)
        except UNREADABLE:
            raise HTTPError(
                400,
                "The request is not valid JSON.",
                "Use a client with the same version of dfprivacy as the server.",
            ) from None

    def view(self, name: str, holder: TokenHolder) -> PrivateFrame:
        """Return a table's view that charges an analyst; raise an `HTTPError` if the analyst may not ask it."""
        theirs = views_of(self.held, holder)
        if name not in theirs:
            raise HTTPError(404, "There is no such table.", f"Your tables are {[*theirs]!r}.")
        return view_for(theirs, name, holder.name)

    def account(self, name: str, holder: TokenHolder) -> Account:
        """Return a table's account; to an analyst limited to some tables it shows only that analyst's questions."""
        account = self.view(name, holder)._target.account  # noqa: SLF001 - a view of ours
        return account if holder.tables is None else OwnAccount(**vars(account), theirs=holder.tables)

    # ---- work

    async def work(self, holder: TokenHolder, task: Callable[[], Any]) -> Any:
        """Run a task for an analyst in a worker thread; wait while too many tasks are running."""
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
