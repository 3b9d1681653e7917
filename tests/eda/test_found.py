"""What nobody declared, and is found: categories, with a delta or among a domain, bounds, and a whole profile."""

# ruff: noqa: SIM300, PD011 - expected == actual; a profile's values are no frame's
from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy import ArgumentError, Column
from dfprivacy._privacy.calibrate import gaussian_discovery
from dfprivacy.testing import seeded_noise
from dfprivacy_eda.bounds import EDGES, count_outer_intervals, rows_beyond, sum_thresholds, threshold
from dfprivacy_eda.categories import FoundCounts, count_half_width
from dfprivacy_eda.profile import bin_features, histogram_moments

pytestmark = pytest.mark.pandas

RELATIONS = ["replace_one", "add_remove"]
CODES = [*["J45"] * 600, *["E11"] * 400, *["I10"] * 240, *(f"rare {at}" for at in range(100)), *[None] * 60]
TABLE = {"icd": CODES, "severe": [1, 2] * 700}
ICD = "[A-Z][0-9]{2}"  # 2,600 codes
DISCOVER = {"categories": "discover"}
BOTH = {"delta": DISCOVER, "domain": {"domain": ICD}}
NAMES = (f"found-{at}" for at in itertools.count())


def protect(frame=None, **said):
    frame = pd.DataFrame(TABLE if frame is None else frame)
    return dp.protect(frame, next(NAMES), **{"epsilon": 400, "delta": 1e-4, "ledger": "memory:", **said})


# Categories


@pytest.mark.parametrize("how", BOTH)
def test_what_enough_rows_hold_is_found(how):
    """Three codes with their counts, and how many rows hold none of them; by group and in a part as well."""
    view = protect(categories={"severe": [1, 2]}, **({"delta": 0} if how == "domain" else {}))

    counts = view.value_counts("icd", **BOTH[how], epsilon=10)
    spent = view.budget.spent
    by = view.group_by("severe").value_counts("icd", **BOTH[how], epsilon=10)
    part = view.where(severe=1).value_counts("icd", **BOTH[how], epsilon=10)

    assert ("J45", "E11", "I10") == counts.categories
    assert [600, 400, 240] == pytest.approx(counts.raw.tolist(), abs=8)
    assert 160 == pytest.approx(counts.other, abs=12)
    assert {"J45", "E11", "I10"} == set(by[2].categories) == set(part.categories)
    assert [300, 300] == pytest.approx([by[2]["J45"], part["J45"]], abs=6)
    assert part.other is None  # its size is private
    assert [10, 30] == [spent, view.budget.spent]
    assert how == "delta" or counts.privacy.delta == 0


def test_of_several_columns_of_numbers_and_outside_of_a_domain():
    """By name; among a billion numbers, with shares; what is in no place of a domain is with the others."""
    found = protect().find_categories(["icd", "severe"], epsilon=20)
    numbers = protect(delta=0)["severe"].value_counts(domain=range(10**9), normalize=True, epsilon=10)
    rows = {"zip": ["90210"] * 300 + ["unknown"] * 300 + [None] * 100 + ["90210-1"] * 50}
    codes = protect(rows, delta=0).value_counts("zip", domain=r"\d{5}", epsilon=10)

    assert {"icd": ["E11", "I10", "J45", "other"], "severe": [1, 2, "other"]} == found.categories
    assert ("J45", "E11", "I10") == found.known[0]
    assert 160 == pytest.approx(found["icd"].other, abs=12)
    assert [0.5, 0.5] == pytest.approx([numbers[1], numbers[2]], abs=0.01)
    assert ({1, 2}, ("90210",)) == (set(numbers.categories), codes.categories)
    assert 450 == pytest.approx(codes.other, abs=3)


