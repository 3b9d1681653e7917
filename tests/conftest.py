"""What many tests share: a throwaway ledger, and the frames of every library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dfprivacy.frames import adapt
from dfprivacy.rows import batches, category, number
from dfprivacy.schema import read_schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of the test's own, where nobody says otherwise."""
    path = tmp_path / "throwaway.sqlite"
    monkeypatch.setenv("DFPRIVACY_LEDGER", str(path))
    return path


class Parquet:
    """Make a Polars LazyFrame that scans a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, data: Any) -> pl.LazyFrame:
        path = self.folder / f"{len(list(self.folder.glob('*.parquet')))}.parquet"
        pl.DataFrame(data).write_parquet(path)
        return pl.scan_parquet(path)


_CONSTRUCTORS: dict[str, Callable[[Any], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars-lazy": pl.LazyFrame,
    "arrow": pa.table,
}


@pytest.fixture(params=[*_CONSTRUCTORS, "polars-parquet"])
def constructor(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Any], Any]:
    """What makes a frame of a dictionary of lists or arrays; the test runs once for each library."""
    return _CONSTRUCTORS.get(request.param) or Parquet(tmp_path)


@pytest.fixture
def schema_of() -> Callable[..., Any]:
    """`read_schema` of a frame, with nothing said unless it is."""

    def read(frame: Any, **said: Any) -> Any:
        nothing: dict[str, Any] = {"bounds": None, "categories": None, "public": (), "missing": None}
        return read_schema(adapt(frame), **{**nothing, "neighbors": "replace_one", **said})

    return read


@pytest.fixture
def numbers_of(schema_of: Callable[..., Any]) -> Callable[..., list[float]]:
    """The cleaned numbers of the column ``x`` of a frame, in the order of its rows."""

    def read(frame: Any, bounds: Any = (0, 10), missing: Any = None) -> list[float]:
        said = None if missing is None else {"x": missing}
        column = schema_of(frame, bounds={"x": bounds}, missing=said).numeric("x")
        found = [batch.values(column) for batch, _ in batches(adapt(frame), [number(column)], ())]
        return np.concatenate(found).tolist()

    return read


@pytest.fixture
def categories_of(schema_of: Callable[..., Any]) -> Callable[..., list[Any]]:
    """The categories of the column ``x`` of a frame, in the order of its rows, None for none of them."""

    def read(frame: Any, categories: Any, missing: Any = None) -> list[Any]:
        said = None if missing is None else {"x": missing}
        column = schema_of(frame, categories={"x": categories}, missing=said).categorical("x")
        found = [batch.codes(column) for batch, _ in batches(adapt(frame), [category(column)], ())]
        return [[*column.categories, None][code] for code in np.concatenate(found)]

    return read
