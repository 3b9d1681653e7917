"""``view.mannwhitneyu``, ``view.kruskal`` and ``view.survival_test``: rank tests of groups of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from dfprivacy import Column, Curator, NanPolicy, Probability, Release, mechanism
from dfprivacy.estimates import Estimate, inference_fields
from dfprivacy.inference.engine import Alternative
from dfprivacy.inference.planning import smallest_effect
from dfprivacy.plotting import axes, legend_below, text_color, wrap_label
from dfprivacy.schema import UNDECLARED, chosen_groups
from dfprivacy.wording import number, pvalue, uncertainty
from dfprivacy_inference.anova import check_anova, draw_descending_means
from dfprivacy_inference.asking import (
    are_all_categories,
    assumed_rows,
    check_distinct_columns,
    checked_rows,
    public_sizes,
)
from dfprivacy_inference.curves import check_times
from dfprivacy_inference.groups import COMPLETE, ENOUGH, SHARE, SIZES, TIES, SeveralGroups, Shapes, TwoGroups
from dfprivacy_inference.statistics import GehanScores, GroupRankSums, MidRanks, RankSum
from dfprivacy_inference.survival import draw_times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dfprivacy_inference.statistics import Scores

__all__ = [
    "LAST",
    "SIDES",
    "KruskalWallis",
    "MannWhitney",
    "SurvivalTest",
    "TestWithoutInterval",
    "float_tuple",
    "kruskal",
    "mannwhitneyu",
    "rank_planner",
    "survival_test",
]

LAST = ("missing", "missing_standard_error", "notes")
SIDES = {"two-sided": "different from", "greater": "above", "less": "below"}
_MAX_EFFECT = 1 - 1e-6  # of an effect
_NOISE_RATIO = 2.0  # times the error of sampling
_ROWS_FOR_COMPLETE = 13  # from which on counting complete rows is free, by the proof


@dataclass(frozen=True, kw_only=True, repr=False)
class RankTest(Estimate):
    """Result of a private rank test of two groups, as `dfprivacy.estimates.Estimate`.

    Attributes
    ----------
    estimate : float
        Common-language effect: P(X > Y) + P(X = Y)/2 for X of the first group and Y of the second; NaN where the
        sizes of the groups were not measured.
    statistic : float or None
        U of the first group, with noise: in how many pairs its value is the larger one, half for ties. Of censored
        times Gehan's: in how many pairs the one of the first group surely lived longer, less those in which the
        other did. None where the sizes of the groups were not measured.
    pvalue : float
        Probability, if both groups follow one law, of a rank sum at least as extreme; noise included.
    sizes : tuple of float or None
        Rows with a value in each group; noisy where they are private.
    missing : float or None
        Noisy number of rows in neither group or without a value; None where it is not known.
    missing_standard_error : float or None
        Its standard error, from noise alone.
    by, groups, shapes
        As asked.
    """

    statistic: float | None
    sizes: tuple[float, ...] | None
    missing: float | None
    missing_standard_error: float | None
    by: str
    groups: tuple[Any, ...]
    shapes: Shapes

    _row_counts = ("n", "sizes")
    _replicates = Release._replicates  # noqa: SLF001 - there are no moments

    @property
    def effect(self) -> float | None:
        """Estimated effect P(X > Y) + P(X = Y)/2; None if the group sizes were not measured."""
        return None if math.isnan(self.estimate) else self.estimate

    @property
    def rank_biserial(self) -> float | None:
        """Rank-biserial correlation, 2 * effect - 1; None if the group sizes were not measured."""
        return None if self.effect is None else 2 * self.effect - 1

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        known = ("statistic", "effect", "low", "high") if self.effect is not None else ()
        return (*known, "pvalue", "alpha", "rejected", "groups", "sizes", *LAST)

    @property
    def _variable_words(self) -> str:
        """Printed name of the variable whose values are compared."""
        return self._label(self.column)

    def _sentence(self) -> str:
        """Write a sentence on how often a value of the first group is larger, and the result of the test."""
        first, second = self.groups
        found = f"{'' if self.rejected else 'not '}shown to be {SIDES[self.alternative]} 50%"
        one = f"the {self._variable_words} for {self._label(self.by)} = {first} is larger than that for {second}"
        if self.effect is None:
            return f"The share of pairs in which {one} is {found}{uncertainty(p=self.pvalue)}."
        low, high, share, error = (100 * x for x in (self.low, self.high, self.effect, self.standard_error))
        how = uncertainty(low, high, self.confidence, unit="%", noise=self._noise_part, p=self.pvalue)
        return f"In {number(share, error)}% of pairs {one}, {found}{how}."

    @property
    def _uninformative(self) -> bool:
        return (self.effect is not None and (self.low, self.high) == (0.0, 1.0)) or super()._uninformative

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the effect and its test as a row of a tidy table."""
        (row,) = super()._tidy()
        n = None if self.sizes is None else self.n
        return [{**row, "term": self.term, "estimate": self.effect, "statistic": self.statistic, "n": n}]

    def _interval(self, level: float) -> tuple[Any, Any]:
        if self.effect is None:
            return self.low, self.high
        two = TwoGroups(**{**self.released, "values": np.array(self.released["values"])})
        return two.effect(self.shapes).interval(level, self.alternative)

    def plot(self, ax: Any = None) -> Any:
        """Draw the effect and its interval, from 0 to 1."""
        ax = super().plot(ax)
        what = f"{self.term}, {self._with_units(self.column)} by {self._with_units(self.by)}"
        ax.set(xlim=(0, 1), xlabel=wrap_label(what), title=f"p = {self.pvalue:.3g}")
        return ax


