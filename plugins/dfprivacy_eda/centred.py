"""One number of one column alone, each by the sum whose noise matters least for it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy import Column, Curator, features
from dfprivacy.statistics import OfSums
from dfprivacy_eda.sums import Sums, moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.arguments import NanPolicy

__all__ = ["Centred", "Spread", "Total", "mean", "total", "variance"]

_OF_HALVES = np.array([[1.0, 1, 0], [1, -1, 0], [0, 0, 0], [0, 0, 1]])
_GUESS = Fraction(1, 10)  # of the budget, where rows without a value have to be counted as well
# Rows times epsilon from which on a guess is worth it: with missing values, the square of what it is off by is
# below the noise; else it costs 1 in 30 of the budget at most.
_MANY = 1000.0
_REACH = (
    4.0  # scales of the noise in a guess, within which the mean is looked for: but for 1 in 55 draws it is there
)


class Centred(OfSums):
    """The sum over rows with a value of (y - t) / 2, for some t in [-1, 1].

    Before the division a row adds a number in [-1 - t, 1 - t]; one without a value adds 0, which lies in it. So a
    row that changes moves the sum by 1 at most, and one that comes or goes as well: the claim is the same for all
    groups of a table, whatever t is.
    """

    shape = (1,)
    error = 3e-5  # of six sums and products, for up to 2^32 rows
    lipschitz = 1.0  # of y, 1-y² and y²/2 summed

    def __init__(self, column: Column, gaps: tuple[Column, ...], t: float) -> None:
        of = features.Moments(column, count=True)
        self.features = features.Given(*gaps, of=of) if gaps else of
        self.columns = self.features.columns
        self.t = t

    def value(self, sums: NDArray[np.float64]) -> float:
        """Compute it from the sums of y, 1-y² and y²."""
        first, rest, second = sums.tolist()
        return float(first - self.t * (rest + second)) / 2

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far it moves."""
        return 1.0


class Spread(OfSums):
    """The least that the sum over rows with a value of ((y - t)² - v) / (1 + b)² is for any t in an interval.

    The interval lies in [-1, 1], b is the largest absolute value in it, and v is in [0, 1]. For a fixed t a row
    adds a number in [-v, (1 + |t|)² - v] before the division, one without a value adds 0, which lies in it: so a
    row that changes, comes or goes moves the sum by 1 at most. The least of functions that move by 1 at most moves
    by 1 at most. Where the mean of y is in the interval, it is the sum of squares about the mean.
    """

    shape = (1,)
    error = 3e-5  # of six sums and products, for up to 2^32 rows
    lipschitz = 2.0  # 2(1 + t²) over the unit, with y, 1-y² and y²/2 summed

    def __init__(self, column: Column, gaps: tuple[Column, ...], ends: tuple[float, float], v: float) -> None:
        of = features.Moments(column, count=True)
        self.features = features.Given(*gaps, of=of) if gaps else of
        self.columns = self.features.columns
        self.ends, self.v = ends, v
        self.unit = (1 + max(map(abs, ends))) ** 2

    def value(self, sums: NDArray[np.float64]) -> float:
        """Compute it from the sums of y, 1-y² and y²."""
        first, rest, second = sums.tolist()
        n, (low, high) = rest + second, self.ends
        inside = [min(max(first / n, low), high)] if n > 0 else []
        return float(min(second - 2 * t * first + (t**2 - self.v) * n for t in (low, high, *inside))) / self.unit

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far it moves."""
        return 1.0


class Total(OfSums):
    """The sum of a column over its largest number in absolute value, from those of (1+y)/2 and (1-y)/2.

    A row without a value adds 0. Where a row changes, it moves by the range of the column, or by the largest
    number if that is more, for a value may go missing; where one comes or goes, by the largest number.
    """

    shape = (1,)
    lipschitz = 1.0
    error = 1e-5

    def __init__(self, column: Column, gaps: tuple[Column, ...]) -> None:
        of = features.Moments(column, degree=1, count=True)
        self.features = features.Given(*gaps, of=of) if gaps else of
        self.columns = self.features.columns
        self.most = max(abs(column.low), abs(column.high))
        self.ends = (column.high / self.most, column.low / self.most)
        self.moved = max(self.ends[0] - self.ends[1], 1.0 if gaps else 0.0)

    def value(self, sums: NDArray[np.float64]) -> float:
        """Add the part of the upper bound and that of the lower."""
        return float(sums @ np.array(self.ends))

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far it moves."""
        return self.moved if relation == "replace_one" else 1.0


