"""What a caller gives is held to the annotations of a mechanism, before anything is charged."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import datetime as dt
import functools
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._plugins.loader import registry
from dfprivacy.arguments import checked

if TYPE_CHECKING:
    from elsewhere import Unknown

Side = Literal["low", "high"]
LONG = "CANARY" * 50


@dp.mechanism(columns={"column": "numeric", "by": "category"}, tables=["points"])
def everything(
    curator: dp.Curator,
    column: dp.Column,
    by: dp.Column | None = None,
    *,
    points: Any = None,
    side: Side = "low",
    later: Later | None = None,
    flag: bool = False,
    count: Annotated[int, dp.Range(1, 10)] = 5,
    number: float = 0,
    level: dp.Probability = 0.05,
    either: Annotated[int, dp.Range(1)] | Literal["auto"] | None = None,
    word: str = "x",
    unknown: Unknown | None = None,
    items: list[int] = (),
    free=None,
) -> float:
    "Gives its arguments back as text."
    curator.sum(dp.features.Count())
    return float(count)


Later = Literal["then"]


@pytest.fixture
def view():
    dp.register_mechanism(everything)
    yield dp.protect(
        pd.DataFrame({"age": [30.0] * 10}), "clinic", epsilon=10, bounds={"age": (18, 90)}, ledger="memory:"
    )
    dp.unregister("everything")


@pytest.mark.parametrize(("name", "given", "received"), [
    ("side", "high", "high"), ("side", np.str_("high"), "high"), ("later", "then", "then"), ("later", None, None),
    ("flag", True, True), ("flag", np.bool_(True), True), ("count", 10, 10), ("count", np.int8(7), 7),
    ("number", 3, 3.0), ("number", np.float32(0.5), 0.5), ("number", Fraction(1, 4), 0.25),
    ("number", Decimal("0.1"), 0.1), ("number", dt.date(1970, 1, 3), 2.0),
    ("number", np.datetime64("1970-01-03"), 2.0), ("level", 0.5, 0.5), ("either", "auto", "auto"),
    ("either", np.uint64(3), 3), ("either", None, None), ("word", np.str_("text"), "text"), ("unknown", 1j, 1j),
    ("items", "no list", "no list"), ("free", {}, {}),
])  # fmt: skip
def test_what_fits_arrives_as_the_annotation_says(name, given, received):
    """What an annotation allows arrives as the plain type that it names; all else arrives as it is."""
    found = everything.bind(["age"], {name: given})[name]

    assert received == found
    assert type(received) is type(found)


REFUSED = [
    ("side", "hgih", r"everything\(\): side='hgih' is unknown", "Did you mean 'high'. Use one of 'low', 'high'"),
    ("side", None, "side=None is unknown", "Use one of 'low', 'high'"),
    ("side", ["low"], r"side \(of type list\) is unknown", "Use one of"),
    ("side", np.array(["low", "high"]), r"side \(of type ndarray\) is unknown", "Use one of"),
    ("side", LONG, "side='CANARY", "Use one of"),
    ("later", "never", "later='never' is unknown", "Use one of 'then' or None"),
    ("flag", 1, "flag=1 is neither True nor False", "flag=True"),
    ("flag", None, "flag=None is neither", "flag=True"),
    ("flag", "yes", "flag='yes' is neither", "flag=True"),
    ("count", 0, "count=0 is not an integer from 1 to 10", "Give an integer from 1 to 10"),
    ("count", 11, "count=11 is not", "from 1 to 10"),
    ("count", True, "count=True is not", "from 1 to 10"),
    ("count", 2.0, "count=2.0 is not", "from 1 to 10"),
    ("count", "2", "count='2' is not", "from 1 to 10"),
    ("count", None, "count=None is not", "from 1 to 10"),
    ("count", np.timedelta64(5, "ns"), r"count \(of type timedelta64\) is not", "from 1 to 10"),
    ("number", math.nan, "number=nan is not a finite number", "Give a finite number"),
    ("number", -math.inf, "number=-inf is not a finite number", "Give a finite number"),
    ("number", 10**400, "number has too many digits", "Give a number"),
    ("number", True, "number=True is not a finite number", "Give a finite number"),
    ("number", np.bool_(False), "is not a finite number", "Give a finite number"),
    ("number", 1 + 0j, "is not a finite number", "Give a finite number"),
    ("number", "3", "number='3' is not a finite number", "Give a finite number"),
    ("number", pd.NaT, "is not a finite number", "Give a finite number"),
    ("level", 0, "level=0 is not between 0 and 1", "Give a number between 0 and 1"),
    ("level", 1.0, "level=1.0 is not between 0 and 1", "Give a number between 0 and 1"),
    ("level", Decimal("0." + "9" * 30), "is not between 0 and 1", "Give a number between 0 and 1"),
    ("level", math.nan, "level=nan is not between 0 and 1", "Give a number between 0 and 1"),
    ("either", 0, "either=0 is not an integer from 1 on or 'auto'", "or None"),
    ("either", "all", "either='all' is not an integer from 1 on or 'auto'", "or None"),
    ("word", 5, "word=5 is not a string", "Give a string"),
    ("word", b"x", r"word \(of type bytes\) is not a string", "Give a string"),
]


@pytest.mark.parametrize(("name", "given", "what", "hint"), REFUSED)
def test_what_does_not_fit_costs_nothing(view, name, given, what, hint):
    """What an annotation does not allow is refused, asked and explained, by words that quote nothing long."""
    for ask in (view.everything, lambda *args, **kwargs: view.explain("everything", *args, **kwargs)):
        with pytest.raises(dp.ArgumentError, match=what) as caught:
            ask("age", epsilon=1, **{name: given})

        assert dp.ArgumentError is type(caught.value)
        assert hint in caught.value.hint.replace("?", ".")
        assert len(str(caught.value)) < 250
    with pytest.raises(dp.SchemaError, match="named by a string"):  # whatever annotation the function has for it
        view.everything(5, epsilon=1)
    assert 0 == view.budget.spent
    assert 5 == view.everything("age", points={"age": [1]}, epsilon=1).value


@pytest.mark.parametrize(("annotation", "default", "said"), [
    (Literal["a", "b"], "c", "default='c' is unknown"), (bool, 0, "default=0 is neither"),
    (int, None, "default=None is not an integer"), (dp.Probability, 95, "default=95 is not between 0 and 1"),
    ("Annotated[int, dp.Range(1, 10)]", 11, "default=11 is not an integer from 1 to 10"),
])  # fmt: skip
def test_a_default_must_fit(annotation, default, said):
    """A default that its own annotation does not allow is the plugin's fault, found when the mechanism is made."""

    def wrong(curator, *, default=default): ...

    def named(curator, *, default: int = None): ...  # noqa: RUF013 - a column is its own affair

    wrong.__annotations__ = {"default": annotation}
    with pytest.raises(dp.PluginError, match=said):
        dp.mechanism()(wrong)
    for kind in ("numeric", "columns"):
        assert None is dp.mechanism(columns={"default": kind})(named).bind([], {})["default"]


