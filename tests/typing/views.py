"""What type checkers see of protecting a table and asking questions. Checked, never run."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal, assert_type

import numpy as np
import pandas as pd
import polars as pl
from numpy.typing import NDArray

import dfprivacy as dp
from dfprivacy_chi2 import Chi2, Chi2Many
from dfprivacy_eda import Aggregates, ColumnStatistic, Quantiles
from dfprivacy_gmm import FourierSketch, GaussianClasses, GaussianClassifier, GaussianMixture, JointMoments
from dfprivacy_regression.estimator import ReleasedRegressor
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
assert_type(view.filter(age=(30, 40)), dp.PrivateFrame)
assert_type(view.groupby("smoker"), dp.GroupedView)
assert_type(view["age"], dp.ColumnView)
assert_type(view[["age", "smoker"]], dp.PrivateFrame)
assert_type(view.group_by("smoker")["age"].name, str)
assert_type(view.agg({"age": ["mean", "std"]}, oldest=("age", "99%"), epsilon=0.5), Aggregates)
assert_type(view.corr(["age", "income"], epsilon=0.5).nearest, NDArray[np.float64])
assert_type(view.group_by("smoker"), dp.GroupedView)
by_smoker = view.group_by("smoker").ttest("age", popmean=30, epsilon=0.1)
assert_type(by_smoker, dp.Groups[TTest])
assert_type(by_smoker["yes"].pvalue, float)
assert_type(view.explain("ttest", "age", popmean=30, epsilon="rest"), dp.Explanation)

test = view.ttest("age", by="smoker", epsilon=0.5)
assert_type(test, TTest)
assert_type(test.records(), list[dict[str, Any]])
assert_type(view.quantile("age", epsilon=0.1), ColumnStatistic)
assert_type(view.quantile("age", [0.25, 0.75], epsilon=0.1), Quantiles)
assert_type(view.group_by("smoker").quantile("age", [0.5], epsilon=0.1), dp.Groups[Quantiles])
line = view.ols("income ~ age", epsilon=0.1).estimator()
assert_type(line, ReleasedRegressor)
assert_type(line.predict({"age": [30]}), NDArray[np.float64])
assert_type(view.logit("smoker ~ age", epsilon=0.1).estimator().predict([[30]]), NDArray[np.bool_])
assert_type(view.ztest("age", popmean=30, sigma=15, epsilon=0.5), TTest)
assert_type(view.chi2("smoker", "arm", confidence=0.9, epsilon=0.5), Chi2)
assert_type(view.chi2_unitcircle("smoker", "arm", margin="public_rate", rate=0.3), Chi2)
assert_type(view.chi2_many(["smoker"], "arm", method="select", max_rejections=1), Chi2Many)
assert_type(view.chi2("smoker", "arm").critical_value(0.01), float)
assert_type(test.statistic, float)
assert_type(test.pvalue, float)
assert_type(test.confidence_interval(0.9), dp.ConfidenceInterval)
assert_type(test.confidence_interval().low, float)
assert_type(test.privacy, dp.Privacy | None)

classes = view.gmm_fit(["age"], "smoker", method="qda", repair="paper", grid_minimum=0.1, epsilon=0.5, delta=1e-7)
assert_type(classes, GaussianClasses)
assert_type(classes.method, Literal["lda", "qda"])
assert_type(classes.priors_, NDArray[np.float64])
assert_type(classes.means_, NDArray[np.float64])
assert_type(classes.covariances_, NDArray[np.float64])
assert_type(classes.predict_proba([[30]]), NDArray[np.float64])
assert_type(classes.score([[30]], ["no"]), float)
assert_type(classes.refit(method="lda"), GaussianClasses)
assert_type(classes.fit([[30], [40]], ["no", "yes"]), GaussianClassifier)
found = view.moments(["age"], by="smoker", radius=0.5, epsilon="rest")
assert_type(found, JointMoments)
assert_type(found.means, NDArray[np.float64])
assert_type(found.correlations, NDArray[np.float64])
view.gmm_fit(["age"], "smoker", method="tree")  # type: ignore[call-overload]
view.moments("age", epsilon=0.5, group="smoker")  # type: ignore[call-arg]

columns = ["age", "income"]
mixture = view.gmm_fit(columns, n_components="auto", covariance_type="tied", epsilon=0.5)
assert_type(mixture, GaussianMixture)
assert_type(mixture.means_, NDArray[np.float64])
assert_type(mixture.predict([[31, 2.0]]), NDArray[np.intp])
assert_type(view.fourier_sketch(columns, max_components=4, epsilon=0.5).fit(3), GaussianMixture)
assert_type(mixture.sketch, FourierSketch)

view.gmm_fit(columns, n_components="some", epsilon=0.5)  # type: ignore[call-overload]
view.ttest("age", alternative="bigger", epsilon=0.5)  # type: ignore[arg-type]
view.chi2("smoker", "arm", method="svt")  # type: ignore[arg-type]
view.ttest("age", popman=30, epsilon=0.5)  # type: ignore[call-arg]
dp.protect(df, "members", epsilon=1, neighbors="swap")  # type: ignore[arg-type]
dp.protect(df, "members", schema=1)  # type: ignore[arg-type]
