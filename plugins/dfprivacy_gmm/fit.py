"""Fit of Gaussian mixtures to a noisy sketch of the characteristic function, as post-processing without cost.

The objective is a negative log-likelihood, half the squared misfit of the sketch in standard deviations, plus weak
priors. For the search its values count as independent, which is conservative; the best optimum is then refined with
their whole covariance, noise and sampling, and so the misfit has a known law.

The many local minima are met with many starts, most of them greedy (orthogonal matching pursuit over random atoms),
a path from simple to rich covariances, and moves that take a component out and put it where it explains more. Every
minimisation is a Levenberg-Marquardt search [2]_.

References
----------
.. [1] N. Keriven, A. Bourrier, R. Gribonval, P. Pérez. Sketching for large-scale learning of mixture models.
   Information and Inference 7 (2018).
.. [2] K. Madsen, H. B. Nielsen, O. Tingleff. Methods for non-linear least squares problems. DTU, 2004.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
import scipy

from dfprivacy import Range
from dfprivacy_gmm.sketch import Family, Shape, smallest_sd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.random import Generator
    from numpy.typing import NDArray

    from dfprivacy_gmm.sketch import Mixture, Sketch

__all__ = [
    "AGREE",
    "BATCHES",
    "FINE",
    "KEPT",
    "PENALTY",
    "Components",
    "Count",
    "Fit",
    "Restarts",
    "Search",
    "choose_mixture",
    "component_counts",
    "find_mixture",
    "information_criterion",
    "levenberg_marquardt",
    "prior_precision",
    "reliability_notes",
    "rows_needed",
    "single_gaussian",
    "too_few_rows",
]

AGREE = 0.3  # difference of f below which two optima are taken for the same
_MAX_DAMPING = 1e8  # damping at which no step is left


def levenberg_marquardt(
    residuals: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    jacobian: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    p: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    *,
    steps: int,
    tolerance: float,
    target: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Minimise a sum of squares within bounds of the parameters by the Levenberg-Marquardt algorithm [2]_.

    It stops early if the last gain, repeated in all remaining steps, would not bring it near the target.
    Target and tolerance refer to half of the sum.
    """
    p = np.clip(p, low, high)
    rest, J = residuals(p), jacobian(p)
    damping, growth = 1e-2, 2.0
    for left in range(steps, 0, -1):
        g, H = J @ rest, J @ J.T
        held = ((p <= low) & (g > 0)) | ((p >= high) & (g < 0))
        g[held], H[held], H[:, held] = 0.0, 0.0, 0.0
        H[np.diag_indices(len(p))] += np.where(held, 1.0, damping * np.diag(H))
        trial = np.clip(p - np.linalg.solve(H, g), low, high)
        there = residuals(trial)
        now, gained = rest @ rest / 2, (rest @ rest - there @ there) / 2
        if gained <= 0:
            damping, growth = damping * growth, growth * 2
            if damping > _MAX_DAMPING:
                break
            continue
        promised = now - np.square(rest + (trial - p) @ J).sum() / 2
        damping *= max(1 / 3, 1 - (2 * min(gained / max(promised, gained), 1.0) - 1) ** 3)
        p, rest, growth = trial, there, 2.0
        if gained <= max(tolerance * now, (now - target - AGREE) / left):
            break
        J = jacobian(p)
    return p, rest


STARTS = 9  # in a batch; two of three are greedy
KEPT = 3  # best spherical fits of a batch that go on to richer covariances
JITTER = 0.1  # whitened symmetric mixtures have a saddle where two components coincide: leave it at each shape
CANDIDATES = 400  # random atoms for a greedy step or for a swap
ROUGH, FINE = 5e-5, 1e-5  # gain of a step, as a share of f, below which a search has ended
_SHAPE_PATHS: dict[Shape, tuple[Shape, ...]] = {
    "spherical": (),
    "diag": ("diag",),
    "tied": ("tied",),
    "full": ("tied", "full"),
}


