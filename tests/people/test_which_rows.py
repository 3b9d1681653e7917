"""Which rows are asked is one value: sensitivities, descriptions, questions and refined answers are of them."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._call.replay import _of_which_rows
from dfprivacy._measure.evaluate import Table
from dfprivacy._measure.kept import Origins, describe
from dfprivacy._measure.query import Query
from dfprivacy._table.conditions import condition
from dfprivacy._table.declare import declared, read_schema
from dfprivacy._table.frames import adapt
from dfprivacy._table.per import read_aggregates
from dfprivacy.schema import Unit

KEY = bytes(range(32))
GRID = 12
SAID = {"bounds": {"x": (0.0, 8.0)}, "categories": {"g": ["a", "b"]}}
ROWS = [(8.0, "a", 1.0), (0.0, "b", 2.0), (None, "a", 3.0)]  # of the person: up to three, of which two count
STATES = [*itertools.chain.from_iterable(itertools.product(ROWS, repeat=many) for many in range(4))][:31]
OTHERS = [(1, 8.0, "a", 1.0), (2, 0.0, "b", 5.0), (2, 3.0, "a", 4.0), (2, 5.0, "b", 0.0), (2, 8.0, "b", 2.0)]
NAMES = {"pid": pl.Int64, "x": pl.Float64, "g": pl.String, "y": pl.Float64}


def whole(rows, neighbors="add_remove", most=2, key=KEY, **said):
    """The table of all rows, with people of several rows or, for most=None, of one each."""
    unit = None if most is None else Unit("pid", most, "omit")
    frame = adapt(pl.DataFrame(rows, schema=NAMES, orient="row"))
    terms = {**SAID, "public": (), "missing": None, **said}
    return Table(frame, read_schema(frame, neighbors=neighbors, unit=unit, **terms), key=key)


def where(table, **wanted):
    return table.where(*(condition(table.schema, name, each) for name, each in wanted.items()))


def declare(table, **bounds):
    return table.declaring(declared(table.schema, bounds=bounds, categories=None, missing=None).columns)


def per(table, **asked):
    asked = asked or {"x": "mean", "g": "first"}
    return table.per_person(read_aggregates(table.schema, table.schema.unit, asked))


WAYS = {
    "plain": lambda t: t,
    "where": lambda t: where(t, g="a"),
    "where_numbers": lambda t: where(t, x=(1, 8)),
    "select": lambda t: t.select(["x", "g"]),
    "declare": lambda t: declare(t, y=(0, 5)),
    "where_declare": lambda t: declare(where(t, x=(1, 8)), x=(0, 4)),
    "declare_where": lambda t: where(declare(t, y=(0, 5)), y=(0, 2), g="a"),
    "per": per,
    "per_sum": lambda t: per(t, x=("x", "sum", (0, 10)), g="last"),
    "where_per": lambda t: per(where(t, g="a")),
    "per_where": lambda t: where(per(t), x=(1, 5)),
    "declare_per": lambda t: per(declare(t, y=(0, 5)), x=("y", "max"), g="first"),
    "per_declare": lambda t: declare(per(t), x=(2, 4)),
}
OF_ROWS = [way for way in WAYS if "per" not in way]


def asked(table):
    """Sums of everything that a table has: rows, numbers, categories, and numbers by category."""
    x, g = table.schema.numeric("x"), table.schema.categorical("g")
    both = features.Moments(x, count=True)
    return [features.Count(), features.Moments(x), both, features.OneHot(g), features.OneHot(g, of=both)]


def sums(table):
    return [np.array(table.total(each, GRID), dtype=float) / 2**GRID for each in asked(table)]


def between(state, name=9):
    """The others' rows, and between them those of one person."""
    pairs = itertools.zip_longest([(name, *row) for row in state], OTHERS)
    return [row for pair in pairs for row in pair if row is not None]