@pytest.mark.parametrize(
    ("neighbors", "epsilon", "delta", "least"),
    [("replace_one", 1, 1e-6, 28), ("add_remove", 1, 1e-6, 15), ("replace_one", 0.5, 1e-8, 73)],
)
def test_the_threshold_and_the_price(neighbors, epsilon, delta, least):
    """One column has all of epsilon and delta; two columns have half of each, and the same is charged."""
    view = protect(neighbors=neighbors)

    one = view.value_counts("icd", **DISCOVER, epsilon=epsilon, delta=delta)
    two = view.find_categories(["icd", "severe"], epsilon=2 * epsilon, delta=2 * delta)

    assert (least, (least, least)) == (one.threshold, two.thresholds)
    for price, found in ((1, one), (2, two)):
        assert (price * epsilon, price * delta) == pytest.approx((found.privacy.epsilon, found.privacy.delta))


@pytest.mark.parametrize(
    ("neighbors", "domain", "size", "least"),
    [
        ("replace_one", r"\d{5}", 10**5, 29),
        ("add_remove", r"\d{5}", 10**5, 15),
        ("replace_one", range(10**9), 10**9, 47),
        ("replace_one", ["J45", "E11"], 2, 7),
    ],
    ids=str,
)
def test_it_says_how_many_are_false(neighbors, domain, size, least):
    """It says how many values there can be, from how many rows on they are shown, and how many are false.

    Of 100 answers about a column of which nobody holds a value, about one in twenty shows one.
    """
    found = protect(neighbors=neighbors, delta=0).value_counts("icd", domain=domain, epsilon=1)

    b = 2 if neighbors == "replace_one" else 1
    false = size * math.exp(-least / b) / (1 + math.exp(-1 / b))
    assert (least, size, pytest.approx(false)) == (found.threshold, found.domain, found.false)
    said = f"{size:,} values; on average {false:.2g} of the shown values occur in no row"
    assert said in " ".join(repr(found).split())
    if domain == range(10**9):
        view = protect({"x": [None] * 20}, delta=0)
        nobody = [view.value_counts("x", domain=range(10**6), epsilon=1, fresh=True) for _ in range(100)]
        assert 0.025 < nobody[0].false <= 0.05
        assert 0 < sum(len(each.categories) for each in nobody) < 22  # 5 at most are expected


