"""What a server does with a question besides answering it: who may ask it, when, and how often it is paid."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp

TestClient = pytest.importorskip("starlette.testclient").TestClient
MEAN = {
    "method": "mean",
    "arguments": {"column": "x"},
    "steps": [],
    "by": [],
    "epsilon": "1",
    "delta": None,
    "fresh": False,
}


class Server:
    """A server of some tables of one budget, and its clients."""

    def __init__(self, path, *names, **limits):
        from dfprivacy.server.app import make_app
        from dfprivacy.server.config import Held, Limits

        self.rows = pd.DataFrame({"x": np.arange(2000) / 2000, "id": np.arange(2000)})
        views = [
            dp.protect(self.rows, name, account="clinic", epsilon=10, bounds={"x": (0, 1)}, ledger=path)
            for name in names
        ]
        self.ledger = views[0]._target.account.ledger
        approve = limits.pop("approve", False)
        self.held = Held(dict(zip(names, views, strict=True)), self.ledger, approve, Limits(**limits))
        self.client = TestClient(make_app(self.held))

    def token(self, name, **given):
        from dfprivacy.server.tokens import make_token

        return make_token(self.ledger, name, **given)

    def ask(self, token, table="visits", **given):
        """Ask for a mean; the status, and what was said."""
        plain = {
            "method": "mean",
            "arguments": {"column": "x"},
            "steps": [],
            "by": [],
            "epsilon": "1",
            "delta": None,
        }
        return self.send(token, f"ask/{table}", {**plain, "fresh": False, **given})

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
def test_the_same_question_at_one_moment_is_paid_once(served, fresh):
    """Whoever asks while it is being answered waits, and gets the same at no charge; measured anew, each pays."""
    server = served(workers=8)
    tokens = [server.token(name) for name in ("ana", "bo", "cem", "dee", "eve", "fay")]
    together, answers = threading.Barrier(len(tokens)), []

    def ask(token):
        together.wait()
        answers.append(server.ask(token, fresh=fresh))

    with server.client:
        threads = [threading.Thread(target=ask, args=(token,)) for token in tokens]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    assert [status for status, _ in answers] == [200] * 6
    times = 6 if fresh else 1
    assert server.spent == times
    assert len({said["release"]["value"] for _, said in answers}) == times
    assert sum(not said["release"]["privacy"]["replayed"] for _, said in answers) == times


def test_another_question_waits_for_nobody(served):
    """An equal question waits for the first, whoever asks it; one of another price does not."""
    from dfprivacy.server.questions import _read_plain, _turn, view_for

    server = served()

    def turn(name, epsilon):
        return _turn(_read_plain(server.held, view_for(server.held, "visits", name), {**MEAN, "epsilon": epsilon}))

    first = turn("ana", "1")
    with first:
        assert turn("bo", "1.0") is first
        assert turn("ana", "2") is not first
    assert not first.locked()
