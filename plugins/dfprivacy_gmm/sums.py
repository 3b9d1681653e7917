"""Noisy sums of columns and of products of two columns, and their measurement.

y is a row, mapped from the columns' bounds to [-1, 1]^d. With n, S and P the number of complete rows, the sum of y
and that of y yᵀ, all moments follow, of all rows or of each group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import ArgumentError, features
from dfprivacy.features import RowFeatures
from dfprivacy.inference.clipped import WEIGHT
from dfprivacy.wording import clearly_some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator, NanPolicy, NoisyValue

    Array = NDArray[np.float64]

__all__ = [
    "Entry",
    "MeasuredSums",
    "Queries",
    "Sums",
    "free_count_weight",
    "measure_one_by_one",
    "measure_sums",
    "missing_note",
    "restricted_to_complete_rows",
]

_ROUNDING_FACTOR = 1 - 1e-12  # what is free stays free after rounding


@dataclass(frozen=True)
class Sums:
    """Noisy sums of each group: the number of rows, and the sums of values and of products of values.

    Attributes
    ----------
    sizes : ndarray of shape (groups,)
        Rows n.
    totals : ndarray of shape (groups, d)
        Sums S of y.
    products : ndarray of shape (groups, d, d)
        Sums P of y yᵀ.
    size_sd, total_sd : float
        Standard deviations of the noise in sizes (0 where they are public) and totals.
    product_sd : ndarray of shape (d, d)
        Those of the noise in the products.
    """

    sizes: Array
    totals: Array
    products: Array
    size_sd: float
    total_sd: float
    product_sd: Array

    @classmethod
    def from_outer(cls, values: Array, noise: Array, sizes: Array | None) -> Sums:
        """Construct the sums from a noisy sum of `dfprivacy.features.Outer`, split into named parts.

        Parameters
        ----------
        values : ndarray of shape (groups, coordinates)
            The sums of each group.
        noise : ndarray of shape (coordinates,)
            Standard deviations of their noise.
        sizes : ndarray of shape (groups,) or None
            Rows where they are public; else the first coordinate counts them.

        Returns
        -------
        Sums
            The same by name.
        """
        size_sd = 0.0
        if sizes is None:
            sizes, size_sd = values[:, 0], float(noise[0])
            values, noise = values[:, 1:], noise[1:]
        d = (math.isqrt(9 + 8 * values.shape[1]) - 3) // 2
        upper = np.triu_indices(d)
        products, product_sd = np.empty((len(values), d, d)), np.empty((d, d))
        products[:, *upper] = products.transpose(0, 2, 1)[:, *upper] = values[:, d:]
        product_sd[upper] = product_sd.T[upper] = noise[d:]
        return cls(
            np.asarray(sizes, dtype=np.float64),
            values[:, :d],
            products,
            size_sd,
            float(noise[:d].max()),
            product_sd,
        )


@dataclass(frozen=True)
class MeasuredSums:
    """Measurement of sums of values and products, for moments and Gaussian classes.

    Attributes
    ----------
    values : ndarray of shape (groups, coordinates)
        Noisy sums, in the order of `dfprivacy.features.Outer`.
    noise : ndarray of shape (coordinates,)
        Standard deviations of their noise.
    sizes : ndarray of shape (groups,) or None
        Rows where they are public; else the first coordinate counts them.
    radius : float or None
        To which longer rows were scaled down; None with Laplace noise.
    missing, missing_noise : float or None
        Rows that were left out, and the standard deviation of the noise in their number.
    beyond : tuple of NoisyValue
        The rows beyond the bounds of each column, by group; empty where they were not measured.
    """

    values: Array
    noise: Array
    sizes: Array | None
    radius: float | None
    missing: float | None
    missing_noise: float | None
    beyond: tuple[NoisyValue, ...] = ()

    @property
    def sums(self) -> Sums:
        """The measured sums, split into parts as `Sums`."""
        return Sums.from_outer(self.values, self.noise, self.sizes)

    def result_fields(self, columns: Sequence[Column]) -> dict[str, Any]:
        """Return the result fields that report the measured sums."""
        return {
            "columns": tuple(column.name for column in columns),
            "bounds": tuple((column.low, column.high) for column in columns),
            "sizes": self.sums.sizes,
            "public_sizes": self.sizes is not None,
            "released": self.values,
            "noise_standard_error": self.noise,
            "missing": self.missing,
            "missing_standard_error": self.missing_noise,
        }


def measure_sums(
    curator: Curator,
    columns: Sequence[Column],
    by: Column | None,
    radius: float | None,
    *,
    nan_policy: NanPolicy,
    queries: Queries = "jointly",
    limited: bool = False,
) -> MeasuredSums:
    """Measure sums of columns and of products of two columns, and numbers of rows if these are private.

    Parameters
    ----------
    curator : Curator
        Whom to ask: with a delta for Gaussian noise, without for Laplace noise.
    columns : sequence of Column
        What is multiplied.
    by : Column or None
        The groups.
    radius : float or None
        As the caller gave it; default: the largest.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows with a missing value.
    queries : {"jointly", "separately"}
        All sums in one measurement, or each in one of its own, with Laplace noise.
    limited : bool
        Whether the rows beyond the bounds of each column are in the same measurement, if it is one.

    Returns
    -------
    MeasuredSums
        The noisy sums.
    """
    gaussian = curator.delta > 0 and queries == "jointly"
    if radius is not None:
        if not gaussian:
            raise ArgumentError(
                "radius= needs Gaussian noise (a delta above 0) and a joint measurement of all sums.",
                'Omit radius=, or give a delta and queries="jointly".',
            )
    elif gaussian:
        radius = math.sqrt(len(columns))
    features.Outer(columns, radius=radius)  # what cannot be measured is refused before sizes are read
    if nan_policy == "raise" and by is not None and not by.filled:
        curator.refuse_missing(by)  # to others a row of no group counts nowhere
    gaps = curator.gaps(columns, nan_policy)
    size, sizes = curator.size, None
    beyond: Sequence[NoisyValue] = ()
    if not gaps and by is not None:
        sizes = curator.sizes(by)
    elif not gaps and size is not None:
        sizes = np.array([float(size)])
    if queries == "separately":
        values, noise = measure_one_by_one(curator, columns, by, gaps, count=sizes is None)
    else:
        count = sizes is None and (free_count_weight(curator, columns, by, radius) or True)
        summed: features.RowFeatures = features.Outer(columns, radius=radius, count=count)
        summed = restricted_to_complete_rows(gaps, _count_beyond(summed, columns, radius) if limited else summed)
        if by is not None:
            summed = features.OneHot(by) * summed
        measured = curator.sum(summed, noise="gaussian" if gaussian else "laplace")
        measured, *beyond = measured.parts if limited else [measured]
        values, scales = np.atleast_2d(measured.values), np.atleast_2d(measured.scales)
        noise = scales[0] * (1 if gaussian else math.sqrt(2))
    missing = missing_noise = None
    if nan_policy == "omit" and size is not None:
        missing = float(size - (values[:, 0] if sizes is None else sizes).sum())
        missing_noise = 0.0 if sizes is not None else float(noise[0]) * math.sqrt(len(values))
    return MeasuredSums(values, noise, sizes, radius, missing, missing_noise, tuple(beyond))


def _count_beyond(
    summed: features.RowFeatures, columns: Sequence[Column], radius: float | None
) -> features.RowFeatures:
    """Return features that also count rows beyond the bounds, at the cost of at most a thirtieth more noise."""
    weight = WEIGHT / 2
    if radius is not None:  # a power of two, and at a radius of √d a quarter
        weight = 2.0 ** math.floor(math.log2(radius / math.sqrt(len(columns)))) / 4
    return features.Stack(summed, *(features.Beyond(column, weight=weight) for column in columns))


def restricted_to_complete_rows(gaps: Sequence[Column], summed: features.RowFeatures) -> features.RowFeatures:
    """Return features that are zero on rows with a missing value in one of the given columns."""
    return features.Given(*gaps, of=summed) if gaps else summed


def free_count_weight(
    curator: Curator, columns: Sequence[Column], by: Column | None, radius: float | None
) -> float | None:
    """Return the largest weight of a count of complete rows that adds no noise; None if every weight adds noise.

    Where rows change but neither come nor go nor change their group, two complete rows are √4.5 r apart (2r in one
    column) whatever the weight w of the count, and a complete row is √(w² + 2r²) from an incomplete one.
    """
    if radius is None or curator.neighbors != "replace_one" or not (by is None or by.public):
        return None
    return _ROUNDING_FACTOR * radius * math.sqrt(2.0 if len(columns) == 1 else 2.5)


def missing_note(gone: float | None, noise: float | None) -> str | None:
    """Return a note on the number of rows with missing values, if it is clearly above 0.

    Parameters
    ----------
    gone : float or None
        Their noisy number.
    noise : float or None
        Standard deviation of the noise in it.

    Returns
    -------
    str or None
        A note.
    """
    if gone is None or noise is None or not clearly_some(round(gone), noise):
        return None
    about = f"about {gone:,.0f} ± {noise:,.0f}" if noise else f"{gone:,.0f}"
    return f"{about} rows were left out, as they have a missing value or an undeclared group"


Queries = Literal["jointly", "separately"]


class Entry(RowFeatures):
    """Feature that is a column, scaled to y in [-1, 1], or the product of two such columns.

    Two values of y, or of a product, are 2 apart at most; two squares are 1 apart.

    Parameters
    ----------
    *factors : Column
        One column with bounds, or two; a column with itself for its square.
    """

    shape = (1,)

    def __init__(self, *factors: Column) -> None:
        self.columns = tuple(dict.fromkeys(factors))
        self.factors = factors

    def rows(self, batch: Any) -> Array:
        """Return the scaled value or product for each row of a batch."""
        vectors: Array = np.ones((batch.size, 1))
        for column in self.factors:
            vectors[:, 0] *= batch.standardized(column)
        return vectors

    def radius(self, norm: float) -> float:  # noqa: ARG002 - a number has one length
        """Return the largest absolute value of the feature."""
        return 1.0

    def diameter(self, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the largest distance between the features of two rows."""
        if all(column.name in public for column in self.columns):
            return 0.0
        return 1.0 if len(self.factors) > len(self.columns) else 2.0

    def describe(self) -> str:
        """Return a description of the feature."""
        return " × ".join(column.name for column in self.factors)


