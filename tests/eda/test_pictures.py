"""Pictures, texts and tables: what was released, how sure it is, and what an interval covers."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from dfprivacy.errors import ArgumentError
from dfprivacy.wording import interval_text, number, with_error


def drawn(ax, rows):
    """The numbers of a plot with a row for each, and the ends of their intervals."""
    lines = [list(line.get_xdata()) for line in ax.get_lines()[: 2 * rows]]
    return [value for (value,) in lines[1::2]], lines[::2]


def segments(collection):
    """The ends of a collection's lines along each axis."""
    lines = np.array(collection.get_segments())
    return lines[:, :, 0], lines[:, :, 1]


def test_rows_of_a_picture_have_their_intervals(plt, protect):
    """A dot at each number, or share, on a line along its interval: of statistics, counts and what was found."""
    view = protect(epsilon=100, delta=0.01)
    mean, found = view.mean("age", confidence=0.9, epsilon=1), view.find_categories(["sex", "region"], epsilon=50)
    bounds, (dot,) = (
        view.find_bounds(["age", "income"], epsilon=1),
        view.median("age", epsilon=1).plot().get_lines(),
    )
    ax, edges, panels = mean.plot(), bounds.plot(), found.plot().child_axes

    assert ([mean.value], [[mean.low, mean.high]]) == drawn(ax, 1)
    assert "90% CI, all noise" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert "for the table" in ax.get_xlabel()
    assert "notes" in dot.get_label()  # there is no interval of values
    for normalize in (False, True):
        counts = view.value_counts("region", normalize=normalize, epsilon=1)
        ax, every = counts.plot(), counts.total if normalize else 1.0
        values, ends = drawn(ax, len(counts.categories))
        assert (counts.counts / every).tolist() == pytest.approx(values)
        assert np.ravel(np.column_stack(counts.intervals) / every).tolist() == pytest.approx(np.ravel(ends))
        assert ax.get_xlabel() == ("share of rows" if normalize else "rows")
    assert bounds.threshold == edges.get_lines()[0].get_ydata()[0]
    labels = [text.get_text() for text in edges.get_legend().get_texts()]
    assert any(label.startswith(f"age: {bounds.low[0]:g}") for label in labels)
    assert [panel.get_ylabel() for panel in panels] == ["sex", "region"]
    assert found["region"].counts.tolist() == drawn(panels[1], len(found["region"].categories))[0]
    assert drawn(found["sex"].plot(), 2) == drawn(panels[0], 2)


def test_bins_combinations_and_quantiles_are_drawn(plt, protect):
    """The area of a bin is its rows; numbers stand on squares; of integers, the share of rows rises at each."""
    view = protect()
    bins, cells = view.histogram("age", [0, 30, 40, 120], epsilon=1), ("sex", "region")
    found = view.quantile("age", [0.25, 0.5], covers="table", epsilon=1)
    whole = view.quantile("age", [0.5], step=1, covers="table", epsilon=5)
    ax, at, (curve, _) = bins.plot(), found.plot(), whole.plot(plt.subplots()[1]).get_lines()

    (_, heights), widths = segments(ax.collections[0]), np.diff(bins.edges)
    assert ax.get_ylabel() == "rows per unit of age"
    assert (np.column_stack(bins.intervals) / widths[:, None]).tolist() == heights.tolist()
    assert view.histogram("age", 5, epsilon=1).plot().get_ylabel() == "rows"
    for normalize in (False, "index"):
        crossed = view.crosstab(*cells, normalize=normalize, epsilon=1)
        ax, first = crossed.plot(), crossed.table[0, 0]
        assert "±" in ax.figure.axes[1].get_ylabel()
        assert crossed.raw.size == len(ax.texts)
        assert ax.texts[0].get_text() == (f"{first:.1%}" if normalize else f"{first:,.0f}")
    ends, _ = segments(at.collections[1])
    assert [found.low, found.high] == [tuple(side) for side in ends.T]
    assert curve.get_drawstyle() == "steps-post"
    assert np.allclose(curve.get_xdata() % 1, 0)
    assert curve.get_ydata()[-1] == pytest.approx(1)


