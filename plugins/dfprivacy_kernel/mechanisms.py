"""``view.kernel_two_sample``: test whether two groups of rows, or two tables, have the same distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

from dfprivacy import NanPolicy, Probability, Range, mechanism
from dfprivacy.schema import chosen_groups
from dfprivacy_kernel.design import (
    Count,
    Design,
    Groups,
    Method,
    Mismatch,
    Variant,
    check_groups,
    check_method,
    group_column,
)
from dfprivacy_kernel.embedding import Features
from dfprivacy_kernel.law import SHARE, MMDMeasurement, share_interval
from dfprivacy_kernel.moments import Contrast, OneSampleMoments, TwoSampleMoments
from dfprivacy_kernel.printed import measure_paper_moments
from dfprivacy_kernel.results import Comparison, Decision, Evidence, KernelTest, conclude_test
from dfprivacy_kernel.statistics import (
    CovarianceMoments,
    PairedSeparation,
    PermutedMMD,
    Separation,
    SignFlips,
    WhitenedMMD,
    sampled_share,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy import Column, Curator
    from dfprivacy_kernel.embedding import Embedding

__all__ = ["kernel_two_sample", "plan_test"]

_LOCATIONS: Mapping[str, int] = {"mmd": 200, "permutation": 200, "whitened": 30, "moments": 5}


@mechanism(
    columns={"columns": ["numeric"], "categories": ["category"], "by": "category", "other": "view"},
    delta=True,
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
    lengthscale: float | str | None = None,
    locations: Sequence[Any] | None = None,
    n_locations: Count | None = None,
    n_permutations: Count = 499,
    paired: bool = False,
    variant: Variant | None = None,
    gamma: Annotated[float, Range(0, exclusive="low")] | None = None,
    categories: Sequence[Column] | None = None,
    mismatch: Mismatch = 0.5,
    pvalue: bool = False,
    nan_policy: NanPolicy = "omit",
) -> tuple[Comparison, Evidence]:
    r"""Test whether the rows of two groups, or of two tables, come from the same distribution.

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
    lengthscale : float, "robust" or None
        Of the kernel exp(-d²/lengthscale²), in sixths of the bounds' widths; default: the root of the number of
        numeric columns. ``"robust"``: the mean of two kernels.
    locations : list of rows, optional
        Public landmarks, or locations.
    n_locations : int, optional
        How many are made where none are given. Default: 200; 30 for ``"whitened"``, 5 for ``"moments"``.
    n_permutations : int
        Relabellings of the permutation tests.
    paired : bool
        With `other`: whether the i-th rows of the two tables are one person's, who is protected in both.
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

    **Statistics.** The test has a law of its own: all 200 sums of features would take 14 times the noise of the one
    distance that is released, which under the hypothesis is no normal number; over 400 spectra, the level of its
    law was .0502 at most at 5%. The level of the permutation tests is exact. That of the others is asymptotic, and
    was measured.
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
    column = group_column(by, other, paired=paired)
    first, second = chosen_groups(column, groups)
    check_method(method, alpha, n_permutations, variant, features, gamma, paired=paired, pvalue=pvalue)
    kind = features or ("me" if method == "moments" else "nystrom")
    landmarks = n_locations or _LOCATIONS[method]
    design = Design.from_arguments(
        (*columns, *(categories or ())), kind, lengthscale, mismatch, locations, landmarks
    )
    compared = Groups.from_columns(curator, column, (first, second), design.columns, nan_policy, paired=paired)
    check_groups(compared, design, method, variant)
    comparison = Comparison(method, design, compared, alpha, variant)
    embedding = design.embedding(mapped=method != "moments")
    if method == "moments":
        return _measure_contrast(curator, comparison, embedding)
    if method == "mmd":
        return comparison, _measure_mmd(curator, compared, embedding)
    statistic: PermutedMMD | SignFlips
    if paired:
        statistic = SignFlips(compared, embedding, n_permutations)
    elif method == "whitened":
        statistic = WhitenedMMD(compared, embedding, n_permutations, curator.epsilon, gamma)
    else:
        statistic = PermutedMMD(compared, embedding, n_permutations)
    p = curator.permutation_test(statistic) if pvalue else None
    rejected = curator.permutation_test(statistic, alpha=alpha) if p is None else p <= alpha
    return comparison, Decision(bool(rejected), p)


@kernel_two_sample.concludes
def conclude_kernel_two_sample(
    measured: tuple[Comparison, Evidence], *, confidence: Probability = 0.95
) -> KernelTest:
    """Compute the result of the test from its noisy measurement."""
    return conclude_test(*measured, confidence)


def _measure_mmd(curator: Curator, groups: Groups, embedding: Embedding) -> MMDMeasurement:
    """Measure the moments of the rows' covariance, then the separation of the groups."""
    spread = CovarianceMoments(groups, embedding, sampled_share(groups, embedding, curator.epsilon))
    moments = curator.measure(spread, noise="cube", share=Fraction(SHARE))
    separation = (
        PairedSeparation(groups, embedding)
        if groups.paired
        else Separation(groups, embedding, share_interval(moments.values, moments.scales, groups))
    )
    apart = curator.measure(separation)
    return MMDMeasurement(
        float(apart.values[0]) * separation.part,
        float(apart.scales[0]) * separation.part,
        moments.values,
        moments.scales,
        groups.sizes,
        groups.rows,
        groups.paired,
    )


def _measure_contrast(
    curator: Curator, comparison: Comparison, embedding: Embedding
) -> tuple[Comparison, Evidence]:
    """Measure the difference of two groups' mean features, and the second moment of the features."""
    design, groups, kind = comparison.design, comparison.groups, comparison.design.features
    evidence: Evidence
    if comparison.variant is not None:
        evidence = measure_paper_moments(curator, comparison.variant, groups, embedding, kind)
    elif groups.paired:
        summary = OneSampleMoments(groups, embedding, kind)
        evidence = (summary.noisy_moments(curator.measure(summary, noise="gaussian")),)
    else:
        differences = TwoSampleMoments(groups, embedding, kind)
        evidence = differences.noisy_contrast(curator.measure(differences, noise="gaussian"))
    loud = curator.delta > 1 / sum(groups.rows or groups.divisors)
    notes = ("delta is larger than 1 divided by the number of rows: use a smaller delta.",) if loud else ()
    locations = design.location_rows(embedding.points) if kind != "scf" else ()
    return replace(comparison, locations=locations, notes=notes), evidence


def plan_test(curator: Curator, *_: Any, **__: Any) -> Mapping[str, Any]:
    """Return the expected standard error due to noise of the MMD or of a mean difference; for ``explain``."""
    comparison, evidence = curator.planned
    rows = comparison.groups.sizes or comparison.groups.rows
    if isinstance(evidence, MMDMeasurement) and rows:
        return {"expected standard error of the MMD from noise": evidence.noise_sd(rows)}
    if isinstance(evidence, Contrast):
        return {"expected standard error of each difference from noise": evidence.noise.difference}
    return {}
