"""The sample that tells the spread of many rows: neighbours share it, and it stands for all rows."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._table.batch import Batch
from dfprivacy.schema import Column
from dfprivacy_kernel.design import Groups
from dfprivacy_kernel.embedding import embed, points_of, products_of
from dfprivacy_kernel.statistics import Spread, _copies, drawn, share_of

BY = Column("g", categories=("a", "b"), public=True)
PLANE = tuple(Column(name, bounds=(-3.0, 3.0), fill=0.0) for name in "xy")
MIXED = (PLANE[0], Column("z", categories=("p", "q", "r")))


def batch(rows, columns=PLANE, groups=None):
    """Rows as features read them; a category by its code."""
    rows = np.asarray(rows, dtype=float).reshape(-1, len(columns))
    made = Batch(len(rows), {})
    for values, column in zip(rows.T, columns, strict=True):
        made._missing[column] = np.zeros(len(rows), dtype=np.bool_)
        kept, values = (  # noqa: PLW2901
            (made._encoded, values.astype(np.intp)) if column.bounds is None else (made._cleaned, values.copy())
        )
        kept[column] = values
    made._encoded[BY] = np.arange(len(rows)) % 2 if groups is None else np.asarray(groups)
    return made


def sample(rows, columns=PLANE, share=0.5):
    """The rows that are drawn, and how often."""
    rows = np.asarray(rows, dtype=float).reshape(-1, len(columns))
    found = drawn(batch(rows, columns), columns, share)
    return Counter(map(tuple, (rows[found] + 0.0).tolist()))


@pytest.mark.parametrize("columns", [PLANE, MIXED])
def test_a_row_more_draws_itself_or_nothing(columns):
    """One more row, at any place, draws one more row with its values or none, and no other changes."""
    rng = np.random.default_rng(1)
    changes = Counter()
    for _ in range(400):
        rows = rng.integers(0, 3, (rng.integers(0, 30), 2)).astype(float)
        another = rng.integers(0, 3, 2).astype(float)
        more = np.insert(rows, rng.integers(0, len(rows) + 1), another, axis=0)
        before, after = sample(rows, columns), sample(more, columns)
        assert not before - after
        assert (after - before) in (Counter(), Counter([tuple(another.tolist())]))
        changes[sum((after - before).values())] += 1

    assert min(changes[0], changes[1]) > 100


def test_the_sample_ignores_the_order_and_the_sign_of_zero():
    """The same rows in another order, with -0 for 0, have the same sample."""
    rng = np.random.default_rng(2)
    rows = rng.integers(-1, 2, (500, 2)).astype(float)
    shuffled = rng.permutation(rows)

    assert sample(rows) == sample(shuffled) == sample(np.where(shuffled == 0, -0.0, shuffled))


def test_rows_of_the_same_hash_are_told_apart():
    """Copies are counted of rows with the same values, whatever their hashes are."""
    values = [np.array([2.0, 1.0, 2.0, 1.0, 2.0, 3.0]), np.array([0.0, 0.0, 0.0, 5.0, 0.0, 0.0])]

    found = _copies(values)

    assert found.tolist() == [0, 0, 1, 0, 2, 0]


@pytest.mark.parametrize("distinct", [1, 40, None])
def test_a_share_of_the_rows_is_drawn(distinct):
    """Of rows that are all alike, of few kinds, or all different, about the share is drawn, and near each value."""
    rng, n, share = np.random.default_rng(3), 100_000, 0.25
    rows = rng.normal(size=(n, 2)).clip(-3, 3) if distinct is None else rng.integers(0, distinct, (n, 2)) / 40
    found = drawn(batch(rows), PLANE, share)
    low = rows[:, 0] < np.median(rows[:, 0])

    for part in (np.ones(n, dtype=np.bool_), low, ~low):
        expected = share * part.sum()
        assert abs((found & part).sum() - expected) <= 5.5 * math.sqrt(expected * (1 - share))


def test_only_chosen_rows_are_drawn():
    """A row that is not compared is not drawn, and counts as a copy of none."""
    rows, chosen = np.random.default_rng(9).integers(0, 3, (1000, 2)) / 2, np.arange(1000) % 3 == 0
    embedding, by = (
        embed("nystrom", PLANE, [1.4], points_of(PLANE, None, 40)),
        Column("g", categories=("a", "b", "c")),
    )
    spread = Spread(Groups(by, ("a", "b"), None), embedding, 0.5)
    found, alone = batch(rows), batch(rows[chosen])
    found._encoded[by], alone._encoded[by] = np.where(chosen, np.arange(1000) % 2, 2), np.arange(chosen.sum()) % 2

    assert spread.value(found).tolist() == spread.value(alone).tolist()


@pytest.mark.parametrize(
    ("rows", "epsilon", "expected"),
    [
        ((10_000, 20_000), 1.0, 1.0),
        ((1 << 17, 1 << 17), 1.0, 0.125),
        ((1 << 17, 1 << 17), 0.5, 0.25),
        ((1 << 17, 1 << 17), 9.0, 0.125),
        (None, 1.0, 1.0),
    ],
)
def test_as_many_rows_are_drawn_as_tell_enough(rows, epsilon, expected):
    """Up to 2^15 rows all count, of more as many, times 1/epsilon; and all where their number is private."""
    embedding = embed("nystrom", PLANE, [1.4], points_of(PLANE, None, 40))

    assert expected == share_of(Groups(BY, ("a", "b"), rows, (), rows), embedding, epsilon)


@pytest.mark.parametrize("private", [False, True])
def test_neighbours_stay_within_the_sensitivity_of_a_sampled_spread(private):
    """One row's content, where it is drawn or not before and after, moves no moment by more than is charged."""
    rng = np.random.default_rng(4)
    embedding = embed("nystrom", PLANE, [0.5], points_of(PLANE, None, 40))
    sizes = None if private else (6, 6)
    spread = Spread(Groups(BY, ("a", "b"), sizes, (), (6, 6)), embedding, 0.5)
    bound = spread.sensitivity("replace_one", math.inf, frozenset({"g"}))
    largest = 0.0
    for _ in range(300):
        rows = rng.choice([-3.0, 0.0, 3.0], (12, 2))
        other = rows.copy()
        other[rng.integers(12)] = rng.uniform(-3, 3, 2)
        moved = np.abs(spread.value(batch(other)) - spread.value(batch(rows)))[-3:].max()
        largest = max(largest, float(moved))

    assert largest <= bound
    assert largest > bound / 3


