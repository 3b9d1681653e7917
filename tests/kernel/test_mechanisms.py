"""``view.kernel_two_sample`` and ``view.kernel_message`` through the whole house."""

# ruff: noqa: SIM300 - no pandas here; expected == actual

from __future__ import annotations

import itertools
import json
import math

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from statsmodels.datasets import fair

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

mpl.use("Agg")
NAMES = (f"kernel-{number}" for number in itertools.count())
PLENTY = 10**5  # an epsilon at which the noise is far smaller than what sampling leaves open
METHODS = ("mmd", "permutation", "moments", "whitened")
FEW = {"n_locations": 20, "n_permutations": 99}

rng = np.random.default_rng(20_260_701)
ROWS = 1200
TABLE = {
    "x": rng.normal(size=ROWS),
    "y": rng.normal(size=ROWS),
    "arm": np.repeat(["drug", "placebo"], ROWS // 2),
    "home": rng.choice(["north", "south"], ROWS),
}
WIDER = {**TABLE, "x": np.where(TABLE["arm"] == "drug", 1.8, 1.0) * TABLE["x"]}
TERMS = {
    "bounds": {"x": (-4, 4), "y": (-4, 4)},
    "categories": {"arm": ["drug", "placebo"], "home": ["north", "south"]},
}


def protect(table=TABLE, engine=pd.DataFrame, **terms):
    return dp.protect(
        engine(table),
        next(NAMES),
        **{"epsilon": 10**6, "delta": 1e-3, "accounting": "basic", "ledger": "memory:", **TERMS, **terms},
    )


def arms(table, **terms):
    """The two arms as two data sets."""
    frame = pd.DataFrame(table)
    return [protect(part.reset_index(drop=True), **terms) for _, part in frame.groupby("arm")]


# They find what there is to find, and not more.


@pytest.mark.parametrize("method", METHODS)
def test_a_difference_is_found(method):
    """Each method rejects where one sample varies nearly twice as much, and not where both are alike."""
    with seeded_noise(1):
        found = [
            protect(table, public=["arm"]).kernel_two_sample(
                ["x", "y"], by="arm", method=method, epsilon=5, delta=1e-5, **FEW
            )
            for table in (WIDER, TABLE)
        ]

    assert [True, False] == [test.rejected for test in found]
    assert [method in {"permutation", "whitened"}] * 2 == [test.pvalue is None for test in found]


@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}], ids=["replace_one", "add_remove"])
def test_groups_may_be_private(terms):
    """Where a row may change its group, come or go, the default finds the difference too, and sizes are noisy."""
    with seeded_noise(2):
        test = protect(WIDER, **terms).kernel_two_sample(["x", "y"], by="arm", epsilon=10, n_locations=20)

    assert test.pvalue < 0.01
    assert all(0 < abs(size - ROWS / 2) < 50 for size in test.sizes)
    assert test.mmd2 > 0


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame, pl.LazyFrame], ids=["pandas", "polars", "lazy"])
def test_every_engine_gives_the_same(engine):
    """The answer does not depend on the library that holds the table."""
    with seeded_noise(3):
        test = protect(WIDER, engine, public=["arm"]).kernel_two_sample(
            ["x", "y"], by="arm", epsilon=1, n_locations=20
        )
    with seeded_noise(3):
        same = protect(WIDER, public=["arm"]).kernel_two_sample(["x", "y"], by="arm", epsilon=1, n_locations=20)

    assert (same.pvalue, same.statistic) == (test.pvalue, test.statistic)


@pytest.mark.parametrize("method", METHODS)
def test_two_views_are_compared_as_two_groups(method):
    """Two data sets give the answer of one table with a public column, and both pay."""
    asked = {"method": method, "epsilon": 1, "delta": 1e-5, **FEW}
    one, two = arms(WIDER)
    with seeded_noise(4):
        together = one.kernel_two_sample(["x", "y"], other=two, **asked)
    with seeded_noise(4):
        grouped = protect(WIDER, public=["arm"]).kernel_two_sample(["x", "y"], by="arm", **asked)

    assert (grouped.rejected, grouped.pvalue, grouped.statistic) == (
        together.rejected,
        together.pvalue,
        together.statistic,
    )
    assert (one.name, two.name) == together.groups
    assert one.budget.remaining == two.budget.remaining == 10**6 - 1


