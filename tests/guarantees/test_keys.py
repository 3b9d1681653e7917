"""Keys that occur in enough rows, and columns of which nothing was declared: counts, thresholds, privacy."""

# ruff: noqa: SIM300, PD011 - no pandas here; expected == actual

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
from scipy.special import ndtr

import dfprivacy as dp
from dfprivacy import ArgumentError, Column, PluginError
from dfprivacy._measure.curator import Curator
from dfprivacy._measure.evaluate import Table, union_of_tables
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.calibrate import SURVEY_GRID, gaussian_discovery
from dfprivacy._privacy.losses import Approximate
from dfprivacy._table import conditions as rows
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
    "The keys that occur in enough rows."
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
        dp.register_mechanism(each)
    yield
    for each in (keys_of, keys_of_both):
        dp.unregister(each.name)


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


# ---- what a key is --------------------------------------------------------------------------------------


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
    ids=["texts", "integers", "with gaps", "numbers", "booleans", "dates", "nothing"],
)
def test_keys_are_the_same_on_every_engine(constructor, values, wanted, monkeypatch):
    """On every engine, in batches of any size, the same rows hold the same keys, in the same order."""
    frame = constructor({"x": values})

    assert [*wanted.items()] == [*held(frame, "x").items()]
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    assert [*wanted.items()] == [*held(frame, "x").items()]


TEXTS = ["b", "a", None, "b"]
BYTES = [b"b", b"a", None, b"b"]
COLUMNS = [
    *[pd.Categorical(TEXTS, categories=["c", "b", "a"]), pd.Series(TEXTS, dtype="string[pyarrow]")],
    *[pd.arrays.SparseArray(TEXTS), pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.string()))],
    *[pl.Series(TEXTS, dtype=kind) for kind in (pl.Categorical, pl.Enum(["c", "a", "b"]), pl.Object)],
    *[pl.Series(BYTES), pa.array(TEXTS).dictionary_encode(), pa.array(BYTES)],
]


@pytest.mark.parametrize(
    "column", COLUMNS, ids=lambda column: f"{type(column).__name__} {getattr(column, 'dtype', '')}"
)
def test_keys_do_not_depend_on_the_type_of_their_column(column):
    """However a library holds texts, they are the same keys; categories of a type that no row holds are none."""
    make = {"polars": pl.DataFrame, "pyarrow": pa.table}.get(
        type(column).__module__.partition(".")[0], pd.DataFrame
    )

    assert {("a",): 1, ("b",): 2} == held(make({"x": column}), "x")


def test_keys_of_several_columns_and_of_declared_ones():
    """A key has a value of each column; what was declared keeps its meaning; of two tables it tells which."""
    frame = pd.DataFrame({"x": ["a", "a", "b", None, "a"], "y": [1.0, 1.0, 2.0, 1.0, math.nan]})
    assert {("a", 1): 2, ("b", 2): 1} == held(frame, "x", "y")
    assert {(1, "a"): 2, (2, "b"): 1} == held(frame, "y", "x")
    frame = plain(["a", b"a", "zzz", None, 1])
    assert {(True,): 1, ("a",): 2} == held(frame, "x", categories={"x": ["a", True]})
    assert {("a",): 2, ("other",): 3} == held(frame, "x", categories={"x": ["a"]}, missing={"x": "other"})
    both, which = union_of_tables(table_of(plain(["a", "b"])), table_of(plain(["a", "a"])), ("one", "two"))
    found = both.keys([which, both.schema.named("x")])
    assert {("one", "a"): 1, ("one", "b"): 1, ("two", "a"): 2} == found


# ---- from how many rows on ------------------------------------------------------------------------------


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


# ---- the exact law --------------------------------------------------------------------------------------

MOST = 6
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


# ---- the verb -------------------------------------------------------------------------------------------


class Budget:
    """What pays for a call, and notes it."""

    basic_composition = True

    def __init__(self, log=None, epsilon="1", delta="1/1000000"):
        self.epsilon, self.delta, self.log = Fraction(epsilon), Fraction(delta), [] if log is None else log

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

    with noise.use_sampler(sampler):
        curator = Curator(table, Budget(log))
        found = curator.discover(table.schema.named("x"))
    [draw] = sampler.draws

    assert [Approximate(Fraction(1), Fraction(1, 10**6)), "read"] == log
    assert ("discovery", float(moved), (float(moved), threshold)) == (draw.kind, draw.scale, draw.law)
    assert {("a",): 1, ("b",): 2} == dict(zip(draw.keys, draw.sums.tolist(), strict=True))
    assert (threshold, float(moved)) == (found.threshold, found.scale)
    assert [found.noise] == curator.measured


