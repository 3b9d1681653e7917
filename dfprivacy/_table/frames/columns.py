"""Conversion of raw columns to numbers, categories, keys, or identifiers of people.

Every adapter gives a part of a column as an array of Arrow, one of NumPy's numbers, or a list of Python objects.
What a value stands for is a function of that value alone: not of the type that a library chose for its column,
which one value can change, nor of what else is there. So types decide only how values are read, and dictionaries
are exact: those of Arrow, in which no two texts are taken for one.
"""

from __future__ import annotations

import datetime as dt
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from dfprivacy.schema import code_book_of
from dfprivacy.schema.values import (
    BLANKS,
    DATE,
    NUMERAL,
    TRUTH,
    Dictionary,
    Raw,
    date_text,
    days,
    plain_number,
    plain_text,
    read_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.frames import Read

__all__ = [
    "Column",
    "concatenate_people",
    "encode_distinct",
    "identifier_kind",
    "identifiers_as_bytes",
    "matching_rows",
    "read_column",
]

_TEXT = pa.large_binary()  # UTF-8, and what Python makes of half a surrogate pair
_BYTES = {pa.binary(), _TEXT, pa.binary_view()}
_TEXTS = {pa.string(), pa.large_string(), pa.string_view(), *_BYTES}
_WHOLE_MAX = 2**53  # below it float64 holds every integer
_SPACE = "[" + BLANKS + "]*"
_IS_NUMERAL = f"^{_SPACE}{NUMERAL}{_SPACE}$"
_IS_OTHER = f"^{_SPACE}(?:{'|'.join(TRUTH)}|{DATE}){_SPACE}$"
_SAME_IN_NUMPY = {float, int, bool, type(None)}


Column: TypeAlias = "pa.Array | NDArray[Any] | list[Any] | Dictionary"  # of codes into another column
# Numbers, NaN where a value is none, and texts, null where it is none; None where no value is any.
_Values: TypeAlias = "tuple[NDArray[Any] | None, pa.Array | None]"


def read_column(column: Column, read: Read) -> Raw:
    """Convert a part of a column to what a `Read` requests: numbers, categories, keys or identifiers of people."""
    if isinstance(column, pa.Array):
        column = _decode_encoding(column)
    elif isinstance(column, np.ndarray) and column.dtype.kind not in "biuf":
        column = column.tolist()
    if isinstance(column, Dictionary):
        of_values = read_column(column.values, read)
        if isinstance(of_values, Dictionary):
            return Dictionary(np.append(of_values.codes, -1)[column.codes], of_values.values)
        taken: NDArray[np.float64] = np.append(of_values.astype(np.float64), np.nan)[column.codes]
        return taken
    if read.domain == "people":
        return encode_distinct(_person_identifiers(column))
    numbers, texts = _split_numbers_from_texts(column, keys=read.domain is ...)
    if texts is None:
        return np.full(len(column), np.nan) if numbers is None else numbers
    if read.domain is not None:
        return _encode_values(numbers, texts, read.domain)
    return (
        _texts_as_numbers(texts)
        if numbers is None
        else np.where(np.isnan(numbers), _texts_as_numbers(texts), numbers)
    )


def identifier_kind(column: Column) -> str:
    """Return the kind of identifiers that a column's type can hold, such as "text"; empty if it can hold none."""
    if isinstance(column, Dictionary):
        return identifier_kind(column.values)
    if isinstance(column, pa.Array):
        kind = column.type
        while hasattr(kind, "value_type") and not types.is_nested(kind):
            kind = kind.value_type
        whole = types.is_integer(kind)
        return "integers" if whole else "bytes" if kind in _BYTES else "text" if kind in _TEXTS else ""
    if isinstance(column, list):
        return "Python objects"
    return "integers" if column.dtype.kind in "iu" else ""


def _decode_encoding(column: pa.Array) -> pa.Array | Dictionary:
    """Undo run-length encoding of a column, and dictionary encoding if the dictionary is longer than the column."""
    if types.is_run_end_encoded(column.type):
        return _decode_encoding(pc.run_end_decode(column))
    if types.is_dictionary(column.type):
        if len(column.dictionary) > len(column):
            return _decode_encoding(column.dictionary_decode())
        return Dictionary(_indices_to_numpy(column.indices), column.dictionary)
    return column


def _indices_to_numpy(indices: pa.Array) -> NDArray[np.intp]:
    return _to_numpy(indices.cast(pa.int64()).fill_null(-1)).astype(np.intp, copy=False)


def _to_numpy(column: pa.Array) -> NDArray[Any]:
    """Convert an Arrow array of numbers to NumPy without a copy; the numbers at nulls are undefined."""
    kind = column.type.to_pandas_dtype()
    data = column.buffers()[1]
    return np.frombuffer(data, kind)[column.offset : column.offset + len(column)] if data else np.zeros(0, kind)


def _booleans_to_numpy(column: pa.Array) -> NDArray[np.bool_]:
    truth: NDArray[np.bool_] = _to_numpy(column.cast(pa.uint8())).view(np.bool_)
    return truth


def _to_arrow(values: NDArray[Any]) -> pa.Array:
    """Convert integers to an Arrow array."""
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _split_numbers_from_texts(column: pa.Array | NDArray[Any] | list[Any], *, keys: bool) -> _Values:
    """Return a column's numbers, NaN elsewhere, and its texts, null elsewhere; with `keys`, dates are texts."""
    if isinstance(column, np.ndarray):
        return column, None
    if isinstance(column, pa.ExtensionArray):
        column = column.to_pylist()
    if isinstance(column, list):
        return _read_objects(column, keys=keys)
    kind = column.type
    if kind in _TEXTS:
        return None, _as_text(column)
    if types.is_date(kind) or types.is_timestamp(kind):
        since = _column_as_days(column)
        return (None, _days_as_texts(since)) if keys else (since, None)
    if types.is_decimal(kind):  # Arrow's own way to float64 rounds twice, by the scale of the type
        return _texts_as_numbers(column.cast(pa.string()).cast(_TEXT)), None
    if types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not (types.is_integer(kind) or types.is_floating(kind)):
        return None, None
    numbers = _to_numpy(column)
    return _nan_where_null(column, numbers), None


def _column_as_days(column: pa.Array) -> NDArray[np.float64]:
    kind = column.type
    unit = "D" if types.is_date32(kind) else "ms" if types.is_date64(kind) else kind.unit
    stamps = _to_numpy(column.cast(pa.int32() if unit == "D" else pa.int64())).astype(np.int64)
    return _nan_where_null(column, days(stamps.view(f"datetime64[{unit}]")))


def _nan_where_null(column: pa.Array, numbers: NDArray[Any]) -> NDArray[Any]:
    """Return numbers with NaN where the column is null."""
    return (
        np.where(_booleans_to_numpy(column.is_valid()), numbers.astype(np.float64), np.nan)
        if column.null_count
        else numbers
    )


def _read_objects(values: list[Any], *, keys: bool) -> _Values:
    """Return the numbers and texts of Python objects, at once if all are of simple types, else one by one."""
    kinds = set(map(type, values))
    try:
        if kinds <= {str, type(None)}:
            return None, pa.array(values, pa.large_string()).cast(_TEXT)
        if kinds <= _SAME_IN_NUMPY:
            return np.array(values, dtype=np.float64), None
    except (UnicodeEncodeError, OverflowError, pa.ArrowException):
        pass
    pairs = [_read_object(value, keys=keys) for value in values]
    numbers = np.fromiter((number for number, _ in pairs), np.float64, len(pairs))
    return numbers, _texts_to_arrow([text for _, text in pairs])


def _read_object(value: object, *, keys: bool) -> tuple[float, str | None]:
    text = plain_text(value)
    if text is not None:
        return math.nan, text
    number = plain_number(value)
    if keys and not math.isnan(number) and isinstance(value, dt.date | np.datetime64):
        return math.nan, date_text(number)
    return number, None


def _texts_to_arrow(texts: Sequence[str | None]) -> pa.Array:
    encoded = [b"" if text is None else text.encode(errors="surrogatepass") for text in texts]
    bounds = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=bounds[1:])
    there = np.packbits(np.array([text is not None for text in texts], dtype=np.bool_), bitorder="little")
    return pa.Array.from_buffers(
        _TEXT, len(texts), [pa.py_buffer(each) for each in (there, bounds, b"".join(encoded))]
    )


