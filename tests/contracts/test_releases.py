"""What holds for every answer when it is looked at, handed on, or kept."""

from __future__ import annotations

import contextlib
import copy
import html
import inspect
import json
import math
import pickle
import re

import dfprivacy as dp
from dfprivacy.tidy import COLUMNS_MAX

PAGES = {
    "__repr__": "\n",
    "_repr_html_": "<table",
    "summary": "\n====",
    "to_markdown": "| --- |",
    "to_latex": "begin{tabular}",
}


def test_a_page_says_what_was_asked_and_how_private_it_is(question, answer):
    """Text, HTML, Markdown and LaTeX have a table, the question, and the guarantee, which a seed voids."""
    pages = set(PAGES)
    if type(answer).summary is not dp.Release.summary:  # it is as statsmodels prints it
        pages.remove("summary")
    for page in pages:
        shown = html.unescape(getattr(answer, page)()).replace("\\", "")
        assert PAGES[page] in shown, page
        assert f"{question.method}(" in shown, page
        assert "NOT PRIVATE: the noise came from a " in shown, page


def test_text_and_page_begin_with_the_same_sentence(question, answer):
    """What was found, in one sentence, comes before the tables."""
    text, _, _ = repr(answer).partition(f"\n{type(answer).__name__}: ")
    page, _, _ = answer._repr_html_().partition("<table")

    sentence = " ".join(text.split())
    assert sentence == html.unescape(re.sub(r"<[^>]*>", "", page))
    assert sentence.endswith(".")
    assert len(sentence) > 30


def test_a_table_is_tidy(question, answer):
    """Each library's table has a few columns of scalars, and the rows of the records."""
    for library in ("pandas", "polars", "pyarrow"):
        table = answer.to_frame(library)
        names = table.column_names if library == "pyarrow" else list(table.columns)
        assert type(table).__module__.startswith(library)
        assert len(table) == len(answer.records()) >= 1
        assert 1 <= len(set(names) - {"covers", *question.case.grouped}) <= COLUMNS_MAX
    cells = [cell for row in answer.records() for cell in row.values()]
    assert {type(cell) for cell in cells} <= {int, float, str, bool, type(None)}


def test_an_answer_comes_back(question, answer):
    """From JSON, from a pickle and from a copy, as equal as it went, with the same records and words."""
    for again in (
        dp.Release.from_json(answer.to_json()),
        pickle.loads(pickle.dumps(answer)),  # noqa: S301 - ours
        copy.deepcopy(answer),
    ):
        assert answer == again
        assert repr(answer.records()) == repr(again.records())  # nan is not equal to itself
        assert repr(answer) == repr(again)
        assert answer.column_words == again.column_words
    assert json.loads(answer.to_json())


def test_intervals_say_what_they_cover(question, answer):
    """An interval is of the table or of a population, limited to the bounds or not; and is in order."""
    rows = [
        row for row in answer.records() if isinstance(row.get("low"), float) and isinstance(row.get("high"), float)
    ]

    assert answer.covers in {None, "table", "population", "limited table", "limited population"}
    assert all(row["low"] <= row["high"] or math.isnan(row["low"]) for row in rows)


def test_a_picture_has_the_labels_of_columns(varied, answer, plt):
    """Texts in a picture name columns by their labels, and never by bare names."""
    figure = answer.plot().figure
    words = " | ".join(each.get_text() for each in figure.findobj(plt.Text) if each.get_visible())

    bare = [
        name for name in varied.case.columns if re.search(rf"(?<!Label of )\b{name}\b", " ".join(words.split()))
    ]
    assert words.strip(" |")
    assert bare in ([], ["by"])


def test_what_an_answer_offers_can_be_had(question, answer, tmp_path):
    """Its attributes can be read, and its methods called that need nothing or a path: else a refusal says why."""
    for name in [each for each in dir(answer) if not each.startswith("_") and each != "plot"]:
        with contextlib.suppress(dp.DPError):
            offered = getattr(answer, name)
            needed = _needed(offered) if getattr(offered, "__self__", None) is answer else None
            if needed == ["path"]:
                offered(tmp_path / name)
                assert (tmp_path / name).stat().st_size
            elif needed == []:
                offered()


def _needed(method):
    """Name the arguments that have to be given."""
    named = inspect.signature(method).parameters.values()
    return [each.name for each in named if each.default is each.empty and each.kind < each.VAR_KEYWORD]
