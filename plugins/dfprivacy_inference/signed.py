"""``view.wilcoxon``: a test of paired differences, or of one column, by signed ranks or signs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.special import bdtr, bdtrc, ndtri

from dfprivacy import ArgumentError, Column, ConfidenceInterval, Curator, NanPolicy, Probability, Range, mechanism
from dfprivacy.inference.counts import EVEN, NoisyCounts
from dfprivacy.inference.draws import DRAWS, noise, points, quantile
from dfprivacy.inference.engine import Alternative, Inference
from dfprivacy.inference.planning import TABLES, power
from dfprivacy.laws import NoiseLaw
from dfprivacy.made_up import assumed_sd
from dfprivacy.wording import number, uncertainty, with_unit
from dfprivacy_inference.asking import check_distinct_columns, checked_rows
from dfprivacy_inference.mcnemar import discordant_share
from dfprivacy_inference.ranks import LAST, SIDES, TestWithoutInterval, float_tuple, rank_planner
from dfprivacy_inference.statistics import SignedSum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Differences", "Wilcoxon", "sign_pvalue", "wilcoxon"]

_RANKS_FROM = 24.0  # rows times epsilon squared: from here on signed ranks find more than signs do
_ASSUMED_ROWS = 100  # rows, where their number is private and the method is to be chosen
_MIN_ROWS = 2.0
_ROUNDING = 0.01  # to how much a probability without an interval is written
_FEW_DRAWS = 256


@dataclass(frozen=True)
class Differences:
    """Noisy sum W of signed ranks or noisy sum of signs of differences, with the noisy number of rows.

    Attributes
    ----------
    values : ndarray of shape (..., 2)
        W, or W/(n + 1) where the number of rows is private, or the sum of signs; and the rows with a value. Where
        the number of rows is private, of signs how many are above 0, and how many below.
    scales : sequence of two float
        Of the Laplace noise in them.
    ranks : bool
        Whether it is of ranks.
    n : int or None
        Number of rows, None where it is private.
    gaps : bool
        Whether some of them may be left out.
    """

    values: Array
    scales: Sequence[float]
    ranks: bool
    n: int | None
    gaps: bool

    @property
    def laws(self) -> list[NoiseLaw]:
        """Distribution of the noise in each measured number; a number that was not measured has no noise."""
        told = self.n is None or self.gaps
        return [NoiseLaw(self.scales[0]), NoiseLaw(self.scales[1] * told)]

    @property
    def signs(self) -> NoisyCounts:
        """Noisy number of positive signs, and noisy number of all signs."""
        values, laws, n = self.values[..., None, :], self.laws, self.n
        if n is None:
            return NoisyCounts(values, laws)
        laws = [replace(law, scale=law.scale / 2) for law in laws]
        if self.gaps:
            return NoisyCounts(values / 2, laws, np.array([float(n)]), "halves")
        return NoisyCounts((values[..., :1] + n) / 2, laws[:1], np.array([float(n)]), "hits")

    def _rows_with_value(self, values: Array) -> Array:
        """Return the number of rows with a value, public or computed from the noisy numbers."""
        if not self.ranks:
            return np.asarray(self.signs.size[..., 0])
        if self.n is not None and not self.gaps:
            return np.full_like(values[0], self.n)
        return np.asarray(np.clip(values[1], _MIN_ROWS, self.n))

    @property
    def rows(self) -> float:
        """Number of rows with a value, public or noisy."""
        return float(self._rows_with_value(self.values))

    @property
    def statistic(self) -> float:
        """Noisy sum W of signed ranks, or the noisy sum of signs."""
        if not self.ranks and self.n is None:
            return float(self.values[0] - self.values[1])
        return float(self.values[0] * self._divisor(np.array(self.rows)))

    def _divisor(self, rows: Array) -> Array:
        """Return the number by which the measured sum was divided: 1, or n + 1 for signed ranks if n is private."""
        return rows + 1 if self.ranks and self.n is None else np.ones_like(rows)

    def effect(self, draws: int = DRAWS) -> Inference:
        """Infer P(d + d' > 0) + P(d + d' = 0)/2 for two rows' differences d, d', at the largest variance of W.

        Parameters
        ----------
        draws : int
            How many draws of the noise.

        Returns
        -------
        Inference
            Its p-value at 1/2 has the normal law of W, with a variance no lower than it is on average over draws.
        """
        drawn, weights = noise(self.laws, points(2, draws))
        released = np.moveaxis(self.values, -1, 0)[..., None]
        left = released - drawn.reshape(2, *[1] * (self.values.ndim - 1), draws)
        rows = self._rows_with_value(left)
        unit = self._divisor(rows)
        variance = rows * (rows + 1) * (2 * rows + 1) / 6 / unit**2
        variance = np.maximum(variance, (weights * variance).sum(axis=-1, keepdims=True))
        reach, known = rows * (rows + 1) / unit, self._rows_with_value(released)
        estimate = 0.5 + released[0] / known / (known + 1) * self._divisor(known)
        return Inference(estimate[..., 0], 0.5 + left[0] / reach, variance / reach**2, np.array(np.inf), weights)

    def power(self, rows: int, effect: float, alpha: float, alternative: Alternative) -> float:
        """Return the power of the test to detect an effect, for differences without ties.

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
        n = rows if self.n is None else self.n
        if not self.ranks:
            releases = self.signs.simulate([n], [effect], TABLES)
            return power(releases, discordant_share, null=EVEN, alternative=alternative, alpha=alpha)
        u = points(3, TABLES, seed=1)
        ranked = (effect - 0.5) * n * (n + 1) + np.sqrt(n * (n + 1) * (2 * n + 1) / 6) * ndtri(u[0])
        exact = np.stack([ranked / self._divisor(np.array(float(n))), np.full(TABLES, float(n))], axis=-1)
        added = [quantile(law, at) for law, at in zip(self.laws, u[1:], strict=True)]
        found = replace(self, values=exact + np.transpose(added)).effect(_FEW_DRAWS)
        return float((found.pvalue(0.5, alternative) <= alpha).mean())


