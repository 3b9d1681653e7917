"""Row features for counts of rows, powers of one number, and counts of numbers beyond their bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, final

import numpy as np

from dfprivacy._words import join_names
from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import UP, Norm, RowFeatures, root

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy.schema import Column

__all__ = ["Beyond", "Count", "Moments"]


@final
class Count(RowFeatures):
    """Constant feature 1, whose sum is the number of rows."""

    description = "ones"
    columns = ()
    shape = (1,)
    portable = True
    unit = 1.0

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        return np.ones((batch.size, 1))

    def totals(self, batch: Batch, labels: NDArray[np.intp] | None, n_groups: int, k: int) -> NDArray[np.float64]:
        """Count the rows by group, as multiples of the grid step, shape (n_groups, 1)."""
        rows = [batch.size] if labels is None else np.bincount(labels, minlength=n_groups + 1)[:n_groups]
        return np.multiply(rows, np.rint(2.0**k))[:, None]

    def radius(self, norm: Norm) -> float:  # noqa: ARG002
        """Return the largest norm of a row's feature vector."""
        return 1.0

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the largest distance between the feature vectors of two rows."""
        return 0.0


@final
class Moments(RowFeatures):
    r"""The first one or two powers of a number y that is mapped from its column's bounds to [-1, 1].

    Parameters
    ----------
    column : Column
        A column with bounds.
    degree : {1, 2}
        1: the sum of y. 2: the sums of y and y².
    count : bool or "beside"
        Also measure how many rows there are, for tables whose size is private. ``"beside"``, for degree 2: in
        coordinates that cost nothing where a row can change its value, or lose it (`Given`), but not come or go.
    centred : bool
        For noise of the cube, with degree 2 and no count: 2y²-1 in place of y², which is in [-1, 1] as y is.

    Notes
    -----
    The coordinates are chosen so that they share one sensitivity instead of adding theirs up.

    ============== ================================ ===================== ===================== ==================
    degree, count  coordinates (weights included)   L1 radius, diameter   L2 radius, diameter   infinity
    ============== ================================ ===================== ===================== ==================
    1, no          y                                1, 2                  1, 2                  1, 2
    2, no          y, y²/2                          3/2, 2                √5/2, 2               1, 2
    1, yes         (1+y)/2, (1-y)/2                 1, 2                  1, √2                 1, 1
    2, yes         y, 1-y², y²/2                    3/2, 8/3              √5/2, 2               1, 2
    2, beside      y, (1-y²)/2, 1                   2, 2                  √2, 2                 1, 2
    2, centred     y, 2y²-1                         2, 25/8               √2, 2.27              1, 2
    ============== ================================ ===================== ===================== ==================

    For two values with difference d and sum s, :math:`|s| \le 2 - d`, so the distance of (y, c y²) is at most
    :math:`d\,(1 + c(2-d))` in L1 and :math:`d\sqrt{1 + c^2(2-d)^2}` in L2; the table holds the maxima over d. At
    c = 1/2 the squares are free: y and y²/2 cost what y costs alone. 1-y² and y²/2 move against each other, which
    is cheaper than a count and a square; likewise the halves (1±y)/2. *Beside* the other two a count of 1 changes
    no diameter, and as :math:`|y| + (1-y^2)/2 + 1 \le 2` no row is farther than the diameter from a row that has
    no value: ``Given(x, of=Moments(x, count="beside"))`` has the L1 diameter 2, that of y alone.
    """

    portable = True

    def __init__(
        self, column: Column, *, degree: int = 2, count: bool | Literal["beside"] = False, centred: bool = False
    ) -> None:
        if degree not in {1, 2}:
            raise ArgumentError(f"degree={degree!r} is unknown.", "Use degree=1 or degree=2.")
        if count not in (True, False, "beside") or (degree, count) == (1, "beside"):
            raise ArgumentError(f"count={count!r} is unknown.", 'Use True, False or, with degree=2, "beside".')
        if centred and (degree == 1 or count):
            raise ArgumentError(
                "centred=True needs degree=2 and count=False.", "To count rows too, use Stack(Count(), ...)."
            )
        self.columns = (column,)
        self.degree = degree
        self.count = count
        scale = {(1, False): [1], (2, False): [1, 0.5], (1, True): [1, 1], (2, True): [1, 1, 0.5]}
        self.centred = centred
        if count == "beside" or centred:
            self.weights = np.array([1, 1] if centred else [1, 0.5, 1])
        else:
            self.weights = np.array(scale[degree, bool(count)])
        self.shape = self.weights.shape

    def coordinates(self, batch: Batch, unit: float = 1.0) -> NDArray[np.float64]:
        """Return the coordinates of a batch, weights included, times the power of two `unit`, shape (d, size)."""
        # In few passes: a power of two changes no bit of a quotient or a product, so it may be multiplied by early.
        vectors = np.empty((self.dimension, batch.size))
        first = batch.standardized(self.columns[0], unit, out=vectors[0])
        if self.degree == 1 and self.count:
            np.subtract(unit, first, out=vectors[1])
            first += unit
            vectors *= 0.5  # the same number as of a division, and sooner
        elif self.degree == 2:  # noqa: PLR2004
            square = np.multiply(first, first, out=vectors[1 if self.count == "beside" else -1])
            if self.count == "beside":
                square *= -0.5 / unit
                square += unit / 2
                vectors[2] = unit
                return vectors
            square *= (2 if self.centred else 0.5) / unit
            if self.count:
                np.subtract(unit, 2 * square, out=vectors[1])
            if self.centred:
                square -= unit
        return vectors

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        return self.coordinates(batch).T

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return the feature vectors of a batch as multiples of the grid step, in column-major order."""
        steps = self.coordinates(batch, 2.0**k)
        return np.rint(steps, out=steps).T

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        if self.degree == 1 or norm == math.inf:
            return 1.0
        if self.count == "beside" or self.centred:
            return 2.0 if norm == 1 else root(2)
        return 1.5 if norm == 1 else root(1.25)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        if self.columns[0].name in public:
            return 0.0
        if self.degree == 1:
            return {1: 2.0, 2: root(2), math.inf: 1.0}[norm] if self.count else 2.0
        if norm == math.inf:
            return 2.0
        if self.centred:
            weights = np.array([2.0])  # of y², which is what moves
        else:
            weights = np.atleast_1d(self.weights)[1 : 2 if self.count == "beside" else None]
        return _parabola_diameter(norm, float(np.linalg.norm(weights, ord=norm)))

    def describe(self) -> str:
        """Return a description of the features."""
        name = self.columns[0].name
        powers = [name, f"{name}²"][: self.degree]
        return join_names(["ones", *powers] if self.count else powers)


