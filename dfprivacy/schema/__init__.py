"""Schemas: public facts about a table, such as bounds and categories, that decide how raw values are read.

What a column is, is declared, never inferred: not from its values, and not from its type, for libraries choose
the type by looking at the values, and one value can change it. All that is read off a frame:

================================  ==========================================================================
read off the frame                because
================================  ==========================================================================
the names of its columns, in      public: nobody protects them, and every error may list them
order
the number of rows, under         public by definition of that neighbouring relation, which keeps it; under
``replace_one``                   ``add_remove`` it is not asked for
its library                       whose object it is was the caller's choice
================================  ==========================================================================

So neighbouring tables have equal schemas, and the same calls are answered, or refused with the same words.
Cleaning, clipping and encoding happen here, in NumPy, and nowhere else, so that every engine gives the same
numbers, whichever type a column has. What becomes of a value:

================================  ==========================================================================
raw value                         outcome
================================  ==========================================================================
number within the bounds          itself, as float64
number outside, +inf, -inf        the nearer bound
NaN, null, None, NaT              the column's fill value (the midpoint of the bounds unless said otherwise)
boolean                           0 or 1
decimal, integer of any size      the nearest float64, then as above
date, datetime                    days since 1970-01-01 (UTC), with a fraction for the time of day
text that is a number             that number, as above: a numeral such as "7", " -1.50" or "1e3", True, False,
                                  an ISO date such as "2020-01-31"
complex number                    its real part if that is all of it, else missing
any other text, or anything else  missing
value among the categories        that category; numbers are compared as float64, so 1, 1.0 and True are one
                                  category; bytes are the text they say in UTF-8
text that is a number, or a       the one category that is that number, written otherwise: 1 for the text "1", the
number                            text "1" for 1, "True" for True; none where two would do, as "1" and "1.0" for 1
any other value, or a missing     no category: the row counts nowhere; or the category ``"other"`` if the
one                               column's missing-value rule is ``"other"``
================================  ==========================================================================
"""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np

from dfprivacy.errors import ArgumentError, SchemaError, quoted
from dfprivacy.schema import toml
from dfprivacy.schema.values import plain_number, plain_text, read_number
from dfprivacy.tidy import table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from dfprivacy.schema.values import Raw

Category: TypeAlias = str | int | float | bool
Neighbors = Literal["replace_one", "add_remove"]
Codes: TypeAlias = "NDArray[np.intp]"
Bounds: TypeAlias = tuple[Any, Any] | Literal["find"]
T = TypeVar("T")

OTHER = "other"
UNDECLARED = "Expected more rows? Values outside the declared categories, and text in numeric columns, are dropped."
"""What notes say where a number of rows is hardly more than noise; a refusal would tell of rows."""
_FLOAT_EXACT = 2**53  # float64 holds every integer up to here
_DUMMY_ROWS = 1000  # where nobody knows how many
_DUMMY_MOST = 10**8
_SAID = 1000  # characters of a list of categories in an error
_REMEMBERED = 64  # tuples of categories
_CATEGORIES_MAX = 10**6
_LUT_SPAN = 1 << 17  # widest range of integer categories that is looked up in a table

SPREAD = 1 / 6
"""Standard deviation that a column is taken to have, as a part of its range."""


