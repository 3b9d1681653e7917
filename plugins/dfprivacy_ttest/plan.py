"""A t-test to come: the noise of its release, and how often it will reject."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import gammaincinv, ndtri

from dfprivacy.arguments import NanPolicy
from dfprivacy.errors import ArgumentError
from dfprivacy.schema import as_probability
from dfprivacy_ttest.calibrated import Alternative
from dfprivacy_ttest.group import Array, Group, side_by_side
from dfprivacy_ttest.law import null_law

__all__ = ["Neighbors", "Plan", "plan_of"]

Neighbors = Literal["replace_one", "add_remove"]

_POINTS = 16


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A test to come, in units of y in [-1, 1], with the noise of its release.

    Attributes
    ----------
    half : float
        Half the width of the bounds, in the column's units.
    sd, mean : float
        The standard deviation, and the hypothetical mean.
    alternative, alpha
        The side, and the level.
    scale_total, scale_squares, scale_size, scale_both : float
        As in `Group`.
    """

    half: float
    sd: float
    mean: float
    alternative: Alternative
    alpha: float
    scale_total: float
    scale_squares: float
    scale_size: float
    scale_both: float

    def scaled(self, effect: float) -> float:
        """Give the effect in y units."""
        if not abs(effect) <= 2 * self.half:
            raise ArgumentError(
                f"effect={effect} does not fit between the bounds.",
                "Give effect and sd in the units of bounds=; the default bounds are (-1, 1).",
            )
        return effect / self.half

    def power(self, n: int, n2: int | None, effect: float) -> float:
        """Average, over what the noisy variance may be, the probability of a distance at which the test rejects.

        The law of the distance is known; where the test rejects depends on the noisy variance, and on how
        much of the distance the test takes for noise. So it is found at the edge, in two turns.
        """
        sizes = [n] if n2 is None else [n, n2]
        means = [self.mean + effect] if n2 is None else [self.mean + effect / 2, self.mean - effect / 2]
        tail = self.alpha / 2 if self.alternative == "two-sided" else self.alpha
        errors = _points(2 * len(sizes)).reshape(len(sizes), 2, _POINTS)
        sign = -1.0 if self.alternative == "less" or (self.alternative == "two-sided" and effect < 0) else 1.0
        edge, null = np.zeros(_POINTS), np.full(len(sizes), self.mean)
        for tolerance in (1e-2, 1e-6):
            noise = (sign * edge - effect) / len(sizes)  # of each mean, for the distance to be at the edge
            groups = [
                self.release(size, mean, error, noise if at == 0 else -noise)
                for at, (size, mean, error) in enumerate(zip(sizes, means, errors, strict=True))
            ]
            both = side_by_side(*groups)
            law, _ = null_law(both, null, sign * edge, sd=None, pooled=False)
            edge = law.distance(tail, tolerance=tolerance)
        true, _ = null_law(both, np.array(means), np.zeros(()), sd=self.sd, pooled=False)
        power = 0.0
        if self.alternative != "less":
            power += float(np.mean(true.cdf(effect - edge)))
        if self.alternative != "greater":
            power += float(np.mean(true.cdf(-effect - edge)))
        return power

    def release(self, n: int, mean: float, points: Array, noise: Array | float) -> Group:
        """Give releases of samples whose average is `mean`, with this noise of it and quantiles of other errors."""
        draw = -np.sign(points[0] - 0.5) * np.log1p(-2 * np.abs(points[0] - 0.5))  # Laplace
        scale = math.hypot(self.scale_squares, self.scale_both)
        deviations = self.sd**2 * 2 * gammaincinv((n - 1) / 2, points[1])
        return Group(
            total=n * (mean + noise + np.zeros(_POINTS)),
            squares=deviations + n * mean**2 + scale * draw,
            size=float(n),
            scale_total=self.scale_total,
            scale_squares=self.scale_squares,
            scale_size=self.scale_size,
            scale_both=self.scale_both,
        )

    def rows(self, power: float, ratio: float | None, effect: float) -> tuple[int, int]:
        """Guess between which numbers of rows the wanted power is reached, as if everything were normal."""
        wanted = (effect / self._scores(power)) ** 2  # the variance of the estimate
        share = 0.0 if ratio is None else 1 / ratio
        sampling, noise = self.sd**2 * (1 + share), self._noise * (1 + share**2)
        guess = (sampling + math.sqrt(sampling**2 + 4 * wanted * noise)) / (2 * wanted)
        if not guess < 2.0**40:
            return 2**39, 2**40
        low = int(0.95 * guess)
        return (max(1, low)), math.ceil(1.1 * guess) + 2

    def effect(self, power: float, n: int, n2: int | None) -> float:
        """Guess which effect is found with the wanted power, in the same way."""
        sizes = [n] if n2 is None else [n, n2]
        return self._scores(power) * math.sqrt(sum(self.sd**2 / size + self._noise / size**2 for size in sizes))

    def _scores(self, power: float) -> float:
        tail = self.alpha / 2 if self.alternative == "two-sided" else self.alpha
        return float(ndtri(1 - tail) + ndtri(power))

    @property
    def _noise(self) -> float:
        """Variance of the noise of S₁ - mean n."""
        return 2 * (self.scale_total**2 + self.mean**2 * (self.scale_size**2 + self.scale_both**2))


