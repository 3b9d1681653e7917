"""Distance covariance of points: reference numbers, brute force, and what rounding may do."""

from __future__ import annotations

import itertools
import math
import os
import tracemalloc
from pathlib import Path

import mpmath
import numpy as np
import pytest

from dfprivacy import Column
from dfprivacy.features import Batch, number
from dfprivacy_dcor.points import (
    Labels,
    Line,
    Lines,
    Points,
    covariance,
    covariance_u,
    distance_statistics,
    grid_bits,
    round_to_grid,
    squared_covariance,
)
from dfprivacy_dcor.spaces import kernel_space, metric_space, rounding_error, sphere_constant

FOLDER = Path(os.environ.get("DFPRIVACY_TEST_DATA", ""))
STEPS, GOLDEN = np.arange(10) / 10, 0.6180339887498949 * np.arange(1000) % 1
BINARY = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [30, 10, 15, 45], axis=0).T


def exactly(values, bits=50):
    """A line of Python's integers, on a grid that is finer than int64 can hold."""
    return Line(np.array([round(value * 2**bits) for value in values], dtype=object), bits)


def brute(a, b):
    """The definition, with all pairs."""
    n = len(a)
    return (a * b).sum() / n**2 - 2 * (a.sum(axis=1) @ b.sum(axis=1)) / n**3 + a.sum() * b.sum() / n**4


@pytest.mark.parametrize(
    ("x", "y", "known"),
    [
        (STEPS, STEPS**2, [0.040986, 0.0396, 0.04554, 0.0402666, 0.33, 0.297, 0.9783252693733658]),
        (GOLDEN, abs(2 * GOLDEN - 1), [0.0111172671106963, 0.0110335093323984, 0.0444434585830897, math.nan,
                                       0.333367016815138, math.nan, 0.5000756722217583]),
        (*BINARY, [4 * 0.12**2, math.nan, 0.2304, 0.2475**2 * 4, 0.48, 0.495, 0.4923659639173329]),
    ],
    ids=["a parabola of ten points", "a triangle of quasi-random points", "two binary columns"],
)  # fmt: skip
def test_tables_with_known_numbers(x, y, known):
    """Squared covariance, the same without bias, squared variances, mean distances, and R, from the literature."""
    x, y = exactly(x), exactly(y)
    own, its = covariance(x, x), covariance(y, y)

    found = [covariance(x, y), covariance_u(x, y), own, its, x.mean, y.mean]
    found.append(math.sqrt(covariance(x, y) / math.sqrt(own * its)))

    there = ~np.isnan(known)
    assert np.array(known)[there] == pytest.approx(np.array(found, dtype=float)[there], rel=1e-10)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 9, 33, 128, 129, 500])
def test_int64_agrees_with_all_pairs(n):
    """The sums over pairs that both grow agree with the definition, ties included."""
    rng, bits = np.random.default_rng(n), grid_bits(n)
    x = Line(round_to_grid(np.round(rng.random(n) * 7) / 7, bits), bits)
    y = Line(round_to_grid(rng.random(n) ** 2, bits), bits)
    a, b = (np.abs(np.subtract.outer(s.values, s.values)) / 2**bits for s in (x, y))

    found = [float(covariance(x, y)), float(covariance(x, x))]

    assert [brute(a, b), brute(a, a)] == pytest.approx(found, rel=1e-9, abs=1e-15)


def test_every_pair_of_spaces_agrees_with_all_pairs_of_rows():
    """Lines, labels and points have the five numbers of their definition."""
    rng = np.random.default_rng(2)
    x, codes = rng.random((200, 3)), rng.integers(0, 4, 200)
    lines = Lines(tuple(Line(round_to_grid(column, 20), 20) for column in x.T), (1.0, 2.0, 0.5))

    for one, other in itertools.product([lines, Labels(codes, 4), Points(x)], repeat=2):
        a, b = one.distances(slice(200)), other.distances(slice(200))
        expected = [*np.sqrt([brute(a, b), brute(a, a), brute(b, b)]), a.mean(), b.mean()]
        assert expected == pytest.approx(distance_statistics(one, other), rel=1e-9)


def test_of_two_samples_it_is_the_energy_distance():
    """The squared covariance with the group is the energy distance, times twice the squared product of shares."""
    x = np.random.default_rng(4).integers(0, 256, 40)
    apart = np.abs(np.subtract.outer(x, x)) / 256
    between, first, second = apart[:10, 10:].mean(), apart[:10, :10].mean(), apart[10:, 10:].mean()

    found = squared_covariance(Lines((Line(x, 8),), (1.0,)), Labels(np.repeat([0, 1], [10, 30]), 2))

    assert 2 * (10 / 40 * 30 / 40) ** 2 * (2 * between - first - second) == pytest.approx(found, rel=1e-12)


def test_half_a_covariance_is_the_norm_of_a_sum():
    """The square is that of the features of a line, which the proofs are about."""
    values = np.array([0, 3, 3, 7, 8], dtype=np.int64)
    y = Lines((Line(np.array([1, 0, 6, 2, 8]), 3),), (1.0,))
    steps = np.arange(8)[None, :] < values[:, None]  # |phi - phi'|² is the distance

    features = [Lines((Line(column.astype(np.int64) * 8, 3),), (1 / 8,)) for column in steps.T]

    whole = squared_covariance(Lines((Line(values, 3),), (1.0,)), y)
    assert whole == pytest.approx(sum(squared_covariance(feature, y) for feature in features))


