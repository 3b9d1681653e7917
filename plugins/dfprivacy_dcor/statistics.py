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
from dfprivacy_dcor.spaces import error, five_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_dcor.spaces import Space

__all__ = ["SHARES", "FiveNumbers", "changes", "largest"]

SHARES = (0.5, 0.15, 0.15, 0.1, 0.1)
"""Parts of epsilon for s_xy, s_x, s_y, m_x, m_y: those of least error of the correlation and its test together."""


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


class FiveNumbers(OfRows):
    """s_xy, s_x, s_y, m_x and m_y of all rows, each weighted so that its share of epsilon is that of `SHARES`.

    Parameters
    ----------
    x, y : Space
        What is public of the spaces.
    n : int
        Number of rows.
    """

    shape = (5,)

    def __init__(self, x: Space, y: Space, n: int) -> None:
        self.x, self.y = x, y
        self.columns = (*x.columns, *y.columns)
        self.weights = np.array(SHARES) / changes(x, y, n)
        self.error = float((error(x, y) * self.weights).max())

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute the five numbers, weights included."""
        return five_numbers(self.x.rows(rows), self.y.rows(rows)) * self.weights

    def sensitivity(
        self, relation: Literal["replace_one", "add_remove"], norm: float, public: frozenset[str]
    ) -> float:
        """Joint sensitivity: all five can change at once, and by all they can."""
        if relation != "replace_one":
            return math.inf  # the number of rows is part of the numbers
        fixed = [all(column.name in public for column in space.columns) for space in (self.x, self.y)]
        free = np.array([not all(fixed), not fixed[0], not fixed[1], not fixed[0], not fixed[1]])
        return float(np.linalg.norm(np.array(SHARES) * free, ord=norm))
