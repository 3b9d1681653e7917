"""The budget of a call, and the one order of a measurement: charge the account, then read rows and draw."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from dfprivacy._measure.steps import Asked, Steps
from dfprivacy._privacy import calibrate
from dfprivacy._privacy.filters import exact
from dfprivacy._privacy.losses import Approximate, Gaussian, Pure
from dfprivacy.errors import ArgumentError, PluginError
from dfprivacy.features import Moments, Outer, RowFeatures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy._measure.evaluate import Table
    from dfprivacy._measure.kept import Kept
    from dfprivacy._measure.query import Query
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.release import MeasurementRecord, Reveal
    from dfprivacy.schema import Column
    from dfprivacy.statistics import Statistic

__all__ = ["CallBudget", "Paying"]

T = TypeVar("T")
_ALL, _NOTHING = Fraction(1), Fraction(0)


class CallBudget(Protocol):
    """The budget of one call."""

    epsilon: Fraction
    delta: Fraction

    @property
    def basic_composition(self) -> bool:
        """Whether epsilons simply add up on the account."""
        ...

    def pay(self, losses: Sequence[PrivacyLoss], reserve: Sequence[PrivacyLoss]) -> None:
        """Charge losses, durably and all at once, or raise; `reserve` must fit afterwards too."""
        ...


@dataclass
class Paying:
    """The state of a call, and the rest of its price."""

    _dry: ClassVar[bool] = False  # whether nothing private is read, and nothing paid
    _table: Table
    _budget: CallBudget
    _kept: Kept | None = None
    _steps: Steps | None = None  # default: those of this table alone
    measured: list[MeasurementRecord] = field(default_factory=list, init=False)
    looked: bool = field(default=False, init=False)
    numbers: set[Column] = field(default_factory=set, init=False)
    scaled: bool = field(default=False, init=False)
    _left: Fraction = field(default=_ALL, init=False)
    _gaussian_only: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._in_step = self._steps or Steps(self._budget, self._kept, dry=self._dry)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("A curator is of one call, and is never copied.")

    def close(self) -> None:
        """Refuse any further measurement: the call has its answer."""
        self._left = _NOTHING

    @property
    def epsilon(self) -> float:
        """The epsilon of the whole call."""
        return float(self._budget.epsilon)

    @property
    def delta(self) -> float:
        """The delta of the whole call."""
        return float(self._budget.delta)

    @property
    def neighbors(self) -> Literal["replace_one", "add_remove"]:
        """The neighbouring relation."""
        return self._table.schema.neighbors

    def _refuse_several(self, what: str) -> None:
        """Refuse what is proved for one row of a table where a person may have several."""
        unit = self._table.schema.unit
        if unit is not None:
            raise ArgumentError(
                f"{what}, and the privacy of that is proved for one row, not for up to {unit.max_rows} rows of one "
                f"{unit.column!r}.",
                f"Ask a table with one row each: view.per({unit.column!r}).agg(...).",
            )

    def _read(self, measurand: RowFeatures | Statistic, reveal: Reveal | None = None) -> Query:
        """Record the columns whose numbers are measured, and whether the noise is scaled to their bounds."""
        query = self._in_step.read(measurand, reveal)
        self.numbers |= query.numbers
        self.scaled |= any(isinstance(each, Moments | Outer) for each in query.parts)
        return query

    def _perform(
        self,
        record: MeasurementRecord,
        losses: Sequence[PrivacyLoss],
        draw: Callable[..., T],
        blank: T,
        reads: tuple[Query, int] | None = None,
    ) -> T:
        """Pay, and only then read and draw."""
        reserve = self._reserve(losses[-1]) if losses else ()
        asked = Asked(table=self._table, losses=losses, reserve=reserve, reads=reads, answer=draw, blank=blank)
        answer: T = self._in_step.ask(asked)
        self.measured.append(record)
        return answer

    def _share(self, share: object, *, gaussian: bool = False) -> tuple[Fraction, Fraction]:
        """Take a part of the call's epsilon and delta."""
        everything = share is None and self._left is _ALL  # arithmetic of fractions takes longer than the rest
        part = self._left if share is None else exact(share)
        if not (everything or 0 < part <= self._left):
            raise PluginError(
                f"A measurement asked for the share {part} of its call, of which {self._left} is left.",
                "The shares of a call's measurements must be positive and add up to at most 1.",
            )
        if self._gaussian_only and not gaussian:
            raise PluginError(
                "After then='gaussian' a call measured with other noise, for which nothing is reserved.",
                "Leave out then=.",
            )
        if everything:
            self._left = _NOTHING
            return self._budget.epsilon, self._budget.delta
        self._left -= part
        return self._budget.epsilon * part, self._budget.delta * part

    def _reserve(self, loss: PrivacyLoss) -> list[PrivacyLoss]:
        """Return what the call may lose after a loss, at its worst; docs/explanation/accounting.md proves it."""
        if not self._left:
            return []
        epsilon, delta = self._budget.epsilon * self._left, self._budget.delta * self._left
        if self._gaussian_only and isinstance(loss, Gaussian):
            with suppress(ArgumentError):  # its grid is too coarse for so small a delta
                scale = calibrate.gaussian_scale(loss.squared_sensitivity, loss.dimension, epsilon, delta)
                return [Gaussian(loss.squared_sensitivity, scale, loss.dimension, epsilon, delta)]
        return [Approximate(epsilon, delta) if delta else Pure(epsilon)]
