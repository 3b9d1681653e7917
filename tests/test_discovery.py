"""The keys that enough rows hold: what a key is, from how many rows on it is shown, and that this is private."""

# ruff: noqa: SIM300 - no pandas here; expected == actual

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy import ArgumentError, PluginError
from dfprivacy._measure.curator import Curator
from dfprivacy._measure.evaluate import Table, union
from dfprivacy._plugins.loader import register_mechanism, unregister
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.losses import Approximate
from dfprivacy._table import batch as rows
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy._table.keys import LENGTH_MAX
from dfprivacy.testing import seeded_noise
from dfprivacy_audit.harness import Replay

pytestmark = pytest.mark.pandas

PRICES = [(Fraction(1, 10), Fraction(1, 10**6)), (Fraction(1), Fraction(1, 100)), (Fraction(5), Fraction(1, 10**4))]
RELATIONS = {"add_remove": 1, "replace_one": 2}


@dp.mechanism(columns={"columns": ["any"]}, delta=True)
def keys_of(curator, columns, *, share=None):
    "The keys that enough rows hold."
    found = curator.discover(columns if len(columns) > 1 else columns[0], share=share)
    return {"keys": list(found.keys), "counts": found.counts.tolist(), "threshold": found.threshold}


@dp.mechanism(columns={"column": "any", "other": "view"}, delta=True)
def keys_of_both(curator, column, *, other=None):
    "The keys that enough rows of one of two tables hold."
    found = curator.discover([other, column])
    return {"keys": list(found.keys), "counts": found.counts.tolist()}


@pytest.fixture(autouse=True)
def mechanisms():
    for each in (keys_of, keys_of_both):
        register_mechanism(each)
    yield
    for each in (keys_of, keys_of_both):
        unregister(each.name)


def table_of(frame, **said):
    nothing = {"bounds": None, "categories": None, "public": (), "missing": None, "neighbors": "replace_one"}
    adapted = adapt(frame)
    return Table(adapted, read_schema(adapted, **{**nothing, **said}))


def held(frame, *names, **said):
    """How many rows hold each key."""
    table = table_of(frame, **said)
    return table.keys([table.schema.named(name) for name in names])


def plain(values, name="x"):
    return pd.DataFrame({name: pd.Series(values, dtype=object)})


# ---- what a key is ---------------------------------------------------------------------------------------


def test_values_that_one_category_would_hold_are_one_key():
    """1, 1.0, True, a decimal, the text "1" and its bytes are one key; -0.0 is 0."""
    values = [1, 1.0, True, np.int8(1), Decimal(1), 1 + 0j, "1", b"1", -0.0, False, 2.5, 2**60, 1e300]

    found = held(plain(values), "x")

    assert {(0,): 2, (1,): 8, (2.5,): 1, (float(2**60),): 1, (1e300,): 1} == found
    assert [int, int, float, float, float] == [type(key) for (key,) in found]


