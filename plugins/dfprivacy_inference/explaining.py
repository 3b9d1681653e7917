"""What rank tests could find out, said before anything is paid, from public numbers only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from dfprivacy_inference import k_groups
from dfprivacy_inference.asking import groups_of
from dfprivacy_inference.laws import Alternative, normal_laplace_cdf, normal_laplace_quantile
from dfprivacy_inference.signed import signed_rank_sd
from dfprivacy_inference.taper import taper
from dfprivacy_inference.two_groups import ENOUGH, SIZES, TIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from dfprivacy import Column, Curator

__all__ = ["POWER", "find_k", "find_signed", "find_survival", "find_two", "rows_of"]

POWER = 0.8
"""Of what is called found."""

_NONE = "none: more epsilon, or more rows, are needed"
_ROWS = 10_000  # that a table is taken to have where that is private
_STEPS = 40  # of a bisection


def rows_of(curator: Curator) -> tuple[int, str]:
    """Give the number of rows that a plan is for, and what to say of it where that is private."""
    n = curator.size
    return (_ROWS, f", of {_ROWS:,} rows") if n is None else (n, "")


def find_two(
    curator: Curator,
    column: Column,  # noqa: ARG001 - a planner has the arguments of its method
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
    **_: Any,
) -> Mapping[str, Any]:
    """Say which effect a rank test of two groups would find."""
    if not curator.measured:
        return {}
    effect = _effect_found(curator, by, groups, alternative, alpha)
    apart = f"{effect:.2f}, normal groups {2**0.5 * ndtri(min(effect, 1.0)):.2g} standard deviations apart"
    what = f"smallest effect P(X > Y) found with probability {POWER}{rows_of(curator)[1]}, at best"
    return {what: apart if effect < 1 else _NONE}


def find_survival(
    curator: Curator,
    time: Column,  # noqa: ARG001 - a planner has the arguments of its method
    event: Column,  # noqa: ARG001
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
    **_: Any,
) -> Mapping[str, Any]:
    """Say which effect a test of two survival curves would find."""
    if not curator.measured:
        return {}
    effect = _effect_found(curator, by, groups, alternative, alpha)
    ratio = f"{effect:.2f}, a hazard ratio of {effect / max(1 - effect, 1e-9):.2g} where no time is censored"
    what = f"smallest effect found with probability {POWER}{rows_of(curator)[1]}, at best"
    return {what: ratio if effect < 1 else _NONE}


def _effect_found(
    curator: Curator,
    by: Column,
    groups: Sequence[Any] | None,
    alternative: Alternative,
    alpha: float,
) -> float:
    """Give the effect of groups alike in size that is found."""
    kept = groups if groups is not None else by.categories
    rows = curator.sizes(by, None if kept is None else tuple(kept))
    scale = curator.measured[0].scale  # in units of the statistic, whose sensitivity is 1; of D/n it is 1/2
    n = rows_of(curator)[0] if rows is None else int(rows.sum())
    half = n // 2
    if curator.size is None:
        factor, pairs = 1 / n, float(half * (n - half))
    else:
        on = scale > 0 and n / scale >= ENOUGH
        if rows is None:
            factor, pairs = taper(n, n - half, SIZES if on else 0.0), float(half * (n - half))
        else:
            factor, pairs = 1 / float(rows.max()), float(rows.prod())
        factor /= 1 + TIES * on
    sd = factor * float(np.sqrt(pairs * (n + 1) / 12))
    tail = alpha / 2 if alternative == "two-sided" else alpha
    critical = normal_laplace_quantile(1 - tail, sd, scale)
    mean = critical + normal_laplace_quantile(POWER, sd, scale)
    return 0.5 + mean / (factor * pairs)


def find_k(
    curator: Curator,
    column: Column,  # noqa: ARG001 - a planner has the arguments of its method
    by: Column,
    *,
    groups: Sequence[Any] | None = None,
    alpha: float = 0.05,
    **_: Any,
) -> Mapping[str, Any]:
    """Say which effect a rank test of several groups would find, if one of them lies apart from all others."""
    if not curator.measured:
        return {}
    kept = groups_of(by, groups)
    rows = curator.sizes(by, kept)
    n = rows_of(curator)[0] if rows is None else int(rows.sum())
    shares = np.full(len(kept), 1 / len(kept)) if rows is None else rows / n
    first = shares[0]
    scale = curator.measured[0].scale  # in units of the statistic, whose sensitivity is 1; T/n moves by 1/2
    if curator.size is None:
        scale *= n
    else:
        told = k_groups.SHARE * (n / scale >= ENOUGH if scale else 0)
        scale *= (1 + told * (2 if rows is None else 1)) * (n - (1 if rows is None else float(rows.min())))
    sd = float(np.sqrt(n**2 * (n + 1) / 12))
    alone = k_groups.draws_of_sums(shares) * sd
    apart = np.where(np.arange(len(kept)) == 0, 1.0, -shares / (1 - first))  # of the D_j, if D_1 has the mean 1
    tails = np.abs(alone).sum(axis=1) / 2

    def beyond(t: float, statistic: NDArray[np.float64]) -> float:
        if not scale:
            return float((statistic >= t).mean())
        return float(normal_laplace_cdf(statistic - t, 1e-9 * scale, scale).mean())

    critical = _solve(lambda t: beyond(t, tails) <= alpha, n**2 + 40 * scale)
    mean = _solve(lambda m: beyond(critical, np.abs(alone + m * apart).sum(axis=1) / 2) >= POWER, n**2 + 40 * scale)
    effect = 0.5 + mean / (n**2 * first * (1 - first))
    shown = f"{effect:.2f}" if effect < 1 else _NONE
    what = f"smallest effect P(X > Y) of one group over all others found with probability {POWER}"
    return {f"{what}{rows_of(curator)[1]}, at best": shown}


def _solve(enough: Callable[[float], bool], high: float) -> float:
    """Find from where on there is enough."""
    low = 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def find_signed(
    curator: Curator,
    column: Column,  # noqa: ARG001 - a planner has the arguments of its method
    *,
    alternative: Alternative = "two-sided",
    alpha: float = 0.05,
    **_: Any,
) -> Mapping[str, Any]:
    """Say what would be measured, and which effect it would find."""
    ranks = curator.measured[0].what.startswith("SignedRankSum") if curator.measured else False
    what = {"measured": "signed ranks" if ranks else "signs"}
    if not curator.measured:
        return what
    n, scale = rows_of(curator)[0], curator.measured[0].scale
    if curator.size is None:  # W/(n + 1), and two counts
        unit, scale = (1 / (n + 1), scale) if ranks else (1.0, 2**0.5 * scale)
    else:
        unit = 1 / (2 * n) if ranks else 1 / 2
    sd, most = (float(signed_rank_sd(n)), n * (n + 1)) if ranks else (n**0.5, 2 * n)
    sd *= unit
    tail = alpha / 2 if alternative == "two-sided" else alpha
    mean = normal_laplace_quantile(1 - tail, sd, scale) + normal_laplace_quantile(POWER, sd, scale)
    effect = 0.5 + mean / unit / most
    shown = f"{effect:.2f}" if effect < 1 else _NONE
    kind = "P(d + d' > 0)" if ranks else "P(d > 0)"
    return {**what, f"smallest {kind} found with probability {POWER}{rows_of(curator)[1]}, at best": shown}
