"""Immutable description of the rows that a question reads: a table, its schema, and what selects its rows.

How far one person moves a sum follows from all of it together: the frame, the column that names people and how many
rows of one count, the key and the columns by which these are chosen, what was made of them, the sample, and the
conditions. So nothing outside of this module pairs one of them with others: a table gives another one by its own
verbs, `where`, `select`, `with_declarations`, `join`, `per_person` and `sampled`, and each sets all that follows.
"""

from __future__ import annotations

import json
import math
import weakref
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from dfprivacy._json import plain_json
from dfprivacy._table.batch import reads_of
from dfprivacy._table.conditions import with_private_column
from dfprivacy._table.people import BoundedFrame, sort_columns
from dfprivacy._table.person_rows import PersonAggregation, PersonFrame
from dfprivacy._table.sample import Sample, SampledFrame
from dfprivacy.errors import ArgumentError, NotProtected
from dfprivacy.expressions import ComputedColumn, parts_of
from dfprivacy.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy._table.conditions import Condition
    from dfprivacy._table.frames import Frame, Read
    from dfprivacy._table.person_rows import PersonColumn
    from dfprivacy.schema import Column

__all__ = ["MEMORY", "Join", "Rows"]

MEMORY = 2e9


@dataclass(frozen=True)
class Join:
    """A checked join of two tables.

    Attributes
    ----------
    on : str
        The column that names people in both.
    how : {"left", "inner"}
        Whether a left row that meets no right one is kept.
    own, others : tuple of str
        The columns that are read of the left frame, with `on`, and of the right one.
    schema : Schema
        What is public of it.
    """

    on: str
    how: Literal["left", "inner"]
    own: tuple[str, ...]
    others: tuple[str, ...]
    schema: Schema