def test_shares_order_and_what_is_public():
    """Half of a price has half of both; the largest noisy count comes first, ties by key; public keys are exact."""
    log = []
    curator = Curator(table_of(plain(["a"] * 100)), Budget(log))
    for share in ("1/2", None):
        curator.discover(curator._table.schema.named("x"), share=share)
    assert [Approximate(Fraction(1, 2), Fraction(1, 2 * 10**6))] * 2 == log
    table = table_of(plain(["c"] * 40 + ["a"] * 40 + [3] * 41 + ["b"] * 50))
    with noise.use_sampler(Scripted(0, 2, -9, 2)):
        found = Curator(table, Budget()).discover(table.schema.named("x"))
    assert (("a", "c", 3, "b"), [42, 42, 41, 41]) == (found.keys, found.counts.tolist())
    table, log = table_of(plain(["a", "b", "a"]), public=["x"]), []
    found = Curator(table, Budget(log)).discover(table.schema.named("x"))
    assert (("a", "b"), [2, 1], 0.0, None) == (found.keys, found.counts.tolist(), found.scale, found.noise)
    for budget, columns, error in ((Budget(log, delta="0"), "x", ArgumentError), (Budget(log), [], PluginError)):
        with pytest.raises(error, match=r"delta above zero|no column"):
            Curator(table_of(plain(["a"])), budget).discover(columns and table_of(plain(["a"])).schema.named("x"))
    assert [] == log


# ---- in a method ----------------------------------------------------------------------------------------

CODES = [*["J45"] * 300, *["E11"] * 200, *["I10"] * 120, *(f"rare {at}" for at in range(500))]
ARMS = ["drug", "placebo"] * 560


def protect(frame=None, name="codes", **terms):
    frame = pd.DataFrame({"icd": CODES, "arm": ARMS}) if frame is None else frame
    said = {"epsilon": 5, "delta": "1e-5", "categories": {"arm": ["drug", "placebo"]}, **terms}
    return dp.protect(frame, name, **said)


def test_what_many_hold_is_found_and_what_one_holds_is_not():
    """Common keys come with about their counts, none that one row holds; a plan says from how many rows on."""
    view = protect()
    plan = view.explain("keys_of", ["icd"], epsilon=1, delta="1e-6")
    assert 5 == plan.largest
    with seeded_noise(1):
        found = view.keys_of(["icd"], epsilon=1, delta="1e-6").value

    assert ["J45", "E11", "I10"] == found["keys"]
    assert [300, 200, 120] == pytest.approx(found["counts"], abs=40)
    assert 28 == found["threshold"]
    assert (
        "the number of rows of each key of icd, shown if at least 28, with discrete Laplace noise of scale 2"
        in repr(plan)
    )


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


@pytest.mark.parametrize("accounting", ["rdp", "gdp", "portfolio"])
def test_a_plan_says_what_can_be_paid(accounting):
    """What an account says it can pay at once for such a release, it can pay, and hardly more."""
    view = protect(name=accounting, accounting=accounting)
    largest = view.explain("keys_of", ["icd"], epsilon="1/2", delta="1e-12").largest

    with pytest.raises(dp.BudgetExceeded):
        view.keys_of(["icd"], epsilon=largest * 1.01, delta="1e-12")
    paid = view.keys_of(["icd"], epsilon=largest, delta="1e-12")

    assert largest == paid.privacy.epsilon


# ---- a survey: what columns hold ------------------------------------------------------------------------

EDGES = np.array([-10.0, 0.0, 2.0, 10.0])


@pytest.mark.parametrize(
    ("values", "kinds", "held"),
    [
        (["b", "a", None, "b"], {"text": 3, "nothing": 1}, {"a": 1, "b": 2}),
        ([1, 3, 3, -5], {("number", 0): 1, ("number", 1): 1, ("number", 2): 2}, {-5: 1, 1: 1, 3: 2}),
        ([0.5, None, 0.5, 1e9], {("number", 1): 2, ("number", 2): 1, "nothing": 1}, {0.5: 2, 10**9: 1}),
        ([True, False, None, True], {("number", 1): 3, "nothing": 1}, {0: 1, 1: 2}),
        (
            [dt.datetime(1970, 1, 4), dt.datetime(1960, 1, 1)],  # noqa: DTZ001
            {("date", 2): 1, ("date", 0): 1},
            {"1970-01-04": 1, "1960-01-01": 1},
        ),
        ([None] * 3, {"nothing": 3}, {}),
    ],
    ids=["texts", "integers", "numbers", "booleans", "dates", "nothing"],
)
def test_a_survey_is_the_same_on_every_engine(constructor, values, kinds, held, monkeypatch):
    """On every engine, in batches of any size, each row has one kind and its value; none is taken from a type."""
    kinds = {(kind if isinstance(kind, tuple) else (kind, 0)): count for kind, count in kinds.items()}
    wanted = {(0, *kind): count for kind, count in kinds.items()}
    wanted |= {(0, "value", value): count for value, count in held.items()}
    frame = constructor({"x": values})

    assert wanted == table_of(frame).survey([Column("x")], EDGES)
    monkeypatch.setattr(rows, "BATCH_ROWS", 2)
    assert wanted == table_of(frame).survey([Column("x")], EDGES)


