"""Planning: what a regression could find out, before anything is paid, and made-up rows for ``power``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from scipy.special import expit

from dfprivacy import ArgumentError, Curator, Range, Schema
from dfprivacy.made_up import spread_of
from dfprivacy_regression import formula
from dfprivacy_regression.linear import ols
from dfprivacy_regression.logistic import logit
from dfprivacy_regression.result import STAGES

if TYPE_CHECKING:
    from dfprivacy_regression.design import Design
    from dfprivacy_regression.least_squares import Known
    from dfprivacy_regression.result import Regression

__all__ = ["findings", "first_found", "line", "odds"]

_FOUND = 2.8  # standard errors that a coefficient must have for a power of .8 at the level .05
_SURE = 0.995  # that an answer is informative, for what it would know is said
_RELATIVE = "expected relative error"


def findings(curator: Curator, *_: Any, **__: Any) -> Mapping[str, Any]:
    """Plan the measurements and the standard errors of the coefficients; for ``explain``.

    The errors are those of a fit to the sums to be expected.
    """
    if not curator.measured:
        return {}
    known: Known = curator.planned.known
    design, M = known.design, known.matrix(known.moments)
    binary = design.success is not None
    conclude: Any = (logit if binary else ols).conclusion
    fit: Regression = conclude(curator.planned, confidence=_SURE)
    stages = {"stages": STAGES[fit.stages]}
    if not fit.informative:
        return {**stages, _RELATIVE: "not known: the noise may hide the regressors"}
    assumed = ["standard deviations are a sixth of the range"]
    assumed += filter(None, [curator.supposed_size[1]])
    assumed += [f"half of the rows are {design.success!r}"] if binary else []
    names, share, spread = design.names[1:], M[0, 1:-1] / M[0, 0], 1.0 if binary else 1 / 3  # of the outcome
    spreads = np.sqrt(np.diag(M)[1:-1] / M[0, 0] - share**2) / spread / np.diag(design.natural()[1])[1:]
    relative = [fit.noise_standard_errors[name] for name in names] * spreads
    return {
        **stages,
        "assumed": " and ".join(assumed),
        **{f"expected standard error of {name}": fit.bse[name] for name in names},
        **{f"smallest coefficient of {name} found with probability 0.8": _FOUND * fit.bse[name] for name in names},
        _RELATIVE: float(relative.max()),
    }


def line(
    rng: np.random.Generator,
    n: int,
    schema: Schema,
    y: str,
    x: str | Sequence[str] | None,
    *,
    effect: float = 0.2,
    spread: Annotated[float, Range(1e-12, 1e300)] | None = None,
) -> dict[str, Any]:
    """Make an outcome that changes with the first regressor by the effect, in standard deviations of both."""
    design = formula.read(y, x, _columns(schema))
    rows, score = _regressors(rng, n, design)
    out = design.outcome
    rows[out.name] = out.mid + spread_of(out, spread) * (effect * score + rng.normal(size=n))
    return rows


def odds(
    rng: np.random.Generator,
    n: int,
    schema: Schema,
    y: str,
    x: str | Sequence[str] | None,
    success: Any,
    *,
    effect: float = 0.5,
    intercept: float = 0.0,
) -> dict[str, Any]:
    """Make log-odds that change by the effect with a standard deviation of the first regressor."""
    design = formula.read_binary(y, x, success, _columns(schema))
    rows, score = _regressors(rng, n, design)
    others = [each for each in design.outcome.categories or () if each != design.success]
    values = np.array([*others[:1], design.success], dtype=object)
    happened = rng.random(n) < expit(intercept + effect * score)
    rows[design.outcome.name] = values[happened.astype(int) if others else 0 * happened]
    return rows


def first_found(release: Regression) -> bool:
    """Return whether the first coefficient but the intercept differs from 0."""
    _, first, *_ = release.rejected.values()
    return first


def _columns(schema: Schema) -> dict[str, Any]:
    known = schema.columns.items()
    return {name: column for name, column in known if column.bounds is not None or column.categories is not None}


def _regressors(rng: np.random.Generator, n: int, design: Design) -> tuple[dict[str, Any], Any]:
    """Make independent regressors, the standard deviation a sixth of the range, and give the first's score."""
    rows: dict[str, Any] = {}
    scores = []
    for column in design.numbers:
        scores.append(rng.normal(size=n))
        rows[column.name] = column.mid + spread_of(column, None) * scores[-1]
    for factor in design.factors:
        categories = np.array(factor.categories or (), dtype=object)
        drawn = rng.integers(len(categories), size=n)
        rows[factor.name] = categories[drawn]
        scores.append(1.0 * (drawn == 1))
    if not scores:
        raise ArgumentError("There is no regressor.", "Name one.")
    return rows, scores[0]
