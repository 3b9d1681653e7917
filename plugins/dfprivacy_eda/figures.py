"""Pictures of a page as SVG, written by hand: in the page's colours, with a name and a description in words."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy.markup import escaped
from dfprivacy.wording import number
from dfprivacy_eda.plots import called

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy_eda.tables import Counts, Histogram

__all__ = ["MOST_BARS", "Span", "bars", "histogram"]

MOST_BARS = 20
_WIDTH, _LEFT, _RIGHT, _TOP, _AXIS = 420, 50, 24, 8, 26
_PLOT = 170  # height of a histogram
_STRIP = 20  # of a line below it
_BAR = 22
_CHARACTERS = 18  # of a category's name

Span = tuple[str, float, float, float]
"""A number with its interval, as a line below a histogram: its name, low end, value and high end."""


def _ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two ends."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    step = 10.0 ** math.floor(math.log10(rough))
    step *= next(each for each in (1, 2, 5, 10) if each * step >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [at * step for at in range(first, last + 1)]


def _brief(value: float) -> str:
    """Write a number that stands at an axis."""
    for unit, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= unit:
            return f"{value / unit:.4g}{sign}"
    return f"{value:,.0f}" if value == round(value) else f"{value:.6g}"


def _svg(height: float, name: str, title: str, description: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-labelledby="{name}-title {name}-said">'
        f'<title id="{name}-title">{escaped(title)}</title><desc id="{name}-said">{escaped(description)}</desc>'
        + "".join(parts)
        + "</svg>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: object, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text)}</text>'


def _rect(x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"/>'


def histogram(release: Histogram, spans: Sequence[Span], name: str) -> str:
    """Draw a histogram with the interval of each bin, and numbers with theirs in lines below it.

    Parameters
    ----------
    release : Histogram
        The histogram.
    spans : sequence of Span
        The numbers, in the column's units; what lies beyond the bins is drawn at their end.
    name : str
        What no other picture of the page is called, for its parts to refer to each other.

    Returns
    -------
    str
        An element ``svg``.
    """
    edges, (lows, highs) = release.edges, release.intervals
    start, stop = float(edges[0]), float(edges[-1])
    top = float(max(highs.max(), release.counts.max(), 1.0))
    floor = _TOP + _PLOT

    def across(value: float) -> float:
        share = (min(max(value, start), stop) - start) / (stop - start)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def up(rows: float) -> float:
        return floor - rows / top * _PLOT

    parts = []
    for tick in _ticks(0, top, 4):
        parts += [_line(_LEFT, up(tick), _WIDTH - _RIGHT, up(tick), "rule")]
        parts += [_text(_LEFT - 5, up(tick) + 4, _brief(tick), "end")]
    for (left, right), count, low, high in zip(
        itertools.pairwise(edges.tolist()), release.counts, lows, highs, strict=True
    ):
        middle = across((left + right) / 2)
        parts.append(_rect(across(left), up(count), across(right) - across(left), floor - up(count)))
        parts.append(_line(middle, up(low), middle, up(high), "sure"))
    parts.append(_line(_LEFT, floor, _WIDTH - _RIGHT, floor, "axis"))
    for tick in _ticks(start, stop):
        parts += [_line(across(tick), floor, across(tick), floor + 4, "axis")]
        parts += [_text(across(tick), floor + 17, _brief(tick))]
    y = floor + _AXIS
    for label, low, value, high in spans:
        y += _STRIP
        parts += [_text(_LEFT - 5, y + 4, label, "end"), _line(_LEFT, y, _WIDTH - _RIGHT, y, "rule")]
        parts += [_line(across(low), y, across(high), y, "sure thick")]
        parts += [f'<circle class="dot" cx="{across(value):.1f}" cy="{y:.1f}" r="3.5"/>']
    most = int(np.argmax(release.counts))
    description = (
        f"{len(release.counts)} bins from {number(start)} to {number(stop)}. The fullest is from "
        f"{number(float(edges[most]))} to {number(float(edges[most + 1]))}, with about "
        f"{release.counts[most]:,.0f} of {release.total:,.0f} rows."
    )
    return _svg(y + 14, name, f"Histogram of {called(release, release.column)}", description, parts)


def bars(release: Counts, name: str) -> str:
    """Draw a bar for each of the first categories, with its interval.

    Parameters
    ----------
    release : Counts
        The counts, the largest first.
    name : str
        As for `histogram`.

    Returns
    -------
    str
        An element ``svg``.
    """
    shown = min(len(release.categories), MOST_BARS)
    labels = [str(category) for category in release.categories[:shown]]
    labels = [each if len(each) <= _CHARACTERS else f"{each[: _CHARACTERS - 1]}…" for each in labels]
    left = 14 + 6.6 * max(map(len, labels))
    lows, highs = (ends[:shown] for ends in release.intervals)
    top = float(max(highs.max(), release.counts.max(), 1.0))
    floor = _TOP + _BAR * shown

    def across(rows: float) -> float:
        return left + rows / top * (_WIDTH - left - _RIGHT)

    parts = []
    for tick in _ticks(0, top, 5):
        parts += [_line(across(tick), _TOP, across(tick), floor, "rule")]
        parts += [_text(across(tick), floor + 15, _brief(tick))]
    for at, (label, count, low, high) in enumerate(zip(labels, release.counts, lows, highs, strict=False)):
        y = _TOP + _BAR * at
        parts += [
            _rect(left, y + 3, across(count) - left, _BAR - 6),
            _text(left - 6, y + _BAR / 2 + 4, label, "end"),
        ]
        parts += [_line(across(low), y + _BAR / 2, across(high), y + _BAR / 2, "sure thick")]
    parts.append(_line(left, _TOP, left, floor, "axis"))
    first = f"{release.categories[0]}, with about {release.counts[0]:,.0f} of {release.total:,.0f} rows"
    description = f"{len(release.categories)} categories. The largest is {first}."
    return _svg(floor + 24, name, f"Rows by {called(release, release.column)}", description, parts)
