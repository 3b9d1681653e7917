"""Format numbers, intervals and p-values as text for sentences and tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ROW_ERROR",
    "bounds_phrase",
    "clearly_some",
    "covered_phrase",
    "interval_text",
    "limit_suffix",
    "list_text",
    "mark_limited",
    "name_sample",
    "noise_share",
    "number",
    "pvalue",
    "rows_phrase",
    "rows_text",
    "significant",
    "uncertainty",
    "with_error",
    "with_unit",
]

ROW_ERROR = 10.0
"""An error by which no part of a row is significant."""
_DIGITS = 6  # significant ones, where nothing is known of the error
_EXACT = 1e15  # integers below it are written out
_LEAST = 0.001  # a p-value below it is not written out
_CLEARLY = 5.0  # standard errors above 0: of a thousand columns that miss nothing less than one is said to
_WHOLE = 0.995  # a part from which on it is all
_NEAR = 1e-9  # parts of the width of bounds from one, up to which a number lies on it


def _decimals(error: float | None) -> int | None:
    """Return the decimal places of two significant digits of an error; None for 0 and infinite errors."""
    if not error or not math.isfinite(error):
        return None
    return min(max(0, 1 - math.floor(math.log10(abs(error)))), 12)


def number(value: Any, error: float | None = None) -> str:
    """Format a number with as many digits as its error makes significant.

    Examples
    --------
    >>> number(12345.678, 3.2), number(0.123456, 0.0021), number(20000.0), number(0.1234567)
    ('12,345.7', '0.1235', '20,000', '0.123457')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    places = _decimals(error)
    if math.isfinite(value) and places is not None:
        return f"{round(value, places) + 0.0:,.{places}f}"  # there is no minus zero
    integral = abs(value) < _EXACT and value == round(value) if math.isfinite(value) else False
    return f"{value:,.0f}" if integral else f"{value:.{_DIGITS}g}"


def significant(value: float, digits: int) -> str:
    """Format a number with significant digits, without trailing zeros.

    Examples
    --------
    >>> significant(13431.7, 3), significant(2.0, 3), significant(0.0123456, 3)
    ('13,400', '2', '0.0123')
    """
    return f"{float(f'{value:.{digits}g}'):,.15g}"


def with_error(value: Any, error: float | None) -> str:
    """Format a number with its standard error, if there is one.

    Examples
    --------
    >>> with_error(45.0213, 0.0471), with_error(20000.0, 0.0), with_error("f", None)
    ('45.021 ± 0.047', '20,000', 'f')
    """
    return number(value, error) if not error else f"{number(value, error)} ± {number(error, error)}"


def rows_text(rows: Any, error: float | None = None) -> str:
    """Format a number of rows as an integer, with its standard error, if there is one.

    Examples
    --------
    >>> rows_text(1198.4, 1.23), rows_text(739.2, 280.4), rows_text(20000.0, 0.0)
    ('1,198 ± 1.2', '739 ± 280', '20,000')
    """
    return number(rows, ROW_ERROR) + (f" ± {number(error, error)}" if error and round(error, 1) else "")


def limit_suffix(value: float, bounds: tuple[float, float] | None) -> str:
    """Return " or more" or " or less" for a quantile at a bound, to which values beyond it are clipped; else "".

    Examples
    --------
    >>> limit_suffix(90.0, (18.0, 90.0)), limit_suffix(18.0, (18.0, 90.0)), limit_suffix(45.0, (18.0, 90.0))
    (' or more', ' or less', '')
    """
    if bounds is None:
        return ""
    low, high = bounds
    near = (high - low) * _NEAR
    return " or less" if value <= low + near else " or more" if value >= high - near else ""


def with_unit(text: str, unit: str) -> str:
    """Append a unit to a formatted number, if there is one; a percent sign follows without a space.

    Examples
    --------
    >>> with_unit("45.0", "years"), with_unit("45.0", "%"), with_unit("45.0", "")
    ('45.0 years', '45.0%', '45.0')
    """
    return f"{text}{unit}" if unit in {"", "%"} else f"{text} {unit}"


