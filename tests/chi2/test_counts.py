"""The statistics of counts that are noised: their values, and that no row moves them by more than they claim."""

import math
from itertools import product

import numpy as np
import pytest

from dfprivacy.schema import Column
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.counts import Difference, Distance, Margins, UnitCircleNorm
from dfprivacy_chi2.tables import signed_distance, tight_sensitivity, unit_circle_norm

X = Column("x", categories=(0, 1))
OTHER = Column("x", categories=(0, "other"), other=True)
Z = Column("z", categories=("no", "yes"))
KNOWN = Column("k", categories=("no", "yes"), public=True)
BY = Column("by", categories=("a", "b", "c"), public=True)
PUBLIC = frozenset({"by"})


def statistics(sizes, *xs, tau=TAU):
    """All statistics of the counts of X = 1 in two groups."""
    of = xs or (X,), BY, ("a", "b"), sizes
    bound = tight_sensitivity(*sizes, tau)
    return {
        "difference": Difference(*of, fill=True),
        "complete": Difference(*of),
        "signed": Difference(*of, signed=True),
        "distance": Distance(*of, tau),
        "norm": UnitCircleNorm(*of, tau, bound, fill=True),
        "complete norm": UnitCircleNorm(*of, tau, bound),
    }


def test_values_are_those_of_the_tables():
    """Divided by their weights, they are the statistics; the difference of a group without a value is 0."""
    n1, n0, c11, c10 = 30, 50, 12, 3
    every = statistics((n1, n0))
    found = {
        name: float(np.ravel(every[name].value(np.array([[c11], [c10]])) / every[name].weights)[0])
        for name in ("difference", "norm", "distance")
    }
    rows = np.array([[3, 7, 0, 0], [20, 10, 5, 5]])  # X = 1, X = 0, Z = 1, Z = 0

    assert found == pytest.approx(
        {
            "difference": 30 * (12 / 30 - 3 / 50),  # its own weights are 1
            "norm": unit_circle_norm(c11, c10, n1, n0, TAU),
            "distance": int(signed_distance(c11, c10, n1, n0, TAU)),
        }
    )
    many = statistics((n1, n0), X, Z)
    assert many["signed"].value(rows).tolist() == pytest.approx([10 * (0.3 - 20 / 30), 0.0])
    assert many["complete"].value(rows).tolist() == pytest.approx([10 * (20 / 30 - 0.3), 0.0])
    assert statistics((4, 6), X, Z)["difference"].value(np.array([[4, 1], [0, 6]])).tolist() == [4, 3]


def test_what_they_claim():
    """One row moves each by 1; there is no claim where the groups are private, and none is needed for public X."""
    for statistic in statistics((4, 6)).values():
        assert statistic.sensitivity("replace_one", 1, PUBLIC) == 1
        assert statistic.sensitivity("replace_one", 1, frozenset()) == math.inf
        assert statistic.sensitivity("add_remove", 1, PUBLIC) == math.inf
        assert statistic.sensitivity("replace_one", 1, PUBLIC | {"x"}) == 0
    for statistic in statistics((4, 6), X, Z).values():
        claims = [statistic.sensitivity("replace_one", norm, PUBLIC) for norm in (1, 2, math.inf)]
        assert claims == [2, math.sqrt(2), 1]


@pytest.mark.parametrize(("kind", "tau"), [("signed", TAU), ("complete norm", TAU), ("complete norm", 0.01)])
@pytest.mark.parametrize(("n1", "n0"), [(1, 6), (6, 3), (5, 5), (7, 8)])
def test_one_row_moves_what_complete_rows_say_by_1(n1, n0, kind, tau):
    """In all tables of two groups, a row that changes, loses or gets its X moves each number by 1 at most."""
    statistic = statistics((n1, n0), tau=tau)[kind]
    groups = [[(c, m - c) for m in range(n + 1) for c in range(m + 1)] for n in (n1, n0)]
    value = {table: float(statistic.value(np.array(table))[0]) for table in product(*groups)}

    moved = max(
        abs(value[after] - before)
        for (first, second), before in value.items()
        for a, b in [(1, -1), (1, 0), (0, 1)]
        for after in (((first[0] + a, first[1] + b), second), (first, (second[0] + a, second[1] + b)))
        if after in value
    )

    assert 0.4 <= moved <= 1 + 2 * statistic.error
    assert "norm" in kind or max(map(abs, value.values())) == min(n1, n0)


