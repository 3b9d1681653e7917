"""Answers that misled: correlations shrunk away, errors that were too small, gaps that counted as data."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_gmm.estimates import estimates
from dfprivacy_gmm.sums import Sums

NAMES = (f"misleading-{number}" for number in itertools.count())
TERMS = {"epsilon": 10**5, "delta": 0.1, "accounting": "basic", "ledger": "memory:"}


def protect(frame, **terms):
    return dp.protect(frame, next(NAMES), **{**TERMS, **terms})


# ---- correlations ----------------------------------------------------------------------------------------


def credits_of(n, seed=1):
    """Loans whose seven columns fill a small part of their bounds; months and amount are correlated."""
    rng = np.random.default_rng(seed)
    months = np.clip(rng.gamma(3, 7, n), 4, 72)
    return pd.DataFrame({
        "months": months,
        "amount": np.clip(250 + months * 150 * rng.lognormal(0, 0.45, n), 250, 20_000),
        "rate": rng.integers(1, 5, n),
        "since": rng.integers(1, 5, n),
        "age": np.clip(rng.gamma(9, 4, n), 19, 75),
        "credits": rng.integers(1, 4, n),
        "people": rng.integers(1, 3, n),
    })  # fmt: skip


CREDITS = credits_of(1000)
WIDE = {
    "months": (0, 72),
    "amount": (0, 20_000),
    "rate": (1, 4),
    "since": (1, 4),
    "age": (18, 80),
    "credits": (1, 4),
    "people": (1, 2),
}


@pytest.mark.parametrize("epsilon", [1, 2, 10])
def test_covariances_are_unbiased_and_their_errors_hold(epsilon):
    """Over 60 answers their mean is the truth to within its error, and an interval seldom misses it."""
    view = protect(CREDITS, bounds=WIDE)
    truth = CREDITS.cov().loc["months", "amount"]

    with seeded_noise(epsilon):
        found = [view.moments([*WIDE], epsilon=epsilon, delta=1e-6, fresh=True) for _ in range(60)]

    covariances = np.array([each.covariances[0, 0, 1] for each in found])
    noise = np.array([each.standard_errors("none")[1][0, 0, 1] for each in found])
    assert abs(covariances.mean() - truth) < 5 * noise.mean() / math.sqrt(60)
    assert covariances.std() == pytest.approx(noise.mean(), rel=0.45)
    assert np.mean(np.abs(covariances - truth) > 2 * noise) < 0.2
    assert all(np.diagonal(each.covariances, axis1=1, axis2=2).shape == (1, 7) for each in found)


def test_what_the_noise_hides_is_said():
    """Where a variance could be all noise there is no correlation, and where covariances are no data's, a note."""
    view = protect(CREDITS, bounds=WIDE)

    with seeded_noise(1):
        found = [view.moments([*WIDE], epsilon=1, delta=1e-6, fresh=True) for _ in range(20)]

    for each in found:
        hidden = np.isnan(each.correlations[0, 0, 1])
        assert not hidden or any("no correlations, of" in note for note in each.notes)
        if np.linalg.eigvalsh(each.covariances[0]).min() < 0:
            assert any("may be those of no data" in note for note in each.notes)
        assert np.linalg.eigvalsh(each.nearest_covariances[0]).min() > 0
    assert sum(np.isnan(each.correlations[0, 0, 1]) for each in found) > 10


def test_correlations_and_slopes_are_the_datas_where_the_noise_is_small():
    """At a large epsilon the correlation is the table's, .76, and so is the slope, 176."""
    view = protect(CREDITS, bounds=WIDE)
    rest = [name for name in WIDE if name != "amount"]
    slope = np.linalg.solve(CREDITS[rest].cov(), CREDITS[rest].apply(lambda column: column.cov(CREDITS["amount"])))

    with seeded_noise(1):
        found = view.moments([*WIDE], epsilon=60, delta=1e-6)

    S = found.covariances[0]
    mine = np.linalg.solve(np.delete(np.delete(S, 1, 0), 1, 1), np.delete(S[:, 1], 1))
    assert found.correlations[0, 0, 1] == pytest.approx(CREDITS.corr().loc["months", "amount"], abs=0.06)
    assert mine[0] == pytest.approx(slope[0], rel=0.1)
    assert found.notes == ()
    assert found.nearest_covariances == pytest.approx(found.covariances, rel=1e-6)


