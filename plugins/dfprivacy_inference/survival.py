"""``view.kaplan_meier``: how long until something happens, in groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, NanPolicy, Probability, Release, features, mechanism
from dfprivacy.plotting import axes
from dfprivacy.wording import listed, number, sure
from dfprivacy_inference.asking import check_apart, groups_of, public_sizes
from dfprivacy_inference.curves import Curve
from dfprivacy_inference.times import check_times, edges_of, events_of

if TYPE_CHECKING:
    from dfprivacy.release import NoisyValue

__all__ = ["EACH", "SurvivalCurves", "check_curves", "kaplan_meier"]

EACH = 25.0
"""Rows times epsilon that an interval should have."""
_NUMBERS = 10  # at risk that fit below a curve, at most


@dataclass(frozen=True, kw_only=True, repr=False)
class SurvivalCurves(Release):
    """Private survival curves with bands.

    Attributes
    ----------
    groups : tuple
        The groups; empty if there are none.
    median, median_low, median_high : tuple of float
        For each group the time that half of it outlives, and its confidence interval; infinite where the curve, or
        the end of its band, stays above 1/2.
    restricted_mean, restricted_mean_low, restricted_mean_high : tuple of float
        For each group the mean time from the first edge to the event or to the last edge, and its interval.
    edges : tuple of float
        Ends of the intervals of time.
    survival : tuple of tuples of float
        For each group the probability to live beyond each edge but the first.
    lows, highs : tuple of tuples of float
        The ends of a confidence interval for each of these.
    at_risk : tuple of tuples of float
        For each group the noisy number at risk at each edge but the last.
    confidence : float
        Coverage of each interval.
    time, event, by, nan_policy
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers.
    released : tuple
        For each group the noisy counts of events, and of censored times, by interval.
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

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        return (
            *(("groups",) if self.groups else ()),
            *("median", "median_low", "median_high"),
            *("restricted_mean", "restricted_mean_low", "restricted_mean_high", "notes"),
        )

    def _sentence(self) -> str:
        """Say what half of each group outlives."""
        unit, names = self._unit(self.time), self.groups or ("all rows",)
        told = [
            f"{number(value, (high - low) / 4)} {unit}".rstrip()
            + f" for {name}"
            + sure(low, high, self.confidence, unit=unit)
            for name, value, low, high in zip(names, self.median, self.median_low, self.median_high, strict=True)
        ]
        by = "" if self.by is None else f" by {self._noun(self.by)}"
        return f"The median {self._noun(self.time)} until {self._noun(self.event)}{by} is {listed(told, most=3)}."

    def _tidy(self) -> list[dict[str, Any]]:
        """State how long each group lives; `table` has the curves."""
        groups = [*map(str, self.groups)] or ["all"]
        return [
            {
                "group": groups,
                "term": name.replace("_", " "),
                "estimate": getattr(self, name),
                "low": getattr(self, f"{name}_low"),
                "high": getattr(self, f"{name}_high"),
            }
            for name in ("median", "restricted_mean")
        ]

    def table(self) -> Any:
        """Give the curves, a row for each group and time.

        Returns
        -------
        DataFrame or Table
            Of the library whose table was asked: group, time, survival, low, high, and how many are at risk before.
        """
        names = self.groups or (None,)
        times = self.edges[1:]
        return self._table({
            "group": [name for name in names for _ in times],
            "time": list(times) * len(names),
            "survival": [value for each in self.survival for value in each],
            "low": [value for each in self.lows for value in each],
            "high": [value for each in self.highs for value in each],
            "at_risk": [value for each in self.at_risk for value in each],
        })  # fmt: skip

    def plot(self, ax: Any = None) -> Any:
        """Draw the curves with their bands, what sampling alone makes of these, and the numbers at risk below."""
        names = self.groups or ("all",)
        ax = axes(ax, height=3.2 + 0.15 * len(names))
        shown = range(0, len(self.edges) - 1, -(-(len(self.edges) - 1) // _NUMBERS))
        below: dict[str, Any] = {"textcoords": "offset points", "fontsize": "small", "annotation_clip": False}
        ax.annotate("at risk", (0, 0), (-8, -44), xycoords="axes fraction", ha="right", **below)
        for at, name in enumerate(names):
            ends = (self.survival[at], self.lows[at], self.highs[at])
            middle, low, high = ([1.0, *each] for each in ends)
            (line,) = ax.plot(self.edges, middle, marker=".", label=str(name))
            ax.fill_between(self.edges, low, high, color=line.get_color(), alpha=0.2, lw=0)
            curve = Curve(np.array(self.released[at]), self.noise_standard_error / np.sqrt(2), np.array(self.edges))
            low, high = ([1.0, *each] for each in curve.bands(self.confidence, noise=False))
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
        whose = "" if self.by is None else f"{self._called(self.by)}, "
        ax.set(ylim=(0, 1), xlabel=self._called(self.time), ylabel="survival")
        bands = f"{whose}{self.confidence:.0%} bands; strong: without the noise"
        ax.legend(fontsize="small", frameon=False, title=bands)
        return ax


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
    """Estimate survival curves, with bands, medians and restricted means.

    Parameters
    ----------
    time : str
        A column of times with bounds, 0 or above.
    event : str
        Whether the time is that of the event, or of the last look (censored): a column with the categories 0 and 1,
        or False and True.
    edges : list of float, or int
        The ends of intervals of time, which cover the bounds; or how many intervals of one width. Ten to twenty are
        enough, and no more than a 25th of the number of rows times ε.
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
        The curves, with ``table()`` and ``plot()``.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: rows are counted by interval,
    event and group, with noise of the scale 2/ε, or 1/ε where rows come and go. All else is post-processing.

    **Statistics.** The actuarial estimate at the ends of the intervals: half of the times censored in an interval
    count as at risk in it. Bands are by log(-log S), with Greenwood's variance and that of redrawn noise; measured,
    they cover 93.8% to 97.5%. Between edges the curve is taken for straight. Whether two curves differ asks
    ``survival_test``.

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
    ends = edges_of(time, edges)
    cells: features.RowFeatures = features.OneHot(event, groups=events_of(event)) * features.Bins(time, ends)
    if by is not None:
        kept = groups_of(by, groups, least=1)
        public_sizes(curator, by, kept)
        cells = features.OneHot(by, groups=kept) * cells
    if gaps := curator.gaps([time], nan_policy):
        cells = features.Given(*gaps, of=cells)
    return curator.sum(cells)


@kaplan_meier.concludes
def _(
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
    """Conclude from the noisy counts."""
    noisy = measured
    ends = edges_of(time, edges)
    scale = float(np.ravel(noisy.scales)[0])
    counts = noisy.values.reshape(-1, 2, len(ends) - 1)
    kept = () if by is None else groups_of(by, groups, least=1)
    curves = [Curve(each, scale, ends) for each in counts]
    bands = [curve.bands(confidence) for curve in curves]
    medians = np.array([curve.median(confidence) for curve in curves]).T.tolist()
    means = np.array([curve.restricted_mean(confidence) for curve in curves]).T.tolist()
    notes = []
    rows = min(float(each.sum()) for each in counts)
    if scale and (len(ends) - 1) * EACH * scale / 2 > max(rows, 0.0):
        fewer = max(int(rows * 2 / scale / EACH), 2)
        notes.append(f"These are many intervals for the noise: about {fewer} would have narrower bands.")
    return SurvivalCurves(
        groups=kept,
        median=tuple(medians[0]),
        median_low=tuple(medians[1]),
        median_high=tuple(medians[2]),
        restricted_mean=tuple(means[0]),
        restricted_mean_low=tuple(means[1]),
        restricted_mean_high=tuple(means[2]),
        edges=tuple(float(edge) for edge in ends),
        survival=_rows([curve.survival for curve in curves]),
        lows=_rows([low for low, _ in bands]),
        highs=_rows([high for _, high in bands]),
        at_risk=_rows([curve.estimate.at_risk for curve in curves]),
        confidence=confidence,
        time=time.name,
        event=event.name,
        by=None if by is None else by.name,
        nan_policy=nan_policy,
        notes=tuple(notes),
        released=tuple(_rows(each) for each in counts),
        noise_standard_error=float(np.sqrt(2) * scale),
    )


def _rows(values: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(value) for value in each) for each in values)


def check_curves(
    time: Column,
    event: Column,
    edges: Sequence[float] | int,
    *,
    by: Column | None,
    groups: Sequence[Any] | None,
    **_: Any,
) -> None:
    """Refuse what is no survival, before anything is paid."""
    check_times(time, event)
    edges_of(time, edges)
    if by is None:
        if groups is not None:
            raise ArgumentError("groups= was given without by=.", "Name the column that holds the groups.")
        return
    check_apart(time, event, by)
    groups_of(by, groups, least=1)
