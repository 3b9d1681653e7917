"""Formulas and lists of names, and what is refused."""

from __future__ import annotations

import pytest

from dfprivacy import ArgumentError, Column, SchemaError
from dfprivacy_regression import formula

KNOWN = {
    "a": Column("a", bounds=(-3, 3)),
    "b": Column("b", bounds=(0, 10)),
    "my column": Column("my column", bounds=(0, 1)),
    "g": Column("g", categories=("u", "v", "w")),
    "one": Column("one", categories=("k",)),
    "both": Column("both", bounds=(0, 1), categories=(0, 1)),
}


@pytest.mark.parametrize(
    "asked", [("a ~ b + C(g)", None), ("a~b+g", None), ("a ~ 1 + b + g", None), ("a", ["b", "g"])]
)
def test_ways_to_say_the_same(asked):
    design = formula.read(*asked, KNOWN)

    assert design.formula() == "a ~ b + C(g)"
    assert design.names == ("Intercept", "b", "C(g)[T.v]", "C(g)[T.w]")


def test_one_regressor_is_a_name():
    assert formula.read("a", "my column", KNOWN).names == ("Intercept", "my column")


def test_numbers_with_categories_are_numbers_unless_said():
    assert formula.read("a ~ both", None, KNOWN).names == ("Intercept", "both")
    assert formula.read("a ~ C(both)", None, KNOWN).names == ("Intercept", "C(both)[T.1]")
    assert formula.read("a", ["C(both)"], KNOWN).names == ("Intercept", "C(both)[T.1]")


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        (("a", None), ArgumentError, "is no formula"),
        (("a ~ b ~ g", None), ArgumentError, "is no formula"),
        (("a ~", None), ArgumentError, "nothing on the right"),
        (("a ~ 1", None), ArgumentError, "nothing on the right"),
        (("a ~ b +", None), ArgumentError, "is not supported"),
        (("a ~ log(b)", None), ArgumentError, r"'log\(b\)'"),
        (("a ~ b * g", None), ArgumentError, "is not supported"),
        (("a ~ b : g", None), ArgumentError, "is not supported"),
        (("a ~ b - 1", None), ArgumentError, "'b - 1' is not supported"),
        (("a ~ np.log(b)", None), ArgumentError, r"'np.log\(b\)' is not supported"),
        (("log(a) ~ b", None), ArgumentError, r"'log\(a\)' is not supported"),
        (("a ~ 0 + b", None), ArgumentError, "'0'"),
        (("a", 5), ArgumentError, "names of columns, not a int"),
        (("a ~ income", None), SchemaError, "no column 'income'"),
        (("income ~ a", None), SchemaError, "no column 'income'"),
        (("g ~ a", None), SchemaError, "has no bounds"),
        (("a ~ C(b)", None), SchemaError, "no categories"),
        (("a ~ a + b", None), ArgumentError, "is also a regressor"),
        (("both ~ C(both)", None), ArgumentError, "is also a regressor"),
        (("a ~ b + b", None), ArgumentError, "twice"),
        (("a ~ both + C(both)", None), ArgumentError, "twice"),
        (("a ~ one", None), ArgumentError, "constant"),
        (("a", []), ArgumentError, "no regressor"),
        (("a", [1]), SchemaError, "no column 1"),
    ],
)
def test_what_cannot_be_asked(asked, error, said):
    with pytest.raises(error, match=said):
        formula.read(*asked, KNOWN)
