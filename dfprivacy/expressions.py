"""Columns computed from other columns, by expressions that are evaluated row by row.

An expression is a tree of operations on columns and constants. It can be written as JSON, so that questions of it
are replayed and travel in requests. A row's value is a function of that row alone, and the bounds of the values
follow from those of the columns by interval arithmetic.

In every operation a row without one of the values has no result, and a result that is no finite number (0/0, the
logarithm of 0, an overflow) is missing.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np

from dfprivacy.errors import ArgumentError, SchemaError, quoted
from dfprivacy.schema import Column, bounds_of, category_key, code_book_of
from dfprivacy.schema.values import plain, plain_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dfprivacy.schema import Category

    Floats: TypeAlias = NDArray[np.float64]
    Constant: TypeAlias = float | str | tuple[Any, ...]

__all__ = [
    "FOR_EXAMPLE",
    "ComputedColumn",
    "Expression",
    "Formula",
    "LabelCodes",
    "Node",
    "col",
    "computed_column",
    "parts_of",
    "read_column",
]

_NODES_MAX = 1000
_DEPTH_MAX = 100
_VALUES_MAX = 100_000  # in one list of edges, of values or of a mapping
_LONG = 1000  # from here on a list is described by its digest
_SHOWN = 20  # values of a long list
_POWER_MAX = 64
_PAIR = 2
_DAYS_MAX = 3_000_000.0  # some 8,000 years
_YEARS_MAX = 200  # that are listed as categories
_MONDAY = 3  # 1970-01-01 was a Thursday


@dataclass(frozen=True)
class LabelCodes:
    """Labels of rows, as codes into a list of values; -1 if missing."""

    codes: NDArray[np.intp]
    known: Sequence[Any]

    def __getitem__(self, rows: Any) -> LabelCodes:
        return LabelCodes(self.codes[rows], self.known)


class ValueRange(NamedTuple):
    """Range of the values of an expression: its limits, its possible values and their kind.

    Attributes
    ----------
    low, high : float
        The least and the largest number; infinite if they are not bounded.
    known : tuple or None
        The possible values, if they are listed.
    kind : {"number", "truth", "label"}
        Whether a value is a number, True or False, or a label.
    """

    low: float = -math.inf
    high: float = math.inf
    known: tuple[Category, ...] | None = None
    kind: str = "number"


_TRUTH = ValueRange(0.0, 1.0, (False, True), "truth")


class LongList(tuple[Any, ...]):  # noqa: SLOT001 - of a tuple, none can have a value
    """A long list of constants, which is compared and described by its digest.

    Attributes
    ----------
    sha256 : str
        The digest.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self.sha256 = hashlib.sha256(json.dumps(values).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LongList) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)


@dataclass(frozen=True)
class Node:
    """Node of an expression tree: an operation on columns, constants, and the results of other operations.

    Attributes
    ----------
    operation : str
        Its name; ``"col"`` for the value of a column.
    parts : tuple
        Nodes and constants.
    """

    operation: str
    parts: tuple[Node | Constant, ...]

    def __post_init__(self) -> None:
        if self.depth > _DEPTH_MAX or self.size > _NODES_MAX:
            raise ArgumentError(
                f"The expression is nested more than {_DEPTH_MAX} deep or has more than {_NODES_MAX:,} operations.",
                "Compute the expression in the table itself, as a column, before protecting it.",
            )

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Operands that are nodes, without constants."""
        return tuple(part for part in self.parts if isinstance(part, Node))

    @cached_property
    def depth(self) -> int:
        """Depth of the expression tree, 1 for a column."""
        return 1 + max((part.depth for part in self.nodes), default=0)

    @cached_property
    def size(self) -> int:
        """Number of operations and columns in the expression tree."""
        return 1 + sum(part.size for part in self.nodes)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns in the expression, each once."""
        if self.operation == "col":
            return (str(self.parts[0]),)
        return tuple(dict.fromkeys(name for part in self.nodes for name in part.columns))

    def to_json(self) -> dict[str, Any]:
        """Return the expression as JSON values, which `from_json` converts back."""
        return self._write(lambda constant: constant)

    def describe(self) -> dict[str, Any]:
        """Return the expression as JSON values, with a digest in place of each long list."""
        return self._write(
            lambda constant: {"sha256": constant.sha256} if isinstance(constant, LongList) else constant
        )

    def _write(self, write: Callable[[Any], Any]) -> dict[str, Any]:
        written = [
            part._write(write) if isinstance(part, Node) else write(part)  # noqa: SLF001 - of our own kind
            for part in self.parts
        ]
        return {self.operation: written[0] if self.operation == "col" else written}

    @classmethod
    def from_json(cls, plain: object) -> Node:
        """Convert the result of `to_json` to a node; raise an `ArgumentError` for any other value."""
        return _read_json(plain, _DEPTH_MAX)

    def substitute(self, nodes: Mapping[str, Node]) -> Node:
        """Return the expression with some columns replaced by expressions."""
        if self.operation == "col":
            return nodes.get(str(self.parts[0]), self)
        return Node(self.operation, tuple(p.substitute(nodes) if isinstance(p, Node) else p for p in self.parts))

    def __str__(self) -> str:
        if self.operation == "col":
            return str(self.parts[0])
        said = (part for part in self.parts if part != ())
        first, *rest = (str(part) if isinstance(part, Node) else _constant_text(part) for part in said)
        if self.operation in _INFIX:
            return f"({first} {self.operation} {rest[0]})"
        return f"{self.operation}({', '.join([first, *rest])})"


def _constant_text(constant: Any) -> str:
    if isinstance(constant, tuple):
        if isinstance(constant, LongList):
            more = f"{len(constant) - _SHOWN} more, with the digest {constant.sha256[:16]}"
            return f"[{', '.join([*map(_constant_text, constant[:_SHOWN]), more])}]"
        return f"[{', '.join(map(_constant_text, constant))}]"
    return f"{constant:.15g}" if isinstance(constant, float) else repr(constant)


