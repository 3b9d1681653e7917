"""How often the kernel two-sample tests reject, by simulation: the experiments of Raj et al. (2019).

    python tests/benchmarks/kernel_power.py --runs 100

Null: SG, N(0, I) in 50 columns, and blobs against blobs. Alternatives: GMD, 100 columns of which the first
differs in mean by 1; GVD, 50 columns of which the first has variance 2; blobs, a 4 by 4 grid in the plane whose
blobs are stretched by the root of 2 in one sample, along an axis; and the same along a diagonal. The paper's
program means to turn the blobs, but turns normal rows before it stretches them, which does nothing: its figures are
those of the axis. n rows in each sample; lengthscale the root of the number of columns (blobs: of 2).

Statistics are computed in float64 and the noise is NumPy's, which is fine here, where nothing is private. Prints
a Markdown table of rejection rates at 5%; with 0.05 the level, and R data sets in a cell, a rate p has the
standard error √(p (1-p) / R). Exits with status 1 if a null rate is above its bound by more than three standard
errors.
"""

from __future__ import annotations

import argparse
import math
import sys
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from kernel_level import exact, features, measured
from results import recorded
from scipy.linalg import solve_triangular

from dfprivacy import Column
from dfprivacy._privacy.calibrate import gaussian_scale
from dfprivacy_kernel import law
from dfprivacy_kernel.design import Design
from dfprivacy_kernel.moments import Contrast, Party, contrast_test, noise_scales, parties_test
from dfprivacy_kernel.statistics import CLIP, random_subset, ridge_for, whitened_sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Draw = Callable[[np.random.Generator, int], Array]

EPSILONS = (0.5, 1.0, 2.5)
ALPHA, DELTA, PERMUTATIONS = 0.05, 1e-5, 199
METHODS = ("mmd", "permutation", "moments", "local moments", "whitened")
BOUNDS = {"mmd": 0.06, "permutation": 0.05, "moments": 0.065, "local moments": 0.065, "whitened": 0.05}


def normal(rng: np.random.Generator, n: int, d: int, *, shift: float = 0.0, sd: float = 1.0) -> Array:
    """Normal columns, of which the first has another mean or standard deviation."""
    rows = rng.standard_normal((n, d))
    rows[:, 0] = shift + sd * rows[:, 0]
    return rows


def blobs(rng: np.random.Generator, n: int, *, stretch: float = 1.0, turned: bool = False) -> Array:
    """A grid of normal blobs, stretched along an axis, or along a diagonal."""
    rows = rng.standard_normal((n, 2)) * [stretch, 1.0]
    if turned:
        rows = rows @ np.array([[1, 1], [-1, 1]]) / math.sqrt(2)
    return rows + 5 * (rng.integers(4, size=(n, 2)) - 1.5)


DESIGNS: dict[str, tuple[int, Draw, Draw]] = {
    "SG": (50, lambda rng, n: normal(rng, n, 50), lambda rng, n: normal(rng, n, 50)),
    "blobs, null": (2, blobs, blobs),
    "GMD": (100, lambda rng, n: normal(rng, n, 100), lambda rng, n: normal(rng, n, 100, shift=1.0)),
    "GVD": (50, lambda rng, n: normal(rng, n, 50), lambda rng, n: normal(rng, n, 50, sd=math.sqrt(2))),
    "blobs": (2, blobs, lambda rng, n: blobs(rng, n, stretch=math.sqrt(2))),
    "blobs, turned": (2, blobs, lambda rng, n: blobs(rng, n, stretch=math.sqrt(2), turned=True)),
}


def design(name: str, d: int, kind: str, points: int) -> tuple[Design, list[Column]]:
    """Columns and kernel; the landmarks are a public sample of the first distribution."""
    reach = 11.5 if name.startswith("blobs") else 6.0
    columns = [Column(f"x{i}", bounds=(-reach, reach), fill=0.0) for i in range(d)]
    locations = DESIGNS[name][1](np.random.default_rng(1), points).clip(-reach, reach).tolist()
    return Design.from_arguments(columns, kind, math.sqrt(d) * 3 / reach, 0.5, locations, points), columns


