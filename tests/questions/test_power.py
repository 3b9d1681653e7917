"""``power``: how often a method finds what is assumed, on made-up rows."""

from __future__ import annotations

import pickle

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise

DECLARED = {
    "bounds": {"x": (-5, 5), "z": (-5, 5), "t": (0, 10)},
    "categories": {"g": ["a", "b"], "h": ["u", "v", "w"], "e": [0, 1]},
}
DECLARED_XG = {"bounds": {"x": (-5, 5)}, "categories": {"g": ["a", "b"]}}
RANKS = ("mannwhitneyu", "x", {"by": "g"})


def asked(question, **terms):
    """Ask with noise of a seed."""
    with seeded_noise(5):
        return dp.power(question, **{**DECLARED, "n": 40, "epsilon": 1, "runs": 200, **terms})


def test_power_is_that_of_the_method():
    """At n = 40, groups 1 sd apart, the rank test has the power .57 of its benchmark, and its level with no effect.

    Five standard errors of 100 runs are .25, and at the level .11."""
    found, level = (asked(RANKS, assume={"effect": effect, "spread": 1}, runs=100) for effect in (1, 0))

    assert abs(found.shares[0][0] - 0.57) < 0.25
    assert level.shares[0][0] < 0.16


ONE = {"effect": 1, "spread": 1}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("question", "assume", "n"), [
    (("kruskal", "x", {"by": "h"}), ONE, 90), (("anova", "x", {"by": "h"}), ONE, 600),
    (("ttest", "x", {"by": "g"}), ONE, 600), (("ttest", "x"), ONE, 600),
    (("wilcoxon", "x", "z"), ONE, 100), (("wilcoxon", "x"), ONE, 100),
    (("proportions", "g", {"by": "h", "success": "a"}), {"effect": 0.4}, 1000),
    (("chi2", "g", "h"), {"effect": 0.4}, 1000), (("mcnemar", "g", "h", {"success": "a"}), {"effect": 0.2}, 1000),
    (("survival_test", "t", "e", {"by": "g"}), {"ratio": 3, "censored": 0.1}, 500),
    (("hazard_ratio", "t", "e", 5, {"by": "g"}), {"ratio": 3, "censored": 0.1}, 500),
    (("ols", "x ~ z + C(h)"), {"effect": 0.8, "spread": 1}, 2000), (("logit", "g ~ z"), {"effect": 2}, 5000),
], ids=lambda value: value[0] if isinstance(value, tuple) else "")  # fmt: skip
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_what_is_clear_is_found(question, assume, n, neighbors):
    """Every method that assumes something finds it where it is large, and not always where there is nothing."""
    terms = {"n": n, "epsilon": 3, "runs": 6, "neighbors": neighbors}
    categories = {**DECLARED["categories"], "h": ["a", "v", "w"]}

    assert asked(question, assume=assume, categories=categories, **terms).shares == ((1.0,),)
    none = {name: 1 if name == "ratio" else 0 for name in assume if name in {"effect", "ratio"}}
    assert (
        neighbors == "add_remove"
        or asked(question, assume={**assume, **none}, categories=categories, **terms).shares[0][0] < 0.99
    )


