"""Example calls of the methods of exploratory analysis, for the privacy audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Mechanism

__all__ = ["dfprivacy_conformance_cases"]

_X = {"bounds": {"x": (-3.0, 1.5)}}
_GROUPED = {**_X, "categories": {"g": ["a", "b", "c"]}}
_WEIGHTED = {"bounds": {"x": (-3.0, 1.5), "w": (0.5, 4.0)}, "categories": {"g": ["a", "b", "c"], "h": ["u", "v"]}}
_TABLE = {**_X, "categories": {"g": ["a", "b", "c"], "h": ["u", "v"]}}
_TWO = {"bounds": {"x": (-3.0, 1.5), "y": (0.0, 1.0)}, "categories": {"h": ["u", "v"]}}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "quantile": {"column": "x", "q": [0.25, 0.5], "step": 0.1},
    "median": {"column": "x", "step": 0.5},
    "histogram": {"column": "x", "bins": [-2, 0, 1]},
    "value_counts": {"column": "g"},
    "crosstab": {"a": "g", "b": "h"},
    "describe": {},
    "report": {},
    "find_bounds": {"columns": ["x"]},
    "agg": {"aggregations": {"x": ["mean", "missing"], "g": ["top", "missing"]}},
    "nunique": {"column": "g"},
    "corr": {"columns": ["x", "y"]},
    "cov": {"columns": ["x", "y"], "recentre": True},
}
_RELATIONS = ("replace_one", "add_remove")


@hookimpl
def dfprivacy_conformance_cases(mechanism: Mechanism, case: Any) -> Sequence[Any]:
    """Return example calls of a method: with missing values, groups, or a private number of rows."""
    name = mechanism.name
    if name in {"mean", "var", "std", "sum"}:
        asked = {"column": "x"}
        every = [case(arguments=asked, neighbors=relation, **_X) for relation in _RELATIONS]
        if name == "sum":  # by group, for a population's sum is not that of as many rows as an audit makes up
            every.append(case(arguments={**asked, "weights": "w"}, **_WEIGHTED, group_by="g"))
        if name != "mean":  # the same measurement
            return every
        return [
            *every,
            case(arguments={**asked, "nan_policy": "fill"}, **_X),
            case(arguments={**asked, "nan_policy": "fill"}, neighbors="add_remove", **_X),
            case(arguments={**asked, "covers": "population"}, **_X, missing={"x": -1.0}),
            *(
                case(arguments={**asked, "weights": "w"}, neighbors=relation, **_WEIGHTED)
                for relation in _RELATIONS
            ),
            case(arguments={**asked, "weights": "w"}, **_WEIGHTED, group_by="g"),
            case(arguments=asked, **_GROUPED, where={"g": ["a", "b"]}),
            case(arguments=asked, **_GROUPED, group_by="g"),
            case(arguments=asked, **_GROUPED, group_by="g", neighbors="add_remove"),
            case(arguments=asked, **_GROUPED, group_by="g", public=["g"]),
        ]
    if name in {"count", "missing"}:
        both = {"columns": ["x", "g"]}
        every = [case(arguments=both, neighbors=relation, **_GROUPED) for relation in _RELATIONS]
        every.append(case(arguments={"columns": "x"}, **_GROUPED, group_by="g"))
        if name == "count":
            every.append(case(neighbors="add_remove", **_X))
            every.append(case(**_GROUPED, where={"g": ["a", "b"]}))
        return every
    if name == "find_categories":
        both = {"columns": ["g", "h"]}
        terms = {"epsilon": 5, "delta": "1/100000", **_TABLE}
        return [case(arguments=both, neighbors=relation, **terms) for relation in _RELATIONS]
    if name == "profile":
        # Two Gaussian mechanisms at shares of epsilon and delta lose less together than the sum of what is charged.
        # The price is one at which some counts of the audit's tables are seen, and those of a few rows are not.
        terms = {"arguments": {"columns": ["x", "g"]}, "delta": "1/100000", "tightness": 0.5, **_TABLE}
        return [case(neighbors=relation, epsilon=6 - 2 * at, **terms) for at, relation in enumerate(_RELATIONS)]
    asked = _ARGUMENTS[name]
    table = _TWO if name in {"corr", "cov", "report"} else _TABLE
    every = [case(arguments=asked, neighbors=relation, **table) for relation in _RELATIONS]
    return every[:1] if name == "cov" else [*every, *_additional_cases(name, asked, case)]


def _additional_cases(name: str, asked: dict[str, Any], case: Any) -> list[Any]:
    """Return further example calls of some methods: with groups, weights, conditions or other arguments."""
    if name == "agg":
        return [case(arguments={"spread": ["x", "std"]}, **_TABLE, group_by="h", public=["h"])]
    if name == "nunique":
        return [case(arguments={"column": "x"}, neighbors="add_remove", **_TABLE)]
    if name == "corr":
        return [case(arguments={**asked, "nan_policy": "fill"}, **_TWO, group_by="h")]
    every = []
    if name in {"value_counts", "crosstab"}:
        every.append(case(arguments={**asked, "weights": "w"}, **_WEIGHTED))
    if name == "value_counts":
        every.append(case(arguments={**asked, "weights": "w"}, neighbors="add_remove", **_WEIGHTED))
    if name in {"describe", "quantile"}:
        every += [
            case(arguments=asked, **_TABLE, group_by="h"),
            # Of a column that selects the rows, the counts move less than it is known that they could.
            case(arguments={"columns": ["x", "g"]} if name == "describe" else asked, **_TABLE, where={"h": ["u"]}),
            case(arguments={**asked, "nan_policy": "fill"}, **_TABLE),
        ]
    if name == "value_counts":
        found = {"column": "g", "categories": "discover"}
        every.append(case(arguments=found, epsilon=10, delta="1/1000", group_by="h", **_TABLE))
        known = {"column": "g", "domain": "[a-z]"}
        every += [case(arguments=known, neighbors=relation, **_TABLE) for relation in _RELATIONS]
    if name == "quantile":  # one alone, of which a row that comes or goes moves the score by 2/3
        every += [
            case(arguments={"column": "x", "q": 1 / 3, "step": 0.5}, neighbors=relation, **_TABLE)
            for relation in _RELATIONS
        ]
    return every
