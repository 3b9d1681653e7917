"""``view.proportions``: estimate the frequency of an outcome in groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import (
    ArgumentError,
    Column,
    ConfidenceInterval,
    Curator,
    NanPolicy,
    Probability,
    Release,
    features,
    mechanism,
)
from dfprivacy.estimates import measure_weighted
from dfprivacy.features import RowFeatures
from dfprivacy.inference.counts import (
    Form,
    NoisyCounts,
    arcsine_share,
    difference,
    odds_ratio,
    ratio,
    share_of_angle,
)
from dfprivacy.inference.engine import infer
from dfprivacy.inference.planning import FEW, FOUND, effect_for, expected_errors, power
from dfprivacy.inference.weighted import NoisyWeighted
from dfprivacy.laws import NoiseLaw
from dfprivacy.made_up import equal_weights, rows_with_shares
from dfprivacy.plotting import forest
from dfprivacy.schema import chosen_groups
from dfprivacy.wording import list_text, noise_share, number, rows_phrase, uncertainty
from dfprivacy_inference.asking import assumed_rows, check_distinct_columns, public_sizes
from dfprivacy_inference.weighted import EffectiveCounts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfprivacy.features.base import Norm
    from dfprivacy.inference.counts import Counts

__all__ = ["Outcome", "Proportions", "proportions"]

_MAX_LISTED = 3  # groups in a sentence
_MIN_SHARE = 1e-9  # of a share: a ratio stays finite
_ROOT_HALF = 0.7071067811865477  # rounded up
_DRAWS = 512  # of comparisons, which of 30 groups are 1,305; with twice as many they cover the same


def _half_norm(norm: Norm) -> float:
    """Return the norm of the vector (1/2, 1/2)."""
    if norm == 1:
        return 1.0
    return 0.5 if norm == math.inf else _ROOT_HALF


class Outcome(RowFeatures):
    """Features of a row: indicators that it has the category `success`, and that it has any category.

    Parameters
    ----------
    column : Column
        A column with categories.
    code : int
        The category.
    form : {"hits", "counts", "halves"}
        ``"hits"``: 1 for a row of it. ``"counts"``: (1, 0) for a row of it, (0, 1) for one of another.
        ``"halves"``: (1/2, 1/2) and (-1/2, 1/2). Zeros for a row of none.

    Notes
    -----
    The radius is 1 in L1. Two rows are 2 apart in L1 by counts, and 1 by hits or halves, where a row of no category
    is 1 away from any.
    """

    description = "indicators of success in {columns}"

    def __init__(self, column: Column, code: int, form: Form) -> None:
        self.columns, self.code, self.form = (column,), code, form
        self.shape = (1,) if form == "hits" else (2,)

    def rows(self, batch: Any) -> NDArray[np.float64]:
        """Return the feature vector of each row of a batch."""
        (column,) = self.columns
        codes = batch.codes(column)
        hit = (codes == self.code).astype(np.float64)
        there = (codes < len(column.categories or ())).astype(np.float64)
        if self.form == "hits":
            return np.asarray(hit[:, None])
        return np.column_stack([hit, there - hit] if self.form == "counts" else [hit - there / 2, there / 2])

    def radius(self, norm: Norm) -> float:
        """Return the largest norm of a row's feature vector."""
        if self.form != "halves":
            return 1.0
        return _half_norm(norm)

    def diameter(self, norm: Norm, public: frozenset[str]) -> float:
        """Return the largest distance between the feature vectors of two rows."""
        if self.columns[0].name in public:
            return 0.0
        if self.form == "counts":
            return 2 * _half_norm(norm)
        return 1.0


