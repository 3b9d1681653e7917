"""Do two groups of rows come from one distribution?"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dfprivacy import ArgumentError, ConfidenceInterval, Release, mechanism
from dfprivacy_kernel.embedding import Embedding, Features, bandwidths_of, embed, informative, points_of
from dfprivacy_kernel.mmd import SHARE, SHARE_FUSED, Measured, critical_values
from dfprivacy_kernel.statistics import Groups, Rearranged, Separation, Spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Column, Curator

__all__ = ["KernelTest", "kernel_two_sample"]

Method = Literal["mmd", "permutation"]


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelTest(Release):
    """Result of a private kernel two-sample test.

    Attributes
    ----------
    reject : bool
        Whether the hypothesis of one distribution is rejected at level alpha.
    alpha : float
        The level.
    pvalue : float or None
        The p-value, noise included; None where only the decision was paid for.
    statistic : float or None
        The noisy MMD (``"mmd"`` with public sizes and one kernel).
    mmd2 : float or None
        Estimate of the squared MMD; it can be below 0.
    low, high : float or None
        Ends of an approximate interval for the MMD of the populations.
    sizes : tuple of int or None
        Rows in each group, where they are public.
    columns, by, groups, method, confidence, bandwidths
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers.
    released : tuple
        What all this follows from: noisy separation, its scale, noisy spread, its scales, and c of each kernel.
    """

    reject: bool
    alpha: float
    pvalue: float | None
    statistic: float | None
    mmd2: float | None
    low: float | None
    high: float | None
    sizes: tuple[int, int] | None
    columns: tuple[str, ...]
    by: str
    groups: tuple[Any, Any]
    method: Method
    confidence: float
    bandwidths: tuple[float, ...]
    notes: tuple[str, ...]
    released: tuple[Any, ...]

    _shown = ("reject", "alpha", "pvalue", "statistic", "mmd2", "low", "high", "sizes", "notes")

    def confidence_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Interval for the MMD of the populations, of the Nyström kernel, which is at most that of the kernel.

        Parameters
        ----------
        confidence_level : float, optional
            Coverage; default: the one asked for. Any other costs nothing.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``.

        Raises
        ------
        ArgumentError
            If there is none: it needs public sizes, and one kernel.
        """
        if self.low is None or self.sizes is None:
            raise ArgumentError(
                "This test has no interval.", 'Use method="mmd", a public column and one bandwidth.'
            )
        level = self.confidence if confidence_level is None else confidence_level
        if not 0 < level < 1:
            raise ArgumentError(f"confidence_level={level!r} is not between 0 and 1.", "Use, for example, 0.95.")
        separation, scale, spread, scales, critical = self.released
        measured = Measured(separation, scale, np.array(spread), np.array(scales), self.sizes, critical)
        return ConfidenceInterval(*measured.interval(level))


@mechanism(columns={"columns": ["numeric"], "by": "category"})
def kernel_two_sample(
    curator: Curator,
    columns: Sequence[Column],
    *,
    by: Column,
    groups: Sequence[Any] | None = None,
    method: Method = "mmd",
    features: Features = "nystrom",
    alpha: float = 0.05,
    bandwidth: float | Sequence[float] | str | None = None,
    locations: Sequence[Any] | None = None,
    n_locations: int = 200,
    n_permutations: int = 499,
    pvalue: bool = False,
    confidence: float = 0.95,
) -> KernelTest:
    """Test whether the rows of two groups come from one distribution.

    Parameters
    ----------
    columns : list of str
        Columns with bounds: what makes a row.
    by : str
        The column of the groups.
    groups : list or tuple of two categories, optional
        The groups to compare; default: the column's, if it has two.
    method : {"mmd", "permutation"}
        ``"mmd"``: p-value, estimate and interval from one release. ``"permutation"``: the permutation test, of exact
        level, for a public column of groups; a decision only.
    features : {"nystrom", "me", "scf"}
        What represents the kernel.
    alpha : float
        Level of the decision.
    bandwidth : float, list of float, "robust" or None
        Of the kernel exp(-d²/bandwidth²), in sixths of the bounds' widths; default: the root of the number of columns.
        ``"robust"``: the mean of two kernels. A list: the test takes the one that shows most.
    locations : list of rows, optional
        Public landmarks.
    n_locations : int
        How many are made where none are given.
    n_permutations : int
        Relabellings of the permutation test.
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
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation, also where one row can change its
    group (``"mmd"``). Landmarks, bandwidths and scales come from arguments and bounds only.

    References
    ----------
    .. [1] A. Raj, H. C. L. Law, D. Sejdinovic, M. Park. A differentially private kernel two-sample test. ECML 2019.
    .. [2] I. Kim, A. Schrab. Differentially private permutation tests. arXiv:2310.19043, 2023.
    """
    pair = _pair(by, groups)
    _check(columns, by, method, features, alpha, confidence, n_locations, n_permutations)
    bandwidths, averaged = bandwidths_of(columns, bandwidth)
    points = points_of(columns, locations, n_locations)
    kept, notes = bandwidths, ()
    if not averaged:
        kept = tuple(each for each in bandwidths if informative(columns, each, points))
        if not kept:
            raise ArgumentError("No bandwidth lets the landmarks see each other.", "Give larger ones.")
        left = set(bandwidths) - set(kept)
        notes = (f"Left out, for no landmark sees another: bandwidths {sorted(left)}.",) if left else ()
    embeddings = tuple(embed(features, columns, each, points) for each in ([kept] if averaged else zip(kept)))
    sizes = _sizes(curator, by, pair)
    asked: dict[str, Any] = {
        **{"alpha": alpha, "sizes": sizes, "columns": tuple(column.name for column in columns), "by": by.name},
        **{"groups": pair, "method": method, "confidence": confidence, "bandwidths": kept},
    }
    if method == "permutation":
        return _permutation(curator, Groups(by, pair, sizes), embeddings, n_permutations, asked, pvalue=pvalue)
    measured = _measure(curator, Groups(by, pair, sizes), embeddings)
    p, one = measured.pvalue, len(embeddings) == 1
    ends = measured.interval(confidence) if one and sizes else (None, None)
    return KernelTest(
        **asked,
        reject=p <= alpha,
        pvalue=p,
        statistic=measured.factor * measured.separation if one and sizes else None,
        mmd2=measured.squared if one else None,
        low=ends[0],
        high=ends[1],
        notes=notes,
        released=(
            measured.separation,
            measured.scale,
            tuple(measured.spread.tolist()),
            tuple(measured.spread_scales.tolist()),
            measured.critical,
        ),
    )


