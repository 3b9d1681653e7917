"""Categories that nobody declared: what is found, what is not, how well it is known, and how it is used."""

# ruff: noqa: SIM300 - no pandas here; expected == actual
from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy import ArgumentError, SchemaError
from dfprivacy.testing.noise import seeded_noise
from dfprivacy_eda.categories import reach_of

pytestmark = pytest.mark.pandas

CODES = [*["J45"] * 600, *["E11"] * 400, *["I10"] * 240, *(f"rare {at}" for at in range(100)), *[None] * 60]
SEVERE = [1, 2] * 700
NAMES = (f"found-{at}" for at in itertools.count())


def protect(frame=None, **said):
    frame = pd.DataFrame({"icd": CODES, "severe": SEVERE}) if frame is None else frame
    return dp.protect(frame, next(NAMES), **{"epsilon": 100, "delta": 1e-4, "ledger": "memory:", **said})


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, lambda d: pl.DataFrame(d).lazy(), pa.table])
def test_what_enough_rows_hold_is_found(library):
    """On every engine: three codes with their counts, and how many rows hold none of them; both columns by name."""
    view = protect(library({"icd": CODES, "severe": SEVERE}))

    found = view.find_categories(["icd", "severe"], epsilon=20)
    counts = view.value_counts("icd", categories="discover", epsilon=10)

    assert {"icd": ["E11", "I10", "J45", "other"], "severe": [1, 2, "other"]} == found.categories
    assert ("J45", "E11", "I10") == found.known[0] == counts.categories
    assert [600, 400, 240] == pytest.approx([found["icd"][key] for key in found.known[0]], abs=8)
    assert 160 == pytest.approx(found["icd"].other, abs=12)
    assert 160 == pytest.approx(counts.other, abs=6)


@pytest.mark.parametrize(
    ("neighbors", "epsilon", "delta", "threshold"),
    [("replace_one", 1, 1e-6, 28), ("add_remove", 1, 1e-6, 15), ("replace_one", 0.5, 1e-8, 73)],
)
def test_the_threshold_and_the_price(neighbors, epsilon, delta, threshold):
    """One column has all of epsilon and delta; two columns have half of each, and the same is charged."""
    view = protect(neighbors=neighbors)

    one = view.value_counts("icd", categories="discover", epsilon=epsilon, delta=delta)
    two = view.find_categories(["icd", "severe"], epsilon=2 * epsilon, delta=2 * delta)

    assert threshold == one.threshold
    assert (epsilon, delta) == pytest.approx((one.privacy.epsilon, one.privacy.delta))
    assert (threshold, threshold) == two.thresholds
    assert (2 * epsilon, 2 * delta) == pytest.approx((two.privacy.epsilon, two.privacy.delta))


def test_found_categories_can_be_used_at_once():
    """A view with what was found, and a table protected with it, count the rest as "other"."""
    frame, view = pd.DataFrame({"icd": CODES, "severe": SEVERE}), protect()
    found = view.find_categories(["icd"], epsilon=20)

    declared = view.declare(found, bounds={"severe": (1, 2)})
    again = protect(frame, **found.schema)

    assert declared.schema.columns["icd"] == again.schema.columns["icd"]
    assert 160 == pytest.approx(declared.value_counts("icd", epsilon=10)["other"], abs=6)
    assert 1.5 == pytest.approx(float(declared.mean("severe", epsilon=10)), abs=0.02)
    assert view.name == declared.name
    assert "icd" not in view.schema.columns


def test_categories_can_be_found_when_a_table_is_protected():
    """They are paid for once; the same words find them in the ledger, and the frame's view knows them."""
    frame = pd.DataFrame({"icd": CODES, "severe": SEVERE})
    terms = {"epsilon": 10, "delta": 1e-5, "ledger": "memory:", "bounds": {"severe": (1, 2)}}
    name = next(NAMES)

    first = dp.protect(frame, name, categories={"icd": dp.discover(epsilon=4, delta=1e-6)}, **terms)
    second = dp.protect(frame, name, categories={"icd": dp.discover(epsilon=4, delta=1e-6)}, **terms)

    assert ("E11", "I10", "J45", "other") == first.schema.columns["icd"].categories
    assert first.schema == second.schema == frame.dp.view.schema
    assert 4 == second.budget.spent


def test_the_intervals_cover_what_is_shown():
    """Of codes with counts about the threshold, 95 % intervals of those that are shown hold the count as often."""
    held, scale, threshold = range(1, 60), 2.0, 28
    q = math.exp(-1 / scale)
    away = np.arange(-400, 401)
    law = (1 - q) / (1 + q) * q ** abs(away)
    width = reach_of(scale, 0.95)

    for count in held:
        noisy = count + away
        shown = noisy >= threshold
        low = np.where(noisy >= threshold + width, noisy - width, 1)
        inside = (low <= count) & (count <= noisy + width)
        assert law[shown & inside].sum() >= 0.95 * law[shown].sum(), count


def test_what_cannot_be_found():
    """No delta, no column, one twice, one that is not there, missing values to fill: refused, nothing is paid."""
    view, pure = protect(), protect(delta=0)

    for refused, match in (
        (lambda: pure.find_categories(["icd"], epsilon=1), "delta above zero"),
        (lambda: pure.value_counts("icd", categories="discover", epsilon=1), "delta above zero"),
        (lambda: view.find_categories([], epsilon=1), "at least one"),
        (lambda: view.find_categories(["icd", "icd"], epsilon=1), "each once"),
        (lambda: view.value_counts("icd", categories="discover", nan_policy="fill", epsilon=1), "nan_policy"),
        (view.declare, "told nothing"),
        (lambda: view.declare(view.count(epsilon=1)), "says nothing about columns"),
    ):
        with pytest.raises(ArgumentError, match=match):
            refused()
    with pytest.raises(SchemaError, match='categories="discover"'):
        view.value_counts("icd", epsilon=1)
    with pytest.raises(SchemaError, match="no column 'x'"):
        view.find_categories(["x"], epsilon=1)
    with pytest.raises(SchemaError, match="not there"):
        view.declare(bounds={"x": (0, 1)})
    with pytest.raises(SchemaError, match="equal or reversed"):
        view.declare(bounds={"severe": (2, 1)})

    assert (0, 0) == (view.budget.spent, pure.budget.spent)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_where_nothing_is_found(neighbors):
    """Rare, missing and few values: no category but "other", and the release says what to do."""
    view = protect(pd.DataFrame({"icd": [f"rare {at}" for at in range(50)] + [None] * 50}), neighbors=neighbors)

    with seeded_noise(1):
        found = view.value_counts("icd", categories="discover", epsilon=0.5)
        wide = view.find_categories(["icd"], epsilon=1)

    assert () == found.categories
    assert "No value was found" in repr(found)
    assert found.other == (None if neighbors == "add_remove" else 100)
    assert {"icd": ["other"]} == wide.categories
    assert 0 == len(wide.frame)
    assert "none found" in repr(wide)


def test_groups_and_parts():
    """Each group finds its own; a part whose size is private has no number of others."""
    view = protect(categories={"severe": [1, 2]})

    by = view.group_by("severe").value_counts("icd", categories="discover", epsilon=10)
    part = view.where(severe=1).value_counts("icd", categories="discover", epsilon=10)

    assert {"J45", "E11", "I10"} == set(by[2].categories)
    assert 300 == pytest.approx(by[2]["J45"], abs=6)
    assert 300 == pytest.approx(part["J45"], abs=6)
    assert part.other is None
    assert 10 == pytest.approx(by.privacy.epsilon)
