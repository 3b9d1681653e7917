"""Of all features bounds hold at every scale and are attained, exactly and to 60 digits, and sums are the rows'."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from dfprivacy._privacy.calibrate import grid_exponent
from dfprivacy._table.batch import BATCH_ROWS, Batch, category, number
from dfprivacy.errors import ArgumentError
from dfprivacy.features import (
    Beyond,
    Bins,
    Count,
    Fourier,
    Given,
    Kernel,
    Moments,
    Nystrom,
    OneHot,
    Outer,
    ProductKernel,
    RowFeatures,
    Stack,
    Weighted,
    gaussian_frequencies,
    spread,
)
from dfprivacy.features.base import root
from dfprivacy.features.moments import _parabola_diameter
from dfprivacy.features.outer import _ball_diameter_squared
from dfprivacy.schema import Column

NOBODY: frozenset[str] = frozenset()
NORMS = (1, 2, math.inf)
G = Column("g", categories=(0, 1, 2))
H = Column("h", categories=(0, 1, "other"), other=True)

BOUNDS = {
    "unit": (0.0, 1.0),
    "salaries": (0.0, 2e5),
    "least": (-1e-300, 1e-300),
    "small": (1e-300, 4e-300),
    "narrow": (1e15, 1e15 + 1),
    "two floats": (1e16, 1e16 + 2),
    "largest": (-8e307, 8e307),
    "lopsided": (-1e300, 1e299),
}
WIDTHS = [(1e-12, 1e-12), (1.06e-8, 1.06e-8), (1e-6, 1e-6), (1e-3, 1.0), (3.0, 0.1), (100.0, 100.0), (2000.0, 8e-7)]
PUBLIC = [NOBODY, frozenset("x"), frozenset("g"), frozenset("xg"), frozenset("xyg")]


def digits(x):
    """A float or fraction as a number of 60 digits."""
    x = Fraction(x)
    return mpmath.mpf(x.numerator) / x.denominator


def columns_of(bounds):
    low, high = bounds
    return tuple(Column(name, bounds=bounds, fill=low / 2 + high / 2) for name in "xy")


def kernel_of(columns, widths, *categories):
    """A kernel of lengthscales that the bounds are so many times as wide as."""
    scales = {c.name: min((c.high - c.low) / width, 1e308) for c, width in zip(columns, widths, strict=True)}
    return ProductKernel((*columns, *categories), scales, 0.3)


def table_of(columns, *, seed=0):
    """Corners of the bounds, their neighbours and the middle, numbers between and beyond; every category."""
    rng = np.random.default_rng(seed)
    low, high = columns[0].low, columns[0].high
    marks = [low, high, columns[0].mid, math.nextafter(low, high), math.nextafter(high, low)]
    between = np.clip(low * (1 - (share := rng.random((12, 2)))) + high * share, low, high)
    ends, beyond = (itertools.product(each, repeat=2) for each in (marks[:2], (-math.inf, math.inf)))
    numbers = np.array([*itertools.product(marks, repeat=2), *between, *between, *ends, *beyond])
    codes = np.concatenate([np.zeros(25), rng.integers(0, 4, 24), [1, 2, 3, 3], [0, 1, 2, 3]])
    return np.column_stack([numbers, codes, codes])


def batch_of(columns, table):
    raw = {number(c): table[:, i] for i, c in enumerate(columns)}
    return Batch(len(table), raw | {category(G): table[:, 2], category(H): table[:, 3]})


def ends(column, count):
    """Edges of so many intervals within the bounds of a column, or as many as there are floats for."""
    return np.unique(np.linspace(column.low / 2, column.high / 2, count + 1) * 2)


def tree(column, **options):
    """All intervals, runs of them, and single ones, as many as there are floats for."""
    edges = ends(column, 4)
    bins = len(edges) - 1
    return Bins(column, edges, widths=(bins, max(bins // 2, 1), 1), weights=(1, 4, 3), **options)


def weight(column):
    """The same column with the bounds of a weight."""
    return replace(column, bounds=(0.0, 2.0), fill=1.0)


UNITS = {
    "count": lambda _: Count(),
    "moments": lambda c: Moments(c[0], degree=1),
    "moments and count": lambda c: Moments(c[0], degree=1, count=True),
    "squares": lambda c: Moments(c[0]),
    "squares and count": lambda c: Moments(c[0], count=True),
    "squares by group": lambda c: OneHot(G) * Moments(c[0], count=True),
    "cube": lambda c: Outer(c, count=True),
    "ball": lambda c: Outer(c, radius=0.9),
    "whole ball": lambda c: Outer(c, radius=math.sqrt(2), count=True),
    "small ball": lambda c: Outer(c, radius=2e-3),
    "ball with a heavy count": lambda c: Outer(c, radius=0.9, count=math.sqrt(2.5) * 0.9),
    "complete rows of a ball with a heavy count": lambda c: Given(*c, of=Outer(c, radius=0.9, count=1.4)),
    "ball by group": lambda c: OneHot(G) * Outer(c, radius=0.9, count=True),
    "crosstabs": lambda _: OneHot(G) * Stack(*(OneHot(c, groups=[v]) for c, v in ((G, 1), (H, 0), (H, 1)))),
    "cube of one": lambda c: Outer(c[:1], count=True),
    "centred cube": lambda c: Outer(c, centred=True),
    "complete rows of a centred cube with a heavy count": lambda c: Given(*c, of=Outer(c, count=2.0, centred=True)),
    "categories, tallied": lambda _: Given(G, of=OneHot(G), tally=(0, 1)),
    "two keys": lambda c: OneHot(G, H, groups={"h": [1, 0]}) * Moments(c[0]),
    "a stack": lambda c: Stack(Moments(c[0], count=True), OneHot(G), Outer(c, radius=0.9)),
    "a stack by group": lambda c: OneHot(G) * Stack(Moments(c[1]), Stack(Count(), OneHot(H) * Moments(c[0]))),
    "categories": lambda _: OneHot(G),
    "one kept category": lambda c: OneHot(G, groups=[1]) * Moments(c[0], degree=1),
    "some categories in another order": lambda c: OneHot(G, groups=[2, 0]) * Moments(c[0], count="beside"),
    "all categories in another order": lambda c: OneHot(G, groups=[2, 0, 1]) * Moments(c[0], degree=1, count=True),
    "two columns of crosstabs": lambda _: OneHot(G, groups=[2, 0]) * Stack(OneHot(H, groups=[1]), OneHot(G)),
    "complete rows": lambda c: Given(*c, G, of=Moments(c[0], count=True)),
    "complete rows beside their count": lambda c: Given(c[0], of=Moments(c[0], count="beside")),
    "rows beyond": lambda c: Beyond(c[0]),
    "complete rows and those beyond": lambda c: Stack(
        Given(c[0], of=Moments(c[0], count="beside")), Beyond(c[0], weight=1 / 16)
    ),
    "complete rows of a ball": lambda c: Given(c[0], of=Outer(c, radius=0.9, count=True)),
    "complete rows, tallied": lambda c: Given(*c, of=Moments(c[0]), tally=(0, 0.5)),
    "all rows, tallied": lambda c: Given(*c, of=Moments(c[0], count=True), tally=(0, 1.5)),
    "complete rows of a ball, tallied": lambda c: Given(c[0], of=Outer(c, radius=0.9), tally=(0.7, -0.1)),
    "centred squares": lambda c: Moments(c[0], centred=True),
    "centred squares, tallied": lambda c: Given(c[0], of=Moments(c[0], centred=True), tally=(1, -1)),
    "bins": lambda c: Bins(c[0], ends(c[0], 5)),
    "a tree": lambda c: tree(c[0]),
    "a tree and missing rows": lambda c: tree(c[0], missing=True),
    "bins by group": lambda c: OneHot(G) * Stack(Bins(c[0], ends(c[0], 3), missing=True), Moments(c[1])),
    "complete rows by group": lambda c: OneHot(G) * Given(c[1], of=Moments(c[0])),
    "weighted halves": lambda c: Given(*c, of=Weighted(weight(c[0]), Moments(c[1], degree=1, count=True))),
    "weighted rows by group": lambda c: OneHot(G) * Weighted(weight(c[0]), Count(), square=0.5),
    "weighted categories": lambda c: Weighted(weight(c[0]), OneHot(G), square=0),
}
SCALED = {
    "kernel": lambda c, w: Kernel(kernel_of(c, w), spread(c, 12)),
    "mixed kernel": lambda c, w: Kernel(kernel_of(c, w, G), spread((*c, G), 12)),
    "nystrom": lambda c, w: Nystrom(kernel_of(c, w), spread(c, 16)),
    "mixed nystrom": lambda c, w: Nystrom(kernel_of(c, w, H), spread((*c, H), 16)),
    "nystrom by group": lambda c, w: OneHot(G) * Nystrom(kernel_of(c, w), spread(c, 16)),
    "a stack": lambda c, w: Stack(Nystrom(kernel_of(c, w), spread(c, 8)), Kernel(kernel_of(c, w), spread(c, 3))),
    "fourier": lambda c, w: Fourier(c, gaussian_frequencies(kernel_of(c, w).lengthscales, 9)),
}


ROUGH = {
    ("cube", 1): 0.70,
    ("cube", 2): 0.65,
    ("ball", 1): 0.55,
    ("whole ball", 1): 0.43,
    ("whole ball", 2): 0.92,
    ("small ball", 1): 0.70,
    ("ball with a heavy count", 1): 0.55,
    ("complete rows of a ball with a heavy count", 1): 0.72,
    ("ball by group", 1): 0.55,
    ("crosstabs", 1): 0.48,
    ("crosstabs", 2): 0.68,
    ("cube of one", 2): 0.87,
    ("a stack", 1): 0.55,
    ("rows beyond", 1): 0.48,
    ("rows beyond", 2): 0.68,
    ("complete rows and those beyond", 1): 0.95,
    ("complete rows of a ball", 1): 0.55,
    ("complete rows of a ball, tallied", 1): 0.55,
    ("centred cube", 1): 0.45,
    ("centred cube", 2): 0.63,
    ("complete rows of a centred cube with a heavy count", 1): 0.70,
    ("complete rows of a centred cube with a heavy count", 2): 0.67,
    ("weighted halves", 1): 0.5,
    ("weighted halves", 2): 0.70,
    ("weighted rows by group", 1): 0.58,
    ("weighted rows by group", 2): 0.55,
    ("weighted rows by group", math.inf): 0.5,
    ("weighted categories", 1): 0.25,
    ("weighted categories", 2): 0.35,
    ("weighted categories", math.inf): 0.5,
}
"""Bounds of which less is attained: in the norm of another noise, for some public columns, by large weights."""


def fine(features, columns):
    """Rows of the columns of features: numbers close together, near and far beyond; every category; and gaps."""
    read, low, high = {c.name for c in features.columns}, columns[0].low, columns[0].high
    close = {2: 33, 3: 13, 4: 7}[len(read)] if {"x", "y"} <= read else 161
    close = [*np.linspace(low, high, close), math.inf, math.nan]
    each = [close if name in read else [low] for name in "xy"] + [
        range(4) if name in read else [0] for name in "gh"
    ]
    return np.array([*itertools.product(*each)], dtype=float)


def farthest_apart(vectors, groups, norm):
    """How far two vectors of one group are apart at most."""
    metric = {1: "cityblock", 2: "euclidean", math.inf: "chebyshev"}[norm]
    order = np.lexsort(groups.T) if groups.size else np.arange(len(vectors))
    starts = np.flatnonzero((np.diff(groups[order], axis=0) != 0).any(axis=1)) + 1 if groups.size else []
    parts = (np.unique(part, axis=0) for part in np.split(vectors[order], starts))
    return max(cdist(part, part, metric).max() for part in parts)


def released(features, batch, k):
    """What each row adds to the released sum, in whole steps."""
    steps = features.steps(batch, k)
    return [features.image([int(step) for step in row], k) for row in steps]


def longest(vectors, norm):
    """The L1 norm, the squared L2 norm, or that of infinity, of the longest of some vectors of integers."""
    if norm == math.inf:
        return max(abs(step) for vector in vectors for step in vector)
    return max(sum(abs(step) ** norm for step in vector) for vector in vectors)


def assert_bounded(found, bound, support, norm, k):
    """What the curator charges covers what was found, in exact arithmetic."""
    rounding = {1: support, 2: root(support), math.inf: 1}[norm]
    steps = Fraction(bound) * Fraction(2) ** k + Fraction(rounding) + 1
    assert found <= (steps if norm == math.inf else steps**norm)


def assert_moves_are_bounded(features, columns, table):
    """No row, and no change of a row, moves the released sum by more than is charged."""
    k = grid_exponent(radius=features.radius(2), batch_rows=BATCH_ROWS, rows_max=1000, noise=features.radius(2))
    vectors = released(features, batch_of(columns, table), k)
    read = {c.name for c in features.columns}
    for norm in NORMS:
        assert_bounded(longest(vectors, norm), features.radius(norm), features.support, norm, k)
    for public in PUBLIC:
        public = public | {"h"} if "g" in public else public  # noqa: PLW2901 - the same labels
        same = sorted("xygh".index(name) for name in public)
        groups: dict[tuple[float, ...], set[tuple[int, ...]]] = {}
        for row, vector in zip(table, vectors, strict=True):
            groups.setdefault(tuple(row[same]), set()).add(tuple(vector))
        moves = [
            [a - b for a, b in zip(*pair, strict=True)]
            for group in groups.values()
            for pair in itertools.combinations(sorted(group), 2)
        ] or [[0]]
        for norm in NORMS:
            diameter = features.diameter(norm, public)
            assert_bounded(longest(moves, norm), diameter, features.support, norm, k)
            if not isinstance(features, Count) and not (isinstance(features, Bins) and features.bins == 1):
                assert (diameter == 0) == (read <= public)


# ---- what moves on the grid ------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("name", UNITS)
def test_no_row_moves_a_sum_by_more_than_is_charged(name, bounds):
    """Over corners, their neighbours and random rows, in exact arithmetic, whatever the bounds."""
    columns = columns_of(BOUNDS[bounds])

    with np.errstate(all="ignore"):
        assert_moves_are_bounded(UNITS[name](columns), columns, table_of(columns))


@pytest.mark.parametrize(
    ("bounds", "widths"),
    [*itertools.product(["unit", "narrow"], WIDTHS), *itertools.product([*BOUNDS], WIDTHS[1:4:2])],
)
@pytest.mark.parametrize("name", SCALED)
def test_no_row_moves_kernel_features_by_more_than_is_charged(name, widths, bounds):
    """The same for kernels from far narrower than the bounds to 1e12 times as wide."""
    columns = columns_of(BOUNDS[bounds])

    assert_moves_are_bounded(SCALED[name](columns, widths), columns, table_of(columns))


# ---- what is attained ------------------------------------------------------------------------------------


def shares(features, columns, table):
    """What part of each bound is attained by some rows: by norm the radius, and by norm and public columns."""
    vectors, names = features.rows(batch_of(columns, table)), sorted({c.name for c in features.columns})
    table = np.nan_to_num(table, nan=-99)  # which agrees with itself
    found = {}
    for norm in NORMS:
        found[norm] = np.linalg.norm(vectors, ord=norm, axis=1).max() / features.radius(norm)
        for public in itertools.chain.from_iterable(itertools.combinations(names, n) for n in range(len(names))):
            apart = farthest_apart(vectors, table[:, ["xygh".index(name) for name in public]], norm)
            claim = features.diameter(norm, frozenset(public))
            found[norm, "".join(public)] = apart / claim if claim else 1.0 + apart
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", UNITS)
def test_bounds_are_attained(name):
    """By rows close together, whatever is public: no noise is wasted, but where a bound is known to be rough."""
    columns = columns_of((2.0, 6.0))
    found = shares(UNITS[name](columns), columns, fine(UNITS[name](columns), columns))

    assert max(found.values()) <= 1 + 1e-12
    for norm in NORMS:
        least = min(share for of, share in found.items() if of == norm or (isinstance(of, tuple) and of[0] == norm))
        assert least >= ROUGH.get((name, norm), 0.998), (norm, found)


def test_a_cube_of_many_columns_is_as_wide_as_its_closed_form():
    """No pair found by climbing from random ones is further apart, and one is as far."""
    rng = np.random.default_rng(3)
    for d in (1, 3, 4, 5):
        columns = [Column(f"x{i}", bounds=(-1.0, 1.0), fill=0.0) for i in range(d)]
        features = Outer(columns)

        def rows(y, columns=columns, features=features):
            return features.rows(Batch(len(y), {number(c): y[:, i] for i, c in enumerate(columns)}))

        y, z = rng.uniform(-1, 1, (2, 300, d))
        reached = np.abs(rows(y) - rows(z)).sum(axis=1)
        for step in 2.0 ** -np.arange(0, 6, 0.05):
            y2, z2 = (np.clip(p + step * rng.normal(size=p.shape), -1, 1) for p in (y, z))
            moved = np.abs(rows(y2) - rows(z2)).sum(axis=1)
            better = moved > reached
            y[better], z[better], reached[better] = y2[better], z2[better], moved[better]
        best = np.ones((1, d)), np.full((1, d), max(0.0, 1 - 2 / (d + 1)) - 1)

        bound = features.diameter(1, NOBODY)
        assert np.abs(rows(best[0]) - rows(best[1])).sum() == pytest.approx(bound, rel=1e-12)
        assert bound * 0.97 <= reached.max() <= bound * (1 + 1e-12)


@pytest.mark.parametrize("d", [1, 3, 5])
@pytest.mark.parametrize("share", [0.002, 0.6])
def test_a_ball_of_many_columns_is_left_by_no_row_and_as_wide_as_claimed(share, d):
    """Rounded rows are no longer than the radius, exactly; the farthest of long ones attain the diameter."""
    columns = [Column(f"x{i}", bounds=(-1.0, 1.0), fill=0.0) for i in range(d)]
    radius = share * math.sqrt(d)
    features = Outer(columns, radius=radius)
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(1500, d))
    rows[::3] *= 10 ** rng.uniform(-300, 300, (500, 1))  # far beyond the bounds, or next to 0
    rows[1] = math.inf
    batch = Batch(1500, {number(c): rows[:, i] for i, c in enumerate(columns)})

    points = features.points(batch)[1:].astype(object)
    vectors = features.rows(batch)

    assert max((points**2).sum(axis=0)) <= Fraction(radius) ** 2 * Fraction(2) ** 38
    farthest = cdist(vectors, vectors[:300]).max()
    assert 0.98 * features.diameter(2, NOBODY) <= farthest <= features.diameter(2, NOBODY)


# ---- sums are the rows' ----------------------------------------------------------------------------------


class Claims(RowFeatures):
    """Somebody else's vectors, which need not keep to the radius that they claim."""

    shape = (2, 2)

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        x = batch.values(self.columns[0])
        with np.errstate(all="ignore"):
            return np.column_stack([x, x * x, np.log(x), -x])

    def radius(self, norm):
        return 0.7


