"""Exact audit: search for the neighbouring tables with the largest privacy loss, computed in closed form.

Where what is released follows from integer sums plus discrete noise, nothing is left to chance. For noisy sums that
are the same on both tables, the loss between the tables is at most

- Laplace noise of scale b: the L1 distance of the true sums, over b; losses of several draws add up;
- noise of the cube: the same with the largest distance of any coordinate;
- Gaussian noise of scale sigma: that of Gaussian DP with mu squared the squared L2 distance over sigma squared;
- one message a row: the logarithm of the ratio of their weights, for each row whose place differs;
- k selections: 2 k times the largest difference of the scores over the scale; by the exponential mechanism beside
  Gaussian noise, that of Gaussian DP of a loss whose range is that of the differences over the scale;
- the sparse vector that stops after c: the largest difference of the values, over the scale of the noise that all
  thresholds share, and 2 c times it over the scale of each value's own;
- the decision of a permutation test: twice the largest difference of the values over the scale; its p-value: four
  times;
- keys that occur in enough rows: the L1 distance of the counts of the keys that both tables have, over the scale,
  but for the probability that one is shown which only one of them has. That probability is taken from delta;
- keys of a known domain: the L1 distance of the counts of all keys, over the scale.

The last six hold if whatever else the chances depend on is the same on both tables.

So the audit is a search for two rows that move the sums most.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dfprivacy._privacy.conversions import delta_gauss, float_above, gaussian_delta, pure_mu, rounding_delta
from dfprivacy.statistics import Statistic
from dfprivacy_audit.cases import candidate_rows, few_rows, fine_steps, further_tables, tables
from dfprivacy_audit.harness import (
    DISCOVERY,
    SPARSE,
    SURVEY,
    Harness,
    Recording,
    neighboring,
    public_part,
    recorded_measurements,
    with_first_row,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dfprivacy_audit.cases import Case, Row
    from dfprivacy_audit.harness import Draw

__all__ = [
    "Family",
    "Loss",
    "families",
    "largest_loss",
    "loss_between",
    "run_distance",
    "small_family",
    "statistics_of",
    "worst_loss",
    "worst_pair",
    "worst_rows",
    "worst_table",
]

_RESTARTS = 3
_EVERY = 8  # rows, one of which leads to a conclusion, once all have on one table
_INT64_LIMIT = 2**63
_GAUSSIAN_KINDS = {"gaussian", SURVEY}  # kinds of draws with Gaussian noise


@dataclass(frozen=True)
class Loss:
    """Privacy loss of one pair of neighbouring tables.

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
        """Privacy loss of the pair as a share of the charged budget."""
        return self.epsilon / self.charge if self.charge else math.nan


@dataclass
class Family:
    """Tables that differ in the first row, with the mechanism's run on each under the same noisy sums.

    Attributes
    ----------
    table : str
        Its name.
    rows : list of dict
        The table.
    members : list of (row or None, Recording)
        The rows in place of the first, and what happened.
    base : Recording
        What happened on the table itself, whose noisy sums the others were given.
    """

    harness: Harness
    table: str
    rows: list[Row]
    base: Recording
    members: list[tuple[Row | None, Recording]] = field(default_factory=list)

    def trace(self, row: Row | None) -> Recording:
        """Run the mechanism on the table with the given first row, and return the record of the run."""
        return self.harness.trace(with_first_row(self.rows, row), transcript=self.base.given)

    def measure(self, row: Row | None) -> Recording:
        """Run only the measurements of the mechanism on the table with the given first row; return the record."""
        return self.harness.measure(with_first_row(self.rows, row), self.base)

    def add_rows(self, rows: Sequence[Row | None], *, every: int | None = 1) -> None:
        """Run the mechanism with each of the given first rows; only every n-th run, or none, computes a result."""
        for at, row in enumerate(rows):
            self.add_row(row, self.trace(row) if every and at % every == 0 else self.measure(row))

    def add_row(self, row: Row | None, recording: Recording) -> None:
        """Add the run with the given first row, unless the mechanism refused the public values of the row."""
        known = [public_part(self.harness.case, one) for one in (row, self.rows[0])]
        if not recording.refused or known[0] == known[1]:
            self.members.append((row, recording))

    @cached_property
    def ranked_pairs(self) -> list[tuple[tuple[Row | None, Recording], tuple[Row | None, Recording]]]:
        """Pairs of neighbouring tables of the family, in order of decreasing distance."""
        return sorted(self.pairs(), key=lambda pair: -run_distance(pair[0][1], pair[1][1]))

    @property
    def largest_distance(self) -> float:
        """Largest distance between two neighbouring tables of the family."""
        (_, a), (_, b) = self.ranked_pairs[0]
        return run_distance(a, b)

    def pairs(self) -> Iterator[tuple[tuple[Row | None, Recording], tuple[Row | None, Recording]]]:
        """Yield pairs of neighbouring tables: with and without a row, or with the same public values."""
        return neighboring(self.harness.case, self.members)


