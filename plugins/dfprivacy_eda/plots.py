"""Pictures of the releases, drawn with matplotlib: each shows how sure it is.

Dots, bars and lines are what was released; the lines across them are intervals, whose coverage the legend says. The
colours can be told apart by people who see fewer of them, and in grey.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.plotting import axes, ink
from dfprivacy.wording import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Release
    from dfprivacy_eda.aggregates import Aggregates
    from dfprivacy_eda.bounds import FoundBounds
    from dfprivacy_eda.describe import Description
    from dfprivacy_eda.matrices import _Matrix
    from dfprivacy_eda.profile import Profile
    from dfprivacy_eda.ranked import Quantiles
    from dfprivacy_eda.results import ColumnStatistic
    from dfprivacy_eda.tables import Counts, Crosstab, Histogram

__all__ = [
    "bounds",
    "called",
    "categories",
    "counts",
    "crosstab",
    "description",
    "histogram",
    "matrix",
    "numbers",
    "profile",
    "quantiles",
    "stated",
    "statistic",
]

BAR, SURE, SAMPLED = "#9ec3e6", "#d95f02", "#4477aa"
_NONE = "#d0d0d0"
_TWO_SIDES = 1.96  # standard errors of a 95% interval
_SERIES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
_MOST_BARS = 40
_DARK = 0.65  # of the largest number, from which its square is too dark for black
_TAIL = 0.002  # of the rows, at each side, that a curve may leave out
_ROW = 0.28  # inches of a row
_NAMES = {"missing": "rows without a value", "nunique": "number of different values", "var": "variance",
          "std": "standard deviation"}  # fmt: skip
_LONG = 18  # letters beside a plot, from which a name is broken
_LINE = 60  # letters beside each other below the bars of a picture


def _plain(ax: Any) -> Any:
    """Take away the frame's right and upper side, which say nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _sized(ax: Any, height: float) -> Any:
    """Make axes of a height that fits, unless there are some."""
    made = axes(ax)
    if ax is None:
        made.figure.set_figheight(max(2.2, height))
    return made


def _legend(ax: Any, **how: Any) -> None:
    ax.legend(frameon=False, fontsize="small", **how)


def _interval(confidence: float, *, noise: bool = True) -> str:
    return f"{100 * confidence:.4g}% interval{', all noise' if noise else ''}"


def statistic(release: ColumnStatistic, ax: Any) -> Any:
    """Draw a number, its interval if it has one, and what the interval is for."""
    ax = axes(ax)
    low, high = release.low, release.high
    sure = low is not None and high is not None
    if low is not None and high is not None:
        part = release._noise_part  # noqa: SLF001 - of our own kind
        inner = [release.value + (end - release.value) * (1 - (part or 0.0)) for end in (low, high)]
        all_noise = part is not None and part >= 1
        of = (release.covers or "table").removeprefix("limited ")
        label = f"{_interval(release.confidence, noise=all_noise)}, for the {of}"
        ax.plot([low, high], [0, 0], color=SURE, lw=3, label=label)
        if part is not None and not all_noise:
            ax.plot(inner, [0, 0], color=SAMPLED, lw=7, solid_capstyle="butt", label="of it from sampling")
    ax.plot(
        release.value, 0, "o", color=ink(ax), label="released" if sure else "released; its notes say how sure it is"
    )
    ax.set(yticks=[], ylim=(-1, 1), xlabel=stated(release))
    ax.spines["left"].set_visible(False)
    _legend(_plain(ax), loc="upper left")
    return ax


def stated(release: ColumnStatistic) -> str:
    """Say what a number is, in the words of the column."""
    if not release.column:
        return "rows"
    of = ", ".join(called(release, name) for name in release.column.split(", "))
    return f"{_NAMES.get(release.statistic, release.statistic)} of {of}"


def called(release: Release, column: str) -> str:
    """Name a column for people: its label, with its units, where the schema says them."""
    return release.column_words.get(column, column)


