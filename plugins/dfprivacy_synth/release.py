"""Synthetic tables, and estimates of the private table from their noisy contingency tables."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Release
from dfprivacy.markup import Grid
from dfprivacy.plotting import axes
from dfprivacy.schema import as_probability
from dfprivacy_synth import answers
from dfprivacy_synth.answers import SynthAnswer
from dfprivacy_synth.coding import Coding
from dfprivacy_synth.model import Clique, Model, NoisyTable, make_consistent, margin

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Measured", "Synth"]

_DIGITS = 2  # of a noisy count that is kept
_MARK = "dfprivacy.synthetic"
_EXAMPLE_EPSILON = 0.1
_REGRESSORS_MAX, _TERMS_MAX = 8, 4096


@dataclass(frozen=True)
class Measured:
    """Measurement of a synthetic table: codings of columns, noisy contingency tables, and their cliques.

    Attributes
    ----------
    codings : tuple of Coding
        Of each column.
    single : tuple of NoisyTable
        The counts of the codes of each column.
    cliques : tuple of Clique
        The order in which columns came into the model.
    tables : tuple of NoisyTable
        The table of each clique.
    rows : float
        The number of rows, noisy where it is private.
    public_rows : bool
        Whether it is public.
    relation : str
        The neighbouring relation.
    """

    codings: tuple[Coding, ...]
    single: tuple[NoisyTable, ...]
    cliques: tuple[Clique, ...]
    tables: tuple[NoisyTable, ...]
    rows: float
    public_rows: bool
    relation: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Synth(Release):
    """Synthetic table, together with the noisy contingency tables that it is drawn from.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    codings : tuple of dict
        How the values of each are coded, as plain values.
    cliques : tuple of (tuple of int, tuple of int)
        Of each measured table, the places of the columns that are new in it, and of those that it joins them to.
    counts : tuple of ndarray
        The noisy counts of its cells, one axis a column in the order of the places.
    noise : tuple of float
        The standard error of these counts.
    single_counts : tuple of ndarray
        The noisy counts of the codes of each column.
    single_variances : tuple of ndarray
        The variance of the noise in each of these.
    size : float
        Rows of the table; noisy where their number is private.
    public_size : bool
        Whether it is public.
    relation : str
        The neighbouring relation.
    target : str or None
        The column that every table holds, if one was asked.
    notes : tuple of str
        What to know before trusting the rows.
    """

    columns: tuple[str, ...]
    codings: tuple[Mapping[str, Any], ...]
    cliques: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    counts: tuple[NDArray[np.float64], ...]
    noise: tuple[float, ...]
    single_counts: tuple[NDArray[np.float64], ...]
    single_variances: tuple[NDArray[np.float64], ...]
    size: float
    public_size: bool
    relation: str
    target: str | None = None
    notes: tuple[str, ...] = ()

    _shown: ClassVar[tuple[str, ...]] = ("size", "measured", "notes")

    @classmethod
    def from_measurement(cls, measured: Measured, target: str | None) -> Synth:
        """Construct a synthetic table from its measurement."""
        joint = sum(len(table.columns) > 1 for table in measured.tables)
        d = len(measured.codings)
        notes = []
        if joint < d - 1:
            alone = [
                coding.name
                for place, coding in enumerate(measured.codings)
                if not any(place in table.columns and len(table.columns) > 1 for table in measured.tables)
            ]
            notes.append(
                f"Noise would hide any relation of {', '.join(alone)} with other columns at this epsilon, so "
                "these columns are independent of the others in synthetic rows."
            )
        return cls(
            columns=tuple(coding.name for coding in measured.codings),
            codings=tuple(coding.plain for coding in measured.codings),
            cliques=tuple((clique.new, clique.separator) for clique in measured.cliques),
            counts=tuple(np.round(table.counts, _DIGITS) for table in measured.tables),
            noise=tuple(float(np.sqrt(np.max(table.variance))) for table in measured.tables),
            single_counts=tuple(np.round(table.counts, _DIGITS) for table in measured.single),
            single_variances=tuple(np.asarray(table.variance) for table in measured.single),
            size=measured.rows,
            public_size=measured.public_rows,
            relation=measured.relation,
            target=target,
            notes=tuple(notes),
        )

    @cached_property
    def _codes(self) -> tuple[Coding, ...]:
        return tuple(map(Coding.from_plain, self.codings))

    @cached_property
    def _tables(self) -> list[NoisyTable]:
        return [
            NoisyTable(Clique(*map(tuple, clique)).columns, np.asarray(counts), np.asarray(noise**2))
            for clique, counts, noise in zip(self.cliques, self.counts, self.noise, strict=True)
        ]

    @property
    def _table_names(self) -> list[str]:
        """Label of each contingency table: the names of its columns."""
        return [" × ".join(self.columns[place] for place in table.columns) for table in self._tables]

    @cached_property
    def _one_way_tables(self) -> list[NoisyTable]:
        each = zip(self.single_counts, self.single_variances, strict=True)
        return [NoisyTable((at,), np.asarray(of), np.asarray(var)) for at, (of, var) in enumerate(each)]

    @cached_property
    def _model(self) -> Model:
        fitted = make_consistent([*self._tables, *self._one_way_tables], self.size)
        cliques = tuple(Clique(*map(tuple, each)) for each in self.cliques)
        return Model(tuple(code.size for code in self._codes), cliques, tuple(fitted[: len(cliques)]))

    # ---- rows ----------------------------------------------------------------------------------------------

    def sample(self, n: int | None = None, *, seed: int | None = None) -> Any:
        """Draw synthetic rows, at no cost.

        Parameters
        ----------
        n : int, optional
            How many; default: as many as the table has.
        seed : int, optional
            The same seed gives the same rows; default: other rows each time.

        Returns
        -------
        DataFrame
            Of the library of the table, with its columns. A pandas table says in ``attrs`` that it is synthetic, an
            Arrow table in the metadata of its schema, and so do Parquet files of both.

        Raises
        ------
        ArgumentError
            If n is below 0.
        """
        frame = self._table(self._drawn_columns(n, seed))
        if hasattr(frame, "attrs"):
            frame.attrs[_MARK] = self._file_metadata
        elif hasattr(frame, "replace_schema_metadata"):
            frame = frame.replace_schema_metadata({_MARK: json.dumps(self._file_metadata)})
        return frame

    def to_frame(self, library: str | None = None) -> Any:
        """Return a synthetic table with the same number of rows as the private one, identical at each call.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            Whose table to make; default: the library's that holds the table that was asked.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            As `sample` returns them.
        """
        return (self if library is None else self.with_library(library)).sample(seed=0)

    @property
    def _file_metadata(self) -> dict[str, Any]:
        """Metadata of a file of synthetic rows: what they are, the columns measured, epsilon and delta."""
        paid = self.privacy
        return {
            "what": "synthetic rows, none of which is a person's",
            "by": "dfprivacy",
            "measured": [list(names) for names in self.measured],
            "epsilon": None if paid is None else paid.epsilon,
            "delta": None if paid is None else paid.delta,
        }

    def _drawn_columns(self, n: int | None, seed: int | None) -> dict[str, list[Any]]:
        rows = round(self.size) if n is None else n
        if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 0:
            raise ArgumentError(f"n={n!r} is not a number of rows.", "Give an integer of at least 0.")
        rng = np.random.default_rng(seed)
        codes = self._model.sample(int(rows), rng)
        return {code.name: code.decode(codes[:, at], rng) for at, code in enumerate(self._codes)}

    # ---- what is known -------------------------------------------------------------------------------------

    @property
    def measured(self) -> tuple[tuple[str, ...], ...]:
        """Columns of each measured contingency table that has at least two columns."""
        known = (table.columns for table in self._tables if len(table.columns) > 1)
        return tuple(tuple(self.columns[place] for place in places) for places in known)

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """Interval of each numeric column, within its bounds, outside of which noise hides all rows."""
        return {code.name: (code.values[0], code.values[-1]) for code in self._codes if code.numeric}

    def knows(self, *columns: str) -> bool:
        """Return whether a measured contingency table contains all of the given columns.

        Parameters
        ----------
        *columns : str
            Names of columns.

        Returns
        -------
        bool
            True for a single column.

        Raises
        ------
        ArgumentError
            If there is no such column.
        """
        places = set(map(self._column_index, columns))
        return len(places) <= 1 or any(places <= set(table.columns) for table in self._tables)

    @property
    def errors(self) -> Any:
        """Expected and actual total variation error of each measured contingency table, as a table.

        ``expected`` is the mean total variation, half the sum of absolute differences of shares, of the measured
        counts from the exact ones; ``seen`` that of the measured counts from those that drawn rows follow.
        """
        fitted, rows = self._model.tables, max(self.size, 1.0)
        cells = [table.counts.size for table in self._tables]
        expected = [
            math.sqrt(2 / math.pi) * noise * size / (2 * rows)
            for noise, size in zip(self.noise, cells, strict=True)
        ]
        seen = [
            float(np.abs(table.counts - other).sum() / (2 * rows))
            for table, other in zip(self._tables, fitted, strict=True)
        ]
        return self._table({"table": self._table_names, "cells": cells, "expected": expected, "seen": seen})

    def plot(self, ax: Any = None) -> Any:
        """Draw the measured pairs of columns as squares, darker for a larger Cramér's V."""
        ax, d = axes(ax, height=max(0.3 * len(self.columns) + 1.5, 3.0)), len(self.columns)
        shade = np.full((d, d), np.nan)
        for table in self._tables:
            for pair in itertools.combinations(table.columns, 2):
                counts, variance = table.margin(pair)
                shade[pair] = shade[pair[::-1]] = _cramers_v(counts, float(variance.max()))
        image = ax.imshow(np.ma.masked_invalid(shade), cmap="Blues", vmin=0, vmax=1)
        names = [self._with_units(name) for name in self.columns]
        ax.set_xticks(range(d), names, rotation=90)
        ax.set_yticks(range(d), names)
        ax.figure.colorbar(image, ax=ax, label="Cramér's V")
        ax.set_facecolor("0.9")
        ax.set_title("gray: not measured", fontsize="small")
        return ax

    def compare(self, column: str, ax: Any = None, *, confidence: float = 0.95) -> Any:
        """Draw the shares of a column's codes in the synthetic table, beside measured shares with intervals.

        Parameters
        ----------
        column : str
            The column.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.
        confidence : float
            Coverage of the intervals, for the private table's own shares.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ArgumentError
            If there is no such column.
        """
        place = self._column_index(column)
        at = next(at for at, table in enumerate(self._tables) if place in table.columns)
        drawn = margin(self._model.tables[at], self._tables[at].columns, [place])
        counts, noise = self.counts_of(column)
        reach = noise * ndtri((1 + as_probability(confidence, "confidence")) / 2)
        rows, labels = (
            max(self.size, 1.0),
            [*self._value_labels(column), *(["missing"] if self._coding(column).missing else [])],
        )
        ax, places = axes(ax, height=max(0.22 * len(labels) + 1.2, 2.2)), np.arange(len(labels))
        ax.barh(places, drawn / rows, color="0.8", label="synthetic table")
        low, high = np.maximum(counts - reach, 0) / rows, np.maximum(counts + reach, 0) / rows
        ax.hlines(places, low, high, color="C0", label=f"measured, {100 * confidence:g}% interval")
        ax.set_yticks(places, labels)
        ax.invert_yaxis()
        ax.set(xlabel=f"share of {self._with_units(column)}")
        ax.legend(fontsize="small")
        return ax

    def _sentence(self) -> str:
        """Write a sentence with the columns, the number of rows and the number of measured tables."""
        joint = self.measured
        about = "" if self.public_size else "about "
        return (
            f"A synthetic table of {self._label(*self.columns)} with {about}{self.size:,.0f} rows, from "
            f"{len(joint):,} measured table{'s' * (len(joint) != 1)} of two or three columns. Other relations "
            "follow from a model."
        )

    def _grid(self) -> Grid:
        rows = max(self.size, 1.0)
        return Grid(
            ("measured table", "cells", "standard error of a count", "of the rows"),
            [
                (name, f"{counts.size:,}", f"{noise:.3g}", f"{noise / rows:.2%}")
                for name, counts, noise in zip(self._table_names, self.counts, self.noise, strict=True)
            ],
        )

    def _rows(self) -> list[tuple[str, str]]:
        return [("note", note) for note in self.notes]

    def _tidy(self) -> list[dict[str, Any]]:
        return [dict(self._drawn_columns(None, 0))]

    # ---- answers -------------------------------------------------------------------------------------------

    def counts_of(self, *columns: str) -> tuple[NDArray[np.float64], float]:
        """Return the noisy counts of columns' codes from the most accurate table, and their standard error.

        Parameters
        ----------
        *columns : str
            Names of columns, each once.

        Returns
        -------
        tuple of ndarray and float
            The counts, one axis a column, and the standard error of each.

        Raises
        ------
        ArgumentError
            If no measured table holds the columns together.
        """
        places = [self._column_index(name) for name in columns]
        if len(set(places)) < len(places):
            raise ArgumentError(f"A column is named twice in {columns!r}.", "Name each column once.")
        held = [table for table in (*self._tables, *self._one_way_tables) if set(places) <= set(table.columns)]
        if not held:
            raise self._not_measured_error(columns)
        found = [table.margin(places) for table in held]
        counts, variance = min(found, key=lambda each: float(np.max(each[1])))
        order = sorted(places)
        return counts.transpose([order.index(place) for place in places]), math.sqrt(float(np.max(variance)))

    def category_counts(self, columns: Mapping[str, Sequence[Any]]) -> tuple[NDArray[np.float64], float] | None:
        """Return the noisy counts of categories or of combinations; None if they were not all counted separately.

        Parameters
        ----------
        columns : mapping of str to sequence
            The categories of each column.

        Returns
        -------
        tuple of ndarray and float, or None
            The counts, one axis a column, and their standard error. None if the columns were not measured together,
            rare categories were counted as one, or the categories are others.
        """
        codes = {code.name: code for code in self._codes}
        if not all(name in codes and codes[name].is_one_to_one for name in columns) or not self.knows(*columns):
            return None
        if any(codes[name].values != tuple(known) for name, known in columns.items()):
            return None
        return self._cells(*columns)

    def _not_measured_error(self, columns: Sequence[str]) -> ArgumentError:
        """Return the error for columns that were not measured together, with a call that measures them."""
        moved = 2 if self.relation == "replace_one" else 1
        reach = moved / _EXAMPLE_EPSILON * math.log(20)
        together = " x ".join(columns)
        asked = ", ".join(map(repr, columns))
        known = [name for name in self.columns if name not in columns and self.knows(columns[0], name)]
        also = f" Measured with {columns[0]!r}: {', '.join(known)}." if known else ""
        if len(columns) > 2:  # noqa: PLR2004
            return ArgumentError(
                f"{together} were not measured together, and the synthetic table only assumes how they are related."
                f"{also}",
                "Call the method of the view, or use fewer columns.",
            )
        return ArgumentError(
            f"{together} was not measured, and the synthetic table only assumes how they are related.{also}",
            f"view.crosstab({asked}, epsilon={_EXAMPLE_EPSILON:g}) would measure it, each count to ± {reach:.0f} "
            "rows.",
        )

    def _column_index(self, name: str) -> int:
        if name not in self.columns:
            raise ArgumentError(
                f"The synthetic table has no column {name!r}.", f"It has {', '.join(map(repr, self.columns))}."
            )
        return self.columns.index(name)

    def _coding(self, name: str) -> Coding:
        return self._codes[self._column_index(name)]

    def _require_categories(self, name: str) -> None:
        if self._coding(name).numeric:
            raise ArgumentError(f"{name!r} is a numeric column.", "Name a categorical column.")

    def _cells(self, *columns: str) -> tuple[Array, float]:
        """Return the noisy counts of all codes except those of missing values, and their standard error."""
        counts, noise = self.counts_of(*columns)
        for axis, name in enumerate(columns):
            if self._coding(name).missing:
                counts = np.delete(counts, -1, axis=axis)
        return counts, noise

    def _few_cells(self, *columns: str) -> tuple[Array, float]:
        """Return the counts of `_cells`; raise an error if they are more than an answer can have terms."""
        counts, noise = self._cells(*columns)
        if counts.size > _TERMS_MAX:
            raise ArgumentError(
                f"{' x '.join(columns)} has {counts.size:,} cells, and an answer has at most {_TERMS_MAX:,} terms.",
                "counts_of() returns all noisy counts and their standard error.",
            )
        return counts, noise

    def _value_labels(self, name: str) -> list[str]:
        labels = self._coding(name).labels
        known = labels[:-1] if self._coding(name).missing else labels
        if self._coding(name).numeric:
            return [f"{low:.6g} to {high:.6g}" for low, high in known]
        return [str(label) for label in known]

    def crosstab(self, column: str, by: str | None = None, *, confidence: float = 0.95) -> SynthAnswer:
        """Estimate the number of rows in each category, or combination of two columns' categories, at no cost.

        Parameters
        ----------
        column : str
            A column; numbers are counted by interval.
        by : str, optional
            Another column.
        confidence : float
            Coverage of each interval, for the table's own number.

        Returns
        -------
        SynthAnswer
            A term for each cell.

        Raises
        ------
        ArgumentError
            If the columns were not measured together.
        """
        names = (column,) if by is None else (column, by)
        cells, noise = self._few_cells(*names)
        labels = [[f"{name} = {value}" for value in self._value_labels(name)] for name in names]
        terms = [", ".join(each) for each in itertools.product(*labels)]
        found = answers.counts(cells.ravel(), noise)
        return self._answer("Rows", terms, found, confidence, cells, covers="table")

    def proportions(self, column: str, by: str | None = None, *, confidence: float = 0.95) -> SynthAnswer:
        """Estimate the share of each category, among all rows or by the categories of another column.

        Parameters
        ----------
        column : str
            A column with categories.
        by : str, optional
            Another column; numbers are grouped by interval.
        confidence : float
            Coverage of each interval, for the population.

        Returns
        -------
        SynthAnswer
            A term for each share.

        Raises
        ------
        ArgumentError
            If the columns were not measured together.
        """
        self._require_categories(column)
        cells, noise = self._few_cells(column) if by is None else self._few_cells(column, by)
        found = answers.shares(cells.reshape(len(cells), -1), noise)
        terms = [
            f"{column} = {category}" if group is None else f"{column} = {category}, {by} = {group}"
            for category in self._value_labels(column)
            for group in ([None] if by is None else self._value_labels(by))
        ]
        return self._answer("Share", terms, found, confidence, cells)

    def mean(self, column: str, by: str | None = None, *, confidence: float = 0.95) -> SynthAnswer:
        """Estimate the mean of a numeric column, over all rows or by the categories of another column.

        Parameters
        ----------
        column : str
            A column with bounds. Values count as limited to them, and as the middle of their interval.
        by : str, optional
            Another column.
        confidence : float
            Coverage of each interval, for the population.

        Returns
        -------
        SynthAnswer
            A term for each mean.

        Raises
        ------
        ArgumentError
            If the columns were not measured together.
        """
        cells, noise = self._number_cells(column, by)
        found = answers.means(cells, noise, self._coding(column))
        terms = ["all rows"] if by is None else [f"{by} = {group}" for group in self._value_labels(by)]
        return self._answer(
            f"Mean of {column}",
            terms,
            found,
            confidence,
            cells,
            covers="limited population",
            notes=self._limit_notes(column),
        )

    def ttest(
        self, column: str, by: str, groups: Sequence[Any] | None = None, *, confidence: float = 0.95
    ) -> SynthAnswer:
        """Test the difference of the means of two groups by Welch's test.

        Parameters
        ----------
        column : str
            A column with bounds.
        by : str
            A column with categories.
        groups : sequence of two categories, optional
            The groups, first minus second; default: those of `by`, if it has two.
        confidence : float
            Coverage of the interval, for the population.

        Returns
        -------
        SynthAnswer
            One term, with its p-value.

        Raises
        ------
        ArgumentError
            If the columns were not measured together, or the groups are not two categories with codes of their own.
        """
        self._require_categories(by)
        known = self._value_labels(by)
        named = known if groups is None else [str(group) for group in groups]
        if len(named) != 2 or not set(named) <= set(known) or named[0] == named[1]:  # noqa: PLR2004
            raise ArgumentError(
                f"{by!r} does not have exactly two categories."
                if groups is None
                else f"groups={groups!r} are not two categories of {by!r}.",
                f"Name two of {known!r} as groups=; rare categories count as one.",
            )
        cells, noise = self._number_cells(column, by)
        cells = cells[:, [known.index(name) for name in named]]
        found = answers.difference_of_means(cells, noise, self._coding(column))
        of, terms = f"Difference of the means of {column}", [f"{by} = {named[0]} minus {named[1]}"]
        return self._answer(
            of,
            terms,
            found,
            confidence,
            cells,
            tested=True,
            covers="limited population",
            notes=self._limit_notes(column),
        )

    def ols(self, formula: str, *, confidence: float = 0.95) -> SynthAnswer:
        """Estimate a linear regression by least squares.

        Parameters
        ----------
        formula : str
            As ``"income ~ age"``: a number, or a category of two, on one or two other columns. The first category
            is the reference.
        confidence : float
            Coverage of each interval, for the population.

        Returns
        -------
        SynthAnswer
            A term for each coefficient, with robust standard errors and p-values.

        Raises
        ------
        ArgumentError
            If the formula is not of this kind, or the columns were not measured together.
        """
        response, _, right = formula.partition("~")
        names = [name.strip() for name in (response, *right.split("+"))]
        if not all(names):
            raise ArgumentError(
                f"formula={formula!r} is not of the form 'income ~ age + sex'.", "Write outcome ~ column + column."
            )
        for name in names:
            self._column_index(name)
        cells, noise = self._cells(*names)
        terms = [self._regressor_names(name) for name in names]
        if len(terms[0]) != 1:
            raise ArgumentError(
                f"{names[0]!r} does not have exactly two categories.",
                "Name a numeric column, or one with two categories.",
            )
        if (regressors := sum(map(len, terms[1:]))) > _REGRESSORS_MAX:
            raise ArgumentError(
                f"{formula!r} has {regressors} regressors, and at most {_REGRESSORS_MAX} can be estimated.",
                "Omit a column with many categories, or call view.ols().",
            )
        numbers = {axis: code for axis, code in enumerate(map(self._coding, names)) if code.numeric}

        def columns(means: Mapping[int, Array]) -> list[Array]:
            of = []
            for axis in range(len(names)):
                own = [means[axis]] if axis in means else np.eye(cells.shape[axis])[1:]
                wide = [size if at == axis else 1 for at, size in enumerate(cells.shape)]
                of += [np.broadcast_to(np.reshape(each, wide), cells.shape) for each in own]
            return of

        scales = [
            scale
            for name, of in zip(names, terms, strict=True)
            for scale in [self._origin_and_unit(name)] * len(of)
        ]
        found = answers.regression(cells, noise, numbers, columns, scales)
        return self._answer(
            formula,
            ["intercept", *(term for of in terms[1:] for term in of)],
            found,
            confidence,
            cells,
            tested=True,
            covers="limited population" if numbers else "population",
            notes=self._limit_notes(*names),
        )

    def _regressor_names(self, name: str) -> list[str]:
        """Return the names of a column's regressors: its own name, or indicators of categories but the first."""
        labels = self._value_labels(name)
        if len(labels) == 1:
            raise ArgumentError(
                f"All values of {name!r} have one code, so no dependence on it can be estimated.",
                "Omit it, or release a synthetic table with a larger epsilon.",
            )
        return [name] if self._coding(name).numeric else [f"{name}[{label}]" for label in labels[1:]]

    def _origin_and_unit(self, name: str) -> tuple[float, float]:
        """Return the origin and the unit by which a column of the design matrix is scaled."""
        code = self._coding(name)
        return code.middle_and_half if code.numeric else (0.0, 1.0)

    def _number_cells(self, column: str, by: str | None) -> tuple[Array, float]:
        """Return the noisy counts of a numeric column's codes by group, shape (codes, groups)."""
        if not self._coding(column).numeric:
            raise ArgumentError(f"{column!r} is a categorical column.", "Name a numeric column.")
        cells, noise = self._cells(column) if by is None else self._cells(column, by)
        return cells.reshape(len(cells), -1), noise

    def _limit_notes(self, *names: str) -> tuple[str, ...]:
        """Return notes on the limits of numeric columns, and on the rows beyond the limits."""
        notes = []
        for code in (code for code in map(self._coding, names) if code.numeric):
            low, high = code.values[0], code.values[-1]
            part, error = max(code.beyond, 0.0) / self.size, code.beyond_error / self.size
            beyond = f"; {part:.1%} (± {1.96 * error:.1%}) of the rows lie beyond" if error else ""
            notes.append(
                f"{self._label(code.name)} is clipped to [{low:.6g}, {high:.6g}], where counts exceed the "
                f"noise{beyond}. In each of {len(code.means)} intervals, values are replaced by their mean."
            )
        return tuple(notes)

    def _answer(
        self,
        of: str,
        terms: Sequence[str],
        found: Any,
        confidence: float,
        cells: Array,
        *,
        tested: bool = False,
        covers: str = "population",
        notes: tuple[str, ...] = (),
    ) -> SynthAnswer:
        answer = SynthAnswer.inferred(
            of,
            terms,
            found,
            as_probability(confidence, "confidence"),
            tested=tested,
            n=float(cells.sum()),
            covers=covers,
            notes=notes,
            library=self.library,
        )
        return answer if self.privacy is None else answer.paid(self.privacy)


def _cramers_v(counts: Array, variance: float) -> float:
    """Return Cramér's V of a table of noisy counts, corrected for its bias due to noise and sampling."""
    rows, columns = (np.maximum(counts.sum(axis=axis), 1.0) for axis in (1, 0))
    expected = np.outer(rows, columns) / rows.sum()
    chi2 = float((((counts - expected) ** 2 - variance) / expected).sum()) - (len(rows) - 1) * (len(columns) - 1)
    least = max(min(len(rows), len(columns)) - 1, 1)
    return math.sqrt(min(max(chi2, 0.0) / (rows.sum() * least), 1.0))
