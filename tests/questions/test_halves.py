"""Mechanisms in two halves: one measures, the other concludes, and callers see one method."""

# ruff: noqa: PD011, SIM300 - no pandas here; expected == actual

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy import features
from dfprivacy._plugins.loader import register_mechanism, registry, unregister

DATA = {"age": [31.0, 45.0, 28.0, 52.0] * 50, "arm": ["drug", "placebo"] * 100}
NOTHING = "Nothing was released or spent"


def protect(name="clinic", **terms):
    given = {"epsilon": 10, "bounds": {"age": (18, 90)}, "categories": {"arm": ["drug", "placebo"]}, **terms}
    return dp.protect(pd.DataFrame(DATA), name, **given)


def halves(conclude=None, check=None):
    """A mean of two halves; what concludes may be another."""

    @dp.mechanism(name="halved", columns={"column": "numeric"})
    def measure(curator, column, *, share=1):
        """Measure, and conclude."""
        HEARD.append("measure")
        KEPT.append(curator)
        return {
            "sums": curator.sum(features.Moments(column, degree=1, count=True), share=share),
            "of": curator.size,
        }

    def mean(measured, column, *, share, digits=3):
        """Give the mean."""
        HEARD.append("conclude")
        up, down = measured["sums"].values
        return round(column.mid + column.half * (up - down) / (up + down), digits)

    made = measure.concludes(conclude or mean)
    return made if check is None else made.checks(check)


HEARD, KEPT = [], []


@pytest.fixture(autouse=True)
def clean():
    yield
    HEARD.clear()
    KEPT.clear()
    if "halved" in registry().mechanisms:
        unregister("halved")


def test_callers_see_the_parameters_of_both():
    """The signature is the union with the price, by position first; help has the first half's docstring."""
    register_mechanism(halves())
    method = protect().halved

    @dp.mechanism(columns={"column": "numeric"})
    def tested(curator, column, *, by=None, a=1):
        """Test."""

    tested.concludes(lambda measured, column, null, *, by, side="both", a=1: None)

    assert ["column", "share", "digits", "epsilon", "fresh"] == list(inspect.signature(method).parameters)
    assert ["column", "null", "by", "a", "side", "epsilon", "fresh"] == list(tested.signature.parameters)
    assert method.__doc__.startswith("Measure, and conclude.")
    with pytest.raises(dp.ArgumentError, match=r"unexpected keyword argument 'digit'.*digits=3"):
        method("age", digit=2, epsilon=1)
    with pytest.raises(dp.PluginError, match="two concluding functions"):
        halves().concludes(lambda measured: 0)


def test_an_answer_is_what_the_second_half_makes_of_the_first():
    """Each half receives its own arguments, and the answer is charged, kept and replayed like any other."""
    register_mechanism(halves())
    view = protect(epsilon=10**4)

    found = view.halved("age", digits=1, epsilon=1000)
    again = view.halved("age", digits=1, epsilon=1000)

    assert 39.0 == pytest.approx(found.value, abs=0.1)
    assert found == again
    assert again.privacy.replayed
    assert ["measure", "conclude"] == HEARD
    assert 1000 == view.budget.spent
    assert not view.halved("age", digits=2, epsilon=1000).privacy.replayed
    HEARD.clear()
    by_group = view.group_by("arm").halved("age", epsilon=5000)
    assert ["measure", "measure", "conclude", "conclude"] == HEARD
    assert [29.5, 48.5] == pytest.approx([release.value for release in by_group.releases], abs=0.1)


def test_a_mechanism_is_both_halves_when_called():
    """Called with a curator it measures and concludes."""
    both = halves()
    register_mechanism(both)
    view = protect(epsilon=10**4)
    found = []

    @dp.mechanism(columns={"column": "numeric"})
    def through(curator, column):
        """Call another mechanism."""
        found.append(both(curator, column, digits=0))
        return found[0]

    register_mechanism(through)
    try:
        answer = view.through("age", epsilon=1000)
    finally:
        unregister("through")

    assert found == [answer.value] == [39.0]


@pytest.mark.parametrize(("first", "second", "why"), [
    *((lambda curator, a=1: 0, lambda measured, a=a: 0, "different defaults for 'a'") for a in (2, True)),
    (lambda curator, a: 0, lambda measured, a=2: 0, "different defaults for 'a'"),
    *((lambda curator, a=1: 0, second, why) for second, why in [
        (lambda: 0, "no parameter for the measurements"),
        (lambda *, a: 0, "no parameter for the measurements"),
        (lambda measured, b: 0, "do not fit together: non-default argument"),
        (lambda measured, **more: 0, "cannot be passed by name"),
        (lambda measured, epsilon=1: 0, "a name that dfprivacy uses"),
    ]),
])  # fmt: skip
def test_halves_that_do_not_fit_are_refused(first, second, why):
    """A parameter has one default, and everything is passed by name; what was there before stays as it was."""
    made = dp.mechanism(name="halved")(first)

    with pytest.raises(dp.PluginError, match=why):
        made.concludes(second)

    assert made.conclusion is None


# Plans


def test_a_plan_runs_the_first_half_only():
    """`explain` measures nothing and concludes nothing."""
    register_mechanism(halves())
    view = protect(public=["arm"])

    plan = view.explain("halved", "age", epsilon=1)
    grouped = view.group_by("arm").explain("halved", "age", epsilon=1)

    assert ["measure", "measure"] == HEARD
    assert (1, 1) == (len(plan.measurements), len(grouped.measurements))
    assert 0 == view.budget.spent


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_a_plan_hides_no_error_of_the_first_half(when):
    """Whenever the first half fails, the plan says so."""

    @dp.mechanism(name="halved", columns={"column": "numeric"})
    def measure(curator, column):
        """Fail."""
        for at in ("before", "between", "after"):
            if at == when:
                raise ValueError(at)
            if at != "after":
                curator.sum(features.Moments(column), share="1/2")

    register_mechanism(measure.concludes(lambda measured: 0))

    with pytest.raises(dp.PluginError, match=f"ValueError: {when}.*{NOTHING}"):
        protect().explain("halved", "age", epsilon=1)


