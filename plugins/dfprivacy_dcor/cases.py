"""How distance correlation is called when it is audited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Mechanism

__all__ = ["dfprivacy_conformance_cases"]

_BOUNDS = {"x": (-3.0, 1.5), "y": (0.0, 2.0), "z": (-1.0, 1.0)}
_GROUPS = {"g": ["a", "b", "c"]}
_LINE = 0.999  # what is missing of 1 is the grid's
_PLANE = 0.75  # the proved sensitivity of s_xy is √1.5 of what any search has found


@hookimpl
def dfprivacy_conformance_cases(mechanism: Mechanism, case: Any) -> Sequence[Any]:
    """Give the cases: one column and several, each metric, categories, all rows and some."""
    two = {"x": _BOUNDS["x"], "y": _BOUNDS["y"]}
    public = {"bounds": two, "categories": _GROUPS, "public": ["g"]}
    pair = {"x": "x", "y": "y"}
    if mechanism.name == "dcor_screen":
        return [
            case(arguments={"target": "y", "top": 1}, bounds=_BOUNDS),
            case(arguments={"target": "y", "features": ["x", "z"], "top": 2, "estimate": True}, bounds=_BOUNDS),
        ]
    return [
        case(arguments=pair, bounds=two, tightness=_LINE),
        case(arguments=pair, **public, where={"g": ["a", "b"]}, tightness=_LINE),
        case(arguments=pair, **public, group_by="g", tightness=_LINE),
        case(arguments={"x": ["x", "z"], "y": "y", "metric": "l1"}, bounds=_BOUNDS, tightness=_LINE),
        case(arguments={"x": ["x", "z"], "y": ["y"]}, bounds=_BOUNDS, tightness=_PLANE),
        case(arguments={"x": "g", "y": "y"}, bounds={"y": (0.0, 2.0)}, categories=_GROUPS, tightness=_PLANE),
        case(arguments={**pair, "method": "permutation", "alpha": 0.05, "permutations": 9}, bounds=two),
    ]