@dataclass(frozen=True)
class Column:
    """Public facts about one column.

    It is checked when it is made, and cannot be changed: ``dataclasses.replace`` makes another one.

    Attributes
    ----------
    name : str
        Its name.
    bounds : tuple of float or None
        Lower and upper bound, in the column's units (days since 1970-01-01 for dates).
    categories : tuple or None
        The categories it may take, in the order of their codes.
    fill : float or None
        The value within the bounds that a missing number counts as; default: their middle.
    other : bool
        Whether what is no category counts as the last category, ``"other"``.
    public : bool
        Whether neighbouring tables agree on this column.
    filled : bool
        Whether somebody said what a missing value counts as, so that it is never left out.
    find : bool
        Whether each question that needs its numbers finds bounds first, within those that it has, if any.
    beyond : float or None
        Where its bounds were found, not known: at most so many rows lie beyond them, with probability 0.95.
    """

    name: str
    bounds: tuple[float, float] | None = None
    categories: tuple[Category, ...] | None = None
    fill: float | None = None
    other: bool = False
    public: bool = False
    filled: bool = False
    find: bool = False
    beyond: float | None = None
    computed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Raise a `SchemaError` if the fill value lies outside the bounds, or "other" has no categories."""
        if not isinstance(self.name, str):
            raise SchemaError(
                f"The name of a column is a string, not {type(self.name).__name__}.", "Pass a string."
            )
        if self.bounds is not None:
            low, high = bounds_of(self.name, self.bounds)
            object.__setattr__(self, "bounds", (low, high))
            fill = self.mid if self.fill is None else as_number(self.fill, f"fill of column {self.name!r}: ")
            if not low <= fill <= high:
                raise SchemaError(
                    f"The fill value {fill:g} of column {self.name!r} lies outside its bounds {[low, high]!r}.",
                    "Give a fill within the bounds, or fill=None for their middle.",
                )
            object.__setattr__(self, "fill", fill)
        if self.categories is not None:
            known = categories_of(f"categories[{self.name!r}]", self.categories)
            object.__setattr__(self, "categories", known)
        if self.other and self.categories is None:
            raise SchemaError(
                f"Column {self.name!r} has no categories to which {OTHER!r} could be added.",
                "Declare categories=(...) too.",
            )

    def __hash__(self) -> int:
        return hash(self.name)  # columns are looked up in every batch, and may have many categories

    def __str__(self) -> str:
        ends = "" if self.bounds is None else f" in [{self.low:g}, {self.high:g}]"
        few = self.beyond is not None and math.isfinite(self.beyond)
        return f"{self.name}{ends}" + (
            f", with at most {self.beyond:,.0f} rows beyond them (95% confidence)" if few else ""
        )

    @property
    def low(self) -> float:
        """Lower bound of the column."""
        return self._bounds_or_refusal[0]

    @property
    def high(self) -> float:
        """Upper bound of the column."""
        return self._bounds_or_refusal[1]

    @property
    def mid(self) -> float:
        """Middle of the bounds."""
        return _middle_and_half(self._bounds_or_refusal)[0]

    @property
    def half(self) -> float:
        """Half the width of the bounds, rounded up so that no value within them is further from `mid`."""
        return _middle_and_half(self._bounds_or_refusal)[1]

    @property
    def _bounds_or_refusal(self) -> tuple[float, float]:
        if self.bounds is None and self.find:
            raise SchemaError(
                f"The bounds of column {self.name!r} are declared as 'find', but this call needs them beforehand.",
                f"Find them first: view.declare(view.find_bounds([{self.name!r}], epsilon=...)).",
            )
        if self.bounds is None:
            raise SchemaError(
                f"Column {self.name!r} has no bounds.",
                f"Declare the range of its values: protect(..., bounds={{{self.name!r}: (low, high)}}), "
                "where (0, 1) is that of True and False. Bounds are not taken from the data or their type. If they "
                "are unknown, `find_bounds` estimates them at a price.",
            )
        return self.bounds

    def without_declarations(self) -> Self:
        """Return the column without its declarations, except whether it is public."""
        nothing: dict[str, Any] = dict.fromkeys(("bounds", "categories", "fill", "beyond"))
        return replace(self, **nothing, other=False, filled=False, find=False)

    def code(self, category: object) -> int:
        """Return the code of a category; raise a `SchemaError` for other values."""
        return self.codes([category])[0]

    def codes(self, categories: Iterable[object]) -> list[int]:
        """Return the codes of categories; raise a `SchemaError` for other values."""
        known = _codes_by_key(self.categories or ())
        codes = []
        for category in categories:
            code = known.get(category_key(category))
            if code is None:
                every = textwrap.shorten(repr(list(self.categories or ())), _SAID, placeholder=" …")
                given = category.item() if isinstance(category, np.generic) else category
                raise SchemaError(
                    f"{quoted(given).lstrip(' =')} is not a category of column {self.name!r}.",
                    f"Its categories are {every}.",
                )
            codes.append(code)
        return codes

    def describe(self) -> dict[str, Any]:
        """Return the column as plain JSON values."""
        return {
            "bounds": None if self.bounds is None else list(self.bounds),
            "categories": None if self.categories is None else list(self.categories),
            "fill": self.fill,
            "other": self.other,
            "public": self.public,
            **({"filled": True} if self.filled else {}),
            **({"find": True} if self.find else {}),
            **({} if self.beyond is None else {"beyond": self.beyond}),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the column as plain JSON values, which ``read_column`` reads."""
        return self.describe()

    def clean(self, raw: NDArray[Any]) -> NDArray[np.float64]:
        """Clip raw numbers to the bounds, and replace missing ones by the fill value.

        Parameters
        ----------
        raw : ndarray of shape (rows,)
            Numbers; NaN where missing.

        Returns
        -------
        ndarray of float64
            A new array, every entry within the bounds.
        """
        low, high = self._bounds_or_refusal
        values = np.asarray(raw, dtype=np.float64).clip(low, high)
        values[np.isnan(values)] = self.fill
        if low <= 0 <= high:
            values += 0.0  # -0.0 becomes 0.0: a column of integers has none
        return values

    def draw(self, rng: np.random.Generator, n: int) -> Any:
        """Draw random values from the column's declaration alone, for a synthetic table.

        Parameters
        ----------
        rng : Generator
            What draws.
        n : int
            Number of rows.

        Returns
        -------
        list or ndarray
            The values. What counts as ``"other"`` is None, and so is all of a column of which nothing is known.
            Categories that are text and numbers are all text.
        """
        if self.categories is None:
            if self.bounds is None:
                return rng.normal(size=n) if self.find else [None] * n
            drawn = self.mid + 2 * self.half * SPREAD * rng.normal(size=n)
            return np.clip(drawn, self.low, self.high)
        known = list(self.categories[:-1] if self.other else self.categories)
        if len({isinstance(value, str) for value in known}) > 1:
            known = list(map(str, known))
        values = [*known, None] if self.other else known
        return [values[code] for code in rng.integers(len(values), size=n)]

    def missing(self, raw: Raw) -> NDArray[np.bool_]:
        """Return a mask of raw values that are not a number or category, even if a fill value replaces them.

        Parameters
        ----------
        raw : ndarray or Dictionary
            As for `clean` if the column has bounds, else as for `encode`.

        Returns
        -------
        ndarray of bool
            A new array.
        """
        if self.bounds is not None:
            return np.isnan(np.asarray(raw, dtype=np.float64))
        gone: NDArray[np.bool_] = self._codes_without_other(raw) == len(self.categories or ())
        return gone

    def encode(self, raw: Raw) -> Codes:
        """Return the category code of each raw value.

        Parameters
        ----------
        raw : ndarray or Dictionary
            Numbers, or codes into a dictionary of values.

        Returns
        -------
        ndarray of intp
            ``len(categories)`` where a value is none of them.
        """
        codes = self._codes_without_other(raw)
        if self.other:
            none = len(self.categories or ())
            codes[codes == none] = none - 1
        return codes

    def _codes_without_other(self, raw: Raw) -> Codes:
        """Return the code of each raw value; ``len(categories)`` for values in no category, ignoring `other`."""
        categories = self.categories or ()
        if isinstance(raw, np.ndarray):
            return _encode_numbers(raw, categories)
        none, known = len(categories), code_book_of(categories)
        lut = np.array([*(known.code(value, none) for value in raw.values), none], dtype=np.intp)
        codes: Codes = lut[raw.codes]  # the code -1 (missing) is the last entry
        return codes