def test_a_plan_of_one_piece_hides_no_error_of_a_measurement():
    """What a curator's own work raises is the mechanism's, also after another measurement."""

    @dp.mechanism(name="halved", columns={"column": "category"})
    def whole(curator, column):
        """Measure once, and then wrongly."""
        curator.sum(features.OneHot(column), share="1/2")
        return curator.above_threshold(Counts(column), lambda first, second: {}[first], most=1)

    register_mechanism(whole)

    with pytest.raises(dp.PluginError, match=f"KeyError.*{NOTHING}"):
        protect().explain("halved", "arm", epsilon=1)


class Counts(dp.statistics.OfSums):
    """Rows by category."""

    def __init__(self, column):
        self.features = features.OneHot(column)
        self.columns = (column,)
        self.shape = (len(column.categories),)

    def value(self, sums):
        return sums

    def sensitivity(self, relation, norm, public):
        return 1.0


def test_a_plan_of_one_piece_says_where_it_ended():
    """What is made of measurements that say nothing is void; the plan says that there may be more of them."""

    @dp.mechanism(name="halved", columns={"column": "numeric"})
    def whole(curator, column):
        """Measure twice."""
        first = curator.sum(features.Moments(column, degree=1), share="1/2").values[0]
        slope = 1 / float(first)  # of nothing it has none
        return slope * curator.sum(features.Moments(column, degree=1)).values[0]

    register_mechanism(whole)
    view = protect()

    plan = view.explain("halved", "age", epsilon=1)

    assert 1 == len(plan.measurements)
    assert "ZeroDivisionError" == plan.ended
    assert "may measure more: without data, the plan ended here with ZeroDivisionError" in repr(plan)
    assert "may measure more" not in repr(view.explain("ttest", "age", popmean=40, epsilon=1))


# Payment


def test_a_check_refuses_before_anything_is_paid():
    """What the second half cannot use is refused by an answer and by a plan alike; a check that fails is too."""

    def check(column, *, share, digits):
        if digits // share > 9:
            raise dp.ArgumentError("Too many digits.", "Ask for fewer.")

    register_mechanism(halves(check=check))
    view = protect()

    for ask in (view.halved, lambda *a, **k: view.explain("halved", *a, **k), view.group_by("arm").halved):
        with pytest.raises(dp.ArgumentError, match=f"Too many digits. {NOTHING}"):
            ask("age", digits=10, epsilon=1)
        with pytest.raises(dp.PluginError, match=f"ZeroDivisionError.*{NOTHING}"):
            ask("age", share=0, epsilon=1)

    assert [] == HEARD
    assert 0 == view.budget.spent


@pytest.mark.parametrize("error", [ValueError("no"), dp.ArgumentError("No.", "Ask otherwise.")], ids=repr)
def test_a_conclusion_that_fails_says_what_stays_charged(error):
    """The measurements were paid for, and the message says so."""

    def fail(measured, column):
        raise error

    register_mechanism(halves(fail))
    view = protect()

    with pytest.raises(dp.DPError, match="measurements stay charged: epsilon 1"):
        view.halved("age", epsilon=1)

    assert 1 == view.budget.spent
    assert 0 == len(view.releases)


def test_nothing_is_measured_by_a_conclusion():
    """A curator is closed before the second half runs, whatever the first half handed over."""
    register_mechanism(halves(lambda measured, column: KEPT[-1].sum(features.Moments(column), share="1/2").values))
    view = protect()

    with pytest.raises(dp.PluginError, match=r"of which 0 is left\..*charged: epsilon 0\.5"):
        view.halved("age", share="1/2", epsilon=1)


def test_another_second_half_is_another_mechanism():
    """In a notebook the source of both halves belongs to the question, so that an answer is never another's."""
    register_mechanism(halves())
    view = protect()
    first = view.halved("age", epsilon=1)
    unregister("halved")

    register_mechanism(halves(lambda measured, column, *, share, digits=3: np.float64(digits)))
    second = view.halved("age", epsilon=1)

    assert not second.privacy.replayed
    assert 3 == second.value != first.value


def test_what_is_given_by_other_names_is_one_argument():
    """A first half may gather it; it is a part of the question, and a dictionary for all that follows."""

    @dp.mechanism(name="halved")
    def gathers(curator, first=None, **named):
        """Gather."""
        HEARD.append(named)
        return curator.size

    made = gathers.concludes(lambda measured, *, named, digits=1: {"size": measured, "digits": digits, **named})
    register_mechanism(made.checks(lambda first, named, digits: HEARD.append((first, named, digits))))
    view = protect()

    found = view.halved(digits=2, one=1, two="b", epsilon=1)

    assert {"size": 200, "digits": 2, "one": 1, "two": "b"} == found.value
    assert [(None, {"one": 1, "two": "b"}, 2), {"one": 1, "two": "b"}] == HEARD
    assert view.halved(digits=2, one=1, two="b", epsilon=1) == found
    assert view.halved(digits=2, one=1, three="b", epsilon=1) != found
    shown = [
        str(each.replace(annotation=each.empty)) for each in inspect.signature(view.halved).parameters.values()
    ]
    assert ["first=None", "digits=1", "epsilon=None", "fresh=False", "**named"] == shown
    with pytest.raises(dp.ArgumentError, match="is a DataFrame"):
        view.halved(one=pd.DataFrame(DATA), epsilon=1)
