"""Results of kernel two-sample tests, computed from noisy values and public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, ConfidenceInterval, Release
from dfprivacy.plotting import axes, forest, legend_below, text_color, wrap_label
from dfprivacy.schema import as_probability
from dfprivacy.wording import noise_share, number, uncertainty
from dfprivacy_kernel.law import MMDMeasurement
from dfprivacy_kernel.moments import FEW, Contrast, Party, contrast_test, parties_test
from dfprivacy_kernel.printed import paper_test

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy_kernel.design import Design, Groups, Method, Variant

__all__ = ["Comparison", "Decision", "Evidence", "KernelTest", "conclude_test"]


@dataclass(frozen=True)
class Comparison:
    """Public facts about a kernel test: its groups, method, features and options.

    Attributes
    ----------
    method : str
        How it is done.
    design : Design
        What is compared.
    groups : Groups
        Which rows.
    alpha : float
        Level of the decision.
    variant : {"tcmc", "nte"}, optional
        Of the moments test.
    locations : tuple of tuples
        Where the moments test looks.
    """

    method: Method
    design: Design
    groups: Groups
    alpha: float
    variant: Variant | None = None
    locations: tuple[tuple[Any, ...], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """Decision of a permutation test, and its p-value, None if only the decision was requested."""

    rejected: bool
    pvalue: float | None


Evidence: TypeAlias = MMDMeasurement | Decision | Contrast | tuple[Party, ...]
"""A measurement of one of the tests; a single party holds pairs."""


def conclude_test(comparison: Comparison, evidence: Evidence, confidence: float) -> KernelTest:
    """Compute the result of a kernel test from its measurement."""
    design, groups = comparison.design, comparison.groups
    if isinstance(evidence, MMDMeasurement):
        result = _mmd_fields(groups, comparison.alpha, evidence, confidence)
    elif isinstance(evidence, Decision):
        notes = () if evidence.pvalue is not None else ("Only the decision was requested: there is no p-value.",)
        result = {"rejected": evidence.rejected, "pvalue": evidence.pvalue, "notes": notes}
    else:
        result = _moments_fields(comparison, evidence)
    about = {
        "method": comparison.method,
        "columns": tuple(column.name for column in design.columns),
        "by": groups.columns[0].name,
        "groups": groups.pair,
        "lengthscales": design.lengthscales,
        "alpha": comparison.alpha,
        "confidence": confidence,
        "sizes": None if groups.sizes is None else tuple(map(float, groups.sizes)),
    }
    return KernelTest(**{**about, **result, "notes": (*comparison.notes, *result["notes"])})


def _mmd_fields(groups: Groups, alpha: float, measured: MMDMeasurement, confidence: float) -> dict[str, Any]:
    """Return the fields of a result of the MMD test."""
    sizes = measured.noisy_sizes
    pvalue = measured.pvalue if measured.informative else 1.0
    doubtful = pvalue < _SMALL and max(sizes) > _UNEQUAL * min(sizes)
    found = {
        "rejected": pvalue <= alpha,
        "pvalue": pvalue,
        "sizes": sizes,
        "notes": (FEW,) if not measured.informative else (_RARE_NOTE,) if doubtful else (),
        "released": (
            measured.separation,
            measured.scale,
            tuple(measured.spread.tolist()),
            tuple(measured.spread_scales.tolist()),
            measured.sizes,
            measured.rows,
        ),
        **_missing_value_fields(groups, sizes, measured.count_noise),
    }
    if measured.informative:
        found["statistic"], found["mmd2"] = measured.statistic, measured.squared_mmd
        found["noise_standard_error"] = measured.noise_sd(sizes)
    if measured.informative and not measured.paired:
        found["low"], found["high"] = measured.interval(confidence)
        found["covers"] = "limited population"
    return found


def _moments_fields(comparison: Comparison, evidence: Contrast | tuple[Party, ...]) -> dict[str, Any]:
    """Return the fields of a result of the moments test."""
    groups, variant = comparison.groups, comparison.variant
    if isinstance(evidence, Contrast):
        conclusion, sizes, count_noise = contrast_test(evidence), evidence.sizes, evidence.count_noise
    else:
        conclusion = (parties_test if variant is None else paper_test)(evidence)
        sizes = tuple(each.size for each in evidence)
        count_noise = math.hypot(*(each.count_noise for each in evidence)) / math.sqrt(len(evidence))
    if groups.rows is not None:
        sizes = tuple(min(size, float(rows)) for size, rows in zip(sizes, groups.rows, strict=False))
    return {
        **conclusion.result_fields(comparison.alpha),
        "variant": variant,
        "sizes": sizes if len(sizes) > 1 else sizes * 2,
        "locations": comparison.locations,
        **({} if variant == "tcmc" else _missing_value_fields(groups, sizes, count_noise)),
    }


def _missing_value_fields(groups: Groups, sizes: Sequence[float], count_noise: float) -> dict[str, Any]:
    """Return the result fields about rows or pairs with missing values."""
    if not groups.given or groups.rows is None:
        return {}
    told = 1 if groups.paired else len(sizes)
    return {
        "missing": sum(groups.rows[:told]) - sum(sizes[:told]),
        "missing_standard_error": math.sqrt(told) * count_noise,
    }


_UNEQUAL, _SMALL = 10.0, 0.01
_RARE_NOTE = (
    "One group has more than ten times the rows of the other: if the groups differ in a few rows with rare "
    "values, a p-value below 1% may be several times too small. method='permutation' has an exact p-value."
)


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
        ``"mmd"``: the noisy MMD. ``"moments"``: chi-squared.
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
        What ``"mmd"`` follows from: noisy separation, its scale, noisy spread, its scales, public sizes, and
        rows of each group where these are public.
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

    _row_counts = ("sizes",)
    _shown = (
        *("rejected", "alpha", "pvalue", "statistic", "mmd2", "low", "high", "noise_standard_error"),
        *("sizes", "missing", "missing_standard_error", "differences", "notes"),
    )

    def _sentence(self) -> str:
        """Write a sentence on whether the two samples differ, and on their MMD."""
        differ, be = ("differs", "is") if len(self.columns) == 1 else ("differ", "are")
        found = differ if self.rejected else f"{be} not shown to differ"
        where = f"{self._label(self.by)} = " if self.by else ""
        what = f"{self._label(*self.columns)} {found} between {where}{self.groups[0]} and {self.groups[1]}"
        if self.low is not None and self.high is not None and self.mmd2 is not None:
            mmd = number(math.sqrt(max(self.mmd2, 0.0)), (self.high - self.low) / 4)
            how = uncertainty(self.low, self.high, self.confidence, p=self.pvalue)
            zero = " The interval is conservative: it may contain 0 although the test rejects."
            more = zero * (self.rejected and self.low <= 0)
            return f"{what}: their maximum mean discrepancy is {mmd}{how}.{more}"
        told = uncertainty(p=self.pvalue) or f" (at the level {self.alpha:g})"
        return f"{what}{told}."

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the MMD, its test and any measured differences at test locations as rows of a tidy table."""
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

    def confidence_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Return a confidence interval for the MMD of the Nyström features, which is at most the kernel's MMD.

        Parameters
        ----------
        confidence_level : float, optional
            Coverage; default: the one asked for. Any other costs nothing.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``.

        Raises
        ------
        ArgumentError
            If there is none: it needs two groups.
        """
        if self.low is None:
            raise ArgumentError("This test has no confidence interval.", 'Use method="mmd" with by=.')
        level = as_probability(
            self.confidence if confidence_level is None else confidence_level, "confidence_level"
        )
        separation, scale, spread, scales, *public = self.released[:6]
        measured = MMDMeasurement(separation, scale, np.array(spread), np.array(scales), *public)
        return ConfidenceInterval(*measured.interval(level))

    def plot(self, ax: Any = None) -> Any:
        """Draw the differences at the test locations with their noise, or the MMD if there are no locations."""
        about = self._with_units(*self.columns)
        if self.differences:
            reach, noise = float(ndtri((1 + self.confidence) / 2)), self.noise_standard_error or 0.0
            ends = [
                (d, d - reach * se, d + reach * se)
                for d, se in zip(self.differences, self.standard_errors, strict=True)
            ]
            parts = [noise_share(se, math.sqrt(max(se**2 - noise**2, 0.0))) for se in self.standard_errors]
            what = f"witness of {about}: {self.groups[0]} minus {self.groups[1]}"
            return forest(self._location_labels, ends, what, ax, noise=parts, confidence=self.confidence)
        pair = f"{self.groups[0]} and {self.groups[1]}"
        if self.method == "mmd" and self.statistic is not None:
            low, high = (self.statistic if end is None else end for end in (self.low, self.high))
            what = f"maximum mean discrepancy of {about}"
            ax = forest([pair], [(self.statistic, low, high)], what, ax, confidence=self.confidence)
        else:
            ax = axes(ax)
            ax.set(yticks=[], xlabel=wrap_label(f"p-value of {about}"), xlim=(-0.02, 1.02))
            ax.axvline(self.alpha, color="grey", ls=":", label="level")
            if self.pvalue is not None:
                ax.plot(self.pvalue, 0, "o", color=text_color(ax), label="p-value")
            legend_below(ax)
        decided = f"equality {'is' if self.rejected else 'is not'} rejected"
        ax.set_title(f"{pair}, {decided if self.pvalue is None else f'p = {self.pvalue:.3g}'}")
        return ax

    @property
    def _location_labels(self) -> list[str]:
        """Labels of the differences: test locations, or indices of random frequencies."""
        if len(self.locations) != len(self.differences):
            return [str(at) for at in range(len(self.differences))]
        words = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in place] for place in self.locations]
        return [", ".join(each) for each in words]
