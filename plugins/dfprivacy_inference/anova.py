"""``view.anova``: do the means of several groups differ, by how much, and which."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import Column, Curator, NanPolicy, Probability, Release, features, mechanism
from dfprivacy.plotting import axes, explained, forest_height, ink, interval, wrapped
from dfprivacy.schema import UNDECLARED
from dfprivacy.wording import clearly_some, noise_share, number, pvalue, sure
from dfprivacy_inference.asking import check_apart, groups_of, public_sizes
from dfprivacy_inference.welch import Sums, doubtful, holm, skewed

if TYPE_CHECKING:
    from dfprivacy.release import NoisyValue

__all__ = ["Anova", "anova", "check_anova"]

_DRAWS = 2000


@dataclass(frozen=True, kw_only=True, repr=False)
class Anova(Release):
    """Result of a private analysis of variance (Welch), in the units of the column.

    Attributes
    ----------
    statistic : float
        Weighted sum of squared distances of the group means from their common one, over their error variances,
        divided by the number of groups less 1: Welch's F but for a factor near 1, noise in the errors.
    pvalue : float
        Probability, if all means are the same, of a statistic at least as large; noise included.
    alpha : float
        The level of the test and of the comparisons together.
    rejected : bool
        Whether the null hypothesis is rejected at that level.
    eta_squared : float
        The part of the table's variance that is between groups, what the noise adds taken away.
    eta_squared_low, eta_squared_high : float
        Ends of its interval, for the table's own: they say nothing of the population from which its rows are.
    groups : tuple
        The groups.
    means, standard_errors : tuple of float
        The mean of each, and its standard error from sampling and noise together.
    noise_standard_error : tuple of float
        The standard error of each that privacy adds.
    lows, highs : tuple of float
        Ends of the confidence interval of each mean, for the population.
    confidence : float
        Coverage of the intervals.
    sizes : tuple of float
        Rows with a value in each group; noisy where they are private.
    comparisons : tuple of tuples
        For each pair of groups: first, second, difference of means, standard error, p-value corrected by Holm.
    missing, missing_standard_error : float or None
        Noisy number of rows of public groups that were left out, and its standard error from noise; None where it
        is not known.
    column, by, nan_policy
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers.
    released : tuple of tuples of float
        The noisy sums of each group that all this follows from.
    """

    statistic: float
    pvalue: float
    alpha: float
    rejected: bool
    eta_squared: float
    eta_squared_low: float
    eta_squared_high: float
    groups: tuple[Any, ...]
    means: tuple[float, ...]
    standard_errors: tuple[float, ...]
    noise_standard_error: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    confidence: float
    sizes: tuple[float, ...]
    comparisons: tuple[tuple[Any, Any, float, float, float], ...]
    missing: float | None
    missing_standard_error: float | None
    column: str
    by: str
    nan_policy: NanPolicy
    notes: tuple[str, ...]
    released: tuple[tuple[float, ...], ...]
    covers: str | None = "limited population"

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        missing = clearly_some(self.missing, self.missing_standard_error)
        return (
            *("statistic", "pvalue", "alpha", "rejected", "eta_squared"),
            *("groups", "means", "lows", "highs", "sizes"),
            *(("missing", "missing_standard_error") if missing else ()),
            "notes",
        )

    def _rows(self) -> list[tuple[str, str]]:
        low, high = self.eta_squared_low, self.eta_squared_high
        how = sure(low, high, self.confidence, whose="the table's own")
        told = number(self.eta_squared, (high - low) / 4) + how
        return [(name, told if name == "eta_squared" else text) for name, text in super()._rows()]

    def _sentence(self) -> str:
        """Say whether the means differ, and between which they lie."""
        unit = self._unit(self.column)

        def told(at: int) -> str:
            error, part = self.standard_errors[at], self._part(at)
            how = sure(self.lows[at], self.highs[at], self.confidence, unit=unit, noise=part)
            return f"{number(self.means[at], error)} {unit}".rstrip() + f" for {self.groups[at]}{how}"

        least, most = (self.means.index(end) for end in (min(self.means), max(self.means)))
        found = "differs" if self.rejected else "is not shown to differ"
        what = (
            f"The mean {self._noun(self.column)} {found} between {len(self.groups)} groups of {self._noun(self.by)}"
        )
        return f"{what} ({pvalue(self.pvalue)}): from {told(least)} to {told(most)}."

    def _part(self, at: int) -> float | None:
        """Give the part of an interval's width that noise makes."""
        error, noise = self.standard_errors[at], self.noise_standard_error[at]
        return noise_share(error, math.sqrt(max(error**2 - noise**2, 0.0)))

    def _tidy(self) -> list[dict[str, Any]]:
        """State the effect, the means, and the differences of every two."""
        effect: dict[str, Any] = {"standard_error": None, "noise_standard_error": None}
        effect |= {"low": self.eta_squared_low, "high": self.eta_squared_high}
        effect |= {"statistic": self.statistic, "pvalue": self.pvalue, "n": sum(self.sizes)}
        effect |= {"covers": "limited table"}
        means = {"standard_error": self.standard_errors, "noise_standard_error": self.noise_standard_error}
        apart = [
            {"term": f"{a} - {b}", "estimate": difference, "standard_error": error, "pvalue": pvalue}
            for a, b, difference, error, pvalue in self.comparisons
        ]
        return [
            {"term": "eta squared", "estimate": self.eta_squared, **effect},
            {
                "term": [*map(str, self.groups)],
                "estimate": self.means,
                **means,
                "low": self.lows,
                "high": self.highs,
                "n": self.sizes,
            },
            *apart,
        ]

    def pairwise(self) -> Any:
        """Compare every two groups, corrected by Holm.

        Returns
        -------
        DataFrame or Table
            Of the library whose table was asked, with pingouin's column names.
        """
        names = ("A", "B", "diff", "se", "pval")
        columns = zip(*self.comparisons, strict=True)
        return self._table(dict(zip(names, map(list, columns), strict=True)))

    def plot(self, ax: Any = None) -> Any:
        """Draw the means and their intervals: a forest plot."""
        ax = axes(ax, height=forest_height(len(self.groups)) + 0.5)
        at = range(len(self.groups))
        ends = zip(self.means, self.lows, self.highs, strict=True)
        for place, (mean, low, high) in enumerate(ends):
            interval(ax, place, mean, (low, high), noise=self._part(place))
            ax.plot(mean, place, "s", color=ink(ax), ms=5)
        ax.set(
            yticks=list(at),
            yticklabels=[f"{group} (n≈{size:.0f})" for group, size in zip(self.groups, self.sizes, strict=True)],
            ylim=(len(self.groups) - 0.5, -0.5),
            xlabel=wrapped(f"mean of {self._called(self.column)}", 56),
            ylabel=self._called(self.by),
            title=f"p = {self.pvalue:.3g}",
        )
        explained(ax, self.confidence, [self._part(place) for place in at])
        return ax


