"""Fit a Gaussian mixture to a sketch of its characteristic function. It costs no privacy, however often it is done.

The objective is a negative log-likelihood, half the squared misfit of the sketch in standard deviations, plus weak
priors. For the search its values count as independent, which is conservative; the best optimum is then refined with
their whole covariance, noise and sampling, and so the misfit has a known law.

The many local minima are met with many starts, most of them greedy (orthogonal matching pursuit over random atoms),
a path from simple to rich covariances, and moves that take a component out and put it where it explains more. Every
minimisation is a Levenberg-Marquardt search [2]_, run for several starts at once, of which the hopeless end early.

References
----------
.. [1] N. Keriven, A. Bourrier, R. Gribonval, P. Pérez. Sketching for large-scale learning of mixture models.
   Information and Inference 7 (2018).
.. [2] K. Madsen, H. B. Nielsen, O. Tingleff. Methods for non-linear least squares problems. DTU, 2004.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias, get_args

import numpy as np
import scipy

from dfprivacy import ArgumentError, Range
from dfprivacy_gmm.sketch import Family, Mixtures, Shape, Sketch, smallest_sd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.random import Generator
    from numpy.typing import NDArray

    from dfprivacy_gmm.sketch import Sketch

__all__ = [
    "AGREE",
    "BATCHES",
    "FINE",
    "KEPT",
    "PENALTY",
    "Components",
    "Fit",
    "Optimum",
    "Search",
    "Searched",
    "check_components",
    "check_search",
    "choose",
    "criterion",
    "doubts",
    "everything",
    "find_mixture",
    "hopeless",
    "levenberg_marquardt",
    "rows_needed",
]

AGREE = 0.3  # difference of f below which two optima are taken for the same


def levenberg_marquardt(
    objective: Callable[..., NDArray[np.float64]],
    model: Callable[..., tuple[NDArray[np.float64], NDArray[np.float64]]],
    p: NDArray[np.float64],
    centre: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    steps: int,
    tolerance: float,
    rank: int,
    target: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Minimise R sums of squares within bounds, each with its own damping, until none improves by the tolerance.

    A search is hopeless, and ends, if its last gain in all steps that are left would not bring it near the target,
    or near the search of this rank among the R.
    """
    p = np.clip(p, low, high)
    f = objective(p, centre)
    gradient, H = model(p, centre)
    damping, growth = np.full(len(p), 1e-2), np.full(len(p), 2.0)
    going = np.ones(len(p), dtype=bool)
    diagonal = np.arange(p.shape[1])
    for left in range(steps, 0, -1):
        on = np.flatnonzero(going)
        if not len(on):
            break
        g, h = gradient[on], H[on]
        held = ((p[on] <= low) & (g > 0)) | ((p[on] >= high) & (g < 0))
        g = np.where(held, 0.0, g)
        damped = np.where(held[:, :, None] | held[:, None, :], 0.0, h)
        damped[:, diagonal, diagonal] = h[:, diagonal, diagonal] * (1 + damping[on, None])
        trial = np.clip(p[on] - np.linalg.solve(damped, g[..., None])[..., 0], low, high)
        step = trial - p[on]
        promised = -(g * step).sum(axis=1) - 0.5 * np.einsum("ri,rij,rj->r", step, h, step)
        there = objective(trial, centre[on])
        gained = f[on] - there
        better = gained > 0
        won = on[better]
        hoped = np.maximum(promised[better], 1e-300)
        ratio = np.minimum(gained[better], hoped) / hoped
        damping[won] *= np.maximum(1 / 3, 1 - (2 * ratio - 1) ** 3)
        growth[won] = 2.0
        lost = on[~better]
        damping[lost] *= growth[lost]
        growth[lost] *= 2
        p[won], f[won] = trial[better], there[better]
        near = AGREE + min(target, float(np.sort(f)[:rank][-1]))
        hopeful = gained > np.maximum(tolerance * f[on], (f[on] - near) / left)
        going[on] = np.where(better, hopeful, damping[on] < 1e8)  # noqa: PLR2004
        again = won[going[won]]
        if len(again):
            gradient[again], H[again] = model(p[again], centre[again])
    return f, p


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
    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    roots: NDArray[np.float64]
    residual: float
    shape: Shape
    agreed: bool

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