SUMMED = {
    **UNITS,
    **{name: lambda c, make=make: make(c, (3.0, 0.1)) for name, make in SCALED.items()},
    "somebody else's": lambda c: Claims(c[0]),
    "somebody else's by group": lambda c: OneHot(G, H) * Claims(c[0]),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SUMMED)
@pytest.mark.parametrize("size", [0, 1, 20, 517])
def test_sums_are_those_of_the_rows(name, size):
    """Of all rows, under a mask, by place, on several threads; a row has the same steps alone and in company."""
    rng = np.random.default_rng(size)
    columns = columns_of((-3.0, 5.0))
    odd = [-3.0, 5.0, 1.0, math.nan, math.inf, -math.inf, 1e308, -5e-324]
    numbers = np.where(rng.random((size, 2)) < 0.5, rng.choice(odd, (size, 2)), rng.uniform(-4, 6, (size, 2)))
    table = np.column_stack([numbers, rng.integers(0, 4, (size, 2))])
    features, batch = SUMMED[name](columns), batch_of(columns, table)
    mask, place = rng.random(size) < 0.6, rng.integers(0, 4, size)

    for k in (0, 20, 39):
        steps = features.steps(batch, k)
        of_places = [steps[place == at].sum(axis=0).tolist() for at in range(3)]
        parts = [slice(0, 1), slice(3, 260), slice(255, 256), slice(511, None)]

        assert len(steps) == size
        assert (steps == np.rint(steps)).all()
        for threads in (1, 3):
            with threadpool_limits(threads):
                assert features.total(batch, None, k).tolist() == steps.sum(axis=0).tolist()
                assert features.total(batch, mask, k).tolist() == steps[mask].sum(axis=0).tolist()
                assert features.totals(batch, place, 3, k).tolist() == of_places
                for part in parts:
                    assert (features.steps(batch_of(columns, table[part]), k) == steps[part]).all()


