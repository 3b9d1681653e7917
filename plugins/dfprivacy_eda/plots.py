"""Pictures of the releases, drawn with matplotlib: each shows how sure it is.

Dots, bars and lines are what was released; the lines across them are intervals, whose coverage the legend says. The
colours can be told apart by people who see fewer of them, and in grey.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.plotting import axes, below, forest, ink, panels, stacked, wrapped
from dfprivacy.wording import number
from dfprivacy_eda.wording import called, named, stated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy_eda.aggregate import Aggregates
    from dfprivacy_eda.bounds import FoundBounds
    from dfprivacy_eda.correlation import _Matrix
    from dfprivacy_eda.describe import Description
    from dfprivacy_eda.profile import Profile
    from dfprivacy_eda.quantiles import Quantiles
    from dfprivacy_eda.results import ColumnStatistic, Entry
    from dfprivacy_eda.tables import Counts, Crosstab, Histogram

__all__ = [
    "bounds",
    "categories",
    "counts",
    "crosstab",
    "description",
    "histogram",
    "matrix",
    "numbers",
    "profile",
    "quantiles",
    "statistic",
]

BAR, SURE = "#9ec3e6", "#d95f02"
_TWO_SIDES = 1.96  # standard errors of a 95% interval
_SERIES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
_MOST_ROWS, _MOST_WRITTEN = 40, 240
_DARK = 0.65  # of the largest number, from which its square is too dark for black
_TAIL = 0.002  # of the rows, at each side, that a curve may leave out
_ROW = 0.28  # inches of a row
_LONG = 18  # letters beside a plot, from which a name is broken


def _plain(ax: Any) -> Any:
    """Take away the frame's right and upper side, which say nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _legend(ax: Any, **how: Any) -> None:
    ax.legend(frameon=False, fontsize="small", **how)


def _interval(confidence: float, *, noise: bool = True) -> str:
    return f"{100 * confidence:.4g}% CI{', all noise' if noise else ''}"


def statistic(release: ColumnStatistic, ax: Any) -> Any:
    """Draw a number, its interval if it has one, and what the interval is for."""
    ax = axes(ax)
    of = (release.covers or "table").removeprefix("limited ")
    known = release.low is not None and release.high is not None
    ax.set(yticks=[], xlabel=stated(release) + (f"; the interval is for the {of}" if known else ""))
    if release.low is None or release.high is None:
        ax.plot(release.value, 0, "o", color=ink(ax), label="released; its notes say how sure it is")
        below(ax)
        return ax
    values = [(release.value, release.low, release.high)]
    part = release._noise_part  # noqa: SLF001 - of our own kind
    return forest([""], values, ax.get_xlabel(), ax, noise=[part], confidence=release.confidence)


def histogram(release: Histogram, ax: Any) -> Any:
    """Draw a histogram with an interval for each bin; rows per unit where bins are not of one width."""
    ax = axes(ax)
    widths = np.diff(release.edges)
    even = bool(np.allclose(widths, widths[0], rtol=1e-9))
    every, rows = _counted_in(release)
    unit = (np.ones(len(widths)) if even else widths) * every
    low, high = (ends / unit for ends in release.intervals)
    ax.stairs(release.counts / unit, release.edges, fill=True, color=BAR)
    ax.stairs(release.counts / unit, release.edges, color=ink(ax), lw=0.6)
    middle = (release.edges[1:] + release.edges[:-1]) / 2
    ax.vlines(middle, low, high, color=SURE, label=_interval(release.confidence))
    what = called(release, release.column)
    ax.set(xlabel=what, ylabel=rows if even else f"{rows} per unit of {what}")
    ax.set_xlim(release.edges[0], release.edges[-1])
    ax.set_ylim(bottom=0)
    _legend(_plain(ax))
    return ax


def _counted_in(release: Histogram | Counts) -> tuple[float, str]:
    """Return what numbers of rows are divided by, and what they are: shares of all rows where these were asked."""
    return (max(release.total, 1.0), "share of rows") if release.normalize else (1.0, "rows")


