r"""Bounded row features: the maps whose exact, noisy sums answer nearly every question.

A row feature maps one cleaned row to a vector in :math:`\mathbb R^d`. Its *radius* in a norm is the largest
norm of such a vector, its *diameter* the largest distance of two of them. The sensitivity of the sum follows:

- ``add_remove``: the radius (one row more or less),
- ``replace_one``: the diameter (one row changes),
- ``replace_one`` on a view whose conditions look at private columns: the larger of the two (a row may change, or
  enter, or leave).

Every coordinate is rounded to a public binary grid before it is summed. Whole grid steps are added, so the sum is
exact: it does not depend on the order of the rows, on batches, threads or the engine. The rounding moves each
coordinate by half a step at most, and the sensitivity is charged for it.

A feature must be a pure function of its row. What a third party writes in `rows` is clipped to the radius it
declares, so a wrong claim costs accuracy, never privacy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dfprivacy.errors import ArgumentError, PluginError
from dfprivacy.rows import category, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy.frames import Read
    from dfprivacy.rows import Batch
    from dfprivacy.schema import Column

__all__ = ["Count", "Moments", "OneHot", "RowFeatures"]

Norm = int  # 1 or 2
_FEW = 5  # bins up to which a product of matrices is faster than np.bincount; both are exact


class RowFeatures(ABC):
    """A bounded map from one row to a vector; what a mechanism asks the sum of.

    A third party subclasses it, sets `columns` and `shape`, and writes `rows` and `radius`.

    Attributes
    ----------
    columns : tuple of Column
        The columns it reads.
    shape : tuple of int
        Shape of the sum; its product is the dimension d.
    weights : float or ndarray
        The released sum is divided by them: coordinates that matter less may be scaled down before the noise.

    Examples
    --------
    The share of rows above a threshold, as somebody else might write it:

    >>> class Above(RowFeatures):
    ...     shape = (1,)
    ...     def __init__(self, column, threshold):
    ...         self.columns = (column,)
    ...         self.threshold = threshold
    ...     def rows(self, batch):
    ...         return (batch.values(self.columns[0]) > self.threshold)[:, None]
    ...     def radius(self, norm):
    ...         return 1.0
    """

    columns: tuple[Column, ...]
    shape: tuple[int, ...]
    weights: float | NDArray[np.float64] = 1.0

    @property
    def reads(self) -> Sequence[Read]:
        """How the columns are read: as numbers where they have bounds, else as categories."""
        return [number(c) if c.bounds is not None else category(c) for c in self.columns]

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return math.prod(self.shape)

    @property
    def support(self) -> int:
        """Most coordinates that one row can make different from zero."""
        return self.dimension

    @abstractmethod
    def rows(self, batch: Batch) -> NDArray[Any]:
        """Vectors of the rows of a batch, weights included, shape (batch.size, d)."""

    @abstractmethod
    def radius(self, norm: Norm) -> float:
        """Largest L1 or L2 norm of a row's vector."""

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:  # noqa: ARG002
        """Largest L1 or L2 distance of two rows' vectors, when the rows agree on the public columns."""
        return 2 * self.radius(norm)

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        r"""Vectors of a batch in whole steps of :math:`2^{-k}`, clipped to the declared radius."""
        rows = np.array(self.rows(batch), dtype=np.float64).reshape(batch.size, self.dimension)
        rows[~np.isfinite(rows).all(axis=1)] = 0  # a row without a vector counts nowhere
        for norm in (1, 2):
            length = np.linalg.norm(rows, ord=norm, axis=1)
            over = length > self.radius(norm)
            rows[over] *= (self.radius(norm) / length[over])[:, None]
        rows *= 2.0**k
        return np.rint(rows, out=rows)

    def total(self, batch: Batch, mask: NDArray[np.bool_] | None, k: int) -> NDArray[np.float64]:
        """Exact sum of a batch in whole steps, shape (d,). Whole numbers below 2^53: order cannot matter."""
        steps = self.steps(batch, k)
        total: NDArray[np.float64] = (steps if mask is None else steps[mask]).sum(axis=0)
        return total

    def describe(self) -> str:
        """Name the feature in words for an explanation."""
        names = ", ".join(column.name for column in self.columns)
        return f"{type(self).__name__}({names})"

    def __init_subclass__(cls) -> None:
        # What privacy rests on is derived here from `rows` and `radius`, which are enforced.
        derived = {"dimension", "support", "diameter", "steps", "total"} & vars(cls).keys()
        if derived and cls.__module__ != __name__:
            raise PluginError(
                f"{cls.__name__} defines {sorted(derived)!r}, which RowFeatures derives.",
                "Write rows() and radius() only.",
            )


