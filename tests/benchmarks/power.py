"""Power of tests of independence and of two samples, beside what Kakizaki and Raj, with others, print.

    python tests/benchmarks/power.py kernel_power --runs 100

Of single tables exact sums are simulated, and what is printed is of rows without privacy: the noise is NumPy's,
which does not change a rate. Tests of two samples are asked as a user asks them, with seeded noise.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from harness import Array, Ints, Rng, Rows, Tables, problem, protected
from levels import quicker
from scipy import stats

from dfprivacy import Column
from dfprivacy.statistics import gaussian_scale
from dfprivacy.testing import seeded_noise
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.laws import binomial_law
from dfprivacy_chi2.tables import (
    chi2_statistic,
    paper_sensitivity,
    tight_sensitivity,
    unit_circle_norm,
)
from dfprivacy_kernel import printed
from dfprivacy_kernel.design import Design as Kernel
from dfprivacy_kernel.moments import Party, Scales
from dfprivacy_kernel.printed import moment_sensitivities, paper_test

tables = Tables(__doc__)
Counts = tuple[Ints, Ints]


# One table of 2 x 2

ALPHA, NULL_DRAWS = 0.05, 1_000_000
METHODS = ("output", "input", "circle, paper", "circle", "signed", "difference")
APART = {200: (0.1815, 0.3629), 1000: (0.0812, 0.1623), 5000: (0.0363, 0.0726), 20_000: (0.0181, 0.0363)}
ONE_TABLE = [  # N, ε and d; the larger d only where something can be missed
    (N, epsilon, d)
    for N, ds in APART.items()
    for epsilon in (0.05, 0.1, 0.5, 1.0)
    for d in (ds if N == 200 or epsilon < 0.5 else ds[:1])
]


def noisy(rng: Rng, method: str, counts: Counts, n1: int, n0: int, epsilon: float) -> Array:
    """Noisy statistics of tables; "output" adds noise to chi² itself, and "input" to the counts of both groups."""
    (c11, c10), n = counts, n1 + n0

    def lap(scale: float) -> Array:
        return rng.laplace(0, scale, c11.shape)

    if method == "output":
        return chi2_statistic(c11, c10, n1, n0) + lap(n * n / (n1 * n0) * (1 - 1 / (max(n1, n0) + 1)) / epsilon)
    if method == "input":
        return np.abs((c11 + lap(1 / epsilon)) / n1 - (c10 + lap(1 / epsilon)) / n0)
    if method.startswith("circle"):
        return unit_circle_norm(c11, c10, n1, n0, TAU) + lap(moved(method, n1, n0) / epsilon)
    difference, noise = c11 / n1 - c10 / n0, lap(1 / (min(n1, n0) * epsilon))
    return np.abs(difference + noise) if method == "signed" else np.abs(difference) + noise


def moved(method: str, n1: int, n0: int, tau: float = TAU) -> float:
    """The sensitivity of the circle's norm."""
    return (paper_sensitivity if "paper" in method else tight_sensitivity)(n1, n0, tau)


@cache
def critical(method: str, n1: int, n0: int, epsilon: float, p: float | None) -> float:
    """The critical value at a share, or at all; of baselines, a quantile of a simulated null."""
    if method == "difference":
        law = binomial_law(lambda c, d: np.abs(c / n1 - d / n0), n1, n0, p or 0.5, p or 0.5)
        return law.critical_value(ALPHA, 1 / (min(n1, n0) * epsilon))
    if method.startswith("circle"):
        return nulls.norm_null(n1, n0, TAU, p).critical_value(ALPHA, moved(method, n1, n0) / epsilon)
    rng, found = np.random.default_rng(7), []
    for share in (p,) if p is not None else (0.5,) if method != "output" else (0.05, 0.3, 0.5):
        counts = rng.binomial(n1, share, NULL_DRAWS), rng.binomial(n0, share, NULL_DRAWS)
        found.append(float(np.quantile(noisy(rng, method, counts, n1, n0, epsilon), 1 - ALPHA)))
    return max(found)


def rate(hits: Any) -> float:
    """A rejection rate."""
    return float(np.mean(hits))


@tables.add("N", "ε", "d", "χ², no privacy", *METHODS)
def chi2_power(runs: int = 100_000) -> Rows:
    """Power of tests of one table: pooled share known / unknown."""
    rng = np.random.default_rng(2017)
    for N, epsilon, d in ONE_TABLE:
        n = N // 2
        counts = rng.binomial(n, 0.3 + d, runs), rng.binomial(n, 0.3, runs)
        shown = [f"{rate(chi2_statistic(*counts, n, n) > TAU):.3f}"]
        for method in METHODS:
            statistics = noisy(rng, method, counts, n, n, epsilon)
            both = (rate(statistics > critical(method, n, n, epsilon, p)) for p in (0.3 + d / 2, None))
            shown.append(" / ".join(f"{each:.3f}" for each in both))
        yield N, f"{epsilon:g}", f"{d:.4f}", *shown


