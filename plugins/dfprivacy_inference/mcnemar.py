"""``view.mcnemar``: compare the frequencies of an outcome in two columns of the same rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import (
    ArgumentError,
    Column,
    ConfidenceInterval,
    Curator,
    NanPolicy,
    Probability,
    Release,
    mechanism,
)
from dfprivacy.features import RowFeatures
from dfprivacy.inference.counts import EVEN, NoisyCounts, arcsine_share, share_of_angle
from dfprivacy.inference.engine import Alternative, infer
from dfprivacy.inference.planning import FEW, power, smallest_effect
from dfprivacy.laws import NoiseLaw
from dfprivacy.plotting import NOISY, SAMPLED, axes, legend_below, text_color
from dfprivacy.wording import number, uncertainty
from dfprivacy_inference.asking import assumed_rows, check_distinct_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.features.base import Norm
    from dfprivacy.inference.counts import Counts

__all__ = ["Discordant", "McNemar", "discordant_share", "mcnemar"]

_CLEAR_ERRORS = 3.0  # standard errors above none
_DISCORDANT = 1 / 4  # of the rows, for a plan
_ROOT_HALF = 0.7071067811865477  # rounded up


class Discordant(RowFeatures):
    """Features of a row: half the difference of its outcome indicators in two columns, and half its absolute value.

    Parameters
    ----------
    column, other : Column
        Columns with categories.
    codes : tuple of two int
        The category of each.

    Notes
    -----
    Two rows are at most 1 apart in L1: (1/2, 1/2), (-1/2, 1/2) and zeros.
    """

    description = "differences of indicators of {columns}"
    shape = (2,)

    def __init__(self, column: Column, other: Column, codes: tuple[int, int]) -> None:
        self.columns, self.codes = (column, other), codes

    def rows(self, batch: Any) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        there = np.ones(batch.size, dtype=np.bool_)
        hits = []
        for column, code in zip(self.columns, self.codes, strict=True):
            codes = batch.codes(column)
            there &= codes < len(column.categories or ())
            hits.append((codes == code).astype(np.float64))
        apart = np.where(there, hits[0] - hits[1], 0.0) / 2
        return np.column_stack([apart, np.abs(apart)])

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        return 1.0 if norm == 1 else 0.5 if norm == math.inf else _ROOT_HALF

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the largest distance between the feature vectors of two rows."""
        return 0.0 if all(column.name in public for column in self.columns) else 1.0


