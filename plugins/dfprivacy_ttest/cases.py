"""Example calls of the t-test and the z-test, for the privacy audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Mechanism

__all__ = ["dfprivacy_conformance_cases"]

_BOUNDS = {"x": (-3.0, 1.5)}
_WEIGHTED = {**_BOUNDS, "w": (0.5, 4.0)}
_GROUPS = {"g": ["a", "b", "c"]}


@hookimpl
def dfprivacy_conformance_cases(mechanism: Mechanism, case: Any) -> Sequence[Any]:
    """Return example calls of a test, with one sample and two, and with private and public groups."""
    if mechanism.name == "ztest":
        asked = {"column": "x", "popmean": 0.0, "sigma": 1.0}
        return [
            case(arguments=asked, bounds=_BOUNDS, neighbors=neighbors)
            for neighbors in ("replace_one", "add_remove")
        ]
    one = {"column": "x", "popmean": -1.0}
    two = {"column": "x", "by": "g", "groups": ["a", "b"]}
    grouped = {"bounds": _BOUNDS, "categories": _GROUPS}
    both = {"bounds": _BOUNDS, "categories": {**_GROUPS, "h": ["u", "v"]}}
    return [
        case(arguments=one, bounds=_BOUNDS),
        case(arguments=one, bounds=_BOUNDS, neighbors="add_remove"),
        case(arguments={**one, "nan_policy": "fill"}, bounds=_BOUNDS),
        case(arguments={**one, "nan_policy": "fill"}, bounds=_BOUNDS, neighbors="add_remove"),
        case(arguments={**one, "weights": "w"}, bounds=_WEIGHTED),
        case(arguments={**two, "weights": "w"}, bounds=_WEIGHTED, categories=_GROUPS),
        case(arguments={**two, "weights": "w"}, bounds=_WEIGHTED, categories=_GROUPS, neighbors="add_remove"),
        case(arguments={**two, "nan_policy": "fill"}, **grouped, public=["g"]),
        case(arguments=two, **grouped),
        case(arguments={**one, "queries": "separately"}, bounds=_BOUNDS, neighbors="add_remove"),
        case(arguments=two, **grouped, public=["g"]),
        case(arguments=two, **grouped, neighbors="add_remove"),
        case(arguments=one, **grouped, where={"g": ["a", "b"]}),
        case(arguments=one, **grouped, group_by="g"),
        case(arguments=one, **grouped, group_by="g", neighbors="add_remove"),
        case(arguments=one, **grouped, group_by="g", public=["g"]),
        case(arguments=one, **both, group_by=["g", "h"], public=["g"]),
    ]
