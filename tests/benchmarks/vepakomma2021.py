"""Experiments and uses of Vepakomma, Pushpita and Raskar (2021), private distance correlation of two parties.

    python tests/benchmarks/vepakomma2021.py vepakomma2021_tradeoff --runs 8

Of the eight data sets Boston housing and white wine are read from the folder that ``DFPRIVACY_TEST_DATA`` names
(``housing.csv``, ``winequality-white.csv``); Madelon is made by scikit-learn, which has its recipe. The others are
replaced by tables of the same shape: five hidden causes, of which each column is a straight or bent function with
noise. Columns are scaled to [0, 1] by their extremes, as in the paper; bounds from the data are no public bounds.
Noise is NumPy's. ``unsafe_noise`` is the paper's own: it protects one attribute of a row, not the row.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from harness import DATA, GREY, Array, Rng, Rows, Tables, answers, draw, grouped, protected, read
from scipy.optimize import brentq

from dfprivacy import Column
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor.inference import NoisyStatistics
from dfprivacy_dcor.paper import ProjectionMessage, Projections, kenthapadi_scale
from dfprivacy_dcor.points import Line, Lines, Points, five_numbers, grid_bits, on_grid
from dfprivacy_dcor.spaces import metric_space, unit_vectors
from dfprivacy_dcor.statistics import FiveNumbers, largest_values

tables = Tables(__doc__)
EPSILONS, DELTA, BLOCKS = (0.5, 1, 2, 5, 10), 1e-5, 10
TABLES = {  # rows, columns, those of X, and the file where there is one
    "Naval propulsion": (11934, 15, 8, ""),
    "Parkinson": (5875, 24, 12, ""),
    "White wine": (4898, 11, 5, "winequality-white.csv"),
    "Boston housing": (506, 13, 6, "housing.csv"),
    "Madelon": (4400, 500, 250, "make_classification"),
    "Music": (1059, 116, 58, ""),
    "Skill craft": (3395, 19, 10, ""),
    "Seoul bikes": (8760, 13, 7, ""),
}


def halves(name: str) -> tuple[Array, Array, str]:
    """The X and Y of a data set, scaled to [0, 1], and where it is from."""
    n, p, of_x, source = TABLES[name]
    rng, origin = np.random.default_rng(2021), "same shape"
    mixed = rng.normal(size=(n, 5)) @ rng.normal(size=(5, p)) / math.sqrt(5)
    bent, which = [mixed, np.tanh(2 * mixed), mixed**2, np.exp(mixed / 2)], rng.integers(4, size=p)
    whole = np.stack([bent[k][:, j] for j, k in enumerate(which)], axis=1) + 0.5 * rng.normal(size=(n, p))
    if source == "make_classification":
        from sklearn.datasets import make_classification

        kinds = {"n_informative": 5, "n_redundant": 15, "n_clusters_per_class": 16, "random_state": 2003}
        whole, origin = make_classification(n, p, **kinds)[0], "its recipe"
    elif source and (DATA / source).is_file():
        whole, origin = np.loadtxt(DATA / source, delimiter=",")[:, :p], "itself"
    whole = (whole - whole.min(axis=0)) / np.ptp(whole, axis=0)
    return whole[:, :of_x], whole[:, of_x:], origin


def squared(x: Array, y: Array) -> tuple[Array, float, Array]:
    """The five numbers, R² without bias, and both distance variances without bias."""
    five, n, sums = five_numbers(Points(x), Points(y)), len(x), []
    # from V- to U-statistics: S1, S2 and S3 follow from sums of rows, which pairs of blocks give
    for z in (x, y):
        blocks = [Points(z).distances(slice(at, at + 500)).sum(axis=1) for at in range(0, n, 500)]
        sums.append(np.concatenate(blocks))

    def unbiased(v: float, one: Array, other: Array) -> float:
        s2, s3 = one @ other, one.sum() * other.sum()
        s1 = n**2 * (v + 2 * s2 / n**3 - s3 / n**4)
        return (s1 - 2 * s2 / (n - 2) + s3 / ((n - 1) * (n - 2))) / (n * (n - 3))

    pairs = [(sums[0], sums[1]), (sums[0], sums[0]), (sums[1], sums[1])]
    u = np.array([unbiased(v**2, *pair) for v, pair in zip(five[:3], pairs, strict=True)])
    return five, float(u[0] / math.sqrt(u[1] * u[2])), u[1:]


def unsafe_noise(directions: Array, epsilon: float) -> float:
    """The paper's scale of noise: for one attribute of a row that moves by its width. It does not protect rows."""
    return kenthapadi_scale(epsilon, DELTA) * float(np.abs(directions).max())


