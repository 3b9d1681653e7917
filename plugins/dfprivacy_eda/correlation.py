"""Correlations and covariances: from the sums of numbers and of their products, with noise of the cube."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, Probability, features, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.inference.engine import infer
from dfprivacy.laws import NoiseLaw
from dfprivacy_eda.matrices import Correlations, Covariances, of_no_data
from dfprivacy_eda.sums import DRAWS, drawn_noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

__all__ = ["Products", "columns_asked", "corr", "cov"]

_MOST = 100  # columns
_FIRST = "3/10"  # of the budget, for where the values are
_REACH = 3.0  # standard deviations about the mean, to which values are clipped then
_CLEARLY = 2.0  # standard errors above 0, from which a variance is one
_DRAWN = 4_000_000  # numbers in all draws of noise, at most


@dataclass(frozen=True)
class Products:
    """Noisy sums of y and of products of y, each column mapped from its bounds to [-1, 1], over complete rows.

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
    """

    columns: tuple[Column, ...]
    values: Numbers
    scales: Numbers
    size: int | None
    counted: bool

    @property
    def rows(self) -> float:
        """The number of complete rows."""
        return float(self.values[0]) if self.counted else float(self.size or 0)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise in each sum."""
        d = len(self.values)
        return float(np.max(self.scales)) * math.sqrt((d + 1) * (d + 2) / 3)

    @cached_property
    def estimate(self) -> Numbers:
        """Covariances of y as released, of shape (p, p, 1)."""
        return self._covariances(self.values[:, None])

    @cached_property
    def _drawn(self) -> Numbers:
        d = len(self.values)
        laws = tuple(NoiseLaw(float(scale), kind="cube", dimension=d) for scale in self.scales)
        drawn = drawn_noise(laws, min(DRAWS, 2 * (_DRAWN // (2 * d)))) if self.scales.any() else np.zeros((d, 1))
        return self._covariances(self.values[:, None] - drawn)

    def draws(self, draws: int = DRAWS) -> tuple[Numbers, Numbers]:  # noqa: ARG002 - as many as there is room for
        """Draw what the table's own covariances of y may be, all with the same weight."""
        many = self._drawn.shape[-1]
        return self._drawn, np.full(many, 1 / many)

    def _covariances(self, sums: Numbers) -> Numbers:
        """Return covariances of y with the divisor n - 1, of shape (p, p, ...), of sums along the first axis."""
        p = len(self.columns)
        n = np.maximum(sums[0] if self.counted else float(self.size or 0), 2.0)
        rest = sums[int(self.counted) :]
        mean, second = rest[:p] / n, np.empty((p, p, *sums.shape[1:]))
        upper = np.triu_indices(p)
        second[upper] = second[upper[::-1]] = rest[p:] / n
        second[range(p), range(p)] = (second[range(p), range(p)] + 1) / 2
        return np.asarray((second - mean[:, None] * mean) * (n / (n - 1)))


def columns_asked(columns: tuple[Column, ...] | None, **_: Any) -> None:
    """Check the number of columns, and that none is named twice, before anything is paid."""
    if columns is None:
        return
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise ArgumentError(f"columns={names!r} name one twice.", "Name each once.")
    if not 2 <= len(names) <= _MOST:  # noqa: PLR2004
        raise ArgumentError(
            f"columns={names!r} are not two to {_MOST} columns.", "For one, ask for its variance: view.var(column)."
        )


def measured(
    curator: Curator, columns: tuple[Column, ...] | None, nan_policy: NanPolicy, *, recentre: bool
) -> Products:
    """Measure all sums in one vector, of values clipped to where they are if that is asked for."""
    if columns is None:
        columns = tuple(column for column in curator.columns if column.bounds is not None)
        if len(columns) < 2:  # noqa: PLR2004
            raise ArgumentError(
                f"{len(columns)} columns have bounds, and two are needed.", "Say them: protect(..., bounds={...})."
            )
        columns_asked(columns)
    n, gaps = curator.size, curator.gaps(columns, nan_policy)
    if recentre:
        columns = _narrowed(curator, columns, gaps)
    # Where rows only change, a row with a gap may be as far from others as these from each other: twice the radius.
    counted: bool | float = (1.0 if n is None else 2.0) if n is None or gaps else False
    of: features.RowFeatures = features.Outer(columns, count=counted, centred=True)
    noisy = curator.sum(features.Given(*gaps, of=of) if gaps else of, noise="cube")
    return Products(columns, noisy.values, noisy.scales, n, bool(counted))


def _narrowed(curator: Curator, columns: tuple[Column, ...], gaps: tuple[Column, ...]) -> tuple[Column, ...]:
    """Clip each column to three standard deviations about its mean, as measured with a part of the budget."""
    n = curator.size
    every: list[features.RowFeatures] = [features.Moments(column, centred=True) for column in columns]
    count = n is None or bool(gaps)
    stack = features.Stack(*([features.Count()] if count else []), *every)
    noisy = curator.sum(features.Given(*gaps, of=stack) if gaps else stack, noise="cube", share=_FIRST)
    d, b = len(noisy.values), float(np.max(noisy.scales))
    error = b * math.sqrt((d + 1) * (d + 2) / 3)
    rows = max(float(noisy.values[0]) if count else float(n or 0), 1.0)
    narrow = []
    for column, (s1, s2) in zip(columns, noisy.values[int(count) :].reshape(-1, 2).tolist(), strict=True):
        mean, square = s1 / rows, (s2 / rows + 1) / 2
        variance = min(max(square - mean * mean, 0.0), 1.0)
        if variance <= _CLEARLY * error / rows:  # nobody knows where the values are
            narrow.append(column)
            continue
        mean, reach = column.mid + column.half * mean, _REACH * column.half * math.sqrt(variance)
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
    """Give Pearson's correlation of each two of some columns.

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
    `cov` follows from the same release.

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
    return measured(curator, columns, nan_policy, recentre=recentre)


@corr.concludes
def _(products: Products, *, recentre: bool, confidence: Probability = 0.95) -> Correlations:
    """Divide covariances by standard deviations."""
    variances = products.estimate.diagonal()[0]
    unknown = variances <= _CLEARLY * infer(products, _variances).noise_standard_error
    found = infer(products, _correlations)
    values, errors, (low, high) = found.estimate.copy(), found.noise_standard_error, found.interval(confidence)
    either = unknown[:, None] | unknown
    values[either], errors[either], low[either], high[either] = 0.0, 1.0, -1.0, 1.0
    np.fill_diagonal(low, np.where(unknown, -1.0, 1.0))
    off = ~np.eye(len(values), dtype=np.bool_)
    notes = _notes(products, values + np.diag(unknown), recentre=recentre)
    drowned = tuple(column.name for column, out in zip(products.columns, unknown, strict=True) if out)
    if drowned:
        notes = [
            f"The noise could be all of the variance of {', '.join(drowned)}: no correlation is known.",
            *notes,
        ]
    elif (high - low)[off].min() > 1:
        notes.append("Uninformative: each interval spans more than half of what is possible, of too little data.")
    release = _about(products, values, errors, (low, high))
    return Correlations(**release, unknown=drowned, confidence=confidence, notes=tuple(notes))


def _variances(covariances: Numbers) -> tuple[Numbers, Numbers, float]:
    return covariances[range(len(covariances)), range(len(covariances))], np.zeros(1), np.inf


def _correlations(covariances: Numbers) -> tuple[Numbers, Numbers, float]:
    """Divide by standard deviations; each number is brought between -1 and 1."""
    root = np.sqrt(np.maximum(_variances(covariances)[0], 1e-12))
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
    """Give the covariance of each two of some columns, with the divisor n - 1.

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
    return measured(curator, columns, nan_policy, recentre=recentre)


@cov.concludes
def _(products: Products, *, recentre: bool, confidence: Probability = 0.95) -> Covariances:
    """Return to the columns' units."""
    half = np.array([column.half for column in products.columns])
    with np.errstate(over="ignore"):
        units = np.minimum(np.outer(half, half), np.finfo(np.float64).max)
    found = infer(products, lambda covariances: (covariances, np.zeros(1), np.inf))
    values, errors, (low, high) = found.estimate, found.noise_standard_error, found.interval(confidence)
    np.fill_diagonal(low, np.maximum(np.diag(low), 0.0))
    np.fill_diagonal(high, np.maximum(np.diag(high), 0.0))
    notes = _notes(products, values, recentre=recentre)
    release = _about(products, values * units, errors * units, (low * units, high * units))
    return Covariances(**release, unknown=(), confidence=confidence, notes=tuple(notes))


def _notes(products: Products, matrix: Numbers, *, recentre: bool) -> list[str]:
    notes = []
    if recentre:
        ends = ", ".join(f"{column.name} from {column.low:.4g} to {column.high:.4g}" for column in products.columns)
        notes.append(f"It is about values clipped again: {ends}.")
    if of_no_data(matrix):
        notes.append("As the noise has them they are together those of no data; `nearest` are of some.")
    return notes


def _about(products: Products, values: Numbers, errors: Numbers, ends: tuple[Numbers, Numbers]) -> dict[str, Any]:
    left = products.counted and products.size is not None
    return {
        "columns": tuple(column.name for column in products.columns),
        "estimates": values,
        "standard_errors": errors,
        "lows": ends[0],
        "highs": ends[1],
        "count": products.rows,
        "missing": products.size - products.rows if left and products.size is not None else None,
        "missing_standard_error": products.noise if left else None,
        "bounds": tuple((column.low, column.high) for column in products.columns),
    }