# ---- kernels -----

# ---- kernels ---------------------------------------------------------------------------------------------


def kernels(seed, count):
    """Kernels of 1 to 6 columns with bounds and lengthscales of any scale, and which columns are public."""
    rng = np.random.default_rng(seed)
    while count:
        columns, scales = [], {}
        for i in range(rng.integers(1, 7)):
            if rng.random() < 0.2:
                columns.append(
                    Column(f"c{i}", categories=tuple(range(rng.integers(1, 4))), other=bool(rng.integers(2)))
                )
                continue
            half = 10 ** float(rng.uniform(-299, 300))
            low = (
                -half if rng.random() < 0.5 else half * 10 ** float(rng.uniform(0, 12)) * float(rng.choice([-1, 1]))
            )
            high = low + 2 * half
            if not (low < high and math.isfinite(high) and high - low < math.inf):
                continue
            columns.append(Column(f"c{i}", bounds=(low, high)))
            scales[f"c{i}"] = (high - low) / 10 ** float(rng.uniform(-12, 2))
        if not columns or not all(0 < scale < math.inf for scale in scales.values()):
            continue
        mismatch = float(rng.choice([0, 1e-300, 0.3, 1 - 1e-9, math.nextafter(1, 0)]))
        public = frozenset(c.name for c in columns if rng.random() < 0.4)
        yield ProductKernel(columns, scales, mismatch), public
        count -= 1


