"""The result of a t-test or z-test, in the units of the column."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy.estimates import Estimate
from dfprivacy.inference.engine import Inference, infer
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.inference.notes import notes
from dfprivacy.plotting import axes, below, ink
from dfprivacy.wording import limited, number, sure, with_unit
from dfprivacy_ttest.parameters import Method, Queries, parameter, textbook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dfprivacy import Release

__all__ = ["TTest", "conclude"]

_ROWS = 10.0  # an error that makes no part of a row significant
_SIDES = {"two-sided": "different from", "greater": "above", "less": "below"}
_UNDEFINED = "Undefined: a noisy variance is not positive, so the naive statistic does not exist."


def conclude(sums: NoisyMoments, *, sigma: float | None = None, method: Method = "conv", **asked: Any) -> TTest:
    """Test in the units of the column.

    Parameters
    ----------
    sums : NoisyMoments
        Of one group, or two.
    sigma, method, **asked
        What was asked, as the attributes of `TTest`.

    Returns
    -------
    TTest
        The result.
    """
    groups, alternative = sums.values.shape[-2], asked["alternative"]
    found = _infer(sums, sigma=sigma, equal_var=asked.get("equal_var", False), method=method)
    null = asked["popmean"] if groups == 1 else 0.0
    low, high = found.interval(asked["confidence"], alternative)
    estimate, error, p = (
        float(each) for each in (found.estimate, found.standard_error, found.pvalue(null, alternative))
    )
    if method == "naive":
        known: tuple[str, ...] = () if math.isfinite(p) else (_UNDEFINED,)
    else:
        known = notes(found, sums, p, asked["alpha"], alternative, normal=sigma is not None)
    missing, missing_standard_error = sums.missing or (None, None)
    return TTest(
        **asked,
        sigma=sigma,
        method=method,
        term="mean" if groups == 1 else "difference of means",
        null=null,
        n=float(sums.size.sum()),
        statistic=(estimate - null) / error if error else math.copysign(math.inf, estimate - null),
        pvalue=p,
        rejected=p <= asked["alpha"],
        df=float(found.degrees_of_freedom),
        estimate=estimate,
        standard_error=error,
        noise_standard_error=float(found.noise_standard_error),
        means=tuple(sums.estimate.mean[:, 0].tolist()),
        sizes=tuple(sums.size.tolist()),
        missing=missing,
        missing_standard_error=missing_standard_error,
        low=float(low),
        high=float(high),
        notes=(*sums.limits(asked.get("groups") or (), "mean"), *known),
        clipped=sums.shares,
        released=sums.released,
        bounds=sums.bounds,
    )


def _infer(sums: NoisyMoments, *, sigma: float | None, equal_var: bool, method: Method) -> Inference:
    tested = parameter(sums.values.shape[-2], sigma=sigma, equal_var=equal_var)
    return textbook(sums, tested) if method == "naive" else infer(sums, tested)


@dataclass(frozen=True, kw_only=True, repr=False)
class TTest(Estimate):
    """Result of a private t-test or z-test, as `dfprivacy.estimates.Estimate`, in the units of the column.

    Attributes
    ----------
    statistic : float
        (estimate - null) / standard_error.
    df : float
        Degrees of freedom of the variance; infinity for z-tests.
    means : tuple of float
        The noisy mean of each group.
    sizes : tuple of float
        Rows with a value in each group; noisy where their number is private.
    missing : float or None
        Noisy number of rows that were left out because their value is missing. None if nothing was left out, or
        if the number of rows is private: then what is measured of them does not tell it.
    missing_standard_error : float or None
        Standard error of `missing`, from noise alone.
    by, groups, popmean, sigma, equal_var, method, queries
        What was asked.
    """

    statistic: float
    pvalue: float
    rejected: bool
    df: float
    means: tuple[float, ...]
    sizes: tuple[float, ...]
    missing: float | None
    missing_standard_error: float | None
    by: str | None = None
    groups: tuple[Any, ...] | None = None
    popmean: float
    sigma: float | None
    equal_var: bool = False
    method: Method
    queries: Queries = "jointly"

    _row_counts = ("n", "sizes")

    def _parts(self) -> list[tuple[dict[str, Any], Release]]:
        """Return what it tells of each of two groups: the sums, not the estimate."""
        if self.groups is None or self.queries == "separately":
            return super()._parts()
        sums = NoisyMoments.of_release(self.released, self.bounds)
        return [
            ({self.by or "": group}, replace(self, released=sums[at].released))
            for at, group in enumerate(self.groups)
        ]

    def _redrawn(self) -> Mapping[str, Any]:
        """Return the estimate and the means under draws of the noise."""
        sums = NoisyMoments.of_release(self.released, self.bounds).redrawn
        tested = parameter(sums.values.shape[-2], sigma=self.sigma, equal_var=self.equal_var)
        return {"estimate": tested(sums.estimate)[0][..., 0], "means": tuple(sums.estimate.mean[..., 0].T)}

    _shown = (
        *("statistic", "pvalue", "alpha", "rejected", "df", "estimate", "low", "high", "standard_error"),
        *("noise_standard_error", "means", "sizes", "missing", "missing_standard_error", "notes"),
    )

    def _rows(self) -> list[tuple[str, str]]:
        """Name the group of each mean and size, where there are two."""
        rows = dict(super()._rows())
        if self.groups is None:
            del rows["means"]  # it is the estimate
        else:
            for name, error in (("means", self.standard_error), ("sizes", _ROWS)):
                each = (f"{g}: {number(x, error)}" for g, x in zip(self.groups, getattr(self, name), strict=True))
                rows[name] = ", ".join(each)
        return list(rows.items())

    def _sentence(self) -> str:
        """Write the mean, or how far two means are apart, and what the test finds."""
        unit, error = self._unit(self.column), (self.high - self.low) / 4
        how = sure(self.low, self.high, self.confidence, unit=unit, noise=self._noise_part, p=self.pvalue)
        what = f"mean {self._noun(self.column)}{limited(self.covers, self.bounds)}"
        if self.groups is None or self.by is None:
            found = "" if self.rejected else "not "
            said = with_unit(number(self.estimate, error), unit)
            return f"The {what} is {said}, {found}shown to be {_SIDES[self.alternative]} {self.popmean:g}{how}."
        first, second = (f"{self._noun(self.by)} = {group}" for group in self.groups)
        apart = with_unit(number(abs(self.estimate), error), unit)
        if self.rejected:
            more = "lower" if self.estimate < 0 else "higher"
            return f"The {what} is {apart} {more} for {first} than for {second}{how}."
        told = with_unit(number(self.estimate, error), unit)
        side = _SIDES[self.alternative]
        return f"The {what} for {first} is not shown to be {side} that for {second}; the difference is {told}{how}."

    def _tidy(self) -> list[dict[str, Any]]:
        """State the mean, or the difference of means, and its test."""
        apart = "" if self.groups is None else f": {self.groups[0]} - {self.groups[1]}"
        names = ("estimate", "standard_error", "noise_standard_error", "low", "high", "statistic", "df", "pvalue")
        numbers = {name: getattr(self, name) for name in names}
        return [{"term": f"{self.column}{apart}", **numbers, "n": self.n}]

    @property
    def _noise_part(self) -> float | None:
        return None if self.method == "naive" else super()._noise_part

    @property
    def _axis(self) -> str:
        """Describe what the estimate is, in the words of the columns."""
        what = self._called(self.column)
        if self.groups is None or self.by is None:
            return what
        return f"{what}: {self._called(self.by)} {self.groups[0]} minus {self.groups[1]}"

    def _interval(self, level: float) -> tuple[Any, Any]:
        sums = NoisyMoments.of_release(self.released, self.bounds)
        found = _infer(sums, sigma=self.sigma, equal_var=self.equal_var, method=self.method)
        return found.interval(level, self.alternative)

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
