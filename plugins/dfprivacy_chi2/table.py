r"""The test of a table of noisy counts: any number of categories and groups, private groups too.

With p and g the noisy shares of the categories and of the groups, the residuals :math:`q = (1 - p 1^T) R (1 - 1
g^T)` of the counts R have the covariance :math:`M = C + \sigma^2 A_p \otimes A_g`, of sampling, :math:`C = n D_p
\otimes D_g` with :math:`D_x = \mathrm{diag}(x) - x x^T`, and of noise, :math:`A_x = (1 - x 1^T)(1 - x 1^T)^T`. The
statistic :math:`T = q^T M^{-1} C M^{-1} q` is Pearson's without noise. With it each direction counts by the part of
its variance that is sampling, so what the noise hides adds nothing, and no category has to be put to another. The
law of T is that of tables drawn from margins that the release leaves possible, with noise put on again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import chndtrinc

from dfprivacy.laws import NoiseLaw

__all__ = ["NoisyTable"]

Array = NDArray[np.float64]

_DRAWS = 2047
_TAIL = (
    40  # largest draws; beyond, the root is exponential as Laplace noise is, and normal sampling falls off faster
)
_LEAST = 0.5  # rows in a margin


@dataclass(frozen=True)
class NoisyTable:
    """A table of noisy counts.

    Attributes
    ----------
    counts : ndarray of shape (categories, groups)
        The noisy counts.
    scale : float
        Of the Laplace noise in each.
    """

    counts: Array
    scale: float

    @cached_property
    def statistic(self) -> float:
        """Pearson's χ² of the counts, each direction as far as it is not noise."""
        directions, sampling, reliability = _directions(self.counts, 2 * self.scale**2)
        return float(_statistic(directions, sampling, reliability))

    @cached_property
    def pvalue(self) -> float:
        """Probability, if there is no association, of a statistic at least as large; noise included."""
        root, (edge, excess) = math.sqrt(self.statistic), self._tail
        if root > edge:
            return (_TAIL + 1) / (_DRAWS + 1) * math.exp((edge - root) / excess)
        return float(np.count_nonzero(self._roots >= root * (1 - 1e-12)) + 1) / (_DRAWS + 1)

    def critical_value(self, alpha: float) -> float:
        """Return the statistic that is exceeded with probability `alpha` if there is no association."""
        draws, (edge, excess) = alpha * (_DRAWS + 1), self._tail
        if draws < _TAIL + 1:
            return (edge + excess * math.log((_TAIL + 1) / draws)) ** 2
        return float(self._roots[-min(math.floor(draws), _DRAWS)]) ** 2

    @property
    def estimate(self) -> float:
        """Cramér's V, what sampling and noise add on average taken out."""
        mean, _, seen = self._expected
        return self._v(max(self.statistic - mean, 0.0) / seen)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return a confidence interval for Cramér's V, as far as the noise lets it be seen.

        T is taken to be noncentral χ² of the mean and the variance that it has without association. The interval
        leaves out 0 only where the test does.
        """
        mean, variance, seen = self._expected
        factor = variance / (2 * mean)
        tail = (1 - confidence) / 2
        ends = [float(chndtrinc(self.statistic / factor, mean / factor, level)) for level in (1 - tail, tail)]
        low, high = (self._v(max(end, 0.0) * factor / seen) for end in ends)
        return (low if self.pvalue <= tail else 0.0), high

    def residuals(self) -> Array:
        """Return how far each cell is from expectation, in standard deviations of sampling and noise."""
        p, g, n = _margins(self.counts)
        expected = n * np.outer(p, g)
        return (self.counts - expected) / np.sqrt(expected * np.outer(1 - p, 1 - g) + 2 * self.scale**2)

    @cached_property
    def _expected(self) -> tuple[float, float, float]:
        """Give mean and variance of T without association, and by how much of n φ² it is larger with some."""
        part = _directions(self.counts, 2 * self.scale**2)[2]
        return float(part.sum()), float(2 * (part**2).sum()), float((part**3).sum() / part.sum())

    def _v(self, noncentrality: float) -> float:
        return min(1.0, math.sqrt(noncentrality / (_margins(self.counts)[2] * (min(self.counts.shape) - 1))))

    @cached_property
    def _tail(self) -> tuple[float, float]:
        """Give the root beyond which the tail is taken to be exponential, and its mean excess."""
        edge = self._roots[-_TAIL]
        return float(edge), float((self._roots[-_TAIL:] - edge).mean())

    @cached_property
    def _roots(self) -> Array:
        """Draw roots of the statistic of tables without association, in ascending order."""
        rng = np.random.default_rng(0)  # no secret: the noise is not drawn again
        law = NoiseLaw(self.scale)
        shape = (_DRAWS, *self.counts.shape)
        p, g, n = _margins(self.counts - law.drawn(rng, shape))
        cells = (p[:, :, None] * g[:, None, :]).reshape(_DRAWS, -1)
        cells /= cells.sum(axis=1, keepdims=True)
        tables = rng.multinomial(np.rint(n).astype(np.int64), cells).reshape(shape)
        return np.sort(np.sqrt(_statistic(*_directions(tables + law.drawn(rng, shape), law.variance))))


def _margins(counts: Array) -> tuple[Array, Array, Array]:
    """Give shares of the categories, shares of the groups, and rows; no margin is less than half a row."""
    rows, columns = (np.maximum(counts.sum(axis=axis), _LEAST) for axis in (-1, -2))
    n = columns.sum(axis=-1)
    return rows / rows.sum(axis=-1, keepdims=True), columns / n[..., None], n


def _directions(counts: Array, variance: float) -> tuple[Array, Array, Array]:
    """Give residuals in directions that are independent, their variance of sampling, its part of all."""
    p, g, n = _margins(counts)
    q = counts - p[..., :, None] * counts.sum(axis=-2, keepdims=True)
    q = (q - g[..., None, :] * q.sum(axis=-1, keepdims=True))[..., :-1, :-1]
    (of_p, first), (of_g, second) = _basis(p), _basis(g)
    sampling = n[..., None, None] * first[..., :, None] * second[..., None, :]
    return of_p @ q @ np.swapaxes(of_g, -1, -2), sampling, sampling / (sampling + variance)


def _statistic(directions: Array, sampling: Array, part: Array) -> Array:
    return np.asarray((directions**2 * part**2 / sampling).sum(axis=(-1, -2)))


def _basis(x: Array) -> tuple[Array, Array]:
    """Give U with U A U' = 1 and U D U' diagonal, and that diagonal; the last share left out."""
    eye, own = np.eye(x.shape[-1]), x[..., :-1]
    away = eye[:-1] - own[..., :, None]
    root = np.linalg.inv(np.linalg.cholesky(away @ np.swapaxes(away, -1, -2)))
    spread = own[..., None] * eye[:-1, :-1] - own[..., :, None] * own[..., None, :]
    values, vectors = np.linalg.eigh(root @ spread @ np.swapaxes(root, -1, -2))
    return np.swapaxes(vectors, -1, -2) @ root, np.maximum(values, 1e-12)
