"""Cases of an audit: example calls of a mechanism, and the tables on which they run.

All that an audit needs to know of a mechanism is one call of it and what is public about the table: a `Case`. The
tables are made up from that, corners of the public domain first. They live in memory, so no dataframe library is
needed, and no data.
"""

from __future__ import annotations

import inspect
import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy._plugins.loader import registry
from dfprivacy.errors import ArgumentError
from dfprivacy.release import Release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dfprivacy.mechanism import Mechanism
    from dfprivacy.schema import Category

__all__ = [
    "Case",
    "Row",
    "candidate_rows",
    "cases_of",
    "distant_tables",
    "few_rows",
    "further_tables",
    "tables",
    "variants_among",
]

Row = dict[str, object]
_CELLS = 8  # combinations of categories that a table has rows of
_ROWS_PER_CELL = 3  # rows in each
_CORNERS = 48
_MAX_PER_CLASS = 8  # rows of each public class among a few, at most
_LARGE_TABLE = 240  # rows of a large table


@dataclass(frozen=True, kw_only=True)
class Case:
    """Example call of a mechanism: its arguments, and the public facts about the table.

    Attributes
    ----------
    arguments : mapping
        Arguments of the method by name, without epsilon and delta.
    bounds, categories, public, missing, neighbors
        As for `dfprivacy.protect`. The tables have exactly the columns that have bounds or categories.
    where : mapping, optional
        Conditions of the view, as for `dfprivacy.PrivateFrame.where`.
    group_by : str or sequence of str, optional
        Column, or columns, by which the view is grouped.
    other : str, optional
        Parameter that is given a second view. Then each row is of the first table or of the second, as
        ``row[other]`` says, False or True; neighbours differ in a row of either. All else holds for both.
    epsilon, delta : str or number
        The privacy budget of the call.
    rows : sequence of dict, optional
        Rows by column that the author suspects to be among the worst. They start the search.
    tables : sequence of sequence of dict, optional
        Tables that the author suspects to be among the worst. The first row of each is the one that may be another.
    tightness : float, default 0.9
        The share of the charge that the worst pair of tables must use up, so that no budget is wasted. Lower it
        where the mechanism cannot do better, with the reason in a comment.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    categories: Mapping[str, Sequence[Category]] = field(default_factory=dict)
    public: Sequence[str] = ()
    missing: Mapping[str, Any] = field(default_factory=dict)
    neighbors: Literal["replace_one", "add_remove"] = "replace_one"
    where: Mapping[str, Any] = field(default_factory=dict)
    group_by: str | Sequence[str] | None = None
    other: str | None = None
    epsilon: str | float = "1/3"
    delta: str | float = 0
    rows: Sequence[Row] = ()
    tables: Sequence[Sequence[Row]] = ()
    tightness: float = 0.9

    def __str__(self) -> str:
        words = [f"{name}={_shortened_repr(value)}" for name, value in self.arguments.items()]
        words += [self.neighbors] if self.neighbors != "replace_one" else []
        words += [f"where {name}={value!r}" for name, value in self.where.items()]
        words += [f"by {', '.join(self.grouped)}"] if self.grouped else []
        words += [f"{self.other} a second view"] if self.other else []
        words += [f"public {', '.join(self.public)}"] if self.public else []
        return ", ".join(words)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the case's tables."""
        return tuple(dict.fromkeys([*self.bounds, *self.categories]))

    @property
    def grouped(self) -> tuple[str, ...]:
        """Names of the columns by which the view of the case is grouped."""
        return (self.group_by,) if isinstance(self.group_by, str) else tuple(self.group_by or ())

    @property
    def domains(self) -> dict[str, tuple[Category, ...]]:
        """Possible values of each categorical column, and of the field that assigns a row to one of two tables."""
        which: dict[str, tuple[Category, ...]] = {self.other: (False, True)} if self.other else {}
        return {**{name: tuple(values) for name, values in self.categories.items()}, **which}

    @property
    def unchangeable_fields(self) -> tuple[str, ...]:
        """Fields that are equal in neighbouring rows: public columns, and the field that says a row's table."""
        return (*self.public, *([self.other] if self.other else []))


def _shortened_repr(value: object) -> str:
    return type(value).__name__ if isinstance(value, Release) else repr(value)


