"""Price of a query, from public numbers only: its sensitivity, its grid and its noise; and requests to pay it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dfprivacy._measure.query import L2, Query
from dfprivacy._privacy import calibrate
from dfprivacy._privacy.calibrate import ROWS_MAX, cube_exponent, exact_exponent, grid_exponent
from dfprivacy._privacy.losses import Cube, Gaussian, Laplace
from dfprivacy._table.batch import BATCH_ROWS
from dfprivacy.errors import ArgumentError, PluginError
from dfprivacy.features import RowFeatures
from dfprivacy.release import MeasurementRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy._measure.evaluate import Table
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.statistics import Statistic

__all__ = [
    "FINE",
    "NORMS",
    "DecisionPlan",
    "Grid",
    "JointShare",
    "Price",
    "RowRequest",
    "measurement_grid",
    "measurement_price",
    "positive_sensitivity",
    "price_with_record",
    "sensitivity_in_steps",
    "unit_grid",
]

NORMS = {"laplace": 1, "gaussian": L2, "cube": math.inf}
"""Norm of the sensitivity to which each kind of noise is scaled."""

FINE = 30
"""The grid step of a statistic is about its sensitivity times 2 to the minus this."""

_UP = 1 + 2.0**-48  # above every error of a square root and two products
_SLACK = Fraction(1, 2**40)  # above that of a bound which is a float, and UNIT_SLACK


@dataclass(frozen=True)
class Grid:
    """Grid of the multiples of 2^-k, and the sensitivity in grid steps, rounding included."""

    k: int
    steps: Fraction

    @property
    def squared_sensitivity(self) -> int:
        """Squared sensitivity in grid steps, rounded up to an integer."""
        return math.ceil(self.steps * self.steps)


@dataclass(frozen=True)
class JointShare:
    """Share of a sum or selection in the squared mu of a joint Gaussian measurement, and its grid exponent k."""

    loss: Gaussian
    part: Fraction
    k: int

    @property
    def mu_squared(self) -> Fraction:
        """Squared mu of this share, under Rényi DP; Gaussian DP charges the joint loss a little more."""
        return self.part * self.loss.squared_sensitivity / Fraction(self.loss.scale) ** 2

    def scale(self, squared: int) -> float:
        """Return the scale of the sum's noise for a squared sensitivity; at least the scale of the joint loss."""
        need = squared / (self.part * self.loss.squared_sensitivity)
        return self.loss.scale * max(1.0, math.sqrt(need) * _UP)


@dataclass(frozen=True)
class Price:
    """Price of measuring a query: the kind of noise, its grid, its scale in grid steps, and the privacy losses.

    A measurement that was paid jointly has no losses of its own. The record describes the same in words.
    """

    query: Query
    noise: str
    grid: Grid
    scale: float
    losses: tuple[PrivacyLoss, ...]
    record: MeasurementRecord


@dataclass(frozen=True)
class DecisionPlan:
    """Plan of a decision: its epsilon, and the sensitivity of its statistic in grid steps of 2^-k."""

    what: str
    kind: str
    epsilon: Fraction
    k: int
    steps: int
    query: Query

    def record_at_scale(self, scale: float) -> MeasurementRecord:
        """Return the record of the decision, given the scale of its noise in grid steps."""
        return MeasurementRecord(
            what=self.what,
            kind=self.kind,
            scale=math.ldexp(scale, -self.k),
            grid=self.k,
            sensitivity=math.ldexp(self.steps, -self.k),
            epsilon=float(self.epsilon),
            delta=0.0,
        )


def positive_sensitivity(table: Table, query: Query, norm: float) -> float:
    """Return the sensitivity of a query, without rounding errors; raise a `PluginError` if it is 0."""
    sensitivity = table.sensitivity(query.of, norm)
    if not sensitivity > 0:
        raise PluginError(
            f"The sensitivity of {query.of.describe()} is 0, but it reads private columns.",
            "Return a sensitivity above 0. A value that depends on no private column needs no measurement.",
        )
    return sensitivity


def measurement_price(
    table: Table, query: Query, noise: str, epsilon: Fraction, delta: Fraction, *, whole_units: bool = False
) -> Price:
    """Return the price of a measurement; with `whole_units`, Laplace noise is a multiple of the features' unit."""
    grid = measurement_grid(table, query, NORMS[noise], epsilon, cube=noise == "cube")
    if whole_units and noise == "laplace":
        grid = unit_grid(table, query, grid)
    loss: PrivacyLoss
    if noise == "gaussian":
        scale = calibrate.gaussian_scale(grid.squared_sensitivity, query.dimension, epsilon, delta)
        loss = Gaussian(grid.squared_sensitivity, scale, query.dimension, epsilon, delta)
    else:
        delta, steps = Fraction(0), math.ceil(grid.steps)
        scale = calibrate.laplace_scale(steps, epsilon)
        loss = Cube(epsilon, steps, scale) if noise == "cube" else Laplace(steps, scale, epsilon)
    return price_with_record(query, noise, grid, scale, (epsilon, delta), loss)


def price_with_record(
    query: Query, noise: str, grid: Grid, scale: float, cost: tuple[Fraction, Fraction], *losses: PrivacyLoss
) -> Price:
    """Return the price of a measurement, with a record that describes it in words."""
    measurand = query.of
    epsilon, delta = map(float, cost)
    what = measurand.describe()
    if isinstance(measurand, RowFeatures):
        what = f"the {'sum' if measurand.dimension == 1 else 'sums'} of {what}"
    record = MeasurementRecord(
        what=what if query.reveal is None else f"{what}, {query.reveal.describe()}",
        kind="K-norm (cube)" if noise == "cube" else f"discrete {noise.capitalize()}",
        scale=math.ldexp(scale, -grid.k),
        grid=grid.k,
        sensitivity=math.ldexp(float(grid.steps), -grid.k),
        epsilon=epsilon,
        delta=delta,
        dimension=query.dimension if noise == "cube" else 1,
    )
    return Price(query, noise, grid, scale, losses, record)


