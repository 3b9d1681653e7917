"""What every bundled method answers, as people hand it on: rows of a table, and pages with the same rows."""

from __future__ import annotations

import html

import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy._plugins.loader import registry
from dfprivacy.tidy import COLUMNS_MAX

MAKES = {"pandas": lambda rows: rows, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}


def test_every_bundled_method_is_asked(asked):
    """None is forgotten."""
    bundled = {name for name, each in registry().mechanisms.items() if each.origin.startswith("dfprivacy ")}

    assert bundled == set(asked)


# Tables


def checked(frame, library, keys=()):
    """The frame is of the library, and has few columns of scalars beside the keys, named once each."""
    names = frame.column_names if library == "pyarrow" else list(frame.columns)
    rows = frame.to_pylist() if library == "pyarrow" else frame.to_dicts() if library == "polars" else (
        frame.to_dict("records"))  # fmt: skip
    assert type(frame).__module__.partition(".")[0] == library
    assert list(keys) == names[: len(keys)]
    assert 1 <= len(names) - len(keys) <= COLUMNS_MAX
    assert len(rows) >= 1
    assert {type(cell) for row in rows for cell in row.values()} <= {int, float, str, bool, type(None)}


@pytest.mark.parametrize("library", MAKES)
def test_a_table_of_estimates(method, library, answers):
    """Every method's answer is a tidy table: at most ten columns of scalars, in the library of whoever asked."""
    checked(answers[method].made_for(library).to_frame(), library)


@pytest.mark.parametrize("library", MAKES)
def test_a_table_is_of_the_library_that_was_asked(library, protect, rows, asked):
    """Nobody has to name the library of their own frame."""
    view = protect(MAKES[library](rows))

    for name in ("ttest", "mean", "crosstab", "ols", "moments"):
        checked(asked[name](view).to_frame(), library)


@pytest.mark.parametrize("library", MAKES)
def test_tables_of_groups_begin_with_the_keys(library, grouped):
    """The group comes before what is stated of it, under another name where that is taken."""
    for name, answer in grouped.items():
        checked(answer.to_frame(library), library, ["ward_"] if name == "crosstab" else ["ward"])


def test_all_that_is_known_stays_in_json(method, answers):
    """What a table has no room for is in the attributes, and comes back from JSON, with the words of columns."""
    again = dp.Release.from_json(answers[method].to_json())

    assert again == answers[method]
    assert again.column_words == answers[method].column_words
    assert repr(again.records()) == repr(answers[method].records())  # NaN is not equal to itself


def test_pages_show_the_rows_of_the_table(method, answers):
    """Summary, Markdown and HTML have the same rows."""
    answer = answers[method]
    first = next(iter(answer.records()[0].values()))

    pages = answer.summary(), answer.to_markdown(), answer._repr_html_()
    if isinstance(first, str) and type(answer)._grid is dp.Release._grid:  # others have a matrix of their own
        for page in pages:
            assert first in html.unescape(page)
    assert r"\begin{tabular}" in answer.to_latex()


TESTS = [
    "anova",
    "chi2",
    "dcor",
    "kruskal",
    "kernel_two_sample",
    "mannwhitneyu",
    "mcnemar",
    "survival_test",
    "ttest",
    "wilcoxon",
    "ztest",
]
INTERVALS = ["chi2", "dcor", "kernel_two_sample", "mannwhitneyu", "mcnemar", "survival_test", "ttest", "ztest"]


@pytest.mark.parametrize("name", TESTS)
def test_tests_have_the_names_of_scipy(name, answers):
    """A statistic, a p-value, and an interval where there is one."""
    answer = answers[name]

    assert isinstance(answer.statistic, float)
    assert 0 <= answer.pvalue <= 1
    assert isinstance(answer.rejected, bool)
    if name in INTERVALS:
        low, high = answer.confidence_interval()
        assert low < high
        assert (low, high) == (answer.confidence_interval().low, answer.confidence_interval().high)
