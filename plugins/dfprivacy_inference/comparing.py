"""What all rank tests of two groups share: the measurement of a rank sum, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import Column, Curator
from dfprivacy.schema import UNDECLARED
from dfprivacy_inference.asking import all_categories, enough, public_sizes
from dfprivacy_inference.rank_results import plain
from dfprivacy_inference.statistics import RankSum
from dfprivacy_inference.two_groups import COMPLETE, ENOUGH, SIZES, TIES, Shapes, TwoGroups

if TYPE_CHECKING:
    from dfprivacy.inference.engine import Alternative
    from dfprivacy_inference.scores import Scores

__all__ = ["conclude_two", "measure_two"]

_NOISY = 2.0  # times the error of sampling
_ROWS_FOR_COMPLETE = 13  # from which on counting complete rows is free, by the proof


def measure_two(curator: Curator, scores: Scores, by: Column, pair: tuple[Any, ...]) -> TwoGroups:
    """Measure the rank sum of the first of two groups.

    Parameters
    ----------
    curator : Curator
        Who measures.
    scores : Scores
        What is compared.
    by : Column
        The column of the groups.
    pair : tuple of two categories
        The groups.

    Returns
    -------
    TwoGroups
        The noisy numbers.
    """
    codes = (by.code(pair[0]), by.code(pair[1]))
    rows = public_sizes(curator, by, pair)
    n = enough(curator.size if rows is None else sum(rows))
    on = n is not None and n * curator.epsilon >= ENOUGH
    complete = bool(scores.gaps) or (rows is None and not (by.other and all_categories(by, pair)))
    if n is None:  # what ties leave is not measured there
        on, complete = False, False
        parts = {"ties": TIES * (scores.spread == "variance")}
    elif rows is not None:
        parts = {"complete": float(complete), "ties": TIES * on}
    else:
        on = on and (n >= _ROWS_FOR_COMPLETE or not complete)
        complete = on and complete
        parts = {"sizes": SIZES * on, "complete": COMPLETE * complete, "ties": TIES * on}
    known = None if rows is None else (rows[0], rows[1])
    noisy = curator.measure(RankSum(scores, by, codes, n, known, **parts))
    return TwoGroups(
        noisy.values,
        plain(noisy.scales),
        n,
        known,
        sized=on and rows is None,
        complete=complete,
        spread=scores.spread if parts["ties"] else None,
    )


def conclude_two(
    two: TwoGroups,
    by: Column,
    pair: tuple[Any, ...],
    alternative: Alternative,
    alpha: float,
    confidence: float,
    shapes: Shapes = "similar",
) -> dict[str, Any]:
    """Give the fields of a result that all rank tests of two groups have."""
    found = two.effect(shapes)
    p = float(found.pvalue(0.5, alternative))
    low, high = map(float, (0.0, 1.0) if two.unsized else found.interval(confidence))
    effect = float(np.clip(found.estimate, 0.0, 1.0))
    noise, sampling = float(found.noise_standard_error), float(found.sampling_standard_error)
    told = np.nan if two.unsized else 1.0
    missing, error = (two.missing if all_categories(by, pair) else None) or (None, None)
    return {
        "term": f"P({pair[0]} > {pair[1]})",
        "estimate": told * effect,
        "standard_error": told * float(found.standard_error),
        "noise_standard_error": told * noise,
        "low": low,
        "high": high,
        "confidence": confidence,
        "null": 0.5,
        "pvalue": p,
        "alternative": alternative,
        "alpha": alpha,
        "rejected": p <= alpha,
        "n": float(sum(two.sizes)),
        "sizes": None if two.unsized else plain(two.sizes),
        "by": by.name,
        "groups": pair,
        "missing": missing,
        "missing_standard_error": error,
        "shapes": shapes,
        "notes": _notes(two, noise / sampling),
        "released": two.released,
    }


def _notes(two: TwoGroups, times: float) -> tuple[str, ...]:
    """Say what to know about a rank test of two groups."""
    notes = []
    if two.unsized:
        notes.append(
            "There is no effect size: the sizes of the groups are private, and are measured only from "
            f"{ENOUGH / (two.n or 1):.2g} of epsilon on. The p-value is conservative unless they are alike."
        )
    elif two.doubtful:
        notes.append(
            f"The size of a group may be mostly noise: the effect and its interval say little. {UNDECLARED}"
        )
    if two.coarse:
        notes.append(
            "Most values are equal, and few others are in the smaller group: the normal law is not good enough for "
            "small p-values. proportions() and chi2() count."
        )
    if times > _NOISY:
        notes.append(
            f"Privacy noise is {times:.2g} times the sampling error. To make them equal: {times:.2g} times the "
            f"epsilon, or {times**2:.2g} times the rows."
        )
    return tuple(notes)
