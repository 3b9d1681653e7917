r"""Estimates, confidence intervals and p-values of distance correlation, from its noisy statistics.

For m rows of independent columns, :math:`m\,\mathrm{dCov}^2` tends to a quadratic form
:math:`\sum_k \lambda_k Z_k^2` of normal variables [1]_. Its mean is the product of the mean distances, M = m_x m_y,
and its variance twice the square of v = s_x s_y, the product of the distance standard deviations. Taken is

    :math:`M - v + v Z^2`, which has this mean and this variance. All of the variance stands in one squared normal
    variable, so that the tail falls as slowly as it can: :math:`\lambda_1 \le v`. In place of the quadratic form of
    uniform, normal, exponential, t, Poisson and binary data it rejects at .05, .01 and .001 as often as it says, or
    less.

Six noisy numbers are known. Of the m of n rows that are complete, they are s_xy (root of the squared distance
covariance), s_x and s_y (roots of the squared distance variances), and m_x - D_x and m_y - D_y (mean distances,
minus the diameters), each times q = m / n; and q.

References
----------
.. [1] Székely, Rizzo and Bakirov (2007). Measuring and testing dependence by correlation of distances. Annals of
   Statistics 35.
.. [2] Berger and Boos (1994). P values maximized over a confidence set for the nuisance parameter. Journal of the
   American Statistical Association 89.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from scipy.special import gammaln, log_ndtr, xlogy

from dfprivacy import ConfidenceInterval
from dfprivacy.schema import as_probability

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "SEEN",
    "UNINFORMATIVE",
    "NoisyStatistics",
    "bounded_share",
    "missing_note",
    "noisy_tail",
    "null_tail",
]

_Z = np.concatenate([np.arange(0.0, 8.0, 0.1), np.arange(8.0, 38.0, 0.5)])
"""Normal quantiles between which the tail of a squared normal variable is taken for log-linear."""
_LOG_TAIL = np.log(2.0) + log_ndtr(-_Z)


def noisy_tail(value: Any, scale: Any, mean: Any, spread: Any) -> NDArray[np.float64]:
    r"""Return the probability of :math:`\sqrt{M - v + v Z^2} + b L \ge t`, with Z normal and L Laplace noise.

    Parameters
    ----------
    value : float or ndarray
        The value t.
    scale : float or ndarray
        The scale b of the Laplace noise b L.
    mean, spread : float or ndarray
        M and v, with 0 <= v <= M.

    Returns
    -------
    ndarray
        Right to about a part in a thousand, whatever its size.

    Notes
    -----
    With G the tail of the root u, from its least value u_0 on, integration by parts gives
    :math:`P(b L \ge t - u_0) + \int_{u_0}^\infty G(u)\,\frac{1}{2b} e^{-|t - u|/b}\,du`. Between two of its points
    G is taken for exponential in u, and the integral is that of exponentials.
    """
    t, b, mean, spread = (np.asarray(each, dtype=np.float64)[..., None] for each in (value, scale, mean, spread))
    u = np.sqrt(np.maximum(mean - spread, 0.0) + spread * _Z**2)
    start, end, fall = u[..., :-1], u[..., 1:], _LOG_TAIL[:-1] - _LOG_TAIL[1:]
    rate = fall / np.maximum(end - start, 1e-300)  # of G, falling
    middle = np.clip(t, start, end)
    at_middle = _LOG_TAIL[:-1] - rate * (middle - start)
    below = _exp_integral(
        at_middle - np.abs(t - middle) / b, middle - start, rate - 1 / b
    )  # backwards from the middle
    above = _exp_integral(at_middle - np.abs(t - middle) / b, end - middle, -rate - 1 / b)
    inside = ((below + above) / (2 * b)).sum(axis=-1)
    gap = (t[..., 0] - u[..., 0]) / b[..., 0]
    tail: NDArray[np.float64] = np.minimum(_laplace_tail(gap) + inside, 1.0)
    return tail


def _laplace_tail(gap: Any) -> Any:
    """Return the probability that Laplace noise of scale 1 is at least `gap`."""
    beyond = np.exp(-np.abs(gap)) / 2
    return np.where(gap > 0, beyond, 1 - beyond)


def _exp_integral(log_start: Any, length: Any, rate: Any) -> Any:
    """Integrate exp(log_start + rate s) over s from 0 to `length`, without intermediate overflow."""
    grown = rate * length
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(np.abs(grown) < 1e-8, 1.0, -np.expm1(-np.abs(grown)) / np.abs(grown))  # noqa: PLR2004
    return length * mean * np.exp(log_start + np.maximum(grown, 0.0))


_HIDDEN = "the noise hides the variation of at least one variable, and thus the distance correlation R"
_HELP = "use more rows, a larger epsilon or tighter bounds"
UNINFORMATIVE = f"uninformative: {_HIDDEN}; {_HELP}"
_STRENGTH = f"the strength of the association is unknown: {_HIDDEN}; the p-value tests the covariance; {_HELP}"

_NUISANCE_PART = 0.1  # part of a level that goes into the uncertainty of the null distribution
_MIN_LOG_PVALUE = -690.0  # of a p-value: nearly the least that a float can hold
_BINARY = 0.8  # of the product of mean distances is that of the distance deviations, if values are all or nothing
_HIDDEN_SCALES = 2.5  # scales of noise below which one row is not seen
_SHARED = np.arange(80)  # rows that share rare values; where 20 are expected, their number is about normal
SEEN = 4
"""Noise scales that a number must reach to be clearly above 0."""


@dataclass(frozen=True)
class NoisyStatistics:
    """Noisy statistics of a distance correlation, with the scales of their Laplace noise and public facts.

    Attributes
    ----------
    values, scales : tuple of float
        Of q s_xy, q s_x, q s_y, q (m_x - D_x), q (m_y - D_y) and q, the share of complete rows; the last is 1,
        without noise, where all rows count.
    rows : int
        Number of rows n.
    largest : tuple of float
        The largest values that s_x, s_y, m_x and m_y can have; the first two are half the diameters.
    """

    values: tuple[float, ...]
    scales: tuple[float, ...]
    rows: int
    largest: tuple[float, ...]

    @property
    def complete(self) -> float:
        """Noisy share of rows without missing values, bounded below by twice its noise scale and by 4/n."""
        return bounded_share(self.values[5], self.scales[5], self.rows)

    @property
    def _denominator(self) -> float:
        """Root of the product of both noisy distance standard deviations, each at least twice its noise scale."""
        (_, x, y, *_), (_, b_x, b_y, *_) = self.values, self.scales
        return math.sqrt(max(x, 2 * b_x)) * math.sqrt(max(y, 2 * b_y))

    @property
    def _null_square(self) -> float:
        """Expected square, under independence, of distance covariance times the share of complete rows."""
        q = self.complete
        m_x, m_y = (max(self.values[at + 3] + 2 * self.largest[at] * q, 0.0) for at in (0, 1))
        return m_x * m_y / (q * self.rows)

    @property
    def correlation(self) -> float:
        """Estimated distance correlation R of the table, from 0 to 1."""
        return _ratio_up_to_one(max(self.values[0], 0.0), self._denominator)

    @property
    def corrected(self) -> float:
        """Squared distance correlation of the population, corrected for the bias of noise and sampling."""
        return _ratio_up_to_one(max(self._corrected_square - self._null_square, 0.0), self._denominator**2)

    @property
    def _corrected_square(self) -> float:
        """Square of distance covariance times share of complete rows, minus its noise variance; may be below 0."""
        return math.copysign(self.values[0] ** 2, self.values[0]) - 2 * self.scales[0] ** 2

    @property
    def statistic(self) -> float:
        """Number of complete rows times squared distance covariance, divided by the product of mean distances."""
        return max(self._corrected_square, 0.0) / self._null_square if self._null_square > 0 else 0.0

    @property
    def informative(self) -> bool:
        """Whether both noisy distance standard deviations are at least four times their noise scales."""
        return all(self.values[at] >= SEEN * self.scales[at] for at in (1, 2))

    def interval(self, confidence: float) -> ConfidenceInterval:
        """Return a confidence interval for the distance correlation R of the complete rows.

        Parameters
        ----------
        confidence : float
            Its coverage, at least.

        Returns
        -------
        ConfidenceInterval
            Within 0 and 1.
        """
        lost = 1 - as_probability(confidence, "confidence")
        reach = [b * math.log(3 / lost) for b in self.scales[:3]]
        low, high = ([v + sign * q for v, q in zip(self.values[:3], reach, strict=True)] for sign in (-1, 1))
        least = _ratio_up_to_one(max(low[0], 0.0), math.sqrt(max(high[1], 0.0)) * math.sqrt(max(high[2], 0.0)))
        below = math.sqrt(max(low[1], 0.0)) * math.sqrt(max(low[2], 0.0))
        most = _ratio_up_to_one(max(high[0], 0.0), below) if below > 0 else 1.0
        return ConfidenceInterval(min(least, most), most)

    def pvalue(self) -> float:
        """Return the p-value of the test of independence.

        Returns
        -------
        float
            The p-value, noise included: the least level at which `null_tail` rejects.
        """

        def excess(log_level: float) -> float:
            level = math.exp(log_level)
            tail = null_tail(self.values, self.scales, self.rows, self.largest, level)
            return math.log(max(float(tail), 1e-320)) - math.log((1 - _NUISANCE_PART) * level)

        if excess(0.0) >= 0:
            return 1.0
        if excess(_MIN_LOG_PVALUE) <= 0:
            return math.exp(_MIN_LOG_PVALUE)
        return math.exp(scipy.optimize.brentq(excess, _MIN_LOG_PVALUE, 0.0, xtol=1e-6))

    def notes(self, *, rejected: bool) -> tuple[str, ...]:
        """Return notes on excessive noise and on rows with missing values."""
        hidden = _STRENGTH if rejected else UNINFORMATIVE
        notes = [] if self.informative else [hidden]
        return (*notes, *missing_note(self.values[5], self.scales[5]))


def bounded_share(share: float, scale: float, rows: int) -> float:
    """Return the noisy share of complete rows, raised to at least twice its noise scale and at least 4/n."""
    return min(max(share, 2 * scale, 4 / rows), 1.0)


def missing_note(share: float, scale: float) -> tuple[str, ...]:
    """Return a note on rows with missing values, if the noisy share of complete rows is clearly below 1."""
    if not 1 - share > SEEN * scale > 0:
        return ()
    gone = f"{min(1 - share, 1.0):.1%}"
    return (f"about {gone} of the rows are left out: a value is missing or undeclared",)


def null_tail(values: Any, scales: Any, rows: int, largest: Any, level: float) -> NDArray[np.float64]:
    r"""Bound the probability, under independence, of a noisy distance covariance of at least the released one.

    Independence is rejected at a level α where this is at most 0.9 α. A tenth of α is the probability that one of
    the five numbers on which the null distribution depends lies beyond its confidence limit [2]_: so as to be an
    upper bound, M and v are those at the limits.

    Parameters
    ----------
    values, scales : array_like of shape (..., 6)
        As of `NoisyStatistics`.
    rows : int
        Number of rows n.
    largest : array_like of shape (4,)
        As of `NoisyStatistics`.
    level : float
        The level α.

    Returns
    -------
    ndarray of shape (...)
        At most 1.
    """
    values, scales = np.asarray(values, dtype=np.float64), np.asarray(scales, dtype=np.float64)
    room = math.log(6 / (2 * _NUISANCE_PART * level))
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
    spread = np.minimum(deviations[0] * deviations[1] / (np.maximum(least * rows, 2.0) - 1), mean)
    tail = noisy_tail(values[..., 0], scales[..., 0], mean, spread)
    low = values - scales * room
    sides = [np.clip(low[..., at + 3] + 2 * largest[at] * least, 0.0, None) for at in (0, 1)]
    nearly_binary = deviations[0] * deviations[1] >= _BINARY * sides[0] * sides[1]
    lump = 2 * math.sqrt(2 * largest[0] * 2 * largest[1]) / rows  # by which one row can move the first number
    lumps = _rare_values_tail(values, scales, rows, largest, mean, lump)
    return np.where(nearly_binary & (lump > _HIDDEN_SCALES * scales[..., 0]), np.maximum(tail, lumps), tail)


def _rare_values_tail(values: Any, scales: Any, rows: int, largest: Any, mean: Any, unit: float) -> Any:
    """Return a null tail probability of q s_xy, if few rows have the rare values of both columns.

    q is the share of complete rows, and s_xy their distance covariance. The number of rows that have both values is
    a Poisson variable, and each such row moves q s_xy by the most that one row can.
    """
    most = np.minimum(mean / unit**2, 3 * len(_SHARED) / 4)
    sides = [np.clip(values[..., at + 3] + 2 * largest[at] * values[..., 5], 0.0, None) for at in (0, 1)]
    expected = np.minimum(sides[0] * sides[1] / rows / unit**2, most)
    gap = (values[..., :1] - unit * np.abs(_SHARED - expected[..., None])) / scales[..., :1]
    each = np.exp(xlogy(_SHARED, most[..., None]) - most[..., None] - gammaln(_SHARED + 1)) * _laplace_tail(gap)
    return np.where(expected < len(_SHARED) / 4, each.sum(axis=-1), 0.0)


def _ratio_up_to_one(part: float, of: float) -> float:
    """Return the ratio part / of, but at most 1, and 0 if `part` is not positive."""
    if part <= 0:
        return 0.0
    return 1.0 if part >= of else part / of
