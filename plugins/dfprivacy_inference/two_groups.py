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
    from dfprivacy_inference.scores import Spread

    Array = NDArray[np.float64]

__all__ = [
    "COMPLETE",
    "ENOUGH",
    "SIZES",
    "SLACK",
    "TIES",
    "VARIANCE_SLACK",
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
VARIANCE_SLACK = 1.0
"""The same for a variance that is measured itself."""

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
    statistic : ndarray
        The noisy statistic, such as H(M) D for the rank sum D.
    scale : ndarray
        The scale of its Laplace noise.
    sd : ndarray
        An upper bound of its standard deviation under the null hypothesis, without the noise.
    factor : ndarray
        What D is multiplied by, such as H(M).
    sizes : tuple of two ndarray, or None
        Rows with a value in each group, noisy where they are private; None where they were not measured.
    relative : ndarray
        How far the noise of the sizes moves an effect, as a part of its distance from 1/2.
    """

    statistic: Array
    scale: Array
    sd: Array
    factor: Array
    sizes: tuple[Array, Array] | None
    relative: Array

    @property
    def rank_sum(self) -> Array:
        """The noisy D."""
        return np.asarray(self.statistic / self.factor)

    def pvalue(self, alternative: Alternative = "two-sided", shapes: Shapes = "similar") -> Array:
        """Compute the p-value of the hypothesis that the effect is 1/2, by the variance of the interval there."""
        if shapes == "similar":
            return pvalue(self.statistic, self.sd, self.scale, alternative)
        if self.sizes is None:  # H(M)² n₁² n₂²/(4 min(n₁, n₂)) is n/8 at most, for H(M) M is 1 at most
            return pvalue(self.statistic, np.sqrt(2) * self.sd, self.scale, alternative)
        one, (first, second) = self._effect, self.sizes
        sd = np.sqrt(_variance(np.array(0.5), first, second, shapes))
        return pvalue(one - 0.5, sd, self.scale / (self.factor * first * second), alternative)

    @property
    def effect(self) -> Array | None:
        """P(X > Y) + P(X = Y)/2 for X of the first group and Y of the second; None without their sizes."""
        if self.sizes is None:
            return None
        return np.clip(self._effect, 0.0, 1.0)

    @property
    def _effect(self) -> Array:
        first, second = self.sizes or (np.array(np.nan),) * 2
        return np.asarray(0.5 + self.rank_sum / (first * second))

    def interval(self, confidence: float, shapes: Shapes = "similar") -> tuple[Array, Array] | None:
        """Return the values of the effect that a two-sided test does not reject; None without the sizes.

        1/2 is one of them if and only if `pvalue` is 1 - `confidence` or more.

        Parameters
        ----------
        confidence : float
            Coverage.
        shapes : {"any", "similar"}
            ``"any"``: the variance is the largest of all pairs of laws, A(1 - A)/min(n1, n2). ``"similar"``: that
            of two groups whose laws have one shape: the test's at 1/2, and elsewhere in proportion to Newcombe's
            method 5.

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
        unit = np.asarray(self.factor)[..., None] * first * second
        noise, null = np.asarray(self.scale)[..., None] / unit, np.asarray(self.sd)[..., None] / unit

        def rejected(a: Array) -> NDArray[np.bool_]:
            variance = _variance(a, first, second, shapes)
            if shapes == "similar":
                variance *= null**2 / _variance(np.array(0.5), first, second, shapes)
            variance = variance + (a - 0.5) ** 2 * relative**2
            sd = np.sqrt(np.maximum(variance, 1e-30))
            return np.asarray(pvalue(one - a, sd, noise) < 1 - confidence)

        # What the noise of the sizes stretches keeps its sign: where 1/2 is rejected, so is all beyond it.
        side = np.sign(one - 0.5) * rejected(np.full_like(one, 0.5))
        ends = np.stack([0.5 * (side > 0), 1 - 0.5 * (side < 0)])
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
    return np.asarray(few & (two.scale < two.sd))


def tapers(n: int, larger: Array, c: float) -> Array:
    """Give H(M) for every M of an array."""
    return np.array([taper(n, int(m), c) for m in np.ravel(larger)]).reshape(np.shape(larger))


def _largest(kind: Spread | None, spread: Array, scale: float, n: int, pairs: Array, rows: Array) -> Array:
    """Bound the variance of D from above: N rows in both groups, n₁n₂/N² pairs, and a noisy spread among n rows."""
    if kind == "variance":
        bound = pairs * rows**2 * (rows + 1) / 12  # of times that all differ, none of which is censored
        return np.minimum(bound, (np.maximum(spread, 0) + VARIANCE_SLACK * scale) * n * (n**2 - 1) / 12)
    all_differ = rows * (rows**2 - 1) / 12
    left = np.clip((spread + SLACK * scale) * n * (n**2 - 1) / 12, _TIES_MIN * all_differ, all_differ)
    return np.asarray(pairs * rows / (rows - 1) * (all_differ if kind is None else left))


def tapered(
    values: Sequence[Array],
    scales: Sequence[float],
    n: int,
    *,
    sizes: bool,
    complete: bool,
    spread: Spread | None,
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
    sizes, complete : bool
        Whether there are the sizes of the first and of both groups.
    spread : {"ties", "variance"} or None
        What the last coordinate is, if it is there.

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
        return TwoGroups(f, nothing + b, nothing + sd, nothing + taper(n, half), None, nothing)
    n1, b1 = values[1], scales[1]
    both, b2 = (values[2], scales[2]) if complete else (np.full_like(f, n), 0.0)
    # Under the null: sizes nearer to equal, and fewer ties, than the noise leaves likely.
    larger = np.clip(np.ceil(n / 2 + np.maximum(np.abs(n1 - n / 2) - SLACK * b1, 0)), half, n - 1)
    most, pairs = np.full_like(f, n), larger / n * (1 - larger / n)
    if complete:
        most = np.clip(both + SLACK * b2, 2, n)
        apart = np.maximum(np.abs(n1 - both / 2) - SLACK * np.hypot(b1, b2 / 2), 0)
        pairs = np.maximum(0.25 - (apart / most) ** 2, 0.0)  # n1 n2/(n1 + n2)²
    variance = _largest(spread, values[3], scales[3], n, pairs, most)
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
    return TwoGroups(f, np.zeros_like(f) + b, sd, factor, (first, second), relative)


def _moves(b1: float, b2: float) -> list[tuple[float, float]]:
    """Give standard deviations of two noisy numbers, one at a time."""
    return [(np.sqrt(2) * b1, 0.0), (0.0, np.sqrt(2) * b2)]


def known_groups(
    values: Sequence[Array],
    scales: Sequence[float],
    rows: tuple[int, int],
    *,
    complete: bool,
    spread: Spread | None,
) -> TwoGroups:
    """Conclude from the coordinates of a `RankSumOfKnownGroups`.

    Parameters
    ----------
    values, scales
        As for `tapered`.
    rows : tuple of two int
        Rows of each group.
    complete : bool
        Whether there are the rows of each group that have a value.
    spread : {"ties", "variance"} or None
        What the last coordinate is, if it is there.

    Returns
    -------
    TwoGroups
        What follows.
    """
    d, b = np.asarray(values[0], dtype=np.float64), scales[0]
    n, nothing = sum(rows), np.zeros_like(d)
    counted = zip(values[1:3], scales[1:3], strict=True) if complete else ((nothing + each, 0.0) for each in rows)
    (n1, b1), (n2, b2) = counted
    upper = [np.clip(each + SLACK * scale, 2, most) for each, scale, most in ((n1, b1, rows[0]), (n2, b2, rows[1]))]
    total = upper[0] + upper[1]
    variance = _largest(spread, values[3], scales[3], n, upper[0] * upper[1] / total**2, total)
    sd = np.sqrt(np.maximum(variance, 1e-12))
    sizes = tuple(np.clip(each, min(2.0, most), most) for each, most in zip((n1, n2), rows, strict=True))
    relative = np.sqrt(2 * ((b1 / sizes[0]) ** 2 + (b2 / sizes[1]) ** 2)) + nothing
    return TwoGroups(d, nothing + b, sd, nothing + 1, (sizes[0], sizes[1]), relative)


def per_row(values: Sequence[Array], scales: Sequence[float], spread: Spread | None) -> TwoGroups:
    """Conclude from the coordinates of a `RankSumPerRow`: the number of rows is private.

    Parameters
    ----------
    values, scales, spread
        As for `tapered`; the variance is that of D/n.

    Returns
    -------
    TwoGroups
        What follows.
    """
    (f, n1, n2, variance), (b, s, _, bv) = values, scales
    f = np.asarray(f, dtype=np.float64)
    n = np.maximum(n1 + n2 + _OTHER * SLACK * s, _FEWEST)
    apart = np.clip(np.abs(n1 - n2) / 2 - SLACK * s, 0, n / 2 - 1)
    p = 0.5 + apart / n
    bound = (n + 1) * p * (1 - p) / 12
    if spread == "variance":
        bound = np.minimum(bound, np.maximum(np.maximum(variance, 0) + VARIANCE_SLACK * bv, 1e-12))
    sd = np.sqrt(bound)
    first, second = (np.maximum(each, 2.0) for each in (n1, n2))
    total = first + second
    noise = np.sqrt(2) * s  # of each size; the effect is 1/2 + f n/(n1 n2), and n/(n1 n2) = 1/n1 + 1/n2
    relative = noise * np.sqrt((second / first) ** 2 + (first / second) ** 2) / total
    return TwoGroups(f, np.zeros_like(f) + b, sd, 1 / total, (first, second), relative)
