"""The Hilbert-Schmidt independence criterion: its definition, its sensitivity, its interval and its test."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dfprivacy as dp
from dfprivacy.testing import seeded_noise
from dfprivacy_dcor.mechanisms import criterion
from dfprivacy_dcor.points import five_numbers
from dfprivacy_dcor.spaces import Induced, error, kernel_space, unit
from dfprivacy_dcor.statistics import Deviation, FiveNumbers, changes

NOTHING: frozenset[str] = frozenset()
COUNT = itertools.count()
X, Y, Z = (dp.Column(name, bounds=(0.0, 1.0), fill=0.5) for name in "xyz")
FAR = dp.Column("far", bounds=(1e16, 1e16 + 4), fill=1e16)
G = dp.Column("g", categories=("a", "b", "c"))
OTHER = dp.Column("o", categories=("a", "other"), other=True)


class Rows:
    """Rows of columns between 0 and 1, as statistics read them."""

    def __init__(self, **values):
        self.values = {name: np.asarray(value, dtype=float) for name, value in values.items()}
        self.size = len(next(iter(self.values.values())))

    def standardized(self, column):
        return 2 * self.values[column.name] - 1


def protect(values, **terms):
    """Protect columns within 0 and 1, and names."""
    frame = pd.DataFrame(values)
    numbers = [name for name in frame if frame[name].dtype.kind == "f"]
    public = {"bounds": dict.fromkeys(numbers, (0.0, 1.0)), "epsilon": 10**6, "ledger": "memory:", **terms}
    return dp.protect(frame, f"hsic {next(COUNT)}", **public)


def trace(k, other):
    """(n - 1)⁻² tr KHLH, by its definition."""
    n = len(k)
    centre = np.eye(n) - 1 / n
    return float(np.trace(k @ centre @ other @ centre)) / (n - 1) ** 2


def kernel_of(name, points, lengthscale):
    """The matrix of a kernel, by its formula."""
    apart = np.abs(points[:, None, :] - points)
    if name == "gaussian":
        return np.exp(-(apart**2).sum(axis=2) / lengthscale**2)
    if name == "laplace":
        return np.exp(-apart.sum(axis=2) / lengthscale)
    return 1 - np.sqrt((apart**2).sum(axis=2)) / math.sqrt(points.shape[1])


@pytest.mark.parametrize(("kernel", "asked", "scale"), [
    ("gaussian", None, math.sqrt(2) / 6), ("gaussian", 0.6, 0.1), ("laplace", None, 2 / 6), ("laplace", 1.2, 0.2),
    ("distance", None, None),
])  # fmt: skip
def test_it_is_the_trace_of_its_definition(kernel, asked, scale):
    """Of two columns with two others, and of two with themselves."""
    rng = np.random.default_rng(1)
    x, y = rng.random((60, 2)), rng.random((60, 2))
    y[:, 0] = x[:, 1] ** 2
    view = protect({"a": x[:, 0], "b": x[:, 1], "c": y[:, 0], "d": y[:, 1]})
    with seeded_noise(1):
        both = view.hsic(["a", "b"], ["c", "d"], kernel=kernel, lengthscale=asked, epsilon=10**5)
        alone = view.hsic(["a", "b"], kernel=kernel, lengthscale=asked, epsilon=10**5)
    k, own = (kernel_of(kernel, points, scale) for points in (x, y))

    assert trace(k, own) == pytest.approx(both.hsic, rel=1e-3)
    assert trace(k, k) == pytest.approx(alone.hsic, rel=1e-4)
    assert both.low < trace(k, own) < both.high < 1.01 * trace(k, own)
    assert (None, None, ()) == (alone.pvalue, alone.rejected, alone.y)


def test_of_categories_the_kernel_is_1_for_equal_ones():
    """And its default lengthscale belongs to the other side alone."""
    rng = np.random.default_rng(2)
    x, g = rng.random(80), rng.choice(["a", "b", "c"], 80)
    view = protect({"x": x, "g": g}, categories={"g": ["a", "b", "c"]})
    with seeded_noise(2):
        found = view.hsic("x", "g", epsilon=10**5)

    expected = trace(kernel_of("gaussian", x[:, None], 1 / 6), (g[:, None] == g).astype(float))
    assert expected == pytest.approx(found.hsic, rel=1e-3)


def test_theorem_3_holds_in_exact_numbers():
    """Whatever constant the induced kernel c - d has, n⁻² tr KHLH is the squared distance covariance."""
    x, y = [Fraction(v) for v in (0, 1, 1, 5, 7)], [Fraction(v, 3) for v in (2, 0, 9, 4, 4)]
    n = len(x)
    a, b = ([[abs(v - w) for w in values] for v in values] for values in (x, y))
    s1 = sum(a[i][j] * b[i][j] for i in range(n) for j in range(n))
    s2 = sum(sum(a[i]) * sum(b[i]) for i in range(n))
    covariance = s1 / n**2 - 2 * s2 / n**3 + Fraction(sum(map(sum, a)) * sum(map(sum, b))) / n**4

    for constant in (Fraction(7), Fraction(0), Fraction(22, 7)):
        k = [[constant - each for each in row] for row in a]
        means = [sum(row) / n for row in k]
        centred = [[k[i][j] - means[i] - means[j] + sum(means) / n for j in range(n)] for i in range(n)]
        assert covariance == sum(-centred[i][j] * b[i][j] for i in range(n) for j in range(n)) / n**2


PAIRS = {
    "gaussian": ((X,), (Y,), "gaussian", 1.0, 0.85),
    "laplace": ((X,), (Y,), "laplace", 3.0, 0.75),
    "wide": ((X,), (Y,), "gaussian", 30.0, 0.85),
    "a plane": ((X, Z), (Y,), "gaussian", 2.0, 0.7),
    "categories": ((X,), (G,), "gaussian", 1.0, 0.7),
    "two categories": ((X,), (OTHER,), "gaussian", 1.0, 0.9),  # on a line: no √1.5, though 1 - k is no metric
    "a plane and two categories": ((X, Z), (OTHER,), "gaussian", 1.0, 0.9),
    "few floats": ((FAR,), (Y,), "gaussian", 1.0, 0.85),
    "public": ((replace(X, public=True),), (Y,), "gaussian", 1.0, 0.8),
}


@pytest.mark.parametrize("case", PAIRS)
def test_no_row_moves_the_five_numbers_more(search, case):
    """By random search on tables of five rows: never beyond the claim, and mostly near it."""
    x, y, kernel, scale, reached = PAIRS[case]
    one, other = (kernel_space(columns, kernel, scale, nan_policy="fill") for columns in (x, y))

    most = search([*x, *y], 1).statistic(FiveNumbers(one, other, 5), 1, 5, tries=2, steps=100)

    assert reached < most <= 1 + 1e-9


def test_no_row_moves_a_deviation_more(search):
    """That of one side by its diameter."""
    one = kernel_space((X,), "gaussian", 1.0, nan_policy="fill")

    alone = search([X], 2).statistic(Deviation(one, 6), 1, 6, tries=2, steps=100)

    assert 0.9 < alone <= 1 + 1e-9


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_on_a_grid_no_row_moves_the_root_more(kernel):
    """All tables of four rows on {0, 1/2, 1}² and all moves of a row: not even √1.5 is needed."""
    n = 4
    one, other = (kernel_space((column,), kernel, 2.0, nan_policy="fill") for column in (X, Y))
    cells = list(itertools.product((0.0, 0.5, 1.0), repeat=2))
    known = {}
    for rows in itertools.combinations_with_replacement(range(9), n):
        table = np.array([cells[row] for row in rows])
        batch = Rows(x=table[:, 0], y=table[:, 1])
        known[rows] = five_numbers(one.rows(batch), other.rows(batch))
    worst = np.zeros(5)
    for rows, value in known.items():
        for at, new in itertools.product(range(n), range(9)):
            worst = np.maximum(worst, np.abs(value - known[tuple(sorted((*rows[:at], new, *rows[at + 1 :])))]))

    claimed = changes(one, other, n)
    assert worst[0] <= claimed[0] / math.sqrt(1.5) + 1e-12
    assert claimed[1:] == pytest.approx(worst[1:], rel=1e-9)


def test_the_distances_are_right_to_what_is_claimed():
    """In 50 digits the five numbers of close and far points differ by less than the error bound."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(4)
    x, y = rng.random(7), rng.random(7) * 1e-3
    one, other = (kernel_space((column,), "gaussian", 1.0, nan_policy="fill") for column in (X, Y))
    found = five_numbers(*(space.rows(Rows(x=x, y=y)) for space in (one, other)))
    with mpmath.workdps(50):
        a, b = (
            [[1 - mpmath.exp(-(((mpmath.mpf(v) - w) / (1 / 6.0)) ** 2)) for w in values] for v in values]
            for values in ((2 * z - 1) / 2 + 0.5 for z in (x, y))
        )
        n = len(x)
        pairs = list(itertools.product(range(n), repeat=2))
        squares = [
            sum(p[i][j] * q[i][j] for i, j in pairs) / n**2
            - 2 * sum(sum(p[i]) * sum(q[i]) for i in range(n)) / n**3
            + sum(map(sum, p)) * sum(map(sum, q)) / n**4
            for p, q in ((a, b), (a, a), (b, b))
        ]
        exact = [*(float(mpmath.sqrt(each)) for each in squares), *(float(sum(map(sum, p)) / n**2) for p in (a, b))]

    assert (np.abs(found - exact) <= error(one, other)).all()


