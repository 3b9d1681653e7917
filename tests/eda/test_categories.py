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
from dfprivacy import ArgumentError, DPError, SchemaError
from dfprivacy.testing import seeded_noise
from dfprivacy_eda.categories import FoundCounts, reach_of

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


# ---- a known domain --------------------------------------------------------------------------------------

ICD = "[A-Z][0-9]{2}"


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, lambda d: pl.DataFrame(d).lazy(), pa.table])
def test_of_a_known_domain_no_delta_is_needed(library):
    """On every engine: the frequent codes among all that there can be, with their counts, and pure."""
    view = protect(library({"icd": CODES, "severe": SEVERE}), delta=0)

    with seeded_noise(4):
        counts = view.value_counts("icd", domain=ICD, epsilon=10)
        numbers = view["severe"].value_counts(domain=range(10**9), normalize=True, epsilon=10)

    assert ("J45", "E11", "I10") == counts.categories
    assert [600, 400, 240] == pytest.approx(counts.raw.tolist(), abs=4)
    assert 160 == pytest.approx(counts.other, abs=6)
    assert (1, 2) == tuple(sorted(numbers.categories))
    assert [0.5, 0.5] == pytest.approx([numbers[1], numbers[2]], abs=0.01)
    assert (10, 0) == (counts.privacy.epsilon, counts.privacy.delta)


@pytest.mark.parametrize(
    ("neighbors", "domain", "size", "threshold"),
    [
        ("replace_one", r"\d{5}", 10**5, 29),
        ("add_remove", r"\d{5}", 10**5, 15),
        ("replace_one", range(10**9), 10**9, 47),
        ("replace_one", ["J45", "E11"], 2, 7),
    ],
    ids=str,
)
def test_it_says_how_many_are_false(neighbors, domain, size, threshold):
    """It says how many values there can be, from how many rows on they are shown, and how many are false."""
    view = protect(neighbors=neighbors, delta=0)

    found = view.value_counts("icd", domain=domain, epsilon=1)

    b = 2 if neighbors == "replace_one" else 1
    false = size * math.exp(-threshold / b) / (1 + math.exp(-1 / b))
    assert (threshold, size) == (found.threshold, found.domain)
    assert false == pytest.approx(found.false)
    said = f"{size:,} values; on average {false:.2g} are shown that no row holds"
    assert said in " ".join(repr(found).split())


@pytest.mark.pandas(False)
def test_false_ones_are_as_rare_as_is_said():
    """Of 400 answers about a column of which nobody holds a value, about one in twenty shows one, with 0 inside."""
    frame = pd.DataFrame({"x": [None] * 20})
    view, shown = protect(frame, delta=0, epsilon=400), []
    with seeded_noise(0):
        for _ in range(400):
            found = view.value_counts("x", domain=range(10**6), epsilon=1, fresh=True)
            shown += [(low, high) for low, high in zip(*found.intervals, strict=True)]
            false = found.false

    assert 0.025 < false <= 0.05
    assert 0 < len(shown) < 60  # 20 at most are expected
    assert sum(low == 0 for low, _ in shown) >= 0.8 * len(shown)


@pytest.mark.pandas(False)
@pytest.mark.parametrize("count", range(40))
def test_intervals_cover_what_is_shown_of_a_domain(count):
    """Of a value with any number of rows, none among them, 95 % intervals hold it as often where it is shown."""
    scale, threshold = 2.0, 29
    noisy = np.arange(threshold, 400)
    q = math.exp(-1 / scale)
    law = (1 - q) / (1 + q) * q ** abs(noisy - count)
    found = FoundCounts(
        raw=noisy.astype(float),
        total=1e9,
        noise_scale=scale,
        confidence=0.95,
        normalize=False,
        column="x",
        categories=tuple(range(len(noisy))),
        threshold=threshold,
        domain=10**5,
    )

    low, high = found.intervals
    inside = (low <= count) & (count <= high)
    assert law[inside].sum() >= 0.95 * law.sum()


def test_values_outside_of_the_domain_count_with_all_others():
    """Missing values, and those in no place of the domain, are none of its values, however many rows hold them."""
    frame = pd.DataFrame({"zip": ["90210"] * 300 + ["unknown"] * 300 + [None] * 100 + ["90210-1"] * 50})

    with seeded_noise(5):
        found = protect(frame, delta=0).value_counts("zip", domain=r"\d{5}", epsilon=10)

    assert ("90210",) == found.categories
    assert 450 == pytest.approx(found.other, abs=3)


