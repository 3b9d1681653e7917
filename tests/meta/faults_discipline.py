"""Mechanisms that are broken around the noise and not in it, and honest ones that look a little like them.

They are written as somebody else would write them, from docs/howto alone: nothing here touches a private name. What
they know of the rows comes from their own features, which put what they see into this module. The core cannot stop
that, so the kit has to find what becomes of it.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import random
import socket
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dfprivacy as dp
from dfprivacy import features, local, statistics
from dfprivacy.testing import Case

NUMBER = Case(arguments={"column": "x"}, bounds={"x": (-1.0, 1.0)}, epsilon=1)
GROUPS = Case(arguments={"column": "g"}, categories={"g": ["a", "b", "c"]}, epsilon=1)

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


# What can be seen of a release.


class Remembering(float):
    """A number with an attribute."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Pictured(dp.Release):
    """A number with a picture of another one."""

    estimate: float

    def plot(self, ax=None):
        ax.bar([0], [self.estimate.exact])
        return ax


def attribute_for_the_picture():
    @numeric
    def found(curator, column):
        (noisy,), exact = both(curator, Noted(column))
        estimate = Remembering(noisy)
        estimate.exact = float(exact)
        return Pictured(estimate=estimate)

    return found


@dataclass(frozen=True, kw_only=True, repr=False)
class Drawn(dp.Release):
    """A number with a picture of what was seen last."""

    estimate: float

    def plot(self, ax=None):
        ax.plot([0, 1], [self.estimate, float(np.sum(SEEN))])
        return ax


def picture_of_what_was_seen():
    @numeric
    def found(curator, column):
        return Drawn(estimate=both(curator, Noted(column))[0][0])

    return found


@dataclass(frozen=True, kw_only=True, repr=False)
class Summed(dp.Release):
    """A number with a summary."""

    estimate: float

    def summary(self):
        return f"about {np.sum(SEEN):.3g}"


def summary_of_what_was_seen():
    @numeric
    def found(curator, column):
        return Summed(estimate=both(curator, Noted(column))[0][0])

    return found


@dataclass(frozen=True, kw_only=True, repr=False)
class Pickled(dp.Release):
    """A number whose pickle holds another one."""

    estimate: float

    def __getstate__(self):
        return {**self.__dict__, "seen": float(np.sum(SEEN))}


def pickle_of_what_was_seen():
    @numeric
    def found(curator, column):
        return Pickled(estimate=both(curator, Noted(column))[0][0])

    return found


def array_that_is_part_of_another():
    @categorical
    def found(curator, column):
        noisy, exact = both(curator, NotedCounts(column))
        return np.concatenate([noisy, exact])[:3]

    return found


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


class Sum(dp.Exact):
    """A sum, not private."""


def released_from_the_owners_form():
    exact = [0.0]

    def own(holder, column):
        exact[0] = float(holder.rows(column).values(column).sum())
        return Sum()

    @numeric
    def found(curator, column):
        return curator.sum(features.Moments(column, degree=1)).values + exact[0]

    return found.holds(own)


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


# What is left behind.


def leaving(leave):
    """A mechanism that does something with the exact sum besides answering."""

    @numeric
    def found(curator, column):
        noisy, exact = both(curator, Noted(column))
        SEEN.clear()
        leave(float(exact))
        return noisy

    return found


def file_written():
    path = Path(tempfile.gettempdir()) / "dfprivacy-of-a-test"
    return leaving(lambda exact: (path.write_text(repr(exact)), path.unlink()))


def directory_made():
    path = Path(tempfile.gettempdir()) / "dfprivacy-of-a-test"
    return leaving(lambda _: (path.mkdir(), path.rmdir()))


def variable_set():
    return leaving(lambda exact: os.environ.update(LAST_SUM_OF_A_TEST=repr(exact)))


def datagram_sent():
    def send(exact):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
            to.sendto(repr(exact).encode(), ("127.0.0.1", 9))

    return leaving(send)


def process_started():
    return leaving(lambda exact: subprocess.run(["true", repr(exact)], check=True))


def printed_past_python():
    return leaving(lambda exact: os.write(1, f"{exact}\n".encode()))


def generator_seeded():
    return leaving(lambda _: np.random.seed(7))  # noqa: NPY002


def generator_seeded_by_the_sum():
    return leaving(random.seed)


def generator_used_up_by_the_sum():
    return leaving(lambda exact: np.random.normal(size=int(abs(exact))))  # noqa: NPY002


def left_in_another_module():
    def leave(exact):
        np.last_sum = exact

    return leaving(leave)