def test_without_noise_it_is_the_test_without_privacy():
    """At a large epsilon, the statistic is the MMD itself, and the permutation test decides as without noise."""
    view = protect(WIDER, public=["arm"])
    rows = np.stack([WIDER["x"], WIDER["y"]], axis=1).clip(-4, 4) * 3 / 4  # in sixths of the bounds' widths
    half = ROWS // 2
    locations = np.stack([WIDER["x"][::12], WIDER["y"][::12]], axis=1).clip(-4, 4)

    test = view.kernel_two_sample(["x", "y"], by="arm", epsilon=PLENTY, locations=locations.tolist())

    kernel = np.exp(-((rows[:, None] - rows[None]) ** 2).sum(-1) / 2)
    signs = np.repeat([1 / half, -1 / half], half)
    assert math.sqrt(signs @ kernel @ signs) == pytest.approx(test.statistic, rel=0.01)
    assert view.kernel_two_sample(["x", "y"], by="arm", epsilon=PLENTY, method="permutation", **FEW).rejected


# Methods of their own


def test_a_pvalue_of_the_permutation_test_costs_twice_the_noise():
    """The decision comes without a p-value, and says so; with one, the noise is twice as large."""
    view = protect(WIDER, public=["arm"])
    asked = {"by": "arm", "method": "permutation", "epsilon": 5, **FEW}

    plain, paid = (view.kernel_two_sample(["x"], **asked, pvalue=pvalue) for pvalue in (False, True))

    assert plain.pvalue is None
    assert "Only the decision was paid for" in plain.notes[0]
    assert 0.01 == paid.pvalue
    assert 2 * plain.privacy.noise[0].scale == pytest.approx(paid.privacy.noise[0].scale, rel=1e-6)


def test_moments_say_where(tmp_path):
    """The moments test gives the witness function at its locations, and draws it with its noise."""
    view = protect(WIDER, public=["arm"])
    at = [[-3.0], [0.0], [3.0]]
    with seeded_noise(5):
        test = view.kernel_two_sample(["x"], by="arm", method="moments", locations=at, epsilon=10, delta=1e-5)

    first, second = (
        np.exp(-((WIDER["x"][WIDER["arm"] == arm, None] - np.array(at).T) ** 2) * 9 / 16).mean(axis=0)
        for arm in ("drug", "placebo")
    )
    axes = test.plot()
    axes.figure.savefig(tmp_path / "witness.png")
    assert (((-3.0,), (0.0,), (3.0,))) == test.locations
    assert np.allclose(first - second, test.differences, atol=6 * test.noise_standard_error + 1e-3)
    assert test.noise_standard_error < min(test.standard_errors)
    assert (tmp_path / "witness.png").stat().st_size > 1000


def test_the_default_has_a_picture():
    """It looks nowhere in particular: the picture is of the discrepancy, its interval and its noise."""
    test = protect(public=["arm"]).kernel_two_sample(["x"], by="arm", epsilon=1, n_locations=5)

    ax = test.plot()

    assert ax.get_xlabel() == "maximum mean discrepancy of x"
    assert {"95% CI, noise included", "estimate"} <= {line.get_label() for line in ax.get_lines()}


@pytest.mark.parametrize("features", ["me", "scf", "nystrom"])
def test_moments_of_all_features(features):
    """Moments of kernel values, of cosines and sines, and of projections find the difference."""
    view = protect(WIDER, public=["arm"])

    with seeded_noise(6):
        test = view.kernel_two_sample(
            ["x", "y"], by="arm", method="moments", features=features, epsilon=10, delta=1e-5
        )

    assert test.pvalue < 0.01
    assert 0 < test.privacy.delta <= 1e-5


