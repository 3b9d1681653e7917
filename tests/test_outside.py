"""What comes from outside is read in bounded time, and what goes out shows each of its characters."""

from __future__ import annotations

import contextlib
import csv
import html.parser
import io
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
from dfprivacy._visible import HIDDEN
from dfprivacy.cli import main
from dfprivacy.markup import markdown
from dfprivacy_audit.cases import cases_of

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
    10**400,
    10**5000,
    Decimal("sNaN"),
    Fraction(1, 10**5000),
    range(10**12),
    "\ud800",
    DEEP,
    WIDE,
    "9" * 10**6,
]
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
    "/dev/zero": "it is no file",
    ".": "it is no file",
    "pipe": "it is no file",
    "large": "it has more than",
    "\0": "cannot be read",
    "missing": "No such file",
}


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


@pytest.mark.parametrize(
    "bound", ["9" * 5000, "[" * 3000 + "]" * 3000, '"\\ud800"', "1e400"], ids=lambda text: text[:5]
)
def test_numbers_and_lists_in_files(tmp_path, monkeypatch, bound):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dp.SchemaError):
        in_file(bound=bound)


def test_many_columns_take_the_time_that_it_takes_to_read_them(tmp_path, monkeypatch):
    """Ten times the columns take ten times as long, not a hundred times."""
    monkeypatch.chdir(tmp_path)
    seconds = {}
    for columns in (800, 8000):
        text = 'name = "wide"\n' + "".join(f"[columns.c{i}]\nbounds = [0, 1]\n" for i in range(columns))
        Path("s.toml").write_text(text, encoding="utf-8")
        start = time.process_time()
        asked = dp.request("s.toml")
        asked.select(*asked.schema.names)
        seconds[columns] = time.process_time() - start

    assert seconds[8000] < 30 * seconds[800]


NAMES = (
    "\x1b[31mred\x07",
    "\u202etxet",
    "<script>alert(1)</script>",
    "**b** [l](javascript:x) `c` | $x$",
    "two\nlines",
)


@pytest.fixture(params=NAMES, ids=ascii)
def shown(request):
    """All that has a text, of a table whose names and categories are this."""
    name = request.param
    data = pd.DataFrame({name: DATA["x"], "g": [name, "b"] * 30})
    view = dp.protect(data, "shown", epsilon=100, bounds={name: (0, 1)}, categories={"g": [name, "b"]})
    answers = [
        view.mean(name, epsilon=1),
        view.ttest(name, "g", epsilon=1),
        view.describe(epsilon=1),
        view.value_counts("g", epsilon=1),
        view.group_by("g").mean(name, epsilon=1),
        view.histogram(name, epsilon=1),
    ]
    plans = [view.explain("mean", name, epsilon=1), view.plan([("mean", name)], epsilon=1), view.releases]
    return [view, view.where(g=name), view.group_by("g"), *plans, *answers]


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)


def test_names_are_shown_and_not_obeyed(shown):
    """By a terminal, a page, Markdown or LaTeX; ends of lines stay those of the text around."""
    for each in shown:
        texts = [repr(each), each._repr_html_()]
        if isinstance(each, dp.Release):
            texts += [each.summary(), each.to_markdown(), each.to_latex()]
            assert not {"script", "b"} & Tags(each.to_markdown()).found
            assert "](javascript" not in each.to_markdown().replace("\\]", "")
        for text in texts:
            assert not HIDDEN.search(text.replace("\n", ""))
            assert "\nlines" not in text
        assert "script" not in Tags(each._repr_html_()).found


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a_b - 1.5 < 2 & c", "a_b - 1.5 &lt; 2 &amp; c"),
        ("_a_ *b* `c` [d](e)", "\\_a\\_ \\*b\\* \\`c\\` \\[d\\](e)"),
        ("a | b\nc", "a \\| b\\\\nc".replace("\\\\n", "\\n")),
        ("y ~ x, ~~z~~", "y ~ x, \\~\\~z\\~\\~"),
        ("# 1", "\\# 1"),
        ("-1.5", "-1.5"),
        ("\x1b[2J", "\\\\x1b\\[2J".replace("\\\\x", "\\x")),
    ],
)
def test_markdown_shows_what_is_written(text, written):
    assert markdown(text).replace("\\\\n", "\\n").replace("\\\\x", "\\x") == written


