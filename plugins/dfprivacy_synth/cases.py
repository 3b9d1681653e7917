"""Example calls of the synthetic table, for the privacy audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Mechanism

__all__ = ["dfprivacy_conformance_cases"]


@hookimpl
def dfprivacy_conformance_cases(mechanism: Mechanism, case: Any) -> Sequence[Any]:  # noqa: ARG001 - there is one
    """Return example calls, with numbers and categories, a target, a single column, and missing values."""
    known: dict[str, Any] = {
        "bounds": {"x": (-3.0, 1.5)},
        "categories": {"g": ["a", "b", "c"], "h": ["u", "v"]},
        "delta": "1/100000",
        # A row that differs in all columns moves each count; that it moves each choice by as much is rare.
        "tightness": 0.5,
    }
    return [
        case(arguments={"columns": ["g", "h", "x"]}, **known),
        case(arguments={"columns": ["g", "h", "x"], "target": "h"}, **known, neighbors="add_remove"),
        case(arguments={"columns": ["g", "h"]}, **known, public=["h"]),
        case(arguments={"columns": ["x"]}, **known),
    ]
