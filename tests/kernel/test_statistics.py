"""What is measured: exact sums, reference values, and sensitivities that neighbouring tables attain or keep."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dfprivacy import features
from dfprivacy._table.batch import Batch
from dfprivacy.schema import Column
from dfprivacy_kernel.design import Groups
from dfprivacy_kernel.embedding import STEP, Embedding, Sample, embed, mapped, points_of, totals
from dfprivacy_kernel.moments import Differences, Summary
from dfprivacy_kernel.statistics import (
    Flipped,
    PairedSeparation,
    Rearranged,
    Separation,
    Spread,
    Whitened,
    subset,
    whitened_sensitivity,
)

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
    asked = Separation(groups, embedding)
    return asked.value(batch(points, codes, columns))[0] * asked.part


@pytest.mark.parametrize(("at", "expected"), [([0, 1, 2, 3, 4], 1.0659850493), ([0, 2, 4], 0.9780839433)])
def test_mmd_of_five_points(at, expected):
    """The MMD of five points has its reference value, with all of them or some as landmarks."""
    embedding = embed("nystrom", LINE, [math.sqrt(2)], FIVE[at])

    assert apart(FIVE, PAIR, LINE, embedding, (2, 3)) * 5 / 6 == pytest.approx(expected, abs=1e-6)


def test_moments_of_five_points():
    """So have trace, Frobenius norm and largest eigenvalue of their covariance."""
    embedding = embed("nystrom", LINE, [math.sqrt(2)], FIVE)
    spread = Spread(Groups(BY, ("a", "b"), (2, 3)), embedding)

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
    spread = Spread(Groups(BY, ("a", "b"), (5, 5)), embedding)
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
            for statistic in (Separation(groups, embedding), Spread(groups, embedding)):
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

    def of(rows):
        sample = Sample(embedding, rows, np.arange(9000))
        sums = totals(sample, lambda part: np.ones((1, part.stop - part.start)), 1)
        total, products = sample.moments()
        assert np.array_equal(total, mapped(embedding, sums)[0])
        return total, products

    codes = np.zeros(9000, dtype=np.intp)
    whole, shuffled = (of(batch(each, codes, PLANE)) for each in (points, rng.permutation(points)))
    plain = np.ldexp(embedding.steps(batch(points, codes, PLANE)), -STEP) @ embedding.map.T

    assert all((a == b).all() for a, b in zip(whole, shuffled, strict=True))
    assert whole[0] == pytest.approx(plain.sum(axis=0), abs=1e-7)
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


# Whitened


@pytest.mark.parametrize(
    ("given", "expected", "looser"),
    [
        ((1000, 1000, math.sqrt(2), 0.05, 8), 0.2188095214, 0.2997665275),
        ((10_000, 10_000, math.sqrt(2), 0.01, 8), 0.1392042516, 0.1795990148),
        ((500, 1500, math.sqrt(5), 0.1, 6), 0.3440888231, 0.4219475415),
        ((2000, 2000, math.sqrt(2), 0.02, 8), 0.2543133738, 0.3556110180),
    ],
)
def test_whitened_sensitivity(given, expected, looser):
    """The sensitivity of the whitened statistic is below the bound that follows from the largest rate of change."""
    n, m, diameter, gamma, clip = given
    found = whitened_sensitivity(n, m, diameter, diameter**2, gamma, clip)

    assert found == pytest.approx(expected, rel=2e-9)
    assert found < looser


# The features of the column are y = (x - 2)/3 and y²/2, so these maps give x, and x and x²/4, but for constants.
@pytest.mark.parametrize(
    ("map_", "expected"), [([[3.0, 0.0]], 1.7320508076), ([[3.0, 0.0], [3.0, 4.5]], 1.7592501926)]
)
def test_whitened_statistic_of_five_points(map_, expected):
    """So has the statistic of five points, with the features x, and x and x²/4."""
    moments = features.Moments(LINE[0])
    embedding = Embedding((moments,), np.array(map_), ((moments, 3.0),), FIVE)
    whitened = Whitened(Groups(BY, ("a", "b"), (2, 3)), embedding, 1, 1.0)
    whitened.gamma = 0.5

    found = whitened.value(batch(FIVE, PAIR, LINE), np.random.default_rng(1))

    assert found[0] == pytest.approx(expected, rel=1e-6)


def test_whitened_statistic_of_one_sample():
    """Against their mirror images, rows of mean w and second moment Λ have T² = 2 n a, a = w'(Λ + γI)⁻¹w."""
    plane = tuple(Column(name, bounds=(-1.0, 1.0), fill=0.0) for name in "xy")
    z = np.array([[0.2, -0.1], [0.4, 0.3], [-0.5, 0.6], [0.1, 0.1]])
    numbers = tuple(features.Moments(column, degree=1) for column in plane)
    embedding = Embedding(numbers, np.eye(2), tuple((each, 1.0) for each in numbers), z)
    whitened = Whitened(Groups(BY, ("a", "b"), (4, 4)), embedding, 1, 1.0)
    whitened.gamma = 0.1

    T = whitened.value(batch(np.vstack([z, -z]), np.repeat([0, 1], 4), plane), np.random.default_rng(1))[0]
    a = T**2 / 8

    assert a == pytest.approx(0.2807892150, rel=1e-6)
    assert 4 * a == pytest.approx(1.1231568600, rel=1e-6)
    assert 4 * a / (1 - a) == pytest.approx(1.5616518598, rel=1e-6)


