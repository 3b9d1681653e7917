"""``view.kernel_two_sample``, ``kernel_message`` and ``kernel_locations`` through the whole house."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

NAMES = (f"kernel {number}" for number in itertools.count())
METHODS = ("mmd", "permutation", "moments", "whitened")
FEW = {"n_locations": 20, "n_permutations": 99}
PRICE = {"epsilon": 5, "delta": 1e-5}
RELATIONS = [{"public": []}, {"public": [], "neighbors": "add_remove"}]

rng = np.random.default_rng(20_260_701)
ROWS = 1200
ARM = np.repeat(["drug", "placebo"], ROWS // 2)
HOME, MOSTLY_NORTH = (rng.choice(["north", "south"], ROWS, p=[share, 1 - share]) for share in (0.5, 0.85))
TABLE = {"x": rng.normal(size=ROWS), "y": rng.normal(size=ROWS), "arm": ARM, "home": HOME}
WIDER = {**TABLE, "x": np.where(ARM == "drug", 1.8, 1.0) * TABLE["x"]}
BOTH = rng.normal(1.5, 0.7, ROWS)  # far from the middle of the bounds, which stands for what is missing
GAPS = {**TABLE, "x": np.where(rng.random(ROWS) < np.where(ARM == "drug", 0.02, 0.35), np.nan, BOTH)}
MISSING = int(np.isnan(GAPS["x"]).sum())


def protect(table=TABLE, **terms):
    bounds, categories = {"x": (-4, 4), "y": (-4, 4)}, {"arm": ["drug", "placebo"], "home": ["north", "south"]}
    known = {
        "bounds": {name: ends for name, ends in bounds.items() if name in table},
        "categories": {name: each for name, each in categories.items() if name in table},
        "public": [name for name in ("arm",) if name in table],
    }
    account = {"epsilon": 10**6, "delta": 1e-2, "accounting": "basic", "ledger": "memory:"}
    return dp.protect(pd.DataFrame(table), next(NAMES), **{**account, **known, **terms})


def arms(table):
    """The two arms as two data sets."""
    return [protect(part.reset_index(drop=True), public=[]) for _, part in pd.DataFrame(table).groupby("arm")]


def moved(table, by):
    """Move x in the first arm."""
    return {**table, "x": table["x"] + by * (ARM == "drug")}


def ask(view, columns="x", **asked):
    """Compare the arms of a view or table, or two views."""
    view, by = protect(view) if isinstance(view, dict) else view, {} if "other" in asked else {"by": "arm"}
    return view.kernel_two_sample([*columns], **{**by, **PRICE, **FEW, **asked})


@pytest.fixture(autouse=True)
def noise():
    """Noise from a seed, so that every run is the same."""
    with seeded_noise(1):
        yield


# What there is to find


@pytest.mark.parametrize("method", METHODS)
def test_a_difference_is_found(method):
    """Where one sample varies nearly twice as much, and not where both are alike; two tables are as two groups."""
    one, two = arms(WIDER)
    same, for_both = ask(TABLE, "xy", method=method), []
    for view, given in ((protect(WIDER), {}), (one, {"other": two})):
        with seeded_noise(4):
            for_both.append(ask(view, "xy", method=method, **given))
    grouped, together = for_both

    assert (same.rejected, grouped.rejected) == (False, True)
    assert (grouped.pvalue is None) == (method in {"permutation", "whitened"})
    assert [grouped.pvalue, grouped.statistic] == [together.pvalue, together.statistic]
    assert together.groups == (one.name, two.name)
    assert one.budget.spent == two.budget.spent == 5


@pytest.mark.parametrize("method", METHODS)
def test_gaps_are_no_difference(method):
    """Arms of which one has many more gaps are alike; filled, they are not; and gaps hide no difference."""
    asked = {"method": method, "alpha": 0.02}
    omitted, filled = (ask(GAPS, nan_policy=policy, **asked) for policy in ("omit", "fill"))

    assert [omitted.rejected, filled.rejected] == [False, True]
    assert ask(moved(GAPS, 1.0), **asked).rejected
    assert filled.missing is None
    if omitted.pvalue is not None:
        error, complete = omitted.missing_standard_error, (~np.isnan(GAPS["x"])).reshape(2, -1).sum(axis=1)
        assert abs(omitted.missing - MISSING) < 6 * error < 200
        assert (np.abs(omitted.sizes - complete) < 6 * error).all()
        assert sum(omitted.sizes) + omitted.missing == pytest.approx(ROWS)
        assert "missing" in repr(omitted)


@pytest.mark.parametrize("terms", RELATIONS)
def test_groups_may_be_private(terms):
    """Where a row may change its group, come or go, the default finds a difference and none, gaps or not."""
    wider, alike, differ = (ask(protect(table, **terms), epsilon=10) for table in (WIDER, GAPS, moved(GAPS, 1.0)))

    for method in METHODS[1:]:  # which need sizes that are public: they refuse the rest, and name the default
        with pytest.raises(dp.ArgumentError, match=r"sizes are public.*mmd"):
            ask(protect(**terms), method=method)
    with pytest.raises(dp.ArgumentError):
        protect(**terms).kernel_locations(["x"], by="arm", epsilon=1)
    assert max(wider.pvalue, differ.pvalue) < 0.01 < alike.pvalue
    assert all(0 < abs(size - ROWS / 2) < 50 for size in wider.sizes)
    assert alike.missing is None


@pytest.mark.parametrize("method", ["mmd", "permutation", "moments"])
def test_pairs(method):
    """Pairs that differ by a small shift are told apart; those are left out of which either row has a gap."""
    noise = np.random.default_rng(8).normal(0, 0.1, (2, ROWS))
    xs = GAPS["x"] + noise[0], BOTH + noise[0], BOTH + noise[1], BOTH + 0.3
    gaps, whole, *others = (protect({**TABLE, "x": x}) for x in xs)
    asked = {"paired": True, "method": method, "epsilon": 20, "alpha": 0.02}
    omitted, *found = (
        ask(view, other=other, nan_policy=policy, **asked)
        for view, policy in ((gaps, "omit"), (whole, "fill"))
        for other in others
    )

    assert [omitted.rejected, *(test.rejected for test in found)] == [False, True] * 2
    if method != "permutation":
        assert abs(omitted.missing - MISSING) < 6 * omitted.missing_standard_error < 200


def test_other_features_columns_and_kernels():
    """Moments of each kind of features, a category alone, and the mean of two kernels find the difference."""
    mixed, home = (
        {**TABLE, "home": np.where(ARM == "drug", MOSTLY_NORTH, HOME)},
        {"categories": ["home"], "n_locations": 60},
    )
    moments = [
        ask(WIDER, "xy", method="moments", features=each, n_locations=5) for each in ("me", "scf", "nystrom")
    ]
    robust, one = (ask(WIDER, "xy", lengthscale=lengthscale) for lengthscale in ("robust", 1.4))

    assert max(test.pvalue for test in (*moments, robust, one)) < 0.01
    assert 0 < moments[0].privacy.delta <= 1e-5
    assert [ask(mixed).rejected, ask(mixed, **home).rejected, ask(mixed, "", **home).rejected] == [
        False,
        True,
        True,
    ]
    assert len(robust.lengthscales) == 2
    assert robust.statistic < one.statistic  # its features are nearer to each other than those of the narrower


def test_many_rows_are_tested_by_a_sample_of_their_spread():
    """A shift is found, none is not, and the estimate is that of the kernel, where a share of the rows is drawn."""
    table = pd.DataFrame(np.random.default_rng(8).normal(size=(80_000, 2)), columns=["x", "y"])
    table["arm"] = ["drug", "placebo"] * 40_000
    far = table.assign(x=table.x + 0.2 * (table.arm == "drug"))
    same, other = (ask(protect(each), "xy", epsilon=1, n_locations=60) for each in (table, far))

    assert other.pvalue < 1e-6 < same.pvalue
    assert other.low < math.sqrt(other.mmd2) < other.high


# What the numbers are


def test_without_noise_it_is_the_test_without_privacy():
    """At a large epsilon, the statistic is the MMD itself, and the permutation test decides as without noise."""
    rows = np.stack([WIDER["x"], WIDER["y"]], axis=1).clip(-4, 4)
    kernel = np.exp(-((rows[:, None] - rows[None]) ** 2).sum(-1) * 9 / 32)  # in sixths of the bounds' widths
    signs = np.where(ARM == "drug", 2, -2) / ROWS

    test = ask(WIDER, "xy", locations=rows[::12].tolist(), epsilon=10**5)

    own = sum(kernel[np.ix_(of, of)].sum() - ROWS / 2 for of in (signs > 0, signs < 0))  # but of a row with itself
    unbiased = own / (ROWS / 2 * (ROWS / 2 - 1)) - 2 * kernel[np.ix_(signs > 0, signs < 0)].mean()
    assert math.sqrt(signs @ kernel @ signs) == pytest.approx(test.statistic, rel=0.01)
    assert unbiased == pytest.approx(test.mmd2, rel=0.01)
    assert ask(WIDER, "xy", method="permutation", epsilon=10**5).rejected


@pytest.mark.parametrize("asked", [{"n_locations": 30, "epsilon": 10**4}, {"method": "moments", "epsilon": 60}])
def test_complete_rows_are_those_of_a_table_without_the_others(asked):
    """At a large epsilon all numbers are, but for noise."""
    table = {**GAPS, "x": np.where(ARM == "drug", GAPS["x"], 1.1 * GAPS["x"])}
    complete = {name: values[~np.isnan(table["x"])] for name, values in table.items()}
    asked = {"delta": 1e-4, "n_locations": 5, **asked}
    omitted, dropped = ask(table, **asked), ask(complete, nan_policy="fill", **asked)

    assert dropped.sizes == pytest.approx(omitted.sizes, abs=1)
    if omitted.method == "moments":
        assert dropped.differences == pytest.approx(omitted.differences, abs=0.01)
        assert dropped.standard_errors == pytest.approx(omitted.standard_errors, rel=0.5)
    else:
        assert dropped.statistic == pytest.approx(omitted.statistic, rel=0.01)
        ends = [omitted.mmd2, omitted.low, omitted.high]
        assert [dropped.mmd2, dropped.low, dropped.high] == pytest.approx(ends, rel=0.1)


def test_the_noise_is_that_of_the_measurement_and_of_the_plan():
    """In units of the larger part of the rows, a half here; to leave rows out costs public groups hardly more."""
    omitted, filled = (ask(TABLE, "xy", nan_policy=policy) for policy in ("omit", "fill"))
    plan = protect().explain("kernel_two_sample", ["x", "y"], by="arm", epsilon=5, n_locations=20)
    planned, real = ([noise.scale for noise in each] for each in (plan.measurements, omitted.privacy.noise))

    scale = filled.privacy.noise[1].scale * 2 / ROWS
    assert filled.noise_standard_error == pytest.approx(math.sqrt(2) * scale, rel=1e-6)
    assert filled.released[1] < omitted.released[1] < 1.1 * filled.released[1]
    assert planned == pytest.approx(real, rel=0.2)


def test_the_price_of_a_decision_and_of_an_interval(plt):
    """A p-value of the permutation test has twice the noise of a decision; any other interval is free."""
    plain, paid = (ask(WIDER, method="permutation", pvalue=pvalue) for pvalue in (False, True))
    test = ask(WIDER, "xy")
    wide, narrow = test.confidence_interval(0.99), test.confidence_interval(0.5)

    assert (plain.pvalue, paid.pvalue) == (None, 0.01)
    assert "Only the decision was requested" in plain.notes[0]
    assert 2 * plain.privacy.noise[0].scale == pytest.approx(paid.privacy.noise[0].scale, rel=1e-6)
    assert ask(moved(TABLE, 0.5), method="whitened", gamma=0.05, epsilon=9, n_permutations=199).rejected
    assert wide.low <= test.low <= narrow.low <= math.sqrt(test.mmd2) <= narrow.high <= test.high <= wide.high
    assert {"95% CI, noise included", "estimate"} <= {line.get_label() for line in test.plot().get_lines()}
    with pytest.raises(dp.ArgumentError, match="confidence_level"):
        test.confidence_interval(1.0)


def test_groups_of_any_size_have_the_noise_that_is_expected():
    """By a public column, whose groups are not alike in size and split, all answers together cost one price."""
    site = np.where(np.arange(ROWS) < ROWS // 5, "small", "large")
    arm = np.where(np.arange(ROWS) % np.where(site == "small", 2, 7) == 0, "drug", "placebo")
    known = {"arm": ["drug", "placebo"], "site": ["small", "large"]}
    for policy in ("fill", "omit"):
        view = protect({**TABLE, "site": site, "arm": arm}, categories=known, public=["arm", "site"]).group_by(
            "site"
        )
        asked = {"by": "arm", "epsilon": 10, "n_locations": 5, "nan_policy": policy}
        plan, tests = view.explain("kernel_two_sample", ["x"], **asked), view.kernel_two_sample(["x"], **asked)

        assert tests.privacy.epsilon == 10
        expected = next(value for name, value in plan.findings.items() if name.endswith("from noise"))
        assert any(0.75 < tests[each].noise_standard_error / expected < 1.25 for each in known["site"])


@pytest.mark.parametrize("method", ["mmd", "moments"])
def test_sizes_are_no_larger_than_is_known(method):
    """Nor are fewer than none missing, and what is but noise is not shown; of hardly any, nothing is told."""
    nothing = {**TABLE, "x": np.where(np.arange(ROWS) % 400, np.nan, 1.0)}
    tests = [ask({**TABLE, "x": BOTH}, epsilon=0.5, delta=1e-6, method=method) for _ in range(8)]
    lost = ask(nothing, method=method, epsilon=0.2, delta=1e-6)

    assert all(max(test.sizes) <= ROWS / 2 for test in tests)
    assert all(0 <= test.missing < 4 * test.missing_standard_error for test in tests)
    assert "missing" not in repr(tests[0])
    assert (lost.pvalue, lost.rejected) == (1.0, False)
    assert "is unreliable" in lost.notes[0]
    if method == "mmd":  # of public columns sizes are exact, and a missing category is one
        home = np.where(np.arange(ROWS) % 7, HOME.astype(object), None)
        mixed = protect({**GAPS, "home": home}, missing={"home": "other"}, public=["arm", "x"])
        assert sum(ask(mixed, categories=["home"], method="permutation").sizes) == ROWS - MISSING


@pytest.mark.parametrize(("shift", "first", "noted"), [(1.5, 100, True), (0.0, 100, False), (1.5, 1000, False)])
def test_small_p_values_of_very_unequal_groups_are_noted(shift, first, noted):
    """Rare values in a small group make the law skewed: a p-value that leans on it says so, and no other."""
    arm = np.repeat(["drug", "placebo"], [first, 2000])
    x = np.random.default_rng(1).normal(0, 1, len(arm)) + shift * (arm == "drug")
    test = ask({"x": x, "arm": arm}, epsilon=20)

    assert (test.pvalue < 0.01) == (shift > 0)
    assert any("rare values" in note for note in test.notes) == noted


# Where samples differ


def test_moments_say_where():
    """The moments test gives the witness function at its locations, with its noise."""
    at = np.array([[-3.0], [0.0], [3.0]])
    test = ask(WIDER, method="moments", locations=at.tolist(), epsilon=10)

    values = np.exp(-((WIDER["x"][:, None] - at.T) ** 2) * 9 / 16)
    exact = values[ARM == "drug"].mean(axis=0) - values[ARM == "placebo"].mean(axis=0)
    assert test.locations == ((-3.0,), (0.0,), (3.0,))
    assert np.allclose(exact, test.differences, atol=6 * test.noise_standard_error + 1e-3)
    assert test.noise_standard_error < min(test.standard_errors)


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_locations_are_where_the_groups_differ(gaps):
    """One at 0, where a group has no rows, then one at either peak; none near another; a test takes them."""
    n, rng = 20_000, np.random.default_rng(3)
    x, arm, home = (
        rng.uniform(-4, 4, n),
        np.tile(["drug", "placebo"], n // 2),
        np.tile(np.repeat(["n", "s"], 2), n // 4),
    )
    x[:] = np.where((arm == "drug") & (np.abs(x) < 1.5), 2 * np.sign(x), x)
    x[rng.random(n) < gaps] = math.nan
    known = {"arm": ["drug", "placebo"], "home": ["n", "s"]}
    view = protect({"x": x, "arm": arm, "home": home}, categories=known, public=["arm", "home"])
    candidates = {"lengthscale": 0.8, "locations": [[x] for x in (-4, -3, -2, 0, 2, 3, 4)], "n_locations": 3}
    where = view.where(home="n").kernel_locations(["x"], by="arm", epsilon=20, **candidates)
    chosen = {"locations": where.locations, "lengthscale": where.lengthscale}
    test = ask(view.where(home="s"), method="moments", **chosen)

    assert {x for (x,) in where.locations} == {-2.0, 0.0, 2.0}
    assert where.privacy.delta == 0
    assert test.locations == where.locations
    assert test.pvalue < 1e-6
    one, other = (protect({"x": np.linspace(low, low + 1, 5000)}) for low in (-3, 2))
    near = one.kernel_locations(["x"], other=other, locations=[[1.9], [2.0], [2.1]], epsilon=1)
    assert len(near.locations) == 1  # of candidates that are alike; both views pay
    assert one.budget.spent == other.budget.spent > 0


# Messages, and the reference's tests as printed


def test_messages_are_compared_elsewhere():
    """Two parties' messages, of complete rows, give a test of both, and say how many rows those are."""
    wider, gaps = (
        [dp.Release.from_json(view.kernel_message(["x"], **PRICE).to_json()) for view in arms(table)]
        for table in (WIDER, GAPS)
    )
    different, alike = (first.test(second, alpha=0.01) for first, second in (wider, gaps))
    gone = int(np.isnan(GAPS["x"][ARM == "placebo"]).sum())

    assert (different.rejected, different.pvalue < 0.01, different.alpha, alike.rejected) == (
        True,
        True,
        0.01,
        False,
    )
    assert abs(gaps[1].missing - gone) < 6 * gaps[1].missing_standard_error < 50
    assert gaps[1].size + gaps[1].missing == ROWS // 2
    assert alike.missing == gaps[0].missing + gaps[1].missing


