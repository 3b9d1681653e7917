"""Protected tables: exact values computed from their selected rows, and the sensitivities of these values.

Two tables can be asked together, as their *union*: the rows of the first, then those of the second, and one more
column, which is public, that tells which table a row is of. Neighbouring unions differ in one row of one of the
tables, so what the union costs is what each of the two accounts is charged.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from dfprivacy._measure.query import L2, copy_by_value
from dfprivacy._measure.tasks import Selected, SumTask, Task
from dfprivacy._privacy.calibrate import SUM_MAX
from dfprivacy._table.batch import VALUE_BYTES, apply_to_batch, gather_selected_rows, number, reads_of
from dfprivacy._table.conditions import IsIn, Satisfies, conditions_for_engine
from dfprivacy._table.frames import redact_errors
from dfprivacy._table.frames.engine import EngineFrame
from dfprivacy._table.keys import count_keys, count_values, key_read, sort_keys
from dfprivacy._table.rows import MEMORY, Rows
from dfprivacy.errors import ArgumentError, PluginError, ReadError
from dfprivacy.expressions import ComputedColumn, Formula
from dfprivacy.features import Count, RowFeatures
from dfprivacy.features.base import UP, integers, root
from dfprivacy.progress import progress
from dfprivacy.schema import Column, Schema
from dfprivacy.schema.values import plain
from dfprivacy.statistics import OfSums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy._measure.query import Query
    from dfprivacy._table.batch import Batch
    from dfprivacy._table.frames import Frame, Read
    from dfprivacy._table.keys import Key
    from dfprivacy.features.base import Integers
    from dfprivacy.local import RowLabels
    from dfprivacy.statistics import Statistic

__all__ = ["MEMORY", "Table", "union_of_tables"]

T = TypeVar("T")
Relation = Literal["replace_one", "add_remove"]
_SMALLER = "Ask a sample, view.sample(0.1), or protect the table with a larger memory=, in bytes."


class Table(Rows):
    """Protected table: computes exact values from its selected rows, and their sensitivities.

    With `by`, the table is one group of these columns, at its `place` in the product of their categories, and the
    same is asked of the others: together they are the `whole`.
    """

    by: tuple[Column, ...] = ()
    place: int = 0
    whole: Table | None = None

    def groups(self, by: tuple[Column, ...]) -> list[Table]:
        """Return one table for each group: for each category of a column, or combination for several columns."""
        parts = []
        for place, key in enumerate(itertools.product(*(column.categories or () for column in by))):
            chosen = (IsIn(column, (value,)) for column, value in zip(by, key, strict=True))
            parts.append(self.where(*chosen)._with(by=by, place=place, whole=self))  # noqa: SLF001
        return parts

    @cached_property
    def public(self) -> frozenset[str]:
        """Names of the public columns, which have the same values in all neighbouring tables."""
        return frozenset(name for name, column in self.schema.columns.items() if column.public)

    @cached_property
    def private_selection(self) -> bool:
        """Whether the selection of the rows, or the size of the whole table, is private."""
        return self.schema.size is None or any(not condition.public for condition in self.conditions)

    def is_public(self, columns: Iterable[Column]) -> bool:
        """Return whether the selected values of columns are the same in all neighbouring tables.

        It follows from the names of public columns alone, never from a number: what is agreed is free.
        """
        fixed = self.schema.neighbors == "replace_one" and not self.private_selection
        return fixed and all(map(self._is_public_column, columns))

    def _is_public_column(self, column: Column) -> bool:
        """Return whether a column is public; for a computed column, whether all columns of its formula are.

        A plugin may compute a column under the name of a public one, and then it is not that column.
        """
        if not isinstance(column, ComputedColumn) or column == self.schema.columns.get(column.name):
            return column.name in self.public
        return all(map(self._is_public_column, column.formula.columns))

    def _public_names(self, columns: Iterable[Column]) -> frozenset[str]:
        """Return the names of public columns; a name that a private column also has is left out."""
        private = {column.name for column in columns if not self._is_public_column(column)}
        return frozenset({column.name for column in columns} - private)

    @cached_property
    def public_rows(self) -> int | None:
        """Number of rows that the view's public conditions select, in all groups; None if private."""
        if self.whole is not None:
            return self.whole.public_rows
        public = tuple(condition for condition in self.conditions if condition.public)
        if self.schema.size is None or self.schema.neighbors != "replace_one" or not public or self.frame is None:
            return self.schema.size
        return self._with(conditions=public).total(Count(), 0)[0]

    def _union(self, tables: Sequence[Table], which: Column) -> Table:
        """Return the union of tables with the same columns, conditions and neighbouring relation."""
        return self._with(parts=tuple(table._with(mark=(which, code)) for code, table in enumerate(tables)))  # noqa: SLF001

    @property
    def max_rows_per_person(self) -> int:
        """Largest number of rows of one person."""
        return 1 if self.schema.unit is None else self.schema.unit.max_rows

    def sensitivity(self, measurand: RowFeatures | Statistic, norm: float) -> float:
        """Return the L1, L2 or L∞ sensitivity of features or a statistic, for all groups, without rounding errors.

        Where a person may have k rows, neighbours are k steps of one row apart: docs/explanation/people.md.
        """
        return self.max_rows_per_person * self._one_row_sensitivity(measurand, norm)

    def _one_row_sensitivity(self, measurand: RowFeatures | Statistic, norm: float) -> float:
        public = self._public_names(measurand.columns)
        added = _checked_sensitivity(measurand, "add_remove", norm, public)
        if self.schema.neighbors == "add_remove":
            return added
        if self.schema.unit is not None and not isinstance(measurand, RowFeatures | OfSums):
            return 2 * added  # it may depend on the order of rows, and one that is exchanged comes elsewhere
        changed = _checked_sensitivity(measurand, "replace_one", norm, public)
        if not all(column.public for column in self.by):
            # A row that changes its group leaves one release and enters another. Each has noise of its own, so the
            # losses of both add up in the norm of infinity too. Noise of the cube over all groups is for OneHot.
            return max(changed, added * (root(2) * UP if norm == L2 else 2.0))
        return max(changed, added) if self.private_selection else changed

    def total(self, features: RowFeatures, k: int) -> list[int]:
        """Return the exact sum of features over the selected rows as Python integers, as multiples of 2^-k."""
        return integers(self.exact_sums(features, k))

    def exact_sums(self, features: RowFeatures, k: int) -> Integers:
        """Return the exact sum of features over the selected rows, as multiples of 2^-k.

        Only a copy of the features sees the rows.
        """
        features = copy_by_value(features)
        sums = self._results_by_part(features.reads, SumTask(features, k), portable=features.portable)
        several = zip([0] * features.n_sums, *map(integers, sums), strict=True)
        total = sums[0] if len(sums) == 1 else [sum(each) for each in several]
        return redact_errors(lambda: features.image(total, k))

    def _pass_rows(self, reads: Iterable[Read], use: Callable[[Selected], None]) -> None:
        """Call the function `use` with the selected rows of each table of a union; may raise ReadError."""
        for part in self.parts or (self,):
            part._pass_rows_here(part.required_frame, reads, use)  # noqa: SLF001 - of our own kind

    def _results_by_part(
        self,
        reads: Sequence[Read],
        use: Callable[[Selected], T],
        *,
        portable: bool = True,
        enough: Callable[[T], bool] = lambda _: False,
    ) -> list[T]:
        """Return a result of the function `use` for each table of a union, and each partition on a cluster.

        A cluster runs a copy of `use`, which holds code and public facts only; no further results are fetched once
        `enough` returns True. Raises a `ReadError` if the function fails.
        """
        values: list[T] = []
        for part in self.parts or (self,):
            frame: Any = part.required_frame
            public = [condition for condition in part.conditions if condition.public]
            if public and isinstance(frame, EngineFrame):
                frame = frame.with_conditions(
                    conditions_for_engine(public)
                )  # which may leave out rows that these do not select
            if not frame.elsewhere:
                values.append(part._pass_rows_here(frame, reads, use))  # noqa: SLF001
                continue
            task = Task(tuple(reads), part.conditions, part.mark, use)
            alike = portable and not any(isinstance(condition, Satisfies) for condition in part.conditions)
            alike &= all(read.domain.portable for read in task.columns_asked if isinstance(read.domain, Formula))
            with part._checking_row_count(frame) as count:  # noqa: SLF001
                values += frame.map_parts(task.columns_needed, task, count, portable=alike, enough=enough)
        return values

    def _pass_rows_here(self, frame: Frame, reads: Iterable[Read], use: Callable[[Selected], T]) -> T:
        """Return the result of the function `use` for the selected rows, computed in this process."""
        task = Task(tuple(reads), self.conditions, self.mark, use)
        # A warning of NumPy's would tell on a row.
        with np.errstate(all="ignore"), self._checking_row_count(frame) as count:
            return redact_errors(partial(task, frame, count))

    @contextmanager
    def _checking_row_count(self, frame: Frame) -> Iterator[Callable[[int], None]]:
        """Count the rows that are read, in a progress bar; raise a ReadError if the public number differs."""
        seen = 0

        def count_rows(rows: int) -> None:
            nonlocal seen
            seen += rows
            bar.update(rows)

        with progress(self.schema.size) as bar:
            yield count_rows
        if self.schema.size is not None and isinstance(frame, EngineFrame) and frame.keep:
            seen = redact_errors(frame.rows)  # not all were read
        self._check_row_count(seen)

    def _check_row_count(self, seen: int) -> None:
        if self.schema.size not in {None, seen}:
            raise ReadError(
                f"The table was protected with {self.schema.size} rows and now has another number.",
                "Do not change a table after protecting it: answers and kept measurements are about the old table.",
            )

    def value(self, query: Query, k: int, *rng: np.random.Generator, total: Integers | None = None) -> Integers:
        """Return the exact value of a query, as multiples of 2^-k; may raise ReadError.

        `total` is the sum of `Query.features_to_sum`, if it was computed already.
        """
        summed = query.features_to_sum(k)
        if summed is not None and total is None:
            total = self.exact_sums(*summed)
        if total is not None and isinstance(query.of, RowFeatures):
            return total
        query = query.copy()  # which alone sees rows, as in `exact_sums`
        data: Any
        if summed is not None and total is not None:
            features, fine = summed
            sums = np.ldexp(np.array(total, dtype=np.float64), -fine)
            data = sums.reshape(features.shape) / np.broadcast_to(features.weights, features.shape)
        else:
            data = self.selected_batch(query.columns)
        steps = np.ldexp(redact_errors(lambda: _statistic_value(query, data, *rng)), k)
        steps[~np.isfinite(steps)] = 0  # an error would tell on the rows
        steps = np.rint(steps)
        return steps.astype(np.int64) if np.all(abs(steps) <= SUM_MAX) else [int(step) for step in steps]

    def labels(self, maps: Sequence[RowLabels], turns: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return a label for each selected row: row i is labelled by map number `turns[i]`; may raise ReadError."""
        labels = np.zeros(len(turns), dtype=np.int64)
        seen = 0

        def write_labels(read: Selected) -> None:
            nonlocal seen
            for batch, mask in read:
                places = np.stack([apply_to_batch(each.rows, batch, 1)[:, 0] for each in maps])
                places = places if mask is None else places[:, mask]
                whose = turns[seen : seen + places.shape[1]]  # rows beyond the known number have no turn
                own = places[whose, np.arange(len(whose))]
                own[~np.isfinite(own)] = 0
                labels[seen : seen + len(own)] = np.clip(own, 0, maps[0].places - 1)
                seen += places.shape[1]

        self._pass_rows([read for each in maps for read in each.reads], write_labels)
        if seen != len(turns):
            raise ReadError(
                f"The table was protected with {self.schema.size} rows and now has another number.",
                "Do not change a table after protecting it: answers and kept measurements are about the old table.",
            )
        return labels

    def public_values(self, column: Column) -> list[object]:
        """Return the values of a public column in the selected rows; may raise ReadError."""
        if column.computed:
            raise ArgumentError(
                f"{column.name!r} is computed from other columns, and not stored in the table.",
                "Name a column of the table.",
            )
        if column.name not in self.public or self.private_selection:
            raise ArgumentError(
                f"The values of {column.name!r} in the selected rows are private: either the column is not "
                "declared with public=, or the rows are selected by a private column.",
                "Name a public column, and use conditions on public columns only.",
            )
        if self.parts:
            return [value for part in self.parts for value in part.public_values(column)]
        frame = self.required_frame
        values: list[object] = redact_errors(lambda: [*map(plain, frame.lists([column.name])[column.name])])
        self._check_row_count(len(values))
        if not self.conditions:
            return values
        selected: list[bool] = []

        def write_selection(read: Selected) -> None:
            for batch, mask in read:
                selected.extend([True] * batch.size if mask is None else mask.tolist())

        self._pass_rows((), write_selection)
        return list(itertools.compress(values, selected))

    def keys(self, columns: Sequence[Column], *, as_written: bool = False) -> dict[Key, int]:
        """Return the number of selected rows of each key, sorted by key; may raise ReadError."""
        counts: Counter[Key] = Counter()
        work = partial(count_keys, columns=columns, as_written=as_written)
        for part in self._results_by_part([key_read(column) for column in columns], work):
            counts.update(part)
        return sort_keys(counts)

    def survey(self, columns: Sequence[Column], edges: NDArray[np.float64]) -> dict[Key, int]:
        """Count, for each column, the selected rows by value and by type of value; may raise ReadError."""
        counts: Counter[Key] = Counter()
        reads = [read for column in columns for read in (number(column), key_read(column))]
        for part in self._results_by_part(reads, partial(count_values, columns=columns, edges=edges)):
            counts.update(part)
        return sort_keys(counts)

    def selected_batch(self, columns: Sequence[Column], *, limited: bool = True) -> Batch:
        """Return all selected rows as one batch; raise a ReadError if that takes too much memory."""
        most = self.memory // (VALUE_BYTES * max(1, len(columns))) if limited else math.inf
        rows = 0

        def exceeds_memory(part: Batch | None) -> bool:
            nonlocal rows
            rows += 0 if part is None else part.size
            return part is None or rows > most  # of parts that are elsewhere, no more are fetched

        parts = self._results_by_part(
            reads_of(columns), partial(gather_selected_rows, columns=columns, most=most), enough=exceeds_memory
        )
        batches = [part for part in parts if part is not None]
        every = (
            batches[0]
            if len(batches) == 1
            else gather_selected_rows(((part, None) for part in batches), columns, most)
        )
        if every is None or len(batches) < len(parts):
            raise ReadError(f"Whole columns of these rows take more than memory={self.memory:.3g} bytes.", _SMALLER)
        return every

    def refuse_large_columns(self, query: Query) -> None:
        """Raise an `ArgumentError` if a query needs whole columns whose public size exceeds the memory limit."""
        size, columns = self.schema.size, len(query.columns)
        if isinstance(query.of, RowFeatures | OfSums) or size is None:
            return
        if (needed := VALUE_BYTES * columns * size) > self.memory:
            raise ArgumentError(
                f"Computing {query.of.describe()} takes {columns} columns of {size} rows at once: {needed:.3g} "
                f"bytes, more than memory={self.memory:.3g}.",
                _SMALLER,
            )


def union_of_tables(first: Table, second: Table, names: tuple[str, str]) -> tuple[Table, Column]:
    """Return the union of two tables, and the public column that names the table of each row.

    Parameters
    ----------
    first, second : Table
        The tables, of one neighbouring relation.
    names : tuple of str
        Their names, which differ.

    Returns
    -------
    Table
        Their union. Of the columns, it has those of which the same is known in both.
    Column
        The public column that names each row's table.

    Raises
    ------
    ArgumentError
        If the relations differ: what is protected would depend on the table.
    """
    relations = first.schema.neighbors, second.schema.neighbors
    if relations[0] != relations[1]:
        raise ArgumentError(
            f"{names[0]!r} is protected with neighbors={relations[0]!r}, {names[1]!r} with {relations[1]!r}.",
            "Protect both tables with the same neighbors=.",
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
    memory = min(first.memory, second.memory)
    both = Table(None, schema, (*first.conditions, *second.conditions), memory=memory)
    return both._union((first, second), which), which  # noqa: SLF001 - of our own kind


def _checked_sensitivity(
    measurand: RowFeatures | Statistic, relation: Relation, norm: float, public: frozenset[str]
) -> float:
    bound = measurand.sensitivity(relation, norm, public)
    # NaN or a negative number would pass for what needs no noise.
    if not bound >= 0 or (isinstance(measurand, RowFeatures) and bound == math.inf):
        raise PluginError(
            f"The L{norm:g} sensitivity of {measurand.describe()} under {relation} is {bound!r}.",
            "sensitivity() must return a finite number that is not negative.",
        )
    return bound


def _statistic_value(query: Query, data: Any, *rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the value of a statistic; zeros if its function fails, since a failure could reveal the rows."""
    try:
        with np.errstate(all="ignore"):
            value = query.of.value(data, *rng)  # type: ignore[union-attr]
        return np.array(value, dtype=np.float64).reshape(query.dimension)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a panic of Rust is no Exception
        return np.zeros(query.dimension)
