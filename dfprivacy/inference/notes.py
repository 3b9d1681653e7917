"""Notes on a test: when its level may not hold, and why it is uninformative."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from dfprivacy.schema import UNDECLARED

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dfprivacy.inference.engine import Alternative, Inference
    from dfprivacy.inference.moments import NoisyMoments
    from dfprivacy.inference.weighted import NoisyWeighted

    Array = NDArray[np.float64]

__all__ = ["is_unreliable", "noise_notes", "notes", "skewness", "worst_pvalue"]

_SLACK = 1.2  # a level that is above the nominal one by no more than a fifth holds
_NOISY = 2.0  # times the error of sampling
_UNSEEN = 3.0  # values that may be expected and not seen
_LOOSE = 1.0  # from this many on ranks find more
_SIZE = (
    "Uninformative: the size of a group may be mostly noise, and the results are divided by it: do not trust the "
    f"p-value and the interval. A larger epsilon, or more rows, would help. {UNDECLARED}"
)
_RANKS = {1: "wilcoxon()", 2: "mannwhitneyu()"}  # of one group, and of two
_SHAPE = "The p-value assumes nearly normal data. With a few extreme outliers, it could be {:.2g}."


def notes(
    found: Inference,
    sums: NoisyMoments,
    pvalue: float,
    alpha: float,
    alternative: Alternative = "two-sided",
    *,
    normal: bool = False,
) -> tuple[str, ...]:
    """Return notes on a test of means: on large noise, and on skewness that could change its result.

    Parameters
    ----------
    found : Inference
        What is known of a mean, or of a difference of means.
    sums : NoisyMoments
        The sums of one group, or of two.
    pvalue, alpha : float
        The p-value of the test, and its level.
    alternative : {"two-sided", "less", "greater"}
        The side of the test.
    normal : bool
        Whether the values are known to be normal.

    Returns
    -------
    tuple of str
        Sentences; none if there is nothing to know.
    """
    groups = sums.values.shape[-2]
    worst = worst_pvalue(pvalue, skewness(found, sums), alternative)
    uninformative = 2 * float(found.standard_error) >= groups * sums.half  # of all that there can be, half
    return (
        *noise_notes(found, sums, _RANKS[groups], uninformative=uninformative),
        *((_SHAPE.format(worst),) if not normal and is_unreliable(pvalue, worst, alpha) else ()),
    )


def is_unreliable(pvalue: ArrayLike, worst: ArrayLike, alpha: float) -> NDArray[np.bool_]:
    """Return whether a test rejects at level `alpha`, but would not with the worst-case p-value."""
    return np.less_equal(pvalue, alpha) & np.greater(worst, _SLACK * alpha)


def skewness(found: Inference, sums: NoisyMoments) -> Array:
    """Return the largest skewness of an estimate that the bounds and variances allow.

    Parameters
    ----------
    found : Inference
        Of the means of all groups, of the one mean, or of a difference of two.
    sums : NoisyMoments
        What it follows from.

    Returns
    -------
    ndarray
        The skewness.

    Notes
    -----
    The third absolute central moment of y in [-1, 1] is at most (1 + abs(mean)) times the variance. The noise is
    symmetric, so the skewness of the estimate is at most the sum of (1 + abs(mean)) variance/n² over its standard
    error cubed; two groups are taken to have the same shape, and theirs to cancel. Values
    at the far bound of which three are expected are absent from one sample in twenty: the variance is taken to be
    that of three such values at least.
    """
    moments = sums.estimate
    reach = sums.half + np.abs(moments.mean - sums.mid)
    variance = np.maximum(moments.variance, _UNSEEN * reach**2 / moments.n)
    each = (reach * variance / moments.n**2)[..., 0]
    of_means = found.estimate.shape == each.shape
    third = each if of_means else np.abs(each[..., 0] - each[..., 1:].sum(axis=-1))
    return np.asarray(third / found.standard_error**3)


def worst_pvalue(pvalue: ArrayLike, skewness: Array | float, alternative: Alternative = "two-sided") -> Array:
    """Return the p-value for data with the given skewness, the worst case, from the p-value for normal data.

    Parameters
    ----------
    pvalue : array_like
        That of data near normal.
    skewness : ndarray or float
        The largest skewness γ of the estimate.
    alternative : {"two-sided", "less", "greater"}
        The side of the test.

    Returns
    -------
    ndarray
        The p-value, by the first term of the Edgeworth expansion of a studentised mean: it moves the normal score
        of a tail from z to z - γ(2z² + 1)/6, which is trusted up to its turning point.
    """
    two = alternative == "two-sided"
    z = -ndtri(np.maximum(np.divide(pvalue, 2 if two else 1), 1e-300))
    with np.errstate(divide="ignore"):
        trusted = np.minimum(np.abs(z), np.divide(1.5, skewness))
    shift = skewness * (2 * trusted**2 + 1) / 6
    moved = ndtr(shift - np.sign(z) * trusted)
    return np.asarray(np.minimum(moved + ndtr(-trusted - shift), 1.0) if two else moved)


def noise_notes(
    found: Inference, sums: NoisyMoments | NoisyWeighted, ranks: str = "", *, uninformative: bool = False
) -> tuple[str, ...]:
    """Return notes on group sizes that are mostly noise, and on noise that exceeds the sampling error.

    Parameters
    ----------
    found : Inference
        What is known of one parameter.
    sums : NoisyMoments or NoisyWeighted
        What it follows from.
    ranks : str
        The method that uses ranks instead; empty if there is none.
    uninformative : bool
        Whether the interval is as wide as the range of possible values.

    Returns
    -------
    tuple of str
        Sentences.
    """
    noise, sampling = float(found.noise_standard_error), float(found.sampling_standard_error)
    times, hidden = noise / max(sampling, 1e-12 * noise, 1e-300), bool(found.unclear_variance)
    noticed = [_SIZE] if sums.size_is_doubtful else []
    if times > (1.0 if hidden else _NOISY):
        opening = "Uninformative: the noise is as wide as the bounds. " if uninformative else ""
        much, least = f"{times:.2g} times", "at least " if hidden else ""
        noticed.append(
            f"{opening}Privacy noise is {least}{much} the sampling error. To make them equal: {much} the epsilon, "
            f"bounds {much} as narrow if the data fit, or {times**2:.2g} times the rows."
        )
    if times > _LOOSE and ranks:
        noticed.append(
            "The declared bounds are wide compared with the data, which adds noise. "
            f"{ranks} compares ranks, which bounds do not affect."
        )
    return tuple(noticed)