def families(harness: Harness, *, thorough: bool = True) -> list[Family]:
    """Return families of neighbouring tables, with the mechanism's runs on each table.

    Parameters
    ----------
    harness : Harness
        The mechanism and its case.
    thorough : bool
        Whether many rows are tried in more tables than the first, and in the first under two draws of noise, and
        results are computed on all of them; else, on every third.

    Returns
    -------
    list of Family
        Those whose table the mechanism does not refuse.
    """
    traced: list[Family] = []
    rows_in_place: list[Row | None] = [*candidate_rows(harness.case)]
    if harness.case.neighbors == "add_remove":
        rows_in_place.append(None)
    made = tables(harness.case)
    large = made if thorough else {"mixed": made["mixed"]}
    for name, rows in large.items():
        for seed in (1, 2) if name == "mixed" and thorough else (1,):
            base = harness.trace(rows, seed=seed)
            if base.refused:
                continue
            family = Family(harness, name, rows, base)
            # All rows in the first table lead to a conclusion, or every fourth one; in the others, some do.
            every = _EVERY if traced else 1 if thorough else 4
            family.add_rows(rows_in_place if name == "mixed" else rows_in_place[-1::-2], every=every)
            traced.append(family)
    small = {**{name: rows for name, rows in made.items() if name not in large}, **further_tables(harness.case)}
    known = traced[0] if traced and not thorough and not statistics_of(harness, made["mixed"])[1] else None
    ends = [None] if thorough or not traced else [None, *[len(traced[0].base.draws)] * 2]
    more = (
        small_family(harness, name, rows, until, worst_rows(harness.case, known, rows[0]))
        for (name, rows), until in zip(small.items(), itertools.cycle(ends), strict=False)
    )
    return traced + [family for family in more if family]


