"""What follows from noisy sums of signed ranks, or of signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dfprivacy_inference.laws import normal_laplace_cdf, normal_two_laplace_cdf

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dfprivacy_inference.laws import Alternative

    Array = NDArray[np.float64]

__all__ = ["ENOUGH", "rank_or_sign", "sign_pvalue", "signed_rank_sd"]

ENOUGH = 24.0
"""From this number of rows times epsilon squared on, signed ranks find more than signs do."""

_LATTICE = 1.0  # scale of the noise below which the steps of a sum of signs are seen
_ROWS = 5000  # beyond, they are small


def rank_or_sign(rows: float, epsilon: float) -> bool:
    """Tell whether to measure signed ranks, and not signs only."""
    return rows * epsilon**2 >= ENOUGH


def signed_rank_sd(rows: ArrayLike) -> Array:
    """Give the largest standard deviation of a sum of signed ranks under the null hypothesis: without zeros."""
    n = np.asarray(rows, dtype=np.float64)
    return np.sqrt(n * (n + 1) * (2 * n + 1) / 6)


def sign_pvalue(
    signs: float, rows: float, scale: float, alternative: Alternative = "two-sided", *, counts: bool = False
) -> float:
    """Give the p-value of a noisy sum of signs.

    Parameters
    ----------
    signs : float
        The sum, with noise.
    rows : float
        How many there are, or an upper bound.
    scale : float
        Scale of the Laplace noise.
    alternative : {"two-sided", "less", "greater"}
        What counts as extreme.
    counts : bool
        Whether the sum is the difference of two counts, with noise of this scale in each.

    Returns
    -------
    float
        By the normal law, or, where the noise does not hide the steps of the sum, by the binomial law.
    """
    sides = 2 if alternative == "two-sided" else 1
    extreme = abs(signs) if sides > 1 else signs if alternative == "greater" else -signs
    if scale >= _LATTICE or rows > _ROWS:
        law = normal_two_laplace_cdf if counts else normal_laplace_cdf
        return min(1.0, sides * float(law(-extreme, np.sqrt(rows), scale)))
    from scipy.stats import binom  # takes longer to import than all of dfprivacy

    n = max(int(np.ceil(rows)), 1)
    each = np.arange(n + 1)
    lacks = extreme - (2.0 * each - n)  # what the noise has to make up for
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(lacks == 0, 0.0, np.abs(lacks) / scale)
    tail = np.exp(-far) / 2 if not counts else np.exp(-far) * (2 + np.minimum(far, 1e6)) / 4
    beyond = float(binom.pmf(each, n, 0.5) @ np.where(lacks > 1e-9, tail, 1 - tail * (scale > 0)))  # noqa: PLR2004
    return min(1.0, sides * beyond)
