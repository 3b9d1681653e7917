"""A protected table as the curator sees it: what can be computed of it, and how far one row can move that.

Two tables can be asked together, as their *union*: the rows of the first, then those of the second, and one more
column, which is public, that tells which table a row is of. Neighbouring unions differ in one row of one of the
tables, so what the union costs is what each of the two accounts is charged.
"""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from dfprivacy.errors import ArgumentError, NotProtected, PluginError, ReadError
from dfprivacy.features import RowFeatures
from dfprivacy.frames import withheld
from dfprivacy.noise import SUM_MAX
from dfprivacy.progress import progress
from dfprivacy.rows import IsIn, batches, gathered, reads_of
from dfprivacy.schema import Column, Schema
from dfprivacy.statistics import OfSums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy.frames import Frame, Read
    from dfprivacy.local import RowLabels
    from dfprivacy.rows import Batch, Condition
    from dfprivacy.statistics import Statistic

__all__ = ["L2", "PUBLIC", "Table", "union"]

Relation = Literal["replace_one", "add_remove"]
Selected: TypeAlias = "Iterator[tuple[Batch, NDArray[np.bool_] | None]]"
L2 = 2
_FLUSH = 512  # batches whose float64 totals, each below 2^53, add up in int64
PUBLIC = 30
"""Exponent of the grid of sums that get no noise themselves."""


@dataclass(frozen=True)
class Table:
    """A protected table as the curator sees it: the frame, what is public about it, and a view's conditions.

    With `by`, the table is one group of that column, and the same is asked of the others. With `mark`, it is part
    of a union: the column that tells the tables apart, and this one's code in it. A union has `parts`, no frame.
    """

    frame: Frame | None
    schema: Schema
    conditions: tuple[Condition, ...] = ()
    by: Column | None = None
    mark: tuple[Column, int] | None = None
    parts: tuple[Table, ...] = ()

    def __reduce__(self) -> tuple[type[Table], tuple[Any, ...]]:
        # What is pickled or copied, a view, a call or whatever holds a table, carries no rows.
        return Table, (None, self.schema, self.conditions, self.by, self.mark, self.parts)

    def groups(self, by: Column) -> list[Table]:
        """Give the parts of the table by category."""
        parts = ((*self.conditions, IsIn(by, (key,))) for key in by.categories or ())
        return [replace(self, conditions=conditions, by=by) for conditions in parts]

    def present(self) -> None:
        """Raise `NotProtected` if this is a copy without rows."""
        for part in self.parts or (self,):
            _ = part.rows

    @property
    def rows(self) -> Frame:
        """The frame; `NotProtected` if this is a copy without one."""
        if self.frame is None:
            raise NotProtected(
                "This view came from a copy that carries no rows.",
                "Protect the table under the same name where the rows are.",
            )
        return self.frame

    @property
    def public(self) -> frozenset[str]:
        """The columns on which neighbouring tables agree."""
        return frozenset(name for name, column in self.schema.columns.items() if column.public)

    @property
    def private_selection(self) -> bool:
        """Whether which rows belong to the view is private."""
        return any(not condition.public for condition in self.conditions)

    def sensitivity(self, asked: RowFeatures | Statistic, norm: float) -> float:
        """Sensitivity in L1, L2 or the norm of infinity, before rounding; for a group, of all groups together."""
        added = _bound(asked, "add_remove", norm, self.public)
        if self.schema.neighbors == "add_remove":
            return added
        changed = _bound(asked, "replace_one", norm, self.public)
        if self.by is not None and not self.by.public:
            # A row that changes its group leaves one release and enters another.
            return max(changed, added * (math.sqrt(2.0) if norm == L2 else 2.0))
        return max(changed, added) if self.private_selection else changed

    def total(self, features: RowFeatures, k: int) -> list[int]:
        """Exact sum of the features over the view's rows, in steps of 2 to the minus k; `ReadError` if it fails."""
        total = [0] * features.summands
        pending = np.zeros(features.summands, dtype=np.int64)

        def add_up(read: Selected) -> None:
            for count, (batch, mask) in enumerate(read, start=1):
                pending[:] += features.total(batch, mask, k).astype(np.int64)
                if count % _FLUSH == 0:
                    flush()
            flush()

        def flush() -> None:
            total[:] = [a + int(b) for a, b in zip(total, pending, strict=True)]
            pending[:] = 0

        self._read(features.reads, add_up)
        return withheld(lambda: features.image(total, k))

    def _read(self, reads: Iterable[Read], use: Callable[[Selected], None]) -> None:
        """Let `use` see the rows in batches, the tables of a union one after the other; `ReadError` if it fails."""
        for part in self.parts or (self,):
            seen = 0

            def count(rows: int) -> None:
                nonlocal seen
                seen += rows
                bar.update(rows)

            # A warning of NumPy's would tell on a row.
            with np.errstate(all="ignore"), progress(part.schema.size) as bar:
                read = part._batches(part.rows, reads, count)  # noqa: SLF001 - of our own kind
                withheld(partial(use, read))
            part._check_size(seen)  # noqa: SLF001

    def _batches(self, frame: Frame, reads: Iterable[Read], count: Callable[[int], None]) -> Selected:
        """Rows in batches, with a mask of those that the view selects."""
        marked = self.mark[0].name if self.mark else None
        for batch, mask in batches(frame, [read for read in reads if read.name != marked], self.conditions):
            count(batch.size)
            if self.mark:
                batch.mark(*self.mark)
            yield batch, mask

    def _check_size(self, seen: int) -> None:
        if self.schema.size not in {None, seen}:
            raise ReadError(
                f"The table was protected with {self.schema.size} rows and now has another number.",
                "Do not change a table after protecting it; protect the new one under a name of its own.",
            )

    def value(self, asked: RowFeatures | Statistic, k: int, *chance: np.random.Generator) -> list[int]:
        """Sum of features, or value of a statistic, in steps of 2 to the minus k; `ReadError` if it fails."""
        if isinstance(asked, RowFeatures):
            # Clamping is 1-Lipschitz, so it is safe; it is there for a private number of rows.
            return [max(-SUM_MAX, min(SUM_MAX, t)) for t in self.total(asked, k)]
        data: Any
        if isinstance(asked, OfSums):
            features = asked.features
            sums = [float(Fraction(t, 2**PUBLIC)) for t in self.total(features, PUBLIC)]
            data = np.reshape(sums, features.shape) / np.broadcast_to(features.weights, features.shape)
        else:
            data = self.gathered(asked.columns)
        steps = np.ldexp(withheld(lambda: _computed(asked, data, *chance)), k)
        steps[~np.isfinite(steps)] = 0  # an error would tell on the rows
        return [int(step) for step in np.rint(np.clip(steps, -float(SUM_MAX), float(SUM_MAX)))]

    def labels(self, maps: Sequence[RowLabels], turns: NDArray[np.intp]) -> NDArray[np.int64]:
        """Place of each selected row, by the map whose turn it is; `ReadError` if it fails."""
        found = np.zeros(len(turns), dtype=np.int64)
        seen = 0

        def place(read: Selected) -> None:
            nonlocal seen
            for batch, mask in read:
                places = np.stack([each.rows(batch).astype(np.float64) for each in maps])
                places = places if mask is None else places[:, mask]
                whose = turns[seen : seen + places.shape[1]]  # rows beyond the known number have no turn
                own = places[whose, np.arange(len(whose))]
                own[~np.isfinite(own)] = 0
                found[seen : seen + len(own)] = np.clip(own, 0, maps[0].places - 1)
                seen += places.shape[1]

        self._read([read for each in maps for read in each.reads], place)
        if seen != len(turns):
            raise ReadError(
                "The table was protected with another number of rows than it has now.",
                "Do not change a table after protecting it; protect the new one under a name of its own.",
            )
        return found

    def public_values(self, column: Column) -> list[object]:
        """Values of a public column in the selected rows, as they are; `ReadError` if it fails."""
        if column.name not in self.public or self.private_selection:
            raise ArgumentError(
                f"Who has which {column.name!r} is private here.",
                "Name a public column, of all rows or of rows that public columns select.",
            )
        if self.parts:
            return [value for part in self.parts for value in part.public_values(column)]
        frame = self.rows
        values = withheld(lambda: frame.lists([column.name])[column.name])
        self._check_size(len(values))
        if not self.conditions:
            return values
        selected: list[bool] = []

        def note(read: Selected) -> None:
            for batch, mask in read:
                selected.extend([True] * batch.size if mask is None else mask.tolist())

        self._read((), note)
        return list(itertools.compress(values, selected))

    def gathered(self, columns: Sequence[Column]) -> Batch:
        """All selected rows as one batch; `ReadError` if it fails."""
        found: list[Batch] = []
        self._read(reads_of(columns), lambda read: found.append(gathered(read, columns)))
        return found[0] if len(found) == 1 else gathered(((part, None) for part in found), columns)


