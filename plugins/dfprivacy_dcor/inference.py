"""What follows from six noisy numbers: distance correlation, its interval, and a test of independence.

Of the m of n rows that are complete, they are s_xy (root of the squared distance covariance), s_x and s_y (roots of
the squared distance variances), and m_x - D_x and m_y - D_y (mean distances, minus the diameters), each times
q = m / n; and q. Everything here is arithmetic on noisy numbers.

References
----------
.. [1] Székely and Rizzo (2009). Brownian distance covariance. Annals of Applied Statistics 3.
.. [2] Berger and Boos (1994). P values maximized over a confidence set for the nuisance parameter. Journal of the
   American Statistical Association 89.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import scipy
from scipy.special import gammaln, xlogy

from dfprivacy import ArgumentError, ConfidenceInterval
from dfprivacy.schema import as_probability
from dfprivacy_dcor.independence import noisy_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Null", "Numbers", "Of", "null_tail"]

Null = Literal["moments", "chi2"]
Of = Literal["sample", "population"]

UNINFORMATIVE = (
    "uninformative: the noise hides how much at least one of the variables varies, and with it R (a p-value is of "
    "the covariance alone); more rows, a larger epsilon or tighter bounds would help"
)

_NUISANCE = 0.1  # part of a level that goes into the uncertainty of the null distribution
_LEAST_LOG = -690.0  # of a p-value: nearly the least that a float can hold
_BINARY = 0.8  # of the product of mean distances is that of the distance deviations, if values are all or nothing
_HIDDEN = 2.5  # scales of noise below which one row is not seen
_MEET = np.arange(80)  # rows in which rare values meet; where 20 are expected, their number is as good as normal
_SEEN = 4  # scales of noise above which a number is told from 0


@dataclass(frozen=True)
class Numbers:
    """Six noisy numbers, the scales of their Laplace noise, and what is public.

    Attributes
    ----------
    values, scales : tuple of float
        Of q s_xy, q s_x, q s_y, q (m_x - D_x), q (m_y - D_y) and q, the share of complete rows; the last is 1,
        without noise, where all rows count.
    rows : int
        Number of rows n.
    changes : tuple of float
        The most that each of the first five can change when one row does.
    largest : tuple of float
        The largest values that s_x, s_y, m_x and m_y can have; the first two are half the diameters.
    """

    values: tuple[float, ...]
    scales: tuple[float, ...]
    rows: int
    changes: tuple[float, ...]
    largest: tuple[float, ...]

    @property
    def complete(self) -> float:
        """Share of complete rows, at least two scales of its noise and four rows."""
        return min(max(self.values[5], 2 * self.scales[5], 4 / self.rows), 1.0)

    @property
    def _denominator(self) -> float:
        """Root of the product of the distance deviations, each at least two scales of its noise."""
        (_, x, y, *_), (_, b_x, b_y, *_) = self.values, self.scales
        return math.sqrt(max(x, 2 * b_x)) * math.sqrt(max(y, 2 * b_y))

    @property
    def _sampling(self) -> float:
        """What independent rows add to the square of the first number on average."""
        q = self.complete
        m_x, m_y = (max(self.values[at + 3] + 2 * self.largest[at] * q, 0.0) for at in (0, 1))
        return m_x * m_y / (q * self.rows)

    @property
    def correlation(self) -> float:
        """Distance correlation R of the sample, from 0 to 1."""
        return _ratio(max(self.values[0], 0.0), self._denominator)

    @property
    def corrected(self) -> float:
        """Squared distance correlation of the population, corrected for what noise and sampling add."""
        return _ratio(max(self._squared - self._sampling, 0.0), self._denominator**2)

    @property
    def _squared(self) -> float:
        """Square of the first number without its noise, perhaps below 0."""
        return math.copysign(self.values[0] ** 2, self.values[0]) - 2 * self.scales[0] ** 2

    @property
    def statistic(self) -> float:
        """Squared distance covariance, times the rows, over both mean distances: about 1 if independent."""
        return max(self._squared, 0.0) / self._sampling if self._sampling > 0 else 0.0

    @property
    def informative(self) -> bool:
        """Whether both distance deviations are told from 0."""
        return all(self.values[at] >= _SEEN * self.scales[at] for at in (1, 2))

    def interval(self, confidence: float, of: Of = "sample") -> ConfidenceInterval:
        """Give an interval for R whose coverage is guaranteed.

        Parameters
        ----------
        confidence : float
            Its coverage, at least.
        of : {"sample", "population"}
            The R of the table's complete rows; or what follows from the expectations of the first three numbers
            when rows are drawn independently, by McDiarmid's inequality, which is wide.

        Returns
        -------
        ConfidenceInterval
            Within 0 and 1.
        """
        if of not in get_args(Of):
            raise ArgumentError(f"of={of!r} is unknown.", f"Use one of {get_args(Of)}.")
        lost = (1 - as_probability(confidence, "confidence")) / (1 if of == "sample" else 2)
        reach = [b * math.log(3 / lost) for b in self.scales[:3]]
        if of == "population":
            spread = math.sqrt(self.rows * math.log(6 / lost) / 2)
            reach = [each + spread * change for each, change in zip(reach, self.changes[:3], strict=True)]
        low, high = ([v + sign * q for v, q in zip(self.values[:3], reach, strict=True)] for sign in (-1, 1))
        least = _ratio(max(low[0], 0.0), math.sqrt(max(high[1], 0.0)) * math.sqrt(max(high[2], 0.0)))
        below = math.sqrt(max(low[1], 0.0)) * math.sqrt(max(low[2], 0.0))
        most = _ratio(max(high[0], 0.0), below) if below > 0 else 1.0
        return ConfidenceInterval(min(least, most), most)

    def pvalue(self, null: Null = "moments") -> float:
        r"""Test independence.

        Parameters
        ----------
        null : {"moments", "chi2"}
            Law of :math:`m\,\mathrm{dCov}^2` under independence; see `dfprivacy_dcor.independence`.

        Returns
        -------
        float
            The p-value, noise included: the least level at which `null_tail` rejects.
        """
        if null not in get_args(Null):
            raise ArgumentError(f"null={null!r} is unknown.", f"Use one of {get_args(Null)}.")

        def excess(log_level: float) -> float:
            level = math.exp(log_level)
            tail = null_tail(self.values, self.scales, self.rows, self.largest, level, null)
            return math.log(max(float(tail), 1e-320)) - math.log((1 - _NUISANCE) * level)

        if excess(0.0) >= 0:
            return 1.0
        if excess(_LEAST_LOG) <= 0:
            return math.exp(_LEAST_LOG)
        return math.exp(scipy.optimize.brentq(excess, _LEAST_LOG, 0.0, xtol=1e-6))

    def notes(self) -> tuple[str, ...]:
        """Say what is to be known before trusting a result."""
        notes = [] if self.informative else [UNINFORMATIVE]
        q, noise = self.values[5], self.scales[5]
        if 1 - q > _SEEN * noise > 0:
            gone = f"{min(1 - q, 1.0):.1%}"
            notes.append(f"about {gone} of the rows are left out: a value is missing, or none that was declared")
        return tuple(notes)


def null_tail(values: Any, scales: Any, rows: int, largest: Any, level: float, null: Null) -> NDArray[np.float64]:
    r"""Bound how likely as large a first number would be, were the columns independent.

    Independence is rejected at a level α where this is at most 0.9 α. A tenth of α is the probability that one of
    the five numbers on which the null distribution depends lies beyond its confidence limit [2]_: so as to be an
    upper bound, M and v are those at the limits.

    Parameters
    ----------
    values, scales : array_like of shape (..., 6)
        As of `Numbers`.
    rows : int
        Number of rows n.
    largest : array_like of shape (4,)
        As of `Numbers`.
    level : float
        The level α.
    null : {"moments", "chi2"}
        The law.

    Returns
    -------
    ndarray of shape (...)
        At most 1.
    """
    values, scales = np.asarray(values, dtype=np.float64), np.asarray(scales, dtype=np.float64)
    room = math.log(6 / (2 * _NUISANCE * level))
    upper = values + scales * room
    most = np.clip(upper[..., 5], 0.0, 1.0)
    least = np.clip(values[..., 5] - scales[..., 5] * room, min(4 / rows, 1.0), 1.0)
    mean = np.zeros(values.shape[:-1])
    for share in (least, most):  # a convex function of the share: the largest value is at an end
        sides = [
            np.clip(upper[..., at + 3] + 2 * largest[at] * share, 0.0, largest[at + 2] * share) for at in (0, 1)
        ]
        count = np.maximum(share * rows, 2.0)
        mean = np.maximum(mean, sides[0] * sides[1] / (count - 1))
    deviations = [np.clip(upper[..., at + 1], 0.0, largest[at] * most) for at in (0, 1)]
    spread = mean
    if null == "moments":
        spread = np.minimum(deviations[0] * deviations[1] / (np.maximum(least * rows, 2.0) - 1), mean)
    tail = noisy_tail(values[..., 0], scales[..., 0], mean, spread)
    low = values - scales * room
    sides = [np.clip(low[..., at + 3] + 2 * largest[at] * least, 0.0, None) for at in (0, 1)]
    nearly_binary = deviations[0] * deviations[1] >= _BINARY * sides[0] * sides[1]
    lump = 2 * math.sqrt(2 * largest[0] * 2 * largest[1]) / rows  # by which one row can move the first number
    lumps = _lumps(values, scales, rows, largest, mean, lump)
    return np.where(nearly_binary & (lump > _HIDDEN * scales[..., 0]), np.maximum(tail, lumps), tail)


def _lumps(values: Any, scales: Any, rows: int, largest: Any, mean: Any, unit: float) -> Any:
    """Give the tail of the first number where columns have rare values, which meet in few rows or none.

    How many rows have both is then a Poisson variable, and each moves the first number by all that one row can.
    """
    most = np.minimum(mean / unit**2, 3 * len(_MEET) / 4)
    sides = [np.clip(values[..., at + 3] + 2 * largest[at] * values[..., 5], 0.0, None) for at in (0, 1)]
    expected = np.minimum(sides[0] * sides[1] / rows / unit**2, most)
    gap = (values[..., :1] - unit * np.abs(_MEET - expected[..., None])) / scales[..., :1]
    beyond = np.where(gap > 0, np.exp(-np.abs(gap)) / 2, 1 - np.exp(-np.abs(gap)) / 2)
    each = np.exp(xlogy(_MEET, most[..., None]) - most[..., None] - gammaln(_MEET + 1)) * beyond
    return np.where(expected < len(_MEET) / 4, each.sum(axis=-1), 0.0)


def _ratio(part: float, of: float) -> float:
    """Return a part of something, at most 1, and 0 for nothing of nothing."""
    if part <= 0:
        return 0.0
    return 1.0 if part >= of else part / of