def farthest(kernel, public, low, high):
    """Distance of the two rows furthest apart, to 60 digits, given where a kernel has the ends of the bounds."""
    exponent = mpmath.mpf(0)
    for j, i in enumerate(kernel.numbers):
        if kernel.columns[i].name not in public:
            exponent += (digits(high[j]) - digits(low[j])) ** 2 / 2
    private = [i for i in kernel.categories if kernel.columns[i].name not in public]
    exponent -= sum(digits(kernel._logarithms[kernel.categories.index(i)]) for i in private)
    nowhere = 1 if any(not kernel.columns[i].other for i in private) else 0
    return max(mpmath.sqrt(-2 * mpmath.expm1(-exponent)), nowhere)


def test_distances_of_a_kernel():
    """At every scale the distance is above the true one, by next to nothing, and 0 where all columns are public."""
    with mpmath.workdps(60):
        for kernel, public in kernels(1, 1500):
            ends = np.array([(0, 0) if c.bounds is None else c.bounds for c in kernel.columns])
            for exact in (False, True):
                low, high = kernel.left_factors(ends, exact=exact)[:, : len(kernel.numbers)].tolist()
                truth, said = farthest(kernel, public, low, high), kernel.distance(public, exact=exact)

                assert truth <= digits(said) <= truth * (1 + mpmath.mpf("1e-14")) + 2 * digits(kernel.excess)
                assert (said == 0) == ({c.name for c in kernel.columns} <= public)


