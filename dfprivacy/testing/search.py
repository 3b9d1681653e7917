"""The search for the worst table, not only the worst row of it.

How far a row moves a sum of row features depends on the row alone. What a statistic does depends on all other rows
as well: how many are in which group, and which are alike. So where a mechanism asks for statistics, whole tables
are changed step by step, as long as that takes two neighbours further apart.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy.statistics import Statistic
from dfprivacy.testing.cases import candidates, fine_steps
from dfprivacy.testing.exact import distance, loss_between
from dfprivacy.testing.harness import public_part, with_first
from dfprivacy.testing.overheard import overhearing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy.testing.cases import Case, Row
    from dfprivacy.testing.exact import Family, Loss
    from dfprivacy.testing.harness import Harness, Recording

__all__ = ["statistics_of", "worst_table"]

_MOST = 400  # rows that a table may grow to

Pair = tuple["Row | None", "Row | None"]
Start = tuple[str, "list[Row]", Pair]  # what a table is, its rows, and the two that stand in place of the first


def statistics_of(stage: Harness, rows: Sequence[Row]) -> tuple[Recording, list[Statistic]]:
    """Perform on a table, and note which statistics the curator is asked for.

    Parameters
    ----------
    stage : Harness
        The mechanism and its case.
    rows : sequence of dict
        The table.

    Returns
    -------
    Recording
        What happened.
    list of Statistic
        In the order in which they were asked for.
    """
    with overhearing([]) as measurements:
        recording = stage.trace(rows)
    return recording, [thing for each in measurements for thing in each.things if isinstance(thing, Statistic)]


def worst_table(searched: Sequence[Family], steps: int, started: int = 3) -> Loss:
    """Change the tables of the most promising families, and the pairs of rows in them, step by step.

    Parameters
    ----------
    searched : sequence of Family
        Neighbouring tables.
    steps : int
        Changes to try on each table.
    started : int
        Tables that are changed: those of the most promising families, and one with rows at a few points.

    Returns
    -------
    Loss
        Of the worst pair of tables found.
    """
    family, *_ = promising = sorted(searched, key=lambda family: -family.reach)[: started - 1]
    starts = [(f"{one.table!r}", one.rows, (one.ranked[0][0][0], one.ranked[0][1][0])) for one in promising]
    starts += _clustered(family, steps)[:1]
    losses = [_climbed(family, start, steps, at) for at, start in enumerate(starts)]
    return max((loss for loss in losses if loss), key=lambda loss: (loss.exceeds, loss.epsilon))


def _measured(family: Family, rows: Sequence[Row], pair: Pair) -> tuple[Recording, Recording] | None:
    """Measure two tables that differ in their first row under the same noisy sums; None if one is refused."""
    tables = [with_first(rows, row) for row in pair]
    first = family.stage.trace(tables[0], until=len(family.base.given) or None)
    if first.refused or not first.draws:
        return None
    second = family.stage.trace(tables[1], transcript=first.given, until=len(first.given))
    paid = max(first.charges, family.base.charges, key=len)
    return replace(first, charges=paid), replace(second, charges=paid)


def _clustered(family: Family, count: int) -> list[Start]:
    """Make tables whose rows lie at a few points, crowds and single ones; those that are worst first."""
    rng, case = np.random.default_rng(7), family.stage.case
    others, fixed = candidates(case), [name for name in case.domains if name in case.agreed]
    made: list[tuple[float, Start]] = []
    for _ in range(count):
        points = [others[int(rng.integers(len(others)))] for _ in range(int(rng.integers(2, 5)))]
        share = rng.dirichlet(np.full(len(points), 0.5))
        rows = [
            {**points[int(at)], **{name: case.domains[name][i % len(case.domains[name])] for name in fixed}}
            for i, at in enumerate(rng.choice(len(points), size=int(rng.choice([12, 40, 120])), p=share))
        ]
        pair: Pair = (rows[0], None)
        if case.neighbors == "replace_one":
            pair = _other_pair(case, others, (rows[0], rows[0]), rng)
        if seen := _measured(family, rows, pair):
            made.append((distance(*seen), ("rows at a few points", rows, pair)))
    return [start for _, start in sorted(made, key=lambda each: -each[0])]


def _climbed(family: Family, start: Start, steps: int, seed: int) -> Loss | None:
    """Change one table as long as that takes two neighbours further apart."""
    rng, case = np.random.default_rng(seed), family.stage.case
    others = candidates(case)
    moves = [partial(move, case, others, rng) for move in _MOVES]
    name, rows, pair = start
    best = _measured(family, rows, pair)
    if best is None:
        return None
    reach = distance(*best)
    for _ in range(steps):
        if rng.random() < 1 / 4:
            changed, moved = rows, _other_pair(case, others, pair, rng)
        else:
            changed, moved = moves[int(rng.integers(len(moves)))](rows), pair
        if (seen := _measured(family, changed, moved)) and (further := distance(*seen)) >= reach:
            rows, pair, best, reach = changed, moved, seen, further
    return loss_between(*best, pair, f"{len(rows)} rows, changed from {name}")


# The changes. The first row is the one that differs, so it stays.


def _another(_: Case, others: Sequence[Row], rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Put another row in place of one."""
    if len(rows) < 2:  # noqa: PLR2004
        return rows
    at = int(rng.integers(1, len(rows)))
    return [*rows[:at], others[int(rng.integers(len(others)))], *rows[at + 1 :]]


