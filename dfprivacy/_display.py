"""Display of releases: as a sentence, as text, as tables of other libraries, as HTML, Markdown and LaTeX."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dfprivacy._visible import visible
from dfprivacy.errors import trimmed
from dfprivacy.markup import Grid, Text, markdown, paragraph
from dfprivacy.tidy import COLUMNS_MAX, csv_of, frame_of, is_scalar, nested_scalars, rows_of, table_of
from dfprivacy.wording import (
    ROW_ERROR,
    clearly_some,
    covered_phrase,
    mark_limited,
    name_sample,
    number,
    pvalue,
    rows_phrase,
    uncertainty,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from dfprivacy.measured import Privacy

__all__ = ["BELOW", "NOTES", "DisplayMixin", "after_colon", "facts_row", "field_as_text", "rows_to_grid"]

_WIDTH = 100  # of a summary
NOTES = frozenset({"note", "notes"})  # rows of sentences, which no column of a table has room for
BELOW = frozenset({"covers", "weights", *NOTES})  # rows that are displayed once, below the groups
_COUNTS = ("n", "rows", "missing")
_DIGITS, _WHOLE = 4, 1e3  # significant digits of a number whose error is not known; from which on it is rounded
_ESTIMATES = ("estimate", "value", "low", "high", "effect")
_NAMES = ("term", "column", "name", "statistic")  # columns of a table that say what an estimate is of


class DisplayMixin:
    """Base class of releases that displays the fields of the result and the price."""

    if TYPE_CHECKING:  # fields of a release

        @property
        def privacy(self) -> Privacy | None: ...

        @property
        def library(self) -> str: ...

        @property
        def covers(self) -> str | None: ...

        @property
        def result(self) -> dict[str, Any]: ...

        @property
        def _assumes_independent_rows(self) -> bool: ...

    _shown: ClassVar[tuple[str, ...]] = ()  # the fields that people look at first; all if empty
    _row_counts: ClassVar[tuple[str, ...]] = ()  # the fields that are numbers of rows
    _estimate: ClassVar[str] = "estimate"  # the field with the number that arithmetic is about

    @trimmed
    def to_frame(self, library: str | None = None) -> Any:
        """Return the estimates as a tidy dataframe: one row for each estimate, with a few columns of plain values.

        Everything else that the result holds is an attribute, and in `to_dict` and `to_json`. Texts are as
        declared or found, for joins: a spreadsheet takes one that begins with ``=``, ``+``, ``-`` or ``@`` for a
        formula.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            The library of the dataframe; default: the library of the protected table.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            At most ten columns, and `covers`. Where they apply: term, estimate, standard_error,
            noise_standard_error, low, high, statistic, df, pvalue, n.
        """
        return frame_of(self.records(), self.library if library is None else library)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Write the rows of `to_frame` as CSV.

        Parameters
        ----------
        path : str or path, optional
            The file to write; default: none.

        Returns
        -------
        str or None
            Lines, where no file is written. A text that a spreadsheet would take for a formula begins with an
            apostrophe.
        """
        text = csv_of(self.records())
        if path is None:
            return text
        Path(path).write_text(text, encoding="utf-8")
        return None

    def records(self) -> list[dict[str, Any]]:
        """Return the rows of `to_frame` as dictionaries.

        Returns
        -------
        list of dict
            Numbers, texts, truth values and None, by column.
        """
        rows = [row for columns in self._tidy() for row in rows_of(columns)]
        for row in rows if self.covers is not None else ():
            covers = row.setdefault("covers", self.covers)
            if covers is not None and self.privacy and self.privacy.found:
                row["covers"] = mark_limited(covers)
        return rows

    def _tidy(self) -> Sequence[Mapping[str, Any]]:
        """Return the estimates as columns of one table, or of several tables to stack.

        By default the fields that fit in a cell are one row, as many as there is room for; if none does, each
        number within is a row.
        """
        result = {name: getattr(self, name) for name in self._shown} or self.result
        cells = {name: value for name, value in result.items() if is_scalar(value) and name != "covers"}
        if cells:
            return [dict(list(cells.items())[:COLUMNS_MAX])]
        places = [*nested_scalars(result)]
        return [{"term": [place for place, _ in places], "value": [value for _, value in places]}]

    def _table(self, columns: Mapping[str, list[Any]]) -> Any:
        """Convert lists by column to a table of the library that holds the protected table."""
        return table_of(columns, self.library)

    def _rows(self) -> list[tuple[str, str]]:
        names = self._shown or tuple(self.result)
        missing = clearly_some(getattr(self, "missing", None), getattr(self, "missing_standard_error", None))
        untold = {"covers"} if missing else {"covers", "missing", "missing_standard_error"}
        values = ((name, getattr(self, name)) for name in names if name not in untold)
        told = [(name, value) for name, value in values if not isinstance(value, tuple | str | None) or value]
        return [(name, field_as_text(name, value, self.result, self)) for name, value in told]

    def _full_rows(self) -> list[tuple[str, str]]:
        """Return the facts of the result, with the quantity that its intervals cover and further notes."""
        rows = self._rows()
        more = (
            (self.privacy.rows_note * self._assumes_independent_rows, self.privacy.found_note)
            if self.privacy
            else ()
        )
        rows += [("note", note) for note in more if note and not any(note in text for _, text in rows)]
        if self.covers is not None and getattr(self, "low", 0.0) is not None:
            at = next((at for at, (name, _) in enumerate(rows) if name in NOTES), len(rows))
            rows = [*rows[:at], ("covers", covered_phrase(self.covers, getattr(self, "bounds", None))), *rows[at:]]
        return [(name, self._for_sample(text)) for name, text in rows]

    def _for_sample(self, text: str) -> str:
        """Write "this sample" for "this table" in a text, if the answer is about a secret sample."""
        sample = bool(self.privacy and self.privacy.sample) or (self.covers or "").endswith("sample")
        return name_sample(text) if sample else text

    def _grid(self) -> Grid | None:
        """Return a grid of many numbers to display above the facts; None if the result has no such grid."""
        return None

    def _one_line(self) -> str:
        """Return all facts about the result as text in one line."""
        grid = self._grid()
        rows = [*([] if grid is None else grid.rows), *self._full_rows()]
        return "; ".join(" ".join(row) for row in rows)

    def _main_field(self, fields: Mapping[str, Any]) -> str | None:
        """Return the name of the estimate's field, or else of the first number within the interval."""
        asked = {"alpha", "confidence"}
        numbers = {name: value for name, value in fields.items() if isinstance(value, float) and name not in asked}
        low, high = numbers.get("low", math.inf), numbers.get("high", -math.inf)
        within = (name for name, value in numbers.items() if low <= value <= high)
        return self._estimate if self._estimate in numbers else next(within, None)

    def _sentence(self) -> str:
        """Return the answer as a sentence, for readers without Python; subclasses override it."""
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
        text = field_as_text(names[0], row[names[0]], {**row, "low": low, "high": high}, self)
        told = f"{names[0]}{f' of {of}' if of else ''} {text}"
        more = f", and {len(rows) - 1:,} more below" if len(rows) > 1 else ""
        whose = rows_phrase(self.covers) if self.covers else ""
        how = uncertainty(low, high, getattr(self, "confidence", None), whose=whose, p=p)
        return f"{question or f'This {type(self).__name__}'} gives {told}{how}{more}."

    @property
    def _uninformative(self) -> bool:
        """Whether a note says that the answer is uninformative."""
        return any("uninformative" in text.lower() for name, text in self._rows() if name in NOTES)

    @property
    def _qualified_sentence(self) -> str:
        """Sentence of the answer, preceded by the conditions on rows, and by a warning if it is uninformative."""
        where = " and ".join(self.privacy.where) if self.privacy else ""
        before = [f"Where {where}: "] if where else []
        before += ["Uninformative: "] if self._uninformative else []
        sentence = self._for_sample(self._sentence())
        return "".join([*before, after_colon(sentence) if before else sentence])

    @property
    def _title(self) -> str:
        """Title of the display: the class of the release, and its question."""
        question = self.privacy.title if self.privacy else ""
        return f"{type(self).__name__}: {question}" if question else type(self).__name__

    def _grids(self) -> list[Grid]:
        grid, rows = self._grid(), self._full_rows()
        return [*([] if grid is None else [grid]), *([Grid((), rows)] if rows else [])]

    def _page_grids(self) -> list[Grid]:
        """Return the grids for HTML, Markdown and LaTeX: as in the repr, but estimates as in `to_frame`."""
        if not self._has_tidy_rows:
            return self._grids()
        columns = [_field_values(block) for block in self._tidy()]
        rows = self.records()
        table = rows_to_grid(rows, self)
        stated = [value for of in columns for value in of]
        fields = {name for name, own in self.result.items() if any(own is each for each in stated)}
        terms = {first for first, *_ in table.rows}
        shown = {*(rows[0] if rows else ()), *terms, *fields, *self._facts_in_frame} - {"covers"}
        facts = [(name, text) for name, text in self._full_rows() if name not in shown]
        return [table, *([Grid((), facts)] if facts else [])]

    @property
    def _facts_in_frame(self) -> tuple[str, ...]:
        """Names of facts that the rows of `to_frame` already show under other names, so HTML leaves them out."""
        return ()

    @property
    def _has_tidy_rows(self) -> bool:
        """Whether HTML shows the rows of `to_frame`: if the class overrides `_tidy` and has no grid."""
        return type(self)._tidy is not DisplayMixin._tidy and self._grid() is None  # noqa: SLF001 - of our own kind

    def __repr__(self) -> str:
        lines = [line for grid in self._grids() for line in grid.lines()]
        below = "\n  ".join(map(visible, [self._title, *lines, *([str(self.privacy)] if self.privacy else [])]))
        return "\n".join([*_wrap_text(self._qualified_sentence), below])

    def _repr_html_(self) -> str:
        tables = self._write_captioned(Grid.html) or Grid((), []).html(self._title)
        return f'<div style="overflow-x:auto">{paragraph(self._qualified_sentence)}{tables}</div>'

    def _write_captioned(self, write: Callable[[Grid, str, str], str], between: str = "") -> str:
        """Return all grids as text by `write`: the first is captioned by the question, the last by the price."""
        grids, about = self._page_grids(), f"About this {type(self).__name__}"
        paid = str(self.privacy) if self.privacy else ""
        return between.join(
            write(grid, about if at else self._title, paid if at == len(grids) - 1 else "")
            for at, grid in enumerate(grids)
        )

    def summary(self) -> str:
        """Return the whole release as text between horizontal rules, as statsmodels prints it.

        Returns
        -------
        str
            Lines of text; an interactive prompt displays them unquoted.
        """
        blocks = [line for grid in self._page_grids() for line in (*grid.lines(), "")][:-1]
        told, title = _wrap_text(self._qualified_sentence), _wrap_text(self._title)
        paid = _wrap_text(str(self.privacy)) if self.privacy else []
        wide = max(map(len, (*title, *told, *blocks, *paid)))
        rule = "=" * wide
        return Text(
            "\n".join([*(line.center(wide).rstrip() for line in title), rule, *told, "", *blocks, rule, *paid])
        )

    def to_markdown(self) -> str:
        """Return the whole release as Markdown: the answer in a sentence, the question, the tables, the price.

        Returns
        -------
        str
            Lines.
        """
        paid = [markdown(self.privacy)] if self.privacy else []
        tables = (grid.markdown() for grid in self._page_grids())
        return "\n\n".join([markdown(self._qualified_sentence), f"**{markdown(self._title)}**", *tables, *paid])

    def to_latex(self) -> str:
        """Return the whole release as LaTeX tables, with the rules of the package booktabs.

        Returns
        -------
        str
            One ``table`` environment for each table; the first says what was asked, the last what was paid.
        """
        return self._write_captioned(Grid.latex, "\n")


