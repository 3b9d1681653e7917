"""The tests of one table: the unit circle mechanism, and what does better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dfprivacy import ArgumentError, NanPolicy, Probability, Range, mechanism
from dfprivacy.features import OneHot
from dfprivacy_chi2 import conclusions, counts, nulls
from dfprivacy_chi2.arguments import (
    MARGIN_SHARE,
    TAU,
    checked_rate,
    checked_shares,
    choose,
    different,
    public_groups,
    two_categories,
)
from dfprivacy_chi2.conclusions import Measured
from dfprivacy_chi2.planning import power
from dfprivacy_chi2.results import Chi2, Margin
from dfprivacy_chi2.tables import paper_sensitivity, swap_sensitivity, tight_sensitivity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy import Column, Curator
    from dfprivacy.release import NoisyValue

__all__ = ["Method", "chi2", "chi2_unitcircle", "findings"]

Method = Literal["auto", "calibrated", "signed", "table", "difference", "distance", "spread", "association"]
Rates = Any  # a share, a range of shares, or a list of shares
_FILLS = ("distance", "spread", "association")


@mechanism(columns={"x": "category", "by": "category"})
def chi2_unitcircle(
    curator: Curator,
    x: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    tau: Annotated[float, Range(1e-6, 1e6)] | None = None,
    margin: Margin = "private",
    sensitivity: Literal["tight", "paper"] = "tight",
    nan_policy: NanPolicy = "omit",
) -> Measured:
    r"""Test a 2 x 2 table by the unit circle mechanism.

    The norm of a vector that is longer than 1 where chi² exceeds tau is released with Laplace noise. It is here for
    comparison with the literature: `chi2` finds more with the same budget, and tells the direction.

    Parameters
    ----------
    x : str
        A private column with two categories; X = 1 is the second of them.
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
    sensitivity : {"tight", "paper"}
        ``"paper"``: the bound of the reference, up to √2 times too large.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: rows without X are left out and not counted. How many are left is not released, so groups of
        unequal sizes are judged as if as few were left of the larger one as the smaller one has, if that is the
        less significant. ``"fill"``: they count as the first category. ``"raise"``: refused, where `x` is public
        too. ``margin="invariant"`` needs one of these two.
    rate : float or tuple of two, optional
        The share of X = 1 in both groups together, or a range.
    alpha : float
        Level of the decision ``rejected``.

    Returns
    -------
    Chi2
        The result: ``pvalue``, ``rejected``, ``critical_value(alpha)``, all from one release.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or the group sizes are not public; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for tables that differ in X of one row: the norm moves by
    :math:`2\sqrt{N_{max}/(\tau N_{min} N) + 1/N^2}` at most, also if its X is left out. Thresholds and p-values use
    public numbers only. With ``margin="invariant"`` the noise is scaled to an exchange,
    :math:`2\sqrt{N/(\tau N_1 N_0)}`, if that is more; no protection is claimed for the published margin itself.

    **Statistics.** Levels are exact for products of binomials (up to 2,000 rows; a mixture of hypergeometric laws
    beyond); with a private margin the p-value is the largest over a grid of shares. Where rows may be left out, it
    is the larger of that of all rows and of groups as small as the smaller one (seen in small tables, not proved).

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
    tau = TAU if tau is None else tau
    kept, sizes = public_groups(curator, x, by, groups)
    if nan_policy == "raise":
        curator.refuse_missing(x, by)
    n1, n0 = sizes
    bound = (tight_sensitivity if sensitivity == "tight" else paper_sensitivity)(n1, n0, tau)
    if margin == "invariant":  # one row is protected too: what the account says holds for the noise
        bound = max(bound, swap_sensitivity(n1, n0, tau))
    fill = nan_policy != "omit"
    norm = curator.measure(counts.UnitCircleNorm((x,), by, kept, sizes, tau, bound, fill=fill))
    return Measured("unit_circle", (norm,), kept, sizes, fill=fill)


@chi2_unitcircle.concludes
def _(
    measured: Measured,
    x: Column,
    by: Column,
    *,
    tau: float | None,
    margin: Margin,
    rate: Rates = None,
    alpha: Probability = 0.05,
) -> Chi2:
    """Judge the noisy norm."""
    guarantee = "ε for tables with the same margins, in which two rows exchange their x"
    return conclusions.of_a_number(
        measured,
        x,
        by,
        rate=checked_rate(rate),
        alpha=alpha,
        tau=TAU if tau is None else tau,
        margin=margin,
        guarantee=guarantee if margin == "invariant" else "",
    )


