"""Example calls of kernel two-sample tests, for the privacy audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Mechanism

__all__ = ["dfprivacy_conformance_cases"]


@hookimpl
def dfprivacy_conformance_cases(mechanism: Mechanism, case: Any) -> Sequence[Any]:
    """Return example calls of a method, with public and private groups, two tables, and categories."""
    # Bounds of many lengthscales, so that two rows can be as far apart as any.
    bounds = {"x": (-3.0, 1.5)}
    few = {"columns": ["x"], "lengthscale": 0.4, "n_locations": 4, "nan_policy": "fill"}
    gaps = {"nan_policy": "omit"}
    if mechanism.name == "kernel_message":
        # A row near one location is far from the others, which the sensitivity does not know.
        return [
            case(arguments={**few, "n_locations": 1}, bounds=bounds, delta=1e-6),
            case(arguments=few, bounds=bounds, delta=1e-6, tightness=0.8),
            case(arguments={**few, "features": "scf"}, bounds=bounds, delta=1e-6),
            case(arguments={**few, "features": "nystrom"}, bounds=bounds, delta=1e-6),
            case(arguments={**few, **gaps, "n_locations": 1}, bounds=bounds, delta=1e-6),
        ]
    groups = {"g": ["a", "b"]}
    if mechanism.name == "kernel_locations":
        # Of two choices, the second is among fewer. Only one of two scores moves by all it can.
        chosen = {"columns": ["x"], "by": "g", "lengthscale": 0.4, "locations": [[-3.0], [1.5]], "n_locations": 1}
        return [
            case(arguments=chosen, bounds=bounds, categories=groups, public=["g"]),
        ]
    grouped = {**few, "by": "g"}
    known = {"bounds": bounds, "categories": groups}
    public = {**known, "public": ["g"]}
    moments = {**grouped, "method": "moments"}
    # Landmarks at the ends: where all rows are at one of them, one that goes to the other moves all it can.
    two = {**few, "locations": [[-3.0], [1.5]]}
    ends = {**two, "by": "g"}
    apart = {"bounds": bounds, "other": "other"}
    return [
        case(arguments=ends, **public),
        # What a flip moves most is not what a change of content moves most.
        case(arguments=ends, **known, tightness=0.65),
        case(arguments=ends, **known, neighbors="add_remove", tightness=0.65),
        case(arguments=two, **apart),
        # A row that comes moves most where its table is all but empty; these are of one size.
        case(arguments=two, **apart, neighbors="add_remove", tightness=0.55),
        case(arguments={**few, "method": "moments", "n_locations": 1}, **apart, delta=1e-6),
        case(arguments={**few, "method": "permutation", "n_permutations": 19}, **apart),
        # Between landmarks, rows are shorter than the sensitivity knows.
        case(arguments={**grouped, "lengthscale": "robust"}, **public, tightness=0.7),
        case(arguments={**moments, "n_locations": 1}, **public, delta=1e-6),
        case(arguments=moments, **public, delta=1e-6, tightness=0.8),
        case(arguments={**grouped, "method": "permutation", "n_permutations": 19}, **public),
        case(arguments={**grouped, "method": "whitened", "n_permutations": 19}, **public),
        # As printed: two draws of noise at half of the price each cost less than one price together.
        case(arguments={**moments, "variant": "tcmc", "n_locations": 1}, **public, delta=1e-6, tightness=0.6),
        case(
            arguments={**moments, **gaps, "variant": "nte", "n_locations": 1}, **public, delta=1e-6, tightness=0.6
        ),
        case(
            arguments={**grouped, "columns": ["x"], "categories": ["h"]},
            bounds=bounds,
            categories={**groups, "h": ["p", "q", "r"]},
            public=["g"],
            tightness=0.6,
        ),
        # A row that vanishes moves the separation by a part of what is charged where the sizes are hardly known.
        case(arguments={**ends, **gaps}, **public, tightness=0.5),
        case(arguments={**ends, **gaps}, **known, tightness=0.5),
        case(arguments={**two, **gaps}, **apart, tightness=0.4),
        case(arguments={**two, **gaps, "paired": True}, **apart, tightness=0.5),
        case(arguments={**moments, **gaps, "n_locations": 1}, **public, delta=1e-6),
        case(arguments={**grouped, **gaps, "method": "permutation", "n_permutations": 19}, **public, tightness=0.4),
        case(arguments={**grouped, **gaps, "method": "whitened", "n_permutations": 19}, **public, tightness=0.4),
        *_mixed_cases(case),
    ]


def _mixed_cases(case: Any) -> list[Any]:
    """Return example calls with a public number and a private category, on adversarial tables.

    Number and category vary alike there, so that the leading eigenvector of the covariance is of both. What a row
    moves is then far more than the square of the distance that its category lets it go.
    """
    arguments = {
        "columns": ["x"],
        "categories": ["h"],
        "n_locations": 16,
        "lengthscale": 1,
        "nan_policy": "fill",
    }
    known = {"bounds": {"x": (-2.0, 4.0)}, "missing": {"h": "other"}}
    h = {"h": ["p", "q"]}
    crowd = [(0.756, "p")] * 19 + [(0.625, "p")] + [(0.7251, "q")] * 79
    alone = [
        {"x": x, "h": label, "g": "ab"[at > len(crowd) // 2]}
        for at, (x, label) in enumerate([(1.0023, "q"), *crowd])
    ]
    one = [(-0.3581, "q"), *[(0.9142, "q")] * 7, *[(0.7269, "q")] * 17, *[(-0.0173, None)] * 25]
    another = [(-1.7784, "q"), *[(0.7288, "q")] * 7, *[(-0.01, "q")] * 17, *[(-1.9151, "q")] * 25]
    pairs = [{"x": x, "h": label, "other": at >= len(one)} for at, (x, label) in enumerate([*one, *another])]
    # The spread is bounded as if its eigenvector could be the worst for each row. Of a pair, one row changes here.
    return [
        case(
            arguments={**arguments, "by": "g", "mismatch": 0.999},
            **known,
            categories={**h, "g": ["a", "b"]},
            public=["x", "g"],
            tables=[alone],
            tightness=0.5,
        ),
        case(
            arguments={**arguments, "mismatch": 0.9999, "paired": True},
            **known,
            categories=h,
            public=["x"],
            other="other",
            tables=[pairs],
            tightness=0.3,
        ),
    ]
