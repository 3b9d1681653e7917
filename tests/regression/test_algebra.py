"""Formulas, matrices, scores and steps of regressions: against reference numbers and plain algebra."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dfprivacy import ArgumentError, Column, SchemaError
from dfprivacy.features import Batch
from dfprivacy_regression import formula
from dfprivacy_regression.design import Design
from dfprivacy_regression.least_squares import DesignMoments, NoisySums, score_map
from dfprivacy_regression.scores import (
    HuberScore,
    Information,
    LogisticScore,
    LogisticSquares,
    discriminant_start,
    sigmoid,
)

X, Y = Column("x", bounds=(-3, 3), fill=0.0), Column("y", bounds=(-5, 5), fill=0.0)
Z = Column("z", bounds=(0, 1), fill=0.5)
G, H = Column("g", categories=("u", "v", "w")), Column("h", categories=("p", "q"))
LINE, WHOLE = Design(Y, (X,), ()), Design(Y, (X, Z), (G, H))
BINARY = Design(H, (X, Z), (G,), success="q")
V = Column("v", bounds=(0.5, 4), fill=1.0)


def exactly(design, entries):
    """Moments without noise, of entries by row and column or of a whole matrix."""
    index = design.moment_index()
    moments = np.zeros(index.max() + 1)
    if isinstance(entries, dict):
        for (i, j), value in entries.items():
            moments[index[i, j]] = value
    else:
        moments[index] = entries
    return DesignMoments(design, moments, np.zeros((len(moments), 1)), (NoisySums(np.zeros(1), np.zeros(1), 1),))


def batch(rows=300, seed=1):
    rng = np.random.default_rng(seed)
    made = Batch(rows, {})
    for column in (X, Y, Z):
        made._cleaned[column] = rng.uniform(column.low, column.high, rows)
    for column in (G, H):
        made._encoded[column] = rng.integers(0, len(column.categories), rows)
    return made


def rows_of(design, rows):
    """The rows as a design has them, with the intercept."""
    return np.vstack([np.ones(rows.size), design.rows(rows)])


# Formulas

KNOWN = {
    "a": Column("a", bounds=(-3, 3)),
    "b": Column("b", bounds=(0, 10)),
    "my column": Column("my column", bounds=(0, 1)),
    "g": Column("g", categories=("u", "v", "w")),
    "one": Column("one", categories=("k",)),
    "both": Column("both", bounds=(0, 1), categories=(0, 1)),
}


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (("a ~ b + C(g)", None), ("b", "C(g)[T.v]", "C(g)[T.w]")),
        (("a~b+g", None), ("b", "C(g)[T.v]", "C(g)[T.w]")),
        (("a ~ 1 + b + g", None), ("b", "C(g)[T.v]", "C(g)[T.w]")),
        (("a", ["b", "g"]), ("b", "C(g)[T.v]", "C(g)[T.w]")),
        (("a", "my column"), ("my column",)),
        (("a ~ both", None), ("both",)),  # numbers with categories are numbers unless it is said
        (("a ~ C(both)", None), ("C(both)[T.1]",)),
        (("a", ["C(both)"]), ("C(both)[T.1]",)),
    ],
)
def test_ways_to_say_the_same(asked, names):
    """By a formula or by names; numbers that have categories are numbers unless it is said."""
    design = formula.linear_design(*asked, KNOWN)

    assert design.names == ("Intercept", *names)
    assert design.formula() == "a ~ " + {3: "b + C(g)"}.get(len(names), names[0].removesuffix("[T.1]"))


@pytest.mark.parametrize(
    ("x", "error", "said"), [(5, ArgumentError, "not a int"), ([1], SchemaError, "no column 1")]
)
def test_what_names_no_columns_is_refused(x, error, said):
    """Numbers, alone or in a list; what a view refuses of formulas is in the table of its refusals."""
    with pytest.raises(error, match=said):
        formula.linear_design("a", x, KNOWN)


# Moments


@pytest.mark.parametrize(
    ("dimension", "sd"),
    [(5, 7.483315), (9, 12.110601), (14, 17.888544), (27, 32.903900), (54, 64.083279)],
)
def test_noise_of_a_product(dimension, sd):
    """The noise of a coordinate grows with the number of coordinates."""
    sums = NoisySums(np.zeros(dimension), np.full(dimension, 2.0), dimension)

    assert np.sqrt(sums.variances) == pytest.approx([sd] * dimension, abs=1e-6)


def test_two_stages_of_a_line():
    """A thousand rows, epsilon 1, two fifths of it for the first stage."""
    n, values = 1000, np.array([12.0, -30.0, 115.0, 33.0, 52.0])  # sums of x, y, x², xy, y²
    measured = np.array([values[0], values[1], 2 * values[2] - n, values[3], 2 * values[4] - n])
    known = DesignMoments.from_sums(LINE, n, NoisySums(measured, np.full(5, 2 / 0.4), 5))

    first = known.estimate()

    assert np.sqrt(np.diag(known.covariance))[1:6] == pytest.approx(
        [18.708287] * 2 + [9.354143, 18.708287, 9.354143]
    )
    assert first.b == pytest.approx([-0.033485408, 0.290450651], abs=1e-8)
    assert (first.M[-1, -1] - first.b @ first.M[:-1, -1]) / 998 == pytest.approx(0.041493553, abs=1e-8)

    means, units = score_map(known, first.b, 0.6)
    scored = NoisySums(np.array([8.0, -6.0, 2 * 150.0 - n]), np.full(3, 2 / 0.6), 3)
    known = known.combined_with(scored, means, units, np.zeros(3))
    last = known.estimate()

    assert known.moments[1:6] == pytest.approx(
        [11.26112569, -25.564982933, 114.584014172, 28.054124496, 61.188057062], abs=1e-6
    )
    assert last.b == pytest.approx([-0.028353475, 0.247621073], abs=1e-6)
    assert last.variance == pytest.approx(0.053623656, abs=1e-6)
    assert np.sqrt(np.diag(last.noise)) == pytest.approx([0.005013448, 0.041609964], abs=1e-6)
    errors = np.sqrt(np.diag(last.variance * last.inverse + last.noise))
    assert errors == pytest.approx([0.008877935, 0.046903018], abs=1e-6)


@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize(
    "design",
    [
        LINE,
        WHOLE,
        Design(Y, (), (G,)),
        Design(Y, (X,), (H,)),
        BINARY,
        Design(H, (), (G,), success="p"),
        Design(H, (X,), (), success="q"),
    ],
)
def test_the_matrix_is_that_of_the_rows(design, count):
    """What the features add up is put where it belongs, products that are known included."""
    rows = batch()
    z = rows_of(design, rows)
    sums = design.second_moment_features(count=count).rows(rows).sum(axis=0)

    known = DesignMoments.from_sums(
        design, None if count else rows.size, NoisySums(sums, np.zeros(len(sums)), len(sums))
    )

    assert known.matrix(known.moments) == pytest.approx(z @ z.T, abs=1e-3)
    assert len(sums) == design.second_moment_features(count=count).dimension


@pytest.mark.parametrize("count", [False, 1.0, 2.0])
def test_no_row_moves_the_moments_more(search, count):
    """The first stage: numbers, and categories, in one vector."""
    of = WHOLE.second_moment_features(count=count)

    most = search(WHOLE.columns, 1).features(of, math.inf, tries=3, steps=80)

    assert of.diameter(math.inf, frozenset()) == 2
    assert of.radius(math.inf) == (count or 1)
    assert 0.9 < most <= 1 + 1e-9


def test_a_matrix_that_is_not_positive_definite_has_no_estimate():
    """Nothing is known where the sum of squares is below 0."""
    known = DesignMoments.from_sums(LINE, 1000, NoisySums(np.array([0, 0, -1400.0, 0, 0]), np.ones(5), 5))

    assert known.estimate() is None
    assert known.eigenvalue_ratio() < 0
    assert not known.draws()[2].any()


def test_draws_are_impossible_as_often_as_the_noise_hides_the_squares():
    """The squares are 1.44 noise standard errors above 0: below it are the draws of a coordinate of the cube."""
    known = DesignMoments.from_sums(
        LINE, 1000, NoisySums(np.array([0, 0, 2 * 15.0 - 1000, 0, 0]), np.full(5, 20 / 7.483315 * 2), 5)
    )
    noise = np.random.default_rng(1).gamma(6, size=10**6) * np.random.default_rng(2).uniform(-1, 1, 10**6)

    _, weights, possible = known.draws()

    assert weights @ ~possible == pytest.approx(np.mean(noise * 20 / 7.483315 > 15), abs=0.02)


def test_two_measurements_of_the_same_are_weighted_by_their_variance():
    """One with half the scale counts four times."""
    sums = [NoisySums(np.array([1.0, 2, 3, 4, 5]), np.full(5, 2.0), 5), NoisySums(np.full(5, 6.0), np.ones(5), 5)]

    known = DesignMoments.from_sums(LINE, 1000, *sums)

    assert known.moments[:3] == pytest.approx([1000, 5, 5.2])
    assert known.covariance[1, 1] == pytest.approx(sums[1].variances[0] * 0.8)


# Scores


@pytest.mark.parametrize("robust", [False, True])
def test_the_score_is_linear_in_the_moments(robust):
    """Where no residual is clipped, the sums of the second stage follow from the matrix."""
    rows, design = batch(), WHOLE
    z, q, c = rows_of(design, rows), design.width, 10.0
    b, M = np.linspace(-0.3, 0.3, q), z @ z.T
    tilt = np.linalg.inv(M[:-1, :-1])
    tilt /= np.abs(tilt).sum(axis=1, keepdims=True)
    known = exactly(design, M)

    sums = HuberScore(design, b, c, tilt if robust else None).rows(rows).sum(axis=0)
    means, scales = score_map(known, b, c)

    assert scales * sums[: q + 1] == pytest.approx(means @ known.moments, rel=1e-9, abs=1e-9)
    assert sums[q + 1] == -rows.size
    if robust:
        residuals = z[-1] - b @ z[:-1]
        assert (sums[q + 2 :] + rows.size) / 2 == pytest.approx(((tilt @ z[:-1]) ** 2 * residuals**2).sum(1) / c**2)


@pytest.mark.parametrize("c", [0.05, 0.4])
def test_the_score_holds_what_is_clipped(c):
    """One sum is that of the residuals beyond c, over the most that one can be."""
    rows, b = batch(), np.array([0.1, -0.2])
    z, score = rows_of(LINE, rows), HuberScore(LINE, b, c)

    beyond = (score.rows(rows).sum(axis=0)[-1] + rows.size) / 2 * score.top

    assert beyond == pytest.approx(np.maximum(abs(z[-1] - b @ z[:-1]) - c, 0).sum(), rel=1e-9)
    assert score.top == pytest.approx(1.3 - c)


def of_a_line(c, *, robust):
    """The score of a line."""
    tilt = np.array([[0.5, -0.5, 0, 0], [0.25] * 4, [0, 0, 1, 0], [0.1, 0.2, 0.3, 0.4]]) if robust else None
    return [Y, X, G], HuberScore(Design(Y, (X,), (G,)), np.array([0.1, -0.7, 0.2, 0.4]), c, tilt)


def of_odds(far, *, information, weights=None):
    """The score of log odds, or their information."""
    b = far * np.array([0.2, -0.5, 0.7, 0.1, -0.3])
    columns = [H, X, Z, G] if weights is None else [H, X, Z, G, weights]
    return columns, LogisticScore(replace(BINARY, weights=weights), b, information=information)


@pytest.mark.parametrize(
    ("columns", "score"),
    [
        *(of_a_line(c, robust=robust) for c in (1e-3, 0.5, 2.0) for robust in (False, True)),
        *(of_odds(far, information=information) for far in (0.1, 1.0, 8.0, 1e6) for information in (False, True)),
        *(of_odds(far, information=information, weights=V) for far in (0.1, 8.0) for information in (False, True)),
    ],
)
def test_no_row_moves_a_score_more(search, columns, score):
    """The second stage is charged for 2 where a row changes, and for 1 where it comes or goes."""
    most = search(columns, 1).features(score, math.inf, tries=4, steps=100)
    drawn = search(columns, 2)
    rows = score.rows(drawn.batch(np.array([[drawn.drawn(each) for each in columns] for _ in range(500)])))

    assert 0.8 < most <= 1 + 1e-9
    assert score.radius(math.inf) == 1
    assert abs(rows).max() <= 1 + 1e-12


@pytest.mark.parametrize("far", [0.1, 1.0, 8.0, 1e6])
def test_no_row_moves_squares_more(search, far):
    """They are from 0 to 1 in each row, so they are charged for 1 where a row changes, comes or goes."""
    columns, b = [H, X, Z, G, V], far * np.array([0.2, -0.5, 0.7, 0.1, -0.3])
    directions = np.array([[1.0, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0.2, -0.2, 0.2, -0.2, 0.2], [0, 0, 1, 0, 0]])
    squares = LogisticSquares(replace(BINARY, weights=V), b, directions)

    most = search(columns, 1).features(squares, math.inf, tries=4, steps=100)
    drawn = search(columns, 2)
    rows = squares.rows(drawn.batch(np.array([[drawn.drawn(each) for each in columns] for _ in range(500)])))

    assert 0.8 < most <= 1 + 1e-9
    assert squares.radius(math.inf) == squares.diameter(math.inf, frozenset({"x"})) == 1
    assert squares.diameter(math.inf, frozenset(column.name for column in columns)) == 0
    assert rows.min() >= 0
    assert rows.max() <= 1


def test_a_plan_expects_the_moments_and_scores_of_typical_rows():
    """Sums of no rows are replaced by those of rows that vary by a sixth of the range."""
    known = DesignMoments.from_sums(WHOLE, None, NoisySums(np.zeros(24), np.ones(24), 24), rows=900)
    fit = known.estimate()

    expected = HuberScore(WHOLE, fit.b, 2.0, np.eye(6)).expected_sums(fit.M)

    assert np.diag(fit.M)[:3].tolist() == [900, 100, 100]
    assert expected[:7] == pytest.approx([0, 0, 0, 0, 0, 0, 2 * 100 / 4 - 900])
    assert expected[7] == -900
    assert (expected[9] + 900) / 2 == pytest.approx(100 * 100 / 4 / 900)


# Log odds


def test_the_start_is_the_discriminant():
    """A thousand rows, 270 of them ill; the sums of x are 40 and 60, that of its square 112."""
    design = Design(H, (X,), (), success="q")
    moments = {(0, 0): 1000, (0, 1): 40, (1, 2): 60, (0, 2): 270, (1, 1): 112}

    start = discriminant_start(exactly(design, moments))

    assert start == pytest.approx([-1.2424453425763726, 2.544055596922313], abs=1e-9)


def test_the_information_is_that_of_the_rows():
    """And the score is that of the likelihood, each over the most that a row can be."""
    rows, b = batch(), np.array([0.2, -0.5, 0.7, 0.1, -0.3])
    *x, outcome = rows_of(BINARY, rows)
    x = np.array(x)
    share = sigmoid(b @ x)

    score, weight = (LogisticScore(BINARY, b, information=information) for information in (False, True))
    sums = weight.top * weight.rows(rows).sum(axis=0)
    found = Information.from_sums(BINARY, b, sums, 0.0, (weight.top * rows.size, 0.0))

    assert score.top * score.rows(rows).sum(axis=0) == pytest.approx(x @ (outcome - share))
    assert score.top == pytest.approx(sigmoid(np.array([1.8]))[0])
    assert weight.top == 1 / 4
    assert pytest.approx((x * share * (1 - share)) @ x.T) == found.H


def test_weighted_sums_are_those_of_the_rows():
    """Score and information weigh a row by v, its weight over the bound, and squares of scores by v²."""
    rows, b, design = batch(), np.array([0.2, -0.5, 0.7, 0.1, -0.3]), replace(BINARY, weights=V)
    rows._cleaned[V] = np.random.default_rng(2).uniform(0.5, 4, rows.size)
    v, directions = rows._cleaned[V] / 4, np.array([[0.5, -0.5, 0, 0, 0], [0.1, 0.2, 0.3, -0.1, 0.3]])
    *x, outcome = rows_of(design, rows)
    x = np.array(x)
    share = sigmoid(b @ x)

    score, weight = (LogisticScore(design, b, information=information) for information in (False, True))
    squares = LogisticSquares(design, b, directions)
    sums = weight.top * weight.rows(rows).sum(axis=0)
    found = Information.from_sums(design, b, sums, 0.0, (weight.top * v.sum(), 0.0))

    assert score.top * score.rows(rows).sum(axis=0) == pytest.approx(x @ (v * (outcome - share)))
    assert pytest.approx((x * v * share * (1 - share)) @ x.T) == found.H
    meat = (x * (v * (outcome - share)) ** 2) @ x.T
    assert pytest.approx(np.diag(directions @ meat @ directions.T)) == squares.top * squares.rows(rows).sum(axis=0)


def test_the_information_of_normal_regressors_follows_from_their_moments():
    """A hundred thousand rows: that of the model is that of the rows; noise gives it weight, and none is left."""
    rng, b = np.random.default_rng(3), np.array([-1.0, 2.0, -0.5])
    design = Design(H, (X, Z), (), success="q")
    x = np.vstack([np.ones(100_000), [[0.6], [1.0]] * rng.normal(size=(2, 100_000)) / 4 + [[0.1], [-0.3]]])
    x[2] += x[1] / 2
    z = np.vstack([x, rng.random(100_000) < sigmoid(b @ x)])
    share = sigmoid(b @ x)
    exact = (x * share * (1 - share)) @ x.T

    model = Information.for_normal_regressors(exactly(design, z @ z.T), b)
    noisy = Information(b, exact + 500.0, np.full((3, 3), 500.0**2))

    assert pytest.approx(exact, abs=100) == model.H
    assert abs(noisy.pooled_with(model).H - exact).max() < 450
    assert (noisy.pooled_with(model).noise < noisy.noise).all()
    assert (replace(noisy, noise=np.zeros((3, 3))).pooled_with(model).H == noisy.H).all()


def test_a_step_allows_for_the_information_on_the_way():
    """From 0 towards a rare outcome, the information falls: so the step is longer, and near the maximum."""
    n, rare = 1000.0, 30.0
    information = Information(np.zeros(1), np.array([[n / 4]]), np.zeros((1, 1)))
    near = Information(np.array([-3.0]), np.array([[n * 0.0452]]), np.zeros((1, 1)))
    score = rare - n * float(sigmoid(np.array([-3.0]))[0])

    step = near.newton_step(np.array([score]))

    assert information.newton_step(np.array([5.0])) == pytest.approx([0.02], abs=1e-4)
    assert -3 + step[0] == pytest.approx(math.log(rare / (n - rare)), abs=0.03)
    assert abs(-3 + score / near.H[0, 0] - math.log(rare / (n - rare))) > 0.03
