"""What intervals cover: the table's own number, of values as they are or limited to bounds; and what is said."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dfprivacy.testing import seeded_noise
from dfprivacy_eda.bounds import EDGES, reached, rows_beyond, sums_exceeded
from dfprivacy_eda.profile import cuts, within_reach

pytestmark = pytest.mark.pandas

ROWS, HIGH = 3000, 60_000.0


def data():
    """Incomes, of which about one in five lies above the bound, values on a grid, and a region."""
    rng = np.random.default_rng(3)
    income = rng.lognormal(10, 1.2, ROWS)
    return pd.DataFrame(
        {"income": income, "age": rng.integers(18, 91, ROWS) * 1.0, "region": ["n", "s", "e"] * 1000}
    )


FRAME = data()
LIMITED = FRAME.assign(income=FRAME["income"].clip(upper=HIGH))
SAID = {"bounds": {"income": (0, HIGH), "age": (18, 90)}, "categories": {"region": ["n", "s", "e"]}}
PAIR = ["income", "age"]
ASKED = {
    "mean": (lambda v: v.mean("income", epsilon=10**5), "limited table", lambda t: t["income"].mean()),
    "sum": (lambda v: v.sum("income", epsilon=10**5), "limited table", lambda t: t["income"].sum()),
    "var": (lambda v: v.var("income", epsilon=10**5), "limited table", lambda t: t["income"].var()),
    "std": (lambda v: v.std("income", epsilon=10**5), "limited table", lambda t: t["income"].std()),
    "count": (lambda v: v.where(region="n").count(epsilon=10**5), "table", lambda t: (t["region"] == "n").sum()),
    "missing": (lambda v: v.missing("income", epsilon=10**5), "table", lambda t: t["income"].isna().sum()),
    "nunique": (lambda v: v.nunique("income", epsilon=10**5), "limited table", lambda t: t["income"].nunique()),
    "labels": (lambda v: v.nunique("region", epsilon=10**5), "table", lambda t: t["region"].nunique()),
    "25%": (
        lambda v: v.quantile("age", [0.25], covers="table", epsilon=10**5),
        "table",
        lambda t: t["age"].quantile(0.25),
    ),
    "corr": (lambda v: v.corr(PAIR, epsilon=10**5), "limited table", lambda t: t[PAIR].corr().iloc[0, 1]),
    "cov": (lambda v: v.cov(PAIR, epsilon=10**5), "limited table", lambda t: t[PAIR].cov().iloc[0, 1]),
    "value_counts": (
        lambda v: v.value_counts("region", epsilon=10**5),
        "table",
        lambda t: t["region"].value_counts().max(),
    ),
    "histogram": (lambda v: v.histogram("income", [0, 3e4, 6e4], epsilon=10**5), "limited table",
                  lambda t: ((t["income"] >= 3e4) & (t["income"] <= HIGH)).sum()),
    "agg": (lambda v: v.agg({"income": "mean"}, epsilon=10**5), "limited table", lambda t: t["income"].mean()),
    "describe": (lambda v: v.describe(["income"], epsilon=10**5), "limited table", lambda t: t["income"].mean()),
}  # fmt: skip
AT = {"corr": 1, "cov": 1, "histogram": 1, "describe": 2}  # the row of the tidy table that is compared


@pytest.mark.parametrize("name", ASKED)
def test_what_is_covered(name, protect):
    """With hardly any noise the interval holds pandas' own number, of limited values where that is said."""
    ask, covers, truth = ASKED[name]

    found = ask(protect(FRAME, **SAID))

    row = found.records()[AT.get(name, 0)]
    room = 1e-3 * abs(truth(LIMITED)) + (0.5 if name == "25%" else 0)  # ends lie on a grid
    assert covers == found.covers
    assert covers == row["covers"]
    assert row["low"] - room <= truth(LIMITED) <= row["high"] + room
    if covers == "table":
        assert row["low"] - room <= truth(FRAME) <= row["high"] + room
    elif name not in {"histogram", "corr"}:
        assert not row["low"] - room <= truth(FRAME) <= row["high"] + room


LOOKS = {
    "text": repr,
    "page": lambda found: found._repr_html_().replace("&#x27;", "'"),
    "summary": lambda found: " ".join(found.summary().split()),
    "markdown": lambda found: found.to_markdown().replace("\\", ""),
}


@pytest.mark.parametrize("look", LOOKS)
def test_it_is_said(look, protect):
    """Every look says what is covered; a quantile at a bound says that it may lie beyond."""
    view, write = protect(FRAME, **SAID), LOOKS[look]

    def of(*answers):
        return [write(answer) for answer in answers]

    table, people = of(*(view.mean("income", covers=covers, epsilon=10) for covers in ("table", "population")))
    alone, few, several = of(
        view.quantile("income", 0.95, epsilon=10),
        view.quantile("income", [0.5, 0.95], epsilon=10),
        view.quantile("income", [0.5, 0.95], covers="table", epsilon=10),
    )
    whole, named = of(view.describe(["income"], epsilon=50), view.agg({"income": ["95%", "mean"]}, epsilon=50))

    assert "this table, values limited to [0, 60,000]" in table
    assert "the population, values limited to [0, 60,000]" in people
    assert "The mean of income limited to [0, 60,000] is" in table
    assert "The quantile 0.95 of income is 60,000 or more." in alone
    assert "the 95% quantile is 60,000 or more." in few.replace("\n", " ")
    assert "the 95% quantile is 60,000 or more (95% CI 60,000 or more)" in several.replace("\n", " ")
    assert "values limited to their bounds" in whole
    assert "60,000 or more" in named
    assert not any("60,000 to 60,000" in text for text in (table, people, alone, few, several, whole, named))


