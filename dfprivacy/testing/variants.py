"""The cases that an author leaves out.

A sensitivity may hold in the cases that its author thought of, and nowhere else. So the kit asks on its own what
else could be asked: under the other neighbouring relation, with other columns public, of a part of the rows, by
group, with other bounds, prices and arguments. What the mechanism refuses is no fault of it.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dfprivacy.mechanism import Mechanism
    from dfprivacy.testing.cases import Case

__all__ = ["variants", "variants_among"]

MOST = 32
"""Variants of all cases of one mechanism together, at most; of each case at least one."""
_COLUMNS = 5
_ARGUMENTS = 4
_SMALL = 64

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
    """Give the share that one of several cases has in the variants of all.

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
    given = {_key(each) for each in cases}
    own = [(name, tried) for name, tried in variants(mechanism, case) if _key(tried[0]) not in given]
    every = -(-len(own) * len(cases) // MOST)
    at = next((at for at, each in enumerate(cases) if each is case), 0)
    return own[at % every :: every] if every > 1 else own


def _key(case: Case) -> str:
    return repr(replace(case, rows=(), tables=(), sizes={}, tightness=0.9))


def variants(mechanism: Mechanism, case: Case) -> Iterator[tuple[str, list[Case]]]:
    """Change what an author chose.

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
    yield from _public(case)
    yield from _parts(case)
    yield from (_scaled(case, epsilon, bounds) for epsilon, bounds in _SCALES)
    yield from _arguments(mechanism, case)
    if case.bounds and not case.missing:
        fills = {name: high for name, (_, high) in case.bounds.items() if name not in case.categories}
        yield "missing values are highest", [replace(case, missing=fills)]


def _public(case: Case) -> Iterator[tuple[str, list[Case]]]:
    """Let each column be public that is private, and private that is public, and all categories be public."""
    fixed = replace(case, neighbors="replace_one")
    named = [*case.categories, *(name for name in case.bounds if name not in case.categories)]
    for name in named[:_COLUMNS]:
        if name in case.public:
            yield f"private {name}", [replace(fixed, public=[each for each in case.public if each != name])]
        else:
            yield f"public {name}", [replace(fixed, public=[*case.public, name])]


def _parts(case: Case) -> Iterator[tuple[str, list[Case]]]:
    """Ask of some of the rows, and by group; by a column that is not used otherwise, and by one that is."""
    name = next(name for name in ("part", "part_", "part__") if name not in case.columns)
    more = replace(
        case,
        categories={**case.categories, name: ["in", "out"]},
        rows=[{name: "in", **row} for row in case.rows],
        tables=[[{name: "in", **row} for row in rows] for rows in case.tables],
    )
    public = replace(more, public=[*case.public, name], neighbors="replace_one")
    yield "a column that is not used", [more]
    if not case.where:
        yield "where private", [replace(more, where={name: "in"})]
        yield "where public", [replace(public, where={name: "in"})]
        for used, (low, high) in list(case.bounds.items())[:1]:
            yield f"where {used}", [replace(case, where={used: (low, low + (high - low) * 3 / 4)})]
    if not case.group_by:
        yield "by private groups", [replace(more, group_by=name)]
        yield "by public groups", [replace(public, group_by=name)]


def _scaled(
    case: Case, epsilon: str | float, bounds: Callable[[float, float], tuple[float, float]]
) -> tuple[str, list[Case]]:
    """Change the price and all bounds; if refused, each alone."""
    moved: Mapping[str, tuple[float, float]] = {
        name: pair if name in case.categories else bounds(*map(float, pair)) for name, pair in case.bounds.items()
    }
    priced, other = replace(case, epsilon=epsilon), replace(case, bounds=moved, rows=(), tables=())
    if case.bounds == moved:
        return f"epsilon {epsilon}", [priced]
    return f"epsilon {epsilon}, other bounds", [replace(other, epsilon=epsilon), priced, other]


def _arguments(mechanism: Mechanism, case: Case) -> Iterator[tuple[str, list[Case]]]:
    """Change each number among the arguments, those by default included, to small and large ones."""
    defaults = {
        name: parameter.default
        for name, parameter in mechanism.signature.parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    every = {**defaults, **case.arguments}
    numbers = {name: value for name, value in every.items() if type(value) in {int, float} and name != "epsilon"}
    for name, value in list(numbers.items())[:_ARGUMENTS]:
        for other in _others(value):
            yield f"{name}={other!r}", [replace(case, arguments={**case.arguments, name: other})]


def _others(value: float) -> list[float]:
    """Give extremes in place of a number; of a whole one, which may count something, only such as are near."""
    if type(value) is int:
        extremes: list[float] = [1, 2 * value] if 0 < value <= _SMALL else [1]
    elif 0 < value < 1:
        extremes = [1e-3, 0.999, 1e6 * value]
    else:
        extremes = [1e-6 * value, 1e6 * value] if value else [1.0, -1e6]
    return [each for each in extremes if each != value]
