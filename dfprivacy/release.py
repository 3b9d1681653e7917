"""What every method returns: a result, and the privacy that was paid for it."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, Self

import numpy as np

from dfprivacy.errors import ArgumentError, trimmed
from dfprivacy.laws import DiscreteLaplace
from dfprivacy.markup import Grid, Text, paragraph
from dfprivacy.plotting import forest, stacked
from dfprivacy.tidy import COLUMNS_MAX, frame_of, keyed, leaves, rows_of, scalar, table_of
from dfprivacy.wording import listed, number, sure

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeVar

    R_co = TypeVar("R_co", bound="Release", covariant=True, default="Release")
else:
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)

__all__ = [
    "ConfidenceInterval",
    "Groups",
    "MeasurementRecord",
    "NoisyValue",
    "Privacy",
    "Release",
    "Reveal",
    "Value",
    "renamed",
]

_WIDTH = 100  # of a summary
_NOTES = frozenset({"note", "notes"})  # rows of sentences, which no column of a table has room for
_WORDS = ("column_words", "column_units")
_BESIDE = frozenset({"privacy", "library", *_WORDS})  # fields that are not of the result
_NAMES = ("term", "column", "name", "statistic")  # columns of a table that say what an estimate is of
_BITS_MAX = 14_000  # of a whole number: Python writes no more than 4,300 digits


class ConfidenceInterval(NamedTuple):
    """An interval, with scipy's names."""

    low: float
    high: float


@dataclass(frozen=True)
class MeasurementRecord:
    """The noise that one measurement was released with.

    Attributes
    ----------
    what : str
        What was measured.
    kind : str
        ``"discrete Laplace"``, ``"discrete Gaussian"`` or ``"K-norm (cube)"``.
    scale : float
        Its scale (b or sigma) in the units of the measured coordinates, weights included.
    grid : int
        The coordinates are whole multiples of 2 to the minus this.
    sensitivity : float
        L1 (Laplace), L2 (Gaussian) or L∞ (cube) sensitivity it was scaled to, in the same units, rounding included.
    epsilon, delta : float
        What it cost; 0 if it was kept in the ledger.
    reused : str
        When it was measured, if it was kept in the ledger: ISO 8601 in UTC. Else empty.
    """

    what: str
    kind: str
    scale: float
    grid: int
    sensitivity: float
    epsilon: float
    delta: float
    reused: str = ""

    @property
    def law(self) -> DiscreteLaplace:
        """The law of Laplace noise of this scale; continuous where it is a mean of several measurements."""
        return DiscreteLaplace(self.scale, 0.0 if "pooled" in self.kind else math.ldexp(1.0, -self.grid))

    def __str__(self) -> str:
        sentence = (
            f"{self.kind} noise of scale {self.scale:.4g} on {self.what} (sensitivity {self.sensitivity:.4g})"
        )
        return (
            f"{sentence}, measured on {_moment(self.reused)} and reused at no charge" if self.reused else sentence
        )


@dataclass(frozen=True)
class Privacy:
    """The privacy that was paid for a release.

    Attributes
    ----------
    epsilon, delta : float
        The price. It never exceeds what was asked.
    neighbors : str
        The neighbouring relation that the guarantee is about.
    noise : tuple of MeasurementRecord
        Every measurement behind the release, in order.
    account : str
        The account that paid.
    mechanism : str
        The method, with the version of the distribution it comes from.
    at : str
        When it was released, ISO 8601 in UTC.
    sampler : str
        Where the randomness came from.
    private : bool
        False if a test-only sampler made the noise: then nothing is guaranteed.
    replayed : bool
        Whether this answer was kept in the ledger and cost nothing this time.
    unit : str
        The column that says whose a row is, where the guarantee is about all rows of one person; else empty.
    max_rows : int
        How many rows of one person the result counts at most.
    question : str
        The call as it would be typed, without its price, and the columns by whose groups it was asked.
    where : tuple of str
        Which rows were asked, in words; empty where all were.
    sample : str
        The secret sample that was asked, in words; empty where no sample was drawn.
    """

    epsilon: float
    delta: float
    neighbors: str
    noise: tuple[MeasurementRecord, ...]
    account: str
    mechanism: str
    at: str
    sampler: str
    private: bool = True
    replayed: bool = False
    unit: str = ""
    max_rows: int = 1
    question: str = ""
    where: tuple[str, ...] = ()
    sample: str = ""

    @property
    def asked(self) -> str:
        """What was asked of which rows of which table; empty for answers of versions that did not keep it."""
        if not self.question:
            return ""
        rows = f", where {' and '.join(self.where)}" if self.where else ""
        of = f"{self.sample} of {self.account!r}" if self.sample else repr(self.account)
        return f"{self.question} of {of}{rows}"

    @property
    def note(self) -> str:
        """What misleads who reads the result as if every row of the table were in it, and another person."""
        of = f"the table is here {self.sample}: counts, sums and intervals for its own number are the sample's"
        notes = [of] if self.sample else []
        return "; ".join(notes + ([self._several] if self.max_rows > 1 else []))

    @property
    def _several(self) -> str:
        return (
            f"up to {self.max_rows} rows are of one {self.unit!r}, and rows of one are alike: standard errors, "
            f"p-values and intervals take them for different ones and are too small; ask view.per({self.unit!r})"
        )

    @property
    def guarantee(self) -> str:
        """The guarantee in words."""
        if not self.private:
            return "NOT PRIVATE: the noise came from a test-only sampler"
        reused = [each for each in self.noise if each.reused]
        when = " and ".join(dict.fromkeys(_moment(each.reused) for each in reused))
        if reused and not self.epsilon:
            return f"nothing more was paid: it follows from what was measured on {when}"
        kind = f"{self.epsilon:g}-differential privacy"
        if self.delta:
            kind = f"({self.epsilon:g}, {self.delta:g})-differential privacy"
        relation = {
            "replace_one": "tables that differ in the content of one row",
            "add_remove": "tables that differ by one row more or less",
        }[self.neighbors]
        if self.unit:
            relation = {
                "replace_one": f"tables in which all rows of one {self.unit!r} are exchanged for those of another",
                "add_remove": f"tables that differ by all rows of one {self.unit!r}",
            }[self.neighbors]
        return f"{kind} for {relation}" + (f", beside what was measured on {when}" if reused else "")

    def __str__(self) -> str:
        again = f", answered on {self.at} and replayed at no charge" if self.replayed else ""
        return f"{self.guarantee}{again}" + (f"; {self.note}" if self.note else "")


