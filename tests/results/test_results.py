"""What every bundled method answers of one table whose columns have words: in tables, sentences and pictures."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.cli import main
from dfprivacy.testing import seeded_noise
from dfprivacy.wording import covered_phrase

if TYPE_CHECKING:
    from collections.abc import Callable

N = 1200
SCHEMA = """
name = "clinic"
epsilon = 1_000_000
delta = "0.1"
accounting = "basic"

[columns]
age = {bounds = [18, 90], label = "Age at admission", units = "years"}
bmi = {bounds = [15, 45], label = "Body mass index", units = "kg/m²"}
days = {bounds = [0, 30], label = "Length of stay", units = "days"}
event = {categories = [0, 1], label = "Discharged"}
died = {categories = ["no", "yes"], label = "Died within a month"}
ill = {categories = ["no", "yes"], label = "Ill before"}
arm = {categories = ["drug", "placebo"], label = "Treatment", public = true}
ward = {categories = ["a", "b", "c"], label = "Ward"}
"""
AGE, BMI, DAYS, DIED, ARM, WARD = (
    "Age at admission",
    "Body mass index",
    "Length of stay",
    "Died within a month",
    "Treatment",
    "Ward",
)
UNITS = {AGE: "years", BMI: "kg/m²", DAYS: "days"}
COLUMNS = {"age": AGE, "bmi": BMI, "days": DAYS, "died": DIED, "arm": ARM, "ward": WARD}
TWO = ["age", "bmi"]
TABLE, ROWS, POPULATION, LIMITED = "limited table", "table", "population", "limited population"
NOT_COVERED, ANY = None, "any"
ASKED: dict[str, tuple[Callable[[Any], Any], str | None, str]] = {  # the question, what is covered, what is drawn
    "agg": (lambda ask: ask({"age": ["mean", "median"], "ward": "top"}), TABLE, "age"),
    "anova": (lambda ask: ask("age", by="ward"), ANY, "age ward"),
    "chi2": (lambda ask: ask("died", by="arm"), POPULATION, "died arm"),
    "chi2_many": (lambda ask: ask(["died", "ill"], "arm"), NOT_COVERED, "died arm"),
    "chi2_unitcircle": (lambda ask: ask("died", "arm", margin="public_rate", rate=0.3), NOT_COVERED, "died arm"),
    "corr": (lambda ask: ask(["age", "bmi", "days"]), TABLE, "age bmi days"),
    "count": (lambda ask: ask(), ROWS, ""),
    "cov": (lambda ask: ask(TWO), TABLE, "age bmi"),
    "crosstab": (lambda ask: ask("ward", "died"), ROWS, "died ward"),
    "dcor": (lambda ask: ask("age", "bmi"), ANY, "age bmi"),
    "dcor_message": (lambda ask: ask("age"), ANY, ""),
    "dcor_screen": (lambda ask: ask("age", ["bmi", "days"], top=1, estimate=True), ANY, "age bmi"),
    "dcor_with": (lambda ask: ask(ask.view.dcor_message("bmi", epsilon=E), "age"), ANY, "age bmi"),
    "describe": (lambda ask: ask(), TABLE, "age"),
    "find_bounds": (lambda ask: ask(TWO), ROWS, "age bmi"),
    "find_categories": (lambda ask: ask(["ward"], delta=1e-6), NOT_COVERED, "ward"),
    "fourier_sketch": (lambda ask: ask(TWO, max_components=2, delta=1e-6), NOT_COVERED, "age bmi"),
    "gmm_fit": (lambda ask: ask(TWO, "arm"), NOT_COVERED, "age bmi arm"),
    "hazard_ratio": (lambda ask: ask("days", "event", 6, by="arm"), ANY, "arm"),
    "histogram": (lambda ask: ask("age", bins=8), TABLE, "age"),
    "hsic": (lambda ask: ask("age", "bmi"), ANY, "age bmi"),
    "kaplan_meier": (lambda ask: ask("days", "event", 6, by="arm"), ANY, "days arm"),
    "kernel_locations": (lambda ask: ask(TWO, by="arm"), ANY, ""),
    "kernel_message": (lambda ask: ask(TWO, delta=1e-6), ANY, ""),
    "kernel_two_sample": (lambda ask: ask(TWO, by="arm", lengthscale=5.0, delta=1e-6), LIMITED, "age bmi"),
    "kme_exponential": (lambda ask: ask(TWO), ANY, "age bmi"),
    "kme_release": (lambda ask: ask(TWO, delta=1e-6), ANY, "age bmi"),
    "synth": (lambda ask: ask(TWO, delta=1e-6), ANY, "age bmi"),
    "kruskal": (lambda ask: ask("age", by="ward"), ANY, "age ward"),
    "logit": (lambda ask: ask("died ~ age + C(ward)"), ANY, "age died ward"),
    "mannwhitneyu": (lambda ask: ask("age", by="arm"), ANY, "age arm"),
    "mcnemar": (lambda ask: ask("died", "ill", success="yes"), ANY, "died"),
    "mean": (lambda ask: ask("age"), TABLE, "age"),
    "median": (lambda ask: ask("age"), ROWS, "age"),
    "missing": (lambda ask: ask("age"), ROWS, "age"),
    "moments": (lambda ask: ask(TWO, by="arm"), LIMITED, "age bmi"),
    "nunique": (lambda ask: ask("ward"), ROWS, "ward"),
    "ols": (lambda ask: ask("bmi ~ age + C(ward)"), ANY, "age bmi ward"),
    "profile": (lambda ask: ask(delta=1e-6), ROWS, "age bmi days"),
    "proportions": (lambda ask: ask("died", by="arm", success="yes"), ANY, "died arm"),
    "quantile": (lambda ask: ask("age", [0.25, 0.5, 0.75], covers="table"), ROWS, "age"),
    "report": (lambda ask: ask(), TABLE, "age bmi days"),
    "std": (lambda ask: ask("age"), TABLE, "age"),
    "sum": (lambda ask: ask("age"), TABLE, "age"),
    "survival_test": (lambda ask: ask("days", "event", by="arm"), ANY, "days arm"),
    "ttest": (lambda ask: ask("age", by="arm"), LIMITED, "age arm"),
    "value_counts": (lambda ask: ask("ward"), ROWS, "ward"),
    "var": (lambda ask: ask("age"), TABLE, "age"),
    "wilcoxon": (lambda ask: ask("age", popmean=50), ANY, "age"),
    "ztest": (lambda ask: ask("age", popmean=50, sigma=15), LIMITED, "age"),
}
E = 20  # the epsilon of each
BY_GROUP = ("agg", "crosstab", "describe", "ols", "proportions", "ttest")


class Ask:
    """A method of a view, which is asked by calling it."""

    def __init__(self, view, method):
        self.view, self.method = view, method

    def __call__(self, *args, **asked):
        return getattr(self.view, self.method)(*args, **asked, epsilon=E)


def ask(view, method):
    """Ask a method its question."""
    return ASKED[method][0](Ask(view.where(ward="a") if method == "count" else view, method))


def patients():
    """The drug makes the older ones leave later."""
    rng = np.random.default_rng(20_261_122)
    arm = np.array(["drug", "placebo"])[np.arange(N) % 2]
    age = np.clip(rng.normal(52, 14, N) + 5 * (arm == "drug"), 18, 90)
    return pd.DataFrame({
        "age": age,
        "bmi": np.clip(27 + 0.1 * (age - 52) + rng.normal(0, 4, N), 15, 45),
        "days": np.clip(rng.exponential(6 + 4 * (arm == "drug")), 0, 30),
        "event": (rng.random(N) < 0.8).astype(int),
        "died": np.where(rng.random(N) < 0.1 + 0.2 * (arm == "drug"), "yes", "no"),
        "ill": np.where(rng.random(N) < 0.4, "yes", "no"),
        "arm": arm,
        "ward": rng.choice(["a", "b", "c"], N),
    })  # fmt: skip


@pytest.fixture(scope="module")
def protect(tmp_path_factory):
    """Protect rows by the schema."""
    path = tmp_path_factory.mktemp("schema") / "clinic.toml"
    path.write_text(SCHEMA, encoding="utf-8")
    return lambda rows: dp.protect(rows, "clinic", schema=path, ledger="memory:")


@pytest.fixture(scope="module")
def answers(protect):
    """What each method answers."""
    view = protect(patients())
    with seeded_noise(1):
        return {method: ask(view, method) for method in ASKED}


@pytest.fixture(scope="module")
def grouped(protect):
    """What some methods answer by group."""
    view = protect(patients()).group_by("ward")
    with seeded_noise(1):
        return {method: ask(view, method) for method in BY_GROUP}


def test_every_bundled_method_is_asked(capsys):
    """None is forgotten."""
    main(["plugins", "--json"])

    plugins = json.loads(capsys.readouterr().out)["plugins"]
    assert set(ASKED) == {
        name for each in plugins if each["distribution"] == "dfprivacy" for name in each["methods"]
    }


# Tables


def test_the_key_of_groups_comes_first(grouped):
    """Under another name where that is taken; the contracts see of which library a table is, and what is in it."""
    for method, answer in grouped.items():
        assert next(iter(answer.to_frame())) == ("ward_" if method == "crosstab" else "ward")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", ASKED)
def test_intervals_say_what_they_cover(method, answers):
    """One field, which all looks have in words, and every row of an interval; all pages have the table's rows."""
    answer, expected = answers[method], ASKED[method][1]
    rows = [row for row in answer.records() if isinstance(row.get("low"), float)]
    looks = [
        repr(answer),
        answer.summary(),
        answer.to_markdown().replace("\\", ""),
        html.unescape(answer._repr_html_()),
    ]

    assert answer.covers == (answer.covers if expected == ANY else expected)
    if expected != ANY:
        assert not rows or answer.covers is not None
        assert all(row["covers"] in {answer.covers, str(answer.covers).removeprefix("limited ")} for row in rows)
    if answer.covers is not None:
        said = covered_phrase(answer.covers, getattr(answer, "bounds", None))
        assert all(said in look for look in looks)
        assert ("limited to" in said) == answer.covers.startswith("limited")
    first = next(iter(answer.records()[0].values()))
    if isinstance(first, str) and type(answer)._grid is dp.Release._grid:  # others have a matrix of their own
        assert all(first in look for look in looks[1:])


