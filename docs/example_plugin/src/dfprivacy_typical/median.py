"""The median, from a noisy histogram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np

from dfprivacy import ConfidenceInterval, Probability, Range, Release, features, mechanism
from dfprivacy_typical.noise import reach

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column, Curator
    from dfprivacy.features import Batch


class Histogram(features.RowFeatures):
    """Which of some bins of equal width a number lies in: the sum counts them.

    Parameters
    ----------
    column : Column
        A column with bounds, which are the first and the last edge.
    bins : int
        Number of bins.

    Notes
    -----
    A row is in one bin, so its vector has norm 1. The core derives the sensitivity from that.
    """

    def __init__(self, column: Column, bins: int) -> None:
        self.columns = (column,)
        self.shape = (bins,)
        self.edges = np.linspace(column.low, column.high, bins + 1)

    def rows(self, batch: Batch) -> NDArray[np.float64]:
        """Return one row of the identity matrix for each row of the batch."""
        bins = np.searchsorted(self.edges[1:-1], batch.values(self.columns[0]), side="right")
        return np.eye(self.dimension, dtype=np.float64)[bins]

    def radius(self, norm: float) -> float:  # noqa: ARG002
        """Largest norm of a row's vector."""
        return 1.0


@dataclass(frozen=True, kw_only=True, repr=False)
class Median(Release):
    """The median of a column, in its units.

    Attributes
    ----------
    median : float
        The estimate.
    low, high : float
        An interval that holds the median of the table's rows, whatever they are, with probability `confidence`.
    confidence : float
        That probability, over the noise.
    scale : float
        Scale b of the Laplace noise in each count, in rows.
    edges : ndarray of shape (bins + 1,)
        Edges of the bins.
    counts : ndarray of shape (bins,)
        Noisy counts of the bins, in rows.
    notes : tuple of str
        Says so if the answer is uninformative.
    """

    median: float
    low: float
    high: float
    confidence: float
    scale: float
    edges: NDArray[np.float64]
    counts: NDArray[np.float64]
    notes: tuple[str, ...]
    covers: str | None = "table"

    def confidence_interval(self) -> ConfidenceInterval:
        """Return the interval, with scipy's names."""
        return ConfidenceInterval(self.low, self.high)


@mechanism(name="middle", columns={"column": "numeric"})
def median(
    curator: Curator,
    column: Column,
    *,
    bins: Annotated[int, Range(2, 1024)] = 64,
    confidence: Probability = 0.95,
) -> Median:
    r"""Estimate the median of a column.

    Parameters
    ----------
    column : str
        A column with bounds.
    bins : int, default 64
        Number of bins of equal width between the bounds. More bins are finer and noisier.
    confidence : float, default 0.95
        Coverage of the interval.

    Returns
    -------
    Median
        The estimate and its interval.

    Raises
    ------
    ArgumentError
        If the confidence is no probability, or the bins are fewer than 2 or more than 1024.

    Notes
    -----
    **Guarantee.** ε-differential privacy. A row that changes moves one unit from one bin to another, so the L1
    sensitivity of the counts is 2 (1 if rows may come and go), and each carries Laplace noise of scale
    :math:`b = 2/\varepsilon` rows [1]_. The rest is post-processing.

    **Estimate.** Let :math:`D_j` be the noisy number of rows below edge j minus that above it. It rises through
    zero at the median; noise makes it rise and fall, and sorting it brings it no farther from the truth [2]_.

    **Interval.** Each :math:`D_j` carries the sum of all noises with signs, which exceeds :math:`t` with
    probability α/2. Its lower end is the last edge up to which, from the left, every :math:`D_j < -t`. To lie above
    the median, it must have passed the first edge above the median, where truly :math:`D_j \ge 0`: the
    probability is at most α/2. Likewise from the right. So it covers the median of the rows at hand, whatever
    they are; about a population from which they were drawn it says nothing.

    References
    ----------
    .. [1] C. Dwork, F. McSherry, K. Nissim, A. Smith. Calibrating noise to sensitivity in private data analysis.
       TCC 2006, LNCS 3876, 265-284.
    .. [2] V. Chernozhukov, I. Fernández-Val, A. Galichon. Improving point and interval estimators of monotone
       functions by rearrangement. Biometrika 96 (2009), 559-575.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [20 + i % 41 for i in range(4100)]})
    >>> view = dp.protect(df, "members", epsilon=20, bounds={"age": (18, 82)}, ledger="memory:")
    >>> view.middle("age", epsilon=10).confidence_interval()
    ConfidenceInterval(low=40.0, high=41.0)
    """
    histogram = Histogram(column, bins)

    measured = curator.sum(histogram)  # everything private happens here

    edges, scale = histogram.edges, float(measured.scales[0])
    below = np.append(0.0, np.cumsum(measured.values))
    balance = 2 * below - below[-1]
    t = scale * reach((1 - confidence) / 2, bins)
    first = int(np.argmax(balance >= -t))
    last = bins - int(np.argmax(balance[::-1] <= t))
    low, high = float(edges[max(first - 1, 0)]), float(edges[min(last + 1, bins)])
    return Median(
        median=float(np.interp(0.0, np.sort(balance), edges)),
        low=low,
        high=high,
        confidence=confidence,
        scale=scale,
        edges=edges,
        counts=measured.values,
        notes=("uninformative: the noise reaches both bounds",) if (low, high) == (edges[0], edges[-1]) else (),
    )
