"""The closed forms of the bounds against 60-digit arithmetic: rounding lowers none of them."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest

from dfprivacy.schema import Column
from dfprivacy_kernel.embedding import embed, lift, points_of
from dfprivacy_kernel.statistics import whitened_sensitivity

mpmath.mp.dps = 60
SCALES = [1e-15, 1e-9, 1.4142e-6, 1e-3, 0.1, 0.7, 1.0, math.nextafter(1.0, 2), math.sqrt(2), 2.0]


def exact_lift(moved, longest, traced):
    moved, longest, traced = map(mpmath.mpf, (moved, longest, traced))
    if moved >= longest:
        return longest**2
    trace = min(traced, moved * (2 * longest - moved))
    return (trace + moved * mpmath.sqrt(4 * longest**2 - 2 * trace - moved**2)) / 2


@pytest.mark.parametrize("longest", SCALES)
def test_lift_is_rounded_up(longest):
    """The bound of an eigenvalue is above its exact value, and by a part in a thousand millions at most."""
    parts = [1e-12, 1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 2.0**-40, 1.0, 2.0]
    for moved, times in itertools.product((part * longest for part in parts), (0.5, 1.0, math.inf)):
        exact = exact_lift(moved, longest, times * moved**2)

        assert exact <= lift(moved, longest, times * moved**2) <= exact * (1 + mpmath.mpf("1e-9"))


@pytest.mark.parametrize("relation", [1.0, 0.1, 1e-6, 1e-14])
@pytest.mark.parametrize("longest", [1e-15, 1e-6, 0.03, math.sqrt(2)])
@pytest.mark.parametrize("sizes", [(2, 2), (2, 100_000), (10**6, 10**6)])
def test_whitened_sensitivity_is_rounded_up(sizes, longest, relation):
    """So is the sensitivity of the whitened statistic, from what a row moves it by down to nothing."""
    n, m = sizes
    gamma, moved = longest**2 / (n + m) / 0.01, relation * longest
    lifted, total = lift(moved, longest), mpmath.mpf(n + m)
    k, most = total / (total - 1), min(mpmath.mpf(8), mpmath.sqrt(n + m))
    shift = mpmath.sqrt(max(mpmath.mpf(n) / m, mpmath.mpf(m) / n) / (total * mpmath.mpf(gamma))) * mpmath.mpf(moved)
    exact = most - max(mpmath.mpf(0), most - shift) / mpmath.sqrt(1 + mpmath.mpf(lifted) / (k * total * gamma))

    assert exact <= whitened_sensitivity(n, m, moved, lifted, gamma, 8.0) <= exact * (1 + mpmath.mpf("1e-9"))


def test_lift_bounds_eigenvalues_and_is_attained():
    """No two vectors lift the eigenvalue of a difference of outer products above the bound, and some reach it."""
    rng = np.random.default_rng(1)
    reached = 0.0
    for _ in range(4000):
        a, step = rng.normal(size=3), rng.normal(size=3)
        a /= np.linalg.norm(a)
        b = a + step / np.linalg.norm(step) * rng.choice([0.05, 0.3, 0.8, 1.0])
        b /= max(1.0, np.linalg.norm(b))
        moved, trace = float(np.linalg.norm(a - b)), float(a @ a - b @ b)
        largest = float(np.linalg.eigvalsh(np.outer(a, a) - np.outer(b, b))[-1])
        assert largest <= lift(moved, 1.0) * (1 + 1e-12) + 1e-12
        assert largest <= lift(moved, 1.0, max(trace, 0.0)) * (1 + 1e-12) + 1e-12
        reached = max(reached, largest / lift(moved, 1.0, max(trace, 0.0)))

    assert reached > 0.99


@pytest.mark.parametrize("mismatch", [1e-12, 0.5, 1 - 1e-6, 1 - 1e-12])
@pytest.mark.parametrize("lengthscale", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize("kind", ["nystrom", "me"])
def test_what_is_claimed_of_rows_is_rounded_up(kind, lengthscale, mismatch):
    """Diameter and lift are above those of the exact kernel of rounded rows, whatever the scale of the bounds."""
    for high in (1e-300, 1e-6, 1.0, 1e300):
        columns = (Column("x", bounds=(-high, high), fill=0.0), Column("z", categories=("p", "q"), other=True))
        embedding = embed(kind, columns, [lengthscale], points_of(columns, None, 4), mismatch)
        ((part, scale),) = embedding.spans
        ends = part.kernel.left(np.array([[-high, high], [0, 1]]))
        nearness = {
            "x": mpmath.exp(-((mpmath.mpf(ends[1, 0]) - mpmath.mpf(ends[0, 0])) ** 2) / 2),
            "z": mpmath.exp(mpmath.mpf(part.kernel.right(np.array([[0.0], [0.0]]))[0, 4])),
        }
        stretch = mpmath.mpf(scale) * mpmath.mpf(part.radius(2))  # of a kernel feature of length 1, at most
        cube = mpmath.mpf(scale) * mpmath.sqrt(part.dimension if kind == "me" else math.inf)

        def apart(public, stretch=stretch, nearness=nearness):
            kernel = mpmath.fprod(value for name, value in nearness.items() if name not in public)
            return stretch * mpmath.sqrt(2 - 2 * kernel)

        longest = apart("")
        for public in ("", "x", "z"):
            moved = apart(public)
            eigenvalue = min(
                exact_lift(moved, longest, moved**2),
                exact_lift(min(moved, cube), min(longest, cube), math.inf),
            )

            assert embedding.diameter(frozenset(public)) >= min(moved, cube)
            assert embedding.lift(frozenset(public)) >= eigenvalue
            assert embedding.lift(frozenset(public)) <= embedding.diameter(frozenset()) ** 2 * (1 + 1e-8)