def _measure(curator: Curator, groups: Groups, embeddings: tuple[Embedding, ...]) -> Measured:
    """Measure the spread, then the separation."""
    share = Fraction(SHARE if len(embeddings) == 1 else SHARE_FUSED)
    spread = curator.measure(Spread(groups, embeddings), noise="cube", share=share)
    critical = np.zeros(1)
    if len(embeddings) > 1:
        critical = critical_values(spread.values, spread.scales, groups.sizes)
    apart = curator.measure(Separation(groups, embeddings, critical))
    return Measured(
        float(apart.values[0]),
        float(apart.scales[0]),
        spread.values,
        spread.scales,
        groups.sizes,
        tuple(critical.tolist()),
    )


def _permutation(
    curator: Curator,
    groups: Groups,
    embeddings: tuple[Embedding, ...],
    permutations: int,
    asked: dict[str, Any],
    *,
    pvalue: bool,
) -> KernelTest:
    if groups.sizes is None:
        raise ArgumentError("The permutation test needs public groups.", 'Use method="mmd".')
    if len(embeddings) > 1:
        raise ArgumentError("The permutation test takes one kernel.", 'Give one bandwidth, or "robust".')
    statistic = Rearranged(groups, embeddings[0], permutations)
    p = curator.permutation_test(statistic) if pvalue else None
    reject = curator.permutation_test(statistic, alpha=asked["alpha"]) if p is None else p <= asked["alpha"]
    note = () if pvalue else ("Only the decision was paid for: there is no p-value.",)
    nothing = dict.fromkeys(("statistic", "mmd2", "low", "high"))
    return KernelTest(**asked, **nothing, reject=bool(reject), pvalue=p, notes=note, released=())


def _check(
    columns: Sequence[Column],
    by: Column,
    method: str,
    features: str,
    alpha: object,
    confidence: object,
    n_locations: object,
    n_permutations: object,
) -> None:
    if not columns or by.name in {column.name for column in columns}:
        raise ArgumentError(
            "columns= must name what is compared, without the column of the groups.", "Name others."
        )
    for name, value, choices in (("method", method, Method), ("features", features, Features)):
        if value not in get_args(choices):
            raise ArgumentError(f"{name}={value!r} is unknown.", f"Use one of {get_args(choices)}.")
    for name, level in (("alpha", alpha), ("confidence", confidence)):
        if not (isinstance(level, int | float) and 0 < level < 1):
            raise ArgumentError(f"{name}={level!r} is not between 0 and 1.", "Use, for example, 0.05 or 0.95.")
    for name, number in (("n_locations", n_locations), ("n_permutations", n_permutations)):
        if not (isinstance(number, int) and 1 <= number <= 2**12):
            raise ArgumentError(f"{name}={number!r} is not a whole number from 1 to 4096.", "Try the default.")
    if method == "permutation" and isinstance(n_permutations, int) and (n_permutations + 1) * float(alpha) < 1:  # type: ignore[arg-type]
        raise ArgumentError(
            f"{n_permutations} permutations can never reject at level {alpha}.",
            f"Use {round(1 / float(alpha))} or more.",  # type: ignore[arg-type]
        )


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