def _texts_to_python(texts: pa.Array) -> list[str]:
    return [text.decode(errors="surrogatepass") for text in texts.to_pylist()]


def _days_as_texts(since: NDArray[np.float64]) -> pa.Array:
    different, places = np.unique(since, return_inverse=True)
    return _texts_to_arrow([date_text(day) for day in different.tolist()]).take(_to_arrow(places))


def _as_text(column: pa.Array) -> pa.Array:
    """Return a column as text, null where bytes are not UTF-8."""
    column = column.cast(_TEXT)
    try:
        column.cast(pa.large_string())  # which checks
    except pa.ArrowInvalid:
        return _texts_to_arrow([plain_text(value) for value in column.to_pylist()])
    return column


def _texts_as_numbers(texts: pa.Array) -> NDArray[np.float64]:
    """Convert texts to numbers as `read_number` does; NaN for texts that are no number."""
    every = encode_distinct(texts)
    different = every.values
    numbers = np.full(len(different) + 1, np.nan)
    for pattern, read in ((_IS_NUMERAL, _numerals_as_numbers), (_IS_OTHER, _other_texts_as_numbers)):
        found = pc.match_substring_regex(different, pattern)
        if found.true_count:
            numbers[np.flatnonzero(_booleans_to_numpy(found))] = read(different.filter(found))
    parsed: NDArray[np.float64] = numbers[every.codes]
    return parsed


