"""Keys of a known domain: where each stands in it, what is counted, what it costs, and that this is private."""

# ruff: noqa: SIM300 - no pandas here; expected == actual

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfprivacy as dp
from dfprivacy import PluginError
from dfprivacy._call.requests import decoded, encoded
from dfprivacy._measure.curator import Curator
from dfprivacy._measure.evaluate import Table
from dfprivacy._plugins.loader import register_mechanism, unregister
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.losses import Laplace
from dfprivacy._table.declare import read_schema
from dfprivacy._table.domain import domain_of
from dfprivacy._table.frames import adapt
from dfprivacy.cli import main
from dfprivacy.errors import DPError
from dfprivacy.schema import codes_of
from dfprivacy.testing import seeded_noise
from dfprivacy_audit.harness import Replay

pytestmark = pytest.mark.pandas

RELATIONS = {"add_remove": 1, "replace_one": 2}


@dp.mechanism(columns={"column": "any"})
def known_keys(curator, column, *, domain=None):
    "The keys of a known domain that enough rows hold."
    found = curator.discover(column, domain=domain)
    return {"keys": list(found.keys), "counts": found.counts.tolist(), "threshold": found.threshold}


@dp.mechanism(columns={"column": "any", "other": "view"})
def known_keys_of_both(curator, column, *, other=None, domain=None):
    "The keys of a known domain that enough rows of two tables hold."
    found = curator.discover(column, domain=domain)
    return {"keys": list(found.keys), "counts": found.counts.tolist()}


@pytest.fixture(autouse=True)
def mechanisms():
    for each in (known_keys, known_keys_of_both):
        register_mechanism(each)
    yield
    for each in (known_keys, known_keys_of_both):
        unregister(each.name)


def table_of(frame, **said):
    nothing = {"bounds": None, "categories": None, "public": (), "missing": None, "neighbors": "replace_one"}
    adapted = adapt(frame)
    return Table(adapted, read_schema(adapted, **{**nothing, **said}))


def plain(values, name="x"):
    return pd.DataFrame({name: pd.Series(values, dtype=object)})


# ---- where a key stands ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "keys"),
    [
        ("[a-c][0-9]", [f"{a}{b}" for a in "abc" for b in range(10)]),
        (r"\d{2}", [f"{n:02}" for n in range(100)]),
        (r"J\d\.[05]", [f"J{n}.{half}" for n in range(10) for half in "05"]),
        ("[ca-b-]", ["-", "a", "b", "c"]),
        (r"[\]\-ü]{2}", [a + b for a in "-]ü" for b in "-]ü"]),
        ("x", ["x"]),
        ("[aa]b{3}", ["abbb"]),
        (range(3, 9), [3, 4, 5, 6, 7, 8]),
        (range(9, 0, -4), [9, 5, 1]),
        (range(-2, 3, 2), [-2, 0, 2]),
        (["b", 3, "a", 0.5, True], ["b", 3, "a", 0.5, True]),
        (np.array([2.5, 1.0]), [2.5, 1.0]),
    ],
    ids=str,
)
def test_what_a_domain_holds(domain, keys):
    """A pattern, a range and a list each hold their keys, in an order of their own, each at its place."""
    found = domain_of(domain)

    assert len(keys) == found.size
    assert keys == [found.key(place) for place in range(found.size)]
    assert [*range(found.size)] == [found.place(key) for key in keys]


VALUES = st.one_of(
    st.integers(-12, 120),
    st.floats(-2, 12).map(lambda x: round(x, 1)),
    st.sampled_from(["", "1", "01", "1.0", "5.0", "-1", "True", "false", "00", "１", "1e1", "10", "100", "a\n"]),
    st.integers(0, 200).map(str),
    st.integers(0, 99).map(lambda n: f"{n:02}"),
    st.sampled_from([2**53, -(2**53), 1e300, 2**60, 0.1]),
)