def _parabola_diameter(norm: Norm, c: float) -> float:
    """Return the largest distance of two points of (y, c y²) with y in [-1, 1], rounded up; see `Moments`."""
    if norm == 1:
        d = min(2.0, 1 + 1 / (2 * c))
        return max(2.0, d * (1 + c * (2 - d)) * UP)
    if c * c < 2:  # noqa: PLR2004 - no inner maximum
        return 2.0
    d = (3 - math.sqrt(1 - 2 / (c * c))) / 2
    return max(2.0, d * math.sqrt(1 + c * c * (2 - d) ** 2) * UP)


@final
class Beyond(RowFeatures):
    r"""Indicators that a number is below its bounds, and that it is above them: their sums count such rows.

    Parameters
    ----------
    column : Column
        A column with bounds. A value on a bound is not beyond it, nor is one that is missing.
    weight : float
        A power of two: what such a row counts beside others in a `Stack`, which has the noise of its largest part.

    Notes
    -----
    A row has the vector (w, 0), (0, w) or 0, w being the weight. So the radius is w in every norm, and the diameter
    is 2w in L1, √2 w in L2 and w in the norm of infinity.

    ``Stack(Moments(x), Beyond(x, weight=1/16))`` has the L1 diameter 2 + 2/16: the noise in the moments grows by a
    sixteenth, and 16 times that in each of the numbers of rows tells how many values were limited.
    """

    description = "indicators of {columns} below and above its bounds"
    portable = True
    support = 1

    def __init__(self, column: Column, *, weight: float = 1.0) -> None:
        if not 0 < weight < math.inf or math.frexp(weight)[0] != 0.5:  # noqa: PLR2004 - of a power of two
            raise ArgumentError(f"weight={weight!r} is not a power of two.", "For example 1/16.")
        self.columns = (column,)
        self.shape = (2,)
        self.weights = self._weight = float(weight)

    @property
    def unit(self) -> float | None:
        """Weight of the indicators, a power of two, of which all coordinates are integer multiples."""
        return self._weight

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        return self._vectors_of_rows(batch, self._weight)

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        """Return the feature vectors of a batch as multiples of the grid step."""
        return self._vectors_of_rows(batch, float(np.rint(math.ldexp(self._weight, k))))

    def _vectors_of_rows(self, batch: Batch, one: float) -> NDArray[np.float64]:
        vectors: NDArray[np.float64] = np.multiply(batch.beyond(self.columns[0]), one).T
        return vectors

    def radius(self, norm: Norm) -> float:  # noqa: ARG002
        """Return the largest norm of a row's feature vector."""
        return self._weight

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        if self.columns[0].name in public:
            return 0.0
        return self._weight * {1: 2.0, 2: root(2), math.inf: 1.0}[norm]
