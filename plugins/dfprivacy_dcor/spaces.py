r"""Metric spaces of columns: their metrics and public properties, and the points of the rows.

Each column is first scaled by its bounds, so that its width is 1. Then the rows are points of a space with one of
four metrics, all of negative type:

================ ==================================================== ============= ==============================
metric           distance of two rows                                 diameter D    cost with n rows
================ ==================================================== ============= ==============================
``"euclidean"``  :math:`|x - x'|` in p dimensions                      :math:`\sqrt p`  n log n if p is 1, else n²
``"l1"``         :math:`\sum_j |x_j - x'_j|`                             p             p q n log n
``"projected"``  :math:`\frac{C_p}{K} \sum_k |u_k (x - x')|`, an         see `Space`   K² n log n
                 estimate of the Euclidean distance from K directions
``"discrete"``   1 if a category differs, else 0                      1             n
================ ==================================================== ============= ==============================

A sum of distances on lines has a distance covariance that is the sum over all pairs of lines, which is why ``"l1"``
and ``"projected"`` are exact in n log n steps; ``"l1"`` sees dependence between single columns only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy_dcor.points import Labels, Line, Lines, Points, grid_bits, round_to_grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column, Curator
    from dfprivacy.arguments import NanPolicy
    from dfprivacy_dcor.points import Rows

__all__ = [
    "Kernel",
    "KernelSpace",
    "Metric",
    "Space",
    "checked_rows",
    "kernel_factor",
    "kernel_space",
    "metric_space",
    "sphere_constant",
    "unit_vectors",
]

Metric = Literal["euclidean", "l1", "projected", "discrete"]
PAIRWISE_MAX = 20_000
"""The most rows for which all pairs of distances are computed."""
ROWS_MIN = 4
"""The fewest rows that a squared distance covariance can be estimated from without bias."""

_RELATIVE_ERROR = 72 * 2.0**-52  # of what is computed from integers, as a part of the diameters


@dataclass(frozen=True)
class Space:
    """Metric space of the values of some columns, described by public facts.

    Attributes
    ----------
    columns : tuple of Column
        The columns.
    metric : {"euclidean", "l1", "projected", "discrete"}
        Their distance.
    directions : ndarray of shape (K, p) or None
        Unit vectors of the projected metric.
    omit : bool
        Whether rows with a missing value are left out; else they have the fill value, or a category of their own.
    """

    columns: tuple[Column, ...]
    metric: Metric
    directions: NDArray[np.float64] | None = None
    omit: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the space."""
        return tuple(column.name for column in self.columns)

    @property
    def widths(self) -> NDArray[np.float64]:
        """Weight of each line in the metric, which is the largest distance along the line."""
        if self.directions is None:
            return np.ones(len(self.columns))
        widths: NDArray[np.float64] = np.abs(self.directions).sum(axis=1)
        return widths * (sphere_constant(len(self.columns)) / len(widths))

    @property
    def is_sum_of_lines(self) -> bool:
        """Whether the distance is a sum of absolute differences of coordinates."""
        if self.metric == "discrete":
            return self._n_points <= 2  # noqa: PLR2004 - two points are on a line
        return self.metric != "euclidean" or len(self.columns) == 1

    @property
    def diameter(self) -> float:
        """Largest distance D of two points."""
        if self.metric == "discrete":
            return 1.0
        if self.metric == "euclidean":
            return math.sqrt(len(self.columns))
        return math.fsum(self.widths)

    @property
    def mean_max(self) -> float:
        """Upper bound of the mean distance: D/2 for sums of distances on lines, else D."""
        return self.diameter / 2 if self.is_sum_of_lines else self.diameter

    @property
    def needs_all_pairs(self) -> bool:
        """Whether the statistics need the distances of all pairs of rows."""
        return self.metric == "euclidean" and len(self.columns) > 1

    @property
    def n_terms(self) -> int:
        """Number of terms that are summed for a distance, which determines the rounding error."""
        return len(self.columns if self.directions is None else self.directions)

    @property
    def _n_points(self) -> int:
        """Number of points of a categorical column: its categories, and one for undeclared values if kept."""
        column = self.columns[0]
        return len(column.categories or ()) + (not column.other and not self.omit)

    def may_be_incomplete(self, public: frozenset[str]) -> bool:
        """Return whether a row may be complete in one of two neighbouring tables and incomplete in the other."""
        return self.omit and any(c.name not in public and not self._always_filled(c) for c in self.columns)

    def _always_filled(self, column: Column) -> bool:
        """Return whether missing values of a column are filled, so that they make no row incomplete."""
        return column.filled and (column.other or self.metric != "discrete")

    def complete(self, batch: Any) -> NDArray[np.bool_]:
        """Return a mask of the complete rows; all rows if missing values are filled."""
        there = np.ones(batch.size, dtype=np.bool_)
        if not self.omit:
            return there
        for column in self.columns:
            if self._always_filled(column):
                continue
            if self.metric == "discrete":
                there &= batch.codes(column) < len(column.categories or ())
            else:
                there &= ~batch.missing(column)
        return there

    def rows(self, batch: Any) -> Rows:
        """Return the points of the rows in a batch."""
        if self.metric == "discrete":
            return Labels(batch.codes(self.columns[0]), self._n_points)
        units = [batch.standardized(column) / 2 + 0.5 for column in self.columns]
        if self.needs_all_pairs:
            return Points(np.stack(units, axis=1))
        if self.directions is not None:
            units = [_project_rows(units, direction) for direction in self.directions]
        bits = grid_bits(batch.size)
        return Lines(tuple(Line(round_to_grid(unit, bits), bits) for unit in units), tuple(self.widths.tolist()))

    def coordinates(self, batch: Any) -> NDArray[np.float64]:
        """Return Euclidean coordinates, shape (n, d), whose distances are those of this space."""
        if self.metric == "discrete":
            codes = np.minimum(batch.codes(self.columns[0]), self._n_points - 1)  # those beyond are left out later
            hot: NDArray[np.float64] = np.eye(self._n_points)[codes]
            return hot / math.sqrt(2)
        return np.stack([batch.standardized(column) / 2 + 0.5 for column in self.columns], axis=1)


