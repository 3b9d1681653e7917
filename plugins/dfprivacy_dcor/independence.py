r"""Tails of a noisy distance covariance of independent columns.

For m rows of independent columns, :math:`m\,\mathrm{dCov}^2` tends to a quadratic form
:math:`\sum_k \lambda_k Z_k^2` of normal variables [1]_. Its mean is the product of the mean distances, M = m_x m_y,
and its variance twice the square of v = s_x s_y, the product of the distance deviations. Two laws are offered:

``"moments"``
    :math:`M - v + v Z^2`, which has this mean and this variance. All of the variance stands in one squared normal
    variable, so that the tail falls as slowly as it can: :math:`\lambda_1 \le v`. In place of the quadratic form of
    uniform, normal, exponential, t, Poisson and binary data it rejects at .05, .01 and .001 as often as it says, or
    less.
``"chi2"``
    :math:`M Z^2`, an upper bound of every such form up to p = 0.215 [1]_; exact for binary columns.

References
----------
.. [1] Székely, Rizzo and Bakirov (2007). Measuring and testing dependence by correlation of distances. Annals of
   Statistics 35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_ndtr

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["noisy_tail"]

_Z = np.concatenate([np.arange(0.0, 8.0, 0.1), np.arange(8.0, 38.0, 0.5)])
"""Normal quantiles between which the tail of a squared normal variable is taken for log-linear."""
_LOG_TAIL = np.log(2.0) + log_ndtr(-_Z)


def noisy_tail(value: Any, scale: Any, mean: Any, spread: Any) -> NDArray[np.float64]:
    r"""Give the probability that :math:`\sqrt{M - v + v Z^2} + b L` is at least a value.

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
    below = _integral(at_middle - np.abs(t - middle) / b, middle - start, rate - 1 / b)  # backwards from the middle
    above = _integral(at_middle - np.abs(t - middle) / b, end - middle, -rate - 1 / b)
    inside = ((below + above) / (2 * b)).sum(axis=-1)
    gap = (t[..., 0] - u[..., 0]) / b[..., 0]
    first = np.where(gap > 0, np.exp(-np.abs(gap)) / 2, 1 - np.exp(-np.abs(gap)) / 2)
    tail: NDArray[np.float64] = np.minimum(first + inside, 1.0)
    return tail


def _integral(log_start: Any, length: Any, rate: Any) -> Any:
    """Integrate exp(log_start + rate s) over s from 0 to a length, without an overflow on the way."""
    grown = rate * length
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(np.abs(grown) < 1e-8, 1.0, -np.expm1(-np.abs(grown)) / np.abs(grown))  # noqa: PLR2004
    return length * mean * np.exp(log_start + np.maximum(grown, 0.0))
