"""Mechanisms that are broken on purpose, each by a fault seen in the wild, and honest ones beside them.

A plugin that keeps to the public face of dfprivacy can hardly leak. These do not keep to it: they reach for private
attributes, as a plugin could, and as code outside of any such house does all the time. Each is made anew by its
function, for some keep something between calls.
"""

from __future__ import annotations

import contextlib
import logging
import random
import sys
import types
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from unittest import mock

import core_checks
import numpy as np

import dfprivacy as dp
from dfprivacy import features, mechanism, statistics
from dfprivacy._call import call
from dfprivacy._ledger.accounts import JointAccount
from dfprivacy._ledger.tables import tables as _schema
from dfprivacy._measure import discovery
from dfprivacy._measure import kept_measurements as keeping
from dfprivacy._measure.evaluate import Table
from dfprivacy._measure.kept_measurements import NoisyResult
from dfprivacy._measure.steps import GroupRunner
from dfprivacy._plugins.loader import registry
from dfprivacy._privacy import calibrate
from dfprivacy._privacy import samplers as noise
from dfprivacy._privacy.losses import Laplace, Pure
from dfprivacy._table.batch import category, number
from dfprivacy._table.conditions import batches
from dfprivacy._table.frames import Read, redact_errors
from dfprivacy._table.people import BoundedFrame
from dfprivacy._table.sample import DrawnFrame, SampledFrame
from dfprivacy.local import Arc, RowLabels
from dfprivacy.schema import Unit
from dfprivacy.testing import seeded_noise
from dfprivacy_audit import Case

CHANCE = random.Random()  # noqa: S311 - of mechanisms that draw noise of their own; a test seeds it

NUMBER = Case(arguments={"column": "x"}, bounds={"x": (-1.0, 1.0)}, epsilon=1)
GROUPS = Case(arguments={"column": "g"}, categories={"g": ["a", "b", "c"]}, epsilon=1)
CHOSEN = replace(
    GROUPS, arguments={"column": "g", "of": "x"}, bounds={"x": (-1.0, 1.0)}, tightness=0.7
)  # no pair of rows moves both as far as they go
KEYS = replace(GROUPS, epsilon=5, delta="1/1000")
BOTH = Case(
    arguments={"column": "x", "by": "g"}, bounds={"x": (-1.0, 1.0)}, categories={"g": ["a", "b"]}, epsilon=1
)
TWO = replace(NUMBER, other="other")

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


def numeric(function=None, *, doc=DOC, **terms):
    """A mechanism of one numeric column."""
    if function is None:
        return partial(numeric, doc=doc, **terms)
    function.__doc__ = doc
    return mechanism(columns={"column": "numeric"}, **terms)(function)


def categorical(function):
    """A mechanism of one column with categories."""
    function.__doc__ = DOC
    return mechanism(columns={"column": "category"})(function)


def grouped(function):
    """A mechanism of a numeric column and one with categories."""
    function.__doc__ = DOC
    return mechanism(columns={"column": "numeric", "by": "category"})(function)


def of_two(function):
    """A mechanism of a numeric column of two views."""
    function.__doc__ = DOC
    return mechanism(columns={"column": "numeric", "other": "view"})(function)


# How to get at what a mechanism has no business with.


def cleaned(curator, column):
    """Every row's number."""
    table = curator._table
    return redact_errors(
        lambda: np.concatenate([b.values(column) for b, _ in batches(table.required_frame, [number(column)], ())])
    )


def raw(curator, column):
    """Every row's number as it stands in the table."""
    found = curator._table.required_frame.batches([Read(column.name)], 1 << 14)
    return np.concatenate([np.asarray(part[Read(column.name)], dtype=float) for _, part in found])


def counts(curator, column):
    """How many rows each category has."""
    return np.array(curator._table.total(features.OneHot(column), 0), dtype=float)


def pay(curator):
    """Pay for the whole call at once."""
    curator._budget.pay([Pure(curator._budget.epsilon)], [])


def laplace(scale):
    """Continuous noise, from a source that cannot be replayed."""
    return float(np.random.Generator(np.random.PCG64(CHANCE.getrandbits(128))).laplace(0, scale))


def average(curator, column):
    """What an honest mechanism would do."""
    return curator.sum(features.Moments(column, degree=1)).values[0]


class Row(features.RowFeatures):
    """A feature whose rows and radius are given."""

    def __init__(self, column, rows, radius=1.0, dimension=1):
        self.columns = column if isinstance(column, tuple) else (column,)
        self.shape = (dimension,)
        self._rows, self._radius = rows, radius

    def rows(self, batch):
        return self._rows(batch)

    def radius(self, norm):
        return self._radius


def with_diameter(claim):
    """A kind of feature with a diameter that nobody proved, as if the house had written it."""

    class Claimed(Row):
        pass

    Claimed.diameter = lambda self, norm, public: claim
    Claimed.__module__, Claimed.__qualname__ = "dfprivacy.features.claimed", "Claimed"
    house = sys.modules.setdefault(Claimed.__module__, types.ModuleType(Claimed.__module__))
    house.Claimed = Claimed
    return Claimed


# The faults.


class Scaled:
    """A sampler of another scale than it was asked for."""

    name, private = "half the noise", True

    def __init__(self, inner, factor):
        self.inner, self.factor = inner, factor

    def laplace(self, values, scale):
        return self.inner.laplace(values, scale * self.factor)

    def gaussian(self, values, scale):
        return self.inner.gaussian(values, scale * self.factor)