def test_what_no_category_can_be_is_no_key():
    """Missing and infinite values, lists, broken bytes and long texts are no keys."""
    none = [None, math.nan, pd.NaT, pd.NA, math.inf, -math.inf, "inf", [1], 1j, b"\xff"]
    long = ["é" * LENGTH_MAX, "é" * (LENGTH_MAX + 1)]

    assert {("é" * LENGTH_MAX,): 1} == held(plain([*none, *long]), "x")


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (["b", "a", None, "b", "ü", "b"], {("a",): 1, ("b",): 3, ("ü",): 1}),
        ([2, 1, 2, 2, 7, 2], {(1,): 1, (2,): 4, (7,): 1}),
        ([2, None, 1, 2, None, 2], {(1,): 1, (2,): 3}),
        ([0.5, None, -1.5, 0.5, math.nan, math.inf], {(-1.5,): 1, (0.5,): 2}),
        ([True, False, None, True, True, None], {(0,): 1, (1,): 3}),
        ([dt.date(2020, 1, 1)] * 6, {("2020-01-01",): 6}),
        ([None] * 6, {}),
    ],
    ids=["texts", "whole numbers", "with gaps", "numbers", "booleans", "dates", "nothing"],
)
def test_keys_are_the_same_on_every_engine(constructor, values, wanted, monkeypatch):
    """On every engine, in batches of any size, the same rows hold the same keys, in the same order."""
    frame = constructor({"x": values})

    assert [*wanted.items()] == [*held(frame, "x").items()]
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    monkeypatch.setattr("dfprivacy._measure.tasks.batches", rows.batches)
    assert [*wanted.items()] == [*held(frame, "x").items()]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": pd.Categorical(["b", "a", None, "b"], categories=["c", "b", "a"])}),
        pd.DataFrame({"x": pd.Series(["b", "a", None, "b"], dtype="string[pyarrow]")}),
        pd.DataFrame({"x": pd.arrays.SparseArray(["b", "a", None, "b"])}),
        pd.DataFrame({"x": pd.Series(["b", "a", None, "b"], dtype=pd.ArrowDtype(pa.string()))}),
        pl.DataFrame({"x": ["b", "a", None, "b"]}, schema={"x": pl.Categorical}),
        pl.DataFrame({"x": ["b", "a", None, "b"]}, schema={"x": pl.Enum(["c", "a", "b"])}),
        pl.DataFrame({"x": [b"b", b"a", None, b"b"]}),
        pl.DataFrame({"x": ["b", "a", None, "b"]}, schema={"x": pl.Object}),
        pa.table({"x": pa.array(["b", "a", None, "b"]).dictionary_encode()}),
        pa.table({"x": pa.array([b"b", b"a", None, b"b"])}),
    ],
    ids=[
        "category",
        "string",
        "sparse",
        "arrow text",
        "Categorical",
        "Enum",
        "Binary",
        "Object",
        "dictionary",
        "bytes",
    ],
)
def test_keys_do_not_depend_on_the_type_of_their_column(frame):
    """However a library holds texts, they are the same keys; categories of a type that no row holds are none."""
    assert {("a",): 1, ("b",): 2} == held(frame, "x")


def test_keys_of_several_columns_are_tuples():
    """A key of several columns has a value of each; a row in which one is missing holds none."""
    frame = pd.DataFrame({"x": ["a", "a", "b", None, "a"], "y": [1.0, 1.0, 2.0, 1.0, math.nan]})

    assert {("a", 1): 2, ("b", 2): 1} == held(frame, "x", "y")
    assert {(1, "a"): 2, (2, "b"): 1} == held(frame, "y", "x")


def test_a_column_with_categories_is_asked_for_those_only():
    """What was declared keeps its meaning: others are no key, or the category "other"; keys are as declared."""
    frame = plain(["a", b"a", "zzz", None, 1])

    assert {(True,): 1, ("a",): 2} == held(frame, "x", categories={"x": ["a", True]})
    assert {("a",): 2, ("other",): 3} == held(frame, "x", categories={"x": ["a"]}, missing={"x": "other"})


def test_keys_of_two_tables_tell_which():
    """The column that tells two tables apart can be part of a key."""
    both, which = union(table_of(plain(["a", "b"])), table_of(plain(["a", "a"])), ("one", "two"))

    found = both.keys([which, both.schema.named("x")])

    assert {("one", "a"): 1, ("one", "b"): 1, ("two", "a"): 2} == found


# ---- from how many rows on -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "thresholds"),
    [
        ("1/10", 6, (133, 264)),
        ("1/10", 8, (179, 357)),
        ("1/2", 6, (28, 54)),
        ("1/2", 8, (37, 73)),
        (1, 6, (15, 28)),
        (1, 8, (20, 37)),
    ],
)
def test_the_thresholds_of_known_prices(epsilon, delta, thresholds):
    """The thresholds are those that were computed elsewhere, for one row more or less and for one that changes."""
    scales = [calibrate.laplace_scale(moved, Fraction(epsilon)) for moved in (1, 2)]

    assert thresholds == tuple(calibrate.discovery_threshold(scale, Fraction(1, 10**delta)) for scale in scales)


