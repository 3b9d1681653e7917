"""Numbers of rows, with a value and without one, and of different values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, Probability, features, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.statistics import OfRows, OfSums
from dfprivacy_eda.results import ColumnStatistic, concluded
from dfprivacy_eda.sums import Sums, counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.features import Batch

__all__ = ["Categories", "Values", "count", "missing", "nunique", "nunique_asked"]


@mechanism(columns={"columns": "columns"})
def count(curator: Curator, columns: tuple[Column, ...] | None = None, *, nan_policy: NanPolicy = "omit") -> Sums:
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
def _(measured: Sums, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Return the number of rows with a value."""
    return concluded("count", measured, confidence)


@mechanism(columns={"columns": "columns"})
def missing(curator: Curator, columns: tuple[Column, ...], *, nan_policy: NanPolicy = "omit") -> Sums:
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
def _(measured: Sums, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Return the number of rows without one."""
    return concluded("missing", measured, confidence)


def _rows(curator: Curator, columns: tuple[Column, ...], nan_policy: NanPolicy, *, both: bool) -> Sums:
    """Count the rows with a value, and those without one if that comes for nothing or is asked for."""
    n, gaps = curator.size, curator.gaps(columns, nan_policy)
    if not gaps:
        return counts(curator.sum(features.Count(), grid="unit"), columns, complete=True)
    told = n is None and (both or curator.neighbors == "add_remove")
    known = curator.sum(features.Given(*gaps, tally=(0, 1) if told else None), grid="unit")
    return counts(known, columns, n, complete=False)


def _one(columns: tuple[Column, ...], public: frozenset[str]) -> float:
    """Bound how far a row moves a number of different values: a value goes, another comes, or neither."""
    return 0.0 if all(column.name in public for column in columns) else 1.0


class Categories(OfSums):
    """The number of categories of a column that occur."""

    shape = (1,)

    def __init__(self, column: Column) -> None:
        self.features = features.OneHot(column)
        self.columns = (column,)

    def value(self, sums: NDArray[np.float64]) -> Any:
        """Count the counts that are not 0."""
        return np.count_nonzero(sums)

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far one row moves it."""
        return _one(self.columns, public) if relation == "replace_one" else 1.0


class Values(OfRows):
    """The number of different numbers in a column, as clipped to its bounds."""

    shape = (1,)

    def __init__(self, column: Column, *, omit: bool) -> None:
        self.columns = (column,)
        self.omit = omit

    def value(self, rows: Batch) -> Any:
        """Count them."""
        (column,) = self.columns
        values = rows.values(column)
        return len(np.unique(values[~rows.missing(column)] if self.omit else values))

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:  # noqa: ARG002
        """Bound how far one row moves it."""
        return _one(self.columns, public) if relation == "replace_one" else 1.0


def nunique_asked(column: Column, **_: Any) -> None:
    """Check that values can be told apart, before anything is paid."""
    if column.bounds is None and column.categories is None:
        raise ArgumentError(
            f"Of {column.name!r} nothing is declared, so its values cannot be told from typing errors and noise.",
            f"Declare categories={{{column.name!r}: [...]}} for those that count, or bounds if they are numbers.",
        )


@mechanism(columns={"column": "any"})
def nunique(curator: Curator, column: Column, *, nan_policy: NanPolicy = "omit") -> Sums:
    """Count the different values of a column.

    Parameters
    ----------
    column : str
        A column with categories, of which those count that some row is in, or with bounds, to which its numbers are
        clipped. Of a column with both, the categories count.
    nan_policy : {"omit", "fill", "raise"}
        Whether a missing number is no value, ``"omit"``, or counts as the column's fill value, ``"fill"``;
        ``"raise"`` refuses missing values, where the column is public.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    ColumnStatistic
        The number, between 0 and that of the categories, or of the rows; ``raw`` is unbiased where the noise went
        beyond.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used, or neither bounds nor categories are declared; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: discrete Laplace noise of
    sensitivity 1 [1]_. Where a row changes, one value may go and another come, so the number moves by 1 at most.

    References
    ----------
    .. [1] Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis. TCC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, 27, 40] * 5000})
    >>> view = dp.protect(df, "eda-nunique", epsilon=50, ledger="memory:", bounds={"age": (0, 100)})
    >>> round(float(view.nunique("age", epsilon=50)))
    4
    """
    gaps = curator.gaps([column], nan_policy)
    if column.categories is not None:
        measured, most = curator.measure(Categories(column)), float(len(column.categories))
    else:
        measured = curator.measure(Values(column, omit=bool(gaps)))
        most = math.inf if curator.size is None else float(curator.size)
    found = counts(measured, [column], most, complete=False)
    return replace(found, counted=False)


@nunique.concludes
def _(measured: Sums, column: Column, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Return the number with the interval of its noise."""
    found = replace(concluded("count", measured, confidence), statistic="nunique", count=None)
    wide = found.low is not None and found.high is not None and found.high - found.low > measured.size / 2
    few = "The interval spans more than half of what is possible: there is too little epsilon for this column."
    found = replace(found, notes=(few,) * wide)
    return found if column.categories is not None else replace(found, covers="limited table", bounds=column.bounds)
