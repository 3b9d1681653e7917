"""``view.kaplan_meier``: estimate survival curves of groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dfprivacy import Column, Curator, NanPolicy, Probability, Range, Release, features, mechanism
from dfprivacy.laws import NoiseLaw
from dfprivacy.made_up import cycle_categories
from dfprivacy.markup import Grid
from dfprivacy.plotting import axes
from dfprivacy.schema import chosen_groups
from dfprivacy.wording import list_text, number, rows_phrase, with_unit
from dfprivacy_inference.asking import assumed_rows, check_distinct_columns, public_sizes
from dfprivacy_inference.curves import Curve, LifeTable, check_times, interval_edges

if TYPE_CHECKING:
    from dfprivacy.release import NoisyValue

__all__ = ["EACH", "SurvivalCurves", "draw_times", "kaplan_meier", "measure_life_tables"]

EACH = 25.0
"""Rows times epsilon that an interval should have."""
_MAX_TIMES = 10  # times of a curve in a text, or below a picture, at most


@dataclass(frozen=True, kw_only=True, repr=False)
class SurvivalCurves(Release):
    """Private survival curves of groups, with confidence bands, medians and restricted means.

    Attributes
    ----------
    groups : tuple
        The groups; empty if there are none.
    median, median_low, median_high : tuple of float
        For each group the time that half of it outlives, and its confidence interval, whose ends are edges;
        infinite where the curve, or the end of its band, stays above 1/2.
    restricted_mean, restricted_mean_low, restricted_mean_high : tuple of float
        For each group the mean time from the first edge to the event or to the last edge, and its interval, if
        times are spread smoothly within intervals of time.
    edges : tuple of float
        Ends of the intervals of time.
    survival : tuple of tuples of float
        For each group the probability to live beyond each edge but the first.
    lows, highs : tuple of tuples of float
        The ends of a confidence interval for each of these, for the population.
    at_risk : tuple of tuples of float
        For each group the noisy number at risk at each edge but the last.
    confidence : float
        Coverage of each interval.
    time, event, by, nan_policy
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers.
    released : tuple
        For each group the noisy counts by interval: of events, and of censored times with the part of the interval
        that they lived, and with the rest of it.
    noise_standard_error : float
        The standard error that privacy adds to each of these.
    """

    groups: tuple[Any, ...]
    median: tuple[float, ...]
    median_low: tuple[float, ...]
    median_high: tuple[float, ...]
    restricted_mean: tuple[float, ...]
    restricted_mean_low: tuple[float, ...]
    restricted_mean_high: tuple[float, ...]
    edges: tuple[float, ...]
    survival: tuple[tuple[float, ...], ...]
    lows: tuple[tuple[float, ...], ...]
    highs: tuple[tuple[float, ...], ...]
    at_risk: tuple[tuple[float, ...], ...]
    confidence: float
    time: str
    event: str
    by: str | None
    nan_policy: NanPolicy
    notes: tuple[str, ...]
    released: tuple[tuple[tuple[float, ...], ...], ...]
    noise_standard_error: float
    covers: str | None = "limited population"

    _shown = (
        *("groups", "median", "median_low", "median_high"),
        *("restricted_mean", "restricted_mean_low", "restricted_mean_high", "notes"),
    )

    def _sentence(self) -> str:
        """Write a sentence with the median survival time of each group."""
        unit, names = self._unit(self.time), self.groups or ("all rows",)
        told: list[str] = []
        whose = f" for {rows_phrase(self.covers or '')}"
        for name, value, low, high in zip(names, self.median, self.median_low, self.median_high, strict=True):
            error = (high - low) / 4 if math.isfinite(high) else (value - low) / 2
            median, *ends = (self._median_text(each, error) for each in (value, low, high))
            interval = " to ".join(dict.fromkeys(ends))
            of = whose * (len(told) == len(names) - 1)
            told.append(
                with_unit(median, unit)
                + f" for {name} ({100 * self.confidence:.4g}% CI {with_unit(interval, unit)}{of})"
            )
        by = "" if self.by is None else f" by {self._label(self.by)}"
        return (
            f"The median {self._label(self.time)} until {self._label(self.event)}{by} is {list_text(told, most=3)}."
        )

    def _rows(self) -> list[tuple[str, str]]:
        """Return the facts, with the time up to which the means are restricted."""
        rows = dict(super()._rows())
        rows["restricted_mean"] += f" (up to {self._label(self.time)} = {number(self.edges[-1])})"
        return list(rows.items())

    def _median_text(self, time: float, error: float) -> str:
        """Write the median survival time of a group, or that it lies beyond the last edge."""
        return number(time, error) if math.isfinite(time) else f"beyond {self.edges[-1]:g}"

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the median, the restricted mean and the survival curve of each group as rows of a tidy table."""
        groups = [*map(str, self.groups)] or ["all"]
        long: list[dict[str, Any]] = [
            {
                "group": groups,
                "term": name.replace("_", " "),
                "time": None,
                "estimate": getattr(self, name),
                "low": getattr(self, f"{name}_low"),
                "high": getattr(self, f"{name}_high"),
            }
            for name in ("median", "restricted_mean")
        ]
        curves = zip(groups, self.survival, self.lows, self.highs, self.at_risk, strict=True)
        names = ("group", "term", "time", "estimate", "low", "high", "n")
        for group, *columns in curves:
            long.append(dict(zip(names, (group, "survival", self.edges[1:], *columns), strict=True)))
        return long

    def _grid(self) -> Grid:
        """Return the printed table of the curves, at evenly spaced edges for each group."""
        shown = range(-1, -len(self.edges), -self._print_step)[::-1]
        rows = []
        for at, name in enumerate(self.groups or ("",)):
            for each in shown:
                low, high, left = self.lows[at][each], self.highs[at][each], self.at_risk[at][each]
                time = f"{name} {self.edges[each]:g}".strip()
                values = (number(end, (high - low) / 4) for end in (self.survival[at][each], low, high))
                rows.append((time, *values, f"{max(left, 0.0):.0f}"))
        level = f"{100 * self.confidence:.4g}%"
        return Grid(
            (self._with_units(self.time), "survival", f"{level} low", f"{level} high", "at risk before"), rows
        )

    @property
    def _print_step(self) -> int:
        """Number of intervals between two successive printed times."""
        return -(-(len(self.edges) - 1) // _MAX_TIMES)

    def plot(self, ax: Any = None) -> Any:
        """Draw the curves with their bands, the bands without noise, and the numbers at risk below."""
        names = self.groups or ("all",)
        ax = axes(ax, height=3.2 + 0.15 * len(names))
        shown = range(0, len(self.edges) - 1, self._print_step)
        below: dict[str, Any] = {"textcoords": "offset points", "fontsize": "small", "annotation_clip": False}
        ax.annotate("at risk", (0, 0), (-8, -44), xycoords="axes fraction", ha="right", **below)
        for at, name in enumerate(names):
            ends = (self.survival[at], self.lows[at], self.highs[at])
            middle, low, high = ([1.0, *each] for each in ends)
            (line,) = ax.plot(self.edges, middle, marker=".", label=str(name))
            ax.fill_between(self.edges, low, high, color=line.get_color(), alpha=0.2, lw=0)
            curve = Curve(np.array(self.released[at]), NoiseLaw(0.0), np.array(self.edges))
            low, high = ([1.0, *each] for each in curve.bands(self.confidence))
            ax.fill_between(self.edges, low, high, color=line.get_color(), alpha=0.3, lw=0)
            for edge in shown:
                number = max(self.at_risk[at][edge], 0.0)
                ax.annotate(
                    f"{number:.0f}",
                    (self.edges[edge], 0),
                    (0, -44 - 12 * at),
                    xycoords=ax.get_xaxis_transform(),
                    ha="center",
                    color=line.get_color(),
                    **below,
                )
        whose = "" if self.by is None else f"{self._with_units(self.by)}, "
        ax.set(ylim=(0, 1), xlabel=self._with_units(self.time), ylabel="survival")
        bands = f"{whose}{self.confidence:.0%} bands; dark: without noise"
        ax.legend(fontsize="small", frameon=False, title=bands)
        return ax


def measure_life_tables(
    curator: Curator,
    time: Column,
    event: Column,
    edges: Sequence[float] | int,
    by: Column | None,
    groups: Sequence[Any] | None,
    nan_policy: NanPolicy,
    strata: Column | None = None,
) -> NoisyValue:
    """Measure the life table of all rows or of each group; later calls with the same table reuse it.

    Parameters
    ----------
    curator : Curator
        Who measures.
    time, event, edges, by, groups, nan_policy
        As for `kaplan_meier`.
    strata : Column, optional
        Each of its categories has tables of its own.

    Returns
    -------
    NoisyValue
        Sums of `LifeTable`, of shape (3, K), (groups, 3, K), or (strata, groups, 3, K).
    """
    cells: features.RowFeatures = LifeTable(time, event, interval_edges(time, edges))
    if gaps := curator.gaps([time], nan_policy):
        cells = features.Given(*gaps, of=cells)
    if by is None:
        return curator.sum(cells)
    kept = chosen_groups(by, groups, least=1, most=None)
    public_sizes(curator, by, kept)
    cells = features.OneHot(by, groups=kept) * cells
    return curator.sum(cells if strata is None else features.OneHot(strata) * cells)


@mechanism(columns={"time": "numeric", "event": "category", "by": "category"})
def kaplan_meier(
    curator: Curator,
    time: Column,
    event: Column,
    edges: Sequence[float] | int,
    *,
    by: Column | None = None,
    groups: Sequence[Any] | None = None,
    nan_policy: NanPolicy = "omit",
) -> NoisyValue:
    """Estimate survival curves of groups, with confidence bands, medians and restricted means.

    Parameters
    ----------
    time : str
        A column of times with bounds, 0 or above.
    event : str
        Whether the time is that of the event, or of the last look (censored): a column with the categories 0 and 1,
        or False and True.
    edges : list of float, or int
        The ends of intervals of time, which cover the bounds; or how many intervals of one width. No more than a
        25th of the number of rows times ε: bands hardly widen up to there, and a median is known to the interval.
        An interval holds its upper end and not its lower one.
    by : str, optional
        A column with categories: a curve for each.
    groups : list or tuple of categories, optional
        The groups; default: all.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: a row in which `time` is missing does not count. ``"fill"``: it counts, with the column's fill
        value. ``"raise"``: it is refused, where `time` is public. A row without `event` counts nowhere.
    confidence : float
        Coverage of each interval.

    Returns
    -------
    SurvivalCurves
        The curves, medians and restricted means, with ``to_frame()`` and ``plot()``.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. A row is 1 in a cell of its
    group and interval: for an event; a censored time is f in one cell and 1 - f in another, f the part of the
    interval that was lived. So the sums move as counts do, by 2 in L1 if a row changes and by 1 if one comes or
    goes, and have noise of the scale 2/ε, or 1/ε. All else is post-processing.

    **Statistics.** Kaplan and Meier's estimate at the ends of the intervals: exact if times lie on edges, and
    otherwise with a hazard that is constant within an interval for those who are censored in it. Bands are
    quantiles of the mean, over redrawn noise, of the normal law of log(-log S) with Greenwood's variance; measured,
    they cover 93% to 97%. The median's interval is between the edges where the bands come down to 1/2: where in an
    interval events are the table does not tell. For the restricted mean -log S is a smooth curve between edges; a
    note says how much longer it is if events are at the ends of wide intervals. A time beyond the bounds counts as
    one at the bound, its event included. Whether two curves differ asks ``survival_test``, and by how much
    ``hazard_ratio``.

    References
    ----------
    .. [1] Kaplan and Meier (1958). Nonparametric estimation from incomplete observations. J. American Statistical
       Association 53.
    .. [2] Brookmeyer and Crowley (1982). A confidence interval for the median survival time. Biometrics 38.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"months": np.arange(2000) % 40, "died": [1, 1, 1, 0] * 500})
    >>> view = dp.protect(df, "kaplan-meier-example", epsilon=1, ledger="memory:",
    ...                   bounds={"months": (0, 40)}, categories={"died": [0, 1]})
    >>> curve = view.kaplan_meier("months", "died", 10, epsilon=1)
    >>> 15 < curve.median[0] < 35
    True
    """
    return measure_life_tables(curator, time, event, edges, by, groups, nan_policy)


@kaplan_meier.concludes
def conclude_kaplan_meier(
    measured: NoisyValue,
    time: Column,
    event: Column,
    edges: Sequence[float] | int,
    *,
    by: Column | None,
    groups: Sequence[Any] | None,
    nan_policy: NanPolicy,
    confidence: Probability = 0.95,
) -> SurvivalCurves:
    """Compute the survival curves of the groups from their noisy life tables."""
    ends = interval_edges(time, edges)
    law = NoiseLaw(float(np.ravel(measured.scales)[0]))
    tables = measured.values.reshape(-1, 3, len(ends) - 1)
    curves = [Curve(each, law, ends) for each in tables]
    bands = [curve.bands(confidence) for curve in curves]
    medians = [curve.median(*band) for curve, band in zip(curves, bands, strict=True)]
    means = [curve.restricted_mean(confidence) for curve in curves]
    median, median_low, median_high = zip(*medians, strict=True)
    mean, mean_low, mean_high = zip(*means, strict=True)
    return SurvivalCurves(
        groups=chosen_groups(by, groups, least=1, most=None),
        median=median,
        median_low=median_low,
        median_high=median_high,
        restricted_mean=mean,
        restricted_mean_low=mean_low,
        restricted_mean_high=mean_high,
        edges=tuple(float(edge) for edge in ends),
        survival=_nested_tuple([np.clip(curve.survival, *band) for curve, band in zip(curves, bands, strict=True)]),
        lows=_nested_tuple([low for low, _ in bands]),
        highs=_nested_tuple([high for _, high in bands]),
        at_risk=_nested_tuple([curve.at_risk for curve in curves]),
        confidence=confidence,
        time=time.name,
        event=event.name,
        by=None if by is None else by.name,
        nan_policy=nan_policy,
        notes=_notes(curves, means),
        released=tuple(_nested_tuple(each) for each in tables),
        noise_standard_error=law.standard_deviation,
    )


def _notes(curves: Sequence[Curve], means: Sequence[tuple[float, float, float]]) -> tuple[str, ...]:
    """Return notes on the reliability of survival curves and restricted means."""
    notes, scale, intervals = [], curves[0].law.scale, len(curves[0].edges) - 1
    rows = min(float(curve.table.sum()) for curve in curves)
    if scale and intervals * EACH * scale / 2 > max(rows, 0.0):
        fewer = max(int(rows * 2 / scale / EACH), 2)
        notes.append(
            f"The noise is large for this many intervals: with about {fewer} intervals the bands would be narrower."
        )
    longer = [curve.restricted_mean_if_late() - mean for curve, (mean, _, _) in zip(curves, means, strict=True)]
    if any(more > (high - low) / 2 for more, (_, low, high) in zip(longer, means, strict=True)):
        notes.append(
            "Restricted means assume that events are spread smoothly within intervals: if events are at the ends "
            f"of the intervals, such as times in whole months, the true ones are up to {max(longer):.2g} "
            "longer. Use narrower intervals."
        )
    return tuple(notes)


def _nested_tuple(values: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(value) for value in each) for each in values)


