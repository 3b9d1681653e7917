"""Model of a table: noisy contingency tables are made consistent, and rows are drawn clique by clique."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy.inference.counts import project_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Clique", "Model", "NoisyTable", "margin", "simplex"]

_ROUNDS = 6
_LEAST = 1e-12  # share of rows, for cells of groups without any


@dataclass(frozen=True)
class Clique:
    """Columns of a contingency table, by index: those new to the model, and those already in it (separator)."""

    new: tuple[int, ...]
    separator: tuple[int, ...]

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """Sorted indices of all columns of the clique."""
        return tuple(sorted((*self.new, *self.separator)))


@dataclass(frozen=True)
class NoisyTable:
    """Noisy contingency table of some columns, with the variance of the noise in its counts.

    Attributes
    ----------
    columns : tuple of int
        Indices of the columns, in ascending order.
    counts : ndarray of shape (codes of the first, ...)
        The noisy counts.
    variance : ndarray
        The variance of the noise in each, of a shape that broadcasts.
    """

    columns: tuple[int, ...]
    counts: Array
    variance: Array

    def margin(self, columns: Sequence[int]) -> tuple[Array, Array]:
        """Return the marginal counts of some of the table's columns, and the variances of their noise."""
        variance = np.broadcast_to(self.variance, self.counts.shape)
        return margin(self.counts, self.columns, columns), margin(variance, self.columns, columns)


def margin(table: Array, columns: Sequence[int], kept: Sequence[int]) -> Array:
    """Sum a table over all columns except those that are kept."""
    summed: Array = table.sum(axis=tuple(at for at, column in enumerate(columns) if column not in kept))
    return summed


def simplex(counts: Array, total: float) -> Array:
    """Return the nearest nonnegative counts with the given sum."""
    return project_counts(counts.ravel(), total).reshape(counts.shape)


def make_consistent(tables: Sequence[NoisyTable], rows: float) -> list[Array]:
    """Return nonnegative tables near the noisy ones, with equal totals and nearly equal shared margins.

    Margins that tables share become their average, weighted by the inverse of the variance of its noise; then each
    table the nearest without negative counts; a few times over.
    """
    fitted, margins = [table.counts for table in tables], _shared_margins(tables)
    for _ in range(_ROUNDS):
        for shared in margins:
            held = [at for at, table in enumerate(tables) if set(shared) <= set(table.columns)]
            if len(held) > 1:
                parts = [margin(fitted[at], tables[at].columns, shared) for at in held]
                weights = [1 / tables[at].margin(shared)[1] for at in held]
                average = sum(w * part for w, part in zip(weights, parts, strict=True)) / sum(weights)
                for at, part in zip(held, parts, strict=True):
                    fitted[at] = _with_margin(fitted[at], tables[at].columns, shared, average - part)
        fitted = [simplex(table, rows) for table in fitted]
    return fitted


def _shared_margins(tables: Sequence[NoisyTable]) -> list[tuple[int, ...]]:
    """Return the sets of columns that pairs of tables share, and each single column, sorted by size."""
    pairs = itertools.combinations((set(table.columns) for table in tables), 2)
    every = {tuple(sorted(a & b)) for a, b in pairs if a & b}
    return sorted(every | {(place,) for table in tables for place in table.columns}, key=lambda m: (len(m), m))


def _with_margin(table: Array, columns: Sequence[int], shared: Sequence[int], more: Array) -> Array:
    """Add `more` to the marginal counts of a table, divided equally among the cells of each marginal count."""
    cells = math.prod(size for size, column in zip(table.shape, columns, strict=True) if column not in shared)
    wide = [size if column in shared else 1 for size, column in zip(table.shape, columns, strict=True)]
    changed: Array = table + (more / cells).reshape(wide)
    return changed


@dataclass(frozen=True)
class Model:
    """Model of the codes of all columns: cliques with tables, in each of which new columns depend on a separator.

    Attributes
    ----------
    sizes : tuple of int
        Number of codes of each column.
    cliques : tuple of Clique
        In an order in which the columns that each joins new ones to are in an earlier one.
    tables : tuple of ndarray
        The counts of their cells, not negative.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Clique, ...]
    tables: tuple[Array, ...]

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Draw codes of rows, by systematic sampling, so that each table's shares are matched closely.

        Parameters
        ----------
        rows : int
            How many.
        rng : numpy.random.Generator
            What draws.

        Returns
        -------
        ndarray of shape (rows, columns)
            The codes.
        """
        codes = np.zeros((rows, len(self.sizes)), dtype=np.intp)
        for clique, table in zip(self.cliques, self.tables, strict=True):
            before = [self.sizes[place] for place in clique.separator]
            at = [clique.columns.index(place) for place in (*clique.separator, *clique.new)]
            shares = table.transpose(at).reshape(math.prod(before), -1)
            group = np.zeros(rows, dtype=np.intp)
            if clique.separator:
                group = np.ravel_multi_index(tuple(codes[:, clique.separator].T), before)
            cells = _apportioned(group, shares, rng)
            new = [self.sizes[place] for place in clique.new]
            for place, of in zip(clique.new, np.unravel_index(cells, new), strict=True):
                codes[:, place] = of
        return codes


def _apportioned(group: NDArray[np.intp], shares: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw a cell for each row by its group's shares; each cell's count is its expectation, rounded up or down."""
    cells, order = np.zeros(len(group), dtype=np.intp), np.argsort(group, kind="stable")
    every = shares.sum(axis=0) + _LEAST
    ends = np.cumsum(np.bincount(group, minlength=len(shares)))
    for at, rows in enumerate(np.split(order, ends[:-1])):
        if len(rows):
            chances = shares[at] + _LEAST * every  # of a group that the table has none of: those of all rows
            cells[rows] = rng.permutation(_systematic(chances / chances.sum(), len(rows), rng))
    return cells


def _systematic(chances: Array, rows: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw a systematic sample in which each cell's count is its expectation, rounded up or down."""
    steps = (np.arange(rows) + rng.uniform()) / rows
    found: NDArray[np.intp] = np.searchsorted(np.cumsum(chances), steps * (1 - 1e-12), side="right")
    return found.clip(max=len(chances) - 1)
