"""Functions to draw intervals, legends and forest plots with matplotlib."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from dfprivacy.errors import MissingDependency

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "NOISY",
    "SAMPLED",
    "axes",
    "draw_interval",
    "forest",
    "forest_height",
    "interval_legend",
    "legend_below",
    "panels",
    "stack_plots",
    "text_color",
    "wrap_label",
]

_PANEL = 2.8  # inches of one of several pictures
_LEGEND = 0.5  # inches below the name of an axis
_ALL = 0.995  # a part from which on it is all
NOISY, SAMPLED = "tab:orange", "tab:blue"
"""Colours of an interval with the noise in it, and of the part of it that sampling makes."""


_LABELS_HIGH, _LINE_HIGH = 2.6, 1.6  # of the labels of an axis, and of a line of its name, in letters of a legend


def axes(ax: Any = None, *, height: float = 2.2) -> Any:
    """Return given axes, or new axes in a new figure.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; default: new ones.
    height : float
        Height of a new figure in inches.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    MissingDependency
        If matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingDependency("Pictures need matplotlib.", 'Install it: pip install "dfprivacy[plot]".') from None
    return plt.subplots(figsize=(6, height), layout="constrained")[1]


def forest_height(rows: int) -> float:
    """Return the height in inches of a forest plot with a number of rows."""
    return 1.1 + 0.3 * max(rows, 3)


def text_color(ax: Any) -> str:
    """Return the colour of text on matplotlib axes.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        The axes.

    Returns
    -------
    str
        A colour.
    """
    colour: str = ax.xaxis.label.get_color()
    return colour


def wrap_label(text: str, width: int = 72) -> str:
    """Return a label broken into lines that fit the width of a plot."""
    return textwrap.fill(text, width)


def legend_below(ax: Any, *, ncols: int = 2) -> None:
    """Draw the legend below the x axis and its label; the label must be set before."""
    lines = ax.get_xlabel().count("\n") + 1
    room = _LABELS_HIGH + _LINE_HIGH * lines
    how = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": room}
    ax.legend(**how, ncols=ncols, fontsize="small", frameon=False)


def draw_interval(
    ax: Any, at: float, value: float, ends: tuple[float, float], *, noise: float | None = None
) -> None:
    """Draw an interval, and a thicker line for the interval without privacy noise.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        The axes.
    at : float
        Position on the other axis.
    value : float
        The estimate.
    ends : tuple of float
        The interval's ends.
    noise : float, optional
        The part of its width that is due to noise, from 0 to 1; None to draw the whole interval only.
    """
    ax.plot(ends, [at, at], color=NOISY, lw=3, solid_capstyle="butt")
    if noise is not None and noise < _ALL:
        inner = [value + (end - value) * (1 - noise) for end in ends]
        ax.plot(inner, [at, at], color=SAMPLED, lw=7, solid_capstyle="butt")


def interval_legend(ax: Any, confidence: float | None, noise: Sequence[float | None], mark: str = "s") -> None:
    """Draw a legend for intervals, and for their thick part that is due to sampling.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        The axes; their x label must be set before.
    confidence : float or None
        Coverage of the intervals.
    noise : sequence of float or None
        The part of each interval's width that is due to noise; None if it is not known.
    mark : str
        Marker of the estimates.
    """
    named = "interval" if confidence is None else f"{100 * confidence:.4g}% CI"
    all_noise = all(each is not None and each >= _ALL for each in noise)
    what = f"{named}, all noise" if all_noise else f"{named}, noise included"
    ax.plot([], [], color=NOISY, lw=3, label=what)
    if not all_noise and any(each is not None for each in noise):
        ax.plot([], [], color=SAMPLED, lw=7, label="of it from sampling")
    ax.plot([], [], mark, color=text_color(ax), label="estimate")
    legend_below(ax)


