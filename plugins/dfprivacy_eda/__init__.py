"""Exploratory analysis of a private table: counts, moments, quantiles, correlations and reports.

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
from dfprivacy_eda.describe import Description, check_distinct_columns
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
    moments.var.checks(moments.check_var),
    moments.std,
    moments.total,
    counts.count,
    counts.missing,
    quantiles.quantile.checks(quantiles.check_quantile),
    quantiles.median.checks(quantiles.check_quantile),
    counts.histogram.checks(counts.check_histogram),
    counts.value_counts.checks(counts.check_value_counts),
    counts.crosstab.checks(counts.check_crosstab),
    counts.nunique.checks(counts.check_nunique),
    correlation.corr.checks(correlation.check_columns),
    correlation.cov.checks(correlation.check_columns),
    aggregate.agg.checks(aggregate.check_agg),
    describe.describe.checks(check_distinct_columns),
    report.report.checks(check_distinct_columns),
    bounds.find_bounds.checks(check_distinct_columns),
    categories.find_categories.checks(check_distinct_columns),
    profile.profile.checks(check_distinct_columns),
)


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Register the methods of exploratory analysis."""
    for method in _METHODS:
        planned = method.plans(PLANS[method.name])
        register(planned.reads(*READS[method.name]) if method.name in READS else planned)