def moved(way, neighbors, most):
    """How far neighbouring tables move each sum at most, in L1 and L2, and what the sensitivity says."""
    states = STATES if most else [state for state in STATES if len(state) <= 1]
    tables = [WAYS[way](whole(between(state), neighbors, most)) for state in states]
    found = [sums(table) for table in tables]
    if neighbors == "add_remove":
        pairs = [(0, at) for at in range(len(states))]
    else:
        pairs = list(itertools.combinations(range(1, len(states)), 2))
    for at, measured in enumerate(asked(tables[0])):
        apart = np.array([found[one][at] - found[other][at] for one, other in pairs])
        for norm in (1.0, 2.0):
            far = np.linalg.norm(apart, ord=norm, axis=1).max()
            rounding = len(apart[0]) * 4 * 2.0**-GRID
            yield far, tables[0].sensitivity(measured, norm) + rounding


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    ("way", "most"), [*itertools.product(WAYS, [2]), *itertools.product(OF_ROWS, [None])], ids=str
)
def test_neighbouring_tables_differ_by_no_more_than_the_sensitivity(way, most, neighbors):
    """In all ways of choosing rows, exactly; and for some sum by as much, so the bound is not too large."""
    found = list(moved(way, neighbors, most))

    assert [(far, bound) for far, bound in found if far > bound] == []
    assert max(far / bound for far, bound in found) > 0.9