@mechanism(columns={"column": "numeric", "by": "category"})
def anova(
    curator: Curator,
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    nan_policy: NanPolicy = "omit",
) -> tuple[NoisyValue, tuple[int, ...] | None, bool]:
    """Test whether several groups have one mean, without taking their variances for equal (Welch).

    Parameters
    ----------
    column : str
        A column with bounds. What is compared are means of its values as clipped to them.
    by : str
        A column with categories.
    groups : list or tuple of categories, optional
        The groups to compare; default: all.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: a row in which `column` is missing contributes nothing and is not counted. ``"fill"``: it
        counts, with the column's fill value. ``"raise"``: it is refused, where `column` is public.
    alpha : float
        The level of the test, and of all comparisons of two groups together.
    confidence : float
        Coverage of the intervals.

    Returns
    -------
    Anova
        The test, the effect size η², the means with intervals, and ``pairwise()``, all from one release.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation, by the sums that ``ttest``
    measures: (y, 1 - y², y²/2) for each group, y the column mapped from its bounds to [-1, 1], with the L1
    sensitivity 3, or 3/2 if rows come and go; (y, (1 - y²)/2, 1) with 2 where the groups are public.

    **Statistics.** The law of the statistic under the null hypothesis is simulated: normal groups with one mean and
    the variances and sizes that the noisy sums may be of, and the noise. Means are weaker than ranks where bounds
    are loose: ``kruskal`` asks whether groups differ, this by how much. The intervals of means are for the
    population, that of η² for the table. With ten rows or fewer in a group the level .05 reaches .12, and a note
    says not to trust it.

    References
    ----------
    .. [1] Welch (1951). On the comparison of several mean values. Biometrika 38.
    .. [2] Holm (1979). A simple sequentially rejective multiple test procedure. Scandinavian J. of Statistics 6.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"wage": np.arange(6000) % 50 + np.repeat([0, 0, 20], 2000),
    ...                    "region": np.repeat(["n", "m", "s"], 2000)})
    >>> view = dp.protect(df, "anova-example", epsilon=1, ledger="memory:",
    ...                   bounds={"wage": (0, 100)}, categories={"region": ["n", "m", "s"]})
    >>> view.anova("wage", by="region", epsilon=1).pvalue < 0.01
    True
    """
    kept = groups_of(by, groups)
    sizes = public_sizes(curator, by, kept)
    gaps = curator.gaps([column], nan_policy)
    moments: features.RowFeatures = features.Moments(column, count=sizes is None or ("beside" if gaps else False))
    if gaps:
        moments = features.Given(*gaps, of=moments)
    return curator.sum(features.OneHot(by, groups=kept) * moments), sizes, bool(gaps)


