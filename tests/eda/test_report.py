"""The report: what it measures and costs, and a page that stands alone, reads aloud, and shows texts as texts."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from dfprivacy.errors import ArgumentError
from dfprivacy.release import NoisyValue, Release
from dfprivacy_eda.report import BAR, SURE, binned_histogram, html_page
from dfprivacy_eda.tree import CountTree, choose_layout

HOSTILE = '</title><script src="https://evil.example/x.js">alert(1)</script>'
VOID = {"meta", "line", "rect", "circle", "link", "br", "img"}


class Page(HTMLParser):
    """The elements of a page in order, with their attributes, texts and the elements around them."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append({"tag": tag, "inside": [each["tag"] for each in self.open], "text": "", **dict(attrs)})
        if tag not in VOID:
            self.open.append(self.elements[-1])

    def handle_startendtag(self, tag, attrs):
        self.elements.append({"tag": tag, "inside": [each["tag"] for each in self.open], "text": "", **dict(attrs)})

    def handle_endtag(self, tag):
        assert tag == self.open.pop()["tag"]

    def handle_data(self, data):
        for each in self.open:
            each["text"] += data

    def all(self, *tags):
        return [each for each in self.elements if each["tag"] in tags]


@pytest.fixture(scope="module")
def hostile():
    """A view of a table whose name, columns and categories are markup, and its report's page."""
    import dfprivacy as dp

    rng = np.random.default_rng(3)
    x = rng.normal(size=3000)
    names = {"x": f"x{HOSTILE}", "y": "\"y' onload='alert(1)", "g": "<i>g</i>"}
    data = {
        names["x"]: x,
        names["y"]: x + rng.normal(size=3000),
        names["g"]: rng.choice(["<u>a</u>", "b&amp;"], 3000),
    }
    bounds = {names["x"]: (-4, 4), names["y"]: (-6, 6)}
    view = dp.protect(
        pd.DataFrame(data), f"d{HOSTILE}", epsilon=9, ledger="memory:", bounds=bounds,
        categories={names["g"]: ["<u>a</u>", "b&amp;"]},
    )  # fmt: skip
    found = view.report(epsilon=3)
    return found, html_page(found, None)


# What it measures


def test_it_is_a_description_with_pictures_and_correlations(protect):
    """Of all columns, with a histogram of each number and counts of each category, at the price that is asked."""
    found, truth = protect().report(epsilon=20), protect().describe(epsilon=1e5)

    assert found.description.columns == truth.columns == ("age", "visits", "income", "sex", "region")
    assert found.description.loc["mean", "age"] == pytest.approx(truth.loc["mean", "age"], abs=0.2)
    assert [each.column for each in found.histograms] == ["age", "visits", "income"]
    assert [each.column for each in found.counts] == ["sex", "region"]
    assert found.correlations.columns == ("age", "visits", "income")
    assert found.bounds == ((0, 120), (0, 100), (0, 2e5), None, None)
    spent = [record.epsilon for record in found.privacy.noise]
    assert sum(spent) == pytest.approx(found.privacy.epsilon) == pytest.approx(20)
    beyond, moments, *others = [each / 20 for each in spent]  # rows beyond bounds have a part of that of moments
    assert sorted(found.shares.values()) == pytest.approx(sorted([beyond + moments, *others]))


@pytest.mark.parametrize("rows", [0, 40, 20_000])
def test_bins_cover_the_data_at_any_size(rows):
    """Bins lie within the bounds, and are fewer where the noise would hide them."""
    column, trees = simulated(rows, 1)

    found = binned_histogram(column, trees[0], 0.95)

    assert column.low <= found.edges[0] < found.edges[-1] <= column.high
    assert 1 <= len(found.raw) <= 24
    assert len(found.raw) >= 8 or rows < 20_000
    inner = np.diff(found.edges)[1:-1]  # the first and the last hold a bound, which has no width
    assert np.allclose(inner, inner[:1])


def simulated(rows, runs):
    """A column and trees of counts of the same rows, of which half are missing, with the noise of epsilon 1/2."""
    from dfprivacy import Column

    rng = np.random.default_rng(8)
    column = Column("x", bounds=(0.0, 100.0))
    plan = choose_layout(column, None, 1e6)
    leaves, _ = np.histogram(rng.gamma(2, 8, rows).clip(0, 100), plan.half_open_edges)
    levels = [leaves.reshape(size, -1).sum(axis=1) for size in plan.sizes]
    exact, scales = np.concatenate([*levels, [rows]]), []
    for size, weight in zip(plan.sizes, plan.weights, strict=True):
        scales += [2 / 0.5 * sum(plan.weights) / weight] * size
    scales = np.array([*scales, 4.0])
    measured = (NoisyValue(exact + rng.laplace(scale=scales), scales, None) for _ in range(runs))
    trees = [
        CountTree.from_measurement(plan, each, missing=True, rows=(2.0 * rows, 0.0), root=False, none_missing=False)
        for each in measured
    ]
    return column, trees


@pytest.mark.statistical
def test_intervals_of_bins_cover():
    """At least 95% of the intervals of bins hold the table's own counts, whichever bins the noise has chosen."""
    column, trees = simulated(5000, 200)
    rng = np.random.default_rng(8)
    values = rng.gamma(2, 8, 5000).clip(0, 100)

    held = []
    for tree in trees:
        found = binned_histogram(column, tree, 0.95)
        truth, _ = np.histogram(values, found.edges)
        low, high = found.intervals
        held.append(((low <= truth) & (truth <= high))[:-1])  # NumPy counts the upper edge of the last

    assert np.concatenate(held).mean() > 0.945


# Its page


