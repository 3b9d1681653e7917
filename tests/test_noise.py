"""Noise on the grid: scales, the grid, the samplers."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from dfprivacy._privacy.calibrate import ROWS_MAX, SUM_MAX, gaussian_scale, grid_exponent, laplace_scale
from dfprivacy._privacy.conversions import gaussian_delta, gaussian_unit_scale
from dfprivacy._privacy.filters import exact
from dfprivacy._privacy.losses import Gaussian, Laplace
from dfprivacy._privacy.samplers import HIDDEN, OpenDPSampler, _measurement, sampler, use
from dfprivacy.errors import ArgumentError
from dfprivacy.testing import Seeded, seeded_noise

ONE_IN_TEN_MILLION = 1e-7

# --- scales ----------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("epsilon", "delta"), [(1, "1e-6"), (0.05, "1e-8"), (3, "1e-9")])
def test_gaussian_scale_is_the_analytic_one_on_a_fine_grid(epsilon, delta):
    """On a fine grid the corrections for discreteness vanish."""
    steps = 2**40
    scale = gaussian_scale(steps**2, 1000, exact(epsilon), exact(delta))

    assert scale / steps == pytest.approx(gaussian_unit_scale(epsilon, float(delta)), rel=1e-10)


def test_gaussian_scale_pays_for_discreteness():
    """On a coarse grid the noise covers the correction of the variance and the extra delta."""
    scale = gaussian_scale(20**2, 1, exact(1), exact("1e-6"))
    without = scale * (1 - 1e-6)

    assert scale > 20 * gaussian_unit_scale(1, 1e-6)
    assert gaussian_delta(20**2, scale, 1, exact(1)) <= exact("1e-6")
    assert gaussian_delta(20**2, without, 1, exact(1)) > exact("1e-6")


def test_grids_too_coarse_for_gaussian_noise_are_refused():
    """Where discreteness would take half of delta, the way out is a finer grid."""
    with pytest.raises(ArgumentError, match=r"too coarse for delta 1e-06.*finer grid"):
        gaussian_scale(1, 1, exact(1), exact("1e-6"))
    with pytest.raises(ArgumentError, match="too coarse"):
        gaussian_scale(1, 1, exact(20), exact("0.5"))


@pytest.mark.parametrize(
    "scale",
    [
        lambda: laplace_scale(0, exact(1)),
        lambda: laplace_scale(1, exact(0)),
        lambda: laplace_scale(1, Fraction(1, 10**400)),
        lambda: laplace_scale(1, Fraction(10**400)),
        lambda: gaussian_scale(0, 1, exact(1), exact("1e-6")),
        lambda: gaussian_scale(2**40, 0, exact(1), exact("1e-6")),
        lambda: gaussian_scale(2**40, 1, exact(0), exact("1e-6")),
        lambda: gaussian_scale(2**40, 1, exact(501), exact("1e-6")),
        lambda: gaussian_scale(2**40, 1, exact(1), exact(0)),
        lambda: gaussian_scale(2**40, 1, exact(1), exact(1)),
    ],
)
def test_there_is_always_some_noise(scale):
    """No request yields a scale that is zero or infinite: it is refused, or the least positive float."""
    try:
        found = scale()
    except ArgumentError:
        return
    assert 0 < found < math.inf


# --- the grid --------------------------------------------------------------------------------------------


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


def test_the_grid_of_unit_features():
    """Batches of 2^14 rows of norm one are summed on a grid of 2^-39; with a private size, of 2^-30."""
    public = grid_exponent(radius=1.0, batch_rows=2**14, rows_max=10**5, noise=1.0)
    private = grid_exponent(radius=1.0, batch_rows=2**14, rows_max=ROWS_MAX, noise=1.0)

    assert (public, private) == (39, 30)


def test_huge_features_have_a_coarse_grid():
    """Squares of salaries are summed on a grid whose step is more than one unit."""
    assert grid_exponent(radius=1e12, batch_rows=2**14, rows_max=10**6, noise=1e12) < 0


@pytest.mark.parametrize("radius", [5e-324, 1e-300, 1e-12, 1.0, 1e300])
def test_the_grid_knows_no_units(radius):
    """In whatever units features come, a batch of the longest is summed in 2^52 to 2^53 steps."""
    k = grid_exponent(radius=radius, batch_rows=2**14, rows_max=10**5, noise=radius)

    assert 2**52 < Fraction(radius) * 2**14 * Fraction(2) ** k <= 2**53


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("argument", ["radius", "noise"])
def test_a_grid_needs_positive_numbers(argument, wrong):
    """What is not positive and finite is refused."""
    arguments = {"radius": 1.0, "batch_rows": 100, "rows_max": 100, "noise": 1.0} | {argument: wrong}
    with pytest.raises(ArgumentError, match="must be finite and above 0"):
        grid_exponent(**arguments)


def test_noise_too_small_for_exact_sums_is_refused():
    """Less noise than exact arithmetic can carry is refused, not given."""
    with pytest.raises(ArgumentError, match="too small"):
        grid_exponent(radius=1.0, batch_rows=2**14, rows_max=ROWS_MAX, noise=1e-9)


# --- what OpenDP does, which the sampler relies on or guards against ---------------------------------------


@pytest.mark.parametrize(("kind", "loss"), [("laplace", 0.5882352941176471), ("gaussian", 0.17301038062283738)])
def test_opendp_agrees_on_what_its_noise_guarantees(kind, loss):
    """OpenDP's own privacy maps at scale 1.7 are sensitivity over scale, and rho."""
    assert _measurement(kind, 1.7).map(1) == loss


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_scale_of_zero_would_release_the_data(kind):
    """OpenDP accepts a scale of 0 and returns the data; the sampler refuses it."""
    values = np.array([3, -5, 8], dtype=np.int64)

    assert list(_measurement(kind, 0.0)(values)) == [3, -5, 8]
    with pytest.raises(ArgumentError, match="protects nobody"):
        getattr(OpenDPSampler(), kind)(values, 0.0)