class Cell:
    """One design at one size: its features, and the tests of one data set."""

    def __init__(self, name: str, n: int) -> None:
        d, self.first, self.second = DESIGNS[name]
        self.n = n
        many, self.columns = design(name, d, "nystrom", 200)
        self.many, self.few = many.embedding(), design(name, d, "nystrom", 30)[0].embedding()
        self.located = design(name, d, "me", 5)[0].embedding(mapped=False)

    def rejected(self, rng: np.random.Generator) -> dict[tuple[str, float], bool]:
        """Ask each method of one data set, at each epsilon."""
        n = self.n
        rows = np.vstack([self.first(rng, n), self.second(rng, n)])
        phi, few = (features(each, self.columns, rows) for each in (self.many, self.few))
        found = exact(phi, n, n)
        labels = (
            np.stack([np.arange(2 * n) < n, *(random_subset(n, 2 * n, rng) for _ in range(PERMUTATIONS))]) * 2.0 - 1
        )
        T = np.linalg.norm(labels @ phi, axis=1) / n
        said = {("not private", math.inf): _decided(T)}
        for epsilon in EPSILONS:
            delta = math.sqrt(2) / n
            said["mmd", epsilon] = measured(found, n, n, epsilon, rng).pvalue <= ALPHA
            said["permutation", epsilon] = _decided(T + rng.laplace(0, 2 * delta / epsilon, T.shape))
            said["whitened", epsilon] = _decided(self._whitened(few, labels, epsilon, rng))
            for method, p in self._moments(rows, epsilon, rng).items():
                said[method, epsilon] = p <= ALPHA
        return said

    def _whitened(self, phi: Array, labels: Array, epsilon: float, rng: np.random.Generator) -> Array:
        n, diameter = self.n, math.sqrt(2)
        gamma = ridge_for(2 * n, diameter, min(0.05 * epsilon, 0.1))
        L = np.linalg.cholesky(np.cov(phi.T, bias=True) + gamma * np.eye(phi.shape[1]))
        white = solve_triangular(L, (labels @ phi).T / n, lower=True)
        T = np.minimum(math.sqrt(n / 2) * np.linalg.norm(white, axis=0), CLIP)
        scale = 2 * whitened_sensitivity(n, n, diameter, diameter**2, gamma, CLIP) / epsilon
        noisy: Array = T + rng.laplace(0, scale, T.shape)
        return noisy

    def _moments(self, rows: Array, epsilon: float, rng: np.random.Generator) -> dict[str, float]:
        n, v = self.n, features(self.located, self.columns, rows) - 0.5
        J = v.shape[1]
        sigma = _sigma(epsilon)
        noise, own = noise_scales("me", J, n, n).scaled_by(sigma), noise_scales("me", J, n)

        def noisy(second: Array, sd: float) -> Array:
            upper = np.triu(sd * rng.standard_normal((J, J)))
            return second + upper + np.triu(upper, 1).T

        means = [part.mean(axis=0) for part in (v[:n], v[n:])]
        d = means[0] - means[1] + noise.difference * rng.standard_normal(J)
        u = v.mean(axis=0) + noise.pooled * rng.standard_normal(J)
        S = noisy(v.T @ v / (2 * n), noise.diagonal)
        own = own.scaled_by(sigma)
        parties = [
            Party(mean + own.difference * rng.standard_normal(J), noisy(part.T @ part / n, own.diagonal), own, n)
            for mean, part in zip(means, (v[:n], v[n:]), strict=True)
        ]
        return {
            "moments": contrast_test(Contrast(d, u, S, noise, (n, n), (n, n))).pvalue,
            "local moments": parties_test(parties).pvalue,
        }


def _decided(T: Array) -> bool:
    return bool((1 + (T[1:] >= T[0]).sum()) / len(T) <= ALPHA)


def _sigma(epsilon: float) -> float:
    """Standard deviation of the Gaussian mechanism at a sensitivity of 1, on a very fine grid."""
    return gaussian_scale(2**60, 1, Fraction(epsilon), Fraction(DELTA)) / 2**30


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs",
        type=int,
        default=200,
        help="data sets a cell at n = 500; half at 2000, a fifth at 10,000; of blobs five times as many",
    )
    parser.add_argument("--seed", type=int, default=2019)
    parser.add_argument("--only", default="", help="data whose name contains this")
    arguments = parser.parse_args()
    law._POINTS = 2**10
    sizes = {500: arguments.runs, 2000: -(-arguments.runs // 2), 10_000: -(-arguments.runs // 5)}
    tests = [("not private", math.inf), *((method, epsilon) for method in METHODS for epsilon in EPSILONS)]
    print("R data sets a cell: " + ", ".join(f"{runs} at n = {n}" for n, runs in sizes.items()) + ".\n")
    wrong = []
    with recorded("kernel_power", "data, n", "not private", *METHODS, keep=not arguments.only) as row:
        for place, name in enumerate(DESIGNS):
            if arguments.only not in name:
                continue
            for n, few in sizes.items():
                runs = 5 * few if name.startswith("blobs") else few
                rng = np.random.default_rng([arguments.seed, place, n])
                cell = Cell(name, n)
                found = [cell.rejected(rng) for _ in range(runs)]
                rates = {test: float(np.mean([said[test] for said in found])) for test in tests}
                plain, *private = (f"{rate:.2f}" for rate in rates.values())
                row(
                    f"{name}, {n}",
                    plain,
                    *(" ".join(private[i : i + len(EPSILONS)]) for i in range(0, len(private), len(EPSILONS))),
                )
                if name in {"SG", "blobs, null"}:
                    bounds = {test: BOUNDS.get(test[0], ALPHA) for test in tests}
                    limits = {test: most + 3 * math.sqrt(most * (1 - most) / runs) for test, most in bounds.items()}
                    wrong += [(name, n, test, rates[test]) for test in tests if rates[test] > limits[test]]
    print("\nEvery null rate is within its bound." if not wrong else f"\nToo often: {wrong}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
