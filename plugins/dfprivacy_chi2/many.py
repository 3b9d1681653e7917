"""Simultaneous tests of many 2 x 2 tables: which of thousands of columns differ between two groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from scipy.special import chdtri

from dfprivacy import ArgumentError, NanPolicy, Probability, Range, Release, mechanism
from dfprivacy.inference.planning import smallest_effect
from dfprivacy.plotting import axes, forest_height, legend_below, text_color, wrap_label
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import check_different_columns, check_two_categories, checked_rate, public_groups
from dfprivacy_chi2.counts import Difference, Distance, UnitCircleNorm
from dfprivacy_chi2.laws import Law, binomial_law
from dfprivacy_chi2.tables import tight_sensitivity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator

__all__ = ["Chi2Many", "chi2_many"]

ManyMethod = Literal["svt", "select"]
Statistic = Literal["difference", "unitcircle"]
Score = Literal["statistic", "distance"]
DEVIATION = math.sqrt(2)
"""Standard deviation of a Laplace variable of scale 1."""
SELECTION = Fraction(1, 2)
"""The part of the budget that selects; the rest tests what is selected."""

_LEVEL_MIN = 1e-100  # of one test: smaller ones underflow in its critical value
_MAX_DISTANCE_ROWS = 1 << 22  # rows of the smaller group, up to which a distance is looked for


@dataclass(frozen=True, kw_only=True, repr=False)
class Chi2Many(Release):
    """Result of private tests of many columns.

    Attributes
    ----------
    discoveries : tuple of str
        The columns that differ between the groups, with a family-wise error of `alpha`.
    answered : tuple of str
        The columns that were tested, in order: those up to the last rejection allowed, or those selected.
    differences : tuple of float
        ``"select"``: the noisy absolute difference of shares of each column in `answered`; ``"svt"`` tells none.
    norms : tuple of float
        ``"select"`` by the unit circle: the noisy norm of each, in place of its difference.
    pvalues : tuple of float
        ``"select"``: the p-value of each, not corrected for many tests.
    thresholds : tuple of float
        What the noisy absolute difference, or the noisy norm, of each in `answered` had to exceed.
    tests : int
        Number of columns that may be tested; each is, at level `alpha` / `tests`.
    alpha : float
        Probability, at most, of any false rejection.
    method : {"svt", "select"}
        How it was tested.
    max_rejections : int
        Rejections that were paid for.
    noise_standard_error : tuple of float
        Standard deviation of the noise in a comparison, in units of the statistic: of the threshold and of each
        value (``"svt"``), or of each value.
    sizes : tuple of int
        Rows in each group.
    by, groups, rate, nan_policy
        What was compared, what was known of the shares, and what became of rows without a value.
    notes : tuple of str
        What to know before trusting the numbers.
    statistic : {"difference", "unitcircle"}
        What was compared with the threshold.
    score : {"statistic", "distance"}
        What ``"select"`` selected by.
    tau : float or None
        The value of chi² that the circle and the distance are about; None if there was neither.
    max_tests : int or None
        How many columns were to be tested at most.
    """

    discoveries: tuple[str, ...]
    answered: tuple[str, ...]
    differences: tuple[float, ...]
    pvalues: tuple[float, ...]
    thresholds: tuple[float, ...]
    tests: int
    alpha: float
    method: ManyMethod
    max_rejections: int
    noise_standard_error: tuple[float, ...]
    sizes: tuple[int, ...]
    by: str
    groups: tuple[Any, ...]
    rate: Any
    nan_policy: NanPolicy
    notes: tuple[str, ...]
    norms: tuple[float, ...] = ()
    statistic: Statistic = "difference"
    score: Score = "statistic"
    tau: float | None = None
    max_tests: int | None = None

    _shown = ("discoveries", "tests", "alpha", "method", "max_rejections", "sizes", "notes")

    def _rows(self) -> list[tuple[str, str]]:
        rows = super()._rows()
        return rows if self.discoveries else [("discoveries", "none"), *rows]

    def _sentence(self) -> str:
        """Write a sentence with the columns that differ between the groups."""
        of = " and ".join(f"{self._label(self.by)} = {group}" for group in self.groups)
        level = f"family-wise level {self.alpha:g}"
        if self.discoveries:
            differ = "differs" if len(self.discoveries) == 1 else "differ"
            return f"Of {self.tests} columns, {self._label(*self.discoveries)} {differ} between {of} ({level})."
        tested = f"{self._label(*self.answered)} {'selected and ' * (self.method == 'select')}tested"
        return f"None of {self.tests} columns is shown to differ between {of} ({tested}; {level})."

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the statistic, the threshold and the decision of each tested column as rows of a tidy table."""
        numbers = {"estimate": self.norms or self.differences or None, "threshold": self.thresholds}
        decided = {"pvalue": self.pvalues or None, "rejected": [name in self.discoveries for name in self.answered]}
        return [{"term": self.answered, **numbers, **decided, "n": sum(self.sizes)}]

    def plot(self, ax: Any = None) -> Any:
        """Draw the threshold of each tested column with its noisy statistic, and mark the discoveries."""
        ax = axes(ax, height=forest_height(len(self.answered)))
        places = np.arange(len(self.answered))
        ax.plot(self.thresholds, places, "|", color="tab:red", ms=9, mew=2, label="threshold")
        word = "norm" if self.statistic == "unitcircle" else "difference"
        if values := self.norms or self.differences:
            spread = self.noise_standard_error[-1]
            ax.errorbar(values, places, xerr=spread, fmt="o", color=text_color(ax), label=f"noisy {word}")
        endings = {True: ", discovered", False: ""}
        names = [f"{self._with_units(name)}{endings[name in self.discoveries]}" for name in self.answered]
        what = f"{'norm' if word == 'norm' else 'absolute difference of shares'} by {self._with_units(self.by)}"
        ax.set(yticks=places, yticklabels=names, ylim=(len(places) - 0.4, -0.6), xlabel=wrap_label(what, 48))
        ax.set(xlim=(0, None), title=f"{len(self.discoveries)} found")
        legend_below(ax)
        return ax