def half_the_noise():
    @numeric
    def found(curator, column):
        with noise.use_sampler(Scaled(noise.sampler(), 0.5)):
            return average(curator, column)

    return found


def noise_of_a_seed():
    @numeric
    def found(curator, column):
        with seeded_noise(1):
            return average(curator, column)

    return found


def mean_of_n_minus_1():
    """The sensitivity of the mean of n - 1 rows, for the mean of n."""

    @numeric
    def found(curator, column):
        n = curator.size
        kind = with_diameter(2 * (n - 1) / n)
        return curator.sum(kind(column, lambda b: b.standardized(column))).values[0] / n

    return found


def cube_of_a_mean_change():
    """Noise of the cube for the L1 sensitivity over the number of coordinates."""

    @categorical
    def found(curator, column):
        kind = with_diameter(2 / 3)
        counts = kind(column, lambda b: np.eye(4)[b.codes(column)][:, :3], 1.0, 3)
        return curator.sum(counts, noise="cube").values

    return found


def bounds_from_the_data():
    @numeric
    def found(curator, column):
        values = cleaned(curator, column)
        learned = dp.Column(column.name, bounds=(values.min(), values.max() + 1e-9), fill=float(values.mean()))
        return learned.mid + learned.half * average(curator, learned) / curator.size

    return found


def missing_rows_dropped():
    """The mean of the rows that are there, their number for nothing."""

    @numeric
    def found(curator, column):
        return average(curator, column) / np.isfinite(raw(curator, column)).sum()

    return found


def exact_group_counts():
    @grouped
    def found(curator, column, by):
        sums = curator.sum(features.OneHot(by) * features.Moments(column, degree=1)).values[:, 0]
        return sums / np.maximum(counts(curator, by), 1)

    return found


def label_flip_charged_once():
    """A row that changes its group changes two sums; the change of one is charged."""

    @grouped
    def found(curator, column, by):
        kind = with_diameter(2.0)

        def rows(batch):
            y = 2 + batch.standardized(column)
            return np.eye(3)[batch.codes(by)][:, :2] * y[:, None]

        return curator.sum(kind((column, by), rows, 3.0, 2)).values

    return found


def printed_tcs_sensitivity():
    """A whitened statistic with the sensitivity 4/(gamma n) that a printed proof gives it."""

    @numeric
    def found(curator, column):
        pay(curator)
        z, gamma = cleaned(curator, column), 0.01
        n = len(z)
        statistic = n * z.mean() ** 2 / (z.var(ddof=1) + gamma) if n > 1 else 0.0
        return statistic + laplace(4 * (1 + 1 / n) / (gamma * n) / curator.epsilon)

    return found


def second_table_weighs_double():
    """The sensitivity of a row of the first table, for rows of either."""

    @of_two
    def found(curator, column, other=None):
        kind = with_diameter(2.0)
        asked = kind((column, other), lambda b: b.standardized(column) * (1 + b.codes(other)), 2.0)
        return curator.sum(asked).values

    return found


@contextmanager
def second_account_spared():
    """The account of the second view is asked, and not charged."""

    def charge(self, *losses, **about):
        return self.first.charge(*losses, **about)

    with mock.patch.object(JointAccount, "charge", charge):
        yield


def normaliser_from_the_data():
    """Distances divided by the largest of them."""

    @numeric
    def found(curator, column):
        most = max(float(np.abs(cleaned(curator, column)).max()), 1e-3)
        return curator.sum(Row(column, lambda b: b.values(column) / most)).values[0]

    return found


def threshold_from_the_margin():
    @grouped
    def found(curator, column, by):
        noisy = average(curator, column)
        return "reject" if noisy > counts(curator, by)[0] / 7 else "accept"

    return found


def numpy_float_noise():
    @numeric
    def found(curator, column):
        pay(curator)
        return float(cleaned(curator, column).sum()) + laplace(2 / curator.epsilon)

    return found


def noise_seeded_by_the_data():
    @numeric
    def found(curator, column):
        pay(curator)
        total = float(cleaned(curator, column).sum())
        return total + np.random.default_rng(abs(int(total * 1e6))).laplace(0, 2 / curator.epsilon)

    return found


def standardised_within_the_batch():
    @numeric
    def found(curator, column):
        def rows(batch):
            y = batch.values(column)
            return np.clip((y - y.mean()) / (3 * y.std() + 1e-9), -1, 1)

        return curator.sum(Row(column, rows)).values[0]

    return found


def blas_by_position():
    """A product of matrices in float32, whose last bits depend on where in the batch a row stands."""

    @numeric
    def found(curator, column):
        weights = np.random.default_rng(5).normal(size=(33, 17)).astype(np.float32)

        def rows(batch):
            y = batch.values(column).astype(np.float32)
            powers = np.cos(y[:, None] * np.arange(33, dtype=np.float32))
            return np.tanh(powers @ weights) / 17

        return curator.sum(Row(column, rows, 1.0, 17)).values

    return found


def features_by_position():
    @numeric
    def found(curator, column):
        return curator.sum(Row(column, lambda b: b.standardized(column) * (np.arange(b.size) % 2))).values[0]

    return found


