"""Gaussian classes of a private table: ``view.gmm_fit``."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np

from dfprivacy import ArgumentError, Release, features, mechanism
from dfprivacy.plotting import axes
from dfprivacy.schema import as_number
from dfprivacy_gmm.estimates import Estimates, Method, Repair, Sums
from dfprivacy_gmm.fit import BATCHES
from dfprivacy_gmm.gaussians import GaussianClassifier, Predicts, fitted
from dfprivacy_gmm.mixture import check_components, rows_needed
from dfprivacy_gmm.unlabelled import fit_unlabelled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator
    from dfprivacy_gmm.characteristic import Shape
    from dfprivacy_gmm.mixture import GaussianMixture

    Array = NDArray[np.float64]

__all__ = ["GaussianClasses", "findings", "gmm_fit", "measure"]

_RADIUS = 0.6  # times the square root of d


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class GaussianClasses(Predicts, Release):
    """Gaussian classes: a release, and a classifier as scikit-learn expects one.

    Attributes
    ----------
    columns : tuple of str
        The columns.
    label : str
        The column of the classes.
    classes : tuple
        Its categories.
    method : {"lda", "qda"}
        Whether the classes share a covariance.
    repair, grid_minimum, radius
        What was asked.
    sizes : ndarray of shape (classes,)
        Rows in each class; noisy where they are private.
    priors, means, covariances : ndarray
        Shapes (classes,), (classes, columns) and (classes or, for ``"lda"``, 1, columns, columns), in the columns'
        units.
    notes : tuple of str
        What to know before trusting the numbers; an uninformative class is named here.
    released : ndarray of shape (classes, coordinates)
        What all this follows from: the noisy sums, in units of y (the columns mapped from their bounds to [-1, 1]):
        rows where they are private, y, and y_i y_j for i ≤ j.
    noise_sd : ndarray of shape (coordinates,)
        Standard deviations of the noise in them.
    public_sizes : bool
        Whether the sizes are public.
    bounds : tuple of pairs
        The columns' bounds.
    """

    columns: tuple[str, ...]
    label: str
    classes: tuple[Any, ...]
    method: Method
    repair: Repair
    grid_minimum: float
    radius: float | None
    sizes: Array
    priors: Array
    means: Array
    covariances: Array
    notes: tuple[str, ...]
    released: Array
    noise_sd: Array
    public_sizes: bool
    bounds: tuple[tuple[float, float], ...]

    _shown = ("method", "classes", "priors", "means", "covariances", "notes")

    @cached_property
    def classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """The classes, as scikit-learn names them."""
        return np.array(self.classes)

    @property
    def priors_(self) -> Array:  # type: ignore[override]
        """The priors, as scikit-learn names them."""
        return self.priors

    @property
    def means_(self) -> Array:  # type: ignore[override]
        """The means, as scikit-learn names them."""
        return self.means

    @property
    def covariances_(self) -> Array:  # type: ignore[override]
        """A covariance for each class, shape (classes, columns, columns)."""
        return np.broadcast_to(self.covariances, (len(self.classes), *self.covariances.shape[1:]))

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The columns, as scikit-learn names them."""
        return np.array(self.columns, dtype=object)

    def refit(
        self, *, method: Method | None = None, repair: Repair | None = None, grid_minimum: float | None = None
    ) -> Self:
        """Fit again to the same noisy sums. It costs nothing.

        Parameters
        ----------
        method, repair, grid_minimum
            As for `gmm_fit`; default: as they were.

        Returns
        -------
        GaussianClasses
            Another model.
        """
        asked = _asked(
            self.method if method is None else method,
            self.repair if repair is None else repair,
            self.grid_minimum if grid_minimum is None else grid_minimum,
        )
        return self._fitted(self._sums, asked)

    def standard_errors(self, *, sampling: bool = True) -> tuple[Array, Array]:
        """Give the standard errors of means and covariances, before repair and to first order.

        Parameters
        ----------
        sampling : bool
            Whether to count what sampling adds to the noise, for normal classes.

        Returns
        -------
        means : ndarray of shape (classes, columns)
            In the columns' units.
        covariances : ndarray of the shape of `covariances`
            In products of the columns' units.
        """
        units = self._half[:, None] * self._half
        own = self.covariances / units
        found = self._estimates if len(own) == len(self.classes) else self._estimates.pooled()
        means = found.mean_errors(own, sampling=sampling) * self._half
        return means, found.covariance_errors(own, sampling=sampling) * units

    def expected_error(self, *, rows: int = 20_000, replicates: int = 10, random_state: Any = 0) -> float:
        """Estimate the share of fresh rows that a fit like this gets wrong, if the fitted classes are the truth.

        Parameters
        ----------
        rows : int
            Simulated rows.
        replicates : int
            Times that the noise is drawn anew; 0: the error of the fitted classes themselves.
        random_state : int or numpy.random.Generator
            Seed.

        Returns
        -------
        float
            Between 0 and 1. Too small where the classes are not Gaussian.
        """
        chance = np.random.default_rng(random_state)
        X, y = self.sample(rows, random_state=chance)
        if not replicates:
            return 1 - self.score(X, y)
        asked = self.method, self.repair, self.grid_minimum
        center = self._expected()
        errors = []
        for _ in range(replicates):
            values = center + self.noise_sd * chance.standard_normal(center.shape)
            sizes = self.sizes if self.public_sizes else None
            errors.append(1 - self._fitted(Sums.measured(values, self.noise_sd, sizes), asked).score(X, y))
        return float(np.mean(errors))

    def _expected(self) -> Array:
        """Give the sums of the fitted classes, without noise."""
        sizes = np.maximum(self.sizes, 1.0)
        means = (self.means - self._mid) / self._half
        products = self.covariances_ / (self._half[:, None] * self._half) + means[:, :, None] * means[:, None, :]
        upper = products[:, *np.triu_indices(len(self.columns))]
        parts = [means, upper] if self.public_sizes else [np.ones((len(sizes), 1)), means, upper]
        return sizes[:, None] * np.concatenate(parts, axis=1)

    def plot(self, ax: Any = None, columns: tuple[str, str] | None = None) -> Any:
        """Draw decision regions and the ellipses that hold 39% and 86% of each class, for two columns.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.
        columns : pair of str, optional
            Which two; default: the first two. Regions are those of the two columns alone.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        names: Any = self.columns[:2] if columns is None else columns
        names = tuple(names) if isinstance(names, list) else names
        if names not in itertools.permutations(self.columns, 2):
            raise ArgumentError(f"columns={names!r} are not two columns of the fit.", f"It has {self.columns!r}.")
        ax = axes(ax)
        place = [self.columns.index(name) for name in names]
        pair = GaussianClassifier()
        pair.classes_, pair.priors_ = np.arange(len(self.classes)), self.priors
        pair.means_, pair.covariances_ = self.means[:, place], self.covariances_[:, place][:, :, place]
        lines = [np.linspace(*self.bounds[i], 201) for i in place]
        mesh = np.stack(np.meshgrid(*lines), axis=-1)
        regions = pair.predict(mesh.reshape(-1, 2)).reshape(mesh.shape[:2])
        colors = [f"C{code}" for code in range(len(self.classes))]
        levels = np.arange(len(self.classes) + 1) - 0.5
        ax.contourf(*lines, regions, levels=levels, colors=colors, alpha=0.2)
        circle = np.linspace(0, 2 * math.pi, 100)
        for color, name, mean, covariance in zip(colors, self.classes, pair.means_, pair.covariances_, strict=True):
            values, vectors = np.linalg.eigh(covariance)
            ring = np.array([np.cos(circle), np.sin(circle)]).T * np.sqrt(np.maximum(values, 0)) @ vectors.T
            ax.plot(*mean, "o", color=color, label=f"{self.label} = {name}")
            for times in (1, 2):
                ax.plot(*(mean + times * ring).T, color=color)
        ax.set(xlabel=names[0], ylabel=names[1], xlim=lines[0][[0, -1]], ylim=lines[1][[0, -1]])
        ax.legend(fontsize="small", frameon=False)
        return ax

    def _names(self) -> tuple[str, ...]:
        return self.columns

    @property
    def _half(self) -> Array:
        return np.array([high / 2 - low / 2 for low, high in self.bounds])

    @property
    def _mid(self) -> Array:
        return np.array([high / 2 + low / 2 for low, high in self.bounds])

    @property
    def _sums(self) -> Sums:
        return Sums.measured(self.released, self.noise_sd, self.sizes if self.public_sizes else None)

    @property
    def _estimates(self) -> Estimates:
        return self._sums.estimates()

    def _fitted(self, sums: Sums, asked: tuple[Method, Repair, float]) -> Self:
        method, repair, grid_minimum = asked
        half = self._half
        method, found, means, covariances = fitted(
            sums, half, method=method, repair=repair, grid_minimum=grid_minimum
        )
        notes = tuple(
            f"{self.label} = {self.classes[group]}: {what}" if group is not None else f"all classes: {what}"
            for group, what in found.doubts()
        )
        return dataclasses.replace(
            self,
            method=method,
            repair=repair,
            grid_minimum=grid_minimum,
            priors=found.sizes / found.sizes.sum(),
            means=self._mid + half * means,
            covariances=covariances * half[:, None] * half,
            notes=notes,
        )

    def __sklearn_clone__(self) -> GaussianClassifier:
        return GaussianClassifier(**self.get_params())

    def __sklearn_is_fitted__(self) -> bool:
        return True


@mechanism(columns={"columns": ["numeric"], "label": "category"}, delta=True)
def gmm_fit(
    curator: Curator,
    columns: Sequence[Column],
    label: Column | None = None,
    *,
    n_components: int | Literal["auto"] | None = None,
    covariance_type: Shape = "full",
    restarts: int = BATCHES,
    method: Method = "lda",
    repair: Repair = "noise_aware",
    grid_minimum: float = 0.01,
    radius: float | None = None,
) -> GaussianClasses | GaussianMixture:
    """Fit a Gaussian to each class of a table (discriminant analysis), or a mixture where there are no labels.

    Parameters
    ----------
    columns : list of str
        Columns with bounds.
    label : str, optional
        A column with two or more categories, the classes. Rows of no category count nowhere.
    n_components : int or "auto", optional
        In place of a label: the number of components of a mixture; ``"auto"`` chooses among 1 to 6.
    covariance_type : {"full", "tied", "diag", "spherical"}
        Of a mixture: the shape of its covariances.
    restarts : int
        Of a mixture: most batches of starts. They cost time, and no privacy.
    method : {"lda", "qda", "auto"}
        One covariance for all classes, one for each, or one for each if they differ by more than the noise.
    repair : {"noise_aware", "paper", "clip"}
        How a noisy matrix is made a covariance. ``"noise_aware"``: shrink it and raise small eigenvalues, as far as
        the noise, which is known, calls for. ``"clip"``: raise them to almost 0. ``"paper"``: replace negative ones
        by `grid_minimum`, to which the search of the reference comes down.
    grid_minimum : float
        For ``"paper"``, in the columns' units squared.
    radius : float, optional
        With a delta: rows longer than this, with all columns mapped to [-1, 1], are scaled down to it; at most √d
        for d columns, which changes none, and is better where many values lie at an end of their bounds; default
        0.6 √d.

    Returns
    -------
    GaussianClasses or GaussianMixture
        With a label a classifier: ``predict``, ``predict_proba``, ``score``, ``sample``. Without, a mixture with
        scikit-learn's names, and the sketch it was fitted to, which can be fitted again at no charge.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** (ε, δ)-differential privacy for the account's neighbouring relation, by one measurement: of each
    class the count, the sums of y and those of y yᵀ, weighted so that they share one L2 sensitivity, 1.5 times the
    radius for a row more or less and √4.5 times for a row that changes, its label included. The noise is the
    discrete Gaussian, by its exact calibration. With a delta of 0: pure ε-differential privacy by discrete Laplace
    noise, which costs much more from five columns on. All else is post-processing.

    A mixture takes two or three sums with discrete Gaussian noise, which are one Gaussian mechanism together:
    moments, cosines and sines (`fourier_sketch`), and from three columns on moments about the components of the
    first fit. It needs a delta.

    References
    ----------
    .. [1] X. Tong, B. Xi, M. Kantarcioglu, A. Inan. Gaussian mixture models for classification and hypothesis
       tests under differential privacy. DBSec 2017.
    .. [2] B. Balle, Y.-X. Wang. Improving the Gaussian mechanism for differential privacy: analytical calibration
       and optimal denoising. ICML 2018.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> chance = np.random.default_rng(1)
    >>> group = np.repeat(["ill", "well"], 5000)
    >>> df = pd.DataFrame({"x": chance.normal(group == "ill"), "y": chance.normal(size=10_000), "group": group})
    >>> view = dp.protect(df, "gmm-example", epsilon=1, delta=1e-6, ledger="memory:",
    ...                   bounds={"x": (-4, 5), "y": (-4, 4)}, categories={"group": ["ill", "well"]})
    >>> classes = view.gmm_fit(["x", "y"], "group", epsilon=0.5)
    >>> classes.predict([[3, 0], [-2, 0]]).tolist()
    ['ill', 'well']
    >>> mixture = view.gmm_fit(["x"], n_components=1, epsilon=0.5)
    >>> mixture.means_.round(1).tolist()
    [[0.5]]
    """
    if (label is None) == (n_components is None):
        raise ArgumentError(
            "Give either a label or n_components.",
            "label= names the classes of known rows; n_components= asks for a mixture without labels.",
        )
    if label is None:
        return fit_unlabelled(curator, columns, n_components or 0, covariance_type, restarts)
    asked = _asked(method, repair, grid_minimum)
    if label.name in {column.name for column in columns}:
        raise ArgumentError(f"label={label.name!r} is among the columns.", "Leave it out of them.")
    classes = label.categories or ()
    if len(classes) < 2:  # noqa: PLR2004
        raise ArgumentError(f"{label.name!r} has one category.", "Classes are told apart: there must be two.")
    values, sd, sizes, radius = measure(curator, columns, label, radius, share=_RADIUS)
    counts = values[:, 0] if sizes is None else sizes
    blank = GaussianClasses(
        columns=tuple(column.name for column in columns),
        label=label.name,
        classes=classes,
        method="lda",
        repair=repair,
        grid_minimum=grid_minimum,
        radius=radius,
        sizes=counts,
        priors=counts,
        means=counts,
        covariances=counts,
        notes=(),
        released=values,
        noise_sd=sd,
        public_sizes=sizes is not None,
        bounds=tuple((column.low, column.high) for column in columns),
    )
    return blank._fitted(blank._sums, asked)  # noqa: SLF001 - of our own kind


def measure(
    curator: Curator, columns: Sequence[Column], by: Column | None, radius: float | None, *, share: float
) -> tuple[Array, Array, Array | None, float | None]:
    """Measure counts where they are private, sums and products, of all rows or by category.

    Parameters
    ----------
    curator : Curator
        Whom to ask: with a delta for Gaussian noise, without for Laplace noise.
    columns : sequence of Column
        What is multiplied.
    by : Column or None
        The groups.
    radius : float or None
        As asked.
    share : float
        Of the largest radius, where none is asked.

    Returns
    -------
    values : ndarray of shape (groups, coordinates)
        Noisy sums.
    sd : ndarray of shape (coordinates,)
        Standard deviations of the noise.
    sizes : ndarray of shape (groups,) or None
        Rows where they are public.
    radius : float or None
        As used; None with Laplace noise.
    """
    gaussian = curator.delta > 0
    if radius is not None:
        radius = as_number(radius, "radius")
        if not gaussian:
            raise ArgumentError(
                "radius= belongs to Gaussian noise, which needs a delta.", "Leave it out, or give a delta."
            )
    elif gaussian:
        radius = share * math.sqrt(len(columns))
    features.Outer(columns, radius=radius)  # what cannot be measured is refused before sizes are read
    if by is None:
        size = curator.size
        sizes = None if size is None else np.array([float(size)])
    else:
        sizes = curator.sizes(by)
    outer: features.RowFeatures = features.Outer(columns, radius=radius, count=sizes is None)
    if by is not None:
        outer = features.OneHot(by) * outer
    measured = curator.sum(outer, noise="gaussian" if gaussian else "laplace")
    values, scales = np.atleast_2d(measured.values), np.atleast_2d(measured.scales)
    return values, scales[0] * (1 if gaussian else math.sqrt(2)), sizes, radius


def findings(
    curator: Curator,
    columns: Sequence[Column],
    label: Column | None = None,
    *,
    n_components: int | Literal["auto"] | None = None,
    **_: Any,
) -> Mapping[str, Any]:
    """Say how exact the fit would be, from public numbers only; for ``explain``."""
    if label is None:
        most = check_components(n_components)[-1]
        return {
            f"rows from which about nine of ten mixtures of {most} components are found at a separation of "
            f"{separation:g} standard deviations": rows_needed(most, len(columns), curator.epsilon, separation)
            for separation in (2.5, 4.0)
        }
    noise = curator.measured[-1]
    sd = noise.scale * (math.sqrt(2) if "Laplace" in noise.kind else 1)
    size = curator.size
    classes = len(label.categories or ())
    if size is None:
        rows = math.ceil(sd / 0.01)
        return {"rows in a class from which the noise in its means is 1% of half the bounds": rows}
    each = size / classes
    found = {column.name: column.half * sd / each for column in columns}
    return {f"noise in the means of classes of {each:.0f} rows": found}


def _asked(method: Method, repair: Repair, grid_minimum: float) -> tuple[Method, Repair, float]:
    if method not in get_args(Method):
        raise ArgumentError(f"method={method!r} is unknown.", f"Use one of {get_args(Method)}.")
    if repair not in get_args(Repair):
        raise ArgumentError(f"repair={repair!r} is unknown.", f"Use one of {get_args(Repair)}.")
    number = as_number(grid_minimum, "grid_minimum")
    if not number > 0:
        raise ArgumentError(f"grid_minimum={number:g} is not positive.", "Use, for example, 0.01.")
    return method, repair, number
