"""Experiments of Vepakomma, Pushpita and Raskar (2021), private distance correlation of two parties.

    python tests/benchmarks/papers/vepakomma2021.py tradeoff       # 5.1, 6, figures 3 (a) to (f), errors
    python tests/benchmarks/papers/vepakomma2021.py partitions     # 6.1, 6.2, figures 3 (g), 3 (h), 4 and 5
    python tests/benchmarks/papers/vepakomma2021.py omega          # 3.3.1, the release of Ω(X, X)

Of the eight data sets Boston housing and white wine are read from the folder that ``DFPRIVACY_TEST_DATA`` names
(``housing.csv``, ``winequality-white.csv``); Madelon is made by scikit-learn, which has its recipe. The others are
replaced by tables of the same shape: five hidden causes, of which each column is a straight or bent function with
noise. Columns are scaled to [0, 1] by their extremes, as in the paper; bounds from the data are no public bounds.

``unsafe_noise`` is the paper's own: it protects one attribute of a row, not the row.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))

from results import read, recorded

from dfprivacy import Column
from dfprivacy._table.batch import Batch, number
from dfprivacy.local import Arc
from dfprivacy_dcor.angles import PLACES, DistanceMessage, best_half_width
from dfprivacy_dcor.inference import NoisyStatistics
from dfprivacy_dcor.paper import ProjectionMessage, Projections, kenthapadi
from dfprivacy_dcor.parties import _angle_maps, _random_blocks
from dfprivacy_dcor.points import Points, five_numbers
from dfprivacy_dcor.spaces import metric_space, unit_vectors
from dfprivacy_dcor.statistics import FiveNumbers, largest_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

FOLDER = Path(os.environ.get("DFPRIVACY_TEST_DATA", ""))
PICTURES = Path(__file__).parents[3] / "docs/pictures/papers"
EPSILONS = (0.5, 1, 2, 5, 10)
DELTA = 1e-5
BLOCKS = 10
SHARE = 0.9  # of a message's epsilon, for its rows
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


def shaped(n: int, p: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Make a table of p columns that five hidden causes explain for the most part."""
    causes = rng.normal(size=(n, 5))
    mixed = causes @ rng.normal(size=(5, p)) / math.sqrt(5)
    bent = [mixed, np.tanh(2 * mixed), mixed**2, np.exp(mixed / 2)]
    which = rng.integers(len(bent), size=p)
    return np.stack([bent[k][:, j] for j, k in enumerate(which)], axis=1) + 0.5 * rng.normal(size=(n, p))


