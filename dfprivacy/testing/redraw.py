"""Draw again, on a neighbouring table, what a mechanism drew on the first.

Under the same noisy sums, and with the same public facts, a mechanism asks the same of every table. So a search
through hundreds of neighbours need not perform it hundreds of times: it performs once, keeps the draws, and lets
each be drawn again where the first row is another. A mechanism for which that is not so knows more than its noisy
sums. Therefore draws that do not come out the same on the table itself are of no use here, and the pair that a
search ends with is performed in full.

Of a sum, each row adds what follows from the row alone: what many rows add is read at once, as that of groups is.
Features that round sums in place of rows may differ from that by a step; then the last comparison sends the search
back to reading each table, and if that is not enough, to performing each time.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from dfprivacy._measure.curator import Curator
from dfprivacy._measure.evaluate import Table
from dfprivacy._measure.noisy import clamped
from dfprivacy._measure.query import pickled
from dfprivacy._privacy import samplers as noise
from dfprivacy.features import OneHot, RowFeatures
from dfprivacy.features.integers import integers
from dfprivacy.schema import Column
from dfprivacy.testing.harness import ADDED, Curtain, MemoryFrame, Replay, fixed_chance, with_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._measure.query import Query
    from dfprivacy.features.integers import Integers
    from dfprivacy.testing.cases import Row
    from dfprivacy.testing.harness import Draw, Harness, Recording

__all__ = ["Redraw", "alike", "redraw"]

_WHICH = "which of the rows"


@dataclass(frozen=True)
class _Noted:
    """One draw of a curator's, and the exact values that were asked of the table for it."""

    curator: Curator
    draw: Callable[[], Any]
    values: list[tuple[Table, Query, int, list[int]]] = field(default_factory=list)

    @property
    def of_sums(self) -> bool:
        """Whether it is of one sum, to which each row adds what follows from the row alone."""
        return len(self.values) == 1 and isinstance(self.values[0][1].of, RowFeatures)


@dataclass(frozen=True)
class Redraw:
    """One performance whose draws can be drawn again.

    Attributes
    ----------
    rows : list of dict
        The table.
    recording : Recording
        What happened on it, up to the last draw.
    row_by_row : bool
        Whether a sum is that of what each row adds; else it is read of the whole table.
    """

    stage: Harness
    rows: Sequence[Row]
    recording: Recording
    _frames: Sequence[MemoryFrame]
    _noted: Sequence[_Noted]
    row_by_row: bool = True
    _added: dict[str, list[NDArray[np.object_]]] = field(default_factory=dict)

    @property
    def sums(self) -> tuple[object, ...] | None:
        """All that was asked and drawn, where that was sums alone; else None."""
        if not all(noted.of_sums for noted in self._noted):
            return None
        asked = ((pickled(noted.values[0][1].of), noted.values[0][2]) for noted in self._noted)
        return tuple((*each, draw.kind, draw.scale) for each, draw in zip(asked, self.recording.draws, strict=True))

    def _read(self, rows: Sequence[Row | None]) -> None:
        """Read, all at once, what each of some rows adds to each sum."""
        new = {repr(row): row for row in rows if row is not None and repr(row) not in self._added}
        if not new:
            return
        frames = self._changed([{**row, _WHICH: at} for at, row in enumerate(new.values())], _WHICH)
        which = Column(_WHICH, categories=tuple(range(len(new))))
        parts: list[NDArray[np.object_]] = []
        for noted in self._noted:
            if noted.of_sums:
                ((table, query, k, _),) = noted.values
                moved = _moved(table, frames)
                several = moved._with(schema=replace(moved.schema, size=None))  # noqa: SLF001 - of another table
                total = several.total(OneHot(which, of=query.of), k)  # type: ignore[arg-type]
                parts.append(np.array(total, dtype=object).reshape(len(new), -1))
            else:
                parts.append(np.empty((len(new), 0), dtype=object))
        self._added.update({key: [each[at] for each in parts] for at, key in enumerate(new)})

    def measure(self, row: Row | None, expected: Sequence[Row | None] = ()) -> Recording | None:
        """Draw again with this row in place of the first; None if that fails. Read the expected ones, too."""
        if not self.row_by_row:
            return self.on(with_first(self.rows, row))
        try:
            self._read([self.rows[0], row, *expected])
            known = [self._moved_by(at, row) for at in range(len(self._noted))]
        except Exception:  # noqa: BLE001 - a performance in full will say what is wrong
            return None
        draws = [draw for draw in known if draw]
        if len(draws) == len(known):  # sums alone: nothing is left to read, nor to chance
            return replace(self.recording, draws=tuple(draws))
        return self.on(with_first(self.rows, row), known)

    def on(self, rows: Sequence[Row], known: Sequence[Draw | None] = ()) -> Recording | None:
        """Draw again of a table with the same public facts, but for what is known; None if that fails."""
        frames = self._changed(rows)
        try:
            with fixed_chance():
                draws = [
                    draw or self._again(at, frames) for at, draw in enumerate(known or [None] * len(self._noted))
                ]
        except Exception:  # noqa: BLE001 - a performance in full will say what is wrong
            return None
        return replace(self.recording, draws=tuple(draws))

    def _moved_by(self, at: int, row: Row | None) -> Draw | None:
        """Put another row's part of a sum in place of the first one's; None if it is no sum."""
        noted, draw = self._noted[at], self.recording.draws[at]
        if not noted.of_sums or draw.kind not in ADDED:
            return None
        sums = np.array(noted.values[0][3], dtype=object) - self._added[repr(self.rows[0])][at]
        sums = sums if row is None else sums + self._added[repr(row)][at]
        return replace(draw, sums=clamped(sums.tolist()).reshape(draw.sums.shape))

    def _again(self, at: int, frames: Mapping[int, MemoryFrame]) -> Draw:
        noted, draw = self._noted[at], self.recording.draws[at]
        if noted.of_sums and draw.kind in ADDED:
            ((table, query, k, _),) = noted.values
            total = _moved(table, frames).total(query.of, k)  # type: ignore[arg-type]
            return replace(draw, sums=clamped(total).reshape(draw.sums.shape))
        sampler, table = Replay(transcript=[self.recording.given[at]]), _moved(noted.curator._table, frames)  # noqa: SLF001
        with noise.use(sampler), mock.patch.object(noted.curator, "_table", table):
            noted.draw()
        (again,) = sampler.draws
        return again

    def _changed(self, rows: Sequence[Row], *names: str) -> dict[int, MemoryFrame]:
        parts = self.stage.parts(rows)
        return {id(old): old.changed(part, names) for old, part in zip(self._frames, parts, strict=True)}


