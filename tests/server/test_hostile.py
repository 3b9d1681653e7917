"""Hostile requests: each gets a clean refusal in bounded time, charges nothing, and learns nothing of the rows."""

from __future__ import annotations

import copy
import itertools
import json
import os
import time

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp

TestClient = pytest.importorskip("starlette.testclient").TestClient
REQUESTS = min(int(os.environ.get("DFPRIVACY_TEST_FUZZ", "200")), 3000)
CANARY, RARE = "canary5417", 88.04321987
SECONDS = 60.0  # of a busy machine; what does not end takes longer


class Server:
    """A server of one table, and what was asked of it."""

    def __init__(self, path):
        from dfprivacy.server.app import make_app
        from dfprivacy.server.config import Limits, ServedTables
        from dfprivacy.server.tokens import make_token

        rows = pd.DataFrame(
            {"weight": [50.0, 60.0, RARE, 70.0] * 50, "arm": ["a", "b"] * 100, "name": [CANARY] * 200}
        )
        self.view = dp.protect(
            rows, "trial", epsilon=10**6, bounds={"weight": (40, 160)}, categories={"arm": ["a", "b"]}, ledger=path
        )
        ledger = self.view._target.account.ledger
        self.token = make_token(ledger, "ana")
        self.held = ServedTables({"trial": self.view}, ledger, limits=Limits(per_minute=10**9))
        self.client = TestClient(make_app(self.held), raise_server_exceptions=True)

    def send(self, content, path="/v1/ask/trial", method="POST", token=None):
        """Send a request; what came back. It was refused cleanly, or paid for."""
        account, started = self.view._target.account, time.perf_counter()
        before = account.total_charged()
        answer = self.client.request(
            method, path, content=content, headers={"Authorization": f"Bearer {token or self.token}"}
        )
        assert time.perf_counter() - started < SECONDS, content[:200]
        assert answer.status_code < 500 or answer.status_code == 503, (answer.text, content[:200])
        said = answer.text + str(answer.headers)
        assert CANARY not in said
        assert "88.0432" not in said
        assert "Traceback" not in said
        if answer.status_code != 200:
            assert account.total_charged() == before, content[:200]
            assert answer.status_code in {404, 405} or {"error", "what", "hint", "outcome"} == {*answer.json()}
        return answer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for all that is sent."""
    return Server(tmp_path_factory.mktemp("served") / "ledger.sqlite")


GOOD = {
    "method": "mean", "arguments": {"column": "weight"},
    "steps": [["where", [{"weight": {"between": [45, 150]}}]], ["select", ["weight", "arm"]]], "by": ["arm"],
    "epsilon": "1/10", "delta": None, "fresh": False,
}  # fmt: skip
OTHERS = [
    {**GOOD, "method": "histogram", "arguments": {"column": "weight", "bins": 5}, "by": []},
    {**GOOD, "method": "quantile", "arguments": {"column": "weight", "q": [0.25, 0.5]}, "by": [], "delta": "0"},
    {**GOOD, "method": "ols", "arguments": {"y": "weight ~ C(arm) + I(weight ** 2)"}, "by": [], "steps": []},
    {**GOOD, "method": "crosstab", "arguments": {"a": "arm", "b": "arm2"}, "by": [], "steps": [["with_columns", {
        "arm2": {"formula": {"map": [{"col": "arm"}, [["a", "x"], ["b", "y"]]]}, "bounds": None}}]]},
    {**GOOD, "by": [], "steps": [["sample", "1/2"], ["declare", {"bounds": {"weight": [50, 100]}}]]},
]  # fmt: skip
ODD = [
    None, True, 0, -1, 1e308, 10**400, "", "rest", "1e9999999", "1/0", "nan", "0." + "1" * 4000, "__class__",
    "_target", "__import__('os').system('true')", "<script>alert(1)</script>", "\x1b[2J\u202e\x00", "\ud800",
    "x" * 100_000, [], {}, [[]] * 1000, {"$tuple": [1, 2]}, {"$range": [0, 10**18, 1]}, {"$range": [0, 10**9, 1]},
    {"$release": {"type": "Value", "value": 1}}, {"$release": 5}, {"$found": [1, 2]}, {"$found": ["a", "b", "c"]},
    {"col": "weight"}, {"between": [5, 1]}, {"in": list(range(5000))}, {"is": "present"}, {"exec": ["1"]},
    ["where", [{"name": {"in": [CANARY]}}]], ["sample", "1/2"], ["sample", "1e-9999999"],
    ["per", ["name", {"weight": "mean"}]], ["declare", {"bounds": {"weight": [40, 10**9]}}],
    ["declare", {"bounds": {"name": "find"}, "categories": {"name": [CANARY + "x"]}}],
    ["with_columns", {"w": {"formula": {"/": [{"col": "weight"}, 0]}, "bounds": [0, 1]}}],
    ["with_columns", {"w": {"formula": {"**": [{"col": "weight"}, 10**9]}, "bounds": None}}], ["lookup", "x"],
    "histogram", "quantile", "value_counts", "ols", "kme_release", "gmm_fit", "report", "mean_own",
]  # fmt: skip
DEEP = {
    "lists": "[" * 100_000,
    "dictionaries": '{"a":' * 100_000,
    "a deep formula": json.dumps(GOOD).replace(
        '"steps": [',
        '"steps": [["with_columns", {"w": {"bounds": null, "formula": ' + '{"abs": [' * 900 + '{"col": "weight"}'
        "" + "]}" * 900 + "}}], ",
    ),
    "twice": json.dumps(GOOD)[:-1] + ', "epsilon": "1"}',
    "infinite": json.dumps(GOOD).replace('"1/10"', "Infinity"),
    "a long number": json.dumps(GOOD).replace('"1/10"', "9" * 10_000),
    "nothing": "",
    "no text": b"\xff\xfe\x00",
    "a pickle": b"\x80\x04cos\nsystem\n",
    "too long": b'"' + b"x" * (1 << 21) + b'"',
}


@pytest.mark.parametrize("kind", DEEP)
def test_what_is_no_question_is_refused_before_it_is_read(server, kind):
    """Deep, long, repeated or no JSON at all."""
    assert server.send(DEEP[kind]).status_code in {400, 413}


def places(value, path=()):
    """All places in plain JSON values."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def changed(value, path, other):
    """The same with something else at one place."""
    if not path:
        return other
    value = copy.copy(value)
    value[path[0]] = changed(value[path[0]], path[1:], other)
    return value


