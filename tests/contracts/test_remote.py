"""What holds for every method where the rows are with a server: a view of them is one more kind of view."""

from __future__ import annotations

import json
import re
import socket
import threading

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.remote import connect
from dfprivacy.testing import seeded_noise

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("starlette")


def with_the_same_noise(app):
    """An application that answers each request with the same noise."""

    async def seeded(scope, receive, send):
        with seeded_noise(3):
            await app(scope, receive, send)

    return seeded


@pytest.fixture(scope="module")
def server():
    """What serves views, and connects to them, over a socket."""
    from dfprivacy._ledger.ledger import open_ledger
    from dfprivacy.server.app import make_app
    from dfprivacy.server.config import Limits, ServedTables
    from dfprivacy.server.tokens import make_token

    held = ServedTables({}, open_ledger("memory:"), limits=Limits(per_minute=10**6))
    token = make_token(held.ledger, "ana")
    listening = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(with_the_same_noise(make_app(held)), log_level="error", lifespan="off"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()

    def remote(view):
        held.views[view.name] = view
        return connect(f"http://127.0.0.1:{listening.getsockname()[1]}", view.name, token=token)

    yield remote
    running.should_exit = True
    thread.join()


def asked_there(question, server, **terms):
    """Ask a question of the server's view in place of one here; the answers of both, and the views."""
    here, there = question.of(**terms), question.of(**terms)
    with seeded_noise(3):
        local = here()
    view = server(there.view)
    case = question.case
    part = view.where(**case.where) if case.where else view
    part = part.group_by(*case.grouped) if case.grouped else part
    return local, lambda: getattr(part, there.method)(**there.given), there, view


def plain(release):
    """What an answer says, without names of tables and moments."""
    return re.sub(r'contract \d+|"at": "[^"]*"|[0-9a-f]{16}', "", json.dumps(release.to_dict(), sort_keys=True))


@pytest.mark.one_in(4)
def test_a_view_elsewhere_answers_as_one_here(varied, server):
    """With the same noise, the same numbers; it is paid once, replayed, listed, and explained at no charge."""
    local, ask, there, view = asked_there(varied, server)
    if varied.case.other is not None:
        with pytest.raises(dp.ArgumentError, match="two ledgers"):
            ask()
        assert there.view.budget.spent == 0
        return

    remote = ask()
    spent = there.view.budget.spent
    again = ask()

    assert plain(remote) == plain(local)
    assert spent == there.view.budget.spent == view.budget.spent
    assert again.privacy.replayed or not spent
    assert remote == view.releases[0]
    assert [each.records() for each in view.releases] == [remote.records()]


@pytest.mark.one_in(4)
def test_an_explanation_of_a_view_elsewhere_is_that_of_one_here(method, server):
    """It needs no rows, and knows what is kept."""
    if method.case.other is not None:
        return
    here, there = method.of(), method.of()
    view = server(there.view)
    part = view.where(**method.case.where) if method.case.where else view
    part = part.group_by(*method.case.grouped) if method.case.grouped else part

    explained = [
        re.sub(r"contract \d+", "", repr(each.explain(here.method, **here.given))) for each in (here.part, part)
    ]

    assert explained[0] == explained[1]


def test_tables_elsewhere_are_joined_where_they_are(server):
    """A join, a lookup and people of views elsewhere are those of views here."""
    persons = pd.DataFrame({"pid": range(600), "age": [20.0, 40.0, 60.0] * 200})
    visits = pd.DataFrame({"pid": [who % 600 for who in range(1500)], "cost": [10.0, 90.0, 50.0] * 500})
    public = pd.DataFrame({"age": [20, 40, 60], "band": ["young", "middle", "old"]})
    answers = []
    for account in ("here", "there"):
        terms = {"ledger": "memory:", "account": f"joined {account}"}
        own = dp.protect(
            visits, f"{account} visits", epsilon=9, unit="pid", max_rows=3, bounds={"cost": (0, 100)}, **terms
        )
        other = dp.protect(persons, f"{account} persons", bounds={"age": (0, 100)}, **terms)
        if account == "there":
            own, other = server(own), server(other)
        joined = own.join(other, on="pid").lookup(public, on="age")
        asked = [
            lambda view=joined: view.group_by("band").mean("cost", epsilon=1),
            lambda view=joined: view.per("pid").agg(cost="sum", band="first").ttest("cost", popmean=90, epsilon=1),
        ]
        for ask in asked:
            with seeded_noise(3):
                answers.append(re.sub("here|there|contract", "", str(ask().records())))

    assert answers[:2] == answers[2:]