def pvalue_beside_the_decision():
    @numeric
    def found(curator, column):
        rejected = bool(average(curator, column) > 1)
        return {"rejected": rejected, "pvalue": float(np.exp(-abs(cleaned(curator, column).sum())))}

    return found


def read_before_the_charge():
    @numeric
    def found(curator, column):
        curator._table.total(features.Moments(column, degree=1), 20)
        return average(curator, column)

    return found


def exception_quotes_a_value():
    @numeric
    def found(curator, column):
        noisy = average(curator, column)
        for value in raw(curator, column):
            if abs(value) > 1:
                raise ValueError(f"{value} is out of range")
        return noisy

    return found


def warning_quotes_a_value():
    @numeric
    def found(curator, column):
        noisy = average(curator, column)
        warnings.warn(f"the largest value is {cleaned(curator, column).max()}", stacklevel=2)
        return noisy

    return found


def log_quotes_a_value():
    @numeric
    def found(curator, column):
        noisy = average(curator, column)
        logging.getLogger("plugin").debug("first row: %s", cleaned(curator, column)[0])
        return noisy

    return found


def print_quotes_a_value():
    @numeric
    def found(curator, column):
        noisy = average(curator, column)
        print("values:", cleaned(curator, column).tolist())  # noqa: T201
        return noisy

    return found


def refund_after_an_error():
    @numeric
    def found(curator, column):
        try:
            return average(curator, column)
        except dp.ReadError:
            account = curator._budget._account
            with contextlib.suppress(AttributeError), account.ledger.transaction(write=True) as connection:
                charges, accounts = _schema().charges, _schema().accounts
                connection.execute(charges.delete().where(charges.c.account == account.name))
                nothing = "[" + ", ".join(['"0"'] * len(account.accountant.no_charges.to_list())) + "]"
                connection.execute(accounts.update().where(accounts.c.name == account.name).values(spent=nothing))
            raise

    return found


def result_keeps_the_frame():
    @numeric
    def found(curator, column):
        average(curator, column)
        return curator._table

    return found


def result_keeps_the_rows():
    @numeric
    def found(curator, column):
        return {"sum": average(curator, column), "residuals": cleaned(curator, column)}

    return found


def one_noise_two_projections():
    """The noise of the first answer serves the second one too: their difference is exact."""
    kept = {}

    @numeric
    def found(curator, column):
        exact = cleaned(curator, column).sum()
        if "noise" not in kept:
            kept["noise"] = average(curator, column) - exact
        return exact**2 + kept["noise"]

    return found


def measurement_kept_for_later():
    kept = {}

    @numeric
    def found(curator, column):
        if column.name not in kept:
            kept[column.name] = average(curator, column)
        return kept[column.name]

    return found


def _select(curator, scores):
    """The exponential mechanism for scores of sensitivity one, with a source that cannot be replayed."""
    weights = np.exp(curator.epsilon * (scores - scores.max()) / 2)
    place = CHANCE.random() * weights.sum()
    return int(min(np.searchsorted(np.cumsum(weights), place), len(scores) - 1))


def select_by_the_unsigned_distance():
    """Scores -|d| of the distance to significance, counted from both sides: their sensitivity is two."""

    @categorical
    def found(curator, column):
        pay(curator)
        seen = counts(curator, column)
        return column.categories[_select(curator, -np.abs(2 * seen - seen.sum()))]

    return found


def _flipped(curator, column, epsilon):
    """The first row's category, or another, by randomised response."""
    (batch, _), *_ = redact_errors(lambda: list(batches(curator._table.required_frame, [category(column)], ())))
    code, k = int(batch.codes(column)[0]), len(column.categories)
    if code == k:
        return CHANCE.randrange(k)
    if CHANCE.random() < np.exp(epsilon) / (np.exp(epsilon) + k - 1):
        return code
    return (code + 1 + CHANCE.randrange(k - 1)) % k


def response_hardly_randomised():
    """Randomised response that is told the epsilon of the whole for each of two looks at a row."""

    @categorical
    def found(curator, column):
        pay(curator)
        return [_flipped(curator, column, curator.epsilon), _flipped(curator, column, curator.epsilon)]

    return found


class Counts(statistics.OfSums):
    """The counts of a column, or their maximum; `moves` is what its author says of one row."""

    def __init__(self, column, *, largest=False, moves=1.0):
        self.features = features.OneHot(column)
        self.columns = (column,)
        self.shape = (1,) if largest else self.features.shape
        self.largest = largest
        self.moves = moves

    def value(self, sums):
        return sums.max() if self.largest else sums

    def sensitivity(self, relation, norm, public):
        return self.moves


def sensitivity_claimed():
    """The maximum of some counts, twice weighed, by an author who forgot to say so."""

    @categorical
    def found(curator, column):
        counted = Counts(column, largest=True)
        counted.value = lambda sums: 2 * sums.max()
        return float(curator.measure(counted).values[0])

    return found


def cube_of_the_wrong_norm():
    """Counts with noise of the cube, by an author who took their mean change for the largest."""

    @categorical
    def found(curator, column):
        return curator.measure(Counts(column, moves=2 / 3), noise="cube").values

    return found


def honest_cube():
    """All counts; a row that changes its category moves two of them."""

    @categorical
    def found(curator, column):
        return curator.measure(Counts(column), noise="cube").values

    return found


