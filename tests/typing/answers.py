"""What type checkers see of every method and of what it answers, as a user writes it. Checked, never run."""

from __future__ import annotations

from typing import Any, assert_type

import pandas as pd

import dfprivacy as dp
from dfprivacy_chi2 import Chi2, Chi2Many
from dfprivacy_dcor import (
    HSIC,
    DistanceCorrelation,
    DistanceMessage,
    Estimate,
    ProjectionMessage,
    Screening,
    SharedCorrelation,
)
from dfprivacy_eda import (
    Aggregates,
    ColumnStatistic,
    Correlations,
    Counts,
    Covariances,
    Crosstab,
    Description,
    FoundBounds,
    FoundCategories,
    Histogram,
    Profile,
    Quantiles,
    Report,
)
from dfprivacy_gmm import FourierSketch, GaussianClasses, GaussianMixture, JointMoments
from dfprivacy_inference import (
    Anova,
    HazardRatio,
    KruskalWallis,
    MannWhitney,
    McNemar,
    Proportions,
    SurvivalCurves,
    SurvivalTest,
    Wilcoxon,
)
from dfprivacy_kernel import KernelLocations, KernelMessage, KernelTest
from dfprivacy_kme import KME, WeightedPoints
from dfprivacy_regression import OLS, Logit
from dfprivacy_synth import Synth
from dfprivacy_ttest import TTest

df = pd.DataFrame({"age": [31, 45], "bmi": [22.0, 27.5], "died": ["no", "yes"], "arm": ["a", "b"]})
view = dp.protect(df, "clinic", schema="clinic.toml")
two = ["age", "bmi"]

# Exploration
assert_type(view.count(epsilon=0.1), ColumnStatistic)
assert_type(float(view.mean("age", covers="population", epsilon=0.1)), float)
assert_type(view.median("age", step=1, epsilon=0.1), ColumnStatistic)
assert_type(view.std("age", epsilon=0.1), ColumnStatistic)
assert_type(view.var("age", epsilon=0.1), ColumnStatistic)
assert_type(view.sum("age", epsilon=0.1), ColumnStatistic)
assert_type(view.missing("age", epsilon=0.1), ColumnStatistic)
assert_type(view.nunique("arm", epsilon=0.1), ColumnStatistic)
assert_type(view.quantile("age", [0.25, 0.75], epsilon=0.1), Quantiles)
assert_type(view.histogram("age", bins=8, epsilon=0.1), Histogram)
assert_type(view.value_counts("arm", epsilon=0.1)["a"], float)
assert_type(view.value_counts("arm", epsilon=0.1), Counts)
assert_type(view.crosstab("arm", "died", epsilon=0.1), Crosstab)
assert_type(view.describe(epsilon=0.1), Description)
assert_type(view.agg({"age": ["mean", "median"]}, epsilon=0.1), Aggregates)
assert_type(view.corr(two, epsilon=0.1)["age", "bmi"], Any)
assert_type(view.corr(two, epsilon=0.1), Correlations)
assert_type(view.cov(two, epsilon=0.1), Covariances)
assert_type(view.report(epsilon=0.1), Report)
assert_type(view.find_bounds(["age"], epsilon=0.1).bounds, dict[str, tuple[float, float]])
assert_type(view.find_bounds(["age"], epsilon=0.1), FoundBounds)
assert_type(view.find_categories(["arm"], epsilon=0.1, delta=1e-6), FoundCategories)
assert_type(view.profile(epsilon=0.1, delta=1e-6), Profile)

