"""The arc sampler: exact weights, the law of its messages, and refusals."""

# ruff: noqa: SIM300 - expected == actual

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dfprivacy as dp
from dfprivacy._privacy.samplers import OpenDPSampler, draw_uniform
from dfprivacy.errors import ArgumentError
from dfprivacy.local import Arc, RowLabels
from dfprivacy.testing import SeededSampler


@pytest.mark.parametrize("epsilon", ["1/1000000000", "1/10", "1/3", "1", "5", "20", "41", "1000000"])
@pytest.mark.parametrize(("places", "reach"), [(2, 0), (16, 3), (1 << 16, 13115), (1 << 20, 0)])
def test_the_ratio_never_exceeds_the_exponential(epsilon, places, reach):
    """p / q is at most e^epsilon, to any number of digits, and the weights fit into 63 bits."""
    arc = Arc.within(Fraction(epsilon), places=places, reach=reach)

    with mpmath.workdps(100):
        exponent = mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator
        truth = mpmath.log(mpmath.mpf(arc.inside) / arc.outside)
        assert truth <= exponent
        said = mpmath.mpf(arc.epsilon.numerator) / arc.epsilon.denominator
        assert truth < said < truth + mpmath.mpf(10) ** -79
    assert arc.epsilon <= Fraction(epsilon)
    assert arc.inside > arc.outside >= 1
    assert arc.weight < 2**63


def test_an_epsilon_of_no_digits_says_nothing():
    """Where e^epsilon is 1 to all digits that are computed, every place is equally likely."""
    for n in (40, 78, 79, 80, 90, 300):
        arc = Arc.within(Fraction(1, 10**n), places=16, reach=3)
        assert (1, 1) == (arc.inside, arc.outside)


@pytest.mark.parametrize(("epsilon", "reach", "resultant", "on_arc"), [
    (0.5, 14730, 0.1578670, 0.5738232), (1, 13115, 0.3082871, 0.6446468), (2, 10129, 0.5643278, 0.7677768),
    (4, 5608, 0.8588798, 0.9185312), (8, 1526, 0.9893076, 0.9931812),
])  # fmt: skip
def test_the_resultant_is_known(epsilon, reach, resultant, on_arc):
    """Resultant, probability of the arc and ratio have their reference values."""
    arc = Arc.within(Fraction(epsilon), places=1 << 16, reach=reach)

    assert resultant == pytest.approx(arc.resultant, abs=1e-7)
    assert on_arc == pytest.approx(arc.length * arc.inside / arc.weight, abs=1e-7)
    assert math.exp(epsilon) == pytest.approx(arc.inside / arc.outside, rel=1e-9)


@pytest.mark.parametrize(("places", "reach"), [(2, 0), (5, 0), (16, 3)])
def test_each_place_has_its_weight_exactly(places, reach):
    """Every number below the weight, one after the other, gives each place as often as its weight says."""
    arc = Arc(places, reach, inside=7, outside=3)
    labels = np.full(arc.weight, 1, dtype=np.int64)

    counts = np.bincount(arc.sample(labels, np.arange(arc.weight)), minlength=places)

    near = {(1 + step) % places for step in range(-reach, reach + 1)}
    assert [7 if place in near else 3 for place in range(places)] == counts.tolist()


@pytest.mark.statistical
@pytest.mark.parametrize("sampler", [OpenDPSampler(), SeededSampler(1)], ids=["secure", "seeded"])
def test_messages_follow_their_law(sampler):
    """A chi-square test finds no difference between 200,000 messages and their exact probabilities."""
    arc = Arc.within(Fraction(1), places=16, reach=3)
    labels = np.full(200_000, 5, dtype=np.int64)

    drawn = sampler.arc(labels, arc)

    near = np.isin(np.arange(16), np.arange(2, 9))
    expected = np.where(near, arc.inside, arc.outside) / arc.weight * len(labels)
    assert stats.chisquare(np.bincount(drawn, minlength=16), expected).pvalue > 1e-7
    with pytest.raises(ArgumentError):  # off the circle
        sampler.arc(np.array([16]), arc)
    for below in (1, 2, 3, 2**40 + 1, 2**63 - 1):
        numbers = draw_uniform(below, 1000)
        assert (1000,) == numbers.shape
        assert 0 <= numbers.min() <= numbers.max() < below


@pytest.mark.parametrize("below", [2, 3, 5, 8, 9, 17])
def test_integers_are_equally_likely(below):
    """A chi-square test finds no difference, also of numbers just above a power of two, which take a bit more."""
    counts = np.bincount(draw_uniform(below, 100_000), minlength=below)

    assert stats.chisquare(counts).pvalue > 1e-7


@pytest.mark.parametrize(("places", "reach"), [(1, 0), (16, 8), (16, -1), (2.0, 0), (1 << 21, 0)])
def test_arcs_that_cannot_be_are_refused(places, reach):
    """Too few or too many places, and arcs as long as the circle, are refused."""
    with pytest.raises(ArgumentError):
        Arc.within(Fraction(1), places=places, reach=reach)


class Above(RowLabels):
    """Whether a number is above 3."""

    places = 2

    def __init__(self, column):
        self.columns = (column,)

    def rows(self, batch):
        return batch.values(self.columns[0]) > 3


@dp.mechanism(columns={"column": "numeric"})
def above(curator, column):
    """One randomised answer a row."""
    messages = curator.randomize(Above(column))
    return messages.values  # noqa: PD011


def test_every_row_sends_its_message_in_order():
    """With hardly any noise messages are labels, for epsilon once; a private number of rows is not told by them."""
    data = pd.DataFrame({"x": [1, 5, 2, 7, None]})
    view, private = (
        dp.protect(data, relation, epsilon=50, bounds={"x": (0, 10)}, neighbors=relation)
        for relation in ("replace_one", "add_remove")
    )
    dp.register_mechanism(above)
    try:
        messages = view.above("x", epsilon=40).value
        for part in (private, view.where(x=(0, 5))):
            with pytest.raises(ArgumentError, match="private"):
                part.above("x", epsilon=1)
    finally:
        dp.unregister("above")

    assert [0, 1, 0, 1, 1] == messages.tolist()
    assert (40, 0) == (view.budget.spent, private.budget.spent)
