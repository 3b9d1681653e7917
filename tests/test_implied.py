"""What is known already is not paid for again: a mean after a description of the same rows and columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp

_rng = np.random.default_rng(3)
DATA = pd.DataFrame({"x": _rng.normal(2, 1, 5000), "y": _rng.normal(2, 1, 5000), "g": ["a", "b"] * 2500})


def protect(name, **terms):
    terms = {"bounds": {"x": (-3, 7), "y": (-3, 7)}, "categories": {"g": ["a", "b"]}, **terms}
    return dp.protect(DATA, name, epsilon=100, **{"ledger": "memory:", **terms})


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_a_description_answers_what_it_tells_better(name, relation):
    """At a price that would buy less the answer is free, and is that of the description; explain says so."""
    view = protect(f"{name} {relation}", neighbors=relation)
    described = view.describe(epsilon=1)
    cheap, dear = view.explain(name, "x", epsilon=0.1), view.explain(name, "x", epsilon=50)
    found = getattr(view, name)("x", epsilon=0.1)
    assert (cheap.left, dear.left, found.privacy.epsilon, view.budget.spent) == (0, 50, 0, 1)
    if name != "var":
        assert found.value == described[name, "x"]
    assert all(record.reused for record in found.privacy.noise)
    assert (found - found).high == 0
    assert getattr(view, name)("x", epsilon=50).privacy.epsilon == 50


@pytest.mark.parametrize(
    "other",
    [
        lambda v: v.where(g="a").mean("x", epsilon=0.1),
        lambda v: v.declare(bounds={"x": (-3, 8)}).mean("x", epsilon=0.1),
        lambda v: v.mean("x", epsilon=0.1, fresh=True),
        lambda v: v.mean("x", epsilon=0.1, nan_policy="fill"),
        lambda v: v.mean("x", epsilon=0.1, covers="population"),
        lambda v: v.group_by("g").mean("x", epsilon=0.1),
        lambda v: v.sum("x", epsilon=0.1),
    ],
)
def test_what_is_of_other_rows_or_of_something_else_is_paid(other):
    view = protect("other")
    view.describe(["x"], epsilon=1)
    assert other(view).privacy.epsilon == pytest.approx(0.1)


def test_only_what_was_measured_is_known():
    """A mean tells no variance, a variance no mean, and a count neither; the most accurate one answers."""
    view = protect("alone")
    view.mean("x", epsilon=9)
    view.std("y", epsilon=9)
    view.agg({"x": "count", "y": ["median"]}, epsilon=9)
    assert view.std("x", epsilon=0.1).privacy.epsilon == pytest.approx(0.1)
    assert view.mean("y", epsilon=0.1).privacy.epsilon == pytest.approx(0.1)
    best = view.agg({"y": "mean"}, epsilon=20)
    assert view.mean("y", epsilon=5).value == best["y_mean"]


def test_an_answer_of_another_version_is_passed_over(tmp_path):
    """A class that is not as it was tells nothing, and stands in nobody's way."""
    from sqlalchemy import create_engine, text

    file = tmp_path / "ledger.sqlite"
    view = protect("versions", ledger=file)
    view.describe(epsilon=5)
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.execute(text("UPDATE answers SET release = replace(release, 'Description', 'Gone')"))
    engine.dispose()
    assert view.mean("x", epsilon=0.1).privacy.epsilon == 0.1


def test_persons_with_several_rows():
    """Rows are chosen by the declared columns: a description of more of them is of other rows."""
    rows = DATA.assign(who=np.arange(len(DATA)) // 3)
    view = dp.protect(
        rows, "persons", epsilon=100, ledger="memory:", unit="who", max_rows=2, bounds={"x": (-3, 7), "y": (-3, 7)}
    )
    view.describe(["x", "y"], epsilon=5)
    other = view.declare(bounds={"y": (-3, 8)})
    assert (view.mean("x", epsilon=0.1).privacy.epsilon, other.mean("x", epsilon=0.1).privacy.epsilon) == (0, 0.1)
