"""Searches for the mixture that describes a sketch best, many at once: starts, paths and moves.

The many local minima are met with many starts, most of them greedy (orthogonal matching pursuit over random atoms),
a path from simple to rich covariances, and moves that take a component out and put it where the sketch is explained
worst. Every minimisation is a Levenberg-Marquardt search, run for several starts at once.

References
----------
.. [1] N. Keriven, A. Bourrier, R. Gribonval, P. Pérez. Sketching for large-scale learning of mixture models.
   Information and Inference 7 (2018).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from dfprivacy_gmm.characteristic import Family
from dfprivacy_gmm.least_squares import AGREE, levenberg_marquardt

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from dfprivacy_gmm.characteristic import Shape, Sketch

__all__ = ["FINE", "KEPT", "Search", "Searched", "smallest_sd"]

STARTS = 9  # in a batch; two of three are greedy
KEPT = 3  # best spherical fits of a batch that go on to richer covariances
JITTER = 0.1  # whitened symmetric mixtures have a saddle where two components coincide: leave it at each shape
CANDIDATES = 400  # random atoms for a greedy step or for a swap
ROUGH, FINE = 5e-5, 1e-5  # gain of a step, as a share of f, below which a search has ended
_PATHS: dict[Shape, tuple[Shape, ...]] = {
    "spherical": (),
    "diag": ("diag",),
    "tied": ("tied",),
    "full": ("tied", "full"),
}


class Prior(NamedTuple):
    """Independent normal distributions of the parameters; the last, total mass, is idle if the size is public."""

    centre: NDArray[np.float64]  # (R, P)
    precision: NDArray[np.float64]  # (P,)


class Searched(NamedTuple):
    """R optima: the objective, its parameters, and the prior they were found under."""

    f: NDArray[np.float64]
    p: NDArray[np.float64]
    prior: Prior

    def take(self, which: NDArray[np.intp] | list[int]) -> Searched:
        """Give some of them."""
        return Searched(self.f[which], self.p[which], Prior(self.prior.centre[which], self.prior.precision))

    def best(self, count: int) -> Searched:
        """Give the best."""
        return self.take(np.argsort(self.f, kind="stable")[:count])


def smallest_sd(K: int, d: int) -> float:
    """Give the standard deviation, in whitened units, of the smallest component to be resolved."""
    return float(min(0.7, 0.7 / K ** (1 / d)))


class Search:
    """The search for K components in one sketch."""

    def __init__(self, sketch: Sketch, K: int, rng: Generator) -> None:
        self.sketch = sketch
        self.K = K
        self.rng = rng
        self.log_sd = math.log(smallest_sd(K, sketch.d))

    def family(self, shape: Shape) -> Family:
        """Give the family of a shape."""
        return Family(self.K, self.sketch.d, shape)

    def prior(self, shape: Shape, tied: NDArray[np.float64], R: int) -> Prior:
        """Give the prior of R searches; that of full covariances is about the tied ones they start from."""
        family, d = self.family(shape), self.sketch.d
        centre, sd = np.zeros((R, family.width)), np.ones(family.width)
        sd[: self.K * (1 + d)] = 1.5
        spread = family.by_group(sd[None])
        if shape == "full":
            spread[..., :d], spread[..., d:] = 0.4, 0.24
            family.by_group(centre)[:] = tied
        else:
            spread[..., :d], spread[..., d:] = 0.7, 0.5
            family.by_group(centre)[..., :d] = 0.7 * self.log_sd
        sd[-1] = self.sketch.size_error or 1.0
        return Prior(centre, sd**-2)

    def minimise(
        self,
        p: NDArray[np.float64],
        prior: Prior,
        shape: Shape,
        *,
        steps: int,
        tolerance: float,
        rank: int = 1,
        target: float = math.inf,
    ) -> Searched:
        """Search from R starts at once."""
        family, d = self.family(shape), self.sketch.d
        bound = np.full(family.width, 6.0)
        bound[: self.K] = 8.0
        low, high = -bound, bound
        for bounds, diagonal, off in ((low, -4.0, -2.0), (high, 0.7, 2.0)):
            spread = family.by_group(bounds[None])
            spread[..., :d], spread[..., d:] = diagonal, off
        sketch = self.sketch

        def objective(p: NDArray[np.float64], centre: NDArray[np.float64]) -> NDArray[np.float64]:
            fit = np.square(family.residuals(p, sketch)).sum(axis=1)
            weak = (np.square(p - centre) * prior.precision).sum(axis=1)
            result: NDArray[np.float64] = (fit + weak) / 2
            return result

        def model(
            p: NDArray[np.float64], centre: NDArray[np.float64]
        ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            rest, J = family.linear(p, sketch)
            gradient = (J @ rest[..., None])[..., 0] + (p - centre) * prior.precision
            H = J @ J.swapaxes(1, 2)
            H[:, range(family.width), range(family.width)] += prior.precision
            return gradient, H

        f, p = levenberg_marquardt(objective, model, p, prior.centre, low, high, steps, tolerance, rank, target)
        return Searched(f, p, prior)

    def starts(self) -> Searched:
        """Give spherical fits from greedy and from random starts."""
        K, d, rng = self.K, self.sketch.d, self.rng
        family = self.family("spherical")
        p = np.zeros((STARTS, family.width))
        for r in range(STARTS):
            log_sd = self.log_sd * rng.uniform(0.4, 1.2)
            if r % 3 == 2:  # noqa: PLR2004 - every third start is random
                means, weights = rng.standard_normal((K, d)), np.full(K, 1 / K)
            else:
                means, weights = self.pursuit(log_sd)
            p[r, :K] = np.log(weights)
            p[r, K : K * (1 + d)] = means.ravel()
            p[r, family.spread] = log_sd
        return self.minimise(
            p, self.prior("spherical", np.zeros(0), STARTS), "spherical", steps=40, tolerance=ROUGH, rank=KEPT
        )

    def pursuit(self, log_sd: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Choose the means of K equal spheres greedily: orthogonal matching pursuit over random candidates."""
        sketch, d = self.sketch, self.sketch.d
        target = sketch.weighed(sketch.values)
        means, chosen, rest = np.empty((0, d)), np.empty((0, 2 * sketch.m)), target
        weights = np.empty(0)
        for _ in range(self.K):
            candidates = 1.2 * self.rng.standard_normal((CANDIDATES // 2, d))
            atoms = sketch.weighed(self.atoms(candidates, log_sd))  # all of one norm
            best = int((atoms @ rest).argmax())
            means = np.vstack([means, candidates[best]])
            chosen = np.vstack([chosen, atoms[best]])
            weights, _ = scipy.optimize.nnls(chosen.T, target)
            rest = target - weights @ chosen
        weights = np.maximum(weights, 0.2 / self.K)
        return means, weights / weights.sum()

    def atoms(self, means: NDArray[np.float64], log_sd: float) -> NDArray[np.complex128]:
        """Give the sketches of spheres, shape (candidates, m)."""
        W = self.sketch.frequencies
        decay = np.exp(-0.5 * math.exp(2 * log_sd) * np.square(W).sum(axis=1))
        phase = (means @ W.T).astype(np.float32)  # they are only candidates
        waves = np.empty(phase.shape, dtype=np.complex128)
        waves.real, waves.imag = np.cos(phase) * decay, np.sin(phase) * decay
        return waves

    def along(self, ends: Searched, shape: Shape) -> Searched:
        """Take spherical fits along the path to richer covariances."""
        before: Shape = "spherical"
        for now in _PATHS[shape]:
            p = self.widened(ends.p, before, now)
            tied = self.family(before).by_group(ends.p)
            means = slice(self.K, self.K * (1 + self.sketch.d))
            p[:, means] += JITTER * self.rng.standard_normal(p[:, means].shape)
            ends = self.minimise(p, self.prior(now, tied, len(p)), now, steps=60, tolerance=FINE)
            before = now
        return ends

    def widened(self, p: NDArray[np.float64], before: Shape, now: Shape) -> NDArray[np.float64]:
        """Write mixtures as members of a larger family."""
        old, new = self.family(before), self.family(now)
        wide = np.zeros((len(p), new.width))
        wide[:, : new.spread.start] = p[:, : old.spread.start]
        wide[:, -1] = p[:, -1]
        if now == "tied":
            new.by_group(wide)[..., : self.sketch.d] = old.by_group(p).mean(axis=1, keepdims=True)
        else:
            new.by_group(wide)[:] = old.by_group(p)
        return wide

    def swapped(self, best: Searched, shape: Shape, failures: int = 4, successes: int = 12) -> Searched:
        """Take a component out and put another where the sketch is explained worst, as long as that helps."""
        while failures and successes:
            tried = self.minimise(
                *self._moves(best, shape), shape, steps=30, tolerance=FINE, target=float(best.f[0])
            ).best(1)
            if tried.f[0] < best.f[0] - AGREE:
                best, successes = tried, successes - 1
            else:
                failures -= 1
        return best

    def _moves(self, best: Searched, shape: Shape) -> tuple[NDArray[np.float64], Prior]:
        """Give the two best exchanges of one component for a random atom at its best weight."""
        sketch, K, d = self.sketch, self.K, self.sketch.d
        family = self.family(shape)
        now = family.mixtures(best.p)
        zeta = sketch.weighed(now.components(sketch.frequencies)[0][0])
        candidates = 1.2 * self.rng.standard_normal((CANDIDATES, d))
        log_sd = self.log_sd * self.rng.uniform(0.4, 1.2)
        atoms = sketch.weighed(self.atoms(candidates, log_sd))
        target = sketch.weighed(sketch.values)
        left = now.weights[0] * (1 - np.eye(K))  # row j: without component j
        left /= np.maximum(left.sum(axis=1, keepdims=True), 1e-12)
        mixed = left @ zeta
        rest = target - mixed
        # (1-t)·mixed + t·atom: the best t, and what is left then
        along = atoms @ rest.T - (mixed * rest).sum(axis=1)
        squared = np.square(atoms).sum(axis=1)[:, None] - 2 * atoms @ mixed.T + np.square(mixed).sum(axis=1)
        t = np.clip(along / np.maximum(squared, 1e-12), 0.02, 0.8)
        value = (np.square(rest).sum(axis=1) - 2 * t * along + t * t * squared).T  # (K, candidates)
        atom = value.argmin(axis=1)
        worst = np.argsort(value[range(K), atom])[:2]
        p = np.repeat(best.p, len(worst), axis=0)
        for row, j in zip(p, worst, strict=True):
            weight = t[atom[j], j]
            weights = left[j] * (1 - weight)
            weights[j] = weight
            row[:K] = np.log(np.maximum(weights, 1e-3))
            row[K + j * d : K + (j + 1) * d] = candidates[atom[j]]
            if shape != "tied":
                spread = family.by_group(row[None])[0, j]
                spread[:] = 0
                spread[:d] = log_sd
        return p, Prior(np.repeat(best.prior.centre, len(worst), axis=0), best.prior.precision)
