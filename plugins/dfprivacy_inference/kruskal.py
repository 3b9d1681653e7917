"""``view.kruskal``: a rank test of several groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dfprivacy import Column, Curator, NanPolicy, Probability, mechanism
from dfprivacy.schema import UNDECLARED, chosen_groups
from dfprivacy_inference.asking import all_categories, check_apart, enough, public_sizes
from dfprivacy_inference.k_groups import SHARE, SeveralGroups
from dfprivacy_inference.rank_results import KruskalWallis, plain
from dfprivacy_inference.scores import MidRanks
from dfprivacy_inference.statistics import GroupRankSums
from dfprivacy_inference.two_groups import ENOUGH

__all__ = ["check_k", "kruskal"]


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
