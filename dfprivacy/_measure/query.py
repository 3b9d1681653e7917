"""Queries of a table, and the copies of them that see rows."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from dfprivacy._privacy.calibrate import exact_exponent
from dfprivacy._table.batch import BATCH_ROWS
from dfprivacy.errors import PluginError
from dfprivacy.features import Given, OneHot, RowFeatures, Stack
from dfprivacy.features.base import enforced
from dfprivacy.statistics import OfSums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dfprivacy.release import Reveal
    from dfprivacy.schema import Column
    from dfprivacy.statistics import Statistic

__all__ = ["Query", "copied", "key_of", "pickled"]

T = TypeVar("T")


@dataclass(frozen=True)
class Query:
    """A query of a table: features to sum, or a statistic, with their own claims, read once.

    What decides whether a query is free, and how much noise it gets, is then what is read.

    Attributes
    ----------
    of : RowFeatures or Statistic
        The features, as the house takes them, or the statistic.
    columns : tuple of Column
        What it looks at. Of a statistic of sums, what it names beside those of its features.
    features : RowFeatures or None
        Those whose sums a statistic is of.
    shape : tuple of int
        Of its value.
    reveal : Reveal or None
        Which of the noisy sums are shown, if not all.
    """

    of: RowFeatures | Statistic
    columns: tuple[Column, ...]
    features: RowFeatures | None
    shape: tuple[int, ...]
    reveal: Reveal | None = None

    @classmethod
    def read(cls, of: RowFeatures | Statistic) -> Query:
        """Ask features or a statistic what they look at."""
        of = enforced(of) if isinstance(of, RowFeatures) else of
        features = enforced(of.features) if isinstance(of, OfSums) else None
        return cls(of, tuple(of.columns), features, tuple(of.shape))

    def revealing(self, reveal: Reveal | None) -> Query:
        """Ask the same, and show only what a rule says."""
        return self if reveal is None else replace(self, reveal=reveal)

    @cached_property
    def key(self) -> bytes:
        """Return a hash that identifies the query within a call; the rule of what is shown is not part of it."""
        return key_of((self.of, self.columns, self.shape))

    def copy(self) -> Query:
        """Copy what is to see rows; see `copied`. A rule sees none."""
        return replace(_read_back(self, pickled(replace(self, reveal=None))), reveal=self.reveal)

    @property
    def looks_at(self) -> tuple[Column, ...]:
        """All columns that it may read."""
        return (*self.columns, *(self.features.columns if self.features else ()))

    def summed(self, k: int) -> tuple[RowFeatures, int] | None:
        """Return the features whose sums are read, and the exponent of their grid; None of whole columns."""
        if isinstance(self.of, RowFeatures):
            return self.of, k
        if self.features is None:
            return None
        return self.features, exact_exponent(self.features.radius(2), BATCH_ROWS)

    @property
    def parts(self) -> Iterator[RowFeatures | Statistic]:
        """The features of each row, without conditions and categories; of a statistic, it and its features."""
        if isinstance(self.of, RowFeatures):
            yield from _parts(self.of)
        else:
            yield self.of
            yield from () if self.features is None else _parts(self.features)

    @property
    def numbers(self) -> frozenset[Column]:
        """The columns whose numbers, limited to their bounds, its value follows from."""
        return frozenset(column for part in self.parts for column in part.columns if column.bounds is not None)

    @property
    def dimension(self) -> int:
        """Number of coordinates d of its value."""
        return math.prod(self.shape)


def _parts(features: RowFeatures) -> Iterator[RowFeatures]:
    match features:
        case Given() | OneHot():
            yield from () if features.of is None else _parts(features.of)
        case Stack():
            for each in features.features:
                yield from _parts(each)
        case _:
            yield features


def copied(original: T) -> T:
    """Copy what is to see rows, so that nothing it keeps of them is found by whoever asked.

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
    return _read_back(original, pickled(original))


def _read_back(original: T, written: bytes) -> T:
    try:
        return pickle.loads(written)  # type: ignore[no-any-return]  # noqa: S301 - made just now
    except Exception as error:
        raise _uncopied(original, error) from error


def pickled(original: object) -> bytes:
    """Write features, a statistic or a map as bytes, as they would travel to another process."""
    import cloudpickle  # not needed before the first measurement

    try:
        return cloudpickle.dumps(original)  # type: ignore[no-any-return]
    except Exception as error:
        raise _uncopied(original, error) from error


def key_of(original: object) -> bytes:
    """Write the same to be told from others: by names, where these are all that it takes, for it is sooner done."""
    try:
        return pickle.dumps(original)
    except Exception:  # noqa: BLE001 - whatever it is, it does not travel by name
        return pickled(original)


def _uncopied(original: object, error: Exception) -> PluginError:
    return PluginError(
        f"{type(original).__name__} cannot be copied ({type(error).__name__}), and only a copy may see rows.",
        "Let it hold columns, numbers and functions only.",
    )
