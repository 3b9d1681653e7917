"""What is measured: exact sums, reference values, and sensitivities that neighbouring tables attain or keep."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dfprivacy.rows import Batch
from dfprivacy.schema import Column
from dfprivacy_kernel.embedding import STEP, embed, points_of
from dfprivacy_kernel.statistics import Groups, Rearranged, Separation, Spread
from dfprivacy_kernel.sums import gram_of, image_of, mapped, totals

BY = Column("g", categories=("a", "b"), public=True)
LINE = (Column("x", bounds=(-1.0, 5.0), fill=2.0),)  # a sixth of the width is 1
FIVE = np.array([[0.0], [1], [2], [3], [4]])
PAIR = np.array([0, 0, 1, 1, 1])
PLANE = tuple(Column(name, bounds=(-3.0, 3.0), fill=0.0) for name in "xy")


def batch(points, codes, columns):
    rows = Batch(len(points), {})
    rows._cleaned.update({c: np.clip(values, c.low, c.high) for c, values in zip(columns, points.T, strict=True)})
    rows._encoded[BY] = np.asarray(codes)
    return rows


def apart(points, codes, columns, embedding, sizes):
    groups = Groups(BY, ("a", "b"), sizes)
    return Separation(groups, (embedding,), np.zeros(1)).value(batch(points, codes, columns))[0]


@pytest.mark.parametrize(("at", "expected"), [([0, 1, 2, 3, 4], 1.0659850493), ([0, 2, 4], 0.9780839433)])
def test_mmd_of_five_points(at, expected):
    """The MMD of five points has its reference value, with all of them or some as landmarks."""
    embedding = embed("nystrom", LINE, [math.sqrt(2)], FIVE[at])

    assert apart(FIVE, PAIR, LINE, embedding, (2, 3)) * 5 / 6 == pytest.approx(expected, abs=1e-6)


def test_moments_of_five_points():
    """So have trace, Frobenius norm and largest eigenvalue of their covariance."""
    embedding = embed("nystrom", LINE, [math.sqrt(2)], FIVE)
    spread = Spread(Groups(BY, ("a", "b"), (2, 3)), (embedding,))

    found = spread.value(batch(FIVE, PAIR, LINE)) / spread.weights / 5

    assert found == pytest.approx([0.5716254445, 0.3611305227, 0.3062800272], abs=1e-6)


def test_relabellings_of_five_points():
    """The relabelled MMDs are the six reference values, and the first is that of the table as it is."""
    embedding = embed("nystrom", LINE, [math.sqrt(2)], FIVE)
    rearranged = Rearranged(Groups(BY, ("a", "b"), (2, 3)), embedding, 300)

    found = rearranged.value(batch(FIVE, PAIR, LINE), np.random.default_rng(1))

    assert found[0] == pytest.approx(1.0659850493, abs=1e-6)
    assert sorted(set(np.round(found, 5))) == pytest.approx(
        [0.380934, 0.556192, 0.642551, 0.794457, 0.854713, 1.065985], abs=1e-5
    )


def test_one_row_attains_the_sensitivity_of_the_spread():
    """Where all rows but one are alike, bringing that one in moves all three moments by N - 1 over N."""
    far = (Column("x", bounds=(0.0, 600.0), fill=0.0),)
    embedding = embed("nystrom", far, [0.2], np.array([[0.0], [600.0]]))
    spread = Spread(Groups(BY, ("a", "b"), (5, 5)), (embedding,))
    codes = np.repeat([0, 1], 5)
    same, other = np.zeros((10, 1)), np.zeros((10, 1))
    other[0] = 600.0

    moved = spread.value(batch(other, codes, far)) - spread.value(batch(same, codes, far))

    assert moved == pytest.approx(np.full(3, 0.9), abs=1e-6)


def test_neighbours_stay_within_the_sensitivities():
    """One row's content, or its group, moves no statistic by more than is charged."""
    rng = np.random.default_rng(3)
    embedding = embed("nystrom", PLANE, [1.4], points_of(PLANE, None, 40))
    public, private = Groups(BY, ("a", "b"), (4, 9)), Groups(BY, ("a", "b"), None)
    of = frozenset({"g"})
    for _ in range(60):
        points, codes = rng.uniform(-3, 3, (13, 2)), np.repeat([0, 1], [4, 9])
        others, flipped = points.copy(), codes.copy()
        others[0] = rng.uniform(-3, 3, 2)
        flipped[0] = 1
        tables = [batch(points, codes, PLANE), batch(others, codes, PLANE), batch(others, flipped, PLANE)]
        for groups, neighbour, known in ((public, 1, of), (private, 2, frozenset())):
            for statistic in (Separation(groups, (embedding,), np.zeros(1)), Spread(groups, (embedding,))):
                moved = np.abs(statistic.value(tables[neighbour]) - statistic.value(tables[0])).max()
                assert moved <= statistic.sensitivity("replace_one", math.inf, known) + 2 * statistic.error
        rearranged = Rearranged(public, embedding, 20)
        values = [rearranged.value(table, np.random.default_rng(5)) for table in tables[:2]]
        assert np.abs(values[1] - values[0]).max() <= rearranged.sensitivity("replace_one", math.inf, of)


def test_private_groups_have_no_permutation_test():
    """Where a row can change its group, the MMD has no bounded sensitivity."""
    embedding = embed("nystrom", PLANE, [1.4], points_of(PLANE, None, 10))

    assert (
        Rearranged(Groups(BY, ("a", "b"), None), embedding, 9).sensitivity("replace_one", math.inf, frozenset())
        == math.inf
    )


def test_sums_are_exact_and_ignore_the_order():
    """Sums and mapped scatter are the same to the last bit in any order, and those of float64 but for rounding."""
    rng = np.random.default_rng(4)
    points = rng.normal(size=(9000, 2))
    embedding = embed("nystrom", PLANE, [1.0], points_of(PLANE, None, 30))
    every = np.ones(9000, dtype=np.bool_)

    def of(rows):
        sums = totals(
            rows, embedding.steps, lambda part: np.ones((1, part.stop - part.start)), (1, embedding.width)
        )
        return mapped(embedding, sums), image_of(embedding, gram_of(rows, embedding.steps, every, embedding.width))

    codes = np.zeros(9000, dtype=np.intp)
    whole, shuffled = (of(batch(each, codes, PLANE)) for each in (points, rng.permutation(points)))
    plain = np.ldexp(embedding.steps(batch(points, codes, PLANE)), -STEP) @ embedding.map.T

    assert all((a == b).all() for a, b in zip(whole, shuffled, strict=True))
    assert whole[0][0] == pytest.approx(plain.sum(axis=0), abs=1e-7)
    assert whole[1] == pytest.approx(plain.T @ plain, abs=1e-7)


@pytest.mark.parametrize("kind", ["nystrom", "me", "scf"])
def test_rows_are_at_most_root_two_apart(kind):
    """Every embedding is scaled to a diameter of √2, and rows keep it."""
    rng = np.random.default_rng(6)
    embedding = embed(kind, PLANE, [1.0, 2.0], points_of(PLANE, None, 20))
    rows = batch(rng.uniform(-3, 3, (300, 2)), np.zeros(300, dtype=np.intp), PLANE)

    found = np.ldexp(embedding.steps(rows), -STEP) @ embedding.map.T
    distances = np.linalg.norm(found[:, None] - found[None], axis=2)

    assert distances.max() <= embedding.diameter(frozenset())
    assert embedding.diameter(frozenset()) <= math.sqrt(2) * (1 + 1e-4)
