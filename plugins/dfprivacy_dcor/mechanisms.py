"""Distance correlation within one private table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dfprivacy import ArgumentError, Probability, Range, mechanism
from dfprivacy_dcor.inference import Null, Numbers, described
from dfprivacy_dcor.results import DistanceCorrelation, IndependenceTest, Screening
from dfprivacy_dcor.spaces import Metric, rows_of, space
from dfprivacy_dcor.statistics import SHARES, FiveNumbers, Permuted, Scores, changes, largest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy import Column, Curator
    from dfprivacy_dcor.spaces import Space

__all__ = ["dcor", "dcor_screen", "findings"]

Method = Literal["release", "permutation"]

_PERMUTED_PAIRS_MAX = 2000
_PERMUTATIONS_MAX = 100_000
_DIRECTIONS_MAX = 1000
_UNIFORM = math.sqrt(2 / 45)  # distance deviation of a uniform variable, as a part of its width


@mechanism(columns={"x": "columns", "y": "columns"})
def dcor(
    curator: Curator,
    x: tuple[Column, ...],
    y: tuple[Column, ...],
    *,
    metric: Metric = "euclidean",
    method: Method = "release",
    confidence: Probability = 0.95,
    null: Null = "gamma",
    alpha: Probability | None = None,
    permutations: Annotated[int, Range(1, _PERMUTATIONS_MAX)] = 999,
    directions: Annotated[int, Range(1, _DIRECTIONS_MAX)] = 50,
) -> DistanceCorrelation | IndependenceTest:
    """Measure dependence of any form, and test independence.

    Parameters
    ----------
    x : str or list of str
        Columns with bounds, or one with categories. Each is scaled by its bounds to a width of 1.
    y : str or list of str
        Other such columns.
    metric : {"euclidean", "l1", "projected", "discrete"}
        Distance of rows. ``"euclidean"``: exact, with several columns in n² steps for up to 20,000 rows. ``"l1"``:
        sum over columns, n log n; sees dependence between single columns only. ``"projected"``: an estimate of the
        Euclidean distance from random directions, n log n. ``"discrete"``: for categories, 1 if they differ.
    method : {"release", "permutation"}
        ``"release"``: five numbers, from which R, its interval and a p-value follow. ``"permutation"``: a test
        only, valid for any number of rows.
    confidence : float
        Coverage of the interval.
    null : {"gamma", "chi2"}
        Distribution under independence with ``"release"``: a gamma distribution that has mean and variance of the
        limit, or an upper bound of every limit.
    alpha : float, optional
        With ``"permutation"``: decide at this level. Without it the p-value is released, for twice the noise.
    permutations : int
        With ``"permutation"``: how many.
    directions : int
        With ``"projected"``: how many.

    Returns
    -------
    DistanceCorrelation or IndependenceTest
        The second with ``method="permutation"``.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, the number of rows is private or below 4; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for tables that differ in the content of one row. The distance
    covariance s_xy, the distance deviations s_x, s_y and the mean distances m_x, m_y (square roots of V-statistics,
    and means) each change by at most 2(n-1)/n² times the diameters when one row does; s_xy by √1.5 of that if both
    sides have several Euclidean columns or categories. They are released with discrete Laplace noise for their
    joint sensitivity; all else is post-processing. A permuted s_xy changes by twice as much.

    **Statistics.** The interval is guaranteed for the R of the rows. The gamma null distribution is an
    approximation; ``null="chi2"`` is an asymptotic upper bound for p up to 0.215.

    References
    ----------
    .. [1] Székely, Rizzo and Bakirov (2007). Measuring and testing dependence by correlation of distances. Annals
       of Statistics 35.
    .. [2] Vepakomma, Pushpita and Raskar (2021). Private measurement of nonlinear correlations between data hosted
       across multiple parties.
    .. [3] Kim and Schrab (2023). Differentially private permutation tests. arXiv:2310.19043.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> x = np.linspace(-1, 1, 2000)
    >>> df = pd.DataFrame({"dose": x, "effect": x**2})
    >>> view = dp.protect(df, "dcor-example", epsilon=4, ledger="memory:",
    ...                   bounds={"dose": (-1, 1), "effect": (0, 1)})
    >>> view.dcor("dose", "effect", epsilon=2).pvalue < 0.05
    True
    """
    one, other = space(x, metric, directions), space(y, metric, directions, seed=1)
    n = rows_of(curator, one, other)
    if method == "permutation":
        return _permute(curator, one, other, n, alpha, permutations)
    if alpha is not None:
        raise ArgumentError("alpha= is for method='permutation'.", "Leave it out: a p-value suits any level.")
    return _release(curator, one, other, n, confidence, null)


def _release(
    curator: Curator, x: Space, y: Space, n: int, confidence: float, null: Null, share: object = None
) -> DistanceCorrelation:
    measured = curator.measure(FiveNumbers(x, y, n), share=share)
    numbers = Numbers(
        tuple(measured.values.tolist()),
        tuple(measured.scales.tolist()),
        n,
        tuple(changes(x, y, n).tolist()),
        largest(x, y),
    )
    interval = numbers.interval(confidence)
    return DistanceCorrelation(
        correlation=numbers.correlation,
        corrected=numbers.corrected,
        low=float(interval.low),
        high=float(interval.high),
        confidence=confidence,
        pvalue=numbers.pvalue(null),
        x=x.names,
        y=y.names,
        metric=x.metric if x.metric == y.metric else f"{x.metric} and {y.metric}",
        null=null,
        rows=n,
        notes=described(numbers),
        released=numbers.values,
        scales=numbers.scales,
        changes=numbers.changes,
        largest=numbers.largest,
    )


def _permute(
    curator: Curator, x: Space, y: Space, n: int, alpha: float | None, permutations: int
) -> IndependenceTest:
    if (x.pairwise or y.pairwise) and n > _PERMUTED_PAIRS_MAX:
        raise ArgumentError(
            f"Permutations of all pairs of {n} rows take too long; {_PERMUTED_PAIRS_MAX} are the most.",
            "Use metric='l1' or 'projected', or method='release'.",
        )
    found = curator.permutation_test(Permuted(x, y, n, permutations), alpha=alpha)
    return IndependenceTest(
        pvalue=float(found) if alpha is None else None,
        rejected=None if alpha is None else bool(found),
        alpha=alpha,
        x=x.names,
        y=y.names,
        metric=x.metric,
        permutations=permutations,
    )


def findings(
    curator: Curator,
    x: tuple[Column, ...],
    y: tuple[Column, ...],
    *,
    metric: Metric = "euclidean",
    method: Method = "release",
    confidence: float = 0.95,
    **_: Any,
) -> Mapping[str, Any]:
    """Say what could be found out, from public numbers only; for ``explain``."""
    if method == "permutation":
        return {}
    one, other = space(x, metric), space(y, metric, seed=1)
    change = changes(one, other, rows_of(curator, one, other))[0]
    reach = curator.measured[-1].scale * float(change) / SHARES[0] * math.log(3 / (1 - confidence))
    typical = _UNIFORM * math.sqrt(one.diameter * other.diameter)
    return {"upper end of the interval for R, if independent and spread evenly": min(1.0, reach / typical)}


@mechanism(columns={"target": "columns", "features": "columns"})
def dcor_screen(
    curator: Curator,
    target: tuple[Column, ...],
    features: tuple[Column, ...] | None = None,
    *,
    top: Annotated[int, Range(1)],
    estimate: bool = False,
    confidence: Probability = 0.95,
) -> Screening:
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
    confidence : float
        Coverage of their intervals.

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
    is its distance covariance with the target, as a part of the root of both diameters, which one row changes by
    2(n-1)/n² (√1.5 of that if both have three categories and more). One selection after the other takes its part
    of epsilon, whatever the number of columns to choose from. The ranking is one by covariance in units of the
    bounds: columns whose bounds are much too wide come late.

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
    y = space(target, "euclidean")
    chosen_from = [c for c in curator.columns if c not in target] if features is None else list(features)
    if len(set(chosen_from)) < len(chosen_from) or not chosen_from:
        raise ArgumentError("features= must name at least one column, each once.", "Leave it out for all others.")
    candidates = [space((column,), "euclidean") for column in chosen_from]
    n = rows_of(curator, y, *candidates)
    if top > len(candidates):
        raise ArgumentError(f"top={top!r} of {len(candidates)} columns cannot be selected.", "Select one to all.")
    places = curator.select(Scores(candidates, y, n), top=top, share="1/2" if estimate else None)
    best = [candidates[int(place)] for place in places]
    estimates = [_release(curator, x, y, n, confidence, "gamma", f"1/{2 * top}") for x in best if estimate]
    return Screening(
        features=tuple(name for x in best for name in x.names),
        target=target[0].name,
        candidates=tuple(column.name for column in chosen_from),
        estimates=tuple(estimates),
    )