def test_the_square_moves_by_a_fifth_of_the_papers_bound():
    """√6 / (n - 1) bounds HSIC; the paper's bound is 4.4 to 4.9 times that."""
    ratios = [(12 * n - 11) / (n - 1) ** 2 / (math.sqrt(6) / (n - 1)) for n in (10, 100, 10**6)]

    assert all(4.8 < ratio < 5.0 or n == 10 for ratio, n in zip(ratios, (10, 100, 10**6), strict=True))
    assert 2 * (10**6 - 1) / 10**12 * math.sqrt(1.5) <= math.sqrt(6) / (10**6 - 1)


def test_missing_rows_are_left_out():
    """HSIC is that of the complete rows, and the interval allows for not knowing how many."""
    rng = np.random.default_rng(5)
    x, y = rng.random((2, 400))
    y = np.where(rng.random(400) < 0.5, x, y)
    x[:100] = np.nan
    view = protect({"x": x, "y": y})
    with seeded_noise(5):
        found, alone = view.hsic("x", "y", epsilon=10**5), view.hsic("x", epsilon=10**5)
        wide = view.hsic("x", "y", epsilon=20)

    k, own = (kernel_of("gaussian", z[100:, None], 1 / 6) for z in (x, y))
    assert trace(k, own) == pytest.approx(found.hsic, rel=1e-3)
    assert trace(k, k) == pytest.approx(alone.hsic, rel=1e-3)
    assert [100, 100] == pytest.approx([found.missing, alone.missing], abs=0.5)
    assert wide.low < trace(k, own) < wide.high
    assert "25" in found.notes[0]