def test_one_value_changes_nothing_else():
    """A text among numbers, and an infinite one, change the column's type and leave every other count as it was."""
    plain_numbers = table_of(pd.DataFrame({"x": [1.0, 1.0, 5.0]})).survey([Column("x")], EDGES)
    mixed = table_of(plain([1.0, 1.0, 5.0, "a", math.inf])).survey([Column("x")], EDGES)

    own = {(0, "text", 0): 1, (0, "value", "a"): 1, (0, "number", 2): 2}
    assert {**plain_numbers, **own} == mixed


def test_no_row_moves_more_counts_than_are_charged():
    """Over all pairs of values of two columns, a row moves 4 counts a column at most, 2 if it comes; some do."""
    values = [1, 3, "a", "b", None, dt.date(1970, 1, 2), math.inf, -1.0]
    pairs = [*itertools.product(values, repeat=2)]
    columns = [Column("x"), Column("y")]
    nothing = {"bounds": None, "categories": None, "public": (), "missing": None, "neighbors": "replace_one"}

    def counts(pair):
        frame = adapt(
            pd.DataFrame({"x": pd.Series([pair[0]], dtype=object), "y": pd.Series([pair[1]], dtype=object)})
        )
        return Table(frame, read_schema(frame, **nothing)).survey(columns, EDGES)

    held = [counts(pair) for pair in pairs]
    moved = [
        sum((one.get(key, 0) - other.get(key, 0)) ** 2 for key in {*one, *other})
        for one, other in itertools.combinations(held, 2)
    ]

    assert 8 == max(moved)
    assert 4 == max(sum(count**2 for count in each.values()) for each in held)


@pytest.mark.parametrize("price", [("1/10", "1e-6"), ("1", "1e-6"), ("1", "1e-9"), ("5", "1e-4"), ("20", "1/100")])
@pytest.mark.parametrize(("moved", "own"), [(2, 2), (4, 2), (400, 200)])
def test_the_threshold_of_a_survey_is_the_smallest(moved, own, price):
    """To 40 digits, own keys are shown with half of delta at most, and one row less on with more."""
    epsilon, delta = map(Fraction, price)

    scale, threshold = gaussian_discovery(moved, own, epsilon, delta)

    with mpmath.workdps(40):
        sigma, half = mpmath.mpf(scale) / 2**SURVEY_GRID, mpmath.mpf(delta.numerator) / delta.denominator / 2
        step = mpmath.mpf(2) ** -SURVEY_GRID
        assert own * mpmath.ncdf((step + 1 - threshold) / sigma) <= half
        assert threshold == 2 or own * mpmath.ncdf((step + 2 - threshold) / sigma) > half * (1 - 1e-6)


def test_discrete_tails_are_below_the_continuous_ones_that_stand_for_them():
    """P(X >= m) of discrete Gaussian noise is at most that of continuous noise from m - 1 on."""
    with mpmath.workdps(30):
        for sigma in (0.3, 1.0, 4.0, 25.0):
            weights = [mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * sigma**2)) for x in range(600)]
            whole = 2 * mpmath.fsum(weights) - 1
            for m in (1, 2, 5, int(3 * sigma) + 1, int(6 * sigma) + 1):
                tail = mpmath.fsum(weights[m:]) / whole
                assert tail <= mpmath.ncdf((1 - m) / mpmath.mpf(sigma))


def survey_law(count, sigma, threshold, cells):
    """Probabilities of what is seen of one key: nothing, or a noisy count in one of some cells."""
    if count == 0:
        return np.concatenate([[1.0], np.zeros(len(cells) - 1)])
    below = ndtr((cells - count) / sigma)
    below[0], below[-1] = ndtr((threshold - count) / sigma), 1.0
    return np.concatenate([[below[0]], np.diff(below)])


