r"""The laws of a noisy difference of shares given the number of X = 1, for each number on a grid.

Small numbers have hypergeometric laws on a few points. With both signs of each point, y, and weights w that add up
to 2, the probability of a noisy difference farther than t from 0 is

.. math:: h(t) = \tfrac12 \sum_{y \le t} w\,e^{-(t - y)/b} + \sum_{y > t} w\,(1 - \tfrac12 e^{-(y - t)/b}).

Between two neighbouring points, y before t and y' after it, that is
:math:`A e^{-(t - y)/b} + M - C e^{-(y' - t)/b}`. So sums that one pass over the points prepares give every tail,
and a quadratic equation every quantile. Large numbers have normal laws, whose tails are concave in logarithms:
Newton's method goes down to the quantile from above, and never below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dfprivacy_chi2.laws import by_margin, normal_laplace_quantile, normal_laplace_sf

__all__ = ["Noisy", "grid"]

Array = NDArray[np.float64]

_SMALL = 12  # margins up to which each is on the grid
_POINTS = 44  # margins beyond
_NORMAL = 25.0  # standard deviation of a count from which its law is taken to be normal


@dataclass(frozen=True)
class Noisy:
    """The laws at all margins of the grid, with noise.

    Attributes
    ----------
    scale : float
        b, the scale of the Laplace noise.
    sds : ndarray of shape (margins,)
        Standard deviations of normal laws, -1 for laws on points.
    few : ndarray
        The margins with laws on points; the others follow them.
    points : ndarray of shape (few, points)
        The points y, rising; what a law does not need has no weight.
    before : ndarray of shape (few, points)
        A for t between each point and the next.
    beyond : ndarray of shape (few, points)
        M, the weight of all points after each.
    after : ndarray of shape (few, points)
        C.
    """

    scale: float
    sds: Array
    few: NDArray[np.bool_]
    points: Array
    before: Array
    beyond: Array
    after: Array

    @classmethod
    def of(cls, n1: int, n0: int, scale: float) -> Noisy:
        """Return the laws for groups of so many rows."""
        return _noisy(n1, n0, scale)

    def tails(self, t: Array, places: NDArray[np.intp]) -> Array:
        """Give the probability of more than t, 0 or more, on either side, for the margin at each place."""
        tails = np.empty(len(t))
        few = self.few[places]
        tails[~few] = 2 * normal_laplace_sf(t[~few], self.sds[places[~few]], self.scale)
        if few.any():
            rows, t, last = (np.cumsum(self.few) - 1)[places[few]], t[few], self.points.shape[1] - 1
            at = np.empty(len(rows), dtype=np.intp)
            for row in np.unique(rows):
                of = rows == row
                at[of] = np.searchsorted(self.points[row], t[of], side="right") - 1
            faded, near = (
                np.exp(np.minimum(away / self.scale, 0.0))
                for away in (self.points[rows, at] - t, t - self.points[rows, np.minimum(at + 1, last)])
            )
            tails[few] = self.before[rows, at] * faded + self.beyond[rows, at] - self.after[rows, at] * near
        return np.clip(tails, 0.0, 1.0)

    def quantiles(self, tail: float) -> Array:
        """Give the t that has this tail, between 0 and 1, at each margin."""
        t = np.empty(len(self.sds))
        t[~self.few] = normal_laplace_quantile(tail / 2, self.sds[~self.few], self.scale)
        if self.few.any():
            gaps = np.exp(-np.diff(self.points, append=3.0) / self.scale)
            at = np.maximum((self.before + self.beyond - self.after * gaps > tail).sum(axis=1) - 1, 0)
            row = np.arange(len(at))
            A, B, C = self.before[row, at], self.beyond[row, at] - tail, self.after[row, at]
            most = (np.sqrt(B * B + 4 * A * C * gaps[row, at]) + np.abs(B)) / 2
            # From the end that is nearer: there nothing cancels, and nothing underflows.
            following = self.points[row, np.minimum(at + 1, self.points.shape[1] - 1)]
            with np.errstate(divide="ignore"):
                t[self.few] = np.where(
                    B > 0,
                    following + self.scale * np.log(most / np.where(B > 0, C, 1.0)),
                    self.points[row, at] - self.scale * np.log(most / A),
                )
        return np.maximum(t, 0.0)


@lru_cache(maxsize=64)
def _noisy(n1: int, n0: int, scale: float) -> Noisy:
    points, weights, sds = _laws(n1, n0)
    at = points / scale
    with np.errstate(divide="ignore"):
        log = np.log(weights)
    # Exponential sums of all points up to each one, and from each one on, in logarithms: no term overflows.
    up = np.exp(np.logaddexp.accumulate(log + at, axis=1) - at)
    down = np.exp(np.logaddexp.accumulate((log - at)[:, ::-1], axis=1)[:, ::-1] + at)
    after, beyond = np.zeros(points.shape), np.zeros(points.shape)
    after[:, :-1] = down[:, 1:]
    beyond[:, :-1] = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1][:, 1:]
    return Noisy(scale, sds, sds < 0, points, up / 2, beyond, after / 2)


@lru_cache(maxsize=64)
def _laws(n1: int, n0: int) -> tuple[Array, Array, Array]:
    """Give rising points of both signs, their weights, and the standard deviation if normal, else -1."""
    n, margins = n1 + n0, grid(n1 + n0)
    m = margins.astype(np.float64)
    variance = n1 * n0 * m * (n - m) / (n**2 * max(n - 1, 1))  # of the count in the first group
    normal = variance > _NORMAL**2
    laws = [by_margin(lambda c11, c10: c11 / n1 - c10 / n0, n1, n0, int(each)) for each in margins[~normal]]
    shape = (len(laws), 2 * max((len(law.points) for law in laws), default=1))
    points, weights = np.full(shape, 2.0), np.zeros(shape)  # no difference is 2
    for row, law in enumerate(laws):
        both, of_both = np.concatenate([law.points, -law.points]), np.tile(law.weights, 2)
        order = np.argsort(both)
        points[row, : len(both)], weights[row, : len(both)] = both[order], of_both[order]
    return points, weights, np.where(normal, np.sqrt(variance) * n / (n1 * n0), -1.0)


@lru_cache(maxsize=64)
def grid(rows: int) -> NDArray[np.int64]:
    """Return numbers of X = 1 up to half of the rows that stand for all: X and not X have the same law."""
    half = (rows + 1) // 2
    small = np.arange(min(_SMALL, half) + 1)
    larger = np.rint(np.geomspace(_SMALL, max(half, _SMALL + 1), _POINTS)).astype(np.int64)
    return np.unique(np.concatenate([small, larger[larger <= half], [half]]))
