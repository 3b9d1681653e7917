"""Search for categories of columns that have none declared: values that occur in at least a threshold of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ArgumentError, Column, Curator, DiscoveredKeys, Probability, Release, mechanism
from dfprivacy.laws import NoiseLaw
from dfprivacy.plotting import stack_plots
from dfprivacy.schema import OTHER
from dfprivacy.wording import list_text, rows_text
from dfprivacy_eda.tables import Counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "FoundCategories",
    "FoundCounts",
    "FoundKeys",
    "find_categories",
    "found_counts",
    "measure_frequent_values",
]

_MAX_LISTED = 3  # columns in a sentence


@dataclass(frozen=True)
class FoundKeys:
    """Frequent values of each searched column, and the number of all rows (None if it is private)."""

    discovered: tuple[DiscoveredKeys, ...]
    size: int | None


def count_half_width(scale: float, confidence: float) -> float:
    """Return the half-width of the confidence interval of a count that is released only above a threshold.

    With Laplace noise of scale b, a noisy count above c + b ln(2/α), or below c - b ln(2/α), has at most α/2 of the
    probability of one that is shown, if c is at least the threshold.
    """
    return scale * math.log(2 / (1 - confidence))


@dataclass(frozen=True, kw_only=True, repr=False)
class FoundCounts(Counts):
    """Noisy counts of the frequent values of a column: `Counts` whose categories were found, not declared.

    Attributes
    ----------
    threshold : int
        What a noisy count had to reach. No other value is told from those that nobody holds.
    domain : int or None
        How many values there can be, where that is known. Then any of them may be here, though it occurs in no row.
    false : float
        How many values that occur in no row are here on average, at most.
    other, other_standard_error : float or None
        Rows that hold none of these, missing values among them, and the standard error; None where the number of
        rows is private.
    intervals : tuple of two ndarray
        Ends of an interval for the table's own count of each. They cover it also among the counts that are shown
        because their noise was large: near the threshold they begin at 1, or at 0 where the domain is known.
    """

    threshold: int
    domain: int | None = None
    false: float = 0.0
    other: float | None = None
    other_standard_error: float | None = None

    @property
    def intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper ends of the confidence interval of each exact count."""
        if not self.noise_scale:
            return self.raw, self.raw
        reach, least = count_half_width(self.noise_scale, self.confidence), 1.0 if self.domain is None else 0.0
        low = np.where(self.raw >= self.threshold + reach, self.raw - reach, least)
        return np.maximum(low, least), self.raw + reach

    @property
    def schema(self) -> dict[str, Any]:
        """Schema with the found values and ``"other"``, for `protect` and `~dfprivacy.PrivateFrame.declare`."""
        return _schema_of({self.column: self.categories})

    def _rows(self) -> list[tuple[str, str]]:
        rows = super()._rows()
        if self.other is not None:
            rows.insert(0, (OTHER, f"{rows_text(self.other, self.other_standard_error)} rows"))
        if not self.categories:
            more = (
                "a larger epsilon or delta, or declare the categories"
                if self.domain is None
                else "a larger epsilon"
            )
            rows.insert(0, ("note", f"No value was found: use {more}."))
        shown = (
            f"values with a noisy count of at least {self.threshold:,}; counts near this are too large on average"
        )
        if self.domain is not None:
            false = f"; on average {self.false:.2g} of the shown values occur in no row" if self.noise_scale else ""
            rows.append(("domain", f"{self.domain:,} values{false}"))
        return [*rows, ("shown", shown)] if self.noise_scale else rows


