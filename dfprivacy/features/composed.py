"""Row features composed of others: multiplied by category indicators, zero on incomplete rows, or concatenated."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dfprivacy._privacy.conversions import float_above
from dfprivacy._table.batch import category, declared_read
from dfprivacy._words import join_names
from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import UP, Norm, RowFeatures, common_unit, concatenate, enforce_bounds, integers, root
from dfprivacy.features.moments import Count
from dfprivacy.schema import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Read
    from dfprivacy.features.base import Integers

__all__ = ["Composed", "Given", "OneHot", "PerGroup", "Stack"]


class Composed(RowFeatures):
    """Base class of features that are composed of other features.

    Attributes
    ----------
    inner : tuple of RowFeatures
        The other features, from which the rest follows.
    """

    inner: tuple[RowFeatures, ...]

    def _set_attributes(self, inner: Iterable[RowFeatures], own: Iterable[Read] = (), *, more: int = 0) -> None:
        """Set attributes such as `n_sums` from inner features, own requests to read and `more` own coordinates."""
        self.inner, reads = tuple(inner), [*own]
        self.n_sums = self.support = more
        self.portable = True
        for each in self.inner:
            reads += each.reads
            self.n_sums += each.n_sums
            self.support += each.support
            self.portable &= each.portable
            self.threaded |= each.threaded
        self.reads = reads

    @property
    def unit(self) -> float | None:
        """Largest power of two that divides the units of all inner features; None if any of them has no unit."""
        return common_unit(each.unit for each in self.inner)


@final
class OneHot(Composed):
    r"""Indicators of a row's category, optionally times features: sums are counts, or feature sums, by category.

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
        self.of = of = None if of is None else enforce_bounds(of)
        self._summed = Count() if of is None else of  # what is summed by category: rows, if nothing is given
        self.columns = (column, *self._summed.columns)
        self.shape = (len(codes), *(of.shape if of else ()))
        self.weights = self._summed.weights
        self._set_attributes([self._summed], [category(column)])
        self.n_sums *= len(codes)
        self.stacked = self._summed.stacked
        self._codes = np.array(codes)
        self._index_of_code = np.full(len(known) + 1, len(codes), dtype=np.intp)
        self._index_of_code[self._codes] = np.arange(len(codes))

    def __mul__(self, of: RowFeatures) -> OneHot:
        if self.of is None:
            return OneHot(self.by, groups=self.groups, of=of)
        if isinstance(self.of, OneHot):
            return OneHot(self.by, groups=self.groups, of=self.of * of)
        raise ArgumentError(
            f"OneHot({self.by.name}) has features already.",
            "To sum several features by category, combine them first: OneHot(column) * Stack(a, b).",
        )

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        return self._one_hot(batch, self._summed.rows(batch).reshape(batch.size, self._summed.dimension))

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return a batch's feature vectors as multiples of the grid step; vectors of `of` are clipped."""
        return self._one_hot(batch, self._summed.steps(batch, k))

    def _one_hot(self, batch: Batch, inner: NDArray[np.float64]) -> NDArray[np.float64]:
        hot = np.eye(len(self.groups) + 1)[self._row_categories(batch), :-1]
        product: NDArray[np.float64] = (hot[:, :, None] * inner[:, None, :]).reshape(
            batch.size, hot.shape[1] * inner.shape[1]
        )
        return product

    def totals(self, batch: Batch, labels: NDArray[np.intp] | None, n_groups: int, k: int) -> NDArray[np.float64]:
        """Return the exact sums by group, shape (n_groups, n_sums), as sums of `of` by group and category."""
        groups, own = len(self.groups), self._row_categories(batch)
        if labels is not None:
            own = np.where((labels < n_groups) & (own < groups), labels * groups + own, n_groups * groups)
        return self._summed.totals(batch, own, n_groups * groups, k).reshape(n_groups, self.n_sums)

    def _row_categories(self, batch: Batch) -> NDArray[np.intp]:
        """Return the index of each row's category among those kept, or their number for other values; read-only."""
        codes = batch.codes(self.by)
        return codes if self._keeps_all_categories else self._index_of_code[codes]

    @cached_property
    def _keeps_all_categories(self) -> bool:
        """Whether all categories are kept, in the order of their codes."""
        return np.array_equal(self._index_of_code, np.arange(len(self._index_of_code)))

    def image(self, total: Integers, k: int) -> Integers:
        """Compute the coordinates to release with noise from exact sums, category by category."""
        if self.of is None:
            return total
        width = self.of.n_sums
        return concatenate([self.of.image(total[at : at + width], k) for at in range(0, len(total), width)])

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        return self._summed.radius(norm)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        within = self._summed.diameter(norm, public)
        if self.by.name in public:
            return within
        radius = self.radius(norm)  # from a category to none, or to another
        cells = {1: 2.0, 2: root(2) * UP, math.inf: 1.0}[norm] if len(self.groups) > 1 else 1.0
        return max(within, radius * cells)

    def describe(self) -> str:
        """Return a description of the feature."""
        return (
            f"{_parenthesized_description(self.of)} by {self.by.name}"
            if self.of
            else f"indicators of {self.by.name}"
        )


