"""Releases: through JSON, as rows of a frame, texts and pages, numbers that Python calculates with, pictures."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import csv
import io
import json
import math
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import dfprivacy as dp
from dfprivacy._plugins.loader import registry
from dfprivacy.release import ConfidenceInterval, Groups, MeasurementRecord, Privacy, Release, Value

pytestmark = pytest.mark.pandas

NOISE = MeasurementRecord("the sum of x", "discrete Laplace", 2.0, 40, 2.0, 1.0, 0.0)
PAID = Privacy(1.0, 1e-6, "replace_one", (NOISE, NOISE), "clinic", "mean (p 1)", "2024-01-01T00:00:00+00:00", "OS")
QUESTION = replace(PAID, question="mean('a_b')", where=("sex = m", "age from 18 to 30"))
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


def groups_of(*values, by="g", keys=("a", "b"), **more):
    return Groups(by=by, groups=keys, releases=tuple(Value(value=value) for value in values), **more)


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


# JSON

VALUES = [
    np.arange(6, dtype=np.int32).reshape(2, 3), np.array([], dtype=np.float32), np.zeros((2, 0, 3)),
    np.array([True, False]), np.array(["a", "bcd"]), {}, [],
]  # fmt: skip


@pytest.mark.parametrize("release", [
    Everything(privacy=PAID), Everything(table=np.array([[1.5, np.nan], [-np.inf, 0]])),
    Everything(table={"a": {"b": [1, 2.5, None, (3,)]}}), Everything(inner=Value(value=1.5)),
    *(Value(value=value) for value in VALUES), groups_of(2, (), 3, keys=(1, "x", True)),
    Groups(by="g", groups=(), releases=()),
    Groups(by="g", groups=("a",), releases=(groups_of(1, by="h", keys=(1.5,)),), privacy=PAID),
])  # fmt: skip
def test_a_release_survives_json(release):
    """Every value comes back as it was; what has the same result is equal, with one hash, whatever was paid."""
    again, other = through_json(release), through_json(replace(release, privacy=None, library="polars"))

    assert same(release, again)
    assert json.dumps(release.to_dict()) == json.dumps(again.to_dict())
    assert release == other
    assert len({release, other, Value(value="another")}) == 2
    with pytest.raises(AttributeError):
        release.privacy = None


@pytest.mark.parametrize(("one", "other"), [
    (Value(value=1.5), Value(value=1.5000000000000002)), (Value(value=1), Everything(number=1)),
    (Value(value=np.array([1.0, 2.0])), Value(value=np.array([1.0, 3.0]))),
    (Value(value=np.zeros((2, 3))), Value(value=np.zeros((3, 2)))),
    (Value(value={"a": np.zeros(2)}), Value(value={"a": np.ones(2)})),
    (Everything(), Everything(table=np.array([0.0]))), (groups_of(1, 2), groups_of(1, 3)), (Value(value=1), 1),
])  # fmt: skip
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
@settings(max_examples=50)
@given(plain)
def test_whatever_a_plugin_returns_survives_json(value):
    """Numbers, texts, lists, tuples, dictionaries, intervals and arrays, however they are nested."""
    assert same(Value(value=value), through_json(Value(value=value)))


def test_numpy_scalars_become_plain_numbers():
    """A NumPy scalar is written as the number it is."""
    release = Value(value=[np.float64(0.5), np.int8(3), np.bool_(True), np.str_("x"), np.float32("nan")])

    assert same([0.5, 3, True, "x", math.nan], through_json(release).value)


@pytest.mark.parametrize("make", [
    *(lambda value=value: value for value in ({1, 2}, 1j, object(), b"x", {1: 2}, {"$float": "nan"},
                                              {"a": {"$tuple": []}}, np.array([object()]))),
    lambda: 10**5000, lambda: Fraction(10**5000, 3), lambda: [Fraction(3, 10**5000)],  # Python writes 4,300 digits
])  # fmt: skip
def test_what_json_has_no_word_for_is_refused(make):
    """Nothing is kept that would not come back as it was."""
    with pytest.raises(TypeError):
        Value(value=make()).to_dict()


PLAIN = Value(value=1, privacy=PAID).to_dict()["privacy"]
VALUE = {"type": "dfprivacy.release:Value", "value": 1}


@pytest.mark.parametrize("stored", [
    {}, *({"type": kind} for kind in (None, "nonsense", "no.such.module:Thing", "dfprivacy.release:Nothing",
                                      "dfprivacy.release:Privacy", "dfprivacy.release:Value", [VALUE["type"]])),
    {"type": "os:system", "command": "true"}, {"type": "planted:Planted", "value": 1}, {**VALUE, "other": 2},
    *({**VALUE, "privacy": said} for said in (5, {"epsilon": 1}, {"noise": [{"what": 1}]}, {"noise": 5},
      {**PLAIN, "epsilon": "much"}, {**PLAIN, "noise": [{**PLAIN["noise"][0], "grid": "x"}]})),
    {**VALUE, "library": "os"}, {**VALUE, "value": {"$release": 5}}, {**VALUE, "value": {"$interval": [1]}},
    {**VALUE, "value": {"$array": [1, 2], "shape": [3], "dtype": "<f8"}},
])  # fmt: skip
def test_what_is_no_release_of_ours_is_refused(stored, tmp_path, monkeypatch):
    """A class or fields that are not installed are an error with a way out; no module that is named is run."""
    (tmp_path / "planted.py").write_text("from dfprivacy.release import Value as Planted\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(dp.ArgumentError, match="Install"):
        Release.from_dict(stored)
    assert "planted" not in sys.modules


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", None, "[" * 100_000])
def test_what_is_no_json_is_refused(text):
    """Neither text that is no JSON nor JSON that is no release becomes one."""
    with pytest.raises(dp.errors.ArgumentError):
        Release.from_json(text)


REDRAWS = """
import json, sys
from dfprivacy.release import Release
assert not any(name.startswith("dfprivacy_") for name in sys.modules)
for kind in json.loads(sys.argv[1]):
    try:
        Release.from_dict({"type": kind})
    except Exception as error:
        assert "differ from the fields of the installed class" in str(error), (kind, error)
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


