"""Steps that made a view, such as ``where`` and ``join``, converted to JSON values and back.

A view records the verbs that made it, with their arguments. As JSON they are text and numbers; applied to a view of
the whole table they make the same view again, by the same methods that made it, and by no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy._call.requests import condition_argument, decode_argument, encode_argument
from dfprivacy.errors import ArgumentError
from dfprivacy.expressions import Expression, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy._call.payment import Step, Target
    from dfprivacy.view import PrivateFrame

__all__ = ["view_by_steps", "write_steps"]

_MOST_STEPS = 100
_MOST_JOINS = 3  # of one view: each may multiply the rows of a person


def write_steps(steps: Sequence[Step]) -> list[list[Any]]:
    """Convert the steps that made a view to JSON values; raise an `ArgumentError` for a Python function."""
    return [[verb, _WRITERS[verb](given)] for verb, given in steps]


def view_by_steps(
    view: PrivateFrame, steps: object, table_of: Callable[[str], PrivateFrame] | None = None
) -> PrivateFrame:
    """Apply steps, such as ``where``, to a view of the whole table, and return the resulting view.

    Parameters
    ----------
    view : PrivateFrame
        The view of the whole table.
    steps : object
        The result of `write_steps`, possibly from an untrusted source.
    table_of : callable, optional
        Returns the view of another whole table by its name, for joins.

    Returns
    -------
    PrivateFrame
        The view.

    Raises
    ------
    ValueError, TypeError, KeyError
        If `steps` is no result of `write_steps`.
    DPError
        If the view cannot be made.
    """
    if not isinstance(steps, list) or len(steps) > _MOST_STEPS:
        raise ValueError
    if _count_joins(steps) > _MOST_JOINS:
        raise ArgumentError(f"A question joins {_MOST_JOINS} tables at most.", "Join fewer tables.")
    for verb, given in steps:
        view = _read_join(view, given, table_of) if verb == "join" else _READERS[verb](view, given)
    return view


def _count_joins(steps: list[Any]) -> int:
    """Count the joins of a view, and of the views that it is joined with."""
    return sum(1 + _count_joins(given["steps"]) for verb, given in steps if verb == "join")


def _write_where(conditions: Sequence[Any]) -> list[Any]:
    rules = [each.describe() for each in conditions]
    if None in rules:
        raise ArgumentError(
            "A Python function cannot be written into a request.", "Select rows by where(age=(30, 40))."
        )
    return rules


def _read_where(view: PrivateFrame, rules: list[dict[str, Any]]) -> PrivateFrame:
    for rule in rules:
        ((name, bound),) = rule.items()
        view = view.where({name: condition_argument(bound)})
    return view


def _write_columns(columns: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"formula": each.formula.node.to_json(), "bounds": each.declared_bounds}
        for name, each in columns.items()
    }


def _read_columns(view: PrivateFrame, columns: dict[str, dict[str, Any]]) -> PrivateFrame:
    bounds = {name: of["bounds"] for name, of in columns.items() if of["bounds"] is not None}
    formulas = {name: Expression(Node.from_json(of["formula"])) for name, of in columns.items()}
    return view.with_columns(bounds=bounds, **formulas)


def _read_per(view: PrivateFrame, given: list[Any]) -> PrivateFrame:
    unit, columns = decode_argument(given)
    return view.per(unit).agg(columns)


def _write_join(given: tuple[Target, dict[str, Any]]) -> dict[str, Any]:
    other, how = given
    return {"table": other.served_name, "steps": write_steps(other.steps), **how}


def _read_join(
    view: PrivateFrame, given: dict[str, Any], table_of: Callable[[str], PrivateFrame] | None
) -> PrivateFrame:
    plain = dict(given)
    name, steps = plain.pop("table"), plain.pop("steps")
    if table_of is None:
        raise ArgumentError(
            "A request to a custodian is about one table, and this request joins two.",
            "Protect both tables in one process, and ask there.",
        )
    if {*plain} != {"on", "how", "max_rows"}:
        raise ValueError
    return view.join(view_by_steps(table_of(name), steps, table_of), **plain)


_WRITERS: dict[str, Callable[[Any], Any]] = {
    "where": _write_where,
    "select": list,
    "with_columns": _write_columns,
    "declare": lambda given: encode_argument(given, "declare()"),
    "sample": str,
    "join": _write_join,
    "per": lambda given: encode_argument(given, "agg()"),
}
_READERS: dict[str, Callable[[Any, Any], Any]] = {
    "where": _read_where,
    "select": lambda view, names: view.select(*names),
    "with_columns": _read_columns,
    "declare": lambda view, given: view.declare(**decode_argument(given)),
    "sample": lambda view, share: view.sample(share),
    "per": _read_per,
}
