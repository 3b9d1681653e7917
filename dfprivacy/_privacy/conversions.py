"""Conversions between privacy parameters, in floats that are rounded to the safe side.

Standard library only. A number that limits what may be spent is rounded down, a number that is charged is
rounded up, by more than the floating-point error of its formula. Symbols are the papers': `mu` of Gaussian
DP, `rho` of zero-concentrated DP, `(alpha, R)` of Rényi DP.

References
----------
.. [1] Balle and Wang (2018). Improving the Gaussian mechanism for differential privacy. arXiv:1805.06530.
.. [2] Dong, Roth and Su (2022). Gaussian differential privacy. arXiv:1905.02383.
.. [3] Canonne, Kamath and Steinke (2020). The discrete Gaussian for differential privacy. arXiv:2004.00010.
.. [4] Mironov (2017). Rényi differential privacy. arXiv:1702.07476.
.. [5] Harrison and Manurangsi (2026). Concentrated privacy of the Laplace mechanism. arXiv:2510.25746.
.. [6] Balle, Barthe and Gaboardi (2018). Privacy amplification by subsampling: tight analyses via couplings and
   divergences. NeurIPS.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import erfc, exp, inf, log, log1p, nextafter, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "EPSILON_MAX",
    "SCALE_MIN",
    "SMALLEST",
    "best_renyi_order",
    "delta_gauss",
    "epsilon_on_sample",
    "float_above",
    "float_below",
    "gaussian_delta",
    "gaussian_unit_scale",
    "laplace_mu",
    "laplace_renyi",
    "log_delta_zcdp",
    "mu_budget",
    "pure_mu",
    "pure_renyi",
    "renyi_budget",
    "rho_budget",
    "rounding_delta",
]

EPSILON_MAX = 500  # exp(epsilon) and its products stay far from overflow
SMALLEST = Fraction(1, 10**100)  # of an epsilon or a delta: smaller ones would meet underflow
SCALE_MIN = 4  # grid steps: the bounds on what discrete noise loses against continuous noise hold from here

_UP = 1 + 1e-12
_DOWN = 1 - 1e-12
_ROUNDING = 2.0**-50  # eight times the unit roundoff: no formula below has more steps than that
_UNDERFLOW = 2.0**-1070  # some of the smallest floats
_SQRT2 = sqrt(2.0)
_NORMAL = NormalDist()
_DIGITS = 80
_PLACES = Decimal(1).scaleb(-24)  # what is left of the result
_ERROR = Decimal(1).scaleb(-60)  # far above what rounding does to a number below 2e6


def float_below(x: Fraction) -> float:
    """Return the largest float that is at most `x`."""
    nearest = float(x)
    return nearest if Fraction(nearest) <= x else nextafter(nearest, -inf)


def float_above(x: Fraction) -> float:
    """Return the smallest float that is at least `x`."""
    return -float_below(-x)


def _bisect(holds: Callable[[float], bool], low: float, high: float, *, ratio: bool = False) -> tuple[float, float]:
    """Return two neighbouring floats between which the condition `holds` turns false, by bisection."""
    while low < (middle := sqrt(low * high) if ratio else (low + high) / 2) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


# ---------------------------------------------------------------------------------------------------------
# Gaussian DP
# ---------------------------------------------------------------------------------------------------------


def delta_gauss(epsilon: float, mu: float) -> float:
    r"""Return the delta at `epsilon` of a `mu`-Gaussian-DP mechanism, rounded up.

    Notes
    -----
    .. math:: \delta = \Phi(-\varepsilon/\mu + \mu/2) - e^\varepsilon\,\Phi(-\varepsilon/\mu - \mu/2)

    [1]_. The two terms nearly cancel. A rounding error of their arguments moves either by a relative
    :math:`(1 + b)^2` roundings at most, with :math:`b = \varepsilon/\mu + \mu/2`; each term is moved by that
    much to its safe side. At epsilon 1 and delta 1e-6 this costs a relative 2e-12. Below 1e-308 an error is no
    longer relative, and :math:`e^\varepsilon` may make much of it: `_UNDERFLOW` is more than it.
    """
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    slack = _ROUNDING * (1 + b) ** 2
    first = erfc(a / _SQRT2) * (1 + slack) + _UNDERFLOW
    return 0.5 * (first - exp(epsilon) * (erfc(b / _SQRT2) * (1 - slack) - _UNDERFLOW))


@lru_cache(maxsize=256)
def mu_budget(epsilon: float, delta: float) -> float:
    """Return the largest `mu` (rounded down) whose `mu`-Gaussian DP implies (`epsilon`, `delta`)-DP."""
    low = epsilon / 40  # delta_gauss is below `SMALLEST` there
    high = 2 * low
    while delta_gauss(epsilon, high) <= delta:
        low, high = high, 2 * high
    return _bisect(lambda mu: delta_gauss(epsilon, mu) <= delta, low, high, ratio=True)[0]


def gaussian_unit_scale(epsilon: float, delta: float) -> float:
    """Return the least standard deviation of Gaussian noise that is (epsilon, delta)-DP at L2 sensitivity 1."""
    return nextafter(1 / mu_budget(epsilon, delta), inf)


# ---------------------------------------------------------------------------------------------------------
# Concentrated and Rényi DP
# ---------------------------------------------------------------------------------------------------------


def _best_order(rho: float, epsilon: float) -> float:
    """Return the Rényi order at which `rho`-zCDP implies the smallest delta at `epsilon`."""
    most = max(4.0, (epsilon + 1) / rho + 10)
    return _bisect(lambda a: (2 * a - 1) * rho - epsilon + log1p(-1 / a) <= 0, 1 + 1e-12, most)[1]


def log_delta_zcdp(rho: float, epsilon: float) -> float:
    """Return the log of the delta at `epsilon` of a `rho`-zCDP mechanism [3]_."""
    a = _best_order(rho, epsilon)
    return (a - 1) * (a * rho - epsilon) - log(a - 1) + a * log1p(-1 / a)


@lru_cache(maxsize=256)
def rho_budget(epsilon: float, delta: float) -> float:
    """Return the largest `rho` (rounded down) whose `rho`-zCDP implies (`epsilon`, `delta`)-DP."""
    return _bisect(lambda rho: log_delta_zcdp(rho, epsilon) + 1e-10 <= log(delta), 0.0, epsilon + 1)[0]


@lru_cache(maxsize=256)
def best_renyi_order(epsilon: float, delta: float) -> float:
    """Return the Rényi order that is best for Gaussian noise at (`epsilon`, `delta`): its bound equals zCDP's."""
    return _best_order(rho_budget(epsilon, delta), epsilon)


