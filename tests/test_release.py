"""Releases: a trip through JSON, a row of a frame, a table in a notebook, a picture."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import dfprivacy as dp
from dfprivacy._plugins.loader import registry
from dfprivacy.release import ConfidenceInterval, Groups, MeasurementRecord, Privacy, Release, Value

pytestmark = pytest.mark.pandas

NOISE = MeasurementRecord("the sum of x", "discrete Laplace", 2.0, 40, 2.0, 1.0, 0.0)
PAID = Privacy(1.0, 1e-6, "replace_one", (NOISE, NOISE), "clinic", "mean (p 1)", "2024-01-01T00:00:00+00:00", "OS")
PLAIN = Value(value=1, privacy=PAID).to_dict()["privacy"]
INTERVAL = ConfidenceInterval(-math.inf, 1.5)


@dataclass(frozen=True, kw_only=True, repr=False)
class Everything(Release):
    number: float = 0.5
    count: int = 3
    text: str = "<b>text</b>"
    flag: bool = True
    nothing: Any = None
    infinite: float = math.inf
    unknown: float = math.nan
    interval: ConfidenceInterval = INTERVAL
    groups: tuple[Any, ...] = ("a", 1, None, (2.5, math.nan))
    empty: tuple[Any, ...] = ()
    words: Any = ("x",)
    table: Any = None
    inner: Any = None


def through_json(release):
    return Release.from_dict(json.loads(json.dumps(release.to_dict(), allow_nan=False)))


def same(a, b):
    """Equality that knows NaN and arrays, and tells a tuple from a list."""
    if isinstance(a, np.ndarray):
        return (
            isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        )
    if isinstance(a, Release):
        return type(a) is type(b) and a.privacy == b.privacy and same(a.result, b.result)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))  # noqa: PLR0124 - NaN


RELEASES = pytest.mark.parametrize(
    "release",
    [
        Everything(),
        Everything(privacy=PAID),
        Everything(table=np.array([[1.5, np.nan], [-np.inf, 0]])),
        Everything(table={"a": {"b": [1, 2.5, None, (3,)]}}),
        Everything(inner=Value(value=1.5)),
        Value(value=np.arange(6, dtype=np.int32).reshape(2, 3)),
        Value(value=np.array([], dtype=np.float32)),
        Value(value=np.zeros((2, 0, 3))),
        Value(value=np.array([True, False])),
        Value(value=np.array(["a", "bcd"])),
        Value(value={}),
        Value(value=[]),
        Groups(by="g", groups=(1, "x", True), releases=(Everything(), Value(value=2), Value(value=()))),
        Groups(by="g", groups=(), releases=()),
        Groups(
            by="g", groups=("a",), releases=(Groups(by="h", groups=(1.5,), releases=(Everything(),)),), privacy=PAID
        ),
    ],
)


@RELEASES
def test_a_release_survives_json(release):
    """Every kind of value comes back as it was, strict JSON in between."""
    again = through_json(release)

    assert same(release, again)
    assert json.dumps(release.to_dict()) == json.dumps(again.to_dict())


@RELEASES
def test_a_release_equals_what_says_the_same(release):
    """Equal is what has the same result, whatever was paid for it; equal releases have one hash."""
    again = through_json(replace(release, privacy=None, library="polars"))

    assert release == again
    assert len({release, again, Value(value="another")}) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Value(value=1.5), Value(value=1.5000000000000002)),
        (Value(value=1), Everything(number=1)),
        (Value(value=np.array([1.0, 2.0])), Value(value=np.array([1.0, 3.0]))),
        (Value(value=np.zeros((2, 3))), Value(value=np.zeros((3, 2)))),
        (Value(value={"a": np.zeros(2)}), Value(value={"a": np.ones(2)})),
        (Everything(), Everything(table=np.array([0.0]))),
        (
            Groups(by="g", groups=(1,), releases=(Value(value=2),)),
            Groups(by="g", groups=(1,), releases=(Value(value=3),)),
        ),
        (Value(value=1), 1),
    ],
)
def test_releases_with_different_numbers_differ(one, other):
    """Every number and array counts."""
    assert one != other
    assert one == replace(one)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.fractions()
    | st.decimals(allow_nan=False)
    | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text().filter(lambda key: not key.startswith("$")), inner)
        | st.builds(ConfidenceInterval, inner, inner)
        | arrays.arrays(np.float64, arrays.array_shapes(max_dims=3, max_side=3))
    ),
)


@pytest.mark.pandas(False)
@given(plain)
def test_whatever_a_plugin_returns_survives_json(value):
    """Numbers, texts, lists, tuples, dictionaries, intervals and arrays, however they are nested."""
    assert same(Value(value=value), through_json(Value(value=value)))


@pytest.mark.parametrize(
    "thousands", [lambda: 10**5000, lambda: Fraction(10**5000, 3), lambda: [Fraction(3, 10**5000)]]
)
def test_a_number_of_thousands_of_digits_is_refused(thousands):
    """Python writes no more than 4,300 digits; what is longer is refused like what JSON has no word for."""
    with pytest.raises(TypeError):
        Value(value=thousands()).to_dict()


def test_numpy_scalars_become_plain_numbers():
    """A NumPy scalar is written as the number it is."""
    release = Value(value=[np.float64(0.5), np.int8(3), np.bool_(True), np.str_("x"), np.float32("nan")])

    assert same([0.5, 3, True, "x", math.nan], through_json(release).value)


@pytest.mark.parametrize(
    "value",
    [{1, 2}, 1j, object(), b"x", {1: 2}, {"$float": "nan"}, {"a": {"$tuple": []}}, np.array([object()])],
)
def test_what_json_has_no_word_for_is_refused(value):
    """Nothing is kept that would not come back as it was."""
    with pytest.raises(TypeError):
        Value(value=value).to_dict()


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"type": None},
        {"type": "nonsense"},
        {"type": "no.such.module:Thing"},
        {"type": "dfprivacy.release:Nothing"},
        {"type": "os:system", "command": "true"},
        {"type": "dfprivacy.release:Privacy"},
        {"type": "dfprivacy.release:Value"},
        {"type": "dfprivacy.release:Value", "value": 1, "other": 2},
        {"type": "dfprivacy.release:Value", "value": 1, "privacy": {"epsilon": 1}},
        {"type": "dfprivacy.release:Value", "value": 1, "privacy": {"noise": [{"what": 1}]}},
        {"type": "dfprivacy.release:Value", "value": 1, "privacy": 5},
        {"type": "dfprivacy.release:Value", "value": 1, "privacy": {"noise": 5}},
        {"type": "dfprivacy.release:Value", "value": 1, "privacy": {**PLAIN, "epsilon": "much"}},
        {
            "type": "dfprivacy.release:Value",
            "value": 1,
            "privacy": {**PLAIN, "noise": [{**PLAIN["noise"][0], "grid": "x"}]},
        },
        {"type": "dfprivacy.release:Value", "value": 1, "library": "os"},
        {"type": "dfprivacy.release:Value", "value": {"$release": 5}},
        {"type": "dfprivacy.release:Value", "value": {"$interval": [1]}},
        {"type": ["dfprivacy.release:Value"]},
        {"type": "dfprivacy.release:Value", "value": {"$array": [1, 2], "shape": [3], "dtype": "<f8"}},
    ],
)
def test_what_is_no_release_of_ours_is_refused(stored):
    """A stored release whose class or fields are not those installed is an error with a way out."""
    with pytest.raises(dp.ArgumentError, match="Install"):
        Release.from_dict(stored)


def test_reading_imports_nothing(tmp_path, monkeypatch):
    """A text that names a module does not make Python run it."""
    (tmp_path / "planted.py").write_text("from dfprivacy.release import Value as Planted\nran = True\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(dp.ArgumentError, match="Install"):
        Release.from_dict({"type": "planted:Planted", "value": 1})
    assert "planted" not in sys.modules


REDRAWS = """
import json, sys
from dfprivacy.release import Release
assert not any(name.startswith("dfprivacy_") for name in sys.modules)
for kind in json.loads(sys.argv[1]):
    try:
        Release.from_dict({"type": kind})
    except Exception as error:
        assert "does not have the fields" in str(error), (kind, error)
