"""Correlations and covariances: those of pandas, with the noise of the cube, and intervals that cover."""

# ruff: noqa: PD011, SIM300 - no pandas here; expected == actual
from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dfprivacy import Column
from dfprivacy.errors import ArgumentError
from dfprivacy.testing import seeded_noise
from dfprivacy_eda import correlation
from dfprivacy_eda.correlation import Products, corr, cov, is_indefinite

from .conftest import SAID

RELATIONS = ["replace_one", "add_remove"]
NUMBERS = ["age", "visits", "income"]
RATED = {"bounds": {f"x{at}": (-4.0, 4.0) for at in range(5)}, "categories": {"g": ["a", "b"]}}
COLUMNS = [Column(f"x{at}", bounds=(-4.0, 4.0), fill=0.0) for at in range(5)]


def rated(n=4000, p=5):
    """Ratings that share a common part, some of it, and a group."""
    rng = np.random.default_rng(3)
    common = rng.normal(size=n)
    shares = np.linspace(0.2, 0.9, p)
    columns = {f"x{at}": s * common + math.sqrt(1 - s * s) * rng.normal(size=n) for at, s in enumerate(shares)}
    return pd.DataFrame({name: np.clip(x, -4, 4) for name, x in columns.items()} | {"g": rng.choice(["a", "b"], n)})


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("nan_policy", ["omit", "fill"])
def test_the_matrix_is_that_of_pandas(neighbors, nan_policy, frame, protect):
    """With next to no noise, of the rows that are complete, or with gaps filled in."""
    numbers = frame[NUMBERS].dropna() if nan_policy == "omit" else frame[NUMBERS].fillna(1e5)
    view = protect(neighbors=neighbors)

    r = view.corr(nan_policy=nan_policy, epsilon=3000)
    c = view.cov(NUMBERS, nan_policy=nan_policy, epsilon=3000)

    units = np.outer([60, 50, 1e5], [60, 50, 1e5])
    assert numbers.corr().to_numpy() == pytest.approx(r.values, abs=0.002)
    assert (numbers.cov() / units).to_numpy() == pytest.approx(c.values / units, abs=1e-5)
    assert len(numbers) == pytest.approx(r.count, abs=0.1)
    gone = None if neighbors == "add_remove" or nan_policy == "fill" else pytest.approx(781, abs=0.1)
    assert gone == r.missing == c.missing
    assert NUMBERS == list(r.columns)
    assert 0 == c.privacy.epsilon  # a covariance follows from the sums of a correlation
    sd = np.sqrt(np.diag(c.values))
    assert r.values[0, 1] == pytest.approx(c.values[0, 1] / (sd[0] * sd[1]))
    assert float(r["age", "visits"]) == r.values[0, 1] == r.loc["age", "visits"] == r["visits"]["age"]
    assert NUMBERS == list(r.errors.index)
    with pytest.raises(ArgumentError, match="no entry for"):
        r["age", "sex"]


# Noise


@pytest.mark.parametrize(("p", "sd"), [(2, 7.483), (5, 24.82), (10, 76.79)])
def test_noise_of_the_cube(p, sd, protect):
    """Reference values for an epsilon of 1: each sum and product, and 2y²-1, whose square has half of it.

    Where rows come and go their number moves by 1; where they change, a gap counts twice, within the 2 of others.
    """
    names = [f"x{at}" for at in range(p)]
    zeros = pd.DataFrame(dict.fromkeys(names, [0.0] * 50))
    view = protect(zeros, bounds=dict.fromkeys(names, (-1, 1)), categories={})

    beyond, noise = view.corr(names, nan_policy="fill", epsilon=1).privacy.noise

    d = p + p * (p + 1) // 2
    assert ("K-norm (cube)", pytest.approx(1 / 32)) == (noise.kind, beyond.epsilon)
    assert sd == pytest.approx(31 / 32 * noise.scale * math.sqrt((d + 1) * (d + 2) / 3), rel=1e-3)
    for scale, neighbors in ((2, "replace_one"), (1, "add_remove")):
        _, noise = protect(neighbors=neighbors).corr(["age", "income"], epsilon=1).privacy.noise
        assert scale == pytest.approx(31 / 32 * noise.scale, rel=1e-6)


def noisy(values, columns, epsilon, rng, *, gaps=None, neighbors="replace_one"):
    """Measure what the first half would, with seeded noise of the cube."""
    y = np.stack([(row - column.mid) / column.half for row, column in zip(values, columns, strict=True)])
    n, p = y.shape[1], len(y)
    private = neighbors == "add_remove"
    counted = private or gaps is not None
    y = y if gaps is None else y[:, ~gaps]
    products = y @ y.T
    products[range(p), range(p)] = 2 * products[range(p), range(p)] - y.shape[1]
    sums = np.concatenate([[float(y.shape[1])] * counted, y.sum(axis=1), products[np.triu_indices(p)]])
    scales = np.full(len(sums), (1 if private else 2) / epsilon)
    if counted and not private:
        scales[0] /= 2
    radius = rng.gamma(len(sums) + 1)
    noise = radius * rng.uniform(-1, 1, len(sums)) * scales
    return Products(tuple(columns), sums + noise, scales, None if private else n, counted)


