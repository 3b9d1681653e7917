"""Coverage of the intervals of proportions and of survival curves, and levels and powers of the survival test.

    python tests/benchmarks/inference_coverage.py shares
    python tests/benchmarks/inference_coverage.py curves
    python tests/benchmarks/inference_coverage.py survival

Noise is numpy's continuous Laplace; the conclusions are those of the methods. Times follow a Weibull law of shape
1.3 and scale 420, and are censored evenly between 200 and 1,020.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np
from levels_ranks import Exact, private, public
from results import recorded

from dfprivacy.inference.counts import NoisyCounts, difference, odds_ratio, ratio, share, share_of
from dfprivacy.inference.engine import infer
from dfprivacy.laws import NoiseLaw
from dfprivacy_inference.curves import Curve

SIZES = ((50, 50), (200, 200), (1000, 100), (5000, 5000))
SHARES = ((0.3, 0.2), (0.05, 0.05), (0.005, 0.02), (0.95, 0.6))
EPSILONS = (0.1, 0.5, 2.0)
DRAWS = 256  # of the exact counts, a fourth of those of the method


def of_two(parameter: Any) -> Any:
    """Return a parameter of the first and the second group."""
    return lambda each: parameter(each[0], each[1])


def shares(runs: int) -> None:
    """Cover the truth by the 95% intervals of a share, a difference, a risk ratio and an odds ratio."""
    rng = np.random.default_rng(31)
    names = ("share", "difference", "ratio", "odds")
    parameters = (lambda each: share(each[0]), *(of_two(each) for each in (difference, ratio, odds_ratio)))
    backs = (share_of, np.positive, np.exp, np.exp)
    found = {}
    for known, sizes, (p, q), epsilon in itertools.product((False, True), SIZES, SHARES, EPSILONS):
        b, n = (1 if known else 2) / epsilon, np.array(sizes, dtype=float)
        hits = rng.binomial(sizes, (p, q), (runs, 2))
        exact = hits[..., None] if known else np.stack([hits, n - hits], axis=-1)
        noisy = exact + rng.laplace(0, b, exact.shape)
        sums = NoisyCounts(noisy, [NoiseLaw(b)] * exact.shape[-1], *((n, "hits") if known else (None, "counts")))
        truths = (p, p - q, p / q, p / (1 - p) * (1 - q) / q)
        for name, parameter, back, truth in zip(names, parameters, backs, truths, strict=True):
            low, high = map(back, infer(sums, parameter, DRAWS).interval())
            found.setdefault((known, epsilon), []).append((name, ((low <= truth) & (truth <= high)).mean()))
    with recorded("inference_shares", "groups", "ε", *names) as row:
        for (known, epsilon), every in sorted(found.items()):
            cells = ([rate for each, rate in every if each == name] for name in names)
            shown = (f"{np.mean(rates):.3f} ({min(rates):.3f} to {max(rates):.3f})" for rates in cells)
            row("public" if known else "private", f"{epsilon:g}", *shown)


def times(rng: np.random.Generator, n: int, ratio: np.ndarray | float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Draw times and whether they are an event's; the hazard is multiplied by `ratio`."""
    event, end = rng.weibull(1.3, n) * 420 * np.power(ratio, -1 / 1.3), rng.uniform(200, 1020, n)
    return np.minimum(np.minimum(event, end), 999.99), event <= end


