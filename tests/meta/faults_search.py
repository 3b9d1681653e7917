"""Mechanisms whose sensitivity holds on the tables and in the cases that come to mind first, and not on others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from faults import BOTH, DOC, NUMBER, Fault, Row, average, cleaned, grouped, numeric

import dfprivacy as dp
from dfprivacy import mechanism, statistics
from dfprivacy_audit import Case

PUBLIC = replace(BOTH, public=["g"])
PAIR = Case(arguments={"column": "x", "weight": 1.0}, bounds={"x": (-1.0, 1.0)}, epsilon=1)


class OfNumbers(statistics.OfRows):
    """A number computed of a column, and of the groups if there are any; its claim is given."""

    shape = (1,)

    def __init__(self, compute, claim, column, by=None):
        self.columns = (column,) if by is None else (column, by)
        self.compute, self.claim = compute, claim

    def value(self, rows):
        return self.compute(rows.values(self.columns[0]), *(rows.codes(by) for by in self.columns[1:]))

    def sensitivity(self, relation, norm, public):
        return self.claim


def standard(column, compute):
    """Compute it of the numbers on a scale from -1 to 1, which they cannot leave by rounding."""
    return lambda values, *codes: column.half * compute(np.clip((values - column.mid) / column.half, -1, 1), *codes)


def measured(curator, *asked):
    return float(curator.measure(OfNumbers(*asked)).values[0])


def known(curator):
    """The number of rows, where it is public."""
    if curator.size is None:
        raise dp.ArgumentError("How many rows there are is private.", "Ask it of all rows.")
    return curator.size


def sizes(curator, by):
    """How many rows each group has, where that is public."""
    found = curator.sizes(by)
    if found is None or found.min() < 1:
        raise dp.ArgumentError("The groups are private, or one is empty.", "Make their column public.")
    return found


def wins(values, codes):
    """Mann and Whitney's U."""
    return float((values[codes == 0][:, None] > values[codes == 1]).sum())


def gap(values, codes):
    """The difference of two means."""
    means = np.bincount(codes, values, minlength=3)[:2] / np.maximum(np.bincount(codes, minlength=3)[:2], 1)
    return float(means[0] - means[1])


# On other tables.


def wins_of_equal_groups():
    """One row of a group of n wins or loses against all of the other; here against as many as its own."""

    @grouped
    def found(curator, column, by):
        return measured(curator, wins, sizes(curator, by).min(), column, by)

    return found


def means_of_large_groups():
    """A group of three rows or more is taken for granted."""

    @grouped
    def found(curator, column, by):
        return measured(curator, gap, 2 * column.half / max(sizes(curator, by).min(), 3), column, by)

    return found


def mean_of_64_rows():
    """The sum over 64, where there are more rows, with the sensitivity of the mean."""

    @numeric
    def found(curator, column):
        n = known(curator)
        return measured(curator, lambda values: values.sum() / min(n, 64), 2 * column.half / n, column)

    return found


def ties(values):
    """How many pairs of rows tie."""
    counts = np.unique(values, return_counts=True)[1]
    return float((counts * (counts - 1)).sum() / 2)


def ties_are_rare():
    """One row ties with three others at most, its author believes."""

    @numeric
    def found(curator, column):
        return measured(curator, ties, 3.0, column)

    return found


def gaps(values):
    """How much of the way from one value to the next one is short."""
    between = np.diff(np.unique(values))
    return float(between.max()) if between.size else 0.0


def gaps_are_small():
    """The largest gap between two values moves by less than half of the bounds, if the values are many."""

    @numeric
    def found(curator, column):
        return measured(curator, gaps, column.half * 0.9, column)

    return found


def sum_in_half_precision():
    """Four is how far one row moves the sum, but not how far it moves its rounding."""

    @numeric
    def found(curator, column):
        known(curator)
        claim = 2 * column.half
        unit = column.half / 2

        def total(values):
            return float(np.cumsum([0.0, *((values - column.mid) / unit)], dtype=np.float16)[-1]) * unit

        return measured(curator, total, claim, column)

    return found


def wrong_at_77_rows(claim=0.5):
    """The sensitivity of the mean, but for one number of rows."""

    @numeric
    def found(curator, column):
        n = known(curator)
        most = 2 * column.half / n * (claim if n == 77 else 1) * (1 + 1e-9)
        return measured(curator, standard(column, np.mean), most, column)

    return found


# In other cases.


def sum_of_a_table_of_known_size():
    """How far a row that changes moves a sum, also for one that comes or goes."""

    @numeric
    def found(curator, column):
        return measured(curator, np.sum, 2 * column.half, column)

    return found


