r"""The statistics that are measured, and how much one row can change them.

With :math:`\varphi, \psi` such that :math:`|\varphi(x) - \varphi(x')|^2 = d_X(x, x')` and likewise for y, and
:math:`C = \frac{1}{2n^2} \sum_{ij} (\varphi_i - \varphi_j) \otimes (\psi_i - \psi_j)`, the distance covariance is
:math:`s_{xy} = 2|C|`. See the explanation of distance correlation in the documentation for the proofs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy.statistics import OfRows
from dfprivacy_dcor.points import Points, five_numbers, squared_covariance
from dfprivacy_dcor.spaces import error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy_dcor.points import Rows
    from dfprivacy_dcor.spaces import Space

__all__ = [
    "SHARES",
    "Deviation",
    "FiveNumbers",
    "Relation",
    "Scores",
    "changes",
    "complete",
    "fixed",
    "largest",
]

SHARES = (0.5, 0.15, 0.15, 0.1, 0.1)
"""Parts of epsilon for s_xy, s_x, s_y, m_x, m_y: those of least error of the correlation and its test together."""
DEVIATION_SHARES = (0.75, 0.25)
"""Parts of epsilon for a message's s_x and its share of complete rows."""


def changes(x: Space, y: Space, n: int) -> NDArray[np.float64]:
    """Give the most that s_xy, s_x, s_y, m_x and m_y can change when one of n rows does.

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
    both = 1.0 if x.straight or y.straight else math.sqrt(1.5)
    units = [both * math.sqrt(x.diameter * y.diameter), *(x.diameter, y.diameter) * 2]
    return 2 * (n - 1) / n**2 * np.array(units)


def largest(x: Space, y: Space) -> tuple[float, ...]:
    """Give the largest values that s_x, s_y, m_x and m_y can have."""
    return x.diameter / 2, y.diameter / 2, x.mean_max, y.mean_max


Relation = Literal["replace_one", "add_remove"]


class FiveNumbers(OfRows):
    r"""Multiples of s_xy, s_x, s_y, m_x - D_x and m_y - D_y by the share q = m / n of complete rows, and q.

    Each is weighted so that its share of epsilon is that of `SHARES`; q, which is there where rows may be left out,
    costs nothing beyond: see the explanation of distance correlation in the documentation.

    Parameters
    ----------
    x, y : Space
        What is public of the spaces.
    n : int
        Number of rows.
    """

    def __init__(self, x: Space, y: Space, n: int) -> None:
        self.x, self.y, self.n = x, y, n
        self.columns = (*x.columns, *y.columns)
        self.weights: NDArray[np.float64] = np.array(SHARES) / changes(x, y, n)
        self._left_out = np.array(SHARES) * [1.0, 1.0, 1.0, *[n / (2 * (n - 1))] * 2]  # where a row is left out
        slack = error(x, y)
        if x.omit:
            rest = 1 - math.fsum(self._left_out)
            self._left_out = np.append(self._left_out, rest)
            self.weights = np.append(self.weights, rest * n)
            slack = np.append(slack, 2.0**-52)
        self.shape = self.weights.shape
        self.error = float((slack * self.weights).max())

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute the numbers, weights included."""
        x, y, share = complete(self.x, self.y, rows)
        values = five_numbers(x, y) - [0.0, 0.0, 0.0, self.x.diameter, self.y.diameter]
        values *= share
        return (np.append(values, share) if self.x.omit else values) * self.weights

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """Joint sensitivity: all can change at once, and by all they can."""
        if relation != "replace_one":
            return math.inf  # the number of rows is part of the numbers
        both = [fixed(space, public) for space in (self.x, self.y)]
        free = np.array([not all(both), not both[0], not both[1], not both[0], not both[1]])
        stays = float(np.linalg.norm(np.array(SHARES) * free, ord=norm))
        if not (self.x.may_lack(public) or self.y.may_lack(public)):
            return stays
        return max(stays, float(np.linalg.norm(self._left_out, ord=norm)))


def complete(x: Space, y: Space, rows: Any) -> tuple[Rows, Rows, float]:
    """Make points of the complete rows in both spaces, and say what share of all they are."""
    one, other = x.rows(rows), y.rows(rows)
    there = x.complete(rows) & y.complete(rows)
    if there.all():
        return one, other, 1.0
    places = np.flatnonzero(there)
    return one.ordered(places), other.ordered(places), len(places) / rows.size


class Scores(OfRows):
    """q s_xy of several x with one y, each as a part of the root of the diameters; q is the share of complete rows.

    Parameters
    ----------
    candidates : sequence of Space
        The x.
    y : Space
        What they are to explain.
    n : int
        Number of rows.
    """

    def __init__(self, candidates: Sequence[Space], y: Space, n: int) -> None:
        self.candidates, self.y, self.n = candidates, y, n
        self.columns = (*(column for x in candidates for column in x.columns), *y.columns)
        self.shape = (len(candidates),)
        self.error = max(float(error(x, y)[0] / self._unit(x)) for x in candidates)

    def _unit(self, x: Space) -> float:
        return math.sqrt(x.diameter * self.y.diameter)

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute the scores."""
        scores = []
        for candidate in self.candidates:
            x, y, share = complete(candidate, self.y, rows)
            scores.append(share * math.sqrt(squared_covariance(x, y)) / self._unit(candidate))
        return np.array(scores)

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """Each can change by all it can."""
        if relation != "replace_one":
            return math.inf
        free = [
            changes(x, self.y, self.n)[0] / self._unit(x)
            for x in self.candidates
            if not (fixed(x, public) and fixed(self.y, public))
        ]
        return float(np.linalg.norm(np.array([*free, 0.0]), ord=norm))


class Deviation(OfRows):
    """q s_x, and, where rows may be left out, q, the share of complete rows; weighted by `DEVIATION_SHARES`.

    Parameters
    ----------
    x : Space
        What is public of the space.
    n : int
        Number of rows.
    """

    def __init__(self, x: Space, n: int) -> None:
        self.x, self.n = x, n
        self.columns = x.columns
        self._change = 2 * (n - 1) / n**2 * x.diameter
        slack = float(error(x, x)[1])
        self.weights: float | NDArray[np.float64] = 1.0
        self.shape, self.error = (1,), slack
        if x.omit:
            self.weights = np.array(DEVIATION_SHARES) * [1 / self._change, n]
            self.shape, self.error = (2,), float((self.weights * [slack, 2.0**-52]).max())

    def value(self, rows: Any) -> Any:
        """Compute it."""
        points, _, share = complete(self.x, self.x, rows)
        if isinstance(points, Points) or not points.size:
            deviation = share * math.sqrt(squared_covariance(points, points))
        else:
            deviation = share * math.sqrt(max(points.variance, 0.0))
        return np.array([deviation, share]) * self.weights if self.x.omit else deviation

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """Give that of any metric of negative type."""
        if relation != "replace_one":
            return math.inf
        if not self.x.omit:
            return 0.0 if fixed(self.x, public) else self._change
        moved = np.array(DEVIATION_SHARES) * [not fixed(self.x, public), self.x.may_lack(public)]
        return float(np.linalg.norm(moved, ord=norm))


def fixed(space: Space, public: frozenset[str]) -> bool:
    """Tell whether neighbouring tables agree on a space."""
    return all(column.name in public for column in space.columns)
