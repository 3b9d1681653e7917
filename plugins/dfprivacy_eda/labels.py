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
    from dfprivacy_eda.possible import Cell

__all__ = ["of_labels", "released"]


def released(statistic: str, value: Any, measured: Cells | None) -> Any:
    """Give what was released in place of what is shown: the noisy rows of the most frequent category."""
    return float(measured.raw.max()) if statistic == "freq" and measured is not None else value


def of_labels(column: Column, measured: Cells, confidence: float) -> dict[str, Cell]:
    """Give the number of rows in a category and in none, the most frequent category and its rows."""
    reach, error = measured.law.reach(confidence), measured.law.standard_deviation
    known = column.categories or ()
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
    most = math.inf if measured.size is None else float(measured.size)
    shown = float(project(measured.raw, min(max(rows, 0.0), most))[top])  # no more than all in some category
    cells["freq"] = (shown, error, max(min(raw - reach, shown), 0.0), max(raw, shown) + reach)
    return cells