@pytest.mark.parametrize("scale", [1e-3, 0.4, 1.0, 2.7, 60.0, 1e4, 1e9])
@pytest.mark.parametrize("delta", ["0.9", "0.4", "0.01", "1e-9", "1e-30", "1e-100"])
def test_the_threshold_is_the_smallest(scale, delta):
    """To 60 digits, a single row is shown with probability delta at most, and one row less on with more."""
    found = calibrate.discovery_threshold(scale, Fraction(delta))

    with mpmath.workdps(60):
        q, wanted = mpmath.exp(-1 / mpmath.mpf(scale)), mpmath.mpf(delta)
        assert q ** (found - 1) / (1 + q) <= wanted
        assert found == 2 or q ** (found - 2) / (1 + q) > wanted * (1 - mpmath.mpf("1e-9"))


# ---- the exact law ---------------------------------------------------------------------------------------

MOST = 8
TAIL = 9  # noisy counts above every count have one likelihood ratio: taken together, they lose nothing


def law(count, scale, threshold):
    """The law of what is seen of one key: None for nothing, a noisy count, or that it is very large."""
    if count == 0:
        return {None: mpmath.mpf(1)}
    q = mpmath.exp(-1 / mpmath.mpf(scale))
    shown = {x: (1 - q) / (1 + q) * q ** abs(x - count) for x in range(threshold, threshold + TAIL)}
    shown["large"] = q ** (threshold + TAIL - count) / (1 + q)
    return {None: 1 - mpmath.fsum(shown.values()), **shown}


def joint(counts, scale, threshold):
    """The law of what is seen of independent keys."""
    found = {(): mpmath.mpf(1)}
    for count in counts:
        one = law(count, scale, threshold)
        found = {(*seen, x): p * each for seen, p in found.items() for x, each in one.items()}
    return found


def divergence(one, other, epsilon):
    """The hockey-stick divergence: the smallest delta at which one law is epsilon-close to the other."""
    times = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
    gaps = (p - times * other.get(seen, 0) for seen, p in one.items())
    return mpmath.fsum(gap for gap in gaps if gap > 0)


def neighbours(relation):
    """Counts of the keys that differ, of neighbouring tables: a row more, or one with another key."""
    if relation == "add_remove":
        return [((count,), (count + 1,)) for count in range(MOST)]
    return [((a + 1, b), (a, b + 1)) for a, b in itertools.product(range(MOST), repeat=2)]


def worst(relation, epsilon, delta, lower=0, moved=None):
    """The largest divergence of neighbouring tables, either way; other keys have one law on both, and drop out."""
    scale = calibrate.laplace_scale(moved or RELATIONS[relation], epsilon)
    threshold = calibrate.discovery_threshold(scale, delta) - lower
    found = mpmath.mpf(0)
    for pair in neighbours(relation):
        one, other = (joint(counts, scale, threshold) for counts in pair)
        found = max(found, divergence(one, other, epsilon), divergence(other, one, epsilon))
    return found


@pytest.mark.parametrize("price", PRICES, ids=str)
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_divergence_of_neighbouring_tables_is_at_most_delta(relation, price):
    """Over small neighbouring tables, by enumeration of all that can be seen, it is what one row alone shows."""
    epsilon, delta = price
    with mpmath.workdps(40):
        scale = calibrate.laplace_scale(RELATIONS[relation], epsilon)
        alone = 1 - law(1, scale, calibrate.discovery_threshold(scale, delta))[None]

        found = worst(relation, epsilon, delta)

        assert abs(found - alone) < mpmath.mpf("1e-30")
        assert found <= mpmath.mpf(delta.numerator) / delta.denominator


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_threshold_that_is_too_low_is_found(relation):
    """With a threshold of some rows less, or noise for half of what a row moves, the same enumeration objects."""
    with mpmath.workdps(40):
        assert worst(relation, Fraction(5), Fraction(1, 10**4), lower=1) > mpmath.mpf("1e-4")
        assert worst("replace_one", Fraction(1), Fraction(1, 100), moved=1) > mpmath.mpf("1e-2")


class Scripted(noise.FromLaplace):
    """A sampler whose noise is written down beforehand."""

    name, private = "NOT PRIVATE: scripted", False

    def __init__(self, *drawn):
        self.drawn = np.array(drawn)

    def laplace(self, values, scale):
        self.scale = scale
        return values + self.drawn


