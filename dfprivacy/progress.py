"""A progress bar for whatever takes longer than two seconds."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["progress"]

DELAY_SECONDS = 2.0


def progress(total: int | None, what: str = "reading rows", unit: str = " rows") -> Any:
    """Make a bar, to be used in a ``with`` statement and told of what is done by its ``update``.

    Parameters
    ----------
    total : int or None
        How many rows or steps there are; None if that is private: then the bar shows the time only.
    what : str
        What is being done.
    unit : str
        What is counted.

    Returns
    -------
    tqdm.tqdm
        A bar that appears after two seconds where a person is looking, and leaves no trace.
    """
    from tqdm.std import tqdm

    return tqdm(
        total=total,
        desc=what,
        unit=unit,
        unit_scale=True,
        bar_format="{desc}: {elapsed}" if total is None else None,
        delay=DELAY_SECONDS,
        leave=False,
        disable=not (sys.stderr.isatty() or "ipykernel" in sys.modules),
    )
