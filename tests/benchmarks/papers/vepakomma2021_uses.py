"""Uses of a private distance correlation that Vepakomma, Pushpita and Raskar (2021) name, measured.

    python tests/benchmarks/papers/vepakomma2021_uses.py samples    # 1.1.1, 2: k samples
    python tests/benchmarks/papers/vepakomma2021_uses.py causes     # 1.1.1, 3: the direction of a cause
    python tests/benchmarks/papers/vepakomma2021_uses.py copula     # 1.1.1, 4: the correlation of a Gaussian copula

Each does what its page of instructions does, with the library's own statistics and conclusions, and NumPy's Laplace
noise where thousands of tables are simulated.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.optimize import brentq

sys.path.append(str(Path(__file__).parents[1]))

from levels_hsic import exact
from results import recorded

import dfprivacy as dp
from dfprivacy import Column
from dfprivacy_dcor.inference import NoisyStatistics, null_tail
from dfprivacy_dcor.points import Line, Lines, five_numbers, grid_bits, on_grid
from dfprivacy_dcor.spaces import metric_space
from dfprivacy_dcor.statistics import FiveNumbers, largest_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

X, Y = (metric_space((Column(name, bounds=(0.0, 1.0), fill=0.5),), "euclidean") for name in "xy")


# k samples


def samples(runs: int) -> None:
    """How often `dcor` of a value and its group rejects, at 5 %, of 3 groups."""
    epsilons, values = (0.2, 0.5, 1, 2), 64
    kinds = {
        "no difference": lambda group, z: z,
        "no difference, heavy tails": lambda group, z: np.sign(z) * z**2 / 2,
        "means 0, 0.2, 0.4": lambda group, z: z + 0.2 * group,
        "means 0, 0.5, 1": lambda group, z: z + 0.5 * group,
        "spreads 1, 1.5, 2": lambda group, z: z * (1 + 0.5 * group),
        "one hump, or two": lambda group, z: np.where(group == 0, z, np.sign(z) * 0.9 + 0.43 * (np.abs(z) - 0.8)),
    }
    labels = metric_space((Column("g", categories=("a", "b", "c")),), "discrete", nan_policy="omit")
    centres = (np.arange(values) + 0.5) / values
    distances = np.abs(np.subtract.outer(centres, centres)), 1.0 - np.eye(3)
    with recorded("vepakomma2021_samples", "rows", "groups differ by", *(f"ε = {e:g}" for e in epsilons)) as row:
        for sizes in ((200, 200, 200), (100, 400, 1500), (2000, 2000, 2000)):
            n = sum(sizes)
            weights = FiveNumbers(X, labels, n).weights[:5]
            most = largest_values(X, labels)
            for kind, made in kinds.items():
                rng = np.random.default_rng(3)
                group = np.repeat(np.arange(3), sizes)
                tables = []
                for _ in range(runs):
                    drawn = np.clip((made(group, rng.normal(size=n)) + 5) / 10, 0, 1 - 1e-9)
                    cells = np.bincount((drawn * values).astype(int) * 3 + group, minlength=3 * values)
                    tables.append(cells.reshape(values, 3))
                truth = exact(distances, np.array(tables), n, (1.0, 1.0))
                shares = []
                for epsilon in epsilons:
                    scales = np.array([*(1 / (weights * epsilon)), 0.0])
                    noisy = truth + rng.laplace(size=truth.shape) * scales
                    shares.append(float((null_tail(noisy, scales, n, most, 0.05) <= 0.045).mean()))
                row(", ".join(map(str, sizes)), kind, *(f"{share:.3f}" for share in shares))


# The direction of a cause


def released(
    x: NDArray[np.float64], y: NDArray[np.float64], epsilon: float, rng: np.random.Generator
) -> NoisyStatistics:
    """What `dcor` releases of numbers between 0 and 1."""
    n, bits = len(x), grid_bits(len(x))
    lines = (Lines((Line(on_grid(np.clip(z, 0, 1), bits), bits),), (1.0,)) for z in (x, y))
    scales = 1 / (FiveNumbers(X, Y, n).weights * epsilon)
    noisy = five_numbers(*lines) - [0, 0, 0, 1, 1] + rng.laplace(size=5) * scales
    return NoisyStatistics((*noisy, 1.0), (*scales, 0.0), n, largest_values(X, Y))


@dataclass(frozen=True)
class Left:
    """What is left by a fit: what `dcor` says of it and the cause, and the error of the fit, in the same unit."""

    numbers: NoisyStatistics
    fit: float

    @property
    def error(self) -> float:
        """Standard error of R: its noise, what independent rows would show, and what the noise of 20 means adds."""
        (_, x, y, *_), (noise, *room) = self.numbers.values, self.numbers.scales  # noqa: PD011 - of no frame
        x, y = max(x, 2 * room[0]), max(y, 2 * room[1])
        return math.sqrt(2 * noise**2 / (x * y) + 1 / self.numbers.rows + (self.fit / (8 * y)) ** 2)


def left(x: NDArray[np.float64], y: NDArray[np.float64], epsilon: float, rng: np.random.Generator) -> Left:
    """Fit y on x by noisy means of 20 groups on one half; measure what is left, and x, on the other half."""
    half, groups = len(x) // 2, np.minimum((20 * x).astype(int), 19)
    counts = np.maximum(np.bincount(groups[:half], minlength=20), 1)
    sums = np.bincount(groups[:half], y[:half], minlength=20)
    # of a mean by group the library's noise has about this scale: half of epsilon a table, and sums with sizes
    scales = np.minimum(1.6 / (epsilon / 2 * counts), 0.5)
    means = sums / counts + rng.laplace(size=20) * scales
    centres = (np.arange(20) + 0.5) / 20
    rest = y[half:] - np.interp(x[half:], centres, np.clip(means, 0, 1))
    fit = math.sqrt(np.average(2 * scales**2, weights=counts))
    return Left(
        released(x[half:], 2 * rest + 0.5, epsilon / 2, rng), 2 * fit
    )  # within a quarter of the width around 0


def causes(runs: int) -> None:
    """How often the direction is told right and wrong, by 3 standard errors."""
    epsilons = (1, 2, 5)

    def scaled(z: NDArray[np.float64], reach: float) -> NDArray[np.float64]:
        return np.clip(z / (2 * reach) + 0.5, 0, 1)

    def models(n: int, rng: np.random.Generator) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        u, v, z, w = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n), rng.normal(size=n), rng.normal(size=n)
        return {
            "tanh(5x) + uniform": (scaled(u, 1), scaled(np.tanh(5 * u) + 0.25 * v, 1.25)),
            "x + x³ + uniform": (scaled(u, 1), scaled(u + u**3 + 0.5 * v, 2.5)),
            "x + uniform": (scaled(u, 1), scaled(u + 0.6 * v, 1.6)),
            "x² + normal": (scaled(u, 1), scaled(u**2 + 0.15 * w - 0.4, 1.0)),
            "normal line: no direction": (scaled(z, 4), scaled(0.7 * z + 0.7 * w, 4)),
            "independent: no direction": (scaled(u, 1), scaled(w, 4)),
            "common cause: no direction": (scaled(np.tanh(z) + 0.4 * u, 1.4), scaled(z + 0.6 * v, 4)),
        }

    heads = [f"ε = {e:g}: {what}" for e in epsilons for what in ("x → y", "y → x", "open")]
    with recorded("vepakomma2021_causes", "rows", "y is", *heads) as row:
        for n in (2000, 10_000, 50_000):
            rng = np.random.default_rng(4)
            tables = [models(n, rng) for _ in range(runs)]
            for name in tables[0]:
                cells = []
                for epsilon in epsilons:
                    told = []
                    for x, y in (each[name] for each in tables):
                        forth, back = left(x, y, epsilon, rng), left(y, x, epsilon, rng)
                        gap = back.numbers.correlation - forth.numbers.correlation
                        told.append(gap / math.hypot(forth.error, back.error))
                    forward, backward = np.mean(np.array(told) > 3), np.mean(np.array(told) < -3)
                    cells += [f"{each:.0%}" for each in (forward, backward, 1 - forward - backward)]
                row(f"{n:,}", name, *cells)


# The correlation of a Gaussian copula


def squared_of(rho: float) -> float:
    """R² of two normal variables of this correlation (Székely, Rizzo and Bakirov 2007, Theorem 7)."""
    top = rho * math.asin(rho) + math.sqrt(1 - rho**2) - rho * math.asin(rho / 2) - math.sqrt(4 - rho**2) + 1
    return top / (1 + math.pi / 3 - math.sqrt(3))


def correlation_of(squared: float) -> float:
    """The absolute correlation of two normal variables of this R²."""
    return float(brentq(lambda rho: squared_of(rho) - min(max(squared, 0.0), 1.0), 0.0, 1.0))


def copula(runs: int) -> None:
    """Root mean squared error of the copula's correlation, from R and from the correlation of normal scores."""
    epsilons = (0.5, 1, 2, 5)
    heads = ["rows", "correlation", "seeded with", *(f"ε = {e:g}" for e in epsilons)]
    with recorded("vepakomma2021_copula", *heads) as row:
        for n in (2000, 10_000):
            for rho in (0.0, 0.3, 0.6, 0.9):
                rng = np.random.default_rng(5)
                by_distance: list[list[float]] = [[] for _ in epsilons]
                by_product: list[list[float]] = [[] for _ in epsilons]
                for run in range(runs):
                    z = rng.normal(size=(2, n))
                    x, y = (np.clip(each, -3, 3) for each in (z[0], rho * z[0] + math.sqrt(1 - rho**2) * z[1]))
                    frame, bounds = pd.DataFrame({"x": x, "y": y}), {"x": (-3, 3), "y": (-3, 3)}
                    view = dp.protect(
                        frame, f"copula {n} {rho} {run}", epsilon=100, ledger="memory:", bounds=bounds
                    )
                    for at, epsilon in enumerate(epsilons):
                        numbers = released(x / 6 + 0.5, y / 6 + 0.5, epsilon, rng)
                        by_distance[at].append(correlation_of(numbers.corrected) - rho)
                        found = view.corr(["x", "y"], epsilon=epsilon, fresh=True)
                        by_product[at].append(float(found.estimates[0][1]) - rho)
                for title, errors in (("R", by_distance), ("their correlation", by_product)):
                    row(f"{n:,}", rho, title, *(f"{np.sqrt(np.mean(np.square(each))):.3f}" for each in errors))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=["samples", "causes", "copula"])
    parser.add_argument("--runs", type=int, default=40)
    asked = parser.parse_args()
    {"samples": samples, "causes": causes, "copula": copula}[asked.experiment](asked.runs)


if __name__ == "__main__":
    main()