@dataclass(frozen=True)
class Comparison:
    """Comparison of the share of X = 1 of many columns between two public groups.

    Statistics are released, and compared with thresholds, in units of their sensitivity, `sensitivity`.

    Attributes
    ----------
    xs : tuple of Column
        The columns.
    rates : list of float, tuple or None
        What is known of the share of X = 1 in each.
    level : float
        Of each test.
    statistic : {"difference", "unitcircle"}
        The absolute difference of the shares of X = 1, or the norm of the unit circle mechanism.
    by, groups, sizes
        The column of the groups, the two, and their rows.
    fill : bool
        Whether rows without a value count as the first category; else they are left out.
    tau : float
        The value of chi² that a circle or a distance is about.
    """

    xs: tuple[Column, ...]
    rates: list[nulls.Rate]
    level: float
    statistic: Statistic
    by: Column
    groups: tuple[Any, ...]
    sizes: tuple[int, ...]
    fill: bool
    tau: float

    @cached_property
    def sensitivity(self) -> float:
        """Largest change of the statistic of a column if one row changes."""
        n1, n0 = self.sizes
        return 1 / min(n1, n0) if self.statistic == "difference" else tight_sensitivity(n1, n0, self.tau)

    def scaled_statistics(self, xs: Sequence[Column]) -> Difference | UnitCircleNorm:
        """Return the statistics of several columns, each divided by the sensitivity to one row."""
        if self.statistic == "difference":
            return Difference(xs, self.by, self.groups, self.sizes, fill=self.fill)
        return UnitCircleNorm(xs, self.by, self.groups, self.sizes, self.tau, self.sensitivity, fill=self.fill)

    def null_distribution(self, rate: nulls.Rate) -> nulls.CompositeNull | nulls.MissingRowsNull:
        """Return the null distribution of a column's statistic, given what is known of its share of X = 1."""
        n1, n0 = self.sizes
        if self.statistic == "difference":
            return nulls.MissingRowsNull(min(n1, n0), nulls.share_nearest_half(rate))
        return nulls.norm_null(n1, n0, self.tau, rate, complete=self.fill)

    def critical_values(self, rates: Sequence[nulls.Rate], *scales: float) -> NDArray[np.float64]:
        """Return the critical value of each column, given what is known of its share of X = 1."""
        of_rate = {
            rate: self.null_distribution(rate).critical_value(self.level, *scales) for rate in dict.fromkeys(rates)
        }
        return np.array([of_rate[rate] for rate in rates])

    def distribution(self, p1: float, p0: float) -> Law:
        """Return the distribution of the statistic if the shares of X = 1 in the groups are p1 and p0."""
        n1, n0 = self.sizes
        if self.statistic == "difference":
            return binomial_law(lambda c11, c10: np.abs(c11 / n1 - c10 / n0), n1, n0, p1, p0)
        return nulls.norm_law(n1, n0, self.tau, p1, p0)


