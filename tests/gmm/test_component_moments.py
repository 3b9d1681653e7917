"""Moments about the components of a mixture: their bounds hold in floating point, at every scale."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dfprivacy import ArgumentError, Column
from dfprivacy._table.batch import Batch, number
from dfprivacy.features import Given
from dfprivacy.features.base import enforced
from dfprivacy_gmm.polish import MixtureMoments

NOBODY: frozenset[str] = frozenset()
BOUNDS = {
    "unit": (0.0, 1.0),
    "least": (-1e-300, 1e-300),
    "two floats": (1e16, 1e16 + 2),
    "largest": (-8e307, 8e307),
    "lopsided": (-1e300, 1e299),
}
K_BITS = 40


def columns_of(low, high):
    return tuple(Column(name, bounds=(low, high), fill=low / 2 + high / 2) for name in "xy")


def mixture(columns, spread):
    """Three components: a slanted one, a round one of a spread, and a thin one."""
    means = np.array([[0.3, -0.2], [-1.0, 1.0], [0.0, 0.0]])
    roots = np.array([[[1.0, 0], [0.5, 0.7]], [[spread, 0], [0, spread]], [[0.1, 0], [-0.3, 0.02]]])
    return MixtureMoments(columns, np.array([0.5, 0.2, 0.3]), means, roots)


def batch_of(columns, *, gaps=False):
    """Corners of the bounds, their neighbours, the middle, and numbers between, perhaps with missing ones."""
    low, high = columns[0].low, columns[0].high
    marks = [low, high, columns[0].mid, math.nextafter(low, high), math.nextafter(high, low)]
    share = np.random.default_rng(0).random((12, 2))
    between = np.clip(low * (1 - share) + high * share, low, high)
    rows = np.array([*itertools.product(marks, repeat=2), *between, *([[math.nan, low]] if gaps else [])])
    return Batch(len(rows), {number(column): rows[:, i] for i, column in enumerate(columns)})


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("spread", [0.4, 1e-200])
@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_no_row_moves_the_sum_by_more_than_is_said(bounds, spread, gaps):
    """In exact arithmetic, over corners and random rows, complete or not, and with components thinner than rows."""
    columns = columns_of(*bounds)
    features = mixture(columns, spread)
    asked = enforced(Given(*columns, of=features) if gaps else features)

    with np.errstate(all="ignore"):
        steps = asked.steps(batch_of(columns, gaps=gaps), K_BITS).astype(np.int64).tolist()

    for norm in (1, 2, math.inf):
        moves = [[a - b for a, b in zip(*pair, strict=True)] for pair in itertools.combinations(steps, 2)]
        for vectors, said in ((steps, asked.radius(norm)), (moves, asked.diameter(norm, NOBODY))):
            size = {1: asked.dimension, 2: math.sqrt(asked.dimension), math.inf: 1}[norm] + 1
            allowed = Fraction(said) * 2**K_BITS + Fraction(size)
            if norm == math.inf:
                assert max(abs(step) for vector in vectors for step in vector) <= allowed
            else:
                assert max(sum(abs(step) ** norm for step in vector) for vector in vectors) <= allowed**norm


@pytest.mark.parametrize("d", range(1, 7))
def test_closed_forms_are_rounded_up(d):
    """Radii and diameters are above their formulas at 60 digits, by next to nothing."""
    columns = [Column(str(i), bounds=(0.0, 1.0), fill=0.5) for i in range(d)]
    found = MixtureMoments(columns, np.ones(3) / 3, np.zeros((3, d)), np.stack([np.eye(d)] * 3))

    with mpmath.workdps(60):
        r = mpmath.mpf(Fraction(found.reach).numerator) / Fraction(found.reach).denominator
        euclidean, absolute = mpmath.mpf(3) / 2, mpmath.mpf(3) / 2 + mpmath.sqrt(d) + (d - 1) / mpmath.sqrt(2)
        for said, true in [
            (found.radius(2), r * euclidean),
            (found.diameter(2, NOBODY), mpmath.sqrt(mpmath.mpf("4.5")) * r),
            (found.radius(1), r * absolute),
            (found.diameter(1, NOBODY), 2 * r * absolute),
            (found.radius(math.inf), r),
            (found.diameter(math.inf, NOBODY), 2 * r),
        ]:
            assert true <= mpmath.mpf(said) * (1 + mpmath.mpf("1e-16")) <= true * (1 + mpmath.mpf("1e-13"))


def test_public_columns_have_no_diameter():
    """Rows that agree on all columns have one vector."""
    columns = columns_of(0.0, 1.0)

    assert mixture(columns, 1.0).diameter(2, frozenset("xy")) == 0
    assert mixture(columns, 1.0).diameter(2, frozenset("x")) > 0


@pytest.mark.parametrize(
    ("weights", "means", "roots", "match"),
    [
        (np.ones(2), np.zeros((1, 2)), np.eye(2)[None], "are no mixture"),
        (np.ones(1), np.zeros((1, 2)), np.eye(3)[None], "are no mixture"),
        (np.zeros(1), np.zeros((1, 2)), np.eye(2)[None], "is not positive"),
        (np.ones(1), np.full((1, 2), math.inf), np.eye(2)[None], "not finite"),
        (np.ones(1), np.zeros((1, 2)), -np.eye(2)[None], "is not positive"),
    ],
)
def test_what_is_no_mixture_is_refused(weights, means, roots, match):
    """Shapes fit, weights and standard deviations are positive, all numbers finite."""
    with pytest.raises(ArgumentError, match=match):
        MixtureMoments(columns_of(0.0, 1.0), weights, means, roots)