def test_messages_are_compared_elsewhere():
    """Two parties' messages, saved as text and read elsewhere, give a test of both."""
    one, two = arms(WIDER)
    with seeded_noise(7):
        saved = [
            json.dumps(view.kernel_message(["x", "y"], epsilon=5, delta=1e-5).to_dict()) for view in (one, two)
        ]

    first, second = (dp.Release.from_dict(json.loads(text)) for text in saved)
    test = first.test(second, alpha=0.01)

    assert test.rejected
    assert test.pvalue < 0.01
    assert one.budget.remaining == 10**6 - 5


def test_messages_must_fit_together():
    """Messages about other columns, locations or bounds cannot be compared; the error says in what they differ."""
    view = protect()
    message = view.kernel_message(["x"], epsilon=1, delta=1e-5)
    others = {
        "columns": view.kernel_message(["y"], epsilon=1, delta=1e-5),
        "locations": view.kernel_message(["x"], n_locations=4, epsilon=1, delta=1e-5),
        "lengthscales": view.kernel_message(["x"], lengthscale=2, epsilon=1, delta=1e-5),
        "domains": protect(bounds={"x": (-5, 5)}).kernel_message(["x"], epsilon=1, delta=1e-5),
    }

    for said, other in others.items():
        with pytest.raises(dp.ArgumentError, match=said):
            message.test(other)
    with pytest.raises(dp.ArgumentError, match="no message"):
        message.test("message")


@pytest.mark.parametrize("method", ["mmd", "permutation", "moments"])
def test_pairs(method):
    """Pairs of rows, that say the same but for a small shift, are told apart where unpaired rows would not be."""
    one, two = (protect({**TABLE, "x": TABLE["x"] + shift}) for shift in (0.0, 0.25))
    asked = {"method": method, "epsilon": 20, "delta": 1e-5, "n_permutations": 99}
    with seeded_noise(8):
        test = one.kernel_two_sample(["x"], other=two, paired=True, **asked)
        null = one.kernel_two_sample(["x"], other=protect(), paired=True, **asked)

    assert [True, False] == [test.rejected, null.rejected]


