"""Tests of a contingency table from released numbers: a difference of shares, all cell counts, or ‖V‖."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chndtrinc

from dfprivacy.inference.counts import Counts, difference
from dfprivacy.inference.draws import DRAWS, noise, points, sums_above
from dfprivacy.inference.engine import Inference
from dfprivacy.laws import NoiseLaw
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.laws import N_POINTS, Law, hypergeometric_law, mixture

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NoisyTable", "SignedDifference", "UnitCircleTest"]

Array = NDArray[np.float64]

_N_LAWS = 64
_MOST_SCALES, _LIKELY_SCALES = 7.0, 2.0  # scales of noise; the first is exceeded in one of two thousand tables
_N_DRAWS = 2047
_N_TAIL = 40  # largest draws; beyond, the root is exponential as Laplace noise is: normal sampling falls off faster
_MIN_MARGIN = 0.5  # rows in a margin


@dataclass(frozen=True)
class SignedDifference:
    r"""Test of independence from a noisy difference of the shares of X = 1 in two public groups.

    Attributes
    ----------
    sizes : tuple of int
        Rows of the two groups.
    released : float
        F.
    scale : float
        Of its Laplace noise.
    margins : tuple of float
        Noisy: half of the rows with X = 1 less half of those with X = 0; half of the rows without X in each group,
        if they are left out. Empty if they were not measured.
    margin_scale : float
        Of the noise in each of these.
    omitted : bool
        Whether rows may be left out, and how many was not measured.

    Notes
    -----
    Released is :math:`F = f + L`, with f the difference of the shares of X = 1 among the complete rows, times
    the smaller number of them; and, if rows times epsilon are enough to tell, how many rows have X = 1 and how
    many have none. Given these, X independent of the groups makes the count in the first group hypergeometric.
    Their noise is public, so the law of F is the mean of the noisy hypergeometric laws over draws of what the
    exact numbers may be. Without them the law is taken at a share of 1/2, and where rows may be left out, at as
    many of the larger group as the smaller one has.
    """

    sizes: tuple[int, ...]
    released: float
    scale: float
    margins: tuple[float, ...] = ()
    margin_scale: float = 0.0
    omitted: bool = False

    @property
    def rows(self) -> tuple[int, int]:
        """Number of complete rows of each group, estimated from the noisy counts."""
        return self._noisy_rows(0.0)

    @property
    def share(self) -> float:
        """The noisy share of X = 1 in both groups together; 1/2 if it was not measured."""
        return min(max(0.5 + self.margins[0] / sum(self.rows), 0.0), 1.0) if self.margins else 0.5

    @property
    def estimate(self) -> float:
        """The noisy difference of the shares of X = 1 in the two groups."""
        return min(max(self.released / min(self.rows), -1.0), 1.0)

    @property
    def shares(self) -> tuple[float, float]:
        """The noisy share of X = 1 in each group."""
        one, other = _group_shares(self.share, self.estimate, *self.rows)
        return float(one), float(other)

    @property
    def statistic(self) -> float:
        """Pearson's χ²; its smallest possible value if the share of X = 1 is not known."""
        share = self._null_shares()
        variance = float((share * (1 - share)).mean())
        m, k = self.rows
        return m * k / (m + k) * self.estimate**2 / max(variance, 1 / (m + k) ** 2)

    @property
    def pvalue(self) -> float:
        """Two-sided p-value of the noisy difference under independence."""
        return min(2 * self._null_law.sf(abs(self.released), self.scale), 1.0)

    def critical_value(self, alpha: float) -> float:
        """Return the critical value of the absolute difference at level `alpha`."""
        return max(self._null_law.critical_value(alpha / 2, self.scale), 0.0)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return a confidence interval for the difference, which excludes 0 only if the test rejects."""
        laws = [NoiseLaw(self.scale), *(NoiseLaw(self.margin_scale) for _ in self.margins)]
        (noise_of_f, *of_margins), weights = noise(laws, points(len(laws), DRAWS))
        released = self.released - noise_of_f
        half, *missing = [each - drawn for each, drawn in zip(self.margins, of_margins, strict=True)] or [None]
        ends = []
        # No more rows are complete than there are, so draws of them are too few: all that may be are the other end.
        for rows in (self._complete_row_counts(missing), self._noisy_rows(_MOST_SCALES)):
            theta = np.clip(released / np.minimum(*rows), -1.0, 1.0)
            variance = np.broadcast_to(sum(0.25 / n for n in rows), theta.shape)
            if half is not None:
                shares = _group_shares(np.clip(0.5 + half / np.add(*rows), 0.0, 1.0), theta, *rows)
                first, second = (Counts(p * n, n) for p, n in zip(shares, rows, strict=True))
                theta, variance, _ = difference(first, second)
            found = Inference(np.array(self.estimate), theta, variance, np.full(DRAWS, np.inf), weights)
            ends.append([float(end) for end in found.interval(confidence)])
        low, high = max(min(x for x, _ in ends), -1.0), min(max(y for _, y in ends), 1.0)
        return (min(low, 0.0), max(high, 0.0)) if self.pvalue > 1 - confidence else (low, high)

    @cached_property
    def _null_law(self) -> Law:
        """Distribution of the scaled difference without noise, under independence; symmetric about 0."""
        m, k = self._noisy_rows(_MOST_SCALES)  # F varies more, the more rows are complete
        ones, times = np.unique(np.rint(self._null_shares() * (m + k)).astype(int), return_counts=True)
        laws = [
            hypergeometric_law(lambda c, d: (c * k - d * m) / max(m, k), m, k, m1, N_POINTS) for m1 in ones.tolist()
        ]
        law = mixture(laws, times.astype(np.float64))
        return Law(np.concatenate([law.points, -law.points]), np.tile(law.weights, 2) / 2)

    def _null_shares(self) -> Array:
        """Draw the smaller of the shares of X = 1 and X = 0, under independence, given the noisy counts."""
        if not self.margins:
            return np.full(1, 0.5)
        n, law = sum(self._noisy_rows(_LIKELY_SCALES)), NoiseLaw(self.margin_scale)
        fewer = sums_above(law, np.array(n / 2 - abs(self.margins[0])), np.zeros(1), points(1, _N_LAWS)[0])
        # The noise makes shares seem farther from 1/2 than they are, once in what was measured and once in a draw.
        squared = (0.5 - fewer / n) ** 2 - 2 * law.variance / n**2
        return np.clip(0.5 - np.sqrt(np.maximum(squared, 0.0)), 0.0, 0.5)

    def _noisy_rows(self, scales: float) -> tuple[int, int]:
        """Return the complete rows of each group: the noisy number plus a multiple of the noise scale."""
        m, k = self._complete_row_counts([gone - scales * self.margin_scale for gone in self.margins[1:]])
        return int(m), int(k)

    def _complete_row_counts(self, missing: Sequence[Any]) -> tuple[Any, ...]:
        """Return the number of complete rows of each group, at least 1, given half the number of missing values."""
        sizes = (min(self.sizes),) * 2 if self.omitted else self.sizes
        halves = zip(sizes, missing or (0.0, 0.0), strict=True)
        return tuple(np.clip(np.rint(n - 2 * gone), 1, n) for n, gone in halves)


@dataclass(frozen=True)
class NoisyTable:
    r"""Test of independence from noisy counts of all cells of a table, for public or private groups.

    Attributes
    ----------
    counts : ndarray of shape (categories, groups)
        The noisy counts.
    scale : float
        Of the Laplace noise in each.

    Notes
    -----
    With p and g the noisy shares of the categories and of the groups, the residuals :math:`q = (1 - p 1^T) R (1
    - 1 g^T)` of the counts R have the covariance :math:`M = C + \sigma^2 A_p \otimes A_g`, of sampling,
    :math:`C = n D_p \otimes D_g` with :math:`D_x = \mathrm{diag}(x) - x x^T`, and of noise, :math:`A_x = (1 - x
    1^T)(1 - x 1^T)^T`. The statistic :math:`T = q^T M^{-1} C M^{-1} q` is Pearson's without noise. With it each
    direction counts by the part of its variance that is sampling, so what the noise hides adds nothing, and no
    category has to be put to another. The law of T is that of tables drawn from margins that the release leaves
    possible, with noise put on again.
    """

    counts: Array
    scale: float

    @cached_property
    def statistic(self) -> float:
        """Pearson's χ², each independent residual weighted by the share of its variance that is due to sampling."""
        directions, sampling, reliability = _residuals(self.counts, 2 * self.scale**2)
        return float(_weighted_chi2(directions, sampling, reliability))

    @cached_property
    def pvalue(self) -> float:
        """P-value of the noisy statistic under independence."""
        root, (edge, excess) = math.sqrt(self.statistic), self._tail_fit
        if root > edge:
            return (_N_TAIL + 1) / (_N_DRAWS + 1) * math.exp((edge - root) / excess)
        return float(np.count_nonzero(self._null_roots >= root * (1 - 1e-12)) + 1) / (_N_DRAWS + 1)

    def critical_value(self, alpha: float) -> float:
        """Return the critical value of the statistic at level `alpha`."""
        draws, (edge, excess) = alpha * (_N_DRAWS + 1), self._tail_fit
        if draws < _N_TAIL + 1:
            return (edge + excess * math.log((_N_TAIL + 1) / draws)) ** 2
        return float(self._null_roots[-min(math.floor(draws), _N_DRAWS)]) ** 2

    @property
    def estimate(self) -> float:
        """Cramér's V, corrected for its bias due to sampling and noise."""
        mean, _, seen = self._null_moments
        return self._cramers_v(max(self.statistic - mean, 0.0) / seen)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return an approximate confidence interval for Cramér's V.

        T is taken to be noncentral χ² of the mean and the variance that it has without association. The interval
        leaves out 0 only where the test does.
        """
        mean, variance, seen = self._null_moments
        factor = variance / (2 * mean)
        tail = (1 - confidence) / 2
        ends = [float(chndtrinc(self.statistic / factor, mean / factor, level)) for level in (1 - tail, tail)]
        low, high = (self._cramers_v(max(end, 0.0) * factor / seen) for end in ends)
        return (low if self.pvalue <= tail else 0.0), high

    def residuals(self) -> Array:
        """Return the residual of each cell, divided by its standard deviation from sampling and noise."""
        p, g, n = _table_shares(self.counts)
        expected = n * np.outer(p, g)
        return (self.counts - expected) / np.sqrt(expected * np.outer(1 - p, 1 - g) + 2 * self.scale**2)

    @cached_property
    def _null_moments(self) -> tuple[float, float, float]:
        """Mean and variance of the statistic under independence, and the share of n φ² that association adds."""
        part = _residuals(self.counts, 2 * self.scale**2)[2]
        return float(part.sum()), float(2 * (part**2).sum()), float((part**3).sum() / part.sum())

    def _cramers_v(self, noncentrality: float) -> float:
        return min(1.0, math.sqrt(noncentrality / (_table_shares(self.counts)[2] * (min(self.counts.shape) - 1))))

    @cached_property
    def _tail_fit(self) -> tuple[float, float]:
        """Threshold above which √statistic has an exponential tail under independence, and the mean excess."""
        edge = self._null_roots[-_N_TAIL]
        return float(edge), float((self._null_roots[-_N_TAIL:] - edge).mean())

    @cached_property
    def _null_roots(self) -> Array:
        """Square roots of the statistic, simulated under independence, in ascending order."""
        rng = np.random.default_rng(0)  # no secret: the noise is not drawn again
        law = NoiseLaw(self.scale)
        shape = (_N_DRAWS, *self.counts.shape)
        p, g, n = _table_shares(self.counts - law.drawn(rng, shape))
        cells = (p[:, :, None] * g[:, None, :]).reshape(_N_DRAWS, -1)
        cells /= cells.sum(axis=1, keepdims=True)
        tables = rng.multinomial(np.rint(n).astype(np.int64), cells).reshape(shape)
        return np.sort(np.sqrt(_weighted_chi2(*_residuals(tables + law.drawn(rng, shape), law.variance))))


@dataclass(frozen=True)
class UnitCircleTest:
    """Test of independence from the noisy norm of the unit circle mechanism.

    Attributes
    ----------
    sizes : tuple of int
        Rows of the two groups.
    released : float
        The norm.
    scale : float
        Of its Laplace noise.
    tau : float
        Value of χ² that the circle stands for.
    margin : {"private", "public_rate", "invariant"}
        What is known of the number of X = 1.
    rate : float, tuple or None
        The share of X = 1, as far as it is known.
    omitted : bool
        Whether rows may be left out.
    """

    sizes: tuple[int, ...]
    released: float
    scale: float
    tau: float
    margin: str
    rate: Any
    omitted: bool

    @property
    def statistic(self) -> float:
        """Smallest Pearson's χ² that agrees with the noisy norm, for any possible share of X = 1."""
        p = nulls.share_nearest_half(self.rate)
        return max(0.0, self.tau * (1 + (max(self.released, 0.0) ** 2 - 1) / (4 * p * (1 - p))))

    @property
    def pvalue(self) -> float:
        """Upper bound of the p-value of the noisy norm under independence."""
        return self._null_hypothesis.pvalue(self.released, self.scale)

    def critical_value(self, alpha: float) -> float:
        """Return a value that the noisy norm exceeds with probability at most `alpha` under independence."""
        return self._null_hypothesis.critical_value(alpha, self.scale)

    @cached_property
    def _null_hypothesis(self) -> nulls.CompositeNull:
        n1, n0 = self.sizes
        if self.margin == "invariant":
            return nulls.CompositeNull((nulls.norm_given_margin(n1, n0, self.tau, round(self.rate * (n1 + n0))),))
        return nulls.norm_null(n1, n0, self.tau, self.rate, complete=not self.omitted)


