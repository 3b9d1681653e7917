"""What noisy numbers say: null laws, their reference values, levels, and sense made of whatever is measured."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.linalg import eigh
from scipy.stats import chi2, norm

from dfprivacy.schema import Column
from dfprivacy.statistics import gaussian_scale
from dfprivacy_kernel import law
from dfprivacy_kernel.design import Design
from dfprivacy_kernel.law import MMDMeasurement, Moments, NullDistribution, cube_law, cube_noise, laplace_tail
from dfprivacy_kernel.moments import Contrast, Party, Scales, contrast_test, noise_scales, parties_test
from dfprivacy_kernel.printed import paper_test, weighted_chi_squared

# The law of the MMD

KNOWN = [  # T, trace, Frobenius norm, largest eigenvalue, sizes, epsilon; p-values of known and of noisy moments
    ((0.04, 0.2, 0.0268, 0.0053, 500, 500, 1), 0.0201387, 0.03796),
    ((0.04, 0.125, 0.0138, 0.0029, 500, 500, 1), 0.0028296, 0.00991),
    ((0.035, 0.75, 0.09, 0.023, 2000, 2000, 0.5), 0.0149752, 0.01667),
    ((0.1, 0.1, 0.1, 0.1, 100, 100, 2.5), 0.0291024, 0.04173),
    ((0.05, 0.3, 0.02, 0.05, 100, 2000, 1), None, 0.61776),  # in no possible order
]
LEVELS = (np.arange(4000) + 0.5) / 4000


def of(*numbers):
    return Moments(*(np.array(float(x)) for x in numbers))


@pytest.mark.parametrize(("numbers", "known", "noisy"), KNOWN)
def test_pvalues(numbers, known, noisy):
    """With the moments known, and with noise in them, the p-value has its reference value."""
    T, trace, frobenius, largest, n, m, epsilon = numbers
    total, scale = n + m, math.sqrt(2) / min(n, m) / (0.85 * epsilon)
    measured = MMDMeasurement(
        separation=T * n * m / total,
        scale=scale * n * m / total,
        spread=total * np.array([trace, frobenius, largest]),
        spread_scales=np.full(3, 2 * (total - 1) / total / (0.15 * epsilon)),
        sizes=(n, m),
    )

    assert measured.pvalue == pytest.approx(noisy, abs=2e-3)
    if known is not None:
        squares = of(trace, frobenius, largest).quantile((np.arange(200_000) + 0.5) / 200_000)
        null = np.sqrt((1 / n + 1 / m) * total / (total - 1) * squares)
        assert laplace_tail((T - null) / scale).mean() == pytest.approx(known, abs=2e-6)


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.02])
def test_far_tails_are_those_of_the_law_and_the_noise(scale):
    """However small the noise is, a p-value is about the integral; no draw of the law need reach the statistic."""
    moments, (_, uniform) = (0.2, 0.0268, 0.0053), cube_noise(3)
    null = NullDistribution(
        Moments(*(np.full(len(uniform), x) for x in moments)), np.full(len(uniform), 0.004), uniform
    )
    for tail in (1e-3, 1e-6, 1e-12):
        statistic = math.sqrt(0.004 * float(of(*moments).quantile(np.array(1 - tail)))) + scale

        def beyond(noise, statistic=statistic):
            reached = max(statistic - noise, 0.0)
            weight = math.exp(-abs(noise) / scale) / (2 * scale)
            return weight * float(of(*moments).tail(np.array(reached**2 / 0.004)))

        ends = [-40 * scale, *np.linspace(0.0, statistic, 9), statistic + 40 * scale]
        parts = [quad(beyond, *part, epsabs=0, limit=400)[0] for part in pairwise(ends)]
        expected = sum(parts) + math.exp(-ends[-1] / scale) / 2

        assert expected / 2 < null.pvalue(statistic, scale) < 2 * expected


def test_noise_of_the_cube():
    """The points that stand for it have its standard deviation, and one coordinate its reference upper points."""
    for dimension, expected in ((3, 2.581989), (4, 3.162278), (9, 6.055301)):
        assert cube_noise(dimension)[0].std(axis=1) == pytest.approx(expected, rel=6e-3)
    assert [cube_law(3).half_width(1 - 2 * tail) for tail in (0.025, 0.005)] == pytest.approx(
        [5.1863, 7.2953], abs=1e-4
    )


numbers = st.floats(-1e6, 1e6)


@settings(max_examples=40, deadline=None)
@given(numbers, st.tuples(*[numbers] * 5), st.sampled_from([None, (2, 2), (30, 500)]))
def test_any_noisy_numbers(separation, spread, sizes):
    """Whatever the noisy numbers are, the p-value is a probability and the estimate a number."""
    noisy = np.array(spread if sizes is None else spread[2:])

    found = MMDMeasurement(separation, 3.0, noisy, np.full(len(noisy), 20.0), sizes)

    assert 0 <= found.pvalue <= 1
    assert math.isfinite(found.squared_mmd)


def test_no_noisy_numbers_have_an_impossible_conclusion():
    """Mostly noise in the numbers of rows makes no interval longer than distances are; nor a p-value beyond 1."""
    spread = np.array([300.0, 250.0, 400.0, 200.0, 150.0])
    measured = MMDMeasurement(80.0, 20.0, spread, np.full(5, 100.0), None, (5000, 4000))
    noise, S = noise_scales("me", 3, 50, 60), -100 * np.eye(3)
    parties = [Party(np.ones(3), S, noise, 50), Party(-np.ones(3), S, noise, 60)]
    moments = Contrast(np.full(3, 9.0), np.full(3, -7.0), S, noise, (50, 60), (50, 60))

    low, high = measured.interval(0.95)

    assert measured.informative
    assert 0 <= low < high == 2
    assert all(0 <= p <= 1 for p in (contrast_test(moments).pvalue, parties_test(parties).pvalue))


def test_few_possible_draws_make_a_fine_law():
    """Quantiles are those of many numbers, however few draws are possible; of none, the nearest stand in."""
    few = MMDMeasurement(0.0, 1.0, 400 * np.array([0.2, 0.27, 0.33]), np.full(3, 8.0), (200, 200)).null_law()
    none = MMDMeasurement(0.0, 1.0, np.full(3, -2000.0), np.full(3, 0.04), (20, 20)).null_law()
    # Noisy sizes are above the public ones half of the time where nothing is missing, and no rare draw.
    scales = np.array([0.42, 0.42, 0.84, 0.84, 0.84])
    above = MMDMeasurement(
        0.0, 1.0, np.array([54.5, 1813.1, 908.2, 915.5, 917.0]), scales, None, (52, 1812)
    ).null_law()
    exact = math.sqrt(52 * 1812 / 1863) * np.sqrt(of(0.49, 0.49, 0.49).quantile(LEVELS))

    assert min(len(few.uniform), len(above.uniform)) >= 2**12
    assert 0.0005 < np.mean(few.uniform > 0.999) < 0.002
    assert np.isfinite(none.quantile(0.95)).all()
    assert np.quantile(above.quantile(above.uniform), [0.5, 0.99, 0.999]) == pytest.approx(
        np.quantile(exact, [0.5, 0.99, 0.999]), rel=0.1
    )


# Its level


@pytest.fixture
def _coarse(monkeypatch):
    """P-values as integrals over fewer points, which moves them by a few thousandths."""
    monkeypatch.setattr(law, "_POINTS", 2**9)
    law.cube_noise.cache_clear()  # else the points are those of whoever asked first
    yield
    law.cube_noise.cache_clear()


def rejected(columns, n, epsilon, runs, draw, *, lengthscale=None, reach=3.0, locations=100, paired=False):
    """Give the share of p-values up to 5 %, with noise from NumPy, of two samples of n rows each."""
    known = tuple(Column(f"x{i}", bounds=(-reach, reach), fill=0.0) for i in range(columns))
    embedding = Design.from_arguments(known, "nystrom", lengthscale, 0.5, None, locations).embedding()
    rng, (part,), pvalues = np.random.default_rng(1), embedding.parts, []
    for _ in range(runs):
        x, y = (part.features(np.clip(rows, -reach, reach)) for rows in draw(rng, n))
        rows = x - y if paired else np.vstack([x, y]) - (x + y).mean(axis=0) / 2
        many, times, least = (n, 1, 2 / 0.15) if paired else (2 * n, n / 2, 2 / (0.15 * epsilon))
        C = embedding.map @ (rows.T @ rows / many) @ embedding.map.T
        largest = eigh(C, eigvals_only=True, subset_by_index=[len(C) - 1] * 2)[0]
        spread = many * np.array([np.trace(C), np.linalg.norm(C), largest])
        spread += rng.gamma(4) * rng.uniform(-1, 1, 3) * least
        b = math.sqrt(2) / (0.85 * epsilon) * (2 if paired else 1 / 2)
        apart = times * np.linalg.norm(embedding.map @ (x - y).sum(axis=0)) / (1 if paired else n)
        measured = MMDMeasurement(apart + rng.laplace(0, b), b, spread, np.full(3, least), (n, n), paired=paired)
        pvalues.append(measured.pvalue)
    return np.mean(np.array(pvalues) <= 0.05)


@pytest.mark.statistical
@pytest.mark.usefixtures("_coarse")
def test_the_level_is_kept():
    """Of many columns, and of pairs whose two rows are exchangeable, however alike: 5 % at most are rejected."""

    def pairs(rng, n):
        return rng.standard_normal((n, 2)) + 0.5 * rng.standard_normal((2, n, 2))

    apart = rejected(50, 500, 1.0, 400, lambda rng, n: rng.standard_normal((2, n, 50)), locations=50)
    paired = rejected(2, 300, 1.0, 400, pairs, locations=30, paired=True)

    assert 0.001 < apart < 0.055 + 5 * math.sqrt(0.05 / 400)
    assert paired < 0.05 + 5 * math.sqrt(0.05 / 400)

    def blobs(rng, n):  # stretched along an axis: found in 97% of cases
        at = 5 * (rng.integers(4, size=(2, n, 2)) - 1.5)
        return rng.standard_normal((2, n, 2)) * [[[1.0, 1.0]], [[math.sqrt(2), 1.0]]] + at

    assert rejected(2, 2000, 0.5, 60, blobs, lengthscale=math.sqrt(2) * 3 / 11.5, reach=11.5, locations=200) >= 0.80


# The moments test

SIGMA = {(1.0, 1e-5): 3.730632, (0.5, 1e-5): 7.031827, (2.5, 1e-5): 1.634002}


@pytest.mark.parametrize(
    ("n", "m", "J", "epsilon", "expected"),
    [
        (1000, 1000, 5, 1.0, (0.0083419459, 0.0083419459, 0.0046632895)),
        (500, 2000, 10, 0.5, (0.0444731768, 0.0111182943, 0.0140636534)),
        (10000, 10000, 5, 2.5, (3.653740644e-4, 3.653740644e-4, 2.042503119e-4)),
    ],
)
def test_noise_of_means(n, m, J, epsilon, expected):
    """Separate means, the pooled second moment, difference and pooled mean have their reference noise."""
    sigma, together = SIGMA[epsilon, 1e-5], noise_scales("me", 5, 1000, 1000)
    means = [noise_scales("me", J, size).difference * sigma for size in (n, m)]

    assert (*means, noise_scales("me", J, n, m).diagonal * sigma) == pytest.approx(expected, rel=1e-6)
    assert together.difference * SIGMA[1, 1e-5] == pytest.approx(0.0085986811, rel=1e-6)
    assert together.pooled * SIGMA[1, 1e-5] == pytest.approx(0.0171973621, rel=1e-6)


def contrast(rng, v, n, sigma):
    """A curator's release of features in the cube of rows of which n are of the first group, and its noise."""
    (rows, J), noise = v.shape, noise_scales("me", v.shape[1], n, len(v) - n).scaled_by(sigma)
    error = np.triu(noise.diagonal * rng.standard_normal((J, J)))
    return Contrast(
        v[:n].mean(axis=0) - v[n:].mean(axis=0) + noise.difference * rng.standard_normal(J),
        v.mean(axis=0) + noise.pooled * rng.standard_normal(J),
        v.T @ v / rows + error + np.triu(error, 1).T,
        noise,
        (n, rows - n),
        (n, rows - n),
    )


