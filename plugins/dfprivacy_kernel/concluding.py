"""From what was measured to the result: pure functions of noisy values and public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dfprivacy.schema import UNDECLARED
from dfprivacy_kernel.chi_squared import Conclusion, conclude, conclude_apart, conclude_paired
from dfprivacy_kernel.mmd import Measured, MeasuredPairs
from dfprivacy_kernel.moments import Contrast, Party
from dfprivacy_kernel.printed import Printed, conclude_printed
from dfprivacy_kernel.results import KernelTest

if TYPE_CHECKING:
    from dfprivacy_kernel.design import Design
    from dfprivacy_kernel.groups import Groups

__all__ = ["Comparison", "Decision", "Evidence", "conclude_test"]


@dataclass(frozen=True)
class Comparison:
    """What is public about a test.

    Attributes
    ----------
    design : Design
        What is compared.
    groups : Groups
        Which rows.
    alpha : float
        Level of the decision.
    locations : tuple of tuples
        Where the moments test looks.
    """

    design: Design
    groups: Groups
    alpha: float
    locations: tuple[tuple[Any, ...], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """What a permutation test says, and its p-value where that was paid for."""

    whitened: bool
    rejected: bool
    pvalue: float | None


Evidence: TypeAlias = Measured | Decision | Contrast | Printed | tuple[Party, ...]
"""What was measured; one party is of pairs."""


def conclude_test(comparison: Comparison, evidence: Evidence, confidence: float) -> KernelTest:
    """Compare what was measured with what one distribution would give."""
    design, groups = comparison.design, comparison.groups
    about: dict[str, Any] = {
        "columns": tuple(column.name for column in design.columns),
        "by": groups.by.name,
        "groups": groups.pair,
        "lengthscales": design.lengthscales,
        "alpha": comparison.alpha,
        "confidence": confidence,
        "sizes": None if groups.sizes is None else tuple(map(float, groups.sizes)),
    }
    if isinstance(evidence, Measured):
        result = _of_mmd(comparison, evidence, confidence)
    elif isinstance(evidence, Decision):
        notes = () if evidence.pvalue is not None else ("Only the decision was paid for: there is no p-value.",)
        result = {
            "method": "whitened" if evidence.whitened else "permutation",
            "rejected": evidence.rejected,
            "pvalue": evidence.pvalue,
            "notes": notes,
        }
    else:
        result = _of_moments(comparison, evidence)
    return KernelTest(**{**about, **result, "notes": (*design.notes, *comparison.notes, *result["notes"])})


def _of_mmd(comparison: Comparison, measured: Measured, confidence: float) -> dict[str, Any]:
    """Give the fields of the one-release test."""
    one = len(measured.critical) == 1
    informative = measured.informative
    pvalue = measured.pvalue if informative else 1.0
    paired = isinstance(measured, MeasuredPairs)
    doubtful = pvalue < _SMALL and max(measured.noisy_sizes) > _UNEQUAL * min(measured.noisy_sizes)
    statistic = measured.statistic if one and informative else None
    low, high = measured.interval(confidence) if one and informative and not paired else (None, None)
    noise = math.sqrt(2) * measured.scale * sum(measured.noisy_sizes) / math.prod(measured.noisy_sizes)
    if paired:
        noise /= 2
    return {
        "method": "mmd",
        "rejected": pvalue <= comparison.alpha,
        "pvalue": pvalue,
        "statistic": statistic,
        "mmd2": measured.squared if one and informative else None,
        "low": low,
        "high": high,
        "covers": None if low is None else "limited population",
        "noise_standard_error": noise if one and informative else None,
        "sizes": measured.noisy_sizes,
        "notes": (_FEW,) if not informative else (_RARE,) if doubtful else (),
        "released": (
            measured.separation,
            measured.scale,
            tuple(measured.spread.tolist()),
            tuple(measured.spread_scales.tolist()),
            measured.sizes,
            measured.rows,
            measured.critical,
        ),
        **_missing(comparison.groups, measured.noisy_sizes, _count_noise(measured), paired=paired),
    }


def _of_moments(comparison: Comparison, evidence: Contrast | Printed | tuple[Party, ...]) -> dict[str, Any]:
    """Give the fields of the moments test."""
    if isinstance(evidence, Printed):
        return _of_printed(comparison, evidence)
    paired = False
    if isinstance(evidence, Contrast):
        conclusion, sizes, count_noise = conclude(evidence), evidence.sizes, evidence.count_noise
    elif len(evidence) == 1:
        (pairs,) = evidence
        conclusion, sizes, count_noise = conclude_paired(pairs), (pairs.size, pairs.size), pairs.count_noise
        paired = True
    else:
        first, second = evidence
        conclusion, sizes = conclude_apart(first, second), (first.size, second.size)
        count_noise = math.hypot(first.count_noise, second.count_noise) / math.sqrt(2)
    return {
        **fields_of(conclusion, comparison.alpha),
        "sizes": sizes,
        "locations": comparison.locations,
        **_missing(comparison.groups, sizes, count_noise, paired=paired),
    }


def _of_printed(comparison: Comparison, evidence: Printed) -> dict[str, Any]:
    """Give the fields of a variant as printed. TCMC does not measure how many pairs are complete."""
    fields = printed_fields_of(evidence, comparison.alpha)
    if evidence.variant == "tcmc":
        rows = comparison.groups.rows
        return {**fields, "sizes": rows and tuple(map(float, rows)), "locations": comparison.locations}
    first, second = evidence.parties
    noise = math.hypot(first.count_noise, second.count_noise) / math.sqrt(2)
    sizes = first.size, second.size
    missing = _missing(comparison.groups, sizes, noise, paired=False)
    return {**fields, "sizes": sizes, "locations": comparison.locations, **missing}


def printed_fields_of(evidence: Printed, alpha: float) -> dict[str, Any]:
    """Give what a variant says, as fields of the result."""
    fields = fields_of(conclude_printed(evidence), alpha)
    return {**fields, "variant": evidence.variant, "notes": (*fields["notes"], _PRINTED)}


def fields_of(conclusion: Conclusion, alpha: float) -> dict[str, Any]:
    """Give what a moments test says, as fields of the result."""
    return {
        "method": "moments",
        "alpha": alpha,
        "rejected": conclusion.pvalue <= alpha,
        "pvalue": conclusion.pvalue,
        "statistic": conclusion.statistic,
        "differences": tuple(conclusion.differences.tolist()),
        "standard_errors": tuple(conclusion.standard_errors.tolist()),
        "noise_standard_error": conclusion.noise,
        "notes": () if conclusion.informative else (_FEW,),
    }


def _missing(groups: Groups, sizes: tuple[float, float], count_noise: float, *, paired: bool) -> dict[str, Any]:
    """Say how many rows, or pairs, were left out."""
    if not groups.given or groups.rows is None:
        return {}
    if paired:
        return {"missing": groups.rows[0] - sizes[0], "missing_standard_error": count_noise}
    return {"missing": sum(groups.rows) - sum(sizes), "missing_standard_error": math.sqrt(2) * count_noise}


def _count_noise(measured: Measured) -> float:
    """Give the standard deviation of the noise in a number of rows."""
    if measured.sizes:
        return 0.0
    d = len(measured.spread)
    return float(measured.spread_scales[0]) * math.sqrt((d + 1) * (d + 2) / 3)


_UNEQUAL, _SMALL = 10.0, 0.01
_RARE = (
    "One group has more than ten times the rows of the other: if what differs are few rows with rare values, a "
    "p-value below 1% may be several times too small. That of method='permutation' is exact."
)
_PRINTED = (
    "The printed null law leaves out the noise in the covariance: the p-value can be too small. That of "
    "method='moments' without a variant is not."
)
_FEW = f"Complete rows are too few beside the noise in their number: this answer tells nothing. {UNDECLARED}"
