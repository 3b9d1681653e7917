"""Example calls of linear and logistic regression, for the privacy audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Mechanism

__all__ = ["dfprivacy_conformance_cases"]


@hookimpl
def dfprivacy_conformance_cases(mechanism: Mechanism, case: Any) -> Sequence[Any]:
    """Return example calls of a regression, with numeric and categorical columns, under both relations."""
    known: dict[str, Any] = {
        "bounds": {"x": (-3.0, 1.5), "y": (0.0, 1.0)},
        "categories": {"g": ["a", "b", "c"], "h": ["u", "v"]},
    }
    weighted = {"bounds": {**known["bounds"], "w": (0.5, 4.0)}}
    if mechanism.name == "logit":
        return [
            case(arguments={"y": "h ~ x + C(g)"}, **known),
            case(arguments={"y": "h", "x": "x", "success": "u"}, **known, neighbors="add_remove"),
            *(
                case(arguments={"y": "h ~ x", "weights": "w"}, **{**known, **weighted}, neighbors=neighbors)
                for neighbors in ("replace_one", "add_remove")
            ),
        ]
    return [
        case(arguments={"y": "y", "x": ["x", "g"]}, **known),
        case(arguments={"y": "y ~ x"}, **known, neighbors="add_remove"),
        *(
            case(arguments={"y": "y ~ x", "weights": "w"}, **{**known, **weighted}, neighbors=neighbors)
            for neighbors in ("replace_one", "add_remove")
        ),
        case(arguments={"y": "y ~ x", "nan_policy": "fill", "robust": False}, **known, public=["x"]),
    ]
