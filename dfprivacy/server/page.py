"""The custodian's web pages: budgets, past and waiting questions, and analysts, as HTML without scripts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import logging
import secrets
import threading
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from anyio import to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from dfprivacy._ledger.budget import PAGE, Budget, Releases, calls_as_csv, ledger_as_dict
from dfprivacy._ledger.calls import CallSelection
from dfprivacy._visible import visible
from dfprivacy.errors import DPError
from dfprivacy.server.questions import approve_question, refuse_question, waiting_questions
from dfprivacy.server.tokens import TokenHolder, holder_of, revoke_tokens, token_holders

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

    from dfprivacy._ledger.accounts import Account
    from dfprivacy._ledger.ledger import Ledger
    from dfprivacy.release import Release
    from dfprivacy.server.config import ServedTables
    from dfprivacy.server.desk import SharedState

    Handler = Callable[["CustodianRequest"], Response]

__all__ = ["page_routes"]

_log = logging.getLogger("dfprivacy.server")
_TEMPLATES = Path(__file__).parent / "templates"
_COOKIE = "dfprivacy"
_SECONDS = 8 * 3600  # that a login counts
_SESSIONS = 1000  # logins that are kept
_FIELDS = 10  # of a form
_LONGEST = 1 << 14  # bytes of a form
_WORD = 500  # characters of a refusal
_FOREIGN = "The form was not sent from this page."
_HEADERS = {
    # Answers are tables with styles of their own, and pictures in the page itself.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_drawing = threading.Lock()  # pyplot is one for all threads


@dataclass(frozen=True)
class CustodianRequest:
    """Request of a custodian who has logged in to the web pages.

    Attributes
    ----------
    shared : SharedState
        What all requests share.
    custodian : str
        Who asks.
    csrf : str
        What the forms of the answer hold, so that no other page can send them.
    query, form : mapping of str to str
        The address's and the form's fields.
    """

    shared: SharedState
    custodian: str
    csrf: str
    query: Mapping[str, str]
    form: Mapping[str, str]

    @property
    def ledger(self) -> Ledger:
        """Ledger of the tables that the server holds."""
        return self.shared.held.ledger

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return an HTML response: a template filled with the given values."""
        about = {"custodian": self.custodian, "csrf": self.csrf, "page": template}
        return HTMLResponse(_templates().get_template(f"{template}.html").render(**about, **values), status)

    @property
    def page(self) -> int:
        """Number of the requested page of a list, from 1."""
        text = self.query.get("page", "")
        return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < _FIELDS else 1


