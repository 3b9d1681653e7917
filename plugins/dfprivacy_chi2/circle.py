"""The test of the noisy norm of the unit circle mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import TAU

__all__ = ["Circle"]


@dataclass(frozen=True)
class Circle:
    """A noisy norm.

    Attributes
    ----------
    sizes : tuple of int
        Rows of the two groups.
    released : float
        The norm.
    scale : float
        Of its Laplace noise.
    tau : float or None
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
    tau: float | None
    margin: str
    rate: Any
    omitted: bool

    @property
    def statistic(self) -> float:
        """Pearson's χ², at the share of X = 1 nearest 1/2 that is possible: the least that it may be."""
        p, tau = nulls.nearest_half(self.rate), TAU if self.tau is None else self.tau
        return max(0.0, tau * (1 + (max(self.released, 0.0) ** 2 - 1) / (4 * p * (1 - p))))

    @property
    def pvalue(self) -> float:
        """Probability, at most, of a larger norm if there is no association; noise included."""
        return self._null.pvalue(self.released, self.scale)

    def critical_value(self, alpha: float) -> float:
        """Return the norm that is exceeded with probability `alpha` at most if there is no association."""
        return self._null.critical_value(alpha, self.scale)

    @cached_property
    def _null(self) -> nulls.Null:
        n1, n0 = self.sizes
        tau = TAU if self.tau is None else self.tau
        if self.margin == "invariant":
            return nulls.Null((nulls.norm_given_margin(n1, n0, tau, round(self.rate * (n1 + n0))),))
        return nulls.norm(n1, n0, tau, self.rate, complete=not self.omitted)
