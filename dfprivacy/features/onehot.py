"""Categories, and other features by category."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from dfprivacy._table.batch import category
from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import UP, Composed, Norm, RowFeatures, enforced, root, together
from dfprivacy.features.moments import Count
from dfprivacy.schema import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Read
    from dfprivacy.features.base import Integers

__all__ = ["OneHot"]


@final
class OneHot(Composed):
    r"""One-hot categories: the sum counts rows by category. Times other features: their sums by category.

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
    def _of(self) -> RowFeatures:
        """Features that are summed by category: rows, if none are given."""
        return Count() if self.of is None else self.of

    @property
    def inner(self) -> Sequence[RowFeatures]:
        """Features that are summed by category."""
        return (self._of,)

    @property
    def reads(self) -> Sequence[Read]:
        """How the columns are read."""
        return [category(self.by), *self._of.reads]

    @property
    def summands(self) -> int:
        """Number of coordinates that are added up."""
        return len(self.groups) * self._of.summands

    @property
    def stacked(self) -> tuple[RowFeatures, ...]:
        """The features whose sums lie one after the other along the last axis."""
        return self._of.stacked

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
        return self._by_category(batch, self._of.rows(batch).reshape(batch.size, self._of.dimension))

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return the vectors of a batch in whole steps, those of `of` clipped as they would be alone."""
        return self._by_category(batch, self._of.steps(batch, k))

    def _by_category(self, batch: Batch, inner: NDArray[np.float64]) -> NDArray[np.float64]:
        hot = np.eye(len(self.groups) + 1)[self._places(batch), :-1]
        product: NDArray[np.float64] = (hot[:, :, None] * inner[:, None, :]).reshape(
            batch.size, hot.shape[1] * inner.shape[1]
        )
        return product

    def totals(self, batch: Batch, place: NDArray[np.intp] | None, bins: int, k: int) -> NDArray[np.float64]:
        """Return the exact sums at each place below `bins`, shape (bins, summands), without the product."""
        groups, own = len(self.groups), self._places(batch)
        if place is not None:
            own = np.where((place < bins) & (own < groups), place * groups + own, bins * groups)
        return self._of.totals(batch, own, bins * groups, k).reshape(bins, self.summands)

    def _places(self, batch: Batch) -> NDArray[np.intp]:
        """Return the place of each row's category, their number for any other. Not to be written to."""
        codes = batch.codes(self.by)
        return codes if self._in_order else self._place[codes]

    @cached_property
    def _in_order(self) -> bool:
        """Whether all categories are kept, in the order of their codes."""
        return np.array_equal(self._place, np.arange(len(self._place)))

    def image(self, total: Integers, k: int) -> Integers:
        """Return the released coordinates of the exact sums, category by category."""
        if self.of is None:
            return total
        width = self.of.summands
        return together([self.of.image(total[at : at + width], k) for at in range(0, len(total), width)])

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector."""
        return self._of.radius(norm)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        within = self._of.diameter(norm, public)
        if self.by.name in public:
            return within
        radius = self.radius(norm)  # from a category to none, or to another
        cells = {1: 2.0, 2: root(2) * UP, math.inf: 1.0}[norm] if len(self.groups) > 1 else 1.0
        return max(within, radius * cells)

    def describe(self) -> str:
        """Name the feature in words."""
        inner = f" x {self.of.describe()}" if self.of else ""
        return f"OneHot({self.by.name}){inner}"
