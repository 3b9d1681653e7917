"""The test of many 2 x 2 tables at once: which of thousands of columns differ between two groups."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from dfprivacy import ArgumentError, NanPolicy, Probability, Range, Release, mechanism
from dfprivacy.plotting import axes, below, forest_height, ink, wrapped
from dfprivacy_chi2 import nulls
from dfprivacy_chi2.arguments import checked_rate, different, public_groups, two_categories
from dfprivacy_chi2.counts import Difference
from dfprivacy_chi2.omitted import Omitted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator

__all__ = ["Chi2Many", "chi2_many", "findings"]

Many = Literal["svt", "select"]
_DEVIATION = math.sqrt(2)  # of a Laplace variable of scale 1

SELECTION = Fraction(1, 2)
"""The part of the budget that selects; the rest tests what is selected."""


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
    pvalues : tuple of float
        ``"select"``: the p-value of each, not corrected for many tests.
    thresholds : tuple of float
        What the noisy absolute difference of each in `answered` had to exceed.
    tests : int
        Number of columns; each is tested at level `alpha` / `tests`.
    alpha : float
        Probability, at most, of any false rejection.
    method : {"svt", "select"}
        How it was tested.
    max_rejections : int
        Rejections that were paid for.
    noise_standard_error : tuple of float
        Standard deviation of the noise in a comparison, in units of the difference: of the threshold and of each
        difference (``"svt"``), or of each difference.
    sizes : tuple of int
        Rows in each group.
    by, groups, rate, nan_policy
        What was compared, what was known of the shares, and what became of rows without a value.
    notes : tuple of str
        What to know before trusting the numbers.
    """

    discoveries: tuple[str, ...]
    answered: tuple[str, ...]
    differences: tuple[float, ...]
    pvalues: tuple[float, ...]
    thresholds: tuple[float, ...]
    tests: int
    alpha: float
    method: Many
    max_rejections: int
    noise_standard_error: tuple[float, ...]
    sizes: tuple[int, ...]
    by: str
    groups: tuple[Any, ...]
    rate: Any
    nan_policy: NanPolicy
    notes: tuple[str, ...]

    @property
    def rejected(self) -> tuple[str, ...]:
        """The columns that differ; the old name warns."""
        warnings.warn(
            "Chi2Many.rejected is called discoveries now; the old name goes with the next release.",
            FutureWarning,
            stacklevel=2,
        )
        return self.discoveries

    @property
    def scales(self) -> tuple[float, ...]:
        """The scales of the Laplace noise; the old name warns."""
        warnings.warn(
            "Chi2Many.scales is called noise_standard_error now, which is √2 times as much; the old name goes with "
            "the next release.",
            FutureWarning,
            stacklevel=2,
        )
        return self._scales

    @property
    def _scales(self) -> tuple[float, ...]:
        return tuple(deviation / _DEVIATION for deviation in self.noise_standard_error)

    _shown = ("discoveries", "tests", "alpha", "method", "max_rejections", "sizes", "notes")

    def _rows(self) -> list[tuple[str, str]]:
        rows = super()._rows()
        return rows if self.discoveries else [("discoveries", "none"), *rows]

    def _tidy(self) -> list[dict[str, Any]]:
        """State what was tested, against what, and what was decided."""
        numbers = {"estimate": self.differences or None, "threshold": self.thresholds}
        decided = {"pvalue": self.pvalues or None, "rejected": [name in self.discoveries for name in self.answered]}
        return [{"term": self.answered, **numbers, **decided, "n": sum(self.sizes)}]

    def plot(self, ax: Any = None) -> Any:
        """Draw what each column that was tested had to exceed, and which did."""
        ax = axes(ax, height=forest_height(len(self.answered)))
        places = np.arange(len(self.answered))
        thresholds = np.array(self.thresholds)
        ax.plot(thresholds, places, "|", color="tab:red", ms=9, mew=2, label="threshold")
        if self.differences:
            ax.errorbar(
                self.differences,
                places,
                xerr=self.noise_standard_error[-1],
                fmt="o",
                color=ink(ax),
                label="noisy difference",
            )
        said = {True: ", discovered", False: ""}
        names = [f"{self._called(name)}{said[name in self.discoveries]}" for name in self.answered]
        what = f"absolute difference of shares by {self._called(self.by)}"
        ax.set(yticks=places, yticklabels=names, ylim=(len(places) - 0.4, -0.6), xlabel=wrapped(what, 48))
        ax.set(xlim=(0, None), title=f"{len(self.discoveries)} found")
        below(ax)
        return ax


