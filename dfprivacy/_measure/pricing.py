"""The price of a measurement: its sensitivity on its grid, from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dfprivacy._measure.evaluate import L2
from dfprivacy._privacy import calibrate
from dfprivacy._privacy.calibrate import ROWS_MAX, cube_exponent, exact_exponent, grid_exponent
from dfprivacy._privacy.losses import Cube, Gaussian, Laplace
from dfprivacy._table.batch import BATCH_ROWS
from dfprivacy.errors import ArgumentError, PluginError
from dfprivacy.features import RowFeatures
from dfprivacy.release import MeasurementRecord

if TYPE_CHECKING:
    from dfprivacy._measure.evaluate import Table
    from dfprivacy._measure.query import Query
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.statistics import Statistic

__all__ = [
    "FINE",
    "NORMS",
    "Decision",
    "Grid",
    "JointShare",
    "Price",
    "check_delta",
    "grid_for",
    "price_of",
    "priced",
    "sensitivity_of",
    "steps_of",
    "unit_grid",
]

NORMS = {"laplace": 1, "gaussian": L2, "cube": math.inf}
"""The norm of the sensitivity that each kind of noise is scaled to."""

FINE = 30
"""The sensitivity of a statistic is about 2 to this steps of its grid."""

_UP = 1 + 2.0**-48  # above every error of a square root and two products
_SLACK = Fraction(1, 2**40)  # above that of a bound which is a float, and UNIT_SLACK


@dataclass(frozen=True)
class Grid:
    """A grid of steps 2^-k, and a sensitivity in steps, rounding included."""

    k: int
    steps: Fraction

    @property
    def squared(self) -> int:
        """The squared sensitivity, a whole number."""
        return math.ceil(self.steps * self.steps)


@dataclass(frozen=True)
class JointShare:
    """A part of mu squared of what was paid for a joint measurement, and the exponent of the grid for it."""

    loss: Gaussian
    part: Fraction
    k: int

    def scale(self, squared: int) -> float:
        """Scale of the noise that a squared sensitivity needs, at least that of the loss."""
        need = squared / (self.part * self.loss.squared_sensitivity)
        return self.loss.scale * max(1.0, math.sqrt(need) * _UP)


@dataclass(frozen=True)
class Price:
    """The price of a measurement: the kind of noise, a grid, the scale of the noise on it in steps, and the losses.

    What was paid jointly has none. The measurement says the same in words.
    """

    noise: str
    grid: Grid
    scale: float
    losses: tuple[PrivacyLoss, ...]
    record: MeasurementRecord


@dataclass(frozen=True)
class Decision:
    """A decision before it is paid for, from public numbers only; the sensitivity is in steps of 2^-k."""

    what: str
    kind: str
    epsilon: Fraction
    k: int
    steps: int
    query: Query

    def at(self, scale: float) -> MeasurementRecord:
        """Describe it in words, with noise of a scale in steps."""
        return MeasurementRecord(
            what=self.what,
            kind=self.kind,
            scale=math.ldexp(scale, -self.k),
            grid=self.k,
            sensitivity=math.ldexp(self.steps, -self.k),
            epsilon=float(self.epsilon),
            delta=0.0,
        )


def sensitivity_of(table: Table, query: Query, norm: float) -> float:
    """Sensitivity of what is private, before rounding."""
    sensitivity = table.sensitivity(query.of, norm)
    if not sensitivity > 0:
        raise PluginError(
            f"No row moves {query.of.describe()}, if its sensitivity is right, and yet it reads private rows.",
            "A value that does not depend on them need not be measured.",
        )
    return sensitivity


def price_of(
    table: Table, query: Query, noise: str, epsilon: Fraction, delta: Fraction, *, whole_units: bool = False
) -> Price:
    """Price a measurement with noise of a kind, Laplace noise on whole units if asked and where there are any."""
    grid = grid_for(table, query, NORMS[noise], epsilon, cube=noise == "cube")
    if whole_units and noise == "laplace":
        grid = unit_grid(table, query, grid)
    loss: PrivacyLoss
    if noise == "gaussian":
        scale = calibrate.gaussian_scale(grid.squared, query.dimension, epsilon, delta)
        loss = Gaussian(grid.squared, scale, query.dimension, epsilon, delta)
    else:
        delta, steps = Fraction(0), math.ceil(grid.steps)
        scale = calibrate.laplace_scale(steps, epsilon)
        loss = Cube(epsilon, steps, scale) if noise == "cube" else Laplace(steps, scale, epsilon)
    return priced(query, noise, grid, scale, (epsilon, delta), loss)


def priced(
    query: Query, noise: str, grid: Grid, scale: float, cost: tuple[Fraction, Fraction], *losses: PrivacyLoss
) -> Price:
    """Describe in words what a measurement costs."""
    measurand = query.of
    epsilon, delta = map(float, cost)
    what = f"the sum of {measurand.describe()}" if isinstance(measurand, RowFeatures) else measurand.describe()
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
    return Price(noise, grid, scale, losses, record)


def grid_for(table: Table, query: Query, norm: float, epsilon: Fraction, *, cube: bool = False) -> Grid:
    """Find the grid, and the sensitivity on it."""
    sensitivity = sensitivity_of(table, query, norm)
    if sensitivity == math.inf:
        raise ArgumentError(
            f"{query.of.describe()} has no bounded sensitivity on rows like these.",
            "Ask it of all rows, of rows selected by public columns, or of a table whose size is public.",
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
    return Grid(k, steps_of(table, query, norm, k, sensitivity))


def unit_grid(table: Table, query: Query, fine: Grid) -> Grid:
    """Return the grid of the unit of what is summed, and the L1 sensitivity there; the fine one if that is coarser.

    Vectors of whole units are whole units apart, so their distance is the whole number below its bound, and
    nothing is rounded; docs/explanation/exact-arithmetic.md.
    """
    unit = query.of.unit if isinstance(query.of, RowFeatures) else None
    if unit is None or unit < Fraction(2) ** -fine.k:
        return fine
    apart = Fraction(sensitivity_of(table, query, 1)) / Fraction(unit)
    return Grid(1 - math.frexp(unit)[1], Fraction(max(1, math.floor(apart * (1 + _SLACK)))))


def steps_of(table: Table, query: Query, norm: float, k: int, sensitivity: float) -> Fraction:
    """Sensitivity in steps of 2 to the minus k, rounding included."""
    if isinstance(query.of, RowFeatures):
        # Rounding moves a coordinate by half a step, so the difference of two rows by at most one step in each
        # of `support` coordinates (two rows that differ in which ones: half a step in twice as many).
        # Where only sums are rounded, `support` counts the coordinates of both rows. Each of a person's rows is
        # rounded, and all may be rounded alike.
        moved, error, rows = query.of.support, Fraction(0), table.rows_each
    else:
        moved, rows = query.dimension, 1
        error = 2 * _at_least_nothing(query.of, "error") + _rounded(table, query.of, query.features)
    many = rows * (1.0 if norm == math.inf else moved ** (1 / norm))
    # One step more covers the rounding of the sensitivity itself.
    return (Fraction(sensitivity) + error * Fraction(many)) * Fraction(2) ** k + Fraction(many) + 1


def _rounded(table: Table, statistic: Statistic, features: RowFeatures | None) -> Fraction:
    """How far the rounding of its sums can move a statistic apart on two tables; see `OfSums`."""
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
    return 2 * rows * each * _at_least_nothing(statistic, "lipschitz")


def check_delta(delta: Fraction) -> None:
    if not delta > 0:
        raise ArgumentError(
            "Gaussian noise needs a delta above zero.",
            "Protect the table with a delta, or ask for a method with Laplace noise.",
        )


def _at_least_nothing(statistic: Statistic, name: str) -> Fraction:
    """Read what a statistic says beside its sensitivity: below 0, it would take away from the noise."""
    claimed = float(getattr(statistic, name))
    if not 0 <= claimed < math.inf:
        raise PluginError(
            f"{name} = {claimed!r} of {statistic.describe()} is no bound.", "It is finite, and 0 or more."
        )
    return Fraction(claimed)
