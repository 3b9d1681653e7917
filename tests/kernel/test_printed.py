"""TCMC and NTE as printed: what is measured, its noise and sensitivity, the null law, and where it is wrong."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, norm

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_kernel.embedding import embed, points_of
from dfprivacy_kernel.moments import Party, Scales
from dfprivacy_kernel.printed import conclude_printed, reaches, weighted_chi_squared

BOUNDS = {"x": (-3.0, 3.0), "y": (-3.0, 3.0)}
PRICE = {"epsilon": 1, "delta": 1e-5}
ASKED = {"method": "moments", "n_locations": 3, "lengthscale": 1.5, "nan_policy": "fill", **PRICE}
HALF = 7.351149  # standard deviation of the analytic Gaussian mechanism at (1/2, 5e-6), for a sensitivity of 1


def protect(n=4000, m=4000, shift=0.0, seed=2, **terms):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n + m, 2)).clip(-3, 3)
    rows[n:, 0] += shift
    frame = pd.DataFrame({"x": rows[:, 0], "y": rows[:, 1], "g": ["a"] * n + ["b"] * m})
    known = {"bounds": BOUNDS, "categories": {"g": ["a", "b"]}, "public": ["g"], "ledger": "memory:"}
    view = dp.protect(frame, f"printed {n} {m} {shift} {terms}", **{"epsilon": 90, "delta": 1e-2, **known, **terms})
    return view, rows


def kernel_values(found, rows):
    """Of each row with each location, as the documents define the kernel."""
    at, width = np.array(found.locations), 1.5
    squared = ((rows[:, None] - at[None]) ** 2).sum(axis=2)  # the unit is a sixth of the bounds' width: 1
    return np.exp(-squared / width**2)


@pytest.mark.parametrize("variant", ["tcmc", "nte"])
def test_differences_are_those_of_kernel_values(variant):
    """With next to no noise, they are the differences of the mean kernel values at the locations."""
    view, rows = protect(shift=0.4)
    found = view.kernel_two_sample(["x", "y"], by="g", variant=variant, **{**ASKED, "epsilon": 50})
    v = kernel_values(found, rows.clip(-3, 3))

    assert found.differences == pytest.approx(v[:4000].mean(axis=0) - v[4000:].mean(axis=0), abs=1e-3)
    assert found.variant == variant
    assert found.rejected
    assert "leaves out the noise" in found.notes[-1]


def test_noise_is_printed_with_the_right_calibration():
    """√J/n of the mean, at half of the price; of two parties, both have it."""
    view, _ = protect()
    tcmc, nte = (
        view.kernel_two_sample(["x", "y"], by="g", variant=variant, **ASKED) for variant in ("tcmc", "nte")
    )
    one = math.sqrt(3) / 4000 * HALF

    assert tcmc.noise_standard_error == pytest.approx(one, rel=1e-3)
    assert nte.noise_standard_error == pytest.approx(math.sqrt(2) * one, rel=1e-3)


def test_pairs_of_one_person_have_twice_the_noise():
    """Where both rows of a pair change, the printed sensitivity is half of what is charged."""
    known = {"epsilon": 90, "delta": 1e-2, "bounds": BOUNDS, "ledger": "memory:"}
    rng = np.random.default_rng(0)
    views = [
        dp.protect(pd.DataFrame(rng.standard_normal((500, 2)), columns=["x", "y"]), name, **known) for name in "pq"
    ]
    noise = [
        views[0]
        .kernel_two_sample(["x", "y"], other=views[1], variant="tcmc", paired=paired, **ASKED)
        .noise_standard_error
        for paired in (False, True)
    ]

    assert noise[1] / noise[0] == pytest.approx(2, rel=1e-6)


def test_messages_say_what_two_groups_apart_would():
    """A message of NTE is one party's part: mean, second moment, and both noises as printed."""
    view, rows = protect(300, 500)
    asked = {key: value for key, value in ASKED.items() if key != "method"}
    first, second = (view.where(g=g).kernel_message(["x", "y"], variant="nte", **asked) for g in "ab")
    locations = first.design["locations"]
    v = np.exp(-((rows[:300, None] - np.array(locations)[None]) ** 2).sum(axis=2) / 1.5**2)

    assert first.noise_standard_error == pytest.approx(math.sqrt(3) / 300 * HALF, rel=1e-3)
    assert first.second_noise_standard_error == pytest.approx((3 / 299 * HALF,) * 2, rel=1e-3)
    assert np.abs(first.mean - v.mean(axis=0)).max() < 8 * first.noise_standard_error
    assert np.abs(first.second - v.T @ v / 299).max() < 8 * first.second_noise_standard_error[0]
    assert first.test(second).variant == "nte"
    with pytest.raises(dp.ArgumentError, match="variant"):
        first.test(view.where(g="b").kernel_message(["x", "y"], **asked))


