"""Base class of row features, their sensitivities, and checks of the features that plugins define."""

from __future__ import annotations

import contextlib
import copy
import math
import sys
import warnings
from abc import ABCMeta, abstractmethod
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, final

import numpy as np

from dfprivacy._table.batch import Batch, apply_to_batch, declared_reads, number
from dfprivacy._words import class_description
from dfprivacy.errors import PluginError
from dfprivacy.schema.values import Dictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.frames import Read
    from dfprivacy.schema import Column
    from dfprivacy.schema.values import Raw

__all__ = [
    "FROZEN",
    "UNIT_SLACK",
    "UP",
    "Frozen",
    "Integers",
    "Norm",
    "RowFeatures",
    "SlowFeatures",
    "common_unit",
    "concatenate",
    "enforce_bounds",
    "integers",
    "root",
    "set_unless_frozen",
]

Norm = float  # 1, 2 or infinity
Integers: TypeAlias = "list[int] | NDArray[np.int64]"
"""Integers that have no end: 64 bits each in an array where all fit, else Python's in a list."""
UP = 1 + 2.0**-50
"""Above the rounding of eight operations, itself included: no rounding may lower a sensitivity."""
FROZEN = "_frozen"
"""The attribute of an object that cannot be changed any more."""
_OWN = "dfprivacy.features."
_NORMS = (1, 2, math.inf)
_DERIVED = {
    *("reads", "dimension", "n_sums", "support"),
    *("portable", "threaded", "sensitivity", "steps", "total", "totals", "image", "stacked"),
}
_CHUNK = 1 << 17  # numbers at a time, which fit the cache
_SHORT_ROW = 16  # numbers of a row up to which its norm is added up column by column
UNIT_SLACK = 2.0**-44  # of a coordinate: what is as near to a whole unit is one
_BINCOUNT_FROM = 5  # places from which on np.bincount is faster than a product of matrices; both are exact


def root(x: float | Fraction) -> float:
    """Return the square root of x, rounded up to a float whose exact square is at least x.

    Examples
    --------
    >>> root(9), root(3) > math.sqrt(3)
    (3.0, True)
    """
    root = math.sqrt(x)
    return root if Fraction(root) ** 2 >= x else math.nextafter(root, math.inf)


def integers(values: Integers) -> list[int]:
    """Convert a sequence of integers to Python integers, which never overflow."""
    return values.tolist() if isinstance(values, np.ndarray) else values


def concatenate(parts: Sequence[Integers]) -> Integers:
    """Concatenate sequences of integers."""
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if arrays and len(arrays) == len(parts):
        return np.concatenate(arrays)
    return list(chain.from_iterable(map(integers, parts)))


class Frozen(ABCMeta):
    """Metaclass that makes objects of bundled classes immutable after construction, including their arrays."""

    def __call__(cls, *args: Any, **named: Any) -> Any:
        """Construct an object; if its class is bundled, copy its arrays and make it immutable."""
        made = super().__call__(*args, **named)
        if cls.__module__.startswith(_OWN):
            attributes = vars(made)
            for name, value in attributes.items():
                if isinstance(value, np.ndarray) and value.flags.writeable:
                    attributes[name] = value = value.copy()  # noqa: PLW2901
                    value.flags.writeable = False
            attributes[FROZEN] = True
        return made


def set_unless_frozen(self: object, name: str, value: object) -> None:
    """Set an attribute of an object under construction; raise a `PluginError` once the object is frozen."""
    if FROZEN in vars(self):
        raise PluginError(
            f"{name!r} of a {type(self).__name__} cannot change: its sensitivity is proved for its first values.",
            "Construct another object.",
        )
    object.__setattr__(self, name, value)


