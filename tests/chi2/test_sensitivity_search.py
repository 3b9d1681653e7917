"""A search for tables on which one row moves a statistic by more than is claimed; it reaches the claims."""

import math

import numpy as np
import pytest

from dfprivacy.schema import Column
from dfprivacy_chi2 import counts
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.tables import tight_sensitivity

X = Column("x", categories=(0, 1))
OTHER = Column("x", categories=(0, "other"), other=True)
Z = Column("z", categories=("no", "yes"))
KNOWN = Column("k", categories=("no", "yes"), public=True)
LARGE = Column("x", categories=("u", "v", "w"))
BY = Column("by", categories=("a", "b", "c"), public=True)
SIZES = [(1, 1), (1, 6), (6, 3), (8, 8)]


def found(search, statistic, columns, sizes, norm, seed=0):
    """The largest part of the claim; the table has rows of other groups, and of none, besides."""
    groups = [code for code, size in enumerate(sizes) for _ in range(size)] + [2] * (len(sizes) < 3) + [3]
    n = len(groups)
    return search([*columns, BY], seed, {"by": groups}).statistic(statistic, norm, n, tries=8, steps=120)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("x", [X, OTHER], ids=["missing", "other"])
def test_no_row_moves_a_number_of_two_groups_more(search, x, sizes):
    """The differences and the distance move by what they claim, the norm by hardly less."""
    of = x, BY, ("a", "b"), sizes
    bound = tight_sensitivity(*sizes, TAU)
    numbers = {
        "difference": counts.Difference([x], *of[1:], fill=True),
        "complete": counts.Difference([x], *of[1:]),
        "signed": counts.Difference([x], *of[1:], signed=True),
        "distance": counts.Distance([of[0]], *of[1:], TAU),
        "norm": counts.UnitCircleNorm([of[0]], *of[1:], TAU, bound),
    }

    most = {name: found(search, statistic, [x], sizes, 1) for name, statistic in numbers.items()}

    assert max(most.values()) <= 1 + 1e-9
    assert most["difference"] > 0.9
    if min(sizes) > 1:
        assert min(most.values()) > 0.9


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_no_row_moves_many_differences_more(search, norm):
    """Of three columns one is public: a row moves those of the other two, and three are claimed."""
    sizes = (3, 4)
    private = counts.Difference([X, Z], BY, ("a", "b"), sizes)
    mixed = counts.Difference([X, Z, KNOWN], BY, ("a", "b"), sizes)
    share = {1: 2 / 3, 2: math.sqrt(2 / 3), math.inf: 1.0}[norm]

    most = found(search, private, [X, Z], sizes, norm), found(search, mixed, [X, Z, KNOWN], sizes, norm)

    assert max(most) <= 1 + 1e-9
    assert most[0] > 0.9
    assert most[1] > 0.9 * share


@pytest.mark.parametrize("kind", ["norm", "distance"])
@pytest.mark.parametrize("norm", [1, math.inf])
def test_no_row_moves_many_norms_or_distances_more(search, norm, kind):
    """A row moves the norm and the distance of two columns by 1 each, in units of their sensitivity."""
    sizes = (3, 4)
    asked = [X, Z], BY, ("a", "b"), sizes
    statistic = {
        "norm": counts.UnitCircleNorm(*asked, TAU, tight_sensitivity(*sizes, TAU)),
        "distance": counts.Distance(*asked, 1.5),
    }[kind]

    most = found(search, statistic, [X, Z], sizes, norm)

    assert 0.9 < most <= 1 + 1e-9


def test_no_row_of_large_tables_moves_a_number_more():
    """Groups of 1 to 500 rows: one count more moves each number by what it claims at most."""
    rng = np.random.default_rng(0)
    most = dict.fromkeys(("difference", "norm", "distance"), 0.0)
    for _ in range(60):
        sizes = tuple(int(size) for size in np.exp(rng.uniform(0, math.log(500), 2)))
        tau = float(rng.choice([1e-6, TAU, 1e6]))
        of = X, BY, ("a", "b"), sizes
        numbers = {
            "difference": counts.Difference([X], *of[1:], fill=True),
            "norm": counts.UnitCircleNorm([X], *of[1:], tau, tight_sensitivity(*sizes, tau), fill=True),
            "distance": counts.Distance([of[0]], *of[1:], TAU),
        }
        for _ in range(5):
            before = np.array([[int(rng.choice([0, size // 2, rng.integers(size)]))] for size in sizes])
            for move in ([[1], [0]], [[0], [1]]):
                after = before + move
                if (after <= np.array(sizes)[:, None]).all():
                    for name, statistic in numbers.items():
                        step = abs(statistic.value(after) - statistic.value(before)) - 2 * statistic.error
                        most[name] = max(most[name], float(np.max(step)))

    assert max(most.values()) <= 1 + 1e-9
    assert min(most.values()) > 0.99


def test_a_claim_of_nine_tenths_is_found_out(search):
    """The search refutes a statistic that claims a tenth too little."""

    class Understated(counts.Distance):
        def sensitivity(self, relation, norm, public):
            return 0.9 * super().sensitivity(relation, norm, public)

    statistic = Understated([X], BY, ("a", "b"), (4, 4), TAU)

    assert found(search, statistic, [X], (4, 4), 1) > 1


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("fill", [False, True])
def test_no_row_is_longer_or_further_in_the_margins(search, fill, norm):
    """Whether X is 1, 0 or missing, a row has one entry of a half, and two rows are 1 apart in L1 at most."""
    margins = counts.Margins(X, BY, ("a", "b"), fill=fill)

    most = search([X, BY], 0).features(margins, norm)

    assert (0.9 if norm == 1 else 0.7) < most <= 1 + 1e-9
