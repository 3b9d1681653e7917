"""Questions that cannot be answered, of every library: refused with the reason before anything is paid."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

N = 60
QUESTIONS = {
    "an unknown column": (("ols", "x ~ nope"), "no column 'nope'"),
    "an unknown function": (("ols", "x ~ log(z)"), "log"),
    "a product": (("ols", "x ~ z*t"), "is not supported"),
    "y among x": (("ols", "x ~ x + z"), "is also a regressor"),
    "a regressor twice": (("ols", "x ~ z + z"), "twice"),
    "a constant regressor": (("ols", "x ~ C(one)"), "constant"),
    "nothing on the right": (("ols", "x ~ "), "nothing on the right"),
    "an outcome without bounds": (("ols", "g ~ x"), "no bounds"),
    "an outcome without categories": (("logit", "x ~ z"), "no categories"),
    "three outcomes": (("logit", "three ~ x"), "3 categories"),
    "one group": (("mannwhitneyu", "x", {"by": "one"}), "two groups"),
    "one group of several": (("kruskal", "x", {"by": "g", "groups": ["a"]}), "2 groups"),
    "an unknown group": (("anova", "x", {"by": "g", "groups": ["a", "q"]}), "'q' is not a category"),
    "a group of one, ranks": (("mannwhitneyu", "x", {"by": "solo"}), "has 1 rows"),
    "a group of one, means": (("anova", "x", {"by": "solo"}), "has 1 rows"),
    "events of three kinds": (("kaplan_meier", "t", "three", 10), "not 0 and 1"),
    "events that are text": (("survival_test", "t", "g", {"by": "solo"}), "not 0 and 1"),
    "negative times": (("kaplan_meier", "x", "e", 10), "negative"),
    "negative times compared": (("survival_test", "x", "e", {"by": "g"}), "negative"),
    "edges that end early": (("kaplan_meier", "t", "e", [0, 5]), "do not cover"),
    "edges that begin late": (("kaplan_meier", "t", "e", [1, 10]), "do not cover"),
    "edges that fall": (("kaplan_meier", "t", "e", [0, 6, 5, 10]), "rise"),
    "an unknown success": (("proportions", "g", {"success": "q"}), "'q' is not a category"),
    "a column with itself": (("wilcoxon", "x", "x"), "twice"),
    "pairs of unlike columns": (("mcnemar", "g", "e", {"success": "a"}), "'a' is not a category"),
}


KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "polars-lazy": pl.LazyFrame, "pyarrow": pa.table}


def table(kind):
    """A table with what is bad, and how it is declared."""
    rng = np.random.default_rng(1)
    columns = {
        "x": rng.normal(size=N),
        "z": rng.normal(size=N),
        "t": rng.uniform(0, 10, N),
        "g": ["a", "b"] * (N // 2),
        "one": ["a"] * N,
        "solo": ["s"] + ["r"] * (N - 1),
        "e": rng.integers(0, 2, N),
        "three": rng.integers(0, 3, N),
    }
    declared = {
        "epsilon": 1,
        "public": ["solo"],
        "bounds": {"x": (-4, 4), "z": (-4, 4), "t": (0, 10)},
        "categories": {"g": ["a", "b"], "one": ["a"], "solo": ["r", "s"], "e": [0, 1], "three": [0, 1, 2]},
    }
    return KINDS[kind](columns), declared


@pytest.fixture(scope="module", params=KINDS)
def view(request):
    """Protect it."""
    frame, declared = table(request.param)
    return dp.protect(frame, f"bad-questions-{request.param}", ledger="memory:", **declared)


@pytest.mark.parametrize("what", QUESTIONS)
def test_bad_questions_cost_nothing(view, what):
    """What cannot be answered raises an error that names it, and is not charged."""
    (method, *args), message = QUESTIONS[what]
    named = args.pop() if isinstance(args[-1], dict) else {}

    with pytest.raises((dp.ArgumentError, dp.SchemaError), match=message):
        getattr(view, method)(*args, **named, epsilon=0.5)
    assert view.budget.spent == 0


def test_more_coefficients_than_rows(view):
    """Two rows cannot tell three coefficients, and nothing is charged."""
    with pytest.raises(dp.ArgumentError, match="1 rows are too few"):
        view.where(solo="s").ols("x ~ z + t", epsilon=0.5)
    assert view.budget.spent == 0


@pytest.mark.parametrize("kind", KINDS)
def test_releases_of_two_ledgers(kind, tmp_path):
    """Two answers, each paid in a ledger of its own, are combined, and neither account pays."""
    frame, declared = table(kind)
    view = dp.protect(frame, f"one-of-two-{kind}", ledger="memory:", **declared)
    other = dp.protect(frame, "elsewhere", ledger=tmp_path / "other.sqlite", **declared)
    mine, theirs = view.mean("x", epsilon=1), other.mean("x", epsilon=1)
    spent = view.budget.spent, other.budget.spent

    for ask in (lambda: mine - theirs, lambda: dp.combine(lambda a, b: a.value + b.value, mine, theirs)):
        found = ask()
        assert found.low < found.estimate < found.high
    assert (view.budget.spent, other.budget.spent) == spent


def test_what_only_the_noise_could_tell_says_so():
    """A constant and a doubled regressor, with bounds, are private facts: answered, and called uninformative."""
    columns = {"x": np.arange(N) % 7.0, "flat": np.ones(N), "y": np.arange(N) % 5.0}
    frame = pd.DataFrame({**columns, "same": columns["x"]})
    view = dp.protect(
        frame,
        "told-by-noise",
        epsilon=9,
        ledger="memory:",
        bounds={"x": (0, 6), "same": (0, 6), "flat": (0, 2), "y": (0, 4)},
    )

    for formula in ("y ~ x + flat", "y ~ x + same"):
        with seeded_noise(1):
            fit = view.ols(formula, epsilon=1)
        assert not fit.informative
        assert fit.notes[0].startswith("Uninformative")
