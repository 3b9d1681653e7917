"""What every picture needs."""

from __future__ import annotations

from typing import Any

from dfprivacy.errors import MissingDependency

__all__ = ["axes"]


def axes(ax: Any = None) -> Any:
    """Return the axes to draw on.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; default: new ones.

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
    return plt.subplots(figsize=(6, 2.2), layout="constrained")[1]
