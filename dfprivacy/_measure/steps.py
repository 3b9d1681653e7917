"""The steps of a call: what its groups ask at once is looked up, paid, read and drawn together.

Each group of a call runs until it asks something of the rows. Then all that the groups ask is one step: one look at
the ledger, one charge, one pass of the rows, one draw of noise. A table alone is one group. What the groups measure
in one step is of disjoint rows, and the sensitivity is that of all of it together (`Table.sensitivity`), so equal
losses of several groups are paid once.
"""

from __future__ import annotations

from collections import defaultdict
from contextvars import copy_context
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from greenlet import getcurrent, greenlet

from dfprivacy._ledger.measurements import KeptMeasurement, Measurement
from dfprivacy._measure.description import canonical_order, describe, describe_query, larger
from dfprivacy._measure.noisy import clamped, placed, shown
from dfprivacy._measure.query import Query
from dfprivacy._privacy import samplers as noises
from dfprivacy._privacy.losses import Cube
from dfprivacy.errors import LedgerError, PluginError
from dfprivacy.features import OneHot, RowFeatures
from dfprivacy.features.composed import Apart

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._measure.evaluate import Table
    from dfprivacy._measure.kept import Kept
    from dfprivacy._measure.paying import CallBudget
    from dfprivacy._measure.pricing import Price
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.features.base import Integers
    from dfprivacy.release import MeasurementRecord, Reveal
    from dfprivacy.statistics import Statistic

    Reads = tuple[Query, int]

__all__ = ["Asked", "Part", "Steps", "Taken"]

T = TypeVar("T")
_TOGETHER = 1 << 22  # sums of one pass, so that many groups of many coordinates fit the memory


@dataclass(eq=False, kw_only=True)
class Asked:
    """A request of a curator to its rows.

    Attributes
    ----------
    table : Table
        The rows.
    losses, reserve : sequence of PrivacyLoss
        What it costs, and what must fit into the budget afterwards.
    reads : tuple of (Query, int), optional
        What is read of them, and the k of 2 to the minus k, in steps of which its exact value is.
    answer : callable
        What the curator gets: of the exact value if there is one.
    blank : object
        What a plan gets in place of that.
    price : Price, optional
        The noise that a value gets; then the answer is a `Taken`.
    """

    table: Table
    losses: Sequence[PrivacyLoss] = ()
    reserve: Sequence[PrivacyLoss] = ()
    reads: Reads | None = None
    answer: Callable[..., Any] = lambda value: value
    blank: Any = None
    price: Price | None = None


@dataclass(frozen=True)
class Part:
    """A kept measurement, or a part of one.

    Attributes
    ----------
    kept : KeptMeasurement
        What was measured.
    description : str
        Its description.
    dimension : int
        The number of its coordinates.
    places : ndarray of int
        Which of them, as they are kept.
    """

    kept: KeptMeasurement
    description: str
    dimension: int
    places: NDArray[np.intp]


