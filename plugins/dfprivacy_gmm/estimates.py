"""Estimates of means and covariances from noisy sums, and repair of indefinite covariance matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dfprivacy.schema import UNDECLARED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    from dfprivacy_gmm.sums import Sums

__all__ = [
    "FEW",
    "Estimates",
    "Method",
    "Repair",
    "Sampling",
    "estimate_moments",
    "nearest_covariance",
    "repair_note",
    "repaired_covariance",
    "spectral_noise",
]

Repair = Literal["noise_aware", "shrink", "paper", "clip"]

_MIN_EIGENVALUE = 1e-9  # of eigenvalues, where there is no noise
_MAX_STEPS = 200
_TOLERANCE = 1e-7  # of the noise
_NOTED_SDS = 0.5  # standard deviations of the noise


def repaired_covariance(
    covariance: Array,
    noise: Array,
    *,
    repair: Repair,
    grid_minimum: float = 0.0,
    units: Array | None = None,
    least: float = _MIN_EIGENVALUE,
) -> Array:
    """Return a positive definite covariance matrix near a noisy symmetric matrix.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        Any symmetric matrix of finite numbers.
    noise : ndarray of shape (d, d)
        Standard deviations of the noise of its entries.
    repair : {"noise_aware", "shrink", "paper", "clip"}
        ``"noise_aware"``: the nearest matrix, in standard deviations of the noise, with eigenvalues of at least
        the size of the noise. ``"shrink"``: the same after what is off the diagonal has been shrunk by the share of
        it that is noise. ``"clip"``: raise eigenvalues to 1e-9. ``"paper"``: negative ones become `grid_minimum`.
    grid_minimum : float
        For ``"paper"``, in the columns' own units.
    units : ndarray of shape (d,), optional
        Half widths of the columns' bounds, for ``"paper"``.
    least : float
        Least eigenvalue, however small the noise.

    Returns
    -------
    ndarray of shape (d, d)
        With eigenvalues of d at most, for y is in [-1, 1].
    """
    if repair == "paper":
        scale = np.ones(len(covariance)) if units is None else units
        scale = scale[:, None] * scale
        return (
            _with_eigenvalues(covariance * scale, lambda values: np.where(values < 0, grid_minimum, values)) / scale
        )
    if repair == "clip":
        return nearest_covariance(covariance, np.zeros_like(covariance), least)
    floor = min(max(spectral_noise(noise), least), 1.0)
    if repair == "shrink":
        return nearest_covariance(_shrunk_off_diagonal(covariance, noise), np.zeros_like(noise), floor)
    return nearest_covariance(covariance, noise, floor)


def nearest_covariance(covariance: Array, noise: Array, floor: float) -> Array:
    r"""Return the matrix with eigenvalues from `floor` to d that is nearest to a noisy one, in units of the noise.

    Parameters
    ----------
    covariance : ndarray of shape (d, d)
        A symmetric matrix C.
    noise : ndarray of shape (d, d)
        Standard deviations s of the noise of its entries.
    floor : float
        The least eigenvalue allowed.

    Returns
    -------
    ndarray of shape (d, d)
        The X that minimises :math:`\sum_{i \le j} (X_{ij} - C_{ij})^2 / s_{ij}^2`.

    Notes
    -----
    The noise of a product of two columns has half the variance of that of a square, which makes the sum a half of
    the squared Frobenius norm: then it is enough to clip eigenvalues [1]_. Where the means' noise or Laplace noise
    makes weights unequal, this is the first step of a projected gradient method with momentum [2]_.

    References
    ----------
    .. [1] N. J. Higham. Computing a nearest symmetric positive semidefinite matrix. LAA 103 (1988).
    .. [2] A. Beck, M. Teboulle. A fast iterative shrinkage-thresholding algorithm. SIAM J. Imaging Sci. 2 (2009).
    """
    d = len(covariance)

    def projected(matrix: Array) -> Array:
        return _with_eigenvalues(matrix, lambda values: np.clip(values, floor, float(d)))

    first = projected(covariance)
    if not noise.any() or d == 1 or np.allclose(first, covariance, rtol=0, atol=_TOLERANCE * float(noise.max())):
        return first
    weights = 1 / np.square(noise)
    weights[np.diag_indices(d)] *= 2  # an entry off the diagonal is there twice
    step = 1 / weights.max()
    X = ahead = first
    momentum = 1.0
    for _ in range(_MAX_STEPS):
        before, X = X, projected(ahead - step * weights * (ahead - covariance))
        if float(np.abs(X - before).max()) <= _TOLERANCE * float(noise.min()):
            break
        momentum, last = (1 + math.sqrt(1 + 4 * momentum**2)) / 2, momentum
        ahead = X + (last - 1) / momentum * (X - before)
    return X


def repair_note(covariance: Array, changed: Array, noise: Array, names: Sequence[str]) -> str | None:
    """Return a phrase on the largest change of an entry by `repaired_covariance`; None if it is negligible.

    Parameters
    ----------
    covariance, changed : ndarray of shape (d, d)
        Before and after the repair.
    noise : ndarray of shape (d, d)
        Standard deviations of the noise of the entries.
    names : sequence of str
        The columns.

    Returns
    -------
    str or None
        The largest change, in standard deviations of the noise.
    """
    if not noise.any():
        return None
    moves = np.abs(changed - covariance) / np.maximum(noise, np.finfo(float).tiny)
    i, j = sorted(int(place) for place in np.unravel_index(moves.argmax(), moves.shape))
    if moves[i, j] <= _NOTED_SDS:
        return None
    which = f"variance of {names[i]}" if i == j else f"covariance of {names[i]} and {names[j]}"
    return f"{moves[i, j]:.1f} standard deviations of its noise (the {which})"


def spectral_noise(noise: Array) -> float:
    """Return half the typical spectral norm of a symmetric noise matrix, given its standard deviations."""
    d = len(noise)
    each = noise[np.triu_indices(d, 1)].mean() if d > 1 else noise[0, 0]
    return float(each) * math.sqrt(d)


def _shrunk_off_diagonal(covariance: Array, noise: Array) -> Array:
    """Return the covariance matrix with off-diagonal entries shrunk by the share that the noise explains."""
    off = covariance - np.diag(np.diag(covariance))
    size = float(np.square(off).sum())
    expected = float(np.square(noise - np.diag(np.diag(noise))).sum())
    shrunk: Array = covariance - off * (min(1.0, expected / size) if size else 1.0)
    return shrunk


def _with_eigenvalues(matrix: Array, change: Callable[[Array], Array]) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    made: Array = (vectors * change(values)) @ vectors.T
    return (made + made.T) / 2


Method = Literal["lda", "qda"]
Sampling = Literal["bounded", "normal", "none"]

FEW = 300  # rows, below which the mean of what is skewed, or seldom differs, is not normal
_NOISE_SDS = 2.0  # standard deviations of the noise
_LONG = 0.8  # mean squared length of the rows, of the squared radius
_CLEAR_SDS = 3.0  # standard errors of its noise by which a variance must be above 0 for correlations


def estimate_moments(sums: Sums) -> Estimates:
    """Estimate means and covariances of each group from its noisy sums.

    Parameters
    ----------
    sums : Sums
        Noisy sums of n rows, S of y and P of y yᵀ.

    Returns
    -------
    Estimates
        Means S/n, and covariances (P - (SSᵀ - s²I)/n)/(n - 1), with s the standard deviation of the noise in S.
    """
    d = sums.totals.shape[1]
    n = np.maximum(sums.sizes, d + 1.0 if sums.size_sd else 1.0)
    S = sums.totals
    squares = (S[:, :, None] * S[:, None, :] - sums.total_sd**2 * np.eye(d)) / n[:, None, None]
    divisor = np.maximum(n - 1, 1.0)[:, None, None]
    return Estimates(
        sums, n, np.clip(S / n[:, None], -1.0, 1.0), (sums.products - squares) / divisor, sums.product_sd / divisor
    )


@dataclass(frozen=True)
class Estimates:
    """Unbiased noisy means and covariances of groups, whose covariance matrices may be indefinite.

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

    @property
    def variances(self) -> Array:
        """Variances of the columns in each group, shape (groups, d), with negative values set to 0."""
        return np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 0.0)

    def pooled(self) -> Estimates:
        """Return the average covariance of all groups, weighted by degrees of freedom."""
        freedom = np.maximum(self.sizes - 1, 1.0)
        covariance = np.tensordot(freedom / freedom.sum(), self.covariances, axes=1)
        noise = self.sums.product_sd * math.sqrt(len(self.sizes)) / freedom.sum()
        return Estimates(self.sums, self.sizes, self.means, covariance[None], noise[None])

    def mean_errors(self, *, sampling: bool = True) -> Array:
        """Return the standard errors of the means of each group, to first order in the noise.

        Parameters
        ----------
        sampling : bool
            Whether to count what sampling adds to the noise.

        Returns
        -------
        ndarray of shape (groups, d)
            Standard errors.
        """
        n = self.sizes[:, None]
        noise = (self.sums.total_sd**2 + (self.means * self.sums.size_sd) ** 2) / n**2
        errors: Array = np.sqrt(noise + self.variances / n * sampling)
        return errors

    def covariance_errors(self, sampling: Sampling = "bounded") -> Array:
        r"""Return the standard errors of the covariances, to first order in the noise of the group sizes.

        Parameters
        ----------
        sampling : {"bounded", "normal", "none"}
            What sampling adds to the noise: at most, for any data between the bounds; for normal data; or nothing.

        Returns
        -------
        ndarray of the shape of `covariances`
            Standard errors.

        Notes
        -----
        The sampling variance of a covariance is :math:`(E u_i^2 u_j^2 - C_{ij}^2)/n` with u = y - m. As |u| is at
        most β = 1 + |m|, :math:`E u_i^2 u_j^2 \le \min(\beta_i^2 C_{jj}, \beta_j^2 C_{ii})`; two equal values far
        from a third attain it. Variances count with one standard error more, in case the noise made them small.
        """
        n = self.sizes[:, None, None]
        m = self.means
        outer = m[:, :, None] * m[:, None, :]
        same = 1 + np.eye(m.shape[1])
        each = m[:, :, None] ** 2 + m[:, None, :] ** 2 + 2 * outer * np.eye(m.shape[1])
        noise = self.sums.product_sd**2 + each * self.sums.total_sd**2 + same * (self.sums.total_sd**2 / n) ** 2
        noise = noise + ((outer - self.covariances) * self.sums.size_sd) ** 2
        if len(self.covariances) < len(m):  # pooled
            noise, n = noise.sum(axis=0, keepdims=True), n.sum(axis=0, keepdims=True)
        noise = noise / n**2
        if sampling == "none":
            return np.sqrt(noise)
        v = self.variances
        if sampling == "normal":
            spread = v[:, :, None] * v[:, None, :] + self.covariances**2
        else:
            v = v + np.sqrt(np.diagonal(noise, axis1=1, axis2=2))
            reach = np.square(1 + np.abs(m))
            reach = reach.max(axis=0, keepdims=True) if len(v) < len(m) else reach
            one = reach[:, :, None] * v[:, None, :]
            spread = np.minimum(one, one.swapaxes(1, 2))
        errors: Array = np.sqrt(noise + spread / n)
        return errors

    def correlations(self) -> Array:
        """Return the correlations, shape (groups, d, d); NaN if a variance is not clearly above its noise.

        Returns
        -------
        ndarray of shape (groups, d, d)
            Between -1 and 1.
        """
        sd = np.sqrt(np.where(self.has_signal(), self.variances, np.nan))
        correlations: Array = np.clip(self.covariances / (sd[:, :, None] * sd[:, None, :]), -1.0, 1.0)
        return correlations

    def has_signal(self) -> NDArray[np.bool_]:
        """Return a mask of the variances that are clearly above their noise, shape (groups, d)."""
        noise = np.diagonal(self.covariance_errors("none"), axis1=1, axis2=2)
        return np.diagonal(self.covariances, axis1=1, axis2=2) > _CLEAR_SDS * noise

    def correlation_errors(self, sampling: Sampling = "bounded") -> Array:
        r"""Return the standard errors of the correlations, to first order.

        Parameters
        ----------
        sampling : {"bounded", "normal", "none"}
            As for `covariance_errors`.

        Returns
        -------
        ndarray of shape (groups, d, d)
            Standard errors; NaN where there is no correlation, 0 on the diagonal.

        Notes
        -----
        With z the standardised columns and r their correlation, the influence of a row is
        :math:`z_i z_j - \frac r2 (z_i^2 + z_j^2) = \frac{1 - r^2}2 (p^2 - q^2)`, p and q being sum and
        difference of z, standardised. As :math:`E p^4 \le \max p^2`, its variance is at most
        :math:`\frac14 (1 - r^2) (\beta_i/\sigma_i + \beta_j/\sigma_j)^2`; for normal data it is
        :math:`(1 - r^2)^2`.
        """
        n = self.sizes[:, None, None]
        r, m, told = self.correlations(), self.means, self.has_signal()
        v = np.where(told, self.variances, np.nan)
        vi, vj, mi, mj = v[:, :, None], v[:, None, :], m[:, :, None], m[:, None, :]
        root = np.sqrt(vi * vj)
        squares = np.square(np.diag(self.sums.product_sd))
        noise = np.square(self.sums.product_sd) / root**2
        noise = noise + r**2 / 4 * (squares[:, None] / vi**2 + squares / vj**2)
        slopes = [r * mi / vi - mj / root, r * mj / vj - mi / root]
        noise = noise + (slopes[0] ** 2 + slopes[1] ** 2) * self.sums.total_sd**2
        size = mi * mj / root - r / 2 * (mi**2 / vi + mj**2 / vj)
        noise = (noise + (size * self.sums.size_sd) ** 2) / n**2
        beta = (1 + np.abs(m)) / np.sqrt(v)
        left = 1 - r**2
        spread = {
            "bounded": left * (beta[:, :, None] + beta[:, None, :]) ** 2 / 4,
            "normal": left**2,
            "none": np.zeros_like(left),
        }[sampling]
        errors: Array = np.sqrt(noise + spread / n)
        np.einsum("gii->gi", errors)[:] = np.where(told, 0.0, np.nan)
        return errors

    def has_few_rows(self) -> NDArray[np.bool_]:
        """Return a mask of the groups with too few rows for approximately normal means, shape (groups,)."""
        noise, both = self.mean_errors(sampling=False), self.mean_errors()
        matters = (both > math.sqrt(2) * noise).any(axis=1)
        few: NDArray[np.bool_] = (self.sizes < FEW) & matters
        return few

    def unreliable_groups(self, radius: float | None) -> list[tuple[int | None, str]]:
        """Return pairs of the index of a group with unreliable estimates (None: all groups) and the reason.

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
        doubts: list[tuple[int | None, str]] = []
        for group, size in enumerate(self.sums.sizes):
            if size < _NOISE_SDS * self.sums.size_sd:
                doubts.append((group, "the noise hides the number of rows: its estimates are unreliable"))
            elif size <= d:
                doubts.append((group, f"it has about {max(size, 0):.0f} rows, too few for {d} columns"))
        if (self.sums.sizes < _NOISE_SDS * self.sums.size_sd).all():
            doubts.append((None, f"hardly any rows were counted. {UNDECLARED.rstrip('.')}"))
        for group, (covariance, noise) in enumerate(zip(self.covariances, self.noise, strict=True)):
            if spectral_noise(noise) >= max(np.trace(covariance) / d, 0.0):
                place = None if len(self.covariances) < len(self.means) else group
                doubts.append((place, "the covariance is mostly noise"))
        if (
            radius is not None
            and radius < math.sqrt(d) * (1 - 1e-9)
            and self._least_mean_squared_norm() > _LONG * radius**2
        ):
            note = "many rows are longer than radius= and were scaled towards the middle of the bounds: use radius="
            doubts.append((None, f"{note}{d}**0.5"))
        return doubts

    def _least_mean_squared_norm(self) -> float:
        """Return a lower limit of the mean squared norm of the scaled rows, over all groups."""
        sums = self.sums
        groups = len(sums.sizes)
        noise = math.sqrt(groups * np.square(np.diag(sums.product_sd)).sum())
        total = np.trace(sums.products, axis1=1, axis2=2).sum() - _NOISE_SDS * noise
        return float(total / max(sums.sizes.sum() + _NOISE_SDS * math.sqrt(groups) * sums.size_sd, 1.0))
