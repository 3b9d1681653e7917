"""Servers that are killed, clients that break off, two servers of one ledger: each answer is charged once."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dfprivacy as dp
from dfprivacy._ledger.ledger import open_ledger
from dfprivacy.errors import BudgetExceeded, LedgerError
from dfprivacy.remote import connect
from dfprivacy.server.tokens import make_token, revoke_tokens

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="file descriptors are not passed here")
on_both = pytest.mark.parametrize("served", ["file", "postgresql"], indirect=True)
SECONDS = float(os.environ.get("DFPRIVACY_TEST_STRESS", "2"))
CLOCKS = [*Path("/usr/lib").glob("*/faketime/libfaketime.so.1")]
KILLS = max(3, round(SECONDS * 200 / 90))  # two hundred in `tox -e stress`

# A server is a fork of a process that has imported everything; whenever it is killed, there is another one.
SERVER = """
import json, os, socket, sys
import pandas as pd, uvicorn
import dfprivacy as dp
from dfprivacy._plugins.loader import registry
from dfprivacy.server.app import make_app
from dfprivacy.server.config import ServedTables, Limits
_ = registry().mechanisms
orders, forked = socket.socket(fileno=int(sys.argv[1])), 1
while forked:
    order, given, *_ = socket.recv_fds(orders, 1 << 16, 2)
    if not order:
        sys.exit()
    if forked := os.fork():
        [*map(os.close, given)]
(place, budget), (number, told) = json.loads(order), given
os.write(told, b"%d\\n" % os.getpid())
while child := os.fork():
    os.write(told, b"%d\\n" % child)
    os.waitpid(child, 0)