class Halves(statistics.OfPermutations):
    """How many rows of the first category are in a half: the first, and random ones."""

    shape = (20,)

    def __init__(self, column):
        self.columns = (column,)

    def value(self, rows, rng):
        codes = rows.codes(self.columns[0])
        half = codes.size // 2
        orders = [np.arange(codes.size), *(rng.permutation(codes.size) for _ in range(19))]
        return [(codes[order[:half]] == 0).sum() for order in orders]

    def sensitivity(self, relation, norm, public):
        return np.inf if relation == "add_remove" else 1.0


def selection_with_a_third_of_the_noise():
    """A selection by scores that are said to move by a third of what they do."""

    @categorical
    def found(curator, column):
        return column.categories[int(curator.select(Counts(column, moves=1 / 3))[0])]

    return found


def threshold_with_little_noise():
    """A sparse vector of values that are said to move by a twentieth of what they do."""

    @categorical
    def found(curator, column):
        counted = Counts(column, moves=1 / 20)
        return curator.above_threshold(counted, lambda *_: 3.0, most=3).reached.tolist()

    return found


def selection_of_two_at_the_price_of_one():
    """The two best, with the noise that the best alone would need."""

    @categorical
    def found(curator, column):
        pay(curator)
        seen = np.array(counts(curator, column), dtype=np.int64)
        return noise.sampler().noisy_top_k(seen, 2 / curator.epsilon, 2, flip=True)

    return found


def decision_by_values_that_move_more(alpha=0.25):
    """A permutation test whose values are said to move by half of what they do."""

    @categorical
    def found(curator, column):
        halves = Halves(column)
        halves.sensitivity = lambda *_: 0.5
        return curator.permutation_test(halves, alpha=alpha)

    return found


def pvalue_by_values_that_move_more():
    """The p-value of the same."""
    return decision_by_values_that_move_more(alpha=None)


# The local model.


class Quarters(RowLabels):
    """In which of 16 parts of the bounds a number lies."""

    places = 16

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        return np.floor(batch.standardized(self.columns[0]) * 7.5 + 8)


def local(function):
    """A mechanism of one numeric column that releases messages."""
    return numeric(function, local=True)


def messages_with(epsilon, price, times=1):
    """One message a row and time, randomised at some multiple of epsilon and charged at another."""

    @local
    def found(curator, column):
        curator._budget.pay([Pure(curator._budget.epsilon * price)], [])
        labels = curator._table.labels([Quarters(column)], np.zeros(curator.size, dtype=np.intp))
        arc = Arc.within(curator._budget.epsilon * epsilon, places=16, reach=3)
        return [noise.sampler().arc(labels, arc) for _ in range(times)]

    return found


def messages_with_half_the_noise():
    return messages_with(2, 1)


def messages_charged_by_half():
    return messages_with(1, Fraction(1, 2))


def messages_twice():
    return messages_with(1, 1, times=2)


def messages_hardly_beyond():
    """Weights whose ratio is e^ε rounded up."""

    @local
    def found(curator, column):
        pay(curator)
        labels = curator._table.labels([Quarters(column)], np.zeros(curator.size, dtype=np.intp))
        arc = Arc.within(curator._budget.epsilon, places=16, reach=3)
        return noise.sampler().arc(labels, replace(arc, inside=arc.inside + 1))

    return found


def messages_that_compare_rows():
    """A row's message says where it stands among the others."""

    class Places(Quarters):
        def rows(self, batch):
            return np.searchsorted(np.sort(batch.values(self.columns[0])), batch.values(self.columns[0])) % 16

    @local
    def found(curator, column):
        return curator.randomize(Places(column), reach=3).values

    return found


def messages_by_the_spread():
    """An arc that is as wide as the data say."""

    @local
    def found(curator, column):
        reach = 3 if cleaned(curator, column).std() > 0.6 else 2
        return curator.randomize(Quarters(column), reach=reach).values

    return found


def messages_and_a_count():
    """The messages are private, the true count beside them is not."""

    @local
    def found(curator, column):
        messages = curator.randomize(Quarters(column), reach=3)
        return {"messages": messages.values, "high": int((cleaned(curator, column) > 0).sum())}

    return found


def public_by_claim():
    """A sum of private rows that comes exact, and for nothing, for it says that no row can change it."""

    @numeric
    def found(curator, column):
        with mock.patch.object(type(curator._table), "is_public", return_value=True):
            return curator.sum(with_diameter(0.0)(column, lambda b: b.standardized(column))).values[0]

    return found


def charged_behind_the_back():
    @numeric
    def found(curator, column):
        loss = Laplace(1, float(1 / curator._budget.epsilon) * 1.01, curator._budget.epsilon)
        curator._budget._account.charge(loss, call="none", mechanism="found")
        return average(curator, column)

    return found


def cost_by_the_data():
    @numeric
    def found(curator, column):
        large = cleaned(curator, column).sum() > 0
        return curator.sum(features.Moments(column, degree=1), share=Fraction(1, 2) if large else 1).values[0]

    return found


def table_changed():
    @numeric
    def found(curator, column):
        noisy = average(curator, column)
        frame = getattr(getattr(curator._table.required_frame, "engine", None), "_frame", None)
        if hasattr(frame, "clip"):
            frame[column.name] = frame[column.name].clip(column.low, column.high)
        return noisy

    return found


