"""Kernel, Nyström and Fourier features: the formulas, bounds that hold and are attained, and exact sums."""

from __future__ import annotations

import math
import threading
from itertools import product

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

import dfprivacy as dp
from dfprivacy._measure.tasks import in_threads
from dfprivacy._table.batch import BATCH_ROWS, Batch, category, number
from dfprivacy.errors import ArgumentError, SchemaError
from dfprivacy.features import (
    Fourier,
    Given,
    Kernel,
    Moments,
    Nystrom,
    OneHot,
    ProductKernel,
    Stack,
    gaussian_frequencies,
    spread,
)
from dfprivacy.schema import Column

A = Column("a", bounds=(0.0, 200.0), fill=100.0)
B = Column("b", bounds=(0.0, 200.0), fill=100.0)
ARM = Column("arm", categories=(1, 2, 3))
SITE = Column("site", categories=(1, 2, 3), other=True)
GAMMA = 5e-5
PLANE = ProductKernel((A, B), 1 / math.sqrt(2 * GAMMA))
MIXED = ProductKernel((A, B, ARM), 60.0, 0.3)
NOBODY: frozenset[str] = frozenset()
ROWS = np.array([[90, 110], [100, 95], [120, 105], [80, 80]], dtype=float)
POINTS = np.array([[100, 100], [50, 100], [100, 150], [100, 100]], dtype=float)


def batch_of(rows, columns=(A, B)):
    """A batch of rows that are given as an array, one column for each column."""
    raw = {
        (number(c) if c.bounds else category(c)): rows[:, i] + (0 if c.bounds else 1) for i, c in enumerate(columns)
    }
    return Batch(len(rows), raw)


def sample(n=400, *, seed=0, columns=(A, B)):
    """Rows within the bounds, corners among them."""
    rng = np.random.default_rng(seed)
    made = [rng.uniform(c.low, c.high, n) if c.bounds else rng.integers(0, len(c.categories), n) for c in columns]
    rows = np.column_stack(made).astype(float)
    if n < 12:
        return rows
    corners = list(product(*((c.low, c.high) if c.bounds else range(len(c.categories)) for c in columns)))
    rows[: len(corners)] = corners
    return rows


def features_of(name):
    """The features that tests go through, by name."""
    lengthscales = PLANE.lengthscales
    made = {
        "kernel": lambda: Kernel(PLANE, spread((A, B), 30)),
        "mixed": lambda: Kernel(MIXED, spread((A, B, ARM), 40)),
        "nystrom": lambda: Nystrom(PLANE, spread((A, B), 64)),
        "mixed nystrom": lambda: Nystrom(MIXED, spread((A, B, ARM), 100), 1e-6),
        "fourier": lambda: Fourier((A, B), gaussian_frequencies(lengthscales, 100)),
    }
    return made[name]()


ALL = ["kernel", "mixed", "nystrom", "mixed nystrom", "fourier"]


def columns_of(name):
    return (A, B, ARM) if "mixed" in name else (A, B)


def spelled_out(x, z, lengthscale, mismatch):
    """The kernel, as its formula says."""
    value = math.exp(-((x[0] - z[0]) ** 2 + (x[1] - z[1]) ** 2) / (2 * lengthscale**2))
    return value * (mismatch if x[2] != z[2] else 1.0)


# ---- the kernel ------------------------------------------------------------------------------------------


def test_the_kernel_is_its_formula():
    """A Gaussian of the numbers, times a factor where the category differs."""
    rows, others = sample(20, columns=(A, B, ARM)), sample(15, seed=1, columns=(A, B, ARM))

    expected = [[spelled_out(x, z, 60, 0.3) for z in others] for x in rows]

    assert MIXED(rows, others) == pytest.approx(np.array(expected), abs=1e-13)


def test_rounded_kernel_values_are_close():
    """Values at snapped points, of rounded rows, are those of the formula to eight digits."""
    features = features_of("mixed")
    rows = sample(50, columns=(A, B, ARM))

    values = features.rows(batch_of(rows, (A, B, ARM)))

    assert values == pytest.approx(MIXED(rows, features.points), abs=1e-8)


