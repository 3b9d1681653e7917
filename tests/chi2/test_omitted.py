"""Where rows may be left out, whichever they are, no share makes a false discovery too probable: all computed."""

import itertools

import numpy as np
import pytest
from scipy import stats

from dfprivacy_chi2.laws import by_binomials, noise_pdf, noise_sf
from dfprivacy_chi2.nulls import MissingRowsNull

SHARES = (0.02, 0.1, 0.2, 0.35, 0.5)
SCALES = [(2.0,), (0.1,), (1.0, 3.0), (0.05, 0.08)]
"""Of the noise, in rows."""


def difference_law(m, k, p):
    """The law of the absolute difference of the shares of m and k rows."""
    return by_binomials(lambda c, d: np.abs(c / m - d / k), m, k, p, p)


def tail(m, k, p, t, *scales):
    """The probability that the difference of shares of m and k rows, times the smaller number, exceeds t."""
    n = min(m, k)
    return difference_law(m, k, p).sf(t / n, *(scale / n for scale in scales))


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize(("n1", "n0"), [(3, 3), (2, 7), (5, 4)])
def test_no_rows_that_are_left_out_exceed_the_bound(n1, n0, scales):
    """Over all numbers of complete rows, shares and places, the exact probability is at most the bound."""
    rows = min(n1, n0)
    null = MissingRowsNull(rows, 0.5)

    for t in np.linspace(0.0, rows + 3 * max(scales), 12):
        bound = null.pvalue(t / rows, *(scale / rows for scale in scales))
        found = [
            tail(m, k, p, t, *scales) for m, k, p in itertools.product(range(1, n1 + 1), range(1, n0 + 1), SHARES)
        ]
        assert max(found) <= bound * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_a_known_share_bounds_as_well(share):
    """If the share is known, or no nearer to 1/2, the bound follows it."""
    for m, k, t in itertools.product((5, 12, 20), (7, 30, 60), (3.0, 6.0, 9.0)):
        bound = MissingRowsNull(20, share).pvalue(t / 20, 1 / 20)

        assert tail(m, k, share, t, 1.0) <= bound * (1 + 1e-9)
        assert tail(m, k, share / 2, t, 1.0) <= bound * (1 + 1e-9)


@pytest.mark.parametrize(
    ("n1", "n0", "epsilon", "alpha"), [(250, 5, 10, 1e-3), (500, 10, 10, 5e-5), (50, 3, 10, 1e-3)]
)
def test_groups_in_which_one_half_is_not_the_worst_share(n1, n0, epsilon, alpha):
    """Unequal groups, in which the law of all rows is exceeded at other shares, keep the level too."""
    at = MissingRowsNull(n0, 0.5).critical_value(alpha, 1 / (n0 * epsilon)) * n0
    complete = [max(1, round(n1 * part)) for part in (1.0, 0.5, 0.1, 0.02)]

    assert max(tail(m, n0, p, at, 1 / epsilon) for m in complete for p in SHARES) <= alpha


@pytest.mark.parametrize(("scale", "price"), [(25.0, 1.001), (5.0, 1.02), (0.2, 1.06)])
def test_the_bound_costs_little(scale, price):
    """A threshold is that of the worst law where noise prevails, and a few percent more where it does not."""
    law = difference_law(2500, 2500, 0.5)

    ratio = MissingRowsNull(2500, 0.5).critical_value(5e-5, scale / 2500) / law.critical_value(5e-5, scale / 2500)

    assert 1 - 1e-6 <= ratio <= price


def test_the_critical_value_has_the_level():
    for alpha, scales in itertools.product((0.3, 0.05, 1e-6), ((0.02,), (0.01, 0.3))):
        at = MissingRowsNull(100, 0.5).critical_value(alpha, *scales)

        assert 0.9999 * alpha <= MissingRowsNull(100, 0.5).pvalue(at, *scales) <= alpha


@pytest.mark.parametrize(("rows", "p"), [(1, 0.5), (40, 0.5), (40, 0.1), (3000, 0.5)])
def test_the_law_of_two_sums_is_that_of_their_difference(rows, p):
    counts = np.arange(rows + 1)
    weights = stats.binom.pmf(counts, rows, p)
    exact = np.convolve(weights, weights[::-1])[rows:]
    exact[1:] *= 2

    found = MissingRowsNull(rows, p)._weights

    assert found == pytest.approx(exact[: len(found)], abs=1e-14)


@pytest.mark.parametrize("scales", SCALES)
def test_tails_and_densities_of_the_noise(scales):
    """By simulation of a hundred thousand, and the derivative of the one is the other."""
    rng = np.random.default_rng(3)
    drawn = sum(rng.laplace(0, scale, 100_000) for scale in scales)

    for y in np.array([-4.0, -0.2, 0.3, 2.0, 9.0]) * max(scales):
        step = 1e-5 * max(scales)
        slope = (noise_sf(np.array(y - step), *scales) - noise_sf(np.array(y + step), *scales)) / (2 * step)
        assert noise_sf(np.array(y), *scales) == pytest.approx(np.mean(drawn > y), abs=0.009)
        assert slope == pytest.approx(noise_pdf(np.array(y), *scales), rel=1e-5)


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("rows", [3, 4000])
def test_the_bound_is_the_least_mean_over_the_tangents(rows, scales):
    """Added up count by count, h is the larger of tail and tangent up to t, and the tangent beyond."""
    weights = MissingRowsNull(rows)._weights
    points = np.arange(len(weights), dtype=float)

    def bounded(t):
        bounds = []
        for y in np.linspace(0.0, 40.0, 81) * max(scales):
            tangent = noise_sf(-y, *scales) + noise_pdf(y, *scales) * (points - t - y)
            h = np.where(points <= t, np.maximum(noise_sf(t - points, *scales), tangent), tangent)
            bounds.append(h @ weights)
        return min(1.0, *bounds)

    places = [-1.5, 0.0, 0.4, 2.0, 3.7, 60.0, 200.0]
    null = MissingRowsNull(rows)
    found = [null.pvalue(t / rows, *(scale / rows for scale in scales)) for t in places]

    assert [pytest.approx(bounded(t), rel=1e-9) for t in places] == found
