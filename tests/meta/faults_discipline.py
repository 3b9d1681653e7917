"""Mechanisms that are broken around the noise and not in it, and honest ones that look a little like them.

They are written as somebody else would write them, from docs/howto alone: nothing here touches a private name. What
they know of the rows comes from their own features, which put what they see into this module.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

import dfprivacy as dp
from dfprivacy import features, statistics
from dfprivacy_audit import Case

NUMBER = Case(arguments={"column": "x"}, bounds={"x": (-1.0, 1.0)}, epsilon=1)
GROUPS = Case(arguments={"column": "g"}, categories={"g": ["a", "b", "c"]}, epsilon=1)

LEVEL = "keeps_level_and_coverage"

DOC = """Measure something of a column.

Parameters
----------
column : str
    A column.

Notes
-----
**Privacy.** ε-differential privacy, or so it says.

References
----------
.. [1] C. Dwork, F. McSherry, K. Nissim, A. Smith. Calibrating noise to sensitivity in private data analysis.
   TCC 2006.
"""

SEEN: list[Any] = []  # what the features of this module saw last


def numeric(function):
    """A mechanism of one numeric column."""
    function.__doc__ = DOC
    return dp.mechanism(columns={"column": "numeric"})(function)


def categorical(function):
    """A mechanism of one column with categories."""
    function.__doc__ = DOC
    return dp.mechanism(columns={"column": "category"})(function)


class Noted(features.RowFeatures):
    """Numbers in [-1, 1], which are noted."""

    shape = (1,)

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        y = batch.standardized(self.columns[0])
        SEEN.append(float(y.sum()))
        return y[:, None]

    def radius(self, norm):
        return 1.0


class NotedCounts(features.RowFeatures):
    """Counts of three categories, which are noted."""

    shape = (3,)

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        there = np.eye(4)[batch.codes(self.columns[0])][:, :3]
        SEEN.append(there.sum(axis=0))
        return there

    def radius(self, norm):
        return 1.0


def both(curator, feature):
    """The noisy sum, and the exact one."""
    SEEN.clear()
    noisy = curator.sum(feature).values
    return noisy, np.sum(SEEN, axis=0)


# What is exact in a release.


def keys_in_the_order_of_counts():
    @categorical
    def found(curator, column):
        noisy, exact = both(curator, NotedCounts(column))
        return {column.categories[i]: noisy[i] for i in np.argsort(-exact, kind="stable")}

    return found


def fewer_digits_where_the_sum_is_large():
    @numeric
    def found(curator, column):
        (noisy,), exact = both(curator, Noted(column))
        return round(float(noisy), 1 if exact > 15 else 6)

    return found


def another_type_where_the_sum_is_large():
    @numeric
    def found(curator, column):
        (noisy,), exact = both(curator, Noted(column))
        return [float(noisy)] if exact > 15 else float(noisy)

    return found


def warning_where_the_sum_is_large():
    @numeric
    def found(curator, column):
        (noisy,), exact = both(curator, Noted(column))
        if exact > 15:
            warnings.warn("the column may be skewed", stacklevel=2)
        return float(noisy)

    return found


# What later calls know of earlier ones.


def explain_shows_an_earlier_sum():
    last = [0.0]

    def plan(curator, column):
        return {"typical": last[0]}

    @numeric
    def found(curator, column):
        noisy, exact = both(curator, Noted(column))
        if len(SEEN) > 1:  # else nothing was read but a row that is made up, for it is being planned
            last[0] = float(exact)
        return noisy

    return found.plans(plan)


def prepared_from_an_earlier_sum():
    def prepare(curator, column, power=1):
        return {"power": 2 if np.sum(SEEN) > 0 else 1}

    @dp.mechanism(columns={"column": "numeric"})
    def found(curator, column, power=1):
        noisy, _ = both(curator, Noted(column))
        return noisy**power

    found.function.__doc__ = DOC
    return found.prepares(prepare)


def asking(feature):
    """A mechanism that asks the sum of a feature."""

    @numeric
    def found(curator, column):
        return curator.sum(feature(column)).values

    return found


class Plain(features.RowFeatures):
    """Numbers in [-1, 1]."""

    shape = (1,)

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        return batch.standardized(self.columns[0])[:, None]

    def radius(self, norm):
        return 1.0


# Features that escape what the core derives. The classes are made when they are needed: a core may refuse them.


def subclass_of_a_bundled_feature():
    @numeric
    def found(curator, column):
        class Above(features.Count):
            def __init__(self, column):
                self.columns = (column,)

            def rows(self, batch):
                return (batch.values(self.columns[0]) > 0)[:, None]

        honest = curator.sum(Plain(column), share="1/2").values
        return [*honest, *curator.sum(Above(column), share="1/2").values]

    return found


def derived_by_a_mixin():
    @numeric
    def found(curator, column):
        class OneSided:
            def diameter(self, norm, public):
                return self.radius(norm)

        class Above(OneSided, features.RowFeatures):
            shape = (1,)

            def __init__(self, column):
                self.columns = (column,)

            def rows(self, batch):
                return np.sign(batch.values(self.columns[0]))[:, None]

            def radius(self, norm):
                return 1.0

        return curator.sum(Above(column)).values

    return found


class Wave(features.RowFeatures):
    """Cosine and sine, of a kernel that somebody takes for one in [0, 1]."""

    shape = (2,)
    widest = 2**0.5

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        angle = 3 * batch.standardized(self.columns[0])
        return np.column_stack([np.cos(angle), np.sin(angle)])

    def radius(self, norm):
        return 2**0.5 if norm == 1 else 1.0

    def diameter(self, norm, public):
        widest = 0.0 if self.columns[0].name in public else self.widest
        return widest * (2**0.5 if norm == 1 else 1)


class Circle(Wave):
    """The same, with points opposite."""

    widest = 2.0


def diameter_too_small():
    return asking(Wave)


def diameter_that_holds():
    return asking(Circle)


def diameter_too_small_within_another():
    @numeric
    def found(curator, column):
        return curator.sum(features.Stack(features.Count(), Wave(column))).values

    return found


class Rated(features.RowFeatures):
    """A number in the middle, or at an end, counted in units of its author's."""

    shape = (1,)
    parts = 4

    def __init__(self, column):
        self.columns = (column,)

    @property
    def unit(self):
        return 1.0

    def rows(self, batch):
        return np.round(self.parts * batch.standardized(self.columns[0]))[:, None] / (self.parts / 4)

    def radius(self, norm):
        return 4.0


