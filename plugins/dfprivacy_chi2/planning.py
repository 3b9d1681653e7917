r"""Power, sample size and bounds of the type II error of tests of a 2 x 2 table, before any budget is spent.

No function here reads data: the shares are what you expect or want to tell apart.

The bounds are Theorems 2, 3 and 7 of Kakizaki, Fukuchi and Sakuma (2017). A test of chi² with Laplace noise accepts
a table whose :math:`\chi^2` exceeds τ by γ only if the noise takes it back, which the *gamma error* bounds (Theorem
3: noise on :math:`\chi^2`; Theorem 7: noise on the norm of the unit circle). The type II error is that and the
probability that :math:`\chi^2` exceeds τ by less (Theorem 2), for each γ: the least of some is taken. `power`
computes the error itself; the bound says why it falls, and how fast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import ArgumentError, Column, Probability
from dfprivacy.inference.planning import rows_for
from dfprivacy.made_up import rows_with_shares
from dfprivacy.schema import as_probability
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import MARGIN_SHARE, ROWS_TO_CALIBRATE, checked_rate, checked_tau
from dfprivacy_chi2.inference import SignedDifference
from dfprivacy_chi2.laws import binomial_counts, binomial_law
from dfprivacy_chi2.tables import chi2_sensitivity, chi2_statistic, paper_sensitivity, tight_sensitivity

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dfprivacy_chi2.nulls import Rate

__all__ = ["draw_outcomes", "gamma_error", "power", "sample_size", "type_ii_bound"]

PlannedMethod = Literal["signed", "unit_circle"]
BoundedStatistic = Literal["unitcircle", "chi2"]
Sensitivity = Literal["tight", "paper"]

_N_GAMMAS = 48
_MOST_ROWS = 2**31


def power(
    n1: int,
    n0: int,
    epsilon: float,
    *,
    base: float,
    difference: float,
    method: PlannedMethod = "signed",
    rate: Rate = None,
    tau: float | None = None,
    alpha: float = 0.05,
    bound: bool = False,
) -> float:
    """Compute the power of a private test of a 2 x 2 table of complete rows to detect a difference of shares.

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
    p1, p0 = _group_shares(base, difference)
    if not (1 <= n1 <= _MOST_ROWS and 1 <= n0 <= _MOST_ROWS and n1 % 1 == n0 % 1 == 0):
        raise ArgumentError(f"n1={n1} or n0={n0} is out of range.", f"Use integers from 1 to {_MOST_ROWS:.0e}.")
    if not 0 < epsilon < math.inf:
        raise ArgumentError(f"epsilon={epsilon} must be positive and finite.", "Use, for example, 0.5.")
    if method == "unit_circle":
        scale = tight_sensitivity(n1, n0, tau) / epsilon
        critical = nulls.norm_null(n1, n0, tau, rate).critical_value(alpha, scale)
        if bound:
            return 1 - type_ii_bound(n1, n0, epsilon, base=p0, difference=p1 - p0, tau=tau, threshold=critical)
        return nulls.norm_law(n1, n0, tau, p1, p0).sf(critical, scale)
    if method != "signed":
        raise ArgumentError(
            f"There is no method {method!r}.", 'Use method="unit_circle" or, for chi2 alone, method="signed".'
        )
    if rate is not None or bound:
        raise ArgumentError(
            'rate= and bound= are options of method="unit_circle".', 'Omit them, or use method="unit_circle".'
        )
    of_margin = float(MARGIN_SHARE) * epsilon if (n1 + n0) * epsilon >= ROWS_TO_CALIBRATE else 0.0
    margins = (n1 * p1 + n0 * p0 - (n1 + n0) / 2, 0.0, 0.0) if of_margin else ()
    scale = 1 / (epsilon - of_margin)
    expected = SignedDifference(
        (n1, n0), 0.0, scale, margins, 1 / of_margin if of_margin else 0.0, omitted=not of_margin
    )
    critical = expected.critical_value(alpha)
    law = binomial_law(lambda c, d: (c * n0 - d * n1) / max(n1, n0), n1, n0, p1, p0)
    return law.sf(critical, scale) + 1 - law.sf(-critical, scale)


