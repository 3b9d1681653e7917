"""Results of distance correlation, HSIC and screening."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dfprivacy import Release
from dfprivacy.plotting import axes, draw_interval, forest, interval_legend, text_color, wrap_label
from dfprivacy.wording import number, uncertainty
from dfprivacy_dcor.inference import NoisyStatistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy import ConfidenceInterval

__all__ = ["HSIC", "DistanceCorrelation", "Screening", "SharedCorrelation", "result_fields"]

_MAX_HSIC, _LABEL_GAP = 4 / 9, 0.01  # of HSIC


@dataclass(frozen=True, kw_only=True, repr=False)
class _NoisyResult(Release):
    """Base class of results computed from noisy statistics of the table's rows."""

    low: float
    high: float
    confidence: float
    rows: int
    missing: float | None
    missing_standard_error: float | None
    notes: tuple[str, ...]
    released: tuple[float, ...]
    noise_standard_error: tuple[float, ...]
    covers: str = "table"

    def _ci_text(self) -> str:
        """Write the confidence interval, which covers noise alone."""
        return uncertainty(self.low, self.high, self.confidence, whose="this table", noise=1.0)

    def _draw_interval(self, ax: Any, estimate: float, what: str, end: float = 1.0) -> Any:
        """Draw the estimate and its confidence interval."""
        ax = axes(ax)
        draw_interval(ax, 0, estimate, (self.low, self.high), noise=1.0)
        ax.plot(estimate, 0, "o", color=text_color(ax))
        ax.set(xlim=(-0.02 * end, 1.02 * end), yticks=[], xlabel=wrap_label(what))
        interval_legend(ax, self.confidence, [1.0], "o")
        return ax


def result_fields(values: Sequence[float], scales: Sequence[float], rows: int, *, counted: bool) -> dict[str, Any]:
    """Return the fields of a result that hold the noisy statistics and their standard errors."""
    errors = tuple(math.sqrt(2) * scale for scale in scales)
    return {
        "rows": rows,
        "missing": rows * (1 - values[-1]) if counted else None,
        "missing_standard_error": rows * errors[-1] if counted else None,
        "released": tuple(values),
        "noise_standard_error": errors,
    }


def _association_clause(of: DistanceCorrelation | HSIC) -> str:
    """Write a clause on whether the columns x are associated with the columns y, in the population."""
    found = f"{'is' if len(of.x) == 1 else 'are'} {'' if of.rejected else 'not shown to be '}associated with"
    return f"{of._label(*of.x)} {found} {of._label(*of.y)} in the population{uncertainty(p=of.pvalue)}"  # noqa: SLF001


