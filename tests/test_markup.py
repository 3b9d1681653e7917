"""What people look at in a notebook: tables with captions, in the colours around them, and texts as texts."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.markup import Grid
from dfprivacy.release import Groups, Value

NAME = "<b onclick='alert(1)'>\"x\"</b>"


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


@pytest.fixture
def shown():
    """The HTML of everything that has one, of a table whose names are markup."""
    df = pd.DataFrame({NAME: [1.0, 2.0] * 100, "g": ["<u>", "b"] * 100})
    view = dp.protect(df, f"s{NAME}", epsilon=9, bounds={NAME: (0, 5)}, categories={"g": ["<u>", "b"]})
    grouped = view.group_by("g")
    things = [
        view,
        view.where(g="<u>"),
        grouped,
        view.mean(NAME, epsilon=1),
        view.describe(epsilon=1),
        grouped.mean(NAME, epsilon=1),
        grouped.value_counts("g", epsilon=1),
        view.explain("mean", NAME, epsilon=1),
        view.budget,
        view.releases,
    ]
    return [thing._repr_html_() for thing in things]


def test_tables_are_whole_and_have_names(shown):
    """Every element is closed, every table has a caption, every head says whether it is of a row or a column."""
    for text in shown:
        tags = Tags(text)

        names = [tag for tag, _ in tags.found]
        assert not tags.open
        assert names.count("table") == names.count("caption") > 0
        assert {attrs.get("scope") for tag, attrs in tags.found if tag == "th"} <= {"row", "col"}


def test_texts_are_no_markup(shown):
    """Names and categories are shown as they are, and nothing is loaded or run."""
    for text in shown:
        tags = Tags(text)

        assert not {"b", "u", "script", "img"} & {tag for tag, _ in tags.found}
        assert not any(name.startswith("on") or name == "src" for _, attrs in tags.found for name in attrs)


def test_colours_are_those_around(shown):
    """No table has a colour of its own, so that it can be read in light and in dark."""
    colours = {found for text in shown for found in re.findall(r"(?:color|background)\s*:\s*([^;\"]+)", text)}

    assert colours == {"inherit", "none"}


def test_groups_are_a_table_with_a_row_for_each():
    """Numbers of the same names stand below each other."""
    groups = Groups(by=("g", "h"), groups=(("a", 1), ("b", 2)), releases=(Value(value=1.5), Value(value=2.5)))

    cells = re.findall(r"<t[hd] [^>]*>([^<]*)<", groups._repr_html_())

    assert cells == ["g, h", "value", "a, 1", "1.5", "b, 2", "2.5"]


def test_a_wide_table_is_broken_between_columns():
    """No line is wider than asked unless one column is, and each part names its rows."""
    grid = Grid(("", *"abcdef"), [("row", *["12345678"] * 6), ("two", *["1"] * 6)])

    lines = grid.lines(30)

    assert max(map(len, lines)) <= 30
    assert [line[0] for line in lines] == [" ", "r", "t"] * 3
    assert grid.lines(3)[1] == "row  12345678"
    assert all(len(line) == len(first) for first, line in itertools.pairwise(grid.lines(100)[:2]))


def test_a_table_without_rows_or_columns():
    """Nothing is shown as nothing, and fails nowhere."""
    assert Grid((), []).lines() == []
    assert Grid(("only",), [("x",)]).lines() == ["only", "x"]
    assert "<table" in Grid((), []).html("empty", "note")
