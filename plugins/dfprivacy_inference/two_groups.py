"""What follows from a noisy rank sum of two groups: a p-value, and the common-language effect with its interval.

All numbers may be arrays, one for each release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfprivacy_inference.laws import pvalue
from dfprivacy_inference.taper import taper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy_inference.laws import Alternative

    Array = NDArray[np.float64]

__all__ = [
    "COMPLETE",
    "ENOUGH",
    "SIZES",
    "SLACK",
    "TIES",
    "Shapes",
    "TwoGroups",
    "coarse",
    "known_groups",
    "per_row",
    "tapered",
    "tapers",
]

Shapes = Literal["any", "similar"]

ENOUGH = 100.0
"""From this number of rows times epsilon on the sizes and ties are measured as well."""
SIZES, COMPLETE, TIES = 0.2, 0.1, 0.1
"""Parts of the sensitivity for the size of the first group, the number of rows in both, and ties."""
SLACK = 2.5
"""How many scales of their noise the sizes and ties are moved towards the wider law."""

_TIES_MIN = 0.02
_BITS = 40  # of an end of an interval
_FEW_RELEASES = 64  # of which sixteen values take as long as one
_OTHER = 1.4  # scales of the noise of a number of rows that is a sum of two
_FEWEST = 4.0
_MOSTLY_EQUAL = 0.5
_FEW = 5.0  # values that are not the usual one, in the smaller group
_TAPER_TOO = 2.0  # the size of the smaller group is at least this where it is divided by


@dataclass(frozen=True)
class TwoGroups:
    """A noisy rank sum, and the law that it has under the null hypothesis.

    Attributes
    ----------
    rank_sum : ndarray
        The noisy D.
    scale : ndarray
        The scale of its Laplace noise.
    statistic : ndarray
        What the p-value is of, such as H(M) D.
    statistic_scale : ndarray
        The scale of its noise.
    statistic_sd : ndarray
        An upper bound of its standard deviation under the null hypothesis, without the noise.
    sizes : tuple of two ndarray, or None
        Rows with a value in each group, noisy where they are private; None where they were not measured.
    relative : ndarray
        How far the noise of the sizes moves an effect, as a part of its distance from 1/2.
    """

    rank_sum: Array
    scale: Array
    statistic: Array
    statistic_scale: Array
    statistic_sd: Array
    sizes: tuple[Array, Array] | None
    relative: Array

    def pvalue(self, alternative: Alternative = "two-sided") -> Array:
        """Give the p-value."""
        return pvalue(self.statistic, self.statistic_sd, self.statistic_scale, alternative)

    @property
    def effect(self) -> Array | None:
        """P(X > Y) + P(X = Y)/2 for X of the first group and Y of the second; None without their sizes."""
        if self.sizes is None:
            return None
        return np.clip(self._effect, 0.0, 1.0)

    @property
    def _effect(self) -> Array:
        first, second = self.sizes or (np.array(np.nan),) * 2
        return 0.5 + self.rank_sum / (first * second)

    def interval(self, confidence: float, shapes: Shapes = "any") -> tuple[Array, Array] | None:
        """Give the values of the effect that a two-sided test does not reject; None without the sizes.

        Parameters
        ----------
        confidence : float
            Coverage.
        shapes : {"any", "similar"}
            ``"any"``: the variance is the largest of all pairs of laws, A(1 - A)/min(n1, n2). ``"similar"``: that
            of two groups whose laws have one shape, by Newcombe's method 5; narrower.

        Returns
        -------
        tuple of two ndarray, or None
            The ends.
        """
        if self.sizes is None:
            return None
        # The two ends first, the releases, and what is tried of each last.
        one = np.asarray(self._effect)[..., None]
        first, second, relative = (np.asarray(each)[..., None] for each in (*self.sizes, self.relative))
        noise = np.asarray(self.scale)[..., None] / (first * second)

        def rejected(a: Array) -> NDArray[np.bool_]:
            variance = _variance(a, first, second, shapes) + (a - 0.5) ** 2 * relative**2
            sd = np.sqrt(np.maximum(variance, 1e-30))
            return np.asarray(pvalue(one - a, sd, noise) < 1 - confidence)

        ends = np.stack([np.zeros_like(one), np.ones_like(one)])
        tolerated = ~rejected(ends)
        bits = 4 if one.size < _FEW_RELEASES else 1
        parts = np.arange(1, 2**bits) / 2**bits
        out, kept = ends, np.clip(one, 0.0, 1.0)
        for _ in range(_BITS // bits):
            tried = out + (kept - out) * parts
            no = rejected(tried)
            # How many of them are rejected, from the end inwards: the last that is, and the first that is not.
            far = np.where(no.all(axis=-1, keepdims=True), len(parts), no.argmin(axis=-1, keepdims=True))
            out, kept = (out + (kept - out) * at / 2**bits for at in (far, far + 1))
        low, high = np.where(tolerated, ends, kept)[..., 0]
        return low, high


def _variance(a: Array, first: Array, second: Array, shapes: Shapes) -> Array:
    """Variance of an estimate of the effect whose true value is a."""
    if shapes == "any":  # Birnbaum and Klose
        return a * (1 - a) / np.minimum(first, second)
    each = (first + second) / 2 - 1  # Hanley and McNeil, both sizes alike
    return a * (1 - a) * (1 + each * (1 - a) / (2 - a) + each * a / (1 + a)) / (first * second)


def coarse(two: TwoGroups, tau: Array) -> NDArray[np.bool_]:
    """Tell where nearly all values are equal and few others are in the smaller group, and no noise hides it.

    Parameters
    ----------
    two : TwoGroups
        Releases with sizes.
    tau : ndarray
        The noisy share that ties leave of the variance; about three times the share of values that are not the
        usual one, if that is small.

    Returns
    -------
    ndarray of bool
        Whether the normal law may be too light in its tails.
    """
    if two.sizes is None:
        return np.zeros(np.shape(tau), dtype=np.bool_)
    smaller = np.minimum(*two.sizes)
    few = (tau < _MOSTLY_EQUAL) & (smaller * tau < 3 * _FEW)
    return np.asarray(few & (two.statistic_scale < two.statistic_sd))


def tapers(n: int, larger: Array, c: float) -> Array:
    """Give H(M) for every M of an array."""
    return np.array([taper(n, int(m), c) for m in np.ravel(larger)]).reshape(np.shape(larger))


def tapered(
    values: Sequence[Array],
    scales: Sequence[float],
    n: int,
    *,
    sizes: bool,
    complete: bool,
    ties: bool,
) -> TwoGroups:
    """Conclude from the coordinates of a `RankSum`: two private groups among n rows.

    Parameters
    ----------
    values : sequence of ndarray
        Its noisy coordinates.
    scales : sequence of float
        Scales of their noise.
    n : int
        Number of rows.
    sizes, complete, ties : bool
        Which of the coordinates beyond the first there are.

    Returns
    -------
    TwoGroups
        What follows.
    """
    f, b = np.asarray(values[0], dtype=np.float64), scales[0]
    half = (n + 1) // 2
    if not sizes:
        sd = taper(n, half) * np.sqrt(n * (n + 1) * half * (n - half) / n / 12)
        nothing = np.zeros_like(f)
        return TwoGroups(
            f / taper(n, half), nothing + b / taper(n, half), f, nothing + b, nothing + sd, None, nothing
        )
    n1, b1 = values[1], scales[1]
    both, b2 = (values[2], scales[2]) if complete else (np.full_like(f, n), 0.0)
    tau, bt = (values[3], scales[3]) if ties else (np.ones_like(f), 0.0)
    # Under the null: sizes nearer to equal, and fewer ties, than the noise leaves likely.
    larger = np.clip(np.ceil(n / 2 + np.maximum(np.abs(n1 - n / 2) - SLACK * b1, 0)), half, n - 1)
    most = np.clip(both + SLACK * b2, 2, n)
    if complete:
        apart = np.maximum(np.abs(n1 - both / 2) - SLACK * np.hypot(b1, b2 / 2), 0)
        pairs = np.maximum(0.25 - (apart / most) ** 2, 0.0)  # n1 n2/(n1 + n2)²
        left = np.clip((tau + SLACK * bt) * n * (n**2 - 1) / 12, 0, most * (most**2 - 1) / 12)
        left = np.maximum(left, _TIES_MIN * most * (most**2 - 1) / 12)
        variance = pairs * most / (most - 1) * left
    else:
        p = larger / n
        variance = n**2 * (n + 1) * p * (1 - p) * np.clip(tau + SLACK * bt, _TIES_MIN, 1) / 12
    sd = tapers(n, larger, SIZES) * np.sqrt(np.maximum(variance, 1e-12))
    # The estimates.
    low = min(_TAPER_TOO, n / 2)

    def parts(of_first: Array, of_both: Array) -> tuple[Array, Array, Array]:
        total = np.clip(of_both, 2 * low, n)
        first = np.clip(of_first, low, total - low)
        factor = tapers(n, np.clip(np.rint(np.maximum(first, n - first)), half, n - 1), SIZES)
        return first, total - first, factor

    def log(of_first: Array, of_both: Array) -> Array:
        first, second, factor = parts(of_first, of_both)
        return np.log(factor * first * second)

    first, second, factor = parts(n1, both)
    moved = [(log(n1 + d1, both + d2) - log(n1 - d1, both - d2)) / 2 for d1, d2 in _moves(b1, b2)]
    relative = np.sqrt(sum(np.square(each) for each in moved))
    return TwoGroups(f / factor, b / factor, f, np.zeros_like(f) + b, sd, (first, second), relative)


def _moves(b1: float, b2: float) -> list[tuple[float, float]]:
    """Give standard deviations of two noisy numbers, one at a time."""
    return [(np.sqrt(2) * b1, 0.0), (0.0, np.sqrt(2) * b2)]


def known_groups(
    values: Sequence[Array],
    scales: Sequence[float],
    rows: tuple[int, int],
    *,
    complete: bool,
    ties: bool,
) -> TwoGroups:
    """Conclude from the coordinates of a `RankSumOfKnownGroups`.

    Parameters
    ----------
    values, scales
        As for `tapered`.
    rows : tuple of two int
        Rows of each group.
    complete, ties : bool
        Which of the coordinates beyond the first there are.

    Returns
    -------
    TwoGroups
        What follows.
    """
    d, b = np.asarray(values[0], dtype=np.float64), scales[0]
    n, nothing = sum(rows), np.zeros_like(d)
    counted = zip(values[1:3], scales[1:3], strict=True) if complete else ((nothing + each, 0.0) for each in rows)
    (n1, b1), (n2, b2) = counted
    tau, bt = (values[3], scales[3]) if ties else (nothing + 1, 0.0)
    upper = [np.clip(each + SLACK * scale, 2, most) for each, scale, most in ((n1, b1, rows[0]), (n2, b2, rows[1]))]
    total = upper[0] + upper[1]
    left = np.clip((tau + SLACK * bt) * n * (n**2 - 1) / 12, 0, total * (total**2 - 1) / 12)
    left = np.maximum(left, _TIES_MIN * total * (total**2 - 1) / 12)
    sd = np.sqrt(upper[0] * upper[1] / (total * (total - 1)) * left)
    sizes = tuple(np.clip(each, min(2.0, most), most) for each, most in zip((n1, n2), rows, strict=True))
    relative = np.sqrt(2 * ((b1 / sizes[0]) ** 2 + (b2 / sizes[1]) ** 2)) + nothing
    return TwoGroups(d, nothing + b, d, nothing + b, sd, (sizes[0], sizes[1]), relative)


def per_row(values: Sequence[Array], scales: Sequence[float]) -> TwoGroups:
    """Conclude from the coordinates of a `RankSumPerRow`: the number of rows is private.

    Parameters
    ----------
    values, scales
        As for `tapered`.

    Returns
    -------
    TwoGroups
        What follows.
    """
    (f, n1, n2), (b, s, _) = values, scales
    f = np.asarray(f, dtype=np.float64)
    n = np.maximum(n1 + n2 + _OTHER * SLACK * s, _FEWEST)
    apart = np.clip(np.abs(n1 - n2) / 2 - SLACK * s, 0, n / 2 - 1)
    p = 0.5 + apart / n
    sd = np.sqrt((n + 1) * p * (1 - p) / 12)
    first, second = (np.maximum(each, 2.0) for each in (n1, n2))
    total = first + second
    noise = np.sqrt(2) * s  # of each size; the effect is 1/2 + f n/(n1 n2), and n/(n1 n2) = 1/n1 + 1/n2
    relative = noise * np.sqrt((second / first) ** 2 + (first / second) ** 2) / total
    return TwoGroups(f * total, b * total, f, np.zeros_like(f) + b, sd, (first, second), relative)
