"""Parameters that the tests estimate: a mean, or the difference of two means, with its sampling variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfprivacy.inference.engine import Inference
from dfprivacy.inference.groups import difference, mean
from dfprivacy.inference.moments import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.inference.engine import Parameter
    from dfprivacy.inference.moments import NoisyMoments

    Array = NDArray[np.float64]

__all__ = ["Method", "Queries", "classical_inference", "mean_parameter"]

Method = Literal["conv", "naive"]
Queries = Literal["jointly", "separately"]


def mean_parameter(groups: int, *, sigma: float | None = None, equal_var: bool = False) -> Parameter:
    """Return a function of moments: the mean or difference of means, its variance and degrees of freedom.

    Parameters
    ----------
    groups : {1, 2}
        How many groups: a mean, or the first mean minus the second.
    sigma : float, optional
        The standard deviation of one group, where it is known.
    equal_var : bool
        Pool the variances of two groups.

    Returns
    -------
    callable
        As `~dfprivacy.inference.engine.infer` takes it.
    """
    if groups == 1:
        if sigma is None:
            return lambda sums: mean(sums[0])
        return lambda sums: (sums[0].mean, sigma**2 / sums[0].n, np.inf)
    return _pooled_difference if equal_var else lambda sums: difference(sums[0], sums[1])


def _pooled_difference(sums: Moments) -> tuple[Array, Array, Array]:
    first, second = sums[0], sums[1]
    df = first.n + second.n - 2
    pooled = ((first.n - 1) * first.variance + (second.n - 1) * second.variance) / df
    return first.mean - second.mean, pooled * (1 / first.n + 1 / second.n), df


@dataclass(frozen=True)
class _UnconstrainedMoments(Moments):
    """Moments without constraints: a mean may lie outside the bounds, and a negative variance becomes NaN."""

    @property
    def mean(self) -> Array:
        return self.mid + self.half * self.total / self.n

    @property
    def variance(self) -> Array:
        raw = (self.squares - self.total**2 / self.n) / (self.n - 1)
        return self.half**2 * np.where(raw > 0, raw, np.nan)


def classical_inference(sums: NoisyMoments, parameter: Parameter) -> Inference:
    """Infer a parameter as the classical test does, which treats the noisy sums as exact.

    Parameters
    ----------
    sums : NoisyMoments
        The release.
    parameter : callable
        What is tested.

    Returns
    -------
    Inference
        Of one draw, the release itself.
    """
    theta, variance, df = np.broadcast_arrays(*parameter(_UnconstrainedMoments(**vars(sums.estimate))))
    return Inference(theta[..., 0], theta, variance, df, np.ones(1))