def test_classes_say_by_how_much_their_covariance_was_moved():
    """A classifier needs a positive definite one; what it comes from stays beside it, unbiased."""
    table = CREDITS.assign(good=np.where(np.arange(1000) % 2, "yes", "no"))
    view = protect(table, bounds=WIDE, categories={"good": ["yes", "no"]})

    with seeded_noise(1):
        found = view.gmm_fit([*WIDE], "good", radius=math.sqrt(7), epsilon=1, delta=1e-6)
        clear = view.gmm_fit([*WIDE], "good", radius=math.sqrt(7), epsilon=60, delta=1e-6)

    assert np.linalg.eigvalsh(found.covariances[0]).min() > 0
    assert np.linalg.eigvalsh(found.estimated_covariances[0]).min() < 0
    assert any("was moved by up to" in note and "standard deviations of its noise" in note for note in found.notes)
    assert clear.notes == ()
    assert clear.covariances == pytest.approx(clear.estimated_covariances)
    assert clear.estimated_covariances[0] == pytest.approx(CREDITS.cov().to_numpy(), rel=0.1, abs=500)


# ---- errors ----------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.02, 0.2, 0.5])
def test_errors_of_covariances_hold_for_rare_values(share):
    """Of two columns of 0 and 1, intervals of variances, covariance and correlation miss in 7.5% at most."""
    rng, runs, n = np.random.default_rng(5), 3000, 2000
    x = rng.random((runs, n)) < share
    y = np.where(rng.random((runs, n)) < 0.5, x, rng.random((runs, n)) < share)
    rows = 2.0 * np.stack([x, y], axis=2) - 1
    own = estimates(
        Sums(np.full(runs, float(n)), rows.sum(axis=1), rows.swapaxes(1, 2) @ rows, 0.0, 0.0, np.zeros((2, 2)))
    )
    variance = 4 * share * (1 - share)

    missed = [
        np.abs(own.covariances[:, 0, 0] - variance) > 1.96 * own.covariance_errors()[:, 0, 0],
        np.abs(own.covariances[:, 0, 1] - variance / 2) > 1.96 * own.covariance_errors()[:, 0, 1],
        np.abs(own.correlations()[:, 0, 1] - 0.5) > 1.96 * own.correlation_errors()[:, 0, 1],
    ]

    assert np.mean(missed, axis=1).max() < 0.075
    if share < 0.1:  # of normal data they would not cover
        normal = np.abs(own.covariances[:, 0, 0] - variance) > 1.96 * own.covariance_errors("normal")[:, 0, 0]
        assert normal.mean() > 0.4


def test_standard_errors_on_other_terms():
    """Those of any data are the largest, those of the noise alone the smallest; anything else is refused."""
    view = protect(CREDITS, bounds=WIDE)
    found = view.moments(["months", "amount"], epsilon=20, delta=1e-6)

    bounded, normal, noise = (found.standard_errors(each) for each in ("bounded", "normal", "none"))

    assert bounded[1].tolist() == found.covariance_errors.tolist()
    assert bounded[2].tolist() == found.correlation_errors.tolist()
    for most, some, least in zip(bounded[1:], normal[1:], noise[1:], strict=True):
        assert (most >= some).all()
        assert (some >= least).all()
    assert (normal[0] > noise[0]).all()
    with pytest.raises(dp.ArgumentError, match="sampling='all' is unknown"):
        found.standard_errors("all")


# ---- missing values --------------------------------------------------------------------------------------