@dataclass(frozen=True, repr=False)  # its values are checked, and shown, when a table is protected
class Discover:
    """Categories to be discovered when a table is protected; see `discover`."""

    epsilon: Any = None
    delta: Any = None
    domain: Any = None


def discover(
    *,
    epsilon: float | str | None = None,
    delta: float | str | None = None,
    domain: Sequence[Category] | str | None = None,
) -> Discover:
    """Declare that ``protect`` shall find a column's categories: ``categories={"icd": dp.discover(epsilon=0.1)}``.

    Parameters
    ----------
    epsilon, delta : number or str, optional
        What that may cost; default: the table's ``default_epsilon``, and the budget's delta in proportion.
    domain : list, range, or str, optional
        All values that there can be, as ``value_counts`` takes them; then no delta is needed.

    Returns
    -------
    Discover
        What stands in place of the categories. The column then has those that occur in enough rows, as
        ``find_categories`` finds them, or ``value_counts`` in a domain, and ``"other"``, which all else counts as.
        The account is charged the first time; a table that is protected again with the same words finds them in its
        ledger.

    Raises
    ------
    ArgumentError
        If a delta is given, and a domain that takes none.
    """
    if domain is not None and delta is not None:
        raise ArgumentError("With domain=, categories are found without a delta.", "Leave out delta= or domain=.")
    return Discover(epsilon, delta, domain)


