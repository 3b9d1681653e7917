"""Noise on the grid: scales, the grid, the samplers, exact coins, and noise of the cube."""

# ruff: noqa: PD011 - measurements have values, too

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
import threading
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

import dfprivacy as dp
from dfprivacy._measure.curator import Curator
from dfprivacy._measure.evaluate import Table
from dfprivacy._privacy import draws as coins
from dfprivacy._privacy.calibrate import ROWS_MAX, SUM_MAX, gaussian_scale, grid_exponent, laplace_scale
from dfprivacy._privacy.conversions import gaussian_delta, gaussian_unit_scale
from dfprivacy._privacy.draws import cube_noise
from dfprivacy._privacy.filters import exact
from dfprivacy._privacy.losses import Cube, Gaussian, Laplace, loss_from_dict
from dfprivacy._privacy.samplers import HIDDEN, OpenDPSampler, _opendp_measurement, sampler, use_sampler
from dfprivacy._table.declare import read_schema
from dfprivacy._table.frames import adapt
from dfprivacy.errors import ArgumentError
from dfprivacy.features import Count, Moments, OneHot, Outer, Stack
from dfprivacy.statistics import OfRows
from dfprivacy.testing import SeededSampler, seeded_noise
from dfprivacy_audit import Case, check_mechanism

ONE_IN_TEN_MILLION = 1e-7

# ---- scales ---------------------------------------------------------------------------------------------


@given(st.integers(1, 2**70), st.fractions("1/1000000", 1000))
@settings(max_examples=300, deadline=None)
def test_laplace_scale_bears_out_its_claim_and_no_more(sensitivity, epsilon):
    """The scale gives the claimed epsilon exactly; the next smaller float does not."""
    scale = laplace_scale(sensitivity, epsilon)

    assert Laplace(sensitivity, scale, epsilon).scale == scale
    assert Fraction(math.nextafter(scale, 0)) * epsilon < sensitivity


@given(
    st.integers(2**40, 2**130),
    st.integers(1, 10**6),
    st.fractions("1/1000000", 100),
    st.sampled_from(["1e-3", "1e-6", "1e-9", "1e-15"]),
)
@settings(max_examples=200, deadline=None)
def test_gaussian_scale_bears_out_its_claim(squared, dimension, epsilon, delta):
    """A scale that is given is accepted as a privacy loss, on grids of all finenesses."""
    delta = exact(delta)
    try:
        scale = gaussian_scale(squared, dimension, epsilon, delta)
    except ArgumentError as error:
        assume("too coarse" not in str(error))
        raise

    assert Gaussian(squared, scale, dimension, epsilon, delta).scale == scale


@pytest.mark.parametrize("epsilon", ["1e-100", "1e-12", "1e-3", "1", "7", "100", "500"])
@pytest.mark.parametrize("delta", ["1e-100", "1e-16", "1e-6", "0.1", "0.999"])
def test_gaussian_noise_is_as_private_as_it_says(epsilon, delta):
    """Computed in 60 digits, the delta of continuous noise and of what discreteness adds is within the claim."""
    e, d = exact(epsilon), exact(delta)
    with mpmath.workdps(60):
        E, claimed = (mpmath.mpf(x.numerator) / x.denominator for x in (e, d))
        for squared, dimension in [(2**78 + 1, 1), (2**78 + 1, 10**6), (2**130, 5), (10**4, 1)]:
            try:
                scale = mpmath.mpf(gaussian_scale(squared, dimension, e, d))
            except ArgumentError:
                assert squared < 2**78 or e > 20 or d < exact("1e-12")
                continue
            mu = mpmath.sqrt(squared / (scale**2 - mpmath.mpf(1) / 11))
            continuous = mpmath.ncdf(-E / mu + mu / 2) - mpmath.exp(E) * mpmath.ncdf(-E / mu - mu / 2)

            assert continuous + dimension * (1 + mpmath.exp(E)) / (200 * scale**4) <= claimed