@given(VALUES)
def test_a_value_is_where_it_would_be_among_as_many_categories(value):
    """Whatever a row holds, a pattern and a range count it as the declared list of the same keys would."""
    for domain in (range(12), range(1, 100, 3), r"\d{2}", r"\d", r"[01]\.[05]", "[-1]\\d", "[Tt]rue", r"\d{3}"):
        known = domain_of(domain)
        listed = tuple(known.key(place) for place in range(known.size))

        assert codes_of(listed).code(value, None) == known.place(value) == domain_of(listed).place(value)


def test_a_domain_may_be_huge():
    """Of 10^15 texts, or numbers, the first, the last and any other are found at once."""
    texts, numbers = domain_of(r"\d{15}"), domain_of(range(10**15))

    for place in (0, 123_456_789_012_345, 10**15 - 1):
        assert (f"{place:015}", place) == (texts.key(place), numbers.key(place))
        assert (place, place) == (texts.place(f"{place:015}"), numbers.place(place))
    assert (10**15, 10**15) == (texts.size, numbers.size)


@pytest.mark.parametrize(
    ("domain", "match"),
    [
        ("", "character 1"),
        ("ab*", "character 3"),
        ("a.", "character 2"),
        ("[^a]", "character 1"),
        ("[]", "character 1"),
        ("[z-a]", "character 1"),
        (r"a\w", "character 2"),
        (r"[\d-z]", "character 1"),
        ("a{0}", "character 2"),
        ("a{2,3}", "character 2"),
        ("a{1000}", "character 2"),
        ("(a)", "character 1"),
        ("a\\", "character 2"),
        (r"\d{16}", "more than 1,000,000,000,000,000 keys"),
        (r"\d{99}" * 2, "more than"),
        (r"a{999}" * 5, "256 characters"),
        ("ab{256}", "256 characters"),
        ("ab" * 10**5, "256 characters"),
        (range(10**15 + 1), "more than"),
        (range(5, 5), "no keys"),
        (range(2**53 + 2), r"beyond 2\^53"),
        ([], "at least one value"),
        (["a", "a"], "each once"),
        ([1, True], "each once"),
        ([math.nan], "finite numbers"),
        ([None], "finite numbers"),
        ({"a": 1}, "no list, no range and no pattern"),
        (pd.Series(["a", "b"]), "tolist"),
        (5, "no list, no range and no pattern"),
    ],
    ids=str,
)
def test_what_is_no_domain_is_refused_before_it_is_paid(domain, match):
    """A pattern that cannot be read, and what is empty, twice there, or too large: nothing is charged or read."""
    log = []
    table = table_of(Watched(log, {"x": ["a"]}))
    log.clear()

    with pytest.raises(DPError, match=match):
        Curator(table, Budget(log)).discover(table.schema.named("x"), domain=domain)

    assert [] == log


# ---- what is counted, and what it costs ------------------------------------------------------------------


class Budget:
    """What pays for a call, and notes when."""

    basic_composition = True

    def __init__(self, log, epsilon="1", delta="0"):
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


def drawn(table, domain, epsilon="1"):
    """What is drawn for the keys of a domain, what is paid, and what is said."""
    log, sampler = [], Replay()
    with noise.use(sampler):
        found = Curator(table, Budget(log, epsilon)).discover(table.schema.named("x"), domain=domain)
    [draw] = sampler.draws
    return draw, log, found


