r"""Bounds of the type II error: Theorems 2, 3 and 7 of Kakizaki, Fukuchi and Sakuma (2017).

A test of chi² with Laplace noise accepts a table whose :math:`\chi^2` exceeds τ by γ only if the noise takes it
back, which the *gamma error* bounds (Theorem 3: noise on :math:`\chi^2`; Theorem 7: noise on the norm of the unit
circle). The type II error is that and the probability that :math:`\chi^2` exceeds τ by less (Theorem 2), for each
γ: the least of some is taken. `power` computes the error itself; the bound says why it falls, and how fast.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfprivacy.errors import ArgumentError
from dfprivacy_chi2.arguments import checked_tau
from dfprivacy_chi2.laws import binomial, by_binomials
from dfprivacy_chi2.tables import chi2_sensitivity, chi2_statistic, paper_sensitivity, tight_sensitivity

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["gamma_error", "type_ii_bound"]

Bounded = Literal["unitcircle", "chi2"]
Sensitivity = Literal["tight", "paper"]

_GAMMAS = 48


def gamma_error(
    gamma: ArrayLike,
    n1: int,
    n0: int,
    epsilon: float,
    *,
    statistic: Bounded = "unitcircle",
    share: ArrayLike = 0.5,
    tau: float | None = None,
    threshold: float | None = None,
    sensitivity: Sensitivity = "tight",
) -> NDArray[np.float64]:
    r"""Bound the probability to accept a table whose chi² is above tau by gamma or more.

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
            f"n1={n1}, n0={n0}, epsilon={epsilon} or a gamma is out of range.",
            "Groups have a row at least, epsilon is positive, and gamma is not negative.",
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
    statistic: Bounded = "unitcircle",
    tau: float | None = None,
    threshold: float | None = None,
    sensitivity: Sensitivity = "tight",
) -> float:
    r"""Bound the type II error of a test with noise on chi², or on the norm of the unit circle (Theorem 2).

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
    p1, p0 = base + difference, base
    if not (0 <= p0 <= 1 and 0 <= p1 <= 1):
        raise ArgumentError(f"base={base} and base + difference={p1} are no shares.", "Give shares from 0 to 1.")
    law = by_binomials(lambda c11, c10: chi2_statistic(c11, c10, n1, n0), n1, n0, p1, p0)
    order = np.argsort(law.points)
    chi2, below = law.points[order], np.cumsum(law.weights[order])
    below /= below[-1]
    possible = chi2[np.searchsorted(below, np.geomspace(1e-14, 0.5, _GAMMAS))]
    gammas = np.maximum(possible - tau, 0.0)
    less = np.searchsorted(chi2, tau + gammas)
    beta = np.where(less > 0, below[less - 1], 0.0)
    (c11, first), (c10, second) = binomial(n1, p1), binomial(n0, p0)
    share = (c11[:, None] + c10) / (n1 + n0)
    share, at = np.unique(share, return_inverse=True)
    weights = np.bincount(at.ravel(), np.multiply.outer(first, second).ravel())
    taken = {"statistic": statistic, "tau": tau, "threshold": threshold, "sensitivity": sensitivity}
    error = gamma_error(gammas[:, None], n1, n0, epsilon, share=share, **taken)  # type: ignore[arg-type]
    bound = np.broadcast_to(error, (len(gammas), len(share))) @ weights + beta
    return float(min(bound.min(), 1.0))
