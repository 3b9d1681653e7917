"""A sample of rows that is told from the rows' own values: neighbouring tables have neighbouring samples.

Whether the j-th of the rows with the same values is drawn follows from a hash of these values and of j. So which
values are drawn, and how often, does not depend on the order of rows; and one more row with some values draws one
more row with these values, or none. docs/explanation/kernel_two_sample.md proves what follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.features import Batch
    from dfprivacy_kernel.embedding import Embedding
    from dfprivacy_kernel.groups import Groups

    Hashes = NDArray[np.uint64]

__all__ = ["drawn", "share_of"]

_ROWS, _ROWS_EACH = 1 << 15, 1 << 8
_FINEST = 32  # a share is a whole multiple of 2^-32

# SplitMix64 (Steele, Lea and Flood 2014), with which neighbouring numbers have unlike hashes.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST = np.uint64(31)


def share_of(groups: Groups, embeddings: Sequence[Embedding], epsilon: float) -> float:
    """Tell what share of the rows tells enough of their spread.

    Parameters
    ----------
    groups : Groups
        Which rows are compared.
    embeddings : sequence of Embedding
        What becomes of a row.
    epsilon : float
        Budget of the test: with less, noise is larger beside few rows.

    Returns
    -------
    float
        1 up to 2^15 rows, or 256 for each landmark if that is more, and 1/epsilon times as many for an epsilon
        below 1. Of more rows, what leaves as many. 1 where the number of rows is private.
    """
    if groups.rows is None:
        return 1.0
    enough = max(_ROWS, _ROWS_EACH * max(each.width for each in embeddings)) / min(1.0, epsilon)
    return min(1.0, -(-(enough * 2.0**_FINEST) // sum(groups.rows)) * 2.0**-_FINEST)


def drawn(rows: Batch, columns: Sequence[Column], chosen: NDArray[np.bool_], share: float) -> NDArray[np.bool_]:
    """Draw a share of the chosen rows, by their values in some columns.

    Parameters
    ----------
    rows : Batch
        The rows.
    columns : sequence of Column
        Those by whose values a row is drawn.
    chosen : ndarray of bool, shape (rows,)
        The rows of which to draw.
    share : float
        Chance of a row, a whole multiple of 2^-32.

    Returns
    -------
    ndarray of bool, shape (rows,)
        The rows that are drawn.
    """
    if share >= 1:
        return chosen
    places = np.flatnonzero(chosen)
    values = [(rows.values(c) if c.bounds is not None else rows.codes(c))[places] for c in columns]
    hashes = np.zeros(len(places), dtype=np.uint64)
    for each in values:
        hashes = _mixed(hashes + (each + 0.0).view(np.uint64))  # -0 is 0
    lots = _mixed(hashes + _copies(hashes, values)) >> np.uint64(64 - _FINEST)
    found = np.zeros(rows.size, dtype=np.bool_)
    found[places[lots < np.uint64(share * 2.0**_FINEST)]] = True
    return found


def _mixed(numbers: Hashes) -> Hashes:
    """Hash whole numbers of 64 bits, one to one; they are overwritten."""
    numbers += _GAMMA
    for shift, times in _MIX:
        numbers ^= numbers >> shift
        numbers *= times
    numbers ^= numbers >> _LAST
    return numbers


def _copies(hashes: Hashes, values: Sequence[NDArray[Any]]) -> Hashes:
    """Count for each row how many before it have the same values; other rows of the same hash do not matter."""
    copies = np.zeros(len(hashes), dtype=np.uint64)
    ordered = np.sort(hashes)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not twice.size:
        return copies
    near = np.minimum(np.searchsorted(twice, hashes), len(twice) - 1)
    places = np.flatnonzero(twice[near] == hashes)
    alike = [each[places] for each in values]
    order = np.lexsort(alike)
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = np.any([each[order][1:] != each[order][:-1] for each in alike], axis=0)
    starts = np.flatnonzero(first)
    since = np.arange(len(order)) - starts[np.cumsum(first) - 1]
    copies[places[order]] = since.astype(np.uint64)
    return copies
