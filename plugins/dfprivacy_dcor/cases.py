"""Example calls of the methods of distance correlation, for the privacy audit."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import hookimpl
from dfprivacy.local import Arc
from dfprivacy_dcor.angles import PLACES, DistanceMessage, best_half_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Mechanism

__all__ = ["dfprivacy_conformance_cases"]

_BOUNDS = {"x": (-3.0, 1.5), "y": (0.0, 2.0), "z": (-1.0, 1.0)}
_GROUPS = {"g": ["a", "b", "c"]}
_LINE = 0.999  # what is missing of 1 is the grid's
_LABELS = 0.7  # the same, and categories are no line
_ROWS = 12
_CENTRE = 0.65  # the centre of the complete rows is private, and is bounded apart from the covariance
_PLANE = 0.75  # the proved sensitivity of s_xy is √1.5 of what any search has found
_WIDER = 0.7  # the noise of Theorem 4 is a quarter to a third wider than it must be


@hookimpl
def dfprivacy_conformance_cases(mechanism: Mechanism, case: Any) -> Sequence[Any]:
    """Return example calls of a method, with one column and several, with each metric, and with categories."""
    two = {"x": _BOUNDS["x"], "y": _BOUNDS["y"]}
    public = {"bounds": two, "categories": _GROUPS, "public": ["g"]}
    pair = {"x": "x", "y": "y"}
    plane = {"bounds": {**_BOUNDS, "w": (0.0, 1.0)}, "tightness": _PLANE}
    heard = {"other": _other_party_message(), "columns": "y"}
    paper = {"protocol": "paper", "blocks": 1}
    wider = {**paper, "calibration": "kenthapadi"}
    known: dict[str, list[Any]] = {
        "dcor": [
            case(arguments=pair, bounds=two, tightness=_LINE),
            case(arguments=pair, **public, where={"g": ["a", "b"]}, tightness=_LINE),
            case(arguments={"x": ["x", "z"], "y": "y", "metric": "l1"}, bounds=_BOUNDS, tightness=_LINE),
            case(arguments={"x": ["x", "z"], "y": ["y", "w"]}, **plane),
            case(arguments={"x": "g", "y": "y"}, bounds={"y": two["y"]}, categories=_GROUPS, tightness=_LABELS),
        ],
        "dcor_screen": [
            case(arguments={"target": "y", "features": ["x", "z"], "top": 2, "estimate": True}, bounds=_BOUNDS)
        ],
        "dcor_message": [
            case(arguments={"columns": "x", "harmonics": [1]}, bounds={"x": two["x"]}),
            case(arguments={"columns": ["x", "z"], "blocks": 1}, bounds=_BOUNDS),
            case(arguments={"columns": ["x", "z"], **paper}, bounds=_BOUNDS, delta="1/100000"),
            case(arguments={"columns": ["x", "z"], **paper, "split": False}, bounds=_BOUNDS, delta="1/100000"),
            case(arguments={"columns": "x", **wider}, bounds={"x": two["x"]}, delta="1/100000", tightness=_WIDER),
        ],
        "hsic": [
            case(arguments=pair, bounds=two, tightness=_PLANE),
            case(arguments={"x": ["x", "z"], "kernel": "laplace"}, bounds=_BOUNDS, tightness=_LINE),
        ],
        "dcor_with": [
            case(arguments=heard, bounds={"y": two["y"]}, tightness=_CENTRE),
            case(arguments={**heard, "nan_policy": "fill"}, bounds={"y": two["y"]}, tightness=_LINE),
        ],
    }
    return known[mechanism.name]


def _other_party_message() -> DistanceMessage:
    """Return a message of another party with as many rows as audited tables have; its first row is an outlier."""
    arc = Arc.within(Fraction(1), places=PLACES, reach=best_half_width(1.0))
    return DistanceMessage(
        columns=("other",),
        rows=_ROWS,
        angles=np.array([0, *[PLACES // 2] * (_ROWS - 1)], dtype=np.int64),
        turns=np.zeros(_ROWS, dtype=np.int64),
        directions=np.ones((1, 1)),
        harmonics=(1,),
        length=1.0,
        places=arc.places,
        reach=arc.reach,
        inside=arc.inside,
        outside=arc.outside,
        deviation=0.2,
        deviation_scale=0.01,
        keys=None,
    )
