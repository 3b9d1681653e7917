"""``view.hazard_ratio``: compare the hazards of two groups, from the life tables of ``kaplan_meier``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Column, Curator, NanPolicy, Probability, Range, mechanism
from dfprivacy.estimates import Estimate, inference_fields
from dfprivacy.inference.draws import noise_draws, points, quantile
from dfprivacy.inference.engine import Alternative, infer
from dfprivacy.inference.planning import FOUND, NONE
from dfprivacy.laws import NoiseLaw
from dfprivacy.plotting import SAMPLED, axes, draw_interval, interval_legend, text_color, wrap_label
from dfprivacy.schema import chosen_groups
from dfprivacy.wording import noise_share, number, uncertainty, with_unit
from dfprivacy_inference.asking import assumed_rows, check_distinct_columns
from dfprivacy_inference.curves import check_times, exposed_rows, interval_edges
from dfprivacy_inference.survival import draw_times, measure_life_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dfprivacy.inference.engine import Inference
    from dfprivacy.release import NoisyValue

    Array = NDArray[np.float64]
    Tables = tuple[Array, Array]

__all__ = ["HazardRatio", "TwoLifeTables", "hazard_ratio", "log_hazard_ratio"]

_DRAWS = 512
_CLEAR, _SURE = 4.0, 5.0  # standard errors of the noise that must, and should, be at risk in both groups
_ROUNDS, _FAR = 12, 20.0  # of the estimating equation, and the largest logarithm of a ratio
_FEWEST = 0.25  # events, so that there is a ratio
_FEW = 10.0  # events
_MOST, _PIECES = 1000, 8  # intervals of all strata, and pieces of many draws: for memory
_FULL, _MANY = 0.9, 0.2  # of those at risk, and of all events, in one interval
_NOISY = 2.0  # times the error of sampling
_TINY = 1e-9


@dataclass(frozen=True)
class TwoLifeTables:
    """Noisy life tables of two groups, one pair of tables for each stratum.

    Attributes
    ----------
    values : ndarray of shape (..., S, 2, 3, K)
        Sums of `dfprivacy_inference.curves.LifeTable`.
    scale : float
        Of the noise in each.
    """

    values: Array
    scale: float

    @property
    def has_saturated_interval(self) -> bool:
        """Whether, in some interval with many events, nearly all rows at risk in a group have the event."""
        events, exposed, _ = exposed_rows(self.values)
        together = events.sum(axis=-2) * self.used_intervals
        full = (events > _FULL * exposed).any(axis=-2)
        return bool((full & (together > _MANY * together.sum(axis=(-2, -1), keepdims=True))).any())

    def at_risk_exceeds(self, errors: float) -> Array:
        """Return for each interval whether the rows at risk of both groups exceed a multiple of the noise."""
        at_risk = np.cumsum(self.values.sum(axis=-2)[..., ::-1], axis=-1)[..., ::-1].min(axis=-2)
        noise = NoiseLaw(self.scale).standard_deviation * np.sqrt(3 * np.arange(at_risk.shape[-1], 0, -1))
        return np.asarray(at_risk >= np.maximum(errors * noise, 1 / 2))

    @property
    def sizes_exceed_noise(self) -> bool:
        """Whether both group sizes are clearly larger than the noise, in at least one stratum."""
        return bool(self.at_risk_exceeds(_SURE)[..., 0].any())

    @cached_property
    def used_intervals(self) -> Array:
        """Indicator of the used intervals: 1 before the first one with too few rows at risk in a group.

        It follows from what was released, and is the same in all draws.
        """
        return np.logical_and.accumulate(self.at_risk_exceeds(_CLEAR), axis=-1).astype(np.float64)

    @property
    def estimate(self) -> Tables:
        """The noisy life tables, and the indicator of the intervals used."""
        return np.expand_dims(self.values, -5), np.expand_dims(self.used_intervals, -3)

    def draws(self, draws: int = _DRAWS) -> tuple[Tables, Array]:
        """Draw noise-free life tables that agree with the release, with equal weights; entries may be negative."""
        shape = self.values.shape[-4:]
        noise = quantile(NoiseLaw(self.scale), points(math.prod(shape), draws).T.reshape(draws, *shape))
        tables, counted = self.estimate
        return (tables - noise, counted), np.full(draws, 1 / draws)

    @cached_property
    def log_ratio_inference(self) -> Inference:
        """Inference about the logarithm of the hazard ratio."""
        return infer(self, log_hazard_ratio, _DRAWS)


def log_hazard_ratio(tables: Tables) -> tuple[Array, Array, float]:
    r"""Estimate the logarithm of the hazard ratio of two groups.

    Parameters
    ----------
    tables : tuple of two ndarray, of shape (..., S, 2, 3, K) and (..., S, K)
        Life tables of both groups in each stratum, noisy or not, and 1 for the intervals that count.

    Returns
    -------
    tuple
        The logarithm, its variance from sampling, which is NaN where a group has no events, and infinite degrees of
        freedom: as `~dfprivacy.inference.engine.infer` takes them.

    Notes
    -----
    In an interval in which d of n exposed rows have an event, one by one, the cumulated hazard is
    :math:`h = \log((n + c)/(n - d + c))`, c being 1/2: Efron's way with ties, but for terms of the order 1/n². So
    the rows were at risk for x = d/h intervals together. With these Cox's score at θ is that of a Poisson law of
    the events, :math:`\sum (d_1 (1 - p) - d_0 p)` with :math:`p = x_1 e^θ/(x_0 + x_1 e^θ)`; its root is found by
    dividing the two sums. Their variance is that of h, Greenwood's. Noise moves both sums, but hardly p.
    """
    cells, counted = tables
    events, exposed, _ = exposed_rows(cells)
    exposed = np.maximum(exposed, np.maximum(events, 1.0))
    half = np.clip(events / 2, 0.0, 1 / 2)
    before, after, some = exposed + half, exposed - events + half, np.abs(events) > _TINY
    time = np.where(some, events / np.log(np.where(some, before / after, math.e)), exposed)
    spread = time**2 / (before * after)
    (d1, d0), (x1, x0), (s1, s0) = (np.moveaxis(each, -2, 0) for each in (events, time, spread))
    theta = np.zeros(d1.shape[:-2])
    for _ in range(_ROUNDS):
        p = x1 / (x1 + x0 * np.exp(-theta)[..., None, None])
        first, second = ((counted * each).sum(axis=(-2, -1)) for each in (d1 * (1 - p), d0 * p))
        theta += np.log(np.maximum(first, _FEWEST) / np.maximum(second, _FEWEST))
        theta = np.clip(theta, -_FAR, _FAR)
    known = np.minimum(first, second)  # alike, but for a group without events
    squared = (counted * (d1 * s1 * (1 - p) ** 2 + d0 * s0 * p**2)).sum(axis=(-2, -1))
    known = np.where(known > _FEWEST, known, np.nan)
    return theta, np.maximum(squared, known) / known**2, math.inf


@dataclass(frozen=True, kw_only=True, repr=False)
class HazardRatio(Estimate):
    """Private hazard ratio of two groups, as `dfprivacy.estimates.Estimate`.

    Attributes
    ----------
    estimate : float
        The hazard in the first group divided by that in the second.
    standard_error, noise_standard_error : float
        Of its logarithm, as Cox regressions state it.
    pvalue : float
        Probability, if both hazards are equal, of an estimate at least as far from 1; noise included.
    events : tuple of float
        Noisy number of events in each group.
    until : float
        End of the last interval that counts: later too few are at risk in a group for the noise.
    edges : tuple of float
        Ends of the intervals of time.
    event, by, groups, strata
        As asked.
    """

    events: tuple[float, ...]
    until: float
    edges: tuple[float, ...]
    event: str
    by: str
    groups: tuple[Any, ...]
    strata: str | None

    _row_counts = ("n", "events")

    @property
    def _shown(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*super()._shown[:-2], "groups", "events", "until", "n", "notes")

    @property
    def _tables(self) -> TwoLifeTables:
        return TwoLifeTables(np.array(self.released["values"]), self.released["scale"])

    def _replicates(self) -> Mapping[str, Any]:
        """Return the hazard ratio recomputed under random draws of the noise."""
        tables, law = self._tables, NoiseLaw(self.released["scale"])
        noise = noise_draws(law, np.full(tables.values.shape, law.scale), self.released["id"] or str(self.released))
        values = tables.values - np.moveaxis(noise, -1, 0)
        parts = [log_hazard_ratio((part, tables.used_intervals)) for part in np.array_split(values, _PIECES)]
        logarithm, variance = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
        return {"estimate": np.where(np.isfinite(variance), np.exp(logarithm), np.nan)}

    def _interval(self, level: float) -> tuple[Any, Any]:
        low, high = np.exp(self._tables.log_ratio_inference.interval(level, self.alternative))
        return low, high

    @property
    def _sampling_error(self) -> float:
        return self.estimate * super()._sampling_error

    @property
    def _noise_part(self) -> float | None:
        return noise_share(self.standard_error, super()._sampling_error)

    def _sentence(self) -> str:
        """Write a sentence with the hazard ratio and the result of the test."""
        (first, second), by = self.groups, self._label(self.by)
        one = f"The hazard of {self._label(self.event)} for {by} = {first} is"
        ratio = number(self.estimate, self.estimate * self.standard_error)
        side = {"two-sided": "different from", "greater": "above", "less": "below"}[self.alternative]
        found = f"{'' if self.rejected else 'not '}shown to be {side} 1"
        how = uncertainty(self.low, self.high, self.confidence, noise=self._noise_part, p=self.pvalue)
        within = "" if self.strata is None else f" with the same {self._label(self.strata)}"
        end = f" up to {self._label(self.column)} = {with_unit(number(self.until), self._unit(self.column))}"
        return f"{one} {ratio} times that for {by} = {second}{within}{end}, {found}{how}."

    def _rows(self) -> list[tuple[str, str]]:
        """Return the facts, with the number whose standard errors are stated."""
        of = " (of the log hazard ratio)"
        return [(name, text + of * name.endswith("standard_error")) for name, text in super()._rows()]

    def _tidy(self) -> list[dict[str, Any]]:
        """Return the hazard ratio, the standard errors of its logarithm and its test as a row of a tidy table."""
        (row,) = super()._tidy()
        return [{**row, "term": self.term}]

    def plot(self, ax: Any = None) -> Any:
        """Draw the ratio and its interval on a log scale; distant ends are cut off."""
        ax, part = axes(ax), self._noise_part or 0.0
        far = math.exp(min(6 * self.standard_error, _FAR)) or 1.0
        low, high = np.clip([self.low, self.high], self.estimate / far, self.estimate * far)
        draw_interval(ax, 0, self.estimate, (low, high))
        inner = [self.estimate * (end / self.estimate) ** (1 - part) for end in (low, high)]
        ax.plot(inner, [0, 0], color=SAMPLED, lw=7, solid_capstyle="butt")
        ax.plot(self.estimate, 0, "o", color=text_color(ax))
        ax.axvline(1, color="grey", ls=":")
        what = f"{self.term}, {self._with_units(self.event)} by {self._with_units(self.by)}"
        ax.set(xscale="log", yticks=[], xlabel=wrap_label(what), title=f"p = {self.pvalue:.3g}")
        for axis in (ax.xaxis.set_major_formatter, ax.xaxis.set_minor_formatter):
            axis("{x:.3g}")
        interval_legend(ax, self.confidence, [part], "o")
        return ax


@mechanism(columns={"time": "numeric", "event": "category", "by": "category", "strata": "category"})
def hazard_ratio(
    curator: Curator,
    time: Column,
    event: Column,
    edges: Sequence[float] | int,
    *,
    by: Column,
    groups: Sequence[Any] | None = None,
    strata: Column | None = None,
    nan_policy: NanPolicy = "omit",
) -> NoisyValue:
    """Estimate the hazard ratio of two groups, as Cox's regression on the group does.

    Parameters
    ----------
    time : str
        A column of times with bounds, 0 or above.
    event : str
        Whether the time is that of the event, or of the last look (censored): a column with the categories 0 and 1,
        or False and True.
    edges : list of float, or int
        The ends of intervals of time, which cover the bounds; or how many intervals of one width. Few do, such as
        5: the noise grows with the root of their number. Within each, hazards are taken for constant.
    by : str
        A column with categories.
    groups : list or tuple of two categories, optional
        The groups to compare, the first with the second; default: the column's, if it has two.
    strata : str, optional
        A column with categories, each of which has hazards of its own: the ratio is adjusted for it. Noise grows
        with the root of their number.
    nan_policy : {"omit", "fill", "raise"}
        As in ``kaplan_meier``.
    alternative : {"two-sided", "less", "greater"}
        What is suspected of the ratio: ``"less"``, that it is below 1, so that the first group lives longer.
    alpha : float
        The level at which `rejected` decides.
    confidence : float
        Coverage of the interval.

    Returns
    -------
    HazardRatio
        The ratio, its interval, and the p-value of equal hazards.

    Raises
    ------
    ArgumentError
        If an argument cannot be used; nothing is charged.
    BudgetExceeded
        If the account cannot pay; nothing is charged.

    Notes
    -----
    **Privacy.** Pure ε-differential privacy for the account's neighbouring relation: what is measured are the life
    tables of ``kaplan_meier``, whose sums move by 2 in L1 if a row changes, or by 1 if one comes or goes. With the
    same edges each answers the other at no charge. All else is post-processing.

    **Statistics.** The root of Cox's partial score in its piecewise exponential form: within an interval hazards
    are constant, and ties are Efron's [1]_ [2]_. With fine edges and hardly any noise it is the coefficient of
    lifelines, and of statsmodels with Efron's ties, within a twentieth of its standard error. Its law is the normal
    one of the logarithm, on average over redrawn noise. Times from which on too few are at risk in a group for the
    noise do not count (`until`). It is one number only if hazards are in proportion, which the curves of
    ``kaplan_meier`` show; a time beyond the bounds counts as one at the bound, its event included. For `strata`
    the scores are added. There is no adjustment for numbers.

    References
    ----------
    .. [1] Cox (1972). Regression models and life-tables. J. Royal Statistical Society B 34.
    .. [2] Efron (1977). The efficiency of Cox's likelihood function for censored data. J. American Statistical
       Association 72.

    Examples
    --------
    >>> import numpy as np, pandas as pd, dfprivacy as dp
    >>> df = pd.DataFrame({"months": np.r_[np.arange(1000) % 30, np.arange(1000) % 60],
    ...                    "died": [1, 1, 1, 0] * 500, "arm": ["old"] * 1000 + ["new"] * 1000})
    >>> view = dp.protect(df, "hazard-ratio-example", epsilon=1, ledger="memory:", bounds={"months": (0, 60)},
    ...                   categories={"died": [0, 1], "arm": ["new", "old"]})
    >>> view.hazard_ratio("months", "died", 10, by="arm", epsilon=1).high < 1
    True
    """
    return measure_life_tables(curator, time, event, edges, by, chosen_groups(by, groups), nan_policy, strata)


@hazard_ratio.concludes
def conclude_hazard_ratio(
    measured: NoisyValue,
    time: Column,
    event: Column,
    edges: Sequence[float] | int,
    *,
    by: Column,
    groups: Sequence[Any] | None,
    strata: Column | None,
    nan_policy: NanPolicy,
    alternative: Alternative = "two-sided",
    alpha: Probability = 0.05,
    confidence: Probability = 0.95,
) -> HazardRatio:
    """Compute the hazard ratio from the noisy life tables."""
    pair, ends = chosen_groups(by, groups), interval_edges(time, edges)
    tables = TwoLifeTables(measured.values.reshape(-1, 2, 3, len(ends) - 1), float(np.max(measured.scales)))
    told = inference_fields(tables.log_ratio_inference, 0.0, alternative, alpha, confidence)
    ratio = {name: float(np.exp(told[name])) for name in ("estimate", "low", "high")}
    if _has_infinite_end(ratio, alternative):
        told |= dict.fromkeys(("standard_error", "noise_standard_error"), math.inf)
    events = tables.values[:, :, 0].sum(axis=(0, -1))
    return HazardRatio(
        **told | ratio | {"null": 1.0},
        term=f"hazard ratio: {pair[0]} / {pair[1]}",
        n=max(float(tables.values.sum()), 0.0),
        events=tuple(np.maximum(events, 0.0).tolist()),
        until=float(ends[int(tables.used_intervals.sum(axis=-1).max())]),
        edges=tuple(ends.tolist()),
        column=time.name,
        event=event.name,
        by=by.name,
        groups=pair,
        strata=None if strata is None else strata.name,
        bounds=(time.low, time.high),
        nan_policy=nan_policy,
        notes=_notes(tables, is_open=_has_infinite_end(ratio, alternative)),
        released={"values": tables.values.tolist(), "scale": tables.scale, "id": measured.id},
    )


def _has_infinite_end(ratio: Mapping[str, float], alternative: Alternative) -> bool:
    """Return whether a two-sided interval, or the bounded end of a one-sided one, reaches 0 or infinity."""
    return (ratio["low"] == 0 and alternative != "less") or (math.isinf(ratio["high"]) and alternative != "greater")


def _notes(tables: TwoLifeTables, *, is_open: bool) -> tuple[str, ...]:
    """Return notes on the reliability of the hazard ratio."""
    if is_open:
        return ("Uninformative: the noise hides the rows at risk. Use more epsilon or rows, or wider intervals.",)
    found, notes = tables.log_ratio_inference, []
    if not tables.sizes_exceed_noise:
        notes.append(
            "Uninformative: a group is hardly larger than the noise in its size. Do not trust the p-value and the "
            "interval. Use more epsilon or rows, or fewer intervals."
        )
    times = float(found.noise_standard_error / found.sampling_standard_error)
    if times > _NOISY:
        notes.append(
            f"Privacy noise is {times:.2g} times the sampling error. To make them equal: {times:.2g} times the "
            f"epsilon, or {times**2:.2g} times the rows. Fewer intervals have less noise, too."
        )
    if tables.values[:, :, 0].sum(axis=(0, -1)).min() < _FEW:
        notes.append("A group has few events: the normal approximation of the log hazard ratio is not accurate.")
    if tables.has_saturated_interval:
        notes.append(
            "In one interval nearly all of a group have the event, at unknown times: the ratio may be biased. Use "
            "narrower intervals."
        )
    if lost := int((tables.used_intervals.sum(axis=-1) == 0).sum()):
        notes.append(f"{lost} of {len(tables.values)} strata are not used: the noise hides their numbers of rows.")
    return tuple(notes)


def check_hazard_ratio(
    time: Column,
    event: Column,
    edges: Sequence[float] | int,
    *,
    by: Column,
    groups: Sequence[Any] | None,
    strata: Column | None,
    **_: Any,
) -> None:
    """Check the arguments of `hazard_ratio` before anything is charged."""
    check_times(time, event)
    intervals = len(interval_edges(time, edges)) - 1
    check_distinct_columns(time, event, by, strata)
    if strata is not None and intervals * len(strata.categories or ()) > _MOST:
        raise ArgumentError(
            f"{len(strata.categories or ())} strata with {intervals} intervals each have more than {_MOST:,} "
            "intervals in all.",
            "Use fewer intervals.",
        )
    chosen_groups(by, groups)


def plan_hazard_ratio(
    curator: Curator,
    *,
    time: Column,
    edges: Sequence[float] | int,
    by: Column,
    groups: Sequence[Any] | None,
    strata: Column | None,
    alternative: Alternative,
    alpha: float,
    **_: Any,
) -> dict[str, Any]:
    """Return the expected standard errors of the log hazard ratio, and the smallest detectable hazard ratio."""
    ends, (n, given) = interval_edges(time, edges), assumed_rows(curator)
    sizes = curator.sizes(by, chosen_groups(by, groups))
    rows = np.full(2, n / len(by.categories or ())) if sizes is None else sizes
    left = np.exp(-math.log(3) * np.clip((ends - time.low) / (time.high - time.low), 0, 1))
    parts = 1 if strata is None else len(strata.categories or ())
    table = np.zeros((parts, 1, 3, len(ends) - 1))
    table[..., 0, :], table[..., 1, -1] = -np.diff(left), left[-1]
    tables = TwoLifeTables(rows[:, None, None] * table / parts, float(np.max(curator.planned.scales)))
    smallest, found = f"smallest hazard ratio found with probability {FOUND}{given}", tables.log_ratio_inference
    if not np.isfinite(found.interval(1 - alpha)).all():
        return {smallest: NONE}
    noise, error = float(found.noise_standard_error), float(found.standard_error)
    reach = ndtri(FOUND) - ndtri(alpha / 2 if alternative == "two-sided" else alpha)
    return {
        f"expected standard error of the log hazard ratio from noise{given}": noise,
        f"expected standard error of the log hazard ratio from noise and sampling{given}": error,
        smallest: f"{math.exp(reach * error):.2f}, or its inverse",
        "expected relative error": noise,
    }


def draw_hazards(
    rng: np.random.Generator,
    n: int,
    time: Column,
    event: Column,
    by: Column,
    groups: Sequence[Any] | None,
    strata: Column | None,
    *,
    ratio: Annotated[float, Range(1e-3, 1e3)] = 1.5,
    censored: Probability | None = None,
    first: Probability | None = None,
) -> dict[str, Any]:
    """Draw exponential survival times with a hazard ratio; a third of the first group exceed the upper bound."""
    drawn = draw_times(rng, n, time, event, by, groups, ratio=ratio, censored=censored, first=first)
    if strata is not None:
        drawn[strata.name] = rng.choice(np.array(strata.categories, dtype=object), n)
    return drawn


hazard_ratio = hazard_ratio.checks(check_hazard_ratio).plans(plan_hazard_ratio).assumes(draw_hazards)
