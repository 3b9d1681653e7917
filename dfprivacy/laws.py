"""The law of Laplace noise on a grid: how far it moves a number, and how often."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DiscreteLaplace"]

_FINE = 2.0**-24  # of the scale: below, a step is no more than the last bits of a draw in float64


@dataclass(frozen=True)
class DiscreteLaplace:
    r"""Noise on whole multiples x of a step, of probability proportional to :math:`e^{-|x|/b}`.

    With :math:`q = e^{-g/b}`, g the step and b the scale, :math:`|x|/g` is above m with probability
    :math:`2 q^{m+1}/(1+q)`, and the variance is :math:`2 q g^2/(1-q)^2`: about :math:`2b^2 - g^2/6`, and far less
    where the scale is below the step. Where the step is a small part of the scale it is Laplace noise.

    Parameters
    ----------
    scale : float
        b, 0 for no noise.
    step : float
        g, 0 for Laplace noise on real numbers.

    Examples
    --------
    Counts at ε = 1, on whole numbers and on real ones:

    >>> whole, real = DiscreteLaplace(1.0, 1.0), DiscreteLaplace(1.0)
    >>> round(whole.variance, 3), round(real.variance, 3)
    (1.841, 2.0)
    >>> whole.reach(0.95), round(real.reach(0.95), 3)
    (3.0, 2.996)
    """

    scale: float
    step: float = 0.0

    @property
    def _ratio(self) -> float:
        return self.step / self.scale if self.scale else 0.0

    @property
    def standard_deviation(self) -> float:
        """Its standard deviation."""
        t = self._ratio
        return math.sqrt(2) * (self.step * math.exp(-t / 2) / -math.expm1(-t) if t else self.scale)

    @property
    def variance(self) -> float:
        """Its variance."""
        return self.standard_deviation**2

    def reach(self, confidence: float) -> float:
        """Return the least r so that the noise is at most r, on either side, with at least that probability.

        Parameters
        ----------
        confidence : float
            A probability, from 0 to below 1.

        Returns
        -------
        float
            r, a whole multiple of the step.
        """
        t = self._ratio
        # Beyond m steps lies 2 q^(m+1) / (1 + q), which is at most 1 - confidence.
        logs = -math.log1p(-confidence) - math.log1p(math.expm1(-t) / 2)
        if not t:
            return self.scale * logs
        return max(math.ceil(logs / t * (1 + 1e-12)) - 1, 0) * self.step

    def drawn(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Draw the noise with a generator, for a simulation: it protects nobody.

        Parameters
        ----------
        rng : Generator
            What draws.
        size : int or tuple of int
            How many.

        Returns
        -------
        ndarray of shape size
            The draws.
        """
        if self._ratio < _FINE:
            return rng.laplace(0.0, self.scale, size)
        p = -math.expm1(-self._ratio)
        return self.step * (rng.geometric(p, size) - rng.geometric(p, size)).astype(np.float64)