def chosen_groups(
    by: Column | None, groups: Sequence[object] | None = None, *, least: int = 2, most: int | None = 2
) -> tuple[Category, ...]:
    """Return the groups to compare: the named categories of a column, or all; raise an error if they do not fit.

    Parameters
    ----------
    by : Column or None
        The column of the groups; None if there are none.
    groups : sequence, optional
        The groups asked for, as the caller gave them; default: all categories of the column.
    least, most : int
        How many there must be; None for any number.

    Returns
    -------
    tuple
        The categories as they were declared, in the order asked for.

    Raises
    ------
    ArgumentError
        If there are too few or too many, or one is named twice, or groups of no column.
    SchemaError
        If one is no category of the column.

    Examples
    --------
    >>> from dfprivacy import Column
    >>> chosen_groups(Column("arm", categories=("drug", "placebo", "none")), ["none", "drug"])
    ('none', 'drug')
    """
    if by is None:
        if groups is not None:
            raise ArgumentError("groups= was given without by=.", "Name the column that holds the groups.")
        return ()
    known = by.categories or ()
    wanted = known if groups is None else groups
    enough = isinstance(wanted, list | tuple) and len(wanted) >= least and (most is None or len(wanted) <= most)
    codes = by.codes(wanted) if enough else []
    if not enough or len(set(codes)) < len(codes):
        number = {2: "two"}.get(least, str(least)) if most == least else f"at least {least}"
        raise ArgumentError(
            f"This compares {number} groups of {by.name!r}, whose categories are {list(known)!r}"
            + (
                "."
                if groups is None
                else f", and groups={_groups_as_text(groups)} names other categories, or a category twice."
            ),
            "Name different categories of the column: groups=(first, second).",
        )
    return tuple(known[code] for code in codes)


def _groups_as_text(groups: object) -> str:
    """Return the named groups as text of at most 100 characters."""
    return textwrap.shorten(repr(groups), 100, placeholder=" …")


def category_key(value: object) -> object:
    """Return a key that is equal for all values that count as one category; NaN for values that cannot be one."""
    text = plain_text(value)
    return plain_number(value, dates=False) if text is None else ("text", text)


@lru_cache(maxsize=128)
def _codes_by_key(categories: tuple[Category, ...]) -> Mapping[object, int]:
    """Return a mapping from the `category_key` of each category to its code."""
    return {category_key(category): code for code, category in enumerate(categories)}


def _cached_by_identity(work: Callable[[Any], T]) -> Callable[[Any], T]:
    """Decorate a function of a tuple of categories with a cache by object identity, as hashing it takes long."""
    known: dict[int, tuple[object, T]] = {}

    @wraps(work)
    def found_in_cache(categories: object) -> T:
        entry = known.get(id(categories))
        if entry is None:
            if len(known) >= _REMEMBERED:
                known.clear()
            entry = known[id(categories)] = categories, work(categories)  # which keeps the identity taken
        return entry[1]

    return found_in_cache


class CodeBook(NamedTuple):
    """Lookup of category codes by text, and by number for categories that are numbers or read as numbers."""

    texts: Mapping[str, int]
    numbers: Mapping[float, int]

    def code(self, value: object, none: T) -> int | T:
        """Return the code of a value's category; the argument `none` if the value is in no category."""
        text = plain_text(value)
        if text is None:
            return self.numbers.get(plain_number(value), none)
        code = self.texts.get(text)
        if code is None and self.numbers:
            return self.numbers.get(read_number(text), none)
        return none if code is None else code


@_cached_by_identity
@lru_cache(maxsize=128)
def code_book_of(categories: tuple[Category, ...]) -> CodeBook:
    """Return the `CodeBook` of a tuple of categories.

    A category that is a number is also every text that reads as it, and a text that reads as a number is also that
    number, written in whatever way: libraries read a column of numbers as text when one value is none. So what a
    value counts as follows from itself and from what is declared. Where a category is the text itself, no other is;
    where two texts are one number, neither is that number.

    Parameters
    ----------
    categories : tuple
        What a column may take, in the order of the codes.

    Returns
    -------
    CodeBook
        Not to be written to.
    """
    texts = {category: code for code, category in enumerate(categories) if isinstance(category, str)}
    said = {
        plain_number(category): code for code, category in enumerate(categories) if not isinstance(category, str)
    }
    read = {code: read_number(text) for text, code in texts.items()}
    times = Counter(read.values())
    alone = {number: code for code, number in read.items() if times[number] == 1 and math.isfinite(number)}
    return CodeBook(texts, alone | said)


