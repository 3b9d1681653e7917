"""A column of numbers that has bounds and categories, as every computed comparison has, is asked as either."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

RNG = np.random.default_rng(2)
ROWS = pd.DataFrame(
    {
        "t": RNG.uniform(0, 2, 600),
        "e": RNG.integers(0, 2, 600),
        "k": RNG.integers(0, 2, 600),
        "g": RNG.choice(["a", "b"], 600),
    }
)
ASKED = [
    ("kaplan_meier", ("t", "e"), {"edges": [0, 1, 2]}), ("survival_test", ("t", "e"), {"by": "g"}),
    ("hazard_ratio", ("t", "e", [0, 1, 2]), {"by": "g"}), ("proportions", ("e",), {"success": 1}),
    ("proportions", ("e",), {"success": 1, "by": "g"}), ("mcnemar", ("e", "k"), {"success": 1}),
    ("chi2", ("e", "g"), {}), ("chi2_many", (["e", "k"], "g"), {}), ("logit", ("e ~ t",), {}),
    ("value_counts", ("e",), {}), ("crosstab", ("e", "g"), {}), ("nunique", ("e",), {}),
    ("dcor", (["e"], "t"), {"lengthscale": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "args", "given"), ASKED)
def test_both_declarations_are_as_one(method, args, given):
    """Bounds beside the categories change nothing for who asks about categories; nor do computed columns."""
    answers = []
    for at, bounds in enumerate(({}, {"e": (0, 1), "k": (0, 1)})):
        view = dp.protect(
            ROWS,
            f"declared {at} {method} {given}",
            epsilon=10,
            delta="1/100",
            bounds={"t": (0, 2), **bounds},
            categories={"e": [0, 1], "k": [0, 1], "g": ["a", "b"]},
            ledger="memory:",
        )
        try:
            with seeded_noise(1):
                answers.append(
                    re.sub(r"declared \d", "", str(getattr(view, method)(*args, epsilon=1, **given).records()))
                )
        except dp.ArgumentError as error:
            answers.append(str(error))

    assert answers[0] == answers[1]


def test_a_computed_comparison_has_a_share():
    """Its categories are False and True."""
    view = dp.protect(ROWS, "compared", epsilon=100, bounds={"t": (0, 2)}, ledger="memory:")
    view = view.with_columns(late=dp.col("t") > 1)

    share = view.proportions("late", success=True, epsilon=50)

    assert share.shares[0] == pytest.approx((ROWS["t"] > 1).mean(), abs=0.01)