def test_whitened_neighbours_stay_within_the_sensitivity():
    """One row's content moves no whitened statistic by more than is charged, near the threshold and far from it."""
    rng = np.random.default_rng(8)
    embedding = embed("nystrom", PLANE, [1.0], points_of(PLANE, None, 6))
    groups = Groups(BY, ("a", "b"), (6, 14))
    whitened = Whitened(groups, embedding, 8, 2.0)
    claimed = whitened.sensitivity("replace_one", math.inf, frozenset({"g"}))
    codes = np.repeat([0, 1], [6, 14])
    largest = 0.0
    for _ in range(150):
        spread = rng.choice([0.01, 0.3, 1.5])
        points = np.clip(rng.normal(0, spread, (20, 2)) + np.where(codes == 0, rng.normal(), 0)[:, None], -3, 3)
        others = points.copy()
        others[0] = rng.choice([-3.0, 3.0], 2)
        values = [whitened.value(batch(each, codes, PLANE), np.random.default_rng(5)) for each in (points, others)]
        largest = max(largest, float(np.abs(values[1] - values[0]).max()))

    assert 0.05 * claimed < largest <= claimed + 2 * whitened.error


def test_one_row_nearly_attains_the_whitened_sensitivity():
    """Two groups close together, far enough apart for T = 8, and a row of their middle that goes far away."""
    (column,) = columns = (Column("x", bounds=(-1.0, 1.0), fill=0.0),)
    number = features.Moments(column, degree=1)
    embedding = Embedding((number,), np.eye(1), ((number, 1.0),), np.zeros((1, 1)))
    whitened = Whitened(Groups(BY, ("a", "b"), (5000, 5000)), embedding, 1, 1.0)
    whitened.gamma, codes = 0.04, np.repeat([0, 1], 5000)
    near = np.where(codes == 0, -1.0, -1 + 0.0321)[:, None]
    near[0] = -1 + 0.01605
    far = near.copy()
    far[0] = 1.0

    T, moved = (whitened.value(batch(rows, codes, columns), np.random.default_rng(1))[0] for rows in (near, far))

    assert pytest.approx(8, abs=0.05) == T
    assert 0.95 < (T - moved) / whitened.sensitivity("replace_one", math.inf, frozenset({"g"})) <= 1


def test_random_subsets_are_uniform():
    """Every subset of the size is drawn equally often."""
    rng = np.random.default_rng(9)
    drawn = [tuple(np.flatnonzero(subset(2, 5, rng))) for _ in range(20_000)]

    counts = [drawn.count(pair) for pair in itertools.combinations(range(5), 2)]

    assert sum(counts) == 20_000
    assert stats.chisquare(counts).pvalue > 1e-6


# Moments


@pytest.mark.parametrize("kind", ["me", "scf", "nystrom"])
def test_neighbours_move_moments_by_one(kind):
    """In units of their noise, one row moves difference, mean and second moment together by 1 at most."""
    rng = np.random.default_rng(10)
    embedding = embed(kind, PLANE, [0.5], points_of(PLANE, None, 3), mapped=False)
    sizes, codes, of = (4, 9), np.repeat([0, 1], [4, 9]), frozenset({"g"})
    together = Differences(Groups(BY, ("a", "b"), sizes), embedding, kind)
    apart = Summary(Groups(None, (), (13,)), embedding, kind)
    corners = [*itertools.product([-3.0, 0.0, 3.0], repeat=2), *np.round(embedding.points[:3], 3).clip(-3, 3)]
    largest = 0.0
    for _ in range(80):
        points = rng.uniform(-3, 3, (13, 2))
        others = points.copy()
        row = rng.integers(2) * 4
        points[row], others[row] = (corners[i] for i in rng.choice(len(corners), 2))
        for statistic in (together, apart):
            claimed = statistic.sensitivity("replace_one", 2, of)
            moved = statistic.value(batch(others, codes, PLANE)) - statistic.value(batch(points, codes, PLANE))
            largest = max(largest, float(np.linalg.norm(moved)))
            assert np.linalg.norm(moved) <= claimed + 2 * statistic.error * math.sqrt(statistic.dimension)

    assert largest > 0.5
    assert (
        math.inf == together.sensitivity("add_remove", 2, of) == together.sensitivity("replace_one", 2, frozenset())
    )


