"""What Tong, Xi, Kantarcioglu and Inan (2017) compute and draw, measured.

    python tests/benchmarks/tong2017.py tong_table1

Experiment 4 takes the Adult table (`real.py`). Experiment 3 takes the shape of the Parkinson table, which is not
here, and class parameters from the breast cancer table of scikit-learn. Noise is simulated, or seeded: nothing here
is private. What begins with ``unsafe_`` is printed in the paper, and costs more than it says.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
from classes import NUMBERS, cells, missed, ours, plain, unsafe_scalars
from designs import designs
from harness import GREY, Array, Ints, Rng, Rows, Tables, draw, problem
from harness import read as kept
from levels import Seen, by_range, exact_sums, judge, rates, tested, true_mean, worst
from real import ADULT, read
from scipy.special import stdtrit

from dfprivacy.inference.engine import infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.laws import NoiseLaw
from dfprivacy_ttest import exact_power, exact_size
from dfprivacy_ttest.parameters import classical_inference, mean_parameter

tables = Tables(__doc__)
Classes = tuple[Array, list[Array], list[Array]]  # priors, means, covariances
EPSILONS, SIZES = (0.2, 0.4, 0.6, 0.8, 1.0), (50, 100, 200, 300, 400)
Test = tuple[Any, float, float | None]  # the test, the standard deviation, rows of the second for each of the first
TESTS: dict[str, Test] = {
    "a": ("one-sample-z", 0.5, None),
    "b": ("one-sample-t", 0.4, None),
    "c": ("pooled-t", 0.35, 1.0),
    "d": ("pooled-t", 0.2, 1.1),
}
COLOURS = {"a": "#d0342c", "b": "#2f7fd1", "c": "#c94fb0", "d": "#2e9e5b"}
PRINTED = """
.3177 .1542 .1011 .0794 .0689 .3805 .2109 .1373 .1023 .0841 .4645 .2576 .1612 .1157 .0924 .4977 .3748 .2726 .1975 .1518
.2251 .1070 .0762 .0647 .0594 .2953 .1415 .0935 .0746 .0657 .3609 .1673 .1057 .0815 .0701 .4944 .2920 .1844 .1319 .1039
.1542 .0794 .0631 .0573 .0546 .2035 .0968 .0711 .0618 .0575 .2472 .1108 .0774 .0653 .0597 .4066 .1976 .1236 .0922 .0744
.1239 .0697 .0587 .0548 .0531 .1606 .0813 .0639 .0578 .0549 .1936 .0907 .0681 .0601 .0564 .3376 .1557 .1001 .0714 .0602
.1070 .0647 .0565 .0536 .0523 .1363 .0734 .0603 .0559 .0537 .1627 .0805 .0634 .0575 .0542 .2917 .1320 .0871 .0613 .0549
"""  # noqa: E501


# Table 1, Figures 1 to 5


def arguments(part: str, n: int) -> dict[str, Any]:
    """The standard deviation of a test of Table 1, and the rows of its second sample."""
    _, sd, ratio = TESTS[part]
    return {"sigma": sd} if ratio is None else {"sigma": sd, "n2": round(ratio * n)}


def simulated(rng: Rng, part: str, n: int, epsilon: float, runs: int) -> float:
    """How often the textbook test rejects a true hypothesis, given a positive noisy variance."""
    test, sd, _ = TESTS[part]
    sizes = [n, *([arguments(part, n)["n2"]] if test == "pooled-t" else [])]
    means = [rng.normal(0, sd / np.sqrt(m), runs) + rng.laplace(0, 1 / (m * epsilon), runs) for m in sizes]
    if test == "one-sample-z":
        return float(np.mean(np.abs(means[0]) > 1.959963984540054 * sd / np.sqrt(n)))
    squares = [
        sd**2 * rng.chisquare(m - 1, runs) + (m - 1) * rng.laplace(0, 1 / (m * epsilon), runs) for m in sizes
    ]
    df = sum(sizes) - len(sizes)
    variance = sum(squares) / df
    error = np.sqrt(np.where(variance > 0, variance, np.nan) * sum(1 / m for m in sizes))
    t = (means[0] - means[1] if len(means) > 1 else means[0]) / error
    return float(np.mean(np.abs(t[variance > 0]) > -stdtrit(df, 0.025)))


def figures() -> None:
    """Draw Figure 1, type I errors, and Figures 2 to 5: a row of panels for each n, a column for each epsilon."""
    sizes, shifts, panels = range(50, 401, 25), np.linspace(0, 0.4, 33), dict[str, list[Any]]()
    for part, (test, *_) in TESTS.items():
        for epsilon, width in zip(EPSILONS, (0.7, 1.0, 1.4, 1.8, 2.3), strict=True):
            errors = [exact_size(test, n, epsilon, **arguments(part, n)) for n in sizes]
            named = {"color": COLOURS[part], "lw": width, "label": f"ε = {epsilon:g}"}
            panels.setdefault(f"({part}) {test}", []).append((sizes, errors, "-", named))
    asked = {"columns": 2, "level": 0.05, "ylim": (0, 0.6)}
    draw("papers/tong2017_type1", (7.5, 5), panels, x="n", y="type I error", **asked)
    panels = {}
    for n, epsilon, (part, (test, *_)) in itertools.product((50, 100, 200, 400), (0.2, 0.6, 1.0), TESTS.items()):
        beta = [1 - exact_power(test, n, epsilon, shift=float(each), **arguments(part, n)) for each in shifts]
        named = {"color": COLOURS[part], "label": f"({part}) {test}"}
        panels.setdefault(f"n = {n}, ε = {epsilon:g}", []).append((shifts, beta, "-", named))
    away = "true mean, or difference, away from the hypothesis"
    draw("papers/tong2017_type2", (8, 9), panels, columns=3, x=away, y="type II error", legend=2, ylim=(0, 1))


@tables.add("test", "n", *(f"ε = {e:g}: printed, exact, simulated" for e in EPSILONS), draw=figures)
def tong_table1(runs: int = 100_000) -> Rows:
    """Table 1: as printed, by formula, by simulation; its pictures are Figures 1 to 5."""
    rng = np.random.default_rng(1)
    told = np.array(PRINTED.split(), dtype=float).reshape(len(SIZES), len(TESTS), len(EPSILONS))
    for at, (part, (test, *_)) in enumerate(TESTS.items()):
        for n, given in zip(SIZES, told[:, at], strict=True):
            shown = []
            for epsilon, paper in zip(EPSILONS, given, strict=True):
                exact, drawn = (
                    exact_size(test, n, epsilon, **arguments(part, n)),
                    simulated(rng, part, n, epsilon, runs),
                )
                if abs(exact - drawn) > 5 * np.sqrt(exact * (1 - exact) / (runs / 2)):
                    problem(f"{part}, {n}, {epsilon}: {exact:.4f} is not {drawn:.4f}")
                shown.append(f"{paper:.4f}, {exact:.4f}, {drawn:.4f}")
            yield part, n, *shown


# The t-test by what is asked

WAYS = ("as printed: ȳ and S² apart, textbook", "separately, naive", "separately", "jointly, naive", "jointly")


def rejected(rng: Rng, n: int, epsilon: float, shift: float, runs: int) -> list[float]:
    """How often one-sample tests of normal samples in [0, 1] reject at 5%, at the same price ε in all.

    Given that the noisy variance is positive, as the paper counts.
    """
    y = 2 * np.clip(rng.normal(0.5 + shift, 0.15, (runs, n)), 0, 1) - 1
    total, squares = y.sum(axis=1), np.square(y).sum(axis=1)

    def noise(scale: float) -> Array:
        return rng.laplace(0, scale, runs)

    def released(total: Array, squares: Array, *scales: float) -> NoisyMoments:
        values = np.stack([total, squares], axis=-1)[:, None]
        return NoisyMoments(values, [NoiseLaw(scale) for scale in scales], np.full((runs, 1), float(n)))

    first, second = (4 / epsilon, 2 / epsilon), (2 / epsilon, 4 / epsilon)
    separate = released(total + noise(first[0]), squares + noise(first[1]), *first)
    joint = released(total + noise(second[0]), squares + noise(second[1]), *second)
    mean = total / n + noise(4 / epsilon) / n  # 2/n at ε/2
    variance = (squares - total**2 / n) / (n - 1) + noise(8 / epsilon) / n  # 4/n at ε/2
    printed = released(n * mean, (n - 1) * variance + n * mean**2, 4 / epsilon, 0.0)
    asked = [(classical_inference, printed)]
    asked += [(way, sums) for sums in (separate, joint) for way in (classical_inference, infer)]
    with np.errstate(invalid="ignore"):
        every = [way(sums, mean_parameter(1)).pvalue(0.0) for way, sums in asked]
    return [float(np.mean(p[~np.isnan(p)] <= 0.05)) for p in every]


@tables.add("n", "ε in all", "exact_size", *WAYS)
def tong_queries(runs: int = 5000) -> Rows:
    """Level / power of the t-test, by what is asked."""
    rng = np.random.default_rng(3)
    for n in (100, 400, 2000):
        for epsilon in (0.2, 1.0, 4.0):
            shift = 2.8 * 0.15 / np.sqrt(n) + 4 / (epsilon * n)
            level, power = (rejected(rng, n, epsilon, each, runs) for each in (0.0, shift))
            exact = exact_size("one-sample-t", n, epsilon / 2, sigma=0.15)
            both = (f"{a:.3f} / {b:.3f}" for a, b in zip(level, power, strict=True))
            yield n, f"{epsilon:g}", f"{exact:.3f}", *both


@tables.add("test", "ε", "designs", "0.05", "0.01", "0.001", "worst at 0.05", "noted")
def tong_levels(runs: int = 400) -> Rows:
    """Levels of ``ttest(queries="separately")``, on designs drawn at random."""
    rng, found = np.random.default_rng(15), defaultdict[str, list[Seen]](list)
    for design in designs():
        exact = exact_sums(rng, design, runs)
        moved = (1.0, 1.0, 1.0) if design.neighbors == "add_remove" else (2.0, 1.0, 1.0)
        scales = [3 * each / design.epsilon for each in moved]
        values = exact + np.array(scales) * rng.laplace(size=exact.shape)
        both = NoisyMoments(values, [NoiseLaw(scale) for scale in scales], form="apart")
        first = replace(both, values=values[:, :1])
        for test, sums, null in (("one sample", first, true_mean(design)), ("two samples", both, 0.0)):
            found[test].append(judge(test, tested(sums, null, design, "two-sided")))
    for test, every in sorted(found.items()):
        for name, of in by_range(every):
            yield test, name, len(of), *rates(of), worst(of), f"{np.mean([one.noted for one in of]):.0%}"


# Classes


def parameters() -> dict[str, Classes]:
    """Priors, means and covariances of the classes of Experiments 3 and 4, in units of standard deviations."""
    from sklearn.datasets import load_breast_cancer

    def of_classes(priors: Any, X: Array, y: Any) -> Classes:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        return priors, [X[y == k].mean(axis=0) for k in (0, 1)], [np.cov(X[y == k].T) for k in (0, 1)]

    table, adult = load_breast_cancer(), read("adult.csv", ADULT)
    known = np.array([0.7538, 0.2462])
    found = {"3: 21 columns": of_classes(known, table.data[:, :21], 1 - table.target)}  # as many as Parkinson's
    if adult is not None:
        rich = (adult["income"] == ">50K").to_numpy(int)
        found["4: Adult"] = of_classes(np.bincount(rich) / len(rich), adult[list(NUMBERS)].to_numpy(float), rich)
    return found


def drawn(rng: Rng, truth: Classes, rows: int) -> tuple[Array, Ints]:
    """Rows of two normal classes, those beyond six standard deviations thrown away, and their labels."""
    priors, means, covariances = truth
    y = (rng.random(rows) < priors[1]).astype(int)
    X, near = np.empty((rows, len(means[0]))), np.ones(rows, dtype=bool)
    for k in (0, 1):
        X[y == k] = rng.multivariate_normal(means[k], covariances[k], int((y == k).sum()), method="eigh")
        near[y == k] = ~(np.abs(X[y == k] - means[k]) > 6 * np.sqrt(np.diag(covariances[k]))).any(axis=1)
    return X[near], y[near]


def bounds_of(truth: Classes) -> dict[str, tuple[float, float]]:
    """Bounds that hold both classes to six standard deviations, as the paper cuts them: public in its setting."""
    _, means, covariances = truth
    sds = [np.sqrt(np.diag(covariance)) for covariance in covariances]
    low = np.min([m - 6 * sd for m, sd in zip(means, sds, strict=True)], axis=0)
    high = np.max([m + 6 * sd for m, sd in zip(means, sds, strict=True)], axis=0)
    return {f"x{i}": ends for i, ends in enumerate(zip(low.tolist(), high.tolist(), strict=True))}


def curves() -> None:
    """Draw Figures 6 to 9: errors by rows, of the table that `classes.py` keeps."""
    told = kept("gmm_experiments")
    paper, fit, none = map(told["columns"].index, ("paper, ε a scalar", "gmm_fit, ε in all", "no privacy"))
    for method in ("lda", "qda"):
        panels: dict[str, list[Any]] = {}
        for d, (epsilon, colour) in itertools.product(("2", "5", "10"), COLOURS_OF.items()):
            rows = [row for row in told["rows"] if [row[0], row[1], row[3]] == [method, d, epsilon]]
            kinds = [(paper, "--", f"paper, ε = {epsilon}", colour), (fit, "-", f"gmm_fit, ε = {epsilon}", colour)]
            kinds += [(none, ":", "no privacy", GREY)] * (epsilon == "1")
            for at, style, label, color in kinds:
                line = [int(row[2]) for row in rows], [float(row[at].split()[0]) for row in rows]
                panels.setdefault(f"{d} columns", []).append((*line, style, {"color": color, "label": label}))
        draw(f"papers/tong2017_{method}", (8.5, 3), panels, x="n", y="error", xscale="log", ylim=(0, 0.55))


COLOURS_OF = dict(zip(("0.05", "0.3", "0.6", "1"), COLOURS.values(), strict=True))


@tables.add(
    *("experiment", "n", "ε", "as printed, ε a scalar", "one by one, ε in all", "gmm_fit, ε in all"),
    *("gmm_fit, lda", "no privacy"),
    draw=curves,
)
def tong_classes(runs: int = 5) -> Rows:
    """Experiments 3 and 4: errors of quadratic classes; its pictures are Figures 6 to 9, of `gmm_experiments`."""
    epsilon = 0.6
    for name, truth in parameters().items():
        bounds = bounds_of(truth)
        radius = 0.3 * np.sqrt(len(bounds))  # half a width is six standard deviations, and more
        for n in (1000, 10_000, 50_000):
            errors = []
            for run in range(runs):
                rng = np.random.default_rng([run, n, len(bounds)])
                rows, test = drawn(rng, truth, n), drawn(rng, truth, 20_000)
                asked = ("qda", {"queries": "separately"}), ("qda", {"radius": radius}), ("lda", {"radius": radius})
                printed = unsafe_scalars(rng, *rows, "qda", epsilon)
                fits = [ours(*rows, bounds, method, epsilon, run, **how) for method, how in asked]
                errors.append(missed(test, printed, *fits, plain(*rows, "qda")))
            yield name, n, f"{epsilon:g}", *cells(errors)


# What is printed and costs more


@tables.add("as printed", "neighbouring tables", "what is released", "loss")
def tong_broken() -> Rows:
    """Neighbouring tables on which what is printed costs more than ε."""
    told = "mean 0 without noise; mean 0.25 with noise of scale 1/(4ε)"
    where = "x = 0, 0, 0, 0 and x = 0, 0, 0, 1"
    yield "noise by the range of the data", where, told, "∞: the first table never gives another number than 0"
    told, where = "shares 1/2, 1/2; shares 1/4, 3/4", "labels a, a, b, b and a, b, b, b"
    yield "shares of the classes without noise", where, told, "∞: they are told apart with certainty"
    x = np.array([0.0, 0.0, 0.0, 1.0])
    moves = f"the mean moves by {x.mean():g} and the variance by {x.var(ddof=1):g}, each by its sensitivity 1/4"
    where = "x = 0, 0, 0, 0 and x = 0, 0, 0, 1, known to be in [0, 1]"
    yield "ε for the mean, and ε for the variance", where, moves, "2ε"
    for d in (2, 10):
        X = np.vstack([np.zeros((3, d)), np.ones(d)])
        moved = 4 * (X.mean(axis=0).sum() + np.abs(np.cov(X.T)[np.triu_indices(d)]).sum())
        what = f"{d + d * (d + 1) // 2} scalars, each moved by its sensitivity 1/4"
        where = "four rows of zeros, and one of them all ones"
        yield f"ε for each scalar, {d} columns in [0, 1]", where, what, f"{moved:g}ε"


if __name__ == "__main__":
    tables.main()
