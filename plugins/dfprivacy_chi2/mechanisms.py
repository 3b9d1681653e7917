"""Tests of one table, from noisy counts, from a noisy difference of shares, or by the unit circle mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from dfprivacy import ArgumentError, NanPolicy, Probability, Range, mechanism
from dfprivacy.features import OneHot
from dfprivacy_chi2 import counts, nulls
from dfprivacy_chi2.arguments import (
    MARGIN_SHARE,
    ROWS_TO_CALIBRATE,
    TAU,
    check_different_columns,
    check_two_categories,
    checked_rate,
    public_groups,
)
from dfprivacy_chi2.planning import draw_outcomes, power
from dfprivacy_chi2.results import Chi2, Margin, Tested, with_conclusions
from dfprivacy_chi2.tables import paper_sensitivity, swap_sensitivity, tight_sensitivity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy import Column, Curator
    from dfprivacy.release import NoisyValue

__all__ = ["chi2", "chi2_unitcircle"]

Method = Literal["auto", "signed", "table"]
Rates = Any  # a share, or a range of shares

_LAPLACE_SD = math.sqrt(2)  # of a Laplace variable of scale 1


class Measurement(NamedTuple):
    """Measurement of a test: noisy values, the groups with their public sizes, and the public number of rows."""

    method: Tested
    values: tuple[NoisyValue, ...]
    groups: tuple[Any, ...]
    sizes: tuple[int, ...]
    fill: bool = True
    rows: int | None = None


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
) -> Measurement:
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
    return Measurement("unit_circle", (norm,), kept, sizes, fill)


@chi2_unitcircle.concludes
def conclude_chi2_unitcircle(
    measured: Measurement,
    x: Column,
    by: Column,
    *,
    tau: float | None,
    margin: Margin,
    rate: Rates = None,
    alpha: Probability = 0.05,
) -> Chi2:
    """Compute the test from the noisy norm of the unit circle mechanism."""
    (norm,) = measured.values
    guarantee = "ε-differential privacy for pairs of tables with the same margins, where two rows swap their x"
    return with_conclusions(
        Chi2(
            **_result_fields(measured, x, by),
            released=(float(norm.values[0]),),
            noise_standard_error=(_LAPLACE_SD * float(norm.scales[0]),),
            omitted=not measured.fill,
            rate=checked_rate(rate),
            alpha=alpha,
            tau=TAU if tau is None else tau,
            margin=margin,
            guarantee=guarantee if margin == "invariant" else "",
        )
    )


def check_unitcircle(x: Column, by: Column, *, margin: str, rate: Any, nan_policy: NanPolicy, **_: Any) -> None:
    """Check the arguments of `chi2_unitcircle` before anything is charged."""
    check_two_categories(x)
    check_different_columns(x, by)
    rate = checked_rate(rate)
    if (margin == "private") != (rate is None) or (margin == "invariant" and isinstance(rate, tuple)):
        raise ArgumentError(
            f"rate={rate!r} cannot be combined with margin={margin!r}.",
            'Use a number with "invariant", a number or a range with "public_rate", and no rate= with "private".',
        )
    if margin == "invariant" and nan_policy == "omit":
        raise ArgumentError(
            'margin="invariant" needs public sizes, but the number of rows with missing values is private.',
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
    nan_policy: NanPolicy = "omit",
) -> Measurement:
    r"""Test whether two categorical columns are independent, and estimate their association.

    Parameters
    ----------
    x : str
        A private column with categories. Of two, X = 1 is the second.
    by : str
        A column with categories: the groups. The answer is the most accurate if it is public, and two groups are
        compared in two categories.
    method : {"auto", "signed", "table"}
        ``"signed"``: for two categories in two public groups, the signed difference of the shares of X = 1, and
        from 100 rows times epsilon on, with a tenth of the budget, how many have X = 1 and how many none, which
        says how much the difference varies. ``"table"``: noisy counts of all cells, for tables of any size and
        groups that are private too. ``"auto"``: the first where it can be asked.
    groups : list or tuple of categories, optional
        The public groups to compare; default: all.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: rows without X are left out and not counted. ``"fill"``: they count as the first of two
        categories, in public groups. ``"raise"``: refused, where both columns are public. Rows of no group count
        nowhere.
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
    missing X by 1; counts by 2, or 1 for a row more or less. All else is post-processing.

    **Statistics.** Noise is part of every p-value. ``"signed"`` takes the law of the noisy difference given how
    many have X = 1, averaged over what that number may be by the release; where it was not measured, at a share of
    1/2. ``"table"`` weighs each direction of the table by the part of its variance that is sampling, and takes the
    law of 2,047 tables without association, drawn from margins that the release leaves possible; beyond the 40
    largest the tail is extended. Noisy counts were first tested so in [1]_; the interval of a difference counts one
    row more of each kind [2]_.

    References
    ----------
    .. [1] M. Gaboardi, H. Lim, R. Rogers, S. Vadhan (2016). Differentially private chi-squared hypothesis testing:
       goodness of fit and independence testing. ICML.
    .. [2] A. Agresti, B. Caffo (2000). Simple and effective confidence intervals for proportions and differences of
       proportions result from adding two successes and two failures. The American Statistician 54.

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
        return _measure_counts(curator, x, by, by.categories or (), None)
    kept, sizes = public_groups(curator, x, by, groups, most=None)
    if method == "table" or (method == "auto" and not _two_by_two(x, kept)):
        return _measure_counts(curator, x, by, kept, sizes)
    margins: tuple[NoisyValue, ...] = ()
    if sum(sizes) * curator.epsilon >= ROWS_TO_CALIBRATE:
        margins = (curator.sum(counts.Margins(x, by, kept, fill=fill), share=MARGIN_SHARE),)
    difference = curator.measure(counts.Difference((x,), by, kept, sizes, fill=fill, signed=True))
    return Measurement("signed", (difference, *margins), kept, sizes, fill)


