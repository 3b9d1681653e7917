"""Power, sample size and detectable effect of the private t-test, before any budget is spent.

They concern the default test (``method="conv"``, Welch for two samples) on normal data within the bounds.
Given the noise and the sample variances the estimate is normal, so the power is an average of normal
probabilities over 2048 evenly spread values of these; nothing is random. Against simulations of the test (n
from 20 to 2000, ε from 0.1 to 1) it is right to 0.01, except for a single sample of noisy size with n ε below
50, whose power it can understate by up to 0.1.

No function here reads data: effect, standard deviation and mean are what you expect or want to detect.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtr

from dfprivacy.errors import ArgumentError
from dfprivacy.schema import as_probability
from dfprivacy_ttest.calibrated import Alternative, Group, one_sample_t, two_sample_t

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["minimum_detectable_effect", "power", "sample_size"]

Neighbors = Literal["replace_one", "add_remove"]

# No data set is larger; where even this many rows do not suffice, no number is given.
_MOST_ROWS = 2**40


def power(
    n: int,
    epsilon: float,
    *,
    effect: float,
    sd: float,
    n2: int | None = None,
    bounds: tuple[float, float] = (-1.0, 1.0),
    mean: float | None = None,
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
    neighbors: Neighbors = "replace_one",
    fixed_groups: bool = False,
) -> float:
    """Probability that the private t-test finds an effect.

    Parameters
    ----------
    n : int
        Rows of the (first) sample.
    epsilon : float
        Budget of the test.
    effect : float
        True mean minus hypothetical mean, or first mean minus second, in the units of `bounds`.
    sd : float
        Standard deviation in each group, in the units of `bounds`.
    n2 : int, optional
        Rows of the second sample; without it the test is a one-sample test.
    bounds : tuple of float
        Bounds of the column. The default makes the units half widths of the bounds.
    mean : float, optional
        Hypothetical mean (two samples: the middle between the two means), in the units of `bounds`; default:
        the middle of these. A noisy size costs the more power the farther the mean is from there.
    alternative : {"two-sided", "less", "greater"}
        Side on which the test rejects.
    alpha : float
        Level.
    neighbors : {"replace_one", "add_remove"}
        What privacy protects: a row's values (the number of rows is public) or its presence.
    fixed_groups : bool
        Two samples under "replace_one": who is in which group is public, so that a row can change its value
        only.

    Returns
    -------
    float
        The power.

    Raises
    ------
    ArgumentError
        If an argument is out of range.

    Examples
    --------
    >>> round(power(400, 0.5, effect=0.1, sd=0.5), 2)
    0.93
    >>> round(power(400, 0.5, effect=6, sd=30, bounds=(0, 120)), 2)
    0.93
    """
    plan = _plan(
        epsilon, sd, bounds, mean, alternative, alpha, neighbors, fixed_groups=fixed_groups, two=n2 is not None
    )
    _check_rows(n, n2)
    return plan.power(n, n2, plan.scaled(effect))


def sample_size(
    power: float,
    epsilon: float,
    *,
    effect: float,
    sd: float,
    ratio: float | None = None,
    bounds: tuple[float, float] = (-1.0, 1.0),
    mean: float | None = None,
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
    neighbors: Neighbors = "replace_one",
    fixed_groups: bool = False,
) -> int:
    """Rows that the private t-test needs to find an effect.

    Parameters
    ----------
    power : float
        Wanted probability of finding it, between `alpha` and 1.
    epsilon : float
        Budget of the test.
    effect : float
        True mean minus hypothetical mean, or first mean minus second, in the units of `bounds`.
    sd : float
        Standard deviation in each group, in the units of `bounds`.
    ratio : float, optional
        Rows of the second sample for each row of the first; without it the test is a one-sample test.
    bounds, mean, alternative, alpha, neighbors, fixed_groups
        As in `power`.

    Returns
    -------
    int
        Rows of the (first) sample.

    Raises
    ------
    ArgumentError
        If an argument is out of range, or if no sample is large enough.

    Examples
    --------
    >>> sample_size(0.8, 0.5, effect=0.1, sd=0.5, ratio=1, fixed_groups=True)
    494
    """
    plan = _plan(
        epsilon,
        sd,
        bounds,
        mean,
        alternative,
        alpha,
        neighbors,
        fixed_groups=fixed_groups,
        two=ratio is not None,
    )
    _check_power(power, alpha)
    shift = plan.scaled(effect)
    if shift == 0 or (alternative == "greater" and shift < 0) or (alternative == "less" and shift > 0):
        raise ArgumentError(
            f"No sample is large enough to find effect={effect} with alternative={alternative!r}.",
            "Give an effect that is not zero and lies on the alternative's side.",
        )
    if ratio is not None and not 0 < ratio < math.inf:
        raise ArgumentError(f"ratio={ratio} must be positive.", "Use 1 for groups of equal size.")

    def enough(n: int) -> bool:
        n2 = None if ratio is None else max(2, round(ratio * n))
        return plan.power(n, n2, shift) >= power

    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
        if high > _MOST_ROWS:
            raise ArgumentError(
                f"More than {_MOST_ROWS:.0e} rows would be needed.", "Look for a larger effect, or spend more."
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def minimum_detectable_effect(
    n: int,
    epsilon: float,
    *,
    sd: float,
    power: float = 0.8,
    n2: int | None = None,
    bounds: tuple[float, float] = (-1.0, 1.0),
    mean: float | None = None,
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
    neighbors: Neighbors = "replace_one",
    fixed_groups: bool = False,
) -> float:
    """Smallest effect that the private t-test finds with a given power.

    Parameters
    ----------
    n : int
        Rows of the (first) sample.
    epsilon : float
        Budget of the test.
    sd : float
        Standard deviation in each group, in the units of `bounds`.
    power : float
        Wanted probability of finding the effect, between `alpha` and 1.
    n2 : int, optional
        Rows of the second sample; without it the test is a one-sample test.
    bounds, mean, alternative, alpha, neighbors, fixed_groups
        As in `power`.

    Returns
    -------
    float
        The size of the effect without its sign, to 0.1%, in the units of `bounds`; infinity if no effect that
        fits between the bounds is large enough.

    Raises
    ------
    ArgumentError
        If an argument is out of range.

    Examples
    --------
    >>> round(minimum_detectable_effect(400, 0.5, sd=0.5), 3)
    0.081
    >>> minimum_detectable_effect(20, 0.01, sd=0.5)
    inf
    """
    plan = _plan(
        epsilon, sd, bounds, mean, alternative, alpha, neighbors, fixed_groups=fixed_groups, two=n2 is not None
    )
    _check_rows(n, n2)
    _check_power(power, alpha)
    sign = -1.0 if alternative == "less" else 1.0

    def surplus(size: float) -> float:
        return plan.power(n, n2, sign * size) - power

    if surplus(2.0) <= 0:
        return math.inf
    return plan.half * float(brentq(surplus, 0.0, 2.0, xtol=1e-9, rtol=1e-3))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Plan:
    """A test to come, in units of y in [-1, 1], with the noise of its release."""

    half: float
    sd: float
    mean: float
    alternative: Alternative
    alpha: float
    scale_total: float
    scale_squares: float
    scale_rest: float  # of the noise of Σ(1 - y²); 0 if sizes are public

    def scaled(self, effect: float) -> float:
        """Give the effect in y units."""
        if not abs(effect) <= 2 * self.half:
            raise ArgumentError(
                f"effect={effect} does not fit between the bounds.",
                "Give effect and sd in the units of bounds=; the default bounds are (-1, 1).",
            )
        return effect / self.half

    def power(self, n: int, n2: int | None, effect: float) -> float:
        """Average, over the noise, the probability that the interval excludes the null hypothesis.

        Given the noise and the sample variances, the estimate is normal and the interval moves with it.
        """
        u = _nodes(4 if n2 is None else 8)
        if n2 is None:
            group, se = self.release(n, self.mean + effect, u)
            null, result = self.mean, one_sample_t(group, self.mean, alternative=self.alternative)
        else:
            first, se1 = self.release(n, self.mean + effect / 2, u[:4])
            second, se2 = self.release(n2, self.mean - effect / 2, u[4:])
            se = np.hypot(se1, se2)
            null, result = 0.0, two_sample_t(first, second, alternative=self.alternative)
        low, high = result.interval(1 - self.alpha)
        return float(np.mean(ndtr((low - null) / se) + ndtr((null - high) / se)))

    def release(self, n: int, mean: float, u: Array) -> tuple[Group, Array]:
        """Give releases of samples whose average is `mean`, and the standard error of that average."""
        noise, noise_squares, noise_rest = (
            -scale * np.sign(v - 0.5) * np.log1p(-2 * np.abs(v - 0.5))
            for scale, v in zip((self.scale_total, self.scale_squares, self.scale_rest), u, strict=False)
        )
        deviations = self.sd**2 * 2 * gammaincinv((n - 1) / 2, u[3])
        private = self.scale_rest > 0
        group = Group(
            total=n * mean + noise,
            squares=deviations + n * mean**2 + noise_squares,
            size=n + noise_squares + noise_rest if private else n,
            scale_total=self.scale_total,
            scale_squares=self.scale_squares,
            size_variance=2 * (self.scale_squares**2 + self.scale_rest**2) if private else 0.0,
        )
        return group, self.sd * math.sqrt(n) / group.n


def _nodes(dimension: int) -> Array:
    """Spread points evenly over the unit cube, of shape (dimension, points).

    The multiples, modulo 1, of the powers of the root of x^(d+1) = x + 1: the golden ratio in d dimensions.
    """
    root = 2.0
    for _ in range(50):
        root = (1 + root) ** (1 / (dimension + 1))
    steps = root ** -np.arange(1.0, dimension + 1)
    points: Array = (0.5 + steps[:, None] * np.arange(1, 2049)) % 1.0
    return points


def _plan(
    epsilon: float,
    sd: float,
    bounds: tuple[float, float],
    mean: float | None,
    alternative: Alternative,
    alpha: float,
    neighbors: Neighbors,
    *,
    fixed_groups: bool,
    two: bool,
) -> _Plan:
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
    # or goes, and twice that for a row that changes its group.
    public_sizes = neighbors == "replace_one" and (fixed_groups or not two)
    sensitivity = 2.0 if public_sizes else 1.5 if neighbors == "add_remove" else 3.0
    return _Plan(
        half=half,
        sd=sd / half,
        mean=(mean - mid) / half,
        alternative=alternative,
        alpha=alpha,
        scale_total=sensitivity / epsilon,
        scale_squares=2 * sensitivity / epsilon,
        scale_rest=0.0 if public_sizes else sensitivity / epsilon,
    )


def _check_rows(n: int, n2: int | None) -> None:
    if not (2 <= n <= _MOST_ROWS and (n2 is None or 2 <= n2 <= _MOST_ROWS)):  # noqa: PLR2004
        raise ArgumentError(f"n={n} or n2={n2} is out of range.", "A t-test needs two rows in every group.")


def _check_power(power: float, alpha: float) -> None:
    if not alpha < power < 1:
        raise ArgumentError(f"power={power} must lie between alpha={alpha} and 1.", "Use, for example, power=0.8.")
