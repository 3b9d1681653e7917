"""What Balog et al. (2018) prove and draw, measured: rates, reduced sets, calibration, the exponential mechanism.

    python tests/benchmarks/balog2018.py papers_balog2018_rates

Figures 1 and 2 are those of ``embeddings.py``. Nothing here is private: noise is NumPy's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from embeddings import DELTA, Truth, mean_of
from harness import GREY, Array, Rng, Rows, Tables, draw, met, protected, read
from scipy.optimize import minimize
from scipy.special import erf, log_ndtr, ndtr

import dfprivacy as dp
from dfprivacy.features import Nystrom, ProductKernel, spread
from dfprivacy.statistics import gaussian_scale
from dfprivacy.testing import seeded_noise
from dfprivacy_kme import absolute
from dfprivacy_kme.mechanisms import Closeness, classical_scale

tables = Tables(__doc__)
WIDTH = 0.2  # lengthscale of the kernel on the unit cube, where the rows are uniform


# Propositions 5, 6 and 8


class Uniform:
    """The embedding of the uniform law on the unit cube, in closed form, and distances from it."""

    def __init__(self, D: int) -> None:
        self.D, self.s = D, math.sqrt(2) * WIDTH
        self.kernel, s = ProductKernel([dp.Column(f"x{i}", bounds=(0.0, 1.0)) for i in range(D)], WIDTH), self.s
        self.squared = (math.sqrt(math.pi) * s * erf(1 / s) - s**2 * (1 - math.exp(-1 / s**2))) ** D

    def at(self, points: Array) -> Array:
        """Value of the embedding at points."""
        s = self.s
        return np.prod(math.sqrt(math.pi) / 2 * s * (erf((1 - points) / s) + erf(points / s)), axis=1)

    def algorithm_1(self, rows: Array, points: Array, epsilon: float, rng: Rng) -> float:
        """Distance of Algorithm 1: noise as printed, weights of either sign."""
        psi = Nystrom(self.kernel, points, 1e-10)
        alpha = mean_of(psi.features, rows, max(1, len(rows) // 4000))
        noise = 2 / len(rows) * classical_scale(epsilon, DELTA) * rng.standard_normal(len(alpha))
        mu = psi.map @ self.at(psi.points)  # of μ, only its part in the span has coordinates
        return math.sqrt(max(0.0, self.squared - mu @ mu) + np.sum((alpha + noise - mu) ** 2))

    def algorithm_2(self, rows: Array, J: int, epsilon: float, rng: Rng) -> float:
        """Distance of Algorithm 2: J random features, noise as printed, the reduced set by convexity."""
        phi = cosines(rng.standard_normal((J // 2, self.D)) / WIDTH)
        beta = mean_of(phi, rows, max(1, len(rows) // 500))
        beta = beta + 2 / len(rows) * classical_scale(epsilon, DELTA) * rng.standard_normal(len(beta))
        points = spread(self.kernel.columns, 512)
        w = absolute(phi(points), beta, 1e-7)
        points, w = points[w != 0], w[w != 0]
        inner = w @ self.kernel(points, points) @ w
        return math.sqrt(max(0.0, self.squared - 2 * w @ self.at(points) + inner))

    def error(self, which: str, N: int, epsilon: float, rng: Rng) -> float:
        """Of one table, the error of its release; more points than 1,200, or 300, are in the span of these."""
        rows = rng.random((N, self.D))
        if which == "8":
            return self.algorithm_2(rows, 2 * (int(N ** (4 / 3)) // 2), epsilon, rng)
        if which == "6":
            points = rows[: max(2, N // 10)][:1200]
        else:
            most = 300 if self.D == 1 else 1200
            points = rng.random((min(int(N ** (2 * self.D / (self.D + 1))), most), self.D))
        return self.algorithm_1(rows, points, epsilon, rng)


def cosines(W: Array) -> Callable[[Array], Array]:
    """Random features of frequencies."""
    scale = 1 / math.sqrt(len(W))
    return lambda rows: scale * np.hstack([np.cos(rows @ W.T), np.sin(rows @ W.T)])


def rates() -> None:
    """Draw errors and proved slopes."""
    panels: dict[str, list[Any]] = {}
    for name, epsilon, *cells, _, proved in read("papers_balog2018_rates")["rows"]:
        sizes, errors = (np.array([float(x.replace(",", "")) for x in cell.split(", ")]) for cell in cells)
        top, bottom = map(int, proved.split("/"))
        lines = panels.setdefault(f"Proposition {name}", [])
        lines.append((sizes, errors, "o-", {"label": f"ε = {epsilon}"}))
        slope = errors[0] * (sizes / sizes[0]) ** (top / bottom)
        lines.append((sizes, slope, ":", {"color": GREY, "label": f"N^({proved})"}))
    scales = {"xscale": "log", "yscale": "log"}
    draw("papers/balog2018_rates", (11, 3), panels, x="N", y="distance from μ", legend=None, **scales)


@tables.add("proposition", "ε", "N", "distance", "slope", "proved, at least", draw=rates)
def papers_balog2018_rates(runs: int = 5) -> Rows:
    """Distances from the population's embedding by N, and the slope of their logarithms."""
    proved = (("5, D = 1", 1, "-1/2"), ("5, D = 2", 2, "-1/3"), ("6, D = 2", 2, "-1/2"), ("8, D = 2", 2, "-1/3"))
    for (name, D, bound), epsilon in itertools.product(proved, (0.1, 1.0)):
        sizes = (30, 100, 300, 1000) if name[0] == "8" else (100, 1000, 10_000, 100_000)
        law, errors = Uniform(D), []
        for N in sizes:
            rng = np.random.default_rng([D, N, int(10 * epsilon), int(name[0])])
            errors.append(np.mean([law.error(name[0], N, epsilon, rng) for _ in range(runs)]))
        slope, shown = np.polyfit(np.log(sizes), np.log(errors), 1)[0], ", ".join(f"{e:.2g}" for e in errors)
        yield name, f"{epsilon:g}", ", ".join(f"{N:,}" for N in sizes), shown, f"{slope:.2f}", bound