@pytest.mark.parametrize("module", ["dfprivacy.release", "dfprivacy", "dfprivacy.once.upon_a_time"])
def test_a_class_that_has_moved_is_found(module):
    """A ledger keeps answers longer than modules keep their names."""
    assert Release.from_dict({"type": f"{module}:Value", "value": 1}) == Value(value=1)


# Frames


@pytest.mark.parametrize(("library", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_a_release_is_one_row(library, kind):
    """One row holds the fields that fit in a cell; groups are one row each, of whatever kinds they are."""
    frame = Everything(privacy=PAID, table=np.ones(2)).to_frame(library)
    groups = groups_of(1.5, 2.5, privacy=PAID).to_frame(library)
    mixed = groups_of(None, 2, 2.5, keys=(1, "b", True)).to_frame(library)

    assert isinstance(frame, kind)
    assert (1, 8) == frame.shape
    assert ["number", "count", "text", "flag", "nothing", "infinite", "unknown", "inner"] == list(frame.columns)
    assert 0.5 == frame["number"][0]
    assert (["g", "value"], ["a", "b"], [1.5, 2.5]) == (*map(list, (groups.columns, groups["g"], groups["value"])),)
    assert (["1", "b"], 2.5) == ([str(key) for key in mixed["g"]][:2], mixed["value"][2])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(("value", "rows"), [
    ((1.5, (2.0, None)), [("value[0]", 1.5), ("value[1][0]", 2.0), ("value[1][1]", None)]),
    (np.eye(2), [("value[0, 0]", 1), ("value[0, 1]", 0), ("value[1, 0]", 0), ("value[1, 1]", 1)]),
    ({"map": [1, 2.5], "x": 3}, [("value.map[0]", 1), ("value.map[1]", 2.5), ("value.x", 3)]),
    ((Value(value=1), Value(value=2.5)), [("value[0].value", 1), ("value[1].value", 2.5)]),
])  # fmt: skip
def test_what_fits_in_no_cell_is_a_row_each(library, value, rows):
    """Of what is nested, every number has a row, with its place."""
    frame = Value(value=value).to_frame(library)

    terms, values = (
        frame[name].to_pylist() if library == "pyarrow" else list(frame[name]) for name in ("term", "value")
    )
    assert [term for term, _ in rows] == terms
    assert [number for _, number in rows] == [None if each != each else each for each in values]  # noqa: PLR0124


# Text


def test_a_release_shows_its_fields_and_its_guarantee():
    """The repr is a sentence, a line for each field that has something to say, and what is guaranteed."""
    words = ("Few rows.", "Much noise.")  # notes follow each other without commas, other lists have them
    shown = repr(Everything(privacy=PAID, words=words, table=np.array([0.5, 0.25])))

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
        "  words     Few rows. Much noise.",
        "  table     [0.5, 0.25]",
        "  (1, 1e-06)-differential privacy for tables that differ in the content of one row",
    ]


def test_groups_are_a_table_and_a_dictionary(tmp_path):
    """A sentence and a row for each; keys in order, items as pairs; no other key, and no text that is a formula."""
    groups = groups_of(1.5, 2.5, keys=("=a", 2))
    said, *lines = repr(groups_of(1.5, 2.5, keys=("a", "bb"))).splitlines()
    groups.to_csv(tmp_path / "groups.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "groups.csv").read_text(encoding="utf-8"))))

    assert said == "2 groups of g, one answer each. a: this Value gives value 1.5."
    assert lines == ["Groups", "  g   value", "  a     1.5", "  bb    2.5"]
    assert [*groups] == list(groups.keys()) == ["=a", 2]
    assert dict(groups) == dict(groups.items()) == {"=a": Value(value=1.5), 2: Value(value=2.5)}
    assert [each.value for each in groups.values()] == [groups["=a"].value, groups[2].value] == [1.5, 2.5]
    assert (2, True, False) == (len(groups), 2 in groups, "c" in groups)
    assert [("'=a", "1.5"), ("2", "2.5")] == [(row["g"], row["value"]) for row in rows]
    with pytest.raises(dp.ArgumentError, match=r"by 'g' has no group with this key.*The groups are \['=a', 2\]"):
        groups["c"]


def test_what_was_asked_is_shown_and_kept():
    """The repr says the question and its rows, in sentence and title; what an older version kept has none."""
    release = Value(value=1.5, privacy=QUESTION)
    older = release.to_dict()
    for name in ("question", "where"):
        del older["privacy"][name]

    assert repr(release).splitlines()[:2] == [
        "Where sex = m and age from 18 to 30: mean('a_b') gives value 1.5.",
        "Value: mean('a_b') of 'clinic', where sex = m and age from 18 to 30",
    ]
    assert Release.from_json(release.to_json(indent=1)).privacy == QUESTION
    assert repr(Release.from_dict(older)).splitlines()[:2] == ["This Value gives value 1.5.", "Value"]


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
    said, title, table, paid = groups_of(1.5, 2.5, by="g|h", privacy=QUESTION).to_markdown().split("\n\n")

    assert said == (
        r"Where sex = m and age from 18 to 30: 2 groups of g\|h, one answer each. a: this Value gives value 1.5."
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
    shown = Everything(words=("<script>",), privacy=replace(PAID, at="<i>", replayed=True))._repr_html_()

    assert not any(tag in shown for tag in ("<b>text", "<script>", "<i>"))
    assert "&lt;b&gt;text&lt;/b&gt;" in shown
    assert shown.startswith("<div ")


ONE_ROW = "for tables that differ in the content of one row"


@pytest.mark.parametrize(("changes", "words"), [
    ({}, f"(1, 1e-06)-differential privacy {ONE_ROW}"),
    ({"delta": 0.0, "neighbors": "add_remove"},
     "1-differential privacy for tables that differ by one row, added or removed"),
    ({"private": False}, "NOT PRIVATE: the noise came from a test-only sampler"),
    ({"replayed": True},
     f"(1, 1e-06)-differential privacy {ONE_ROW}, answered on {PAID.at} and replayed at no charge"),
])  # fmt: skip
def test_the_guarantee_in_words(changes, words):
    """The guarantee names the price and the relation, or says that there is none; a replay shows its date."""
    assert words == (str if "replayed" in changes else lambda each: each.guarantee)(replace(PAID, **changes))


# Numbers

DATA = {"age": [33.0, 45.0, 27.0, 51.0] * 250, "g": ["a", "b", "a", "b"] * 250, "h": [0, 1, 0, 0] * 250}


def protect(**terms):
    said = {"epsilon": 10**6, "bounds": {"age": (18, 90)}, "categories": {"g": ["a", "b"], "h": [0, 1]}}
    return dp.protect(pd.DataFrame(DATA), "clinic", **{**said, **terms})


def test_a_number_is_formatted_rounded_and_compared():
    """An answer about one number is that number wherever Python asks for one, a third party's too."""
    view = protect()
    mean, value = view.mean("age", epsilon=1000), Value(value=2.25)

    assert (f"{mean:.1f} years", f"{mean}") == ("39.0 years", str(mean))
    assert (round(mean, 1), round(mean)) == (39.0, 39)
    assert 30 < mean <= view.mean("age", epsilon=1000) + 1
    assert not mean < 30
    assert mean >= float(mean)
    assert (f"{value:.1f}", round(value, 1), value > 2, value < 3, float(value)) == ("2.2", 2.2, True, True, 2.25)


@pytest.mark.parametrize("ask", [
    lambda view: view.mean("age", epsilon=1), lambda view: view.mean("age", covers="population", epsilon=1),
    lambda view: view.ttest("age", popmean=30, epsilon=1), lambda view: view.chi2("g", "h", epsilon=1),
    lambda view: view.mean("age", epsilon=1) - 30,
])  # fmt: skip
def test_an_answer_about_one_number_is_a_number(ask):
    """It is the estimate, or the p-value."""
    answer = ask(protect())

    assert float(answer) == answer.to_dict()[answer._estimate]
    assert round(float(answer), 1) == round(answer, 1)
    assert answer <= float(answer) <= answer


@pytest.mark.parametrize(("wrong", "error", "words"), [
    *((lambda number=number: number(protect().describe(epsilon=1)), dp.ArgumentError,
       r"Description has no single main number") for number in (round, float)),
    (lambda: f"{protect().describe(epsilon=1):.1f}", dp.ArgumentError, "no single main number.*to_frame"),
    (lambda: round(Value(value=[1.0, 2.0])), dp.ArgumentError, "Value has no single main number"),
    (lambda: protect().mean("age", epsilon=1) > "30", TypeError, "."),
    (lambda: Value(value=1).to_frame("excel"), dp.ArgumentError, 'Use "pandas", "polars" or "pyarrow"'),
    (lambda: Value(value=1).plot(), dp.ArgumentError, "Value has no plot.*Use to_frame"),
])  # fmt: skip
def test_what_an_answer_is_not(wrong, error, words):
    """An answer about several numbers says so, and a release without a picture what there is instead."""
    with pytest.raises(error, match=words):
        wrong()


@pytest.mark.parametrize(("ask", "rows"), [
    (lambda view, **how: view.ttest("age", popmean=40, **how), lambda found: [found.n, *found.sizes]),
    (lambda view, **how: view.ols("age ~ C(g)", **how), lambda found: [found.nobs]),
    (lambda view, **how: view.quantile("age", [0.5], covers="table", **how), lambda found: [found.count]),
])  # fmt: skip
def test_no_noisy_number_of_rows_is_above_the_public_one(ask, rows):
    """Of 20 answers half would be; all none with probability 10⁻⁶."""
    view = protect()

    assert max(number for _ in range(20) for number in rows(ask(view, epsilon=1, fresh=True))) == 1000


@dataclass(frozen=True, kw_only=True, repr=False)
class _Visits(Release):
    """Of all rows, how many visits there were."""

    count: float


def test_a_number_of_something_else_is_not_limited_to_the_rows():
    """A third party's field may have any name: only numbers of rows that its class declares are."""
    assert _Visits(count=1500.0).with_counts_at_most(1000) == _Visits(count=1500.0)


def test_a_percent_sign_follows_its_number(tmp_path):
    """It stands beside the number in a sentence as in an interval, without a blank."""
    (tmp_path / "body.toml").write_text(
        'name = "body"\nepsilon = 9\n[columns.fat]\nbounds = [0, 50]\nunits = "%"\n', encoding="utf-8"
    )
    view = dp.protect(pd.DataFrame({"fat": [22.0, 31.5, 18.0, 27.0] * 100}), "body", schema=tmp_path / "body.toml")
    for answer in (
        view.mean("fat", epsilon=1),
        view.quantile("fat", [0.25, 0.75], covers="table", epsilon=1),
        view.ttest("fat", popmean=20, epsilon=1),
        view.describe(epsilon=1),
    ):
        assert re.search(r"\d%", str(answer))
        assert " %" not in str(answer)


# Pictures


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
    panels = protect().group_by("g").histogram("age", 4, epsilon=1).plot().child_axes

    assert ["a", "b"] == [panel.get_title(loc="right") for panel in panels]
    assert 1 == len({panel.get_ylim() for panel in panels})
    assert [panel.get_legend() is not None for panel in panels] == [True, False]


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