def _numerals_as_numbers(numerals: pa.Array) -> Any:
    bare = pc.ascii_ltrim(pc.ascii_trim_whitespace(numerals.cast(pa.large_string())), "+")
    try:
        return _to_numpy(bare.cast(pa.float64()))
    except pa.ArrowInvalid:  # one is beyond float64
        return _other_texts_as_numbers(numerals)


def _other_texts_as_numbers(texts: pa.Array) -> Any:
    return [read_number(text) for text in _texts_to_python(texts)]


def _encode_values(numbers: NDArray[np.float64] | None, texts: pa.Array, domain: Any) -> Dictionary:
    """Encode values as indices into a list: all distinct values, or a domain's texts and the numbers found."""
    values: list[Any]
    if domain is ...:
        every = encode_distinct(texts)
        codes, values = every.codes.copy(), _texts_to_python(every.values)
    else:
        known = code_book_of(domain)
        values = [*known.texts]
        codes = _indices_to_numpy(pc.index_in(texts, value_set=_texts_to_arrow(values))).copy()
        left = np.flatnonzero((codes < 0) & _booleans_to_numpy(texts.is_valid()))
        if len(left) and known.numbers:
            numbers = np.full(len(texts), np.nan) if numbers is None else numbers
            numbers[left] = _texts_as_numbers(texts.take(_to_arrow(left)))
    if numbers is not None:
        there = np.flatnonzero(~np.isnan(numbers))
        different, own = np.unique(numbers[there], return_inverse=True)
        codes[there] = len(values) + own
        values += different.tolist()
    return Dictionary(codes, values)


# ---- people -----------------------------------------------------------------------------------------------


def _person_identifiers(column: pa.Array | NDArray[Any] | list[Any]) -> pa.Array:
    """Convert a column to identifiers of people: 64-bit integers or texts; null for other values."""
    if isinstance(column, np.ndarray):
        column = _to_arrow(column) if column.dtype.kind in "iu" else column.tolist()
    if isinstance(column, pa.Array) and (types.is_floating(column.type) or types.is_decimal(column.type)):
        column = column.to_pylist()
    if isinstance(column, list):
        return _identifiers_of_objects(column)
    if column.type in _TEXTS:
        return _as_text(column)
    if not types.is_integer(column.type):
        return pa.nulls(len(column), _TEXT)
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return _integers_as_texts(column)