@final
class Given(Composed):
    """Features `of` on the rows with values in all `columns`, zero on other rows; optionally a tally of rows.

    A row with a missing value then contributes nothing and is not counted, where else it would count with its fill
    value. What is missing is said by `Batch.missing`.

    Parameters
    ----------
    *columns : Column
        The columns that must have a value, at least one.
    of : RowFeatures, optional
        What to sum over these rows; default: `Count`, how many there are.
    tally : tuple of two float, optional
        One more coordinate, the last: the first number for a complete row, the second for any other, so that rows
        are counted in the same vector. The sum is then flat: the coordinates of `of`, and this one.

    Notes
    -----
    The radius is that of `of`. Two rows are a diameter of `of` apart if both are complete, a radius if one is: the
    diameter is the larger of the two, and that of `of` if the columns are public, for then both rows are complete
    or neither is. As most diameters are above the radius, to leave out missing rows mostly costs nothing, and
    ``Given(x, of=Moments(x, count=True))`` also says how many are left.

    With a tally (a, b) and r the radius of `of`, the radius is that of (r, a), or b if that is larger; a complete
    row and another are (r, a - b) apart, where two complete rows are a diameter of `of`. So (0, 1/2) is free beside
    ``Moments(x)`` under Laplace noise, whose radius is 3/2 and diameter 2, where rows change, and (0, 3/2) beside
    ``Moments(x, count=True)`` where they come and go.

    Examples
    --------
    >>> from dfprivacy import Column
    >>> from dfprivacy.features import Moments
    >>> age = Column("age", bounds=(0, 100))
    >>> Given(age, of=Moments(age, degree=1)).diameter(1, frozenset()), Given(age).diameter(1, frozenset())
    (2.0, 1.0)
    >>> Given(age, of=Moments(age, degree=1), tally=(0, 1)).diameter(1, frozenset())
    2.0
    """

    def __init__(
        self, *columns: Column, of: RowFeatures | None = None, tally: tuple[float, float] | None = None
    ) -> None:
        if not columns:
            raise ArgumentError("Given() was given no column.", "Name the columns that must have a value.")
        if tally is not None and not (len(tally) == 2 and all(map(math.isfinite, tally)) and any(tally)):  # noqa: PLR2004
            raise ArgumentError(
                f"tally={tally!r} is not a pair of finite numbers, one of them not 0.",
                "For example tally=(0, 1), which counts the rows that are left out.",
            )
        self.given = columns
        self.of = of = Count() if of is None else enforce_bounds(of)
        self.columns = tuple(dict.fromkeys((*columns, *of.columns)))
        self.tally = None if tally is None else (float(tally[0]), float(tally[1]))
        self.shape, self.weights = of.shape, of.weights
        if tally is not None:
            self.shape = (of.dimension + 1,)
            self.weights = np.append(np.broadcast_to(of.weights, of.shape).ravel(), 1.0)
        self._set_attributes([of], map(declared_read, columns), more=int(tally is not None))
        self.stacked = of.stacked if tally is None else ()

    @property
    def unit(self) -> float | None:
        """Largest power of two that divides the unit of `of` and the tally's numbers; None if `of` has no unit."""
        return common_unit((self.of.unit, *(self.tally or ())))

    def complete(self, batch: Batch) -> NDArray[np.bool_]:
        """Return a mask of the rows of a batch that have a value in all given columns."""
        complete: NDArray[np.bool_] = ~reduce(operator.or_, map(batch.missing, self.given))
        return complete

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        inner = np.asarray(self.of.rows(batch), dtype=np.float64).reshape(batch.size, self.of.dimension)
        return self._vectors_of_rows(self.complete(batch), inner, self.tally)

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return a batch's feature vectors as multiples of the grid step; vectors of `of` are clipped."""
        return self._vectors_of_rows(self.complete(batch), self.of.steps(batch, k), self._tally_in_steps(k))

    def _vectors_of_rows(
        self, complete: NDArray[np.bool_], inner: NDArray[np.float64], tally: tuple[float, float] | None
    ) -> NDArray[np.float64]:
        vectors = np.where(complete[:, None], inner, 0.0)
        return vectors if tally is None else np.column_stack([vectors, np.where(complete, *tally)])

    def _tally_in_steps(self, k: int) -> tuple[float, float] | None:
        """Return the tally's numbers for a complete and an incomplete row, in grid steps; None without a tally."""
        return (
            None if self.tally is None else (_round_to_steps(self.tally[0], k), _round_to_steps(self.tally[1], k))
        )

    def totals(self, batch: Batch, labels: NDArray[np.intp] | None, n_groups: int, k: int) -> NDArray[np.float64]:
        """Return the exact sums of the complete rows' vectors by group, shape (n_groups, n_sums)."""
        inside, complete = labels, self.complete(batch)
        if not complete.all():  # most often nothing is missing, and no row need be picked
            inside = np.where(complete, 0 if labels is None else labels, n_groups)
        totals = self.of.totals(batch, inside, n_groups, k)
        if (tally := self._tally_in_steps(k)) is None:
            return totals
        rows, left = (Count().totals(batch, each, n_groups, 0) for each in (labels, inside))
        return np.hstack([totals, left * tally[0] + (rows - left) * tally[1]])

    def image(self, total: Integers, k: int) -> Integers:
        """Compute the coordinates to release with noise from exact sums."""
        if self.tally is None:
            return self.of.image(total, k)
        return [*integers(self.of.image(total[:-1], k)), *integers(total[-1:])]

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        radius = self.of.radius(norm)
        return radius if self.tally is None else max(_joint_norm(radius, self.tally[0], norm), abs(self.tally[1]))

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        within = self.of.diameter(norm, public)
        if all(column.name in public for column in self.given):
            return within
        apart = 0.0 if self.tally is None else float_above(abs(Fraction(self.tally[0]) - Fraction(self.tally[1])))
        return max(within, _joint_norm(self.of.radius(norm), apart, norm))

    def describe(self) -> str:
        """Return a description of the feature."""
        given = [column.name for column in self.given]
        verb = "are" if len(given) > 1 else "is"
        return f"{_parenthesized_description(self.of)} where {join_names(given)} {verb} not missing"


