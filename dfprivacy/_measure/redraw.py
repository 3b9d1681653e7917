"""Measurements again, with other draws of their noise: for how far an answer may be off.

A first half is run on what was recorded, and then again and again on that less fresh noise of the law that it was
released with. All of this is a function of released numbers and of public facts: no row is read but for sums over
public columns, once, and nothing is charged. docs/explanation/measurements.md says what follows from it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dfprivacy._measure.curator import Curator
from dfprivacy._measure.description import canonical_order, describe
from dfprivacy._measure.noisy import Drawn, combined
from dfprivacy._measure.query import Query
from dfprivacy._privacy.samplers import HIDDEN
from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dfprivacy._measure.description import Origins
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.features import RowFeatures
    from dfprivacy.release import MeasurementRecord, NoisyValue, Reveal
    from dfprivacy.statistics import Statistic

__all__ = ["Recorded", "Recorder", "Recordings", "Redrawer", "Tape", "World", "noise_of"]

_EXACT = 64  # up to this scale in steps the law of discrete Gaussian noise is summed up, not rounded


@dataclass(frozen=True)
class Recorded:
    """One recorded measurement: its noisy values in canonical order, and the law of the noise in them.

    Attributes
    ----------
    key : tuple
        What tells it from every other measurement: the account, and its number in the ledger.
    noise : {"laplace", "gaussian", "cube"}
        The kind of noise.
    scale : float
        Its scale in steps of the grid.
    record : MeasurementRecord
        The same in words.
    steps : ndarray of int64 of shape (d,)
        The noisy values.
    """

    key: tuple[str, int]
    noise: str
    scale: float
    record: MeasurementRecord
    steps: NDArray[np.int64]

    @cached_property
    def seed(self) -> int:
        """What all draws of its noise begin with."""
        digest = hashlib.sha256(repr(self.key).encode() + self.steps.tobytes()).digest()
        return int.from_bytes(digest[:16], "big")


class Recordings(Protocol):
    """Where recorded measurements of one call are found, in the order in which they were made."""

    @property
    def origins(self) -> Origins:
        """Distribution and version of each package with plugins."""
        ...

    def next(self, description: str, noise: str) -> Recorded:
        """Find the next one, or raise an `ArgumentError`."""
        ...


class World:
    """One draw of the noise of all measurements: each is drawn once, whichever answers stand on it.

    Parameters
    ----------
    number : int or None
        Which draw; None for the noise as it was.
    """

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.kept: dict[Any, Any] = {}

    def steps(self, recorded: Recorded) -> NDArray[np.int64]:
        """Give the noisy values with this draw of the noise in them: those recorded, less fresh noise."""
        if self.number is None:
            return recorded.steps
        if recorded.key not in self.kept:
            rng = np.random.default_rng([self.number, recorded.seed])
            drawn = recorded.steps - noise_of(recorded.noise, recorded.steps.size, recorded.scale, rng)
            self.kept[recorded.key] = np.where(recorded.steps == HIDDEN, HIDDEN, drawn)
        values: NDArray[np.int64] = self.kept[recorded.key]
        return values


def noise_of(kind: str, dimension: int, scale: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw noise of a recorded law, in steps, for people who look on: it protects nobody.

    Parameters
    ----------
    kind : {"laplace", "gaussian", "cube"}
        The law: probabilities proportional to exp(-abs(x) / scale), to exp(-x^2 / (2 scale^2)), or to
        exp(-max abs(x_i) / scale); see `dfprivacy._privacy.cube`.
    dimension : int
        Number of coordinates d.
    scale : float
        Its scale.
    rng : Generator
        What draws.

    Returns
    -------
    ndarray of int64 of shape (d,)
        The noise.
    """
    if kind == "gaussian":
        if scale > _EXACT:  # rounded normal noise differs by less than float64 can tell
            return np.rint(rng.normal(0, scale, dimension)).astype(np.int64)
        reach = np.arange(-10 * _EXACT, 10 * _EXACT + 1)
        weights = np.exp(-0.5 * np.square(reach / scale))
        return rng.choice(reach, dimension, p=weights / weights.sum())
    p = -np.expm1(-1 / scale)
    if kind == "laplace":
        return rng.geometric(p, dimension) - rng.geometric(p, dimension)
    i = np.arange(1, dimension + 1)
    while True:
        r = int((rng.geometric(p, dimension + 1) - 1).sum())
        if rng.random() < np.exp(np.log((2 * r + 1) / (2 * r + 2.0 * i)).sum()):
            return rng.integers(-r, r, dimension, endpoint=True)


@dataclass(frozen=True)
class Slot:
    """One measurement of a first half: what was asked, and what was found."""

    query: Query
    text: str
    recorded: Recorded | None
    exact: NoisyValue | None
    order: NDArray[np.intp] | None


@dataclass
class Tape:
    """What a first half asked of its curator, in order, and what it settled on."""

    slots: list[Slot] = field(default_factory=list)
    settled: list[Any] = field(default_factory=list)


