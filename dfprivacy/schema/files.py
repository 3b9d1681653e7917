"""Schema files: TOML files with the public facts and the budget of a table, for review.

The file is TOML. Reading checks what it says against the keys below and nothing else: what the keys mean is checked
where arguments of `dfprivacy.protect` are, so that a file and arguments cannot mean different things.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dfprivacy._privacy.filters import exact
from dfprivacy.errors import ArgumentError, SchemaError
from dfprivacy.schema import FoundPair, LabelAndUnits, toml
from dfprivacy.schema.values import plain_number

__all__ = ["USUAL", "SchemaFile", "parse_schema", "read_file", "read_whole", "skeleton"]

# What the file may say of the data set, and of what kind each is.
TERMS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "account": (str,),
    "edition": (str,),
    "epsilon": (str, int, float),
    "delta": (str, int, float),
    "accounting": (str,),
    "default_epsilon": (str, int, float),
    "neighbors": (str,),
    "unit": (str,),
    "max_rows": (int,),
    "unit_missing": (str,),
    "size": (int,),
    "budgets": (dict,),
    "columns": (dict,),
}
OF_COLUMNS: dict[str, tuple[type, ...]] = {
    "bounds": (list, str),
    "found": (int, float),
    "categories": (list,),
    "missing": (str, int, float),
    "public": (bool,),
    "label": (str,),
    "units": (str,),
}
_WHICH = ("name", "account", "edition", "unit", "max_rows", "size")
_BY_COLUMN = ("bounds", "categories", "missing")
_LARGEST = 10**7  # bytes: a larger file is not read


@dataclass(frozen=True)
class SchemaFile:
    """The contents of a schema file, and its path.

    Attributes
    ----------
    path : str
        The file.
    terms : mapping of str
        What it says of the data set, by the names of `dfprivacy.protect`.
    columns : mapping of str to mapping
        What it says of each column, in order.
    """

    path: str
    terms: Mapping[str, Any]
    columns: Mapping[str, Mapping[str, Any]]

    @property
    def words(self) -> dict[str, LabelAndUnits]:
        """Labels and units of the columns for which the file has them."""
        return {
            name: LabelAndUnits(facts.get("label", ""), facts.get("units", ""))
            for name, facts in self.columns.items()
            if {"label", "units"} & facts.keys()
        }

    @property
    def digest(self) -> str:
        """Hash of the file's terms and column declarations, without the budget and labels."""
        whose = {term: value for term, value in self.terms.items() if term in _WHICH}
        whose |= {term: self.terms.get(term, usual) for term, usual in USUAL.items()}
        lines = toml.table(whose)
        for name, facts in self.columns.items():
            deciding = {
                each: _plain_value(facts[each]) for each in sorted(facts) if each in ("bounds", "found", "missing")
            }
            deciding |= {each: facts[each] for each in ("categories", "public") if facts.get(each)}
            lines += toml.table(deciding, "columns", name)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @contextmanager
    def name_file_in_errors(self) -> Iterator[None]:
        """Add the file's name to errors about its contents."""
        try:
            yield
        except SchemaError as error:
            if self.path in error.what:
                raise
            raise SchemaError(f"With the schema file {self.path}: {error.what}", error.hint) from None

    def refuse_missing_columns(self, names: Sequence[str]) -> None:
        """Raise a `SchemaError` if the table lacks a column that the file declares."""
        if strange := [name for name in self.columns if name not in names]:
            raise SchemaError(f"There is no column {strange[0]!r}.", f"The table's columns are {list(names)!r}.")

    def arguments(self) -> dict[str, Any]:
        """Return the contents of the file as arguments of `dfprivacy.protect`."""
        arguments = {name: value for name, value in self.terms.items() if name != "name"}
        for argument in _BY_COLUMN:
            arguments[argument] = {n: c[argument] for n, c in self.columns.items() if argument in c}
        found = {
            n: FoundPair(c["bounds"], c["found"]) for n, c in self.columns.items() if {"bounds", "found"} <= {*c}
        }
        arguments["bounds"] |= found
        return arguments | {"public": [name for name, column in self.columns.items() if column.get("public")]}

    def with_arguments(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Combine the contents of the file with the arguments of `protect`, which must not contradict it.

        Parameters
        ----------
        name : str
            The data set that is asked for.
        given : mapping
            Arguments of `dfprivacy.protect`; None is one that was not given.

        Returns
        -------
        dict
            All arguments.

        Raises
        ------
        SchemaError
            If the file is another data set's, or an argument says something else than the file does.
        """
        if self.terms.get("name", name) != name:
            raise SchemaError(
                f"The schema file {self.path} describes the data set {self.terms['name']!r}, not {name!r}.",
                f"Use the name in the file, or the schema file of {name!r}.",
            )
        arguments = self.arguments()
        for argument, value in given.items():
            if argument in _BY_COLUMN and isinstance(value, Mapping):
                for column in value.keys() & arguments[argument].keys():
                    self._refuse_other_value(f"{argument}[{column!r}]", arguments[argument][column], value[column])
                arguments[argument] = {**arguments[argument], **value}
            elif argument == "public":
                self._refuse_more_public_columns(value)
            elif value is not None:
                if argument in arguments:
                    self._refuse_other_value(argument, arguments[argument], value)
                arguments.setdefault(argument, value)
        return arguments

    def _refuse_other_value(self, argument: str, other: object, given: object) -> None:
        if not _equals_value_in_file(other, given):
            raise SchemaError(
                f"The schema file {self.path} and the call give different values of {argument}.",
                "Leave the argument out of the call. To change its value, change the file.",
            )

    def _refuse_more_public_columns(self, names: object) -> None:
        given = names if isinstance(names, Sequence) and not isinstance(names, str) else ()
        more = [name for name in given if not self.columns.get(str(name), {}).get("public")]
        if more:
            raise SchemaError(
                f"The schema file {self.path} does not declare {more[0]!r} public.",
                "Write `public = true` for the column into the file, where it is reviewed.",
            )


USUAL: Mapping[str, Any] = {"neighbors": "replace_one", "unit_missing": "omit"}
"""Terms of a table that nobody declares."""


def read_file(path: str | os.PathLike[str]) -> SchemaFile:
    """Read a schema file.

    Parameters
    ----------
    path : str or path
        A TOML file.

    Returns
    -------
    SchemaFile
        What it says.

    Raises
    ------
    SchemaError
        If it cannot be read, or says what no schema says.
    """
    try:
        where = os.fsdecode(path)
    except Exception:  # noqa: BLE001 - whatever a path of the caller's own kind raises
        what = f"schema= is the path of a file, not {type(path).__name__}."
        raise SchemaError(what, "For example 'fair.toml'.") from None
    try:
        content = read_whole(where, _LARGEST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SchemaError(f"The schema file {where} cannot be read: {reason}.", "Check its path.") from None
    return parse_schema(where, content)


def parse_schema(where: str, content: bytes) -> SchemaFile:
    """Parse the content of a schema file; `where` names the file in errors."""
    try:
        plain = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        reason = {
            tomllib.TOMLDecodeError: str(error),
            UnicodeDecodeError: "it is not text in UTF-8",
            RecursionError: "its lists are nested too deeply",
        }.get(type(error), "a number in it has too many digits")
        raise SchemaError(f"The schema file {where} is not TOML: {reason}.", "See https://toml.io.") from None
    _check_keys(where, "", plain, TERMS)
    columns = plain.pop("columns", {})
    for name, facts in columns.items():
        if not isinstance(facts, dict):
            raise SchemaError(
                f"In the schema file {where}, the entry of column {name!r} is not a table.",
                f"Write its declarations under [columns.{name}].",
            )
        _check_keys(where, f" of column {name!r}", facts, OF_COLUMNS)
    return SchemaFile(where, plain, columns)


def read_whole(path: str | os.PathLike[str], most: int) -> bytes:
    """Read a regular file; raise an `OSError` if it is larger than `most` bytes or cannot be read."""
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise OSError("it is not a regular file")
    with Path(path).open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(f"it has more than {most} bytes")
    return content


def skeleton(columns: Iterable[tuple[str, str]], name: str) -> str:
    """Return the text of a schema file to fill in, from the names and declared types of columns.

    Parameters
    ----------
    columns : iterable of (str, str)
        Names, and their declared types in words; empty where none is declared.
    name : str
        What the data set may be called.

    Returns
    -------
    str
        TOML that says nothing yet but the names.
    """
    lines = [
        "# What is public about this table. Write what is known from how the data were collected, never from",
        "# the values: everybody can read this file, and privacy depends on it. The lines of types remind you",
        "# of what the file declares. Delete them before you show this: a type may follow from one value.",
        *toml.table({"name": name}),
        '# epsilon = "1"        the whole budget, once and for all',
        '# delta = "1e-6"',
        '# default_epsilon = "0.1"',
        '# neighbors = "replace_one"     or "add_remove", if the number of rows is private as well',
        '# unit = "patient_id"           the column of people, if a person may have several rows, and',
        "# max_rows = 8                  how many of one person count",
    ]
    for column, declared in columns:
        lines += ["", *toml.table({}, "columns", column)]
        lines += [toml.commented(f"declared as {declared}")] if declared else []
        lines += ["# bounds = [LOW, HIGH]", "# categories = [VALUE, VALUE]", '# label = ""', '# units = ""']
    return "\n".join(lines) + "\n"


def _check_keys(where: str, of: str, table: Mapping[str, Any], known: Mapping[str, tuple[type, ...]]) -> None:
    for key, value in table.items():
        if key not in known:
            near = difflib.get_close_matches(key[:100], known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It may say {', '.join(known)}."
            raise SchemaError(f"The schema file {where} has an unknown key{of}, {key!r}.", hint)
        if not isinstance(value, known[key]) or (isinstance(value, bool) and bool not in known[key]):
            if key == "missing" and plain_number(value) == plain_number(value):
                continue
            kinds = " or ".join(_KINDS[kind] for kind in known[key])
            raise SchemaError(f"In the schema file {where}, {key}{of} is not {kinds}.", f"Write {kinds}.")


_KINDS = {
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


def _equals_value_in_file(value: Any, given: Any) -> bool:
    """Return whether an argument equals the file's value, where 1 equals 1.0 and a tuple equals a list."""
    given = given.tolist() if isinstance(given, np.ndarray) else given
    lists = [isinstance(each, Sequence) and not isinstance(each, str) for each in (value, given)]
    if all(lists):
        return len(value) == len(given) and all(map(_equals_value_in_file, value, given))
    if isinstance(value, Mapping) and isinstance(given, Mapping):
        return value.keys() == given.keys() and all(
            _equals_value_in_file(value[name], given[name]) for name in value
        )
    try:
        return (type(value) is type(given) and value == given) or exact(value) == exact(given)
    except ArgumentError:
        return bool(value == given) or plain_number(value) == plain_number(given)


def _plain_value(value: Any) -> Any:
    """Convert numbers to floats, and dates to days since 1970-01-01."""
    if isinstance(value, list):
        return [_plain_value(item) for item in value]
    if isinstance(value, str | bool):
        return value
    number = plain_number(value)
    return number if number == number else repr(value)  # noqa: PLR0124 - not NaN
