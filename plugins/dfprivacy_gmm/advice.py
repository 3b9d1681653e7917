"""How many components can be asked for, how many rows they take, and what a fit is worth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, TypeAlias, get_args

import numpy as np

from dfprivacy import ArgumentError, Range
from dfprivacy_gmm.characteristic import Shape

if TYPE_CHECKING:
    from dfprivacy_gmm.fit import Fit

__all__ = ["VOID", "Components", "check_components", "check_search", "doubts", "rows_needed"]

_POOR = 0.2  # predicted error of a centre, in standard deviations, from which most fits fail
VOID = 1.0  # and from which nothing was learned
_MOST = 50  # components
_MOST_AUTO = 6

Components: TypeAlias = Annotated[int, Range(1, _MOST)]
"""A number of components."""


def check_components(n_components: object, most: int | None = None) -> tuple[int, ...]:
    """Give the numbers of components to try, or raise `ArgumentError`."""
    if isinstance(n_components, str) and n_components == "auto":
        return tuple(range(1, (most or _MOST_AUTO) + 1))
    return (check_number(n_components),)


def check_number(n_components: object) -> int:
    """Give a number of components, or raise `ArgumentError`."""
    is_number = isinstance(n_components, int | np.integer) and not isinstance(n_components, bool)
    if not is_number or not 1 <= int(n_components) <= _MOST:  # type: ignore[call-overload]
        raise ArgumentError(
            f"{n_components!r} is no number of components.", f'Use 1 to {_MOST}, or "auto" to choose.'
        )
    return int(n_components)  # type: ignore[call-overload, no-any-return]


def check_search(covariance_type: object, restarts: object) -> None:
    """Raise `ArgumentError` for what is no shape of covariances, or no number of restarts."""
    if covariance_type not in get_args(Shape):
        raise ArgumentError(f"covariance_type={covariance_type!r} is unknown.", f"Use one of {get_args(Shape)}.")
    if not isinstance(restarts, int) or isinstance(restarts, bool) or restarts < 1:
        raise ArgumentError(f"restarts={restarts!r} is no number of restarts.", "Use at least 1.")


def rows_needed(K: int, d: int, epsilon: float, separation: float = 2.5) -> int:
    """Give the rows from which about nine of ten mixtures are found, as measured in simulations.

    Parameters
    ----------
    K, d : int
        Components and columns.
    epsilon : float
        Price, at delta = 1e-6.
    separation : {2.5, 4}
        Distance of the closest centres, in standard deviations.
    """
    factor = 0.25 if separation >= 4 else 1.0  # noqa: PLR2004
    return math.ceil(5000 * factor * K * max(1.0, (d / 5) ** 2) / epsilon)


def doubts(fit: Fit, error: float, *, size: float, epsilon: float, m: int) -> list[str]:
    """Say what misleads in a fit.

    Parameters
    ----------
    fit : Fit
        A mixture.
    error : float
        Predicted error of a centre, in standard deviations of its component.
    size : float
        Rows.
    epsilon : float
        Price.
    m : int
        Frequencies of the sketch.

    Returns
    -------
    list of str
        Notes.
    """
    K, d = fit.means.shape
    notes = []
    far, near = rows_needed(K, d, epsilon, 4), rows_needed(K, d, epsilon)
    if fit.unsearched is not None:
        notes.append(
            f"Uninformative: even components 4 standard deviations apart would be known to {error:.2g} standard "
            f"deviations only, so none were searched for, and all {K} are the same; {K} components in {d} columns "
            f"need about {far:,} rows at this epsilon."
        )
    elif size < far / 4 or error > VOID:
        notes.append(
            f"Uninformative: {K} components in {d} columns need about {far:,} rows at this epsilon even where "
            f"they are 4 standard deviations apart; there are about {size:,.0f}."
        )
    elif size < near:
        notes.append(
            f"Few rows: {K} components in {d} columns are found in nine tables of ten from about {far:,} rows "
            f"on where they are 4 standard deviations apart, and from {near:,} on at 2.5."
        )
    elif error > _POOR:
        notes.append(
            f"The predicted error of the centres is {error:.2g} standard deviations; above {_POOR} most fits "
            "are wrong."
        )
    if fit.residual > m + 3 * math.sqrt(m):
        notes.append(
            "The mixture does not describe the sketch: the data are no mixture of so many Gaussians of this "
            "shape (values that repeat, or pile up at the bounds, do that too), or the best one was not found."
        )
    if not fit.agreed:
        notes.append("No two searches ended in the same optimum: try restarts=20.")
    return notes