def row_noise(columns: tuple[Column, ...], directions: Array, epsilon: float) -> float:
    """The same formula for a row that may change in all columns; none without an epsilon."""
    if not epsilon:
        return 0.0
    statistic = Projections(columns, directions, np.zeros(4, dtype=np.int64), split=True)
    return kenthapadi_scale(epsilon, DELTA) * statistic.sensitivity("replace_one", 2, frozenset())


def columns_of(x: Array, name: str = "x") -> tuple[Column, ...]:
    """Columns between 0 and 1."""
    return tuple(Column(f"{name}{at}", bounds=(0.0, 1.0), fill=0.5) for at in range(x.shape[1]))


def projections(x: Array, y: Array, scale: Callable[[Array], float], count: int, rng: Rng, *, split: bool) -> float:
    """Ω(X, Y) by equation (4), or (3), from noisy projections."""
    n, p = x.shape
    units = unit_vectors(count, p, int(rng.integers(1 << 30)))
    turns = rng.permutation(np.arange(n) % count)
    exact = (x * units[turns]).sum(axis=1, keepdims=True) if split else x @ units.T
    sigma = scale(units)
    known = {"directions": units, "scale": max(sigma, 1e-12), "columns": tuple(map(str, range(p))), "rows": n}
    known |= {"keys": None, "deviation": 1.0, "deviation_scale": 1.0}
    turns = turns if split else np.zeros(n, dtype=np.int64)
    message = ProjectionMessage(projections=exact + sigma * rng.normal(size=exact.shape), turns=turns, **known)
    return float(message.covariances(y, 0, rng)[0])


def angles(x: Array, y: Array, epsilon: float, rng: Rng) -> float:
    """Ω(X, Y) from noisy angles, as `dcor_message` writes them."""
    p, names = x.shape[1], [each.name for each in columns_of(x)]
    view = protected(pd.DataFrame(x, columns=names), bounds=dict.fromkeys(names, (0, 1)))
    # projections of many columns crowd in the middle of their bounds
    said = {"harmonics": [1], "blocks": BLOCKS, "length": 0.5 / math.sqrt(p / 6), "epsilon": epsilon}
    with seeded_noise(int(rng.integers(1 << 30))):
        message = view.dcor_message(names, **said, seed=int(rng.integers(1 << 30)))
    return float(message.covariances(y, 0, rng)[0])


def central(x: Array, y: Array, five: Array, rng: Rng) -> Callable[[float], float]:
    """R² within one table, as `dcor` gives it."""
    one, other = metric_space(columns_of(x), "euclidean"), metric_space(columns_of(y, "y"), "euclidean")
    n, values = len(x), five - [0, 0, 0, one.diameter, other.diameter]
    weights, most = FiveNumbers(one, other, n).weights, largest_values(one, other)

    def estimate(epsilon: float) -> float:
        scales = 1 / (weights * epsilon)
        noisy = values + rng.laplace(size=5) * scales
        return NoisyStatistics((*noisy, 1.0), (*scales, 0.0), n, most).corrected

    return estimate


def clipped(covariance: float, variances: Array) -> float:
    """R² from a covariance and exact variances, which flatters all of the paper's estimates."""
    return min(max(covariance / math.sqrt(variances[0] * variances[1]), 0.0), 1.0)