@pytest.mark.pandas(False)
def test_the_intervals_cover_what_is_shown():
    """Of values of any number of rows, those that are shown have intervals that hold it in 95 %, by their law."""
    scale, away = 2.0, np.arange(-400, 401)
    q = math.exp(-1 / scale)
    law = (1 - q) / (1 + q) * q ** abs(away)
    width = count_half_width(scale, 0.95)
    known = {"total": 1e9, "noise_scale": scale, "confidence": 0.95, "normalize": False, "column": "x"}
    for count in range(60):
        noisy = count + away
        shown = noisy >= 28
        low = np.where(noisy >= 28 + width, noisy - width, 1)
        inside = (low <= count) & (count <= noisy + width)
        assert not count or law[shown & inside].sum() >= 0.95 * law[shown].sum(), count

        noisy = noisy[noisy >= 29]
        names = tuple(range(len(noisy)))
        found = FoundCounts(raw=noisy.astype(float), **known, categories=names, threshold=29, domain=10**5)
        low, high = found.intervals
        inside, of_domain = (low <= count) & (count <= high), law[away + count >= 29]
        assert of_domain[inside].sum() >= 0.95 * of_domain.sum(), count


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_where_nothing_is_found(neighbors):
    """Rare, missing and few values: no category but "other", and the release says what to do."""
    view = protect({"icd": [f"rare {at}" for at in range(50)] + [None] * 50}, neighbors=neighbors)

    with seeded_noise(1):
        found = view.value_counts("icd", **DISCOVER, epsilon=0.5)
        wide = view.find_categories(["icd"], epsilon=1)
        none = view.value_counts("icd", domain=range(10), epsilon=1)

    assert () == found.categories == none.categories
    assert "No value was found" in repr(found)
    assert found.other == (None if neighbors == "add_remove" else 100)
    assert {"icd": ["other"]} == wide.categories
    assert 0 == len(wide.frame)
    assert "none found" in repr(wide)
    assert "use a larger epsilon." in repr(none)
    none.plot()


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_a_domain_of_people_with_many_rows(neighbors):
    """Where a person may have three rows, the threshold and the noise are for all of them."""
    frame = {"icd": CODES, "who": [at // 4 for at in range(len(CODES))]}
    view = protect(frame, neighbors=neighbors, unit="who", max_rows=3, delta=0)

    found = view.value_counts("icd", domain=ICD, epsilon=60)

    assert {"replace_one": 0.1, "add_remove": 0.05}[neighbors] == pytest.approx(found.noise_scale)
    assert [450, 300, 180] == pytest.approx(found.raw.tolist(), abs=2)
    assert found.other is None


# How it is used


@pytest.mark.parametrize("how", ["columns", *BOTH])
def test_found_categories_can_be_used_at_once(how):
    """A view with what was found, and a table protected with it, count the rest as "other".

    Where they are found as a table is protected, they are paid for once; the same words find them in the ledger.
    """
    view = protect()
    asked = view.find_categories(["icd"], epsilon=20) if how == "columns" else None
    found = asked or view.value_counts("icd", **BOTH[how], epsilon=20)

    declared = view.declare(found, bounds={"severe": (1, 2)})

    assert ("E11", "I10", "J45", "other") == declared.schema.columns["icd"].categories
    assert 160 == pytest.approx(declared.value_counts("icd", epsilon=10)["other"], abs=6)
    assert 1.5 == pytest.approx(float(declared.mean("severe", epsilon=10)), abs=0.02)
    assert view.name == declared.name
    assert "icd" not in view.schema.columns
    if asked:
        assert declared.schema.columns["icd"] == protect(**found.schema).schema.columns["icd"]
        return
    terms = {
        "epsilon": 40,
        "delta": 1e-5,
        "ledger": "memory:",
        **({"unit": "who", "max_rows": 2} if how == "domain" else {}),
    }
    frame, name = pd.DataFrame({**TABLE, "who": [at // 2 for at in range(len(CODES))]}), next(NAMES)
    asked = {"domain": ICD} if how == "domain" else {"delta": 1e-6}
    one, two = (
        dp.protect(frame, name, categories={"icd": dp.discover(epsilon=20, **asked)}, **terms) for _ in range(2)
    )
    assert ("E11", "I10", "J45", "other") == one.schema.columns["icd"].categories
    assert one.schema == two.schema == frame.dp.view.schema
    assert 20 == two.budget.spent


# Bounds


def test_thresholds():
    """An empty interval of 84 passes with probability 10⁻⁴ at most: 25.896 rows at an epsilon of 1.

    Of a profile: 1 + σ Φ⁻¹(1 - δ/2) with σ for half of δ of 10⁻⁶, computed elsewhere, rounded up to whole rows.
    """
    assert 84 == len(EDGES) - 1
    assert 25.896 == pytest.approx(threshold(2, 1), abs=1e-3)
    for epsilon, *known in (("1/10", 186.23, 262.96), ("1/2", 41.84, 58.75), ("1", 22.35, 31.20)):
        found = [gaussian_discovery(moved, 1, Fraction(epsilon), Fraction(1, 10**6))[1] for moved in (1, 2)]
        assert [*map(math.ceil, known)] == found


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_bounds_are_found(neighbors):
    """The powers of two around the values, of several columns, which need not be declared; and none of too few."""
    rng = np.random.default_rng(2)
    columns = {"a": rng.uniform(18, 90, 5000), "b": rng.normal(-3, 0.1, 5000), "c": np.full(5000, np.nan)}

    found = protect(columns, neighbors=neighbors).find_bounds(["a", "b", "c"], epsilon=1)

    assert {"a": (16, 128), "b": (-4, -2)} == found.bounds
    assert (16, 128) == found["a"]
    assert "not found" in repr(found)
    with pytest.raises(ArgumentError, match="No bounds of 'c'"):
        found["c"]


def spread_out(n, seed):
    """Values over many powers of two, each with few rows, below a peak."""
    rng = np.random.default_rng(seed)
    few = int(0.45 * n)
    return np.r_[2.0 ** rng.uniform(-10, 0, few), rng.uniform(8, 16, n - few)]


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_what_lies_beyond_is_said(neighbors):
    """Of 20 releases no more than 8 have more rows beyond than they say (one in 20 may: P < 10⁻⁶)."""
    missed = dict.fromkeys(("powers", "lognormal", "t3"), 0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = [spread_out(2000, seed), rng.lognormal(0, 1.5, 2000), rng.standard_t(3, 2000)]
        view = protect(dict(zip(missed, rows, strict=True)), neighbors=neighbors)
        for law, x in zip(missed, rows, strict=True):
            found = view.find_bounds(law, epsilon=0.25)
            low, high = found[law]
            missed[law] += ((x < low) | (x > high)).sum() > found.beyond[0]
            assert f"at most {found.beyond[0]:,.0f} rows beyond" in repr(found)
            assert low <= 1 / 32 or law != "powers"  # no interval there holds more rows than the threshold
    assert max(missed.values()) <= 8


def test_runs_of_empty_intervals_do_not_pass():
    """In 40,000 tables of noise alone, where 10⁻⁴ each may, no more than 25 do (P < 10⁻⁶)."""
    limits, rng = sum_thresholds(1.0, 1), np.random.default_rng(1)
    noise = rng.laplace(size=(40_000, len(EDGES) - 1))
    sums = np.cumsum(np.pad(noise, ((0, 0), (1, 0))), axis=1)
    passed = [((sums[:, m:] - sums[:, :-m]) > limits[m - 1]).any(axis=1) for m in range(1, len(limits) + 1)]

    assert np.any(passed, axis=0).sum() <= 25
    assert 0 == count_outer_intervals(noise[0], limits)
    assert (np.diff(limits) > 0).all()
    assert (1.645, 7) == (rows_beyond(np.array([-50.0]), 1.0, 7), rows_beyond(np.array([50.0]), 1.0, 7))


# A profile

ROWS = 6000


def data():
    """Ages, incomes with gaps, texts, flags, days, texts that nobody shares, and nothing."""
    rng = np.random.default_rng(2)
    income = rng.lognormal(10, 0.6, ROWS)
    return {
        "age": rng.normal(45, 12, ROWS).clip(17, 120).round(),
        "income": np.where(rng.random(ROWS) < 0.25, np.nan, income),
        "sex": rng.choice(["f", "m"], ROWS).tolist(),
        "ill": rng.random(ROWS) < 0.3,
        "seen": np.datetime64("2020-01-01", "ms") + rng.integers(0, 10**11, ROWS).astype("timedelta64[ms]"),
        "id": [f"p{at}" for at in range(ROWS)],
        "empty": [None] * ROWS,
    }


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_what_the_columns_hold(neighbors):
    """Kinds, gaps, bounds, moments and frequent values, and a schema that can be used at once."""
    view = protect(data(), neighbors=neighbors)

    found = view.profile(epsilon=10, delta=1e-6)
    said, declared = found.schema, view.declare(found)

    assert ("number", "number", "text", "number", "date", "text", None) == found.kinds
    assert {"income", "age"} < set(said["bounds"])
    assert (16, 128) == tuple(said["bounds"]["age"])
    assert {"f", "m"} == set(found.values[2])
    assert {"sex": ["f", "m", "other"], "ill": [0, 1]} == said["categories"]
    assert {"sex": "other"} == said["missing"]
    assert 0.25 * ROWS == pytest.approx(found.missing[1], abs=150)
    assert ROWS == pytest.approx(found.missing[6], abs=100)
    assert [None] * 3 == [found.missing[at] for at in (0, 2, 3)]
    assert 45 == pytest.approx(found.mean[0], abs=3)
    assert 1 < found.skewness[1] < 4
    assert any("'id'" in note for note in found.notes)
    assert (10, 1e-6) == pytest.approx((found.privacy.epsilon, found.privacy.delta))
    assert 7 == found.frame.shape[0]
    assert declared.schema.columns == protect(data(), neighbors=neighbors, **said).schema.columns
    assert 45 == pytest.approx(float(declared.mean("age", epsilon=10)), abs=1)
    assert 0.5 == pytest.approx(declared.value_counts("sex", normalize=True, epsilon=10)["f"], abs=0.05)
    assert "sex" in repr(declared.describe(epsilon=10))


@pytest.mark.parametrize("public", [["age"], ["age", "income"], ["sex"]], ids=str)
def test_public_columns_beside_private_ones(public):
    """Numbers of public columns alone are seen, where all that is private is text."""
    found = protect({name: data()[name] for name in ("age", "income", "sex")}, public=public).profile(
        epsilon=10, delta=1e-6
    )

    assert ("number", "number", "text") == found.kinds
    assert (16, 128) == found.schema["bounds"]["age"]
    few = protect({"x": range(30), "y": ["a", "b", None] * 10}).profile(epsilon=0.1, delta=1e-6)
    assert (None, None) == few.kinds  # of 30 rows nothing is seen
    assert {"bounds": {}, "categories": {}, "missing": {}} == few.schema
    assert "larger epsilon" in repr(few)
    assert f"in at least {few.threshold:,} rows" in repr(few)


@pytest.mark.parametrize("skewed", [False, True])
def test_the_shape_of_a_histogram(skewed):
    """Mean, standard deviation and skewness of 32 bins are about those of the values; noise may hide each."""
    rng = np.random.default_rng(1)
    x = rng.gamma(2, 8, 10**5).clip(0, 127.9) if skewed else rng.normal(64, 16, 10**5).clip(0, 127.9)
    edges = np.linspace(0, 128, 33)
    counts = np.histogram(x, edges)[0].astype(float)

    mean, std, skewness = histogram_moments(edges, counts, 0.0)

    assert (x.mean(), x.std()) == pytest.approx((mean, std), abs=0.3)
    assert 2 / math.sqrt(2) * skewed == pytest.approx(skewness, abs=0.1)
    assert None not in histogram_moments(edges, counts, 10.0)
    assert (
        (None, None, None) == histogram_moments(edges, counts, 10**5) == histogram_moments(edges, np.zeros(32), 1.0)
    )
    assert None in histogram_moments(edges, counts, 1500.0)[2:]


def test_the_histograms_stay_within_what_is_planned():
    """Between any bounds the features have the radius of those that are planned, and no more sums."""
    column, ends = Column("x"), EDGES.tolist()
    planned = bin_features(column, (ends[0], ends[1]))

    for low, high in itertools.combinations(ends, 2):
        found = bin_features(column, (low, high))
        assert 1.0 == found.radius(2) == planned.radius(2)
        assert 32 <= found.dimension <= planned.dimension == 115


def test_a_profile_says_what_lies_beyond():
    """It searches as `find_bounds` does, beyond what it has seen, and says how many rows are not within."""
    x, missed, alone = spread_out(20_000, 1), 0, 0
    view = protect({"x": x}, delta=1e-3)
    for _ in range(10):
        found = view.profile("x", epsilon=0.4, delta=1e-6, fresh=True)
        missed += ((x < found.low[0]) | (x > found.high[0])).sum() > found.beyond[0]
        alone += found.low[0] < 1 / 512
    assert missed <= 6
    assert alone >= 6
    assert f"with at most {found.beyond[0]:,.0f} rows beyond (95% confidence)" in repr(found)
