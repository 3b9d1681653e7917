"""From a noisy embedding to weighted points: reference values, optimality, and what one row moves."""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.features import Fourier, Nystrom, ProductKernel, gaussian_frequencies, spread
from dfprivacy.testing import seeded_noise
from dfprivacy_kme.embedding import Space
from dfprivacy_kme.fitting import absolute, hull_projection, shrunk, simplex
from dfprivacy_kme.mechanisms import Closeness

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from expansion import Expansion

COLUMNS = tuple(dp.Column(name, bounds=(0.0, 200.0)) for name in "xy")
KERNEL = ProductKernel(COLUMNS, 100.0)  # gamma = 5e-5
ROWS = np.array([[90, 110], [100, 95], [120, 105], [80, 80]], dtype=float)
POINTS = np.array([[100, 100], [50, 100], [100, 150], [100, 100]], dtype=float)
SUBSPACE = Nystrom(KERNEL, POINTS, 1e-10)
SPACE = Space.from_kernel(SUBSPACE, KERNEL)
PSI = SPACE.features(POINTS)
ALPHA = SPACE.features(ROWS).mean(axis=0)
NOISY = ALPHA + np.array([0.03, -0.02, 0.05])


def distance(weights):
    """Distance in the kernel's space of the weighted points from the rows."""
    K, across, own = KERNEL(POINTS, POINTS), KERNEL(POINTS, ROWS).mean(axis=1), KERNEL(ROWS, ROWS).mean()
    return np.sqrt(own - 2 * weights @ across + weights @ K @ weights)


def test_reference_values():
    """The posterior mean, which far from its sample is the embedding itself; and the weights of Theorem 11."""
    far = np.random.default_rng(3).normal(size=(200, 5)) * 0.1, np.full(5, 0.5)  # another population

    assert shrunk(PSI, NOISY, 0.03).tolist() == pytest.approx([0.987450473544, 0.014098106, 0.036132661], abs=1e-8)
    assert np.linalg.norm(shrunk(*far, 1e-3) - far[1]) < 1e-2
    for most, objective, total in ((1.0, -1.02502483504, 1.0), (1.5, -1.02544568295, 1.02175742)):
        u = absolute(PSI, NOISY, 1e-15, most)
        assert (u @ PSI) @ (u @ PSI) - 2 * u @ PSI @ NOISY == pytest.approx(objective, abs=1e-8)
        assert np.abs(u).sum() == pytest.approx(total, abs=1e-7)


FREE = [0.96620967, 0.05849389, -0.04044126, 0], [0.93991819, 0.01596949, 0.06586974, 0]
CLOSEST = [0.93601325, 0.06398675, 0], [0.938711, 0.00569445, 0.0555947]


@pytest.mark.parametrize(
    ("beta", "free", "away", "closest", "at_least"),
    [
        (ALPHA, FREE[0], 0.02066023785, CLOSEST[0], 0.03003683454),
        (NOISY, FREE[1], 0.06501419405, CLOSEST[1], 0.056543589),
    ],
    ids=["exact", "noisy"],
)
def test_reference_weights(beta, free, away, closest, at_least):
    """Algorithm 1's, and those of the closest distribution, in which two equal points share their weight."""
    weights, found = np.append(SUBSPACE.map.T @ beta, 0.0), simplex(PSI, beta, 1e-15)

    assert weights.tolist() == pytest.approx(free, abs=1e-7)
    assert distance(weights) == pytest.approx(away, abs=1e-8)
    assert [found[0] + found[3], found[1], found[2]] == pytest.approx(closest, abs=3e-7)
    assert distance(found) == pytest.approx(at_least, abs=1e-8)


@pytest.mark.parametrize("size", [1, 3, 40])
def test_no_distribution_is_closer(size):
    """The gap to every point's direction is within what was asked, whatever the embedding."""
    rng = np.random.default_rng(size)
    psi = rng.normal(size=(size, 6))
    for length in (0.0, 0.5, 1e3):
        beta = length * rng.normal(size=6)

        w = simplex(psi, beta, 1e-9)

        gradient = psi @ (w @ psi - beta)
        assert w.sum() == pytest.approx(1.0)
        assert (w >= 0).all()
        assert w @ gradient - gradient.min() <= 1e-9 + 1e-9 * max(1, length)