def curves(runs: int) -> None:
    """Cover a curve by its 95% bands at four times, its median and its restricted mean."""
    rng = np.random.default_rng(41)
    with recorded(
        "inference_curves",
        "rows",
        "intervals",
        "ε",
        "at 200, 300, 500 and 700",
        "median",
        "restricted mean",
        "width at 500",
    ) as row:
        for n, intervals, epsilon in (
            (228, 10, 1.0),
            (500, 10, 1.0),
            (500, 10, 0.5),
            (2000, 20, 1.0),
            (20_000, 20, 0.5),
        ):
            edges = np.linspace(0, 1000, intervals + 1)
            truth = np.exp(-((edges[1:] / 420) ** 1.3))
            fine = np.linspace(0, 1000, 100_001)
            median, mean = 420 * np.log(2) ** (1 / 1.3), np.trapezoid(np.exp(-((fine / 420) ** 1.3)), fine)
            at = np.searchsorted(edges[1:], (200, 300, 500, 700))
            covered, widths = np.zeros((runs, 6)), np.zeros(runs)
            for run in range(runs):
                t, event = times(rng, n)
                place = np.clip(np.searchsorted(edges, t) - 1, 0, intervals - 1)
                lived = (t - edges[place]) / np.diff(edges)[place]
                parts = (event, ~event * lived, ~event * (1 - lived))
                exact = np.stack([np.bincount(place, each, intervals) for each in parts])
                curve = Curve(exact + rng.laplace(0, 2 / epsilon, exact.shape), NoiseLaw(2 / epsilon), edges)
                low, high = curve.bands(0.95)
                covered[run, :4] = ((low <= truth) & (truth <= high))[at]
                covered[run, 4:] = [
                    lo <= value <= hi
                    for value, (_, lo, hi) in (
                        (median, curve.median(low, high)),
                        (mean, curve.restricted_mean(0.95)),
                    )
                ]
                widths[run] = (high - low)[at[2]]
            rates = covered.mean(axis=0)
            row(
                n,
                intervals,
                f"{epsilon:g}",
                ", ".join(f"{rate:.3f}" for rate in rates[:4]),
                *(f"{rate:.3f}" for rate in rates[4:]),
                f"{np.median(widths):.2f}",
            )


def gehan(t: np.ndarray, event: np.ndarray, first: int) -> tuple[float, float]:
    """Give the rank sum of the first rows, of times without ties, and its variance times 12/(n(n² - 1))."""
    n, order = len(t), np.argsort(t)
    event, of_first = event[order], order < first
    one = first - np.cumsum(of_first) + of_first  # at risk
    two = n - np.arange(n) - one
    spread = 3 * float(one[event] @ two[event]) / (n * (n**2 - 1))
    return (one[event & ~of_first].sum() - two[event & of_first].sum()) / 2, spread


def survival(runs: int) -> None:
    """Levels and powers of the survival test."""
    rng = np.random.default_rng(51)
    with recorded(
        "inference_survival", "rows", "first group", "ε", "hazard ratio", "private groups", "public groups"
    ) as row:
        for n, share, epsilon, ratio in (
            (50, 0.5, 1.0, 1.0),
            (228, 0.5, 1.0, 1.0),
            (2000, 0.5, 0.5, 1.0),
            (1000, 0.2, 1.0, 1.0),
            (228, 0.5, 1.0, 1.6),
            (500, 0.5, 1.0, 1.6),
            (2000, 0.5, 0.5, 1.3),
            (1000, 0.2, 1.0, 1.5),
        ):
            first = round(share * n)
            hazard = np.where(np.arange(n) < first, 1.0, ratio)
            sums, ones = np.empty((2, runs)), np.ones(runs)
            for run in range(runs):
                sums[:, run] = gehan(*times(rng, n, hazard), first)
            exact = Exact(sums[0], first * ones, (n - first) * ones, sums[1], (first, n - first))
            rates = [
                (release(rng, exact, epsilon, spread="variance").effect().pvalue(0.5) <= 0.05).mean()
                for release in (private, public)
            ]
            row(n, f"{share:.0%}", f"{epsilon:g}", f"{ratio:g}", *(f"{rate:.3f}" for rate in rates))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("shares", "curves", "survival"))
    parser.add_argument("--runs", type=int, default=1000)
    asked = parser.parse_args()
    {"shares": shares, "curves": curves, "survival": survival}[asked.what](asked.runs)