@dataclass(frozen=True, kw_only=True, repr=False)
class Wilcoxon(TestWithoutInterval):
    """Result of a private signed-rank or sign test.

    Attributes
    ----------
    statistic : float
        The sum of signed ranks W, zeros ranked as well, or, with ``method="sign"``, of signs; with noise.
    pvalue : float
        Probability, if differences lie symmetrically about 0 (signs: if their median is 0), of a statistic at least
        as extreme; noise included.
    alpha : float
        The level of the test.
    rejected : bool
        Whether the null hypothesis is rejected at that level.
    effect : float
        Estimate of P(d + d' > 0), half of ties, for two differences; with signs, of P(d > 0).
    method : {"rank", "sign"}
        What was measured.
    rows : float
        Rows with a value; noisy where their number is private.
    missing, missing_standard_error
        As for ``RankTest``.
    column, other, popmean, alternative, nan_policy
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers.
    released : tuple of float
        The noisy numbers that all this follows from.
    noise_standard_error : tuple of float
        The standard errors that privacy adds to each of them.
    """

    statistic: float
    effect: float
    method: Literal["rank", "sign"]
    rows: float
    other: str | None
    popmean: float
    alternative: Alternative

    _row_counts = ("rows",)
    _shown = ("statistic", "pvalue", "alpha", "rejected", "effect", "method", "rows", *LAST)

    def _sentence(self) -> str:
        """Write a sentence on how often differences exceed the null value, and the result of the test."""
        apart = "" if self.other is None else f" less {self._label(self.other)}"
        two = "the mean of two values of " if self.method == "rank" else ""
        found = "" if self.rejected else "not "
        against = with_unit(f"{self.popmean:g}", self._unit(self.column))
        cases = "pairs of rows" if self.method == "rank" else "rows"
        share = (
            f"In {number(100 * self.effect, 100 * _ROUNDING)}% of {cases} {two}{self._label(self.column)}{apart}"
        )
        shown = f"{found}shown to be {SIDES[self.alternative]} 50%{uncertainty(p=self.pvalue)}"
        return f"{share} is above {against}, {shown}; there is no interval."

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the effect and its test as a row of a tidy table."""
        what = self.column if self.other is None else f"{self.column} - {self.other}"
        against = f" > {self.popmean:g}" if self.other is None or self.popmean else " > 0"
        tested = {"statistic": self.statistic, "pvalue": self.pvalue, "n": self.rows}
        return [{"term": f"P({what}{against})", "estimate": self.effect, **tested}]

    @property
    def _plotted_statistic(self) -> tuple[float, float, str]:
        apart = f" minus {self._with_units(self.other)}" if self.other is not None else ""
        two = "the mean of two of " if self.method == "rank" else ""
        return self.effect, 0.0, f"P({two}{self._with_units(self.column)}{apart} > {self.popmean:g})"

    def confidence_interval(self) -> ConfidenceInterval:
        """Raise an error: the effect of signed ranks has no known confidence interval.

        Raises
        ------
        ArgumentError
            Always, with the reason.
        """
        raise ArgumentError(
            "There is no interval for the effect of signed ranks: the variance of their sum under the alternative "
            "depends on the law of the differences, and no bound for all laws is narrow enough.",
            "The effect is an estimate. ttest() has an interval for a mean, mannwhitneyu() one for two groups.",
        )


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
    """Test whether differences of two columns, or of a column and a number, are symmetric about 0.

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
    W/(n + 1) by 3/2 where the number of rows is private, and by 2 if a row changes there. One row moves a sum of
    signs by 2. The number of rows with a value comes with it for nothing, or for a thirtieth more noise if rows
    come and go. All else is post-processing.

    **Statistics.** The p-value of signed ranks is that of the normal law, on average over draws of the noise, with
    the variance that there is without ties and zeros, the largest: conservative where there are many. Signs get the
    binomial law, on average over the same. An interval for the effect of signed ranks does not follow: away from
    the hypothesis their variance depends on the law of the differences.

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
    n = checked_rows(curator.size)
    ranks = (n or _ASSUMED_ROWS) * curator.epsilon**2 >= _RANKS_FROM if method == "auto" else method == "rank"
    noisy = curator.measure(SignedSum(column, other, popmean, gaps, n, ranks=ranks))
    return Differences(noisy.values, float_tuple(noisy.scales), ranks, n, bool(gaps))


