"""Result of ``view.moments``: means, variances, covariances and correlations of a private table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dfprivacy import ArgumentError, Release
from dfprivacy.arguments import checked
from dfprivacy.inference.clipped import shares_beyond_bounds
from dfprivacy.markup import Grid
from dfprivacy.plotting import panels
from dfprivacy.wording import list_text, number, with_error, with_unit
from dfprivacy_gmm.estimates import FEW, Sampling, estimate_moments, repair_note, repaired_covariance
from dfprivacy_gmm.sums import Sums, missing_note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy.inference.clipped import Sides
    from dfprivacy_gmm.estimates import Estimates
    from dfprivacy_gmm.sums import MeasuredSums

    Array = NDArray[np.float64]

__all__ = ["JointMoments"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class JointMoments(Release):
    """Means, variances and covariances of columns in each group, in the columns' units.

    Estimates are unbiased, and so covariances are as the noise has them: a variance may be negative, and a matrix
    of covariances that of no data. `nearest_covariances` are the nearest ones that are.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    by : str or None
        The column of the groups.
    groups : tuple
        Its categories; ``("all",)`` without.
    sizes : ndarray of shape (groups,)
        Rows that count; noisy where they are private.
    means, mean_errors : ndarray of shape (groups, columns)
        Means, and their standard errors from noise and sampling.
    covariances, covariance_errors : ndarray of shape (groups, columns, columns)
        Covariances (divisor n - 1), and their standard errors from noise and sampling: upper bounds, for any data
        between the bounds. `standard_errors` has those of normal data, and of the noise alone.
    missing : float or None
        Rows that were left out, noisy: for a missing value, or, with `by`, for a group that is none. None where
        that is not known.
    missing_standard_error : float or None
        The standard deviation of the noise in it.
    notes : tuple of str
        What to know before trusting the numbers.
    released : ndarray of shape (groups, coordinates)
        What all this follows from: the noisy sums, in units of y (the columns mapped from their bounds to [-1, 1]):
        rows where they are private, y, and y_i y_j for i ≤ j.
    noise_standard_error : ndarray of shape (coordinates,)
        Standard deviations of the noise in them.
    public_sizes : bool
        Whether the sizes are public.
    bounds : tuple of pairs
        The columns' bounds.
    clipped : tuple
        Of each column, and in that of each group, the shares of the rows below and above the bounds, as of
        `dfprivacy.estimates.Estimate`.
    """

    columns: tuple[str, ...]
    by: str | None
    groups: tuple[Any, ...]
    sizes: Array
    means: Array
    mean_errors: Array
    covariances: Array
    covariance_errors: Array
    missing: float | None
    missing_standard_error: float | None
    notes: tuple[str, ...]
    released: Array
    noise_standard_error: Array
    public_sizes: bool
    bounds: tuple[tuple[float, float], ...]
    clipped: tuple[tuple[Sides, ...], ...]
    covers: str | None = "limited population"

    @classmethod
    def from_measurement(cls, measured: MeasuredSums, columns: Sequence[Column], by: Column | None) -> JointMoments:
        """Construct the result from measured sums, with moments in the columns' units."""
        own = estimate_moments(measured.sums)
        half, mid = np.array([column.half for column in columns]), np.array([column.mid for column in columns])
        units = half[:, None] * half
        groups: tuple[Any, ...] = ("all",) if by is None else by.categories or ()
        names = tuple(column.name for column in columns)
        doubts = [*own.unreliable_groups(measured.radius), *_moment_notes(own, names)]
        clipped, told = shares_beyond_bounds(
            measured.beyond, columns, measured.sums.sizes, () if by is None else groups
        )
        notes = [f"{'all' if group is None else groups[group]}: {what}" for group, what in doubts]
        if (gone := missing_note(measured.missing, measured.missing_noise)) is not None:
            notes.append(gone)
        return cls(
            by=None if by is None else by.name,
            groups=groups,
            means=mid + half * own.means,
            mean_errors=half * own.mean_errors(),
            covariances=units * own.covariances,
            covariance_errors=units * own.covariance_errors(),
            notes=(*told, *notes),
            clipped=clipped,
            **measured.result_fields(columns),
        )

    @property
    def variances(self) -> Array:
        """Variances, shape (groups, columns); noise can make them negative."""
        return np.diagonal(self.covariances, axis1=1, axis2=2)

    @property
    def variance_errors(self) -> Array:
        """Standard errors of the variances, shape (groups, columns)."""
        return np.diagonal(self.covariance_errors, axis1=1, axis2=2)

    @cached_property
    def correlations(self) -> Array:
        """Correlation matrix of each group, shape (groups, columns, columns), clipped to [-1, 1].

        NaN where the noise could be all of a variance: then nothing is known of them.
        """
        return self._estimates.correlations()

    @cached_property
    def correlation_errors(self) -> Array:
        """Standard errors of the correlations, shape (groups, columns, columns)."""
        return self._estimates.correlation_errors()

    @cached_property
    def nearest_covariances(self) -> Array:
        """Nearest positive definite covariance matrix of each group, shape (groups, columns, columns).

        Nearest counts entries in standard deviations of their noise, and positive definite means that no direction
        has less variance than the noise could hide. They are biased where they differ from `covariances`.
        """
        nearest: Array = self._column_units * np.array(
            [
                repaired_covariance(covariance, noise, repair="noise_aware")
                for covariance, noise in zip(
                    self._estimates.covariances, self._estimates.covariance_errors("none"), strict=True
                )
            ]
        )
        return nearest

    @property
    def nearest_correlations(self) -> Array:
        """Correlation matrices of `nearest_covariances`, shape (groups, columns, columns)."""
        sd = np.sqrt(np.diagonal(self.nearest_covariances, axis1=1, axis2=2))
        nearest: Array = np.clip(self.nearest_covariances / (sd[:, :, None] * sd[:, None, :]), -1.0, 1.0)
        return nearest

    def standard_errors(self, sampling: Sampling = "bounded") -> tuple[Array, Array, Array]:
        """Return standard errors of means, covariances and correlations, with or without sampling errors.

        Parameters
        ----------
        sampling : {"bounded", "normal", "none"}
            What sampling adds to the noise in covariances and correlations: at most, for any data between the
            bounds; for normal data; or nothing, to the means neither.

        Returns
        -------
        means : ndarray of shape (groups, columns)
            In the columns' units.
        covariances : ndarray of shape (groups, columns, columns)
            In products of the columns' units.
        correlations : ndarray of shape (groups, columns, columns)
            Without units.
        """
        sampling, own = checked(sampling, Sampling, "sampling"), self._estimates
        return (
            np.sqrt(np.diag(self._column_units)) * own.mean_errors(sampling=sampling != "none"),
            self._column_units * own.covariance_errors(sampling),
            own.correlation_errors(sampling),
        )

    @cached_property
    def _estimates(self) -> Estimates:
        sizes = self.sizes if self.public_sizes else None
        return estimate_moments(Sums.from_outer(self.released, self.noise_standard_error, sizes))

    @property
    def _column_units(self) -> Array:
        half = np.array([high / 2 - low / 2 for low, high in self.bounds])
        units: Array = half[:, None] * half
        return units

    def _sentence(self) -> str:
        """Write a sentence with the mean of the first column in each group."""
        column, unit = self.columns[0], self._unit(self.columns[0])
        by = "" if self.by is None else f"{self._label(self.by)} = "
        told = [
            with_unit(with_error(float(mean), float(error)), unit) + (f" for {by}{group}" if by else "")
            for group, mean, error in zip(self.groups, self.means[:, 0], self.mean_errors[:, 0], strict=True)
        ]
        about = f"Of {self._label(*self.columns)} together: " if len(self.columns) > 1 else ""
        said = f"{about}the mean {self._label(column)} is {list_text(told, most=3)}"
        return f"{said[0].upper()}{said[1:]}, ± one standard error of sampling and noise."

    def _grid(self) -> Grid:
        """Return the printed table: mean, standard deviation and correlations of each column in each group."""
        with np.errstate(invalid="ignore"):
            spreads = np.sqrt(self.variances)  # none where the noise has made a variance negative
        rows = [
            (
                *((str(group),) if self.by is not None else ()),
                *(
                    column,
                    number(float(mean), float(error)),
                    number(float(error), float(error)),
                    f"{spread:.4g}" if spread >= 0 else "?",
                ),
                *(f"{each:.2f}" if np.isfinite(each) else "?" for each in near),
            )
            for group, means, errors, stds, matrix in zip(
                self.groups, self.means, self.mean_errors, spreads, self.correlations, strict=True
            )
            for column, mean, error, spread, near in zip(
                self.columns, means.tolist(), errors.tolist(), stds, matrix, strict=True
            )
        ]
        several = self.columns if len(self.columns) > 1 else ()
        rows = [row if several else row[: -len(self.columns)] for row in rows]
        group = () if self.by is None else (self.by,)
        return Grid((*group, "column", "mean", "±", "std", *(f"r with {each}" for each in several)), rows)

    def _rows(self) -> list[tuple[str, str]]:
        sizes = [f"{size:,.0f}" for size in self.sizes]
        each = ", ".join(f"{group} {size}" for group, size in zip(self.groups, sizes, strict=True))
        return [("rows", each if self.by else sizes[0]), *(("note", note) for note in self.notes)]

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the mean and the variance of each column in each group as rows of a tidy table."""
        groups, d = len(self.groups), len(self.columns)
        numbers = {
            "size": np.repeat(self.sizes, d),
            "mean": self.means,
            "mean_error": self.mean_errors,
            "variance": self.variances,
            "variance_error": self.variance_errors,
        }
        columns = {"column": list(self.columns) * groups, **numbers}
        if self.by is None:
            return [columns]
        return [
            {_unused_name(self.by, tuple(columns)): [each for each in self.groups for _ in range(d)], **columns}
        ]

    def plot(self, ax: Any = None) -> Any:
        """Draw the mean of each column in each group, with an interval of two standard errors."""
        groups = [*map(str, self.groups)] if self.by is not None else [""]
        plots, (noise, *_) = [], self.standard_errors(sampling="none")
        for at, column in enumerate(self.columns):
            mean, reach = self.means[:, at], 2 * self.mean_errors[:, at]
            what = f"mean of {self._with_units(column)} ± 2 errors (thick: sampling)"
            parts = [1 - math.sqrt(max(0.0, 1 - share**2)) for share in (noise[:, at] / self.mean_errors[:, at])]
            plots.append((groups, mean.tolist(), (mean - reach).tolist(), (mean + reach).tolist(), what, parts))
        return panels(ax, plots)

    def covariance(self, group: Any = None, library: str | None = None) -> Any:
        """Return the covariance matrix of a group as a table.

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
        return self._group_matrix(self.covariances, group, library)

    def correlation(self, group: Any = None, library: str | None = None) -> Any:
        """Return the correlation matrix of a group as a table.

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
        return self._group_matrix(self.correlations, group, library)

    def _group_matrix(self, matrices: Array, group: Any, library: str | None) -> Any:
        wanted = self.groups[0] if group is None and len(self.groups) == 1 else group
        if wanted not in self.groups:
            raise ArgumentError(f"There is no group {group!r}.", f"The groups are {list(self.groups)!r}.")
        matrix = matrices[self.groups.index(wanted)].tolist()
        rows = dict(zip(self.columns, matrix, strict=True))  # symmetric
        return self._as_table({_unused_name("column", self.columns): list(self.columns), **rows}, library)

    def _as_table(self, columns: dict[str, list[Any]], library: str | None) -> Any:
        checked(library, Literal["pandas", "polars", "pyarrow"] | None, "library")
        made = self if library is None else self.with_library(library)
        return made._table(columns)  # noqa: SLF001 - of our own kind


def _unused_name(name: str, taken: tuple[str, ...]) -> str:
    return _unused_name(f"{name}_", taken) if name in taken else name


def _moment_notes(own: Estimates, names: tuple[str, ...]) -> list[tuple[int, str]]:
    """Return notes on small groups, on variances hidden by noise, and on indefinite covariance matrices."""
    doubts = []
    errors, few = own.covariance_errors("none"), own.has_few_rows()
    for group, (covariance, noise, told) in enumerate(zip(own.covariances, errors, own.has_signal(), strict=True)):
        if few[group]:
            doubts.append(
                (group, f"fewer than {FEW} rows: if values are skewed, intervals of means have too little coverage")
            )
        if not told.all():
            drowned = ", ".join(name for name, clear in zip(names, told, strict=True) if not clear)
            doubts.append((group, f"no correlations of {drowned}: the variance is not clearly above its noise"))
        if move := repair_note(
            covariance, repaired_covariance(covariance, noise, repair="noise_aware"), noise, names
        ):
            what = "the noisy covariances are not positive definite; nearest_covariances are"
            doubts.append((group, f"{what}, and differ by up to {move}"))
    return doubts
