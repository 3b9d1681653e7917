"""Keys that bring the rows of two tables together: lists, and public columns of any library's tables."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor import load_message

COUNT = itertools.count()
ASKED = {"columns": "x", "epsilon": 3, "keys": "id"}
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.LazyFrame, "arrow": pa.table}


def party(values, library="pandas", **terms):
    """A view of a table of its own, whose column id is public if there is one."""
    known = {"epsilon": 10**4, "accounting": "basic", "ledger": "memory:", "public": ["id"]}
    known["bounds"] = {name: (-1.5, 1.5) for name in "xy" if name in values}
    return dp.protect(LIBRARIES[library](values), f"party with keys {next(COUNT)}", **{**known, **terms})


def shuffled(n, kind=int, seed=1):
    """A line of n rows in one table, and the same rows in another order in another: x, y and their keys."""
    rng = np.random.default_rng(seed)
    x, order = rng.uniform(-1, 1, n), rng.permutation(n)
    keys = [kind(10**6 + at) for at in range(n)]
    return {"x": x, "id": keys}, {"y": x[order], "id": [keys[at] for at in order]}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", [int, str])
def test_a_key_column_is_the_same_as_its_values(library, kind):
    """Whoever's table it is, a column of public keys says what a list of them does."""
    mine, its = shuffled(50, kind)
    alice, bob = party(mine, library), party(its, library)
    with seeded_noise(1):
        message = alice.dcor_message("x", keys="id", epsilon=1)
        found = bob.dcor_with(message, "y", keys="id", epsilon=1)
    with seeded_noise(1):
        listed = alice.dcor_message("x", keys=mine["id"], epsilon=1)
        same = bob.dcor_with(listed, "y", keys=its["id"], epsilon=1)

    assert tuple(mine["id"]) == message.keys
    assert message.result.keys() == listed.result.keys()
    assert (message.angles.tolist(), found.released) == (listed.angles.tolist(), same.released)


def test_key_columns_of_two_libraries_go_together():
    """Text in a Polars table and in a pandas one are the same keys, and the rows meet."""
    mine, its = shuffled(3000, str)
    alice, bob = party(mine, "polars"), party(its, "pandas")
    with seeded_noise(2):
        found = bob.dcor_with(alice.dcor_message("x", keys="id", epsilon=20), "y", keys="id", epsilon=20)

    assert found.squared > 0.5


def test_a_file_that_is_streamed_keeps_its_order(tmp_path):
    """Rows of a scanned file come in order: those of a message are those of its keys."""
    n = 300_000
    pl.DataFrame({"x": np.linspace(-1, 1, n), "id": np.arange(n)}).write_parquet(
        tmp_path / "rows.parquet", row_group_size=5000
    )
    rows = pl.scan_parquet(tmp_path / "rows.parquet")
    terms = {"epsilon": 20, "ledger": "memory:", "bounds": {"x": (-1, 1)}, "public": ["id"]}
    alice = dp.protect(rows, "a file with keys", **terms)
    with seeded_noise(3):
        message = alice.dcor_message("x", keys="id", epsilon=20)

    assert tuple(range(n)) == message.keys
    assert message.estimate(np.linspace(-1, 1, n), keys=list(range(n)), permutations=1).squared > 0.9


def test_the_keys_travel_in_the_file(tmp_path):
    """What is read from a file has the keys, and they bring the rows together."""
    mine, its = shuffled(60)
    party(mine).dcor_message("x", keys="id", epsilon=1).save(tmp_path / "message.json")

    received = load_message(tmp_path / "message.json")

    assert tuple(mine["id"]) == received.keys
    assert 60 == party(its).dcor_with(received, "y", keys="id", epsilon=1).rows


def test_a_view_is_asked_for_its_key_column():
    """Another view reads its own key column; both name theirs, or list the keys, and nothing is measured anew."""
    mine, its = shuffled(3000)
    alice, bob = party(mine), party(its)
    with seeded_noise(4):
        found = bob.dcor_with(alice, "y", asked={**ASKED, "epsilon": 20}, keys="id", epsilon=20)
        listed = bob.dcor_with(alice, "y", asked={**ASKED, "epsilon": 20}, keys=its["id"], epsilon=20)

    assert found.squared > 0.5
    assert (20, 20) == (alice.budget.spent, bob.budget.spent)
    assert found.columns == listed.columns


def test_the_same_key_column_asks_the_same():
    """A question names the column, so asking again is free."""
    mine, _ = shuffled(20)
    alice = party(mine)
    alice.dcor_message("x", keys="id", epsilon=1)

    assert alice.dcor_message("x", keys="id", epsilon=1).privacy.replayed
    assert 1 == alice.budget.spent