def gappy(n=20_000, seed=3):
    """Two correlated columns and a group; a fifth of x, and a tenth of y, are missing, more where x is large."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0.5, 0.7, n)
    y = 0.8 * x + rng.normal(0, 0.5, n)
    group = rng.choice(["a", "b"], n)
    gone = rng.random(n) < np.where(group == "a", 0.4, 0.1)
    table = pd.DataFrame(
        {"x": np.where(gone, np.nan, x), "y": np.where(rng.random(n) < 0.1, np.nan, y), "g": group}
    )
    return table, table.dropna()


GAPPY, COMPLETE = gappy()
GAPS = {"bounds": {"x": (-4, 4), "y": (-4, 4)}, "categories": {"g": ["a", "b"]}}


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("by", [None, "g"])
def test_moments_are_those_of_complete_rows(neighbors, delta, by):
    """A row with a missing value neither pulls a mean to the middle nor counts; how many there are is said."""
    view = protect(GAPPY, neighbors=neighbors, **GAPS)

    found = view.moments(["x", "y"], by=by, epsilon=40, delta=delta)

    parts = [COMPLETE] if by is None else [part for _, part in COMPLETE.groupby("g")]
    for at, part in enumerate(parts):
        assert found.sizes[at] == pytest.approx(len(part), abs=10)
        assert found.means[at] == pytest.approx(part[["x", "y"]].mean(), abs=0.01)
        assert found.correlations[at, 0, 1] == pytest.approx(part[["x", "y"]].corr().iloc[0, 1], abs=0.03)
    if neighbors == "add_remove":
        assert found.missing is found.missing_standard_error is None
    else:
        assert found.missing == pytest.approx(len(GAPPY) - len(COMPLETE), abs=6 * found.missing_standard_error)
        assert any("rows were left out" in note for note in found.notes)


def test_filled_values_count_where_they_are_asked_for():
    """With "fill" the sizes are all rows, and means go to the middle of the bounds; a declared fill does so too."""
    filled = GAPPY[["x", "y"]].fillna(0.0)
    declared = protect(GAPPY, missing={"x": 0.0, "y": 0.0}, **GAPS)

    for found in (
        protect(GAPPY, **GAPS).moments(["x", "y"], epsilon=40, delta=1e-6, nan_policy="fill"),
        declared.moments(["x", "y"], epsilon=40, delta=1e-6),
    ):
        assert found.public_sizes
        assert found.sizes.tolist() == [len(GAPPY)]
        assert found.means[0] == pytest.approx(filled.mean(), abs=0.01)


@pytest.mark.parametrize("method", ["moments", "gmm_fit", "fourier_sketch", "mixture"])
def test_missing_values_of_private_columns_cannot_be_refused(method):
    """Whether there are any is nobody's to know; nothing is charged."""
    view = protect(GAPPY, **GAPS)
    asked = {"gmm_fit": {"label": "g"}, "mixture": {"n_components": 2}}.get(method, {})
    name = "gmm_fit" if method == "mixture" else method

    with pytest.raises(dp.ArgumentError, match="would tell whether a private value is missing"):
        getattr(view, name)(["x", "y"], epsilon=1, delta=1e-6, nan_policy="raise", **asked)

    assert view.budget.spent == 0


def test_missing_values_of_public_columns_are_known():
    """They are refused if asked for, and left out exactly and for nothing otherwise."""
    view = protect(GAPPY, public=["x", "y"], **GAPS)

    with pytest.raises(dp.ArgumentError, match="A value is missing in 'x'"):
        view.moments(["x", "y"], epsilon=1, delta=1e-6, nan_policy="raise")
    found = view.moments(["x", "y"], epsilon=1, delta=1e-6)

    assert found.missing == len(GAPPY) - len(COMPLETE)
    assert found.missing_standard_error == 0
    assert found.means[0] == pytest.approx(COMPLETE[["x", "y"]].mean(), abs=1e-4)
    assert view.budget.spent == 0


