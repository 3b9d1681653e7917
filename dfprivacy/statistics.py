r"""Statistics with a proved sensitivity, for questions that sums of row features cannot answer.

A statistic is a function of the whole table whose *global sensitivity* its author has proved: how far its value
can move, over all pairs of neighbouring tables. The core cannot derive that number, so a wrong one costs privacy.
Prefer row features, whose sensitivity follows from their radius. ``dfprivacy audit`` searches for tables that prove
a claim wrong.

=================== ====================== ================================================================
Subclass            ``value`` is given     Examples
=================== ====================== ================================================================
`OfSums`            exact sums of features a chi-squared statistic of counts; streams
`OfRows`            the columns, whole     a distance covariance
`OfPermutations`    columns and a          the same, of the table and of its rearrangements, for
                    generator              `dfprivacy.Curator.permutation_test`
=================== ====================== ================================================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dfprivacy._privacy.calibrate import check_delta
from dfprivacy._privacy.conversions import EPSILON_MAX, SMALLEST, gaussian_unit_scale
from dfprivacy._words import class_description
from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dfprivacy._table.batch import Batch
    from dfprivacy.features import RowFeatures
    from dfprivacy.schema import Column

__all__ = ["OfPermutations", "OfRows", "OfSums", "Statistic", "gaussian_scale"]


class Statistic(ABC):
    """Base class of statistics: functions of the whole table with a proved global sensitivity.

    Attributes
    ----------
    columns : tuple of Column
        The columns that it reads.
    shape : tuple of int
        Shape of its value; the product is the dimension d.
    weights : float or ndarray
        The released value is divided by them: coordinates that matter less may be scaled down before the noise.
    error : float
        Bound on the floating-point error of each coordinate. Twice the bound is added to the sensitivity.
    description : str
        What it is, as users read it, with ``{columns}`` for the columns' names; default: the name of the class.
    """

    columns: tuple[Column, ...]
    shape: tuple[int, ...]
    weights: float | NDArray[np.float64] = 1.0
    description: ClassVar[str] = ""
    error: float = 0.0

    @property
    def dimension(self) -> int:
        """Number d of coordinates of the statistic's value."""
        return math.prod(self.shape)

    @abstractmethod
    def sensitivity(
        self, relation: Literal["replace_one", "add_remove"], norm: float, public: frozenset[str]
    ) -> float:
        """Return a bound of the distance between the statistic's weighted values on two neighbouring tables.

        Parameters
        ----------
        relation : {"replace_one", "add_remove"}
            ``"replace_one"``: the content of one row changes. ``"add_remove"``: there is one row more or less;
            asked for also where the rows of a view are selected or grouped by a private column.
        norm : {1, 2, inf}
            The norm.
        public : frozenset of str
            Names of the columns that are equal in the two tables.

        Returns
        -------
        float
            The bound; infinity if there is none, for which the question is refused.
        """

    def describe(self) -> str:
        """Return a description of the statistic for an explanation."""
        return class_description(type(self), [column.name for column in self.columns])


class OfSums(Statistic):
    r"""Base class of statistics computed from exact sums of row features; rows are read in batches.

    Attributes
    ----------
    features : RowFeatures
        The features that are summed.
    lipschitz : float
        How far the value moves, in any norm, for each unit that the sums, weights included, move in L1. Sums that
        are no counts are rounded, and what that may do is charged with this factor.

    Notes
    -----
    Let the sensitivity be proved for exact sums S, and :math:`|T(S) - T(S')| \le L\,|S - S'|_1`. The sums that
    `value` gets differ from S by at most e: half a step of the grid in each coordinate of each row, and half a unit
    in the last place of a sum and of its quotient by the weight. So the values on two neighbouring tables differ by
    at most the sensitivity and 2 L e. The grid is the finest on which a batch of rows adds up exactly, so e is less
    than 10⁻⁵ of one row's radius for a million rows. Counts are exact: e = 0.

    A value is released within 2³² of its sensitivities from 0; beyond, it is cut off, with a warning.

    Examples
    --------
    The larger of two counts, which one row moves by 1 at most:

    >>> class Larger(OfSums):
    ...     shape = (1,)
    ...     def __init__(self, features):
    ...         self.features = features
    ...         self.columns = features.columns
    ...     def value(self, sums):
    ...         return sums.max()
    ...     def sensitivity(self, relation, norm, public):
    ...         return 1.0
    """

    features: RowFeatures
    lipschitz: float = 1.0

    @abstractmethod
    def value(self, sums: NDArray[np.float64]) -> Any:
        """Compute the statistic from exact sums, in the shape of the features; sums of counts are integers."""


class OfRows(Statistic):
    """Base class of statistics computed from whole columns, which must fit into memory."""

    @abstractmethod
    def value(self, rows: Batch) -> Any:
        """Compute the statistic from all rows of the view: numbers clipped to bounds, and codes of categories."""


class OfPermutations(OfRows):
    """Base class of statistics for permutation tests: values on the table and on B permutations of it.

    Its value has shape (B + 1,). Its L∞ sensitivity bounds the change of each of these values, for the same
    permutations.
    """

    @abstractmethod
    def value(self, rows: Batch, rng: np.random.Generator) -> Any:  # type: ignore[override]
        """Compute the statistic on the table itself, and then on independent random permutations of its rows."""


def gaussian_scale(epsilon: float, delta: float) -> float:
    """Return the smallest standard deviation of Gaussian noise for an L2 sensitivity of 1.

    A curator's noise on sums with ``noise="gaussian"`` has this standard deviation times their sensitivity, up to
    rounding to a grid.

    Parameters
    ----------
    epsilon, delta : float
        The privacy parameters.

    Returns
    -------
    float
        The standard deviation, rounded up.

    Raises
    ------
    ArgumentError
        If epsilon is not above 0 and at most 500, or delta not above 0 and below 1.

    Notes
    -----
    The analytic Gaussian mechanism [1]_.

    References
    ----------
    .. [1] Balle and Wang (2018). Improving the Gaussian mechanism for differential privacy. ICML.

    Examples
    --------
    >>> from dfprivacy.statistics import gaussian_scale
    >>> round(gaussian_scale(1, 1e-6), 4)
    4.2247
    """
    check_delta(delta)
    if not (SMALLEST <= epsilon <= EPSILON_MAX and SMALLEST <= delta < 1):
        raise ArgumentError(
            f"Gaussian noise cannot be calibrated to epsilon = {epsilon:g} and delta = {delta:g}.",
            f"Epsilon must be above 0 and at most {EPSILON_MAX}, delta above 0 and below 1.",
        )
    return gaussian_unit_scale(epsilon, delta)
