"""How many rows there are, with a value and without one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dfprivacy import Column, Curator, Probability, features, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.laws import NoiseLaw
from dfprivacy_eda.possible import within
from dfprivacy_eda.results import ColumnStatistic
from dfprivacy_eda.sums import counts

__all__ = ["count", "missing"]


@mechanism(columns={"columns": "columns"})
def count(curator: Curator, columns: tuple[Column, ...] | None = None, *, nan_policy: NanPolicy = "omit") -> Rows:
    """Count rows, or those with a value in every column that is named.

    Parameters
    ----------
    columns : str or list of str, optional
        Columns with bounds or categories. Default: all rows count, whatever they hold.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` tells them from the others, ``"fill"`` counts them as
        others, ``"raise"`` refuses them, where the columns are public.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    ColumnStatistic
        The number of rows, between 0 and all of them; ``raw`` is unbiased where the noise went beyond.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: a count with discrete Laplace
    noise of sensitivity 1 [1]_ (2 where rows with a value and without one are both counted, in a part of the table
    whose size is private, and rows may change). What public columns tell is exact and free.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, None, 40] * 500})
    >>> view = dp.protect(df, "eda-count", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> 1400 < float(view.count("age", epsilon=0.5)) < 1600
    True
    """
    return _rows(curator, columns or (), nan_policy, both=False)


@count.concludes
def _(measured: Rows, columns: tuple[Column, ...] | None, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Give the first number."""
    return _counted("count", measured, columns or (), confidence, 0)


@mechanism(columns={"columns": "columns"})
def missing(curator: Curator, columns: tuple[Column, ...], *, nan_policy: NanPolicy = "omit") -> Rows:
    """Count rows without a value in one of some columns.

    Parameters
    ----------
    columns : str or list of str
        Columns with bounds or categories; of a category column, whatever is none of the categories is missing.
    nan_policy : {"omit", "fill", "raise"}
        What becomes of rows without a value: ``"omit"`` tells them from the others, ``"fill"`` counts them as
        others, ``"raise"`` refuses them, where the columns are public.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    ColumnStatistic
        The number of rows, between 0 and all of them; ``raw`` is unbiased where the noise went beyond.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: a count with discrete Laplace
    noise of sensitivity 1 [1]_ (2 where rows with a value and without one are both counted, in a part of the table
    whose size is private, and rows may change). What public columns tell is exact and free.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, None, 40] * 500})
    >>> view = dp.protect(df, "eda-missing", epsilon=1, ledger="memory:", bounds={"age": (0, 100)})
    >>> 400 < float(view.missing("age", epsilon=0.5)) < 600
    True
    """
    return _rows(curator, columns, nan_policy, both=True)


@missing.concludes
def _(measured: Rows, columns: tuple[Column, ...], *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Give the second number."""
    return _counted("missing", measured, columns, confidence, 1)


@dataclass(frozen=True)
class Rows:
    """Rows with a value and without one, None if unknown, the laws of the noise, and how many there may be."""

    values: tuple[float, float | None]
    laws: tuple[NoiseLaw, NoiseLaw]
    size: int | None
    released: Mapping[str, Any]


def _rows(curator: Curator, columns: tuple[Column, ...], nan_policy: NanPolicy, *, both: bool) -> Rows:
    """Count the rows with a value, and those without one if that comes for nothing or is asked for."""
    n, gaps = curator.size, curator.gaps(columns, nan_policy)
    if not gaps:
        counted = curator.sum(features.Count(), grid="unit")
        return Rows((float(counted.values[0]), 0.0), (counted.law, NoiseLaw(0.0)), n, counts(counted, 0))
    told = n is None and (both or curator.neighbors == "add_remove")
    known = curator.sum(curator.once(_complete, gaps, told), grid="unit")
    value = float(known.values[0])
    left = float(known.values[1]) if told else None if n is None else n - value
    return Rows((value, left), (known.law, known.law), n, counts(known, n))


def _complete(gaps: tuple[Column, ...], told: bool) -> features.Given:  # noqa: FBT001 - as `once` takes it
    return features.Given(*gaps, tally=(0, 1) if told else None)


def _counted(name: str, rows: Rows, columns: tuple[Column, ...], confidence: float, which: int) -> ColumnStatistic:
    noisy, law = rows.values[which] or 0.0, rows.laws[which]
    reach = law.reach(confidence)
    most = math.inf if rows.size is None else float(rows.size)
    left = rows.values[1] if name == "count" and columns else None
    value, low, high = within(noisy, noisy - reach, noisy + reach, most)
    return ColumnStatistic(
        value=value,
        low=low,
        high=high,
        confidence=confidence,
        noise_standard_error=law.standard_deviation,
        statistic=name,
        column=", ".join(column.name for column in columns),
        count=rows.values[0] if name == "count" or rows.size is None else float(rows.size),
        missing=left,
        missing_standard_error=None if left is None else rows.laws[1].standard_deviation,
        raw=None if value == noisy else noisy,
        released=rows.released,
    )
