"""What becomes of missing values in every bundled method: left out, or counted as what somebody said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp

N = 2000
rng = np.random.default_rng(1)
X, Y = rng.uniform(0, 10, (2, N))
X[: N // 4] = np.nan  # a quarter is missing
DATA = pd.DataFrame({"x": X, "y": Y, "arm": ["a", "b"] * (N // 2)})
ASKED = {
    "ttest": lambda view, **how: sum(view.ttest("x", epsilon=100, **how).sizes),
    "moments": lambda view, **how: view.moments(["x", "y"], epsilon=100, **how).sizes[0],
    "gmm_fit": lambda view, **how: sum(view.gmm_fit(["x", "y"], "arm", epsilon=100, **how).sizes),
    "kme_release": lambda view, **how: view.kme_release(["x"], epsilon=100, **how).size,
    "kernel_two_sample": lambda view, **how: sum(
        view.kernel_two_sample(["x"], by="arm", lengthscale=1.0, epsilon=100, **how).sizes
    ),
    "dcor": lambda view, **how: N - (view.dcor("x", "y", epsilon=100, **how).missing or 0),
}


def protect(name, **terms):
    return dp.protect(
        DATA,
        name,
        epsilon=10**6,
        ledger="memory:",
        bounds={"x": (0, 10), "y": (0, 10)},
        categories={"arm": ["a", "b"]},
        public=["arm"],
        **terms,
    )


@pytest.mark.parametrize("method", ASKED)
def test_missing_values_are_left_out(method):
    """By default rows without a value are not counted, and with "fill" they are."""
    view = protect("with gaps")

    assert ASKED[method](view) == pytest.approx(0.75 * N, abs=20)
    assert ASKED[method](view, nan_policy="fill") == pytest.approx(N, abs=1e-9)


@pytest.mark.parametrize("method", ASKED)
def test_what_was_said_to_count_is_counted(method):
    """A missing value of which somebody said what it counts as is not left out, nor refused."""
    view = protect("filled", missing={"x": 5, "y": 5})

    assert ASKED[method](view) == pytest.approx(N, abs=1e-9 if method != "dcor" else 1)  # dcor counts anyway
