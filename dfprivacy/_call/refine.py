"""To measure again what a release stands on, and to pool both answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dfprivacy._call.combine import checked_input, concluded, refuse_undrawable, weighted
from dfprivacy._call.recalled import asked_again
from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dfprivacy._call.combine import Combination
    from dfprivacy._call.target import Target
    from dfprivacy.release import Release

__all__ = ["refined"]

_SAID = "Measured {} times, and pooled with weights in inverse proportion to the variance of the noise."
_PAID = (
    "The second answer was measured, and epsilon {:g} is paid: the question gives it at this price, at no charge."
)
_STOPPED = "If it was measured again because of what the first answer was, the interval does not know that."


def refined(
    target: Target, release: Release, of: Callable[..., float] | None, epsilon: object, delta: object
) -> Combination:
    """Ask a question once more at a price, and pool one number of the answers; see `PrivateFrame.refine`."""
    leaf, number, times = checked_input(release, of)
    refuse_undrawable(release, number)  # all that can be refused is refused while nothing is paid
    answered = leaf.answered
    question, account = answered.question, answered.account
    if (account.name, answered.ledger) != (target.account.name, target.account.ledger.where):
        raise ArgumentError(
            f"This release is of the data set {account.name!r}, not of {target.account.name!r}.",
            f"Refine it through the view of {account.name!r}.",
        )
    if question.target.table.parts:
        raise ArgumentError(
            "An answer about two data sets cannot be refined.", "Ask it again with fresh=True, and use both."
        )
    if leaf.key is not None:
        raise ArgumentError(
            "One group of an answer cannot be measured again alone.",
            f"Refine all groups: view.refine(groups, lambda g: g[{leaf.key!r}]..., epsilon=...).",
        )
    price = target.price(epsilon, delta, takes_delta=question.mechanism.delta)
    if question.target.table.frame is None:  # who held the table has gone, or it was another process
        found = asked_again(question, answered.release)
        if found is None:
            raise ArgumentError(
                "The rows of this answer are not here: they were protected elsewhere, or are others by now.",
                "Ask its question of the view.",
            )
        question = found
    again = replace(
        question,
        target=replace(target, table=question.target.table),
        epsilon=price[0],
        delta=price[1],
        words=[str(each) for each in price],
        fresh=True,
    ).ask()
    try:
        node, estimate = weighted(release, again, number)
        return concluded(node, estimate, privacy=again.privacy, notes=(_SAID.format(times + 1), _STOPPED))
    except ArgumentError as error:
        raise error.after(_PAID.format(float(price[0]))) from None
