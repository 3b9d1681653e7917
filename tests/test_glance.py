"""Looks at a ledger file that are spared because nobody has written it."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._ledger.glance import Glance

SETTLED = 0.3  # seconds


@pytest.fixture(autouse=True)
def _fine_clock(monkeypatch):
    """The clocks of today's file systems tick a hundred times a second; nobody need wait for the coarsest."""
    monkeypatch.setattr("dfprivacy._ledger.glance._TICK", 0.2)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


class Looks:
    """A table of one number, and how often it was read."""

    def __init__(self, path, mode):
        self.path, self.often = path, 0
        self.writer = sqlite3.connect(path, isolation_level=None)
        self.writer.execute(f"PRAGMA journal_mode = {mode}")
        self.writer.execute("CREATE TABLE numbers (number INTEGER)")
        self.writer.execute("INSERT INTO numbers VALUES (0)")

    def write(self, number):
        self.writer.execute("UPDATE numbers SET number = ?", [number])

    def read(self):
        self.often += 1
        with closing(sqlite3.connect(self.path)) as reader:
            return reader.execute("SELECT number FROM numbers").fetchone()[0]


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_every_write_is_seen(path, mode, closed):
    """Whatever is written, in whichever file, is read; what was written a moment ago is read each time."""
    looks = Looks(path, mode)
    glance = Glance(path)
    if closed:  # and what was written ahead is written back
        looks.writer.close()
    time.sleep(SETTLED)
    first = [glance("number", looks.read) for _ in range(3)]
    often = [looks.often]
    if closed:
        looks.writer = sqlite3.connect(path, isolation_level=None)

    seen = []
    for number in range(1, 20):
        looks.write(number)
        seen += [glance("number", looks.read), glance("number", looks.read)]
    often.append(looks.often)

    assert first == [0, 0, 0]
    assert seen == [number for number in range(1, 20) for _ in range(2)]
    assert often == [1, 1 + 2 * 19]


def test_questions_are_kept_apart(path):
    """Each question has an answer of its own."""
    Looks(path, "WAL").writer.close()
    glance = Glance(path)
    time.sleep(SETTLED)

    answers = [glance(question, lambda question=question: question) for question in [*"abc", *"cba"]]

    assert answers == [*"abc", *"cba"]


def test_another_file_in_its_place_is_read(path):
    """A file that was replaced, or is gone, is another one, whatever its age."""
    looks, other = Looks(path, "DELETE"), Looks(path.with_name("other"), "DELETE")
    other.write(7)
    for each in (looks, other):
        each.writer.close()
    glance = Glance(path)
    time.sleep(SETTLED)
    before = glance("number", looks.read)

    other.path.replace(path)
    after = glance("number", looks.read)

    assert (before, after) == (0, 7)


def test_an_explanation_sees_what_others_have_measured(path):
    """What another process keeps is found, however often was looked before, and what is found stays right."""

    def view():
        frame = pd.DataFrame({"x": np.linspace(0, 1, 100)})
        return dp.protect(frame, "glance", epsilon=10, bounds={"x": (0, 1)}, ledger=path)

    asked, other = view(), view()
    time.sleep(SETTLED)
    before = [asked.explain("ttest", "x", epsilon=0.5).left for _ in range(3)]

    other.ttest("x", epsilon=0.5)

    assert before == [0.5] * 3
    assert asked.explain("ttest", "x", epsilon=0.5).left == 0
    time.sleep(SETTLED)
    assert [asked.explain("ttest", "x", epsilon=e).left for e in (0.5, 0.25, 1)] == [0, 0, 1]
