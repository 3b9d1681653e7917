r"""The test of a table of noisy counts: more categories, more groups, and groups that are private too.

Pearson's statistic of noisy counts is the squared length of :math:`P\,(z + \xi/\sqrt{E})`, where z is standard
normal, ξ the noise, E the expected counts, and P projects off the margins. Given the noise it has the noncentral χ²
law with :math:`\|P\,\xi/\sqrt{E}\|^2`, so its law is the mean of those over the noise, which is public. That mean
is taken over draws of which half are wider, in one cell or in all, and count for less: so the far tail is drawn
too, which Laplace noise reaches by one large cell or by several of moderate size.
"""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import chdtrc, chndtr

__all__ = ["NoisyTable", "merged"]

Array = NDArray[np.float64]

_LEAST = 5.0  # expected rows in a cell from which Pearson's law is near enough
_NOISES = 3.0  # and standard deviations of the noise
_DRAWS = 20_000
_STEP, _NEIGHBOURS = 0.03, 6  # of the grid that stands for the draws
_FAR = 12.0  # from the root of the statistic, beyond which a tail is 0 or 1 to the last digit
_WIDE_CELL, _WIDE = 4.0, 2.0  # how much wider draws are in one cell, or in all


@dataclass(frozen=True)
class NoisyTable:
    """A table of noisy counts, rows for categories and columns for groups.

    Attributes
    ----------
    counts : tuple of tuples of float
        The noisy counts, some of them together where they are few (`merged`).
    scales : tuple of tuples of float
        Standard deviation of the noise in each.
    """

    counts: tuple[tuple[float, ...], ...]
    scales: tuple[tuple[float, ...], ...]

    @property
    def df(self) -> int:
        """Degrees of freedom."""
        rows, columns = np.shape(self.counts)
        return int((rows - 1) * (columns - 1))

    @cached_property
    def expected(self) -> Array:
        """Counts that the noisy margins make expected if there is no association."""
        return expected(np.array(self.counts))

    @property
    def statistic(self) -> float:
        """Pearson's χ² of the noisy counts."""
        apart = np.array(self.counts) - self.expected
        return float((apart**2 / self.expected).sum())

    @property
    def rows(self) -> float:
        """Noisy number of rows in the table."""
        return float(np.sum(self.counts))

    def residuals(self) -> Array:
        """Return how far each cell is from expectation, in standard deviations of sampling and noise."""
        table, e = np.array(self.counts), self.expected
        of_row, of_column = (1 - table.sum(axis=axis) / table.sum() for axis in (1, 0))
        spread = np.sqrt(e * np.outer(of_row.clip(0, 1), of_column.clip(0, 1)) + np.array(self.scales) ** 2)
        apart: Array = (table - e) / np.maximum(spread, 1e-9)
        return apart

    def pvalue(self, statistic: float) -> float:
        """Return the probability of a statistic beyond this one if there is no association, noise included."""
        if statistic <= 0:
            return 1.0
        roots, shares = self._roots
        near = slice(*np.searchsorted(roots, math.sqrt(statistic) + np.array([-_FAR, _FAR])))
        beyond = 1 - chndtr(statistic, self.df, roots[near] ** 2)
        # Noise adds to the tail, also where the mean has no digits left.
        tail = float(shares[near] @ beyond) + float(shares[near.stop :].sum())
        return max(min(tail, 1.0), float(chdtrc(self.df, statistic)))

    def critical_value(self, alpha: float) -> float:
        """Return the statistic that is exceeded with probability `alpha`."""
        high = 10.0 * (self.df + float(self._noise[0].max()) + 10 * math.log(1 / alpha))
        return float(scipy.optimize.brentq(lambda x: self.pvalue(x) - alpha, 0.0, high, xtol=1e-6))

    def cramers_v(self) -> float:
        """Return Cramér's V, what sampling and noise add on average taken out."""
        return self._v(max(self.statistic - self.df - self._mean_noise, 0.0))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return a confidence interval for Cramér's V: the effects that tests on either side do not reject.

        The law is the noncentral χ² with the mean and the variance of the noise in its scale.
        """
        inflated = 1 + self._mean_noise / self.df  # the noise widens each direction by so much
        tail = (1 - confidence) / 2
        x = self.statistic / inflated
        low = self._noncentral(x, 1 - tail) * inflated
        high = self._noncentral(max(x, self.df), tail) * inflated  # less than expected by chance proves no absence
        # At no effect the test itself decides, whose law is that of the noise.
        low = 0.0 if self.pvalue(self.statistic) > tail else low
        return self._v(low), self._v(high)

    def _noncentral(self, x: float, level: float) -> float:
        """Find the noncentrality at which x is exceeded with probability 1 - level."""

        def apart(noncentrality: float) -> float:
            return float(chndtr(x, self.df, noncentrality)) - level

        if apart(0.0) <= 0:
            return 0.0
        high = x + 10.0
        while apart(high) > 0:
            high *= 2
        return float(scipy.optimize.brentq(apart, 0.0, high, xtol=1e-6))

    def _v(self, noncentrality: float) -> float:
        smaller = min(np.shape(self.counts)) - 1
        return min(1.0, math.sqrt(noncentrality / (max(self.rows, 1.0) * smaller)))

    @property
    def _mean_noise(self) -> float:
        lengths, shares = self._noise
        return float(shares @ lengths)

    @cached_property
    def _roots(self) -> tuple[Array, Array]:
        """Roots of squared lengths on a grid, and shares of each that give the same mean of a smooth function.

        The tail of the noncentral χ² law is one of the root, on the scale of 1: between six neighbours of the grid
        the polynomial through them tells it to eight digits, so that thousands of draws need no tail of their own.
        """
        lengths, shares = self._noise
        at = np.sqrt(lengths) / _STEP
        first = np.maximum(at.astype(np.intp) - _NEIGHBOURS // 2 + 1, 0)
        size = int(first.max()) + _NEIGHBOURS
        weights = np.zeros(size)
        away = [at - first - m for m in range(_NEIGHBOURS)]
        up_to = list(itertools.accumulate(away[:-1], operator.mul, initial=shares))
        after = list(itertools.accumulate(away[:0:-1], operator.mul, initial=np.ones(1)))[::-1]
        for k in range(_NEIGHBOURS):  # Lagrange's polynomial of each neighbour: the product over all others
            constant = math.prod(k - m for m in range(_NEIGHBOURS) if m != k)
            weights += np.bincount(first + k, up_to[k] * after[k], size) / constant
        roots = np.arange(size, dtype=np.float64) * np.float64(_STEP)
        return roots, weights

    @cached_property
    def _noise(self) -> tuple[Array, Array]:
        """Squared lengths of the projected noise, and the share of each."""
        units, shares = _drawn(math.prod(np.shape(self.counts)))
        of_rows, of_columns = (_off(np.sqrt(self.expected.sum(axis=axis))) for axis in (1, 0))
        projected = np.kron(of_rows, of_columns) * np.ravel(np.array(self.scales) / np.sqrt(self.expected))
        return np.asarray(((units @ projected.T) ** 2).sum(axis=1)), shares


def _off(direction: Array) -> Array:
    """Project off a direction."""
    unit = direction / np.linalg.norm(direction)
    return np.asarray(np.eye(unit.size) - np.outer(unit, unit))


@lru_cache(maxsize=4)
def _drawn(cells: int) -> tuple[Array, Array]:
    """Draw noise of standard deviation 1 with a generator that is no secret, shape (draws, cells), and shares.

    The draws are of a mixture of the noise's law and of two wider ones. Each counts by its density under that law
    over that under the mixture, which is 2 at most.
    """
    half, more = _DRAWS // 2, 3 * _DRAWS // 4
    units = np.random.default_rng(0).laplace(0, 1, (_DRAWS, cells))
    at = np.arange(half, more)
    units[at, at % cells] *= _WIDE_CELL
    units[more:] *= _WIDE
    far = np.abs(units)
    one = np.exp(far * (1 - 1 / _WIDE_CELL)).mean(axis=1) / _WIDE_CELL
    every = np.exp(np.minimum(far.sum(axis=1) * (1 - 1 / _WIDE) - cells * math.log(_WIDE), 700.0))
    shares = 1 / (1 / 2 + one / 4 + every / 4)
    return units / math.sqrt(2), shares / shares.sum()


def expected(table: Array) -> Array:
    """Return expected counts from noisy margins, none of them below a small part of a row."""
    rows, columns = (np.maximum(table.sum(axis=axis), 1e-6) for axis in (1, 0))
    counts: Array = np.maximum(np.outer(rows, columns) / max(table.sum(), 1e-6), 1e-9)
    return counts


def merged(
    counts: Array, scales: Array, *, groups: bool
) -> tuple[NoisyTable | None, list[list[int]], list[list[int]]]:
    """Put categories together until enough rows are expected in each cell, by the noisy margins alone.

    Parameters
    ----------
    counts, scales : ndarray of shape (categories, groups)
        Noisy counts, and the standard deviation of the noise.
    groups : bool
        Whether groups may be put together as well; else only categories are.

    Returns
    -------
    NoisyTable or None
        None if fewer than two categories, or groups, are left.
    rows, columns : list of lists of int
        Which categories, and which groups, are in each row and column.
    """
    parts = [[[at] for at in range(size)] for size in counts.shape]
    while min(counts.shape) >= 2:  # noqa: PLR2004
        needed = _LEAST + _NOISES * scales
        if (expected(counts) >= needed).all():
            table = NoisyTable(tuple(map(tuple, counts.tolist())), tuple(map(tuple, scales.tolist())))
            return table, parts[0], parts[1]
        # The smallest margin in units of what its cells need goes to the next smallest.
        margins = [counts.sum(axis=1 - axis) / needed.sum(axis=1 - axis) for axis in (0, 1)]
        axis = 0 if not groups or margins[0].min() <= margins[1].min() else 1
        if counts.shape[axis] <= 2 < counts.shape[1 - axis] and groups:  # noqa: PLR2004
            axis = 1 - axis
        first, second = sorted(np.argsort(margins[axis], kind="stable")[:2].tolist())
        counts, scales = _together(counts, first, second, axis), np.sqrt(_together(scales**2, first, second, axis))
        parts[axis][first] += parts[axis].pop(second)
    return None, parts[0], parts[1]


def _together(table: Array, first: int, second: int, axis: int) -> Array:
    table = np.moveaxis(table.copy(), axis, 0)
    table[first] += table[second]
    return np.moveaxis(np.delete(table, second, axis=0), 0, axis)
