"""Expressions of columns: a row's value depends on that row alone, and lies within the bounds that are derived."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.errors import ArgumentError
from dfprivacy.expressions import ComputedColumn, Expression, Formula, LabelCodes, Node, col, computed_column
from dfprivacy.schema import Column

ENDS = [-1e300, -1e6, -7.25, -1.0, -1e-3, 0.0, 5e-324, 0.1, 1.0, 2.0, 3.5, 1e3, 1e12, 1e300]
LABELED = Column("g", categories=("a", "b", 3))


def _declared(rng):
    """Make columns with bounds of all kinds."""
    pairs = [sorted(rng.choice(ENDS, 2, replace=False)) for _ in range(3)]
    pairs = [(low, high) if high - low >= 1e-290 else (low, low + 1) for low, high in pairs]
    return [Column(f"x{at}", (low, high)) for at, (low, high) in enumerate(pairs)]


def _number(rng, depth):
    """Make an expression with numbers as values."""
    if depth == 0 or rng.random() < 0.15:
        return col(f"x{rng.integers(3)}")
    a = _number(rng, depth - 1)
    b = _number(rng, depth - 1) if rng.random() < 0.5 else float(rng.choice(ENDS[2:12]))
    return [
        lambda: a + b,
        lambda: a - b,
        lambda: b - a,
        lambda: a * b,
        lambda: a / b,
        lambda: b / a,
        lambda: -a,
        lambda: a ** float(rng.choice([2, 3, 0.5, -1, -2, 1.7, 0, 9])),
        lambda: abs(a),
        a.log,
        a.log10,
        a.log1p,
        a.exp,
        a.sqrt,
        lambda: a.round(int(rng.integers(-2, 4))),
        lambda: a.clip(-3, 7.5),
        lambda: a.fill(1.5),
        lambda: a.where(_truth(rng, depth - 1), b),
        lambda: a.map({0.1: 4, 1: -2.5, 7.5: 0}),
        a.year,
        a.month,
        a.day,
        a.weekday,
        a.hour,
        lambda: _truth(rng, depth - 1) * a,
    ][rng.integers(25)]()


def _truth(rng, depth):
    """Make an expression that is true or false."""
    a = _number(rng, max(depth - 1, 0))
    other = _truth if depth > 1 else lambda *_: col("g") == "a"
    return [
        lambda: a < 1,
        lambda: a >= col("x0"),
        lambda: a == 2,
        lambda: a != 3.5,
        lambda: a.isin([0.1, 1.0]),
        lambda: other(rng, depth - 1) & (a > 0),
        lambda: other(rng, depth - 1) | (a <= 0),
        lambda: ~other(rng, depth - 1),
        lambda: col("g").isin(["a", 3]),
    ][rng.integers(9)]()


def _label(rng, depth):
    """Make an expression with labels as values."""
    a = _number(rng, depth - 1)
    return [
        lambda: a.cut([-1, 0.1, 1, 1e3]),
        lambda: a.map({0.1: "low", 1.0: "one"}),
        lambda: col("g").fill("none"),
        lambda: col("g").map({"a": "A"}).where(_truth(rng, depth - 1), "z"),
    ][rng.integers(4)]()


def _values(column, rng, n):
    """Make values of a column, mostly at the ends, and missing ones."""
    if column.bounds is None:
        return LabelCodes(rng.integers(-1, 3, n), column.categories)
    low, high = column.bounds
    inner = [each for each in [0.0, 0.1, 1.0, 2.0, -1.0] if low <= each <= high]
    ends = [low, high, column.mid, math.nextafter(low, high), math.nextafter(high, low), *inner, math.nan]
    return np.where(rng.random(n) < 0.7, rng.choice(ends, n), low + (high - low) * rng.random(n))


def _same(a, b):
    """Whether two results have the same bits."""
    if isinstance(a, LabelCodes):
        return [*a.known] == [*b.known] and np.array_equal(a.codes, b.codes)
    return np.array_equal(a.view(np.int64), b.view(np.int64)) or (
        np.array_equal(np.isnan(a), np.isnan(b)) and np.array_equal(a[~np.isnan(a)], b[~np.isnan(b)])
    )


@pytest.mark.parametrize("kind", [_number, _truth, _label])
@pytest.mark.parametrize("seed", range(60))
def test_rows_are_alone_and_within_bounds(kind, seed):
    """Of random expressions: whatever the batch, a row gives the same bits, which lie within what can be."""
    rng, n = np.random.default_rng(seed), 203
    told = []
    for _ in range(8):
        columns = [*_declared(rng), LABELED]
        expression = kind(rng, 4)
        named = [each for each in columns if each.name in expression.node.columns]
        formula = Formula(expression.node, tuple(named))
        rows = {column: _values(column, rng, n) for column in named}
        found = formula.rows(rows.__getitem__)
        for part in (slice(0, 1), slice(1, 2), slice(5, 68), slice(100, 203), rng.permutation(n)):
            alone = formula.rows(lambda column, rows=rows, part=part: rows[column][part])
            assert _same(alone, found[part]), (expression, part)
        span = formula.value_range
        if isinstance(found, LabelCodes):
            assert {*found.known} <= {*span.known} | {None}
            assert (found.codes >= -1).all()
            assert (found.codes < len(found.known)).all()
        else:
            there = found[~np.isnan(found)]
            told.append(len(there))
            assert np.isfinite(there).all()
            assert (there >= span.low - abs(span.low) * 1e-15).all(), expression
            assert (there <= span.high + abs(span.high) * 1e-15).all(), expression
            if span.known is not None and span.kind != "label":
                assert {*there.tolist()} <= {*map(float, span.known)}, expression
        assert Node.from_json(json.loads(json.dumps(expression.node.to_json()))) == expression.node
    assert kind is _label or sum(told) > 0


def test_what_a_part_lacks_the_result_lacks():
    """Wherever a value is missing, and an operation does not say what then counts, so is the result."""
    a, b = col("x0"), col("x1")
    columns = (Column("x0", (-5, 5)), Column("x1", (1, 2)), LABELED)
    rows = {"x0": np.array([1.0, math.nan, 1.0, math.nan]), "x1": np.array([1.5, 1.5, math.nan, math.nan])}
    for made in (a + b, a / b, a * b, a - b, a < b, a == b, (a > 0) & (b > 0), (a > 0) | (b > 0), 0 * a * b):
        found = Formula(made.node, columns).rows(lambda column: rows[column.name])
        assert np.isnan(found).tolist() == [False, True, True, True], made


@pytest.mark.parametrize(
    ("made", "gone"),
    [
        (1 / col("x0"), [False, True, False]),
        (col("x0") / col("x0"), [False, True, False]),
        (col("x0").log(), [False, True, True]),
        (col("x0") ** 0.5, [False, False, True]),
        (col("x0").sqrt(), [False, False, True]),
        ((1000 * abs(col("x0")) + 1).exp(), [True, False, True]),
        ((col("x0") * 1e200) * (col("x0") * 1e200), [True, False, True]),
    ],
    ids=str,
)
def test_what_is_no_finite_number_is_missing(made, gone):
    formula = Formula(made.node, (Column("x0", (-5, 5)),))
    found = formula.rows(lambda _: np.array([4.0, 0.0, -4.0]))
    assert np.isnan(found).tolist() == gone


def test_what_lies_beyond_is_told_of_the_values_as_they_were():
    """From limited parts no value lies beyond; how many did is of those that were not limited."""
    from dfprivacy._table.batch import Batch, number

    x = Column("x", (0, 10))
    formula = Formula((2 * col("x") + 1).node, (x,))
    twice = ComputedColumn("twice", (1.0, 21.0), formula=formula)
    batch = Batch(5, {number(x): np.array([-1.0, 0, 5, 12, math.nan])})
    assert batch.values(twice).tolist() == [1, 1, 11, 21, 11]
    assert batch.side(twice).tolist() == [-1, 0, 0, 1, 0]
    assert batch.missing(twice).tolist() == [False, False, False, False, True]


def _deep(times):
    made: Expression = col("x0")
    for _ in range(times):
        made = made + 1
    return made


def _wide(times):
    made: Expression = col("x0")
    for _ in range(times):
        made = made * made
    return made


@pytest.mark.parametrize("times", [100, 1000, 100_000])
def test_deep_and_wide_expressions_are_refused(times):
    with pytest.raises(ArgumentError, match="nested more than 100 deep"):
        _deep(times)
    with pytest.raises(ArgumentError, match="more than 1,000 operations"):
        _wide(times)


@pytest.mark.parametrize(
    "plain",
    [
        None,
        1,
        "x",
        [],
        {},
        {"col": 1},
        {"col": ["x"]},
        {"no": [{"col": "x"}]},
        {"+": [{"col": "x"}]},
        {"+": [1, 2]},
        {"+": {"col": "x"}},
        {"+": [{"col": "x"}, "a"]},
        {"**": [{"col": "x"}, 1e9]},
        {"**": [{"col": "x"}, {"col": "x"}]},
        {"map": [{"col": "x"}, [[1]]]},
        {"cut": [{"col": "x"}, [3, 1], None]},
        {"log": [{"col": "x"}, 1]},
        {"isin": [{"col": "x"}, []]},
        {"+": [{"col": "x"}, math.nan]},
        {"+": [{"col": "x"}, 1], "-": [{"col": "x"}, 1]},
    ],
    ids=str,
)
def test_other_json_is_no_expression(plain):
    with pytest.raises(ArgumentError):
        Node.from_json(plain)


def test_json_of_any_depth_is_refused():
    plain = {"col": "x"}
    for _ in range(5000):
        plain = {"abs": [plain]}
    with pytest.raises(ArgumentError, match="not an expression of columns"):
        Node.from_json(plain)


@dp.mechanism(columns={})
def forged(curator, *, beside: bool = False):
    """Sum a private column under the name of a public one, alone or beside the public one."""
    known = {column.name: column for column in curator.columns}
    fake = dp.features.Moments(computed_column("open", col("secret") + 0, known), degree=1, count=True)
    return curator.sum(dp.features.Stack(fake, dp.features.Moments(known["open"])) if beside else fake).values  # noqa: PD011 - of noisy sums


@pytest.mark.parametrize("beside", [False, True])
def test_a_name_makes_no_column_public(beside):
    """What a plugin computes of a private column is paid and has noise, whatever it is called."""
    rows = pd.DataFrame({"open": [1.0, 2] * 50, "secret": [3.0, 7] * 50})
    known = {"bounds": {"open": (0, 10), "secret": (0, 10)}, "public": ["open"], "ledger": "memory:"}
    dp.register_mechanism(forged)
    try:
        view = dp.protect(rows, f"forged {beside}", epsilon=5, **known)
        explained = view.explain("forged", beside=beside, epsilon=1)
        assert view.forged(beside=beside, epsilon=1).privacy.epsilon == 1
        assert explained.measurements[0].sensitivity >= 2
    finally:
        dp.unregister(forged.name)


def test_a_product_is_not_the_public_column_of_its_name():
    """A formula's product has noise where the table has a public column that is called so."""
    rows = pd.DataFrame({"a": [1.0, 2, 3, 4] * 50, "b": [3.0, 7] * 100, "a:b": [1.0, 2] * 100})
    view = dp.protect(
        rows,
        "product",
        epsilon=10**6,
        bounds=dict.fromkeys(["a", "b", "a:b"], (0, 10)),
        public=["a:b"],
        ledger="memory:",
    )
    fit = view.ols("a ~ a:b + log(b + 1)", epsilon=10**5)
    assert fit.privacy.epsilon == 10**5
    assert fit.noise_standard_errors["a:b"] > 0