def test_gaussian_scale_pays_for_discreteness():
    """On a fine grid corrections vanish; on a coarse one noise covers them; on a coarser one it is refused."""
    for epsilon, delta in ((1, "1e-6"), (0.05, "1e-8"), (3, "1e-9")):
        fine = gaussian_scale(2**80, 1000, exact(epsilon), exact(delta)) / 2**40
        assert fine == pytest.approx(gaussian_unit_scale(epsilon, float(delta)), rel=1e-10)
    scale = gaussian_scale(20**2, 1, exact(1), exact("1e-6"))

    assert scale > 20 * gaussian_unit_scale(1, 1e-6)
    assert gaussian_delta(20**2, scale, 1, exact(1)) <= exact("1e-6")
    assert gaussian_delta(20**2, scale * (1 - 1e-6), 1, exact(1)) > exact("1e-6")
    with pytest.raises(ArgumentError, match=r"too coarse for delta 1e-06.*finer grid"):
        gaussian_scale(1, 1, exact(1), exact("1e-6"))
    with pytest.raises(ArgumentError, match="too coarse"):
        gaussian_scale(1, 1, exact(20), exact("0.5"))


NONE = [(laplace_scale, *asked) for asked in ((0, 1), (1, 0), (1, "1e-400"), (1, Fraction(10**400)))]
NONE += [(gaussian_scale, 0, 1, 1, "1e-6"), (gaussian_scale, 2**40, 0, 1, "1e-6")]
NONE += [(gaussian_scale, 2**40, 1, *price) for price in ((0, "1e-6"), (501, "1e-6"), (1, 0), (1, 1))]


@pytest.mark.parametrize("asked", NONE)
def test_there_is_always_some_noise(asked):
    """No request yields a scale that is zero or infinite: it is refused, or the least positive float."""
    function, *arguments = asked
    places = 1 if function is laplace_scale else 2
    try:
        found = function(*arguments[:places], *map(exact, arguments[places:]))
    except ArgumentError:
        return
    assert 0 < found < math.inf


# ---- the grid -------------------------------------------------------------------------------------------


def satisfied(k, radius, batch_rows, rows_max, noise):
    """Which of the three conditions of the grid rule hold."""
    return (
        Fraction(radius) * batch_rows * Fraction(2) ** k <= 2**53,
        Fraction(radius) * rows_max * Fraction(2) ** k <= 2**62,
        noise * 2.0**k >= 2**15,
    )


@given(
    st.floats(1e-6, 1e12),
    st.integers(1, 2**20),
    st.one_of(st.integers(1, 10**9), st.just(ROWS_MAX)),
    st.floats(1e-3, 1e3),
)
@settings(max_examples=300, deadline=None)
def test_the_grid_is_the_finest_that_sums_exactly(radius, batch_rows, rows_max, relative):
    """All three conditions hold on the grid; one step finer, an exact sum is lost."""
    noise = relative * radius
    try:
        k = grid_exponent(radius=radius, batch_rows=batch_rows, rows_max=rows_max, noise=noise)
    except ArgumentError:
        finest = next(k for k in range(80, -80, -1) if all(satisfied(k, radius, batch_rows, rows_max, noise)[:2]))
        assert not all(satisfied(finest, radius, batch_rows, rows_max, noise * (1 - 1e-12)))
        return

    assert all(satisfied(k, radius, batch_rows, rows_max, noise * (1 + 1e-12)))
    assert not all(satisfied(k + 1, radius, batch_rows, rows_max, noise)[:2])


def test_grids_of_known_sums():
    """Of unit features, of a private size, of squares of salaries, in whatever units; and refusals."""
    unit = {"radius": 1.0, "batch_rows": 2**14, "rows_max": 10**5, "noise": 1.0}
    assert (grid_exponent(**unit), grid_exponent(**{**unit, "rows_max": ROWS_MAX})) == (39, 30)
    assert grid_exponent(**{**unit, "radius": 1e12, "noise": 1e12}) < 0
    for radius in (5e-324, 1e-300, 1e-12, 1.0, 1e300):
        k = grid_exponent(**{**unit, "radius": radius, "noise": radius})
        assert 2**52 < Fraction(radius) * 2**14 * Fraction(2) ** k <= 2**53
    for argument, wrong in itertools.product(["radius", "noise"], [0.0, -1.0, math.nan, math.inf]):
        with pytest.raises(ArgumentError, match="finite numbers above 0"):
            grid_exponent(**{**unit, argument: wrong})
    with pytest.raises(ArgumentError, match="too small"):
        grid_exponent(**{**unit, "rows_max": ROWS_MAX, "noise": 1e-9})