def test_panels_and_profiles_show_each_interval(plt, protect):
    """Of each column of a description, and of rows with a value and without one; within axes that are given."""
    view, (_, given) = protect(epsilon=100, delta=1e-3), plt.subplots()
    found, profile = view.describe(epsilon=1), view.profile(["income"], epsilon=10, delta=1e-4)

    row, ax = found.statistics.index("mean"), found.plot(given)
    assert given is ax
    assert [panel.get_xlabel().partition(" ")[0] for panel in ax.child_axes] == ["age", "visits", "income"]
    for at, panel in enumerate(ax.child_axes):
        assert [found.lows[at][row], found.highs[at][row]] in [list(line.get_xdata()) for line in panel.get_lines()]
    values, ends = drawn(profile.plot(), 2)
    rows, reach = [profile.rows[0], profile.missing[0]], 1.96 * profile.noise_standard_error
    assert rows == values
    assert np.ravel(ends).tolist() == pytest.approx([each + sign * reach for each in rows for sign in (-1, 1)])
    with pytest.raises(ArgumentError, match="draws columns of numbers"):
        view.describe(["sex", "region"], epsilon=1).plot()
    with pytest.raises(ArgumentError, match="no aggregation is a number"):
        view.agg({"sex": "top"}, epsilon=1).plot()


# Texts


def test_numbers_are_written_as_far_as_they_mean_something():
    """Two digits of the error are the last of the number; NaN, infinity and texts are themselves."""
    assert with_error(1234.5678, 2.3456) == "1,234.6 ± 2.3"
    assert interval_text(0.0, 0.0) == "0 to 0"
    assert [number(each) for each in (math.nan, math.inf, "f", 1e20)] == ["nan", "inf", "f", "1e+20"]
    assert number(math.nan, 1.0) == "nan"
    assert number(12300.0, 0.0) == "12,300"


def test_counts_say_when_they_were_changed_or_say_nothing(protect):
    """A note tells that small counts are too large, and one that all is noise."""
    quiet = protect().value_counts("region", epsilon=50)
    loud = dataclasses.replace(quiet, raw=np.array([-5.0, 3.0, 100.0, 7.0]), noise_scale=50.0)

    assert "note" not in repr(quiet)
    assert "too little data" in repr(loud)
    assert "biased upwards" in repr(loud)


# What intervals cover: the table's own number, of values as they are or limited to bounds

HIGH, P = 60_000.0, 10**5  # above the bound lies about one income in five; next to no noise
SAID = {"bounds": {"income": (0, HIGH), "age": (18, 90)}, "categories": {"region": ["n", "s", "e"]}}
PAIR = ["income", "age"]
COVERED = [  # what is asked, about what it is, what that is, the row of the tidy table
    *((lambda v, n=n: getattr(v, n)("income", epsilon=P), "limited table", lambda t, n=n: getattr(t.income, n)(), 0)
      for n in ("mean", "sum", "var", "std", "nunique")),
    (lambda v: v.where(region="n").count(epsilon=P), "table", lambda t: (t.region == "n").sum(), 0),
    (lambda v: v.missing("income", epsilon=P), "table", lambda t: t.income.isna().sum(), 0),
    (lambda v: v.nunique("region", epsilon=P), "table", lambda t: t.region.nunique(), 0),
    (lambda v: v.quantile("age", [0.25], covers="table", epsilon=P), "table", lambda t: t.age.quantile(0.25), 0),
    (lambda v: v.corr(PAIR, epsilon=P), "limited table", lambda t: t[PAIR].corr().iloc[0, 1], 1),
    (lambda v: v.cov(PAIR, epsilon=P), "limited table", lambda t: t[PAIR].cov().iloc[0, 1], 1),
    (lambda v: v.value_counts("region", epsilon=P), "table", lambda t: t.region.value_counts().max(), 0),
    (lambda v: v.histogram("income", [0, 3e4, 6e4], epsilon=P), "limited table",
     lambda t: t.income.between(3e4, HIGH).sum(), 1),
    (lambda v: v.agg({"income": "mean"}, epsilon=P), "limited table", lambda t: t.income.mean(), 0),
    (lambda v: v.describe(["income"], epsilon=P), "limited table", lambda t: t.income.mean(), 2),
]  # fmt: skip


