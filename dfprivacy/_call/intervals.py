"""What no interval from redrawn noise covers, and what sampling adds to one that does."""

from __future__ import annotations

import dis
import itertools
import math
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._call.formula import Shifted, main
from dfprivacy._table.conditions import Between, IsIn
from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dfprivacy._call.answered import Part
    from dfprivacy._call.formula import Node
    from dfprivacy._table.conditions import Condition

__all__ = ["ends_of", "refuse_choices", "refuse_leaning", "sampling_of"]

_LEANS = 0.1  # how far the share of draws below the value may lie from a half: see refuse_leaning
_CHOICES = frozenset(
    {"max", "min", "sorted", "argmax", "argmin", "maximum", "minimum", "fmax", "fmin", "amax", "amin"}
    | {"nanmax", "nanmin", "clip", "sort", "argsort", "partition", "argpartition", "rankdata"}
)


def refuse_choices(f: Callable[..., Any]) -> None:
    """Refuse a function that says itself that it takes a maximum: `refuse_leaning` does not see them all."""
    code = getattr(f, "__code__", None)
    todo = [code] if isinstance(code, types.CodeType) else []
    taken = next((each.__name__ for each in (max, min, sorted) if f is each), None)
    while todo and taken is None:
        each = todo.pop()
        todo += [one for one in each.co_consts if isinstance(one, types.CodeType)]
        steps = list(dis.get_instructions(each))
        for before, step in zip([None, *steps], steps, strict=False):
            called = step.opname == "LOAD_METHOD" or "NULL" in step.argrepr  # not a field of such a name
            owner = f.__globals__.get(before.argval) if before and before.opname == "LOAD_GLOBAL" else None
            module = step.opname == "LOAD_ATTR" and isinstance(owner, types.ModuleType)
            by_itself = step.opname in {"LOAD_GLOBAL", "LOAD_NAME"}
            if step.argval in _CHOICES and (called or module or by_itself):
                taken = str(step.argval)
    if taken is not None:
        raise ArgumentError(
            f"The function takes {taken}(): of noisy numbers the largest is too large, and no interval from "
            "redrawn noise covers it.",
            "Compare two that were named before, or ask a method that chooses, such as quantile or chi2_many.",
        )


def refuse_leaning(draws: NDArray[np.float64], estimate: float) -> None:
    """Refuse a value that fresh noise moves to one side, as a maximum or a sum of clipped counts.

    If the value is normal on some scale, and a share p of the draws lies below it, percentiles of 95 % cover with
    probability Φ(1.96 - 2z) - Φ(-1.96 - 2z), z being the normal quantile of p (Efron 1987): .92 where p is .4.
    """
    same = 1e-9 * max(abs(estimate), float(np.abs(draws[np.isfinite(draws)]).max(initial=0.0)))
    half = float(np.isnan(draws).mean()) / 2  # on which side these are is not known
    below = float((draws < estimate - same).mean()) + half
    upto = float((draws <= estimate + same).mean()) + half
    if below > 0.5 + _LEANS or upto < 0.5 - _LEANS:
        raise ArgumentError(
            f"Fresh noise moves the value to one side: {below:.0%} of the draws are below it, not about half, so "
            "no interval from them covers. So it is with maxima, ranks and sums of counts that were cut off at 0.",
            "Combine numbers from before anything was chosen, cut off or squared: raw counts, sums and means.",
        )


def ends_of(draws: NDArray[np.float64], tail: float) -> tuple[float, float]:
    """Compute the percentiles beyond which this share of the draws lies, those that are no number on both sides."""
    unknown = np.isnan(draws)
    with np.errstate(invalid="ignore"):  # between a finite draw and an infinite one
        low = np.quantile(np.where(unknown, -np.inf, draws), tail, method="weibull")
        high = np.quantile(np.where(unknown, np.inf, draws), 1 - tail, method="weibull")
    return (-math.inf if np.isnan(low) else float(low)), (math.inf if np.isnan(high) else float(high))


def sampling_of(node: Node) -> tuple[float, bool]:
    """Bound the standard error that the sampling of rows adds to a function of estimates.

    Parameters
    ----------
    node : Node
        The function. What it does to estimates is taken to be linear within their sampling errors.

    Returns
    -------
    float
        The root of the sum over i, j of abs(c_i c_j), where i and j may be about the same rows; c_i is half of what
        f changes by from the i-th estimate less its sampling error to the same with it added.
    bool
        Whether all are about different rows: then it is no bound, but the standard error.

    Raises
    ------
    ArgumentError
        If the sampling error of an estimate is not known, or the function looks at something else.
    """
    parts = node.parts()
    moved = []
    for part in parts:
        error = part.release._sampling  # noqa: SLF001 - of our own kind
        if error is None:
            raise ArgumentError(
                f"How far the sampling of rows moves {part.answered.in_words()} is not known.",
                "Take the estimates of t-tests, or leave out covers=: then the interval is for the table's own "
                "number.",
            )
        main(part.release)
        up, down = (node.value(Shifted(part, sign * error)) for sign in (1, -1))
        moved.append(abs(up - down) / 2)
    squared, apart = sum(each**2 for each in moved), True
    for (i, first), (j, second) in itertools.combinations(enumerate(parts), 2):
        if not _disjoint(first, second):
            apart = False
            squared += 2 * moved[i] * moved[j]
    return math.sqrt(squared), apart


def _disjoint(first: Part, second: Part) -> bool:
    """Whether two answers are about different rows of one table, as their conditions say."""
    if first.answered.account != second.answered.account or first.table.parts or second.table.parts:
        return False
    pairs = itertools.product(first.table.conditions, second.table.conditions)
    return any(_exclude(one, other) for one, other in pairs)


def _exclude(one: Condition, other: Condition) -> bool:
    match one, other:
        case IsIn(), IsIn():
            return one.column == other.column and not {*one.categories} & {*other.categories}
        case Between(), Between():
            return one.column == other.column and (one.high < other.low or other.high < one.low)
    return False
