"""Power, sample size and detectable effect of the private t-test, before any budget is spent.

They concern the default test (``method="conv"``, Welch for two samples) on normal data within the bounds, none of
them missing: the share of releases, at evenly spread points of the laws of data and noise, that the test rejects.

No function here reads data: effect, standard deviation and mean are what you expect or want to detect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.special import ndtri

from dfprivacy import Column, Curator, Probability, Range
from dfprivacy.arguments import NanPolicy
from dfprivacy.errors import ArgumentError
from dfprivacy.inference import planning
from dfprivacy.inference.clipped import WEIGHT
from dfprivacy.inference.engine import Alternative, infer
from dfprivacy.inference.moments import Form, NoisyMoments
from dfprivacy.laws import NoiseLaw
from dfprivacy.made_up import assumed_sd, equal_weights, groups_in_steps
from dfprivacy.schema import as_probability
from dfprivacy_ttest.mechanisms import noisy_moments, weighted_parameter
from dfprivacy_ttest.parameters import Queries, mean_parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Neighbors", "draw_values", "minimum_detectable_effect", "plan_test", "power", "sample_size"]

Neighbors = Literal["replace_one", "add_remove"]
PowerOf = Callable[[Sequence[int], float], float]
_MOST_ROWS = 2**40
_ADVICE_NOISE_RATIO = 2.0  # times the error of sampling
_RANKS_NOISE_RATIO = 1.0  # from this many on ranks find more
_N_TABLES = 256


def _power_function(
    sums: NoisyMoments,
    sd: float,
    mean: float | None,
    alternative: Alternative,
    alpha: float,
    sigma: float | None = None,
    tables: int = 1024,
) -> PowerOf:
    """Return a function that computes the power of a planned test from its group sizes and effect.

    Parameters
    ----------
    sums : NoisyMoments
        A release with its noise and bounds; the values do not matter.
    sd, mean, alternative, alpha
        As in `power`.
    sigma : float, optional
        The standard deviation, where it is known to the test.
    tables : int
        Of how many releases a power is the share.
    """
    at, two = sums.mid if mean is None else mean, sums.values.shape[-2] > 1

    def power_at(sizes: Sequence[int], effect: float) -> float:
        if not abs(effect) <= 2 * sums.half:
            raise ArgumentError(
                f"effect={effect} puts a mean outside the bounds.",
                "Give effect and sd in the units of bounds=; the default bounds are (-1, 1).",
            )
        means = [at + effect / 2, at - effect / 2] if two else [at + effect]
        releases, tested = (
            sums.simulate(sizes, means, [sd] * len(means), tables),
            mean_parameter(len(means), sigma=sigma),
        )
        return planning.power(releases, tested, null=0.0 if two else at, alternative=alternative, alpha=alpha)

    return power_at


def _min_effect(power_at: PowerOf, sizes: Sequence[int], power: float, side: Alternative, half: float) -> float:
    """Return the smallest absolute effect that the test detects with the given power."""
    return planning.effect_for(power, lambda shift: power_at(sizes, -shift if side == "less" else shift), 2 * half)


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
    nan_policy: NanPolicy = "omit",
) -> float:
    """Return the probability that the private t-test detects an effect.

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
    nan_policy : {"omit", "fill", "raise"}
        What becomes of missing values: "omit" makes the number of rows noisy even where it is public.

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
    sizes = _checked_sizes(n, n2)
    sums = _planned_moments(
        epsilon, len(sizes), sd, bounds, mean, alternative, alpha, neighbors, fixed_groups, nan_policy
    )
    return _power_function(sums, sd, mean, alternative, alpha)(sizes, effect)


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
    nan_policy: NanPolicy = "omit",
) -> int:
    """Return the number of rows that the private t-test needs to detect an effect.

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
    bounds, mean, alternative, alpha, neighbors, fixed_groups, nan_policy
        As in `power`.

    Returns
    -------
    int
        Rows of the (first) sample, to about 3 percent.

    Raises
    ------
    ArgumentError
        If an argument is out of range, or if no sample is large enough.

    Examples
    --------
    >>> 490 < sample_size(0.8, 0.5, effect=0.1, sd=0.5, ratio=1, fixed_groups=True) < 530
    True
    """
    groups = 1 if ratio is None else 2
    sums = _planned_moments(
        epsilon, groups, sd, bounds, mean, alternative, alpha, neighbors, fixed_groups, nan_policy
    )
    _check_power(power, alpha)
    if effect == 0 or (alternative == "greater" and effect < 0) or (alternative == "less" and effect > 0):
        raise ArgumentError(
            f"No sample is large enough to detect effect={effect} with alternative={alternative!r}.",
            "Use an effect that is not 0 and has the sign of the alternative.",
        )
    if ratio is not None and not 0 < ratio < math.inf:
        raise ArgumentError(f"ratio={ratio} must be positive.", "Use 1 for groups of equal size.")

    power_at = _power_function(sums, sd, mean, alternative, alpha)
    return planning.rows_for(
        power, lambda n: power_at([n] if ratio is None else [n, max(2, round(ratio * n))], effect)
    )


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
    nan_policy: NanPolicy = "omit",
) -> float:
    """Return the smallest effect that the private t-test detects with a given power.

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
    bounds, mean, alternative, alpha, neighbors, fixed_groups, nan_policy
        As in `power`.

    Returns
    -------
    float
        The size of the effect without its sign, to about 2 percent, in the units of `bounds`; infinity if no
        effect that fits between the bounds is large enough.

    Raises
    ------
    ArgumentError
        If an argument is out of range.

    Examples
    --------
    >>> round(minimum_detectable_effect(400, 0.5, sd=0.5), 2)
    0.08
    >>> minimum_detectable_effect(20, 0.01, sd=0.5)
    inf
    """
    sizes = _checked_sizes(n, n2)
    sums = _planned_moments(
        epsilon, len(sizes), sd, bounds, mean, alternative, alpha, neighbors, fixed_groups, nan_policy
    )
    _check_power(power, alpha)
    return _min_effect(_power_function(sums, sd, mean, alternative, alpha), sizes, power, alternative, sums.half)


