"""What the tests of exploration share: skewed columns with gaps, protected, and curators of a seeded noise."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 4000


def data() -> dict[str, Any]:
    """Ages, visits of which most are 0, incomes with gaps, and two columns of categories, one with gaps."""
    rng = np.random.default_rng(5)
    income = rng.lognormal(10, 0.7, ROWS).clip(0, 2e5)
    return {
        "age": rng.normal(45, 14, ROWS).clip(15, 95).round(),
        "visits": rng.poisson(rng.gamma(0.5, 6, ROWS)).clip(0, 100).astype(float),
        "income": np.where(rng.random(ROWS) < 0.2, np.nan, income),
        "sex": rng.choice(["f", "m"], ROWS),
        "region": rng.choice(["n", "e", "s", "w", None], ROWS, p=[0.4, 0.3, 0.2, 0.05, 0.05]),
    }


SAID: dict[str, Any] = {
    "bounds": {"age": (0, 120), "visits": (0, 100), "income": (0, 2e5)},
    "categories": {"sex": ["f", "m"], "region": ["n", "e", "s", "w"]},
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """The table, as pandas has it."""
    return pd.DataFrame(data())


@pytest.fixture
def protect() -> Callable[..., Any]:
    """Protect the table, or another, for as much as is asked."""
    names = (f"eda-{at}" for at in itertools.count())

    def make(frame: Any = None, **said: Any) -> Any:
        options = {"epsilon": 10**6, "ledger": "memory:", **SAID, **said}
        return dp.protect(pd.DataFrame(data()) if frame is None else frame, next(names), **options)

    return make
