"""What a t-test could find out, said before anything is paid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dfprivacy import Column, Curator, NanPolicy
from dfprivacy.schema import chosen_groups
from dfprivacy_ttest.calibrated import Alternative
from dfprivacy_ttest.mechanisms import public_sizes
from dfprivacy_ttest.planning import minimum_detectable_effect, sample_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["findings"]

_NOISY = 2.0  # times the error of sampling
_LOOSE = 1.0  # from this many on ranks find more


def findings(
    curator: Curator,
    column: Column,
    *,
    by: Column | None = None,
    groups: Sequence[Any] | None = None,
    popmean: float = 0.0,
    sigma: float | None = None,
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
    nan_policy: NanPolicy = "omit",
    **_: Any,
) -> Mapping[str, Any]:
    """Say what the test could find out, from public numbers only; for ``explain``."""
    if not curator.measured:  # of public columns, with no noise
        return {}
    scale = max(measured.scale for measured in curator.measured)  # of several queries, that of the sum of y
    sizes = public_sizes(curator, by, None if by is None else chosen_groups(by, groups))
    sd = column.half / 2 if sigma is None else sigma
    given = f"with probability 0.8, if the standard deviation is {sd:.3g}"
    known: dict[str, Any] = {
        "sd": sd,
        "bounds": (column.low, column.high),
        "mean": None if by is not None else popmean,
        "alternative": alternative,
        "alpha": alpha,
        "nan_policy": nan_policy,
    }
    if sizes is not None:  # plan for the noise that there is: at the sensitivity 2 of public sizes
        first, *rest = (int(size) for size in sizes)
        known |= {"epsilon": 2 / scale, "fixed_groups": True, "n2": rest[0] if rest else None}
        findings = {f"smallest effect found {given}": minimum_detectable_effect(first, **known)}
        return findings | _about_noise(scale * column.half, sd, sizes.tolist())
    effect = column.half / 10
    known |= {"epsilon": 1.5 / scale, "neighbors": "add_remove", "ratio": None if by is None else 1.0}
    rows = sample_size(0.8, effect=-effect if alternative == "less" else effect, **known)
    each = "" if by is None else " in each group"
    planned = {f"an effect of {effect:.3g} is found {given}": f"from {rows:,} rows{each}"}
    if curator.size is None:
        return planned
    alike = [curator.size] if by is None else [curator.size / 2] * 2  # the best that groups of private sizes can be
    return {**planned, **_about_noise(scale * column.half, sd, alike)}


def _about_noise(scale: float, sd: float, sizes: Sequence[float]) -> dict[str, str]:
    """Say what would help where the noise, of this scale in each sum, will be most of the error."""
    noise = math.sqrt(sum(2 * (scale / n) ** 2 for n in sizes))
    times = noise / (sd * math.sqrt(sum(1 / n for n in sizes)))
    findings = {}
    if times > _NOISY:
        findings[f"the noise will be {times:.2g} times the error of sampling"] = (
            f"{times:.2g} times the epsilon, bounds {times:.2g} times as narrow if the data fit, or {times**2:.2g} "
            "times the rows would make the two alike"
        )
    if times > _LOOSE:
        ranks = "wilcoxon" if len(sizes) == 1 else "mannwhitneyu"
        findings["the bounds are loose for this spread"] = f"{ranks}() asks ranks, which bounds do not move"
    return findings