def _moment(at: str) -> str:
    """Shorten a moment to its second."""
    return at.partition(".")[0].partition("+")[0]


@dataclass(frozen=True)
class DiscoveredKeys:
    """The keys that enough rows hold, as a mechanism receives them.

    Attributes
    ----------
    keys : tuple
        The keys, the largest noisy count first: texts and numbers, or tuples of them where several columns were
        named. True and False are 1 and 0.
    counts : ndarray of int
        The noisy number of rows that hold each. It is biased upwards near the threshold.
    threshold : int
        What a noisy count had to reach. Other keys, however many rows hold them, are not there.
    scale : float
        The scale of the Laplace noise in each count; 0 where the keys are public.
    noise : MeasurementRecord or None
        The same in words; None where the keys are public.
    domain : int or None
        How many keys there can be, where that is known: then any of them may be shown, though no row holds it.
    """

    keys: tuple[Any, ...]
    counts: NDArray[np.int64]
    threshold: int
    scale: float
    noise: MeasurementRecord | None
    domain: int | None = None

    @property
    def false(self) -> float:
        """How many keys that no row holds are shown on average, at most."""
        if self.domain is None or not self.scale:
            return 0.0
        return self.domain * math.exp(-self.threshold / self.scale) / (1 + math.exp(-1 / self.scale))


@dataclass(frozen=True)
class SurveyedColumn:
    """What enough rows hold in one column, as a mechanism receives it: noisy numbers of rows.

    Attributes
    ----------
    numbers, dates : dict of int to float
        By interval, the rows with a number, or a date, in it.
    text, nothing : float
        The rows with a text, and those with nothing that can be used. 0 where it is not shown.
    values : dict
        By value, texts and numbers, the rows that hold it, the most frequent first.
    threshold : int
        What a number of rows had to reach. It is biased upwards near it.
    scale : float
        The standard deviation of the Gaussian noise in each.
    """

    numbers: Mapping[int, float]
    dates: Mapping[int, float]
    text: float
    nothing: float
    values: Mapping[Any, float]
    threshold: int
    scale: float


