"""Each sum as a query of its own, with noise of its own and an equal part of epsilon: as the reference asks."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import features
from dfprivacy.features import RowFeatures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator

    Array = NDArray[np.float64]

__all__ = ["Entry", "Queries", "measure_one_by_one"]

Queries = Literal["jointly", "separately"]


class Entry(RowFeatures):
    """A number or a product of two, each mapped from its column's bounds to y in [-1, 1].

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
        """Return the products of a batch."""
        vectors: Array = np.ones((batch.size, 1))
        for column in self.factors:
            vectors[:, 0] *= batch.standardized(column)
        return vectors

    def radius(self, norm: float) -> float:  # noqa: ARG002 - a number has one length
        """Largest absolute value."""
        return 1.0

    def diameter(self, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Largest distance of two."""
        if all(column.name in public for column in self.columns):
            return 0.0
        return 1.0 if len(self.factors) > len(self.columns) else 2.0

    def describe(self) -> str:
        """Name it in words."""
        return f"Entry({', '.join(column.name for column in self.factors)})"


def measure_one_by_one(
    curator: Curator, columns: Sequence[Column], by: Column | None, gaps: Sequence[Column], *, count: bool
) -> tuple[Array, Array]:
    """Measure the sums of `dfprivacy.features.Outer` one by one, with Laplace noise and 1/q of epsilon for each.

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
        feature = features.Given(*gaps, of=entry) if gaps else entry
        measured = curator.sum(feature if by is None else features.OneHot(by) * feature, share=share)
        values.append(np.ravel(measured.values))
        noise.append(float(np.sqrt(2) * np.max(measured.scales)))
    return np.stack(values, axis=1), np.array(noise)