def test_the_page_loads_nothing(hostile):
    """No element refers to anything but the page itself, no style does, and the browser is told to load nothing."""
    _, text = hostile
    page = Page(text)

    refused = {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image", "use", "source"}
    names = {name for each in page.elements for name in each if name not in {"tag", "inside", "text"}}
    styles = [each["text"] for each in page.all("style")] + [each.get("style", "") for each in page.elements]
    (policy,) = (each["content"] for each in page.all("meta") if "http-equiv" in each)
    assert not refused & {each["tag"] for each in page.elements}
    assert not {
        name for name in names if name.startswith("on") or name in {"src", "srcset", "xlink:href", "action"}
    }
    assert all(each["href"].startswith("#") for each in page.all("a"))
    assert not re.search(r"url\(|@import|expression", " ".join(styles))
    assert "default-src 'none'" in policy
    assert not page.open


def test_names_are_shown_as_they_are(hostile):
    """Names of the table, its columns and categories are text wherever they stand."""
    found, text = hostile
    page = Page(text)

    names = [*found.description.columns, "<u>a</u>", "b&amp;"]
    headings = [each["text"] for each in page.all("h2")]
    assert headings[1:4] == list(found.description.columns)
    assert page.all("h1")[0]["text"] == f"d{HOSTILE}"
    assert all(any(each["text"] == name for each in page.all("th")) for name in names)
    assert not {"i", "u", "script"} & {each["tag"] for each in page.elements}


def test_the_page_is_read_aloud(hostile):
    """Tables, cells and regions have names, and what they refer to is there; headings have an order and no gap."""
    page = Page(hostile[1])

    ids = Counter(each["id"] for each in page.elements if "id" in each)
    named = " ".join(each.get("aria-labelledby", "") for each in page.elements).split()
    links = [each["href"][1:] for each in page.all("a")]
    assert set(ids.values()) == {1}
    assert set(named) | set(links) <= set(ids)
    assert sum(each.get("class") == "bars" for each in page.all("table")) == 3
    assert all(each.get("aria-hidden") for each in page.all("td") if each.get("class") == "drawn")
    assert all(each["text"].strip() for each in page.all("title", "caption", "h2"))
    assert len(page.all("table")) == len(page.all("caption"))
    assert all(each.get("scope") in {"row", "col"} for each in page.all("th"))
    assert all(each.get("aria-label") for each in page.elements if each.get("role") == "region")
    assert all("tabindex" in each for each in page.elements if each.get("class") == "scroll")
    levels = [int(each["tag"][1]) for each in page.all("h1", "h2")]
    assert page.all("html")[0]["lang"] == "en"
    assert any("width=device-width" in each.get("content", "") for each in page.all("meta"))
    assert levels[0] == 1
    assert max(after - before for before, after in itertools.pairwise(levels)) <= 1
    assert len(page.all("main")) == len(page.all("h1")) == 1
    assert links[0] == "main"


def test_the_page_says_what_was_asked_and_paid(hostile):
    """The page has the price, the guarantee, the split, each measurement's noise, and how to read it."""
    found, text = hostile
    page = Page(text)

    said = page.all("main")[0]["text"]
    assert found.privacy.guarantee in said
    assert "epsilon 3" in said
    assert all(f"{name} {share:.0%}" in said for name, share in found.shares.items())
    assert all(str(record) in said for record in found.privacy.noise)
    assert "Every number here has noise." in said
    fake = dataclasses.replace(found, privacy=dataclasses.replace(found.privacy, private=False))
    assert "NOT PRIVATE" in Page(html_page(fake, None)).all("p")[0]["text"]
    unknown = dataclasses.replace(found.correlations, unknown=found.correlations.columns)
    assert found.correlations._grid().rows[0][2] in said
    assert "not known" in html_page(dataclasses.replace(found, correlations=unknown), None)


def test_colours_can_be_told_apart():
    """Lines and bars have a contrast of 3 at least on light and dark; texts have the browser's own colours."""

    def luminance(colour):  # of WCAG 2
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    for pair in itertools.product((BAR, SURE), ("#ffffff", "#121212")):
        low, high = sorted(map(luminance, pair))
        assert (high + 0.05) / (low + 0.05) >= 3


def test_pages_of_any_columns_of_groups_and_of_many_categories(protect, tmp_path):
    """A table of bars for each column, and a bar for each of the largest categories; a group says of which rows.

    It is saved where it can be: replaced if it is there, and refused in a folder that is not.
    """
    for columns, relation in itertools.product(
        (["age"], ["sex", "region"], ["age", "sex"]), ("replace_one", "add_remove")
    ):
        found = protect(neighbors=relation).report(columns, epsilon=2)
        page = Page(found.save(tmp_path / "page.html").read_text("utf-8"))
        assert found.correlations is None
        assert len(columns) == sum(each.get("class") == "bars" for each in page.all("table"))
    for count in (1, 25):
        names = [f"category number {at}" for at in range(count)]
        text = html_page(
            protect(pd.DataFrame({"g": names * 20}), bounds={}, categories={"g": names}).report(epsilon=9), None
        )
        assert ("… 1 more" in text) == (count == 25)
        assert min(count, 24) == text.count('<span style="width')
    group = protect().group_by("sex").report(["age", "visits"], epsilon=4)["f"]
    assert group.save(str(tmp_path / "page.html"), title="Women") == tmp_path / "page.html"
    text = (tmp_path / "page.html").read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert all(said in text for said in ("<h1>Women</h1>", "sex = f", "4-differential privacy for"))
    assert html_page(group, None) == html_page(Release.from_json(group.to_json()), None)
    for wrong, said in ((tmp_path / "nowhere" / "report.html", "no folder"), (3, "must be a file name")):
        with pytest.raises(ArgumentError, match=said):
            group.save(wrong)
