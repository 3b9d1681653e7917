"""Scikit-learn estimators with released coefficients, which predict and cannot be fitted again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from dfprivacy import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["ReleasedClassifier", "ReleasedRegressor"]


class _ReleasedEstimator(BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Base class of scikit-learn estimators with released coefficients.

    Parameters
    ----------
    formula : str
        What was fitted.
    regressors : list of str
        The names of the regressors.
    linear_predictor : callable
        Computes the linear predictor from columns by name.
    """

    def __init__(
        self, formula: str, regressors: list[str], linear_predictor: Callable[[Any], NDArray[np.float64]]
    ) -> None:
        self.formula = formula
        self.regressors = regressors
        self.linear_predictor = linear_predictor

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the regressors, as scikit-learn calls this attribute."""
        return np.array(self.regressors, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of regressors."""
        return len(self.feature_names_in_)

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn's
        """Do nothing: the coefficients are released, and cannot be fitted again without the private rows.

        So ``cross_val_score`` scores the released coefficients on each part of public rows.

        Parameters
        ----------
        X, y : array-like
            Ignored.

        Returns
        -------
        estimator
            This one.
        """
        return self

    def _linear_predictor(self, X: Any) -> NDArray[np.float64]:
        """Return the linear predictor for the rows of a frame or an array."""
        names = self.regressors
        if not (hasattr(X, "columns") or hasattr(X, "keys")):
            rows = np.asarray(X)
            if rows.ndim != 2 or rows.shape[1] != len(names):  # noqa: PLR2004
                said = f"X has the shape {rows.shape}, not (rows, {len(names)})."
                raise ArgumentError(said, f"Give the columns {', '.join(names)}.")
            X = dict(zip(names, rows.T, strict=True))
        return self.linear_predictor(X)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.formula!r})"


class ReleasedRegressor(RegressorMixin, _ReleasedEstimator):  # type: ignore[misc]
    """Scikit-learn regressor with the released coefficients of `ols`."""

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict the mean outcome of each row.

        Parameters
        ----------
        X : frame or array of shape (rows, regressors)
            Public rows.

        Returns
        -------
        ndarray of shape (rows,)
            In the outcome's units.
        """
        return self._linear_predictor(X)


class ReleasedClassifier(ClassifierMixin, _ReleasedEstimator):  # type: ignore[misc]
    """Scikit-learn binary classifier of the event, with the released coefficients of `logit`."""

    @property
    def classes_(self) -> NDArray[np.bool_]:
        """The two classes: False (no event) and True (the event)."""
        return np.array([False, True])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict the probabilities of no event and of the event for each row.

        Parameters
        ----------
        X : frame or array of shape (rows, regressors)
            Public rows.

        Returns
        -------
        ndarray of shape (rows, 2)
            That the event does not happen, and that it does.
        """
        happens = 1 / (1 + np.exp(-np.clip(self._linear_predictor(X), -700, 700)))
        return np.column_stack([1 - happens, happens])

    def predict(self, X: Any) -> NDArray[np.bool_]:
        """Predict for each row whether the event has a probability of at least 1/2.

        Parameters
        ----------
        X : frame or array of shape (rows, regressors)
            Public rows.

        Returns
        -------
        ndarray of shape (rows,)
            True or False.
        """
        likely: NDArray[np.bool_] = self.predict_proba(X)[:, 1] >= 0.5  # noqa: PLR2004
        return likely
