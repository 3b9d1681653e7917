"""``view.kernel_two_sample``: do two groups of rows, or two tables, come from one distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Probability, mechanism
from dfprivacy_kernel.design import Count, Design, Mismatch
from dfprivacy_kernel.embedding import Features
from dfprivacy_kernel.mmd import SHARE, SHARE_FUSED, Measured, MeasuredPairs, critical_values
from dfprivacy_kernel.moments import Differences, Summaries, conclude, conclude_apart, conclude_paired
from dfprivacy_kernel.pairs import Flipped, PairedSeparation, PairedSpread, PairedSummary
from dfprivacy_kernel.results import KernelTest, Method, concluded
from dfprivacy_kernel.statistics import Groups, Rearranged, Separation, Spread, Whitened

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy import Column, Curator

__all__ = ["findings", "kernel_two_sample"]

_LOCATIONS: Mapping[str, int] = {"mmd": 200, "permutation": 200, "whitened": 30, "moments": 5}


@mechanism(
    columns={"columns": ["numeric"], "categories": ["category"], "by": "category", "other": "view"}, delta=True
)
def kernel_two_sample(
    curator: Curator,
    columns: Sequence[Column],
    *,
    by: Column | None = None,
    groups: Sequence[Any] | None = None,
    other: Column | None = None,
    method: Method = "mmd",
    features: Features | None = None,
    alpha: Probability = 0.05,
    bandwidth: float | Sequence[float] | str | None = None,
    locations: Sequence[Any] | None = None,
    n_locations: Count | None = None,
    n_permutations: Count = 499,
    paired: bool = False,
    local: bool = False,
    categories: Sequence[Column] | None = None,
    mismatch: Mismatch = 0.5,
    pvalue: bool = False,
    confidence: Probability = 0.95,
) -> KernelTest:
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
    bandwidth : float, list of float, "robust" or None
        Of the kernel exp(-d²/bandwidth²), in sixths of the bounds' widths; default: the root of the number of
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
    categories : list of str, optional
        Columns with categories that make a row too.
    mismatch : float
        What a different category leaves of the kernel, in [0, 1).
    pvalue : bool
        Whether the permutation test releases its p-value, with twice the noise.
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
    its group (``"mmd"``); for ``"moments"``, (ε, δ). Landmarks, bandwidths and scales come from arguments and
    bounds only. Of two tables, neighbours differ in one row of one of them; paired, in one person, who is in both.

    **Statistics.** The level of the permutation tests is exact. That of the others is asymptotic, and was measured.
    The chi-squared statistic of the reference is not offered: its printed sensitivity is too small.

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
    which = _which(by, other, paired=paired)
    pair = _pair(which, groups)
    _check(method, paired=paired, local=local, pvalue=pvalue)
    design = Design.read(
        (*columns, *(categories or ())),
        features or ("me" if method == "moments" else "nystrom"),
        bandwidth,
        mismatch,
        locations,
        _LOCATIONS[method] if n_locations is None else n_locations,
    )
    if which.name in {column.name for column in design.columns}:
        raise ArgumentError(f"by={which.name!r} is among what is compared.", "Name the column of the groups.")
    sizes = _sizes(curator, which, pair)
    if sizes is None and (method != "mmd" or paired):
        raise ArgumentError(
            f"method={method!r} needs groups whose sizes are public.",
            'Use method="mmd", protect the table with public=[...], or select rows by public columns only.',
        )
    if paired and sizes is not None and sizes[0] != sizes[1]:
        raise ArgumentError(
            f"{sizes[0]} and {sizes[1]} rows are no pairs.", "Pairs need as many rows in both tables."
        )
    asked = _Asked(curator, design, Groups(which, pair, sizes), alpha, confidence, paired)
    if method == "mmd":
        return asked.mmd()
    if method == "moments":
        return asked.moments(local=local)
    return asked.permutation(n_permutations, whitened=method == "whitened", pvalue=pvalue)


@dataclass(frozen=True)
class _Asked:
    """A test that is asked for, its arguments checked."""

    curator: Curator
    design: Design
    groups: Groups
    alpha: float
    confidence: float
    paired: bool

    @property
    def about(self) -> dict[str, Any]:
        """What the result repeats of the question."""
        return {
            "columns": tuple(column.name for column in self.design.columns),
            "by": self.groups.by.name,
            "groups": self.groups.pair,
            "bandwidths": self.design.bandwidths,
            "sizes": self.groups.sizes,
            "confidence": self.confidence,
        }

    def mmd(self) -> KernelTest:
        """Measure the spread, then the separation, and compare the two."""
        embeddings, groups, curator = self.design.embeddings(), self.groups, self.curator
        one = len(embeddings) == 1
        share = Fraction(SHARE if one else SHARE_FUSED)
        critical = np.zeros(1)
        if self.paired:
            embedding, (pairs, _) = self.design.embedding(), groups.sizes or (0, 0)
            spread = curator.measure(PairedSpread(groups.by, embedding, pairs), noise="cube", share=share)
            apart = curator.measure(PairedSeparation(groups.by, embedding, pairs))
        else:
            spread = curator.measure(Spread(groups, embeddings), noise="cube", share=share)
            if not one:
                critical = critical_values(spread.values, spread.scales, groups.sizes)
            apart = curator.measure(Separation(groups, embeddings, critical))
        kind = MeasuredPairs if self.paired else Measured
        measured = kind(
            float(apart.values[0]),
            float(apart.scales[0]),
            spread.values,
            spread.scales,
            groups.sizes,
            tuple(critical.tolist()),
        )
        p, sized = measured.pvalue, one and groups.sizes is not None
        low, high = measured.interval(self.confidence) if sized and not self.paired else (None, None)
        return KernelTest(
            **self.about,
            method="mmd",
            alpha=self.alpha,
            reject=p <= self.alpha,
            pvalue=p,
            statistic=measured.factor * measured.separation if sized else None,
            mmd2=measured.squared if one else None,
            low=low,
            high=high,
            notes=self.design.notes,
            released=(
                measured.separation,
                measured.scale,
                tuple(measured.spread.tolist()),
                tuple(measured.spread_scales.tolist()),
                measured.critical,
            ),
        )

    def permutation(self, permutations: int, *, whitened: bool, pvalue: bool) -> KernelTest:
        """Compare the groups with random relabellings of their rows, or pairs with random exchanges."""
        if (permutations + 1) * self.alpha < 1:
            raise ArgumentError(
                f"{permutations} permutations can never reject at level {self.alpha}.",
                f"Use {int(np.ceil(1 / self.alpha))} or more.",
            )
        embedding, groups = self.design.embedding(), self.groups
        statistic: Rearranged | Flipped
        if self.paired:
            statistic = Flipped(groups.by, embedding, (groups.sizes or (0,))[0], permutations)
        elif whitened:
            statistic = Whitened(groups, embedding, permutations, self.curator.epsilon)
        else:
            statistic = Rearranged(groups, embedding, permutations)
        p = self.curator.permutation_test(statistic) if pvalue else None
        rejected = self.curator.permutation_test(statistic, alpha=self.alpha) if p is None else p <= self.alpha
        return KernelTest(
            **self.about,
            method="whitened" if whitened else "permutation",
            alpha=self.alpha,
            reject=bool(rejected),
            pvalue=p,
            notes=() if pvalue else ("Only the decision was paid for: there is no p-value.",),
        )

    def moments(self, *, local: bool) -> KernelTest:
        """Measure differences at the locations with their second moment."""
        embedding, groups, kind = self.design.embedding(mapped=False), self.groups, self.design.features
        n, m = groups.sizes or (0, 0)
        if self.paired:
            if kind == "nystrom":
                raise ArgumentError("Moments of pairs need locations.", 'Use features="me" or "scf".')
            paired = PairedSummary(groups.by, embedding, n, kind)
            party = paired.read(self.curator.measure(paired, noise="gaussian"))
            found, d, noise = conclude_paired(party), 2 * party.mean, 2 * party.noise.difference
        elif local:
            apart = Summaries(groups, embedding, kind, (n, m))
            first, second = apart.read(self.curator.measure(apart, noise="gaussian"))
            found, d = conclude_apart(first, second), first.mean - second.mean
            noise = float(np.hypot(first.noise.difference, second.noise.difference))
        else:
            together = Differences(groups, embedding, kind, (n, m))
            d, u, S, scales = together.read(self.curator.measure(together, noise="gaussian"))
            found, noise = conclude(d, u, S, noise=scales, n=n, m=m), scales.difference
        loud = self.curator.delta > 1 / (n + m)
        return KernelTest(
            **self.about,
            **concluded(found, d, noise, self.alpha),
            locations=self.design.located(embedding.points) if kind != "scf" else (),
            notes=("delta is larger than one over the number of rows: take a smaller one.",) if loud else (),
        )


def findings(curator: Curator, *_: Any, confidence: float = 0.95, **__: Any) -> Mapping[str, Any]:
    """Say what the test could find out, from public numbers only; for ``explain``."""
    last = curator.measured[-1]
    if last.kind != "discrete Laplace":
        return {}
    reach = -last.scale * float(np.log1p(-confidence))
    return {f"noise of the distance of the mean embeddings, {confidence:.0%}": reach}


def _which(by: Column | None, other: Column | None, *, paired: bool) -> Column:
    if (by is None) == (other is None):
        raise ArgumentError(
            "Two samples are compared: two groups of one view, or two views.", "Give either by= or other=."
        )
    if paired and other is None:
        raise ArgumentError("Pairs are rows of two tables.", "Give the other table's view: other=.")
    which = by or other
    assert which is not None  # noqa: S101 - one of them is given
    return which


def _check(method: Method, *, paired: bool, local: bool, pvalue: bool) -> None:
    if local and (method != "moments" or paired):
        raise ArgumentError("Only groups' moments can be said apart.", 'Use method="moments" without paired=.')
    if pvalue and method not in {"permutation", "whitened"}:
        raise ArgumentError(f"method={method!r} has its p-value anyway.", "Leave out pvalue=.")
    if paired and method == "whitened":
        raise ArgumentError('method="whitened" knows no pairs.', 'Use "mmd", "permutation" or "moments".')


def _sizes(curator: Curator, by: Column, pair: tuple[Any, Any]) -> tuple[int, int] | None:
    sizes = curator.sizes(by, pair)
    if sizes is None:
        return None
    n, m = (int(size) for size in sizes)
    if min(n, m) < 2:  # noqa: PLR2004
        raise ArgumentError(f"A group has {min(n, m)} rows.", "The test needs at least two rows in every group.")
    return n, m


def _pair(by: Column, groups: Sequence[Any] | None) -> tuple[Any, Any]:
    known = by.categories or ()
    pair = known if groups is None else groups
    if not isinstance(pair, tuple | list) or len(pair) != 2:  # noqa: PLR2004
        raise ArgumentError("Two groups are compared.", f"Name two of {list(known)!r}: groups=(first, second).")
    first, second = (known[by.code(value)] for value in pair)
    if first == second:
        raise ArgumentError(f"groups={groups!r} are the same group.", "Name two different ones.")
    return first, second