def test_points_hardly_move():
    """Snapping moves a point by less than 10^-4 lengthscales, and not out of the bounds; twice is once."""
    points = sample(100, columns=(A, B, ARM))

    snapped = MIXED.snap(points)

    assert np.abs(snapped - points).max() < 60e-4
    assert MIXED.snap(snapped).tolist() == snapped.tolist()
    assert MIXED.check(snapped).tolist() == snapped.tolist()


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [((0, 200), 1.401202598564009), ((50, 150), 1.1243847729568004), ((-1e4, 1e4), math.sqrt(2))],
)
def test_reference_distances(bounds, expected):
    """The largest distance in the kernel's space follows from the least kernel value within the bounds."""
    kernel = ProductKernel([Column(name, bounds) for name in "ab"], 1 / math.sqrt(2 * GAMMA))

    assert kernel.distance() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("public", [{"a"}, {"a", "b"}, {"arm"}, {"a", "b", "arm"}, set()])
def test_the_least_kernel_value(public):
    """The least value is the one of opposite corners in another category, public columns aside."""
    exponent = sum(200**2 / (2 * 60**2) for name in "ab" if name not in public)
    expected = math.exp(-exponent) * (1 if "arm" in public else 0.3)

    assert MIXED.smallest(frozenset(public)) == pytest.approx(expected, rel=1e-7)


def test_rows_without_a_category():
    """A row in none of the categories is zero, at distance 1; where none is a category too, it is not."""
    nowhere = Batch(1, {number(A): np.array([1.0]), number(B): np.array([1.0]), category(ARM): np.array([7])})
    close = ProductKernel((A, B, ARM), 1e4, 0.9)

    assert Kernel(close, [[1, 1, 0]]).steps(nowhere, 40).tolist() == [[0]]
    assert close.distance() == pytest.approx(1, abs=1e-12)
    assert ProductKernel((A, B, SITE), 1e4, 0.9).distance() == pytest.approx(math.sqrt(0.2), rel=1e-2)
    assert close.distance(frozenset({"arm"})) < 0.03


def test_the_points_cover():
    """Public points are the unscrambled Sobol sequence over bounds and categories."""
    points = spread((A, B, ARM), 6)

    assert points[:3].tolist() == [[0, 0, 0], [100, 100, 1], [150, 50, 0]]
    assert len(points) == 6
    assert spread((A,), 1).tolist() == [[0]]
    assert spread([Column(str(i), (0, 1)) for i in range(50)], 3).shape == (3, 50)


# ---- reference numbers -----------------------------------------------------------------------------------


def test_reference_features_of_a_subspace():
    """Pivots, means and norms of a small example that was computed by hand."""
    features = Nystrom(PLANE, POINTS)
    total = features.image([int(t) for t in features.total(batch_of(ROWS), None, 39)], 39)

    mean = np.ldexp(np.array(total, dtype=float), -39) / 4

    assert features.pivots.tolist() == [0, 1, 2]
    assert mean == pytest.approx([0.982141061063, 0.027510741210, -0.019020261053], abs=1e-9)
    assert mean @ mean == pytest.approx(0.965719675039, abs=1e-9)
    expected = [[1, 0, 0], [0.882496902585, 0.470318208162, 0], [0.882496902585, 0, 0.470318208162], [1, 0, 0]]
    assert features.features(POINTS) == pytest.approx(np.array(expected), abs=1e-11)


def test_reference_diameter_of_a_subspace():
    """With 64 Sobol points nearly the whole distance of the kernel is attained, and never more."""
    features = Nystrom(PLANE, spread((A, B), 64))
    corners = features.features(sample(2000))

    widest = max(np.linalg.norm(corners - corner, axis=1).max() for corner in corners[:4])

    assert features.dimension == 55
    assert 1.4012 < widest <= 1.4012025986
    assert (corners**2).sum(axis=1).max() <= 1 + 1e-9
    assert features.diameter(2, NOBODY) == pytest.approx(1.4012025986, rel=1e-5)


