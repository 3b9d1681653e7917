"""The tree of counts against the numbers of its specification, brute force and simulation."""

# ruff: noqa: SIM300 - expected == actual
from __future__ import annotations

import numpy as np
import pytest

from dfprivacy.inference.counts import project
from dfprivacy_eda.tree import Layout, Tree, least_squares, quantiles


def tree_of(counts, variances, edges=None):
    leaves, spreads = least_squares([np.asarray(each, dtype=float) for each in counts], variances)
    low, step = (0.0, 1.0) if edges is None else (edges[0], edges[1] - edges[0])
    return Tree(Layout(low, step, tuple(map(len, counts[1:])), (), whole=False), leaves, spreads)


def blank(sizes, variances):
    return tree_of([np.zeros(size) for size in sizes], variances)


@pytest.mark.parametrize(
    ("variances", "unbiased", "positive"),
    [
        ((0, 1, 1), (5.166667, 2.166667, 3.833333, -1.166667), (5.166667, 2.166667, 2.666667, 0)),
        ((0, 4, 9), (5.204545, 2.204545, 3.795455, -1.204545), (5.204545, 2.204545, 2.590909, 0)),
    ],
)
def test_two_levels(variances, unbiased, positive):
    """Ten rows, counts (7, 2) and (4, 1, 3, -2), at equal shares of the budget and at 3 to 2."""
    tree = tree_of([[10], [7, 2], [4, 1, 3, -2]], variances)

    assert unbiased == pytest.approx(tree.leaves, abs=1e-6)
    assert positive == pytest.approx(tree.counts, abs=1e-6)


def test_quantiles_of_a_histogram():
    """Linear within intervals; an end where all is asked for; the middle where there is nothing."""
    leaves, edges = np.array([2.0, 5, 0, 3]), np.arange(5.0)

    assert (0.5, 1.1, 1.6, 3.166667, 3.666667) == pytest.approx(
        quantiles(leaves, edges, [0.1, 0.25, 0.5, 0.75, 0.9]), abs=1e-6
    )
    assert [0, 4] == quantiles(leaves, edges, [0, 1]).tolist()
    assert 2 == quantiles(np.zeros(4), edges, 0.3)


def test_the_nearest_counts_that_are_not_negative():
    """Projections onto a simplex; a total below 0 is 0."""
    assert (7 / 3, 0, 13 / 3, 4 / 3) == pytest.approx(project([3, -1, 5, 2], 8))
    assert [4, 0, 0, 0] == project([10, -4, -3, 1], 4).tolist()
    assert [0, 0, 0] == project([-1, -2, -3], 0).tolist()
    assert [0, 0] == project([5, 5], -1).tolist()


def test_a_projection_is_nearer_than_any_other():
    """No point of the simplex is nearer than the projection, over random ones."""
    rng = np.random.default_rng(1)
    counts = rng.normal(size=(50, 6)) * 5
    totals = rng.uniform(0, 10, 50)

    found = project(counts, totals)
    others = rng.dirichlet(np.full(6, 0.4), (300, 50)) * totals[:, None]

    assert np.abs(found.sum(axis=1) - totals).max() < 1e-12
    assert (((found - counts) ** 2).sum(axis=1) <= ((others - counts) ** 2).sum(axis=2).min(axis=0) + 1e-12).all()


WIDE = (0.0, 40.5, 72.0, 162.0)  # 2 (2 / share)² of 4/9, 3/9 and 2/9


def test_the_variances_of_sixteen_cubed():
    """Of 16³ leaves with 4/9, 3/9 and 2/9 of an epsilon of 1."""
    tree = blank((1, 16, 256, 4096), WIDE)

    assert (0, 39.087653, 70.054054, 162) == pytest.approx(tree.spreads, abs=1e-6)
    sd = np.sqrt(tree.prefix_variances)
    expected = {1: 12.3342, 136: 30.3307, 256: 6.0535, 2048: 12.5040, 2049: 17.5593}
    assert expected == pytest.approx({k: sd[k] for k in expected}, abs=1e-4)
    assert (32.4914, 26.1520) == pytest.approx((sd.max(), sd[1:-1].mean()), abs=1e-3)


def test_the_variances_of_whole_numbers():
    """Of 16 times 8 leaves with a half each."""
    sd = np.sqrt(blank((1, 16, 128), (0, 32.0, 32.0)).prefix_variances)

    assert (5.1640, 10.6667, 13.0469) == pytest.approx(sd[[8, 64, 68]], abs=1e-4)
    assert (13.0469, 10.5078) == pytest.approx((sd.max(), sd[1:-1].mean()), abs=2e-3)


