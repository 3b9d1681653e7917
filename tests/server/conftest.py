"""A real server on a free port: uvicorn in a thread, a ledger in a file, and a browser without scripts."""

from __future__ import annotations

import http.client
import re
import threading
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode, urljoin, urlsplit

import numpy as np
import pandas as pd
import pytest

from dfprivacy.remote import connect
from dfprivacy.server.config import read_config
from dfprivacy.server.tokens import make_token

SCHEMA = """
name = "trial"
epsilon = 20
[columns.weight]
bounds = [40, 160]
label = "weight <b>now</b>"
units = "kg"
[columns.age]
bounds = [0, 100]
[columns.arm]
categories = ["drug", "<script>alert(1)</script>"]
"""


@pytest.fixture
def clinic(tmp_path):
    """The folder of a custodian: a table, its schema, and the server's file."""
    rng = np.random.default_rng(35)
    rows = {"weight": rng.normal(80, 12, 2000), "age": rng.integers(18, 90, 2000), "arm": ["drug", "other"] * 1000}
    pd.DataFrame(rows).to_parquet(tmp_path / "trial.parquet")
    (tmp_path / "trial.toml").write_text(SCHEMA)
    (tmp_path / "clinic.toml").write_text(
        'ledger = "ledger.sqlite"\n[tables.trial]\ndata = "trial.parquet"\nschema = "trial.toml"\n'
    )
    return tmp_path


def at_once(*asks):
    """Call functions in threads that begin at one moment; wait until all have ended."""
    together = threading.Barrier(len(asks))

    def begin(ask):
        together.wait()
        ask()

    threads = [threading.Thread(target=begin, args=(ask,)) for ask in asks]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


@pytest.fixture(name="at_once")
def _at_once():
    return at_once


class Listening(threading.Thread):
    """`serve` in a thread, until the test is over."""

    def __init__(self, held):
        super().__init__(daemon=True)
        self.held, self.address, self._ready = held, "", threading.Event()

    def run(self):
        from dfprivacy.server import run

        run.serve(self.held, self.announce, port=0)

    def announce(self, address):
        self.address = address
        self._ready.set()

    def wait(self):
        assert self._ready.wait(60)
        return self


@dataclass
class Served:
    """A server that listens, with a token of each kind."""

    held: object
    address: str
    analyst: str
    custodian: str

    def connect(self, token=None):
        return connect(self.address, "trial", token=token or self.analyst)

    def browser(self, *, logged_in=True):
        browser = Browser(self.address)
        if logged_in:
            browser.open("login")
            browser.send("login", token=self.custodian)
            assert browser.status == 200
        return browser


@pytest.fixture
def serve(clinic, monkeypatch):
    """A function that serves the clinic, with a change of its file."""
    import uvicorn

    servers = []
    real = uvicorn.Server.run

    def remembered(self, *args, **kwargs):
        servers.append(self)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(uvicorn.Server, "run", remembered)
    threads = []

    def start(first=""):
        file = clinic / "clinic.toml"
        file.write_text(first + file.read_text())
        held = read_config(file)
        tokens = make_token(held.ledger, "ana"), make_token(held.ledger, "carla", role="custodian")
        threads.append(Listening(held))
        threads[-1].start()
        return Served(held, threads[-1].wait().address, *tokens)

    yield start
    for server in servers:
        server.should_exit = True
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
        thread.held.ledger.close()


class Forms(HTMLParser):
    """The forms of a page, by where they go: a list of their hidden fields each."""

    def __init__(self, text):
        super().__init__()
        self.found, self.tags = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append((tag, given))
        if tag == "form":
            self.found.append((given.get("action"), {}))
        elif tag == "input" and given.get("type") == "hidden" and self.found:
            self.found[-1][1][given["name"]] = given["value"]


@dataclass
class Browser:
    """What a browser does without scripts: it keeps cookies, follows redirects, and sends forms as they are."""

    address: str
    cookies: dict = field(default_factory=dict)
    status: int = 0
    text: str = ""
    headers: dict = field(default_factory=dict)
    where: str = ""

    def open(self, where, form=None, *, follow=True, headers=()):
        self.where = urljoin(self.address + "/", where)
        parts = urlsplit(self.where)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()), **dict(headers)}
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        if form is None:
            connection.request("GET", path, headers=sent)
        else:
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", path, form if isinstance(form, bytes) else urlencode(form), {**sent, **kind})
        answer = connection.getresponse()
        self.status, self.text, self.headers = answer.status, answer.read().decode(), answer.headers
        connection.close()
        for each in self.headers.get_all("Set-Cookie") or ():
            name, value = re.match(r"([^=]*)=([^;]*)", each).groups()
            self.cookies[name] = value
        if follow and self.status == 303:
            self.open(self.headers["Location"])
        return self

    def forms(self, action):
        return [fields for where, fields in Forms(self.text).found if where == action]

    def send(self, action, at=0, *, follow=True, **fields):
        """Send a form of the page, with some fields filled in."""
        return self.open(action, {**self.forms(action)[at], **fields}, follow=follow)
