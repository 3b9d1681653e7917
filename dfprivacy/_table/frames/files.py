"""Readers of tables, and of their column names and types, from files and databases."""

from __future__ import annotations

import csv
import importlib.util
import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dfprivacy._table.frames import redact_errors
from dfprivacy.errors import ArgumentError, DPError, MissingDependency, ReadError
from dfprivacy.schema.values import read_number

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

__all__ = ["declared_columns", "open_database_table", "open_table"]

_PARQUET, _ARROW, _CSV = {".parquet", ".pq"}, {".arrow", ".feather", ".ipc"}, {".csv"}
_LINE = 1 << 20  # characters of a header
_AT_ONCE = 1 << 16  # rows of a database


def declared_columns(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Read the names and declared types of a file's columns, without reading a value.

    Parameters
    ----------
    path : str or path
        Parquet, Arrow, or CSV, whose first line is taken for the names; it has no types.

    Returns
    -------
    list of (str, str)
        Names, and types in the words of the library that read them. Statistics, dictionaries and notes in the file
        are not read: they hold values, or numbers of them.

    Raises
    ------
    ArgumentError
        If it is no such file.
    ReadError
        If it cannot be read.
    """
    file, kind = _file_and_kind(path)
    readers = {"csv": _csv_header, "parquet": _parquet_types, "arrow": _arrow_types}
    columns: list[tuple[str, str]] = _read_or_refuse(lambda: readers[kind](file))
    names = [name.strip() for name, _ in columns]  # that of an index may be empty
    if kind == "csv" and (not any(names) or len({*names}) < len(names) or any(map(_is_value, names))):
        raise ArgumentError(
            f"The first line of {file} is not a header: it is empty, contains a number or date, or repeats a name.",
            "Write the names of the columns into the first line. It is not quoted here, as it may hold data.",
        )
    return columns


def open_table(path: str | os.PathLike[str]) -> Any:
    """Read a table from a Parquet, Arrow or CSV file.

    Parameters
    ----------
    path : str or path
        Parquet, Arrow or CSV.

    Returns
    -------
    polars.DataFrame or pyarrow.Table
        The table, of Polars if that is installed.
    """
    file, kind = _file_and_kind(path)
    if importlib.util.find_spec("polars"):
        import polars as pl

        if kind == "csv":  # a type follows from all values, not from the first hundred
            return _read_or_refuse(lambda: pl.read_csv(file, infer_schema_length=None))
        return _read_or_refuse(lambda: pl.read_parquet(file) if kind == "parquet" else pl.read_ipc(file))
    from pyarrow import csv, feather, parquet

    at_once = csv.ReadOptions(block_size=max(1, file.stat().st_size))
    readers = {
        "csv": lambda: csv.read_csv(file, at_once),
        "parquet": lambda: parquet.read_table(file),
        "arrow": lambda: feather.read_table(file),
    }
    return _read_or_refuse(readers[kind])


def open_database_table(where: str | os.PathLike[str], table: str) -> Any:
    """Open a table of a DuckDB file, or read one from the database at an address.

    Parameters
    ----------
    where : str or path
        A file of DuckDB, whose table each question reads anew, and only the columns that it needs; or the address
        of a database, whose table is read once, now.
    table : str
        The table's name, with that of its schema where it needs one: ``"clinic.visits"``.

    Returns
    -------
    object
        The table, as `protect` takes it.

    Raises
    ------
    ArgumentError
        If there is no such file.
    MissingDependency
        If the database's library is not installed.
    ReadError
        If it cannot be read.
    """
    if "://" in str(where):
        return _read_or_refuse(lambda: _read_with_sqlalchemy(str(where), table))
    if not Path(where).is_file():
        raise ArgumentError(f"There is no file {where}.", "Check its path.")
    try:
        import duckdb
    except ImportError:
        raise MissingDependency(
            "Reading a DuckDB table needs the package duckdb.", 'Install it: pip install "dfprivacy[duckdb]".'
        ) from None
    from dfprivacy._table.frames.arrow import DuckTableEngine

    return _read_or_refuse(lambda: DuckTableEngine(duckdb.connect(str(where), read_only=True), table))


def _read_with_sqlalchemy(address: str, table: str) -> Any:
    """Read a database table into an Arrow table, a limited number of rows at a time."""
    import pyarrow as pa
    from sqlalchemy import MetaData, Table, create_engine

    engine = create_engine(address)
    schema, _, name = table.rpartition(".")
    try:
        with engine.connect().execution_options(stream_results=True, max_row_buffer=_AT_ONCE) as connection:
            query = Table(name, MetaData(), schema=schema or None, autoload_with=connection).select()
            found = connection.execute(query)
            names, parts = list(found.keys()), []
            for rows in found.partitions(_AT_ONCE):
                columns = zip(*rows, strict=True)
                parts.append(
                    pa.table({each: pa.array(column) for each, column in zip(names, columns, strict=True)})
                )
    finally:
        engine.dispose()
    # A part of integers and one of fractions are one column of fractions; what that would round is refused.
    return (
        pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({each: [] for each in names})
    )


def _file_and_kind(path: str | os.PathLike[str]) -> tuple[Path, str]:
    file = Path(path)
    for kind, endings in (("parquet", _PARQUET), ("arrow", _ARROW), ("csv", _CSV)):
        if file.suffix.lower() in endings:
            if not file.is_file():
                raise ArgumentError(f"There is no file {file}.", "Check its path.")
            return file, kind
    raise ArgumentError(f"The file type of {file} is unknown.", "Use a file named *.parquet, *.arrow or *.csv.")


def _read_or_refuse(work: Callable[[], Any]) -> Any:
    try:
        return redact_errors(work)
    except ReadError as error:  # nothing was charged
        raise error.after(DPError.outcome) from None


def _csv_header(file: Path) -> list[tuple[str, str]]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return [(name, "") for name in next(csv.reader([lines.readline(_LINE)]), [])]


def _is_value(name: str) -> bool:
    with suppress(ValueError):
        float(name)
        return True
    return not math.isnan(read_number(name))  # a date, a truth value


def _parquet_types(file: Path) -> list[tuple[str, str]]:
    from pyarrow import parquet

    return [(each.name, _type_as_text(each.type)) for each in parquet.read_schema(file)]


def _arrow_types(file: Path) -> list[tuple[str, str]]:
    import pyarrow as pa

    with pa.memory_map(str(file)) as source:
        try:
            schema = pa.ipc.open_file(source).schema
        except pa.ArrowInvalid:
            source.seek(0)
            schema = pa.ipc.open_stream(source).schema
    return [(each.name, _type_as_text(each.type)) for each in schema]


def _type_as_text(kind: Any) -> str:
    """Return an Arrow type as text; for a dictionary type, the type of its values."""
    return (
        _type_as_text(kind.value_type) if hasattr(kind, "value_type") and hasattr(kind, "index_type") else str(kind)
    )
