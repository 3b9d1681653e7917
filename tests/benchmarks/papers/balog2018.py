"""What Balog et al. (2018) prove and draw, measured: rates, reduced sets, calibration, the exponential mechanism.

    python tests/benchmarks/papers/balog2018.py rates          # Propositions 5, 6 and 8, with a picture
    python tests/benchmarks/papers/balog2018.py algorithm2     # Algorithm 2 as printed, and by convexity
    python tests/benchmarks/papers/balog2018.py classical      # the true delta of the classical Gaussian noise
    python tests/benchmarks/papers/balog2018.py exponential    # section 3.4 beside a release at the same price

Figures 1 and 2 are those of ``tests/benchmarks/kme_release.py``. Nothing here is private: noise is NumPy's.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import erf, log_ndtr, ndtr

sys.path.append(str(Path(__file__).parents[1]))
from kme_release import DELTA, Truth, rows_of
from results import recorded

import dfprivacy as dp
from dfprivacy.features import Nystrom, ProductKernel, spread
from dfprivacy.statistics import gaussian_scale
from dfprivacy.testing import seeded_noise
from dfprivacy_kme import absolute
from dfprivacy_kme.mechanisms import classical_scale

PICTURE = Path(__file__).parents[3] / "docs/pictures/papers/balog2018_rates.svg"
WIDTH = 0.2  # lengthscale of the kernel on the unit cube, where the rows are uniform


# Rates


class Uniform:
    """The embedding of the uniform law on the unit cube, in closed form."""

    def __init__(self, D):
        columns = [dp.Column(f"x{i}", bounds=(0.0, 1.0)) for i in range(D)]
        self.D, self.kernel = D, ProductKernel(columns, WIDTH)
        s = math.sqrt(2) * WIDTH
        one = math.sqrt(math.pi) * s * erf(1 / s) - s**2 * (1 - math.exp(-1 / s**2))  # of two uniform numbers
        self.squared = one**D

    def at(self, points):
        """Value of the embedding at points."""
        s = math.sqrt(2) * WIDTH
        return np.prod(math.sqrt(math.pi) / 2 * s * (erf((1 - points) / s) + erf(points / s)), axis=1)

    def distance(self, points, w):
        """Distance of weighted points from it."""
        inner = sum(part @ self.kernel(at, points) @ w for part, at in zip(*halves(w, points), strict=True))
        return math.sqrt(max(0.0, self.squared - 2 * w @ self.at(points) + inner))


def halves(w, points, size=2000):
    cuts = range(size, len(w), size)
    return np.split(w, cuts), np.split(points, cuts)


def algorithm_1(law, rows, points, epsilon, rng):
    """Distance of Algorithm 1 from the population's embedding: noise as printed, weights of either sign."""
    psi = Nystrom(law.kernel, points, 1e-10)
    alpha = sum(psi.features(part).sum(axis=0) for part in np.array_split(rows, max(1, len(rows) // 4000))) / len(
        rows
    )
    noise = 2 / len(rows) * classical_scale(epsilon, DELTA) * rng.standard_normal(len(alpha))
    # μ̃ lies in the span; of μ, only its part in the span has coordinates.
    mu = psi.map @ law.at(psi.points)
    return math.sqrt(max(0.0, law.squared - mu @ mu) + np.sum((alpha + noise - mu) ** 2))


def algorithm_2(law, rows, J, epsilon, rng):
    """Distance of Algorithm 2: J random features, noise as printed, the reduced set by convexity."""
    W = rng.standard_normal((J // 2, law.D)) / WIDTH
    phi = cosines(W)
    beta = sum(phi(part).sum(axis=0) for part in np.array_split(rows, max(1, len(rows) // 500))) / len(rows)
    beta = beta + 2 / len(rows) * classical_scale(epsilon, DELTA) * rng.standard_normal(len(beta))
    candidates = spread(law.kernel.columns, 512)
    w = absolute(phi(candidates), beta, 1e-7)
    return law.distance(candidates[w != 0], w[w != 0])


def cosines(W):
    scale = 1 / math.sqrt(len(W))
    return lambda rows: scale * np.hstack([np.cos(rows @ W.T), np.sin(rows @ W.T)])


def rates(runs):
    """Errors by N, and the slope of their logarithms."""
    tiny = 300
    asked = [("5, D = 1", 1, "-1/2"), ("5, D = 2", 2, "-1/3"), ("6, D = 2", 2, "-1/2"), ("8, D = 2", 2, "-1/3")]
    sizes = {"5": (100, 1000, 10_000, 100_000), "6": (100, 1000, 10_000, 100_000), "8": (30, 100, 300, 1000)}
    drawn = []
    heads = ("proposition", "ε", "N", "distance", "slope", "proved, at least")
    with recorded("papers_balog2018_rates", *heads) as row:
        for name, D, proved in asked:
            which, law = name[0], Uniform(D)
            for epsilon in (0.1, 1.0):
                errors = []
                for N in sizes[which]:
                    rng = np.random.default_rng([D, N, int(10 * epsilon), int(which)])
                    errors.append(np.mean([one(which, law, N, epsilon, rng, tiny) for _ in range(runs)]))
                slope = np.polyfit(np.log(sizes[which]), np.log(errors), 1)[0]
                row(name, f"{epsilon:g}", ", ".join(f"{N:,}" for N in sizes[which]),
                    ", ".join(f"{e:.2g}" for e in errors), f"{slope:.2f}", proved)  # fmt: skip
                drawn.append((name, epsilon, sizes[which], errors, proved))
    picture(drawn)


def one(which, law, N, epsilon, rng, tiny):
    """One table, and the error of its release."""
    rows = rng.random((N, law.D))
    if which == "8":
        return algorithm_2(law, rows, 2 * (int(N ** (4 / 3)) // 2), epsilon, rng)
    if which == "6":
        points = rows[: max(2, N // 10)][:1200]  # more points are in the span of these, to 1e-10
    else:
        points = rng.random((min(int(N ** (2 * law.D / (law.D + 1))), tiny if law.D == 1 else 1200), law.D))
    return algorithm_1(law, rows, points, epsilon, rng)


def picture(drawn):
    """Draw errors and proved slopes, in inks that are read on light and on dark."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    grey = "#808080"
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "dfprivacy", "font.family": "sans-serif"}
    mpl.rcParams |= dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), grey
    )
    figure, axes = plt.subplots(1, 4, figsize=(11, 3), sharey=True, constrained_layout=True)
    for ax, name in zip(axes, dict.fromkeys(each[0] for each in drawn), strict=True):
        lines = [each[1:] for each in drawn if each[0] == name]
        for (epsilon, sizes, errors, _), color in zip(lines, ("tab:orange", "tab:blue"), strict=True):
            ax.loglog(sizes, errors, "o-", color=color, label=f"ε = {epsilon:g}")
        _, sizes, errors, bound = lines[-1]
        top, bottom = map(int, bound.split("/"))
        slope = np.array(sizes, dtype=float) ** (top / bottom)
        ax.loglog(sizes, errors[0] * slope / slope[0], ":", color=grey, label=f"N^({bound})")
        ax.set(title=f"Proposition {name}", xlabel="N")
        ax.legend(frameon=False, fontsize=8)
    axes[0].set_ylabel("distance from μ")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, transparent=True, metadata={"Date": None})


# Algorithm 2


def reduced_by_gradient(phi, W, beta, M, low, high, rng):
    """Line 6 as printed: locations and weights by gradient, Σ|w| ≤ 1, from a random start."""
    D = W.shape[1]
    scale = high - low

    def split(v):
        z, u = low + scale * v[: M * D].reshape(M, D), v[M * D :]
        return z, u, max(1.0, np.abs(u).sum())

    def objective(v):
        z, u, total = split(v)
        features = phi(z)
        r = (u / total) @ features - beta
        J = len(W)
        away = features @ r
        slope_w = 2 * away / total
        if total > 1:
            slope_w -= 2 * (u @ away) / total**2 * np.sign(u)
        cos, sin = features[:, :J], features[:, J:]
        slope_z = 2 * (u / total)[:, None] * ((cos * r[J:] - sin * r[:J]) @ W) * scale
        return r @ r, np.concatenate([slope_z.ravel(), slope_w])

    start = np.concatenate([rng.random(M * D), np.full(M, 1 / M)])
    best = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 300},
                    bounds=[(0, 1)] * (M * D) + [(-1, 1)] * M)  # fmt: skip
    z, u, total = split(best.x)
    return z, u / total


def algorithm2(runs):
    """Distances from the table's embedding, on the paper's tables of 100,000 rows."""
    J, sizes = 1000, (10, 30, 100)
    heads = ("D", "ε", *(f"as printed, M = {M}" for M in sizes), "by convexity", "with our noise", "points")
    with recorded("papers_balog2018_algorithm2", *heads) as row:
        for D in (2, 5):
            gamma = 1e-4 / D
            tables = [rows_of(D, seed) for seed in range(runs)]
            names = [f"x{i}" for i in range(D)]
            kernel = ProductKernel([dp.Column(n, bounds=(0.0, 200.0)) for n in names], 1 / math.sqrt(2 * gamma))
            truths = [Truth(kernel, rows, D) for rows in tables]
            for epsilon in (0.01, 0.1, 1.0):
                cells = []
                for seed, (rows, truth) in enumerate(zip(tables, truths, strict=True)):
                    rng = np.random.default_rng([D, seed, int(100 * epsilon)])
                    W = rng.standard_normal((J // 2, D)) * math.sqrt(2 * gamma)
                    phi = cosines(W)
                    mean = sum(phi(part).sum(axis=0) for part in np.array_split(rows, 50)) / len(rows)
                    sd = 2 / len(rows) * classical_scale(epsilon, DELTA)
                    beta = mean + sd * rng.standard_normal(J)
                    printed = [
                        truth.of_points(*reduced_by_gradient(phi, W, beta, M, 0.0, 200.0, rng)) for M in sizes
                    ]
                    frame, bounds = pd.DataFrame(rows, columns=names), dict.fromkeys(names, (0, 200))
                    view = dp.protect(
                        frame, f"{D}-{seed}-{epsilon}", epsilon=50, delta=1e-3, ledger="memory:", bounds=bounds
                    )
                    asked = {"gamma": gamma, "features": "fourier", "n_points": J // 2, "represent": "l1",
                             "nan_policy": "fill", "epsilon": epsilon, "delta": DELTA}  # fmt: skip
                    with seeded_noise(seed):
                        ours = [view.kme_release(names, calibration=c, **asked) for c in ("classical", "analytic")]
                    cells.append(
                        [*printed, *(truth.of_points(x.locations, x.weights) for x in ours), ours[1].support]
                    )
                row(D, f"{epsilon:g}", *(f"{value:.2g}" for value in np.mean(cells, axis=0)))


# Calibration


def classical(_):
    """True delta of the classical noise: Φ(1/2s - εs) - e^ε Φ(-1/2s - εs), s = √(2 ln(1.25/δ))/ε."""
    heads = ("δ", "ε", "true δ of the classical noise", "private", "classical / analytic noise")
    with recorded("papers_balog2018_classical", *heads) as row:
        for delta in (1e-6, 1e-5, 1e-2, 1e-1):
            for epsilon in (0.1, 1.0, 2.0, 5.0, 8.0, 10.0, 20.0):
                s = classical_scale(epsilon, delta)
                near, far = 1 / (2 * s) - epsilon * s, -1 / (2 * s) - epsilon * s
                true = float(ndtr(near) - np.exp(epsilon + log_ndtr(far)))
                row(f"{delta:g}", f"{epsilon:g}", f"{true:.2g}", "yes" if true <= delta else "**no**",
                    f"{s / gaussian_scale(epsilon, delta):.2f}")  # fmt: skip


# The exponential mechanism


def exponential(runs):
    """Distances of a small table chosen from all, and of a release, at the same price."""
    heads = (
        "N",
        "ε",
        "N ε",
        "3 rows of 12 points",
        "kme_release, δ = 0",
        "kme_release, δ = 1e-6",
        "best of 364 tables",
    )
    with recorded("papers_balog2018_exponential", *heads) as row:
        for N in (100, 1000, 10_000):
            for epsilon in (0.1, 1.0):
                cells = []
                for seed in range(runs):
                    rng = np.random.default_rng([N, seed])
                    x = rng.beta(2, 5, N)
                    view = dp.protect(pd.DataFrame({"x": x}), f"exp-{N}-{epsilon}-{seed}", epsilon=50, delta=1e-3,
                                      ledger="memory:", bounds={"x": (0, 1)})  # fmt: skip
                    asked = {"lengthscale": WIDTH, "epsilon": epsilon, "nan_policy": "fill"}
                    with seeded_noise(seed):
                        found = [
                            view.kme_exponential(["x"], **asked),
                            view.kme_release(["x"], **asked, delta=0, features="subspace", n_points=12),
                            view.kme_release(["x"], **asked, delta=1e-6),
                        ]
                    kernel = ProductKernel([dp.Column("x", bounds=(0.0, 1.0))], WIDTH)
                    cells.append([*(apart(kernel, x, y.locations, y.weights) for y in found), best(kernel, x)])
                row(
                    f"{N:,}",
                    f"{epsilon:g}",
                    f"{N * epsilon:g}",
                    *(f"{value:.2g}" for value in np.mean(cells, axis=0)),
                )


def apart(kernel, x, points, w):
    """Distance of weighted points from a column's embedding, in the basis of 400 points."""
    psi = Nystrom(kernel, np.linspace(0, 1, 400)[:, None], 1e-10)
    return float(np.linalg.norm(psi.features(x[:, None]).mean(axis=0) - w @ psi.features(points)))


def best(kernel, x):
    """Least distance of any table of 3 rows of the 12 points."""
    from dfprivacy_kme.mechanisms import Closeness

    points = spread(kernel.columns, 12)
    places = Closeness(Nystrom(kernel, points), points, 3, ()).places
    return min(apart(kernel, x, points[each], np.full(3, 1 / 3)) for each in places)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    experiments = {
        "rates": (rates, 5),
        "algorithm2": (algorithm2, 2),
        "classical": (classical, 1),
        "exponential": (exponential, 5),
    }
    parser.add_argument("experiment", choices=experiments)
    parser.add_argument("--runs", type=int, help="tables a cell")
    said = parser.parse_args()
    run, runs = experiments[said.experiment]
    run(said.runs or runs)


if __name__ == "__main__":
    main()