def _round_to_steps(number: float, k: int) -> float:
    """Return a number divided by 2^-k, rounded to an integer."""
    return float(np.rint(math.ldexp(number, k)))


def _joint_norm(length: float, one: float, norm: Norm) -> float:
    """Return the norm, rounded up, of a vector of norm `length` to which the coordinate `one` is appended."""
    one = abs(one)
    if not one or norm == math.inf:
        return max(length, one)
    if norm == 1:
        return float_above(Fraction(length) + Fraction(one))
    return math.hypot(length, one) * UP


@final
class Stack(Composed):
    r"""Several features in one: the vector of a row is the concatenation of their vectors.

    The `~dfprivacy.NoisyValue` of their sum has one of each feature's shape among its ``parts``.

    Parameters
    ----------
    *features : RowFeatures
        At least one. ``OneHot(by) * Stack(a, b)`` has both by category.

    Notes
    -----
    A row's vector is made of the vectors of the parts, so with :math:`r_1, r_2, \dots` their radii, or their
    diameters for the same public columns, it has at most the length

    .. math:: \sum_i r_i \text{ in L1}, \quad \sqrt{\textstyle\sum_i r_i^2} \text{ in L2}, \quad
       \max_i r_i \text{ in the norm of infinity.}

    So they share one budget: in L2 m parts alike cost √m times what one costs, in the norm of infinity as much as
    one. All coordinates get noise of one scale: a part of large numbers, weights included, drowns the others.

    A part over public columns adds nothing to the diameter, but is **inside the noise as the others are**: asked on
    its own, its sum is exact and free. The sums are those of the parts, on the grid of the stack, to the last bit.
    """

    def __init__(self, *features: RowFeatures) -> None:
        if not features:
            raise ArgumentError("Stack() was given no features.", "Give at least one feature.")
        self.features = tuple(enforce_bounds(each) for each in features)
        self.columns = tuple(dict.fromkeys(column for each in self.features for column in each.columns))
        self.shape = (sum(each.dimension for each in self.features),)
        self.weights = np.concatenate([np.broadcast_to(each.weights, each.shape).ravel() for each in self.features])
        self._set_attributes(self.features)
        self.stacked = self.features

    def rows(self, batch: Batch) -> NDArray[Any]:
        """Return the feature vector of each row of a batch."""
        return np.hstack([np.reshape(each.rows(batch), (batch.size, each.dimension)) for each in self.features])

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return a batch's feature vectors as multiples of the grid step; each part is clipped to its radius."""
        return np.hstack([each.steps(batch, k) for each in self.features])

    def totals(self, batch: Batch, labels: NDArray[np.intp] | None, n_groups: int, k: int) -> NDArray[np.float64]:
        """Return the exact sums of the vectors by group, shape (n_groups, n_sums)."""
        return np.hstack([each.totals(batch, labels, n_groups, k) for each in self.features])

    def image(self, total: Integers, k: int) -> Integers:
        """Compute the coordinates to release with noise from exact sums, part by part."""
        return _images_of_parts(total, [(each, k) for each in self.features])

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        return _stacked_norm([each.radius(norm) for each in self.features], norm)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        return _stacked_norm([each.diameter(norm, public) for each in self.features], norm)

    def describe(self) -> str:
        """Return a description of the feature."""
        return "; ".join(each.describe() for each in self.features)