METHODS = ("(4), noise for an attribute: unsafe", "(4), noise for a row", "noisy angles", "`dcor`, one table")


def picture() -> None:
    """Draw the errors of the table, a panel for each data set: means, and the least and the largest, dotted."""
    panels: dict[str, list[Any]] = {}
    styles = dict(zip(METHODS, (("C0", "s-"), ("C1", "^-"), ("C2", "o-"), ("C3", "D-")), strict=True))
    for name, size, _, truth, method, *cells in read("vepakomma2021_tradeoff")["rows"]:
        lines, (color, style) = panels.setdefault(f"{name} ({size})", []), styles[method]
        for at, drawn in enumerate(np.array([re.findall(r"[\d.]+", cell) for cell in cells], dtype=float).T):
            named = {"label": method.replace("`", ""), "ms": 3.5} if at == 0 else {"lw": 0.6}
            lines.append((EPSILONS, drawn, ":" if at else style, {"color": color, **named}))
        lines.append((EPSILONS, [float(truth)] * len(EPSILONS), ":", {"color": GREY, "lw": 0.8}))
    asked = {"columns": 4, "xscale": "log", "xticks": EPSILONS, "xticklabels": [f"{e:g}" for e in EPSILONS]}
    draw("papers/vepakomma2021", (9.5, 4.6), panels, x="ε", y="error of R²", **asked)


HEADS = tuple(f"ε = {each:g}" for each in EPSILONS)


@tables.add("data", "rows, columns", "from", "R²", "method", *HEADS, draw=picture)
def vepakomma2021_tradeoff(runs: int = 8) -> Rows:
    """Error of R² against ε, on each table: mean, least and largest."""
    for name in TABLES:
        x, y, origin = halves(name)
        (five, truth, variances), rng, columns = squared(x, y), np.random.default_rng(5), columns_of(x)
        noises: tuple[Callable[..., float], ...] = unsafe_noise, partial(row_noise, columns)
        draws: list[Callable[[float], float]] = [
            lambda e, f=noise, x=x, y=y, rng=rng: projections(x, y, partial(f, epsilon=e), BLOCKS, rng, split=True)
            for noise in noises
        ]
        draws.append(partial(angles, x, y, rng=rng))
        every = [lambda e, f=draw_, v=variances: clipped(f(e), v) for draw_ in draws] + [central(x, y, five, rng)]
        for method, ask in zip(METHODS, every, strict=True):
            errors = [np.abs([ask(e) - truth for _ in range(runs)]) for e in EPSILONS]
            cells = (f"{each.mean():.3f} ({each.min():.3f} to {each.max():.3f})" for each in errors)
            yield name, f"{len(x)}, {x.shape[1] + y.shape[1]}", origin, f"{truth:.3f}", method, *cells


@tables.add("estimator", "K", "no noise", *HEADS)
def vepakomma2021_partitions(runs: int = 12) -> Rows:
    """Mean and spread of both estimators, by the number of projections, for one total ε."""
    x, y, _ = halves("Skill craft")
    (_, truth, variances), columns, rng = squared(x, y), columns_of(x), np.random.default_rng(6)
    yield "all rows, without projections", "", f"{truth:.3f}", *[""] * len(EPSILONS)
    for split, title in ((False, "(3), all rows each time"), (True, "(4), disjoint blocks")):
        for count in (1, 3, 7, 20):
            cells = []
            for epsilon in (0, *EPSILONS):
                noise = partial(row_noise, columns, epsilon=epsilon if split else epsilon / count)  # (3) composes
                estimates = [projections(x, y, noise, count, rng, split=split) for _ in range(runs)]
                drawn = [clipped(each, variances) for each in estimates]
                cells.append(f"{np.mean(drawn):.3f} ± {np.std(drawn, ddof=1):.3f}")
            yield title, count, *cells


