"""Noisy decisions based on a statistic: selection of large values, sparse vector technique, permutation tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, overload

import numpy as np

from dfprivacy._measure.price import DecisionPlan, measurement_grid
from dfprivacy._measure.steps import CallState, clamp_for_noise
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noises
from dfprivacy._privacy.calibrate import SUM_MAX
from dfprivacy._privacy.filters import exact
from dfprivacy._privacy.losses import BoundedRange, Pure
from dfprivacy.errors import ArgumentError, PluginError
from dfprivacy.features.base import integers
from dfprivacy.schema import as_probability

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfprivacy.features.base import Integers
    from dfprivacy.release import MeasurementRecord
    from dfprivacy.statistics import OfPermutations, Statistic

__all__ = ["NoisyDecisions", "SparseVectorAnswers"]


@dataclass(frozen=True)
class SparseVectorAnswers:
    """Result of `Curator.above_threshold`: which values reached their thresholds, and the scales of the noise.

    Attributes
    ----------
    reached : ndarray of bool
        Whether each value reached its threshold; it ends where the last one allowed did.
    threshold_scale, value_scale : float
        Scale of the Laplace noise in the thresholds, drawn once for all, and in each value.
    noise : MeasurementRecord
        The same in words.
    """

    reached: NDArray[np.bool_]
    threshold_scale: float
    value_scale: float
    noise: MeasurementRecord


class NoisyDecisions(CallState):
    """Methods of a curator that release decisions based on a statistic's values, but not the values."""

    def select(self, statistic: Statistic, *, top: int = 1, share: object = None) -> NDArray[np.intp]:
        """Select coordinates of a statistic whose values are the largest, or close to the largest.

        Parameters
        ----------
        statistic : Statistic
            The scores; their sensitivity is that in the norm of infinity.
        top : int
            How many to select.
        share : number or fraction, optional
            As for `sum`.

        Returns
        -------
        ndarray of shape (top,)
            Positions in the flattened value, best first.

        Raises
        ------
        ArgumentError, BudgetExceeded, ReadError
            As for `measure`.

        Notes
        -----
        Permute-and-flip [1]_ where epsilons add up; else the exponential mechanism, whose loss has a bounded range
        and therefore composes better [2]_. Each of the `top` selections takes its part of the price.

        References
        ----------
        .. [1] McKenna and Sheldon (2020). Permute-and-flip. NeurIPS.
        .. [2] Dong, Durfee and Rogers (2020). Optimal differential privacy composition for exponential mechanisms.
           ICML.
        """
        if not 1 <= top <= statistic.dimension:
            raise ArgumentError(
                f"top={top} of {statistic.dimension} scores cannot be selected.",
                f"Use an integer from 1 to {statistic.dimension}.",
            )
        return self._select(statistic, None, top, share)

    def _select(
        self, statistic: Statistic, paid: Fraction | None, top: int = 1, share: object = None
    ) -> NDArray[np.intp]:
        """Select the `top` largest coordinates with noise; charge a share, or use the epsilon `paid` before."""
        flip = paid is None and self._budget.basic_composition
        kind = "permute-and-flip" if flip else "exponential mechanism"
        plan = self._plan_decision(statistic, share, f"the top {top} of {statistic.describe()}", kind, paid)
        scale = calibrate.laplace_scale(2 * top * plan.steps, plan.epsilon)
        each: type[Pure] = Pure if flip else BoundedRange

        def draw_decision(values: Integers) -> NDArray[np.intp]:
            chosen = noises.sampler().noisy_top_k(_shift_into_range(values), scale, top, flip=flip)
            return np.array(chosen, dtype=np.intp)

        losses = [] if paid else [each(plan.epsilon / top)] * top
        return self._pay_and_draw(
            plan.record_at_scale(scale), losses, draw_decision, np.arange(top), plan.query, plan.k
        )

    def above_threshold(
        self,
        statistic: Statistic,
        thresholds: Callable[[float, float], float | NDArray[np.float64]],
        *,
        most: int,
        share: object = None,
    ) -> SparseVectorAnswers:
        """Test each coordinate of a statistic in turn against its threshold (sparse vector technique).

        Parameters
        ----------
        statistic : Statistic
            The values; their sensitivity is that in the norm of infinity.
        thresholds : callable
            Given the scale of the Laplace noise that all thresholds share, and that of each value's own, both in
            the statistic's units, returns the thresholds: a number, or one for each coordinate.
        most : int
            After how many that reach it to stop. The price does not depend on how many do not.
        share : number or fraction, optional
            As for `sum`.

        Returns
        -------
        SparseVectorAnswers
            The answers.

        Raises
        ------
        ArgumentError, BudgetExceeded, ReadError
            As for `measure`.

        Notes
        -----
        The sparse vector technique with the split of [1]_: epsilon_1 to epsilon_2 as 1 to (2 most)^(2/3), noise
        of scale Delta / epsilon_1 once and 2 most Delta / epsilon_2 for each value. The proof shifts the first
        noise by the integer Delta, so it holds for discrete noise and ties.

        References
        ----------
        .. [1] Lyu, Su and Li (2017). Understanding the sparse vector technique for differential privacy. VLDB.
        """
        if not 1 <= most <= statistic.dimension:
            raise ArgumentError(
                f"most={most} is not from 1 to {statistic.dimension}, the number of values.",
                f"Use an integer from 1 to {statistic.dimension}.",
            )
        what = f"which of {statistic.describe()} reach their thresholds"
        plan = self._plan_decision(statistic, share, what, "sparse vector")
        first = plan.epsilon * Fraction(1 / (1 + (2 * most) ** (2 / 3)))
        scales = (
            calibrate.laplace_scale(plan.steps, first),
            calibrate.laplace_scale(2 * most * plan.steps, plan.epsilon - first),
        )
        units = [math.ldexp(scale, -plan.k) for scale in scales]
        wanted = np.broadcast_to(np.asarray(thresholds(*units), dtype=np.float64).ravel(), statistic.dimension)
        if np.isnan(wanted).any():
            raise PluginError("thresholds() returned NaN.", "Return thresholds computed from public numbers.")
        far = float(2**1000)  # beyond any value
        steps = [int(step) for step in np.rint(np.clip(np.ldexp(wanted, plan.k), -far, far))]

        def draw_decision(values: Integers) -> NDArray[np.bool_]:
            gaps = clamp_for_noise([value - step for value, step in zip(integers(values), steps, strict=True)])
            return noises.sampler().sparse_vector(gaps, scales, most)

        record = plan.record_at_scale(scales[1])
        blank = np.zeros(statistic.dimension, dtype=np.bool_)
        reached = self._pay_and_draw(record, [Pure(plan.epsilon)], draw_decision, blank, plan.query, plan.k)
        return SparseVectorAnswers(reached, units[0], units[1], record)

    @overload
    def permutation_test(self, statistic: OfPermutations, *, alpha: float, share: object = None) -> bool: ...
    @overload
    def permutation_test(self, statistic: OfPermutations, *, alpha: None = None, share: object = None) -> float: ...
    def permutation_test(
        self, statistic: OfPermutations, *, alpha: float | None = None, share: object = None
    ) -> bool | float:
        """Test a hypothesis by permutation: compare a statistic with its values on randomly permuted rows.

        Parameters
        ----------
        statistic : OfPermutations
            The values, that of the table as it is first. Large values speak against the null hypothesis.
        alpha : float, optional
            Level of a decision. Without it the p-value is released, which takes twice the noise.
        share : number or fraction, optional
            As for `sum`.

        Returns
        -------
        bool or float
            Whether the null hypothesis is rejected at level alpha; without alpha, the p-value.

        Raises
        ------
        ArgumentError, BudgetExceeded, ReadError
            As for `measure`.

        Notes
        -----
        Every value gets Laplace noise, and p is the place of the first among all B + 1, divided by B + 1. Under
        the null hypothesis they are exchangeable, so the level is exact. docs/explanation/statistics.md has the
        proofs: of the decision with noise of scale 2 Delta / epsilon [1]_, of the p-value with twice that.

        References
        ----------
        .. [1] Kim and Schrab (2023). Differentially private permutation tests. arXiv:2310.19043.
        """
        if alpha is not None:
            as_probability(alpha, "alpha")
        self._require_single_rows("A permutation test compares the table with permutations of its rows")
        what = "the p-value" if alpha is None else f"the decision at level {alpha:g}"
        plan = self._plan_decision(statistic, share, f"{what} of {statistic.describe()}", "permutation test")
        scale = calibrate.laplace_scale((4 if alpha is None else 2) * plan.steps, plan.epsilon)
        count = plan.query.dimension

        def draw_decision() -> bool | float:
            sampler = noises.sampler()
            values = _shift_into_range(self._table.value(plan.query, plan.k, sampler.generator()))
            if alpha is None:
                return sampler.permutation_rank(values, scale) / count
            return sampler.permutation_decision(values, scale, math.floor(exact(alpha) * count))

        blank: bool | float = 1.0 if alpha is None else False
        return self._pay_and_draw(plan.record_at_scale(scale), [Pure(plan.epsilon)], draw_decision, blank)

    @property
    def decides(self) -> bool:
        """Whether decisions are possible: not by group if a person may have several rows."""
        return not (self._table.by and self._table.schema.unit is not None)

    def _plan_decision(
        self, statistic: Statistic, share: object, what: str, kind: str, paid: Fraction | None = None
    ) -> DecisionPlan:
        if not self.decides:
            self._require_single_rows("This method makes a decision in each group")
        self._table.require_rows()
        query = self._read_query(statistic)
        if self._table.is_public(query.columns_read):
            raise ArgumentError(
                f"{statistic.describe()}: this reads public columns only, so no noise is needed.",
                "Compute it with measure(), which is exact and free for public columns.",
            )
        self._table.refuse_large_columns(query)
        epsilon = paid or self._take_share(share)[0]
        grid = measurement_grid(self._table, query, math.inf, epsilon)
        return DecisionPlan(what, kind, epsilon, grid.k, math.ceil(grid.steps), query)


def _shift_into_range(values: Integers) -> NDArray[np.int64]:
    """Shift values so that the largest is 0 if any is out of range for noise; clip values still out of range.

    With M the largest, max(value, M - 2^62) moves no further than the values do from one table to another.
    """
    if isinstance(values, np.ndarray) and -SUM_MAX <= values.min(initial=0) <= values.max(initial=0) <= SUM_MAX:
        return values
    every = integers(values)
    most = max(every) if max(map(abs, every), default=0) > SUM_MAX else 0
    return clamp_for_noise([value - most for value in every])