@pytest.mark.parametrize("J", [1, 2, 3, 4])
def test_no_row_moves_moments_of_kernel_values_by_more(J):
    """At the corners of the cube, where the extremes are; a row without a value is 0, and so is its pair."""
    corners = np.array(list(itertools.product([0.0, 1.0], repeat=J)))
    upper = np.triu_indices(J)

    def most(z, u):
        outer = [(each[:, :, None] * each[:, None, :])[:, *upper] for each in (z, u)]
        return np.linalg.norm(z - u, axis=1).max(), np.linalg.norm(outer[0] - outer[1], axis=1).max()

    a, b, c = (each.reshape(-1, J) for each in np.broadcast_arrays(
        corners[:, None, None], corners[None, :, None], corners[None, None, :]))  # fmt: skip
    found = {
        "row": most(a, b),
        "row of a pair": np.maximum(most(a - c, b - c), most(a - c, 0 * c)),
        "pair": np.maximum(most(a - b, c - a[::-1]), most(a - b, b - a)),
    }
    claimed = {changes: reaches("me", J, 1.0, changes) for changes in found}

    for changes, (mean, second) in found.items():
        assert mean == pytest.approx(claimed[changes][0])  # attained
        assert second <= claimed[changes][1] + 1e-12
    # What the paper prints, √J and J, is too small where both rows of a pair change.
    assert found["pair"][0] > 1.9 * math.sqrt(J)


def test_no_row_moves_moments_of_waves_by_more():
    """Vectors of length 1 in all directions; opposite ones attain 2, and differences of pairs come to 4."""
    rng = np.random.default_rng(1)
    a, b, c, d = (x / np.linalg.norm(x, axis=1)[:, None] for x in rng.standard_normal((4, 40_000, 2)))
    b[:9], c[:9], d[:9] = -a[:9], a[:9], a[:9]

    def most(z, u):
        second = z[:, :, None] * z[:, None, :] - u[:, :, None] * u[:, None, :]
        return np.linalg.norm(z - u, axis=1).max(), np.linalg.norm(second, axis=(1, 2)).max()

    for changes, moved in {
        "row": most(a, b),
        "row of a pair": most(a - c, b - c),
        "pair": most(a - c, d - b),
    }.items():
        claimed = reaches("scf", 2, 1.0, changes)
        assert moved[0] <= claimed[0] + 1e-12
        assert 0.7 * claimed[1] < moved[1] <= claimed[1] + 1e-12


def test_the_null_law_is_that_of_a_weighted_sum():
    """By simulation, and in closed form where the weights are alike, or one of two."""
    at = np.array([0.5, 3.0, 9.0])

    assert [weighted_chi_squared(np.full(3, 2.0), s) for s in at] == pytest.approx(chi2.sf(at / 2, 3), abs=0.01)
    assert weighted_chi_squared(np.array([4.0]), 4.0) == pytest.approx(2 * norm.sf(1), abs=0.01)
    # Of 4 Z² + W², by integrating over Z.
    z = (np.arange(200_000) + 0.5) / 200_000
    exact = chi2.sf(6 - 4 * norm.ppf(z) ** 2, 1).mean()
    assert weighted_chi_squared(np.array([4.0, 1.0]), 6.0) == pytest.approx(exact, abs=0.01)


def parties(rng, S, n, noise, count, variant, second_noise=0.0):
    """What a variant measures of normal features with this covariance, without noise in the second moment."""
    J = len(S)
    root = np.linalg.cholesky(S)
    found = []
    for _ in range(count):
        mean = root @ rng.standard_normal(J) / math.sqrt(n) + noise * rng.standard_normal(J)
        mean += 0.5 * (variant == "nte")
        error = np.triu(second_noise * rng.standard_normal((J, J)))
        second = S + np.outer(mean, mean) + error + np.triu(error, 1).T
        found.append(Party(mean, second, Scales(noise, math.inf, second_noise, second_noise), float(n)))
    return found


@pytest.mark.statistical
@pytest.mark.parametrize(("variant", "count"), [("tcmc", 1), ("nte", 2)])
def test_the_printed_level_holds_where_the_covariance_is_known(variant, count):
    """Noise in the mean is in the law: without noise in the second moment, p-values are uniform."""
    rng = np.random.default_rng(3)
    S = np.array([[0.05, 0.02, 0], [0.02, 0.04, 0.01], [0, 0.01, 0.03]])

    p = np.array([conclude_printed(parties(rng, S, 1000, 0.008, count, variant)).pvalue for _ in range(400)])

    for level in (0.05, 0.5):
        assert abs(np.mean(p <= level) - level) < 6 * math.sqrt(level * (1 - level) / 400) + 0.005


