"""The server's HTTP application: its routes, and answers and errors as JSON."""

from __future__ import annotations

import logging
import math
from functools import partial, wraps
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Route

from dfprivacy._call.wire import PROTOCOL, answer_about_account, write_error
from dfprivacy._table.frames import redact_errors
from dfprivacy.errors import ArgumentError, AwaitingApproval, BudgetError, DPError, LedgerError, ReadError
from dfprivacy.server.desk import HTTPError, SharedState
from dfprivacy.server.page import page_routes
from dfprivacy.server.questions import UNREADABLE, answer_question, views_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from dfprivacy.server.config import ServedTables
    from dfprivacy.view import PrivateFrame

__all__ = ["make_app"]

_log = logging.getLogger("dfprivacy.server")
_STATUS = {BudgetError: 402, LedgerError: 503, ReadError: 503}  # of other errors, 400


def _as_json_response(
    handle: Callable[[Request], Awaitable[Any]], ledger: str
) -> Callable[[Request], Awaitable[JSONResponse]]:
    """Decorate a handler to send its result or error as JSON, without a traceback or the ledger's address."""

    def refused(error: DPError, status: int) -> tuple[dict[str, str], int]:
        return {key: text.replace(ledger, "of the server") for key, text in write_error(error).items()}, status

    @wraps(handle)
    async def respond(request: Request) -> JSONResponse:
        plain: Any
        try:
            plain, status = await handle(request), 200
        except HTTPError as error:
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
            failed = LedgerError(
                "The server failed; the error's text is withheld, as it may quote data.",
                "Ask the server's custodian to read its log.",
            )
            plain, status = refused(failed.after("What was charged, if anything, stays charged."), 500)
        return JSONResponse(plain, status, headers={"Cache-Control": "no-store"})

    return respond


def make_app(held: ServedTables) -> Starlette:
    """Return the server's HTTP application: the routes for analysts, and the custodian's web pages."""
    shared = SharedState(held)
    answered = partial(_as_json_response, ledger=held.ledger.where)

    @answered
    async def hello(request: Request) -> Any:
        await shared.holder(request)
        return {"dfprivacy": version("dfprivacy"), "protocol": PROTOCOL}

    @answered
    async def tables(request: Request) -> Any:
        return [{"name": name} for name in views_of(held, await shared.holder(request))]

    @answered
    async def table(request: Request) -> Any:
        holder = await shared.holder(request)
        return await shared.work(holder, lambda: describe_table(shared.view(request.path_params["name"], holder)))

    @answered
    async def ask(request: Request) -> Any:
        holder, plain = await shared.holder(request), await shared.body(request)
        view = shared.view(request.path_params["name"], holder)
        return {"release": await shared.work(holder, lambda: answer_question(held, holder, view, plain).to_dict())}

    @answered
    async def account(request: Request) -> Any:
        holder, plain = await shared.holder(request), await shared.body(request)
        paying = shared.account(request.path_params["name"], holder)

        def known() -> Any:
            try:
                return answer_about_account(paying, plain["asked"], plain["given"])
            except DPError:
                raise
            except UNREADABLE:
                raise ArgumentError(
                    "The request about an account cannot be read.",
                    "Use a client with the same version of dfprivacy as the server.",
                ) from None

        return {"answer": await shared.work(holder, known)}

    @answered
    async def public(request: Request) -> Any:
        holder = await shared.holder(request)
        view = shared.view(request.path_params["name"], holder)
        return await shared.work(holder, lambda: public_columns(view))

    routes = [
        Route("/v1/hello", hello),
        Route("/v1/tables", tables),
        # A name may have slashes, which come decoded: what is asked of the table comes first.
        Route("/v1/table/{name:path}", table),
        Route("/v1/public/{name:path}", public),
        Route("/v1/ask/{name:path}", ask, methods=["POST"]),
        Route("/v1/account/{name:path}", account, methods=["POST"]),
        *page_routes(shared),
    ]
    return Starlette(routes=routes)


def public_columns(view: PrivateFrame) -> dict[str, list[Any]]:
    """Return the values of the columns that are declared public, by name; clients compute plans from them."""
    table = view._target.table  # noqa: SLF001 - a view of ours
    names = [
        name
        for name, column in table.schema.columns.items()
        if column.public and name in table.required_frame.columns
    ]
    lists = redact_errors(lambda: table.required_frame.lists(names)) if names else {}
    return {name: [*map(_plain_value, values)] for name, values in lists.items()}


def _plain_value(value: Any) -> Any:
    """Convert a public value to a JSON value: a number that is not finite to null, a date to text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def describe_table(view: PrivateFrame) -> dict[str, Any]:
    """Return the schema of a table, and the budget and accounting of its account, as JSON values for a client."""
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