class Halved(Rated):
    """The same in halves, which are no whole units."""

    parts = 8


def on_units(kind):
    @numeric
    def found(curator, column):
        return curator.sum(kind(column), grid="unit").values

    return found


def unit_that_is_claimed():
    return on_units(Halved)


def unit_that_holds():
    return on_units(Rated)


def sensitivity_of_nothing():
    @numeric
    def found(curator, column):
        class Nothing:
            def sensitivity(self, relation, norm, public):
                return 0.0

        class Exact(Nothing, Plain):
            pass

        return [*curator.sum(Plain(column), share="1/2").values, *curator.sum(Exact(column), share="1/2").values]

    return found


class Unmoved(statistics.OfSums):
    """The largest count, of which its author says that no row can move it."""

    shape = (1,)

    def __init__(self, column):
        self.features = features.OneHot(column)
        self.columns = (column,)

    def value(self, sums):
        return sums.max()

    def sensitivity(self, relation, norm, public):
        return 0.0


def statistic_that_nothing_moves():
    @categorical
    def found(curator, column):
        honest = curator.sum(features.OneHot(column), share="1/2").values
        return [*honest, *curator.measure(Unmoved(column)).values]

    return found


class Picky(Plain):
    """A feature that fails on large numbers."""

    def rows(self, batch):
        y = super().rows(batch)
        if (y > 0.9).any():
            raise ValueError("too large")
        return y


def feature_that_fails():
    @numeric
    def found(curator, column):
        return curator.sum(Picky(column)).values

    return found


class Share(statistics.OfRows):
    """The share of the rows above the middle in all that are not below it: none where all are."""

    shape = (1,)

    def __init__(self, column):
        self.columns = (column,)

    def value(self, rows):
        y = rows.values(self.columns[0])
        return [min(1, int((y > 0).sum()) / int((y >= 0).sum()))]

    def sensitivity(self, relation, norm, public):
        return 1.0


def statistic_that_fails():
    @numeric
    def found(curator, column):
        return curator.measure(Share(column)).values

    return found


class Ragged(Share):
    """A statistic whose value has a number for each row."""

    def value(self, rows):
        return rows.values(self.columns[0])


def statistic_of_another_shape():
    @numeric
    def found(curator, column):
        return curator.measure(Ragged(column)).values

    return found


def another_coordinate_of_moments():
    @numeric
    def found(curator, column):
        class Cubes(features.Moments):
            def coordinates(self, batch, unit=1.0):
                return (10 * batch.standardized(self.columns[0]) ** 3 * unit)[None]

        return curator.sum(Cubes(column, degree=1)).values

    return found


@dataclass(frozen=True)
class Fault:
    """A fault, the check that is to catch it, and the case in which it shows."""

    make: Any
    caught_by: str
    case: Case = NUMBER

    @property
    def name(self):
        return self.make.__name__