@dataclass(frozen=True)
class Fit:
    """Mixture that was fitted to a sketch, in the units of the sketch.

    Attributes
    ----------
    family : Family
        How the mixture is written as numbers.
    p : ndarray of shape (P,)
        Its numbers.
    centre : ndarray of shape (P,)
        The prior mean of these.
    f : float
        The objective: half the squared misfit of the sketch in standard deviations, plus the prior.
    residual : float
        Half the squared misfit alone; about m for a mixture that describes the data.
    agreed : bool
        Whether two independent batches of starts, or a start and a swap, ended in the same optimum.
    """

    family: Family
    p: NDArray[np.float64]
    centre: NDArray[np.float64]
    f: float
    residual: float
    agreed: bool = False

    @property
    def mixture(self) -> Mixture:
        """The fitted mixture as weights, means and covariances."""
        return self.family.mixture(self.p)

    def mean_covariances(self, sketch: Sketch) -> NDArray[np.float64]:
        """Return the covariance matrix of each estimated mean, due to sampling and noise, shape (K, d, d).

        It is that of the sketch's information about all parameters, and of the prior.
        """
        K, d = self.family.K, self.family.d
        J = self.family.jacobian(self.p, sketch.with_sampling_covariance(self.mixture))
        covariance = np.linalg.inv(J @ J.T + np.diag(prior_precision(self.family, sketch.size_error)))
        means = covariance[K : K * (1 + d), K : K * (1 + d)].reshape(K, d, K, d)
        return np.asarray(means[range(K), :, range(K)], dtype=np.float64)


def prior_precision(family: Family, size_error: float) -> NDArray[np.float64]:
    """Return the precision of each parameter's independent normal prior; the last one is of the total mass."""
    d, sd = family.d, np.ones(family.n_parameters)
    sd[: family.K * (1 + d)] = 1.5
    spread = family.covariance_parameters(sd)
    spread[:, :d], spread[:, d:] = (0.4, 0.24) if family.shape == "full" else (0.7, 0.5)
    sd[-1] = size_error or 1.0
    return np.asarray(sd**-2, dtype=np.float64)