@pytest.mark.parametrize("root", [0.0, 30.0])
@pytest.mark.parametrize(
    "hidden",
    [[], [(3, 0, 6)], [(3, 3, 24)], [(2, 4, 6), (3, 12, 18)], [(3, 0, 3), (3, 9, 15)], [(2, 0, 8), (3, 0, 24)]],
)
def test_a_tree_of_which_a_part_is_known_is_that_of_a_solver(root, hidden):
    """Least squares of what was measured, and the variance below every edge of that; no other edge is known."""
    rng, sizes, variances = np.random.default_rng(4), (1, 4, 8, 24), (root, 5.0, 9.0, 20.0)
    counts = [rng.normal(50, 20, size) for size in sizes]
    for level, first, end in hidden:
        counts[level][first:end] = np.nan
    design = np.vstack([np.kron(np.eye(size), np.ones(24 // size)) for size in sizes])
    y = np.hstack(counts)
    weights = np.where(np.isnan(y), 0, 1 / np.repeat(np.maximum(variances, 1e-6), sizes))
    solved = np.linalg.pinv(design.T * weights @ design, rcond=1e-14, hermitian=True)
    below = np.tril(np.ones((24, 24)))

    tree = tree_of(counts, variances)

    known = np.linalg.norm(below - below @ solved @ (design.T * weights @ design), axis=1) < 1e-3
    assert [True, *known] == tree.known.tolist()
    best = below @ solved @ (design.T * weights) @ np.nan_to_num(y)
    assert best[known] == pytest.approx(np.cumsum(tree.leaves)[known], abs=0.01)
    variance = np.diag(below @ solved @ below.T)
    assert variance[known] == pytest.approx(tree.prefix_variances[1:][known], abs=1e-3)
    assert np.isinf(tree.prefix_variances[1:][~known]).all()


def test_children_that_nobody_knows_have_equal_parts():
    """A node whose children were not shown is spread evenly, and an interval ends at edges that were."""
    tree = tree_of([[10], [6, 4], [np.nan, np.nan, 3, 1]], (0, 1e-9, 1e-9))

    assert (3, 3, 3, 1) == pytest.approx(tree.leaves, abs=1e-6)
    assert [True, False, True, True, True] == tree.known.tolist()
    low, high = tree.intervals([0.3], 1.96)
    assert (0, 2) == (low[0], high[0])


@pytest.mark.parametrize("root", [0.0, 30.0])
def test_least_squares_counts_have_the_variance_that_is_said(root):
    """They are linear in the noise, and so are their variances known; and they are those of a solver."""
    sizes, variances = (1, 4, 8, 24), (root, 5.0, 9.0, 20.0)
    each = np.repeat(variances, sizes)
    noise = np.random.default_rng(2).normal(size=each.size) * np.sqrt(each)
    design = np.vstack([np.kron(np.eye(size), np.ones(24 // size)) for size in sizes])

    def leaves(counts):
        return least_squares(np.split(counts, np.cumsum(sizes)[:-1]), variances)[0]

    linear = np.array([leaves(unit) for unit in np.eye(each.size)]).T
    weights = 1 / np.sqrt(np.maximum(each, 1e-9))
    solved = np.linalg.lstsq(design * weights[:, None], noise * weights)[0]
    of_prefixes = np.cumsum(linear, axis=0) ** 2 @ each

    assert leaves(noise) == pytest.approx(linear @ noise, abs=1e-12)
    assert solved == pytest.approx(leaves(noise), abs=1e-6)
    assert blank(sizes, variances).prefix_variances[1:] == pytest.approx(of_prefixes, rel=1e-9, abs=1e-9)


@pytest.mark.statistical
def test_intervals_of_quantiles_cover():
    """Over 400 noisy trees of a skewed table with ties, 95 % intervals cover its quartiles, and those of both."""
    rng = np.random.default_rng(3)
    x = np.where(rng.random(3000) < 0.3, 0, rng.gamma(1.5, 8, 3000)).clip(0, 99.9)
    edges = np.linspace(0, 100, 4097)
    truth = np.histogram(x, edges)[0].astype(float)
    sizes, scales = (1, 16, 256, 4096), (0, 9, 12, 18)
    q = [0.1, 0.25, 0.5, 0.75, 0.9]
    known = np.quantile(x, q, method="inverted_cdf")
    inside = np.zeros(5)
    for _ in range(400):
        levels = [
            truth.reshape(size, -1).sum(axis=1) + (rng.laplace(0, scale, size) if scale else 0)
            for size, scale in zip(sizes, scales, strict=True)
        ]
        low, high = tree_of(levels, [2.0 * s * s for s in scales], edges).intervals(q, 1.96)
        inside += (low <= known) & (known <= high)

    assert inside.min() >= 400 * 0.95 - 5 * np.sqrt(400 * 0.95 * 0.05)


def test_counts_below_a_value():
    """The cumulated counts at edges are the leaves', between them linear, with a standard error."""
    tree = tree_of([[10], [2, 5, 0, 3]], (0, 2.0))

    rows, error = tree.below([1, 1.5, 9])

    assert [2, 4.5, 10] == rows.tolist()
    assert error == pytest.approx(np.sqrt(tree.prefix_variances[[1, 1, 4]]))
