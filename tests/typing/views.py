"""What type checkers see of protecting a table and asking questions. Checked, never run."""

from __future__ import annotations

from fractions import Fraction
from typing import assert_type

import pandas as pd
import polars as pl

import dfprivacy as dp
from dfprivacy_chi2 import Chi2, Chi2Many
from dfprivacy_ttest import TTest

df = pd.DataFrame({"age": [31, 45], "smoker": ["yes", "no"]})

view = dp.protect(
    df,
    "members",
    epsilon=1,
    delta="1e-6",
    bounds={"age": (18, 90)},
    categories={"smoker": ["yes", "no"]},
    public=["smoker"],
    neighbors="replace_one",
    accounting="portfolio",
    missing={"age": 40},
    default_epsilon=0.1,
    ledger="memory:",
)
assert_type(view, dp.PrivateFrame)
assert_type(
    dp.protect(pl.DataFrame({"age": [31]}), "polars", epsilon=0.1, bounds={"age": (18, 90)}), dp.PrivateFrame
)
assert_type(dp.protect(pl.LazyFrame({"age": [31]}), "lazy", epsilon=Fraction(1, 3)), dp.PrivateFrame)

assert_type(view.name, str)
assert_type(view.schema, dp.Schema)
assert_type(view.schema.size, int | None)
assert_type(view.budget, dp.Budget)
assert_type(view.budget.remaining, Fraction)
assert_type(view.releases, dp.Releases)
assert_type(view.releases[0], dp.Release)
assert_type(view.releases[:2], list[dp.Release])

assert_type(view.where(age=(30, 40)), dp.PrivateFrame)
assert_type(view.where({"age": (30, 40)}, smoker="yes"), dp.PrivateFrame)
assert_type(view.where(lambda row: row["age"] == row["smoker"]), dp.PrivateFrame)
assert_type(view.select("age"), dp.PrivateFrame)
assert_type(view.group_by("smoker"), dp.GroupedView)
assert_type(view.explain("ttest", "age", popmean=30, epsilon="rest"), dp.Explanation)

test = view.ttest("age", by="smoker", epsilon=0.5)
assert_type(test, TTest)
assert_type(view.ztest("age", popmean=30, sigma=15, epsilon=0.5), TTest)
assert_type(view.chi2("smoker", "arm", rate=(0.2, 0.4), epsilon=0.5), Chi2)
assert_type(view.chi2_unitcircle("smoker", "arm", margin="public_rate", rate=0.3), Chi2)
assert_type(view.chi2_many(["smoker"], "arm", method="select", max_rejections=1), Chi2Many)
assert_type(view.chi2("smoker", "arm").critical_value(0.01), float)
assert_type(test.statistic, float)
assert_type(test.pvalue, float)
assert_type(test.confidence_interval(0.9), dp.ConfidenceInterval)
assert_type(test.confidence_interval().low, float)
assert_type(test.privacy, dp.Privacy | None)

view.ttest("age", alternative="bigger", epsilon=0.5)  # type: ignore[arg-type]
view.chi2("smoker", "arm", method="svt")  # type: ignore[arg-type]
view.ttest("age", popman=30, epsilon=0.5)  # type: ignore[call-arg]
dp.protect(df, "members", epsilon=1, neighbors="swap")  # type: ignore[arg-type]
dp.protect(df, "members")  # type: ignore[call-arg]
