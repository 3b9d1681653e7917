"""Privacy losses, filters, and the formulas between privacy parameters."""

from __future__ import annotations

import decimal
import json
import math
import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dfprivacy._privacy.calibrate import gaussian_scale, laplace_scale
from dfprivacy._privacy.conversions import (
    above,
    alpha_star,
    below,
    delta_gauss,
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
    spent = accountant.nothing
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


# --- exact numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (0.1, Fraction(1, 10)),
        (0.1 + 0.2, Fraction(3, 10)),
        (1e-6, Fraction(1, 10**6)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int64(3), Fraction(3)),
        (2, Fraction(2)),
        ("1/3", Fraction(1, 3)),
        ("0.1", Fraction(1, 10)),
        (Decimal("0.30"), Fraction(3, 10)),
        (Fraction(2, 7), Fraction(2, 7)),
        (1 / 3, Fraction(333333333333333, 10**15)),
        (0.0, Fraction(0)),
        (-0.1, Fraction(-1, 10)),
        (5e-324, exact("4.940656458e-324")),
    ],
)
def test_exact_reads_what_was_meant(written, read):
    """A number is read as the short decimal or the fraction it was written as."""
    if written == 5e-324:
        assert 0 < exact(written) <= Fraction(written)
    else:
        assert read == exact(written)


@pytest.mark.parametrize(
    "garbage",
    [
        True,
        False,
        np.True_,
        float("nan"),
        float("inf"),
        -math.inf,
        "ten",
        "",
        "1/0",
        "nan",
        "inf",
        Decimal("NaN"),
        Decimal("Infinity"),
        None,
        [0.1],
        1j,
        np.array([0.1]),
    ],
)
def test_exact_refuses_what_is_no_number(garbage):
    """Truth values, text that is no number, and what is not finite are refused."""
    with pytest.raises(ArgumentError, match=r"is not a finite number\. Nothing was released or spent\."):
        exact(garbage)


def test_exact_ignores_the_callers_decimal_context():
    """A coarse decimal context of the caller does not change what a float is read as."""
    with decimal.localcontext(decimal.Context(prec=2, rounding=decimal.ROUND_UP)):
        read = exact(1 / 3), exact(0.123)

    assert (Fraction(333333333333333, 10**15), Fraction(123, 1000)) == read


def test_ten_tenths_are_one():
    """Equal parts of a total, in the three ways people write them, add up to the total or less."""
    assert 10 * exact(0.1) == 1
    assert 3 * exact(1 / 3) <= 1
    assert 3 * exact(Fraction(1, 3)) == 1
    assert 3 * exact(1e-6 / 3) <= exact(1e-6)


@given(st.integers(1, 10**10 - 1), st.integers(-14, 2), st.integers(1, 10_000))
@settings(max_examples=500, deadline=None)
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


def test_unit_counts_decimals_and_small_fractions_exactly():
    """Decimals of 18 places and fractions with denominators up to 36 are whole multiples of the unit."""
    fractions = [Fraction(1, 10**18)] + [Fraction(7, 1000 * n) for n in range(1, 37)]

    assert Fraction(1, 10**18 * 144403552893600) == UNIT
    assert all((fraction / UNIT).denominator == 1 for fraction in fractions)


@given(st.fractions(-(10**6), 10**6))
@settings(max_examples=200, deadline=None)
def test_floats_bracket_a_fraction(x):
    """`below` and `above` are the nearest floats on either side."""
    assert Fraction(below(x)) <= x <= Fraction(above(x))
    assert math.nextafter(below(x), math.inf) >= above(x)


# --- reference numbers of the conversions ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "mu", "sigma"),
    [
        (0.1, 0.0275446502, 36.304690426),
        (0.5, 0.1241061490, 8.057618481),
        (1, 0.2367043807, 4.224678889),
        (3, 0.6477265307, 1.543861418),
        (10, 1.8481322058, 0.541086832),
    ],
)
def test_mu_budget(epsilon, mu, sigma):
    """The largest mu and the smallest Gaussian scale for delta 1e-6 are the reference numbers."""
    assert mu_budget(epsilon, 1e-6) == pytest.approx(mu, rel=4e-9 if epsilon == 0.1 else TIGHT)
    assert gaussian_unit_scale(epsilon, 1e-6) == pytest.approx(sigma, rel=TIGHT)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        (1, 1e-05, 3.730631635),
        (1, 1e-09, 5.495266157),
        (0.05, 1e-08, 89.079199665),
        (0.01, 1e-09, 458.508497499),
        (1, 1e-06, 4.224678889326822),
    ],
)
def test_gaussian_unit_scale(epsilon, delta, sigma):
    """The Gaussian scale at other budgets is the reference number."""
    assert gaussian_unit_scale(epsilon, delta) == pytest.approx(sigma, rel=TIGHT)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0, 500.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-12, 1e-6, 1e-2])
