"""Counts of rows, distinct values, bins of a histogram, categories, and combinations of two columns' categories."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, Probability, SchemaError, features, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.estimates import measure_weighted
from dfprivacy.inference.counts import project_counts
from dfprivacy.inference.weighted import NoisyWeighted, total
from dfprivacy.laws import NoiseLaw
from dfprivacy.statistics import OfRows, OfSums
from dfprivacy.wording import rows_text
from dfprivacy_eda.categories import FoundKeys, found_counts, measure_frequent_values
from dfprivacy_eda.results import ColumnStatistic, column_statistic
from dfprivacy_eda.sums import Sums, measurement_ids
from dfprivacy_eda.tables import Counts, Crosstab, Histogram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.features import Batch
    from dfprivacy.release import NoisyValue

__all__ = [
    "Categories",
    "Cells",
    "Values",
    "check_crosstab",
    "check_histogram",
    "check_nunique",
    "check_value_counts",
    "count",
    "crosstab",
    "histogram",
    "missing",
    "nunique",
    "value_counts",
]

_MOST = 1 << 16  # cells
_LEAST_PART = 0.5  # standard errors of its noise that a sampling variance is taken to be at least


@dataclass(frozen=True)
class Cells:
    """Noisy counts of cells (categories or bins), with the noise distribution and the rows in no cell.

    The last are what is left of all rows where they are `derived`; `id` is that of the measurement, None where they
    are sums of what was measured. With weights
    the cells are those of the population, and `sampled` are their standard errors from sampling.
    """

    raw: NDArray[np.float64]
    law: NoiseLaw
    size: int | None
    missing: tuple[float | None, float | None]
    derived: bool = False
    id: str | None = ""
    weights: NoisyWeighted | None = None
    sampled: NDArray[np.float64] | None = None

    @classmethod
    def from_measurement(cls, measured: NoisyValue, size: int | None, columns: tuple[Column, ...]) -> Cells:
        """Construct cells from a measurement; if the number of rows is public, all other rows are in no cell."""
        return cls.of_counts(measured.values, measured.law, size, columns, measured.id)

    @classmethod
    def of_counts(
        cls,
        raw: NDArray[np.float64],
        law: NoiseLaw,
        size: int | None,
        columns: tuple[Column, ...],
        identity: str | None = None,
    ) -> Cells:
        """Construct cells from noisy counts; if the number of rows is public, all other rows are in no cell."""
        left: tuple[float | None, float | None] = (None, None)
        if size is not None and not all(column.other for column in columns):
            left = size - float(raw.sum()), law.standard_deviation * float(np.sqrt(raw.size))
        return cls(raw, law, size, left, left[0] is not None, identity)

    @classmethod
    def from_weighted(cls, sums: NoisyWeighted, shape: tuple[int, ...]) -> Cells:
        """Construct cells in the given shape, with population counts estimated from weighted counts."""
        counts, (_, variances, _) = sums.most * sums.values[:, 0], total(sums.estimate, [sums.most])
        law = sums.laws[0]
        law = replace(law, scale=law.scale * sums.most)
        unsure = sums.laws[1].standard_deviation * sums.most**2  # of a variance, below which none is taken to be
        sampled = np.sqrt(np.maximum(variances[:, 0], _LEAST_PART * unsure)).reshape(shape)
        return cls(counts.reshape(shape), law, None, (None, None), id=sums.id, weights=sums, sampled=sampled)

    def result_fields(self, confidence: float, *, normalize: bool, places: Iterable[int]) -> dict[str, Any]:
        """Return the fields that results of counts share; `places` are the indices of the cells that are shown."""
        weighted: dict[str, Any] = {}
        if self.weights is not None and self.sampled is not None:
            weighted = {
                "covers": "population",
                "weights": self.weights.weights,
                "sampling_standard_errors": self.sampled if self.sampled.ndim > 1 else self.sampled[[*places]],
                "limits": self.weights.limits,
            }
            places = [len(self.weights.laws) * at for at in places]  # each cell has more than one sum
        return {
            **weighted,
            "noise_scale": self.law.scale,
            "noise_step": self.law.step,
            "noise_kind": self.law.kind,
            "confidence": confidence,
            "normalize": normalize,
            "missing": self.missing[0],
            "missing_standard_error": self.missing[1],
            "released": None if self.id is None else (self.id, tuple(places)),
        }

    def total(self) -> float:
        """Estimate the number of rows that are in some cell; at least 0, and at most the number of all rows.

        All rows, less those in no cell where these were counted as well. Where they were not, the sum of what
        is not negative, but at most all rows, and two standard errors above the sum of the noisy counts.
        """
        gone, _ = self.missing
        if self.size is None or self.derived:
            most = max(float(self.raw.sum()), 0.0) + 2 * self.law.standard_deviation * float(np.sqrt(self.raw.size))
            return min(float(np.maximum(self.raw, 0).sum()), most, float("inf" if self.size is None else self.size))
        if not gone:
            return float(self.size)
        return float(project_counts(np.append(self.raw.ravel(), gone), self.size)[:-1].sum())


def measure_cells(
    curator: Curator, columns: tuple[Column, ...], nan_policy: NanPolicy, weights: Column | None = None
) -> Cells:
    """Measure the number of rows in each combination of categories; with weights, estimate population counts."""
    if nan_policy == "raise":
        curator.refuse_missing(*columns)
    if weights is not None:
        sums = measure_weighted(curator, weights, features.Count(), by=columns, noise="laplace")
        return Cells.from_weighted(sums, tuple(len(column.categories or ()) for column in columns))
    counts = features.OneHot(*columns)
    return Cells.from_measurement(curator.sum(counts, grid="unit"), curator.size, columns)


def bin_edges(column: Column, bins: Any) -> tuple[NDArray[np.float64], slice]:
    """Return the edges of the requested bins and of the intervals beside them, and the slice of the requested bins.

    What lies outside of the edges asked for, but within the bounds, is counted apart.
    """
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        if not 1 <= bins <= _MOST:
            raise ArgumentError(
                f"bins={bins} is not a possible number of bins.", f"Use an integer from 1 to {_MOST:,}."
            )
        return np.linspace(column.low, column.high, int(bins) + 1), slice(0, int(bins))
    listed = isinstance(bins, list | tuple | np.ndarray) and all(
        isinstance(edge, int | float | np.integer | np.floating) and not isinstance(edge, bool) for edge in bins
    )
    edges = np.asarray(bins if listed else [], dtype=np.float64)
    if not 2 <= edges.size <= _MOST or not np.isfinite(edges).all() or not (np.diff(edges) > 0).all():  # noqa: PLR2004
        raise ArgumentError(
            "bins= is neither a number of bins nor a list of increasing edges.",
            "Write for example bins=[0, 18, 65, 120].",
        )
    if edges[-1] < column.low or edges[0] > column.high:
        raise ArgumentError(
            f"Every bin lies outside the bounds of {column.name!r}, {column.low:g} to {column.high:g}.",
            "Values are clipped to the bounds, so these bins are empty. Use edges between the bounds.",
        )
    before, after = edges[0] > column.low, np.nextafter(edges[-1], np.inf) < column.high
    every_edge = np.concatenate([[column.low] if before else [], edges, [column.high] if after else []])
    return every_edge, slice(int(before), int(before) + edges.size - 1)


def check_histogram(column: Column, bins: Any, **_: Any) -> None:
    """Check the argument ``bins`` of `histogram` before anything is charged."""
    bin_edges(column, bins)


@mechanism(columns={"column": "numeric"})
def histogram(
    curator: Curator, column: Column, bins: int | Sequence[float] = 10, *, nan_policy: NanPolicy = "omit"
) -> Cells:
    """Count the rows in each bin of a numeric column.

    Parameters
    ----------
    column : str
        A column with bounds. Values count as clipped to them.
    bins : int or list of float
        How many bins of equal width between the bounds, or their edges, rising. As in NumPy a bin holds its lower
        edge and not its upper one, but the last holds both, and what is outside the edges is not counted.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` leaves them out, ``"fill"`` counts them with the column's
        fill value, ``"raise"`` refuses them, where the column is public.
    normalize : bool
        Show shares in place of counts.
    confidence : float
        Coverage of the intervals, each on its own.

    Returns
    -------
    Histogram
        Counts that are not negative, and the unbiased noisy ones.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: a row is in one bin, or
    has no value, so counts with discrete Laplace noise of sensitivity 2 where rows change, 1 where they come
    and go, however many bins there are [1]_.

    **Statistics.** Counts are the nearest to the noisy ones that are not negative and have the sum of all rows
    (where that is not known, at most two standard errors above the noisy sum). That makes small counts too
    large on average and large ones too small; sums of bins are better made of ``raw``.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 5000})
    >>> view = dp.protect(df, "eda-histogram", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> found = view.histogram("age", [20, 30, 40, 50], normalize=True, epsilon=0.5)
    >>> found.shares.round(2).tolist()
    [0.5, 0.25, 0.25]
    """
    n, gaps = curator.size, curator.gaps([column], nan_policy)
    edges, inner = bin_edges(column, bins)
    if inner.stop < len(edges) - 1:  # the last bin holds its upper edge
        edges[inner.stop] = np.nextafter(edges[inner.stop], np.inf)
    if len(edges) == 2 and not gaps:  # noqa: PLR2004 - all rows are in the one bin
        counted: features.RowFeatures = features.Count()
    else:
        counted = features.Bins(column, tuple(edges.tolist()), missing=bool(gaps))
    measured = curator.sum(counted, grid="unit")
    raw, law, left = measured.values, measured.law, (None, None)
    if gaps:
        return Cells(raw[:-1], law, n, (float(raw[-1]), law.standard_deviation), id=measured.id)
    nothing = None if column.filled or nan_policy == "fill" else 0.0
    return Cells(raw, law, n, (nothing, nothing) if n is not None else left, id=measured.id)


@histogram.concludes
def conclude_histogram(
    measured: Cells,
    column: Column,
    bins: int | Sequence[float],
    *,
    normalize: bool = False,
    confidence: Probability = 0.95,
) -> Histogram:
    """Return the histogram of the requested bins, from the noisy counts of all intervals."""
    edges, inner = bin_edges(column, bins)
    counts = project_counts(measured.raw, measured.total())
    beside, error = counts.size - counts[inner].size, measured.law.standard_deviation
    rows = rows_text(float(counts.sum() - counts[inner].sum()), error * math.sqrt(beside))
    return Histogram(
        limits=(f"{rows} rows lie outside the bins.",) * bool(beside),
        raw=measured.raw[inner],
        total=float(counts[inner].sum()),
        column=column.name,
        edges=edges[inner.start : inner.stop + 1],
        bounds=(column.low, column.high),
        **measured.result_fields(confidence, normalize=normalize, places=range(inner.start, inner.stop)),
    )


def check_value_counts(
    column: Column,
    *,
    weights: Column | None,
    categories: Literal["declared", "discover"],
    domain: Any,
    nan_policy: NanPolicy,
    **_: Any,
) -> None:
    """Check that the column has categories, or that a search for them is requested, before anything is charged."""
    if weights is not None and (categories == "discover" or domain is not None):
        raise ArgumentError(
            'weights= cannot be used with domain= or categories="discover".',
            "Declare the categories, or omit weights=.",
        )
    if categories == "declared" and column.categories is None and domain is None:
        raise SchemaError(
            f"Column {column.name!r} has no categories.",
            f"Declare the possible values, protect(..., categories={{{column.name!r}: [...]}}). To find the "
            'frequent values instead, give domain= (possible values), or categories="discover" and a delta.',
        )
    if categories == "discover" and domain is not None:
        raise ArgumentError(
            'categories="discover" finds unknown values, while domain= lists the possible ones.',
            "Omit one of the two arguments.",
        )
    if (categories == "discover" or domain is not None) and nan_policy != "omit":
        said = "domain=" if domain is not None else 'categories="discover"'
        raise ArgumentError(
            f"{said} always omits missing values, so nan_policy={nan_policy!r} has no effect.", "Omit nan_policy=."
        )


@mechanism(columns={"column": "any", "weights": "numeric"}, delta=True)
def value_counts(
    curator: Curator,
    column: Column,
    *,
    weights: Column | None = None,
    categories: Literal["declared", "discover"] = "declared",
    domain: Sequence[Any] | str | None = None,
    nan_policy: NanPolicy = "omit",
) -> Cells | FoundKeys:
    r"""Count the rows in each category of a column.

    Parameters
    ----------
    column : str
        A column with categories. Whatever is none of them counts nowhere, or as ``"other"`` where the column has
        that rule for missing values.
    weights : str, optional
        A column of sampling weights, with bounds from 0 or above: counts and shares are those of the population
        that they stand for. Weights count as clipped to their bounds; rows without one are left out.
    categories : {"declared", "discover"}
        Count the categories that were declared; or the values that occur in enough rows, whatever was declared,
        which takes a delta.
    domain : list, range, or str, optional
        All values that there can be, however many, for counts of those that occur in enough rows, without a delta:
        a list of codes, a range of integers, or a pattern of texts, such as ``"[A-Z][0-9]{2}"`` or, with ``\d``
        for a digit, ``r"\d{5}"``. A value that is none of them counts nowhere. What was declared is not used.
    nan_policy : {"omit", "fill", "raise"}
        ``"raise"`` refuses missing values, where the column is public; the others leave them out.
    normalize : bool
        Show shares in place of counts.
    sort : bool
        Largest count first; else in the order of the categories.
    confidence : float
        Coverage of the intervals, each on its own.

    Returns
    -------
    Counts
        Counts that are not negative, and the unbiased noisy ones; of values that were found, a
        `~dfprivacy_eda.FoundCounts`.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: a row is in one category, so
    counts with discrete Laplace noise of sensitivity 2 where rows change, 1 where they come and go, however many
    categories there are [1]_. So with a domain: what is shown has the law of noise on the counts of all its values
    and a threshold [2]_. With ``categories="discover"`` (ε, δ)-differential privacy, as `find_categories`.

    With weights, v being a weight over its upper bound, the sums of v and of v²/2 of each category have Laplace
    noise of sensitivity 3, or 3/2 where rows come and go; before, with a thirty-second of ε, the weights beyond
    their bounds are counted.

    **Statistics.** As for `histogram`. With weights, intervals are for the population's counts, by the noise and
    the variance of Poisson sampling, which is too large if the design fixes the number of rows. For intervals of
    shares ask `proportions`.
    Rows in no category are known where the number of rows is public: they
    are what is left, with the noise of all counts. Of a domain of d values, those are shown whose noisy count
    reaches a threshold of about b ln(20 d) rows, where b = 2/ε if rows change and 1/ε if they come and go: at
    ε = 1, 29 rows or 15 for 100,000 values, 47 or 24 for a billion. So 0.05 values that occur in no row are shown
    on average, at most.
    It takes the time of the rows, however large d is.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.
    .. [2] Cormode, Procopiuc, Srivastava and Tran (2012). Differentially private summaries for sparse data. ICDT.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"sex": ["f", "m", "f", "f"] * 5000})
    >>> view = dp.protect(df, "eda-counts", epsilon=1, ledger="memory:", categories={"sex": ["f", "m"]})
    >>> round(view.value_counts("sex", normalize=True, epsilon=0.5)["f"], 2)
    0.75

    Of all texts of five digits, those that occur in enough rows:

    >>> df = pd.DataFrame({"zip": ["90210", "10001", "60601"] * 4000 + [f"{at:05}" for at in range(5000)]})
    >>> view = dp.protect(df, "eda-zip", epsilon=1, ledger="memory:")
    >>> found = view.value_counts("zip", domain=r"\d{5}", epsilon=0.5)
    >>> sorted(found.categories[:3])
    ['10001', '60601', '90210']
    """
    if categories == "discover" or domain is not None:
        return measure_frequent_values(curator, (column,), domain)
    return measure_cells(curator, (column,), nan_policy, weights)


@value_counts.concludes
def conclude_value_counts(
    measured: Cells | FoundKeys,
    column: Column,
    *,
    normalize: bool = False,
    sort: bool = True,
    confidence: Probability = 0.95,
) -> Counts:
    """Return the noisy count of each category, in descending order if requested."""
    if isinstance(measured, FoundKeys):
        (keys,) = measured.discovered
        return found_counts(keys, column.name, measured.size, confidence, normalize=normalize, sort=sort)
    known = column.categories or ()
    order = np.argsort(-measured.raw, kind="stable") if sort else np.arange(len(known))
    return Counts(
        raw=measured.raw[order],
        total=measured.total(),
        column=column.name,
        categories=tuple(known[at] for at in order.tolist()),
        **measured.result_fields(confidence, normalize=normalize, places=order.tolist()),
    )


def check_crosstab(a: Column, b: Column, **_: Any) -> None:
    """Check that a crosstab has two different columns and not too many cells, before anything is charged."""
    if a.name == b.name:
        raise ArgumentError(
            f"crosstab({a.name!r}, {b.name!r}) names a column twice.", "Use value_counts() for one column."
        )
    count = len(a.categories or ()) * len(b.categories or ())
    if count > _MOST:
        raise ArgumentError(
            f"A crosstab of {count:,} cells is too large.",
            f"Use columns with fewer categories, for at most {_MOST:,} cells.",
        )


@mechanism(columns={"a": "category", "b": "category", "weights": "numeric"})
def crosstab(
    curator: Curator, a: Column, b: Column, *, weights: Column | None = None, nan_policy: NanPolicy = "omit"
) -> Cells:
    """Count the rows in each combination of two columns' categories.

    Parameters
    ----------
    a : str
        A column with categories, for the rows.
    b : str
        Another, for the columns.
    weights : str, optional
        A column of sampling weights, as for `value_counts`.
    nan_policy : {"omit", "fill", "raise"}
        As for `value_counts`.
    normalize : {False, True, "all", "index", "columns"}
        Show shares of all rows (True is ``"all"``), of each row of the table, or of each column.
    margins : bool
        Show sums as well, under the name All.
    confidence : float
        Coverage of the intervals, each on its own.

    Returns
    -------
    Crosstab
        Counts that are not negative, and the unbiased noisy ones.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation, as `value_counts`: a row
    is in one combination [1]_.

    **Statistics.** As for `histogram`. ``view.chi2(a, b, method="table")`` tests independence on the same release,
    and so does ``view.chi2(b, a, method="table")``: both cost nothing at the same price.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"sex": ["f", "m"] * 5000, "ill": ["no", "no", "yes", "no"] * 2500})
    >>> view = dp.protect(df, "eda-crosstab", epsilon=1, ledger="memory:",
    ...                   categories={"sex": ["f", "m"], "ill": ["yes", "no"]})
    >>> view.crosstab("sex", "ill", normalize="index", epsilon=0.5).table.round(1).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    >>> test = view.chi2("ill", "sex", method="table", epsilon=0.5)
    >>> test.privacy.epsilon, test.rejected
    (0.0, True)
    """
    first, second = sorted((a, b), key=lambda column: column.name)  # crosstab(b, a), and tests, find the same
    measured = measure_cells(curator, (first, second), nan_policy, weights)
    if first is a:
        return measured
    return replace(measured, raw=measured.raw.T, sampled=None if measured.sampled is None else measured.sampled.T)


@crosstab.concludes
def conclude_crosstab(
    measured: Cells,
    a: Column,
    b: Column,
    *,
    normalize: Literal[False, True, "all", "index", "columns"] = False,
    margins: bool = False,
    confidence: Probability = 0.95,
) -> Crosstab:
    """Compute the contingency table from the noisy counts."""
    by = "all" if normalize is True else normalize or None
    every = np.arange(measured.raw.size)  # of the columns in the order of their names
    places = every.reshape(measured.raw.shape) if a.name < b.name else every.reshape(measured.raw.T.shape).T
    return Crosstab(
        raw=measured.raw,
        total=measured.total(),
        columns=(a.name, b.name),
        categories=(a.categories or (), b.categories or ()),
        by=by,
        margins=margins,
        **measured.result_fields(confidence, normalize=by is not None, places=places.ravel().tolist()),
    )


@mechanism(columns={"columns": "columns"})
def count(curator: Curator, columns: tuple[Column, ...] | None = None, *, nan_policy: NanPolicy = "omit") -> Sums:
    """Count rows, or the rows with a value in every named column.

    Parameters
    ----------
    columns : str or list of str, optional
        Columns with bounds or categories. Default: all rows count, whatever they hold.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` tells them from the others, ``"fill"`` counts them as
        others, ``"raise"`` refuses them, where the columns are public.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    ColumnStatistic
        The number of rows, between 0 and all of them; ``raw`` is unbiased where the noise went beyond.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: a count with discrete Laplace
    noise of sensitivity 1 [1]_ (2 where rows with a value and without one are both counted, in a part of the table
    whose size is private, and rows may change). What public columns tell is exact and free.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, None, 40] * 500})
    >>> view = dp.protect(df, "eda-count", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> 1400 < float(view.count("age", epsilon=0.5)) < 1600
    True
    """
    return _measure_rows(curator, columns or (), nan_policy, both=False)


@count.concludes
def conclude_count(measured: Sums, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Compute the number of rows, or of rows with a value, and its confidence interval."""
    return column_statistic("count", measured, confidence)


@mechanism(columns={"columns": "columns"})
def missing(curator: Curator, columns: tuple[Column, ...], *, nan_policy: NanPolicy = "omit") -> Sums:
    """Count the rows that lack a value in at least one of the columns.

    Parameters
    ----------
    columns : str or list of str
        Columns with bounds or categories; of a category column, whatever is none of the categories is missing.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` tells them from the others, ``"fill"`` counts them as
        others, ``"raise"`` refuses them, where the columns are public.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    ColumnStatistic
        The number of rows, between 0 and all of them; ``raw`` is unbiased where the noise went beyond.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: a count with discrete Laplace
    noise of sensitivity 1 [1]_ (2 where rows with a value and without one are both counted, in a part of the table
    whose size is private, and rows may change). What public columns tell is exact and free.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, None, 40] * 500})
    >>> view = dp.protect(df, "eda-missing", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> 400 < float(view.missing("age", epsilon=0.5)) < 600
    True
    """
    return _measure_rows(curator, columns, nan_policy, both=True)


@missing.concludes
def conclude_missing(measured: Sums, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Compute the number of rows without a value, and its confidence interval."""
    return column_statistic("missing", measured, confidence)


def _measure_rows(curator: Curator, columns: tuple[Column, ...], nan_policy: NanPolicy, *, both: bool) -> Sums:
    """Measure the number of complete rows; also of incomplete rows, if this adds no noise or `both` is true."""
    n, gaps = curator.size, curator.gaps(columns, nan_policy)
    if not gaps:
        return _row_sums(curator.sum(features.Count(), grid="unit"), columns, complete=True)
    told = n is None and (both or curator.neighbors == "add_remove")
    known = curator.sum(features.Given(*gaps, tally=(0, 1) if told else None), grid="unit")
    return _row_sums(known, columns, n, complete=False)


def _row_sums(
    noisy: NoisyValue, columns: Sequence[Column], all_rows: float | None = None, *, complete: bool
) -> Sums:
    """Return the noisy numbers of rows without and with missing values as `Sums`.

    Parameters
    ----------
    noisy : NoisyValue
        Number of complete rows, or the numbers of complete and of incomplete rows.
    columns : sequence of Column
        The columns in which complete rows have a value.
    all_rows : float, optional
        The public number of all rows, from which the number of incomplete rows follows.
    complete : bool
        Whether all rows have a value.
    """
    map_, start = np.zeros((4, noisy.values.size)), np.zeros(4)
    map_[0, 0], counted = 1, complete or all_rows is not None or noisy.values.size > 1
    if noisy.values.size > 1:
        map_[3, 1] = 1
    elif all_rows is not None and not complete:
        map_[3, 0], start[3] = -1, all_rows
    column, laws = Column(", ".join(each.name for each in columns), (-1.0, 1.0)), (noisy.law,) * noisy.values.size
    return Sums(column, noisy.values, laws, map_, start, counted, measurement_ids(noisy))


def _distinct_change(columns: tuple[Column, ...], public: frozenset[str]) -> float:
    """Return the largest change of the number of distinct values if one row changes."""
    return 0.0 if all(column.name in public for column in columns) else 1.0


class Categories(OfSums):
    """Number of different categories that occur in a column."""

    description = "the number of categories of {columns}"
    shape = (1,)

    def __init__(self, column: Column) -> None:
        self.features = features.OneHot(column)
        self.columns = (column,)

    def value(self, sums: NDArray[np.float64]) -> Any:
        """Return the number of categories that occur in at least one row."""
        return np.count_nonzero(sums)

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the largest change of the number of categories if one row changes, or is added or removed."""
        return _distinct_change(self.columns, public) if relation == "replace_one" else 1.0


class Values(OfRows):
    """Number of distinct values of a numeric column, after clipping to its bounds."""

    description = "the number of distinct values of {columns}"
    shape = (1,)

    def __init__(self, column: Column, *, omit: bool) -> None:
        self.columns = (column,)
        self.omit = omit

    def value(self, rows: Batch) -> Any:
        """Return the number of distinct values in the rows."""
        (column,) = self.columns
        values = rows.values(column)
        return len(np.unique(values[~rows.missing(column)] if self.omit else values))

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the largest change of the number of distinct values if one row changes, or is added or removed."""
        return _distinct_change(self.columns, public) if relation == "replace_one" else 1.0


def check_nunique(column: Column, **_: Any) -> None:
    """Check that the column has bounds or categories, before anything is charged."""
    if column.bounds is None and column.categories is None:
        raise ArgumentError(
            f"Column {column.name!r} has neither bounds nor categories, so its distinct values cannot be counted.",
            f"Declare categories={{{column.name!r}: [...]}}, or bounds= for a column of numbers.",
        )


@mechanism(columns={"column": "any"})
def nunique(curator: Curator, column: Column, *, nan_policy: NanPolicy = "omit") -> Sums:
    """Count the distinct values of a column.

    Parameters
    ----------
    column : str
        A column with categories, of which those count that some row is in, or with bounds, to which its numbers are
        clipped. Of a column with both, the categories count.
    nan_policy : {"omit", "fill", "raise"}
        Whether a missing number is no value, ``"omit"``, or counts as the column's fill value, ``"fill"``;
        ``"raise"`` refuses missing values, where the column is public.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    ColumnStatistic
        The number, between 0 and that of the categories, or of the rows; ``raw`` is unbiased where the noise went
        beyond.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used, or neither bounds nor categories are declared; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: discrete Laplace noise of
    sensitivity 1 [1]_. Where a row changes, one value may go and another come, so the number moves by 1 at most.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 5000})
    >>> view = dp.protect(df, "eda-nunique", epsilon=50, ledger="memory:", bounds={"age": (0, 100)})
    >>> round(float(view.nunique("age", epsilon=50)))
    4
    """
    gaps = curator.gaps([column], nan_policy)
    if column.categories is not None:
        measured, most = curator.measure(Categories(column)), float(len(column.categories))
    else:
        measured = curator.measure(Values(column, omit=bool(gaps)))
        most = math.inf if curator.size is None else float(curator.size)
    found = _row_sums(measured, [column], most, complete=False)
    return replace(found, counted=False)


@nunique.concludes
def conclude_nunique(measured: Sums, column: Column, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Compute the number of distinct values, with a confidence interval for the exact number."""
    found = replace(column_statistic("count", measured, confidence), statistic="nunique", count=None)
    wide = found.low is not None and found.high is not None and found.high - found.low > measured.size / 2
    few = "The interval spans more than half of the possible range: epsilon is too small for this column."
    found = replace(found, notes=(few,) * wide)
    return found if column.categories is not None else replace(found, covers="limited table", bounds=column.bounds)
