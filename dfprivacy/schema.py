"""What is public about a table, and how its raw values become numbers that public bounds hold.

Cleaning, clipping and encoding happen here, in NumPy, and nowhere else, so that every engine gives the
same numbers. What becomes of a value:

================================  ==========================================================================
raw value                         outcome
================================  ==========================================================================
number within the bounds          itself, as float64
number outside, +inf, -inf        the nearer bound
NaN, null, None, NaT              the column's fill value (the midpoint of the bounds unless said otherwise)
boolean                           0 or 1
decimal, integer of any size      the nearest float64, then as above
date, datetime                    days since 1970-01-01 (UTC), with a fraction for the time of day
text, or anything else, in a      missing
column used as a number
value among the categories        that category; numbers are compared as float64, so 1, 1.0 and True are one
                                  category, and the text "1" is another
any other value, or a missing     no category: the row counts nowhere; or the category ``"other"`` if the
one                               column's missing-value rule is ``"other"``
================================  ==========================================================================
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from dfprivacy.errors import ArgumentError, SchemaError, quoted
from dfprivacy.frames import withheld
from dfprivacy.frames.values import plain_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.frames import Frame, Raw

Category: TypeAlias = str | int | float | bool
Neighbors = Literal["replace_one", "add_remove"]
Codes: TypeAlias = "NDArray[np.intp]"

OTHER = "other"
_FLOAT_EXACT = 2**53  # float64 holds every integer up to here
_LUT_SPAN = 1 << 16  # widest range of integer categories that is looked up in a table


@dataclass(frozen=True)
class Column:
    """What is public about one column.

    Attributes
    ----------
    name : str
        Its name.
    bounds : tuple of float or None
        Lower and upper bound, in the column's units (days since 1970-01-01 for dates).
    categories : tuple or None
        The categories it may take, in the order of their codes.
    fill : float or None
        The value a missing number counts as.
    other : bool
        Whether what is no category counts as the last category, ``"other"``.
    public : bool
        Whether neighbouring tables agree on this column.
    """

    name: str
    bounds: tuple[float, float] | None = None
    categories: tuple[Category, ...] | None = None
    fill: float | None = None
    other: bool = False
    public: bool = False

    def __hash__(self) -> int:
        return hash(self.name)  # columns are looked up in every batch, and may have many categories

    @property
    def low(self) -> float:
        """Lower bound."""
        return self._bounds[0]

    @property
    def high(self) -> float:
        """Upper bound."""
        return self._bounds[1]

    @property
    def mid(self) -> float:
        """Middle of the bounds."""
        return self.low / 2 + self.high / 2

    @property
    def half(self) -> float:
        """Half the width of the bounds, so rounded that no value within them is further from `mid`."""
        return max(self.high - self.mid, self.mid - self.low)

    @property
    def _bounds(self) -> tuple[float, float]:
        if self.bounds is None:
            raise SchemaError(
                f"Column {self.name!r} has no bounds.",
                f"Say what range its values may take: protect(..., bounds={{{self.name!r}: (low, high)}}).",
            )
        return self.bounds

    def code(self, category: object) -> int:
        """Code of one category, or a `SchemaError`."""
        for code, known in enumerate(self.categories or ()):
            if _key(known) == _key(category):
                return code
        raise SchemaError(
            f"{category!r} is not a category of column {self.name!r}.",
            f"Its categories are {list(self.categories or ())!r}.",
        )

    def describe(self) -> dict[str, Any]:
        """Return the same as plain JSON values."""
        return {
            "bounds": None if self.bounds is None else list(self.bounds),
            "categories": None if self.categories is None else list(self.categories),
            "fill": self.fill,
            "other": self.other,
            "public": self.public,
        }

    def clean(self, raw: NDArray[Any]) -> NDArray[np.float64]:
        """Clip raw numbers to the bounds; a missing one becomes the fill value.

        Parameters
        ----------
        raw : ndarray of shape (rows,)
            Numbers; NaN where missing.

        Returns
        -------
        ndarray of float64
            A new array, every entry within the bounds.
        """
        low, high = self._bounds
        values = np.clip(np.asarray(raw, dtype=np.float64), low, high)
        if np.isnan(values.min(initial=low)):
            values[np.isnan(values)] = self.fill
        return values

    def among(self, raw: Raw, code: int) -> NDArray[np.bool_]:
        """Tell which raw values are in one category; the same as, and faster than, asking `encode`.

        Parameters
        ----------
        raw : ndarray or Dictionary
            As for `encode`.
        code : int
            The code of the category.

        Returns
        -------
        ndarray of bool
            May be `raw` itself.
        """
        value = (self.categories or ())[code]
        if isinstance(raw, np.ndarray) and not self.other and not isinstance(value, str):
            return _equal(raw, plain_number(value))
        found: NDArray[np.bool_] = self.encode(raw) == code
        return found

    def encode(self, raw: Raw) -> Codes:
        """Codes of raw values among the categories.

        Parameters
        ----------
        raw : ndarray or Dictionary
            Numbers, or codes into a dictionary of values.

        Returns
        -------
        ndarray of intp
            ``len(categories)`` where a value is none of them.
        """
        categories = self.categories or ()
        none = len(categories)
        if isinstance(raw, np.ndarray):
            codes = _encode_numbers(raw, categories)
        else:
            table = {_key(category): code for code, category in enumerate(categories)}
            lut = np.array([*(table.get(_key(value), none) for value in raw.values), none], dtype=np.intp)
            codes = lut[raw.codes]  # the code -1 (missing) is the last entry
        if self.other:
            codes[codes == none] = none - 1
        return codes


def _key(value: object) -> object:
    """Return what two values share if they are one category; NaN, which no category has, for what is none."""
    return ("text", value) if isinstance(value, str) else plain_number(value, dates=False)


def _equal(values: NDArray[Any], number: float) -> NDArray[np.bool_]:
    """Compare as float64 does, without making float64 of booleans and integers."""
    if values.dtype.kind == "b":
        return values if number == 1 else ~values if number == 0 else np.zeros(len(values), dtype=np.bool_)
    if values.dtype.kind in "iu" and number.is_integer() and abs(number) < _FLOAT_EXACT:
        limits = np.iinfo(values.dtype)
        if not limits.min <= number <= limits.max:
            return np.zeros(len(values), dtype=np.bool_)
        return np.asarray(values == values.dtype.type(int(number)))
    return np.asarray(np.asarray(values, dtype=np.float64) == number)


def _encode_numbers(values: NDArray[Any], categories: tuple[Category, ...]) -> Codes:
    none = len(categories)
    numbers = [(plain_number(c), code) for code, c in enumerate(categories) if not isinstance(c, str)]
    if not numbers:
        return np.full(len(values), none, dtype=np.intp)
    numbers.sort()
    domain = np.array([number for number, _ in numbers])
    order = np.array([code for _, code in numbers], dtype=np.intp)
    low, high = numbers[0][0], numbers[-1][0]
    if high - low < _LUT_SPAN and max(-low, high) < _FLOAT_EXACT and (domain == np.rint(domain)).all():
        first = int(low) - 1  # the table's first and last entries are for what lies outside
        lut = np.full(int(high) - first + 2, none, dtype=np.intp)
        lut[domain.astype(np.int64) - first] = order
        return lut.take(_whole(values, first) - first, mode="clip")
    floats = np.asarray(values, dtype=np.float64)
    at = np.minimum(np.searchsorted(domain, floats), len(domain) - 1)
    return np.where(domain[at] == floats, order[at], none)


def _whole(values: NDArray[Any], first: int) -> NDArray[np.int64]:
    """Turn whole numbers into int64 and all else into `first`."""
    if values.dtype.kind == "f":
        limited = np.clip(np.asarray(values, dtype=np.float64), -_FLOAT_EXACT, _FLOAT_EXACT)
        limited[limited != np.rint(limited)] = first  # NaN differs from itself
        return limited.astype(np.int64)
    if values.dtype == np.uint64:  # a number above 2^63 must not become a negative one
        values = np.minimum(values, np.uint64(_FLOAT_EXACT))
    return np.asarray(values, dtype=np.int64)


@dataclass(frozen=True)
class Schema:
    """What is public about a table.

    Attributes
    ----------
    names : tuple of str
        All columns of the frame, in order.
    columns : mapping of str to Column
        The columns of which something is known.
    neighbors : {"replace_one", "add_remove"}
        The neighbouring relation.
    size : int or None
        The number of rows, public under ``replace_one``.
    """

    names: tuple[str, ...]
    columns: Mapping[str, Column]
    neighbors: Neighbors
    size: int | None

    def numeric(self, name: object) -> Column:
        """Look up a column that has bounds; a `SchemaError` says what is missing otherwise."""
        column = self._column(name)
        if column.bounds is None and column.categories is not None:
            raise SchemaError(
                f"Column {column.name!r} is categorical; this needs a number.",
                f"If its values are numbers, say so: bounds={{{column.name!r}: (low, high)}}.",
            )
        _ = column.low
        return column

    def categorical(self, name: object) -> Column:
        """Look up a column that has categories; a `SchemaError` says what is missing otherwise."""
        column = self._column(name)
        if column.categories is None:
            raise SchemaError(
                f"Column {column.name!r} has no categories.",
                "Say which values it may take: protect(..., "
                f"categories={{{column.name!r}: [...]}}); they are never read from the data.",
            )
        return column

    def described(self, name: object) -> Column:
        """Look up a column that has bounds or categories."""
        column = self._column(name)
        return self.numeric(name) if column.categories is None else column

    def public(self, name: object) -> Column:
        """Look up a column that is public; it need have neither bounds nor categories."""
        column = self._column(name)
        if not column.public:
            raise SchemaError(
                f"Column {column.name!r} is not public.",
                f"If anybody may know its values, say so: protect(..., public=[{column.name!r}]).",
            )
        return column

    def select(self, names: Sequence[str]) -> Schema:
        """Keep these columns only."""
        for name in names:
            self._known(name)
        kept = {name: column for name, column in self.columns.items() if name in names}
        return replace(self, names=tuple(names), columns=kept)

    def _column(self, name: object) -> Column:
        known = self._known(name)
        return self.columns.get(known, Column(known))

    def _known(self, name: object) -> str:
        if not isinstance(name, str):
            raise SchemaError(f"A column is named by a string, not by {type(name).__name__}.", "Pass its name.")
        if name not in self.columns and name not in self.names:
            raise SchemaError(f"There is no column {name!r}.", f"The columns are {list(self.names)!r}.")
        return name


def read_schema(
    frame: Frame,
    *,
    bounds: Mapping[str, tuple[Any, Any]] | None,
    categories: Mapping[str, Sequence[Category]] | None,
    public: Sequence[str],
    missing: Mapping[str, Any] | None,
    neighbors: str,
) -> Schema:
    """Check what the user says of a table against its column names and types.

    Raises
    ------
    SchemaError
        If anything said cannot be used. Types and names are public; no value is looked at.
    """
    names = frame.columns
    doubles = sorted(name for name, times in Counter(names).items() if times > 1)
    if doubles:
        raise SchemaError(f"Columns {doubles!r} appear more than once.", "Give every column its own name.")
    if neighbors not in ("replace_one", "add_remove"):
        raise SchemaError(f"neighbors={neighbors!r} is unknown.", 'Use "replace_one" or "add_remove".')
    public = _names("public", public)
    if public and neighbors == "add_remove":
        raise SchemaError(
            "public columns need neighbors='replace_one': tables that differ by a row do not agree on any column.",
            "Leave out public=, or protect the content of rows instead of their presence.",
        )
    said = {
        "bounds": _mapping("bounds", bounds),
        "categories": _mapping("categories", categories),
        "missing": _mapping("missing", missing),
    }
    for argument, keys in {**said, "public": public}.items():
        for name in keys:
            if name not in names:
                raise SchemaError(
                    f"{argument} names a column {name!r} that is not there.", f"The columns are {list(names)!r}."
                )
    columns = {}
    for name in names:
        column = _column(
            name,
            frame.kind(name),
            said["bounds"].get(name),
            said["categories"].get(name),
            said["missing"].get(name),
            public=name in public,
        )
        if column != Column(name):
            columns[name] = column
    size = None if neighbors == "add_remove" else withheld(frame.rows)
    if size is not None and size < 1:
        raise SchemaError("The table has no rows.", "Protect a table with at least one row.")
    return Schema(names, columns, "add_remove" if neighbors == "add_remove" else "replace_one", size)


def _column(name: str, kind: str, bounds: object, categories: object, missing: object, *, public: bool) -> Column:
    if kind == "boolean":  # the type itself says what the values can be
        bounds = (0, 1) if bounds is None else bounds
        categories = (False, True) if categories is None else categories
    if bounds is not None and kind == "text":
        raise SchemaError(
            f"Column {name!r} holds text; it cannot have bounds.",
            f"Give its categories instead: categories={{{name!r}: [...]}}.",
        )
    if categories is not None and kind == "date":
        raise SchemaError(
            f"Column {name!r} holds dates; it cannot have categories.",
            f"Give its bounds, bounds={{{name!r}: (first, last)}}, or turn it into text first.",
        )
    if kind == "other" and not (bounds is None and categories is None):
        raise SchemaError(
            f"Column {name!r} holds neither numbers nor text; it cannot have bounds or categories.",
            "Leave it out, or turn it into numbers or text first.",
        )
    limits = None if bounds is None else _bounds(name, bounds)
    domain = None if categories is None else _categories(name, categories)
    fill = None
    if limits is not None:
        fill = limits[0] / 2 + limits[1] / 2
    other = domain is not None and missing == OTHER
    if other:
        domain = (*(c for c in domain or () if c != OTHER), OTHER)
    elif missing is not None:
        if limits is None:
            raise SchemaError(
                f"missing[{name!r}] = {missing!r} cannot be used.",
                f'A column with bounds takes a number, a column with categories takes "{OTHER}".',
            )
        fill = as_number(missing, f"missing[{name!r}]")
        if not limits[0] <= fill <= limits[1]:
            raise SchemaError(
                f"missing[{name!r}] = {missing!r} lies outside the bounds {list(limits)!r}.",
                "Choose a value within.",
            )
    return Column(name, limits, domain, fill, other, public)


def _names(argument: str, names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise SchemaError(f"{argument}= takes a list of column names.", f"For example {argument}=['arm'].")
    return tuple(names)


def _mapping(argument: str, said: object) -> Mapping[str, Any]:
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        raise SchemaError(
            f"{argument}= takes a dictionary by column name, not {type(said).__name__}.",
        )
    return said


def _bounds(name: str, bounds: object) -> tuple[float, float]:
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:  # noqa: PLR2004
        raise SchemaError(f"bounds[{name!r}] must be a pair (low, high).")
    low, high = (as_number(bound, f"bounds[{name!r}]") for bound in bounds)
    if not low < high:
        raise SchemaError(
            f"bounds[{name!r}] = {tuple(bounds)!r} are equal or reversed.", "Give (low, high) with low < high."
        )
    if not math.isfinite(high - low) or (high - low) / 2 < 1e-300:  # noqa: PLR2004 - or 1/half overflows
        raise SchemaError(
            f"bounds[{name!r}] = {tuple(bounds)!r} are too far apart or too close for float64.",
            "Narrow or widen them.",
        )
    return low, high


def _categories(name: str, categories: object) -> tuple[Category, ...]:
    if isinstance(categories, str) or not isinstance(categories, Sequence | range | np.ndarray):
        raise SchemaError(f"categories[{name!r}] must be a list of values.")
    domain: list[Category] = []
    for item in categories:
        value = item.item() if isinstance(item, np.generic) else item
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise SchemaError(
                f"categories[{name!r}] may hold strings and finite numbers; found one{quoted(value)}.",
                "Missing values are in no category, or in one of their own: missing={...: 'other'}.",
            )
        if not isinstance(value, str):
            as_number(value, f"categories[{name!r}]")
        domain.append(value)
    keys = [_key(value) for value in domain]
    if not domain or len(set(keys)) < len(keys):
        raise SchemaError(f"categories[{name!r}] must be at least one value, each once.")
    return tuple(domain)


def as_number(value: object, what: str) -> float:
    """Turn a public number, boolean or date into a finite float, or raise a `dfprivacy.SchemaError`."""
    number = plain_number(value)
    if not math.isfinite(number):
        raise SchemaError(
            f"{what}{quoted(value)} must be a finite number or a date.",
            "Write it as a number, or as a datetime.date.",
        )
    return number


def as_probability(value: object, what: str) -> float:
    """Give back a level, a confidence or a power as a float, or raise a `dfprivacy.ArgumentError`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ArgumentError(f"{what}={value!r} is not between 0 and 1.", "Use, for example, 0.05 or 0.95.")
    return float(value)