def plan_reads():
    @numeric
    def found(curator, column):
        return average(curator, column)

    def plan(curator, column):
        return {"sum": curator._table.total(features.Moments(column, degree=1), 4)[0]}

    return found.plans(plan)


def nothing_documented():
    return numeric(average, doc="The mean of a column.")


def not_a_number():
    @numeric
    def found(curator, column):
        return float("nan") * average(curator, column)

    return found


def radius_too_large():
    @numeric
    def found(curator, column):
        return curator.sum(Row(column, lambda b: b.standardized(column), 3.0)).values[0]

    return found


def error_for_an_empty_group():
    @categorical
    def found(curator, column):
        noisy = curator.sum(features.OneHot(column)).values
        if counts(curator, column).min() < 3:
            raise dp.ArgumentError("A group is too small.", "Take another column.")
        return noisy

    return found


def ways_of_the_library():
    """Categories, counted in another way where another library holds the table."""

    @categorical
    def found(curator, column):
        moved = int(curator._table.frame.library == "polars")
        return curator.sum(Row(column, lambda b: np.eye(3)[(b.codes(column) + moved) % 3], 1.0, 3)).values

    return found


def gaussian_noise_charged_as_laplace():
    @numeric
    def found(curator, column):
        epsilon = curator._budget.epsilon
        scale = 2.0**21 / float(epsilon) * 1.001
        curator._budget.pay([Laplace(2**21, scale, epsilon)], [])
        total = np.array(curator._table.total(features.Moments(column, degree=1), 20))
        return float(noise.sampler().gaussian(total, scale)[0])

    return found


def honest_average():
    return numeric(average)


def honest_difference():
    """The sum of each of two tables."""

    @of_two
    def found(curator, column, other=None):
        first, second = curator.sum(features.OneHot(other) * features.Moments(column, degree=1)).values[:, 0]
        return first - second

    return found


def honest_keys():
    """The keys that occur in enough rows."""

    def found(curator, column):
        keys = curator.discover(column)
        return {"keys": list(keys.keys), "counts": keys.counts}

    found.__doc__ = DOC
    return mechanism(columns={"column": "any"}, delta=True)(found)


def honest_known_keys():
    """The keys of a known domain that enough rows hold."""

    def found(curator, column):
        keys = curator.discover(column, domain="[a-z]")
        return {"keys": list(keys.keys), "counts": keys.counts}

    found.__doc__ = DOC
    return mechanism(columns={"column": "any"})(found)