@pytest.mark.parametrize("method", ["agg", "crosstab", "describe", "ttest"])
def test_groups_say_it_once(method, grouped):
    """What all groups' intervals cover is said below them, once."""
    answer = grouped[method]
    said = covered_phrase(ASKED[method][1], getattr(answer.releases[0], "bounds", None))

    for look in (repr(answer), html.unescape(answer._repr_html_())):
        assert said in look
        assert look.count("covers") == 1


# Sentences

WITHOUT_AN_INTERVAL = {  # tests that estimate nothing, and what is no estimate
    *("chi2_many", "chi2_unitcircle", "dcor_message", "find_bounds", "find_categories", "fourier_sketch"),
    *("gmm_fit", "kernel_locations", "kernel_message", "kme_exponential", "kme_release", "kruskal"),
    *("dcor_with", "moments", "profile", "synth", "wilcoxon"),
}


def sentence_of(answer):
    """What the text says before it names the call; the contracts see that the page says the same."""
    text, _, _ = repr(answer).partition(f"\n{type(answer).__name__}: ")
    return " ".join(text.split())


@pytest.mark.parametrize("method", ASKED)
def test_sentences_name_the_columns(method, answers):
    """By their labels and nothing else; and hold the interval and the p-value, if there is one.

    Where only rows are counted, the condition is named.
    """
    answer = answers[method]
    text = sentence_of(answer)
    assert ("95% CI" in text) == (method not in WITHOUT_AN_INTERVAL), text
    if isinstance(getattr(answer, "pvalue", None), float):
        assert re.search(r"p (<|=) 0\.\d+", text), text
    if method in {"count", "describe", "profile", "report"}:  # asked of all columns, or of rows
        assert ("Where ward = a" in text) == (method == "count")
        assert (AGE in text) == (method != "count")
        return

    told = {name for name in COLUMNS if re.search(rf"\b{name}\b", answer.privacy.question)}
    named = {name for name, label in COLUMNS.items() if label in text}
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
    assert not any(re.search(rf"\b{name}\b", bare) for name in set(COLUMNS) - {"days"}), text


