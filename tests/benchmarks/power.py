"""Power of tests of independence and of two samples, beside others, and family-wise errors of many tests.

    python tests/benchmarks/power.py kernel_power --runs 100

Exact sums are simulated; the noise is NumPy's continuous one, which does not change a rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from harness import Array, Bools, Ints, Rng, Rows, Tables, problem, protected
from levels import signed_pvalue
from levels_kernels import features, measured, numbers, quicker, separation, symmetric, unit_scale
from real import ADULT, CODES, read
from scipy.linalg import solve_triangular
from scipy.special import chdtrc, chdtri

from dfprivacy_chi2 import nulls
from dfprivacy_chi2.laws import binomial_law
from dfprivacy_chi2.tables import chi2_statistic, paper_sensitivity, tight_sensitivity, unit_circle_norm
from dfprivacy_kernel.design import Design
from dfprivacy_kernel.moments import Contrast, Party, contrast_test, noise_scales, parties_test
from dfprivacy_kernel.statistics import CLIP, random_subset, ridge_for, whitened_sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfprivacy import Column

    Draw = Callable[[Rng, int], Array]


tables = Tables(__doc__)
Counts = tuple[Ints, Ints]


# One table of 2 x 2

ALPHA, NULL_DRAWS = 0.05, 1_000_000
TAU = float(chdtri(1, ALPHA))

# Power at N1 = N0 = N/2, share 0.3 in the second group and d more in the first: N, epsilon, d, chi² without
# privacy, and for each method the power where the pooled share is known / where it is not, by an exact sum.
ONE_TABLE = """
200 0.05 0.1815 0.756 | 0.055 / 0.055 | 0.064 / 0.064 | 0.077 / 0.060 | 0.093 / 0.066 | 0.072 / 0.072 | 0.097 / 0.097
200 0.05 0.3629 1.000 | 0.070 / 0.070 | 0.112 / 0.112 | 0.148 / 0.113 | 0.233 / 0.160 | 0.156 / 0.156 | 0.238 / 0.238
200 0.1 0.1815 0.756 | 0.060 / 0.060 | 0.111 / 0.110 | 0.123 / 0.077 | 0.183 / 0.098 | 0.155 / 0.153 | 0.198 / 0.195
200 0.1 0.3629 1.000 | 0.100 / 0.100 | 0.355 / 0.355 | 0.424 / 0.266 | 0.686 / 0.476 | 0.620 / 0.620 | 0.696 / 0.696
200 0.5 0.1815 0.756 | 0.149 / 0.149 | 0.626 / 0.612 | 0.616 / 0.398 | 0.680 / 0.497 | 0.686 / 0.670 | 0.686 / 0.671
200 0.5 0.3629 1.000 | 0.716 / 0.716 | 0.995 / 0.995 | 0.994 / 0.979 | 0.998 / 0.992 | 0.998 / 0.998 | 0.998 / 0.998
200 1 0.1815 0.756 | 0.334 / 0.334 | 0.718 / 0.703 | 0.716 / 0.575 | 0.735 / 0.631 | 0.735 / 0.720 | 0.735 / 0.720
200 1 0.3629 1.000 | 0.948 / 0.948 | 0.999 / 0.999 | 0.999 / 0.997 | 0.999 / 0.998 | 0.999 / 0.999 | 0.999 / 0.999
1000 0.05 0.0812 0.774 | 0.055 / 0.055 | 0.128 / 0.125 | 0.135 / 0.084 | 0.208 / 0.112 | 0.189 / 0.183 | 0.235 / 0.225
1000 0.05 0.1623 1.000 | 0.072 / 0.072 | 0.439 / 0.436 | 0.498 / 0.331 | 0.749 / 0.565 | 0.714 / 0.710 | 0.770 / 0.764
1000 0.1 0.0812 0.774 | 0.061 / 0.061 | 0.348 / 0.333 | 0.332 / 0.169 | 0.475 / 0.262 | 0.494 / 0.470 | 0.509 / 0.483
1000 0.1 0.1623 1.000 | 0.104 / 0.104 | 0.898 / 0.895 | 0.904 / 0.784 | 0.970 / 0.914 | 0.971 / 0.970 | 0.973 / 0.971
1000 0.5 0.0812 0.774 | 0.158 / 0.158 | 0.745 / 0.711 | 0.741 / 0.613 | 0.758 / 0.663 | 0.759 / 0.725 | 0.759 / 0.725
1000 1 0.0812 0.774 | 0.353 / 0.353 | 0.766 / 0.733 | 0.766 / 0.698 | 0.770 / 0.722 | 0.770 / 0.736 | 0.770 / 0.736
5000 0.05 0.0363 0.787 | 0.055 / 0.055 | 0.402 / 0.379 | 0.375 / 0.197 | 0.517 / 0.302 | 0.546 / 0.512 | 0.557 / 0.521
5000 0.05 0.0726 1.000 | 0.073 / 0.073 | 0.936 / 0.930 | 0.932 / 0.842 | 0.980 / 0.942 | 0.983 / 0.981 | 0.984 / 0.981
5000 0.1 0.0363 0.787 | 0.061 / 0.061 | 0.653 / 0.613 | 0.629 / 0.418 | 0.702 / 0.522 | 0.717 / 0.674 | 0.717 / 0.674
5000 0.1 0.0726 1.000 | 0.109 / 0.109 | 0.996 / 0.995 | 0.995 / 0.982 | 0.998 / 0.994 | 0.999 / 0.998 | 0.999 / 0.998
5000 0.5 0.0363 0.787 | 0.163 / 0.163 | 0.781 / 0.737 | 0.780 / 0.719 | 0.784 / 0.740 | 0.784 / 0.740 | 0.784 / 0.740
5000 1 0.0363 0.787 | 0.366 / 0.366 | 0.785 / 0.741 | 0.785 / 0.755 | 0.786 / 0.764 | 0.786 / 0.742 | 0.786 / 0.742
20000 0.05 0.0181 0.793 | 0.055 / 0.055 | 0.658 / 0.614 | 0.632 / 0.421 | 0.706 / 0.526 | 0.722 / 0.675 | 0.722 / 0.675
20000 0.05 0.0363 1.000 | 0.074 / 0.074 | 0.996 / 0.995 | 0.995 / 0.983 | 0.999 / 0.995 | 0.999 / 0.998 | 0.999 / 0.998
20000 0.1 0.0181 0.793 | 0.061 / 0.061 | 0.757 / 0.708 | 0.749 / 0.608 | 0.771 / 0.667 | 0.775 / 0.726 | 0.775 / 0.726
20000 0.1 0.0363 1.000 | 0.111 / 0.111 | 1.000 / 0.999 | 0.999 / 0.998 | 1.000 / 0.999 | 1.000 / 0.999 | 1.000 / 0.999
20000 0.5 0.0181 0.793 | 0.166 / 0.166 | 0.792 / 0.743 | 0.791 / 0.761 | 0.792 / 0.770 | 0.792 / 0.743 | 0.792 / 0.743
20000 1 0.0181 0.793 | 0.372 / 0.372 | 0.793 / 0.744 | 0.793 / 0.777 | 0.793 / 0.782 | 0.793 / 0.744 | 0.793 / 0.744
"""  # noqa: E501
METHODS = ("output", "input", "circle, paper", "circle", "signed", "difference")

# N1 = N0, base share, epsilon, d, then level/power where the share is unknown, of the difference, the signed one (a
# simulation of 40,000 with another correction for the noisy total), the circle, and the circle of the paper.
UNKNOWN = ("difference", "signed", "circle", "circle, paper")
PRIVATE_SHARE = """
100 .3 .1 .3815 | .047/.742 .048/.669 .030/.534 .034/.301
500 .3 .1 .1212 | .041/.834 .044/.798 .018/.644 .023/.457
500 .3 1 .0852 | .033/.777 .046/.800 .034/.763 .029/.741
500 .05 .1 .0786 | .015/.442 .020/.404 .040/.300 .043/.178
500 .05 .5 .0466 | .000/.172 .014/.579 .021/.483 .025/.373
2500 .3 .1 .0443 | .035/.843 .045/.847 .015/.729 .015/.623
2500 .05 .1 .0253 | .002/.293 .026/.671 .031/.398 .036/.252
2500 .05 .5 .0189 | .000/.093 .044/.778 .018/.629 .018/.555
"""


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


def checked(found: float, expected: float, runs: int, slack: float = 0.0) -> str:
    """Write a rate; mark it where it is not the reference within 4 standard errors and its rounding."""
    spread = math.sqrt(max(expected * (1 - expected), 1 / runs) / runs)
    wrong = abs(found - expected) > 4 * spread + 0.0015 + slack
    if wrong:
        problem(f"{found:.3f} is not {expected:.3f}")
    return f"{found:.3f}{'*' * wrong}"


def rate(hits: Any) -> float:
    """A rejection rate."""
    return float(np.mean(hits))


@tables.add("N", "ε", "d", "χ², no privacy", *METHODS)
def chi2_power(runs: int = 100_000) -> Rows:
    """Power of tests of one table: pooled share known / unknown."""
    rng = np.random.default_rng(2017)
    for line in ONE_TABLE.strip().splitlines():
        design, *cells = line.split("|")
        size, epsilon, d, plain = map(float, design.split())
        n1 = n0 = int(size) // 2
        counts = rng.binomial(n1, 0.3 + d, runs), rng.binomial(n0, 0.3, runs)
        shown = [checked(rate(chi2_statistic(*counts, n1, n0) > TAU), plain, runs)]
        for method, cell in zip(METHODS, cells, strict=True):
            statistics, both = noisy(rng, method, counts, n1, n0, epsilon), []
            for p, expected in zip((0.3 + d / 2, None), map(float, cell.split("/")), strict=True):
                both.append(checked(rate(statistics > critical(method, n1, n0, epsilon, p)), expected, runs))
            shown.append(" / ".join(both))
        yield int(size), f"{epsilon:g}", f"{d:.4f}", *shown


@tables.add("n", "base", "ε", "d", "χ², no privacy", *UNKNOWN)
def chi2_power_unknown(runs: int = 50_000) -> Rows:
    """Level and power where nothing is known of the share; of the signed test of 1,000 tables."""
    rng = np.random.default_rng(2017)

    def rejected(method: str, counts: Counts, n: int, epsilon: float) -> float:
        if method != "signed":
            return rate(noisy(rng, method, counts, n, n, epsilon) > critical(method, n, n, epsilon, None))
        pairs = zip(*(each[:1000].tolist() for each in counts), strict=True)
        halves = ((c - d, [2 * (c + d - n), 0, 0]) for c, d in pairs)
        return rate([signed_pvalue(rng, (n, n), of, ones, epsilon, omit=True) <= ALPHA for of, ones in halves])

    for line in PRIVATE_SHARE.strip().splitlines():
        design, cells = line.split("|")
        size, base, epsilon, d = map(float, design.split())
        n = int(size)
        both = [(rng.binomial(n, base + more, runs), rng.binomial(n, base, runs)) for more in (0, d)]
        shown = [" / ".join(f"{rate(chi2_statistic(*counts, n, n) > TAU):.3f}" for counts in both)]
        for method, cell in zip(UNKNOWN, cells.split(), strict=True):
            found = [rejected(method, counts, n, epsilon) for counts in both]
            if method == "signed":  # other corrections than the reference's: beside it, not against it
                shown.append(f"{found[0]:.3f} / {found[1]:.3f} (reference {cell})")
            else:
                pairs = zip(found, map(float, cell.split("/")), strict=True)
                shown.append(" / ".join(checked(*pair, runs, 0.003) for pair in pairs))
        yield n, f"{base:g}", f"{epsilon:g}", f"{d:.4f}", *shown


# Many tables of 2 x 2, by the sparse vector technique


@dataclass(frozen=True)
class Variant:
    """A test of many tables, and what is known of it: the error if no column differs, findings at d = .1 and .2."""

    name: str
    statistic: Literal["circle, paper", "circle", "difference"]
    level: float
    of_paper: bool  # its noise, drawn again for the threshold after each rejection; else the library's, drawn once
    ignored: bool  # the noise of the threshold is left out of the null law
    reference: str  # at epsilon 0.5 | 1, of 300 to 1,000 repetitions


SIZE, COLUMNS, REJECTIONS = 2500, 100, 5
EACH = ALPHA / COLUMNS
TAU_MANY = float(chdtri(1, EACH))
CIRCLE, PRINTED, DIFFERENCE = "circle", "circle, paper", "difference"
MANY = (
    Variant("circle of the paper, α, threshold noise ignored: as printed", PRINTED, ALPHA, True, True,
            "0.940 2.18 2.58 | 0.972 2.67 2.70"),
    Variant("circle of the paper, α/K, threshold noise ignored", PRINTED, EACH, True, True,
            "0.057 0.15 3.61 | 0.060 2.18 4.95"),
    Variant("circle of the paper, α/K", PRINTED, EACH, True, False, "0.044 0.06 3.17 | 0.045 1.87 4.97"),
    Variant("circle, α/K, noise of the paper", CIRCLE, EACH, True, False, "0.032 0.42 4.89 | 0.047 4.21 4.96"),
    Variant("circle, α/K", CIRCLE, EACH, False, False, "0.044 3.18 4.98 | 0.043 4.94 4.96"),
    Variant("difference, α/K, noise of the paper", DIFFERENCE, EACH, True, False,
            "0.046 0.68 4.90 | 0.046 4.68 4.97"),
    Variant("**difference, α/K**: `chi2_many`", DIFFERENCE, EACH, False, False,
            "0.030 4.07 4.96 | 0.053 4.95 4.96"),
)  # fmt: skip


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
        for epsilon, reference in zip((0.5, 1.0), variant.reference.split("|"), strict=True):
            for d, expected in zip((0.0, 0.1, 0.2), map(float, reference.split()), strict=True):
                false, true = sparse_vector(rng, variant, runs, epsilon, d)
                if d == 0:
                    shown.append(checked(rate(false > 0), expected, 300, 0.005))
                else:  # the reference has a standard error of 0.1 at most
                    shown.append(f"{rate(true):.2f}{'*' * (abs(rate(true) - expected) > 0.25)}")
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

EPSILONS, DELTA, PERMUTATIONS = (0.5, 1.0, 2.5), Fraction(1e-5), 199
BOUNDS = {"mmd": 0.06, "permutation": 0.05, "moments": 0.065, "local moments": 0.065, "whitened": 0.05}


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


ROOT = math.sqrt(2)
DESIGNS: dict[str, tuple[int, Draw, Draw]] = {
    "SG": (50, normal(50), normal(50)),
    "blobs, null": (2, blobs(), blobs()),
    "GMD": (100, normal(100), normal(100, shift=1.0)),
    "GVD": (50, normal(50), normal(50, sd=ROOT)),
    "blobs": (2, blobs(), blobs(stretch=ROOT)),
    "blobs, turned": (2, blobs(), blobs(stretch=ROOT, turned=True)),
}


def located(name: str, kind: Any, points: int, *, mapped: bool = True) -> tuple[Any, list[Column]]:
    """An embedding and its columns; the landmarks are a public sample of the first distribution."""
    (d, first, _), reach = DESIGNS[name], 11.5 if name.startswith("blobs") else 6.0
    columns = numbers(d, reach)
    at = first(np.random.default_rng(1), points).clip(-reach, reach).tolist()
    asked = Design.from_arguments(columns, kind, math.sqrt(d) * 3 / reach, 0.5, at, points)
    return asked.embedding(mapped=mapped), columns


def relabelled(n: int, count: int, rng: Rng) -> Array:
    """The labels of two samples of n rows, and others drawn at random, as signs."""
    return np.stack([np.arange(2 * n) < n, *(random_subset(n, 2 * n, rng) for _ in range(count))]) * 2.0 - 1


def whitened(rng: Rng, phi: Array, labels: Array, epsilon: float, gamma: float) -> Array:
    """The noisy statistics of ``method="whitened"`` with a ridge."""
    n = len(phi) // 2
    L = np.linalg.cholesky(np.cov(phi.T, bias=True) + gamma * np.eye(phi.shape[1]))
    white = solve_triangular(L, (labels @ phi).T / n, lower=True)
    T = np.minimum(math.sqrt(n / 2) * np.linalg.norm(white, axis=0), CLIP)
    return T + rng.laplace(0, 2 * whitened_sensitivity(n, n, ROOT, ROOT**2, gamma, CLIP) / epsilon, T.shape)


def decided(T: Array) -> bool:
    """Whether the first of some statistics is among the largest."""
    return bool((1 + (T[1:] >= T[0]).sum()) / len(T) <= ALPHA)


def moments(rng: Rng, x: Array, y: Array, epsilon: float, apart: bool = False) -> dict[str, float]:
    """P-values of the moments test of kernel values of two samples, in one place, and of two parties."""
    n, m, J = len(x), len(y), x.shape[1]
    v, noise = np.vstack([x, y]) - 0.5, noise_scales("me", J, n, m).scaled_by(unit_scale(epsilon, DELTA))
    d = x.mean(axis=0) - y.mean(axis=0) + noise.difference * rng.standard_normal(J)
    u = v.mean(axis=0) + noise.pooled * rng.standard_normal(J)
    S = v.T @ v / (n + m) + symmetric(rng, noise.diagonal, J)
    told = {"moments": contrast_test(Contrast(d, u, S, noise, (n, m), (n, m))).pvalue}
    if not apart:
        return told
    own, parties = noise_scales("me", J, n).scaled_by(unit_scale(epsilon, DELTA)), []
    for part in (v[:n], v[n:]):
        mean = part.mean(axis=0) + own.difference * rng.standard_normal(J)
        parties.append(Party(mean, part.T @ part / n + symmetric(rng, own.diagonal, J), own, n))
    return {**told, "local moments": parties_test(parties).pvalue}


@tables.add("data, n", "not private", *BOUNDS)
def kernel_power(runs: int = 200) -> Rows:
    """Rejections at 5%; half the runs at n = 2,000, a fifth at 10,000, and five times as many of blobs."""
    quicker()
    tests = [("not private", math.inf), *((method, epsilon) for method in BOUNDS for epsilon in EPSILONS)]
    for place, (name, (_, first, second)) in enumerate(DESIGNS.items()):
        for n, few in ((500, runs), (2000, -(-runs // 2)), (10_000, -(-runs // 5))):
            rng, said, times = np.random.default_rng([2019, place, n]), [], 5 * few if "blobs" in name else few
            (phi_of, columns), (few_of, _) = (located(name, "nystrom", points) for points in (200, 30))
            located_of, _ = located(name, "me", 5, mapped=False)
            gammas = {epsilon: ridge_for(2 * n, ROOT, min(0.05 * epsilon, 0.1)) for epsilon in EPSILONS}
            for _ in range(times):
                rows = np.vstack([first(rng, n), second(rng, n)])
                phi, small, v = (features(each, columns, rows) for each in (phi_of, few_of, located_of))
                found, labels = separation(phi, n, n), relabelled(n, PERMUTATIONS, rng)
                T = np.linalg.norm(labels @ phi, axis=1) / n
                told = {("not private", math.inf): decided(T)}
                for epsilon in EPSILONS:
                    told["mmd", epsilon] = measured(found, n, n, epsilon, rng).pvalue <= ALPHA
                    told["permutation", epsilon] = decided(T + rng.laplace(0, 2 * ROOT / n / epsilon, T.shape))
                    told["whitened", epsilon] = decided(whitened(rng, small, labels, epsilon, gammas[epsilon]))
                    for method, p in moments(rng, v[:n], v[n:], epsilon, apart=True).items():
                        told[method, epsilon] = p <= ALPHA
                said.append([told[test] for test in tests])
            rates = np.mean(said, axis=0)
            for (method, epsilon), found_rate in zip(tests, rates, strict=True):
                most = BOUNDS.get(method, ALPHA)
                if name in {"SG", "blobs, null"} and found_rate > most + 3 * math.sqrt(most * (1 - most) / times):
                    problem(f"{name}, {n}, {method} at {epsilon}: {found_rate}")
            plain, *private = (f"{each:.2f}" for each in rates)
            yield f"{name}, {n}", plain, *(" ".join(private[i : i + 3]) for i in range(0, len(private), 3))


if __name__ == "__main__":
    tables.main()
