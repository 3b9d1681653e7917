"""Gaussian classes: what they say of a row, once means and covariances are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import log_softmax

from dfprivacy import ArgumentError
from dfprivacy_gmm.estimates import Estimates, Method, differ, estimates
from dfprivacy_gmm.repair import Repair, moved, repaired
from dfprivacy_gmm.sums import Sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["GaussianClassifier", "Predicts", "fitted", "matrix"]

_FAR = 1e130  # standard deviations, of which the square is a number


class Predicts:
    """What scikit-learn expects of a fitted classifier, from priors, means and covariances."""

    classes_: NDArray[Any]
    priors_: Array
    means_: Array
    covariances_: Array
    method: Any
    repair: Any
    grid_minimum: float
    _estimator_type = "classifier"

    def _names(self) -> tuple[str, ...] | None:
        return None

    @property
    def n_features_in_(self) -> int:
        """Number of columns."""
        return int(self.means_.shape[1])

    def predict_log_proba(self, X: Any) -> Array:
        """Log-probability of each class.

        Parameters
        ----------
        X : array-like or frame of shape (rows, columns)
            Public rows; of a frame, the columns that were fitted.

        Returns
        -------
        ndarray of shape (rows, classes)
            Natural logarithms.
        """
        joint: Array = log_softmax(self._log_joint(matrix(X, self._names(), self.n_features_in_)), axis=1)
        return joint

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class.

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
        """Most probable class.

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
        """Share of rows that are classified as they are labelled.

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
        rng = np.random.default_rng(random_state)
        codes = rng.choice(len(self.priors_), n_samples, p=self.priors_)
        rows = rng.standard_normal((n_samples, self.n_features_in_))
        for code, (mean, covariance) in enumerate(zip(self.means_, self.covariances_, strict=True)):
            values, vectors = np.linalg.eigh(covariance)
            own = codes == code
            rows[own] = mean + rows[own] * np.sqrt(np.maximum(values, 0)) @ vectors.T
        return rows, self.classes_[codes]

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - scikit-learn's
        """Give the parameters, as scikit-learn asks for them.

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
        """Fit the same model to public data, without privacy.

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

    def _log_joint(self, X: Array) -> Array:
        joint = np.empty((len(X), len(self.priors_)))
        with np.errstate(divide="ignore"):
            joint[:] = np.log(self.priors_)
        for column, mean, covariance in zip(joint.T, self.means_, self.covariances_, strict=True):
            scale = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
            values, vectors = np.linalg.eigh(covariance / scale[:, None] / scale)
            values = np.maximum(values, len(values) * np.finfo(float).eps)
            with np.errstate(over="ignore"):
                z = np.clip((X - mean) / scale, -_FAR, _FAR) @ vectors
            column[:] -= 0.5 * ((z * z / values).sum(axis=1) + np.log(values).sum()) + np.log(scale).sum()
        return joint

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags  # it is scikit-learn that calls this

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(),
        )


class GaussianClassifier(Predicts):
    """Linear or quadratic discriminant analysis of public data: what `gmm_fit` is without privacy.

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

    def _names(self) -> tuple[str, ...] | None:
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
        """Change parameters, as scikit-learn does.

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
        """Fit to public data.

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
        rows, labels = matrix(X), np.asarray(y)
        vars(self).pop("feature_names_in_", None)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array([str(name) for name in X.columns], dtype=object)
        if labels.shape != (len(rows),) or not len(rows):
            raise ArgumentError(
                f"y has the shape {labels.shape}; X has {len(rows)} rows.", "Give a label for each row."
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
        _, own, covariances, _ = fitted(sums, half, names, None, **self.get_params())
        self.priors_ = sums.sizes / len(rows)
        self.means_ = mid + half * own.means
        self.covariances_ = np.broadcast_to(covariances * half[:, None] * half, (len(parts), d, d))
        return self


def fitted(
    sums: Sums,
    units: Array,
    names: tuple[str, ...],
    radius: float | None,
    *,
    method: Method,
    repair: Repair,
    grid_minimum: float,
) -> tuple[Method, Estimates, Array, list[tuple[int | None, str]]]:
    """Fit classes to noisy sums, in units of y; ``"auto"`` is ``"qda"`` where that is called for and not doubted.

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
    method : {"lda", "qda"}
        What ``"auto"`` chose, or what was given.
    own : Estimates
        Before the repair: pooled for ``"lda"``.
    covariances : ndarray of shape (1 or classes, columns, columns)
        Repaired.
    doubts : list of tuple
        As `Estimates.doubts` gives them, and by how much repairs moved covariances.
    """
    every = estimates(sums)
    quadratic = method == "qda" or (method == "auto" and differ(every))
    own = every if quadratic else every.pooled()
    errors = own.covariance_errors("none")
    covariances = [
        repaired(covariance, noise, repair=repair, grid_minimum=grid_minimum, units=units)
        for covariance, noise in zip(own.covariances, errors, strict=True)
    ]
    doubts = own.doubts(radius)
    for group, (before, after, noise) in enumerate(zip(own.covariances, covariances, errors, strict=True)):
        if move := moved(before, after, noise, names):
            place = group if quadratic else None
            doubts.append((place, f"to be positive definite, the covariance was moved by up to {move}"))
    if method == "auto" and quadratic and doubts:
        return fitted(sums, units, names, radius, method="lda", repair=repair, grid_minimum=grid_minimum)
    return "qda" if quadratic else "lda", own, np.array(covariances), doubts


def matrix(X: Any, names: tuple[str, ...] | None = None, width: int | None = None) -> Array:
    """Rows of a frame or an array as finite numbers."""
    if names is not None and hasattr(X, "columns"):
        if missing := [name for name in names if name not in X.columns]:
            raise ArgumentError(f"The table has no column {missing[0]!r}.", "Give one with the fitted columns.")
        X = X[list(names)]
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError("X does not hold numbers.", "Give an array or a frame of numbers.") from None
    if rows.ndim != 2 or (width is not None and rows.shape[1] != width):  # noqa: PLR2004
        wanted = "(rows, columns)" if width is None else f"(rows, {width})"
        raise ArgumentError(f"X has the shape {rows.shape}, not {wanted}.", "Give the columns that were fitted.")
    if not np.isfinite(rows).all():
        raise ArgumentError("X holds missing or infinite numbers.", "Fill them in first.")
    return rows