def test_what_was_found_of_a_domain_can_be_declared():
    """The values that were shown become the column's categories, and all the rest is "other"."""
    view = protect(delta=0)

    with seeded_noise(9):
        found = view.value_counts("icd", domain=ICD, epsilon=10)
        declared = view.declare(found)
        counts = declared.value_counts("icd", epsilon=10)

    assert ("E11", "I10", "J45", "other") == declared.schema.columns["icd"].categories
    assert 160 == pytest.approx(counts["other"], abs=6)


@pytest.mark.parametrize("people", [{}, {"unit": "who", "max_rows": 2}], ids=["rows", "people"])
def test_categories_of_a_domain_can_be_found_when_a_table_is_protected(people):
    """Without a delta, also where a person has several rows; paid for once, and found again."""
    frame = pd.DataFrame({"icd": CODES, "severe": SEVERE, "who": [at // 2 for at in range(len(CODES))]})
    terms = {"epsilon": 40, "ledger": "memory:", **people}
    name = next(NAMES)

    with seeded_noise(10):
        first = dp.protect(frame, name, categories={"icd": dp.discover(epsilon=20, domain=ICD)}, **terms)
        second = dp.protect(frame, name, categories={"icd": dp.discover(epsilon=20, domain=ICD)}, **terms)

    assert ("E11", "I10", "J45", "other") == first.schema.columns["icd"].categories
    assert first.schema == second.schema
    assert 20 == second.budget.spent
    with pytest.raises(ArgumentError, match="without a delta"):
        dp.discover(delta=1e-6, domain=ICD)


def test_a_domain_in_groups_parts_and_plans():
    """Groups and parts are counted apart, all groups at the price of one, and a plan reads nothing."""
    view = protect(categories={"severe": [1, 2]}, delta=0)

    plan = view.explain("value_counts", "icd", domain=ICD, epsilon=10)
    with seeded_noise(6):
        by = view.group_by("severe").value_counts("icd", domain=ICD, epsilon=10)
        part = view.where(severe=1).value_counts("icd", domain=ICD, epsilon=10)

    assert "each key of icd among 2,600" in repr(plan)
    assert {"J45", "E11", "I10"} == set(by[2].categories) == set(part.categories)
    assert 300 == pytest.approx(by[2]["J45"], abs=4)
    assert 20 == view.budget.spent


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_a_domain_of_people_with_many_rows(neighbors):
    """Where a person may have three rows, the threshold and the noise are for all of them."""
    frame = pd.DataFrame({"icd": CODES, "who": [at // 4 for at in range(len(CODES))]})
    view = protect(frame, neighbors=neighbors, unit="who", max_rows=3, delta=0)

    with seeded_noise(7):
        found = view.value_counts("icd", domain=ICD, epsilon=60)

    assert {"replace_one": 0.1, "add_remove": 0.05}[neighbors] == pytest.approx(found.noise_scale)
    assert [450, 300, 180] == pytest.approx(found.raw.tolist(), abs=2)
    assert found.other is None


def test_what_is_wrong_with_a_domain():
    """Nothing that is no domain, and nothing beside one that contradicts it, is charged."""
    view = protect()

    for refused, match in (
        (lambda: view.value_counts("icd", domain=ICD, categories="discover", epsilon=1), "Use one of them"),
        (
            lambda: view.value_counts("icd", domain=ICD, nan_policy="fill", epsilon=1),
            "domain= leaves missing values",
        ),
        (lambda: view.value_counts("icd", domain="[A-Z", epsilon=1), "character 1"),
        (lambda: view.value_counts("icd", domain=[], epsilon=1), "at least one value"),
        (lambda: view.value_counts("icd", domain=["J45", "J45"], epsilon=1), "each once"),
        (lambda: view.value_counts("icd", domain=r"\d{20}", epsilon=1), "more than"),
        (lambda: view.explain("value_counts", "icd", domain=5, epsilon=1), "no list, no range"),
    ):
        with pytest.raises(DPError, match=match):
            refused()

    assert 0 == view.budget.spent


def test_a_picture_of_a_domain():
    """What was found is drawn, a row for each value, and nothing found is drawn as well."""
    view = protect(delta=0)

    with seeded_noise(8):
        found = view.value_counts("icd", domain=ICD, epsilon=10)
        none = view.value_counts("icd", domain=range(10), epsilon=1)

    assert [*found.categories] == [label.get_text() for label in found.plot().get_yticklabels()]
    assert () == none.categories
    assert "use a larger epsilon." in repr(none)
    none.plot()
