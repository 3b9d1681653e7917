r"""Estimates for the population that sampling weights stand for, with their design-based variance.

Rows are taken to be sampled with replacement. With z the vector of a row times its weight, :math:`S = \sum z` and
:math:`T = \sum z z^\top` (`dfprivacy.features.Weighted`), every estimate here is a function of S. Its variance is
that of its linearisation: the sum of :math:`(c^\top z)^2`, which is :math:`c^\top T c`, for coefficients c.
(Binder, On the variances of asymptotically normal estimators from complex surveys, International Statistical
Review 51, 1983.)
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.inference.clipped import Clipped
from dfprivacy.inference.draws import DRAWS, cube_noise, noise, noise_draws, points
from dfprivacy.laws import NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from dfprivacy.measured import NoisyValue
    from dfprivacy.schema import Column

    Array = NDArray[np.float64]

__all__ = ["NoisyWeighted", "WeightedSums", "difference", "mean", "ratio", "total"]

_DOUBTFUL = 5.0  # standard errors that a sum of weights should have to divide by it
_NOTHING = 1e-6  # of a row
_LEAST = 1e-12  # of a variance: estimates from constant values have a distribution


@dataclass(frozen=True)
class WeightedSums:
    """Sums of weighted features and of their products, by group, with draws along the last axis.

    Parameters
    ----------
    first : ndarray of shape (..., k, p, draws)
        Of each of k groups the sums S of z, the weights as parts of their bound.
    second : ndarray of shape (..., k, p, p, draws)
        The sums T of the products.
    """

    first: Array
    second: Array

    def __getitem__(self, group: int | NDArray[np.int_]) -> WeightedSums:
        """Return the sums of one group, without the axis of groups, or of several groups."""
        return WeightedSums(self.first[..., group, :, :], self.second[..., group, :, :, :])


@dataclass(frozen=True)
class NoisyWeighted:
    """Noisy sums of weighted features, by group.

    Parameters
    ----------
    weights : str
        The column of weights.
    most : float
        Its upper bound: the unit of the weights in the sums.
    values : ndarray of shape (..., k, d)
        Of each of k groups the p sums and their products, as `dfprivacy.features.Weighted` has them.
    laws : sequence of d NoiseLaw
        The laws of the noise in them.
    width : int
        p.
    rows : float
        Rows with a weight and a value, public or noisy.
    beyond : mapping of str to Clipped
        Of the columns of numbers, and the weights, the rows beyond the bounds.
    id : str
        What tells the measurement from all others.
    """

    weights: str
    most: float
    values: Array
    laws: Sequence[NoiseLaw]
    width: int
    rows: float
    beyond: Mapping[str, Clipped]
    id: str = ""

    @classmethod
    def from_sums(
        cls,
        noisy: NoisyValue,
        weights: Column,
        width: int,
        size: int | None,
        beyond: Sequence[NoisyValue],
        *columns: Column,
    ) -> NoisyWeighted:
        """Construct from noisy sums of weighted features, and noisy counts of rows beyond columns' bounds.

        Parameters
        ----------
        noisy : NoisyValue
            Sums of one group, of shape (d,), or of k in all, of shape (..., d).
        weights : Column
            The weights.
        width : int
            Coordinates of the weighted features.
        size : int or None
            The number of all rows, where it is public.
        beyond : sequence of NoisyValue
            `dfprivacy.features.Beyond` of each column, and the number of complete rows, if that may be another.
        *columns : Column
            Columns with bounds, the weights among them.

        Returns
        -------
        NoisyWeighted
            Of values of shape (k, d).
        """
        rows = float(size or 0)
        if len(beyond) > len(columns):
            rows = float(beyond[-1].values[0])
        clipped = {
            column.name: Clipped.from_sums(each, (column.low, column.high), rows)
            for column, each in zip(columns, beyond, strict=False)
        }
        law = noisy.law
        values, scales = (np.reshape(each, (-1, noisy.values.shape[-1])) for each in (noisy.values, noisy.scales))
        laws = [replace(law, scale=float(scale), step=0.0) for scale in scales[0]]
        return cls(weights.name, weights.high, values, laws, width, max(rows, 0.0), clipped, noisy.id)

    @property
    def released(self) -> dict[str, Any]:
        """Noisy sums and the laws of their noise, as a dictionary that `from_release` reads."""
        return {
            "weights": self.weights,
            "most": self.most,
            "values": tuple(map(tuple, self.values.tolist())),
            "noise": tuple(map(astuple, self.laws)),
            "width": self.width,
            "rows": self.rows,
            "beyond": {name: (each.bounds, each.released) for name, each in self.beyond.items()},
            "id": self.id,
        }

    @classmethod
    def from_release(cls, plain: Mapping[str, Any]) -> NoisyWeighted:
        """Construct from the dictionary that `released` returns."""
        beyond = {name: Clipped.from_release(of, tuple(bounds)) for name, (bounds, of) in plain["beyond"].items()}
        known = {name: each for name, each in plain.items() if name != "noise"}
        laws = [NoiseLaw(*each) for each in plain["noise"]]
        return cls(**{**known, "values": np.array(plain["values"]), "laws": laws, "beyond": beyond})

    @property
    def limits(self) -> tuple[str, ...]:
        """Notes on the shares of values and weights that were clipped to their bounds."""
        return tuple(note for name, each in self.beyond.items() for note in each.notes(of=name))

    @property
    def estimate(self) -> WeightedSums:
        """Noisy sums, with a last axis of length 1; negative sums of weighted features become slightly positive."""
        values = self.values.copy()
        values[..., : self.width] = np.maximum(values[..., : self.width], _NOTHING)
        return self._split_sums(values[..., None])

    def draws(self, draws: int = DRAWS) -> tuple[WeightedSums, Array]:
        """Draw possible exact sums, given the noisy sums.

        Parameters
        ----------
        draws : int
            How many, of Laplace noise; of noise of the cube 1,024.

        Returns
        -------
        tuple of WeightedSums and ndarray
            The sums, with the draws along the last axis, and their weights, of shape (draws,).
        """
        k, d = self.values.shape[-2:]
        laws = [*self.laws] * k
        if self.laws[0].kind == "cube":
            drawn, weights = cube_noise(((self.laws[0].dimension, k * d),))
            drawn = drawn.T * np.array([[law.scale] for law in laws])
        else:
            drawn, weights = noise(laws, points(k * d, draws))
        return self._split_sums(self.values[..., None] - drawn.reshape(k, d, -1)), weights

    @property
    def replicates(self) -> WeightedSums:
        """Noisy sums minus random draws of their noise, one draw for each index of the last axis."""
        scales = np.broadcast_to([law.scale for law in self.laws], self.values.shape)
        return self._split_sums(
            self.values[..., None] - noise_draws(self.laws[0], scales, self.id or str(self.released))
        )

    def _split_sums(self, values: Array) -> WeightedSums:
        """Split an array of values into sums of features and symmetric matrices of sums of their products."""
        p = self.width
        second = np.zeros((*values.shape[:-2], p, p, values.shape[-1]))
        at = np.arange(p)
        if values.shape[-2] > p:
            second[..., at, at, :] = values[..., p : 2 * p, :]
        if values.shape[-2] > 2 * p:
            i, j = np.triu_indices(p, 1)
            second[..., i, j, :] = second[..., j, i, :] = values[..., 2 * p :, :]
        return WeightedSums(values[..., :p, :], second)

    def expected_release(self, rows: Sequence[float], v: float, spread: float) -> NoisyWeighted:
        """Return the expected sums of the features (1+y)/2 and (1-y)/2 in place of noisy ones, for planning.

        Parameters
        ----------
        rows : sequence of k float
            Rows in each group.
        v : float
            Their weight, as a part of its bound.
        spread : float
            The standard deviation of y, whose mean is 0.

        Returns
        -------
        NoisyWeighted
            With these values.
        """
        square, crossed = v * v * (1 + spread**2) / 4, v * v * (1 - spread**2) / 4
        each = np.array([v / 2, v / 2, square, square, crossed])[: self.values.shape[-1]]
        return replace(self, values=np.outer(rows, each))

    @property
    def size_is_doubtful(self) -> bool:
        """Whether the sum of the weights of a group is too noisy to divide by."""
        least = _DOUBTFUL * math.sqrt(self.width) * self.laws[0].standard_deviation
        return bool((self.values[..., : self.width].sum(axis=-1) <= least).any())


def ratio(sums: WeightedSums, numerator: ArrayLike, denominator: ArrayLike) -> tuple[Array, Array, Array]:
    """Return the ratio of two weighted sums of one group (Hájek), with its variance and degrees of freedom.

    Parameters
    ----------
    sums : WeightedSums
        Of one group, without the axis of groups.
    numerator, denominator : array_like of shape (p,)
        Coefficients of the sums.

    Returns
    -------
    tuple of ndarray
        The ratio, within what it can be, its design-based variance, and Kish's effective number of rows less 1,
        which is never above the number of rows. Draws whose denominator is not positive are half at either end.
    """
    a, b = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    below, ends = np.einsum("i,...id->...d", b, sums.first), a[b > 0] / b[b > 0]
    unknown = below <= 0
    divisor = np.where(unknown, 1.0, below)
    anywhere = np.where(np.arange(below.shape[-1]) % 4 < 2, ends.max(), ends.min())  # noqa: PLR2004 - as `infer` has it
    theta = np.clip(np.einsum("i,...id->...d", a, sums.first) / divisor, ends.min(), ends.max())
    theta = np.where(unknown, anywhere, theta)
    c = a[:, None] - b[:, None] * theta[..., None, :]
    meat = _positive_variance(np.einsum("...id,...ijd,...jd->...d", c, sums.second, c))
    squares = np.einsum("i,...ijd,j->...d", b, sums.second, b)
    effective = divisor**2 / np.clip(squares, _LEAST, np.maximum(divisor, _LEAST))
    return theta, np.where(unknown, _LEAST, meat / divisor**2), np.maximum(effective - 1, 1.0)


def mean(group: WeightedSums, bounds: tuple[float, float]) -> tuple[Array, Array, Array]:
    """Return the weighted mean of y from the features (1+y)/2 and (1-y)/2, its variance, and degrees of freedom."""
    return ratio(group, bounds[::-1], (1.0, 1.0))


def difference(
    first: WeightedSums, second: WeightedSums, bounds: tuple[float, float]
) -> tuple[Array, Array, Array]:
    """Return the difference of two weighted means, its variance, and Satterthwaite's degrees of freedom."""
    (one, of_one, df_one), (two, of_two, df_two) = (mean(group, bounds) for group in (first, second))
    df = (of_one + of_two) ** 2 / (of_one**2 / df_one + of_two**2 / df_two)
    return one - two, of_one + of_two, df


def total(sums: WeightedSums, coefficients: ArrayLike) -> tuple[Array, Array, Array]:
    """Return a weighted sum of one group (Horvitz and Thompson), its variance, and infinite degrees of freedom.

    The variance is that of Poisson sampling, in which the number of rows is random, from a large population. If the
    design fixes that number, it is too large, never too small.

    Parameters
    ----------
    sums : WeightedSums
        Of one group, without the axis of groups.
    coefficients : array_like of shape (p,)
        Of the sums.

    Returns
    -------
    tuple of ndarray
        The sum, its design-based variance, and its degrees of freedom.
    """
    a = np.asarray(coefficients, dtype=np.float64)
    theta = np.einsum("i,...id->...d", a, sums.first)
    return theta, _positive_variance(np.einsum("i,...ijd,j->...d", a, sums.second, a)), np.asarray(math.inf)


def _positive_variance(variance: Array) -> Array:
    """Return draws of a variance, raised to be positive; if their median is negative, it is subtracted from all."""
    middle = np.median(variance, axis=-1, keepdims=True)
    return np.maximum(variance - np.minimum(middle, 0.0), _LEAST)
