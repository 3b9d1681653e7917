"""Row features multiplied by sampling weights, with the products that a design-based variance needs."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, final

import numpy as np

from dfprivacy._table.batch import declared_read
from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import UP, Norm, RowFeatures, enforce_bounds, root
from dfprivacy.features.composed import Composed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy.schema import Column

__all__ = ["Weighted", "check_weights"]


def check_weights(weights: Column, columns: Iterable[Column]) -> None:
    """Check that a column can hold sampling weights, and is not among the columns that it weights.

    Parameters
    ----------
    weights : Column
        The weights.
    columns : iterable of Column
        What they are the weights of.

    Raises
    ------
    ArgumentError
        If the weights may be negative or can only be 0, or are too large, or among the columns.
    """
    low, high = weights.bounds or (-1.0, 0.0)
    if low < 0 or not high > 0:
        raise ArgumentError(
            f"The weights {weights.name!r} are bounded by {low:g} and {high:g}; sampling weights are not negative, "
            "and some are above 0.",
            f"Declare bounds from 0 or above, such as bounds={{{weights.name!r}: (0, 100)}}.",
        )
    if math.isinf(high * high):
        raise ArgumentError(
            f"Squares of {weights.name!r} are too large for float64 within its bounds.",
            "Declare a smaller upper bound: the largest weight that occurs.",
        )
    if any(column.name == weights.name for column in columns):
        raise ArgumentError(
            f"{weights.name!r} is named both as a column of values and as the weights.",
            "Name another column of sampling weights in weights=.",
        )


@final
class Weighted(Composed):
    r"""Other features multiplied by a row's sampling weight, and pairwise products of the resulting coordinates.

    With w the weight, W its upper bound, v = w/W in [0, 1], and f the vector of `of`, whose coordinates are not
    negative and add up to at most 1, a row has the coordinates :math:`z_i = v f_i`, and :math:`s z_i^2` and
    :math:`2 s z_i z_j` for i < j, s being `square`.

    Parameters
    ----------
    weights : Column
        A column of sampling weights, with bounds that are not negative. A row without a weight has the weight that
        its column's fill value is; leave it out with `Given`.
    of : RowFeatures
        Features with an L1 radius of at most 1 and coordinates that are not negative, such as ``Count()``,
        ``OneHot(...)``, or ``Moments(x, degree=1, count=True)``. A coordinate below 0 counts as 0.
    square : float
        A power of two, or 0: what the products count beside the others, which have the same noise. 0 leaves them
        out; they tell the sampling variance.
    crossed : bool
        Whether products of two coordinates are among them. Leave them out if no row has two coordinates above 0.

    Raises
    ------
    ArgumentError
        If the weights may be negative or can only be 0, or are the column of `of`, or the features do not fit.

    Notes
    -----
    From :math:`S = \sum z` and :math:`T = \sum z z^\top` over rows sampled with replacement follow the Hájek
    estimate :math:`a^\top S / b^\top S` and, with c = a - b a'S/b'S, its variance
    :math:`c^\top T c / (b^\top S)^2` [1]_ (`dfprivacy.inference.weighted`).

    The z_i add up to at most 1 and the products to :math:`s (\sum z_i)^2 \le s`. So the radius is 1 + s in L1,
    :math:`\sqrt{1 + s^2}` in L2 and max(1, s) in the norm of infinity. No coordinate is negative: two rows are at
    most two radii apart in L1, √2 radii in L2 and one radius in the norm of infinity. Where `of` has one
    coordinate, which grows with its products, they are a radius apart in every norm. Products of two categories of
    one `OneHot` are 0, and left out.

    References
    ----------
    .. [1] Särndal, Swensson and Wretman (1992). Model assisted survey sampling. Springer.

    Examples
    --------
    >>> from dfprivacy import Column
    >>> from dfprivacy.features import Moments
    >>> income, weight = Column("income", bounds=(0, 90_000)), Column("weight", bounds=(0, 250))
    >>> mean = Weighted(weight, Moments(income, degree=1, count=True))
    >>> mean.shape, mean.diameter(float("inf"), frozenset()), mean.diameter(1, frozenset())
    ((5,), 1.0, 4.0)
    """

    def __init__(self, weights: Column, of: RowFeatures, *, square: float = 1.0, crossed: bool = True) -> None:
        check_weights(weights, of.columns)
        self.of = of = enforce_bounds(of)
        if of.radius(1) > 1 or np.any(np.asarray(of.weights) != 1):
            raise ArgumentError(
                f"The L1 radius of {of.describe()} is above 1 ({of.radius(1):g}), or they have weights.",
                "Give features without weights, whose coordinates add up to at most 1.",
            )
        if square < 0 or np.frexp(square)[0] not in {0.0, 0.5}:
            raise ArgumentError(f"square={square!r} is neither 0 nor a power of two.", "For example 1/2.")
        self.by_weight, self.square = weights, float(square)
        self.columns = tuple(dict.fromkeys((weights, *of.columns)))
        p = of.dimension
        self.pairs = tuple(combinations(range(p), 2)) if square and crossed and of.support > 1 else ()
        self.shape = (p + bool(square) * p + len(self.pairs),)
        self.weights = np.repeat([1.0, square, 2 * square], [p, bool(square) * p, len(self.pairs)])
        self._set_attributes([of], [declared_read(weights)])
        self.n_sums = self.dimension
        self.support = self.dimension if self.pairs else of.support * (1 + bool(square))

    @property
    def unit(self) -> None:
        """Unit of the coordinates: None, as weights need not be multiples of a power of two."""
        return

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        inner = np.asarray(self.of.rows(batch), dtype=np.float64).reshape(batch.size, self.of.dimension)
        v = batch.values(self.by_weight) / (self.by_weight.bounds or (0, 1))[1]
        z = np.clip(inner, 0, 1) * v[:, None]
        if not self.square:
            return z
        crossed = [2 * self.square * z[:, i] * z[:, j] for i, j in self.pairs]
        return np.column_stack([z, self.square * z * z, *crossed])

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        if norm == np.inf:
            return max(1.0, self.square)
        return (1.0 + self.square) if norm == 1 else root(1.0 + self.square**2)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        if all(column.name in public for column in self.columns):
            return 0.0
        apart = 1.0 if self.of.dimension == 1 else {1: 2.0, 2: root(2) * UP, np.inf: 1.0}[norm]
        return self.radius(norm) * apart

    def describe(self) -> str:
        """Return a description of the feature."""
        return f"{self.of.describe()} weighted by {self.by_weight.name}"
