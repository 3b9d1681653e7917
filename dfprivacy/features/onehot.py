"""Categories, and other features by category."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from dfprivacy._table.batch import category
from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import Norm, RowFeatures, enforced
from dfprivacy.features.integers import together
from dfprivacy.features.upward import UP, root
from dfprivacy.schema import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Read
    from dfprivacy.features.integers import Integers

__all__ = ["OneHot"]

_FEW = 4  # places up to which it is faster to compare than to sort rows into bins


@final
class OneHot(RowFeatures):
    r"""One-hot categories: the sum counts rows by category. A product with other features sums them by category.

    Parameters
    ----------
    *keys : Column
        Columns with categories. With several, a category is a combination of one of each: the sum has the shape
        (categories of the first, of the second, …).
    groups : sequence, or mapping of names to sequences, optional
        The categories to keep, in this order; rows of others count nowhere. With several keys, by column. Default:
        all.
    of : RowFeatures, optional
        Features to sum within each category; ``OneHot(by) * Moments(x)`` is the same.

    Notes
    -----
    A row is in one category at most, so the radius is that of `of`. Two rows in different categories are
    2 radii apart in L1, √2 radii in L2 and one in the norm of infinity, whose largest cell counts alone; two in the
    same, a diameter of `of`. If the category is public, a row cannot change it, and only the last remains: with
    several keys, if all are public. ``OneHot(a, b)`` is ``OneHot(a) * OneHot(b)``.
    """

    def __init__(
        self,
        *keys: Column,
        groups: Sequence[object] | Mapping[str, Sequence[object]] | None = None,
        of: RowFeatures | None = None,
    ) -> None:
        if not keys or any(not isinstance(key, Column) for key in keys):
            raise ArgumentError("OneHot takes columns with categories.", "Give the categories to keep as groups=.")
        column, *others = keys
        if isinstance(groups, Mapping) or others:
            by_name = {} if groups is None else groups
            names = [key.name for key in keys]
            if not isinstance(by_name, Mapping) or not by_name.keys() <= set(names) or len({*names}) < len(names):
                raise ArgumentError(
                    f"groups={groups!r} does not say which categories of {names!r} to keep.",
                    f"Name each column once, and give groups by column: {{{names[0]!r}: [...]}}.",
                )
            if others:
                rest = {name: kept for name, kept in by_name.items() if name != column.name}
                of = OneHot(*others, groups=rest, of=of)
            groups = by_name.get(column.name)
        known = column.categories or ()
        codes = range(len(known)) if groups is None else column.codes(groups)
        if not codes or len(set(codes)) < len(codes):
            raise ArgumentError(
                f"groups={groups!r} must name at least one category, each once.",
                f"The categories of {column.name!r} are {list(known)!r}.",
            )
        self.by = column
        self.groups = tuple(known[code] for code in codes)
        self.of = of = None if of is None else enforced(of)
        self.columns = (column, *(of.columns if of else ()))
        self.shape = (len(codes), *(of.shape if of else ()))
        self.weights = of.weights if of else 1.0
        self._codes = np.array(codes)
        self._place = np.full(len(known) + 1, len(codes), dtype=np.intp)
        self._place[self._codes] = np.arange(len(codes))

    def __mul__(self, of: RowFeatures) -> OneHot:
        if self.of is None:
            return OneHot(self.by, groups=self.groups, of=of)
        if isinstance(self.of, OneHot):
            return OneHot(self.by, groups=self.groups, of=self.of * of)
        raise ArgumentError(f"{self.describe()} cannot be multiplied further.", "Only OneHot features multiply.")

    @property
    def reads(self) -> Sequence[Read]:
        """How the columns are read."""
        return [category(self.by), *(self.of.reads if self.of else ())]

    @property
    def support(self) -> int:
        """Most coordinates that one row can make different from zero."""
        return self.of.support if self.of else 1

    @property
    def summands(self) -> int:
        """Number of coordinates that are added up."""
        return len(self.groups) * (self.of.summands if self.of else 1)

    @property
    def unit(self) -> float | None:
        """One row, or the unit of what is summed by category."""
        return self.of.unit if self.of else 1.0

    @property
    def stacked(self) -> tuple[RowFeatures, ...]:
        """The features whose sums lie one after the other along the last axis."""
        return self.of.stacked if self.of else ()

    @property
    def threaded(self) -> bool:
        """Whether several batches are worked through side by side."""
        return self.of is not None and self.of.threaded

    @property
    def portable(self) -> bool:
        """Whether all processors give the same bits."""
        return self.of is None or self.of.portable

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
        hot = np.eye(len(self.groups) + 1)[self._place[batch.codes(self.by)], :-1]
        if self.of is None:
            return hot
        inner = self.of.rows(batch).reshape(batch.size, 1, self.of.dimension)
        product: NDArray[np.float64] = (hot[:, :, None] * inner).reshape(batch.size, self.dimension)
        return product

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return the vectors of a batch in whole steps, those of `of` clipped as they would be alone."""
        hot = np.eye(len(self.groups) + 1)[self._place[batch.codes(self.by)], :-1]
        inner = self.of.steps(batch, k) if self.of else np.full((batch.size, 1), math.ldexp(1.0, k))
        product: NDArray[np.float64] = (hot[:, :, None] * inner[:, None, :]).reshape(batch.size, self.summands)
        return product

    def total(self, batch: Batch, mask: NDArray[np.bool_] | None, k: int) -> NDArray[np.float64]:
        """Return the exact sum of a batch in whole steps, without building the product."""
        if self._single:
            inside = batch.among(self.by, int(self._codes[0]))
            number = np.count_nonzero(inside if mask is None else inside & mask)
            return np.array([math.ldexp(number, k)])
        place = self._places(batch)
        if mask is not None:
            place = np.where(mask, place, len(self.groups))
        return self._sums(batch, place, len(self.groups), k).ravel()

    @property
    def counted(self) -> tuple[NDArray[np.intp], ...] | None:
        """The sets of what is counted by category, if rows count so in that."""
        if self.of is None or (counted := self.of.counted) is None:
            return None
        starts = self.of.summands * np.arange(len(self.groups))
        return tuple((starts[:, None] + within).ravel() for within in counted)

    def cells(self, batch: Batch, mask: NDArray[np.bool_] | None) -> list[NDArray[np.intp]]:
        """Return the place of each row in each set."""
        if self.of is None:
            raise NotImplementedError
        own, starts, cells = self._places(batch), {}, []  # a row of no category begins at the end
        for within, counted in zip(self.of.cells(batch, mask), self.of.counted or (), strict=True):
            width = len(counted)
            if width not in starts:
                starts[width] = own * width
            places = starts[width] + within
            if batch.size and within.max() >= width:
                places[within >= width] = len(self.groups) * width
            cells.append(places)
        return cells

    def totals(self, batch: Batch, place: NDArray[np.intp], bins: int, k: int) -> NDArray[np.float64]:
        """Return the same for the rows at each place below `bins`, shape (bins, summands)."""
        groups = len(self.groups)
        if self._single and bins <= _FEW:
            inside = np.ascontiguousarray(batch.among(self.by, int(self._codes[0])))
            numbers = [np.count_nonzero(inside & (place == each)) for each in range(bins)]
            return np.ldexp(np.array(numbers, dtype=np.float64), k)[:, None]
        own = self._places(batch)
        both = np.where((place < bins) & (own < groups), place * groups + own, bins * groups)
        return self._sums(batch, both, bins * groups, k).reshape(bins, self.summands)

    def _places(self, batch: Batch) -> NDArray[np.intp]:
        """Return the place of each row's category, their number for any other. Not to be written to."""
        codes = batch.codes(self.by)
        return codes if self._in_order else self._place[codes]

    @cached_property
    def _in_order(self) -> bool:
        """Whether all categories are kept, in the order of their codes."""
        return np.array_equal(self._place, np.arange(len(self._place)))

    @property
    def _single(self) -> bool:
        """Whether one category is counted, which takes no codes of the others."""
        return self.of is None and len(self.groups) == 1

    def _sums(self, batch: Batch, place: NDArray[np.intp], bins: int, k: int) -> NDArray[np.float64]:
        if self.of is not None:
            return self.of.totals(batch, place, bins, k)
        return np.bincount(place, minlength=bins + 1)[:bins].astype(np.float64) * math.ldexp(1.0, k)

    def image(self, total: Integers, k: int) -> Integers:
        """Return the released coordinates of the exact sums, category by category."""
        if self.of is None:
            return total
        width = self.of.summands
        return together([self.of.image(total[at : at + width], k) for at in range(0, len(total), width)])

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector."""
        return self.of.radius(norm) if self.of else 1.0

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        within = self.of.diameter(norm, public) if self.of else 0.0
        if self.by.name in public:
            return within
        radius = self.radius(norm)  # from a category to none, or to another
        cells = {1: 2.0, 2: root(2) * UP, math.inf: 1.0}[norm] if len(self.groups) > 1 else 1.0
        return max(within, radius * cells)

    def describe(self) -> str:
        """Name the feature in words."""
        inner = f" x {self.of.describe()}" if self.of else ""
        return f"OneHot({self.by.name}){inner}"
