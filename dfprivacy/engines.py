"""Interface for other engines: how their tables are read.

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

    It may keep too many rows, never too few; the core selects the rows afterwards.

    Attributes
    ----------
    column : str
        Of integers or floats if there are limits, of text if there are texts.
    low, high : float or None
        The numbers that are kept; None where there is no limit. A missing number may go.
    texts : tuple of str or None
        The texts that are kept.
    """

    column: str
    low: float | None = None
    high: float | None = None
    texts: tuple[str, ...] | None = None


class Engine(ABC):
    """A table of some engine.

    Attributes
    ----------
    library : {"pyarrow", "pandas", "polars"}
        Whose tables releases make for the owner of such a table.
    settled : bool
        Whether every pass gives the same rows in the same order, unless somebody changes the table.
    keeps : bool
        Whether it uses conditions to read less. Its `empty` is a table of Arrow's then.
    """

    library: str = "pyarrow"
    settled: bool = False
    keeps: bool = False

    @abstractmethod
    def empty(self) -> object:
        """Return a table of pandas, Polars or Arrow without rows: the columns and their types."""

    @abstractmethod
    def rows(self) -> int:
        """Count the rows."""

    @abstractmethod
    def parts(self, columns: Sequence[str], keep: Sequence[Keep]) -> Iterator[object]:
        """Read some columns, part after part.

        Parameters
        ----------
        columns : sequence of str
            Which; at least one.
        keep : sequence of Keep
            What may be used to read less, if it `keeps`.

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
            Names people, by integers or text: equal ones are of one person.

        Returns
        -------
        sequence of Engine
            Each of so few rows that they may be held in memory. Of a `Cluster`, one, which has all rows of a person
            in one part.
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
        """Join the rows with those of another table, where they are.

        Two rows meet if they name the same person, exactly: no number is rounded, no letter taken for another one,
        and a row that names nobody meets no row.

        Parameters
        ----------
        other : Engine
            The other table.
        on : str
            The column that names people in both: integers, text or bytes in both, or Python objects in both.
        how : {"left", "inner"}
            Whether a row that meets no other one is kept, with missing values.
        own, others : sequence of str
            The columns of the join: those of this table, with `on`, and those of the other one. No name is among
            both.

        Returns
        -------
        Engine or None
            The join, whose rows of one person are in an order that follows from the rows of this person in both
            tables alone, and whose other rows stay in their order; None if the two cannot be joined where they are.
        """
        return None

    def check_ready(self) -> None:  # noqa: B027 - most are
        """Raise an error, before anything is charged, if rows cannot be read in this process."""


class Cluster(Engine):
    """A table whose rows are in other processes, or on other machines."""

    @abstractmethod
    def split_by_person(self, column: str) -> Sequence[Cluster]:
        """Divide the rows into parts so that all rows of a person are in one part; see `Engine.split_by_person`."""

    @abstractmethod
    def run(
        self, columns: Sequence[str], keep: Sequence[Keep], work: Callable[[Iterator[object]], bytes]
    ) -> Iterator[bytes]:
        """Call a function on the machines that hold the rows, once for each part, and return its results.

        Parameters
        ----------
        columns, keep
            As for `parts`.
        work : callable
            Takes the tables of one part. It can be pickled by cloudpickle, and holds code and public numbers only.
            It does not raise: an error could quote the data.

        Yields
        ------
        bytes
            One for each part, in order. A part that is worked through twice counts once; one that fails makes this
            fail.
        """
