"""Example calls of Gaussian classes, mixtures and moments, for the privacy audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Mechanism

__all__ = ["dfprivacy_conformance_cases"]


@hookimpl
def dfprivacy_conformance_cases(mechanism: Mechanism, case: Any) -> Sequence[Any]:
    """Return example calls of a method, with Gaussian and Laplace noise, and with private and public groups."""
    known: dict[str, Any] = {"bounds": {"x": (-3.0, 1.5), "y": (0.0, 1.0)}, "categories": {"g": ["a", "b"]}}
    delta = {"delta": "1/100000"}
    both = ["x", "y"]
    if mechanism.name == "gmm_fit":
        mixture: dict[str, Any] = {"columns": both, "n_components": 2, "restarts": 1}
        labelled: dict[str, Any] = {"columns": both, "label": "g"}
        return [
            case(arguments=labelled, **known, **delta),
            case(arguments={**labelled, "radius": 1.0}, **known, **delta, neighbors="add_remove"),
            case(arguments={**labelled, "method": "qda"}, **known, **delta, public=["g"]),
            case(arguments={**labelled, "nan_policy": "fill"}, **known, **delta, public=["g"]),
            case(arguments={**labelled, "repair": "paper"}, **known),
            case(arguments=labelled, **known, neighbors="add_remove"),
            case(arguments={**labelled, "columns": ["x"], "queries": "separately"}, **known),
            case(arguments=mixture, **known, **delta),
            case(arguments={**mixture, "nan_policy": "fill"}, **known, **delta),
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
    every = {"columns": both}
    return [
        # Two columns in the cube do not attain the diameter of the ball around it.
        case(arguments={**every, "radius": 0.8}, **known, **delta),
        case(arguments={**every, "radius": 0.8, "nan_policy": "fill"}, **known, **delta),
        case(arguments=every, **known, **delta, neighbors="add_remove"),
        case(arguments=every, **known),
        case(arguments={**every, "by": "g"}, **known, neighbors="add_remove"),
        case(arguments={**every, "by": "g"}, **known, **delta, public=["g"]),
        case(arguments=every, **known, where={"g": ["a"]}),
        case(arguments=every, **known, **delta, group_by="g"),
    ]
