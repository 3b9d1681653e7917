"""Choice of the contingency tables to measure, so that all tables together define one model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy.features import OneHot, Stack
from dfprivacy.statistics import OfSums
from dfprivacy_synth.coding import CODES
from dfprivacy_synth.model import Clique, margin, simplex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column

    Array = NDArray[np.float64]

__all__ = ["CELLS_MAX", "Candidate", "PenalizedDistances", "candidates", "cell_indicators"]

_MEAN_NOISE = math.sqrt(2 / math.pi)
"""Mean of the absolute value of a standard normal variable."""
CELLS_MAX = CODES**3
"""Cells of the largest table: of three columns with all their codes."""


@dataclass(frozen=True)
class Candidate:
    """Contingency table that is a candidate for the next measurement.

    Attributes
    ----------
    clique : Clique
        The columns that the table adds to the model, and the columns of the model that it contains.
    expected : ndarray
        The counts that the model predicts without the table, as integers.
    penalty : int
        The distance from the expected counts that noise alone would cause.
    """

    clique: Clique
    expected: Array
    penalty: int


class PenalizedDistances(OfSums):
    r"""Distance :math:`\|T - E\|_1` of each candidate table T from its expectation E, minus a public penalty.

    A row is in one cell of a table at most. One that comes or goes moves its distance by 1, one that changes by 2.
    Counts, expectations and penalties are integers, so nothing is rounded.
    """

    def __init__(self, columns: Sequence[Column], tried: Sequence[Candidate]) -> None:
        self.features = Stack(*(cell_indicators(columns, each.clique.columns) for each in tried))
        self.columns = self.features.columns
        self.expected = np.concatenate([each.expected.ravel() for each in tried])
        self.starts = np.cumsum([0, *(each.expected.size for each in tried[:-1])])
        self.penalties = np.array([float(each.penalty) for each in tried])
        self.shape = (len(tried),)

    def value(self, sums: Array) -> Array:
        """Compute the distance of each candidate table from its expectation, minus its penalty."""
        distances: Array = np.add.reduceat(np.abs(np.ravel(sums) - self.expected), self.starts) - self.penalties
        return distances

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the sensitivity of the distances to one row: each changes by 1, or by 2 if a row is replaced."""
        one = 2.0 if relation == "replace_one" else 1.0
        return one if norm == math.inf else one * self.dimension ** (1 / norm) * (1 + 2.0**-50)

    def describe(self) -> str:
        """Return a description of the statistic."""
        return f"the distances of {self.dimension} contingency tables from their expectations"


def cell_indicators(columns: Sequence[Column], places: Sequence[int]) -> OneHot:
    """Return the features that count the rows in each cell of the contingency table of the given columns."""
    return OneHot(*(columns[place] for place in places))


def candidates(
    sizes: Sequence[int],
    counts: Sequence[Array],
    measured: Sequence[tuple[Clique, Array]],
    rows: float,
    noise: float,
    *,
    width: int,
    target: int | None,
) -> list[Candidate]:
    """Return the candidate tables: of two columns at first, then of one new column and columns of the model.

    Parameters
    ----------
    sizes : sequence of int
        The number of codes of each column.
    counts : sequence of ndarray
        The counts of the codes of each, not negative.
    measured : sequence of (Clique, ndarray)
        The noisy tables so far.
    rows, noise : float
        The number of rows, and the standard error of each cell of a table.
    width : int
        The most columns that a table joins a new one to.
    target : int, optional
        A column that is in every table.

    Returns
    -------
    list of Candidate
        Those in which noise alone is not farther than all rows; none if all columns have a table.
    """
    found = []
    for clique, joined in _cliques(len(sizes), measured, width, target):
        cells = math.prod(sizes[place] for place in clique.columns)
        penalty = math.ceil(_MEAN_NOISE * noise * cells)
        if penalty > rows or cells > CELLS_MAX:
            continue
        if joined is None:
            first, second = clique.columns
            expected = np.multiply.outer(counts[first], counts[second]) / rows
        else:
            known = simplex(margin(joined[1], joined[0].columns, clique.separator), rows)
            (new,) = clique.new
            product = np.multiply.outer(known, counts[new]) / rows
            expected = np.moveaxis(product, -1, clique.columns.index(new))
        found.append(Candidate(clique, np.rint(expected), penalty))
    return found


def _cliques(
    d: int, measured: Sequence[tuple[Clique, Array]], width: int, target: int | None
) -> Iterator[tuple[Clique, tuple[Clique, Array] | None]]:
    """Yield the cliques that can extend the model, each with a measured table that contains its separator."""
    if not measured:
        pairs = itertools.combinations(range(d), 2)
        yield from ((Clique(pair, ()), None) for pair in pairs if target is None or target in pair)
        return
    placed = {place for clique, _ in measured for place in clique.columns}
    separators: dict[tuple[int, ...], tuple[Clique, Array]] = {}
    for each in measured:
        for size in range(1, width + 1):
            separators |= dict.fromkeys(itertools.combinations(each[0].columns, size), each)
    for new in range(d):
        if new not in placed:
            for separator, joined in separators.items():
                if target is None or target in separator:
                    yield Clique((new,), separator), joined
