"""What every bundled method answers, as people hand it on: rows of a table, and pages with the same rows."""

from __future__ import annotations

import dataclasses
import html
import re

import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy._plugins.loader import registry
from dfprivacy.testing import seeded_noise
from dfprivacy.tidy import COLUMNS_MAX
from dfprivacy.wording import covered

MAKES = {"pandas": lambda rows: rows, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}


def test_every_bundled_method_is_asked(asked):
    """None is forgotten."""
    bundled = {name for name, each in registry().mechanisms.items() if each.origin.startswith("dfprivacy ")}

    assert bundled == set(asked)


# Tables


def checked(frame, library, keys=()):
    """The frame is of the library, and has few columns of scalars beside the keys and `covers`, named once each."""
    names = frame.column_names if library == "pyarrow" else list(frame.columns)
    rows = frame.to_pylist() if library == "pyarrow" else frame.to_dicts() if library == "polars" else (
        frame.to_dict("records"))  # fmt: skip
    assert type(frame).__module__.partition(".")[0] == library
    assert list(keys) == names[: len(keys)]
    assert 1 <= len(names) - len(keys) - ("covers" in names) <= COLUMNS_MAX
    assert len(rows) >= 1
    assert {type(cell) for row in rows for cell in row.values()} <= {int, float, str, bool, type(None)}


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


def test_pages_show_the_rows_of_the_table(method, answers):
    """Summary, Markdown and HTML have the same rows."""
    answer = answers[method]
    first = next(iter(answer.records()[0].values()))

    pages = answer.summary(), answer.to_markdown(), answer._repr_html_()
    if isinstance(first, str) and type(answer)._grid is dp.Release._grid:  # others have a matrix of their own
        for page in pages:
            assert first in html.unescape(page)
    assert r"\begin{tabular}" in answer.to_latex()


COVERS = {  # the intervals of the plugins for exploration and tests; others have tests of their own
    **dict.fromkeys(
        ("agg", "corr", "cov", "describe", "histogram", "mean", "report", "std", "sum", "var"), "limited table"
    ),
    **dict.fromkeys(
        ("count", "crosstab", "find_bounds", "median", "missing", "nunique", "profile", "quantile"), "table"
    ),
    **dict.fromkeys(("kernel_two_sample", "moments", "ttest", "ztest"), "limited population"),
    "chi2": "population",
    "value_counts": "table",
    **dict.fromkeys(("chi2_many", "chi2_unitcircle", "find_categories", "fourier_sketch", "gmm_fit"), None),
}


def test_intervals_say_what_they_cover(method, answers):
    """One field, which all looks have in words, every row of an interval holds, and JSON gives back."""
    answer = answers[method]
    covers = answer.covers
    rows = [row for row in answer.records() if isinstance(row.get("low"), float)]

    assert covers == COVERS.get(method, covers)
    assert covers in {None, "table", "population", "limited table", "limited population"}
    assert dp.Release.from_json(answer.to_json()).covers == covers
    if method in COVERS:
        assert not rows or covers is not None
        assert all(row["covers"] in {covers, str(covers).removeprefix("limited ")} for row in rows)
    if covers is not None:
        said = covered(covers, getattr(answer, "bounds", None))
        looks = (
            repr(answer),
            answer.summary(),
            answer.to_markdown().replace("\\", ""),
            html.unescape(answer._repr_html_()),
        )
        assert all(said in look for look in looks)
        assert ("limited to" in said) == covers.startswith("limited")


def test_groups_say_it_once(grouped):
    """What all groups' intervals cover is said below them, once."""
    for name in ("agg", "crosstab", "describe", "ttest"):
        said = covered(COVERS[name], getattr(grouped[name].releases[0], "bounds", None))

        for look in (repr(grouped[name]), html.unescape(grouped[name]._repr_html_())):
            assert said in look
            assert look.count("covers") == 1


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

    assert isinstance(answer.statistic, float) or name == "kruskal"  # of three groups
    assert 0 <= answer.pvalue <= 1
    assert isinstance(answer.rejected, bool)
    if name in INTERVALS:
        low, high = answer.confidence_interval()
        assert low < high
        assert (low, high) == (answer.confidence_interval().low, answer.confidence_interval().high)


# Sentences

WORDS = {
    "age": "Age at admission",
    "bmi": "Body mass index",
    "days": "Length of stay",
    "died": "Died within a month",
    "arm": "Treatment",
    "ward": "Ward",
}
UNITS = {"age": "years", "bmi": "kg/m²", "days": "days"}
WITHOUT_AN_INTERVAL = {  # tests that estimate nothing, and what is no estimate
    *("chi2_many", "chi2_unitcircle", "dcor_message", "find_bounds", "find_categories", "fourier_sketch"),
    *("gmm_fit", "kernel_locations", "kernel_message", "kme_exponential", "kme_release", "kruskal", "median"),
    *("dcor_with", "moments", "profile", "wilcoxon"),
}