def test_bounds_in_lengthscales():
    """Where floating point has the ends of the bounds is, but for three last bits, where they are."""
    with mpmath.workdps(60):
        for kernel, _ in kernels(2, 500):
            for j, i in enumerate(kernel.numbers):
                column = kernel.columns[i]
                low, high = kernel.scaled(np.array([column.low, column.high]), j).tolist()
                truth = (digits(column.high) - digits(column.low)) / digits(kernel.lengthscales[j])
                assert (
                    abs(digits(high) - digits(low) - truth)
                    <= 4 * truth * mpmath.mpf(2) ** -53 + mpmath.mpf(2) ** -1073
                )


def test_a_kernel_too_narrow_for_float64():
    """Bounds beyond all floats in lengthscales are refused, as any that are too many lengthscales wide."""
    column = Column("x", bounds=(-1e300, 1e300), fill=0.0)

    for lengthscale in (1e-300, 5e-324, 1e290):
        with pytest.raises(ArgumentError, match="lengthscale is too small"):
            ProductKernel([column], lengthscale)
    for frequency in (1e-200, 1e300):
        with pytest.raises(ArgumentError, match="too high"):
            Fourier([column], [[frequency]])


@pytest.mark.parametrize("bounds", BOUNDS)
def test_the_kernel_matrix_of_points_is_that_of_the_values(bounds):
    """The norms rest on the matrix of the points as kernel values have them, not as they are written down."""
    columns = columns_of(BOUNDS[bounds])
    kernel = kernel_of(columns, (5.0, 7.0))
    features = Kernel(kernel, spread(columns, 8))

    points = kernel.right_factors(features.points.T)[:, :2]
    exponents = [[-sum((a - b) ** 2) / 2 for b in points] for a in points]

    assert features.gram().tolist() == np.exp(exponents).tolist()


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("widths", [(3.0, 2.0), (0.01, 0.02)])
def test_the_map_of_a_subspace_lengthens_nothing(bounds, widths):
    """With the exact kernel matrix of its points, vectors are at most (1 + defect) times kernel features."""
    columns = columns_of(BOUNDS[bounds])
    features = Nystrom(kernel_of(columns, widths), spread(columns, 16), 1e-12)
    points = features.kernel.right_factors(features._kernel.points.T)[:, :2]

    with mpmath.workdps(60):
        squares = [
            [sum((digits(p) - digits(q)) ** 2 for p, q in zip(a, b, strict=True)) for b in points] for a in points
        ]
        K = mpmath.matrix([[mpmath.exp(-square / 2) for square in row] for row in squares])
        A = mpmath.matrix([[digits(entry) for entry in row] for row in features.map])
        largest = max(mpmath.eigsy(A * K * A.T, eigvals_only=True))

    assert largest <= (1 + features.defect) ** 2