class Measurement(NamedTuple):
    """Measurement for tests of many columns: indices of the tested columns, their results, and noise scales.

    By ``"svt"`` with whether each reached its threshold, by ``"select"`` with its noisy number.
    """

    question: Comparison
    places: Sequence[int]
    scales: tuple[float, ...]
    reached: Sequence[bool] = ()
    values: Sequence[float] = ()


@mechanism(columns={"xs": ["category"], "by": "category"})
def chi2_many(
    curator: Curator,
    xs: tuple[Column, ...],
    by: Column,
    *,
    method: ManyMethod = "svt",
    statistic: Statistic = "difference",
    score: Score = "statistic",
    max_rejections: Annotated[int, Range(1)] = 1,
    max_tests: Annotated[int, Range(1)] | None = None,
    tau: Annotated[float, Range(1e-6, 1e6)] | None = None,
    alpha: Probability = 0.05,
    groups: Sequence[Any] | None = None,
    rate: Any = None,
    nan_policy: NanPolicy = "omit",
) -> Measurement:
    r"""Find which of thousands of columns with two categories differ between two groups.

    All columns are counted in one pass over the table.

    Parameters
    ----------
    xs : list of str
        Private columns with two categories each; X = 1 is the second.
    by : str
        A public column with categories: the groups.
    method : {"svt", "select"}
        ``"svt"``: ask of one column after the other whether its difference exceeds its threshold, until
        `max_rejections` do. ``"select"``: select the `max_rejections` largest differences with half of the budget,
        and test them with the other; this also tells their size.
    statistic : {"difference", "unitcircle"}
        What is compared with a threshold. ``"difference"``: the absolute difference of the shares of X = 1, which
        finds more. ``"unitcircle"``: the norm of `chi2_unitcircle`, as in the reference's Algorithms 3 and 4.
    score : {"statistic", "distance"}
        What ``"select"`` selects by: the statistic, which finds more, or the signed distance, which is how many
        rows must change for chi² to cross `tau` (line 1 of Algorithm 4).
    max_rejections : int
        How many rejections to pay for: s₁. Columns that are not rejected cost nothing.
    max_tests : int, optional
        ``"svt"``: test the first so many columns at most, each at its part of `alpha`: s₂; default: all.
    tau : float, optional
        The value of chi² that circle and distance are about; default: its critical value at `alpha` over the number
        of tests. For the circle, the smaller, the more is found.
    alpha : float
        Family-wise error: the probability, at most, of any false rejection.
    groups : list or tuple of two categories, optional
        The groups to compare; default: the column's, if it has two.
    rate : float, tuple of two, or list, optional
        What is known from outside the data of the share of X = 1 in both groups together: a number or a range for
        all columns, or a list with a number or a range for each.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: in each column, rows without a value are left out and not counted. ``"fill"``: they count as the
        first category. ``"raise"``: refused, where all columns are public. The distance needs one of these two.
        Groups of unequal sizes are judged as if as few rows were left of the larger one as the smaller one has.

    Returns
    -------
    Chi2Many
        ``discoveries``, and what was tested.

    Raises
    ------
    ArgumentError
        If an argument cannot be used, or the group sizes are not public; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for tables that differ in the private columns of one row, all of them.
    The absolute difference of shares times the smaller group, :math:`f_k = |\delta_k| \min(N_1, N_0)`, has the
    sensitivity 1 in each column, also if rows without a value are left out; so have the norm of the circle, over
    that of `chi2_unitcircle`, which is the same for all columns, and the signed distance. ``"svt"`` is the sparse
    vector technique [2]_: the noise of the thresholds is drawn once and :math:`\varepsilon_1 : \varepsilon_2 = 1 :
    (2 s)^{2/3}` for s rejections. ``"select"`` takes s selections at ε/2s and s tests at ε/2s.

    **Statistics.** Each of K columns is tested at level α/K, noise included: under its null hypothesis
    :math:`P(f_k + \nu_k - \rho > t_k) = \alpha/K`. The union bound then holds whatever the dependence between the
    columns, because it needs nothing but each column's own law. The largest probability over all shares of X = 1,
    and over all rows that may be left out, is bounded, with a proof; for the circle it is the largest over a grid
    of shares. The paper's Algorithm 3 [1]_ draws the threshold's noise again after each rejection, leaves it out of
    the null law, and does not divide α.

    References
    ----------
    .. [1] K. Kakizaki, K. Fukuchi, J. Sakuma (2017). Differentially private chi-squared test by unit circle
       mechanism. ICML.
    .. [2] M. Lyu, D. Su, N. Li (2017). Understanding the sparse vector technique for differential privacy.
       VLDB.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> rng = np.random.default_rng(0)
    >>> df = pd.DataFrame(rng.random((4000, 50)) < 0.3, columns=[f"gene{k}" for k in range(50)])
    >>> df["arm"] = ["drug"] * 2000 + ["placebo"] * 2000
    >>> df.loc[df.arm == "drug", "gene7"] |= rng.random(2000) < 0.3
    >>> genes = [name for name in df if name != "arm"]
    >>> trial = dp.protect(df, "many-example", epsilon=2, ledger="memory:", public=["arm"],
    ...                    categories={**dict.fromkeys(genes, [False, True]), "arm": ["drug", "placebo"]})
    >>> trial.chi2_many(genes, "arm", epsilon=1).discoveries
    ('gene7',)
    """
    question = _checked_comparison(curator, xs, by, statistic, max_tests, tau, alpha, groups, rate, nan_policy)
    if nan_policy == "raise":
        curator.refuse_missing(*xs, by)
    unit = question.sensitivity
    if method == "svt":  # Algorithm 3: one column after the other

        def thresholds(*units: float) -> NDArray[np.float64]:
            return question.critical_values(question.rates, *(scale * unit for scale in units)) / unit

        above = curator.above_threshold(question.scaled_statistics(question.xs), thresholds, most=max_rejections)
        scales = above.threshold_scale * unit, above.value_scale * unit
        return Measurement(question, range(len(above.reached)), scales, reached=above.reached.tolist())
    numbers: Difference | UnitCircleNorm | Distance = question.scaled_statistics(xs)  # Algorithm 4
    if score == "distance":
        numbers = Distance(xs, by, question.groups, _check_group_sizes(question.sizes), question.tau)
    best = [int(at) for at in curator.select(numbers, top=max_rejections, share=SELECTION)]
    tested = question.scaled_statistics([xs[at] for at in best])
    noisy = curator.measure(tested)
    scale = float(np.max(noisy.scales * tested.weights)) * unit
    return Measurement(question, best, (scale,), values=(noisy.values * tested.weights * unit).tolist())


