"""What is measured: exact sums, reference values, and the sample that stands for many rows."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from dfprivacy import features
from dfprivacy._table.batch import Batch
from dfprivacy.schema import Column
from dfprivacy_kernel.design import Groups
from dfprivacy_kernel.embedding import (
    STEP,
    Embedding,
    Sample,
    apply_map,
    location_points,
    make_embedding,
    sums_and_products,
    weighted_sums,
)
from dfprivacy_kernel.moments import TwoSampleMoments, max_feature_difference
from dfprivacy_kernel.statistics import (
    CovarianceMoments,
    PairedSeparation,
    PermutedMMD,
    Separation,
    WhitenedMMD,
    random_subset,
    sample_mask,
    sampled_share,
    whitened_sensitivity,
)

PAIR = ("a", "b")
BY = Column("g", categories=(*PAIR, "c"), public=True)
LINE = (Column("x", bounds=(-1.0, 5.0), fill=2.0),)  # a sixth of the width is 1
FIVE = np.arange(5.0)[:, None]
TWO_THREE = np.repeat([0, 1], [2, 3])
PLANE = tuple(Column(name, bounds=(-3.0, 3.0), fill=0.0) for name in "xy")
MIXED = (PLANE[0], Column("z", categories=("p", "q", "r")))
LANDMARKS = make_embedding("nystrom", PLANE, [1.4], location_points(PLANE, None, 40))


def batch(rows, columns=PLANE, groups=None):
    """Rows as features read them; a category by its code."""
    rows = np.asarray(rows, dtype=float).reshape(-1, len(columns))
    made = Batch(len(rows), {})
    for values, column in zip(rows.T, columns, strict=True):
        made._missing[column] = np.zeros(len(rows), dtype=np.bool_)
        if column.bounds is None:
            made._encoded[column] = values.astype(np.intp)
        else:
            made._cleaned[column] = np.clip(values, *column.bounds)
    made._encoded[BY] = np.arange(len(rows)) % 2 if groups is None else np.asarray(groups)
    return made


def embedded(embedding, rows):
    return np.ldexp(embedding.integer_features(rows), -STEP) @ embedding.map.T


# Reference values


def test_statistics_of_five_points():
    """MMD with all or some as landmarks, moments of the covariance, and all relabellings have reference values."""
    groups, rows = Groups(BY, PAIR, (2, 3)), batch(FIVE, LINE, TWO_THREE)
    whole, part = (make_embedding("nystrom", LINE, [math.sqrt(2)], FIVE[at]) for at in ([0, 1, 2, 3, 4], [0, 2, 4]))
    apart = [(Separation(groups, each).value(rows) * Separation(groups, each).part)[0] for each in (whole, part)]
    spread = CovarianceMoments(groups, whole)
    rearranged = PermutedMMD(groups, whole, 300).value(rows, np.random.default_rng(1))
    far = make_embedding(
        "nystrom", (Column("x", bounds=(0.0, 600.0), fill=0.0),), [0.1], np.array([[0.0], [600.0]])
    )
    of_far = PermutedMMD(Groups(BY, PAIR, (100, 300)), far, 9)

    assert np.array(apart) * 5 / 6 == pytest.approx([1.0659850493, 0.9780839433], abs=1e-6)
    assert spread.value(rows) / spread.weights / 5 == pytest.approx([0.5716254, 0.3611305, 0.3062801], abs=1e-6)
    assert rearranged[0] == pytest.approx(1.0659850493, abs=1e-6)
    assert sorted(set(np.round(rearranged, 5))) == pytest.approx(
        [0.380934, 0.556192, 0.642551, 0.794457, 0.854713, 1.065985], abs=1e-5
    )
    assert of_far.sensitivity("replace_one", math.inf, frozenset("g")) == pytest.approx(0.0141421356, rel=1e-6)


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
    assert found > whitened_sensitivity(n, m, diameter, diameter**2, 2 * gamma, clip)


def test_whitened_statistics():
    """Of five points; of rows of mean w and second moment Λ beside their mirror images, T² = 2 n w'(Λ + γI)⁻¹w."""
    # y = (x - 2)/3 and y²/2: the maps give x, and x and x²/4, but for constants
    moments = features.Moments(LINE[0])
    plane = tuple(Column(name, bounds=(-1.0, 1.0), fill=0.0) for name in "xy")
    numbers = tuple(features.Moments(column, degree=1) for column in plane)
    z = np.array([[0.2, -0.1], [0.4, 0.3], [-0.5, 0.6], [0.1, 0.1]])
    mirrored = batch(np.vstack([z, -z]), plane, np.repeat([0, 1], 4))
    of_five = Groups(BY, PAIR, (2, 3)), 0.5, batch(FIVE, LINE, TWO_THREE)
    asked = [
        ((moments,), [[3.0, 0.0]], FIVE, *of_five, 1.7320508076),
        ((moments,), [[3.0, 0.0], [3.0, 4.5]], FIVE, *of_five, 1.7592501926),
        (numbers, np.eye(2), z, Groups(BY, PAIR, (4, 4)), 0.1, mirrored, math.sqrt(8 * 0.2807892150)),
    ]
    for parts, map_, points, groups, gamma, rows, expected in asked:
        embedding = Embedding(parts, np.array(map_), tuple((each, 3.0) for each in parts), points)
        whitened = WhitenedMMD(groups, embedding, 1, 1.0)
        whitened.gamma = gamma

        assert whitened.value(rows, np.random.default_rng(1))[0] == pytest.approx(expected, rel=1e-6)


