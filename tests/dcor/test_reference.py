"""Numbers that can be looked up: of the mechanisms and of two real tables; errors and levels that were measured."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import itertools
import math
import os
import tracemalloc
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._privacy import calibrate
from dfprivacy.local import Arc
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor.angles import PLACES, best_reach
from dfprivacy_dcor.points import (
    Labels,
    Line,
    Lines,
    Points,
    covariance,
    covariance_u,
    five_numbers,
    squared_covariance,
)

COUNT = itertools.count()
FOLDER = Path(os.environ.get("DFPRIVACY_TEST_DATA", ""))


def protect(values, name="reference"):
    """Protect columns within -1.5 and 1.5, of which x lies between -1 and 1."""
    bounds = {column: (-1.0, 1.0) if column == "x" else (-1.5, 1.5) for column in values}
    terms = {"epsilon": 10**4, "ledger": "memory:", "bounds": bounds}
    return dp.protect(pd.DataFrame(values), f"{name} {next(COUNT)}", **terms)


def test_the_square_changes_most_where_the_proof_says():
    """The worst move of one of 12 rows, without bias, takes the rows of one kind to a third of all."""
    n = 12

    def unbiased(cells):
        n11, n10, n01, n00 = cells
        x, y = np.repeat([1, 1, 0, 0], cells), np.repeat([1, 0, 1, 0], cells)
        assert len(x) == n11 + n10 + n01 + n00 == n
        return float(covariance_u(Line(x, 0), Line(y, 0)))

    tables = [c for c in itertools.product(range(n + 1), repeat=4) if sum(c) == n]
    values = {cells: unbiased(cells) for cells in tables}
    worst = max(
        (abs(value - values[moved]), cells, moved) for cells, value in values.items() for moved in neighbours(cells)
    )

    assert 0.113131 == pytest.approx(worst[0], rel=1e-5)
    assert max(
        abs(values[(0, m - 1, n - m, 1)] - values[(0, m, n - m, 0)]) for m in range(1, n + 1)
    ) == pytest.approx(worst[0])


def neighbours(cells):
    """All tables in which one row is in another cell."""
    for source, target in itertools.permutations(range(4), 2):
        if cells[source]:
            moved = list(cells)
            moved[source] -= 1
            moved[target] += 1
            yield tuple(moved)


def test_a_normaliser_from_the_data_breaks_every_sensitivity():
    """Divided by the largest distance seen, a distance variance falls from a quarter to nothing with one row."""
    x = np.repeat([0, 1], 50) * 10**-3
    moved = x.copy()
    moved[0] = 1.0

    def scaled(values):
        line = Line(np.array([round(v * 10**6) for v in values], dtype=object), 0)
        return float(covariance(line, line)) / max(line.values) ** 2

    before, after = scaled(x), scaled(moved)

    assert [0.25, 0.000391698] == pytest.approx([before, after], rel=1e-6)
    assert (12 * 100 - 11) / 99**2 < before - after


def test_many_categories_are_one_table():
    """Of categories no array of rows by categories is made: their table is enough."""
    rng = np.random.default_rng(12)
    x, y = (Labels(rng.integers(0, 500, 20_000), 500) for _ in range(2))

    tracemalloc.start()
    numbers = five_numbers(x, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert numbers[0] ** 2 == pytest.approx(squared_covariance(y, x), rel=1e-12)
    assert peak < 20_000 * 500  # bytes; one array of them would take eight times as many


def test_of_two_samples_it_is_the_energy_distance():
    """The squared covariance with the group is the energy distance, times twice the squared product of shares."""
    rng = np.random.default_rng(4)
    x, group = rng.integers(0, 256, 40), np.repeat([0, 1], [10, 30])
    apart = np.abs(np.subtract.outer(x, x)) / 256
    between, first, second = apart[:10, 10:].mean(), apart[:10, :10].mean(), apart[10:, 10:].mean()

    found = squared_covariance(Lines((Line(x, 8),), (1.0,)), Labels(group, 2))

    assert 2 * (10 / 40 * 30 / 40) ** 2 * (2 * between - first - second) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "theta", "q", "mu"),
    [
        (0.5, 1.412247, 0.573816, 0.157867),
        (1, 1.257465, 0.644657, 0.308287),
        (2, 0.971134, 0.767772, 0.564328),
        (4, 0.537713, 0.918532, 0.858880),
        (8, 0.146363, 0.993182, 0.989308),
    ],
)
def test_the_best_arc_is_known(epsilon, theta, q, mu):
    """Width, weight and resultant of the arc that tells most."""
    arc = Arc.within(Fraction(epsilon), places=PLACES, reach=best_reach(epsilon))

    assert theta == pytest.approx(math.pi * arc.length / arc.places, abs=1e-4)
    assert q == pytest.approx(arc.length * arc.inside / arc.weight, abs=1e-4)
    assert mu == pytest.approx(arc.resultant, abs=1e-5)
    assert math.exp(epsilon) == pytest.approx(arc.inside / arc.outside, rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "scale"), [(0.5, 7.03183), (1, 3.73063), (2, 1.99381), (5, 0.89187), (10, 0.49989)]
)
def test_gaussian_noise_of_the_projections_is_the_analytic_one(epsilon, scale):
    """For a change by one and delta 1e-5 the noise is a quarter to a third smaller than the paper's."""
    steps = 1 << 40
    found = calibrate.gaussian_scale(steps**2, 1, Fraction(epsilon), Fraction(1, 10**5)) / steps
    kenthapadi = math.sqrt(2 * (math.log(1 / (2 * 1e-5)) + epsilon)) / epsilon

    assert scale == pytest.approx(found, abs=6e-6)
    assert 1.25 < kenthapadi / found < 1.36