@dataclass(frozen=True, kw_only=True, repr=False)
class Proportions(Release):
    """Share of rows with an outcome in each group, with confidence intervals and comparisons of groups.

    Attributes
    ----------
    groups : tuple
        The groups; empty if there are none.
    shares, lows, highs : tuple of float
        The share in each group, and the ends of its confidence interval, noise included.
    confidence : float
        Coverage of each interval.
    comparisons : tuple of tuples
        For each pair of groups: first, second, then difference of shares, risk ratio and odds ratio, each with the
        ends of its interval.
    sizes : tuple of float
        Rows with a value in each group; noisy where they are private.
    missing, missing_standard_error : float or None
        Noisy number of rows of public groups, or of a public table, that have no value, and its standard error from
        noise; None where it is not known.
    column, success, by, nan_policy
        What was asked.
    weights : str or None
        The column of sampling weights; shares are then those of the population that they stand for, and sizes the
        effective numbers of rows: as many without weights would tell as much.
    notes : tuple of str
        What to know before trusting the numbers.
    released : tuple of tuples of float
        The noisy counts of each group.
    noise_standard_error : float
        The standard error that privacy adds to each of them.
    share_errors : tuple of float or None
        With weights, the standard error that privacy adds to each share.
    """

    groups: tuple[Any, ...]
    shares: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    confidence: float
    comparisons: tuple[tuple[Any, ...], ...]
    sizes: tuple[float, ...]
    missing: float | None
    missing_standard_error: float | None
    column: str
    success: Any
    by: str | None
    nan_policy: NanPolicy
    notes: tuple[str, ...]
    released: tuple[tuple[float, ...], ...]
    noise_standard_error: float
    weights: str | None = None
    share_errors: tuple[float, ...] | None = None
    covers: str | None = "population"

    _row_counts = ("sizes",)

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        two = ("difference", "risk_ratio", "odds_ratio") if len(self.groups) == 2 else ()  # noqa: PLR2004
        first = ("groups", "shares", "lows", "highs", "confidence", "sizes")
        return (*first, *two, "weights", "missing", "missing_standard_error", "notes")

    @property
    def difference(self) -> tuple[float, ConfidenceInterval]:
        """Share of the first group minus the share of the second group, with its interval."""
        return self._comparison(2)

    @property
    def risk_ratio(self) -> tuple[float, ConfidenceInterval]:
        """Share of the first group divided by the share of the second group, with its interval."""
        return self._comparison(5)

    @property
    def odds_ratio(self) -> tuple[float, ConfidenceInterval]:
        """Odds in the first group divided by the odds in the second group, with its interval."""
        return self._comparison(8)

    def _sentence(self) -> str:
        """Write a sentence with the share of each group or, for many groups, the smallest and the largest."""
        of = [f" for {self._label(self.by)} = {group}" for group in self.groups] if self.by is not None else [""]
        whose = rows_phrase(self.covers or "", self.weights)
        weighted = "" if self.weights is None else "weighted "
        start = f"The {weighted}share with {self._label(self.column)} = {self.success} is"
        if len(of) == 2:  # noqa: PLR2004
            value, (low, high) = self.difference
            shares = [
                number(self.shares[at], (self.highs[at] - self.lows[at]) / 4) + group for at, group in enumerate(of)
            ]
            how = uncertainty(low, high, self.confidence, whose=whose, noise=self._noise_share(0, 1))
            return f"{start} {list_text(shares)}: the difference is {number(value, (high - low) / 4)}{how}."
        order = sorted(range(len(of)), key=lambda at: self.shares[at])
        shown = sorted(range(len(of)) if len(of) <= _MAX_LISTED else {order[0], order[-1]})
        told = [
            number(self.shares[at], (self.highs[at] - self.lows[at]) / 4)
            + of[at]
            + uncertainty(
                self.lows[at],
                self.highs[at],
                self.confidence,
                whose=whose * (at == shown[-1]),
                noise=self._noise_share(at),
            )
            for at in shown
        ]
        least = f", where it is smallest and largest of {len(of)} groups," if len(shown) < len(of) else ""
        return f"{start}{least} {list_text(told)}."

    def _rows(self) -> list[tuple[str, str]]:
        """Return the facts, with the intervals of comparisons, and the meaning of sizes with weights."""
        rows = dict(super()._rows())
        for name in ("difference", "risk_ratio", "odds_ratio"):
            if name in rows:
                value, (low, high) = getattr(self, name)
                rows[name] = f"{number(value, (high - low) / 4)}{uncertainty(low, high, self.confidence, whose='')}"
        if self.weights is not None:
            rows["weights"] = f"{self.weights}; rows without a weight are omitted; sizes are effective sample sizes"
        return list(rows.items())

    def _noise_share(self, *groups: int) -> float | None:
        """Return the fraction of the width of a confidence interval, of a share or a difference, due to noise."""
        if any(self.sizes[at] < 1 for at in groups):
            return None
        parts = [math.sqrt(self.shares[at] * (1 - self.shares[at]) / self.sizes[at]) for at in groups]
        noises = self.share_errors or [self.noise_standard_error / max(size, 1) for size in self.sizes]
        sampling, noise = math.hypot(*parts), math.hypot(*(noises[at] for at in groups))
        return noise_share(math.hypot(sampling, noise), sampling)

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the share of each group and the comparisons of all pairs of groups as rows of a tidy table."""
        names = [*map(str, self.groups)] or [f"{self.column} = {self.success}"]
        compared = [
            {"term": f"{what}: {a} {sign} {b}", "estimate": value, "low": low, "high": high}
            for a, b, *numbers in self.comparisons
            for at, (what, sign) in enumerate((("difference", "-"), ("risk ratio", "/"), ("odds ratio", "/")))
            for value, low, high in [numbers[3 * at : 3 * at + 3]]
        ]
        shares = {"term": names, "estimate": self.shares, "low": self.lows, "high": self.highs, "n": self.sizes}
        return [shares, *compared]

    def _comparison(self, at: int) -> tuple[float, ConfidenceInterval]:
        if not self.comparisons:
            raise ArgumentError(
                "There is only one share, so there is no comparison.", "Name a column of groups with by=."
            )
        value, low, high = self.comparisons[0][at : at + 3]
        return value, ConfidenceInterval(low, high)

    def compared(self) -> Any:
        """Compare the shares of all pairs of groups.

        Returns
        -------
        DataFrame or Table
            Of the library whose table was asked: difference, risk ratio and odds ratio, with their intervals.
        """
        parts = [
            f"{what}{end}" for what in ("difference", "risk_ratio", "odds_ratio") for end in ("", "_low", "_high")
        ]
        columns = zip(*self.comparisons, strict=True)
        return self._table(dict(zip(["A", "B", *parts], map(list, columns), strict=True)))

    def plot(self, ax: Any = None) -> Any:
        """Draw the shares and their intervals: a forest plot."""
        names = zip(self.groups or ("all",), self.sizes, strict=True)
        shares = [*zip(self.shares, self.lows, self.highs, strict=True)]
        parts, what = (
            [*map(self._noise_share, range(len(shares)))],
            f"share with {self._with_units(self.column)} = {self.success}",
        )
        labels = [f"{name} (n≈{size:.0f})" for name, size in names]
        ax = forest(labels, shares, what, ax, noise=parts, confidence=self.confidence)
        ax.set_ylabel("" if self.by is None else self._with_units(self.by))
        return ax


@mechanism(columns={"column": "category", "by": "category", "weights": "numeric"})
def proportions(
    curator: Curator,
    column: Column,
    by: Column | None = None,
    *,
    success: Any,
    groups: Sequence[Any] | None = None,
    weights: Column | None = None,
    nan_policy: NanPolicy = "omit",
) -> NoisyCounts | NoisyWeighted:
    """Estimate the frequency of an outcome in groups, with differences, risk ratios and odds ratios.

    Parameters
    ----------
    column : str
        A column with categories.
    by : str, optional
        Another one: the groups.
    success : category
        The category of `column` whose share is asked for.
    groups : list or tuple of categories, optional
        The groups to compare; default: all.
    weights : str, optional
        A column of sampling weights, with bounds from 0 or above: shares are those of the population that they
        stand for. Weights count as clipped to their bounds; rows without one are left out (docs/howto/weights.md).
    nan_policy : {"omit", "fill", "raise"}
        ``"omit"``: a row in which `column` is missing does not count. ``"fill"``: it counts where the column has
        the category ``"other"`` for it, and nowhere else. ``"raise"``: it is refused, where `column` is public.
    confidence : float
        Coverage of each interval.

    Returns
    -------
    Proportions
        All from one release. Whether the groups differ, with a p-value, asks ``chi2``.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation. In each group the rows with
    the outcome and those without it are counted, with noise of the scale 2/ε, or 1/ε where rows come and go, or
    where the groups are public: then half of their difference, and half of their sum if values may be missing. All
    else is post-processing. With weights, v being a weight over its upper bound, the sums of v and of v² of the
    rows with the outcome and of those without it are released with noise of the cube, of sensitivity 1, or Laplace
    noise of sensitivity 3, or 3/2 if rows come and go; before, with a thirty-second of ε, the weights beyond their
    bounds and the rows are counted.

    **Statistics.** What the exact counts may be is drawn from what was released; sampling is added by the normal
    law: of the angle of a share [1]_, of a difference with a row of each kind added to both groups [2]_, of
    logarithms of ratios with half a row added to each count. Measured, intervals of 95% cover on average 95% to 96%
    of shares, differences and ratios, and at least 92.6%, of groups of 50 to 5,000 rows with shares from .005 to
    .95, at ε from .1 to 2. With weights these are intervals of as many rows as would tell the weighted share with
    its design-based variance (with replacement) [3]_.

    References
    ----------
    .. [1] Anscombe (1948). The transformation of Poisson, binomial and negative-binomial data. Biometrika 35.
    .. [2] Agresti and Caffo (2000). Simple and effective confidence intervals for proportions and differences of
       proportions result from adding two successes and two failures. American Statistician 54.
    .. [3] Korn and Graubard (1998). Confidence intervals for proportions with small expected number of positive
       counts estimated from survey data. Survey Methodology 24.

    Examples
    --------
    >>> import pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"ill": (["yes"] + ["no"] * 4) * 400 + (["yes"] + ["no"] * 9) * 200,
    ...                    "smoker": ["yes"] * 2000 + ["no"] * 2000})
    >>> view = dp.protect(df, "proportions-example", epsilon=1, ledger="memory:",
    ...                   categories={"ill": ["no", "yes"], "smoker": ["yes", "no"]})
    >>> found = view.proportions("ill", by="smoker", success="yes", epsilon=1)
    >>> found.lows[0] > found.highs[1]
    True
    """
    code = column.code(success)
    kept = chosen_groups(by, groups, least=1, most=None)
    if weights is not None:
        if nan_policy == "raise":
            curator.refuse_missing(column)
        outcome, keys = Outcome(column, code, "counts"), [] if by is None else [by]
        return measure_weighted(curator, weights, outcome, by=keys, groups=kept or None, crossed=False)
    gaps = bool(curator.gaps([column], "omit" if nan_policy == "fill" else nan_policy))
    form: Form
    if by is None:
        size = curator.size
        alone = None if size is None else (size,)
        form = "halves" if alone is None or gaps else "hits"
        return NoisyCounts.from_sums(curator.sum(Outcome(column, code, form)), alone, form)
    rows = public_sizes(curator, by, kept)
    form = "counts" if rows is None else "halves" if gaps else "hits"
    noisy = curator.sum(features.OneHot(by, groups=kept) * Outcome(column, code, form))
    return NoisyCounts.from_sums(noisy, rows, form)


@proportions.concludes
def conclude_proportions(
    measured: NoisyCounts | NoisyWeighted,
    column: Column,
    by: Column | None,
    *,
    success: Any,
    groups: Sequence[Any] | None,
    nan_policy: NanPolicy,
    confidence: Probability = 0.95,
) -> Proportions:
    """Compute the shares of groups, and their comparisons, from the noisy counts."""
    kept = chosen_groups(by, groups, least=1, most=None)
    counts = EffectiveCounts(measured) if isinstance(measured, NoisyWeighted) else measured
    plain = counts.estimate
    lows, highs = map(share_of_angle, infer(counts, arcsine_share).interval(confidence))
    missing = error = None
    limits: tuple[str, ...] = ()
    about: dict[str, Any] = {}
    if isinstance(counts, EffectiveCounts):
        sizes, errors = plain.n[:, 0], tuple(counts.share_error.tolist())
        about, limits = {"weights": counts.sums.weights, "share_errors": errors}, counts.sums.limits
    else:
        sizes = np.maximum(counts.size, 0.0)
        if counts.rows is not None and counts.form == "halves":
            missing = float((counts.rows - counts.size).sum())
            error = 2 * math.sqrt(len(counts.size)) * counts.laws[1].standard_deviation
    wide = "Uninformative: an interval is wider than 0.5, half of the possible range. Use more epsilon or rows."
    return Proportions(
        groups=kept,
        shares=tuple(plain.share[:, 0].tolist()),
        lows=tuple(np.minimum(lows, plain.share[:, 0]).tolist()),
        highs=tuple(np.maximum(highs, plain.share[:, 0]).tolist()),
        confidence=confidence,
        comparisons=_comparisons(kept, counts, confidence),
        sizes=tuple(sizes.tolist()),
        missing=missing,
        missing_standard_error=error,
        column=column.name,
        success=(column.categories or ())[column.code(success)],
        by=None if by is None else by.name,
        nan_policy=nan_policy,
        notes=(*limits, *([wide] if np.any(highs - lows > 1 / 2) else [])),
        released=tuple(map(tuple, measured.values.tolist())),
        noise_standard_error=measured.laws[0].standard_deviation,
        **about,
    )


def _comparisons(
    groups: tuple[Any, ...], counts: NoisyCounts | EffectiveCounts, confidence: float
) -> tuple[tuple[Any, ...], ...]:
    """Return the comparisons of all pairs of groups: difference, risk ratio and odds ratio, with intervals."""
    pairs = list(itertools.combinations(range(len(groups)), 2))
    if not pairs:
        return ()
    first, second = np.transpose(pairs)
    shares = np.clip(counts.estimate.share[:, 0], _MIN_SHARE, 1 - _MIN_SHARE)
    p, q = shares[first], shares[second]

    def interval_of(parameter: Callable[[Counts, Counts], Any]) -> tuple[Any, Any]:
        return infer(counts, lambda exact: parameter(exact[first], exact[second]), _DRAWS).interval(confidence)

    differences = (p - q, *interval_of(difference))
    ratios = (p / q, *map(np.exp, interval_of(ratio)))
    odds = (p / (1 - p) * (1 - q) / q, *map(np.exp, interval_of(odds_ratio)))
    rows = np.transpose([*differences, *ratios, *odds]).tolist()
    return tuple((groups[a], groups[b], *row) for (a, b), row in zip(pairs, rows, strict=True))


def check_proportions(
    column: Column, by: Column | None, *, success: Any, groups: Sequence[Any] | None, **_: Any
) -> None:
    """Check the arguments of `proportions` before anything is charged."""
    column.code(success)
    check_distinct_columns(column, by)
    chosen_groups(by, groups, least=1, most=None)


def read_counts(
    curator: Curator,
    release: Any,
    column: Column,
    by: Column | None,
    *,
    success: Any,
    groups: Sequence[Any] | None,
    weights: Column | None,
    **_: Any,
) -> tuple[float, NoisyCounts] | None:
    """Return the counts of an outcome from an earlier release of `value_counts` or `crosstab`, if they suit."""
    planned, columns = curator.planned, getattr(release, "columns", None) or (release.column,)
    if (
        {*columns} != {column.name, *([] if by is None else [by.name])}
        or not isinstance(planned, NoisyCounts)
        or release.released is None
        or {weights, release.weights} != {None}
    ):
        return None
    law = NoiseLaw(release.noise_scale, release.noise_step)
    raw, (outcomes, keys) = release.raw, (release.categories if by else (release.categories, ()))
    if by is not None and columns[0] == by.name:
        raw, outcomes, keys = raw.T, keys, outcomes
    at = outcomes.index((column.categories or ())[column.code(success)])
    kept = [keys.index(group) for group in chosen_groups(by, groups, least=1, most=None)] or [0]
    raw = np.reshape(raw, (len(outcomes), -1))[:, kept]
    if planned.form == "hits":
        counts = NoisyCounts(raw[[at]].T, [law], planned.rows, "hits")
    elif len(outcomes) == 2:  # noqa: PLR2004
        counts = NoisyCounts(raw[[at, 1 - at]].T, [law, law], planned.rows, "counts")
    else:  # the rest is a sum of noisy counts
        return None
    error = law.standard_deviation
    return (error, counts) if error <= planned.laws[0].standard_deviation else None


def plan_proportions(
    curator: Curator, *, by: Column | None, weights: Column | None, confidence: float, **_: Any
) -> dict[str, Any]:
    """Return the expected confidence intervals of shares near 1/2, where they are widest; for ``explain``."""
    if weights is not None:
        groups, (n, given) = len(curator.planned.values), assumed_rows(curator)
        planned = replace(
            curator.planned.expected_release([n / groups] * groups, weights.mid / weights.high, 1.0), rows=float(n)
        )
        counts = EffectiveCounts(planned)
        low, high = (float(share_of_angle(end)[0]) for end in infer(counts, arcsine_share).interval(confidence))
        alike = f"{given or ', if'}{' and' * bool(given)} weights are near {weights.mid:.3g}"
        return {
            f"confidence interval of a share of 0.5{alike}": f"{low:.3f} to {high:.3f}",
            "expected relative error": 2 * float(counts.share_error[0]),
        }
    sums, (n, given) = curator.planned, assumed_rows(curator)
    each = n / (1 if by is None else len(by.categories or ())) if sums.rows is None else float(sums.rows.min())

    def releases(distance: float) -> NoisyCounts:
        """Simulate releases of two groups whose shares differ by `distance`."""
        counts: NoisyCounts = sums.simulate([each, each], [0.5 + distance / 2, 0.5 - distance / 2], FEW)
        return counts

    def difference_of_two(exact: Counts) -> tuple[Any, Any, float]:
        return difference(exact[0], exact[1])

    def interval_of(parameter: Callable[[Counts], Any]) -> tuple[Any, Any]:
        return infer(releases(0.0), parameter, FEW).interval(confidence)

    low, high = (np.median(share_of_angle(end)) for end in interval_of(arcsine_share))
    noise, _error = expected_errors(
        releases(0.0), arcsine_share
    )  # of the angle, which near .5 moves as the share does
    findings: dict[str, Any] = {f"confidence interval of a share of 0.5{given}": f"{low:.3f} to {high:.3f}"}
    if len(sums.values) > 1:
        low, high = interval_of(difference_of_two)
        findings[f"confidence interval of a difference of shares near 0.5{given}"] = (
            f"± {float(np.median(high - low)) / 2:.3f}"
        )
        smallest = effect_for(
            FOUND, lambda distance: power(releases(distance), difference_of_two, alpha=1 - confidence), 1.0
        )
        excludes = f"smallest difference whose interval excludes 0 with probability {FOUND}{given}"
        findings[excludes] = f"{smallest:.3f}" if smallest < 1 else "none"
    return {**findings, "expected relative error": 2 * noise}


def draw_outcomes(
    rng: np.random.Generator,
    n: int,
    column: Column,
    by: Column | None,
    success: Any,
    groups: Sequence[Any] | None,
    weights: Column | None = None,
    *,
    effect: float = 0.1,
    share: Probability = 0.5,
    first: Probability | None = None,
) -> dict[str, Any]:
    """Draw outcomes that have probability `share`, and `share + effect` in the first group."""
    hit = (column.categories or ())[column.code(success)]
    return rows_with_shares(rng, n, column, hit, by, groups, effect, share, first) | equal_weights(n, weights)


def shares_differ(release: Proportions) -> bool:
    """Return whether the confidence interval of the difference of the first two shares excludes 0."""
    _, (low, high) = release.difference
    return low > 0 or high < 0


proportions = (
    proportions.checks(check_proportions)
    .plans(plan_proportions)
    .reads(read_counts, "value_counts", "crosstab")
    .assumes(draw_outcomes, shares_differ)
)
