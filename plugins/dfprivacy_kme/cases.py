"""Example calls of the releases of kernel mean embeddings, for the privacy audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dfprivacy import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import Mechanism

__all__ = ["dfprivacy_conformance_cases"]


@hookimpl
def dfprivacy_conformance_cases(mechanism: Mechanism, case: Any) -> Sequence[Any]:
    """Return example calls of a method, with each feature map, Gaussian and Laplace noise, and groups."""
    bounds = {"x": (-3.0, 1.5)}
    groups = {"g": ["a", "b", "c"]}
    if mechanism.name == "kme_exponential":
        two = {"columns": ["x"], "lengthscale": 1.0, "points": {"x": [-3.0, 1.5]}, "n_rows": 1}
        return [case(arguments=two, bounds=bounds)]
    plain = {"columns": ["x"], "lengthscale": 1.0, "represent": "hull"}
    filled = {**plain, "nan_policy": "fill"}
    subspace = {**plain, "features": "subspace", "n_points": 8}
    return [
        # Laplace noise is for the root of F times the L2 distance, which two points far apart attain.
        case(arguments={**filled, "features": "subspace", "points": {"x": [-3.0, 1.5]}}, bounds=bounds),
        # A row that vanishes moves a number of rows besides.
        case(
            arguments={**plain, "features": "subspace", "points": {"x": [-3.0, 1.5]}}, bounds=bounds, tightness=0.8
        ),
        case(arguments=subspace, bounds=bounds, delta=1e-6),
        # Algorithm 1 as printed, and below Algorithm 2.
        case(arguments={**subspace, "represent": "weights", "calibration": "classical"}, bounds=bounds, delta=1e-6),
        case(arguments={**filled, "features": "fourier", "n_points": 2}, bounds=bounds, delta=1e-6),
        case(
            arguments={**filled, "features": "fourier", "n_points": 16, "represent": "l1"},
            bounds=bounds,
            delta=1e-6,
        ),
        case(arguments={**subspace, "categories": ["g"]}, bounds=bounds, categories=groups, delta=1e-6),
        case(
            arguments={**subspace, "categories": ["g"]}, bounds=bounds, categories=groups, public=["g"], delta=1e-6
        ),
    ]
