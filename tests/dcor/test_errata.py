"""The papers: what does not hold, by counterexamples in exact numbers or certain bounds, and numbers that do."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from dfprivacy.local import Arc
from dfprivacy_dcor.angles import PLACES, best_half_width
from dfprivacy_dcor.paper import kenthapadi_scale
from dfprivacy_dcor.points import Line, covariance, covariance_u

PHI = NormalDist()


def distances(values):
    """All distances of rows."""
    return [[abs(v - w) for w in values] for v in values]


def omega(x, y):
    """Equation (1), in exact numbers."""
    n, a, b = len(x), distances(x), distances(y)
    first = sum(a[i][j] * b[i][j] for i in range(n) for j in range(n))
    second = sum(sum(a[i]) * sum(b[i]) for i in range(n))
    third = sum(map(sum, a)) * sum(map(sum, b))
    return (
        Fraction(first, n * (n - 3))
        - Fraction(2 * second, n * (n - 2) * (n - 3))
        + Fraction(third, n * (n - 1) * (n - 2) * (n - 3))
    )


def claimed(noise, y):
    """The difference that Theorem 1 says noise makes: Ω(N, Y), and a term of distances that is never negative."""
    n = len(y)
    sums = [sum(row) for row in distances(noise)], [sum(row) for row in distances(y)]
    return omega(noise, y) + Fraction(4 * sum(map(math.prod, zip(*sums, strict=True))), n * (n - 2) * (n - 3))


def test_theorem_1_is_false():
    """Noise that undoes x: the difference is -2/3, and the theorem says 158/3; and so it is on average.

    With noise of ±1 the covariance falls on average, over all 64 noises; the theorem says it rises.
    """
    x = y = (0, 1, 2, 3)
    noise = (0, -1, -2, -3)

    moved = omega([a + b for a, b in zip(x, noise, strict=True)], y) - omega(x, y)

    assert omega(x, y) == covariance_u(Line(np.array(x), 2), Line(np.array(y), 2)) * 16
    assert (Fraction(-2, 3), Fraction(158, 3)) == (moved, claimed(noise, y))
    x = y = (0, 0, 0, 1, 1, 1)
    every = [*itertools.product((-1, 1), repeat=6)]
    moved = sum(omega([a + b for a, b in zip(x, each, strict=True)], y) - omega(x, y) for each in every) / 64
    assert (Fraction(-1, 5), Fraction(5, 1)) == (moved, sum(claimed(each, y) for each in every) / 64)


def t_of(n, alpha):
    """The paper's t for σ = 1."""
    return 2 * math.sqrt((n - 1) / n * (math.log(2) - math.log(alpha) / n))


def test_lemma_of_theorem_2_is_false():
    """Of 100,000 normal numbers the sum of distances from one of them exceeds n t in a tenth of cases, not in α.

    Given N_i = z its mean is (n - 1) g(z), g(z) = z (2 Φ(z) - 1) + 2 φ(z), and as it is √(n-1)-Lipschitz in the
    others, it stays above that less s √(n-1) but for a probability of exp(-s²/2).
    """
    n, s = 100_000, 5.0
    for alpha in (1e-2, 1e-6, 1e-12):
        least = (n * t_of(n, alpha) + s * math.sqrt(n - 1)) / (n - 1)
        low, high = 0.0, 10.0
        for _ in range(60):
            z = (low + high) / 2
            low, high = (z, high) if z * (2 * PHI.cdf(z) - 1) + 2 * PHI.pdf(z) < least else (low, z)
        exceeds = 2 * (1 - PHI.cdf(high)) * (1 - math.exp(-(s**2) / 2))

        assert 0.1 < exceeds < 0.11
        assert exceeds > 9 * alpha


def test_theorem_2_is_false():
    """Y is one of two categories, each half of the rows: (6) fails in more than 3 of 10,000 cases, not in 0.2.

    Then the sum over Y is n/2 times |V_1 - V_2| for all rows at once, and averages over rows do not help. The mean
    difference of the noise is 2/√π on average, and 2/√n-Lipschitz.
    """
    n, alpha, s = 10**5, 1e-10, 0.03
    mean_difference = 2 / math.sqrt(math.pi) - s  # but for a probability of exp(-s² n / 8)
    least = t_of(n, alpha) ** 2 * n**3 / (n / 2 * n * (n - 1) * mean_difference)  # of |V_1 - V_2|

    exceeds = 2 * (1 - PHI.cdf(least / math.sqrt(2))) * (1 - math.exp(-(s**2) * n / 8))

    assert exceeds > 3e-4
    assert n * (2 * alpha - alpha**2) < 2.1e-5