def test_the_nystrom_kernel_of_points_in_the_span():
    """For the points themselves, the projected kernel is the kernel."""
    features = features_of("mixed nystrom")
    at = features.features(features.points)

    assert at @ at.T == pytest.approx(MIXED(features.points, features.points), abs=1e-7)


def test_fourier_features_approximate_the_kernel():
    """A thousand quasi-random frequencies have the Gaussian kernel to a few hundredths."""
    features = Fourier((A, B), gaussian_frequencies(PLANE.lengthscales, 1000))
    rows = sample(50)
    at = features.features(rows)

    assert at @ at.T == pytest.approx(PLANE(rows, rows), abs=2e-2)


def test_fourier_sums_are_characteristic_functions():
    """Divided by the weight, the vectors are cosines and sines of phases from the centre."""
    frequencies = np.array([[0.01, 0.02], [-0.5, 3.0], [0.0, 0.0]])
    features = Fourier((A, B), frequencies)
    rows = sample(50)

    angles = (rows - 100) @ features.frequencies.T
    found = features.rows(batch_of(rows)) / features.weights

    assert features.frequencies == pytest.approx(frequencies, rel=1e-5, abs=1e-12)
    assert found == pytest.approx(np.hstack([np.cos(angles), np.sin(angles)]), abs=1e-5)
    assert features.features(rows) / features.weights == pytest.approx(found, abs=1e-5)
    assert features.shape == (2, 3)


# ---- radius and diameter ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nystrom", "mixed nystrom"])
def test_the_euclidean_bounds_are_attained(name):
    """Some rows come within a tenth of the radius and diameter, for the noise is in proportion to these."""
    features = features_of(name)
    rows = features.rows(batch_of(sample(columns=columns_of(name)), columns_of(name)))

    apart = max(np.linalg.norm(rows - row, axis=1).max() for row in rows)

    assert np.linalg.norm(rows, axis=1).max() >= 0.99 * features.radius(2)
    assert apart >= 0.9 * features.diameter(2, NOBODY)


def test_fourier_features_over_a_small_box():
    """Over a box that is small beside the wavelengths the diameter is far less than 2."""
    features = Fourier((A, B), np.full((10, 2), 1e-4))

    rows = features.rows(batch_of(np.array([[0.0, 0.0], [200.0, 200.0]])))

    assert np.linalg.norm(rows[0] - rows[1]) <= features.diameter(2, NOBODY) <= 0.041


@pytest.mark.parametrize(("m", "columns"), [(2, (A,)), (16, (A,)), (250, (A,)), (100, (A, B))])
@pytest.mark.parametrize("lengthscale", [30.0, 100.0, 300.0])
def test_the_diameter_of_fourier_features_is_nearly_attained(m, columns, lengthscale):
    """No two of many rows are further apart than the diameter, and some are nearly as far."""
    features = Fourier(columns, gaussian_frequencies(np.full(len(columns), lengthscale), m))
    rng = np.random.default_rng(4)
    differences = rng.uniform(-200, 200, size=(40_000, len(columns)))

    apart = np.sqrt(2 - 2 * np.cos(differences @ features.frequencies.T).mean(axis=1).min())

    assert apart <= features.diameter(2, NOBODY) <= 1.01 * apart


def test_fourier_features_of_many_columns_may_be_opposite():
    """Where the search would take too long, nothing less than the distance of opposite vectors is claimed."""
    columns = [Column(str(i), (0, 1)) for i in range(8)]

    features = Fourier(columns, gaussian_frequencies(np.full(8, 0.1), 64))

    assert features.diameter(2, NOBODY) == pytest.approx(2, abs=1e-5)


# ---- exact sums ------------------------------------------------------------------------------------------


def test_the_image_of_a_sum_is_exact():
    """The map is applied to sums in integers: it is right to half a step, however long the sum."""
    features = features_of("nystrom")
    total = [2**60 + 7 * i for i in range(features.dimension)]

    image = features.image(total, 30)

    exact = [sum(int(a * 2**40) * t for a, t in zip(row, total, strict=True)) for row in features.map]
    assert all(abs(step * 2**49 - value) <= 2**48 for step, value in zip(image, exact, strict=True))