@pytest.mark.parametrize(
    ("file", "middle", "end", "expected"),
    [
        ("housing.csv", 6, 13, [0.78420, 0.22493, 0.23043, 0.35703, 0.63853, 0.91367]),
        ("winequality-white.csv", 5, 11, [0.46911, 0.03914, 0.05752, 0.12102, 0.22758, 0.39902]),
    ],
)
def test_two_real_tables_have_their_known_numbers(file, middle, end, expected):
    """R, s_xy, s_x, s_y, m_x and m_y of the halves of Boston housing and white wine, scaled to their extremes."""
    if not (FOLDER / file).is_file():
        pytest.skip("DFPRIVACY_TEST_DATA names no folder with the table")
    whole = np.loadtxt(FOLDER / file, delimiter=",")[:, :end]
    whole = (whole - whole.min(axis=0)) / np.ptp(whole, axis=0)

    found = distance_statistics(Points(whole[:, :middle]), Points(whole[:, middle:]))

    assert expected == pytest.approx([found[0] / math.sqrt(found[1] * found[2]), *found], abs=5e-5)


def test_constants_of_geometry():
    """A length is C_p times the mean length of its projections; 1/4 - r/2 is the sum of the odd harmonics."""
    k = np.arange(1, 2 * 20_000, 2)
    weights = 2 / (math.pi * k) ** 2

    spheres = [sphere_constant(p) for p in (1, 2, 3, 5, 6, 7, 10)]

    assert [1, math.pi / 2, 2, 8 / 3, 2.94524, 3.2, 3.86563] == pytest.approx(spheres, rel=1e-5)
    assert (weights * np.cos(k * math.pi * 0.3)).sum() == pytest.approx(0.1, abs=1e-9)
    assert 4 * np.cumsum(weights)[:2] == pytest.approx([0.811, 0.901], abs=1e-3)  # of two harmonics


def test_many_categories_are_one_table():
    """Of categories no array of rows by categories is made: their table is enough."""
    rng = np.random.default_rng(12)
    x, y = (Labels(rng.integers(0, 100, 20_000), 100) for _ in range(2))

    tracemalloc.start()
    numbers = distance_statistics(x, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert numbers[0] ** 2 == pytest.approx(squared_covariance(y, x), rel=1e-12)
    assert peak < 20_000 * 100  # bytes; one array of them would take eight times as many


def test_the_total_of_millions_of_rows_does_not_wrap():
    """At 6 million rows and more it passes 2^63: one row moves it there no more than elsewhere."""
    n = 6_000_000
    bits = grid_bits(n)
    at = int((n - math.sqrt(n * n - 2 ** (64 - bits))) / 2)  # so many at one end have a total of 2^63
    totals = []
    for high in (at, at + 1, at + 2):
        ends = np.zeros(n, dtype=np.int64)
        ends[n - high :] = 1 << bits
        line = Line(ends, bits)
        vars(line)["order"] = np.arange(n)  # they are in order
        totals.append(line.total)

    assert totals[0] < 2**63 < totals[2]
    assert [2 * high * (n - high) << bits for high in (at, at + 1, at + 2)] == totals
    assert Line(np.repeat([0, 1 << 52], 512), 52).mean == 0.5


# Errors of floats, against 40 digits


def exact_numbers(sides):
    """The five numbers of matrices of distances."""
    found = []
    for a, b in (sides, sides[:1] * 2, sides[1:] * 2):
        n, its, others = len(a), [sum(row) for row in a], [sum(row) for row in b]
        first = sum(u * v for p, q in zip(a, b, strict=True) for u, v in zip(p, q, strict=True))
        second = sum(u * v for u, v in zip(its, others, strict=True))
        found.append(mpmath.sqrt(max(0, first / n**2 - 2 * second / n**3 + sum(its) * sum(others) / n**4)))
    return [*found, *(sum(map(sum, a)) / len(a) ** 2 for a in sides)]


@pytest.mark.parametrize(
    ("kind", "p"),
    [(kind, p) for kind in ("anywhere", "corners", "crowded", "independent") for p in (2, 12)]
    + [("a kernel", 1), ("a kernel", 3)],
)
def test_the_error_of_pairs_of_points_is_bounded(kind, p):
    """All five numbers are right to what is declared, also where they vanish."""
    rng = np.random.default_rng(p)
    columns = [tuple(Column(f"{at}{k}", bounds=(0.0, 1.0)) for k in range(p)) for at in "xy"]
    x, y = rng.random((2, 16, p))
    if kind == "corners":
        x, y = np.round(x), np.round(y)
    elif kind == "crowded":
        x, y = 0.5 + x * 1e-9, 0.5 + y * 1e-9
    elif kind == "independent":
        x, y = np.repeat(x[:4], 4, axis=0), np.tile(y[:4], (4, 1))
    elif kind == "a kernel":
        y = y * 1e-3
    named = zip(itertools.chain(*columns), [*x.T, *y.T], strict=True)
    batch = Batch(16, {number(column): values for column, values in named})
    kernel = kind == "a kernel"
    spaces = [
        kernel_space(each, "gaussian", 1.0, nan_policy="fill") if kernel else metric_space(each, "euclidean")
        for each in columns
    ]

    found = distance_statistics(*(each.rows(batch) for each in spaces))

    def apart(one, other):
        square = sum((mpmath.mpf(float(a)) - float(b)) ** 2 for a, b in zip(one, other, strict=True))
        return 1 - mpmath.exp(-square / mpmath.mpf(1 / 6) ** 2) if kernel else mpmath.sqrt(square)

    units = [np.stack([batch.standardized(column) / 2 + 0.5 for column in each], axis=1) for each in columns]
    with mpmath.workdps(40):
        exact = exact_numbers([[[apart(one, other) for other in side] for one in side] for side in units])
    assert all(abs(float(found[at] - exact[at])) <= rounding_error(*spaces)[at] for at in range(5))