def correlated(rng, n, m, shift=0.0):
    v = np.tanh(rng.standard_normal((n + m, 3)) @ rng.standard_normal((3, 5))) / 2
    v[:n] = np.clip(v[:n] + shift, -0.5, 0.5)
    return v


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.5, 2.5])
def test_level_of_moments(epsilon):
    """With the margin the test rejects a true hypothesis at most in 6.5% of cases, and finds a shift."""
    rng, sigma = np.random.default_rng(7), SIGMA[epsilon, 1e-5]

    pvalues = [contrast_test(contrast(rng, correlated(rng, 400, 900), 400, sigma)).pvalue for _ in range(700)]

    assert np.mean(np.array(pvalues) < 0.05) <= 0.065 + 4 * math.sqrt(0.05 * 0.95 / 700)
    assert contrast_test(contrast(rng, correlated(rng, 20_000, 20_000, 0.05), 20_000, sigma)).pvalue < 1e-6


@pytest.mark.statistical
@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("columns", "n", "m", "epsilon"), [(2, 100, 5000, 5), (2, 40, 2000, 50), (5, 40, 2000, 50)]
)
def test_a_small_group_keeps_the_level(columns, n, m, epsilon):
    """Where few of the rows of a small group are near a location, its mean is not normal, and p-values hold."""
    rng = np.random.default_rng(3)
    known = [Column(f"x{i}", bounds=(0.0, 1.0), fill=0.5) for i in range(columns)]
    (part,) = Design.from_arguments(known, "me", None, 0.5, None, 5).embedding(mapped=False).parts
    every = part.features(rng.random((100_000, columns))) - 0.5
    sigma = gaussian_scale(float(epsilon), 1e-6)
    drawn = (every[rng.integers(len(every), size=n + m)] for _ in range(400))
    pvalues = np.array([contrast_test(contrast(rng, v, n, sigma)).pvalue for v in drawn])

    for level in (0.05, 0.01, 0.001):
        assert (pvalues <= level).mean() <= level + 5 * math.sqrt(level * (1 - level) / 400)


