"""A regression as scikit-learn takes it: it predicts, and cannot be fitted again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from dfprivacy import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dfprivacy_regression.result import Logit, Regression

__all__ = ["ReleasedClassifier", "ReleasedRegressor"]


class _Released:
    """What both kinds share.

    Parameters
    ----------
    release : Regression
        The answer of `ols` or `logit`.
    """

    _estimator_type: ClassVar[Literal["regressor", "classifier"]]

    def __init__(self, release: Regression) -> None:
        self.release = release

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The regressors, as scikit-learn names them."""
        return np.array(self.release.names_of_regressors, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of regressors."""
        return len(self.feature_names_in_)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - scikit-learn's
        """Give the parameters: the release.

        Parameters
        ----------
        deep : bool
            Ignored.

        Returns
        -------
        dict
            By name.
        """
        return {"release": self.release}

    def set_params(self, **params: Any) -> Self:
        """Change the release.

        Parameters
        ----------
        **params
            ``release``.

        Returns
        -------
        estimator
            This one.
        """
        if params.keys() - {"release"}:
            raise ArgumentError(f"There is no parameter {min(params)!r}.", "The only one is 'release'.")
        self.release = params.get("release", self.release)
        return self

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn's
        """Fit nothing: the private rows are not here, and what was released stays what it is.

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

    def _rows(self, X: Any) -> Mapping[str, Any]:
        names = self.release.names_of_regressors
        if hasattr(X, "columns") or hasattr(X, "keys"):
            return X  # type: ignore[no-any-return]
        rows = np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != len(names):  # noqa: PLR2004
            raise ArgumentError(
                f"X has the shape {rows.shape}, not (rows, {len(names)}).", f"Give the columns {', '.join(names)}."
            )
        return dict(zip(names, rows.T, strict=True))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import (  # who calls this has it
            ClassifierTags,
            InputTags,
            RegressorTags,
            Tags,
            TargetTags,
        )

        regresses = self._estimator_type == "regressor"
        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=False),
            regressor_tags=RegressorTags() if regresses else None,
            classifier_tags=None if regresses else ClassifierTags(multi_class=False),
            input_tags=InputTags(string=True, categorical=True),
        )

    def __sklearn_clone__(self) -> Self:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.release.formula!r})"

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr  # who made this estimator has scikit-learn

        diagram: str = estimator_html_repr(self)
        return diagram


class ReleasedRegressor(_Released):
    """The released coefficients of `ols`, as a regressor of scikit-learn."""

    _estimator_type = "regressor"

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict the mean outcome.

        Parameters
        ----------
        X : frame or array of shape (rows, regressors)
            Public rows.

        Returns
        -------
        ndarray of shape (rows,)
            In the outcome's units.
        """
        return self.release.linear(self._rows(X))

    def score(self, X: Any, y: Any) -> float:
        """Give R² on public rows.

        Parameters
        ----------
        X : frame or array of shape (rows, regressors)
            Public rows.
        y : array-like of shape (rows,)
            Their outcomes.

        Returns
        -------
        float
            At most 1.
        """
        truth = np.asarray(y, dtype=np.float64)
        rest = truth - self.predict(X)
        return float(1 - (rest @ rest) / ((truth - truth.mean()) ** 2).sum())


class ReleasedClassifier(_Released):
    """The released coefficients of `logit`, as a classifier of scikit-learn: whether the event happens."""

    _estimator_type = "classifier"
    release: Logit

    @property
    def classes_(self) -> NDArray[np.bool_]:
        """Whether the event happens: False and True."""
        return np.array([False, True])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict probabilities.

        Parameters
        ----------
        X : frame or array of shape (rows, regressors)
            Public rows.

        Returns
        -------
        ndarray of shape (rows, 2)
            That the event does not happen, and that it does.
        """
        happens = 1 / (1 + np.exp(-np.clip(self.release.linear(self._rows(X)), -700, 700)))
        return np.column_stack([1 - happens, happens])

    def predict(self, X: Any) -> NDArray[np.bool_]:
        """Predict whether the event is more likely than not.

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

    def score(self, X: Any, y: Any) -> float:
        """Give the share of public rows that are classified as they are.

        Parameters
        ----------
        X : frame or array of shape (rows, regressors)
            Public rows.
        y : array-like of bool, shape (rows,)
            Whether the event happened.

        Returns
        -------
        float
            Between 0 and 1.
        """
        return float(np.mean(self.predict(X) == np.asarray(y)))
