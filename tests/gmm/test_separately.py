"""``view.gmm_fit`` with each mean and each product as a query of its own."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy import Column, features
from dfprivacy.testing import seeded_noise
from dfprivacy_gmm import GaussianClassifier
from dfprivacy_gmm.sums import Entry

NAMES = (f"one-by-one-{number}" for number in itertools.count())
X = Column("x", bounds=(-3.0, 1.5), fill=-0.75)
FAR = Column("far", bounds=(1e16, 1e16 + 4), fill=1e16)
KNOWN = Column("k", bounds=(-2.0, 2.0), fill=0.0, public=True)
BY = Column("by", categories=("a", "b"))
COLUMNS = ["x0", "x1", "x2"]


def drawn(rows=6000, seed=1):
    """Two classes of three columns."""
    rng = np.random.default_rng(seed)
    y = rng.choice(["one", "two"], rows)
    return np.where((y == "one")[:, None], 0.75, -0.25) + 0.8 * rng.standard_normal((rows, 3)), y


def protect(X, y, **terms):
    """A view."""
    table = pd.DataFrame(X, columns=COLUMNS).assign(y=y)
    known = {"bounds": dict.fromkeys(COLUMNS, (-3.0, 3.5)), "categories": {"y": ["one", "two"]}}
    return dp.protect(
        table,
        next(NAMES),
        **{"epsilon": 10**6, "delta": 0.1, "accounting": "basic", "ledger": "memory:", **known, **terms},
    )


@pytest.mark.parametrize("by", [None, BY, replace(BY, public=True)], ids=["all", "private", "public"])
@pytest.mark.parametrize("factors", [(X,), (X, X), (X, FAR), (X, KNOWN)], ids=["y", "square", "product", "known"])
def test_no_row_moves_a_sum_more(search, factors, by):
    """One row moves each sum by what its query claims, of all rows or of classes."""
    asked = Entry(*factors)
    every = [*asked.columns, *([] if by is None else [by])]

    most = search(every, 1).features(asked if by is None else features.OneHot(by) * asked, 1, tries=4, steps=150)

    assert 0.9 < most <= 1 + 1e-9


@pytest.mark.parametrize(
    ("terms", "asked", "sensitivities"),
    [
        ({"public": ["y"]}, {"nan_policy": "fill"}, [2, 2, 2, 1, 2, 2, 1, 2, 1]),
        ({"public": ["y"]}, {}, [1, 2, 2, 2, 1, 2, 2, 1, 2, 1]),
        ({}, {}, [2] * 10),
        ({"neighbors": "add_remove"}, {}, [1] * 10),
    ],
    ids=["public classes", "missing rows", "private classes", "private size"],
)
def test_each_query_has_its_part_of_epsilon(terms, asked, sensitivities):
    """Each scalar has its sensitivity over an equal part of epsilon; the parts add up to what is charged."""
    view = protect(*drawn(), **terms)

    found = view.gmm_fit(COLUMNS, "y", queries="separately", **asked, epsilon=0.6, delta=0)

    scales = np.array(sensitivities) * len(sensitivities) / 0.6
    assert found.noise_standard_error == pytest.approx(math.sqrt(2) * scales, rel=1e-3)
    assert [record.sensitivity for record in found.privacy.noise] == pytest.approx(sensitivities)
    assert view.budget.spent == pytest.approx(0.6)
    assert found.queries == "separately"


@pytest.mark.parametrize("method", ["lda", "qda"])
def test_with_little_noise_the_classes_are_those_of_the_data(method):
    """Where there is hardly any noise, means and covariances are those without privacy; a refit knows the noise."""
    X, y = drawn()
    view = protect(X, y)

    found = view.gmm_fit(COLUMNS, "y", method=method, queries="separately", epsilon=10**5)

    plain = GaussianClassifier(method).fit(X.clip(-3, 3.5), y)
    assert found.means == pytest.approx(plain.means_, abs=1e-3)
    assert found.covariances_ == pytest.approx(plain.covariances_, abs=1e-3)
    assert found.refit(repair="paper").means == pytest.approx(found.means)


@pytest.mark.statistical
def test_one_by_one_costs_accuracy():
    """At the same price all sums in one measurement give better classes."""
    X, y = drawn()
    test = drawn(seed=2)
    view = protect(X, y)

    with seeded_noise(3):
        errors = [
            [
                1 - view.gmm_fit(COLUMNS, "y", queries=queries, epsilon=0.05 + k / 10**9, delta=1e-6).score(*test)
                for k in range(12)
            ]
            for queries in ("separately", "jointly")
        ]

    assert np.mean(errors[0]) > np.mean(errors[1]) + 0.02


def test_what_does_not_go_with_it_is_refused():
    """A radius, which is of Gaussian noise, and a mixture, which is no query of sums."""
    view = protect(*drawn())

    with pytest.raises(dp.ArgumentError, match="one measurement of all sums"):
        view.gmm_fit(COLUMNS, "y", queries="separately", radius=1.0, epsilon=1)
    with pytest.raises(dp.ArgumentError, match="queries= is about classes with a label"):
        view.gmm_fit(COLUMNS, n_components=2, queries="separately", epsilon=1)
    with pytest.raises(dp.ArgumentError, match="queries='one by one' is unknown"):
        view.gmm_fit(COLUMNS, "y", queries="one by one", epsilon=1)

    assert view.budget.spent == 0
