"""The budget of a call, and its steps: what its groups ask at once is looked up, paid, read and drawn together.

Each group of a call runs until it asks something of the rows. Then all that the groups ask is one step: one look at
the ledger, one charge, one pass of the rows, one draw of noise. A table alone is one group. What the groups measure
in one step is of disjoint rows, and the sensitivity is that of all of it together (`Table.sensitivity`), so equal
losses of several groups are paid once.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar, cast

import numpy as np
from greenlet import getcurrent, greenlet

from dfprivacy._measure.kept import Taken
from dfprivacy._measure.query import Query
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noises
from dfprivacy._privacy.calibrate import SUM_MAX
from dfprivacy._privacy.filters import exact
from dfprivacy._privacy.losses import Approximate, Cube, Gaussian, Pure
from dfprivacy.errors import ArgumentError, PluginError
from dfprivacy.features import Moments, OneHot, Outer, RowFeatures
from dfprivacy.features.base import integers
from dfprivacy.features.composed import PerGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy._measure.evaluate import Table
    from dfprivacy._measure.kept import Kept
    from dfprivacy._measure.query import Price
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.features.base import Integers
    from dfprivacy.release import MeasurementRecord, Reveal
    from dfprivacy.schema import Column
    from dfprivacy.statistics import Statistic

__all__ = ["Asked", "CallBudget", "Paying", "Steps", "clamped", "shown"]

T = TypeVar("T")
_ALL, _NOTHING = Fraction(1), Fraction(0)
_TOGETHER = 1 << 22  # sums of one pass, so that many groups of many coordinates fit the memory


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


@dataclass(eq=False, kw_only=True)
class Asked:
    """A request of a curator to its rows.

    Attributes
    ----------
    table : Table
        The rows.
    losses, reserve : sequence of PrivacyLoss
        What it costs, and what must fit into the budget afterwards.
    query : Query, optional
        What is read of them.
    k : int
        Its exact value is in steps of 2 to the minus k.
    price : Price, optional
        The noise that a value gets; then the answer is a `Taken`.
    answer : callable
        What the curator gets where there is none: of the exact value if there is one.
    blank : object
        What a plan gets in place of that.
    text : str, optional
        The description under which a measurement is kept.
    told : object
        The answer.
    """

    table: Table
    losses: Sequence[PrivacyLoss] = ()
    reserve: Sequence[PrivacyLoss] = ()
    query: Query | None = None
    k: int = 0
    price: Price | None = None
    answer: Callable[..., Any] = lambda value: value
    blank: Any = None
    text: str | None = None
    told: Any = None


class Steps:
    """The requests of the groups of one call, step by step.

    Parameters
    ----------
    budget : CallBudget
        The budget of the call.
    kept : Kept, optional
        What the ledger keeps.
    whole : Table, optional
        The table of which the groups are; default: there is one group.
    dry : bool
        Whether nothing private is read, and nothing paid: for plans.
    """

    def __init__(
        self,
        budget: CallBudget,
        kept: Kept | None = None,
        whole: Table | None = None,
        *,
        dry: bool = False,
    ) -> None:
        self._budget, self._kept, self._whole, self._dry = budget, kept, whole, dry
        self._running: list[greenlet] = []
        self._worked_out: dict[Hashable, Any] = {}
        self.spared = Fraction(0)
        """The epsilon of what the ledger keeps, and need not be paid."""

    def run(self, groups: Sequence[Callable[[], T]]) -> list[T]:
        """Run the groups, each until it asks something, and answer what they ask at once.

        Parameters
        ----------
        groups : sequence of callable
            What each group does.

        Returns
        -------
        list
            What each returns.
        """
        if len(groups) == 1:
            return [groups[0]()]
        self._running = [greenlet(group) for group in groups]
        for each in self._running:
            each.gr_context = copy_context()
        try:
            told: list[Any] = [each.switch() for each in self._running]
            while asking := [at for at, each in enumerate(self._running) if not each.dead]:
                try:
                    answers = self._answers([told[at] for at in asking])
                except BaseException as error:
                    self._running[asking[0]].throw(error)
                    raise
                for at, answer in zip(asking, answers, strict=True):
                    told[at] = self._running[at].switch(answer)
        finally:
            for each in self._running:
                if not each.dead:
                    each.throw()
        return told

    def ask(self, asked: Asked) -> Any:
        """Answer what one group asks: at once, or with what the others ask."""
        here = getcurrent()
        if here in self._running and here.parent is not None:
            return here.parent.switch(asked)
        return self._answers([asked])[0]

    def once(self, about: Hashable, work_out: Callable[[], T]) -> T:
        """Work out what is public and the same for all groups of the call, when the first one needs it."""
        if self._whole is None:
            return work_out()
        if about not in self._worked_out:
            self._worked_out[about] = work_out()
        return cast("T", self._worked_out[about])

    def read(self, measurand: RowFeatures | Statistic, reveal: Reveal | None = None) -> Query:
        """Ask what is to be measured what it looks at; what is priced is a copy, and that is what sees rows."""
        query = Query.read(measurand, reveal)
        return self.once(("read", query.key, reveal), query.copy)

    def _answers(self, asked: Sequence[Asked]) -> list[Any]:
        """Look up, pay, read and draw; the order of these is what privacy rests on."""
        if len({each.table.place for each in asked}) < len(asked):  # what is paid once is of disjoint rows
            raise PluginError("Two groups asked the same curator.", "Let each group ask its own.")
        if self._kept is not None:
            self._kept.recall(asked, dry=self._dry)
        left = []
        for each in asked:
            if each.told is not None:
                self.spared += sum((loss.epsilon for loss in each.losses), Fraction(0))
            elif self._dry and (each.losses or each.price is not None):
                each.told = each.blank
            else:
                left.append(each)
        if not self._dry:
            self._pay(left)
        values = self._exact(left)
        priced = [(each.price, value) for each, value in zip(left, values, strict=True) if each.price is not None]
        noisy = _with_noise(priced)
        for each, value in zip(left, values, strict=True):
            if each.price is None:
                each.told = each.answer() if value is None else each.answer(value)
            elif self._kept is None:
                each.told = Taken(next(noisy), each.price.record, "")
            else:
                each.told = self._kept.leave(each, each.price, next(noisy))
        return [each.told for each in asked]

    def _pay(self, asked: Sequence[Asked]) -> None:
        """Charge each loss that any group has in a place among its own, once."""
        losses: list[PrivacyLoss] = []
        for of_groups in zip_longest(*(each.losses for each in asked)):
            losses += {_priced(loss): loss for loss in of_groups if loss is not None}.values()
        if losses:
            self._budget.pay(losses, next(each.reserve for each in asked if each.losses))

    def _exact(self, asked: Sequence[Asked]) -> list[Integers | None]:
        """Read exact values: what groups sum in one pass, anything else of each by itself."""
        summed = [None if each.query is None else each.query.summed(each.k) for each in asked]
        several = [(each.table, *what) for each, what in zip(asked, summed, strict=True) if what is not None]
        totals = iter(self._totals(several))
        values: list[Integers | None] = []
        for each, what in zip(asked, summed, strict=True):
            total = None if what is None else next(totals)
            values.append(None if each.query is None else each.table.value(each.query, each.k, total=total))
        return values

    def _totals(self, several: Sequence[tuple[Table, RowFeatures, int]]) -> list[Integers]:
        whole = self._whole
        if whole is None or len(several) < 2 or sum(of.n_sums for _, of, _ in several) > _TOGETHER:  # noqa: PLR2004
            return [table.summed(of, k) for table, of, k in several]
        by = several[0][0].by
        _, first, k = several[0]
        if all(of is first and each == k for _, of, each in several):
            product: RowFeatures = OneHot(*by, of=first)
            every, width = whole.summed(product, k), first.dimension
            return [every[table.place * width : (table.place + 1) * width] for table, _, _ in several]
        apart = PerGroup(by, {table.place: (of, k) for table, of, k in several})
        every, sums, start = whole.summed(apart, 0), {}, 0
        for place, (of, _) in apart.parts.items():
            sums[place] = every[start : start + of.dimension]
            start += of.dimension
        return [sums[table.place] for table, _, _ in several]


def _with_noise(asked: Sequence[tuple[Price, Integers | None]]) -> Iterator[NDArray[np.int64]]:
    """Add noise: what has the same law in one draw, for a call of the sampler takes longer than a number does."""
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for at, (price, _) in enumerate(asked):
        own = at if price.noise == "cube" else None  # all coordinates of which are one draw
        alike[price.noise, price.scale, price.query.dimension, price.query.reveal, own].append(at)
    noisy: dict[int, NDArray[np.int64]] = {}
    for places in alike.values():
        price, sampler = asked[places[0]][0], noises.sampler()
        sums = np.stack([clamped(cast("Integers", asked[at][1])) for at in places])
        if price.query.reveal is not None:
            drawn = sampler.revealed(sums, price.scale, _chooser(price))
        else:
            drawn = getattr(sampler, price.noise)(sums.ravel(), price.scale).reshape(sums.shape)
        noisy |= dict(zip(places, drawn, strict=True))
    return iter([noisy[at] for at in range(len(asked))])


def _chooser(price: Price) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
    """Return the rule that chooses among noisy sums in steps, of which it sees those that are shown."""
    query = price.query
    weights = np.broadcast_to(np.asarray(query.of.weights, dtype=np.float64), query.shape).ravel()
    reveal = query.reveal

    def choose(steps: NDArray[np.int64]) -> NDArray[np.bool_]:
        if reveal is None:
            raise TypeError
        chosen = np.asarray(reveal.next(shown(steps, price.grid.k) / weights, price.record.scale / weights))
        if chosen.shape != steps.shape or chosen.dtype != np.bool_:
            raise PluginError(
                f"{type(reveal).__name__}.next() must say of each number whether it is shown.",
                "Return an array of bool of the shape of its first argument.",
            )
        return chosen

    return choose


def clamped(values: Integers) -> NDArray[np.int64]:
    """Keep values where 64 bits leave room for the noise. Clamping moves no two values further apart."""
    try:
        fit = np.array(values, dtype=np.int64)
    except OverflowError:
        fit = np.array([max(-SUM_MAX, min(SUM_MAX, value)) for value in integers(values)], dtype=np.int64)
    return np.clip(fit, -SUM_MAX, SUM_MAX)


def shown(steps: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Return noisy sums in the units of what was summed, nan where they are hidden."""
    values = np.ldexp(steps.astype(np.float64), -k)
    values[steps == noises.HIDDEN] = np.nan
    return values


def _priced(loss: PrivacyLoss) -> Hashable:
    """Return a key that losses of equal price share: for noise of the cube the epsilon, whatever its grid."""
    return (loss.kind, loss.epsilon) if isinstance(loss, Cube) else loss


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
        for part in query.parts:
            self.numbers |= {column for column in part.columns if column.bounds is not None}
            self.scaled |= isinstance(part, Moments | Outer)
        return query

    def _perform(
        self,
        record: MeasurementRecord,
        losses: Sequence[PrivacyLoss],
        draw: Callable[..., T],
        blank: T,
        query: Query | None = None,
        k: int = 0,
    ) -> T:
        """Pay, and only then read and draw."""
        reserve = self._reserve(losses[-1]) if losses else ()
        asked = Asked(table=self._table, losses=losses, reserve=reserve, query=query, k=k, answer=draw, blank=blank)
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