def counts(release: Counts, ax: Any) -> Any:
    """Draw the number of each category with its interval; the first is on top."""
    shown, (every, rows) = release.categories[:_MOST_ROWS], _counted_in(release)
    numbers = (each[: len(shown)] / every for each in (release.counts, *release.intervals))
    ax = forest([*map(str, shown)], [*zip(*numbers, strict=True)], rows, ax, confidence=release.confidence,
                noise=[1.0 if release.noise_scale else None] * len(shown))  # fmt: skip
    rest = len(release.categories) - len(shown)
    ax.set_ylabel(called(release, release.column) + (f" ({rest} more not drawn)" if rest else ""))
    return ax


def categories(releases: Sequence[Counts], ax: Any) -> Any:
    """Draw the counts of several columns, one below the other."""
    if len(releases) == 1:
        return counts(releases[0], ax)
    return stacked(
        [called(each, each.column) for each in releases], [partial(counts, each) for each in releases], ax
    )


def numbers(release: Aggregates, ax: Any) -> Any:
    """Draw a line for each number, of a scale of its own: itself, and its interval."""
    told = [each for each in release._each if each.low is not None]  # noqa: SLF001 - of our own kind
    names = [wrapped(named(release, each.name, each.column, each.statistic), _LONG) for each in told]
    return panels(ax, [_panel([name], [each], "") for name, each in zip(names, told, strict=True)])


def description(release: Description, ax: Any) -> Any:
    """Draw a panel for each column of numbers: its mean and its quartiles, each with an interval."""
    shown, words = ("mean", "25%", "50%", "75%"), _interval(release.confidence)
    told = [each for each in release._each if each.statistic in shown and each.value is not None]  # noqa: SLF001
    columns = groupby(told, key=lambda each: each.column)
    return panels(ax, [_panel(shown, [*of], f"{called(release, name)} ({words})") for name, of in columns])


def _panel(names: Sequence[str], told: Sequence[Entry], what: str) -> tuple[Any, ...]:
    numbers = zip(*((each.value, each.low, each.high, None) for each in told), strict=True)
    values, lows, highs, noise = numbers
    return names, values, lows, highs, what, noise


def crosstab(release: Crosstab, ax: Any) -> Any:
    """Draw the number of each combination, or the share that was asked for, on squares, dark for large ones."""
    rows, columns = ([*map(str, each)] for each in release.categories)
    values = release.table[: len(rows), : len(columns)]
    few = release.raw.size <= _MOST_WRITTEN
    form = "{:,.0f}" if release.by is None else "{:.1%}"
    written = np.vectorize(form.format, otypes=[object])(values) if few else None
    ax = _squares(axes(ax, height=max(2.2, _ROW * (len(rows) + 4))), np.nan_to_num(values), written, rows, columns)
    reach = f"each ± {release.reach:.3g} rows ({100 * release.confidence:.4g}%)"
    ax.figure.colorbar(ax.images[0], ax=ax, label=f"{'share' if release.by else 'rows'},\n{reach}")
    ax.set(xlabel=called(release, release.columns[1]), ylabel=called(release, release.columns[0]))
    return ax


def matrix(release: _Matrix, ax: Any) -> Any:
    """Draw a number for each two columns, with its standard error, on squares, dark for large ones."""
    names = [wrapped(called(release, name), _LONG) for name in release.columns]
    ax = axes(ax, height=max(2.2, 0.6 * len(names) + 0.5 + 0.06 * max(map(len, names))))
    written = np.empty(release.values.shape, dtype=object)
    for cell, value in np.ndenumerate(release.values):
        error = float(release.standard_errors[cell])
        spread = f"\n± {error:.2g}" if error else ""
        written[cell] = "not known" if np.isnan(value) else number(float(value), error) + spread
    return _squares(ax, release.values, written, names, names, "RdBu")


def _squares(
    ax: Any, values: Any, written: Any, rows: Sequence[str], columns: Sequence[str], colours: str = "Blues"
) -> Any:
    """Draw numbers on squares, dark for large ones."""
    most = float(np.nanmax(abs(values), initial=1e-300))
    ax.imshow(values, cmap=colours, vmin=0 if colours == "Blues" else -most, vmax=most, aspect="auto")
    for (i, j), text in [] if written is None else np.ndenumerate(written):
        colour = "white" if abs(values[i, j]) > _DARK * most else "black"
        ax.text(j, i, text, ha="center", va="center", color=colour)
    ax.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
    ax.set_yticks(range(len(rows)), rows)
    return ax


