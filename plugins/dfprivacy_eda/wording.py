"""How numbers of this plugin are written for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CLEARLY", "between", "left_out", "number", "with_error"]

_DIGITS = 6  # significant ones, where nothing is known of the error
CLEARLY = 5.0  # standard errors above 0: of a thousand columns that miss nothing less than one is said to
_EXACT = 1e15  # whole numbers below it are written out


def _places(error: float | None) -> int | None:
    """Decimal places at which two significant digits of an error end; None of an error that says nothing."""
    if not error or not math.isfinite(error):
        return None
    return min(max(0, 1 - math.floor(math.log10(abs(error)))), 12)


def number(value: Any, error: float | None = None) -> str:
    """Write a number with as many digits as its error leaves meaning.

    Examples
    --------
    >>> number(12345.678, 3.2), number(0.123456, 0.0021), number(20000.0), number(0.1234567)
    ('12,345.7', '0.1235', '20,000', '0.123457')
    """
    if not isinstance(value, int | float):
        return str(value)
    places = _places(error)
    if math.isfinite(value) and places is not None:
        return f"{round(value, places) + 0.0:,.{places}f}"  # there is no minus zero
    is_whole = abs(value) < _EXACT and value == round(value) if math.isfinite(value) else False
    return f"{value:,.0f}" if is_whole else f"{value:.{_DIGITS}g}"


def with_error(value: Any, error: float | None) -> str:
    """Write a number and its standard error, which is left out where there is none.

    Examples
    --------
    >>> with_error(45.0213, 0.0471), with_error(20000.0, 0.0), with_error("f", None)
    ('45.021 ± 0.047', '20,000', 'f')
    """
    return number(value, error) if not error else f"{number(value, error)} ± {number(error, error)}"


def between(low: float, high: float) -> str:
    """Write an interval, with digits by its width.

    Examples
    --------
    >>> between(44.9283, 45.1142), between(0.0, 0.0)
    ('44.928 to 45.114', '0 to 0')
    """
    width = (high - low) / 4
    return f"{number(low, width)} to {number(high, width)}"


def left_out(missing: float | None, error: float | None) -> Sequence[tuple[str, str]]:
    """Give a row about missing values, where there clearly are some."""
    if missing is None or missing <= CLEARLY * (error or 0):
        return ()
    return (("missing", f"{with_error(missing, error)} rows, left out"),)
