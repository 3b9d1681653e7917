"""Exploratory analysis of a private table: what people type first on any dataframe.

Mechanisms: ``view.mean``, ``var``, ``std``, ``sum``, ``count``, ``missing``; ``quantile``, ``median``;
``histogram``, ``value_counts``, ``nunique``, ``crosstab``; ``corr``, ``cov``; ``describe``, ``agg``, ``report``;
``find_bounds``, ``find_categories``, ``profile``.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_eda import (
    aggregate,
    bounds,
    categories,
    correlation,
    counts,
    describe,
    moments,
    profile,
    quantiles,
    report,
)
from dfprivacy_eda.aggregate import Aggregates
from dfprivacy_eda.bounds import FoundBounds
from dfprivacy_eda.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_eda.categories import FoundCategories, FoundCounts
from dfprivacy_eda.correlation import Correlations, Covariances
from dfprivacy_eda.describe import Description, each_once
from dfprivacy_eda.planning import PLANS, READS
from dfprivacy_eda.profile import Profile
from dfprivacy_eda.quantiles import Quantiles
from dfprivacy_eda.report import Report
from dfprivacy_eda.results import ColumnStatistic
from dfprivacy_eda.tables import Counts, Crosstab, Histogram

__all__ = [
    "Aggregates",
    "ColumnStatistic",
    "Correlations",
    "Counts",
    "Covariances",
    "Crosstab",
    "Description",
    "FoundBounds",
    "FoundCategories",
    "FoundCounts",
    "Histogram",
    "Profile",
    "Quantiles",
    "Report",
]


_METHODS = (
    moments.mean,
    moments.var.checks(moments.var_asked),
    moments.std,
    moments.total,
    counts.count,
    counts.missing,
    quantiles.quantile.checks(quantiles.quantile_asked),
    quantiles.median.checks(quantiles.quantile_asked),
    counts.histogram.checks(counts.histogram_asked),
    counts.value_counts.checks(counts.value_counts_asked),
    counts.crosstab.checks(counts.crosstab_asked),
    counts.nunique.checks(counts.nunique_asked),
    correlation.corr.checks(correlation.columns_asked),
    correlation.cov.checks(correlation.columns_asked),
    aggregate.agg.checks(aggregate.agg_asked),
    describe.describe.checks(each_once),
    report.report.checks(each_once),
    bounds.find_bounds.checks(each_once),
    categories.find_categories.checks(each_once),
    profile.profile.checks(each_once),
)


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Offer the methods."""
    for method in _METHODS:
        planned = method.plans(PLANS[method.name])
        register(planned.reads(*READS[method.name]) if method.name in READS else planned)
