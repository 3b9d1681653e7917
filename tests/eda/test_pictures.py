"""Pictures show what was released and how sure it is; texts and tables read as answers."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.errors import ArgumentError
from dfprivacy.wording import between, number, with_error


@pytest.fixture
def plt(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield pyplot
    pyplot.close("all")


def segments(collection):
    """The ends of a collection's lines along each axis."""
    lines = np.array(collection.get_segments())
    return lines[:, :, 0], lines[:, :, 1]


def drawn(ax, rows):
    """The numbers of a plot with a row for each, and the ends of their intervals."""
    lines = [list(line.get_xdata()) for line in ax.get_lines()[: 2 * rows]]
    return [value for (value,) in lines[1::2]], lines[::2]


def test_a_number_is_drawn_with_its_interval(plt, protect):
    """The interval is a line from its low to its high end, and the legend says what it is for."""
    found = protect().mean("age", confidence=0.9, epsilon=1)

    ax = found.plot()

    interval, dot, *_ = ax.get_lines()
    assert [found.low, found.high] == list(interval.get_xdata())
    assert found.value == dot.get_xdata()[0]
    assert "90% CI, all noise" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert "for the table" in ax.get_xlabel()


def test_a_number_without_an_interval_says_so(plt, protect):
    """One quantile alone has none, and its picture refers to the notes."""
    (dot,) = protect().median("age", epsilon=1).plot().get_lines()

    assert "notes" in dot.get_label()


@pytest.mark.parametrize("normalize", [False, True])
def test_counts_have_intervals(plt, protect, normalize):
    """Each category has a dot at its count, or its share if these were asked, and a line along its interval."""
    found = protect().value_counts("region", normalize=normalize, epsilon=1)

    ax = found.plot()

    every = found.total if normalize else 1.0
    values, ends = drawn(ax, len(found.categories))
    assert (found.counts / every).tolist() == pytest.approx(values)
    assert np.ravel(np.column_stack(found.intervals) / every).tolist() == pytest.approx(np.ravel(ends))
    assert ax.get_xlabel() == ("share of rows" if normalize else "rows")
    ax.figure.canvas.draw()


def test_bins_of_several_widths_have_heights_per_unit(plt, protect):
    """The area of a bin is its rows, so that a wide one does not look fuller than it is."""
    found = protect().histogram("age", [0, 30, 40, 120], epsilon=1)

    ax = found.plot()

    (_, heights), edges = segments(ax.collections[0]), np.diff(found.edges)
    assert ax.get_ylabel() == "rows per unit of age"
    assert (np.column_stack(found.intervals) / edges[:, None]).tolist() == heights.tolist()
    assert protect().histogram("age", 5, epsilon=1).plot().get_ylabel() == "rows"


@pytest.mark.parametrize("normalize", [False, "index"])
def test_combinations_are_drawn(plt, protect, normalize):
    """Each number, or share, stands on a square, and the picture says how sure the numbers are."""
    found = protect().crosstab("sex", "region", normalize=normalize, epsilon=1)

    ax = found.plot()

    ax.figure.canvas.draw()
    assert "±" in ax.figure.axes[1].get_ylabel()
    assert found.raw.size == len(ax.texts)
    first = found.table[0, 0]
    assert ax.texts[0].get_text() == (f"{first:.1%}" if normalize else f"{first:,.0f}")


def test_quantiles_are_drawn_with_a_band(plt, protect):
    """Shares of rows are between 0 and 1, with the interval of each quantile."""
    found = protect().quantile("age", [0.25, 0.5], covers="table", epsilon=1)

    ax = found.plot()

    ends, _ = segments(ax.collections[1])
    assert ax.get_ylabel() == "share of rows"
    assert [found.low, found.high] == [tuple(side) for side in ends.T]


def test_a_description_has_a_panel_for_each_column_of_numbers(plt, protect):
    """Each panel has its own axis, and intervals of mean and quartiles; with axes given, within these."""
    view = protect()
    found = view.describe(epsilon=1)
    _, given = plt.subplots()

    ax = found.plot(given)

    ax.figure.canvas.draw()
    panels = ax.child_axes
    assert given is ax
    assert [panel.get_xlabel().partition(" ")[0] for panel in panels] == ["age", "visits", "income"]
    row = found.statistics.index("mean")
    assert all(
        [found.lows[at][row], found.highs[at][row]] in [list(line.get_xdata()) for line in panel.get_lines()]
        for at, panel in enumerate(panels)
    )
    with pytest.raises(ArgumentError, match="No column of numbers"):
        view.describe(["sex", "region"], epsilon=1).plot()


def test_found_bounds_are_drawn_over_their_threshold(plt, protect):
    """The picture has the threshold, and names each column with what was found of it."""
    found = protect().find_bounds(["age", "income"], epsilon=1)

    ax = found.plot()

    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert found.threshold == ax.get_lines()[0].get_ydata()[0]
    assert any(label.startswith(f"age: {found.low[0]:g}") for label in labels)
    ax.figure.canvas.draw()


# Texts


