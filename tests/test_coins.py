"""Exact coins: heads with probability exp(-gap / scale)."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dfprivacy._privacy import draws as coins

BITS = 32


def first_digits(gap, scale, bits):
    """The first binary digits of exp(-gap / scale), as a whole number."""
    x = Fraction(gap) / Fraction(scale)
    with localcontext() as context:
        context.prec = 120
        return int((-(Decimal(x.numerator) / Decimal(x.denominator))).exp() * 2**bits)


def compared(digits, gap, scale, more):
    (below,) = coins.compared(np.array([digits], np.uint32), np.array([gap], np.uint64), scale, more)
    return bool(below)


def continued(number, bits):
    """Give 64 digits of a number after its first 32, then the next, as they are asked for."""
    asked = BITS

    def more(count):
        nonlocal asked
        asked += count
        return number >> (bits - asked) & ((1 << count) - 1)

    return more


@given(st.integers(1, 2**63), st.floats(1e-3, 1e18), st.sampled_from([-1, 0, 1, 2]))
def test_a_number_is_compared_with_the_exact_probability(gap, scale, shift):
    """A number beside exp(-x), as near as 224 binary digits tell, is found on its side of it."""
    bits = BITS + 3 * 64
    border = first_digits(gap, scale, bits)
    number = min(max(border + shift, 0), 2**bits - 1)
    if gap / scale > 2 * bits:  # all of its digits are 0
        number = max(number, 1)

    found = compared(number >> (bits - BITS), gap, scale, continued(number << 64 * 20, bits + 64 * 20))

    assert found == (number <= border)


@pytest.mark.parametrize("x", [2.0**-28, 0.3, 1.0, 5.0, 20.0])
def test_float64_decides_but_at_the_border(x):
    """Numbers that differ from exp(-x) by 2^-30 are on their side of it, and no more digits are drawn."""

    def more(count):
        raise AssertionError(count)

    scale = 2.0**45
    gap = round(x * scale)
    border = first_digits(gap, scale, BITS)

    assert compared(border - 4, gap, scale, more)
    assert not compared(border + 4, gap, scale, more)


def test_what_is_best_is_always_heads():
    """A gap of 0 is heads whatever the digits are, and no more are drawn."""
    digits = np.array([0, 1, 2**31, 2**32 - 2, 2**32 - 1], dtype=np.uint32)

    below = coins.compared(digits, np.zeros(5, dtype=np.uint64), 3.0, lambda count: 1 // 0)

    assert below.all()


def test_the_largest_gap_is_tails():
    """A gap of 2^63 at the smallest scale is tails, and needs a digit that is not 0 for that."""
    drawn = iter([0, 0, 7])

    assert not compared(0, 2**63, 1.0, lambda count: next(drawn))
    assert [*drawn] == []


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [0.7, 2.5, 1000.25])
def test_coins_are_heads_as_often_as_they_promise(scale):
    """Counts of heads of the system's source fit exp(-gap / scale), each gap by itself."""
    gaps = np.array([0, 1, 2, 5, 700], dtype=np.uint64)
    throws = 40_000

    counts = coins.heads(np.repeat(gaps, throws), scale).reshape(len(gaps), throws).sum(axis=1)

    expected = np.array([math.exp(-float(gap) / scale) for gap in gaps])
    pvalues = [stats.binomtest(int(n), throws, p).pvalue for n, p in zip(counts, expected, strict=True)]
    assert min(pvalues) > 1e-8


@pytest.mark.statistical
def test_coins_are_thrown_one_by_one():
    """Neighbouring coins, and those of successive throws, are independent."""
    probability = math.exp(-0.5)

    thrown = np.array([coins.heads(np.ones(200, dtype=np.uint64), 2.0) for _ in range(200)])

    for pairs in ((thrown[:, ::2], thrown[:, 1::2]), (thrown[::2], thrown[1::2])):
        found = np.bincount((2 * pairs[0] + pairs[1]).ravel(), minlength=4)
        law = np.outer([1 - probability, probability], [1 - probability, probability]).ravel()
        assert stats.chisquare(found, law * found.sum()).pvalue > 1e-7