# ---- the samplers ---------------------------------------------------------------------------------------


def seeded():
    with seeded_noise(11) as drawn:
        return drawn


SAMPLERS = {"OpenDP": OpenDPSampler, "seeded": seeded}


@pytest.mark.parametrize(("kind", "loss"), [("laplace", 0.5882352941176471), ("gaussian", 0.17301038062283738)])
def test_opendp_agrees_on_what_its_noise_guarantees(kind, loss):
    """Its own privacy maps at scale 1.7 are sensitivity over scale, and rho; at scale 0 it returns the data."""
    assert _opendp_measurement(kind, 1.7).map(1) == loss
    assert list(_opendp_measurement(kind, 0.0)(np.array([3, -5, 8], dtype=np.int64))) == [3, -5, 8]


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("which", SAMPLERS)
def test_every_sampler_refuses_what_would_protect_nobody(which, kind):
    """Scales that are not finite and positive, no grid sums, sums without room for noise; it keeps shapes."""
    draw = getattr(SAMPLERS[which](), kind)
    for scale in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ArgumentError, match="gives no privacy"):
            draw(np.zeros(2, dtype=np.int64), scale)
    for values in (np.array([1.5, math.nan]), np.array([1], dtype=np.int32), np.array([1], dtype=">i8"), [1, 2]):
        with pytest.raises(ArgumentError, match="64-bit integers"):
            draw(values, 2.0)
    for value in (SUM_MAX + 1, -SUM_MAX - 1, -(2**63)):
        with pytest.raises(ArgumentError, match="clamped") as caught:
            draw(np.array([value], dtype=np.int64), 2.0)
        assert str(value) not in str(caught.value)
    values = np.full((3, 4), SUM_MAX, dtype=np.int64)[:, ::2]
    noisy = draw(values, 2.0**40)
    assert ((3, 2), np.dtype(np.int64)) == (noisy.shape, noisy.dtype)
    assert (values == SUM_MAX).all()
    assert len(set(noisy.ravel())) == 6
    assert draw(np.zeros(0, dtype=np.int64), 2.0).shape == (0,)


def fit(observed, expected):
    """P-value of chi-square goodness of fit, with all rare cells in one."""
    common = expected >= 20
    counts, law = (np.append(each[common], each[~common].sum()) for each in (observed, expected))
    return stats.chisquare(counts, law).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("which", "kind", "scale"),
    [
        *[("OpenDP", kind, scale) for kind in ("laplace", "gaussian") for scale in (1.7, 12.0)],
        ("seeded", "laplace", 1.7),
        ("seeded", "gaussian", 12.0),  # a rounded normal, so only at larger scales
    ],
)
def test_samplers_draw_the_exact_law(which, kind, scale):
    """Goodness of fit against the exact probabilities, up to the far tails."""
    n, reach = 50_000, int(60 * scale)
    k = np.arange(-reach, reach + 1)
    weight = np.exp(-np.abs(k) / scale if kind == "laplace" else -(k**2) / (2 * scale**2))
    values = getattr(SAMPLERS[which](), kind)(np.full(n, 1000, dtype=np.int64), scale) - 1000
    counts = np.bincount(values + reach, minlength=2 * reach + 1)

    assert len(counts) == 2 * reach + 1
    assert fit(counts, n * weight / weight.sum()) > ONE_IN_TEN_MILLION


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("cores", ["one core", "all cores"])
def test_every_number_of_a_large_vector_has_noise_of_its_own(kind, cores):
    """However many threads draw it, no draw comes twice: of 20,000 on 2^56 steps none is another by chance."""
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(every)} if cores == "one core" else every)
    try:
        values = getattr(OpenDPSampler(), kind)(np.zeros((200, 100), dtype=np.int64), 2.0**56)
    finally:
        os.sched_setaffinity(0, every)

    assert values.shape == (200, 100)
    assert len(np.unique(values)) == 20_000


