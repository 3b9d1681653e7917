"""Which number a value of a table stands for."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from numbers import Complex, Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["days", "missing", "plain_number", "plain_text", "released", "written"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_NS = 86_400 * 10**9
_EXACT = 2**53  # below, every integer is a float64 of its own
_NUMBERS = (float, int, Decimal, np.bool_, Real)


def plain_number(value: object, *, dates: bool = True) -> float:
    """Turn one Python value into the number it stands for, NaN if it stands for none.

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
            return _float(value)
        if isinstance(value, Complex):  # in pandas, one complex number makes complex ones of the whole column
            return _float(value.real) if value.imag == 0 else math.nan
        if dates and isinstance(value, np.datetime64):
            return float(days(value))
        if dates and isinstance(value, dt.datetime):
            return _days(value)
        if dates and isinstance(value, dt.date):
            return float((value - _EPOCH.date()).days)
    except Exception:  # noqa: BLE001 - NaT, a signalling NaN, a broken object: an error would tell on its row
        return math.nan
    return math.nan


def plain_text(value: object) -> str | None:
    """Turn one Python value into the text it stands for: itself, or what bytes say in UTF-8; None for all else."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    return value if isinstance(value, str) else None


def released(value: object) -> Any:
    """Give a value of the rows as it may leave a curator: an object of Python's own, which holds nothing else.

    Parameters
    ----------
    value : object
        A value, or a tuple of values.

    Returns
    -------
    str, int, float, bool, date, datetime, None or tuple
        Exactly of that class, whatever extends it. What is none of these becomes a text.

    Examples
    --------
    >>> import numpy as np
    >>> [released(value) for value in (np.str_("a"), np.float64(0.5), np.int8(1), b"b")]
    ['a', 0.5, 1, 'b']
    """
    kind = type(value)
    if value is None or kind in _OWN:
        return value
    if isinstance(value, tuple):
        return tuple([released(each) for each in value])
    for own, plain in _OF_SUBCLASSES.items():
        if isinstance(value, own):
            return plain(value)
    if isinstance(value, np.generic) and kind.__module__ == "numpy" and value.dtype.kind in "biuf":
        return released(value.item())
    text = plain_text(value)
    return str.__str__(str(value) if text is None else text)


def _stamp(value: dt.datetime) -> dt.datetime | None:
    if value != value:  # noqa: PLR0124 - NaT
        return None
    parts = (getattr(value, name) for name in ("year", "month", "day", "hour", "minute", "second", "microsecond"))
    moved = None if value.tzinfo is None else value.utcoffset()
    return dt.datetime(*parts, tzinfo=None if moved is None else dt.timezone(moved))  # type: ignore[misc]


_OWN = {str, int, float, bool, dt.date}
_OF_SUBCLASSES: dict[type, Any] = {
    str: str.__str__,
    int: int.__pos__,
    float: float.__pos__,
    dt.datetime: _stamp,
    dt.date: lambda value: dt.date(value.year, value.month, value.day),
}


def written(number: float) -> tuple[str, ...]:
    """Give the texts that a finite number is exactly written as, alone or as a boolean.

    Parameters
    ----------
    number : float
        What `plain_number` gives.

    Returns
    -------
    tuple of str
        Its shortest decimal form, without a point too if it is whole; for 1 and 0 also True and False, as Python
        and as Polars and Arrow write them.

    Examples
    --------
    >>> written(2.0), written(0.5), written(1.0)
    (('2.0', '2'), ('0.5',), ('1.0', '1', 'True', 'true'))
    """
    number += 0.0  # there is no -0
    integer = (str(int(number)),) if number.is_integer() and abs(number) < _EXACT else ()
    return (repr(number), *integer, *{1.0: ("True", "true"), 0.0: ("False", "false")}.get(number, ()))


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a huge integer
        return math.inf if value > 0 else -math.inf


def missing(rows: int) -> NDArray[np.float64]:
    """Give a column in which no value stands for anything."""
    return np.full(rows, np.nan)


def days(stamps: Any) -> Any:
    """Days since 1970-01-01 of ``datetime64`` values of any unit, NaN for NaT.

    Whole days and the time of day are divided apart, as integers: the unit cannot change the result, and no stamp
    is too early for its midnight to be a stamp, which NumPy 2.5 refuses with an error.
    """
    unit, step = np.datetime_data(stamps.dtype)
    if step != 1 or unit in {"Y", "M", "W"}:  # only a value by itself can have such a unit
        stamps, unit = stamps.astype("datetime64[D]"), "D"
    day = np.timedelta64(1, "D").astype(f"timedelta64[{unit}]").astype(np.int64)
    days, rest = np.divmod(stamps.astype(np.int64), day)
    return np.where(np.isnat(stamps), np.nan, days + rest / day)


def _days(stamp: dt.datetime) -> float:
    since = (stamp if stamp.tzinfo else stamp.replace(tzinfo=dt.UTC)) - _EPOCH
    nanoseconds = (since.seconds * 10**6 + since.microseconds) * 1000 + getattr(since, "nanoseconds", 0)
    return since.days + nanoseconds / _DAY_NS