def test_the_interval_covers():
    """Of 20,000 draws of the noise no more than 5 % of intervals miss what it is without noise."""
    rng = np.random.default_rng(6)
    root, share, n = 0.05, 0.8, 500
    truth = (root / (share - 1 / n)) ** 2
    roots, shares = (rng.laplace(at, scale, 4000) for at, scale in ((root, 0.004), (share, 0.01)))

    ends = np.array([criterion(r, 0.004, q, 0.01, n, 1.0, 0.95)[1:] for r, q in zip(roots, shares, strict=True)])

    assert np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])) >= 0.95


def test_a_sine_of_many_periods_is_seen_by_a_kernel():
    """And by distances hardly: at n = 1000 and ε = 1 the p-value is below that of `dcor`."""
    x = np.linspace(0, 1, 1000)
    view = protect({"x": x, "y": (1 + np.sin(10 * np.pi * x)) / 2})
    with seeded_noise(7):
        kernel, distance = view.hsic("x", "y", lengthscale=0.5, epsilon=1), view.dcor("x", "y", epsilon=1)

    assert kernel.pvalue < 1e-3 < distance.pvalue
    assert kernel.rejected


def test_what_hardly_varies_is_called_uninformative():
    """A constant column, alone and with another."""
    view = protect({"x": np.full(50, 0.5), "y": np.linspace(0, 1, 50)})
    with seeded_noise(8):
        assert "uninformative" in view.hsic("x", epsilon=1).notes[0]
        assert "uninformative" in view.hsic("x", "y", epsilon=1).notes[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"kernel": "matern"}, "kernel"),
        ({"lengthscale": 0}, "lengthscale"),
        ({"lengthscale": math.nan}, "lengthscale"),
        ({"kernel": "distance", "lengthscale": 1.0}, "no lengthscale"),
        ({"y": "x"}, "both sides"),
        ({"nan_policy": "raise"}, "private"),
        ({"y": ["y", "g"]}, "categories"),
    ],
)
def test_what_cannot_be_asked_is_refused(arguments, said):
    """Nothing is charged."""
    view = protect({"x": np.zeros(20), "y": np.zeros(20), "g": ["a"] * 20}, categories={"g": ["a", "b"]})

    with pytest.raises((dp.ArgumentError, ValueError), match=said):
        view.hsic("x", **{"y": "y", "epsilon": 1, **arguments})
    assert 0 == view.budget.spent


def test_what_is_public_of_a_kernel():
    """Its diameter is that of two corners, and its unit 1; that of the kernel 1 - d / D is D."""
    plane = kernel_space((X, Y), "laplace", 6.0, nan_policy="omit")
    distance = kernel_space((X, Y), "distance", None, nan_policy="omit")

    assert isinstance(plane, Induced)
    assert (1 - math.exp(-2), 1.0) == pytest.approx((plane.diameter, unit(plane)))
    assert (math.sqrt(2),) * 2 == (distance.diameter, unit(distance))


def test_it_is_drawn():
    """Its picture has the interval and the estimate."""
    pytest.importorskip("matplotlib").use("Agg")
    view = protect({"x": np.linspace(0, 1, 50)})
    found = view.hsic("x", epsilon=10)

    interval, estimate, *_ = found.plot().lines

    assert [found.low, found.high] == list(interval.get_xdata())
    assert [found.hsic] == list(estimate.get_xdata())