@dataclass(frozen=True, kw_only=True, repr=False)
class MannWhitney(RankTest):
    """Result of a private Mann-Whitney U test, with the attributes of ``RankTest``."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SurvivalTest(RankTest):
    """Result of a private Gehan-Wilcoxon test of two survival curves, with the attributes of ``RankTest``.

    Attributes
    ----------
    estimate : float
        Probability that one of the first group surely lives longer than one of the second, and half of that nobody
        can tell which; censoring draws it towards 1/2.
    event : str
        As asked.
    """

    event: str

    @property
    def _variable_words(self) -> str:
        return f"{self._label(self.column)} until {self._label(self.event)}"


@dataclass(frozen=True, kw_only=True, repr=False)
class TestWithoutInterval(Release):
    """Result of a test without a confidence interval."""

    pvalue: float
    alpha: float
    rejected: bool
    missing: float | None
    missing_standard_error: float | None
    column: str
    nan_policy: NanPolicy
    notes: tuple[str, ...]
    released: tuple[float, ...]
    noise_standard_error: tuple[float, ...]

    @property
    def _plotted_statistic(self) -> tuple[float, float, str]:
        """Statistic that the plot shows, the standard error of its noise, and its name."""
        raise NotImplementedError

    def plot(self, ax: Any = None) -> Any:
        """Draw the test statistic with two standard errors of its noise."""
        ax, (value, noise, what) = axes(ax), self._plotted_statistic
        ends = [value - 2 * noise, value + 2 * noise]
        ax.plot(ends, [0, 0], color="tab:orange", lw=3, label="± 2 standard errors of the noise" * (noise > 0))
        ax.plot(value, 0, "o", color=text_color(ax), label="released")
        ax.set(yticks=[], xlabel=wrap_label(what, 56), title=f"p = {self.pvalue:.3g}")
        legend_below(ax)
        return ax


@dataclass(frozen=True, kw_only=True, repr=False)
class KruskalWallis(TestWithoutInterval):
    """Result of a private rank test of several groups.

    Attributes
    ----------
    statistic : float or None
        Kruskal's H of two groups, what the noise adds taken away. None for more groups: T does not tell H then.
    largest_rank_sum : float
        T with noise: half the sum of the absolute D_j, D_j the rank sum of group j less what it is on average if
        all are alike: the largest rank sum of any groups together. The test is of T.
    pvalue : float
        Probability, if all groups follow one law, of a T at least as large; noise included.
    alpha : float
        The level of the test.
    rejected : bool
        Whether the null hypothesis is rejected at that level.
    sizes : tuple of float or None
        Rows with a value in each group; noisy where they are private. None where they were not measured.
    missing, missing_standard_error
        As for ``RankTest``.
    column, by, groups, nan_policy
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers.
    released : tuple of float
        The noisy numbers that all this follows from.
    noise_standard_error : tuple of float
        The standard errors that privacy adds to each of them.
    """

    statistic: float | None
    largest_rank_sum: float
    sizes: tuple[float, ...] | None
    by: str
    groups: tuple[Any, ...]

    _row_counts = ("sizes",)
    _shown = ("statistic", "largest_rank_sum", "pvalue", "alpha", "rejected", "groups", "sizes", *LAST)

    @property
    def _plotted_statistic(self) -> tuple[float, float, str]:
        column, by = self._with_units(self.column), self._with_units(self.by)
        what = f"T, largest rank sum of {column} in any union of groups by {by}"
        return self.largest_rank_sum, self.noise_standard_error[0], what

    def _sentence(self) -> str:
        """Write a sentence on whether the groups differ; their difference is not estimated."""
        found = "differs" if self.rejected else "is not shown to differ"
        what = f"{self._label(self.column)} {found} between {len(self.groups)} groups of {self._label(self.by)}"
        return f"{what} ({pvalue(self.pvalue)}); the size of the difference is not estimated."

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the test statistic and its p-value as a row of a tidy table, without an effect size."""
        n = None if self.sizes is None else sum(self.sizes)
        term = f"{self.column} by {self.by}"
        return [{"term": term, "statistic": self.statistic, "pvalue": self.pvalue, "n": n}]


