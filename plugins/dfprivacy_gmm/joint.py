"""Means, variances, covariances and correlations of a private table: ``view.moments``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dfprivacy import ArgumentError, Range, Release, mechanism
from dfprivacy_gmm.estimates import Sums, repaired
from dfprivacy_gmm.mechanisms import measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator

    Array = NDArray[np.float64]

__all__ = ["JointMoments", "moments"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class JointMoments(Release):
    """Moments of some columns together, in the columns' units.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    by : str or None
        The column of the groups.
    groups : tuple
        Its categories; ``("all",)`` without.
    sizes : ndarray of shape (groups,)
        Rows; noisy where they are private.
    means, mean_errors : ndarray of shape (groups, columns)
        Means, and their standard errors from noise and sampling.
    covariances, covariance_errors : ndarray of shape (groups, columns, columns)
        Covariances, positive definite, and their standard errors before they were made so.
    notes : tuple of str
        What to know before trusting the numbers.
    released : ndarray of shape (groups, coordinates)
        What all this follows from: the noisy sums, in units of y (the columns mapped from their bounds to [-1, 1]):
        rows where they are private, y, and y_i y_j for i ≤ j.
    noise_sd : ndarray of shape (coordinates,)
        Standard deviations of the noise in them.
    """

    columns: tuple[str, ...]
    by: str | None
    groups: tuple[Any, ...]
    sizes: Array
    means: Array
    mean_errors: Array
    covariances: Array
    covariance_errors: Array
    notes: tuple[str, ...]
    released: Array
    noise_sd: Array

    _shown = ("groups", "sizes", "means", "mean_errors", "variances", "notes")

    @property
    def variances(self) -> Array:
        """Variances, shape (groups, columns)."""
        return np.diagonal(self.covariances, axis1=1, axis2=2)

    @property
    def correlations(self) -> Array:
        """Correlations, shape (groups, columns, columns)."""
        sd = np.sqrt(self.variances)
        found: Array = np.clip(self.covariances / (sd[:, :, None] * sd[:, None, :]), -1.0, 1.0)
        return found

    def to_frame(self, library: str | None = None) -> Any:
        """Return a row for each group and column: size, mean, variance and their errors.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            Whose table to make; default: the library's that holds the table that was asked.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Groups times columns rows.
        """
        groups, d = len(self.groups), len(self.columns)
        alike = len({type(group) for group in self.groups}) == 1
        names = self.groups if alike else tuple(map(str, self.groups))  # a column of a table has one type
        numbers = {
            "size": np.repeat(self.sizes, d),
            "mean": self.means,
            "mean_error": self.mean_errors,
            "variance": self.variances,
            "variance_error": np.diagonal(self.covariance_errors, axis1=1, axis2=2),
        }
        fixed = ("column", *numbers)
        table: dict[str, list[Any]] = {
            **(
                {} if self.by is None else {_unused(self.by, fixed): [name for name in names for _ in self.columns]}
            ),
            "column": list(self.columns) * groups,
            **{name: values.ravel().tolist() for name, values in numbers.items()},
        }
        return self._made(table, library)

    def covariance(self, group: Any = None, library: str | None = None) -> Any:
        """Return the covariances of a group as a table.

        Parameters
        ----------
        group : category, optional
            Which; may be left out if there is one.
        library : {"pandas", "polars", "pyarrow"}, optional
            As for `to_frame`.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row and a column for each column; the first column names the row.
        """
        return self._matrix(self.covariances, group, library)

    def correlation(self, group: Any = None, library: str | None = None) -> Any:
        """Return the correlations of a group as a table.

        Parameters
        ----------
        group : category, optional
            Which; may be left out if there is one.
        library : {"pandas", "polars", "pyarrow"}, optional
            As for `to_frame`.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row and a column for each column; the first column names the row.
        """
        return self._matrix(self.correlations, group, library)

    def _matrix(self, matrices: Array, group: Any, library: str | None) -> Any:
        wanted = self.groups[0] if group is None and len(self.groups) == 1 else group
        if wanted not in self.groups:
            raise ArgumentError(f"group={group!r} is no group.", f"The groups are {list(self.groups)!r}.")
        matrix = matrices[self.groups.index(wanted)].tolist()
        rows = dict(zip(self.columns, matrix, strict=True))  # symmetric
        return self._made({_unused("column", self.columns): list(self.columns), **rows}, library)

    def _made(self, columns: dict[str, list[Any]], library: str | None) -> Any:
        if library not in (None, "pandas", "polars", "pyarrow"):
            raise ArgumentError(f"library={library!r} is unknown.", 'Use "pandas", "polars" or "pyarrow".')
        made = self if library is None else self.made_for(library)
        return made._table(columns)  # noqa: SLF001 - of our own kind


def _unused(name: str, taken: tuple[str, ...]) -> str:
    return _unused(f"{name}_", taken) if name in taken else name


@mechanism(columns={"columns": ["numeric"], "by": "category"}, delta=True)
def moments(
    curator: Curator,
    columns: Sequence[Column],
    *,
    by: Column | None = None,
    radius: Annotated[float, Range(0, exclusive="low")] | None = None,
) -> JointMoments:
    """Release means, variances, covariances and correlations of some columns.

    Parameters
    ----------
    columns : list of str
        Columns with bounds. The moments are those of their values as clipped to them.
    by : str, optional
        A column with categories: moments of each group.
    radius : float, optional
        With a delta: rows longer than this, with all columns mapped to [-1, 1], are scaled down to it, for less
        noise and some bias; default: √d for d columns, which changes none.

    Returns
    -------
    JointMoments
        Arrays, and tables of them. Regression and principal components follow from them at no further cost.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** (ε, δ)-differential privacy for the account's neighbouring relation, by one measurement of all sums
    with discrete Gaussian noise, as `gmm_fit`; with a delta of 0, pure ε-differential privacy by discrete Laplace
    noise.

    References
    ----------
    .. [1] X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis
       tests under differential privacy. DBSec 2017.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.random.default_rng(1).normal(size=200_000)
    >>> df = pd.DataFrame({"x": x, "y": x + np.random.default_rng(2).normal(size=200_000)})
    >>> view = dp.protect(df, "moments-example", epsilon=1, delta=1e-6, ledger="memory:",
    ...                   bounds={"x": (-4, 4), "y": (-6, 6)})
    >>> found = view.moments(["x", "y"], epsilon=0.5)
    >>> bool(0.65 < found.correlations[0, 0, 1] < 0.75)
    True
    """
    if by is not None and by.name in {column.name for column in columns}:
        raise ArgumentError(f"by={by.name!r} is among the columns.", "Leave it out of them.")
    values, sd, sizes, radius = measure(curator, columns, by, radius, share=1.0)
    groups: tuple[Any, ...] = ("all",) if by is None else by.categories or ()
    half, mid = np.array([column.half for column in columns]), np.array([column.mid for column in columns])
    units = half[:, None] * half
    found = Sums.measured(values, sd, sizes).estimates()
    covariances = np.array(
        [repaired(c, noise, repair="noise_aware") for c, noise in zip(found.covariances, found.noise, strict=True)]
    )
    return JointMoments(
        columns=tuple(column.name for column in columns),
        by=None if by is None else by.name,
        groups=groups,
        sizes=found.sums.sizes,
        means=mid + half * found.means,
        mean_errors=half * found.mean_errors(covariances),
        covariances=units * covariances,
        covariance_errors=units * found.covariance_errors(covariances),
        notes=tuple(f"{'all' if group is None else groups[group]}: {what}" for group, what in found.doubts(radius)),
        released=values,
        noise_sd=sd,
    )