def cases_of(mechanism: Mechanism) -> tuple[Case, ...]:
    """Return the cases of a mechanism: the cases of its plugin, or default cases for its columns.

    Parameters
    ----------
    mechanism : Mechanism
        A mechanism, registered or not.

    Returns
    -------
    tuple of Case
        At least one.

    Raises
    ------
    ArgumentError
        If the plugin gives none and a parameter that names no column has no default.
    """
    given: list[Case] = []
    for each in registry().loaded:
        if each.manager is not None and mechanism.name in each.mechanisms:
            several = each.manager.hook.dfprivacy_conformance_cases(mechanism=mechanism, case=Case)
            given += [case for some in several for case in some or ()]
    return tuple(given) or _default_cases(mechanism)


def _default_cases(mechanism: Mechanism) -> tuple[Case, ...]:
    """Return default cases, derived from the kinds of columns that a mechanism takes."""
    parameters = mechanism.signature.parameters
    unknown = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty and name not in mechanism.columns
    ]
    if unknown:
        raise ArgumentError(
            f"{mechanism.name!r} has no default case: arguments {unknown!r} have no default and name no columns.",
            "Give cases=[Case(...)], or let the plugin implement dfprivacy_conformance_cases.",
        )
    named = {name: kind for name, kind in mechanism.columns.items() if kind != "view"}
    needed = {name: kind for name, kind in named.items() if parameters[name].default is parameters[name].empty}
    cases = [_default_arguments(mechanism, needed)]
    if needed != named:
        cases.append(_default_arguments(mechanism, named))
    cases += [replace(case, neighbors="add_remove") for case in cases]
    return tuple(cases)


def _default_arguments(mechanism: Mechanism, kinds: Mapping[str, Any]) -> Case:
    arguments: dict[str, Any] = {}
    bounds: dict[str, tuple[float, float]] = {}
    categories: dict[str, Sequence[Category]] = {}
    for parameter, kind in kinds.items():
        names = [parameter, f"{parameter}_2"] if isinstance(kind, list) else [parameter]
        for name in names:
            if kind in ("numeric", ["numeric"], "columns"):
                bounds[name] = (-3.0, 1.5)
            else:
                categories[name] = ("a", "b") if parameter == "by" else ("a", "b", "c")
        arguments[parameter] = names if isinstance(kind, list) else names[0]
    delta = "1/100000" if mechanism.delta else 0
    return Case(arguments=arguments, bounds=bounds, categories=categories, delta=delta)


# Tables. Each is a list of rows of which the first is the one that may be another.


def tables(case: Case) -> dict[str, list[Row]]:
    """Return tables for the audit, whose first row will be replaced, added or removed.

    Parameters
    ----------
    case : Case
        What is public.

    Returns
    -------
    dict
        Rows by what the table is: ``"mixed"``, ``"lowest"``, ``"highest"``, ``"one group"``, ``"one row"``.
    """
    rng = np.random.default_rng(1)
    cells = _category_rows(case, rng)
    crowd = [cell for cell in cells for _ in range(_ROWS_PER_CELL)]
    crowd *= 1 if len(crowd) > _CELLS else 4
    mixed = _filled_rows(case, crowd, lambda low, high: float(rng.uniform(low, high)))
    private = _first_private_categories(case)
    made = {
        "mixed": mixed,
        "lowest": _filled_rows(case, crowd, lambda low, _: low),
        "highest": _filled_rows(case, crowd, lambda _, high: high),
        "one group": [{**row, **private} for row in mixed] if private else [],
        "one row": [mixed[0]],
    }
    return {name: rows for name, rows in made.items() if rows}


def further_tables(case: Case) -> dict[str, list[Row]]:
    """Return further tables for the audit: with other group sizes, more rows, and extreme or missing numbers.

    Parameters
    ----------
    case : Case
        What is public.

    Returns
    -------
    dict
        Rows by what the table is. Where its first row is of another group, its own group may be empty.
    """
    rng = np.random.default_rng(4)
    cells = _category_rows(case, rng)
    numbers = _numeric_columns(case)

    def random_number(low: float, high: float) -> float:
        return float(rng.uniform(low, high))

    def spread_numbers(rows: Sequence[Row]) -> list[Row]:
        """Return the rows with evenly spaced numbers, increasing from the first row to the last."""
        return [
            {**row, **{name: low + (high - low) * at / max(len(rows) - 1, 1) for name, (low, high) in ends}}
            for at, row in enumerate(rows)
        ]

    ends = [(name, case.bounds[name]) for name in numbers]
    crowd = [cell for cell in cells for _ in range(_ROWS_PER_CELL)]
    crowd *= 1 if len(crowd) > _CELLS else 4
    single = [[cell, *(other for other in cells if other != cell for _ in range(12))] for cell in cells[::-1]]
    made = {
        **{f"given {at}": [dict(row) for row in rows] for at, rows in enumerate(case.tables, 1)},
        "one row of the last group": _filled_rows(case, single[0], random_number),
        "one row of the first group": spread_numbers(single[-1]),
        "rows sorted by group": spread_numbers(sorted(crowd, key=cells.index)),
        "lowest or highest": _filled_rows(case, crowd, lambda low, high: low if rng.random() < 0.5 else high),  # noqa: PLR2004
        "many rows": _filled_rows(case, [cells[at % len(cells)] for at in range(_LARGE_TABLE)], random_number),
        "missing": [
            {**row, **dict.fromkeys(_changeable_columns(case))} for row in _filled_rows(case, crowd, random_number)
        ],
    }
    return {name: rows for name, rows in made.items() if rows}