def circle_arguments(x: Column, by: Column, *, margin: str, rate: Any, nan_policy: NanPolicy, **_: Any) -> None:
    """Refuse arguments before anything is paid."""
    two_categories(x)
    different(x, by)
    rate = checked_rate(rate)
    if (margin == "private") != (rate is None) or (margin == "invariant" and isinstance(rate, tuple)):
        raise ArgumentError(
            f"rate={rate!r} does not go with margin={margin!r}.",
            'Give a number for "invariant", a number or a range for "public_rate", and nothing for "private".',
        )
    if margin == "invariant" and nan_policy == "omit":
        raise ArgumentError(
            'margin="invariant" needs public sizes, and how many rows are left out is private.',
            'Use nan_policy="fill", which counts them as the first category.',
        )


@mechanism(columns={"x": "category", "by": "category"})
def chi2(
    curator: Curator,
    x: Column,
    by: Column,
    *,
    method: Method = "auto",
    groups: Sequence[Any] | None = None,
    rate: Rates = None,
    nan_policy: NanPolicy = "omit",
) -> Measured:
    r"""Test whether two categorical columns are independent, and say how they are associated.

    Parameters
    ----------
    x : str
        A private column with categories. Of two, X = 1 is the second.
    by : str
        A column with categories: the groups. The answer is the most accurate if it is public, and two groups are
        compared in two categories.
    method : {"auto", "calibrated", "signed", "table", "difference", "distance", "spread", "association"}
        ``"calibrated"``: for two categories in two public groups, the signed difference of the shares of X = 1,
        and with a tenth of the budget how many have X = 1, which says how much the difference varies.
        ``"signed"``: the signed difference alone, judged at the share that makes it vary most, for fewer than 100
        rows times epsilon, where more would be noise. ``"table"``: noisy counts of all cells, for tables of any
        size and groups that are private too. ``"auto"`` is one of these three. The others release one number,
        which tells neither direction nor shares, and find more where the noise is larger than what sampling leaves
        open: ``"difference"``, the absolute difference, judged as ``"signed"``; ``"distance"``, how many rows must
        change for chi² to cross its critical value at 5%; ``"spread"``, of more categories or public groups;
        ``"association"``, of two categories in two private groups. ``"auto"`` is ``"difference"`` with a `rate`,
        and with ``nan_policy="fill"`` it is one of these for fewer than 200 rows times epsilon, larger tables and
        private groups.
    groups : list or tuple of categories, optional
        The public groups to compare; default: all.
    rate : float, tuple of two, or list of float, optional
        What is known from outside the data: the share of X = 1, or its range; of more categories, the share of
        each, for ``"spread"``.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: rows without X are left out and not counted. ``"fill"``: they count as the first of two
        categories. ``"raise"``: refused, where both columns are public. Rows of no group count nowhere.
    alpha : float
        Level of the decision ``rejected``.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    Chi2
        The result: ``statistic``, ``pvalue``, ``rejected``, ``direction``, ``shares``, and an effect with its
        interval.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or what must be public is private; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for tables that differ in one row; where `by` is public, they agree on
    it. A row moves the difference by 1/min(N1, N0) at most, also if its X is left out; the numbers of X = 1 and of
    missing X by 1; counts by 2, or 1 for a row more or less; the signed distance by 1 (Johnson and Shmatikov
    [1]_); the spread by :math:`\sqrt{(1/N_{min} - 1/N)(1/w_i + 1/w_{i'})}` at its largest, and the association
    :math:`|c_{11} c_{00} - c_{10} c_{01}|/(N-1)` by 1. All else is post-processing.

    **Statistics.** Noise is part of every p-value. Of ``"difference"`` it is a proved bound over all shares, a
    percent above the largest at most, and by normal laws over the rows that may be left out; of ``"signed"`` a
    proved bound over both; of ``"calibrated"`` it is exact given how many have X = 1, and the largest over a grid
    of these. ``"table"`` takes Pearson's law with the noise, and puts categories together until enough rows are
    expected in each cell. What is said of ``"spread"`` and ``"association"`` was seen on grids and is not proved.

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
    >>> test.rejected, test.direction, test.low < 0.2 < test.high
    (True, 'ill = True is more frequent in arm = drug than in arm = placebo', True)
    """
    if nan_policy == "raise":
        curator.refuse_missing(x, by)
    fill = nan_policy != "omit"
    if not by.public:
        return _of_private_groups(curator, x, by, method, fill=fill)
    kept, sizes = public_groups(curator, x, by, groups, most=None)
    if len(sizes) > 2 or len(x.categories or ()) > 2:  # noqa: PLR2004
        if method not in {"auto", "table", "spread"}:
            raise ArgumentError(f"method={method!r} is for two categories in two groups.", 'Use method="auto".')
        if method == "table" or (method == "auto" and not fill):
            return _counted(curator, x, by, kept, sizes)
        return _spread(curator, x, by, kept, sizes, rate)
    chosen = choose(method, sum(sizes), curator.epsilon, rate, fill=fill)
    if chosen == "table":
        return _counted(curator, x, by, kept, sizes)
    if chosen == "spread":
        return _spread(curator, x, by, kept, sizes, rate)
    return _two_shares(curator, x, by, kept, sizes, chosen, fill=fill)