def histogram(release: Histogram, ax: Any) -> Any:
    """Draw a histogram with an interval for each bin; rows per unit where bins are not of one width."""
    ax = axes(ax)
    widths = np.diff(release.edges)
    even = bool(np.allclose(widths, widths[0], rtol=1e-9))
    unit = np.ones(len(widths)) if even else widths
    low, high = (ends / unit for ends in release.intervals)
    ax.stairs(release.counts / unit, release.edges, fill=True, color=BAR)
    ax.stairs(release.counts / unit, release.edges, color=ink(ax), lw=0.6)
    middle = (release.edges[1:] + release.edges[:-1]) / 2
    ax.vlines(middle, low, high, color=SURE, label=_interval(release.confidence))
    what = called(release, release.column)
    ax.set(xlabel=what, ylabel="rows" if even else f"rows per unit of {what}")
    ax.set_xlim(release.edges[0], release.edges[-1])
    ax.set_ylim(bottom=0)
    _legend(_plain(ax))
    if release.normalize and even:
        side = ax.secondary_yaxis("right", functions=_shares(release.total))
        side.set_ylabel("share of rows")
    return ax


def _shares(total: float) -> tuple[Any, Any]:
    total_rows = max(total, 1.0)
    return (lambda rows: rows / total_rows), (lambda shares: shares * total_rows)


def counts(release: Counts, ax: Any) -> Any:
    """Draw a bar for each category, with its interval; the first is on top."""
    shown = min(len(release.categories), _MOST_BARS)
    ax = _sized(ax, _ROW * (shown + 3))
    at = np.arange(shown)
    low, high = (ends[:shown] for ends in release.intervals)
    ax.barh(at, release.counts[:shown], height=0.7, color=BAR, edgecolor=ink(ax), linewidth=0.6)
    ax.hlines(at, low, high, color=SURE, lw=2.5, label=_interval(release.confidence))
    ax.set_yticks(at, [str(category) for category in release.categories[:shown]])
    ax.invert_yaxis()
    rest = len(release.categories) - shown
    ax.set(xlabel="rows", ylabel=called(release, release.column) + (f" ({rest} more not drawn)" if rest else ""))
    ax.set_xlim(left=0)
    _legend(_plain(ax), loc="lower left", bbox_to_anchor=(0, 1))
    if release.normalize:
        ax.secondary_xaxis("top", functions=_shares(release.total)).set_xlabel("share of rows")
    return ax


def categories(releases: Sequence[Counts], ax: Any) -> Any:
    """Draw the counts of several columns, one below the other."""
    if len(releases) == 1:
        return counts(releases[0], ax)
    rows = [min(len(each.categories), _MOST_BARS) + 3 for each in releases]
    ax = _sized(ax, _ROW * sum(rows))
    ax.axis("off")
    top = 1.0
    for each, tall in zip(releases, rows, strict=True):
        height = tall / sum(rows)
        counts(each, ax.inset_axes((0, top - 0.75 * height, 1, 0.7 * height)))
        top -= height
    return ax


