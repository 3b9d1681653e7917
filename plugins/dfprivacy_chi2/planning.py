"""Power and sample size of the tests of a 2 x 2 table, before any budget is spent.

No function here reads data: the shares are what you expect or want to tell apart. Laws are those of the tests
(sums over all tables, or normal laws), so that the power is exact up to 2,000 rows but for ``"calibrated"`` and
``"signed"``, and right to about 0.01 beyond.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from dfprivacy import ArgumentError
from dfprivacy.schema import as_probability
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import MARGIN_SHARE, checked_rate, checked_tau, choose
from dfprivacy_chi2.bounds import type_ii_bound
from dfprivacy_chi2.laws import normal_laplace_sf
from dfprivacy_chi2.margin import NoisyMargin
from dfprivacy_chi2.omitted import Omitted
from dfprivacy_chi2.tables import signed_distances, tight_sensitivity

if TYPE_CHECKING:
    from dfprivacy_chi2.nulls import Rate

__all__ = ["power", "sample_size"]

Planned = Literal["auto", "difference", "calibrated", "signed", "distance", "unit_circle"]

_MOST_ROWS = 2**31


def power(
    n1: int,
    n0: int,
    epsilon: float,
    *,
    base: float,
    difference: float,
    method: Planned = "auto",
    rate: Rate = None,
    tau: float | None = None,
    alpha: float = 0.05,
    bound: bool = False,
) -> float:
    """Probability that a private test of a 2 x 2 table of complete rows finds a difference of shares.

    Parameters
    ----------
    n1, n0 : int
        Rows in the two public groups.
    epsilon : float
        Budget of the test.
    base : float
        Share of X = 1 in the second group.
    difference : float
        Share in the first group minus `base`.
    method : {"auto", "difference", "calibrated", "signed", "distance", "unit_circle"}
        The method of ``chi2``, or ``"unit_circle"`` for ``chi2_unitcircle``.
    rate : float or tuple of two, optional
        What the test is told of the share of X = 1.
    tau : float, optional
        Of ``"distance"`` and ``"unit_circle"``.
    alpha : float
        Level.
    bound : bool
        For ``"unit_circle"``: give what Theorems 2 and 7 of its authors promise at this level (`type_ii_bound`), in
        place of the power itself, which is never less.

    Returns
    -------
    float
        The power, or its lower bound.

    Raises
    ------
    ArgumentError
        If an argument is out of range.

    Examples
    --------
    >>> round(power(100, 100, 0.5, base=0.3, difference=0.1815, method="difference", rate=0.3), 4)
    0.7215
    """
    tau, alpha, rate = checked_tau(tau), as_probability(alpha, "alpha"), checked_rate(rate)
    p1, p0 = base + difference, base
    if not (0 <= p0 <= 1 and 0 <= p1 <= 1):
        raise ArgumentError(f"base={base} and base + difference={p1} are no shares.", "Give shares from 0 to 1.")
    _check(n1, n0, epsilon)
    chosen = choose(method, n1 + n0, epsilon, rate, fill=False)
    if bound and chosen != "unit_circle":
        raise ArgumentError("bound= is about the unit circle.", 'Use method="unit_circle", or leave it out.')
    if chosen == "difference":
        scale = 1 / (min(n1, n0) * epsilon)
        critical = nulls.difference(n1, n0, rate).critical_value(alpha, scale)
        return nulls.difference_law(n1, n0, p1, p0).sf(critical, scale)
    if chosen in {"calibrated", "signed"} and rate is not None:
        raise ArgumentError(f"Method {chosen!r} takes no rate=: it knows enough.", 'Use method="difference".')
    if chosen == "signed":
        return _signed(n1, n0, 1 / (min(n1, n0) * epsilon), p1, p0, alpha)
    if chosen == "calibrated":
        for_total = epsilon * float(MARGIN_SHARE)
        test = NoisyMargin(n1, n0, 0.0, 1 / for_total)
        return test.power(alpha, 1 / (min(n1, n0) * (epsilon - for_total)), p1, p0)
    if chosen == "distance":
        if (n1 + 1) * (n0 + 1) > nulls.MOST_TABLES:
            raise ArgumentError("The signed distance is for smaller groups.", 'Use method="calibrated".')
        critical = nulls.distance(n1, n0, tau, rate).critical_value(alpha, 1 / epsilon)
        return nulls.distance_law(signed_distances(n1, n0, tau), p1, p0).sf(critical, 1 / epsilon)
    if chosen == "unit_circle":
        return _unit_circle(n1, n0, epsilon, p1, p0, tau, rate, alpha, bound=bound)
    raise ArgumentError(f"method={method!r} is unknown.", "Use the method of chi2, or 'unit_circle'.")


def _unit_circle(
    n1: int,
    n0: int,
    epsilon: float,
    p1: float,
    p0: float,
    tau: float,
    rate: Rate,
    alpha: float,
    *,
    bound: bool,
) -> float:
    """Power of the norm, or what Theorems 2 and 7 promise of it at the same critical value."""
    scale = tight_sensitivity(n1, n0, tau) / epsilon
    critical = nulls.norm(n1, n0, tau, rate).critical_value(alpha, scale)
    if bound:
        return 1 - type_ii_bound(n1, n0, epsilon, base=p0, difference=p1 - p0, tau=tau, threshold=critical)
    return nulls.norm_law(n1, n0, tau, p1, p0).sf(critical, scale)


def _check(n1: int, n0: int, epsilon: float) -> None:
    if not (1 <= n1 <= _MOST_ROWS and 1 <= n0 <= _MOST_ROWS and n1 % 1 == n0 % 1 == 0):
        raise ArgumentError(f"n1={n1} or n0={n0} is out of range.", "Each group has at least one row.")
    if not 0 < epsilon < math.inf:
        raise ArgumentError(f"epsilon={epsilon} must be positive and finite.", "Use, for example, 0.5.")


def _signed(n1: int, n0: int, scale: float, p1: float, p0: float, alpha: float) -> float:
    """Power of the signed difference, by normal laws."""
    critical = Omitted(min(n1, n0), signed=True).critical_value(alpha, scale)
    sd = math.sqrt(p1 * (1 - p1) / n1 + p0 * (1 - p0) / n0)
    return float(sum(normal_laplace_sf(critical + side * (p1 - p0), sd, scale) for side in (-1, 1)))


def sample_size(
    power: float,
    epsilon: float,
    *,
    base: float,
    difference: float,
    ratio: float = 1.0,
    method: Planned = "auto",
    rate: Rate = None,
    tau: float | None = None,
    alpha: float = 0.05,
) -> int:
    """Rows that a private test of a 2 x 2 table needs to find a difference of shares.

    Parameters
    ----------
    power : float
        Wanted probability of finding it, between `alpha` and 1.
    epsilon : float
        Budget of the test.
    base, difference
        As in `power`.
    ratio : float
        Rows of the second group for each row of the first.
    method, rate, tau, alpha
        As in `power`.

    Returns
    -------
    int
        Rows of the first group.

    Raises
    ------
    ArgumentError
        If an argument is out of range, or if no sample is large enough.

    Examples
    --------
    >>> sample_size(0.8, 0.5, base=0.3, difference=0.1, method="difference")
    398
    """
    wanted = as_probability(power, "power")
    if not wanted > as_probability(alpha, "alpha"):
        raise ArgumentError(f"power={power} must lie above alpha={alpha}.", "Use, for example, power=0.8.")
    if difference == 0:
        raise ArgumentError("No sample is large enough to find difference=0.", "Give what you want to find.")
    if not 0 < ratio < math.inf:
        raise ArgumentError(f"ratio={ratio} must be positive.", "Use 1 for groups of equal size.")

    def enough(n1: int) -> bool:
        n0 = max(1, round(ratio * n1))
        terms = {"base": base, "difference": difference, "rate": rate, "tau": tau, "alpha": alpha}
        return _power(n1, n0, epsilon, method=method, **terms) >= wanted  # type: ignore[arg-type]

    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
        if high > _MOST_ROWS / max(1.0, ratio):
            raise ArgumentError(
                f"More than {_MOST_ROWS:.0e} rows would be needed.", "Look for a larger difference, or spend more."
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


_power = power