@pytest.mark.parametrize(("neighbors", "moved"), [("replace_one", 2), ("add_remove", 1)])
@pytest.mark.parametrize("epsilon", ["1/3", "1", "7"])
def test_it_pays_first_and_draws_what_was_proved(neighbors, moved, epsilon):
    """Laplace noise for what a row moves is charged, then rows are read; the threshold is of public numbers."""
    log = []
    table = table_of(Watched(log, {"x": ["b", "a", "b", None, "zzz"]}), neighbors=neighbors)
    log.clear()
    scale = calibrate.laplace_scale(moved, Fraction(epsilon))
    threshold = calibrate.sparse_threshold(scale, 26)

    draw, paid, found = drawn(table, "[a-z]", epsilon)

    assert [Laplace(moved, scale, Fraction(epsilon))] == paid
    assert ["read"] == log
    assert ("sparse", scale, (scale, threshold, 26)) == (draw.kind, draw.scale, draw.law)
    assert {0: 1, 1: 2} == dict(zip(draw.keys, draw.sums.tolist(), strict=True))
    assert (threshold, scale, 26) == (found.threshold, found.scale, found.domain)
    assert 0 < found.false <= 0.05


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_people_of_many_rows_have_noise_for_all_of_them(neighbors):
    """Where a person may have three rows, the noise is for three, and at most three of each are counted."""
    frame = pd.DataFrame({"who": [1] * 5 + [2], "x": ["a"] * 5 + ["b"]})
    with seeded_noise(1):
        view = dp.protect(frame, "people", epsilon=1000, neighbors=neighbors, unit="who", max_rows=3)
        found = view.known_keys("x", domain="[a-z]", epsilon=500)

    [said] = found.privacy.noise
    assert 3 * RELATIONS[neighbors] == said.sensitivity
    assert {"a": 3, "b": 1} == dict(zip(found.value["keys"], found.value["counts"], strict=True))


def rows_of(size, keys):
    return itertools.chain.from_iterable(itertools.product(keys, repeat=many) for many in range(size + 1))


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_no_row_moves_more_than_is_charged(neighbors):
    """Over all neighbouring tables of up to three rows, with missing and foreign values; some pair is as far."""
    values = ["a", "b", None, "zzz", 1]
    tables = {
        rows: dict(zip(draw.keys, draw.sums.tolist(), strict=True))
        for rows in rows_of(3, values)
        if rows
        for draw in [drawn(table_of(plain([*rows]), neighbors=neighbors), "[ab1]")[0]]
    }
    far = [
        sum(abs(one.get(place, 0) - other.get(place, 0)) for place in range(3))
        for rows, one in tables.items()
        for near in neighbours(rows, values, neighbors)
        if (other := tables.get(near)) is not None
    ]

    assert RELATIONS[neighbors] == max(far)


def neighbours(rows, values, relation):
    if relation == "add_remove":
        return [rows[:at] + rows[at + 1 :] for at in range(len(rows))]
    return [(*rows[:at], value, *rows[at + 1 :]) for at in range(len(rows)) for value in values]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(5)])
@pytest.mark.parametrize("threshold", [1, 3, 20])
def test_neighbouring_tables_differ_by_epsilon_at_most(relation, epsilon, threshold):
    """By enumeration of all that is seen of the keys that differ, no chance is off by more, wherever they stand."""
    with mpmath.workdps(50):
        scale = calibrate.laplace_scale(RELATIONS[relation], epsilon)
        most = max(
            abs(mpmath.log(p / other[seen]))
            for pair in pairs(relation)
            for one, other in itertools.permutations([law(counts, scale, threshold) for counts in pair])
            for seen, p in one.items()
        )

        limit = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        assert most <= limit + mpmath.mpf("1e-45")  # of 50 digits
        assert threshold > 5 or most > limit * (1 - mpmath.mpf("1e-12"))  # where both keys may reach it


def pairs(relation, most=5):
    """Counts of the keys that differ, on neighbouring tables."""
    if relation == "add_remove":
        return [((count,), (count + 1,)) for count in range(most)]
    return [((a + 1, b), (a, b + 1)) for a, b in itertools.product(range(most), repeat=2)]


def law(counts, scale, threshold):
    """The law of what is seen of some keys: of each nothing, a value, or one so large that all tell the same."""
    q, found = mpmath.exp(-1 / mpmath.mpf(scale)), {(): mpmath.mpf(1)}
    for count in counts:
        top = max(threshold, 7)
        one = {x: (1 - q) / (1 + q) * q ** abs(x - count) for x in range(threshold, top)}
        one["large"] = q ** (top - count) / (1 + q)
        one[None] = 1 - mpmath.fsum(one.values())
        found = {(*seen, x): p * each for seen, p in found.items() for x, each in one.items()}
    return found


