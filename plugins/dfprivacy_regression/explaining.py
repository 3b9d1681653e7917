"""What a regression could find out, said before anything is paid: concluded from the sums to be expected."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import Curator, NanPolicy
from dfprivacy_regression import formula, logistic, mechanisms
from dfprivacy_regression.concluding import conclude
from dfprivacy_regression.least_squares import Known, Sums, cube_variance
from dfprivacy_regression.likelihood import Information
from dfprivacy_regression.score import Score, coordinates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy_regression.design import Design
    from dfprivacy_regression.result import Regression

__all__ = ["findings", "findings_of_logit"]

_FOUND = 2.8  # standard errors that a coefficient must have for a power of .8 at the level .05
_ROWS = 10_000  # that a table is taken to have where that is private
_RELATIVE = "expected relative error"
_STAGES = {
    "one": "one, for the second moments",
    "two": "two: second moments, then the score",
    "2": "two: the second is one step",
    "3": "three: a discriminant, and two steps of Newton",
}


def findings(
    curator: Curator,
    y: str,
    x: str | Sequence[str] | None = None,
    *,
    robust: bool = True,
    nan_policy: NanPolicy = "omit",
    **_: Any,
) -> Mapping[str, Any]:
    """Say which stages there would be, and how well the coefficients would be known; for ``explain``."""
    if not curator.measured:
        return {}
    design = formula.read(y, x, mechanisms.known_columns(curator))
    known, first = _expected(curator, design, nan_policy), None
    measured = mechanisms.Measured(known, "one")
    if len(curator.measured) > 1 and (first := known.estimate()) is not None:
        d, n = coordinates(design.width, robust=robust), float(known.moments[0])
        scored = Sums(np.full(d, -n), np.full(d, curator.measured[1].scale), d)
        score = Score(design, first.b, first.clip(math.sqrt(scored.variances[0])))
        scored.values[: design.width] = 0
        scored.values[design.width] += 2 * first.squares[0] / score.c**2
        measured = mechanisms.updated(known, score, scored, None)
    half = design.outcome.half
    return _stated(curator, known, conclude(measured, 0.05, 0.95), half / 3, "")


def findings_of_logit(
    curator: Curator,
    y: str,
    x: str | Sequence[str] | None = None,
    *,
    success: Any = None,
    nan_policy: NanPolicy = "omit",
    **_: Any,
) -> Mapping[str, Any]:
    """Say how many stages there would be, and how well the coefficients would be known; for ``explain``."""
    if not curator.measured:
        return {}
    design = formula.read_binary(y, x, success, mechanisms.known_columns(curator))
    known = _expected(curator, design, nan_policy)
    q, n = design.width, float(known.moments[0])
    scales = [each.scale for each in curator.measured[1:]]
    pairs = logistic.LogisticScore(design, np.zeros(q), information=True).dimension
    variance = cube_variance(pairs, scales[0])
    rows = (n, float(known.covariance[0, 0]))
    information = Information.of(design, np.zeros(q), np.zeros(pairs - q), variance, rows)
    information = replace(information, H=known.matrix(known.moments)[:-1, :-1] / 4)
    step = np.sqrt(variance * np.diag(information.inverse @ information.inverse))  # undoes noise
    steps = (step,) if len(scales) == 1 else (0 * step, step)
    last = variance if len(scales) == 1 else cube_variance(q, scales[1])
    fit = logistic.conclude(logistic.Measured(known, information, steps, last), 0.05, 0.95)
    return _stated(curator, known, fit, 1.0, f", and half of the rows are {design.success!r}")


def _expected(curator: Curator, design: Design, nan_policy: NanPolicy) -> Known:
    """Return the moments to be expected, with the noise of the first measurement."""
    of, exact = mechanisms.moments_of(design, curator.size, curator.gaps(design.columns, nan_policy))
    sums = Sums(np.zeros(of.dimension), np.full(of.dimension, curator.measured[0].scale), of.dimension)
    return replace(Known.of(design, exact, sums), moments=Known.assumed(design, curator.size or _ROWS).moments)


def _stated(curator: Curator, known: Known, fit: Regression, spread: float, more: str) -> dict[str, Any]:
    """State the errors that a fit to expected sums has; `spread` is the outcome's standard deviation."""
    stages = {"stages": _STAGES[fit.stages]}
    if not fit.informative:
        return {**stages, _RELATIVE: "not known: the noise may hide the regressors"}
    given = [f"there are {_ROWS:,} rows"] if curator.size is None else []
    assumed = f"{' and '.join(['standard deviations are a sixth of the range', *given])}{more}"
    names, M = known.design.names[1:], known.matrix(known.moments)
    spreads = np.sqrt(np.diag(M)[1:-1] / M[0, 0] - (M[0, 1:-1] / M[0, 0]) ** 2) / spread
    halves = 1 / np.diag(known.design.natural()[1])[1:] * (known.design.outcome.half if spread != 1 else 1)
    relative = [fit.noise_standard_errors[name] for name in names] * spreads * halves
    return {
        **stages,
        "assumed": assumed,
        **{f"expected standard error of {name}": fit.bse[name] for name in names},
        **{f"smallest coefficient of {name} found with probability 0.8": _FOUND * fit.bse[name] for name in names},
        _RELATIVE: float(relative.max()),
    }