def sentence_of(answer):
    """What the text says before it names the call, and what the page does before its first table."""
    text, _, _ = repr(answer).partition(f"\n{type(answer).__name__}: ")
    page, _, _ = answer._repr_html_().partition("<table")
    return " ".join(text.split()), html.unescape(re.sub(r"<[^>]*>", "", page))


def test_sentences_name_the_columns(method, answers):
    """Columns are named by their labels, and by nothing else; where only rows are counted, the condition is."""
    answer = answers[method]
    text, _ = sentence_of(answer)
    told = {name for name in WORDS if re.search(rf"\b{name}\b", answer.privacy.question)}

    if method in {"count", "describe", "profile", "report"}:  # asked of all columns, or of rows
        assert ("Where ward = a" in text) == (method == "count")
        assert ("Age at admission" in text) == (method != "count")
        return
    named = {name for name in WORDS if WORDS[name] in text}
    if method in {"chi2_many", "dcor_screen"}:  # of those that were asked, the ones that were found
        assert len(named) >= 2 - (method == "chi2_many" and "arm" not in named)
        return
    if method in {"corr", "kernel_locations", "moments"}:
        told -= {"days", "arm"}
    if method in {"logit", "ols"}:  # the clearest of the coefficients
        told -= {"age", "ward"}
        assert {"age", "ward"} & named
    assert told <= named
    bare = text.replace("Ward = ", "").replace("days", "")
    assert not any(re.search(rf"\b{name}\b", bare) for name in set(WORDS) - {"days"}), text


def test_sentences_hold_the_interval(method, answers):
    """Where there is an interval the sentence has it, with its coverage; where there is a p-value, that too."""
    text, _ = sentence_of(answers[method])

    assert ("95% CI" in text) == (method not in WITHOUT_AN_INTERVAL), text
    if isinstance(getattr(answers[method], "pvalue", None), float):
        assert re.search(r"p (<|=) 0\.\d+", text), text


def test_numbers_in_sentences_have_units(answers):
    """Those that the schema says."""
    for method, unit in [("mean", "years"), ("ttest", "years"), ("ztest", "years"), ("kaplan_meier", "days")]:
        assert f" {unit}" in sentence_of(answers[method])[0]
    assert "(years)²" in sentence_of(answers["var"])[0]
    assert "kg/m²" in sentence_of(answers["ols"])[0]


def test_sentences_say_what_the_noise_did(answers):
    """Which part of an interval's width is there because of it, where both parts are known."""
    for method in ("ttest", "ztest", "anova", "ols", "logit", "proportions"):
        assert re.search(r"[\d.e-]+% of its width is privacy noise", sentence_of(answers[method])[0])
    for method in ("mean", "value_counts", "histogram", "crosstab", "corr", "dcor"):
        assert "privacy noise only" in sentence_of(answers[method])[0]


def test_sentences_of_groups_say_the_ends(grouped):
    """Of numbers the lowest group and the highest, each with its interval; else the first group's answer."""
    text, page = sentence_of(grouped["ttest"])
    other, _ = sentence_of(grouped["proportions"])

    assert text == page
    assert "lowest" in text
    assert "Highest" in text
    assert text.count("95% CI") == 2
    assert "3 groups of Ward" in text
    assert "Ward" in other
    assert "95% CI" in other


def test_an_answer_that_says_nothing_says_so_first(protect, rows):
    """The sentence begins with it."""
    view = protect(rows.head(20))

    for ask in (
        lambda: view.ttest("age", by="ward", groups=["a", "b"], epsilon=0.05),
        lambda: view.mean("age", epsilon=0.05),
        lambda: view.value_counts("ward", epsilon=0.02),
        lambda: view.proportions("died", success="yes", epsilon=0.02),
        lambda: view.dcor("age", "bmi", epsilon=0.02),
    ):
        with seeded_noise(3):
            text, page = sentence_of(ask())
        assert text.startswith("Uninformative: "), text
        assert page.startswith("Uninformative: ")


def test_third_parties_have_a_sentence():
    """Made from the question, the first estimate, its interval and its p-value."""

    @dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
    class Middle(dp.Release):
        middle: float
        low: float
        high: float
        confidence: float = 0.9
        pvalue: float = 0.25
        notes: tuple[str, ...] = ()

    plain = Middle(middle=40.0, low=38.0, high=42.0)
    doubtful = dataclasses.replace(plain, notes=("uninformative: the noise reaches both bounds",))

    assert repr(plain).startswith("This Middle gives middle 40.0 (90% CI 38.0 to 42.0; p = 0.250).\nMiddle\n")
    assert repr(doubtful).startswith("Uninformative: this Middle gives")


def test_a_page_speaks_in_the_words_of_the_schema(answers, tmp_path):
    """Headings, tables and pictures of a report name columns by labels with units, never by their bare names."""
    page = html.unescape(answers["report"].save(tmp_path / "report.html").read_text())
    shown = re.sub(r"<style>.*?</style>|<details>.*?</details>|<[^>]*>", " ", page, flags=re.DOTALL)

    assert '<h2 id="column-1">Age at admission (years)</h2>' in page
    assert not re.search(r"\b(age|bmi|days|died|arm|ill|event)\b(?<!\(days)", shown.replace("(days)", ""))
