"""Pictures of the releases, drawn with matplotlib: each shows how sure it is.

Dots, bars and lines are what was released; the lines across them are intervals, whose coverage the legend says. The
colours can be told apart by people who see fewer of them, and in grey.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.plotting import axes, below, explained, ink, interval, panels, stacked, wrapped
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
    from dfprivacy_eda.results import ColumnStatistic
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
_NONE = "#d0d0d0"
_TWO_SIDES = 1.96  # standard errors of a 95% interval
_SERIES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
_MOST_BARS, _MOST_WRITTEN = 40, 240
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
    return f"{100 * confidence:.4g}% interval{', all noise' if noise else ''}"


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
    part = release._noise_part  # noqa: SLF001 - of our own kind
    interval(ax, 0, release.value, (release.low, release.high), noise=part)
    ax.plot(release.value, 0, "o", color=ink(ax))
    explained(ax, release.confidence, [part], "o")
    return ax


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
    """Draw a bar for each category, with its interval; the first is on top."""
    shown = min(len(release.categories), _MOST_BARS)
    ax = axes(ax, height=max(2.2, _ROW * (shown + 3)))
    at, (every, rows) = np.arange(shown), _counted_in(release)
    low, high = (ends[:shown] / every for ends in release.intervals)
    ax.barh(at, release.counts[:shown] / every, height=0.7, color=BAR, edgecolor=ink(ax), linewidth=0.6)
    ax.hlines(at, low, high, color=SURE, lw=2.5, label=_interval(release.confidence))
    ax.set_yticks(at, [str(category) for category in release.categories[:shown]])
    ax.invert_yaxis()
    rest = len(release.categories) - shown
    more = f" ({rest} more not drawn)" if rest else ""
    ax.set(xlabel=rows, ylabel=called(release, release.column) + more)
    ax.set_xlim(left=0)
    _legend(_plain(ax), loc="lower left", bbox_to_anchor=(0, 1))
    return ax


def categories(releases: Sequence[Counts], ax: Any) -> Any:
    """Draw the counts of several columns, one below the other."""
    if len(releases) == 1:
        return counts(releases[0], ax)
    return stacked([each.column for each in releases], [partial(counts, each) for each in releases], ax)


def numbers(release: Aggregates, ax: Any) -> Any:
    """Draw a line for each number, of a scale of its own: itself, and its interval."""
    cells = zip(release.names, release.columns, release.statistics, release.values, release.lows, release.highs,
                strict=True)  # fmt: skip
    drawn = [
        ([wrapped(named(release, *words), _LONG)], [value], [low], [high], "", [None])
        for *words, value, low, high in cells
        if low is not None and high is not None
    ]
    return panels(ax, drawn)


def description(release: Description, ax: Any) -> Any:
    """Draw a panel for each column of numbers: its mean and its quartiles, each with an interval."""
    at = [release.statistics.index(name) for name in ("mean", "25%", "50%", "75%")]
    tables = zip(release.columns, release.values, release.lows, release.highs, strict=True)
    words = _interval(release.confidence)
    drawn = [
        (
            [release.statistics[row] for row in at],
            *([table[row] for row in at] for table in columns),
            f"{called(release, name)} ({words})",
            [None] * len(at),
        )
        for name, *columns in tables
        if columns[0][at[0]] is not None
    ]
    return panels(ax, drawn)


def crosstab(release: Crosstab, ax: Any) -> Any:
    """Draw the number of each combination, or the share that was asked for, on squares, dark for large ones."""
    rows, columns = ([*map(str, each)] for each in release.categories)
    values = release.table[: len(rows), : len(columns)]
    few = release.raw.size <= _MOST_WRITTEN
    form = "{:,.0f}" if release.by is None else "{:.1%}"
    written = np.vectorize(form.format, otypes=[object])(values) if few else None
    ax = _squares(axes(ax, height=max(2.2, _ROW * (len(rows) + 4))), np.nan_to_num(values), written, rows, columns)
    reach = f"each ± {release.reach:.3g} rows ({100 * release.confidence:.4g}%)"
    ax.figure.colorbar(ax.images[0], ax=ax, label=f"{'share' if release.by else 'rows'}, {reach}")
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
    ax = axes(ax, height=max(2.2, _ROW * (1.6 * len(labels) + 3)))
    at, error = np.arange(len(labels)), release.noise_standard_error
    gone = np.array([np.nan if each is None else each for each in release.missing])
    kinds = (
        ("rows with a value of its kind", -0.2, np.array(release.rows), BAR),
        ("rows with none", 0.2, gone, _NONE),
    )
    for label, beside, rows, colour in kinds:
        ax.barh(at + beside, rows, height=0.36, color=colour, edgecolor=ink(ax), linewidth=0.6, label=label)
        low, high = np.maximum(rows - _TWO_SIDES * error, 0), rows + _TWO_SIDES * error
        ax.hlines(at + beside, low, high, color=SURE, lw=2.5, label=None if beside > 0 else _interval(0.95))
    ax.axvline(release.threshold, color=ink(ax), lw=1, ls="--", label=f"seen from {release.threshold:,} rows on")
    ax.set_yticks(at, list(labels))
    ax.invert_yaxis()
    ax.set(xlabel="rows")
    ax.set_xlim(left=0)
    _legend(_plain(ax), ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    return ax


def _power(edge: float) -> str:
    """Write 0, or a power of two or its negative."""
    return f"${'-' if edge < 0 else ''}2^{{{round(np.log2(abs(edge)))}}}$" if edge else "0"
