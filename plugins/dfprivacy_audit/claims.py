"""Check what features, statistics and labels declare about themselves, on synthetic rows."""

from __future__ import annotations

import math
import traceback
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.features import RowFeatures
from dfprivacy.features.base import UNIT_SLACK
from dfprivacy.local import RowLabels
from dfprivacy.statistics import OfPermutations, OfRows, OfSums, Statistic
from dfprivacy_audit.cases import candidate_rows
from dfprivacy_audit.harness import (
    Failed,
    captured_messages,
    components,
    copy_of,
    recorded_measurements,
    with_first_row,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy_audit.discipline import Audit

__all__ = ["features_are_what_they_say"]

_SINGLE_ROWS = 8  # rows that features are shown one by one
_TOLERANCE = 1e-6  # relative; finer differences are those of floating-point arithmetic
_MAX_MOVED = 16  # sums that are moved one by one


def features_are_what_they_say(audit: Audit) -> str:
    """Catch features or statistics that fail on some rows, or declare a wrong shape, unit or Lipschitz constant.

    The core withholds their errors, and counts zeros. A diameter that is too small shows in `loss_within_charge`.
    """
    audit.answered()
    harness, (first, *_) = audit.harness, audit.rows
    with recorded_measurements() as measurements:
        harness.trace(audit.rows, transcript=audit.first_run.given)
    things = [part for each in measurements for thing in each.things for part in components(thing)]
    public = {name: first[name] for name in audit.case.unchangeable_fields}
    odd = [
        with_first_row(audit.rows, {**row, **public}) for row in candidate_rows(audit.case, count=0)[:_SINGLE_ROWS]
    ]
    tables = [audit.rows, *(rows for _, rows, _ in audit.distant_runs), *odd]  # that agree on what is public
    for rows in tables:
        target = harness.question(harness.views(harness.frames(rows), harness.recording_accounts([]))).target
        for thing in things:
            _check_declarations(copy_of(thing), target.table.selected_batch(thing.columns))
    return f"{len(things)} features, statistics and labels match their declarations on {len(tables)} tables"


def _check_declarations(thing: Any, batch: Batch) -> None:
    """Check the declarations of a feature, a statistic or labels against their values on a batch of rows."""
    try:
        with captured_messages(), np.errstate(all="ignore"):
            seen = np.array(_row_vectors(thing, batch), dtype=float)
            shape = () if isinstance(thing, RowLabels) else tuple(thing.shape)
            seen = seen.reshape(shape if isinstance(thing, Statistic) else (batch.size, math.prod(shape)))
    except Exception:  # noqa: BLE001 - whatever it is
        what = f"{thing.describe()} fails on synthetic rows, which would count as zeros:\n{traceback.format_exc()}"
        raise Failed(what) from None
    if isinstance(thing, RowFeatures) and thing.unit is not None:
        units = np.where(np.isfinite(seen), seen, 0.0) / thing.unit
        if (np.abs(units - np.rint(units)) > UNIT_SLACK * np.abs(units)).any():
            raise Failed(
                f"{thing.describe()} declares unit = {thing.unit:g}, but a row's vector is not a multiple of it"
            )
    if isinstance(thing, OfSums) and thing.features.unit is None:
        _check_lipschitz(thing, _feature_sums(thing.features, batch))


def _row_vectors(thing: Any, batch: Batch) -> Any:
    if isinstance(thing, OfSums):
        return thing.value(_feature_sums(thing.features, batch))
    if isinstance(thing, OfPermutations):
        return thing.value(batch, np.random.default_rng(1))
    return thing.value(batch) if isinstance(thing, OfRows) else thing.rows(batch)


def _feature_sums(features: RowFeatures, batch: Batch) -> NDArray[np.float64]:
    vectors = np.asarray(features.rows(batch), dtype=float).reshape(batch.size, math.prod(features.shape))
    sums: NDArray[np.float64] = vectors.sum(axis=0).reshape(features.shape)
    sums /= np.broadcast_to(features.weights, features.shape)
    return sums


def _check_lipschitz(statistic: OfSums, sums: NDArray[np.float64]) -> None:
    """Check the Lipschitz constant of a statistic on small changes of its sums, in weighted L1 distance."""
    rng, limit = np.random.default_rng(6), float(statistic.lipschitz)
    weights = np.broadcast_to(statistic.features.weights, sums.shape)
    before = _statistic_value(statistic, sums)
    for size in (1e-8, 1e-6, 1e-3):
        step = size * max(float(statistic.features.radius(2)), 1e-300)
        one = np.eye(sums.size)[:_MAX_MOVED]
        for signs in [*one, *-one, *rng.choice([-1.0, 1.0], size=(4, sums.size))]:
            far = step * np.abs(signs).sum()
            change = np.abs(
                _statistic_value(statistic, sums + step * signs.reshape(sums.shape) / weights) - before
            ).max()
            if change > limit * far * (1 + _TOLERANCE) + 1e-12 * np.abs(before).max():
                raise Failed(
                    f"{statistic.describe()} changes by {change:.4g} if its sums change by {far:.4g} in L1 norm, "
                    f"but it declares lipschitz = {limit:g}"
                )


def _statistic_value(statistic: OfSums, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        value = np.array(statistic.value(sums.copy()), dtype=np.float64).reshape(statistic.dimension)
    return np.where(np.isfinite(value), value, 0.0)