def _category_rows(case: Case, rng: np.random.Generator) -> list[Row]:
    """Return a row for each combination of categories, or for a random sample of eight combinations."""
    cells = list(itertools.product(*case.domains.values()))
    if len(cells) > _CELLS:
        cells = [cells[i] for i in sorted(rng.choice(len(cells), _CELLS, replace=False))]
    return [dict(zip(case.domains, cell, strict=True)) for cell in cells]


def _filled_rows(case: Case, rows: Sequence[Row], at: Callable[[float, float], float]) -> list[Row]:
    return [{**row, **{name: at(*case.bounds[name]) for name in _numeric_columns(case)}} for row in rows]


def _first_private_categories(case: Case) -> Row:
    return {name: values[0] for name, values in case.domains.items() if name not in case.unchangeable_fields}


def _changeable_columns(case: Case) -> list[str]:
    """Return the names of the columns on which neighbouring tables may differ."""
    return [name for name in case.columns if name not in case.unchangeable_fields]


def _numeric_columns(case: Case) -> list[str]:
    return [name for name in case.bounds if name not in case.categories]


def distant_tables(case: Case, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return tables that differ from the given rows in every row, as much as public columns allow.

    Parameters
    ----------
    case : Case
        What is public.
    rows : sequence of dict
        The table.

    Returns
    -------
    dict
        Rows by what they are; empty if all columns are public.
    """
    ends: dict[str, tuple[Any, Any]] = {**case.bounds}
    ends |= {name: (values[0], values[-1]) for name, values in case.categories.items()}
    ends = {name: end for name, end in ends.items() if name not in case.public}
    if not ends:
        return {}

    def filled(at: Callable[[int, tuple[Any, Any]], Any]) -> list[Row]:
        return [{**row, **{name: at(place, end) for name, end in ends.items()}} for place, row in enumerate(rows)]

    tables = {
        "highest": filled(lambda _, end: end[1]),
        "lowest": filled(lambda _, end: end[0]),
        "halves": filled(lambda place, end: end[place % 2]),
        "missing": filled(lambda *_: None),
    }
    if case.neighbors == "add_remove":
        tables |= {"one row": [*rows[:1]], "many rows": [*rows] * 5}
    return tables


def candidate_rows(case: Case, count: int = 8) -> list[Row]:
    """Return candidates for the row that differs between neighbouring tables.

    Parameters
    ----------
    case : Case
        What is public.
    count : int
        How many random rows are among them.

    Returns
    -------
    list of dict
        The author's own, corners, values between them, missing and extreme values, and random rows.
    """
    rng = np.random.default_rng(2)
    typical: Row = {name: (low + high) / 2 for name, (low, high) in case.bounds.items()}
    typical |= {name: values[0] for name, values in case.domains.items()}
    ends = {**{name: case.bounds[name] for name in _numeric_columns(case)}, **case.domains}
    corners = list(itertools.islice(itertools.product(*ends.values()), 4 * _CORNERS))
    if len(corners) > _CORNERS:
        corners = [corners[i] for i in sorted(rng.choice(len(corners), _CORNERS, replace=False))]
    rows: list[Row] = [dict(zip(ends, corner, strict=True)) for corner in corners]
    rows += [{**typical, name: value} for name in case.columns for value in _candidate_values(case, name)]
    for _ in range(count):
        codes: Row = {name: values[int(rng.integers(len(values)))] for name, values in case.domains.items()}
        rows.append({**codes, **{name: float(rng.uniform(*case.bounds[name])) for name in _numeric_columns(case)}})
    return _distinct_rows([*case.rows, typical, *rows])


def few_rows(case: Case, rows: Sequence[Row], most: int = 4) -> list[Row]:
    """Return a few candidate first rows, with extreme or missing values, for some public values of the table.

    Parameters
    ----------
    case : Case
        What is public.
    rows : sequence of dict
        The table.
    most : int
        Public classes, at most.

    Returns
    -------
    list of dict
        Those of the class of the table's first row first.
    """
    unchangeable_fields = case.unchangeable_fields if case.neighbors == "replace_one" else ()
    classes = _distinct_rows([{name: row[name] for name in unchangeable_fields} for row in rows])
    classes = [classes[0], *classes[1:][-most + 1 :]]
    private = {name: case.bounds[name] for name in _numeric_columns(case) if name not in unchangeable_fields}
    ends = {**private, **{name: values for name, values in case.domains.items() if name not in unchangeable_fields}}
    count = math.prod(map(len, ends.values()))
    picked = sorted({round(at * (count - 1) / (_MAX_PER_CLASS - 1)) for at in range(_MAX_PER_CLASS)})
    places = np.transpose(np.unravel_index(picked, [*map(len, ends.values())])) if ends else [()]
    corners: list[Row] = [{name: ends[name][at] for name, at in zip(ends, each, strict=True)} for each in places]
    middle = {**corners[0], **{name: low + (high - low) / 3 for name, (low, high) in private.items()}}
    gone = {name: None for name in ends if name != case.other}
    own = [{name: row[name] for name in ends} for row in case.rows]
    rows_of_each = [*corners, middle, {**corners[-1], **gone}, *own]
    return _distinct_rows([{**known, **row} for known in classes for row in rows_of_each])


def _candidate_values(case: Case, name: str) -> list[Any]:
    if name in case.categories:
        text = all(isinstance(value, str) for value in case.categories[name])
        return [*case.categories[name], None, *(["unheard of"] if text else [])]
    low, high = case.bounds[name]
    width = high - low
    inner = [low, high, *(low + width * part for part in (0.25, 1 / 3, 2 / 3, 0.75, 1e-3, 1 - 2.0**-20))]
    return [*inner, math.nan, math.inf, -math.inf, 1e300, -1e300, 0.0]


def _distinct_rows(rows: Sequence[Row]) -> list[Row]:
    return list({repr(sorted(row.items())): row for row in rows}.values())


def fine_steps(case: Case, row: Row, width: float) -> Iterator[Row]:
    """Yield copies of a row with one number changed by a fraction of the width of its bounds."""
    for name in _numeric_columns(case):
        low, high = case.bounds[name]
        value = row[name]
        if isinstance(value, float | int) and low <= value <= high:
            for step in (-width * (high - low), width * (high - low)):
                yield {**row, name: float(min(high, max(low, value + step)))}


# Variants. A sensitivity may hold in the cases that its author thought of, and nowhere else. So the kit asks on its
# own what else could be asked: under the other neighbouring relation, with other columns public, of a part of the
# rows, by group, with other bounds, prices and arguments. What the mechanism refuses is no fault of it.

MOST = 32
"""Variants of all cases of one mechanism together, at most; of each case at least one."""
_COLUMNS = 5
_ARGUMENTS = 4
_MAX_COUNT = 64

_SCALES: list[
    tuple[str | float, Callable[[float, float], tuple[float, float]]]
] = [  # an epsilon, and bounds in place of (low, high)
    ("0.01", lambda low, high: (1e6 + low, 1e6 + high)),
    (1, lambda low, high: (1e-6 * low, 1e-6 * high)),
    (3, lambda low, high: (1e9 * low, 1e9 * high)),
    (10, lambda low, high: (0.0, high - low)),
    (30, lambda low, high: (-1e6 * (high - low), 1e-3 * (high - low))),
    (100, lambda low, high: (low, high)),
    ("0.1", lambda low, high: (1.0, 1.0 + 1e-9 * (high - low))),
]


def variants_among(mechanism: Mechanism, cases: Sequence[Case], case: Case) -> list[tuple[str, list[Case]]]:
    """Return the variants of a case to try; if there are too many for all cases, a different part for each case.

    Parameters
    ----------
    mechanism : Mechanism
        What is audited.
    cases : sequence of Case
        All cases in which it is.
    case : Case
        One of them.

    Returns
    -------
    list of (str, list of Case)
        As for `variants`; none that is among the cases.
    """
    given = {_case_key(each) for each in cases}
    own = [(name, tried) for name, tried in variants(mechanism, case) if _case_key(tried[0]) not in given]
    every = -(-len(own) * len(cases) // MOST)
    at = next((at for at, each in enumerate(cases) if each is case), 0)
    return own[at % every :: every] if every > 1 else own


def _case_key(case: Case) -> str:
    return repr(replace(case, rows=(), tables=(), tightness=0.9))


def variants(mechanism: Mechanism, case: Case) -> Iterator[tuple[str, list[Case]]]:
    """Yield variants of a case, such as with another neighbouring relation, other groups, bounds or arguments.

    Parameters
    ----------
    mechanism : Mechanism
        What is audited.
    case : Case
        A case of its author's.

    Yields
    ------
    str
        What is changed.
    list of Case
        The case so changed; after it, should it be refused, some with half of the change.
    """
    added = case.neighbors == "replace_one"
    yield (
        "add_remove" if added else "replace_one",
        [replace(case, neighbors="add_remove" if added else "replace_one")],
    )
    yield from _public_variants(case)
    yield from _row_variants(case)
    yield from (_scaled_variant(case, epsilon, bounds) for epsilon, bounds in _SCALES)
    yield from _argument_variants(mechanism, case)
    if case.bounds and not case.missing:
        fills = {name: high for name, (_, high) in case.bounds.items() if name not in case.categories}
        yield "missing values are highest", [replace(case, missing=fills)]


def _public_variants(case: Case) -> Iterator[tuple[str, list[Case]]]:
    """Yield variants of a case in which a private column is public, or a public column is private."""
    fixed = replace(case, neighbors="replace_one")
    named = [*case.categories, *(name for name in case.bounds if name not in case.categories)]
    for name in named[:_COLUMNS]:
        if name in case.public:
            yield f"private {name}", [replace(fixed, public=[each for each in case.public if each != name])]
        else:
            yield f"public {name}", [replace(fixed, public=[*case.public, name])]


def _row_variants(case: Case) -> Iterator[tuple[str, list[Case]]]:
    """Yield variants of a case with an unused column, with a condition on the rows, or with groups."""
    name = next(name for name in ("part", "part_", "part__") if name not in case.columns)
    more = replace(
        case,
        categories={**case.categories, name: ["in", "out"]},
        rows=[{name: "in", **row} for row in case.rows],
        tables=[[{name: "in", **row} for row in rows] for rows in case.tables],
    )
    public = replace(more, public=[*case.public, name], neighbors="replace_one")
    yield "an unused column", [more]
    if not case.where:
        yield "where private", [replace(more, where={name: "in"})]
        yield "where public", [replace(public, where={name: "in"})]
        for used, (low, high) in list(case.bounds.items())[:1]:
            yield f"where {used}", [replace(case, where={used: (low, low + (high - low) * 3 / 4)})]
    if not case.group_by:
        yield "by private groups", [replace(more, group_by=name)]
        yield "by public groups", [replace(public, group_by=name)]


def _scaled_variant(
    case: Case, epsilon: str | float, bounds: Callable[[float, float], tuple[float, float]]
) -> tuple[str, list[Case]]:
    """Return a variant with another epsilon and other bounds and, if these differ, two with one change each."""
    moved: Mapping[str, tuple[float, float]] = {
        name: pair if name in case.categories else bounds(*map(float, pair)) for name, pair in case.bounds.items()
    }
    priced, other = replace(case, epsilon=epsilon), replace(case, bounds=moved, rows=(), tables=())
    if case.bounds == moved:
        return f"epsilon {epsilon}", [priced]
    return f"epsilon {epsilon}, other bounds", [replace(other, epsilon=epsilon), priced, other]


def _argument_variants(mechanism: Mechanism, case: Case) -> Iterator[tuple[str, list[Case]]]:
    """Yield variants of a case with a smaller or larger value of one numeric argument."""
    defaults = {
        name: parameter.default
        for name, parameter in mechanism.signature.parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    every = {**defaults, **case.arguments}
    numbers = {name: value for name, value in every.items() if type(value) in {int, float} and name != "epsilon"}
    for name, value in list(numbers.items())[:_ARGUMENTS]:
        for other in _values_to_try(value):
            yield f"{name}={other!r}", [replace(case, arguments={**case.arguments, name: other})]


def _values_to_try(value: float) -> list[float]:
    """Return values to try in place of a number: for an integer 1 and its double, else far smaller and larger."""
    if type(value) is int:
        extremes: list[float] = [1, 2 * value] if 0 < value <= _MAX_COUNT else [1]
    else:
        extremes = [1e-3 * value, 1e6 * value] if value else [1.0, -1e6]
    return [each for each in extremes if each != value]