def found(search, statistic, columns, sizes, norm):
    """The largest part of the claim; the table has rows of other groups, and of none, besides."""
    groups = [code for code, size in enumerate(sizes) for _ in range(size)] + [2, 3]
    return search([*columns, BY], 0, {"by": groups}).statistic(statistic, norm, len(groups), tries=5, steps=80)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("x", "sizes"), [(X, (1, 6)), (X, (6, 3)), (OTHER, (8, 8))])
def test_no_row_moves_a_number_of_two_groups_more(search, x, sizes):
    """A search finds tables on which they move by what they claim, and none on which they move by more."""
    most = {name: found(search, each, [x], sizes, 1) for name, each in statistics(sizes, x).items()}

    assert max(most.values()) <= 1 + 1e-9
    assert most["difference"] > 0.9
    assert min(sizes) == 1 or min(most.values()) > 0.9


@pytest.mark.one_in(2)
@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_no_row_moves_many_numbers_more(search, norm):
    """Of two columns each moves by 1; of three one is public, and three are claimed."""
    most = [found(search, each, [X, Z], (3, 4), norm) for each in statistics((3, 4), X, Z).values()]
    mixed = found(search, statistics((3, 4), X, Z, KNOWN)["complete"], [X, Z, KNOWN], (3, 4), norm)

    assert max(*most, mixed) <= 1 + 1e-9
    assert min(most) > 0.8
    assert mixed > 0.9 * {1: 2 / 3, 2: math.sqrt(2 / 3), math.inf: 1.0}[norm]


def test_no_row_of_large_tables_moves_a_number_more():
    """Groups of 1 to 500 rows: one count more moves each number by what it claims at most."""
    rng = np.random.default_rng(0)
    most = dict.fromkeys(("difference", "norm", "distance"), 0.0)
    for tau in [1e-6, TAU, 1e6] * 15:
        sizes = tuple(int(size) for size in np.exp(rng.uniform(0, math.log(500), 2)))
        numbers = statistics(sizes, tau=tau)
        for _ in range(5):
            before = np.array([[int(rng.choice([0, size // 2, rng.integers(size)]))] for size in sizes])
            for move in ([[1], [0]], [[0], [1]]):
                after = before + move
                if (after <= np.array(sizes)[:, None]).all():
                    for name in most:
                        step = abs(numbers[name].value(after) - numbers[name].value(before))
                        most[name] = max(most[name], float(np.max(step - 2 * numbers[name].error)))

    assert max(most.values()) <= 1 + 1e-9
    assert min(most.values()) > 0.99


def test_a_claim_of_nine_tenths_is_found_out(search):
    """The search refutes a statistic that claims a tenth too little."""

    class Understated(Distance):
        def sensitivity(self, relation, norm, public):
            return 0.9 * super().sensitivity(relation, norm, public)

    assert found(search, Understated([X], BY, ("a", "b"), (4, 4), TAU), [X], (4, 4), 1) > 1


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("fill", [False, True])
def test_no_row_is_longer_or_further_in_the_margins(search, fill, norm):
    """Whether X is 1, 0 or missing, a row has one entry of a half, and two rows are 1 apart in L1 at most."""
    margins = Margins(X, BY, ("a", "b"), fill=fill)

    most = search([X, BY], 0).features(margins, norm)

    assert (0.9 if norm == 1 else 0.7) < most <= 1 + 1e-9