rows = pd.DataFrame({"x": [at / 1000 for at in range(1000)]})
view = dp.protect(rows, "served", epsilon=budget, bounds={"x": (0, 1)}, ledger=place)
held = ServedTables({"served": view}, view._target.account.ledger, limits=Limits(per_minute=10**9))
listening = socket.socket(fileno=number)
uvicorn.Server(uvicorn.Config(make_app(held), log_level="critical", lifespan="off")).run(sockets=[listening])
"""


@contextlib.contextmanager
def starting():
    """Give what starts a server on a socket: it returns a file of the pids of what forks it and of each server."""
    ours, theirs = socket.socketpair()

    def start(listening, *arguments):
        told, tells = os.pipe()
        socket.send_fds(ours, [json.dumps(arguments).encode()], [listening.fileno(), tells])
        os.close(tells)
        return os.fdopen(told)

    number = theirs.fileno()
    with ours, subprocess.Popen([sys.executable, "-c", SERVER, str(number)], pass_fds=[number]) as process:
        theirs.close()
        yield start
        ours.shutdown(socket.SHUT_RDWR)
        process.wait()


@pytest.fixture(scope="module")
def start():
    """What starts the servers of all tests: to import everything takes longer than most of them."""
    with starting() as start:
        yield start


class Served:
    """Servers of one ledger on one socket, which outlives each of them."""

    def __init__(self, start, place, budget, name="ana"):
        self.start_one, self.place, self.budget = start, str(place), str(budget)
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.token = make_token(open_ledger(self.place), name)
        self.told, self.parents, self.running = [], [], []
        self.start()

    def start(self):
        """Start a server."""
        self.told.append(self.start_one(self.listening, self.place, self.budget))
        for pids in (self.parents, self.running):
            pids.append(int(self.told[-1].readline()))

    def kill(self):
        """Kill the first server at this moment; there is another one at once."""
        os.kill(self.running[0], signal.SIGKILL)
        self.running[0] = int(self.told[0].readline())

    def view(self):
        """Connect, as soon as there is an answer."""
        return patiently(lambda: connect(self.url, token=self.token))

    def close(self):
        """End all servers."""
        for pid in (*self.parents, *self.running):
            os.kill(pid, signal.SIGKILL)
        for each in (*self.told, self.listening):
            each.close()


def patiently(ask):
    """Ask again while the server is away."""
    end = time.monotonic() + SECONDS + 300
    while True:
        try:
            return ask()
        except LedgerError:
            if time.monotonic() > end:
                raise


@pytest.fixture(params=["file"])
def served(tmp_path, request, start):
    """What serves a table with a budget, from a ledger in a file or on PostgreSQL."""
    made, stack = [], contextlib.ExitStack()

    def serve(budget, *, own=False):
        on_server = request.param == "postgresql"
        place = request.getfixturevalue("new_database")() if on_server else tmp_path / "ledger.sqlite"
        made.append(Served(stack.enter_context(starting()) if own else start, place, budget))
        return made[0]

    with stack:
        yield serve
        for each in made:
            each.close()


class Asking:
    """Clients that ask one question after the other, each until it is answered."""

    def __init__(self, servers, clients):
        servers.view().mean("x", epsilon=1)
        self.servers, self.answers, self.errors, self.failed = servers, {}, [], []
        self.over = threading.Event()
        self.clients = [threading.Thread(target=self.run, args=(who,)) for who in range(clients)]
        for each in self.clients:
            each.start()

    def run(self, who):
        """Ask as one client."""
        try:
            view, at = self.servers.view(), 0
            while not self.over.is_set():
                part = view.where(x=(0, 0.5 + (who * 1000 + at) / 20_000))
                self.answers[who, at] = patiently(lambda part=part: self.ask(part)).value
                at += 1
        except BaseException as error:
            self.failed.append(error)
            raise

    def ask(self, part):
        """Ask once."""
        try:
            return part.mean("x", epsilon=1)
        except LedgerError as error:
            self.errors.append(error)
            raise

    def wait_for(self, more):
        """Wait for more answers, however slow the machine is."""
        had = len(self.answers)
        while len(self.answers) < had + more and not self.failed:
            time.sleep(0.01)

    def check(self, faults):
        """End; each answer is kept and was paid once, and little else was paid: two are worked on at once."""
        self.over.set()
        for each in self.clients:
            each.join()
        account = open_ledger(self.servers.place).account("served")
        assert self.failed == []
        kept = account.answers()
        calls = [entry.call for entry in account.entries()]
        questions = [answer.question for answer in kept]
        assert len(questions) == len({*questions}) >= len(self.answers) > 8
        assert {*self.answers.values()} <= {answer.release["value"] for answer in kept}
        assert {answer.call for answer in kept} <= {*calls}
        lost = {*calls} - {answer.call for answer in kept}
        assert len(lost) <= 2 * faults  # between the charge and the answer: paid, and never given away
        assert account.total_charged() == len({*calls}) == len(calls)
        assert account.ledger.problems() == []


@pytest.mark.stress
@pytest.mark.one_in(2)
@on_both
def test_what_a_killed_server_answered_is_charged_once(served):
    """Eight clients ask while servers are killed at any moment: each answer is kept, and was paid once."""
    servers = served(10**6)
    asking = Asking(servers, 8)
    rng = np.random.default_rng(8)
    for _ in range(KILLS):
        asking.wait_for(3)
        time.sleep(float(rng.uniform(0, 0.2)))
        servers.kill()

    asking.check(KILLS)


@pytest.mark.parametrize("served", ["postgresql"], indirect=True)
def test_postgresql_crashes_in_the_middle(served, new_database):
    """Clients read that the ledger cannot be used, ask again, and go on: each answer is kept, and was paid once."""
    asking = Asking(served(10**6), 4)
    crashes = 0
    while crashes < 3 or (not asking.errors and crashes < 20):
        asking.wait_for(8)
        new_database.restart()
        crashes += 1

    asking.check(crashes)
    assert asking.errors
    for each in asking.errors:
        assert re.match("The ledger of the server cannot be (read|written)", each.what), each


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own, of 20 MiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", tmp_path]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield tmp_path
    subprocess.run(["umount", "--lazy", tmp_path], check=True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("left", [0, 1 << 12, 1 << 16, 1 << 18, 15 << 20])
def test_a_full_disk_costs_nothing(small_disk, served, left):
    """Whatever is left of it, clients read what to do, nothing is charged, and all is answered afterwards."""
    servers = served(100)
    view = servers.view()
    first = view.mean("x", epsilon=1)
    other = small_disk / "other"
    other.write_bytes(bytes(shutil.disk_usage(small_disk).free - left))

    for at in range(4):
        with pytest.raises(LedgerError, match=r"released or spent\. Free space on the ledger's disk") as raised:
            view.where(x=(0, 0.5 + at / 100)).mean("x", epsilon=1)
        assert "ledger of the server" in raised.value.what
        assert str(small_disk.parent) not in str(raised.value)
    if left >= 1 << 18:
        assert view.mean("x", epsilon=1) == first
    other.unlink()

    assert view.budget.spent == len(view.releases) == 1
    assert [view.where(x=(0, 0.5 + at / 100)).mean("x", epsilon=1).privacy.epsilon for at in range(4)] == [1] * 4
    assert view.budget.spent == len(view.releases) == 5
    assert open_ledger(servers.place).problems() == []


@pytest.mark.one_in(2)
@on_both
def test_two_servers_of_one_ledger_never_overspend(served, at_once):
    """Clients ask two servers for more than there is: all of it is spent, and not a part more."""
    servers = served(2)
    servers.start()
    times = []

    def client():
        view, asked = servers.view(), 0
        try:
            while True:
                view.mean("x", epsilon="1/20", fresh=True)
                asked += 1
        except BudgetExceeded:
            times.append(asked)

    at_once(*[client] * 6)

    account = open_ledger(servers.place).account("served")
    assert sum(times) == len(account.answers()) == 40
    assert account.total_charged() == Fraction(2)


@pytest.mark.skipif(not CLOCKS, reason="libfaketime is not installed")
def test_clocks_that_jump_lose_nothing(served, tmp_path, monkeypatch):
    """Years ahead and back: charges, shares, replays and the order of releases stay; days of tokens count."""
    clock = tmp_path / "clock"
    clock.write_text("+0")
    monkeypatch.setenv("LD_PRELOAD", str(CLOCKS[0]))
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(clock))
    for name in ("NO_CACHE", "DONT_FAKE_MONOTONIC"):
        monkeypatch.setenv(f"FAKETIME_{name}", "1")
    servers = served(100, own=True)
    ledger, today = open_ledger(servers.place), dt.datetime.now(dt.UTC)
    patiently(servers.view)
    ledger.account("served").give_shares({"ana": Fraction(4)})
    until = make_token(ledger, "ana", expires=(today + dt.timedelta(30)).date().isoformat())
    asked = []
    for at, years in enumerate([0, 5, -5, 20]):
        clock.write_text(f"{365 * years:+d}d")
        view = servers.view()
        answer = view.where(x=(0, 0.5 + at / 10)).mean("x", epsilon=1)
        asked.append(answer)
        shifted = dt.datetime.fromisoformat(answer.privacy.at) - dt.timedelta(365 * years)
        assert dt.timedelta(0) <= shifted - today + dt.timedelta(seconds=1) < dt.timedelta(1)
        assert view.where(x=(0, 0.5)).mean("x", epsilon=1) == asked[0]
        if years > 0:
            with pytest.raises(dp.ArgumentError, match="expired or revoked"):
                connect(servers.url, token=until)
        else:
            connect(servers.url, token=until)

    with pytest.raises(BudgetExceeded, match="share"):
        view.mean("x", epsilon=1)
    assert list(view.releases) == asked
    assert view.budget.spent == 4
    assert ledger.problems() == []


def test_a_client_that_breaks_off_gets_its_answer_for_nothing(served):
    """What was asked by a connection that was cut is kept, and replayed when it is asked again."""
    servers = served(1)
    view = servers.view()
    asked = {"method": "mean", "arguments": {"column": "x"}, "steps": [], "by": [], "epsilon": "1/4"}
    body = json.dumps({**asked, "delta": None, "fresh": False}).encode()
    head = (
        f"POST /v1/ask/served HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {servers.token}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(servers.listening.getsockname()) as connection:
        connection.sendall(head.encode() + body[:-9])
    assert view.budget.spent == 0
    with socket.create_connection(servers.listening.getsockname()) as connection:
        connection.sendall(head.encode() + body)
        while not len(view.releases):
            time.sleep(0.05)

    answer = view.mean("x", epsilon=0.25)

    assert view.budget.spent == Fraction(1, 4)
    assert answer.privacy.epsilon == 0.25
    assert len(view.releases) == 1


def test_a_revoked_token_asks_nothing_more(served):
    """At once, on every server of the ledger, whatever else its analyst does."""
    servers = served(1)
    view = servers.view()
    view.mean("x", epsilon="1/4")
    assert revoke_tokens(open_ledger(servers.place), "ana") == 1

    with pytest.raises(dp.ArgumentError, match="revoked"):
        view.mean("x", epsilon="1/4")
    with pytest.raises(dp.ArgumentError, match="revoked"):
        connect(servers.url, token=servers.token)