def left_in_a_class_of_ours():
    def leave(exact):
        dp.Release.last_sum = exact

    return leaving(leave)


def left_in_the_module():
    @numeric
    def found(curator, column):
        return both(curator, Noted(column))[0]

    return found


def left_on_the_function():
    @numeric
    def found(curator, column):
        noisy, exact = both(curator, Noted(column))
        SEEN.clear()
        keep.last = float(exact)
        return noisy

    def keep():
        return None

    return found


# Features that remember.


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


class Keeping(features.RowFeatures):
    """Numbers in [-1, 1], kept."""

    shape = (1,)

    def __init__(self, column):
        self.columns = (column,)
        self.seen = 0.0

    def rows(self, batch):
        y = batch.standardized(self.columns[0])
        self.seen += float(y.sum())
        return y[:, None]

    def radius(self, norm):
        return 1.0


class Growing(Keeping):
    """Numbers that are clipped to what was seen."""

    def rows(self, batch):
        y = batch.standardized(self.columns[0])
        self.seen = max(self.seen, float(np.abs(y).max(initial=0.0)))
        return y[:, None]

    def radius(self, norm):
        return 0.5 + self.seen


class Learning(Keeping):
    """Numbers whose weight is learned."""

    def rows(self, batch):
        y = batch.standardized(self.columns[0])
        self.weights = 1.0 + float(np.abs(y).sum())
        return y[:, None]


class Turning(Keeping):
    """Numbers which, once seen, are said to be of another column."""

    def rows(self, batch):
        y = batch.standardized(self.columns[0])
        if y.sum() > 0:
            self.shape = (1, 1)
        return y[:, None]


class Warning_(Plain):  # noqa: N801
    """Numbers of which it warns."""

    def rows(self, batch):
        y = batch.standardized(self.columns[0])
        if y.sum() > 0:
            warnings.warn(f"the sum is {y.sum()}", stacklevel=2)
        return y[:, None]


class OnTheClass(Plain):
    """Numbers that are kept on the class."""

    def rows(self, batch):
        y = batch.standardized(self.columns[0])
        OnTheClass.seen = float(y.sum())
        return y[:, None]


def feature_keeps_the_rows():
    return asking(Keeping)


def radius_that_grows():
    return asking(Growing)


def weights_that_are_learned():
    return asking(Learning)


def shape_that_turns():
    return asking(Turning)


def feature_that_warns():
    return asking(Warning_)


def feature_keeps_on_its_class():
    return asking(OnTheClass)


def feature_within_another():
    @categorical
    def found(curator, column):
        return curator.sum(features.OneHot(column) * Keeping(curator.columns[0])).values

    return found


class LargestKept(statistics.OfSums):
    """The largest count, and the sums it was computed from."""

    shape = (1,)

    def __init__(self, column):
        self.features = features.OneHot(column)
        self.columns = (column,)

    def value(self, sums):
        self.sums = sums
        return sums.max()

    def sensitivity(self, relation, norm, public):
        return 1.0


def statistic_keeps_the_sums():
    @categorical
    def found(curator, column):
        return float(curator.measure(LargestKept(column)).values[0])

    return found


class LabelsKept(local.RowLabels):
    """Which category a row is of, kept."""

    places = 4

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        self.codes = batch.codes(self.columns[0]).copy()
        return self.codes


def labels_keep_the_rows():
    @dp.mechanism(columns={"column": "category"}, local=True)
    def found(curator, column):
        return np.bincount(curator.randomize(LabelsKept(column)).values, minlength=4)

    found.function.__doc__ = DOC
    return found


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


def diameter_of_one_object():
    @numeric
    def found(curator, column):
        feature = Plain(column)
        feature.diameter = lambda norm, public: 1.0
        return curator.sum(feature).values

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

