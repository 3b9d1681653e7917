"""Queries of a table, and the copies of their features and statistics that read the rows."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dfprivacy._privacy.calibrate import exact_exponent
from dfprivacy._table.batch import BATCH_ROWS
from dfprivacy.errors import PluginError
from dfprivacy.features import Given, OneHot, RowFeatures, Stack
from dfprivacy.features.base import enforce_bounds
from dfprivacy.statistics import OfSums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dfprivacy.release import Reveal
    from dfprivacy.schema import Column
    from dfprivacy.statistics import Statistic

__all__ = ["L2", "Query", "copy_by_value", "pickle_by_value"]

T = TypeVar("T")
L2 = 2


@dataclass(frozen=True)
class Query:
    """Query of a table: features to sum, or a statistic to compute, with its columns and shape.

    The columns and the shape are stored, so that the price is computed from the same columns that are read.

    Attributes
    ----------
    of : RowFeatures or Statistic
        The features, as `enforce_bounds` returns them, or the statistic.
    columns : tuple of Column
        The columns that it reads; for a statistic of sums, those beside the features' columns.
    features : RowFeatures or None
        The features of a statistic of sums.
    shape : tuple of int
        The shape of its value.
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
        """Return the query of features or a statistic, with its columns and shape."""
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
        """Return the query with a copy of its features or statistic, which reads the rows; see `copy_by_value`."""
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
        """Features in the query that are not composed of other features, and its statistic if it has one."""
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

    It does not depend on the order of a `OneHot`'s groups: ``values[order]`` are in canonical order.
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
    """Pickle features, a statistic or a map by value, functions and classes of a notebook included."""
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
