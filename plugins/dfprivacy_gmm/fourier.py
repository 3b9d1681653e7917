"""Results of Fourier sketches: the sketch, and Gaussian mixtures with scikit-learn's methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.special import gammaincc, logsumexp, softmax

from dfprivacy import ArgumentError, Range, Release
from dfprivacy.arguments import checked
from dfprivacy.plotting import axes, text_color
from dfprivacy.progress import progress
from dfprivacy.wording import list_text, number, pvalue
from dfprivacy_gmm.classes import as_matrix, draw_ellipses, draw_rows, log_joint_density
from dfprivacy_gmm.fit import (
    BATCHES,
    Count,
    Restarts,
    choose_mixture,
    component_counts,
    reliability_notes,
    single_gaussian,
    too_few_rows,
)
from dfprivacy_gmm.sketch import Shape, Sketch, Whitening

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FourierSketch", "GaussianMixture", "sklearn_shape"]

_LEVEL = 0.05  # of the goodness-of-fit test


def sklearn_shape(covariances: NDArray[np.float64], shape: Shape) -> NDArray[np.float64]:
    """Return covariances in the array shape that scikit-learn uses for the covariance type."""
    diagonal = np.diagonal(covariances, axis1=1, axis2=2)
    shaped: dict[Shape, NDArray[np.float64]] = {
        "full": covariances,
        "tied": covariances[0],
        "diag": np.ascontiguousarray(diagonal),
        "spherical": diagonal.mean(axis=1),
    }
    return shaped[shape]


@dataclass(frozen=True, kw_only=True, repr=False)
class FourierSketch(Release):
    """Noisy empirical characteristic function of columns, with their noisy mean and covariance.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    bounds : ndarray of shape (d, 2)
        Their bounds. y is a row mapped from them to [-1, 1]^d.
    frequencies : ndarray of shape (m, d)
        Frequencies, in radians per unit of y.
    cosines, sines : ndarray of shape (m,)
        Noisy means of the cosine and sine of frequency times y.
    noise_standard_error : float
        Standard deviation of the noise of each.
    centre, covariance : ndarray of shape (d,) and (d, d)
        Noisy mean and covariance of y, for which the frequencies were chosen.
    size : float
        Number of rows, noisy where it is private.
    size_error : float
        Relative standard error of it; 0 where it is public.
    max_components : int
        Number of components that the frequencies can resolve.
    epsilon : float
        The price, for the words on how much it can tell.
    missing : float or None
        Rows that were left out for a missing value, noisy. None where that is not known.
    missing_standard_error : float or None
        The standard deviation of the noise in it.
    notes : tuple of str
        What to know before trusting the numbers.
    """

    columns: tuple[str, ...]
    bounds: NDArray[np.float64]
    frequencies: NDArray[np.float64]
    cosines: NDArray[np.float64]
    sines: NDArray[np.float64]
    noise_standard_error: float
    centre: NDArray[np.float64]
    covariance: NDArray[np.float64]
    size: float
    size_error: float
    max_components: int
    epsilon: float
    missing: float | None = None
    missing_standard_error: float | None = None
    notes: tuple[str, ...] = ()

    _shown = ("columns", "max_components", "size", "noise_standard_error", "notes")

    def _sentence(self) -> str:
        """Write a sentence on the columns of the sketch and on its use."""
        about = f"{number(self.size, max(self.size * self.size_error, 1.0))} rows of {self._label(*self.columns)}"
        return f"A sketch of {about}, from which fit() makes mixtures of up to {self.max_components} components."

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the mean and sd of each column, by which the sketch was whitened, as rows of a tidy table."""
        spreads = self.half_widths * np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        means = self.midpoints + self.half_widths * self.centre
        return [{"column": self.columns, "mean": means, "std": spreads, "n": self.size}]

    @property
    def half_widths(self) -> NDArray[np.float64]:
        """Half the width of each column's bounds."""
        return self.bounds[:, 1] / 2 - self.bounds[:, 0] / 2

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """Midpoint of each column's bounds."""
        return self.bounds[:, 0] / 2 + self.bounds[:, 1] / 2

    @property
    def sketch(self) -> Sketch:
        """Noisy characteristic function of y, the columns scaled from their bounds to [-1, 1]."""
        return Sketch(
            self.frequencies, self.cosines + 1j * self.sines, self.noise_standard_error, self.size, self.size_error
        )

    def fit(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        covariance_type: Shape = "full",
        restarts: int = BATCHES,
    ) -> GaussianMixture:
        """Fit a Gaussian mixture to the sketch, at no further cost.

        Parameters
        ----------
        n_components : int or "auto"
            Number of components; ``"auto"`` tries 1 to `max_components` and chooses.
        covariance_type : {"full", "tied", "diag", "spherical"}
            Shape of the covariances.
        restarts : int
            Most batches of nine starts each.

        Returns
        -------
        GaussianMixture
            The mixture, in the columns' units.

        Raises
        ------
        ArgumentError
            If an argument cannot be used.
        """
        checked(covariance_type, Shape, "covariance_type")
        restarts = checked(restarts, Restarts, "restarts")
        numbers = component_counts(checked(n_components, Count, "n_components"), self.max_components)
        if numbers[-1] > self.max_components:
            raise ArgumentError(
                f"The frequencies of this sketch were chosen for at most {self.max_components} components.",
                f"Fit fewer components, or release a sketch with max_components={numbers[-1]}.",
            )
        frame = Whitening(self.centre, self.covariance).preserving_shape(covariance_type, self.half_widths)
        sketch, d = self.sketch.whitened(frame.centre, frame.root), len(self.columns)
        tried = [K for K in numbers if not too_few_rows(K, d, self.size, self.epsilon)]
        if tried:
            with progress(len(tried) * restarts, what="fitting", unit=" restarts") as bar:
                fit, criteria = choose_mixture(
                    sketch, tried, covariance_type, batches=restarts, told=lambda: bar.update(1)
                )
        else:
            fit, criteria = single_gaussian(sketch, numbers[-1], covariance_type), {}
        weights, centres, roots = fit.mixture
        own, inverse = fit.mean_covariances(sketch), np.linalg.inv(roots)
        error = float(np.sqrt(np.trace(inverse @ own @ inverse.swapaxes(1, 2), axis1=1, axis2=2)).mean())
        units = self.half_widths[:, None] * frame.root  # from whitened rows to the columns' units
        m = len(self.frequencies)
        return GaussianMixture(
            columns=self.columns,
            n_components=len(weights),
            covariance_type=covariance_type,
            weights_=weights,
            means_=self.midpoints + self.half_widths * frame.centre + centres @ units.T,
            covariances_=sklearn_shape(units @ fit.mixture.covariances @ units.T, covariance_type),
            mean_errors=np.sqrt(np.diagonal(units @ own @ units.T, axis1=1, axis2=2)),
            relative_error=error,
            residual=fit.residual / m,
            residual_pvalue=float(gammaincc(m, fit.residual)),
            criteria={str(k): value for k, value in criteria.items()},
            sketch=self,
            notes=(*self.notes, *reliability_notes(fit, error, size=self.size, epsilon=self.epsilon, m=m)),
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the modulus of the characteristic function against the whitened frequency, and the noise."""
        ax = axes(ax)
        length = np.linalg.norm(self.frequencies @ Whitening(self.centre, self.covariance).root, axis=1)
        ax.plot(length, np.hypot(self.cosines, self.sines), ".", label="sketch")
        ax.axhline(self.noise_standard_error, color="grey", ls=":", label="standard deviation of the noise")
        ax.set(xlabel="frequency, per standard deviation", ylabel="size", title=self._with_units(*self.columns))
        ax.legend(frameon=False, fontsize="small")
        return ax


@dataclass(frozen=True, kw_only=True, repr=False)
class GaussianMixture(Release):
    """Gaussian mixture fitted to private rows, with the methods of scikit-learn's `GaussianMixture`.

    Attributes
    ----------
    columns : tuple of str
        The d columns.
    n_components : int
        Number of components K.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Shape of the covariances.
    weights_ : ndarray of shape (K,)
        Weights of the components.
    means_ : ndarray of shape (K, d)
        Their means, in the columns' units.
    covariances_ : ndarray of shape (K, d, d), (d, d), (K, d) or (K,)
        Their covariances, in the order of the types above.
    mean_errors : ndarray of shape (K, d)
        Predicted standard errors of the means, from sampling and noise, in the columns' units.
    relative_error : float
        Predicted error of a centre, in standard deviations of its component, averaged.
    residual : float
        Misfit of the sketch; about 1 or below if the data are such a mixture.
    residual_pvalue : float
        p-value of the residual test, conservative: whether the data are such a mixture.
    criteria : dict of str to float
        For each number of components tried, the misfit plus the penalty; the smallest was chosen.
    sketch : FourierSketch
        What was released first. ``sketch.fit(n_components=...)`` fits another mixture at no charge.
    notes : tuple of str
        What to know before trusting the numbers.
    """

    columns: tuple[str, ...]
    n_components: int
    covariance_type: Shape
    weights_: NDArray[np.float64]
    means_: NDArray[np.float64]
    covariances_: NDArray[np.float64]
    mean_errors: NDArray[np.float64]
    relative_error: float
    residual: float
    residual_pvalue: float
    criteria: dict[str, float]
    sketch: FourierSketch
    notes: tuple[str, ...]

    _shown = ("n_components", "columns", "relative_error", "residual_pvalue", "notes")

    def _sentence(self) -> str:
        """Write a sentence with the weights of the components and the fit of the mixture."""
        shares = list_text([f"{weight:.0%}" for weight in sorted(self.weights_, reverse=True)])
        many = f"{self.n_components} Gaussian component{'s' * (self.n_components != 1)}"
        rejects = "rejects" if self.residual_pvalue < _LEVEL else "does not reject"
        fits = f"the goodness-of-fit test {rejects} this model ({pvalue(self.residual_pvalue)})"
        return f"{self._label(*self.columns)} fitted by a mixture of {many}, with {shares} of the rows; {fits}."

    def _rows(self) -> list[tuple[str, str]]:
        """Return the facts, with the predicted error and the p-value in words."""
        rows = dict(super()._rows())
        error = f"{self.relative_error:.2g} standard deviations of a component: predicted error of its mean"
        test = f"{pvalue(self.residual_pvalue)}: goodness-of-fit test, conservative"
        return list({**rows, "relative_error": error, "residual_pvalue": test}.items())

    def _tidy(self) -> list[dict[str, Any]]:
        """Return weight, mean and sd of each component in each column as rows of a tidy table."""
        k, d = self.means_.shape
        spreads = np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))
        return [
            {
                "component": np.repeat(np.arange(k), d),
                "column": list(self.columns) * k,
                "weight": np.repeat(self.weights_, d),
                "mean": self.means_,
                "mean_error": self.mean_errors,
                "std": spreads,
            }
        ]

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Lower and upper bounds of the columns, shape (d, 2)."""
        return self.sketch.bounds

    @property
    def n_features_in_(self) -> int:
        """Number of columns; the attribute has scikit-learn's name."""
        return len(self.columns)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of the columns; the attribute has scikit-learn's name."""
        return np.array(self.columns, dtype=object)

    @property
    def covariances(self) -> NDArray[np.float64]:
        """Covariance matrices of the components, shape (K, d, d)."""
        K, d = self.means_.shape
        own = self.covariances_
        if self.covariance_type in {"diag", "spherical"}:
            own = own.reshape(K, -1, 1) * np.eye(d)
        return np.broadcast_to(own, (K, d, d))

    def _log_joint(self, X: Any) -> NDArray[np.float64]:
        """Return the log of weight times density of each component at each row, shape (rows, K)."""
        rows = as_matrix(X, self.columns, len(self.columns))
        return log_joint_density(rows, self.weights_, self.means_, self.covariances)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return the log-density of each public row.

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
        """Return the mean log-density of public rows.

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
        """Return the probability of each component for each public row, shape (rows, K).

        Parameters
        ----------
        X : array_like of shape (rows, d), or a frame with the columns
            Public rows.

        Returns
        -------
        ndarray of shape (rows, K)
            Probabilities.
        """
        shares: NDArray[np.float64] = softmax(self._log_joint(X), axis=1)
        return shares

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return the most probable component of each public row.

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
        """Draw synthetic rows from the mixture, at no cost.

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
        n_samples = checked(n_samples, Annotated[int, Range(1)], "n_samples")
        return draw_rows(self.weights_, self.means_, self.covariances, n_samples, random_state)

    def plot(self, ax: Any = None) -> Any:
        """Draw the density of a single column, or ellipses at one and two standard deviations in the first two."""
        ax = axes(ax)
        if len(self.columns) == 1:
            low, high = self.bounds[0]
            x = np.linspace(low, high, 400)
            parts = np.exp(self._log_joint(x[:, None]))
            ax.plot(x, parts.sum(axis=1), color=text_color(ax), label="density")
            ax.plot(x, parts, ls=":")
            ax.set(xlabel=self._with_units(self.columns[0]), ylabel="density")
            return ax
        for k, (mean, covariance) in enumerate(zip(self.means_, self.covariances, strict=True)):
            draw_ellipses(ax, mean[:2], covariance[:2, :2], f"C{k}", f"{self.weights_[k]:.0%}")
        ax.set(xlabel=self._with_units(self.columns[0]), ylabel=self._with_units(self.columns[1]))
        ax.legend(frameon=False, fontsize="small")
        return ax