def _read_json(plain: object, left: int) -> Node:
    if left and isinstance(plain, Mapping) and len(plain) == 1:
        ((operation, written),) = plain.items()
        if operation == "col" and isinstance(written, str):
            return Node("col", (written,))
        if operation in _OPERATIONS and isinstance(written, list):
            parts = [_read_json(each, left - 1) if isinstance(each, Mapping) else each for each in written]
            return _checked_node(operation, *parts)
    raise ArgumentError(
        "The JSON value is not an expression of columns.", 'For example {"/": [{"col": "a"}, {"col": "b"}]}.'
    )


@dataclass(frozen=True)
class Formula:
    """Formula of a computed column: an expression of declared columns.

    Attributes
    ----------
    node : Node
        The expression.
    columns : tuple of Column
        The columns in it.
    """

    node: Node
    columns: tuple[Column, ...]

    @cached_property
    def value_range(self) -> ValueRange:
        """Range of the formula's values; raises a `SchemaError` if an operation does not apply to a column."""
        return self._ranges[self.node]

    @property
    def portable(self) -> bool:
        """Whether the values have the same bits on all processors, as arithmetic and roots have under IEEE 754."""
        return not any(node.operation in _UNSETTLED for node in _post_order(self.node))

    @cached_property
    def never_missing(self) -> bool:
        """Whether the value of the formula is never missing, whatever the values in a row."""
        total = {Node("col", (column.name,)): column.filled for column in self.columns}
        for node in _post_order(self.node):
            if node.operation != "col":
                span, lows = self._ranges[node], [self._ranges[part].low for part in node.nodes]
                finite = math.isfinite(span.low) and math.isfinite(span.high)
                partial = node.operation in _PARTIAL or (node.operation in _OF_POSITIVE and lows[0] < 0)
                parts = node.operation == "fill" or all(total[part] for part in node.nodes)
                total[node] = parts and not partial and (finite or span.kind == "label")
        return total[self.node]

    @cached_property
    def _ranges(self) -> dict[Node, ValueRange]:
        spans: dict[Node, ValueRange] = {}
        declared = {column.name: column for column in self.columns}
        for node in _post_order(self.node):
            if node.operation == "col":
                spans[node] = _declared_range(declared[str(node.parts[0])])
            else:
                parts = [spans[part] if isinstance(part, Node) else part for part in node.parts]
                try:
                    spans[node] = _OPERATIONS[node.operation].value_range(*parts)
                except _OperandError as error:
                    raise SchemaError(f"{node}: {error.args[0]}", *error.args[1:]) from None
        return spans

    def rows(self, values: Callable[[Column], Floats | LabelCodes]) -> Floats | LabelCodes:
        """Compute the value of the formula for each row.

        Parameters
        ----------
        values : callable
            Function that returns the values of a column: numbers, NaN if missing, or codes into its categories.

        Returns
        -------
        ndarray of shape (rows,) or LabelCodes
            Numbers, NaN if missing, or codes into labels, -1 if missing.
        """
        found: list[Any] = []
        with np.errstate(all="ignore"):
            for work, parts, is_open in self._steps:
                if isinstance(work, Column):
                    found.append(values(work))
                    continue
                result = work(*(constant if place is None else found[place] for place, constant in parts))
                if is_open:
                    result[~np.isfinite(result)] = math.nan
                found.append(result)
        return cast("Floats | LabelCodes", found[-1])

    @cached_property
    def _steps(self) -> list[tuple[Any, list[tuple[int | None, Any]], bool]]:
        """Columns and operations in order of evaluation, with operands, and whether their range is unbounded."""
        declared, places = {column.name: column for column in self.columns}, dict[Node, int]()
        steps: list[tuple[Any, list[tuple[int | None, Any]], bool]] = []
        for node in _post_order(self.node):
            places[node] = len(steps)
            if node.operation == "col":
                steps.append((declared[str(node.parts[0])], [], False))
                continue
            span = self._ranges[node]
            is_open = span.kind == "number" and not (math.isfinite(span.low) and math.isfinite(span.high))
            parts: list[tuple[int | None, Any]] = [
                (places[part], None) if isinstance(part, Node) else (None, part) for part in node.parts
            ]
            rows = _OPERATIONS[node.operation].rows
            if rows is _MapByDictionary:  # of which there may be many pairs
                rows, parts = _MapByDictionary(cast("tuple[Any, ...]", node.parts[1])), parts[:1]
            steps.append((rows, parts, is_open))
        return steps


