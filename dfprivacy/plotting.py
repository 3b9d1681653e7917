"""What every picture needs."""

from __future__ import annotations

from typing import Any

from dfprivacy.errors import MissingDependency

__all__ = ["axes", "forest_height", "ink"]


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