"""


@pytest.mark.pandas(False)
def test_installed_plugins_make_their_releases_known():
    """In a new process a kept answer of any bundled method is read: its plugin is found by its entry point."""
    registry()
    kinds = [f"{kind.__module__}:{kind.__qualname__}" for kind in every_kind(Release)]
    bundled = [kind for kind in kinds if kind.startswith("dfprivacy_") and "typical" not in kind]

    run = subprocess.run(
        [sys.executable, "-c", REDRAWS, json.dumps(bundled)], check=False, capture_output=True, text=True
    )
    assert len(bundled) > 10
    assert (0, "") == (run.returncode, run.stderr)


def every_kind(cls):
    return [each for direct in cls.__subclasses__() for each in (direct, *every_kind(direct))]


def test_a_release_survives_pickle():
    """A release can be sent to another process."""
    release = Everything(privacy=PAID)

    assert same(release, pickle.loads(pickle.dumps(release)))  # noqa: S301


def test_a_release_is_frozen():
    """What was released does not change."""
    with pytest.raises(AttributeError):
        Everything().number = 2


# Frames


@pytest.mark.parametrize(("library", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_a_release_is_one_row(library, kind):
    """One row holds the fields that fit in a cell; the others are attributes."""
    frame = Everything(privacy=PAID, table=np.ones(2)).to_frame(library)

    assert isinstance(frame, kind)
    assert (1, 8) == frame.shape
    assert ["number", "count", "text", "flag", "nothing", "infinite", "unknown", "inner"] == list(frame.columns)
    assert 0.5 == frame["number"][0]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_real_test_is_one_row(library):
    """The t-test's release, the row that people ask for most, has its names as columns."""
    view = protect()

    frame = view.ttest("age", popmean=30, epsilon=0.5).to_frame(library)

    assert 1 == len(frame)
    assert {"term", "estimate", "statistic", "pvalue", "df", "low", "high", "n"} <= set(frame.columns)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_groups_are_one_row_each(library):
    """Groups become one row each, with the group in the first column."""
    groups = Groups(by="g", groups=("a", "b"), releases=(Value(value=1.5), Value(value=2.5)), privacy=PAID)

    frame = groups.to_frame(library)

    assert ["g", "value"] == list(frame.columns)
    assert (["a", "b"], [1.5, 2.5]) == (list(frame["g"]), list(frame["value"]))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_groups_of_mixed_kinds_become_rows(library):
    """Categories may be numbers and texts at once, which Polars keeps as text."""
    groups = Groups(by="g", groups=(1, "b", True), releases=tuple(Value(value=v) for v in (None, 2, 2.5)))

    frame = groups.to_frame(library)

    assert ["1", "b"] == [str(key) for key in frame["g"]][:2]
    assert 2.5 == frame["value"][2]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(
    ("value", "rows"),
    [
        ((1.5, (2.0, None)), [("value[0]", 1.5), ("value[1][0]", 2.0), ("value[1][1]", None)]),
        (np.eye(2), [("value[0, 0]", 1), ("value[0, 1]", 0), ("value[1, 0]", 0), ("value[1, 1]", 1)]),
        ({"map": [1, 2.5], "x": 3}, [("value.map[0]", 1), ("value.map[1]", 2.5), ("value.x", 3)]),
    ],
)
def test_what_fits_in_no_cell_is_a_row_each(library, value, rows):
    """Of what is nested, every number has a row, with its place."""
    frame = Value(value=value).to_frame(library)

    terms, values = (
        frame[name].to_pylist() if library == "pyarrow" else list(frame[name]) for name in ("term", "value")
    )
    assert [term for term, _ in rows] == terms
    assert [number for _, number in rows] == [None if each != each else each for each in values]  # noqa: PLR0124


