r"""Messages of ``protocol="paper"`` (Vepakomma et al. 2021), with noise that protects whole rows.

Alice adds Gaussian noise to random projections :math:`u_k x` of each row (all K of them: equation 3; one, in one
of K blocks of rows: equation 4), and Bob averages :math:`C_p C_q\,\mathrm{dCov}^2(u_k x + N, v_k y)` over k [1]_.
A row's K projections get one joint noise for the largest change of the whole row, where the paper's protects one
attribute.

Noise goes in before the distance is taken, so it weakens the dependence that is seen: at epsilon 1 and delta 1e-5
it is 3.7 times as wide as the column, and hardly anything is left.

References
----------
.. [1] Vepakomma, Pushpita and Raskar (2021). Private measurement of nonlinear correlations between data hosted
   across multiple parties.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy.statistics import OfRows
from dfprivacy_dcor.message import Message
from dfprivacy_dcor.points import Line, Lines, covariance_u, grid_bits, round_to_grid, squared_covariance
from dfprivacy_dcor.spaces import ROWS_MIN, sphere_constant, unit_vectors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy_dcor.points import Rows

__all__ = ["Calibration", "ProjectionMessage", "Projections", "kenthapadi_scale"]

Calibration = Literal["analytic", "kenthapadi"]

_CORNERS_MAX = 12  # columns up to which all corners of a box are tried


class Projections(OfRows):
    """Statistic whose values are projections of each row on all directions, or on the direction of its block.

    Parameters
    ----------
    columns : tuple of Column
        Columns with bounds; each is scaled to a width of 1.
    directions : ndarray of shape (K, p)
        Unit vectors.
    turns : ndarray of int of shape (n,)
        The block of each row.
    split : bool
        Whether a row is projected in the direction of its block only.
    omit : bool
        Whether a row with a missing value is at the middle of the bounds, not at the fill values.
    excess : float
        By how much the sensitivity is overstated, at least 1: noise that is wider than it must be.
    """

    description = "projections of {columns}"

    def __init__(
        self,
        columns: tuple[Column, ...],
        directions: NDArray[np.float64],
        turns: NDArray[np.int64],
        *,
        split: bool,
        omit: bool = False,
        excess: float = 1.0,
    ) -> None:
        self.columns, self.directions, self.turns, self.split, self.omit = columns, directions, turns, split, omit
        self.excess = max(excess, 1.0)
        self.shape = (len(turns), 1 if split else len(directions))
        self.error = (len(columns) + 1) * 2.0**-52 * float(np.abs(directions).sum(axis=1).max())

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute the projections of all rows; a row with missing values is moved to the middle of the bounds."""
        along = np.zeros(self.shape)
        gone = np.zeros(rows.size, dtype=np.bool_)
        for column in self.columns if self.omit else ():
            if not column.filled:
                gone |= rows.missing(column)
        for j, column in enumerate(self.columns):
            steps = self.directions[self.turns, j][:, None] if self.split else self.directions[:, j]
            unit = rows.standardized(column) / 2 + 0.5
            along += np.where(gone, 0.5, unit)[:, None] * steps
        return along

    def sensitivity(
        self, relation: Literal["replace_one", "add_remove"], norm: float, public: frozenset[str]
    ) -> float:
        """Return the sensitivity: the largest norm of the change of one row's projections.

        Of two complete rows private values change, by 1 at most. Where a private value may be missing, a row that
        counts and one that is at the middle of all bounds differ in all values, by 1/2 at most.
        """
        if relation != "replace_one":
            return math.inf
        private = np.array([column.name not in public for column in self.columns])
        may_go = self.omit and any(each and not c.filled for each, c in zip(private, self.columns, strict=True))
        farthest = [self._largest_norm(self.directions * private, norm)]
        farthest += [self._largest_norm(self.directions / 2, norm)] if may_go else []
        return self.excess * max(farthest)

    def _largest_norm(self, directions: NDArray[np.float64], norm: float) -> float:
        """Return the largest norm of the projections of values in [-1, 1]."""
        if self.split:
            return float(np.abs(directions).sum(axis=1).max())
        if directions.shape[1] > _CORNERS_MAX:
            return float(np.linalg.norm(np.abs(directions).sum(axis=1), ord=norm))
        corners = np.array(list(itertools.product([1.0], *[[-1.0, 1.0]] * (directions.shape[1] - 1))))
        return float(np.linalg.norm(directions @ corners.T, ord=norm, axis=0).max())


def kenthapadi_scale(epsilon: float, delta: float) -> float:
    """Return the standard deviation of Gaussian noise by Theorem 4 of Kenthapadi et al., for sensitivity 1.

    Parameters
    ----------
    epsilon, delta : float
        What it is to guarantee; delta is below one half.

    Returns
    -------
    float
        √(2 (ln(1/(2δ)) + ε)) / ε.
    """
    return math.sqrt(2 * (math.log(1 / (2 * delta)) + epsilon)) / epsilon