# ---- Fourier -------------------------------------------------------------------------------------------


def test_fourier_features_are_near_the_circle():
    """Cosines and sines in single precision are as near to the true ones as is charged."""
    features = Fourier([Column("x", bounds=(-1.0, 1.0), fill=0.0)], np.linspace(0.1, 500, 200)[:, None])
    x = np.random.default_rng(3).uniform(-1, 1, 500)

    found = features.rows(Batch(500, {number(features.columns[0]): x}))
    angles = np.outer(np.rint(x * 2.0**26) / 2.0**26, features.frequencies[:, 0])
    true = np.hstack([np.cos(angles), np.sin(angles)]) * features.weights

    assert np.linalg.norm(found - true, axis=1).max() < features.radius(2) - 1
    assert abs(found - true).max() < features.radius(math.inf) - features.weights


@pytest.mark.parametrize("reach", [1e-7, 1e-4, 1e-2, 1.0, 1e4])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_distances_of_fourier_features(reach, d):
    """No difference of two rows, however small the bounds, is beyond the diameter; to 60 digits."""
    columns = [Column(str(i), bounds=(-1.0, 1.0), fill=0.0) for i in range(d)]
    rng = np.random.default_rng(d)
    features = Fourier(columns, rng.normal(size=(7, d)) * reach)
    differences = np.vstack([rng.uniform(-2, 2, (20, d)), list(itertools.product([-2.0, 2.0], repeat=d))])

    with mpmath.workdps(60):
        for difference in differences:
            turns = [
                sum(digits(t) * digits(x) for t, x in zip(row, difference, strict=True)) for row in features._turns
            ]
            mean = sum(mpmath.cos(2 * mpmath.pi * turn) for turn in turns) / len(turns)
            chord = max(abs(2 * mpmath.sin(mpmath.pi * turn)) for turn in turns) * digits(features.weights)
            assert mpmath.sqrt(2 - 2 * mean) < features.diameter(2, NOBODY)
            assert chord < features.diameter(math.inf, NOBODY) <= 2.000002 * features.weights


