"""Dependence within one table: `dcor`, `dcor_screen` and `hsic`, against definitions; what they say and refuse."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor.spaces import sphere_constant, unit_vectors

COUNT = itertools.count()  # every table has an account of its own
HUGE = 10**5


@pytest.fixture(autouse=True)
def noise():
    """Noise from a seed, so that every run is the same."""
    with seeded_noise(1):
        yield


def protect(values, **said):
    """Protect columns of numbers between 0 and 1, or of categories, with much to spend."""
    frame = pd.DataFrame(values)
    bounds = {name: (0.0, 1.0) for name in frame if frame[name].dtype.kind in "fib"}
    known = {"epsilon": 10**6, "accounting": "basic", "ledger": "memory:", "bounds": bounds}
    known["categories"] = {name: ["a", "b", "c"] for name in frame if name not in bounds}
    return dp.protect(frame, f"within {next(COUNT)}", **{**known, **said})


def table(n=300, seed=1):
    """Rows with y a noisy function of x, others on their own, and categories."""
    rng = np.random.default_rng(seed)
    x, w, z, chance = rng.random((4, n))
    return {"x": x, "y": 0.9 * (2 * x - 1) ** 2 + 0.1 * chance, "w": w, "z": z, "g": rng.choice(["a", "b", "c"], n)}


def line(n=2000, slope=1.0):
    """Two columns that fill their bounds evenly, the second a part of the first."""
    x, other = np.linspace(0, 1, n), np.random.default_rng(0).permutation(n) / (n - 1)
    return {"x": x, "y": np.where(np.random.default_rng(1).random(n) < slope, x, other)}


def centred(a):
    """What is left of a matrix without the means of rows and columns."""
    return a - a.mean(axis=0) - a.mean(axis=1)[:, None] + a.mean()


def trace(a, b):
    """(n - 1)⁻² tr KHLH, by its definition."""
    return float((centred(a) * centred(b)).sum()) / (len(a) - 1) ** 2


def ratio(a, b):
    """The distance correlation of distances."""
    return math.sqrt(trace(a, b) / math.sqrt(trace(a, a) * trace(b, b)))


def apart(points, p=2):
    """Distances of all rows, in the norm that is asked for."""
    return np.linalg.norm(points[:, None, :] - points, ord=p, axis=2)


# Definitions


def projected(points, seed):
    """The estimate of Euclidean distances from a few directions."""
    units = unit_vectors(8, points.shape[1], seed)
    return sphere_constant(points.shape[1]) * apart(points @ units.T, 1) / len(units)


ROWS = table(60)
WX, GY = np.stack([ROWS["w"], ROWS["x"]], axis=1), np.stack([ROWS["z"], ROWS["y"]], axis=1)
UNEQUAL = (ROWS["g"][:, None] != ROWS["g"]).astype(float)


@pytest.mark.parametrize(
    ("x", "y", "metric", "a", "b"),
    [
        ("x", "y", "euclidean", apart(WX[:, 1:]), apart(GY[:, 1:])),
        (["w", "x"], ["z", "y"], "euclidean", apart(WX), apart(GY)),
        (["w", "x"], ["z", "y"], "l1", apart(WX, 1), apart(GY, 1)),
        (["w", "x"], ["z", "y"], "projected", projected(WX, 0), projected(GY, 1)),
        ("g", "y", "euclidean", UNEQUAL, apart(GY[:, 1:])),
    ],
)
def test_it_is_the_ratio_of_its_definition(x, y, metric, a, b):
    """Whatever the metric, with little noise R is that of the distances, within the interval."""
    found = protect(ROWS).dcor(x, y, metric=metric, directions=8, epsilon=HUGE)

    assert found.correlation == pytest.approx(ratio(a, b), rel=1e-3)
    assert found.low < ratio(a, b) < found.high < 1.01 * ratio(a, b)
    assert found.statistic == pytest.approx(60 * (59 / 60) ** 2 * trace(a, b) / a.mean() / b.mean(), rel=1e-2)
    sampling = a.mean() * b.mean() / 60 * (60 / 59) ** 2
    corrected = (trace(a, b) - sampling) / math.sqrt(trace(a, a) * trace(b, b))
    assert found.corrected == pytest.approx(max(corrected, 0), abs=2e-3)


def kernel_of(name, points, lengthscale):
    """The matrix of a kernel, by its formula."""
    if name == "gaussian":
        return np.exp(-((apart(points) / lengthscale) ** 2))
    if name == "laplace":
        return np.exp(-apart(points, 1) / lengthscale)
    return 1 - apart(points) / math.sqrt(points.shape[1])


@pytest.mark.parametrize(("kernel", "asked", "scale"), [
    ("gaussian", None, math.sqrt(2) / 6), ("gaussian", 0.6, 0.1), ("laplace", None, 2 / 6), ("laplace", 1.2, 0.2),
    ("distance", None, None),
])  # fmt: skip
def test_it_is_the_trace_of_its_definition(kernel, asked, scale):
    """HSIC of two columns with two others, and of two with themselves."""
    view = protect(ROWS)
    both = view.hsic(["w", "x"], ["z", "y"], kernel=kernel, lengthscale=asked, epsilon=HUGE)
    alone = view.hsic(["w", "x"], kernel=kernel, lengthscale=asked, epsilon=HUGE)
    k, own = (kernel_of(kernel, points, scale) for points in (WX, GY))

    assert trace(k, own) == pytest.approx(both.hsic, rel=1e-3)
    assert trace(k, k) == pytest.approx(alone.hsic, rel=1e-3)
    assert both.low < trace(k, own) < both.high < 1.01 * trace(k, own)
    assert (alone.pvalue, alone.rejected, alone.y) == (None, None, ())
    if kernel == "gaussian":  # of categories it is 1 for equal ones; a default lengthscale is of the other side
        found = view.hsic("x", "g", epsilon=HUGE)
        expected = trace(kernel_of("gaussian", WX[:, 1:], 1 / 6), 1 - UNEQUAL)
        assert expected == pytest.approx(found.hsic, rel=1e-3)


# Missing values


def test_rows_with_a_missing_value_are_left_out():
    """With next to no noise answers are those of the other rows; filled, they are not."""
    rng, rows = np.random.default_rng(1), table(2000)
    gone = rng.random(2000) < np.where(rows["x"] > 0.7, 0.8, 0.1)
    gappy = pd.DataFrame({"x": rows["x"], "y": np.where(gone, np.nan, rows["y"])})
    view, there = protect(gappy), protect(gappy.dropna())
    found, filled = (view.dcor("x", "y", nan_policy=policy, epsilon=HUGE) for policy in ("omit", "fill"))
    complete = there.dcor("x", "y", epsilon=HUGE)
    criteria = [each.hsic(*asked, epsilon=HUGE).hsic for each in (view, there) for asked in ("xy", "y")]
    wide = view.hsic("x", "y", epsilon=20)
    first = view.dcor_screen("y", top=1, estimate=True, epsilon=HUGE).estimates[0]

    assert complete.correlation == pytest.approx(found.correlation, abs=1e-4)
    assert complete.correlation == pytest.approx(first.correlation, abs=1e-3)
    assert complete.corrected == pytest.approx(found.corrected, abs=1e-4)
    assert complete.statistic == pytest.approx(found.statistic, rel=1e-3)
    assert criteria[:2] == pytest.approx(criteria[2:], rel=1e-3)
    assert wide.low < criteria[0] < wide.high
    assert abs(filled.correlation - found.correlation) > 0.05
    assert filled.missing is None
    assert found.missing == pytest.approx(gone.sum(), abs=0.5)
    assert found.missing_standard_error == pytest.approx(2000 * found.noise_standard_error[-1])
    assert "of the rows are left out" in found.notes[0]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999, 1.0])
@pytest.mark.parametrize("kind", ["x", "g"])
def test_any_share_of_gaps_is_counted(kind, share):
    """None, nearly none, some, nearly all and all: there are answers, and they say how many are missing."""
    rows = table(1000)
    gone = np.arange(1000) < share * 1000
    rows[kind] = np.where(gone, {"x": math.nan, "g": None}[kind], rows[kind])
    view = protect(rows) if kind == "x" else protect(rows, categories={"g": ["a", "b", "c"]})
    found = view.dcor(kind, "y", epsilon=100)
    plane = view.dcor([kind, "w"], "y", epsilon=5) if kind == "x" else found

    assert found.missing == pytest.approx(gone.sum(), abs=8 * found.missing_standard_error)
    assert (share > 0) == any("left out" in note for note in found.notes)
    assert 0 <= plane.low <= plane.high <= 1


def test_values_that_are_missing_together_are_no_dependence():
    """Independent columns, three tenths of whose rows lack both: they depend if filled, and not if left out."""
    rng = np.random.default_rng(3)
    values, gone = rng.random((2, 3000)) ** 3, rng.random(3000) < 0.3
    view = protect(dict(zip("xy", np.where(gone, np.nan, values), strict=True)))
    filled, found = (view.dcor("x", "y", nan_policy=policy, epsilon=20) for policy in ("fill", "omit"))

    assert filled.pvalue < 1e-6
    assert found.pvalue > 0.05
    rows, said = {"g": rng.choice(["a", None], 500), "y": rng.random(500)}, {"categories": {"g": ["a"]}}
    declared = protect(rows, **said, missing={"g": "other"}).dcor("g", "y", epsilon=50)  # no category is one
    without = protect(rows, **said).dcor("g", "y", epsilon=50)
    assert abs(declared.missing) < 8 * declared.missing_standard_error
    assert not declared.notes
    assert without.missing == pytest.approx(pd.isna(rows["g"]).sum(), abs=8 * without.missing_standard_error)
    assert "uninformative" in without.notes[0]  # one category is left


# Answers


def test_decisions_are_at_the_level_asked(plt):
    """`alpha` in, `rejected` out; by default .05, and the p-value is as small as ten tests need."""
    dependent, independent = line(500), line(500, slope=0.0)
    whole = protect(line()).dcor("x", "y", epsilon=2)
    yes, no = (protect(each).dcor("x", "y", alpha=0.01, epsilon=20) for each in (dependent, independent))
    screened = protect(line()).dcor_screen("x", ["y"], top=1, estimate=True, alpha=0.001, epsilon=5)

    assert whole.pvalue < 0.001 / 10
    decided = [(each.rejected, each.alpha) for each in (whole, yes, no, *screened.estimates)]
    assert decided == [(True, 0.05), (True, 0.01), (False, 0.01), (True, 0.001)]
    assert "rejected" in repr(yes)
    criterion = protect(dependent).hsic("x", epsilon=10)
    for each, value in ((yes, yes.correlation), (criterion, criterion.hsic)):
        interval, estimate, *_ = each.plot().lines
        assert [*interval.get_xdata(), *estimate.get_xdata()] == [each.low, each.high, value]


def test_screening_finds_what_matters():
    """The column that y depends on comes first, with its estimate if asked for."""
    found = protect(table(1000)).dcor_screen("y", top=1, estimate=True, epsilon=20)
    few = protect(table(1000)).dcor_screen("y", ["z", "x", "w"], top=3, epsilon=1000)

    assert found.features == ("x",)
    assert set(found.candidates) == {"x", "w", "z", "g"}
    assert found.estimates[0].correlation > 0.3
    assert (few.features[0], set(few.features), few.estimates) == ("x", {"x", "w", "z"}, ())


def test_booleans_near_one_half_are_informative():
    """Halves of a table in either category, as numbers or as categories: nothing is called uninformative."""
    rng = np.random.default_rng(3)
    a = rng.random(2000) < 0.5
    values = {"x": a, "y": a ^ (rng.random(2000) < 0.1)}
    as_categories = protect(values, bounds={}, categories={"x": [False, True], "y": [False, True]})
    found = [view.dcor("x", "y", epsilon=5, fresh=True) for view in (protect(values), as_categories) * 5]

    assert not any(each.notes for each in found)
    assert max(abs(each.correlation - 0.8) for each in found) < 0.05


def test_a_plan_says_how_wide_the_interval_will_be():
    """For columns that fill their bounds, ends of intervals are near those that `explain` gives."""
    view = protect(line(slope=0.9))
    said = view.explain("dcor", "x", "y", epsilon=2).findings
    found = [view.dcor("x", "y", epsilon=2, fresh=True) for _ in range(25)]
    low, high = (float(end) for end in next(text for key, text in said.items() if "of 0.9" in key).split(" to "))

    assert low == pytest.approx(np.mean([each.low for each in found]), abs=0.05)
    assert high == pytest.approx(np.mean([each.high for each in found]), abs=0.05)
    intervals = [f"interval for a distance correlation of {truth}" for truth in (0.1, 0.5, 0.9)]
    assert ["assumed", *intervals] == list(said)
    hardly = protect(line(50)).explain("dcor", "x", "y", epsilon=0.01).findings
    assert {hardly[each] for each in intervals} == {"0.00 to 1.00"}


def test_a_sine_of_many_periods_is_seen_by_a_kernel():
    """And by distances hardly: at n = 1000 and ε = 1 the p-value is below that of `dcor`."""
    x = np.linspace(0, 1, 1000)
    view = protect({"x": x, "y": (1 + np.sin(10 * np.pi * x)) / 2})
    kernel, distance = view.hsic("x", "y", lengthscale=0.5, epsilon=1), view.dcor("x", "y", epsilon=1)

    assert kernel.pvalue < 1e-3 < distance.pvalue
    assert kernel.rejected


@pytest.mark.parametrize("spoil", [0.5, np.nan, np.inf])
def test_what_hardly_varies_is_called_uninformative(spoil):
    """A column of one value, of none, and of infinite ones, alone and with others, which are answered."""
    view = protect({**table(200), "x": np.full(200, spoil)})
    found = view.dcor("x", "y", epsilon=1), view.hsic("x", epsilon=1), view.hsic("x", "y", epsilon=1)
    view.dcor(["x", "w"], "y", epsilon=1)
    view.dcor_screen("y", top=1, estimate=True, epsilon=1)

    assert all("uninformative" in each.notes[0] for each in found)
    x = np.linspace(0.35, 0.65, 6000)
    clear = protect({"x": x, "y": x}).dcor("x", "y", epsilon=0.1)  # the noise hides only how strong it is
    assert clear.rejected
    assert clear.notes[0].startswith("the strength of the association is unknown")
    assert str(clear).startswith("x is associated with y")


# What is refused, before any charge


@pytest.mark.parametrize(
    ("method", "arguments", "said"),
    [
        ("dcor", {"x": "x", "y": "x"}, "both in x and in y"),
        ("dcor", {"metric": "magic"}, "unknown"),
        ("dcor", {"alpha": 0}, "between 0 and 1"),
        ("dcor", {"confidence": 2}, "between 0 and 1"),
        ("dcor", {"confidence": True}, "between 0 and 1"),
        ("dcor", {"nan_policy": "raise"}, "would reveal whether"),
        ("dcor", {"x": ["x", "g"]}, "categories"),
        ("dcor", {"x": []}, "at least one"),
        ("dcor", {"x": ["x", "x"]}, "each once"),
        ("dcor", {"metric": "discrete"}, "takes one column with categories"),
        ("dcor", {"directions": 0}, "directions"),
        ("dcor_screen", {"target": "y", "top": 9}, "exceeds the number of columns"),
        ("dcor_screen", {"target": "y", "top": 1, "features": ["x", "x"]}, "each once"),
        ("dcor_screen", {"target": ["x", "y"], "top": 1}, "one column"),
        ("hsic", {"kernel": "matern"}, "kernel"),
        ("hsic", {"lengthscale": 0}, "lengthscale"),
        ("hsic", {"lengthscale": math.nan}, "lengthscale"),
        ("hsic", {"kernel": "distance", "lengthscale": 1.0}, "no lengthscale"),
        ("hsic", {"y": "x"}, "both in x and in y"),
        ("hsic", {"nan_policy": "raise"}, "private"),
        ("hsic", {"y": ["y", "g"]}, "categories"),
    ],
)
def test_what_cannot_be_asked_is_refused(method, arguments, said):
    """Whatever is wrong, nothing is charged."""
    view = protect(table(20))
    asked = arguments if method == "dcor_screen" else {"x": "x", "y": "y", **arguments}

    with pytest.raises(dp.DPError, match=said):
        getattr(view, method)(**asked, epsilon=1)
    assert view.budget.spent == 0


def test_rows_that_cannot_be_asked_are_refused():
    """A private number, few, more than all pairs can be taken of, and all public; others are answered."""
    for rows, terms, said in (
        (20, {"neighbors": "add_remove"}, "public number of rows"),
        (3, {}, "4 rows or more"),
        (20_001, {}, "too many to compute all pairs"),
        (20, {"public": ["x", "y", "w"]}, "All named columns are public"),
    ):
        view = protect({name: np.linspace(0, 1, rows) for name in "xyw"}, **terms)
        with pytest.raises(dp.ArgumentError, match=said):
            view.dcor(["x", "w"], "y", epsilon=1)
        assert view.budget.spent == 0
    few, many = (protect({name: np.linspace(0, 1, n) for name in "xyw"}) for n in (4, 20_001))
    assert few.dcor("x", "y", epsilon=1).rows == 4
    assert many.dcor(["x", "w"], "y", metric="l1", epsilon=100).correlation > 0.9