# Algorithm 2


def reduced_by_gradient(phi: Any, W: Array, beta: Array, M: int, rng: Rng) -> tuple[Array, Array]:
    """Line 6 as printed: locations in [0, 200] and weights by gradient, Σ|w| ≤ 1, from a random start."""
    (J, D), scale = W.shape, 200.0

    def split(v: Array) -> tuple[Array, Array, float]:
        z, u = scale * v[: M * D].reshape(M, D), v[M * D :]
        return z, u, max(1.0, np.abs(u).sum())

    def objective(v: Array) -> tuple[float, Array]:
        z, u, total = split(v)
        found = phi(z)
        r = (u / total) @ found - beta
        away = found @ r
        slope_w = 2 * away / total
        if total > 1:
            slope_w -= 2 * (u @ away) / total**2 * np.sign(u)
        cos, sin = found[:, :J], found[:, J:]
        slope_z = 2 * (u / total)[:, None] * ((cos * r[J:] - sin * r[:J]) @ W) * scale
        return r @ r, np.concatenate([slope_z.ravel(), slope_w])

    start, bounds = np.concatenate([rng.random(M * D), np.full(M, 1 / M)]), [(0, 1)] * (M * D) + [(-1, 1)] * M
    best = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}, bounds=bounds)
    z, u, total = split(best.x)
    return z, u / total


SIZES = (10, 30, 100)


