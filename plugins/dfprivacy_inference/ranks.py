"""``view.mannwhitneyu``, ``view.kruskal`` and ``view.survival_test``: rank tests of groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import Column, Curator, NanPolicy, Probability, mechanism
from dfprivacy.inference.engine import Alternative
from dfprivacy.schema import UNDECLARED, chosen_groups
from dfprivacy_inference.asking import all_categories, check_apart, enough, public_sizes
from dfprivacy_inference.curves import check_times
from dfprivacy_inference.groups import COMPLETE, ENOUGH, SHARE, SIZES, TIES, SeveralGroups, Shapes, TwoGroups
from dfprivacy_inference.rank_results import KruskalWallis, MannWhitney, SurvivalTest, plain
from dfprivacy_inference.statistics import GehanScores, GroupRankSums, MidRanks, RankSum

if TYPE_CHECKING:
    from dfprivacy_inference.statistics import Scores

__all__ = [
    "check_k",
    "check_survival",
    "check_two",
    "conclude_two",
    "kruskal",
    "mannwhitneyu",
    "measure_two",
    "survival_test",
]

_NOISY = 2.0  # times the error of sampling
_ROWS_FOR_COMPLETE = 13  # from which on counting complete rows is free, by the proof


def measure_two(curator: Curator, scores: Scores, by: Column, pair: tuple[Any, ...]) -> TwoGroups:
    """Measure the rank sum of the first of two groups.

    Parameters
    ----------
    curator : Curator
        Who measures.
    scores : Scores
        What is compared.
    by : Column
        The column of the groups.
    pair : tuple of two categories
        The groups.

    Returns
    -------
    TwoGroups
        The noisy numbers.
    """
    codes = (by.code(pair[0]), by.code(pair[1]))
    rows = public_sizes(curator, by, pair)
    n = enough(curator.size if rows is None else sum(rows))
    on = n is not None and n * curator.epsilon >= ENOUGH
    complete = bool(scores.gaps) or (rows is None and not (by.other and all_categories(by, pair)))
    if n is None:  # what ties leave is not measured there
        on, complete = False, False
        parts = {"ties": TIES * (scores.spread == "variance")}
    elif rows is not None:
        parts = {"complete": float(complete), "ties": TIES * on}
    else:
        on = on and (n >= _ROWS_FOR_COMPLETE or not complete)
        complete = on and complete
        parts = {"sizes": SIZES * on, "complete": COMPLETE * complete, "ties": TIES * on}
    known = None if rows is None else (rows[0], rows[1])
    noisy = curator.measure(RankSum(scores, by, codes, n, known, **parts))
    return TwoGroups(
        noisy.values,
        plain(noisy.scales),
        n,
        known,
        sized=on and rows is None,
        complete=complete,
        spread=scores.spread if parts["ties"] else None,
    )


def conclude_two(
    two: TwoGroups,
    by: Column,
    pair: tuple[Any, ...],
    alternative: Alternative,
    alpha: float,
    confidence: float,
    shapes: Shapes = "similar",
) -> dict[str, Any]:
    """Return the fields of a result that all rank tests of two groups have."""
    found = two.effect(shapes)
    p = float(found.pvalue(0.5, alternative))
    low, high = map(float, (0.0, 1.0) if two.unsized else found.interval(confidence))
    effect = float(np.clip(found.estimate, 0.0, 1.0))
    noise, sampling = float(found.noise_standard_error), float(found.sampling_standard_error)
    told = np.nan if two.unsized else 1.0
    missing, error = (two.missing if all_categories(by, pair) else None) or (None, None)
    return {
        "term": f"P({pair[0]} > {pair[1]})",
        "estimate": told * effect,
        "standard_error": told * float(found.standard_error),
        "noise_standard_error": told * noise,
        "low": low,
        "high": high,
        "confidence": confidence,
        "null": 0.5,
        "pvalue": p,
        "alternative": alternative,
        "alpha": alpha,
        "rejected": p <= alpha,
        "n": float(sum(two.sizes)),
        "sizes": None if two.unsized else plain(two.sizes),
        "by": by.name,
        "groups": pair,
        "missing": missing,
        "missing_standard_error": error,
        "shapes": shapes,
        "notes": _notes(two, noise / sampling),
        "released": two.released,
    }


def _notes(two: TwoGroups, times: float) -> tuple[str, ...]:
    """Return notes on a rank test of two groups."""
    notes = []
    if two.unsized:
        notes.append(
            "There is no effect size: the sizes of the groups are private, and are measured only from "
            f"{ENOUGH / (two.n or 1):.2g} of epsilon on. The p-value is conservative unless they are alike."
        )
    elif two.doubtful:
        notes.append(
            f"The size of a group may be mostly noise: the effect and its interval say little. {UNDECLARED}"
        )
    if two.coarse:
        notes.append(
            "Most values are equal, and few others are in the smaller group: the normal law is not good enough for "
            "small p-values. proportions() and chi2() count."
        )
    if times > _NOISY:
        notes.append(
            f"Privacy noise is {times:.2g} times the sampling error. To make them equal: {times:.2g} times the "
            f"epsilon, or {times**2:.2g} times the rows."
        )
    return tuple(notes)


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


@mechanism(columns={"column": "numeric", "by": "category"})
def kruskal(
    curator: Curator,
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    nan_policy: NanPolicy = "omit",
) -> SeveralGroups:
    """Test whether values of some of several groups tend to be larger than those of others.

    Parameters
    ----------
    column : str
        A column with bounds. They may be loose: values count by their order only.
    by : str
        A column with categories.
    groups : list or tuple of categories, optional
        The groups to compare; default: all.
    nan_policy : {"omit", "fill", "raise"}
        As in `mannwhitneyu`.
    alpha : float
        The level at which `rejected` decides.

    Returns
    -------
    KruskalWallis
        With scipy's names: ``statistic``, which is T here, and ``pvalue``.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. T is half the sum of the
    absolute D_j, D_j the rank sum of group j less its mean if all are alike, is the largest rank sum of any groups
    together, and moves by at most n - 1 as each of them does; by n less the smallest group where groups are public,
    and T/n by 1/2 where the number of rows is private. Sizes and ties come with it where n ε is 100 or more, for a
    tenth more noise each.

    **Statistics.** The p-value is that of the law of T for normal rank sums of groups alike, or as alike as the
    noisy sizes allow, with the noise in it. That equal sizes are the worst is proved for two groups, and was
    measured for more. As in `mannwhitneyu`, it is no test of medians. T tells Kruskal's H of two groups
    alone. It is a maximum of sums, of which no parameter is a function: so its law is its own, and no interval
    follows.

    References
    ----------
    .. [1] Couch, Kazan, Shi, Bray and Groce (2019). Differentially private nonparametric hypothesis testing. CCS.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"wage": np.arange(3000) ** 2.0, "region": np.repeat(["n", "m", "s"], 1000)})
    >>> view = dp.protect(df, "kruskal-example", epsilon=1, ledger="memory:",
    ...                   bounds={"wage": (0, 10**9)}, categories={"region": ["n", "m", "s"]})
    >>> view.kruskal("wage", by="region", epsilon=1).pvalue < 0.001
    True
    """
    kept = chosen_groups(by, groups, most=None)
    codes = tuple(by.code(each) for each in kept)
    scores = MidRanks(column, curator.gaps([column], nan_policy))
    rows = public_sizes(curator, by, kept)
    n = enough(curator.size if rows is None else sum(rows))
    on = n is not None and n * curator.epsilon >= ENOUGH
    sizes = (SHARE if on else 0.0) if rows is None else (1.0 if scores.gaps else 0.0)
    statistic = GroupRankSums(scores, by, codes, n, known=rows, sizes=sizes, ties=SHARE if on else 0.0)
    noisy = curator.measure(statistic)
    return SeveralGroups(plain(noisy.values), plain(noisy.scales), n, rows, n is None or sizes > 0, on)


@kruskal.concludes
def _(
    measured: SeveralGroups,
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None,
    nan_policy: NanPolicy,
    alpha: Probability = 0.05,
) -> KruskalWallis:
    """Conclude from the noisy T."""
    kept, counts, p = chosen_groups(by, groups, most=None), measured.counts, measured.pvalue()
    missing = error = None
    if measured.n is not None and counts is not None and all_categories(by, kept):
        missing, error = float(measured.n - counts.sum()), measured.scales[1] * (2 * len(kept)) ** 0.5
    sizes = measured.rows if counts is None else counts
    small = counts is not None and counts.min() < 3 * 2**0.5 * measured.scales[1]
    return KruskalWallis(
        statistic=measured.kruskal_h,
        largest_rank_sum=measured.largest_rank_sum,
        pvalue=p,
        alpha=alpha,
        rejected=p <= alpha,
        sizes=None if sizes is None else plain(sizes),
        missing=missing,
        missing_standard_error=error,
        column=column.name,
        by=by.name,
        groups=kept,
        nan_policy=nan_policy,
        notes=(f"Uninformative: the size of a group may be mostly noise: the p-value says little. {UNDECLARED}",)
        if small
        else (),
        released=plain(measured.values),
        noise_standard_error=plain(np.sqrt(2) * np.array(measured.scales)),
    )


def check_k(column: Column, by: Column, *, groups: Sequence[Any] | None, **_: Any) -> None:
    """Refuse what cannot be compared, before anything is paid."""
    check_apart(column, by)
    chosen_groups(by, groups, most=None)


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