def key_threshold_from_the_data():
    """From the commonest key's count it follows which others are shown."""

    @categorical
    def found(curator, column):
        scale = 2 / curator.epsilon
        curator._budget.pay([Laplace(2, scale, curator._budget.epsilon)], [])
        held = dict(enumerate(counts(curator, column).astype(int).tolist()))
        shown = noise.sampler().sparse_counts(held, 1000, scale, max(1, max(held.values()) // 2))
        return {"keys": [*shown], "counts": [*shown.values()]}

    return found


def honest_messages():
    """One message a row."""

    @local
    def found(curator, column):
        return curator.randomize(Quarters(column), reach=3).values

    return found


@contextmanager
def coarse_sampler():
    """Noise in multiples of four steps."""

    class Coarse(Scaled):
        name = "coarse"

        def laplace(self, values, scale):
            return values + super().laplace(np.zeros_like(values), scale) // 4 * 4

    with noise.use_sampler(Coarse(noise.OpenDPSampler(), 1.0)):
        yield


@contextmanager
def cube_too_round():
    """Noise of the cube with a radius of too few geometric variables."""

    class Round(Scaled):
        name = "too round"

        def cube(self, values, scale):
            drawn = self.inner.laplace(np.zeros(values.shape, dtype=np.int64), scale)
            r = int(np.where(drawn >= 0, drawn, -drawn - 1).sum())
            return values + np.array([self.inner.uniform_below(2 * r + 1) - r for _ in range(values.size)])

    with noise.use_sampler(Round(noise.OpenDPSampler(), 1.0)):
        yield


@contextmanager
def threshold_too_low():
    """Keys are shown from one row less on than delta allows."""
    exact = calibrate.discovery_threshold
    with mock.patch.object(calibrate, "discovery_threshold", lambda *about: exact(*about) - 1):
        yield


@contextmanager
def key_moved_once():
    """A row that leaves a key for another is charged for the one alone."""
    exact = calibrate.laplace_scale
    with mock.patch.object(calibrate, "laplace_scale", lambda _, epsilon: exact(1, epsilon)):
        yield


@contextmanager
def key_noise_for_a_row_that_comes():
    """A row of a known domain that leaves a key for another is charged for the one alone."""

    def little(moved, scale, epsilon):
        return Laplace(moved - 1, scale, epsilon)

    exact = calibrate.laplace_scale
    with (
        mock.patch.object(calibrate, "laplace_scale", lambda moved, epsilon: exact(moved - 1, epsilon)),
        mock.patch.object(discovery, "Laplace", little),
    ):
        yield


@contextmanager
def one_draw_for_all():
    """The same noise for every coordinate."""

    class Same(Scaled):
        name = "one draw for all"

        def laplace(self, values, scale):
            drawn = super().laplace(np.zeros((*values.shape[:-1], 1), dtype=np.int64), scale)
            return values + drawn

    with noise.use_sampler(Same(noise.OpenDPSampler(), 1.0)):
        yield


def kernel_at():
    """A sum of kernels at a point."""

    @numeric
    def found(curator, column, *, at: float = 0.5):
        kernel = features.ProductKernel([column], lengthscale=1.0)
        return curator.sum(features.Kernel(kernel, np.array([[at]]))).values.tolist()

    return found


@contextmanager
def undescribed(kind, attributes):
    """Leave attributes of a class out of descriptions."""
    with mock.patch.dict(keeping._DERIVED_ATTRIBUTES, {kind: attributes}):
        yield


@contextmanager
def parameter_left_out():
    """Measurements are known by their features but for where a kernel is evaluated."""
    with undescribed("dfprivacy.features.kernel:Kernel", {"points", "_right"}):
        yield


@contextmanager
def bound_left_out():
    """Measurements are known by their columns but for the bounds of these."""
    with undescribed("dfprivacy.schema:Column", {"bounds", "fill"}):
        yield


@contextmanager
def condition_left_out():
    """Measurements are known but for which rows they are of."""
    with mock.patch.object(keeping, "_describe_rows", return_value="{}"):
        yield


@contextmanager
def paid_although_taken():
    """A measurement that is taken from the ledger is paid all the same."""
    answers = GroupRunner._answer_requests

    def paid(self, asked):
        told = answers(self, asked)
        for each in asked:
            if isinstance(each.result, NoisyResult) and each.result.record.reused:
                self._budget.pay(each.losses, [])
        return told

    with mock.patch.object(GroupRunner, "_answer_requests", paid):
        yield


@contextmanager
def one_sample_for_all():
    """A sample is drawn once and seen by every question."""
    with mock.patch.object(SampledFrame, "drawn", cache(SampledFrame.drawn)):
        yield


@contextmanager
def epsilon_over_share():
    """On a sample of q, epsilon / q is spent for epsilon, which is more than it is worth."""
    with mock.patch.object(call, "epsilon_on_sample", lambda epsilon, share: epsilon / share):
        yield


@contextmanager
def noise_for_one_row():
    """A person may have several rows, and the noise is for one."""
    with mock.patch.object(Table, "max_rows_per_person", 1):
        yield


@contextmanager
def all_rows_of_a_person():
    """Rows that are too many are read all the same, and those of nobody."""
    with mock.patch.object(BoundedFrame, "batches", lambda self, reads, size: self.frame.batches(reads, size)):
        yield


@contextmanager
def rows_of_nobody_count():
    """Rows that name nobody are each a person of its own."""
    with mock.patch.object(core_checks, "_UNIT", Unit(core_checks._WHO, 2, "own")):
        yield


@contextmanager
def three_times_epsilon():
    """On a sample, three times epsilon is spent, whatever the share."""
    with mock.patch.object(call, "epsilon_on_sample", lambda epsilon, _: epsilon * 3):
        yield


@contextmanager
def all_rows_of_a_sample():
    """Rows that are not drawn are read all the same."""
    with mock.patch.object(DrawnFrame, "batches", lambda self, reads, size: self.frame.batches(reads, size)):
        yield


@contextmanager
def public_columns_of_a_sample():
    """A sample is drawn in which public columns stay public."""
    right = Table.sampled

    def sampled(self, share):
        found = right(self, share)
        return found._with(schema=replace(found.schema, columns=self.schema.columns))

    with mock.patch.object(Table, "sampled", sampled):
        yield


@dataclass(frozen=True)
class Fault:
    """A fault, the case in which it shows, and the check that is to catch it."""

    make: object
    caught_by: str
    case: Case = NUMBER
    around: object = contextlib.nullcontext

    @property
    def name(self):
        return (self.make if self.around is contextlib.nullcontext else self.around).__name__


FAULTS = [
    Fault(kernel_at, "reuses_what_was_measured", around=parameter_left_out),
    Fault(honest_average, "reuses_what_was_measured", around=bound_left_out),
    Fault(honest_average, "reuses_what_was_measured", around=condition_left_out),
    Fault(honest_average, "reuses_what_was_measured", around=paid_although_taken),
    *(
        Fault(honest_average, check, case, around=around)
        for case in (NUMBER, replace(NUMBER, neighbors="add_remove"))
        for check, around in (
            ("people_stand_together", noise_for_one_row),
            ("people_stand_together", all_rows_of_a_person),
            ("people_stand_together", rows_of_nobody_count),
            ("samples_stand_alone", one_sample_for_all),
            ("samples_stand_alone", epsilon_over_share),
            ("samples_stand_alone", three_times_epsilon),
        )
    ),
    Fault(
        honest_average, "samples_stand_alone", replace(NUMBER, neighbors="add_remove"), around=all_rows_of_a_sample
    ),
    Fault(honest_cube, "samples_stand_alone", replace(GROUPS, public=["g"]), around=public_columns_of_a_sample),
    Fault(half_the_noise, "loss_within_charge"),
    Fault(noise_of_a_seed, "concludes_from_noise_alone"),
    Fault(mean_of_n_minus_1, "loss_within_charge"),
    Fault(cube_of_a_mean_change, "loss_within_charge", GROUPS),
    Fault(bounds_from_the_data, "concludes_from_noise_alone"),
    Fault(missing_rows_dropped, "concludes_from_noise_alone"),
    Fault(exact_group_counts, "concludes_from_noise_alone", BOTH),
    Fault(label_flip_charged_once, "loss_within_charge", BOTH),
    Fault(second_table_weighs_double, "loss_within_charge", TWO),
    Fault(honest_difference, "charges_first_and_for_good", TWO, around=second_account_spared),
    Fault(printed_tcs_sensitivity, "outputs_do_not_tell"),
    Fault(normaliser_from_the_data, "loss_within_charge"),
    Fault(threshold_from_the_margin, "concludes_from_noise_alone", BOTH),
    Fault(numpy_float_noise, "outputs_do_not_tell"),
    Fault(noise_seeded_by_the_data, "outputs_do_not_tell"),
    Fault(standardised_within_the_batch, "same_on_every_frame"),
    Fault(blas_by_position, "same_on_every_frame"),
    Fault(features_by_position, "same_on_every_frame"),
    Fault(pvalue_beside_the_decision, "concludes_from_noise_alone"),
    Fault(read_before_the_charge, "charges_first_and_for_good"),
    Fault(exception_quotes_a_value, "concludes_from_noise_alone"),
    Fault(warning_quotes_a_value, "concludes_from_noise_alone"),
    Fault(log_quotes_a_value, "concludes_from_noise_alone"),
    Fault(print_quotes_a_value, "concludes_from_noise_alone"),
    Fault(refund_after_an_error, "charges_first_and_for_good"),
    Fault(result_keeps_the_frame, "answers"),
    Fault(result_keeps_the_rows, "answers"),
    Fault(one_noise_two_projections, "charges_first_and_for_good"),
    Fault(measurement_kept_for_later, "charges_first_and_for_good"),
    Fault(select_by_the_unsigned_distance, "outputs_do_not_tell", replace(GROUPS, epsilon=3)),
    Fault(sensitivity_claimed, "loss_within_charge", GROUPS),
    Fault(selection_with_a_third_of_the_noise, "loss_within_charge", GROUPS),
    Fault(threshold_with_little_noise, "loss_within_charge", GROUPS),
    Fault(response_hardly_randomised, "outputs_do_not_tell", GROUPS),
    Fault(selection_of_two_at_the_price_of_one, "loss_within_charge", GROUPS),
    Fault(decision_by_values_that_move_more, "loss_within_charge", GROUPS),
    Fault(pvalue_by_values_that_move_more, "loss_within_charge", GROUPS),
    Fault(messages_with_half_the_noise, "loss_within_charge"),
    Fault(messages_charged_by_half, "loss_within_charge"),
    Fault(messages_twice, "loss_within_charge"),
    Fault(messages_hardly_beyond, "loss_within_charge"),
    Fault(messages_that_compare_rows, "loss_within_charge"),
    Fault(messages_that_compare_rows, "same_on_every_frame"),
    Fault(messages_by_the_spread, "loss_within_charge"),
    Fault(messages_and_a_count, "concludes_from_noise_alone"),
    Fault(public_by_claim, "concludes_from_noise_alone"),
    Fault(charged_behind_the_back, "charges_first_and_for_good"),
    Fault(cost_by_the_data, "charges_first_and_for_good"),
    Fault(table_changed, "same_on_every_frame"),
    Fault(plan_reads, "explains_for_nothing"),
    Fault(nothing_documented, "is_documented"),
    Fault(not_a_number, "answers"),
    Fault(radius_too_large, "charge_is_tight"),
    Fault(error_for_an_empty_group, "concludes_from_noise_alone", GROUPS),
    Fault(ways_of_the_library, "same_on_every_frame", GROUPS),
    Fault(gaussian_noise_charged_as_laplace, "loss_within_charge"),
    Fault(honest_average, "noise_follows_its_law", around=coarse_sampler),
    Fault(honest_average, "noise_follows_its_law", around=one_draw_for_all),
    Fault(honest_cube, "noise_follows_its_law", GROUPS, around=cube_too_round),
    Fault(honest_keys, "loss_within_charge", KEYS, around=threshold_too_low),
    Fault(honest_keys, "loss_within_charge", replace(KEYS, neighbors="add_remove"), around=threshold_too_low),
    Fault(honest_keys, "loss_within_charge", KEYS, around=key_moved_once),
    Fault(key_threshold_from_the_data, "loss_within_charge", GROUPS),
    Fault(honest_known_keys, "loss_within_charge", GROUPS, around=key_noise_for_a_row_that_comes),
    Fault(honest_known_keys, "people_stand_together", GROUPS, around=noise_for_one_row),
    Fault(cube_of_the_wrong_norm, "loss_within_charge", GROUPS),
]


# Honest mechanisms: no check may fail on them.


def two_measurements():
    @grouped
    def found(curator, column, by):
        total = curator.sum(features.Moments(column, degree=1), share=Fraction(1, 2)).values[0]
        return {"total": total, "groups": curator.sum(features.OneHot(by)).values}

    return found


def adaptive():
    """What is measured next depends on what was seen."""

    @numeric
    def found(curator, column):
        first = curator.sum(features.Moments(column, degree=1), share=Fraction(1, 2)).values[0]
        above = first > 0
        rest = curator.sum(Row(column, lambda b: np.where((b.values(column) > 0) == above, 1.0, -1.0)))
        return {"first": first, "second": rest.values[0]}

    return found


def gaussian():
    @numeric(delta=True)
    def found(curator, column):
        return curator.sum(features.Moments(column), noise="gaussian").values

    return found


def simulated_conclusion():
    """A conclusion with chance of its own, which knows nothing of the data."""

    @numeric
    def found(curator, column):
        seen = average(curator, column)
        return float((np.random.default_rng().normal(size=200) > seen).mean())

    return found


def honest_select():
    @categorical
    def found(curator, column):
        pay(curator)
        return column.categories[_select(curator, counts(curator, column))]

    return found


def honest_response():
    @categorical
    def found(curator, column):
        pay(curator)
        return _flipped(curator, column, curator.epsilon)

    return found


def of_the_house(name, **about):
    return lambda: registry().mechanisms[name]


# Those that make noise outside of the house are honest about privacy alone.
OUTSIDE = {"charges_first_and_for_good", "explains_for_nothing"}


def honest_maximum():
    """The largest count, as a statistic."""

    @categorical
    def found(curator, column):
        return float(curator.measure(Counts(column, largest=True)).values[0])

    return found


def honest_selection():
    """About the commonest category."""

    @categorical
    def found(curator, column):
        return column.categories[int(curator.select(Counts(column))[0])]

    return found


def honest_selection_and_sum():
    """About the commonest category, and the sum of a number in it."""

    def found(curator, column, of):
        at = int(curator.select(Counts(column), share=Fraction(1, 2))[0])
        inside = Row((column, of), lambda b: (b.codes(column) == at) * b.standardized(of))
        return [column.categories[at], *curator.sum(inside).values.tolist()]

    found.__doc__ = DOC
    return mechanism(columns={"column": "category", "of": "numeric"})(found)


def honest_sparse_vector():
    """Which categories are common."""

    @categorical
    def found(curator, column):
        return curator.above_threshold(Counts(column), lambda *_: 3.0, most=2).reached.tolist()

    return found


def honest_permutations():
    """How much the first half of the rows differs from random halves."""

    @categorical
    def found(curator, column):
        return curator.permutation_test(Halves(column))

    return found


def honest_decision():
    """Whether the first half of the rows differs from random halves."""

    @categorical
    def found(curator, column):
        return curator.permutation_test(Halves(column), alpha=0.25)

    return found


HONEST = {
    "maximum": (honest_maximum, GROUPS, set()),
    "maximum of a part": (
        honest_maximum,
        replace(GROUPS, bounds={"x": (0.0, 1.0)}, where={"x": (0.0, 0.5)}),
        set(),
    ),
    "noise of the cube": (honest_cube, GROUPS, set()),
    "selection": (honest_selection, GROUPS, set()),
    "selection and sum": (honest_selection_and_sum, CHOSEN, set()),
    "selection and sum by group": (
        honest_selection_and_sum,
        replace(CHOSEN, categories={**CHOSEN.categories, "h": [1, 2]}, group_by="h"),
        set(),
    ),
    "sparse vector": (honest_sparse_vector, replace(GROUPS, neighbors="add_remove"), set()),
    "permutations": (honest_permutations, GROUPS, set()),
    "decision": (honest_decision, GROUPS, set()),
    "keys": (honest_keys, KEYS, set()),
    "keys of rows that come and go": (honest_keys, replace(KEYS, neighbors="add_remove"), set()),
    "keys by group": (honest_keys, replace(KEYS, categories={**KEYS.categories, "h": [1, 2]}, group_by="h"), set()),
    "keys of a part": (
        honest_keys,
        replace(KEYS, categories={**KEYS.categories, "h": [1, 2]}, where={"h": 1}),
        set(),
    ),
    "known keys": (honest_known_keys, GROUPS, set()),
    "known keys of rows that come and go": (honest_known_keys, replace(GROUPS, neighbors="add_remove"), set()),
    "known keys by group": (
        honest_known_keys,
        replace(GROUPS, categories={**GROUPS.categories, "h": [1, 2]}, group_by="h"),
        set(),
    ),
    "known keys of a part": (
        honest_known_keys,
        replace(GROUPS, categories={**GROUPS.categories, "h": [1, 2]}, where={"h": 1}),
        set(),
    ),
    "messages": (honest_messages, NUMBER, set()),
    "average": (honest_average, NUMBER, set()),
    "average by group": (
        honest_average,
        replace(NUMBER, categories={"g": [1, 2]}, group_by="g"),
        set(),
    ),
    "average of a part": (
        honest_average,
        replace(NUMBER, categories={"g": [1, 2]}, neighbors="add_remove", where={"g": 1}),
        set(),
    ),
    "two tables": (honest_difference, TWO, set()),
    "two tables of private sizes": (honest_difference, replace(TWO, neighbors="add_remove"), set()),
    "two measurements": (two_measurements, BOTH, set()),
    "adaptive": (adaptive, NUMBER, set()),
    "gaussian": (gaussian, replace(NUMBER, delta="1/100000"), set()),
    "simulated conclusion": (simulated_conclusion, NUMBER, set()),
    "select": (honest_select, GROUPS, OUTSIDE),
    "randomised response": (honest_response, GROUPS, OUTSIDE),
    "t-test": (of_the_house("ttest"), Case(arguments={"column": "x"}, bounds={"x": (-3.0, 1.5)}), set()),
}
