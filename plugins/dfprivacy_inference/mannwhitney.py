"""``view.mannwhitneyu``: a rank test of two groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dfprivacy import Column, Curator, NanPolicy, Probability, mechanism
from dfprivacy.inference.engine import Alternative
from dfprivacy.schema import chosen_groups
from dfprivacy_inference.asking import check_apart
from dfprivacy_inference.comparing import conclude_two, measure_two
from dfprivacy_inference.rank_results import MannWhitney
from dfprivacy_inference.scores import MidRanks
from dfprivacy_inference.two_groups import Shapes, TwoGroups

__all__ = ["check_two", "mannwhitneyu"]


@mechanism(columns={"column": "numeric", "by": "category"})
def mannwhitneyu(
    curator: Curator,
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    nan_policy: NanPolicy = "omit",
) -> TwoGroups:
    """Test whether values of one group tend to be larger than those of another.

    Parameters
    ----------
    column : str
        A column with bounds. They may be loose: values count by their order only.
    by : str
        A column with categories.
    groups : list or tuple of two categories, optional
        The groups to compare, the first with the second; default: the column's, if it has two.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: a row in which `column` is missing is compared with none. ``"fill"``: it counts, with the
        column's fill value. ``"raise"``: it is refused, where `column` is public.
    alternative : {"two-sided", "less", "greater"}
        What is suspected of the first group.
    alpha : float
        The level at which `rejected` decides.
    confidence : float
        Coverage of the interval for the effect.
    shapes : {"similar", "any"}
        What the test and the interval take the laws of the groups to be: of one shape, as Mann and Whitney's test
        does, or any, which finds less and holds where spreads differ.

    Returns
    -------
    MannWhitney
        With scipy's and pingouin's names: ``statistic``, ``pvalue``, ``effect`` (their CLES), ``rank_biserial``.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. With D the rank sum of the
    first group less its mean if both are alike, H(M) D moves by at most 1 if one of n rows changes, its group
    included; M is the size of the larger group, and H(M) lies between 1/n and 2/n. Where the number of rows times ε
    is 100 or more, 0.2 times the size of the first group, and the number of rows in both, come with it for nothing,
    and ties for a tenth more noise. Where the groups are public, D alone moves by the larger size at most; where
    the number of rows is private, D/n by 1/2, and sizes take a tenth. All else is post-processing.

    **Statistics.** The p-value is that of the normal law on average over draws of the noise in the rank sum and in
    the sizes; where sizes are not measured, with the largest variance that there can be. The variance is that of
    groups alike, as Mann and Whitney's: estimated from the draw, as the engine does for means, it would reject .068
    of true hypotheses at .05 of 20 rows a group, without noise. The interval for the effect has the same variance
    at 1/2, so that it holds 1/2 if and only if the test does not reject [3]_. ``plan`` does not know a relative
    error: a probability has none. It is a test of one law in both groups, not of medians: where spreads
    differ and the smaller group has the larger one, it rejects too often, as it does without privacy, and the
    interval covers too rarely: .84 where a tenth of the rows has three times the spread. ``shapes="any"`` takes the
    largest variance of any two laws for both [2]_.

    References
    ----------
    .. [1] Couch, Kazan, Shi, Bray and Groce (2019). Differentially private nonparametric hypothesis testing. CCS.
    .. [2] Birnbaum and Klose (1957). Bounds for the variance of the Mann-Whitney statistic. Annals of Mathematical
       Statistics 28.
    .. [3] Fay and Malinovsky (2018). Confidence intervals of the Mann-Whitney parameter that are compatible with
       the Wilcoxon-Mann-Whitney test. Statistics in Medicine 37.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"wage": np.arange(2000) ** 2.0, "union": ["no"] * 1000 + ["yes"] * 1000})
    >>> view = dp.protect(df, "mannwhitneyu-example", epsilon=1, ledger="memory:",
    ...                   bounds={"wage": (0, 10**9)}, categories={"union": ["yes", "no"]})
    >>> view.mannwhitneyu("wage", by="union", epsilon=1).pvalue < 0.001
    True
    """
    pair = chosen_groups(by, groups)
    scores = MidRanks(column, curator.gaps([column], nan_policy))
    return measure_two(curator, scores, by, pair)


@mannwhitneyu.concludes
def _(
    measured: TwoGroups,
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None,
    nan_policy: NanPolicy,
    alternative: Alternative = "two-sided",
    alpha: Probability = 0.05,
    confidence: Probability = 0.95,
    shapes: Shapes = "similar",
) -> MannWhitney:
    """Conclude from the noisy rank sum."""
    told = conclude_two(measured, by, chosen_groups(by, groups), alternative, alpha, confidence, shapes)
    first, second = measured.sizes
    return MannWhitney(
        column=column.name,
        bounds=(column.low, column.high),
        statistic=None if measured.unsized else float(measured.rank_sum + first * second / 2),
        nan_policy=nan_policy,
        **told,
    )


def check_two(column: Column, by: Column, *, groups: Sequence[Any] | None, **_: Any) -> None:
    """Refuse what cannot be compared, before anything is paid."""
    check_apart(column, by)
    chosen_groups(by, groups)
