"""A warning that depends on what was asked comes before anything is paid; a conclusion gives none."""

from __future__ import annotations

import warnings
from fractions import Fraction

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy._plugins.loader import registry
from dfprivacy.testing import seeded_noise
from dfprivacy_audit.cases import cases_of, tables

SLOW = {"n_components"}  # what follows the measurements of a mixture takes long
BUNDLED = [each for each in registry().mechanisms.values() if each.origin.startswith("dfprivacy ")]
FEW = 3  # cases of a method: others are of other columns and groups


def asked():
    """Some cases of each method, by turns at a price that leaves little noise, and far too much."""
    for mechanism in BUNDLED:
        cases = [each for each in cases_of(mechanism) if each.other is None and not SLOW & each.arguments.keys()]
        for number, case in enumerate(cases[:FEW]):
            for epsilon in ("1/1000", 20) if number == 0 else ("1/1000",):
                yield pytest.param(mechanism.name, case, epsilon, id=f"{mechanism.name}-{number}-{epsilon}")


def view_of(case, rows):
    terms = {name: getattr(case, name) for name in ("bounds", "categories", "public", "missing", "neighbors")}
    return dp.protect(pd.DataFrame(rows), "warned", epsilon=100, delta="1/100", ledger="memory:", **terms)


@pytest.mark.parametrize(("name", "case", "epsilon"), [*asked()])
def test_no_answer_warns(name, case, epsilon):
    """Where warnings are errors, whoever has paid gets an answer: of little noise, and of far too much."""
    view = view_of(case, tables(case)["mixed"])
    view = view.where(**case.where) if case.where else view
    view = view.group_by(*case.grouped) if case.grouped else view
    price = {"epsilon": epsilon} | ({"delta": "1/100000"} if Fraction(case.delta) else {})
    with seeded_noise(1), warnings.catch_warnings(action="error"):
        said = repr(getattr(view, name)(**case.arguments, **price))

    assert said
