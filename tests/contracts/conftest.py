"""Every case of every method as a question about a made-up table, and where it has to be refused.

A method joins by the cases of its plugin, of which `dfprivacy audit` knows as well. Nothing here names one, but for
the refusals.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy.testing import Case
from dfprivacy.testing.report import all_checks

if TYPE_CHECKING:
    from collections.abc import Callable

N = 1200
EPSILON = 1
TERMS: dict[str, Any] = {"epsilon": 100, "delta": "1/10", "accounting": "basic", "ledger": "memory:"}
FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda rows: rows,
    "polars": pl.from_pandas,
    "lazy": lambda rows: pl.from_pandas(rows).lazy(),
    "arrow": lambda rows: pa.Table.from_pandas(rows, preserve_index=False),
}
NAMES = (f"contract {at}" for at in itertools.count())


@dataclass(frozen=True)
class Asked:
    """A question and the view that it is asked of: ``asked(epsilon=1)``."""

    method: str
    case: Case
    arguments: dict[str, Any]
    view: Any
    part: Any

    def __call__(self, **price):
        """Ask it."""
        return getattr(self.part, self.method)(**self.arguments, **self.price(**price))

    def price(self, **price):
        """What a question costs unless it is said."""
        return {"epsilon": EPSILON, **({"delta": self.case.delta} if self.case.delta else {}), **price}

    @property
    def spent(self):
        """What was spent of every table."""
        views = [self.view, *(each for each in self.arguments.values() if isinstance(each, dp.PrivateFrame))]
        return [view.budget.spent for view in views]


@dataclass(frozen=True)
class Question:
    """One way to call a method, and a table for it."""

    method: str
    case: Case

    def rows(self, n=N, seed=1):
        """Rows whose columns depend on each other; public ones are as even as can be.

        Another party's message is about as many rows as it says.
        """
        said = [each.rows for each in self.case.arguments.values() if isinstance(each, dp.Release)]
        return made(self.case, said[0] if said else n, seed)

    def of(self, rows=None, frame="pandas", part=None, **terms):
        """Protect rows, the usual ones by default, and ask a part of the view."""
        rows = self.rows() if rows is None else rows
        case, other = self.case, self.case.other
        known = ("bounds", "categories", "public", "missing", "neighbors")
        about = {**TERMS, **{name: getattr(case, name) for name in known}, **terms}

        def protected(rows):
            return dp.protect(FRAMES[frame](rows), next(NAMES), **about)

        def selected(view):
            view = view.where(**case.where) if case.where else view
            return view if part is None else part(view)

        tables = [rows] if other is None else [rows[rows[other] == at].drop(columns=other) for at in (False, True)]
        view, *more = map(protected, tables)
        arguments = {**case.arguments, **{str(other): selected(each) for each in more}}
        grouped = selected(view)
        grouped = grouped.group_by(*case.grouped) if case.grouped else grouped
        return Asked(self.method, case, arguments, view, grouped)


def made(case, n, seed=1):
    """Rows of a case."""
    rng = np.random.default_rng(seed)
    common, columns, runs = rng.random(n), {}, 1
    for name in case.columns:
        own = np.where(rng.random(n) < 0.5, common, rng.random(n))
        if name in case.categories:
            known = case.categories[name]
            places = (own * len(known)).astype(int)
            if name in case.public:
                places, runs = np.arange(n) // runs % len(known), runs * len(known)
            columns[name] = [known[place] for place in places]
        else:
            low, high = case.bounds[name]
            columns[name] = low + (high - low) * own
    which = {case.other: np.arange(n) % 2 == 1} if case.other else {}
    return pd.DataFrame({**columns, **which})


@cache
def questions():
    """Give every case of every bundled method."""
    audits = [check.audit for check in all_checks() if check.name == "answers"]
    bundled = [audit for audit in audits if audit.mechanism.origin.startswith("dfprivacy ")]
    return [Question(audit.mechanism.name, audit.case) for audit in bundled]


def pytest_generate_tests(metafunc):
    """Run a test of a question once for each case; one of a method for the first case of each."""
    every = questions()
    if "method" in metafunc.fixturenames:
        every = list({each.method: each for each in reversed(every)}.values())[::-1]
    for name in {"question", "method"} & set(metafunc.fixturenames):
        metafunc.parametrize(name, every, ids=[f"{each.method}({each.case})" for each in every])


@pytest.fixture
def frames():
    """What makes a frame of pandas another one."""
    return FRAMES


@pytest.fixture
def case_of():
    """The case."""
    return Case


# What is refused: by test, words of which all are in the question, and why.
REFUSED: dict[str, dict[str, str]] = {}


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Let a test end with a refusal where the table says so, and nowhere else."""
    said = REFUSED.get(pyfuncitem.originalname, {})
    asked = pyfuncitem.name.partition("[")[2]
    reasons = [reason for words, reason in said.items() if all(word in asked for word in words.split())]
    try:
        done = yield
    except dp.DPError as refused:
        if not reasons:
            raise
        assert refused.outcome == dp.DPError.outcome
        return True
    assert not reasons, f"it is not refused any more: {reasons}"
    return done
