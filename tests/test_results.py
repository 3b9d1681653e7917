"""What every bundled method answers, as people hand it on: rows of a table, a picture in the column's own words."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy._plugins.loader import registry
from dfprivacy.testing.noise import seeded_noise
from dfprivacy.tidy import COLUMNS_MAX

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
E = 20  # the epsilon of each
TWO = ["age", "bmi"]
ASKED: dict[str, Callable[[Any], Any]] = {
    "agg": lambda view: view.agg({"age": ["mean", "median"], "ward": "top"}, epsilon=E),
    "anova": lambda view: view.anova("age", by="ward", epsilon=E),
    "chi2": lambda view: view.chi2("died", by="arm", epsilon=E),
    "chi2_many": lambda view: view.chi2_many(["died", "ill"], "arm", epsilon=E),
    "chi2_unitcircle": lambda view: view.chi2_unitcircle("died", "arm", margin="public_rate", rate=0.3, epsilon=E),
    "corr": lambda view: view.corr(["age", "bmi", "days"], epsilon=E),
    "count": lambda view: view.where(ward="a").count(epsilon=E),
    "cov": lambda view: view.cov(TWO, epsilon=E),
    "crosstab": lambda view: view.crosstab("ward", "died", epsilon=E),
    "dcor": lambda view: view.dcor("age", "bmi", epsilon=E),
    "dcor_message": lambda view: view.dcor_message("age", epsilon=E),
    "dcor_screen": lambda view: view.dcor_screen("age", ["bmi", "days"], top=1, estimate=True, epsilon=E),
    "dcor_with": lambda view: view.dcor_with(view.dcor_message("bmi", epsilon=E), "age", epsilon=E),
    "describe": lambda view: view.describe(epsilon=E),
    "find_bounds": lambda view: view.find_bounds(TWO, epsilon=E),
    "find_categories": lambda view: view.find_categories(["ward"], epsilon=E, delta=1e-6),
    "fourier_sketch": lambda view: view.fourier_sketch(TWO, max_components=2, epsilon=E, delta=1e-6),
    "gmm_fit": lambda view: view.gmm_fit(TWO, "arm", epsilon=E),
    "histogram": lambda view: view.histogram("age", bins=8, epsilon=E),
    "kaplan_meier": lambda view: view.kaplan_meier("days", "event", 6, by="arm", epsilon=E),
    "kernel_message": lambda view: view.kernel_message(TWO, epsilon=E, delta=1e-6),
    "kernel_two_sample": lambda view: view.kernel_two_sample(TWO, by="arm", lengthscale=5.0, epsilon=E, delta=1e-6),
    "kme_release": lambda view: view.kme_release(TWO, epsilon=E, delta=1e-6),
    "kruskal": lambda view: view.kruskal("age", by="ward", epsilon=E),
    "logit": lambda view: view.logit("died ~ age + C(ward)", epsilon=E),
    "mannwhitneyu": lambda view: view.mannwhitneyu("age", by="arm", epsilon=E),
    "mcnemar": lambda view: view.mcnemar("died", "ill", success="yes", epsilon=E),
    "mean": lambda view: view.mean("age", epsilon=E),
    "median": lambda view: view.median("age", epsilon=E),
    "missing": lambda view: view.missing("age", epsilon=E),
    "moments": lambda view: view.moments(TWO, by="arm", epsilon=E),
    "nunique": lambda view: view.nunique("ward", epsilon=E),
    "ols": lambda view: view.ols("bmi ~ age + C(ward)", epsilon=E),
    "profile": lambda view: view.profile(epsilon=E, delta=1e-6),
    "proportions": lambda view: view.proportions("died", by="arm", success="yes", epsilon=E),
    "quantile": lambda view: view.quantile("age", [0.25, 0.5, 0.75], epsilon=E),
    "report": lambda view: view.report(epsilon=E),
    "std": lambda view: view.std("age", epsilon=E),
    "sum": lambda view: view.sum("age", epsilon=E),
    "survival_test": lambda view: view.survival_test("days", "event", by="arm", epsilon=E),
    "ttest": lambda view: view.ttest("age", by="arm", epsilon=E),
    "value_counts": lambda view: view.value_counts("ward", epsilon=E),
    "var": lambda view: view.var("age", epsilon=E),
    "wilcoxon": lambda view: view.wilcoxon("age", popmean=50, epsilon=E),
    "ztest": lambda view: view.ztest("age", popmean=50, sigma=15, epsilon=E),
}


def table():
    """Patients: the drug makes the older ones leave later."""
    rng = np.random.default_rng(20_261_122)
    arm = np.array(["drug", "placebo"])[np.arange(N) % 2]
    age = np.clip(rng.normal(52, 14, N) + 5 * (arm == "drug"), 18, 90)
    return pd.DataFrame(
        {
            "age": age,
            "bmi": np.clip(27 + 0.1 * (age - 52) + rng.normal(0, 4, N), 15, 45),
            "days": np.clip(rng.exponential(6 + 4 * (arm == "drug")), 0, 30),
            "event": (rng.random(N) < 0.8).astype(int),
            "died": np.where(rng.random(N) < 0.1 + 0.2 * (arm == "drug"), "yes", "no"),
            "ill": np.where(rng.random(N) < 0.4, "yes", "no"),
            "arm": arm,
            "ward": rng.choice(["a", "b", "c"], N),
        }
    )


MAKES = {"pandas": lambda rows: rows, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}


def protected(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("schema") / "clinic.toml"
    path.write_text(SCHEMA, encoding="utf-8")
    return dp.protect(rows, "clinic", schema=path, ledger="memory:")


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What each method answers."""
    view = protected(tmp_path_factory, table())
    with seeded_noise(1):
        return {name: ask(view) for name, ask in ASKED.items()}


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """What some methods answer by group."""
    view = protected(tmp_path_factory, table()).group_by("ward")
    with seeded_noise(1):
        return {name: ASKED[name](view) for name in ("agg", "crosstab", "describe", "ols", "proportions", "ttest")}


