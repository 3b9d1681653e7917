"""The result of a t-test or z-test, in the units of the column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import ConfidenceInterval, NanPolicy, Release
from dfprivacy.plotting import axes, below, ink
from dfprivacy.wording import clearly_some, limited, noise_share, number, sure
from dfprivacy_ttest.calibrated import Alternative, Method, Result, one_sample_t, one_sample_z, two_sample_t
from dfprivacy_ttest.group import SIZE, Array, Group, Real
from dfprivacy_ttest.notes import notes
from dfprivacy_ttest.separately import Queries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Question", "TTest"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is tested, in the column's units.

    Attributes
    ----------
    column, by, groups, popmean, sigma, equal_var, alternative, method, alpha, confidence, queries, nan_policy
        What was asked.
    bounds : tuple of float
        The column's bounds.
    """

    column: str
    bounds: tuple[float, float]
    by: str | None = None
    groups: tuple[Any, ...] | None = None
    popmean: float = 0.0
    sigma: float | None = None
    equal_var: bool = False
    alternative: Alternative
    method: Method = "conv"
    alpha: float
    confidence: float
    queries: Queries = "jointly"
    nan_policy: NanPolicy

    @property
    def half(self) -> float:
        """Half the width of the bounds, which is the unit of y."""
        return self.bounds[1] / 2 - self.bounds[0] / 2

    @property
    def mid(self) -> float:
        """Middle of the bounds, where y is 0."""
        return self.bounds[0] / 2 + self.bounds[1] / 2

    @property
    def origin(self) -> float:
        """What an estimate of 0 in units of y stands for: the middle, or no difference."""
        return self.mid if self.by is None else 0.0

    def test(self, measured: Sequence[Group]) -> Result:
        """Test in units of y.

        Parameters
        ----------
        measured : sequence of Group
            One, or two.

        Returns
        -------
        Result
            The test.
        """
        if self.by is not None:
            first, second = measured
            return two_sample_t(
                first, second, equal_variances=self.equal_var, method=self.method, alternative=self.alternative
            )
        (group,) = measured
        null = (self.popmean - self.mid) / self.half
        if self.sigma is not None:
            return one_sample_z(group, null, sd=self.sigma / self.half, alternative=self.alternative)
        return one_sample_t(group, null, method=self.method, alternative=self.alternative)

    def interval(self, result: Result, confidence: float) -> ConfidenceInterval:
        """Give a confidence interval in the column's units.

        Parameters
        ----------
        result : Result
            The test in units of y.
        confidence : float
            Coverage.

        Returns
        -------
        ConfidenceInterval
            The interval.
        """
        low, high = (float(end) * self.half + self.origin for end in result.interval(confidence))
        return ConfidenceInterval(low, high)

    def conclude(
        self, groups: Sequence[Group], missing: Array | None, missing_standard_error: Array | None
    ) -> list[TTest]:
        """Test, and return to the column's units.

        Parameters
        ----------
        groups : sequence of Group
            One or two, of arrays with a number for each test.
        missing, missing_standard_error : ndarray or None
            How many rows were left out of each test, and how sure that is.

        Returns
        -------
        list of TTest
            The results.
        """
        result = self.test(groups)
        low, high = result.interval(self.confidence)
        one_each = {
            "statistic": result.statistic,
            "pvalue": result.pvalue,
            "rejected": np.asarray(result.pvalue) <= self.alpha,
            "df": result.df,
            "estimate": np.asarray(result.estimate) * self.half + self.origin,
            "standard_error": np.asarray(result.standard_error) * self.half,
            "noise_standard_error": np.asarray(result.noise_standard_error) * self.half,
            "low": np.asarray(low) * self.half + self.origin,
            "high": np.asarray(high) * self.half + self.origin,
            "missing": missing,
            "missing_standard_error": missing_standard_error,
        }
        tests = np.size(groups[0].total)
        fields = zip(*(_listed(numbers, tests) for numbers in one_each.values()), strict=True)
        means = zip(*(_listed(group.mean * self.half + self.mid, tests) for group in groups), strict=True)
        released = zip(*(zip(*group.listed(tests), strict=True) for group in groups), strict=True)
        all_notes = notes(result, tests, self.alpha, known_sd=self.sigma is not None)
        arguments = vars(self)
        return [
            TTest(
                **arguments,
                **dict(zip(one_each, own, strict=True)),
                means=mean,
                sizes=tuple(numbers[SIZE] for numbers in sums),
                notes=note,
                released=sums,
            )
            for own, mean, note, sums in zip(fields, means, all_notes, released, strict=True)
        ]


