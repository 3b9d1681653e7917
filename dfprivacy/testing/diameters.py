"""The search for two rows that prove a stated diameter wrong, and for one that is not of whole units.

A diameter of its author's is proved by nobody else, and the core takes it for granted. It is about the feature
alone, so no mechanism is performed here: rows are made up, and mapped, and moved apart as far as they go.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._privacy.grid import exact_exponent
from dfprivacy._table.batch import BATCH_ROWS
from dfprivacy.features import RowFeatures
from dfprivacy.features.base import UNIT_SLACK, enforced
from dfprivacy.testing.cases import candidates, fine_steps
from dfprivacy.testing.harness import Harness

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy.testing.cases import Row

__all__ = ["Apart", "broken", "foreign", "refuted"]

_ROWS = 40  # random rows, besides corners and odd ones
_HALVINGS = 10
_COLUMNS = 3  # of which each may be public or not


@dataclass(frozen=True)
class Apart:
    """Two rows whose vectors are further apart than the author of a feature says that any are.

    Attributes
    ----------
    rows : tuple of dict
        The two.
    norm : float
        The norm.
    public : tuple of str
        Columns on which they agree.
    distance, diameter : float
        How far apart they are, and should be at most.
    """

    rows: tuple[Row, Row]
    norm: float
    public: tuple[str, ...]
    distance: float
    diameter: float


def foreign(thing: Any) -> Any:
    """Give somebody else's features as the core takes them; None if they are none."""
    held = enforced(thing) if isinstance(thing, RowFeatures) else thing
    return None if held is thing else held


def broken(held: RowFeatures, stage: Harness) -> Row | None:
    """Search for a row whose vector is not of whole units.

    Parameters
    ----------
    held : RowFeatures
        What `foreign` gave.
    stage : Harness
        What is public about the table.

    Returns
    -------
    dict or None
        The row; None if none was found.
    """
    case = replace(stage.case, where={}, group_by=None)
    maps = _Maps(held, Harness(stage.mechanism, case), 0)
    rows = [row for part in maps.stage.parts(candidates(case, _ROWS)) for row in part]
    units = maps.vectors(rows) / (held.unit or 1.0)
    off = (np.abs(units - np.rint(units)) > UNIT_SLACK * np.abs(units)).any(axis=1)
    return rows[int(off.argmax())] if off.any() else None


def refuted(held: RowFeatures, stage: Harness) -> Apart | None:
    """Search for two rows that are further apart than features say.

    Parameters
    ----------
    held : RowFeatures
        What `foreign` gave.
    stage : Harness
        What is public about the table.

    Returns
    -------
    Apart or None
        None if none were found, in the norms 1, 2 and infinity, for any of the columns public.
    """
    case = replace(stage.case, where={}, group_by=None)
    maps = _Maps(held, Harness(stage.mechanism, case), exact_exponent(held.radius(2), BATCH_ROWS))
    rows = [row for part in maps.stage.parts(candidates(case, _ROWS)) for row in part]
    vectors = maps(rows)
    for public in _subsets([column.name for column in held.columns]):
        for norm in (1, 2, math.inf):
            diameter = held.diameter(norm, frozenset(public))
            a, b, distance = _widest(rows, vectors, norm, public)
            if distance <= maps.allowed(diameter, norm):
                a, b, distance = _climbed(maps, a, b, norm, public)
            if distance > maps.allowed(diameter, norm):
                return Apart((a, b), norm, public, math.ldexp(distance, -maps.k), diameter)
    return None


@dataclass(frozen=True)
class _Maps:
    """What maps rows to vectors in whole steps, clipped as in a sum."""

    held: RowFeatures
    stage: Harness
    k: int

    def __call__(self, rows: Sequence[Row]) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            return self.held.steps(self._batch(rows), self.k)

    def vectors(self, rows: Sequence[Row]) -> NDArray[np.float64]:
        """Give the vectors as their author has them, those of rows without one left out."""
        with np.errstate(all="ignore"):
            vectors = np.array(self.held.rows(self._batch(rows)), dtype=np.float64).reshape(len(rows), -1)
        return np.where(np.isfinite(vectors), vectors, 0.0)

    def _batch(self, rows: Sequence[Row]) -> Batch:
        stage = self.stage
        views = stage.views(stage.frames(rows), stage.accounts_of([]))
        return stage.question(views).target.table.gathered(self.held.columns)

    def allowed(self, diameter: float, norm: float) -> float:
        """Give the sensitivity in steps that the core charges, rounding included."""
        moved = 1.0 if norm == math.inf else self.held.support ** (1 / norm)
        return (math.ldexp(diameter, self.k) + moved + 1) * (1 + 1e-12)


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    few = names if len(names) <= _COLUMNS else ()
    yield from itertools.chain.from_iterable(itertools.combinations(few, size) for size in range(len(few)))
    if not few:
        yield from [(), *((name,) for name in names)]


def _widest(
    rows: Sequence[Row], vectors: NDArray[np.float64], norm: float, public: Sequence[str]
) -> tuple[Row, Row, float]:
    """Find the two rows furthest apart that agree on the public columns."""
    by_class: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        by_class.setdefault(repr([row[name] for name in public]), []).append(at)
    best = (rows[0], rows[0], 0.0)
    for members in by_class.values():
        for place, at in enumerate(members):
            apart = np.linalg.norm(vectors[members[place:]] - vectors[at], ord=norm, axis=1)
            if apart.max() > best[2]:
                best = (rows[at], rows[members[place + int(apart.argmax())]], float(apart.max()))
    return best


def _climbed(maps: _Maps, a: Row, b: Row, norm: float, public: Sequence[str]) -> tuple[Row, Row, float]:
    """Move the numbers of either row as long as that takes the two further apart."""
    for power in range(1, _HALVINGS + 1):
        for _ in range(2):
            steps = fine_steps(maps.stage.case, a, 2.0**-power)
            moved = [b, a, *(row for row in steps if all(repr(row[name]) == repr(a[name]) for name in public))]
            fixed, *vectors = maps(moved)
            apart = np.linalg.norm(np.array(vectors) - fixed, ord=norm, axis=1)
            a, b = b, moved[1 + int(apart.argmax())]
    return a, b, float(np.linalg.norm(np.subtract(*maps([a, b])), ord=norm))