@dataclass(frozen=True)
class Taken:
    """The answer to a measurement: noisy whole numbers, the record of their noise, and an id."""

    steps: NDArray[np.int64]
    record: MeasurementRecord
    id: str


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
        query = Query.read(measurand)
        return self.once(("read", query.key, reveal), query.revealing(reveal).copy)

    def _answers(self, asked: Sequence[Asked]) -> list[Any]:
        """Look up, pay, read and draw; the order of these is what privacy rests on."""
        if len({each.table.place for each in asked}) < len(asked):  # what is paid once is of disjoint rows
            raise PluginError("Two groups asked the same curator.", "Let each group ask its own.")
        texts = {id(each): self._described(each) for each in asked}
        answers: dict[int, Any] = self._known(asked, texts)
        left = [each for each in asked if id(each) not in answers]
        if self._dry:
            private = [each for each in left if each.losses or each.price is not None]
            answers |= {id(each): self._blank(each) for each in private}
            left = [each for each in left if id(each) not in answers]
        else:
            self._pay(left)
        values = self._exact(left)
        noisy = _with_noise([each for each in left if each.price is not None], values)
        for each in left:
            value = () if each.reads is None else (values[id(each)],)
            own = noisy.get(id(each))
            answers[id(each)] = each.answer(*value) if own is None else self._keeping(each, own, texts[id(each)])
        return [answers[id(each)] for each in asked]

    def _pay(self, asked: Sequence[Asked]) -> None:
        """Charge each loss that any group has in a place among its own, once."""
        losses: list[PrivacyLoss] = []
        for of_groups in zip_longest(*(each.losses for each in asked)):
            losses += {_priced(loss): loss for loss in of_groups if loss is not None}.values()
        if losses:
            self._budget.pay(losses, next(each.reserve for each in asked if each.losses))

    def _described(self, asked: Asked) -> str | None:
        """Describe a measurement that may be kept; what all groups measure once."""
        kept = self._kept
        if kept is None or asked.price is None or asked.reads is None or not asked.losses or not kept.used:
            return None
        if self._dry and kept.fresh:  # nothing is taken, and nothing kept
            return None
        query, _ = asked.reads
        what = self.once(("described", query.key, query.reveal), lambda: describe_query(query, kept.origins))
        return describe(what, asked.table, kept.origins)

    def _known(self, asked: Sequence[Asked], texts: Mapping[int, str | None]) -> dict[int, Taken]:
        """Take what the ledger keeps and is at least as accurate, at no charge and without a look at the rows."""
        kept = self._kept
        parts = {id(each): self._parts(each, text) for each in asked if (text := texts[id(each)]) is not None}
        if kept is None or kept.fresh or not parts:
            return {}
        kept.look([description for several in parts.values() for description, *_ in several])
        found = {}
        for each in asked:
            price = each.price
            if price is None or id(each) not in parts:
                continue
            known = [
                Part(one, description, dimension, places)
                for description, dimension, places in parts[id(each)]
                for one in kept.like(description, price.noise)
            ]
            best = kept.best(known, KeptMeasurement(0, "", price.noise, price.scale, price.grid.k))
            if best is None:
                continue
            kept.take(best)
            self.spared += sum((loss.epsilon for loss in price.losses), Fraction(0))
            found[id(each)] = self._recalled(kept, best, each)
        return found

    def _parts(self, asked: Asked, text: str) -> list[tuple[str, int, NDArray[np.intp]]]:
        """Describe what holds a measurement: itself and, but for noise of the cube, others of which it is a part.

        Each with the number of its coordinates, and the places there of what is asked, as they are kept.
        """
        (query, _), price, kept = cast("Reads", asked.reads), cast("Price", asked.price), self._kept
        parts = [(text, query.dimension, self._places(query))]
        of = query.of
        if kept is None or not isinstance(of, RowFeatures) or query.reveal is not None:
            return parts
        if price.noise == "cube" or asked.table.parts:
            return parts
        for at, (features, rows, places) in enumerate(larger(of, asked.table)):
            whole = partial(describe_query, Query.read(features), kept.origins)
            described = describe(self.once(("larger", query.key, at), whole), rows, kept.origins)
            order = canonical_order(features)
            own = places if order is None else np.argsort(order)[places]
            parts += [(described, features.dimension, own)] if described is not None else []
        return parts

    def _recalled(self, kept: Kept, part: Part, asked: Asked) -> Taken:
        """Take the values of a measurement that is kept, at no charge."""
        of = part.kept
        record = cast("Price", asked.price).record
        record = replace(record, scale=of.scale, grid=of.grid, epsilon=0.0, delta=0.0, reused=of.at)
        every = np.zeros(part.dimension, dtype=np.int64) if self._dry else kept.steps(of)
        if every.shape != (part.dimension,):
            raise LedgerError("A measurement in the ledger is damaged.", "Ask with fresh=True.")
        name = _identity(of.call, part.description, every, part.places)
        return Taken(every[part.places], record, name)

    def _places(self, query: Query) -> NDArray[np.intp]:
        """Find the places of the values as they are kept."""

        def find() -> NDArray[np.intp]:
            order = canonical_order(query.of)
            return np.arange(query.dimension) if order is None else np.argsort(order)

        return self.once(("places", query.key), find)

    def _blank(self, asked: Asked) -> Any:
        return asked.blank if asked.price is None else Taken(asked.blank, asked.price.record, "")

    def _keeping(self, asked: Asked, steps: NDArray[np.int64], text: str | None) -> Taken:
        """Leave what was measured for others."""
        query, price, kept = cast("Reads", asked.reads)[0], cast("Price", asked.price), self._kept
        places = self._places(query)
        ordered = steps[np.argsort(places)]
        if kept is not None and text is not None:
            private = noises.sampler().private
            kept.add(Measurement(text, price.noise, price.scale, price.grid.k, private, ordered))
        call = "" if kept is None else kept.call
        return Taken(steps, price.record, _identity(call, text, ordered, places))

    def _exact(self, asked: Sequence[Asked]) -> dict[int, Integers]:
        """Read exact values: what groups sum in one pass, anything else of each by itself."""
        reads = {id(each): (each.table, *each.reads) for each in asked if each.reads is not None}
        summed = {at: query.summed(k) for at, (_, query, k) in reads.items()}
        several = {at: (reads[at][0], *what) for at, what in summed.items() if what is not None}
        totals = dict(zip(several, self._totals([*several.values()]), strict=True))
        return {at: table.value(query, k, total=totals.get(at)) for at, (table, query, k) in reads.items()}

    def _totals(self, several: Sequence[tuple[Table, RowFeatures, int]]) -> list[Integers]:
        whole = self._whole
        if whole is None or len(several) < 2 or sum(of.summands for _, of, _ in several) > _TOGETHER:  # noqa: PLR2004
            return [table.summed(of, k) for table, of, k in several]
        by = several[0][0].by
        _, first, k = several[0]
        if all(of is first and each == k for _, of, each in several):
            product: RowFeatures = OneHot(*by, of=first)
            every, width = whole.summed(product, k), first.dimension
            return [every[table.place * width : (table.place + 1) * width] for table, _, _ in several]
        apart = Apart(by, {table.place: (of, k) for table, of, k in several})
        every, sums, start = whole.summed(apart, 0), {}, 0
        for place, (of, _) in apart.each.items():
            sums[place] = every[start : start + of.dimension]
            start += of.dimension
        return [sums[table.place] for table, _, _ in several]


