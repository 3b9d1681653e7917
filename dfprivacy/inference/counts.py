"""Counts of rows with a binary outcome, by group: exact, noisy, and drawn given the noisy counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import ndtri

from dfprivacy.inference.draws import DRAWS, noise, points, quantile
from dfprivacy.inference.moments import laws_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from dfprivacy.laws import NoiseLaw
    from dfprivacy.measured import NoisyValue

    Array = NDArray[np.float64]

__all__ = [
    "EVEN",
    "Counts",
    "Form",
    "NoisyCounts",
    "arcsine_share",
    "difference",
    "odds_ratio",
    "project_counts",
    "ratio",
    "share_of_angle",
]

Form = Literal["hits", "counts", "halves"]

EVEN = np.pi / 4
"""The angle of a share of one half."""


@dataclass(frozen=True)
class Counts:
    """Number of rows with an outcome, and number of all rows, by group.

    Parameters
    ----------
    hits, n : ndarray
        How many have it, and how many there are.
    """

    hits: Array
    n: Array

    @property
    def share(self) -> Array:
        """Share of rows with the outcome."""
        return self.hits / self.n

    def __getitem__(self, group: int | NDArray[np.int_]) -> Counts:
        """Return the counts of one group, or of several groups."""
        return Counts(self.hits[..., group, :], self.n[..., group, :])


@dataclass(frozen=True)
class NoisyCounts:
    """Noisy counts of rows with an outcome and without it, by group.

    Parameters
    ----------
    values : ndarray of shape (..., k, d)
        Of each of k groups the noisy counts.
    laws : sequence of d NoiseLaw
        The laws of the independent noise in them.
    rows : ndarray of shape (..., k), optional
        Public numbers of rows: all of them by hits, at most so many by halves.
    form : {"hits", "counts", "halves"}
        Rows with the outcome; rows with it, and without it; or half of the difference of the two, and half of their
        sum.
    """

    values: Array
    laws: Sequence[NoiseLaw]
    rows: Array | None = None
    form: Form = "counts"

    @classmethod
    def from_sums(cls, noisy: NoisyValue, rows: ArrayLike | None, form: Form) -> NoisyCounts:
        """Construct from the noisy sums of a measurement.

        Parameters
        ----------
        noisy : NoisyValue
            Counts of one group, of shape (d,), or of k, of shape (k, d).
        rows : array_like of shape (k,), or None
            Public numbers of rows.
        form : {"hits", "counts", "halves"}
            What they are.

        Returns
        -------
        NoisyCounts
            Of values of shape (k, d).
        """
        known = None if rows is None else np.asarray(rows, dtype=np.float64)
        return cls(np.atleast_2d(noisy.values), laws_of(noisy), known, form)

    @property
    def size(self) -> Array:
        """Number of rows of each group, public or noisy, shape (..., k)."""
        if self.form == "hits":
            return np.asarray(self.rows)
        return self.values.sum(axis=-1) if self.form == "counts" else 2 * self.values[..., 1]

    @property
    def estimate(self) -> Counts:
        """Possible counts nearest to the noisy ones: hits between 0 and the number of rows."""
        return self._possible_counts(self.values[..., None])

    def draws(self, draws: int = DRAWS) -> tuple[Counts, Array]:
        """Draw possible exact counts, given the noisy counts.

        Parameters
        ----------
        draws : int
            How many.

        Returns
        -------
        tuple of Counts and ndarray
            The counts, with the draws along the last axis, and their weights, of shape (draws,).
        """
        groups, d = self.values.shape[-2:]
        drawn, weights = noise([*self.laws] * groups, points(groups * d, draws))
        return self._possible_counts(self.values[..., None] - drawn.reshape(groups, d, draws)), weights

    def _possible_counts(self, values: Array) -> Counts:
        """Return possible counts near the noisy ones, and keep the difference of hits and misses if it is possible.

        To limit each count to 0 instead takes half of its power from a test where the noise is as large as the
        counts.
        """
        most = np.inf if self.rows is None else self.rows[..., None]
        first, *rest = np.moveaxis(values, -2, 0)
        match self.form:
            case "hits":
                apart, n = 2 * first - most, most
            case "counts":
                apart, n = first - rest[0], first + rest[0]
            case _:
                apart, n = 2 * first, 2 * rest[0]
        apart = np.clip(apart, -most, most)
        n = np.maximum(np.clip(n, 1.0, most), np.abs(apart))
        return Counts((n + apart) / 2, n)

    def simulate(self, n: ArrayLike, share: ArrayLike, tables: int) -> NoisyCounts:
        """Simulate releases of the counts of random samples, with noise of the same laws, for planning.

        Parameters
        ----------
        n, share : array_like of shape (k,)
            Rows of each group, and the share with the outcome in the population.
        tables : int
            How many releases.

        Returns
        -------
        NoisyCounts
            Of values of shape (tables, k, d).
        """
        n, share = (np.asarray(each, dtype=np.float64)[:, None] for each in (n, share))
        groups, d = len(n), len(self.laws)
        u = points(groups * (1 + d), tables).reshape(1 + d, groups, tables)
        hits = np.clip(n * share + np.sqrt(n * share * (1 - share)) * ndtri(u[0]), 0.0, n)
        exact = {"hits": [hits], "counts": [hits, n - hits], "halves": [hits - n / 2, n / 2 + 0 * hits]}[self.form]
        noisy = [each + quantile(law, at) for each, law, at in zip(exact, self.laws, u[1:], strict=True)]
        rows = None if self.rows is None else n[:, 0]
        return replace(self, values=np.stack(noisy).transpose(2, 1, 0), rows=rows)


def project_counts(counts: ArrayLike, totals: ArrayLike) -> Array:
    """Project each row of counts onto the nonnegative numbers with a given sum, in least squares.

    Parameters
    ----------
    counts : array_like of shape (..., c)
        Any numbers.
    totals : array_like of shape (...)
        The sums; below 0 counts as 0.

    Returns
    -------
    ndarray of shape (..., c)
        max(counts - theta, 0), with one theta a row.

    Examples
    --------
    >>> project_counts([3, -1, 5, 2], 8).round(3).tolist()
    [2.333, 0.0, 4.333, 1.333]
    """
    counts = np.asarray(counts, dtype=np.float64)
    if not counts.size:
        return counts
    totals = np.maximum(np.asarray(totals, dtype=np.float64), 0.0)[..., None]
    falling = -np.sort(-counts, axis=-1)
    thetas = (np.cumsum(falling, axis=-1) - totals) / np.arange(1, counts.shape[-1] + 1)
    last = np.maximum((falling > thetas).sum(axis=-1, keepdims=True) - 1, 0)  # the first is always kept
    return np.maximum(counts - np.take_along_axis(thetas, last, axis=-1), 0.0)


def arcsine_share(group: Counts) -> tuple[Array, Array, float]:
    """Return the arcsine transform of a share (Anscombe 1948), its sampling variance, and degrees of freedom."""
    return np.arcsin(np.sqrt((group.hits + 3 / 8) / (group.n + 3 / 4))), 1 / (4 * group.n + 2), np.inf


def share_of_angle(angle: ArrayLike) -> Array:
    """Return the share sin²(angle): the inverse of the arcsine transform."""
    return np.asarray(np.sin(np.clip(angle, 0.0, np.pi / 2)) ** 2)


def difference(first: Counts, second: Counts) -> tuple[Array, Array, float]:
    """Return the difference of two shares (Agresti and Caffo), its sampling variance, and degrees of freedom."""
    n, m = first.n + 2, second.n + 2
    p, q = (first.hits + 1) / n, (second.hits + 1) / m
    return p - q, p * (1 - p) / n + q * (1 - q) / m, np.inf


def ratio(first: Counts, second: Counts) -> tuple[Array, Array, float]:
    """Return the log ratio of two shares (Walter), its sampling variance, and its degrees of freedom."""
    p, n, q, m = (each + 0.5 for each in (first.hits, first.n, second.hits, second.n))
    return np.log(p / n) - np.log(q / m), 1 / p - 1 / n + 1 / q - 1 / m, np.inf


def odds_ratio(first: Counts, second: Counts) -> tuple[Array, Array, float]:
    """Return the log odds ratio (Haldane and Anscombe), its sampling variance, and its degrees of freedom."""
    p, q = first.hits + 0.5, second.hits + 0.5
    f, g = first.n - first.hits + 0.5, second.n - second.hits + 0.5
    return np.log(p / f) - np.log(q / g), 1 / p + 1 / f + 1 / q + 1 / g, np.inf