def first_then(noisy):
    """Show the first number of each row; where that is above 0 the second one, else the third."""
    shown = np.zeros(noisy.shape, dtype=bool)
    shown[:, 0] = True
    known = noisy[:, 0] != HIDDEN
    shown[:, 1] = known & (noisy[:, 0] > 0)
    shown[:, 2] = known & (noisy[:, 0] <= 0)
    return shown


@pytest.mark.statistical
@pytest.mark.parametrize("made", [OpenDPSampler, lambda: SeededSampler(1)], ids=["OpenDP", "seeded"])
def test_what_is_shown_step_by_step_has_the_law_of_all(made):
    """Noise drawn where it is shown, and noise drawn everywhere and shown in part, are exact."""
    n, scale, reach = 30_000, 1.7, 40
    weight = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    law = weight / weight.sum()

    noisy = made().revealed(np.zeros((n, 3), dtype=np.int64), scale, first_then)

    up = noisy[:, 0] > 0
    assert (noisy[up, 2] == HIDDEN).all()
    assert (noisy[~up, 1] == HIDDEN).all()
    observed = np.zeros((len(law), len(law)))
    np.add.at(observed, (noisy[:, 0] + reach, np.where(up, noisy[:, 1], noisy[:, 2]) + reach), 1)
    assert fit(observed, n * np.outer(law, law)) > ONE_IN_TEN_MILLION


def test_what_is_hidden_is_never_drawn_and_what_is_shown_is_drawn_once():
    """A number that is asked for again keeps its noise, and one that is not asked for gets none."""
    asked = []

    class Counting(OpenDPSampler):
        """Notes which values get noise."""

        def laplace(self, values, scale):
            """Note them."""
            asked.extend(values.tolist())
            return super().laplace(values, scale)

    steps = []

    def choose(noisy):
        steps.append(noisy)
        shown = np.zeros(noisy.shape, dtype=bool)
        shown[: 2 * len(steps)] = len(steps) < 4
        return shown

    noisy = Counting().revealed(np.arange(10), 2.0**40, choose)

    assert [*range(6)] == asked
    assert [int((each != HIDDEN).sum()) for each in steps] == [0, 2, 4, 6]
    assert all((each[each != HIDDEN] == noisy[each != HIDDEN]).all() for each in steps)
    assert (noisy[6:] == HIDDEN).all()


def test_opendp_saturates_and_few_of_its_measurements_are_kept():
    """Noise beyond 64 bits stops at the largest integer; what is kept for reuse does not grow without bound."""
    values = OpenDPSampler().laplace(np.full(500, SUM_MAX, dtype=np.int64), 2.0**62)
    assert values.max() == 2**63 - 1
    for i in range(100):
        OpenDPSampler().laplace(np.zeros(1, dtype=np.int64), 10.0 + i)
    assert _opendp_measurement.cache_info().currsize == _opendp_measurement.cache_info().maxsize == 64


