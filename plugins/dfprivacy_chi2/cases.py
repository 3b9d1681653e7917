"""Example calls of the tests of independence, for the privacy audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Mechanism

__all__ = ["dfprivacy_conformance_cases"]

_TWO = {"categories": {"x": [0, 1], "by": ["a", "b"]}}
_LARGER = {"categories": {"x": ["u", "v", "w"], "by": ["a", "b"]}}
_GROUPED = {"categories": {"x": [0, 1], "by": ["a", "b"], "g": [1, 2]}}
_MANY = {"categories": {"x": [0, 1], "z": [0, 1], "by": ["a", "b"]}}

_EXACT = {"margin": "invariant", "rate": 0.5, "nan_policy": "fill"}
_CIRCLE = {"statistic": "unitcircle", "nan_policy": "fill"}


@hookimpl
def dfprivacy_conformance_cases(mechanism: Mechanism, case: Any) -> Sequence[Any]:
    """Return example calls of a test, with each statistic, and with public and private groups."""
    columns = {"x": "x", "by": "by"}
    public = {"public": ["by"]}
    if mechanism.name == "chi2_unitcircle":
        return [
            case(arguments=columns, **_TWO, **public),
            # The paper's bound is too large by √2 where the groups are equal.
            case(arguments={**columns, "sensitivity": "paper"}, **_TWO, **public, tightness=0.6),
            case(arguments={**columns, "margin": "public_rate", "rate": 0.3}, **_TWO, **public),
            # The noise is for two rows that exchange their x, and the pairs of an audit differ in one.
            case(arguments={**columns, **_EXACT}, **_TWO, **public, tightness=0.4),
            case(arguments={**columns, **_EXACT, "tau": 1e4}, **_TWO, **public),
            case(arguments={**columns, "nan_policy": "fill"}, **_TWO, **public),
            case(arguments=columns, **_GROUPED, public=["by", "g"], where={"g": [1]}),
            case(arguments=columns, **_GROUPED, public=["by", "g"], group_by="g"),
        ]
    if mechanism.name == "chi2_many":
        some = {"xs": ["x", "z"], "by": "by"}
        return [
            case(arguments=some, **_MANY, **public),
            case(arguments={**some, "nan_policy": "fill"}, **_MANY, **public),
            case(arguments={**some, "method": "select", "max_rejections": 2}, **_MANY, **public),
            case(arguments={**some, "statistic": "unitcircle", "method": "select"}, **_MANY, **public),
            case(arguments={**some, **_CIRCLE, "method": "select", "score": "distance"}, **_MANY, **public),
        ]
    return [
        case(arguments=columns, **_TWO, **public),
        case(arguments={**columns, "nan_policy": "fill"}, **_TWO, **public),
        case(arguments={**columns, "method": "table"}, **_TWO, **public),
        case(arguments=columns, **_TWO),
        case(arguments=columns, **_LARGER, **public),
        case(arguments=columns, **_GROUPED, public=["by", "g"], where={"g": [1]}),
        case(arguments=columns, **_GROUPED, public=["by", "g"], group_by="g"),
    ]
