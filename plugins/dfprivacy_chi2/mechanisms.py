"""The tests of one table: the unit circle mechanism, and what does better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dfprivacy import ArgumentError, Probability, Range, mechanism
from dfprivacy_chi2 import counts, nulls
from dfprivacy_chi2.asked import (
    TAU,
    TOTAL_SHARE,
    checked_rate,
    choose,
    different,
    public_groups,
    two_categories,
)
from dfprivacy_chi2.planning import power
from dfprivacy_chi2.results import Chi2, Margin
from dfprivacy_chi2.tables import paper_sensitivity, swap_sensitivity, tight_sensitivity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy import Column, Curator, NoisyValue

__all__ = ["Method", "chi2", "chi2_unitcircle", "findings"]

Method = Literal["auto", "difference", "calibrated", "distance"]


@mechanism(columns={"x": "category", "by": "category"})
def chi2_unitcircle(
    curator: Curator,
    x: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    tau: Annotated[float, Range(1e-6, 1e6)] | None = None,
    margin: Margin = "private",
    rate: float | tuple[float, float] | None = None,
    sensitivity: Literal["tight", "paper"] = "tight",
) -> Chi2:
    r"""Test a 2 x 2 table by the unit circle mechanism.

    The norm of a vector that is longer than 1 where chi² exceeds tau is released with Laplace noise. It is here for
    comparison with the literature: `chi2` finds more with the same budget.

    Parameters
    ----------
    x : str
        A private column with two categories; X = 1 is the second of them. Missing values count as the first.
    by : str
        A public column with categories: the groups.
    groups : list or tuple of two categories, optional
        The groups to compare; default: the column's, if it has two.
    tau : float, optional
        Value of chi² that the circle stands for; default: 3.84, the critical value at 5%. The smaller, the more is
        found.
    margin : {"private", "public_rate", "invariant"}
        ``"private"``: nothing is known of the share of X = 1. ``"public_rate"``: `rate` is known from outside the
        data. ``"invariant"``: `rate` is the exact share, published already; the noise then protects pairs of tables
        with the same margins, in which two rows of different groups exchange their X.
    rate : float or tuple of two, optional
        The share of X = 1 in both groups together, or a range.
    sensitivity : {"tight", "paper"}
        ``"paper"``: the bound of the reference, up to √2 times too large.

    Returns
    -------
    Chi2
        The result: ``statistic``, ``pvalue``, ``critical_value(alpha)``, ``reject(alpha)``, all from one release.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or the group sizes are not public; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for tables that differ in X of one row: the norm moves by
    :math:`2\sqrt{N_{max}/(\tau N_{min} N) + 1/N^2}` at most. Thresholds and p-values use public numbers only. With
    ``margin="invariant"`` the noise is scaled to an exchange, :math:`2\sqrt{N/(\tau N_1 N_0)}`, if that is more; no
    protection is claimed for the published margin itself.

    **Statistics.** Levels are exact for products of binomials (up to 2,000 rows; a mixture of hypergeometric laws
    beyond); with a private margin the p-value is the largest over a grid of shares.

    References
    ----------
    .. [1] K. Kakizaki, K. Fukuchi, J. Sakuma (2017). Differentially private chi-squared test by unit circle
       mechanism. ICML.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"ill": [True] * 300 + [False] * 700 + [True] * 100 + [False] * 900,
    ...                    "arm": ["drug"] * 1000 + ["placebo"] * 1000})
    >>> trial = dp.protect(df, "unitcircle-example", epsilon=1, ledger="memory:",
    ...                    categories={"ill": [False, True], "arm": ["drug", "placebo"]}, public=["arm"])
    >>> trial.chi2_unitcircle("ill", "arm", epsilon=0.5).pvalue < 0.01
    True
    """
    two_categories(x)
    rate = checked_rate(rate)
    if (margin == "private") != (rate is None) or (margin == "invariant" and isinstance(rate, tuple)):
        raise ArgumentError(
            f"rate={rate!r} does not go with margin={margin!r}.",
            'Give a number for "invariant", a number or a range for "public_rate", and nothing for "private".',
        )
    tau = TAU if tau is None else tau
    kept, sizes = public_groups(curator, x, by, groups, least=2, most=2)
    n1, n0 = sizes
    bound = (tight_sensitivity if sensitivity == "tight" else paper_sensitivity)(n1, n0, tau)
    if margin == "invariant":  # one row is protected too: what the account says holds for the noise
        bound = max(bound, swap_sensitivity(n1, n0, tau))
    measured = curator.measure(counts.UnitCircleNorm(x, by, kept, sizes, tau, bound))
    swaps = (
        "ε for tables with the same margins, in which two rows exchange their x" if margin == "invariant" else ""
    )
    return _conclude(
        measured, x, by, kept, sizes, method="unit_circle", tau=tau, margin=margin, rate=rate, guarantee=swaps
    )


@mechanism(columns={"x": "category", "by": "category"})
def chi2(
    curator: Curator,
    x: Column,
    by: Column,
    *,
    method: Method = "auto",
    groups: Sequence[Any] | None = None,
    rate: Any = None,
    confidence: Probability = 0.95,
) -> Chi2:
    r"""Test whether two categorical columns are independent.

    Parameters
    ----------
    x : str
        A private column with categories. Of two, X = 1 is the second, and missing values count as the first.
    by : str
        A column with categories: the groups. If it is public, any number of them; if it is private, both columns
        must have two categories.
    method : {"auto", "difference", "calibrated", "distance"}
        For two categories in two public groups. ``"difference"``: the absolute difference of the shares of X = 1,
        judged at the share that makes it vary most. ``"calibrated"``: the same, judged at the shares that are
        likely given a noisy number of X = 1, which costs a tenth of the budget. ``"distance"``: the number of rows
        that must change to make chi² cross its critical value at 5%. ``"auto"``: ``"calibrated"`` from 200 rows
        times epsilon on if nothing is known of the share, else ``"difference"``.
    groups : list or tuple of categories, optional
        The public groups to compare; default: all.
    rate : float, tuple of two, or list of float, optional
        What is known from outside the data: the share of X = 1, or its range; of more categories, the share of
        each.
    confidence : float
        Coverage of the interval for the absolute difference.

    Returns
    -------
    Chi2
        The result: ``statistic``, ``pvalue``, ``confidence_interval()``, ``critical_value(alpha)``,
        ``reject(alpha)``.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or what must be public is private; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for tables that differ in one row; where `by` is public, they agree on
    it. Each statistic has a proved sensitivity: the absolute difference 1/min(N1, N0), the signed distance 1
    (Johnson and Shmatikov [1]_), the spread of more categories or groups :math:`\sqrt{(1/N_{min} - 1/N)(1/w_i +
    1/w_{i'})}` at its largest, and with private groups :math:`|c_{11} c_{00} - c_{10} c_{01}|/(N-1)` has 1. All
    else is post-processing.

    **Statistics.** p-values are the largest over the shares that cannot be excluded, noise included. That the
    absolute difference varies most at a share of 1/2, and what is said of private groups and of more categories,
    was seen on grids and is not proved.

    References
    ----------
    .. [1] A. Johnson, V. Shmatikov (2013). Privacy-preserving data exploration in genome-wide association
       studies. KDD.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"ill": [True] * 300 + [False] * 700 + [True] * 100 + [False] * 900,
    ...                    "arm": ["drug"] * 1000 + ["placebo"] * 1000})
    >>> trial = dp.protect(df, "chi2-example", epsilon=1, ledger="memory:",
    ...                    categories={"ill": [False, True], "arm": ["drug", "placebo"]}, public=["arm"])
    >>> test = trial.chi2("ill", "arm", epsilon=0.5)
    >>> test.pvalue < 0.001, test.low < 0.2 < test.high
    (True, True)
    """
    if not by.public:
        return _private_groups(curator, x, by, method, groups, rate, confidence)
    kept, sizes = public_groups(curator, x, by, groups, least=2, most=None)
    if len(sizes) > 2 or len(x.categories or ()) > 2:  # noqa: PLR2004
        return _larger(curator, x, by, kept, sizes, method, rate, confidence)
    two_categories(x)
    rate = checked_rate(rate)
    chosen = choose(method, sum(sizes), curator.epsilon, rate)
    asked: dict[str, Any] = {"method": chosen, "rate": rate, "confidence": confidence}
    if chosen == "distance":
        if math.prod(size + 1 for size in sizes) > nulls.MOST_TABLES:
            raise ArgumentError(
                f"The signed distance is for groups of up to {math.isqrt(nulls.MOST_TABLES):,} rows each.",
                'Use method="calibrated".',
            )
        measured = curator.measure(counts.Distance(x, by, kept, sizes, TAU))
        return _conclude(measured, x, by, kept, sizes, tau=TAU, **asked)
    if chosen == "calibrated":
        if rate is not None:
            raise ArgumentError(
                "rate= says already what method='calibrated' measures.", 'Use method="difference" with a rate.'
            )
        total = curator.measure(counts.Total(x, by, kept, sizes), share=TOTAL_SHARE)
        asked |= {"total": float(total.values[0]), "total_scale": float(total.scales[0])}
    measured = curator.measure(counts.Difference(x, by, kept, sizes))
    return _conclude(measured, x, by, kept, sizes, **asked)


def _larger(
    curator: Curator,
    x: Column,
    by: Column,
    kept: tuple[Any, ...],
    sizes: tuple[int, ...],
    method: str,
    rate: Any,
    confidence: float,
) -> Chi2:
    """Test more than two categories, or more than two groups."""
    if method != "auto":
        raise ArgumentError(f"method={method!r} is for two categories in two groups.", 'Use method="auto".')
    categories = len(x.categories or ())
    if categories < 2:  # noqa: PLR2004
        two_categories(x)
    shares: tuple[float, ...] = (1.0,)
    if categories == 2:  # noqa: PLR2004
        rate = checked_rate(rate)
    elif rate is None:
        shares = (1.0,) * categories
    else:
        rate = shares = _checked_shares(rate, categories)
    measured = curator.measure(counts.Spread(x, by, kept, sizes, shares))
    return _conclude(measured, x, by, kept, sizes, method="spread", rate=rate, confidence=confidence)


def _checked_shares(rate: Any, categories: int) -> tuple[float, ...]:
    given = isinstance(rate, list | tuple) and len(rate) == categories
    numbers = given and all(isinstance(share, int | float) and 0 < share < 1 for share in rate)
    if not numbers or abs(sum(rate) - 1) > 1e-9:  # noqa: PLR2004
        raise ArgumentError(
            f"rate={rate!r} must hold a share above 0 for each of {categories} categories, 1 together.",
            "Give what is known from outside the data, or leave it out.",
        )
    return tuple(float(share) for share in rate)


def _private_groups(
    curator: Curator, x: Column, by: Column, method: str, groups: object, rate: object, confidence: float
) -> Chi2:
    """Test two categories in two private groups."""
    if method != "auto" or groups is not None or rate is not None:
        raise ArgumentError(
            f"method=, groups= and rate= need public groups, and {by.name!r} is private.",
            f"If neighbouring tables agree on it, say so: protect(..., public=[{by.name!r}]).",
        )
    for column in (x, by):
        two_categories(column)
    different(x, by)
    size = curator.size if curator.neighbors == "replace_one" else None
    if size is None:
        raise ArgumentError(
            "With private groups the test needs a public number of rows.",
            "Ask it of all rows, or of rows selected by public columns, under neighbors='replace_one'.",
        )
    if size < 2:  # noqa: PLR2004
        raise ArgumentError(f"There are {size} rows.", "A test needs at least two.")
    measured = curator.measure(counts.Association(x, by, size))
    return _conclude(measured, x, by, by.categories or (), (size,), method="association", confidence=confidence)


def _conclude(
    measured: NoisyValue, x: Column, by: Column, kept: Sequence[Any], sizes: Sequence[int], **asked: Any
) -> Chi2:
    """Judge a noisy statistic."""
    return Chi2(
        **asked,
        statistic=float(measured.values.ravel()[0]),
        scale=float(measured.scales.ravel()[0]),
        sizes=tuple(sizes),
        categories=len(x.categories or ()),
        x=x.name,
        by=by.name,
        groups=tuple(kept),
    ).judged()


def findings(
    curator: Curator, x: Column, by: Column, *, groups: Sequence[Any] | None = None, **asked: Any
) -> Mapping[str, Any]:
    """Say what the test could find out, from public numbers only; for ``explain``."""
    if not by.public or len(x.categories or ()) > 2:  # noqa: PLR2004
        return {}
    _, sizes = public_groups(curator, x, by, groups, least=2, most=None)
    if len(sizes) > 2:  # noqa: PLR2004
        return {}
    rate = checked_rate(asked.get("rate"))
    method: Any = "unit_circle" if "margin" in asked else asked["method"]
    tau = asked.get("tau") or TAU
    p = nulls.nearest_half(rate)
    first, second = sizes
    found = {}
    for difference in (0.05, 0.1, 0.2):
        base = min(max(p - difference / 2, 0.0), 1 - difference)
        chance = power(
            first, second, curator.epsilon, base=base, difference=difference, method=method, rate=rate, tau=tau
        )
        found[f"at 5% shares of {base:.3g} and {base + difference:.3g} are told apart with probability"] = chance
    return found
