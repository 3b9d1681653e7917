r"""The statistics that are measured, and how much one row can change them.

With :math:`\varphi, \psi` such that :math:`|\varphi(x) - \varphi(x')|^2 = d_X(x, x')` and likewise for y, and
:math:`C = \frac{1}{2n^2} \sum_{ij} (\varphi_i - \varphi_j) \otimes (\psi_i - \psi_j)`, the distance covariance is
:math:`s_{xy} = 2|C|`. See the explanation of distance correlation in the documentation for the proofs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy.statistics import OfPermutations, OfRows
from dfprivacy_dcor.points import Points, five_numbers, squared_covariance
from dfprivacy_dcor.spaces import error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy_dcor.message import Message
    from dfprivacy_dcor.spaces import Space

__all__ = ["SHARES", "Deviation", "FiveNumbers", "Permuted", "Scores", "Shown", "changes", "largest"]

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


Relation = Literal["replace_one", "add_remove"]


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

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """Joint sensitivity: all five can change at once, and by all they can."""
        if relation != "replace_one":
            return math.inf  # the number of rows is part of the numbers
        fixed = [_fixed(space, public) for space in (self.x, self.y)]
        free = np.array([not all(fixed), not fixed[0], not fixed[1], not fixed[0], not fixed[1]])
        return float(np.linalg.norm(np.array(SHARES) * free, ord=norm))


class Permuted(OfPermutations):
    """s_xy of the rows and of random pairings of x and y, each rounded to the same accuracy.

    Parameters
    ----------
    x, y : Space
        What is public of the spaces.
    n, permutations : int
        Number of rows, and of pairings.
    """

    def __init__(self, x: Space, y: Space, n: int, permutations: int) -> None:
        self.x, self.y, self.n = x, y, n
        self.columns = (*x.columns, *y.columns)
        self.shape = (permutations + 1,)
        self.error = float(error(x, y)[0])

    def value(self, rows: Any, chance: np.random.Generator) -> Any:  # type: ignore[override]
        """Compute all values; rows of y move."""
        x, y = self.x.rows(rows), self.y.rows(rows)
        paired = [y, *(y.ordered(chance.permutation(rows.size)) for _ in range(self.shape[0] - 1))]
        return np.sqrt(np.array([squared_covariance(x, each) for each in paired]))

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """Two pairs hold a part of one row: x is exchanged in one and y in the other, by half of the bound each."""
        if relation != "replace_one" or norm != math.inf:
            return math.inf
        free = 2 - _fixed(self.x, public) - _fixed(self.y, public)
        return free * 2 * (self.n - 1) / self.n**2 * math.sqrt(self.x.diameter * self.y.diameter)


class Scores(OfRows):
    """s_xy of several x with one y, each as a part of the root of the diameters.

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
        y = self.y.rows(rows)
        scores = [math.sqrt(squared_covariance(x.rows(rows), y)) / self._unit(x) for x in self.candidates]
        return np.array(scores)

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """Each can change by all it can."""
        if relation != "replace_one":
            return math.inf
        free = [
            changes(x, self.y, self.n)[0] / self._unit(x)
            for x in self.candidates
            if not (_fixed(x, public) and _fixed(self.y, public))
        ]
        return float(np.linalg.norm(np.array([*free, 0.0]), ord=norm))


class Deviation(OfRows):
    """s_x alone.

    Parameters
    ----------
    x : Space
        What is public of the space.
    n : int
        Number of rows.
    """

    shape = (1,)

    def __init__(self, x: Space, n: int) -> None:
        self.x, self.n = x, n
        self.columns = x.columns
        self.error = float(error(x, x)[1])

    def value(self, rows: Any) -> float:
        """Compute it."""
        points = self.x.rows(rows)
        if isinstance(points, Points):
            return math.sqrt(squared_covariance(points, points))
        return math.sqrt(max(points.variance, 0.0))

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Give that of any metric of negative type."""
        if relation != "replace_one":
            return math.inf
        return 0.0 if _fixed(self.x, public) else 2 * (self.n - 1) / self.n**2 * self.x.diameter


SHOWN_SHARES = (0.6, 0.2, 0.2)
"""Parts of epsilon for the covariance with a message, s_y and m_y."""
_LEAST, _MOST = 1e-100, 1e100  # between them no product overflows, or loses digits


class Shown(OfRows):
    """Distance covariance of the rows with what a message says, s_y and m_y: weighted as `FiveNumbers` is.

    Parameters
    ----------
    message : Message
        What the other party said, row by row.
    y : Space
        What is public of the space.
    """

    shape = (3,)

    def __init__(self, message: Message, y: Space) -> None:
        self.y, n = y, message.rows
        self.columns = y.columns
        self.parts = message.parts()
        reach = np.zeros(n)
        for part in self.parts:
            reach[part.rows] += part.squares * (2 / len(part.rows)) ** 2
        change = math.sqrt(reach.max() * y.diameter)
        if not _LEAST < change < _MOST:
            raise ArgumentError(
                "The message tells no two rows apart, or its numbers are too large or too small to compute with.",
                "Ask for the message again.",
            )
        other = 2 * (n - 1) / n**2 * y.diameter
        self.weights = np.array(SHOWN_SHARES) / [change, other, other]
        root = math.sqrt(sum(2 * part.squares.mean() for part in self.parts) * y.diameter)
        slack = float(error(y, y)[1] / y.diameter)
        self.error = slack * float((self.weights * [root, y.diameter, y.diameter]).max())

    @property
    def sampling(self) -> float:
        """What independent rows add to the squared distance covariance, for a mean distance of 1."""
        return float(sum(2 * part.squares.mean() / len(part.rows) for part in self.parts))

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute the three numbers, weights included."""
        y = self.y.rows(rows)
        square = math.fsum(part.covariance(y.ordered(part.rows)) for part in self.parts)
        return np.array([math.sqrt(square), *five_numbers(y, y)[[1, 3]]]) * self.weights

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """Joint sensitivity: all three can change at once."""
        if relation != "replace_one":
            return math.inf
        return 0.0 if _fixed(self.y, public) else float(np.linalg.norm(SHOWN_SHARES, ord=norm))


def _fixed(space: Space, public: frozenset[str]) -> bool:
    """Tell whether neighbouring tables agree on a space."""
    return all(column.name in public for column in space.columns)