def test_mu_budget_errs_on_the_safe_side_only(epsilon, delta):
    """Computed in 60 digits, the delta of the mu that is given is what was asked or a little less."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        e, mu = mpmath.mpf(epsilon), mpmath.mpf(mu_budget(epsilon, delta))
        true = mpmath.ncdf(-e / mu + mu / 2) - mpmath.exp(e) * mpmath.ncdf(-e / mu - mu / 2)

        assert delta_gauss(epsilon, mu_budget(epsilon, delta)) <= delta
        assert true <= delta
        assert true >= delta * (1 - 1e-9 - 1e-9 / epsilon)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho", "alpha"),
    [
        (0.1, 1e-6, 0.0003210477, 165.669),
        (0.5, 1e-6, 0.0066415244, 40.046),
        (1, 1e-6, 0.0243559704, 21.985),
        (3, 1e-6, 0.1850698407, 8.926),
        (10, 1e-6, 1.5392787639, 3.846),
        (1, 1e-5, 0.0305565952, 17.809),
        (1, 1e-9, 0.0149730577, 34.865),
    ],
)
def test_rho_budget(epsilon, delta, rho, alpha):
    """The largest rho, its order, and the way back are the reference numbers."""
    assert rho_budget(epsilon, delta) == pytest.approx(rho, abs=0.6e-10)
    assert alpha_star(epsilon, delta) == pytest.approx(alpha, abs=1e-3)
    assert log_delta_zcdp(rho_budget(epsilon, delta), epsilon) == pytest.approx(math.log(delta), rel=TIGHT)


@pytest.mark.parametrize(("epsilon", "budget"), [(1, 0.5354547395), (3, 1.6519444346)])
def test_renyi_budget(epsilon, budget):
    """At the best order, Rényi DP loses nothing against concentrated DP."""
    alpha = alpha_star(epsilon, 1e-6)

    assert renyi_budget(epsilon, 1e-6, alpha) == pytest.approx(budget, rel=TIGHT)
    assert renyi_budget(epsilon, 1e-6, alpha) == pytest.approx(alpha * rho_budget(epsilon, 1e-6), rel=TIGHT)


@pytest.mark.parametrize(
    ("epsilon", "mu"),
    [(0.05, 0.0618987530), (0.1, 0.1223259291), (0.5, 0.5617643232), (1, 1.0300639976), (3, 2.4364938096)],
)
def test_laplace_mu(epsilon, mu):
    """What Laplace noise costs under Gaussian DP is the reference number."""
    assert laplace_mu(epsilon) == pytest.approx(mu, rel=TIGHT)


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(0.1, 0.1253090122), (0.5, 0.6238925921), (1, 1.2320353853), (3, 3.3406837122)]
)
def test_pure_mu(epsilon, mu):
    """What randomised response costs under Gaussian DP is the reference number."""
    assert pure_mu(epsilon) == pytest.approx(mu, rel=TIGHT)


@pytest.mark.parametrize(
    ("epsilon", "alpha", "divergence"),
    [
        (0.5, 2, 0.2003038962),
        (0.5, 8.926059636, 0.4198458145),
        (0.5, 21.984537329, 0.4680649950),
        (0.1, 21.984537, 0.0686801056),
        (1, 21.984537, 0.9680649945),
    ],
)
def test_laplace_renyi(epsilon, alpha, divergence):
    """The Rényi divergence of Laplace noise is the reference number."""
    assert laplace_renyi(epsilon, alpha) == pytest.approx(divergence, rel=TIGHT)


@pytest.mark.parametrize(("alpha", "divergence"), [(2, 0.2273362938), (21.984537329, 0.4774082708)])
def test_pure_renyi(alpha, divergence):
    """The Rényi divergence of randomised response is the reference number."""
    assert pure_renyi(0.5, alpha) == pytest.approx(divergence, rel=TIGHT)


@pytest.mark.parametrize(
    ("epsilon", "rho"),
    [(0.05, 0.0012294245), (0.1, 0.0048374180), (0.5, 0.1065306597), (1, 0.3678794412), (3, 2.0497870684)],
)
def test_laplace_divergence_near_order_one(epsilon, rho):
    """Near order one the Rényi divergence of Laplace noise is its Kullback-Leibler divergence."""
    assert laplace_renyi(epsilon, 1 + 1e-5) == pytest.approx(rho, rel=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "rho"), [(0.1, 0.0049958375), (0.5, 0.1224593312), (1, 0.4621171573), (3, 2.7154447609)]
)
def test_pure_divergence_near_order_one(epsilon, rho):
    """Near order one the Rényi divergence of randomised response is epsilon tanh(epsilon/2)."""
    assert pure_renyi(epsilon, 1 + 1e-5) == pytest.approx(rho, rel=1e-4)
    assert rho == pytest.approx(epsilon * math.tanh(epsilon / 2), rel=1e-9)


def test_bounded_range_is_charged_as_half_a_randomised_response():
    """Under Gaussian DP an e-bounded-range release costs what a pure release of e/2 does; else a e^2/8."""
    release = BoundedRange(exact(1))

    assert math.sqrt(release.mu_squared()) == pytest.approx(0.6238925921, rel=TIGHT)
    assert release.renyi(2.0) == Fraction(1, 4)
    assert release.renyi(50.0) == pytest.approx(pure_renyi(1.0, 50.0))


@pytest.mark.parametrize("alpha", [1.0 + 2**-30, 1.5, 10.0, 200.0, 1e9])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-170, 1e-30, 1e-16, 1e-12, 1e-3, 3.0, 600.0])
def test_no_charge_is_below_the_truth_at_any_scale(epsilon, alpha):
    """Computed in 700 digits, charges are above the formulas that they round up, and above 0."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(700):
        e, a = mpmath.mpf(epsilon), mpmath.mpf(alpha)
        lap = mpmath.log(a / (2 * a - 1) * mpmath.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * e))
        p, q = 1 / (1 + mpmath.exp(-e)), mpmath.exp(-e) / (1 + mpmath.exp(-e))
        rr = mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a))

        assert 0 < lap / (a - 1) <= laplace_renyi(epsilon, alpha)
        assert 0 < rr / (a - 1) <= pure_renyi(epsilon, alpha)