def test_public_keys_are_exact_and_free():
    """All keys of a public column that are in the domain are shown, and nothing else is."""
    log = []
    table = table_of(plain(["a", "b", "a", "B", None]), public=["x"])

    found = Curator(table, Budget(log)).discover(table.schema.named("x"), domain="[a-z]")

    assert (("a", "b"), [2, 1], 0.0, None) == (found.keys, found.counts.tolist(), found.scale, found.noise)
    assert [] == log
    assert 0 == found.false


def test_several_columns_have_no_domain():
    """A domain is of one column."""
    log = []
    table = table_of(pd.DataFrame({"x": ["a"], "y": ["b"]}))

    with pytest.raises(PluginError, match="several columns"):
        Curator(table, Budget(log)).discover([table.schema.named("x"), table.schema.named("y")], domain="[ab]")

    assert [] == log


# ---- in a method -----------------------------------------------------------------------------------------

CODES = [*["J45"] * 300, *["E11"] * 200, *["I10"] * 120, *(f"A{at:02}" for at in range(100)), *[None] * 30, "j45"]
ARMS = ["drug", "placebo"] * 375 + ["drug"]
ICD = "[A-Z][0-9]{2}"
LISTED = [f"{a}{n:02}" for a in "JEIA" for n in range(100)]


def protect(frame=None, name="codes", **terms):
    frame = pd.DataFrame({"icd": CODES, "arm": ARMS}) if frame is None else frame
    return dp.protect(frame, name, **{"epsilon": 5, "categories": {"arm": ["drug", "placebo"]}, **terms})


@pytest.mark.parametrize(
    "domain", [ICD, [f"{a}{n:02}" for a in "JEIA" for n in range(100)]], ids=["pattern", "list"]
)
def test_what_many_hold_is_found_on_every_engine(constructor, domain):
    """On every engine, the common codes are found with about their counts, without a delta."""
    with seeded_noise(1):
        found = protect(constructor({"icd": CODES, "arm": ARMS})).known_keys("icd", domain=domain, epsilon=1)

    assert ["J45", "E11", "I10"] == found.value["keys"]
    assert [300, 200, 120] == pytest.approx(found.value["counts"], abs=40)
    assert (1, 0) == (found.privacy.epsilon, found.privacy.delta)


@pytest.mark.parametrize("domain", [ICD, range(10**9), ["J45", "E11"], [f"{at:04}" for at in range(9999)]])
def test_the_question_is_answered_again(domain):
    """The same domain has the same answer for nothing, another one has not."""
    view = protect()

    first = view.known_keys("icd", domain=domain, epsilon=1)
    again = view.known_keys("icd", domain=domain, epsilon=1)
    other = view.known_keys("icd", domain="[A-Z]", epsilon=1)

    assert (first.value, True) == (again.value, again.privacy.replayed)
    assert not other.privacy.replayed
    assert 2 == view.budget.spent


def test_a_part_and_groups():
    """Conditions and groups hold, and all groups together cost what one costs."""
    view = protect(epsilon=200)

    part = view.where(arm="drug").known_keys("icd", domain=ICD, epsilon=50).value
    by = view.group_by("arm").known_keys("icd", domain=ICD, epsilon=50)

    assert [150, 100, 60] == pytest.approx(part["counts"][:3], abs=2)
    assert [[150, 100, 60]] * 2 == [
        pytest.approx(by[arm].value["counts"][:3], abs=2) for arm in ("drug", "placebo")
    ]
    assert 100 == view.budget.spent


