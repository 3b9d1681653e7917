"""Queries of a table: copies of them that see the rows, and their price, from public numbers only."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dfprivacy._privacy import calibrate
from dfprivacy._privacy.calibrate import ROWS_MAX, cube_exponent, exact_exponent, grid_exponent
from dfprivacy._privacy.losses import Cube, Gaussian, Laplace
from dfprivacy._table.batch import BATCH_ROWS
from dfprivacy.errors import ArgumentError, PluginError
from dfprivacy.features import Given, OneHot, RowFeatures, Stack
from dfprivacy.features.base import enforce_bounds
from dfprivacy.release import MeasurementRecord
from dfprivacy.statistics import OfSums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dfprivacy._measure.evaluate import Table
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.release import Reveal
    from dfprivacy.schema import Column
    from dfprivacy.statistics import Statistic

__all__ = [
    "FINE",
    "L2",
    "NORMS",
    "Decision",
    "Grid",
    "JointShare",
    "Price",
    "Query",
    "copy_by_value",
    "grid_for",
    "pickle_by_value",
    "price_of",
    "price_with_record",
    "sensitivity_in_steps",
    "sensitivity_of",
    "unit_grid",
]

T = TypeVar("T")
L2 = 2
NORMS = {"laplace": 1, "gaussian": L2, "cube": math.inf}
"""The norm of the sensitivity that each kind of noise is scaled to."""

FINE = 30
"""The sensitivity of a statistic is about 2 to this steps of its grid."""

_UP = 1 + 2.0**-48  # above every error of a square root and two products
_SLACK = Fraction(1, 2**40)  # above that of a bound which is a float, and UNIT_SLACK


@dataclass(frozen=True)
class Query:
    """A query of a table: features to sum, or a statistic, with its columns and shape.

    What decides whether a query is free, and how much noise it gets, is then what is read.

    Attributes
    ----------
    of : RowFeatures or Statistic
        The features, as `enforce_bounds` returns them, or the statistic.
    columns : tuple of Column
        The columns that it reads; for a statistic of sums, those beside the features' columns.
    features : RowFeatures or None
        The features of a statistic of sums.
    shape : tuple of int
        Of its value.
    reveal : Reveal or None
        The rule by which noisy sums are revealed, if not all are.
    """

    of: RowFeatures | Statistic
    columns: tuple[Column, ...]
    features: RowFeatures | None
    shape: tuple[int, ...]
    reveal: Reveal | None = None

    @classmethod
    def read(cls, of: RowFeatures | Statistic, reveal: Reveal | None = None) -> Query:
        """Read the columns and the shape of features or a statistic."""
        of = enforce_bounds(of) if isinstance(of, RowFeatures) else of
        features = enforce_bounds(of.features) if isinstance(of, OfSums) else None
        return cls(of, tuple(of.columns), features, tuple(of.shape), reveal)

    @cached_property
    def key(self) -> bytes:
        """Bytes that identify the query within a call, apart from its `reveal`."""
        of = self.of, self.columns, self.shape
        try:
            return pickle.dumps(of)  # by names, where these are all that it takes, for it is sooner done
        except Exception:  # noqa: BLE001 - whatever it is, it does not travel by name
            return pickle_by_value(of)

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Positions of the query's coordinates in a kept measurement of it."""
        order = _canonical_order(self.of)
        return np.arange(self.dimension) if order is None else np.argsort(order)

    def copy(self) -> Query:
        """Return a query with a copy of its features or statistic, which alone see rows; see `copy_by_value`."""
        return replace(_unpickle_copy(self, pickle_by_value(replace(self, reveal=None))), reveal=self.reveal)

    @property
    def columns_read(self) -> tuple[Column, ...]:
        """All columns that the query may read."""
        return (*self.columns, *(self.features.columns if self.features else ()))

    def features_to_sum(self, k: int) -> tuple[RowFeatures, int] | None:
        """Return the features that are summed, and the exponent of their grid; None if whole columns are read."""
        if isinstance(self.of, RowFeatures):
            return self.of, k
        if self.features is None:
            return None
        return self.features, exact_exponent(self.features.radius(2), BATCH_ROWS)

    @property
    def simple_parts(self) -> Iterator[RowFeatures | Statistic]:
        """Simple features that the query is composed of, and its statistic if it has one."""
        if isinstance(self.of, RowFeatures):
            yield from _simple_parts(self.of)
        else:
            yield self.of
            yield from () if self.features is None else _simple_parts(self.features)

    @property
    def dimension(self) -> int:
        """Number of coordinates of the query's value."""
        return math.prod(self.shape)


