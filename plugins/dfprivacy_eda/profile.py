"""Profile of a table without declarations: kind, bounds and frequent values of each column, and a schema."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from dfprivacy import Column, Curator, Release, features, mechanism
from dfprivacy.inference.counts import project_counts
from dfprivacy.plotting import forest
from dfprivacy.schema import OTHER, FoundPair
from dfprivacy.wording import list_text
from dfprivacy_eda.bounds import BETA, BEYOND, EDGES, RUN, extended_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.release import SurveyedColumn

__all__ = ["Profile", "profile"]

_SURVEY_SHARE = Fraction(2, 3)  # of the budget: what the columns hold; the rest is for histograms of numbers
_BINS = 32
_NO_NUMBERS = (None,) * 6  # of a column without numbers
_MAX_CODES = 20  # different numbers that are codes rather than measurements
_CODES_SHARE = 0.95  # of the rows with a number, that such codes make up
_MAX_PRINTED = 4
_KINDS = {"number": "numbers", "date": "dates", "text": "texts", "nothing detected": "nothing detected"}
_WIDEST_BOUNDS = float(EDGES[0]), float(EDGES[-1])
_TWO_SIDED = 1.96  # standard errors of a 95% interval
_LABELS = 3  # beside a picture, where there is less room


@dataclass(frozen=True, kw_only=True, repr=False)
class Profile(Release):
    """A noisy profile of the columns of a table.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    kinds : tuple of {"number", "date", "text"} or None
        What most of the values that were seen are; None where too few rows hold anything.
    rows : tuple of float
        The noisy number of rows that were seen to have a value of that kind.
    missing : tuple of float or None
        The noisy number of rows with nothing that can be used; None where it is below the threshold.
    low, high : tuple of float or None
        Bounds, powers of two, their negatives or 0, of numbers, and of dates in days since 1970-01-01.
    mean, std, skewness : tuple of float or None
        Of numbers and dates within these bounds, from a histogram; None where there is too much noise.
    values : tuple of tuples
        The values that occur in enough rows, the most frequent first.
    counts : tuple of tuples of float
        The noisy number of rows that hold each.
    size : int or None
        All rows; None where that is private.
    threshold : int
        What a number of rows had to reach to be seen.
    noise_standard_error : float
        Standard error of each number of rows.
    notes : tuple of str
        What to know before using it.
    beyond : tuple of float or None
        At most so many rows with a number or a date lie beyond the bounds, with probability 0.95.
    """

    columns: tuple[str, ...]
    kinds: tuple[str | None, ...]
    rows: tuple[float, ...]
    missing: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    mean: tuple[float | None, ...]
    std: tuple[float | None, ...]
    skewness: tuple[float | None, ...]
    values: tuple[tuple[Any, ...], ...]
    counts: tuple[tuple[float, ...], ...]
    size: int | None
    threshold: int
    noise_standard_error: float
    notes: tuple[str, ...]
    beyond: tuple[float | None, ...] = ()
    covers: str | None = "table"

    _row_counts = ("rows",)

    @property
    def schema(self) -> dict[str, Any]:
        """Schema with the found columns, for `protect` and `~dfprivacy.PrivateFrame.declare`.

        Bounds of numbers and dates; categories of texts, with ``"other"`` for all else, and of numbers that are a
        few codes.
        """
        bounds: dict[str, tuple[float, float]] = {}
        categories: dict[str, list[Any]] = {}
        missing: dict[str, str] = {}
        for at, name in enumerate(self.columns):
            low, high, kind = self.low[at], self.high[at], self.kinds[at]
            texts = sorted(value for value in self.values[at] if isinstance(value, str) and value != OTHER)
            if kind in {"number", "date"} and low is not None and high is not None:
                beyond = self.beyond[at] if self.beyond else None
                bounds[name] = FoundPair((low, high), math.inf if beyond is None else beyond)
                if codes := self._few_values(at):
                    categories[name] = codes
            elif kind == "text" and texts:
                categories[name], missing[name] = [*texts, OTHER], OTHER
        return {"bounds": bounds, "categories": categories, "missing": missing}

    def _few_values(self, at: int) -> list[Any]:
        """Return the frequent values of a numeric column if they are few and cover most rows; else []."""
        held = [(v, c) for v, c in zip(self.values[at], self.counts[at], strict=True) if not isinstance(v, str)]
        total = sum(count for _, count in held)
        few = 1 < len(held) <= _MAX_CODES and total >= _CODES_SHARE * self.rows[at] and self.kinds[at] == "number"
        return sorted(value for value, _ in held) if few else []

    @property
    def frame(self) -> Any:
        """Table with a row for each column of the profiled table."""
        return self.to_frame()

    def _tidy(self) -> list[dict[str, Any]]:
        names = ("missing", "low", "high", "beyond", "mean", "std", "skewness")
        cells = {name: getattr(self, name) or (None,) * len(self.columns) for name in names}
        frequent = [", ".join(map(str, values[:_MAX_PRINTED])) for values in self.values]
        return [{"column": self.columns, "kind": self.kinds, **cells, "frequent": frequent}]

    def _sentence(self) -> str:
        """Write a sentence with the number of columns of each kind, and the names of the columns."""
        kinds = [kind or "nothing detected" for kind in self.kinds]
        told = [f"{kinds.count(kind)} with {_KINDS[kind]}" for kind in dict.fromkeys(kinds)]
        names = self._label(*self.columns)
        seen = f"detected by values that occur in at least {self.threshold:,} rows"
        return f"{len(self.columns)} columns, {list_text(told)}, {seen}: {names}."

    def plot(self, ax: Any = None) -> Any:
        """Draw the number of rows with a value and without a value, for each column, with intervals."""
        reach, values = _TWO_SIDED * self.noise_standard_error, []
        names: list[str] = []
        for at, (rows, gone) in enumerate(zip(self.rows, self.missing, strict=True)):
            both = {self._column_label(at): rows, "without a value": gone}
            known = {name: number for name, number in both.items() if number is not None}
            names += known
            values += [(each, max(each - reach, 0.0), each + reach) for each in known.values()]
        what, noise = f"rows (values in at least {self.threshold:,} rows are detected)", [1.0] * len(names)
        return forest(names, values, what, ax, noise=noise, confidence=0.95)

    def _column_label(self, at: int) -> str:
        """Return the label of a column: its name, kind, and bounds or most frequent values."""
        name, kind, low, high = self._with_units(self.columns[at]), self.kinds[at], self.low[at], self.high[at]
        if kind is None:
            return f"{name}: nothing detected"
        held = ", ".join(map(str, self.values[at][:_LABELS])) + (", …" if len(self.values[at]) > _LABELS else "")
        what = (
            held if low is None or high is None else f"{_limit_as_text(low, kind)} to {_limit_as_text(high, kind)}"
        )
        return f"{name}: {kind}" + (f"\n{what}" if what else "")

    def _rows(self) -> list[tuple[str, str]]:
        rows = []
        for at, name in enumerate(self.columns):
            words = [self.kinds[at] or "nothing was detected"]
            if self.low[at] is not None:
                words.append(
                    " to ".join(_limit_as_text(end, self.kinds[at]) for end in (self.low[at], self.high[at]))
                )
            if self.beyond and (outside := self.beyond[at]) is not None:
                words[-1] += f", with at most {outside:,.0f} rows beyond (95% confidence)"
            of = {"mean": self.mean[at], "std": self.std[at], "skewness": self.skewness[at]}
            if known := [f"{name} {value:.3g}" for name, value in of.items() if value is not None]:
                words.append(", ".join(known))
            if self.values[at]:
                more = ", …" if len(self.values[at]) > _MAX_PRINTED else ""
                words.append(f"often {', '.join(map(str, self.values[at][:_MAX_PRINTED]))}{more}")
            gone = self.missing[at]
            if gone is not None:
                share = f" ({min(gone / self.size, 1):.1%})" if self.size else ""
                words.append(f"missing {gone:,.0f}{share}")
            rows.append((name, "; ".join(words)))
        seen = f"values in at least {self.threshold:,} rows, each count ± {self.noise_standard_error:,.3g}"
        return [*rows, ("seen", seen), *(("note", note) for note in self.notes)]


def _limit_as_text(end: float | None, kind: str | None) -> str:
    return f"{end:g}" if kind == "number" or end is None else str(np.datetime64(int(end), "D"))


@dataclass(frozen=True)
class ProfileData:
    """Measurement of a profile: frequent values and noisy histograms of the columns, and the number of rows."""

    surveyed: tuple[SurveyedColumn, ...]
    histograms: dict[str, tuple[tuple[float, float], NDArray[np.float64], float]]
    size: int | None


def outer_bounds(surveyed: SurveyedColumn) -> tuple[float, float] | None:
    """Return bounds of the numbers or dates of a column, whichever occur in more rows; None without any."""
    held = max(surveyed.numbers, surveyed.dates, key=lambda each: sum(each.values()))
    return (float(EDGES[min(held)]), float(EDGES[max(held) + 1])) if held else None


def histogram_edges(bounds: tuple[float, float]) -> tuple[NDArray[np.float64], int]:
    """Return the edges of equal bins within bounds and of intervals beyond, and the number of intervals below."""
    first, last = np.searchsorted(EDGES, bounds).tolist()
    return np.concatenate([EDGES[:first], np.linspace(*bounds, _BINS + 1), EDGES[last + 1 :]]), first


def bin_features(column: Column, bounds: tuple[float, float]) -> features.RowFeatures:
    """Return features that count the rows in equal bins within the bounds and in the intervals beyond."""
    wide = replace(column.without_declarations(), bounds=_WIDEST_BOUNDS, fill=0.0)
    return features.Given(wide, of=features.Bins(wide, histogram_edges(bounds)[0]))


@mechanism(columns={"columns": "all"}, delta=True)
def profile(curator: Curator, columns: tuple[Column, ...] | None = None) -> ProfileData:
    """Profile columns that are not declared: kinds, bounds, frequent values and missing values.

    Parameters
    ----------
    columns : str or list of str, optional
        The columns; what was declared of them is not used. Default: all of the table.

    Returns
    -------
    Profile
        For each column: whether it holds numbers, dates or texts, how many rows have nothing, bounds, mean,
        standard deviation and skewness of numbers, and frequent values. ``schema`` is what `protect` and
        `PrivateFrame.declare` take.

    Raises
    ------
    ArgumentError, SchemaError
        If an argument cannot be used, or there is no delta; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** (ε, δ)-differential privacy for the account's neighbouring relation. The type of a column is not
    looked at, for one value can change it: what a column holds is counted, row by row. Two thirds of the budget are
    for how many rows have a number in each interval between 0, ±2⁻¹⁰, …, ±2³¹, a date, a text, nothing, and each
    value: with Gaussian noise, shown from a threshold on [1]_. A row moves four such counts a column, two where
    rows come and go, so noise grows with the root of the number of columns. One third is for histograms of the
    numbers within the intervals that were seen and in those beyond, with Gaussian noise.

    **Statistics.** What fewer rows hold than the threshold is not seen, and counts are too large on average near
    it. Bounds reach over the intervals that were seen and, by the search of `find_bounds`, over those beyond that
    clearly hold rows. Mean, standard deviation and skewness are those of the histogram within them, each left out
    where the noise in it may be more than a tenth of a standard deviation, or a half in the skewness.

    References
    ----------
    .. [1] Lebeda and Retschmeier (2025). The correlated Gaussian sparse histogram mechanism. FORC.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"age": [22, 31, None, 40] * 1000, "sex": ["f", "m", "f", "f"] * 1000})
    >>> view = dp.protect(df, "eda-profile", epsilon=2, delta=1e-6, ledger="memory:")
    >>> found = view.profile(epsilon=1)
    >>> found.kinds, found.schema["bounds"], found.schema["categories"]["sex"]
    (('number', 'text'), {'age': (16.0, 64.0)}, ['f', 'm', 'other'])
    >>> round(view.declare(found).describe(epsilon=1).loc["mean", "age"])
    31
    """
    chosen = columns or ()
    surveyed = curator.survey(chosen, EDGES.tolist(), share=_SURVEY_SHARE)
    least = float(EDGES[0]), float(EDGES[1])  # beyond which there are most intervals
    (measure,) = curator.jointly((features.Stack(*(bin_features(column, least) for column in chosen)), 1))
    bounds = {column: ends for column, each in zip(chosen, surveyed, strict=True) if (ends := outer_bounds(each))}
    numeric = bounds
    if all(column.public for column in bounds):  # what is paid for is of a private column, if there is one
        numeric = {min(chosen, key=lambda column: column.public): _WIDEST_BOUNDS} | bounds
    counted = measure(features.Stack(*(bin_features(column, ends) for column, ends in numeric.items())))
    histograms = {
        column.name: (ends, part.values, float(np.max(part.scales)))
        for (column, ends), part in zip(numeric.items(), counted.parts, strict=True)
    }
    return ProfileData(surveyed, histograms, curator.size)


@profile.concludes
def conclude_profile(measured: ProfileData, columns: tuple[Column, ...]) -> Profile:
    """Compute the profile of each column from the measurement."""
    surveyed = measured.surveyed
    sums = [{"number": sum(f.numbers.values()), "date": sum(f.dates.values()), "text": f.text} for f in surveyed]
    kinds = tuple(max(each, key=lambda kind: each[kind]) if any(each.values()) else None for each in sums)
    ends = [
        outer_bounds(each) if kind in {"number", "date"} else None
        for each, kind in zip(surveyed, kinds, strict=True)
    ]
    looked = [
        profile_numbers(*measured.histograms[column.name], len(columns), measured.size) if end else _NO_NUMBERS
        for column, end in zip(columns, ends, strict=True)
    ]
    low, high, beyond, mean, std, skewness = zip(*looked, strict=True)
    notes = [BEYOND]
    if any(not kind and not each.nothing for kind, each in zip(kinds, surveyed, strict=True)):
        notes.append("Some columns have too few rows with a value: use a larger epsilon, or fewer columns.")
    for column, kind, each in zip(columns, kinds, surveyed, strict=True):
        if kind == "text" and not each.values:
            notes.append(f"No value of {column.name!r} occurs in enough rows to be shown, so it has no categories.")
    return Profile(
        columns=tuple(column.name for column in columns),
        kinds=kinds,
        rows=tuple(each[kind] if kind else 0.0 for each, kind in zip(sums, kinds, strict=True)),
        missing=tuple(each.nothing or None for each in surveyed),
        low=low,
        high=high,
        mean=mean,
        std=std,
        skewness=skewness,
        values=tuple(tuple(each.values) for each in surveyed),
        counts=tuple(tuple(each.values.values()) for each in surveyed),
        size=measured.size,
        threshold=surveyed[0].threshold,
        noise_standard_error=surveyed[0].scale,
        notes=tuple(notes),
        beyond=beyond,
    )


def profile_numbers(
    seen: tuple[float, float], counts: NDArray[np.float64], scale: float, columns: int, rows: int | None
) -> tuple[float | None, ...]:
    """Return bounds of a numeric column, an upper bound of the number of rows beyond them, and noisy moments."""
    runs = np.arange(1, RUN + 1)
    limits = scale * np.sqrt(runs) * -ndtri(BETA / (columns * (len(EDGES) - 1) * RUN))
    edges, first = histogram_edges(seen)
    first, last, outside = extended_range(counts, first, first + _BINS, limits, scale, rows)
    told = histogram_moments(edges[first : last + 1], counts[first:last], scale)
    return float(edges[first]), float(edges[last]), outside, *told


def histogram_moments(
    edges: NDArray[np.float64], counts: NDArray[np.float64], scale: float
) -> tuple[float | None, float | None, float | None]:
    """Return the mean, standard deviation and skewness of a noisy histogram, each None if noise dominates it."""
    total = float(counts.sum())
    if total <= 2 * scale * math.sqrt(counts.size):
        return None, None, None
    p, x = project_counts(counts, total) / total, (edges[1:] + edges[:-1]) / 2
    mean = float(p @ x)
    sd = math.sqrt(float(p @ (x - mean) ** 2))
    z = (x - mean) / max(sd, float(np.median(np.diff(edges))))  # within one bin, there is no telling
    skewness = float(p @ z**3)
    errors = [scale / total * float(np.linalg.norm(of)) for of in (z, (z**2 - 1) / 2, z**3 - 3 * z)]
    moments = zip((mean, sd, skewness), errors, (0.1, 0.1, 0.5), strict=True)
    one, two, three = (value if error <= most else None for value, error, most in moments)
    return one, two, three
