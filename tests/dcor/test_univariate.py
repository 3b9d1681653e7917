"""Distance covariance against reference numbers and brute force; its largest changes by enumeration."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dfprivacy_dcor.points import (
    Labels,
    Line,
    Lines,
    Points,
    covariance,
    covariance_u,
    five_numbers,
    grid_bits,
    on_grid,
)
from dfprivacy_dcor.spaces import sphere_constant


def exactly(values, bits=50):
    """A line of Python's integers, on a grid that is finer than int64 can hold."""
    return Line(np.array([round(value * 2**bits) for value in values], dtype=object), bits)


def whole(values, bits=0):
    """A line of small whole numbers."""
    return Line(np.array(values, dtype=np.int64), bits)


def brute(a, b):
    """The definition, with all pairs."""
    n = len(a)
    cross = a.sum(axis=1) @ b.sum(axis=1)
    return (a * b).sum() / n**2 - 2 * cross / n**3 + a.sum() * b.sum() / n**4


def correlation(x, y):
    """The distance correlation of two lines."""
    return math.sqrt(covariance(x, y) / math.sqrt(covariance(x, x) * covariance(y, y)))


def test_the_parabola_of_ten_points():
    """y = x² at ten points has the distance covariances known from the literature's formulas."""
    k = np.arange(10) / 10
    x, y = exactly(k), exactly(k * k)

    v = float(covariance(x, y))
    corrected = float(covariance_u(x, y)) / math.sqrt(float(covariance_u(x, x)) * float(covariance_u(y, y)))

    assert [0.040986, 0.0396, 0.04554, 0.0402666, 0.33, 0.297] == pytest.approx(
        [v, float(covariance_u(x, y)), float(covariance(x, x)), float(covariance(y, y)), x.mean, y.mean], rel=1e-12
    )
    assert 0.9783252693733658 == pytest.approx(correlation(x, y), rel=1e-12)
    assert 0.9696899027331822 == pytest.approx(corrected, rel=1e-12)


def test_a_thousand_quasi_random_points():
    """A triangle over a golden-ratio sequence has its known distance covariances."""
    k = np.arange(1000)
    u = 0.6180339887498949 * k % 1
    x, y = exactly(u), exactly(np.abs(2 * u - 1))

    v = float(covariance(x, y))

    assert [0.0111172671106963, 0.0110335093323984, 0.0444434585830897, 0.333367016815138] == pytest.approx(
        [v, float(covariance_u(x, y)), float(covariance(x, x)), x.mean], rel=1e-10
    )
    assert 0.5000756722217583 == pytest.approx(correlation(x, y), rel=1e-10)


def test_a_table_of_two_binary_columns():
    """Of 0 and 1 the squared distance covariance is four times the squared covariance."""
    x = whole([0] * 40 + [1] * 60)
    y = whole([0] * 30 + [1] * 10 + [0] * 15 + [1] * 45)

    v = float(covariance(x, y))

    assert 4 * 0.12**2 == pytest.approx(v, rel=1e-12)
    assert 0.4923659639173329 == pytest.approx(correlation(x, y), rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 9, 33, 128, 129, 500])
def test_int64_agrees_with_all_pairs(n):
    """The sums over pairs that both grow agree with the definition, ties included."""
    rng = np.random.default_rng(n)
    bits = grid_bits(n)
    x = Line(on_grid(np.round(rng.random(n) * 7) / 7, bits), bits)
    y = Line(on_grid(rng.random(n) ** 2, bits), bits)
    a, b = (np.abs(np.subtract.outer(s.values, s.values)) / 2**bits for s in (x, y))

    found = [float(covariance(x, y)), float(covariance(x, x))]

    assert [brute(a, b), brute(a, a)] == pytest.approx(found, rel=1e-9, abs=1e-15)


def test_every_pair_of_spaces_agrees_with_all_pairs_of_rows():
    """Lines, labels and points have the five numbers of their definition."""
    rng = np.random.default_rng(2)
    n = 200
    x = rng.random((n, 3))
    codes = rng.integers(0, 4, n)
    spaces = [
        Lines(tuple(Line(on_grid(column, 20), 20) for column in x.T), (1.0, 2.0, 0.5)),
        Labels(codes, 4),
        Points(x),
    ]
    everything = slice(0, n)

    for one, other in itertools.product(spaces, repeat=2):
        a, b = one.distances(everything), other.distances(everything)
        expected = [*np.sqrt([brute(a, b), brute(a, a), brute(b, b)]), a.mean(), b.mean()]

        assert expected == pytest.approx(five_numbers(one, other), rel=1e-9)


@pytest.mark.parametrize("n", [4, 5, 10, 100])
def test_one_row_can_change_all_five_numbers_at_once(n):
    """The bound 2(n-1)/n² is reached by s_xy, s_x, s_y, m_x and m_y together."""
    lone = whole([0] * (n - 1) + [1])
    none = whole([0] * n)

    one, other = (five_numbers(Lines((s,), (1.0,)), Lines((s,), (1.0,))) for s in (lone, none))

    assert [2 * (n - 1) / n**2] * 5 == pytest.approx(np.abs(one - other), rel=1e-12)


@pytest.mark.parametrize(("n", "expected"), [(5, 0.1728), (12, 0.0864198), (30, 0.0375309)])
def test_the_square_changes_most_on_binary_tables(n, expected):
    """Enumeration of all binary tables and moves of a row finds the largest change of the square and the root."""
    squares = {}
    for cells in itertools.product(range(n + 1), repeat=3):
        if sum(cells) <= n:
            n00, n01, n10 = cells
            n11 = n - sum(cells)
            squares[cells] = 4 * ((n * n11 - (n10 + n11) * (n01 + n11)) / n**2) ** 2
    worst, root = 0.0, 0.0
    for (n00, n01, n10), square in squares.items():
        for source, target in itertools.permutations(range(4), 2):
            moved = [n00, n01, n10, n - n00 - n01 - n10]
            moved[source] -= 1
            moved[target] += 1
            if moved[source] >= 0:
                its = squares[tuple(moved[:3])]
                worst = max(worst, abs(square - its))
                root = max(root, abs(math.sqrt(square) - math.sqrt(its)))

    assert expected == pytest.approx(worst, rel=1e-5)
    assert 2 * (n - 1) / n**2 == pytest.approx(root, rel=1e-12)


def test_the_constants_of_spheres():
    """A length is C_p times the mean length of its projections."""
    found = [sphere_constant(p) for p in (1, 2, 3, 5, 6, 7, 10)]

    assert [1, math.pi / 2, 2, 8 / 3, 2.94524, 3.2, 3.86563] == pytest.approx(found, rel=1e-5)


def test_the_total_of_millions_of_rows_does_not_wrap():
    """Half of the rows at either end have the mean distance 1/2, though their total is beyond 2^63."""
    ends = np.repeat([0, 1 << 52], 512)

    assert 0.5 == Line(ends, 52).mean


def test_one_row_moves_the_mean_distance_of_millions_little():
    """Where the total passes 2^63, at 6 million rows and more, one row moves it no more than elsewhere."""
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