def _parenthesized_description(features: RowFeatures) -> str:
    """Return the description of features, in parentheses if text after it could be misread as a part of it."""
    described = features.describe()
    return f"({described})" if ";" in described or " where " in described else described


def _stacked_norm(lengths: list[float], norm: Norm) -> float:
    """Return the norm of a vector whose parts have the norms `lengths`, rounded up."""
    moved = [length for length in lengths if length]
    if norm == math.inf or len(moved) <= 1:
        return max(moved, default=0.0)
    return sum(moved) * UP ** len(moved) if norm == 1 else math.nextafter(math.hypot(*moved) * UP, math.inf)


@final
class PerGroup(Composed):
    """Different features for each group of rows, each summed on a grid of its own; used within one call only."""

    def __init__(self, by: Sequence[Column], each: Mapping[int, tuple[RowFeatures, int]]) -> None:
        self.parts = each
        self._by = tuple(by)
        self._set_attributes([of for of, _ in each.values()], map(category, by))
        self.columns = tuple(dict.fromkeys([*by, *(column for of in self.inner for column in of.columns)]))
        self.shape = (sum(of.dimension for of in self.inner),)

    def rows(self, batch: Batch) -> NDArray[Any]:
        """Raise a NotImplementedError: the features depend on the group."""
        raise NotImplementedError

    def radius(self, norm: Norm) -> float:
        """Raise a NotImplementedError: the norm depends on the group."""
        raise NotImplementedError

    def totals(self, batch: Batch, labels: NDArray[np.intp] | None, n_groups: int, k: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Return the exact sums of each group's features, concatenated; each group has its own grid step."""
        group = np.zeros(batch.size, dtype=np.intp) if labels is None else np.where(labels == 0, 0, -1)
        for column in self._by:
            codes, categories = batch.codes(column), len(column.categories or ())
            group = np.where((group >= 0) & (codes < categories), group * categories + codes, -1)
        rows = {at: batch.take(np.flatnonzero(group == at)) for at in self.parts}
        return np.concatenate([of.total(rows[at], None, own) for at, (of, own) in self.parts.items()])[None]

    def image(self, total: Integers, k: int) -> Integers:  # noqa: ARG002
        """Compute the coordinates to release with noise from exact sums, group by group."""
        return _images_of_parts(total, self.parts.values())


def _images_of_parts(total: Integers, parts: Iterable[tuple[RowFeatures, int]]) -> Integers:
    """Compute the coordinates to release with noise for several features, whose exact sums are in one vector."""
    images, start = [], 0
    for of, k in parts:
        images.append(of.image(total[start : start + of.n_sums], k))
        start += of.n_sums
    return concatenate(images)
