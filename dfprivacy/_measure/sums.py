"""The verbs that add noise to values: sums of features, one by one or jointly, and values of statistics."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from dfprivacy._ledger.measurements import KeptMeasurement, Measurement
from dfprivacy._measure.description import canonical_order, describe, describe_query
from dfprivacy._measure.evaluate import L2
from dfprivacy._measure.noisy import (
    Drawn,
    clamped,
    combined,
    measurement,
    shown,
    together,
)
from dfprivacy._measure.paying import Paying
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
    from collections.abc import Callable

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
        pool: bool = False,
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
        pool : bool
            Take the mean of all measurements of the same that are kept, weighted by the inverse of the variance of
            their noise, with a new one if they are less accurate together than that would be.
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
        if pool and grid == "unit":
            raise PluginError("What is on units is not pooled: the mean of several has another law.")
        if reveal is not None and (noise != "laplace" or pool):
            raise PluginError("Sums with Laplace noise are shown in part, and not pooled.", "Leave out reveal=.")
        return self._noisy(features, noise, share, then, pool=pool, whole_units=grid == "unit", reveal=reveal)

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
        pool: bool = False,
    ) -> NoisyValue:
        """Measure a statistic whose global sensitivity is proved.

        Parameters
        ----------
        statistic : Statistic
            What to measure.
        noise : {"laplace", "gaussian", "cube"}
            As for `sum`; or noise of the cube [1]_, for pure differential privacy of values that all move by about
            the same: its scale takes the sensitivity in the norm of infinity.
        share, then, pool
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
        return self._noisy(statistic, noise, share, then, pool=pool)

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
        if noise not in NORMS:
            raise ArgumentError(f"noise={noise!r} is unknown.", f"Use one of {tuple(NORMS)!r}.")
        if then not in {"any", "gaussian"}:
            raise PluginError(f"then={then!r} is unknown.", 'Use "any" or "gaussian".')
        self._table.present()  # a copy without rows must not pay
        query = self._table.read(measurand).revealing(reveal)
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
        return self._drawn(query, price, pool=pool)

    def _joined(self, unused: list[RowFeatures], share: JointShare | None, features: RowFeatures) -> NoisyValue:
        if not unused or not self._within(features, unused.pop(), share):
            raise PluginError(
                f"{features.describe()} was asked for twice, or has a larger radius or dimension than was planned.",
                "Plan one part for each, with the largest.",
            )
        if share is None:
            return self.sum(features)
        query = Query.read(features)
        grid = Grid(share.k, steps_of(self._table, query, L2, share.k, sensitivity_of(self._table, query, L2)))
        cost = share.loss.epsilon, share.loss.delta
        return self._drawn(query, priced(query, "gaussian", grid, share.scale(grid.squared), cost))

    def _within(self, features: RowFeatures, planned: RowFeatures, share: JointShare | None) -> bool:
        """Whether a share covers features; none covers those over public columns."""
        if share is None:
            return self._table.agreed(features.columns)
        features = enforced(features)
        return features.radius(L2) <= planned.radius(L2) and features.dimension <= planned.dimension

    def _drawn(self, query: Query, price: Price, *, pool: bool = False) -> NoisyValue:
        """Take what is kept, or pay and draw. What was paid jointly is neither kept nor taken."""
        kept = self._kept if self._kept and self._kept.used and price.losses else None
        text = self._described(query, kept.origins) if kept else None
        if kept is None or text is None:
            return combined([self._new(query, price)], query)
        wanted = KeptMeasurement(0, "", price.noise, price.scale, price.grid.k)
        known = (
            [] if kept.fresh and not pool else [e for e in kept.like(text, price.noise) if e.grid >= wanted.grid]
        )
        if pool and kept.best([together(known)] if known else [], wanted) is not None:
            self._budget.spare(price.losses)
            return combined([self._taken(query, each, price) for each in known], query)
        if not pool and (best := kept.best(known, wanted)) is not None:
            self._budget.spare(price.losses)
            return combined([self._taken(query, best, price)], query)
        new = self._new(query, price, text)
        return combined([new, *(self._taken(query, each, price) for each in known if pool)], query)

    def _order(self, query: Query) -> NDArray[np.intp] | None:
        """Find the order in which the values are kept."""
        return self._table.once(query, ("order",), lambda: canonical_order(query.of))

    def _described(self, query: Query, origins: Origins) -> str | None:
        """Describe a measurement; of all groups, what it is of is described once."""
        about = ("description", query.reveal)
        what = self._table.once(query, about, lambda: describe_query(query, origins))
        return describe(what, self._table, origins)

    def _new(self, query: Query, price: Price, text: str | None = None) -> Drawn:
        """Pay, read and draw."""
        k, scale, noise = price.grid.k, price.scale, price.noise
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
                order = self._order(query)
                kept = noisy if order is None else noisy[order]
                self._kept.add(Measurement(text, noise, scale, k, sampler.private, kept))
            return noisy

        blank = np.zeros(query.dimension, dtype=np.int64)
        return Drawn(price.record, self._perform(price.record, price.losses, draw, blank))

    def _taken(self, query: Query, kept: KeptMeasurement, price: Price) -> Drawn:
        """Take what is kept, at no charge and without a look at the rows."""
        record = replace(price.record, scale=kept.scale, grid=kept.grid, epsilon=0.0, delta=0.0, reused=kept.at)

        def recall() -> NDArray[np.int64]:
            steps = cast("KeptMeasurements", self._kept).steps(kept)
            if steps.shape != (query.dimension,):
                raise LedgerError("A measurement in the ledger is damaged.", "Ask with fresh=True.")
            order = self._order(query)
            if order is None:
                return steps
            noisy = np.empty_like(steps)
            noisy[order] = steps
            return noisy

        cast("KeptMeasurements", self._kept).take(kept)
        return Drawn(record, self._perform(record, (), recall, np.zeros(query.dimension, dtype=np.int64)))


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
