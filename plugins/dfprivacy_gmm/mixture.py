"""What is released of a table without labels: its Fourier sketch, and Gaussian mixtures fitted to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from scipy.special import gammaincc, logsumexp

from dfprivacy import ArgumentError, Release
from dfprivacy.plotting import axes
from dfprivacy.progress import progress
from dfprivacy_gmm.characteristic import Shape, Sketch
from dfprivacy_gmm.choice import choose
from dfprivacy_gmm.fit import BATCHES, Fit
from dfprivacy_gmm.polish import sketch_covariance
from dfprivacy_gmm.sketch import Whitening

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FourierSketch", "GaussianMixture", "check_components", "check_number", "rows_needed"]

_POOR = 0.2  # predicted error of a centre, in standard deviations, from which most fits fail
_VOID = 1.0  # and from which nothing was learned
_ELLIPSES = (1.0, 2.0)


def check_components(n_components: object, most: int | None = None) -> tuple[int, ...]:
    """Give the numbers of components to try, or raise `ArgumentError`."""
    if isinstance(n_components, str) and n_components == "auto":
        return tuple(range(1, (most or _MOST_AUTO) + 1))
    return (check_number(n_components),)


def check_number(n_components: object) -> int:
    """Give a number of components, or raise `ArgumentError`."""
    whole = isinstance(n_components, int | np.integer) and not isinstance(n_components, bool)
    if not whole or not 1 <= int(n_components) <= _MOST:  # type: ignore[call-overload]
        raise ArgumentError(
            f"{n_components!r} is no number of components.", f'Use 1 to {_MOST}, or "auto" to choose.'
        )
    return int(n_components)  # type: ignore[call-overload, no-any-return]


_MOST = 50
_MOST_AUTO = 6


def rows_needed(K: int, d: int, epsilon: float, separation: float = 2.5) -> int:
    """Give the rows from which about nine of ten mixtures are found, as measured in simulations.

    Parameters
    ----------
    K, d : int
        Components and columns.
    epsilon : float
        Price, at delta = 1e-6.
    separation : {2.5, 4}
        Distance of the closest centres, in standard deviations.
    """
    factor = 0.25 if separation >= 4 else 1.0  # noqa: PLR2004
    return math.ceil(5000 * factor * K * max(1.0, (d / 5) ** 2) / epsilon)


@dataclass(frozen=True, kw_only=True, repr=False)
class FourierSketch(Release):
    """A noisy empirical characteristic function of some columns, and their noisy mean and covariance.

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
    noise : float
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
        What was asked to be paid, for the words on how much it can tell.
    notes : tuple of str
        What to know before trusting the numbers.
    """

    columns: tuple[str, ...]
    bounds: NDArray[np.float64]
    frequencies: NDArray[np.float64]
    cosines: NDArray[np.float64]
    sines: NDArray[np.float64]
    noise: float
    centre: NDArray[np.float64]
    covariance: NDArray[np.float64]
    size: float
    size_error: float
    max_components: int
    epsilon: float
    notes: tuple[str, ...] = ()

    _shown = ("columns", "max_components", "size", "noise", "notes")

    @property
    def half(self) -> NDArray[np.float64]:
        """Half widths of the bounds."""
        return self.bounds[:, 1] / 2 - self.bounds[:, 0] / 2

    @property
    def middle(self) -> NDArray[np.float64]:
        """Middles of the bounds."""
        return self.bounds[:, 0] / 2 + self.bounds[:, 1] / 2

    @property
    def sketch(self) -> Sketch:
        """The sketch in units of y."""
        return Sketch(self.frequencies, self.cosines + 1j * self.sines, self.noise, self.size, self.size_error)

    def fit(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        covariance_type: Shape = "full",
        restarts: int = BATCHES,
    ) -> GaussianMixture:
        """Fit a Gaussian mixture. It costs nothing, however often it is done.

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
        return self.conclude(*self.searched(n_components, covariance_type, restarts))

    def searched(
        self, n_components: int | Literal["auto"], covariance_type: Shape, restarts: int
    ) -> tuple[Fit, dict[int, float]]:
        """Fit, in units of y; what is left to do is `conclude`."""
        if covariance_type not in get_args(Shape):
            raise ArgumentError(
                f"covariance_type={covariance_type!r} is unknown.", f"Use one of {get_args(Shape)}."
            )
        if not isinstance(restarts, int) or restarts < 1:
            raise ArgumentError(f"restarts={restarts!r} is no number of restarts.", "Use at least 1.")
        counts = check_components(n_components, self.max_components)
        if counts[-1] > self.max_components:
            raise ArgumentError(
                f"The frequencies of this sketch were chosen for at most {self.max_components} components.",
                f"Fit fewer, or release a sketch with max_components={counts[-1]}.",
            )
        frame = Whitening(self.centre, self.covariance).keeping(covariance_type, self.half)
        sketch = self.sketch.mapped(frame.centre, frame.root)
        with progress(len(counts) * restarts, what="fitting", unit=" restarts") as bar:
            fit, criteria = choose(sketch, counts, covariance_type, batches=restarts, told=lambda: bar.update(1))
        return fit.mapped(frame.centre, frame.root), criteria

    def conclude(
        self, fit: Fit, criteria: dict[int, float], covariance: NDArray[np.float64] | None = None
    ) -> GaussianMixture:
        """Return to the columns' units, with what is to be said of the fit."""
        K, d = fit.means.shape
        polished = covariance is not None
        covariance = sketch_covariance(fit, self.sketch) if covariance is None else covariance
        own = covariance.reshape(K, -1, K, covariance.shape[0] // K)[range(K), 1 : 1 + d, range(K), 1 : 1 + d]
        errors = np.sqrt(np.maximum(np.trace(own, axis1=1, axis2=2), 0.0))
        here = fit.roots @ own @ fit.roots.swapaxes(1, 2)
        scale = np.outer(self.half, self.half)
        m = len(self.frequencies)
        return GaussianMixture(
            columns=self.columns,
            n_components=K,
            covariance_type=fit.shape,
            weights_=fit.weights,
            means_=self.middle + fit.means * self.half,
            covariances_=_shaped(fit.covariances * scale, fit.shape),
            mean_errors=np.sqrt(np.maximum(np.diagonal(here, axis1=1, axis2=2), 0.0)) * self.half,
            relative_error=float(errors.mean()),
            residual=fit.residual / m,
            residual_pvalue=float(gammaincc(m, fit.residual)),
            criteria={str(k): value for k, value in criteria.items()},
            polished=polished,
            sketch=self,
            notes=self._notes(fit, float(errors.mean())),
        )

    def _notes(self, fit: Fit, error: float) -> tuple[str, ...]:
        K, d = fit.means.shape
        m = len(self.frequencies)
        notes = list(self.notes)
        far, near = rows_needed(K, d, self.epsilon, 4), rows_needed(K, d, self.epsilon)
        if self.size < far / 4 or error > _VOID:
            notes.append(
                f"Uninformative: {K} components in {d} columns need about {far:,} rows at this epsilon even where "
                f"they are 4 standard deviations apart; there are about {self.size:,.0f}."
            )
        elif self.size < near:
            notes.append(
                f"Few rows: {K} components in {d} columns are found in nine tables of ten from about {far:,} rows "
                f"on where they are 4 standard deviations apart, and from {near:,} on at 2.5."
            )
        elif error > _POOR:
            notes.append(
                f"The predicted error of the centres is {error:.2g} standard deviations; above {_POOR} most fits "
                "are wrong."
            )
        if fit.residual > m + 3 * math.sqrt(m):
            notes.append(
                "The mixture does not describe the sketch: the data are no mixture of so many Gaussians of this "
                "shape (values that repeat, or pile up at the bounds, do that too), or the best one was not found."
            )
        if not fit.agreed:
            notes.append("No two searches ended in the same optimum: try restarts=20.")
        return tuple(notes)

    def plot(self, ax: Any = None) -> Any:
        """Draw the size of the characteristic function against the whitened frequency, and the noise.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        ax = axes(ax)
        length = np.linalg.norm(self.frequencies @ Whitening(self.centre, self.covariance).root, axis=1)
        ax.plot(length, np.hypot(self.cosines, self.sines), ".", label="sketch")
        ax.axhline(self.noise, color="grey", ls=":", label="standard deviation of the noise")
        ax.set(xlabel="frequency, per standard deviation", ylabel="size", title=", ".join(self.columns))
        ax.legend(frameon=False, fontsize="small")
        return ax


@dataclass(frozen=True, kw_only=True, repr=False)
class GaussianMixture(Release):
    """A Gaussian mixture of private rows, with scikit-learn's names.

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
    polished : bool
        Whether the fit to the sketch was improved by further noisy moments.
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
    polished: bool
    sketch: FourierSketch
    notes: tuple[str, ...]

    _shown = ("n_components", "columns", "relative_error", "residual_pvalue", "notes")

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
        found = np.zeros((K, d, d))
        diagonal = range(d)
        match self.covariance_type:
            case "diag":
                found[:, diagonal, diagonal] = self.covariances_
            case "spherical":
                found[:, diagonal, diagonal] = self.covariances_[:, None]
            case _:
                found[:] = self.covariances_
        return found

    @cached_property
    def _roots(self) -> NDArray[np.float64]:
        return np.linalg.cholesky(self.covariances).astype(np.float64)

    def _points(self, X: Any) -> NDArray[np.float64]:
        """Rows of a frame that has the columns, or of an array."""
        if hasattr(X, "columns"):
            missing = [name for name in self.columns if name not in X.columns]
            if missing:
                raise ArgumentError(f"The table has no column {missing[0]!r}.", "Give one with the fitted columns.")
            X = X[list(self.columns)]
        try:
            points = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            points = np.empty(0)
        if points.ndim != 2 or points.shape[1] != len(self.columns) or not np.isfinite(points).all():  # noqa: PLR2004
            raise ArgumentError(
                f"X must be finite numbers of shape (rows, {len(self.columns)}).",
                f"Its columns are {', '.join(self.columns)}.",
            )
        return points

    def _log_joint(self, X: Any) -> NDArray[np.float64]:
        """Log of weight times density, shape (rows, K)."""
        u = np.linalg.solve(self._roots, self._points(X).T - self.means_[..., None])
        volume = np.log(np.diagonal(self._roots, axis1=1, axis2=2)).sum(axis=1)
        constant = np.log(self.weights_) - volume - 0.5 * len(self.columns) * math.log(2 * math.pi)
        found: NDArray[np.float64] = (constant[:, None] - 0.5 * np.square(u).sum(axis=1)).T
        return found

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
        found: NDArray[np.float64] = logsumexp(self._log_joint(X), axis=1)
        return found

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
        found: NDArray[np.float64] = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        return found

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
        found: NDArray[np.intp] = self._log_joint(X).argmax(axis=1)
        return found

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

    def plot(self, ax: Any = None) -> Any:
        """Draw the density of one column, or the ellipses of the first two at one and two standard deviations.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        ax = axes(ax)
        if len(self.columns) == 1:
            low, high = self.sketch.bounds[0]
            x = np.linspace(low, high, 400)
            parts = np.exp(self._log_joint(x[:, None]))
            ax.plot(x, parts.sum(axis=1), color="black", label="density")
            ax.plot(x, parts, ls=":")
            ax.set(xlabel=self.columns[0])
            return ax
        turn = np.linspace(0, 2 * np.pi, 200)
        circle = np.stack([np.cos(turn), np.sin(turn)])
        for k, (mean, covariance) in enumerate(zip(self.means_, self.covariances, strict=True)):
            root = np.linalg.cholesky(covariance[:2, :2])
            ax.plot(*mean[:2], "+", color=f"C{k}", label=f"{self.weights_[k]:.0%}")
            for radius in _ELLIPSES:
                ax.plot(*(mean[:2, None] + radius * root @ circle), color=f"C{k}", lw=3 / (1 + radius))
        ax.set(xlabel=self.columns[0], ylabel=self.columns[1])
        ax.legend(frameon=False, fontsize="small")
        return ax


def _shaped(covariances: NDArray[np.float64], shape: Shape) -> NDArray[np.float64]:
    """Give covariances in scikit-learn's shape for their type."""
    diagonal = np.diagonal(covariances, axis1=1, axis2=2)
    shaped: dict[Shape, NDArray[np.float64]] = {
        "full": covariances,
        "tied": covariances[0],
        "diag": np.ascontiguousarray(diagonal),
        "spherical": diagonal.mean(axis=1),
    }
    return shaped[shape]
