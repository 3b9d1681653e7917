"""``view.wilcoxon``: a test of paired differences, or of one column, by signed ranks or signs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Column, Curator, NanPolicy, Probability, mechanism
from dfprivacy.inference.draws import points, quantile
from dfprivacy.inference.engine import Alternative
from dfprivacy.inference.planning import TABLES
from dfprivacy.laws import NoiseLaw
from dfprivacy_inference.asking import check_apart, enough
from dfprivacy_inference.laws import pvalue
from dfprivacy_inference.pairs import rank_or_sign, sign_pvalue, signed_rank_sd
from dfprivacy_inference.rank_results import Wilcoxon, plain
from dfprivacy_inference.statistics import SignedSum
from dfprivacy_inference.two_groups import SLACK

__all__ = ["check_pairs", "wilcoxon"]

_FEWEST = 2.0
_TWO = 1.4  # scales of the noise of a sum of two counts
_AS_IF = 100  # rows, where their number is private and the method is to be chosen


@dataclass(frozen=True)
class Differences:
    """A noisy sum of signed ranks W, or of signs, and what else was released.

    Attributes
    ----------
    values, scales : tuple of float
        W, or W/(n + 1) where the number of rows is private, or the sum of signs; and the rows with a value. Where
        the number of rows is private, of signs how many are above 0, and how many below. And the scales of noise.
    ranks : bool
        Whether it is of ranks.
    n : int or None
        Number of rows, None where it is private.
    gaps : bool
        Whether some of them may be left out.
    """

    values: tuple[float, ...]
    scales: tuple[float, ...]
    ranks: bool
    n: int | None
    gaps: bool

    @property
    def counted(self) -> bool:
        """Whether there are the numbers of both signs."""
        return self.n is None and not self.ranks

    @property
    def rows(self) -> float:
        """Rows with a value."""
        if self.counted:
            return sum(self.values)
        return float(self.n) if self.n is not None and not self.gaps else self.values[1]

    @property
    def missing(self) -> tuple[float, float] | None:
        """Noisy number of rows without a value, and its standard error; None if it was not measured."""
        return None if self.n is None or not self.gaps else (self.n - self.rows, 2**0.5 * self.scales[1])

    @property
    def statistic(self) -> float:
        """W, or the sum of signs."""
        if self.counted:
            return self.values[0] - self.values[1]
        return self.values[0] * self._unit(max(self.rows, _FEWEST))

    def _unit(self, rows: float) -> float:
        """Return what the sum was divided by."""
        return rows + 1 if self.ranks and self.n is None else 1.0

    def _law(self, rows: float) -> tuple[float, float]:
        """Return the largest sum of a number of rows, and its largest standard deviation if the median is 0."""
        if not self.ranks:
            return rows, rows**0.5
        return rows * (rows + 1) / 2, float(signed_rank_sd(rows))

    @property
    def effect(self) -> float:
        """P(d + d' > 0), or P(d > 0), half of ties."""
        most, _ = self._law(max(self.rows, _FEWEST))
        return float(np.clip(0.5 + self.statistic / most / 2, 0.0, 1.0))

    def pvalue(self, alternative: Alternative) -> float:
        """Return the p-value, by the law of as many rows as the noise in their number makes likely: it is wider."""
        noise = _TWO * self.scales[0] if self.counted else self.scales[1] if self.n is None or self.gaps else 0.0
        most = max(self.rows + SLACK * noise, _FEWEST)
        most = most if self.n is None else min(most, float(self.n))
        if not self.ranks:
            return sign_pvalue(self.statistic, most, self.scales[0], alternative, counts=self.counted)
        return float(pvalue(self.values[0], self._law(most)[1] / self._unit(most), self.scales[0], alternative))

    def power(self, rows: int, effect: float, alpha: float, alternative: Alternative) -> float:
        """Return how often an effect is found, of differences without ties.

        Parameters
        ----------
        rows : int
            Number of rows, where it is private.
        effect : float
            The truth.
        alpha, alternative
            The level, and its side.

        Returns
        -------
        float
            The power.
        """
        n, u = rows if self.n is None else self.n, points(2, TABLES)
        most, sd = (each / self._unit(n) for each in self._law(n))
        scale = self.scales[0] * (2**0.5 if self.counted else 1.0)
        released = 2 * (effect - 0.5) * most + sd * ndtri(u[0]) + quantile(NoiseLaw(scale), u[1])
        return float((pvalue(released, sd, scale, alternative) <= alpha).mean())


@mechanism(columns={"column": "numeric", "other": "numeric"})
def wilcoxon(
    curator: Curator,
    column: Column,
    other: Column | None = None,
    *,
    popmean: float = 0.0,
    method: Literal["auto", "rank", "sign"] = "auto",
    nan_policy: NanPolicy = "omit",
) -> Differences:
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
    without ties and zeros, the largest: conservative where there are many. A sum of signs with hardly any noise
    gets the binomial law. The engine of moments is not asked: away from the hypothesis the variance of signed ranks
    depends on the law of the differences, so that there is no interval.

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
    ranks = rank_or_sign(_AS_IF if n is None else n, curator.epsilon) if method == "auto" else method == "rank"
    noisy = curator.measure(SignedSum(column, other, popmean, gaps, n, ranks=ranks))
    return Differences(plain(noisy.values), plain(noisy.scales), ranks, n, bool(gaps))


@wilcoxon.concludes
def _(
    measured: Differences,
    column: Column,
    other: Column | None,
    *,
    popmean: float,
    nan_policy: NanPolicy,
    alternative: Alternative = "two-sided",
    alpha: Probability = 0.05,
) -> Wilcoxon:
    """Conclude from the noisy sum."""
    p, (missing, error) = measured.pvalue(alternative), measured.missing or (None, None)
    return Wilcoxon(
        statistic=measured.statistic,
        pvalue=p,
        alpha=alpha,
        rejected=p <= alpha,
        effect=measured.effect,
        method="rank" if measured.ranks else "sign",
        rows=max(measured.rows, 0.0),
        missing=missing,
        missing_standard_error=error,
        column=column.name,
        other=None if other is None else other.name,
        popmean=popmean,
        alternative=alternative,
        nan_policy=nan_policy,
        notes=(),
        released=measured.values,
        noise_standard_error=plain(np.sqrt(2) * np.array(measured.scales)),
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
