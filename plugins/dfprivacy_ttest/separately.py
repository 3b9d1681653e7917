"""Mean and variance as queries of their own, each with an equal part of epsilon: as the reference asks for them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import features
from dfprivacy.features import RowFeatures
from dfprivacy.release import NoisyValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator

__all__ = ["Power", "Queries", "measure_one_by_one"]

Queries = Literal["jointly", "separately"]


class Power(RowFeatures):
    """A number that is mapped from its bounds to y in [-1, 1], or its square.

    Two values of y are 2 apart at most, two squares 1.

    Parameters
    ----------
    column : Column
        A column with bounds.
    exponent : {1, 2}
        1 for y, 2 for its square.
    """

    shape = (1,)

    def __init__(self, column: Column, exponent: Literal[1, 2]) -> None:
        self.columns = (column,)
        self.exponent = exponent

    def rows(self, batch: Any) -> NDArray[np.float64]:
        """Return the powers of a batch."""
        y: NDArray[np.float64] = np.array(batch.standardized(self.columns[0])).reshape(-1, 1)
        return y if self.exponent == 1 else y * y

    def radius(self, norm: float) -> float:  # noqa: ARG002 - a number has one length
        """Largest absolute value."""
        return 1.0

    def diameter(self, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Largest distance of two."""
        return 0.0 if self.columns[0].name in public else 2.0 / self.exponent


def measure_one_by_one(
    curator: Curator,
    column: Column,
    by: Column | None,
    pair: tuple[Any, ...] | None,
    gaps: Sequence[Column],
    *,
    count: bool,
) -> NoisyValue:
    """Measure the sums of y and of y², and perhaps the rows, one by one and with an equal part of epsilon each.

    Parameters
    ----------
    curator : Curator
        Whom to ask.
    column : Column
        The column that is tested.
    by : Column or None
        The groups.
    pair : tuple or None
        Which two of them.
    gaps : sequence of Column
        Columns a row must have a value in.
    count : bool
        Whether to count the rows that have.

    Returns
    -------
    NoisyValue
        Values and scales of shape (queries,) or (2, queries).
    """
    quantities: list[RowFeatures] = [Power(column, 1), Power(column, 2), *([features.Count()] if count else [])]
    share = Fraction(1, len(quantities))
    measured = []
    for power in quantities:
        of = features.Given(*gaps, of=power) if gaps else power
        measured.append(curator.sum(of if by is None else features.OneHot(by, groups=pair) * of, share=share))
    values = np.concatenate([each.values for each in measured], axis=-1)
    scales = np.concatenate([each.scales for each in measured], axis=-1)
    return NoisyValue(values, scales, measured[0].noise, id=" ".join(each.id for each in measured))
