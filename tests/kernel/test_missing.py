"""Rows with a missing value are left out, privately; and names of before that warn."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_kernel import law

NAMES = (f"kernel gaps {number}" for number in itertools.count())
ROWS = 4000
METHODS = ("mmd", "permutation", "moments", "whitened")
FEW = {"n_locations": 20, "n_permutations": 99}

rng = np.random.default_rng(7)
ARMS = np.repeat(["a", "b"], ROWS // 2)
SHARE = np.where(ARMS == "a", 0.02, 0.35)
WHOLE = rng.normal(1.5, 0.7, ROWS)  # far from the middle of the bounds, which stands for what is missing
GAPS = np.where(rng.random(ROWS) < SHARE, np.nan, WHOLE)
MISSING = int(np.isnan(GAPS).sum())


def protect(x, arms=ARMS, **terms):
    said = {"epsilon": 10**5, "delta": 1e-3, "accounting": "basic", "ledger": "memory:", "public": ["arm"]}
    known = {"bounds": {"x": (-4, 4)}, "categories": {"arm": ["a", "b"]}}
    return dp.protect(pd.DataFrame({"x": x, "arm": arms}), next(NAMES), **{**said, **known, **terms})


@pytest.mark.parametrize("method", METHODS)
def test_gaps_are_no_difference(method):
    """Two arms of one distribution, of which one has many more gaps, are alike; filled, they are not."""
    view = protect(GAPS)
    asked = {"by": "arm", "method": method, "epsilon": 3, "delta": 1e-6, "alpha": 0.02, **FEW}
    with seeded_noise(1):
        omitted = view.kernel_two_sample(["x"], **asked)
        filled = view.kernel_two_sample(["x"], nan_policy="fill", **asked)

    assert [False, True] == [omitted.rejected, filled.rejected]
    assert None is filled.missing


@pytest.mark.parametrize("method", METHODS)
def test_a_difference_of_complete_rows_is_found(method):
    """Gaps hide no difference of what is there."""
    view = protect(np.where(ARMS == "a", GAPS, GAPS - 1))
    with seeded_noise(2):
        test = view.kernel_two_sample(["x"], by="arm", method=method, epsilon=3, delta=1e-6, **FEW)

    assert test.rejected


@pytest.mark.parametrize(
    "asked",
    [{"method": "mmd"}, {"method": "mmd", "lengthscale": "robust"}, {"method": "moments"}],
    ids=["mmd", "two kernels", "moments"],
)
def test_the_result_says_how_many_are_missing(asked):
    """Sizes are those of complete rows, and the number left out is told with its noise."""
    complete = [int((~np.isnan(GAPS[arm == ARMS])).sum()) for arm in ("a", "b")]
    with seeded_noise(3):
        test = protect(GAPS).kernel_two_sample(["x"], by="arm", epsilon=3, delta=1e-6, n_locations=20, **asked)

    error = test.missing_standard_error
    assert abs(test.missing - MISSING) < 6 * error < 200
    assert all(abs(size - exact) < 6 * error for size, exact in zip(test.sizes, complete, strict=True))
    assert sum(test.sizes) + test.missing == pytest.approx(ROWS)
    assert "missing" in repr(test)


def test_where_nothing_is_missing_the_result_does_not_speak_of_it():
    """A number of missing rows that is nothing but noise is not shown."""
    with seeded_noise(4):
        test = protect(WHOLE).kernel_two_sample(["x"], by="arm", epsilon=3, n_locations=20)

    assert "missing" not in repr(test)
    assert test.missing < 3 * test.missing_standard_error


@pytest.mark.parametrize("method", ["mmd", "moments"])
def test_no_group_is_said_to_have_more_rows_than_it_has(method):
    """Where rows are public, sizes are at most these and the number of missing rows is at least 0."""
    with seeded_noise(13):
        tests = [
            protect(WHOLE).kernel_two_sample(["x"], by="arm", epsilon=0.5, delta=1e-6, method=method, **FEW)
            for _ in range(8)
        ]

    assert all(max(test.sizes) <= ROWS / 2 for test in tests)
    assert all(test.missing >= 0 for test in tests)


def test_to_leave_rows_out_costs_the_default_little():
    """With public groups of equal size, the noise of the separation is hardly above that of all rows."""
    with seeded_noise(5):
        tests = [
            protect(WHOLE).kernel_two_sample(["x"], by="arm", epsilon=3, n_locations=20, nan_policy=policy)
            for policy in ("omit", "fill")
        ]

    omitted, filled = (test.released[1] for test in tests)
    assert filled < omitted < 1.05 * filled
    assert np.isclose(tests[0].statistic, tests[1].statistic, atol=6 * tests[0].noise_standard_error)


def test_moments_of_complete_rows():
    """At a large epsilon, differences, and the p-value, are those of a table without the incomplete rows."""
    asked = {"by": "arm", "method": "moments", "epsilon": 30, "delta": 1e-4}
    x = np.where(ARMS == "a", GAPS, 1.1 * GAPS)
    there = ~np.isnan(x)

    with seeded_noise(7):  # the noise in the least of the standard errors is a fifth of it
        omitted = protect(x).kernel_two_sample(["x"], **asked)
        dropped = protect(x[there], ARMS[there]).kernel_two_sample(["x"], nan_policy="fill", **asked)

    assert dropped.differences == pytest.approx(omitted.differences, abs=0.01)
    assert dropped.standard_errors == pytest.approx(omitted.standard_errors, rel=0.5)
    assert dropped.sizes == pytest.approx(omitted.sizes, abs=1)


def test_the_default_of_complete_rows():
    """At a large epsilon the statistic and MMD² are those of a table without the incomplete rows."""
    asked = {"by": "arm", "epsilon": 10**4, "n_locations": 30}
    x = np.where(ARMS == "a", GAPS, 1.1 * GAPS)
    there = ~np.isnan(x)

    omitted = protect(x).kernel_two_sample(["x"], **asked)
    dropped = protect(x[there], ARMS[there]).kernel_two_sample(["x"], nan_policy="fill", **asked)

    assert dropped.statistic == pytest.approx(omitted.statistic, rel=0.01)
    assert dropped.mmd2 == pytest.approx(omitted.mmd2, rel=0.05)
    assert (dropped.low, dropped.high) == pytest.approx((omitted.low, omitted.high), rel=0.1)


@pytest.mark.parametrize("terms", [{}, {"neighbors": "add_remove"}], ids=["flips", "comes and goes"])
def test_gaps_of_private_groups(terms):
    """Where groups are private, or rows come and go, gaps are left out as well; how many is not known."""
    with seeded_noise(6):
        alike = protect(GAPS, public=[], **terms).kernel_two_sample(["x"], by="arm", epsilon=5, n_locations=20)
        differ = protect(np.where(ARMS == "a", GAPS, GAPS - 1), public=[], **terms).kernel_two_sample(
            ["x"], by="arm", epsilon=5, n_locations=20
        )

    assert alike.pvalue > 0.01
    assert differ.pvalue < 0.01
    assert alike.missing is None


@pytest.mark.parametrize("method", ["mmd", "permutation", "moments"])
def test_pairs_with_gaps(method):
    """Of pairs, those are left out of which either row has a gap; a shift of the others is found."""
    first, second = np.random.default_rng(8).normal(0, 0.1, (2, ROWS))
    one, two, moved = (protect(x) for x in (GAPS + first, WHOLE + second, WHOLE + second + 0.3))
    asked = {"paired": True, "method": method, "epsilon": 10, "delta": 1e-6, "alpha": 0.02, **FEW}
    with seeded_noise(8):
        alike = one.kernel_two_sample(["x"], other=two, **asked)
        differ = one.kernel_two_sample(["x"], other=moved, **asked)

    assert [False, True] == [alike.rejected, differ.rejected]
    if method != "permutation":
        assert abs(alike.missing - MISSING) < 6 * alike.missing_standard_error < 200


def test_messages_of_complete_rows():
    """A party tells of its complete rows, and how many those are; policies must be the same."""
    first, second = (protect(GAPS[arm == ARMS], ARMS[arm == ARMS]) for arm in ("a", "b"))
    with seeded_noise(9):
        message, other = (view.kernel_message(["x"], epsilon=3, delta=1e-6) for view in (first, second))
        filled = second.kernel_message(["x"], nan_policy="fill", epsilon=3, delta=1e-6)

    test = message.test(other, alpha=0.02)

    gone = int(np.isnan(GAPS[ARMS == "b"]).sum())
    assert abs(other.missing - gone) < 6 * other.missing_standard_error < 50
    assert other.size + other.missing == ROWS // 2
    assert test.missing == message.missing + other.missing
    assert not test.rejected
    with pytest.raises(dp.ArgumentError, match="nan_policy"):
        message.test(filled)


def test_what_is_missing_in_public_columns_is_known():
    """Of public columns, sizes are exact and the groups public; gaps may be refused."""
    view = protect(GAPS, public=["arm", "x"])

    with pytest.raises(dp.ArgumentError, match="A value is missing"):
        view.kernel_two_sample(["x"], by="arm", nan_policy="raise", epsilon=1)
    with pytest.raises(dp.ArgumentError, match="nan_policy='raise' would tell"):
        protect(GAPS).kernel_message(["x"], nan_policy="raise", epsilon=1, delta=1e-6)
    table = pd.DataFrame({"x": GAPS, "arm": ARMS, "z": rng.choice(["p", "q"], ROWS)})
    mixed = dp.protect(
        table,
        next(NAMES),
        epsilon=10,
        ledger="memory:",
        bounds={"x": (-4, 4)},
        categories={"arm": ["a", "b"], "z": ["p", "q"]},
        missing={"z": "other"},
        public=["arm", "x"],
    )
    test = mixed.kernel_two_sample(["x"], categories=["z"], by="arm", method="permutation", epsilon=1, **FEW)
    assert sum(test.sizes) == ROWS - MISSING  # a missing z is a category: only x can be missing, and is public


def test_hardly_any_complete_rows_tell_nothing():
    """Where gaps leave less than the noise, the answer says so, and rejects nothing."""
    nothing = np.full(ROWS, np.nan)
    nothing[::1000] = 1.0
    for method in ("mmd", "moments"):
        with seeded_noise(10):
            test = protect(nothing).kernel_two_sample(["x"], by="arm", method=method, epsilon=0.2, delta=1e-6)

        assert (1.0, False) == (test.pvalue, test.rejected)
        assert "tells nothing" in test.notes[0]


def test_a_plan_takes_no_pvalue(monkeypatch):
    """To explain runs what measures, and nothing of what concludes."""

    def unexpected(*_):
        raise AssertionError

    monkeypatch.setattr(law.Measured, "pvalue", property(unexpected))
    view = protect(GAPS)

    plan = view.explain("kernel_two_sample", ["x"], by="arm", epsilon=1)

    with seeded_noise(11):
        monkeypatch.undo()
        real = view.kernel_two_sample(["x"], by="arm", epsilon=1).privacy.noise
    assert [noise.scale for noise in plan.measurements] == pytest.approx([noise.scale for noise in real], rel=0.2)
    assert not plan.ended


@pytest.mark.parametrize(("shift", "first", "noted"), [(1.5, 100, True), (0.0, 100, False), (1.5, 1000, False)])
def test_small_p_values_of_very_unequal_groups_are_noted(shift, first, noted):
    """Rare values in a small group make the law skewed: a p-value that leans on it says so, and no other."""
    arms = np.repeat(["a", "b"], [first, 2000])
    x = np.random.default_rng(1).normal(0, 1, len(arms)) + shift * (arms == "a")

    with seeded_noise(3):
        test = protect(x, arms).kernel_two_sample(["x"], by="arm", epsilon=20, n_locations=20)

    assert (test.pvalue < 0.01) == (shift > 0)
    assert any("rare values" in note for note in test.notes) == noted


def test_no_interval_is_longer_than_distances_are():
    """Where the numbers of complete rows are mostly noise, an interval holds no more than is possible."""
    spread = np.array([300.0, 250.0, 400.0, 200.0, 150.0])
    measured = law.Measured(80.0, 20.0, spread, np.full(5, 100.0), None, (5000, 4000))

    low, high = measured.interval(0.95)

    assert measured.informative
    assert 0 <= low < high == 2
