"""Reproducible noise for tests; it gives no privacy."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy._privacy import response
from dfprivacy._privacy import samplers as noise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["SeededSampler", "seeded_noise"]


class SeededSampler(noise.FromLaplace):
    """Sampler of noise from a seeded NumPy generator: the noise is known to anyone who knows the seed."""

    name = "NOT PRIVATE: seeded pseudo-random noise for tests"
    private = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def laplace(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Add discrete Laplace noise to values, as the difference of two geometric variables."""
        noise.check_noise_arguments(values, scale)
        return values + self._draw_laplace(values.shape, scale)

    def _draw_laplace(self, shape: tuple[int, ...], scale: float) -> NDArray[np.int64]:
        success = -np.expm1(-1 / scale)
        plus: NDArray[np.int64] = self._generator.geometric(success, size=shape)
        minus: NDArray[np.int64] = self._generator.geometric(success, size=shape)
        return plus - minus

    def gaussian(self, values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
        """Add discrete Gaussian noise to values, by rejection sampling from discrete Laplace noise."""
        noise.check_noise_arguments(values, scale)
        drawn, missing = np.zeros(values.shape, dtype=np.int64), np.ones(values.shape, dtype=np.bool_)
        wide = np.floor(scale) + 1
        while left := int(missing.sum()):
            tried = self._draw_laplace((left,), wide)
            chance = np.exp(-(((np.abs(tried) - scale * (scale / wide)) / scale) ** 2) / 2)
            drawn[missing] = tried
            missing[missing] = self._generator.random(left) >= chance
        return values + drawn

    def arc(self, labels: NDArray[np.int64], arc: response.Arc) -> NDArray[np.int64]:
        """Draw a randomised response for each label, with pseudo-random integers."""
        response.check_labels(labels, arc)
        return arc.sample(labels, self._generator.integers(arc.weight, size=labels.shape))

    def noisy_top_k(self, values: NDArray[np.int64], scale: float, k: int, *, flip: bool) -> list[int]:
        """Draw the positions of the k largest values, after Gumbel or exponential (permute-and-flip) noise."""
        noise.check_noise_arguments(values, scale)
        left = np.arange(values.size)
        chosen: list[int] = []
        draw = self._generator.exponential if flip else self._generator.gumbel
        while len(chosen) < k:
            at = np.argmax(values[left] / scale + draw(size=len(left)))
            chosen.append(int(left[at]))
            left = np.delete(left, at)
        return chosen

    def uniform_below(self, n: int) -> int:
        """Draw an integer from 0 to n - 1 with equal probabilities."""
        return int(self._generator.integers(n))

    def generator(self) -> np.random.Generator:
        """Return the seeded NumPy generator."""
        return self._generator


@contextmanager
def seeded_noise(seed: int) -> Iterator[noise.Sampler]:
    """Draw all noise from a seeded generator inside a ``with`` statement, for tests.

    Parameters
    ----------
    seed : int
        Seed of the generator.

    Yields
    ------
    Sampler
        The sampler that draws the noise, with ``private`` False.

    Warns
    -----
    No release inside is private, whatever its epsilon: anyone who knows the seed knows the noise. Use it on
    synthetic data only.

    Examples
    --------
    >>> zeros = np.zeros(2, dtype=np.int64)
    >>> with seeded_noise(1) as first:
    ...     once = first.laplace(zeros, 100.0)
    >>> with seeded_noise(1) as second:
    ...     again = second.laplace(zeros, 100.0)
    >>> bool((once == again).all()), first.private
    (True, False)
    """
    with noise.use_sampler(SeededSampler(seed)) as sampler:
        yield sampler