def measurement_grid(table: Table, query: Query, norm: float, epsilon: Fraction, *, cube: bool = False) -> Grid:
    """Return the grid of a measurement, with the sensitivity in steps of the grid."""
    sensitivity = positive_sensitivity(table, query, norm)
    if sensitivity == math.inf:
        raise ArgumentError(
            f"The sensitivity of {query.of.describe()} is infinite if the selection or number of rows is private.",
            "Use all rows, rows selected by public columns, or a table whose size is public.",
        )
    if isinstance(query.of, RowFeatures):
        size = table.schema.size
        k = grid_exponent(
            radius=query.of.radius(2),
            batch_rows=BATCH_ROWS,
            rows_max=ROWS_MAX if size is None else size,
            noise=sensitivity / float(epsilon),
        )
    else:
        k = FINE - math.frexp(sensitivity)[1]
    if cube:
        k = min(k, cube_exponent(query.dimension, sensitivity / float(epsilon)))
    return Grid(k, sensitivity_in_steps(table, query, norm, k, sensitivity))


def unit_grid(table: Table, query: Query, fine: Grid) -> Grid:
    """Return the grid whose step is the features' unit; the grid `fine` if they have no unit, or a smaller one.

    Vectors of whole units are whole units apart, so their distance is the integer below its bound, and
    nothing is rounded; docs/explanation/exact-arithmetic.md.
    """
    unit = query.of.unit if isinstance(query.of, RowFeatures) else None
    if unit is None or unit < Fraction(2) ** -fine.k:
        return fine
    apart = Fraction(positive_sensitivity(table, query, 1)) / Fraction(unit)
    return Grid(1 - math.frexp(unit)[1], Fraction(max(1, math.floor(apart * (1 + _SLACK)))))


def sensitivity_in_steps(table: Table, query: Query, norm: float, k: int, sensitivity: float) -> Fraction:
    """Return the sensitivity in grid steps of 2^-k, rounding included."""
    if isinstance(query.of, RowFeatures):
        # Rounding moves a coordinate by half a step, so the difference of two rows by at most one step in each
        # of `support` coordinates (two rows that differ in which ones: half a step in twice as many).
        # Where only sums are rounded, `support` counts the coordinates of both rows. Each of a person's rows is
        # rounded, and all may be rounded alike.
        moved, error, rows = query.of.support, Fraction(0), table.max_rows_per_person
    else:
        moved, rows = query.dimension, 1
        error = 2 * _declared_bound(query.of, "error") + _rounding_error(table, query.of, query.features)
    many = rows * (1.0 if norm == math.inf else moved ** (1 / norm))
    # One step more covers the rounding of the sensitivity itself.
    return (Fraction(sensitivity) + error * Fraction(many)) * Fraction(2) ** k + Fraction(many) + 1


def _rounding_error(table: Table, statistic: Statistic, features: RowFeatures | None) -> Fraction:
    """Return a bound on how far rounding of sums moves a statistic's difference between neighbouring tables."""
    if features is None:
        return Fraction(0)
    size = table.schema.size
    rows = ROWS_MAX if size is None else size + 1
    step = Fraction(2) ** -exact_exponent(features.radius(L2), BATCH_ROWS)
    unit = Fraction(features.unit or 0)
    if unit >= step and rows * Fraction(features.radius(1)) <= 2**53 * unit:  # float64 holds such sums
        return Fraction(0)
    # Half a step in each coordinate of each row, and half a unit in the last place of a sum and its quotient.
    each = step * features.support / 2 + Fraction(features.radius(1)) / 2**52
    return 2 * rows * each * _declared_bound(statistic, "lipschitz")


def _declared_bound(statistic: Statistic, name: str) -> Fraction:
    """Return a bound that a statistic declares; raise a `PluginError` if it is negative or not finite."""
    claimed = float(getattr(statistic, name))
    if not 0 <= claimed < math.inf:
        raise PluginError(
            f"{name} = {claimed!r} of {statistic.describe()} is not a valid bound.",
            "Set it to a finite number that is not negative.",
        )
    return Fraction(claimed)


@dataclass(eq=False, kw_only=True)
class RowRequest:
    """Request of a curator for one result: the losses to charge, the query to read, and the noise to add.

    Attributes
    ----------
    table : Table
        The rows.
    losses, reserve : sequence of PrivacyLoss
        The losses to charge, and the losses that must fit into the budget afterwards.
    query : Query, optional
        The query that reads them.
    k : int
        Exponent of the grid: the exact value is in steps of 2^-k.
    price : Price, optional
        The noise that is added; the result is a `NoisyResult` then.
    answer : callable
        Function that computes the result without a price: of the exact value if there is one.
    blank : object
        The result in a plan.
    paid : bool
        Whether it was paid before, with others, so that it has no losses of its own.
    description : str, optional
        The description under which a measurement is kept.
    result : object
        The result.
    """

    table: Table
    losses: Sequence[PrivacyLoss] = ()
    reserve: Sequence[PrivacyLoss] = ()
    query: Query | None = None
    k: int = 0
    price: Price | None = None
    answer: Callable[..., Any] = lambda value: value
    blank: Any = None
    paid: bool = False
    description: str | None = None
    result: Any = None