@mechanism(columns={"xs": ["category"], "by": "category"})
def chi2_many(
    curator: Curator,
    xs: tuple[Column, ...],
    by: Column,
    *,
    method: Many = "svt",
    max_rejections: Annotated[int, Range(1)] = 1,
    alpha: Probability = 0.05,
    groups: Sequence[Any] | None = None,
    rate: Any = None,
    nan_policy: NanPolicy = "omit",
) -> Chi2Many:
    r"""Find the columns that differ between two groups, among thousands.

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
    max_rejections : int
        How many rejections to pay for. Columns that are not rejected cost nothing.
    alpha : float
        Family-wise error: the probability, at most, of any false rejection.
    groups : list or tuple of two categories, optional
        The groups to compare; default: the column's, if it has two.
    rate : float, tuple of two, or list, optional
        What is known from outside the data of the share of X = 1 in both groups together: a number or a range for
        all columns, or a list with a number or a range for each.
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: in each column, rows without a value are left out and not counted. How many are left is not
        released, so groups of unequal sizes are judged as if as few were left of the larger one as the smaller one
        has; ``"fill"``, which counts them as the first category, finds more there. ``"raise"``: refused, where all
        columns are public.

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
    sensitivity 1 in each column, also if rows without a value are left out. ``"svt"`` is the sparse vector
    technique [2]_: the noise of the thresholds is drawn once and :math:`\varepsilon_1 : \varepsilon_2 = 1 : (2
    s)^{2/3}` for s rejections. ``"select"`` takes s selections at ε/2s and s tests at ε/2s.

    **Statistics.** Each of K columns is tested at level α/K, noise included: under its null hypothesis
    :math:`P(f_k + \nu_k - \rho > t_k) = \alpha/K`. The union bound then holds whatever the dependence between the
    columns, because it needs nothing but each column's own law. The largest probability over all shares of X = 1,
    and over all rows that may be left out, is bounded, with a proof. The paper's algorithms [1]_ draw the
    threshold's noise again after each rejection, leave it out of the null law, and do not divide α.

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
    rates = _checked(xs, by, max_rejections, rate)
    kept, sizes = public_groups(curator, xs[0], by, groups)
    if nan_policy == "raise":
        curator.refuse_missing(*xs, by)
    smaller = min(sizes)
    level = alpha / len(xs)
    known = {
        "tests": len(xs),
        "alpha": alpha,
        "method": method,
        "max_rejections": max_rejections,
        "sizes": sizes,
        "by": by.name,
        "groups": kept,
        "rate": rate,
        "nan_policy": nan_policy,
    }
    fill = nan_policy != "omit"
    differences = Difference(xs, by, kept, sizes, fill=fill)
    if method == "svt":

        def thresholds(of_threshold: float, of_value: float) -> NDArray[np.float64]:
            return smaller * _critical(sizes, rates, level, of_threshold / smaller, of_value / smaller, fill=fill)

        above = curator.above_threshold(differences, thresholds, most=max_rejections)
        scales = (above.threshold_scale / smaller, above.value_scale / smaller)
        answered = [x.name for x in xs[: len(above.reached)]]
        required = _critical(sizes, rates, level, *scales, fill=fill)[: len(answered)]
        stopped = len(answered) < len(xs)
        return Chi2Many(
            **known,
            discoveries=tuple(name for name, hit in zip(answered, above.reached, strict=True) if hit),
            answered=tuple(answered),
            differences=(),
            pvalues=(),
            thresholds=tuple(map(float, required)),
            noise_standard_error=tuple(_DEVIATION * scale for scale in scales),
            notes=("stopped at the last rejection paid for: the columns after it were not tested",) * stopped,
        )
    best = [int(at) for at in curator.select(differences, top=max_rejections, share=SELECTION)]
    chosen = [xs[at] for at in best]
    measured = curator.measure(Difference(chosen, by, kept, sizes, fill=fill))
    values = [float(value) / smaller for value in measured.values]
    scale = float(measured.scales[0]) / smaller
    laws = [_null(sizes, rates[at], fill=fill) for at in best]
    pvalues = [law.pvalue(value, scale) for law, value in zip(laws, values, strict=True)]
    required = _critical(sizes, [rates[at] for at in best], level, scale, fill=fill)
    return Chi2Many(
        **known,
        discoveries=tuple(x.name for x, p in zip(chosen, pvalues, strict=True) if p <= level),
        answered=tuple(x.name for x in chosen),
        differences=tuple(values),
        pvalues=tuple(pvalues),
        thresholds=tuple(map(float, required)),
        noise_standard_error=(_DEVIATION * scale,),
        notes=(),
    )


def _checked(xs: tuple[Column, ...], by: Column, max_rejections: int, rate: Any) -> list[nulls.Rate]:
    """Check what is asked, and return what is known of each column's share."""
    if not xs:
        raise ArgumentError("There is no column to test.", "Name at least one: chi2_many(['a', 'b'], 'arm').")
    names = {x.name for x in xs}
    if len(names) < len(xs):
        raise ArgumentError("A column is named twice.", "Name each once.")
    for x in xs:
        two_categories(x)
        different(x, by)
    if max_rejections > len(xs):
        raise ArgumentError(
            f"max_rejections={max_rejections!r} of {len(xs)} columns cannot be paid for.", "Give 1 to all of them."
        )
    if not isinstance(rate, list):
        return [checked_rate(rate)] * len(xs)
    if len(rate) != len(xs):
        raise ArgumentError(
            f"rate= has {len(rate)} entries for {len(xs)} columns.",
            "Give one for each, or a number or a tuple (low, high) for all.",
        )
    return [checked_rate(one) for one in rate]


