"""Releases: results of methods, with the privacy that was paid for them."""

from __future__ import annotations

import inspect
import math
import operator as op
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

import numpy as np

from dfprivacy._display import BELOW, DisplayMixin, after_colon, facts_row, rows_to_grid
from dfprivacy._json import JsonConversion, plain_json, register
from dfprivacy.errors import ArgumentError, trimmed
from dfprivacy.markup import Grid
from dfprivacy.measured import (
    ConfidenceInterval,
    DiscoveredKeys,
    MeasurementRecord,
    NoisyValue,
    Privacy,
    Reveal,
    SurveyedColumn,
)
from dfprivacy.plotting import forest, stack_plots
from dfprivacy.tidy import prefix_columns
from dfprivacy.wording import list_text, mark_limited, name_sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import TypeVar

    R_co = TypeVar("R_co", bound="Release", covariant=True, default="Release")
else:
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)

__all__ = [
    "ConfidenceInterval",
    "DiscoveredKeys",
    "Exact",
    "Groups",
    "MeasurementRecord",
    "NoisyValue",
    "Privacy",
    "Release",
    "Reveal",
    "SurveyedColumn",
    "Value",
]


class Exact:
    """Base class of exact results without noise, for the table's owner alone; they are no releases.

    The form of a method for the owner (`dfprivacy.Mechanism.holds`) returns an object of a subclass, which says
    first of all that it is not private. No question takes one as an argument, and none is stored.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}, not private: a function of one's own rows without noise"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Release(JsonConversion, DisplayMixin):
    """Result of a method; each subclass is a frozen dataclass with the fields of its result.

    It holds noisy numbers and public ones, never rows, exact statistics or seeds. Two releases of a class are equal
    if their results are, every number and array of them; the privacy that was paid is not compared.

    Attributes
    ----------
    privacy : Privacy or None
        The privacy that was paid, and the question; set when the release leaves the view.
    library : {"pandas", "polars", "pyarrow"}
        The library of the tables that it returns: that of the protected table.
    column_words : mapping of str to str
        Labels of columns with their units, from the schema, for axes of plots.
    column_units : mapping of str to str
        Units of columns, from the schema, for sentences.
    covers : {"table", "population", "sample", "limited table", "limited population", "limited sample"} or None
        Which number the intervals cover: the table's own, as a dataframe has it, or that of a population of which
        the rows are a sample. Limited: of values limited to the declared bounds. None where there is no interval.
    """

    privacy: Privacy | None = None
    library: str = "pandas"
    column_words: Mapping[str, str] = field(default_factory=dict, repr=False)
    column_units: Mapping[str, str] = field(default_factory=dict, repr=False)
    covers: str | None = None

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
        register(cls)

    def __eq__(self, other: object) -> bool:
        """Return whether two releases have the same class and bitwise equal results; NaN equals NaN."""
        if type(self) is not type(other) or not isinstance(other, Release):
            return NotImplemented
        return self is other or self._comparable_json == other._comparable_json

    def __hash__(self) -> int:
        return hash(self._comparable_json)

    @property
    def _comparable_json(self) -> str:
        """Result as JSON for comparison, without the ids of measurements."""
        beside = {each.name for each in fields(self) if not each.compare}
        return plain_json({name: value for name, value in self.result.items() if name not in beside})

    def __add__(self, other: object) -> Any:
        return _calculate_with_operator("+", self, other)

    def __radd__(self, other: object) -> Any:
        return _calculate_with_operator("+", other, self)

    def __sub__(self, other: object) -> Any:
        return _calculate_with_operator("-", self, other)

    def __rsub__(self, other: object) -> Any:
        return _calculate_with_operator("-", other, self)

    def __mul__(self, other: object) -> Any:
        return _calculate_with_operator("*", self, other)

    def __rmul__(self, other: object) -> Any:
        return _calculate_with_operator("*", other, self)

    def __truediv__(self, other: object) -> Any:
        return _calculate_with_operator("/", self, other)

    def __rtruediv__(self, other: object) -> Any:
        return _calculate_with_operator("/", other, self)

    def __neg__(self) -> Any:
        return _calculate_with_operator("*", -1, self)

    # The number that the release is about, where it is about one: noise and all.
    def __lt__(self, other: Any) -> Any:
        return _compare_numbers(op.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return _compare_numbers(op.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return _compare_numbers(op.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return _compare_numbers(op.ge, self, other)

    def __float__(self) -> float:
        return _number_of(self)

    def __round__(self, digits: int | None = None) -> float:
        return round(_number_of(self), digits)

    def __format__(self, spec: str) -> str:
        return format(_number_of(self), spec) if spec else str(self)

    def paid(self, privacy: Privacy) -> Self:
        """Return the same result with the privacy that was paid for it, and notes on samples and found bounds."""
        return replace(self._with_notes_on(privacy), privacy=privacy)

    def _with_notes_on(self, privacy: Privacy) -> Self:
        """Return the same result with `covers` and notes adapted to its privacy record."""
        changes: dict[str, Any] = {}
        notes = self.result.get("notes")
        if self.covers is not None:
            covers = self.covers.replace("table", "sample") if privacy.sample else self.covers
            changes["covers"] = mark_limited(covers) if privacy.found else covers
        if isinstance(notes, tuple):
            if privacy.sample:
                notes = tuple(name_sample(each) if isinstance(each, str) else each for each in notes)
            more = privacy.rows_note * self._assumes_independent_rows, privacy.found_note
            changes["notes"] = (*notes, *(each for each in more if each and each not in notes))
        return replace(self, **changes) if changes else self

    @property
    def _assumes_independent_rows(self) -> bool:
        """Whether the answer assumes independent rows: intervals for a table's own number do not, p-values do."""
        return (self.covers or "population").endswith("population") or hasattr(self, "pvalue")

    def with_library(
        self, library: str, words: Mapping[str, str] | None = None, units: Mapping[str, str] | None = None
    ) -> Self:
        """Return the same result with the caller's dataframe library, and labels and units of columns."""
        if words is None:
            return replace(self, library=library)
        return replace(self, library=library, column_words=words, column_units=units or {})

    def with_counts_at_most(self, rows: int | None) -> Self:
        """Return the same result with noisy numbers of rows clipped to the public number, if it is known."""
        if rows is None:
            return self

        def clamp_number(number: Any) -> Any:
            if isinstance(number, tuple):
                return tuple(map(clamp_number, number))
            return min(number, float(rows)) if isinstance(number, float) else number

        return replace(self, **{name: clamp_number(getattr(self, name)) for name in self._row_counts})

    def _with_units(self, *columns: str) -> str:
        """Return the labels of columns with their units; a column without a label has its name."""
        return ", ".join(self.column_words.get(column, column) for column in columns)

    def _unit(self, column: str) -> str:
        """Return the units of a column; empty if the schema has none."""
        return self.column_units.get(column, "")

    def _label(self, *columns: str) -> str:
        """Return the labels of columns without their units, for a sentence."""
        return list_text([self._with_units(name).removesuffix(f" ({self._unit(name)})") for name in columns])

    def _parts(self) -> list[tuple[dict[str, Any], Release]]:
        """Return the parts of the release, such as groups, each with the categories by column of its rows."""
        return [({}, self)]

    def _replicates(self) -> Mapping[str, Any]:
        """Return the release's numbers by name, recomputed with drawn noise; draws are along the last axis.

        An array of a tuple, a dictionary or an array has the same shape as the field. The draws follow from the ids
        of measurements (`dfprivacy.inference.draws.noise_draws`), so that answers that share one share its noise.
        """
        raise ArgumentError(
            f"The noise in {type(self).__name__} cannot be drawn again.",
            "Combine answers that follow from noisy sums: means, counts, tests of means, regressions. If another "
            "answer is too inaccurate, ask its question again with fresh=True and a larger epsilon.",
        )

    @property
    def _sampling_error(self) -> float | None:
        """Standard error of the estimate from the sampling of rows alone; None if it is not known."""
        return None

    @property
    def _noise_part(self) -> float | None:
        """Part of the interval's width that is due to the noise; None if it is not known."""
        return None

    @property
    def _axis_label(self) -> str:
        """Label of the estimate on the axis of a picture; by default the question."""
        return self.privacy.question if self.privacy else ""

    @trimmed
    def plot(self, ax: Any = None) -> Any:  # noqa: ARG002
        """Draw the release, if its class has a plot.

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
        raise ArgumentError(f"{type(self).__name__} has no plot.", "Use to_frame() or to_dict().")


arithmetic: list[Callable[[str, object, object], Any]] = []
"""Function that adds, subtracts, multiplies and divides releases: set by `dfprivacy.combine`."""


def _calculate_with_operator(operator: str, first: object, second: object) -> Any:
    if not all(isinstance(part, Release) or _is_number(part) for part in (first, second)):
        return NotImplemented
    return arithmetic[0](operator, first, second)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Fraction | Decimal | np.number) and not isinstance(value, bool)


def main_number(release: Release) -> Any:
    """Return the main number of a release, such as its estimate; None if it has no single main number."""
    value = getattr(release, release._estimate, None)  # noqa: SLF001 - of our own kind
    return value if _is_number(value) else None


def _number_of(release: Release) -> float:
    value = main_number(release)
    if value is None:
        raise ArgumentError(
            f"{type(release).__name__} has no single main number.", "Use one of its attributes, or to_frame()."
        )
    return float(value)


def _compare_numbers(comparison: Callable[[float, float], bool], release: Release, other: Any) -> Any:
    if not (isinstance(other, Release) or _is_number(other)):
        return NotImplemented
    return comparison(_number_of(release), _number_of(other) if isinstance(other, Release) else float(other))


@dataclass(frozen=True, kw_only=True, repr=False)
class Value(Release):
    """Release without a class of its own: a number, an array, or a dictionary of them."""

    value: Any

    _estimate: ClassVar[str] = "value"


@dataclass(frozen=True, kw_only=True, repr=False)
class Groups(Release, Generic[R_co]):
    """One release for each group of a view's ``group_by``: ``groups["north"]``, and like a dictionary ``items()``.

    Attributes
    ----------
    by : str or tuple of str
        The column, or the columns.
    groups : tuple
        The groups: categories of the column, or tuples with one of each column.
    releases : tuple of Release
        One for each group, in the same order.
    """

    by: str | tuple[str, ...]
    groups: tuple[Any, ...]
    releases: tuple[R_co, ...]

    @trimmed
    def __getitem__(self, key: object) -> R_co:
        if key not in self.groups:
            raise ArgumentError(
                f"The answer by {self.by!r} has no group with this key.", f"The groups are {list(self.groups)!r}."
            )
        return self._group_release(self.groups.index(key))

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the groups, as over the keys of a dictionary."""
        return iter(self.groups)

    def keys(self) -> tuple[Any, ...]:
        """Return the groups, as keys of a dictionary: ``dict(groups)`` has a release for each group."""
        return self.groups

    def values(self) -> list[R_co]:
        """Return the release of each group, in order."""
        return [release for _, release in self.items()]

    def items(self) -> list[tuple[Any, R_co]]:
        """Return pairs of group and release, in order; each release has the conditions of its group's rows."""
        return [(key, self._group_release(at)) for at, key in enumerate(self.groups)]

    def _group_release(self, at: int) -> R_co:
        """Return the release of a group, with the privacy record of all groups and the conditions of its rows."""
        each, key = self.releases[at], self.groups[at]
        if self.privacy is None:
            return each
        by, of = ([self.by], [key]) if isinstance(self.by, str) else (list(self.by), key)
        where = (*self.privacy.where, *(f"{name} = {category}" for name, category in zip(by, of, strict=True)))
        question = self.privacy.question.removesuffix(f" by {', '.join(by)}")
        return replace(each, privacy=replace(self.privacy, question=question, where=where))

    @property
    def _comparable_json(self) -> str:
        return plain_json([self.by, self.groups, [each._comparable_json for each in self.releases]])  # noqa: SLF001 - own

    @property
    def _assumes_independent_rows(self) -> bool:
        return any(each._assumes_independent_rows for each in self.releases)  # noqa: SLF001 - of our own kind

    def _group_keys(self) -> list[dict[str, Any]]:
        """Return the key of each group as a dictionary of categories by column."""
        if isinstance(self.by, str):
            return [{self.by: key} for key in self.groups]
        return [dict(zip(self.by, key, strict=True)) for key in self.groups]

    def _parts(self) -> list[tuple[dict[str, Any], Release]]:
        named = zip(self._group_keys(), self.releases, strict=True)
        return [({**group, **of}, part) for group, each in named for of, part in each._parts()]  # noqa: SLF001 - own

    def _labels(self) -> list[str]:
        return [", ".join(map(str, named.values())) for named in self._group_keys()]

    def _grid(self) -> Grid | None:
        """Return the stacked grids of all groups, if their columns agree, or a grid with one row for each group."""
        tables = [release._grid() for release in self.releases]  # noqa: SLF001 - of our own kind
        if facts := all(table is None for table in tables):
            tables = [facts_row(release._full_rows()) for release in self.releases]  # noqa: SLF001 - as above
        grids = [table for table in tables if table is not None]
        heads = list(dict.fromkeys(tuple(grid.heads) for grid in grids))
        if not heads or len(grids) < len(tables) or (len(heads) > 1 and not facts):
            return None
        if facts:
            return self._facts_grid(tables)
        labels, by = self._labels(), self._by_words
        own, *rest = heads[0]
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

    @property
    def _by_words(self) -> str:
        """Heading of the column of groups: names of the columns."""
        return self.by if isinstance(self.by, str) else ", ".join(self.by)

    def _facts_grid(self, facts: list[Grid | None]) -> Grid:
        """Return a grid with a row for each group from the facts of each, some of which not every group has."""
        told = [dict(zip(grid.heads, *grid.rows, strict=True)) if grid else {} for grid in facts]
        names = list(dict.fromkeys(name for of in told for name in of if name))
        cells = [
            (label, *(of.get(name, "") for name in names)) for label, of in zip(self._labels(), told, strict=True)
        ]
        return Grid((self._by_words, *names), cells)

    def _own_and_common_facts(self) -> tuple[list[list[tuple[str, str]]], list[tuple[str, str]]]:
        """Return the facts of each group that not all groups have, and the common facts."""
        every = [replace(release, privacy=self.privacy)._full_rows() for release in self.releases]  # noqa: SLF001 - own
        common = [row for row in every[0] if all(row in rows for rows in every)]
        return [[row for row in rows if row not in common] for rows in every], common

    def _group_facts(self) -> list[tuple[str, str]]:
        """Return the facts that are in no table: those that differ, labelled by group, and the common ones."""
        every, common = self._own_and_common_facts()
        if all(release._grid() is None for release in self.releases):  # noqa: SLF001 - of our own kind
            common = [row for row in common if row[0] in BELOW]
        named = zip(self._labels(), every, strict=True)
        own = [(label, f"{name} {text}") for label, rows in named for name, text in rows if name in BELOW]
        return [*own, *common]

    def _grids(self) -> list[Grid]:
        """Return the grids; facts that differ between groups are a row for each group, below tables of groups."""
        first, *rest = super()._grids()
        facts = [facts_row(rows) for rows in self._own_and_common_facts()[0]]
        if any(facts) and any(release._grid() is not None for release in self.releases) and first.heads:  # noqa: SLF001
            rest.insert(0, self._facts_grid(facts))
        return [first, *rest]

    def _page_grids(self) -> list[Grid]:
        if not all(each._has_tidy_rows for each in self.releases):  # noqa: SLF001 - of our own kind
            return self._grids()
        facts = self._group_facts()
        return [rows_to_grid(self.records(), self.releases[0]), *([Grid((), facts)] if facts else [])]

    def _rows(self) -> list[tuple[str, str]]:
        if self._grid() is not None:
            return self._group_facts()
        brief = (release._one_line() for release in self.releases)  # noqa: SLF001 - of our own kind
        names = (", ".join(f"{name} = {key}" for name, key in named.items()) for named in self._group_keys())
        return list(zip(names, brief, strict=True))

    def _with_notes_on(self, privacy: Privacy) -> Self:
        told = tuple(each._with_notes_on(privacy) for each in self.releases)  # noqa: SLF001 - of our own kind
        return replace(self, releases=told)

    def with_library(
        self, library: str, words: Mapping[str, str] | None = None, units: Mapping[str, str] | None = None
    ) -> Self:
        """Return the same result with the caller's dataframe library, and labels and units of columns."""
        made = super().with_library(library, words, units)
        return replace(made, releases=tuple(each.with_library(library, words, units) for each in self.releases))

    def _sentence(self) -> str:
        """Return a sentence on the groups with the lowest and highest number, or else on the first group."""
        by = [self.by] if isinstance(self.by, str) else [*self.by]
        labels, told = self._labels(), [after_colon(each._qualified_sentence) for each in self.releases]  # noqa: SLF001 - of our own kind
        of = f"{len(self)} group{'s' * (len(self) != 1)} of {self._label(*by)}"
        numbers = [value for value, *_ in filter(None, map(_number_with_ends, self.releases))]
        tested = getattr(self.releases[0], "pvalue", None) is not None
        adjusted = " The p-values are not adjusted for the number of groups." * (tested and len(self) > 1)
        if 1 < len(numbers) == len(self):
            least, most = numbers.index(min(numbers)), numbers.index(max(numbers))
            what = f" {getattr(self.releases[0], 'effect', None) or 'estimate'}" if tested else ""
            return (
                f"Lowest{what} of the {of}: {labels[least]}, {told[least]} Highest: {labels[most]}, {told[most]}"
                f"{adjusted}"
            )
        return f"{of}, one answer each. {labels[0]}: {told[0]}{adjusted}"

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate and interval of each group, or else the plots of all groups, one below the other.

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
        rows = [_number_with_ends(release) for release in self.releases]
        numbers = [row for row in rows if row is not None]
        if len(numbers) < len(rows):
            return stack_plots(self._labels(), [release.plot for release in self.releases], ax)
        first = self.releases[0]
        what = first._axis_label or self._axis_label  # noqa: SLF001 - of our own kind
        level = getattr(first, "confidence", None)
        noise = [each._noise_part for each in self.releases]  # noqa: SLF001 - as above
        ax = forest(self._labels(), numbers, what, ax, noise=noise, confidence=level)
        ax.set_ylabel(self._with_units(*([self.by] if isinstance(self.by, str) else self.by)))
        return ax

    def records(self) -> list[dict[str, Any]]:
        """Return the rows of all groups as dictionaries, with the group in the first column or columns.

        Returns
        -------
        list of dict
            As for one release.
        """
        parts = zip(self._group_keys(), self.releases, strict=True)
        return [prefix_columns(named, row) for named, each in parts for row in each.records()]


def _number_with_ends(release: Release) -> tuple[float, float, float] | None:
    """Return the main number of a release and the ends of its interval; None if any of them is not finite."""
    value, *ends = (getattr(release, name, None) for name in (release._estimate, "low", "high"))  # noqa: SLF001
    known = all(isinstance(each, float) and math.isfinite(each) for each in (value, *ends))
    return (value, *ends) if known else None  # type: ignore[return-value]