@final
class Count(RowFeatures):
    """The number 1 for every row: the sum is the number of rows."""

    columns = ()
    shape = (1,)

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
        return np.ones((batch.size, 1))

    def radius(self, norm: Norm) -> float:  # noqa: ARG002
        """Largest norm of a vector."""
        return 1.0

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:  # noqa: ARG002
        """Largest distance of two vectors."""
        return 0.0


@final
class Moments(RowFeatures):
    r"""Powers of a number that has been mapped from its bounds to y in [-1, 1].

    Parameters
    ----------
    column : Column
        A column with bounds.
    degree : {1, 2}
        1: the sum of y. 2: the sums of y and y².
    count : bool
        Also measure how many rows there are, for tables whose size is private.

    Notes
    -----
    The coordinates are chosen so that they share one sensitivity instead of adding theirs up.

    ============== ================================ ===================== =====================
    degree, count  coordinates (weights included)   L1 radius, diameter   L2 radius, diameter
    ============== ================================ ===================== =====================
    1, no          y                                1, 2                  1, 2
    2, no          y, y²/2                          3/2, 2                √5/2, 2
    1, yes         (1+y)/2, (1-y)/2                 1, 2                  1, √2
    2, yes         y, 1-y², y²/2                    3/2, 8/3              √5/2, 2
    ============== ================================ ===================== =====================

    For two values with difference d and sum s, :math:`|s| \le 2 - d`, so the distance of (y, c y²) is at most
    :math:`d\,(1 + c(2-d))` in L1 and :math:`d\sqrt{1 + c^2(2-d)^2}` in L2; the table holds the maxima over d.
    At c = 1/2 the squares are free: y and y²/2 cost what y costs alone. 1-y² and y²/2 move against
    each other, which is cheaper than a count and a square; likewise the halves (1±y)/2.
    """

    def __init__(self, column: Column, *, degree: int = 2, count: bool = False) -> None:
        if degree not in {1, 2}:
            raise ArgumentError(f"degree={degree!r} is unknown.", "Moments have degree 1 or 2.")
        self.columns = (column,)
        self.degree = degree
        self.count = count
        scale = {(1, False): [1], (2, False): [1, 0.5], (1, True): [1, 1], (2, True): [1, 1, 0.5]}
        self.weights = np.array(scale[degree, count])
        self.shape = self.weights.shape

    def coordinates(self, batch: Batch, unit: float = 1.0) -> NDArray[np.float64]:
        """Return the coordinates of a batch, weights included, times a power of two, shape (d, batch.size)."""
        y = batch.standardized(self.columns[0])
        found = np.empty((self.dimension, batch.size))
        np.multiply(y, unit, out=found[0])
        if self.degree == 1 and self.count:
            np.subtract(unit, found[0], out=found[1])
            found[0] += unit
            found /= 2
        elif self.degree == 2:  # noqa: PLR2004
            square = np.multiply(y, found[0], out=found[-1])
            if self.count:
                np.subtract(unit, square, out=found[1])
            square /= 2
        return found

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the vectors of a batch."""
        return self.coordinates(batch).T

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return the vectors of a batch in whole steps, one column of memory for each coordinate."""
        steps = self.coordinates(batch, 2.0**k)
        return np.rint(steps, out=steps).T

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector."""
        if self.degree == 1:
            return 1.0
        return 1.5 if norm == 1 else math.sqrt(1.25)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        if self.columns[0].name in public:
            return 0.0
        if self.degree == 1:
            return math.sqrt(2) if self.count and norm == 2 else 2.0  # noqa: PLR2004
        weights = np.atleast_1d(self.weights)[1:]
        return _parabola_diameter(norm, float(np.linalg.norm(weights, ord=norm)))


def _parabola_diameter(norm: Norm, c: float) -> float:
    """Largest distance of two points of (y, c y²) with y in [-1, 1]; see `Moments`."""
    if norm == 1:
        d = min(2.0, 1 + 1 / (2 * c))
        return max(2.0, d * (1 + c * (2 - d)))
    if c * c < 2:  # noqa: PLR2004 - no inner maximum
        return 2.0
    d = (3 - math.sqrt(1 - 2 / (c * c))) / 2
    return max(2.0, d * math.sqrt(1 + c * c * (2 - d) ** 2))


@final
class OneHot(RowFeatures):
    r"""Which category a row is in: the sum counts them. Times other features: their sums by category.

    Parameters
    ----------
    column : Column
        A column with categories.
    groups : sequence, optional
        The categories to keep, in this order; rows of others count nowhere. Default: all.
    of : RowFeatures, optional
        Features to sum within each category; ``OneHot(by) * Moments(x)`` is the same.

    Notes
    -----
    A row is in one category at most, so the radius is that of `of`. Two rows in different categories are
    2 radii apart in L1 and √2 radii in L2; two in the same, a diameter of `of`. If the category is public,
    a row cannot change it, and only the last remains.
    """

    def __init__(
        self, column: Column, groups: Sequence[object] | None = None, of: RowFeatures | None = None
    ) -> None:
        known = column.categories or ()
        codes = range(len(known)) if groups is None else [column.code(value) for value in groups]
        if not codes or len(set(codes)) < len(codes):
            raise ArgumentError(
                f"groups={groups!r} must name at least one category, each once.",
                f"The categories of {column.name!r} are {list(known)!r}.",
            )
        self.by = column
        self.groups = tuple(known[code] for code in codes)
        self.of = of
        self.columns = (column, *(of.columns if of else ()))
        self.shape = (len(codes), *(of.shape if of else ()))
        self.weights = of.weights if of else 1.0
        self._codes = np.array(codes)
        self._place = np.full(len(known) + 1, len(codes), dtype=np.intp)
        self._place[self._codes] = np.arange(len(codes))

    def __mul__(self, of: RowFeatures) -> OneHot:
        if self.of is None:
            return OneHot(self.by, self.groups, of)
        if isinstance(self.of, OneHot):
            return OneHot(self.by, self.groups, self.of * of)
        raise ArgumentError(f"{self.describe()} cannot be multiplied further.", "Only OneHot features multiply.")

    @property
    def reads(self) -> Sequence[Read]:
        """How the columns are read."""
        return [category(self.by), *(self.of.reads if self.of else ())]

    @property
    def support(self) -> int:
        """Most coordinates that one row can make different from zero."""
        return self.of.support if self.of else 1

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
        inner = self.of.steps(batch, k) if self.of else np.full((batch.size, 1), 2.0**k)
        product: NDArray[np.float64] = (hot[:, :, None] * inner[:, None, :]).reshape(batch.size, self.dimension)
        return product

    def total(self, batch: Batch, mask: NDArray[np.bool_] | None, k: int) -> NDArray[np.float64]:
        """Return the exact sum of a batch in whole steps, without building the product."""
        codes, bins = batch.codes(self.by), len(self.groups) + 1
        total: NDArray[np.float64]
        if self.of is None or bins > _FEW:
            place = self._place[codes]
            if mask is not None:
                place[~mask] = bins - 1
            if self.of is None:
                total = np.bincount(place, minlength=bins)[:-1].astype(np.float64) * 2.0**k
            else:
                steps = self.of.steps(batch, k).T
                total = np.array([np.bincount(place, weights=c, minlength=bins)[:-1] for c in steps]).T
        else:
            hot = codes == self._codes[:, None]
            if mask is not None:
                hot &= mask
            total = hot.astype(np.float64) @ self.of.steps(batch, k)
        return total.ravel()

    def radius(self, norm: Norm) -> float:
        """Largest norm of a vector."""
        return self.of.radius(norm) if self.of else 1.0

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Largest distance of two vectors."""
        within = self.of.diameter(norm, public) if self.of else 0.0
        if self.by.name in public:
            return within
        radius = self.radius(norm)  # from a category to none, or to another
        across = radius * (2.0 if norm == 1 else math.sqrt(2.0)) if len(self.groups) > 1 else radius
        return max(within, across)

    def describe(self) -> str:
        """Name the feature in words."""
        inner = f" x {self.of.describe()}" if self.of else ""
        return f"OneHot({self.by.name}){inner}"