class RowFeatures(metaclass=Frozen):
    """A bounded map from one row to a vector; mechanisms measure noisy sums of these vectors.

    A third party subclasses it, sets `columns` and `shape`, and writes `rows` and `radius`. It is asked for all but
    `rows` once, before anything is charged; its rows are clipped to the radius that it said then, by a copy of it
    that is thrown away (`enforce_bounds`). It may write `diameter` in the class of `rows`: that is a proof of
    its author's, as the sensitivity of a statistic is.

    Attributes
    ----------
    columns : tuple of Column
        The columns it reads.
    shape : tuple of int
        Shape of the sum; its product is the dimension d.
    weights : float or ndarray
        The released sum is divided by them: coordinates that matter less may be scaled down before the noise.
    unit : float or None
        A power of two of which all coordinates of all rows are integer multiples, weights included; default: None.
    description : str
        What is summed, as users read it, with ``{columns}`` for the columns' names; default: the name of the class.

    Examples
    --------
    The share of rows above a threshold, as somebody else might write it:

    >>> class Above(RowFeatures):
    ...     shape = (1,)
    ...     def __init__(self, column, threshold):
    ...         self.columns = (column,)
    ...         self.threshold = threshold
    ...     def rows(self, batch):
    ...         return (batch.values(self.columns[0]) > self.threshold)[:, None]
    ...     def radius(self, norm):
    ...         return 1.0
    """

    columns: tuple[Column, ...]
    shape: tuple[int, ...]
    weights: float | NDArray[np.float64] = 1.0
    description: ClassVar[str] = ""
    portable = False  # whether all processors give the same bits: IEEE 754 settles arithmetic and roots only
    threaded = False  # whether batches are so much work that several threads share them
    stacked: tuple[RowFeatures, ...] = ()  # parts with sums one after the other along the last axis; see `Stack`
    __setattr__ = set_unless_frozen

    @cached_property
    def reads(self) -> Sequence[Read]:
        """Requests to read the columns: as numbers if they have bounds, as categories if they have categories."""
        return [read for column in self.columns for read in declared_reads(column)]

    @property
    def dimension(self) -> int:
        """Number of coordinates of a row's vector."""
        return math.prod(self.shape)

    @cached_property
    def n_sums(self) -> int:
        """Number of coordinates that are summed over rows; `image` maps these sums to the released coordinates."""
        return self.dimension

    @cached_property
    def support(self) -> int:
        """Number of grid steps, at most, by which rounding moves the L1 distance of two rows' vectors."""
        return self.dimension

    @property
    def unit(self) -> float | None:
        """Power of two of which all coordinates of all rows, times the weights, are integer multiples; else None.

        No grid of finer steps rounds such rows, and noise may be on whole units (``grid="unit"`` of a sum).
        Somebody else's rows are cut to whole units, so a wrong claim costs accuracy only.
        """
        return None

    @abstractmethod
    def rows(self, batch: Batch) -> NDArray[Any]:
        """Return one vector for each row of a batch, multiplied by the weights, shape (batch.size, d)."""

    @abstractmethod
    def radius(self, norm: Norm) -> float:
        """Return an upper bound of the L1, L2 or L∞ norm of a row's vector; for L∞, the bound for L2 is allowed."""

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:  # noqa: ARG002
        """Return the largest L1, L2 or L∞ distance of two rows' vectors, for rows equal in the public columns."""
        return 2 * self.radius(norm)

    def sensitivity(self, relation: str, norm: float, public: frozenset[str]) -> float:
        """Return the sensitivity: the radius if a row is added or removed, the diameter if it is replaced."""
        return self.radius(norm) if relation == "add_remove" else self.diameter(norm, public)

    def steps(self, batch: Batch, k: int) -> NDArray[np.float64]:
        r"""Return a batch's vectors, clipped to the radius, as integer multiples of :math:`2^{-k}`."""
        rows = np.array(self.rows(batch), dtype=np.float64).reshape(batch.size, self.dimension)
        radius, unit = {norm: self.radius(norm) for norm in _NORMS}, self.unit
        height = max(1, _CHUNK // self.dimension)
        for start in range(0, batch.size, height):
            _clip_and_round(rows[start : start + height], radius, k, unit)
        return rows

    def total(self, batch: Batch, mask: NDArray[np.bool_] | None, k: int) -> NDArray[np.float64]:
        """Return the exact sum of the selected rows of a batch, as multiples of the grid step, shape (n_sums,)."""
        total: NDArray[np.float64] = self.totals(batch, None if mask is None else (~mask).astype(np.intp), 1, k)[0]
        return total

    def totals(self, batch: Batch, labels: NDArray[np.intp] | None, n_groups: int, k: int) -> NDArray[np.float64]:
        """Return exact sums of vectors by group, shape (n_groups, n_sums); `labels` are the rows' group indices."""
        # Integers are added: their order cannot matter. Rows with other labels are in no group.
        return _sum_by_group(self.steps(batch, k), labels, n_groups)

    def image(self, total: Integers, k: int) -> Integers:  # noqa: ARG002
        r"""Compute the coordinates to release with noise from exact sums, as multiples of :math:`2^{-k}`."""
        return total

    def describe(self) -> str:
        """Return a description of the feature for an explanation."""
        return class_description(type(self), [column.name for column in self.columns])

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if cls.__module__.startswith(_OWN):
            return
        above = [base for base in cls.__mro__ if base not in {RowFeatures, object}]
        bundled = [base.__name__ for base in above if base.__module__.startswith(_OWN)]
        if bundled:
            raise PluginError(
                f"{cls.__name__} extends {bundled[0]}, whose sensitivity is proved for its own rows only.",
                "Subclass RowFeatures, and write rows() and radius().",
            )
        # What privacy rests on is derived here from `rows` and `radius`, which are enforced.
        derived = sorted(_DERIVED & {name for base in above for name in vars(base)})
        if derived:
            raise PluginError(
                f"{cls.__name__} defines {derived!r}, itself or in a mix-in; RowFeatures computes it.",
                "Write rows(), radius() and, if it is proved, diameter() only.",
            )
        if not _diameter_fits_rows(cls):
            raise PluginError(
                f"{cls.__name__} takes diameter() and rows() from two classes, so the diameter is not proved for "
                "these rows.",
                "Write both in the same class, or rows() and radius() only.",
            )


def _sum_by_group(
    steps: NDArray[np.float64], labels: NDArray[np.intp] | None, n_groups: int
) -> NDArray[np.float64]:
    """Sum the rows' vectors by group, or over all rows if `labels` is None."""
    if labels is None:
        every: NDArray[np.float64] = steps.sum(axis=0, keepdims=True)
        return every
    if n_groups < _BINCOUNT_FROM:
        hot: NDArray[np.float64] = (labels == np.arange(n_groups)[:, None]).astype(np.float64)
        return hot @ steps
    total = np.empty((n_groups, steps.shape[1]))
    for at, each in enumerate(steps.T):
        total[:, at] = np.bincount(labels, weights=each, minlength=n_groups + 1)[:n_groups]
    return total


def common_unit(numbers: Iterable[float | None]) -> float | None:
    """Return the largest power of two of which all numbers are integer multiples; None if any number is None.

    Examples
    --------
    >>> common_unit([1.0, 0.75]), common_unit([8.0, 12.0]), common_unit([1.0, None])
    (0.25, 4.0, None)
    """
    known = list(numbers)
    if any(number is None for number in known):
        return None
    ratios = [abs(Fraction(number)) for number in known if number]
    units = [Fraction(each.numerator & -each.numerator, each.denominator) for each in ratios]
    return float(min(units)) if units else None


def _clip_and_round(
    rows: NDArray[np.float64], radius: Mapping[Norm, float], k: int, unit: float | None = None
) -> None:
    """Clip vectors to the radius in each norm, truncate to multiples of `unit`, and round to 2^-k, in place."""
    finite = np.isfinite(rows)
    if not finite.all():
        rows[~finite.all(axis=1)] = 0  # a row without a vector counts nowhere
    # In units of the radius, near 1, no square is too large or too small for float64.
    exponent = math.frexp(radius[2])[1]
    most = min(radius.values())
    np.clip(rows, -most, most, out=rows)
    np.ldexp(rows, -exponent, out=rows)
    for norm in (1, 2):
        if _all_within(most, rows.shape[1], norm, radius[norm]):
            continue
        longest = math.ldexp(radius[norm], -exponent)
        length = _norms_of_rows(rows, norm)
        over = length > longest
        if over.any():
            rows[over] *= (longest / length[over])[:, None]
    if unit is not None:  # towards 0, which takes no vector out of the radius; UNIT_SLACK is for its last bits
        power = math.frexp(unit)[1] - 1
        np.ldexp(rows, exponent - power, out=rows)
        rows *= 1 + UNIT_SLACK
        np.trunc(rows, out=rows)
        exponent = power
    np.ldexp(rows, k + exponent, out=rows)
    np.rint(rows, out=rows)


@lru_cache(maxsize=256)
def _all_within(most: float, dimension: int, norm: int, radius: float) -> bool:
    """Return whether every vector with coordinates between -most and most has a norm of at most `radius`."""
    return Fraction(most) ** norm * dimension <= Fraction(radius) ** norm


def _norms_of_rows(rows: NDArray[np.float64], norm: int) -> NDArray[np.float64]:
    """Return the L1 or L2 norm of each row; a few columns are added one by one, which is many times faster."""
    if rows.shape[1] > _SHORT_ROW:
        long: NDArray[np.float64] = np.linalg.norm(rows, ord=norm, axis=1)
        return long
    total = np.zeros(len(rows))
    for each in rows.T:
        total += np.abs(each) if norm == 1 else each * each
    return total if norm == 1 else np.sqrt(total)


def _defining_class(kind: type, name: str) -> type:
    """Return the class in the method resolution order that defines a method."""
    return next(each for each in kind.__mro__ if name in vars(each))


def _diameter_fits_rows(kind: type[RowFeatures]) -> bool:
    """Return whether `diameter` is the default one, or defined in the same class as `rows`."""
    return _defining_class(kind, "diameter") in {RowFeatures, _defining_class(kind, "rows")}


def enforce_bounds(features: RowFeatures) -> RowFeatures:
    """Return features whose bounds hold: bundled ones unchanged, a plugin's with vectors clipped to its radius.

    Parameters
    ----------
    features : RowFeatures
        The features whose sum a mechanism asks for.

    Returns
    -------
    RowFeatures
        Features whose radius, diameter and derived numbers hold whatever `rows` returns.

    Raises
    ------
    PluginError
        If it is no feature, or what it says of itself cannot be used.
    """
    if not isinstance(features, RowFeatures):
        raise PluginError(
            f"{type(features).__name__} is not a row feature.",
            "Pass an object of a class in dfprivacy.features, or of a subclass of RowFeatures.",
        )
    kind = type(features)
    own = kind.__module__.startswith(_OWN) and getattr(sys.modules[kind.__module__], kind.__name__, None) is kind
    return features if own else _ClippedFeatures(features)


@final
class _ClippedFeatures(RowFeatures):
    """A plugin's features with enforced bounds: vectors are clipped to the radius stated at construction.

    Of them, `rows` is called afterwards, and `diameter` once for each norm and set of public columns, where they
    have one of their own: before anything is charged for what rests on it. It is twice the radius at most.
    """

    def __init__(self, features: RowFeatures) -> None:
        self._features = features
        self._name = features.describe()
        self.columns = tuple(features.columns)
        self.shape = tuple(map(int, features.shape))
        self.weights = np.array(np.broadcast_to(np.asarray(features.weights, dtype=np.float64), self.shape))
        self._radius: dict[float, float] = {norm: float(features.radius(norm)) for norm in (1, 2)}
        self._radius[math.inf] = _infinity_bound(features.radius, self._radius[2])
        if not all(0 < radius < math.inf for radius in self._radius.values()):
            raise PluginError(
                f"The radius of {self._name} is {self._radius[1]!r} in L1, {self._radius[2]!r} in L2 and "
                f"{self._radius[math.inf]!r} in the norm of infinity.",
                "Let radius() return a positive, finite number for each norm.",
            )
        self._unit = _checked_unit(features.unit, self._name)
        # What hangs on the object itself is proved of nothing.
        own = type(features).diameter is not RowFeatures.diameter and _diameter_fits_rows(type(features))
        self._states_diameter = own and not vars(features).keys() & {"rows", "diameter"}
        self._diameter: dict[tuple[float, frozenset[str]], float] = {}
        with contextlib.suppress(Exception):  # what cannot be copied is refused before it sees rows
            features = copy.deepcopy(features)
        self._try_made_up_row(features)

    def _try_made_up_row(self, features: RowFeatures) -> None:
        """Call `rows` on a made-up row, so that an error can be shown without revealing data."""
        columns = {column.name: column for column in self.columns}
        row = Batch(1, {read: _made_up_value(columns[read.name], read) for read in self.reads})
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                np.array(features.rows(row.take(slice(None))), dtype=np.float64).reshape(1, self.dimension)
        except Exception as error:
            raise PluginError(
                f"{self._name} fails on a made-up row with {type(error).__name__}: {error}.",
                f"Let rows() return {self.dimension} numbers for each row of a batch.",
            ) from error

    def rows(self, batch: Batch) -> NDArray[Any]:
        """Return the vectors of a batch before clipping; zeros for a row for which the plugin fails."""
        return apply_to_batch(self._features.rows, batch, self.dimension)

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        return self._radius[norm]

    @property
    def unit(self) -> float | None:
        """Power of two stated by the plugin, to multiples of which vectors are truncated; None if not stated."""
        return self._unit

    @property
    def states_a_diameter(self) -> bool:
        """Whether the plugin states a proved diameter, which the core cannot enforce."""
        return self._states_diameter

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance of two rows' vectors: the stated diameter, or twice the radius if smaller."""
        if (norm, public) not in self._diameter:
            self._diameter[norm, public] = min(2 * self.radius(norm), self._stated_diameter(norm, public))
        return self._diameter[norm, public]

    def _stated_diameter(self, norm: Norm, public: frozenset[str]) -> float:
        if not self._states_diameter:
            return math.inf
        if norm == math.inf:
            diameter = _infinity_bound(lambda norm: self._features.diameter(norm, public), self.diameter(2, public))
        else:
            diameter = float(self._features.diameter(norm, public))
        still = all(column.name in public for column in self.columns)
        if not (diameter >= 0 if still else diameter > 0):
            raise PluginError(
                f"The L{norm:g} diameter of {self._name} is {diameter!r}.",
                "Let diameter() return a positive number, and 0 only if all columns are public.",
            )
        if self._unit is None or still:
            return diameter
        # It is proved of rows as they are: to cut them moves two apart by less than a unit in each coordinate.
        return diameter + self._unit * (1.0 if norm == math.inf else self.dimension ** (1 / norm)) * UP

    def describe(self) -> str:
        """Return a description of the feature."""
        return self._name


def _made_up_value(column: Column, read: Read) -> Raw:
    """Return a made-up value of a column: the middle of the bounds, or the first category."""
    if column.bounds is not None and read == number(column):
        return np.array([column.mid])
    categories = column.categories or ()
    return Dictionary(np.array([0 if categories else -1]), categories[:1])


def _checked_unit(unit: Any, name: str) -> float | None:
    """Return a stated unit; raise a `PluginError` unless it is None or a power of two."""
    if unit is None:
        return None
    if not isinstance(unit, int | float) or not 0 < unit < math.inf or math.frexp(unit)[0] != 1 / 2:
        raise PluginError(
            f"The unit of {name} is {unit!r}, not a power of two.",
            "Set unit to a power of two, such as 1, or to None.",
        )
    return float(unit)


def _infinity_bound(bound: Callable[[float], float], euclidean: float) -> float:
    """Return a plugin's bound for L∞ if it states one that is at most its bound for L2; else the bound for L2."""
    with contextlib.suppress(Exception):  # a class that has never heard of this norm may say or raise anything
        stated = float(bound(math.inf))
        if 0 < stated <= euclidean:
            return stated
    return euclidean


class SlowFeatures(RowFeatures):
    """Base class of features that are slow to compute: only selected rows are computed, in small blocks."""

    threaded = True

    def totals(self, batch: Batch, labels: NDArray[np.intp] | None, n_groups: int, k: int) -> NDArray[np.float64]:
        """Return the exact sums of the vectors by group, shape (n_groups, n_sums)."""
        height, total = max(16, _CHUNK // self.n_sums), np.zeros((n_groups, self.n_sums))
        for at in range(n_groups):
            rows = np.arange(batch.size) if labels is None else np.flatnonzero(labels == at)
            for start in range(0, len(rows), height):
                total[at] += self.steps(batch.take(rows[start : start + height]), k).sum(axis=0)
        return total