def test_which_sampler_is_in_force():
    """OpenDP's, but in `seeded_noise`, of this thread alone, which says that it gives no privacy."""
    seen = []

    def draw(seed):
        with seeded_noise(seed) as drawn, use_sampler(drawn):
            seen.append((sampler() is drawn, drawn.private, "NOT PRIVATE" in drawn.name))
            other = threading.Thread(target=lambda: seen.append(sampler().private))
            other.start()
            other.join()
            if seed == 0:
                raise RuntimeError("boom")
            return sampler().laplace(np.zeros(9, dtype=np.int64), 1e6).tolist()

    with pytest.raises(RuntimeError, match="boom"):
        draw(0)
    assert seen == [(True, False, True), True]
    assert draw(1) == draw(1) != draw(2)
    assert sampler().private
    assert sampler().name.startswith("OpenDP 0.")
    assert sampler().name.endswith("from the operating system's secure source")
    code = (
        "import dfprivacy._privacy.samplers, sys; print('opendp' in sys.modules)"  # half a second, only when needed
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


# ---- coins: heads with probability exp(-gap / scale) ----------------------------------------------------

BITS = 32


def first_digits(gap, scale, bits):
    """The first binary digits of exp(-gap / scale), as an integer."""
    x = Fraction(gap) / Fraction(scale)
    with localcontext() as context:
        context.prec = 120
        return int((-(Decimal(x.numerator) / Decimal(x.denominator))).exp() * 2**bits)


def compared(digits, gap, scale, more):
    (below,) = coins.less_than_exp(np.array([digits], np.uint32), np.array([gap], np.uint64), scale, more)
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
    scale = 2.0**45
    gap = round(x * scale)
    border = first_digits(gap, scale, BITS)

    assert compared(border - 4, gap, scale, lambda count: 1 // 0)
    assert not compared(border + 4, gap, scale, lambda count: 1 // 0)


def test_the_ends_of_coins():
    """A gap of 0 is heads, and no more digits are drawn; the largest is tails, and needs a digit that is not 0."""
    digits = np.array([0, 1, 2**31, 2**32 - 2, 2**32 - 1], dtype=np.uint32)
    assert coins.less_than_exp(digits, np.zeros(5, dtype=np.uint64), 3.0, lambda count: 1 // 0).all()
    drawn = iter([0, 0, 7])
    assert not compared(0, 2**63, 1.0, lambda count: next(drawn))
    assert [*drawn] == []


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [0.7, 2.5, 1000.25])
def test_coins_are_heads_as_often_as_they_promise(scale):
    """Counts of heads of the system's source fit exp(-gap / scale), each gap by itself."""
    gaps = np.array([0, 1, 2, 5, 700], dtype=np.uint64)
    throws = 40_000

    counts = coins.draw_bernoulli(np.repeat(gaps, throws), scale).reshape(len(gaps), throws).sum(axis=1)

    expected = np.array([math.exp(-float(gap) / scale) for gap in gaps])
    pvalues = [stats.binomtest(int(n), throws, p).pvalue for n, p in zip(counts, expected, strict=True)]
    assert min(pvalues) > 1e-8


@pytest.mark.statistical
def test_coins_are_thrown_one_by_one():
    """Neighbouring coins, and those of successive throws, are independent."""
    probability = math.exp(-0.5)

    thrown = np.array([coins.draw_bernoulli(np.ones(200, dtype=np.uint64), 2.0) for _ in range(200)])

    for pairs in ((thrown[:, ::2], thrown[:, 1::2]), (thrown[::2], thrown[1::2])):
        found = np.bincount((2 * pairs[0] + pairs[1]).ravel(), minlength=4)
        law = np.outer([1 - probability, probability], [1 - probability, probability]).ravel()
        assert stats.chisquare(found, law * found.sum()).pvalue > 1e-7


# ---- the cube -------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_noise_of_the_cube_has_its_probabilities():
    """In two dimensions they are proportional to exp(-max|x| / b); each draw is another, in any shape."""
    with seeded_noise(1) as drawn:
        found = np.array([cube_noise(2, 1.3, drawn.laplace, drawn.uniform_below) for _ in range(20_000)])
    at = np.abs(np.stack(np.meshgrid(np.arange(-40, 41), np.arange(-40, 41)))).max(axis=0)
    weights = np.exp(-at / 1.3)
    counts = np.zeros_like(weights)
    np.add.at(counts, tuple(found.T + 40), 1)

    assert fit(counts, 20_000 * weights / weights.sum()) > ONE_IN_TEN_MILLION
    one, other = (OpenDPSampler().cube(np.zeros((2, 3), dtype=np.int64), 2.0**30) for _ in range(2))
    assert one.shape == other.shape == (2, 3)
    assert (one != other).any()


def test_a_claim_of_the_cube_is_checked():
    """Noise that is too small for its claim is not accounted for, and one that is large enough is kept as it is."""
    loss = Cube(Fraction(1, 2), 3, 6.0)

    assert loss == loss_from_dict(loss.to_dict())
    with pytest.raises(ArgumentError, match="private"):
        Cube(Fraction(1, 2), 3, 5.9)


class Two(OfRows):
    """Two values that one row moves by at most 1 each."""

    shape = (2,)

    def __init__(self, column):
        self.columns = (column,)

    def value(self, rows):
        return np.array([rows.standardized(self.columns[0]).sum() / 2] * 2)

    def sensitivity(self, relation, norm, public):
        return 1.0 if norm == math.inf else 2 ** (1 / norm)


SAID = {"bounds": {"x": (0, 3)}, "categories": {"g": ["a", "b", "c"]}, "missing": None}
SUMS = {
    "moments": lambda c: Moments(c["x"], count=True),
    "counts": lambda c: Stack(OneHot(c["g"]), Moments(c["x"], degree=1, count=True)),
    "by": lambda c: OneHot(c["g"]) * Moments(c["x"]),
    "outer": lambda c: OneHot(c["g"]) * Outer([c["x"]], count=True),
}


class Budget:
    """A budget that notes what is paid, and has no end."""

    basic_composition = True

    def __init__(self, epsilon):
        self.epsilon, self.delta, self.paid = Fraction(epsilon), Fraction(0), []

    def pay(self, losses, reserve):
        self.paid += losses


def asked(rows, epsilon, **said):
    """A curator of rows (x, g), and its columns."""
    frame = pd.DataFrame(rows, columns=["x", "g"])
    schema = read_schema(adapt(frame), **{"public": (), "neighbors": "replace_one", **SAID, **said})
    return Curator(Table(adapt(frame), schema), Budget(epsilon)), schema.columns


@pytest.mark.statistical
def test_sums_follow_the_law():
    """Of a sum, the largest distance of a coordinate from the truth is a gamma variable, in any of them alike."""
    rows = [(1.0, "a"), (3.0, "b"), (0.5, "b")]
    truth, found = np.array([1, 2, 0, 1.5, 1.5]), []  # the last of (1 + y)/2 = x/3 and (1 - y)/2
    with seeded_noise(5):
        for _ in range(500):
            curator, c = asked(rows, 1)
            measured = curator.sum(Stack(OneHot(c["g"]), Moments(c["x"], degree=1, count=True)), noise="cube")
            found.append((measured.values - truth) / measured.scales)
    apart = np.array(found)
    largest, place = abs(apart).max(axis=1), abs(apart).argmax(axis=1)

    size = np.searchsorted(stats.gamma(5).ppf([0.2, 0.4, 0.6, 0.8]), largest)
    side = np.sign(apart[np.arange(500), place]) > 0
    cells = np.bincount(size * 10 + place * 2 + side, minlength=50)
    others = (np.sort(abs(apart), axis=1)[:, :-1] / largest[:, None]).ravel()

    assert measured.noise.sensitivity == pytest.approx(1, rel=1e-9)
    assert measured.scales == pytest.approx(1, rel=1e-9)
    assert stats.chisquare(cells).pvalue > 1e-6
    assert stats.kstest(others, "uniform").pvalue > 1e-6


@pytest.mark.parametrize(
    ("neighbors", "public"), [("replace_one", ()), ("replace_one", ("g",)), ("add_remove", ())]
)
@pytest.mark.parametrize("name", [*SUMS])
def test_sums_of_neighbours_are_within_the_sensitivity(name, public, neighbors):
    """Over all pairs of rows, no coordinate of a sum moves by more than is charged, and one by nearly as much."""
    every = [*itertools.product([0, 0.3, 1.5, 2.9, 3.0], ["a", "b", "c", None])]
    rest = [(1.1, "a"), (2.7, "c")]
    curator, c = asked([*rest, every[0]], 1, public=public, neighbors=neighbors)
    features = SUMS[name](c)
    said = curator.sum(features, noise="cube").noise
    (loss,) = curator._budget.paid

    tables = {row: asked([*rest, row], 1)[0]._table.total(features, said.grid) for row in every}
    without = asked(rest, 1)[0]._table.total(features, said.grid)
    pairs = [(tables[a], tables[b]) for a, b in itertools.combinations(every, 2) if not public or a[1] == b[1]]
    if neighbors == "add_remove":
        pairs = [(tables[row], without) for row in every]
    farthest = max(abs(a - b) for pair in pairs for a, b in zip(*pair, strict=True))

    assert isinstance(loss, Cube)
    assert 0.999 * loss.sensitivity <= farthest <= loss.sensitivity
    assert loss.sensitivity - 1 < math.ldexp(said.sensitivity, said.grid) <= loss.sensitivity


def test_the_grid_has_room_for_the_noise():
    """Many coordinates at a small epsilon take a coarser grid, on which 64 bits hold all of them."""
    crowd = [f"c{i}" for i in range(2_000)]
    curator, c = asked([(1.0, "c7")] * 5, "1/100000000", categories={"g": crowd})

    measured = curator.sum(OneHot(c["g"]), noise="cube")

    assert 64 * 2_001 * math.ldexp(measured.noise.scale, measured.noise.grid) <= 2**62
    assert math.ldexp(measured.noise.scale, measured.noise.grid) >= 2**15
    assert abs(measured.values).max() <= 2_200 * measured.noise.scale
    assert abs(measured.values).max() >= 1_800 * measured.noise.scale


def test_what_the_cube_costs():
    """Values that move together cost what one does; counts move by 1, not 2; what is public is exact and free."""
    curator, c = asked([(1.0, "a")] * 9, 1)
    two = curator.measure(Two(c["x"]), noise="cube", share="1/2").noise.scale
    kinds = [curator.sum(OneHot(c["g"]), noise=noise, share="1/10").noise for noise in ("cube", "laplace")]
    known, c = asked([(1.0, "a"), (2.0, "b")], 1, public=("g",))
    free = [known.sum(features, noise="cube") for features in (OneHot(c["g"]), Count())]

    assert two == pytest.approx(2, rel=1e-6)
    assert [noise.sensitivity for noise in kinds] == pytest.approx([1, 2], rel=1e-9)
    assert [each.values.tolist() for each in free] == [[1, 1, 0], [2]]
    assert known._budget.paid == []


DOC = """Sums with noise of the cube.

Notes
-----
**Privacy.** ε-differential privacy.

References
----------
.. [1] Hardt and Talwar (2010). On the geometry of differential privacy. STOC.
"""
CASE = Case(
    arguments={"column": "x", "by": "g"}, bounds={"x": (0.0, 3.0)}, categories={"g": ["a", "b", "c"]}, epsilon=1
)


@pytest.mark.parametrize("name", ["counts", "by"])
def test_the_audit_of_a_sum(name):
    """In closed form, the loss of the worst neighbours is what is charged, and not less; it is explained so."""

    def cube(curator, column, by):
        return curator.sum(SUMS[name]({"x": column, "g": by}), noise="cube").values

    cube.__doc__ = DOC
    made = dp.mechanism(columns={"column": "numeric", "by": "category"})(cube)
    wanted = {"loss_within_charge", "charge_is_tight", "concludes_from_noise_alone"}

    found = [check.run() for check in check_mechanism(made, [CASE]) if check.name in wanted]

    assert {each.status for each in found} == {"passed"}, [each.detail for each in found]
    known = {"bounds": {"x": (0, 3)}, "categories": {"g": ["a", "b", "c"]}}
    view = dp.protect(
        pd.DataFrame({"x": [1.0], "g": ["a"]}), f"cube of {name}", epsilon=1, ledger="memory:", **known
    )
    assert "K-norm noise of the unit cube of scale " in repr(
        view._question(made, ("x", "g"), {"epsilon": 0.5}).explain()
    )
