"""What all tests of two groups share: the measurement of a rank sum, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy import Column, Curator
from dfprivacy.schema import UNDECLARED
from dfprivacy_inference import two_groups
from dfprivacy_inference.asking import all_categories, enough, public_sizes
from dfprivacy_inference.laws import Alternative
from dfprivacy_inference.rank_results import plain
from dfprivacy_inference.statistics import RankSum, RankSumOfKnownGroups, RankSumPerRow
from dfprivacy_inference.two_groups import ENOUGH, Shapes, TwoGroups, coarse

if TYPE_CHECKING:
    from dfprivacy.release import NoisyValue
    from dfprivacy_inference.scores import Scores, Spread

__all__ = ["TwoMeasured", "conclude_two", "measure_two"]

_ROWS_FOR_COMPLETE = 13  # from which on counting complete rows is free, by the proof


@dataclass(frozen=True)
class TwoMeasured:
    """Noisy numbers about two groups, and what they are.

    Attributes
    ----------
    noisy : NoisyValue
        The coordinates of a statistic.
    n : int or None
        Number of rows, None where it is private.
    rows : tuple of two int, or None
        Rows of each group, where they are public.
    sizes, complete : bool
        Whether there are the sizes of the first and of both groups.
    spread : {"ties", "variance"} or None
        What the last coordinate is, if it is there.
    shift : float or None
        What was selected from a grid of shifts.
    """

    noisy: NoisyValue
    n: int | None
    rows: tuple[int, int] | None
    sizes: bool = False
    complete: bool = False
    spread: Spread | None = None
    shift: float | None = None


def measure_two(
    curator: Curator,
    scores: Scores,
    by: Column,
    pair: tuple[Any, Any],
    *,
    share: Fraction | None = None,
) -> TwoMeasured:
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
    share : Fraction, optional
        The part of the call's budget.

    Returns
    -------
    TwoMeasured
        The noisy numbers.
    """
    codes = (by.code(pair[0]), by.code(pair[1]))
    rows = public_sizes(curator, by, pair)
    n = enough(curator.size if rows is None else sum(rows))
    if n is None:
        varies = scores.spread == "variance"  # what ties leave is not measured where the number of rows is private
        noisy = curator.measure(RankSumPerRow(scores, by, codes, ties=two_groups.TIES * varies), share=share)
        return TwoMeasured(noisy, None, None, spread="variance" if varies else None)
    on = n * curator.epsilon * float(share or 1) >= ENOUGH
    if rows is not None:
        complete, known = bool(scores.gaps), (rows[0], rows[1])
        noisy = curator.measure(
            RankSumOfKnownGroups(scores, by, codes, known, complete=complete, ties=two_groups.TIES * on),
            share=share,
        )
        return TwoMeasured(noisy, n, known, complete=complete, spread=scores.spread if on else None)
    complete = bool(scores.gaps) or not (by.other and all_categories(by, pair))
    on = on and (n >= _ROWS_FOR_COMPLETE or not complete)
    statistic = RankSum(
        scores,
        by,
        codes,
        n,
        sizes=two_groups.SIZES * on,
        complete=two_groups.COMPLETE * (on and complete),
        ties=two_groups.TIES * on,
    )
    noisy = curator.measure(statistic, share=share)
    told = scores.spread if on else None
    return TwoMeasured(noisy, n, None, sizes=on, complete=on and complete, spread=told)


def two_of(measured: TwoMeasured) -> TwoGroups:
    """Read what was measured."""
    values, scales = list(measured.noisy.values), [float(scale) for scale in measured.noisy.scales]
    if measured.n is None:
        return two_groups.per_row(values, scales, measured.spread)
    if measured.rows is not None:
        return two_groups.known_groups(
            values, scales, measured.rows, complete=measured.complete, spread=measured.spread
        )
    return two_groups.tapered(
        values, scales, measured.n, sizes=measured.sizes, complete=measured.complete, spread=measured.spread
    )


def conclude_two(
    measured: TwoMeasured,
    by: Column,
    pair: tuple[Any, Any],
    alternative: Alternative,
    alpha: float,
    confidence: float,
    shapes: Shapes,
) -> dict[str, Any]:
    """Give the fields of a result that all tests of two groups have, and what they follow from as ``"two"``."""
    two = two_of(measured)
    p = float(two.pvalue(alternative, shapes))
    ends = two.interval(confidence, shapes)
    alone = replace(two, scale=0 * two.scale, relative=0 * two.relative).interval(confidence, shapes)
    missing = error = None
    if measured.n is not None and measured.complete and all_categories(by, pair):
        scales, values = measured.noisy.scales, measured.noisy.values
        counted, noise = (
            (values[2], scales[2]) if measured.rows is None else (values[1:3].sum(), scales[1] * 2**0.5)
        )
        missing, error = float(measured.n - counted), float(2**0.5 * noise)
    return {
        "two": two,
        "pvalue": p,
        "alpha": alpha,
        "rejected": p <= alpha,
        "effect": None if two.effect is None else float(two.effect),
        "low": None if ends is None else float(ends[0]),
        "high": None if ends is None else float(ends[1]),
        "noise_share": _part(ends, alone),
        "confidence": confidence,
        "sizes": None if two.sizes is None else plain(two.sizes),
        "groups": pair,
        "alternative": alternative,
        "missing": missing,
        "missing_standard_error": error,
        "notes": _notes(two, measured),
        "released": plain(measured.noisy.values),
        "noise_standard_error": plain(np.sqrt(2) * measured.noisy.scales),
    }


def _part(ends: tuple[Any, Any] | None, alone: tuple[Any, Any] | None) -> float | None:
    """Give the part of an interval's width that is not there without the noise."""
    if ends is None or alone is None or not (width := float(ends[1] - ends[0])):
        return None
    return max(1 - float(alone[1] - alone[0]) / width, 0.0)


def _notes(two: TwoGroups, measured: TwoMeasured) -> tuple[str, ...]:
    """Say what to know about a test of two groups."""
    notes = []
    if two.sizes is None:
        notes.append(
            "There is no effect size: the sizes of the groups are private, and are measured only from "
            f"{ENOUGH / (measured.n or 1):.2g} of epsilon on. The p-value is conservative unless they are alike."
        )
    elif measured.rows is None and min(float(each) for each in two.sizes) < _doubtful(measured):
        notes.append(
            f"The size of a group may be mostly noise: the effect and its interval say little. {UNDECLARED}"
        )
    if measured.spread == "ties" and bool(coarse(two, measured.noisy.values[3])):
        notes.append(
            "Most values are equal, and few others are in the smaller group: the normal law is not good enough for "
            "small p-values. proportions() and chi2() count."
        )
    times = float(2**0.5 * two.scale / two.sd)
    if times > 2:  # noqa: PLR2004
        notes.append(
            f"The noise is {times:.2g} times the error of sampling; {times:.2g} times the epsilon, or "
            f"{times**2:.2g} times the rows, would level them."
        )
    return tuple(notes)


def _doubtful(measured: TwoMeasured) -> float:
    """Give the size below which a noisy size is mostly noise."""
    return float(3 * 2**0.5 * measured.noisy.scales[1])