# Two samples: the experiments of Raj et al. (2019)

EPSILONS, DELTA = (0.5, 1.0, 2.5), 1e-5
BOUNDS = {"mmd": 0.06, "permutation": 0.05, "moments": 0.065, "local moments": 0.065, "whitened": 0.05}
POINTS = {"mmd": 200, "permutation": 200, "whitened": 30, "moments": 5}
Draw = Callable[[Rng, int], Array]


def normal(d: int, *, shift: float = 0.0, sd: float = 1.0) -> Draw:
    """Normal columns, of which the first has another mean or standard deviation."""

    def draw(rng: Rng, n: int) -> Array:
        rows = rng.standard_normal((n, d))
        rows[:, 0] = shift + sd * rows[:, 0]
        return rows

    return draw


def blobs(*, stretch: float = 1.0, turned: bool = False) -> Draw:
    """A grid of normal blobs in the plane, stretched along an axis, or along a diagonal."""

    def draw(rng: Rng, n: int) -> Array:
        rows = rng.standard_normal((n, 2)) * [stretch, 1.0]
        if turned:
            rows = rows @ np.array([[1, 1], [-1, 1]]) / math.sqrt(2)
        return rows + 5 * (rng.integers(4, size=(n, 2)) - 1.5)

    return draw


DESIGNS: dict[str, tuple[int, Draw, Draw]] = {
    "SG": (50, normal(50), normal(50)),
    "blobs, null": (2, blobs(), blobs()),
    "GMD": (100, normal(100), normal(100, shift=1.0)),
    "GVD": (50, normal(50), normal(50, sd=math.sqrt(2))),
    "blobs": (2, blobs(), blobs(stretch=math.sqrt(2))),
    "blobs, turned": (2, blobs(), blobs(stretch=math.sqrt(2), turned=True)),
}


def space(name: str) -> tuple[list[str], float, float]:
    """The columns of a design, their bounds on either side, and the lengthscale."""
    d, reach = DESIGNS[name][0], 11.5 if name.startswith("blobs") else 6.0
    return [f"x{i}" for i in range(d)], reach, math.sqrt(d) * 3 / reach


def located(name: str, points: int) -> list[Any]:
    """Landmarks: a public sample of the first distribution."""
    _, reach, _ = space(name)
    return DESIGNS[name][1](np.random.default_rng(1), points).clip(-reach, reach).tolist()


def compared(name: str, *samples: Array) -> Any:
    """Protect two samples, whose sizes are public."""
    names, reach, _ = space(name)
    group = np.repeat(["a", "b"], [len(each) for each in samples])
    frame = pd.DataFrame(np.vstack(samples), columns=names).assign(g=group)
    terms = {"bounds": dict.fromkeys(names, (-reach, reach)), "categories": {"g": ["a", "b"]}, "public": ["g"]}
    return protected(frame, **terms, delta=0.5)


def rejects(name: str, view: Any, method: str, epsilon: float, **asked: Any) -> bool:
    """Ask a test of two samples, or of messages of two parties."""
    names, _, width = space(name)
    said: dict[str, Any] = {"lengthscale": width, "epsilon": epsilon, "fresh": True}
    said |= {"delta": DELTA} if "moments" in method else {}
    said |= {"n_permutations": 199} if method in {"permutation", "whitened"} else {}
    said |= {"locations": located(name, POINTS[method.removeprefix("local ")]), **asked}
    if method == "local moments":
        one, other = (view.where(g=group).kernel_message(names, **said) for group in "ab")
        return bool(one.test(other).pvalue <= ALPHA)
    return bool(view.kernel_two_sample(names, "g", method=method, **said).rejected)


