"""``view.kernel_two_sample``: do two groups of rows, or two tables, come from one distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dfprivacy import NanPolicy, Probability, Range, mechanism
from dfprivacy.schema import chosen_groups
from dfprivacy_kernel.asking import check_groups, check_method, column_of
from dfprivacy_kernel.concluding import Comparison, Decision, Evidence, conclude_test
from dfprivacy_kernel.design import Count, Design, Mismatch
from dfprivacy_kernel.embedding import Features
from dfprivacy_kernel.groups import Groups
from dfprivacy_kernel.mmd import SHARE, SHARE_FUSED, Measured, MeasuredPairs, critical_values, share_interval
from dfprivacy_kernel.moments import Contrast, Differences, Party, Summaries
from dfprivacy_kernel.pairs import Flipped, PairedSeparation, PairedSpread, PairedSummary
from dfprivacy_kernel.permutations import Rearranged, Whitened
from dfprivacy_kernel.printed import Printed, Variant, measure_printed
from dfprivacy_kernel.results import KernelTest, Method
from dfprivacy_kernel.sampling import share_of
from dfprivacy_kernel.statistics import Separation, Spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy import Column, Curator

__all__ = ["findings", "kernel_two_sample"]

_LOCATIONS: Mapping[str, int] = {"mmd": 200, "permutation": 200, "whitened": 30, "moments": 5}


@mechanism(
    columns={"columns": ["numeric"], "categories": ["category"], "by": "category", "other": "view"},
    delta=True,
    renamed={"bandwidth": "lengthscale"},
)
def kernel_two_sample(
    curator: Curator,
    columns: Sequence[Column],
    by: Column | None = None,
    *,
    groups: Sequence[Any] | None = None,
    other: Column | None = None,
    method: Method = "mmd",
    features: Features | None = None,
    alpha: Probability = 0.05,
    lengthscale: float | Sequence[float] | str | None = None,
    locations: Sequence[Any] | None = None,
    n_locations: Count | None = None,
    n_permutations: Count = 499,
    paired: bool = False,
    local: bool = False,
    variant: Variant | None = None,
    gamma: Annotated[float, Range(0, exclusive="low")] | None = None,
    categories: Sequence[Column] | None = None,
    mismatch: Mismatch = 0.5,
    pvalue: bool = False,
    nan_policy: NanPolicy = "omit",
) -> tuple[Comparison, Evidence]:
    r"""Test whether the rows of two groups, or of two tables, come from one distribution.

    Parameters
    ----------
    columns : list of str
        Columns with bounds: what makes a row. Numbers are clipped to them.
    by : str, optional
        The column of the groups.
    groups : list or tuple of two categories, optional
        The groups to compare; default: the column's, if it has two.
    other : view, optional
        In place of `by`: the view of another data set. Both accounts pay, or neither.
    method : {"mmd", "permutation", "moments", "whitened"}
        ``"mmd"``: p-value, estimate and interval from one release. ``"permutation"``: the permutation test [2]_, of
        exact level; a decision only. ``"moments"``: p-value, and differences at a few locations [1]_.
        ``"whitened"``: the permutation test with a whitened statistic; a decision only. All but the first need
        groups that are public, or two tables.
    features : {"nystrom", "me", "scf"}, optional
        What represents the kernel: its projection to the span of landmarks, its values at locations, or cosines and
        sines. Default: ``"me"`` for moments, else ``"nystrom"``.
    alpha : float
        Level of the decision.
    lengthscale : float, list of float, "robust" or None
        Of the kernel exp(-d²/lengthscale²), in sixths of the bounds' widths; default: the root of the number of
        numeric columns. ``"robust"``: the mean of two kernels. A list: the test takes the one that shows most
        (``"mmd"``).
    locations : list of rows, optional
        Public landmarks, or locations.
    n_locations : int, optional
        How many are made where none are given. Default: 200; 30 for ``"whitened"``, 5 for ``"moments"``.
    n_permutations : int
        Relabellings of the permutation tests.
    paired : bool
        With `other`: whether the i-th rows of the two tables are one person's, who is protected in both.
    local : bool
        For ``"moments"``: whether each group speaks for itself, as `kernel_message` does.
    variant : {"tcmc", "nte"}, optional
        For ``"moments"``: the reference's tests as printed, with kernel values or cosines and sines. ``"tcmc"``:
        mean and second moment of the differences of n pairs of rows, in their order, in groups of one size, by a
        trusted curator; ``"nte"``: of each group, for itself. For comparisons: they are noisier, and their p-values
        can be too small.
    gamma : float, optional
        For ``"whitened"``: the ridge that is added to the covariance. Default: as little as leaves the noise small.
    categories : list of str, optional
        Columns with categories that make a row too.
    mismatch : float
        What a different category leaves of the kernel, in [0, 1).
    pvalue : bool
        Whether the permutation test releases its p-value, with twice the noise.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows in which a value that is compared is missing. ``"omit"``: they are left out; which rows
        those are is private where a column is, and so is then how many are compared. ``"fill"``: the fill value of
        the column, counted as data. ``"raise"``: they are refused, of public columns.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    KernelTest
        The result.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If an account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation, also where one row can change
    its group (``"mmd"``); for ``"moments"``, (ε, δ). Landmarks, lengthscales and scales come from arguments and
    bounds only. Of two tables, neighbours differ in one row of one of them; paired, in one person, who is in both.
    Where rows with a missing value are left out, that a row is complete is as private as its values.

    **Statistics.** The level of the permutation tests is exact. That of the others is asymptotic, and was measured.
    To keep private which rows are complete costs ``"mmd"`` little where the groups are public, ``"moments"`` next
    to nothing, and the permutation tests a factor in the noise that is 2 for groups of equal size: if no value is
    missing, say ``nan_policy="fill"`` there. They do not measure how many are missing. The chi-squared statistic of
    the reference is not offered: its printed sensitivity is too small.

    References
    ----------
    .. [1] A. Raj, H. C. L. Law, D. Sejdinovic, M. Park. A differentially private kernel two-sample test. ECML 2019.
    .. [2] I. Kim, A. Schrab. Differentially private permutation tests. arXiv:2310.19043, 2023.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> rng = np.random.default_rng(1)
    >>> df = pd.DataFrame({"x": rng.normal(size=4000), "y": rng.normal(size=4000), "arm": ["a", "b"] * 2000})
    >>> df.loc[df.arm == "b", "x"] *= 2
    >>> view = dp.protect(df, "kernel-example", epsilon=2, ledger="memory:",
    ...                   bounds={"x": (-5, 5), "y": (-5, 5)}, categories={"arm": ["a", "b"]}, public=["arm"])
    >>> view.kernel_two_sample(["x", "y"], by="arm", epsilon=1).pvalue < 0.01
    True
    """
    column = column_of(by, other, paired=paired)
    first, second = chosen_groups(column, groups)
    check_method(
        method,
        paired=paired,
        local=local,
        pvalue=pvalue,
        permutations=n_permutations,
        alpha=alpha,
        variant=variant,
        features=features,
        gamma=gamma,
    )
    design = Design.read(
        (*columns, *(categories or ())),
        features or ("me" if method == "moments" else "nystrom"),
        lengthscale,
        mismatch,
        locations,
        _LOCATIONS[method] if n_locations is None else n_locations,
    )
    compared = Groups.of(curator, column, (first, second), design.columns, nan_policy, paired=paired)
    check_groups(compared, design, method, paired=paired, variant=variant)
    comparison = Comparison(design, compared, alpha)
    if method == "moments":
        return _moments(curator, comparison, local=local, paired=paired, variant=variant)
    if method == "mmd":
        return comparison, (_paired_mmd if paired else _mmd)(curator, design, compared)
    statistic: Rearranged | Flipped
    if paired:
        rows, _ = compared.rows or (0, 0)
        statistic = Flipped(column, design.embedding(), rows, n_permutations, compared.given)
    elif method == "whitened":
        statistic = Whitened(compared, design.embedding(), n_permutations, curator.epsilon, gamma)
    else:
        statistic = Rearranged(compared, design.embedding(), n_permutations)
    p = curator.permutation_test(statistic) if pvalue else None
    rejected = curator.permutation_test(statistic, alpha=alpha) if p is None else p <= alpha
    return comparison, Decision(method == "whitened", bool(rejected), p)


@kernel_two_sample.concludes
def _(measured: tuple[Comparison, Evidence], *, confidence: Probability = 0.95) -> KernelTest:
    """Compare what was measured with what one distribution would give."""
    return conclude_test(*measured, confidence)


def _mmd(curator: Curator, design: Design, groups: Groups) -> Measured:
    """Measure the spread, then the separation."""
    embeddings = design.embeddings()
    one = len(embeddings) == 1
    spread = curator.measure(
        Spread(groups, embeddings, share_of(groups, embeddings, curator.epsilon)),
        noise="cube",
        share=Fraction(SHARE if one else SHARE_FUSED),
    )
    critical = np.zeros(1) if one else critical_values(spread.values, spread.scales, groups)
    share = share_interval(spread.values, spread.scales, groups)
    apart = curator.measure(Separation(groups, embeddings, critical, share))
    return Measured(
        float(apart.values[0]),
        float(apart.scales[0]),
        spread.values,
        spread.scales,
        groups.sizes,
        groups.rows,
        tuple(critical.tolist()),
    )


def _paired_mmd(curator: Curator, design: Design, groups: Groups) -> MeasuredPairs:
    """Measure the same of pairs."""
    embedding, (pairs, _) = design.embedding(), groups.rows or (0, 0)
    spread = curator.measure(
        PairedSpread(groups.by, embedding, pairs, groups.given), noise="cube", share=Fraction(SHARE)
    )
    apart = curator.measure(PairedSeparation(groups.by, embedding, pairs, groups.given))
    return MeasuredPairs(
        float(apart.values[0]), float(apart.scales[0]), spread.values, spread.scales, groups.sizes, groups.rows
    )


def _moments(
    curator: Curator, comparison: Comparison, *, local: bool, paired: bool, variant: Variant | None
) -> tuple[Comparison, Contrast | Printed | tuple[Party, ...]]:
    """Measure differences at the locations with their second moment."""
    design, groups = comparison.design, comparison.groups
    embedding, kind = design.embedding(mapped=False), design.features
    rows = groups.sizes or groups.rows or (1, 1)
    evidence: Contrast | Printed | tuple[Party, ...]
    if variant is not None:
        all_rows = groups.rows or rows
        evidence = measure_printed(
            curator,
            variant,
            groups,
            embedding,
            kind,
            all_rows[:1] if variant == "tcmc" else all_rows,
            paired=paired,
            given=groups.given,
        )
    elif paired:
        pairs = PairedSummary(groups.by, embedding, rows[0], kind, groups.given)
        evidence = (pairs.read(curator.measure(pairs, noise="gaussian")),)
    elif local:
        apart = Summaries(groups, embedding, kind, rows, () if groups.sizes else groups.given)
        evidence = tuple(apart.read(curator.measure(apart, noise="gaussian")))
    else:
        together = Differences(groups, embedding, kind)
        evidence = together.read(curator.measure(together, noise="gaussian"))
    loud = curator.delta > 1 / sum(rows)
    notes = ("delta is larger than one over the number of rows: take a smaller one.",) if loud else ()
    locations = design.located(embedding.points) if kind != "scf" else ()
    return replace(comparison, locations=locations, notes=notes), evidence


def findings(curator: Curator, *_: Any, confidence: float = 0.95, **__: Any) -> Mapping[str, Any]:
    """Say what the test could find out, from public numbers only; for ``explain``."""
    last = curator.measured[-1]
    if last.kind != "discrete Laplace":
        return {}
    reach = -last.scale * float(np.log1p(-confidence))
    return {f"noise of the distance of the mean embeddings, {confidence:.0%}": reach}
