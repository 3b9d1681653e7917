"""The public grids on which values become whole numbers, so that sums are exact and noise is discrete."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite

from dfprivacy.errors import ArgumentError

__all__ = ["ROWS_MAX", "SUM_MAX", "cube_exponent", "exact_exponent", "grid_exponent"]

ROWS_MAX = 2**32
"""The number of rows a grid is made for when the true number is private."""

SUM_MAX = 2**62
"""Largest absolute value of a sum, in grid steps; callers clamp to it, which leaves room for the noise."""

_FLOAT_EXACT = 2**53  # float64 holds every integer up to here
_NOISE_MIN = 2**15  # grid steps: below, discrete and continuous noise differ by more than 1e-13 of delta


def grid_exponent(*, radius: float, batch_rows: int, rows_max: int, noise: float) -> int:
    """Exponent k of the grid, whose step is 2^-k.

    The finest grid on which sums are exact, whatever the features' units. All arguments are public.

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
            f"There is no grid for radius {radius:g}, {rows_max} rows in batches of {batch_rows}, "
            f"and noise {noise:g}.",
            "All four must be finite and above 0.",
        )
    upper, lower = Fraction(radius).as_integer_ratio()
    sums = _floor_log2(_FLOAT_EXACT * lower, batch_rows * upper), _floor_log2(SUM_MAX * lower, rows_max * upper)
    k = min(sums)
    upper, lower = Fraction(noise).as_integer_ratio()
    if upper << max(k, 0) < _NOISE_MIN * lower << max(-k, 0):
        raise ArgumentError(
            f"Noise of scale {noise:g} is too small beside features of norm {radius:g} for exact sums of up "
            f"to {rows_max} rows.",
            "Ask for a smaller epsilon, give tighter bounds, or sum fewer rows at a time.",
        )
    return k


def exact_exponent(radius: float, batch_rows: int) -> int:
    """Exponent k of the finest grid, of steps 2^-k, on which the sum of a batch of rows is exact in float64.

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
    upper, lower = Fraction(radius).as_integer_ratio()
    return _floor_log2(_FLOAT_EXACT * lower, batch_rows * upper)


def cube_exponent(dimension: int, noise: float) -> int:
    """Exponent k of the finest grid, of steps 2^-k, on which noise of the cube fits into 64 bits.

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
    upper, lower = Fraction(noise).as_integer_ratio()
    return _floor_log2(SUM_MAX * lower, 64 * (dimension + 1) * upper)


def _floor_log2(upper: int, lower: int) -> int:
    """Largest k for which 2^k is at most a quotient of whole numbers: fractions would take longer."""
    k = upper.bit_length() - lower.bit_length()
    return k if lower << max(k, 0) <= upper << max(-k, 0) else k - 1