def _draw_intervals(
    ax: Any, names: Sequence[str], values: Any, lows: Any, highs: Any, xlabel: str, noise: Sequence[float | None]
) -> None:
    for place, (value, low, high, part) in enumerate(zip(values, lows, highs, noise, strict=True)):
        if low is not None and high is not None:
            draw_interval(ax, place, value, (low, high), noise=part)
        if value is not None:
            ax.plot(value, place, "s", color=text_color(ax), ms=5)
    ax.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.4, -0.6))
    ax.set_xlabel(wrap_label(xlabel))


def panels(ax: Any, plots: Sequence[tuple[Any, ...]]) -> Any:
    """Draw a forest plot for each of several units of measurement, one below the other.

    Parameters
    ----------
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None: new ones of the height that they need.
    plots : sequence of tuples
        For each plot: names of the estimates, from top to bottom; the estimates, and the ends of their intervals,
        None if there is none; the label of the axis, with units and the interval's coverage; and the part of each
        interval's width that is due to noise, None if it is not known.

    Returns
    -------
    matplotlib.axes.Axes
        The axes, which hold one child for each unit.
    """
    tall = [len(names) + 2.2 for names, *_ in plots]
    ax = axes(ax, height=max(2.2, 0.3 * sum(tall)))
    ax.axis("off")
    top = 1.0
    for height, plot in zip(tall, plots, strict=True):
        part = height / sum(tall)
        place = (0, top - part * (height - 1.7) / height, 1, part * (height - 1.9) / height)
        _draw_intervals(ax.inset_axes(place), *plot)
        top -= part
    return ax


def forest(
    labels: Sequence[str],
    values: Sequence[tuple[float, float, float]],
    what: str,
    ax: Any = None,
    *,
    noise: Sequence[float | None] | None = None,
    confidence: float | None = None,
) -> Any:
    """Draw a forest plot: an estimate and its interval for each name, from top to bottom.

    Parameters
    ----------
    labels : sequence of str
        The names.
    values : sequence of tuple of three float
        For each name the estimate, and the ends of its interval.
    what : str
        Label of the axis of the estimates.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on.
    noise : sequence of float or None, optional
        The part of each interval's width that is due to noise.
    confidence : float, optional
        The intervals' coverage.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    parts = [None] * len(values) if noise is None else noise
    ax = axes(ax, height=forest_height(len(labels)) + _LEGEND)
    for at, ((value, low, high), part) in enumerate(zip(values, parts, strict=True)):
        draw_interval(ax, at, value, (low, high), noise=part)
        ax.plot(value, at, "s", color=text_color(ax), ms=5)
    ax.set(yticks=range(len(labels)), yticklabels=labels, ylim=(max(len(labels), 1) - 0.5, -0.5))
    ax.set_xlabel(wrap_label(what, 60))
    interval_legend(ax, confidence, parts)
    return ax


def stack_plots(labels: Sequence[str], draw: Sequence[Callable[[Any], Any]], ax: Any = None) -> Any:
    """Draw plots below each other, on one scale if they show the same quantity.

    Parameters
    ----------
    labels : sequence of str
        A heading for each plot.
    draw : sequence of callable
        For each plot a function that draws it on given axes.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on.

    Returns
    -------
    matplotlib.axes.Axes
        The axes, with a panel for each picture.
    """
    ax = axes(ax, height=_PANEL * len(labels))
    ax.axis("off")
    height = 1 / len(labels)
    panels = [ax.inset_axes((0, 1 - (at + 0.72) * height, 1, 0.55 * height)) for at in range(len(labels))]
    for at, (panel, label, picture) in enumerate(zip(panels, labels, draw, strict=True)):
        picture(panel)
        panel.set_title(label, loc="right")
        if at and (legend := panel.get_legend()) is not None:
            legend.remove()  # the first says it for all
    for one in ("x", "y"):
        if len({(getattr(panel, f"get_{one}label")(), len(panel.child_axes)) for panel in panels}) == 1:
            ends = [getattr(panel, f"get_{one}lim")() for panel in panels]
            falls = ends[0][0] > ends[0][1]
            reach = min(min(each) for each in ends), max(max(each) for each in ends)
            for panel in panels:
                getattr(panel, f"set_{one}lim")(reach[::-1] if falls else reach)
    return ax
