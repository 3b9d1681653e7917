"""Exploratory analysis of a private table: what people type first on any dataframe.

Mechanisms: ``view.mean``, ``var``, ``std``, ``sum``, ``count``, ``missing``; ``quantile``, ``median``;
``histogram``, ``value_counts``, ``nunique``, ``crosstab``; ``corr``, ``cov``; ``describe``, ``agg``;
``report``; ``find_bounds``.
"""

from collections.abc import Callable

from dfprivacy import Mechanism, hookimpl
from dfprivacy_eda import (
    aggregate,
    bounds,
    correlation,
    counts,
    describe,
    distinct,
    moments,
    quantiles,
    report,
    rows,
)
from dfprivacy_eda.aggregates import Aggregates
from dfprivacy_eda.bounds import FoundBounds
from dfprivacy_eda.cases import dfprivacy_conformance_cases  # noqa: F401 - a hook, found by its name
from dfprivacy_eda.describe import Description
from dfprivacy_eda.matrices import Correlations, Covariances
from dfprivacy_eda.report import Report
from dfprivacy_eda.results import ColumnStatistic, Counts, Crosstab, Histogram, Quantiles

__all__ = [
    "Aggregates",
    "ColumnStatistic",
    "Correlations",
    "Counts",
    "Covariances",
    "Crosstab",
    "Description",
    "FoundBounds",
    "Histogram",
    "Quantiles",
    "Report",
]


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Offer the methods."""
    for each in (moments.mean, moments.var, moments.std, moments.total, rows.count, rows.missing):
        register(each)
    register(quantiles.quantile.checks(quantiles.quantile_asked))
    register(quantiles.median.checks(quantiles.median_asked))
    register(counts.histogram.checks(counts.histogram_asked))
    register(counts.value_counts)
    register(counts.crosstab.checks(counts.crosstab_asked))
    register(distinct.nunique.checks(distinct.nunique_asked))
    register(correlation.corr.checks(correlation.columns_asked))
    register(correlation.cov.checks(correlation.columns_asked))
    register(aggregate.agg.checks(aggregate.agg_asked))
    register(describe.describe.checks(describe.describe_asked))
    register(report.report.checks(report.report_asked))
    register(bounds.find_bounds.checks(bounds.find_bounds_asked))