def renyi_budget(epsilon: float, delta: float, alpha: float) -> float:
    """Return the largest `R` (rounded down) whose (`alpha`, `R`)-Rényi DP implies (`epsilon`, `delta`)-DP [3]_."""
    return (epsilon + (log(delta) + log(alpha - 1) - alpha * log1p(-1 / alpha)) / (alpha - 1)) * _DOWN


# ---------------------------------------------------------------------------------------------------------
# What Laplace noise, and what any pure mechanism, costs in the other currencies
# ---------------------------------------------------------------------------------------------------------


def _mu_of_tail(lower_tail: float) -> float:
    """Return -2 times the normal quantile of the probability `lower_tail`, rounded up; infinity below 1e-300."""
    return -2 * _NORMAL.inv_cdf(lower_tail * (1 - _ROUNDING)) * _UP if lower_tail > 1e-300 else inf  # noqa: PLR2004 - above underflow


def laplace_mu(epsilon: float) -> float:
    """Return the `mu` of continuous Laplace noise of scale 1/`epsilon` for sensitivity 1; it is below `pure_mu`."""
    return _mu_of_tail(exp(-epsilon / 2) / 2)


def pure_mu(epsilon: float) -> float:
    """Return the smallest `mu` (rounded up) for which every `epsilon`-DP mechanism is `mu`-Gaussian DP."""
    return _mu_of_tail(exp(-epsilon) / (1 + exp(-epsilon)))