def plan_test(
    curator: Curator,
    *,
    column: Column,
    alternative: Alternative,
    alpha: float,
    by: Column | None = None,
    popmean: float = 0.0,
    sigma: float | None = None,
    queries: Queries = "jointly",
    weights: Column | None = None,
    **_: Any,
) -> Mapping[str, Any]:
    """Return the smallest effect that a test detects, or the rows that it needs, and its noise; for ``explain``."""
    if weights is not None:
        return _plan_weighted(curator, column, weights, alternative, alpha)
    groups, sums = (1 if by is None else 2), noisy_moments(curator.planned, column, queries)
    sd = column.half / 2 if sigma is None else sigma
    power_at = _power_function(sums, sd, popmean if by is None else None, alternative, alpha, sigma, _N_TABLES)
    given = f"with probability {planning.FOUND}, if the standard deviation is {_describe_sd(sd, sigma)}"
    if sums.rows is not None:
        sizes = [int(rows) for rows in sums.rows]
        effect = _min_effect(power_at, sizes, planning.FOUND, alternative, sums.half)
        return {f"smallest effect found {given}": effect, **_describe_noise(sums, sizes, sd)}
    effect, sign = column.half / 10, -1.0 if alternative == "less" else 1.0
    rows = planning.rows_for(planning.FOUND, lambda n: power_at([n] * groups, sign * effect))
    size, supposed = curator.supposed_size
    alike = [max(size // groups, 2)] * groups  # the best that groups of private sizes can be
    needed = f"with {rows:,} rows or more{' in each group' * (groups > 1)}"
    return {
        f"an effect of {effect:.3g} is found {given}": needed,
        **_describe_noise(sums, alike, sd, supposed and f", if {supposed}"),
    }


def _plan_weighted(
    curator: Curator, column: Column, weights: Column, alternative: Alternative, alpha: float
) -> Mapping[str, Any]:
    """Return the smallest effect that a weighted test detects, and its noise, if all weights are equal."""
    sd, (size, supposed) = column.half / 2, curator.supposed_size
    groups = len(curator.planned.values)
    sums = curator.planned.expected_release([size / groups] * groups, weights.mid / weights.high, sd / column.half)
    found = infer(sums, weighted_parameter(groups, (column.low, column.high)))
    tail = alpha / 2 if alternative == "two-sided" else alpha
    reach = float(ndtri(1 - tail) + ndtri(planning.FOUND)) * float(found.standard_error)
    given = f", if the standard deviation is {_describe_sd(sd)} and weights are near {weights.mid:.3g}"
    noise = float(found.noise_standard_error)
    return {
        f"smallest effect found with probability {planning.FOUND}{given}": reach,
        f"{_noise_error(groups)}{given}{supposed and f' and {supposed}'}": noise,
        "expected relative error": noise / sd,
    }


def _describe_sd(sd: float, sigma: float | None = None) -> str:
    return f"{sd:.3g}" if sigma is not None else f"{sd:.3g} (a quarter of the range)"


def _noise_error(groups: int) -> str:
    return f"expected standard error of the {'mean' if groups == 1 else 'difference of means'} from noise"


def _describe_noise(sums: NoisyMoments, sizes: Sequence[int], sd: float, given: str = "") -> dict[str, Any]:
    """Return the expected standard error due to noise, with advice if the noise exceeds the sampling error."""
    releases = sums.simulate(sizes, [sums.mid] * len(sizes), [sd] * len(sizes), _N_TABLES)
    noise, _ = planning.expected_errors(releases, mean_parameter(len(sizes)))
    times = noise / (sd * math.sqrt(sum(1 / n for n in sizes)))
    noted: dict[str, Any] = {f"{_noise_error(len(sizes))}{given}": noise}
    if times > _ADVICE_NOISE_RATIO:
        noted[f"privacy noise will be {times:.2g} times the sampling error{given}"] = (
            f"to make them equal: {times:.2g} times the epsilon, bounds {times:.2g} times as narrow if the data "
            f"fit, or {times**2:.2g} times the rows"
        )
    if times > _RANKS_NOISE_RATIO:
        ranks = "wilcoxon" if len(sizes) == 1 else "mannwhitneyu"
        noted["the bounds are wide compared with the spread of the values"] = (
            f"{ranks}() compares ranks, which bounds do not affect"
        )
    return {**noted, "expected relative error": noise / sd}


def draw_values(
    rng: np.random.Generator,
    n: int,
    column: Column,
    by: Column | None = None,
    groups: Sequence[Any] | None = None,
    popmean: float = 0.0,
    sigma: float | None = None,
    weights: Column | None = None,
    *,
    effect: float = 0.5,
    spread: Annotated[float, Range(1e-12, 1e300)] | None = None,
    first: Probability | None = None,
) -> dict[str, Any]:
    """Draw normal values; the group means, or mean and popmean, differ by `effect` standard deviations."""
    if by is not None:
        return groups_in_steps(rng, n, column, by, groups, effect, spread, first) | equal_weights(n, weights)
    sd = assumed_sd(column, sigma if spread is None else spread)
    return {column.name: popmean + sd * (effect + rng.normal(size=n))} | equal_weights(n, weights)


def _planned_moments(
    epsilon: float,
    groups: int,
    sd: float,
    bounds: tuple[float, float],
    mean: float | None,
    alternative: Alternative,
    alpha: float,
    neighbors: Neighbors,
    fixed_groups: bool,  # noqa: FBT001 - as the callers have it
    nan_policy: NanPolicy,
) -> NoisyMoments:
    """Check the arguments, and return moments with the noise of a planned release."""
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ArgumentError(f"bounds={bounds} is not a finite interval.", "Give (low, high) with low < high.")
    if mean is not None and not low <= mean <= high:
        raise ArgumentError(f"mean={mean} lies outside the bounds.", "Give mean= in the units of bounds=.")
    if not 0 < sd <= high / 2 - low / 2:
        raise ArgumentError(
            f"sd={sd} must be positive and at most half the width of the bounds, {high / 2 - low / 2}.",
            "Give effect and sd in the units of bounds=; the default bounds are (-1, 1).",
        )
    if not 0 < epsilon < math.inf:
        raise ArgumentError(f"epsilon={epsilon} must be positive and finite.", "Use, for example, 0.5.")
    as_probability(alpha, "alpha")
    if alternative not in {"two-sided", "less", "greater"}:
        raise ArgumentError(f"There is no alternative {alternative!r}.", "Use 'two-sided', 'less' or 'greater'.")
    if neighbors not in {"replace_one", "add_remove"}:
        raise ArgumentError(
            f"There is no neighbouring relation {neighbors!r}.", "Use 'replace_one' or 'add_remove'."
        )
    # The L1 sensitivity of (y, y²/2), and of (y, (1-y²)/2, 1) where rows can lose their value, is 2; that of
    # (y, 1-y², y²/2) is 3/2 if a row comes or goes, and twice that if it changes its group.
    known = neighbors == "replace_one" and (fixed_groups or groups == 1)
    beyond = WEIGHT if neighbors == "add_remove" else 2 * WEIGHT
    scale = ((2.0 if known else 1.5 if neighbors == "add_remove" else 3.0) + beyond) / epsilon
    form: Form = "private" if not known else "beside" if nan_policy == "omit" else "known"
    weights = {"private": (1, 1, 0.5), "beside": (1, 0.5, 1), "known": (1, 0.5)}[form]
    laws = [NoiseLaw(scale / weight) for weight in weights]
    rows = np.full(groups, 2.0) if known else None
    return NoisyMoments(np.zeros((groups, len(laws))), laws, rows, form, bounds)


def _checked_sizes(n: int, n2: int | None) -> list[int]:
    if not (2 <= n <= _MOST_ROWS and (n2 is None or 2 <= n2 <= _MOST_ROWS)):  # noqa: PLR2004
        raise ArgumentError(
            f"n={n} or n2={n2} is out of range.", f"Use from 2 to {_MOST_ROWS:,} rows in each group."
        )
    return [n] if n2 is None else [n, n2]


def _check_power(power: float, alpha: float) -> None:
    if not alpha < power < 1:
        raise ArgumentError(f"power={power} must lie between alpha={alpha} and 1.", "Use, for example, power=0.8.")