def test_moments_are_what_they_say():
    """The weighted value holds the difference of the means, the pooled mean, and the pooled second moment."""
    embedding = make_embedding("me", PLANE, [1.0], location_points(PLANE, None, 4), mapped=False)
    rows = batch(np.random.default_rng(11).uniform(-3, 3, (50, 2)), groups=np.repeat([0, 1], [20, 30]))
    v, asked = embedded(embedding, rows), TwoSampleMoments(Groups(BY, PAIR, (20, 30)), embedding, "me")

    expected = [v[:20].mean(axis=0) - v[20:].mean(axis=0), v.mean(axis=0), (v.T @ v / 50)[np.triu_indices(4)]]
    assert np.abs(v).max() <= 0.5
    assert asked.value(rows) / asked.weights == pytest.approx(np.concatenate(expected), abs=1e-9)
    line, whole = batch([0.0, 1, 3, 4], LINE, [0, 0, 1, 1]), make_embedding("nystrom", LINE, [math.sqrt(2)], FIVE)
    phi = embedded(whole, line)  # pairs are in the order of the rows
    found = PairedSeparation(Groups(BY, PAIR, (2, 2), paired=True), whole).value(line)[0]
    assert found == pytest.approx(float(np.linalg.norm(phi[0] - phi[2] + phi[1] - phi[3])), abs=1e-9)


def test_noise_of_nystrom_features_is_a_path_of_a_gaussian_process():
    """Alike in all coordinates of the span of landmarks, at the landmarks it has the kernel as its covariance."""
    embedding = make_embedding("nystrom", PLANE, (1.5,), location_points(PLANE, None, 12))
    K, to_values = embedding.parts[0].features(embedding.points), np.linalg.inv(embedding.map)

    assert to_values @ to_values.T == pytest.approx(K, abs=1e-6)
    assert np.trace(np.linalg.solve(K, to_values @ to_values.T)) == pytest.approx(12, abs=1e-4)  # J, without bound


@pytest.mark.parametrize("kind", ["nystrom", "me", "scf"])
def test_rows_are_at_most_root_two_apart(kind):
    """Every embedding is scaled to a diameter of √2, and rows keep it."""
    embedding = make_embedding(kind, PLANE, [1.0, 2.0], location_points(PLANE, None, 20))
    found = embedded(embedding, batch(np.random.default_rng(6).uniform(-3, 3, (300, 2))))
    distances = np.linalg.norm(found[:, None] - found[None], axis=2)

    assert distances.max() <= embedding.diameter(frozenset()) <= math.sqrt(2) * (1 + 1e-4)


@pytest.mark.parametrize("kind", ["me", "scf"])
def test_no_feature_moves_farther_than_it_can(kind):
    """Any one feature of two rows differs by the stated most at most, and by nearly as much."""
    embedding = make_embedding(kind, PLANE, [1.0], location_points(PLANE, None, 20), mapped=False)
    found = embedded(embedding, batch(np.random.default_rng(6).uniform(-3, 3, (300, 2))))
    most = max_feature_difference(kind, found.shape[1])

    assert 0.8 * most <= np.ptp(found, axis=0).max() <= most * (1 + 1e-4)


def test_random_subsets_are_uniform():
    """Every subset of the size is drawn equally often."""
    rng = np.random.default_rng(9)
    counts = Counter(tuple(np.flatnonzero(random_subset(2, 5, rng))) for _ in range(5000))

    assert set(counts) == {*itertools.combinations(range(5), 2)}
    assert stats.chisquare([*counts.values()]).pvalue > 1e-6


# Exact sums


def test_sums_are_exact_and_ignore_the_order():
    """Sums and mapped scatter are the same to the last bit in any order, and those of float64 but for rounding."""
    rng = np.random.default_rng(4)
    points = rng.normal(size=(9000, 2))
    embedding = make_embedding("nystrom", PLANE, [1.0], location_points(PLANE, None, 30))

    def of(rows):
        sample = Sample(embedding, rows, np.arange(9000))
        sums = weighted_sums(sample, lambda part: np.ones((1, part.stop - part.start)), 1)
        total, products = sample.moments()
        assert np.array_equal(total, apply_map(embedding, sums)[0])
        return total, products

    whole, shuffled = of(batch(points)), of(batch(rng.permutation(points)))
    plain = embedded(embedding, batch(points))

    assert all((a == b).all() for a, b in zip(whole, shuffled, strict=True))
    assert whole[0] == pytest.approx(plain.sum(axis=0), abs=1e-7)
    assert whole[1] == pytest.approx(plain.T @ plain, abs=1e-7)


