"""What users of dataframes type: it works, or says what to type."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._table.frames.files import declared_columns

DATA = {"age": [33.0, 45.0, 27.0, 51.0] * 250, "g": ["a", "b", "a", "=b"] * 250, "note": ["x"] * 1000}
SAID = {"bounds": {"age": (0, 100)}, "categories": {"g": ["a", "b", "=b"]}}


@pytest.fixture
def view():
    return dp.protect(pd.DataFrame(DATA), "habits", epsilon=10**6, ledger="memory:", **SAID)


def test_a_number_is_formatted_rounded_and_compared(view):
    mean = view.mean("age", epsilon=1000)

    assert f"{mean:.1f} years" == "39.0 years"
    assert f"{mean}" == str(mean)
    assert round(mean, 1) == 39.0
    assert round(mean) == 39
    assert mean > 30
    assert 30 < mean <= view.mean("age", epsilon=1000) + 1
    assert not mean < 30
    assert mean >= float(mean)


@pytest.mark.parametrize(
    "ask",
    [
        lambda view: view.mean("age", epsilon=1),
        lambda view: view.mean("age", covers="population", epsilon=1),
        lambda view: view.ttest("age", popmean=30, epsilon=1),
        lambda view: view.chi2("g", "h", epsilon=1),
        lambda view: view.mean("age", epsilon=1) - 30,
    ],
)
def test_an_answer_about_one_number_is_a_number(ask):
    said = {**SAID, "categories": {**SAID["categories"], "h": [0, 1]}}
    view = dp.protect(
        pd.DataFrame({**DATA, "h": [0, 1, 0, 0] * 250}), "a number", epsilon=9, ledger="memory:", **said
    )

    answer = ask(view)

    assert float(answer) == answer.to_dict()[answer._estimate]
    assert round(float(answer), 1) == round(answer, 1)
    assert answer <= float(answer) <= answer


def test_a_plain_number_of_a_third_party_is_one_too():
    value = dp.Value(value=2.25)

    assert (f"{value:.1f}", round(value, 1), value > 2, value < 3, float(value)) == ("2.2", 2.2, True, True, 2.25)
    with pytest.raises(dp.ArgumentError, match="Value is not about one number"):
        round(dp.Value(value=[1.0, 2.0]))


def test_a_combination_sees_groups_as_a_dictionary(view):
    groups = view.group_by("g").mean("age", epsilon=1000)

    found = dp.combine(lambda means: float(dict(means)["b"]) - min(map(float, means.values())), groups)

    assert round(found) == 15


def test_an_answer_about_several_numbers_says_so(view):
    several = view.describe(epsilon=1)

    for number in (round, float):
        with pytest.raises(dp.ArgumentError, match="Description is not about one number"):
            number(several)
    with pytest.raises(dp.ArgumentError, match=r"Description is not about one number.*to_frame"):
        f"{several:.1f}"
    with pytest.raises(TypeError):
        _ = view.mean("age", epsilon=1) > "30"


def test_groups_are_a_dictionary(view):
    groups = view.group_by("g").mean("age", epsilon=1000)

    assert dict(groups) == {key: groups[key] for key in ("a", "b", "=b")}
    assert list(groups.keys()) == ["a", "b", "=b"]
    assert [round(each) for each in groups.values()] == [30, 45, 51]


def test_answers_are_written_as_csv(view, tmp_path):
    """No text of them is a formula to a spreadsheet."""
    groups = view.group_by("g").mean("age", epsilon=1000)

    rows = list(csv.DictReader(io.StringIO(groups.to_csv())))
    groups.to_csv(tmp_path / "groups.csv")

    assert [row["g"] for row in rows] == ["a", "b", "'=b"]
    assert [round(float(row["value"])) for row in rows] == [30, 45, 51]
    assert (tmp_path / "groups.csv").read_text(encoding="utf-8") == groups.to_csv()


def test_releases_are_a_table(view):
    view.mean("age", epsilon=1)
    view.count(epsilon="1/4")

    frame = view.releases.filter(method="mean").to_frame()

    assert list(frame.columns) == ["asked", "by", "method", "question", "epsilon", "delta"]
    assert frame["question"].tolist() == ["mean('age')"]
    assert view.releases.to_frame("polars")["epsilon"].to_list() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("wanted", "rows"), [(45, 250), ((None, 33), 500), ((45, None), 500), ((None, None), 1000), (39.5, 0)]
)
def test_rows_are_selected_by_a_number_or_half_an_interval(view, wanted, rows):
    assert round(view.where(age=wanted).count(epsilon=1000)) == rows


def test_a_column_is_aggregated_in_several_ways(view):
    whole = view.group_by("g").agg({"age": ["mean", "std"]}, epsilon=1)

    assert view.group_by("g")["age"].agg(["mean", "std"], epsilon=1) == whole


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda view: view.age, r"view\['age'\]"),
        (lambda view: view.group_by("g").age, r"view\['age'\]"),
        (lambda view: view.mean(["age"], epsilon=1), "agg"),
        (lambda view: view.where(note="x"), "has no categories"),
        (lambda view: view["age"] > 3, r"view\.where\(age=\(low, high\)\)"),
    ],
)
def test_what_does_not_work_says_what_does(view, ask, said):
    with pytest.raises((AttributeError, dp.DPError), match=said):
        ask(view)


@pytest.mark.parametrize(
    "line", ["31,45", "age,45", "age,age", ",", "1e5,x", "nan,x", "-nan,x", "1_000,x", "2026-01-31,x", "True,x", ""]
)
def test_a_file_without_a_header_is_refused(tmp_path, line):
    """Its first line may be a row, so it is not shown."""
    path = tmp_path / "table.csv"
    path.write_text(f"{line}\n1,2\n", encoding="utf-8")

    with pytest.raises(dp.ArgumentError, match="header") as refused:
        declared_columns(path)

    assert "45" not in str(refused.value)


@pytest.mark.parametrize(
    ("ask", "rows"),
    [
        (lambda view: view.ttest("age", popmean=40, epsilon=1), lambda found: [found.n, *found.sizes]),
        (lambda view: view.ols("age ~ C(g)", epsilon=1), lambda found: [found.nobs]),
        (lambda view: view.quantile("age", [0.5], covers="table", epsilon=1), lambda found: [found.count]),
    ],
)
def test_no_noisy_number_of_rows_is_above_the_public_one(ask, rows):
    """Of 20 answers half would be; all none with probability 10⁻⁶."""
    numbers = []
    for run in range(20):
        view = dp.protect(pd.DataFrame(DATA), f"habits {run}", epsilon=1, ledger="memory:", **SAID)
        numbers += rows(ask(view))

    assert max(numbers) == 1000


@dataclass(frozen=True, kw_only=True, repr=False)
class _Visits(dp.Release):
    """Of all rows, how many visits there were."""

    count: float


def test_a_number_of_something_else_is_not_limited_to_the_rows():
    """A third party's field may have any name: only numbers of rows that its class declares are."""
    assert _Visits(count=1500.0).with_counts_at_most(1000) == _Visits(count=1500.0)


@pytest.mark.parametrize(
    "ask",
    [
        lambda view: view.mean("fat", epsilon=1),
        lambda view: view.quantile("fat", [0.25, 0.75], covers="table", epsilon=1),
        lambda view: view.ttest("fat", popmean=20, epsilon=1),
        lambda view: view.describe(epsilon=1),
    ],
)
def test_a_percent_sign_follows_its_number(tmp_path, ask):
    """It stands beside the number in a sentence as in an interval, without a blank."""
    (tmp_path / "body.toml").write_text(
        'name = "body"\nepsilon = 9\n[columns.fat]\nbounds = [0, 50]\nunits = "%"\n', encoding="utf-8"
    )
    view = dp.protect(pd.DataFrame({"fat": [22.0, 31.5, 18.0, 27.0] * 100}), "body", schema=tmp_path / "body.toml")

    said = str(ask(view))

    assert re.search(r"\d%", said)
    assert " %" not in said
