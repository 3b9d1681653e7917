"""What the tests of regressions share: a table with numbers, categories and gaps, protected."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp

if TYPE_CHECKING:
    from collections.abc import Callable

SAID: dict[str, Any] = {
    "bounds": {"a": (-3, 3), "b": (0, 10), "y": (-20, 30), "gaps": (-3, 3), "same": (-3, 3), "flat": (0, 2)},
    "categories": {"g": ["u", "v", "w"], "h": ["p", "q"], "one": ["k"], "both": [0, 1]},
}
SAID["bounds"]["both"] = (0, 1)


def table(rows: int = 4000, seed: int = 3) -> pd.DataFrame:
    """Make rows of which y depends on a, b and g, and its spread on a."""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({"a": rng.normal(size=rows).clip(-3, 3), "b": rng.uniform(0, 10, rows)})
    df["g"] = rng.choice(["u", "v", "w"], rows, p=[0.5, 0.3, 0.2])
    df["h"] = rng.choice(["p", "q"], rows)
    df["one"], df["flat"], df["same"] = "k", 1.0, df["a"]
    df["both"] = rng.integers(0, 2, rows)
    noise = rng.normal(size=rows) * np.sqrt(0.25 + 0.75 * df["a"] ** 2)
    df["y"] = 1 + 2 * df["a"] - 0.5 * df["b"] + 3 * (df["g"] == "v") + noise
    df["gaps"] = df["a"].where(rng.random(rows) > 0.2)
    return df


@pytest.fixture
def protect() -> Callable[..., Any]:
    """Protect a table, for as much as is asked."""
    names = (f"regression-{at}" for at in itertools.count())

    def make(frame: Any = None, **said: Any) -> Any:
        options = {"epsilon": 10**6, "ledger": "memory:", **SAID, **said}
        return dp.protect(table() if frame is None else frame, next(names), **options)

    return make
