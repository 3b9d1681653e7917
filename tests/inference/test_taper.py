"""The factor of a rank sum, against the recursion that its proof needs, and reference values."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dfprivacy_inference.statistics import switch, taper


@pytest.mark.parametrize(
    ("n", "c", "larger", "expected"),
    [
        (10, 0, range(5, 11), [1.866667, 1.666667, 1.428571, 1.25, 1.111111, 1]),
        (10, 0.2, range(5, 11), [1.638095, 1.559524, 1.428571, 1.25, 1.111111, 1]),
        (11, 0.2, range(6, 9), [1.595, 1.5125, 1.375]),
        (100, 0, (50, 60, 75, 90), [1.761305, 1.630536, 1.333333, 1.111111]),
        (100, 0.2, (50, 60, 75, 90), [1.521965, 1.474386, 1.331649, 1.111111]),
        (1000, 0.2, (500,), [1.511184]),
    ],
)
def test_reference_values(n, c, larger, expected):
    """n H(M) has its known values."""
    assert [n * taper(n, m, c) for m in larger] == pytest.approx(expected, abs=1e-6)


def exact(n, larger, c):
    """H(M) by the closed form, in fractions."""
    last = switch(n, float(c))
    if larger >= last:
        return Fraction(1, larger)
    rest = Fraction(n - last, last * (last - 1)) + 2 * (1 - c) * (Fraction(1, larger - 1) - Fraction(1, last - 1))
    return Fraction(larger - 1, n - larger) * rest


@pytest.mark.parametrize("c", [Fraction(0), Fraction(1, 10), Fraction(1, 5), Fraction(1, 2)])
def test_what_the_proof_needs(c):
    """H(M) M is at most 1, H falls, and one label costs at most 1 - c, for every M of up to 80 rows and of 999."""
    for n in [*range(2, 81), 999]:
        h = {m: exact(n, m, c) for m in range(max((n + 1) // 2, 1), n + 1)}
        for m, value in h.items():
            assert value * m <= 1
            assert abs(taper(n, m, float(c)) - value) <= 1e-12 * value
            if m < n:
                assert value >= h[m + 1]
                assert value * m * (n - m) <= 2 * (1 - c) + h[m + 1] * (n - 1 - m) * (m - 1)


def test_rows_in_both_groups_are_counted_for_nothing():
    """A row that leaves the first group moves H(M) D by so much less that sizes and complete rows fit beside it."""
    c, counted = Fraction(1, 5), Fraction(1, 10)
    for n in [*range(13, 60), 500]:
        for m in range((n + 1) // 2, n):
            here, more = exact(n, m, c), exact(n, m + 1, c)
            leaves = (m * (n - 1 - m) * (here - more) + here * m) / 2
            assert leaves + c + counted <= 1
