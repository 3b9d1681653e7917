"""What follows from five noisy numbers: distance correlation, its interval, and a test of independence.

The numbers are s_xy (root of the squared distance covariance), s_x and s_y (roots of the squared distance
variances) and the mean distances m_x and m_y. Everything here is arithmetic on noisy numbers.

References
----------
.. [1] Székely and Rizzo (2009). Brownian distance covariance. Annals of Applied Statistics 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from scipy import stats

from dfprivacy import ArgumentError, ConfidenceInterval
from dfprivacy.schema import as_probability

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Null", "Numbers", "Of"]

Null = Literal["gamma", "chi2"]
Of = Literal["sample", "population"]

UNINFORMATIVE = (
    "uninformative: the noise hides how much at least one of the variables varies; more rows, a larger epsilon or "
    "tighter bounds would help"
)

_BETA = 0.005  # of a p-value goes into the uncertainty of the null distribution
_DRAWS = (np.arange(2000) + 0.5) / 2000  # quantiles at which the null distribution is evaluated
_SEEN = 4  # scales of noise above which a number is told from 0


@dataclass(frozen=True)
class Numbers:
    """Five noisy numbers, the scales of their Laplace noise, and what is public.

    Attributes
    ----------
    values, scales : tuple of float
        Of s_xy, s_x, s_y, m_x, m_y.
    rows : int
        Number of rows n.
    changes : tuple of float
        The most that each can change when one row does.
    largest : tuple of float
        The largest values that the last four can have.
    """

    values: tuple[float, ...]
    scales: tuple[float, ...]
    rows: int
    changes: tuple[float, ...]
    largest: tuple[float, ...]

    def _denominator(self) -> float:
        """Root of the product of the distance deviations, each at least two scales of its noise."""
        _, x, y, _, _ = self.values
        _, b_x, b_y, _, _ = self.scales
        return math.sqrt(max(x, 2 * b_x)) * math.sqrt(max(y, 2 * b_y))

    @property
    def correlation(self) -> float:
        """Distance correlation R of the sample, from 0 to 1."""
        return _ratio(max(self.values[0], 0.0), self._denominator())

    @property
    def corrected(self) -> float:
        """Squared distance correlation of the population, corrected for what noise and sampling add."""
        covariance, _, _, m_x, m_y = self.values
        sampling = max(m_x, 0.0) * max(m_y, 0.0) / self.rows
        squared = math.copysign(covariance**2, covariance) - 2 * self.scales[0] ** 2 - sampling
        return _ratio(max(squared, 0.0), self._denominator() ** 2)

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
            The R of the table's rows; or what follows from the expectations of s_xy, s_x and s_y when rows are
            drawn independently, by McDiarmid's inequality, which is wide.

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
            reach = [q + spread * change for q, change in zip(reach, self.changes[:3], strict=True)]
        low, high = ([v + sign * q for v, q in zip(self.values[:3], reach, strict=True)] for sign in (-1, 1))
        least = _ratio(max(low[0], 0.0), math.sqrt(max(high[1], 0.0)) * math.sqrt(max(high[2], 0.0)))
        below = math.sqrt(max(low[1], 0.0)) * math.sqrt(max(low[2], 0.0))
        most = _ratio(max(high[0], 0.0), below) if below > 0 else 1.0
        return ConfidenceInterval(min(least, most), most)

    def pvalue(self, null: Null = "gamma") -> float:
        r"""Test independence.

        Parameters
        ----------
        null : {"gamma", "chi2"}
            Distribution of :math:`n\,\mathrm{dCov}^2` under independence: a gamma distribution with mean and
            variance of the limit; or the product of the mean distances times a chi-square with one degree of
            freedom, which is an upper bound of every limit up to p = 0.215.

        Returns
        -------
        float
            The p-value, noise included, from 0.005 to 1.
        """
        if null not in get_args(Null):
            raise ArgumentError(f"null={null!r} is unknown.", f"Use one of {get_args(Null)}.")
        room = math.log(4 / (2 * _BETA))
        s_x, s_y, m_x, m_y = (
            min(max(value + b * room, 0.0), cap)
            for value, b, cap in zip(self.values[1:], self.scales[1:], self.largest, strict=True)
        )
        mean = m_x * m_y
        draws = mean * stats.chi2(1).ppf(_DRAWS) if null == "chi2" else _gamma(mean, s_x * s_y)
        excess = self.values[0] - np.sqrt(draws / self.rows)
        return min(1.0, _BETA + float(_laplace_tail(excess / self.scales[0]).mean()))


def _gamma(mean: float, deviation: float) -> NDArray[np.float64]:
    """Quantiles of the null distribution with this mean; its variance is 2 min(deviation, mean)²."""
    deviation = min(deviation, mean)
    if deviation <= 1e-6 * mean:  # nearly constant
        return np.full(len(_DRAWS), mean)
    shape = (mean / deviation) ** 2 / 2
    quantiles: NDArray[np.float64] = stats.gamma(shape, scale=mean / shape).ppf(_DRAWS)
    return quantiles


def _laplace_tail(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability that Laplace noise of scale 1 is at least x."""
    return np.where(x > 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)


def _ratio(part: float, whole: float) -> float:
    """Return part / whole, at most 1, and 0 for nothing of nothing."""
    if part <= 0:
        return 0.0
    return 1.0 if part >= whole else part / whole


def described(numbers: Numbers) -> tuple[str, ...]:
    """Say what is to be known before trusting a result."""
    return () if numbers.informative else (UNINFORMATIVE,)
