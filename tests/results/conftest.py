"""An answer of every bundled method, about one made-up table whose columns have words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

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
    "hsic": lambda view: view.hsic("age", "bmi", epsilon=E),
    "kernel_locations": lambda view: view.kernel_locations(TWO, by="arm", epsilon=E),
    "kme_exponential": lambda view: view.kme_exponential(TWO, epsilon=E),
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
    "quantile": lambda view: view.quantile("age", [0.25, 0.5, 0.75], covers="table", epsilon=E),
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


def protected(tmp_path_factory, rows):
    """Protect rows by the schema."""
    path = tmp_path_factory.mktemp("schema") / "clinic.toml"
    path.write_text(SCHEMA, encoding="utf-8")
    return dp.protect(rows, "clinic", schema=path, ledger="memory:")


@pytest.fixture(scope="session")
def answers(tmp_path_factory):
    """What each method answers."""
    view = protected(tmp_path_factory, table())
    with seeded_noise(1):
        return {name: ask(view) for name, ask in ASKED.items()}


@pytest.fixture(scope="session")
def grouped(tmp_path_factory):
    """What some methods answer by group."""
    view = protected(tmp_path_factory, table()).group_by("ward")
    with seeded_noise(1):
        return {name: ASKED[name](view) for name in ("agg", "crosstab", "describe", "ols", "proportions", "ttest")}


@pytest.fixture
def protect(tmp_path_factory):
    """Protect rows by the schema."""
    return lambda rows: protected(tmp_path_factory, rows)


@pytest.fixture(scope="session")
def asked():
    """How each method is asked."""
    return ASKED


@pytest.fixture
def rows():
    """The table."""
    return table()


def pytest_generate_tests(metafunc):
    """Run a test that takes a method once for each."""
    if "method" in metafunc.fixturenames:
        metafunc.parametrize("method", ASKED)
