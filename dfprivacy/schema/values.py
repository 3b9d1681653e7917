"""Conversion of single values to numbers, texts, dates and Python's own types."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from numbers import Complex, Real
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BLANKS",
    "DATE",
    "NUMERAL",
    "TRUTH",
    "Dictionary",
    "Raw",
    "date_text",
    "days",
    "plain",
    "plain_key",
    "plain_number",
    "plain_text",
    "read_date",
    "read_number",
    "read_numeral",
]  # fmt: skip

BLANKS = " \t\n\v\f\r"
NUMERAL = r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)"
"""Texts that are numbers: what Python's ``float`` reads, without underscores and other alphabets' digits."""
TRUTH = {"True": 1.0, "true": 1.0, "TRUE": 1.0, "False": 0.0, "false": 0.0, "FALSE": 0.0}
"""Texts that are truth values."""
DATE = (
    "([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
"""Texts that are dates, with or without a time of day: ISO 8601."""
_NUMERAL, _DATE = re.compile(NUMERAL), re.compile(DATE)

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_NS = 86_400 * 10**9
_NUMBERS = (float, int, Decimal, np.bool_, Real)


@dataclass(frozen=True)
class Dictionary:
    """Dictionary-encoded column: codes that are indices into a list of values, -1 for a missing value."""

    codes: NDArray[np.integer]
    values: Any  # a sequence; of people, an array of Arrow

    def __getitem__(self, rows: Any) -> Dictionary:
        return Dictionary(self.codes[rows], self.values)

    def __len__(self) -> int:
        return len(self.codes)


Raw: TypeAlias = "NDArray[Any] | Dictionary"


def plain_number(value: object, *, dates: bool = True) -> float:
    """Convert a number, boolean or date to a float; NaN for any other value.

    Parameters
    ----------
    value : object
        Anything found in a table or said about one.
    dates : bool
        Whether a date stands for a number.

    Returns
    -------
    float
        A number for real numbers, booleans, decimals and dates; NaN for all else.
    """
    try:
        if isinstance(value, np.timedelta64):  # NumPy calls it an integer
            return math.nan
        if isinstance(value, _NUMBERS):
            return _float_or_nan(value)
        if isinstance(value, Complex):  # in pandas, one complex number makes complex ones of the whole column
            return _float_or_nan(value.real) if value.imag == 0 else math.nan
        if dates and isinstance(value, np.datetime64):
            return float(days(value))
        if dates and isinstance(value, dt.datetime):
            return _days_of_date(value)
        if dates and isinstance(value, dt.date):
            return float((value - _EPOCH.date()).days)
    except Exception:  # noqa: BLE001 - NaT, a signalling NaN, a broken object: an error would tell on its row
        return math.nan
    return math.nan


def plain_text(value: object) -> str | None:
    """Convert a string, bytes in UTF-8 or a UUID to text; None for any other value."""
    try:
        if isinstance(value, str):
            return str.__str__(value)  # of a class that extends it, the text alone
        if isinstance(value, bytes):
            return bytes(memoryview(value)).decode()
        if isinstance(value, UUID):
            return str.__str__(str(value))
    except Exception:  # noqa: BLE001 - no UTF-8, or a broken object: an error would tell on its row
        return None
    return None


def plain(value: object) -> str | bool | int | float | dt.date | None:
    """Convert a value to one of Python's own types; None for missing values and values of other types.

    An object of a row may be of a class that extends one of these, with attributes of its own.
    """
    text = plain_text(value)
    if text is not None:
        return text
    try:
        if isinstance(value, np.timedelta64) or value != value:  # noqa: PLR0124 - numbers to NumPy; NaT
            return None
        if isinstance(value, bool | np.bool_):
            return bool(value)
        if isinstance(value, int):
            return int.__int__(value)
        if isinstance(value, np.timedelta64):  # NumPy calls it an integer
            return None
        if isinstance(value, np.integer):
            return int(value)
        if isinstance(value, dt.datetime):
            return dt.datetime.fromisoformat(dt.datetime.isoformat(value))
        if isinstance(value, dt.date):
            return dt.date(value.year, value.month, value.day)
    except Exception:  # noqa: BLE001 - NaT, or a broken object
        return None
    number = plain_number(value)
    return None if math.isnan(number) else number


def plain_key(value: object) -> Any:
    """Convert a value, or each value of a tuple, to one of Python's own types, as `plain` does.

    Examples
    --------
    >>> import numpy as np
    >>> [plain_key(value) for value in (np.str_("a"), np.float64(0.5), np.int8(1), (b"b", None))]
    ['a', 0.5, 1, ('b', None)]
    """
    return tuple([plain_key(each) for each in value]) if isinstance(value, tuple) else plain(value)


def read_number(text: str) -> float:
    """Convert a text to a number: a numeral, True or False, or a date (in days); NaN for other texts.

    Parameters
    ----------
    text : str
        With or without blanks around it.

    Returns
    -------
    float
        The nearest float64; of a date, the days since 1970-01-01.

    Examples
    --------
    >>> read_number(" 1.50"), read_number("True"), read_number("1970-01-03"), read_number("n/a")
    (1.5, 1.0, 2.0, nan)
    """
    number = read_numeral(text)
    return read_date(text) if math.isnan(number) else number


def read_numeral(text: str) -> float:
    """Convert a text that is a numeral, or True or False, to a number; NaN for other texts."""
    text = text.strip(BLANKS)
    return float(text) if _NUMERAL.fullmatch(text) else TRUTH.get(text, math.nan)


def read_date(text: str) -> float:
    """Convert a text that is a date to days since 1970-01-01; NaN for other texts."""
    found = _DATE.fullmatch(text.strip(BLANKS))
    if found is None:
        return math.nan
    day, time, second, fraction, zone = found.groups(default="")
    try:
        date = dt.datetime.fromisoformat(f"{day} {time or '00:00'}:{second or '00'}{zone}")
        return _days_of_date(date, int(fraction.ljust(9, "0")))
    except (ValueError, OverflowError):  # no such day, or its zone leads out of the calendar
        return math.nan


def date_text(number: float) -> str | None:
    """Convert days since 1970-01-01 to a date, with the time unless it is midnight; None if out of range."""
    try:
        date = _EPOCH.replace(tzinfo=None) + dt.timedelta(days=number)
    except (ValueError, OverflowError):
        return None
    return date.date().isoformat() if date.time() == dt.time() else date.isoformat(" ")


def _float_or_nan(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a huge integer
        return math.inf if value > 0 else -math.inf


def days(stamps: Any) -> Any:
    """Convert ``datetime64`` values of any unit to days since 1970-01-01; NaN for NaT.

    Whole days and the time of day are divided apart, as integers: the unit cannot change the result, and no stamp
    is too early for its midnight to be a stamp, which NumPy 2.5 refuses with an error.
    """
    unit, step = np.datetime_data(stamps.dtype)
    if step != 1 or unit in {"Y", "M", "W"}:  # only a value by itself can have such a unit
        stamps, unit = stamps.astype("datetime64[D]"), "D"
    day = np.timedelta64(1, "D").astype(f"timedelta64[{unit}]").astype(np.int64)
    days, rest = np.divmod(stamps.astype(np.int64), day)
    return np.where(np.isnat(stamps), np.nan, days + rest / day)


def _days_of_date(date: dt.datetime, more: int = 0) -> float:
    """Convert a date, plus some nanoseconds, to days since 1970-01-01."""
    since = (date if date.tzinfo else date.replace(tzinfo=dt.UTC)) - _EPOCH
    nanoseconds = (since.seconds * 10**6 + since.microseconds) * 1000 + getattr(since, "nanoseconds", 0) + more
    return since.days + nanoseconds / _DAY_NS
