"""Privacy losses, filters, and the formulas between privacy parameters."""

from __future__ import annotations

import decimal
import json
import math
import random
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dfprivacy import statistics
from dfprivacy._privacy.calibrate import gaussian_scale, laplace_scale
from dfprivacy._privacy.conversions import (
    best_renyi_order,
    delta_gauss,
    float_above,
    float_below,
    gaussian_delta,
    gaussian_unit_scale,
    laplace_mu,
    laplace_renyi,
    log_delta_zcdp,
    mu_budget,
    pure_mu,
    pure_renyi,
    renyi_budget,
    rho_budget,
    rounding_delta,
)
from dfprivacy._privacy.filters import UNIT, Accountant, Filter, Spent, exact
from dfprivacy._privacy.losses import Approximate, BoundedRange, Gaussian, Laplace, Pure, loss_from_dict
from dfprivacy.errors import ArgumentError

TIGHT = 1e-9


def laplace(epsilon, steps=2**20):
    epsilon = exact(epsilon)
    return Laplace(steps, laplace_scale(steps, epsilon), epsilon)


def gaussian(epsilon, delta="1e-8", squared=2**50, dimension=1):
    epsilon, delta = exact(epsilon), exact(delta)
    return Gaussian(squared, gaussian_scale(squared, dimension, epsilon, delta), dimension, epsilon, delta)


def account(kind, epsilon=1, delta="1e-6"):
    return Accountant.open(kind, exact(epsilon), exact(delta))


def charged(accountant, *losses):
    spent = accountant.no_charges
    for loss in losses:
        spent = accountant.after(spent, loss)
    return spent


def fits(accountant, loss, *before):
    """Count how often `loss` is admitted after the losses `before`."""
    spent = charged(accountant, *before)
    count = 0
    while accountant.holds(spent := accountant.after(spent, loss)):
        count += 1
    return count


# ---- exact numbers --------------------------------------------------------------------------------------

READ = [
    *[(0.1, "1/10"), (0.1 + 0.2, "3/10"), (1e-6, "1/1000000"), (np.float64(0.1), "1/10"), (np.int64(3), 3), (2, 2)],
    *[
        ("1/3", "1/3"),
        ("0.1", "1/10"),
        (Decimal("0.30"), "3/10"),
        (Fraction(2, 7), "2/7"),
        (0.0, 0),
        (-0.1, "-1/10"),
    ],
    (1 / 3, "333333333333333/1000000000000000"),
]
GARBAGE = [True, False, np.True_, None, [0.1], 1j, np.array([0.1]), math.nan, math.inf, -math.inf]
GARBAGE += ["ten", "", "1/0", "nan", "inf", Decimal("NaN"), Decimal("Infinity")]


@pytest.mark.parametrize("coarse", [False, True])
def test_exact_reads_what_was_meant(coarse):
    """A number is the short decimal or the fraction it was written as, whatever the caller's decimal context."""
    with decimal.localcontext(decimal.Context(prec=2, rounding=decimal.ROUND_UP) if coarse else None):
        for written, read in READ:
            assert Fraction(read) == exact(written), written
        assert 0 < exact(5e-324) <= Fraction(5e-324)
        for garbage in GARBAGE:
            with pytest.raises(ArgumentError, match=r"is not a finite number\. Nothing was released or spent\."):
                exact(garbage)


@given(st.integers(1, 10**10 - 1), st.integers(-14, 2), st.integers(1, 10_000))
@settings(max_examples=300, deadline=None)
def test_equal_shares_never_exceed_the_total(digits, exponent, k):
    """k float shares of a total of up to ten digits never add up to more than the total."""
    total = float(f"{digits}e{exponent}")

    assert k * exact(total / k) <= exact(total)


def test_equal_shares_never_exceed_the_total_in_many_cases():
    """The same in 10^4 cases, of which a plain cut to fifteen digits fails some."""
    generator = random.Random(5)  # noqa: S311
    typed = [float(f"{10 ** generator.uniform(-8, 2):.{generator.randint(1, 5)}g}") for _ in range(10_000)]
    cases = [(total, generator.randint(1, 200)) for total in typed]
    cut = decimal.Context(prec=15, rounding=decimal.ROUND_DOWN)
    plain = sum(
        k * Fraction(cut.create_decimal(Decimal(repr(total / k)))) > Fraction(Decimal(repr(total)))
        for total, k in cases
    )
    ours = sum(k * exact(total / k) > exact(total) for total, k in cases)

    assert ours == 0
    assert plain > 0
    assert 10 * exact(0.1) == 1 == 3 * exact(Fraction(1, 3))