def test_a_release_within_a_release_is_rows_too():
    """What it states has its place before it."""
    assert [{"term": "value[0].value", "value": 1}, {"term": "value[1].value", "value": 2.5}] == Value(
        value=(Value(value=1), Value(value=2.5))
    ).records()


@pytest.mark.parametrize("module", ["dfprivacy.release", "dfprivacy", "dfprivacy.once.upon_a_time"])
def test_a_class_that_has_moved_is_found(module):
    """A ledger keeps answers longer than modules keep their names."""
    assert Release.from_dict({"type": f"{module}:Value", "value": 1}) == Value(value=1)


@pytest.mark.parametrize(
    ("library", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)]
)
def test_a_frame_is_of_the_library_that_was_asked(library, kind):
    """Unless another is named, it is that of the table; a column of Arrow has one type."""
    one = Value(value=1.5).with_library(library)
    groups = Groups(by="g", groups=(1, "b"), releases=(one, one)).with_library(library)

    assert isinstance(one.to_frame(), kind)
    assert isinstance(groups.to_frame(), kind)
    assert isinstance(groups.to_frame("pandas"), pd.DataFrame)


def test_an_unknown_library_is_refused():
    """Frames are made by pandas, Polars or Arrow."""
    with pytest.raises(dp.ArgumentError, match='Use "pandas", "polars" or "pyarrow"'):
        Value(value=1).to_frame("excel")


