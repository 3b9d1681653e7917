"""The Hilbert-Schmidt independence criterion, as a distance covariance of the metrics that kernels induce."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from dfprivacy import NanPolicy, Probability, Range, mechanism
from dfprivacy_dcor.kernels import Kernel, kernel_space, unit
from dfprivacy_dcor.mechanisms import Pair, conclude_pair, measure_pair
from dfprivacy_dcor.message import SEEN
from dfprivacy_dcor.results import HSIC
from dfprivacy_dcor.spaces import ROWS_MIN, rows_of
from dfprivacy_dcor.statistics import Deviation

if TYPE_CHECKING:
    from dfprivacy import Column, Curator
    from dfprivacy.release import NoisyValue
    from dfprivacy_dcor.spaces import Space

__all__ = ["hsic"]

_LARGEST = 4 / 9  # a quarter, with 1/(m-1)² in place of 1/m² and four rows
HIDDEN = "uninformative: the noise hides how much the columns vary; more rows or a larger epsilon would help"


@dataclass(frozen=True)
class Alone:
    """Noisy deviation of some columns, and what is public of them."""

    x: Space
    rows: int
    noisy: NoisyValue


@mechanism(columns={"x": "columns", "y": "columns"})
def hsic(
    curator: Curator,
    x: tuple[Column, ...],
    y: tuple[Column, ...] | None = None,
    *,
    kernel: Kernel = "gaussian",
    lengthscale: Annotated[float, Range(0.01, 1000)] | None = None,
    nan_policy: NanPolicy = "omit",
) -> Pair | Alone:
    r"""Measure dependence by the Hilbert-Schmidt independence criterion, and test independence.

    Prefer `dcor` where nothing is known of the dependence: distances have no lengthscale, and single columns take
    n log n steps. A kernel sees dependence that comes and goes within a lengthscale, such as that on a sine of many
    periods.

    Parameters
    ----------
    x : str or list of str
        Columns with bounds, or one with categories. Each is scaled by its bounds to a width of 1.
    y : str or list of str, optional
        Other such columns. Without them HSIC of x with itself, of which there is no test.
    kernel : {"gaussian", "laplace", "distance"}
        ``"gaussian"``: exp(-d²/lengthscale²). ``"laplace"``: exp(-d/lengthscale), d the sum of the differences.
        ``"distance"``: 1 - d/D, with D the diameter of the bounds; HSIC is then the squared distance covariance,
        over both D. Of categories it is always 1 for equal ones, else 0.
    lengthscale : float, optional
        In sixths of the bounds' widths; public, never chosen by looking at the rows. Default: the root of the
        number of columns, and for ``"laplace"`` their number.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: rows with a missing value in a column do not count. ``"fill"``: they count, with the fill value
        or as a category of their own. ``"raise"`` is for public columns.
    confidence : float
        Coverage of the interval.
    alpha : float
        Level of the test.

    Returns
    -------
    HSIC
        The criterion with its interval, and the test.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, the number of rows is private, below 4 or above 20,000; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for tables that differ in the content of one row. HSIC with kernel k is
    the squared distance covariance of the distance 1 - k [1]_, and what is released are the numbers of `dcor` for
    it: the root of HSIC changes by at most √1.5 · 2(n-1)/n² times the root of both diameters when one row does,
    that of a variable with itself by 2(n-1)/n² times its diameter. So HSIC moves by a
    fifth of the bound (12n-11)/(n-1)² of [2]_ at most, and by much less near independence, where the root is small.

    **Statistics.** HSIC is :math:`(m-1)^{-2}\,\mathrm{tr}\,KHLH` of the m complete rows [3]_, corrected for the
    noise; its interval is guaranteed. The null distribution is that of `dcor`: an approximation for many rows, with
    the noise in it.

    References
    ----------
    .. [1] Shen and Vogelstein (2021). The exact equivalence of distance and kernel methods in hypothesis testing.
       AStA Advances in Statistical Analysis 105.
    .. [2] Kusner, Sun, Sridharan and Weinberger (2016). Private causal inference. AISTATS.
    .. [3] Gretton, Bousquet, Smola and Schölkopf (2005). Measuring statistical dependence with Hilbert-Schmidt
       norms. Algorithmic Learning Theory.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.linspace(-1, 1, 2000)
    >>> df = pd.DataFrame({"phase": x, "signal": np.sin(6 * np.pi * x)})
    >>> view = dp.protect(df, "hsic-example", epsilon=4, ledger="memory:",
    ...                   bounds={"phase": (-1, 1), "signal": (-1, 1)})
    >>> view.hsic("phase", "signal", lengthscale=0.5, epsilon=4).pvalue < 0.05
    True
    """
    one = kernel_space(x, kernel, lengthscale, nan_policy=nan_policy)
    if y is None:
        n = rows_of(curator, one, nan_policy=nan_policy)
        return Alone(one, n, curator.measure(Deviation(one, n)))
    other = kernel_space(y, kernel, lengthscale, nan_policy=nan_policy)
    return measure_pair(curator, one, other, rows_of(curator, one, other, nan_policy=nan_policy))


@hsic.concludes
def _(
    measured: Pair | Alone,
    *,
    kernel: Kernel,
    confidence: Probability = 0.95,
    alpha: Probability = 0.05,
) -> HSIC:
    """Conclude from the noisy root, and from what else is known of both sides."""
    noisy, one = measured.noisy, measured.x
    other = measured.y if isinstance(measured, Pair) else one
    values, scales = noisy.values.tolist(), noisy.scales.tolist()
    counted = len(values) in {2, 6}
    share, share_scale = (values[-1], scales[-1]) if counted else (1.0, 0.0)
    value, low, high = criterion(
        values[0], scales[0], share, share_scale, measured.rows, unit(one) * unit(other), confidence
    )
    shared: dict[str, Any] = {
        "hsic": value,
        "low": low,
        "high": high,
        "confidence": confidence,
        "alpha": alpha,
        "x": one.names,
        "kernel": kernel,
        "rows": measured.rows,
        "missing": measured.rows * (1 - share) if counted else None,
        "missing_standard_error": math.sqrt(2) * measured.rows * share_scale if counted else None,
        "released": tuple(values),
        "noise_standard_error": tuple(math.sqrt(2) * scale for scale in scales),
    }
    if isinstance(measured, Alone):
        seen = values[0] >= SEEN * scales[0]
        none: dict[str, Any] = dict.fromkeys(("alignment", "statistic", "pvalue", "rejected"))
        return HSIC(y=(), notes=() if seen else (HIDDEN,), **none, **shared)
    tested = conclude_pair(measured, alpha=alpha, confidence=confidence)
    return HSIC(
        y=other.names,
        alignment=tested.corrected,
        statistic=tested.statistic,
        pvalue=tested.pvalue,
        rejected=tested.rejected,
        notes=tested.notes,
        **shared,
    )


def criterion(
    root: float, scale: float, share: float, share_scale: float, rows: int, units: float, confidence: float
) -> tuple[float, float, float]:
    """Estimate (m-1)⁻² tr KHLH, and give its interval, by Bonferroni's inequality over root and share.

    Parameters
    ----------
    root, scale : float
        Noisy root of the squared distance covariance, times the share of complete rows; scale of its Laplace noise.
    share, share_scale : float
        Noisy share of complete rows, and the scale of its noise; 1 and 0 where all rows count.
    rows : int
        Number of rows n.
    units : float
        What the distances of both sides are in, multiplied.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    tuple of three floats
        Estimate, lower and upper end.
    """
    lost = (1 - confidence) / (2 if share_scale else 1)
    reach, share_reach = scale * math.log(1 / lost), share_scale * math.log(1 / lost)
    most, least = min(share + share_reach, 1.0), min(max(share - share_reach, ROWS_MIN / rows), 1.0)
    middle = min(max(share, 2 * share_scale, ROWS_MIN / rows), 1.0)

    def of(square: float, part: float) -> float:  # of m = part n rows: the square is times part², HSIC over (m-1)²
        return min(max(square, 0.0) / units / (max(part, ROWS_MIN / rows) - 1 / rows) ** 2, _LARGEST)

    low, high = max(root - reach, 0.0), max(root + reach, 0.0)
    return of(math.copysign(root**2, root) - 2 * scale**2, middle), of(low**2, most), of(high**2, least)