def redraw(
    stage: Harness, rows: Sequence[Row], *, checked: bool = True, **how: Any
) -> tuple[Recording, Redraw | None]:
    """Perform on a table, and keep the draws.

    Parameters
    ----------
    stage : Harness
        The mechanism and its case.
    rows : sequence of dict
        The table.
    checked : bool
        Whether to see that the draws come out the same on the table itself.
    **how
        As for `Harness.trace`.

    Returns
    -------
    Recording
        What happened.
    Redraw or None
        None if there is more to it than draws that can be drawn again.
    """
    frames = stage.frames(rows)
    with _noting() as noted:
        recording = stage.trace(rows, frames=frames, **how)
    if not recording.replayable or not recording.draws or len(noted) != len(recording.draws):
        return recording, None
    # What is paid after the last draw is not paid by who stops there, and is the same on all tables.
    known = Redraw(stage, rows, replace(recording, release=None, error=Curtain()), frames, noted)
    if not checked or all(each.of_sums for each in noted):  # a row taken away and put back teaches nothing
        return recording, known
    again = known.on(rows)
    return recording, known if again and alike(again.draws, recording.draws) else None


def alike(some: Sequence[Draw], others: Sequence[Draw]) -> bool:
    """Tell whether draws are the same, of the same sums."""
    return len(some) == len(others) and all(
        (a.kind, a.scale, a.loss, a.law, a.keys) == (b.kind, b.scale, b.loss, b.law, b.keys)
        and np.array_equal(a.sums, b.sums)
        for a, b in zip(some, others, strict=True)
    )


@contextmanager
def _noting() -> Iterator[list[_Noted]]:
    """Note every draw, and what it asks of the table."""
    noted: list[_Noted] = []
    going_on: list[_Noted] = []
    perform, value, perturbed = Curator._perform, Table.value, Table.perturbed  # noqa: SLF001 - where all draws are

    @wraps(perform)
    def note(curator: Curator, record: Any, losses: Any, draw: Callable[[], Any], blank: Any) -> Any:
        going_on.append(_Noted(curator, draw))
        noted.append(going_on[-1])
        before = _drawn()
        try:
            noisy = perform(curator, record, losses, draw, blank)
        finally:
            going_on.pop()
        if _drawn() == before:
            noted.pop()  # it took its part of what was drawn for all groups
        return noisy

    @wraps(value)
    def valued(table: Table, query: Query, k: int, *rng: np.random.Generator) -> Integers:
        steps = value(table, query, k, *rng)
        if going_on:
            going_on[-1].values.append((table, query, k, integers(steps)))
        return steps

    @wraps(perturbed)
    def added(table: Table, query: Query, k: int, law: Any, add: Callable[[Integers], Any]) -> Any:
        def adding(values: Integers) -> Any:
            if table.passes and going_on and not going_on[-1].values:  # for all groups at once
                product = OneHot(*table.by, of=query.of)  # type: ignore[arg-type]
                going_on[-1].values.append((table.passes.table, replace(query, of=product), k, integers(values)))
            return add(values)

        return perturbed(table, query, k, law, adding)

    with (
        mock.patch.object(Curator, "_perform", note),
        mock.patch.object(Table, "value", valued),
        mock.patch.object(Table, "perturbed", added),
    ):
        yield noted


def _drawn() -> int:
    """Count what was drawn so far; a mechanism may have put another sampler in place of the one that counts."""
    return len(getattr(noise.sampler(), "draws", ()))


def _moved(table: Table, frames: Mapping[int, MemoryFrame]) -> Table:
    """Put other frames in place of those of a table."""
    parts = tuple(_moved(part, frames) for part in table.parts)
    return table.alone().over(frames.get(id(table.frame)))._with(parts=parts)  # noqa: SLF001 - of another reading