@dataclass
class Recorder(Curator):
    """A curator that answers with what was recorded, and notes what was asked."""

    recordings: Recordings = field(kw_only=True)
    tape: Tape = field(default_factory=Tape, init=False)

    def settled(self, choice: Any) -> Any:
        """Note what was chosen from measurements."""
        self.tape.settled.append(choice)
        return choice

    def jointly(self, *planned: tuple[RowFeatures, object]) -> list[Callable[[RowFeatures], NoisyValue]]:
        """Refuse what is not kept, unless it is exact."""
        if not all(self._table.agreed(features.columns) for features, _ in planned):
            raise _not_redrawn("It measured sums jointly, and those are not kept in the ledger")
        return super().jointly(*planned)

    def _noisy(
        self,
        measurand: RowFeatures | Statistic,
        noise: str,
        share: object,
        then: str,
        *,
        pool: bool,
        whole_units: bool = False,
        reveal: Reveal | None = None,
    ) -> NoisyValue:
        query = Query.read(measurand).revealing(reveal)
        if self._table.agreed(query.looks_at):
            exact = super()._noisy(measurand, noise, share, then, pool=pool, whole_units=whole_units)
            self.tape.slots.append(Slot(query, "", None, exact, None))
            return exact
        if pool:
            raise _not_redrawn("It is the mean of several measurements")
        text = describe(query, self._table, self.recordings.origins)
        if text is None:
            raise _not_redrawn(f"{query.of.describe()} cannot be written down, so it is not kept in the ledger")
        slot = Slot(query, text, self.recordings.next(text, noise), None, canonical_order(query.of))
        self.tape.slots.append(slot)
        return played(slot, query, World(None))

    def _perform(
        self,
        record: MeasurementRecord,
        losses: Sequence[PrivacyLoss],  # noqa: ARG002 - nothing is paid
        draw: Callable[[], Any],  # noqa: ARG002 - or drawn
        blank: Any,  # noqa: ARG002
    ) -> Any:
        raise _not_redrawn(f"It made a choice, {record.what}: the noise of a choice cannot be drawn again")


@dataclass
class Redrawer(Curator):
    """A curator that answers with what was recorded, less fresh noise."""

    tape: Tape = field(kw_only=True)
    world: World = field(kw_only=True)
    origins: Origins | None = field(default=None, kw_only=True)
    _slot: int = field(default=0, init=False)
    _choice: int = field(default=0, init=False)

    def settled(self, choice: Any) -> Any:  # noqa: ARG002 - it was made once
        """Give what was chosen when it was measured."""
        self._choice += 1
        return self.tape.settled[self._choice - 1]

    def _noisy(
        self,
        measurand: RowFeatures | Statistic,
        noise: str,
        share: object,  # noqa: ARG002 - it was paid
        then: str,  # noqa: ARG002
        *,
        pool: bool,  # noqa: ARG002
        whole_units: bool = False,  # noqa: ARG002 - what was recorded says on which grid it is
        reveal: Reveal | None = None,
    ) -> NoisyValue:
        slot = self.tape.slots[self._slot] if self._slot < len(self.tape.slots) else None
        self._slot += 1
        query = Query.read(measurand).revealing(reveal)
        if slot is None or not self._same(slot, query, noise):
            raise _not_redrawn(
                "What it measures follows from what it measured before, and it does not say what it settled on"
            )
        return slot.exact if slot.exact is not None else played(slot, query, self.world)

    def _same(self, slot: Slot, query: Query, noise: str) -> bool:
        """Whether the same is asked as was recorded; to the letter if it is to be described."""
        if type(query.of) is not type(slot.query.of) or query.shape != slot.query.shape:
            return False
        if slot.recorded is None:
            return self._table.agreed(query.looks_at)
        same = slot.recorded.noise == noise
        return same and (self.origins is None or describe(query, self._table, self.origins) == slot.text)

    def _perform(
        self,
        record: MeasurementRecord,
        losses: Sequence[PrivacyLoss],  # noqa: ARG002 - nothing is paid
        draw: Callable[[], Any],  # noqa: ARG002 - or drawn
        blank: Any,  # noqa: ARG002
    ) -> Any:
        raise _not_redrawn(f"It made a choice, {record.what}: the noise of a choice cannot be drawn again")


def played(slot: Slot, query: Query, world: World) -> NoisyValue:
    """Give a mechanism what it asked for, with a draw of the noise."""
    recorded = slot.recorded
    if recorded is None:
        raise TypeError
    steps = world.steps(recorded)
    if steps.size != query.dimension:
        raise ArgumentError("A measurement in the ledger is damaged.", "Ask with fresh=True.")
    if slot.order is not None:
        own = np.empty_like(steps)
        own[slot.order] = steps
        steps = own
    return combined([Drawn(replace(recorded.record, epsilon=0.0, delta=0.0), steps)], query)


def _not_redrawn(why: str) -> ArgumentError:
    return ArgumentError(
        f"The noise in this answer cannot be drawn again. {why}.",
        "Combine answers that follow from noisy sums: means, counts, tests of means, regressions. Another one is "
        "made more accurate by asking it anew, with fresh=True and a larger epsilon.",
    )