def union(first: Table, second: Table, names: tuple[str, str]) -> tuple[Table, Column]:
    """Ask two tables together.

    Parameters
    ----------
    first, second : Table
        The tables, of one neighbouring relation.
    names : tuple of str
        What they are called: two different names.

    Returns
    -------
    Table
        Their union. Of the columns, it has those of which the same is known in both.
    Column
        The public column that tells which table a row is of.

    Raises
    ------
    ArgumentError
        If the relations differ: what is protected would depend on the table.
    """
    relations = first.schema.neighbors, second.schema.neighbors
    if relations[0] != relations[1]:
        raise ArgumentError(
            f"{names[0]!r} is protected with neighbors={relations[0]!r}, {names[1]!r} with {relations[1]!r}.",
            "Two tables can be asked together if both have the same.",
        )
    common = [name for name in first.schema.names if name in second.schema.names]
    columns = {
        name: column for name, column in first.schema.columns.items() if column == second.schema.columns.get(name)
    }
    called = "data set"
    while called in {*first.schema.names, *second.schema.names}:
        called += "'"
    which = Column(called, categories=names, public=True)
    schema = Schema(
        (*common, called),
        {**columns, called: which},
        first.schema.neighbors,
        None if first.schema.size is None or second.schema.size is None else first.schema.size + second.schema.size,
    )
    parts = tuple(replace(table, mark=(which, code)) for code, table in enumerate((first, second)))
    return Table(None, schema, (*first.conditions, *second.conditions), parts=parts), which


def _bound(asked: RowFeatures | Statistic, relation: Relation, norm: float, public: frozenset[str]) -> float:
    bound = asked.sensitivity(relation, norm, public)
    # NaN or a negative number would pass for what needs no noise.
    if not bound >= 0 or (isinstance(asked, RowFeatures) and bound == math.inf):
        raise PluginError(
            f"The L{norm:g} sensitivity of {asked.describe()} under {relation} is {bound!r}.",
            "A sensitivity is finite and not negative.",
        )
    return bound


def _computed(statistic: Statistic, data: Any, *chance: np.random.Generator) -> NDArray[np.float64]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning would tell on the rows
        value = statistic.value(data, *chance)  # type: ignore[attr-defined]
    return np.array(value, dtype=np.float64).reshape(statistic.dimension)