def check_kaplan_meier(
    time: Column,
    event: Column,
    edges: Sequence[float] | int,
    *,
    by: Column | None,
    groups: Sequence[Any] | None,
    **_: Any,
) -> None:
    """Check the arguments of `kaplan_meier` before anything is charged."""
    check_times(time, event)
    interval_edges(time, edges)
    check_distinct_columns(time, event, by)
    chosen_groups(by, groups, least=1, most=None)


def plan_kaplan_meier(
    curator: Curator,
    *,
    time: Column,
    edges: Sequence[float] | int,
    by: Column | None,
    groups: Sequence[Any] | None,
    confidence: float,
    **_: Any,
) -> dict[str, Any]:
    """Return the expected width of the confidence band at survival 1/2, without censoring; for ``explain``."""
    ends, (n, given) = interval_edges(time, edges), assumed_rows(curator)
    rows = float(n)
    if by is not None:
        known = curator.sizes(by, chosen_groups(by, groups, least=1, most=None))
        rows = n / len(by.categories or ()) if known is None else float(known.min())
    each = np.full(len(ends) - 1, rows / (len(ends) - 1))
    curve = Curve(np.stack([each, 0 * each, 0 * each]), NoiseLaw(curator.measured[-1].scale), ends)
    low, high = curve.bands(confidence)
    at = int(np.argmin(np.abs(curve.survival - 0.5)))
    return {
        f"width of the confidence band where {curve.survival[at]:.0%} survive, without censoring{given}": float(
            high[at] - low[at]
        )
    }


def draw_times(
    rng: np.random.Generator,
    n: int,
    time: Column,
    event: Column,
    by: Column | None,
    groups: Sequence[Any] | None,
    *,
    ratio: Annotated[float, Range(1e-3, 1e3)] = 1.5,
    censored: Probability | None = None,
    first: Probability | None = None,
) -> dict[str, Any]:
    """Draw exponential survival times with a hazard ratio; a third of the first group exceed the upper bound."""
    known = sorted(event.categories or ())
    of = np.zeros(n, dtype=int) if by is None else cycle_categories(by, n, groups, first)
    lived = rng.exponential(size=n) * time.high / np.log(3) / np.where(of == 0, 1.0, ratio)
    happened = lived < time.high
    end = np.minimum(lived, time.high)
    if censored is not None:
        lost = rng.random(n) < censored
        end, happened = np.where(lost, end * rng.random(n), end), happened & ~lost
    rows = {time.name: end, event.name: np.array(known, dtype=object)[happened.astype(int)]}
    if by is not None:
        rows[by.name] = np.array(by.categories if groups is None else groups, dtype=object)[of]
    return rows


kaplan_meier = kaplan_meier.checks(check_kaplan_meier).plans(plan_kaplan_meier).assumes(draw_times)
