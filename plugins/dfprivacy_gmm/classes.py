"""Discriminant analysis: classifiers from the means and covariances of classes, with scikit-learn's methods."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import numpy as np
from scipy.special import log_softmax

from dfprivacy import ArgumentError, Range, Release
from dfprivacy.arguments import checked
from dfprivacy.plotting import axes
from dfprivacy.wording import list_text
from dfprivacy_gmm.estimates import Estimates, Method, Repair, estimate_moments, repair_note, repaired_covariance
from dfprivacy_gmm.sums import Queries, Sums, missing_note

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    from collections.abc import Sequence

    from dfprivacy import Column
    from dfprivacy_gmm.sums import MeasuredSums

__all__ = [
    "ClassifierMethods",
    "GaussianClasses",
    "GaussianClassifier",
    "Positive",
    "as_matrix",
    "draw_ellipses",
    "draw_rows",
    "fit_classes",
    "log_joint_density",
]

_MAX_DISTANCE = 1e130  # standard deviations, of which the square is a number


def log_joint_density(rows: Array, weights: Array, means: Array, covariances: Array) -> Array:
    """Return the log of weight times density of each Gaussian component at each row, shape (rows, K)."""
    joint = np.empty((len(rows), len(weights)))
    with np.errstate(divide="ignore"):
        joint[:] = np.log(weights) - len(means.T) / 2 * math.log(2 * math.pi)
    for column, mean, covariance in zip(joint.T, means, covariances, strict=True):
        scale = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
        values, vectors = np.linalg.eigh(covariance / scale[:, None] / scale)
        values = np.maximum(values, len(values) * np.finfo(float).eps)
        with np.errstate(over="ignore"):
            z = np.clip((rows - mean) / scale, -_MAX_DISTANCE, _MAX_DISTANCE) @ vectors
        column[:] -= 0.5 * ((z * z / values).sum(axis=1) + np.log(values).sum()) + np.log(scale).sum()
    return joint


def draw_rows(
    weights: Array, means: Array, covariances: Array, count: int, random_state: Any
) -> tuple[Array, NDArray[np.intp]]:
    """Draw rows of a mixture of Gaussians, and the component of each row."""
    rng = np.random.default_rng(random_state)
    codes = rng.choice(len(weights), count, p=weights)
    rows = rng.standard_normal((count, len(means.T)))
    for code, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        values, vectors = np.linalg.eigh(covariance)
        own = codes == code
        rows[own] = mean + rows[own] * np.sqrt(np.maximum(values, 0)) @ vectors.T
    return rows, codes


class ClassifierMethods:
    """Mixin with scikit-learn's classifier methods, for a model of class priors, means and covariances."""

    classes_: NDArray[Any]
    priors_: Array
    means_: Array
    covariances_: Array
    method: Any
    repair: Any
    grid_minimum: float
    _estimator_type = "classifier"

    def _fitted_columns(self) -> tuple[str, ...] | None:
        return None

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return int(self.means_.shape[1])

    def predict_log_proba(self, X: Any) -> Array:
        """Return the log-probability of each class for public rows.

        Parameters
        ----------
        X : array-like or frame of shape (rows, columns)
            Public rows; of a frame, the columns that were fitted.

        Returns
        -------
        ndarray of shape (rows, classes)
            Natural logarithms.
        """
        joint: Array = log_softmax(
            log_joint_density(
                as_matrix(X, self._fitted_columns(), self.n_features_in_),
                self.priors_,
                self.means_,
                self.covariances_,
            ),
            axis=1,
        )
        return joint

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class for public rows.

        Parameters
        ----------
        X : array-like or frame of shape (rows, columns)
            Public rows; of a frame, the columns that were fitted.

        Returns
        -------
        ndarray of shape (rows, classes)
            Each row adds up to 1.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of public rows.

        Parameters
        ----------
        X : array-like or frame of shape (rows, columns)
            Public rows; of a frame, the columns that were fitted.

        Returns
        -------
        ndarray of shape (rows,)
            Entries of ``classes_``.
        """
        best: NDArray[Any] = self.classes_[self.predict_log_proba(X).argmax(axis=1)]
        return best

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy, the share of public rows that are classified correctly.

        Parameters
        ----------
        X : array-like or frame of shape (rows, columns)
            Public rows.
        y : array-like of shape (rows,)
            Their labels; one that is no class of the model counts as an error.

        Returns
        -------
        float
            Between 0 and 1.
        """
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> tuple[Array, NDArray[Any]]:
        """Draw synthetic rows from the fitted classes.

        Parameters
        ----------
        n_samples : int
            How many.
        random_state : int or numpy.random.Generator, optional
            Seed.

        Returns
        -------
        X : ndarray of shape (n_samples, columns)
            Rows, in the columns' units; nothing keeps them within the bounds.
        y : ndarray of shape (n_samples,)
            Their classes.
        """
        rows, codes = draw_rows(self.priors_, self.means_, self.covariances_, n_samples, random_state)
        return rows, self.classes_[codes]

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - scikit-learn's
        """Return the parameters of the estimator, with the interface of scikit-learn.

        Parameters
        ----------
        deep : bool
            Ignored.

        Returns
        -------
        dict
            By name.
        """
        return {"method": self.method, "repair": self.repair, "grid_minimum": self.grid_minimum}

    def fit(self, X: Any, y: Any) -> GaussianClassifier:
        """Fit a new classifier to public data, without privacy.

        Parameters
        ----------
        X : array-like or frame of shape (rows, columns)
            Public rows.
        y : array-like of shape (rows,)
            Their labels.

        Returns
        -------
        GaussianClassifier
            Fitted.
        """
        return GaussianClassifier(**self.get_params()).fit(X, y)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags  # it is scikit-learn that calls this

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(),
        )