@tables.add("data, n", "not private", *BOUNDS)
def kernel_power(runs: int = 200) -> Rows:
    """Rejections at 5%; half the runs at n = 2,000, a fifth at 10,000, and five times as many of blobs."""
    quicker()
    tests = [("permutation", 10.0**5), *itertools.product(BOUNDS, EPSILONS)]
    for place, (name, (_, first, second)) in enumerate(DESIGNS.items()):
        for n, few in ((500, runs), (2000, -(-runs // 2)), (10_000, -(-runs // 5))):
            rng, times, said = np.random.default_rng([2019, place, n]), 5 * few if "blobs" in name else few, []
            with seeded_noise(place):
                for _ in range(times):
                    view = compared(name, first(rng, n), second(rng, n))
                    said.append([rejects(name, view, *test) for test in tests])
            rates = np.mean(said, axis=0)
            for (method, epsilon), found in zip(tests[1:], rates[1:], strict=True):
                most = BOUNDS[method]
                if name in {"SG", "blobs, null"} and found > most + 3 * math.sqrt(most * (1 - most) / times):
                    problem(f"{name}, {n}, {method} at {epsilon}: {found}")
            plain, *private = (f"{each:.2f}" for each in rates)
            yield f"{name}, {n}", plain, *(" ".join(private[i : i + 3]) for i in range(0, len(private), 3))


# As printed: TCMC of pairs, and NTE of two parties

J, HALF = 5, DELTA / 2


def features_of(name: str, kind: str = "me") -> Callable[[Array], Array]:
    """The features of rows of a design at five locations."""
    names, reach, width = space(name)
    columns = [Column(each, bounds=(-reach, reach), fill=0.0) for each in names]
    (part,) = Kernel.from_arguments(columns, kind, width, 0.5, located(name, J), J).embedding(mapped=False).parts
    return lambda rows: part.features(rows.clip(-reach, reach))


def symmetric(rng: Rng, scale: Any, J: int) -> Array:
    """Noise of a symmetric matrix of which the upper triangle is released."""
    upper = np.triu(scale * rng.standard_normal((J, J)))
    return upper + np.triu(upper, 1).T


def party(rng: Rng, values: Array, mean_noise: float, second_noise: float) -> Party:
    """Mean and second moment of some vectors, with noise."""
    n = len(values)
    second = values.T @ values / (n - 1) + symmetric(rng, second_noise, values.shape[1])
    mean = values.mean(axis=0) + mean_noise * rng.standard_normal(values.shape[1])
    return Party(mean, second, Scales(mean_noise, math.inf, second_noise, second_noise), float(n))


def variants(rng: Rng, x: Array, y: Array, kind: str, epsilon: float) -> dict[str, list[Party]]:
    """TCMC of pairs and NTE of two parties, as printed, with the right calibration."""
    n, half = min(len(x), len(y)), gaussian_scale(epsilon / 2, HALF)
    mean, second = moment_sensitivities(kind, x.shape[1], 1.0, "row of a pair")
    tcmc = [party(rng, x[:n] - y[:n], mean / n * half, second / (n - 1) * half)]
    mean, second = moment_sensitivities(kind, x.shape[1], 1.0, "row")
    return {
        "TCMC": tcmc,
        "NTE": [party(rng, v, mean / len(v) * half, second / (len(v) - 1) * half) for v in (x, y)],
    }


PRINTED = ("TCMC", "NTE", "TCMC, naive χ²", "NTE, naive χ²", "method=moments")


@tables.add("features", "data, n", *PRINTED)
def papers_raj2019_power(runs: int = 80) -> Rows:
    """Figures 5, 6 and 8: rejections at 5%, by the printed null law and by χ² alone; at n = 10,000 half."""
    printed._DRAWS = 10_000  # p-values to a few thousandths
    names = enumerate(("SG", "blobs, null", "GMD", "GVD", "blobs"))
    cells = itertools.product(("me", "scf"), names, ((2000, runs), (10_000, runs // 2)))
    for kind, (place, name), (n, times) in cells:
        rng, hits = np.random.default_rng([2019, place, n]), defaultdict[Any, list[bool]](list)
        (_, *draws), phi = DESIGNS[name], features_of(name, kind)
        for _ in range(times):
            rows = [draw(rng, n) for draw in draws]
            x, y = map(phi, rows)
            for epsilon in EPSILONS:
                for which, evidence in variants(rng, x, y, kind, epsilon).items():
                    found = paper_test(evidence)
                    hits[which, epsilon].append(found.pvalue <= 0.05)
                    hits[f"{which}, naive χ²", epsilon].append(stats.chi2.sf(found.statistic, x.shape[1]) <= 0.05)
                if kind == "me":
                    with seeded_noise(int(rng.integers(2**31))):
                        told = rejects(name, compared(name, *rows), "moments", epsilon)
                    hits["method=moments", epsilon].append(told)
        rates = {key: f"{np.mean(each):.2f}" for key, each in hits.items()}
        shown = (" ".join(rates.get((of, e), "") for e in EPSILONS).strip() for of in PRINTED)
        yield kind, f"{name}, {n:,}", *shown


if __name__ == "__main__":
    tables.main()
