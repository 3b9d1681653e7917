"""What the tests of one table return."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from scipy.optimize import brentq

from dfprivacy import ArgumentError, ConfidenceInterval, Release
from dfprivacy.plotting import axes
from dfprivacy.schema import as_probability
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.asked import TAU
from dfprivacy_chi2.laws import folded_sf

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Chi2", "Margin", "Tested"]

Margin = Literal["private", "public_rate", "invariant"]
Tested = Literal["unit_circle", "difference", "calibrated", "distance", "spread", "association"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Chi2(Release):
    """Result of a private test of independence.

    Attributes
    ----------
    statistic : float
        The noisy statistic of the method: the norm, the absolute difference of shares, the number of rows that
        decide, the spread of shares, or the association.
    pvalue : float
        Largest probability, over the shares of X that cannot be excluded, of a statistic beyond this one if there
        is no association; noise included.
    low, high : float or None
        Ends of the confidence interval for the absolute difference of two shares; None where the statistic is not
        that difference.
    confidence : float
        Its coverage.
    method : {"unit_circle", "difference", "calibrated", "distance", "spread", "association"}
        How it was tested.
    scale : float
        Scale of the Laplace noise in the statistic.
    sizes : tuple of int
        Rows in each group; where the groups are private, the rows in all.
    categories : int
        Number of categories of X.
    x, by, groups
        What was compared.
    rate : float, tuple or None
        What was known of the share of X = 1.
    margin : {"private", "public_rate", "invariant"}
        What the calibration may know of the number of X = 1.
    tau : float or None
        Value of chi² that the circle or the distance stands for.
    total, total_scale : float or None
        Noisy number of X = 1, and the scale of its noise, where it was measured.
    guarantee : str
        What the noise protects, where that is not what the account says.
    notes : tuple of str
        What to know before trusting the numbers; an uninformative answer says so here.
    """

    statistic: float
    pvalue: float = 1.0
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95
    method: Tested
    scale: float
    sizes: tuple[int, ...]
    categories: int
    x: str
    by: str
    groups: tuple[Any, ...]
    rate: Any = None
    margin: Margin = "private"
    tau: float | None = None
    total: float | None = None
    total_scale: float | None = None
    guarantee: str = ""
    notes: tuple[str, ...] = ()

    _shown = ("statistic", "pvalue", "low", "high", "method", "scale", "sizes", "guarantee", "notes")

    def critical_value(self, alpha: float = 0.05) -> float:
        """Return the value that is exceeded with probability `alpha` at most if there is no association.

        Parameters
        ----------
        alpha : float
            Level. Any costs nothing: it is computed from what is public or released.

        Returns
        -------
        float
            In the units of `statistic`.
        """
        return self._null().critical_value(as_probability(alpha, "alpha"), self.scale)

    def reject(self, alpha: float = 0.05) -> bool:
        """Tell whether independence is rejected at level `alpha`; any level costs nothing."""
        return self.pvalue <= as_probability(alpha, "alpha")

    def confidence_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Interval for the absolute difference of the two shares.

        Parameters
        ----------
        confidence_level : float, optional
            Coverage; default: the one asked for. Any other costs nothing.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``, between 0 and 1.
        """
        if self.low is None or self.high is None:
            raise ArgumentError(
                f"The statistic of method {self.method!r} says nothing of the size of a difference.",
                'Use method="difference" or "calibrated".',
            )
        if confidence_level is None:
            return ConfidenceInterval(self.low, self.high)
        return self._interval(as_probability(confidence_level, "confidence_level"))

    def judged(self) -> Chi2:
        """Return the same with its p-value, its interval and its notes."""
        interval: tuple[float | None, float | None] = (None, None)
        if self.method in {"difference", "calibrated"}:
            interval = self._interval(self.confidence)
        pvalue = min(max(self._null().pvalue(self.statistic, self.scale), 0.0), 1.0)
        return replace(self, pvalue=pvalue, low=interval[0], high=interval[1], notes=self._remarks())

    def plot(self, ax: Any = None) -> Any:
        """Draw the statistic, the spread of its noise, and where it would be significant.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        ax = axes(ax)
        for alpha, style in ((0.05, "--"), (0.01, ":")):
            ax.axvline(self.critical_value(alpha), color="tab:red", ls=style, label=f"significant at {alpha:.0%}")
        ax.errorbar(self.statistic, 0, xerr=self.scale, fmt="o", color="black", capsize=4, label="noisy statistic")
        ax.set(yticks=[], xlabel=f"{self.method} of {self.x} by {self.by}", title=f"p = {self.pvalue:.3g}")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=3, fontsize="small", frameon=False)
        return ax

    def _null(self) -> nulls.Null | nulls.NoisyShare:
        """Return what the noisy statistic may be distributed as if there is no association."""
        if self.method == "association":
            return nulls.association(self.sizes[0])
        if self.method == "spread":
            return nulls.spread(self.categories, len(self.sizes), self.rate)
        n1, n0 = self.sizes
        if self.method == "difference":
            return nulls.difference(n1, n0, self.rate)
        if self.total is not None and self.total_scale is not None:
            return nulls.NoisyShare(n1, n0, self.total, self.total_scale)
        tau = TAU if self.tau is None else self.tau
        if self.method == "distance":
            return nulls.distance(n1, n0, tau, self.rate)
        if self.margin == "invariant":
            return nulls.Null((nulls.norm_given_margin(n1, n0, tau, round(self.rate * (n1 + n0))),))
        return nulls.norm(n1, n0, tau, self.rate)

    def _interval(self, confidence: float) -> ConfidenceInterval:
        """Give the differences that two tests of level (1 - confidence)/2, one on either side, do not reject.

        Normal laws. With nothing known of the share, the variance is the largest that there is.
        """
        n1, n0 = self.sizes
        n = n1 + n0
        null = self._null()
        p = float(null.share(null.total)) if isinstance(null, nulls.NoisyShare) else nulls.nearest_half(self.rate)

        def sd(difference: float) -> float:
            if self.method == "difference" and self.rate is None:
                return math.sqrt((1 / n1 + 1 / n0) / 4)
            sides = []
            for d in (difference, -difference):
                p1, p0 = (min(max(share, 0.0), 1.0) for share in (p + d * n0 / n, p - d * n1 / n))
                sides.append(p1 * (1 - p1) / n1 + p0 * (1 - p0) / n0)
            return math.sqrt(max(sides))

        def above(difference: float) -> float:
            return float(folded_sf(self.statistic, difference, sd(difference), self.scale))

        tail = (1 - confidence) / 2
        return ConfidenceInterval(
            _crossing(lambda d: above(d) - tail),
            _crossing(lambda d: above(d) - (1 - tail)),
        )

    def _remarks(self) -> tuple[str, ...]:
        """Say what to know before trusting the numbers."""
        notes = []
        if self.method in {"difference", "calibrated"}:
            n1, n0 = self.sizes
            if self.scale > math.sqrt((1 / n1 + 1 / n0) / 4):
                notes.append(
                    "the noise is larger than what sampling leaves open: only large differences can be found"
                )
            if self.statistic < -3 * self.scale:
                notes.append("uninformative: the noise outweighs the statistic, which cannot be negative")
        if self.method == "spread" and min(self.sizes) < 20:  # noqa: PLR2004
            notes.append("a group has fewer than 20 rows: the p-value's chi-squared law is an approximation")
        return tuple(notes)


def _crossing(rising: Callable[[float], float]) -> float:
    """Return where in [0, 1] a function becomes positive."""
    if rising(0.0) >= 0:
        return 0.0
    return float(brentq(rising, 0.0, 1.0, xtol=1e-12)) if rising(1.0) > 0 else 1.0