@tables.add("data", "rows", "Ω(X, X)/D²", "noise for", *HEADS)
def vepakomma2021_omega(runs: int = 400) -> Rows:
    """Relative error of Ω(X, X): by the paper's bound of HSIC, by that of HSIC which is proved, and by its root."""
    rng = np.random.default_rng(7)
    for name in TABLES:
        x, _, _ = halves(name)
        n, noise = len(x), rng.laplace(size=runs)
        root = float(five_numbers(Points(x), Points(x))[1]) / math.sqrt(x.shape[1])
        what = name, n, f"{root**2:.5f}"
        squares = (("(12n − 11)/(n − 1)²", (12 * n - 11) / (n - 1) ** 2), ("2/(n − 1), proved", 2 / (n - 1)))
        for title, sensitivity in squares:
            errors = [np.mean(np.abs(noise)) * sensitivity / e / root**2 for e in EPSILONS]
            yield *what, title, *(f"{each:.2%}" for each in errors)
        found = [np.maximum(root + noise * 2 * (n - 1) / n**2 / e, 0) ** 2 for e in EPSILONS]
        errors = [np.mean(np.abs(each - root**2)) / root**2 for each in found]
        yield *what, "2(n − 1)/n², of the root", *(f"{each:.2%}" for each in errors)


# Uses: k samples

X, Y = (metric_space((Column(name, bounds=(0.0, 1.0), fill=0.5),), "euclidean") for name in "xy")
DIFFERENCES: dict[str, Callable[[Any, Array], Array]] = {
    "no difference": lambda group, z: z,
    "no difference, heavy tails": lambda group, z: np.sign(z) * z**2 / 2,
    "means 0, 0.2, 0.4": lambda group, z: z + 0.2 * group,
    "means 0, 0.5, 1": lambda group, z: z + 0.5 * group,
    "spreads 1, 1.5, 2": lambda group, z: z * (1 + 0.5 * group),
    "one hump, or two": lambda group, z: np.where(group == 0, z, np.sign(z) * 0.9 + 0.43 * (np.abs(z) - 0.8)),
}


@tables.add("rows", "groups differ by", "ε = 0.2", "ε = 0.5", "ε = 1", "ε = 2")
def vepakomma2021_samples(runs: int = 2000) -> Rows:
    """How often `dcor` of a value and its group rejects, at 5 %, of 3 groups."""
    sizes = ((200, 200, 200), (100, 400, 1500), (2000, 2000, 2000))
    for of, (kind, made) in itertools.product(sizes, DIFFERENCES.items()):
        rng, group, hits, at_once = np.random.default_rng(3), np.repeat(np.arange(3), of), np.zeros(4), 100
        for start in range(0, runs, at_once):
            xs = [made(group, rng.normal(size=len(group))) for _ in range(min(at_once, runs - start))]
            frames = [pd.DataFrame({"x": x, "g": group}) for x in xs]
            view = grouped(frames, bounds={"x": (-5, 5)}, categories={"g": [0, 1, 2]})
            with seeded_noise(start):
                for at, epsilon in enumerate((0.2, 0.5, 1, 2)):
                    hits[at] += sum(
                        each.pvalue <= 0.05 for each in answers(view, "dcor", "x", "g", epsilon=epsilon)
                    )
        yield ", ".join(map(str, of)), kind, *(f"{share:.3f}" for share in hits / runs)


# Uses: the direction of a cause


def released(x: Array, y: Array, epsilon: float, rng: Rng) -> NoisyStatistics:
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
        (_, x, y, *_), (noise, *room) = self.numbers.values, self.numbers.scales
        x, y = max(x, 2 * room[0]), max(y, 2 * room[1])
        return math.sqrt(2 * noise**2 / (x * y) + 1 / self.numbers.rows + (self.fit / (8 * y)) ** 2)


