"""What comes from outside is read in bounded time, or refused with what to write."""

from __future__ import annotations

import contextlib
import os
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._plugins.loader import registry
from dfprivacy.cli import main

pytestmark = pytest.mark.pandas(False)

SOON = 1.0  # seconds of CPU
DATA = pd.DataFrame({"x": np.linspace(0, 1, 60), "t": [1.0, 2.0, 3.0] * 20, "g": ["a", "b"] * 30, "e": [0, 1] * 30})
TERMS = {"bounds": {"x": (0, 1), "t": (0, 3)}, "categories": {"g": ["a", "b"], "e": [0, 1]}}
SCHEMA = 'name = "outside"\nepsilon = {}\n[columns.x]\nbounds = [0, {}]\n'


@pytest.fixture
def view():
    return dp.protect(DATA, "outside", epsilon=10, **TERMS)


def in_file(price="1", bound="1"):
    Path("s.toml").write_text(SCHEMA.format(price, bound), encoding="utf-8")
    return dp.request("s.toml")


def other(**terms):
    return dp.protect(DATA, "other", **{"epsilon": 1, **TERMS, **terms})


PRICES = {
    "a question": lambda view, price: view.mean("x", epsilon=price),
    "an explanation": lambda view, price: view.explain("mean", "x", epsilon=price),
    "a sample": lambda view, price: view.sample(price),
    "a plan": lambda view, price: view.plan(["describe"], epsilon=price),
    "a power": lambda view, price: view.power(("ttest", "x"), epsilon=price, delta=price),
    "a budget": lambda _, price: other(epsilon=price),
    "a delta": lambda _, price: other(delta=price),
    "a default": lambda _, price: other(default_epsilon=price),
    "a share": lambda _, price: other(budgets={"ana": price}),
    "a request": lambda _, price: in_file().mean("x", epsilon=price),
    "a file": lambda _, price: in_file(price=repr(str(price))),
}
BAD_PRICES = ["1e9999999", "1e-9999999", "1e999999999", "9" * 10**6, Decimal("1e9999999"), Decimal("sNaN")]


@pytest.mark.parametrize("price", BAD_PRICES, ids=lambda price: repr(price)[:20])
@pytest.mark.parametrize("entrance", PRICES)
def test_prices_are_read_in_bounded_time(view, tmp_path, monkeypatch, entrance, price):
    """Wherever one is given: digits and exponents are counted before anything is computed."""
    monkeypatch.chdir(tmp_path)
    registry()
    start = time.process_time()
    with pytest.raises(dp.ArgumentError, match=r"has too many digits|is not a finite number|must be"):
        PRICES[entrance](view, price)

    assert time.process_time() - start < SOON
    assert view.budget.spent == 0


DEEP: list[object] = []
for _ in range(3000):
    DEEP = [DEEP]
WIDE: list[object] = ["x"]
for _ in range(15):
    WIDE = [WIDE] * 100
