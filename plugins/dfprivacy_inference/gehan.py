"""``view.survival_test``: whether one of two groups lives longer, by Gehan's scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dfprivacy import Column, Curator, NanPolicy, Probability, mechanism
from dfprivacy.inference.engine import Alternative
from dfprivacy.schema import chosen_groups
from dfprivacy_inference.asking import check_apart
from dfprivacy_inference.comparing import conclude_two, measure_two
from dfprivacy_inference.lifetables import check_times
from dfprivacy_inference.rank_results import SurvivalTest
from dfprivacy_inference.scores import GehanScores
from dfprivacy_inference.two_groups import TwoGroups

__all__ = ["check_survival", "survival_test"]


@mechanism(columns={"time": "numeric", "event": "category", "by": "category"})
def survival_test(
    curator: Curator,
    time: Column,
    event: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    nan_policy: NanPolicy = "omit",
) -> TwoGroups:
    """Test whether one of two groups tends to live longer (Gehan-Wilcoxon).

    Parameters
    ----------
    time : str
        A column of times with bounds, 0 or above. They may be loose: times count by their order only.
    event : str
        Whether the time is that of the event, or of the last look (censored): a column with the categories 0 and 1,
        or False and True.
    by : str
        A column with categories.
    groups : list or tuple of two categories, optional
        The groups to compare, the first with the second; default: the column's, if it has two.
    nan_policy : {"omit", "fill", "raise"}
        As in `kaplan_meier`.
    alternative : {"two-sided", "less", "greater"}
        What is suspected of the first group: ``"greater"``, that it lives longer.
    alpha : float
        The level at which `rejected` decides.
    confidence : float
        Coverage of the interval for the effect.

    Returns
    -------
    SurvivalTest
        With scipy's names: ``statistic``, ``pvalue``.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation, as ``mannwhitneyu``: of two
    rows one surely lives longer, or the other does, or censoring hides it, which is all that the proof there needs.
    In place of ties the variance of the statistic is measured, for a tenth more noise: four times it is the sum,
    over events, of the product of the numbers at risk in the two groups, which one row moves by n(n - 1)/2 at most.

    **Statistics.** The p-value is that of the normal law, on average over draws of the noise as in
    ``mannwhitneyu``, with this variance, one scale of its noise added: the law of Gehan's statistic given the
    numbers at risk, whatever censors times in each group. A log-rank test of the table of ``kaplan_meier`` finds
    less at ε = 1: .46 for .97 of 150 rows a group with hazards 1.8 apart, .58 for .81 of 1,000 of which one is
    censored early, and .78 for .74 of 10,000 of which a tenth has an event.
    Where the number of rows times ε is below 100 it is the variance of times none of which is censored, which is
    the largest. The interval for the effect has the same variance at 1/2, and covers if hazards are in proportion.

    References
    ----------
    .. [1] Gehan (1965). A generalized Wilcoxon test for comparing arbitrarily singly-censored samples. Biometrika
       52.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"months": np.r_[np.arange(1000) % 30, np.arange(1000) % 60],
    ...                    "died": [1, 1, 1, 0] * 500, "arm": ["old"] * 1000 + ["new"] * 1000})
    >>> view = dp.protect(df, "survival-test-example", epsilon=1, ledger="memory:", bounds={"months": (0, 60)},
    ...                   categories={"died": [0, 1], "arm": ["new", "old"]})
    >>> view.survival_test("months", "died", by="arm", epsilon=1).pvalue < 0.001
    True
    """
    scores = GehanScores(time, event, curator.gaps([time], nan_policy))
    return measure_two(curator, scores, by, chosen_groups(by, groups))


@survival_test.concludes
def _(
    measured: TwoGroups,
    time: Column,
    event: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None,
    nan_policy: NanPolicy,
    alternative: Alternative = "two-sided",
    alpha: Probability = 0.05,
    confidence: Probability = 0.95,
) -> SurvivalTest:
    """Conclude from the noisy statistic."""
    told = conclude_two(measured, by, chosen_groups(by, groups), alternative, alpha, confidence)
    return SurvivalTest(
        column=time.name,
        bounds=(time.low, time.high),
        event=event.name,
        statistic=None if measured.unsized else 2 * float(measured.rank_sum),
        nan_policy=nan_policy,
        **told,
    )


def check_survival(time: Column, event: Column, by: Column, *, groups: Sequence[Any] | None, **_: Any) -> None:
    """Refuse what is no survival of two groups, before anything is paid."""
    check_times(time, event)
    check_apart(time, event, by)
    chosen_groups(by, groups)