def quantiles(release: Quantiles, ax: Any) -> Any:
    """Draw the quantiles, and where there are counts the cumulated shares of rows with a band, and intervals."""
    ax, known = axes(ax, height=3.0), release.low is not None
    places = [*release.values, *(_cumulated(release, ax) if known else ())]
    label = "" if known else "released; its notes say how sure they are"
    ax.plot(release.values, release.q, "o", ms=4, color=SURE, label=label)
    first, last = min(places), max(places)
    room = 0.02 * (last - first) or 1.0
    ax.set(
        xlabel=called(release, release.column),
        ylabel="share of rows",
        ylim=(0, 1),
        xlim=(first - room, last + room),
    )
    _legend(_plain(ax), loc="lower right")
    return ax


def _cumulated(release: Quantiles, ax: Any) -> list[float]:
    """Draw the share of rows up to each value with a band of two standard errors; give the ends of intervals."""
    tree, low, high = release.tree, release.low or (), release.high or ()
    rows, error = tree.below(tree.edges)
    at, how = tree.edges if tree.ends is None else np.clip(tree.edges, *tree.ends), {}
    if tree.whole:  # shares up to a value, which holds up to the next
        at, rows, error, how = (tree.edges[1:] + tree.edges[:-1]) / 2, rows[1:], error[1:], {"step": "post"}
    total = max(tree.total, 1.0)
    ends = [np.clip((rows + sign * 2 * error) / total, 0, 1) for sign in (-1, 1)]
    ax.fill_between(at, *ends, **how, color=BAR, lw=0, label="± 2 standard errors")
    drawn = "share of rows up to there"
    ax.plot(at, rows / total, color=ink(ax), lw=1, drawstyle="steps-post" if how else "default", label=drawn)
    sides = _interval(release.confidence, noise=release.covers != "population")
    ax.hlines(release.q, low, high, color=SURE, lw=2.5, label=sides)
    return [*low, *high, *tree.quantiles([_TAIL, 1 - _TAIL])]


def bounds(release: FoundBounds, edges: NDArray[np.float64], ax: Any) -> Any:
    """Draw the noisy counts of the intervals, the threshold, and the bounds that were found."""
    ax = axes(ax, height=3.0)
    at = np.arange(len(edges))
    for colour, name, row, low, high in zip(
        np.resize(_SERIES, len(release.columns)),
        release.columns,
        release.counts,
        release.low,
        release.high,
        strict=True,
    ):
        interval = "not found" if low is None else f"{low:g} to {high:g}"
        ax.stairs(np.maximum(row, 0), at, color=colour, lw=1.5, label=f"{called(release, name)}: {interval}")
    ax.axhline(release.threshold, color=SURE, ls="--", label=f"threshold, {release.threshold:,.0f} rows")
    held = np.flatnonzero((release.counts > release.threshold).any(axis=0))
    if len(held):
        ax.set_xlim(max(int(held[0]) - 3, 0), min(int(held[-1]) + 4, at[-1]))
    first, last = (int(end) for end in ax.get_xlim())
    ticks = np.arange(max(first, 0), last + 1, max(1, (last - first) // 8))
    ax.set_xticks(ticks, [_power(edges[tick]) for tick in ticks])
    ax.set(xlabel="values, by powers of two", ylabel="rows")
    ax.set_ylim(bottom=0)
    _legend(_plain(ax), loc="lower left", bbox_to_anchor=(0, 1))
    return ax


def profile(release: Profile, labels: Sequence[str], ax: Any) -> Any:
    """Draw for each column how many rows hold a value of its kind, and how many hold nothing, with intervals."""
    reach, values = _TWO_SIDES * release.noise_standard_error, []
    names: list[str] = []
    for label, rows, gone in zip(labels, release.rows, release.missing, strict=True):
        known = {label: rows, "without a value": gone}
        names += [name for name, number in known.items() if number is not None]
        values += [(each, max(each - reach, 0.0), each + reach) for each in known.values() if each is not None]
    return forest(names, values, f"rows, seen from {release.threshold:,} on", ax, noise=[1.0] * len(names),
                  confidence=0.95)  # fmt: skip


def _power(edge: float) -> str:
    """Write 0, or a power of two or its negative."""
    return f"${'-' if edge < 0 else ''}2^{{{round(np.log2(abs(edge)))}}}$" if edge else "0"
