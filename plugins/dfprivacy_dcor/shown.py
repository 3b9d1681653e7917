r"""What the other of two parties measures of a message and its own columns, and how much one row can change it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError
from dfprivacy.statistics import OfRows
from dfprivacy_dcor.points import five_numbers
from dfprivacy_dcor.spaces import error
from dfprivacy_dcor.statistics import Relation, complete, fixed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_dcor.message import Message
    from dfprivacy_dcor.spaces import Space

__all__ = ["SHOWN_SHARES", "Shown"]

SHOWN_SHARES = (0.6, 0.2, 0.2)
"""Parts of epsilon for the covariance with a message, s_y and m_y."""
_LEAST, _MOST = 1e-100, 1e100  # between them no product overflows, or loses digits


class Shown(OfRows):
    r"""Distance covariance of complete rows with what a message says, s_y and m_y - D, weighted as `FiveNumbers`.

    Each is multiplied by q, the share of complete rows, which is the last number where rows may be left out.

    Parameters
    ----------
    message : Message
        What the other party said, row by row.
    y : Space
        What is public of the space.
    """

    def __init__(self, message: Message, y: Space) -> None:
        self.y, n = y, message.rows
        self.columns = y.columns
        self.parts = message.parts()
        change = math.sqrt(self._reach(n) * y.diameter)
        if not _LEAST < change < _MOST:
            raise ArgumentError(
                "The message tells no two rows apart, or its numbers are too large or too small to compute with.",
                "Ask for the message again.",
            )
        other = 2 * (n - 1) / n**2 * y.diameter
        self.weights = np.array(SHOWN_SHARES) / [change, other, other]
        root = math.sqrt(sum(2 * part.squares.mean() for part in self.parts) * y.diameter)
        slack = float(error(y, y)[1] / y.diameter)
        self._left_out = np.array(SHOWN_SHARES) * [1.0, 1.0, n / (2 * (n - 1))]  # where a row is left out
        self.error = slack * float((self.weights * [root, y.diameter, y.diameter]).max())
        if y.omit:
            rest = 1 - math.fsum(self._left_out)
            self._left_out = np.append(self._left_out, rest)
            self.weights = np.append(self.weights, rest * n)
            self.error = max(
                2 * self.error, rest * n * 2.0**-52
            )  # features of a part of the rows are twice as long
        self.shape = self.weights.shape

    def _reach(self, n: int) -> float:
        """Bound the squared distance of a row's features from the centre of all rows, or of any part of them."""
        reach = np.zeros(n)
        for part in self.parts:
            far = part.squares
            if self.y.omit:
                far = (np.sqrt(far) + math.sqrt(far.max())) ** 2
            reach[part.rows] += far * (2 / len(part.rows)) ** 2
        return float(reach.max())

    @property
    def sampling(self) -> float:
        """What independent rows add to the squared distance covariance, for a mean distance of 1."""
        return float(sum(2 * part.squares.mean() / len(part.rows) for part in self.parts))

    def value(self, rows: Any) -> NDArray[np.float64]:
        """Compute the numbers, weights included."""
        y, there = self.y.rows(rows), self.y.complete(rows)
        squares = []
        for part in self.parts:
            kept = part.only(there)
            if len(kept.rows):
                squares.append((len(kept.rows) / len(part.rows)) ** 2 * kept.covariance(y.ordered(kept.rows)))
        points, _, share = complete(self.y, self.y, rows)
        _, deviation, _, mean, _ = five_numbers(points, points)
        values = np.array([math.sqrt(math.fsum(squares)), share * deviation, share * (mean - self.y.diameter)])
        return (np.append(values, share) if self.y.omit else values) * self.weights

    def sensitivity(self, relation: Relation, norm: float, public: frozenset[str]) -> float:
        """Joint sensitivity: all can change at once."""
        if relation != "replace_one":
            return math.inf
        stays = 0.0 if fixed(self.y, public) else float(np.linalg.norm(SHOWN_SHARES, ord=norm))
        if not self.y.may_lack(public):
            return stays
        return max(stays, float(np.linalg.norm(self._left_out, ord=norm)))
