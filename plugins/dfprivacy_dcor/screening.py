"""Which columns depend on another the most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from dfprivacy import ArgumentError, NanPolicy, Probability, Range, mechanism
from dfprivacy_dcor.mechanisms import Pair, conclude_pair, measure_pair
from dfprivacy_dcor.results import Screening
from dfprivacy_dcor.spaces import rows_of, space
from dfprivacy_dcor.statistics import Scores

if TYPE_CHECKING:
    from dfprivacy import Column, Curator

__all__ = ["dcor_screen"]


@dataclass(frozen=True)
class Chosen:
    """Names of the columns there were, of those that were chosen, and noisy numbers of the latter, if asked for."""

    candidates: tuple[str, ...]
    features: tuple[str, ...]
    pairs: tuple[Pair, ...]


@mechanism(columns={"target": "columns", "features": "columns"})
def dcor_screen(
    curator: Curator,
    target: tuple[Column, ...],
    features: tuple[Column, ...] | None = None,
    *,
    top: Annotated[int, Range(1)],
    estimate: bool = False,
    nan_policy: NanPolicy = "omit",
) -> Chosen:
    """Select the columns on which another depends the most, in any form.

    Parameters
    ----------
    target : str
        A column with bounds or categories.
    features : list of str, optional
        The columns to choose from; default: all others that have bounds or categories.
    top : int
        How many to select.
    estimate : bool
        Spend half of epsilon on the distance correlations of those selected.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: rows with a missing value in the target or the column do not count. ``"fill"``: they count, with
        the fill value, or as a category of their own. ``"raise"`` is for public columns.
    confidence : float
        Coverage of their intervals.
    alpha : float
        Level of their tests.

    Returns
    -------
    Screening
        The names, best first.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, the number of rows is private or below 4; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for tables that differ in the content of one row. The score of a column
    is its distance covariance with the target, times the share of complete rows, as a part of the root of both
    diameters, which one row changes by 2(n-1)/n² (√1.5 of that if both have three categories and more). One
    selection after the other takes its part of epsilon, whatever the number of columns to choose from. The ranking
    is one by covariance in units of the bounds: columns whose bounds are much too wide come late, and so do those
    of which much is missing.

    References
    ----------
    .. [1] McKenna and Sheldon (2020). Permute-and-flip: a new mechanism for differentially private selection.
       NeurIPS.
    .. [2] Durfee and Rogers (2019). Practical differentially private top-k selection with pay-what-you-get
       composition. NeurIPS.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.linspace(-1, 1, 2000)
    >>> df = pd.DataFrame({"dose": x, "effect": x**2, "day": np.arange(2000) % 7})
    >>> view = dp.protect(df, "dcor-screen-example", epsilon=4, ledger="memory:",
    ...                   bounds={"dose": (-1, 1), "effect": (0, 1), "day": (0, 6)})
    >>> view.dcor_screen("effect", top=1, epsilon=2).features
    ('dose',)
    """
    if len(target) != 1:
        raise ArgumentError("target= takes one column.", "Screen for one target at a time.")
    y = space(target, "euclidean", nan_policy=nan_policy)
    chosen_from = [c for c in curator.columns if c not in target] if features is None else list(features)
    if len(set(chosen_from)) < len(chosen_from) or not chosen_from:
        raise ArgumentError("features= must name at least one column, each once.", "Leave it out for all others.")
    candidates = [space((column,), "euclidean", nan_policy=nan_policy) for column in chosen_from]
    n = rows_of(curator, y, *candidates, nan_policy=nan_policy)
    if top > len(candidates):
        raise ArgumentError(f"top={top!r} of {len(candidates)} columns cannot be selected.", "Select one to all.")
    places = curator.select(Scores(candidates, y, n), top=top, share="1/2" if estimate else None)
    best = [candidates[int(place)] for place in places]
    return Chosen(
        candidates=tuple(column.name for column in chosen_from),
        features=tuple(name for x in best for name in x.names),
        pairs=tuple(measure_pair(curator, x, y, n, f"1/{2 * top}") for x in best if estimate),
    )


@dcor_screen.concludes
def _(
    measured: Chosen,
    target: tuple[Column, ...],
    *,
    confidence: Probability = 0.95,
    alpha: Probability = 0.05,
) -> Screening:
    """Conclude for each chosen column."""
    return Screening(
        features=measured.features,
        target=target[0].name,
        candidates=measured.candidates,
        estimates=tuple(conclude_pair(pair, alpha=alpha, confidence=confidence) for pair in measured.pairs),
    )
