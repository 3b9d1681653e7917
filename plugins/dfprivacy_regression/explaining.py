"""What a regression could find out, said before anything is paid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dfprivacy import Curator, NanPolicy
from dfprivacy_regression import formula
from dfprivacy_regression.least_squares import cube_variance
from dfprivacy_regression.logistic import ENOUGH
from dfprivacy_regression.mechanisms import SHARES, first_share, known_columns, rows_wanted
from dfprivacy_regression.score import coordinates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["findings", "findings_of_logit"]

_FOUND = 2.8  # standard errors that a coefficient must have for a power of .8 at the level .05


def findings(
    curator: Curator,
    y: str,
    x: str | Sequence[str] | None = None,
    *,
    robust: bool = True,
    nan_policy: NanPolicy = "omit",  # noqa: ARG001 - a missing value costs no accuracy that is known beforehand
    **_: Any,
) -> Mapping[str, Any]:
    """Say which stages there would be, and which coefficients could be told from 0; for ``explain``."""
    if not curator.measured:
        return {}
    design, n = formula.read(y, x, known_columns(curator)), curator.size
    q, dimension = design.width, design.moments(count=n is None).dimension
    if n is None:
        wanted = SHARES[-1][0] * rows_wanted(curator, dimension, q)
        return {"two stages": f"of use from about {wanted:,.0f} rows on"}
    share = first_share(curator, dimension, q)
    width = 1 if curator.neighbors == "add_remove" else 2
    sd, scatter = 1 / 5, n / 9  # of residuals and regressors, in units of half the bounds
    if share == 1:
        noise = math.sqrt(cube_variance(dimension, width / curator.epsilon)) / scatter
    else:
        rest = curator.epsilon * float(1 - share)
        noise = 3 * sd * math.sqrt(cube_variance(coordinates(q, robust=robust), width / rest)) / scatter
    error = math.hypot(noise, sd / math.sqrt(scatter))
    out = design.outcome
    given = f"with probability 0.8, if residuals have the standard deviation {sd * out.half:.3g}"
    return {
        "stages": "one, for the second moments" if share == 1 else "two: second moments, then the score",
        **{
            f"smallest coefficient of {each.name} found {given} and {each.name} {each.half / 3:.3g}": _FOUND
            * error
            * out.half
            / each.half
            for each in design.numbers
        },
    }


def findings_of_logit(
    curator: Curator,
    y: str,
    x: str | Sequence[str] | None = None,
    *,
    success: Any = None,
    **_: Any,
) -> Mapping[str, Any]:
    """Say how many stages there would be, and which log-odds could be told from 0; for ``explain``."""
    if not curator.measured:
        return {}
    design, n = formula.read_binary(y, x, success, known_columns(curator)), curator.size
    q, dimension = design.width, design.moments(count=n is None).dimension
    wanted = ENOUGH * rows_wanted(curator, dimension, q)
    if n is None:
        return {"three stages": f"from about {wanted:,.0f} rows; with fewer there are two"}
    width = 1 if curator.neighbors == "add_remove" else 2
    last = q if n >= wanted else q + q * (q + 1) // 2
    scatter = n / 9 / 4  # of a regressor with a third of half its bounds, at a share of one half
    noise = math.sqrt(cube_variance(last, width / (curator.epsilon * (2 / 5 if n >= wanted else 3 / 5)))) / scatter
    error = math.hypot(noise, 1 / math.sqrt(scatter))
    return {
        "stages": "three: a discriminant, and two steps of Newton"
        if n >= wanted
        else "two: the second is one step",
        **{
            f"smallest coefficient of {each.name} found with probability 0.8, if its standard deviation is "
            f"{each.half / 3:.3g} and half of the rows are {design.success!r}": _FOUND * error / each.half
            for each in design.numbers
        },
    }
