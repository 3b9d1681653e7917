"""Power of private tests of 2 x 2 tables, family-wise errors of tests of many, beside tests without privacy.

    python tests/benchmarks/chi2_power.py                      # all three tables
    python tests/benchmarks/chi2_power.py --tables many --repetitions 300

Prints and keeps Markdown tables of rejection rates at the nominal 5%. A cell whose distance from a reference value
(an exact sum over all tables, or an independent simulation) is beyond chance is marked with *, and the exit status
is 1. Noise is numpy's continuous Laplace instead of the library's discrete one: fine here, where nothing is
private.

The baselines live here only. Input perturbation adds noise to the counts of both groups and takes the difference
of their shares; output perturbation adds noise to chi² itself, whose sensitivity is
N²/(N1 N0) (1 - 1/(max(N1, N0) + 1)). Their critical values are quantiles of simulated nulls.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from results import recorded
from scipy.special import chdtrc, chdtri

from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import MARGIN_SHARE, ROWS_TO_CALIBRATE
from dfprivacy_chi2.inference import SignedDifference
from dfprivacy_chi2.laws import binomial_law
from dfprivacy_chi2.nulls import MissingRowsNull
from dfprivacy_chi2.tables import chi2_statistic, paper_sensitivity, tight_sensitivity, unit_circle_norm

ALPHA = 0.05
TAU = float(chdtri(1, ALPHA))
NULL_DRAWS = 1_000_000

# Power at N1 = N0 = N/2, share 0.3 in the second group and d more in the first: N, epsilon, d, chi² without
# privacy, and for each method the power where the pooled share is known / where it is not.
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

# N1 = N0, base share, epsilon, d, then level and power where p is unknown of: difference, signed (a simulation of
# 40,000 with another correction for the noisy total), circle, circle of the paper.
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
UNKNOWN = ("difference", "signed", "circle", "circle, paper")
TABLES = 1000  # of the signed test, whose law takes a millisecond


@dataclass(frozen=True)
class Variant:
    """A test of many tables by the sparse vector technique."""

    name: str
    statistic: Literal["circle, paper", "circle", "difference"]
    level: float
    of_paper: bool  # its noise, drawn again for the threshold after each rejection; else the library's, drawn once
    ignored: bool = False  # the noise of the threshold is left out of the null law
    reference: str = ""  # error if no column differs, findings at d = 0.1, at d = 0.2; epsilon 0.5 | epsilon 1


SIZE, COLUMNS, REJECTIONS = 2500, 100, 5
EACH = ALPHA / COLUMNS
TAU_MANY = float(chdtri(1, EACH))
MANY = (
    Variant("circle of the paper, α, threshold noise ignored: as printed", "circle, paper", ALPHA, True, True,
            "0.940 2.18 2.58 | 0.972 2.67 2.70"),
    Variant("circle of the paper, α/K, threshold noise ignored", "circle, paper", EACH, True, True,
            "0.057 0.15 3.61 | 0.060 2.18 4.95"),
    Variant("circle of the paper, α/K", "circle, paper", EACH, True, False, "0.044 0.06 3.17 | 0.045 1.87 4.97"),
    Variant("circle, α/K, noise of the paper", "circle", EACH, True, False, "0.032 0.42 4.89 | 0.047 4.21 4.96"),
    Variant("circle, α/K", "circle", EACH, False, False, "0.044 3.18 4.98 | 0.043 4.94 4.96"),
    Variant("difference, α/K, noise of the paper", "difference", EACH, True, False,
            "0.046 0.68 4.90 | 0.046 4.68 4.97"),
    Variant("**difference, α/K**: `chi2_many`", "difference", EACH, False, False,
            "0.030 4.07 4.96 | 0.053 4.95 4.96"),
)  # fmt: skip

Draw = tuple[np.ndarray, np.ndarray]


# One table: what each method compares with which critical value.


def noisy(rng, method, counts: Draw, n1: int, n0: int, epsilon: float) -> np.ndarray:
    """Return noisy statistics of tables."""
    c11, c10 = counts
    n, lap = n1 + n0, lambda scale: rng.laplace(0, scale, c11.shape)
    if method == "output":
        sensitivity = n * n / (n1 * n0) * (1 - 1 / (max(n1, n0) + 1))
        return chi2_statistic(c11, c10, n1, n0) + lap(sensitivity / epsilon)
    if method == "input":
        return np.abs((c11 + lap(1 / epsilon)) / n1 - (c10 + lap(1 / epsilon)) / n0)
    if method.startswith("circle"):
        return unit_circle_norm(c11, c10, n1, n0, TAU) + lap(circle_sensitivity(method, n1, n0) / epsilon)
    difference, noise = c11 / n1 - c10 / n0, lap(1 / (min(n1, n0) * epsilon))
    return np.abs(difference + noise) if method == "signed" else np.abs(difference) + noise


def circle_sensitivity(method: str, n1: int, n0: int, tau: float = TAU) -> float:
    """Return the sensitivity of the norm."""
    return (paper_sensitivity if "paper" in method else tight_sensitivity)(n1, n0, tau)


@cache
def critical(method: str, n1: int, n0: int, epsilon: float, p: float | None) -> float:
    """Return the critical value at a share, or at all."""
    if method == "difference":
        law = binomial_law(lambda c, d: np.abs(c / n1 - d / n0), n1, n0, p or 0.5, p or 0.5)
        return law.critical_value(ALPHA, 1 / (min(n1, n0) * epsilon))
    if method.startswith("circle"):
        scale = circle_sensitivity(method, n1, n0) / epsilon
        return nulls.norm_null(n1, n0, TAU, p).critical_value(ALPHA, scale)
    rng = np.random.default_rng(7)
    found = []
    for share in (p,) if p is not None else (0.5,) if method != "output" else (0.05, 0.3, 0.5):
        counts = rng.binomial(n1, share, NULL_DRAWS), rng.binomial(n0, share, NULL_DRAWS)
        found.append(float(np.quantile(noisy(rng, method, counts, n1, n0, epsilon), 1 - ALPHA)))
    return max(found)


def rate(hits: np.ndarray) -> float:
    """Return a rejection rate."""
    return float(np.mean(hits))


class Judge:
    """Writes numbers beside their references, and remembers what is beyond chance."""

    def __init__(self) -> None:
        self.compared = self.off = 0

    def __call__(self, found: float, expected: float, runs: int, slack: float = 0.0) -> str:
        """Write a rate; mark it where it is not the reference within 4 standard errors and its rounding."""
        spread = math.sqrt(max(expected * (1 - expected), 1 / runs) / runs)
        wrong = abs(found - expected) > 4 * spread + 0.0015 + slack
        self.compared += 1
        self.off += wrong
        return f"{found:.3f}{'*' * wrong}"


def one_table(rng, runs: int, judge: Judge) -> None:
    """Print the power of tests of one table."""
    print(f"Power, N1 = N0 = N/2, shares 0.3 + d and 0.3, {runs:,} tables a row: pooled share known / unknown.\n")
    with recorded("chi2_power", "N", "ε", "d", "χ², no privacy", *METHODS) as row:
        for line in ONE_TABLE.strip().splitlines():
            design, *cells = line.split("|")
            size, epsilon, d, plain = map(float, design.split())
            n1 = n0 = int(size) // 2
            counts = rng.binomial(n1, 0.3 + d, runs), rng.binomial(n0, 0.3, runs)
            shown = [judge(rate(chi2_statistic(*counts, n1, n0) > TAU), plain, runs)]
            for method, cell in zip(METHODS, cells, strict=True):
                statistics = noisy(rng, method, counts, n1, n0, epsilon)
                both = []
                for p, expected in zip((0.3 + d / 2, None), map(float, cell.split("/")), strict=True):
                    found = rate(statistics > critical(method, n1, n0, epsilon, p))
                    both.append(judge(found, expected, runs))
                shown.append(" / ".join(both))
            row(int(size), f"{epsilon:g}", f"{d:.4f}", *shown)


def private_share(rng, runs: int, judge: Judge) -> None:
    """Print level and power where nothing is known of the share."""
    print(f"\nNothing known of the share, N1 = N0 = n, {runs:,} tables: level at the base share / power at d.\n")
    with recorded("chi2_power_unknown", "n", "base", "ε", "d", "χ², no privacy", *UNKNOWN) as row:
        for line in PRIVATE_SHARE.strip().splitlines():
            design, cells = line.split("|")
            size, base, epsilon, d = map(float, design.split())
            n = int(size)
            tables = [(rng.binomial(n, base + more, runs), rng.binomial(n, base, runs)) for more in (0, d)]
            shown = [" / ".join(f"{rate(chi2_statistic(*counts, n, n) > TAU):.3f}" for counts in tables)]
            for method, cell in zip(UNKNOWN, cells.split(), strict=True):
                rates = [unknown(rng, method, counts, n, epsilon) for counts in tables]
                if method == "signed":  # other corrections than the reference's: beside it, not against it
                    shown.append(f"{rates[0]:.3f} / {rates[1]:.3f} (reference {cell})")
                    continue
                pairs = zip(rates, map(float, cell.split("/")), strict=True)
                shown.append(" / ".join(judge(*pair, runs, 0.003) for pair in pairs))
            row(n, f"{base:g}", f"{epsilon:g}", f"{d:.4f}", *shown)


def unknown(rng, method: str, counts: Draw, n: int, epsilon: float) -> float:
    """Return the rejection rate of a method that knows nothing of the share."""
    if method != "signed":
        return rate(noisy(rng, method, counts, n, n, epsilon) > critical(method, n, n, epsilon, None))
    measured = 2 * n * epsilon >= ROWS_TO_CALIBRATE
    of_margins = epsilon * float(MARGIN_SHARE) if measured else 0.0
    scale, margin_scale = 1 / (epsilon - of_margins), 1 / of_margins if measured else 0.0
    hits = []
    for c, d in zip(*(each[:TABLES] for each in counts), strict=True):
        margins = tuple(np.array([c + d - n, 0.0, 0.0]) + rng.laplace(0, margin_scale, 3)) if measured else ()
        released = c - d + rng.laplace(0, scale)
        test = SignedDifference((n, n), released, scale, margins, margin_scale, omitted=not measured)
        hits.append(test.pvalue <= ALPHA)
    return rate(np.array(hits))


# Many tables.


def many(rng, repetitions: int, judge: Judge) -> None:
    """Print family-wise errors and true findings of tests of many tables."""
    print(
        f"\n{COLUMNS} tables with N1 = N0 = {SIZE}, {REJECTIONS} rejections paid for, shares from 0.05 to 0.5 and "
        f"public, {repetitions:,} repetitions:\nfamily-wise error at the nominal 5% if no column differs; true "
        "findings of 5 if five columns differ by d.\n"
    )
    heads = (f"ε = {epsilon}" for epsilon in ("0.5", "1"))
    columns = [each for head in heads for each in (f"{head}: error", "d = 0.1", "d = 0.2")]
    with recorded("chi2_power_many", "test", *columns) as row:
        row("χ² at α/K, no privacy", *2 * plain_many(rng, repetitions))
        for variant in MANY:
            shown = []
            for epsilon, reference in zip((0.5, 1.0), variant.reference.split("|"), strict=True):
                for d, expected in zip((0.0, 0.1, 0.2), map(float, reference.split()), strict=True):
                    false, true = sparse_vector(rng, variant, repetitions, epsilon, d)
                    # The references are simulations of 300 to 1000 repetitions themselves.
                    found = judge(rate(false > 0), expected, 300, 0.005) if d == 0 else None
                    shown.append(found or against(judge, float(true.mean()), expected))
            row(variant.name, *shown)


def against(judge: Judge, found: float, expected: float) -> str:
    """Write a mean number of findings, of which the reference has a standard error of 0.1 at most."""
    wrong = abs(found - expected) > 0.25
    judge.compared += 1
    judge.off += wrong
    return f"{found:.2f}{'*' * wrong}"


def tables_of_many(rng, repetitions: int, d: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw counts of repetitions x columns, their public pooled shares, and which differ."""
    p0 = rng.uniform(0.05, 0.5, (repetitions, COLUMNS))
    differ = np.argsort(rng.random(p0.shape), axis=1) < (5 if d else 0)
    p1 = p0 + d * differ
    return rng.binomial(SIZE, p1), rng.binomial(SIZE, p0), (p1 + p0) / 2, differ


