"""Fit a Gaussian mixture to a sketch of its characteristic function. It costs no privacy, however often it is done.

The objective is a negative log-likelihood, half the squared misfit of the sketch in standard deviations, plus weak
priors. For the search its values count as independent, which is conservative; the best optimum is then refined with
their whole covariance, noise and sampling, and so the misfit has a known law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dfprivacy_gmm.characteristic import Family, Mixtures, Shape, Sketch
from dfprivacy_gmm.least_squares import AGREE
from dfprivacy_gmm.search import FINE, KEPT, Search, Searched

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

__all__ = ["BATCHES", "Fit", "Optimum", "find_mixture"]

BATCHES = 5  # of starts, at most


@dataclass(frozen=True)
class Fit:
    """A mixture that was fitted to a sketch, in whitened units.

    Attributes
    ----------
    weights, means, roots : ndarray of shape (K,), (K, d) and (K, d, d)
        The mixture; `roots` are the Cholesky factors of its covariances.
    residual : float
        Half the squared misfit of the sketch in standard deviations; about m for a mixture that describes the data.
    shape : {"spherical", "diag", "tied", "full"}
        Shape of the covariances.
    agreed : bool
        Whether two independent batches of starts, or a start and a swap, ended in the same optimum.
    unsearched : float or None
        The error of the centres, in standard deviations, for which no search was made: even well separated
        components would not be known any better.
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    roots: NDArray[np.float64]
    residual: float
    shape: Shape
    agreed: bool
    unsearched: float | None = None

    @property
    def free(self) -> int:
        """Degrees of freedom."""
        K, d = self.means.shape
        return Family(K, d, self.shape).free

    @property
    def mixtures(self) -> Mixtures:
        """The mixture, as the only one of an array."""
        return Mixtures(self.weights[None], self.means[None], self.roots[None])

    @property
    def covariances(self) -> NDArray[np.float64]:
        """Covariances, shape (K, d, d)."""
        covariances: NDArray[np.float64] = self.roots @ self.roots.swapaxes(1, 2)
        return covariances

    def mapped(self, centre: NDArray[np.float64], root: NDArray[np.float64]) -> Fit:
        """Give the mixture of centre + root·z."""
        turned = root @ self.roots
        roots = np.linalg.cholesky(turned @ turned.swapaxes(1, 2)).astype(np.float64)
        return replace(self, means=centre + self.means @ root.T, roots=roots)


class Optimum(NamedTuple):
    """Where a search ended: its objective takes the values of the sketch for independent."""

    family: Family
    searched: Searched  # one
    agreed: bool

    @property
    def mixture(self) -> Mixtures:
        """The mixture."""
        return self.family.mixtures(self.searched.p)

    def residual(self, sketch: Sketch) -> float:
        """Half the squared misfit."""
        return 0.5 * float(np.square(self.family.residuals(self.searched.p, sketch)).sum())

    def refined(self, sketch: Sketch) -> Fit:
        """Search on from here, in the sketch with the whole covariance of its values."""
        search = Search(sketch, self.family.K, np.random.default_rng(0))
        _, p, prior = self.searched
        there = self._replace(searched=search.minimise(p, prior, self.family.shape, steps=30, tolerance=FINE / 10))
        best = there.mixture
        return Fit(
            best.weights[0], best.means[0], best.roots[0], there.residual(sketch), self.family.shape, self.agreed
        )


def find_mixture(
    sketch: Sketch,
    K: int,
    shape: Shape,
    rng: Generator,
    *,
    batches: int = BATCHES,
    told: Callable[[], object] = lambda: None,
) -> Optimum:
    """Search for the K components that describe a sketch best.

    Parameters
    ----------
    sketch : Sketch
        What was released.
    K : int
        Number of components.
    shape : {"spherical", "diag", "tied", "full"}
        Shape of the covariances.
    rng : Generator
        For the starts.
    batches : int
        Most batches of starts; it ends earlier when the two best optima agree and describe the sketch.
    told : callable
        Called after each batch.

    Returns
    -------
    Optimum
        The best one.
    """
    search = Search(sketch, K, rng)
    optima: list[Searched] = []
    agreed = False
    for batch in range(batches):
        ends = search.along(search.starts().best(KEPT), shape)
        optima += [ends.take([i]) for i in range(len(ends.f))]
        optima.sort(key=lambda one: float(one.f[0]))
        settled = batch >= (K - 1) // 4
        if settled and K > 1:
            swapped = search.swapped(optima[0], shape)
            if swapped.f[0] < optima[0].f[0] - AGREE:
                optima.insert(0, swapped)
        told()
        agreed = K == 1 or (len(optima) > 1 and bool(optima[1].f[0] - optima[0].f[0] < AGREE))
        if settled and agreed and optima[0].f[0] < sketch.m + 3 * math.sqrt(sketch.m) + 3 * K:
            break
    return Optimum(search.family(shape), optima[0], agreed)
