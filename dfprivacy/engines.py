"""Interface that lets dfprivacy read the tables of another engine.

An engine gives its rows as tables of pandas, Polars or Arrow, part after part, and only the columns that are asked
for. What the values mean is decided by the house, in one place for every engine. One whose rows are on other
machines is a `Cluster`: it also runs a function where each part is, and brings back bytes.

An engine is found by an entry point of the group ``dfprivacy.frames``, which has the name of the engine's top-level
module and leads to a function: given a frame, it returns an `Engine`, or None if the frame is not of its kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Cluster", "Engine", "Keep", "WorkersLost"]


class WorkersLost(Exception):  # noqa: N818 - it is what happened
    """Raised by a `Cluster` if no worker is left to read the rows; has no message."""


@dataclass(frozen=True)
class Keep:
    """A condition on a public column that lets an engine read fewer rows.

    The engine may return too many rows, never too few; dfprivacy selects the rows afterwards.

    Attributes
    ----------
    column : str
        The column: of integers or floats if `low` or `high` is given, of text if `texts` are given.
    low, high : float or None
        Limits of the numbers that are kept; None for no limit. Rows with a missing number may be left out.
    texts : tuple of str or None
        The texts that are kept.
    """

    column: str
    low: float | None = None
    high: float | None = None
    texts: tuple[str, ...] | None = None


class Engine(ABC):
    """Table of an engine, as dfprivacy reads it.

    Attributes
    ----------
    library : {"pyarrow", "pandas", "polars"}
        The library of the tables that releases return to users of the engine.
    settled : bool
        Whether every pass returns the same rows in the same order, unless the table is changed.
    keeps : bool
        Whether it uses conditions to read less. Then `empty` returns a table of Arrow.
    """

    library: str = "pyarrow"
    settled: bool = False
    keeps: bool = False

    @abstractmethod
    def empty(self) -> object:
        """Return a table of pandas, Polars or Arrow without rows, with the engine's columns and types."""

    @abstractmethod
    def rows(self) -> int:
        """Return the number of rows of the table."""

    @abstractmethod
    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[object]:
        """Read some columns of the table, one part of the rows after the other.

        Parameters
        ----------
        columns : sequence of str
            Names of the columns; at least one.
        keep : sequence of Keep
            Conditions that may be used to read fewer rows, if the engine `keeps`.

        Yields
        ------
        pandas.DataFrame, polars.DataFrame, pyarrow.Table or pyarrow.RecordBatch
            Rows that are together in memory, in order, with these columns or more.
        """

    def split_by_person(self, column: str) -> Sequence[Engine]:  # noqa: ARG002
        """Divide the rows into parts so that all rows of a person are in one part, in order.

        Parameters
        ----------
        column : str
            The column that identifies people, by integers or text.

        Returns
        -------
        sequence of Engine
            Parts with so few rows that they fit into memory. For a `Cluster`, one part, which has all rows of a
            person in one partition.
        """
        return [self]

    def join(
        self,
        other: Engine,  # noqa: ARG002
        on: str,  # noqa: ARG002
        how: Literal["left", "inner"],  # noqa: ARG002
        own: Sequence[str],  # noqa: ARG002
        others: Sequence[str],  # noqa: ARG002
    ) -> Engine | None:
        """Join the rows with the rows of another table, inside the engine.

        Two rows match if they name the same person exactly: numbers are not rounded, letters not normalised, and a
        row without a person matches no row.

        Parameters
        ----------
        other : Engine
            The other table.
        on : str
            The column that names people in both: integers, text or bytes in both, or Python objects in both.
        how : {"left", "inner"}
            Whether a row without a match is kept, with missing values.
        own, others : sequence of str
            The columns of the join: from this table, with `on`, and from the other one. The names differ.

        Returns
        -------
        Engine or None
            The join. The order of a person's rows depends on this person's rows in both tables only; other rows
            stay in their order. None if the engine cannot join the tables.
        """
        return None

    def check_ready(self) -> None:  # noqa: B027 - most are
        """Raise an error if rows cannot be read in this process; called before anything is charged."""


class Cluster(Engine):
    """Table of an engine whose rows are in other processes, or on other machines."""

    @abstractmethod
    def split_by_person(self, column: str) -> Sequence[Cluster]:
        """Divide the rows into parts so that all rows of a person are in one part; see `Engine.split_by_person`."""

    @abstractmethod
    def run(
        self, columns: Sequence[str], keep: Sequence[Keep], work: Callable[[Iterator[object]], bytes]
    ) -> Iterator[bytes]:
        """Run a function on the machines that hold the rows, once for each part, and yield its results.

        Parameters
        ----------
        columns, keep
            As for `parts`.
        work : callable
            Function of the tables of one part. It can be pickled by cloudpickle, and holds code and public numbers
            only. It raises no errors, which could quote the data.

        Yields
        ------
        bytes
            One result for each part, in order, even if a part is processed twice; an error if a part fails.
        """