def plain_many(rng, repetitions: int) -> list[str]:
    """Test without privacy."""
    found = []
    for d in (0.0, 0.1, 0.2):
        c11, c10, _, differ = tables_of_many(rng, repetitions, d)
        hit = chdtrc(1, chi2_statistic(c11, c10, SIZE, SIZE)) < EACH
        found.append(
            f"{rate(hit.any(axis=1)):.3f}" if d == 0 else f"{float((hit & differ).sum(axis=1).mean()):.2f}"
        )
    return found


def sparse_vector(rng, variant: Variant, repetitions: int, epsilon: float, d: float) -> Draw:
    """Return the numbers of false and of true rejections of each repetition."""
    circle = variant.statistic != "difference"
    sensitivity = circle_sensitivity(variant.statistic, SIZE, SIZE, TAU_MANY) if circle else 1 / SIZE
    if variant.of_paper:
        scales = 2 * REJECTIONS / epsilon * sensitivity, 4 * REJECTIONS / epsilon * sensitivity
    else:
        first = epsilon / (1 + (2 * REJECTIONS) ** (2 / 3))
        scales = sensitivity / first, 2 * REJECTIONS / (epsilon - first) * sensitivity
    shares, required = thresholds(circle, variant.level, scales[1:] if variant.ignored else scales)
    c11, c10, p, differ = tables_of_many(rng, repetitions, d)
    values = unit_circle_norm(c11, c10, SIZE, SIZE, TAU_MANY) if circle else np.abs(c11 - c10) / SIZE
    over = values + rng.laplace(0, scales[1], p.shape) - np.interp(p, shares, required)
    rho = rng.laplace(0, scales[0], repetitions)
    false, true = np.zeros(repetitions, dtype=int), np.zeros(repetitions, dtype=int)
    for k in range(COLUMNS):
        hit = (over[:, k] > rho) & (false + true < REJECTIONS)
        true += hit & differ[:, k]
        false += hit & ~differ[:, k]
        if variant.of_paper:
            rho = np.where(hit, rng.laplace(0, scales[0], repetitions), rho)
    return false, true