def test_classes_are_those_of_complete_rows():
    """Their sizes, means and covariances; a class with more gaps is no smaller a class for that to its mean."""
    found = protect(GAPPY, **GAPS).gmm_fit(["x", "y"], "g", method="qda", radius=1.4, epsilon=40, delta=1e-6)

    for at, name in enumerate(found.classes):
        part = COMPLETE[COMPLETE["g"] == name]
        assert found.sizes[at] == pytest.approx(len(part), abs=10)
        assert found.means[at] == pytest.approx(part[["x", "y"]].mean(), abs=0.02)
    assert found.missing == pytest.approx(len(GAPPY) - len(COMPLETE), abs=6 * found.missing_standard_error)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_a_sketch_is_of_complete_rows(neighbors):
    """Its size is their noisy number, its values their characteristic function."""
    sketch = protect(GAPPY, neighbors=neighbors, **GAPS).fourier_sketch(["x", "y"], epsilon=20, delta=1e-6)

    expected = np.exp(1j * COMPLETE[["x", "y"]].to_numpy() / 4 @ sketch.frequencies.T).mean(axis=0)

    assert sketch.size == pytest.approx(len(COMPLETE), abs=6 * sketch.size_error * sketch.size)
    assert sketch.size_error > 0
    error = 6 * sketch.noise_standard_error + 6 * sketch.size_error
    np.testing.assert_allclose(sketch.cosines + 1j * sketch.sines, expected, atol=error)
    assert (sketch.missing is None) == (neighbors == "add_remove")


@pytest.mark.parametrize("d", [1, 3])
def test_a_mixture_is_of_complete_rows(d):
    """Half of the rows are missing, which would be a peak in the middle of the bounds."""
    rng = np.random.default_rng(1)
    rows = rng.normal(np.repeat([-2.0, 2.0], 8000)[:, None], 0.5, (16_000, d))
    rows[rng.random(16_000) < 0.5, d - 1] = np.nan
    names = [f"x{i}" for i in range(d)]
    view = protect(pd.DataFrame(rows, columns=names), bounds=dict.fromkeys(names, (-4, 4)))

    with seeded_noise(1):
        found = view.gmm_fit(names, n_components=2, epsilon=2, delta=1e-6)

    assert np.sort(found.means_[:, 0]) == pytest.approx([-2, 2], abs=0.1)
    assert found.sketch.size == pytest.approx(8000, abs=300)
    assert any("rows were left out" in note for note in found.notes)


# ---- too little to be searched ---------------------------------------------------------------------------


def test_what_the_noise_alone_shows_to_be_hopeless_is_not_searched_for():
    """Five components in ten columns of 2,000 rows: said at once, with one Gaussian of all rows for each."""
    rng = np.random.default_rng(1)
    names = [f"x{i}" for i in range(10)]
    view = protect(
        pd.DataFrame(np.clip(rng.normal(0.2, 0.2, (2000, 10)), -1, 1), columns=names),
        bounds=dict.fromkeys(names, (-1, 1)),
    )

    found = view.gmm_fit(names, n_components=5, epsilon=1, delta=1e-6)

    assert any(note.startswith("Uninformative: 5 components in 10 columns need about") for note in found.notes)
    assert found.relative_error > 1
    assert (found.means_ == found.means_[0]).all()
    assert found.means_[0] == pytest.approx(np.full(10, 0.2), abs=0.25)
    assert np.isfinite(found.mean_errors).all()
    assert found.predict_proba(np.zeros((1, 10))) == pytest.approx(np.full((1, 5), 0.2))
    assert dp.Release.from_dict(found.to_dict()).to_dict() == found.to_dict()
    assert found.sketch.fit("auto", restarts=1).n_components in range(1, 6)


def test_a_whole_budget_can_be_spent_without_a_delta_of_its_own():
    """With delta=None the question takes the budget's delta in proportion to epsilon, or what is left of it."""
    view = protect(CREDITS, bounds=WIDE, epsilon=1, delta=1e-6, accounting=None)

    found = view.moments(["months", "amount"], epsilon=1)

    assert found.privacy.epsilon <= 1
    assert 0 < found.privacy.delta <= 1e-6