def _wrap_text(text: str) -> list[str]:
    return textwrap.wrap(visible(text), _WIDTH, break_on_hyphens=False)


def after_colon(sentence: str) -> str:
    """Return a sentence to follow a colon, with "The" or "This" at its start in lower case."""
    return f"t{sentence[1:]}" if sentence.startswith(("The ", "This ")) else sentence


def facts_row(rows: Sequence[tuple[str, str]]) -> Grid | None:
    """Convert facts, pairs of name and text, to a grid of one row; None if all facts are notes."""
    told = [(name, text) for name, text in rows if name not in BELOW]
    names, texts = zip(*told, strict=True) if told else ((), ())
    return Grid(("", *names), [("", *texts)]) if told else None


def rows_to_grid(rows: Sequence[Mapping[str, Any]], release: DisplayMixin) -> Grid:
    """Convert rows to a grid without empty columns; the headings of interval ends name the confidence level.

    The quantity that intervals cover is a column if rows differ in it, and else is displayed once, below.
    """
    every = dict.fromkeys(name for row in rows for name in row)
    names = [name for name in every if any(row.get(name) is not None for row in rows)]
    if len({row.get("covers") for row in rows}) == 1:
        names = [name for name in names if name != "covers"]
    cells = [
        ["" if row.get(name) is None else field_as_text(name, row[name], row, release) for name in names]
        for row in rows
    ]
    confidence = getattr(release, "confidence", None)
    ends = {} if confidence is None else {end: f"{100 * confidence:.4g}% {end}" for end in ("low", "high")}
    return Grid([ends.get(name, name) for name in names], cells)