@pytest.mark.statistical
@pytest.mark.parametrize(("law", "p"), [("rows change", 5), ("rows change, gaps", 3), ("rows come and go", 3)])
def test_intervals_cover(law, p, monkeypatch):
    """Over 150 draws, 95 % intervals of correlations and covariances hold the table's own: between .90 and .99."""
    monkeypatch.setattr(correlation, "_MAX_DRAW", 500 * (p * (p + 3) // 2 + 1))  # five hundred draws for either p
    rng, runs, columns = np.random.default_rng(4), 150, COLUMNS[:p]
    values = rated(5000, p)[[column.name for column in columns]].to_numpy().T
    gaps = rng.random(5000) < 0.2 if "gaps" in law else None
    seen = values if gaps is None else values[:, ~gaps]
    pairs, inside = np.triu_indices(p, 1), {"corr": 0.0, "cov": 0.0}
    neighbors = "add_remove" if "go" in law else "replace_one"
    for _ in range(runs):
        measured = noisy(values, columns, 1.0, rng, gaps=gaps, neighbors=neighbors)
        for method, truth in ((corr, np.corrcoef(seen)), (cov, np.cov(seen))):
            found = method.conclusion(measured, recentre=False)
            inside[method.name] += ((found.lows <= truth) & (truth <= found.highs))[pairs].mean() / runs

    assert all(0.90 <= share <= 0.99 for share in inside.values()), inside


def test_of_public_columns(frame, protect):
    """What is public is exact and free; a part that a private column selects has its own rows."""
    public, pair = protect(public=NUMBERS).corr(epsilon=1), ["age", "visits"]
    part = protect().where(sex="f").corr(pair, epsilon=2000)

    assert frame[NUMBERS].dropna().corr().to_numpy() == pytest.approx(public.values, abs=1e-4)
    assert 0 == public.privacy.epsilon == public.standard_errors.max()
    assert frame.loc[frame["sex"] == "f", pair].corr().iloc[0, 1] == pytest.approx(part.values[0, 1], abs=0.005)


def test_in_two_steps(frame, protect):
    """Values are clipped to three standard deviations about the mean, and the answer is about these."""
    found = protect().corr(NUMBERS, recentre=True, epsilon=1000)
    little = protect().corr(NUMBERS, recentre=True, epsilon=0.001)

    clipped = frame[NUMBERS].dropna()
    for name, ends in zip(NUMBERS, found.bounds, strict=True):
        x = clipped[name]
        low = max(SAID["bounds"][name][0], x.mean() - 3 * x.std())
        assert (low, x.mean() + 3 * x.std()) == pytest.approx(ends, rel=0.02, abs=0.2)
    clipped = clipped.clip(*map(list, zip(*found.bounds, strict=True)), axis=1)
    assert clipped.corr().to_numpy() == pytest.approx(found.values, abs=0.01)
    assert 3 == len(found.privacy.noise)
    assert 1000 >= found.privacy.epsilon
    assert "Values were clipped to narrower bounds: age from" in found.notes[0]
    assert little.bounds == tuple(tuple(map(float, SAID["bounds"][name])) for name in NUMBERS)


# What is said


def test_the_nearest_are_those_of_some_data(protect):
    """Where the noise makes a matrix that no data have, that is said, and the nearest is one that some have."""
    rng, values = np.random.default_rng(2), rated(800)[[column.name for column in COLUMNS]].to_numpy().T
    every = (corr.conclusion(noisy(values, COLUMNS, 1.2, rng), recentre=False) for _ in range(50))

    found = next(each for each in every if not np.isnan(each.values).any() and is_indefinite(each.values))
    c = protect(rated(800), **RATED).cov(epsilon=0.05)

    assert "negative eigenvalue" in " ".join(found.notes)
    for nearest in (found.nearest, c.nearest / np.abs(c.nearest).max()):
        assert np.linalg.eigvalsh(nearest).min() > -1e-9
        assert nearest == pytest.approx(nearest.T)
    assert [1.0] * 5 == pytest.approx(np.diag(found.nearest))
    assert not is_indefinite(found.nearest)


def test_what_is_not_known_says_so(protect):
    """Where noise could be all of a variance, and of nobody, nothing is known, and a note says of whom."""
    frame = pd.DataFrame({"x": [np.nan] * 60, "y": [0.2, 0.8] * 30, "g": ["a"] * 60})
    view = protect(frame, bounds={"x": (0, 1), "y": (0, 1)}, categories={"g": ["a", "b"]})

    with seeded_noise(1):
        found = protect().corr(["age", "visits"], epsilon=0.05)
        every = view.corr(epsilon=1), *view.group_by("g").corr(epsilon=1).releases

    assert math.isnan(found.loc["age", "visits"])
    assert (-1, 1) == (found.lows[0, 1], found.highs[0, 1])
    assert "noise hides the variance" in found.notes[0]
    assert "visits" in found.notes[0]
    for each in every:
        assert math.isnan(each.values[0, 1])
        assert each.notes