def test_messages_must_fit_together():
    """Messages about other columns, locations or bounds cannot be compared; the error says in what they differ."""
    message = protect().kernel_message(["x"], **PRICE)
    for said, terms, columns, asked in (
        ("columns", {}, ["y"], {}),
        ("locations", {}, ["x"], {"n_locations": 4}),
        ("lengthscales", {}, ["x"], {"lengthscale": 2}),
        ("domains", {"bounds": {"x": (-5, 5)}}, ["x"], {}),
        ("nan_policy", {}, ["x"], {"nan_policy": "fill"}),
        ("variant", {}, ["x"], {"variant": "nte"}),
    ):
        with pytest.raises(dp.ArgumentError, match=said):
            message.test(protect(**terms).kernel_message(columns, **PRICE, **asked))
    with pytest.raises(dp.ArgumentError, match="must be a message"):
        message.test("message")


HALF = 7.351149  # standard deviation of the analytic Gaussian mechanism at (1/2, 5e-6), for a sensitivity of 1
PRINTED = {"n_locations": 3, "lengthscale": 1.5, "nan_policy": "fill", "delta": 1e-5}
NARROW = {"bounds": {"x": (-3, 3), "y": (-3, 3)}}


def kernel_values(rows, locations):
    """The unit is a sixth of the bounds' widths, 1."""
    return np.exp(-((rows.clip(-3, 3)[:, None] - np.array(locations)[None]) ** 2).sum(axis=2) / 1.5**2)