@dataclass(frozen=True)
class ComputedColumn(Column):
    """Column computed from other columns, as `PrivateFrame.with_columns` adds it.

    Attributes
    ----------
    formula : Formula
        The formula of its values, which are clipped to the bounds, or are one of the categories.
    """

    formula: Formula = field(kw_only=True)
    computed = True

    __hash__ = Column.__hash__

    @property
    def source_names(self) -> list[str]:
        """Names of the columns from which the column is computed."""
        return [column.name for column in self.formula.columns]

    def values_of(self, rows: Mapping[str, Any]) -> NDArray[Any]:
        """Compute the values of this column from the values of the columns in its formula.

        Parameters
        ----------
        rows : mapping of str to array_like
            Values by column; numbers beyond the bounds of a column count as the bound.

        Returns
        -------
        ndarray
            Numbers or labels; NaN or None where missing.
        """

        def values(column: Column) -> Floats | LabelCodes:
            given = np.atleast_1d(np.asarray(rows[column.name]))
            if column.bounds is None:
                known = column.categories or ()
                book, none = code_book_of(known), len(known) - 1 if column.other else -1
                return LabelCodes(np.array([book.code(each, none) for each in given.tolist()]), known)
            return given.astype(np.float64).clip(column.low, column.high)

        found = self.formula.rows(values)
        return np.array([*found.known, None], dtype=object)[found.codes] if isinstance(found, LabelCodes) else found

    @property
    def declared_bounds(self) -> list[float] | None:
        """Bounds that were declared for the column; None if its bounds follow from the formula."""
        span = self.formula.value_range
        return None if self.bounds in {None, (span.low, span.high)} else [self.low, self.high]

    def describe(self) -> dict[str, Any]:
        """Return the column as JSON values, with digests in place of long lists in the formula."""
        parts = {column.name: column.describe() for column in self.formula.columns}
        return {**super().describe(), "formula": self.formula.node.describe(), "of": parts}

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON values, with the complete formula."""
        return {**self.describe(), "formula": self.formula.node.to_json()}


def computed_column(
    name: str, expression: Expression, columns: Mapping[str, Column], bounds: object = None
) -> ComputedColumn:
    """Return a column with the values of an expression.

    Parameters
    ----------
    name : str
        Its name.
    expression : Expression
        The expression of its values.
    columns : mapping of str to Column
        The columns that the expression names, which may be computed themselves.
    bounds : pair, optional
        Its bounds; default: the range of the expression.

    Returns
    -------
    ComputedColumn
        The column; its formula has columns of the frame only, with computed columns replaced by their formulas.

    Raises
    ------
    ArgumentError, SchemaError
        If the expression does not fit the columns, or numbers have no bounds.
    """
    node, parts = expression.node, [columns[each] for each in expression.node.columns]
    inner = {part.name: part.formula.node for part in parts if isinstance(part, ComputedColumn)}
    of_each = (part.formula.columns if isinstance(part, ComputedColumn) else (part,) for part in parts)
    formula = Formula(
        node.substitute(inner), tuple({column.name: column for of in of_each for column in of}.values())
    )
    span, found = formula.value_range, [column.beyond for column in formula.columns if column.beyond is not None]
    limits = None if span.kind == "label" else (span.low, span.high)
    limits = limits if bounds is None else bounds_of(name, bounds)
    if limits is not None and not (math.isfinite(limits[0]) and math.isfinite(limits[1])):
        raise SchemaError(
            f"The bounds of {name!r} do not follow from its columns: {formula.node} can be "
            f"{_bound_as_text(limits[0])} to {_bound_as_text(limits[1])}.",
            f"Declare them by with_columns(..., bounds={{{name!r}: (low, high)}}) or .clip(low, high), or narrow "
            "the bounds of its columns.",
        )
    return ComputedColumn(
        name,
        limits,
        None if bounds is not None or span.known is None else span.known,
        public=all(column.public for column in formula.columns),
        filled=formula.never_missing,
        beyond=None
        if not found
        else found[0]
        if len(found) == 1
        else math.inf,  # of several at once, nothing is known
        formula=formula,
    )


def _bound_as_text(number: float) -> str:
    return f"{number:.15g}" if math.isfinite(number) else "any number"


def parts_of(column: Column, declared: Mapping[str, Column]) -> tuple[Column, ...]:
    """Return the columns from which a column is computed; the column itself if it is not computed."""
    return (
        column.formula.columns if isinstance(column, ComputedColumn) and column.name not in declared else (column,)
    )


def read_column(name: str, **plain: Any) -> Column:
    """Return the column that `Column.to_json` converted to JSON values.

    Parameters
    ----------
    name : str
        The name of the column.
    **plain
        Plain JSON values.

    Returns
    -------
    Column
        The column, computed or not.

    Raises
    ------
    ArgumentError, SchemaError, TypeError
        If it is something else.
    """
    known: dict[str, Any] = {field: tuple(of) if isinstance(of, list) else of for field, of in plain.items()}
    if "formula" not in known:
        return Column(name, **known)
    node, parts = Node.from_json(known.pop("formula")), known.pop("of")
    formula = Formula(node, tuple(read_column(part, **of) for part, of in parts.items()))
    return ComputedColumn(name, **known, formula=formula)


def _post_order(node: Node) -> Iterator[Node]:
    """Iterate over the distinct nodes of a tree, each after its parts (post-order)."""
    done: set[Node] = set()
    todo = [(node, False)]
    while todo:
        at, ready = todo.pop()
        if at in done:
            continue
        if ready:
            done.add(at)
            yield at
        else:
            todo += [(at, True), *((part, False) for part in at.nodes)]


def _declared_range(column: Column) -> ValueRange:
    if column.bounds is None:
        return ValueRange(known=column.categories or (), kind="label")
    return ValueRange(column.low, column.high, column.categories)


class _OperandError(Exception):
    """Raised for an operation that does not apply to its operands."""


# ---- ranges of numeric results, rounded outward --------------------------------------------------------------


def _round_outwards(low: Fraction | float, high: Fraction | float) -> ValueRange:
    """Return the range from `low` to `high`, with both ends rounded outwards to floats."""
    return ValueRange(_round_outward(low, -math.inf), _round_outward(high, math.inf))


def _round_outward(exact: Fraction | float, outward: float) -> float:
    if isinstance(exact, float):
        return exact
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    return near if (near <= exact if outward < 0 else near >= exact) else math.nextafter(near, outward)


def _as_fraction(number: float) -> Fraction | float:
    return Fraction(number) if math.isfinite(number) else number


def _numeric_ranges(*parts: Any) -> list[ValueRange]:
    """Return the ranges of operands that are numbers or truth values; raise an error for labels."""
    spans = [part if isinstance(part, ValueRange) else _constant_range(part) for part in parts]
    if any(span.kind == "label" for span in spans):
        raise _OperandError(
            "a label is not a number.",
            "Declare bounds of the column if its values are numbers, or map() its labels to numbers.",
        )
    return spans


def _constant_range(value: Any) -> ValueRange:
    if isinstance(value, bool):
        return _TRUTH
    return (
        ValueRange(known=(value,), kind="label")
        if isinstance(value, str)
        else ValueRange(float(value), float(value))
    )


def _exact_product(a: float, b: float) -> Fraction | float:
    return Fraction(0) if not a or not b else _as_fraction(a) * _as_fraction(b)


def _sum_range(a: Any, b: Any) -> ValueRange:
    a, b = _numeric_ranges(a, b)
    return _round_outwards(_as_fraction(a.low) + _as_fraction(b.low), _as_fraction(a.high) + _as_fraction(b.high))


def _difference_range(a: Any, b: Any) -> ValueRange:
    a, b = _numeric_ranges(a, b)
    return _round_outwards(_as_fraction(a.low) - _as_fraction(b.high), _as_fraction(a.high) - _as_fraction(b.low))


def _product_range(a: Any, b: Any) -> ValueRange:
    a, b = _numeric_ranges(a, b)
    ends = [_exact_product(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return _round_outwards(min(ends), max(ends))


def _quotient_range(a: Any, b: Any) -> ValueRange:
    a, b = _numeric_ranges(a, b)
    if b.low <= 0 <= b.high:
        return ValueRange()
    ends = [
        Fraction(0) if math.isinf(y) else _as_fraction(x) / Fraction(y)
        for x in (a.low, a.high)
        for y in (b.low, b.high)
    ]
    return _round_outwards(min(ends), max(ends))


def _power_range(a: Any, power: float) -> ValueRange:
    (a,) = _numeric_ranges(a)
    whole = float(power).is_integer()
    low, high = (a.low, a.high) if whole else (max(a.low, 0.0), max(a.high, 0.0))
    if power < 0 and low <= 0 <= high:
        return ValueRange()
    ends = [low, high] + ([0.0] if low < 0 < high and whole and power % 2 == 0 else [])
    if whole and all(map(math.isfinite, ends)):
        exact = [Fraction(end) ** int(power) for end in ends]
        return _round_outwards(min(exact), max(exact))
    found = [_float_power(end, power) for end in ends]
    return _widened_range(min(found), max(found))


def _float_power(base: float, power: float) -> float:
    try:
        return float(base**power)
    except OverflowError:
        return math.inf if base > 0 or power % 2 == 0 else -math.inf


def _widened_range(low: float, high: float) -> ValueRange:
    """Return an interval widened by the rounding error of a library function; an end at 0 is exact."""
    for _ in range(4):
        low, high = low and math.nextafter(low, -math.inf), high and math.nextafter(high, math.inf)
    return ValueRange(low, high)


def _range_of_increasing(
    function: Callable[[float], float], least: float = -math.inf
) -> Callable[[Any], ValueRange]:
    """Return a function that maps the range of x to the range of f(x), for an increasing f on x >= `least`."""

    def span(a: Any) -> ValueRange:
        (a,) = _numeric_ranges(a)
        if a.high < least:
            return ValueRange()
        ends = []
        for end, beyond in ((a.low, -math.inf), (a.high, math.inf)):
            try:
                ends.append(beyond if end <= least or math.isinf(end) else function(end))
            except OverflowError:
                ends.append(math.inf)
        return _widened_range(*ends)

    return span


def _root_range(a: Any) -> ValueRange:
    (a,) = _numeric_ranges(a)
    ends = [0.0 if end < 0 else math.sqrt(end) for end in (a.low, a.high)]
    exact = all(
        Fraction(root) ** 2 == Fraction(end) for root, end in zip(ends, a[:2], strict=True) if 0 < end < math.inf
    )
    low, high = ends
    return ValueRange(low, high) if exact else _widened_range(low, high)


def _absolute_range(a: Any) -> ValueRange:
    (a,) = _numeric_ranges(a)
    return ValueRange(max(a.low, -a.high, 0.0), max(-a.low, a.high))


def _clip_range(a: Any, low: float, high: float) -> ValueRange:
    (a,) = _numeric_ranges(a)
    return ValueRange(min(max(a.low, low), high), max(min(a.high, high), low))


def _round_range(a: Any, decimals: float) -> ValueRange:
    (a,) = _numeric_ranges(a)
    low, high = (float(np.round(end, int(decimals))) for end in (a.low, a.high))
    return ValueRange(low, high)


# ---- truth values and labels -----------------------------------------------------------------------------------


def _compared_range(a: Any, b: Any) -> ValueRange:
    _numeric_ranges(a, b)
    return _TRUTH


def _equal_range(a: Any, b: Any) -> ValueRange:
    if isinstance(a, ValueRange) and a.kind == "label":
        if isinstance(b, ValueRange):
            raise _OperandError(
                "labels of two columns cannot be compared.", "Compare a column of labels with one label."
            )
        _check_labels(a, [b])
        return _TRUTH
    return _compared_range(a, b)


def _check_labels(a: ValueRange, values: Sequence[Any]) -> None:
    """Raise an error if a value is not among the labels of a column."""
    known = {category_key(each) for each in a.known or ()}
    for value in values:
        if category_key(value) not in known:
            raise _OperandError(
                f"{value!r} is not among the labels.", f"The labels are {list(a.known or ())[:20]!r}."
            )


def _isin_range(a: ValueRange, values: tuple[Any, ...]) -> ValueRange:
    if a.kind == "label":
        _check_labels(a, values)
    else:
        _numeric_ranges(a, *values)
    return _TRUTH


def _truth_range(*parts: Any) -> ValueRange:
    if any(not isinstance(part, ValueRange) or part.kind != "truth" for part in parts):
        raise _OperandError(
            "a condition, or an operand of &, | or ~, must be true or false, as a comparison is.",
            'For example (dp.col("age") >= 65) & (dp.col("works") == True).',
        )
    return _TRUTH


def _range_of_list(values: Sequence[Any]) -> ValueRange:
    """Return the range of a list of possible results: numbers if all are numbers, else labels."""
    known = tuple(dict.fromkeys(values))
    if any(isinstance(value, str) for value in known):
        return ValueRange(known=known, kind="label")
    if all(isinstance(value, bool) for value in known):
        return _TRUTH
    known = tuple(sorted(known))
    return ValueRange(float(known[0]), float(known[-1]), known)


def _map_range(a: ValueRange, pairs: tuple[Any, ...]) -> ValueRange:
    keys = [key for key, _ in pairs]
    if a.kind == "label":
        _check_labels(a, keys)
    else:
        _numeric_ranges(a, *keys)
    return _range_of_list([value for _, value in pairs])


def _cut_range(a: Any, edges: tuple[float, ...], labels: tuple[Any, ...]) -> ValueRange:
    _numeric_ranges(a)
    return ValueRange(known=labels or _interval_labels(edges), kind="label")


def _interval_labels(edges: tuple[float, ...]) -> tuple[str, ...]:
    """Return the labels of intervals as pandas writes them; the first interval includes its lower end."""
    texts = [f"{edge:.15g}" for edge in edges]
    return tuple(f"{'(' if at else '['}{low}, {high}]" for at, (low, high) in enumerate(pairwise(texts)))


def _range_of_either(a: Any, b: Any) -> ValueRange:
    spans = [part if isinstance(part, ValueRange) else _constant_range(part) for part in (a, b)]
    kinds = {span.kind for span in spans}
    if "label" in kinds:
        if kinds != {"label"}:
            raise _OperandError(
                "the result would mix numbers and labels.", "Use numbers for both alternatives, or labels for both."
            )
        return ValueRange(
            known=tuple(dict.fromkeys(value for span in spans for value in span.known or ())), kind="label"
        )
    if kinds == {"truth"}:
        return _TRUTH
    known = None if any(span.known is None for span in spans) else spans[0].known
    return ValueRange(
        min(s.low for s in spans), max(s.high for s in spans), known if spans[0] == spans[1] else None
    )


def _where_range(a: Any, condition: Any, b: Any) -> ValueRange:
    _truth_range(condition)
    return _range_of_either(a, b)


def _date_part_range(a: Any, function: Callable[[Floats], Floats], low: int, high: int) -> ValueRange:
    (a,) = _numeric_ranges(a)
    if low > high:  # of years
        if not (abs(a.low) <= _DAYS_MAX and abs(a.high) <= _DAYS_MAX):
            return ValueRange()
        low, high = (int(function(np.array([end]))[0]) for end in (a.low, a.high))
    known = tuple(range(low, high + 1)) if high - low < _YEARS_MAX else None
    return ValueRange(float(low), float(high), known)


# ---- rows ------------------------------------------------------------------------------------------------------


def _as_float_array(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of numbers so that its result is an array of floats."""

    def rows(*parts: Any) -> Any:
        return np.asarray(function(*parts), dtype=np.float64)

    return rows


