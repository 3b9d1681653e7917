"""A progress bar for whatever takes longer than two seconds."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["progress"]

DELAY_SECONDS = 2.0


def progress(rows: int | None) -> Any:
    """Make a bar, to be used in a ``with`` statement and told of rows by its ``update``.

    Parameters
    ----------
    rows : int or None
        How many rows there are; None if that is private: then the bar shows the time only.

    Returns
    -------
    tqdm.tqdm
        A bar that appears after two seconds where a person is looking, and leaves no trace.
    """
    from tqdm.std import tqdm

    return tqdm(
        total=rows,
        desc="reading rows",
        unit=" rows",
        unit_scale=True,
        bar_format="{desc}: {elapsed}" if rows is None else None,
        delay=DELAY_SECONDS,
        leave=False,
        disable=not (sys.stderr.isatty() or "ipykernel" in sys.modules),
    )
