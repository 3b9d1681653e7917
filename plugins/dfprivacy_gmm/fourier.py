"""A released Fourier sketch: what mixtures are fitted to, as often as is wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.special import gammaincc

from dfprivacy import ArgumentError, Range, Release
from dfprivacy.plotting import axes
from dfprivacy.progress import progress
from dfprivacy_gmm.characteristic import Shape, Sketch
from dfprivacy_gmm.choice import choose
from dfprivacy_gmm.fit import BATCHES, Fit
from dfprivacy_gmm.mixture import GaussianMixture, shaped
from dfprivacy_gmm.polish import sketch_covariance
from dfprivacy_gmm.sketch import Whitening

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Components", "FourierSketch", "check_components", "rows_needed"]

_POOR = 0.2  # predicted error of a centre, in standard deviations, from which most fits fail
_VOID = 1.0  # and from which nothing was learned
_MOST = 50  # components
_MOST_AUTO = 6

Components: TypeAlias = Annotated[int, Range(1, _MOST)]
"""A number of components."""


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


def check_search(covariance_type: object, restarts: object) -> None:
    """Raise `ArgumentError` for what is no shape of covariances, or no number of restarts."""
    if covariance_type not in get_args(Shape):
        raise ArgumentError(f"covariance_type={covariance_type!r} is unknown.", f"Use one of {get_args(Shape)}.")
    if not isinstance(restarts, int) or isinstance(restarts, bool) or restarts < 1:
        raise ArgumentError(f"restarts={restarts!r} is no number of restarts.", "Use at least 1.")


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
        check_search(covariance_type, restarts)
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
            covariances_=shaped(fit.covariances * scale, fit.shape),
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