BAD_VALUES = [
    10**400, 10**5000, Decimal("sNaN"), Fraction(1, 10**5000), range(10**12), "\ud800", DEEP, WIDE, "9" * 10**6
]  # fmt: skip
VALUES = {
    "bounds": lambda _, value: other(bounds={"x": (0, value)}),
    "both bounds": lambda _, value: other(bounds={"x": value}),
    "categories": lambda _, value: other(categories={"g": value}),
    "a category": lambda _, value: other(categories={"g": ["a", value]}),
    "missing": lambda _, value: other(missing={"x": value}),
    "a size": lambda _, value: other(size=value),
    "rows of one": lambda _, value: other(unit="g", max_rows=value),
    "a relation": lambda _, value: other(neighbors=value),
    "an interval": lambda view, value: view.where(x=(0, value)),
    "a value": lambda view, value: view.where(g=value),
    "a column": lambda view, value: view.mean(value, epsilon=1),
    "bins": lambda view, value: view.histogram("x", bins=value, epsilon=1),
    "edges": lambda view, value: view.kaplan_meier("t", "e", edges=value, epsilon=1),
    "a number": lambda view, value: view.ttest("x", popmean=value, epsilon=1),
    "groups": lambda view, value: view.ttest("x", "g", groups=value, epsilon=1),
    "a seed": lambda view, value: view.power(("ttest", "x"), epsilon=1, runs=1, seed=(value, value)),
    "draws": lambda view, value: dp.combine(float, view.mean("x", epsilon=0.1), draws=value),
    "an operand": lambda view, value: [value] / view.mean("x", epsilon=0.1),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("value", BAD_VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("entrance", VALUES)
def test_values_are_read_in_bounded_time(view, entrance, value):
    """Digits, characters, items and lists in lists are counted before anything else happens with them."""
    registry()
    start = time.process_time()
    with contextlib.suppress(dp.ArgumentError, TypeError):  # some are what an entrance takes
        VALUES[entrance](view, value)

    assert time.process_time() - start < 10 * SOON  # without the bounds it would not end
    assert view.budget.spent <= Fraction(1, 10)  # of what an entrance itself asks first


FILES = {
    "/dev/zero": "it is not a regular file",
    ".": "it is not a regular file",
    "pipe": "it is not a regular file",
    "large": "it has more than",
    "\0": "cannot be read",
    "missing": "No such file",
}
NO_NUMBERS = ["9" * 5000, "[" * 3000 + "]" * 3000, '"\\ud800"', "1e400"]


@pytest.mark.parametrize("name", FILES)
def test_files_that_do_not_end_are_not_read(tmp_path, monkeypatch, capsys, name):
    """Schemas and requests are files of bounded length."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("large").write_bytes(b" " * 20_000_000)
    Path("key").write_text("a" * 64, encoding="utf-8")

    with pytest.raises(dp.SchemaError, match=FILES[name]):
        dp.request(name)
    assert main(["answer", name, "--data", "t.csv", "--schema", "s.toml", "--key", "key", "--output", "o"]) == 1
    assert FILES[name] in capsys.readouterr().err


def test_many_columns_take_the_time_that_it_takes_to_read_them(tmp_path, monkeypatch):
    """Ten times the columns take ten times as long, not a hundred times; long numbers and lists are refused."""
    monkeypatch.chdir(tmp_path)
    for bound in NO_NUMBERS:
        with pytest.raises(dp.SchemaError):
            in_file(bound=bound)
    seconds = {}
    for columns in (800, 8000):
        text = 'name = "wide"\n' + "".join(f"[columns.c{i}]\nbounds = [0, 1]\n" for i in range(columns))
        Path("s.toml").write_text(text, encoding="utf-8")
        start = time.process_time()
        asked = dp.request("s.toml")
        asked.select(*asked.schema.names)
        seconds[columns] = time.process_time() - start

    assert seconds[8000] < 30 * seconds[800]


POSITIONS = {
    "ttest by": (lambda view: view.ttest("x", "g", epsilon=1), ""),
    "kernel_two_sample by": (lambda view: view.kernel_two_sample(["x"], "e", epsilon=1), ""),
    "moments by": (lambda view: view.moments(["x"], "g", epsilon=1), ""),
    "ttest popmean": (lambda view: view.ttest("x", 0.5, epsilon=1), "or write popmean=0.5."),
    "ttest side": (lambda view: view.ttest("x", "g", "less", epsilon=1), "ttest(..., alternative='less')."),
    "ztest": (lambda view: view.ztest("x", 0.5, 3, epsilon=1), "ztest(..., popmean=0.5, sigma=3)."),
    "gmm_fit": (lambda view: view.gmm_fit(["x", "t"], 3, epsilon=1), "or write n_components=3."),
}


@pytest.mark.parametrize("case", POSITIONS)
def test_arguments_by_position(case):
    """They are taken as users of SciPy and pandas expect, or the error says what to write."""
    view = dp.protect(DATA, "positions", epsilon=10, public=["e"], **TERMS)
    ask, hint = POSITIONS[case]
    if not hint:
        assert isinstance(ask(view), dp.Release)
        return
    with pytest.raises(dp.ArgumentError) as caught:
        ask(view)
    assert caught.value.hint.endswith(hint)


class Broken(list):
    """A list that fails where it is read."""

    def __iter__(self):
        raise ValueError("broken")


@pytest.mark.parametrize("ask", [
    lambda view: view.kme_release(["x"], points={"x": Broken()}, epsilon=1),
    lambda view: view.chi2_many(["g"], "h", statistic="unitcircle", method="select", alpha=5e-324, epsilon=1),
    lambda view: view.declare(bounds=pd.DataFrame({"a": [1]})),
])  # fmt: skip
def test_what_chance_found_is_refused_before_the_charge(ask):
    """A list that cannot be read, and a level that no number of this kind holds."""
    table = {"x": [0.5, 1.0] * 30, "g": ["a", "b"] * 30, "h": ["u", "u", "v", "v"] * 15}
    known = {"bounds": {"x": (0, 1)}, "categories": {"g": ["a", "b"], "h": ["u", "v"]}, "public": ["h"]}
    view = dp.protect(pd.DataFrame(table), "found by chance", epsilon=10, ledger="memory:", **known)

    with pytest.raises(dp.ArgumentError):
        ask(view)

    assert view.budget.spent == 0
