"""Distance correlation within one private table."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dfprivacy import ArgumentError, NanPolicy, Probability, Range, mechanism
from dfprivacy_dcor.inference import Null, Numbers
from dfprivacy_dcor.results import DistanceCorrelation, IndependenceTest
from dfprivacy_dcor.spaces import Metric, rows_of, space
from dfprivacy_dcor.statistics import FiveNumbers, Permuted, changes, largest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy import Column, Curator
    from dfprivacy.release import NoisyValue
    from dfprivacy_dcor.spaces import Space

__all__ = ["Pair", "conclude_pair", "dcor", "findings", "measure_pair", "warn_of_gamma"]

Method = Literal["release", "permutation", "decision"]

_PERMUTED_PAIRS_MAX = 2000
_PERMUTATIONS_MAX = 100_000
_DIRECTIONS_MAX = 1000
_UNIFORM = math.sqrt(2 / 45)  # distance deviation of a uniform variable, as a part of its width
_TRUTHS = (0.1, 0.5, 0.9)  # distance correlations for which `findings` says how wide the interval would be


@dataclass(frozen=True)
class Pair:
    """Noisy numbers of some columns and others, and what is public of both."""

    x: Space
    y: Space
    rows: int
    noisy: NoisyValue


@mechanism(columns={"x": "columns", "y": "columns"})
def dcor(
    curator: Curator,
    x: tuple[Column, ...],
    y: tuple[Column, ...],
    *,
    metric: Metric = "euclidean",
    method: Method = "release",
    alpha: Probability = 0.05,
    permutations: Annotated[int, Range(1, _PERMUTATIONS_MAX)] = 999,
    directions: Annotated[int, Range(1, _DIRECTIONS_MAX)] = 50,
    nan_policy: NanPolicy = "omit",
) -> Pair | bool | float:
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
    method : {"release", "permutation", "decision"}
        ``"release"``: a few numbers, from which R, its interval and a p-value follow. ``"permutation"``: a p-value
        only, valid for any number of rows. ``"decision"``: the same test, of which only the decision at level
        `alpha` is released, for half of the noise.
    alpha : float
        Level of the test.
    permutations : int
        With ``"permutation"`` and ``"decision"``: how many. No p-value is below 1 / (permutations + 1).
    directions : int
        With ``"projected"``: how many.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: rows with a missing value in a column do not count. ``"fill"``: they count, with the fill value
        or as a category of their own. ``"raise"`` is for public columns.
    confidence : float
        Coverage of the interval.
    null : {"moments", "chi2"}
        Distribution under independence with ``"release"``: a shifted chi-square distribution with mean and variance
        of the limit, or an upper bound of every limit, with less power.

    Returns
    -------
    DistanceCorrelation or IndependenceTest
        The second with ``"permutation"`` and ``"decision"``.

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
    and means) of the complete rows, times their share of the n rows, each change by at most 2(n-1)/n² times the
    diameters when one row does; s_xy by √1.5 of that if both sides have several Euclidean columns or categories.
    They are released with discrete Laplace noise for their joint sensitivity, which the share does not raise; all
    else is post-processing. A permuted s_xy changes by twice as much.

    **Statistics.** The interval is guaranteed for the R of the complete rows. The null distribution is an
    approximation for many rows, a little wider than the limit up to a level of .05; ``null="chi2"`` is an upper
    bound of the limit for p up to 0.215. A p-value takes the noise into account, that of the numbers which its null
    distribution follows from included; it may be as small as the noise allows.

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
    one = space(x, metric, directions, nan_policy=nan_policy)
    other = space(y, metric, directions, seed=1, nan_policy=nan_policy)
    n = rows_of(curator, one, other, nan_policy=nan_policy)
    if method == "release":
        return measure_pair(curator, one, other, n)
    if (one.pairwise or other.pairwise) and n > _PERMUTED_PAIRS_MAX:
        raise ArgumentError(
            f"Permutations of all pairs of {n} rows take too long; {_PERMUTED_PAIRS_MAX} are the most.",
            "Use metric='l1' or 'projected', or method='release'.",
        )
    permuted = Permuted(one, other, n, permutations)
    if method == "decision":
        return curator.permutation_test(permuted, alpha=alpha)
    return curator.permutation_test(permuted)


@dcor.concludes
def _(
    measured: Pair | bool | float,  # noqa: FBT001 - what the first half returns
    x: tuple[Column, ...],
    y: tuple[Column, ...],
    *,
    metric: Metric,
    alpha: float,
    permutations: int,
    confidence: Probability = 0.95,
    null: Literal["moments", "chi2", "gamma"] = "moments",
) -> DistanceCorrelation | IndependenceTest:
    """Conclude from noisy numbers, or from the place among permutations."""
    if isinstance(measured, Pair):
        law: Null = "chi2" if null == "chi2" else "moments"
        return conclude_pair(measured, alpha=alpha, confidence=confidence, null=law)
    decided = isinstance(measured, bool)
    return IndependenceTest(
        pvalue=None if decided else float(measured),
        alpha=alpha,
        rejected=bool(measured) if decided else measured <= alpha,
        x=tuple(column.name for column in x),
        y=tuple(column.name for column in y),
        metric=metric,
        permutations=permutations,
    )


def warn_of_gamma(*_: Any, null: str, **__: Any) -> None:
    """Warn who names a null distribution that is gone, before anything is paid."""
    if null == "gamma":
        warnings.warn(
            "dcor(): the gamma distribution rejected too often at small levels; null='moments' takes its place.",
            FutureWarning,
            stacklevel=2,
        )


def measure_pair(curator: Curator, x: Space, y: Space, n: int, share: object = None) -> Pair:
    """Measure the numbers that a distance correlation follows from."""
    return Pair(x, y, n, curator.measure(FiveNumbers(x, y, n), share=share))


def conclude_pair(pair: Pair, *, alpha: float, confidence: float, null: Null = "moments") -> DistanceCorrelation:
    """Conclude from them."""
    x, y, values, scales = pair.x, pair.y, pair.noisy.values.tolist(), pair.noisy.scales.tolist()
    counted = len(values) > 5  # noqa: PLR2004 - the share of complete rows
    numbers = Numbers(
        tuple(values) if counted else (*values, 1.0),
        tuple(scales) if counted else (*scales, 0.0),
        pair.rows,
        tuple(changes(x, y, pair.rows).tolist()),
        largest(x, y),
    )
    interval, pvalue = numbers.interval(confidence), numbers.pvalue(null)
    return DistanceCorrelation(
        correlation=numbers.correlation,
        corrected=numbers.corrected,
        low=float(interval.low),
        high=float(interval.high),
        confidence=confidence,
        statistic=numbers.statistic,
        pvalue=pvalue,
        alpha=alpha,
        rejected=pvalue <= alpha,
        x=x.names,
        y=y.names,
        metric=x.metric if x.metric == y.metric else f"{x.metric} and {y.metric}",
        null=null,
        rows=pair.rows,
        missing=pair.rows * (1 - numbers.values[5]) if counted else None,
        missing_standard_error=math.sqrt(2) * pair.rows * numbers.scales[5] if counted else None,
        notes=numbers.notes(),
        released=numbers.values,
        noise_standard_error=tuple(math.sqrt(2) * scale for scale in numbers.scales),
        changes=numbers.changes,
        largest=numbers.largest,
    )


def findings(
    curator: Curator,
    x: tuple[Column, ...],
    y: tuple[Column, ...],
    *,
    metric: Metric = "euclidean",
    method: Method = "release",
    confidence: float = 0.95,
    nan_policy: NanPolicy = "omit",
    **_: Any,
) -> Mapping[str, Any]:
    """Say how wide the interval for R would be for a few true values, from public numbers only; for ``explain``."""
    if method != "release":
        return {}
    one, other = (space(columns, metric, nan_policy=nan_policy) for columns in (x, y))
    n = rows_of(curator, one, other)
    scales = curator.measured[-1].scale / FiveNumbers(one, other, n).weights[:5]
    values = [
        _UNIFORM * math.sqrt(one.diameter * other.diameter),
        _UNIFORM * one.diameter,
        _UNIFORM * other.diameter,
    ]

    def interval(truth: float) -> str:
        noisy = (truth * values[0], *values[1:], 0.0, 0.0, 1.0)
        numbers = Numbers(noisy, (*scales.tolist(), 0.0), n, (0.0,) * 5, largest(one, other))
        low, high = numbers.interval(confidence)
        return f"{low:.2f} to {high:.2f}"

    told = "interval for R = {:g}, for columns that fill their bounds evenly; wider if they fill them less"
    return {told.format(truth): interval(truth) for truth in _TRUTHS}
