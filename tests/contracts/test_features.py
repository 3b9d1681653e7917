"""No neighbouring table that a search finds moves the sums of any features by more than was priced.

The noise comes from a seed, so what two answers differ by is what the exact sums differ by.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.features import (
    Beyond,
    Bins,
    Count,
    Fourier,
    Given,
    Kernel,
    Moments,
    Nystrom,
    OneHot,
    Outer,
    ProductKernel,
    RowFeatures,
    Stack,
    Weighted,
)
from dfprivacy.testing import seeded_noise

BOUNDS = {"x": (-3.0, 5.0), "y": (1e6, 1e6 + 7)}
CATEGORIES = {"g": ["p", "q", "r"], "h": [0, 1]}
EDGES = np.linspace(*BOUNDS["x"], 9)
POINTS = [[-3.0, 1e6 + 7, 0], [5.0, 1e6, 2], [0.0, 1e6 + 1, 1]]
NORMS = {"laplace": 1, "gaussian": 2, "cube": math.inf}
ENDS = [0.35, 0.35, 0.1, 0.1, 0.1]
PAIRS = 12
PUBLIC = {  # what is the same of all neighbours
    ("how many", "a row changes"),
    ("how many", "a row changes where one category is public"),
    ("categories", "a row changes where one category is public"),
    ("some categories", "a row changes where one category is public"),
}
NAMES = (f"features {at}" for at in itertools.count())


class Theirs(RowFeatures):
    """Somebody else's features, with a radius that their rows exceed."""

    shape = (2,)

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        x = batch.values(self.columns[0])
        return np.stack([x, x**2], axis=1)

    def radius(self, norm):
        return 3.0


def kernel(x, y, g):
    """A kernel of numbers and a category."""
    return ProductKernel((x, y, g), {"x": 1.0, "y": 2.0}, 0.3)


def weighted(x, of, **square):
    """Features weighted by the positive part of a column."""
    return Weighted(replace(x, bounds=(0.0, x.high)), of, **square)


FEATURES = {
    "how many": lambda x, y, g, h: Count(),
    "sums": lambda x, y, g, h: Moments(x, degree=1),
    "sums and how many": lambda x, y, g, h: Moments(x, degree=1, count=True),
    "squares": lambda x, y, g, h: Moments(y),
    "squares and how many": lambda x, y, g, h: Moments(x, count=True),
    "squares beside how many": lambda x, y, g, h: Given(x, of=Moments(x, count="beside")),
    "rows beyond": lambda x, y, g, h: Beyond(y),
    "squares and rows beyond": lambda x, y, g, h: Stack(
        Given(x, of=Moments(x, count="beside")), Beyond(x, weight=1 / 16)
    ),
    "rows beyond by category": lambda x, y, g, h: OneHot(g) * Stack(Moments(x, count=True), Beyond(x)),
    "centred squares": lambda x, y, g, h: Moments(y, centred=True),
    "categories": lambda x, y, g, h: OneHot(g),
    "some categories": lambda x, y, g, h: OneHot(g, groups=["q"]),
    "cells": lambda x, y, g, h: OneHot(g, h),
    "squares by category": lambda x, y, g, h: OneHot(g) * Moments(x, count=True),
    "intervals": lambda x, y, g, h: Bins(x, EDGES),
    "a tree of intervals": lambda x, y, g, h: Bins(x, EDGES, widths=(4, 1), weights=(3, 2), missing=True),
    "products": lambda x, y, g, h: Outer((x, y), count=True),
    "products in a ball": lambda x, y, g, h: Outer((x, y), radius=0.9, count=2.5),
    "complete rows": lambda x, y, g, h: Given(x, g),
    "complete rows and others": lambda x, y, g, h: Given(x, y, of=Moments(x), tally=(1.5, -0.5)),
    "several": lambda x, y, g, h: Stack(Moments(x), OneHot(g) * Moments(y, degree=1), Count()),
    "weighted halves": lambda x, y, g, h: Given(x, y, of=weighted(x, Moments(y, degree=1, count=True))),
    "weighted rows by category": lambda x, y, g, h: OneHot(g) * weighted(x, Count(), square=0.5),
    "weighted categories": lambda x, y, g, h: weighted(x, OneHot(g), square=0),
    "waves": lambda x, y, g, h: Fourier((x, y), [[0.5, 0.1], [1.0, -2.0]]),
    "a kernel": lambda x, y, g, h: Kernel(kernel(x, y, g), POINTS),
    "its Nyström features": lambda x, y, g, h: Nystrom(kernel(x, y, g), POINTS),
    "somebody else's": lambda x, y, g, h: Theirs(x),
    "somebody else's by category": lambda x, y, g, h: OneHot(h, of=Theirs(x)),
}


