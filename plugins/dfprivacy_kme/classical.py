"""The noise of the reference: a sensitivity of 2, and the classical calibration of Gaussian noise."""

from __future__ import annotations

import math

import scipy

from dfprivacy import ArgumentError
from dfprivacy.statistics import gaussian_scale

__all__ = ["classical_scale", "part_of_the_price"]

_MOVES = 2.0  # by which the reference says that a row moves the sum
_LEAST = 1e-9  # part of a price
_MOST = 1.0  # epsilon for which the classical calibration is proved


def classical_scale(epsilon: float, delta: float) -> float:
    r"""Give the standard deviation :math:`\sqrt{2 \ln(1.25/\delta)}/\varepsilon`, for a sensitivity of 1.

    It is proved for an epsilon below 1 only, and too small for many above: see docs/papers/balog2018.md.
    """
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def part_of_the_price(epsilon: float, delta: float, sensitivity: float) -> float:
    """Tell what part of a price buys the noise that the reference adds for all of it.

    Parameters
    ----------
    epsilon, delta : float
        The price.
    sensitivity : float
        How far one row moves the sum in L2, in truth.

    Returns
    -------
    float
        The part, of epsilon and of delta.

    Raises
    ------
    ArgumentError
        If the calibration is not proved there.
    """
    if not delta:
        raise ArgumentError('calibration="classical" is of Gaussian noise.', "Pay a delta above 0.")
    if epsilon > _MOST:
        raise ArgumentError(
            f"The classical calibration is proved for an epsilon up to 1, and {epsilon:g} was asked.",
            'Use calibration="analytic", which is right for all, and less noise.',
        )
    noise = _MOVES * classical_scale(epsilon, delta)

    def surplus(part: float) -> float:
        return sensitivity * gaussian_scale(part * epsilon, part * delta) - noise

    return 1.0 if surplus(1.0) >= 0 else float(scipy.optimize.brentq(surplus, _LEAST, 1.0, xtol=1e-15))
