"""From noisy sums to means and covariances: estimates, repair, and standard errors.

Everything is in units of y, the columns mapped from their bounds to [-1, 1]; nothing here reads data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Estimates", "Method", "Repair", "Sums", "differ", "repaired"]

Method = Literal["lda", "qda", "auto"]
Repair = Literal["noise_aware", "paper", "clip"]

_FLOOR = 1e-9  # of eigenvalues, where there is no noise
_SIGNIFICANT = 2.0  # standard deviations of the noise
_LONG = 0.8  # mean squared length of the rows, of the squared radius


@dataclass(frozen=True)
class Sums:
    """Noisy sums of each group.

    Attributes
    ----------
    sizes : ndarray of shape (groups,)
        Rows.
    totals : ndarray of shape (groups, d)
        Sums of y.
    products : ndarray of shape (groups, d, d)
        Sums of y yᵀ.
    size_sd, total_sd : float
        Standard deviations of the noise in sizes (0 where they are public) and totals.
    product_sd : ndarray of shape (d, d)
        Those of the noise in the products.
    """

    sizes: Array
    totals: Array
    products: Array
    size_sd: float
    total_sd: float
    product_sd: Array

    @classmethod
    def measured(cls, values: Array, sd: Array, sizes: Array | None) -> Sums:
        """Take a noisy sum of `dfprivacy.features.Outer` apart.

        Parameters
        ----------
        values : ndarray of shape (groups, coordinates)
            The sums of each group.
        sd : ndarray of shape (coordinates,)
            Standard deviations of their noise.
        sizes : ndarray of shape (groups,) or None
            Rows where they are public; else the first coordinate counts them.

        Returns
        -------
        Sums
            The same by name.
        """
        size_sd = 0.0
        if sizes is None:
            sizes, size_sd = values[:, 0], float(sd[0])
            values, sd = values[:, 1:], sd[1:]
        d = (math.isqrt(9 + 8 * values.shape[1]) - 3) // 2
        upper = np.triu_indices(d)
        products, product_sd = np.empty((len(values), d, d)), np.empty((d, d))
        products[:, *upper] = products.transpose(0, 2, 1)[:, *upper] = values[:, d:]
        product_sd[upper] = product_sd.T[upper] = sd[d:]
        return cls(np.asarray(sizes, dtype=np.float64), values[:, :d], products, size_sd, float(sd[0]), product_sd)

    def length(self) -> float:
        """Mean squared length of the rows, or as much of it as is not noise."""
        noise = math.sqrt(len(self.sizes) * np.square(np.diag(self.product_sd)).sum())
        total = np.trace(self.products, axis1=1, axis2=2).sum() - _SIGNIFICANT * noise
        return float(total / max(self.sizes.sum() + _SIGNIFICANT * math.sqrt(len(self.sizes)) * self.size_sd, 1.0))

    def estimates(self) -> Estimates:
        """Estimate the moments of each group from its own sums."""
        d = self.totals.shape[1]
        n = np.maximum(self.sizes, d + 1.0 if self.size_sd else 1.0)
        means = np.clip(self.totals / n[:, None], -1.0, 1.0)
        covariances = self.products / n[:, None, None] - means[:, :, None] * means[:, None, :]
        return Estimates(self, n, means, covariances, self.product_sd / n[:, None, None])


@dataclass(frozen=True)
class Estimates:
    """Means and covariances as the noise has them: covariances may be no covariances yet.

    Attributes
    ----------
    sums : Sums
        What they come from.
    sizes : ndarray of shape (groups,)
        Rows, where they are noisy at least as many as make a covariance.
    means : ndarray of shape (groups, d)
        Means.
    covariances, noise : ndarray of shape (groups, d, d)
        Covariances and the standard deviations of the noise of their products. One group if they were pooled.
    """

    sums: Sums
    sizes: Array
    means: Array
    covariances: Array
    noise: Array

    def pooled(self) -> Estimates:
        """Give all groups one covariance, the average over the rows."""
        n = self.sizes.sum()
        covariance = np.tensordot(self.sizes / n, self.covariances, axes=1)
        noise = self.sums.product_sd * math.sqrt(len(self.sizes)) / n
        return Estimates(self.sums, self.sizes, self.means, covariance[None], noise[None])

    def mean_errors(self, covariances: Array, *, sampling: bool = True) -> Array:
        """Give the standard errors of the means.

        Parameters
        ----------
        covariances : ndarray of shape (groups, d, d) or (1, d, d)
            Repaired covariances.
        sampling : bool
            Whether to count what sampling adds to the noise.

        Returns
        -------
        ndarray of shape (groups, d)
            To first order in the noise.
        """
        n = self.sizes[:, None]
        noise = (self.sums.total_sd**2 + (self.means * self.sums.size_sd) ** 2) / n**2
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        errors: Array = np.sqrt(noise + variances / n * sampling)
        return errors

    def covariance_errors(self, covariances: Array, *, sampling: bool = True) -> Array:
        """Give the standard errors of the covariances, of normal data, before their repair.

        Parameters
        ----------
        covariances : ndarray of shape (groups, d, d) or (1, d, d)
            Repaired covariances.
        sampling : bool
            Whether to count what sampling adds to the noise.

        Returns
        -------
        ndarray of shape (groups, d, d) or (1, d, d)
            To first order in the noise. With m the mean, M the sum of y yᵀ and s that of y, the covariance moves by
            (dM - m dsᵀ - ds mᵀ + (m mᵀ - C) dn)/n.
        """
        m, n = self.means, self.sizes[:, None, None]
        outer = m[:, :, None] * m[:, None, :]
        squares = m[:, :, None] ** 2 + m[:, None, :] ** 2 + 2 * outer * np.eye(m.shape[1])
        noise = self.sums.product_sd**2 + squares * self.sums.total_sd**2
        noise = noise + ((outer - covariances) * self.sums.size_sd) ** 2
        if len(covariances) < len(m):  # pooled
            noise, n = noise.sum(axis=0, keepdims=True), n.sum(axis=0, keepdims=True)
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        spread = variances[:, :, None] * variances[:, None, :] + covariances**2
        errors: Array = np.sqrt(noise / n**2 + spread / n * sampling)
        return errors

    def doubts(self, radius: float | None) -> list[tuple[int | None, str]]:
        """Say of which groups (None: of all) too little is known, and why.

        Parameters
        ----------
        radius : float or None
            To which longer rows were scaled down.

        Returns
        -------
        list of tuple
            Groups, and what to know of them.
        """
        d = self.means.shape[1]
        found: list[tuple[int | None, str]] = []
        for group, size in enumerate(self.sums.sizes):
            if size < _SIGNIFICANT * self.sums.size_sd:
                found.append((group, "the noise could be all of its number of rows: its numbers say nothing"))
            elif size <= d:
                found.append((group, f"it has about {max(size, 0):.0f} rows, too few for {d} columns"))
        for group, (covariance, noise) in enumerate(zip(self.covariances, self.noise, strict=True)):
            if _spectral(noise) >= max(np.trace(covariance) / d, 0.0):
                place = None if len(self.covariances) < len(self.means) else group
                found.append((place, "the covariance is mostly noise"))
        if radius is not None and radius < math.sqrt(d) * (1 - 1e-9) and self.sums.length() > _LONG * radius**2:
            found.append((None, f"many rows are as long as the radius and were scaled down: use radius={d}**0.5"))
        return found


def repaired(
    covariance: Array, noise: Array, *, repair: Repair, grid_minimum: float = 0.0, units: Array | None = None
) -> Array:
    """Make a noisy symmetric matrix a covariance: positive definite.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        Any symmetric matrix of finite numbers.
    noise : ndarray of shape (d, d)
        Standard deviations of the noise of its entries.
    repair : {"noise_aware", "paper", "clip"}
        ``"noise_aware"``: shrink what is off the diagonal by the share of it that is noise, then raise eigenvalues
        to the size of the noise. ``"clip"``: raise them to 1e-9. ``"paper"``: negative ones become `grid_minimum`.
    grid_minimum : float
        For ``"paper"``, in the columns' own units.
    units : ndarray of shape (d,), optional
        Half widths of the columns' bounds, for ``"paper"``.

    Returns
    -------
    ndarray of shape (d, d)
        With eigenvalues of d at most, for y is in [-1, 1].
    """
    d = len(covariance)
    if repair == "paper":
        scale = np.ones(d) if units is None else units
        scale = scale[:, None] * scale
        return (
            _with_eigenvalues(covariance * scale, lambda values: np.where(values < 0, grid_minimum, values)) / scale
        )
    floor = _FLOOR
    if repair == "noise_aware":
        off = covariance - np.diag(np.diag(covariance))
        size = float(np.square(off).sum())
        expected = float(np.square(noise - np.diag(np.diag(noise))).sum())
        covariance = covariance - off * (min(1.0, expected / size) if size else 1.0)
        floor = min(max(_spectral(noise), _FLOOR), 1.0)
    return _with_eigenvalues(covariance, lambda values: np.clip(values, floor, float(d)))


def _spectral(noise: Array) -> float:
    """About half the largest eigenvalue of a symmetric matrix of such noise."""
    d = len(noise)
    each = noise[0, 1] if d > 1 else noise[0, 0]
    return float(each) * math.sqrt(d)


def _with_eigenvalues(matrix: Array, change: object) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    made: Array = (vectors * change(values)) @ vectors.T  # type: ignore[operator]
    return (made + made.T) / 2


def differ(estimates: Estimates, pooled: Array) -> bool:
    """Tell whether the groups' covariances differ by more than noise and sampling explain.

    The squared differences from the pooled one, each over its variance, add up to about their number if there is
    one covariance. Twice that means that pooling is wrong by more than it saves.

    Parameters
    ----------
    estimates : Estimates
        Of each group.
    pooled : ndarray of shape (d, d)
        The pooled covariance, repaired.

    Returns
    -------
    bool
        True for ``"qda"``.
    """
    groups, d = estimates.means.shape
    upper = np.triu_indices(d)
    errors = estimates.covariance_errors(np.broadcast_to(pooled, (groups, d, d)))
    ratios = ((estimates.covariances - pooled) / errors)[:, *upper] ** 2
    return bool(ratios.sum() > _SIGNIFICANT * (groups - 1) * len(upper[0]))
