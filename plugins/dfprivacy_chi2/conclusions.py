"""What follows from a measurement, by method: pure functions of noisy values and public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy_chi2.arguments import TAU
from dfprivacy_chi2.results import Chi2
from dfprivacy_chi2.table import merged

if TYPE_CHECKING:
    from dfprivacy import Column
    from dfprivacy.release import NoisyValue

__all__ = ["Measured", "of_a_number", "of_a_signed_difference", "of_counts"]

_DEVIATION = math.sqrt(2)  # of a Laplace variable of scale 1


@dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes
    ----------
    method : str
        How.
    values : tuple of NoisyValue
        What the method releases.
    groups : tuple
        The groups compared.
    sizes : tuple of int
        Rows in each, all rows, or nothing: what is public of it.
    fill : bool
        Whether missing X count as X = 0.
    rows : int or None
        Rows in all, where that is public.
    """

    method: Any
    values: tuple[NoisyValue, ...]
    groups: tuple[Any, ...]
    sizes: tuple[int, ...]
    fill: bool = True
    rows: int | None = None


def of_a_number(
    measured: Measured, x: Column, by: Column, *, rate: Any, alpha: float, confidence: float = 0.95, **known: Any
) -> Chi2:
    """Judge one noisy number."""
    released, scale = (float(part.ravel()[0]) for part in (measured.values[0].values, measured.values[0].scales))
    if measured.method in {"difference", "signed"}:
        released, scale = released / min(measured.sizes), scale / min(measured.sizes)
    if measured.method == "distance":
        known["tau"] = known.get("tau", TAU)
    return Chi2(
        **_about(measured, x, by),
        **known,
        released=(released,),
        noise_standard_error=(_DEVIATION * scale,),
        rate=rate,
        alpha=alpha,
        confidence=confidence,
        omitted=not measured.fill and measured.method in {"difference", "signed", "unit_circle"},
    ).judged()


def of_a_signed_difference(measured: Measured, x: Column, by: Column, *, alpha: float, confidence: float) -> Chi2:
    """Judge a signed difference of shares by what a noisy number of X = 1 says of them."""
    difference, margins = measured.values
    apart, apart_scale = (float(part[0]) / min(measured.sizes) for part in (difference.values, difference.scales))
    half, *halves_missing = (float(value) for value in margins.values)
    scale = float(margins.scales[0])
    missing = () if measured.fill else tuple(2 * each for each in halves_missing)
    return Chi2(
        **_about(measured, x, by),
        released=(apart, half, *missing),
        noise_standard_error=tuple(
            _DEVIATION * each for each in (apart_scale, scale, *(2 * scale for _ in missing))
        ),
        alpha=alpha,
        confidence=confidence,
        missing=sum(missing) if missing else None,
        missing_standard_error=_DEVIATION * _DEVIATION * 2 * scale if missing else None,
    ).of_difference()


def of_counts(measured: Measured, x: Column, by: Column, *, alpha: float, confidence: float) -> Chi2:
    """Judge a table of noisy counts."""
    counts = measured.values[0].values.T
    deviation = measured.values[0].law.standard_deviation
    missing = None if measured.rows is None else measured.rows - float(counts.sum())
    if measured.sizes:
        missing = sum(measured.sizes) - float(counts.sum())
    table, rows, columns = merged(counts, np.full(counts.shape, deviation), groups=not measured.sizes)
    return Chi2(
        **_about(measured, x, by),
        released=tuple(float(count) for count in counts.T.ravel()),
        noise_standard_error=(deviation,) * counts.size,
        alpha=alpha,
        confidence=confidence,
        missing=missing,
        missing_standard_error=None if missing is None else deviation * math.sqrt(counts.size),
    ).of_table(table, rows, columns)


def _about(measured: Measured, x: Column, by: Column) -> dict[str, Any]:
    return {
        "method": measured.method,
        "x": x.name,
        "by": by.name,
        "categories": tuple(x.categories or ()),
        "groups": tuple(measured.groups),
        "sizes": tuple(measured.sizes),
    }
