"""How many different values a column has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, Probability, features, mechanism
from dfprivacy.arguments import NanPolicy
from dfprivacy.statistics import OfRows, OfSums
from dfprivacy_eda.possible import within
from dfprivacy_eda.results import ColumnStatistic
from dfprivacy_eda.sums import counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.features import Batch

__all__ = ["Categories", "Values", "nunique", "nunique_asked"]


def _one(columns: tuple[Column, ...], public: frozenset[str]) -> float:
    """Bound how far a row moves a number of different values: a value goes, another comes, or neither."""
    return 0.0 if all(column.name in public for column in columns) else 1.0


class Categories(OfSums):
    """How many categories of a column some row is in."""

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
    """How many different numbers there are in a column, as clipped to its bounds."""

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


@dataclass(frozen=True)
class Counted:
    """The noisy number, the scale of its noise, and the most there can be."""

    value: float
    scale: float
    most: float
    released: Mapping[str, Any]


def nunique_asked(column: Column, **_: Any) -> None:
    """Check that values can be told apart, before anything is paid."""
    if column.bounds is None and column.categories is None:
        raise ArgumentError(
            f"Of {column.name!r} nothing is declared, so its values cannot be told from typing errors and noise.",
            f"Declare categories={{{column.name!r}: [...]}} for those that count, or bounds if they are numbers.",
        )


@mechanism(columns={"column": "any"})
def nunique(curator: Curator, column: Column, *, nan_policy: NanPolicy = "omit") -> Counted:
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
    return Counted(float(measured.values[0]), float(measured.scales[0]), most, counts(measured))


@nunique.concludes
def _(measured: Counted, column: Column, *, confidence: Probability = 0.95) -> ColumnStatistic:
    """Give the number with the interval of its noise."""
    reach, noisy = -math.log1p(-confidence) * measured.scale, measured.value
    value, low, high = within(noisy, noisy - reach, noisy + reach, measured.most)
    return ColumnStatistic(
        value=value,
        low=low,
        high=high,
        confidence=confidence,
        noise_standard_error=math.sqrt(2) * measured.scale,
        statistic="nunique",
        column=column.name,
        covers="limited table" if column.categories is None else "table",
        bounds=column.bounds if column.categories is None else None,
        raw=None if value == noisy else noisy,
        notes=_notes(high - low, measured.most),
        released=measured.released,
    )


def _notes(width: float, most: float) -> tuple[str, ...]:
    if width <= most / 2:
        return ()
    return ("The interval spans more than half of what is possible: there is too little epsilon for this column.",)
