"""What follows from the noisy counts of one column's categories."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from dfprivacy_eda.simplex import project

if TYPE_CHECKING:
    from dfprivacy import Column
    from dfprivacy_eda.counts import Cells

__all__ = ["Cell", "of_labels"]

Cell = tuple[Any, float | None, float | None, float | None]
"""A number, or a text, its standard error, and the ends of its interval."""


def of_labels(column: Column, measured: Cells, confidence: float) -> dict[str, Cell]:
    """Give the number of rows in a category and in none, the most frequent category and its rows."""
    reach, error = -math.log1p(-confidence) * measured.scale, math.sqrt(2) * measured.scale
    known, total = column.categories or (), measured.total()
    z, all_error = float(ndtri((1 + confidence) / 2)), error * math.sqrt(len(known))
    rows = float(measured.raw.sum()) if not column.other or measured.size is None else float(measured.size)
    spread = 0.0 if column.other and measured.size is not None else all_error
    cells: dict[str, Cell] = {"count": (rows, spread, rows - z * spread, rows + z * spread)}
    gone, gone_error = measured.missing
    if gone is not None and gone_error is not None:
        cells["missing"] = (gone, gone_error, gone - z * gone_error, gone + z * gone_error)
    top = int(np.argmax(measured.raw))
    cells["top"] = (known[top], None, None, None)
    raw = float(measured.raw[top])
    cells["freq"] = (float(project(measured.raw, total)[top]), error, max(raw - reach, 0.0), max(raw + reach, 0.0))
    return cells