def test_a_key_is_shown_from_the_threshold_on():
    """What is seen of a key is its own count and noise, where both together reach the threshold."""
    sampler = Scripted(-1, 0, 7, 2)

    found = sampler.discover({"a": 5, "b": 4, "c": 1, "d": 2}, 2.0, 4)

    assert {"a": 4, "b": 4, "c": 8, "d": 4} == found
    assert {"c": 8} == sampler.discover({"a": 4, "b": 3, "c": 1, "d": 1}, 2.0, 4)
    assert 2.0 == sampler.scale


# ---- the verb --------------------------------------------------------------------------------------------


class Budget:
    """What pays for a call, and notes when."""

    basic_composition = True

    def __init__(self, log, epsilon="1", delta="1/1000000"):
        self.epsilon, self.delta, self.log = Fraction(epsilon), Fraction(delta), log

    def pay(self, losses, reserve):
        self.log += losses


class Watched:
    """A table that notes when its rows are read."""

    def __init__(self, log, data):
        self.log, self.table = log, pa.table(data)

    def __arrow_c_stream__(self, requested_schema=None):
        self.log.append("read")
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(("neighbors", "moved", "threshold"), [("replace_one", 2, 28), ("add_remove", 1, 15)])
def test_it_pays_first_and_draws_what_was_proved(neighbors, moved, threshold):
    """The price is charged with its delta, then rows are read, then the counts of what occurs get their noise."""
    log, sampler = [], Replay()
    table = table_of(Watched(log, {"x": ["b", "a", "b", None]}), neighbors=neighbors)
    log.clear()

    with noise.use(sampler):
        curator = Curator(table, Budget(log))
        found = curator.discover(table.schema.named("x"))
    [draw] = sampler.draws

    assert [Approximate(Fraction(1), Fraction(1, 10**6)), "read"] == log
    assert ("discovery", float(moved), (float(moved), threshold)) == (draw.kind, draw.scale, draw.law)
    assert {("a",): 1, ("b",): 2} == dict(zip(draw.keys, draw.sums.tolist(), strict=True))
    assert (threshold, float(moved)) == (found.threshold, found.scale)
    assert [found.noise] == curator.measured


def test_a_share_of_the_price():
    """Half of the price has half of epsilon and of delta, and the other half is left."""
    log = []
    table = table_of(plain(["a"] * 100))
    curator = Curator(table, Budget(log))

    curator.discover(table.schema.named("x"), share="1/2")
    curator.discover(table.schema.named("x"))

    assert [Approximate(Fraction(1, 2), Fraction(1, 2 * 10**6))] * 2 == log


def test_keys_come_by_their_noisy_counts():
    """The largest noisy count comes first, whatever the true counts and the order of the rows; ties by key."""
    table = table_of(plain(["c"] * 40 + ["a"] * 40 + [3] * 41 + ["b"] * 50))

    with noise.use(Scripted(0, 2, -9, 2)):
        found = Curator(table, Budget([])).discover(table.schema.named("x"))

    assert ("a", "c", 3, "b") == found.keys
    assert [42, 42, 41, 41] == found.counts.tolist()


def test_without_a_delta_nothing_is_shown():
    """A call without a delta is refused before it is charged."""
    log = []
    table = table_of(plain(["a"]))

    with pytest.raises(ArgumentError, match="delta above zero"):
        Curator(table, Budget(log, delta="0")).discover(table.schema.named("x"))
    with pytest.raises(PluginError, match="no column"):
        Curator(table, Budget(log)).discover([])

    assert [] == log


def test_public_keys_are_exact_and_free():
    """All keys of public columns are shown, with their exact counts, for nothing; not if the rows are private."""
    log = []
    table = table_of(plain(["a", "b", "a"]), public=["x"])

    found = Curator(table, Budget(log)).discover(table.schema.named("x"))

    assert (("a", "b"), [2, 1], 0.0, None) == (found.keys, found.counts.tolist(), found.scale, found.noise)
    assert [] == log


# ---- in a method -----------------------------------------------------------------------------------------