@pytest.mark.parametrize("n", [1, 1023, 3000])
def test_sums_of_products_are_exact(n):
    """They are what integers of any size give, also of the largest values there are."""
    rng, most = np.random.default_rng(6), 2**26
    for values in (
        rng.integers(0, most + 1, (n, 7)),
        rng.integers(-most, most + 1, (n, 7)),
        np.full((n, 7), most),
        np.full((n, 7), -most),
        most - 1 - 2 * rng.integers(0, 2, (n, 7)),
    ):
        found, plain = sums_and_products(np.array_split(values.astype(float), 3), 7), values.astype(object)

        assert found[0].tolist() == plain.sum(axis=0).tolist()
        assert found[1].tolist() == plain.T.dot(plain).tolist()
    assert not sums_and_products([np.zeros((0, 7))], 7)[1].any()


# The sample that tells the spread of many rows


@pytest.mark.parametrize("columns", [PLANE, MIXED])
def test_a_row_more_draws_itself_or_nothing(columns):
    """Whatever the order and the sign of zero: one more row draws one more with its values, or none."""
    rng = np.random.default_rng(1)
    changes = Counter()

    def sample(rows):
        found = sample_mask(batch(rows, columns), columns, 0.5)
        return Counter(map(tuple, (rows[found] + 0.0).tolist()))

    for _ in range(150):
        rows = rng.integers(0, 3, (rng.integers(0, 30), 2)).astype(float)
        another = rng.integers(0, 3, 2).astype(float)
        before, after = sample(rows), sample(np.insert(rows, rng.integers(0, len(rows) + 1), another, axis=0))
        shuffled = rng.permutation(rows)
        assert sample(np.where((shuffled == 0) & (columns is PLANE), -0.0, shuffled)) == before
        assert not before - after
        assert (after - before) in (Counter(), Counter([tuple(another.tolist())]))
        changes[sum((after - before).values())] += 1

    assert min(changes[0], changes[1]) > 30


@pytest.mark.parametrize("distinct", [1, 40, None])
def test_a_share_of_the_rows_is_drawn(distinct):
    """Of rows that are all alike, of few kinds, or all different, about the share is drawn, and near each value."""
    rng, n, share = np.random.default_rng(3), 100_000, 0.25
    rows = rng.normal(size=(n, 2)).clip(-3, 3) if distinct is None else rng.integers(0, distinct, (n, 2)) / 40
    found = sample_mask(batch(rows), PLANE, share)
    low = rows[:, 0] < np.median(rows[:, 0])

    for part in (np.ones(n, dtype=np.bool_), low, ~low):
        expected = share * part.sum()
        assert abs((found & part).sum() - expected) <= 5.5 * math.sqrt(expected * (1 - share))


@pytest.mark.parametrize(
    ("rows", "epsilon", "expected"),
    [
        ((10_000, 20_000), 1.0, 1.0),
        ((1 << 17, 1 << 17), 1.0, 0.125),
        ((1 << 17, 1 << 17), 0.5, 0.25),
        ((1 << 17, 1 << 17), 9.0, 0.125),
        (None, 1.0, 1.0),
    ],
)
def test_as_many_rows_are_drawn_as_tell_enough(rows, epsilon, expected):
    """Up to 2^15 rows all count, of more as many, times 1/epsilon; and all where their number is private."""
    assert expected == sampled_share(Groups(BY, PAIR, rows, (), rows), LANDMARKS, epsilon)


def test_the_sample_tells_the_spread_of_all_rows():
    """Moments of a sample are about those of all rows; a row that is not compared is not drawn."""
    rng, n = np.random.default_rng(5), 20_000
    points, chosen = rng.normal(size=(n, 2)), np.arange(n) % 3 > 0
    codes = np.where(chosen, np.arange(n) % 2, 2)
    rows, alone = batch(points, groups=codes), batch(points[chosen], groups=codes[chosen])
    groups = Groups(BY, PAIR, tuple(np.bincount(codes)[:2].tolist()))
    whole, part = (CovarianceMoments(groups, LANDMARKS, share) for share in (1.0, 0.5))

    assert part.value(rows).tolist() == part.value(alone).tolist()
    assert part.value(rows) / part.weights == pytest.approx(whole.value(rows) / whole.weights, rel=0.05)
    # Where all columns are public the same rows are drawn; else public ones make nothing smaller.
    columns = (Column("x", bounds=(-3.0, 3.0), fill=0.0, public=True), MIXED[1])
    embedding = make_embedding("nystrom", columns, [1.4], location_points(columns, None, 40))

    def moved(public, share=1.0):
        asked = CovarianceMoments(Groups(BY, PAIR, (6, 6)), embedding, share)
        return asked.sensitivity("replace_one", math.inf, frozenset(public))

    assert moved("gxz", 0.5) == 0
    assert moved("gx") < moved("gx", 0.5) == moved("g")
