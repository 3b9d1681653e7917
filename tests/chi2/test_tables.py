"""Statistics of a 2 x 2 table, how far one row moves them, and what decisions lose: all small tables are tried."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.ndimage import distance_transform_cdt

import dfprivacy as dp
from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.laws import hypergeometric_law
from dfprivacy_chi2.tables import (
    chi2_sensitivity,
    chi2_statistic,
    paper_sensitivity,
    signed_distance,
    swap_sensitivity,
    tight_sensitivity,
    unit_circle_norm,
)

MOST = 30
DESIGNS = [(n1, n0) for n1 in range(1, MOST + 1) for n0 in range(1, MOST + 1)]
SMALL = [(n1, n0) for n1 in range(1, 13) for n0 in range(1, 13)]
TAUS = [0.05, 1.0, TAU, 10.8, 200.0]
EPSILONS = [0.1, 3.0]

REFERENCE = [
    # c11, c10, n1, n0; chi², norm, the paper's sensitivity, the tight one, that of swaps, signed distance
    (60, 30, 100, 100, 18.181818181818, 2.166960980102, 0.103018012333, 0.072844735105, 0.144310158098, 17),
    (12, 3, 30, 50, 14.227692307692, 1.627138617330, 0.175364422801, 0.149392595652, 0.235657501360, 6),
    (300, 200, 1000, 1000, 26.666666666667, 2.335884293483, 0.032299707220, 0.022839342006, 0.045634878909, 61),
    (40, 60, 100, 400, 31.25, 2.359312491498, 0.094248629886, 0.091357368023, 0.114087197272, 17),
]
FAR = [
    # c11, c10, n1, n0, tau, signed distance
    (5, 5, 10, 10, TAU, -4),
    (9, 2, 10, 10, TAU, 3),
    (0, 0, 100, 100, TAU, -3),
    (3500, 3000, 10_000, 10_000, TAU, 369),
    (5, 5, 10, 10, 29.7, -20),  # chi² of 20 rows is 20 at most: no table is significant
]
ODD = [
    # where the larger group is odd: n1, n0; what is attained, and the tight bound
    (9, 11, 0.2706309904, 0.2713544418),
    (21, 21, 0.1644401514, 0.1644984572),
    (101, 101, 0.0724761975, 0.0724764580),
    (33, 67, 0.1467655543, 0.1467683836),
]


def every(n1, n0):
    """The counts of all tables."""
    return np.indices((n1 + 1, n0 + 1))


def norms(n1, n0, tau=TAU):
    """The norm of all tables."""
    return unit_circle_norm(*every(n1, n0), n1, n0, tau)


def steps(values):
    """How far one row that changes its X moves a statistic of all tables, at most."""
    return max(np.abs(np.diff(values, axis=axis)).max() for axis in (0, 1))


def swaps(values):
    """How far two rows of different groups that exchange their X move it."""
    return np.abs(values[1:, :-1] - values[:-1, 1:]).max()


def test_reference_values():
    """Statistics, sensitivities and distances have their reference values."""
    for c11, c10, n1, n0, *known, distance in REFERENCE:
        found = [
            float(chi2_statistic(c11, c10, n1, n0)),
            float(unit_circle_norm(c11, c10, n1, n0, TAU)),
            *(of(n1, n0, TAU) for of in (paper_sensitivity, tight_sensitivity, swap_sensitivity)),
        ]
        assert found == pytest.approx(known, abs=1e-9)
        assert signed_distance(c11, c10, n1, n0, TAU) == distance
    for c11, c10, n1, n0, tau, distance in FAR:
        assert signed_distance(c11, c10, n1, n0, tau) == distance
    for n1, n0, attained, tight in ODD:
        assert steps(norms(n1, n0)) == pytest.approx(attained, abs=1e-10)
        assert tight_sensitivity(n1, n0, TAU) == pytest.approx(tight, abs=1e-10)


@pytest.mark.parametrize(("n1", "n0", "tau"), [(7, 12, TAU), (30, 10, 1.0), (5, 5, 8.0)])
def test_the_printed_map_is_two_squares(n1, n0, tau):
    """The affine map by eigenvectors, with λ₁ in both rows of P, is two squares; with λ₂ it is not."""
    n, (c11, c10) = n1 + n0, every(n1, n0).reshape(2, -1)
    A, B, C = n * n0**2 + tau * n1 * n0, n * n1**2 + tau * n1 * n0, n1 * n0 * (tau - n)
    D = -tau * n1 * n0 * n
    root = math.sqrt((A - B) ** 2 + 4 * C**2)
    first, second = (A + B + root) / 2, (A + B - root) / 2
    R = D**2 * (second * (C + first - A) ** 2 + first * (C + second - B) ** 2)
    R /= 4 * first * second * (C**2 + (first - A) ** 2)

    def norm(of_second_row):
        length = math.hypot(C, first - A), math.hypot(C, of_second_row - A)
        P = np.array([[C / length[0], (first - A) / length[0]], [-(first - A) / length[0], C / length[1]]])
        shift = D * P.sum(axis=1) / (2 * np.array([first, second]))
        return np.linalg.norm(np.sqrt(np.array([first, second]) / R) * (P @ [c11, c10] + shift[:, None]).T, axis=1)

    expected = unit_circle_norm(c11, c10, n1, n0, tau)
    assert norm(first) == pytest.approx(expected, rel=1e-9)
    if n1 != n0:
        assert np.abs(norm(second) - expected).max() > 0.05


@pytest.mark.parametrize("tau", TAUS)
def test_no_row_moves_the_norm_further(tau):
    """Its squares are 1 + 4 q (1-q) (chi²/tau - 1); the tight bound and that of swaps hold, and are attained."""
    reached = 0
    for n1, n0 in DESIGNS:
        c11, c10 = every(n1, n0)
        q, norm = (c11 + c10) / (n1 + n0), norms(n1, n0, tau)
        tight, swap = tight_sensitivity(n1, n0, tau), swap_sensitivity(n1, n0, tau)

        identity = 1 + 4 * q * (1 - q) * (chi2_statistic(c11, c10, n1, n0) / tau - 1)
        assert np.abs(norm**2 - identity).max() <= 1e-11 * (1 + 1 / tau)
        assert norm[0, 0] == norm[n1, n0] == 1
        assert steps(norm) <= tight * (1 + 1e-12)
        assert swaps(norm) <= swap * (1 + 1e-12)
        assert swap <= 2 * tight
        assert tight <= swap or tau > n1 + n0
        assert steps(np.abs(n0 * c11 - n1 * c10)) == max(n1, n0)  # |δ| by 1/min(n1, n0), in integers
        if max(n1, n0) % 2 == 0 and min(n1, n0) > 1:
            assert steps(norm) == pytest.approx(tight, rel=1e-12)
            reached += swaps(norm) >= swap * (1 - 1e-12)
    assert reached > 10


def test_no_row_moves_chi2_further():
    """And some row does move it by what is said."""
    moved = [steps(chi2_statistic(*every(*n), *n)) / chi2_sensitivity(*n) for n in DESIGNS]

    assert max(moved) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("tau", [0.5, TAU, 10.8, 29.65])
def test_signed_distances_are_what_they_are_defined_as(tau):
    """In all tables of small groups, and some of larger ones, they are taxicab distances to the other side."""
    for n1, n0 in [*SMALL, (1, 40), (38, 3), (9, 31), (40, 17), (40, 40)]:
        c11, c10 = every(n1, n0)
        n, m1 = n1 + n0, c11 + c10
        outside = n * (c11 * n0 - c10 * n1) ** 2 > tau * n1 * n0 * m1 * (n - m1)  # of those with chi² up to tau
        expected = np.full(outside.shape, -n)
        if outside.any():
            to_inside, to_outside = (distance_transform_cdt(of, metric="taxicab") for of in (outside, ~outside))
            expected = np.where(outside, to_inside, 1 - to_outside)

        found = signed_distance(c11, c10, n1, n0, tau)

        assert (found == expected).all(), (n1, n0)
        assert steps(found) <= 1


def test_a_distance_in_a_large_table_is_quick_and_right():
    """With a million rows the distance is settled by integers: one row less, and it is on the other side."""
    n1, n0, c10 = 400_000, 600_000, 180_000

    away = int(signed_distance(121_000, c10, n1, n0, TAU))

    assert away > 0
    assert signed_distance(121_000 - away, c10, n1, n0, TAU) <= 0
    assert signed_distance(121_000 - away + 1, c10, n1, n0, TAU) == 1


# What decisions lose: for this the sensitivities are.


def log_odds(statistic, threshold, scale):
    """The logarithms of the probabilities of rejecting and of not, for a statistic with Laplace noise."""
    away = (statistic - threshold) / scale
    tail, body = -np.abs(away) - np.log(2), np.log1p(-np.exp(-np.abs(away)) / 2)
    return np.where(away < 0, tail, body), np.where(away < 0, body, tail)


def loss(statistic, threshold, scale, moved=steps):
    """The privacy loss of a decision: over all tables, neighbours and both outcomes."""
    return max(moved(outcome) for outcome in log_odds(statistic, threshold, scale))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_decisions_lose_what_is_paid(epsilon):
    """At a fixed threshold they lose epsilon at most, and all of it at tau in groups of even sizes."""
    for n1, n0 in DESIGNS:
        norm, (c11, c10) = norms(n1, n0), every(n1, n0)
        tight, paper, swap = (
            of(n1, n0, TAU) / epsilon for of in (tight_sensitivity, paper_sensitivity, swap_sensitivity)
        )
        apart, scale = np.abs(c11 / n1 - c10 / n0), 1 / (min(n1, n0) * epsilon)

        assert loss(norm, 1.3, tight) <= epsilon * (1 + 1e-12)
        assert loss(norm, 1.0, tight) <= epsilon * (1 + 1e-12)
        assert loss(norm, 1.0, swap, swaps) <= epsilon * (1 + 1e-12)
        assert loss(apart, 0.0, scale) == pytest.approx(epsilon, abs=1e-9)
        assert loss(apart, 0.15, scale) <= epsilon + 1e-9
        if n1 % 2 == n0 % 2 == 0 and min(n1, n0) >= 10:
            assert loss(norm, 1.0, tight) == pytest.approx(epsilon, abs=1e-9)
            if n1 == n0:  # the paper's bound wastes some of it
                assert loss(norm, 1.0, paper) == pytest.approx(epsilon / math.sqrt(2), abs=1e-9)


@pytest.mark.parametrize(
    ("n", "epsilon", "norm", "difference"), [(50, 1.0, 1.047, 1.5), (100, 3.0, 1.4, 1.6)], ids=str
)
def test_a_threshold_from_the_exact_margin_breaks_the_promise(n, epsilon, norm, difference):
    """Neighbours differ in M1, so that a critical value from the exact M1 loses more than is paid."""
    statistics = [
        (lambda a, b: unit_circle_norm(a, b, n, n, TAU), tight_sensitivity(n, n, TAU) / epsilon, norm),
        (lambda a, b: np.abs(a / n - b / n), 1 / (n * epsilon), difference),
    ]

    for statistic, scale, least in statistics:
        of = [hypergeometric_law(statistic, n, n, m1).critical_value(0.05, scale) for m1 in range(2 * n + 1)]
        lost = loss(statistic(*every(n, n)), np.array(of)[sum(every(n, n))], scale)
        assert lost >= least * epsilon


def all_answers(f, of_threshold, of_value, rejections):
    """Probabilities of all answers to two columns whose values f are compared with 0, by integration."""
    rho = np.linspace(-12, 12, 2001) * of_threshold
    density = np.exp(-np.abs(rho) / of_threshold)
    density /= density.sum()
    one, two = (np.exp(log_odds(column[..., None], rho, of_value)[0]) for column in f)
    answers = [(1 - one) * (1 - two), (1 - one) * two]
    answers += [one] if rejections == 1 else [one * (1 - two), one * two]  # it stops at the first
    return np.stack([answer @ density for answer in answers])


@pytest.mark.parametrize("rejections", [1, 2])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_answers_of_the_sparse_vector(epsilon, rejections):
    """A row moves the values of two columns by 1, together or apart: with its noise, all answers lose epsilon."""
    frame = pd.DataFrame({"x": [0, 1] * 20, "z": [0, 1] * 20, "by": ["a", "b"] * 20})
    known = {"categories": {"x": [0, 1], "z": [0, 1], "by": ["a", "b"]}, "public": ["by"]}
    view = dp.protect(frame, f"sparse-{rejections}-{epsilon}", epsilon=epsilon, ledger="memory:", **known)
    found = view.chi2_many(["x", "z"], "by", max_rejections=rejections, epsilon=epsilon)
    scales = [deviation / math.sqrt(2) * min(found.sizes) for deviation in found.noise_standard_error]
    values = np.arange(-12.0, 13.0)

    answers = np.log(all_answers(np.meshgrid(values, values, indexing="ij"), *scales, rejections))

    moves = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    here, other = answers[:, 1:-1, 1:-1], [answers[:, 1 + i : 24 + i, 1 + j : 24 + j] for i, j in moves]
    lost = max(np.abs(here - there).max() for there in other)
    assert lost <= epsilon * (1 + 1e-6)
    assert lost >= (0.3 if rejections > 1 else 0.6) * epsilon
