"""Row features of outcomes: whether something happened, and which of a pair it happened in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.features import RowFeatures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.features.base import Norm
    from dfprivacy.inference.counts import Form

__all__ = ["Discordant", "Outcome"]

_ROOT_HALF = 0.7071067811865477  # rounded up


def _halved(norm: Norm) -> float:
    """Norm of (1/2, 1/2)."""
    if norm == 1:
        return 1.0
    return 0.5 if norm == math.inf else _ROOT_HALF


class Outcome(RowFeatures):
    """Indicators of a row in one category, and in any.

    Parameters
    ----------
    column : Column
        A column with categories.
    code : int
        The category.
    form : {"hits", "counts", "halves"}
        ``"hits"``: 1 for a row of it. ``"counts"``: (1, 0) for a row of it, (0, 1) for one of another.
        ``"halves"``: (1/2, 1/2) and (-1/2, 1/2). Zeros for a row of none.

    Notes
    -----
    The radius is 1 in L1. Two rows are 2 apart in L1 by counts, and 1 by hits or halves, where a row of no category
    is 1 away from any.
    """

    def __init__(self, column: Column, code: int, form: Form) -> None:
        self.columns, self.code, self.form = (column,), code, form
        self.shape = (1,) if form == "hits" else (2,)

    def rows(self, batch: Any) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
        (column,) = self.columns
        codes = batch.codes(column)
        hit = (codes == self.code).astype(np.float64)
        there = (codes < len(column.categories or ())).astype(np.float64)
        if self.form == "hits":
            return np.asarray(hit[:, None])
        return np.column_stack([hit, there - hit] if self.form == "counts" else [hit - there / 2, there / 2])

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector."""
        if self.form != "halves":
            return 1.0
        return _halved(norm)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        if self.columns[0].name in public:
            return 0.0
        if self.form == "counts":
            return 2 * _halved(norm)
        return 1.0


class Discordant(RowFeatures):
    """Half of which of two columns alone is of its category, 1/2 or -1/2, and 1/2 for either.

    Parameters
    ----------
    column, other : Column
        Columns with categories.
    codes : tuple of two int
        The category of each.

    Notes
    -----
    Two rows are at most 1 apart in L1: (1/2, 1/2), (-1/2, 1/2) and zeros.
    """

    shape = (2,)

    def __init__(self, column: Column, other: Column, codes: tuple[int, int]) -> None:
        self.columns, self.codes = (column, other), codes

    def rows(self, batch: Any) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
        there = np.ones(batch.size, dtype=np.bool_)
        hits = []
        for column, code in zip(self.columns, self.codes, strict=True):
            codes = batch.codes(column)
            there &= codes < len(column.categories or ())
            hits.append((codes == code).astype(np.float64))
        apart = np.where(there, hits[0] - hits[1], 0.0) / 2
        return np.column_stack([apart, np.abs(apart)])

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector."""
        return _halved(norm)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:  # noqa: ARG002
        """Largest distance of two vectors."""
        return 0.0 if all(column.name in public for column in self.columns) else 1.0