def measure_rank_sum(curator: Curator, scores: Scores, by: Column, pair: tuple[Any, ...]) -> TwoGroups:
    """Measure, with noise, the rank sum of the first of two groups, the group sizes and the amount of ties.

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
    n = checked_rows(curator.size if rows is None else sum(rows))
    on = n is not None and n * curator.epsilon >= ENOUGH
    complete = bool(scores.gaps) or (rows is None and not (by.other and are_all_categories(by, pair)))
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
        float_tuple(noisy.scales),
        n,
        known,
        sized=on and rows is None,
        complete=complete,
        spread=scores.spread if parts["ties"] else None,
    )


def rank_test_fields(
    two: TwoGroups,
    by: Column,
    pair: tuple[Any, ...],
    alternative: Alternative,
    alpha: float,
    confidence: float,
    shapes: Shapes = "similar",
) -> dict[str, Any]:
    """Return the result fields of a rank test of two groups, computed from the noisy rank sum."""
    found = two.effect(shapes)
    times = float(found.noise_standard_error / found.sampling_standard_error)
    low, high = (0.0, 1.0) if two.lacks_sizes else found.interval(confidence, alternative)
    told = inference_fields(found, 0.5, alternative, alpha, confidence) | {"low": float(low), "high": float(high)}
    told["estimate"] = min(max(told["estimate"], 0.0), 1.0)
    if two.lacks_sizes:
        told |= dict.fromkeys(("estimate", "standard_error", "noise_standard_error"), math.nan)
    missing, error = (two.missing if are_all_categories(by, pair) else None) or (None, None)
    return {
        **told,
        "term": f"P({pair[0]} > {pair[1]})",
        "n": float(sum(two.sizes)),
        "sizes": None if two.lacks_sizes else float_tuple(two.sizes),
        "by": by.name,
        "groups": pair,
        "missing": missing,
        "missing_standard_error": error,
        "shapes": shapes,
        "notes": _notes(two, times),
        "released": two.released,
    }


def _notes(two: TwoGroups, times: float) -> tuple[str, ...]:
    """Return notes on the reliability of a rank test of two groups."""
    notes = []
    if two.lacks_sizes:
        notes.append(
            "There is no effect size: the group sizes are private, and are measured only if epsilon is at least "
            f"{ENOUGH / (two.n or 1):.2g}. The p-value is conservative unless the sizes are equal."
        )
    elif two.has_uncertain_sizes:
        notes.append(f"A group size is not clearly above its noise: the effect is unreliable. {UNDECLARED}")
    if two.has_mostly_ties:
        notes.append(
            "Most values are equal, and few others are in the smaller group: the normal approximation is not "
            "accurate for small p-values. Use proportions() or chi2() instead."
        )
    if times > _NOISE_RATIO:
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
    """Test whether the values of one group tend to be larger than the values of another group.

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
    the number of rows is private, D/n by 1/2 if rows come and go, by 1 if they change, and sizes take a tenth. All
    else is post-processing.

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
    return measure_rank_sum(curator, scores, by, pair)


