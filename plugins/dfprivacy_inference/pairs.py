"""What follows from noisy sums of signed ranks, or of signs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtr, bdtrc

from dfprivacy.inference.counts import NoisyCounts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dfprivacy.inference.engine import Alternative
    from dfprivacy.measured import NoisyValue

    Array = NDArray[np.float64]

__all__ = ["ENOUGH", "rank_or_sign", "sign_pvalue", "signed_rank_sd", "signs_of"]

ENOUGH = 24.0
"""From this number of rows times epsilon squared on, signed ranks find more than signs do."""


def rank_or_sign(rows: float, epsilon: float) -> bool:
    """Tell whether to measure signed ranks, and not signs only."""
    return rows * epsilon**2 >= ENOUGH


def signed_rank_sd(rows: ArrayLike) -> Array:
    """Give the largest standard deviation of a sum of signed ranks under the null hypothesis: without zeros."""
    n = np.asarray(rows, dtype=np.float64)
    return np.sqrt(n * (n + 1) * (2 * n + 1) / 6)


def signs_of(noisy: NoisyValue, n: int | None, *, gaps: bool) -> NoisyCounts:
    """Return how many of the signs are above, by name.

    Parameters
    ----------
    noisy : NoisyValue
        Their sum, and the number of rows with a value; the numbers above and below where n is private.
    n : int or None
        Number of rows.
    gaps : bool
        Whether some may have no value.

    Returns
    -------
    NoisyCounts
        Of one group.
    """
    counts = NoisyCounts.measured(noisy, None if n is None else [n], "counts")
    if n is None:
        return counts
    halves = replace(
        counts, values=counts.values / 2, laws=[replace(law, scale=law.scale / 2) for law in counts.laws]
    )
    if gaps:
        return replace(halves, form="halves")
    return replace(halves, values=halves.values[:, :1] + n / 2, laws=halves.laws[:1], form="hits")


def sign_pvalue(signs: NoisyCounts, alternative: Alternative = "two-sided") -> float:
    """Return the p-value of a noisy sum of signs.

    Parameters
    ----------
    signs : NoisyCounts
        Of one group: how many are above, and how many there are.
    alternative : {"two-sided", "less", "greater"}
        What counts as extreme.

    Returns
    -------
    float
        By the binomial law, on average over what the exact numbers may be.
    """
    exact, weights = signs.draws()
    above, n = exact[0].hits, np.rint(exact[0].n).astype(np.int64)
    most, least = (float(weights @ tail) for tail in (bdtr(np.floor(above), n, 0.5), _at_least(np.ceil(above), n)))
    return {"less": most, "greater": least, "two-sided": min(2 * most, 2 * least, 1.0)}[alternative]


def _at_least(above: Array, n: NDArray[np.int64]) -> Array:
    return np.where(above > 0, bdtrc(np.maximum(above - 1, 0), n, 0.5), 1.0)
