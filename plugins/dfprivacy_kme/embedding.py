"""Public feature spaces of kernel mean embeddings, and the encoding of rows as arrays of numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from dfprivacy import ArgumentError, Column, public_table
from dfprivacy.expressions import read_column
from dfprivacy.features import Fourier, Nystrom, ProductKernel
from dfprivacy.schema import as_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Basis", "Space", "decode_rows", "encode_rows"]

_RIDGE = 1e-13  # beside kernel values of 1

Basis: TypeAlias = Literal["subspace", "fourier"]


@dataclass(frozen=True, eq=False)
class Space:
    """Feature space: a kernel on rows and a finite feature map of the kernel, stored as arrays.

    Attributes
    ----------
    columns : tuple of Column
        What is public about the columns of a row.
    lengthscales : dict of str to float
        The kernel's lengthscale in each column with bounds.
    mismatches : dict of str to float
        What a different category leaves of the kernel.
    basis : {"subspace", "fourier"}
        Which map.
    anchors : ndarray
        Points of the subspace, or the frequencies.
    map : ndarray
        The matrix that turns kernel values at the anchors into coordinates.
    """

    columns: tuple[Column, ...]
    lengthscales: Mapping[str, float]
    mismatches: Mapping[str, float]
    basis: Basis
    anchors: NDArray[np.float64]
    map: NDArray[np.float64]

    @property
    def kernel(self) -> ProductKernel:
        """Product of one kernel for each column."""
        return ProductKernel(self.columns, self.lengthscales, self.mismatches)

    @classmethod
    def from_kernel(cls, features: Nystrom | Fourier | None, kernel: ProductKernel) -> Space:
        """Construct the feature space of a kernel, with the feature map of a measurement if there is one."""
        numbers = [kernel.columns[i].name for i in kernel.numbers]
        categories = [kernel.columns[i].name for i in kernel.categories]
        anchors = A = np.zeros((0, 0))
        if isinstance(features, Nystrom):
            anchors, A = features.points, features.map
        elif features is not None:
            anchors = features.frequencies
        return cls(
            columns=kernel.columns,
            lengthscales={n: float(v) for n, v in zip(numbers, kernel.lengthscales, strict=True)},
            # A single category never differs: any factor will do.
            mismatches={n: float(v) if v < 1 else 0.0 for n, v in zip(categories, kernel.mismatches, strict=True)},
            basis="fourier" if isinstance(features, Fourier) else "subspace",
            anchors=anchors,
            map=A,
        )

    def features(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the feature vectors of public rows, shape (rows, F)."""
        if self.basis == "subspace":
            return self.kernel(rows, self.anchors) @ self.map.T
        return Fourier(self.columns, self.anchors).features(rows)

    def __len__(self) -> int:
        """Return the number of features F."""
        return len(self.anchors) * (1 if self.basis == "subspace" else 2)

    def common_subspace(self, other: Space) -> tuple[Space, NDArray[np.float64], NDArray[np.float64]]:
        """Return a common subspace of two feature spaces, and linear maps from their features to it.

        How many points of a subspace are worth a coordinate depends on the noise; those that both have span what
        both see. The maps have orthonormal rows, so noise that is alike in all directions
        stays so.

        Raises
        ------
        ArgumentError
            If the kernels differ, or have nothing in common.
        """
        alike = (
            self.columns == other.columns
            and self.lengthscales == other.lengthscales
            and self.mismatches == other.mismatches
            and self.basis == other.basis
        )
        if alike and self.basis == "fourier":
            if np.array_equal(self.anchors, other.anchors):
                return self, np.eye(len(self)), np.eye(len(self))
        elif alike:
            mine, others = np.nonzero((self.anchors[:, None] == other.anchors[None]).all(axis=2))
            if len(mine):
                return self._shared_subspace(mine, other, others)
        raise ArgumentError(
            "The two releases have different feature maps.",
            "Release both with the same columns and kernel, and some of the same points.",
        )

    def _shared_subspace(
        self, mine: NDArray[np.intp], other: Space, others: NDArray[np.intp]
    ) -> tuple[Space, NDArray[np.float64], NDArray[np.float64]]:
        """Return the subspace spanned by the points of both spaces, and linear maps of their features to it.

        With A the map of a space, k = A⁻¹ψ are a row's kernel values at its points; those at the common points,
        times the map of these, are the coordinates in their span.
        """
        points = self.anchors[mine]
        root = np.linalg.cholesky(self.kernel(points, points) + _RIDGE * np.eye(len(points)))
        A = np.linalg.inv(root)
        ours, theirs = (A @ np.linalg.inv(space.map)[at] for space, at in ((self, mine), (other, others)))
        return replace(self, anchors=points, map=A), ours, theirs

    def as_json(self) -> dict[str, Any]:
        """Return the feature space as JSON values, which `from_json` reads."""
        columns = [{"name": column.name, **column.to_json()} for column in self.columns]
        return {**vars(self), "columns": columns}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Space:
        """Construct the feature space from the JSON values that `as_json` returns."""
        if plain["basis"] not in get_args(Basis):
            raise ArgumentError(
                "This release was written by an earlier version of dfprivacy.", "Read it with that version."
            )
        columns = tuple(read_column(**column) for column in plain["columns"])
        known = {name: value for name, value in plain.items() if name != "degree"}  # earlier versions had one
        return cls(**{**known, "columns": columns})


def encode_rows(columns: Sequence[Column], rows_by_column: object, what: str) -> NDArray[np.float64]:
    """Return public rows as an array of numbers and category codes, shape (rows, columns).

    Parameters
    ----------
    columns : sequence of Column
        The columns of a row.
    rows_by_column : mapping of str to sequence, or a frame
        Values by column; other columns are ignored.
    what : str
        The argument's name, for errors.

    Returns
    -------
    ndarray of shape (rows, columns)
        Numbers and codes.
    """
    names = [column.name for column in columns]
    table = public_table(rows_by_column, what)
    if not set(names) <= set(table):
        raise ArgumentError(
            f"{what} must have values for all columns {names!r}.",
            "Give a frame, or a dictionary of lists, with each column.",
        )
    given = [table[name] for name in names]
    if len({len(values) for values in given}) != 1 or not given[0]:
        raise ArgumentError(
            f"{what} must have columns of equal length, and at least one row.", "Give complete rows."
        )
    rows = np.empty((len(given[0]), len(names)))
    for i, (column, values) in enumerate(zip(columns, given, strict=True)):
        if column.bounds is None:
            rows[:, i] = column.codes(values)
        else:
            rows[:, i] = [as_number(value, f"{what}: {column.name}") for value in values]
    if not np.isfinite(rows).all():
        raise ArgumentError(f"{what} holds numbers that are not finite.", "Omit those rows.")
    return rows


def decode_rows(columns: Sequence[Column], rows: NDArray[np.float64]) -> dict[str, list[Any]]:
    """Return coded rows as values by column, with categories by name: the inverse of `encode_rows`."""
    return {
        column.name: [float(value) for value in rows[:, i]]
        if column.bounds is not None
        else [(column.categories or ())[int(code)] for code in rows[:, i]]
        for i, column in enumerate(columns)
    }
