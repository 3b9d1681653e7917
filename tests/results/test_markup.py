"""What people look at: tables with captions, in the colours around them, and texts as texts, whatever they hold."""

from __future__ import annotations

import csv
import io
import itertools
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._visible import HIDDEN
from dfprivacy.cli import main
from dfprivacy.markup import Grid, markdown
from dfprivacy.release import Groups, Value

X = np.linspace(0, 5, 60)
NAMES = (
    *("\x1b[31mred\x07", "\u202etxet", "<script>alert(1)</script>", "<b onclick='alert(1)'>\"x\"</b>"),
    *("**b** [l](javascript:x) `c` | $x$", "two\nlines"),
)


class Tags(HTMLParser):
    """The elements of a fragment, and how they are nested."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag == self.open.pop()


@pytest.fixture(params=NAMES, ids=ascii)
def shown(request):
    """All that has a text, of a table whose names and categories are this."""
    name = request.param
    data = pd.DataFrame({name: X, "g": [name, "b"] * 30})
    called = "shown" if "\n" in name or HIDDEN.search(name) else name
    view = dp.protect(data, called, epsilon=100, bounds={name: (0, 5)}, categories={"g": [name, "b"]})
    grouped = view.group_by("g")
    answers = [
        view.mean(name, epsilon=1),
        view.ttest(name, "g", epsilon=1),
        view.describe(epsilon=1),
        grouped.value_counts("g", epsilon=1),
        grouped.mean(name, epsilon=1),
        view.histogram(name, epsilon=1),
    ]
    plans = [view.explain("mean", name, epsilon=1), view.plan([("mean", name)], epsilon=1), view.releases]
    return [view, view.where(g=name), grouped, view.budget, *plans, *answers]


def test_names_are_shown_and_not_obeyed(shown):
    """By a terminal, a page, Markdown or LaTeX; ends of lines stay those of the text around."""
    for each in shown:
        texts = [repr(each), each._repr_html_()]
        if isinstance(each, dp.Release):
            texts += [each.summary(), each.to_markdown(), each.to_latex()]
            assert not {"script", "b"} & {tag for tag, _ in re.findall(r"<(\w+)(\b)", each.to_markdown())}
            assert "](javascript" not in each.to_markdown().replace("\\]", "")
        for text in texts:
            assert not HIDDEN.search(text.replace("\n", ""))
            assert "\nlines" not in text


def test_tables_are_whole_and_have_names_and_no_colours(shown):
    """Elements are closed, heads say of what they are, nothing is loaded or run; all can be read in the dark."""
    for text in (each._repr_html_() for each in shown):
        tags = Tags(text)

        names = [tag for tag, _ in tags.found]
        assert not tags.open
        assert names.count("table") == names.count("caption") > 0
        assert {attrs.get("scope") for tag, attrs in tags.found if tag == "th"} <= {"row", "col"}
        assert not {"b", "u", "script", "img"} & {*names}
        assert not any(name.startswith("on") or name == "src" for _, attrs in tags.found for name in attrs)
        assert {*re.findall(r"(?:color|background)\s*:\s*([^;\"]+)", text)} <= {"inherit", "none"}


@pytest.mark.parametrize(("text", "written"), [
    ("a_b - 1.5 < 2 & c", "a_b - 1.5 &lt; 2 &amp; c"), ("_a_ *b* `c` [d](e)", "\\_a\\_ \\*b\\* \\`c\\` \\[d\\](e)"),
    ("a | b\nc", "a \\| b\\nc"), ("y ~ x, ~~z~~", "y ~ x, \\~\\~z\\~\\~"), ("# 1", "\\# 1"), ("-1.5", "-1.5"),
    ("\x1b[2J", "\\x1b\\[2J"),
])  # fmt: skip
def test_markdown_shows_what_is_written(text, written):
    """What Markdown would take for a sign is escaped, and no more."""
    assert markdown(text).replace("\\\\n", "\\n").replace("\\\\x", "\\x") == written


def test_cells_of_the_command_line_are_no_formulas(tmp_path, capsys):
    """A spreadsheet takes no text of `dfprivacy ledger --csv` for a formula."""
    ledger = str(tmp_path / "l.sqlite")
    for name in ("=1+1", "@SUM(1)", "+cmd|x", "-2+3", "＝1"):
        view = dp.protect(pd.DataFrame({"x": X}), name, epsilon=1, ledger=ledger, bounds={"x": (0, 5)})
        view.mean("x", epsilon=0.1)
    assert main(["ledger", "--ledger", ledger, "--csv"]) == 0

    rows = [*csv.reader(io.StringIO(capsys.readouterr().out))]
    assert len(rows) == 6
    assert not [cell for row in rows for cell in row if cell[:1] in "=+-@＝" and cell]


def test_groups_are_a_table_with_a_row_for_each():
    """Numbers of the same names stand below each other."""
    groups = Groups(by=("g", "h"), groups=(("a", 1), ("b", 2)), releases=(Value(value=1.5), Value(value=2.5)))

    cells = re.findall(r"<t[hd] [^>]*>([^<]*)<", groups._repr_html_())

    assert cells == ["g, h", "value", "a, 1", "1.5", "b, 2", "2.5"]


def test_groups_name_their_rows():
    """What groups were described by stands in each of their tables, and facts that few have are blank in others."""
    table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 500 + [3.0] * 2000, "g": ["a"] * 2000 + ["b"] * 2000})
    view = dp.protect(table, "rows of groups", epsilon=9, bounds={"x": (0, 5)}, categories={"g": ["a", "b"]})
    described, means = (repr(getattr(view.group_by("g"), of)("x", epsilon=3)) for of in ("describe", "mean"))

    for name in ("count", "missing", "mean", "std", "25%", "50%", "75%"):
        assert sum(name in line.split()[:2] for line in described.splitlines()) == 2
    assert means.count("rows, left out") == 1


def test_a_wide_table_is_broken_between_columns():
    """No line is wider than asked unless one column is, each part names its rows; nothing is shown as nothing."""
    grid = Grid(("", *"abcdef"), [("row", *["12345678"] * 6), ("two", *["1"] * 6)])

    lines = grid.lines(30)

    assert max(map(len, lines)) <= 30
    assert [line[0] for line in lines] == [" ", "r", "t"] * 3
    assert grid.lines(3)[1] == "row  12345678"
    assert all(len(line) == len(first) for first, line in itertools.pairwise(grid.lines(100)[:2]))
    assert Grid((), []).lines() == []
    assert Grid(("only",), [("x",)]).lines() == ["only", "x"]
    assert "<table" in Grid((), []).html("empty", "note")
