"""The only code that knows a dataframe library.

An adapter turns its frame into batches of raw columns: numbers as NumPy arrays, everything else as codes
into a dictionary of values. What the values mean (bounds, categories, missing values) is decided by
`dfprivacy.schema`, in one place for every engine.

An engine's own error messages may quote values of the data. `withheld` is the one place where they are caught.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from dfprivacy.errors import ArgumentError, ReadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
Kind = Literal["number", "boolean", "date", "text", "mixed", "other"]


@dataclass(frozen=True)
class Dictionary:
    """A column as codes into a list of values; the code -1 is a missing value."""

    codes: NDArray[np.intp]
    values: Sequence[object]


Raw: TypeAlias = "NDArray[Any] | Dictionary"


class Read(NamedTuple):
    """One column to read: as a number, or as one of the public categories of a domain."""

    name: str
    domain: tuple[object, ...] | None = None


class Frame(Protocol):
    """What the house asks of a frame."""

    @property
    def library(self) -> str:
        """Whose tables releases make for its owner: "pandas", "polars" or "pyarrow"."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names in order, doubles included."""
        ...

    def kind(self, name: str) -> Kind:
        """Tell what the column's type says about its values, without looking at one."""
        ...

    def rows(self) -> int:
        """Count the rows."""
        ...

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Rows, in order, in batches of at most `size`: the number of rows, and the raw columns."""
        ...

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """All rows of some columns, in order, as lists of Python values: for public columns only."""
        ...


# Where the frames of each library are adapted; a library that nobody imported has no frames to adapt.
_ADAPTERS = {"polars": "dfprivacy.frames.polars", "pandas": "dfprivacy.frames.pandas"}


def adapt(frame: object) -> Frame:
    """Find the adapter of a frame.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, polars.LazyFrame or object with an Arrow C stream
        The table.

    Returns
    -------
    Frame
        Its adapter.

    Raises
    ------
    ArgumentError
        If no adapter knows it.
    """
    for library, adapter in _ADAPTERS.items():
        if library in sys.modules:
            adapted: Frame | None = importlib.import_module(adapter).adapt(frame)
            if adapted is not None:
                return adapted
    if hasattr(frame, "__arrow_c_stream__"):
        arrow: Frame = importlib.import_module("dfprivacy.frames.arrow").adapt(frame)
        return arrow
    raise ArgumentError(
        f"A {type(frame).__name__} is not a table this library can read.",
        "Pass a pandas DataFrame, a Polars DataFrame or LazyFrame, or an object with an Arrow C stream.",
    )


def withheld(work: Callable[[], T]) -> T:
    """Do something with rows, and withhold what an engine or a plugin says if it fails.

    Parameters
    ----------
    work : callable
        What to do; called without arguments.

    Returns
    -------
    object
        Its result.

    Raises
    ------
    ReadError
        If it fails. The error names the type of the failure only: its text may quote the data.
    """
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - any error may quote data, and a panic of Rust is no Exception
        failed = type(error).__name__
    # Raised outside the handler, so that the error does not carry the engine's along as its context.
    raise ReadError(
        f"Reading the rows failed with {failed}; its text is withheld because it may quote the data.",
        "The frame's custodian can see the message by running the same computation outside dfprivacy.",
    )