@chi2.concludes
def _(
    measured: Measured,
    x: Column,
    by: Column,
    *,
    rate: Rates,
    alpha: Probability = 0.05,
    confidence: Probability = 0.95,
) -> Chi2:
    """Judge what was measured."""
    if measured.method == "table":
        return conclusions.of_counts(measured, x, by, alpha=alpha, confidence=confidence)
    if measured.method == "spread" and len(x.categories or ()) > 2:  # noqa: PLR2004
        rate = None if rate is None else checked_shares(rate, len(x.categories or ()))
    else:
        rate = checked_rate(rate)
    if measured.method == "calibrated":
        return conclusions.of_a_signed_difference(measured, x, by, alpha=alpha, confidence=confidence)
    return conclusions.of_a_number(measured, x, by, rate=rate, alpha=alpha, confidence=confidence)


def chi2_arguments(
    x: Column,
    by: Column,
    *,
    method: Method,
    groups: Sequence[Any] | None,
    rate: Rates,
    nan_policy: NanPolicy,
    **_: Any,
) -> None:
    """Refuse arguments before anything is paid."""
    different(x, by)
    if len(x.categories or ()) < 2 or len(by.categories or ()) < 2:  # noqa: PLR2004
        two_categories(x if len(x.categories or ()) < 2 else by)  # noqa: PLR2004
    if nan_policy == "omit" and method in _FILLS:
        raise ArgumentError(
            f"method={method!r} needs public sizes, and how many rows are left out is private.",
            'Use method="auto", or nan_policy="fill".',
        )
    if not by.public:
        if method not in {"auto", "table", "association"} or groups is not None or rate is not None:
            raise ArgumentError(
                f"method=, groups= and rate= need public groups, and {by.name!r} is private.",
                f"If neighbouring tables agree on it, say so: protect(..., public=[{by.name!r}]).",
            )
        if method == "association":
            two_categories(x)
            two_categories(by)
        return
    compared = groups if isinstance(groups, list | tuple) else by.categories or ()
    two_by_two = len(x.categories or ()) == len(compared) == 2  # noqa: PLR2004
    if len(x.categories or ()) == 2:  # noqa: PLR2004
        checked_rate(rate)
    elif rate is not None:
        checked_shares(rate, len(x.categories or ()))
    if rate is not None and method in {"calibrated", "signed"}:
        raise ArgumentError(
            f"rate= is of no use to method={method!r}: it knows enough.", 'Use method="difference" with a rate.'
        )
    if rate is not None and (method == "table" or (not two_by_two and nan_policy == "omit")):
        raise ArgumentError(
            "rate= says what noisy counts tell already.",
            'Leave it out, or use method="spread" with nan_policy="fill".',
        )


