"""Which number a value of a table stands for."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

__all__ = ["days", "plain_number"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_NS = 86_400 * 10**9
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
        A number for numbers, booleans, decimals and dates; NaN for all else.
    """
    try:
        if isinstance(value, np.timedelta64):  # NumPy calls it an integer
            return math.nan
        if isinstance(value, _NUMBERS):
            return _float(value)
        if dates and isinstance(value, np.datetime64):
            return float(days(value))
        if dates and isinstance(value, dt.datetime):
            return _days(value)
        if dates and isinstance(value, dt.date):
            return float((value - _EPOCH.date()).days)
    except Exception:  # noqa: BLE001 - NaT, a signalling NaN, a broken object: an error would tell on its row
        return math.nan
    return math.nan


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a huge integer
        return math.inf if value > 0 else -math.inf


def days(stamps: Any) -> Any:
    """Days since 1970-01-01 of ``datetime64`` values of any unit, NaN for NaT.

    Whole days and the time of day are converted apart, so that the unit cannot change the result.
    """
    whole = stamps.astype("datetime64[D]")
    fraction = (stamps - whole) / np.timedelta64(1, "D")
    return whole.astype(np.int64) + fraction


def _days(stamp: dt.datetime) -> float:
    since = (stamp if stamp.tzinfo else stamp.replace(tzinfo=dt.UTC)) - _EPOCH
    nanoseconds = (since.seconds * 10**6 + since.microseconds) * 1000 + getattr(since, "nanoseconds", 0)
    return since.days + nanoseconds / _DAY_NS
