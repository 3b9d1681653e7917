"""Hazard ratios of two groups: Cox's without noise, with intervals that cover with it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from statsmodels.datasets import heart
from statsmodels.duration.hazard_regression import PHReg

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

NAMES = (f"hazards {number}" for number in itertools.count())
PLENTY = 20_000  # an epsilon at which there is hardly any noise


def protect(frame, **terms):
    """Protect times up to the largest, with much to spend."""
    categories = {"died": [0, 1], "g": ["a", "b"], "h": ["u", "v", "w"], "run": range(len({*frame.get("run", ())}))}
    known = {name: list(each) for name, each in categories.items() if name in frame}
    said = {"bounds": {"t": (0.0, float(frame.t.max()))}, "categories": known}
    return dp.protect(frame, next(NAMES), **{**said, "epsilon": 10**6, "ledger": "memory:", **terms})


def trial(n=900, ratio=0.6, seed=1, first=0.5):
    """Rows of two groups whose hazards have a ratio, and that differ in the mix of strata with other hazards."""
    rng = np.random.default_rng(seed)
    a = rng.random(n) < first
    h = np.where(rng.random(n) < 0.5, 2 * a, rng.integers(3, size=n))
    times = rng.weibull(1.4, n) * 20 / (np.where(a, ratio, 1.0) * np.array([0.3, 1, 3])[h]) ** (1 / 1.4)
    ends = np.minimum(rng.uniform(10, 90, n), 40)
    return pd.DataFrame({
        "t": np.minimum(times, ends), "died": (times <= ends).astype(int),
        "g": np.where(a, "a", "b"), "h": np.array(list("uvw"))[h],
    })  # fmt: skip


def patients():
    """Statsmodels' heart transplants, by age."""
    df = heart.load_pandas().data
    return pd.DataFrame({"t": df.survival, "died": df.censors.astype(int), "g": np.where(df.age > 45, "a", "b")})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("terms", [{}, {"public": ["g"]}, {"neighbors": "add_remove"}], ids=str)
@pytest.mark.parametrize("rows", ["heart", "gaps", "strata"])
def test_a_hazard_ratio_is_that_of_statsmodels(rows, terms):
    """Cox's coefficient with Efron's ties, its error, and Wald's interval and p-value, of complete rows."""
    frame = patients() if rows == "heart" else trial()
    if rows == "gaps":
        for at, name in enumerate(("t", "died", "g")[: 2 if "public" in terms else 3]):
            frame[name] = frame[name].astype(object).mask(np.arange(len(frame)) % 10 == at)
    strata = "h" if rows == "strata" else None
    whole = frame.dropna()
    cox = PHReg(whole.t.astype(float), whole.g == "a", status=whole.died.astype(int), ties="efron",
                strata=strata and whole.h).fit()  # fmt: skip

    found = protect(frame, **terms).hazard_ratio("t", "died", 333, by="g", strata=strata, epsilon=PLENTY)

    assert math.log(found.estimate) == pytest.approx(cox.params[0], abs=0.05 * cox.bse[0])
    assert found.standard_error == pytest.approx(cox.bse[0], rel=0.02)
    assert (found.low, found.high) == pytest.approx(np.exp(cox.conf_int()[0]), rel=0.04)
    assert found.pvalue == pytest.approx(cox.pvalues[0], abs=0.02)
    assert found.events == pytest.approx([whole.died[whole.g == g].sum() for g in "ab"], abs=0.1)
    assert found.n == pytest.approx(len(whole), abs=0.2)


def test_it_is_free_after_the_curves_of_more_groups():
    """Of two of three groups, in either order, at another level and side, and so is arithmetic."""
    view = protect(trial())
    with seeded_noise(1):
        view.kaplan_meier("t", "died", 5, by="h", epsilon=2)
        spent = view.budget.spent
        one = view.hazard_ratio("t", "died", 5, by="h", groups=["u", "w"], epsilon=2)
        other = view.hazard_ratio("t", "died", 5, by="h", groups=["w", "u"], alternative="greater", epsilon=1)

    assert view.budget.spent == spent
    assert one.estimate * other.estimate == pytest.approx(1, rel=1e-6)
    assert 0.05 < one.low < one.high < 0.3
    assert (other.high, other.null) == (math.inf, 1.0)
    assert other.confidence_interval(0.975).low == pytest.approx(1 / one.high, rel=0.05)
    spread = (one - 0.1).noise_standard_error / one.estimate
    assert spread == pytest.approx(one.noise_standard_error, rel=0.2)


def test_what_the_noise_hides_is_said():
    """An interval without ends is called uninformative, and its combinations have none either."""
    view = protect(trial(60))

    with seeded_noise(2):
        found = view.hazard_ratio("t", "died", 10, by="g", epsilon=0.1)

    assert (found.low, found.high) == (0, math.inf)
    assert found.standard_error == math.inf
    assert "Uninformative" in repr(found)
    assert (found + 1).high == math.inf
    assert found.plot() is not None


def test_what_the_normal_law_does_not_describe_is_noted():
    """Groups that nearly all die within an interval, fewer than ten events, and strata of few rows."""
    frame = trial()
    few = frame.copy()
    few.loc[few.g == "a", "died"] = 0
    few = pd.concat([few[few.h != "u"], few[few.h == "u"].head(3)])
    few.loc[few[few.g == "a"].index[:5], "died"] = 1

    with seeded_noise(4):
        wide, narrow = (
            protect(frame).hazard_ratio("t", "died", k, by="h", groups=["u", "w"], epsilon=9) for k in (1, 20)
        )
        found = protect(few).hazard_ratio("t", "died", 3, by="g", strata="h", epsilon=20)

    notes = [" ".join(each.notes) for each in (wide, narrow, found)]
    assert ["narrower" in each for each in notes] == [True, False, False]
    assert "few events" in notes[2]
    assert "1 of 3 strata are not used" in notes[2]
    assert found.high < 1


def test_the_expected_error_comes_true():
    """Of exponential times as `explain` assumes, a third beyond the bound; with five errors of 200 runs."""
    rng, n, runs = np.random.default_rng(4), 1000, 200
    lived = rng.exponential(1 / np.log(3), runs * n)
    rows = {
        "t": lived.clip(0, 1),
        "died": lived < 1,
        "g": ["a", "b"] * (runs * n // 2),
        "run": np.arange(runs * n) // n,
    }
    frame = pd.DataFrame(rows).astype({"died": int})
    view = protect(frame, public=["run"])

    with seeded_noise(1):
        answers = view.group_by("run").hazard_ratio("t", "died", 5, by="g", epsilon=1).releases
    found = protect(frame[:n]).explain("hazard_ratio", "t", "died", 5, by="g", epsilon=1).findings

    (expected,) = (value for what, value in found.items() if "noise and sampling" in what)
    ratio = expected / np.sqrt(np.mean([np.log(each.estimate) ** 2 for each in answers]))
    assert 0.75 / 1.28 < ratio < 1.25 * 1.28
