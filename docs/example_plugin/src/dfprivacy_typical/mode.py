"""The most frequent category."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Probability, Release, features, mechanism
from dfprivacy_typical.noise import reach, tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy import Column, Curator


@dataclass(frozen=True, kw_only=True, repr=False)
class Mode(Release):
    """The most frequent category of a column, and how sure that is.

    Attributes
    ----------
    mode : str, int, float or bool
        The category with the largest noisy count.
    pvalue : float
        Bound on the probability of a gap as large as this if another category is more frequent in truth.
    gap : float
        Its noisy count minus the second largest, in rows.
    scale : float
        Scale b of the Laplace noise in each count, in rows.
    categories : tuple
        The categories.
    counts : ndarray of shape (categories,)
        Their noisy counts, in rows.
    notes : tuple of str
        Says so if the answer is uninformative.
    """

    mode: Any
    pvalue: float
    gap: float
    scale: float
    categories: tuple[Any, ...]
    counts: NDArray[np.float64]
    notes: tuple[str, ...]


@mechanism(columns={"column": "category"})
def mode(curator: Curator, column: Column, *, confidence: Probability = 0.95) -> Mode:
    r"""Find the most frequent category of a column.

    Parameters
    ----------
    column : str
        A column with at least two categories.
    confidence : float, default 0.95
        The answer is called uninformative unless it is right with this probability.

    Returns
    -------
    Mode
        The category, all noisy counts, and what they are worth.

    Raises
    ------
    ArgumentError
        If there are fewer than two categories, or the confidence is no probability.

    Notes
    -----
    **Guarantee.** ε-differential privacy. The counts are a histogram: a row that changes moves one unit from one
    count to another, so their L1 sensitivity is 2 (1 if rows may come and go), and each carries Laplace noise of
    scale :math:`b = 2/\varepsilon` rows [1]_. The rest is post-processing.

    **Honesty.** If one of the K - 1 other categories is in truth more frequent, a noisy gap g takes two noises that
    differ by more than g, so its probability is at most :math:`(K-1)\,(2 + g/b)\,e^{-g/b}/4`.

    References
    ----------
    .. [1] C. Dwork, F. McSherry, K. Nissim, A. Smith. Calibrating noise to sensitivity in private data analysis.
       TCC 2006, LNCS 3876, 265-284.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"answer": ["yes"] * 700 + ["no"] * 300})
    >>> answers = ["yes", "no", "do not know"]
    >>> view = dp.protect(df, "poll", epsilon=1, categories={"answer": answers}, ledger="memory:")
    >>> view.mode("answer", epsilon=0.5).mode
    'yes'
    """
    categories = column.categories or ()
    if len(categories) < 2:
        raise ArgumentError(f"Column {column.name!r} has one category, which is its mode.", "Nothing to ask.")

    measured = curator.sum(features.OneHot(column))  # everything private happens here

    second, first = np.argsort(measured.values, kind="stable")[-2:]
    gap = float(measured.values[first] - measured.values[second])
    scale = float(measured.scales[0])
    # A public column is counted without noise.
    pvalue = min(1.0, (len(categories) - 1) * tail(gap / scale, 2)) if scale else 0.0
    return Mode(
        mode=categories[first],
        pvalue=pvalue,
        gap=gap,
        scale=scale,
        categories=categories,
        counts=measured.values,
        notes=("uninformative: the gap is within the noise",) if pvalue > 1 - confidence else (),
    )


def plan(curator: Curator, column: Column, *, confidence: float) -> dict[str, Any]:
    """Say which gap would be told from the noise."""
    rivals = len(column.categories or ()) - 1
    scale = curator.measured[0].scale if curator.measured else 0.0
    return {"smallest informative gap, in rows": scale * reach((1 - confidence) / rivals, 2)}


mode = mode.plans(plan)