@chi2_many.concludes
def conclude_chi2_many(
    measured: Measurement,
    *,
    method: ManyMethod,
    statistic: Statistic,
    score: Score,
    max_rejections: int,
    max_tests: int | None,
    alpha: float,
    rate: Any,
    nan_policy: NanPolicy,
) -> Chi2Many:
    """Decide from the measurement which columns differ between the groups."""
    question, places, scales, reached, values = measured
    rates, answered = [question.rates[at] for at in places], tuple(question.xs[at].name for at in places)
    known = zip(rates, values, strict=bool(values))
    pvalues = tuple(question.null_distribution(rate).pvalue(value, *scales) for rate, value in known)
    hits = reached or [p <= question.level for p in pvalues]
    stopped = method == "svt" and len(places) < len(question.xs)
    circle = statistic == "unitcircle"
    return Chi2Many(
        discoveries=tuple(name for name, hit in zip(answered, hits, strict=True) if hit),
        answered=answered,
        differences=() if circle else tuple(values),
        norms=tuple(values) if circle else (),
        pvalues=pvalues,
        thresholds=tuple(question.critical_values(rates, *scales).tolist()),
        tests=len(question.xs),
        alpha=alpha,
        method=method,
        max_rejections=max_rejections,
        noise_standard_error=tuple(DEVIATION * scale for scale in scales),
        sizes=question.sizes,
        by=question.by.name,
        groups=question.groups,
        rate=rate,
        nan_policy=nan_policy,
        notes=("the budget allows max_rejections= rejections; after the last one, no further column was tested",)
        * stopped,
        statistic=statistic,
        score=score,
        tau=question.tau if circle or score == "distance" else None,
        max_tests=max_tests,
    )