def measure_one_by_one(
    curator: Curator, columns: Sequence[Column], by: Column | None, gaps: Sequence[Column], *, count: bool
) -> tuple[Array, Array]:
    """Measure each of the q sums of `dfprivacy.features.Outer` separately, with epsilon/q and Laplace noise.

    Parameters
    ----------
    curator : Curator
        Whom to ask.
    columns : sequence of Column
        What is multiplied.
    by : Column or None
        The groups.
    gaps : sequence of Column
        Columns a row must have a value in.
    count : bool
        Whether to count rows first.

    Returns
    -------
    values : ndarray of shape (groups, q)
        The noisy sums: rows if they are counted, y_i, and y_i y_j for i ≤ j.
    noise : ndarray of shape (q,)
        Standard deviations of their noise.
    """
    entries: list[RowFeatures] = [features.Count()] if count else []
    entries += [Entry(column) for column in columns]
    entries += [Entry(*pair) for pair in combinations_with_replacement(columns, 2)]
    share = Fraction(1, len(entries))
    values, noise = [], []
    for entry in entries:
        feature = restricted_to_complete_rows(gaps, entry)
        measured = curator.sum(feature if by is None else features.OneHot(by) * feature, share=share)
        values.append(np.ravel(measured.values))
        noise.append(float(np.sqrt(2) * np.max(measured.scales)))
    return np.stack(values, axis=1), np.array(noise)