# Groups


def test_groups_are_found_by_their_key():
    """A group's release is found by the group, and what is no group is refused with the groups there are."""
    groups = Groups(by="g", groups=("a", 2), releases=(Value(value=1.5), Value(value=2.5)))

    assert (1.5, 2.5) == (groups["a"].value, groups[2].value)
    with pytest.raises(dp.ArgumentError, match=r"no such group of 'g'.*The groups are \['a', 2\]"):
        groups["c"]


# Text


def test_a_release_shows_its_fields_and_its_guarantee():
    """The repr is a sentence, a line for each field that has something to say, and what is guaranteed."""
    shown = repr(Everything(privacy=PAID, table=np.array([0.5, 0.25])))

    assert shown.splitlines() == [
        "This Everything gives number 0.5.",
        "Everything",
        "  number    0.5",
        "  count     3",
        "  text      <b>text</b>",
        "  flag      True",
        "  infinite  inf",
        "  unknown   nan",
        "  interval  -inf, 1.5",
        "  groups    a, 1, None, 2.5, nan",
        "  words     x",
        "  table     [0.5  0.25]",
        "  (1, 1e-06)-differential privacy for tables that differ in the content of one row",
    ]


def test_sentences_are_shown_as_sentences():
    """Notes follow each other without commas; other lists have them."""
    shown = repr(Everything(groups=("a", 1.5), words=("Few rows.", "Much noise.")))

    assert "a, 1.5" in shown
    assert "Few rows. Much noise." in shown


def test_groups_are_a_table():
    """The repr of groups is a sentence, and a row for each, whose columns are what is said of one."""
    groups = Groups(by="g", groups=("a", "bb"), releases=(Value(value=1.5), Value(value=2.5)))

    said, *lines = repr(groups).splitlines()
    assert said == "2 groups of g, an answer each; a: this Value gives value 1.5."
    assert lines == ["Groups", "  g   value", "  a     1.5", "  bb    2.5"]


def test_groups_are_gone_through_like_a_dictionary():
    """Keys come in order, items are pairs, and a key is in it."""
    groups = Groups(by="g", groups=("a", "b"), releases=(Value(value=1.5), Value(value=2.5)))

    assert [*groups] == ["a", "b"]
    assert [(key, release.value) for key, release in groups.items()] == [("a", 1.5), ("b", 2.5)]
    assert len(groups) == 2
    assert "b" in groups
    assert "c" not in groups


QUESTION = replace(PAID, question="mean('a_b')", where=("sex = m", "age from 18 to 30"))


def test_what_was_asked_is_shown_and_kept():
    """The repr says the question and its rows, in sentence and title, and a trip through JSON keeps both."""
    release = Value(value=1.5, privacy=QUESTION)
    again = Release.from_json(release.to_json(indent=1))

    assert repr(release).splitlines()[:2] == [
        "Where sex = m and age from 18 to 30: mean('a_b') gives value 1.5.",
        "Value: mean('a_b') of 'clinic', where sex = m and age from 18 to 30",
    ]
    assert again == release
    assert again.privacy == QUESTION