def test_public_rows_are_free_and_private_ones_have_no_less_sensitivity_in_a_sample():
    """Where all columns are public the same rows are drawn; else public ones make nothing smaller."""
    columns = (Column("x", bounds=(-3.0, 3.0), fill=0.0, public=True), MIXED[1])
    embedding = embed("nystrom", columns, [1.4], points_of(columns, None, 40))
    groups = Groups(BY, ("a", "b"), (6, 6), (), (6, 6))
    whole, part = Spread(groups, embedding), Spread(groups, embedding, 0.5)
    asked = "replace_one", math.inf

    assert part.sensitivity(*asked, frozenset({"g", "x", "z"})) == 0
    assert part.sensitivity(*asked, frozenset({"g", "x"})) == whole.sensitivity(*asked, frozenset({"g"}))
    assert whole.sensitivity(*asked, frozenset({"g", "x"})) < part.sensitivity(*asked, frozenset({"g", "x"}))


def test_the_sample_tells_the_spread_of_all_rows():
    """Trace, norm and largest eigenvalue of a sample are those of all rows, but for some thousandths."""
    rng, n = np.random.default_rng(5), 60_000
    rows = batch(rng.normal(size=(n, 2)).clip(-3, 3))
    embedding = embed("nystrom", PLANE, [1.4], points_of(PLANE, None, 40))
    groups = Groups(BY, ("a", "b"), (n // 2, n // 2))
    whole, part = (Spread(groups, embedding, share) for share in (1.0, 0.5))

    assert part.value(rows) / part.weights == pytest.approx(whole.value(rows) / whole.weights, rel=0.03)


def test_many_rows_are_tested_by_a_sample_of_their_spread():
    """A shift is found, none is not, and the estimate is that of the kernel, where a third of the rows is drawn."""
    rng, n = np.random.default_rng(8), 50_000
    table = pd.DataFrame({"x": rng.normal(size=2 * n), "y": rng.normal(size=2 * n), "g": ["a", "b"] * n})
    moved = table.assign(x=table.x + 0.2 * (table.g == "b"))
    terms = {"bounds": {"x": (-4, 4), "y": (-4, 4)}, "categories": {"g": ["a", "b"]}, "public": ["g"]}

    same, other = (
        dp.protect(each, f"many rows {place}", epsilon=2, ledger="memory:", **terms).kernel_two_sample(
            ["x", "y"], by="g", epsilon=1
        )
        for place, each in enumerate((table, moved))
    )

    assert same.pvalue > 1e-6
    assert other.pvalue < 1e-6
    assert other.low < math.sqrt(other.mmd2) < other.high


@pytest.mark.parametrize("kind", ["random", "signed", "largest", "smallest", "odd"])
@pytest.mark.parametrize("n", [0, 1, 1023, 3000])
def test_sums_of_products_are_exact(kind, n):
    """They are what whole numbers of any size give, also of the largest values there are."""
    rng = np.random.default_rng(6)
    values = {
        "random": rng.integers(0, 2**26 + 1, (n, 7)),
        "signed": rng.integers(-(2**26), 2**26 + 1, (n, 7)),
        "largest": np.full((n, 7), 2**26),
        "smallest": np.full((n, 7), -(2**26)),
        "odd": np.full((n, 7), 2**26 - 1) - 2 * rng.integers(0, 2, (n, 7)),
    }[kind]
    chosen = rng.random(n) < 0.8
    plain = values[chosen].astype(object)

    found = products_of(np.array_split(values[chosen].astype(float), 3), 7)

    assert plain.sum(axis=0).tolist() == found[0].tolist() or not chosen.any()
    assert (plain.T.dot(plain) if chosen.any() else np.zeros((7, 7), dtype=object)).tolist() == found[1].tolist()
