"""Noisy measurements: sums of features, one by one or jointly, and values of statistics."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfprivacy._measure.kept_measurements import NoisyResult, id_with_positions
from dfprivacy._measure.price import FINE, NORMS, Price, RowRequest, measurement_price
from dfprivacy._measure.query import L2, Query
from dfprivacy._measure.steps import CallState, steps_to_units
from dfprivacy._privacy.calibrate import SUM_MAX, check_delta, exact_exponent
from dfprivacy._table.batch import BATCH_ROWS
from dfprivacy.errors import ArgumentError, PluginError, PluginWarning
from dfprivacy.features import Count, RowFeatures
from dfprivacy.release import NoisyValue
from dfprivacy.statistics import Statistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy.release import MeasurementRecord, Reveal

__all__ = ["NoisySums"]


class NoisySums(CallState):
    """Methods that measure sums of features and statistics with noise, or reuse kept measurements."""

    @property
    def size(self) -> int | None:
        """Number of selected rows; None if it is private."""
        if not self._table.conditions:
            return self._table.schema.size
        return int(self.sum(Count()).values[0]) if self._table.is_public(()) else None

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
        """Measure the sum of row features over the rows, or reuse a kept measurement.

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
            raise PluginError("reveal= needs Laplace noise.", "Leave out reveal=.")
        return self._measure_with_noise(features, noise, share, then, whole_units=grid == "unit", reveal=reveal)

    def measure(
        self,
        statistic: Statistic,
        *,
        noise: Literal["laplace", "gaussian", "cube"] = "laplace",
        share: object = None,
        then: Literal["any", "gaussian"] = "any",
    ) -> NoisyValue:
        """Measure a statistic with noise that is scaled to its global sensitivity.

        Parameters
        ----------
        statistic : Statistic
            The statistic, with a proved bound of its global sensitivity.
        noise : {"laplace", "gaussian", "cube"}
            As for `sum`; or noise of the cube [1]_, for pure differential privacy of values that all move by about
            the same: its scale takes the sensitivity in the norm of infinity.
        share, then
            As for `sum`.

        Returns
        -------
        NoisyValue
            Its noisy value; exact, and free, if it reads public columns only.

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
        return self._measure_with_noise(statistic, noise, share, then)

    def _measure_with_noise(
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
        self._table.require_rows()  # a copy without rows must not pay
        query = self._read_query(measurand, reveal)
        if self._table.is_public(query.columns_read):
            features = query.of if isinstance(query.of, RowFeatures) else None
            k = exact_exponent(features.radius(L2), BATCH_ROWS) if features else FINE
            steps = self._runner.answer_request(RowRequest(table=self._table, query=query, k=k))
            return _value_without_weights(query, np.ldexp(np.array([float(step) for step in steps]), -k), None)
        self._table.refuse_large_columns(query)
        cost = self._take_share(share, gaussian=noise == "gaussian")
        if noise == "gaussian":
            check_delta(cost[1])
            self._gaussian_only |= then == "gaussian"
        whole_units &= (
            self._budget.basic_composition
        )  # elsewhere noise on units may be charged more; losses.Laplace
        price = self._runner.compute_once(
            query,
            ("price", reveal, noise, whole_units, *cost),
            lambda: measurement_price(self._table, query, noise, *cost, whole_units=whole_units),
        )
        return self._measure_at_price(price)

    def _measure_at_price(self, price: Price) -> NoisyValue:
        """Return a kept measurement, or pay for a new one. Joint measurements are not kept."""
        query, losses = price.query, price.losses
        taken: NoisyResult = self._runner.answer_request(
            RowRequest(
                table=self._table,
                losses=losses,
                reserve=self._losses_to_reserve(losses[-1]) if losses else (),
                query=query,
                k=price.grid.k,
                price=price,
                blank=NoisyResult(np.zeros(query.dimension, dtype=np.int64), price.record, ""),
            )
        )
        self.measured.append(taken.record)
        return _noisy_value(query, taken.record, taken.steps, taken.id)


def _noisy_value(query: Query, record: MeasurementRecord, steps: NDArray[np.int64], identity: str) -> NoisyValue:
    """Convert a measurement from grid steps to a `NoisyValue` in the units of the features."""
    edge = SUM_MAX - 20 * math.ldexp(record.scale, record.grid)
    if isinstance(query.of, Statistic) and max(abs(steps), default=0) > edge:
        _warn_of_clamped_value(query.of, math.ldexp(SUM_MAX, -record.grid))
    return _value_without_weights(query, steps_to_units(steps, record.grid), record, identity)


def _warn_of_clamped_value(statistic: Statistic, edge: float) -> None:
    warnings.warn(
        f"The value of {statistic.describe()} may exceed ±{edge:.4g}, 2^32 times its sensitivity, where released "
        "values are clipped. In value(), subtract a public number close to the expected value.",
        PluginWarning,
        stacklevel=2,
    )


def _value_without_weights(
    query: Query, values: NDArray[np.float64], noise: MeasurementRecord | None, identity: str = ""
) -> NoisyValue:
    weights = np.asarray(query.of.weights, dtype=np.float64)
    weights = weights if weights.shape == query.shape else np.broadcast_to(weights, query.shape)
    scale = noise.scale if noise else 0.0
    noisy = NoisyValue(values.reshape(query.shape) / weights, scale / weights, noise, id=identity)
    return _split_into_parts(noisy, query.of) if isinstance(query.of, RowFeatures) else noisy


def _split_into_parts(noisy: NoisyValue, features: RowFeatures) -> NoisyValue:
    """Split a measurement of stacked features into the measurements of their parts."""
    if not (stacked := features.stacked):
        return noisy
    parts, end = [], 0
    for place, part in enumerate(stacked):
        start, end = end, end + part.dimension
        shape = (*noisy.values.shape[:-1], *part.shape)
        values, scales = (each[..., start:end].reshape(shape) for each in (noisy.values, noisy.scales))
        name = noisy.id and _id_of_part(noisy, place, start, end)
        parts.append(_split_into_parts(NoisyValue(values, scales, noisy.noise, id=name), part))
    return replace(noisy, parts=tuple(parts))


def _id_of_part(noisy: NoisyValue, part: int, start: int, end: int) -> str:
    """Return the id of a part of a measurement, with positions that count within the part."""
    whole, _, written = noisy.id.partition("@")
    if not written:
        return f"{whole}.{part}"
    places = np.array(written.split(","), dtype=np.intp).reshape(noisy.values.shape)[..., start:end]
    row, column = np.divmod(places, noisy.values.shape[-1])
    return id_with_positions(f"{whole}.{part}", (row * (end - start) + column - start).ravel())
