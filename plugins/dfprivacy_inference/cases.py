"""Example calls of rank tests, analysis of variance, proportions and survival, for the privacy audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Mechanism

__all__ = ["dfprivacy_conformance_cases"]

_BOUNDS = {"x": (-3.0, 1.5), "y": (0.0, 2.0)}
_TWO = {"g": ["a", "b"]}
_THREE = {"g": ["a", "b", "c"]}


@hookimpl
def dfprivacy_conformance_cases(mechanism: Mechanism, case: Any) -> Sequence[Any]:
    """Return example calls of a method, with private and public groups, under both neighbouring relations."""
    x = {"x": _BOUNDS["x"]}
    two: dict[str, Any] = {"bounds": x, "categories": _TWO}
    three: dict[str, Any] = {"bounds": x, "categories": _THREE}
    asked = {"column": "x", "by": "g"}
    both = {**_TWO, "h": ["u", "v", "w"]}
    times: dict[str, Any] = {"bounds": {"t": (0.0, 2.0)}, "categories": {**_TWO, "e": [0, 1]}}
    weighted: dict[str, Any] = {"bounds": {"x": (0.0, 4.0)}, "categories": both}
    known: dict[str, list[Any]] = {
        "mannwhitneyu": [
            case(arguments=asked, **two, epsilon=9),
            case(arguments=asked, **two, public=["g"]),
            case(arguments=asked, **two, neighbors="add_remove"),
        ],
        "kruskal": [
            case(arguments=asked, **three),
            case(arguments=asked, **three, neighbors="add_remove"),
        ],
        "wilcoxon": [
            case(arguments={"column": "x", "other": "y", "method": "rank"}, bounds=_BOUNDS, neighbors="add_remove"),
            case(arguments={"column": "x", "method": "sign"}, bounds=x),
        ],
        "anova": [case(arguments=asked, **three), case(arguments=asked, **three, public=["g"])],
        "proportions": [
            case(arguments={"column": "h", "by": "g", "success": "u"}, categories=both),
            case(arguments={"column": "h", "by": "g", "success": "u"}, categories=both, public=["g"]),
            *(
                case(arguments={**asked, "column": "h", "success": "u", "weights": "x"}, **weighted, neighbors=each)
                for each in ("replace_one", "add_remove")
            ),
        ],
        "mcnemar": [
            case(arguments={"column": "g", "other": "k", "success": "a"}, categories={**_TWO, "k": ["a", "b"]})
        ],
        "kaplan_meier": [
            case(arguments={"time": "t", "event": "e", "edges": [0, 1, 2], "by": "g"}, **times),
            case(arguments={"time": "t", "event": "e", "edges": 3}, **times, neighbors="add_remove"),
        ],
        "hazard_ratio": [
            case(arguments={"time": "t", "event": "e", "edges": [0, 1, 2], "by": "g"}, **times, epsilon=30),
            case(arguments={"time": "t", "event": "e", "edges": 3, "by": "g"}, **times, public=["g"]),
            case(
                arguments={"time": "t", "event": "e", "edges": 1, "by": "g", "strata": "k"},
                bounds=times["bounds"],
                categories={**times["categories"], "k": ["u", "v"]},
            ),
            case(arguments={"time": "t", "event": "e", "edges": 3, "by": "g"}, **times, neighbors="add_remove"),
        ],
        "survival_test": [
            case(arguments={"time": "t", "event": "e", "by": "g"}, **times, epsilon=30),
            case(arguments={"time": "t", "event": "e", "by": "g"}, **times, neighbors="add_remove"),
        ],
    }
    return known[mechanism.name]