def mean(curator: Curator, column: Column, nan_policy: NanPolicy, *, alone: bool = True) -> Sums:
    """Measure the mean alone, or for `alone` False what the variance needs as well.

    Where the number of rows is private, the sums of (1+y)/2 and (1-y)/2 have all of the noise of a count, and give
    the number of rows and the sum of y. Where it is public and no value is missing, the mean is linear in the sum
    of y. Where values may be missing, a part of the budget gives a guess t, and the mean is t plus the mean of
    y - t: the less t is off, the less it matters how many rows there are.
    """
    n, gaps = curator.size, curator.gaps([column], nan_policy)
    if n is None and alone:
        return _halves(curator, column, gaps, nan_policy)
    if not (alone and gaps and _enough(curator)):
        return moments(curator, column, nan_policy)
    guess = moments(curator, column, nan_policy, share=_GUESS)
    if not guess.scales.any():
        return guess
    t, _, _ = curator.settled(_about(guess))
    noisy = curator.measure(Centred(column, gaps, t))
    map_of_all, start = np.column_stack([guess.map, np.zeros(4)]), guess.start.copy()
    map_of_all[1], start[1] = t * map_of_all[0], t * start[0]
    map_of_all[1, -1] = 1
    return _joined(guess, float(noisy.values[0]) * 2, float(noisy.scales[0]) * 2, map_of_all, start, None)


def variance(curator: Curator, column: Column, nan_policy: NanPolicy) -> Sums:
    """Measure the sum of squares about the mean, after a guess where the mean lies.

    The nearer that is to the middle of the bounds, the less one row moves the sum. With few rows there is no guess,
    and the mean may lie anywhere; where their number is private, or small and values may be missing, the sums of y
    and y² are measured.
    """
    n, gaps = curator.size, curator.gaps([column], nan_policy)
    typical, many = curator.typical_size, _enough(curator)
    if n is None or typical is None or (gaps and not many):
        return moments(curator, column, nan_policy)
    if not many:
        noisy = curator.measure(Spread(column, (), (-1.0, 1.0), 0.0))
        counted = not (column.filled or nan_policy == "fill")
        blank = Sums(np.empty(0), np.empty(0), np.zeros((4, 0)), np.array([n, 0.0, 0, 0]), counted)
        scale = float(noisy.scales[0]) * 4
        return _joined(blank, float(noisy.values[0]) * 4, scale, *_squares(blank), 0.0)
    share = _GUESS if gaps else Fraction(1, math.isqrt(int(typical * curator.epsilon)))
    guess = moments(curator, column, nan_policy, share=share)
    if not guess.scales.any():
        return guess
    t, v, rows = curator.settled(_about(guess))
    scale = (2 + 4 * abs(t) * bool(gaps)) / (float(share) * curator.epsilon * rows)
    spread = Spread(column, gaps, (max(t - _REACH * scale, -1.0), min(t + _REACH * scale, 1.0)), v)
    noisy = curator.measure(spread)
    value, noise = float(noisy.values[0]) * spread.unit, float(noisy.scales[0]) * spread.unit
    return _joined(guess, value, noise, *_squares(guess), v)


def _enough(curator: Curator) -> bool:
    """Say whether a guess is worth it, the same for all groups of a table."""
    typical = curator.typical_size
    return curator.size is not None and typical is not None and typical * curator.epsilon >= _MANY


def _about(guess: Sums) -> tuple[float, float, float]:
    """Guess the mean of y and its variance, and give the number of rows with a value, or 1."""
    rows, first, second, _ = guess.numbers.tolist()
    rows = max(rows, 1.0)
    t = min(max(first / rows, -1.0), 1.0)
    return t, min(max(second / rows - t**2, 0.0), 1.0), rows


def _squares(guess: Sums) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Put a number that is measured next in the place of the sum of y²."""
    map_of_all, start = np.column_stack([guess.map, np.zeros(4)]), guess.start.copy()
    map_of_all[2], start[2] = 0, 0
    map_of_all[2, -1] = 1
    return map_of_all, start


def _joined(
    guess: Sums,
    value: float,
    scale: float,
    map_of_all: NDArray[np.float64],
    start: NDArray[np.float64],
    v: float | None,
) -> Sums:
    """Put together what two steps measured."""
    scales = np.append(guess.scales, scale)
    return Sums(np.append(guess.values, value), scales, map_of_all, start, guess.counted, v)


def _halves(curator: Curator, column: Column, gaps: tuple[Column, ...], nan_policy: NanPolicy) -> Sums:
    """Measure the sums of (1+y)/2 and of (1-y)/2, and the number of rows without a value, in one vector."""
    measured = curator.sum(curator.once(_halved, column, gaps))
    values, scales = measured.values, measured.scales
    return Sums(
        values,
        scales,
        _OF_HALVES[:, : len(values)],
        np.zeros(4),
        bool(gaps) or not (column.filled or nan_policy == "fill"),
    )


def _halved(column: Column, gaps: tuple[Column, ...]) -> features.RowFeatures:
    of = features.Moments(column, degree=1, count=True)
    return features.Given(*gaps, of=of, tally=(0, 1)) if gaps else of


def total(curator: Curator, column: Column, nan_policy: NanPolicy) -> tuple[float, float]:
    """Measure the sum of a column alone: its noisy value, and the scale of the noise, in units of the column."""
    statistic = Total(column, curator.gaps([column], nan_policy))
    noisy = curator.measure(statistic)
    return float(noisy.values[0]) * statistic.most, float(noisy.scales[0]) * statistic.most