FAULTS = [
    Fault(attribute_for_the_picture, "shows_noise_alone"),
    Fault(picture_of_what_was_seen, "shows_noise_alone"),
    Fault(summary_of_what_was_seen, "shows_noise_alone"),
    Fault(pickle_of_what_was_seen, "shows_noise_alone"),
    Fault(array_that_is_part_of_another, "shows_noise_alone", GROUPS),
    Fault(keys_in_the_order_of_counts, "concludes_from_noise_alone", GROUPS),
    Fault(keys_in_the_order_of_counts, "shows_noise_alone", GROUPS),
    Fault(fewer_digits_where_the_sum_is_large, "concludes_from_noise_alone"),
    Fault(another_type_where_the_sum_is_large, "concludes_from_noise_alone"),
    Fault(warning_where_the_sum_is_large, "concludes_from_noise_alone"),
    Fault(explain_shows_an_earlier_sum, "explains_for_nothing"),
    Fault(prepared_from_an_earlier_sum, "keeps_no_state"),
    Fault(released_from_the_owners_form, "own_form_keeps_nothing"),
    Fault(file_written, "leaves_no_trace"),
    Fault(directory_made, "leaves_no_trace"),
    Fault(variable_set, "leaves_no_trace"),
    Fault(datagram_sent, "leaves_no_trace"),
    Fault(process_started, "leaves_no_trace"),
    Fault(printed_past_python, "leaves_no_trace"),
    Fault(generator_seeded, "leaves_no_trace"),
    Fault(generator_seeded_by_the_sum, "leaves_no_trace"),
    Fault(generator_used_up_by_the_sum, "leaves_no_trace"),
    Fault(left_in_another_module, "leaves_no_trace"),
    Fault(left_in_a_class_of_ours, "leaves_no_trace"),
    Fault(left_in_the_module, "leaves_no_trace"),
    Fault(left_on_the_function, "leaves_no_trace"),
    Fault(feature_keeps_the_rows, "features_remember_nothing"),
    Fault(radius_that_grows, "features_remember_nothing"),
    Fault(weights_that_are_learned, "features_remember_nothing"),
    Fault(shape_that_turns, "features_remember_nothing"),
    Fault(feature_that_warns, "features_remember_nothing"),
    Fault(feature_keeps_on_its_class, "features_remember_nothing"),
    Fault(feature_within_another, "features_remember_nothing", BOTH),
    Fault(statistic_keeps_the_sums, "features_remember_nothing", GROUPS),
    Fault(labels_keep_the_rows, "features_remember_nothing", GROUPS),
    Fault(subclass_of_a_bundled_feature, "features_keep_the_rules"),
    Fault(subclass_of_a_bundled_feature, "noises_what_it_reads"),
    Fault(derived_by_a_mixin, "features_keep_the_rules"),
    Fault(diameter_too_small, "diameters_hold"),
    Fault(diameter_too_small, "loss_within_charge"),
    Fault(diameter_too_small_within_another, "diameters_hold"),
    Fault(unit_that_is_claimed, "units_hold"),
    Fault(sensitivity_of_nothing, "features_keep_the_rules"),
    Fault(sensitivity_of_nothing, "noises_what_it_reads"),
    Fault(statistic_that_nothing_moves, "noises_what_it_reads", GROUPS),
    Fault(feature_that_fails, "features_never_fail"),
    Fault(statistic_that_fails, "features_never_fail"),
    Fault(statistic_of_another_shape, "features_never_fail"),
    Fault(diameter_of_one_object, "features_keep_the_rules"),
    Fault(another_coordinate_of_moments, "features_keep_the_rules"),
]


# Honest mechanisms that look a little like the others: no check may fail on them.

LOG = logging.getLogger("plugin")
CHANCE = np.random.default_rng()


@functools.lru_cache
def table_of(size):
    """A table that depends on what is public."""
    return np.arange(size)


class Lazy(Plain):
    """Numbers whose public part is computed when it is first needed."""

    def rows(self, batch):
        if "centre" not in vars(self):
            self.centre = self.columns[0].mid
        return super().rows(batch)


def lazy_feature():
    return asking(Lazy)


def public_cache():
    @numeric
    def found(curator, column):
        LOG.debug("a sum is measured")
        return curator.sum(Plain(column)).values + table_of(curator.size).mean()

    return found


def shared_generator():
    @numeric
    def found(curator, column):
        noisy = float(curator.sum(Plain(column)).values[0])
        return [float((np.random.normal(size=9) > noisy).mean()), random.random()]  # noqa: NPY002, S311

    return found


def generator_of_the_module():
    @numeric
    def found(curator, column):
        return float(CHANCE.normal() + curator.sum(Plain(column)).values[0])

    return found


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
    "lazy feature": (lazy_feature, NUMBER),
    "diameter of its author's": (diameter_that_holds, NUMBER),
    "unit of its author's": (unit_that_holds, NUMBER),
    "public cache": (public_cache, NUMBER),
    "shared generator": (shared_generator, NUMBER),
    "generator of the module": (generator_of_the_module, NUMBER),
    "keys by noisy counts": (keys_in_the_order_of_noisy_counts, GROUPS),
}


def clean_up():
    """Take away what faults have left behind."""
    SEEN.clear()
    os.environ.pop("LAST_SUM_OF_A_TEST", None)
    for place in (np, dp.Release):
        with contextlib.suppress(AttributeError):
            del place.last_sum