class Reveal(Protocol):
    """Which of many noisy sums are shown, where the first that are shown decide about the others.

    `Curator.sum` shows those and draws noise for no others. It is a frozen dataclass of public values, which are
    part of what the ledger keeps a measurement under.
    """

    def next(self, values: NDArray[np.float64], scales: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say which numbers are shown next.

        Parameters
        ----------
        values : ndarray of shape (groups, d)
            The noisy sums that were shown so far, of each group of a call, weights taken out; nan of all others.
        scales : ndarray of shape (d,)
            Scale of the noise in each.

        Returns
        -------
        ndarray of bool of shape (groups, d)
            Those that are, which may hold any that were. If all of them were, there are no more.
        """
        ...

    def describe(self) -> str:
        """Say in words what is shown."""
        ...


@dataclass(frozen=True)
class NoisyValue:
    """A noisy sum, as a mechanism receives it.

    Attributes
    ----------
    values : ndarray of the features' shape
        The noisy sums, weights taken out; nan where a `Reveal` did not show them.
    scales : ndarray of the features' shape
        The scale of the noise in each of them (b of the Laplace, sigma of the Gaussian); 0 where the sum is public.
    noise : MeasurementRecord or None
        The same in words; None where the sum is public.
    parts : tuple of NoisyValue
        Of a `~dfprivacy.features.Stack`: the sums of each feature, in its shape. Else empty.
    """

    values: NDArray[np.float64]
    scales: NDArray[np.float64]
    noise: MeasurementRecord | None
    parts: tuple[NoisyValue, ...] = ()

    @property
    def law(self) -> DiscreteLaplace:
        """The law of Laplace noise in the coordinate that has most of it; nothing where the sum is public."""
        scale = float(np.max(self.scales))
        if self.noise is None:
            return DiscreteLaplace(scale)
        return DiscreteLaplace(scale, self.noise.law.step * (scale / self.noise.scale))


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """What a method returns. A subclass is a frozen dataclass with the fields of its result.

    It holds noisy numbers and public ones, never rows, exact statistics or seeds. Two releases of a class are equal
    if their results are, every number and array of them; the privacy that was paid is not compared.

    Attributes
    ----------
    privacy : Privacy or None
        What was paid; filled in when the release leaves the view.
    library : {"pandas", "polars", "pyarrow"}
        Whose tables it makes where it holds one: the library's that holds the table that was asked.
    column_words : mapping of str to str
        What columns are called and measured in, where the schema says so, for axes of pictures.
    column_units : mapping of str to str
        What they are measured in alone, for sentences.
    """

    privacy: Privacy | None = None
    library: str = "pandas"
    column_words: Mapping[str, str] = field(default_factory=dict, repr=False)
    column_units: Mapping[str, str] = field(default_factory=dict, repr=False)

    _shown: ClassVar[tuple[str, ...]] = ()  # the fields that people look at first; all if empty
    _estimate: ClassVar[str] = "estimate"  # the field with the number that arithmetic is about
    __array_ufunc__ = None  # a NumPy number leaves arithmetic to the release

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        plot = vars(cls).get("plot")
        if plot is not None and "Parameters" not in (docstring := plot.__doc__ or ""):
            _, parameters, rest = inspect.cleandoc(Release.plot.__doc__ or "").partition("\n\nParameters")
            taken, _, _ = rest.partition("\n\nRaises")
            plot.__doc__ = f"{inspect.cleandoc(docstring)}{parameters}{taken}"
        for name, method in list(vars(cls).items()):  # errors are raised from the caller's own line
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, trimmed(method))
        for name in ("__eq__", "__hash__"):  # a dataclass would write its own, which takes arrays for truth values
            if name not in vars(cls):
                setattr(cls, name, getattr(Release, name))
        _types[_kind(cls)] = cls  # the newest of a name, as where a notebook's cell is run again

    def __eq__(self, other: object) -> bool:
        """Whether both are of one class and have the same result, to the last bit; NaN is NaN."""
        if type(self) is not type(other) or not isinstance(other, Release):
            return NotImplemented
        return self is other or plain_json(self.result) == plain_json(other.result)

    def __hash__(self) -> int:
        return hash(plain_json(self.result))

    def __add__(self, other: object) -> Any:
        return _combined("+", self, other)

    def __radd__(self, other: object) -> Any:
        return _combined("+", other, self)

    def __sub__(self, other: object) -> Any:
        return _combined("-", self, other)

    def __rsub__(self, other: object) -> Any:
        return _combined("-", other, self)

    def __mul__(self, other: object) -> Any:
        return _combined("*", self, other)

    def __rmul__(self, other: object) -> Any:
        return _combined("*", other, self)

    def __truediv__(self, other: object) -> Any:
        return _combined("/", self, other)

    def __rtruediv__(self, other: object) -> Any:
        return _combined("/", other, self)

    def __neg__(self) -> Any:
        return _combined("*", -1, self)

    def paid(self, privacy: Privacy) -> Self:
        """Return the same result with the privacy that was paid for it."""
        return replace(self, privacy=privacy)

    def made_for(
        self, library: str, words: Mapping[str, str] | None = None, units: Mapping[str, str] | None = None
    ) -> Self:
        """Return the same result for somebody whose tables are this library's, and who calls columns so."""
        made = replace(self, library=library)
        return made if words is None else replace(made, column_words=words, column_units=units or {})

    def _called(self, *columns: str) -> str:
        """Name columns for people: label and units where the schema says them."""
        return ", ".join(self.column_words.get(column, column) for column in columns)

    def _unit(self, column: str) -> str:
        """Give what a column is measured in; empty where the schema does not say."""
        return self.column_units.get(column, "")

    def _noun(self, *columns: str) -> str:
        """Name columns within a sentence: their labels, without units."""
        return listed([self._called(name).removesuffix(f" ({self._unit(name)})") for name in columns])

    @property
    def _sampling(self) -> float | None:
        """Standard error of the estimate from the sampling of rows alone; None where it is not known."""
        return None

    @property
    def _noise_part(self) -> float | None:
        """Part of the interval's width that is there because of the noise; None where it is not known."""
        return None

    @property
    def _axis(self) -> str:
        """What the estimate is, for the axis of a picture; by default the question."""
        return self.privacy.question if self.privacy else ""

    @property
    def result(self) -> dict[str, Any]:
        """The fields of the result by name."""
        kind: type = type(self)
        return {name: getattr(self, name) for name in _result_names(kind)}

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, from which `from_dict` makes the same release again.

        Returns
        -------
        dict
            Strings, numbers, booleans, None, lists and dictionaries.
        """
        kind: type = type(self)
        return {
            "type": _kind(kind),
            **{name: _plain(getattr(self, name)) for name in (*_result_names(kind), "privacy")},
            **{name: dict(words) for name in _WORDS if (words := getattr(self, name))},
        }

    @staticmethod
    @trimmed
    def from_dict(plain: Mapping[str, Any]) -> Release:
        """Make a release of what `to_dict` gave.

        Parameters
        ----------
        plain : mapping
            What `to_dict` returned, perhaps after a trip through JSON.

        Returns
        -------
        Release
            Of the class that made it.

        Raises
        ------
        ArgumentError
            If it is no release, or its class is not installed here.

        Notes
        -----
        Classes are those of plugins that were loaded and of modules that were imported. No module is imported
        because a text names it: a ledger is written by many hands, and an import runs code.
        """
        name = plain.get("type") if isinstance(plain, Mapping) else None
        kind = _class_of(name)
        if kind is None:
            raise ArgumentError(
                f"{name!r} is no release that is installed here.", "Install the plugin that made it."
            )
        paid = plain.get("privacy")
        try:
            made = kind(**_result(plain))
            return made if paid is None else made.paid(_price(paid))
        except (TypeError, KeyError, ValueError, AttributeError, ArithmeticError):
            raise ArgumentError(
                f"This {kind.__name__} does not have the fields that the {kind.__name__} installed here has.",
                "Install the version that made it.",
            ) from None

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the result, its price and its question as JSON, from which `from_json` makes the same release.

        Parameters
        ----------
        indent : int, optional
            Spaces before what is inside of something; default: all in one line.

        Returns
        -------
        str
            JSON.
        """
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @staticmethod
    @trimmed
    def from_json(text: str) -> Release:
        """Make a release of what `to_json` gave.

        Parameters
        ----------
        text : str
            What `to_json` returned.

        Returns
        -------
        Release
            Of the class that made it.

        Raises
        ------
        ArgumentError
            If it is no release, or its class is not installed here.
        """
        try:
            plain = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            raise ArgumentError("This is no JSON.", "Give what a release's to_json() returned.") from None
        return Release.from_dict(plain)

    @trimmed
    def to_frame(self, library: str | None = None) -> Any:
        """Return the estimates as a tidy table: one row for each, with a few columns of plain values.

        Everything else that the result holds is an attribute, and in `to_dict` and `to_json`.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            Whose table to make; default: the library's that holds the table that was asked.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            At most ten columns. Where they apply: term, estimate, standard_error, noise_standard_error, low, high,
            statistic, df, pvalue, n.
        """
        return frame_of(self.records(), library or self.library)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows of `to_frame`, for whoever has no library of tables.

        Returns
        -------
        list of dict
            Numbers, texts, truth values and None, by column.
        """
        return [row for columns in self._tidy() for row in rows_of(columns)]

    def _tidy(self) -> Sequence[Mapping[str, Any]]:
        """State the estimates: columns of rows, or several such, one below the other.

        By default the fields that fit in a cell are one row, as many as there is room for; if none does, each
        number within is a row.
        """
        result = {name: getattr(self, name) for name in self._shown} or self.result
        cells = {name: value for name, value in result.items() if scalar(value)}
        if cells:
            return [dict(list(cells.items())[:COLUMNS_MAX])]
        places = [*leaves(result)]
        return [{"term": [place for place, _ in places], "value": [value for _, value in places]}]

    def _table(self, columns: Mapping[str, list[Any]]) -> Any:
        """Make a table of lists by column, of the library that holds the table that was asked."""
        return table_of(columns, self.library)

    @trimmed
    def plot(self, ax: Any = None) -> Any:  # noqa: ARG002
        """Draw the release. Methods whose result can be looked at say how.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ArgumentError
            If there is nothing to draw.
        """
        raise ArgumentError(f"A {type(self).__name__} has no picture.", "Use to_frame() or to_dict().")

    def _rows(self) -> list[tuple[str, str]]:
        names = self._shown or tuple(self.result)
        values = ((name, getattr(self, name)) for name in names)
        return [(name, _text(value)) for name, value in values if not isinstance(value, tuple | None) or value]

    def _grid(self) -> Grid | None:
        """Give a table of many numbers, where the result has one; it is shown above the rows."""
        return None

    def _brief(self) -> str:
        """Write everything in one line, as one among several."""
        grid = self._grid()
        rows = [*([] if grid is None else grid.rows), *self._rows()]
        return "; ".join(" ".join(row) for row in rows)

    def _sentence(self) -> str:
        """Say the answer in a sentence that a colleague can read; a class of its own says it in its own words."""
        question = self.privacy.question if self.privacy else ""
        rows = self.records()
        row = {name: cell for name, cell in (rows[0] if rows else {}).items() if cell is not None}
        of = " ".join(each for name in _NAMES if isinstance(each := row.get(name), str) and each)
        names = [name for name in (self._estimate, "estimate", "value", *row) if name in row and name not in _NAMES]
        if not names:
            return f"{question or f'This {type(self).__name__}'} gives no number."
        ends = [row.get(end, getattr(self, end, None)) for end in ("low", "high")]
        low, high, p = (
            each if isinstance(each, int | float) else None for each in (*ends, getattr(self, "pvalue", None))
        )
        error = None if low is None or high is None else (high - low) / 4
        told = f"{names[0]}{f' of {of}' if of else ''} {number(row[names[0]], error)}"
        more = f", and {len(rows) - 1:,} more below" if len(rows) > 1 else ""
        how = sure(low, high, getattr(self, "confidence", None), p=p)
        return f"{question or f'This {type(self).__name__}'} gives {told}{how}{more}."

    @property
    def _uninformative(self) -> bool:
        """Whether a note says that the answer leaves everything open."""
        return any("uninformative" in text.lower() for name, text in self._rows() if name in _NOTES)

    @property
    def _told(self) -> str:
        """The sentence; before it which rows were asked, and whether the answer says anything."""
        where = " and ".join(self.privacy.where) if self.privacy else ""
        before = [f"Where {where}: "] if where else []
        before += ["Uninformative: "] if self._uninformative else []
        sentence = self._sentence()
        return "".join([*before, _within(sentence) if before else sentence])

    @property
    def _title(self) -> str:
        """Say what it is, and what was asked."""
        question = self.privacy.asked if self.privacy else ""
        return f"{type(self).__name__}: {question}" if question else type(self).__name__

    def _grids(self) -> list[Grid]:
        grid, rows = self._grid(), self._rows()
        return [*([] if grid is None else [grid]), *([Grid((), rows)] if rows else [])]

    def _written(self) -> list[Grid]:
        """Give the tables for pages: those of the repr, but estimates in the rows of `to_frame`."""
        if not self._states:
            return self._grids()
        columns = [_of(block) for block in self._tidy()]
        rows = self.records()
        table = _tabled(rows, self)
        stated = [value for of in columns for value in of]
        fields = {name for name, own in self.result.items() if any(own is each for each in stated)}
        terms = {first for first, *_ in table.rows}
        shown = {*(rows[0] if rows else ()), *terms, *fields, *self._repeated}
        facts = [(name, text) for name, text in self._rows() if name not in shown]
        return [table, *([Grid((), facts)] if facts else [])]

    @property
    def _repeated(self) -> tuple[str, ...]:
        """Facts of the repr that the rows say under other names."""
        return ()

    @property
    def _states(self) -> bool:
        """Whether pages show the rows of `to_frame`: the class says which, and has no table of another shape."""
        return type(self)._tidy is not Release._tidy and self._grid() is None  # noqa: SLF001 - of our own kind

    def __repr__(self) -> str:
        lines = [line for grid in self._grids() for line in grid.lines()]
        below = "\n  ".join([self._title, *lines, *([str(self.privacy)] if self.privacy else [])])
        return "\n".join([*textwrap.wrap(self._told, _WIDTH), below])

    def _repr_html_(self) -> str:
        tables = self._captioned(Grid.html) or Grid((), []).html(self._title)
        return f'<div style="overflow-x:auto">{paragraph(self._told)}{tables}</div>'

    def _captioned(self, write: Callable[[Grid, str, str], str], between: str = "") -> str:
        """Write the tables below each other: the first says what was asked, the last what was paid."""
        grids, about = self._written(), f"About this {type(self).__name__}"
        paid = str(self.privacy) if self.privacy else ""
        return between.join(
            write(grid, about if at else self._title, paid if at == len(grids) - 1 else "")
            for at, grid in enumerate(grids)
        )

    def summary(self) -> str:
        """Return everything as text between rules, as statsmodels prints it.

        Returns
        -------
        str
            Lines; a prompt shows them as they are.
        """
        blocks = [line for grid in self._written() for line in (*grid.lines(), "")][:-1]
        told = textwrap.wrap(self._told, _WIDTH)
        paid = textwrap.wrap(str(self.privacy), _WIDTH) if self.privacy else []
        title = textwrap.wrap(self._title, _WIDTH)
        wide = max(map(len, (*title, *told, *blocks, *paid)))
        rule = "=" * wide
        return Text(
            "\n".join([*(line.center(wide).rstrip() for line in title), rule, *told, "", *blocks, rule, *paid])
        )

    def to_markdown(self) -> str:
        """Return everything as Markdown: the answer in a sentence, what was asked, the tables, what was paid.

        Returns
        -------
        str
            Lines.
        """
        paid = [str(self.privacy)] if self.privacy else []
        return "\n\n".join(
            [self._told, f"**{self._title}**", *(grid.markdown() for grid in self._written()), *paid]
        )

    def to_latex(self) -> str:
        """Return everything as LaTeX tables, with the rules of the package booktabs.

        Returns
        -------
        str
            One ``table`` environment for each table; the first says what was asked, the last what was paid.
        """
        return self._captioned(Grid.latex, "\n")


class renamed:  # noqa: N801 - it stands where a field's name stood
    """A name that a field of a release had before: it warns, and gives what the new one holds.

    Parameters
    ----------
    new : str
        What it is called now.

    Examples
    --------
    >>> class Answer(Value):
    ...     result_value = renamed("value")
    >>> import warnings
    >>> with warnings.catch_warnings(record=True, action="always") as heard:
    ...     Answer(value=2).result_value, str(heard[0].message)
    (2, 'Answer.result_value is called value now; the old name goes with the next release.')
    """

    def __init__(self, new: str) -> None:
        self._new = new
        self.__doc__ = f"Give `{new}`: its old name, which warns."

    def __set_name__(self, owner: type, old: str) -> None:
        self._old = old

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        warnings.warn(
            f"{owner.__name__}.{self._old} is called {self._new} now; the old name goes with the next release.",
            FutureWarning,
            stacklevel=2,
        )
        return getattr(instance, self._new)


_types: dict[str, type[Release]] = {}
loaders: list[Callable[[], object]] = []
"""What makes more types known: the loader of plugins."""
arithmetic: list[Callable[[str, object, object], Any]] = []
"""What adds, subtracts, multiplies and divides releases: `dfprivacy.combine`, which is above them."""


def _combined(operator: str, first: object, second: object) -> Any:
    for part in (first, second):
        number = isinstance(part, int | float | Fraction | Decimal | np.number) and not isinstance(part, bool)
        if not (number or isinstance(part, Release)):
            return NotImplemented
    return arithmetic[0](operator, first, second)


def _kind(cls: type[Release]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _class_of(name: object) -> type[Release] | None:
    """Return the class of this name, unless it is a function's own, which no other process could find."""
    if not isinstance(name, str) or "<locals>" in name:
        return None
    if name not in _types:
        for load in loaders:
            load()
    return _types.get(name)


def _result(plain: Mapping[str, Any]) -> dict[str, Any]:
    words = {name: plain.get(name, {}) for name in _WORDS}
    texts = all(
        isinstance(of, Mapping) and all(isinstance(each, str) for each in of.values()) for of in words.values()
    )
    if "library" in plain or not texts:
        raise TypeError  # whoever asks has a library: it is never written down
    beside = {"type", "privacy", *_WORDS}
    rich = {key: _rich(value) for key, value in plain.items() if key not in beside}
    return {**rich, **{name: dict(of) for name, of in words.items()}}


_READ = {
    "tuple[str, ...]": tuple,
    "str": str,
    "float": int | float,
    "int": int,
    "bool": bool,
    "tuple[MeasurementRecord, ...]": tuple,
}


def _price(plain: Mapping[str, Any]) -> Any:
    noise = tuple(_record(MeasurementRecord, item) for item in plain["noise"])
    return _record(Privacy, {**plain, "noise": noise, "where": tuple(plain.get("where", ()))})


def _record(kind: Any, plain: Mapping[str, Any]) -> Any:
    """Make a record or a `Privacy`; a `TypeError` if a field is missing, unknown, or of another type."""
    made = kind(**plain)
    if not all(isinstance(getattr(made, f.name), _READ[str(f.type)]) for f in dataclasses.fields(kind)):
        raise TypeError
    return made


@dataclass(frozen=True, kw_only=True, repr=False)
class Value(Release):
    """A result without a class of its own: a number, an array, or a dictionary of them."""

    value: Any

    _estimate: ClassVar[str] = "value"


@dataclass(frozen=True, kw_only=True, repr=False)
class Groups(Release, Generic[R_co]):
    """One release for each group of a view's ``group_by``: ``groups["north"]``, and like a dictionary ``items()``.

    Attributes
    ----------
    by : str or tuple of str
        The column, or the columns.
    keys : tuple
        The groups: categories of the column, or tuples with one of each column.
    releases : tuple of Release
        One for each group, in the same order.
    """

    by: str | tuple[str, ...]
    keys: tuple[Any, ...]
    releases: tuple[R_co, ...]

    @trimmed
    def __getitem__(self, key: object) -> R_co:
        if key not in self.keys:
            raise ArgumentError(f"There is no such group of {self.by!r}.", f"The groups are {list(self.keys)!r}.")
        return self.releases[self.keys.index(key)]

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        """Go through the groups, as through the keys of a dictionary."""
        return iter(self.keys)

    def items(self) -> list[tuple[Any, R_co]]:
        """Give each group with its release, in order."""
        return list(zip(self.keys, self.releases, strict=True))

    def _named(self) -> list[dict[str, Any]]:
        """Give each group's category by column."""
        if isinstance(self.by, str):
            return [{self.by: key} for key in self.keys]
        return [dict(zip(self.by, key, strict=True)) for key in self.keys]

    def _labels(self) -> list[str]:
        return [", ".join(map(str, named.values())) for named in self._named()]

    def _grid(self) -> Grid | None:
        """Put groups' tables below each other, if all have the same columns; or their facts, one row a group."""
        tables = [release._grid() for release in self.releases]  # noqa: SLF001 - of our own kind
        if facts := all(table is None for table in tables):
            tables = [_told(release._rows()) for release in self.releases]  # noqa: SLF001 - as above
        grids = [table for table in tables if table is not None]
        heads = list(dict.fromkeys(tuple(grid.heads) for grid in grids))
        if not heads or len(grids) < len(tables) or (len(heads) > 1 and not facts):
            return None
        labels, by = self._labels(), self.by if isinstance(self.by, str) else ", ".join(self.by)
        own, *rest = heads[0]
        if facts:  # some of which not every group has
            names = list(dict.fromkeys(name for _, *others in heads for name in others))
            told = [dict(zip(grid.heads, *grid.rows, strict=True)) for grid in grids]
            cells = [(label, *(of.get(name, "") for name in names)) for label, of in zip(labels, told, strict=True)]
            return Grid((by, *names), cells)
        if not any(name for grid in grids for name, *_ in grid.rows):  # rows without names of their own
            cells = [(label, *texts) for label, grid in zip(labels, grids, strict=True) for _, *texts in grid.rows]
            return Grid((by, *rest), cells)
        wide = max(map(len, (by, *labels)))
        cells = [
            (f"{'' if at else label:<{wide}}  {name}", *texts)
            for label, grid in zip(labels, grids, strict=True)
            for at, (name, *texts) in enumerate(grid.rows)
        ]
        return Grid((f"{by:<{wide}}  {own}", *rest), cells)

    def _facts(self) -> list[tuple[str, str]]:
        """Say what is true of all groups once, and what is not of each."""
        every = [release._rows() for release in self.releases]  # noqa: SLF001 - of our own kind
        if all(release._grid() is None for release in self.releases):  # noqa: SLF001 - as above
            every = [[(name, text) for name, text in rows if name in _NOTES] for rows in every]
        common = [row for row in every[0] if all(row in rows for rows in every)]
        own = [
            (label, f"{name} {text}")
            for label, rows in zip(self._labels(), every, strict=True)
            for name, text in rows
            if (name, text) not in common
        ]
        return [*own, *common]

    def _written(self) -> list[Grid]:
        if not all(each._states for each in self.releases):  # noqa: SLF001 - of our own kind
            return self._grids()
        facts = self._facts()
        return [_tabled(self.records(), self.releases[0]), *([Grid((), facts)] if facts else [])]

    def _rows(self) -> list[tuple[str, str]]:
        if self._grid() is not None:
            return self._facts()
        brief = (release._brief() for release in self.releases)  # noqa: SLF001 - of our own kind
        names = (", ".join(f"{name} = {key}" for name, key in named.items()) for named in self._named())
        return list(zip(names, brief, strict=True))

    def made_for(
        self, library: str, words: Mapping[str, str] | None = None, units: Mapping[str, str] | None = None
    ) -> Self:
        """Return the same result for somebody whose tables are this library's, and who calls columns so."""
        made = super().made_for(library, words, units)
        return replace(made, releases=tuple(each.made_for(library, words, units) for each in self.releases))

    def _sentence(self) -> str:
        """Say which group has the lowest number and which the highest; or else what the first one's answer is."""
        by = [self.by] if isinstance(self.by, str) else [*self.by]
        labels, told = self._labels(), [_within(each._told) for each in self.releases]  # noqa: SLF001 - of our own kind
        of = f"{len(self)} group{'s' * (len(self) != 1)} of {self._noun(*by)}"
        numbers = [value for value, *_ in filter(None, map(_with_ends, self.releases))]
        if 1 < len(numbers) == len(self):
            least, most = numbers.index(min(numbers)), numbers.index(max(numbers))
            return f"Of {of}, {labels[least]} is lowest: {told[least]} Highest is {labels[most]}: {told[most]}"
        return f"{of}, an answer each; {labels[0]}: {told[0]}"

    def plot(self, ax: Any = None) -> Any:
        """Draw the groups: a number with its interval each, or else the picture of each, one below the other.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ArgumentError
            If there is nothing to draw of a group.
        """
        rows = [_with_ends(release) for release in self.releases]
        numbers = [row for row in rows if row is not None]
        if len(numbers) < len(rows):
            return stacked(self._labels(), [release.plot for release in self.releases], ax)
        first = self.releases[0]
        what = first._axis or self._axis  # noqa: SLF001 - of our own kind
        level = getattr(first, "confidence", None)
        noise = [each._noise_part for each in self.releases]  # noqa: SLF001 - as above
        ax = forest(self._labels(), numbers, what, ax, noise=noise, confidence=level)
        ax.set_ylabel(self._called(*([self.by] if isinstance(self.by, str) else self.by)))
        return ax

    def records(self) -> list[dict[str, Any]]:
        """Return the rows of each group, the group in the first column or columns.

        Returns
        -------
        list of dict
            As for one release.
        """
        parts = zip(self._named(), self.releases, strict=True)
        return [keyed(named, row) for named, each in parts for row in each.records()]


def _within(sentence: str) -> str:
    """Write a sentence as it is after a colon."""
    return f"t{sentence[1:]}" if sentence.startswith(("The ", "This ")) else sentence


def _with_ends(release: Release) -> tuple[float, float, float] | None:
    """Give the number that a release is about, with the ends of its interval, where it has them."""
    value, *ends = (getattr(release, name, None) for name in (release._estimate, "low", "high"))  # noqa: SLF001
    known = all(isinstance(each, float) and math.isfinite(each) for each in (value, *ends))
    return (value, *ends) if known else None  # type: ignore[return-value]


def _told(rows: Sequence[tuple[str, str]]) -> Grid | None:
    """Write facts as one row of a table, without a name; None if there are none but notes."""
    told = [(name, text) for name, text in rows if name not in _NOTES]
    names, texts = zip(*told, strict=True) if told else ((), ())
    return Grid(("", *names), [("", *texts)]) if told else None


def plain_json(value: Any) -> str:
    """One line of JSON without NaN literals, keys in order."""
    return json.dumps(_plain(value), sort_keys=True, allow_nan=False, separators=(",", ":"))


@cache
def _result_names(kind: type) -> tuple[str, ...]:
    """Name the fields of a result, once for each class: a call by group has hundreds of them."""
    return tuple(f.name for f in dataclasses.fields(kind) if f.name not in _BESIDE)


def _plain(value: Any) -> Any:  # noqa: C901 - one case for each type
    """JSON values; what JSON has no word for becomes a dictionary with one key that starts with a dollar."""
    if value is None or (kind := type(value)) is str or kind is bool or (kind is float and math.isfinite(value)):
        return value  # what there is most of
    if isinstance(value, Release):
        return {"$release": value.to_dict()}
    if isinstance(value, Privacy):
        noise = [{**vars(each)} for each in value.noise]
        return {**vars(value), "noise": noise, "where": list(value.where)}
    if isinstance(value, np.ndarray):
        items = value.ravel().tolist()
        if value.dtype.kind not in "biu" and not (value.dtype.kind == "f" and np.isfinite(value).all()):
            items = [_plain(item) for item in items]
        return {"$array": items, "shape": list(value.shape), "dtype": value.dtype.str}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float | int | Fraction | Decimal):
        return _plain_number(value)
    if isinstance(value, ConfidenceInterval):
        return {"$interval": [_plain(end) for end in value]}
    if isinstance(value, tuple):
        return {"$tuple": [_plain(item) for item in value]}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be written down")