@anova.concludes
def _(
    measured: tuple[NoisyValue, tuple[int, ...] | None, bool],
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None,
    nan_policy: NanPolicy,
    alpha: Probability = 0.05,
    confidence: Probability = 0.95,
) -> Anova:
    """Simulate the null law, and return to the column's units."""
    noisy, rows, gaps = measured
    kept = groups_of(by, groups)
    sums = _sums(noisy, rows, gaps=gaps)
    null = sums.under_null()
    p = float((1 + (null.statistic >= sums.statistic).sum()) / (1 + len(null.statistic)))
    population = sums.population(_DRAWS)
    lows, highs = np.quantile(population, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    eta, eta_low, eta_high = sums.effect(confidence)
    errors = np.sqrt(sums.errors)
    noise = np.sqrt(np.maximum(sums.errors - sums.variances / sums.sizes, 0.0))
    missing = error = None
    if rows is not None and gaps:
        missing = float(np.sum(rows) - sums.values[:, 2].sum())
        error = float(np.sqrt(2 * len(kept)) * sums.scales[2])

    def unit(values: Any) -> tuple[float, ...]:
        return tuple(float(value) * column.half + column.mid for value in values)

    def width(values: Any) -> tuple[float, ...]:
        return tuple(float(value) * column.half for value in values)

    return Anova(
        statistic=float(sums.statistic) / (len(kept) - 1),
        pvalue=p,
        alpha=alpha,
        rejected=p <= alpha,
        eta_squared=eta,
        eta_squared_low=eta_low,
        eta_squared_high=eta_high,
        groups=kept,
        means=unit(sums.means),
        standard_errors=width(errors),
        noise_standard_error=width(noise),
        lows=unit(lows),
        highs=unit(highs),
        confidence=confidence,
        sizes=tuple(float(size) for size in sums.sizes),
        comparisons=_comparisons(sums, null, kept, column.half),
        missing=missing,
        missing_standard_error=error,
        column=column.name,
        by=by.name,
        nan_policy=nan_policy,
        notes=_notes(sums, p, alpha),
        released=tuple(tuple(float(value) for value in group) for group in noisy.values),
    )


def _sums(noisy: NoisyValue, rows: tuple[int, ...] | None, *, gaps: bool) -> Sums:
    """Read the noisy sums."""
    scales = np.asarray(noisy.scales[0], dtype=np.float64)
    if rows is None:
        return Sums(noisy.values, scales, "private")
    if gaps:
        return Sums(noisy.values, scales, "beside")
    return Sums(np.column_stack([noisy.values, rows]), np.append(scales, 0.0), "known")


def _comparisons(
    sums: Sums, null: Sums, groups: tuple[Any, ...], half: float
) -> tuple[tuple[Any, Any, float, float, float], ...]:
    """Compare every two groups, by the simulations of the test, corrected by Holm."""
    pairs = list(itertools.combinations(range(len(groups)), 2))

    def apart(of: Sums, one: int, other: int) -> tuple[Any, Any]:
        return of.means[..., one] - of.means[..., other], np.sqrt(of.errors[..., one] + of.errors[..., other])

    alone, comparisons = [], []
    for one, other in pairs:
        difference, error = apart(sums, one, other)
        drawn, its = apart(null, one, other)
        extreme = (np.abs(drawn / its) >= abs(difference / error)).sum()
        alone.append((1 + extreme) / (1 + len(drawn)))
        comparisons.append((groups[one], groups[other], float(difference) * half, float(error) * half))
    return tuple((*pair, float(p)) for pair, p in zip(comparisons, holm(np.array(alone)), strict=True))


def _notes(sums: Sums, p: float, alpha: float) -> tuple[str, ...]:
    """Say what to know before trusting the numbers."""
    notes = []
    if doubtful(sums):
        notes.append(
            "Uninformative: a group is small, or its size or variance may be mostly noise: do not trust the "
            f"p-value and the intervals. More epsilon, more rows, or kruskal() would help. {UNDECLARED}"
        )
    elif skewed(sums, p, alpha):
        notes.append("The p-value takes the data to be near normal: if they are skewed, it could be too small.")
    noise = np.sqrt(np.maximum(sums.errors * sums.sizes / sums.variances - 1, 0.0)).max()
    if noise > 2:  # noqa: PLR2004
        notes.append(
            f"The noise is {noise:.2g} times the error of sampling; {noise:.2g} times the epsilon, bounds "
            f"{noise:.2g} times as narrow if the data fit, or kruskal(), which asks ranks, would find more."
        )
    return tuple(notes)


def check_anova(column: Column, by: Column, *, groups: Sequence[Any] | None, **_: Any) -> None:
    """Refuse what cannot be compared, before anything is paid."""
    check_apart(column, by)
    groups_of(by, groups)
