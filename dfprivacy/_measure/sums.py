"""The verbs that add noise to values: sums of features, one by one or jointly, and values of statistics."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from dfprivacy._ledger.measurements import KeptMeasurement, Measurement
from dfprivacy._measure.description import canonical_order, describe, describe_query, larger
from dfprivacy._measure.evaluate import L2
from dfprivacy._measure.noisy import clamped, measurement, placed, released, shown
from dfprivacy._measure.paying import Part, Paying
from dfprivacy._measure.pricing import (
    FINE,
    NORMS,
    Grid,
    JointShare,
    Price,
    check_delta,
    grid_for,
    price_of,
    priced,
    sensitivity_of,
    steps_of,
)
from dfprivacy._measure.query import Query
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noises
from dfprivacy._privacy.filters import exact
from dfprivacy._privacy.grid import exact_exponent
from dfprivacy._privacy.losses import Gaussian
from dfprivacy._table.batch import BATCH_ROWS
from dfprivacy.errors import ArgumentError, LedgerError, PluginError
from dfprivacy.features import Count, RowFeatures
from dfprivacy.features.base import enforced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dfprivacy._measure.description import Origins
    from dfprivacy._measure.paying import KeptMeasurements
    from dfprivacy.features.integers import Integers
    from dfprivacy.release import NoisyValue, Reveal
    from dfprivacy.statistics import Statistic

__all__ = ["Sums"]

_ROOM = 16  # the noise of a joint measurement can be a quarter of what was planned


class Sums(Paying):
    """Measure noisy values, or take those that were measured before."""

    @property
    def size(self) -> int | None:
        """Number of rows, None where it is private."""
        if not self._table.conditions:
            return self._table.schema.size
        return int(self.sum(Count()).values[0]) if self._table.agreed(()) else None

    def sum(
        self,
        features: RowFeatures,
        *,
        noise: Literal["laplace", "gaussian", "cube"] = "laplace",
        share: object = None,
        then: Literal["any", "gaussian"] = "any",
        grid: Literal["fine", "unit"] = "fine",
        reveal: Reveal | None = None,
    ) -> NoisyValue:
        """Measure the sum of row features over the rows, or take what was measured before.

        Parameters
        ----------
        features : RowFeatures
            What to sum. The sensitivity follows from its radius and diameter.
        noise : {"laplace", "gaussian", "cube"}
            Laplace noise for pure differential privacy; Gaussian noise needs a delta. Noise of the cube [1]_, for
            pure differential privacy where one row moves many coordinates by about as much: its scale takes the
            sensitivity in the norm of infinity.
        share : number or fraction, optional
            The part of the call's epsilon and delta to spend; default: all that is left of it.
        then : {"any", "gaussian"}
            What the call may measure afterwards. What that may cost must fit into the budget as well, and sums or
            statistics with Gaussian noise alone, paid one by one, fit far more often than anything else at the same
            epsilon and delta.
        grid : {"fine", "unit"}
            How fine the steps of the noise are: so fine that Laplace noise is as good as continuous; or of the
            features' own unit where they have one, such as whole rows of counts, and where epsilons simply add up:
            elsewhere finer noise composes better. Noise on whole units has the smaller variance. Its law is another
            one, `NoisyValue.law`: who asks for "unit" must conclude from that.
        reveal : Reveal, optional
            Show a part of sums with Laplace noise, step by step, and draw noise for no others: what is shown first
            decides what is shown next. The price is that of all, and so is the privacy
            (docs/explanation/statistics.md).

        Returns
        -------
        NoisyValue
            Noisy sums. A sum that is the same on all neighbouring tables (over public columns only) comes
            exact and costs nothing. That of a `~dfprivacy.features.Stack` has ``parts``. What is kept in the ledger
            with noise of the same kind and at least the same accuracy is taken at no charge, once in a call; its
            record says when it was measured (docs/explanation/measurements.md).

        Raises
        ------
        ArgumentError
            If the arguments cannot be used; nothing was charged.
        BudgetExceeded
            If the account cannot pay; nothing was charged.
        ReadError
            If the rows could not be read; the charge stays.

        References
        ----------
        .. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.
        """
        if grid not in {"fine", "unit"}:
            raise ArgumentError(f"grid={grid!r} is unknown.", 'Use "fine" or "unit".')
        if reveal is not None and noise != "laplace":
            raise PluginError("Sums with Laplace noise are shown in part.", "Leave out reveal=.")
        return self._noisy(features, noise, share, then, whole_units=grid == "unit", reveal=reveal)

    def jointly(self, *planned: tuple[RowFeatures, object]) -> list[Callable[[RowFeatures], NoisyValue]]:
        """Pay for several sums with Gaussian noise as for one, and measure them one after another.

        Parameters
        ----------
        *planned : tuple of (RowFeatures, number or fraction)
            Features like those to be summed, and their part of mu squared, the squared signal-to-noise ratio of
            one Gaussian mechanism at all that is left of the call's epsilon and delta. Parts add up to at most 1.

        Returns
        -------
        list of callable
            One for each part. Given features, it measures their sum, once. They may be chosen after seeing what
            came before, but have at most the radius and dimension of those planned. The noise is for their own
            sensitivity.

        Raises
        ------
        ArgumentError, BudgetExceeded
            As for `sum`; it is all charged here.

        Notes
        -----
        Gaussian mechanisms compose, adaptively, to one whose mu squared is the sum of theirs [1]_: two halves have
        1.41 times the noise of one, where two sums at half the epsilon each have twice. The proof is in
        docs/explanation/accounting.md.

        References
        ----------
        .. [1] Smith and Thakurta (2022). Fully adaptive composition for Gaussian DP. arXiv:2210.17520.
        """

        def once(features: RowFeatures, share: JointShare | None) -> Callable[[RowFeatures], NoisyValue]:
            unused = [features]
            return lambda chosen: self._joined(unused, share, chosen)

        self._table.present()  # a copy without rows must not pay
        planned = tuple((enforced(features), part) for features, part in planned)
        parts = [exact(part) for _, part in planned]
        if not parts or min(parts) <= 0 or sum(parts) > 1:
            raise PluginError("The parts of a joint measurement must be positive and add up to at most 1.")
        private = [not self._table.agreed(features.columns) for features, _ in planned]
        if len(set(private)) > 1:
            raise PluginError("A joint measurement is of private columns.", "What is public is free: use sum.")
        if not all(private):
            return [once(features, None) for features, _ in planned]
        epsilon, delta = self._share(None, gaussian=True)
        check_delta(delta)
        grids = [grid_for(self._table, Query.read(features), L2, epsilon) for features, _ in planned]
        needs = [Fraction(grid.squared) / part for grid, part in zip(grids, parts, strict=True)]
        dimension = sum(features.dimension for features, _ in planned)
        squared = math.ceil(min(needs) / _ROOM)
        scale = calibrate.gaussian_scale(squared, dimension, epsilon, delta)
        loss = Gaussian(squared, scale, dimension, epsilon, delta)
        self._budget.pay([loss], self._reserve(loss))
        return [
            once(features, JointShare(loss, part, grid.k))
            for (features, _), part, grid in zip(planned, parts, grids, strict=True)
        ]

    def measure(
        self,
        statistic: Statistic,
        *,
        noise: Literal["laplace", "gaussian", "cube"] = "laplace",
        share: object = None,
        then: Literal["any", "gaussian"] = "any",
    ) -> NoisyValue:
        """Measure a statistic whose global sensitivity is proved.

        Parameters
        ----------
        statistic : Statistic
            What to measure.
        noise : {"laplace", "gaussian", "cube"}
            As for `sum`; or noise of the cube [1]_, for pure differential privacy of values that all move by about
            the same: its scale takes the sensitivity in the norm of infinity.
        share, then
            As for `sum`.

        Returns
        -------
        NoisyValue
            Its noisy value; exact, and free, if it looks at public columns only.

        Raises
        ------
        ArgumentError
            If the arguments cannot be used, or the sensitivity is infinite here; nothing was charged.
        BudgetExceeded
            If the account cannot pay; nothing was charged.
        ReadError
            If the rows could not be read; the charge stays.

        References
        ----------
        .. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.
        """
        return self._noisy(statistic, noise, share, then)

    def _noisy(
        self,
        measurand: RowFeatures | Statistic,
        noise: str,
        share: object,
        then: str,
        *,
        whole_units: bool = False,
        reveal: Reveal | None = None,
    ) -> NoisyValue:
        if noise not in NORMS:
            raise ArgumentError(f"noise={noise!r} is unknown.", f"Use one of {tuple(NORMS)!r}.")
        if then not in {"any", "gaussian"}:
            raise PluginError(f"then={then!r} is unknown.", 'Use "any" or "gaussian".')
        self._table.present()  # a copy without rows must not pay
        query = self._read(self._table.read(measurand).revealing(reveal))
        if self._table.agreed(query.looks_at):
            features = query.of if isinstance(query.of, RowFeatures) else None
            k = exact_exponent(features.radius(L2), BATCH_ROWS) if features else FINE
            steps = self._table.agreed_value(query, k, planned=self._planned)
            return measurement(query, np.ldexp(np.array([float(step) for step in steps]), -k), None)
        self._table.refuse_large(query)
        cost = self._share(share, gaussian=noise == "gaussian")
        if noise == "gaussian":
            check_delta(cost[1])
            self._gaussian_only |= then == "gaussian"
        whole_units &= (
            self._budget.basic_composition
        )  # elsewhere noise on units may be charged more; losses.Laplace
        about = (noise, whole_units, reveal, *cost)
        price = self._table.once(
            query, about, lambda: price_of(self._table, query, noise, *cost, whole_units=whole_units)
        )
        return self._drawn(query, price)

    def _joined(self, unused: list[RowFeatures], share: JointShare | None, features: RowFeatures) -> NoisyValue:
        if not unused or not self._within(features, unused.pop(), share):
            raise PluginError(
                f"{features.describe()} was asked for twice, or has a larger radius or dimension than was planned.",
                "Plan one part for each, with the largest.",
            )
        if share is None:
            return self.sum(features)
        query = self._read(Query.read(features))
        grid = Grid(share.k, steps_of(self._table, query, L2, share.k, sensitivity_of(self._table, query, L2)))
        cost = share.loss.epsilon, share.loss.delta
        return self._drawn(query, priced(query, "gaussian", grid, share.scale(grid.squared), cost))

    def _within(self, features: RowFeatures, planned: RowFeatures, share: JointShare | None) -> bool:
        """Whether a share covers features; none covers those over public columns."""
        if share is None:
            return self._table.agreed(features.columns)
        features = enforced(features)
        return features.radius(L2) <= planned.radius(L2) and features.dimension <= planned.dimension

    def _drawn(self, query: Query, price: Price) -> NoisyValue:
        """Take what is kept, or pay and draw. What was paid jointly is neither kept nor taken."""
        kept = self._kept if self._kept and self._kept.used and price.losses else None
        text = self._described(query, kept.origins) if kept else None
        best = None
        if kept is not None and text is not None and not kept.fresh:
            wanted = KeptMeasurement(0, "", price.noise, price.scale, price.grid.k)
            best = kept.best([*self._parts(kept, query, text, price.noise)], wanted)
        if best is None:
            return self._new(query, price, text)
        self._budget.spare(price.losses)
        return self._taken(query, best, price)

    def _parts(self, kept: KeptMeasurements, query: Query, text: str, noise: str) -> Iterator[Part]:
        """Find what is kept of a measurement, by itself and, but for noise of the cube, as a part of others."""
        places = self._places(query)
        for each in kept.like(text, noise):
            yield Part(each, text, query.dimension, places)
        of = query.of
        if not isinstance(of, RowFeatures) or query.reveal or noise == "cube" or self._table.parts:
            return
        for place, (features, table, at) in enumerate(larger(of, self._table)):
            whole = partial(describe_query, Query.read(features), kept.origins)
            described = describe(self._table.once(query, ("larger", place), whole), table, kept.origins)
            for each in kept.like(described, noise) if described else ():
                order = canonical_order(features)
                own = at if order is None else np.argsort(order)[at]
                yield Part(each, described or "", features.dimension, own)

    def _places(self, query: Query) -> NDArray[np.intp]:
        """Find the places of the values as they are kept."""

        def find() -> NDArray[np.intp]:
            order = canonical_order(query.of)
            return np.arange(query.dimension) if order is None else np.argsort(order)

        return self._table.once(query, ("places",), find)

    def _described(self, query: Query, origins: Origins) -> str | None:
        """Describe a measurement; of all groups, what it is of is described once."""
        about = ("description", query.reveal)
        what = self._table.once(query, about, lambda: describe_query(query, origins))
        return describe(what, self._table, origins)

    def _new(self, query: Query, price: Price, text: str | None) -> NoisyValue:
        """Pay, read and draw."""
        k, scale, noise, places = price.grid.k, price.scale, price.noise, self._places(query)
        # What groups ask was copied when it was read, and whichever of them reads rows copies it then.
        copy = query if query.written and noise != "cube" else self._copy(query)

        def draw() -> NDArray[np.int64]:
            sampler = noises.sampler()

            def add(values: Integers) -> NDArray[np.int64]:
                if query.reveal is not None:  # of all groups at once
                    every = clamped(values).reshape(-1, query.dimension)
                    return sampler.revealed(every, scale, _chooser(query, price)).ravel()
                return cast("NDArray[np.int64]", getattr(sampler, noise)(clamped(values), scale))

            if noise == "cube":  # one draw for all coordinates of a group
                noisy = add(self._table.value(copy, k))
            else:
                noisy = self._table.perturbed(copy, k, (noise, scale, query.reveal), add)
            if self._kept is not None and text is not None:
                self._kept.add(Measurement(text, noise, scale, k, sampler.private, noisy[np.argsort(places)]))
            return noisy

        blank = np.zeros(query.dimension, dtype=np.int64)
        steps = self._perform(price.record, price.losses, draw, blank)
        call = self._kept.call if self._kept else ""
        return released(query, price.record, steps, _identity(call, text, steps[np.argsort(places)], places))

    def _taken(self, query: Query, part: Part, price: Price) -> NoisyValue:
        """Take what is kept, at no charge and without a look at the rows."""
        kept = part.kept
        record = replace(price.record, scale=kept.scale, grid=kept.grid, epsilon=0.0, delta=0.0, reused=kept.at)

        def recall() -> NDArray[np.int64]:
            steps = cast("KeptMeasurements", self._kept).steps(kept)
            if steps.shape != (part.dimension,):
                raise LedgerError("A measurement in the ledger is damaged.", "Ask with fresh=True.")
            return steps

        cast("KeptMeasurements", self._kept).take(part)
        every = self._perform(record, (), recall, np.zeros(part.dimension, dtype=np.int64))
        identity = _identity(kept.call, part.description, every, part.places)
        return released(query, record, every[part.places], identity)


def _identity(call: str, text: str | None, kept: NDArray[np.int64], places: NDArray[np.intp]) -> str:
    """Return what tells a measurement from all others, wherever it is read; empty on a sample, and of a plan."""
    if not call:
        return ""
    call = call if noises.sampler().private else "a test"  # of which everything is to be the same again
    return placed(blake2b(f"{call} {text}".encode() + kept.tobytes(), digest_size=8).hexdigest(), places)


def _chooser(query: Query, price: Price) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
    """Let a rule choose among noisy sums in steps, of which it sees those that are shown."""
    weights = np.broadcast_to(np.asarray(query.of.weights, dtype=np.float64), query.shape).ravel()
    reveal = cast("Reveal", query.reveal)

    def choose(steps: NDArray[np.int64]) -> NDArray[np.bool_]:
        chosen = np.asarray(reveal.next(shown(steps, price.grid.k) / weights, price.record.scale / weights))
        if chosen.shape != steps.shape or chosen.dtype != np.bool_:
            raise PluginError(
                f"{type(reveal).__name__}.next() must say of each number whether it is shown.",
                "Return an array of bool of the shape of its first argument.",
            )
        return chosen

    return choose
