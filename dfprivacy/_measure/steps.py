"""Joint processing of a call's groups: results are looked up, charged, computed and noised for all together.

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

from dfprivacy._measure.kept_measurements import NoisyResult
from dfprivacy._measure.price import RowRequest
from dfprivacy._measure.query import Query
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noises
from dfprivacy._privacy.calibrate import SUM_MAX
from dfprivacy._privacy.filters import exact
from dfprivacy._privacy.losses import Approximate, Cube, Gaussian, Pure
from dfprivacy.errors import ArgumentError, PluginError
from dfprivacy.expressions import parts_of
from dfprivacy.features import Moments, OneHot, Outer, RowFeatures
from dfprivacy.features.base import integers
from dfprivacy.features.composed import PerGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy._measure.evaluate import Table
    from dfprivacy._measure.kept_measurements import ResultCache
    from dfprivacy._measure.price import Price
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.features.base import Integers
    from dfprivacy.release import MeasurementRecord, Reveal
    from dfprivacy.schema import Column
    from dfprivacy.statistics import Statistic

__all__ = ["CallBudget", "CallState", "GroupRunner", "clamp_for_noise", "steps_to_units"]

T = TypeVar("T")
_WHOLE, _NOTHING = Fraction(1), Fraction(0)
_TOGETHER = 1 << 22  # sums of one pass, so that many groups of many coordinates fit the memory


class CallBudget(Protocol):
    """Interface of a call's budget: its epsilon and delta, and a method that charges losses."""

    epsilon: Fraction
    delta: Fraction

    @property
    def basic_composition(self) -> bool:
        """Whether the account adds up the epsilons of its charges (basic composition)."""
        ...

    def pay(self, losses: Sequence[PrivacyLoss], reserve: Sequence[PrivacyLoss]) -> None:
        """Charge losses, durably and all at once, or raise an error; `reserve` must fit into what is left."""
        ...


