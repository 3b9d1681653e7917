"""``view.wilcoxon``: a test of paired differences, or of one column, by signed ranks or signs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import bdtr, bdtrc

from dfprivacy import ArgumentError, Column, Curator, NanPolicy, Probability, mechanism
from dfprivacy.inference.counts import NoisyCounts
from dfprivacy_inference.asking import check_apart, enough
from dfprivacy_inference.laws import Alternative, pvalue
from dfprivacy_inference.rank_results import Wilcoxon, plain
from dfprivacy_inference.statistics import SignedRankSum, Signs
from dfprivacy_inference.two_groups import SLACK

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dfprivacy.release import NoisyValue

    Array = NDArray[np.float64]

__all__ = ["check_pairs", "sign_pvalue", "signed_rank_sd", "wilcoxon"]

_ENOUGH = 24.0  # rows times epsilon squared: from here on signed ranks find more than signs do
_AS_IF = 100  # rows, where their number is private and the method is to be chosen


@dataclass(frozen=True)
class Measured:
    """A noisy sum of signed ranks or signs, and what it is of.

    Attributes
    ----------
    noisy : NoisyValue
        The coordinates of a statistic.
    ranks : bool
        Whether it is of ranks.
    n : int or None
        Number of rows, None where it is private.
    gaps : bool
        Whether some of them may be left out.
    """

    noisy: NoisyValue
    ranks: bool
    n: int | None
    gaps: bool


@mechanism(columns={"column": "numeric", "other": "numeric"})
def wilcoxon(
    curator: Curator,
    column: Column,
    other: Column | None = None,
    *,
    popmean: float = 0.0,
    method: Literal["auto", "rank", "sign"] = "auto",
    nan_policy: NanPolicy = "omit",
) -> Measured:
    """Test whether differences lie symmetrically about 0: of two columns, or of one and a number.

    Parameters
    ----------
    column : str
        A column with bounds. They may be loose: differences count by the order of their sizes only.
    other : str, optional
        A column to subtract from it, row by row.
    popmean : float
        A number to subtract as well.
    method : {"auto", "rank", "sign"}
        ``"rank"``: signed ranks, Wilcoxon's test with zeros ranked as well (Pratt). ``"sign"``: signs alone, which
        get less noise: better where n ε² is below 24, which ``"auto"`` looks at; where the number of rows is
        private, it takes that for 100.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: a row with a missing value does not count. ``"fill"``: it counts, with fill values.
        ``"raise"``: it is refused, where the columns are public.
    alternative : {"two-sided", "less", "greater"}
        What is suspected of the differences.
    alpha : float
        The level at which `rejected` decides.

    Returns
    -------
    Wilcoxon
        With scipy's names: ``statistic``, which is the sum of all signed ranks here, and ``pvalue``.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. The sum of signed ranks is
    that of the signs of d_i + d_j over pairs i <= j: one of n rows is in n of them and moves it by 2n at most, or
    W/(n + 1) by 3/2 where the number of rows is private. One row moves a sum of signs by 2. The number of rows with
    a value comes with it for nothing. All else is post-processing.

    **Statistics.** The p-value is that of the normal law with the noise in it and the variance that there is
    without ties and zeros, the largest: conservative where there are many. Signs get the binomial law, on average
    over what the noise leaves open of their numbers.

    References
    ----------
    .. [1] Couch, Kazan, Shi, Bray and Groce (2019). Differentially private nonparametric hypothesis testing. CCS.
    .. [2] Pratt (1959). Remarks on zeros and ties in the Wilcoxon signed rank procedures. J. American Statistical
       Association 54.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> before = np.arange(1000) % 97
    >>> df = pd.DataFrame({"before": before, "after": before + np.arange(1000) % 7 - 1})
    >>> view = dp.protect(df, "wilcoxon-example", epsilon=1, ledger="memory:",
    ...                   bounds={"before": (0, 500), "after": (0, 500)})
    >>> view.wilcoxon("after", "before", epsilon=1).pvalue < 0.001
    True
    """
    columns = [column] if other is None else [column, other]
    gaps = curator.gaps(columns, nan_policy)
    n = enough(curator.size)
    ranks = (n or _AS_IF) * curator.epsilon**2 >= _ENOUGH if method == "auto" else method == "rank"
    statistic = SignedRankSum if ranks else Signs
    return Measured(curator.measure(statistic(column, other, popmean, gaps, n)), ranks, n, bool(gaps))


@wilcoxon.concludes
def _(
    measured: Measured,
    column: Column,
    other: Column | None,
    *,
    popmean: float,
    nan_policy: NanPolicy,
    alternative: Alternative = "two-sided",
    alpha: Probability = 0.05,
) -> Wilcoxon:
    """Conclude from the noisy sum."""
    values, scales, n = plain(measured.noisy.values), plain(measured.noisy.scales), measured.n
    told = n is not None and measured.gaps
    if measured.ranks:
        rows = float(n) if n is not None and not told else values[1]
        # An upper end of a noisy number of rows: the law is wider then.
        most = max(rows + SLACK * scales[1] * (n is None or told), 2.0)
        most = most if n is None else min(most, float(n))
        least = max(rows, 2.0)
        sd = float(signed_rank_sd(most) / (most + 1 if n is None else 1))
        p = float(pvalue(values[0], sd, scales[0], alternative))
        statistic = values[0] * (least + 1 if n is None else 1)
        effect = 0.5 + statistic / (least * (least + 1))
    else:
        signs = _signs(measured)
        rows = float(signs.size[0])
        p = sign_pvalue(signs, alternative)
        statistic = values[0] - values[1] if n is None else values[0]
        effect = float(signs.estimate.share[0, 0])
    return Wilcoxon(
        statistic=float(statistic),
        pvalue=p,
        alpha=alpha,
        rejected=p <= alpha,
        effect=float(np.clip(effect, 0.0, 1.0)),
        method="rank" if measured.ranks else "sign",
        rows=float(max(rows, 0.0)),
        missing=float(n - rows) if n is not None and told else None,
        missing_standard_error=float(2**0.5 * scales[1]) if told else None,
        column=column.name,
        other=None if other is None else other.name,
        popmean=popmean,
        alternative=alternative,
        nan_policy=nan_policy,
        notes=(),
        released=values,
        noise_standard_error=plain(np.sqrt(2) * np.array(scales)),
    )


def check_pairs(column: Column, other: Column | None, *, popmean: float, **_: Any) -> None:
    """Refuse what cannot be tested, before anything is paid."""
    low, high = column.low, column.high
    if other is not None:
        check_apart(column, other)
        low, high = low - other.high, high - other.low
    if not low <= popmean <= high:
        raise ArgumentError(
            f"popmean={popmean:g} lies outside of what can be, {low:g} to {high:g}.",
            "Choose another null hypothesis, or wider bounds.",
        )


def signed_rank_sd(rows: ArrayLike) -> Array:
    """Return the largest standard deviation of a sum of signed ranks under the null hypothesis: without zeros."""
    n = np.asarray(rows, dtype=np.float64)
    return np.sqrt(n * (n + 1) * (2 * n + 1) / 6)


def _signs(measured: Measured) -> NoisyCounts:
    """Return how many of the signs are above 0, of how many."""
    n = measured.n
    if n is None:
        return NoisyCounts.measured(measured.noisy, None, "counts")
    sums = NoisyCounts.measured(measured.noisy, [n], "halves")
    halves = replace(sums, values=sums.values / 2, laws=[replace(law, scale=law.scale / 2) for law in sums.laws])
    if measured.gaps:
        return halves
    return replace(halves, values=halves.values[:, :1] + n / 2, laws=halves.laws[:1], form="hits")


def sign_pvalue(signs: NoisyCounts, alternative: Alternative = "two-sided") -> float:
    """Return the p-value of a noisy number of signs.

    Parameters
    ----------
    signs : NoisyCounts
        Of one group: how many are above 0, of how many.
    alternative : {"two-sided", "less", "greater"}
        What counts as extreme.

    Returns
    -------
    float
        By the binomial law, on average over what the exact numbers may be.
    """
    exact, weights = signs.draws()
    above, n = exact.hits[0], np.rint(exact.n[0]).astype(np.int64)
    below = float(weights @ bdtr(np.floor(above), n, 0.5))
    beyond = float(weights @ np.where(above > 0, bdtrc(np.maximum(np.ceil(above) - 1, 0), n, 0.5), 1.0))
    return {"less": below, "greater": beyond, "two-sided": min(2 * below, 2 * beyond, 1.0)}[alternative]
