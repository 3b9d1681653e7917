"""What the test returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, ConfidenceInterval, Release
from dfprivacy.plotting import axes
from dfprivacy.schema import as_probability
from dfprivacy_kernel.mmd import Measured

if TYPE_CHECKING:
    from dfprivacy_kernel.moments import Conclusion

__all__ = ["KernelTest", "Method", "concluded"]

Method: TypeAlias = Literal["mmd", "permutation", "moments", "whitened"]


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelTest(Release):
    """Result of a private kernel two-sample test.

    Attributes
    ----------
    reject : bool
        Whether the hypothesis of one distribution is rejected at level alpha.
    alpha : float
        The level.
    pvalue : float or None
        The p-value, noise included; None where only the decision was paid for.
    statistic : float or None
        ``"mmd"``: the noisy MMD, of public sizes and one kernel. ``"moments"``: chi-squared.
    mmd2 : float or None
        Estimate of the squared MMD; it can be below 0 (``"mmd"``).
    low, high : float or None
        Ends of an approximate interval for the MMD of the populations (``"mmd"``).
    sizes : tuple of int or None
        Rows in each group, where they are public.
    columns, by, groups, method, confidence, bandwidths
        What was asked; by two views, `groups` are the data sets.
    locations : tuple of tuples
        Where ``"moments"`` looks: rows of the columns, or frequencies.
    differences, standard_errors, noise_standard_errors : tuple of float
        Witness function there, the mean feature of the first group minus that of the second; its standard error,
        and the part of it that is due to privacy (``"moments"``).
    notes : tuple of str
        What to know before trusting the numbers.
    released : tuple
        What ``"mmd"`` follows from: noisy separation, its scale, noisy spread, its scales, and c of each kernel.
    """

    reject: bool
    alpha: float
    method: Method
    columns: tuple[str, ...]
    by: str
    groups: tuple[Any, Any]
    bandwidths: tuple[float, ...]
    sizes: tuple[int, int] | None
    pvalue: float | None = None
    statistic: float | None = None
    mmd2: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95
    locations: tuple[tuple[Any, ...], ...] = ()
    differences: tuple[float, ...] = ()
    standard_errors: tuple[float, ...] = ()
    noise_standard_errors: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    released: tuple[Any, ...] = ()

    _shown = ("reject", "alpha", "pvalue", "statistic", "mmd2", "low", "high", "sizes", "differences", "notes")

    def confidence_interval(
        self, confidence_level: float | None = None, *, of: Literal["populations", "samples"] = "populations"
    ) -> ConfidenceInterval:
        """Interval for the MMD, of the Nyström kernel, which is at most that of the kernel.

        Parameters
        ----------
        confidence_level : float, optional
            Coverage; default: the one asked for. Any other costs nothing.
        of : {"populations", "samples"}
            Of the populations, approximate; or of the two samples as they are, exact: there, only noise is unsure.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``.

        Raises
        ------
        ArgumentError
            If there is none: it needs public sizes, and one kernel.
        """
        if self.low is None or self.sizes is None:
            raise ArgumentError(
                "This test has no interval.", 'Use method="mmd", a public column and one bandwidth.'
            )
        level = as_probability(
            self.confidence if confidence_level is None else confidence_level, "confidence_level"
        )
        if of not in {"populations", "samples"}:
            raise ArgumentError(f"of={of!r} is unknown.", 'Use "populations" or "samples".')
        separation, scale, spread, scales, critical = self.released
        measured = Measured(separation, scale, np.array(spread), np.array(scales), self.sizes, critical)
        ends = measured.sample_interval(level) if of == "samples" else measured.interval(level)
        return ConfidenceInterval(*ends)

    def plot(self, ax: Any = None) -> Any:
        """Draw where the two samples differ: the witness function at the locations, with its noise.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ArgumentError
            If the method looked at no locations.
        """
        if not self.differences:
            raise ArgumentError("Only the moments test looks at locations.", 'Use method="moments".')
        ax = axes(ax)
        line = len(self.columns) == 1 and len(self.locations) == len(self.differences)
        at: Any = [location[0] for location in self.locations] if line else np.arange(len(self.differences))
        reach = float(ndtri((1 + self.confidence) / 2))
        for errors, color, width, label in (
            (self.standard_errors, "tab:orange", 3, f"{self.confidence:.0%}, noise included"),
            (self.noise_standard_errors, "tab:blue", 7, "of it from noise"),
        ):
            ax.errorbar(
                at, self.differences, yerr=reach * np.array(errors), fmt="none", color=color, lw=width, label=label
            )
        ax.plot(at, self.differences, "o", color="black", label="witness")
        ax.axhline(0, color="grey", ls=":")
        if not line:
            ax.set_xticks(at)
        ax.set_xlabel(self.columns[0] if line else "location")
        ax.set_ylabel(f"{self.groups[0]} minus {self.groups[1]}")
        ax.legend()
        return ax


def concluded(found: Conclusion, differences: Any, noise: float, alpha: float) -> dict[str, Any]:
    """Give what a moments test says, as fields of the result."""
    return {
        "method": "moments",
        "alpha": alpha,
        "reject": found.pvalue <= alpha,
        "pvalue": found.pvalue,
        "statistic": found.statistic,
        "differences": tuple(differences.tolist()),
        "standard_errors": tuple(found.standard_errors.tolist()),
        "noise_standard_errors": (noise,) * len(differences),
    }
