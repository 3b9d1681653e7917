"""Secret random samples of a table's rows or people, one drawn for each question.

Which people are in it is decided by the operating system's secure source alone, before any column is looked at, so
whoever is not in it has no influence on the answer. docs/explanation/sampling.md proves what that is worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._privacy.samplers import draw_uniform
from dfprivacy._table.batch import VALUE_BYTES
from dfprivacy._table.frames import DerivedFrame, Read, cut_into_batches
from dfprivacy._table.people import NOBODY
from dfprivacy.schema.values import Dictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from dfprivacy._table.frames import Frame
    from dfprivacy.schema.values import Raw

__all__ = ["SHARE_MAX", "DrawnFrame", "Sample", "SampledFrame"]

Places = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

_PART = 1 << 16  # rows at a time
_WORD = 1 << 62
SHARE_MAX = 1 << 62
"""What the denominator of a share is below, for coins are integers."""


@dataclass(frozen=True)
class Sample:
    """Public facts about a sample.

    Attributes
    ----------
    share : Fraction
        The probability q that any one person is in it.
    whose : str
        Whose rows are drawn together; empty where each row is drawn by itself.
    rows, of : int or None
        Where numbers are public: how many rows are drawn, of how many. Else everybody is drawn with probability q,
        independently.
    """

    share: Fraction
    whose: str = ""
    rows: int | None = None
    of: int | None = None

    def __str__(self) -> str:
        if self.rows is not None:
            return f"a secret sample of {self.rows} of {self.of} rows"
        each = f"each {self.whose!r}" if self.whose else "each row"
        return f"a secret sample that includes {each} with probability {self.share}"

    @property
    def sampling_error_note(self) -> str:
        """Sentence on the sampling error of a mean: the column's sd times √(1/rows - 1/of), if both are public."""
        if self.rows is None or self.of is None:
            add = f"{math.sqrt(1 - self.share):.3g} standard deviations of its column, divided by √rows,"
        else:
            add = f"{math.sqrt(1 / self.rows - 1 / self.of):.3g} standard deviations of its column"
        return f"not included in these errors: it adds {add} to the error of the mean of the whole table"

    def describe(self) -> dict[str, Any]:
        """Return the facts as plain JSON values."""
        return {"share": str(self.share), "whose": self.whose, "rows": self.rows, "of": self.of}