def sums_of_public_groups():
    """Where the groups are public, half of what a row moves is charged."""

    class Sums(OfNumbers):
        shape = (2,)

        def sensitivity(self, relation, norm, public):
            width = self.columns[0].high - self.columns[0].low
            most = max(abs(self.columns[0].low), abs(self.columns[0].high))
            if relation == "add_remove":
                return most
            return width / 2 if self.columns[1].name in public else max(2 * most, width)

    @grouped
    def found(curator, column, by):
        def sums(values, codes):
            return np.bincount(codes, values, minlength=3)[:2]

        return curator.measure(Sums(sums, None, column, by)).values

    return found


def mean_of_a_part():
    """Of a part of the rows, how many they are is looked up."""

    @numeric
    def found(curator, column):
        if curator.neighbors == "add_remove":
            raise dp.ArgumentError("Not for a table of private size.", "Protect it otherwise.")
        return average(curator, column) / (curator.size or curator._table.selected_batch((column,)).size or 1)

    return found


def sum_of_symmetric_bounds():
    """The upper bound is taken for the half of their width."""

    @numeric
    def found(curator, column):
        known(curator)
        return measured(curator, np.sum, 2 * abs(column.high), column)

    return found


def exact_where_little_is_asked():
    """No privacy is left to speak of at an epsilon of ten, so none is kept."""

    @numeric
    def found(curator, column):
        noisy = average(curator, column)
        return float(cleaned(curator, column).sum()) if curator.epsilon >= 10 else noisy

    return found


def divided_by_epsilon_twice():
    """Above one, the sensitivity is divided by epsilon, and the noise again."""

    @numeric
    def found(curator, column):
        most = max(abs(column.low), abs(column.high))
        return measured(curator, np.sum, 2 * most / max(curator.epsilon, 1.0), column)

    return found


def weighted(honest):
    def found(curator, column, weight=1.0):
        most = max(abs(column.low), abs(column.high))
        claim = 2 * most * (abs(weight) if honest else min(abs(weight), 1.0)) * (1 + 1e-9)
        return measured(curator, lambda values: weight * values.sum(), claim, column)

    found.__doc__ = DOC
    return mechanism(columns={"column": "numeric"})(found)


def weights_below_one():
    """A weight is an argument, and one above one was not thought of."""
    return weighted(honest=False)


class Length(statistics.OfSums):
    """A multiple of the length of some sums; `lipschitz` is what its author says."""

    shape = (1,)

    def __init__(self, column, times, lipschitz):
        self.columns = (column,)
        self.times, self.lipschitz = times, lipschitz
        self.features = Row(column, lambda batch: batch.standardized(column) / 3)

    def value(self, sums):
        return self.times * np.abs(sums).sum()

    def sensitivity(self, relation, norm, public):
        return 2 * self.times / 3


def length_of_sums(lipschitz=1.0):
    """Three times the length, which moves three times as far as the sums are rounded."""

    @numeric
    def found(curator, column):
        return float(curator.measure(Length(column, 3.0, lipschitz)).values[0])

    return found


ELSEWHERE = "holds_in_other_cases"
FAULTS = [
    Fault(wins_of_equal_groups, "loss_within_charge", PUBLIC),
    Fault(means_of_large_groups, "loss_within_charge", PUBLIC),
    Fault(mean_of_64_rows, "loss_within_charge"),
    Fault(ties_are_rare, "loss_within_charge"),
    Fault(gaps_are_small, "loss_within_charge"),
    Fault(sum_in_half_precision, "loss_within_charge"),
    Fault(wrong_at_77_rows, "loss_within_charge", replace(NUMBER, tables=[[{"x": 0.5}] * 77])),
    Fault(sum_of_a_table_of_known_size, ELSEWHERE, replace(NUMBER, bounds={"x": (0.5, 1.0)})),
    Fault(sums_of_public_groups, ELSEWHERE, BOTH),
    Fault(mean_of_a_part, ELSEWHERE),
    Fault(sum_of_symmetric_bounds, ELSEWHERE),
    Fault(exact_where_little_is_asked, ELSEWHERE),
    Fault(divided_by_epsilon_twice, ELSEWHERE),
    Fault(weights_below_one, ELSEWHERE, PAIR),
    Fault(length_of_sums, "features_are_what_they_say"),
]


# Honest mechanisms of the same kind.


def honest_wins():
    @grouped
    def found(curator, column, by):
        return measured(curator, wins, sizes(curator, by).max(), column, by)

    return found


def honest_means():
    @grouped
    def found(curator, column, by):
        claim = 2 * column.half / sizes(curator, by).min() * (1 + 1e-9)
        return measured(curator, standard(column, gap), claim, column, by)

    return found


def honest_ties():
    @numeric
    def found(curator, column):
        return measured(curator, ties, float(known(curator)), column)

    return found


HONEST = {
    "wins": (honest_wins, PUBLIC),
    "means": (honest_means, PUBLIC),
    "ties": (honest_ties, NUMBER),
    "weighted": (lambda: weighted(honest=True), PAIR),
    "length of sums": (lambda: length_of_sums(lipschitz=3.0), NUMBER),
    "right at 77 rows": (lambda: wrong_at_77_rows(claim=1), NUMBER),
}
