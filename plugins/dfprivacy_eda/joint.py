"""One release for several columns: sums with noise of the cube, trees of counts, and how they share the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy import Column, Curator, features
from dfprivacy.laws import NoiseLaw
from dfprivacy_eda.sums import SD, Sums

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy.release import NoisyValue
    from dfprivacy_eda.grown import Grown

__all__ = ["Summed", "split"]

_RANKS = (
    26.152  # standard error of the rows below an edge of a tree of 16³ intervals at an epsilon of 1, on average
)
_SLOPE = 2.507  # standard deviations from a normal median for each unit of the share of rows
_PARTS = 10**6


def split(summed: int, ranked: int, labels: Sequence[Column], *, moments: bool) -> dict[str, Fraction]:
    """Split the budget so that the expected errors are equal, from public numbers.

    Parameters
    ----------
    summed : int
        Coordinates with noise of the cube.
    ranked : int
        Trees of counts.
    labels : sequence of Column
        Columns whose categories are counted.
    moments : bool
        Whether the coordinates are of values, and not of rows alone.

    Returns
    -------
    dict of str to Fraction
        The parts of sums, quantiles and categories, 1 together, in this order.
    """
    most = max((len(column.categories or ()) for column in labels), default=0)
    errors = {  # times the rows and epsilon, where rows change; where they come and go, half of each
        "sums": 2 * math.sqrt((summed + 1) * (summed + 2) / 3) / (SD if moments else 1) * (summed > 0),
        "quantiles": _SLOPE * _RANKS * ranked,
        "categories": 2 * math.sqrt(2) * most * len(labels),
    }
    total = sum(errors.values()) or 1.0
    parts = {name: Fraction(round(_PARTS * error / total), _PARTS) for name, error in errors.items() if error}
    if parts:  # the last has what rounding leaves
        *_, last = parts
        parts[last] = 1 - sum((part for name, part in parts.items() if name != last), Fraction(0))
    return parts


@dataclass(frozen=True)
class Summed:
    """Sums of several columns in one vector, with noise of the cube.

    Attributes
    ----------
    rows, variance : float
        The number of all rows, and the variance of the noise in it, 0 where it is public.
    dimension, scale : int, float
        Of the noise.
    parts : mapping of str to NoisyValue
        What was summed of each column.
    told : frozenset of str
        The columns of which rows without a value were counted in the same vector.
    weight : float
        How much each of these rows counted.
    """

    rows: float
    variance: float = 0.0
    dimension: int = 1
    scale: float = 0.0
    parts: Mapping[str, NoisyValue] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    weight: float = 1.0

    @classmethod
    def measured(
        cls,
        curator: Curator,
        columns: Mapping[str, Column],
        degrees: Mapping[str, int],
        gaps: Mapping[str, tuple[Column, ...]],
        told: frozenset[str],
        share: Fraction,
    ) -> Summed:
        """Measure y of a degree of 1, and 2y²-1 as well of 2, with the number of rows where that is private.

        Where rows change, one without a value counts twice: it is then as far from others as these from each other.
        """
        n = curator.size
        weight = 2.0 if n is not None else 1.0
        summed = {name: column for name, column in columns.items() if degrees[name] or name in told}
        asked = tuple((column, degrees[name], gaps[name], name in told) for name, column in summed.items())
        measured = curator.sum(curator.once(_stacked, asked, weight, n is None), noise="cube", share=share)
        d, b = len(measured.values), float(np.max(measured.scales))
        parts = dict(zip(summed, measured.parts, strict=False))
        if n is not None:
            return cls(float(n), 0.0, d, b, parts, told, weight)
        return cls(float(measured.values[-1]), (d + 1) * (d + 2) / 3 * b * b, d, b, parts, told, weight)

    def of(self, column: Column, degree: int, tree: Grown | None, *, complete: bool) -> Sums:
        """Put together what was measured of one column: rows, the sums of y and 2y²-1, and rows without a value.

        The sum of y² is half of that of 2y²-1 and of the rows with a value.
        """
        told, law = column.name in self.told, NoiseLaw(self.scale, kind="cube", dimension=self.dimension)
        values = self.parts[column.name].values.tolist() if column.name in self.parts else []
        at = [0, *(range(1, 1 + degree)), *([3] if told else [])]
        sums, none = np.zeros(4), replace(law, scale=0.0)
        laws = [law if self.variance else none, none, none, none]
        sums[at] = [self.rows, *values]
        for each in at[1:]:
            laws[each] = law
        map_ = np.array([[1, 0, 0, -1], [0, 1, 0, 0], [1 / 2, 0, 1 / 2, -1 / 2], [0, 0, 0, 1]])
        if told and degree:
            map_[:, 3] /= self.weight
        elif told:  # those with a value were counted
            map_[[0, 3]] = [0, 0, 0, 1], [1, 0, 0, -1]
        elif tree is not None and tree.missing[0] is not None:
            gone, error = tree.missing
            sums[3], laws[3] = gone, NoiseLaw((error or 0.0) / math.sqrt(2))
            told = True
        return Sums(column, sums, tuple(laws), map_, np.zeros(4), complete or told)


def _stacked(
    columns: tuple[tuple[Column, int, tuple[Column, ...], bool], ...],
    weight: float,
    count: bool,  # noqa: FBT001 - as `once` gives it
) -> features.Stack:
    """Sum y of columns of degree 1, and 2y²-1 as well of 2, gaps where they are told, and perhaps all rows."""
    every: list[features.RowFeatures] = []
    for column, degree, given, told in columns:
        of = features.Moments(column, centred=True) if degree > 1 else features.Moments(column, degree=1)
        if not degree:
            every.append(features.Given(*given))
        else:
            tally = (0.0, weight) if told else None
            every.append(features.Given(*given, of=of, tally=tally) if given else of)
    return features.Stack(*every, *([features.Count()] if count else []))