@pytest.fixture(scope="module")
def incomes():
    """Incomes, of which some lie above the bound, values on a grid, and a region."""
    rng = np.random.default_rng(3)
    income = rng.lognormal(10, 1.2, 3000)
    return pd.DataFrame(
        {"income": income, "age": rng.integers(18, 91, 3000) * 1.0, "region": ["n", "s", "e"] * 1000}
    )


@pytest.mark.parametrize(("ask", "covers", "truth", "at"), COVERED)
def test_what_is_covered(ask, covers, truth, at, protect, incomes):
    """With hardly any noise the interval holds pandas' own number, of limited values where that is said."""
    found = ask(protect(incomes, **SAID))

    row, limited = found.records()[at], truth(incomes.assign(income=incomes["income"].clip(upper=HIGH)))
    room = 1e-3 * abs(limited) + (
        0.5 if "quantile" in found.__class__.__name__.lower() else 0
    )  # ends are on a grid
    assert covers == found.covers == row["covers"]
    assert row["low"] - room <= limited <= row["high"] + room
    if covers == "table":
        assert row["low"] - room <= truth(incomes) <= row["high"] + room
    elif found.__class__.__name__ not in {"Histogram", "Correlations"}:
        assert not row["low"] - room <= truth(incomes) <= row["high"] + room


LOOKS = {
    "text": repr,
    "page": lambda found: found._repr_html_().replace("&#x27;", "'"),
    "summary": lambda found: " ".join(found.summary().split()),
    "markdown": lambda found: found.to_markdown().replace("\\", ""),
}


def test_it_is_said(protect, incomes):
    """Every look says what is covered; a quantile at a bound says that it may lie beyond."""
    view = protect(incomes, **SAID)
    asked = {
        "this table, values limited to [0, 60,000]": view.mean("income", epsilon=10),
        "the population, values limited to [0, 60,000]": view.mean("income", covers="population", epsilon=10),
        "The mean of income limited to [0, 60,000] is": view.mean("income", epsilon=10),
        "The quantile 0.95 of income is 60,000 or more: between this table's": view.quantile(
            "income", 0.95, epsilon=10
        ),
        "the 95% quantile is 60,000 or more, between this table's": view.quantile(
            "income", [0.5, 0.95], epsilon=10
        ),
        "the 95% quantile is 60,000 or more (95% CI 60,000 or more)": view.quantile(
            "income", [0.5, 0.95], covers="table", epsilon=10
        ),
        "values limited to their bounds": view.describe(["income"], epsilon=50),
        "60,000 or more": view.agg({"income": ["95%", "mean"]}, epsilon=50),
    }

    for look, write in LOOKS.items():
        for said, answer in asked.items():
            text = write(answer)
            assert said in text.replace("\n", " "), (look, said)
            assert "60,000 to 60,000" not in text


def test_a_quartile_at_a_bound(protect):
    """So it is in a description, and at the lower bound; a number of rows is never beyond."""
    frame = pd.DataFrame({"x": np.repeat([-5.0, 3.0, 40.0], [500, 300, 700])})

    text = repr(protect(frame, bounds={"x": (0, 10)}, categories={}).describe(epsilon=100))

    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "0 or less" in rows["25%"]
    assert "10 or more" in rows["75%"]
    assert "or" not in rows["count"].split()


@pytest.mark.parametrize(
    "x", [np.random.default_rng(0).normal(0, 1, 1000), np.ones(1000)], ids=["normal", "one value"]
)
def test_what_is_private_is_not_called_public(x, protect):
    """Neither an answer without an interval, nor one whose interval is one point, was measured without noise."""
    frame = pd.DataFrame({"x": x, "g": ["a", "b"] * 500})
    view = protect(frame, bounds={"x": (-4, 4)}, categories={"g": ["a", "b"]})

    for found in (
        view.median("x", epsilon=0.1),
        view.quantile("x", 0.9, epsilon=0.01),
        view.quantile("x", [0.5], epsilon=50),
        view.quantile("x", [0.5], covers="table", epsilon=50),
        view.std("x", epsilon=1e-4),
        view.group_by("g").median("x", epsilon=1),
    ):
        assert "public" not in repr(found)