@given(st.fractions(-(10**6), 10**6))
@settings(max_examples=200, deadline=None)
def test_floats_bracket_a_fraction(x):
    """`float_below` and `float_above` are the nearest floats; decimals and small fractions are whole units."""
    assert Fraction(float_below(x)) <= x <= Fraction(float_above(x))
    assert math.nextafter(float_below(x), math.inf) >= float_above(x)
    assert Fraction(1, 10**18 * 144403552893600) == UNIT
    assert all((Fraction(7, 1000 * n) / UNIT).denominator == 1 for n in range(1, 37))


# ---- reference numbers of the conversions, and none below the truth --------------------------------------

RHO = {(0.1, 1e-6): 0.0003210477, (0.5, 1e-6): 0.0066415244, (1, 1e-6): 0.0243559704, (3, 1e-6): 0.1850698407}
RHO |= {(10, 1e-6): 1.5392787639, (1, 1e-5): 0.0305565952, (1, 1e-9): 0.0149730577}
SIGMA = {(0.1, 1e-6): 36.304690426, (0.5, 1e-6): 8.057618481, (1, 1e-6): 4.224678889326822, (3, 1e-6): 1.543861418}
SIGMA |= {(10, 1e-6): 0.541086832, (1, 1e-05): 3.730631635, (1, 1e-09): 5.495266157, (0.05, 1e-08): 89.079199665}
SIGMA |= {(0.01, 1e-09): 458.508497499}
MU = {(0.1, 1e-6): 0.0275446502, (0.5, 1e-6): 0.1241061490, (1, 1e-6): 0.2367043807, (3, 1e-6): 0.6477265307}
LAPLACE_RENYI = {(0.5, 2): 0.2003038962, (0.5, 8.926059636): 0.4198458145, (0.5, 21.984537329): 0.4680649950}
LAPLACE_RENYI |= {(0.1, 21.984537): 0.0686801056, (1, 21.984537): 0.9680649945}
KL = 1 + 1e-5  # near order one the Rényi divergence is that of Kullback and Leibler
LAPLACE_KL = {0.05: 0.0012294245, 0.1: 0.0048374180, 0.5: 0.1065306597, 1: 0.3678794412, 3: 2.0497870684}
REFERENCE = [
    (gaussian_unit_scale, SIGMA, {"rel": TIGHT}),
    (mu_budget, MU | {(10, 1e-6): 1.8481322058}, {"rel": 4e-9}),
    (rho_budget, RHO, {"abs": 0.6e-10}),
    (
        best_renyi_order,
        {(0.1, 1e-6): 165.669, (1, 1e-6): 21.985, (10, 1e-6): 3.846, (1, 1e-9): 34.865},
        {"abs": 1e-3},
    ),
    (
        laplace_mu,
        {(0.05,): 0.0618987530, (0.1,): 0.1223259291, (0.5,): 0.5617643232, (1,): 1.0300639976},
        {"rel": TIGHT},
    ),
    (laplace_mu, {(3,): 2.4364938096}, {"rel": TIGHT}),
    (pure_mu, {(0.1,): 0.1253090122, (0.5,): 0.6238925921, (1,): 1.2320353853, (3,): 3.3406837122}, {"rel": TIGHT}),
    (laplace_renyi, LAPLACE_RENYI, {"rel": TIGHT}),
    (laplace_renyi, {(epsilon, KL): rho for epsilon, rho in LAPLACE_KL.items()}, {"rel": 1e-4}),
    (pure_renyi, {(0.5, 2): 0.2273362938, (0.5, 21.984537329): 0.4774082708}, {"rel": TIGHT}),
    (pure_renyi, {(epsilon, KL): epsilon * math.tanh(epsilon / 2) for epsilon in (0.1, 0.5, 1, 3)}, {"rel": 1e-4}),
    (renyi_budget, {(1, 1e-6, best_renyi_order(1, 1e-6)): 0.5354547395}, {"rel": TIGHT}),
    (renyi_budget, {(3, 1e-6, best_renyi_order(3, 1e-6)): 1.6519444346}, {"rel": TIGHT}),
]


@pytest.mark.parametrize(("function", "numbers", "within"), REFERENCE)
def test_reference_numbers(function, numbers, within):
    """Budgets, scales, charges and divergences are those that were computed elsewhere."""
    for arguments, number in numbers.items():
        assert function(*arguments) == pytest.approx(number, **within), arguments


