"""What rank tests could find out, said before anything is paid, from public numbers only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from dfprivacy_inference.laws import Alternative, normal_laplace_quantile
from dfprivacy_inference.pairs import signed_rank_sd
from dfprivacy_inference.taper import taper
from dfprivacy_inference.two_groups import ENOUGH, SIZES, TIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dfprivacy import Column, Curator

__all__ = ["find_signed", "find_survival", "find_two"]

_POWER = 0.8
_NONE = "none: more epsilon, or more rows, are needed"


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
    effect = _effect_found(curator, by, groups, alternative, alpha, ties=TIES)
    if effect is None:
        return {}
    apart = f"{effect:.2f}, normal groups {2**0.5 * ndtri(min(effect, 1.0)):.2g} standard deviations apart"
    return {f"smallest effect P(X > Y) found with probability {_POWER}, at best": apart if effect < 1 else _NONE}


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
    effect = _effect_found(curator, by, groups, alternative, alpha, ties=0.0)
    if effect is None:
        return {}
    ratio = f"{effect:.2f}, a hazard ratio of {effect / max(1 - effect, 1e-9):.2g} where no time is censored"
    return {f"smallest effect found with probability {_POWER}, at best": ratio if effect < 1 else _NONE}


def _effect_found(
    curator: Curator,
    by: Column,
    groups: Sequence[Any] | None,
    alternative: Alternative,
    alpha: float,
    *,
    ties: float,
) -> float | None:
    """Give the effect of groups alike in size that is found; None where the number of rows is private."""
    kept = groups if groups is not None else by.categories
    rows = curator.sizes(by, None if kept is None else tuple(kept))
    n = curator.size if rows is None else int(rows.sum())
    if n is None or not curator.measured:
        return None
    scale = curator.measured[0].scale  # in units of the statistic, whose sensitivity is 1
    on = scale > 0 and n / scale >= ENOUGH
    if rows is None:
        half = n // 2
        factor = taper(n, n - half, SIZES if on else 0.0)
        pairs = float(half * (n - half))
    else:
        factor, pairs = 1 / float(rows.max()), float(rows.prod())
    factor /= 1 + ties * on
    sd = factor * float(np.sqrt(pairs * (n + 1) / 12))
    tail = alpha / 2 if alternative == "two-sided" else alpha
    critical = normal_laplace_quantile(1 - tail, sd, scale)
    mean = critical + normal_laplace_quantile(_POWER, sd, scale)
    return 0.5 + mean / (factor * pairs)


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
    n = curator.size
    if n is None or not curator.measured:
        return what
    scale = curator.measured[0].scale
    sd, most = (float(signed_rank_sd(n)) / (2 * n), (n + 1) / 2) if ranks else (n**0.5 / 2, n / 2)
    tail = alpha / 2 if alternative == "two-sided" else alpha
    mean = normal_laplace_quantile(1 - tail, sd, scale) + normal_laplace_quantile(_POWER, sd, scale)
    effect = 0.5 + mean / most / 2
    shown = f"{effect:.2f}" if effect < 1 else _NONE
    kind = "P(d + d' > 0)" if ranks else "P(d > 0)"
    return {**what, f"smallest {kind} found with probability {_POWER}, at best": shown}
