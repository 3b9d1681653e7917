"""Refinement of releases: their question is asked again, and a number of both answers is pooled."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dfprivacy._call.combine import finite_number, main_value, make_combination, spread_of_draws, values_under_draws
from dfprivacy._call.question import question_of_release
from dfprivacy.errors import ArgumentError
from dfprivacy.release import Release

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfprivacy._call.combine import Combination
    from dfprivacy._call.payment import Target

__all__ = ["refine_release"]

_POOLED = "Measured {} times, and pooled with weights inversely proportional to the variance of the noise."
_PAID = (
    "The second answer was measured and paid, epsilon {:g}: asking the question again at this price costs nothing."
)
_STOPPED = "The interval does not account for a decision to measure again that depended on the first answer."


def refine_release(
    target: Target, release: Release, of: Callable[..., float] | None, epsilon: object, delta: object
) -> Combination:
    """Ask the question of a release again, and pool one number of both answers; see `PrivateFrame.refine`."""
    if not isinstance(release, Release):
        raise ArgumentError(
            f"refine() takes a release, not {type(release).__name__}.", "Pass an answer of this view."
        )
    pooled = vars(release).get("_pooled") if of is None else None
    first, number, times = pooled or (release, of or main_value, 1)
    question = question_of_release(first)
    if question is None:
        raise ArgumentError(
            "The question of this release is not known to this process: the release comes from another process, is "
            "one group of an answer, or is a combination.",
            "Ask the question again, or refine the answer for all groups: "
            "view.refine(groups, lambda g: g['a'].estimate, epsilon=...).",
        )
    account = question.target.account
    if (account.name, account.ledger.where) != (target.account.name, target.account.ledger.where):
        raise ArgumentError(
            f"This release is of the account {account.name!r}, not of {target.account.name!r}.",
            f"Refine it through a view of {account.name!r}.",
        )
    if question.target.table.parts:
        raise ArgumentError(
            "An answer about two data sets cannot be refined.",
            "Ask its question again with fresh=True.",
        )
    if question.target.table.frame is None:
        raise ArgumentError(
            "The view of this answer was deleted, so that its rows cannot be read.",
            "Ask the question again with a new view.",
        )
    # What can be refused is refused while nothing is paid.
    make_combination(_number_reader(release, number), [release], "")
    price = target.price(epsilon, delta, takes_delta=question.mechanism.delta)
    again = replace(
        question,
        target=replace(target, table=question.target.table),
        epsilon=price[0],
        delta=price[1],
        words=[str(each) for each in price],
        fresh=True,
    ).ask()
    try:
        return _pool_answers(release, again, (first, number, times + 1))
    except ArgumentError as error:
        raise error.after(_PAID.format(float(price[0]))) from None


def _number_reader(release: Release, number: Callable[..., float]) -> Callable[..., Any]:
    """Return the function that reads the number to pool: `number`, or the main value of a pooled release."""
    return main_value if "_pooled" in vars(release) else number


def _pool_answers(
    release: Release, again: Release, pooled: tuple[Release, Callable[..., float], int]
) -> Combination:
    _, number, times = pooled
    numbers = _number_reader(release, number), number
    one, two = (
        spread_of_draws(values_under_draws(f, [each])) ** 2
        for f, each in zip(numbers, (release, again), strict=True)
    )
    if not math.isfinite(one + two):
        raise ArgumentError(
            "The number is infinite under some draws of the noise in one of the two answers.",
            "Use the other answer alone.",
        )
    part = two / (one + two) if one + two > 0 else 0.5

    def weighted_mean(a: Any, b: Any) -> float:
        values = (finite_number(f(each), "The pooled number") for f, each in zip(numbers, (a, b), strict=True))
        return sum(weight * value for weight, value in zip((part, 1 - part), values, strict=True))

    words = f"{again.privacy.question if again.privacy else ''}, pooled"
    notes = (_POOLED.format(times), _STOPPED)
    made = make_combination(weighted_mean, [release, again], words, privacy=again.privacy, notes=notes)
    vars(made)["_pooled"] = pooled
    return made
