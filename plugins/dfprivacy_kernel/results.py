"""What the test returns."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, ConfidenceInterval, Release
from dfprivacy.plotting import axes, below, ink, wrapped
from dfprivacy.release import renamed
from dfprivacy.schema import as_probability
from dfprivacy.wording import clearly_some, number, sure
from dfprivacy_kernel.mmd import Measured

__all__ = ["KernelTest", "Method"]

Method: TypeAlias = Literal["mmd", "permutation", "moments", "whitened"]


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelTest(Release):
    """Result of a private kernel two-sample test.

    Attributes
    ----------
    rejected : bool
        Whether the hypothesis of one distribution is rejected at level alpha.
    alpha : float
        The level.
    pvalue : float or None
        The p-value, noise included; None where only the decision was paid for.
    statistic : float or None
        ``"mmd"``: the noisy MMD, of one kernel. ``"moments"``: chi-squared.
    mmd2 : float or None
        Estimate of the squared MMD; it can be below 0 (``"mmd"``).
    low, high : float or None
        Ends of an approximate interval for the MMD of the populations (``"mmd"``, of groups).
    noise_standard_error : float or None
        Standard deviation of the noise in the statistic (``"mmd"``), or in each of the differences (``"moments"``).
    sizes : tuple of float or None
        Rows of each group that were compared; noisy where that is private, None where it was not measured.
    missing, missing_standard_error : float or None
        Rows, or pairs, left out because a value is missing, and the noise in their number; None where nothing was
        left out by the policy, or it was not measured.
    columns, by, groups, method, variant, confidence, lengthscales
        What was asked; by two views, `groups` are the data sets. Lengthscales are in sixths of the bounds' widths.
    locations : tuple of tuples
        Where ``"moments"`` looks: rows of the columns, or frequencies.
    differences, standard_errors : tuple of float
        Witness function there, the mean feature of the first group minus that of the second, and its standard
        errors from sampling and noise together (``"moments"``).
    notes : tuple of str
        What to know before trusting the numbers.
    released : tuple
        What ``"mmd"`` follows from: noisy separation, its scale, noisy spread, its scales, public sizes, rows of
        each group where these are public, and c of each kernel.
    """

    rejected: bool
    alpha: float
    method: Method
    columns: tuple[str, ...]
    by: str
    groups: tuple[Any, Any]
    lengthscales: tuple[float, ...]
    sizes: tuple[float, float] | None
    pvalue: float | None = None
    statistic: float | None = None
    mmd2: float | None = None
    variant: str | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95
    noise_standard_error: float | None = None
    missing: float | None = None
    missing_standard_error: float | None = None
    locations: tuple[tuple[Any, ...], ...] = ()
    differences: tuple[float, ...] = ()
    standard_errors: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    released: tuple[Any, ...] = ()

    reject = renamed("rejected")
    bandwidths = renamed("lengthscales")

    _shown = (
        *("rejected", "alpha", "pvalue", "statistic", "mmd2", "low", "high", "noise_standard_error"),
        *("sizes", "missing", "missing_standard_error", "differences", "notes"),
    )

    @property
    def noise_standard_errors(self) -> tuple[float, ...]:
        """The noise in each difference; it is one number today, `noise_standard_error`."""
        warnings.warn(
            "KernelTest.noise_standard_errors is one number, noise_standard_error, now; the old name goes with the "
            "next release.",
            FutureWarning,
            stacklevel=2,
        )
        return (self.noise_standard_error or 0.0,) * len(self.differences)

    def _rows(self) -> list[tuple[str, str]]:
        told = clearly_some(self.missing, self.missing_standard_error)
        return [row for row in super()._rows() if told or not row[0].startswith("missing")]

    def _sentence(self) -> str:
        """Say whether the samples differ, and how far they are apart."""
        differ, be = ("differs", "is") if len(self.columns) == 1 else ("differ", "are")
        found = differ if self.rejected else f"{be} not shown to differ"
        where = f"{self._noun(self.by)} = " if self.by else ""
        what = f"{self._noun(*self.columns)} {found} between {where}{self.groups[0]} and {self.groups[1]}"
        if self.low is not None and self.high is not None and self.mmd2 is not None:
            mmd = number(math.sqrt(max(self.mmd2, 0.0)), (self.high - self.low) / 4)
            how = sure(self.low, self.high, self.confidence, p=self.pvalue)
            return f"{what}: their maximum mean discrepancy is {mmd}{how}."
        told = sure(p=self.pvalue) or f" (at the level {self.alpha:g})"
        return f"{what}{told}."

    def _tidy(self) -> list[dict[str, Any]]:
        """State the MMD and its test, and where the samples differ, if that was looked at."""
        mmd = None if self.mmd2 is None else math.sqrt(max(self.mmd2, 0.0))
        noise = self.noise_standard_error  # in the MMD, or in each difference
        numbers = {
            "estimate": mmd,
            "standard_error": None,
            "noise_standard_error": None if self.differences else noise,
        }
        ends = {"low": self.low, "high": self.high, "statistic": self.statistic, "pvalue": self.pvalue}
        n = None if self.sizes is None else sum(self.sizes)
        term = f"MMD of {', '.join(self.columns)}: {self.groups[0]} and {self.groups[1]}"
        tested = {"term": term, **numbers, **ends, "rejected": self.rejected, "n": n}
        if not self.differences:
            return [tested]
        terms = [f"witness at location {at}" for at in range(len(self.differences))]
        errors = {"standard_error": self.standard_errors, "noise_standard_error": noise}
        return [tested, {"term": terms, "estimate": self.differences, **errors}]

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
            If there is none: it needs two groups, and one kernel.
        """
        if self.low is None:
            raise ArgumentError("This test has no interval.", 'Use method="mmd" of groups, and one lengthscale.')
        level = as_probability(
            self.confidence if confidence_level is None else confidence_level, "confidence_level"
        )
        if of not in {"populations", "samples"}:
            raise ArgumentError(f"of={of!r} is unknown.", 'Use "populations" or "samples".')
        separation, scale, spread, scales, *public = self.released
        measured = Measured(separation, scale, np.array(spread), np.array(scales), *public)
        ends = measured.sample_interval(level) if of == "samples" else measured.interval(level)
        return ConfidenceInterval(*ends)

    def plot(self, ax: Any = None) -> Any:
        """Draw where two samples differ, the witness function at the locations, with its noise; else the MMD."""
        if not self.differences:
            return self._drawn(axes(ax, height=2.6))
        ax = axes(ax)
        line = len(self.columns) == 1 and len(self.locations) == len(self.differences)
        at: Any = [location[0] for location in self.locations] if line else np.arange(len(self.differences))
        reach = float(ndtri((1 + self.confidence) / 2))
        for errors, color, width, label in (
            (np.array(self.standard_errors), "tab:orange", 3, f"{self.confidence:.0%}, noise included"),
            (np.full(len(at), self.noise_standard_error), "tab:blue", 7, "of it from noise"),
        ):
            ax.errorbar(at, self.differences, yerr=reach * errors, fmt="none", color=color, lw=width, label=label)
        ax.plot(at, self.differences, "o", color=ink(ax), label="witness")
        ax.axhline(0, color="grey", ls=":")
        if not line:
            ax.set_xticks(at)
        ax.set_xlabel(self._called(*self.columns) if line else f"location among {self._called(*self.columns)}")
        ax.set_ylabel(f"{self.groups[0]} minus {self.groups[1]}")
        below(ax, ncols=3)
        return ax

    def _drawn(self, ax: Any) -> Any:
        """Draw the MMD, its interval and the part of it that privacy adds, as far as the method has them."""
        if self.low is not None and self.high is not None:
            label = f"{self.confidence:.0%} interval, noise included"
            ax.plot([self.low, self.high], [0, 0], color="tab:orange", lw=3, label=label)
        if self.statistic is not None and self.method == "mmd":
            noise = self.noise_standard_error or 0.0
            reach = float(ndtri((1 + self.confidence) / 2)) * noise
            ends = [max(self.statistic - reach, 0.0), self.statistic + reach]
            ax.plot(ends, [0, 0], color="tab:blue", lw=7, solid_capstyle="butt", label="of it from noise")
            ax.plot(self.statistic, 0, "o", color=ink(ax), label="released")
            what = "maximum mean discrepancy"
        else:  # a decision, with a p-value at most
            if self.pvalue is not None:
                ax.plot(self.pvalue, 0, "o", color=ink(ax), label="p-value")
            ax.axvline(self.alpha, color="grey", ls=":", label="level")
            ax.set_xlim(-0.02, 1.02)
            what = "p-value"
        about = self._called(*self.columns)
        decided = f"alike {'is' if self.rejected else 'is not'} rejected"
        title = decided if self.pvalue is None else f"p = {self.pvalue:.3g}"
        title = f"{self.groups[0]} and {self.groups[1]}, {title}"
        ax.set(yticks=[], xlabel=wrapped(f"{what} of {about}"), title=title)
        below(ax, ncols=3)
        return ax