def test_groups_of_any_size_cost_what_one_costs():
    """By a public column, whose groups are not alike in size and split, all answers together cost one price."""
    site = np.where(np.arange(ROWS) < ROWS // 5, "small", "large")
    arm = np.where(np.arange(ROWS) % 7 == 0, "drug", "placebo")
    arm[: ROWS // 5] = np.where(np.arange(ROWS // 5) % 2, "drug", "placebo")
    known = {"arm": ["drug", "placebo"], "site": ["small", "large"]}
    for policy in ("fill", "omit"):
        view = protect({**TABLE, "site": site, "arm": arm}, categories=known, public=["arm", "site"])
        explained = view.group_by("site").explain(
            "kernel_two_sample", ["x"], by="arm", epsilon=10, n_locations=5, nan_policy=policy
        )
        tests = view.group_by("site").kernel_two_sample(
            ["x"], by="arm", epsilon=10, n_locations=5, nan_policy=policy
        )

        assert 10**6 - 10 == view.budget.remaining
        expected = explained.findings["expected standard error from noise"]
        assert any(0.75 < tests[each].noise_standard_error / expected < 1.25 for each in known["site"])


def test_mixed_rows():
    """A difference in a category alone is found with the category, and not without it."""
    homes = np.where(TABLE["arm"] == "drug", rng.choice(["north", "south"], ROWS, p=[0.85, 0.15]), TABLE["home"])
    view = protect({**TABLE, "home": homes}, public=["arm"])
    with seeded_noise(9):
        plain, mixed, alone = (
            view.kernel_two_sample(columns, by="arm", epsilon=5, n_locations=60, **more)
            for columns, more in ((["x"], {}), (["x"], {"categories": ["home"]}), ([], {"categories": ["home"]}))
        )

    assert [False, True, True] == [test.rejected for test in (plain, mixed, alone)]


def test_lengthscales():
    """A robust kernel is the mean of two: its features are nearer to each other than those of the narrower."""
    view = protect(WIDER, public=["arm"])
    with seeded_noise(10):
        robust, one = (
            view.kernel_two_sample(["x", "y"], by="arm", lengthscale=lengthscale, epsilon=5, n_locations=20)
            for lengthscale in ("robust", 1.4)
        )

    assert max(robust.pvalue, one.pvalue) < 0.01
    assert 2 == len(robust.lengthscales)
    assert robust.statistic < one.statistic


def test_any_other_interval_is_free():
    """The interval of the MMD covers its estimate, and another level costs nothing."""
    test = protect(WIDER, public=["arm"]).kernel_two_sample(["x", "y"], by="arm", epsilon=5, n_locations=20)

    wide, narrow = test.confidence_interval(0.99), test.confidence_interval(0.5)

    assert wide.low <= test.low <= narrow.low <= math.sqrt(test.mmd2) <= narrow.high <= test.high <= wide.high
    with pytest.raises(dp.ArgumentError, match="confidence_level"):
        test.confidence_interval(1.0)


def test_the_noise_of_the_statistic_is_that_of_the_measurement():
    """What is measured is in units of the larger part of the rows, a half here."""
    test = protect(WIDER, public=["arm"]).kernel_two_sample(
        ["x", "y"], by="arm", epsilon=5, n_locations=20, nan_policy="fill"
    )

    scale = test.privacy.noise[1].scale * 2 / ROWS
    assert test.noise_standard_error == pytest.approx(math.sqrt(2) * scale, rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_explanations_cost_nothing(method):
    """Each method explains what it would measure, without a charge."""
    view = protect(public=["arm"], epsilon=3)

    said = view.explain("kernel_two_sample", ["x"], by="arm", method=method, epsilon=1, delta=1e-5, **FEW)

    assert {"mmd": 2}.get(method, 1) == len(said.measurements)
    assert 3 == view.budget.remaining


# A survey: two arms of it


def test_two_arms_of_a_survey():
    """Childless couples of a survey answer otherwise than others do, and not otherwise than themselves halved."""
    survey = fair.load_pandas().data
    columns = ["age", "religious", "educ", "rate_marriage"]
    frame = survey[columns].assign(arm=np.where(survey["children"] > 0, "parents", "childless"))
    half = np.random.default_rng(11).permutation(len(frame)) % 2
    terms = {
        "bounds": {"age": (15, 60), "religious": (1, 4), "educ": (8, 22), "rate_marriage": (1, 5)},
        "categories": {"arm": ["parents", "childless"], "half": [0, 1]},
    }
    view = protect(frame.assign(half=half), **terms, public=["arm", "half"])

    with seeded_noise(12):
        by_arm = view.kernel_two_sample(columns, by="arm", epsilon=0.5)
        by_half = view.kernel_two_sample(columns, by="half", epsilon=0.5)
        where = view.kernel_two_sample(["age"], by="arm", method="moments", epsilon=0.5, delta=1e-6)

    assert by_arm.pvalue < 1e-6
    assert by_half.pvalue > 0.01
    assert where.pvalue < 1e-6
    assert by_arm.privacy.epsilon <= 0.5


# What cannot be asked


REFUSED = {
    "no groups": ({}, "by= or other="),
    "three groups": ({"by": "arm", "groups": ["drug"]}, "compares two groups"),
    "same group": ({"by": "arm", "groups": ["drug", "drug"]}, "compares two groups"),
    "method": ({"by": "arm", "method": "tcs"}, "method='tcs' is unknown"),
    "features": ({"by": "arm", "features": "rff"}, "features='rff' is unknown"),
    "alpha 0": ({"by": "arm", "alpha": 0}, "alpha=0 is not between 0 and 1"),
    "alpha 1": ({"by": "arm", "alpha": 1.0}, "alpha=1.0 is not between 0 and 1"),
    "alpha text": ({"by": "arm", "alpha": "5%"}, "alpha='5%'"),
    "few permutations": (
        {"by": "arm", "method": "permutation", "n_permutations": 18},
        "never reject at level 0.05",
    ),
    "permutations": ({"by": "arm", "n_permutations": 2.5}, "n_permutations=2.5"),
    "locations": ({"by": "arm", "locations": [[9.0]]}, "outside the bounds"),
    "location shape": ({"by": "arm", "locations": [[0.0, 1.0]]}, "has 2 values"),
    "lengthscale": ({"by": "arm", "lengthscale": -1}, "must be positive"),
    "lengthscales": ({"by": "arm", "lengthscale": [1, 2]}, "lengthscale"),
    "tiny lengthscale": ({"by": "arm", "lengthscale": 1e-9}, "too small"),
    "moments kernels": ({"by": "arm", "method": "moments", "lengthscale": "robust"}, "one lengthscale"),
    "paired text": ({"by": "arm", "paired": "yes"}, "neither True nor False"),
    "paired": ({"by": "arm", "paired": True}, "rows of two tables"),
    "pvalue": ({"by": "arm", "pvalue": True}, "its p-value anyway"),
    "mismatch": ({"by": "arm", "categories": ["home"], "mismatch": 1.0}, "mismatch"),
    "scf": ({"by": "arm", "features": "scf", "categories": ["home"]}, "columns with bounds only"),
    "itself": ({"by": "arm", "categories": ["arm"]}, "among what is compared"),
    "no delta": ({"by": "arm", "method": "moments", "delta": 0}, "delta above zero"),
    "confidence": ({"by": "arm", "confidence": 95}, "confidence=95"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_asked_is_refused(case):
    """Each bad argument is refused before any charge, and the error says what is wrong."""
    asked, said = REFUSED[case]
    view = protect(public=["arm"])

    with pytest.raises(dp.ArgumentError, match=said):
        view.kernel_two_sample(["x"], **{"epsilon": 1, "delta": 1e-6, **asked})

    assert 10**6 == view.budget.remaining


@pytest.mark.parametrize("method", ["permutation", "whitened", "moments"])
@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}], ids=["flips", "comes and goes"])
def test_private_groups_are_for_the_default(method, terms):
    """The other methods need sizes that are public: they refuse the rest, and name the default."""
    view = protect(**terms)

    with pytest.raises(dp.ArgumentError, match=r"sizes are public.*mmd"):
        view.kernel_two_sample(["x"], by="arm", method=method, epsilon=1, delta=1e-6)

    assert 10**6 == view.budget.remaining


def test_a_group_of_one_row_is_refused():
    """A group with one row has no spread."""
    table = {**TABLE, "arm": ["drug"] + ["placebo"] * (ROWS - 1)}
    view = protect(table, public=["arm"])

    with pytest.raises(dp.ArgumentError, match="A group has 1 rows"):
        view.kernel_two_sample(["x"], by="arm", epsilon=1)
    with pytest.raises(dp.ArgumentError, match="at least two"):
        protect(pd.DataFrame(TABLE).iloc[:1]).kernel_message(["x"], epsilon=1)


def test_columns_without_bounds_are_refused():
    """A column of which nothing is known cannot be compared."""
    view = protect(bounds={"y": (0, 1)}, public=["arm"])

    with pytest.raises(dp.SchemaError, match="no bounds"):
        view.kernel_two_sample(["x"], by="arm", epsilon=1)
    with pytest.raises(dp.ArgumentError, match="Name at least one"):
        view.kernel_two_sample([], by="arm", epsilon=1)


def test_two_views_that_do_not_fit():
    """The same account twice, other columns, and pairs of other numbers of rows are refused, uncharged."""
    one, two = arms(TABLE)
    narrow = protect(bounds={"x": (-3, 3)})
    short = protect(pd.DataFrame(TABLE).iloc[:10])

    for other, more, said in (
        (one.where(home="north"), {}, "Both views are of the data set"),
        (narrow, {}, "declared otherwise"),
        (two.select("y"), {}, "no column 'x'"),
        (short, {"paired": True}, "no pairs"),
        (two, {"by": "arm"}, "by= or other="),
    ):
        with pytest.raises(dp.DPError, match=said):
            one.kernel_two_sample(["x"], other=other, epsilon=1, **more)
    assert [10**6] * 4 == [view.budget.remaining for view in (one, two, narrow, short)]
