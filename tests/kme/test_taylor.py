"""Taylor features: the formula, the error of floating point, bounds that hold and are attained, exact sums."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import dfprivacy as dp
from dfprivacy._privacy.grid import grid_exponent
from dfprivacy._table.batch import BATCH_ROWS, Batch, number
from dfprivacy.features import ProductKernel
from dfprivacy.features.base import enforced
from dfprivacy_kme.taylor import Taylor

A, B = (dp.Column(name, bounds=(0.0, 200.0), fill=100.0) for name in "ab")
PLANE = ProductKernel((A, B), 100.0)  # exp(-5e-5 d²)
BASIS = Taylor(PLANE, 6)
ROWS = np.array([[90, 110], [100, 95], [120, 105], [80, 80]], dtype=float)
NOBODY: frozenset[str] = frozenset()


def batch_of(rows, columns=(A, B)):
    return Batch(len(rows), {number(c): values for c, values in zip(columns, rows.T, strict=True)})


def sample(n, *, seed=0):
    """Rows within the bounds, corners among them."""
    rows = np.random.default_rng(seed).uniform(0, 200, (n, 2))
    corners = list(itertools.product((0.0, 200.0), repeat=2))[:n]
    rows[: len(corners)] = np.reshape(corners, (-1, 2))
    return rows


def digits(number_):
    return mpmath.mpf(Fraction(number_).numerator) / Fraction(number_).denominator


def test_reference_features():
    """The squared norm of the mean at degree 20, and the mean at degree 3."""
    long, short = Taylor(PLANE, 20), Taylor(PLANE, 3)

    mean = long.features(ROWS).mean(axis=0)

    assert mean @ mean == pytest.approx(0.96614652046639, abs=1e-13)
    expected = [
        *(0.9821410611, -0.0235354335, -0.0238420083, 0.0094180239, 0.0095802053, 0.0154663775),
        *(-0.0006836871, -0.0014472493, -0.0008376241, -0.0000861988),
    ]
    assert short.features(ROWS).mean(axis=0) == pytest.approx(expected, abs=1e-10)
    assert short.powers.tolist()[3:6] == [[0, 2], [1, 1], [2, 0]]


@pytest.mark.parametrize(
    ("reach", "degree"), [(1e-9, 3), (1.0, 12), (6.0, 40), (30.0, 9), (37.6, 60), (20.0, 450), (37.6, 1450)]
)
def test_the_error_of_floating_point(reach, degree):
    """Of numbers as floating point has them, a vector is as near to the true one as is said."""
    basis = Taylor(ProductKernel([dp.Column("x", bounds=(-reach, reach), fill=0.0)], 1.0), degree)
    numbers = reach * np.array([-1, -0.7, 1e-3, 0.5, math.nextafter(1, 0), 1])

    found = basis.features(numbers[:, None])

    assert basis.error < 2e-12
    with mpmath.workdps(60):
        for t, row in zip(numbers, found, strict=True):
            entry, squared = mpmath.exp(-(digits(t) ** 2) / 2), mpmath.mpf(0)
            for n, value in enumerate(row.tolist()):
                squared += (digits(value) - entry) ** 2
                entry *= digits(t) / mpmath.sqrt(n + 1)
            assert mpmath.sqrt(squared) <= digits(basis.error)


def test_rows_too_far_have_no_vector():
    """Where float64 has no exponential, the vector is 0, no further from any other than the diameter."""
    basis = Taylor(ProductKernel([dp.Column("x", bounds=(-50.0, 50.0), fill=0.0)], 1.0), 1500)

    rows = basis.features(np.array([[37.6], [38.5], [-38.7], [50.0]]))

    assert not rows[1:].any()
    assert np.linalg.norm(rows[0]) > 0.4
    assert basis.diameter(2, NOBODY) > math.sqrt(2)


@pytest.mark.parametrize("public", [set(), {"a"}, {"a", "b"}])
@pytest.mark.parametrize("norm", [1, 2])
def test_no_row_is_longer_and_no_two_are_further_apart(norm, public):
    """Radius and diameter are upper bounds, 0 for rows that agree, and nearly attained in L2."""
    rows, others = sample(400), sample(400, seed=1)
    for at, column in enumerate((A, B)):
        if column.name in public:
            others[:, at] = rows[:, at]
        else:
            others[:100, at] = rows[np.random.default_rng(2).integers(0, 8, 100), at]

    vectors, moved = BASIS.rows(batch_of(rows)), BASIS.rows(batch_of(rows)) - BASIS.rows(batch_of(others))

    diameter, radius = BASIS.diameter(norm, frozenset(public)), BASIS.radius(norm)
    lengths = np.linalg.norm(vectors, ord=norm, axis=1)
    assert lengths.max() <= radius
    assert np.linalg.norm(moved, ord=norm, axis=1).max() <= diameter + 1e-300
    assert (diameter == 0) == (public == {"a", "b"})
    apart = max(np.linalg.norm(vectors - row, axis=1).max() for row in vectors)
    assert norm == 1 or (lengths.max() >= 0.99 * radius and apart >= 0.9 * BASIS.diameter(2, NOBODY))


@pytest.mark.parametrize("width", [1e-12, 1e-8, 1e-4, 1.0, 30.0])
def test_what_is_charged_covers_what_moves_on_the_grid(width):
    """However narrow the bounds are beside the kernel, no change of a row moves the sum by more, exactly."""
    for scale in (1e-290, 1e-9, 1.0, 1e9, 1e290):
        columns = tuple(dp.Column(name, bounds=(-scale, scale), fill=0.0) for name in "ab")
        basis = enforced(Taylor(ProductKernel(columns, 2 * scale / width), 4))
        ends = np.array([-scale, scale, 0.0, math.nextafter(-scale, scale), 0.3 * scale])
        rows = np.array(list(itertools.product(ends, repeat=2)))
        k = grid_exponent(radius=basis.radius(2), batch_rows=BATCH_ROWS, rows_max=1000, noise=1.0)
        steps = basis.steps(batch_of(rows, columns), k).astype(np.int64).astype(object)

        most = max(sum((steps[i] - steps[j]) ** 2) for i in range(25) for j in range(i))

        charged = Fraction(basis.diameter(2, NOBODY)) * Fraction(2) ** k + Fraction(math.sqrt(15)) + 1
        assert most <= charged**2


@pytest.mark.parametrize("size", [0, 1, 700, 16384])
def test_the_core_adds_the_vectors_up(size):
    """As the core takes them, vectors are not clipped: the total is the sum of the rounded ones, in any batch."""
    rows = sample(size)
    mask = np.random.default_rng(1).random(size) < 0.4
    held = enforced(BASIS)

    steps = np.rint(np.ldexp(BASIS.rows(batch_of(rows)), 39))

    assert held.steps(batch_of(rows), 39).tolist() == steps.tolist()
    assert held.total(batch_of(rows), mask, 39).tolist() == steps[mask].sum(axis=0).tolist()
    for start, stop in [(0, 1), (1, 517), (3, 260), (255, 256), (511, 517)]:
        alone = held.steps(batch_of(rows[start:stop]), 39)
        assert alone.tolist() == steps[start:stop].tolist()


def test_the_core_takes_the_diameter():
    """The author's diameter, below twice the radius, is what the sensitivity is made of."""
    held = enforced(BASIS)

    assert held.states_a_diameter
    assert held.diameter(2, NOBODY) == BASIS.diameter(2, NOBODY) < 1.5 < 2 * BASIS.radius(2)


@pytest.mark.parametrize(("columns", "degree"), [((A, B), -1), ((A, dp.Column("arm", categories=(1, 2))), 2)])
def test_arguments_that_cannot_be_used(columns, degree):
    """A degree below 0, and categories, are refused."""
    with pytest.raises(dp.ArgumentError):
        Taylor(ProductKernel(columns, 1.0), degree)