def _group_shares(share: Any, difference: Any, m: Any, k: Any) -> tuple[Any, Any]:
    """Return the shares in two groups of m and k rows, from their pooled share and their difference."""
    one, other = share + difference * k / (m + k), share - difference * m / (m + k)
    return np.clip(one, 0.0, 1.0), np.clip(other, 0.0, 1.0)


def _table_shares(counts: Array) -> tuple[Array, Array, Array]:
    """Return the shares of categories and of groups and the number of rows, with each margin at least 0.5."""
    rows, columns = (np.maximum(counts.sum(axis=axis), _MIN_MARGIN) for axis in (-1, -2))
    n = columns.sum(axis=-1)
    return rows / rows.sum(axis=-1, keepdims=True), columns / n[..., None], n


def _residuals(counts: Array, variance: float) -> tuple[Array, Array, Array]:
    """Return independent residuals, their variances from sampling, and the share of these in their variances."""
    p, g, n = _table_shares(counts)
    q = counts - p[..., :, None] * counts.sum(axis=-2, keepdims=True)
    q = (q - g[..., None, :] * q.sum(axis=-1, keepdims=True))[..., :-1, :-1]
    (of_p, first), (of_g, second) = _residual_basis(p), _residual_basis(g)
    sampling = n[..., None, None] * first[..., :, None] * second[..., None, :]
    return of_p @ q @ np.swapaxes(of_g, -1, -2), sampling, sampling / (sampling + variance)


def _weighted_chi2(directions: Array, sampling: Array, part: Array) -> Array:
    return np.asarray((directions**2 * part**2 / sampling).sum(axis=(-1, -2)))


def _residual_basis(x: Array) -> tuple[Array, Array]:
    """Return a basis in which residuals of a margin with shares x are independent, and their variances."""
    eye, own = np.eye(x.shape[-1]), x[..., :-1]
    away = eye[:-1] - own[..., :, None]
    root = np.linalg.inv(np.linalg.cholesky(away @ np.swapaxes(away, -1, -2)))
    spread = own[..., None] * eye[:-1, :-1] - own[..., :, None] * own[..., None, :]
    values, vectors = np.linalg.eigh(root @ spread @ np.swapaxes(root, -1, -2))
    return np.swapaxes(vectors, -1, -2) @ root, np.maximum(values, 1e-12)
