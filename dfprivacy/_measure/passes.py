"""One pass of the rows for all groups of a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dfprivacy._measure.query import Query, copied, key_of, pickled
from dfprivacy.features import OneHot, RowFeatures

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from dfprivacy._measure.evaluate import Table
    from dfprivacy.features.integers import Integers
    from dfprivacy.schema import Column
    from dfprivacy.statistics import Statistic

__all__ = ["Common", "Law", "Passes"]

T = TypeVar("T")
Law = tuple[str, float, object]
_TOGETHER = 1 << 22  # sums of one pass, so that many groups of many coordinates fit the memory


@dataclass
class _Made:
    """Something that was made once for all groups, which keeps its identity taken, and the query that asks it."""

    value: object
    query: Query | None = None


@dataclass(frozen=True)
class Common:
    """What the groups of a call have in common: what is public, the exact sums so far, and noisy parts of them.

    `first` holds the place of the first group that read any row.
    """

    queries: dict[bytes, Query] = field(default_factory=dict)
    made: dict[int, _Made] = field(default_factory=dict)
    worked_out: dict[tuple[object, ...], Any] = field(default_factory=dict)
    sums: dict[tuple[bytes, int], Integers] = field(default_factory=dict)
    noisy: dict[tuple[bytes, int, Law], dict[int, NDArray[np.int64]]] = field(default_factory=dict)
    first: list[int] = field(default_factory=list)

    def clear(self) -> None:
        """Forget all that follows from rows."""
        self.sums.clear()
        self.noisy.clear()


@dataclass(frozen=True)
class Passes:
    """One pass of the data for all groups of a call: a group's place among them, and what they have in common.

    What the first group that reads any row measures is summed for all groups at once, by the product of one-hot
    categories and features. Another group that asks for the same features on the same grid finds its sum there, the
    same whole numbers as from a pass of its own. What differs from the first group's is read by itself.
    """

    table: Table
    by: tuple[Column, ...]
    place: int
    common: Common

    def read(self, measurand: RowFeatures | Statistic) -> Query:
        """Give a copy of what is asked, with what it said when a group first asked the same."""
        made = self.common.made.get(
            id(measurand)
        )  # which nobody writes to; anything else may have changed meanwhile
        if made is None:
            return self._read(measurand)
        if made.query is None:
            made.query = self._read(measurand)
        return made.query

    def made(self, make: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        """Make something of public arguments, when the first group asks for it."""
        key = (make, *arguments)
        if key not in self.common.worked_out:
            self.common.worked_out[key] = value = make(*arguments)
            self.common.made[id(value)] = _Made(value)
        return cast("T", self.common.worked_out[key])

    def _read(self, measurand: RowFeatures | Statistic) -> Query:
        key = key_of(measurand)
        if key not in self.common.queries:
            self.common.queries[key] = Query.read(measurand).copy()
        return self.common.queries[key]

    def once(self, query: Query, about: tuple[object, ...], work_out: Callable[[], T]) -> T:
        """Work out what depends on no group, when the first one needs it."""
        if not query.written:
            return work_out()
        key = (query.written, *about)
        if key not in self.common.worked_out:
            self.common.worked_out[key] = work_out()
        return cast("T", self.common.worked_out[key])

    def total(self, features: RowFeatures, k: int, written: bytes) -> Integers | None:
        """Exact sum of the features over the group's rows; None if it takes a pass of its own."""
        key = self._summed(features, k, written)
        start, sums = self.place * features.dimension, self.common.sums
        return sums[key][start : start + features.dimension] if key in sums else None

    def perturbed(
        self, query: Query, k: int, law: Law, add: Callable[[Integers], NDArray[np.int64]]
    ) -> NDArray[np.int64] | None:
        """Sum of the group with noise, which no group gets twice; None if it takes a pass or a draw of its own."""
        key, noisy = self._summed(query.of, k, query.written), self.common.noisy  # type: ignore[arg-type]
        if key not in self.common.sums:
            return None
        if (*key, law) not in noisy:
            if noisy:  # what comes later may follow from what this group measured first
                return None
            every = add(self.common.sums[key]).reshape(-1, query.dimension)
            noisy[*key, law] = dict(enumerate(every))
        return noisy[*key, law].pop(self.place, None)

    def _summed(self, features: RowFeatures, k: int, written: bytes) -> tuple[bytes, int]:
        """Read the rows for all groups if this is the first group to ask; the key of what it asks."""
        key, first, sums = (written or pickled(features), k), self.common.first, self.common.sums
        if not first:  # groups before it were kept in the ledger
            first.append(self.place)
        if first == [self.place] and key not in sums:
            product = OneHot(*self.by, of=copied(features))
            if product.summands <= _TOGETHER:
                sums[key] = self.table._total(product, k)  # noqa: SLF001 - of our own kind
        return key