class GroupRunner:
    """Runs the groups of one call side by side, and answers their requests together.

    Parameters
    ----------
    budget : CallBudget
        The budget of the call.
    kept : ResultCache, optional
        The measurements that the ledger keeps.
    whole : Table, optional
        The table that the groups divide; default: there is one group.
    dry : bool
        Whether nothing private is read, and nothing paid: for plans.
    """

    def __init__(
        self, budget: CallBudget, kept: ResultCache | None = None, whole: Table | None = None, *, dry: bool = False
    ) -> None:
        self._budget, self._kept, self._whole, self._dry = budget, kept, whole, dry
        self._running: list[greenlet] = []
        self._shared_values: dict[Hashable, Any] = {}
        self.saved_epsilon = Fraction(0)
        """Epsilon that need not be paid, as the ledger keeps some of the measurements."""

    def run(self, groups: Sequence[Callable[[], T]]) -> list[T]:
        """Run one function for each group to its end; measurements that several groups request are made together.

        Parameters
        ----------
        groups : sequence of callable
            A function without arguments for each group.

        Returns
        -------
        list
            The result of each function.
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
                    answers = self._answer_requests([told[at] for at in asking])
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

    def answer_request(self, asked: RowRequest) -> Any:
        """Answer the request of one group: at once, or together with the requests of other groups."""
        here = getcurrent()
        if here in self._running and here.parent is not None:
            return here.parent.switch(asked)
        return self._answer_requests([asked])[0]

    def compute_once(self, query: Query, about: Hashable, compute: Callable[[], T]) -> T:
        """Compute a public value of a query once for all groups of the call, when the first group needs it."""
        if self._whole is None:
            return compute()
        of = query.key, about
        if of not in self._shared_values:
            self._shared_values[of] = compute()
        return cast("T", self._shared_values[of])

    def copied_query(self, measurand: RowFeatures | Statistic, reveal: Reveal | None = None) -> Query:
        """Return the query of a copy of features or a statistic; only this copy reads rows."""
        query = Query.read(measurand, reveal)
        return self.compute_once(query, ("read", reveal), query.copy)

    def _answer_requests(self, asked: Sequence[RowRequest]) -> list[Any]:
        """Answer the requests of all groups: look up kept results, charge the others, read rows, draw noise."""
        if len({each.table.place for each in asked}) < len(asked):  # what is paid once is of disjoint rows
            raise PluginError("Two groups of a call used the same curator.", "Let each group use its own curator.")
        if self._kept is not None:
            self._kept.answer_from_kept(asked, dry=self._dry)
        left = []
        for each in asked:
            if each.result is not None:
                self.saved_epsilon += sum((loss.epsilon for loss in each.losses), Fraction(0))
            elif self._dry and (each.losses or each.paid or each.price is not None):
                each.result = each.blank
            else:
                left.append(each)
        if not self._dry:
            self._charge_losses(left)
        values = self._exact_values(left)
        priced = [(each.price, value) for each, value in zip(left, values, strict=True) if each.price is not None]
        noisy = _add_noise(priced)
        for each, value in zip(left, values, strict=True):
            if each.price is None:
                each.result = each.answer() if value is None else each.answer(value)
            elif self._kept is None:
                each.result = NoisyResult(next(noisy), each.price.record, "")
            else:
                each.result = self._kept.add_measurement(each, each.price, next(noisy))
        return [each.result for each in asked]

    def _charge_losses(self, asked: Sequence[RowRequest]) -> None:
        """Charge the losses of all groups; equal losses of several groups, which are disjoint, are charged once."""
        losses: list[PrivacyLoss] = []
        for of_groups in zip_longest(*(each.losses for each in asked)):
            losses += {_price_key(loss): loss for loss in of_groups if loss is not None}.values()
        if losses:
            self._budget.pay(losses, next(each.reserve for each in asked if each.losses))

    def _exact_values(self, asked: Sequence[RowRequest]) -> list[Integers | None]:
        """Compute the exact values of requests: sums of all groups in one pass, other statistics group by group."""
        summed = [None if each.query is None else each.query.features_to_sum(each.k) for each in asked]
        several = [(each.table, *what) for each, what in zip(asked, summed, strict=True) if what is not None]
        totals = iter(self._exact_sums(several))
        values: list[Integers | None] = []
        for each, what in zip(asked, summed, strict=True):
            total = None if what is None else next(totals)
            values.append(None if each.query is None else each.table.value(each.query, each.k, total=total))
        return values

    def _exact_sums(self, several: Sequence[tuple[Table, RowFeatures, int]]) -> list[Integers]:
        whole = self._whole
        if whole is None or len(several) < 2 or sum(of.n_sums for _, of, _ in several) > _TOGETHER:  # noqa: PLR2004
            return [table.exact_sums(of, k) for table, of, k in several]
        by = several[0][0].by
        _, first, k = several[0]
        if all(of is first and each == k for _, of, each in several):
            product: RowFeatures = OneHot(*by, of=first)
            every, width = whole.exact_sums(product, k), first.dimension
            return [every[table.place * width : (table.place + 1) * width] for table, _, _ in several]
        apart = PerGroup(by, {table.place: (of, k) for table, of, k in several})
        every, sums, start = whole.exact_sums(apart, 0), {}, 0
        for place, (of, _) in apart.parts.items():
            sums[place] = every[start : start + of.dimension]
            start += of.dimension
        return [sums[table.place] for table, _, _ in several]


def _add_noise(asked: Sequence[tuple[Price, Integers | None]]) -> Iterator[NDArray[np.int64]]:
    """Add noise to exact values, in one call of the sampler for all values with the same law of noise."""
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for at, (price, _) in enumerate(asked):
        own = at if price.noise == "cube" else None  # all coordinates of which are one draw
        alike[price.noise, price.scale, price.query.dimension, price.query.reveal, own].append(at)
    noisy: dict[int, NDArray[np.int64]] = {}
    for places in alike.values():
        price, sampler = asked[places[0]][0], noises.sampler()
        sums = np.stack([clamp_for_noise(cast("Integers", asked[at][1])) for at in places])
        if price.query.reveal is not None:
            drawn = sampler.revealed(sums, price.scale, _reveal_rule(price))
        else:
            drawn = getattr(sampler, price.noise)(sums.ravel(), price.scale).reshape(sums.shape)
        noisy |= dict(zip(places, drawn, strict=True))
    return iter([noisy[at] for at in range(len(asked))])


def _reveal_rule(price: Price) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
    """Return a function that chooses the noisy sums to reveal, given the sums that are revealed already."""
    query = price.query
    weights = np.broadcast_to(np.asarray(query.of.weights, dtype=np.float64), query.shape).ravel()
    reveal = query.reveal

    def choose_sums(steps: NDArray[np.int64]) -> NDArray[np.bool_]:
        if reveal is None:
            raise TypeError
        chosen = np.asarray(
            reveal.next(steps_to_units(steps, price.grid.k) / weights, price.record.scale / weights)
        )
        if chosen.shape != steps.shape or chosen.dtype != np.bool_:
            raise PluginError(
                f"{type(reveal).__name__}.next() must return True or False for each sum: whether it is shown.",
                "Return an array of bool of the shape of its first argument.",
            )
        return chosen

    return choose_sums


def clamp_for_noise(values: Integers) -> NDArray[np.int64]:
    """Clip values so that 64 bits leave room for the noise. Clipping moves no two values further apart."""
    try:
        fit = np.array(values, dtype=np.int64)
    except OverflowError:
        fit = np.array([max(-SUM_MAX, min(SUM_MAX, value)) for value in integers(values)], dtype=np.int64)
    return np.clip(fit, -SUM_MAX, SUM_MAX)


def steps_to_units(steps: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Convert noisy sums from grid steps to the units of the features; hidden sums become NaN."""
    values = np.ldexp(steps.astype(np.float64), -k)
    values[steps == noises.HIDDEN] = np.nan
    return values


