"""What every picture needs."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from dfprivacy.errors import MissingDependency

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["axes", "below", "forest", "forest_height", "ink", "panels", "wrapped"]


_LABELS_HIGH, _LINE_HIGH = 2.6, 1.6  # of the labels of an axis, and of a line of its name, in letters of a legend


def axes(ax: Any = None, *, height: float = 2.2) -> Any:
    """Return the axes to draw on.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; default: new ones.
    height : float
        Of the figure that new ones are in, in inches.

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
    """Return the height in inches that a plot with a row for each of so many names needs."""
    return 1.1 + 0.3 * max(rows, 3)


def ink(ax: Any) -> str:
    """Return the colour that text on these axes has: black, or what a dark style makes of it.

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


def wrapped(text: str, width: int = 72) -> str:
    """Break a label into lines that fit below a picture, or in what names beside it leave of that."""
    return textwrap.fill(text, width)


def below(ax: Any, *, ncols: int = 2) -> None:
    """Put the legend below the axis and its name, where it hides nothing; the name has to be set before."""
    lines = ax.get_xlabel().count("\n") + 1
    room = _LABELS_HIGH + _LINE_HIGH * lines
    how = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": room}
    ax.legend(**how, ncols=ncols, fontsize="small", frameon=False)


def forest(
    ax: Any,
    names: Sequence[str],
    values: Sequence[float | None],
    lows: Sequence[float | None],
    highs: Sequence[float | None],
    xlabel: str,
) -> Any:
    """Draw estimates of one unit below each other, each with its interval.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        The axes.
    names : sequence of str
        What each is of; the first is on top.
    values, lows, highs : sequence of float or None
        The estimates and the ends of their intervals; None where there is none.
    xlabel : str
        What they are, with units and the interval's coverage.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    for place, (value, low, high) in enumerate(zip(values, lows, highs, strict=True)):
        if low is not None and high is not None:
            ax.plot([low, high], [place, place], color="tab:blue", lw=2.5)
        if value is not None:
            ax.plot(value, place, "s", color=ink(ax), ms=5)
    ax.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.4, -0.6))
    ax.set_xlabel(wrapped(xlabel))
    return ax


def panels(ax: Any, plots: Sequence[tuple[Any, ...]]) -> Any:
    """Draw a forest plot for each of several units, below each other.

    Parameters
    ----------
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None: new ones of the height that they need.
    plots : sequence of tuples
        What `forest` takes after the axes.

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
        forest(ax.inset_axes((0, top - part * (height - 1.7) / height, 1, part * (height - 1.9) / height)), *plot)
        top -= part
    return ax