def left(x: Array, y: Array, epsilon: float, rng: Rng) -> Left:
    """Fit y on x by noisy means of 20 groups on one half; measure what is left, and x, on the other half."""
    half, groups = len(x) // 2, np.minimum((20 * x).astype(int), 19)
    counts = np.maximum(np.bincount(groups[:half], minlength=20), 1)
    sums = np.bincount(groups[:half], y[:half], minlength=20)
    # of a mean by group the library's noise has about this scale: half of epsilon a table, and sums with sizes
    scales = np.minimum(1.6 / (epsilon / 2 * counts), 0.5)
    means = sums / counts + rng.laplace(size=20) * scales
    rest = y[half:] - np.interp(x[half:], (np.arange(20) + 0.5) / 20, np.clip(means, 0, 1))
    fit = math.sqrt(np.average(2 * scales**2, weights=counts))
    return Left(released(x[half:], 2 * rest + 0.5, epsilon / 2, rng), 2 * fit)  # a quarter of the width around 0


def models(n: int, rng: Rng) -> dict[str, tuple[Array, Array]]:
    """Tables of known direction, x → y, and of none."""

    def scaled(z: Array, reach: float) -> Array:
        return np.clip(z / (2 * reach) + 0.5, 0, 1)

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


@tables.add("rows", "y is", *(f"ε = {e}: {what}" for e in (1, 2, 5) for what in ("x → y", "y → x", "open")))
def vepakomma2021_causes(runs: int = 40) -> Rows:
    """How often the direction is told right and wrong, by 3 standard errors."""
    for n in (2000, 10_000, 50_000):
        rng = np.random.default_rng(4)
        every = [models(n, rng) for _ in range(runs)]
        for name in every[0]:
            cells = []
            for epsilon in (1, 2, 5):
                told = []
                for x, y in (each[name] for each in every):
                    forth, back = left(x, y, epsilon, rng), left(y, x, epsilon, rng)
                    gap = back.numbers.correlation - forth.numbers.correlation
                    told.append(gap / math.hypot(forth.error, back.error))
                forward, backward = np.mean(np.array(told) > 3), np.mean(np.array(told) < -3)
                cells += [f"{each:.0%}" for each in (forward, backward, 1 - forward - backward)]
            yield f"{n:,}", name, *cells


# Uses: the correlation of a Gaussian copula


def squared_of(rho: float) -> float:
    """R² of two normal variables of this correlation (Székely, Rizzo and Bakirov 2007, Theorem 7)."""
    top = rho * math.asin(rho) + math.sqrt(1 - rho**2) - rho * math.asin(rho / 2) - math.sqrt(4 - rho**2) + 1
    return top / (1 + math.pi / 3 - math.sqrt(3))


def correlation_of(square: float) -> float:
    """The absolute correlation of two normal variables of this R²."""
    return float(brentq(lambda rho: squared_of(rho) - min(max(square, 0.0), 1.0), 0.0, 1.0))


@tables.add("rows", "correlation", "seeded with", "ε = 0.5", "ε = 1", "ε = 2", "ε = 5")
def vepakomma2021_copula(runs: int = 40) -> Rows:
    """Root mean squared error of the copula's correlation, from R and from the correlation of normal scores."""
    for n, rho in ((n, rho) for n in (2000, 10_000) for rho in (0.0, 0.3, 0.6, 0.9)):
        rng, errors = np.random.default_rng(5), np.empty((2, 4, runs))
        for run in range(runs):
            z = rng.normal(size=(2, n))
            x, y = (np.clip(each, -3, 3) for each in (z[0], rho * z[0] + math.sqrt(1 - rho**2) * z[1]))
            view = protected(pd.DataFrame({"x": x, "y": y}), bounds={"x": (-3, 3), "y": (-3, 3)})
            for at, epsilon in enumerate((0.5, 1, 2, 5)):
                numbers = released(x / 6 + 0.5, y / 6 + 0.5, epsilon, rng)
                found = view.corr(["x", "y"], epsilon=epsilon, fresh=True)
                errors[:, at, run] = correlation_of(numbers.corrected) - rho, float(found.estimates[0][1]) - rho
        for title, of in zip(("R", "their correlation"), errors, strict=True):
            yield f"{n:,}", rho, title, *(f"{np.sqrt(np.mean(np.square(each))):.3f}" for each in of)


if __name__ == "__main__":
    tables.main()