@pytest.mark.parametrize("columns", [1, 4])
def test_the_reduced_set_is_the_closest_with_absolute_weights_up_to_one(columns):
    """By the optimality condition: no point anywhere has a feature that goes further against what is left."""
    asked = [dp.Column(f"x{i}", bounds=(0.0, 1.0)) for i in range(columns)]
    features = Fourier(asked, gaussian_frequencies(np.full(columns, 0.5), 60)).features
    rng = np.random.default_rng(4)
    beta = features(rng.beta(2, 5, (500, columns))).mean(axis=0) + 0.05 * rng.standard_normal(120)

    points, w = hull_projection(features, spread(asked, 1024), beta, 1e-9, asked, signed=True)
    rest = w @ features(points) - beta
    anywhere = features(rng.uniform(0, 1, (20_000, columns))) @ rest

    assert np.abs(w).sum() == pytest.approx(1, abs=1e-9)
    assert w @ (features(points) @ rest) + np.abs(anywhere).max() < 2e-3 * float(beta @ beta)  # 0 at the least


def test_two_subspaces_have_their_common_points():
    """The maps to the span of the common points give its coordinates of any row, and have orthonormal rows."""
    fine, coarse = (
        Space.from_kernel(Nystrom(KERNEL, spread(COLUMNS, count), tolerance), KERNEL)
        for count, tolerance in ((64, 1e-9), (48, 1e-3))
    )
    rows = np.random.default_rng(1).uniform(0, 200, (50, 2))

    space, first, second = fine.common_subspace(coarse)

    assert 4 < len(space) <= len(coarse) < len(fine)
    for each, to_common in ((fine, first), (coarse, second)):
        assert each.features(rows) @ to_common.T == pytest.approx(space.features(rows), abs=1e-6)
        assert to_common @ to_common.T == pytest.approx(np.eye(len(space)), abs=1e-6)


@pytest.mark.parametrize(
    ("dimension", "degree", "expected"), [(2, 20, 0.9650192507112481), (5, 7, 0.9736588800187369)]
)
def test_reference_norms_of_the_papers_tables(dimension, degree, expected):
    """The squared norm of the embedding of rows of ten clusters, in the exact basis; by all pairs."""
    rng = np.random.default_rng([dimension, 0])
    means = 100 + np.sqrt(200) * rng.standard_normal((10, dimension))
    shares = 1 / np.arange(1, 11)
    of = rng.choice(10, 100_000, p=shares / shares.sum())
    rows = (means[of] + np.sqrt(30) * rng.standard_normal((100_000, dimension)))[:20_000]
    columns = [dp.Column(f"x{i}", bounds=(0.0, 200.0)) for i in range(dimension)]
    basis = Expansion(ProductKernel(columns, np.sqrt(dimension / 2e-4)), degree)

    mean = sum(basis.features(part).sum(axis=0) for part in np.array_split(rows, 50)) / len(rows)

    assert mean @ mean == pytest.approx(expected, rel=1e-11 if dimension == 2 else 1e-8)


# How far one row moves an embedding

X = dp.Column("x", bounds=(-3.0, 1.5), fill=-0.75)
FAR = dp.Column("far", bounds=(1e16, 1e16 + 4), fill=1e16)  # four floats wide
G = dp.Column("g", categories=("a", "b", "c"))
OTHER = dp.Column("o", categories=("a", "other"), other=True)
MIXTURES = {
    "number": [X],
    "numbers": [X, FAR],
    "number and category": [X, G],
    "public number, category": [replace(X, public=True), G],
    "number, public category": [X, replace(G, public=True)],
    "public number, number, other": [replace(X, public=True), FAR, OTHER],
}


def maps(columns, width):
    """The feature maps that such columns may have, at a lengthscale of so many half widths."""
    numbers = [column for column in columns if column.bounds]
    kernel = ProductKernel(columns, {column.name: width * column.half for column in numbers}, 0.3)
    yield Nystrom(kernel, spread(kernel.columns, 24), 1e-10)
    if len(numbers) == len(columns):
        yield Fourier(columns, gaussian_frequencies(kernel.lengthscales, 16))


@pytest.mark.parametrize(("width", "norm"), [(0.3, 2), (1.0, 2), (30.0, 2), (1.0, 1)])
@pytest.mark.parametrize("mixture", MIXTURES)
def test_no_row_moves_an_embedding_more(search, mixture, width, norm):
    """Public columns beside private ones, narrow kernels and wide ones, rows of no category and of others."""
    columns = MIXTURES[mixture]

    most = [search(columns, 1).features(asked, norm, tries=3, steps=80) for asked in maps(columns, width)]

    assert max(most) <= 1 + 1e-6  # the rounding of a vector has a step of its own
    assert norm == 1 or max(most) > 0.6