def test_a_distance_is_a_fourier_series():
    """1/4 - r/2 is the sum of the odd harmonics, and the first two hold 90 % of the kernel."""
    k = np.arange(1, 2 * 20_000, 2)
    weights = 2 / (math.pi * k) ** 2

    assert 0.1 == pytest.approx((weights * np.cos(k * math.pi * 0.3)).sum(), abs=1e-9)
    assert [0.811, 0.901] == pytest.approx(4 * np.cumsum(weights)[:2], abs=1e-3)


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

    found = five_numbers(Points(whole[:, :middle]), Points(whole[:, middle:]))

    assert expected == pytest.approx([found[0] / math.sqrt(found[1] * found[2]), *found], abs=5e-5)


@pytest.mark.statistical
def test_the_error_within_one_table():
    """At n = 2000 and epsilon 1 the mean error of R is at most 0.06 on a parabola."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 2000)
    view = protect({"x": x, "y": np.clip(x * x + 0.1 * rng.normal(size=2000), -1.5, 1.5)})
    with seeded_noise(1):
        truth = view.dcor("x", "y", epsilon=5000).correlation
        errors = [abs(view.dcor("x", "y", epsilon=1, fresh=True).correlation - truth) for _ in range(200)]

    assert np.mean(errors) <= 0.06


@pytest.mark.statistical
def test_the_level_of_the_test_from_the_same_numbers():
    """Of 200 tables of independent uniform numbers, 8 % at most are rejected at 5 %."""
    rng = np.random.default_rng(2)
    with seeded_noise(2):
        views = [protect({"x": rng.uniform(-1, 1, 2000), "z": rng.uniform(-1, 1, 2000)}) for _ in range(200)]
        rejected = [view.dcor("x", "z", epsilon=2).pvalue <= 0.05 for view in views]

    assert np.mean(rejected) <= 0.08


@pytest.mark.statistical
def test_the_estimate_from_angles_is_near_what_its_harmonic_holds():
    """On a line, n = 10,000, epsilon 1, the first harmonic gives 0.945 of R² = 0.967 on average."""
    found = []
    with seeded_noise(4):
        for seed in range(20):
            rng = np.random.default_rng(seed)
            x = rng.uniform(-1, 1, 10_000)
            y = np.clip(x + 0.1 * rng.normal(size=10_000), -1.5, 1.5)
            message = protect({"x": x}).dcor_message("x", harmonics=[1], epsilon=1)
            found.append(message.estimate(y, permutations=1).squared)

    assert 0.945 == pytest.approx(np.mean(found), abs=0.06)
