"""Results of rank tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dfprivacy import ArgumentError, ConfidenceInterval, NanPolicy, Release
from dfprivacy.plotting import axes, below, explained, ink, interval, wrapped
from dfprivacy.wording import clearly_some, number, pvalue, sure
from dfprivacy_inference.laws import Alternative

__all__ = ["KruskalWallis", "MannWhitney", "SurvivalTest", "Wilcoxon", "plain"]

_ROUGH = 0.01  # to how much a probability without an interval is written
_SIDES = {"two-sided": "different from", "greater": "above", "less": "below"}


@dataclass(frozen=True, kw_only=True, repr=False)
class _Test(Release):
    """What every test says."""

    pvalue: float
    alpha: float
    rejected: bool
    missing: float | None
    missing_standard_error: float | None
    nan_policy: NanPolicy
    notes: tuple[str, ...]
    released: tuple[float, ...]
    noise_standard_error: tuple[float, ...]

    def _seen(self, *names: str) -> tuple[str, ...]:
        """Give the fields to show: those that say something."""
        told = [name for name in names if getattr(self, name) is not None]
        if clearly_some(self.missing, self.missing_standard_error):
            told += ["missing", "missing_standard_error"]
        return (*told, "notes")


@dataclass(frozen=True, kw_only=True, repr=False)
class _TwoGroupTest(_Test):
    """What a rank test of two groups says."""

    statistic: float | None
    effect: float | None
    low: float | None
    high: float | None
    confidence: float
    sizes: tuple[float, ...] | None
    by: str
    groups: tuple[Any, ...]
    alternative: Alternative
    noise_share: float | None = None
    covers: str | None = "limited population"

    def _sentence(self) -> str:
        """Say how often one of the first group has the larger value, and what the test finds."""
        first, second = self.groups
        found = "" if self.rejected else "not "
        one = f"The larger {self._what} is that of {self._noun(self.by)} = {first}, not {second},"
        if self.effect is None:
            return f"{one} {found}shown to be {_SIDES[self.alternative]} an even chance{sure(p=self.pvalue)}."
        low, high = self.confidence_interval()
        how = sure(low, high, self.confidence, noise=self.noise_share, p=self.pvalue)
        told = f"with probability {number(self.effect, (high - low) / 4)}"
        return f"{one} {told}, {found}shown to be {_SIDES[self.alternative]} an even chance{how}."

    @property
    def _uninformative(self) -> bool:
        nothing = self.effect is not None and self.confidence_interval() == (0.0, 1.0)
        return nothing or super()._uninformative

    @property
    def _what(self) -> str:
        """Name what is compared."""
        raise NotImplementedError

    def _tidy(self) -> list[dict[str, Any]]:
        """State the effect and its test."""
        first, second = self.groups
        n = None if self.sizes is None else sum(self.sizes)
        numbers = {"estimate": self.effect, "low": self.low, "high": self.high}
        tested = {"statistic": self.statistic, "pvalue": self.pvalue, "n": n}
        return [{"term": f"P({first} > {second})", **numbers, **tested}]

    def confidence_interval(self) -> ConfidenceInterval:
        """Interval for the effect.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``; 0 and 1 where nothing is known.
        """
        if self.low is None or self.high is None:
            return ConfidenceInterval(0.0, 1.0)
        return ConfidenceInterval(self.low, self.high)

    def plot(self, ax: Any = None) -> Any:
        """Draw the effect and its interval, from 0 to 1."""
        ax = axes(ax)
        low, high = self.confidence_interval()
        middle = (low + high) / 2 if self.effect is None else self.effect
        interval(ax, 0, middle, (low, high), noise=self.noise_share)
        if self.effect is not None:
            ax.plot(self.effect, 0, "o", color=ink(ax))
        ax.axvline(0.5, color="grey", ls=":", label="alike")
        first, second = self.groups
        column = str(getattr(self, "column", None) or getattr(self, "time", ""))
        what = f"P({first} > {second}), {self._called(column)} by {self._called(self.by)}"
        ax.set(xlim=(0, 1), yticks=[], xlabel=wrapped(what), title=f"p = {self.pvalue:.3g}")
        explained(ax, self.confidence, [self.noise_share], "o")
        return ax


@dataclass(frozen=True, kw_only=True, repr=False)
class MannWhitney(_TwoGroupTest):
    """Result of a private Mann-Whitney U test.

    Attributes
    ----------
    statistic : float or None
        U of the first group, with noise: in how many pairs its value is the larger one, half for ties. None where
        the sizes of the groups were not measured.
    pvalue : float
        Probability, if both groups follow one law, of a rank sum at least as extreme; noise included.
    alpha : float
        The level of the test.
    rejected : bool
        Whether the null hypothesis is rejected at that level.
    effect : float or None
        Common-language effect: P(X > Y) + P(X = Y)/2 for X of the first group and Y of the second.
    low, high : float or None
        Ends of its confidence interval.
    confidence : float
        The interval's coverage.
    noise_share : float or None
        The part of its width that noise makes, from 0 to 1; None where there is no interval, or it was not kept.
    shift : float or None
        Hodges-Lehmann estimate of how far the first group lies above the second, if it was asked for.
    sizes : tuple of float or None
        Rows with a value in each group; noisy where they are private.
    missing : float or None
        Noisy number of rows in neither group or without a value; None where it is not known.
    missing_standard_error : float or None
        Its standard error, from noise alone.
    column, by, groups, alternative, nan_policy
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers.
    released : tuple of float
        The noisy numbers that all this follows from.
    noise_standard_error : tuple of float
        The standard errors that privacy adds to each of them.
    """

    column: str
    shift: float | None

    @property
    def _what(self) -> str:
        return self._noun(self.column)

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        shown = ("statistic", "pvalue", "alpha", "rejected", "effect", "low", "high", "shift", "groups", "sizes")
        return self._seen(*shown)

    def _tidy(self) -> list[dict[str, Any]]:
        """State the effect and its test, and the shift if it was asked for."""
        shift = [] if self.shift is None else [{"term": "shift", "estimate": self.shift}]
        return [*super()._tidy(), *shift]

    @property
    def rank_biserial(self) -> float | None:
        """Rank-biserial correlation, 2 effect - 1."""
        return None if self.effect is None else 2 * self.effect - 1


@dataclass(frozen=True, kw_only=True, repr=False)
class SurvivalTest(_TwoGroupTest):
    """Result of a private Gehan-Wilcoxon test of two survival curves.

    Attributes
    ----------
    statistic : float or None
        Gehan's statistic, with noise: in how many pairs the one of the first group surely lived longer, less those
        in which the other did. None where the sizes of the groups were not measured.
    pvalue : float
        Probability, if both groups follow one law, of a statistic at least as extreme; noise included.
    alpha : float
        The level of the test.
    rejected : bool
        Whether the null hypothesis is rejected at that level.
    effect : float or None
        Probability that one of the first group surely lives longer than one of the second, and half of that nobody
        can tell which; censoring draws it towards 1/2.
    low, high : float or None
        Ends of its confidence interval.
    confidence : float
        The interval's coverage.
    noise_share : float or None
        The part of its width that noise makes, from 0 to 1; None where there is no interval, or it was not kept.
    sizes : tuple of float or None
        Rows with a value in each group; noisy where they are private.
    missing, missing_standard_error
        As for `MannWhitney`.
    time, event, by, groups, alternative, nan_policy
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers.
    released, noise_standard_error
        As for `MannWhitney`.
    """

    time: str
    event: str

    @property
    def _what(self) -> str:
        return f"{self._noun(self.time)} until {self._noun(self.event)}"

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._seen("statistic", "pvalue", "alpha", "rejected", "effect", "low", "high", "groups", "sizes")


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
        As for `MannWhitney`.
    column, by, groups, nan_policy
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers.
    released, noise_standard_error
        As for `MannWhitney`.
    """

    statistic: float | None
    largest_rank_sum: float
    sizes: tuple[float, ...] | None
    column: str
    by: str
    groups: tuple[Any, ...]

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._seen("statistic", "largest_rank_sum", "pvalue", "alpha", "rejected", "groups", "sizes")

    def plot(self, ax: Any = None) -> Any:
        """Draw the statistic and the noise in it; there is no estimate of an effect."""
        ax, reach = axes(ax), 2 * self.noise_standard_error[0]
        ax.plot(
            [self.largest_rank_sum - reach, self.largest_rank_sum + reach],
            [0, 0],
            color="tab:orange",
            lw=3,
            label="± 2 standard errors of the noise",
        )
        ax.plot(self.largest_rank_sum, 0, "o", color=ink(ax), label="released")
        what = f"T, distance of the rank sums of {self._called(self.column)} by {self._called(self.by)}"
        ax.set(yticks=[], xlabel=wrapped(what), title=f"p = {self.pvalue:.3g}")
        below(ax)
        return ax

    def _sentence(self) -> str:
        """Say whether the groups differ; there is no estimate."""
        found = "differs" if self.rejected else "is not shown to differ"
        what = f"{self._noun(self.column)} {found} between {len(self.groups)} groups of {self._noun(self.by)}"
        return f"{what} ({pvalue(self.pvalue)}); how much is not estimated."

    def _tidy(self) -> list[dict[str, Any]]:
        """State the test; there is no estimate."""
        n = None if self.sizes is None else sum(self.sizes)
        term = f"{self.column} by {self.by}"
        told = {"statistic": self.statistic, "largest_rank_sum": self.largest_rank_sum}
        return [{"term": term, **told, "pvalue": self.pvalue, "n": n}]


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
        As for `MannWhitney`.
    column, other, popmean, alternative, nan_policy
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers.
    released, noise_standard_error
        As for `MannWhitney`.
    """

    statistic: float
    effect: float
    method: Literal["rank", "sign"]
    rows: float
    column: str
    other: str | None
    popmean: float
    alternative: Alternative

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._seen("statistic", "pvalue", "alpha", "rejected", "effect", "method", "rows")

    def _sentence(self) -> str:
        """Say how often differences are above, and what the test finds."""
        apart = "" if self.other is None else f" less {self._noun(self.other)}"
        two = "the mean of two values of " if self.method == "rank" else ""
        found = "" if self.rejected else "not "
        against = f"{self.popmean:g} {self._unit(self.column)}".rstrip()
        chance = f"with probability {number(self.effect, _ROUGH)}, {found}shown to be"
        what = f"{two}{self._noun(self.column)}{apart} is above {against} {chance}"
        how = sure(p=self.pvalue)
        return f"{what[0].upper()}{what[1:]} {_SIDES[self.alternative]} an even chance{how}; it has no interval."

    def _tidy(self) -> list[dict[str, Any]]:
        """State the effect and its test."""
        what = self.column if self.other is None else f"{self.column} - {self.other}"
        against = f" > {self.popmean:g}" if self.other is None or self.popmean else " > 0"
        tested = {"statistic": self.statistic, "pvalue": self.pvalue, "n": self.rows}
        return [{"term": f"P({what}{against})", "estimate": self.effect, **tested}]

    def plot(self, ax: Any = None) -> Any:
        """Draw the effect, from 0 to 1; it has no interval."""
        ax = axes(ax)
        ax.plot(self.effect, 0, "o", color=ink(ax), label="effect, without an interval")
        ax.axvline(0.5, color="grey", ls=":", label="alike")
        what = self._called(self.column)
        apart = f" minus {self._called(self.other)}" if self.other is not None else ""
        two = "the mean of two of " if self.method == "rank" else ""
        ax.set(
            xlim=(0, 1),
            yticks=[],
            xlabel=wrapped(f"P({two}{what}{apart} > {self.popmean:g})", 56),
            title=f"p = {self.pvalue:.3g}",
        )
        below(ax)
        return ax

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