# The exponential mechanism, section 3.4


def closeness(size, *anchors):
    points = np.array(anchors)[:, None]
    return Closeness(Nystrom(ProductKernel([dp.Column("x", bounds=(0.0, 100.0))], 30.0), points), points, size, ())


def test_scores_are_distances_of_embeddings():
    """All tables of so many rows are scored, by their distance in the kernel's space."""
    scores, rows = closeness(2, 10.0, 50.0, 90.0), np.array([[10.0], [10.0], [50.0], [90.0]])
    found = scores.value(np.append(scores.psi.features(rows).sum(axis=0), 4.0))
    w = np.repeat([1 / 4, -1 / 2], [4, 2])

    assert [tuple(each) for each in scores.places] == list(itertools.combinations_with_replacement(range(3), 2))
    for places, score in zip(scores.places, found, strict=True):
        points = np.vstack([rows, np.array([[10.0], [50.0], [90.0]])[places]])
        expected = -4 * math.sqrt(max(0.0, w @ scores.psi.kernel(points, points) @ w))
        assert score == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_no_row_moves_a_score_by_more(relation):
    """Rows that change, come and go, beside tables of every kind; some come near the claim."""
    scores, rng = closeness(3, 0.0, 35.0, 60.0, 100.0), np.random.default_rng(0)
    claim, most = scores.sensitivity(relation, math.inf, frozenset()), 0.0
    for _ in range(400):
        rows = rng.choice([0.0, 100.0, rng.uniform(0, 100)], (rng.integers(1, 40), 1))
        after = rng.choice([0.0, 100.0, rng.uniform(0, 100)], (1, 1))
        tables = rows, np.vstack([rows[1:], after]) if relation == "replace_one" else rows[1:]
        one, two = (scores.value(np.append(scores.psi.features(t).sum(axis=0), len(t))) for t in tables)
        most = max(most, float(np.abs(one - two).max()))

    assert 0.9 * claim < most <= claim * (1 + 1e-9)


@pytest.mark.statistical
def test_the_choice_is_as_close_as_is_said():
    """The distance is above the least by more than the bound in 5% of cases at most."""
    n, points = 2000, np.linspace(5, 95, 7)
    x = np.clip(np.random.default_rng(8).normal(60, 12, n), 0, 100)
    scores = closeness(2, *points)
    exact = scores.value(np.append(scores.psi.features(x[:, None]).sum(axis=0), float(n))) / n
    by_places = dict(zip(map(tuple, scores.places), exact, strict=True))
    bound = 2 * math.sqrt(2) * math.log(len(exact) / 0.05) / (0.02 * n)
    view = dp.protect(pd.DataFrame({"x": x}), "choice", epsilon=1, bounds={"x": (0, 100)}, ledger="memory:")
    asked = {"points": {"x": points.tolist()}, "n_rows": 2, "lengthscale": 30.0, "epsilon": 0.02, "fresh": True}
    above = []
    with seeded_noise(9):
        for _ in range(40):
            found = view.kme_exponential(["x"], **asked)
            chosen = np.repeat(found.locations.ravel(), np.rint(2 * found.weights).astype(int))
            above.append(exact.max() - by_places[tuple(sorted(np.searchsorted(points, chosen - 1e-9)))])

    assert np.mean(np.array(above) > bound) <= 0.3  # 5% and eight standard errors
    assert max(above) > 0


@pytest.mark.statistical
def test_the_hull_takes_most_of_the_noise_away():
    """Of noise in F coordinates, far less than half is left."""
    space = Space.from_kernel(Nystrom(KERNEL, spread(COLUMNS, 64), 1e-6), KERNEL)
    rng, sigma, candidates = np.random.default_rng(11), 0.004, spread(COLUMNS, 256)
    alpha = space.features(np.clip(rng.normal(100, 15, size=(2000, 2)), 0, 200)).mean(axis=0)
    left = []
    for _ in range(20):
        beta = alpha + sigma * rng.normal(size=len(alpha))
        points, w = hull_projection(space.features, candidates, beta, 1e-3 * sigma**2, COLUMNS)
        left.append(float(np.sum((w @ space.features(points) - alpha) ** 2)))

    assert np.mean(left) < sigma**2 * len(alpha) / 2