def small_family(
    harness: Harness, name: str, rows: list[Row], until: int | None = None, some: Sequence[Row | None] = ()
) -> Family | None:
    """Run a mechanism on a few neighbouring tables, and compute its result on three of them.

    Parameters
    ----------
    harness : Harness
        The mechanism and its case.
    name : str
        What the table is.
    rows : list of dict
        The table.
    until : int, optional
        Number of draws after which nothing is concluded at all; then rows of two public classes are tried.
    some : sequence of dict, optional
        Rows to try in place of the first; default: `few`, and none where rows are added or removed.

    Returns
    -------
    Family or None
        None if the mechanism refuses the table or measures nothing of it, or if no two rows may stand in it.
    """
    base = harness.trace(rows, until=until)
    if base.refused or not base.draws:
        return None
    family = Family(harness, name, rows, base)
    if not some:
        gone: list[None] = [None] if harness.case.neighbors == "add_remove" else []
        some = [*(few_rows(harness.case, rows, 2) if until else few_rows(harness.case, rows)), *gone]
    own = [
        row for row in some if row is None or public_part(harness.case, row) == public_part(harness.case, some[0])
    ]
    family.add_rows(own, every=None if until else -(-len(own) // 3))
    family.add_rows([row for row in some if row not in own], every=None)
    return family if family.ranked_pairs else None


def worst_rows(case: Case, known: Family | None, first: Row) -> list[Row | None]:
    """Return the two first rows of a family that are farthest apart, also with public values of another row.

    They do for sums of features on other tables: how far a row moves these depends on the row and public values.

    Parameters
    ----------
    case : Case
        What is public.
    known : Family or None
        The family; without one there are none.
    first : dict
        A row with the public values of another table.

    Returns
    -------
    list of dict or None
        None for no row.
    """
    pair = [row for row, _ in known.ranked_pairs[0]] if known else []
    public = {name: first[name] for name in case.unchangeable_fields} if case.neighbors == "replace_one" else {}
    moved = [None if row is None else {**row, **public} for row in pair]
    return moved if moved == pair else [*moved, *pair]


def worst_loss(
    candidates: Sequence[Family], n_families: int = 4, halvings: int = 8, restarts: int = _RESTARTS
) -> Loss:
    """Search families for the pair of tables with the largest loss: all pairs, then rows near the best pairs.

    Parameters
    ----------
    candidates : sequence of Family
        Neighbouring tables.
    n_families : int
        Number of families that are searched, those of the largest distances first.
    halvings : int
        How often it halves its steps.
    restarts : int
        Pairs of each family from which it starts, besides the farthest.

    Returns
    -------
    Loss
        Of the worst pair found.
    """
    return largest_loss(worst_pair(family, halvings, restarts) for family in _farthest(candidates, n_families))


def largest_loss(losses: Iterable[Loss]) -> Loss:
    """Return the largest loss; a loss above its charge counts as larger than any loss within its charge."""
    return max(losses, key=lambda loss: (loss.exceeds, loss.epsilon))


def _farthest(candidates: Sequence[Family], n: int) -> list[Family]:
    """Return the n families whose neighbouring tables have the largest distances."""
    return sorted(candidates, key=lambda family: -family.largest_distance)[:n]


def worst_pair(family: Family, halvings: int = 8, restarts: int = _RESTARTS) -> Loss:
    """Search a family, then rows close to its worst rows, for the pair of tables with the largest loss.

    Parameters
    ----------
    family : Family
        Neighbouring tables.
    halvings : int
        How often it halves its steps.
    restarts : int
        Pairs of each family from which it starts, besides the farthest.

    Returns
    -------
    Loss
        Of the worst pair found.
    """
    case, known = family.harness.case, {repr(row): trace for row, trace in family.members}

    def traced(row: Row | None) -> Recording:
        if repr(row) not in known:
            known[repr(row)] = family.measure(row)
        return known[repr(row)]

    ranked = family.ranked_pairs
    best = []
    for start in (ranked[0], *ranked[1 : restarts * 5 : 5]):
        (one, a), (other, b) = start
        for power in range(1, halvings + 1):
            one, a = _climb_row(case, traced, one, b, 2.0**-power)
            other, b = _climb_row(case, traced, other, a, 2.0**-power)
        best.append(loss_between(a, b, (one, other), family.table))
    return max(best, key=lambda loss: loss.epsilon)


def _climb_row(
    case: Case, traced: Callable[[Row | None], Recording], row: Row | None, other: Recording, width: float
) -> tuple[Row | None, Recording]:
    """Move one row of a pair while its distance from the other grows; return the row and its run."""
    trace = traced(row)
    if row is None:
        return row, trace
    public, size = public_part(case, row), run_distance(trace, other)
    for moved in fine_steps(case, row, width):
        if public_part(case, moved) == public and (larger := run_distance(traced(moved), other)) > size:
            row, trace, size = moved, traced(moved), larger
    return row, trace


def _distances(a: Recording, b: Recording) -> tuple[Fraction, Fraction, Fraction] | None:
    """Return the loss of Laplace noise, mu² of Gaussian noise, and the probability that keys tell the tables apart.

    That is the larger of the probabilities that a table shows a key that the other does not have. None where the
    draws are not alike.
    """
    if len(a.draws) != len(b.draws):
        return None
    totals, own = [Fraction(0), Fraction(0)], [Fraction(0), Fraction(0)]
    gaussian = any(draw.kind == "gaussian" for draw in a.draws)
    for mine, its in zip(a.draws, b.draws, strict=True):
        if (mine.kind, mine.scale, mine.law) != (its.kind, its.scale, its.law):
            return None
        if mine.kind in {DISCOVERY, SURVEY, SPARSE}:
            count, *alone = _distance_and_new_keys(mine, its)
            own = [sum(pair, Fraction(0)) for pair in zip(own, alone, strict=True)]
        elif mine.sums.shape != its.sums.shape:
            return None
        else:
            count = _step_distance(mine, its)
            if mine.kind == "selection" and gaussian and mine.law == (1, False):
                totals[1] += _selection_mu_squared(mine, its)
                continue
        totals[mine.kind in _GAUSSIAN_KINDS] += count * _step_loss(mine.kind, mine.scale, mine.loss)
    return totals[0], totals[1], max(own)


def _step_distance(mine: Draw, its: Draw) -> int:
    """Return the distance of two sums in grid steps, in the norm that determines the draw's privacy loss."""
    larger, smaller = np.maximum(mine.sums, its.sums), np.minimum(mine.sums, its.sums)
    steps: NDArray[Any] = np.asarray(larger - smaller).view(np.uint64)  # two clamped sums may be 2^63 apart
    far = int(steps.max(initial=0))
    if mine.kind not in {"laplace", "gaussian", "arc"}:
        return far
    if mine.kind == "arc":
        return int(np.count_nonzero(steps))
    if far * far * steps.size >= _INT64_LIMIT:
        steps = steps.astype(object)
    return int((steps if mine.kind == "laplace" else steps * steps).sum())


def _selection_mu_squared(mine: Draw, its: Draw) -> Fraction:
    """Return mu² of a selection by the exponential mechanism, from the range of the scores' differences."""
    moved = mine.sums.astype(object) - its.sums.astype(object)
    loss = Fraction(int(moved.max() - moved.min())) / Fraction(mine.scale)
    return Fraction(pure_mu(float_above(loss / 2))) ** 2 if loss else Fraction(0)


@cache
def _step_loss(kind: str, scale: float, loss: Fraction) -> Fraction:
    """Return the privacy loss of a change by one grid step; for Gaussian noise, mu² of such a change."""
    if kind in _GAUSSIAN_KINDS:
        return 1 / (Fraction(scale) ** 2 - Fraction(1, 11))
    return 1 / Fraction(scale) if kind in {"laplace", "cube"} else loss


def _distance_and_new_keys(a: Draw, b: Draw) -> tuple[int, Fraction, Fraction]:
    """Return the distance of two draws' key counts, and a bound on each one's chance to reveal a key of its own.

    Of a known domain, a key that occurs in no row counts 0, and none is of one table alone.
    """
    counts, others = (dict(zip(draw.keys, draw.sums.tolist(), strict=True)) for draw in (a, b))
    keys = {**counts, **others} if a.kind == SPARSE else counts.keys() & others.keys()
    power = 2 if a.kind == SURVEY else 1
    far = sum(abs(counts.get(key, 0) - others.get(key, 0)) ** power for key in keys)
    one, other = (
        sum(
            (_reveal_probability(count, a) for key, count in mine.items() if key not in its and key not in keys),
            Fraction(0),
        )
        for mine, its in ((counts, others), (others, counts))
    )
    return far, one, other


def _reveal_probability(count: int, draw: Draw) -> Fraction:
    """Return the probability that a noisy count reaches the threshold at which its key is revealed."""
    if draw.kind == SURVEY:
        return Fraction(math.erfc((draw.law - count) / draw.scale / math.sqrt(2)) / 2)
    scale, threshold = draw.law
    return Fraction(float(stats.dlaplace.cdf(count - threshold, 1 / scale)))


def run_distance(a: Recording, b: Recording) -> float:
    """Return the distance of two runs for hill climbing; infinite if their draws differ in kind."""
    distances = _distances(a, b)
    if distances is None or (distances[2] and distances[2] > min(a.delta, b.delta)):
        return math.inf
    return float(distances[0]) + math.sqrt(distances[1])


def _draws_within_charges(a: Recording, b: Recording) -> bool:
    """Return whether the loss of each draw is at most its charge, so that basic composition bounds the total loss.

    At a large epsilon, what discrete noise loses against continuous noise grows with its exponential: at that of
    all draws together, the bound says nothing of noise that was made for a part of it.
    """
    if not len(a.draws) == len(b.draws) == len(a.charges) or {draw.kind for draw in a.draws} != {"gaussian"}:
        return False
    moved = [int(np.sum((x.sums - y.sums).astype(object) ** 2)) for x, y in zip(a.draws, b.draws, strict=True)]
    return all(
        not squared or gaussian_delta(squared, draw.scale, draw.sums.size, loss.epsilon) <= loss.delta
        for squared, draw, loss in zip(moved, a.draws, a.charges, strict=True)
    )


def loss_between(a: Recording, b: Recording, pair: tuple[Row | None, Row | None], table: str) -> Loss:
    """Compute the privacy loss between two tables from the sums and noise scales recorded in the runs on them.

    Parameters
    ----------
    a, b : Recording
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
    distances = _distances(a, b)
    charge, delta = min(a.epsilon, b.epsilon), min(a.delta, b.delta)
    if distances is None or distances[2] > delta:
        return Loss(math.inf, float(charge), exceeds=True, pair=pair, table=table)
    pure, mu_squared, shown = distances
    delta -= shown
    if not mu_squared:
        return Loss(float(pure), float(charge), exceeds=pure > charge, pair=pair, table=table)
    mu = math.nextafter(math.sqrt(float_above(mu_squared)), math.inf)
    gaussian = [draw for draw in a.draws if draw.kind == "gaussian"]

    def holds(epsilon: float) -> bool:
        lost = sum(rounding_delta(draw.sums.size, draw.scale, Fraction(epsilon)) for draw in gaussian)
        return delta_gauss(epsilon, mu) + lost <= delta

    rest = float(charge - pure)
    if rest > 0 and not holds(rest) and _draws_within_charges(a, b):
        return Loss(float(charge), float(charge), exceeds=False, pair=pair, table=table)
    exceeds = rest <= 0 or not holds(rest)
    low, high = 0.0, 1.0
    while not holds(high) and high < 400:  # noqa: PLR2004 - beyond, nothing is private
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return Loss(float(pure) + high, float(charge), exceeds=exceeds, pair=pair, table=table)


# The search for the worst table. How far a row moves a sum of row features depends on the row alone. What a
# statistic does depends on all other rows as well: how many are in which group, and which are alike. So where a
# mechanism asks for statistics, whole tables are changed step by step, while that takes neighbours further apart.

_MAX_ROWS = 400  # rows that a table may grow to

Pair = tuple["Row | None", "Row | None"]


def statistics_of(harness: Harness, rows: Sequence[Row]) -> tuple[Recording, list[Statistic]]:
    """Run the mechanism on a table; return the record, and the statistics that it measures.

    Parameters
    ----------
    harness : Harness
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
    with recorded_measurements() as measurements:
        recording = harness.trace(rows)
    return recording, [thing for each in measurements for thing in each.things if isinstance(thing, Statistic)]


def worst_table(candidates: Sequence[Family], steps: int, n_tables: int = 3) -> Loss:
    """Search for the pair of tables with the largest loss, by random changes of tables with large distances.

    Parameters
    ----------
    candidates : sequence of Family
        Neighbouring tables.
    steps : int
        Changes to try on each table.
    n_tables : int
        Number of tables that are changed, those of the families with the largest distances.

    Returns
    -------
    Loss
        Of the worst pair of tables found.
    """
    losses = [_climb_table(family, steps, at) for at, family in enumerate(_farthest(candidates, n_tables))]
    return largest_loss(filter(None, losses))


def _measured_pair(family: Family, rows: Sequence[Row], pair: Pair) -> tuple[Recording, Recording] | None:
    """Run on two tables with different first rows and the same noisy sums; return None if a table is refused."""
    tables = [with_first_row(rows, row) for row in pair]
    first = family.harness.trace(tables[0], until=len(family.base.given) or None)
    if first.refused or not first.draws:
        return None
    second = family.harness.trace(tables[1], transcript=first.given, until=len(first.given))
    paid = max(first.charges, family.base.charges, key=len)
    return replace(first, charges=paid), replace(second, charges=paid)


def _climb_table(family: Family, steps: int, seed: int) -> Loss | None:
    """Change a table at random while its distance from a neighbour does not shrink; return the loss."""
    rng, case = np.random.default_rng(seed), family.harness.case
    others = candidate_rows(case)
    moves = [partial(move, case, others, rng) for move in _MOVES]
    rows: list[Row] = family.rows
    pair: Pair = family.ranked_pairs[0][0][0], family.ranked_pairs[0][1][0]
    best = _measured_pair(family, rows, pair)
    if best is None:
        return None
    reach, tried = run_distance(*best), {repr((rows, pair))}
    for _ in range(steps):
        if rng.random() < 1 / 4:
            changed, moved = rows, _change_pair(case, others, pair, rng)
        else:
            changed, moved = moves[int(rng.integers(len(moves)))](rows), pair
        if (table := repr((changed, moved))) in tried:  # it would be measured again, and moves as far
            continue
        tried.add(table)
        if (seen := _measured_pair(family, changed, moved)) and (further := run_distance(*seen)) >= reach:
            rows, pair, best, reach = changed, moved, seen, further
    return loss_between(*best, pair, f"{len(rows)} rows, changed from {family.table!r}")


# The changes. The first row is the one that differs, so it stays.


def _replace_row(_: Case, others: Sequence[Row], rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Replace a random row, but not the first, by a random candidate."""
    if len(rows) < 2:  # noqa: PLR2004
        return rows
    at = int(rng.integers(1, len(rows)))
    return [*rows[:at], others[int(rng.integers(len(others)))], *rows[at + 1 :]]


def _copy_row(_: Case, __: Sequence[Row], rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Replace a random row, but not the first, by a copy of another row."""
    at, like = (int(rng.integers(len(rows))) for _ in range(2))
    return [*rows[:at], rows[like], *rows[at + 1 :]] if at else rows


def _set_group(case: Case, others: Sequence[Row], rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Set a random column to one value in all rows of a random category, except the first row."""
    like = others[int(rng.integers(len(others)))]
    name = list(like)[int(rng.integers(len(like)))]
    by = list(case.domains)[int(rng.integers(len(case.domains)))] if case.domains else None
    return [
        {**row, name: like[name]} if at and name != case.other and (by is None or row[by] == like[by]) else row
        for at, row in enumerate(rows)
    ]


def _repeat_row(_: Case, __: Sequence[Row], rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Append several copies of a random row, so that the table is at most twice as long."""
    if len(rows) >= _MAX_ROWS:
        return rows
    return [*rows, *[rows[int(rng.integers(len(rows)))]] * int(rng.integers(1, len(rows) + 1))]


def _drop_rows(_: Case, __: Sequence[Row], rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Remove random rows from the table, but not the first."""
    kept = rng.random(len(rows)) < rng.choice([0.5, 0.9])
    return [row for at, row in enumerate(rows) if at == 0 or kept[at]]


def _shift_number(case: Case, _: Sequence[Row], rng: np.random.Generator, rows: list[Row]) -> list[Row]:
    """Change a number of a random row slightly, but not of the first row."""
    at = int(rng.integers(len(rows)))
    steps = list(fine_steps(case, rows[at], float(rng.choice([0.3, 0.03, 1e-3]))))
    return [*rows[:at], steps[int(rng.integers(len(steps)))], *rows[at + 1 :]] if at and steps else rows


def _change_pair(case: Case, others: Sequence[Row], pair: Pair, rng: np.random.Generator) -> Pair:
    """Replace one of the two first rows, and change the other if public values must agree."""
    at = int(rng.integers(2))
    if pair[at] is None:
        at = 1 - at
    kept = pair[1 - at]
    one = others[int(rng.integers(len(others)))]
    steps = list(fine_steps(case, pair[at] or one, float(rng.choice([0.3, 0.03, 1e-3]))))
    if steps and rng.random() < 1 / 2:
        one = steps[int(rng.integers(len(steps)))]
    if kept is not None and public_part(case, kept) != public_part(case, one):
        kept = {**kept, **{name: one[name] for name in case.unchangeable_fields}}
    return (one, kept) if at == 0 else (kept, one)


_MOVES = (_replace_row, _copy_row, _set_group, _repeat_row, _drop_rows, _shift_number)
