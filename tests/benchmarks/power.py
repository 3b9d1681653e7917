"""Power of tests of independence and of two samples, beside others, and family-wise errors of many tests.

    python tests/benchmarks/power.py kernel_power --runs 100

Of single tables exact sums are simulated, and the noise is NumPy's continuous one, which does not change a rate;
two samples are asked as a user asks them, with seeded noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import pandas as pd
from harness import Array, Bools, Ints, Rng, Rows, Tables, answers, grouped, problem, protected
from levels_kernels import quicker
from real import ADULT, CODES, read
from scipy.special import chdtrc, chdtri

from dfprivacy.testing import seeded_noise
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.laws import binomial_law
from dfprivacy_chi2.tables import chi2_statistic, paper_sensitivity, tight_sensitivity, unit_circle_norm

tables = Tables(__doc__)
Counts = tuple[Ints, Ints]


# One table of 2 x 2

ALPHA, NULL_DRAWS = 0.05, 1_000_000
TAU = float(chdtri(1, ALPHA))
METHODS = ("output", "input", "circle, paper", "circle", "signed", "difference")
APART = {200: (0.1815, 0.3629), 1000: (0.0812, 0.1623), 5000: (0.0363, 0.0726), 20_000: (0.0181, 0.0363)}
ONE_TABLE = [  # N, ε and d; the larger d only where something can be missed
    (N, epsilon, d)
    for N, ds in APART.items()
    for epsilon in (0.05, 0.1, 0.5, 1.0)
    for d in (ds if N == 200 or epsilon < 0.5 else ds[:1])
]
UNKNOWN = ("difference", "signed", "circle", "circle, paper")
PRIVATE_SHARE = (  # rows of a group, base share, ε, d, and a simulation of "signed" with another correction
    (100, 0.3, 0.1, 0.3815, ".048/.669"),
    (500, 0.3, 0.1, 0.1212, ".044/.798"),
    (500, 0.3, 1, 0.0852, ".046/.800"),
    (500, 0.05, 0.1, 0.0786, ".020/.404"),
    (500, 0.05, 0.5, 0.0466, ".014/.579"),
    (2500, 0.3, 0.1, 0.0443, ".045/.847"),
    (2500, 0.05, 0.1, 0.0253, ".026/.671"),
    (2500, 0.05, 0.5, 0.0189, ".044/.778"),
)


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


@tables.add("n", "base", "ε", "d", "χ², no privacy", *UNKNOWN)
def chi2_power_unknown(runs: int = 50_000, few: int = 1000) -> Rows:
    """Level and power where nothing is known of the share; of the signed test of 1,000 tables."""
    rng = np.random.default_rng(2017)

    def rejected(method: str, counts: Counts, n: int, epsilon: float) -> float:
        if method != "signed":
            return rate(noisy(rng, method, counts, n, n, epsilon) > critical(method, n, n, epsilon, None))
        pairs = zip(*(each[:few].tolist() for each in counts), strict=True)
        x = (np.repeat([True, False, True, False], [c, n - c, d, n - d]) for c, d in pairs)
        frames = [pd.DataFrame({"x": each, "g": np.repeat([0, 1], n)}) for each in x]
        view = grouped(frames, ("g",), categories={"x": [False, True], "g": [0, 1]})
        with seeded_noise(2017):
            found = answers(view, "chi2", "x", "g", method="signed", epsilon=epsilon)
        return rate([each.pvalue <= ALPHA for each in found])

    for n, base, epsilon, d, reference in PRIVATE_SHARE:
        both = [(rng.binomial(n, base + more, runs), rng.binomial(n, base, runs)) for more in (0, d)]
        shown = [" / ".join(f"{rate(chi2_statistic(*counts, n, n) > TAU):.3f}" for counts in both)]
        for method in UNKNOWN:
            cell = " / ".join(f"{rejected(method, counts, n, epsilon):.3f}" for counts in both)
            # other corrections than the reference's: beside it, not against it
            shown.append(f"{cell} (reference {reference})" if method == "signed" else cell)
        yield n, f"{base:g}", f"{epsilon:g}", f"{d:.4f}", *shown


# Many tables of 2 x 2, by the sparse vector technique


@dataclass(frozen=True)
class Variant:
    """A test of many tables."""

    name: str
    statistic: Literal["circle, paper", "circle", "difference"]
    level: float
    of_paper: bool  # its noise, drawn again for the threshold after each rejection; else the library's, drawn once
    ignored: bool  # the noise of the threshold is left out of the null law


SIZE, COLUMNS, REJECTIONS = 2500, 100, 5
EACH = ALPHA / COLUMNS
TAU_MANY = float(chdtri(1, EACH))
CIRCLE, PRINTED, DIFFERENCE = "circle", "circle, paper", "difference"
MANY = (
    Variant("circle of the paper, α, threshold noise ignored: as printed", PRINTED, ALPHA, True, True),
    Variant("circle of the paper, α/K, threshold noise ignored", PRINTED, EACH, True, True),
    Variant("circle of the paper, α/K", PRINTED, EACH, True, False),
    Variant("circle, α/K, noise of the paper", CIRCLE, EACH, True, False),
    Variant("circle, α/K", CIRCLE, EACH, False, False),
    Variant("difference, α/K, noise of the paper", DIFFERENCE, EACH, True, False),
    Variant("**difference, α/K**: `chi2_many`", DIFFERENCE, EACH, False, False),
)


@tables.add("test", "ε = 0.5: error", "d = 0.1", "d = 0.2", "ε = 1: error", "d = 0.1", "d = 0.2")
def chi2_power_many(runs: int = 2000) -> Rows:
    """Family-wise error of 100 columns, five rejections paid for; and true findings of five that differ by d."""
    rng = np.random.default_rng(2017)
    plain = []
    for d in (0.0, 0.1, 0.2):
        c11, c10, _, differ = many(rng, runs, d)
        hit = chdtrc(1, chi2_statistic(c11, c10, SIZE, SIZE)) < EACH
        plain.append(f"{rate((hit & differ).sum(axis=1)):.2f}" if d else f"{rate(hit.any(axis=1)):.3f}")
    yield "χ² at α/K, no privacy", *2 * plain
    for variant in MANY:
        shown = []
        for epsilon, d in itertools.product((0.5, 1.0), (0.0, 0.1, 0.2)):
            false, true = sparse_vector(rng, variant, runs, epsilon, d)
            shown.append(f"{rate(true):.2f}" if d else f"{rate(false > 0):.3f}")
        yield variant.name, *shown


def many(rng: Rng, runs: int, d: float) -> tuple[Any, Any, Array, Bools]:
    """Draw counts of runs x columns, their public pooled shares, and which differ."""
    p0 = rng.uniform(0.05, 0.5, (runs, COLUMNS))
    differ = np.argsort(rng.random(p0.shape), axis=1) < (5 if d else 0)
    p1 = p0 + d * differ
    return rng.binomial(SIZE, p1), rng.binomial(SIZE, p0), (p1 + p0) / 2, differ


def sparse_vector(rng: Rng, variant: Variant, runs: int, epsilon: float, d: float) -> Counts:
    """The numbers of false and of true rejections of each run."""
    circle = variant.statistic != "difference"
    sensitivity = moved(variant.statistic, SIZE, SIZE, TAU_MANY) if circle else 1 / SIZE
    if variant.of_paper:
        noises = 2 * REJECTIONS / epsilon * sensitivity, 4 * REJECTIONS / epsilon * sensitivity
    else:
        first = epsilon / (1 + (2 * REJECTIONS) ** (2 / 3))
        noises = sensitivity / first, 2 * REJECTIONS / (epsilon - first) * sensitivity
    shares, required = thresholds(circle, variant.level, noises[1:] if variant.ignored else noises)
    c11, c10, p, differ = many(rng, runs, d)
    values = unit_circle_norm(c11, c10, SIZE, SIZE, TAU_MANY) if circle else np.abs(c11 - c10) / SIZE
    over = values + rng.laplace(0, noises[1], p.shape) - np.interp(p, shares, required)
    rho, false, true = rng.laplace(0, noises[0], runs), np.zeros(runs, dtype=int), np.zeros(runs, dtype=int)
    for k in range(COLUMNS):
        hit = (over[:, k] > rho) & (false + true < REJECTIONS)
        true += hit & differ[:, k]
        false += hit & ~differ[:, k]
        if variant.of_paper:
            rho = np.where(hit, rng.laplace(0, noises[0], runs), rho)
    return false, true


@cache
def thresholds(circle: bool, level: float, noises: tuple[float, ...]) -> tuple[Array, Array]:
    """Critical values on a grid of public shares."""
    shares = np.linspace(0.05, 0.6, 56)
    if circle:
        laws = [nulls.norm_null(SIZE, SIZE, TAU_MANY, float(p)) for p in shares]
    else:
        laws = [nulls.MissingRowsNull(SIZE, min(float(p), 0.5)) for p in shares]
    return shares, np.array([law.critical_value(level, *noises) for law in laws])


# Real tables: the record of docs/howto/associations.md


@tables.add("answered", "private", "exact")
def chi2_adult() -> Rows:
    """Income by sex in the census table; and which of all its yes-or-no questions differ most by income."""
    adult = read("adult.csv", ADULT)
    if adult is None:
        return
    incomes = {"income": ["<=50K", ">50K"]}
    census = protected(adult, categories={**incomes, "sex": ["Male", "Female"]}, public=["sex"])
    print(census.chi2("income", "sex", epsilon=0.1), "\n")
    limits = {"age": (30, 40, 50), "hours_per_week": (20, 40, 50), "capital_gain": (0,), "capital_loss": (0,)}
    asked = {f"{name}: {code}": adult[name] == code for name, codes in CODES.items() for code in codes.split()}
    asked |= {f"{name} > {limit}": adult[name] > limit for name, of in limits.items() for limit in of}
    del asked["sex: Male"]
    table, rich = pd.DataFrame(asked), adult["income"] == ">50K"
    categories = {**dict.fromkeys(table, (False, True)), **incomes}
    view = protected(table.assign(income=adult["income"]), categories=categories, public=["income"])
    print(view.chi2_many(list(table), "income", max_rejections=40, epsilon=1), "\n")
    many = view.chi2_many(list(table), "income", method="select", max_rejections=12, epsilon=1)
    exact = (table[rich].mean() - table[~rich].mean()).abs()
    for name, difference in zip(many.answered, many.differences, strict=False):
        yield name, f"{difference:.3f}", f"{exact[str(name)]:.3f}"


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


if __name__ == "__main__":
    tables.main()
