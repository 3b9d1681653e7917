"""The groups that a method compares, and their public sizes."""

import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.schema import chosen_groups
from dfprivacy.testing import seeded_noise

ARM = dp.Column("arm", categories=("drug", "placebo", 1))


def test_groups_are_given_as_they_were_declared():
    """In the order asked for, a number as it was declared; all of them where none is named."""
    assert chosen_groups(ARM, [1.0, "drug"]) == (1, "drug")
    assert chosen_groups(ARM, most=None) == ("drug", "placebo", 1)


@pytest.mark.parametrize(("groups", "error"), [
    (None, dp.ArgumentError), ("ab", dp.ArgumentError), (("drug",), dp.ArgumentError),
    (("drug", "drug"), dp.ArgumentError), ((1, True), dp.ArgumentError),
    (("drug", "placebo", 1), dp.ArgumentError), (("drug", "herbs"), dp.SchemaError),
])  # fmt: skip
def test_groups_that_cannot_be_compared(groups, error):
    """Too few, too many, one twice, or what is no category."""
    with pytest.raises(error, match=r"two groups of 'arm'|'herbs' is not a category"):
        chosen_groups(ARM, groups)


def test_a_public_group_that_is_too_small_is_refused_before_any_charge():
    """The curator says so from public numbers; private ones it does not look at."""

    @dp.mechanism(columns={"by": "category"})
    def least_of_three(curator, by):
        return None if curator.sizes(by, least=3) is None else "public"

    dp.register_mechanism(least_of_three)
    try:
        frame = pd.DataFrame({"arm": ["drug", "drug", "placebo"], "other": ["drug", "drug", "drug"]})
        terms = {"categories": {name: ["drug", "placebo"] for name in frame}, "ledger": "memory:"}
        view = dp.protect(frame, "groups of three", epsilon=1, public=["arm"], **terms)

        with pytest.raises(dp.ArgumentError, match="A group of 'arm' has 1 rows, and 3 are needed"):
            view.least_of_three("arm", epsilon=1)
        assert view.budget.spent == 0
        numbers = pd.DataFrame({"arm": [0, 1] * 5})
        texts = dp.protect(
            numbers,
            "texts for numbers",
            epsilon=1,
            public=["arm"],
            categories={"arm": ["no", "yes"]},
            ledger="memory:",
        )
        with pytest.raises(dp.ArgumentError, match="No row is of any of them"):
            texts.least_of_three("arm", epsilon=1)
        assert texts.budget.spent == 0
        assert view.least_of_three("other", epsilon=1).value is None
    finally:
        dp.unregister("least_of_three")


def test_tables_of_groups_name_their_rows():
    """What groups were described by stands in each of their tables, and facts that few have are blank in others."""
    table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 500 + [3.0] * 2000, "g": ["a"] * 2000 + ["b"] * 2000})
    view = table.dp.protect("rows-of-groups", epsilon=9, bounds={"x": (0, 5)}, categories={"g": ["a", "b"]})

    with seeded_noise(1):
        described, means = (repr(getattr(view.group_by("g"), of)("x", epsilon=3)) for of in ("describe", "mean"))

    for name in ("count", "missing", "mean", "std", "25%", "50%", "75%"):
        assert sum(name in line.split()[:2] for line in described.splitlines()) == 2
    assert means.count("rows, left out") == 1