def test_a_decorated_function_is_held_to_its_own_annotations():
    """Annotations are looked up where the function was written, not where its decorator was."""
    names = {"Annotated": Annotated, "Range": dp.Range}
    exec("def own(curator, *, count: 'Annotated[int, Range(1)]' = 1): ...", names)  # noqa: S102

    decorated = dp.mechanism()(functools.wraps(names["own"])(lambda *args, **kwargs: None))

    with pytest.raises(dp.ArgumentError, match="count=0 is not an integer"):
        decorated.bind([], {"count": 0})


def test_a_mechanism_with_annotations_can_be_pickled():
    """What is known of the annotations is no hindrance to other processes."""
    bound = registry().mechanisms["chi2"]
    assert bound.bind(["x", "by"], {})["method"] == "auto"

    assert pickle.loads(pickle.dumps(bound.hints))["confidence"] == dp.Probability  # noqa: S301


@pytest.mark.parametrize(
    ("limits", "inside", "outside", "shown", "said"),
    [
        (dp.Range(0, 1), [0, 1, 0.5, -1e-300], [-0.1, 1.1, math.nan], "Range(0, 1)", "from 0 to 1"),
        (
            dp.Range(0, 1, exclusive="both"),
            [0.5],
            [0, 1, 5e-324],
            "Range(0, 1, exclusive='both')",
            "between 0 and 1",
        ),
        (dp.Range(0, 1, "low"), [1], [0], "Range(0, 1, exclusive='low')", "above 0 and at most 1"),
        (dp.Range(0, 1, "high"), [0], [1], "Range(0, 1, exclusive='high')", "at least 0 and below 1"),
        (dp.Range(1), [1, 1e300], [0, math.inf], "Range(1)", "from 1 on"),
        (dp.Range(0, exclusive="low"), [1e-99], [0, 1e-300, math.inf], "Range(0, exclusive='low')", "above 0"),
        (dp.Range(high=3), [3, -1e300], [4, -math.inf], "Range(None, 3)", "at most 3"),
        (dp.Range(0, math.inf), [0, math.inf], [-1, math.nan], "Range(0, inf)", "from 0 to inf"),
        (dp.Range(), [0, -1e300], [math.inf, -math.inf, math.nan], "Range()", ""),
    ],
)
def test_ranges(limits, inside, outside, shown, said):
    """A range holds its ends unless it says otherwise, never NaN, and infinity only as an end of its own.

    A number whose square underflows counts as 0."""
    assert all(number in limits for number in inside)
    assert not any(number in limits for number in outside)
    assert (shown, said) == (repr(limits), str(limits))
    assert math.inf == checked(math.inf, Annotated[float, dp.Range(0, math.inf)], "f(): x")
    with pytest.raises(AttributeError):
        limits.low = 5
    for arguments, wrong in (((1, 0), "is empty or a single"), ((0, 1, "left"), "'left' is unknown"),
                             (("0",), "not a number"), ((math.nan,), "not a n")):  # fmt: skip
        with pytest.raises(dp.PluginError, match=wrong):  # the plugin's fault
            dp.Range(*arguments)


@pytest.mark.parametrize("name", sorted(registry().mechanisms))
def test_bundled_annotations_are_there_when_a_method_is_called(name):
    """No bundled choice, flag or range goes unchecked because only a type checker would see its name."""
    mechanism = registry().mechanisms[name]
    theirs = {
        parameter
        for parameter, annotation in mechanism.hints.items()
        if isinstance(annotation, str) and parameter not in {"curator", *mechanism.columns, *mechanism.tables}
    }

    assert theirs <= {"groups", "x"}  # sequences: their functions look at them