# ---- closed forms ----------------------------------------------------------------------------------------


def test_roots_are_rounded_up():
    """A root is at least the root, and no more than two last bits above it."""
    for x in [*range(1, 300), Fraction(1, 3), 1e-300, 1e300, 4.5]:
        assert Fraction(x) <= Fraction(root(x)) ** 2 <= Fraction(x) * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("d", range(1, 7))
@pytest.mark.parametrize("share", [0.002, 0.3, 0.7, 1.0])
def test_closed_forms_of_a_ball_are_rounded_up(share, d):
    """Radii and diameters are above their formulas at 60 digits, with weights as they are."""
    columns = [Column(str(i), bounds=(0.0, 1.0), fill=0.5) for i in range(d)]
    r = share * math.sqrt(d)
    features, counted = Outer(columns, radius=r), Outer(columns, radius=r, count=True)

    with mpmath.workdps(60):
        ball, few = digits(r), mpmath.mpf("1e-14")
        euclidean = ball * (2 if d == 1 else mpmath.sqrt(mpmath.mpf("4.5")))
        lengths = ball * (mpmath.sqrt(d) + 1 + (d - 1) / mpmath.sqrt(2))
        for said, true in [
            (features.radius(2), mpmath.sqrt(2) * ball),
            (counted.radius(2), ball * 3 / 2),
            (features.diameter(2, NOBODY), euclidean),
            (features.radius(1), lengths),
            (counted.radius(1), lengths + ball / 2),
            (features.diameter(1, NOBODY), 2 * lengths),
            (features.radius(math.inf), min(ball, mpmath.mpf(1))),
            (counted.radius(math.inf), max(min(ball, mpmath.mpf(1)), ball / 2)),
            (features.diameter(math.inf, NOBODY), 2 * min(ball, mpmath.mpf(1))),
        ]:
            assert true <= digits(said) <= true * (1 + few)