def _as_another(_: Case, __: Sequence[Row], rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Make one row like another."""
    at, like = (int(rng.integers(len(rows))) for _ in range(2))
    return [*rows[:at], rows[like], *rows[at + 1 :]] if at else rows


def _group(case: Case, others: Sequence[Row], rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Give all rows of some category the same value in some column."""
    like = others[int(rng.integers(len(others)))]
    name = list(like)[int(rng.integers(len(like)))]
    by = list(case.domains)[int(rng.integers(len(case.domains)))] if case.domains else None
    return [
        {**row, name: like[name]} if at and name != case.other and (by is None or row[by] == like[by]) else row
        for at, row in enumerate(rows)
    ]


def _more(_: Case, __: Sequence[Row], rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Repeat one row, up to as often as there are rows."""
    if len(rows) >= _MOST:
        return rows
    return [*rows, *[rows[int(rng.integers(len(rows)))]] * int(rng.integers(1, len(rows) + 1))]


def _fewer(_: Case, __: Sequence[Row], rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Leave out some of the rows."""
    kept = rng.random(len(rows)) < rng.choice([0.5, 0.9])
    return [row for at, row in enumerate(rows) if at == 0 or kept[at]]


def _nudged(case: Case, _: Sequence[Row], rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Move a number of one row a little."""
    at = int(rng.integers(len(rows)))
    steps = list(fine_steps(case, rows[at], float(rng.choice([0.3, 0.03, 1e-3]))))
    return [*rows[:at], steps[int(rng.integers(len(steps)))], *rows[at + 1 :]] if at and steps else rows


def _other_pair(case: Case, others: Sequence[Row], pair: Pair, rng: np.random.Generator) -> Pair:
    """Put another row in place of one of the two, or others in place of both if their public part changes."""
    at = int(rng.integers(2))
    if pair[at] is None:
        at = 1 - at
    kept = pair[1 - at]
    one = others[int(rng.integers(len(others)))]
    steps = list(fine_steps(case, pair[at] or one, float(rng.choice([0.3, 0.03, 1e-3]))))
    if steps and rng.random() < 1 / 2:
        one = steps[int(rng.integers(len(steps)))]
    if kept is not None and public_part(case, kept) != public_part(case, one):
        kept = {**kept, **{name: one[name] for name in case.agreed}}
    return (one, kept) if at == 0 else (kept, one)


_MOVES = (_another, _as_another, _group, _more, _fewer, _nudged)