@pytest.mark.statistical
def test_the_printed_level_is_lost_in_the_noise_of_the_covariance():
    """As the note says: noise in the second moment makes p-values too small."""
    rng = np.random.default_rng(4)
    S = np.diag([0.05, 0.03, 0.02, 0.015, 0.01])  # 2000 pairs at ε = 2.5, J = 5

    p = [conclude_printed(parties(rng, S, 2000, 0.0035, 1, "tcmc", second_noise=0.0079)).pvalue for _ in range(400)]

    assert np.mean(np.array(p) <= 0.05) > 0.1


def test_without_noise_it_is_the_t_test_of_pairs():
    """At one location without noise, the statistic is the square of Student's t, of z."""
    rng = np.random.default_rng(5)
    z = rng.uniform(-0.5, 1, 400)
    found = conclude_printed(
        [Party(np.array([z.mean()]), np.array([[z @ z / 399]]), Scales(0, math.inf, 0, 0), 400.0)]
    )

    assert found.statistic == pytest.approx((z.mean() / (z.std(ddof=1) / math.sqrt(400))) ** 2)


@pytest.mark.parametrize("variant", ["tcmc", "nte"])
def test_gaps_are_no_difference(variant):
    """Unequal shares of missing values are none of what is tested; NTE says how many are missing."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal(40_000).clip(-3, 3)
    x[:20_000][rng.random(20_000) < 0.5] = math.nan
    frame = pd.DataFrame({"x": x, "g": ["a"] * 20_000 + ["b"] * 20_000})
    view = dp.protect(frame, "gaps", epsilon=50, delta=1e-2, bounds={"x": (-3, 3)}, categories={"g": ["a", "b"]},
                      public=["g"], ledger="memory:")  # fmt: skip
    with seeded_noise(11):
        found = view.kernel_two_sample(["x"], by="g", method="moments", variant=variant, n_locations=2,
                                       lengthscale=1, epsilon=20, delta=1e-5)  # fmt: skip

    assert found.pvalue > 1e-4
    missing = int(np.isnan(x).sum())
    assert (
        found.missing is None
        if variant == "tcmc"
        else abs(found.missing - missing) < 8 * found.missing_standard_error
    )


REFUSED = {
    "another method": {"variant": "tcmc", "method": "mmd"},
    "other features": {"variant": "nte", "features": "nystrom"},
    "a name": {"variant": "tcs"},
    "a ridge": {"gamma": 0.1},
    "no ridge": {"method": "whitened", "gamma": 0},
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_asked_is_refused(case):
    """Before any charge."""
    view, _ = protect(20, 20)
    with pytest.raises(dp.ArgumentError):
        view.kernel_two_sample(["x"], by="g", **{"method": "moments", "epsilon": 1, "delta": 1e-6, **REFUSED[case]})
    assert view.budget.spent == 0


def test_rows_of_unequal_groups_are_no_pairs():
    """TCMC pairs rows; NTE need not."""
    view, _ = protect(20, 30)
    with pytest.raises(dp.ArgumentError, match="no pairs"):
        view.kernel_two_sample(["x"], by="g", variant="tcmc", **ASKED)
    assert view.budget.spent == 0
    assert view.kernel_two_sample(["x"], by="g", variant="nte", **ASKED).sizes == (20.0, 30.0)


def test_the_ridge_of_the_whitened_statistic_may_be_given():
    """More of it, less noise: the sensitivity falls with gamma."""
    from dfprivacy_kernel.statistics import whitened_sensitivity

    view, _ = protect(3000, 3000, shift=0.5)
    moved = [whitened_sensitivity(3000, 3000, math.sqrt(2), 2.0, gamma, 8.0) for gamma in (1e-4, 1e-2, 1.0)]

    assert moved == sorted(moved, reverse=True)
    assert view.kernel_two_sample(
        ["x"], by="g", method="whitened", gamma=0.05, epsilon=9, n_permutations=199
    ).rejected


# Appendix C.1


def test_noise_of_nystrom_features_is_a_path_of_a_gaussian_process():
    """Alike in all coordinates of the span of landmarks, at the landmarks it has the kernel as its covariance."""
    columns = [dp.Column(name, bounds=ends) for name, ends in BOUNDS.items()]
    embedding = embed("nystrom", columns, (1.5,), points_of(columns, None, 12))
    (part,) = embedding.parts
    K = part.features(embedding.points)
    to_values = np.linalg.inv(embedding.map)

    assert to_values @ to_values.T == pytest.approx(K, abs=1e-6)
    assert np.trace(np.linalg.solve(K, to_values @ to_values.T)) == pytest.approx(12, abs=1e-4)  # J, without bound
