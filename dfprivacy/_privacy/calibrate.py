"""Calibration of discrete noise: its scale, and the grid on which values are rounded, from public numbers only.

Values are rounded to multiples of the step of a public grid, so that sums are exact and noise is discrete.

References
----------
.. [1] Balle and Wang (2018). Improving the Gaussian mechanism for differential privacy. arXiv:1805.06530.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, erfc, exp, inf, isfinite, log, log1p, sqrt
from statistics import NormalDist

from dfprivacy._privacy.conversions import (
    EPSILON_MAX,
    SCALE_MIN,
    SMALLEST,
    float_above,
    float_below,
    gaussian_delta,
    mu_budget,
    pure_mu,
    rounding_delta,
)
from dfprivacy.errors import ArgumentError

__all__ = [
    "FALSE_KEYS",
    "ROWS_MAX",
    "SUM_MAX",
    "SURVEY_GRID",
    "bounded_range_epsilon",
    "check_delta",
    "cube_exponent",
    "discovery_threshold",
    "exact_exponent",
    "gaussian_discovery",
    "gaussian_scale",
    "grid_exponent",
    "laplace_scale",
    "sparse_threshold",
]

_UP = 1 + 1e-12
_NORMAL = NormalDist()
_FARTHEST = 30.0  # standard deviations, beyond which a tail is no float
FALSE_KEYS = 0.05
"""Largest mean number of keys of a known domain that an answer shows although they occur in no row."""
SURVEY_GRID = 24
"""Counts of a survey are multiples of 2 to the minus this, so that discrete noise is as good as continuous."""
ROWS_MAX = 2**32
"""Number of rows for which a grid is computed if the true number is private."""

SUM_MAX = 2**62
"""Largest absolute value of a sum, in grid steps; callers clamp to it, which leaves room for the noise."""

_FLOAT_EXACT = 2**53  # float64 holds every integer up to here
_NOISE_MIN = 2**15  # grid steps: below, discrete and continuous noise differ by more than 1e-13 of delta


def grid_exponent(*, radius: float, batch_rows: int, rows_max: int, noise: float) -> int:
    """Return the exponent k of the finest grid, of step 2^-k, on which sums of features are exact.

    All arguments are public.

    Parameters
    ----------
    radius : float
        Largest norm of a row's features, in their own units.
    batch_rows : int
        Rows that are summed in float64 before the sums are turned into integers.
    rows_max : int
        Number of rows, or `ROWS_MAX` if that is private.
    noise : float
        Scale of the noise (b of the Laplace, sigma of the Gaussian) in the features' own units.

    Returns
    -------
    int
        Negative for features so large that a step is more than one unit; above 1023, where 2^k is no float, for
        features as small: `numpy.ldexp` moves numbers to the grid.

    Raises
    ------
    ArgumentError
        If an argument is not positive and finite, or if no grid is both coarse enough for exact sums and fine
        enough for the noise.

    Notes
    -----
    The largest k with

    1. ``batch_rows * radius * 2**k <= 2**53``: float64 sums of a batch are exact;
    2. ``rows_max * radius * 2**k <= 2**62``: so is the int64 sum of the batches;
    3. ``noise * 2**k >= 2**15``: discrete Gaussian noise is as good as continuous noise.

    Rounding adds an error of standard deviation ``sqrt(n / 12) * 2**-k``, less than a thousandth of the
    noise for epsilon up to 100 and n up to 2^30.

    Examples
    --------
    >>> grid_exponent(radius=1.0, batch_rows=2**14, rows_max=10_000, noise=2.0)
    39
    """
    if not all(isfinite(value) and value > 0 for value in (radius, batch_rows, rows_max, noise)):
        raise ArgumentError(
            f"No grid can be computed for radius {radius:g}, {rows_max} rows in batches of {batch_rows}, "
            f"and noise of scale {noise:g}.",
            "Give finite numbers above 0.",
        )
    k = min(exact_exponent(radius, batch_rows), _largest_exponent(SUM_MAX, radius, rows_max))
    upper, lower = Fraction(noise).as_integer_ratio()
    if upper << max(k, 0) < _NOISE_MIN * lower << max(-k, 0):
        raise ArgumentError(
            f"Noise of scale {noise:g} is too small beside features of norm {radius:g} for exact sums of up "
            f"to {rows_max} rows.",
            "Ask for a smaller epsilon, give tighter bounds, or sum fewer rows at a time.",
        )
    return k


def exact_exponent(radius: float, batch_rows: int) -> int:
    """Return the exponent k of the finest grid, of step 2^-k, on which a batch's sum is exact in float64.

    Parameters
    ----------
    radius : float
        Largest absolute value of a coordinate, positive and finite.
    batch_rows : int
        Rows that are summed in float64.

    Returns
    -------
    int
        The largest k with ``batch_rows * radius * 2**k <= 2**53``.

    Examples
    --------
    >>> exact_exponent(1.0, 2**14)
    39
    """
    return _largest_exponent(_FLOAT_EXACT, radius, batch_rows)


def cube_exponent(dimension: int, noise: float) -> int:
    """Return the exponent k of the finest grid, of step 2^-k, on which K-norm noise of the cube fits into 64 bits.

    Parameters
    ----------
    dimension : int
        Number of coordinates d.
    noise : float
        Its scale b in the values' own units, positive and finite.

    Returns
    -------
    int
        The largest k with ``64 * (dimension + 1) * noise * 2**k <= 2**62``.

    Notes
    -----
    The largest coordinate is at most r, about a gamma variable of shape d+1 and scale b. It exceeds 64 (d+1) b with
    a probability below :math:`(64 e^{-63})^{d+1} < 10^{-25}`; then the answer is useless, but no less private.

    Examples
    --------
    >>> cube_exponent(1, 1.0)
    55
    """
    return _largest_exponent(SUM_MAX, noise, 64 * (dimension + 1))


def _largest_exponent(most: int, number: float, times: int) -> int:
    """Return the largest k with ``times * number * 2**k <= most``, by integer arithmetic."""
    upper, lower = number.as_integer_ratio()
    upper, lower = times * upper, most * lower
    k = lower.bit_length() - upper.bit_length()
    return k if upper << max(k, 0) <= lower << max(-k, 0) else k - 1


def discovery_threshold(scale: float, delta: Fraction) -> int:
    r"""Return the threshold that the noisy count of a key with one row reaches with probability at most delta.

    Parameters
    ----------
    scale : float
        Scale b of the discrete Laplace noise on whole counts.
    delta : Fraction
        Largest probability of showing it.

    Returns
    -------
    int
        The smallest T of at least 2 with :math:`P(1 + X \ge T) = q^{T-1} / (1+q) \le \delta`, :math:`q = e^{-1/b}`;
        one more where rounding could decide.

    Examples
    --------
    >>> discovery_threshold(2.0, Fraction(1, 10**6))
    28
    """
    most = -log(float_below(delta)) - log1p(exp(-1 / scale))
    return 1 + max(1, ceil(scale * (most * _UP + 1e-12)))


def sparse_threshold(scale: float, size: int, expected: float = FALSE_KEYS) -> int:
    r"""Return the threshold that, on average, at most `expected` keys without rows reach through noise.

    Privacy does not depend on it, so long as it follows from public numbers.

    Parameters
    ----------
    scale : float
        Scale b of the discrete Laplace noise on whole counts.
    size : int
        How many keys there are in the domain.
    expected : float
        How many may be shown on average that no row holds, at most.

    Returns
    -------
    int
        The smallest T of at least 1 with :math:`size \cdot q^T / (1+q) \le expected`, :math:`q = e^{-1/b}`; one
        more where rounding could decide.

    Examples
    --------
    >>> sparse_threshold(2.0, 10**5)
    29
    """
    most = log(size) - log(expected) - log1p(exp(-1 / scale))
    return max(1, ceil(scale * (most * _UP + 1e-12)))


def gaussian_discovery(moved: int, own: int, epsilon: Fraction, delta: Fraction) -> tuple[float, int]:
    r"""Return the scale of Gaussian noise and the threshold for counts of keys, where a row may have several keys.

    Parameters
    ----------
    moved : int
        Most counts that one row moves, each by 1.
    own : int
        Most keys that one row can hold alone.
    epsilon, delta : Fraction
        Privacy loss of the release.

    Returns
    -------
    scale : float
        Sigma of discrete Gaussian noise, in steps of 2 to the minus `SURVEY_GRID` rows.
    threshold : int
        The smallest count T of at least 2, noise included, from which on a key is shown.

    Raises
    ------
    ArgumentError
        If delta is not below epsilon, or `gaussian_scale` refuses them.

    Notes
    -----
    Half of delta is for the counts of keys that both tables have, at :math:`\varepsilon - \delta \le \varepsilon +
    \ln(1 - \delta/2)`; half for keys that one table has alone: :math:`own \cdot P(X \ge T-1) \le \delta/2`, where
    the tail of discrete noise from m steps on is below that of continuous noise from m - 1 on.
    docs/explanation/statistics.md has the proof.
    """
    half = delta / 2
    if not delta < epsilon:
        raise ArgumentError(
            f"delta {float(delta):g} is not below epsilon {float(epsilon):g}.",
            "Give a delta far below 1 / (number of rows).",
        )
    scale = gaussian_scale(moved << 2 * SURVEY_GRID, moved, epsilon - delta, half)
    tail = float_below(half / own)
    z = -_NORMAL.inv_cdf(tail) if tail < 1 / 2 else 0.0
    while own * erfc(z / sqrt(2)) / 2 * _UP > float_below(half):
        z += 1e-9 * (1 + z)
    return scale, 1 + max(1, ceil((z * scale * _UP + 1) / 2**SURVEY_GRID))


def laplace_scale(sensitivity: int, epsilon: Fraction) -> float:
    """Return the scale of discrete Laplace noise, in grid steps.

    Parameters
    ----------
    sensitivity : int
        L1 sensitivity, in grid steps, at least 1.
    epsilon : Fraction
        Privacy loss of the release.

    Returns
    -------
    float
        The float b next above ``sensitivity / epsilon``: the claim epsilon holds exactly, not up to rounding.

    Raises
    ------
    ArgumentError
        If there is no finite positive scale.

    Examples
    --------
    >>> laplace_scale(3, Fraction(1, 2))
    6.0
    """
    if sensitivity < 1 or epsilon <= 0:
        raise ArgumentError(
            f"There is no Laplace noise for sensitivity {sensitivity} and epsilon {float(epsilon):g}.",
            "Give a sensitivity of at least one grid step and an epsilon above 0.",
        )
    try:
        scale = float_above(sensitivity / epsilon)
    except OverflowError:
        scale = inf
    return _checked_scale(scale)


@lru_cache(maxsize=256)
def bounded_range_epsilon(mu_squared: Fraction) -> Fraction:
    """Return almost the largest epsilon of an exponential mechanism charged at most `mu_squared` in GDP.

    Parameters
    ----------
    mu_squared : Fraction
        The charge.

    Returns
    -------
    Fraction
        The range of its loss.

    Examples
    --------
    >>> round(float(bounded_range_epsilon(Fraction(1, 100))), 5)
    0.1596
    """
    half = min(sqrt(float_below(mu_squared)) / 2, _FARTHEST)
    epsilon, less = 2 * log(erfc(-half / sqrt(2)) / erfc(half / sqrt(2))), 2.0**-50
    while Fraction(pure_mu(epsilon / 2)) ** 2 > mu_squared:  # by the rounding of the charge
        epsilon, less = epsilon * (1 - less), 2 * less
    return Fraction(epsilon)


def check_delta(delta: Fraction | float) -> None:
    """Raise an error unless delta is above zero, as Gaussian noise needs it to be."""
    if not delta > 0:
        raise ArgumentError(
            "Gaussian noise needs a delta above zero.",
            "Protect the table with delta=, for example delta=1e-6, or use a method with Laplace noise.",
        )


def gaussian_scale(squared_sensitivity: int, dimension: int, epsilon: Fraction, delta: Fraction) -> float:
    """Return the scale of discrete Gaussian noise, in grid steps.

    Parameters
    ----------
    squared_sensitivity : int
        Squared L2 sensitivity, in squared grid steps, at least 1.
    dimension : int
        Number of coordinates that get noise.
    epsilon, delta : Fraction
        Privacy loss of the release.

    Returns
    -------
    float
        Sigma such that the discrete noise is (`epsilon`, `delta`)-DP.

    Raises
    ------
    ArgumentError
        If epsilon or delta is out of range, or the grid is so coarse that the difference between discrete and
        continuous noise would take more than half of delta. From sigma = 2^15 steps on, which
        `grid_exponent` guarantees, that difference is below 1e-13 for a million coordinates.

    Notes
    -----
    The analytic Gaussian mechanism [1]_ at delta less `rounding_delta`, with the variance enlarged by 1/11.
    The margin, 1.5e-11 unless epsilon is tiny, lets another machine's mathematical library confirm the claim.
    """
    if (
        squared_sensitivity < 1
        or dimension < 1
        or not SMALLEST <= epsilon <= EPSILON_MAX
        or not SMALLEST <= delta < 1
    ):
        raise ArgumentError(
            f"There is no Gaussian noise for squared sensitivity {squared_sensitivity}, "
            f"dimension {dimension}, epsilon {float(epsilon):g} and delta {float(delta):g}.",
            "Give a squared sensitivity and a dimension of at least 1, an epsilon above 0 and at most "
            f"{EPSILON_MAX}, and a delta above 0 and below 1.",
        )
    first = _discrete_scale(squared_sensitivity, mu_budget(float_below(epsilon), float_below(delta)))
    # Less delta means more noise, so what rounding costs at the first scale covers its cost at the second.
    lost = rounding_delta(dimension, first, epsilon) if first >= SCALE_MIN else delta
    if 2 * lost > delta:
        raise ArgumentError(
            f"Gaussian noise of {first:.3g} grid steps is too coarse for delta {float(delta):g}.",
            "Use a finer grid, a larger delta, or Laplace noise.",
        )
    scale = _discrete_scale(squared_sensitivity, mu_budget(float_below(epsilon), float_below(delta - lost)))
    margin = 2.0**-36
    while gaussian_delta(squared_sensitivity, scale * (1 + margin), dimension, epsilon) > delta:
        margin *= 2
    return _checked_scale(scale * (1 + margin))


def _discrete_scale(squared_sensitivity: int, mu: float) -> float:
    """Return the scale of discrete Gaussian noise that is as private as continuous Gaussian noise with `mu`."""
    return sqrt(squared_sensitivity / Fraction(mu) ** 2 + Fraction(1, 11))


def _checked_scale(scale: float) -> float:
    if not (isfinite(scale) and scale > 0):
        raise ArgumentError(
            "No finite noise scale is large enough for so small an epsilon.",
            "Use a larger epsilon, or a coarser grid.",
        )
    return scale