class GaussianClassifier(ClassifierMethods):
    """Linear or quadratic discriminant analysis of public data, without privacy.

    A release of `gmm_fit` becomes one where scikit-learn clones it, for instance in ``cross_val_score``.

    Parameters
    ----------
    method, repair, grid_minimum
        As for `gmm_fit`.

    Examples
    --------
    >>> model = GaussianClassifier(method="lda").fit([[0.0], [1.0], [4.0], [5.0]], ["low", "low", "high", "high"])
    >>> model.predict([[0.4], [9.0]]).tolist()
    ['low', 'high']
    """

    def __init__(self, method: Method = "lda", repair: Repair = "noise_aware", grid_minimum: float = 0.01) -> None:
        self.method = method
        self.repair = repair
        self.grid_minimum = grid_minimum

    def _fitted_columns(self) -> tuple[str, ...] | None:
        return tuple(getattr(self, "feature_names_in_", ())) or None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __repr__(self) -> str:
        return f"GaussianClassifier({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr  # an estimator by itself is scikit-learn's users'

        diagram: str = estimator_html_repr(self)
        return diagram

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator, with the interface of scikit-learn.

        Parameters
        ----------
        **params
            By name.

        Returns
        -------
        GaussianClassifier
            This one.
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ArgumentError(f"There is no parameter {name!r}.", f"The parameters are {sorted(known)}.")
            setattr(self, name, value)
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classes to public data.

        Parameters
        ----------
        X : array-like or frame of shape (rows, columns)
            Public rows.
        y : array-like of shape (rows,)
            Their labels.

        Returns
        -------
        GaussianClassifier
            This one, with `classes_`, `priors_`, `means_` and `covariances_`.
        """
        rows, labels = as_matrix(X), np.asarray(y)
        vars(self).pop("feature_names_in_", None)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array([str(name) for name in X.columns], dtype=object)
        if labels.shape != (len(rows),) or not len(rows):
            raise ArgumentError(
                f"y has the shape {labels.shape}, and X has {len(rows)} rows.", "Give a label for each row."
            )
        self.classes_, codes = np.unique(labels, return_inverse=True)
        low, high = rows.min(axis=0), rows.max(axis=0)
        mid, half = low / 2 + high / 2, np.where(high > low, high / 2 - low / 2, 1.0)
        parts = [(rows[codes == code] - mid) / half for code in range(len(self.classes_))]
        d = rows.shape[1]
        sums = Sums(
            np.array([float(len(part)) for part in parts]),
            np.array([part.sum(axis=0) for part in parts]),
            np.array([part.T @ part for part in parts]),
            *(0.0, 0.0, np.zeros((d, d))),
        )
        names = tuple(str(place) for place in range(d))
        own, covariances, _ = fit_classes(sums, half, names, None, **self.get_params())
        self.priors_ = sums.sizes / len(rows)
        self.means_ = mid + half * own.means
        self.covariances_ = np.broadcast_to(covariances * half[:, None] * half, (len(parts), d, d))
        return self


def fit_classes(
    sums: Sums,
    units: Array,
    names: tuple[str, ...],
    radius: float | None,
    *,
    method: Method,
    repair: Repair,
    grid_minimum: float,
) -> tuple[Estimates, Array, list[tuple[int | None, str]]]:
    """Estimate priors, means and covariances of classes from noisy sums, in units of the scaled values y.

    Parameters
    ----------
    sums : Sums
        Of each class.
    units : ndarray of shape (columns,)
        Half widths of the bounds.
    names : tuple of str
        The columns.
    radius : float or None
        To which longer rows were scaled down.
    method, repair, grid_minimum
        As for `gmm_fit`.

    Returns
    -------
    own : Estimates
        Before the repair: pooled for ``"lda"``.
    covariances : ndarray of shape (1 or classes, columns, columns)
        Repaired.
    doubts : list of tuple
        As `Estimates.reliability_notes` gives them, and by how much repairs moved covariances.
    """
    quadratic = method == "qda"
    own = estimate_moments(sums) if quadratic else estimate_moments(sums).pooled()
    errors = own.covariance_errors("none")
    covariances = [
        repaired_covariance(covariance, noise, repair=repair, grid_minimum=grid_minimum, units=units)
        for covariance, noise in zip(own.covariances, errors, strict=True)
    ]
    doubts = own.unreliable_groups(radius)
    for group, (before, after, noise) in enumerate(zip(own.covariances, covariances, errors, strict=True)):
        if move := repair_note(before, after, noise, names):
            place = group if quadratic else None
            doubts.append((place, f"to be positive definite, the covariance was changed by up to {move}"))
    return own, np.array(covariances), doubts


def as_matrix(X: Any, names: tuple[str, ...] | None = None, width: int | None = None) -> Array:
    """Return the rows of a dataframe or an array as a float array; raise an error if any is not finite."""
    if names is not None and hasattr(X, "columns"):
        if missing := [name for name in names if name not in X.columns]:
            raise ArgumentError(f"X has no column {missing[0]!r}.", "Give a table with the fitted columns.")
        X = X[list(names)]
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError("X does not hold numbers.", "Give an array or a frame of numbers.") from None
    if rows.ndim != 2 or (width is not None and rows.shape[1] != width):  # noqa: PLR2004
        wanted = "(rows, columns)" if width is None else f"(rows, {width})"
        raise ArgumentError(f"X has the shape {rows.shape}, not {wanted}.", "Give the fitted columns.")
    if not np.isfinite(rows).all():
        raise ArgumentError("X has missing or infinite numbers.", "Impute or omit missing values first.")
    return rows


Positive: TypeAlias = Annotated[float, Range(0, exclusive="low")]
"""A number above 0."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class GaussianClasses(ClassifierMethods, Release):
    """Result of private discriminant analysis, and a classifier with the interface of scikit-learn.

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

    _shown = ("method", "classes", "priors", "means", "covariances", "notes")

    @classmethod
    def from_measurement(
        cls,
        measured: MeasuredSums,
        columns: Sequence[Column],
        label: Column,
        queries: Queries,
        **model: Any,
    ) -> GaussianClasses:
        """Construct the result from measured sums, by fitting the classes to them."""
        names = ("priors", "means", "covariances", "estimated_covariances")
        later: dict[str, Any] = dict.fromkeys(names, measured.sums.sizes)
        blank = cls(
            label=label.name,
            classes=label.categories or (),
            radius=measured.radius,
            notes=(),
            queries=queries,
            **model,
            **measured.result_fields(columns),
            **later,
        )
        return blank._refitted(**model)

    @cached_property
    def classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """Class labels; the attribute has scikit-learn's name."""
        return np.array(self.classes)

    @property
    def priors_(self) -> Array:  # type: ignore[override]
        """Prior probabilities of the classes; the attribute has scikit-learn's name."""
        return self.priors

    @property
    def means_(self) -> Array:  # type: ignore[override]
        """Means of the classes; the attribute has scikit-learn's name."""
        return self.means

    @property
    def covariances_(self) -> Array:  # type: ignore[override]
        """Covariance matrix of each class, shape (classes, columns, columns)."""
        return np.broadcast_to(self.covariances, (len(self.classes), *self.covariances.shape[1:]))

    def _sentence(self) -> str:
        """Write a sentence with the columns and the classes in which they are fitted."""
        told = [f"{group} ({share:.0%} of rows)" for group, share in zip(self.classes, self.priors, strict=True)]
        columns = self._label(*self.columns)
        classes = f"{len(told)} classes of {self._label(self.label)}"
        return f"{columns} fitted by a Gaussian in each of {classes}: {list_text(told)}."

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the share of each class, and the mean and sd of each column in it, as rows of a tidy table."""
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
        """Names of the columns; the attribute has scikit-learn's name."""
        return np.array(self.columns, dtype=object)

    def refit(
        self, *, method: Method | None = None, repair: Repair | None = None, grid_minimum: float | None = None
    ) -> Self:
        """Fit the classes again to the same noisy sums, with other options and at no cost.

        Parameters
        ----------
        method, repair, grid_minimum
            As for `gmm_fit`; default: as they were.

        Returns
        -------
        GaussianClasses
            Another model.
        """
        return self._refitted(
            method=self.method if method is None else checked(method, Method, "method"),
            repair=self.repair if repair is None else checked(repair, Repair, "repair"),
            grid_minimum=self.grid_minimum
            if grid_minimum is None
            else checked(grid_minimum, Positive, "grid_minimum"),
        )

    def standard_errors(self, *, sampling: bool = True) -> tuple[Array, Array]:
        """Return first-order standard errors of the means, and of the covariances before their repair.

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
        units = self._half_widths[:, None] * self._half_widths
        own = estimate_moments(self._noisy_sums)
        own = own.pooled() if self.method == "lda" else own
        covariances = own.covariance_errors("normal" if sampling else "none")
        return own.mean_errors(sampling=sampling) * self._half_widths, covariances * units

    def plot(self, ax: Any = None, columns: tuple[str, str] | None = None) -> Any:
        """Draw the decision regions in two columns, and the ellipses that contain 39% and 86% of each class.

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
            raise ArgumentError(
                f"columns={names!r} must be two fitted columns.", f"The fitted columns are {self.columns!r}."
            )
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
        for color, name, mean, covariance in zip(colors, self.classes, pair.means_, pair.covariances_, strict=True):
            draw_ellipses(ax, mean, covariance, color, f"{self._with_units(self.label)} = {name}")
        ax.set(
            xlabel=self._with_units(names[0]),
            ylabel=self._with_units(names[1]),
            xlim=lines[0][[0, -1]],
            ylim=lines[1][[0, -1]],
        )
        ax.legend(fontsize="small", frameon=False)
        return ax

    def _fitted_columns(self) -> tuple[str, ...]:
        return self.columns

    @property
    def _half_widths(self) -> Array:
        return np.array([high / 2 - low / 2 for low, high in self.bounds])

    @property
    def _midpoints(self) -> Array:
        return np.array([high / 2 + low / 2 for low, high in self.bounds])

    @property
    def _noisy_sums(self) -> Sums:
        return Sums.from_outer(self.released, self.noise_standard_error, self.sizes if self.public_sizes else None)

    def _refitted(self, **model: Any) -> Self:
        half = self._half_widths
        units = half[:, None] * half
        own, covariances, doubts = fit_classes(self._noisy_sums, half, self.columns, self.radius, **model)
        notes = [
            f"{self.label} = {self.classes[group]}: {what}" if group is not None else f"all classes: {what}"
            for group, what in doubts
        ]
        if (gone := missing_note(self.missing, self.missing_standard_error)) is not None:
            notes.append(gone)
        return dataclasses.replace(
            self,
            **model,
            priors=own.sizes / own.sizes.sum(),
            means=self._midpoints + half * own.means,
            covariances=covariances * units,
            estimated_covariances=own.covariances * units,
            notes=tuple(notes),
        )

    def __sklearn_clone__(self) -> GaussianClassifier:
        return GaussianClassifier(**self.get_params())

    def __sklearn_is_fitted__(self) -> bool:
        return True


def draw_ellipses(ax: Any, mean: Array, covariance: Array, color: str, label: str) -> None:
    """Draw the mean of a normal distribution of two columns, and its ellipses of 39% and 86% probability."""
    circle = np.linspace(0, 2 * math.pi, 100)
    values, vectors = np.linalg.eigh(covariance)
    ring = np.array([np.cos(circle), np.sin(circle)]).T * np.sqrt(np.maximum(values, 0)) @ vectors.T
    ax.plot(*mean, "o", color=color, label=label)
    for times in (1, 2):
        ax.plot(*(mean + times * ring).T, color=color)
