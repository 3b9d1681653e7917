"""Row features whose sum is a histogram of a column, with intervals of one or several widths."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import Norm, RowFeatures, common_unit, root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy.features.base import Integers
    from dfprivacy.schema import Column

__all__ = ["Bins"]

_BITS = 62  # of the numbers that int64 holds, whatever is added to them


@final
class Bins(RowFeatures):
    r"""Indicators of the interval in which a number lies; their sums are a histogram for each interval width.

    Parameters
    ----------
    column : Column
        A column with bounds.
    edges : sequence of float
        Edges of N intervals, rising. Each holds its lower edge and not its upper one, but the last holds both. What
        lies outside is counted in the first or the last.
    widths : sequence of int
        Numbers of neighbouring intervals that one coordinate counts together, each a divisor of N. ``(16, 1)``:
        first the counts of runs of sixteen, then those of single ones.
    weights : sequence of int
        One integer above 0 for each width: the coordinates are that many times the counts.
    missing : bool
        Leave out rows without a value, and count them in one more coordinate, the last, whose weight is the sum of
        all weights. Without it they are where their fill value is.

    Notes
    -----
    A row is in one interval of each width. With w the weights and W their sum, the radius is W in L1,
    :math:`\sqrt{\sum w^2}` in L2 and max w in the norm of infinity; two rows in different intervals of every width
    are twice as far apart in L1, √2 times in L2 and as far in the norm of infinity. A width of all N intervals has
    one coordinate, in which rows do not differ. A row without a value is at W, in its own coordinate: beside the L1
    radius W it costs nothing, and in L2 and the norm of infinity the radius is W then.

    Weights are integers, so the sums are exact on every grid: intervals are counted, and runs are added up.
    """

    weights: NDArray[np.float64]
    portable = True

    def __init__(
        self,
        column: Column,
        edges: Sequence[float] | NDArray[np.float64],
        *,
        widths: Sequence[int] = (1,),
        weights: Sequence[int] = (1,),
        missing: bool = False,
    ) -> None:
        self.columns = (column,)
        self.edges = np.array(edges, dtype=np.float64)
        self.bins = bins = len(self.edges) - 1
        if (
            self.edges.ndim != 1
            or bins < 1
            or not (np.isfinite(self.edges).all() and (np.diff(self.edges) > 0).all())
        ):
            raise ArgumentError(
                "The edges of intervals must be finite and increasing.", "Give at least two edges, each once."
            )
        if not widths or len(widths) != len(weights) or any(not 0 < w <= bins or bins % w for w in widths):
            raise ArgumentError(
                f"widths={widths!r} and weights={weights!r} do not fit {bins} intervals.",
                f"Give divisors of {bins} as widths, and a weight for each.",
            )
        if any(weight != int(weight) or weight < 1 for weight in weights):
            raise ArgumentError(f"weights={weights!r} are not integers above 0.", "For example (2, 1).")
        self.widths = tuple(map(int, widths))
        self.level_weights = tuple(map(int, weights))
        self.missing = missing
        every = [np.full(bins // width, float(w)) for width, w in zip(self.widths, self.level_weights, strict=True)]
        self.weights = np.concatenate([*every, np.full(int(missing), float(sum(self.level_weights)))])
        self.shape = self.weights.shape
        self.n_sums = bins + missing  # single intervals, and rows without a value
        self.support = 2 * len(self.widths)  # in which two rows differ: sums are rounded, where a step is over one
        with np.errstate(all="ignore"):
            self._bins_per_unit = bins / (self.edges[-1] - self.edges[0])
            off = self._bins_per_unit * abs(self.edges - np.linspace(self.edges[0], self.edges[-1], bins + 1))
        self._evenly_spaced = bool(off.max() < 1 / 2)

    @property
    def unit(self) -> float | None:
        """Largest power of two that divides all weights."""
        return common_unit(map(float, self.level_weights))

    @cached_property
    def _interval_edges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper edges of the intervals; the first interval begins at -∞, and the last ends at ∞."""
        return np.append(-np.inf, self.edges[1:-1]), np.append(self.edges[1:-1], np.inf)

    def places(self, batch: Batch) -> NDArray[np.intp]:
        """Return the index of each row's interval, shape (batch.size,)."""
        places: NDArray[np.intp]
        x = batch.values(self.columns[0])
        if self._evenly_spaced:  # the right one or a neighbour, whatever the rounding
            near = x - self.edges[0]
            near *= self._bins_per_unit
            places = near.clip(0, self.bins - 1, out=near).astype(np.intp)
            lower, upper = self._interval_edges
            above, below = x >= upper.take(places), x < lower.take(places)
            places += above
            places -= below
        else:
            places = np.searchsorted(self.edges, x, side="right") - 1
            places.clip(0, self.bins - 1, out=places)
        if self.missing:
            gone = batch.missing(self.columns[0])
            places[gone] = self.bins
        return places

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        return np.array([self.image(row, 0) for row in self.steps(batch, 0).astype(np.int64)], dtype=np.float64)

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:  # noqa: ARG002 - the unit is its own
        """Return the one-hot vectors of the rows' intervals as integers, without weights."""
        return np.eye(self.n_sums)[self.places(batch)]

    def totals(
        self,
        batch: Batch,
        labels: NDArray[np.intp] | None,
        n_groups: int,
        k: int,  # noqa: ARG002
    ) -> NDArray[Any]:
        """Count the rows by group and interval, shape (n_groups, n_sums)."""
        both = self.places(batch) if labels is None else labels * self.n_sums + self.places(batch)
        cells = n_groups * self.n_sums
        return np.bincount(both, minlength=cells)[:cells].reshape(n_groups, self.n_sums)

    def image(self, total: Integers, k: int) -> Integers:
        """Compute the weighted counts of the intervals of each width, as multiples of 2^-k."""
        rows = sum(self.level_weights) * (float(total.sum()) if isinstance(total, np.ndarray) else math.inf)
        small = 0 <= k < _BITS and rows < math.ldexp(0.5, _BITS - k)  # the error of the product is below 1 in 2
        counts = np.array(total, dtype=np.int64 if small else object)
        runs = [
            counts[: self.bins].reshape(-1, width).sum(axis=1) * times
            for width, times in zip(self.widths, self.level_weights, strict=True)
        ]
        weighted = np.concatenate([*runs, counts[self.bins :] * sum(self.level_weights)])
        if small:
            return weighted << k
        return [each << k if k >= 0 else round(each / 2**-k) for each in weighted]

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        return self._norm_of(self.level_weights, 1, norm)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        if self.columns[0].name in public:
            return 0.0
        moved = [w for width, w in zip(self.widths, self.level_weights, strict=True) if width < self.bins]
        apart = self._norm_of(moved, 2, norm) if moved else 0.0
        if not self.missing:
            return apart
        weight = sum(self.level_weights)  # from some interval to none
        if norm == math.inf:
            return max(apart, float(weight))
        return max(apart, 2.0 * weight if norm == 1 else root(weight**2 + sum(w * w for w in self.level_weights)))

    def _norm_of(self, weights: Sequence[int], times: int, norm: Norm) -> float:
        """Return the norm of a vector of all weights, each `times` times, or of a row without a value if larger."""
        if norm == 1:
            return float(times * sum(weights))
        length = float(max(weights)) if norm == math.inf else root(times * sum(w * w for w in weights))
        return max(length, float(sum(self.level_weights))) if self.missing and times == 1 else length

    def describe(self) -> str:
        """Return a description of the feature."""
        wider = ", and of wider ones" if len(self.widths) > 1 else ""
        return f"indicators of {self.bins} intervals of {self.columns[0].name}{wider}"