@dataclass(frozen=True, kw_only=True, repr=False)
class DistanceCorrelation(_NoisyResult):
    """Distance correlation of columns x with columns y, and a test of independence.

    Attributes
    ----------
    correlation : float
        Distance correlation R of the complete rows, from 0 to 1.
    corrected : float
        R² of the population, corrected for what noise and sampling add.
    low, high : float
        Interval for R of the complete rows; its coverage is guaranteed.
    confidence : float
        Its coverage.
    covers : {"table"}
        The interval is for the number of the table's own rows.
    statistic : float
        The squared distance covariance, times the rows, over the product of both mean distances: about 1 for
        independent columns. It is corrected for the noise.
    pvalue : float
        P-value of independence, noise included; from the same numbers.
    alpha : float
        Level of the test.
    rejected : bool
        Whether independence is rejected: whether the p-value is at most `alpha`.
    x, y, metric
        What was asked.
    rows : int
        Number of rows n, complete or not.
    missing : float or None
        Noisy number of rows that were left out because a value is missing; None where all rows count.
    missing_standard_error : float or None
        Standard error of its noise.
    notes : tuple of str
        What to know before trusting the numbers; an uninformative answer says so here.
    released, noise_standard_error, largest : tuple of float
        What all this follows from, with every column scaled to a width of 1: noisy s_xy, s_x, s_y, and m_x and m_y
        minus the diameters, each times the share of complete rows, and this share; the standard errors of their
        Laplace noise; the largest values of s_x, s_y, m_x and m_y, the
        first two of which are half the diameters.
    """

    correlation: float
    corrected: float
    statistic: float
    pvalue: float
    alpha: float
    rejected: bool
    x: tuple[str, ...]
    y: tuple[str, ...]
    metric: str
    largest: tuple[float, ...]

    _shown = ("x", "y", "correlation", "low", "high", "corrected", "statistic", "pvalue", "rejected", "notes")

    def confidence_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Return a confidence interval for R at any level, at no cost.

        Parameters
        ----------
        confidence_level : float, optional
            Coverage, at least; default: the one asked for.

        Returns
        -------
        ConfidenceInterval
            Within 0 and 1.
        """
        scales = tuple(each / math.sqrt(2) for each in self.noise_standard_error)
        numbers = NoisyStatistics(self.released, scales, self.rows, self.largest)
        return numbers.interval(self.confidence if confidence_level is None else confidence_level)

    def _sentence(self) -> str:
        """Write a sentence on whether the columns depend on each other, and how strongly."""
        told = f"their distance correlation is {number(self.correlation, (self.high - self.low) / 4)}"
        return f"{_association_clause(self)}; {told}{self._ci_text()}."

    def _rows(self) -> list[tuple[str, str]]:
        """Return the facts, with the corrected estimate in words."""
        rows = dict(super()._rows())
        corrected = number(self.corrected, (self.high - self.low) / 4)
        rows["corrected"] = f"{corrected}: bias-corrected R² of the population"
        return list(rows.items())

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the distance correlation and its test as a row of a tidy table."""
        ends = {"low": self.low, "high": self.high, "corrected": self.corrected}
        tested = {"statistic": self.statistic, "pvalue": self.pvalue, "n": self.rows}
        term = f"{', '.join(self.x)} and {', '.join(self.y)}"
        return [{"term": term, "estimate": self.correlation, **ends, **tested}]

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate and its interval."""
        what = f"distance correlation of {self._with_units(*self.x)} and {self._with_units(*self.y)}"
        ax = self._draw_interval(ax, self.correlation, what)
        ax.set_title(f"p = {self.pvalue:.3g}")
        return ax


@dataclass(frozen=True, kw_only=True, repr=False)
class HSIC(_NoisyResult):
    """Hilbert-Schmidt independence criterion of columns x with columns y, and a test of independence.

    Attributes
    ----------
    hsic : float
        (m - 1)⁻² tr KHLH of the m complete rows, corrected for what noise adds, from 0 to 4/9.
    low, high : float
        Its interval, whose coverage is guaranteed.
    confidence : float
        Its coverage.
    covers : {"table"}
        The interval is for the number of the table's own rows.
    alignment : float or None
        HSIC over the root of both sides' own, from 0 to 1, of the population, corrected for what noise and sampling
        add; None if there is one side.
    statistic : float or None
        HSIC times the rows, over what independence would make of it: about 1 for independent columns.
    pvalue : float or None
        P-value of independence, noise included; None if there is one side.
    alpha : float
        Level of the test.
    rejected : bool or None
        Whether independence is rejected: whether the p-value is at most `alpha`.
    x, y, kernel
        What was asked.
    rows : int
        Number of rows n, complete or not.
    missing : float or None
        Noisy number of rows that were left out because a value is missing; None where all rows count.
    missing_standard_error : float or None
        Standard error of its noise.
    notes : tuple of str
        What to know before trusting the numbers; an uninformative answer says so here.
    released, noise_standard_error : tuple of float
        What all this follows from: as those of `DistanceCorrelation`, for the distance 1 - k; of one side its
        deviation, and the share of complete rows if rows may be left out.
    """

    hsic: float
    alignment: float | None
    statistic: float | None
    pvalue: float | None
    alpha: float
    rejected: bool | None
    x: tuple[str, ...]
    y: tuple[str, ...]
    kernel: str

    _shown = ("x", "y", "kernel", "hsic", "low", "high", "alignment", "pvalue", "rejected", "notes")

    def _sentence(self) -> str:
        """Write a sentence on whether the columns depend on each other, and how strongly."""
        hsic = number(self.hsic, (self.high - self.low) / 4)
        told = f"HSIC (between 0 and 0.44) is {hsic}{self._ci_text()}"
        if not self.y:
            return f"Of {self._label(*self.x)} with themselves, {told}."
        return f"{_association_clause(self)}; {told}."

    def _rows(self) -> list[tuple[str, str]]:
        """Return the facts, with the alignment in words."""
        rows = dict(super()._rows())
        if self.alignment is not None:
            rows["alignment"] = f"{self.alignment:.2g}: bias-corrected, of the population, from 0 to 1"
        return list(rows.items())

    def _tidy(self) -> list[dict[str, Any]]:
        """Return HSIC and its test as a row of a tidy table."""
        numbers = {"estimate": self.hsic, "low": self.low, "high": self.high, "alignment": self.alignment}
        tested = {"statistic": self.statistic, "pvalue": self.pvalue, "n": self.rows}
        return [{"term": f"{', '.join(self.x)} and {', '.join(self.y or self.x)}", **numbers, **tested}]

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate and its interval."""
        what = f"HSIC of {self._with_units(*self.x)} and {self._with_units(*(self.y or self.x))}"
        end = min(_MAX_HSIC, max(2 * self.high, _LABEL_GAP))  # of what there can be, which most data are far below
        return self._draw_interval(ax, self.hsic, what, end)