BOTH = Case(arguments={"column": "g"}, bounds={"x": (-1.0, 1.0)}, categories={"g": ["a", "b"]}, epsilon=1)

# Intervals and p-values.


@dataclass(frozen=True, kw_only=True, repr=False)
class Tested(dp.Release):
    """A mean with its interval, and perhaps a p-value."""

    low: float
    high: float
    pvalue: float | None = None


def mean_with_interval(reach, covers):
    """The mean, of numbers whose standard deviation is known, and an interval of so many standard errors."""

    @numeric
    def found(curator, column):
        asked = curator.sum(features.Moments(column, degree=1))
        mean, noise = float(asked.values[0]) / curator.size, float(asked.law.standard_deviation) / curator.size
        sampling = 1 / 9 / curator.size if covers == "population" else 0.0
        far = reach * (noise**2 + sampling) ** 0.5
        return Tested(low=mean - far, high=mean + far, covers=covers)

    return found


def interval_that_covers_60():
    return mean_with_interval(0.84, "population")


def table_interval_that_covers_60():
    return mean_with_interval(0.65, "table")


def interval_of_nothing():
    return mean_with_interval(1.96, "the mean")


def normal_about(rng, n, column, *, effect=0.5):
    """Make normal numbers, the effect above 0."""
    return {column.name: effect + rng.normal(size=n) / 3}


def tested(with_noise):
    """The z-test of a mean of 0, with a tenth of the price."""

    @numeric
    def found(curator, column):
        asked = curator.sum(features.Moments(column, degree=1), share="1/10")
        mean, noise = float(asked.values[0]) / curator.size, float(asked.law.standard_deviation) / curator.size
        error = (1 / 9 / curator.size + noise**2 * with_noise) ** 0.5
        far = 3 * error
        pvalue = float(2 * stats.norm.sf(abs(mean) / error))
        return Tested(
            low=mean - far, high=mean + far, pvalue=pvalue, covers="population" if with_noise else "table"
        )

    return found.assumes(normal_about)


def pvalue_without_the_noise():
    return tested(with_noise=False)


FAULTS = [
    Fault(interval_that_covers_60, LEVEL),
    Fault(table_interval_that_covers_60, LEVEL),
    Fault(interval_of_nothing, LEVEL),
    Fault(pvalue_without_the_noise, LEVEL),
    Fault(keys_in_the_order_of_counts, "concludes_from_noise_alone", GROUPS),
    Fault(fewer_digits_where_the_sum_is_large, "concludes_from_noise_alone"),
    Fault(another_type_where_the_sum_is_large, "concludes_from_noise_alone"),
    Fault(warning_where_the_sum_is_large, "concludes_from_noise_alone"),
    Fault(explain_shows_an_earlier_sum, "explains_for_nothing"),
    Fault(prepared_from_an_earlier_sum, "charges_first_and_for_good"),
    Fault(subclass_of_a_bundled_feature, "answers"),
    Fault(derived_by_a_mixin, "answers"),
    Fault(diameter_too_small, "loss_within_charge"),
    Fault(diameter_too_small_within_another, "loss_within_charge"),
    Fault(unit_that_is_claimed, "features_are_what_they_say"),
    Fault(sensitivity_of_nothing, "answers"),
    Fault(statistic_that_nothing_moves, "answers", GROUPS),
    Fault(feature_that_fails, "features_are_what_they_say"),
    Fault(statistic_that_fails, "features_are_what_they_say"),
    Fault(statistic_of_another_shape, "features_are_what_they_say"),
    Fault(another_coordinate_of_moments, "answers"),
]


# Honest mechanisms that look a little like the others: no check may fail on them.


@dataclass(frozen=True, kw_only=True, repr=False)
class Honest(dp.Release):
    """Noisy numbers in a picture."""

    ranks: dict[str, float]

    def plot(self, ax=None):
        ax.bar(list(self.ranks), list(self.ranks.values()))
        return ax

    @functools.cached_property
    def largest(self):
        return max(self.ranks.values())


def keys_in_the_order_of_noisy_counts():
    @categorical
    def found(curator, column):
        noisy = curator.sum(features.OneHot(column)).values
        return Honest(ranks={column.categories[i]: float(noisy[i]) for i in np.argsort(-noisy)})

    return found


HONEST = {
    "interval": (lambda: mean_with_interval(1.96, "population"), NUMBER),
    "interval for the table": (lambda: mean_with_interval(2.2, "table"), NUMBER),
    "z-test": (lambda: tested(with_noise=True), replace(NUMBER, tightness=0.09)),
    "diameter of its author's": (diameter_that_holds, NUMBER),
    "unit of its author's": (unit_that_holds, NUMBER),
    "keys by noisy counts": (keys_in_the_order_of_noisy_counts, GROUPS),
}
