"""Correlations and covariances, from noisy sums of columns and of products of two columns."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, Probability, features, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.estimates import measure_beyond
from dfprivacy.inference.clipped import shares_beyond_bounds
from dfprivacy.inference.engine import infer
from dfprivacy.laws import NoiseLaw
from dfprivacy.markup import Grid
from dfprivacy.plotting import axes, wrap_label
from dfprivacy.wording import bounds_phrase, number, rows_text, uncertainty, with_error
from dfprivacy_eda.describe import check_distinct_columns
from dfprivacy_eda.results import LONG, TableResult, draw_matrix, missing_row
from dfprivacy_eda.sums import DRAWS, SD, draw_noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import NoisyValue
    from dfprivacy.inference.clipped import Sides

    Numbers = NDArray[np.float64]

__all__ = ["Correlations", "Covariances", "Products", "check_columns", "corr", "cov"]

_MAX_PRINTED = 12  # columns
_FLOOR = 1e-9  # least eigenvalue of the nearest matrix, as a part of the largest


@dataclass(frozen=True, kw_only=True, repr=False)
class _Matrix(TableResult):
    """Base class of correlation and covariance matrices, with an entry for each pair of columns."""

    _what: ClassVar[str]
    _row_counts = ("count",)
    _named = ("column", "columns")

    columns: tuple[str, ...]
    estimates: Numbers
    unknown: tuple[str, ...]
    standard_errors: Numbers
    lows: Numbers
    highs: Numbers
    confidence: float
    count: float
    missing: float | None
    missing_standard_error: float | None
    bounds: tuple[tuple[float, float], ...]
    clipped: tuple[Sides, ...]
    notes: tuple[str, ...]
    covers: str | None = "limited table"

    @property
    def values(self) -> Numbers:
        """The matrix as an array, with NaN for columns whose variance is not clearly above its noise."""
        out = np.array([name in self.unknown for name in self.columns])
        return np.where(out[:, None] | out, np.nan, self.estimates)

    def _table_columns(self, name: str) -> dict[str, list[Any]]:
        return dict(zip(self.columns, getattr(self, name).T.tolist(), strict=True))

    def __getitem__(self, column: str | tuple[str, str]) -> Any:
        if not isinstance(column, tuple):
            return self.frame[column]
        places = [self.columns.index(name) if name in self.columns else None for name in column]
        match places:
            case [int(row), int(other)]:
                return float(self.values[row, other])
        raise ArgumentError(
            f"There is no entry for {column!r} in the matrix.", f"Its columns are {[*self.columns]!r}."
        )

    def _tidy(self) -> list[dict[str, Any]]:
        at = np.triu_indices(len(self.columns))
        a, b = ([self.columns[place] for place in side] for side in at)
        fields = {"value": "values", "standard_error": "standard_errors", "low": "lows", "high": "highs"}
        return [{"a": a, "b": b, **{name: getattr(self, of)[at].tolist() for name, of in fields.items()}}]

    def _sentence(self) -> str:
        """Write a sentence with the pair of columns whose correlation is farthest from 0."""
        every = itertools.combinations(range(len(self.columns)), 2)
        pairs = [pair for pair in every if not math.isnan(self.values[pair])]
        if not pairs:
            return f"No {self._what} of {self._label(*self.columns)} is known."
        first, second = max(pairs, key=lambda pair: abs(self._comparable_value(*pair)))
        low, high, value = (float(of[first, second]) for of in (self.lows, self.highs, self.values))
        names = self.columns[first], self.columns[second]
        units = [unit for name in names if (unit := self._unit(name))] if self._what == "covariance" else []
        told = f"{number(value, (high - low) / 4)} {' · '.join(units)}".rstrip()
        how = uncertainty(low, high, self.confidence, whose="this table", noise=1.0)
        most = f", the strongest of {len(pairs)} pairs" if len(pairs) > 1 else ""
        return f"The {self._what} of {self._label(*names)}{bounds_phrase(self.covers)} is {told}{how}{most}."

    def _comparable_value(self, first: int, second: int) -> float:
        """Return an entry of the matrix in a scale in which pairs of columns can be compared."""
        return float(self.values[first, second])

    def _grid(self) -> Grid:
        shown = self.columns[:_MAX_PRINTED]
        cells = _cell_text(self.values, self.standard_errors)
        return Grid(("", *shown), [(name, *row[: len(shown)]) for name, row in zip(shown, cells, strict=False)])

    def _rows(self) -> list[tuple[str, str]]:
        hidden = len(self.columns) - _MAX_PRINTED
        rows = [("…", f"{hidden:,} more columns, in frame")] if hidden > 0 else []
        rows.append(("±", "one standard error of the privacy noise"))
        rows.append(("intervals", f"{100 * self.confidence:.4g}%, in to_frame()"))
        rows.append(("rows", rows_text(self.count, self.missing_standard_error)))
        rows += missing_row(self.missing, self.missing_standard_error)
        return [*rows, *(("note", note) for note in self.notes)]

    def plot(self, ax: Any = None) -> Any:
        """Draw the matrix as coloured squares, each labelled with the entry and its standard error."""
        names = [wrap_label(self._with_units(name), LONG) for name in self.columns]
        ax = axes(ax, height=max(2.2, 0.6 * len(names) + 0.5 + 0.06 * max(map(len, names))))
        errors = np.vectorize(lambda error: f"\n± {error:.2g}" if error else "", otypes=[object])
        cells = _cell_text(self.values, self.standard_errors, errors(self.standard_errors))
        return draw_matrix(ax, self.values, cells, names, names, "RdBu")


@np.vectorize(otypes=[object])
def _cell_text(value: float, error: float, spread: str | None = None) -> str:
    """Return an entry as text with its standard error or a given text after it; "not known" for NaN."""
    told = with_error(value, error) if spread is None else number(value, error) + spread
    return "not known" if math.isnan(value) else told


@dataclass(frozen=True, kw_only=True, repr=False)
class Correlations(_Matrix):
    """Pearson's correlation of each pair of columns.

    ``to_frame()`` has a row for each two, in the order of the upper triangle, with the columns a, b, value,
    standard_error, low and high.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    values : ndarray of shape (columns, columns)
        The correlations, each for itself between -1 and 1; NaN where the noise could be all of a column's variance.
        Together they may be those of no data; `nearest` are not.
    estimates : ndarray of the same shape
        The same with 0 where nothing is known.
    unknown : tuple of str
        The columns of which nothing is known.
    standard_errors : ndarray of the same shape
        Standard error that privacy adds to each.
    lows, highs : ndarrays of the same shape
        Ends of an interval for the table's own number.
    confidence : float
        Coverage of each interval.
    count : float
        Rows with a value in every column; noisy where that is private.
    missing, missing_standard_error : float or None
        Rows left out, for a missing value in some column, with noise, and its standard error; None where none was
        left out or it is not known.
    bounds : tuple of pairs
        To what the values of each column were clipped.
    clipped : tuple
        Of each column the shares of the rows below and above its bounds, as of `dfprivacy.estimates.Estimate`;
        empty where they were not measured.
    notes : tuple of str
        What to know before trusting the numbers.
    """

    _what = "correlation"

    @property
    def nearest(self) -> Numbers:
        """Correlation matrix near the noisy one: its eigenvalues are not negative, and its diagonal is 1.

        Unknown ones count as 0. It is biased where it differs from `values`.
        """
        known = self.estimates.copy()
        np.fill_diagonal(known, 1.0)
        raised = _raise_negative_eigenvalues(known)
        root = np.sqrt(np.diag(raised))
        nearest: Numbers = raised / np.outer(root, root)
        return nearest


@dataclass(frozen=True, kw_only=True, repr=False)
class Covariances(_Matrix):
    """The covariance of each pair of columns, with the divisor n - 1, in the product of their units.

    ``to_frame()`` is as for `Correlations`.

    Attributes
    ----------
    columns, estimates, unknown, standard_errors, lows, highs, confidence, bounds, clipped, notes
        As for `Correlations`.
    count, missing, missing_standard_error
        As for `Correlations`.
    values : ndarray of shape (columns, columns)
        The covariances, as the noise has them: a variance may be negative, and all together those of no data.
    """

    _what = "covariance"

    def _comparable_value(self, first: int, second: int) -> float:
        (low, high), (least, most) = self.bounds[first], self.bounds[second]
        return float(self.values[first, second]) / ((high - low) * (most - least))

    @property
    def nearest(self) -> Numbers:
        """Covariance matrix nearest to the noisy one: its eigenvalues are not negative.

        Nearest counts each column in parts of the width of its bounds. It is biased where it differs from `values`.
        """
        half = np.array([(high - low) / 2 for low, high in self.bounds])
        units = np.outer(half, half)
        return _raise_negative_eigenvalues(self.estimates / units) * units


def _raise_negative_eigenvalues(matrix: Numbers) -> Numbers:
    """Return the symmetric matrix with its negative eigenvalues raised to a small positive number."""
    values, vectors = np.linalg.eigh(matrix)
    least = _FLOOR * max(float(values[-1]), _FLOOR)
    raised: Numbers = (vectors * np.maximum(values, least)) @ vectors.T
    return (raised + raised.T) / 2


def is_indefinite(matrix: Numbers) -> bool:
    """Return whether a symmetric matrix has an eigenvalue that is negative by more than rounding error."""
    return bool(np.linalg.eigvalsh(matrix)[0] < -math.sqrt(_FLOOR) * abs(matrix).max())


_MOST = 100  # columns
_RECENTRE_SHARE = "3/10"  # of the budget, for where the values are
_CLIP_SDS = 3.0  # standard deviations about the mean, to which values are clipped then
_CLEAR_ERRORS = 2.0  # standard errors above 0, from which a variance is one
_MAX_DRAW = 4_000_000  # numbers in all draws of noise, at most


@dataclass(frozen=True)
class Products:
    """Noisy sums of columns, scaled to [-1, 1], and of products of two columns, over complete rows.

    Attributes
    ----------
    columns : tuple of Column
        The columns, with the bounds to which their values were clipped.
    values : ndarray of shape (d,)
        The sums of y_i, 2y_i²-1 and y_i y_j as `dfprivacy.features.Outer` has them, after the number of rows where
        that was measured.
    scales : ndarray of shape (d,)
        The scale of the noise of the cube in each; 0 where all is public.
    size : int or None
        The number of all rows, where that is public.
    counted : bool
        Whether the number of complete rows was measured.
    beyond : tuple of NoisyValue
        How many of these lie beyond the bounds of each column; empty where that was not measured.
    """

    columns: tuple[Column, ...]
    values: Numbers
    scales: Numbers
    size: int | None
    counted: bool
    beyond: tuple[NoisyValue, ...] = ()

    @property
    def rows(self) -> float:
        """Number of rows without missing values in the columns; noisy if it was measured."""
        return float(self.values[0]) if self.counted else float(self.size or 0)

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise in each sum."""
        return NoiseLaw(float(np.max(self.scales)), kind="cube", dimension=len(self.values)).standard_deviation

    @cached_property
    def beyond_bounds(self) -> tuple[tuple[Sides, ...], tuple[str, ...]]:
        """Shares of the rows below and above the bounds of each column, and notes on these shares."""
        clipped, notes = shares_beyond_bounds(self.beyond, self.columns, self.rows)
        return tuple(each for (each,) in clipped), notes

    @cached_property
    def estimate(self) -> Numbers:
        """Noisy covariances of the columns scaled to [-1, 1], shape (p, p, 1)."""
        return self._covariances(self.values[:, None])

    @cached_property
    def _noise_free(self) -> Numbers:
        d = len(self.values)
        laws = tuple(NoiseLaw(float(scale), kind="cube", dimension=d) for scale in self.scales)
        drawn = draw_noise(laws, min(DRAWS, 2 * (_MAX_DRAW // (2 * d)))) if self.scales.any() else np.zeros((d, 1))
        return self._covariances(self.values[:, None] - drawn)

    def draws(self, draws: int = DRAWS) -> tuple[Numbers, Numbers]:  # noqa: ARG002 - as many as there is room for
        """Draw covariances of the scaled columns that agree with the noisy sums; return them with equal weights."""
        many = self._noise_free.shape[-1]
        return self._noise_free, np.full(many, 1 / many)

    def expected_error(self, rows: float, name: str) -> float | None:
        """Return the expected standard error of a correlation near 0, or of a covariance of standardised columns.

        None where nothing will be known: the noise may be all of a variance of a sixth of the range.
        """
        p, upper = len(self.columns), np.triu_indices(len(self.columns))
        second = np.where(upper[0] == upper[1], rows * (2 * SD**2 - 1), 0.0)
        sums = np.concatenate([[rows] * self.counted, np.zeros(p), second])
        typical = replace(self, values=sums, size=None if self.size is None else round(rows))
        if name == "covariance":
            return float(infer(typical, _covariance_entries).noise_standard_error[0, 1]) / SD**2
        if (2 * _CLEAR_ERRORS * infer(typical, _diagonal_entries).noise_standard_error > SD**2).any():
            return None
        return float(infer(typical, _correlations).noise_standard_error[0, 1])

    def _covariances(self, sums: Numbers) -> Numbers:
        """Compute covariances of the scaled columns, with divisor n - 1, from sums along the first axis."""
        p = len(self.columns)
        n = np.maximum(sums[0] if self.counted else float(self.size or 0), 2.0)
        rest = sums[int(self.counted) :]
        mean, second = rest[:p] / n, np.empty((p, p, *sums.shape[1:]))
        upper = np.triu_indices(p)
        second[upper] = second[upper[::-1]] = rest[p:] / n
        second[range(p), range(p)] = (second[range(p), range(p)] + 1) / 2
        return np.asarray((second - mean[:, None] * mean) * (n / (n - 1)))


def check_columns(columns: tuple[Column, ...] | None, **_: Any) -> None:
    """Check that 2 to 100 different columns are named, before anything is charged."""
    check_distinct_columns(columns)
    if columns is not None and not 2 <= len(columns) <= _MOST:  # noqa: PLR2004
        raise ArgumentError(
            f"columns= must name two to {_MOST} columns, not {len(columns)}.",
            "For a single column, use view.var(column).",
        )


def measure_products(
    curator: Curator,
    columns: tuple[Column, ...] | None,
    nan_policy: NanPolicy,
    *,
    recentre: bool = False,
    limited: bool = True,
) -> Products:
    """Measure sums and products of columns in one vector; `recentre` first narrows bounds around noisy means.

    Rows beyond bounds are counted before, unless they are known.
    """
    if columns is None:
        columns = tuple(column for column in curator.columns if column.bounds is not None)
        if len(columns) < 2:  # noqa: PLR2004
            raise ArgumentError(
                f"{len(columns)} columns have bounds, but at least two are needed.",
                "Declare bounds: protect(..., bounds={...}).",
            )
        check_columns(columns)
    n, gaps = curator.size, curator.gaps(columns, nan_policy)
    if recentre:
        columns = _narrowed_columns(curator, columns, gaps)
    beyond = measure_beyond(curator, columns if limited else (), gaps)
    # Where rows only change, a row with a gap may be as far from others as these from each other: twice the radius.
    counted: bool | float = (1.0 if n is None else 2.0) if n is None or gaps else False
    of: features.RowFeatures = features.Outer(columns, count=counted, centred=True)
    noisy = curator.sum(features.Given(*gaps, of=of) if gaps else of, noise="cube")
    return Products(columns, noisy.values, noisy.scales, n, bool(counted), beyond)


def _narrowed_columns(
    curator: Curator, columns: tuple[Column, ...], gaps: tuple[Column, ...]
) -> tuple[Column, ...]:
    """Return the columns with bounds narrowed to three noisy standard deviations around the noisy mean."""
    n = curator.size
    every: list[features.RowFeatures] = [features.Moments(column, centred=True) for column in columns]
    count = n is None or bool(gaps)
    stack = features.Stack(*([features.Count()] if count else []), *every)
    noisy = curator.sum(features.Given(*gaps, of=stack) if gaps else stack, noise="cube", share=_RECENTRE_SHARE)
    error = noisy.law.standard_deviation
    rows = max(float(noisy.values[0]) if count else float(n or 0), 1.0)
    narrow = []
    for column, (s1, s2) in zip(columns, noisy.values[int(count) :].reshape(-1, 2).tolist(), strict=True):
        mean, square = s1 / rows, (s2 / rows + 1) / 2
        variance = min(max(square - mean * mean, 0.0), 1.0)
        if variance <= _CLEAR_ERRORS * error / rows:  # nobody knows where the values are
            narrow.append(column)
            continue
        mean, reach = column.mid + column.half * mean, _CLIP_SDS * column.half * math.sqrt(variance)
        low, high = max(column.low, mean - reach), min(column.high, mean + reach)
        kept = (low, high) if low < high else (column.low, column.high)
        fill = None if column.fill is None else min(max(column.fill, kept[0]), kept[1])
        narrow.append(replace(column, bounds=kept, fill=fill))
    return tuple(narrow)


@mechanism(columns={"columns": ["numeric"]})
def corr(
    curator: Curator,
    columns: tuple[Column, ...] | None = None,
    *,
    recentre: bool = False,
    nan_policy: NanPolicy = "omit",
) -> Products:
    """Return Pearson's correlation of each pair of columns.

    Parameters
    ----------
    columns : list of str, optional
        Two or more columns with bounds. Default: all. Values count as clipped to the bounds.
    recentre : bool
        Spend three tenths of the budget on means and standard deviations, and clip values to three standard
        deviations about the mean. That is more accurate for skewed columns with wide bounds, from four on while the
        noise dominates; the answer is about the clipped values, and says to what they were clipped.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows with a missing value in one of the columns: ``"omit"`` leaves them out of all pairs,
        ``"fill"`` counts them with the columns' fill values, ``"raise"`` refuses them, where these are public.
    confidence : float
        Coverage of the intervals, each on its own.

    Returns
    -------
    Correlations
        A matrix, in ``frame``, with standard errors in ``errors``.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used, or fewer than two columns have bounds; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. With y the columns mapped from
    their bounds to [-1, 1], the sums of y_i, 2y_i²-1 and y_i y_j have noise of the cube [1]_: one row moves each by
    2 at most, by 1 where rows come and go. The number of complete rows is one coordinate more where it is private.
    The rows beyond the bounds of each column are counted before, with a thirty-second of ε and the same noise: one
    row moves each of these numbers by 1 at most. All add up to ε. `cov` follows from the same release.

    **Statistics.** Intervals are for the table's own numbers: quantiles of draws of the noise, whose law is
    public. Each cell is estimated for itself; the nearest matrix that some data have is ``nearest``.

    References
    ----------
    .. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.random.default_rng(1).normal(size=20_000)
    >>> df = pd.DataFrame({"x": x, "y": x + np.random.default_rng(2).normal(size=20_000)})
    >>> view = dp.protect(df, "eda-corr", epsilon=2, ledger="memory:", bounds={"x": (-4, 4), "y": (-6, 6)})
    >>> found = view.corr(["x", "y"], epsilon=2)
    >>> bool(0.6 < found.loc["x", "y"] < 0.8)
    True
    """
    return measure_products(curator, columns, nan_policy, recentre=recentre)


@corr.concludes
def conclude_corr(products: Products, *, recentre: bool, confidence: Probability = 0.95) -> Correlations:
    """Compute correlations from the noisy sums of columns and products."""
    variances = products.estimate.diagonal()[0]
    unknown = variances <= _CLEAR_ERRORS * infer(products, _diagonal_entries).noise_standard_error
    found = infer(products, _correlations)
    values, errors, (low, high) = found.estimate.copy(), found.noise_standard_error, found.interval(confidence)
    either = unknown[:, None] | unknown
    values[either], errors[either], low[either], high[either] = 0.0, 1.0, -1.0, 1.0
    np.fill_diagonal(low, np.where(unknown, -1.0, 1.0))
    off = ~np.eye(len(values), dtype=np.bool_)
    notes = _notes(products, values + np.diag(unknown), recentre=recentre)
    drowned = tuple(column.name for column, out in zip(products.columns, unknown, strict=True) if out)
    if drowned:
        what = "variance and correlations" if len(drowned) == 1 else "variances and correlations"
        notes.insert(0, f"The noise hides the {what} of {', '.join(drowned)}.")
    elif (high - low)[off].min() > 1:
        notes.append("Uninformative: each interval spans more than half of the possible range: too little data.")
    return Correlations(
        **_result_fields(products, values, errors, low, high, notes), unknown=drowned, confidence=confidence
    )


def _covariance_entries(covariances: Numbers) -> tuple[Numbers, Numbers, float]:
    """Return the covariances as a parameter for `infer`, with a sampling variance of 0."""
    return covariances, np.zeros(1), np.inf


def _diagonal_entries(covariances: Numbers) -> tuple[Numbers, Numbers, float]:
    """Return the variances as a parameter for `infer`, with a sampling variance of 0."""
    return covariances[range(len(covariances)), range(len(covariances))], np.zeros(1), np.inf


def _correlations(covariances: Numbers) -> tuple[Numbers, Numbers, float]:
    """Compute correlations, clipped to [-1, 1], from covariances, as a parameter for `infer`."""
    root = np.sqrt(np.maximum(_diagonal_entries(covariances)[0], 1e-12))
    correlations = np.clip(covariances / (root[:, None] * root), -1.0, 1.0)
    correlations[range(len(root)), range(len(root))] = 1.0
    return correlations, np.zeros(1), np.inf


@mechanism(columns={"columns": ["numeric"]})
def cov(
    curator: Curator,
    columns: tuple[Column, ...] | None = None,
    *,
    recentre: bool = False,
    nan_policy: NanPolicy = "omit",
) -> Products:
    """Return the covariance of each pair of columns, with the divisor n - 1.

    Parameters
    ----------
    columns : list of str, optional
        Two or more columns with bounds. Default: all. Values count as clipped to the bounds.
    recentre : bool
        As for `corr`.
    nan_policy : {"omit", "fill", "raise"}
        As for `corr`.
    confidence : float
        Coverage of the intervals, each on its own.

    Returns
    -------
    Covariances
        A matrix in products of the columns' units, in ``frame``, with standard errors in ``errors``.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used, or fewer than two columns have bounds; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation, by the release of `corr` [1]_.

    **Statistics.** As for `corr`.

    References
    ----------
    .. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.random.default_rng(1).normal(size=20_000)
    >>> df = pd.DataFrame({"x": x, "y": x + np.random.default_rng(2).normal(size=20_000)})
    >>> view = dp.protect(df, "eda-cov", epsilon=2, ledger="memory:", bounds={"x": (-4, 4), "y": (-6, 6)})
    >>> found = view.cov(["x", "y"], epsilon=2)
    >>> bool(0.8 < found.loc["x", "y"] < 1.2)
    True
    >>> view.corr(["x", "y"], epsilon=2).privacy.epsilon
    0.0
    """
    return measure_products(curator, columns, nan_policy, recentre=recentre)


@cov.concludes
def conclude_cov(products: Products, *, recentre: bool, confidence: Probability = 0.95) -> Covariances:
    """Compute covariances in the units of the columns from the noisy sums."""
    half = np.array([column.half for column in products.columns])
    with np.errstate(over="ignore"):
        units = np.minimum(np.outer(half, half), np.finfo(np.float64).max)
    found = infer(products, _covariance_entries)
    values, errors, (low, high) = found.estimate, found.noise_standard_error, found.interval(confidence)
    np.fill_diagonal(low, np.maximum(np.diag(low), 0.0))
    np.fill_diagonal(high, np.maximum(np.diag(high), 0.0))
    notes = _notes(products, values, recentre=recentre)
    about = _result_fields(products, values * units, errors * units, low * units, high * units, notes)
    return Covariances(**about, unknown=(), confidence=confidence)


def _notes(products: Products, matrix: Numbers, *, recentre: bool) -> list[str]:
    notes = []
    if recentre:
        ends = ", ".join(f"{column.name} from {column.low:.4g} to {column.high:.4g}" for column in products.columns)
        notes.append(f"Values were clipped to narrower bounds: {ends}.")
    if is_indefinite(matrix):
        notes.append("The noisy matrix has a negative eigenvalue, which no matrix of data has; `nearest` has none.")
    return [*notes, *products.beyond_bounds[1]]


def _result_fields(
    products: Products, values: Numbers, errors: Numbers, low: Numbers, high: Numbers, notes: list[str]
) -> dict[str, Any]:
    left = None if products.size is None or not products.counted else products.size - products.rows
    return {
        "columns": tuple(column.name for column in products.columns),
        "estimates": values,
        "standard_errors": errors,
        "lows": low,
        "highs": high,
        "notes": tuple(notes),
        "count": products.rows,
        "missing": left,
        "missing_standard_error": None if left is None else products.noise_sd,
        "bounds": tuple((column.low, column.high) for column in products.columns),
        "clipped": products.beyond_bounds[0],
    }