@pytest.mark.parametrize("budget", RHO)
def test_there_and_back(budget):
    """The way back from rho is delta; at the best order, Rényi DP loses nothing against concentrated DP."""
    alpha = best_renyi_order(*budget)

    assert log_delta_zcdp(rho_budget(*budget), budget[0]) == pytest.approx(math.log(budget[1]), rel=TIGHT)
    assert renyi_budget(*budget, alpha) == pytest.approx(alpha * rho_budget(*budget), rel=TIGHT)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0, 500.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-12, 1e-6, 1e-2])
def test_mu_budget_errs_on_the_safe_side_only(epsilon, delta):
    """Computed in 60 digits, the delta of the mu that is given is what was asked or a little less."""
    with mpmath.workdps(60):
        e, mu = mpmath.mpf(epsilon), mpmath.mpf(mu_budget(epsilon, delta))
        true = mpmath.ncdf(-e / mu + mu / 2) - mpmath.exp(e) * mpmath.ncdf(-e / mu - mu / 2)

        assert delta_gauss(epsilon, mu_budget(epsilon, delta)) <= delta
        assert true <= delta
        assert true >= delta * (1 - 1e-9 - 1e-9 / epsilon)


def test_bounded_range_is_charged_as_half_a_randomised_response():
    """Under Gaussian DP an e-bounded-range release costs what a pure release of e/2 does; else a e^2/8."""
    release = BoundedRange(exact(1))

    assert math.sqrt(release.mu_squared()) == pytest.approx(0.6238925921, rel=TIGHT)
    assert release.renyi(2.0) == Fraction(1, 4)
    assert release.renyi(50.0) == pytest.approx(pure_renyi(1.0, 50.0))


@pytest.mark.parametrize("alpha", [1.0 + 2**-30, 1.5, 10.0, 200.0, 1e9])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-170, 1e-30, 1e-16, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 3.0, 600.0])
def test_no_charge_is_below_the_truth_at_any_scale(epsilon, alpha):
    """Computed in 700 digits, Rényi and Gaussian charges are above the formulas that they round up, and near."""
    with mpmath.workdps(700):
        e, a = mpmath.mpf(epsilon), mpmath.mpf(alpha)
        lap = mpmath.log(a / (2 * a - 1) * mpmath.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * e))
        p, q = 1 / (1 + mpmath.exp(-e)), mpmath.exp(-e) / (1 + mpmath.exp(-e))
        rr = mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a))

        assert 0 < lap / (a - 1) <= laplace_renyi(epsilon, alpha)
        assert 0 < rr / (a - 1) <= pure_renyi(epsilon, alpha)
        if 1e-9 <= epsilon <= 3:
            assert alpha < 1.5 or laplace_renyi(epsilon, alpha) <= lap / (a - 1) * 3
            assert alpha < 1.5 or pure_renyi(epsilon, alpha) <= rr / (a - 1) * 1.2
            mpmath.mp.dps = 60
            assert mpmath.ncdf(-mpmath.mpf(laplace_mu(epsilon)) / 2) <= mpmath.exp(-e / 2) / 2
            assert mpmath.ncdf(-mpmath.mpf(pure_mu(epsilon)) / 2) <= 1 - p


# ---- discrete noise, computed exactly -------------------------------------------------------------------


def discrete_laplace(t, reach):
    """Logarithms of the probabilities of discrete Laplace noise of scale 1/t on -reach..reach."""
    return math.log(math.tanh(t / 2)) - t * np.abs(np.arange(-reach, reach + 1))


def shifted(log_p, s):
    """Log-probabilities of a distribution and of itself moved by s, on the grid that both cover."""
    return log_p[s:], log_p[:-s]


@pytest.mark.parametrize(
    ("t", "s", "divergence"), [(0.1, 10, 0.368931748), (0.01, 100, 0.367889976), (1.0, 1, 0.462117157)]
)
def test_discrete_laplace_divergence(t, s, divergence):
    """The Kullback-Leibler divergence of discrete Laplace noise is its formula, and the reference number."""
    p, q = shifted(discrete_laplace(t, int(60 / t) + s), s)

    assert np.sum(np.exp(p) * (p - q)) == pytest.approx(divergence, rel=2e-9)
    assert s * t - t / math.sinh(t) * (1 - math.exp(-s * t)) == pytest.approx(divergence, rel=2e-9)