@dataclass
class _Logins:
    """Logins of this process: each custodian's token, stored under the random number in the browser's cookie.

    All forms hold a keyed hash of that number, which no other page can compute.
    """

    shared: SharedState
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _tokens: dict[str, tuple[str, float]] = field(default_factory=dict)

    def csrf(self, cookie: str) -> str:
        """Return the token against cross-site request forgery that belongs to a cookie and that forms must send."""
        return hmac.new(self._secret, cookie.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()

    def _was_sent_from_here(self, cookie: str, form: Mapping[str, str]) -> bool:
        return hmac.compare_digest(form.get("csrf", "").encode(errors="surrogatepass"), self.csrf(cookie).encode())

    def _custodian_of(self, token: str) -> TokenHolder | None:
        """Return the custodian to whom a token belongs; None if it is invalid or an analyst's."""
        holder = holder_of(self.shared.held.ledger, token.strip())
        return holder if holder is not None and holder.role == "custodian" else None

    def _logged_in(self, cookie: str) -> TokenHolder | None:
        """Return the custodian who is logged in with a cookie; None if nobody is, or if the login has expired."""
        token, since = self._tokens.get(cookie, ("", 0.0))
        return self._custodian_of(token) if token and time.monotonic() - since < _SECONDS else None

    def guard(self, handle: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Decorate a handler so that it requires a logged-in custodian, and forms that these pages sent."""

        async def respond(request: Request) -> Response:
            cookie = request.cookies.get(_COOKIE, "")
            holder = await to_thread.run_sync(self._logged_in, cookie)
            if holder is None:
                return _with_headers(RedirectResponse("login", 303))
            form = await _read_form(request)
            asked = CustodianRequest(self.shared, holder.name, self.csrf(cookie), request.query_params, form)
            if request.method == "POST" and not self._was_sent_from_here(cookie, form):
                return _with_headers(asked.show("error", 403, what=_FOREIGN))
            return _with_headers(await self.shared.work(holder, lambda: _respond_or_show_error(handle, asked)))

        return respond

    async def login(self, request: Request) -> Response:
        """Return the login form, or check the token that was sent with it and log the custodian in."""
        cookie, said = request.cookies.get(_COOKIE) or secrets.token_urlsafe(32), ""
        if request.method == "POST":
            form = await _read_form(request)
            token = form.get("token", "")
            if not self._was_sent_from_here(cookie, form):
                said = _FOREIGN
            elif await to_thread.run_sync(self._custodian_of, token) is None:
                said = "This is not a custodian's token, or it has expired or was revoked."
            else:
                cookie = secrets.token_urlsafe(32)  # another than whoever saw this form knows
                self._tokens[cookie] = token, time.monotonic()
                for oldest in [*self._tokens][:-_SESSIONS]:
                    del self._tokens[oldest]
                return _with_cookie(RedirectResponse("./", 303), request, cookie)
        page = _templates().get_template("login.html").render(csrf=self.csrf(cookie), said=said, page="login")
        return _with_cookie(HTMLResponse(page, 403 if said else 200), request, cookie)

    async def logout(self, request: Request) -> Response:
        """Log a custodian out, and return a redirect to the login form."""
        cookie = request.cookies.get(_COOKIE, "")
        if self._was_sent_from_here(cookie, await _read_form(request)):
            self._tokens.pop(cookie, None)
        return _with_headers(RedirectResponse("login", 303))


@cache
def _templates() -> Environment:
    """Return the Jinja environment of the HTML templates; it escapes text and makes hidden characters visible."""
    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else visible(value, lines=True),
    )


def page_routes(shared: SharedState) -> list[Route]:
    """Return the routes of the custodian's web pages."""
    door = _Logins(shared)
    shown: dict[str, Handler] = {
        "/": _overview,
        "/questions": _questions,
        "/question": _question,
        "/waiting": _waiting,
        "/analysts": _analysts,
        "/record.json": _record_as_json,
        "/record.csv": _record_as_csv,
    }
    return [
        Route("/login", door.login, methods=["GET", "POST"]),
        Route("/logout", door.logout, methods=["POST"]),
        Route("/style.css", _style),
        *(Route(path, door.guard(handle)) for path, handle in shown.items()),
        Route("/waiting", door.guard(_decide), methods=["POST"]),
        Route("/analysts", door.guard(_revoke), methods=["POST"]),
    ]


async def _style(_: Request) -> Response:
    return _with_headers(Response((_TEMPLATES / "style.css").read_bytes(), media_type="text/css"))


def _with_headers(response: Response) -> Response:
    response.headers.update(_HEADERS)
    return response


def _with_cookie(response: Response, request: Request, cookie: str) -> Response:
    secure = request.url.scheme == "https"
    response.set_cookie(_COOKIE, cookie, httponly=True, samesite="strict", secure=secure)
    return _with_headers(response)


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; an empty dictionary if the form is not valid or too long."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > _LONGEST:
            return {}
    try:
        fields = parse_qs(content.decode(), max_num_fields=_FIELDS)
    except ValueError:
        return {}
    return {name: values[0] for name, values in fields.items()}


def _respond_or_show_error(handle: Handler, asked: CustodianRequest) -> Response:
    """Call a handler, and return its response, or an error page if it raises."""
    try:
        return handle(asked)
    except DPError as error:
        return asked.show("error", 400, what=str(error))
    except Exception as error:  # noqa: BLE001 - its text may quote the data
        _log.error("a page failed with %s, whose text is withheld", type(error).__name__)
        return asked.show(
            "error", 500, what=f"The page failed with {type(error).__name__}, whose text is withheld."
        )


def _overview(asked: CustodianRequest) -> Response:
    accounts = [
        {
            "name": account.name,
            "budget": Markup(Budget(account)._repr_html_()),  # noqa: S704 - which escapes all
            "shares": [_share_row(each.analyst, each.epsilon, each.remaining) for each in account.shares()],
            "questions": f"{account.count('answers', CallSelection()):,}",
        }
        for account in asked.ledger.accounts()
    ]
    held = asked.shared.held
    return asked.show(
        "overview",
        accounts=accounts,
        tables=[*held.views],
        approve=held.approve,
        waiting=len(waiting_questions(asked.ledger)),
        problems=asked.ledger.problems(),
        ledger=asked.ledger.where,
    )


def _share_row(analyst: str, epsilon: Any, remaining: Any) -> dict[str, Any]:
    used = 1 - float(remaining / epsilon)
    return {
        "analyst": analyst,
        "epsilon": f"{float(epsilon):g}",
        "left": f"{float(remaining):g}",
        "used": f"{used:.4f}",
    }


def _selected_account(asked: CustodianRequest) -> Account:
    """Return the account that the query of the address names, or else the ledger's first account."""
    accounts = asked.ledger.accounts()
    return asked.ledger.account(asked.query.get("account") or (accounts[0].name if accounts else ""))


def _questions(asked: CustodianRequest) -> Response:
    account, analyst = _selected_account(asked), asked.query.get("analyst", "")
    wanted = CallSelection(analyst=analyst or None)
    found = account.calls(wanted, PAGE + 1, skipped=(asked.page - 1) * PAGE)
    calls = [
        {
            "at": f"{each.at:%Y-%m-%d %H:%M}",
            "analyst": each.analyst or "?",
            "text": each.brief,
            "epsilon": f"{float(each.epsilon):g}",
            "delta": f"{float(each.delta):.3g}" if each.delta else "",
            "answered": each.answered,
            "link": "question?" + urlencode({"account": account.name, "call": each.call}),
        }
        for each in reversed(found[-PAGE:])
    ]

    def link(page: int) -> str:
        return "questions?" + urlencode({"account": account.name, "analyst": analyst, "page": page})

    return asked.show(
        "questions",
        account=account.name,
        accounts=[each.name for each in asked.ledger.accounts()],
        analyst=analyst,
        calls=calls,
        number=asked.page,
        newer=link(asked.page - 1) if asked.page > 1 else "",
        older=link(asked.page + 1) if len(found) > PAGE else "",
    )


def _question(asked: CustodianRequest) -> Response:
    account, wanted = _selected_account(asked), CallSelection(call=asked.query.get("call", ""))
    calls = account.calls(wanted, 1)
    if not calls:
        return asked.show("error", 404, what="There is no such question.")
    releases = list(Releases(account, wanted))
    release = _with_labels(asked.shared.held, releases[-1]) if releases else None
    return asked.show(
        "question",
        account=account.name,
        call=calls[0],
        at=f"{calls[0].at:%Y-%m-%d %H:%M:%S} UTC",
        charges=[
            (each.mechanism, f"{float(each.epsilon):g}", f"{float(each.delta):g}") for each in calls[0].charges
        ],
        release=None if release is None else Markup(release._repr_html_()),  # noqa: S704 - which escapes all
        picture="" if release is None else _picture(release),
    )


def _with_labels(held: ServedTables, release: Release) -> Release:
    """Return a kept release with the labels and units of its table's columns."""
    named = {each._target.name: each._target.table.schema for each in held.views.values()}  # noqa: SLF001 - of ours
    schema = None if release.privacy is None else named.get(release.privacy.table)
    if schema is None:
        return release
    words = {name: each.of(name) for name, each in schema.words.items()}
    units = {name: each.units for name, each in schema.words.items() if each.units}
    return release.with_library(schema.library, words, units)


def _picture(release: Release) -> str:
    """Return the plot of a release as a data URL; empty if it has no plot, or without matplotlib."""
    try:
        from matplotlib import pyplot as plt

        with _drawing:
            plt.switch_backend("agg")
            figure, drawn = release.plot().figure, io.BytesIO()
            try:
                figure.savefig(drawn, format="png", dpi=110)
            finally:
                plt.close("all")
    except (ImportError, DPError, ValueError, AttributeError):
        return ""
    return "data:image/png;base64," + base64.b64encode(drawn.getvalue()).decode()


def _waiting(asked: CustodianRequest) -> Response:
    every = waiting_questions(asked.ledger)
    first = (asked.page - 1) * PAGE
    shown = []
    for each in every[first : first + PAGE]:
        item: dict[str, Any] = {"each": each, "at": f"{each.at:%Y-%m-%d %H:%M}", "price": "", "explanation": None}
        try:
            question = each.question(asked.shared.held)
            explanation = question.explain()
            item["text"], item["left"] = each.text, f"{explanation.left:g}"
            item["price"] = f"{explanation.epsilon:g}"
            item["explanation"] = Markup(explanation._repr_html_())  # noqa: S704 - which escapes all
        except DPError as error:
            item |= {"text": "", "problem": str(error)}
        shown.append(item)
    return asked.show(
        "waiting",
        shown=shown,
        approve=asked.shared.held.approve,
        total=len(every),
        number=asked.page,
        newer=f"waiting?page={asked.page - 1}" if asked.page > 1 else "",
        older=f"waiting?page={asked.page + 1}" if len(every) > first + PAGE else "",
    )


def _decide(asked: CustodianRequest) -> Response:
    """Approve or refuse a waiting question, as the form says, and return a redirect."""
    held, number = asked.shared.held, asked.form.get("number", "")
    with asked.shared.deciding:  # one after the other: none is asked twice
        if asked.form.get("decision") == "approve":
            found = approve_question(held, number, asked.custodian)
            if found is not None:
                where = urlencode(dict(zip(("account", "call"), found, strict=True)))
                return RedirectResponse(f"question?{where}", 303)
        elif asked.form.get("decision") == "refuse":
            refuse_question(held, number, asked.form.get("why", "").strip()[:_WORD])
    return RedirectResponse("waiting", 303)


def _analysts(asked: CustodianRequest) -> Response:
    holders = token_holders(asked.ledger)
    names = [*dict.fromkeys(holder.name for _, holder in holders)]
    caps: dict[str, list[dict[str, Any]]] = {}
    for account in asked.ledger.accounts():
        for each in account.shares():
            share = {"account": account.name, **_share_row(each.analyst, each.epsilon, each.remaining)}
            caps.setdefault(each.analyst, []).append(share)
    first = (asked.page - 1) * PAGE
    every = [*names, *(name for name in caps if name not in names)]
    people = [
        {
            "name": name,
            "tokens": [_token_row(digest, holder) for digest, holder in holders if holder.name == name],
            "caps": caps.get(name, []),
            "revocable": any(holder.name == name and not holder.revoked for _, holder in holders),
            "link": "questions?" + urlencode({"analyst": name}),
        }
        for name in every[first : first + PAGE]
    ]
    return asked.show(
        "analysts",
        people=people,
        number=asked.page,
        newer=f"analysts?page={asked.page - 1}" if asked.page > 1 else "",
        older=f"analysts?page={asked.page + 1}" if len(every) > first + PAGE else "",
    )


def _token_row(digest: str, holder: TokenHolder) -> dict[str, str]:
    until = f"until {holder.expires}" if holder.expires else "without end"
    tables = "" if holder.tables is None else f", of {', '.join(holder.tables)}"
    return {
        "digest": "oidc" if holder.oidc else digest[:8],
        "role": holder.role + tables,
        "state": "revoked" if holder.revoked else until,
    }


def _revoke(asked: CustodianRequest) -> Response:
    revoke_tokens(asked.ledger, asked.form.get("name", ""))
    return RedirectResponse("analysts", 303)


def _record_as_json(asked: CustodianRequest) -> Response:
    ledger = asked.ledger
    calls = {account: account.calls(CallSelection()) for account in ledger.accounts()}
    text = json.dumps(ledger_as_dict(ledger, calls, ledger.problems()), indent=2)
    return _download(text, "record.json", "application/json")


def _record_as_csv(asked: CustodianRequest) -> Response:
    calls = {account: account.calls(CallSelection()) for account in asked.ledger.accounts()}
    return _download(calls_as_csv(calls), "record.csv", "text/csv")


def _download(text: str, name: str, kind: str) -> Response:
    return Response(text, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
