"""``view.anova``: test whether the means of several groups differ, and estimate their differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dfprivacy import Column, Curator, NanPolicy, Probability, Range, Release, mechanism
from dfprivacy.estimates import measure_moments
from dfprivacy.inference.engine import infer
from dfprivacy.inference.groups import mean, omnibus, pairwise
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.inference.notes import is_unreliable, skewness, worst_pvalue
from dfprivacy.inference.planning import FEW, expected_errors, smallest_effect
from dfprivacy.made_up import assumed_sd, groups_in_steps
from dfprivacy.plotting import forest
from dfprivacy.schema import UNDECLARED, chosen_groups
from dfprivacy.wording import noise_share, number, pvalue, rows_phrase, uncertainty, with_unit
from dfprivacy_inference.asking import assumed_rows, check_distinct_columns

if TYPE_CHECKING:
    from dfprivacy.estimates import Measured
    from dfprivacy.inference.engine import Inference

__all__ = ["Anova", "anova", "check_anova", "draw_descending_means"]

_MIN_GROUP_ROWS = 10  # of a group: with fewer the level is not sure


@dataclass(frozen=True, kw_only=True, repr=False)
class Anova(Release):
    """Result of a private analysis of variance (Welch), in the units of the column.

    Attributes
    ----------
    statistic : float
        Welch's F, with the noise in the variances of the means.
    pvalue : float
        Probability, if all means are the same, of a statistic at least as large; noise included.
    alpha : float
        The level of the test and of the comparisons together.
    rejected : bool
        Whether the null hypothesis is rejected at that level.
    eta_squared : float
        The part of the table's variance that is between groups, what the noise adds taken away.
    eta_squared_low, eta_squared_high : float
        Ends of its interval, for the population.
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
    clipped : tuple or None
        For each group the shares of its rows below and above the bounds, with the ends of their 95 % intervals.
    released : mapping
        The noisy sums that all this follows from.
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
    released: Mapping[str, Any]
    clipped: tuple[Any, ...] | None = None
    covers: str | None = "limited population"

    _row_counts = ("sizes",)
    _shown = (
        *("statistic", "pvalue", "alpha", "rejected", "eta_squared", "groups", "means", "lows", "highs", "sizes"),
        *("missing", "missing_standard_error", "notes"),
    )

    def _rows(self) -> list[tuple[str, str]]:
        low, high = self.eta_squared_low, self.eta_squared_high
        how = uncertainty(low, high, self.confidence, whose="")
        told = number(self.eta_squared, (high - low) / 4) + how
        return [(name, told if name == "eta_squared" else text) for name, text in super()._rows()]

    def _sentence(self) -> str:
        """Write a sentence on whether the means differ, with the smallest and the largest mean."""
        unit = self._unit(self.column)

        def mean_text(at: int, whose: str) -> str:
            error, part = self.standard_errors[at], self._noise_share(at)
            how = uncertainty(self.lows[at], self.highs[at], self.confidence, unit=unit, whose=whose, noise=part)
            return f"{with_unit(number(self.means[at], error), unit)} for {self.groups[at]}{how}"

        least, most = (self.means.index(end) for end in (min(self.means), max(self.means)))
        found = "differs" if self.rejected else "is not shown to differ"
        groups = f"{len(self.groups)} groups of {self._label(self.by)}"
        what = f"The mean {self._label(self.column)} {found} between {groups}"
        last = mean_text(most, rows_phrase(self.covers or ""))
        return f"{what} ({pvalue(self.pvalue)}): from {mean_text(least, '')} to {last}."

    def _noise_share(self, at: int) -> float | None:
        """Return the fraction of the width of a mean's confidence interval that is due to noise."""
        error, noise = self.standard_errors[at], self.noise_standard_error[at]
        return noise_share(error, math.sqrt(max(error**2 - noise**2, 0.0)))

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the effect size, the group means and the differences of all pairs as rows of a tidy table."""
        effect: dict[str, Any] = {"standard_error": None, "noise_standard_error": None}
        effect |= {"low": self.eta_squared_low, "high": self.eta_squared_high}
        effect |= {"statistic": self.statistic, "pvalue": self.pvalue, "n": sum(self.sizes)}
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
        """Compare the means of all pairs of groups, with p-values corrected by Holm's method.

        Returns
        -------
        DataFrame or Table
            Of the library whose table was asked, with pingouin's column names.
        """
        names = ("A", "B", "diff", "se", "pval")
        columns = zip(*self.comparisons, strict=True)
        return self._table(dict(zip(names, map(list, columns), strict=True)))

    def plot(self, ax: Any = None) -> Any:
        """Draw the group means and their confidence intervals: a forest plot."""
        labels = [f"{group} (n≈{size:.0f})" for group, size in zip(self.groups, self.sizes, strict=True)]
        means = [*zip(self.means, self.lows, self.highs, strict=True)]
        parts, what = [*map(self._noise_share, range(len(means)))], f"mean of {self._with_units(self.column)}"
        ax = forest(labels, means, what, ax, noise=parts, confidence=self.confidence)
        ax.set(ylabel=self._with_units(self.by), title=f"p = {self.pvalue:.3g}")
        return ax


@mechanism(columns={"column": "numeric", "by": "category"})
def anova(
    curator: Curator,
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    nan_policy: NanPolicy = "omit",
) -> Measured:
    """Test whether several groups have equal means, without assuming equal variances (Welch).

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
    sensitivity 3, or 3/2 if rows come and go; (y, (1 - y²)/2, 1) with 2 where the groups are public; and rows
    beyond the bounds, which add 1/8 to it, or 1/16.

    **Statistics.** The p-value is that of Welch's F for normal groups, averaged over what the noise leaves open
    about means, variances and sizes; without noise it is Welch's. The interval of η² holds the values that a test
    of them would not reject. Means are weaker than ranks where bounds are loose: ``kruskal`` asks whether groups
    differ, this by how much. All intervals are for the population.

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
    return measure_moments(curator, column, nan_policy, by, chosen_groups(by, groups, most=None))