@pytest.mark.parametrize("accounting", ["basic", "rdp", "gdp", "portfolio"])
def test_it_is_charged_as_laplace_noise(accounting):
    """Its price is that of any sum with the same noise, in every currency: the account has as much left."""
    sums = protect(name=f"{accounting}-sums", accounting=accounting, delta="1e-6")
    keys = protect(name=f"{accounting}-keys", accounting=accounting, delta="1e-6")

    sums.value_counts("arm", epsilon="1/2")
    keys.known_keys("icd", domain=ICD, epsilon="1/2")

    assert sums.budget.spent == pytest.approx(keys.budget.spent, rel=1e-3)


def test_a_plan_says_from_how_many_rows_on():
    """What would be measured is said with its threshold, and nothing is read or charged."""
    view = protect()

    plan = view.explain("known_keys", "icd", domain=ICD, epsilon=1)

    assert "noise of scale 2 on how many rows hold each key of icd among 2,600, shown from 21 on" in repr(plan)
    assert 0 == view.budget.spent


def test_a_request_holds_a_range():
    """A range goes into a request's file and comes out, and what only looks like one does not."""
    for said in (range(5), range(9, -3, -4), [range(10**15)]):
        assert said == decoded(json.loads(json.dumps(encoded(said, "domain="))))
    for wrong in (
        {"$range": [0, 5, 0]},
        {"$range": [0, 5]},
        {"$range": [0, 5, 1.0]},
        {"$range": [0, 5, 1], "x": 1},
    ):
        with pytest.raises(ValueError, match=r"^$"):
            decoded(wrong)


def test_a_question_about_a_range_goes_through_a_file(tmp_path, monkeypatch):
    """What an analyst asks by file of a range, a list and a pattern is the same question as by hand."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DFPRIVACY_LEDGER", str(tmp_path / "ledger.sqlite"))
    Path("codes.toml").write_text('name = "codes"\nepsilon = 9\n[columns.icd]\n[columns.arm]\n')
    Path("ana.key").write_text("a" * 64)
    frame = pd.DataFrame({"icd": CODES, "arm": ARMS})
    frame.to_parquet("codes.parquet")
    asked = dp.request("codes.toml")
    for domain in (range(10**9), ICD, ["J45", "E11"]):
        asked.value_counts("icd", domain=domain, epsilon=1)
    asked.save("asked.json", key="ana.key")
    main(["ledger", "key", "ana", "ana.key"])

    done = main(
        ["answer", "asked.json", "--data", "codes.parquet", "--schema", "codes.toml", "--key", "ana.key", "--yes"]
    )
    view = dp.protect(frame, "codes", schema="codes.toml")
    again = [view.value_counts("icd", domain=domain, epsilon=1) for domain in (range(10**9), ICD, ["J45", "E11"])]

    assert 0 == done
    assert 3 == view.budget.spent
    assert [True] * 3 == [each.privacy.replayed for each in again]


def test_of_a_sample():
    """A sample of the rows is asked in the same way, at the price of a sample."""
    view = protect(epsilon=500)

    found = view.sample(0.5).known_keys("icd", domain=ICD, epsilon=100)

    assert {"J45", "E11", "I10"} <= set(found.value["keys"])
    assert 100 == view.budget.spent
    assert found.privacy.noise[0].epsilon > 100


def test_of_two_tables():
    """Where two tables are asked together, the rows of both hold keys, and both accounts pay."""
    first, second = (
        protect(epsilon=500),
        protect(plain(["J45"] * 300, "icd"), "others", categories=None, epsilon=500),
    )

    found = first.known_keys_of_both("icd", other=second, domain=ICD, epsilon=100).value

    assert ["J45", "E11", "I10"] == found["keys"][:3]
    assert 600 == pytest.approx(found["counts"][0], abs=3)
    assert (100, 100) == (first.budget.spent, second.budget.spent)


def test_nothing_is_shown_of_an_empty_table():
    """Of no rows that hold a key of the domain, hardly anything is shown."""
    with seeded_noise(3):
        found = protect(plain([None] * 50, "icd"), "empty", categories=None).known_keys(
            "icd", domain=ICD, epsilon=1
        )

    assert [] == found.value["keys"]
