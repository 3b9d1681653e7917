"""How what is left out is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfprivacy.wording import with_error

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CLEARLY", "left_out"]

CLEARLY = 5.0  # standard errors above 0: of a thousand columns that miss nothing less than one is said to


def left_out(missing: float | None, error: float | None) -> Sequence[tuple[str, str]]:
    """Give a row about missing values, where there clearly are some."""
    if missing is None or missing <= CLEARLY * (error or 0):
        return ()
    return (("missing", f"{with_error(missing, error)} rows, left out"),)