def _two_shares(
    curator: Curator,
    x: Column,
    by: Column,
    kept: tuple[Any, ...],
    sizes: tuple[int, ...],
    method: str,
    *,
    fill: bool,
) -> Measured:
    """Measure how two shares differ, in two public groups."""
    if method == "association":
        raise ArgumentError("method='association' is for private groups.", 'Use method="auto".')
    if method == "distance":
        if math.prod(size + 1 for size in sizes) > nulls.MOST_TABLES:
            raise ArgumentError(
                f"The signed distance is for groups of up to {math.isqrt(nulls.MOST_TABLES):,} rows each.",
                'Use method="calibrated".',
            )
        return Measured(method, (curator.measure(counts.Distance((x,), by, kept, sizes, TAU)),), kept, sizes)
    if method == "difference":
        difference = curator.measure(counts.Difference((x,), by, kept, sizes, fill=fill))
        return Measured(method, (difference,), kept, sizes, fill=fill)
    margins: tuple[NoisyValue, ...] = ()
    if method == "calibrated":
        margins = (curator.sum(counts.Margins(x, by, kept, fill=fill), share=MARGIN_SHARE),)
    difference = curator.measure(counts.Difference((x,), by, kept, sizes, fill=fill, signed=True))
    return Measured(method, (difference, *margins), kept, sizes, fill=fill)


def _spread(
    curator: Curator, x: Column, by: Column, kept: tuple[Any, ...], sizes: tuple[int, ...], rate: Rates
) -> Measured:
    """Measure how far shares are from those in all rows."""
    categories = len(x.categories or ())
    shares: tuple[float, ...] = (1.0,)
    if categories > 2:  # noqa: PLR2004
        shares = (1.0,) * categories if rate is None else checked_shares(rate, categories)
    spread = curator.measure(counts.Spread(x, by, kept, sizes, shares))
    return Measured("spread", (spread,), kept, sizes)


def _counted(
    curator: Curator, x: Column, by: Column, kept: tuple[Any, ...], sizes: tuple[int, ...] | None
) -> Measured:
    """Measure counts of all cells: shape (groups, categories).

    Of all groups they are the same whichever column names the groups, so they are measured in one order.
    """
    if kept == by.categories and x.name < by.name:
        counts = curator.sum(OneHot(x) * OneHot(by), grid="unit")
        counts = replace(counts, values=counts.values.T, scales=counts.scales.T)
    else:
        counts = curator.sum(OneHot(by, groups=kept) * OneHot(x), grid="unit")
    return Measured("table", (counts,), kept, sizes or (), rows=curator.size)


def _of_private_groups(curator: Curator, x: Column, by: Column, method: str, *, fill: bool) -> Measured:
    """Measure a table whose groups are private."""
    kept = by.categories or ()
    size = curator.size if curator.neighbors == "replace_one" else None
    one_number = method == "association" or (
        method == "auto" and fill and len(kept) == len(x.categories or ()) == 2 and size is not None  # noqa: PLR2004
    )
    if not one_number:
        return _counted(curator, x, by, kept, None)
    if size is None:
        raise ArgumentError(
            "method='association' needs a public number of rows.",
            'Use method="table"; or ask it of all rows, or of rows selected by public columns, under '
            "neighbors='replace_one'.",
        )
    if size < 2:  # noqa: PLR2004
        raise ArgumentError(f"There are {size} rows.", "A test needs at least two.")
    return Measured("association", (curator.measure(counts.Association(x, by, size)),), kept, (size,))


def findings(
    curator: Curator, x: Column, by: Column, *, groups: Sequence[Any] | None = None, **given: Any
) -> Mapping[str, Any]:
    """Say what the test could find out, from public numbers only; for ``explain``."""
    if not by.public or len(x.categories or ()) > 2:  # noqa: PLR2004
        return {}
    _, sizes = public_groups(curator, x, by, groups, most=None)
    if len(sizes) > 2:  # noqa: PLR2004
        return {}
    rate = checked_rate(given.get("rate"))
    fill = given.get("nan_policy") != "omit"
    method: Any = (
        "unit_circle"
        if "margin" in given
        else choose(given["method"], sum(sizes), curator.epsilon, rate, fill=fill)
    )
    if method in {"table", "spread"}:
        return {}
    tau = given.get("tau") or TAU
    p = nulls.nearest_half(rate)
    first, second = sizes
    powers = {}
    for difference in (0.05, 0.1, 0.2):
        base = min(max(p - difference / 2, 0.0), 1 - difference)
        options = {"base": base, "difference": difference, "method": method, "rate": rate, "tau": tau}
        told = f"at 5% shares of {base:.3g} and {base + difference:.3g} are told apart with probability"
        powers[told] = power(first, second, curator.epsilon, **options)
        if method == "unit_circle":
            powers[f"{told} at least, by Theorems 2 and 7"] = power(
                first, second, curator.epsilon, **options, bound=True
            )
    return powers