@pytest.mark.parametrize(("variant", "stretch"), [("tcmc", 1), ("nte", math.sqrt(2))])
def test_printed_tests_are_of_kernel_values(variant, stretch):
    """Of differences of mean values at the locations, with noise of √J/n at half of the price, of both parties."""
    rows, arm = (
        np.random.default_rng(2).standard_normal((8000, 2)).clip(-3, 3),
        np.repeat(["drug", "placebo"], 4000),
    )
    rows[4000:, 0] += 0.4
    view = protect({"x": rows[:, 0], "y": rows[:, 1], "arm": arm}, **NARROW)
    asked = {"method": "moments", "variant": variant, **PRINTED}
    noisy, found = (ask(view, "xy", epsilon=epsilon, **asked) for epsilon in (1, 50))
    v = kernel_values(rows, found.locations).reshape(2, 4000, 3).mean(axis=1)

    assert noisy.noise_standard_error == pytest.approx(stretch * math.sqrt(3) / 4000 * HALF, rel=1e-3)
    assert found.differences == pytest.approx(v[0] - v[1], abs=1e-3)
    assert (found.variant, found.rejected) == (variant, True)
    assert "ignores the noise" in found.notes[-1]
    one, two = arms(TABLE)  # where both rows of a pair change, the printed sensitivity is half of what is charged
    of_two = {"other": two, "method": "moments", "variant": "tcmc", **PRINTED}
    apart, paired = (ask(one, paired=paired, **of_two).noise_standard_error for paired in (False, True))
    assert paired / apart == pytest.approx(2, rel=1e-6)
    x = np.random.default_rng(6).standard_normal(10_000)
    x[:5000:2] = math.nan  # unequal shares of missing values are no difference
    gaps = {"x": x, "arm": np.repeat(["drug", "placebo"], 5000)}
    alike = ask(gaps, method="moments", variant=variant, n_locations=2, lengthscale=1, epsilon=20)
    assert alike.pvalue > 1e-4
    assert (alike.missing is None) == (variant == "tcmc")
    assert variant == "tcmc" or abs(alike.missing - 2500) < 8 * alike.missing_standard_error


