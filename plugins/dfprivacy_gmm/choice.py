"""The number of components, chosen on one sketch, which costs no privacy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy_gmm.fit import BATCHES, Fit, find_mixture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy_gmm.characteristic import Shape, Sketch

__all__ = ["PENALTY", "choose", "criterion"]

PENALTY = 3.5  # least penalty for each degree of freedom, in units of the log-likelihood; measured, not derived

_KEPT = 16
_known: dict[object, tuple[Fit, dict[int, float]]] = {}  # what is released already is not searched again


def choose(
    sketch: Sketch,
    counts: Sequence[int],
    shape: Shape,
    *,
    batches: int = BATCHES,
    told: Callable[[], object] = lambda: None,
) -> tuple[Fit, dict[int, float]]:
    """Fit each number of components, and choose the one with the least criterion.

    Parameters
    ----------
    sketch : Sketch
        What was released, whitened.
    counts : sequence of int
        The numbers of components to try.
    shape : {"spherical", "diag", "tied", "full"}
        Shape of the covariances.
    batches : int
        Most batches of starts for each.
    told : callable
        Called after each batch.

    Returns
    -------
    Fit
        The fit with the least criterion.
    dict of int to float
        The criterion of each number of components.
    """
    key = (sketch.content, tuple(counts), shape, batches)
    chosen = _known.get(key)
    if chosen is None:
        chosen = _known[key] = _chosen(sketch, counts, shape, batches, told)
        for oldest in [*_known][:-_KEPT]:
            _known.pop(oldest, None)
    return chosen


def _chosen(
    sketch: Sketch, counts: Sequence[int], shape: Shape, batches: int, told: Callable[[], object]
) -> tuple[Fit, dict[int, float]]:
    # A seed of its own for each fit: it does not depend on what else was tried.
    optima = [
        find_mixture(sketch, K, shape, np.random.default_rng([K, 1]), batches=batches, told=told) for K in counts
    ]
    rough = [criterion(one.residual(sketch), one.family.free, sketch.size) for one in optima]
    # One covariance for all: otherwise its own differences would drown those of the misfits.
    sampled = sketch.sampled(optima[int(np.argmin(rough))].mixture)
    fits = [one.refined(sampled) for one in optima]
    criteria = [criterion(fit.residual, fit.free, sketch.size) for fit in fits]
    return fits[int(np.argmin(criteria))], dict(zip(counts, criteria, strict=True))


def criterion(misfit: float, free: int, size: float) -> float:
    """Give the misfit of a mixture plus a penalty for its degrees of freedom, as in the Bayesian criterion."""
    return misfit + max(PENALTY, 0.5 * math.log(max(size, 1.0))) * free
