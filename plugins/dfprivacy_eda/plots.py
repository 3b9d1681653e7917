"""Parts that pictures of several releases share.

Dots, bars and lines are what was released; the lines across them are intervals, whose coverage the legend says. The
colours can be told apart by people who see fewer of them, and in grey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BAR", "LONG", "SURE", "interval_of", "legend", "squares"]

BAR, SURE = "#9ec3e6", "#d95f02"
LONG = 18
"""Letters beside a plot, from which a name is broken."""
_DARK = 0.65  # of the largest number, from which its square is too dark for black


def legend(ax: Any, **how: Any) -> Any:
    """Explain what is drawn, and take away the frame's right and upper side, which say nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small", **how)
    return ax


def interval_of(confidence: float, *, noise: bool = True) -> str:
    """Name intervals in a legend."""
    return f"{100 * confidence:.4g}% CI{', all noise' if noise else ''}"


def squares(
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
