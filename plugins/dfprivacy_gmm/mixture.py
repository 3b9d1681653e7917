"""What a Gaussian mixture says of rows, with scikit-learn's names, once its parameters are known."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from dfprivacy import ArgumentError
from dfprivacy.plotting import axes, ink
from dfprivacy_gmm.gaussians import matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dfprivacy_gmm.characteristic import Shape

__all__ = ["MixtureModel", "shaped"]

_ELLIPSES = (1.0, 2.0)


class MixtureModel:
    """Densities, labels and samples of a mixture, from weights, means and covariances."""

    columns: tuple[str, ...]
    n_components: int
    covariance_type: Shape
    weights_: NDArray[np.float64]
    means_: NDArray[np.float64]
    covariances_: NDArray[np.float64]
    bounds: NDArray[np.float64]

    @property
    def n_features_in_(self) -> int:
        """Number of columns, by scikit-learn's name."""
        return len(self.columns)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The columns, by scikit-learn's name."""
        return np.array(self.columns, dtype=object)

    @property
    def covariances(self) -> NDArray[np.float64]:
        """Covariances in full, shape (K, d, d)."""
        K, d = self.means_.shape
        covariances = np.zeros((K, d, d))
        diagonal = range(d)
        match self.covariance_type:
            case "diag":
                covariances[:, diagonal, diagonal] = self.covariances_
            case "spherical":
                covariances[:, diagonal, diagonal] = self.covariances_[:, None]
            case _:
                covariances[:] = self.covariances_
        return covariances

    @cached_property
    def _roots(self) -> NDArray[np.float64]:
        return np.linalg.cholesky(self.covariances).astype(np.float64)

    def _log_joint(self, X: Any) -> NDArray[np.float64]:
        """Log of weight times density, shape (rows, K)."""
        u = np.linalg.solve(self._roots, matrix(X, self.columns, len(self.columns)).T - self.means_[..., None])
        volume = np.log(np.diagonal(self._roots, axis1=1, axis2=2)).sum(axis=1)
        constant = np.log(self.weights_) - volume - 0.5 * len(self.columns) * math.log(2 * math.pi)
        joint: NDArray[np.float64] = (constant[:, None] - 0.5 * np.square(u).sum(axis=1)).T
        return joint

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Log-density of public rows.

        Parameters
        ----------
        X : array_like of shape (rows, d), or a frame with the columns
            Public rows.

        Returns
        -------
        ndarray of shape (rows,)
            Log-densities.
        """
        density: NDArray[np.float64] = logsumexp(self._log_joint(X), axis=1)
        return density

    def score(self, X: Any) -> float:
        """Mean log-density of public rows.

        Parameters
        ----------
        X : array_like of shape (rows, d), or a frame with the columns
            Public rows.

        Returns
        -------
        float
            Mean log-density.
        """
        return float(self.score_samples(X).mean())

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the components for public rows.

        Parameters
        ----------
        X : array_like of shape (rows, d), or a frame with the columns
            Public rows.

        Returns
        -------
        ndarray of shape (rows, K)
            Probabilities.
        """
        joint = self._log_joint(X)
        shares: NDArray[np.float64] = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        return shares

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Most probable component of public rows.

        Parameters
        ----------
        X : array_like of shape (rows, d), or a frame with the columns
            Public rows.

        Returns
        -------
        ndarray of shape (rows,)
            Numbers of components.
        """
        labels: NDArray[np.intp] = self._log_joint(X).argmax(axis=1)
        return labels

    def sample(
        self, n_samples: int = 1, *, random_state: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Draw synthetic rows. They cost nothing.

        Parameters
        ----------
        n_samples : int
            How many.
        random_state : int, optional
            For the same rows again.

        Returns
        -------
        ndarray of shape (n_samples, d)
            Rows; not cut at the bounds.
        ndarray of shape (n_samples,)
            The component of each.
        """
        if not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise ArgumentError(f"n_samples={n_samples!r} is no number of rows.", "Use at least 1.")
        rng = np.random.default_rng(random_state)
        labels = rng.choice(self.n_components, size=n_samples, p=self.weights_)
        normal = rng.standard_normal((n_samples, len(self.columns)))
        rows: NDArray[np.float64] = self.means_[labels] + np.einsum("nij,nj->ni", self._roots[labels], normal)
        return rows, labels

    def _named(self, at: int) -> str:
        """Name a column for people, where a schema has said how."""
        words: dict[str, str] = getattr(self, "column_words", {})
        return words.get(self.columns[at], self.columns[at])

    def plot(self, ax: Any = None) -> Any:
        """Draw the density of one column, or the ellipses of the first two at one and two standard deviations."""
        ax = axes(ax)
        if len(self.columns) == 1:
            low, high = self.bounds[0]
            x = np.linspace(low, high, 400)
            parts = np.exp(self._log_joint(x[:, None]))
            ax.plot(x, parts.sum(axis=1), color=ink(ax), label="density")
            ax.plot(x, parts, ls=":")
            ax.set(xlabel=self._named(0), ylabel="density")
            return ax
        turn = np.linspace(0, 2 * np.pi, 200)
        circle = np.stack([np.cos(turn), np.sin(turn)])
        for k, (mean, covariance) in enumerate(zip(self.means_, self.covariances, strict=True)):
            root = np.linalg.cholesky(covariance[:2, :2])
            ax.plot(*mean[:2], "+", color=f"C{k}", label=f"{self.weights_[k]:.0%}")
            for radius in _ELLIPSES:
                ax.plot(*(mean[:2, None] + radius * root @ circle), color=f"C{k}", lw=3 / (1 + radius))
        ax.set(xlabel=self._named(0), ylabel=self._named(1))
        ax.legend(frameon=False, fontsize="small")
        return ax


def shaped(covariances: NDArray[np.float64], shape: Shape) -> NDArray[np.float64]:
    """Give covariances in scikit-learn's shape for their type."""
    diagonal = np.diagonal(covariances, axis1=1, axis2=2)
    shaped: dict[Shape, NDArray[np.float64]] = {
        "full": covariances,
        "tied": covariances[0],
        "diag": np.ascontiguousarray(diagonal),
        "spherical": diagonal.mean(axis=1),
    }
    return shaped[shape]
