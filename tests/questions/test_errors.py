"""Errors: what they say wherever they are raised."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import copy
import pickle
import traceback

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy import errors

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DPError)]
STANDS = "Nothing was released; what was charged stays charged."


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copied", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy])  # noqa: S301
def test_an_error_keeps_its_outcome(kind, copied):
    """An error that comes out of another process still says what became of the budget."""
    error = kind("It failed.", "Try again.").after(STANDS)

    again = copied(error)
    assert kind is type(again)
    assert f"It failed. {STANDS} Try again." == str(again) == str(error)
    assert ("It failed.", "Try again.", STANDS) == (again.what, again.hint, again.outcome)


WRONG = {
    "an unknown column": lambda view: view.ttest("agee", epsilon=0.1),
    "a wrong argument": lambda view: view["age"].quantile(2, epsilon=0.1),
    "more than is left": lambda view: view.mean("age", epsilon=5),
    "a wrong condition": lambda view: view.where(agee=3),
    "a wrong plan": lambda view: view.plan([("ttt", "age")], epsilon=0.1),
    "a wrong group": lambda view: view.group_by("agee"),
    "other terms": lambda view: dp.protect(pd.DataFrame({"age": [1.0]}), view.name, epsilon=7),
    "no release": lambda _: dp.combine(abs, 3),
    "no level": lambda view: view.ttest("age", popmean=30, epsilon=0.1).confidence_interval(7),
    "no library": lambda view: view.ttest("age", popmean=30, epsilon=0.1).to_frame("excel"),
    "no JSON": lambda _: dp.Release.from_json("{"),
    "no picture": lambda _: dp.Value(value=1).plot(),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_an_error_shows_the_callers_line(wrong):
    """One frame of the house stands below the caller's, and no other error of it is the cause."""
    view = dp.protect(pd.DataFrame({"age": [31.0, 45.0] * 50}), "frames", epsilon=1, bounds={"age": (18, 90)})

    with pytest.raises(dp.errors.DPError) as caught:
        wrong(view)

    frames = [each.frame.f_globals["__name__"] for each in caught.traceback]
    assert frames[:2] == [__name__, __name__]
    assert len([name for name in frames if name.startswith("dfprivacy")]) == 1
    assert not isinstance(caught.value.__cause__, dp.errors.DPError)
    assert caught.value.__suppress_context__


def test_what_a_plugin_raised_stays_the_cause():
    """Its authors see their own line."""

    @dp.mechanism(columns={"column": "numeric"})
    def broken(curator, column):
        curator.sum(dp.features.Moments(column))
        raise RuntimeError("mine")

    view = dp.protect(pd.DataFrame({"age": [31.0, 45.0] * 50}), "cause", epsilon=1, bounds={"age": (18, 90)})
    dp.register_mechanism(broken)
    try:
        with pytest.raises(dp.errors.PluginError) as caught:
            view.broken("age", epsilon=0.1)
    finally:
        dp.unregister("broken")

    cause = caught.value.__cause__
    assert isinstance(cause, RuntimeError)
    assert [each.name for each in traceback.extract_tb(cause.__traceback__)] == ["broken"]