def interval_text(
    low: float, high: float, unit: str = "", bounds: tuple[float, float] | None = None, least: float = 0.0
) -> str:
    """Format an interval with digits by its width; an end at a bound gets " or more" or " or less".

    Digits are those of an error of `least`, if the width is that of a smaller one: `ROW_ERROR` for numbers of rows.

    Examples
    --------
    >>> interval_text(44.9283, 45.1142), interval_text(0.0, 0.0), interval_text(20.0, 90.0, "years", (0.0, 90.0))
    ('44.928 to 45.114', '0 to 0', '20 to 90 years or more')
    >>> interval_text(90.0, 90.0, "years", (0.0, 90.0)), interval_text(2.5, math.inf)
    ('90 years or more', '2.5 or more')
    >>> interval_text(-math.inf, math.inf)
    'any number'
    >>> interval_text(40.0, 47.3, "%")
    '40.0 to 47.3%'
    """
    width, units = max((high - low) / 4, least), with_unit("", unit)
    if math.isinf(width):
        one = f"{number(low)}{units} or more" if math.isinf(high) else f"{number(high)}{units} or less"
        return "any number" if math.isinf(low) and math.isinf(high) else one
    first = f"{number(low, width)}{limit_suffix(low, bounds)}"
    last = f"{number(high, width)}{units}{limit_suffix(high, bounds)}"
    return last if low == high and limit_suffix(high, bounds) else f"{first} to {last}"


def pvalue(p: float) -> str:
    """Format a p-value with three decimals.

    Examples
    --------
    >>> pvalue(0.0312), pvalue(1e-9)
    ('p = 0.031', 'p < 0.001')
    """
    return f"p < {_LEAST}" if p < _LEAST else f"p = {p:.3f}"


def list_text(names: Sequence[object], most: int = 6) -> str:
    """Format a list of names; of a long list, the first names and the number of the others.

    Examples
    --------
    >>> list_text(["age"]), list_text(["age", "bmi", "ward"]), list_text("abcd", most=2)
    ('age', 'age, bmi and ward', 'a, b and 2 more')
    """
    shown = [str(name) for name in names[:most]]
    shown += [f"{len(names) - most} more"] if len(names) > most else []
    *first, last = shown or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last


def clearly_some(rows: float | None, error: float | None) -> bool:
    """Return whether a noisy number of rows, such as rows with missing values, is clearly above 0.

    Parameters
    ----------
    rows : float or None
        The number; None if it is not known.
    error : float or None
        Standard error of the noise in it; None or 0 where it is exact.

    Returns
    -------
    bool
        Whether it is five standard errors above 0: Laplace noise alone is so once in 2,400 times.

    Examples
    --------
    >>> clearly_some(12.0, 2.0), clearly_some(8.0, 2.0), clearly_some(0.0, None), clearly_some(1.0, 0.0)
    (True, False, False, True)
    """
    return rows is not None and rows > _CLEARLY * (error or 0.0)


def rows_phrase(covers: str, weights: str | None = None) -> str:
    """Return words for the rows that an interval is about: this table, this sample, or the (weighted) population.

    Examples
    --------
    >>> rows_phrase("limited table"), rows_phrase("sample"), rows_phrase("population")
    ('this table', 'this sample', 'the population')
    >>> rows_phrase("population", "w")
    "the population that 'w' stands for"
    """
    rows = covers.removeprefix("limited ")
    stands = "" if weights is None else f" that {weights!r} stands for"
    return f"this {rows}" if rows in {"table", "sample"} else f"the population{stands}"


def bounds_phrase(covers: str | None, bounds: Any = None) -> str:
    """Return words for the bounds to which values are limited, after a space; empty if they are not limited.

    Examples
    --------
    >>> bounds_phrase("limited table", (18.0, 90.0)), bounds_phrase("limited population"), bounds_phrase("table")
    (' limited to [18, 90]', ' limited to their bounds', '')
    """
    if covers is None or not covers.startswith("limited"):
        return ""
    pair = isinstance(bounds, tuple) and all(isinstance(end, int | float) for end in bounds)
    return f" limited to [{', '.join(map(number, bounds))}]" if pair else " limited to their bounds"