def test_cells_of_the_command_line_are_no_formulas(tmp_path, capsys):
    """A spreadsheet takes no text of `dfprivacy ledger --csv` for a formula."""
    ledger = str(tmp_path / "l.sqlite")
    for name in ("=1+1", "@SUM(1)", "+cmd|x", "-2+3", "＝1"):
        dp.protect(DATA, name, epsilon=1, ledger=ledger, **TERMS).mean("x", epsilon=0.1)
    assert main(["ledger", "--ledger", ledger, "--csv"]) == 0

    rows = [*csv.reader(io.StringIO(capsys.readouterr().out))]
    assert len(rows) == 6
    assert not [cell for row in rows for cell in row if cell[:1] in "=+-@＝" and cell]


POSITIONS = {
    "ttest by": (lambda view: view.ttest("x", "g", epsilon=1), ""),
    "kernel_two_sample by": (lambda view: view.kernel_two_sample(["x"], "e", epsilon=1), ""),
    "moments by": (lambda view: view.moments(["x"], "g", epsilon=1), ""),
    "ttest popmean": (lambda view: view.ttest("x", 0.5, epsilon=1), "or write popmean=0.5."),
    "ttest side": (lambda view: view.ttest("x", "g", "less", epsilon=1), "such as ttest(..., alternative='less')."),
    "ztest": (lambda view: view.ztest("x", 0.5, 3, epsilon=1), "such as ztest(..., popmean=0.5, sigma=3)."),
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


FINDS = [each.name for each in registry().mechanisms.values() if each.maker is not None]


@pytest.mark.parametrize("name", FINDS)
def test_power_of_each_method_that_says_what_to_find(name):
    """Rows are made of the arguments that the method has, whichever those are."""
    case = next(each for each in cases_of(registry().mechanisms[name]) if not each.other)
    terms = {"bounds": case.bounds, "categories": case.categories, "public": case.public}
    finder = (lambda _: True) if name == "kaplan_meier" else None
    question = (name, dict(case.arguments))
    found = dp.power(question, n=40, epsilon=1, runs=2, neighbors=case.neighbors, finder=finder, **terms)

    assert 0 <= found.shares[0][0] <= 1


def test_made_up_rows_need_nothing_that_a_method_does_not_have():
    """Whoever writes a plugin hears so at once, and not whoever asks for the power."""

    @dp.mechanism(columns={"column": "numeric"})
    def alone(curator, column):
        """Answer nothing."""

    with pytest.raises(dp.errors.PluginError, match="need 'by', which is no parameter"):
        alone.assumes(lambda rng, n, column, by: {})


@pytest.mark.parametrize(
    "ask",
    [
        lambda view: view.kme_release(["x"], points={"x": Broken()}, epsilon=1),
        lambda view: view.chi2_many(["g"], "h", statistic="unitcircle", method="select", alpha=5e-324, epsilon=1),
        lambda view: view.declare(bounds=pd.DataFrame({"a": [1]})),
    ],
)
def test_what_chance_found_is_refused_before_the_charge(ask):
    """A list that cannot be read, and a level that no number of this kind holds."""
    table = {"x": [0.5, 1.0] * 30, "g": ["a", "b"] * 30, "h": ["u", "u", "v", "v"] * 15}
    known = {"bounds": {"x": (0, 1)}, "categories": {"g": ["a", "b"], "h": ["u", "v"]}, "public": ["h"]}
    view = dp.protect(pd.DataFrame(table), "found by chance", epsilon=10, ledger="memory:", **known)

    with pytest.raises(dp.ArgumentError):
        ask(view)

    assert view.budget.spent == 0


class Broken(list):
    """A list that fails where it is read."""

    def __iter__(self):
        raise ValueError("broken")