PENALTY = 3.5  # least penalty for each degree of freedom, in units of the log-likelihood; measured, not derived


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


_POOR = 0.2  # predicted error of a centre, in standard deviations, from which most fits fail
_VOID = 1.0  # and from which nothing was learned
_MOST = 50  # components
_MOST_AUTO = 6

Components: TypeAlias = Annotated[int, Range(1, _MOST)]
"""A number of components."""


def check_components(n_components: object, most: int | None = None) -> tuple[int, ...]:
    """Give the numbers of components to try, or raise `ArgumentError`."""
    if isinstance(n_components, str) and n_components == "auto":
        return tuple(range(1, (most or _MOST_AUTO) + 1))
    return (check_number(n_components),)


def check_number(n_components: object) -> int:
    """Give a number of components, or raise `ArgumentError`."""
    is_number = isinstance(n_components, int | np.integer) and not isinstance(n_components, bool)
    if not is_number or not 1 <= int(n_components) <= _MOST:  # type: ignore[call-overload]
        raise ArgumentError(
            f"{n_components!r} is no number of components.", f'Use 1 to {_MOST}, or "auto" to choose.'
        )
    return int(n_components)  # type: ignore[call-overload, no-any-return]


def check_search(covariance_type: object, restarts: object) -> None:
    """Raise `ArgumentError` for what is no shape of covariances, or no number of restarts."""
    if covariance_type not in get_args(Shape):
        raise ArgumentError(f"covariance_type={covariance_type!r} is unknown.", f"Use one of {get_args(Shape)}.")
    if not isinstance(restarts, int) or isinstance(restarts, bool) or restarts < 1:
        raise ArgumentError(f"restarts={restarts!r} is no number of restarts.", "Use at least 1.")


def rows_needed(K: int, d: int, epsilon: float, separation: float = 2.5) -> int:
    """Give the rows from which about nine of ten mixtures are found, as measured in simulations.

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


def hopeless(K: int, d: int, size: float, epsilon: float) -> bool:
    """Tell whether a table is too small for even well separated components, which are not searched for then."""
    return K > 1 and size < rows_needed(K, d, epsilon, 4) / 10


def doubts(fit: Fit, error: float, *, size: float, epsilon: float, m: int) -> list[str]:
    """Say what misleads in a fit.

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
    K, d = fit.means.shape
    notes = []
    far, near = rows_needed(K, d, epsilon, 4), rows_needed(K, d, epsilon)
    if size < far / 4 or error > _VOID:
        notes.append(
            f"Uninformative: {K} components in {d} columns need about {far:,} rows at this epsilon even where "
            f"they are 4 standard deviations apart; there are about {size:,.0f}."
        )
    elif size < near:
        notes.append(
            f"Few rows: {K} components in {d} columns are found in nine tables of ten from about {far:,} rows "
            f"on where they are 4 standard deviations apart, and from {near:,} on at 2.5."
        )
    elif error > _POOR:
        notes.append(
            f"The predicted error of the centres is {error:.2g} standard deviations; above {_POOR} most fits "
            "are wrong."
        )
    if fit.residual > m + 3 * math.sqrt(m):
        notes.append(
            "The mixture does not describe the sketch: the data are no mixture of so many Gaussians of this "
            "shape (values that repeat, or pile up at the bounds, do that too), or the best one was not found."
        )
    if not fit.agreed:
        notes.append("No two searches ended in the same optimum: try restarts=20.")
    return notes


def everything(sketch: Sketch, K: int, shape: Shape) -> Fit:
    """Give the mixture of K components that are all the same: one Gaussian of all rows, of a whitened sketch.

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
    d = sketch.d
    values = np.exp(-np.square(sketch.frequencies).sum(axis=1) / 2) + 0j
    misfit = 0.5 * float(np.square(sketch.weighed(values - sketch.values)).sum())
    roots = np.repeat(np.eye(d)[None], K, axis=0)
    return Fit(np.full(K, 1 / K), np.zeros((K, d)), roots, misfit, shape, agreed=True)
