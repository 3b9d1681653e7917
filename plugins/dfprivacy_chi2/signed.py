r"""The test of a noisy signed difference of two shares, its groups public.

Released is :math:`F = f + L`, with f the difference of the shares of X = 1 among the complete rows, times the
smaller number of them; and, if rows times epsilon are enough to tell, how many rows have X = 1 and how many have
none. Given these, X independent of the groups makes the count in the first group hypergeometric. Their noise is
public, so the law of F is the mean of the noisy hypergeometric laws over draws of what the exact numbers may be.
Without them the law is taken at a share of 1/2, and where rows may be left out, at as many of the larger group as
the smaller one has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.inference.draws import DRAWS, noise, points, sums_above
from dfprivacy.inference.engine import Inference
from dfprivacy.laws import NoiseLaw
from dfprivacy_chi2.laws import MOST, Law, by_margin, mixed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["SignedDifference"]

_LAWS = 64
_SURE, _LIKELY = 7.0, 2.0  # scales of noise; more rows than by seven are left out once in two thousand tables


@dataclass(frozen=True)
class SignedDifference:
    """A noisy signed difference.

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
    """

    sizes: tuple[int, ...]
    released: float
    scale: float
    margins: tuple[float, ...] = ()
    margin_scale: float = 0.0
    omitted: bool = False

    @property
    def rows(self) -> tuple[int, int]:
        """Complete rows of each group, by the noisy numbers."""
        return self._rows(0.0)

    @property
    def share(self) -> float:
        """The noisy share of X = 1; 1/2 if it was not measured."""
        return min(max(0.5 + self.margins[0] / sum(self.rows), 0.0), 1.0) if self.margins else 0.5

    @property
    def estimate(self) -> float:
        """The noisy difference of the shares."""
        return min(max(self.released / min(self.rows), -1.0), 1.0)

    @property
    def shares(self) -> tuple[float, float]:
        """The noisy share of X = 1 in each group."""
        one, other = _apart(self.share, self.estimate, *self.rows)
        return float(one), float(other)

    @property
    def statistic(self) -> float:
        """Pearson's χ²: the least that it may be where the share of X = 1 is not known."""
        share = self._shares()
        variance = float((share * (1 - share)).mean())
        m, k = self.rows
        return m * k / (m + k) * self.estimate**2 / max(variance, 1 / (m + k) ** 2)

    @property
    def pvalue(self) -> float:
        """Probability, if there is no association, of a release as far from 0; noise included."""
        return min(2 * self._null.sf(abs(self.released), self.scale), 1.0)

    def critical_value(self, alpha: float) -> float:
        """Return what the absolute value of F exceeds with probability `alpha` if there is no association."""
        return max(self._null.critical_value(alpha / 2, self.scale), 0.0)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return a confidence interval for the difference; it leaves out 0 only where the test does."""
        laws = [NoiseLaw(self.scale), *(NoiseLaw(self.margin_scale) for _ in self.margins)]
        (noise_of_f, *of_margins), weights = noise(laws, points(len(laws), DRAWS))
        released = self.released - noise_of_f
        half, *missing = [each - drawn for each, drawn in zip(self.margins, of_margins, strict=True)] or [None]
        ends = []
        # No more rows are complete than there are, so draws of them are too few: all that may be are the other end.
        for rows in (self._complete(missing), self._rows(_SURE)):
            theta = np.clip(released / np.minimum(*rows), -1.0, 1.0)
            variance = np.broadcast_to(sum(0.25 / n for n in rows), theta.shape)
            if half is not None:
                shares = _apart(np.clip(0.5 + half / np.add(*rows), 0.0, 1.0), theta, *rows)
                (m, k) = (n + 2 for n in rows)  # Agresti and Caffo (2000): one row more of each kind
                one, other = ((p * (n - 2) + 1) / n for p, n in zip(shares, (m, k), strict=True))
                theta, variance = one - other, one * (1 - one) / m + other * (1 - other) / k
            found = Inference(np.array(self.estimate), theta, variance, np.full(DRAWS, np.inf), weights)
            ends.append([float(end) for end in found.interval(confidence)])
        low, high = max(min(x for x, _ in ends), -1.0), min(max(y for _, y in ends), 1.0)
        return (min(low, 0.0), max(high, 0.0)) if self.pvalue > 1 - confidence else (low, high)

    @cached_property
    def _null(self) -> Law:
        """The law of F if there is no association, either sign half of the time."""
        m, k = self._rows(_SURE)  # F varies more, the more rows are complete
        ones, times = np.unique(np.rint(self._shares() * (m + k)).astype(int), return_counts=True)
        laws = [by_margin(lambda c, d: (c * k - d * m) / max(m, k), m, k, m1, MOST) for m1 in ones.tolist()]
        law = mixed(laws, times.astype(np.float64))
        return Law(np.concatenate([law.points, -law.points]), np.tile(law.weights, 2) / 2)

    def _shares(self) -> Array:
        """Draw the share of X = 1, or of X = 0, if there is no association."""
        if not self.margins:
            return np.full(1, 0.5)
        n, law = sum(self._rows(_LIKELY)), NoiseLaw(self.margin_scale)
        fewer = sums_above(law, np.array(n / 2 - abs(self.margins[0])), np.zeros(1), points(1, _LAWS)[0])
        # The noise makes shares seem farther from 1/2 than they are, once in what was measured and once in a draw.
        squared = (0.5 - fewer / n) ** 2 - 2 * law.variance / n**2
        return np.clip(0.5 - np.sqrt(np.maximum(squared, 0.0)), 0.0, 0.5)

    def _rows(self, scales: float) -> tuple[int, int]:
        """Give complete rows of each group, by the noisy numbers, and some scales of noise more."""
        m, k = self._complete([gone - scales * self.margin_scale for gone in self.margins[1:]])
        return int(m), int(k)

    def _complete(self, missing: Sequence[Any]) -> tuple[Any, ...]:
        """Give complete rows of each group, one at least, if half so many are missing."""
        sizes = (min(self.sizes),) * 2 if self.omitted else self.sizes
        halves = zip(sizes, missing or (0.0, 0.0), strict=True)
        return tuple(np.clip(np.rint(n - 2 * gone), 1, n) for n, gone in halves)


def _apart(share: Any, difference: Any, m: Any, k: Any) -> tuple[Any, Any]:
    """Give the shares in two groups of m and k rows, of both together and their difference."""
    one, other = share + difference * k / (m + k), share - difference * m / (m + k)
    return np.clip(one, 0.0, 1.0), np.clip(other, 0.0, 1.0)