def metric_space(
    columns: tuple[Column, ...],
    metric: Metric,
    directions: int = 50,
    seed: int = 0,
    *,
    nan_policy: NanPolicy = "fill",
) -> Space:
    """Return the metric space of columns; raise an error if the metric does not apply to the columns.

    Parameters
    ----------
    columns : tuple of Column
        One column with categories, or columns with bounds.
    metric : {"euclidean", "l1", "projected", "discrete"}
        Their distance. A column that has categories and no bounds always has the discrete one.
    directions : int
        How many directions the projected metric has.
    seed : int
        What the directions are drawn from.
    nan_policy : {"omit", "fill", "raise"}
        Whether rows with a missing value are left out; with ``"raise"`` there are none.

    Returns
    -------
    Space
        What is public of it.

    Raises
    ------
    ArgumentError
        If the columns do not have such a metric.
    """
    names = [column.name for column in columns]
    if not columns or len(set(names)) < len(names):
        raise ArgumentError(
            f"columns={names!r} must name at least one column, each once.", "Name every column once."
        )
    categories = [column.name for column in columns if column.bounds is None]
    omit = nan_policy == "omit"
    if metric == "discrete" or categories:
        if len(columns) > 1 or columns[0].categories is None:
            raise ArgumentError(
                f"The discrete metric takes one column with categories, not the columns {names!r}.",
                "Name one column with categories, or columns with bounds.",
            )
        return Space(columns, "discrete", omit=omit)
    if metric != "projected" or len(columns) == 1:
        return Space(columns, metric if len(columns) > 1 else "euclidean", omit=omit)
    return Space(columns, metric, unit_vectors(directions, len(columns), seed), omit=omit)


def checked_rows(curator: Curator, *spaces: Space, nan_policy: NanPolicy = "fill") -> int:
    """Return the public number of rows, after checking the columns, that number and missing values."""
    columns = [column for each in spaces for column in each.columns]
    if len(set(columns)) < len(columns):
        raise ArgumentError("A column is named both in x and in y.", "Name every column once.")
    if all(column.public for column in columns):
        raise ArgumentError(
            "All named columns are public.",
            "Compute the statistic from the public columns, without a privacy budget.",
        )
    n = curator.size
    if n is None or curator.neighbors != "replace_one":
        raise ArgumentError(
            "A distance correlation needs a public number of rows.",
            "Use neighbors='replace_one', and conditions on public columns only.",
        )
    if n < ROWS_MIN:
        raise ArgumentError(
            f"A distance correlation needs {ROWS_MIN} rows or more; there are {n}.", "Use a larger table."
        )
    if n > PAIRWISE_MAX and any(each.needs_all_pairs for each in spaces):
        raise ArgumentError(
            f"{n} rows are too many to compute all pairs of distances; the limit is {PAIRWISE_MAX} rows.",
            f"Use view.sample({math.floor(100 * PAIRWISE_MAX / n) / 100:g}), or a distance that needs no pairs: "
            "metric='l1' or 'projected' of dcor, kernel='distance' of hsic for one column.",
        )
    if nan_policy == "raise":
        curator.refuse_missing(*columns)
    return n