def test_moments_are_what_they_say():
    """The weighted value holds the difference of the means, the pooled mean, and the pooled second moment."""
    rng = np.random.default_rng(11)
    points, codes = rng.uniform(-3, 3, (50, 2)), np.repeat([0, 1], [20, 30])
    embedding = embed("me", PLANE, [1.0], points_of(PLANE, None, 4), mapped=False)
    v = np.ldexp(embedding.steps(batch(points, codes, PLANE)), -STEP)
    asked = Differences(Groups(BY, ("a", "b"), (20, 30)), embedding, "me")

    found = asked.value(batch(points, codes, PLANE)) / asked.weights

    assert np.abs(v).max() <= 0.5
    assert found[:4] == pytest.approx(v[:20].mean(axis=0) - v[20:].mean(axis=0), abs=1e-9)
    assert found[4:8] == pytest.approx(v.mean(axis=0), abs=1e-9)
    assert found[8:] == pytest.approx((v.T @ v / 50)[np.triu_indices(4)], abs=1e-9)


# Pairs


def test_pairs_move_by_what_is_charged():
    """One person's two rows move the paired statistics by their sensitivity at most."""
    rng = np.random.default_rng(12)
    embedding = embed("nystrom", PLANE, [0.5], points_of(PLANE, None, 10))
    located = embed("me", PLANE, [0.5], points_of(PLANE, None, 3), mapped=False)
    of, codes = frozenset({"g"}), np.repeat([0, 1], 6)
    pairs = Groups(BY, ("a", "b"), (6, 6), paired=True)
    asked = [
        (PairedSeparation(pairs, embedding), math.inf),
        (Spread(pairs, embedding), math.inf),
        (Flipped(pairs, embedding, 10), math.inf),
        (Summary(pairs, located, "me"), 2),
    ]
    largest = np.zeros(4)
    for _ in range(60):
        points = rng.uniform(-3, 3, (12, 2))
        others = points.copy()
        others[[0, 6]] = rng.choice([-3.0, 0.0, 3.0], (2, 2))
        for i, (statistic, norm) in enumerate(asked):
            generator = [np.random.default_rng(5)] if isinstance(statistic, Flipped) else []
            after = statistic.value(batch(others, codes, PLANE), *generator)
            generator = [np.random.default_rng(5)] if isinstance(statistic, Flipped) else []
            moved = float(
                np.linalg.norm(after - statistic.value(batch(points, codes, PLANE), *generator), ord=norm)
            )
            largest[i] = max(largest[i], moved / statistic.sensitivity("replace_one", norm, of))

    assert (largest > 0.2).all()
    assert (largest <= 1 + 1e-9).all()


def test_pairs_are_in_the_order_of_the_rows():
    """The mean difference of pairs is that of the first half of the rows from the second."""
    points = np.array([[0.0], [1], [3], [4]])
    embedding = embed("nystrom", LINE, [math.sqrt(2)], FIVE)
    rows = batch(points, np.array([0, 0, 1, 1]), LINE)
    phi = np.ldexp(embedding.steps(rows), -STEP) @ embedding.map.T

    found = PairedSeparation(Groups(BY, ("a", "b"), (2, 2), paired=True), embedding).value(rows)[0]

    assert found == pytest.approx(float(np.linalg.norm(phi[0] - phi[2] + phi[1] - phi[3])), abs=1e-9)


# What is not offered


def test_the_printed_sensitivity_is_none():
    """One row moves the printed chi-squared statistic by more than its printed bound."""
    n, gamma = 1000, 0.01

    def printed(z):
        w = z.mean()
        return n * w**2 / (np.mean(z**2) + gamma - w**2)

    z = np.full(n, 0.01)
    other = z.copy()
    other[0] = -1.0
    claimed = 4 / (n * gamma) * (1 + 1 / n)

    assert abs(printed(other) - printed(z)) > 6 * claimed


# Kernels and their sensitivities


def test_sensitivity_of_the_mmd():
    """Where rows can be as far apart as any, it is √2 over the smaller group."""
    far = (Column("x", bounds=(0.0, 600.0), fill=0.0),)
    embedding = embed("nystrom", far, [0.1], np.array([[0.0], [600.0]]))
    rearranged = Rearranged(Groups(BY, ("a", "b"), (100, 300)), embedding, 9)

    assert rearranged.sensitivity("replace_one", math.inf, frozenset({"g"})) == pytest.approx(
        0.0141421356, rel=1e-6
    )