@mannwhitneyu.concludes
def conclude_mannwhitneyu(
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
    """Compute the result of the Mann-Whitney U test from the noisy rank sum."""
    told = rank_test_fields(measured, by, chosen_groups(by, groups), alternative, alpha, confidence, shapes)
    first, second = measured.sizes
    return MannWhitney(
        column=column.name,
        bounds=(column.low, column.high),
        statistic=None if measured.lacks_sizes else float(measured.rank_sum + first * second / 2),
        nan_policy=nan_policy,
        **told,
    )


def check_two_groups(column: Column, by: Column, *, groups: Sequence[Any] | None, **_: Any) -> None:
    """Check the arguments of a rank test before anything is charged."""
    check_distinct_columns(column, by)
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
    """Test whether the values of some groups tend to be larger than those of others (a Kruskal-Wallis-type test).

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
    and T/n by 1/2 where the number of rows is private, or by 1 if a row changes there. Sizes and ties come with it
    where n ε is 100 or more, for a tenth more noise each.

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
    n = checked_rows(curator.size if rows is None else sum(rows))
    on = n is not None and n * curator.epsilon >= ENOUGH
    sizes = (SHARE if on else 0.0) if rows is None else (1.0 if scores.gaps else 0.0)
    statistic = GroupRankSums(scores, by, codes, n, known=rows, sizes=sizes, ties=SHARE if on else 0.0)
    noisy = curator.measure(statistic)
    return SeveralGroups(float_tuple(noisy.values), float_tuple(noisy.scales), n, rows, n is None or sizes > 0, on)


@kruskal.concludes
def conclude_kruskal(
    measured: SeveralGroups,
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None,
    nan_policy: NanPolicy,
    alpha: Probability = 0.05,
) -> KruskalWallis:
    """Compute the result of the test from the noisy rank sum T, the largest of all unions of groups."""
    kept, counts, p = chosen_groups(by, groups, most=None), measured.counts, measured.pvalue()
    missing = error = None
    if measured.n is not None and counts is not None and are_all_categories(by, kept):
        missing, error = float(measured.n - counts.sum()), measured.scales[1] * (2 * len(kept)) ** 0.5
    sizes = measured.rows if counts is None else counts
    small = counts is not None and counts.min() < 3 * 2**0.5 * measured.scales[1]
    return KruskalWallis(
        statistic=measured.kruskal_h,
        largest_rank_sum=measured.largest_rank_sum,
        pvalue=p,
        alpha=alpha,
        rejected=p <= alpha,
        sizes=None if sizes is None else float_tuple(sizes),
        missing=missing,
        missing_standard_error=error,
        column=column.name,
        by=by.name,
        groups=kept,
        nan_policy=nan_policy,
        notes=(f"Uninformative: the size of a group may be mostly noise. Do not trust the p-value. {UNDECLARED}",)
        if small
        else (),
        released=float_tuple(measured.values),
        noise_standard_error=float_tuple(np.sqrt(2) * np.array(measured.scales)),
    )


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
    """Test whether the rows of one group tend to survive longer than the other group's (Gehan-Wilcoxon).

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
    return measure_rank_sum(curator, scores, by, chosen_groups(by, groups))


@survival_test.concludes
def conclude_survival_test(
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
    """Compute the result of the survival test from the noisy sum of Gehan's scores."""
    told = rank_test_fields(measured, by, chosen_groups(by, groups), alternative, alpha, confidence)
    return SurvivalTest(
        column=time.name,
        bounds=(time.low, time.high),
        event=event.name,
        statistic=None if measured.lacks_sizes else 2 * float(measured.rank_sum),
        nan_policy=nan_policy,
        **told,
    )


def check_survival(time: Column, event: Column, by: Column, *, groups: Sequence[Any] | None, **_: Any) -> None:
    """Check the arguments of `survival_test` before anything is charged."""
    check_times(time, event)
    check_distinct_columns(time, event, by)
    chosen_groups(by, groups)


def rank_planner(
    effect: str, also: Callable[[Any, float], str] = lambda _, __: ""
) -> Callable[..., Mapping[str, Any]]:
    """Return a function that plans a rank test: it predicts the smallest detectable effect.

    Parameters
    ----------
    effect : str
        Names the effect.
    also : callable
        Says more, of the measurement to come and the smallest effect that is found.

    Returns
    -------
    callable
        Says which effect would be found. How far an estimate lies from the truth is not said as a relative error,
        which a probability does not have.
    """

    def plan(
        curator: Curator, *, alpha: float, alternative: Alternative = "two-sided", **_: Any
    ) -> Mapping[str, Any]:
        sums, (rows, given) = curator.planned, assumed_rows(curator)
        side = "two-sided" if alternative == "two-sided" else "greater"
        return smallest_effect(
            effect,
            lambda d: sums.power(rows, 0.5 + d, alpha, side),
            _MAX_EFFECT - 0.5,
            given=f"{given}, at best",
            write=lambda d: f"{0.5 + d:.2f}{also(sums, 0.5 + d)}",
        )

    return plan


def distance_text(_: object, effect: float) -> str:
    """Return a phrase that expresses an effect P(X > Y) as the distance of two normal distributions."""
    return f", normal groups {2**0.5 * ndtri(effect):.2g} standard deviations apart"


def hazard_ratio_text(_: object, effect: float) -> str:
    """Return a phrase that expresses an effect P(X > Y) as the hazard ratio of two exponential laws."""
    return f", a hazard ratio of {effect / (1 - effect):.2g} where no time is censored"


def float_tuple(values: Any) -> tuple[float, ...]:
    """Return an array as a tuple of floats."""
    return tuple(float(each) for each in np.ravel(values))


mannwhitneyu = (
    mannwhitneyu.checks(check_two_groups)
    .plans(rank_planner("effect P(X > Y)", distance_text))
    .assumes(draw_descending_means)
)
kruskal = (
    kruskal.checks(check_anova)
    .plans(rank_planner("effect P(X > Y) of one group over all others"))
    .assumes(draw_descending_means)
)
survival_test = (
    survival_test.checks(check_survival).plans(rank_planner("effect", hazard_ratio_text)).assumes(draw_times)
)