# TCMC and NTE as printed


def test_the_printed_law_is_that_of_a_weighted_sum():
    """In closed form where the weights are alike, or one of two, and by an integral over one of two."""
    at, z = np.array([0.5, 3.0, 9.0]), (np.arange(200_000) + 0.5) / 200_000

    assert [weighted_chi_squared(np.full(3, 2.0), s) for s in at] == pytest.approx(chi2.sf(at / 2, 3), abs=0.01)
    assert weighted_chi_squared(np.array([4.0]), 4.0) == pytest.approx(2 * norm.sf(1), abs=0.01)
    exact = chi2.sf(6 - 4 * norm.ppf(z) ** 2, 1).mean()
    assert weighted_chi_squared(np.array([4.0, 1.0]), 6.0) == pytest.approx(exact, abs=0.01)
    z = np.random.default_rng(5).uniform(-0.5, 1, 400)  # without noise at one location, it is the t-test of pairs
    party = Party(np.array([z.mean()]), np.array([[z @ z / 399]]), Scales(0, math.inf, 0, 0), 400.0)
    assert paper_test([party]).statistic == pytest.approx((z.mean() / (z.std(ddof=1) / 20)) ** 2)


def printed(rng, S, n, noise, count, second_noise=0.0):
    """P-values of what is measured of normal features with this covariance: of pairs, or of two parties."""
    root, J, found = np.linalg.cholesky(S), len(S), []
    for _ in range(400):
        parties = []
        for _ in range(count):
            mean = root @ rng.standard_normal(J) / math.sqrt(n) + noise * rng.standard_normal(J) + (count - 1) / 2
            error = np.triu(second_noise * rng.standard_normal((J, J)))
            second = S + np.outer(mean, mean) + error + np.triu(error, 1).T
            parties.append(Party(mean, second, Scales(noise, math.inf, second_noise, second_noise), float(n)))
        found.append(paper_test(parties).pvalue)
    return np.array(found)


@pytest.mark.statistical
def test_the_printed_level_holds_where_the_covariance_is_known(monkeypatch):
    """Noise in the mean is in the law; with noise in the second moment, p-values are too small."""
    monkeypatch.setattr("dfprivacy_kernel.printed._DRAWS", 10_000)
    rng = np.random.default_rng(3)
    S = np.array([[0.05, 0.02, 0], [0.02, 0.04, 0.01], [0, 0.01, 0.03]])

    for count in (1, 2):
        p = printed(rng, S, 1000, 0.008, count)
        for level in (0.05, 0.5):
            assert abs(np.mean(p <= level) - level) < 6 * math.sqrt(level * (1 - level) / 400) + 0.01
    lost = printed(rng, np.diag([0.05, 0.03, 0.02, 0.015, 0.01]), 2000, 0.0035, 1, 0.0079)  # as the note says
    assert np.mean(lost <= 0.05) > 0.1
