"""How what is left out is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dfprivacy.wording import clearly_some, with_error

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["left_out"]


def left_out(missing: float | None, error: float | None) -> Sequence[tuple[str, str]]:
    """Give a row about missing values, where there clearly are some."""
    if missing is None or not clearly_some(missing, error):
        return ()
    return (("missing", f"{with_error(missing, error)} rows, left out"),)