def test_public_parts_make_a_public_column_and_no_key():
    rows = pd.DataFrame({"x": [1.0, 2] * 50, "y": [3.0, 7] * 50})
    view = dp.protect(rows, "parts", epsilon=1, bounds={"x": (0, 10), "y": (0, 10)}, public=["x"], ledger="memory:")
    view = view.with_columns(twice=2 * col("x"), both=col("x") + col("y"))
    assert view[["twice"]].mean("twice", epsilon=1).privacy.epsilon == 0
    assert view.mean("both", epsilon=0.5).privacy.epsilon == 0.5
    assert not Formula((col("x") ** 2 + 1).node, ()).portable
    assert Formula((col("x") / 3 + col("x").sqrt()).node, ()).portable


@pytest.mark.parametrize(
    "plain",
    [
        {"cut": [{"col": "x"}, [0, 1, 2], ["a"]]},
        {"cut": [{"col": "x"}, [0, 1, 2], ["a", "a"]]},
        {"clip": [{"col": "x"}, 2, 1]},
    ],
    ids=str,
)
def test_what_a_method_refuses_json_does_not_bring_in(plain):
    with pytest.raises(ArgumentError):
        Node.from_json(plain)


def test_what_was_found_of_two_columns_bounds_no_number_of_rows():
    """At most so many rows lie beyond each, with probability .95; of both at once that is not known."""
    columns = {name: Column(name, (0, 1), beyond=rows) for name, rows in (("x0", 3.0), ("x1", 5.0))}
    assert computed_column("z", col("x0") + 1, columns).beyond == 3
    assert computed_column("z", col("x0") + col("x1"), columns).beyond == math.inf