def halves(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
    """The X and Y of a data set, scaled to [0, 1], and where it is from."""
    n, p, of_x, source = TABLES[name]
    rng = np.random.default_rng(2021)
    whole, origin = shaped(n, p, rng), "same shape"
    if source == "make_classification":
        from sklearn.datasets import make_classification

        kinds = {"n_informative": 5, "n_redundant": 15, "n_clusters_per_class": 16, "random_state": 2003}
        whole, origin = make_classification(n, p, **kinds)[0], "its recipe"
    elif source and (FOLDER / source).is_file():
        whole, origin = np.loadtxt(FOLDER / source, delimiter=",")[:, :p], "itself"
    whole = (whole - whole.min(axis=0)) / np.ptp(whole, axis=0)
    return whole[:, :of_x], whole[:, of_x:], origin


def squared(
    x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
    """The five numbers, R² without bias, and both distance variances without bias."""
    five, n = five_numbers(Points(x), Points(y)), len(x)
    # from V- to U-statistics: S1, S2 and S3 follow from sums of rows, which pairs of blocks give
    sums = [
        np.concatenate([Points(z).distances(slice(at, at + 500)).sum(axis=1) for at in range(0, n, 500)])
        for z in (x, y)
    ]

    def unbiased(v: float, one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
        s2, s3 = one @ other, one.sum() * other.sum()
        s1 = n**2 * (v + 2 * s2 / n**3 - s3 / n**4)
        return (s1 - 2 * s2 / (n - 2) + s3 / ((n - 1) * (n - 2))) / (n * (n - 3))

    pairs = [(sums[0], sums[1]), (sums[0], sums[0]), (sums[1], sums[1])]
    u = np.array([unbiased(v**2, *pair) for v, pair in zip(five[:3], pairs, strict=True)])
    return five, float(u[0] / math.sqrt(u[1] * u[2])), u[1:]


def unsafe_noise(directions: NDArray[np.float64], epsilon: float) -> float:
    """The paper's scale of noise: for one attribute of a row that moves by its width. It does not protect rows."""
    return kenthapadi(epsilon, DELTA) * float(np.abs(directions).max())


def row_noise(columns: tuple[Column, ...], directions: NDArray[np.float64], epsilon: float) -> float:
    """The same formula for a row that may change in all columns."""
    statistic = Projections(columns, directions, np.zeros(4, dtype=np.int64), split=True)
    return kenthapadi(epsilon, DELTA) * statistic.sensitivity("replace_one", 2, frozenset())


def columns_of(x: NDArray[np.float64]) -> tuple[Column, ...]:
    """Columns between 0 and 1."""
    return tuple(Column(f"x{at}", bounds=(0.0, 1.0), fill=0.5) for at in range(x.shape[1]))


def projections(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    scale: Callable[[NDArray[np.float64]], float],
    count: int,
    rng: np.random.Generator,
    *,
    split: bool,
) -> float:
    """Ω(X, Y) by equation (4), or (3), from noisy projections."""
    n, p = x.shape
    units = unit_vectors(count, p, int(rng.integers(1 << 30)))
    turns = rng.permutation(np.arange(n) % count)
    plain = (x * units[turns]).sum(axis=1, keepdims=True) if split else x @ units.T
    sigma = scale(units)
    message = ProjectionMessage(
        projections=plain + sigma * rng.normal(size=plain.shape),
        turns=turns if split else np.zeros(n, dtype=np.int64),
        directions=units,
        scale=max(sigma, 1e-12),
        columns=tuple(map(str, range(p))),
        rows=n,
        keys=None,
        deviation=1.0,
        deviation_scale=1.0,
    )
    return float(message.covariances(y, 0, rng)[0])


def angles(x: NDArray[np.float64], y: NDArray[np.float64], epsilon: float, rng: np.random.Generator) -> float:
    """Ω(X, Y) from noisy angles, as `dcor_message` writes them."""
    n, p = x.shape
    columns = columns_of(x)
    arc = Arc.within(Fraction(SHARE * epsilon), places=PLACES, reach=best_half_width(SHARE * epsilon))
    units = unit_vectors(BLOCKS, p, int(rng.integers(1 << 30)))
    turns = _random_blocks(n, 1, BLOCKS, rng)
    length = 0.5 / math.sqrt(p / 6)  # projections of many columns crowd in the middle of their bounds
    maps, whose = _angle_maps(columns, units, np.ones(BLOCKS, dtype=np.intp), length, turns, None)
    batch = Batch(n, {number(column): x[:, at] for at, column in enumerate(columns)})
    places = np.choose(whose, [each.rows(batch) for each in maps])
    message = DistanceMessage(
        columns=tuple(column.name for column in columns),
        rows=n,
        turns=turns.astype(np.int64),
        directions=units,
        deviation=1.0,
        deviation_scale=1.0,
        keys=None,
        angles=arc.moved(places, rng.integers(0, arc.weight, n)),
        harmonics=(1,) * BLOCKS,
        length=length,
        places=PLACES,
        reach=arc.reach,
        inside=arc.inside,
        outside=arc.outside,
    )
    return float(message.covariances(y, 0, rng)[0])


def central(x: NDArray[np.float64], y: NDArray[np.float64], five: NDArray[np.float64]) -> Callable[..., float]:
    """R² within one table, as `dcor` gives it."""
    columns = columns_of(x), tuple(Column(f"y{at}", bounds=(0.0, 1.0), fill=0.5) for at in range(y.shape[1]))
    one, other = (metric_space(each, "euclidean") for each in columns)
    n = len(x)
    weights = FiveNumbers(one, other, n).weights
    values = five - [0, 0, 0, one.diameter, other.diameter]
    most = largest_values(one, other)

    def estimate(epsilon: float, rng: np.random.Generator) -> float:
        scales = 1 / (weights * epsilon)
        noisy = values + rng.laplace(size=5) * scales
        return NoisyStatistics((*noisy, 1.0), (*scales, 0.0), n, most).corrected

    return estimate


def clipped(covariance: float, variances: NDArray[np.float64]) -> float:
    """R² from a covariance and exact variances, which flatters all of the paper's estimates."""
    return min(max(covariance / math.sqrt(variances[0] * variances[1]), 0.0), 1.0)


METHODS = ("(4), noise for an attribute: unsafe", "(4), noise for a row", "noisy angles", "`dcor`, one table")


def methods(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, dict[str, Callable[[float], float]]]:
    """R² of a table, and a draw of each estimate of it."""
    five, truth, variances = squared(x, y)
    columns, within, rng = columns_of(x), central(x, y, five), np.random.default_rng(5)

    def by_row(units: NDArray[np.float64], epsilon: float) -> float:
        return row_noise(columns, units, epsilon)

    def papers(noise: Callable[[NDArray[np.float64], float], float], epsilon: float) -> float:
        return clipped(projections(x, y, partial(noise, epsilon=epsilon), BLOCKS, rng, split=True), variances)

    draws: tuple[Callable[[float], float], ...] = (
        partial(papers, unsafe_noise),
        partial(papers, by_row),
        lambda epsilon: clipped(angles(x, y, epsilon, rng), variances),
        lambda epsilon: within(epsilon, rng),
    )
    return truth, dict(zip(METHODS, draws, strict=True))


def tradeoff(runs: int, names: list[str]) -> None:
    """Error of R² against ε, on each table: mean, least and largest."""
    heads = ["data", "rows, columns", "from", "R²", "method", *(f"ε = {each:g}" for each in EPSILONS)]
    with recorded("vepakomma2021_tradeoff", *heads, keep=len(names) == len(TABLES)) as row:
        for name in names:
            x, y, origin = halves(name)
            truth, draws = methods(x, y)
            shape = f"{len(x)}, {x.shape[1] + y.shape[1]}"
            for method, draw in draws.items():
                errors = [np.abs([draw(e) - truth for _ in range(runs)]) for e in EPSILONS]
                cells = (f"{each.mean():.3f} ({each.min():.3f} to {each.max():.3f})" for each in errors)
                row(name, shape, origin, f"{truth:.3f}", method, *cells)


def partitions(runs: int) -> None:
    """Mean and spread of both estimators, by the number of projections, for one total ε."""
    x, y, _ = halves("Skill craft")
    _, truth, variances = squared(x, y)
    columns, rng = columns_of(x), np.random.default_rng(6)

    def by_row(units: NDArray[np.float64], epsilon: float) -> float:
        return row_noise(columns, units, epsilon) if epsilon else 0.0

    heads = ["estimator", "K", *(f"ε = {each:g}" if each else "no noise" for each in (0, *EPSILONS))]
    with recorded("vepakomma2021_partitions", *heads) as row:
        row("all rows, without projections", "", f"{truth:.3f}", *[""] * len(EPSILONS))
        for split, title in ((False, "(3), all rows each time"), (True, "(4), disjoint blocks")):
            for count in (1, 3, 7, 20):
                cells = []
                for epsilon in (0, *EPSILONS):
                    noise = partial(by_row, epsilon=epsilon if split else epsilon / count)  # (3) composes
                    estimates = [projections(x, y, noise, count, rng, split=split) for _ in range(runs)]
                    drawn = [clipped(each, variances) for each in estimates]
                    cells.append(f"{np.mean(drawn):.3f} ± {np.std(drawn, ddof=1):.3f}")
                row(title, count, *cells)


def omega(runs: int) -> None:
    """Relative error of Ω(X, X): by the paper's bound of HSIC, by that of HSIC which is proved, and by its root."""
    heads = ["data", "rows", "Ω(X, X)/D²", "noise for", *(f"ε = {each:g}" for each in EPSILONS)]
    rng = np.random.default_rng(7)
    with recorded("vepakomma2021_omega", *heads) as row:
        for name in TABLES:
            x, _, _ = halves(name)
            n, noise = len(x), rng.laplace(size=runs)
            root = float(five_numbers(Points(x), Points(x))[1]) / math.sqrt(x.shape[1])
            squares = (("(12n − 11)/(n − 1)²", (12 * n - 11) / (n - 1) ** 2), ("2/(n − 1), proved", 2 / (n - 1)))
            for title, sensitivity in squares:
                errors = [np.mean(np.abs(noise)) * sensitivity / e / root**2 for e in EPSILONS]
                row(name, n, f"{root**2:.5f}", title, *(f"{each:.2%}" for each in errors))
            found = [np.maximum(root + noise * 2 * (n - 1) / n**2 / e, 0) ** 2 for e in EPSILONS]
            errors = [np.mean(np.abs(each - root**2)) / root**2 for each in found]
            row(name, n, f"{root**2:.5f}", "2(n − 1)/n², of the root", *(f"{each:.2%}" for each in errors))


def picture() -> None:
    """Draw the errors of the table, a panel for each data set."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams |= {
        "svg.fonttype": "none",
        "svg.hashsalt": "dfprivacy",
        "font.family": "sans-serif",
        "font.size": 8,
        **dict.fromkeys(
            ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), "#808080"
        ),
    }  # a grey that is read on light and on dark
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(9.5, 4.6), sharex=True, sharey=True, layout="constrained")
    lines = read("vepakomma2021_tradeoff")["rows"]
    for ax, name in zip(axes.flat, TABLES, strict=True):
        for method, style in zip(METHODS, ("s:", "^--", "o-", "D-"), strict=True):
            (cells,) = (line for line in lines if line[0] == name and line[4] == method)
            parts = [
                tuple(map(float, cell.replace("(", "").replace(")", "").replace("to ", "").split()))
                for cell in cells[5:]
            ]
            means = [mean for mean, *_ in parts]
            (drawn,) = ax.plot(EPSILONS, means, style, ms=3.5, label=method.replace("`", ""))
            ax.fill_between(
                EPSILONS, [p[1] for p in parts], [p[2] for p in parts], alpha=0.12, color=drawn.get_color()
            )
        ax.set(
            xscale="log", title=f"{name} ({cells[2]})", xticks=EPSILONS, xticklabels=[f"{e:g}" for e in EPSILONS]
        )
        ax.axhline(float(cells[3]), color="grey", lw=0.8, ls=":")
        ax.minorticks_off()
    for ax in axes[-1]:
        ax.set_xlabel("ε")
    figure.supylabel("error of R²")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    PICTURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURES / "vepakomma2021.svg", transparent=True, metadata={"Date": None})


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=["tradeoff", "partitions", "omega", "picture"])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="tables of tradeoff, and keep no result")
    asked = parser.parse_args()
    if asked.experiment == "tradeoff":
        tradeoff(asked.runs, asked.only or list(TABLES))
    if asked.experiment in {"tradeoff", "picture"} and not asked.only:
        picture()
    if asked.experiment == "partitions":
        partitions(asked.runs)
    if asked.experiment == "omega":
        omega(40 * asked.runs)


if __name__ == "__main__":
    main()
