"""Questions about two views: about the union of their tables, paid by both accounts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dfprivacy._call.payment import Target
from dfprivacy._ledger.accounts import JointAccount
from dfprivacy._measure.evaluate import union_of_tables
from dfprivacy.errors import ArgumentError, SchemaError
from dfprivacy.schema import Column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy.mechanism import Mechanism

__all__ = ["columns_among", "target_of_two_tables"]


def target_of_two_tables(
    target: Target, mechanism: Mechanism, arguments: Mapping[str, Any], parameter: str
) -> tuple[Target, str, dict[str, Any]]:
    """Return a target with the rows and accounts of two tables, the second table's name, and the arguments."""
    given = arguments[parameter]
    second = getattr(given, "_target", None)
    if not isinstance(second, Target) or getattr(given, "_by", None):
        raise ArgumentError(
            f"{parameter}= takes a view, not {type(given).__name__}.",
            "Pass a view of the second table, such as protect() returns.",
        )
    _ = JointAccount(target.account, second.account)  # raises an error if the two cannot pay together
    names = target.name, second.name
    for name, each in zip(names, (target, second), strict=True):
        if (unit := each.table.schema.unit) is not None:
            raise ArgumentError(
                f"A question about two views cannot include {name!r}: a {unit.column!r} may have several rows.",
                f"Use views with one row for each {unit.column!r}: view.per({unit.column!r}).agg(...).",
            )
        if each.table.sample is not None:
            raise ArgumentError(
                f"A question about two views cannot include the view of {name!r}, a secret sample: the price "
                "of two tables is proved for all of their rows.",
                "Use the views of the whole tables.",
            )
    table, which = union_of_tables(target.table, second.table, names)
    resolved = mechanism.resolve(target.table.schema, arguments)
    try:
        its = mechanism.resolve(second.table.schema, arguments)
    except SchemaError as error:
        raise SchemaError(f"In {names[1]!r}: {error.what}", error.hint) from None
    differ = [
        column.name
        for name in mechanism.columns
        if name != parameter
        for column, another in zip(columns_among(resolved[name]), columns_among(its[name]), strict=True)
        if column != another
    ]
    if differ:
        raise ArgumentError(
            f"Columns {differ!r} are declared differently in {names[0]!r} and {names[1]!r}.",
            "Protect both with the same bounds, categories, missing= and public=.",
        )
    both = replace(target, table=table, second=second.account)
    return both, names[1], {**resolved, parameter: which}


def columns_among(value: Any) -> Sequence[Column]:
    """Return the columns in the value of an argument, which is one value or a tuple."""
    return [each for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, Column)]