def variants():
    """One table of people with too many rows, chosen in many ways, by many declarations."""
    rng = np.random.default_rng(30)
    rows = [(i // 4, float(rng.integers(9)), "ab"[rng.integers(2)], float(rng.integers(6))) for i in range(160)]
    bounds = {"x": (0.0, 8.0), "y": (0.0, 5.0)}
    told = [{}, {"bounds": bounds}, {"bounds": {"x": (0.0, 6.0)}}, {"categories": {"g": ["b", "a"]}}]
    for said, most, way in itertools.product(told, [1, 2], WAYS):
        yield WAYS[way](whole(rows, most=most, **said))
    for way in OF_ROWS:
        yield WAYS[way](whole(rows, most=None))


def text_of(table):
    named = [table.schema.numeric("x"), table.schema.categorical("g")]
    return json.dumps([_of_which_rows(table, named), table.schema.neighbors])


def test_equal_descriptions_are_of_equal_sums():
    """Of measurements and of questions: what chooses rows is in them, and nothing more is needed to tell apart."""
    known = Origins({})
    by_description, by_text = {}, {}
    for table in variants():
        for at, (measured, exact) in enumerate(zip(asked(table), sums(table), strict=True)):
            description = describe(Query.read(measured), table, known)
            by_description.setdefault(description, set()).add(tuple(exact.tolist()))
            by_text.setdefault((at, text_of(table)), set()).add(tuple(exact.tolist()))

    assert {1} == {len(exact) for exact in by_description.values()}
    assert {1} == {len(exact) for exact in by_text.values()}
    assert len(by_text) > 5 * 60  # nearly each variant is another one


def test_other_declarations_choose_other_rows():
    """Of people with too many rows: else there would be nothing to name."""
    plain, more = (WAYS[way](next(variants())) for way in ("plain", "declare"))

    assert not np.array_equal(sums(plain)[1], sums(more)[1])
    assert text_of(plain) != text_of(more)


def test_a_condition_keeps_its_columns_declaration():
    """A question about a column that was declared anew says both: the values that select, and those that count."""
    table = where(whole(OTHERS, most=None), x=(0, 5))

    texts = [text_of(declare(table, x=ends)) for ends in ((0, 8), (0, 6), (0, 5))]
    assert len({*texts}) == 3


def test_no_part_is_exchanged_for_anothers():
    """Neither by `dataclasses.replace`, nor by setting, nor by making a table of chosen rows."""
    rows = whole(OTHERS)
    people = per(rows)
    attempts = [
        lambda: dataclasses.replace(people, frame=rows.frame),
        lambda: setattr(people, "schema", rows.schema),
        lambda: setattr(people, "_frame", rows.frame),
        lambda: Table(rows.frame, people.schema),
        lambda: Table(people.frame, rows.schema),
        lambda: Table(rows.sampled(dp._privacy.filters.exact("1/2")).frame, rows.schema),
        lambda: people.over(rows.frame),
    ]

    for attempt in attempts:
        with pytest.raises((TypeError, AttributeError)):
            attempt()


def clustered():
    """People with large numbers have more rows, so a mean over rows is another one than over people."""
    rng = np.random.default_rng(0)
    own = rng.normal(size=400)
    frame = pd.DataFrame({"id": np.repeat(np.arange(400), 5)})
    frame["x"] = np.clip(own[frame.id] + rng.normal(size=len(frame)) * 0.1, -4, 4)
    frame["s"] = np.where(own[frame.id] > 0, "u", "d")
    frame["y"] = np.arange(len(frame)) % 7.0
    return frame[frame.groupby("id").cumcount() < np.where(frame.s == "u", 5, 1)].reset_index(drop=True)


VIEWS = {
    "rows": lambda v: v,
    "where": lambda v: v.where(s="u"),
    "declared": lambda v: v.declare(bounds={"y": (0, 7)}),
    "people": lambda v: v.per("id").agg(x="mean", s="first"),
    "people_where": lambda v: v.where(s="u").per("id").agg(x="max", s="last"),
    "of_people": lambda v: v.per("id").agg(x="mean", s="first").where(s="d"),
    "sample": lambda v: v.sample("1/2"),
}


@pytest.fixture(name="view")
def _view():
    frame = clustered()
    terms = {"bounds": {"x": (-4, 4)}, "categories": {"s": ["u", "d"]}, "unit": "id", "max_rows": 3}
    return dp.protect(frame, "clustered", epsilon=10**6, accounting="basic", **terms)


@pytest.mark.parametrize("through", ["rows", "people", "sample"])
@pytest.mark.parametrize("of", [name for name in VIEWS if name != "sample"])
def test_a_refined_answer_is_of_the_rows_that_were_asked(view, of, through):
    """Whichever view of the data set asks again, with the sensitivity that these rows have, for the same charge."""
    first = VIEWS[of](view).mean("x", epsilon=10**4)
    before = view.budget.spent
    second = VIEWS[through](view).refine(first, epsilon=10**4)

    assert math.isclose(first.value, second.estimate, abs_tol=1e-3)
    assert second.privacy.noise[0].sensitivity == first.privacy.noise[0].sensitivity
    assert view.budget.spent - before == 10**4


def test_an_answer_whose_rows_are_gone_is_not_refined():
    """That came from JSON, or whose view was dropped: nothing is paid."""
    frame = clustered()
    terms = {"bounds": {"x": (-4, 4)}, "epsilon": 10**6, "accounting": "basic"}
    first = dp.protect(frame, "dropped", **terms).mean("x", epsilon=10**4)
    again = dp.protect(frame, "dropped", **terms)
    for answer in (first, dp.Release.from_json(first.to_json())):
        with pytest.raises(dp.ArgumentError, match=r"not here any more|not known here"):
            again.refine(answer, epsilon=10**4)

    assert again.budget.spent == 10**4


def test_what_was_measured_of_other_rows_is_not_taken(view):
    """Declaring another column chooses other rows of a person: the answer is another one, and is paid."""
    more = view.declare(bounds={"y": (0, 7)})
    first, second = view.mean("x", epsilon=100), more.mean("x", epsilon=100)
    people, others = (v.per("id").agg(x="mean").mean("x", epsilon=100) for v in (view, more))

    assert [each.privacy.epsilon for each in (first, second, people, others)] == [100] * 4
    assert first.value != second.value
    assert view.declare(bounds={"y": (0, 7)}).mean("x", epsilon=100).privacy.replayed
