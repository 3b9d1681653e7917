"""Questions whose bounds are found first, in one call: the answer, the price, and what is refused."""

from __future__ import annotations

import copy
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._call.requests import key_fingerprint
from dfprivacy.request import ReceivedRequest
from dfprivacy.testing import seeded_noise

_rng = np.random.default_rng(5)
DATA = pd.DataFrame({
    "x": _rng.normal(40, 5, 20_000), "y": _rng.normal(-3, 1, 20_000), "g": ["a", "b"] * 10_000
})  # fmt: skip
TERMS = {"epsilon": 10, "categories": {"g": ["a", "b"]}, "ledger": "memory:"}


@pytest.fixture(autouse=True)
def _seeded():
    with seeded_noise(11):
        yield


def protect(name, **terms):
    return dp.protect(DATA, name, **{**TERMS, **terms})


def test_an_answer_within_bounds_that_were_found():
    """One call pays what it says, in two parts; asked again it is free; the notes say the bounds."""
    view = protect("found")
    found = view.ttest("x", by="g", bounds="find", epsilon=1)
    assert (found.privacy.epsilon, view.budget.spent) == (1, 1)
    assert found.bounds == (16, 64)
    assert found.notes[-1].startswith("Bounds were found, not declared: x in [16, 64], with at most ")
    assert [record.epsilon for record in found.privacy.noise] == [0.25, 0.75]
    assert view.ttest("x", by="g", bounds="find", epsilon=1).estimate == found.estimate
    assert view.budget.spent == 1
    assert view["y"].mean(bounds="find", epsilon="rest").privacy.epsilon == 9
    assert view.budget.spent == 10


def test_columns_of_which_bounds_are_found(tmp_path):
    """Those that were declared so find them, in one call, and only they; the others keep theirs."""
    view = protect("per column", bounds={"x": "find", "y": (-10, 5)})
    found = view.corr(["x", "y"], epsilon=1)
    assert [each.split(",")[0] for each in found.privacy.found] == ["x in [16"]
    assert view.corr(["x", "y"], bounds="find", epsilon=2).privacy.found != found.privacy.found
    assert view.mean("y", epsilon=1).privacy.found == ()
    assert view.mean("y", epsilon=1).covers == "limited table"
    spent = view.budget.spent
    assert view.explain("mean", "x", epsilon=1).left == 0.75
    view.mean("x", epsilon=1)  # its bounds are in the ledger
    assert view.budget.spent == spent + Fraction("0.75")
    assert "x: each question finds bounds" in repr(view)

    file = tmp_path / "again.toml"
    file.write_text(view.to_toml())
    assert dp.protect(DATA, "per column", schema=file, ledger="memory:").schema == view.schema
    practice = dp.protect(view.schema.dummy(), "practice", **{**TERMS, "bounds": {"x": "find"}})
    assert abs(practice.mean("x", epsilon=1).value) < 0.2


def test_bounds_that_an_earlier_question_paid_are_not_paid_again():
    """Each answer says what it was charged: bounds are paid by the first, and in no other's guarantee."""
    view = protect("paid once", bounds={"x": "find"})
    first = view.mean("x", epsilon=1)
    median, again = view.median("x", epsilon=1), view.mean("x", epsilon=1)
    spread = view.std("x", epsilon=1)
    charged = [each.privacy.epsilon for each in (first, median, spread)]
    assert charged == [1, 0.75, 0.75]
    assert view.budget.spent == sum(map(Fraction, charged))
    guarantee = replace(median.privacy, private=True).guarantee
    assert guarantee.startswith("0.75-differential privacy")
    assert "in addition to measurements of" in guarantee
    assert median.privacy.noise[0].epsilon == 0
    reused = protect("reused", bounds={"x": "find"})
    reused.find_bounds(["x"], epsilon=0.5)  # is free if it is as accurate
    assert [reused.median("x", epsilon=price).privacy.epsilon for price in (1, 4)] == [0.75, 4]
    assert (again.privacy.replayed, again.privacy.epsilon) == (True, 1)