def sample_size(
    power: float,
    epsilon: float,
    *,
    base: float,
    difference: float,
    ratio: float = 1.0,
    method: PlannedMethod = "signed",
    rate: Rate = None,
    tau: float | None = None,
    alpha: float = 0.05,
) -> int:
    """Compute the number of rows that a private test of a 2 x 2 table needs to detect a difference of shares.

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
        raise ArgumentError("No sample is large enough to detect difference=0.", "Use a difference= other than 0.")
    if not 0 < ratio < math.inf:
        raise ArgumentError(f"ratio={ratio} must be positive.", "Use 1 for groups of equal size.")

    def power_of(n1: int) -> float:
        n0 = max(1, round(ratio * n1))
        if max(n1, n0) > _MOST_ROWS:
            raise ArgumentError(
                f"The test would need more than {_MOST_ROWS:.0e} rows.", "Increase difference= or epsilon=."
            )
        return _power(
            n1, n0, epsilon, base=base, difference=difference, method=method, rate=rate, tau=tau, alpha=alpha
        )

    return rows_for(wanted, power_of)


def gamma_error(
    gamma: ArrayLike,
    n1: int,
    n0: int,
    epsilon: float,
    *,
    statistic: BoundedStatistic = "unitcircle",
    share: ArrayLike = 0.5,
    tau: float | None = None,
    threshold: float | None = None,
    sensitivity: Sensitivity = "tight",
) -> NDArray[np.float64]:
    r"""Return an upper bound of the probability of accepting independence if chi² is at least tau + gamma.

    Parameters
    ----------
    gamma : array_like
        By how much; not negative.
    n1, n0 : int
        Rows in the two public groups.
    epsilon : float
        Budget of the test.
    statistic : {"unitcircle", "chi2"}
        What gets the noise: the norm of the unit circle (Theorem 7), or chi² (Theorem 3), which no method of views
        releases.
    share : array_like
        The share of X = 1 in the table; Theorem 7 depends on it.
    tau : float, optional
        The value of chi² in question; default: 3.84, its critical value at 5%.
    threshold : float, optional
        What the noisy statistic must exceed to reject; default: that of the theorems, 1 for the norm and tau for
        chi². Tests at a level take a larger one.
    sensitivity : {"tight", "paper"}
        Of the norm: ours, or that of Lemma 2, which is up to √2 larger.

    Returns
    -------
    ndarray
        The bound, of the broadcast shape of gamma and share.

    Notes
    -----
    With :math:`\Delta` the sensitivity, Theorem 3 is :math:`\frac12 \exp(-\gamma\varepsilon/\Delta)`, and Theorem 7
    is :math:`\frac12 \exp\bigl((1 - \sqrt{1 + 4\gamma M_1 M_0/(\tau N^2)})\,\varepsilon/\Delta\bigr)`, because the
    norm of such a table is at least that root. For another threshold it is the distribution function of the noise
    at the distance. As a share goes to 0, the bound of Theorem 7 goes to 1/2.

    Examples
    --------
    >>> for statistic in ("unitcircle", "chi2"):
    ...     print(gamma_error(10.0, 100, 100, 0.5, statistic=statistic).round(4))
    0.0011
    0.1415
    """
    tau = checked_tau(tau)
    if not (np.min(gamma) >= 0 and n1 >= 1 and n0 >= 1 and 0 < epsilon < math.inf):
        raise ArgumentError(
            f"One of n1={n1}, n0={n0}, epsilon={epsilon} and gamma= is out of range.",
            "Use groups of 1 row or more, a positive epsilon, and a gamma of 0 or more.",
        )
    if statistic == "chi2":
        least = tau + np.asarray(gamma, dtype=np.float64)
        threshold, moved = (tau if threshold is None else threshold), chi2_sensitivity(n1, n0)
    else:
        share = np.asarray(share, dtype=np.float64)
        least = np.sqrt(1 + 4 * np.asarray(gamma) * share * (1 - share) / tau)
        threshold = 1.0 if threshold is None else threshold
        moved = (tight_sensitivity if sensitivity == "tight" else paper_sensitivity)(n1, n0, tau)
    away = (least - threshold) * epsilon / moved
    tail = np.exp(-np.abs(away)) / 2
    return np.where(away >= 0, tail, 1 - tail)


def type_ii_bound(
    n1: int,
    n0: int,
    epsilon: float,
    *,
    base: float,
    difference: float,
    statistic: BoundedStatistic = "unitcircle",
    tau: float | None = None,
    threshold: float | None = None,
    sensitivity: Sensitivity = "tight",
) -> float:
    r"""Return an upper bound of the type II error of a test with noise on chi² or on the unit circle norm.

    Parameters
    ----------
    n1, n0, epsilon
        As for `gamma_error`.
    base : float
        Share of X = 1 in the second group.
    difference : float
        Share in the first group minus `base`.
    statistic, tau, threshold, sensitivity
        As for `gamma_error`.

    Returns
    -------
    float
        The bound; 1 where it says nothing.

    Notes
    -----
    For each γ the error is at most the mean of the gamma error over the tables, and the probability that
    :math:`\chi^2 < \tau + \gamma`. The reference takes the worst case of both over a set of alternatives; here
    there is one, and both are sums over its tables (exact up to about 10,000 rows in a group). The least over γ is
    taken.

    Examples
    --------
    >>> round(type_ii_bound(200, 200, 0.5, base=0.3, difference=0.2), 3)
    0.087
    """
    tau = checked_tau(tau)
    p1, p0 = _group_shares(base, difference)
    law = binomial_law(lambda c11, c10: chi2_statistic(c11, c10, n1, n0), n1, n0, p1, p0)
    order = np.argsort(law.points)
    chi2, below = law.points[order], np.cumsum(law.weights[order])
    below /= below[-1]
    possible = chi2[np.searchsorted(below, np.geomspace(1e-14, 0.5, _N_GAMMAS))]
    gammas = np.maximum(possible - tau, 0.0)
    less = np.searchsorted(chi2, tau + gammas)
    beta = np.where(less > 0, below[less - 1], 0.0)
    (c11, first), (c10, second) = binomial_counts(n1, p1), binomial_counts(n0, p0)
    share = (c11[:, None] + c10) / (n1 + n0)
    share, at = np.unique(share, return_inverse=True)
    weights = np.bincount(at.ravel(), np.multiply.outer(first, second).ravel())
    taken = {"statistic": statistic, "tau": tau, "threshold": threshold, "sensitivity": sensitivity}
    error = gamma_error(gammas[:, None], n1, n0, epsilon, share=share, **taken)  # type: ignore[arg-type]
    bound = np.broadcast_to(error, (len(gammas), len(share))) @ weights + beta
    return float(min(bound.min(), 1.0))


def draw_outcomes(
    rng: np.random.Generator,
    n: int,
    x: Column,
    by: Column,
    groups: Sequence[Any] | None,
    *,
    effect: float = 0.1,
    share: Probability = 0.5,
    first: Probability | None = None,
) -> dict[str, Any]:
    """Draw synthetic rows in which x's last category is more frequent by `effect` in the first group."""
    return rows_with_shares(rng, n, x, (x.categories or ())[-1], by, groups, effect, share, first)


def _group_shares(base: float, difference: float) -> tuple[float, float]:
    """Return the shares of X = 1 in the two groups; raise an error if a share is below 0 or above 1."""
    if not (0 <= base <= 1 and 0 <= base + difference <= 1):
        raise ArgumentError(
            f"base={base} and base + difference={base + difference} must be shares between 0 and 1.",
            "Use shares from 0 to 1.",
        )
    return base + difference, base


_power = power
