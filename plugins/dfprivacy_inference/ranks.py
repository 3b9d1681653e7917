"""``view.mannwhitneyu``, ``view.kruskal``: rank tests of groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, NanPolicy, Probability, mechanism
from dfprivacy.schema import UNDECLARED
from dfprivacy_inference import k_groups, two_groups
from dfprivacy_inference.asking import check_apart, enough, groups_of, pair_of, public_sizes, whole
from dfprivacy_inference.laws import Alternative
from dfprivacy_inference.rank_results import KruskalWallis, MannWhitney, plain
from dfprivacy_inference.scores import MidRanks
from dfprivacy_inference.statistics import (
    GroupRankSums,
    RankSum,
    RankSumOfKnownGroups,
    RankSumPerRow,
    Shifts,
)
from dfprivacy_inference.two_groups import ENOUGH, Shapes, TwoGroups, coarse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.release import NoisyValue
    from dfprivacy_inference.scores import Scores

__all__ = ["TwoMeasured", "check_k", "check_two", "conclude_two", "kruskal", "mannwhitneyu", "measure_two"]

_SHIFTS_MAX = 10_000
_ROWS_FOR_COMPLETE = 13  # from which on counting complete rows is free, by the proof


@dataclass(frozen=True)
class TwoMeasured:
    """Noisy numbers about two groups, and what they are.

    Attributes
    ----------
    noisy : NoisyValue
        The coordinates of a statistic.
    n : int or None
        Number of rows, None where it is private.
    rows : tuple of two int, or None
        Rows of each group, where they are public.
    sizes, complete, ties : bool
        Which coordinates beyond the first there are.
    shift : float or None
        What was selected from a grid of shifts.
    """

    noisy: NoisyValue
    n: int | None
    rows: tuple[int, int] | None
    sizes: bool = False
    complete: bool = False
    ties: bool = False
    shift: float | None = None


@mechanism(columns={"column": "numeric", "by": "category"})
def mannwhitneyu(
    curator: Curator,
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    shift: Sequence[float] | None = None,
    nan_policy: NanPolicy = "omit",
) -> TwoMeasured:
    """Test whether values of one group tend to be larger than those of another.

    Parameters
    ----------
    column : str
        A column with bounds. They may be loose: values count by their order only.
    by : str
        A column with categories.
    groups : list or tuple of two categories, optional
        The groups to compare, the first with the second; default: the column's, if it has two.
    shift : tuple of three float, optional
        ``(low, high, step)``: estimate as well by how much the first group lies above the second, on this grid. It
        takes half of the budget.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: a row in which `column` is missing is compared with none. ``"fill"``: it counts, with the
        column's fill value. ``"raise"``: it is refused, where `column` is public.
    alternative : {"two-sided", "less", "greater"}
        What is suspected of the first group.
    alpha : float
        The level at which `rejected` decides.
    confidence : float
        Coverage of the interval for the effect.
    shapes : {"any", "similar"}
        What the interval takes the laws of the groups to be: any, or of one shape, which makes it narrower.

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

    **Statistics.** The p-value is that of the normal law with the noise in it, and with the largest variance that
    sizes and ties can have: exact for large groups alike and without ties, conservative else, and more so where
    sizes are not measured. It is a test of one law in both groups, not of medians: where spreads differ and the
    smaller group has the larger one, it rejects too often, as it does without privacy. The interval for the effect
    holds for any two laws.

    References
    ----------
    .. [1] Couch, Kazan, Shi, Bray and Groce (2019). Differentially private nonparametric hypothesis testing. CCS.
    .. [2] Birnbaum and Klose (1957). Bounds for the variance of the Mann-Whitney statistic. Annals of Mathematical
       Statistics 28.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"wage": np.arange(2000) ** 2.0, "union": ["no"] * 1000 + ["yes"] * 1000})
    >>> view = dp.protect(df, "mannwhitneyu-example", epsilon=1, ledger="memory:",
    ...                   bounds={"wage": (0, 10**9)}, categories={"union": ["yes", "no"]})
    >>> view.mannwhitneyu("wage", by="union", epsilon=1).pvalue < 0.001
    True
    """
    pair = pair_of(by, groups)
    scores = MidRanks(column, curator.gaps([column], nan_policy))
    share = None if shift is None else Fraction(1, 2)
    measured = measure_two(curator, scores, by, pair, share=share, ties=True)
    if shift is None:
        return measured
    codes = (by.code(pair[0]), by.code(pair[1]))
    grid = _grid(shift)
    best = curator.select(Shifts(scores, by, codes, grid, measured.n, measured.rows))
    return TwoMeasured(**{**vars(measured), "shift": float(grid[int(np.ravel(best)[0])])})


@mannwhitneyu.concludes
def _(
    measured: TwoMeasured,
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None,
    nan_policy: NanPolicy,
    alternative: Alternative = "two-sided",
    alpha: Probability = 0.05,
    confidence: Probability = 0.95,
    shapes: Shapes = "any",
) -> MannWhitney:
    """Conclude from the noisy rank sum."""
    pair = pair_of(by, groups)
    said = conclude_two(measured, by, pair, alternative, alpha, confidence, shapes)
    two, sizes = said.pop("two"), said["sizes"]
    statistic = None if sizes is None else float(two.rank_sum) + sizes[0] * sizes[1] / 2
    return MannWhitney(
        column=column.name, by=by.name, statistic=statistic, shift=measured.shift, nan_policy=nan_policy, **said
    )


def measure_two(
    curator: Curator,
    scores: Scores,
    by: Column,
    pair: tuple[Any, Any],
    *,
    share: Fraction | None = None,
    ties: bool,
) -> TwoMeasured:
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
    share : Fraction, optional
        The part of the call's budget.
    ties : bool
        Whether to measure ties, if there is enough budget for it.

    Returns
    -------
    TwoMeasured
        The noisy numbers.
    """
    codes = (by.code(pair[0]), by.code(pair[1]))
    rows = public_sizes(curator, by, pair)
    n = enough(curator.size if rows is None else sum(rows))
    if n is None:
        noisy = curator.measure(RankSumPerRow(scores, by, codes), share=share)
        return TwoMeasured(noisy, None, None)
    on = n * curator.epsilon * float(share or 1) >= ENOUGH
    ties = ties and on
    told = two_groups.TIES if ties else 0.0
    if rows is not None:
        complete = bool(scores.gaps)
        known = (rows[0], rows[1])
        noisy = curator.measure(
            RankSumOfKnownGroups(scores, by, codes, known, complete=complete, ties=told), share=share
        )
        return TwoMeasured(noisy, n, known, complete=complete, ties=ties)
    complete = bool(scores.gaps) or not (by.other and whole(by, pair))
    on = on and (n >= _ROWS_FOR_COMPLETE or not complete)
    statistic = RankSum(
        scores,
        by,
        codes,
        n,
        sizes=two_groups.SIZES if on else 0.0,
        complete=two_groups.COMPLETE if on and complete else 0.0,
        ties=told if on else 0.0,
    )
    return TwoMeasured(
        curator.measure(statistic, share=share), n, None, sizes=on, complete=on and complete, ties=ties and on
    )


