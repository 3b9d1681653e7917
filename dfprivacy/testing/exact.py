"""The exact audit: the largest privacy loss of any neighbouring tables, in closed form.

Where what is released follows from integer sums plus discrete noise, nothing is left to chance. For noisy sums that
are the same on both tables, the loss between the tables is at most

- Laplace noise of scale b: the L1 distance of the true sums, over b; losses of several draws add up;
- noise of the cube: the same with the largest distance of any coordinate;
- Gaussian noise of scale sigma: that of Gaussian DP with mu squared the squared L2 distance over sigma squared;
- one message a row: the logarithm of the ratio of their weights, for each row whose place differs;
- k selections: 2 k times the largest difference of the scores over the scale;
- the sparse vector that stops after c: the largest difference of the values, over the scale of the noise that all
  thresholds share, and 2 c times it over the scale of each value's own;
- the decision of a permutation test: twice the largest difference of the values over the scale; its p-value: four
  times.

The last four hold if whatever else the chances depend on is the same on both tables.

So the audit is a search for two rows that move the sums most.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dfprivacy.conversions import above, delta_gauss, rounding_delta
from dfprivacy.testing.cases import candidates, fine_steps, tables
from dfprivacy.testing.stage import Stage, Trace, public_part, with_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dfprivacy.testing.cases import Case, Row

__all__ = ["Family", "Loss", "families", "loss_between", "worst_pair"]

_RESTARTS = 3
_HALVINGS = 8


@dataclass(frozen=True)
class Loss:
    """The privacy loss of one pair of neighbouring tables.

    Attributes
    ----------
    epsilon : float
        The smallest epsilon that the pair allows at the delta charged; infinite if something else than noise tells
        the tables apart.
    charge : float
        The epsilon charged.
    exceeds : bool
        Whether the loss is above the charge, decided exactly for Laplace noise.
    pair : tuple
        The two rows that differ; None for no row.
    table : str
        The table they are in.
    """

    epsilon: float
    charge: float
    exceeds: bool
    pair: tuple[Row | None, Row | None]
    table: str

    @property
    def tightness(self) -> float:
        """The share of the charge that the pair uses up."""
        return self.epsilon / self.charge if self.charge else math.nan


@dataclass(frozen=True)
class Family:
    """The neighbouring tables that one table has when its first row is another, traced under the same noisy sums.

    Attributes
    ----------
    table : str
        Its name.
    rows : list of dict
        The table.
    members : list of (row or None, Trace)
        The rows in place of the first, and what happened.
    base : Trace
        What happened on the table itself, whose noisy sums the others were given.
    """

    stage: Stage
    table: str
    rows: list[Row]
    base: Trace
    members: list[tuple[Row | None, Trace]]

    def trace(self, row: Row | None) -> Trace:
        """Perform on the table with this row in place of the first."""
        return self.stage.trace(with_first(self.rows, row), transcript=self.base.given)

    def pairs(self) -> Iterator[tuple[tuple[Row | None, Trace], tuple[Row | None, Trace]]]:
        """Give neighbouring tables: those with a row and without, or those that agree on the public columns."""
        case = self.stage.case
        if case.neighbors == "add_remove":
            ((none, without),) = [member for member in self.members if member[0] is None]
            yield from (((none, without), member) for member in self.members if member[0] is not None)
            return
        by_class: dict[tuple[object, ...], list[tuple[Row | None, Trace]]] = {}
        for member in self.members:
            by_class.setdefault(public_part(case, member[0]), []).append(member)
        for members in by_class.values():
            yield from itertools.combinations(members, 2)


def families(stage: Stage, seeds: Sequence[int] = (1, 2)) -> list[Family]:
    """Trace a mechanism on neighbouring tables.

    Parameters
    ----------
    stage : Stage
        The mechanism and its case.
    seeds : sequence of int
        One family of the first table for each; one of every other.

    Returns
    -------
    list of Family
        Those whose table the mechanism does not refuse.
    """
    found = []
    rows_in_place: list[Row | None] = [*candidates(stage.case)]
    if stage.case.neighbors == "add_remove":
        rows_in_place.append(None)
    for name, rows in tables(stage.case).items():
        for seed in seeds if name == "mixed" else seeds[:1]:
            base = stage.trace(rows, seed=seed)
            if base.refused:
                continue
            family = Family(stage, name, rows, base, [])
            few = rows_in_place if name == "mixed" else rows_in_place[-1::-2]
            family.members.extend((row, family.trace(row)) for row in few)
            found.append(family)
    return found


def worst_pair(family: Family) -> Loss:
    """Search a family, and the rows around its worst ones, for the pair with the largest loss.

    Parameters
    ----------
    family : Family
        Neighbouring tables.

    Returns
    -------
    Loss
        Of the worst pair found.
    """
    known = {repr(row): trace for row, trace in family.members}

    def traced(row: Row | None) -> Trace:
        if repr(row) not in known:
            known[repr(row)] = family.trace(row)
        return known[repr(row)]

    ranked = sorted(family.pairs(), key=lambda pair: -_size(pair[0][1], pair[1][1]))
    best = []
    for start in (ranked[0], *ranked[1 : _RESTARTS * 5 : 5]):
        (one, a), (other, b) = start
        for power in range(1, _HALVINGS + 1):
            one, a = _climb(family.stage.case, traced, one, b, 2.0**-power)
            other, b = _climb(family.stage.case, traced, other, a, 2.0**-power)
        best.append(loss_between(a, b, (one, other), family.table))
    return max(best, key=lambda loss: loss.epsilon)


def _climb(
    case: Case, traced: Callable[[Row | None], Trace], row: Row | None, other: Trace, width: float
) -> tuple[Row | None, Trace]:
    """Move one row of a pair where that makes the distance from the other larger."""
    trace = traced(row)
    if row is None:
        return row, trace
    public, size = public_part(case, row), _size(trace, other)
    for moved in fine_steps(case, row, width):
        if public_part(case, moved) == public and (larger := _size(traced(moved), other)) > size:
            row, trace, size = moved, traced(moved), larger
    return row, trace


def _distances(a: Trace, b: Trace) -> tuple[Fraction, Fraction] | None:
    """Distance over scale of draws of pure noise, squared L2 over variance of Gaussian ones; None if not alike."""
    if len(a.draws) != len(b.draws):
        return None
    pure, gaussian = Fraction(0), Fraction(0)
    for mine, its in zip(a.draws, b.draws, strict=True):
        same = (mine.kind, mine.scale, mine.law) == (its.kind, its.scale, its.law)
        if not same or mine.sums.shape != its.sums.shape:
            return None
        steps = [abs(int(x) - int(y)) for x, y in zip(mine.sums.ravel(), its.sums.ravel(), strict=True)]
        if mine.kind in {"laplace", "cube"}:
            pure += (sum(steps) if mine.kind == "laplace" else max(steps)) / Fraction(mine.scale)
        elif mine.kind == "arc":
            pure += sum(step > 0 for step in steps) * mine.loss
        elif mine.kind in {"selection", "sparse vector", "rank", "test"}:
            pure += max(steps) * mine.loss
        else:
            gaussian += sum(step * step for step in steps) / (Fraction(mine.scale) ** 2 - Fraction(1, 11))
    return pure, gaussian


def _size(a: Trace, b: Trace) -> float:
    """Give a distance to climb by."""
    found = _distances(a, b)
    return math.inf if found is None else float(found[0]) + math.sqrt(found[1])


def loss_between(a: Trace, b: Trace, pair: tuple[Row | None, Row | None], table: str) -> Loss:
    """Compute the privacy loss between two tables from what was drawn on each.

    Parameters
    ----------
    a, b : Trace
        Of the two tables, under the same noisy sums.
    pair : tuple
        The rows that differ.
    table : str
        The name of the table they are in.

    Returns
    -------
    Loss
        The loss, and what was charged.
    """
    found = _distances(a, b)
    charge, delta = min(a.epsilon, b.epsilon), min(a.delta, b.delta)
    if found is None:
        return Loss(math.inf, float(charge), exceeds=True, pair=pair, table=table)
    pure, mu_squared = found
    if not mu_squared:
        return Loss(float(pure), float(charge), exceeds=pure > charge, pair=pair, table=table)
    mu = math.nextafter(math.sqrt(above(mu_squared)), math.inf)
    gaussian = [draw for draw in a.draws if draw.kind == "gaussian"]

    def holds(epsilon: float) -> bool:
        lost = sum(rounding_delta(draw.sums.size, draw.scale, Fraction(epsilon)) for draw in gaussian)
        return delta_gauss(epsilon, mu) + lost <= delta

    rest = float(charge - pure)
    exceeds = rest <= 0 or not holds(rest)
    low, high = 0.0, 1.0
    while not holds(high) and high < 400:  # noqa: PLR2004 - beyond, nothing is private
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return Loss(float(pure) + high, float(charge), exceeds=exceeds, pair=pair, table=table)
