"""Weighted points that represent the rows of a table, and what can be computed from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from dfprivacy import ArgumentError, Column, Release
from dfprivacy.features import ProductKernel
from dfprivacy.markup import Grid
from dfprivacy.plotting import axes
from dfprivacy_kme.embedding import Space, decode_rows, encode_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["Expectation", "Means", "TwoSample", "WeightedPoints"]

_MAX_WEIGHT_SUM = 2.0  # absolute weights of points, where a distribution's add up to 1
_MAX_LISTED = 12  # points, which are shown


class TwoSample(NamedTuple):
    """Result of a kernel two-sample test between two embeddings.

    Attributes
    ----------
    statistic : float
        Squared distance of the two embeddings.
    pvalue : float
        By simulation of the null distribution, the noise included.
    alpha : float
        Level of the decision.
    rejected : bool
        Whether one population is rejected.
    notes : tuple of str
        What to know before trusting the p-value.
    """

    statistic: float
    pvalue: float
    alpha: float
    rejected: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class WeightedPoints(Release):
    """Weighted points that represent the rows of a private table, or a marginal or conditional distribution.

    Attributes
    ----------
    space : dict
        The kernel and its columns, as plain values.
    locations : ndarray of shape (m, columns)
        Numbers, and codes of categories.
    weights : ndarray of shape (m,)
        Their weights.
    notes : tuple of str
        What to know before trusting the numbers.
    """

    space: Mapping[str, Any]
    locations: NDArray[np.float64]
    weights: NDArray[np.float64]
    notes: tuple[str, ...]

    _shown: ClassVar[tuple[str, ...]] = ("support", "notes")

    @cached_property
    def _feature_space(self) -> Space:
        return Space.from_json(self.space)

    @property
    def support(self) -> int:
        """Number of weighted points."""
        return len(self.weights)

    @property
    def points(self) -> Any:
        """Points as a dataframe of the table's library, with their ``weight`` in the last column."""
        columns = decode_rows(self._feature_space.columns, self.locations)
        name = "weight"
        while name in columns:
            name += "_"
        return self._table({**columns, name: self.weights.tolist()})

    def _sentence(self) -> str:
        """Write a sentence on the rows that the points represent."""
        names = self._label(*(column.name for column in self._feature_space.columns))
        points = f"{self.support:,} weighted point{'s' * (self.support != 1)}"
        return f"{points} that stand{'s' * (self.support == 1)} for the private rows' {names}."

    def _grid(self) -> Grid | None:
        """Return the points as a printed table; None if they are many."""
        if self.support > _MAX_LISTED:
            return None
        columns = decode_rows(self._feature_space.columns, self.locations)
        rows = zip(*columns.values(), self.weights, strict=True)
        texts = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
        return Grid(("", *columns, "weight"), [("", *row) for row in texts])

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the means of the numeric columns, or else the weights of the points, as rows of a tidy table."""
        try:
            means = self.mean()
        except ArgumentError:  # some weights are negative
            means = {}
        if not means:
            return [{"point": range(self.support), "weight": self.weights}]
        known = [getattr(means, "intervals", {}).get(name) for name in means]
        ends = {end: [getattr(each, end, None) for each in known] for end in ("low", "high")}
        return [{"column": [*means], "statistic": "mean", "value": [*means.values()], **ends}]

    def evaluate(self, rows: object) -> NDArray[np.float64]:
        """Evaluate the embedding, a smoothed density, at given rows.

        Parameters
        ----------
        rows : frame or mapping of str to sequence
            Public rows.

        Returns
        -------
        ndarray of shape (rows,)
            The weighted sum of the kernel with each point.
        """
        values: NDArray[np.float64] = (
            self._feature_space.kernel(self._encoded_rows(rows), self.locations) @ self.weights
        )
        return values

    def _encoded_rows(self, rows: object) -> NDArray[np.float64]:
        return encode_rows(self._feature_space.columns, rows, "rows")

    @cached_property
    def _numeric_columns(self) -> list[int]:
        return [i for i, column in enumerate(self._feature_space.columns) if column.bounds is not None]

    def mean(self) -> dict[str, float]:
        """Return the weighted means of the numeric columns, without intervals.

        Returns
        -------
        dict of str to float
            By column.
        """
        return {
            self._feature_space.columns[i].name: float(self._normalized_weights @ self.locations[:, i])
            for i in self._numeric_columns
        }

    @property
    def _normalized_weights(self) -> NDArray[np.float64]:
        """Weights scaled to sum 1; raise an error if a weight is negative."""
        if (self.weights < 0).any() or self.weights.sum() <= 0:
            raise ArgumentError(
                "Some weights are negative, so these points are not a distribution.",
                'Release with represent="hull".',
            )
        share: NDArray[np.float64] = self.weights / self.weights.sum()
        return share

    def cov(self) -> NDArray[np.float64]:
        """Return the covariances of the numeric columns.

        Returns
        -------
        ndarray of shape (d, d)
            In the order of the columns.
        """
        numbers = self.locations[:, self._numeric_columns]
        centred = numbers - self._normalized_weights @ numbers
        covariance: NDArray[np.float64] = (centred * self._normalized_weights[:, None]).T @ centred
        return covariance

    def sample(self, n: int, *, seed: int | None = None) -> Any:
        """Draw rows from the points by systematic resampling, for averages, not for shares or quantiles.

        Parameters
        ----------
        n : int
            How many.
        seed : int, optional
            For rows that can be drawn again. It protects nothing, nor needs to.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            As `points`, without weights.
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ArgumentError(f"n={n!r} must be an integer of at least 1.", "Give the number of rows to draw.")
        rng = np.random.default_rng(seed)
        at = np.searchsorted(np.cumsum(self._normalized_weights), (np.arange(n) + rng.random()) / n)
        drawn = self.locations[rng.permutation(np.minimum(at, self.support - 1))]
        return self._table(decode_rows(self._feature_space.columns, drawn))

    def marginal(self, columns: Sequence[str]) -> WeightedPoints:
        """Return the marginal distribution of some columns, as weighted points.

        Parameters
        ----------
        columns : list of str
            The columns to keep.

        Returns
        -------
        WeightedPoints
            The same weights at the points without the other columns. It has no noisy embedding of its own.
        """
        known = [column.name for column in self._feature_space.columns]
        if isinstance(columns, str) or not columns or not set(columns) <= set(known):
            raise ArgumentError(
                f"columns={columns!r} are not columns of these points.", f"Give a list of some of {known!r}."
            )
        return self._with_columns([known.index(name) for name in columns], self.locations, self.weights, ())

    def _with_columns(
        self, kept: list[int], locations: NDArray[np.float64], weights: NDArray[np.float64], notes: tuple[str, ...]
    ) -> WeightedPoints:
        """Return weighted points in the kept columns, with the given locations and weights."""
        space = self._feature_space
        columns = tuple(space.columns[i] for i in kept)
        kernel = ProductKernel(columns, space.lengthscales, space.mismatches)
        return self._with_points(kernel, locations[:, kept], weights, notes)

    def _with_points(
        self,
        kernel: ProductKernel,
        locations: NDArray[np.float64],
        weights: NDArray[np.float64],
        notes: tuple[str, ...],
    ) -> WeightedPoints:
        """Return weighted points with the given kernel, locations and weights."""
        return WeightedPoints(
            space=Space.from_kernel(None, kernel).as_json(),
            locations=locations,
            weights=weights,
            notes=notes,
            privacy=self.privacy,
            library=self.library,
        )

    def transform(
        self,
        f: Callable[[dict[str, NDArray[Any]]], Any],
        *,
        lengthscale: float | Mapping[str, float] | None = None,
    ) -> WeightedPoints:
        r"""Apply a function f to the points, and return the embedding of f(X).

        Parameters
        ----------
        f : callable
            Given arrays by column name, its values: one number for each row, or a dictionary of such by name.
        lengthscale : float or dict of str to float, optional
            Of the kernel of the values, in their units. Default: as for a release whose bounds are the least and
            the largest of them.

        Returns
        -------
        WeightedPoints
            The same weights at the values. It has no noisy embedding of its own.

        Notes
        -----
        :math:`\sum_m w_m k(f(z_m), \cdot)` estimates the embedding of f(X), for a continuous f, as well as the
        points estimate that of X, where the absolute weights add up to a bounded number [1]_: all but
        ``represent="weights"`` see to that. It is post-processing, and costs nothing.

        References
        ----------
        .. [1] C.-J. Simon-Gabriel, A. Ścibior, I. Tolstikhin, B. Schölkopf. Consistent kernel mean estimation for
           functions of random variables. NIPS 2016.
        """
        values = f(
            {
                name: np.array(each)
                for name, each in decode_rows(self._feature_space.columns, self.locations).items()
            }
        )
        by_name = values if isinstance(values, Mapping) else {"f": values}
        arrays = {str(name): np.asarray(each, dtype=np.float64) for name, each in by_name.items()}
        if not arrays or any(v.shape != (self.support,) or not np.isfinite(v).all() for v in arrays.values()):
            raise ArgumentError(
                f"f must return {self.support} finite numbers, one for each point.",
                'Return an array, or a dictionary of arrays: lambda rows: rows["age"] ** 2.',
            )
        ends = {name: (float(v.min()), float(v.max())) for name, v in arrays.items()}
        columns = tuple(
            Column(name, bounds=(low, high) if low < high else (low - 1, low + 1))
            for name, (low, high) in ends.items()
        )
        if lengthscale is None:
            lengthscale = {column.name: 2 * column.half * math.sqrt(len(columns) / 8) for column in columns}
        total = float(np.abs(self.weights).sum())
        loose = f"The absolute weights sum to {total:.3g}, which is too large for an accurate embedding of f(X)."
        notes = (loose,) if total > _MAX_WEIGHT_SUM else ()
        return self._with_points(
            ProductKernel(columns, lengthscale), np.column_stack(list(arrays.values())), self.weights, notes
        )

    def two_sample(self, other: object, *, alpha: float = 0.05) -> TwoSample:  # noqa: ARG002
        """Raise an error: the test needs the noise of a release, which weighted points do not have.

        Parameters
        ----------
        other : mapping or KME
            The other sample.
        alpha : float
            Level of the decision.
        """
        raise ArgumentError(
            "Weighted points have no known noise, which a test needs.",
            "Test the release that the points came from.",
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the points with areas proportional to their weights, or the distribution function of one column."""
        ax = axes(ax)
        names = [self._with_units(column.name) for column in self._feature_space.columns]
        if len(names) == 1:
            order = np.argsort(self.locations[:, 0])
            ax.step(self.locations[order, 0], np.cumsum(self.weights[order]), where="post")
            ax.set(xlabel=names[0], ylabel="share of rows up to this value")
            return ax
        x, y = (self._numeric_columns + [i for i in range(len(names)) if i not in self._numeric_columns])[:2]
        size = 400 * np.abs(self.weights) / max(np.abs(self.weights).max(), 1e-300)
        colours = np.where(self.weights < 0, "tab:red", "tab:blue")
        ax.scatter(self.locations[:, x], self.locations[:, y], s=size, c=colours, alpha=0.5)
        ax.set(xlabel=names[x], ylabel=names[y], title="red: negative weight" if (self.weights < 0).any() else "")
        return ax


class Expectation(NamedTuple):
    """Mean of a function over the rows, with a confidence interval.

    Attributes
    ----------
    value : float
        The estimate.
    low, high : float
        An interval for the mean over the rows.
    estimable : bool
        False if the interval is wider than half the function's range: then the release cannot tell.
    """

    value: float
    low: float
    high: float
    estimable: bool


class Means(dict[str, float]):
    """Dictionary of the mean of each numeric column; `intervals` has a confidence interval for each mean.

    Attributes
    ----------
    intervals : dict of str to Expectation
        The same numbers, and between which the mean over the rows lies.
    confidence : float
        Least coverage of each interval, over the noise.
    """

    def __init__(self, intervals: Mapping[str, Expectation], confidence: float) -> None:
        super().__init__({name: each.value for name, each in intervals.items()})
        self.intervals = dict(intervals)
        self.confidence = confidence

    def __reduce__(self) -> tuple[type[Means], tuple[dict[str, Expectation], float]]:
        return Means, (self.intervals, self.confidence)

    def __repr__(self) -> str:
        listed = ", ".join(
            f"{name!r}: {each.value:.5g} ({each.low:.5g} to {each.high:.5g}"
            + ("" if each.estimable else ", uninformative")
            + ")"
            for name, each in self.intervals.items()
        )
        return f"{{{listed}}}, at a confidence of {self.confidence:.0%}"