# Tests and estimates
assert_type(view.ttest("age", by="arm", epsilon=0.1), TTest)
assert_type(view.ztest("age", popmean=50, sigma=15, epsilon=0.1), TTest)
assert_type(view.anova("age", by="arm", epsilon=0.1), Anova)
assert_type(view.kruskal("age", by="arm", epsilon=0.1), KruskalWallis)
assert_type(view.mannwhitneyu("age", by="arm", epsilon=0.1), MannWhitney)
assert_type(view.wilcoxon("age", popmean=50, epsilon=0.1), Wilcoxon)
assert_type(view.mcnemar("died", "ill", success="yes", epsilon=0.1), McNemar)
assert_type(view.proportions("died", by="arm", success="yes", epsilon=0.1), Proportions)
assert_type(view.kaplan_meier("days", "event", 6, by="arm", epsilon=0.1), SurvivalCurves)
assert_type(view.hazard_ratio("days", "event", 6, by="arm", epsilon=0.1), HazardRatio)
assert_type(view.survival_test("days", "event", by="arm", epsilon=0.1), SurvivalTest)
assert_type(view.chi2("died", by="arm", epsilon=0.1), Chi2)
assert_type(view.chi2_many(["died"], "arm", epsilon=0.1), Chi2Many)
assert_type(view.chi2_unitcircle("died", "arm", margin="public_rate", rate=0.3, epsilon=0.1), Chi2)
assert_type(view.ols("bmi ~ age", epsilon=0.1), OLS)
assert_type(view.logit("died ~ age", epsilon=0.1), Logit)

# Dependence
assert_type(view.dcor("age", "bmi", epsilon=0.1).correlation, float)
assert_type(view.dcor("age", "bmi", epsilon=0.1), DistanceCorrelation)
assert_type(view.group_by("arm").dcor("age", "bmi", epsilon=0.1)["a"].correlation, float)
assert_type(view.hsic("age", "bmi", epsilon=0.1), HSIC)
assert_type(view.dcor_screen("age", two, top=1, epsilon=0.1), Screening)
message = view.dcor_message("bmi", epsilon=0.1)
assert_type(message, DistanceMessage)
assert_type(view.dcor_message("bmi", protocol="paper", epsilon=0.1), ProjectionMessage)
assert_type(view.dcor_with(message, "age", epsilon=0.1), SharedCorrelation)
assert_type(view.dcor_with_own(message, "age"), Estimate)
assert_type(view.dcor_with(message, "age", epsilon=0.1).squared, float)

# Distributions
assert_type(view.kernel_two_sample(two, by="arm", epsilon=0.1), KernelTest)
assert_type(view.kernel_locations(two, by="arm", epsilon=0.1), KernelLocations)
assert_type(view.kernel_message(two, epsilon=0.1, delta=1e-6), KernelMessage)
assert_type(view.kme_release(two, epsilon=0.1, delta=1e-6), KME)
assert_type(view.synth(two, epsilon=0.1, delta=1e-6), Synth)
assert_type(view.kme_exponential(two, epsilon=0.1), WeightedPoints)
assert_type(view.moments(two, by="arm", epsilon=0.1), JointMoments)
assert_type(view.gmm_fit(two, "arm", epsilon=0.1), GaussianClasses)
assert_type(view.gmm_fit(two, n_components=2, epsilon=0.1), GaussianMixture)
assert_type(view.fourier_sketch(two, max_components=2, epsilon=0.1), FourierSketch)

# What every answer has
answer = view.mean("age", epsilon=0.1)
assert_type(answer.records(), list[dict[str, Any]])
assert_type(answer.to_json(indent=1), str)
assert_type(answer.summary(), str)
assert_type(answer.to_markdown(), str)
assert_type(answer.to_latex(), str)
assert_type(dp.Release.from_json(answer.to_json()), dp.Release)
assert_type(dp.combine(lambda a, b: a - b, answer, answer), dp.Combination)

# The view
assert_type(view.sample(0.5), dp.PrivateFrame)
assert_type(view.refine(answer, epsilon=0.1), dp.Combination)
assert_type(view.declare(bounds={"days": (0, 30)}), dp.PrivateFrame)
asked = dp.request("clinic.toml")
asked.mean("age", epsilon=0.25)
asked.save("requests.json", key="ana.key", analyst="ana")
assert_type(dp.answers("answers.json", request="requests.json", key="ana.key")[0], dp.Release)