def _identifiers_of_objects(values: list[Any]) -> pa.Array:
    kinds = set(map(type, values))
    if kinds <= {str, type(None)}:
        return _read_objects(values, keys=True)[1]
    if kinds <= {int, type(None)}:
        with suppress(OverflowError, pa.ArrowException):
            return pa.array(values, pa.int64())
    return _texts_to_arrow([_identifier_of_object(value) for value in values])


def _identifier_of_object(value: object) -> str | None:
    """Convert a text or an integer to an identifier as text; None for other values, and for floats beyond 2^53."""
    text = plain_text(value)
    if text is not None or type(value) in {bool, np.bool_}:
        return text
    try:
        if isinstance(value, int | np.integer):
            return str(int.__int__(value) if isinstance(value, int) else int(value))
        whole = int(value)  # type: ignore[call-overload]
        return str(whole) if whole == value and abs(whole) < _WHOLE_MAX else None
    except Exception:  # noqa: BLE001 - an error would tell on its row
        return None


def encode_distinct(values: pa.Array) -> Dictionary:
    """Encode values as indices into the distinct values; null as -1."""
    found = values.dictionary_encode()
    return Dictionary(_indices_to_numpy(found.indices), found.dictionary)


def _integers_as_texts(numbers: pa.Array) -> pa.Array:
    return numbers.cast(pa.large_string()).cast(_TEXT)


def concatenate_people(parts: Sequence[Any]) -> Dictionary:
    """Concatenate encoded parts of a column of identifiers; integers become texts if any part has texts."""
    names = [part.values for part in parts]
    if len({each.type for each in names}) > 1:
        names = [_integers_as_texts(each) if types.is_integer(each.type) else each for each in names]
    every = encode_distinct(pa.concat_arrays(names) if names else pa.nulls(0, _TEXT))
    places = np.split(every.codes.astype(np.int32), np.cumsum([len(each) for each in names]))
    whose = [np.append(place, np.int32(-1))[part.codes] for place, part in zip(places, parts, strict=False)]
    return Dictionary(np.concatenate([np.zeros(0, dtype=np.int32), *whose]), every.values)


def matching_rows(
    left: Dictionary, right: Dictionary, how: Literal["left", "inner"]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return indices of the matching rows of two columns of identifiers, sorted by left row, then by right row.

    Parameters
    ----------
    left, right : Dictionary
        The people of each row.
    how : {"left", "inner"}
        Whether a left row without a right one is kept.

    Returns
    -------
    tuple of two ndarray of int
        For each row of the join the left and the right row; -1 where there is no right row.
    """
    both = concatenate_people([left, right])
    codes, others = np.split(both.codes, [len(left)])
    there = np.flatnonzero(others >= 0)
    rows = there[np.argsort(others[there], kind="stable")]
    times = np.bincount(others[there], minlength=len(both.values) + 1)  # the last is nobody's
    many, first = times[codes], (np.cumsum(times) - times)[codes]
    of_each = many if how == "inner" else np.maximum(many, 1)
    of_left = np.repeat(np.arange(len(codes)), of_each)
    within = np.arange(len(of_left)) - np.repeat(np.cumsum(of_each) - of_each, of_each)
    found = np.where(many[of_left] > 0, first[of_left] + within, len(rows))
    return of_left, np.append(rows, -1)[found]


def identifiers_as_bytes(names: pa.Array, which: NDArray[np.integer]) -> Iterator[bytes]:
    """Yield selected identifiers as bytes."""
    some = names.take(_to_arrow(which))
    yield from (_integers_as_texts(some) if types.is_integer(some.type) else some).to_pylist()