def seeded():
    with seeded_noise(11) as drawn:
        return drawn


SAMPLERS = {"OpenDP": OpenDPSampler, "seeded": seeded}


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("which", SAMPLERS)
class TestEverySampler:
    """What holds for all samplers."""

    @pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
    def test_refuses_scales_that_protect_nobody(self, which, kind, scale):
        """Scales that are not finite and positive are refused."""
        with pytest.raises(ArgumentError, match="protects nobody"):
            getattr(SAMPLERS[which](), kind)(np.zeros(2, dtype=np.int64), scale)

    @pytest.mark.parametrize(
        "values",
        [np.array([1.5, math.nan]), np.array([1], dtype=np.int32), np.array([1], dtype=">i8"), [1, 2]],
        ids=["float", "int32", "big-endian", "list"],
    )
    def test_refuses_what_is_not_a_grid_sum(self, which, kind, values):
        """Anything but an array of native 64-bit integers is refused."""
        with pytest.raises(ArgumentError, match="64-bit integers"):
            getattr(SAMPLERS[which](), kind)(values, 2.0)

    @pytest.mark.parametrize("value", [SUM_MAX + 1, -SUM_MAX - 1, -(2**63)])
    def test_refuses_sums_without_room_for_noise(self, which, kind, value):
        """Sums beyond the limit are refused, without quoting them."""
        with pytest.raises(ArgumentError, match="clamped") as caught:
            getattr(SAMPLERS[which](), kind)(np.array([value], dtype=np.int64), 2.0)
        assert str(value) not in str(caught.value)

    def test_keeps_shape_and_input(self, which, kind):
        """The noisy values have the input's shape, and the input is left alone."""
        values = np.full((3, 4), SUM_MAX, dtype=np.int64)[:, ::2]
        noisy = getattr(SAMPLERS[which](), kind)(values, 2.0**40)

        assert ((3, 2), np.dtype(np.int64)) == (noisy.shape, noisy.dtype)
        assert (values == SUM_MAX).all()
        assert len(set(noisy.ravel())) == 6

    def test_takes_an_empty_vector(self, which, kind):
        """Nothing in, nothing out."""
        assert getattr(SAMPLERS[which](), kind)(np.zeros(0, dtype=np.int64), 2.0).shape == (0,)

    @pytest.mark.statistical
    def test_draws_the_continuous_law_on_a_fine_grid(self, which, kind):
        """At 2^40 steps the noise is Laplace or Gaussian to any test, and its neighbours are independent."""
        scale = 2.0**40
        values = getattr(SAMPLERS[which](), kind)(np.zeros(40_000, dtype=np.int64), scale) / scale
        law = stats.laplace if kind == "laplace" else stats.norm

        assert stats.kstest(values, law.cdf).pvalue > ONE_IN_TEN_MILLION
        assert stats.spearmanr(values[:-1], values[1:]).pvalue > ONE_IN_TEN_MILLION


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("which", "kind", "scale"),
    [
        ("OpenDP", "laplace", 1.7),
        ("OpenDP", "laplace", 12.0),
        ("OpenDP", "gaussian", 1.7),
        ("OpenDP", "gaussian", 12.0),
        ("seeded", "laplace", 1.7),
        ("seeded", "gaussian", 12.0),  # a rounded normal, so only at larger scales
    ],
)
def test_samplers_draw_the_exact_law(which, kind, scale):
    """Chi-square goodness of fit against the exact probabilities, up to the far tails."""
    n, reach = 100_000, int(60 * scale)
    k = np.arange(-reach, reach + 1)
    weight = np.exp(-np.abs(k) / scale if kind == "laplace" else -(k**2) / (2 * scale**2))
    expected = n * weight / weight.sum()
    values = getattr(SAMPLERS[which](), kind)(np.full(n, 1000, dtype=np.int64), scale) - 1000
    counts = np.bincount(values + reach, minlength=2 * reach + 1)
    common = expected >= 20
    observed = np.append(counts[common], counts[~common].sum())
    fitted = np.append(expected[common], expected[~common].sum())

    assert len(counts) == 2 * reach + 1
    assert stats.chisquare(observed, fitted).pvalue > ONE_IN_TEN_MILLION


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
@pytest.mark.parametrize("made", [OpenDPSampler, lambda: Seeded(1)], ids=["OpenDP", "seeded"])
def test_what_is_shown_step_by_step_has_the_law_of_all(made):
    """Noise drawn where it is shown, and noise drawn everywhere and shown in part, are exact."""
    n, scale, reach = 60_000, 1.7, 40
    k = np.arange(-reach, reach + 1)
    weight = np.exp(-np.abs(k) / scale)
    law = weight / weight.sum()

    noisy = made().revealed(np.zeros((n, 3), dtype=np.int64), scale, first_then)

    up = noisy[:, 0] > 0
    assert (noisy[up, 2] == HIDDEN).all()
    assert (noisy[~up, 1] == HIDDEN).all()
    second = np.where(up, noisy[:, 1], noisy[:, 2])
    expected = n * np.outer(law, law)
    observed = np.zeros_like(expected)
    np.add.at(observed, (noisy[:, 0] + reach, second + reach), 1)
    common = expected >= 20
    pvalue = stats.chisquare(
        np.append(observed[common], observed[~common].sum()), np.append(expected[common], expected[~common].sum())
    ).pvalue
    assert pvalue > ONE_IN_TEN_MILLION


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