def one_of(rng, several):
    """One of several things, which NumPy would make an array of."""
    return copy.deepcopy(several[int(rng.integers(len(several)))])


def mutants(rng, rounds):
    """Questions with odd things at a few places, under other names, or in place of the steps."""
    for _ in range(rounds):
        question = one_of(rng, [GOOD, *OTHERS])
        for _ in range(int(rng.integers(1, 4))):
            first = [*itertools.islice(places(question), 1000)]
            path, odd, kind = one_of(rng, first), one_of(rng, ODD), rng.random()
            if kind < 0.2 and path and isinstance(path[-1], str):
                question = changed(question, path[:-1], {f"{path[-1]}x": odd})
            elif kind < 0.4 and isinstance(question, dict):
                question = {**question, "steps": [odd] * int(rng.integers(1, 200))}
            else:
                question = changed(question, path, odd)
        yield json.dumps(question)


@pytest.mark.stress
def test_mutated_questions_are_refused_or_paid(server):
    """No error of the server, no hang, no charge without an answer, and no value of a row anywhere."""
    rng = np.random.default_rng(35)
    statuses = [server.send(each).status_code for each in mutants(rng, REQUESTS)]

    assert {200, 400} <= {*statuses} <= {200, 400, 402, 409, 413, 503}
    account = server.view._target.account
    assert len({entry.call for entry in account.entries()}) == sum(
        answer.release["privacy"]["epsilon"] > 0 for answer in account.answers()
    )


def test_what_is_asked_of_the_account_is_bounded(server):
    """Only what the table of questions lists is answered, with no more at once than it says."""
    good = [["spent", []], ["largest", ["gaussian", "1/10"]], ["count", ["answers", {"method": "mean"}]]]
    for asked, given in good:
        assert server.send(json.dumps({"asked": asked, "given": given}), "/v1/account/trial").status_code == 200
    rng = np.random.default_rng(36)
    names = ["spent", "charge", "keep", "measurements", "answer", "newest_answers", "calls", "count", "largest"]
    names += ["ledger", "__class__", "shares", "give_shares", "steps"]
    for _ in range(REQUESTS // 4):
        given = [one_of(rng, [*ODD, {"method": one_of(rng, ODD)}]) for _ in range(int(rng.integers(4)))]
        body = json.dumps({"asked": one_of(rng, [*names, *ODD[:8]]), "given": one_of(rng, [given, given, 5])})
        assert server.send(body, "/v1/account/trial").status_code in {200, 400, 503}


def test_an_unforeseen_failure_is_told_and_logged_without_its_text(server, monkeypatch, caplog):
    """The text of an error may quote the data: neither the analyst nor the custodian's log has it."""

    def fail(*_):
        raise RuntimeError(f"cannot convert {CANARY}")

    monkeypatch.setattr("dfprivacy.server.app.answer_question", fail)
    asked = {"content": json.dumps(GOOD), "headers": {"Authorization": f"Bearer {server.token}"}}
    answer = server.client.post("/v1/ask/trial", **asked)

    assert (answer.status_code, answer.json()["error"]) == (500, "LedgerError")
    assert "RuntimeError" in caplog.text
    assert CANARY not in answer.text + caplog.text


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["ask", "account", "../../etc/passwd", "%2e%2e/x", "x" * 5000, ""])
def test_other_methods_and_paths_find_nothing(server, method, path):
    """There is no file, and no other door."""
    assert server.send(b"", f"/v1/{path}/trial", method).status_code in {200, 400, 404, 405}


@pytest.mark.parametrize(
    "token", ["x", "a" * 10_000, "Bearer", "' OR 1=1", "\u00e4", "../..", "0" * 64, "null", "%00"]
)
def test_nobody_is_served_without_a_token(server, token):
    """Whatever the token looks like."""
    given = {"Authorization": f"Bearer {token}".encode("latin-1")}
    for path in ("hello", "tables", "table/trial", "public/trial"):
        assert server.client.get(f"/v1/{path}", headers=given).status_code == 401
    for path in ("ask", "account"):
        assert server.client.post(f"/v1/{path}/trial", headers=given, json=GOOD).status_code == 401
    assert server.client.get("/v1/hello").status_code == 401
    assert server.client.get("/v1/hello", headers={"Authorization": "Basic x"}).status_code == 401