def _plain_number(value: float | Fraction | Decimal) -> Any:
    if isinstance(value, Fraction):
        return {"$fraction": [_plain_number(value.numerator), _plain_number(value.denominator)]}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, int) and value.bit_length() > _BITS_MAX:
        raise TypeError("a whole number of thousands of digits cannot be written down")
    return value


def _key(key: object) -> str:
    if not isinstance(key, str) or key.startswith("$"):
        raise TypeError("the keys of a dictionary in a release must be strings, without a dollar in front")
    return key


def _rich(value: Any) -> Any:
    """Undo `_plain`."""
    if isinstance(value, list):
        return [_rich(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$release": plain}:
            return Release.from_dict(plain)
        case {"$array": items, "shape": shape, "dtype": dtype}:
            return np.array([_rich(item) for item in items], dtype=dtype).reshape(shape)
        case {"$float": text}:
            return float(text)
        case {"$fraction": [numerator, denominator]}:
            return Fraction(numerator, denominator)
        case {"$decimal": text}:
            return Decimal(text)
        case {"$interval": ends}:
            return ConfidenceInterval(*(_rich(end) for end in ends))
        case {"$tuple": items}:
            return tuple(_rich(item) for item in items)
    return {key: _rich(item) for key, item in value.items()}


def _tabled(rows: Sequence[Mapping[str, Any]], release: Release) -> Grid:
    """Write rows as a table, without columns that say nothing; the ends of intervals say which."""
    every = dict.fromkeys(name for row in rows for name in row)
    names = [name for name in every if any(row.get(name) is not None for row in rows)]
    cells = [["" if (cell := row.get(name)) is None else _text(cell) for name in names] for row in rows]
    confidence = getattr(release, "confidence", None)
    ends = {} if confidence is None else {end: f"{100 * confidence:.4g}% {end}" for end in ("low", "high")}
    return Grid([ends.get(name, name) for name in names], cells)


def _of(columns: Mapping[str, Any]) -> list[Any]:
    """Give the fields that columns are made of: no None, True or False, which many fields are."""
    return [value for value in columns.values() if value is not None and not isinstance(value, bool)]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        sentences = all(isinstance(item, str) and item.endswith(".") for item in value)
        return (" " if sentences else ", ").join(_text(item) for item in value)
    return str(value)