def test_numbers_are_written_as_far_as_they_mean_something():
    """Two digits of the error are the last of the number; NaN, infinity and texts are themselves."""
    assert with_error(1234.5678, 2.3456) == "1,234.6 ± 2.3"
    assert between(0.0, 0.0) == "0 to 0"
    assert [number(each) for each in (math.nan, math.inf, "f", 1e20)] == ["nan", "inf", "f", "1e+20"]
    assert number(math.nan, 1.0) == "nan"
    assert number(12300.0, 0.0) == "12,300"


def test_a_description_reads_as_a_table(protect):
    """The text has a row for each statistic and a column for each column, as a dataframe's own."""
    found = protect().describe(epsilon=50)

    _, _, table = repr(found).partition("\nDescription: ")
    _, heads, *rows = table.splitlines()

    assert list(found.columns) == heads.split()
    assert list(found.statistics) == [row.split()[0] for row in rows[: len(found.statistics)]]
    assert "±" in rows[2]


def test_a_wide_description_is_broken(protect):
    """A table wider than a page is several, each with the names of the rows."""
    names = [f"column_{at}" for at in range(15)]
    view = protect(
        pd.DataFrame(dict.fromkeys(names, [0.0, 2.0] * 400)), bounds=dict.fromkeys(names, (0, 2)), categories={}
    )

    lines = repr(view.describe(epsilon=50)).splitlines()

    assert sum(line.strip().startswith("mean ") for line in lines) > 1
    assert max(len(line) for line in lines if not line.strip().startswith("note ")) <= 104


def test_counts_say_when_they_were_changed_or_say_nothing(protect):
    """A note tells that small counts are too large, and one that all is noise."""
    view = protect()

    quiet = view.value_counts("region", epsilon=50)
    loud = dataclasses.replace(quiet, raw=np.array([-5.0, 3.0, 100.0, 7.0]), noise_scale=50.0)

    assert "note" not in repr(quiet)
    assert "too little data" in repr(loud)
    assert "raw is unbiased" in repr(loud)


def test_a_crosstab_says_what_its_shares_are_of(protect):
    """Shares of rows, columns or all are not the same, and the text says which they are."""
    view = protect()

    assert "of their row" in repr(view.crosstab("sex", "region", normalize="index", epsilon=1))
    assert "of all rows" in repr(view.crosstab("sex", "region", normalize=True, epsilon=1))
    assert "All" in repr(view.crosstab("sex", "region", margins=True, epsilon=1))


def test_whole_numbers_have_steps(plt, protect):
    """Where quantiles are of whole numbers, the share rises at each of them and stays until the next."""
    found = protect().quantile("age", [0.5], step=1, covers="table", epsilon=5)

    (curve, _) = found.plot().get_lines()

    assert curve.get_drawstyle() == "steps-post"
    assert np.allclose(curve.get_xdata() % 1, 0)
    assert curve.get_ydata()[-1] == pytest.approx(1)


def test_several_numbers_have_scales_of_their_own(plt, protect):
    """A panel for each number of an aggregation, with its interval; a category has none."""
    found = protect().agg({"age": ["mean", "std"], "sex": ["top", "freq"]}, epsilon=1)

    panels = found.plot().child_axes

    assert [panel.get_yticklabels()[0].get_text() for panel in panels] == ["age_mean", "age_std", "sex_freq"]
    assert [found.lows[0], found.highs[0]] == list(panels[0].get_lines()[0].get_xdata())
    with pytest.raises(ArgumentError, match="No aggregation is a number"):
        protect().agg({"sex": "top"}, epsilon=1).plot()


def test_found_values_are_drawn_by_column(plt, protect):
    """Numbers with intervals, a panel for each column; a single column has the axes for itself."""
    found = protect(epsilon=100, delta=0.01).find_categories(["sex", "region"], epsilon=50)

    panels = found.plot().child_axes
    alone = found["sex"].plot()

    assert [panel.get_ylabel() for panel in panels] == ["sex", "region"]
    assert found["region"].counts.tolist() == drawn(panels[1], len(found["region"].categories))[0]
    assert drawn(alone, 2) == drawn(panels[0], 2)


def test_a_report_has_the_picture_of_its_description(plt, protect):
    """The rest is on its page."""
    found = protect().report(epsilon=1)

    assert len(found.plot().child_axes) == len(found.description.plot().child_axes) == 3


def test_a_profile_shows_rows_and_gaps_with_their_intervals(plt):
    """A row each for those with a value and those with none, and what was seen is labelled."""
    rng = np.random.default_rng(6)
    df = pd.DataFrame({"age": rng.integers(20, 60, 20_000), "sex": rng.choice(["f", "m"], 20_000, p=[0.7, 0.3])})
    df["age"] = df["age"].where(df.index % 4 > 0)
    found = dp.protect(df, "pictured", epsilon=5, delta=1e-6).profile(epsilon=2, delta=1e-7)

    ax = found.plot()

    rows = [found.rows[0], found.missing[0], found.rows[1]]
    reach = 1.96 * found.noise_standard_error
    values, ends = drawn(ax, 3)
    assert rows == values
    assert np.ravel(ends).tolist() == pytest.approx([each + sign * reach for each in rows for sign in (-1, 1)])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["age: number\n16 to 64", "without a value", "sex: text\nf, m"]