def _points(dimension: int) -> Array:
    """Spread points evenly over the unit cube, each with the one opposite of it, shape (dimension, points).

    The multiples, modulo 1, of the powers of the root of x^(d+1) = x + 1: the golden ratio in d dimensions.
    """
    root = 2.0
    for _ in range(50):
        root = (1 + root) ** (1 / (dimension + 1))
    steps = root ** -np.arange(1.0, dimension + 1)
    points = (0.5 + steps[:, None] * np.arange(1, _POINTS // 2 + 1)) % 1.0
    return np.hstack([points, 1 - points])


def plan_of(
    epsilon: float,
    sd: float,
    bounds: tuple[float, float],
    mean: float | None,
    alternative: Alternative,
    alpha: float,
    neighbors: Neighbors,
    *,
    fixed_groups: bool,
    nan_policy: NanPolicy,
    two: bool,
) -> Plan:
    """Plan a test.

    Parameters
    ----------
    epsilon, sd, bounds, mean, alternative, alpha, neighbors, fixed_groups, nan_policy
        As in `dfprivacy_ttest.power`.
    two : bool
        Whether there are two samples.

    Returns
    -------
    Plan
        The plan.

    Raises
    ------
    ArgumentError
        If an argument is out of range.
    """
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ArgumentError(f"bounds={bounds} are not an interval.", "Give (low, high) with low < high.")
    half, mid = (high - low) / 2, (low + high) / 2
    mean = mid if mean is None else mean
    if not low <= mean <= high:
        raise ArgumentError(f"mean={mean} lies outside the bounds.", "Give it in the units of bounds=.")
    if not 0 < sd <= half:
        raise ArgumentError(
            f"sd={sd} must be positive and at most half the width of the bounds, {half}.",
            "Give effect and sd in the units of bounds=; the default bounds are (-1, 1).",
        )
    if not 0 < epsilon < math.inf:
        raise ArgumentError(f"epsilon={epsilon} must be positive and finite.", "Use, for example, 0.5.")
    as_probability(alpha, "alpha")
    if alternative not in {"two-sided", "less", "greater"}:
        raise ArgumentError(f"There is no alternative {alternative!r}.", "Use 'two-sided', 'less' or 'greater'.")
    if neighbors not in {"replace_one", "add_remove"}:
        raise ArgumentError(f"There is no neighbors={neighbors!r}.", "Use 'replace_one' or 'add_remove'.")
    # L1 sensitivity of (Σy, Σy²/2) is 2. Private sizes add the coordinate Σ(1 - y²): 1.5 for a row that comes
    # or goes, and twice that for a row that changes its group. Where rows can be left out, a public size is
    # measured beside them, for nothing.
    public_sizes = neighbors == "replace_one" and (fixed_groups or not two)
    sensitivity = 2.0 if public_sizes else 1.5 if neighbors == "add_remove" else 3.0
    scale = sensitivity / epsilon
    beside = public_sizes and nan_policy == "omit"
    return Plan(
        half=half,
        sd=sd / half,
        mean=(mean - mid) / half,
        alternative=alternative,
        alpha=alpha,
        scale_total=scale,
        scale_squares=2 * scale if public_sizes else 0.0,
        scale_size=0.0 if public_sizes else scale,
        scale_both=scale if beside else 0.0 if public_sizes else 2 * scale,
    )
