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
    planning,
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


_TELL = ("describe", "agg", "mean", "var", "std", "sum", "ttest", "ztest")  # whose answers hold sums of columns


@hookimpl
def dfprivacy_register_mechanisms(register: Callable[[Mechanism], None]) -> None:
    """Offer the methods."""
    for of_column in (moments.mean, moments.var.checks(moments.var_asked), moments.std, moments.total):
        planned = of_column.plans(planning.of_moments(of_column.name))
        register(planned.reads(planning.known_statistic(of_column.name), *_TELL))
    for of_rows in (counts.count, counts.missing):
        told = planning.known_statistic(of_rows.name)
        register(of_rows.plans(planning.of_rows).reads(told, *_TELL, "value_counts", "crosstab"))
    register(quantiles.quantile.checks(quantiles.quantile_asked).plans(planning.of_quantiles))
    register(quantiles.median.checks(quantiles.median_asked).plans(planning.of_quantiles))
    register(counts.histogram.checks(counts.histogram_asked).plans(planning.of_counts))
    register(counts.value_counts.checks(counts.value_counts_asked).plans(planning.of_counts))
    register(counts.crosstab.checks(counts.crosstab_asked).plans(planning.of_counts))
    register(counts.nunique.checks(counts.nunique_asked).plans(planning.of_nunique))
    register(correlation.corr.checks(correlation.columns_asked).plans(planning.of_products("correlation")))
    register(correlation.cov.checks(correlation.columns_asked).plans(planning.of_products("covariance")))
    register(aggregate.agg.checks(aggregate.agg_asked).plans(planning.of_agg))
    register(describe.describe.checks(each_once).plans(planning.of_describe))
    register(report.report.checks(each_once).plans(planning.of_report))
    register(bounds.find_bounds.checks(each_once).plans(planning.of_bounds))
    register(categories.find_categories.checks(each_once).plans(planning.of_keys))
    register(profile.profile.checks(each_once).plans(planning.of_profile))