@pytest.mark.parametrize(
    ("t", "s"), [(0.01, 1), (0.01, 10), (0.01, 100), (0.1, 1), (0.1, 10), (0.1, 40), (0.25, 1), (0.25, 8)]
)
def test_discrete_laplace_costs_no_more_than_it_is_charged(t, s):
    """At every order and every epsilon, discrete Laplace noise is within its Rényi and Gaussian charge."""
    loss = Laplace(s, 1 / t, exact(str(s)) * exact(str(t)) * exact("1.0000001"))
    p, q = shifted(discrete_laplace(t, int(200 / t) + s), s)
    for alpha in (1.0001, 1.5, 2.0, 8.926, 21.98, 100.0, 1000.0):
        divergence = np.logaddexp.reduce(alpha * p + (1 - alpha) * q) / (alpha - 1)
        assert divergence <= loss.renyi(alpha) + 1e-13
    mu = math.sqrt(loss.mu_squared())
    for epsilon in np.linspace(0, s * t, 21):
        delta = np.sum(np.maximum(np.exp(p) - np.exp(epsilon + q), 0))
        assert delta <= delta_gauss(epsilon, mu) + 1e-13


def discrete_gaussian(sigma, reach):
    """Log-probabilities of the discrete Gaussian on -reach..reach."""
    log_p = -(np.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2)
    return log_p - np.logaddexp.reduce(log_p)


def hockey_stick(sigma, shift, epsilon):
    """Exact delta at epsilon of the discrete Gaussian moved by an integer."""
    p, q = shifted(discrete_gaussian(sigma, int(40 * sigma)), shift)
    return math.fsum(np.maximum(np.exp(q) - np.exp(epsilon + p), 0))


def test_discrete_gaussian_needs_the_corrected_variance():
    """The discrete Gaussian loses more than the continuous one of equal scale, less than the corrected."""
    sigma = 42.247
    discrete = hockey_stick(sigma, 10, 1.0)

    assert discrete == pytest.approx(1.0003733673e-6, rel=1e-8)
    assert delta_gauss(1.0, 10 / sigma) == pytest.approx(0.9998971311e-6, rel=1e-8)
    assert delta_gauss(1.0, 10 / math.sqrt(sigma**2 - 1 / 12)) == pytest.approx(1.0003778143e-6, rel=1e-8)
    assert discrete <= gaussian_delta(100, sigma, 1, exact(1))


@pytest.mark.parametrize("sigma", [4.0, 8.0, 16.0, 32.0])
def test_rounded_gaussian_is_close_to_the_discrete_one(sigma):
    """The total variation from rounded noise of variance sigma^2 - 1/11 is within 1/(200 sigma^4)."""
    k = np.arange(0, int(12 * sigma))
    exactly = np.exp(discrete_gaussian(sigma, int(40 * sigma)))[int(40 * sigma) :][: k.size]

    def distance(variance):
        s = math.sqrt(variance)
        rounded = stats.norm.sf((k - 0.5) / s) - stats.norm.sf((k + 0.5) / s)
        gap = np.abs(rounded - exactly)
        return (2 * gap.sum() - gap[0]) / 2

    s2 = (sigma**2 + math.sqrt(sigma**4 - sigma**2 / 3)) / 2  # what 1/11 bounds from below
    assert s2 >= sigma**2 - 1 / 11
    assert distance(s2) <= float(rounding_delta(1, sigma, exact("1e-9"))) / 2
    assert distance(sigma**2) > 100 * distance(s2) or sigma < 16
    if sigma == 8:
        assert distance(s2) * sigma**4 == pytest.approx(0.001373, abs=1e-5)
        assert distance(sigma**2) * sigma**2 == pytest.approx(0.020104, abs=1e-5)


@pytest.mark.parametrize(("sigma", "shift"), [(5.0, 1), (20.0, 7), (42.247, 10)])
def test_discrete_gaussian_costs_no_more_renyi_than_continuous(sigma, shift):
    """The Rényi divergence of the discrete Gaussian is at most that of the continuous one."""
    p, q = shifted(discrete_gaussian(sigma, int(40 * sigma)), shift)
    for alpha in (1.5, 2.0, 9.0):
        divergence = np.logaddexp.reduce(alpha * p + (1 - alpha) * q) / (alpha - 1)
        assert divergence <= alpha * shift**2 / (2 * sigma**2) * (1 + 1e-12)


# ---- privacy losses -------------------------------------------------------------------------------------

LOSSES = [
    laplace(0.5),
    laplace(0.3, steps=1),
    gaussian(0.5, dimension=7),
    Pure(Fraction(1, 3)),
    BoundedRange(exact(1)),
    Approximate(exact(0.1), exact(1e-9)),
]