@dp.mechanism(columns={"x": "numeric", "y": "numeric", "g": "category", "h": "category"}, delta=True)
def contract_sums(curator, x, y, g, h, noises=("gaussian",)):
    """Measure the sums of all features with some kinds of noise; give them in its units, and the sensitivities."""
    share = Fraction(1, len(FEATURES) * len(NORMS))
    found = {}
    for name, make in FEATURES.items():
        features = make(x, y, g, h)
        for noise in noises:
            measured = curator.sum(features, noise=noise, share=share)
            sums = np.ravel(measured.values * features.weights).tolist()  # noqa: PD011 - a noisy sum
            found[f"{name}, {noise}"] = [sums, measured.noise.sensitivity if measured.noise else 0.0]
    return found


@pytest.fixture(scope="module", autouse=True)
def registered():
    """The method is one of every view."""
    dp.register_mechanism(contract_sums)
    yield
    dp.unregister("contract_sums")


def row(rng, **known):
    """Make a row, mostly at the ends of what can be."""
    made = {
        name: rng.choice([low, high, low + (high - low) * rng.random(), 10 * high, np.nan], p=ENDS)
        for name, (low, high) in BOUNDS.items()
    }
    made |= {name: [*each, *each, None][rng.integers(2 * len(each) + 1)] for name, each in CATEGORIES.items()}
    return {**made, **known}


def whole(view):
    return view


# By name: what is said of the table, what part of it is asked, and what of a neighbour's first row is known.
RELATIONS = {
    "a row changes": ({}, whole),
    "a row changes where one category is public": ({"public": ["g"]}, whole),
    "a row comes": ({"neighbors": "add_remove"}, whole),
    "a row enters a part": ({}, lambda view: view.where(x=(1, 5))),
    "a row changes its group": ({}, lambda view: view.group_by("h")),
    "all rows of a person change": ({"unit": "id", "max_rows": 2}, whole),
}


def neighbours(rng, terms):
    """Make a table and a neighbour."""
    if "unit" in terms:
        rows = [row(rng, id=at // 2) for at in range(6)]
        return rows, [*(row(rng, id=0) for _ in range(rng.integers(3))), *rows[2:]]
    rows = [row(rng) for _ in range(4)]
    if "neighbors" in terms:
        return rows, [row(rng), *rows]
    return rows, [row(rng, **{name: rows[0][name] for name in terms.get("public", ())}), *rows[1:]]


def sums(rows, terms, part, noises):
    """Give the sums of each group."""
    known = {"bounds": BOUNDS, "categories": CATEGORIES, "ledger": "memory:"}
    price = {"epsilon": 100, "delta": 1e-3}
    view = dp.protect(pd.DataFrame(rows), next(NAMES), **{**known, **price, "accounting": "basic", **terms})
    with seeded_noise(1):
        answer = part(view).contract_sums("x", "y", "g", "h", noises=noises, **price)
    return [each.value for each in (answer.releases if isinstance(answer, dp.Groups) else [answer])]


def moved(one, other, norm):
    """Say how far two tables' sums are apart; in the norm of infinity, the losses of groups add up."""
    apart = [np.abs(np.subtract(a, b)) for a, b in zip(one, other, strict=True)]
    return (
        sum(each.max() for each in apart) if norm == math.inf else np.linalg.norm(np.concatenate(apart), ord=norm)
    )


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_neighbour_moves_sums_by_more_than_was_priced(relation):
    """In the norm of each noise; and some neighbour moves each by a fifth of that, so the search can see.

    What is priced does not depend on the rows, nor what is summed on the noise: the first pair alone has all kinds.
    """
    rng = np.random.default_rng(1)
    terms, part = RELATIONS[relation]
    prices, shares = {}, {}
    for pair in range(PAIRS):
        noises = ["gaussian"] if pair else [*NORMS]
        one, other = (sums(rows, terms, part, noises) for rows in neighbours(rng, terms))
        prices |= {} if pair else {name: priced for name, (_, priced) in one[0].items()}
        for name, priced in prices.items():
            features, noise = name.split(", ")
            summed = f"{features}, gaussian" if pair else name
            apart = moved(*([group[summed][0] for group in table] for table in (one, other)), NORMS[noise])
            share = apart / priced if priced else math.inf if apart else 0.0  # what is public is free, and the same
            shares[features, noise] = max(shares.get((features, noise), 0.0), share)

    public = {features for features, among in PUBLIC if among == relation}
    assert len(shares) == len(FEATURES) * len(NORMS)
    assert {each: share for each, share in shares.items() if share > 1 + 1e-9} == {}
    assert public == {features for (features, _), share in shares.items() if share < 1 / 5}
    assert {0.0} >= {share for (features, _), share in shares.items() if features in public}
