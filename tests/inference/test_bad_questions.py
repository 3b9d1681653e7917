"""Questions that cannot be answered, of either library: refused with the reason before anything is paid."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp

N = 60
QUESTIONS = {
    "an unknown column": (("ols", "x ~ nope"), "no column 'nope'"),
    "an unknown function": (("ols", "x ~ log(z)"), "log"),
    "a product": (("ols", "x ~ z*t"), "cannot be answered"),
    "y among x": (("ols", "x ~ x + z"), "among the regressors"),
    "a regressor twice": (("ols", "x ~ z + z"), "twice"),
    "a constant regressor": (("ols", "x ~ C(one)"), "constant"),
    "nothing on the right": (("ols", "x ~ "), "nothing on the right"),
    "an outcome without bounds": (("ols", "g ~ x"), "no bounds"),
    "an outcome without categories": (("logit", "x ~ z"), "no categories"),
    "three outcomes": (("logit", "three ~ x"), "3 categories"),
    "one group": (("mannwhitneyu", "x", {"by": "one"}), "2 groups"),
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


@pytest.fixture(scope="module", params=[pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def view(request):
    """A table with what is bad."""
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
    return dp.protect(
        request.param(columns),
        f"bad-questions-{request.param.__module__}",
        epsilon=1,
        ledger="memory:",
        public=["solo"],
        bounds={"x": (-4, 4), "z": (-4, 4), "t": (0, 10)},
        categories={"g": ["a", "b"], "one": ["a"], "solo": ["r", "s"], "e": [0, 1], "three": [0, 1, 2]},
    )


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
    with pytest.raises(dp.ArgumentError, match="1 rows cannot tell"):
        view.where(solo="s").ols("x ~ z + t", epsilon=0.5)
    assert view.budget.spent == 0
