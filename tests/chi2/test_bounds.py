"""Theorems 2, 3 and 7 of Kakizaki, Fukuchi and Sakuma: bounds of the type II error, beside the error itself."""

import math

import numpy as np
import pytest

import dfprivacy as dp
from dfprivacy_chi2 import gamma_error, power, type_ii_bound
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.laws import by_binomials
from dfprivacy_chi2.tables import (
    chi2_sensitivity,
    chi2_statistic,
    paper_sensitivity,
    tight_sensitivity,
    unit_circle_norm,
)

DESIGNS = [(100, 100, 0.5, 0.3, 0.3), (500, 300, 0.2, 0.1, 0.2), (50, 80, 2.0, 0.5, -0.3), (20, 20, 1.0, 0.0, 1.0)]


def test_the_bounds_are_those_that_are_printed():
    """Theorem 3, and Theorem 7 with its own sensitivity, written out."""
    n1, n0, epsilon, gamma, m1 = 30, 50, 0.7, 6.0, 24
    n = n1 + n0
    spread = 2 * math.sqrt(((n0**2 + n1**2) * n + 2 * TAU * n0 * n1) / (TAU * n0 * n1 * n**2))

    third = gamma_error(gamma, n1, n0, epsilon, statistic="chi2")
    seventh = gamma_error(gamma, n1, n0, epsilon, share=m1 / n, sensitivity="paper")

    delta = n * n / (n1 * n0) * (1 - 1 / (n0 + 1))
    assert third == pytest.approx(math.exp(-gamma * epsilon / delta) / 2, rel=1e-12)
    root = math.sqrt(1 + 4 * gamma * m1 * (n - m1) / (TAU * n * n))
    assert seventh == pytest.approx(math.exp((1 - root) * epsilon / spread) / 2, rel=1e-12)


@pytest.mark.parametrize(("n1", "n0"), [(5, 5), (8, 3), (12, 20)])
@pytest.mark.parametrize("threshold", [None, 1.4])
def test_no_table_is_accepted_more_often(n1, n0, threshold):
    """Of all small tables above tau, none is accepted by the noise more often than Theorems 3 and 7 let."""
    c11, c10 = np.indices((n1 + 1, n0 + 1))
    chi2, share, epsilon = chi2_statistic(c11, c10, n1, n0), (c11 + c10) / (n1 + n0), 1.3
    above = chi2 > TAU
    kinds = {
        "unitcircle": (unit_circle_norm(c11, c10, n1, n0, TAU), tight_sensitivity(n1, n0, TAU), 1.0),
        "chi2": (chi2, chi2_sensitivity(n1, n0), TAU),
    }

    for statistic, (value, sensitivity, own) in kinds.items():
        at = own if threshold is None else threshold * own
        away = (value - at) * epsilon / sensitivity
        accepted = np.where(away >= 0, np.exp(-np.abs(away)) / 2, 1 - np.exp(-np.abs(away)) / 2)
        gamma = np.maximum(chi2 - TAU, 0.0)
        bound = gamma_error(gamma, n1, n0, epsilon, statistic=statistic, share=share, threshold=at)

        assert above.sum() > 4
        assert (accepted[above] <= bound[above] * (1 + 1e-9)).all()
        assert accepted[above] == pytest.approx(bound[above], rel=1e-6)  # at its own gamma a table attains it


@pytest.mark.parametrize(("n1", "n0", "epsilon", "base", "difference"), DESIGNS)
@pytest.mark.parametrize("statistic", ["unitcircle", "chi2"])
def test_the_error_is_below_its_bound(n1, n0, epsilon, base, difference, statistic):
    """The type II error, a sum over all tables, is below Theorem 2, and not by orders of magnitude."""
    if statistic == "chi2":
        law = by_binomials(lambda a, b: chi2_statistic(a, b, n1, n0), n1, n0, base + difference, base)
        error = 1 - law.sf(TAU, chi2_sensitivity(n1, n0) / epsilon)
    else:
        law = by_binomials(lambda a, b: unit_circle_norm(a, b, n1, n0, TAU), n1, n0, base + difference, base)
        error = 1 - law.sf(1.0, tight_sensitivity(n1, n0, TAU) / epsilon)

    bound = type_ii_bound(n1, n0, epsilon, base=base, difference=difference, statistic=statistic)

    assert error - 1e-12 <= bound <= 1
    assert error < 1e-6 or bound < 200 * error


@pytest.mark.parametrize(("n1", "n0", "epsilon", "base", "difference"), DESIGNS)
def test_power_says_what_the_theorems_promise(n1, n0, epsilon, base, difference):
    """At the critical value of the calibrated test, the promise is below the power, and close where it is large."""
    exact, promised = (
        power(n1, n0, epsilon, base=base, difference=difference, method="unit_circle", bound=bound)
        for bound in (False, True)
    )

    assert 0 <= promised <= exact + 1e-12
    assert exact - promised < 0.2 or exact < 0.9


def test_the_error_falls_exponentially_where_the_share_is_not_rare():
    """With ten times the rows the bound of Theorem 7 falls by orders, and hardly if X is rare."""
    common = [gamma_error(5.0, n, n, 1.0, share=0.4) for n in (100, 1000, 10_000)]
    rare = [gamma_error(5.0, n, n, 1.0, share=0.5 / n) for n in (100, 1000, 10_000)]

    assert common[0] > 10 * common[1] > 1e4 * common[2]
    assert min(rare) > 0.4


def test_the_papers_sensitivity_promises_less():
    """With the bound of Lemma 2 there is more noise, and a larger error."""
    tight, paper = (
        type_ii_bound(200, 200, 0.5, base=0.3, difference=0.2, sensitivity=kind) for kind in ("tight", "paper")
    )

    assert tight < paper
    assert paper_sensitivity(200, 200, TAU) == pytest.approx(math.sqrt(2) * tight_sensitivity(200, 200, TAU), 1e-2)


def test_what_is_out_of_range_is_refused():
    """Budgets, sizes, gammas and shares that cannot be, and a bound of another method."""
    with pytest.raises(dp.ArgumentError, match="out of range"):
        gamma_error(1.0, 10, 10, 0.0)
    with pytest.raises(dp.ArgumentError, match="out of range"):
        gamma_error([1.0, -1.0], 10, 10, 1.0)
    with pytest.raises(dp.ArgumentError, match="must be shares"):
        type_ii_bound(10, 10, 1.0, base=0.7, difference=0.4)
    with pytest.raises(dp.ArgumentError, match="rate= and bound= are options"):
        power(10, 10, 1.0, base=0.3, difference=0.4, method="signed", bound=True)