@lru_cache(maxsize=1024)
def _middle_and_half(bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = bounds
    middle = low / 2 + high / 2
    return middle, max(high - middle, middle - low)


@dataclass(frozen=True)
class _NumberCodes:
    """Sorted numbers among the categories with their codes, for fast encoding.

    If they are whole and near, there is a table of codes as well, from the number before the first one to the one
    after the last one, which lie outside; and it may be that a code is how far a number is from the first one.
    """

    domain: NDArray[np.float64]
    codes: Codes
    table: Codes | None = None
    distances: bool = False
    lowest: int = 0


@_cached_by_identity
@lru_cache(maxsize=64)
def _numbers_among(categories: tuple[Category, ...]) -> _NumberCodes:
    numbers = sorted(code_book_of(categories).numbers.items())
    domain = np.array([number for number, _ in numbers])
    codes = np.array([code for _, code in numbers], dtype=np.intp)
    if not numbers:
        return _NumberCodes(domain, codes)
    low, high = numbers[0][0], numbers[-1][0]
    near = high - low < _LUT_SPAN and max(-low, high) < _FLOAT_EXACT
    if not (near and (domain == np.rint(domain)).all()):
        return _NumberCodes(domain, codes)
    first = int(low) - 1
    table = np.full(int(high) - first + 2, len(categories), dtype=np.intp)
    table[domain.astype(np.int64) - first] = codes
    distances = np.array_equal(table[1:], np.arange(len(categories) + 1))
    return _NumberCodes(domain, codes, table, distances, first + 1)


def _encode_numbers(values: NDArray[Any], categories: tuple[Category, ...]) -> Codes:
    none, numbers = len(categories), _numbers_among(categories)
    domain, codes = numbers.domain, numbers.codes
    if not len(domain):
        return np.full(len(values), none, dtype=np.intp)
    if numbers.table is not None:
        first = numbers.lowest - 1
        integers = _as_integers(values, first)
        if not numbers.distances:
            return numbers.table.take(integers - first, mode="clip")
        above = (integers - numbers.lowest).view(np.uint64)  # what is below the first one becomes very large
        if above.max(initial=0) > none:  # else it is sooner left as it is
            above = np.minimum(above, np.uint64(none))
        return above.view(np.int64).astype(np.intp, copy=False)
    floats = np.asarray(values, dtype=np.float64)
    at = np.minimum(np.searchsorted(domain, floats), len(domain) - 1)
    return np.where(domain[at] == floats, codes[at], none)


def _as_integers(values: NDArray[Any], first: int) -> NDArray[np.int64]:
    """Convert numbers to int64; numbers that are not integers become `first`."""
    if values.dtype.kind == "f":
        limited = np.clip(np.asarray(values, dtype=np.float64), -_FLOAT_EXACT, _FLOAT_EXACT)
        limited[limited != np.rint(limited)] = first  # NaN differs from itself
        return limited.astype(np.int64)
    if values.dtype == np.uint64:  # a number above 2^63 must not become a negative one
        values = np.minimum(values, np.uint64(_FLOAT_EXACT))
    return np.asarray(values, dtype=np.int64)


class FoundPair(tuple[float, float]):  # noqa: SLOT001 - of a tuple, none can have a value
    """A pair of bounds estimated from the data with differential privacy, as `find_bounds` returns them.

    Parameters
    ----------
    bounds : tuple of float
        Lower and upper bound.
    beyond : float
        At most so many rows lie beyond them, with probability 0.95.
    """

    beyond: float

    def __new__(cls, bounds: tuple[float, float], beyond: float = math.inf) -> Self:
        """Construct the pair from bounds and an upper limit of the number of rows beyond them."""
        pair = super().__new__(cls, bounds)
        pair.beyond = beyond
        return pair


@dataclass(frozen=True)
class Unit:
    """Privacy unit of a table in which a person may have several rows: neighbours differ in one person's rows.

    Attributes
    ----------
    column : str
        The column that says whose a row is. It is private, and no question reads it.
    max_rows : int
        How many rows of one person count at most.
    missing : {"omit", "own"}
        Whether a row that nobody is named in is left out, or is that of a person of its own.
    """

    column: str
    max_rows: int
    missing: Literal["omit", "own"] = "omit"


class LabelAndUnits(NamedTuple):
    """Label and units of a column, each empty by default."""

    label: str = ""
    units: str = ""

    def __str__(self) -> str:
        return f"{self.label} ({self.units})" if self.label and self.units else self.label or self.units

    def of(self, column: str) -> str:
        """Return a column's label, or its name if it has none, with the units in brackets."""
        return f"{self.label or column} ({self.units})" if self.units else self.label or column


@dataclass(frozen=True)
class Schema:
    """Public facts about a table.

    Attributes
    ----------
    names : tuple of str
        All columns of the frame, in order.
    columns : mapping of str to Column
        The columns of which something is known.
    neighbors : {"replace_one", "add_remove"}
        The neighbouring relation.
    size : int or None
        The number of rows, public under ``replace_one`` unless a person may have several.
    unit : Unit or None
        Where a person may have several rows, whose they are.
    people : int or None
        The number of people, where it is public and they may have several rows.
    table : str or None
        Which of an account's tables it is, and which edition, as JSON; None for the account's own table, without
        editions.
    derived : str or None
        Where rows were made of a person's several ones, or are a sample: of which, and how, as JSON.
    words : mapping of str to (str, str)
        What columns are called and measured in, where somebody said so: a label and units. Nothing else follows
        from them.
    person : str
        The column that says whose rows they are, also where each person has one row of several; else empty.
    library : {"pandas", "polars", "pyarrow"}
        Whose table it is.
    """

    names: tuple[str, ...]
    columns: Mapping[str, Column]
    neighbors: Neighbors
    size: int | None
    unit: Unit | None = None
    people: int | None = None
    table: str | None = None
    derived: str | None = None
    words: Mapping[str, LabelAndUnits] = field(default_factory=dict, compare=False)
    person: str = field(default="", compare=False)
    library: str = field(default="pandas", compare=False, repr=False)

    def to_toml(self) -> str:
        """Return the schema as the text of a schema file, which `dfprivacy.protect` reads: ``schema="fair.toml"``.

        Returns
        -------
        str
            TOML with every column, and the number of rows where it is public. `PrivateFrame.to_toml` writes the
            account's name and terms as well.

        Raises
        ------
        SchemaError
            If rows were made of a person's several ones, joined, or are a sample: a file says what a table is.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"age": [31, 45, 28, 52], "sex": ["f", "m", "f", "m"]})
        >>> view = dp.protect(df, "written", epsilon=1, bounds={"age": (18, 90)}, ledger="memory:")
        >>> print(view.schema.to_toml(), end="")
        neighbors = "replace_one"
        size = 4
        <BLANKLINE>
        [columns.age]
        bounds = [18, 90]
        <BLANKLINE>
        [columns.sex]
        """
        if self.derived is not None or isinstance(json.loads(self.table or "null"), dict):
            raise SchemaError(
                "A schema file cannot describe a sample, a join, or a table that per() aggregated by person.",
                "Write the schema of the original table's view.",
            )
        terms: dict[str, Any] = {"neighbors": self.neighbors}
        if self.unit is not None:
            terms |= {"unit": self.unit.column, "max_rows": self.unit.max_rows, "unit_missing": self.unit.missing}
        size = self.size if self.unit is None else self.people
        lines = toml.table(terms if size is None else terms | {"size": size})
        for name in self._names_in_frame:
            lines += ["", *toml.table(self._column_for_file(name), "columns", name)]
        return "\n".join(lines) + "\n"

    def dummy(self, n: int | None = None, seed: int = 0) -> Any:
        """Return a table of random values with this schema, to test an analysis before anything is paid.

        Parameters
        ----------
        n : int, optional
            Number of rows; default: that of the table where it is public, else 1,000.
        seed : int
            The same seed gives the same table.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A table of the library that holds the real one, with its columns in order.

        Raises
        ------
        ArgumentError
            If there cannot be so many rows.

        Notes
        -----
        **Privacy.** It follows from what is declared and from the seed, and from nothing else: no row is read. So
        columns have nothing to do with each other. Numbers are around the middle of their bounds with a standard
        deviation of a sixth of the range, dates are days since 1970-01-01, categories are all alike, what counts as
        ``"other"`` is missing, and so is all of a column of which nothing is declared. Numbers whose bounds are to
        be found are standard normal.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"age": [31, 45, 28, 52] * 50, "sex": ["f", "m"] * 100})
        >>> said = {"bounds": {"age": (18, 90)}, "categories": {"sex": ["f", "m"]}, "ledger": "memory:"}
        >>> view = dp.protect(df, "real", epsilon=1, **said)
        >>> practice = dp.protect(view.schema.dummy(), "practice", epsilon=10, **said)
        >>> test = practice.ttest("age", by="sex", epsilon=1)
        >>> view.budget.spent
        Fraction(0, 1)
        """
        n, seed = None if n is None else as_integer(n, "n", 1, _DUMMY_MOST), as_integer(seed, "seed", 0)
        whose = self.unit
        usual = (self.size if whose is None else self.people) or _DUMMY_ROWS
        rows = usual if n is None else n
        if whose is not None and self.people is not None and rows < self.people:
            raise ArgumentError(
                f"n={rows} rows are too few for {self.people} people.", f"Use n={self.people} or more."
            )
        rng = np.random.default_rng(seed)
        columns: dict[str, Any] = {
            name: self.columns.get(name, Column(name)).draw(rng, rows) for name in self._names_in_frame
        }
        if whose is not None:
            columns[whose.column] = _person_ids(rows, whose.max_rows, self.people)
        return table_of(columns, self.library)

    @property
    def title(self) -> str:
        """Name and edition of the table; empty for an account's own table without editions."""
        return "" if self.table is None else _title_of_table(json.loads(self.table))

    @property
    def _names_in_frame(self) -> list[str]:
        """Names of the columns that are not computed from others."""
        return [name for name in self.names if not getattr(self.columns.get(name), "computed", False)]

    def _column_for_file(self, name: str) -> dict[str, Any]:
        column, words = self.columns.get(name, Column(name)), self.words.get(name, LabelAndUnits())
        categories = column.categories[:-1] if column.categories and column.other else column.categories
        facts = {
            "bounds": "find" if column.find else column.bounds and tuple(map(_integer_if_whole, column.bounds)),
            "found": column.beyond,
            "categories": categories or column.categories,
            "missing": (OTHER if column.other else _integer_if_whole(column.fill)) if column.filled else None,
            "public": column.public or None,
            "label": words.label or None,
            "units": words.units or None,
        }
        return {name: value for name, value in facts.items() if value is not None}

    def numeric(self, name: object) -> Column:
        """Return a column that has bounds; raise a `SchemaError` otherwise."""
        column = self._column_or_refusal(name)
        if column.bounds is None and column.categories is not None:
            raise SchemaError(
                f"Column {column.name!r} is categorical, and a column with bounds is needed.",
                f"If its values are numbers, declare bounds={{{column.name!r}: (low, high)}}; for True and False, "
                "(0, 1).",
            )
        _ = column.low
        return column

    def categorical(self, name: object) -> Column:
        """Return a column that has categories; raise a `SchemaError` otherwise."""
        column = self._column_or_refusal(name)
        if column.categories is None:
            raise SchemaError(
                f"Column {column.name!r} has no categories.",
                "Declare the values it may take: protect(..., "
                f"categories={{{column.name!r}: [...]}}); if they are True and False, "
                f"categories={{{column.name!r}: [False, True]}}. They are not taken from the data or their type.",
            )
        return column

    def described(self, name: object) -> Column:
        """Return a column that has bounds or categories; raise a `SchemaError` otherwise."""
        column = self._column_or_refusal(name)
        return self.numeric(name) if column.categories is None else column

    def named(self, name: object) -> Column:
        """Return a column by name; raise a `SchemaError` if there is none, or if it identifies people."""
        return self._column_or_refusal(name)

    def public(self, name: object) -> Column:
        """Return a public column by name; raise a `SchemaError` if it is not public."""
        column = self._column_or_refusal(name)
        if not column.public:
            raise SchemaError(
                f"Column {column.name!r} is not public.",
                f"If anybody may know its values, declare it: protect(..., public=[{column.name!r}]).",
            )
        return column

    def without_formulas(self) -> Schema:
        """Return the schema with computed columns turned into ordinary ones with the same declarations."""
        plain = [field.name for field in fields(Column)]
        columns = {name: Column(**{each: getattr(of, each) for each in plain}) for name, of in self.columns.items()}
        return replace(self, columns=columns)

    def select(self, names: Sequence[str]) -> Schema:
        """Return the schema with these columns only, in this order."""
        for name in names:
            self._known_name(name)
        chosen = {*names}
        kept = {name: column for name, column in self.columns.items() if name in chosen}
        return replace(self, names=tuple(names), columns=kept)

    def _column_or_refusal(self, name: object) -> Column:
        known = self._known_name(name)
        if self.unit is not None and known == self.unit.column:
            raise SchemaError(
                f"Column {known!r} identifies people, and is used in no question.",
                f"To analyse people, use view.per({known!r}), which makes a table with one row per person.",
            )
        return self.columns.get(known, Column(known))

    def _known_name(self, name: object) -> str:
        if not isinstance(name, str):
            several = "Pass one column's name. For statistics of several columns at once, use agg() or describe()."
            raise SchemaError(f"A column is named by a string, not by {type(name).__name__}.", several)
        if name not in self.columns and name not in self.names:
            raise SchemaError(f"There is no column {name!r}.", f"The columns are {list(self.names)!r}.")
        return name


def _integer_if_whole(number: float | None) -> float | None:
    """Convert a float that is an integer to an int; return other numbers unchanged."""
    is_whole = number is not None and number.is_integer() and abs(number) < _FLOAT_EXACT
    return int(number) if is_whole and number is not None else number


def as_number(value: object, what: str) -> float:
    """Convert an argument, a number, boolean or date, to a finite float, or raise a `dfprivacy.SchemaError`."""
    number = plain_number(value)
    if not math.isfinite(number):
        raise SchemaError(
            f"{what}{quoted(value)} must be a finite number or a date.",
            "Write it as a number, or as a datetime.date.",
        )
    return number


def bounds_of(name: str, bounds: object) -> tuple[float, float]:
    """Check a column's declared bounds, and return them as two finite floats."""
    if isinstance(bounds, str | range) or not isinstance(bounds, Sequence) or len(bounds) != 2:  # noqa: PLR2004
        raise SchemaError(
            f"bounds[{name!r}] must be a pair (low, high).",
            'If the bounds are unknown, use "find": then each question finds them.',
        )
    low, high = (as_number(bound, f"bounds[{name!r}]") for bound in bounds)
    pair = f"bounds[{name!r}] = ({low:.15g}, {high:.15g})"
    if not low < high:
        raise SchemaError(f"{pair} are equal or reversed.", "Give (low, high) with low < high.")
    if not math.isfinite(high - low) or (high - low) / 2 < 1e-300:  # noqa: PLR2004 - or 1/half overflows
        raise SchemaError(f"{pair} are too far apart or too close for float64.", "Use narrower or wider bounds.")
    return low, high


def categories_of(what: str, categories: object) -> tuple[Category, ...]:
    """Check a declared list of distinct categories, and return it as a tuple of Python values."""
    categories = categories.tolist() if isinstance(categories, np.ndarray) else categories
    if isinstance(categories, str) or not isinstance(categories, Sequence):
        raise SchemaError(f"{what} must be a list of values.", "For example ['a', 'b'].")
    beyond = categories[_CATEGORIES_MAX : _CATEGORIES_MAX + 1]  # a range may have more than len() tells
    if len(beyond):
        raise SchemaError(
            f"{what} has over {_CATEGORIES_MAX:,} values.", "For so many, use domain= in value_counts()."
        )
    domain: list[Category] = []
    for item in categories:
        value = item.item() if isinstance(item, np.generic) else item
        value = str.__str__(value) if isinstance(value, str) else value
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise SchemaError(
                f"{what} may hold strings and finite numbers, but not the value{quoted(value)}.",
                "Leave it out; to count missing values as a category, use missing={column: 'other'}.",
            )
        if not isinstance(value, str):
            as_number(value, what)
        domain.append(value)
    keys = [category_key(value) for value in domain]
    if not domain or len(set(keys)) < len(keys):
        raise SchemaError(
            f"{what} must list at least one value, and each value once.", "Leave out repeated values."
        )
    return tuple(domain)


def distinct_categories(what: str, categories: object) -> tuple[Category, ...]:
    """Check declared categories as `categories_of` does; refuse a number and the same number as text: [1, "1"]."""
    domain = categories_of(what, categories)
    numbers = {category_key(value): value for value in domain if not isinstance(value, str)}
    for text in domain:
        if isinstance(text, str) and (same := read_number(text)) in numbers:
            raise SchemaError(
                f"{what} has the number {numbers[same]!r} and the text {text!r}, which stands for it too.",
                "Text that reads as a number counts as that number: list only one of the two, or only texts.",
            )
    return domain


def as_integer(value: object, what: str, least: int, most: int = _FLOAT_EXACT) -> int:
    """Convert an argument to an int from `least` to `most`, or raise a `dfprivacy.SchemaError`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if not whole or not least <= value <= most:  # type: ignore[operator]
        raise SchemaError(
            f"{what}{quoted(value)} is not an integer from {least:,} to {most:,}.",
            "Use an integer in this range.",
        )
    return int(value)  # type: ignore[call-overload, no-any-return]


def as_probability(value: object, what: str) -> float:
    """Return a level, confidence or power as a float; raise a `dfprivacy.ArgumentError` outside (0, 1)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ArgumentError(f"{what}{quoted(value)} is not between 0 and 1.", "Use, for example, 0.05 or 0.95.")
    return float(value)


def _title_of_table(table: Any) -> str:
    """Return the name and edition of a table, or of a join of two."""
    if isinstance(table, dict):
        return " joined with ".join(map(_title_of_table, table["join"]))
    name, edition = table
    return f"{name}, edition {edition}" if edition else str(name)


def _person_ids(n: int, max_rows: int, known: int | None) -> NDArray[np.int64]:
    """Return the integer id of a synthetic person for each of n rows, with at most `max_rows` rows per person.

    Parameters
    ----------
    n : int
        Number of rows.
    max_rows : int
        How many rows of one person count.
    known : int or None
        How many people there are, where that is public; no more than the rows.

    Returns
    -------
    ndarray of int
        Numbers of people: as many as are known, else of up to three rows each.
    """
    return np.arange(n) % (max(1, n // min(max_rows, 3)) if known is None else known)