@dataclass(frozen=True, kw_only=True, repr=False)
class McNemar(Release):
    """Result of a private test of paired outcomes.

    Attributes
    ----------
    statistic : float
        How many more rows have the outcome in the first column alone than in the second alone, with noise.
    pvalue : float
        Probability, if both are as many, of a statistic at least as extreme; noise included.
    alpha : float
        The level of the test.
    rejected : bool
        Whether the null hypothesis is rejected at that level.
    discordant : float
        Noisy number of rows with the outcome in one column alone.
    odds_ratio : float
        Rows with the outcome in the first column alone, over those in the second alone.
    low, high : float
        Ends of its confidence interval, which is one-sided where the test is.
    confidence : float
        Its coverage.
    column, other, success, alternative, nan_policy
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers.
    released : tuple of float
        Half of the statistic and half of `discordant`, as they were measured.
    noise_standard_error : float
        The standard error that privacy adds to each of these.
    """

    statistic: float
    pvalue: float
    alpha: float
    rejected: bool
    discordant: float
    odds_ratio: float
    low: float
    high: float
    confidence: float
    column: str
    other: str
    success: Any
    alternative: Alternative
    nan_policy: NanPolicy
    notes: tuple[str, ...]
    released: tuple[float, ...]
    noise_standard_error: float
    covers: str | None = "population"

    _shown = ("statistic", "pvalue", "alpha", "rejected", "discordant", "odds_ratio", "low", "high", "notes")

    def _sentence(self) -> str:
        """Write a sentence on which column has the outcome more often, and the result of the test."""
        first, second = self._label(self.column), self._label(self.other)
        finite = math.isfinite(self.low) and math.isfinite(self.high)
        error = (self.high - self.low) / 4 if finite else None
        odds = f"the odds ratio is {number(self.odds_ratio, error)}"
        how = uncertainty(self.low, self.high, self.confidence, p=self.pvalue)
        if self.rejected:
            more = "less" if self.statistic < 0 else "more"
            return f"{self.success} is {more} frequent in {first} than in {second}: {odds}{how}."
        return f"{self.success} is not shown to differ in frequency between {first} and {second}: {odds}{how}."

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the odds ratio, its test and the number of discordant rows as a row of a tidy table."""
        tested = {"statistic": self.statistic, "pvalue": self.pvalue}
        return [
            {"term": "odds ratio", "estimate": self.odds_ratio, "low": self.low, "high": self.high, **tested},
            {"term": "discordant rows", "estimate": self.discordant},
        ]

    def plot(self, ax: Any = None) -> Any:
        """Draw the odds ratio on a log scale, with its confidence interval and the part that is due to sampling."""
        ax = axes(ax)
        if self.low > 0 and math.isfinite(self.high):
            label = f"{self.confidence:.0%} interval, noise included"
            ax.plot([self.low, self.high], [0, 0], color=NOISY, lw=3, label=label)
            exact = NoisyCounts(np.array([self.released]), [NoiseLaw(0.0)] * 2, form="halves")
            ends = infer(exact, discordant_share).interval(self.confidence, self.alternative)
            inner = [_odds_of_share(share_of_angle(end)) for end in ends]
            if inner[0] > 0 and math.isfinite(inner[1]):
                ax.plot(inner, [0, 0], color=SAMPLED, lw=7, solid_capstyle="butt", label="of it from sampling")
        if 0 < self.odds_ratio < math.inf:
            ax.plot(self.odds_ratio, 0, "o", color=text_color(ax), label="estimate")
        ax.axvline(1, color="grey", ls=":", label="no difference")
        first, second = self._with_units(self.column), self._with_units(self.other)
        ax.set(xscale="log", yticks=[], title=f"p = {self.pvalue:.3g}")
        ax.set_xlabel(f"odds of {self.success}: {first} against {second}")
        for axis in (ax.xaxis.set_major_formatter, ax.xaxis.set_minor_formatter):
            axis("{x:.3g}")
        legend_below(ax, ncols=3)
        return ax

    def confidence_interval(self) -> ConfidenceInterval:
        """Return the confidence interval for the odds ratio.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``.
        """
        return ConfidenceInterval(self.low, self.high)


@mechanism(columns={"column": "category", "other": "category"})
def mcnemar(
    curator: Curator, column: Column, other: Column, *, success: Any, nan_policy: NanPolicy = "omit"
) -> NoisyCounts:
    """Test whether an outcome is equally frequent in two columns of the same rows.

    Parameters
    ----------
    column : str
        A column with categories.
    other : str
        Another one.
    success : category
        What may happen, a category of both.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: a row in which either is missing does not count. ``"fill"``: it counts where the column has the
        category ``"other"`` for it. ``"raise"``: it is refused, where the columns are public.
    alternative : {"two-sided", "less", "greater"}
        What is suspected of the first column.
    alpha : float
        The level at which `rejected` decides.
    confidence : float
        Coverage of the interval for the odds ratio.

    Returns
    -------
    McNemar
        With the names of statsmodels and scipy: ``statistic``, ``pvalue``.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. Half of the difference and
    half of the sum of the two numbers of discordant rows move by 1 together if one row changes, comes or goes, in
    L1.

    **Statistics.** What the two numbers of discordant rows may be is drawn from what was released. p-value and
    interval are those of the share of one kind of discordant rows, by the normal law of its angle, on average over
    the draws; the interval is told as odds.

    References
    ----------
    .. [1] McNemar (1947). Note on the sampling error of the difference between correlated proportions or
       percentages. Psychometrika 12.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"before": ["ill"] * 600 + ["well"] * 400, "after": ["ill"] * 300 + ["well"] * 700})
    >>> view = dp.protect(df, "mcnemar-example", epsilon=1, ledger="memory:",
    ...                   categories={"before": ["ill", "well"], "after": ["ill", "well"]})
    >>> view.mcnemar("before", "after", success="ill", epsilon=1).pvalue < 0.001
    True
    """
    if nan_policy == "raise":
        curator.refuse_missing(column, other)
    codes = (column.code(success), other.code(success))
    rows = None if curator.size is None else [curator.size]
    return NoisyCounts.from_sums(curator.sum(Discordant(column, other, codes)), rows, "halves")


@mcnemar.concludes
def conclude_mcnemar(
    measured: NoisyCounts,
    column: Column,
    other: Column,
    *,
    success: Any,
    nan_policy: NanPolicy,
    alternative: Alternative = "two-sided",
    alpha: Probability = 0.05,
    confidence: Probability = 0.95,
) -> McNemar:
    """Compute the result of McNemar's test from the noisy numbers of both kinds of discordant rows."""
    found = infer(measured, discordant_share)
    p = float(found.pvalue(EVEN, alternative))
    low, high = map(share_of_angle, found.interval(confidence, alternative))
    half, both = measured.values[0].tolist()
    error = measured.laws[1].standard_deviation
    return McNemar(
        statistic=2 * half,
        pvalue=p,
        alpha=alpha,
        rejected=p <= alpha,
        discordant=max(2 * both, 0.0),
        odds_ratio=_odds_of_share(measured.estimate.share[0, 0]),
        low=_odds_of_share(low),
        high=_odds_of_share(high),
        confidence=confidence,
        column=column.name,
        other=other.name,
        success=(column.categories or ())[column.code(success)],
        alternative=alternative,
        nan_policy=nan_policy,
        notes=("Uninformative: the number of discordant rows is not clearly above its noise.",)
        if both < _CLEAR_ERRORS * error
        else (),
        released=(half, both),
        noise_standard_error=error,
    )