def numbers(release: Aggregates, ax: Any) -> Any:
    """Draw a line for each number, of a scale of its own: itself, and its interval."""
    names = [_named(release, at) for at in range(len(release.names))]
    cells = zip(names, release.values, release.lows, release.highs, strict=True)
    drawn = [cell for cell in cells if cell[2] is not None and cell[3] is not None]
    ax = _sized(ax, 0.6 * len(drawn) + 0.4)
    ax.axis("off")
    height = 1 / max(len(drawn), 1)
    for place, (name, value, low, high) in enumerate(drawn):
        panel = ax.inset_axes((0, 1 - (place + 0.6) * height, 1, 0.3 * height))
        panel.plot([low, high], [0, 0], color=SURE, lw=2.5, label=_interval(release.confidence))
        panel.plot(value, 0, "o", ms=5, color=ink(panel), label="released")
        panel.set(yticks=[0], yticklabels=[_broken(name)], ylim=(-1, 1))
        panel.spines[["left", "top", "right"]].set_visible(False)
        panel.tick_params(axis="y", length=0)
        panel.tick_params(axis="x", labelsize="small")
        panel.margins(x=0.1)
        if place == 0:
            _legend(panel, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    return ax


def crosstab(release: Crosstab, ax: Any) -> Any:
    """Draw a bar with its interval for each combination: the rows' categories on the axis, the columns' in colours.

    Where the columns have many categories, a map with a number in each cell.
    """
    first, second = (called(release, name) for name in release.columns)
    rows, columns = release.categories
    names = [str(each) for each in rows]
    if len(columns) > len(_SERIES) or len(rows) * len(columns) > _MOST_BARS:
        return _map(release, ax)
    ax = _sized(ax, 3.0)
    heights, low, high = _of_what(release)
    width = 0.8 / len(columns)
    for at, category in enumerate(columns):
        where = np.arange(len(rows)) + (at - (len(columns) - 1) / 2) * width
        ax.bar(where, heights[:, at], width * 0.92, color=_SERIES[at], label=str(category))
        label = _interval(release.confidence) if at == len(columns) - 1 else None
        ax.vlines(where, low[:, at], high[:, at], color=ink(ax), lw=1.5, label=label)
    slanted = {"rotation": 45, "ha": "right"} if sum(map(len, names)) > _LINE else {}
    ax.set_xticks(range(len(rows)), names, **slanted)
    alike = {"index": f"share within {first}", "columns": f"share within {second}"}
    ax.set(xlabel=first, ylabel=alike.get(release.by or "", "share of all rows" if release.by else "rows"))
    ax.set_ylim(bottom=0)
    _legend(_plain(ax), loc="lower left", bbox_to_anchor=(0, 1), ncols=4, title=second, alignment="left")
    return ax


def _named(release: Aggregates, at: int) -> str:
    """Name a number as it was asked, in the words of its column where the name is made of that."""
    name, column, statistic = release.names[at], release.columns[at], release.statistics[at]
    if name != f"{column}_{statistic}" or column not in release.column_words:
        return name
    return f"{_NAMES.get(statistic, statistic)} of {called(release, column)}"


def _broken(name: str) -> str:
    """Break a long name into lines."""
    return "\n".join(textwrap.wrap(name, _LONG)) if len(name) > _LONG else name


def _of_what(release: Crosstab) -> tuple[NDArray[np.float64], ...]:
    """Give counts or the shares that were asked for, and the ends of their intervals.

    A share p of a sum of K noisy counts has (1-p)² + (K-1)p² times the variance of its count; at least 1 is taken,
    which it has if the sum is known.
    """
    counts = release.counts
    if release.by is None:
        return counts, *release.intervals
    axis = {"all": None, "index": 1, "columns": 0}[release.by]
    sums = np.maximum(counts.sum(axis=axis, keepdims=True), 1.0)
    shares, kinds = counts / sums, counts.size / sums.size
    reach = release.reach / sums * np.sqrt(np.maximum((1 - shares) ** 2 + (kinds - 1) * shares**2, 1))
    middle = release.raw / sums
    return shares, np.clip(middle - reach, 0, 1), np.clip(middle + reach, 0, 1)


def _map(release: Crosstab, ax: Any) -> Any:
    rows, columns = release.categories
    ax = _sized(ax, _ROW * (len(rows) + 4))
    image = ax.imshow(release.counts, cmap="Blues", vmin=0, aspect="auto")
    ax.figure.colorbar(image, ax=ax, label=f"rows, each ± {release.reach:.3g} ({100 * release.confidence:.4g}%)")
    if release.raw.size <= 6 * _MOST_BARS:
        dark = release.counts.max() / 2
        for (i, j), count in np.ndenumerate(release.counts):
            colour = "white" if count > dark else "black"
            ax.text(j, i, f"{count:,.0f}", ha="center", va="center", fontsize="x-small", color=colour)
    ax.set_xticks(range(len(columns)), [str(each) for each in columns], rotation=45, ha="right")
    ax.set_yticks(range(len(rows)), [str(each) for each in rows])
    ax.set(xlabel=called(release, release.columns[1]), ylabel=called(release, release.columns[0]))
    return ax


def quantiles(release: Quantiles, ax: Any) -> Any:
    """Draw the quantiles, and where there are counts the cumulated shares of rows with a band, and intervals."""
    ax, known = _sized(ax, 3.0), release.low is not None
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


def description(release: Description, ax: Any) -> Any:
    """Draw a panel for each column of numbers: a box of its quartiles, and its mean, each with an interval."""
    numbers = [
        at for at, values in enumerate(release.values) if _of(release.statistics, values, "mean") is not None
    ]
    ax = _sized(ax, 0.9 * len(numbers) + 0.4)
    ax.axis("off")
    height = 1 / max(len(numbers), 1)
    for place, at in enumerate(numbers):
        panel = ax.inset_axes((0, 1 - (place + 0.62) * height, 1, 0.55 * height))
        _panel(panel, release, at)
        if place == 0:
            panel.legend(frameon=False, fontsize="small", ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
    return ax


def _of(names: Sequence[str], cells: Sequence[Any], name: str) -> Any:
    return cells[names.index(name)] if name in names else None


def _panel(ax: Any, release: Description, at: int) -> None:
    def cell(name: str) -> tuple[float, float, float]:
        table = (release.values, release.lows, release.highs)
        value, low, high = (_of(release.statistics, each[at], name) for each in table)
        return value, value if low is None else low, value if high is None else high

    quartiles = [cell(name) for name in ("25%", "50%", "75%")]
    (first, *_), (middle, *_), (third, *_) = quartiles
    box = {"color": BAR, "edgecolor": ink(ax), "linewidth": 0.6, "label": "quartiles and median"}
    ax.barh(0, third - first, left=first, height=0.6, **box)
    ax.plot([middle, middle], [-0.3, 0.3], color=ink(ax), lw=2)
    for y, (x, low, high) in zip((0.2, 0.0, -0.2), quartiles, strict=True):  # apart, for they may overlap
        ax.plot([low, high], [y, y], color=SURE, lw=1.5)
        ax.plot(x, y, "o", ms=3, color=SURE)
    value, low, high = cell("mean")
    ax.plot([low, high], [-0.5, -0.5], color=SURE, lw=1.5, label=_interval(release.confidence))
    ax.plot(value, -0.5, "D", ms=4, color=ink(ax), label="mean")
    ax.set(yticks=[0], yticklabels=[_broken(called(release, release.columns[at]))], ylim=(-0.8, 0.5))
    ax.spines[["left", "top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize="small")
    ax.margins(x=0.1)


def bounds(release: FoundBounds, edges: NDArray[np.float64], ax: Any) -> Any:
    """Draw the noisy counts of the intervals, the threshold, and the bounds that were found."""
    ax = _sized(ax, 3.0)
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
    ax = _sized(ax, _ROW * (1.6 * len(labels) + 3))
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


def matrix(release: _Matrix, ax: Any) -> Any:
    """Draw a number for each two columns, with its standard error, on squares, dark for large ones."""
    columns, values, errors = release.columns, release.values, release.standard_errors
    at, names = range(len(columns)), [_broken(called(release, name)) for name in columns]
    ax = _sized(ax, 0.6 * len(columns) + 0.5 + 0.06 * max(map(len, names)))
    most = float(np.nanmax(abs(values), initial=1e-300))
    ax.imshow(values, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        error = float(errors[i, j])
        spread = f"\n± {error:.2g}" if error else ""
        written = "not known" if np.isnan(value) else number(float(value), error) + spread
        colour = "white" if abs(value) > _DARK * most else "black"
        ax.text(j, i, written, ha="center", va="center", color=colour)
    ax.set_xticks(at, names, rotation=45, ha="right")
    ax.set_yticks(at, names)
    return ax


def _power(edge: float) -> str:
    """Write 0, or a power of two or its negative."""
    return f"${'-' if edge < 0 else ''}2^{{{round(np.log2(abs(edge)))}}}$" if edge else "0"