def _scaled_renyi_divergence(epsilon: float, alpha: float, log_factor: float) -> float:
    """Return ``epsilon + log_factor / (alpha - 1)``, or ``alpha * epsilon**2 / 2`` if less, rounded up.

    The sum cancels when epsilon is small; there the quadratic bound for every pure mechanism takes over.
    """
    x = (alpha - 1) * epsilon
    least = min((x + log_factor + _ROUNDING * (1 + x)) / (alpha - 1), alpha * epsilon * epsilon / 2)
    return nextafter(least * _UP, inf)  # above 0 where the square is no float


def laplace_renyi(epsilon: float, alpha: float) -> float:
    """Return the Rényi divergence of order `alpha` of continuous Laplace noise of scale 1/`epsilon` [4]_."""
    a = alpha
    return _scaled_renyi_divergence(epsilon, a, log((a + (a - 1) * exp(-(2 * a - 1) * epsilon)) / (2 * a - 1)))


def pure_renyi(epsilon: float, alpha: float) -> float:
    """Return the largest Rényi divergence of order `alpha` of any `epsilon`-DP mechanism."""
    return _scaled_renyi_divergence(epsilon, alpha, log1p(exp(-(2 * alpha - 1) * epsilon)) - log1p(exp(-epsilon)))


# ---------------------------------------------------------------------------------------------------------
# Noise on the integer grid
# ---------------------------------------------------------------------------------------------------------


def rounding_delta(dimension: int, scale: float, epsilon: Fraction) -> Fraction:
    r"""Return an upper bound on how much larger delta is for discrete Gaussian noise than for continuous noise.

    Notes
    -----
    Rounding commutes with integer shifts, so rounded continuous noise of variance :math:`\sigma^2 - 1/11` is
    a post-processing of the Gaussian mechanism. The discrete Gaussian of scale :math:`\sigma \ge 4` is within
    total variation :math:`1/(200 \sigma^4)` of it in each coordinate, and a total variation t adds
    :math:`(1 + e^\varepsilon) t` to delta.
    """
    growth = Fraction((1 + exp(float_above(epsilon))) * _UP)
    return growth * dimension / (200 * Fraction(scale) ** 4)


def gaussian_delta(squared_sensitivity: int, scale: float, dimension: int, epsilon: Fraction) -> Fraction:
    """Return the delta at `epsilon` of discrete Gaussian noise, rounded up.

    Parameters
    ----------
    squared_sensitivity : int
        Squared L2 sensitivity, in squared grid steps.
    scale : float
        Parameter sigma of the discrete Gaussian, in grid steps, at least 4.
    dimension : int
        Number of coordinates.
    epsilon : Fraction
        Where on the privacy curve, at most 500.
    """
    variance = Fraction(scale) ** 2 - Fraction(1, 11)
    mu = nextafter(sqrt(float_above(squared_sensitivity / variance)), inf)
    return Fraction(delta_gauss(float_below(epsilon), mu)) + rounding_delta(dimension, scale, epsilon)


# ---------------------------------------------------------------------------------------------------------
# Samples
# ---------------------------------------------------------------------------------------------------------


def epsilon_on_sample(epsilon: Fraction, share: Fraction) -> Fraction:
    r"""Return the largest epsilon of a release from a secret sample for which the table is charged `epsilon`.

    Parameters
    ----------
    epsilon : Fraction
        What the table pays, from 0 to 10⁶.
    share : Fraction
        The probability q that a sample holds any one person, above 0 and at most 1.

    Returns
    -------
    Fraction
        The solution of log(1 + q (exp(·) - 1)) = epsilon, rounded down to 24 decimals.

    Notes
    -----
    A mechanism that is (e, d)-private is :math:`(\log(1 + q (\exp e - 1)), q d)`-private on a secret sample [6]_;
    docs/explanation/sampling.md has the proof.

    Examples
    --------
    >>> float(epsilon_on_sample(Fraction(1), Fraction(1, 10)))
    2.90047...
    """
    context = Context(prec=_DIGITS, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
    price = context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    more = context.subtract(context.exp(price), Decimal(1))
    many = context.divide(context.multiply(more, Decimal(share.denominator)), Decimal(share.numerator))
    within = context.subtract(context.ln(context.add(Decimal(1), many)), _ERROR)
    return max(Fraction(0), Fraction(within.quantize(_PLACES, context=context)))