def test_what_was_found_is_remembered(tmp_path):
    """However bounds that were found are declared, in another process and by a file too; known ones are not."""
    view = protect("remembered", delta=1e-6)
    for found in (view.find_bounds(["x"], epsilon=1), view.profile(["x"], epsilon=1)):
        file = tmp_path / "found.toml"
        file.write_text(view.declare(found).to_toml())
        pair = copy.deepcopy(found.schema["bounds"]["x"])
        again = protect("remembered", delta=1e-6, bounds={"x": pair})
        filed = dp.protect(DATA, "remembered", schema=file, ledger="memory:")
        read = view.declare(dp.Release.from_json(found.to_json()))
        views = [view.declare(found), view.declare(bounds=found.schema["bounds"]), again, filed, read]
        answers = [each.mean("x", epsilon=1) for each in views]
        assert len({each.privacy.found for each in answers}) == 1
        assert all(each.covers == "limited table" and each.privacy.found for each in answers)
        assert [each.privacy.replayed for each in answers] == [False, *[True] * 4]
        assert not view.declare(bounds={"x": (pair[0], pair[1])}).mean("x", epsilon=1).privacy.found
        assert "these bounds were found" in repr(filed)
        few = view.declare(found).where(x=(0, 40)).count(epsilon=1)
        assert few.privacy.found
        assert few.covers == "limited table"


def test_requests_find_bounds(tmp_path):
    """An analyst without the table asks a column of which bounds are found, or a call to find them."""
    schema, key, asked = (tmp_path / name for name in ("schema.toml", "key", "request"))
    view = protect("request", bounds={"x": "find", "y": (-100, 100)}, ledger=str(tmp_path / "ledger"))
    schema.write_text(view.to_toml())
    key.write_text("a" * 64)
    request = dp.request(schema)
    request.mean("x", epsilon=1)
    request.mean("y", bounds="find", epsilon=1)
    request.save(asked, key=key, analyst="ana")

    received = ReceivedRequest.read(asked, schema, key.read_bytes())
    view._target.account.ledger.add_key(key_fingerprint(key.read_bytes()), "ana")
    waiting = received.pending(view)
    answers = [dp.Release.from_dict(each.ask()["release"]) for each in waiting]

    assert [each.due for each in waiting] == [1, 1]
    assert [len(each.privacy.found) for each in answers] == [1, 1]
    assert view.budget.spent == 2


WIDE, AS_IS = (0, 1e6), lambda view: view


@pytest.mark.parametrize(("epsilon", "bounds", "of", "question", "told"), [
    (0.1, WIDE, AS_IS, (("mean", "x"), {}), True), (0.1, WIDE, AS_IS, (("ttest", "x"), {"by": "g"}), True),
    (0.1, WIDE, lambda view: view.group_by("g"), (("std", "x"), {}), True),
    (5, (0, 100), AS_IS, (("mean", "x"), {}), False),  # sampling is more than the noise
    (0.1, "find", AS_IS, (("mean", "x"), {}), False),
    (0.1, WIDE, AS_IS, (("mean", "x"), {"bounds": "find"}), False),
    (0.1, WIDE, AS_IS, (("median", "x"), {}), False),  # which bounds do not move
    (0.1, WIDE, AS_IS, (("mannwhitneyu", "x"), {"by": "g"}), False),
    (0.1, WIDE, AS_IS, (("histogram", "x"), {}), False), (0.1, WIDE, AS_IS, (("value_counts", "g"), {}), False),
    (0.0001, WIDE, AS_IS, (("mean", "x"), {}), False),  # none would be found
])  # fmt: skip
def test_explain_recommends_to_find_bounds_where_that_narrows(epsilon, bounds, of, question, told):
    """By how much, where less noise is expected."""
    (args, more) = question
    explained = of(protect("recommend", bounds={"x": bounds})).explain(*args, epsilon=epsilon, **more)
    assert ('bounds="find"' in explained.findings) == told
    assert not told or "13%" in repr(explained)