FALSE = [
    lambda: Laplace(10, math.nextafter(20.0, 0), exact(0.5)),
    lambda: Laplace(3, math.nextafter(laplace_scale(3, Fraction(1, 3)), 0), Fraction(1, 3)),
    lambda: Laplace(0, 1.0, exact(0.5)),
    *[lambda scale=scale: Laplace(1, scale, exact(0.5)) for scale in (0.0, -1.0, math.inf, math.nan)],
    lambda: Laplace(1, 2.0, 0.5),
    lambda: Laplace(1, 2.0, Fraction(0)),
    lambda: Gaussian(100, 42.247, 1, exact(1), exact("1e-6")),
    lambda: Gaussian(1, 3.0, 1, exact(10), exact("0.1")),
    lambda: Gaussian(1, 100.0, 0, exact(1), exact("1e-6")),
    lambda: Gaussian(1, 100.0, 1, exact(1), Fraction(0)),
    lambda: Gaussian(1, 100.0, 1, exact(501), exact("1e-6")),
    lambda: Pure(exact(-1)),
    lambda: Approximate(exact(1), exact(1)),
    lambda: Approximate(exact(1), 0.1),
    lambda: loss_from_dict({"kind": "hope", "epsilon": "1"}),
    *[
        lambda terms=terms: account(*terms)
        for terms in [
            *[("basic", 0, 0), ("basic", -1, 0), ("basic", 1, 1), ("basic", 1, -0.1)],
            *[("zcdp", 1, 1e-06), ("portfolio", 501, 1e-06), ("gdp", 1, "1e-101")],
            *[(kind, 1, 0) for kind in ("rdp", "gdp", "portfolio")],
        ]
    ],
]


@pytest.mark.parametrize("claim", FALSE)
def test_false_claims_are_refused(claim):
    """A loss that its noise does not bear out, of no kind, or out of range; an accounting without its delta."""
    with pytest.raises(ArgumentError):
        claim()


@pytest.mark.parametrize(("epsilon", "delta"), [
    (0, 1e-6), (-1, 1e-6), (math.inf, 1e-6), (math.nan, 1e-6), (1e9, 1e-6), (1, 0), (1, 1), (1, 1.5), (1, math.nan),
])  # fmt: skip
def test_gaussian_noise_has_no_scale_outside_its_range(epsilon, delta):
    """Epsilon is above 0 and no giant, and delta above 0 and below 1."""
    with pytest.raises(ArgumentError, match="delta"):
        statistics.gaussian_scale(epsilon, delta)


def test_what_a_loss_is_charged():
    """The same after JSON; coarse Laplace noise as a pure release, Gaussian noise by exact fractions."""
    for loss in LOSSES:
        again = loss_from_dict(json.loads(json.dumps(loss.to_dict())))
        assert (loss, type(loss)) == (again, type(again))
    assert Laplace(3, laplace_scale(3, Fraction(1, 3)), Fraction(1, 3)).epsilon == Fraction(1, 3)
    coarse, pure = laplace(0.5, steps=1), Pure(exact(0.5))
    assert (pure.mu_squared(), pure.renyi(3.0)) == (coarse.mu_squared(), coarse.renyi(3.0))
    loss = Gaussian(3, 64.0, 1, exact(1), exact("1e-2"))
    assert (Fraction(3) / (4096 - Fraction(1, 11)), Fraction(5, 2) * 3 / 8192) == (
        loss.mu_squared(),
        loss.renyi(2.5),
    )


# ---- accountants ----------------------------------------------------------------------------------------

KINDS = ("basic", "rdp", "gdp", "portfolio")


@pytest.mark.parametrize("kind", KINDS)
def test_terms_of_an_account(kind):
    """Shares of delta add up; read back from JSON an accountant has the caps of its opening, not new ones."""
    opened = account(kind)
    written = opened.to_dict()
    assert opened.delta == sum(member.delta for member in opened.members) + opened.pool
    assert opened == Accountant.from_dict(json.loads(json.dumps(written)))
    written["members"][0]["caps"][0] = "17"
    assert Accountant.from_dict(written).members[0].caps[0] == 17


def test_delta_decides_the_accounting():
    """Without a delta epsilons add up; with one the default is the portfolio; words say what holds."""
    assert (account(None, delta=0).accounting, account(None).accounting) == ("basic", "portfolio")
    with pytest.raises(ArgumentError, match=r"needs a delta above 0.*accounting='basic'"):
        account("gdp", delta=0)
    assert "(epsilon, delta)-differentially private with epsilon = 1 and delta = 1e-06" in account("gdp").describe()
    assert "epsilon-differentially private with epsilon = 0.5, whatever" in account(None, 0.5, 0).describe()
    cap = account("basic", "1/37", 0).members[0].caps[0] * UNIT
    assert cap < Fraction(1, 37) < cap + UNIT
    opened = account("portfolio", 3)
    part = opened.default_delta(Fraction(1, 37))
    proportional = exact("1e-6") * Fraction(511, 1024) / 3 / 37
    assert proportional - UNIT < part <= proportional
    assert (part / UNIT).denominator == 1
    assert account(None, 1, 0).default_delta(exact(0.1)) == 0