def two_of(measured: TwoMeasured) -> TwoGroups:
    """Read what was measured."""
    values, scales = list(measured.noisy.values), [float(scale) for scale in measured.noisy.scales]
    if measured.n is None:
        return two_groups.per_row(values, scales)
    if measured.rows is not None:
        return two_groups.known_groups(
            values, scales, measured.rows, complete=measured.complete, ties=measured.ties
        )
    return two_groups.tapered(
        values, scales, measured.n, sizes=measured.sizes, complete=measured.complete, ties=measured.ties
    )


def conclude_two(
    measured: TwoMeasured,
    by: Column,
    pair: tuple[Any, Any],
    alternative: Alternative,
    alpha: float,
    confidence: float,
    shapes: Shapes,
) -> dict[str, Any]:
    """Give the fields of a result that all tests of two groups have, and what they follow from as ``"two"``."""
    two = two_of(measured)
    p = float(two.pvalue(alternative))
    ends = two.interval(confidence, shapes)
    missing = error = None
    if measured.n is not None and measured.complete and whole(by, pair):
        scales, values = measured.noisy.scales, measured.noisy.values
        counted, noise = (
            (values[2], scales[2]) if measured.rows is None else (values[1:3].sum(), scales[1] * 2**0.5)
        )
        missing, error = float(measured.n - counted), float(2**0.5 * noise)
    return {
        "two": two,
        "pvalue": p,
        "alpha": alpha,
        "rejected": p <= alpha,
        "effect": None if two.effect is None else float(two.effect),
        "low": None if ends is None else float(ends[0]),
        "high": None if ends is None else float(ends[1]),
        "confidence": confidence,
        "sizes": None if two.sizes is None else plain(two.sizes),
        "groups": pair,
        "alternative": alternative,
        "missing": missing,
        "missing_standard_error": error,
        "notes": _notes(two, measured),
        "released": plain(measured.noisy.values),
        "noise_standard_error": plain(np.sqrt(2) * measured.noisy.scales),
    }


