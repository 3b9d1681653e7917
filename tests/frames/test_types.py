"""Tables that differ in one value are treated alike, whichever type their library gives the column for it."""

# ruff: noqa: DTZ001 - stamps without a time zone are among what is tested

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dfprivacy as dp

pytestmark = pytest.mark.pandas

NAMES = (f"types-{number:06}" for number in itertools.count())
TOKYO = dt.timezone(dt.timedelta(hours=9))
STAMP = dt.datetime(2020, 1, 1, 6, 0, 0, 123_457)
AT = 2  # the row in which neighbours differ

COLUMNS = {
    "booleans": [True, False, True, False, False, True],
    "integers": [1, 2, 3, 1, 2, 7],
    "large integers": [2**53 + 1, -(2**53) - 3, 5, 2**62 + 1, 7, 2**53],
    "floats": [1.0, 0.1, 2.5, 1e300, 7.0, -0.0],
    "digits": ["1", "2", "7", "1", "1.5", "7"],
    "words": ["a", "b", "a", "n/a", "b", "a"],
    "stamps": [STAMP, dt.datetime(1969, 7, 20, 20, 17), STAMP, dt.datetime(2020, 1, 1), STAMP, STAMP],
    "aware stamps": [STAMP.replace(tzinfo=TOKYO)] * 6,
    "dates": [dt.date(2020, 1, 1), dt.date(1969, 7, 20), dt.date(1970, 1, 8), *[dt.date(2020, 1, 1)] * 3],
    "decimals": [Decimal(text) for text in ("0.1", "7", "1.50", "-3.3", "12345.12345678", "2.675")],
    "spans": [dt.timedelta(1)] * 6,
    "nothing": [None] * 6,
}


def objects(values):
    return pd.DataFrame({"x": pd.Series(values, dtype=object)})


def tried(make, otherwise=lambda _: None):
    """Make a frame as `make` does; otherwise if the library cannot hold the values so."""

    def frame(values):
        try:
            return make(values)
        except Exception:  # noqa: BLE001 - libraries refuse values with all kinds of errors
            return otherwise(values)

    return frame


plain = tried(lambda values: pd.DataFrame({"x": values}), objects)
polars = tried(
    lambda values: pl.DataFrame({"x": values}),
    lambda values: pl.DataFrame({"x": pl.Series(values, dtype=pl.Object)}),
)
ENGINES = {
    "pandas": plain,
    "categorical": tried(lambda values: pd.DataFrame({"x": pd.Categorical(values)})),
    "nullable": tried(lambda values: objects(values).convert_dtypes()),
    "pyarrow": tried(lambda values: objects(values).convert_dtypes(dtype_backend="pyarrow")),
    "polars": polars,
    "polars lazy": lambda values: polars(values).lazy(),
    "arrow": tried(lambda values: pa.table({"x": values})),
}


# ---- what is asked, refused and shown --------------------------------------------------------------------

PAIRS = {
    "a missing boolean": ("pandas", "booleans", None),
    "a text among booleans": ("nullable", "booleans", "n/a"),
    "a number among texts": ("pandas", "digits", 7),
    "a text among numbers": ("pandas", "floats", "n/a"),
    "a missing integer": ("pandas", "integers", None),
    "a huge integer": ("pandas", "integers", 2**70),
    "no date among dates": ("pandas", "stamps", "?"),
    "a category of the data": ("categorical", "words", 7),
    "one value at all": ("pandas", "nothing", True),
    "one boolean at all": ("polars", "nothing", True),
    "one text at all": ("polars lazy", "nothing", "a"),
    "an object": ("polars", "booleans", "n/a"),
    "one date at all": ("arrow", "nothing", STAMP),
    "bytes among texts": ("arrow", "words", b"a"),
    "one number in Arrow": ("pyarrow", "nothing", 7),
}
SAID = {
    "nothing": {}, "bounds": {"bounds": {"x": (0, 4)}}, "categories": {"categories": {"x": [False, True]}},
    "texts": {"categories": {"x": ["a", "b"]}, "missing": {"x": "other"}},
    "both": {"bounds": {"x": (0, 1)}, "categories": {"x": [False, True]}, "missing": {"x": 0}},
    "what cannot be": {"bounds": {"x": (1, 0)}}, "no fill": {"missing": {"x": 1}},
}  # fmt: skip
QUESTIONS = {
    "ttest": lambda view: view.ttest("x", popmean=1, epsilon=1),
    "groups": lambda view: view.ttest("y", by="x", epsilon=1),
    "chi2": lambda view: view.chi2("x", "arm", epsilon=1),
    "moments": lambda view: view.moments(["x", "y"], epsilon=1),
    "kme_release": lambda view: view.kme_release(["x"], lengthscale=1.0, epsilon=1),
    "group_by": lambda view: view.group_by("x").ttest("y", epsilon=1),
    "where": lambda view: view.where(x=(0, 1)).ttest("y", epsilon=1),
    "where a category": lambda view: view.where(x=True).ttest("y", epsilon=1),
    "where a function": lambda view: view.where(lambda row: row["x"] > 0).ttest("y", epsilon=1),
    "explain": lambda view: view.explain("moments", ["x"], epsilon=1),
    "every column": lambda view: view.dcor_screen("y", top=1, epsilon=1),
}


def with_more_columns(frame):
    """Repeat 6 rows ten times, and add a number, and groups that are public."""
    y, arm = np.linspace(0, 1, 60), ["a", "b"] * 30
    if isinstance(frame, pd.DataFrame):
        return pd.concat([frame] * 10, ignore_index=True).assign(y=y, arm=arm)
    if isinstance(frame, pa.Table):
        return pa.concat_tables([frame] * 10).append_column("y", pa.array(y)).append_column("arm", pa.array(arm))
    return pl.concat([frame] * 10).with_columns(pl.Series("y", y), pl.Series("arm", arm))


def outcome(work, name):
    """What comes out, as far as it may not depend on a row: the type of a release, or an error in full."""
    try:
        found = work()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return type(error).__name__, str(error).replace(name, "NAME")
    return type(found).__name__, repr(found).replace(name, "NAME") if isinstance(found, dp.PrivateFrame) else ""


def story(frame, said):
    """All that is shown of a table without a look at a row's values, and how every question ends."""
    name = next(NAMES)
    terms = {
        "epsilon": 1000,
        "ledger": "memory:",
        "public": ["arm"],
        "bounds": {"y": (0, 1), **said.get("bounds", {})},
        "categories": {"arm": ["a", "b"], **said.get("categories", {})},
        "missing": said.get("missing"),
    }
    made = []
    told = [outcome(lambda: made.append(dp.protect(frame, name, **terms)) or made[0], name)]
    if made:
        (view,) = made
        told += [outcome(lambda ask=ask: ask(view), name) for ask in QUESTIONS.values()]
        told += [repr(view.schema), str(view.budget.spent), [type(release).__name__ for release in view.releases]]
    return told


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("pair", "said"), [(pair, [*SAID][(at + step) % 7]) for at, pair in enumerate(PAIRS) for step in (0, 3)]
)
def test_neighbours_are_asked_alike(pair, said):
    """Neighbouring tables have one schema, look the same, and answer or refuse the same in the same words."""
    engine, values, value = PAIRS[pair]
    column = COLUMNS[values]
    table, neighbour = (
        with_more_columns(ENGINES[engine](each)) for each in (column, [*column[:AT], value, *column[AT + 1 :]])
    )

    assert story(table, SAID[said]) == story(neighbour, SAID[said])
