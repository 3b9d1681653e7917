"""Quasi-random draws of privacy noise: the same arguments give the same draws."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, gammaincinv, log_ndtr, ndtri_exp

from dfprivacy.laws import REDRAWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from dfprivacy.laws import NoiseLaw

    Array = NDArray[np.float64]

__all__ = [
    "DRAWS",
    "cube_noise",
    "discrete_quantile",
    "noise",
    "noise_draws",
    "points",
    "quantile",
    "sums_above",
    "sums_of_two_releases",
]

DRAWS = 1024
_WIDE = 3.0  # every other draw is of noise so many times as wide, and weighted: for far tails
_LOG2 = math.log(2)


@lru_cache(maxsize=32)
def points(dimension: int, draws: int, seed: int = 0) -> Array:
    """Return random points of the unit cube that are evenly spaced in each coordinate (Latin hypercube sampling).

    Parameters
    ----------
    dimension, draws : int
        Number of coordinates, and of points.
    seed : int
        Points of other seeds are independent.

    Returns
    -------
    ndarray of shape (dimension, draws)
        Two Latin hypercubes: of the even points, and of the odd ones.
    """
    rng, half = np.random.default_rng((seed, dimension)), draws // 2
    cubes = np.broadcast_to((np.arange(half) + 0.5) / half, (2, dimension, half))
    return np.moveaxis(rng.permuted(cubes, axis=-1), 0, -1).reshape(dimension, draws)


def noise(laws: Sequence[NoiseLaw], u: Array) -> tuple[Array, Array]:
    """Return draws of noise and their importance weights; every second draw is from a law three times as wide.

    Parameters
    ----------
    laws : sequence of NoiseLaw
        Of d coordinates, Laplace or Gaussian.
    u : ndarray of shape (d, draws)
        Points.

    Returns
    -------
    tuple of ndarray
        The noise, of shape (d, draws), and weights, of sum 1, of shape (draws,).
    """
    wide = np.where(np.arange(u.shape[-1]) % 2, _WIDE, 1.0)
    drawn, own, wider = np.zeros(u.shape), np.zeros(u.shape[-1]), np.zeros(u.shape[-1])
    for place, (law, at) in enumerate(zip(laws, u, strict=True)):
        if law.scale:
            drawn[place] = quantile(law, at) * wide
            own += _log_density(law, drawn[place] / law.scale)
            wider += _log_density(law, drawn[place] / law.scale / _WIDE) - math.log(_WIDE)
    weights = np.exp(own - np.logaddexp(own, wider))
    return drawn, weights / weights.sum()


@lru_cache(maxsize=16)
def cube_noise(drawn: tuple[tuple[int, int], ...]) -> tuple[Array, Array]:
    """Draw k coordinates of d-dimensional noise with density ∝ exp(-max|x|), for pairs (d, k); return weights too.

    Every other draw is of wider cubes, for far tails.

    Parameters
    ----------
    drawn : tuple of tuple of int
        The pairs, each of an independent measurement.

    Returns
    -------
    tuple of ndarray
        The noise, of shape (draws, sum of k), and weights, of sum 1, of shape (draws,).
    """
    total = sum(k for _, k in drawn)
    u = iter(points(total + len(drawn), DRAWS))
    wider = 1 + 2 / math.sqrt(total)
    parts, logs = [], np.zeros(DRAWS)
    for d, k in drawn:
        radius = gammaincinv(d + 1, next(u)) * np.where(np.arange(DRAWS) % 2, wider, 1.0)
        parts += [radius * (2 * next(u) - 1) for _ in range(k)]
        logs += radius * (1 - 1 / wider) - (d + 1) * math.log(wider)
    weights = expit(-logs)
    return np.stack(parts, axis=-1), weights / weights.sum()


def noise_draws(law: NoiseLaw, scales: ArrayLike, identity: str, draws: int = REDRAWS) -> Array:
    """Return draws of a measurement's noise that depend only on its law, its scales and its identity.

    Parameters
    ----------
    law : NoiseLaw
        Laplace, Gaussian, or of the cube: its radius is that of a Gamma variable, and each coordinate is uniform
        within it.
    scales : array_like of shape (...)
        Scale in each coordinate.
    identity : str
        Unique name of the measurement (`NoisyValue.id`).
    draws : int
        How many.

    Returns
    -------
    ndarray of shape (..., draws)
        The noise, evenly spread in each coordinate.
    """
    scales = np.asarray(scales, dtype=np.float64)
    u = _permuted_points(identity, scales.size, draws)
    if law.kind == "cube":  # of which parts of a measurement share the radius
        radius = _permuted_points(re.split("[.@]", identity)[0] + " radius", 1, draws)
        noise = gammaincinv(law.dimension + 1, radius) * (2 * u - 1)
    elif law.kind == "Laplace" and law.step:
        noise = discrete_quantile(replace(law, scale=1.0, step=law.step / law.scale), u)
    else:
        noise = _quantile_of_log_probability(law, np.log(u))
    return np.asarray(scales[..., None] * np.reshape(noise, (*scales.shape, draws)))


def _permuted_points(identity: str, dimension: int, draws: int) -> Array:
    """Return evenly spread points, permuted in each coordinate by a seed from the measurement's name.

    Of a part of a measurement those of its coordinates there.
    """
    if part := re.fullmatch(r"([^@ ]+)@([0-9,]+)", identity):
        places = list(map(int, part[2].split(",")))[:dimension]
        return _permuted_points(part[1], max(places) + 1, draws)[places]
    rng = np.random.default_rng(int.from_bytes(blake2b(identity.encode(), digest_size=8).digest(), "big"))
    return rng.permuted(np.broadcast_to((np.arange(draws) + 0.5) / draws, (dimension, draws)), axis=-1)


def quantile(law: NoiseLaw, u: ArrayLike) -> Array:
    """Return quantiles of continuous Laplace or Gaussian noise.

    Parameters
    ----------
    law : NoiseLaw
        The law.
    u : array_like
        Probabilities, above 0 and below 1.

    Returns
    -------
    ndarray
        The quantiles.
    """
    return law.scale * _quantile_of_log_probability(law, np.log(u))


def discrete_quantile(law: NoiseLaw, u: Array) -> Array:
    """Return quantiles of discrete Laplace noise, whose values are multiples of the law's grid step.

    Parameters
    ----------
    law : NoiseLaw
        The law, with a step.
    u : ndarray
        Probabilities, above 0 and below 1.

    Returns
    -------
    ndarray
        The quantiles.
    """
    g = law.step / law.scale
    above = np.log(np.minimum(u, 1 - u) * (1 + math.exp(-g)))
    return law.step * np.sign(u - 1 / 2) * np.maximum(np.ceil(-above / g - 1), 0)


def sums_above(law: NoiseLaw, released: Array, floor: Array, u: Array) -> Array:
    """Return quantiles of an exact sum, given its noisy release and a lower bound of the sum.

    Parameters
    ----------
    law : NoiseLaw
        Of the noise, Laplace or Gaussian.
    released, floor : ndarray
        The noisy sum, and what the exact one is above.
    u : ndarray
        Probabilities: 1 gives the floor.

    Returns
    -------
    ndarray
        Quantiles of the released sum less the noise, truncated: of a sum released far below the floor, what is
        above it is exponential for Laplace noise.
    """
    if not law.scale:
        return np.maximum(released, floor) + 0.0 * u
    room = (released - floor) / law.scale
    return floor + law.scale * np.maximum(
        room - _quantile_of_log_probability(law, np.log(u) + _log_cdf(law, room)), 0.0
    )


def sums_of_two_releases(
    released: tuple[Array, Array], laws: tuple[NoiseLaw, NoiseLaw], floor: Array, u: Array
) -> Array:
    """Return quantiles of an exact sum, given two noisy releases of it and a lower bound of the sum.

    Parameters
    ----------
    released : tuple of two ndarray
        The noisy sums.
    laws : tuple of two NoiseLaw
        Of the noise in each, both Laplace or both Gaussian.
    floor, u : ndarray
        As in `sums_above`.

    Returns
    -------
    ndarray
        Quantiles of the product of both laws, truncated. That of Laplace noise is exponential above both sums,
        below both, and between them.
    """
    (a, c), (first, second) = released, laws
    if not (first.scale and second.scale):
        return (a if not first.scale else c) + 0.0 * u
    one, two = 1 / first.scale, 1 / second.scale
    if first.kind == "Gaussian":
        precision = one**2 + two**2
        both = replace(first, scale=precision**-0.5)
        return sums_above(both, (a * one**2 + c * two**2) / precision, floor, u)
    low, high, rate = np.minimum(a, c), np.maximum(a, c), one + two
    slope = np.where(a < c, two - one, one - two)  # of the log density between the two
    slope = np.where(slope == 0, 1e-12 * rate, slope)
    inside = np.minimum(floor, high)
    above = 1 / rate  # all masses in units of the density at the higher of the two
    at_low, between = np.exp(slope * (low - high)), -np.expm1(slope * (low - high)) / slope
    of_floor = np.where(
        inside < low,
        above + between - at_low * np.expm1(rate * (np.minimum(inside, low) - low)) / rate,
        above - np.expm1(slope * (np.maximum(inside, low) - high)) / slope,
    )
    mass = u * of_floor
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # of branches that are not taken
        return np.select(
            [mass <= above, mass <= above + between],
            [
                np.maximum(floor, high) - np.log(mass * rate) / rate,
                high + np.log1p(-slope * (mass - above)) / slope,
            ],
            low + np.log1p(-(mass - above - between) * rate / at_low) / rate,
        )


def _log_density(law: NoiseLaw, x: Array) -> Array:
    """Return the log density of Laplace or Gaussian noise of scale 1 at x, up to a constant."""
    return -np.square(x) / 2 if law.kind == "Gaussian" else -np.abs(x)


def _log_cdf(law: NoiseLaw, x: Array) -> Array:
    if law.kind == "Gaussian":
        return np.asarray(log_ndtr(x))
    return np.where(x < 0, np.minimum(x, 0) - _LOG2, np.log1p(-np.exp(-np.maximum(x, 0)) / 2))


def _quantile_of_log_probability(law: NoiseLaw, log_p: Array) -> Array:
    if law.kind == "Gaussian":
        return np.asarray(ndtri_exp(log_p))
    rest = -np.expm1(np.minimum(log_p, -1e-17))
    return np.where(log_p < -_LOG2, log_p + _LOG2, -np.log(2 * rest))
