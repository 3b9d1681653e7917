"""Gaussian classes of a private table: what ``gmm_fit`` returns."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np

from dfprivacy import ArgumentError, Release
from dfprivacy.plotting import axes
from dfprivacy.release import renamed
from dfprivacy.schema import as_number
from dfprivacy.wording import listed
from dfprivacy_gmm.estimates import Method, estimates
from dfprivacy_gmm.gaussians import GaussianClassifier, Predicts, fitted
from dfprivacy_gmm.repair import Repair
from dfprivacy_gmm.scalars import Queries
from dfprivacy_gmm.sums import Sums, left_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column
    from dfprivacy_gmm.sums import MeasuredSums

    Array = NDArray[np.float64]

__all__ = ["GaussianClasses", "checked_model"]

Model = tuple[Method, Repair, float]
"""How classes are fitted: method, repair, grid_minimum."""


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
        units. Covariances are repaired: positive definite, and so biased where the noise is large.
    estimated_covariances : ndarray of the shape of `covariances`
        Covariances before the repair: unbiased but for the radius, and perhaps those of no data. `standard_errors`
        are about these.
    notes : tuple of str
        What to know before trusting the numbers; an uninformative class is named here.
    released : ndarray of shape (classes, coordinates)
        What all this follows from: the noisy sums, in units of y (the columns mapped from their bounds to [-1, 1]):
        rows where they are private, y, and y_i y_j for i ≤ j.
    noise_standard_error : ndarray of shape (coordinates,)
        Standard deviations of the noise in them.
    missing : float or None
        Rows that were left out, noisy: for a missing value, or a label that is no class. None where that is not
        known.
    missing_standard_error : float or None
        The standard deviation of the noise in it.
    public_sizes : bool
        Whether the sizes are public.
    bounds : tuple of pairs
        The columns' bounds.
    queries : {"jointly", "separately"}
        Whether all sums were one measurement, or each one of its own.
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
    estimated_covariances: Array
    notes: tuple[str, ...]
    released: Array
    noise_standard_error: Array
    public_sizes: bool
    bounds: tuple[tuple[float, float], ...]
    missing: float | None = None
    missing_standard_error: float | None = None
    queries: Queries = "jointly"

    noise_sd = renamed("noise_standard_error")

    _shown = ("method", "classes", "priors", "means", "covariances", "notes")

    @classmethod
    def concluded(
        cls,
        measured: MeasuredSums,
        columns: Sequence[Column],
        label: Column | None,
        model: Model,
        queries: Queries = "jointly",
    ) -> GaussianClasses:
        """Fit to noisy sums."""
        if label is None:
            raise ArgumentError("Classes have a label.", "Name its column.")
        sizes = measured.sums.sizes
        blank = cls(
            columns=tuple(column.name for column in columns),
            label=label.name,
            classes=label.categories or (),
            method="lda",
            repair="noise_aware",
            grid_minimum=1.0,
            radius=measured.radius,
            sizes=sizes,
            priors=sizes,
            means=sizes,
            covariances=sizes,
            estimated_covariances=sizes,
            notes=(),
            released=measured.values,
            noise_standard_error=measured.noise,
            missing=measured.missing,
            missing_standard_error=measured.missing_noise,
            public_sizes=measured.sizes is not None,
            bounds=tuple((column.low, column.high) for column in columns),
            queries=queries,
        )
        return blank._fitted(measured.sums, model)

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

    def _sentence(self) -> str:
        """Say which columns tell which classes."""
        told = [f"{group} ({share:.0%} of rows)" for group, share in zip(self.classes, self.priors, strict=True)]
        columns = self._noun(*self.columns)
        return f"{columns} tell {len(told)} classes of {self._noun(self.label)}: {listed(told)}."

    def _tidy(self) -> list[dict[str, Any]]:
        """State share, mean and standard deviation of each column in each class."""
        d, spreads = len(self.columns), np.sqrt(np.diagonal(self.covariances_, axis1=1, axis2=2))
        return [
            {
                "class": [each for each in self.classes for _ in range(d)],
                "column": list(self.columns) * len(self.classes),
                "mean": self.means,
                "std": spreads,
                "prior": np.repeat(self.priors, d),
                "n": np.repeat(self.sizes, d),
            }
        ]

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
        model = checked_model(
            self.method if method is None else method,
            self.repair if repair is None else repair,
            self.grid_minimum if grid_minimum is None else grid_minimum,
        )
        return self._fitted(self._sums, model)

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
        own = estimates(self._sums)
        own = own.pooled() if self.method == "lda" else own
        covariances = own.covariance_errors("normal" if sampling else "none")
        return own.mean_errors(sampling=sampling) * self._half, covariances * units

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
        rng = np.random.default_rng(random_state)
        X, y = self.sample(rows, random_state=rng)
        if not replicates:
            return 1 - self.score(X, y)
        model = self.method, self.repair, self.grid_minimum
        center = self._expected()
        errors = []
        for _ in range(replicates):
            values = center + self.noise_standard_error * rng.standard_normal(center.shape)
            sizes = self.sizes if self.public_sizes else None
            errors.append(1 - self._fitted(Sums.named(values, self.noise_standard_error, sizes), model).score(X, y))
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
            ax.plot(*mean, "o", color=color, label=f"{self._called(self.label)} = {name}")
            for times in (1, 2):
                ax.plot(*(mean + times * ring).T, color=color)
        ax.set(
            xlabel=self._called(names[0]),
            ylabel=self._called(names[1]),
            xlim=lines[0][[0, -1]],
            ylim=lines[1][[0, -1]],
        )
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
        return Sums.named(self.released, self.noise_standard_error, self.sizes if self.public_sizes else None)

    def _fitted(self, sums: Sums, model: Model) -> Self:
        method, repair, grid_minimum = model
        half = self._half
        units = half[:, None] * half
        method, own, covariances, doubts = fitted(
            sums, half, self.columns, self.radius, method=method, repair=repair, grid_minimum=grid_minimum
        )
        notes = [
            f"{self.label} = {self.classes[group]}: {what}" if group is not None else f"all classes: {what}"
            for group, what in doubts
        ]
        if (gone := left_out(self.missing, self.missing_standard_error)) is not None:
            notes.append(gone)
        return dataclasses.replace(
            self,
            method=method,
            repair=repair,
            grid_minimum=grid_minimum,
            priors=own.sizes / own.sizes.sum(),
            means=self._mid + half * own.means,
            covariances=covariances * units,
            estimated_covariances=own.covariances * units,
            notes=tuple(notes),
        )

    def __sklearn_clone__(self) -> GaussianClassifier:
        return GaussianClassifier(**self.get_params())

    def __sklearn_is_fitted__(self) -> bool:
        return True


def checked_model(method: Method, repair: Repair, grid_minimum: float) -> Model:
    """Return how a fit is asked for, or say what is wrong with it.

    Parameters
    ----------
    method, repair, grid_minimum
        As for `gmm_fit`.

    Returns
    -------
    tuple
        The same.
    """
    if method not in get_args(Method):
        raise ArgumentError(f"method={method!r} is unknown.", f"Use one of {get_args(Method)}.")
    if repair not in get_args(Repair):
        raise ArgumentError(f"repair={repair!r} is unknown.", f"Use one of {get_args(Repair)}.")
    number = as_number(grid_minimum, "grid_minimum")
    if not number > 0:
        raise ArgumentError(f"grid_minimum={number:g} is not positive.", "Use, for example, 0.01.")
    return method, repair, number