class SampledFrame(DerivedFrame):
    """A frame from which each question reads a newly drawn sample, and no question reads the whole.

    Parameters
    ----------
    frame : Frame
        The table.
    sample : Sample
        How to draw.
    """

    def __init__(self, frame: Frame, sample: Sample) -> None:
        super().__init__(frame)
        self.sample = sample

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Raise a NotImplementedError: no rows can be read before a sample is drawn."""
        raise NotImplementedError(reads, size)

    def drawn(self, reads: Sequence[Read], memory: float) -> DrawnFrame:
        """Return the frame of a new sample for one question, drawn when its rows are first read.

        Parameters
        ----------
        reads : sequence of Read
            What may be read of it, where a second pass may give other rows.
        memory : float
            The most bytes that it may take.
        """
        return DrawnFrame(self.frame, self.sample, reads, memory)


class DrawnFrame(SampledFrame):
    """A frame of a random sample in random order, drawn when rows are first read, and kept in memory.

    A table that gives the same rows in every pass is read again for columns that are not held yet. Another one is
    read once, with all columns that may be asked for.
    """

    def __init__(self, frame: Frame, sample: Sample, reads: Sequence[Read], memory: float) -> None:
        super().__init__(frame, sample)
        self.settled = True  # of a sample, every pass gives the same rows
        self._reads = tuple(reads)
        self._memory = memory
        self._places: Places | None = None  # of the rows that are drawn, rising
        self._order: Places = np.zeros(0, dtype=np.int64)  # in which they are shown
        self._total = 0  # how many rows the table has
        self._held: dict[Read, Raw] = {}

    def batches(self, reads: Sequence[Read], size: int) -> Iterator[tuple[int, Mapping[Read, Raw]]]:
        """Yield the drawn rows in batches of at most `size`."""
        missing = [read for read in dict.fromkeys(reads) if read not in self._held]
        if missing or self._places is None:
            self._store_columns(missing)
        yield from cut_into_batches({read: self._held[read] for read in reads}, len(self._order), size)

    def _store_columns(self, missing: Sequence[Read]) -> None:
        """Read columns of the drawn rows into memory; draw the rows first if that has not been done."""
        first = self._places is None
        reads = tuple(missing) if self.frame.settled else self._reads
        if not {*missing} <= {*reads} or not (first or self.frame.settled):
            raise LookupError  # a second pass might give other rows
        choose = self._row_selector()
        who = (Read(self.sample.whose, "people"),) if first and self.sample.whose else ()
        parts: dict[Read, list[Raw]] = {read: [] for read in reads}
        places: list[Places] = [np.zeros(0, dtype=np.int64)]
        start = held = 0
        for rows, raw in self.frame.batches(tuple(dict.fromkeys([*reads, *who])), _PART):
            here = choose(start, rows, raw)
            held += len(here)
            if VALUE_BYTES * held * (len(self._held) + len(reads)) > self._memory:
                raise MemoryError
            places.append(here + start)
            for read, column in parts.items():
                column.append(raw[read][here])
            start += rows
        known = self.sample.of if first else self._total
        if known is not None and start != known:
            raise RuntimeError  # somebody has changed the table
        if first:
            self._places, self._total = np.concatenate(places), start
            self._order = draw_permutation(held)
        self._held |= {read: _concatenate(column)[self._order] for read, column in parts.items()}

    def _row_selector(self) -> Callable[[int, int, Mapping[Read, Raw]], Places]:
        """Return a function that selects the drawn rows of a batch, given its first row, size and columns."""
        places, sample = self._places, self.sample
        if places is None and sample.rows is not None and sample.of is not None:
            places = draw_distinct(sample.of, sample.rows)
        if places is not None:
            known = places

            def rows_at_places(start: int, rows: int, _: Mapping[Read, Raw]) -> Places:
                first, end = np.searchsorted(known, [start, start + rows])
                return known[first:end] - start

            return rows_at_places
        if not sample.whose:
            return lambda _, rows, __: np.flatnonzero(draw_memberships(sample.share, rows))
        who = Read(sample.whose, "people")
        names: object = None
        of_people = draw_memberships(sample.share, 0)

        def rows_of_people(_: int, rows: int, raw: Mapping[Read, Raw]) -> Places:
            nonlocal names, of_people
            named = raw[who]
            if not isinstance(named, Dictionary):
                raise TypeError
            if named.values is not names:  # rows of other people follow
                names, of_people = named.values, np.append(draw_memberships(sample.share, len(named.values)), False)
            own = draw_memberships(sample.share, rows)  # who has a row that names nobody has no other
            return np.flatnonzero(np.where(named.codes == NOBODY, own, of_people[named.codes]))

        return rows_of_people


def draw_memberships(share: Fraction, count: int) -> NDArray[np.bool_]:
    """Draw `count` independent Bernoulli variables with success probability exactly `share`."""
    return draw_uniform(share.denominator, count) < share.numerator


def draw_distinct(below: int, count: int) -> Places:
    """Draw `count` of the integers 0 to `below` - 1 without replacement, sorted; all subsets are equally likely.

    The first different ones of many draws are such a set, by symmetry, and so are those that are not in one.
    """
    if count > below // 2:
        rest = np.ones(below, dtype=np.bool_)
        rest[draw_distinct(below, below - count)] = False
        return np.flatnonzero(rest)
    chosen = np.zeros(0, dtype=np.int64)
    while len(chosen) < count:
        every = np.concatenate([chosen, draw_uniform(below, 2 * (count - len(chosen)))])
        _, first = np.unique(every, return_index=True)
        chosen = every[np.sort(first)][:count]
    return np.sort(chosen)


def draw_permutation(count: int) -> Places:
    """Draw a uniformly random permutation of the integers 0 to `count` - 1."""
    while True:
        words = draw_uniform(_WORD, count)
        order = np.argsort(words)
        if not np.any(words[order[1:]] == words[order[:-1]]):
            return order


def _concatenate(columns: Sequence[Raw]) -> Raw:
    """Concatenate parts of a raw column; each part may have its own dictionary."""
    if all(isinstance(column, np.ndarray) for column in columns):
        return np.concatenate([np.zeros(0, dtype=np.bool_), *columns])
    codes: list[NDArray[np.intp]] = []
    values: list[object] = []
    for column in columns:
        held = column if isinstance(column, Dictionary) else Dictionary(np.arange(len(column)), column)
        own, known = held.codes, held.values
        used = np.unique(own[own >= 0])
        codes.append(np.where(own >= 0, np.searchsorted(used, own) + len(values), -1))
        values += [known[place] for place in used.tolist()]
    return Dictionary(np.concatenate(codes), values)
