"""Everyday inference against lifelines and pingouin, at an epsilon that adds hardly any noise."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp

pytestmark = pytest.mark.oracle

NUMBERS = Path(__file__).with_name("inference_numbers.py")
EPSILON = 10**5


@pytest.fixture(scope="module")
def table():
    """Events come at whole times, and times are censored between them."""
    rng = np.random.default_rng(3)
    n = 400
    died = rng.random(n) < 0.7
    return pd.DataFrame({
        "t": rng.integers(1, 10, n) + np.where(died, 0.0, 0.5),
        "died": died.astype(int),
        "x": rng.normal(size=n) + (np.arange(n) % 2) / 2,
        "g": np.array(["a", "b"])[np.arange(n) % 2],
        "h": np.array(["u", "v", "w"])[np.arange(n) % 3],
    })  # fmt: skip


@pytest.fixture(scope="module")
def theirs(inference_peers, table):
    """What they say."""
    said = subprocess.run(
        [inference_peers, NUMBERS],
        input=json.dumps(table.to_dict("list")),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(said.stdout)


@pytest.fixture(scope="module")
def view(table):
    return dp.protect(
        table,
        "inference-oracles",
        epsilon=10**6,
        ledger="memory:",
        bounds={"t": (0, 10), "x": (-5, 5)},
        categories={"died": [0, 1], "g": ["a", "b"], "h": ["u", "v", "w"]},
    )


def test_a_curve_is_that_of_lifelines(view, theirs):
    """Where times are on edges, the curve is Kaplan and Meier's."""
    found = view.kaplan_meier("t", "died", 20, epsilon=EPSILON)

    assert found.survival[0][1:19:2] == pytest.approx(theirs["survival"], abs=1e-4)
    assert found.median[0] <= theirs["median"] <= found.median[0] + 0.5


def test_ranks_and_shares_of_variance_are_those_of_pingouin(view, theirs):
    """U, the common-language effect, the rank-biserial correlation, and eta squared."""
    found = view.mannwhitneyu("x", by="g", epsilon=EPSILON)
    means = view.anova("x", by="h", epsilon=EPSILON)

    assert found.statistic == pytest.approx(theirs["u"], abs=1)
    assert found.effect == pytest.approx(theirs["cles"], abs=1e-4)
    assert abs(found.rank_biserial) == pytest.approx(abs(theirs["rbc"]), abs=1e-4)
    assert means.eta_squared == pytest.approx(theirs["eta_squared"], abs=1e-4)