class Search:
    """State and steps of a search for the mixture of K components that fits a sketch best."""

    def __init__(self, sketch: Sketch, K: int, rng: Generator) -> None:
        self.sketch = sketch
        self.K = K
        self.rng = rng
        self.log_sd = math.log(smallest_sd(K, sketch.d))

    def family(self, shape: Shape) -> Family:
        """Return the parametric family of mixtures with covariances of a given shape."""
        return Family(self.K, self.sketch.d, shape)

    def prior(self, shape: Shape) -> NDArray[np.float64]:
        """Return the prior mean of the parameters of a family."""
        family = self.family(shape)
        centre = np.zeros(family.n_parameters)
        family.covariance_parameters(centre)[:, : self.sketch.d] = 0.7 * self.log_sd
        return centre

    def minimise(
        self,
        p: NDArray[np.float64],
        centre: NDArray[np.float64],
        shape: Shape,
        *,
        steps: int,
        tolerance: float,
        target: float = math.inf,
    ) -> Fit:
        """Fit the parameters of a mixture from a starting point, by penalised least squares."""
        family, d, sketch = self.family(shape), self.sketch.d, self.sketch
        bound = np.full(family.n_parameters, 6.0)
        bound[: self.K] = 8.0
        low, high = -bound, bound
        for bounds, diagonal, off in ((low, -4.0, -2.0), (high, 0.7, 2.0)):
            spread = family.covariance_parameters(bounds)
            spread[:, :d], spread[:, d:] = diagonal, off
        root = np.sqrt(prior_precision(family, sketch.size_error))

        def residuals(p: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.concatenate([family.residuals(p, sketch), root * (p - centre)])

        def jacobian(p: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.hstack([family.jacobian(p, sketch), np.diag(root)])

        p, rest = levenberg_marquardt(
            residuals, jacobian, p, low, high, steps=steps, tolerance=tolerance, target=target
        )
        squares = np.square(rest) / 2
        return Fit(family, p, centre, float(squares.sum()), float(squares[: 2 * sketch.m].sum()))

    def starting_fits(self) -> list[Fit]:
        """Return spherical mixtures fitted from greedy and random starting points, sorted from best to worst."""
        K, d, rng = self.K, self.sketch.d, self.rng
        family, fits = self.family("spherical"), []
        for r in range(STARTS):
            log_sd = self.log_sd * rng.uniform(0.4, 1.2)
            if r % 3 == 2:  # noqa: PLR2004 - every third start is random
                means, weights = rng.standard_normal((K, d)), np.full(K, 1 / K)
            else:
                means, weights = self.greedy_means(log_sd)
            p = np.zeros(family.n_parameters)
            p[:K], p[K : K * (1 + d)], p[family.covariance_slice] = np.log(weights), means.ravel(), log_sd
            fits.append(self.minimise(p, self.prior("spherical"), "spherical", steps=40, tolerance=ROUGH))
        return sorted(fits, key=_objective)

    def greedy_means(self, log_sd: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Choose the means and weights of K spherical components greedily, by orthogonal matching pursuit."""
        sketch, d = self.sketch, self.sketch.d
        target = sketch.standardized(sketch.values)
        means, chosen, rest = np.empty((0, d)), np.empty((0, 2 * sketch.m)), target
        weights = np.empty(0)
        for _ in range(self.K):
            candidates = 1.2 * self.rng.standard_normal((CANDIDATES // 2, d))
            atoms = sketch.standardized(self.component_sketches(candidates, log_sd))  # all of one norm
            best = int((atoms @ rest).argmax())
            means = np.vstack([means, candidates[best]])
            chosen = np.vstack([chosen, atoms[best]])
            weights, _ = scipy.optimize.nnls(chosen.T, target)
            rest = target - weights @ chosen
        weights = np.maximum(weights, 0.2 / self.K)
        return means, weights / weights.sum()

    def component_sketches(self, means: NDArray[np.float64], log_sd: float) -> NDArray[np.complex128]:
        """Return the sketch of a spherical component at each of the given means, shape (candidates, m)."""
        W = self.sketch.frequencies
        decay = 0.5 * math.exp(2 * log_sd) * np.square(W).sum(axis=1)
        return np.asarray(np.exp(1j * (means @ W.T) - decay), dtype=np.complex128)

    def generalize(self, end: Fit, shape: Shape) -> Fit:
        """Refit a spherical mixture with more general covariances, step by step up to the given shape."""
        for now in _SHAPE_PATHS[shape]:
            p, centre = self.converted_parameters(end, now), self.prior(now)
            if now == "full":
                self.family(now).covariance_parameters(centre)[:] = end.family.covariance_parameters(end.p)
            means = slice(self.K, self.K * (1 + self.sketch.d))
            p[means] += JITTER * self.rng.standard_normal(p[means].shape)
            end = self.minimise(p, centre, now, steps=60, tolerance=FINE)
        return end

    def converted_parameters(self, fit: Fit, shape: Shape) -> NDArray[np.float64]:
        """Return the parameters of a fitted mixture, converted to another shape of its covariances."""
        old, new = fit.family, self.family(shape)
        wide = np.zeros(new.n_parameters)
        wide[: new.covariance_slice.start] = fit.p[: old.covariance_slice.start]
        wide[-1] = fit.p[-1]
        if shape == "tied":
            new.covariance_parameters(wide)[:, : self.sketch.d] = old.covariance_parameters(fit.p).mean()
        else:
            new.covariance_parameters(wide)[:] = old.covariance_parameters(fit.p)
        return wide

    def swap_components(self, best: Fit, failures: int = 4, successes: int = 12) -> Fit:
        """Replace single components by new ones where the sketch fits worst, as long as the fit improves."""
        shape = best.family.shape
        while failures and successes:
            terms: dict[str, Any] = {"steps": 30, "tolerance": FINE, "target": best.f}
            tried = min(
                (self.minimise(p, best.centre, shape, **terms) for p in self._swapped_starts(best)), key=_objective
            )
            if tried.f < best.f - AGREE:
                best, successes = tried, successes - 1
            else:
                failures -= 1
        return best

    def _swapped_starts(self, best: Fit) -> list[NDArray[np.float64]]:
        """Return two starting points, each with one component replaced by the best of many random components."""
        sketch, K, d = self.sketch, self.K, self.sketch.d
        now = best.mixture
        zeta = sketch.standardized(now.components(sketch.frequencies)[0])
        candidates = 1.2 * self.rng.standard_normal((CANDIDATES, d))
        log_sd = self.log_sd * self.rng.uniform(0.4, 1.2)
        atoms = sketch.standardized(self.component_sketches(candidates, log_sd))
        target = sketch.standardized(sketch.values)
        left = now.weights * (1 - np.eye(K))  # row j: without component j
        left /= np.maximum(left.sum(axis=1, keepdims=True), 1e-12)
        mixed = left @ zeta
        rest = target - mixed
        # (1-t)·mixed + t·atom: the best t, and what is left then
        along = atoms @ rest.T - (mixed * rest).sum(axis=1)
        squared = np.square(atoms).sum(axis=1)[:, None] - 2 * atoms @ mixed.T + np.square(mixed).sum(axis=1)
        t = np.clip(along / np.maximum(squared, 1e-12), 0.02, 0.8)
        value = (np.square(rest).sum(axis=1) - 2 * t * along + t * t * squared).T  # (K, candidates)
        atom = value.argmin(axis=1)
        moves = []
        for j in np.argsort(value[range(K), atom])[:2]:
            p, weights = best.p.copy(), left[j] * (1 - t[atom[j], j])
            weights[j] = t[atom[j], j]
            p[:K] = np.log(np.maximum(weights, 1e-3))
            p[K + j * d : K + (j + 1) * d] = candidates[atom[j]]
            if best.family.shape != "tied":
                best.family.covariance_parameters(p)[j] = 0
                best.family.covariance_parameters(p)[j, :d] = log_sd
            moves.append(p)
        return moves


def _objective(fit: Fit) -> float:
    return fit.f


BATCHES = 5  # of starts, at most


def find_mixture(
    sketch: Sketch,
    K: int,
    shape: Shape,
    rng: Generator,
    *,
    batches: int = BATCHES,
    told: Callable[[], object] = lambda: None,
) -> Fit:
    """Search for the mixture of K components that fits a sketch best.

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
    Fit
        The best one.
    """
    search = Search(sketch, K, rng)
    optima: list[Fit] = []
    agreed = False
    for batch in range(batches):
        optima += [search.generalize(start, shape) for start in search.starting_fits()[:KEPT]]
        optima.sort(key=_objective)
        settled = batch >= (K - 1) // 4
        if settled and K > 1:
            swapped = search.swap_components(optima[0])
            if swapped.f < optima[0].f - AGREE:
                optima.insert(0, swapped)
        told()
        agreed = K == 1 or (len(optima) > 1 and optima[1].f - optima[0].f < AGREE)
        if settled and agreed and optima[0].f < sketch.m + 3 * math.sqrt(sketch.m) + 3 * K:
            break
    return replace(optima[0], agreed=agreed)


PENALTY = 3.5  # least penalty for each degree of freedom, in units of the log-likelihood; measured, not derived


def choose_mixture(
    sketch: Sketch,
    numbers: Sequence[int],
    shape: Shape,
    *,
    batches: int = BATCHES,
    told: Callable[[], object] = lambda: None,
) -> tuple[Fit, dict[int, float]]:
    """Fit mixtures with several numbers of components; return the fit with the smallest information criterion.

    Parameters
    ----------
    sketch : Sketch
        What was released, whitened.
    numbers : sequence of int
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
    # A seed of its own for each fit: it does not depend on what else was tried.
    optima = [
        find_mixture(sketch, K, shape, np.random.default_rng([K, 1]), batches=batches, told=told) for K in numbers
    ]
    rough = [information_criterion(one.residual, one.family.degrees_of_freedom, sketch.size) for one in optima]
    # One covariance for all: otherwise its own differences would drown those of the misfits.
    sampled = sketch.with_sampling_covariance(optima[int(np.argmin(rough))].mixture)
    fits = [_refit_mixture(one, sampled) for one in optima]
    criteria = [information_criterion(fit.residual, fit.family.degrees_of_freedom, sketch.size) for fit in fits]
    return fits[int(np.argmin(criteria))], dict(zip(numbers, criteria, strict=True))


def _refit_mixture(fit: Fit, sketch: Sketch) -> Fit:
    """Fit a mixture again from a previous fit, weighted by the full covariance matrix of the sketch."""
    search = Search(sketch, fit.family.K, np.random.default_rng(0))
    found = search.minimise(fit.p, fit.centre, fit.family.shape, steps=30, tolerance=FINE / 10)
    return replace(found, agreed=fit.agreed)


def information_criterion(misfit: float, free: int, size: float) -> float:
    """Return the misfit of a mixture plus a penalty for its number of free parameters, as in BIC."""
    return misfit + max(PENALTY, 0.5 * math.log(max(size, 1.0))) * free


_POOR_ERROR = 0.2  # predicted error of a centre, in standard deviations, from which most fits fail
_USELESS_ERROR = 1.0  # and from which nothing was learned
_MAX_COMPONENTS = 50  # components
_MAX_AUTO = 6

Components: TypeAlias = Annotated[int, Range(1, _MAX_COMPONENTS)]
"""A number of components."""


Count: TypeAlias = Components | Literal["auto"]
"""A number of components, or "auto" to choose it."""
Restarts: TypeAlias = Annotated[int, Range(1)]
"""A number of batches of starts."""


def component_counts(n_components: int | Literal["auto"], most: int = _MAX_AUTO) -> tuple[int, ...]:
    """Return the numbers of components to try: 1 to `most` for "auto", else the given number."""
    return tuple(range(1, most + 1)) if n_components == "auto" else (n_components,)


def rows_needed(K: int, d: int, epsilon: float, separation: float = 2.5) -> int:
    """Return the number of rows with which about 90% of mixtures were recovered in simulations.

    Parameters
    ----------
    K, d : int
        Components and columns.
    epsilon : float
        Price, at delta = 1e-6.
    separation : {2.5, 4}
        Distance of the closest centres, in standard deviations.
    """
    factor = 0.25 if separation >= 4 else 1.0  # noqa: PLR2004
    return math.ceil(5000 * factor * K * max(1.0, (d / 5) ** 2) / epsilon)


def too_few_rows(K: int, d: int, size: float, epsilon: float) -> bool:
    """Return whether a table has too few rows to recover even well-separated components."""
    return K > 1 and size < rows_needed(K, d, epsilon, 4) / 10


def reliability_notes(fit: Fit, error: float, *, size: float, epsilon: float, m: int) -> list[str]:
    """Return notes on the reasons why a fitted mixture may be unreliable.

    Parameters
    ----------
    fit : Fit
        A mixture.
    error : float
        Predicted error of a centre, in standard deviations of its component.
    size : float
        Rows.
    epsilon : float
        Price.
    m : int
        Frequencies of the sketch.

    Returns
    -------
    list of str
        Notes.
    """
    K, d = fit.family.K, fit.family.d
    notes, columns = [], f"{d} column{'s' * (d != 1)}"
    far, near = rows_needed(K, d, epsilon, 4), rows_needed(K, d, epsilon)
    if size < far / 4 or error > _USELESS_ERROR:
        notes.append(
            f"Uninformative: {K} components in {columns} need about {far:,} rows at this epsilon even where "
            f"they are 4 standard deviations apart; the table has about {size:,.0f}."
        )
    elif size < near:
        notes.append(
            f"Few rows: {K} components in {columns} are found in 90% of tables with at least about {far:,} "
            f"rows if they are 4 standard deviations apart, and {near:,} rows if they are 2.5 apart."
        )
    elif error > _POOR_ERROR:
        notes.append(
            f"The predicted error of the means is {error:.2g} standard deviations; above {_POOR_ERROR}, most fits "
            "are wrong."
        )
    if fit.residual > m + 3 * math.sqrt(m):
        notes.append(
            "The mixture does not describe the sketch: the data are not a mixture of so many Gaussians with this "
            "covariance type (repeated values, or values at the bounds, also cause this), or the search missed the "
            "best fit."
        )
    if not fit.agreed:
        notes.append("No two searches ended in the same optimum: try restarts=20.")
    return notes


def single_gaussian(sketch: Sketch, K: int, shape: Shape) -> Fit:
    """Return a fit of K equal components, each the Gaussian distribution of all rows, for a whitened sketch.

    Parameters
    ----------
    sketch : Sketch
        What was released, whitened.
    K : int
        Number of components.
    shape : {"spherical", "diag", "tied", "full"}
        Shape of the covariances.

    Returns
    -------
    Fit
        Without a search.
    """
    family = Family(K, sketch.d, shape)
    p = np.zeros(family.n_parameters)
    misfit = 0.5 * float(np.square(family.residuals(p, sketch)).sum())
    return Fit(family, p, p, misfit, misfit, agreed=True)
