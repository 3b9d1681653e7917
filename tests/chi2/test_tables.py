"""Statistics of a 2 x 2 table, and how far one row moves them: all small tables are tried."""

import math

import numpy as np
import pytest
from scipy.ndimage import distance_transform_cdt

from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.tables import (
    chi2_statistic,
    paper_sensitivity,
    signed_distance,
    swap_sensitivity,
    tight_sensitivity,
    unit_circle_norm,
)

MOST = 40
DESIGNS = [(n1, n0) for n1 in range(1, MOST + 1) for n0 in range(1, MOST + 1)]
TAUS = [0.05, 1.0, TAU, 10.8, 200.0]

REFERENCE = [
    # c11, c10, n1, n0; chi², norm, the paper's sensitivity, the tight one, that of swaps, signed distance
    (60, 30, 100, 100, 18.181818181818, 2.166960980102, 0.103018012333, 0.072844735105, 0.144310158098, 17),
    (12, 3, 30, 50, 14.227692307692, 1.627138617330, 0.175364422801, 0.149392595652, 0.235657501360, 6),
    (300, 200, 1000, 1000, 26.666666666667, 2.335884293483, 0.032299707220, 0.022839342006, 0.045634878909, 61),
    (40, 60, 100, 400, 31.25, 2.359312491498, 0.094248629886, 0.091357368023, 0.114087197272, 17),
]


@pytest.mark.parametrize(
    ("c11", "c10", "n1", "n0", "chi2", "norm", "paper", "tight", "swap", "distance"), REFERENCE
)
def test_reference_values(c11, c10, n1, n0, chi2, norm, paper, tight, swap, distance):
    """Statistics and sensitivities of four tables have their reference values."""
    found = [
        float(chi2_statistic(c11, c10, n1, n0)),
        float(unit_circle_norm(c11, c10, n1, n0, TAU)),
        paper_sensitivity(n1, n0, TAU),
        tight_sensitivity(n1, n0, TAU),
        swap_sensitivity(n1, n0, TAU),
    ]

    assert found == pytest.approx([chi2, norm, paper, tight, swap], abs=1e-9)
    assert signed_distance(c11, c10, n1, n0, TAU) == distance


@pytest.mark.parametrize(
    ("c11", "c10", "n1", "n0", "tau", "distance"),
    [
        (5, 5, 10, 10, TAU, -4),
        (9, 2, 10, 10, TAU, 3),
        (0, 0, 100, 100, TAU, -3),
        (3500, 3000, 10_000, 10_000, TAU, 369),
        (5, 5, 10, 10, 29.7, -20),  # chi² of 20 rows is 20 at most: no table is significant
    ],
)
def test_reference_distances(c11, c10, n1, n0, tau, distance):
    """Signed distances have their reference values; minus all rows where no table is significant."""
    assert signed_distance(c11, c10, n1, n0, tau) == distance


@pytest.mark.parametrize(("n1", "n0", "tau"), [(7, 12, TAU), (30, 10, 1.0), (5, 5, 8.0)])
def test_the_printed_map_is_two_squares(n1, n0, tau):
    """The affine map by eigenvectors, with λ₁ in both rows of P, is two squares; with λ₂ it is not."""
    n, (c11, c10) = n1 + n0, np.indices((n1 + 1, n0 + 1)).reshape(2, -1)
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
def test_the_norm_exceeds_1_where_chi2_exceeds_tau(tau):
    """The two squares are 1 + 4 q (1-q) (chi²/tau - 1) in all small tables, and 1 where X is constant."""
    for n1, n0 in DESIGNS:
        c11, c10 = np.indices((n1 + 1, n0 + 1))
        q = (c11 + c10) / (n1 + n0)

        squares = unit_circle_norm(c11, c10, n1, n0, tau) ** 2

        identity = 1 + 4 * q * (1 - q) * (chi2_statistic(c11, c10, n1, n0) / tau - 1)
        assert np.abs(squares - identity).max() <= 1e-11 * (1 + 1 / tau)
        assert squares[0, 0] == squares[n1, n0] == 1


def steps(values):
    """How far one row that changes its X moves a statistic of all tables, at most."""
    return max(np.abs(np.diff(values, axis=axis)).max() for axis in (0, 1))


def exact_sensitivity(n1, n0, tau):
    """The sensitivity of the norm, by going through all tables."""
    return steps(unit_circle_norm(*np.indices((n1 + 1, n0 + 1)), n1, n0, tau))


