"""What is released about one group of rows, in units of the scaled data y = (x - mid)/h in [-1, 1]."""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LEAST", "SIZE", "Array", "Group", "Real", "plain", "side_by_side", "truncated"]

Array: TypeAlias = NDArray[np.float64]
Real: TypeAlias = float | Array

LEAST = 1e-9
"""A variance for data that are constant."""

SIZE_FLOOR = 5.0
SIZE = 2  # the place of the size among the numbers of a group
_DOUBTFUL = 5.0  # standard deviations: a noisy size should be as large as that to divide by


@dataclasses.dataclass(frozen=True)
class Group:
    """The noisy sums of one group, and the scales of the independent Laplace variables in them.

    Parameters
    ----------
    total : float or ndarray
        S₁, the noisy sum of y.
    squares : float or ndarray
        S₂, the noisy sum of y².
    size : float or ndarray
        The number of rows: n if it is public, else its noisy value n~.
    scale_total : float
        Scale of the noise of S₁.
    scale_squares : float
        Scale of a noise that is in S₂ alone.
    scale_size : float
        Scale of a noise that is in n~ alone.
    scale_both : float
        Scale of a noise that S₂ and n~ have in common.

    Raises
    ------
    ArgumentError
        If a number is not finite, a scale is negative, or a public size is below 2.
    """

    total: Real
    squares: Real
    size: Real
    scale_total: Real
    scale_squares: Real
    scale_size: Real = 0.0
    scale_both: Real = 0.0

    def __post_init__(self) -> None:
        scales = self.scale_total, self.scale_squares, self.scale_size, self.scale_both
        if not all(map(_finite, (self.total, self.squares, self.size, *scales))):
            raise ArgumentError("A released value is not finite.", "Release the sums again.")
        if any(scale < 0 if isinstance(scale, float | int) else (np.asarray(scale) < 0).any() for scale in scales):
            raise ArgumentError("A scale of noise is negative.", "Give the scales of the noise that was added.")
        if np.any((self.size_variance == 0) & (np.asarray(self.size) < 2)):  # noqa: PLR2004
            raise ArgumentError("A group has fewer than two rows.", "A t-test needs two rows in every group.")

    @classmethod
    def separate(cls, sums: Sequence[Real], scales: Sequence[Real], size: Real | None) -> Group:
        """Take what was measured with noises of its own: sums of y and y², and perhaps the number of rows.

        Parameters
        ----------
        sums, scales : sequence of float or ndarray
            The noisy sums, and the scale of the noise in each.
        size : float, ndarray or None
            The number of rows where it is public, and no third sum.

        Returns
        -------
        Group
            The release.
        """
        total, squares, *counted = sums
        if not counted:
            if size is None:
                raise ArgumentError("The number of rows is neither public nor measured.", "Measure it.")
            return cls(total, squares, size, scales[0], scales[1])
        return cls(total, squares, counted[0], scales[0], scales[1], scales[2])

    @classmethod
    def measured(cls, sums: Sequence[Real], scales: Sequence[Real], size: Real | None) -> Group:
        """Take what was measured: sums of (y, y²) of a public number of rows, (y, 1-y², rows), or (y, 1-y², y²).

        Parameters
        ----------
        sums : sequence of float or ndarray
            The noisy sums.
        scales : sequence of float or ndarray
            The scale of the noise in each.
        size : float, ndarray or None
            The number of rows, where it is public; those with a missing value are then among them.

        Returns
        -------
        Group
            The release.
        """
        if size is None:  # sums of (y, 1-y², y²)
            total, rest, squares = sums
            noise, noise_rest, noise_squares = scales
            return cls(total, squares, rest + squares, noise, 0.0, noise_rest, noise_squares)
        if len(sums) == 2:  # noqa: PLR2004
            return cls(sums[0], sums[1], size, scales[0], scales[1])
        total, rest, present = sums  # of (y, 1-y², 1)
        noise, noise_rest, noise_size = scales
        return cls(total, present - rest, present, noise, noise_rest, 0.0, noise_size)

    def listed(self, many: int) -> list[list[float]]:
        """Give each number of so many groups as a list, in the order of the fields, where `SIZE` is the size."""
        each = (getattr(self, field.name) for field in dataclasses.fields(self))
        return [np.broadcast_to(numbers, many).tolist() for numbers in each]

    @cached_property
    def size_variance(self) -> Real:
        """Variance of the noise of the size; 0 if it is public."""
        return 2 * (self.scale_size**2 + self.scale_both**2)

    @cached_property
    def n(self) -> Array:
        """The size to compute with: a noisy one is floored at 5."""
        n = np.asarray(self.size, dtype=np.float64)
        return np.where(np.asarray(self.size_variance) > 0, np.maximum(n, SIZE_FLOOR), n)

    @property
    def doubtful_size(self) -> NDArray[np.bool_]:
        """Whether so much of the size is noise that nothing can be divided by it."""
        return np.asarray(self.n < _DOUBTFUL * np.sqrt(self.size_variance)) | (np.asarray(self.size) < self.n)

    @property
    def mean(self) -> Array:
        """S₁/n."""
        return np.asarray(self.total / self.n)

    @property
    def naive_variance(self) -> Array:
        """The textbook variance of the noisy sums; NaN where it is not positive."""
        raw = np.asarray((self.squares - self.total**2 / self.n) / (self.n - 1))
        return np.where(raw > 0, raw, np.nan)

    @cached_property
    def rough_variance(self) -> Array:
        """The variance as the noise of the squares leaves it likely, whatever the mean is."""
        deviations = self.squares - (self.total**2 - 2 * self.scale_total**2) / self.n
        middle, _ = truncated(deviations, np.hypot(self.scale_squares, self.scale_both))
        return np.clip(middle / self.n, LEAST, 1.0)

    def mean_noise(self, mean: Real) -> Array:
        """Effect of each of the four noises on S₁/n - mean, for a mean within the bounds; shape (4, ...)."""
        mean = np.minimum(np.maximum(mean, -1.0), 1.0)
        cumulants = np.zeros((4, *np.broadcast_shapes(np.shape(mean), self.n.shape, np.shape(self.total))))
        cumulants[0] = self.scale_total / self.n
        if np.any(self.size_variance):
            per_row = -mean / self.n
            cumulants[2], cumulants[3] = per_row * self.scale_size, per_row * self.scale_both
        return cumulants

    def deviations_noise(self, mean: Real) -> Array:
        """Effect of the same noises on the sum of squared deviations from a mean; shape (4, ...)."""
        cumulants = np.empty((4, *np.shape(mean)))
        square = np.square(mean)
        cumulants[0], cumulants[1] = -2 * mean * self.scale_total, self.scale_squares
        cumulants[2], cumulants[3] = square * self.scale_size, (1 + square) * self.scale_both
        return cumulants

    def without(self, noises: Array) -> tuple[Array, Array, Array]:
        """Give S₁, S₂ and n without the four noises, given in units of their scales."""
        alone, squares, size, both = noises
        n = np.maximum(self.n - self.scale_size * size - self.scale_both * both, 2.0)
        total = self.total - self.scale_total * alone
        return total, self.squares - self.scale_squares * squares - self.scale_both * both, n


def _finite(numbers: Real) -> bool:
    """Tell whether all numbers are finite; a single one, of which there are many in redrawn noise, in no time."""
    return math.isfinite(numbers) if isinstance(numbers, float | int) else bool(np.isfinite(numbers).all())


def side_by_side(*groups: Group) -> Group:
    """Give groups as one, along a last axis of its numbers."""
    each = zip(*(dataclasses.astuple(group) for group in groups), strict=True)
    return Group(*(np.stack(np.broadcast_arrays(*numbers), axis=-1) for numbers in each))


def truncated(x: Array, scale: Real) -> tuple[Array, Array]:
    """Give mean and variance of a Laplace variable around x that is cut off below zero."""
    scale = np.maximum(scale, LEAST**2)
    x = np.maximum(x, 0.0)
    below = np.exp(-x / scale)
    mean = (2 * x + scale * below) / (2 - below)
    square = (2 * x**2 + 4 * scale**2 - 2 * scale**2 * below) / (2 - below)
    return mean, np.maximum(square - mean**2, 0.0)


def plain(x: Array) -> Real:
    """Give a Python float for an array without axes."""
    return float(x) if np.ndim(x) == 0 else np.asarray(x)