CODES = [*["J45"] * 300, *["E11"] * 200, *["I10"] * 120, *(f"rare {at}" for at in range(500))]
ARMS = ["drug", "placebo"] * 560


def protect(frame=None, name="codes", **terms):
    frame = pd.DataFrame({"icd": CODES, "arm": ARMS}) if frame is None else frame
    said = {"epsilon": 5, "delta": "1e-5", "categories": {"arm": ["drug", "placebo"]}, **terms}
    return dp.protect(frame, name, **said)


def test_what_many_hold_is_found_and_what_one_holds_is_not(constructor):
    """On every engine, the common keys are found with about their counts, and none that is held by one row."""
    with seeded_noise(1):
        found = protect(constructor({"icd": CODES, "arm": ARMS})).keys_of(["icd"], epsilon=1, delta="1e-6").value

    assert ["J45", "E11", "I10"] == found["keys"]
    assert [300, 200, 120] == pytest.approx(found["counts"], abs=40)
    assert 28 == found["threshold"]


def test_a_question_about_keys_is_answered_again():
    """The same question has the same answer for nothing; one about other columns has not."""
    view = protect()

    first = view.keys_of(["icd"], epsilon=1, delta="1e-6")
    again = view.keys_of(["icd"], epsilon=1, delta="1e-6")
    other = view.keys_of(["icd", "arm"], epsilon=1, delta="1e-6")

    assert (first.value, True) == (again.value, again.privacy.replayed)
    assert not other.privacy.replayed
    assert 2 == view.budget.spent


def test_keys_of_a_part_and_by_group():
    """Conditions and groups hold: a group has its own keys, and all groups together cost what one costs."""
    view = protect(categories={"arm": ["drug", "placebo"], "icd": ["J45", "E11", "I10"]})

    part = view.where(icd=["J45"]).keys_of(["icd"], epsilon=1, delta="1e-6").value
    by = view.group_by("arm").keys_of(["icd"], epsilon=1, delta="1e-6")

    assert ["J45"] == part["keys"]
    assert [["J45", "E11", "I10"]] * 2 == [by[arm].value["keys"] for arm in ("drug", "placebo")]
    assert 2 == view.budget.spent


def test_keys_of_two_views():
    """Of two tables together, a key says which table it is of; both accounts pay."""
    first, second = protect(), protect(plain(["J45"] * 300, "icd"), "others", categories=None)

    found = first.keys_of_both("icd", other=second, epsilon=2, delta="1e-6").value

    assert {("codes", "J45"), ("codes", "E11"), ("codes", "I10"), ("others", "J45")} == set(found["keys"])
    assert (2, 2) == (first.budget.spent, second.budget.spent)


def test_a_plan_says_from_how_many_rows_on():
    """What would be measured is said with its threshold, and nothing is read or charged."""
    view = protect()

    plan = view.explain("keys_of", ["icd"], epsilon=1, delta="1e-6")

    assert "noise of scale 2 on how many rows hold each key of icd, shown from 28 on" in repr(plan)
    assert 0 == view.budget.spent
    assert 5 == plan.largest


@pytest.mark.parametrize("accounting", ["rdp", "gdp", "portfolio"])
def test_a_plan_says_what_can_be_paid(accounting):
    """What an account says it can pay at once for such a release, it can pay, and hardly more."""
    view = protect(name=accounting, accounting=accounting)
    largest = view.explain("keys_of", ["icd"], epsilon="1/2", delta="1e-12").largest

    with pytest.raises(dp.BudgetExceeded):
        view.keys_of(["icd"], epsilon=largest * 1.01, delta="1e-12")
    paid = view.keys_of(["icd"], epsilon=largest, delta="1e-12")

    assert largest == paid.privacy.epsilon


def test_many_different_keys():
    """A table in which nearly every row has a key of its own is counted in one pass."""
    with seeded_noise(2):
        frame = pd.DataFrame({"id": [f"k{at}" for at in range(40_000)] + ["often"] * 100})
        found = protect(frame, "many", categories=None).keys_of(["id"], epsilon=2, delta="1e-6").value

    assert ["often"] == found["keys"]
