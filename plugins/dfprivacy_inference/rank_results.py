"""Results of rank tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import ArgumentError, ConfidenceInterval, NanPolicy, Release
from dfprivacy.estimates import Estimate
from dfprivacy.plotting import axes, below, ink, wrapped
from dfprivacy.wording import number, pvalue, sure, with_unit
from dfprivacy_inference.groups import Shapes, TwoGroups

if TYPE_CHECKING:
    from dfprivacy.inference.engine import Alternative

__all__ = ["KruskalWallis", "MannWhitney", "RankTest", "SurvivalTest", "Wilcoxon", "plain"]

_ROUGH = 0.01  # to how much a probability without an interval is written
_LAST = ("missing", "missing_standard_error", "notes")
_SIDES = {"two-sided": "different from", "greater": "above", "less": "below"}


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
    _redrawn = Release._redrawn  # noqa: SLF001 - there are no moments

    @property
    def effect(self) -> float | None:
        """The estimate; None where the sizes of the groups were not measured."""
        return None if math.isnan(self.estimate) else self.estimate

    @property
    def rank_biserial(self) -> float | None:
        """Rank-biserial correlation, 2 effect - 1."""
        return None if self.effect is None else 2 * self.effect - 1

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        known = ("statistic", "effect", "low", "high") if self.effect is not None else ()
        return (*known, "pvalue", "alpha", "rejected", "groups", "sizes", *_LAST)

    @property
    def _what(self) -> str:
        """Name what is compared."""
        return self._noun(self.column)

    def _sentence(self) -> str:
        """Write how often one of the first group has the larger value, and what the test finds."""
        first, second = self.groups
        found = f"{'' if self.rejected else 'not '}shown to be {_SIDES[self.alternative]} 50%"
        one = f"the {self._what} for {self._noun(self.by)} = {first} is larger than that for {second}"
        if self.effect is None:
            return f"The share of pairs in which {one} is {found}{sure(p=self.pvalue)}."
        low, high, share, error = (100 * x for x in (self.low, self.high, self.effect, self.standard_error))
        how = sure(low, high, self.confidence, unit="%", noise=self._noise_part, p=self.pvalue)
        return f"In {number(share, error)}% of pairs {one}, {found}{how}."

    @property
    def _uninformative(self) -> bool:
        return (self.effect is not None and (self.low, self.high) == (0.0, 1.0)) or super()._uninformative

    def _tidy(self) -> list[dict[str, Any]]:
        """State the effect and its test."""
        (row,) = super()._tidy()
        n = None if self.sizes is None else self.n
        return [{**row, "term": self.term, "estimate": self.effect, "statistic": self.statistic, "n": n}]

    def _interval(self, level: float) -> tuple[Any, Any]:
        if self.effect is None:
            return self.low, self.high
        two = TwoGroups(**{**self.released, "values": np.array(self.released["values"])})
        return two.effect(self.shapes).interval(level)

    def plot(self, ax: Any = None) -> Any:
        """Draw the effect and its interval, from 0 to 1."""
        ax = super().plot(ax)
        what = f"{self.term}, {self._called(self.column)} by {self._called(self.by)}"
        ax.set(xlim=(0, 1), xlabel=wrapped(what), title=f"p = {self.pvalue:.3g}")
        return ax


@dataclass(frozen=True, kw_only=True, repr=False)
class MannWhitney(RankTest):
    """Result of a private Mann-Whitney U test, as ``RankTest``."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SurvivalTest(RankTest):
    """Result of a private Gehan-Wilcoxon test of two survival curves, as ``RankTest`` of times.

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
    def _what(self) -> str:
        return f"{self._noun(self.column)} until {self._noun(self.event)}"


@dataclass(frozen=True, kw_only=True, repr=False)
class _Test(Release):
    """The result of a test without an interval."""

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
    def _drawn(self) -> tuple[float, float, str]:
        """Number in the picture, the noise in it, and its name."""
        raise NotImplementedError

    def plot(self, ax: Any = None) -> Any:
        """Draw the number that the test is of, and the noise in it; there is no interval."""
        ax, (value, noise, what) = axes(ax), self._drawn
        ends = [value - 2 * noise, value + 2 * noise]
        ax.plot(ends, [0, 0], color="tab:orange", lw=3, label="± 2 standard errors of the noise" * (noise > 0))
        ax.plot(value, 0, "o", color=ink(ax), label="released")
        ax.set(yticks=[], xlabel=wrapped(what, 56), title=f"p = {self.pvalue:.3g}")
        below(ax)
        return ax


@dataclass(frozen=True, kw_only=True, repr=False)
class KruskalWallis(_Test):
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
    _shown = ("statistic", "largest_rank_sum", "pvalue", "alpha", "rejected", "groups", "sizes", *_LAST)

    @property
    def _drawn(self) -> tuple[float, float, str]:
        what = f"T, distance of the rank sums of {self._called(self.column)} by {self._called(self.by)}"
        return self.largest_rank_sum, self.noise_standard_error[0], what

    def _sentence(self) -> str:
        """Write whether the groups differ; there is no estimate."""
        found = "differs" if self.rejected else "is not shown to differ"
        what = f"{self._noun(self.column)} {found} between {len(self.groups)} groups of {self._noun(self.by)}"
        return f"{what} ({pvalue(self.pvalue)}); how much is not estimated."

    def _tidy(self) -> list[dict[str, Any]]:
        """State the test; there is no estimate."""
        n = None if self.sizes is None else sum(self.sizes)
        term = f"{self.column} by {self.by}"
        return [{"term": term, "statistic": self.statistic, "pvalue": self.pvalue, "n": n}]


@dataclass(frozen=True, kw_only=True, repr=False)
class Wilcoxon(_Test):
    """Result of a private signed-rank or sign test.

    Attributes
    ----------
    statistic : float
        The sum of signed ranks W, zeros ranked as well, or, with ``method="sign"``, of signs; with noise.
    pvalue : float
        Probability, if differences lie symmetrically about 0 (signs: if their median is 0), of a statistic at least
        as extreme; noise included.
    alpha : float
        The level of the test.
    rejected : bool
        Whether the null hypothesis is rejected at that level.
    effect : float
        Estimate of P(d + d' > 0), half of ties, for two differences; with signs, of P(d > 0).
    method : {"rank", "sign"}
        What was measured.
    rows : float
        Rows with a value; noisy where their number is private.
    missing, missing_standard_error
        As for ``RankTest``.
    column, other, popmean, alternative, nan_policy
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers.
    released : tuple of float
        The noisy numbers that all this follows from.
    noise_standard_error : tuple of float
        The standard errors that privacy adds to each of them.
    """

    statistic: float
    effect: float
    method: Literal["rank", "sign"]
    rows: float
    other: str | None
    popmean: float
    alternative: Alternative

    _row_counts = ("rows",)
    _shown = ("statistic", "pvalue", "alpha", "rejected", "effect", "method", "rows", *_LAST)

    def _sentence(self) -> str:
        """Write how often differences are above, and what the test finds."""
        apart = "" if self.other is None else f" less {self._noun(self.other)}"
        two = "the mean of two values of " if self.method == "rank" else ""
        found = "" if self.rejected else "not "
        against = with_unit(f"{self.popmean:g}", self._unit(self.column))
        cases = "pairs of rows" if self.method == "rank" else "rows"
        share = f"In {number(100 * self.effect, 100 * _ROUGH)}% of {cases} {two}{self._noun(self.column)}{apart}"
        shown = f"{found}shown to be {_SIDES[self.alternative]} 50%{sure(p=self.pvalue)}"
        return f"{share} is above {against}, {shown}; there is no interval."

    def _tidy(self) -> list[dict[str, Any]]:
        """State the effect and its test."""
        what = self.column if self.other is None else f"{self.column} - {self.other}"
        against = f" > {self.popmean:g}" if self.other is None or self.popmean else " > 0"
        tested = {"statistic": self.statistic, "pvalue": self.pvalue, "n": self.rows}
        return [{"term": f"P({what}{against})", "estimate": self.effect, **tested}]

    @property
    def _drawn(self) -> tuple[float, float, str]:
        apart = f" minus {self._called(self.other)}" if self.other is not None else ""
        two = "the mean of two of " if self.method == "rank" else ""
        return self.effect, 0.0, f"P({two}{self._called(self.column)}{apart} > {self.popmean:g})"

    def confidence_interval(self) -> ConfidenceInterval:
        """Refuse: there is none for this effect.

        Raises
        ------
        ArgumentError
            Always, with the reason.
        """
        raise ArgumentError(
            "There is no interval for the effect of signed ranks: how far their sum varies where the hypothesis "
            "does not hold depends on the law of the differences, and no bound for all laws is narrow enough.",
            "The effect is an estimate. ttest() has an interval for a mean, mannwhitneyu() one for two groups.",
        )


def plain(values: Any) -> tuple[float, ...]:
    """Make plain numbers of those of an array, or of a sequence."""
    return tuple(float(each) for each in np.ravel(values))