def test_sentences_say_units_and_what_the_noise_did(answers):
    """Units as the schema says; which part of an interval's width is there because of the noise, if known."""
    texts = {method: sentence_of(answer) for method, answer in answers.items()}

    for method, unit in [("mean", "years"), ("ttest", "years"), ("ztest", "years"), ("kaplan_meier", "days")]:
        assert f" {unit}" in texts[method]
    assert "(years)²" in texts["var"]
    assert "kg/m²" in texts["ols"]
    for method in ("ttest", "ztest", "anova", "ols", "logit", "proportions"):
        assert re.search(r"[\d.e-]+% of its width is privacy noise", texts[method])
    for method in ("mean", "value_counts", "histogram", "crosstab", "corr", "dcor"):
        assert "privacy noise only" in texts[method]


def test_sentences_of_groups_say_the_ends(grouped):
    """Of numbers the lowest group and the highest, each with its interval; else the first group's answer."""
    text, other = sentence_of(grouped["ttest"]), sentence_of(grouped["proportions"])

    assert all(word in text for word in ("Lowest estimate", "Highest", "3 groups of Ward", "not adjusted"))
    assert text.count("95% CI") == 2
    assert "Ward" in other
    assert "95% CI" in other


def test_facts_of_groups_are_a_row_for_each():
    """Below the tables of the groups; what all have in common stands once."""
    known = {"died": ["yes", "no"], "arm": ["drug", "placebo"], "ward": ["a", "b", "c"]}
    public = {"public": ["arm", "ward"], "categories": known, "ledger": "memory:"}
    view = dp.protect(patients(), "facts of groups", epsilon=100, **public)

    lines = repr(view.group_by("ward").chi2("died", "arm", epsilon=20)).splitlines()
    head = next(at for at, line in enumerate(lines) if line.split()[:2] == ["ward", "statistic"])
    assert [line.split()[0] for line in lines[head + 1 : head + 4]] == ["a", "b", "c"]
    assert sum(line.startswith("  covers") for line in lines) == 1


