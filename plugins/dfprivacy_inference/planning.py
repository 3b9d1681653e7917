"""Planning: what could be found, before anything is paid, and made-up rows for ``power``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from scipy.special import ndtri

from dfprivacy import ArgumentError, Column, Probability, Range
from dfprivacy.inference.counts import EVEN, NoisyCounts, difference, share, share_of
from dfprivacy.inference.engine import infer
from dfprivacy.inference.groups import mean, omnibus
from dfprivacy.inference.moments import NoisyMoments
from dfprivacy.inference.planning import effect_for, power
from dfprivacy.laws import NoiseLaw
from dfprivacy.made_up import groups_in_steps, labels, shares_of, spread_of
from dfprivacy.schema import chosen_groups
from dfprivacy_inference.curves import Curve, edges_of
from dfprivacy_inference.mcnemar import of_one

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from dfprivacy import Curator
    from dfprivacy.inference.counts import Counts
    from dfprivacy.inference.engine import Alternative
    from dfprivacy_inference.proportions import Proportions

__all__ = [
    "differ",
    "differences",
    "expect_curves",
    "expect_means",
    "expect_pairs",
    "expect_shares",
    "finds",
    "flips",
    "lives",
    "shares",
    "steps",
]

POWER = 0.8
"""Of what is called found."""

_NONE = "none: more epsilon, or more rows, are needed"
_MOST = 1 - 1e-6
_SPREAD = 1 / 3  # standard deviation of a column, in halves of its range
_DISCORDANT = 1 / 4
_TABLES = _DRAWS = 128


def rows_of(curator: Curator) -> tuple[int, str]:
    """Return the number of rows that a plan is for, and what to say of it where that is private."""
    rows, given = curator.supposed_size
    return rows, given and f", if {given}"


def finds(effect: str, also: Callable[[Any, float], str] = lambda _, __: "") -> Callable[..., Mapping[str, Any]]:
    """Make the planner of a rank test.

    Parameters
    ----------
    effect : str
        Names the effect.
    also : callable
        Says more, of the measurement to come and the smallest effect that is found.

    Returns
    -------
    callable
        Says which effect would be found. How far an estimate lies from the truth is not said as a relative error,
        which a probability does not have.
    """

    def find(
        curator: Curator, *, alternative: Alternative = "two-sided", alpha: float = 0.05, **_: Any
    ) -> Mapping[str, Any]:
        if not curator.measured:
            return {}
        sums, (rows, given) = curator.planned, rows_of(curator)
        side: Alternative = "two-sided" if alternative == "two-sided" else "greater"
        found = 0.5 + effect_for(POWER, lambda d: sums.power(rows, 0.5 + d, alpha, side), _MOST - 0.5)
        shown = f"{found:.2f}{also(sums, found)}" if math.isfinite(found) else _NONE
        return {f"smallest {effect} found with probability {POWER}{given}, at best": shown}

    return find


def apart(_: object, effect: float) -> str:
    """Describe how far apart normal groups are that have an effect."""
    return f", normal groups {2**0.5 * ndtri(effect):.2g} standard deviations apart"


def hazards(_: object, effect: float) -> str:
    """Describe which hazards have an effect."""
    return f", a hazard ratio of {effect / (1 - effect):.2g} where no time is censored"


def measured(sums: Any, _: float) -> str:
    """Describe the measurement of differences."""
    return ", by signed ranks" if sums.ranks else " of P(d > 0), by signs"


def expect_means(
    curator: Curator,
    column: Column,
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    alpha: float = 0.05,
    **_: Any,
) -> Mapping[str, Any]:
    """Describe how well the means of groups alike in size would be known, and which difference would be found."""
    if not curator.measured:
        return {}
    kept = chosen_groups(by, groups, most=None)
    noisy, rows = curator.planned
    sums = NoisyMoments.measured(noisy, rows, column)
    supposed, assumption = rows_of(curator)
    n = sums.rows if sums.rows is not None else np.full(len(kept), supposed / len(by.categories or kept))
    sd = _SPREAD * column.half

    def releases(apart: float) -> NoisyMoments:
        """Return releases of groups of which the first lies apart by so much."""
        return sums.simulated(n, column.mid + apart * (np.arange(len(kept)) == 0), [sd] * len(kept), _TABLES)

    def found(apart: float) -> float:
        return float((omnibus(releases(apart), _DRAWS).pvalue <= alpha).mean())

    each = infer(releases(0.0), mean, _DRAWS)
    apart = effect_for(POWER, found, column.half)
    return {
        f"expected standard error of a mean, if the standard deviation in groups is {sd:.3g}{assumption}": float(
            np.median(each.standard_error, axis=0).max()
        ),
        f"smallest distance of one mean from all others found with probability {POWER}": (
            f"{apart:.3g}" if math.isfinite(apart) else "none; kruskal() asks ranks"
        ),
        "expected relative error": float(np.median(each.noise_standard_error, axis=0).max()) / sd,
    }


def expect_shares(
    curator: Curator,
    column: Column,  # noqa: ARG001 - a planner has the arguments of its method
    by: Column | None = None,
    *,
    confidence: float = 0.95,
    **_: Any,
) -> Mapping[str, Any]:
    """Describe how well shares near one half would be known, where they are known least."""
    if not curator.measured:
        return {}
    sums: NoisyCounts = curator.planned
    n, assumption = rows_of(curator)
    each = n / len(by.categories or "") if by is not None else float(n)
    if sums.rows is not None:
        each = float(sums.rows.min())

    def releases(apart: float) -> NoisyCounts:
        """Return releases of two groups of which the first has a share larger by so much."""
        return sums.simulated([each, each], [0.5 + apart / 2, 0.5 - apart / 2], _TABLES)

    def found(apart: float) -> float:
        return power(releases(apart), _of_two, alpha=1 - confidence)

    near = releases(0.0)
    one = infer(near, share, _DRAWS)
    low, high = (np.median(share_of(end)) for end in one.interval(confidence))
    noise = float(np.median(one.noise_standard_error))  # of the angle, which near .5 moves as the share does
    findings: dict[str, Any] = {f"interval of a share of .5{assumption}": f"{low:.3f} to {high:.3f}"}
    if len(sums.values) > 1:
        ends = infer(near, _of_two, _DRAWS).interval(confidence)
        smallest = effect_for(POWER, found, 1.0)
        findings["interval of a difference of shares near .5"] = f"± {float(np.median(ends[1] - ends[0])) / 2:.3f}"
        excludes = f"smallest difference whose interval excludes 0 with probability {POWER}"
        findings[excludes] = f"{smallest:.3f}" if smallest < 1 else "none"
    return {**findings, "expected relative error": 2 * noise}


def _of_two(exact: Counts) -> tuple[Any, Any, float]:
    return difference(exact[0], exact[1])


def expect_pairs(
    curator: Curator,
    column: Column,  # noqa: ARG001 - a planner has the arguments of its method
    other: Column,  # noqa: ARG001
    *,
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
    **_: Any,
) -> Mapping[str, Any]:
    """Describe which difference of two shares would be found, if a quarter of the rows are discordant."""
    if not curator.measured:
        return {}
    n, assumption = rows_of(curator)
    sums: NoisyCounts = replace(curator.planned, rows=None)
    sign = -1 if alternative == "less" else 1

    def found(apart: float) -> float:
        expected = sums.simulated([n * _DISCORDANT], [(1 + sign * apart / _DISCORDANT) / 2], _TABLES)
        return power(expected, of_one, null=EVEN, alternative=alternative, alpha=alpha)

    smallest = effect_for(POWER, found, _DISCORDANT)
    given = f"with probability {POWER}, if they differ in a quarter of the rows{assumption}"
    shown = f"{smallest:.3f}" if math.isfinite(smallest) else "none: more epsilon, or more rows, are needed"
    return {f"smallest difference of the two shares found {given}": shown}


def expect_curves(
    curator: Curator,
    time: Column,
    event: Column,  # noqa: ARG001 - a planner has the arguments of its method
    edges: Sequence[float] | int,
    *,
    by: Column | None = None,
    groups: Sequence[Any] | None = None,
    confidence: float = 0.95,
    **_: Any,
) -> Mapping[str, Any]:
    """Describe how wide a band would be in the middle of a curve that falls evenly, no time censored."""
    if not curator.measured:
        return {}
    scale, ends = curator.measured[-1].scale, edges_of(time, edges)
    n, assumption = rows_of(curator)
    rows = float(n)
    if by is not None:
        kept = chosen_groups(by, groups, least=1, most=None)
        known = curator.sizes(by, kept)
        rows = n / len(by.categories or kept) if known is None else float(known.min())
    intervals = len(ends) - 1
    each = np.full(intervals, rows / intervals)
    curve = Curve(np.stack([each, 0 * each, 0 * each]), NoiseLaw(scale), ends)
    low, high = curve.bands(confidence)
    at = int(np.argmin(np.abs(curve.survival - 0.5)))
    band = f"width of the band where {curve.survival[at]:.0%} are left, no time censored{assumption}"
    return {band: float(high[at] - low[at])}


Spread = Annotated[float, Range(1e-12, 1e300)] | None
Rows = dict[str, Any]


def steps(
    rng: np.random.Generator,
    n: int,
    column: Column,
    by: Column,
    groups: Sequence[Any] | None,
    *,
    effect: float = 0.5,
    spread: Spread = None,
    first: Probability | None = None,
) -> Rows:
    """Make normal groups, each above the next by the effect, in standard deviations."""
    return groups_in_steps(rng, n, column, by, groups, effect, spread, first)


def differences(
    rng: np.random.Generator,
    n: int,
    column: Column,
    other: Column | None,
    popmean: float,
    *,
    effect: float = 0.5,
    spread: Spread = None,
) -> Rows:
    """Make normal differences, the effect above 0, in standard deviations."""
    d = popmean + spread_of(column, spread) * (effect + rng.normal(size=n))
    if other is None:
        return {column.name: d}
    base = np.full(n, np.clip(other.mid, column.low - popmean, column.high - popmean))
    return {column.name: base + d, other.name: base}


def shares(
    rng: np.random.Generator,
    n: int,
    column: Column,
    by: Column | None,
    success: Any,
    groups: Sequence[Any] | None,
    *,
    effect: float = 0.1,
    share: Probability = 0.5,
    first: Probability | None = None,
) -> Rows:
    """Make a share with the outcome in all groups but the first, where it is larger by the effect."""
    hit = (column.categories or ())[column.code(success)]
    return shares_of(rng, n, column, hit, by, groups, effect, share, first)


def differ(release: Proportions) -> bool:
    """Return whether the interval of the first two shares' difference leaves 0 out."""
    _, (low, high) = release.difference
    return low > 0 or high < 0