@dataclass(frozen=True)
class ProjectedRows:
    """Noisy projections of a block of rows on one direction; the distance of two rows is √|a - b|."""

    rows: NDArray[np.intp]
    line: Line
    width: float

    @property
    def squares(self) -> NDArray[np.float64]:
        """Squared distance of each row from the block's mean, where the distance of two rows is √|a - b|."""
        m, step = self.line.size, self.width / 2**self.line.bits
        squares: NDArray[np.float64] = step * (self.line.row_sums / m - self.line.total / (2 * m**2))
        return squares

    def subset(self, mask: NDArray[np.bool_]) -> ProjectedRows:
        """Return the projections of the block's rows that a mask of all rows selects."""
        kept = mask[self.rows]
        return ProjectedRows(self.rows[kept], Line(self.line.values[kept], self.line.bits), self.width)

    def covariance(self, y: Rows) -> float:
        """Compute the squared distance covariance of the block with the points y of the same rows."""
        return squared_covariance(Lines((self.line,), (self.width,)), y)


@dataclass(frozen=True, kw_only=True, repr=False)
class ProjectionMessage(Message):
    """Message of ``protocol='paper'``: noisy projections of rows, and a noisy distance standard deviation.

    It may be kept, sent and used as often as one likes: all that is post-processing of what was paid for.

    Attributes
    ----------
    columns : tuple of str
        The columns that it is about.
    rows : int
        Number of rows n.
    projections : ndarray of shape (n, K) or (n, 1)
        Noisy projections of each row in all directions, or in that of its block.
    turns : ndarray of int64 of shape (n,)
        The block of each row; drawn without looking at the data.
    directions : ndarray of shape (K, p)
        Directions in which the columns, each scaled to a width of 1, are projected.
    scale : float
        Standard deviation of the Gaussian noise, in those units.
    deviation, deviation_scale : float
        Noisy distance standard deviation s_x times the share of complete rows, and the scale of its Laplace noise.
    complete, complete_scale : float or None
        Noisy share of complete rows, and the scale of its Laplace noise; None where all rows count. The others send
        the middle of the bounds, with noise.
    keys : tuple or None
        The key of each row, if the caller gave keys.
    """

    projections: NDArray[np.float64]
    scale: float

    _row_fields = ("projections", "turns")
    protocol = "paper"
    notes = (
        "noise was added to the rows before distances were computed, so the estimate is too low, often near 0",
    )

    def _blocks(self) -> Iterator[tuple[NDArray[np.intp], list[int]]]:
        """Yield the rows of each block, and the indices of the directions of their projections."""
        count = len(self.directions)
        if self.projections.shape[1] == count > 1:
            yield np.arange(self.rows), list(range(count))
            return
        for k in range(count):
            rows = np.flatnonzero(self.turns == k)
            if len(rows) >= ROWS_MIN:  # else they are what is left of a block
                yield rows, [k]

    def _noisy_line(self, rows: NDArray[np.intp], k: int) -> tuple[Line, float]:
        values = self.projections[rows, k if self.projections.shape[1] > 1 else 0]
        return line_on_grid(values)

    def parts(self) -> list[ProjectedRows]:
        """Return the noisy projections of each block of rows on each of its directions."""
        weight = sphere_constant(len(self.columns)) / len(self.directions)
        parts = []
        for rows, ks in self._blocks():
            lines = [self._noisy_line(rows, k) for k in ks]
            parts += [ProjectedRows(rows, line, weight * width) for line, width in lines]
        return parts

    def covariances(
        self, y: NDArray[np.float64], permutations: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Compute unbiased squared distance covariances of the rows with y and with permutations of y."""
        y = y.reshape(self.rows, -1)
        count, q = len(self.directions), y.shape[1]
        units = np.ones((count, 1)) if q == 1 else unit_vectors(count, q, seed=1)
        weight = sphere_constant(len(self.columns)) * sphere_constant(q) / count
        total = np.zeros(permutations + 1)
        for rows, ks in self._blocks():
            orders = [np.arange(len(rows)), *(rng.permutation(len(rows)) for _ in range(permutations))]
            for k in ks:
                (x, x_width), (its, y_width) = self._noisy_line(rows, k), line_on_grid(y[rows] @ units[k])
                each = [float(covariance_u(x, Line(its.values[order], its.bits))) for order in orders]
                total += weight * x_width * y_width * np.array(each)
        return total

    def is_consistent(self) -> bool:
        """Return whether projections, directions and noise scale have valid types, shapes and ranges."""
        n, count = self.rows, len(self.directions)
        sizes = np.bincount(self.turns, minlength=count)
        return (
            self.projections.dtype == np.float64
            and self.projections.shape in {(n, 1), (n, count)}
            and bool(np.isfinite(self.projections).all())
            and (self.projections.shape[1] == count or bool(sizes.min() >= ROWS_MIN))
            and 0 < self.scale < math.inf
        )


def line_on_grid(values: NDArray[np.float64]) -> tuple[Line, float]:
    """Return public numbers rounded to a grid from their minimum to their maximum, and the width of this range."""
    low, width = float(values.min()), float(np.ptp(values))
    bits = grid_bits(len(values))
    return Line(round_to_grid((values - low) / (width or 1.0), bits), bits), width