def test_an_honest_error_of_rows():
    """The rows in float64 are within their error of the exact map of the rounded kernel values."""
    features = features_of("nystrom")
    batch = batch_of(sample(20))

    found = features.rows(batch)
    steps = features.steps(batch, 39)
    exact = [[float(v) for v in features.image([int(s) for s in row], 60)] for row in steps]

    assert np.abs(found - np.array(exact) * 2.0**-60).max() <= features.error + 2.0**-60


def test_a_nearly_dependent_subspace_is_charged():
    """Points that nearly coincide give a map with huge entries, and a diameter that pays for them."""
    close = np.column_stack([np.linspace(100, 101, 40), np.full(40, 100.0)])

    features = Nystrom(PLANE, close, 1e-14)
    rows = features.rows(batch_of(sample()))

    assert np.abs(features.map).max() > 1e4
    assert features.defect <= 1e-4
    assert features.diameter(2, NOBODY) > PLANE.distance() * (1 + 1e-7)
    assert np.linalg.norm(rows, axis=1).max() <= features.radius(2)


# ---- what cannot be used ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda: ProductKernel((), 1.0), lambda: ProductKernel((A, A), 1.0),
    lambda: ProductKernel((A, Column("bare")), 1.0), lambda: ProductKernel((A,), 0.0),
    lambda: ProductKernel((A,), -1.0), lambda: ProductKernel((A,), 1e-4),
    lambda: ProductKernel((A, B), {"a": 1.0}), lambda: ProductKernel((A, ARM), 1.0, 1.0),
    lambda: ProductKernel((A, ARM), 1.0, -0.1), lambda: Kernel(PLANE, [[1.0, 2.0, 3.0]]),
    lambda: Kernel(PLANE, np.empty((0, 2))), lambda: Kernel(PLANE, [[1.0, 201.0]]),
    lambda: Kernel(PLANE, [[math.nan, 2.0]]), lambda: Kernel(MIXED, [[1.0, 2.0, 3.0]]),
    lambda: Kernel(MIXED, [[1.0, 2.0, 0.5]]), lambda: Nystrom(PLANE, POINTS, 0.0),
    lambda: Fourier((A, B), [[1.0]]), lambda: Fourier((A,), [[math.inf]]), lambda: Fourier((A,), [[1e9]]),
])  # fmt: skip
def test_arguments_that_cannot_be_used(make):
    """Each is refused with an error that says what to do."""
    with pytest.raises(ArgumentError):
        make()


def test_lengthscales_are_numbers():
    """A lengthscale that is no number is refused like every such argument."""
    with pytest.raises(SchemaError):
        ProductKernel((A,), "wide")


def test_batches_side_by_side():
    """Sums are the same on any number of threads, by category and given what is there; no thread is left."""
    rows = 5 * BATCH_ROWS + 7
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"x": rng.uniform(-1, 2, rows), "g": rng.choice(["a", "b", None], rows)})
    view = dp.protect(frame, "threads", epsilon=1, bounds={"x": (0, 1)}, categories={"g": ["a", "b"]})
    x, g, table = view.schema.numeric("x"), view.schema.categorical("g"), view._target.table
    kernel = Kernel(ProductKernel((x,)), spread((x,), 5))
    asked = [kernel, Stack(Fourier((x,), [[3.0]]), kernel), OneHot(g, of=Given(x, of=kernel))]
    before = threading.active_count()
    sums = []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            sums.append([table.total(each, 30) for each in asked])

    assert sums[0] == sums[1]
    assert all(each.threaded for each in asked)
    assert not OneHot(g, of=Given(x, of=Moments(x))).threaded
    assert threading.active_count() == before


def test_items_are_read_as_they_are_worked_on():
    """Results come in order, and memory is for the items of the threads and two more."""
    read, done = [], []

    def items():
        for item in range(20):
            read.append(item)
            assert len(read) - len(done) <= 3 + 2
            yield item

    with threadpool_limits(3, user_api="blas"):
        for place, result in enumerate(in_threads(lambda item: item * item, items())):
            done.append(result == place * place)

    assert done == [True] * 20