@pytest.mark.parametrize("alpha", [1.5, 10.0, 200.0])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 0.1, 3.0])
def test_charges_are_never_below_the_truth(epsilon, alpha):
    """Computed in 60 digits, no Rényi or Gaussian charge is below the formula it rounds up."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        e, a = mpmath.mpf(epsilon), mpmath.mpf(alpha)
        lap = mpmath.log(a / (2 * a - 1) * mpmath.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * e))
        p = 1 / (1 + mpmath.exp(-e))
        rr = mpmath.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a))

        assert lap / (a - 1) <= laplace_renyi(epsilon, alpha) <= lap / (a - 1) * 3
        assert rr / (a - 1) <= pure_renyi(epsilon, alpha) <= rr / (a - 1) * 1.2
        assert mpmath.ncdf(-mpmath.mpf(laplace_mu(epsilon)) / 2) <= mpmath.exp(-e / 2) / 2
        assert mpmath.ncdf(-mpmath.mpf(pure_mu(epsilon)) / 2) <= 1 - p


# --- discrete noise, computed exactly --------------------------------------------------------------------


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


# --- privacy losses --------------------------------------------------------------------------------------

LOSSES = [
    laplace(0.5),
    laplace(0.3, steps=1),
    gaussian(0.5, dimension=7),
    Pure(Fraction(1, 3)),
    BoundedRange(exact(1)),
    Approximate(exact(0.1), exact(1e-9)),
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.kind)
def test_losses_survive_json(loss):
    """A privacy loss is the same after a round trip through JSON."""
    assert loss == loss_from_dict(json.loads(json.dumps(loss.to_dict())))
    assert type(loss) is type(loss_from_dict(loss.to_dict()))


def test_unknown_losses_are_refused():
    """A loss of no known kind is refused."""
    with pytest.raises(ArgumentError, match="no kind of privacy loss"):
        loss_from_dict({"kind": "hope", "epsilon": "1"})


@pytest.mark.parametrize(
    "claim",
    [
        lambda: Laplace(10, math.nextafter(20.0, 0), exact(0.5)),
        lambda: Laplace(0, 1.0, exact(0.5)),
        lambda: Laplace(1, 0.0, exact(0.5)),
        lambda: Laplace(1, -1.0, exact(0.5)),
        lambda: Laplace(1, math.inf, exact(0.5)),
        lambda: Laplace(1, math.nan, exact(0.5)),
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
    ],
)
def test_false_claims_are_refused(claim):
    """A loss whose noise does not bear out its claim, or whose numbers are out of range, cannot be made."""
    with pytest.raises(ArgumentError):
        claim()


def test_the_least_noise_that_bears_out_a_laplace_claim():
    """The exact scale is accepted, and the next float below is not."""
    scale = laplace_scale(3, Fraction(1, 3))

    assert Laplace(3, scale, Fraction(1, 3)).epsilon == Fraction(1, 3)
    with pytest.raises(ArgumentError):
        Laplace(3, math.nextafter(scale, 0), Fraction(1, 3))


def test_coarse_laplace_noise_is_charged_as_a_pure_release():
    """Below four grid steps the bound for fine noise is not used."""
    loss = laplace(0.5, steps=1)

    assert Pure(exact(0.5)).mu_squared() == loss.mu_squared()
    assert Pure(exact(0.5)).renyi(3.0) == loss.renyi(3.0)


def test_a_gaussian_charge_is_exact():
    """Rényi and Gaussian charges of Gaussian noise are exact fractions of the request."""
    loss = Gaussian(3, 64.0, 1, exact(1), exact("1e-2"))

    assert Fraction(3) / (4096 - Fraction(1, 11)) == loss.mu_squared()
    assert Fraction(5, 2) * 3 / 8192 == loss.renyi(2.5)


# --- accountants -----------------------------------------------------------------------------------------


def test_delta_decides_the_accounting():
    """Without a delta epsilons add up; with one the default is the portfolio."""
    assert account(None, delta=0).accounting == "basic"
    assert account(None).accounting == "portfolio"


@pytest.mark.parametrize("kind", ["rdp", "gdp", "portfolio"])
def test_other_accountings_need_a_delta(kind):
    """An accounting that trades delta is refused without one, with the way out."""
    with pytest.raises(ArgumentError, match=r"needs a delta above 0.*accounting='basic'"):
        account(kind, delta=0)


@pytest.mark.parametrize(
    ("kind", "epsilon", "delta"),
    [
        ("basic", 0, 0),
        ("basic", -1, 0),
        ("basic", 1, 1),
        ("basic", 1, -0.1),
        ("zcdp", 1, 1e-06),
        ("portfolio", 501, 1e-06),
        ("gdp", 1, "1e-101"),
    ],
)
def test_budgets_that_are_none(kind, epsilon, delta):
    """Budgets out of range and unknown accountings are refused."""
    with pytest.raises(ArgumentError):
        account(kind, epsilon, delta)


def test_shares_of_delta_add_up():
    """The filters' deltas and the pool add up to the account's delta, exactly."""
    for kind in ("basic", "rdp", "gdp", "portfolio"):
        opened = account(kind)
        assert opened.delta == sum(member.delta for member in opened.members) + opened.pool


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


KINDS = ("basic", "rdp", "gdp", "portfolio")


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


def test_basic_runs_out_of_delta():
    """With delta_i a tenth of delta the basic accounting admits ten Gaussian releases; Gaussian DP many."""
    release = gaussian(0.05, "1e-7")
    counts = fits(account("basic"), release), fits(account("gdp"), release)

    assert counts == (10, 355)


def test_the_portfolio_admits_whatever_adds_up():
    """Releases whose epsilons add up to the total exactly are admitted, with default deltas."""
    opened = account(None, 3)
    parts = [exact("1/3")] * 3 + [exact(0.1)] * 10 + [exact("1/7")] * 7
    spent = charged(opened, *(gaussian(part, opened.default_delta(part)) for part in parts))

    assert opened.members[0].caps[0] == spent.counts[0]
    assert opened.holds(spent)


def test_one_unit_too_much_is_refused():
    """An account that is used up exactly does not admit one unit more."""
    opened = account(None, 3, 0)
    spent = charged(opened, *[Pure(exact("1/3"))] * 9)

    assert opened.holds(spent)
    assert not opened.holds(opened.after(spent, Pure(UNIT)))


def test_approximate_losses_leave_only_the_basic_filter():
    """A delta beyond the pool breaks every filter that needs the pool, for good."""
    release = Approximate(exact("1e-9"), exact("1e-8"))

    assert not account("gdp").holds(charged(account("gdp"), release))
    assert not account("rdp").holds(charged(account("rdp"), release))
    assert account("portfolio").holds(charged(account("portfolio"), release))
    assert fits(account("portfolio"), gaussian(0.1), release) == 9


def test_approximate_losses_within_the_pool_cost_their_pure_part():
    """A tiny delta is paid from the pool, once for all filters."""
    opened = account("portfolio")
    release = Approximate(exact(0.1), exact("1e-12"))
    spent = charged(opened, release)
    pure = charged(opened, Pure(exact(0.1)))

    assert spent.counts[2:-1] == pure.counts[2:-1]
    assert spent.counts[-1] * UNIT == release.delta


def test_discretisation_is_charged_to_the_pool():
    """What discrete Gaussian noise loses against continuous noise adds up in the pool."""
    opened = account("portfolio")
    release = gaussian(0.5, dimension=50, squared=2**30)
    spent = charged(opened, release, release)
    lost = 50 * (1 + math.e) / (200 * release.scale**4)

    assert float(spent.counts[-1] * UNIT) == pytest.approx(2 * lost, rel=1e-9)


def test_a_charge_without_bound_breaks_a_filter_for_good():
    """A release too costly for any finite charge breaks its filter; the basic one still adds up."""
    opened = account("portfolio")
    spent = charged(opened, Pure(exact(3000)))
    later = opened.after(spent, Pure(exact(0.1)))

    assert spent.counts[2] is None
    assert later.counts[2] is None
    assert later.counts[0] * UNIT == exact("3000.1")
    assert not opened.holds(spent)


def test_totals_survive_json():
    """A running total is the same after a round trip through JSON."""
    spent = charged(account("portfolio"), Pure(exact(3000)), laplace(0.3))

    assert spent == Spent.from_list(json.loads(json.dumps(spent.to_list())))


@pytest.mark.parametrize("kind", KINDS)
def test_terms_survive_json(kind):
    """An accountant read back from JSON has the caps of its opening, not new ones."""
    opened = account(kind)
    written = json.loads(json.dumps(opened.to_dict()))
    lowered = json.loads(json.dumps(opened.to_dict()))
    lowered["members"][0]["caps"][0] = "17"

    assert opened == Accountant.from_dict(written)
    assert Accountant.from_dict(lowered).members[0].caps[0] == 17


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
    spent = opened.nothing
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
    spent = opened.after(opened.nothing, loss)
    for charge, count in zip(member.charge(loss), spent.counts, strict=False):
        assert (charge is None) == (count is None)
        assert charge is None or charge <= count * UNIT < charge + UNIT


# --- what is left ----------------------------------------------------------------------------------------

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
    largest = opened.largest(opened.nothing)
    correction = 2.0**-32  # 1 / (4 b^2)

    assert laplace_mu(float(largest) + correction) ** 2 <= opened.members[0].caps[0] * UNIT


def test_caps_are_rounded_down():
    """A budget that is not a whole multiple of the unit is cut to one."""
    cap = account("basic", "1/37", 0).members[0].caps[0] * UNIT

    assert cap < Fraction(1, 37) < cap + UNIT


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
    largest = opened.largest(opened.nothing, "gaussian", exact("1e-7"))

    assert opened.holds(opened.after(opened.nothing, gaussian(largest, "1e-7", squared=2**80)))
    assert largest > 1


def test_the_rest_of_a_basic_account_is_exact():
    """What a basic account has left is the exact difference; nothing is left at the end."""
    opened = account(None, 1, 0)
    spent = charged(opened, Pure(Fraction(1, 3)), Pure(exact(0.1)))

    assert Fraction(17, 30) == opened.largest(spent)
    assert opened.largest(charged(opened, Pure(exact(1)))) == 0
    assert opened.largest(spent, "gaussian") == 0
    assert account("basic", 1000, 0).largest(account("basic", 1000, 0).nothing) == 1000


def test_fraction_used_is_that_of_the_filter_with_most_left():
    """The bar runs from 0 to 1; ten of 391 Gaussian releases use little of it."""
    opened = account("portfolio")

    assert opened.fraction_used(opened.nothing) == 0
    assert opened.fraction_used(charged(opened, laplace(0.25))) == 0.25
    assert opened.fraction_used(charged(opened, *[gaussian(0.05)] * 10)) == pytest.approx(10 / 391, rel=0.01)
    assert opened.fraction_used(charged(opened, laplace(5))) == 1


def test_the_default_delta_is_in_proportion():
    """The default delta is the first filter's share in proportion to epsilon, rounded down to whole units."""
    opened = account("portfolio", 3)
    part = opened.default_delta(Fraction(1, 37))
    proportional = exact("1e-6") * Fraction(511, 1024) / 3 / 37

    assert proportional - UNIT < part <= proportional
    assert (part / UNIT).denominator == 1
    assert account(None, 1, 0).default_delta(exact(0.1)) == 0


def test_the_guarantee_in_words():
    """The description names epsilon and delta, and does without a delta where there is none."""
    assert "(epsilon, delta)-differentially private with epsilon = 1 and delta = 1e-06" in account("gdp").describe()
    assert "epsilon-differentially private with epsilon = 0.5, whatever" in account(None, 0.5, 0).describe()


# --- why shares of delta are needed ----------------------------------------------------------------------


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