def _critical(
    sizes: tuple[int, ...], rates: Sequence[nulls.Rate], level: float, *scales: float, fill: bool
) -> NDArray[np.float64]:
    """Return the threshold of each column; columns of which the same is known share one."""
    of_rate = {rate: _null(sizes, rate, fill=fill).critical_value(level, *scales) for rate in dict.fromkeys(rates)}
    return np.array([of_rate[rate] for rate in rates])


def _null(sizes: tuple[int, ...], rate: nulls.Rate, *, fill: bool) -> nulls.Widest | Omitted:
    """Return the null hypothesis of a column: of all rows, or of any of them."""
    if fill:
        return nulls.difference(sizes[0], sizes[1], rate)
    return Omitted(min(sizes), nulls.nearest_half(rate))


def findings(
    curator: Curator,
    xs: tuple[Column, ...],
    by: Column,
    *,
    method: Many,
    max_rejections: int,
    alpha: float,
    groups: Sequence[Any] | None,
    rate: Any,
    nan_policy: NanPolicy,
) -> Mapping[str, Any]:
    """Say what the tests could find out, from public numbers only; for ``explain``."""
    rates = _checked(xs, by, max_rejections, rate)
    _, sizes = public_groups(curator, xs[0], by, groups)
    n1, n0 = sizes
    smaller = min(sizes)
    if method == "svt":
        first = curator.epsilon / (1 + (2 * max_rejections) ** (2 / 3))
        scales = [1 / (first * smaller), 2 * max_rejections / ((curator.epsilon - first) * smaller)]
    else:
        scales = [max_rejections / (curator.epsilon * float(1 - SELECTION) * smaller)]
    critical = float(_critical(sizes, rates[:1], alpha / len(xs), *scales, fill=nan_policy != "omit")[0])
    p = nulls.nearest_half(rates[0])

    def power(difference: float) -> float:
        low = min(max(p - difference / 2, 0.0), 1 - difference)
        return nulls.difference_law(n1, n0, low + difference, low).sf(critical, *scales)

    return {
        f"each of {len(xs)} columns is tested at level": alpha / len(xs),
        "smallest difference of shares found with probability 0.8, once tested": _smallest(power),
    }


def _smallest(power: Callable[[float], float]) -> float | str:
    low, high = 0.0, 1.0
    if power(high) < 0.8:  # noqa: PLR2004
        return "none: spend more"
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle) < 0.8 else (low, middle)  # noqa: PLR2004
    return high