def _listed(numbers: Real | NDArray[np.bool_] | None, tests: int) -> list[Any]:
    """Give a number for each test, or None for each."""
    return [None] * tests if numbers is None else np.broadcast_to(numbers, tests).tolist()


@dataclass(frozen=True, kw_only=True, repr=False)
class TTest(Release):
    """Result of a private t-test or z-test, in the units of the column.

    Attributes
    ----------
    statistic : float
        (estimate - null) / standard_error.
    pvalue : float
        Probability, if the null hypothesis is true, of a statistic at least as extreme; noise included.
    alpha : float
        The level of the test.
    rejected : bool
        Whether the null hypothesis is rejected at that level.
    df : float
        Degrees of freedom of the variance; infinity for z-tests.
    estimate : float
        The noisy mean, or the first mean minus the second.
    standard_error : float
        Standard error of the estimate, from sampling and noise together (``"naive"``: from sampling alone).
    noise_standard_error : float
        The standard error that privacy adds.
    means : tuple of float
        The noisy mean of each group.
    sizes : tuple of float
        Rows with a value in each group; noisy where their number is private.
    missing : float or None
        Noisy number of rows that were left out because their value is missing. None if nothing was left out, or
        if the number of rows is private: then what is measured of them does not tell it.
    missing_standard_error : float or None
        Standard error of `missing`, from noise alone.
    low, high : float
        Ends of the confidence interval.
    confidence : float
        Its coverage.
    column, by, groups, popmean, sigma, equal_var, alternative, method, queries, nan_policy
        What was asked.
    notes : tuple of str
        What to know before trusting the numbers; an uninformative answer says so here, and what would help.
    released : tuple of tuples of float
        What all this follows from: for each group the noisy sums of y and y² (y is the column mapped from its
        bounds to [-1, 1]), the rows, and the scales of the Laplace noise in the first, the second and the
        third alone, and in the last two alike.
    bounds : tuple of float
        The column's bounds.
    """

    statistic: float
    pvalue: float
    alpha: float
    rejected: bool
    df: float
    estimate: float
    standard_error: float
    noise_standard_error: float
    means: tuple[float, ...]
    sizes: tuple[float, ...]
    missing: float | None
    missing_standard_error: float | None
    low: float
    high: float
    confidence: float
    column: str
    by: str | None
    groups: tuple[Any, ...] | None
    popmean: float
    sigma: float | None
    equal_var: bool
    alternative: Alternative
    method: Method
    nan_policy: NanPolicy
    notes: tuple[str, ...]
    released: tuple[tuple[float, ...], ...]
    bounds: tuple[float, float]
    queries: Queries = "jointly"
    covers: str | None = "limited population"

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        missing = clearly_some(self.missing, self.missing_standard_error)
        return (
            *("statistic", "pvalue", "alpha", "rejected", "df", "estimate", "low", "high"),
            *("standard_error", "noise_standard_error", "means", "sizes"),
            *(("missing", "missing_standard_error") if missing else ()),
            "notes",
        )

    def _rows(self) -> list[tuple[str, str]]:
        """Say whose mean and size each is, where there are two."""
        rows = dict(super()._rows())
        if self.groups is None:
            del rows["means"]  # it is the estimate
        else:
            for name in ("means", "sizes"):
                each = (f"{g}: {x:.6g}" for g, x in zip(self.groups, getattr(self, name), strict=True))
                rows[name] = ", ".join(each)
        return list(rows.items())

    def _sentence(self) -> str:
        """Say the mean, or how far two means are apart, and what the test finds."""
        unit, error = self._unit(self.column), (self.high - self.low) / 4
        how = sure(self.low, self.high, self.confidence, unit=unit, noise=self._noise_part, p=self.pvalue)
        what = f"mean {self._noun(self.column)}{limited(self.covers, self.bounds)}"
        if self.groups is None or self.by is None:
            found = "" if self.rejected else "not "
            said = f"{number(self.estimate, error)} {unit}".rstrip()
            return f"The {what} is {said}, {found}shown to be {_SIDES[self.alternative]} {self.popmean:g}{how}."
        first, second = (f"{self._noun(self.by)} = {group}" for group in self.groups)
        apart = f"{number(abs(self.estimate), error)} {unit}".rstrip()
        if self.rejected:
            more = "lower" if self.estimate < 0 else "higher"
            return f"The {what} is {apart} {more} for {first} than for {second}{how}."
        told = f"{number(self.estimate, error)} {unit}".rstrip()
        side = _SIDES[self.alternative]
        return f"The {what} for {first} is not shown to be {side} that for {second}; the difference is {told}{how}."

    def _tidy(self) -> list[dict[str, Any]]:
        """State the mean, or the difference of means, and its test."""
        apart = "" if self.groups is None else f": {self.groups[0]} - {self.groups[1]}"
        names = ("estimate", "standard_error", "noise_standard_error", "low", "high", "statistic", "df", "pvalue")
        numbers = {name: getattr(self, name) for name in names}
        return [{"term": f"{self.column}{apart}", **numbers, "n": sum(self.sizes)}]

    @property
    def _noise_part(self) -> float | None:
        return None if self.method == "naive" else noise_share(self.standard_error, self._sampling)

    @property
    def _axis(self) -> str:
        """Say what the estimate is, in the words of the columns."""
        what = self._called(self.column)
        if self.groups is None or self.by is None:
            return what
        return f"{what}: {self._called(self.by)} {self.groups[0]} minus {self.groups[1]}"

    @property
    def _sampling(self) -> float:
        noise = 0.0 if self.method == "naive" else self.noise_standard_error
        return math.sqrt(max(0.0, self.standard_error**2 - noise**2))

    def confidence_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Interval for the mean, or for the difference of means.

        Parameters
        ----------
        confidence_level : float, optional
            Coverage; default: the one asked for. Any other costs nothing: it is computed from what is released.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``, in the column's units.
        """
        if confidence_level is None:
            return ConfidenceInterval(self.low, self.high)
        question = Question(**{name: getattr(self, name) for name in Question.__dataclass_fields__})
        return question.interval(question.test([Group(*numbers) for numbers in self.released]), confidence_level)

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate, its interval, and the part of the interval that privacy adds."""
        ax = axes(ax)
        low, high = self.bounds
        reach = (low, high) if self.by is None else (low - high, high - low)  # what an estimate can be at all
        ends = np.clip([self.low, self.high], *reach)
        sampling = self.standard_error
        if self.method != "naive":
            sampling = math.sqrt(max(0.0, sampling**2 - self.noise_standard_error**2))
            ax.plot(ends, [0, 0], color="tab:orange", lw=3, label=f"{self.confidence:.0%} interval, noise included")
        inner = self.estimate + (ends - self.estimate) * (sampling / self.standard_error)
        ax.plot(inner, [0, 0], color="tab:blue", lw=7, solid_capstyle="butt", label="of it from sampling")
        ax.plot(self.estimate, 0, "o", color=ink(ax), label="estimate")
        ax.axvline(0.0 if self.by is not None else self.popmean, color="grey", ls=":", label="null hypothesis")
        ax.set(yticks=[], xlabel=self._axis, title=f"p = {self.pvalue:.3g}")
        below(ax)
        return ax


_SIDES = {"two-sided": "different from", "greater": "above", "less": "below"}