@pytest.mark.parametrize(
    ("epsilon", "mu2", "alpha", "divergence", "mixed"),
    [
        (1, 0.049333, 25.8170, 0.530017, 0.012602),
        (3, 0.376121, 10.2211, 1.631280, 0.099350),
    ],
)
def test_portfolio_caps(epsilon, mu2, alpha, divergence, mixed):
    """The caps of a portfolio at delta 1e-6 are the reference numbers."""
    basic, gdp, rdp, mix = account("portfolio", epsilon).members

    assert [member.name for member in (basic, gdp, rdp, mix)] == ["basic", "gdp", "rdp", "mix"]
    assert [exact(epsilon), exact("1e-6") * Fraction(511, 1024)] == [cap * UNIT for cap in basic.caps]
    assert gdp.caps[0] * UNIT == pytest.approx(mu2, abs=1e-6)
    assert rdp.alpha == pytest.approx(alpha, abs=1e-3)
    assert rdp.caps[0] * UNIT == pytest.approx(divergence, abs=1e-6)
    assert [exact(epsilon) / 2, pytest.approx(mixed, abs=1e-6)] == [cap * UNIT for cap in mix.caps]


@pytest.mark.parametrize(
    ("epsilon", "part", "laplaces", "gaussians"),
    [
        (1, 0.05, (20, 23, 14, 20), (20, 386, 444, 391)),
        (1, 0.1, (10, 7, 3, 10), (10, 102, 118, 104)),
        (1, 0.5, (2, 1, 0, 2), (2, 4, 5, 4)),
        (3, 0.05, (60, 154, 109, 134), (60, 2937, 3329, 2984)),
        (3, 0.1, (30, 42, 28, 37), (30, 781, 885, 793)),
        (3, 0.5, (6, 3, 1, 6), (6, 36, 40, 36)),
    ],
)
def test_how_many_releases_fit(epsilon, part, laplaces, gaussians):
    """The number of equal releases that each accounting admits is the published table's, cell by cell."""
    opened = [account(kind, epsilon) for kind in KINDS]

    assert laplaces == tuple(fits(accountant, laplace(part)) for accountant in opened)
    assert gaussians == tuple(fits(accountant, gaussian(part)) for accountant in opened)


@pytest.mark.parametrize(
    ("epsilon", "before", "part", "admitted"),
    [
        (1, [0.25] * 2, 0.1, (5, 19, 0, 26)),
        (1, [0.5], 0.1, (5, 12, 0, 26)),
        (1, [0.1] * 5, 0.1, (5, 36, 0, 26)),
        (1, [0.1], 0.1, (9, 89, 86, 74)),
        (3, [0.5], 0.1, (25, 582, 219, 495)),
        (3, [0.5] * 4, 0.5, (2, 0, 0, 2)),
    ],
)
def test_how_many_gaussians_fit_after_laplace_releases(epsilon, before, part, admitted):
    """Mixes of Laplace and Gaussian releases fit as often as the published table says."""
    counts = tuple(fits(account(kind, epsilon), gaussian(part), *[laplace(e) for e in before]) for kind in KINDS)

    assert admitted == counts


def test_the_portfolio_admits_whatever_adds_up():
    """Releases whose epsilons add up to the total exactly are admitted, with default deltas."""
    opened = account(None, 3)
    parts = [exact("1/3")] * 3 + [exact(0.1)] * 10 + [exact("1/7")] * 7
    spent = charged(opened, *(gaussian(part, opened.default_delta(part)) for part in parts))

    assert opened.members[0].caps[0] == spent.counts[0]
    assert opened.holds(spent)


def test_one_unit_too_much_is_refused():
    """An account that is used up exactly does not admit one unit more; ten tenths of delta are all of it."""
    opened = account(None, 3, 0)
    spent = charged(opened, *[Pure(exact("1/3"))] * 9)

    assert opened.holds(spent)
    assert not opened.holds(opened.after(spent, Pure(UNIT)))
    release = gaussian(0.05, "1e-7")
    assert (fits(account("basic"), release), fits(account("gdp"), release)) == (10, 355)