def _notes(two: TwoGroups, measured: TwoMeasured) -> tuple[str, ...]:
    """Say what to know about a test of two groups."""
    notes = []
    if two.sizes is None:
        notes.append(
            "There is no effect size: the sizes of the groups are private, and are measured only from "
            f"{ENOUGH / (measured.n or 1):.2g} of epsilon on. The p-value is conservative unless they are alike."
        )
    elif measured.rows is None and min(float(each) for each in two.sizes) < _doubtful(measured):
        notes.append(
            f"The size of a group may be mostly noise: the effect and its interval say little. {UNDECLARED}"
        )
    if measured.ties and bool(coarse(two, measured.noisy.values[3])):
        notes.append(
            "Most values are equal, and few others are in the smaller group: the normal law is not good enough for "
            "small p-values. proportions() and chi2() count."
        )
    times = float(2**0.5 * two.statistic_scale / two.statistic_sd)
    if times > 2:  # noqa: PLR2004
        notes.append(
            f"The noise is {times:.2g} times the error of sampling; {times:.2g} times the epsilon, or "
            f"{times**2:.2g} times the rows, would level them."
        )
    return tuple(notes)


def _doubtful(measured: TwoMeasured) -> float:
    """Give the size below which a noisy size is mostly noise."""
    return float(3 * 2**0.5 * measured.noisy.scales[1])


def _grid(shift: Sequence[float]) -> NDArray[np.float64]:
    low, high, step = shift
    return np.asarray(low + step * np.arange(int(np.floor((high - low) / step + 1e-9)) + 1), dtype=np.float64)


def check_two(
    column: Column, by: Column, *, groups: Sequence[Any] | None, shift: Sequence[float] | None, **_: Any
) -> None:
    """Refuse what cannot be compared, before anything is paid."""
    check_apart(column, by)
    pair_of(by, groups)
    if shift is None:
        return
    try:
        low, high, step = (float(each) for each in shift)
    except (TypeError, ValueError):
        raise ArgumentError(f"shift={shift!r} is no grid.", "Give (low, high, step).") from None
    if not (np.isfinite([low, high, step]).all() and low < high and 0 < step <= high - low):
        raise ArgumentError(f"shift={shift!r} is no grid.", "Give (low, high, step), the first below the second.")
    if (high - low) / step > _SHIFTS_MAX:
        raise ArgumentError(
            f"shift={shift!r} is a grid of more than {_SHIFTS_MAX} shifts.", "Give a larger step, or nearer ends."
        )


@mechanism(columns={"column": "numeric", "by": "category"})
def kruskal(
    curator: Curator,
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    nan_policy: NanPolicy = "omit",
) -> tuple[NoisyValue, int | None, tuple[int, ...] | None, tuple[bool, bool]]:
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
        With scipy's names: ``statistic``, which is not Kruskal's H, and ``pvalue``.

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
    measured for more. As in `mannwhitneyu`, it is no test of medians.

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
    kept = groups_of(by, groups)
    codes = tuple(by.code(each) for each in kept)
    scores = MidRanks(column, curator.gaps([column], nan_policy))
    rows = public_sizes(curator, by, kept)
    n = enough(curator.size if rows is None else sum(rows))
    on = n is not None and n * curator.epsilon >= ENOUGH
    share = k_groups.SHARE
    sizes = (share if on else 0.0) if rows is None else (1.0 if scores.gaps else 0.0)
    statistic = GroupRankSums(scores, by, codes, n, known=rows, sizes=sizes, ties=share if on else 0.0)
    return curator.measure(statistic), n, rows, (n is None or sizes > 0, on)


@kruskal.concludes
def _(
    measured: tuple[NoisyValue, int | None, tuple[int, ...] | None, tuple[bool, bool]],
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None,
    nan_policy: NanPolicy,
    alpha: Probability = 0.05,
) -> KruskalWallis:
    """Conclude from the noisy T."""
    noisy, n, rows, (told, ties) = measured
    kept = groups_of(by, groups)
    values, scales = plain(noisy.values), plain(noisy.scales)
    whole_, shares, tau, counts = k_groups.known_sizes(values, scales, len(kept), n, rows, sizes=told, ties=ties)
    t, scale = (values[0], scales[0]) if n is not None else (values[0] * whole_, scales[0] * whole_)
    p = k_groups.pvalue_of_t(t, scale, whole_, shares, tau)
    missing = error = None
    if n is not None and counts is not None and whole(by, kept):
        missing, error = float(n - counts.sum()), float(scales[1] * np.sqrt(2 * len(kept)))
    sizes = rows if counts is None else counts
    small = counts is not None and counts.min() < 3 * 2**0.5 * scales[1]
    return KruskalWallis(
        statistic=t,
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
        notes=(f"The size of a group may be mostly noise: the p-value says little. {UNDECLARED}",) if small else (),
        released=values,
        noise_standard_error=plain(np.sqrt(2) * np.array(scales)),
    )


def check_k(column: Column, by: Column, *, groups: Sequence[Any] | None, **_: Any) -> None:
    """Refuse what cannot be compared, before anything is paid."""
    check_apart(column, by)
    groups_of(by, groups)
