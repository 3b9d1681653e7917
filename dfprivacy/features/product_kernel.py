"""Gaussian product kernel of rows of numbers and categories, with public bounds on its values."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dfprivacy._privacy.conversions import float_above
from dfprivacy.errors import ArgumentError
from dfprivacy.features.base import UP, Frozen, set_unless_frozen
from dfprivacy.schema import as_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy.schema import Column

__all__ = ["ProductKernel", "sobol", "spread"]

_FLOAT_BITS = 53
_ROWS_BITS, _POINTS_BITS, _POINTS_BITS_MIN = 40, 14, 8  # of a lengthscale, to which numbers are rounded
_LOG_OF_ZERO = -64.0  # a logarithm whose exponential is 0 beside any rounding


@final
class ProductKernel(metaclass=Frozen):
    r"""Gaussian kernel of the numeric columns, times a factor for each categorical column in which two rows differ.

    .. math:: k(x, x') = \exp\Bigl(-\sum_i \frac{(x_i - x_i')^2}{2\ell_i^2}\Bigr) \prod_{c\,:\,x_c \ne x_c'} \rho_c

    It lies in [0, 1], is 1 where the rows are equal, and is positive definite for :math:`0 \le \rho_c < 1`.

    Parameters
    ----------
    columns : sequence of Column
        The columns that make a row. One with bounds is a number, any other a category.
    lengthscale : float or mapping of str to float
        :math:`\ell_i`, in the column's units: one for all numbers, or one for each by name.
    mismatch : float or mapping of str to float
        :math:`\rho_c` in [0, 1): what a different category leaves of the kernel.

    Notes
    -----
    A row is, in what follows, an array with one entry for each column: a number in the column's units, or the
    code of a category.

    **Exact exponents.** An exponent is the scalar product of a vector of the row (`left_factors`) and a vector of a
    public point (`right_factors`). Numbers, in lengthscales from the middle of their bounds, are rounded to a
    binary grid, those of points to a coarser one: both so that every partial sum of the product is an integer
    of steps below 2\ :sup:`53`, exact in float64. So a kernel value is a pure function of its row, whatever matrix
    product, batch, position or number of threads it came from. The rounding is part of the map: it moves a row by
    less than 10\ :sup:`-8` lengthscales, and a point (`snap`) by less than 10\ :sup:`-4`, for bounds of up to some
    hundred.
    """

    __setattr__ = set_unless_frozen

    def __init__(
        self,
        columns: Sequence[Column],
        lengthscale: float | Mapping[str, float] = 1.0,
        mismatch: float | Mapping[str, float] = 0.5,
    ) -> None:
        self.columns = tuple(columns)
        if len({column.name for column in self.columns}) < len(self.columns) or not self.columns:
            raise ArgumentError("A kernel needs at least one column, each once.", "Name the columns of a row.")
        self.numbers = tuple(i for i, column in enumerate(self.columns) if column.bounds is not None)
        self.categories = tuple(i for i, column in enumerate(self.columns) if column.bounds is None)
        for i in self.categories:
            if not self.columns[i].categories:
                raise ArgumentError(
                    f"Column {self.columns[i].name!r} has neither bounds nor categories.", "Declare one of them."
                )
        self.lengthscales = np.array(
            [self._checked_lengthscale(self.columns[i], lengthscale) for i in self.numbers]
        )
        self._mids = np.array([self.columns[i].mid for i in self.numbers])
        with np.errstate(over="ignore"):
            halves = np.array([self.columns[i].half for i in self.numbers]) / self.lengthscales
            # |u w| + |u|²/2 + |w|²/2 of numbers, and the logarithms of categories
            largest = 2 * float(np.sum((halves + 1) ** 2)) - _LOG_OF_ZERO * len(self.categories)
        bits = _FLOAT_BITS - 2 - math.ceil(math.log2(min(max(largest, 1.0), 2.0**_FLOAT_BITS)))
        self._points_q = min(_POINTS_BITS, bits // 3)
        self._rows_q = min(_ROWS_BITS, bits - self._points_q)
        if self._points_q < _POINTS_BITS_MIN:
            raise ArgumentError(
                "The lengthscale is too small: the bounds are thousands of lengthscales apart.",
                "Give a larger lengthscale, or narrower bounds.",
            )
        self._logarithms = np.array([self._log_of_mismatch(self.columns[i], mismatch) for i in self.categories])
        self.mismatches = np.exp(self._logarithms)

    @staticmethod
    def _checked_lengthscale(column: Column, width: float | Mapping[str, float]) -> float:
        value = as_number(_value_for_column(width, column, "lengthscale"), "lengthscale")
        if not 0 < value < math.inf:
            raise ArgumentError(
                f"lengthscale={value!r} is not above 0.", "Give a positive number in the column's units."
            )
        return value

    def _log_of_mismatch(self, column: Column, mismatch: float | Mapping[str, float]) -> float:
        value = as_number(_value_for_column(mismatch, column, "mismatch"), "mismatch")
        if not 0 <= value < 1:
            raise ArgumentError(f"mismatch={value!r} is not in [0, 1).", "For example mismatch=0.5.")
        if len(column.categories or ()) == 1:
            return 0.0  # it never differs
        if value == 0:
            return _LOG_OF_ZERO
        return max(_LOG_OF_ZERO, float(_round_to_multiples(np.float64(math.log(value)), self._exponent_q)))

    @property
    def _exponent_q(self) -> int:
        return self._rows_q + self._points_q

    def scaled(self, numbers: NDArray[np.float64], j: int) -> NDArray[np.float64]:
        """Return numbers of the j-th numeric column minus the middle of its bounds, divided by its lengthscale."""
        scaled: NDArray[np.float64] = (numbers - self._mids[j]) / self.lengthscales[j]
        return scaled

    def _rounded_scaled(self, numbers: NDArray[np.float64], j: int, q: int | None) -> NDArray[np.float64]:
        """Return scaled numbers of the j-th numeric column, rounded to multiples of 2^-q unless q is None."""
        rounded: NDArray[np.float64] = _round_to_multiples(self.scaled(numbers, j), q)
        return rounded

    @property
    def width(self) -> int:
        """Number of entries of the vectors that `left_factors` and `right_factors` return."""
        return len(self.numbers) + 2 + sum(self._number_of_categories(i) + 1 for i in self.categories)

    def _number_of_categories(self, i: int) -> int:
        return len(self.columns[i].categories or ())

    def columns_of(self, batch: Batch) -> list[NDArray[Any]]:
        """Return the numbers and codes of the rows of a batch, one array for each column."""
        return [batch.values(c) if c.bounds is not None else batch.codes(c) for c in self.columns]

    def left_factors(
        self, columns: Sequence[NDArray[Any]] | NDArray[Any], *, exact: bool = True
    ) -> NDArray[np.float64]:
        """Return a vector for each row; its scalar product with one of `right_factors` is a log kernel value."""
        return self._left_factors(columns, self._rows_q if exact else None)

    def _left_factors(self, columns: Sequence[NDArray[Any]] | NDArray[Any], q: int | None) -> NDArray[np.float64]:
        n, d = len(columns[0]), len(self.numbers)
        left = np.zeros((n, self.width))
        squares = np.zeros(n)
        for j, i in enumerate(self.numbers):
            u = self._rounded_scaled(columns[i], j, q)
            left[:, j] = u
            squares += u * u
        left[:, d] = _round_to_multiples(squares / -2, None if q is None else self._exponent_q)
        left[:, d + 1] = 1
        at = d + 2
        for i in self.categories:
            left[np.arange(n), at + columns[i].astype(np.intp)] = 1
            at += self._number_of_categories(i) + 1
        return left

    def right_factors(
        self, columns: Sequence[NDArray[Any]] | NDArray[Any], *, exact: bool = True
    ) -> NDArray[np.float64]:
        """Return a vector for each point; its scalar product with one of `left_factors` is a log kernel value."""
        n, d = len(columns[0]), len(self.numbers)
        right = np.zeros((n, self.width))
        for j, i in enumerate(self.numbers):
            w = self._rounded_scaled(columns[i], j, self._points_q if exact else None)
            right[:, j] = w
            right[:, d + 1] -= w * w / 2
        right[:, d] = 1
        at = d + 2
        for i, logarithm in zip(self.categories, self._logarithms, strict=True):
            levels = self._number_of_categories(i)
            right[:, at : at + levels] = np.where(np.arange(levels) == columns[i][:, None], 0.0, logarithm)
            right[:, at + levels] = _LOG_OF_ZERO  # a row without a category is like no other
            at += levels + 1
        return right

    def snap(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return public points rounded to the grid of `right_factors`, and within the bounds."""
        snapped = points.copy()
        for j, i in enumerate(self.numbers):
            column, step = self.columns[i], 2.0**-self._points_q
            w = self._rounded_scaled(points[:, i], j, self._points_q)
            placed = column.mid + w * self.lengthscales[j]
            outside = (placed < column.low) | (placed > column.high)  # one step towards the middle is within
            snapped[:, i] = np.where(outside, column.mid + (w - np.sign(w) * step) * self.lengthscales[j], placed)
        return snapped

    def __call__(self, rows: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the kernel matrix of public rows and other public rows, without rounding them to a grid."""
        exponents: NDArray[np.float64] = (
            self.left_factors(rows.T, exact=False) @ self.right_factors(others.T, exact=False).T
        )
        np.minimum(exponents, 0, out=exponents)
        return np.exp(exponents, out=exponents)

    def gram(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the symmetric kernel matrix of points on the grid of `right_factors`; only `exp` rounds."""
        exponents: NDArray[np.float64] = (
            self._left_factors(points.T, self._points_q) @ self.right_factors(points.T).T
        )
        return np.exp(exponents, out=exponents)

    @property
    def excess(self) -> float:
        """Upper bound on the excess over 1, from rounding, of a row's norm in the kernel's feature space."""
        # The sum of d squares is off by d roundings of 2^(50-q) at most, half of it is rounded to 2^-q.
        return 2.0**-self._exponent_q * (1 + len(self.numbers) / 8) + 2.0**-50

    def smallest(self, public: frozenset[str] = frozenset()) -> float:
        """Return the least kernel value of two rows within the bounds that agree on the public columns.

        Parameters
        ----------
        public : frozenset of str
            Names of the columns on which the two rows agree.

        Returns
        -------
        float
            In [0, 1], rounded down.
        """
        return math.exp(-self._largest_exponent(public, self._rows_q)) / UP

    @cached_property
    def _exponents(self) -> dict[tuple[frozenset[str], int | None], float]:
        """Cache of the results of `_largest_exponent`."""
        return {}

    def _largest_exponent(self, public: frozenset[str], q: int | None) -> float:
        """Return minus the logarithm of the least kernel value of two rows, rounded up."""
        if (public, q) not in self._exponents:
            self._exponents[public, q] = self._compute_exponent(public, q)
        return self._exponents[public, q]

    def _compute_exponent(self, public: frozenset[str], q: int | None) -> float:
        exponent = Fraction(0)
        for j, i in enumerate(self.numbers):
            column = self.columns[i]
            if column.name not in public:
                low, high = self._rounded_scaled(np.array([column.low, column.high]), j, q)
                exponent += (Fraction(float(high)) - Fraction(float(low))) ** 2 / 2
        for i, logarithm in zip(self.categories, self._logarithms, strict=True):
            if self.columns[i].name not in public:
                exponent -= Fraction(float(logarithm))
        return float_above(exponent)

    def distance(self, public: frozenset[str] = frozenset(), *, exact: bool = True) -> float:
        r"""Return the largest distance of two rows in the kernel's feature space, √(2 - 2k) at the least kernel k.

        A row without one of the categories counts nowhere; it is at the distance 1 from all others.

        Parameters
        ----------
        public : frozenset of str
            Names of the columns on which the two rows agree.
        exact : bool
            Whether rows are where `left_factors` has them; if not, where `scaled` does.

        Returns
        -------
        float
            An upper bound with all rounding, √2 at most but for that. 0 only if all columns are public.

        Notes
        -----
        Rounding keeps the order of numbers, so no two rows are further apart than the bounds are, rounded alike;
        their distance is computed in fractions. :math:`2 - 2e^{-x}` is taken as -2 expm1(-x), which cancels
        nothing: near x = 0 the distance is that of the numbers, not 0. A row's vector is, but for the rounding of
        the exponential, :math:`e^\eta \phi(x)` with :math:`e^{|\eta|} \le 1 +` `excess`; two move apart by twice
        that.
        """
        if all(column.name in public for column in self.columns):
            return 0.0
        exponent = self._largest_exponent(public, self._rows_q if exact else None)
        farthest = math.sqrt(-2 * math.expm1(-exponent)) * UP
        nowhere = any(not self.columns[i].other and self.columns[i].name not in public for i in self.categories)
        return max(farthest, 1.0 if nowhere else 0.0) + 2 * self.excess

    def check(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return public points as an array; raise an `~dfprivacy.ArgumentError` for a wrong shape or values."""
        rows = np.asarray(points, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.columns) or not len(rows):  # noqa: PLR2004
            raise ArgumentError(
                f"Points of shape {rows.shape} do not fit {len(self.columns)} columns.",
                "Give at least one point, with one number or category code for each column.",
            )
        for i, column in enumerate(self.columns):
            if column.bounds is not None:
                inside = (rows[:, i] >= column.low) & (rows[:, i] <= column.high)
            else:
                inside = np.isin(rows[:, i], np.arange(self._number_of_categories(i)))
            if not inside.all():
                raise ArgumentError(
                    f"{int((~inside).sum())} of {len(rows)} points lie outside the bounds or categories "
                    f"of column {column.name!r}.",
                    "Rows are clipped to the bounds, so points outside are useless: leave them out.",
                )
        return rows

    def describe(self) -> str:
        """Return the names of the kernel's columns, separated by commas."""
        return ", ".join(column.name for column in self.columns)


def _round_to_multiples(values: Any, q: int | None) -> Any:
    """Round values to integer multiples of 2^-q; return them unchanged if q is None."""
    return values if q is None else np.rint(values * 2.0**q) / 2.0**q


def _value_for_column(parameter: float | Mapping[str, float], column: Column, argument: str) -> object:
    if isinstance(parameter, (int, float)) or not hasattr(parameter, "get"):
        return parameter
    if column.name not in parameter:
        raise ArgumentError(
            f"{argument} has no value for column {column.name!r}.", "Give one value for each column."
        )
    return parameter[column.name]


@lru_cache(maxsize=8)
def sobol(dimension: int, n: int) -> NDArray[np.float64]:
    """Return the first points of the unscrambled Sobol sequence; their number is n rounded up to a power of two.

    Parameters
    ----------
    dimension : int
        That of the cube.
    n : int
        Number of points that are needed, at least 1.

    Returns
    -------
    ndarray of shape (points, dimension)
        Points in [0, 1), of which the first is 0. Read-only.
    """
    from scipy.stats import qmc  # SciPy takes longer to import than all of dfprivacy

    points: NDArray[np.float64] = qmc.Sobol(dimension, scramble=False).random_base2(math.ceil(math.log2(n)))
    points.setflags(write=False)
    return points


def spread(columns: Sequence[Column], n: int) -> NDArray[np.float64]:
    """Return public points that cover the bounds and categories evenly, from the unscrambled Sobol sequence.

    Parameters
    ----------
    columns : sequence of Column
        The columns of a row.
    n : int
        Number of points, at least 1. Powers of two cover best.

    Returns
    -------
    ndarray of shape (n, columns)
        Rows: numbers within the bounds, codes of categories.
    """
    sequence = sobol(len(columns), n)[:n]
    rows = np.empty(sequence.shape)
    for i, column in enumerate(columns):
        if column.bounds is not None:
            rows[:, i] = np.clip(column.low + (column.high - column.low) * sequence[:, i], column.low, column.high)
        else:
            rows[:, i] = np.floor(sequence[:, i] * len(column.categories or ()))
    return rows
