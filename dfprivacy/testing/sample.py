"""The audit of secret samples: a mechanism on samples of tables that differ in one row."""

from __future__ import annotations

import itertools
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from dfprivacy._privacy.amplification import on_sample
from dfprivacy._privacy.losses import Approximate, Pure
from dfprivacy._table import sample
from dfprivacy.errors import DPError
from dfprivacy.testing.cases import few
from dfprivacy.testing.discipline import Audit, Failed, Skipped
from dfprivacy.testing.exact import distance, loss_between
from dfprivacy.testing.harness import Harness, with_first

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dfprivacy._table.frames import Frame
    from dfprivacy.testing.cases import Row
    from dfprivacy.testing.exact import Loss
    from dfprivacy.testing.harness import Recording
    from dfprivacy.view import PrivateFrame

__all__ = ["samples_stand_alone"]

_SHARE = Fraction(1, 2)
_CORNERS = 3


@dataclass(frozen=True)
class _OfSample(Harness):
    """A mechanism asked of a secret sample of which the first half of the rows is drawn."""

    def whole(self, frame: Frame, account: Any) -> PrivateFrame:
        """Make a view of a sample."""
        return super().whole(frame, account).sample(_SHARE)


def samples_stand_alone(audit: Audit) -> str:
    """Catch a secret sample of two questions, or of rows that are not drawn, and a price that it does not cover.

    Ask of samples: what a row of one may cost there, that others have no influence, and what is charged.
    """
    if audit.case.other is not None:
        raise Skipped("two tables are asked together only as a whole")
    audit.answered()
    rows = audit.rows[: len(audit.rows) - (len(audit.rows) + 1) % 2]  # of an odd number, one less moves no other
    stage = _OfSample(audit.mechanism, audit.case)
    with _first_half() as drawn:
        base = stage.trace(rows)
        if base.refused:
            return "refused"
        corners = few(replace(stage.case, public=()), rows)[:_CORNERS]  # no column of a sample is public
        if not base.charges:
            if any(stage.trace(with_first(rows, row)).outcome != base.outcome for row in corners):
                raise Failed("something private of a sample comes for nothing")
            return "answered"
        share = _check_drawn(stage, rows, base, drawn)
        if base.opaque:
            return "answered"
        until = len(base.given) or None
        traces = [stage.trace(with_first(rows, row), transcript=base.given, until=until) for row in corners]
        outside = [stage.trace([*rows[:-1], row], transcript=base.given, until=until) for row in corners[-2:]]
        if stage.case.neighbors == "add_remove":
            nobody = stage.trace(rows[1:], transcript=base.given, until=until)
            pairs = [(nobody, each) for each in traces]
        else:
            pairs = [*itertools.combinations(traces, 2)]
    if any(distance(each, base) for each in outside):
        raise Failed("a row that is not drawn moves what is measured")
    loss = max((_loss(share, *pair) for pair in pairs), key=lambda loss: loss.epsilon)
    if loss.exceeds:
        raise Failed(
            f"samples that differ in one row are told apart by epsilon {loss.epsilon:.6g}, where "
            f"{float(base.epsilon):.6g} was charged, which is worth {loss.charge:.6g} on them"
        )
    return f"loss {loss.epsilon:.6g} of {loss.charge:.6g}, for {float(base.epsilon):.6g} charged"


def _loss(share: Fraction, one: Recording, other: Recording) -> Loss:
    """Compute the loss between two samples, with what the charge is worth on them in place of it."""
    worth, delta = on_sample(one.epsilon, share), one.delta / share
    price = (Approximate(worth, delta) if delta else Pure(worth),)
    return loss_between(replace(one, charges=price), replace(other, charges=price), (None, None), "sample")


def _check_drawn(stage: Harness, rows: Sequence[Row], base: Recording, drawn: list[int]) -> Fraction:
    """Let each question of a view draw another sample, and be charged what was asked; the share that is drawn."""
    first, accounts = len(drawn), stage.accounts_of([])
    question = stage.question(stage.views(stage.frames(rows), accounts))
    if base.epsilon != question.epsilon:
        raise Failed(f"epsilon {float(base.epsilon):.6g} was charged, and {float(question.epsilon):.6g} was asked")
    with suppress(DPError):
        question.ask()
    with suppress(DPError):
        question.ask()
    if len(drawn) != 3 * first:
        raise Failed("two questions see one sample")
    return question.target.table.sample.share  # type: ignore[union-attr]


@contextmanager
def _first_half() -> Iterator[list[int]]:
    """Draw the first half of the rows, in order, and write down when."""
    drawn: list[int] = []

    def in_order(count: int) -> Any:
        drawn.append(count)
        return np.arange(count)

    with (
        mock.patch.object(sample, "distinct", lambda _, count: np.arange(count)),
        mock.patch.object(sample, "coins", lambda _, count: np.arange(count) < (count + 1) // 2),
        mock.patch.object(sample, "shuffled", in_order),
    ):
        yield drawn