def _checked_comparison(
    curator: Curator,
    xs: tuple[Column, ...],
    by: Column,
    statistic: Statistic,
    max_tests: int | None,
    tau: float | None,
    alpha: float,
    groups: Sequence[Any] | None,
    rate: Any,
    nan_policy: NanPolicy,
    **_: Any,
) -> Comparison:
    """Return the comparison of the columns; raise an error if group sizes are private or the level is too small."""
    kept, sizes = public_groups(curator, xs[0], by, groups)
    rates = [checked_rate(one) for one in (rate if isinstance(rate, list) else [rate] * len(xs))]
    xs = xs[:max_tests]
    level = alpha / len(xs)
    if level < _LEVEL_MIN:
        raise ArgumentError(
            f"alpha={alpha:g} leaves a level of {level:g} for each of {len(xs)} columns, which is too small.",
            "Use fewer columns, or a larger alpha=, such as 0.05.",
        )
    tau = float(chdtri(1, level)) if tau is None else tau
    return Comparison(xs, rates[:max_tests], level, statistic, by, kept, sizes, nan_policy != "omit", tau)


def _check_group_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the group sizes; raise an error if they are too large for computing distances."""
    if min(sizes) > _MAX_DISTANCE_ROWS:
        raise ArgumentError(
            f'score="distance" needs at most {_MAX_DISTANCE_ROWS:,} rows in the smaller group, '
            f"which has {min(sizes):,}.",
            'Use score="statistic".',
        )
    return sizes


def check_chi2_many(
    xs: tuple[Column, ...],
    by: Column,
    *,
    method: ManyMethod,
    statistic: Statistic,
    score: Score,
    max_rejections: int,
    max_tests: int | None,
    tau: float | None,
    rate: Any,
    nan_policy: NanPolicy,
    **_: Any,
) -> None:
    """Check the arguments of `chi2_many` before anything is charged."""
    distance, rates = score == "distance", rate if isinstance(rate, list) else [rate] * len(xs)
    least = f"max_rejections={max_rejections} exceeds max_tests={max_tests}."
    for wrong, what, instead in (
        (not xs, "There is no column to test.", "Name at least one column: chi2_many(['a', 'b'], 'arm')."),
        (len({x.name for x in xs}) < len(xs), "A column is named twice.", "Name every column once."),
        (
            max_rejections > len(xs),
            f"max_rejections={max_rejections!r} exceeds the number of columns, {len(xs)}.",
            "Use a number from 1 to the number of columns.",
        ),
        (
            len(rates) != len(xs),
            f"rate= has {len(rates)} entries for {len(xs)} columns.",
            "Give a list with an entry for each column, or a number or a tuple (low, high) for all columns.",
        ),
        (
            method == "svt" and distance,
            'score= is an option of method="select".',
            'Use method="select", or omit score=.',
        ),
        (
            method == "select" and max_tests is not None,
            'max_tests= is an option of method="svt"; method="select" compares all columns.',
            "Omit max_tests=, or name fewer columns.",
        ),
        (max_rejections > (max_tests or max_rejections), least, "Increase max_tests=."),
        (
            statistic == "difference" and not distance and tau is not None,
            'tau= is an option of statistic="unitcircle" and of score="distance".',
            "Omit tau=.",
        ),
        (
            distance and nan_policy == "omit",
            "score='distance' needs public sizes, but the number of rows with missing values is private.",
            'Use nan_policy="fill", which counts them as the first category, or score="statistic".',
        ),
    ):
        if wrong:
            raise ArgumentError(what, instead)
    for x, one in zip(xs, rates, strict=True):
        check_two_categories(x)
        check_different_columns(x, by)
        checked_rate(one)


def plan_chi2_many(curator: Curator, *, method: ManyMethod, max_rejections: int, **asked: Any) -> Mapping[str, Any]:
    """Return the smallest difference of shares that can be detected, for ``explain``, from public numbers."""
    question = _checked_comparison(curator, **asked)
    unit = question.sensitivity
    if method == "svt":
        first = curator.epsilon / (1 + (2 * max_rejections) ** (2 / 3))
        scales = [unit / first, 2 * max_rejections * unit / (curator.epsilon - first)]
    else:
        scales = [max_rejections * unit / (curator.epsilon * float(1 - SELECTION))]
    critical = float(question.critical_values(question.rates[:1], *scales)[0])
    p = nulls.share_nearest_half(question.rates[0])

    def power(difference: float) -> float:
        low = min(max(p - difference / 2, 0.0), 1 - difference)
        return question.distribution(low + difference, low).sf(critical, *scales)

    none = "none: spend more"
    return {
        f"each of {len(question.xs)} columns is tested at level": question.level,
        **smallest_effect("difference of shares", power, 1.0, given=", once tested", write=float, none=none),
    }


chi2_many = chi2_many.checks(check_chi2_many).plans(plan_chi2_many)
