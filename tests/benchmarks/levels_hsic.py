"""Level and coverage of the test by HSIC, on designs drawn at random, by simulation.

    python tests/benchmarks/levels_hsic.py --runs 400

Both columns of `hsic` follow the data of the design, independently, with the missing values of the design, and all
other arguments are the defaults. Values are rounded to at most 64, so that HSIC follows from a table of counts and
the kernel of these values. The noise is NumPy's continuous Laplace in place of the library's discrete one, which
does not change a level. Larger designs are made smaller, to 2,000 rows.

Prints and keeps a table, by kind of data and kernel, with the worst design of each.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from designs import LEVELS, designs, exceeds
from levels_dcor import grid, tables
from results import Parts, recorded, resumable

from dfprivacy import Column
from dfprivacy_dcor.inference import null_tail
from dfprivacy_dcor.mechanisms import criterion
from dfprivacy_dcor.spaces import kernel_space
from dfprivacy_dcor.statistics import FiveNumbers, largest_values

if TYPE_CHECKING:
    from designs import Design
    from numpy.typing import NDArray

ROWS = 2000
BATCH = 1_000_000
CASES = (("gaussian", None), ("gaussian", 0.25), ("laplace", None))


def exact(
    distances: tuple[NDArray[np.float64], NDArray[np.float64]],
    table: NDArray[np.int64],
    n: int,
    diameters: tuple[float, float],
) -> NDArray[np.float64]:
    """The six numbers of each table of counts, without noise, from the distances of the values of both sides."""
    m = np.maximum(table.sum(axis=(1, 2)), 1).astype(float)
    joint = table / m[:, None, None]
    x, y = joint.sum(axis=2), joint.sum(axis=1)
    a, b = x @ distances[0], y @ distances[1]  # mean distances from each value
    ab = (joint * np.matmul(distances[0] @ joint, distances[1])).sum(axis=(1, 2))
    aa, bb = (
        np.einsum("ra,ab,rb->r", z, each**2, z, optimize=True) for z, each in zip((x, y), distances, strict=True)
    )
    means = (x * a).sum(axis=1), (y * b).sum(axis=1)
    squares = (
        ab - 2 * np.einsum("ra,rab,rb->r", a, joint, b, optimize=True) + means[0] * means[1],
        aa - 2 * (x * a**2).sum(axis=1) + means[0] ** 2,
        bb - 2 * (y * b**2).sum(axis=1) + means[1] ** 2,
    )
    roots = [np.sqrt(np.maximum(each, 0.0)) for each in squares]
    share = table.sum(axis=(1, 2)) / n
    shifted = [mean - diameter for mean, diameter in zip(means, diameters, strict=True)]
    found = np.stack([*roots, *shifted, np.ones_like(share)], axis=1)
    return found * share[:, None]


def measured(
    design: Design, kernel: str, lengthscale: float | None, runs: int, rng: np.random.Generator
) -> tuple[list[int], float]:
    """Rejections at each level, and coverage of the interval."""
    n, values = sum(design.sizes), grid(design)[::2]
    bounds = (design.low, design.high)
    columns = [Column(name, bounds=bounds, fill=design.low) for name in "xy"]
    kinds: Any = kernel
    spaces = [kernel_space((column,), kinds, lengthscale, nan_policy="omit") for column in columns]
    apart = np.abs(np.subtract.outer(values, values)) / (bounds[1] - bounds[0]) / spaces[0].lengthscale
    distance = -np.expm1(-(apart**2 if kernel == "gaussian" else apart))
    scales = 1 / (FiveNumbers(*spaces, n).weights * design.epsilon)
    step = max(1, BATCH // max(n, len(values) ** 2))
    parts = [
        exact((distance,) * 2, tables(design, values, min(step, runs - start), rng), n, (spaces[0].diameter,) * 2)
        for start in range(0, runs, step)
    ]
    truth = np.concatenate(parts)
    noisy = truth + rng.laplace(size=truth.shape) * scales
    most = largest_values(*spaces)
    hits = [int((null_tail(noisy, scales, n, most, level) <= 0.9 * level).sum()) for level in LEVELS]
    held = []
    for exactly, told in zip(truth, noisy, strict=True):
        complete = exactly[5]
        if complete * n >= 4:
            value = (exactly[0] / (complete - 1 / n)) ** 2
            _, low, high = criterion(told[0], scales[0], told[5], scales[5], n, 1.0, 0.95)
            held.append(low - 1e-9 <= value <= high + 1e-9)
    return hits, float(np.mean(held)) if held else 1.0


def smaller(design: Design) -> Design:
    """The same design with at most so many rows."""
    part = min(1.0, ROWS / sum(design.sizes))
    return replace(design, sizes=tuple(max(2, round(part * size)) for size in design.sizes))


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400, help="simulated tables a design (default: 400)")
    parser.add_argument("--every", type=int, default=1, help="take every so manieth design, and keep no table")
    parser.add_argument("--seed", type=int, default=2005)
    resumable(parser)
    asked = parser.parse_args()
    parts, failed = Parts(asked.resume), 0
    kinds: dict[tuple[str, str], list[tuple[list[int], float]]] = defaultdict(list)
    for place, design in list(enumerate(designs()))[:: asked.every]:
        for kernel, lengthscale in CASES:
            rng = np.random.default_rng([asked.seed, place])
            told = kernel if lengthscale is None else f"{kernel}, lengthscale {lengthscale:g}"
            run = partial(measured, smaller(design), kernel, lengthscale, asked.runs, rng)
            found = parts(f"{place} {told} {asked.runs} {asked.seed}", run)
            kinds[told, design.data].append(found)
            if any(exceeds(hit, asked.runs, level) for hit, level in zip(found[0], LEVELS, strict=True)):
                failed += 1
                print(f"{place} {design} {told}: {found}", file=sys.stderr, flush=True)
    heads = [f"{level:g}{which}" for level in LEVELS for which in ("", ", worst design")]
    with recorded(
        "levels_hsic", "kernel", "data", "designs", *heads, "least coverage", keep=asked.every == 1
    ) as row:
        for (told, kind), parted in sorted(kinds.items()):
            cells = []
            for at in range(len(LEVELS)):
                rates = [hits[at] / asked.runs for hits, _ in parted]
                cells += [f"{np.mean(rates):.4f}", f"{max(rates):.4f}"]
            row(told, kind, len(parted), *cells, f"{min(held for _, held in parted):.3f}")
    print(f"\n{failed} designs reject too often.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
