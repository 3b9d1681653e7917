"""What the paper offers by name: its noise, its reduced sets, functions of X, and the exponential mechanism."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_ndtr, ndtr

import dfprivacy as dp
from dfprivacy.features import Fourier, Nystrom, ProductKernel, gaussian_frequencies, spread
from dfprivacy.schema import Column
from dfprivacy.statistics import gaussian_scale
from dfprivacy.testing import seeded_noise
from dfprivacy_kme.fitting import hull
from dfprivacy_kme.mechanisms import Closeness, classical_scale, part_of_the_price

N = 4000
BOUNDS = {"x": (0.0, 100.0), "y": (-1.0, 1.0)}
X, Y = (Column(name, bounds=ends) for name, ends in BOUNDS.items())


def protect(**terms):
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"x": np.clip(rng.normal(60, 12, N), 0, 100), "y": rng.uniform(-1, 1, N)})
    return dp.protect(
        frame, "paper", **{"epsilon": 50, "delta": 0.1, "bounds": BOUNDS, "ledger": "memory:", **terms}
    )


def delta_of(scale, epsilon):
    """The least delta of Gaussian noise of this standard deviation, for a sensitivity of 1, in closed form."""
    near, far = 1 / (2 * scale) - epsilon * scale, -1 / (2 * scale) - epsilon * scale
    return float(ndtr(near) - np.exp(epsilon + log_ndtr(far)))


# The paper's noise


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1])
@pytest.mark.parametrize("policy", ["omit", "fill"])
def test_the_papers_noise_is_added_and_charged_as_what_it_costs(epsilon, policy):
    """Its standard deviation is that of line 7, and the price of so much noise is below the paper's."""
    found = protect().kme_release(
        ["x", "y"],
        epsilon=epsilon,
        delta=1e-6,
        features="subspace",
        n_points=9,
        calibration="classical",
        nan_policy=policy,
    )
    printed = math.sqrt(8 * math.log(1.25e6)) / (N * epsilon)

    assert found.noise_standard_error * found.size / N == pytest.approx(printed, rel=1e-4)
    assert found.privacy.epsilon < 0.6 * epsilon


def test_reference_scales():
    """Both calibrations, at published and computed values."""
    assert gaussian_scale(1, 1e-6) == pytest.approx(4.224678889, rel=1e-9)
    assert gaussian_scale(0.01, 1e-6) == pytest.approx(306.3503762, rel=1e-9)
    assert classical_scale(1, 1e-6) == pytest.approx(5.298802527, rel=1e-9)
    assert delta_of(gaussian_scale(10, 1e-6), 10) == pytest.approx(1e-6, rel=1e-6)


def test_the_classical_calibration_fails_above_one():
    """Its true delta, in closed form: within the price at 1, and beyond it above."""
    assert delta_of(classical_scale(1, 1e-6), 1) == pytest.approx(3.2e-9, rel=0.05)
    assert delta_of(classical_scale(10, 1e-6), 10) == pytest.approx(1.9e-6, rel=0.05)
    assert delta_of(classical_scale(8, 0.1), 8) == pytest.approx(0.236, rel=0.01)


@pytest.mark.parametrize("price", [{"epsilon": 1.5, "delta": 1e-6}, {"epsilon": 1, "delta": 0}])
def test_the_classical_calibration_is_refused_where_it_is_not_proved(price):
    """Nothing is charged."""
    view = protect()

    with pytest.raises(dp.ArgumentError, match="classical"):
        view.kme_release(["x", "y"], **price, calibration="classical")
    assert view.budget.spent == 0


@pytest.mark.parametrize("sensitivity", [0.3, 1.4, 2.0])
def test_the_part_of_the_price_is_what_the_noise_costs(sensitivity):
    """So much noise, at the part of the price, is just private."""
    part = part_of_the_price(0.7, 1e-5, sensitivity)

    assert sensitivity * gaussian_scale(0.7 * part, 1e-5 * part) == pytest.approx(2 * classical_scale(0.7, 1e-5))


# Algorithm 2


