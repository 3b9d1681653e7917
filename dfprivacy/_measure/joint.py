"""Joint measurements: Gaussian sums and selections that are paid as one Gaussian mechanism."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from dfprivacy._measure.decisions import NoisyDecisions
from dfprivacy._measure.price import (
    Grid,
    JointShare,
    RowRequest,
    measurement_grid,
    positive_sensitivity,
    price_with_record,
    sensitivity_in_steps,
)
from dfprivacy._measure.query import L2, Query
from dfprivacy._measure.sums import NoisySums
from dfprivacy._privacy import calibrate
from dfprivacy._privacy.filters import exact
from dfprivacy._privacy.losses import Gaussian
from dfprivacy.errors import PluginError
from dfprivacy.features.base import enforce_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfprivacy.features import RowFeatures
    from dfprivacy.release import NoisyValue
    from dfprivacy.statistics import Statistic

__all__ = ["JointMeasurements"]

_ROOM = 16  # the noise of a joint measurement can be a quarter of what was planned


class JointMeasurements(NoisySums, NoisyDecisions):
    """Gaussian sums and selections that are charged together, and measured one after another."""

    def jointly(self, *planned: tuple[RowFeatures | Literal["select"], object]) -> list[Callable[[Any], Any]]:
        """Charge several Gaussian sums and selections as one mechanism; return a function that measures each.

        Parameters
        ----------
        *planned : tuple of (RowFeatures or "select", number or fraction)
            Features like those to be summed, or ``"select"``, and their part of mu squared, the squared
            signal-to-noise ratio of one Gaussian mechanism at all that is left of the call's epsilon and delta.
            Parts add up to at most 1. At least one is a sum.

        Returns
        -------
        list of callable
            One for each part. Given features, it measures their sum, once. They may be chosen after seeing what
            came before, but have at most the radius and dimension of those planned. The noise is for their own
            sensitivity. That of a selection, given a statistic, returns the position of a coordinate close to the
            largest, as `select` does.

        Raises
        ------
        ArgumentError, BudgetExceeded
            As for `sum`; it is all charged here.

        Notes
        -----
        Gaussian mechanisms compose, adaptively, to one whose mu squared is the sum of theirs [1]_: two halves have
        1.41 times the noise of one, where two sums at half the epsilon each have twice. The exponential mechanism
        whose loss has the range epsilon is as private as one with mu = 2 Phi^-1(1/(1 + exp(-epsilon/2))). The
        proof is in docs/explanation/accounting.md.

        References
        ----------
        .. [1] Smith and Thakurta (2022). Fully adaptive composition for Gaussian DP. arXiv:2210.17520.
        """
        self._table.require_rows()  # a copy without rows must not pay
        parts = [exact(part) for _, part in planned]
        sums = [None if of == "select" else enforce_bounds(of) for of, _ in planned]
        summed = [(of, part) for of, part in zip(sums, parts, strict=True) if of is not None]
        if not summed or min(parts) <= 0 or sum(parts) > 1:
            raise PluginError(
                "jointly() needs at least one sum of features, and positive parts that add up to at most 1."
            )
        private = [not self._table.is_public(features.columns) for features, _ in summed]
        if len(set(private)) > 1 or not (all(private) or len(summed) == len(parts)):
            raise PluginError(
                "jointly() was given features of public and of private columns.",
                "Use sum() for public columns: it is free.",
            )
        if not all(private):
            return [self._measure_once(features, None) for features, _ in summed]
        epsilon, delta = self._take_share(None, gaussian=True)
        calibrate.check_delta(delta)
        grids = [measurement_grid(self._table, Query.read(features), L2, epsilon) for features, _ in summed]
        needs = [Fraction(grid.squared_sensitivity) / part for grid, (_, part) in zip(grids, summed, strict=True)]
        dimension = sum(features.dimension for features, _ in summed)
        squared = math.ceil(min(needs) / _ROOM)
        scale = calibrate.gaussian_scale(squared, dimension, epsilon, delta)
        loss = Gaussian(squared, scale, dimension, epsilon, delta)
        self._runner.answer_request(
            RowRequest(table=self._table, losses=[loss], reserve=self._losses_to_reserve(loss), answer=lambda: None)
        )
        exponents = iter(grid.k for grid in grids)
        return [
            self._select_once(JointShare(loss, part, 0))
            if of is None
            else self._measure_once(of, JointShare(loss, part, next(exponents)))
            for of, part in zip(sums, parts, strict=True)
        ]

    def _measure_once(self, planned: RowFeatures, share: JointShare | None) -> Callable[[RowFeatures], NoisyValue]:
        unused = [planned]

        def measure(features: RowFeatures) -> NoisyValue:
            if not unused or not self._fits_plan(features, unused.pop(), share):
                raise PluginError(
                    f"jointly() did not plan this sum of {features.describe()}: it is larger than planned, or "
                    "measured a second time.",
                    "Give jointly() a pair (features, part) for each sum, with its largest radius and dimension.",
                )
            if share is None or self._table.is_public(features.columns):  # exact, and free
                return self.sum(features)
            return self._measure_joint_sum(share, features)

        return measure

    def _measure_joint_sum(self, share: JointShare, features: RowFeatures) -> NoisyValue:
        query = self._read_query(features)
        grid = Grid(
            share.k,
            sensitivity_in_steps(self._table, query, L2, share.k, positive_sensitivity(self._table, query, L2)),
        )
        cost = share.loss.epsilon, share.loss.delta
        return self._measure_at_price(
            price_with_record(query, "gaussian", grid, share.scale(grid.squared_sensitivity), cost)
        )

    def _select_once(self, share: JointShare) -> Callable[[Statistic], int]:
        unused = [calibrate.bounded_range_epsilon(share.mu_squared)]

        def select(statistic: Statistic) -> int:
            if not unused:
                raise PluginError(
                    f"jointly() planned fewer selections than are made: none is left for {statistic.describe()}.",
                    'Give jointly() a pair ("select", part) for each selection.',
                )
            chosen: NDArray[Any] = self._select(statistic, unused.pop())
            return int(chosen[0])

        return select

    def _fits_plan(self, features: RowFeatures, planned: RowFeatures, share: JointShare | None) -> bool:
        """Return whether features have at most the planned radius and dimension; if no `share`, are public."""
        if share is None:
            return self._table.is_public(features.columns)
        features = enforce_bounds(features)
        return features.radius(L2) <= planned.radius(L2) and features.dimension <= planned.dimension