def test_opendp_saturates_instead_of_wrapping():
    """Noise beyond 64 bits stops at the largest integer: it does not come back with the other sign."""
    values = OpenDPSampler().laplace(np.full(500, SUM_MAX, dtype=np.int64), 2.0**62)

    assert values.max() == 2**63 - 1


def test_measurements_are_kept_within_bounds():
    """The constructed mechanisms that are kept for reuse do not grow without bound."""
    for i in range(100):
        OpenDPSampler().laplace(np.zeros(1, dtype=np.int64), 10.0 + i)

    assert _measurement.cache_info().currsize == _measurement.cache_info().maxsize == 64


# --- which sampler is in force -----------------------------------------------------------------------------


def test_the_sampler_in_force_is_opendp():
    """Unless a test replaces it, noise comes from OpenDP and is private."""
    assert sampler().private
    assert sampler().name.startswith("OpenDP 0.")
    assert sampler().name.endswith("from the operating system's secure source")


def test_test_noise_says_that_it_is_not_private():
    """Inside `seeded_noise` the sampler says it protects nobody; afterwards OpenDP is back, whatever happened."""

    def fail():
        with seeded_noise(1) as drawn:
            seen.append((sampler() is drawn, drawn.private, "NOT PRIVATE" in drawn.name))
            raise RuntimeError("boom")

    seen = []
    with pytest.raises(RuntimeError, match="boom"):
        fail()

    assert seen == [(True, False, True)]
    assert sampler().private


def test_seeded_noise_is_reproducible():
    """The same seed gives the same noise, another seed another."""

    def draw(seed):
        with seeded_noise(seed):
            return sampler().laplace(np.zeros(9, dtype=np.int64), 1e6).tolist()

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_a_replacement_does_not_reach_other_threads():
    """Another thread keeps drawing private noise while a test replaces the sampler in its own."""
    seen = []
    with seeded_noise(1) as drawn, use(drawn):
        other = threading.Thread(target=lambda: seen.append(sampler().private))
        other.start()
        other.join()

    assert seen == [True]


def test_importing_the_module_does_not_import_opendp():
    """OpenDP, half a second to import, is imported when the first noise is drawn."""
    code = "import dfprivacy._privacy.samplers, sys; print('opendp' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "False\n"
