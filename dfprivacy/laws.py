"""Probability laws of the noise in a release: variance, quantiles, and draws for simulations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["REDRAWS", "NoiseLaw"]

REDRAWS = 4096
"""Number of draws of the noise in a release, for combinations of releases."""

_FINE = 2.0**-24  # of the scale: below, a step is no more than the last bits of a draw in float64


@dataclass(frozen=True)
class NoiseLaw:
    r"""Probability law of the noise in one coordinate of a release.

    With :math:`q = e^{-g/b}`, g the step and b the scale, :math:`|x|/g` of Laplace noise is above m with
    probability :math:`2 q^{m+1}/(1+q)`, and the variance is :math:`2 q g^2/(1-q)^2`: about :math:`2b^2 - g^2/6`,
    and far less where the scale is below the step.

    Parameters
    ----------
    scale : float
        b, or σ for Gaussian noise; 0 for no noise.
    step : float
        Noise is on integer multiples of it; 0 for real numbers. Of Gaussian noise and noise of the cube, whose
        scale is many steps, nothing depends on it.
    kind : {"Laplace", "Gaussian", "cube"}
        Laplace noise, Gaussian noise, or a coordinate of noise x in `dimension` dimensions whose density is
        proportional to :math:`e^{-\max|x_i| / b}`.
    dimension : int
        Coordinates of the noise of the cube.

    Examples
    --------
    Counts at ε = 1, on integers and on real ones:

    >>> whole, real = NoiseLaw(1.0, 1.0), NoiseLaw(1.0)
    >>> round(whole.variance, 3), round(real.variance, 3)
    (1.841, 2.0)
    >>> whole.half_width(0.95), round(real.half_width(0.95), 3)
    (3.0, 2.996)
    >>> round(NoiseLaw(2.0, kind="Gaussian").half_width(0.95), 2), NoiseLaw(1.0, kind="cube", dimension=2).variance
    (3.92, 4.0)
    """

    scale: float
    step: float = 0.0
    kind: Literal["Laplace", "Gaussian", "cube"] = "Laplace"
    dimension: int = 1

    @property
    def _relative_step(self) -> float:
        """Grid step of Laplace noise divided by its scale; 0 if it is negligible."""
        ratio = self.step / self.scale if self.scale and self.kind == "Laplace" else 0.0
        return ratio if ratio > _FINE else 0.0

    @property
    def variance(self) -> float:
        """Variance of the noise."""
        if self.kind == "Gaussian":
            return self.scale**2
        if self.kind == "cube":
            return self.scale**2 * (self.dimension + 1) * (self.dimension + 2) / 3
        t = self._relative_step
        return 2 * (self.step * math.exp(-t / 2) / -math.expm1(-t) if t else self.scale) ** 2

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(self.variance)

    def half_width(self, confidence: float) -> float:
        """Return the smallest r such that the noise lies in [-r, r] with at least a given probability.

        Parameters
        ----------
        confidence : float
            A probability, from 0 to below 1.

        Returns
        -------
        float
            r; for noise on a grid, a multiple of the step.
        """
        if not self.scale:
            return 0.0
        log_tail = math.log1p(-confidence)
        if self.kind == "Gaussian":
            return self.scale * NormalDist().inv_cdf((1 + confidence) / 2)
        if self.kind == "cube":
            from scipy.optimize import brentq  # with the cube only: loading it takes longer than an answer
            from scipy.special import gammaincc

            d, tail = self.dimension, 1 - confidence
            above = lambda t: gammaincc(d + 1, t) - t / d * gammaincc(d, t) - tail  # noqa: E731
            return self.scale * float(brentq(above, 0.0, 10.0 * d - 2 * log_tail))
        t = self._relative_step
        # Beyond m steps lies 2 q^(m+1) / (1 + q), which is at most 1 - confidence.
        logs = -log_tail - math.log1p(math.expm1(-t) / 2)
        return max(math.ceil(logs / t * (1 + 1e-12)) - 1, 0) * self.step if t else self.scale * logs

    def drawn(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
        """Draw noise with a NumPy generator, for simulations only: such noise gives no privacy.

        Parameters
        ----------
        rng : Generator
            The NumPy generator.
        size : int or tuple of int
            Shape of the draws.

        Returns
        -------
        ndarray of shape size
            The draws; of the cube, those of one coordinate.
        """
        if self.kind == "Gaussian":
            return rng.normal(0.0, self.scale, size)
        if self.kind == "cube":
            return self.scale * rng.gamma(self.dimension + 1, size=size) * rng.uniform(-1, 1, size)
        if not (t := self._relative_step):
            return rng.laplace(0.0, self.scale, size)
        p = -math.expm1(-t)
        return self.step * (rng.geometric(p, size) - rng.geometric(p, size)).astype(np.float64)