@anova.concludes
def conclude_anova(
    measured: Measured,
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None,
    nan_policy: NanPolicy,
    alpha: Probability = 0.05,
    confidence: Probability = 0.95,
) -> Anova:
    """Compute the analysis of variance from the noisy sums of the groups."""
    sums = NoisyMoments.from_sums(*measured, column)
    kept = chosen_groups(by, groups, most=None)
    test, each = omnibus(sums), infer(sums, mean)
    lows, highs = each.interval(confidence)
    eta_low, eta_high = test.interval(confidence)
    pairs, apart, corrected = pairwise(sums)
    p, lost = float(test.pvalue), sums.missing
    return Anova(
        statistic=float(test.statistic),
        pvalue=p,
        alpha=alpha,
        rejected=p <= alpha,
        eta_squared=float(test.eta_squared),
        eta_squared_low=float(eta_low),
        eta_squared_high=float(eta_high),
        groups=kept,
        means=tuple(each.estimate.tolist()),
        standard_errors=tuple(each.standard_error.tolist()),
        noise_standard_error=tuple(each.noise_standard_error.tolist()),
        lows=tuple(lows.tolist()),
        highs=tuple(highs.tolist()),
        confidence=confidence,
        sizes=tuple(sums.size.tolist()),
        comparisons=tuple(
            (kept[one], kept[other], *numbers)
            for (one, other), *numbers in zip(
                pairs, apart.estimate.tolist(), apart.standard_error.tolist(), corrected.tolist(), strict=True
            )
        ),
        missing=None if lost is None else lost[0],
        missing_standard_error=None if lost is None else lost[1],
        column=column.name,
        by=by.name,
        nan_policy=nan_policy,
        notes=(*sums.limits(kept), *_notes(sums, each, p, alpha)),
        clipped=sums.shares,
        released=sums.released,
    )


def _notes(sums: NoisyMoments, each: Inference, p: float, alpha: float) -> tuple[str, ...]:
    """Return notes on the reliability of the test and its estimates."""
    notes = []
    if sums.size_is_doubtful or each.unclear_variance.any() or (sums.estimate.n < _MIN_GROUP_ROWS).any():
        notes.append(
            "Uninformative: a group is small, or its size or variance may be mostly noise. Do not trust the "
            f"p-value and the intervals. Use a larger epsilon, more rows, or kruskal(). {UNDECLARED}"
        )
    elif is_unreliable(p, worst_pvalue(p, skewness(each, sums).max()), alpha):
        notes.append("The p-value assumes nearly normal data: if the data are skewed, it may be too small.")
    noise = (each.noise_standard_error / np.maximum(each.sampling_standard_error, 1e-12 * sums.half)).max()
    if noise > 2:  # noqa: PLR2004
        notes.append(
            f"Privacy noise is {noise:.2g} times the sampling error. To find smaller differences, use "
            f"{noise:.2g} times the epsilon, bounds 1/{noise:.2g} as wide if the data fit, or kruskal(), which "
            "compares ranks."
        )
    return tuple(notes)


def check_anova(column: Column, by: Column, *, groups: Sequence[Any] | None, **_: Any) -> None:
    """Check the arguments of a test of several groups before anything is charged."""
    check_distinct_columns(column, by)
    chosen_groups(by, groups, most=None)


def plan_anova(
    curator: Curator, *, column: Column, by: Column, groups: Sequence[Any] | None, alpha: float, **_: Any
) -> Mapping[str, Any]:
    """Return the expected standard error of a mean, and the smallest detectable difference; for ``explain``."""
    (noisy, sizes), (rows, given) = curator.planned, assumed_rows(curator)
    sums = NoisyMoments.from_sums(noisy, sizes, column)
    k, sd = len(chosen_groups(by, groups, most=None)), assumed_sd(column, None)
    n = np.full(k, rows / len(by.categories or ())) if sums.rows is None else sums.rows

    def releases(distance: float) -> NoisyMoments:
        """Simulate releases of groups with equal means, except that the first group is shifted by `distance`."""
        return sums.simulate(n, column.mid + distance * (np.arange(k) == 0), [sd] * k, FEW)

    def rejections(distance: float) -> float:
        return float((omnibus(releases(distance), FEW).pvalue <= alpha).mean())

    noise, error = expected_errors(releases(0.0), mean)
    none, about = "none; kruskal() compares ranks", f"{sd:.3g} (a sixth of the range){given}"
    return {
        f"expected standard error of a mean, if the standard deviation in groups is {about}": error,
        **smallest_effect(
            "distance of one mean from all others", rejections, column.half, write="{:.3g}".format, none=none
        ),
        "expected relative error": noise / sd,
    }


def draw_descending_means(
    rng: np.random.Generator,
    n: int,
    column: Column,
    by: Column,
    groups: Sequence[Any] | None,
    *,
    effect: float = 0.5,
    spread: Annotated[float, Range(1e-12, 1e300)] | None = None,
    first: Probability | None = None,
) -> dict[str, Any]:
    """Draw normal groups whose means decrease by `effect` standard deviations from one group to the next."""
    return groups_in_steps(rng, n, column, by, groups, effect, spread, first)


anova = anova.checks(check_anova).plans(plan_anova).assumes(draw_descending_means)
