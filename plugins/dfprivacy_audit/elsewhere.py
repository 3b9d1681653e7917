"""Check of a mechanism in variants of the cases that its author gave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dfprivacy_audit.cases import few_rows, further_tables, tables, variants_among
from dfprivacy_audit.exact import (
    Family,
    Loss,
    largest_loss,
    small_family,
    statistics_of,
    worst_loss,
    worst_rows,
    worst_table,
)
from dfprivacy_audit.harness import Failed, Harness, public_part, with_first_row

if TYPE_CHECKING:
    from dfprivacy_audit.cases import Case
    from dfprivacy_audit.discipline import Audit

__all__ = ["holds_in_other_cases"]

_STEPS = 8  # changes of a table, in each variant
_REPEATS = 30  # of a mechanism with chance of its own, which comes out the same now and then


@dataclass(frozen=True)
class VariantOutcome:
    """Outcome of a variant of a case: its privacy loss, whether it has a result, and how results differ."""

    loss: Loss | None
    answered: bool
    differs: str = ""


def holds_in_other_cases(audit: Audit) -> str:
    """Catch too little noise in variants of the cases: with other groups, bounds, public columns or epsilon."""
    audit.answered()
    refused, failed, used = [], [], []
    for name, tried in variants_among(audit.mechanism, audit.others or [audit.case], audit.case):
        seen = next(filter(None, map(partial(_outcome_of_variant, audit), tried)), None)
        if seen is None:
            refused.append(name)
            continue
        if seen.differs:
            raise Failed(f"with {name}, {seen.differs}")
        if seen.loss and seen.loss.exceeds:
            loss = seen.loss
            raise Failed(
                f"with {name}, two neighbouring tables ({loss.table}: {loss.pair[0]} against {loss.pair[1]}) "
                f"have a privacy loss of {loss.epsilon:.6g}, but only {loss.charge:.6g} was charged"
            )
        used.append(seen.loss.tightness if seen.loss else 0.0)
        failed += [] if seen.answered else [name]
    words = [f"{len(used)} variants pass; their largest loss is {max(used, default=0.0):.4f} of the charge"]
    words += [f"refused: {', '.join(refused)}"] if refused else []
    words += [f"charged without a result: {', '.join(failed)}"] if failed else []
    return "; ".join(words)


def _outcome_of_variant(audit: Audit, case: Case) -> VariantOutcome | None:
    """Return the outcome of a variant on several tables; None if the mechanism refuses the variant."""
    harness = Harness(audit.mechanism, case)
    rows = tables(case)["mixed"]
    base, statistics = statistics_of(harness, rows)
    if base.refused:
        return None
    answered = base.release is not None
    if not base.replayable:
        return VariantOutcome(None, answered)
    ours = [row for row in few_rows(case, rows) if public_part(case, row) == public_part(case, rows[0])]
    for row in (ours[0], ours[-1]):
        neighbor = with_first_row(rows, row)
        other = harness.trace(neighbor, transcript=base.given)
        if other.outcome != base.outcome and all(
            harness.trace(table, transcript=base.given).outcome == first.outcome
            for _ in range(_REPEATS)
            for table, first in ((neighbor, other), (rows, base))
        ):
            return VariantOutcome(
                None, answered, f"given the same noisy sums its result differs if the first row is {row}"
            )
    made = {"mixed": rows, **further_tables(case)} if base.draws else {}
    if not audit.thorough:
        made = dict([*made.items()][::3])
    families: list[Family | None] = []
    for name, table in made.items():
        known = None if statistics else next(filter(None, families), None)
        families.append(small_family(harness, name, table, len(base.draws), worst_rows(case, known, table[0])))
    measurable = [family for family in families if family]
    if not measurable:
        return VariantOutcome(None, answered)
    losses = [worst_loss(measurable, n_families=1, halvings=3, restarts=1)]
    if statistics:
        losses.append(worst_table(measurable, _STEPS, n_tables=2))
    return VariantOutcome(largest_loss(losses), answered)
