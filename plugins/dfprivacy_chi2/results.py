"""What the tests of one table return."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy

from dfprivacy import ArgumentError, ConfidenceInterval, Release
from dfprivacy.markup import Grid
from dfprivacy.plotting import axes, below, ink, wrapped
from dfprivacy.schema import UNDECLARED, as_probability
from dfprivacy.wording import number, sure
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.laws import folded_sf, normal_laplace_sf
from dfprivacy_chi2.margin import NoisyMargin
from dfprivacy_chi2.omitted import Omitted
from dfprivacy_chi2.table import NoisyTable, merged

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Chi2", "Margin", "Tested"]

Margin = Literal["private", "public_rate", "invariant"]
Tested = Literal["calibrated", "signed", "table", "difference", "distance", "spread", "association", "unit_circle"]

_DEVIATION = math.sqrt(2)
_RELEASED = {  # what a picture's axis is of
    "calibrated": "difference of shares",
    "signed": "difference of shares",
    "difference": "absolute difference of shares",
    "table": "χ²",
}
_SURE = 7.0  # scales of noise by which the number of complete rows is raised: exceeded once in two thousand
_LIKELY = 2.0


@dataclass(frozen=True, kw_only=True, repr=False)
class Chi2(Release):
    """Result of a private test of independence.

    Attributes
    ----------
    statistic : float or None
        Pearson's χ² of what was released. Noise is in it: if there is no association it has not the χ² law but, of
        two shares, that of the square of a normal plus a Laplace variable, and of a table that of noisy counts.
        Where the share of X = 1 is not known, the least that it may be. None where the number of rows that decide
        was released.
    pvalue : float
        Probability, at most, of a release beyond this one if there is no association; noise included.
    alpha : float
        Level of the decision.
    rejected : bool
        Whether independence is rejected at that level.
    direction : str or None
        Which cells hold more and fewer rows than independence would make expected. None where one number was
        released that does not tell, or where noise and sampling leave it open.
    shares : tuple of tuples of float, or None
        For each group, the noisy share of each category.
    effect : {"difference", "absolute difference", "Cramér's V"} or None
        What `low` and `high` are of: the difference of the shares of X = 1, first group minus second; its
        absolute value, where the sign was not released; or Cramér's V of the table.
    estimate : float or None
        The effect.
    low, high : float or None
        Ends of its confidence interval.
    confidence : float
        Its coverage.
    missing, missing_standard_error : float or None
        Noisy number of rows that were left out, and its standard error; None where nothing was left out, or it is
        not known.
    method : {"calibrated", "signed", "table", "difference", "distance", "spread", "association", "unit_circle"}
        How it was tested.
    released : tuple of float
        What was released. ``"calibrated"``: the difference of shares of complete rows times the smaller number of
        them, over the smaller size; half of the rows with X = 1 less half of those with X = 0; and, where they are
        left out, the rows without X in each group. ``"signed"``: the first of these. ``"table"``: the counts,
        group by group. Else one number: the absolute difference, the number of rows that decide, the spread of
        shares, the association, or the norm.
    noise_standard_error : tuple of float
        Standard deviation of the noise in each.
    sizes : tuple of int
        Rows in each group where that is public; where the groups are private, the rows in all, or nothing.
    omitted : bool
        Whether rows without X were left out, and how many was not released.
    x, by, categories, groups
        What was compared.
    rate : float, tuple or None
        What was known of the share of X = 1, or of each category.
    margin : {"private", "public_rate", "invariant"}
        What the calibration may know of the number of X = 1.
    tau : float or None
        Value of χ² that the circle or the distance stands for.
    guarantee : str
        What the noise protects, where that is not what the account says.
    notes : tuple of str
        What to know before trusting the numbers; an uninformative answer says so here.
    """

    statistic: float | None = None
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

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        names = ["statistic", "pvalue", "rejected", "direction", "effect", "estimate", "low", "high"]
        names += ["missing"] * (self.missing is not None and self.missing > 2 * (self.missing_standard_error or 0))
        names += ["method", "sizes", "guarantee", "notes"]
        return tuple(name for name in names if getattr(self, name) not in {None, ""})

    def _grid(self) -> Grid | None:
        """Show the share of each category in each group."""
        if not self.shares:
            return None
        rows = [
            (str(name), *(f"{share:.3f}" for share in of))
            for name, of in zip(self.groups, self.shares, strict=True)
        ]
        return Grid((f"shares of {self.x} in {self.by}", *map(str, self.categories)), rows)

    def _sentence(self) -> str:
        """Say whether there is an association, which way, and how large it is."""
        x, by = self._noun(self.x), self._noun(self.by)
        if self.effect is None or self.estimate is None or self.low is None or self.high is None:
            found = "is associated with" if self.rejected else "is not shown to be associated with"
            return f"{x} {found} {by}{sure(p=self.pvalue)}."
        how = sure(self.low, self.high, self.confidence, p=self.pvalue)
        told = number(abs(self.estimate), (self.high - self.low) / 4)
        if self.effect == "Cramér's V":
            found = "is associated with" if self.rejected else "is not shown to be associated with"
            return f"{x} {found} {by}: Cramér's V is {told}{how}."
        share = f"The share of {x} = {self.categories[1]}"
        first, second = (f"{by} = {group}" for group in self.groups)
        if not self.rejected:
            apart = f"the {self.effect} is {number(self.estimate, (self.high - self.low) / 4)}"
            return f"{share} is not shown to differ between {first} and {second}: {apart}{how}."
        if self.effect == "absolute difference":
            return f"{share} differs by {told} between {first} and {second}{how}."
        more = "lower" if self.estimate < 0 else "higher"
        return f"{share} is {told} {more} for {first} than for {second}{how}."

    def _tidy(self) -> list[dict[str, Any]]:
        """State the effect and its test, and the share of each category in each group."""
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
    def scale(self) -> float:
        """The scale of the Laplace noise in what was released first; the old name warns."""
        _renamed("scale", "noise_standard_error[0], which is √2 times as much,")
        return self._scale

    @property
    def total(self) -> float | None:
        """The noisy number of X = 1; the old name warns."""
        _renamed("total", "released[1], which counts from half of the rows,")
        return self.released[1] + sum(self._complete_rows(0)) / 2 if self.method == "calibrated" else None

    @property
    def total_scale(self) -> float | None:
        """The scale of its noise; the old name warns."""
        _renamed("total_scale", "noise_standard_error[1], which is √2 times as much,")
        return self.noise_standard_error[1] / _DEVIATION if self.method == "calibrated" else None

    @property
    def reject(self) -> _Reject:
        """Whether independence is rejected, as it was asked: ``reject(alpha)``; the old name warns."""
        return _Reject(self.pvalue, self.alpha)

    def critical_value(self, alpha: float = 0.05) -> float:
        """Return the value that is exceeded with probability `alpha` at most if there is no association.

        Parameters
        ----------
        alpha : float
            Level. Any costs nothing: it is computed from what is public or released.

        Returns
        -------
        float
            In the units of ``released[0]``, of its absolute value if it has a sign; of `statistic` for a table.
            Infinity where nothing can be concluded.
        """
        level = as_probability(alpha, "alpha")
        if self.method == "table":
            table, *_ = self._noisy_table()
            return math.inf if table is None else table.critical_value(level)
        return float(self._null().critical_value(level, self._scale))

    def confidence_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Interval for the effect.

        Parameters
        ----------
        confidence_level : float, optional
            Coverage; default: the one asked for. Any other costs nothing.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``, in the units of `estimate`.
        """
        if self.low is None or self.high is None:
            raise ArgumentError(
                f"What method {self.method!r} releases says nothing of the size of an effect.",
                'Use method="auto".',
            )
        if confidence_level is None:
            return ConfidenceInterval(self.low, self.high)
        level = as_probability(confidence_level, "confidence_level")
        if self.method == "table":
            table, *_ = self._noisy_table()
            return ConfidenceInterval(0.0, 1.0) if table is None else ConfidenceInterval(*table.interval(level))
        return self._interval_of(level)

    def judged(self) -> Chi2:
        """Return the same with all that follows from one number."""
        null, number = self._null(), self.released[0]
        pvalue = min(max(float(null.pvalue(number, self._scale)), 0.0), 1.0)
        known: dict[str, Any] = {}
        if self.method in {"difference", "signed"}:
            low, high = self._interval_of(self.confidence)
            known = {"effect": "absolute difference", "estimate": max(number, 0.0), "low": low, "high": high}
            known["covers"] = "population"
        if self.method == "signed":
            known |= {"effect": "difference", "estimate": min(max(number, -1.0), 1.0)}
            known |= {"direction": self._direction(number, clear=low > 0 or high < 0 or pvalue <= self.alpha)}
        return replace(
            self, **known, **self._decided(pvalue), statistic=self._chi2_at_least(), notes=self._remarks()
        )

    def of_difference(self) -> Chi2:
        """Return the same with all that follows from a signed difference and a number of X = 1."""
        null = self._null()
        pvalue = null.pvalue(self.released[0], self._scale)
        apart, q, (n1, n0) = self._difference()
        first, second = self._two_shares()
        # χ² at a share that the noisy number of X = 1 does not exclude: one near 0 would make it infinite.
        n = n1 + n0
        share = q if min(q, 1 - q) * n > null.reach * null.total_scale else null.share()
        variance = max(share * (1 - share), 1 / n**2)
        low, high = self._signed_interval(self.confidence)
        clear = low > 0 or high < 0 or pvalue <= self.alpha
        return replace(
            self,
            **self._decided(pvalue),
            statistic=n1 * n0 / n * apart**2 / variance,
            direction=self._direction(apart, clear=clear),
            shares=((1 - first, first), (1 - second, second)),
            effect="difference",
            estimate=min(max(apart, -1.0), 1.0),
            low=low,
            high=high,
            covers="population",
            notes=self._remarks(),
        )

    def of_table(self, table: NoisyTable | None, rows: list[list[int]], columns: list[list[int]]) -> Chi2:
        """Return the same with all that follows from noisy counts."""
        noisy = np.maximum(np.reshape(self.released, (len(self.groups), len(self.categories))), 0.0)
        totals = np.maximum(noisy.sum(axis=1, keepdims=True), 1e-9)
        shares = tuple(tuple(map(float, each)) for each in noisy / totals)
        if table is None:
            note = f"Uninformative: too few rows for this noise in any two categories and groups. {UNDECLARED}"
            return replace(
                self, shares=shares, effect="Cramér's V", low=0.0, high=1.0, covers="population", notes=(note,)
            )
        pvalue = min(max(table.pvalue(table.statistic), 0.0), 1.0)
        low, high = table.interval(self.confidence)
        notes = tuple(
            f"too few rows for this noise, taken together: {', '.join(str(names[at]) for at in part)}"
            for names, parts in ((self.categories, rows), (self.groups, columns))
            for part in parts
            if len(part) > 1
        )
        return replace(
            self,
            **self._decided(pvalue),
            statistic=table.statistic,
            direction=self._cells(table, rows, columns) if pvalue <= self.alpha else None,
            shares=shares,
            effect="Cramér's V",
            estimate=table.cramers_v(),
            low=low,
            high=high,
            covers="population",
            notes=notes,
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw what was released, the spread of its noise, and where it would be significant."""
        ax = axes(ax)
        of_table = self.method == "table"
        number = (self.statistic or 0.0) if of_table else self.released[0]
        for alpha, style in ((0.05, "--"), (0.01, ":")):
            at = self.critical_value(alpha)
            if math.isfinite(at):
                side = -1 if self.method in {"calibrated", "signed"} and number < 0 else 1
                ax.axvline(side * at, color="tab:red", ls=style, label=f"significant at {alpha:.0%}")
        spread = None if of_table else self.noise_standard_error[0]
        ax.errorbar(number, 0, xerr=spread, fmt="o", color=ink(ax), capsize=4, label="released, with noise")
        what = _RELEASED.get(self.method, self.method.replace("_", " "))
        about = f"{self._called(self.x)} by {self._called(self.by)}"
        ax.set(yticks=[], xlabel=wrapped(f"{what}, {about}"), title=f"p = {self.pvalue:.3g}")
        below(ax, ncols=3)
        return ax

    @property
    def _scale(self) -> float:
        return self.noise_standard_error[0] / _DEVIATION

    def _decided(self, pvalue: float) -> dict[str, Any]:
        return {"pvalue": pvalue, "rejected": pvalue <= self.alpha}

    def _null(self) -> Any:
        """Return what the noisy number may be distributed as if there is no association."""
        if self.method == "association":
            return nulls.association(self.sizes[0])
        if self.method == "spread":
            return nulls.spread(len(self.categories), len(self.sizes), self.rate)
        n1, n0 = self.sizes
        if self.method == "difference":
            return nulls.difference(n1, n0, self.rate, complete=not self.omitted)
        if self.method == "calibrated":
            return self._noisy_margin()
        if self.method == "signed":
            return Omitted(min(n1, n0), signed=True)
        tau = TAU if self.tau is None else self.tau
        if self.method == "distance":
            return nulls.distance(n1, n0, tau, self.rate)
        if self.margin == "invariant":
            return nulls.Null((nulls.norm_given_margin(n1, n0, tau, round(self.rate * (n1 + n0))),))
        return nulls.norm(n1, n0, tau, self.rate, complete=not self.omitted)

    def _noisy_table(self) -> tuple[NoisyTable | None, list[list[int]], list[list[int]]]:
        counts = np.reshape(self.released, (len(self.groups), len(self.categories))).T
        deviations = np.reshape(self.noise_standard_error, counts.T.shape).T
        return merged(counts, deviations, groups=not self.sizes)

    def _chi2_at_least(self) -> float | None:
        """Return Pearson's χ² of one number; where the share of X = 1 is not known, at the one nearest 1/2."""
        number = abs(self.released[0]) if self.method == "signed" else max(self.released[0], 0.0)
        if self.method == "distance":
            return None
        if self.method == "association":  # margins that make it least are even
            n = self.sizes[0]
            return 16 * (number * (n - 1)) ** 2 / n**3
        if self.method == "spread":
            if len(self.categories) > 2:  # noqa: PLR2004
                return number**2 if self.rate is not None else 2 * number**2
            p = nulls.nearest_half(self.rate)
            return number**2 / (p * (1 - p))
        n1, n0 = self.sizes
        p = nulls.nearest_half(self.rate)
        if self.method == "unit_circle":
            tau = TAU if self.tau is None else self.tau
            return max(0.0, tau * (1 + (number**2 - 1) / (4 * p * (1 - p))))
        return n1 * n0 / (n1 + n0) * number**2 / (p * (1 - p))

    def _cells(self, table: NoisyTable, rows: list[list[int]], columns: list[list[int]]) -> str:
        """Name the cells that are two standard deviations from expectation; if none is, the farthest."""
        residuals = table.residuals()
        far = np.abs(residuals) >= min(2.0, float(np.abs(residuals).max()))
        rows_named, columns_named = (
            ["/".join(str(names[at]) for at in part) for part in parts]
            for names, parts in ((self.categories, rows), (self.groups, columns))
        )
        sentences = []
        for sign, word in ((1, "above"), (-1, "below")):
            cells = [
                f"{rows_named[i]} in {columns_named[j]}" for i, j in np.argwhere(far & (np.sign(residuals) == sign))
            ]
            if cells:
                sentences.append(f"{word} expectation: {', '.join(cells)}")
        return "; ".join(sentences)

    def _complete_rows(self, scales: float) -> tuple[int, ...]:
        """Give rows of each group with a value of X: all that are not missing, and some scales of noise more."""
        missing = self.released[2:] or (0.0,) * len(self.sizes)
        more = scales * self.noise_standard_error[-1] / _DEVIATION  # of the missing, where there are any
        return tuple(max(1, min(n, round(n - gone + more))) for n, gone in zip(self.sizes, missing, strict=True))

    def _difference(self) -> tuple[float, float, tuple[int, ...]]:
        """Give the noisy difference of shares, the noisy share of X = 1, and the noisy numbers of complete rows."""
        rows = self._complete_rows(0)
        q = min(max(0.5 + self.released[1] / sum(rows), 0.0), 1.0)
        return self.released[0] * min(self.sizes) / min(rows), q, rows

    def _two_shares(self) -> tuple[float, float]:
        apart, q, (n1, n0) = self._difference()
        first, second = q + apart * n0 / (n1 + n0), q - apart * n1 / (n1 + n0)
        return min(max(first, 0.0), 1.0), min(max(second, 0.0), 1.0)

    def _noisy_margin(self) -> NoisyMargin:
        """Return the null hypothesis of the signed difference, in units of the smaller size.

        The number released varies more, the more rows are complete, so those that may be are taken to be. The share
        of X = 1 is judged by those that are likely to be.
        """
        n1, n0 = sure = self._complete_rows(_SURE)
        likely = sum(self._complete_rows(_LIKELY))
        part = sum(sure) / likely
        total_scale = self.noise_standard_error[1] / _DEVIATION
        unit = min(sure) / min(self.sizes)
        return NoisyMargin(n1, n0, (likely / 2 + self.released[1]) * part, total_scale * part, unit=unit)

    def _signed_interval(self, confidence: float) -> ConfidenceInterval:
        """Give the signed differences that are not rejected, the variance at the shares that may be.

        The half width is at least that of the test of no difference.
        """
        apart, _, rows = self._difference()
        null = self._null()
        unit = min(self.sizes) / min(rows)
        scale, width = self._scale * unit, null.critical_value(1 - confidence, self._scale) * unit
        toward = 2 * null.total_scale / null.rows + 2 * scale
        variance = 0.0
        for size, share in zip(rows, self._two_shares(), strict=True):
            wide = share + min(max(0.5 - share, -toward), toward)
            variance += wide * (1 - wide) / size
        width = max(width, _half_width(math.sqrt(variance), scale, (1 - confidence) / 2))
        low, high = (min(max(apart + side * width, -1.0), 1.0) for side in (-1, 1))
        return ConfidenceInterval(low, high)

    def _interval_of(self, confidence: float) -> ConfidenceInterval:
        """Give the interval for the difference, with its sign or without."""
        if self.method == "calibrated":
            return self._signed_interval(confidence)
        return self._widest_interval(confidence) if self.method == "signed" else self._interval(confidence)

    def _widest_interval(self, confidence: float) -> ConfidenceInterval:
        """Give the signed differences that are not rejected, whatever the shares are, by normal laws.

        The half width is at least that of the test of no difference.
        """
        n1, n0 = (min(self.sizes),) * 2 if self.omitted else self.sizes
        number, sd = self.released[0], math.sqrt((1 / n1 + 1 / n0) / 4)
        width = max(self.critical_value(1 - confidence), _half_width(sd, self._scale, (1 - confidence) / 2))
        return ConfidenceInterval(*(min(max(number + side * width, -1.0), 1.0) for side in (-1, 1)))

    def _direction(self, apart: float, *, clear: bool) -> str | None:
        """Say in which group X = 1 is more frequent."""
        one, other = self.groups if apart >= 0 else self.groups[::-1]
        where = f"{self.by} = {one} than in {self.by} = {other}"
        return f"{self.x} = {self.categories[1]} is more frequent in {where}" if clear else None

    def _interval(self, confidence: float) -> ConfidenceInterval:
        """Give the absolute differences that two tests of level (1 - confidence)/2, one on either side, leave.

        Normal laws, with the largest variance that there is; the test of no difference decides about 0.
        """
        n1, n0 = self.sizes
        p = nulls.nearest_half(self.rate)
        tail = (1 - confidence) / 2
        least = min(n1, n0) if self.omitted else None  # as few may be left of the larger group

        def sd(difference: float) -> float:
            if self.rate is None:
                return math.sqrt((1 / (least or n1) + 1 / (least or n0)) / 4)
            n = n1 + n0
            sides = []
            for d in (difference, -difference):
                p1, p0 = (min(max(share, 0.0), 1.0) for share in (p + d * n0 / n, p - d * n1 / n))
                sides.append(p1 * (1 - p1) / n1 + p0 * (1 - p0) / n0)
            return math.sqrt(max(sides))

        def above(difference: float) -> float:
            return float(folded_sf(self.released[0], difference, sd(difference), self._scale))

        low = _crossing(lambda d: above(d) - tail)
        if self._null().pvalue(self.released[0], self._scale) > tail:
            low = 0.0
        return ConfidenceInterval(low, _crossing(lambda d: above(d) - (1 - tail)))

    def _remarks(self) -> tuple[str, ...]:
        """Say what to know before trusting the numbers."""
        notes = []
        if self.method in {"difference", "calibrated", "signed"}:
            n1, n0 = self.sizes
            if self._scale > math.sqrt((1 / n1 + 1 / n0) / 4):
                notes.append(
                    "the noise is larger than what sampling leaves open: only large differences can be found"
                )
        if self.method in {"difference", "association", "spread"}:
            notes.append(
                'the direction was not released: nan_policy="omit" or method="calibrated" or "table" tells it'
            )
            if self.released[0] < -3 * self._scale:
                notes.append("uninformative: the noise outweighs the number released, which cannot be negative")
        if self.omitted and self.method != "unit_circle":
            notes.append("how many rows are complete was not released: differences are at least as large as these")
        if self.method == "spread" and min(self.sizes) < 20:  # noqa: PLR2004
            notes.append("a group has fewer than 20 rows: the p-value's chi-squared law is an approximation")
        return tuple(notes)


@dataclass(frozen=True)
class _Reject:
    """The decision under its old name, which was a method: the decision as well where it is not called."""

    pvalue: float
    alpha: float

    def __call__(self, alpha: float = 0.05) -> bool:
        _renamed("reject()", "rejected, or pvalue <= alpha at another level,")
        return self.pvalue <= as_probability(alpha, "alpha")

    def __bool__(self) -> bool:
        _renamed("reject", "rejected")
        return self.pvalue <= self.alpha


def _renamed(old: str, new: str) -> None:
    warnings.warn(
        f"Chi2.{old} is called {new} now; the old name goes with the next release.", FutureWarning, stacklevel=3
    )


def _half_width(sd: float, scale: float, tail: float) -> float:
    """Return what a normal variable of mean 0 plus a Laplace one exceeds with this probability."""
    reach = 10 * (sd + scale) * (1 + math.log(1 / tail))
    return float(scipy.optimize.brentq(lambda t: float(normal_laplace_sf(t, sd, scale)) - tail, 0.0, reach))


def _crossing(rising: Callable[[float], float]) -> float:
    """Return where in [0, 1] a function becomes positive."""
    if rising(0.0) >= 0:
        return 0.0
    return float(scipy.optimize.brentq(rising, 0.0, 1.0, xtol=1e-12)) if rising(1.0) > 0 else 1.0
