"""How the methods are called when they are audited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Mechanism

__all__ = ["dfprivacy_conformance_cases"]


@hookimpl
def dfprivacy_conformance_cases(mechanism: Mechanism, case: Any) -> Sequence[Any]:
    """Give the cases: Gaussian and Laplace noise, private and public groups, all rows, some, and by group."""
    known: dict[str, Any] = {"bounds": {"x": (-3.0, 1.5), "y": (0.0, 1.0)}, "categories": {"g": ["a", "b"]}}
    delta = {"delta": "1/100000"}
    both = ["x", "y"]
    if mechanism.name == "gmm_fit":
        mixture: dict[str, Any] = {"columns": both, "n_components": 2, "restarts": 1}
        asked: dict[str, Any] = {"columns": both, "label": "g"}
        return [
            case(arguments=asked, **known, **delta),
            case(arguments={**asked, "method": "auto", "radius": 1.0}, **known, **delta, neighbors="add_remove"),
            case(arguments={**asked, "method": "qda"}, **known, **delta, public=["g"]),
            case(arguments={**asked, "repair": "paper"}, **known),
            case(arguments=asked, **known, neighbors="add_remove"),
            case(arguments=mixture, **known, **delta),
            case(arguments={**mixture, "columns": ["x"]}, **known, **delta, neighbors="add_remove"),
            case(
                arguments={**mixture, "columns": ["x", "y", "z"]},
                **{**known, "bounds": {**known["bounds"], "z": (-2.0, 2.0)}},
                **delta,
                neighbors="add_remove",
            ),
        ]
    if mechanism.name == "fourier_sketch":
        return [
            case(arguments={"columns": ["x"], "max_components": 2}, **known, **delta),
            case(arguments={"columns": both, "max_components": 2}, **known, **delta),
            case(
                arguments={"columns": ["x"], "max_components": 2},
                **known,
                **delta,
                neighbors="add_remove",
            ),
        ]
    asked = {"columns": both}
    return [
        # Two columns in the cube do not attain the diameter of the ball around it.
        case(arguments={**asked, "radius": 0.8}, **known, **delta),
        case(arguments=asked, **known, **delta, neighbors="add_remove"),
        case(arguments=asked, **known),
        case(arguments={**asked, "by": "g"}, **known, neighbors="add_remove"),
        case(arguments=asked, **known, where={"g": ["a"]}),
        case(arguments=asked, **known, **delta, group_by="g"),
    ]
