"""``df.dp`` on pandas and Polars frames: found by the frame itself, stateless, and harmless to look at."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import copy
import gc
import inspect
import json
import pickle
import rlcompleter
import subprocess
import sys
import textwrap
import traceback
import weakref

import pandas as pd
import polars as pl
import pytest

import dfprivacy as dp
from dfprivacy._plugins.loader import registry

pytestmark = pytest.mark.pandas

DATA = {"age": [31.0, 45.0, 28.0, 52.0] * 50}
TERMS = {"epsilon": 1, "bounds": {"age": (18, 90)}}
every_frame = pytest.mark.parametrize("constructor", ["pandas", "polars", "polars-lazy"], indirect=True)
PROBES = (
    "_repr_html_",
    "_repr_mimebundle_",
    "_ipython_display_",
    "_ipython_canary_method_should_not_exist_",
    "__len__",
)


def python(script, *options):
    """Run a script in a process of its own; what it prints, as JSON."""
    run = subprocess.run(
        [sys.executable, "-W", "error", *options, "-c", textwrap.dedent(script)],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@every_frame
def test_the_same_frame_gives_the_same_view(constructor):
    """A frame object finds the view that it was protected with."""
    df = constructor(DATA)

    view = df.dp.protect("members", **TERMS)

    assert df.dp.view is view
    assert view.budget.remaining == df.dp.budget.remaining == 1


@every_frame
def test_a_view_that_nobody_held_is_made_again(constructor):
    """The view need not be kept: the frame alone finds its account, terms and rows again."""
    df = constructor(DATA)
    df.dp.protect("members", **TERMS, default_epsilon="1/4")
    gc.collect()

    released = df.dp.ttest("age", popmean=30)

    assert 0.25 == released.privacy.epsilon
    assert (18, 90) == df.dp.schema.columns["age"].bounds


@every_frame
def test_the_accessor_keeps_no_state(constructor):
    """Every access makes another accessor, and leaves nothing on the frame."""
    df = constructor(DATA)
    before = set(vars(df))

    df.dp.protect("members", **TERMS)

    assert df.dp is not df.dp
    assert before == set(vars(df))


DERIVED = {
    "pandas-mask": (pd.DataFrame, lambda df: df[df["age"] > 30]),
    "pandas-copy": (pd.DataFrame, lambda df: df.copy()),
    "pandas-shallow": (pd.DataFrame, copy.copy),
    "pandas-head": (pd.DataFrame, lambda df: df.head()),
    "pandas-assign": (pd.DataFrame, lambda df: df.assign(b=1)),
    "pandas-concat": (pd.DataFrame, lambda df: pd.concat([df, df])),
    "pandas-pickle": (pd.DataFrame, lambda df: pickle.loads(pickle.dumps(df))),  # noqa: S301
    "polars-filter": (pl.DataFrame, lambda df: df.filter(pl.col("age") > 30)),
    "polars-clone": (pl.DataFrame, lambda df: df.clone()),
    "polars-copy": (pl.DataFrame, copy.copy),
    "polars-lazy": (pl.DataFrame, lambda df: df.lazy()),
    "polars-select": (pl.DataFrame, lambda df: df.select("age")),
    "lazy-filter": (pl.LazyFrame, lambda df: df.filter(pl.col("age") > 30)),
    "lazy-collect": (pl.LazyFrame, lambda df: df.collect()),
}


@pytest.mark.parametrize("case", DERIVED)
def test_what_is_derived_from_a_protected_frame_is_not_protected(case):
    """A derived frame is another frame: it says so, and names the way out."""
    make, derive = DERIVED[case]
    df = make(DATA)
    df.dp.protect("members", **TERMS)
    derived = derive(df)

    with pytest.raises(dp.NotProtected, match=r"no private view.*Nothing was released or spent.*view\.where"):
        derived.dp.ttest("age", popmean=30, epsilon=0.1)

    assert df.dp.budget.spent == 0


@every_frame
@pytest.mark.parametrize("name", ["view", "ttest", "budget", "releases", "anything", *PROBES])
def test_probing_an_unprotected_frame_never_fails(constructor, name):
    """`hasattr` and `getattr` with a default work, as notebooks and completers expect."""
    df = constructor(DATA)

    assert not hasattr(df.dp, name)
    assert "default" == getattr(df.dp, name, "default")


@every_frame
@pytest.mark.parametrize("name", ["anything", *PROBES])
def test_probing_a_protected_frame_never_fails(constructor, name, ledger):
    """What the view does not have, it says it does not have, and it costs nothing."""
    df = constructor(DATA)
    view = df.dp.protect("members", **TERMS)

    assert hasattr(view, name) == hasattr(df.dp, name) or name == "_repr_html_"
    assert view.budget.spent == 0


@every_frame
def test_looking_around_opens_no_ledger(constructor, ledger):
    """`dir`, `inspect` and `repr` of an unprotected frame touch neither ledger nor data."""
    df = constructor(DATA)

    assert "dp" in dir(df)
    assert {"protect", "view", "budget", "releases", "where", "select", "group_by", "explain"} <= set(dir(df.dp))
    assert set(registry().mechanisms) <= set(dir(df.dp))
    assert "protect" in dict(inspect.getmembers(df.dp))
    assert "no private view" in repr(df.dp)
    assert not ledger.exists()


def test_the_accessor_shows_all_that_a_view_has():
    """Every public attribute of a view is found by tab completion of ``df.dp``."""
    df = pd.DataFrame(DATA)
    view = df.dp.protect("members", **TERMS)

    missing = {name for name in dir(view) if not name.startswith("_")} - set(dir(df.dp))

    assert set() == missing


@every_frame
@pytest.mark.parametrize("protected", [False, True])
def test_tab_completion_finds_the_methods(constructor, protected):
    """The interpreter's completer works on every frame, protected or not."""
    df = constructor(DATA)
    if protected:
        df.dp.protect("members", **TERMS)
    completer = rlcompleter.Completer({"df": df})

    found = [completer.complete("df.dp.prot", state) for state in range(2)]

    assert found[0].startswith("df.dp.protect")
    assert found[1] is None
    assert completer.complete("df.dp.ttest", 0).startswith("df.dp.ttest")