def test_the_pool_pays_small_deltas():
    """What rounding adds, and a tiny delta, are paid from the pool; a larger one breaks what needs it."""
    opened, large = account("portfolio"), Approximate(exact("1e-9"), exact("1e-8"))
    assert [account(kind).holds(charged(account(kind), large)) for kind in KINDS] == [True, False, False, True]
    assert fits(account("portfolio"), gaussian(0.1), large) == 9

    release = Approximate(exact(0.1), exact("1e-12"))
    spent, pure = charged(opened, release), charged(opened, Pure(exact(0.1)))
    assert spent.counts[2:-1] == pure.counts[2:-1]
    assert spent.counts[-1] * UNIT == release.delta

    release = gaussian(0.5, dimension=50, squared=2**30)
    spent = charged(opened, release, release)
    lost = 50 * (1 + math.e) / (200 * release.scale**4)
    assert float(spent.counts[-1] * UNIT) == pytest.approx(2 * lost, rel=1e-9)


def test_a_charge_without_bound_breaks_a_filter_for_good():
    """A release too costly for any finite charge breaks its filter; the basic one still adds up; JSON knows it."""
    opened = account("portfolio")
    spent = charged(opened, Pure(exact(3000)))
    later = opened.after(spent, Pure(exact(0.1)))

    assert spent.counts[2] is None
    assert later.counts[2] is None
    assert later.counts[0] * UNIT == exact("3000.1")
    assert not opened.holds(spent)
    assert later == Spent.from_list(json.loads(json.dumps(later.to_list())))


loss_strategy = st.one_of(
    st.builds(laplace, st.fractions("1/1000", 2)),
    st.builds(lambda e: laplace(e, steps=1), st.fractions("1/1000", 2)),
    st.builds(gaussian, st.fractions("1/1000", 2)),
    st.builds(Pure, st.fractions("1/1000", 2000)),
    st.builds(BoundedRange, st.fractions("1/1000", 2)),
    st.builds(Approximate, st.fractions("1/1000", 2), st.fractions("1/1000000000000", "1/1000")),
)


@given(st.sampled_from(KINDS), st.lists(loss_strategy, max_size=6))
@settings(max_examples=150, deadline=None)
def test_totals_only_grow(kind, losses):
    """No release lowers any sum, and an account that is used up stays so."""
    opened = account(kind)
    spent = opened.no_charges
    for loss in losses:
        after = opened.after(spent, loss)
        assert all(
            new is None or (old is not None and new >= old)
            for old, new in zip(spent.counts, after.counts, strict=True)
        )
        assert opened.holds(spent) or not opened.holds(after)
        assert opened.fraction_used(spent) <= opened.fraction_used(after) <= 1
        spent = after


@given(loss_strategy, st.sampled_from(["basic", "gdp", "rdp", "mix"]))
@settings(max_examples=100, deadline=None)
def test_what_is_counted_is_never_less_than_the_charge(loss, name):
    """Sums are rounded up to whole units, by less than one unit each."""
    member = Filter.open(name, exact(1), exact("1e-6"))
    opened = Accountant("portfolio", exact(1), exact("1e-6"), (member,), exact("1e-9"))
    spent = opened.after(opened.no_charges, loss)
    for charge, count in zip(member.charge(loss), spent.counts, strict=False):
        assert (charge is None) == (count is None)
        assert charge is None or charge <= count * UNIT < charge + UNIT


# ---- what is left ---------------------------------------------------------------------------------------

HISTORIES = {
    "nothing": (),
    "one Laplace": (laplace(0.5),),
    "many Gaussians": tuple([gaussian(0.1)] * 40),
    "both": (laplace(0.2), *[gaussian(0.1)] * 20),
}


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("history", HISTORIES)
def test_largest_is_admitted_and_little_more_is_not(history, kind, noise):
    """The epsilon said to be left can be asked for; a millionth more cannot."""
    opened = account(kind)
    spent = charged(opened, *HISTORIES[history])
    largest = opened.largest(spent, noise)
    make = laplace if noise == "laplace" else lambda e: gaussian(e, opened.default_delta(e))
    coarse = laplace(max(largest, UNIT), steps=max(1, math.ceil(largest * 2**15)))

    if largest > 0:
        assert opened.holds(opened.after(spent, make(largest)))
        assert noise == "gaussian" or opened.holds(opened.after(spent, coarse))
        assert not opened.holds(opened.after(spent, make(largest * Fraction(1_000_001, 1_000_000))))
    else:
        assert not opened.holds(opened.after(spent, make(exact("1e-9"))))


@pytest.mark.parametrize("epsilon", [1e-5, 3e-5, 1e-4, 3e-4, 1e-3])
def test_largest_is_admitted_on_the_coarsest_grid_of_the_core(epsilon):
    """What is left can be asked for with noise of only 2^15 steps, which is charged a little more."""
    opened = account("gdp", epsilon, "1e-9")
    largest = opened.largest(opened.no_charges)
    correction = 2.0**-32  # 1 / (4 b^2)

    assert laplace_mu(float(largest) + correction) ** 2 <= opened.members[0].caps[0] * UNIT


