"""What a regression could find out, said before anything is paid: concluded from the sums to be expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy_regression import logistic, mechanisms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy import Curator
    from dfprivacy_regression.least_squares import Known
    from dfprivacy_regression.result import Regression

__all__ = ["findings", "findings_of_logit"]

_FOUND = 2.8  # standard errors that a coefficient must have for a power of .8 at the level .05
_SURE = 0.995  # that an answer is informative, for what it would know is said
_RELATIVE = "expected relative error"
_STAGES = {
    "one": "one, for the second moments",
    "two": "two: second moments, then the score",
    "2": "two: the second is one step",
    "3": "three: a discriminant, and two steps of Newton",
}


def findings(curator: Curator, *_: Any, **__: Any) -> Mapping[str, Any]:
    """Say which stages there would be, and how well the coefficients would be known; for ``explain``."""
    if not curator.measured:
        return {}
    return _stated(
        curator, curator.planned.known, mechanisms.ols.conclusion(curator.planned, confidence=_SURE), 1 / 3
    )


def findings_of_logit(curator: Curator, *_: Any, **__: Any) -> Mapping[str, Any]:
    """Say how many stages there would be, and how well the coefficients would be known; for ``explain``."""
    if not curator.measured:
        return {}
    return _stated(curator, curator.planned.known, logistic.logit.conclusion(curator.planned), 1.0)


def _stated(curator: Curator, known: Known, fit: Regression, spread: float) -> dict[str, Any]:
    """State the errors of a fit to expected sums; `spread` is the standard deviation of the scaled outcome."""
    design, M = known.design, known.matrix(known.moments)
    stages = {"stages": _STAGES[fit.stages]}
    if not fit.informative:
        return {**stages, _RELATIVE: "not known: the noise may hide the regressors"}
    assumed = ["standard deviations are a sixth of the range"]
    assumed += [f"there are {known.moments[0]:,.0f} rows"] if curator.size is None else []
    assumed += [f"half of the rows are {design.success!r}"] if design.success is not None else []
    names, share = design.names[1:], M[0, 1:-1] / M[0, 0]
    spreads = np.sqrt(np.diag(M)[1:-1] / M[0, 0] - share**2) / spread / np.diag(design.natural()[1])[1:]
    return {
        **stages,
        "assumed": " and ".join(assumed),
        **{f"expected standard error of {name}": fit.bse[name] for name in names},
        **{f"smallest coefficient of {name} found with probability 0.8": _FOUND * fit.bse[name] for name in names},
        _RELATIVE: float(
            max(fit.noise_standard_errors[name] * each for name, each in zip(names, spreads, strict=True))
        ),
    }