def tables(n):
    """HSIC of all tables of n rows with two categories a side, by how many rows are in each cell."""
    for cells in itertools.product(range(n + 1), repeat=3):
        if (last := n - sum(cells)) >= 0:
            n11, n10, n01 = cells
            yield (*cells, last), Fraction(4 * (n11 * last - n10 * n01) ** 2, n**2 * (n - 1) ** 2)


@pytest.mark.parametrize(("n", "most"), [(5, Fraction(27, 100)), (12, Fraction(112, 1089)), (30, None)])
def test_the_sensitivity_of_hsic_is_a_tenth_of_the_papers(n, most):
    """With two categories a side, over all tables and all moves; √6/(n - 1) bounds it for every kernel."""
    known = dict(tables(n))
    worst = Fraction(0)
    for cells, value in known.items():
        for source, target in itertools.permutations(range(4), 2):
            moved = list(cells)
            moved[source] -= 1
            moved[target] += 1
            if cells[source]:
                worst = max(worst, abs(value - known[tuple(moved)]))

    assert worst <= math.sqrt(6) / (n - 1) < Fraction(12 * n - 11, (n - 1) ** 2) / 4
    assert Fraction(12 * n - 11, (n - 1) ** 2) > 10 * worst
    assert most is None or worst == most


def test_noise_for_an_attribute_does_not_protect_a_row():
    """A row of 10 columns moves its projection by 10 w_2(P): at ε = 1, δ is 0.5 in place of 0.00001."""
    p, epsilon = 10, 1.0
    w = 1 / math.sqrt(p)  # u = (1, ..., 1)/√p, x from (0, ..., 0) to (1, ..., 1)
    sigma = kenthapadi_scale(epsilon, 1e-5) * w
    moves = math.sqrt(p) / sigma

    delta = PHI.cdf(moves / 2 - epsilon / moves) - math.exp(epsilon) * PHI.cdf(-moves / 2 - epsilon / moves)

    assert 4.8621 == pytest.approx(sigma / w, abs=1e-4)
    assert 0.5 < delta < 0.55


def test_a_normaliser_from_the_data_breaks_every_sensitivity():
    """Divided by the largest distance seen, a distance variance falls from a quarter to nothing with one row."""
    x = np.repeat([0, 1000], 50).astype(object)
    tables = [Line(each, 0) for each in (x, np.concatenate([[10**6], x[1:]]))]

    before, after = (float(covariance(line, line)) / max(line.values) ** 2 for line in tables)

    assert [before, after] == pytest.approx([0.25, 0.000391698], rel=1e-6)
    assert (12 * 100 - 11) / 99**2 < before - after


def test_theorem_3_holds_in_exact_numbers():
    """Whatever constant the induced kernel c - d has, n⁻² tr KHLH is the squared distance covariance."""
    x, y = [Fraction(v) for v in (0, 1, 1, 5, 7)], [Fraction(v, 3) for v in (2, 0, 9, 4, 4)]
    n, a, b = len(x), distances(x), distances(y)
    s1, s2 = (
        sum(a[i][j] * b[i][j] for i in range(n) for j in range(n)),
        sum(sum(a[i]) * sum(b[i]) for i in range(n)),
    )
    square = s1 / n**2 - 2 * s2 / n**3 + Fraction(sum(map(sum, a)) * sum(map(sum, b))) / n**4

    for constant in (Fraction(7), Fraction(0), Fraction(22, 7)):
        k = [[constant - each for each in row] for row in a]
        means = [sum(row) / n for row in k]
        centred = [[k[i][j] - means[i] - means[j] + sum(means) / n for j in range(n)] for i in range(n)]
        assert square == sum(-centred[i][j] * b[i][j] for i in range(n) for j in range(n)) / n**2


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
    arc = Arc.within(Fraction(epsilon), places=PLACES, reach=best_half_width(epsilon))

    assert theta == pytest.approx(math.pi * arc.length / arc.places, abs=1e-4)
    assert q == pytest.approx(arc.length * arc.inside / arc.weight, abs=1e-4)
    assert mu == pytest.approx(arc.resultant, abs=1e-5)
    assert math.exp(epsilon) == pytest.approx(arc.inside / arc.outside, rel=1e-9)