def _simple_parts(features: RowFeatures) -> Iterator[RowFeatures]:
    match features:
        case Given() | OneHot():
            yield from () if features.of is None else _simple_parts(features.of)
        case Stack():
            for each in features.features:
                yield from _simple_parts(each)
        case _:
            yield features


def _canonical_order(features: object) -> NDArray[np.intp] | None:
    """Return the order in which the coordinates of features are stored; None if it is their own order.

    It does not depend on that of a `OneHot`'s groups: ``values[order]`` are in canonical order.
    """
    match features:
        case OneHot():
            of = _canonical_order(features.of)
            width = 1 if features.of is None else features.of.dimension
            first = np.argsort(features.by.codes(features.groups))
            return (first[:, None] * width + (np.arange(width) if of is None else of)).ravel()
        case Given():
            order = _canonical_order(features.of)
            tallied = features.tally is not None  # as the last coordinate
            return order if order is None or not tallied else np.append(order, len(order))
        case Stack():
            orders, start = [], 0
            for each in features.features:
                order = _canonical_order(each)
                orders.append(start + (np.arange(each.dimension) if order is None else order))
                start += each.dimension
            return np.concatenate(orders)
    return None


def copy_by_value(original: T) -> T:
    """Copy an object that will see rows, so that the caller cannot read what the object stores of the rows.

    Parameters
    ----------
    original : object
        Features, a statistic, or a map to labels.

    Returns
    -------
    object
        A copy by value, functions and classes of a notebook included, as it would travel to another process.

    Raises
    ------
    PluginError
        If it holds what cannot travel, such as a curator, a generator or an open file.
    """
    return _unpickle_copy(original, pickle_by_value(original))


def _unpickle_copy(original: T, written: bytes) -> T:
    try:
        return pickle.loads(written)  # type: ignore[no-any-return]  # noqa: S301 - made just now
    except Exception as error:
        raise _copy_error(original, error) from error


def pickle_by_value(original: object) -> bytes:
    """Write features, a statistic or a map as bytes, as they would travel to another process."""
    import cloudpickle  # not needed before the first measurement

    try:
        return cloudpickle.dumps(original)  # type: ignore[no-any-return]
    except Exception as error:
        raise _copy_error(original, error) from error


def _copy_error(original: object, error: Exception) -> PluginError:
    return PluginError(
        f"{type(original).__name__} cannot be copied ({type(error).__name__}), and only a copy may see rows.",
        "Let its attributes be columns, numbers and functions only.",
    )


@dataclass(frozen=True)
class Grid:
    """A grid of steps 2^-k, and a sensitivity in steps, rounding included."""

    k: int
    steps: Fraction

    @property
    def squared_sensitivity(self) -> int:
        """The squared sensitivity, a whole number."""
        return math.ceil(self.steps * self.steps)


@dataclass(frozen=True)
class JointShare:
    """Share of one sum in the mu squared of a joint measurement, and the exponent k of the sum's grid."""

    loss: Gaussian
    part: Fraction
    k: int

    @property
    def mu_squared(self) -> Fraction:
        """Mu squared of the part, under Rényi DP and under Gaussian DP, where the loss is charged a little more."""
        return self.part * self.loss.squared_sensitivity / Fraction(self.loss.scale) ** 2

    def scale(self, squared: int) -> float:
        """Return the scale of the sum's noise for a squared sensitivity; it is at least the scale of the loss."""
        need = squared / (self.part * self.loss.squared_sensitivity)
        return self.loss.scale * max(1.0, math.sqrt(need) * _UP)


@dataclass(frozen=True)
class Price:
    """The price of measuring a query: the kind of noise, its grid, its scale in steps, and the privacy losses.

    What was paid jointly has none. The measurement says the same in words.
    """

    query: Query
    noise: str
    grid: Grid
    scale: float
    losses: tuple[PrivacyLoss, ...]
    record: MeasurementRecord