def test_wide_bounds_are_mended():
    """What is found lies within what was declared, and a wide one no longer costs an answer."""
    view = protect("wide", bounds={"x": (0, 50_000)})
    wide, found = view.mean("x", epsilon=0.5), view.mean("x", bounds="find", epsilon=0.5)
    assert found.noise_standard_error < wide.noise_standard_error / 100
    assert found.low < DATA["x"].mean() < found.high
    inside = protect("inside", bounds={"x": (20, 50)}).mean("x", bounds="find", epsilon=0.5)
    assert inside.bounds == (20, 50)
    filled = protect("filled", bounds={"x": (0, 50_000)}, missing={"x": 1000}).mean("x", bounds="find", epsilon=0.5)
    assert filled.bounds == (16, 1000)


HOW = r"[Ff]ind .*view\.declare\("


@pytest.mark.parametrize(("ask", "words"), [
    (lambda v: v.ttest("z", bounds="find", alpha=7, epsilon=1), "not between 0 and 1"),
    (lambda v: v.count(bounds="find", epsilon=1), "was given none"),
    (lambda v: v.mean("z", bounds=(0, 100), epsilon=1), r'bounds= takes only "find".*view.declare'),
    (lambda v: v.mean("nope", bounds="find", epsilon=1), "the table lacks"),
    (lambda v: v.mean("g", bounds="find", epsilon=1), "'g'"),
    (lambda v: v.mean("z", bounds="find", epsilon=1000), "at most epsilon"),
    (lambda v: v.mean("z", bounds="find", epsilon=-1), "must be a number from"),
    (lambda v: v.where(x=(0, 50)), HOW), (lambda v: v.quantile("x", step=0.5, epsilon=1), HOW),
    (lambda v: v.survival_test("x", event="g", by="g", epsilon=1), HOW),
    (lambda v: v.kernel_two_sample(["x"], other=protect("second", bounds={"x": (0, 100)}), epsilon=1), HOW),
    (lambda v: v.kernel_two_sample(["y"], other=protect("second"), bounds="find", epsilon=1), HOW),
])  # fmt: skip
def test_what_is_refused_costs_nothing(ask, words):
    """What is no such question, and what needs bounds before, with how to find them."""
    view = dp.protect(DATA.assign(z=DATA.x), "refused", **TERMS, bounds={"x": "find", "y": (-10, 10)})
    with pytest.raises(dp.errors.DPError, match=words):
        ask(view)
    assert view.budget.spent == 0


@pytest.mark.parametrize(("terms", "words"), [
    ({"bounds": {"x": "look"}}, r'pair \(low, high\).*"find"'),
    ({"bounds": {"g": "find"}}, "so it has no bounds"), ({"bounds": {"nope": "find"}}, "the table lacks"),
    ({"bounds": "find"}, "dictionary by column name"),
    ({"bounds": {"x": "find"}, "missing": {"x": "other"}}, "finite number"),
])  # fmt: skip
def test_what_cannot_be_declared(terms, words):
    """With a table or of a view."""
    with pytest.raises(dp.SchemaError, match=words):
        protect("declared", **terms)
    with pytest.raises(dp.SchemaError, match=words):
        protect("declare").declare(**terms)


@pytest.mark.parametrize(("column", "epsilon"), [("g", 1), ("word", 1), ("x", "1/1000")])
def test_what_is_not_found_says_what_it_has_cost(column, epsilon):
    """Nothing of a column is known before it is looked at, and a text is no number; too little finds none.

    Those of a public column are exact and free."""
    terms = {"epsilon": 1, "bounds": {column: "find"}, "ledger": "memory:"}
    view = dp.protect(DATA.assign(word="a"), "texts", **terms)
    for cost in (rf"\. The search for bounds stays charged: epsilon {float(Fraction(epsilon) / 4):g}", ""):
        with pytest.raises(dp.ArgumentError, match=f"not found{cost}"):
            view.mean(column, epsilon=epsilon)
    public = dp.protect(DATA, "public", public=["x"], **{**terms, "bounds": {"x": "find"}})

    assert view.budget.spent == Fraction(epsilon) / 4
    assert public.mean("x", epsilon=1).privacy.found
    assert public.budget.spent == 0