def test_an_explanation_has_a_fingerprint_of_the_keys():
    """Before anything is paid both parties can compare rows and keys, in whatever order."""
    mine, its = shuffled(20)
    alice, bob = party(mine), party({**its, "x": its["y"]})
    said, again = (view.explain("dcor_message", "x", keys="id", epsilon=1).findings for view in (alice, bob))

    assert said == again
    assert (20, 64) == (said["rows"], len(said["fingerprint of the keys"]))
    assert {"rows": 20} == alice.explain("dcor_message", "x", epsilon=1).findings


@pytest.mark.parametrize(
    "keys",
    [
        [7] * 20,
        [*range(19), 4711],
        [*range(19), None],
        [float(at) for at in range(20)],
        [at % 2 == 0 for at in range(20)],
        pd.date_range("2020-01-01", periods=20),
    ],
    ids=["doubles", "stranger", "missing", "fractions", "booleans", "dates"],
)
def test_key_columns_that_do_not_match_are_refused_without_saying_which(keys):
    """By a message or by a view: nobody is charged, and no key is named."""
    alice = party({"x": np.zeros(20), "id": list(range(20))})
    bob = party({"y": np.zeros(20), "id": keys})
    message = alice.dcor_message("x", keys="id", epsilon=1)
    for other, asked in ((message, None), (alice, {**ASKED, "epsilon": 2})):
        with pytest.raises(dp.ArgumentError) as caught:
            bob.dcor_with(other, "y", asked=asked, keys="id", epsilon=1)
        assert not any(word in str(caught.value) for word in ("4711", "2020", "19"))

    assert (1, 0) == (alice.budget.spent, bob.budget.spent)


@pytest.mark.parametrize(
    ("keys", "terms", "said"),
    [
        ("x", {}, "not public"),
        ("id", {"public": []}, "not public"),
        ("name", {}, "no column 'name'"),
        ("id", {"public": [], "neighbors": "add_remove"}, "not public"),
    ],
)
def test_a_private_column_is_no_key(keys, terms, said):
    """Only what is declared public may travel; nothing is charged."""
    alice = party({"x": np.zeros(20), "id": list(range(20))}, **terms)

    with pytest.raises(dp.SchemaError, match=said):
        alice.dcor_message("x", keys=keys, epsilon=1)
    assert 0 == alice.budget.spent


# Parts of tables


def split(n=40, seed=5):
    """Two tables of one study, whose arms are public, the second in another order."""
    mine, its = shuffled(n, seed=seed)
    for values in (mine, its):
        values["arm"] = ["a" if key % 4 else "b" for key in values["id"]]
    terms = {"categories": {"arm": ["a", "b"]}, "public": ["id", "arm"]}
    return party(mine, **terms), party(its, **terms)


def test_parts_that_public_columns_select_go_together():
    """The rows of a public `where` have a public number and public keys; parts meet by them, as message or view."""
    alice, bob = split()
    part, its = alice.where(arm="a"), bob.where(arm="a")
    message = part.dcor_message("x", keys="id", epsilon=3)

    found = its.dcor_with(message, "y", keys="id", epsilon=1)
    again = its.dcor_with(part, "y", asked=ASKED, keys="id", epsilon=1)

    assert 30 == message.rows == found.rows
    assert {key % 4 == 0 for key in message.keys} == {False}
    assert again.privacy.replayed
    assert (3, 1) == (alice.budget.spent, bob.budget.spent)


def test_a_whole_table_and_a_part_do_not_go_together():
    """Their numbers of rows are compared as they are, and neither account is charged."""
    alice, bob = split()

    for one, other in ((bob, alice.where(arm="a")), (bob.where(arm="a"), alice)):
        with pytest.raises(dp.ArgumentError, match="30"):
            one.dcor_with(other, "y", asked={"columns": "x", "epsilon": 1}, epsilon=1)
    assert (0, 0) == (alice.budget.spent, bob.budget.spent)


def test_a_part_of_private_size_has_no_message():
    """Which rows a private condition selects is private, so neither message nor key can be had of them."""
    alice, bob = split()

    with pytest.raises(dp.ArgumentError, match="public number of rows"):
        bob.dcor_with(alice.where(x=(0, 1)), "y", asked=ASKED, keys="id", epsilon=1)
    with pytest.raises(dp.ArgumentError, match="public number of rows"):
        bob.where(y=(0, 1)).dcor_with(alice, "y", asked=ASKED, keys="id", epsilon=1)
    assert (0, 0) == (alice.budget.spent, bob.budget.spent)


def test_a_key_column_is_no_candidate():
    """Screening looks through columns with bounds or categories, and a key has neither."""
    view = party({"x": np.zeros(20), "y": np.zeros(20), "id": list(range(20))})

    assert ("x",) == view.dcor_screen("y", top=1, epsilon=1).candidates
