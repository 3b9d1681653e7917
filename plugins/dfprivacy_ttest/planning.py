"""Power, sample size and detectable effect of the private t-test, before any budget is spent.

They concern the default test (``method="conv"``, Welch for two samples) on normal data within the bounds, none of
them missing. The estimate is then normal plus noise, and the test rejects beyond a distance that depends on the
noisy variance; the power is averaged over that (`Plan`). Nothing is random. Against simulations of the test (n
from 20 to 2000, ε from 0.1 to 1) it is right to 0.03, except where sizes are noisy and n ε is below 50: there it
can understate the power by up to 0.1.

No function here reads data: effect, standard deviation and mean are what you expect or want to detect.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import scipy
from scipy.special import ndtri

from dfprivacy.arguments import NanPolicy
from dfprivacy.errors import ArgumentError
from dfprivacy_ttest.calibrated import Alternative
from dfprivacy_ttest.plan import Neighbors, plan_of

__all__ = ["minimum_detectable_effect", "power", "sample_size"]

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
    nan_policy: NanPolicy = "omit",
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
    plan = plan_of(
        epsilon,
        sd,
        bounds,
        mean,
        alternative,
        alpha,
        neighbors,
        fixed_groups=fixed_groups,
        nan_policy=nan_policy,
        two=n2 is not None,
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
    nan_policy: NanPolicy = "omit",
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
    bounds, mean, alternative, alpha, neighbors, fixed_groups, nan_policy
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
    497
    """
    plan = plan_of(
        epsilon,
        sd,
        bounds,
        mean,
        alternative,
        alpha,
        neighbors,
        fixed_groups=fixed_groups,
        nan_policy=nan_policy,
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

    def surplus(n: int) -> float:
        """Compare normal scores of the power, which are about straight in the root of n."""
        n2 = None if ratio is None else max(2, round(ratio * n))
        return float(ndtri(np.clip(plan.power(n, n2, shift), 1e-300, 1 - 1e-16)) - ndtri(power))

    low, high = plan.rows(power, ratio, shift)
    while (below := surplus(low) if low > 1 else -math.inf) >= 0:
        low, high = low // 2, low
    while (above := surplus(high)) < 0:
        low, high, below = high, 2 * high, above
        if high > _MOST_ROWS:
            raise ArgumentError(
                f"More than {_MOST_ROWS:.0e} rows would be needed.", "Look for a larger effect, or spend more."
            )
    for turn in itertools.count():
        if high - low == 1:
            return high
        middle = (low + high) // 2
        if turn % 3 < 2 and math.isfinite(below):  # noqa: PLR2004 - else a bisection, so that both ends move
            root = math.sqrt(low) + (math.sqrt(high) - math.sqrt(low)) * below / (below - above)
            middle = min(max(math.floor(root**2) + turn % 3, low + 1), high - 1)
        excess = surplus(middle)
        low, below = (low, below) if excess >= 0 else (middle, excess)
        high, above = (middle, excess) if excess >= 0 else (high, above)
    raise AssertionError


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
    bounds, mean, alternative, alpha, neighbors, fixed_groups, nan_policy
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
    plan = plan_of(
        epsilon,
        sd,
        bounds,
        mean,
        alternative,
        alpha,
        neighbors,
        fixed_groups=fixed_groups,
        nan_policy=nan_policy,
        two=n2 is not None,
    )
    _check_rows(n, n2)
    _check_power(power, alpha)
    sign = -1.0 if alternative == "less" else 1.0

    def surplus(size: float) -> float:
        return float(ndtri(np.clip(plan.power(n, n2, sign * size), 1e-300, 1 - 1e-16)) - ndtri(power))

    guess = min(plan.effect(power, n, n2), 2.0)
    low, high = 0.8 * guess, min(1.25 * guess, 2.0)
    if surplus(high) <= 0:
        low, high = high, 2.0
        if surplus(high) <= 0:
            return math.inf
    if surplus(low) >= 0:
        low, high = 0.0, low
    return plan.half * float(scipy.optimize.brentq(surplus, low, high, xtol=1e-9, rtol=1e-3))


def _check_rows(n: int, n2: int | None) -> None:
    if not (2 <= n <= _MOST_ROWS and (n2 is None or 2 <= n2 <= _MOST_ROWS)):  # noqa: PLR2004
        raise ArgumentError(f"n={n} or n2={n2} is out of range.", "A t-test needs two rows in every group.")


def _check_power(power: float, alpha: float) -> None:
    if not alpha < power < 1:
        raise ArgumentError(f"power={power} must lie between alpha={alpha} and 1.", "Use, for example, power=0.8.")
