"""What to know before trusting a result: when its level does not hold, and what made it say little."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from dfprivacy.schema import UNDECLARED
from dfprivacy_ttest.group import Array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_ttest.calibrated import Result

__all__ = ["notes", "unreliable", "worst_pvalue"]

_SLACK = 1.2  # a level that is above the nominal one by no more than a fifth holds
_NOISY = 2.0  # times the error of sampling
_LOOSE = 1.0  # from this many on ranks find more
_HIDDEN = 4.0  # a variance that is no farther from 0 than twice its noise
_SIZE = (
    "Uninformative: the size of a group may be mostly noise, so nothing can be divided by it: do not trust the "
    f"p-value and the interval. More epsilon, or more rows, would help. {UNDECLARED}"
)
_RANKS = {1: "wilcoxon()", 2: "mannwhitneyu()"}  # of one group, and of two
_SHAPE = (
    "The p-value takes the data to be near normal. If their spread came from few values far from the rest, "
    "it could be {:.2g}."
)
_UNDEFINED = "Undefined: a noisy variance is not positive, so the naive statistic does not exist."


def notes(result: Result, tests: int, alpha: float, *, known_sd: bool) -> list[tuple[str, ...]]:
    """Say what to know about tests.

    Parameters
    ----------
    result : Result
        The tests, of arrays.
    tests : int
        How many they are.
    alpha : float
        The level at which they decide.
    known_sd : bool
        Whether the standard deviation was given.

    Returns
    -------
    list of tuple of str
        For each test sentences; none if there is nothing to know.
    """
    if result.method == "naive":
        undefined = np.broadcast_to(np.isnan(result.statistic), tests)
        return [(_UNDEFINED,) if each else () for each in undefined]
    worst = worst_pvalue(result)
    decides = False if known_sd else _shape_decides(result, alpha, worst)
    noise, error = np.asarray(result.noise_standard_error), np.asarray(result.standard_error)
    ratio = noise / np.maximum(np.sqrt(np.maximum(error**2 - noise**2, 0)), 1e-12)
    unsure = np.asarray(result.shape) < _HIDDEN  # then what is taken for the spread is an upper end of it
    reach = len(result.groups)  # of y in [-1, 1], or of a difference: the half of what there can be
    facts = np.broadcast_arrays(_doubtful_size(result), decides, worst, ratio, unsure, 2 * error >= reach)
    each = zip(*(np.broadcast_to(fact, tests).tolist() for fact in facts), strict=True)
    return [
        (
            *((_SIZE,) if doubtful else ()),
            *_about_noise(times, reach, hidden=hidden, wide=wide),
            *((_SHAPE.format(p),) if shape else ()),
        )
        for doubtful, shape, p, times, hidden, wide in each
    ]


def unreliable(result: Result, alpha: float) -> NDArray[np.bool_]:
    """Tell of which results a note says that their level may not hold.

    Parameters
    ----------
    result : Result
        Tests of numbers or arrays, with an estimated standard deviation.
    alpha : float
        The level at which they decide.

    Returns
    -------
    ndarray of bool
        Whether there is such a note.
    """
    return _doubtful_size(result) | _shape_decides(result, alpha, worst_pvalue(result))


def worst_pvalue(result: Result) -> Array:
    """Give the p-value for data as skewed as the bounds and the variance admit.

    Parameters
    ----------
    result : Result
        The test.

    Returns
    -------
    ndarray
        The p-value, by the first term of the Edgeworth expansion of a studentised mean.

    Notes ----- The third absolute central moment of y in [-1, 1] is at most (1 + |mean|) variance. The noise is
    symmetric, so the skewness γ of the estimate is at most the sum of (1 + |mean|) variance/n² over its standard
    error cubed; two groups are taken to have the same shape, and theirs to cancel. It moves the normal score of a
    tail from z to z - γ(2z² + 1)/6, which is trusted up to its turning point.
    """
    parts = [
        (1 + np.minimum(np.abs(group.mean), 1.0)) * variance / group.n**2
        for group, variance in zip(result.groups, result.variances, strict=True)
    ]
    skewness = np.abs(parts[0] - sum(parts[1:])) / np.asarray(result.standard_error) ** 3
    tail = np.asarray(result.pvalue) / (2 if result.alternative == "two-sided" else 1)
    z = -ndtri(np.maximum(tail, 1e-300))
    with np.errstate(divide="ignore"):
        trusted = np.minimum(np.abs(z), 1.5 / skewness)
    shift = skewness * (2 * trusted**2 + 1) / 6
    moved = np.sign(z) * trusted - shift
    if result.alternative == "two-sided":
        return np.asarray(np.minimum(ndtr(-moved) + ndtr(-trusted - shift), 1.0))
    return np.asarray(ndtr(-moved))


def _shape_decides(result: Result, alpha: float, worst: Array) -> NDArray[np.bool_]:
    """Whether a hypothesis is rejected that the worst p-value would not reject."""
    return (np.asarray(result.pvalue) <= alpha) & (worst > _SLACK * alpha)


def _doubtful_size(result: Result) -> NDArray[np.bool_]:
    return functools.reduce(np.logical_or, (group.doubtful_size for group in result.groups))


def _about_noise(times: float, reach: int, *, hidden: bool, wide: bool) -> list[str]:
    """Say of one test whether noise matters more than sampling."""
    noticed = []
    if times > (1.0 if hidden else _NOISY):
        opening = "Uninformative: the noise is as wide as the bounds. " if wide else ""
        much, least = f"{times:.2g} times", "at least " if hidden else ""
        noticed.append(
            f"{opening}The noise is {least}{much} the error of sampling; {much} the epsilon, bounds {much} as "
            f"narrow if the data fit, or {times**2:.2g} times the rows would level them."
        )
    if times > _LOOSE:
        noticed.append(
            f"The bounds are loose for this spread: {_RANKS[reach]} asks ranks, which they do not matter to."
        )
    return noticed
