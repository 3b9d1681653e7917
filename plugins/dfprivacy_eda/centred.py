"""One number of one column, measured about a rough guess of it: a second step that is as accurate as can be."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfprivacy import Column, Curator, features
from dfprivacy.statistics import OfSums
from dfprivacy_eda.sums import Sums, laplace_draws, moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.arguments import NanPolicy

__all__ = ["Centred", "Total", "centred", "total"]

_GUESS = Fraction(1, 10)  # of the budget
# Rows times epsilon from which on a guess is worth it: what it is off by, squared, is below the noise. It is off by
# more where rows without a value have to be counted.
_MANY, _WITH_GAPS = 400.0, 1000.0


class Centred(OfSums):
    """The sum over rows with a value of (y - t) / 2, or of ((y - t)² - v) / (1 + |t|)²; t in [-1, 1], v in [0, 1].

    Before the division a row adds a number in [-1 - t, 1 - t], or in [-v, (1 + |t|)² - v]; one without a value
    adds 0, which lies in both. So a row that changes moves the sum by 1 at most, and one that comes or goes as
    well: the claim is the same for all groups of a table, whatever t is.
    """

    shape = (1,)
    error = 3e-5  # of six sums and products, for up to 2^32 rows

    def __init__(self, column: Column, gaps: tuple[Column, ...], degree: Literal[1, 2], t: float, v: float) -> None:
        of = features.Moments(column, count=True)
        self.features = features.Given(*gaps, of=of) if gaps else of
        self.columns = self.features.columns
        self.degree, self.t, self.v = degree, t, v
        self.lipschitz = float(degree)  # max(1, 2|t|) or 2(1 + t²) over the unit, with y, 1-y² and y²/2 summed
        self.unit = 2.0 if degree == 1 else (1 + abs(t)) ** 2

    def value(self, sums: NDArray[np.float64]) -> float:
        """Compute it from the sums of y, 1-y² and y²."""
        first, rest, second = sums.tolist()
        if self.degree == 1:
            return float(first - self.t * (rest + second)) / self.unit
        return float(second - 2 * self.t * first + (self.t**2 - self.v) * (rest + second)) / self.unit

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


def centred(curator: Curator, column: Column, nan_policy: NanPolicy, degree: Literal[1, 2]) -> Sums:
    """Measure the moments with a small part of the budget, and then the one that is asked for about them.

    A mean is t plus the mean of y - t: the less t is off, the less it matters how many rows there are. A variance
    is v, the mean of (y - t)² - v, and minus the square of what t is off by. What both steps measured is put
    together as sums of y and y² again.

    There is one step where the number of rows is private or small; and for a mean where all rows have a value,
    which is linear in the sum of y.
    """
    n, gaps, typical = curator.size, curator.gaps([column], nan_policy), curator.typical_size
    least = _WITH_GAPS if gaps else _MANY
    enough = n is not None and typical is not None and typical * curator.epsilon >= least
    if not enough or (degree == 1 and not gaps):
        return moments(curator, column, nan_policy)
    guess = moments(curator, column, nan_policy, share=_GUESS)
    if not len(guess.noise):
        return guess
    rows, first, second, _ = guess.found.tolist()
    t = min(max(first / max(rows, 1.0), -1.0), 1.0)
    v = min(max(second / max(rows, 1.0) - t**2, 0.0), 1.0)
    t, v = curator.settled((t, v))
    asked = Centred(column, gaps, degree, t, v)
    found = curator.measure(asked)
    noise = np.column_stack([guess.noise, laplace_draws(1) * (float(found.scales[0]) * asked.unit)])
    whole = np.column_stack([guess.map, np.zeros(4)])
    start = guess.start.copy()
    if degree == 1:
        whole[1], start[1] = t * whole[0], t * start[0]
    else:
        whole[2], start[2] = 0, 0
    whole[degree, -1] = 1
    values = np.append(guess.values, found.values * asked.unit)
    return Sums(values, noise, whole, start, guess.counted, None if degree == 1 else (t, v))


def total(curator: Curator, column: Column, nan_policy: NanPolicy) -> tuple[float, float]:
    """Measure the sum of a column alone: its noisy value, and the scale of the noise, in units of the column."""
    asked = Total(column, curator.gaps([column], nan_policy))
    found = curator.measure(asked)
    return float(found.values[0]) * asked.most, float(found.scales[0]) * asked.most