def test_a_printed_message_is_one_partys_part():
    """Mean, second moment, and both noises as printed."""
    rows = np.random.default_rng(2).standard_normal((300, 2)).clip(-3, 3)
    view = protect({"x": rows[:, 0], "y": rows[:, 1]}, **NARROW)
    found = view.kernel_message(["x", "y"], variant="nte", epsilon=1, **PRINTED)
    v = kernel_values(rows, found.design["locations"])

    assert found.noise_standard_error == pytest.approx(math.sqrt(3) / 300 * HALF, rel=1e-3)
    assert found.second_noise_standard_error == pytest.approx((3 / 299 * HALF,) * 2, rel=1e-3)
    assert np.abs(found.mean - v.mean(axis=0)).max() < 8 * found.noise_standard_error
    assert np.abs(found.second - v.T @ v / 299).max() < 8 * found.second_noise_standard_error[0]


# What cannot be asked

MOMENTS = {"method": "moments"}
REFUSED = [
    ({"by": None}, "by= or other="),
    ({"groups": ["drug"]}, "compares two groups"),
    ({"groups": ["drug", "drug"]}, "compares two groups"),
    ({"method": "tcs"}, "method='tcs' is unknown"),
    ({"features": "rff"}, "features='rff' is unknown"),
    ({"alpha": 0}, "alpha=0 is not between 0 and 1"),
    ({"alpha": 1.0}, "alpha=1.0 is not between 0 and 1"),
    ({"alpha": "5%"}, "alpha='5%'"),
    ({"method": "permutation", "n_permutations": 18}, "cannot reject at level 0.05"),
    ({"n_permutations": 2.5}, "n_permutations=2.5"),
    ({"locations": [[9.0]]}, "outside the bounds"),
    ({"locations": [[0.0, 1.0]]}, "has 2 values"),
    ({"lengthscale": -1}, "must be a positive number"),
    ({"lengthscale": [1, 2]}, "lengthscale"),
    ({"lengthscale": 1e-9}, "too small"),
    ({**MOMENTS, "lengthscale": "robust"}, "a single lengthscale"),
    ({"paired": "yes"}, "neither True nor False"),
    ({"paired": True}, "rows of two tables"),
    ({"pvalue": True}, "always has a p-value"),
    ({"categories": ["home"], "mismatch": 1.0}, "mismatch"),
    ({"features": "scf", "categories": ["home"]}, "columns with bounds only"),
    ({"categories": ["arm"]}, "one of the compared columns"),
    ({**MOMENTS, "delta": 0}, "delta above zero"),
    ({"confidence": 95}, "confidence=95"),
    ({"columns": []}, "Name at least one"),
    ({"columns": ["z"]}, "no bounds"),
    ({"nan_policy": "raise"}, "nan_policy='raise' would reveal"),
    ({"columns": ["gone"], "nan_policy": "raise"}, "A value is missing"),
    ({"by": "rare"}, "smallest group has 1 rows"),
    ({"variant": "tcmc"}, "variant"),
    ({**MOMENTS, "variant": "nte", "features": "nystrom"}, "variant"),
    ({**MOMENTS, "variant": "tcs"}, "variant"),
    ({**MOMENTS, "variant": "tcmc", "by": "rare"}, "smallest group|no pairs"),
    ({**MOMENTS, "variant": "tcmc", "by": "most"}, "cannot be paired"),
    ({**MOMENTS, "gamma": 0.1}, "gamma"),
    ({"method": "whitened", "gamma": 0}, "gamma"),
]