def _with_noise(asked: Sequence[Asked], values: Mapping[int, Integers]) -> dict[int, NDArray[np.int64]]:
    """Add noise: what has the same law in one draw, for a call of the sampler takes longer than a number does."""
    alike: dict[Hashable, list[Asked]] = defaultdict(list)
    for each in asked:
        (query, _), price = cast("Reads", each.reads), cast("Price", each.price)
        own = id(each) if price.noise == "cube" else None  # all coordinates of which are one draw
        alike[price.noise, price.scale, query.dimension, query.reveal, own].append(each)
    noisy: dict[int, NDArray[np.int64]] = {}
    for same in alike.values():
        (query, _), price = cast("Reads", same[0].reads), cast("Price", same[0].price)
        sums, sampler = np.stack([clamped(values[id(each)]) for each in same]), noises.sampler()
        if query.reveal is not None:
            drawn = sampler.revealed(sums, price.scale, _chooser(query, price))
        else:
            drawn = getattr(sampler, price.noise)(sums.ravel(), price.scale).reshape(sums.shape)
        noisy |= {id(each): steps for each, steps in zip(same, drawn, strict=True)}
    return noisy


def _chooser(query: Query, price: Price) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
    """Return the rule that chooses among noisy sums in steps, of which it sees those that are shown."""
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


def _identity(call: str, text: str | None, kept: NDArray[np.int64], places: NDArray[np.intp]) -> str:
    """Return what tells a measurement from all others, wherever it is read; empty on a sample, and of a plan."""
    if not call:
        return ""
    call = call if noises.sampler().private else "a test"  # of which everything is to be the same again
    return placed(blake2b(f"{call} {text}".encode() + kept.tobytes(), digest_size=8).hexdigest(), places)


def _priced(loss: PrivacyLoss) -> Hashable:
    """Return a key that losses of equal price share: for noise of the cube the epsilon, whatever its grid."""
    return (loss.kind, loss.epsilon) if isinstance(loss, Cube) else loss