def mark_limited(covers: str) -> str:
    """Return the `covers` text of an interval with "limited" in front, unless it is there already.

    Examples
    --------
    >>> mark_limited("table"), mark_limited("limited sample")
    ('limited table', 'limited sample')
    """
    return covers if covers.startswith("limited") else f"limited {covers}"


def covered_phrase(covers: str, bounds: Any = None) -> str:
    """Return words for the quantity that an interval covers.

    Parameters
    ----------
    covers : {"table", "population", "sample", "limited table", "limited population", "limited sample"}
        As `Release.covers`.
    bounds : tuple of two float, optional
        The bounds to which values are limited, if they are those of one column.

    Returns
    -------
    str
        The words.

    Examples
    --------
    >>> covered_phrase("table")
    'this table'
    >>> covered_phrase("limited population", (18, 90))
    'the population, values limited to [18, 90]'
    """
    what = bounds_phrase(covers, bounds)
    return rows_phrase(covers) + (f", values{what}" if what else "")


def noise_share(standard_error: float, sampling: float | None) -> float | None:
    """Return the part of an interval's width that is due to privacy noise.

    Parameters
    ----------
    standard_error : float
        Standard error of the estimate, from sampling and noise together.
    sampling : float or None
        Standard error from sampling alone; None if it is not known.

    Returns
    -------
    float or None
        The part, between 0 and 1; None if it is not known.

    Examples
    --------
    >>> noise_share(5.0, 4.0)
    0.2
    """
    if sampling is None or not 0 <= sampling <= standard_error or not 0 < standard_error < math.inf:
        return None
    return round(1 - sampling / standard_error, 12)


def name_sample(text: str) -> str:
    """Return a text with "this sample" in place of "this table" and "these tables".

    Examples
    --------
    >>> name_sample("95% CI 3 to 4 for this table; privacy noise only, no sampling error")
    '95% CI 3 to 4 for this sample; privacy noise only, no sampling error'
    """
    return text.replace("this table", "this sample").replace("these tables", "this sample")


def uncertainty(
    low: float | None = None,
    high: float | None = None,
    confidence: float | None = None,
    *,
    unit: str = "",
    whose: str = "the population",
    noise: float | None = None,
    p: float | None = None,
    bounds: tuple[float, float] | None = None,
    least: float = 0.0,
) -> str:
    """Format the interval, noise share and p-value of an estimate in brackets, after a space; empty if unknown.

    Parameters
    ----------
    low, high, confidence : float, optional
        The interval and its coverage.
    unit : str
        Unit of its ends.
    whose : str
        The rows that it is about, such as ``"this table"``; empty if the sentence names them elsewhere.
    noise : float, optional
        The part of its width that is due to privacy noise.
    p : float, optional
        The p-value.
    bounds : tuple of two float, optional
        The bounds, for a quantile: where its interval reaches one, it may reach beyond.
    least : float
        As for `interval_text`.

    Returns
    -------
    str
        The words.

    Examples
    --------
    >>> uncertainty(0.4, 2.0, 0.95, unit="kg/m²", noise=0.12, p=0.003)
    ' (95% CI 0.40 to 2.00 kg/m² for the population; 12% of its width is privacy noise; p = 0.003)'
    """
    parts = []
    if low is not None and high is not None:
        named = "interval" if confidence is None else f"{100 * confidence:.4g}% CI"
        parts.append(
            f"{named} {interval_text(low, high, unit, bounds, least)}" + (f" for {whose}" if whose else "")
        )
        if noise is not None:
            much = f"{100 * noise:.2g}% of its width is privacy noise"
            parts.append("privacy noise only, no sampling error" if noise >= _WHOLE else much)
    parts += [] if p is None else [pvalue(p)]
    return f" ({'; '.join(parts)})" if parts else ""