def test_every_bundled_method_is_asked():
    """None is forgotten."""
    bundled = {name for name, each in registry().mechanisms.items() if each.origin.startswith("dfprivacy ")}

    assert bundled == set(ASKED)


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
@pytest.mark.parametrize("name", ASKED)
def test_a_table_of_estimates(name, library, answers):
    """Every method's answer is a tidy table: at most ten columns of scalars, in the library of whoever asked."""
    checked(answers[name].made_for(library).to_frame(), library)


@pytest.mark.parametrize("library", MAKES)
def test_a_table_is_of_the_library_that_was_asked(library, tmp_path_factory):
    """Nobody has to name the library of their own frame."""
    view = protected(tmp_path_factory, MAKES[library](table()))

    for name in ("ttest", "mean", "crosstab", "ols", "moments"):
        checked(ASKED[name](view).to_frame(), library)


@pytest.mark.parametrize("library", MAKES)
def test_tables_of_groups_begin_with_the_keys(library, grouped):
    """The group comes before what is stated of it, under another name where that is taken."""
    for name, answer in grouped.items():
        checked(answer.to_frame(library), library, ["ward_"] if name == "crosstab" else ["ward"])


@pytest.mark.parametrize("name", ASKED)
def test_all_that_is_known_stays_in_json(name, answers):
    """What a table has no room for is in the attributes, and comes back from JSON, with the words of columns."""
    again = dp.Release.from_json(answers[name].to_json())

    assert again == answers[name]
    assert again.column_words == answers[name].column_words
    assert repr(again.records()) == repr(answers[name].records())  # NaN is not equal to itself


@pytest.mark.parametrize("name", ASKED)
def test_pages_show_the_rows_of_the_table(name, answers):
    """Summary, Markdown and HTML have the same rows."""
    answer = answers[name]
    first = next(iter(answer.records()[0].values()))

    pages = answer.summary(), answer.to_markdown(), answer._repr_html_()
    if isinstance(first, str) and type(answer)._grid is dp.Release._grid:  # others have a matrix of their own
        for page in pages:
            assert first in html.unescape(page)
    assert r"\begin{tabular}" in answer.to_latex()