@dataclass(frozen=True, kw_only=True, repr=False)
class Screening(Release):
    """Columns with the largest distance correlation with a target column.

    Attributes
    ----------
    features : tuple of str
        The chosen columns, the best first as far as the noise tells.
    target : str
        What they are to explain.
    candidates : tuple of str
        The columns there was to choose from.
    estimates : tuple of DistanceCorrelation
        Of each chosen column with the target, if asked for.
    """

    features: tuple[str, ...]
    target: str
    candidates: tuple[str, ...]
    estimates: tuple[DistanceCorrelation, ...]

    _shown = ("features", "target")

    def _sentence(self) -> str:
        """Write a sentence with the selected columns, and the dependence on the first of them."""
        many = f"Of {len(self.candidates)} columns"
        be = "is" if len(self.features) == 1 else "are"
        told = f"{many}, {self._label(*self.features)} {be} most associated with"
        first = ""
        if self.estimates:
            each = self.estimates[0]
            said = number(each.correlation, (each.high - each.low) / 4)
            first = f"; the distance correlation of the first is {said}{each._ci_text()}"  # noqa: SLF001 - of our own kind
        return f"{told} {self._label(self.target)}, within the noise{first}."

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the selected columns, with distance correlations if requested, as rows of a tidy table."""
        known = [each._tidy()[0] for each in self.estimates]  # noqa: SLF001 - of our own kind
        numbers = {name: [each[name] for each in known] for name in (known[0] if known else ()) if name != "term"}
        return [{"term": self.features, "target": self.target, "rank": range(1, len(self.features) + 1), **numbers}]

    def plot(self, ax: Any = None) -> Any:
        """Draw the selected columns in order, with their distance correlations if these were requested."""
        names = [*map(self._with_units, self.features)]
        if self.estimates:
            values = [(each.correlation, each.low, each.high) for each in self.estimates]
            what = f"distance correlation with {self._with_units(self.target)}"
            return forest(
                names, values, what, ax, noise=[1.0] * len(names), confidence=self.estimates[0].confidence
            )
        ax = axes(ax)
        ax.barh(names, range(len(names), 0, -1))
        ax.set(xticks=[], xlabel=wrap_label(f"rank by dependence on {self._with_units(self.target)}", 56))
        ax.invert_yaxis()
        return ax


@dataclass(frozen=True, kw_only=True, repr=False)
class SharedCorrelation(_NoisyResult):
    """Squared distance correlation of one party's columns with another party's columns, with privacy.

    Attributes
    ----------
    squared : float
        Squared distance correlation R², from 0 to 1, as far as the message tells: corrected for what noise and
        sampling add, without the harmonics that the message leaves out, which can only add to it.
    low, high : float
        Lower confidence bound for R², and 1: no message bounds it from above.
    confidence : float
        Confidence of the lower bound, at least.
    covers : {"table"}
        The bound is for the R² of the table's own rows.
    columns, other : tuple of str
        The columns of this table, and of the message.
    rows : int
        Number of rows n, complete or not.
    missing : float or None
        Noisy number of rows that were left out because a value of these columns is missing; None where all count.
    missing_standard_error : float or None
        Standard error of its noise.
    notes : tuple of str
        What to know before trusting the number; an uninformative answer says so here.
    released, noise_standard_error : tuple of float
        What it follows from, with the message: noisy distance covariance with the message's features, distance
        deviation of these columns, and their mean distance minus the diameter, each times the share of complete
        rows, and this share; and the standard errors of their Laplace noise.
    """

    squared: float
    high: float = 1.0
    columns: tuple[str, ...]
    other: tuple[str, ...]

    _shown = ("squared", "low", "columns", "other", "notes")

    def _sentence(self) -> str:
        """Write a sentence with the estimate of the dependence and its lower bound."""
        both = f"{self._label(*self.columns)} and the other party's {self._label(*self.other)}"
        least, told = number(self.low, self.squared / 4), number(self.squared, self.squared / 4)
        sure = f"({100 * self.confidence:.4g}% confidence, for this table)"
        return f"The squared distance correlation of {both} is at least {least} {sure}; estimate {told}."

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the squared distance correlation as a row of a tidy table."""
        term = f"{', '.join(self.columns)} and {', '.join(self.other)}"
        return [{"term": term, "estimate": self.squared, "low": self.low, "n": self.rows}]

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate and its interval."""
        what = (
            f"squared distance correlation of {self._with_units(*self.columns)} and {self._with_units(*self.other)}"
        )
        return self._draw_interval(ax, self.squared, what)