def found_counts(
    keys: DiscoveredKeys,
    column: str,
    size: int | None,
    confidence: float,
    *,
    normalize: bool = False,
    sort: bool = True,
) -> FoundCounts:
    """Return the `FoundCounts` of one column, from its frequent values and their noisy counts."""
    order = np.arange(len(keys.keys)) if sort else np.array(_sorted_indices(keys.keys), dtype=np.intp)
    raw = keys.counts.astype(np.float64)[order]
    total, law = float(raw.sum()), NoiseLaw(keys.scale, 1.0 if keys.scale else 0.0)
    return FoundCounts(
        raw=raw,
        total=total if size is None else min(total, float(size)),
        noise_scale=law.scale,
        noise_step=law.step,
        confidence=confidence,
        normalize=normalize,
        column=column,
        categories=tuple(keys.keys[at] for at in order.tolist()),
        threshold=keys.threshold,
        domain=keys.domain,
        false=keys.false,
        other=None if size is None else size - total,
        other_standard_error=None if size is None else law.standard_deviation * math.sqrt(len(raw)),
    )


def _sorted_indices(keys: tuple[Any, ...]) -> list[int]:
    """Return the indices that sort the values, with numbers before strings."""
    return sorted(range(len(keys)), key=lambda at: (isinstance(keys[at], str), keys[at]))


