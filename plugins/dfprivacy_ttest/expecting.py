"""What a t-test could find out, said before anything is paid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import Column, Curator
from dfprivacy.inference.engine import Alternative, infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.inference.planning import rows_for
from dfprivacy_ttest.mechanisms import moments
from dfprivacy_ttest.parameters import parameter
from dfprivacy_ttest.planning import detectable, power_with
from dfprivacy_ttest.separately import Queries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["findings"]

_NOISY = 2.0  # times the error of sampling
_LOOSE = 1.0  # from this many on ranks find more
_TABLES = 256


def findings(
    curator: Curator,
    column: Column,
    *,
    by: Column | None = None,
    popmean: float = 0.0,
    sigma: float | None = None,
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
    queries: Queries = "jointly",
    **_: Any,
) -> Mapping[str, Any]:
    """Say what the test could find out, from public numbers only; for ``explain``."""
    if not curator.measured:  # of public columns, with no noise
        return {}
    two = by is not None
    sums = moments(curator.planned, column, queries)
    sizes = None if sums.rows is None else [int(rows) for rows in sums.rows]
    sd = column.half / 2 if sigma is None else sigma
    given = f"with probability 0.8, if the standard deviation is {sd:.3g}"
    test: dict[str, Any] = {
        "sd": sd,
        "sigma": sigma,
        "mean": None if two else popmean,
        "alternative": alternative,
        "alpha": alpha,
        "tables": _TABLES,
    }
    if sizes is not None:
        effect = detectable(sums, sizes, 0.8, **test)
        return {f"smallest effect found {given}": effect, **_about_noise(sums, sizes, sd)}
    effect = column.half / 10
    sign = -1.0 if alternative == "less" else 1.0
    each = " in each group" if two else ""
    rows = rows_for(0.8, lambda n: power_with(sums, [n, n] if two else [n], sign * effect, **test))
    size, given_rows = curator.supposed_size
    alike = [max(size // 2, 2)] * 2 if two else [max(size, 2)]  # the best that groups of private sizes can be
    return {
        f"an effect of {effect:.3g} is found {given}": f"from {rows:,} rows{each}",
        **_about_noise(sums, alike, sd, given_rows and f" if {given_rows}"),
    }


def _about_noise(sums: NoisyMoments, sizes: Sequence[int], sd: float, given: str = "") -> dict[str, Any]:
    """Say how much of the error the noise will be, and what would help where it is most of it."""
    expected = sums.simulated(sizes, [sums.mid] * len(sizes), [sd] * len(sizes), _TABLES)
    noise = float(np.median(infer(expected, parameter(len(sizes)), _TABLES).noise_standard_error))
    times = noise / (sd * math.sqrt(sum(1 / n for n in sizes)))
    findings: dict[str, Any] = {f"expected standard error from noise{given}": noise}
    if times > _NOISY:
        findings[f"privacy noise will be {times:.2g} times the sampling error{given}"] = (
            f"to make them equal: {times:.2g} times the epsilon, bounds {times:.2g} times as narrow if the data "
            f"fit, or {times**2:.2g} times the rows"
        )
    if times > _LOOSE:
        ranks = "wilcoxon" if len(sizes) == 1 else "mannwhitneyu"
        findings["the bounds are wide for this spread"] = f"{ranks}() compares ranks, which bounds do not affect"
    return {**findings, "expected relative error": noise / sd}