def _field_values(columns: Mapping[str, Any]) -> list[Any]:
    """Return the values of columns that can identify a field: not None, True or False, which many fields share."""
    return [value for value in columns.values() if value is not None and not isinstance(value, bool)]


def field_as_text(name: str, value: Any, of: Mapping[str, Any], release: DisplayMixin | None = None) -> str:
    """Format a field: an estimate with digits by its error, an error with two digits, a count as an integer.

    Parameters
    ----------
    name : str
        Name of the field.
    value : object
        Its value.
    of : mapping of str to object
        The fields beside it, with the error of an estimate or the ends of its interval.
    release : DisplayMixin, optional
        The release, which names its counts and its estimate.

    Returns
    -------
    str
        The text; a number whose error is not known has four digits.

    Examples
    --------
    >>> row = {"estimate": 3.14159, "standard_error": 0.0213, "pvalue": 1e-9, "n": 10817.7, "size": 1202.81}
    >>> [field_as_text(name, value, row) for name, value in row.items()]
    ['3.142', '0.021', '< 0.001', '10,818', '1,203']
    """
    counts, main = (release._row_counts, release._main_field(of)) if release else ((), None)  # noqa: SLF001 - own
    if name in counts and isinstance(value, tuple):
        return ", ".join(field_as_text(name, each, of, release) for each in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _value_as_text(value)
    if name.endswith("pvalue"):
        return pvalue(value).removeprefix("p ").removeprefix("= ")
    if name in {*counts, *_COUNTS}:
        return number(value, ROW_ERROR)
    if name.endswith("standard_error"):
        return number(value, value)
    if name in {"statistic", "df"}:
        return number(value, value / 100)
    errors: list[Any] = [of.get(f"{name}_standard_error")]
    if name in {main, *_ESTIMATES}:
        low, high = (end if isinstance(end := of.get(name), float) else math.nan for name in ("low", "high"))
        errors = [of.get("standard_error"), of.get("noise_standard_error"), (high - low) / 4]
    error = next((each for each in errors if isinstance(each, float) and 0 < each < math.inf), None)
    return _value_as_text(value) if error is None else number(value, error)


def _value_as_text(value: Any) -> str:
    """Format a value whose error is not known: a number with four digits, or those before the decimal point."""
    if isinstance(value, np.ndarray):
        form: Any = {"float_kind": _value_as_text}
        return " ".join(np.array2string(value, separator=", ", formatter=form, max_line_width=10**6).split())
    if isinstance(value, tuple):
        sentences = all(isinstance(item, str) and item.endswith(".") for item in value)
        return (" " if sentences else ", ").join(_value_as_text(item) for item in value)
    fractional = isinstance(value, float) and math.isfinite(value) and not value.is_integer()
    if not fractional:
        return number(value)
    return number(value, ROW_ERROR) if abs(value) >= _WHOLE else f"{value:.{_DIGITS}g}"
