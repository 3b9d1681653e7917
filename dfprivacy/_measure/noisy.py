"""From noisy whole numbers on a grid to what a mechanism receives."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._privacy.calibrate import SUM_MAX
from dfprivacy._privacy.samplers import HIDDEN
from dfprivacy._table.keys import ordered
from dfprivacy.errors import PluginWarning
from dfprivacy.features import RowFeatures
from dfprivacy.features.base import integers
from dfprivacy.release import DiscoveredKeys, NoisyValue, SurveyedColumn
from dfprivacy.schema.values import released as plain
from dfprivacy.statistics import Statistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy._measure.query import Query
    from dfprivacy._table.keys import Key
    from dfprivacy.features.base import Integers
    from dfprivacy.release import MeasurementRecord

__all__ = ["clamped", "discovered", "measurement", "moved", "placed", "released", "shown", "surveyed"]


def shown(steps: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Return noisy sums in the units of what was summed, nan where they are hidden."""
    values = np.ldexp(steps.astype(np.float64), -k)
    values[steps == HIDDEN] = math.nan
    return values


def released(query: Query, record: MeasurementRecord, steps: NDArray[np.int64], identity: str) -> NoisyValue:
    """Return the values of a measurement in their units."""
    edge = SUM_MAX - 20 * math.ldexp(record.scale, record.grid)
    if isinstance(query.of, Statistic) and max(abs(steps), default=0) > edge:
        _warn_of_the_edge(query.of, math.ldexp(SUM_MAX, -record.grid))
    return measurement(query, shown(steps, record.grid), record, identity)


def clamped(values: Integers) -> NDArray[np.int64]:
    """Keep values where 64 bits leave room for the noise. Clamping moves no two values further apart."""
    try:
        fit = np.array(values, dtype=np.int64)
    except OverflowError:
        fit = np.array([max(-SUM_MAX, min(SUM_MAX, value)) for value in integers(values)], dtype=np.int64)
    return np.clip(fit, -SUM_MAX, SUM_MAX)


def moved(values: Integers) -> NDArray[np.int64]:
    """Move values to where 64 bits hold them, if they lie beyond, all by the same: a choice depends on differences.

    With M the largest, max(value, M - 2^62) moves no further than the values do from one table to another.
    """
    if isinstance(values, np.ndarray) and -SUM_MAX <= values.min(initial=0) <= values.max(initial=0) <= SUM_MAX:
        return values
    every = integers(values)
    most = max(every) if max(map(abs, every), default=0) > SUM_MAX else 0
    return clamped([value - most for value in every])


def _warn_of_the_edge(statistic: Statistic, edge: float) -> None:
    warnings.warn(
        f"{statistic.describe()} may lie beyond ±{edge:.4g}, where its released value is cut off: that is 2^32 "
        "of its sensitivities from 0. Subtract a public number near it in value().",
        PluginWarning,
        stacklevel=2,
    )


def discovered(
    counts: dict[Key, int],
    threshold: int,
    noise: MeasurementRecord | None,
    *,
    single: bool,
    domain: int | None = None,
) -> DiscoveredKeys:
    """Put keys in the order of their noisy counts, which is the only order that tells nothing else."""
    ranked = sorted(ordered(counts).items(), key=lambda item: -item[1])
    return DiscoveredKeys(
        keys=tuple(plain(key[0] if single else key) for key, _ in ranked),
        counts=np.array([count for _, count in ranked], dtype=np.int64),
        threshold=threshold,
        scale=noise.scale if noise else 0.0,
        noise=noise,
        domain=domain,
    )


def surveyed(
    counts: dict[Key, int], columns: int, threshold: int, noise: MeasurementRecord
) -> tuple[SurveyedColumn, ...]:
    """Split by column, and sort values by their noisy counts."""
    rows = {key: math.ldexp(steps, -noise.grid) for key, steps in ordered(counts).items()}

    def of(place: int, kind: str) -> dict[Any, float]:
        return {plain(key[2]): count for key, count in rows.items() if key[:2] == (place, kind)}

    return tuple(
        SurveyedColumn(
            numbers=of(place, "number"),
            dates=of(place, "date"),
            text=of(place, "text").get(0, 0.0),
            nothing=of(place, "nothing").get(0, 0.0),
            values=dict(sorted(of(place, "value").items(), key=lambda item: -item[1])),
            threshold=threshold,
            scale=noise.scale,
        )
        for place in range(columns)
    )


def measurement(
    query: Query, values: NDArray[np.float64], noise: MeasurementRecord | None, identity: str = ""
) -> NoisyValue:
    weights = np.asarray(query.of.weights, dtype=np.float64)
    weights = weights if weights.shape == query.shape else np.broadcast_to(weights, query.shape)
    scale = noise.scale if noise else 0.0
    noisy = NoisyValue(values.reshape(query.shape) / weights, scale / weights, noise, id=identity)
    return _taken_apart(noisy, query.of) if isinstance(query.of, RowFeatures) else noisy


def _taken_apart(noisy: NoisyValue, features: RowFeatures) -> NoisyValue:
    """Split a measurement into its parts, if it is of a stack, or of one by category."""
    if not (stacked := features.stacked):
        return noisy
    parts, end = [], 0
    for place, part in enumerate(stacked):
        start, end = end, end + part.dimension
        shape = (*noisy.values.shape[:-1], *part.shape)
        values, scales = (each[..., start:end].reshape(shape) for each in (noisy.values, noisy.scales))
        name = noisy.id and _id_of_part(noisy, place, start, end)
        parts.append(_taken_apart(NoisyValue(values, scales, noisy.noise, id=name), part))
    return replace(noisy, parts=tuple(parts))


def _id_of_part(noisy: NoisyValue, part: int, start: int, end: int) -> str:
    """Return the id of a part, some columns of the values: in a part the places are counted within it."""
    whole, _, written = noisy.id.partition("@")
    if not written:
        return f"{whole}.{part}"
    places = np.array(written.split(","), dtype=np.intp).reshape(noisy.values.shape)[..., start:end]
    row, column = np.divmod(places, noisy.values.shape[-1])
    return placed(f"{whole}.{part}", (row * (end - start) + column - start).ravel())


def placed(identity: str, places: NDArray[np.intp]) -> str:
    """Return the id of some values of a measurement: after an @ are their places, if they are not the first."""
    if np.array_equal(places, np.arange(places.size)):
        return identity
    return f"{identity}@{','.join(map(str, places.tolist()))}"