def test_what_an_older_version_kept_has_no_question():
    """An answer of a version that did not keep its question is read, and shown by its class."""
    plain = Value(value=1.5, privacy=PAID).to_dict()
    for name in ("question", "where"):
        del plain["privacy"][name]

    assert repr(Release.from_dict(plain)).splitlines()[:2] == ["This Value gives value 1.5.", "Value"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", None, "[" * 100_000])
def test_what_is_no_release_is_refused(text):
    """Neither text that is no JSON nor JSON that is no release becomes one."""
    with pytest.raises(dp.errors.ArgumentError):
        Release.from_json(text)


def test_a_summary_stands_between_rules():
    """Title, rule, sentence, facts, rule, guarantee; and a prompt shows the lines as they are."""
    text = Value(value=1.5, privacy=QUESTION).summary()
    title, rule, said, blank, fact, same, *paid = text.splitlines()

    assert "mean('a_b')" in title
    assert rule == same == "=" * len(rule)
    assert said == "Where sex = m and age from 18 to 30: mean('a_b') gives value 1.5."
    assert (blank, fact) == ("", "value  1.5")
    assert " ".join(paid) == QUESTION.guarantee
    assert repr(text) == str(text)


def test_markdown_is_a_table_of_its_own():
    """Bars within cells are escaped, and numbers stand to the right."""
    groups = Groups(by="g|h", groups=("a", "b"), releases=(Value(value=1.5), Value(value=2.5)), privacy=QUESTION)

    said, title, table, paid = groups.to_markdown().split("\n\n")

    assert said == (
        r"Where sex = m and age from 18 to 30: 2 groups of g\|h, an answer each; a: this Value gives value 1.5."
    )
    assert title.startswith("**Groups: mean('a_b')")
    assert table.splitlines() == [r"| g\|h | value |", "| --- | ---: |", "| a | 1.5 |", "| b | 2.5 |"]
    assert paid == QUESTION.guarantee


def test_latex_is_set_as_it_is():
    """Underscores and the like are escaped, and what begins ends."""
    text = Value(value="50% of a_b & c", privacy=QUESTION).to_latex()

    assert r"\caption{Value: mean('a\_b') of 'clinic'" in text
    assert r"value & 50\% of a\_b \& c \\" in text
    assert text.count(r"\begin") == text.count(r"\end") == 2


def test_html_is_escaped():
    """Field values and guarantees are text, not markup."""
    release = Everything(words=("<script>",), privacy=replace(PAID, at="<i>", replayed=True))

    shown = release._repr_html_()

    assert "<b>text" not in shown
    assert "<script>" not in shown
    assert "<i>" not in shown
    assert "&lt;b&gt;text&lt;/b&gt;" in shown
    assert shown.startswith("<div ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "(1, 1e-06)-differential privacy for tables that differ in the content of one row"),
        (
            {"delta": 0.0, "neighbors": "add_remove"},
            "1-differential privacy for tables that differ by one row more or less",
        ),
        ({"private": False}, "NOT PRIVATE: the noise came from a test-only sampler"),
    ],
)
def test_the_guarantee_in_words(changes, words):
    """The guarantee names the price and the relation, or says that there is none."""
    assert words == replace(PAID, **changes).guarantee


def test_a_replay_says_so():
    """A replayed answer shows its date and that it was free."""
    assert str(replace(PAID, replayed=True)).endswith(f", answered on {PAID.at} and replayed at no charge")


# Pictures


def protect(**terms):
    df = pd.DataFrame({"age": [31.0, 45.0, 28.0, 52.0] * 50, "g": ["a", "b"] * 100})
    said = {"epsilon": 10, "bounds": {"age": (18, 90)}, "categories": {"g": ["a", "b"]}}
    return dp.protect(df, "clinic", **{**said, **terms})


@pytest.fixture
def plt(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield pyplot
    pyplot.close("all")


@pytest.mark.parametrize(
    ("asked", "null"), [({"popmean": 30}, 30.0), ({"by": "g"}, 0.0), ({"popmean": 30, "alternative": "less"}, 30.0)]
)
def test_a_picture_shows_estimate_interval_and_noise(plt, asked, null):
    """A test's picture has the estimate, the interval, the part of it that is sampling alone, and the null."""
    test = protect().ttest("age", epsilon=2, **asked)

    ax = test.plot()

    lines = {line.get_label(): np.asarray(line.get_xdata(), dtype=float) for line in ax.get_lines()}
    interval, sampling = lines["95% interval, noise included"], lines["of it from sampling"]
    assert {"estimate", "null hypothesis"} < set(lines)
    assert test.estimate == lines["estimate"][0]
    assert null == lines["null hypothesis"][0]
    assert np.isfinite(interval).all()
    assert interval[0] <= sampling[0] <= test.estimate <= sampling[1] <= interval[1]
    assert sampling[1] - sampling[0] < interval[1] - interval[0]
    assert f"p = {test.pvalue:.3g}" == ax.get_title()
    ax.figure.canvas.draw()


def test_a_picture_can_be_drawn_into_others(plt):
    """Given axes are drawn on, and given back."""
    _, ax = plt.subplots()

    assert protect().ttest("age", popmean=30, epsilon=1).plot(ax) is ax


def test_groups_are_drawn_as_one_forest(plt):
    """Each group has a line along its interval and a dot at its estimate, the first on top."""
    groups = protect().group_by("g").ttest("age", popmean=30, epsilon=1)

    ax = groups.plot()

    lines = ax.get_lines()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    drawn = [list(line.get_xdata()) for line in lines if len(line.get_xdata())]  # others are for the legend
    assert [[each.low, each.high] for _, each in groups.items()] == drawn[::3]
    assert [each.estimate for _, each in groups.items()] == [dot for (dot,) in drawn[2::3]]
    for whole, inner in zip(drawn[::3], drawn[1::3], strict=True):  # the part that is there without the noise
        assert whole[0] < inner[0] < inner[1] < whole[1]
    assert "of it from sampling" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert ax.yaxis_inverted()
    assert ax.get_xlabel() == "age"


def test_groups_of_pictures_are_drawn_below_each_other_on_one_scale(plt):
    """Where a release has a picture of its own each group has a panel, with its name."""
    groups = protect().group_by("g").histogram("age", 4, epsilon=1)

    panels = groups.plot().child_axes

    assert ["a", "b"] == [panel.get_title(loc="right") for panel in panels]
    assert 1 == len({panel.get_ylim() for panel in panels})
    assert [panel.get_legend() is not None for panel in panels] == [True, False]


def test_what_cannot_be_looked_at_says_so():
    """A release without a picture names what there is instead."""
    with pytest.raises(dp.ArgumentError, match=r"A Value has no picture.*Use to_frame"):
        Value(value=1).plot()


@pytest.mark.pandas(False)
def test_a_missing_library_is_named_with_its_extra():
    """Where an optional library is not installed, the error says how to get it, and is an ImportError."""
    script = """
    import sys
    import polars as pl, dfprivacy as dp
    df = pl.DataFrame({"age": [31.0, 45.0] * 50})
    test = df.dp.protect("m", epsilon=1, bounds={"age": (18, 90)}).ttest("age", popmean=30, epsilon=1)
    for missing, call in ("matplotlib", test.plot), ("pandas", lambda: test.to_frame("pandas")):
        assert missing not in sys.modules
        sys.modules[missing] = None  # as if it were not installed
        try:
            call()
        except dp.MissingDependency as error:
            assert isinstance(error, ImportError) and missing in str(error)
            print(str(error).replace(chr(10), " "))
    """

    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)], check=False, capture_output=True, text=True
    )

    hints = 'pip install "dfprivacy[plot]"', 'pip install "dfprivacy[pandas]"'
    assert "" == run.stderr
    assert [True, True] == [hint in line for hint, line in zip(hints, run.stdout.splitlines(), strict=True)]
