"""Checks of what an author does not show: cases that are left out, and how far a statistic moves with its sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._measure.evaluate import Table
from dfprivacy.statistics import OfSums
from dfprivacy.testing.cases import few, shapes, tables
from dfprivacy.testing.discipline import Audit, Failed, Skipped
from dfprivacy.testing.exact import Loss, measured, worst
from dfprivacy.testing.harness import Harness, public_part, with_first
from dfprivacy.testing.search import statistics_of, worst_table
from dfprivacy.testing.variants import variants_among

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dfprivacy.testing.cases import Case, Row

__all__ = ["holds_in_other_cases", "moves_with_its_sums"]

_STEPS = 8  # changes of a table, in each variant
_REPEATS = 30  # of a mechanism with chance of its own, which comes out the same now and then
_CLOSE = 1e-6  # relative; finer differences are those of floating-point arithmetic


@dataclass(frozen=True)
class Seen:
    """What became of a variant: the largest loss or None, if it was answered, and how its conclusions differ."""

    loss: Loss | None
    answered: bool
    differs: str = ""


def holds_in_other_cases(audit: Audit) -> str:
    """Catch too little noise in cases that the author left out: another relation, public columns, parts, bounds, prices."""
    audit.answered()
    refused, failed, used = [], [], []
    for name, tried in variants_among(audit.mechanism, audit.others or [audit.case], audit.case):
        seen = next(filter(None, map(partial(_seen, audit), tried)), None)
        if seen is None:
            refused.append(name)
            continue
        if seen.differs:
            raise Failed(f"with {name}, {seen.differs}")
        if seen.loss and seen.loss.exceeds:
            loss = seen.loss
            raise Failed(
                f"with {name}, two neighbouring tables ({loss.table}: {loss.pair[0]} against {loss.pair[1]}) are "
                f"told apart by epsilon {loss.epsilon:.6g}, and {loss.charge:.6g} was charged"
            )
        used.append(seen.loss.tightness if seen.loss else 0.0)
        failed += [] if seen.answered else [name]
    words = [f"{len(used)} variants hold", f"at most {max(used, default=0.0):.4f} of the charge used"]
    words += [f"refused: {', '.join(refused)}"] if refused else []
    words += [f"paid without an answer: {', '.join(failed)}"] if failed else []
    return "; ".join(words)


def _seen(audit: Audit, case: Case) -> Seen | None:
    """Measure a variant on tables of every shape, and compare two conclusions; None if it is refused."""
    stage = Harness(audit.mechanism, case)
    rows = tables(case)["mixed"]
    base, statistics = statistics_of(stage, rows)
    if base.refused:
        return None
    answered = base.release is not None
    if not base.replayable:
        return Seen(None, answered)
    ours = [row for row in few(case, rows) if public_part(case, row) == public_part(case, rows[0])]
    for row in (ours[0], ours[-1]):
        neighbor = with_first(rows, row)
        other = stage.trace(neighbor, transcript=base.given)
        if other.outcome != base.outcome and all(
            stage.trace(table, transcript=base.given).outcome == first.outcome
            for _ in range(_REPEATS)
            for table, first in ((neighbor, other), (rows, base))
        ):
            return Seen(
                None,
                answered,
                f"it concludes differently from the same noisy sums on neighbouring tables: with {row}",
            )
    if not base.draws:
        return Seen(None, answered)
    made = {"mixed": rows, **shapes(case)}
    families = [measured(stage, name, made[name], until=len(base.draws)) for name in made]
    measurable = [family for family in families if family]
    if not measurable:
        return Seen(None, answered)
    losses = [worst(measurable, climbed=1, halvings=3)]
    if statistics:
        losses.append(worst_table(measurable, _STEPS, started=2))
    return Seen(max(losses, key=lambda loss: (loss.exceeds, loss.epsilon)), answered)


def moves_with_its_sums(audit: Audit) -> str:
    """Catch a statistic that rounded sums move further than it says.

    Evaluate statistics at sums that are moved a little, as rounding moves them.
    """
    audit.answered()
    _, statistics = statistics_of(audit.stage, audit.rows)
    claimed = [one for one in statistics if isinstance(one, OfSums) and one.features.unit is None]
    if not claimed:
        raise Skipped("it asks for no statistic of sums that are rounded")
    steepest = 0.0
    for statistic in claimed:
        limit = float(statistic.lipschitz)
        for name, sums in _sums(audit, statistic):
            for moved, far in _moved(sums, statistic.features):
                change = float(np.abs(_value(statistic, moved) - _value(statistic, sums)).max())
                noise = _CLOSE * far * limit + 1e-12 * float(np.abs(_value(statistic, sums)).max())
                if change > limit * far + noise:
                    raise Failed(
                        f"{statistic.describe()} moves by {change:.4g} where its sums move by {far:.4g} in L1 "
                        f"({name}); lipschitz is {limit:g}"
                    )
                steepest = max(steepest, change / far / limit if limit else 0.0)
    return f"values of {len(claimed)} statistics move by at most {steepest:.4f} of what they say"


def _value(statistic: OfSums, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        value = np.array(statistic.value(sums.copy()), dtype=np.float64).reshape(statistic.dimension)
    return np.where(np.isfinite(value), value, 0.0)


def _sums(audit: Audit, statistic: OfSums) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Give the exact sums on tables of every shape."""
    case, features = audit.case, statistic.features
    plain: dict[str, list[Row]] = {**tables(case), **shapes(case)}
    for name, rows in plain.items():
        sums: Any = 0.0
        for frame in audit.stage.frames(rows):
            schema = audit.stage.schema(frame)
            batch = Table(frame, schema).gathered(features.columns)
            sums = sums + np.asarray(features.rows(batch), dtype=float).reshape(batch.size, -1).sum(axis=0)
        yield name, np.reshape(sums, features.shape) / np.broadcast_to(features.weights, features.shape)


def _moved(sums: NDArray[np.float64], features: Any) -> Iterator[tuple[NDArray[np.float64], float]]:
    """Move sums a little, one or all of them, and say how far that is in L1, weights included."""
    rng = np.random.default_rng(6)
    weights = np.broadcast_to(features.weights, features.shape)
    for size in (1e-8, 1e-6, 1e-3):
        step = size * max(float(features.radius(2)), 1e-300)
        for at in range(min(sums.size, 16)):
            for sign in (-step, step):
                one = np.zeros(sums.size)
                one[at] = sign
                yield sums + one.reshape(sums.shape) / weights, step
        for _ in range(4):
            every = step * rng.choice([-1.0, 1.0], size=sums.shape)
            yield sums + every / weights, step * sums.size