def test_a_quartile_at_a_bound(protect):
    """So it is in a description, and at the lower bound; a number of rows is never beyond."""
    frame = pd.DataFrame({"x": np.repeat([-5.0, 3.0, 40.0], [500, 300, 700])})

    text = repr(protect(frame, bounds={"x": (0, 10)}, categories={}).describe(epsilon=100))

    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "0 or less" in rows["25%"]
    assert "10 or more" in rows["75%"]
    assert "or" not in rows["count"].split()


@pytest.mark.parametrize(
    "ask",
    [
        lambda v: v.median("x", epsilon=0.1),
        lambda v: v.quantile("x", 0.9, epsilon=0.01),
        lambda v: v.quantile("x", [0.5], epsilon=50),
        lambda v: v.quantile("x", [0.5], covers="table", epsilon=50),
        lambda v: v.std("x", epsilon=1e-4),
        lambda v: v.group_by("g").median("x", epsilon=1),
    ],
)
@pytest.mark.parametrize(
    "x", [np.random.default_rng(0).normal(0, 1, 1000), np.ones(1000)], ids=["normal", "one value"]
)
def test_what_is_private_is_not_called_public(ask, x, protect):
    """Neither an answer without an interval, nor one whose interval is one point, was measured without noise."""
    view = protect(
        pd.DataFrame({"x": x, "g": ["a", "b"] * 500}), bounds={"x": (-4, 4)}, categories={"g": ["a", "b"]}
    )

    assert "public" not in repr(ask(view))


@pytest.mark.parametrize("name", ["mean", "sum", "count"])
def test_what_is_public_is_said_exactly(name, protect):
    """A number of a public column, measured without noise."""
    view = protect(FRAME, **SAID, public=["age"])

    found = getattr(view, name)("age", epsilon=1)

    assert (FRAME["age"].agg(name), ()) == (pytest.approx(found.value), found.privacy.noise)
    assert "exact: it follows from public columns" in repr(found).replace("\n", " ")


# Bounds that are found


def spread_out(n, seed):
    """Values over many powers of two, each with few rows, below a peak."""
    rng = np.random.default_rng(seed)
    few = int(0.45 * n)
    return np.r_[2.0 ** rng.uniform(-10, 0, few), rng.uniform(8, 16, n - few)]


@pytest.mark.parametrize("law", ["powers", "lognormal", "t3"])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_what_lies_beyond_is_said(law, neighbors, protect):
    """Of 40 releases no more than 12 have more rows beyond than they say (one in 20 may: P < 10⁻⁶)."""
    missed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = {
            "powers": spread_out(2000, seed),
            "lognormal": rng.lognormal(0, 1.5, 2000),
            "t3": rng.standard_t(3, 2000),
        }
        view = protect(pd.DataFrame({"x": x[law]}), bounds={}, categories={}, neighbors=neighbors)
        with seeded_noise(seed):
            found = view.find_bounds("x", epsilon=0.25)
        low, high = found["x"]
        missed += ((x[law] < low) | (x[law] > high)).sum() > found.beyond[0]
        assert f"at most {found.beyond[0]:,.0f} rows beyond" in repr(found)
        if law == "powers":
            assert low <= 1 / 32  # no interval there holds more rows than the threshold
    assert missed <= 12


def test_a_profile_says_what_lies_beyond(protect):
    """It searches as `find_bounds` does, beyond what it has seen, and says how many rows are not within."""
    x, missed, alone = spread_out(20_000, 1), 0, 0
    view = protect(pd.DataFrame({"x": x}), bounds={}, categories={}, delta=1e-3, epsilon=100)
    for seed in range(20):
        with seeded_noise(seed):
            found = view.profile("x", epsilon=0.4 + seed / 1000, delta=1e-6)
        beyond = ((x < found.low[0]) | (x > found.high[0])).sum()
        missed += beyond > found.beyond[0]
        alone += found.low[0] < 1 / 512
    assert missed <= 9
    assert alone >= 18
    assert f"with at most {found.beyond[0]:,.0f} rows beyond (at 95%)" in repr(found)


def test_a_profile_reaches_beyond_what_was_seen():
    """Intervals below the threshold that together clearly hold rows are within; the others' rows are bounded."""
    x = spread_out(2000, 1)
    edges, first = cuts((8.0, 16.0))
    counts = np.histogram(x, edges)[0].astype(float)

    low, high, beyond, mean, *_ = within_reach((8.0, 16.0), counts, 12.0, 1, None)
    alone = within_reach((8.0, 16.0), counts, 1e3, 1, 2000)

    assert counts[:first].max() < 12 * 9
    assert low <= 1 / 512
    assert 16 == high
    assert ((x < low) | (x > high)).sum() < beyond < 12 * 1.645 * math.sqrt(len(counts))
    assert x[x > low].mean() == pytest.approx(mean, rel=0.05)
    assert (8.0, 16.0, 2000) == alone[:3]


def test_runs_of_empty_intervals_do_not_pass():
    """In 40,000 tables of noise alone, where 10⁻⁴ each may, no more than 25 do (P < 10⁻⁶)."""
    limits, rng = sums_exceeded(1.0, 1), np.random.default_rng(1)
    noise = rng.laplace(size=(40_000, len(EDGES) - 1))
    sums = np.cumsum(np.pad(noise, ((0, 0), (1, 0))), axis=1)
    passed = [((sums[:, m:] - sums[:, :-m]) > limits[m - 1]).any(axis=1) for m in range(1, len(limits) + 1)]

    assert np.any(passed, axis=0).sum() <= 25
    assert 0 == reached(noise[0], limits)
    assert (np.diff(limits) > 0).all()
    assert (1.645, 7) == (rows_beyond(np.array([-50.0]), 1.0, 7), rows_beyond(np.array([50.0]), 1.0, 7))