@cache
def thresholds(circle: bool, level: float, scales: tuple[float, ...]) -> Draw:
    """Return critical values on a grid of public shares."""
    shares = np.linspace(0.05, 0.6, 56)
    laws = [
        nulls.norm_null(SIZE, SIZE, TAU_MANY, float(p)) if circle else MissingRowsNull(SIZE, min(float(p), 0.5))
        for p in shares
    ]
    return shares, np.array([law.critical_value(level, *scales) for law in laws])


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=("one", "share", "many"), default=("one", "share", "many"))
    parser.add_argument("--runs", type=int, default=100_000, help="tables a row (default: 100,000)")
    parser.add_argument("--repetitions", type=int, default=2000, help="of tests of many tables (default: 2000)")
    parser.add_argument("--seed", type=int, default=2017)
    asked = parser.parse_args()
    rng, judge = np.random.default_rng(asked.seed), Judge()
    if "one" in asked.tables:
        one_table(rng, asked.runs, judge)
    if "share" in asked.tables:
        private_share(rng, asked.runs, judge)
    if "many" in asked.tables:
        many(rng, asked.repetitions, judge)
    print(f"\n{judge.compared} numbers compared with their references, {judge.off} beyond chance.")
    return int(judge.off > 0)


if __name__ == "__main__":
    sys.exit(main())