class Rows:
    """The rows that a question reads: a table, its schema, its conditions, and any sample or limit per person.

    Parameters
    ----------
    frame : Frame or None
        The whole table as its adapter gives it; None for a copy without rows.
    schema : Schema
        Public facts about the table.
    conditions : tuple of Condition
        Which of its rows are asked.
    key : bytes
        The account's, by which rows of people with too many are chosen.
    known : sequence of Column, optional
        The columns by which they are chosen; default: all of the schema.
    memory : float
        The most bytes that whole columns may take in this process.

    Attributes
    ----------
    known : tuple of Column
        The columns by which a person's rows are chosen, in an order of their own; none where each has one row.
    mark : tuple of (Column, int) or None
        Of a part of a union: the column that tells the tables apart, and this one's code in it.
    parts : tuple of Rows
        The tables of a union, which has no frame.
    sample : Sample or None
        With one, every question sees another secret sample of the rows.
    """

    schema: Schema
    conditions: tuple[Condition, ...]
    known: tuple[Column, ...]
    sample: Sample | None
    mark: tuple[Column, int] | None
    parts: tuple[Self, ...]
    memory: float
    _key: bytes
    _frame: Frame | None  # what is read
    _source: Frame | weakref.ref[Frame] | None  # the whole table
    _of: Self | None  # what people or samples are made of
    _made: tuple[PersonColumn, ...]

    def __init__(
        self,
        frame: Frame | None,
        schema: Schema,
        conditions: tuple[Condition, ...] = (),
        *,
        key: bytes = b"",
        known: Sequence[Column] | None = None,
        memory: float = MEMORY,
    ) -> None:
        if schema.derived is not None and frame is not None:
            raise TypeError(_MIXED)
        chosen_by = schema.columns.values() if known is None else known
        vars(self).update(
            schema=schema,
            conditions=conditions,
            known=sort_columns(chosen_by) if schema.unit is not None else (),
            sample=None,
            mark=None,
            parts=(),
            memory=memory,
            _key=key,
            _frame=None,
            _source=None,
            _of=None,
            _made=(),
        )
        vars(self).update(self.with_source_frame(frame)._own_state())  # noqa: SLF001 - of our own kind

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"The attribute {name} of Rows cannot be changed.")

    def __reduce__(self) -> tuple[Any, ...]:
        # What is pickled or copied, a view, a call or whatever holds a table, carries no rows and no key.
        return _restore_rows, (type(self), {**self._own_state(), **_NO_ROWS})

    def _own_state(self) -> dict[str, Any]:
        """Return the object's attributes by name, without cached properties."""
        kind = type(self)
        return {n: v for n, v in vars(self).items() if not isinstance(getattr(kind, n, None), cached_property)}

    def _with(self, **changes: Any) -> Self:
        """Return a copy with changed attributes; only methods of this class may call it."""
        other = object.__new__(type(self))
        vars(other).update({**self._own_state(), **changes})
        return other

    @property
    def frame(self) -> Frame | None:
        """Frame of the rows; None in a copy without rows, and after the last view of the table is gone."""
        return self._rebuilt_frame() if self._frame is None else self._frame

    @property
    def required_frame(self) -> Frame:
        """Frame of the rows; raises `NotProtected` in a copy without rows."""
        frame = self.frame
        if frame is None:
            raise NotProtected(
                "This view is a pickled or copied one, which carries no rows.",
                "Protect the table again under the same name, in a process that has its rows.",
            )
        return frame

    def require_rows(self) -> None:
        """Raise `NotProtected` for a copy without rows, `ReadError` for rows that this process cannot read."""
        for part in self.parts or (self,):
            part.required_frame.check_readable()

    def with_source_frame(self, source: Frame | None) -> Self:
        """Return the same rows, read from another frame."""
        if isinstance(source, (BoundedFrame, PersonFrame, SampledFrame)):
            raise TypeError(_MIXED)
        of = None if self._of is None else self._of.with_source_frame(source)
        return self._with_new_frame(_source=source if of is None else None, _of=of)

    def with_weak_reference(self) -> Self:
        """Return the same rows, with a weak reference to the table, so that its memory can be freed."""
        source, of = self._source, self._of
        return self._with(
            _frame=None,
            _source=source if source is None or isinstance(source, weakref.ref) else weakref.ref(source),
            _of=None if of is None else of.with_weak_reference(),
            parts=tuple(part.with_weak_reference() for part in self.parts),
        )

    def _rebuilt_frame(self) -> Frame | None:
        """Return the frame of these rows, built anew from the frame of the whole table."""
        if self._of is not None:
            return self._of._derived_frame(self.sample, self._made)  # noqa: SLF001 - of our own kind
        source = self._source() if isinstance(self._source, weakref.ref) else self._source
        unit = self.schema.unit
        return source if source is None or unit is None else BoundedFrame(source, unit, self._key, self.known)

    def _derived_frame(self, sample: Sample | None, columns: tuple[PersonColumn, ...]) -> Frame | None:
        frame, unit = self.frame, self.schema.unit
        if sample is not None:
            return None if frame is None else SampledFrame(frame, sample)
        if not isinstance(frame, BoundedFrame) or unit is None:
            return None
        return PersonFrame(frame, PersonAggregation(self.conditions, unit, self._key, columns))

    def _with_new_frame(self, **changes: Any) -> Self:
        """Return a changed copy, with its frame rebuilt."""
        other = self._with(**changes)
        return other._with(_frame=other._rebuilt_frame())  # noqa: SLF001 - of our own kind

    def where(self, *conditions: Condition) -> Self:
        """Return the rows that also satisfy the given conditions."""
        return self._with(conditions=(*self.conditions, *conditions))

    def without_condition(self, condition: Condition) -> Self:
        """Return the rows that all conditions except the given one select."""
        return self._with(conditions=tuple(each for each in self.conditions if each is not condition))

    def select(self, names: Sequence[str]) -> Self:
        """Return the same rows with the named columns only; the same rows of each person are chosen."""
        return self._with(schema=self.schema.select(names))

    def with_columns(self, columns: Mapping[str, ComputedColumn]) -> Self:
        """Return the same rows with more columns; the same rows of each person are chosen."""
        known = {**self.schema.columns, **columns}
        return self._with(schema=replace(self.schema, names=(*self.schema.names, *columns), columns=known))

    def with_declarations(self, columns: Mapping[str, Column]) -> Self:
        """Return the rows with columns declared anew, which may change the choice of each person's rows."""
        known = _row_choice_columns(columns, self.conditions)
        return self._with_row_choice_columns(known)._with(schema=replace(self.schema, columns=columns))  # noqa: SLF001

    def _with_row_choice_columns(self, known: tuple[Column, ...]) -> Self:
        """Return the rows with other columns whose values decide which rows of a person are chosen."""
        if not self.known:
            return self
        if isinstance(self._frame, BoundedFrame):
            return self._with(known=known, _frame=self._frame.with_row_choice_columns(known))
        of = None if self._of is None else self._of._with_row_choice_columns(known)  # noqa: SLF001 - of our own kind
        again = self._with if self._frame is None else self._with_new_frame
        return again(known=known, _of=of)

    def join(self, other: Self, join: Join) -> Self:
        """Return the join with another table of the same people, who may have several rows in each.

        Conditions stay; which of a person's rows count is chosen among the rows of the join.
        """
        left, right = (
            each.frame if isinstance(each, BoundedFrame) else each
            for each in (self.required_frame, other.required_frame)
        )
        joined = left.join(right, join.on, join.how, join.own, join.others)
        if joined is None:
            raise ArgumentError(
                "The two tables are not held by one engine that could join them.",
                "Load both with the same library; with DuckDB, from the same connection.",
            )
        conditions = tuple(map(with_private_column, self.conditions))
        known = _row_choice_columns(join.schema.columns, conditions)
        return self._with_new_frame(schema=join.schema, known=known, conditions=conditions, _source=joined)

    def per_person(self, columns: tuple[PersonColumn, ...]) -> Self:
        """Return a table with one row for each person, whose columns aggregate the person's rows.

        Their number is public where it was said, and the view has no condition.
        """
        unit = self.schema.unit
        if unit is None:
            raise TypeError
        derived = {
            "unit": [unit.column, unit.max_rows, unit.missing],
            "chosen": self.row_choice_columns,
            "where": [[each.describe(), [c.describe() for c in each.columns]] for each in self.conditions],
            "columns": [each.describe() for each in columns],
        }
        schema = Schema(
            tuple(each.name for each in columns),
            {each.name: each.column for each in columns},
            self.schema.neighbors,
            None if self.conditions else self.schema.people,
            table=self.schema.table,
            derived=plain_json(derived),
            person=unit.column,
        )
        return self._with_new_frame(schema=schema, _source=None, _of=self, _made=columns, known=(), conditions=())

    def sampled(self, share: Fraction) -> Self:
        """Return a table of which each question reads a new secret sample; see docs/explanation/sampling.md.

        Of a public number of rows, a public number is drawn; else everybody is, by chance. Neighbouring samples
        agree on no column: where a row is not drawn, another one may be in its place.
        """
        self.required_frame.check_readable()
        schema, rows = self.schema, self.schema.size
        drawn = None if rows is None else math.floor(share * rows)
        if drawn is not None and rows is not None:
            share = Fraction(drawn, rows)
        sample = Sample(share, "" if schema.unit is None else schema.unit.column, drawn, rows)
        of = None if schema.derived is None else json.loads(schema.derived)
        schema = replace(
            schema,
            columns={name: replace(column, public=False) for name, column in schema.columns.items()},
            size=drawn,
            people=None,
            derived=plain_json({"sample": sample.describe(), "of": of}),
        )
        conditions = tuple(map(with_private_column, self.conditions))
        return self._with_new_frame(schema=schema, _source=None, _of=self, sample=sample, conditions=conditions)

    def with_drawn_sample(self) -> Self:
        """Return the rows of a sample drawn for one question, or these rows if the table is not sampled."""
        frame = self.frame
        if not isinstance(frame, SampledFrame):
            return self
        return self._with(_frame=frame.drawn(self._sample_columns, self.memory))

    @property
    def _sample_columns(self) -> tuple[Read, ...]:
        """Requests that a question may make of a sample: all declared columns, and those of the conditions."""
        selected = (column for condition in self.conditions for column in condition.columns)
        return tuple(dict.fromkeys(reads_of((*self.schema.columns.values(), *selected))))

    @property
    def row_choice_columns(self) -> list[list[Any]]:
        """Columns whose values decide which rows of a person are chosen, as plain JSON values."""
        return [[column.name, column.describe()] for column in self.known]


def _row_choice_columns(columns: Mapping[str, Column], conditions: tuple[Condition, ...]) -> tuple[Column, ...]:
    """Return the columns that decide which rows of a person are chosen, given declared columns and conditions."""
    every = [*columns.values(), *(column for each in conditions for column in each.columns)]
    return sort_columns({part for column in every for part in parts_of(column, {})})


_MIXED = "Derived rows, such as a sample or one row per person, cannot be read from another frame."
_NO_ROWS: dict[str, object] = {"_frame": None, "_source": None, "_of": None, "_key": b""}


def _restore_rows(kind: type[Rows], state: dict[str, Any]) -> Rows:
    copy = object.__new__(kind)
    vars(copy).update(state)
    return copy