def test_an_answer_that_says_nothing_says_so_first(protect):
    """The sentence begins with it."""
    view = protect(patients().head(20))

    for method, args, asked in (
        ("ttest", ["age"], {"by": "ward", "groups": ["a", "b"], "epsilon": 0.05}),
        ("mean", ["age"], {"epsilon": 0.05}),
        ("value_counts", ["ward"], {"epsilon": 0.02}),
        ("proportions", ["died"], {"success": "yes", "epsilon": 0.02}),
        ("dcor", TWO, {"epsilon": 0.02}),
    ):
        with seeded_noise(3):
            text = sentence_of(getattr(view, method)(*args, **asked))
        assert text.startswith("Uninformative: "), text


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


# Pictures and pages


@pytest.mark.one_in(3)
@pytest.mark.parametrize("method", [method for method in ASKED if ASKED[method][2] or method == "count"])
def test_a_picture_speaks_in_the_words_of_the_schema(method, answers, plt):
    """Axes, ticks and legends have labels and units of the columns, no column's bare name; nothing is cut off."""
    figure = answers[method].plot().figure
    figure.draw_without_rendering()

    texts = [each for each in figure.findobj(plt.Text) if each.get_text().strip() and each.get_visible()]
    told = re.sub(r"\s+", " ", " | ".join(each.get_text() for each in texts))
    for name in ASKED[method][2].split():
        label = COLUMNS[name]
        assert (f"{label} ({UNITS[label]})" if label in UNITS else label) in told
    if method in {"count", "crosstab", "find_bounds", "find_categories", "histogram", "value_counts"}:
        assert "rows" in told
    assert not re.search(r"\b(age|bmi|days|died|arm|ward|ill)\b", told.replace(f"{DAYS} (days)", "")), told
    for ax in figure.findobj(plt.Axes):
        legend = ax.get_legend()
        labels = [ax.xaxis.label, ax.yaxis.label, ax.title, *(legend.get_texts() if legend else ())]
        for box in [each.get_window_extent() for each in labels if each.get_text() and ax.axison]:
            assert -2 <= box.x0 <= box.x1 <= figure.bbox.x1 + 2
            assert -2 <= box.y0 <= box.y1 <= figure.bbox.y1 + 2
        if legend:
            own = legend.get_window_extent()
            assert not any(own.overlaps(each.get_window_extent()) for each in labels[:3] if each.get_text())


@pytest.mark.parametrize("method", ["mean", "quantile", "agg", "describe", "crosstab", "ttest"])
def test_a_picture_can_be_seen_on_a_dark_page(method, answers, plt):
    """Nothing is drawn in nearly the colour of the paper."""
    from matplotlib.colors import to_rgb

    with plt.style.context("dark_background"):
        figure = answers[method].plot().figure
        lines = [to_rgb(line.get_color()) for ax in figure.findobj(plt.Axes) for line in ax.get_lines()]

    assert lines or method == "crosstab"
    assert all(max(colour) > 0.3 for colour in lines)


def test_a_page_speaks_in_the_words_of_the_schema(answers, tmp_path):
    """Headings, tables and pictures of a report name columns by labels with units, never by their bare names."""
    page = html.unescape(answers["report"].save(tmp_path / "report.html").read_text())
    shown = re.sub(r"<style>.*?</style>|<details>.*?</details>|<[^>]*>", " ", page, flags=re.DOTALL)

    assert '<h2 id="column-1">Age at admission (years)</h2>' in page
    assert not re.search(r"\b(age|bmi|days|died|arm|ill|event)\b(?<!\(days)", shown.replace("(days)", ""))