def test_the_error_does_not_propose_another_method():
    """Python's own guess, a method that is there but as useless, is kept out of the text."""
    with pytest.raises(dp.NotProtected) as caught:
        pd.DataFrame({"a": [1]}).dp.ttest("a")

    text = traceback.format_exception(caught.value)[-1]
    assert "NotProtected: This frame has no private view" in text
    assert "Did you mean" not in text
    assert caught.value.obj is None  # from which Python guesses: some of its versions elsewhere than in this text


@every_frame
def test_no_reference_cycle_and_no_registry_keeps_a_frame_alive(constructor):
    """A frame is freed with its last name, without the garbage collector."""
    df = constructor(DATA)
    df.dp.protect("members", **TERMS).ttest("age", popmean=30, epsilon=0.5)
    repr(df.dp)
    alive = weakref.ref(df)
    gc.disable()
    try:
        del df

        assert alive() is None
    finally:
        gc.enable()


@every_frame
def test_a_view_keeps_its_frame_alive(constructor):
    """A temporary frame can be protected: its view holds it."""
    view = constructor(DATA).dp.protect("members", **TERMS)
    gc.collect()

    assert 0.5 == view.ttest("age", popmean=30, epsilon=0.5).privacy.epsilon


@every_frame
def test_a_reused_address_does_not_hand_a_view_to_another_frame(constructor):
    """A frame at the address of one that is gone is unprotected."""
    reused = False
    for _ in range(1000):
        df = constructor(DATA)
        df.dp.protect("members", **TERMS)
        address = id(df)
        del df
        other = constructor(DATA)
        reused |= id(other) == address
        assert not hasattr(other.dp, "view")
        if reused:
            break

    assert reused


@every_frame
def test_protecting_again_replaces_the_view(constructor):
    """A frame protected under a second name is seen under that name from then on."""
    df = constructor(DATA)
    df.dp.protect("first", **TERMS)

    df.dp.protect("second", **TERMS)

    assert "second" == df.dp.name


def test_a_column_named_dp_does_not_hide_the_accessor():
    """As with every accessor of pandas, the attribute wins over the column."""
    df = pd.DataFrame({"dp": [1.0, 2.0]})

    assert isinstance(df.dp, dp.accessor.Accessor)
    assert [1.0, 2.0] == df["dp"].tolist()


def test_the_class_has_the_accessor_itself():
    """On the class the attribute is the accessor's class, whose documentation tools show."""
    assert pd.DataFrame.dp is pl.DataFrame.dp is pl.LazyFrame.dp is dp.accessor.Accessor


HEAVY = (
    *("opendp", "scipy", "sqlalchemy", "matplotlib", "dfprivacy_ttest"),
    *("pandas", "polars", "pyarrow", "duckdb", "dask", "distributed", "pyspark"),
)
SLOW = "scipy.stats", "scipy.optimize", "scipy.spatial", "scipy.linalg", "scipy.sparse"


@pytest.mark.pandas(False)
def test_importing_dfprivacy_loads_nothing_heavy():
    """The import loads no dataframe library, no plugin and none of the large dependencies."""
    script = f"""
    import json, sys
    import dfprivacy
    print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
    """

    assert [] == python(script)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("pandas", "dfprivacy"),
        ("dfprivacy", "pandas"),
        pytest.param("polars", "dfprivacy", marks=pytest.mark.pandas(False)),
        pytest.param("dfprivacy", "polars", marks=pytest.mark.pandas(False)),
    ],
)
def test_one_library_is_used_without_the_other(first, second):
    """The accessor appears whichever is imported first, and a question loads no other, nor what is slow."""
    library = "pandas" if "pandas" in {first, second} else "polars"
    other = {"pandas": "polars", "polars": "pandas"}[library]
    script = f"""
    import json, sys
    import {first}
    import {second}
    df = {library}.DataFrame({DATA!r})
    view = df.dp.protect("members", epsilon=1, bounds={{"age": (18, 90)}}, ledger="memory:")
    released = df.dp.ttest("age", popmean=30, epsilon=1)
    repr(view), view._repr_html_(), released._repr_html_()
    print(json.dumps([released.privacy.epsilon, [name for name in {(other, *SLOW)!r} if name in sys.modules]]))
    """

    assert [1.0, []] == python(script)


def test_frames_exist_without_dfprivacy_seeing_them_being_imported():
    """The accessor is there for both libraries, whether they were imported before or after."""
    script = """
    import json
    import pandas
    import dfprivacy
    import polars
    frames = pandas.DataFrame(), polars.DataFrame(), polars.LazyFrame()
    print(json.dumps([type(frame.dp).__name__ for frame in frames]))
    """

    assert ["Accessor"] * 3 == python(script)