def unit_vectors(count: int, dimension: int, seed: int) -> NDArray[np.float64]:
    """Draw public directions uniformly from the unit sphere."""
    vectors: NDArray[np.float64] = np.random.default_rng(seed).normal(size=(count, dimension))
    vectors /= np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return vectors


def sphere_constant(p: int) -> float:
    """Return the constant C such that |x| = C E|u·x| for u uniform on the unit sphere in p dimensions."""
    return math.sqrt(math.pi) * math.exp(math.lgamma((p + 1) / 2) - math.lgamma(p / 2))


def rounding_error(x: Space, y: Space) -> NDArray[np.float64]:
    """Return upper bounds of the floating-point errors of `distance_statistics`."""
    both = math.sqrt(x.diameter * y.diameter)
    part = (
        math.sqrt((168 + 4 * (x.n_terms + y.n_terms)) * 2.0**-52)
        if x.needs_all_pairs or y.needs_all_pairs
        else _RELATIVE_ERROR
    )
    return part * np.array([both, x.diameter, y.diameter, x.diameter, y.diameter])


def _project_rows(units: list[NDArray[np.float64]], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Project rows on a direction, scaled to [0, 1], column by column, independently of other rows."""
    along = sum(step * (unit if step > 0 else unit - 1) for step, unit in zip(direction, units, strict=True))
    projected: NDArray[np.float64] = np.clip(along / np.abs(direction).sum(), 0.0, 1.0)
    return projected


Kernel = Literal["gaussian", "laplace", "distance"]

SIXTHS = 6
"""A lengthscale is in sixths of the bounds' widths, as in all of the library: a standard deviation, roughly."""

_EXP_ROUNDINGS = 12  # roundings that scaling and an exponential may add to those of a distance


@dataclass(frozen=True)
class KernelSpace(Space):
    """Metric space of columns with the distance 1 - k of a kernel k.

    Attributes
    ----------
    kernel : {"gaussian", "laplace"}
        The kernel.
    lengthscale : float
        In widths of the bounds.
    """

    kernel: Literal["gaussian", "laplace"] = "gaussian"
    lengthscale: float = 1.0

    @property
    def is_sum_of_lines(self) -> bool:
        """Whether the distance is a sum of distances on lines, which is False."""
        return False

    @property
    def diameter(self) -> float:
        """Largest distance D, between opposite corners of the bounds."""
        apart = len(self.columns) / self.lengthscale ** (2 if self.kernel == "gaussian" else 1)
        return -math.expm1(-apart) * (1 + _EXP_ROUNDINGS * 2.0**-52)

    @property
    def needs_all_pairs(self) -> bool:
        """Whether the statistics need the distances of all pairs of rows, which is True."""
        return True

    @property
    def n_terms(self) -> int:
        """Number of terms that are summed for a distance, plus 12 for the rounding errors of the exponential."""
        return len(self.columns) + _EXP_ROUNDINGS

    def rows(self, batch: Any) -> Points:
        """Return the points of the rows in a batch."""
        units = [(batch.standardized(column) / 2 + 0.5) / self.lengthscale for column in self.columns]
        return Points(np.stack(units, axis=1), self.kernel)


def kernel_space(
    columns: tuple[Column, ...], kernel: Kernel, lengthscale: float | None, *, nan_policy: NanPolicy
) -> Space:
    """Return the metric space of columns whose distance covariance is proportional to HSIC.

    Parameters
    ----------
    columns : tuple of Column
        Columns with bounds; or one with categories, of which k is 1 for equal ones and else 0.
    kernel : {"gaussian", "laplace", "distance"}
        The kernel of numbers.
    lengthscale : float or None
        Of the kernel, in sixths of the bounds' widths; None for the default.
    nan_policy : {"omit", "fill", "raise"}
        Whether rows with a missing value are left out.

    Returns
    -------
    Space
        What is public of it.
    """
    if kernel == "distance" and lengthscale is not None:
        raise ArgumentError("kernel='distance' takes no lengthscale=.", "Omit lengthscale=.")
    plain = metric_space(columns, "euclidean", nan_policy=nan_policy)
    if kernel == "distance" or plain.metric == "discrete":
        return plain
    p = len(columns)
    sixths = (math.sqrt(p) if kernel == "gaussian" else p) if lengthscale is None else lengthscale
    return KernelSpace(columns, "euclidean", omit=plain.omit, kernel=kernel, lengthscale=sixths / SIXTHS)


def kernel_factor(of: Space) -> float:
    """Return the factor that turns 1 minus the kernel into a distance: D for the kernel 1 - d / D, else 1."""
    return 1.0 if isinstance(of, KernelSpace) else of.diameter