@chi2.concludes
def conclude_chi2(
    measured: Measurement,
    x: Column,
    by: Column,
    *,
    alpha: Probability = 0.05,
    confidence: Probability = 0.95,
) -> Chi2:
    """Compute the test from the noisy counts of all cells, or from the noisy difference of shares."""
    known: dict[str, Any] = {**_result_fields(measured, x, by), "alpha": alpha, "confidence": confidence}
    first = measured.values[0]
    if measured.method == "table":
        cells, deviation = first.values.ravel(), first.law.standard_deviation
        released, deviations = cells.tolist(), [deviation] * cells.size
        rows = sum(measured.sizes) or measured.rows
        if rows is not None:
            known |= {"missing": rows - float(cells.sum()), "missing_standard_error": deviation * cells.size**0.5}
    else:
        least = min(measured.sizes)
        released, deviations = [float(first.values[0]) / least], [_LAPLACE_SD * float(first.scales[0]) / least]
        for margins in measured.values[1:]:
            half, *missing = margins.values.tolist()
            deviation = _LAPLACE_SD * float(margins.scales[0])
            gone = [] if measured.fill else [2 * each for each in missing]
            released += [half, *gone]
            deviations += [deviation, *(2 * deviation for _ in gone)]
            if gone:
                known |= {"missing": sum(gone), "missing_standard_error": _LAPLACE_SD * 2 * deviation}
        known["omitted"] = not measured.fill and len(released) == 1
    return with_conclusions(Chi2(**known, released=tuple(released), noise_standard_error=tuple(deviations)))


def check_chi2(
    x: Column, by: Column, *, method: Method, groups: Sequence[Any] | None, nan_policy: NanPolicy, **_: Any
) -> None:
    """Check the arguments of `chi2` before anything is charged."""
    check_different_columns(x, by)
    if len(x.categories or ()) < 2 or len(by.categories or ()) < 2:  # noqa: PLR2004
        check_two_categories(x if len(x.categories or ()) < 2 else by)  # noqa: PLR2004
    if not by.public and (method == "signed" or groups is not None):
        raise ArgumentError(
            f"method= and groups= need public groups, but the column {by.name!r} is private.",
            f"If the column is public, write protect(..., public=[{by.name!r}]).",
        )
    compared = groups if isinstance(groups, list | tuple) else by.categories or ()
    signed = method != "table" and by.public and _two_by_two(x, compared)
    if method == "signed" and not signed:
        raise ArgumentError("method='signed' needs two categories of x and two groups.", 'Use method="auto".')
    if nan_policy == "fill" and not signed:
        raise ArgumentError(
            "nan_policy='fill' is for a difference of two shares: noisy counts leave out rows without a value.",
            'Use nan_policy="omit", or compare two public groups in two categories.',
        )


def _two_by_two(x: Column, groups: Sequence[Any]) -> bool:
    return len(x.categories or ()) == len(groups) == 2  # noqa: PLR2004


def _result_fields(measured: Measurement, x: Column, by: Column) -> dict[str, Any]:
    return {
        "method": measured.method,
        "x": x.name,
        "by": by.name,
        "categories": tuple(x.categories or ()),
        "groups": tuple(measured.groups),
        "sizes": tuple(measured.sizes),
    }


def _measure_counts(
    curator: Curator, x: Column, by: Column, kept: tuple[Any, ...], sizes: tuple[int, ...] | None
) -> Measurement:
    """Measure noisy counts of all cells, shape (groups, categories).

    Of all groups they are the same whichever column names the groups, so they are measured in one order.
    """
    if kept == by.categories and x.name < by.name:
        counts = curator.sum(OneHot(x) * OneHot(by), grid="unit")
        counts = replace(counts, values=counts.values.T, scales=counts.scales.T)
    else:
        counts = curator.sum(OneHot(by, groups=kept) * OneHot(x), grid="unit")
    return Measurement("table", (counts,), kept, sizes or (), rows=curator.size)


def plan_chi2(
    curator: Curator, *, x: Column, by: Column, groups: Sequence[Any] | None, **asked: Any
) -> Mapping[str, Any]:
    """Return the power to detect differences of shares of 0.05, 0.1 and 0.2, for ``explain``."""
    if not by.public or asked.get("method") == "table":
        return {}
    kept, sizes = public_groups(curator, x, by, groups, most=None)
    if not _two_by_two(x, kept):
        return {}
    n1, n0 = sizes
    circle = "margin" in asked
    rate, tau = checked_rate(asked.get("rate")), asked.get("tau")
    p = nulls.share_nearest_half(rate)
    powers = {}
    for difference in (0.05, 0.1, 0.2):
        base = min(max(p - difference / 2, 0.0), 1 - difference)
        options: dict[str, Any] = {"base": base, "difference": difference, "rate": rate, "tau": tau}
        options["method"] = "unit_circle" if circle else "signed"
        told = f"power at level 5% for shares of {base:.3g} and {base + difference:.3g}"
        powers[told] = power(n1, n0, curator.epsilon, **options)
        if circle:
            powers[f"lower bound of the {told}, by Theorems 2 and 7"] = power(
                n1, n0, curator.epsilon, **options, bound=True
            )
    return powers


chi2 = chi2.checks(check_chi2).plans(plan_chi2).assumes(draw_outcomes)
chi2_unitcircle = chi2_unitcircle.checks(check_unitcircle).plans(plan_chi2).assumes(draw_outcomes)