@tables.add("D", "ε", *(f"as printed, M = {M}" for M in SIZES), "by convexity", "with our noise", "points")
def papers_balog2018_algorithm2(runs: int = 2) -> Rows:
    """Distances from the table's embedding, on the paper's tables of 100,000 rows."""
    J = 1000
    for D in (2, 5):
        truths = [Truth(D, seed) for seed in range(runs)]
        for epsilon in (0.01, 0.1, 1.0):
            cells = []
            for seed, truth in enumerate(truths):
                rng = np.random.default_rng([D, seed, int(100 * epsilon)])
                W = rng.standard_normal((J // 2, D)) * math.sqrt(2e-4 / D)
                phi = cosines(W)
                sd = 2 / len(truth.rows) * classical_scale(epsilon, DELTA)
                beta = mean_of(phi, truth.rows) + sd * rng.standard_normal(J)
                printed = [truth.of_points(*reduced_by_gradient(phi, W, beta, M, rng)) for M in SIZES]
                asked = {"features": "fourier", "n_points": J // 2, "represent": "l1", "nan_policy": "fill"}
                ours = [truth.ours(epsilon, calibration=how, **asked) for how in ("classical", "analytic")]
                found = (truth.of_points(each.locations, each.weights) for each in ours)
                cells.append([*printed, *found, ours[1].support])
            yield D, f"{epsilon:g}", *(f"{value:.2g}" for value in np.mean(cells, axis=0))


@tables.add("δ", "ε", "true δ of the classical noise", "private", "classical / analytic noise")
def papers_balog2018_classical() -> Rows:
    """True delta of the classical noise: Φ(1/2s - εs) - e^ε Φ(-1/2s - εs), s = √(2 ln(1.25/δ))/ε."""
    for delta, epsilon in itertools.product((1e-6, 1e-5, 1e-2, 1e-1), (0.1, 1.0, 2.0, 5.0, 8.0, 10.0, 20.0)):
        s = classical_scale(epsilon, delta)
        near, far = 1 / (2 * s) - epsilon * s, -1 / (2 * s) - epsilon * s
        true, ratio = float(ndtr(near) - np.exp(epsilon + log_ndtr(far))), s / gaussian_scale(epsilon, delta)
        yield f"{delta:g}", f"{epsilon:g}", f"{true:.2g}", met(true <= delta), f"{ratio:.2f}"


@tables.add(
    *("N", "ε", "N ε", "3 rows of 12 points", "kme_release, δ = 0", "kme_release, δ = 1e-6", "best of 364 tables"),
)
def papers_balog2018_exponential(runs: int = 5) -> Rows:
    """Section 3.4: distances of a small table chosen from all, and of releases at the same price."""
    kernel = ProductKernel([dp.Column("x", bounds=(0.0, 1.0))], WIDTH)
    psi, points = Nystrom(kernel, np.linspace(0, 1, 400)[:, None], 1e-10), spread(kernel.columns, 12)
    places = Closeness(Nystrom(kernel, points), points, 3, ()).places

    def apart(mean: Array, at: Array, w: Array) -> float:
        return float(np.linalg.norm(mean - w @ psi.features(at)))

    for N, epsilon in itertools.product((100, 1000, 10_000), (0.1, 1.0)):
        cells = []
        for seed in range(runs):
            x = np.random.default_rng([N, seed]).beta(2, 5, N)
            view = protected(pd.DataFrame({"x": x}), delta=1e-3, bounds={"x": (0, 1)})
            asked = {"lengthscale": WIDTH, "epsilon": epsilon, "nan_policy": "fill"}
            with seeded_noise(seed):
                found = [
                    view.kme_exponential(["x"], **asked),
                    view.kme_release(["x"], **asked, delta=0, features="subspace", n_points=12),
                    view.kme_release(["x"], **asked, delta=1e-6),
                ]
            mean = psi.features(x[:, None]).mean(axis=0)
            best = min(apart(mean, points[each], np.full(3, 1 / 3)) for each in places)
            cells.append([*(apart(mean, each.locations, each.weights) for each in found), best])
        shown = (f"{value:.2g}" for value in np.mean(cells, axis=0))
        yield f"{N:,}", f"{epsilon:g}", f"{N * epsilon:g}", *shown


if __name__ == "__main__":
    tables.main()