def flips(
    rng: np.random.Generator,
    n: int,
    column: Column,
    other: Column,
    success: Any,
    *,
    effect: float = 0.1,
    discordant: Probability = 0.25,
) -> Rows:
    """Make pairs of outcomes, some discordant, of which the first happens more often by the effect."""
    if not abs(effect) <= discordant:
        raise ArgumentError(
            f"Shares that are {abs(effect):g} apart need more than {discordant:g} discordant rows.", "Assume more."
        )
    u = rng.random(n)
    one = u < (discordant + effect) / 2
    two = (u >= (discordant + effect) / 2) & (u < discordant)
    both = rng.random(n) < 0.5  # noqa: PLR2004 - of the others

    def values(column: Column, happened: NDArray[np.bool_]) -> NDArray[Any]:
        known = column.categories or ()
        hit = known[column.code(success)]
        miss = next((each for each in known if each != hit), hit)
        return np.asarray(np.array([miss, hit], dtype=object)[happened.astype(int)])

    return {
        column.name: values(column, one | (both & ~two)),
        other.name: values(other, two | (both & ~one)),
    }


def lives(
    rng: np.random.Generator,
    n: int,
    time: Column,
    event: Column,
    by: Column | None,
    groups: Sequence[Any] | None,
    *,
    ratio: Annotated[float, Range(1e-3, 1e3)] = 1.5,
    censored: Probability | None = None,
    first: Probability | None = None,
) -> Rows:
    """Make exponential times, a third of the first group beyond the bounds, other hazards higher by the ratio."""
    known = sorted(event.categories or ())
    of = np.zeros(n, dtype=int) if by is None else labels(by, n, groups, first)
    lived = rng.exponential(size=n) * time.high / np.log(3) / np.where(of == 0, 1.0, ratio)
    happened = lived < time.high
    end = np.minimum(lived, time.high)
    if censored is not None:
        lost = rng.random(n) < censored
        end, happened = np.where(lost, end * rng.random(n), end), happened & ~lost
    rows = {time.name: end, event.name: np.array(known, dtype=object)[happened.astype(int)]}
    if by is not None:
        rows[by.name] = np.array(by.categories if groups is None else groups, dtype=object)[of]
    return rows
