r"""Statistics of distance correlation, and their sensitivity to one row.

With :math:`\varphi, \psi` such that :math:`|\varphi(x) - \varphi(x')|^2 = d_X(x, x')` and likewise for y, and
:math:`C = \frac{1}{2n^2} \sum_{ij} (\varphi_i - \varphi_j) \otimes (\psi_i - \psi_j)`, the distance covariance is
:math:`s_{xy} = 2|C|`. See the explanation of distance correlation in the documentation for the proofs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy.statistics import OfRows
from dfprivacy_dcor.points import distance_statistics, squared_covariance
from dfprivacy_dcor.spaces import rounding_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy_dcor.points import Rows
    from dfprivacy_dcor.spaces import Space

__all__ = [
    "SHARES",
    "CandidateScores",
    "CompleteRowStatistics",
    "DistanceDeviation",
    "PairStatistics",
    "Relation",
    "all_columns_public",
    "complete_points",
    "largest_changes",
    "largest_values",
]

SHARES = (0.5, 0.15, 0.15, 0.1, 0.1)
"""Parts of epsilon for s_xy, s_x, s_y, m_x, m_y: those of least error of the correlation and its test together."""
DEVIATION_SHARES = (0.75, 0.25)
"""Parts of epsilon for a message's s_x and its share of complete rows."""


def largest_changes(x: Space, y: Space, n: int) -> NDArray[np.float64]:
    """Return upper bounds of the changes of the five `distance_statistics` if one of n rows changes.

    Parameters
    ----------
    x, y : Space
        What is public of the spaces.
    n : int
        Number of rows.

    Returns
    -------
    ndarray of shape (5,)
        In units of the spaces' distances.
    """
    both = 1.0 if x.is_sum_of_lines or y.is_sum_of_lines else math.sqrt(1.5)
    units = [both * math.sqrt(x.diameter * y.diameter), *(x.diameter, y.diameter) * 2]
    return 2 * (n - 1) / n**2 * np.array(units)


def largest_values(x: Space, y: Space) -> tuple[float, ...]:
    """Return the largest possible distance standard deviations and mean distances in two metric spaces."""
    return x.diameter / 2, y.diameter / 2, x.mean_max, y.mean_max


Relation = Literal["replace_one", "add_remove"]


class CompleteRowStatistics(OfRows):
    """Base class of statistics of complete rows, multiplied by the share of complete rows.

    Each is weighted so that it has its share of epsilon; q costs nothing beyond: see the explanation of distance
    correlation in the documentation.

    Parameters
    ----------
    of : sequence of tuple of Space
        The spaces that each number is of.
    shares : ndarray
        The share of each.
    most : ndarray
        The most by which each can change where a row does.
    left_out : ndarray
        The part of that by which each can change where a row is left out.
    errors : ndarray
        Bounds of the floating-point errors.
    n : int
        Number of rows.
    """

    def __init__(
        self,
        of: Sequence[tuple[Space, ...]],
        shares: NDArray[np.float64],
        most: NDArray[np.float64],
        left_out: NDArray[np.float64],
        errors: NDArray[np.float64],
        n: int,
    ) -> None:
        self.of, self.shares = of, shares
        self.columns = tuple(dict.fromkeys(column for spaces in of for space in spaces for column in space.columns))
        self.weights: NDArray[np.float64] = shares / most
        self.left_out = shares * left_out
        if of[0][0].omit:
            rest = 1 - math.fsum(self.left_out)
            self.left_out = np.append(self.left_out, rest)
            self.weights, errors = np.append(self.weights, rest * n), np.append(errors, 2.0**-52)
        self.shape = self.weights.shape
        self.error = float((errors * self.weights).max())

    def weighted(self, values: Any, share: float) -> NDArray[np.float64]:
        """Multiply each statistic by its weight and by the share of complete rows."""
        values = share * np.asarray(values)
        weighted: NDArray[np.float64] = self.weights * (np.append(values, share) if self.of[0][0].omit else values)
        return weighted

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """Return the joint sensitivity, for the largest changes of all statistics at once."""
        if relation != "replace_one":
            return math.inf  # the number of rows is part of the numbers
        free = [not all(all_columns_public(space, public) for space in spaces) for spaces in self.of]
        stays = float(np.linalg.norm(self.shares * free, ord=norm))
        if not any(space.may_be_incomplete(public) for spaces in self.of for space in spaces):
            return stays
        return max(stays, float(np.linalg.norm(self.left_out, ord=norm)))