def _price_key(loss: PrivacyLoss) -> Hashable:
    """Return a key that is equal for losses of equal price, such as the epsilon of K-norm noise."""
    return (loss.kind, loss.epsilon) if isinstance(loss, Cube) else loss


@dataclass
class CallState:
    """State of a curator in a call: the measurements made so far, and the share of the budget that is left."""

    _dry: ClassVar[bool] = False  # whether nothing private is read, and nothing paid
    _table: Table
    _budget: CallBudget
    _kept: ResultCache | None = None
    _steps: GroupRunner | None = None  # default: those of this table alone
    measured: list[MeasurementRecord] = field(default_factory=list, init=False)
    looked: bool = field(default=False, init=False)
    numbers: set[Column] = field(default_factory=set, init=False)
    scaled: bool = field(default=False, init=False)
    _left: Fraction = field(default=_WHOLE, init=False)
    _gaussian_only: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._runner = self._steps or GroupRunner(self._budget, self._kept, dry=self._dry)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("A curator belongs to one call, and is never copied.")

    def close(self) -> None:
        """End the call: any later measurement raises an error."""
        self._left = _NOTHING

    @property
    def epsilon(self) -> float:
        """Epsilon of the whole call."""
        return float(self._budget.epsilon)

    @property
    def delta(self) -> float:
        """Delta of the whole call."""
        return float(self._budget.delta)

    @property
    def neighbors(self) -> Literal["replace_one", "add_remove"]:
        """Neighbouring relation of the table."""
        return self._table.schema.neighbors

    def _require_single_rows(self, what: str) -> None:
        """Raise an error if a person may have several rows, for a measurement proved private for one row."""
        unit = self._table.schema.unit
        if unit is not None:
            raise ArgumentError(
                f"{what}. Its privacy is proved for one row, not for up to {unit.max_rows} rows of one "
                f"{unit.column!r}.",
                f"Ask a table with one row for each {unit.column!r}: view.per({unit.column!r}).agg(...).",
            )

    def _read_query(self, measurand: RowFeatures | Statistic, reveal: Reveal | None = None) -> Query:
        """Return the query of what is measured; record its bounded columns, and whether bounds scale the noise."""
        query = self._runner.copied_query(measurand, reveal)
        declared = self._table.schema.columns
        for part in query.simple_parts:
            known = (each for column in part.columns for each in parts_of(column, declared))
            self.numbers |= {column for column in known if column.bounds is not None}
            self.scaled |= isinstance(part, Moments | Outer)
        return query

    def _pay_and_draw(
        self,
        record: MeasurementRecord,
        losses: Sequence[PrivacyLoss],
        draw: Callable[..., T],
        blank: T,
        query: Query | None = None,
        k: int = 0,
    ) -> T:
        """Pay the losses, then read the rows and draw the result."""
        job = RowRequest(
            table=self._table,
            losses=losses,
            reserve=self._losses_to_reserve(losses[-1]) if losses else (),
            query=query,
            k=k,
            answer=draw,
            blank=blank,
            paid=not losses,
        )
        answer: T = self._runner.answer_request(job)
        self.measured.append(record)
        return answer

    def _take_share(self, share: object, *, gaussian: bool = False) -> tuple[Fraction, Fraction]:
        """Take a share of the call's epsilon and delta, or all that is left of them, and return both."""
        everything = share is None and self._left is _WHOLE  # arithmetic of fractions takes longer than the rest
        part = self._left if share is None else exact(share)
        if not (everything or 0 < part <= self._left):
            raise PluginError(
                f"A measurement asked for share={part} of its call's epsilon, of which {self._left} is left.",
                "The shares of a call's measurements must be positive and add up to at most 1.",
            )
        if self._gaussian_only and not gaussian:
            raise PluginError(
                "After a measurement with then='gaussian', the call made one with other noise.",
                "Leave out then='gaussian'.",
            )
        if everything:
            self._left = _NOTHING
            return self._budget.epsilon, self._budget.delta
        self._left -= part
        return self._budget.epsilon * part, self._budget.delta * part

    def _losses_to_reserve(self, loss: PrivacyLoss) -> list[PrivacyLoss]:
        """Return the largest losses that the call can have after this one; see docs/explanation/accounting.md."""
        if not self._left:
            return []
        epsilon, delta = self._budget.epsilon * self._left, self._budget.delta * self._left
        if self._gaussian_only and isinstance(loss, Gaussian):
            with suppress(ArgumentError):  # its grid is too coarse for so small a delta
                scale = calibrate.gaussian_scale(loss.squared_sensitivity, loss.dimension, epsilon, delta)
                return [Gaussian(loss.squared_sensitivity, scale, loss.dimension, epsilon, delta)]
        return [Approximate(epsilon, delta) if delta else Pure(epsilon)]