@pytest.mark.parametrize("columns", [1, 4])
def test_the_reduced_set_is_the_closest_with_absolute_weights_up_to_one(columns):
    """By the optimality condition: no point anywhere has a feature that goes further against what is left."""
    asked = [Column(f"x{i}", bounds=(0.0, 1.0)) for i in range(columns)]
    features = Fourier(asked, gaussian_frequencies(np.full(columns, 0.5), 60)).features
    rng = np.random.default_rng(4)
    beta = features(rng.beta(2, 5, (500, columns))).mean(axis=0) + 0.05 * rng.standard_normal(120)

    points, w = hull(features, spread(asked, 1024), beta, 1e-9, asked, signed=True)
    rest = w @ features(points) - beta
    anywhere = features(rng.uniform(0, 1, (20_000, columns))) @ rest

    assert np.abs(w).sum() == pytest.approx(1, abs=1e-9)
    gap = w @ (features(points) @ rest) + np.abs(anywhere).max()  # 0 at the least there is
    assert gap < 2e-3 * float(beta @ beta)


@pytest.mark.parametrize("features", ["fourier"])
def test_reduced_sets_of_a_release(features):
    """The points are anywhere within the bounds, and their weights' absolute values add up to 1 at most."""
    with seeded_noise(5):
        found = protect().kme_release(["x", "y"], epsilon=1, delta=1e-6, features=features, represent="l1")

    assert np.abs(found.weights).sum() <= 1 + 1e-9
    assert found.objective <= 1.5 * found.dimension * found.noise_standard_error**2
    assert found.support < 60


# Functions of X


def test_an_embedding_of_a_function_of_x():
    """The embedding of f(X) by f of the points is close to that of f of the rows, and costs nothing."""
    view = protect()
    with seeded_noise(6):
        found = view.kme_release(["x", "y"], epsilon=5, delta=1e-6, represent="l1")
    spent = view.budget.spent
    squares = found.transform(lambda rows: {"z": rows["x"] ** 2 / 100}, lengthscale=40.0)
    rng = np.random.default_rng(8)
    truth = np.clip(rng.normal(60, 12, N), 0, 100) ** 2 / 100
    at = np.linspace(0, 100, 21)
    kernel = np.exp(-((at[:, None] - truth) ** 2) / (2 * 40.0**2)).mean(axis=1)

    assert view.budget.spent == spent
    assert np.abs(squares.evaluate({"z": at}) - kernel).max() < 0.01
    assert found.transform(lambda rows: rows["x"] * 0).locations.ravel().tolist() == [0.0] * found.support
    assert dp.Release.from_dict(squares.to_dict()) == squares


def test_loose_weights_are_noted_and_what_is_no_function_refused():
    """Weights of either sign without a bound say so."""
    with seeded_noise(7):
        found = protect().kme_release(
            ["x"], epsilon=0.05, delta=1e-6, features="subspace", n_points=64, represent="weights", lengthscale=20.0
        )

    assert "absolute weights" in found.transform(lambda rows: rows["x"]).notes[0]
    for f in (lambda rows: rows["x"][:-1], lambda rows: np.log(rows["x"] * 0 - 1), lambda rows: {}):
        with np.errstate(invalid="ignore"), pytest.raises(dp.ArgumentError):
            found.transform(f)


# Section 3.4


def closeness(size=2, gaps=(), anchors=((10.0,), (50.0,), (90.0,))):
    psi = Nystrom(ProductKernel([X], 30.0), np.array(anchors))
    return Closeness(psi, np.array(anchors), size, gaps)


