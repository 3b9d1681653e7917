"""Power and sample size of the tests of a 2 x 2 table, before any budget is spent.

No function here reads data: the shares are what you expect or want to tell apart.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from dfprivacy import ArgumentError
from dfprivacy.inference.planning import rows_for
from dfprivacy.schema import as_probability
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import MARGIN_SHARE, ROWS_TO_CALIBRATE, checked_rate, checked_tau
from dfprivacy_chi2.bounds import type_ii_bound
from dfprivacy_chi2.laws import by_binomials
from dfprivacy_chi2.signed import SignedDifference
from dfprivacy_chi2.tables import tight_sensitivity

if TYPE_CHECKING:
    from dfprivacy_chi2.nulls import Rate

__all__ = ["power", "sample_size"]

Planned = Literal["signed", "unit_circle"]

_MOST_ROWS = 2**31


def power(
    n1: int,
    n0: int,
    epsilon: float,
    *,
    base: float,
    difference: float,
    method: Planned = "signed",
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
    method : {"signed", "unit_circle"}
        ``"signed"`` for ``chi2``, ``"unit_circle"`` for ``chi2_unitcircle``.
    rate : float or tuple of two, optional
        What ``chi2_unitcircle`` is told of the share of X = 1.
    tau : float, optional
        Of ``chi2_unitcircle``.
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
    >>> round(power(1000, 1000, 0.5, base=0.3, difference=0.1), 2)
    1.0
    """
    tau, alpha, rate = checked_tau(tau), as_probability(alpha, "alpha"), checked_rate(rate)
    p1, p0 = base + difference, base
    if not (0 <= p0 <= 1 and 0 <= p1 <= 1):
        raise ArgumentError(f"base={base} and base + difference={p1} are no shares.", "Give shares from 0 to 1.")
    if not (1 <= n1 <= _MOST_ROWS and 1 <= n0 <= _MOST_ROWS and n1 % 1 == n0 % 1 == 0):
        raise ArgumentError(f"n1={n1} or n0={n0} is out of range.", "Each group has at least one row.")
    if not 0 < epsilon < math.inf:
        raise ArgumentError(f"epsilon={epsilon} must be positive and finite.", "Use, for example, 0.5.")
    if method == "unit_circle":
        scale = tight_sensitivity(n1, n0, tau) / epsilon
        critical = nulls.norm(n1, n0, tau, rate).critical_value(alpha, scale)
        if bound:
            return 1 - type_ii_bound(n1, n0, epsilon, base=p0, difference=p1 - p0, tau=tau, threshold=critical)
        return nulls.norm_law(n1, n0, tau, p1, p0).sf(critical, scale)
    if method != "signed":
        raise ArgumentError(f"method={method!r} is unknown.", 'Use "signed" for chi2, or "unit_circle".')
    if rate is not None or bound:
        raise ArgumentError("rate= and bound= are about the unit circle.", 'Use method="unit_circle".')
    of_margin = float(MARGIN_SHARE) * epsilon if (n1 + n0) * epsilon >= ROWS_TO_CALIBRATE else 0.0
    margins = (n1 * p1 + n0 * p0 - (n1 + n0) / 2, 0.0, 0.0) if of_margin else ()
    scale = 1 / (epsilon - of_margin)
    expected = SignedDifference(
        (n1, n0), 0.0, scale, margins, 1 / of_margin if of_margin else 0.0, omitted=not of_margin
    )
    critical = expected.critical_value(alpha)
    law = by_binomials(lambda c, d: (c * n0 - d * n1) / max(n1, n0), n1, n0, p1, p0)
    return law.sf(critical, scale) + type(law)(-law.points, law.weights).sf(critical, scale)


def sample_size(
    power: float,
    epsilon: float,
    *,
    base: float,
    difference: float,
    ratio: float = 1.0,
    method: Planned = "signed",
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
        Rows of the first group, to half a percent.

    Raises
    ------
    ArgumentError
        If an argument is out of range, or if no sample is large enough.

    Examples
    --------
    >>> sample_size(0.8, 0.5, base=0.3, difference=0.1)
    379
    """
    wanted = as_probability(power, "power")
    if not wanted > as_probability(alpha, "alpha"):
        raise ArgumentError(f"power={power} must lie above alpha={alpha}.", "Use, for example, power=0.8.")
    if difference == 0:
        raise ArgumentError("No sample is large enough to find difference=0.", "Give what you want to find.")
    if not 0 < ratio < math.inf:
        raise ArgumentError(f"ratio={ratio} must be positive.", "Use 1 for groups of equal size.")

    def power_of(n1: int) -> float:
        n0 = max(1, round(ratio * n1))
        if max(n1, n0) > _MOST_ROWS:
            raise ArgumentError(
                f"More than {_MOST_ROWS:.0e} rows would be needed.", "Look for a larger difference, or spend more."
            )
        return _power(
            n1, n0, epsilon, base=base, difference=difference, method=method, rate=rate, tau=tau, alpha=alpha
        )

    return rows_for(wanted, power_of)


_power = power