@pytest.fixture(scope="module")
def view():
    """A table in which everything is public but x, y and home."""
    at = np.arange(ROWS)
    more = {"z": at / ROWS, "gone": np.where(at == 5, np.nan, 0.0), "most": at < 50, "rare": at == 0}
    terms = {"bounds": {"x": (-4, 4), "y": (-4, 4), "gone": (-1, 1)}, "public": ["arm", "rare", "most", "gone"]}
    known = {"arm": ["drug", "placebo"], "home": ["north", "south"], "rare": [True, False], "most": [True, False]}
    return protect({**TABLE, **more}, categories=known, **terms)


@pytest.mark.parametrize(("asked", "said"), REFUSED, ids=str)
def test_what_cannot_be_asked_is_refused(asked, said, view):
    """Each bad argument is refused before any charge, and the error says what is wrong."""
    with pytest.raises((dp.ArgumentError, dp.SchemaError), match=said):
        view.kernel_two_sample(**{"columns": ["x"], "by": "arm", "epsilon": 1, "delta": 1e-6, **asked})

    assert view.budget.spent == 0


def test_two_views_that_do_not_fit():
    """The same account twice, other columns, and pairs of other numbers of rows are refused, uncharged."""
    one, two = arms(TABLE)
    narrow, short = protect(bounds={"x": (-3, 3)}), protect(pd.DataFrame(TABLE).iloc[:1])

    for other, more, said in (
        (one.where(home="north"), {}, "Both views are of the account"),
        (narrow, {}, "declared differently"),
        (two.select("y"), {}, "no column 'x'"),
        (protect(pd.DataFrame(TABLE).iloc[:10]), {"paired": True}, "cannot be paired"),
        (two, {"by": "arm"}, "by= or other="),
    ):
        with pytest.raises(dp.DPError, match=said):
            one.kernel_two_sample(["x"], other=other, epsilon=1, **more)
    with pytest.raises(dp.ArgumentError, match="at least two"):
        short.kernel_message(["x"], epsilon=1)
    assert not any(view.budget.spent for view in (one, two, narrow, short))