def survey_divergence(one, other, epsilon, sigma, threshold, fine):
    """The hockey-stick divergence of two tables, each with the counts of a few keys, on a grid of cells."""
    cells = np.linspace(threshold, max(threshold, *one, *other) + 6 * sigma, fine)
    joint = [np.ones(()), np.ones(())]
    for at, table in enumerate((one, other)):
        for count in table:
            joint[at] = np.multiply.outer(joint[at], survey_law(count, sigma, threshold, cells))
    return np.maximum(joint[0] - math.exp(epsilon) * joint[1], 0).sum()


def survey_worst(relation, epsilon, delta, *, lower=0, moved=None):
    """The largest divergence over tables of keys with few rows, many, or as many as the threshold."""
    scale, threshold = gaussian_discovery(moved or 2 * RELATIONS[relation], 2, Fraction(epsilon), Fraction(delta))
    sigma, threshold = scale / 2**SURVEY_GRID, threshold - lower
    some = [0, 1, threshold - 1, threshold, threshold + math.ceil(3 * sigma)]
    found = 0.0
    if relation == "add_remove":
        for counts in itertools.combinations_with_replacement(some, 2):
            more = [count + 1 for count in counts]
            found = max(found, survey_divergence(more, counts, epsilon, sigma, threshold, 300))
            found = max(found, survey_divergence(counts, more, epsilon, sigma, threshold, 300))
        return found
    for a, b in itertools.product(some, repeat=2):
        one, other = [a + 1, a + 1, b, b], [a, a, b + 1, b + 1]
        found = max(found, survey_divergence(one, other, epsilon, sigma, threshold, 24))
    return found


@pytest.mark.parametrize("price", [(1.0, 0.01), (0.3, 1e-3), (4.0, 1e-4)])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_divergence_of_surveys_is_at_most_delta(relation, price):
    """Over keys of few rows and many, which one row alone holds or several, by integration on a grid."""
    epsilon, delta = price

    assert delta / 10 < survey_worst(relation, epsilon, delta) <= delta


def test_a_threshold_or_noise_that_is_too_low_is_found():
    """With a threshold of two rows less, or noise for a part of the counts that move, the integration objects."""
    assert survey_worst("add_remove", 4.0, 1e-4, lower=2) > 1e-4
    assert survey_worst("replace_one", 1.0, 0.01, moved=1) > 0.01


class Exact(noise.FromLaplace):
    """A sampler that adds nothing, and notes what it was asked."""

    name, private = "NOT PRIVATE: nothing", False

    def gaussian(self, values, scale):
        self.scale = scale
        return values


@pytest.mark.parametrize(("neighbors", "moved"), [("replace_one", 8), ("add_remove", 4)])
def test_it_pays_and_draws_what_was_proved(neighbors, moved):
    """Two columns are charged as one release, with noise for the counts that a row of both moves."""
    frame = pd.DataFrame({"x": [1.0] * 300 + [3.0] * 5, "y": ["a"] * 200 + ["b"] * 100 + [None] * 5})
    budget, sampler = Budget(), Exact()
    table = table_of(frame, neighbors=neighbors)

    with noise.use_sampler(sampler):
        x, y = Curator(table, budget).survey([Column("x"), Column("y")], EDGES.tolist())
    scale, threshold = gaussian_discovery(moved, 4, Fraction(1), Fraction(1, 10**6))

    assert [Approximate(Fraction(1), Fraction(1, 10**6))] == budget.log
    assert scale == sampler.scale
    assert (threshold, scale / 2**SURVEY_GRID) == (x.threshold, x.scale)
    assert ({1: 300.0}, {}, 0.0, 0.0, {1: 300.0}) == (x.numbers, x.dates, x.text, x.nothing, x.values)
    assert (300.0, 0.0, [("a", 200.0), ("b", 100.0)]) == (y.text, y.nothing, [*y.values.items()])


def test_surveys_that_are_refused():
    """No delta, a delta that is not below epsilon, no column and one twice cost nothing."""
    table = table_of(plain([1, 2]))
    for budget, columns, error, match in (
        (Budget(delta="0"), [Column("x")], ArgumentError, "delta above zero"),
        (Budget(epsilon="1/100", delta="1/50"), [Column("x")], ArgumentError, "not below epsilon"),
        (Budget(), [], PluginError, "column twice"),
        (Budget(), [Column("x")] * 2, PluginError, "column twice"),
    ):
        with pytest.raises(error, match=match):
            Curator(table, budget).survey(columns, EDGES.tolist())
        assert [] == budget.log