def check_mcnemar(column: Column, other: Column, *, success: Any, **_: Any) -> None:
    """Check the arguments of `mcnemar` before anything is charged."""
    check_distinct_columns(column, other)
    column.code(success)
    other.code(success)


def discordant_share(counts: Counts) -> tuple[Any, Any, float]:
    """Return the arcsine transform of the share of discordant rows with the outcome in the first column."""
    return arcsine_share(counts[0])


def _odds_of_share(part: Any) -> float:
    """Return the odds p / (1 - p) that correspond to a share p."""
    return float(part / (1 - part)) if part < 1 else math.inf


def plan_mcnemar(curator: Curator, *, alternative: Alternative, alpha: float, **_: Any) -> dict[str, Any]:
    """Return the smallest detectable difference of two shares, if a quarter of the rows are discordant."""
    sums, (n, given) = replace(curator.planned, rows=None), assumed_rows(curator)
    sign = -1 if alternative == "less" else 1

    def power_at(distance: float) -> float:
        releases = sums.simulate([n * _DISCORDANT], [(1 + sign * distance / _DISCORDANT) / 2], FEW)
        return power(releases, discordant_share, null=EVEN, alternative=alternative, alpha=alpha)

    given = f", if the two columns differ in a quarter of the rows{given}"
    return smallest_effect("difference of the outcome's shares in both columns", power_at, _DISCORDANT, given=given)


def draw_pairs(
    rng: np.random.Generator,
    n: int,
    column: Column,
    other: Column,
    success: Any,
    *,
    effect: float = 0.1,
    discordant: Probability = 0.25,
) -> dict[str, Any]:
    """Draw pairs of outcomes with a given share of discordant pairs; the two columns' shares differ by `effect`."""
    if not abs(effect) <= discordant:
        raise ArgumentError(
            f"effect={effect:g} needs discordant={abs(effect):g} or more, and it is {discordant:g}.",
            "Increase discordant=, or choose a smaller effect.",
        )
    u = rng.random(n)
    one = u < (discordant + effect) / 2
    two = (u >= (discordant + effect) / 2) & (u < discordant)
    both = rng.random(n) < 0.5  # noqa: PLR2004 - of the others

    def categories_of(column: Column, happened: NDArray[np.bool_]) -> NDArray[Any]:
        known = column.categories or ()
        hit = known[column.code(success)]
        miss = next((each for each in known if each != hit), hit)
        return np.asarray(np.array([miss, hit], dtype=object)[happened.astype(int)])

    return {
        column.name: categories_of(column, one | (both & ~two)),
        other.name: categories_of(other, two | (both & ~one)),
    }


mcnemar = mcnemar.checks(check_mcnemar).plans(plan_mcnemar).assumes(draw_pairs)
