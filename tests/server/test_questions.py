"""What a server does with a question besides answering it: who may ask it, when, and how often it is paid."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.server.tokens import make_token

TestClient = pytest.importorskip("starlette.testclient").TestClient
MEAN = {
    "method": "mean", "arguments": {"column": "x"}, "steps": [], "by": [], "epsilon": "1", "delta": None,
    "fresh": False,
}  # fmt: skip


class Server:
    """A server of some tables of one budget, and its clients."""

    def __init__(self, path, *names, **limits):
        from dfprivacy.server.app import make_app
        from dfprivacy.server.config import Limits, ServedTables

        self.rows = pd.DataFrame({"x": np.arange(2000) / 2000, "id": np.arange(2000)})
        views = [
            dp.protect(self.rows, name, account="clinic", epsilon=10, bounds={"x": (0, 1)}, ledger=path)
            for name in names
        ]
        self.ledger = views[0]._target.account.ledger
        approve = limits.pop("approve", False)
        self.held = ServedTables(dict(zip(names, views, strict=True)), self.ledger, approve, Limits(**limits))
        self.client = TestClient(make_app(self.held))

    def token(self, name, **given):
        return make_token(self.ledger, name, **given)

    def ask(self, token, table="visits", **given):
        """Ask for a mean; the status, and what was said."""
        return self.send(token, f"ask/{table}", {**MEAN, **given})

    def send(self, token, path, body=None):
        headers = {"Authorization": f"Bearer {token}"}
        how = {"headers": headers} if body is None else {"headers": headers, "json": body}
        answer = self.client.request("GET" if body is None else "POST", f"/v1/{path}", **how)
        return answer.status_code, answer.json()

    @property
    def spent(self):
        return self.ledger.account("clinic").total_charged()


@pytest.fixture
def served(tmp_path):
    """What serves tables with limits."""
    made = []

    def serve(*names, **limits):
        made.append(Server(tmp_path / "ledger.sqlite", *(names or ["visits"]), **limits))
        return made[-1]

    yield serve
    for each in made:
        each.client.close()
        each.ledger.close()


@pytest.mark.parametrize("fresh", [False, True])
def test_the_same_question_at_one_moment_is_paid_once(served, fresh, at_once):
    """Whoever asks while it is being answered waits, and gets the same at no charge; measured anew, each pays."""
    server = served(workers=8)
    tokens = [server.token(name) for name in ("ana", "bo", "cem", "dee", "eve", "fay")]
    answers = []

    with server.client:
        at_once(*(lambda token=token: answers.append(server.ask(token, fresh=fresh)) for token in tokens))

    assert [status for status, _ in answers] == [200] * 6
    times = 6 if fresh else 1
    assert server.spent == times
    assert len({said["release"]["value"] for _, said in answers}) == times
    assert sum(not said["release"]["privacy"]["replayed"] for _, said in answers) == times


def test_another_question_waits_for_nobody(served):
    """An equal question waits for the first, whoever asks it; one of another price does not."""
    from dfprivacy.server.questions import _lock_of_question, _read_plain, view_for

    server = served()

    def turn(name, epsilon):
        return _lock_of_question(
            _read_plain(
                server.held.views, view_for(server.held.views, "visits", name), {**MEAN, "epsilon": epsilon}
            )
        )

    first = turn("ana", "1")
    with first:
        assert turn("bo", "1.0") is first
        assert turn("ana", "2") is not first
    assert not first.locked()


def test_a_table_of_others_looks_like_none(served):
    """At every entrance, alone and in a join, it is what a table is that is not there."""
    server = served("visits", "labs")
    every, ana = server.token("bo"), server.token("ana", tables=["visits"])
    on = [["with_columns", {}]]
    join = {"on": "id", "how": "inner", "max_rows": None, "steps": on}

    assert server.send(every, "tables") == (200, [{"name": "visits"}, {"name": "labs"}])
    assert server.send(ana, "tables") == (200, [{"name": "visits"}])
    account = {"asked": "total_charged", "given": []}
    for path, body in (("table", None), ("public", None), ("ask", MEAN), ("account", account)):
        theirs, none = (server.send(ana, f"{path}/{name}", body) for name in ("labs", "nothing"))
        assert theirs == none
        assert theirs[0] == 404
        assert "labs" not in json.dumps(theirs)
        assert server.send(ana, f"{path}/visits", body)[0] == server.send(every, f"{path}/labs", body)[0] == 200
    theirs, none = (
        server.ask(ana, steps=[["join", {**join, "table": name}]], epsilon="1/2") for name in ("labs", "nothing")
    )
    assert theirs == none
    assert theirs[1]["what"] == "There is no such table."
    assert server.ask(every, steps=[["join", {**join, "table": "labs"}]])[1]["what"] != "There is no such table."
    assert server.spent == 2


def test_the_record_of_who_may_not_ask_all_tables_is_their_own(served):
    """They read what they asked, and of a question of others not even that it was asked."""
    server = served("visits", "labs")
    every, ana = server.token("bo"), server.token("ana", tables=["visits"])
    assert server.ask(every, "labs", epsilon="2")[0] == 200
    assert server.ask(ana, "visits")[0] == 200
    kept = server.ledger.account("clinic").answers()
    wanted = {"method": None, "analyst": None, "since": None, "until": None}
    keys = [each[0] for each in digests(server.ledger)]

    def record(token, **selected):
        asked = {
            "tables": [],
            "calls": [{**wanted, **selected}, None, True],
            "newest_answers": [{**wanted, **selected}, 10, 0],
            "count": ["answers", {**wanted, **selected}],
            "measurements": [keys, True],
        }
        return {
            name: server.send(token, "account/visits", {"asked": name, "given": given})[1]["answer"]
            for name, given in asked.items()
        }

    def found(token):
        given = [
            server.send(token, "account/visits", {"asked": "answer", "given": [each.question]})[1] for each in kept
        ]
        return [each["answer"] is not None for each in given]

    theirs, everything = record(ana), record(every)
    assert {name: len(each) for name, each in everything.items() if name != "count"} == {
        "tables": 2,
        "calls": 2,
        "newest_answers": 2,
        "measurements": len(keys),
    }
    assert everything["count"] == 2
    assert theirs["count"] == 1
    assert [each["name"] for each in theirs["tables"]] == ["visits"]
    assert [each["analyst"] for each in theirs["calls"]] == ["ana"]
    assert [each["call"] for each in theirs["newest_answers"]] == [theirs["calls"][0]["call"]]
    assert 0 < len(theirs["measurements"]) < len(keys)
    assert "labs" not in json.dumps(theirs)
    assert found(every) == [True, True]
    assert found(ana) == [False, True]
    assert record(ana, analyst="ana") == theirs
    assert record(ana, analyst="bo")["calls"] == []
    assert record(ana, analyst="bo")["count"] == 0


def digests(ledger):
    """The digests of all kept measurements."""
    from dfprivacy._ledger.tables import tables

    table = tables().measurements
    return ledger.read(table.select().with_only_columns(table.c.description_sha256).distinct(), tuple)


def test_a_custodian_s_token_asks_nothing(served):
    """It is refused at every entrance of analysts, with a word, and nothing is charged."""
    server = served()
    token = server.token("carla", role="custodian")

    account = {"asked": "spent", "given": []}
    looked = [(path, None) for path in ("hello", "tables", "table/visits", "public/visits", "table/nothing")]
    for path, body in [*looked, ("ask/visits", MEAN), ("account/visits", account)]:
        status, said = server.send(token, path, body)
        assert (status, said["error"]) == (403, "ArgumentError")
        assert (
            said["what"]
            == "This is a custodian's token, which opens the custodian's page and cannot ask questions."
        )
    assert server.spent == 0


def test_a_cap_on_questions_that_wait(served, at_once):
    """Beyond it a question is not written down; one that waits can be asked again, and others have a cap each."""
    from dfprivacy.server.questions import refuse_question, waiting_questions

    server = served(approve=True, waiting=3, at_once=8)
    ana, bo = server.token("ana"), server.token("bo")
    answers = []

    with server.client:
        at_once(*(lambda at=at: answers.append(server.ask(ana, epsilon=f"1/{at + 1}")) for at in range(8)))

    assert sorted(status for status, _ in answers) == [400] * 5 + [409] * 3
    assert {said["what"] for status, said in answers if status == 400} == {
        "3 of your questions are waiting for the custodian's approval, and no more can."
    }
    waiting = waiting_questions(server.ledger)
    assert len(waiting) == 3
    assert server.ask(ana, epsilon=waiting[0].plain["epsilon"])[0] == 409
    assert server.ask(bo)[0] == 409
    refuse_question(server.held, waiting[0].number, "no")
    assert server.ask(ana, epsilon="5")[0] == 409
    assert server.ask(ana, epsilon="6")[0] == 400
    assert server.spent == 0


def test_many_questions_of_one_analyst_do_not_starve_another(served, at_once):
    """While one analyst's questions fill the queue, another's is answered among the first."""
    server, order = served(at_once=1, workers=2), []
    ana, bo = server.token("ana"), server.token("bo")

    def ask(token, at):
        steps = [["where", [{"x": {"between": [0, 0.5 + at / 1000]}}]]]
        assert server.ask(token, steps=steps, epsilon="1/10")[0] == 200
        order.append(token)

    with server.client:
        at_once(*(lambda at=at: ask(ana, at) for at in range(30)), lambda: ask(bo, 40))

    assert order.index(bo) < 25


def test_an_analyst_of_some_tables_connects_to_them(serve):
    """The view has all that it has for others: a budget, releases, explanations."""
    served = serve()
    view = served.connect(make_token(served.held.ledger, "dee", tables=["trial"]))
    served.connect().mean("age", epsilon=1)

    assert view.mean("age", epsilon=1).privacy.replayed  # whoever asks the same reads what others paid for
    explained = view.explain("mean", "age", epsilon=0.5)  # which tells nothing of what others asked
    assert explained.epsilon == explained.left == 0.5
    assert (view.budget.spent, len(view.releases)) == (1, 0)
    view.mean("weight", epsilon=1)
    assert len(view.releases) == 1
    assert "analyst, of trial, without end" in served.browser().open("analysts").text
    with pytest.raises(dp.ArgumentError, match="no table 'trial' for this token"):
        served.connect(make_token(served.held.ledger, "eve", tables=["other"]))
