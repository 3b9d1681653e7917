"""Results of tests of independence in one table."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dfprivacy import ArgumentError, ConfidenceInterval, Release
from dfprivacy.markup import Grid
from dfprivacy.plotting import axes, legend_below, text_color, wrap_label
from dfprivacy.schema import UNDECLARED, as_probability
from dfprivacy.wording import number, uncertainty
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.inference import NoisyTable, SignedDifference, UnitCircleTest

__all__ = ["Chi2", "Margin", "Tested", "with_conclusions"]

Margin = Literal["private", "public_rate", "invariant"]
Tested = Literal["signed", "table", "unit_circle"]

_LAPLACE_SD = math.sqrt(2)  # of a Laplace variable of scale 1
_EFFECTS = {"signed": "difference of shares", "table": "χ²", "unit_circle": "unit circle"}  # what an axis is of


@dataclass(frozen=True, kw_only=True, repr=False)
class Chi2(Release):
    """Result of a private test of independence.

    Attributes
    ----------
    statistic : float
        Pearson's χ² of what was released. Noise is in it, so if there is no association it has not the χ² law; of a
        table, each direction counts as far as it is not noise. Where the share of X = 1 is not known, the least
        that it may be.
    pvalue : float
        Probability of a release beyond this one if there is no association; noise included.
    alpha : float
        Level of the decision.
    rejected : bool
        Whether independence is rejected at that level.
    direction : str or None
        Which cells hold more and fewer rows than independence would make expected. None where noise and sampling
        leave it open, and of the unit circle, which does not tell.
    shares : tuple of tuples of float, or None
        For each group, the noisy share of each category.
    effect : {"difference", "Cramér's V"} or None
        What `low` and `high` are of: the difference of the shares of X = 1, first group minus second, or Cramér's V
        of the table.
    estimate : float or None
        The effect.
    low, high : float or None
        Ends of its confidence interval.
    confidence : float
        Its coverage.
    missing, missing_standard_error : float or None
        Noisy number of rows that were left out, and its standard error; None where nothing was left out, or it is
        not known.
    method : {"signed", "table", "unit_circle"}
        How it was tested.
    released : tuple of float
        What was released. ``"signed"``: the difference of shares of complete rows times the smaller number of them,
        over the smaller size; and, with enough rows and epsilon, half of the rows with X = 1 less half of those
        with X = 0, and the rows without X in each group, where they are left out. ``"table"``: the counts, group by
        group. ``"unit_circle"``: the norm.
    noise_standard_error : tuple of float
        Standard deviation of the noise in each.
    sizes : tuple of int
        Rows in each group where that is public.
    omitted : bool
        Whether rows without X were left out, and how many was not released.
    x, by, categories, groups
        What was compared.
    rate : float, tuple or None
        What was known of the share of X = 1.
    margin : {"private", "public_rate", "invariant"}
        What the calibration may know of the number of X = 1.
    tau : float or None
        Value of χ² that the circle stands for.
    guarantee : str
        What the noise protects, where that is not what the account says.
    notes : tuple of str
        What to know before trusting the numbers; an uninformative answer says so here.
    """

    statistic: float = 0.0
    pvalue: float = 1.0
    alpha: float
    rejected: bool = False
    direction: str | None = None
    shares: tuple[tuple[float, ...], ...] | None = None
    effect: str | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95
    missing: float | None = None
    missing_standard_error: float | None = None
    method: Tested
    released: tuple[float, ...]
    noise_standard_error: tuple[float, ...]
    sizes: tuple[int, ...]
    omitted: bool = False
    x: str
    by: str
    categories: tuple[Any, ...]
    groups: tuple[Any, ...]
    rate: Any = None
    margin: Margin = "private"
    tau: float | None = None
    guarantee: str = ""
    notes: tuple[str, ...] = ()

    _shown = (
        *("statistic", "pvalue", "rejected", "direction", "effect", "estimate", "low", "high", "missing"),
        *("method", "sizes", "guarantee", "notes"),
    )

    def _grid(self) -> Grid | None:
        """Return the printed table of the share of each category in each group."""
        if not self.shares:
            return None
        rows = [
            (str(name), *(f"{share:.3f}" for share in of))
            for name, of in zip(self.groups, self.shares, strict=True)
        ]
        return Grid((f"shares of {self.x} in {self.by}", *map(str, self.categories)), rows)

    def _sentence(self) -> str:
        """Write a sentence on whether there is an association, its direction and its size."""
        x, by = self._label(self.x), self._label(self.by)
        associated = f"{x} {'is' if self.rejected else 'is not shown to be'} associated with {by}"
        if self.estimate is None or self.low is None or self.high is None:
            return f"{associated}{uncertainty(p=self.pvalue)}."
        how = uncertainty(self.low, self.high, self.confidence, p=self.pvalue)
        error = (self.high - self.low) / 4
        if self.effect == "Cramér's V":
            return f"{associated}: Cramér's V is {number(self.estimate, error)}{how}."
        share = f"The share of {x} = {self.categories[1]}"
        first, second = (f"{by} = {group}" for group in self.groups)
        if not self.rejected:
            apart = f"the difference is {number(self.estimate, error)}"
            return f"{share} is not shown to differ between {first} and {second}: {apart}{how}."
        more = "lower" if self.estimate < 0 else "higher"
        return f"{share} is {number(abs(self.estimate), error)} {more} for {first} than for {second}{how}."

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the effect, its test, and the share of each category in each group as rows of a tidy table."""
        ends = {"estimate": self.estimate, "low": self.low, "high": self.high}
        tested = {"statistic": self.statistic, "pvalue": self.pvalue, "n": sum(self.sizes) or None}
        term = f"{self.x} by {self.by}"
        shares = [
            {"term": f"share of {self.x} = {category} in {self.by} = {group}", "estimate": share}
            for group, of in zip(self.groups, self.shares or (), strict=bool(self.shares))
            for category, share in zip(self.categories, of, strict=True)
        ]
        return [{"term": term, "effect": self.effect, **ends, **tested}, *shares]

    @property
    def _axis_label(self) -> str:
        return f"{self.effect or _EFFECTS[self.method]}, {self._with_units(self.x)} by {self._with_units(self.by)}"

    def critical_value(self, alpha: float = 0.05) -> float:
        """Return the critical value of the test statistic at level `alpha`, under independence.

        Parameters
        ----------
        alpha : float
            Level. Any costs nothing: it is computed from what is public or released.

        Returns
        -------
        float
            In the units of ``released[0]``, of its absolute value if it has a sign; of `statistic` for a table.
        """
        critical = self._test.critical_value(as_probability(alpha, "alpha"))
        return critical / min(self.sizes) if self.method == "signed" else critical

    def confidence_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Return a confidence interval for the difference of shares or for Cramér's V.

        Parameters
        ----------
        confidence_level : float, optional
            Coverage; default: the one asked for. Any other costs nothing.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``, in the units of `estimate`.
        """
        test = self._test
        if isinstance(test, UnitCircleTest):
            raise ArgumentError(
                "chi2_unitcircle() has no confidence interval: its norm does not estimate an effect.", "Use chi2()."
            )
        level = (
            self.confidence if confidence_level is None else as_probability(confidence_level, "confidence_level")
        )
        return ConfidenceInterval(*test.interval(level))

    def plot(self, ax: Any = None) -> Any:
        """Draw the released statistic with the standard error of its noise, and the critical values."""
        ax = axes(ax)
        of_table = self.method == "table"
        value = self.statistic if of_table else self.released[0]
        for alpha, style in ((0.05, "--"), (0.01, ":")):
            side = -1 if self.method == "signed" and value < 0 else 1
            at = side * self.critical_value(alpha)
            ax.axvline(at, color="tab:red", ls=style, label=f"significant at {alpha:.0%}")
        spread = None if of_table else self.noise_standard_error[0]
        ax.errorbar(value, 0, xerr=spread, fmt="o", color=text_color(ax), capsize=4, label="released, with noise")
        about = f"{_EFFECTS[self.method]}, {self._with_units(self.x)} by {self._with_units(self.by)}"
        ax.set(yticks=[], xlabel=wrap_label(about), title=f"p = {self.pvalue:.3g}")
        legend_below(ax, ncols=3)
        return ax

    @property
    def _test(self) -> SignedDifference | NoisyTable | UnitCircleTest:
        """Test object with the released numbers, which computes p-values and intervals."""
        scales = [deviation / _LAPLACE_SD for deviation in self.noise_standard_error]
        if self.method == "table":
            return NoisyTable(np.reshape(self.released, (len(self.groups), len(self.categories))).T, scales[0])
        if self.method == "unit_circle":
            known = self.tau or TAU, self.margin, self.rate, self.omitted
            return UnitCircleTest(self.sizes, self.released[0], scales[0], *known)
        apart, *halves = self.released
        least = min(self.sizes)
        margins = (*halves[:1], *(gone / 2 for gone in halves[1:]))
        return SignedDifference(
            self.sizes, apart * least, scales[0] * least, margins, (*scales[1:2], 0.0)[0], omitted=self.omitted
        )


def with_conclusions(bare: Chi2) -> Chi2:
    """Return the result with all fields filled in that follow from its released numbers."""
    test = bare._test  # noqa: SLF001 - of this module
    known: dict[str, Any] = {"statistic": test.statistic, "pvalue": min(max(test.pvalue, 0.0), 1.0)}
    known["rejected"] = known["pvalue"] <= bare.alpha
    if not isinstance(test, UnitCircleTest):
        low, high = test.interval(bare.confidence)
        known |= {"estimate": test.estimate, "low": low, "high": high, "covers": "population"}
        clear = known["rejected"] or low > 0 or high < 0
        if isinstance(test, SignedDifference):
            known |= _difference_fields(bare, test, clear=clear)
        else:
            known |= _table_fields(bare, test, clear=clear)
        if high - low >= (2.0 if bare.method == "signed" else 1.0):
            known["notes"] = (
                *known["notes"],
                f"Uninformative: the confidence interval contains every possible effect. {UNDECLARED}",
            )
    return replace(bare, **known)


def _difference_fields(bare: Chi2, test: SignedDifference, *, clear: bool) -> dict[str, Any]:
    """Return the fields of a test of two shares: effect, direction, shares and notes."""
    one, other = bare.groups if test.estimate >= 0 else bare.groups[::-1]
    where = f"{bare.by} = {one} than in {bare.by} = {other}"
    notes = []
    n1, n0 = bare.sizes
    if test.scale > min(n1, n0) * math.sqrt((1 / n1 + 1 / n0) / 4):
        notes.append("privacy noise exceeds the sampling error: only large differences can be found")
    if bare.omitted:
        notes.append(
            "the number of rows with missing values was not released: if there are any, "
            "the true difference is farther from 0 than the estimate"
        )
    return {
        "effect": "difference",
        "direction": f"{bare.x} = {bare.categories[1]} is more frequent in {where}" if clear else None,
        "shares": tuple((1 - share, share) for share in test.shares) if test.margins else None,
        "notes": tuple(notes),
    }


def _table_fields(bare: Chi2, test: NoisyTable, *, clear: bool) -> dict[str, Any]:
    """Return the fields of a test of a table: shares, and the direction from the largest residuals."""
    counts, residuals = np.maximum(test.counts, 0.0), test.residuals()
    far = np.abs(residuals) >= min(2.0, float(np.abs(residuals).max()))
    sentences = []
    for sign, word in ((1, "more"), (-1, "less")):
        cells = [
            f"{bare.x} = {bare.categories[i]} where {bare.by} = {bare.groups[j]}"
            for i, j in np.argwhere(far & (np.sign(residuals) == sign))
        ]
        sentences += [f"{word} often than expected: {', '.join(cells)}"] if cells else []
    return {
        "effect": "Cramér's V",
        "direction": "; ".join(sentences) if clear else None,
        "shares": tuple(map(tuple, (counts / np.maximum(counts.sum(axis=0), 1e-9)).T.tolist())),
        "notes": (),
    }