@pytest.mark.parametrize(("n", "sd", "assume"), [(200, 100 / 6, {}), (500, 5, {"spread": 5})])
def test_power_with_bounds_to_find_comes_true(n, sd, assume):
    """What is promised without any bounds is within .15 of what 15 tables about 50 give, whose bounds are found."""
    terms = {"bounds": {"x": "find"}, "categories": {"g": ["a", "b"]}}
    promised = asked(("ttest", "x", {"by": "g"}), n=n, runs=60, assume={"effect": 0.5, **assume}, **terms)
    found = []
    for run in range(15):
        rng = np.random.default_rng(run)
        rows = pd.DataFrame({"x": rng.normal(50, sd, n), "g": ["a", "b"] * (n // 2)})
        rows["x"] += sd / 4 * np.where(rows["g"] == "a", 1, -1)
        with seeded_noise(run):
            view = dp.protect(rows, f"find {n} {sd} {run}", epsilon=1, ledger="memory:", **terms)
            found.append(_rejects(view))

    assert "as if unknown bounds were 0 and 100" in promised.assumed
    assert abs(promised.shares[0][0] - np.mean(found)) < 0.15


def _rejects(view):
    """Whether a test finds the difference; where no bounds are found it does not."""
    try:
        return view.ttest("x", by="g", epsilon=1).rejected
    except dp.ArgumentError:
        return False


def test_nothing_is_read_or_charged():
    """A view's power knows what is declared of it, and neither its rows nor its budget."""
    df = pd.DataFrame({"x": [0.0] * 60, "g": ["a", "b"] * 30})  # of which a pickled view carries nothing
    view = dp.protect(df, "power-unread", epsilon=1, ledger="memory:", **DECLARED_XG)

    found = pickle.loads(pickle.dumps(view)).power(  # noqa: S301 - our own
        RANKS, epsilon=1, assume={"effect": 3, "spread": 1}, runs=20
    )

    assert (found.n, found.shares) == ((60,), ((1.0,),))
    assert view.budget.spent == 0
    with pytest.raises(dp.ArgumentError, match="whole table"):  # other rows would be simulated than are asked
        view.where(x=(0, 5)).power(RANKS, epsilon=1)
    with pytest.raises(dp.ArgumentError, match="about a whole table"):  # whose price would be another one
        view.sample("1/2").power(("ttest", "x", {"popmean": 0.5}), n=50, epsilon=1)
    added = dp.protect(df, "power-private", neighbors="add_remove", epsilon=1, ledger="memory:", **DECLARED_XG)
    with pytest.raises(dp.ArgumentError, match="number of rows of this table is private"):
        added.power(RANKS, epsilon=1)


def test_a_third_party_offers_rows():
    """A method gets what can be assumed by `assumes`, with a criterion; or of whoever asks, public keys too."""

    def even(rng, n):
        """Even numbers."""
        return {"x": rng.uniform(-5, 5, n), "id": np.arange(n)}

    @dp.mechanism(columns={"column": "numeric"})
    def is_above(curator, column):
        """Tell whether a mean is above 0."""
        (total,) = curator.sum(dp.features.Moments(column, degree=1)).values  # noqa: PD011 - noisy ones
        return total > 0

    def shifted(rng, n, column, *, by: float = 1.0):
        """Make numbers above 0."""
        return {column.name: by + 0 * rng.random(n)}

    method = is_above.assumes(shifted, lambda release: release.value)
    dp.register_mechanism(method)
    try:
        found = asked(("is_above", "x"), n=1000, runs=5)
        below = asked(("is_above", "x"), n=1000, runs=5, assume={"by": -1.0})
    finally:
        dp.unregister("is_above")

    given = {"public": ["id"], "assume": even}
    near = asked(("mean", "x"), n=[20, 2000], runs=10, finder=lambda mean: abs(float(mean)) < 0.6, **given)
    keys = asked(("dcor_message", "x", {"keys": "id"}), runs=2, finder=lambda message: message.rows == 40, **given)
    assert (near.assumed, near.shares[0][1], keys.shares) == ("Even numbers", 1.0, ((1.0,),))
    with pytest.raises(dp.errors.PluginError, match="parameter 'other', which is not a"):
        is_above.assumes(lambda rng, n, column, other: {})
    assert (found.assumed, found.shares, below.shares) == ("numbers above 0: by 1.0", ((1.0,),), ((0.0,),))


def test_tables_and_pictures():
    """Rows that are enough, columns for any dataframe library, a line for each epsilon."""
    mpl.use("Agg")
    found = dp.Power("q()", "this", (10, 100, 1000), (0.1, 1.0), ((0.1, 0.9, 0.7), (0.5, 0.8, 1.0)), 100)

    assert found.rows_for(0.8) == {0.1: None, 1.0: 100}
    assert list(pd.DataFrame(found.to_dict()).columns) == ["epsilon", "n", "power"]
    assert "epsilon 0.1  0.10   0.90     0.70" in repr(found)
    assert "assumed" in found._repr_html_()
    assert len(found.plot().lines) == 3


@pytest.mark.parametrize(
    ("question", "terms", "message"),
    [
        ("nothing", {}, "no method"),
        (3, {}, "arguments, not int"),
        (("mannwhitneyu", "x", {"by": "g", "epsilon": 1}), {}, "sets the argument epsilon"),
        (("mannwhitneyu", "x", {"by": "y"}), {}, "y"),
        (RANKS, {"n": 0}, "n=0"),
        (RANKS, {"n": []}, "needs n"),
        (RANKS, {"n": 2.5}, "n=2.5"),
        (RANKS, {"epsilon": -1}, "epsilon"),
        (RANKS, {"epsilon": []}, "needs epsilon"),
        (RANKS, {"runs": 0}, "runs=0"),
        (RANKS, {"assume": {"power": 3}}, "unknown key 'power'"),
        (RANKS, {"assume": {"spread": -1}}, "spread"),
        (RANKS, {"assume": {"effect": "large"}}, "effect"),
        (RANKS, {"assume": 3}, "must be a dictionary or a function, not int"),
        (RANKS, {"assume": lambda rng, n: {"x": np.zeros(n - 1)}}, "another length"),
        (RANKS, {"assume": lambda rng, n: {"y": np.zeros(n)}}, "'y'"),
        (RANKS, {"assume": lambda rng, n: None}, "returned a NoneType, not a dictionary"),
        (RANKS, {"finder": lambda answer: answer.pvalue}, "neither True nor False"),
        (RANKS, {"finder": lambda answer: answer.power}, "AttributeError"),
        (("proportions", "g", {"by": "h", "success": "a"}), {"assume": {"effect": 0.7}}, "is not between 0 and 1"),
        (("mcnemar", "g", "h", {"success": "a"}), {}, "h"),
        (("mean", "x"), {}, "Give assume="),
        (("ols", "x ~ z"), {"finder": "y"}, "KeyError"),
        (RANKS, {"bounds": None}, "x"),
    ],
)
def test_bad_questions_say_what_to_do(question, terms, message):
    """What cannot be simulated is refused, with what can."""
    with pytest.raises(dp.DPError, match=message):
        asked(question, **{"runs": 2, **terms})


@pytest.mark.statistical
def test_power_of_people_with_several_rows():
    """The noise is that of all rows which may count; of one row a person it is that of one."""
    frame = pd.DataFrame({"who": range(20), "x": [0.2, 0.8] * 10})
    found = {}
    for most in (1, 8):
        view = dp.protect(
            frame, f"powers of {most}", epsilon=1, unit="who", max_rows=most, bounds={"x": (0, 1)}, ledger="memory:"
        )
        people = view.per("who").agg(x="mean")
        for name, each in (("rows", view), ("people", people)):
            asked = ("ttest", "x", {"popmean": 0.5})
            found[name, most] = each.power(asked, n=200, epsilon=1, runs=25).shares[0][0]

    assert found["rows", 8] < found["rows", 1] - 0.2
    assert abs(found["people", 8] - found["people", 1]) < 0.3
