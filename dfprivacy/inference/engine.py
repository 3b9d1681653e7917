"""Inference from noisy sums: an estimate, its standard error, confidence intervals and p-values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from scipy.special import ndtr, ndtri, stdtr

from dfprivacy.inference.draws import DRAWS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = ["Alternative", "Inference", "Parameter", "infer"]

Alternative = Literal["two-sided", "less", "greater"]
Parameter: TypeAlias = Callable[[Any], "tuple[Array, Array, Array | float]"]
"""Returns, of exact sums with draws along the last axis, the parameter, the variance of its estimate from sampling
(0 for the value of the table itself), and its degrees of freedom."""

_HIDDEN = 4.0
_MANY = 300  # degrees of freedom from which on Wallace's transformation errs by less than 2e-7, as tested
_NORMAL = 1e15  # of which Student's distribution is the normal one
_DOUBLED, _STEPS, _NEAR = 1000, 100, 1e-9


class NoisySums(Protocol):
    """Interface of noisy sums from which `infer` draws possible exact sums."""

    @property
    def estimate(self) -> Any:
        """Point estimates of the exact sums, from the noisy ones."""

    def draws(self, draws: int = DRAWS) -> tuple[Any, Array]:
        """Draw possible exact sums, given the noisy sums; return them with the weights of the draws."""


def root_of_increasing(probability: Callable[[Array], Array], q: Array, start: Array, reach: Array) -> Array:
    """Return the x at which an increasing probability is q, by the Illinois method (Dowell and Jarratt 1971).

    The normal quantile of a confidence is nearly a line in x, so few steps do.

    Parameters
    ----------
    probability : callable
        The probability at each x.
    q : ndarray
        The probabilities to reach.
    start, reach : ndarray
        The root is sought within start ± reach first, and farther and farther on the side on which it is not.
    """

    def normal(p: Array) -> Array:
        return np.asarray(ndtri(np.clip(p, 1e-300, 1 - 1e-16)))

    def beyond(x: Array) -> Array:
        return np.asarray(normal(probability(x)) - normal(q))

    low, high = start - reach, start + reach
    below, above = beyond(low), beyond(high)
    for _ in range(_DOUBLED):
        missed = below > 0, above < 0
        if not np.any(missed):
            break
        reach = 2 * reach
        low, high = np.where(missed[0], low - reach, low), np.where(missed[1], high + reach, high)
        below, above = beyond(low), beyond(high)
    for _ in range(_STEPS):
        x = high - above * (high - low) / np.where(above == below, 1.0, above - below)
        at = beyond(x)
        crossed = at * above <= 0
        low, below = np.where(crossed, high, low), np.where(crossed, above, below / 2)
        high, above = x, at
        if np.all((np.abs(at) <= _NEAR) | (np.abs(high - low) <= _NEAR * reach)):
            break
    return np.asarray(high)


@dataclass(frozen=True)
class Inference:
    r"""Estimate of a parameter θ from noisy sums, with its confidence distribution.

    Its confidence distribution is :math:`C(x) = \sum_i w_i T_{\nu_i}((x - \theta_i)/\sqrt{V_i})`: the average, over
    draws of what the exact sums may be, of the distribution function of Student's t.

    Attributes
    ----------
    estimate : ndarray of shape (...)
        The parameter of the sums as released.
    theta, variance, df : ndarray of shape (..., draws)
        Of each draw the parameter, its variance from sampling and the degrees of freedom of that.
    weights : ndarray of shape (draws,)
        Of sum 1.
    """

    estimate: Array
    theta: Array
    variance: Array
    df: Array
    weights: Array

    @cached_property
    def noise_standard_error(self) -> Array:
        """Standard error from the privacy noise alone."""
        finite = np.isfinite(self.theta)
        theta, weights = np.where(finite, self.theta, 0.0), np.where(finite, self.weights, 0.0)
        weights = weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300)
        middle = (weights * theta).sum(axis=-1, keepdims=True)
        away = theta - middle
        reach = np.maximum(np.abs(away).max(axis=-1), 1e-300)  # of which no square is too large for a float
        return np.asarray(reach * np.sqrt((weights * (away / reach[..., None]) ** 2).sum(axis=-1)))

    @cached_property
    def sampling_standard_error(self) -> Array:
        """Standard error from the sampling of rows."""
        return np.asarray(np.sqrt((self.weights * self.variance).sum(axis=-1)))

    @property
    def standard_error(self) -> Array:
        """Standard error, from sampling and noise together."""
        return np.hypot(self.noise_standard_error, self.sampling_standard_error)

    @property
    def degrees_of_freedom(self) -> Array:
        """Harmonic mean, over the draws, of the degrees of freedom of the sampling variance."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.divide(1, (self.weights / self.df).sum(axis=-1)))

    @property
    def unclear_variance(self) -> NDArray[np.bool_]:
        """Whether the sampling variance is less than two standard deviations of its noise above 0."""
        mean = (self.weights * self.variance).sum(axis=-1, keepdims=True)
        relative = self.variance / np.maximum(mean, 1e-300)
        return np.asarray((self.weights * relative**2).sum(axis=-1) - 1 > 1 / _HIDDEN)

    @cached_property
    def _sampling_errors(self) -> Array:
        return np.sqrt(self.variance)

    def cdf(self, x: ArrayLike) -> Array:
        """Return the confidence distribution at x: the confidence that the parameter is below x.

        Student's t of many degrees of freedom becomes a normal variable [1]_, in a tenth of the time.

        References
        ----------
        .. [1] Wallace (1959). Bounds on normal approximations to Student's and the chi-square distributions. Annals
           of Mathematical Statistics 30.
        """
        distance = np.asarray(x, dtype=np.float64)[..., None] - self.theta
        df = np.fmin(self.df, _NORMAL)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            at_once = np.where(distance >= 0, np.inf, -np.inf)
            t = np.where(self._sampling_errors == 0, at_once, distance / self._sampling_errors)
            below = ndtr(np.copysign(np.sqrt(df * np.log1p(t**2 / df)) * (8 * df + 1) / (8 * df + 3), t))
            stdtr(df, t, out=below, where=df < _MANY)
        return np.asarray((below * self.weights).sum(axis=-1))

    def pvalue(self, null: ArrayLike = 0.0, alternative: Alternative = "two-sided") -> Array:
        """Return the p-value of the hypothesis that the parameter is `null`, against an alternative.

        Parameters
        ----------
        null : array_like
            The value under the null hypothesis.
        alternative : {"two-sided", "less", "greater"}
            Side on which the truth is suspected.

        Returns
        -------
        ndarray
            The p-values.
        """
        below = np.clip(self.cdf(null), 0.0, 1.0)
        if alternative == "greater":
            return below
        return 1 - below if alternative == "less" else np.minimum(2 * np.minimum(below, 1 - below), 1.0)

    def quantile(self, q: ArrayLike) -> Array:
        """Return the quantile of the confidence distribution at probability q.

        Parameters
        ----------
        q : array_like
            Probabilities, of a shape that broadcasts with that of the estimates.

        Returns
        -------
        ndarray
            The quantiles; infinite where the draws in which the parameter is not finite leave it open.
        """
        q, estimate = np.broadcast_arrays(q, self.estimate)
        if not self.variance.any():  # a step at each draw
            return self._quantile_of_draws(q)
        below, beyond = (((self.theta == end) * self.weights).sum(axis=-1) for end in (-np.inf, np.inf))
        inside = (below < q) & (q < 1 - beyond)
        reach = 3 * np.maximum(self.standard_error, 1e-300)
        found = root_of_increasing(self.cdf, np.where(inside, q, (below + 1 - beyond) / 2), estimate, reach)
        return np.where(inside, found, np.where(q <= below, -np.inf, np.inf))

    def _quantile_of_draws(self, q: Array) -> Array:
        order = np.argsort(self.theta, axis=-1)
        theta, up_to = np.take_along_axis(self.theta, order, axis=-1), np.cumsum(self.weights[order], axis=-1)
        at = (up_to < q[..., None]).sum(axis=-1, keepdims=True)
        theta = np.broadcast_to(theta, (*q.shape, theta.shape[-1]))
        return np.asarray(np.take_along_axis(theta, np.minimum(at, theta.shape[-1] - 1), axis=-1)[..., 0])

    def interval(self, confidence: float = 0.95, alternative: Alternative = "two-sided") -> tuple[Array, Array]:
        """Return a confidence interval: the values that a test at its level does not reject.

        Parameters
        ----------
        confidence : float
            Coverage.
        alternative : {"two-sided", "less", "greater"}
            One-sided intervals are infinite on one side.

        Returns
        -------
        tuple of ndarray
            Lower and upper ends.
        """
        outside = 1 - confidence
        if alternative == "two-sided":
            low, high = self.quantile(np.reshape([outside / 2, 1 - outside / 2], (2, *[1] * self.estimate.ndim)))
            return low, high
        far = np.full(self.estimate.shape, np.inf)
        return (self.quantile(outside), far) if alternative == "greater" else (-far, self.quantile(1 - outside))


def infer(sums: NoisySums, parameter: Parameter, draws: int = DRAWS) -> Inference:
    """Estimate a parameter from noisy sums, with the error from privacy noise and from sampling.

    Parameters
    ----------
    sums : NoisySums
        The released sums.
    parameter : callable
        Gives of exact sums the parameter, the variance of its estimate from sampling, and its degrees of freedom.
    draws : int
        Number of draws of the exact sums.

    Returns
    -------
    Inference
        Of arrays of the shape that the parameter has. Draws in which it is not finite may be anywhere: half of them
        count at either end.
    """
    exact, weights = sums.draws(draws)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        theta, variance, df = np.broadcast_arrays(*parameter(exact))
        estimate = np.asarray(parameter(sums.estimate)[0])[..., 0]
    known = np.isfinite(theta) & np.isfinite(variance)
    anywhere = np.where(np.arange(theta.shape[-1]) % 4 < 2, np.inf, -np.inf)  # noqa: PLR2004 - of both widths half
    return Inference(
        estimate=estimate,
        theta=np.where(known, theta, anywhere),
        variance=np.where(known, variance, 0.0),
        df=df,
        weights=weights,
    )