def _comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a comparison of numbers so that it returns 1 or 0, and NaN if an operand is missing."""

    def rows(*parts: Any) -> Any:
        found = np.asarray(function(*parts), dtype=np.float64)
        for part in parts:
            if isinstance(part, np.ndarray):
                found[np.isnan(part)] = math.nan
        return found

    return rows


def _numbers_of_codes(a: LabelCodes, numbers: Sequence[float]) -> Floats:
    """Return for each row the number at the position of its code; NaN if the code is -1."""
    found: Floats = np.array([*numbers, math.nan])[a.codes]
    return found


def _isin_rows(a: Any, values: tuple[Any, ...]) -> Floats:
    keys = {category_key(value) for value in values}
    if isinstance(a, LabelCodes):
        return _numbers_of_codes(a, [float(category_key(each) in keys) for each in a.known])
    return cast("Floats", _comparison(lambda x: np.isin(x, [float(value) for value in values]))(a))


def _equal_rows(a: Any, b: Any) -> Any:
    return _isin_rows(a, (b,)) if isinstance(a, LabelCodes) else _comparison(operator.eq)(a, b)


class _MapByDictionary:
    """Function of rows that replaces each value by the value that a dictionary has for it."""

    def __init__(self, pairs: tuple[Any, ...]) -> None:
        values = {category_key(key): value for key, value in pairs}
        results = [*values.values()]
        span = _range_of_list(results)
        self._known = list(span.known or ()) if span.kind == "label" else None
        of_results = (
            [*map(float, results), math.nan] if self._known is None else [*_positions_of(self._known, results), -1]
        )
        self._results = np.array(of_results)
        self._places: dict[Any, int] = {key: at for at, key in enumerate(values)}
        self._of_labels: tuple[object, NDArray[np.intp]] = None, np.zeros(0, dtype=np.intp)

    def __call__(self, a: Any) -> Any:
        """Return for each row the value that the dictionary has for it; NaN or -1 if it has none."""
        if isinstance(a, LabelCodes):
            labels, places = self._of_labels
            if labels is not a.known:
                places = np.array([*(self._places.get(category_key(each), -1) for each in a.known), -1])
                self._of_labels = a.known, places
            at = places[a.codes]
        else:
            at = self._key_column.encode(a)  # the last one, of none, where it is no key
        return self._results[at] if self._known is None else LabelCodes(self._results[at], self._known)

    @cached_property
    def _key_column(self) -> Column:
        """Column whose categories are the keys of the dictionary, to look up numbers."""
        return Column("key", categories=tuple(cast("dict[float, int]", self._places)))


def _cut_rows(a: Floats, edges: tuple[float, ...], labels: tuple[Any, ...]) -> LabelCodes:
    codes = np.searchsorted(edges, a) - 1  # of an interval with its upper end
    codes[a == edges[0]] = 0
    codes[~((a >= edges[0]) & (a <= edges[-1]))] = -1
    return LabelCodes(codes, list(labels or _interval_labels(edges)))


def _fill_missing(a: Any, value: Any) -> Any:
    if not isinstance(a, LabelCodes):
        return np.where(np.isnan(a), float(value), a)
    known = [*dict.fromkeys([*a.known, value])]
    return LabelCodes(np.where(a.codes < 0, known.index(value), a.codes), known)


def _positions_of(known: Sequence[Any], values: Sequence[Any]) -> list[int]:
    """Return the position of each value in the list of known values."""
    places = {value: at for at, value in enumerate(known)}
    return [places[value] for value in values]


def _where_rows(a: Any, condition: Floats, b: Any) -> Any:
    known: list[Any] = []
    if isinstance(a, LabelCodes) or isinstance(b, LabelCodes) or isinstance(a, str) or isinstance(b, str):
        listed = [[*part.known] if isinstance(part, LabelCodes) else [part] for part in (a, b)]
        known = [*dict.fromkeys(value for values in listed for value in values)]
        a, b = (
            np.array([*_positions_of(known, values), -1])[part.codes if isinstance(part, LabelCodes) else 0]
            for part, values in zip((a, b), listed, strict=True)
        )
        return LabelCodes(np.where(np.isnan(condition), -1, np.where(condition == 1, a, b)).astype(np.intp), known)
    found = np.where(condition == 1, a, b).astype(np.float64)
    found[np.isnan(condition)] = math.nan
    return found


def _whole_days(a: Floats) -> tuple[Any, Floats]:
    """Return dates as days without the time, and an array that is 0 for a date and NaN for a missing one."""
    there = np.abs(a) <= _DAYS_MAX
    return np.floor(np.where(there, a, 0.0)).astype("datetime64[D]"), np.where(there, 0.0, math.nan)


def _year(a: Floats) -> Floats:
    dates, gone = _whole_days(a)
    found: Floats = dates.astype("datetime64[Y]").astype(np.int64) + 1970 + gone
    return found


def _month(a: Floats) -> Floats:
    dates, gone = _whole_days(a)
    found: Floats = dates.astype("datetime64[M]").astype(np.int64) % 12 + 1 + gone
    return found


def _day(a: Floats) -> Floats:
    dates, gone = _whole_days(a)
    found: Floats = (dates - dates.astype("datetime64[M]")).astype(np.int64) + 1 + gone
    return found


def _weekday(a: Floats) -> Floats:
    dates, gone = _whole_days(a)
    found: Floats = (dates.astype(np.int64) + _MONDAY) % 7 + gone
    return found


def _hour(a: Floats) -> Floats:
    _, gone = _whole_days(a)
    return np.floor((a - np.floor(a)) * 24 + 1e-9) % 24 + gone  # of minutes as parts of a day, which are rounded


class _Operation(NamedTuple):
    """Two functions of an operation: one computes the range of its results, the other the results for rows."""

    value_range: Callable[..., ValueRange]
    rows: Callable[..., Any]


def _date_part(function: Callable[[Floats], Floats], low: int, high: int) -> _Operation:
    return _Operation(lambda a: _date_part_range(a, function, low, high), function)


_OPERATIONS: dict[str, _Operation] = {
    "+": _Operation(_sum_range, _as_float_array(operator.add)),
    "-": _Operation(_difference_range, _as_float_array(operator.sub)),
    "*": _Operation(_product_range, _as_float_array(operator.mul)),
    "/": _Operation(_quotient_range, _as_float_array(operator.truediv)),
    "**": _Operation(_power_range, _as_float_array(operator.pow)),
    "abs": _Operation(_absolute_range, _as_float_array(np.abs)),
    "log": _Operation(_range_of_increasing(math.log, 0.0), _as_float_array(np.log)),
    "log10": _Operation(_range_of_increasing(math.log10, 0.0), _as_float_array(np.log10)),
    "log1p": _Operation(_range_of_increasing(math.log1p, -1.0), _as_float_array(np.log1p)),
    "exp": _Operation(_range_of_increasing(math.exp), _as_float_array(np.exp)),
    "sqrt": _Operation(_root_range, _as_float_array(np.sqrt)),
    "clip": _Operation(_clip_range, _as_float_array(np.clip)),
    "round": _Operation(_round_range, _as_float_array(lambda a, decimals: np.round(a, int(decimals)))),
    "==": _Operation(_equal_range, _equal_rows),
    "<": _Operation(_compared_range, _comparison(operator.lt)),
    "<=": _Operation(_compared_range, _comparison(operator.le)),
    ">": _Operation(_compared_range, _comparison(operator.gt)),
    ">=": _Operation(_compared_range, _comparison(operator.ge)),
    "&": _Operation(_truth_range, _as_float_array(operator.mul)),
    "|": _Operation(_truth_range, _as_float_array(np.maximum)),
    "not": _Operation(_truth_range, _as_float_array(lambda a: 1 - a)),
    "isin": _Operation(_isin_range, _isin_rows),
    "map": _Operation(_map_range, _MapByDictionary),
    "cut": _Operation(_cut_range, _cut_rows),
    "fill": _Operation(_range_of_either, _fill_missing),
    "where": _Operation(_where_range, _where_rows),
    "year": _date_part(_year, 1, 0),
    "month": _date_part(_month, 1, 12),
    "day": _date_part(_day, 1, 31),
    "weekday": _date_part(_weekday, 0, 6),
    "hour": _date_part(_hour, 0, 23),
}
_PARTIAL, _OF_POSITIVE = {"map", "cut"}, {"sqrt", "**"}
_UNSETTLED = {"**", "log", "log10", "log1p", "exp"}
_INFIX = {"+", "-", "*", "/", "**", "==", "<", "<=", ">", ">=", "&", "|"}


# ---- how they are written --------------------------------------------------------------------------------------

_UFUNCS = {
    np.add: "+", np.subtract: "-", np.multiply: "*", np.true_divide: "/", np.power: "**", np.less: "<",
    np.less_equal: "<=", np.greater: ">", np.greater_equal: ">=", np.equal: "==", np.absolute: "abs",
    np.log: "log", np.log10: "log10", np.log1p: "log1p", np.exp: "exp", np.sqrt: "sqrt",
}  # fmt: skip
FOR_EXAMPLE = 'For example view.with_columns(bmi=dp.col("weight") / dp.col("height") ** 2).'


def _checked_node(operation: str, *parts: Any) -> Node:
    """Return a node after checking the number and kinds of its operands."""
    values = [part.node if isinstance(part, Expression) else part for part in parts]
    read = _READ.get(operation, (_read_operand,) * (2 if operation in _INFIX else 1))
    if len(values) != len(read):
        raise ArgumentError(f"{operation} takes {len(read)} arguments, not {len(values)}.", FOR_EXAMPLE)
    made = Node(operation, tuple(reader(value) for reader, value in zip(read, values, strict=True)))
    if not made.nodes:
        raise ArgumentError(f"{operation} was given constants only.", FOR_EXAMPLE)
    if operation in _CHECKS:
        _CHECKS[operation](*made.parts)
    return made


def _check_clip(_: Any, low: float, high: float) -> None:
    if low > high:
        raise ArgumentError(f"clip({low:g}, {high:g}): the interval is reversed.", "Pass the lower end first.")


def _check_cut(_: Any, edges: tuple[float, ...], labels: tuple[Any, ...]) -> None:
    if labels and (len(set(labels)) < len(labels) or len(labels) != len(edges) - 1):
        raise ArgumentError(
            f"cut() needs {len(edges) - 1} different labels, one for each interval; it got {len(labels)}, "
            f"{len(set(labels))} of them different.",
            "Pass one label less than there are edges.",
        )


def _read_operand(value: Any) -> Any:
    """Return an operand that is a node or a finite number, or raise an error."""
    return value if isinstance(value, Node) else _read_constant(value)


def _read_constant(value: Any) -> float:
    number = plain_number(value)
    if not math.isfinite(number):
        raise ArgumentError(
            f"An expression has the operand{quoted(value)}, which is not a finite number.",
            "Use columns, dp.col(name), and finite numbers.",
        )
    return number


def _read_power(value: Any) -> float:
    if isinstance(value, Node) or abs(_read_constant(value)) > _POWER_MAX:
        raise ArgumentError(
            f"An exponent must be a constant from {-_POWER_MAX} to {_POWER_MAX}.",
            'For example dp.col("height") ** 2.',
        )
    return _read_constant(value)


def _read_decimals(value: Any) -> float:
    if _read_constant(value) not in range(-15, 16):
        raise ArgumentError(f"decimals{quoted(value)} is not an integer from -15 to 15.", "For example round(2).")
    return _read_constant(value)


def _read_value(value: Any) -> Any:
    """Return an operand that is a node or a constant (a number, a text or a truth value), or raise an error."""
    return value if isinstance(value, Node) else _read_label(value)


def _read_label(value: Any) -> float | str:
    known = plain(value)
    return known if isinstance(known, str | bool | int) else _read_constant(value)


def _read_values(given: Any) -> tuple[Any, ...]:
    listed = given.tolist() if isinstance(given, np.ndarray) else given
    if (
        isinstance(listed, str)
        or not isinstance(listed, Sequence)
        or not 0 < len(listed[: _VALUES_MAX + 1]) <= _VALUES_MAX
    ):
        raise ArgumentError(f"An expression takes a list of 1 to {_VALUES_MAX:,} values.", "For example [18, 65].")
    return _as_list([_read_label(value) for value in listed])


def _as_list(values: Sequence[Any]) -> tuple[Any, ...]:
    return LongList(values) if len(values) > _LONG else tuple(values)


def _read_edges(given: Any) -> tuple[float, ...]:
    edges = tuple(map(_read_constant, _read_values(given)))
    if len(edges) < 2 or any(low >= high for low, high in pairwise(edges)):  # noqa: PLR2004
        raise ArgumentError("The edges of cut() do not increase.", "For example [0, 18, 65, 120].")
    return edges


def _read_labels(given: Any) -> tuple[Any, ...]:
    return _read_values(given) if given else ()


def _read_pairs(given: Any) -> tuple[Any, ...]:
    pairs = [*given.items()] if isinstance(given, Mapping) else given
    if (
        not isinstance(pairs, Sequence)
        or not 0 < len(pairs) <= _VALUES_MAX
        or any(not isinstance(pair, Sequence) or len(pair) != _PAIR for pair in pairs)
    ):
        raise ArgumentError(
            f"map() takes a dictionary of 1 to {_VALUES_MAX:,} values.",
            'For example .map({1: "winter", 7: "summer"}).',
        )
    return _as_list([(_read_label(key), _read_label(value)) for key, value in pairs])


_READ: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "**": (_read_operand, _read_power),
    "==": (_read_operand, _read_value),
    "clip": (_read_operand, _read_constant, _read_constant),
    "round": (_read_operand, _read_decimals),
    "isin": (_read_operand, _read_values),
    "map": (_read_operand, _read_pairs),
    "cut": (_read_operand, _read_edges, _read_labels),
    "fill": (_read_operand, _read_label),
    "where": (_read_value, _read_operand, _read_value),
}
_CHECKS: dict[str, Callable[..., None]] = {"clip": _check_clip, "cut": _check_cut}


def col(name: str) -> Expression:
    """Return a column as an expression, for `PrivateFrame.with_columns`.

    Parameters
    ----------
    name : str
        The name of the column.

    Returns
    -------
    Expression
        The expression, for formulas such as ``dp.col("weight") / dp.col("height") ** 2``.

    Raises
    ------
    ArgumentError
        If the name is no string.

    Examples
    --------
    >>> import dfprivacy as dp, numpy as np
    >>> np.log(dp.col("income")) - dp.col("age").clip(18, 65) / 10
    (log(income) - (clip(age, 18, 65) / 10))
    """
    if not isinstance(name, str):
        raise ArgumentError(f"A column is named by a string, not by {type(name).__name__}.", FOR_EXAMPLE)
    return Expression(Node("col", (name,)))


class Expression:
    """Expression of columns and constants, computed row by row.

    It has arithmetic (``+ - * / **`` with a number as exponent, ``abs``), comparisons, ``& | ~`` of these, and
    the methods below. NumPy's ``log``, ``log10``, ``log1p``, ``exp`` and ``sqrt`` take it.

    Parameters
    ----------
    node : Node
        The operation.
    """

    def __init__(self, node: Node) -> None:
        self.node = node

    def __repr__(self) -> str:
        return str(self.node)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise ArgumentError(
            "An expression has no truth value of its own: its value differs from row to row.",
            "Use & in place of and, | in place of or, ~ in place of not, with each comparison in brackets.",
        )

    def __add__(self, other: Any) -> Expression:
        return _apply("+", self, other)

    def __radd__(self, other: Any) -> Expression:
        return _apply("+", other, self)

    def __sub__(self, other: Any) -> Expression:
        return _apply("-", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return _apply("-", other, self)

    def __mul__(self, other: Any) -> Expression:
        return _apply("*", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return _apply("*", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return _apply("/", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _apply("/", other, self)

    def __pow__(self, power: float) -> Expression:
        return _apply("**", self, power)

    def __neg__(self) -> Expression:
        return _apply("*", -1.0, self)

    def __abs__(self) -> Expression:
        return self.abs()

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _apply("==", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return ~_apply("==", self, other)

    def __lt__(self, other: Any) -> Expression:
        return _apply("<", self, other)

    def __le__(self, other: Any) -> Expression:
        return _apply("<=", self, other)

    def __gt__(self, other: Any) -> Expression:
        return _apply(">", self, other)

    def __ge__(self, other: Any) -> Expression:
        return _apply(">=", self, other)

    def __and__(self, other: Any) -> Expression:
        return _apply("&", self, other)

    def __or__(self, other: Any) -> Expression:
        return _apply("|", self, other)

    def __invert__(self) -> Expression:
        return _apply("not", self)

    def __array_ufunc__(self, function: Any, method: str, *parts: Any, **given: Any) -> Expression:
        if method != "__call__" or given or function not in _UFUNCS:
            raise ArgumentError(
                f"The function {function.__name__} cannot be applied to columns.",
                f"The operations on columns are {[*_OPERATIONS]!r}.",
            )
        return _apply(_UFUNCS[function], *parts)

    def abs(self) -> Expression:
        """Return the absolute value of the expression."""
        return _apply("abs", self)

    def log(self) -> Expression:
        """Return the natural logarithm of the expression; missing if its value is not positive."""
        return _apply("log", self)

    def log10(self) -> Expression:
        """Return the logarithm to base 10 of the expression; missing if its value is not positive."""
        return _apply("log10", self)

    def log1p(self) -> Expression:
        """Return the natural logarithm of 1 + the expression; missing if its value is not above -1."""
        return _apply("log1p", self)

    def exp(self) -> Expression:
        """Return the exponential of the expression."""
        return _apply("exp", self)

    def sqrt(self) -> Expression:
        """Return the square root of the expression; missing if its value is negative."""
        return _apply("sqrt", self)

    def round(self, decimals: int = 0) -> Expression:
        """Return the expression rounded to a number of decimals."""
        return _apply("round", self, decimals)

    def clip(self, low: float, high: float) -> Expression:
        """Return the expression clipped to an interval, which becomes its bounds."""
        return _apply("clip", self, low, high)

    def isin(self, values: Sequence[Any]) -> Expression:
        """Return whether the value of the expression is in a list."""
        return _apply("isin", self, values)

    def map(self, values: Mapping[Any, Any]) -> Expression:
        """Return the dictionary's value for each value of the expression; missing for other values."""
        return _apply("map", self, values)

    def cut(self, edges: Sequence[float], labels: Sequence[Any] | None = None) -> Expression:
        """Return the label of the interval in which the value lies, as pandas' ``cut`` does.

        Parameters
        ----------
        edges : sequence of float
            Increasing edges. Intervals include their upper end, and the first one its lower end too. Values outside
            are missing.
        labels : sequence, optional
            The names of the intervals; default: ``"[0, 18]"``, ``"(18, 65]"``.

        Returns
        -------
        Expression
            LabelCodes.

        Raises
        ------
        ArgumentError
            If the edges do not increase, or there is not one label for each interval.
        """
        return _apply("cut", self, edges, labels)

    def fill(self, value: Any) -> Expression:
        """Return the expression with missing values replaced by a constant."""
        return _apply("fill", self, value)

    def where(self, condition: Expression, otherwise: Any) -> Expression:
        """Return the expression in rows that meet a condition, and another value or expression in other rows."""
        return _apply("where", self, condition, otherwise)

    def year(self) -> Expression:
        """Return the year of the expression, which is a date."""
        return _apply("year", self)

    def month(self) -> Expression:
        """Return the month of the expression, which is a date: 1 to 12."""
        return _apply("month", self)

    def day(self) -> Expression:
        """Return the day of the month of the expression, which is a date: 1 to 31."""
        return _apply("day", self)

    def weekday(self) -> Expression:
        """Return the day of the week of the expression, which is a date: 0 for Monday to 6 for Sunday."""
        return _apply("weekday", self)

    def hour(self) -> Expression:
        """Return the hour of the expression, which is a date with a time: 0 to 23."""
        return _apply("hour", self)


def _apply(operation: str, *parts: Any) -> Expression:
    return Expression(_checked_node(operation, *parts))