@pytest.mark.parametrize("tau", TAUS)
def test_no_row_moves_the_norm_further(tau):
    """In all tables of groups up to 40 the tight bound holds, and is attained where the larger group is even."""
    exact = np.array([exact_sensitivity(n1, n0, tau) for n1, n0 in DESIGNS])

    tight = np.array([tight_sensitivity(n1, n0, tau) for n1, n0 in DESIGNS])

    sizes = np.array(DESIGNS)
    attained = (sizes.max(axis=1) % 2 == 0) & (sizes.min(axis=1) > 1)
    assert (exact <= tight * (1 + 1e-12)).all()
    assert exact[attained] == pytest.approx(tight[attained], rel=1e-12)
    assert attained.sum() > 700


@pytest.mark.parametrize(
    ("n1", "n0", "exact", "tight"),
    [
        (9, 11, 0.2706309904, 0.2713544418),
        (21, 21, 0.1644401514, 0.1644984572),
        (11, 11, 0.2352620215, 0.2357858493),
        (101, 101, 0.0724761975, 0.0724764580),
        (33, 67, 0.1467655543, 0.1467683836),
    ],
)
def test_odd_groups_move_it_a_little_less(n1, n0, exact, tight):
    """Where the larger group is odd the tight bound is slightly larger than what is attained."""
    assert exact_sensitivity(n1, n0, TAU) == pytest.approx(exact, abs=1e-10)
    assert tight_sensitivity(n1, n0, TAU) == pytest.approx(tight, abs=1e-10)


@pytest.mark.parametrize(("n1", "n0", "ratio"), [(100, 100, 2**0.5), (30, 70, 1.094), (5, 95, 1.002)])
def test_the_papers_bound_is_larger(n1, n0, ratio):
    """The paper's bound is √2 times too large where the groups are equal, hardly where they are not."""
    assert paper_sensitivity(n1, n0, TAU) / tight_sensitivity(n1, n0, TAU) == pytest.approx(ratio, abs=5e-4)


@pytest.mark.parametrize("tau", TAUS)
def test_no_swap_moves_the_norm_further(tau):
    """Two rows that exchange their X move the norm by the swap bound at most, between one and two tight ones."""
    for n1, n0 in DESIGNS:
        norm = unit_circle_norm(*np.indices((n1 + 1, n0 + 1)), n1, n0, tau)
        bound = swap_sensitivity(n1, n0, tau)

        moved = np.abs(norm[1:, :-1] - norm[:-1, 1:]).max()

        assert moved <= bound * (1 + 1e-12)
        assert bound <= 2 * tight_sensitivity(n1, n0, tau)
        assert bound >= tight_sensitivity(n1, n0, tau) or tau > n1 + n0


def test_a_swap_in_the_middle_moves_it_as_far():
    """With half of all rows X = 1 the swap bound is attained."""
    norm = [float(unit_circle_norm(c11, 20 - c11, 20, 20, TAU)) for c11 in (19, 20)]

    assert abs(norm[1] - norm[0]) == pytest.approx(swap_sensitivity(20, 20, TAU), rel=1e-12)


def test_the_difference_moves_by_one_row_of_the_smaller_group():
    """|δ| moves by 1/min(n1, n0) at most, and by that: in whole numbers, exactly."""
    for n1, n0 in DESIGNS:
        c11, c10 = np.indices((n1 + 1, n0 + 1))

        assert steps(np.abs(n0 * c11 - n1 * c10)) == max(n1, n0)


def significant(n1, n0, tau):
    """Which of all tables have a chi² above tau."""
    c11, c10 = np.indices((n1 + 1, n0 + 1))
    n, m1 = n1 + n0, c11 + c10
    return n * (c11 * n0 - c10 * n1) ** 2 > tau * n1 * n0 * m1 * (n - m1)


@pytest.mark.parametrize("tau", [0.5, TAU, 10.8, 29.65])
def test_signed_distances_are_what_they_are_defined_as(tau):
    """In all tables of groups up to 40 the distances are taxicab distances to the other side."""
    for n1, n0 in DESIGNS:
        outside = significant(n1, n0, tau)
        expected = np.full(outside.shape, -(n1 + n0))
        if outside.any():
            to_inside = distance_transform_cdt(outside, metric="taxicab")
            to_outside = distance_transform_cdt(~outside, metric="taxicab")
            expected = np.where(outside, to_inside, 1 - to_outside)

        found = signed_distance(*np.indices((n1 + 1, n0 + 1)), n1, n0, tau)

        assert (found == expected).all(), (n1, n0)
        assert steps(found) <= 1


def test_a_distance_in_a_large_table_is_quick_and_right():
    """With a million rows the distance is settled by whole numbers: one row less, and it is on the other side."""
    n1, n0, c10 = 400_000, 600_000, 180_000

    away = signed_distance(121_000, c10, n1, n0, TAU)

    assert away > 0
    assert signed_distance(121_000 - away, c10, n1, n0, TAU) <= 0
    assert signed_distance(121_000 - away + 1, c10, n1, n0, TAU) == 1