@wilcoxon.concludes
def conclude_wilcoxon(
    measured: Differences,
    column: Column,
    other: Column | None,
    *,
    popmean: float,
    nan_policy: NanPolicy,
    alternative: Alternative = "two-sided",
    alpha: Probability = 0.05,
) -> Wilcoxon:
    """Compute the result of the test from the noisy sum of signed ranks or of signs."""
    if measured.ranks:
        found = measured.effect()
        p, effect = float(found.pvalue(0.5, alternative)), float(found.estimate)
    else:
        p, effect = sign_pvalue(measured.signs, alternative), float(measured.signs.estimate.share[0, 0])
    told = measured.n is not None and measured.gaps
    return Wilcoxon(
        statistic=measured.statistic,
        pvalue=p,
        alpha=alpha,
        rejected=p <= alpha,
        effect=min(max(effect, 0.0), 1.0),
        method="rank" if measured.ranks else "sign",
        rows=max(measured.rows, 0.0),
        missing=(measured.n or 0) - measured.rows if told else None,
        missing_standard_error=measured.laws[1].standard_deviation if told else None,
        column=column.name,
        other=None if other is None else other.name,
        popmean=popmean,
        alternative=alternative,
        nan_policy=nan_policy,
        notes=(),
        released=float_tuple(measured.values),
        noise_standard_error=float_tuple(np.sqrt(2) * np.array(measured.scales)),
    )


def check_wilcoxon(column: Column, other: Column | None, *, popmean: float, **_: Any) -> None:
    """Check the arguments of `wilcoxon` before anything is charged."""
    low, high = column.low, column.high
    if other is not None:
        check_distinct_columns(column, other)
        low, high = low - other.high, high - other.low
    if not low <= popmean <= high:
        raise ArgumentError(
            f"popmean={popmean:g} lies outside the values that the bounds allow, {low:g} to {high:g}.",
            "Choose popmean= within this range, or declare wider bounds.",
        )


def sign_pvalue(signs: NoisyCounts, alternative: Alternative = "two-sided") -> float:
    """Return the p-value of the sign test, given noisy numbers of positive signs and of all signs.

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


def statistic_name_text(sums: Differences, _: float) -> str:
    """Return a phrase that names the test statistic: signed ranks or signs."""
    return ", by signed ranks" if sums.ranks else " of P(d > 0), by signs"


def draw_differences(
    rng: np.random.Generator,
    n: int,
    column: Column,
    other: Column | None,
    popmean: float,
    *,
    effect: float = 0.5,
    spread: Annotated[float, Range(1e-12, 1e300)] | None = None,
) -> dict[str, Any]:
    """Draw normal differences whose mean exceeds `popmean` by `effect` standard deviations."""
    d = popmean + assumed_sd(column, spread) * (effect + rng.normal(size=n))
    if other is None:
        return {column.name: d}
    base = np.full(n, np.clip(other.mid, column.low - popmean, column.high - popmean))
    return {column.name: base + d, other.name: base}


wilcoxon = (
    wilcoxon.checks(check_wilcoxon)
    .plans(rank_planner("P(d + d' > 0)", statistic_name_text))
    .assumes(draw_differences)
)