class PairStatistics(CompleteRowStatistics):
    r"""Distance covariance, standard deviations and mean distances, times the share of complete rows and weights.

    Parameters
    ----------
    x, y : Space
        What is public of the spaces.
    n : int
        Number of rows.
    """

    description = "the distance covariance and standard deviations of {columns}"

    def __init__(self, x: Space, y: Space, n: int) -> None:
        self.x, self.y = x, y
        left_out = np.array([1.0, 1.0, 1.0, *[n / (2 * (n - 1))] * 2])
        super().__init__(
            [(x, y), *[(x,), (y,)] * 2],
            np.array(SHARES),
            largest_changes(x, y, n),
            left_out,
            rounding_error(x, y),
            n,
        )

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute the five statistics, each times its weight."""
        x, y, share = complete_points(self.x, self.y, rows)
        return self.weighted(distance_statistics(x, y) - [0.0, 0.0, 0.0, self.x.diameter, self.y.diameter], share)


def complete_points(x: Space, y: Space, rows: Any) -> tuple[Rows, Rows, float]:
    """Return the points of the complete rows in two metric spaces, and the share of these rows."""
    one, other = x.rows(rows), y.rows(rows)
    there = x.complete(rows) & y.complete(rows)
    if there.all():
        return one, other, 1.0
    places = np.flatnonzero(there)
    return one.reorder(places), other.reorder(places), len(places) / rows.size


class CandidateScores(OfRows):
    """Scores of candidate columns: scaled distance covariances with a target, times the share of complete rows.

    Parameters
    ----------
    candidates : sequence of Space
        The x.
    y : Space
        What they are to explain.
    n : int
        Number of rows.
    """

    description = "the distance covariances of {columns}"

    def __init__(self, candidates: Sequence[Space], y: Space, n: int) -> None:
        self.candidates, self.y, self.n = candidates, y, n
        self.columns = (*(column for x in candidates for column in x.columns), *y.columns)
        self.shape = (len(candidates),)
        self.error = max(float(rounding_error(x, y)[0] / self._scale(x)) for x in candidates)

    def _scale(self, x: Space) -> float:
        return math.sqrt(x.diameter * self.y.diameter)

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute the score of each candidate column."""
        scores = []
        for candidate in self.candidates:
            x, y, share = complete_points(candidate, self.y, rows)
            scores.append(share * math.sqrt(squared_covariance(x, y)) / self._scale(candidate))
        return np.array(scores)

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """Return the joint sensitivity of the scores, for the largest changes of all scores at once."""
        if relation != "replace_one":
            return math.inf
        free = [
            largest_changes(x, self.y, self.n)[0] / self._scale(x)
            for x in self.candidates
            if not (all_columns_public(x, public) and all_columns_public(self.y, public))
        ]
        return float(np.linalg.norm(np.array([*free, 0.0]), ord=norm))


class DistanceDeviation(OfRows):
    """Distance standard deviation of complete rows times their share; also the share if rows may be incomplete.

    Parameters
    ----------
    x : Space
        What is public of the space.
    n : int
        Number of rows.
    """

    description = "the distance standard deviation of {columns}"

    def __init__(self, x: Space, n: int) -> None:
        self.x, self.n = x, n
        self.columns = x.columns
        self._change = 2 * (n - 1) / n**2 * x.diameter
        slack = float(rounding_error(x, x)[1])
        self.weights: float | NDArray[np.float64] = 1.0
        self.shape, self.error = (1,), slack
        if x.omit:
            self.weights = np.array(DEVIATION_SHARES) * [1 / self._change, n]
            self.shape, self.error = (2,), float((self.weights * [slack, 2.0**-52]).max())

    def value(self, rows: Any) -> Any:
        """Compute the distance standard deviation and, if measured, the share of complete rows, with weights."""
        points, _, share = complete_points(self.x, self.x, rows)
        deviation = share * math.sqrt(squared_covariance(points, points))
        return np.array([deviation, share]) * self.weights if self.x.omit else deviation

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """Return the sensitivity, which holds for any metric of negative type."""
        if relation != "replace_one":
            return math.inf
        if not self.x.omit:
            return 0.0 if all_columns_public(self.x, public) else self._change
        moved = np.array(DEVIATION_SHARES) * [
            not all_columns_public(self.x, public),
            self.x.may_be_incomplete(public),
        ]
        return float(np.linalg.norm(moved, ord=norm))


def all_columns_public(space: Space, public: frozenset[str]) -> bool:
    """Return whether all columns of a space are public, so that neighbouring tables have the same points."""
    return all(column.name in public for column in space.columns)