def test_scores_are_distances_of_embeddings():
    """All tables of so many rows are scored, by their distance in the kernel's space."""
    scores, rows = closeness(), np.array([[10.0], [10.0], [50.0], [90.0]])
    psi = scores.psi
    found = scores.value(np.append(psi.features(rows).sum(axis=0), 4.0))
    kernel = psi.kernel

    assert [tuple(each) for each in scores.places] == list(itertools.combinations_with_replacement(range(3), 2))
    for places, score in zip(scores.places, found, strict=True):
        w = np.r_[np.full(4, 1 / 4), np.full(2, -1 / 2)]
        points = np.vstack([rows, np.array([[10.0], [50.0], [90.0]])[places]])
        assert score == pytest.approx(-4 * math.sqrt(max(0.0, w @ kernel(points, points) @ w)), abs=1e-6)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_no_row_moves_a_score_by_more(relation):
    """Rows that change, come and go, beside tables of every kind; some come near the claim."""
    scores, rng = closeness(3, anchors=((0.0,), (35.0,), (60.0,), (100.0,))), np.random.default_rng(0)
    claim = scores.sensitivity(relation, math.inf, frozenset())
    most = 0.0
    for _ in range(400):
        rows = rng.choice([0.0, 100.0, rng.uniform(0, 100)], (rng.integers(1, 40), 1))
        before = scores.psi.features(rows)
        after = scores.psi.features(rng.choice([0.0, 100.0, rng.uniform(0, 100)], (1, 1)))
        n = len(rows)
        first = np.append(before.sum(axis=0), n)
        changed = [np.append(before[1:].sum(axis=0) + after[0], n), np.append(before[1:].sum(axis=0), n - 1)]
        second = changed[relation == "add_remove"]
        most = max(most, float(np.abs(scores.value(first) - scores.value(second)).max()))

    assert 0.9 * claim < most <= claim * (1 + 1e-9)


def test_the_closest_table_is_chosen():
    """Of a table that is one of the synthetic ones, many times over, that one; with or without gaps, or a size."""
    frame = pd.DataFrame({"x": [10.0, 50.0, 50.0] * 3000 + [math.nan] * 1000})
    asked = {"points": {"x": [10.0, 30.0, 50.0, 90.0]}, "n_rows": 3, "epsilon": 1}
    for terms in ({}, {"neighbors": "add_remove"}):
        view = dp.protect(frame, f"chosen {terms}", epsilon=9, bounds={"x": (0, 100)}, ledger="memory:", **terms)
        found = view.kme_exponential(["x"], **asked)

        assert found.locations.ravel().tolist() == [10.0, 50.0]
        assert found.weights == pytest.approx([1 / 3, 2 / 3])
        assert found.privacy.delta == 0


def test_too_many_tables_are_refused():
    """Before any charge, and the message says how many there were."""
    view = protect()

    with pytest.raises(dp.ArgumentError, match="tables of 4 rows"):
        view.kme_exponential(["x"], n_points=168, n_rows=4, epsilon=1)
    with pytest.raises(dp.ArgumentError):
        view.kme_exponential(["x"], n_points=5, points={"x": [1.0]}, epsilon=1)
    assert view.budget.spent == 0


@pytest.mark.statistical
def test_the_choice_is_as_close_as_is_said():
    """The distance is above the least by more than the bound in 5% of cases at most."""
    view = protect()
    rng = np.random.default_rng(8)
    x = np.clip(rng.normal(60, 12, N), 0, 100)
    points = np.linspace(5, 95, 7)[:, None]
    kernel = ProductKernel([X], 30.0)
    psi = Nystrom(kernel, points)
    scores = Closeness(psi, points, 2, ())
    exact = scores.value(np.append(psi.features(x[:, None]).sum(axis=0), float(N))) / N
    by_places = {tuple(map(int, places)): score for places, score in zip(scores.places, exact, strict=True)}
    bound = 2 * math.sqrt(2) * math.log(len(exact) / 0.05) / (0.01 * N)
    above = []
    with seeded_noise(9):
        for _ in range(40):
            found = view.kme_exponential(
                ["x"], points={"x": points.ravel().tolist()}, n_rows=2, lengthscale=30.0, epsilon=0.01, fresh=True
            )
            times = np.rint(2 * found.weights).astype(int)
            places = np.abs(points - np.repeat(found.locations.ravel(), times)).argmin(axis=0)
            above.append(exact.max() - by_places[tuple(sorted(map(int, places)))])

    assert np.mean(np.array(above) > bound) <= 0.3  # 5% and eight standard errors
    assert max(above) > 0
