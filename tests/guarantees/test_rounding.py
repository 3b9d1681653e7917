"""Charges are never below the truth, and limits never above it: against 60 digits and more, at every extreme."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dfprivacy._privacy.calibrate import gaussian_scale, laplace_scale
from dfprivacy._privacy.conversions import (
    best_renyi_order,
    delta_gauss,
    float_above,
    float_below,
    gaussian_delta,
    laplace_mu,
    laplace_renyi,
    mu_budget,
    pure_mu,
    pure_renyi,
    renyi_budget,
)
from dfprivacy._privacy.filters import UNIT, Accountant
from dfprivacy._privacy.losses import Gaussian, Laplace, Pure

EPSILONS = [1e-100, 1e-9, 1e-3, 0.1, 1.0, 7.3, 50.0, 500.0]
DELTAS = [1e-100, 1e-40, 1e-6, 0.1, 0.999, 1 - 2.0**-50]


@pytest.fixture(autouse=True)
def digits():
    """Enough for what cancels in the smallest numbers here."""
    with mpmath.workdps(320):
        yield


def tail(x):
    """The normal distribution above x."""
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def true_delta(epsilon, mu):
    """Delta of a Gaussian mechanism."""
    epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
    return tail(epsilon / mu - mu / 2) - mpmath.exp(epsilon) * tail(epsilon / mu + mu / 2)


def exact(x):
    """A fraction or a float, to all digits."""
    x = Fraction(x)
    return mpmath.mpf(x.numerator) / x.denominator


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_gaussian_limit_is_within_the_budget(epsilon, delta):
    """The largest mu of a budget has at most its delta, and a delta that is charged at least the true one."""
    mu = mu_budget(epsilon, delta)

    assert true_delta(epsilon, mu) <= delta
    for times in (0.01, 0.5, 1.0, 2.0):
        assert delta_gauss(epsilon, times * mu) >= true_delta(epsilon, times * mu)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_renyi_limit_is_within_the_budget(epsilon, delta):
    """The largest Rényi divergence of a budget, at its order, has at most its delta."""
    alpha = best_renyi_order(epsilon, delta)
    order = mpmath.mpf(alpha)

    limit = mpmath.mpf(renyi_budget(epsilon, delta, alpha))

    exponent = (order - 1) * (limit - epsilon) - mpmath.log(order - 1) + order * mpmath.log(1 - 1 / order)
    assert exponent <= mpmath.log(delta)


@pytest.mark.parametrize("alpha", [1 + 1e-12, 1.5, 20.0, 1e5])
@pytest.mark.parametrize("epsilon", [1e-100, 1e-9, 1e-5, 0.1, 1.0, 30.0, 700.0, 1e6])
def test_pure_releases_are_charged_enough(epsilon, alpha):
    """Under Rényi DP and Gaussian DP, randomised response and Laplace noise cost no more than they are charged."""
    e, a = mpmath.mpf(epsilon), mpmath.mpf(alpha)
    response = mpmath.log((mpmath.exp(a * e) + mpmath.exp((1 - a) * e)) / (1 + mpmath.exp(e))) / (a - 1)
    laplace = mpmath.log(a * mpmath.exp((a - 1) * e) + (a - 1) * mpmath.exp(-a * e)) - mpmath.log(2 * a - 1)

    assert pure_renyi(epsilon, alpha) >= response
    assert laplace_renyi(epsilon, alpha) >= laplace / (a - 1)
    for mu, below_half in (
        (pure_mu(epsilon), 1 / (1 + mpmath.exp(e))),
        (laplace_mu(epsilon), mpmath.exp(-e / 2) / 2),
    ):
        assert mu == math.inf or tail(mpmath.mpf(mu) / 2) <= below_half


def test_noise_bears_out_its_claim():
    """At random prices, Laplace noise exactly, Gaussian noise with what the grid loses."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        epsilon = Fraction(float(10 ** rng.uniform(-9, 1)))
        delta = Fraction(float(10 ** rng.uniform(-12, -1e-3)))
        steps = int(rng.integers(2**20, 2**60))

        laplace = laplace_scale(steps, epsilon)
        gaussian = gaussian_scale(steps**2, 3, epsilon, delta)

        assert steps / Fraction(laplace) <= epsilon
        variance = Fraction(gaussian) ** 2 - Fraction(1, 11)
        lost = (1 + mpmath.exp(exact(epsilon))) * 3 / (200 * exact(gaussian) ** 4)
        true = true_delta(exact(epsilon), mpmath.sqrt(exact(steps**2 / variance))) + lost
        assert true <= exact(gaussian_delta(steps**2, gaussian, 3, epsilon)) <= exact(delta)


def test_a_fraction_lies_between_its_floats():
    """Also beyond the smallest float, and where a float is exact."""
    for x in (Fraction(1, 3), Fraction(1, 10**400), Fraction(-1, 10**400), Fraction(2**60 + 1), Fraction(1, 2)):
        assert Fraction(float_below(x)) <= x <= Fraction(float_above(x))
    assert float_above(Fraction(1, 10**400)) > 0


@pytest.mark.parametrize("kind", ["gdp", "rdp", "portfolio"])
@pytest.mark.parametrize("epsilon", ["1/10000", "1", "20", "500"])
@pytest.mark.parametrize("delta", [Fraction(1, 10**99), Fraction(1, 10**6), Fraction(9, 10)])
def test_what_an_account_admits_is_within_its_guarantee(kind, epsilon, delta):
    """The caps, as counted, never allow more than each filter's share of delta."""
    epsilon = Fraction(epsilon)
    for member in Accountant.open(kind, epsilon, delta).members:
        if member.name in ("gdp", "mix"):
            part = epsilon - (member.caps[0] * UNIT if member.name == "mix" else 0)
            mu = mpmath.sqrt(exact(member.caps[-1] * UNIT))
            assert mu == 0 or true_delta(exact(part), mu) <= exact(member.delta)
        if member.name == "rdp":
            order, limit = mpmath.mpf(member.alpha), exact(member.caps[0] * UNIT)
            room = (order - 1) * (limit - exact(epsilon)) - mpmath.log(order - 1)
            assert room + order * mpmath.log(1 - 1 / order) <= mpmath.log(exact(member.delta))


@pytest.mark.parametrize("scale", [0.7, 4.0, 1e3, 1e12])
def test_charges_of_losses_are_not_below_those_of_their_noise(scale):
    """A Laplace loss costs no less than continuous noise at its ratio, a Gaussian one what its variance says."""
    steps = max(1, int(scale))
    loss = Laplace(steps, scale, Fraction(steps) / Fraction(scale))

    ratio = exact(Fraction(steps) / Fraction(scale))

    assert tail(mpmath.sqrt(exact(loss.mu_squared())) / 2) <= mpmath.exp(-ratio / 2) / 2
    assert Pure(loss.epsilon).mu_squared() >= loss.mu_squared() or scale < 4
    if scale >= 4:
        noise = Gaussian(1, scale, 1, Fraction(1), Fraction(1, 2))
        assert Fraction(1) / (Fraction(scale) ** 2 - Fraction(1, 11)) == noise.mu_squared()