def test_largest_takes_the_delta_that_is_named():
    """With a named delta, the largest epsilon is one for which that delta is admitted."""
    opened = account("portfolio")
    spent = charged(opened, *[gaussian(0.1)] * 40)
    largest = opened.largest(spent, "gaussian", exact("1e-8"))

    assert opened.holds(opened.after(spent, gaussian(largest, "1e-8")))
    assert not opened.holds(opened.after(spent, gaussian(largest * exact("1.000001"), "1e-8")))


@pytest.mark.parametrize(("kind", "epsilon"), [("portfolio", 100), ("basic", 10**6), ("rdp", 100), ("gdp", 100)])
def test_the_largest_gaussian_release_of_a_very_large_budget_is_known(kind, epsilon):
    """An epsilon for which no grid is fine enough ends the search, and is no error."""
    opened = account(kind, epsilon, "1e-6")
    largest = opened.largest(opened.no_charges, "gaussian", exact("1e-7"))

    assert opened.holds(opened.after(opened.no_charges, gaussian(largest, "1e-7", squared=2**80)))
    assert largest > 1


def test_the_rest_of_a_basic_account_is_exact():
    """What a basic account has left is the exact difference; the bar is that of the filter with most left."""
    opened = account(None, 1, 0)
    spent = charged(opened, Pure(Fraction(1, 3)), Pure(exact(0.1)))

    assert [Fraction(17, 30), 0] == [opened.largest(spent, kind) for kind in ("laplace", "gaussian")]
    assert opened.largest(charged(opened, Pure(exact(1)))) == 0
    assert account("basic", 1000, 0).largest(account("basic", 1000, 0).no_charges) == 1000
    opened = account("portfolio")
    used = [opened.fraction_used(charged(opened, *[laplace(part)])) for part in (0.25, 5)]
    assert (opened.fraction_used(opened.no_charges), *used) == (0, 0.25, 1)
    assert opened.fraction_used(charged(opened, *[gaussian(0.05)] * 10)) == pytest.approx(10 / 391, rel=0.01)


# ---- why shares of delta are needed ---------------------------------------------------------------------


def free_choice(epsilon, delta, part, basic_delta, gauss_delta):
    """True delta of an analyst who plays the basic against the Gaussian filter, by numerical integration.

    First a Gaussian release with the given part of mu^2, which the basic filter charges with epsilon_1 and a
    fiftieth of its delta; then whichever of the two filters' remainders hurts more at the loss seen.
    """
    mu = mu_budget(epsilon, gauss_delta)
    first, rest = math.sqrt(part) * mu, math.sqrt(1 - part) * mu
    low, high = 0.0, epsilon
    while high - low > 1e-13:
        middle = (low + high) / 2
        low, high = (middle, high) if delta_gauss(middle, first) > basic_delta / 50 else (low, middle)
    epsilon_1, delta_2 = high, basic_delta * 49 / 50
    epsilon_2 = epsilon - epsilon_1
    p = 1 / (1 + math.exp(-epsilon_2))

    def gauss_rest(x):
        return stats.norm.cdf(-x / rest + rest / 2) - np.exp(x) * stats.norm.cdf(-x / rest - rest / 2)

    def pure_rest(x):  # the worst (epsilon_2, delta_2) mechanism: randomised response that fails openly
        positive = np.maximum(p - np.exp(x) * (1 - p), 0) + np.maximum(1 - p - np.exp(x) * p, 0)
        return delta_2 + (1 - delta_2) * positive

    loss = np.linspace(first**2 / 2 - 12 * first, first**2 / 2 + 12 * first, 400_001)
    density = stats.norm.pdf(loss, first**2 / 2, first)
    worst = np.maximum(gauss_rest(epsilon - loss), pure_rest(epsilon - loss))
    return integrate.simpson(density * worst, x=loss) / delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "part", "ratio"),
    [(1, 1e-6, 0.7, 1.964), (3, 1e-6, 0.7, 1.968), (1, 1e-2, 0.3, 1.490)],
)
def test_two_filters_at_the_full_delta_would_leak_twice_as_much(epsilon, delta, part, ratio):
    """A free choice between filters at the full delta nearly reaches twice delta; at half each, delta."""
    assert free_choice(epsilon, delta, part, delta, delta) == pytest.approx(ratio, abs=1e-3)
    assert free_choice(epsilon, delta, part, delta / 2, delta / 2) <= 1
