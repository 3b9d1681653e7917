"""How far sums of Laplace noise reach."""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, pdtr


def tail(t: float, count: int) -> float:
    """Probability that `count` independent Laplace variables of scale 1 add up to more than t ≥ 0.

    Notes
    -----
    The sum is A - B, two gamma variables with `count` steps each. A > t + B says that a Poisson process makes fewer
    than `count` steps until t + B: a Poisson number until t and, B being random, a negative binomial number after.

    Examples
    --------
    >>> round(tail(2.0, 1), 4), round(tail(2.0, 2), 4)  # exp(-t) / 2 for one, (2 + t) exp(-t) / 4 for two
    (0.0677, 0.1353)
    """
    after = np.arange(count)
    ways = gammaln(count + after) - gammaln(count) - gammaln(after + 1)
    return float(np.exp(ways - (count + after) * math.log(2)) @ pdtr(count - 1 - after, t))


def reach(probability: float, count: int) -> float:
    """Return the t that `count` independent Laplace variables of scale 1 exceed with this probability.

    Examples
    --------
    >>> round(reach(0.025, 1), 4), round(reach(0.025, 64), 4)
    (2.9957, 22.2113)
    """
    if probability >= 1 / 2:
        return 0.0
    farther = 2 * (math.log(1 / probability) + count * math.log(4 / 3))  # Chernoff's bound at 1/2
    return float(brentq(lambda t: tail(t, count) - probability, 0.0, farther))