def _schema_of(found: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Return a schema whose categories are the found values of each column, and ``"other"`` for all others."""
    categories = {
        name: [*(values[at] for at in _sorted_indices(values) if values[at] != OTHER), OTHER]
        for name, values in found.items()
    }
    return {"categories": categories, "missing": dict.fromkeys(found, OTHER)}


@dataclass(frozen=True, kw_only=True, repr=False)
class FoundCategories(Release):
    """Frequent values of each searched column, with their noisy counts.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    known : tuple of tuples
        The values of each, the largest noisy count first.
    counts : tuple of tuples of float
        The noisy number of rows that hold each.
    thresholds : tuple of int
        What a noisy count had to reach, by column.
    noise_scales : tuple of float
        The scale of the Laplace noise in the counts of each column; 0 where it is public.
    size : int or None
        All rows; None where that is private.
    confidence : float
        Coverage of the intervals of ``found[column]``.
    """

    columns: tuple[str, ...]
    known: tuple[tuple[Any, ...], ...]
    counts: tuple[tuple[float, ...], ...]
    thresholds: tuple[int, ...]
    noise_scales: tuple[float, ...]
    size: int | None
    confidence: float

    @property
    def categories(self) -> dict[str, list[Any]]:
        """Sorted values by column, with ``"other"`` last, as `protect` takes them in ``categories``."""
        found: dict[str, list[Any]] = self.schema["categories"]
        return found

    @property
    def schema(self) -> dict[str, Any]:
        """Schema with the found values and ``"other"``, for `protect` and `~dfprivacy.PrivateFrame.declare`."""
        return _schema_of(dict(zip(self.columns, self.known, strict=True)))

    def __getitem__(self, column: str) -> FoundCounts:
        if column not in self.columns:
            raise ArgumentError(
                f"Column {column!r} was not searched.", f"The searched columns are {list(self.columns)!r}."
            )
        at = self.columns.index(column)
        counts = np.array(self.counts[at], dtype=np.int64)
        keys = DiscoveredKeys(self.known[at], counts, self.thresholds[at], self.noise_scales[at], None)
        return found_counts(keys, column, self.size, self.confidence)

    def _sentence(self) -> str:
        """Write a sentence with the values that were found in each column."""
        told = [
            f"{self._label(name)} has {list_text(values)}" if values else f"{self._label(name)} has none"
            for name, values in zip(self.columns, self.known, strict=True)
        ]
        some = "; ".join(told[:_MAX_LISTED])
        more = f"; and {len(told) - _MAX_LISTED} more columns below" if len(told) > _MAX_LISTED else ""
        return f"Values that occur in at least about {min(self.thresholds):,} rows: {some}{more}."

    def plot(self, ax: Any = None) -> Any:
        """Draw the noisy count of each frequent value of each column, with its confidence interval."""
        each = [replace(self[name], column_words=self.column_words) for name in self.columns]
        if len(each) == 1:
            return each[0].plot(ax)
        return stack_plots([*map(self._with_units, self.columns)], [one.plot for one in each], ax)

    @property
    def frame(self) -> Any:
        """Table with a row for each value: its column, the value as text, and its noisy count."""
        return self.to_frame()

    def _tidy(self) -> list[dict[str, Any]]:
        return [
            {"column": [name] * len(values), "category": [*map(str, values)], "count": counts}
            for name, values, counts in zip(self.columns, self.known, self.counts, strict=True)
        ]

    def _rows(self) -> list[tuple[str, str]]:
        rows = []
        for at, (name, values) in enumerate(zip(self.columns, self.known, strict=True)):
            shown = ", ".join(map(str, values[:8])) + (f", … ({len(values):,} in all)" if len(values) > 8 else "")  # noqa: PLR2004
            rows.append((name, f"{shown or 'none found'}; noisy counts of {self.thresholds[at]:,} rows or more"))
        return [*rows, ("all others", f"together in the category {OTHER!r}, with missing values")]


def measure_frequent_values(
    curator: Curator, columns: tuple[Column, ...], domain: Sequence[Any] | str | None = None
) -> FoundKeys:
    """Find the frequent values of each column, regardless of its declared bounds and categories."""
    plain = [replace(column, bounds=None, categories=None, other=False, fill=None) for column in columns]
    share = Fraction(1, len(columns))
    return FoundKeys(tuple(curator.discover(column, domain=domain, share=share) for column in plain), curator.size)


@mechanism(columns={"columns": "all"}, delta=True)
def find_categories(curator: Curator, columns: tuple[Column, ...]) -> FoundKeys:
    """Find categories of columns that have none declared: values that occur in at least a threshold of rows.

    Parameters
    ----------
    columns : str or list of str
        The columns, each by itself; categories that were declared are not used.
    confidence : float
        Coverage of the intervals of counts.

    Returns
    -------
    FoundCategories
        Values by column, in ``categories``; ``schema`` is what `protect` and `PrivateFrame.declare` take, with all
        other values, missing ones among them, as ``"other"``.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used, or there is no delta; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** (ε, δ)-differential privacy for the account's neighbouring relation: the counts of values that
    occur get discrete Laplace noise, and are shown from a threshold on that a value which one row holds reaches
    with probability δ at most [1]_. The columns share ε and δ.

    **Statistics.** A value with c rows is found for sure if c is well above the threshold, 1 + (2/ε) ln(1/δ) rows
    or a little less for one column where rows change. However many different values there are costs nothing.

    References
    ----------
    .. [1] Korolova, Kenthapadi, Mishra and Ntoulas (2009). Releasing search queries and clicks privately. WWW.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"icd": ["J45", "E11", "J45", "I10"] * 500 + [f"rare {i}" for i in range(500)]})
    >>> view = dp.protect(df, "eda-categories", epsilon=1, delta=1e-6, ledger="memory:")
    >>> found = view.find_categories(["icd"], epsilon=0.5)
    >>> found.categories
    {'icd': ['E11', 'I10', 'J45', 'other']}
    >>> round(view.declare(found).value_counts("icd", normalize=True, epsilon=0.5)["J45"], 1)
    0.4
    """
    return measure_frequent_values(curator, columns)


@find_categories.concludes
def conclude_find_categories(
    measured: FoundKeys, columns: tuple[Column, ...], *, confidence: Probability = 0.95
) -> FoundCategories:
    """Return the categories of each column: its frequent values, with their noisy counts."""
    return FoundCategories(
        columns=tuple(column.name for column in columns),
        known=tuple(each.keys for each in measured.discovered),
        counts=tuple(tuple(each.counts.astype(float).tolist()) for each in measured.discovered),
        thresholds=tuple(each.threshold for each in measured.discovered),
        noise_scales=tuple(each.scale for each in measured.discovered),
        size=measured.size,
        confidence=confidence,
    )