@dataclass(frozen=True)
class Decision:
    """A planned decision, with the sensitivity of its statistic in steps of 2^-k; from public numbers only."""

    what: str
    kind: str
    epsilon: Fraction
    k: int
    steps: int
    query: Query

    def record_at_scale(self, scale: float) -> MeasurementRecord:
        """Return the record of the decision, with noise of a scale in steps."""
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
    """Return the sensitivity of a query, without rounding errors; raise a `PluginError` if it is 0."""
    sensitivity = table.sensitivity(query.of, norm)
    if not sensitivity > 0:
        raise PluginError(
            f"The sensitivity of {query.of.describe()} is 0, but it reads private columns.",
            "Return a sensitivity above 0. A value that depends on no private column needs no measurement.",
        )
    return sensitivity


def price_of(
    table: Table, query: Query, noise: str, epsilon: Fraction, delta: Fraction, *, whole_units: bool = False
) -> Price:
    """Return the price of a measurement with one kind of noise; Laplace noise may be on whole units."""
    grid = grid_for(table, query, NORMS[noise], epsilon, cube=noise == "cube")
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
    return Price(query, noise, grid, scale, losses, record)


def grid_for(table: Table, query: Query, norm: float, epsilon: Fraction, *, cube: bool = False) -> Grid:
    """Return the grid of a measurement, with the sensitivity in steps of the grid."""
    sensitivity = sensitivity_of(table, query, norm)
    if sensitivity == math.inf:
        raise ArgumentError(
            f"{query.of.describe()} has no bounded sensitivity on rows whose selection or number is private.",
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
    """Return the grid whose step is the features' unit, with the L1 sensitivity; the fine grid if that is coarser.

    Vectors of whole units are whole units apart, so their distance is the whole number below its bound, and
    nothing is rounded; docs/explanation/exact-arithmetic.md.
    """
    unit = query.of.unit if isinstance(query.of, RowFeatures) else None
    if unit is None or unit < Fraction(2) ** -fine.k:
        return fine
    apart = Fraction(sensitivity_of(table, query, 1)) / Fraction(unit)
    return Grid(1 - math.frexp(unit)[1], Fraction(max(1, math.floor(apart * (1 + _SLACK)))))


def sensitivity_in_steps(table: Table, query: Query, norm: float, k: int, sensitivity: float) -> Fraction:
    """Return the sensitivity in steps of 2 to the minus k, rounding included."""
    if isinstance(query.of, RowFeatures):
        # Rounding moves a coordinate by half a step, so the difference of two rows by at most one step in each
        # of `support` coordinates (two rows that differ in which ones: half a step in twice as many).
        # Where only sums are rounded, `support` counts the coordinates of both rows. Each of a person's rows is
        # rounded, and all may be rounded alike.
        moved, error, rows = query.of.support, Fraction(0), table.max_rows_per_person
    else:
        moved, rows = query.dimension, 1
        error = 2 * _nonnegative_claim(query.of, "error") + _rounding_error(table, query.of, query.features)
    many = rows * (1.0 if norm == math.inf else moved ** (1 / norm))
    # One step more covers the rounding of the sensitivity itself.
    return (Fraction(sensitivity) + error * Fraction(many)) * Fraction(2) ** k + Fraction(many) + 1


def _rounding_error(table: Table, statistic: Statistic, features: RowFeatures | None) -> Fraction:
    """Return a bound of the change that rounded sums make to a statistic's distance on two tables; see `OfSums`."""
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
    return 2 * rows * each * _nonnegative_claim(statistic, "lipschitz")


def _nonnegative_claim(statistic: Statistic, name: str) -> Fraction:
    """Return an attribute of a statistic; raise a `PluginError` if it is negative, which would reduce the noise."""
    claimed = float(getattr(statistic, name))
    if not 0 <= claimed < math.inf:
        raise PluginError(
            f"{name} = {claimed!r} of {statistic.describe()} is not a valid bound.",
            "Set it to a finite number that is not negative.",
        )
    return Fraction(claimed)
