"""Effective counts of weighted shares: the counts of an unweighted sample of the same accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy.inference.counts import Counts
from dfprivacy.inference.draws import DRAWS
from dfprivacy.inference.weighted import ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.inference.weighted import NoisyWeighted, WeightedSums

    Array = NDArray[np.float64]

__all__ = ["EffectiveCounts"]


@dataclass(frozen=True)
class EffectiveCounts:
    """Effective counts of rows with and without an outcome in each group, from noisy weighted sums.

    With p a weighted share and V its design-based variance, the effective number of rows is p(1-p)/V [1]_, but no
    less than the sum of the weights as parts of their bound, and no more than the rows. So all that is known of
    shares of counts holds for weighted ones.

    Attributes
    ----------
    sums : NoisyWeighted
        Of k groups.

    References
    ----------
    .. [1] Korn and Graubard (1998). Confidence intervals for proportions with small expected number of positive
       counts estimated from survey data. Survey Methodology 24.
    """

    sums: NoisyWeighted

    def _counts(self, exact: WeightedSums) -> Counts:
        share, variance, _ = ratio(exact, (1.0, 0.0), (1.0, 1.0))
        most = max(self.sums.rows, 1.0)
        least = np.clip(exact.first.sum(axis=-2), 1.0, most)
        n = np.clip(share * (1 - share) / variance, least, most)
        return Counts(n * share, n)

    @property
    def estimate(self) -> Counts:
        """Effective counts computed from the noisy weighted sums as released."""
        return self._counts(self.sums.estimate)

    def draws(self, draws: int = DRAWS) -> tuple[Counts, Array]:
        """Return draws of the effective counts without noise, given the noisy sums, and the draws' weights."""
        exact, weights = self.sums.draws(draws)
        return self._counts(exact), weights

    @property
    def share_error(self) -> Array:
        """Standard error of the noise in the share of each group, by the delta method."""
        plain, noise = self.sums.estimate.first[..., 0], self.sums.laws[0].standard_deviation
        p = self.estimate.share[:, 0]
        return np.asarray(noise * np.hypot(p, 1 - p) / plain.sum(axis=-1))