@pytest.mark.parametrize("d", range(1, 7))
def test_closed_forms_are_rounded_up(d):
    """The same for the cube, moments and cross tables."""
    columns = [Column(str(i), bounds=(0.0, 1.0), fill=0.5) for i in range(d)]
    cube, few = Outer(columns), mpmath.mpf("1e-13")
    tables = OneHot(H) * Stack(*[OneHot(G, groups=[1])] * d)

    with mpmath.workdps(60):
        for said, true in [
            (cube.radius(1), mpmath.mpf(d * (d + 5)) / 4),
            (cube.radius(2), mpmath.sqrt(mpmath.mpf(d * (d + 9)) / 8)),
            (cube.diameter(1, NOBODY), 2 * d + mpmath.mpf(d * (d - 1) ** 2) / (4 * (d + 1))),
            (cube.radius(math.inf), mpmath.mpf(1)),
            (Outer(columns, count=True).radius(math.inf), max(mpmath.mpf(1), mpmath.mpf(d) / 2)),
            (tables.diameter(math.inf, NOBODY), mpmath.mpf(1)),
            (Moments(columns[0], degree=1, count=True).diameter(math.inf, NOBODY), mpmath.mpf(1)),
            (tables.radius(2), mpmath.sqrt(d)),
            (tables.diameter(2, NOBODY), mpmath.sqrt(2 * d)),
            (tables.diameter(2, frozenset("h")), mpmath.sqrt(d)),
            (Moments(columns[0]).radius(2), mpmath.sqrt(mpmath.mpf("1.25"))),
            (Moments(columns[0], degree=1, count=True).diameter(2, NOBODY), mpmath.sqrt(2)),
            (Moments(columns[0], count=True).diameter(1, NOBODY), mpmath.mpf(8) / 3),
        ]:
            assert true <= digits(said) <= true * (1 + few)


# ---- sums ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nystrom", "nystrom by group", "mixed nystrom"])
@pytest.mark.parametrize("widths", [(1e-6, 1e-6), (3.0, 0.1)])
def test_a_sum_that_is_mapped_moves_by_no_more_than_is_charged(name, widths):
    """Rounding the image of a sum, not of a row, can move two sums apart in the coordinates of either row."""
    columns = columns_of(BOUNDS["unit"])
    features = SCALED[name](columns, widths)
    table = table_of(columns)
    steps = [[int(step) for step in row] for row in features.steps(batch_of(columns, table), 39)]
    rng = np.random.default_rng(5)

    rest = [sum(column) for column in zip(*(steps[i] for i in rng.integers(0, len(steps), 200)), strict=True)]
    images = [features.image([a + b for a, b in zip(rest, row, strict=True)], 39) for row in steps]
    moves = [[a - b for a, b in zip(*pair, strict=True)] for pair in itertools.combinations(images, 2)]

    for norm in NORMS:
        assert_bounded(longest(moves, norm), features.diameter(norm, NOBODY), features.support, norm, 39)


# ---- reference numbers -----------------------------------------------------------------------------------

PARABOLAS = [
    *[(1, 0.5, 2), (1, 0.75, 2.083333333), (1, 1, 2.25), (1, 1.5, 2.666666667), (1, 2, 3.125)],
    *[(2, 0.5, 2), (2, math.sqrt(2), 2), (2, 1.66509, 2), (2, 2, 2.26817)],
]


def test_reference_diameters():
    """Joint sensitivities of y and c y², and of y and w yyᵀ in a ball; by class 1.5 r and √4.5 r."""
    assert [_parabola_diameter(norm, c) for norm, c, _ in PARABOLAS] == pytest.approx(
        [each for *_, each in PARABOLAS], abs=2e-5
    )
    squared = [_ball_diameter_squared(r, w) for r, w in ((1, 1), (2, 0.5), (1, 2), (1, 0.6))]
    assert squared == pytest.approx([4.5, 18, 10.125, 4])
    for r in (0.6, 1.0, 2.2):
        classes = OneHot(G) * Outer([Column(f"x{i}", bounds=(0, 1)) for i in range(6)], radius=r, count=True)
        of = classes.radius(2), classes.diameter(2, NOBODY), classes.diameter(2, frozenset("g"))
        assert of == pytest.approx((1.5 * r, 2.1213 * r, math.sqrt(4.5) * r), rel=1e-4)
