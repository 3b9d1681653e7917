r"""Randomised response among positions on a circle, with probabilities that are exact ratios of integers.

A position on the arc around the true one is p/q times as likely as any other, for integers
:math:`p/q \le e^\varepsilon`, so the chance of any message changes by at most that when its row does, exactly [1]_.

References
----------
.. [1] Kairouz, Oh and Viswanath (2016). Extremal mechanisms for local differential privacy. JMLR 17.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Arc", "check_labels"]

_PLACES_MAX = 1 << 20
_FINEST = 40  # bits of q
_WHOLE = 2**63  # the weights of all places add up to less
_DIGITS = 80


@dataclass(frozen=True)
class Arc:
    """Randomised response on a circle of positions: the law of the reported position, given the true one.

    Attributes
    ----------
    places : int
        Number of places N on the circle.
    reach : int
        Places on either side of the true one that are as likely as it is itself.
    inside, outside : int
        Weights p and q of a place on the arc and of any other.

    Examples
    --------
    >>> arc = Arc.within(Fraction(1), places=2, reach=0)
    >>> round(arc.inside / (arc.inside + arc.outside), 6)
    0.731059
    """

    places: int
    reach: int
    inside: int
    outside: int

    @classmethod
    def within(cls, epsilon: Fraction, *, places: int, reach: int = 0) -> Arc:
        """Construct the law whose ratio of weights, inside to outside, is closest to e^epsilon and not above it.

        Parameters
        ----------
        epsilon : Fraction
            The privacy of one message.
        places : int
            Number of places, from 2 to 2^20.
        reach : int
            Places on either side that are as likely as the true one.

        Returns
        -------
        Arc
            Its ratio falls short of e^epsilon by less than 1e-12 up to epsilon = 20.

        Raises
        ------
        ArgumentError
            If the arc is the whole circle or longer, or the numbers are no such numbers.
        """
        integers = isinstance(places, int) and isinstance(reach, int)
        if not (integers and 2 <= places <= _PLACES_MAX and reach >= 0 and 2 * reach + 1 < places):  # noqa: PLR2004
            raise ArgumentError(
                f"An arc with reach={reach!r} does not fit a circle of {places!r} positions.",
                f"Use 2 to {_PLACES_MAX} positions, and a reach with 2 * reach + 1 < positions.",
            )
        if not epsilon > 0:
            raise ArgumentError(
                "The epsilon of a message is not above zero.", "Use an epsilon of, typically, 0.1 to 10."
            )
        long, rest = 2 * reach + 1, places - 2 * reach - 1
        ratio = _exp_below(epsilon)
        for bits in reversed(range(_FINEST + 1)):
            q = 2**bits
            p = max(q, math.floor(ratio * q))  # for an epsilon of no digits, the ratio below e^epsilon is below 1
            if long * p + rest * q < _WHOLE:
                return cls(places, reach, p // math.gcd(p, q), q // math.gcd(p, q))
        return cls(places, reach, (_WHOLE - 1 - rest) // long, 1)

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of one message: the logarithm of the ratio of the weights, rounded up."""
        exactly = Context(prec=_DIGITS + 20)
        more, less = max(self.inside, self.outside), min(self.inside, self.outside)
        ratio = exactly.subtract(exactly.ln(Decimal(more)), exactly.ln(Decimal(less)))
        return Fraction(ratio) + Fraction(1, 10**_DIGITS)

    @property
    def length(self) -> int:
        """Number of positions on the arc: those within `reach` of the true one."""
        return 2 * self.reach + 1

    @property
    def weight(self) -> int:
        """Sum of the weights of all positions."""
        return self.length * self.inside + (self.places - self.length) * self.outside

    @property
    def resultant(self) -> float:
        """Mean cosine of the angle between reported and true position: 1 if equal, 0 if independent."""
        excess = (self.inside - self.outside) / self.weight
        return excess * math.sin(math.pi * self.length / self.places) / math.sin(math.pi / self.places)

    def sample(self, labels: NDArray[np.int64], chance: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a reported position for each true one, given uniform random integers from 0 to `weight` - 1."""
        on_arc = self.length * self.inside
        beyond = self.length + (chance - on_arc) // self.outside
        offset = np.where(chance < on_arc, chance // self.inside, beyond)
        moved: NDArray[np.int64] = (labels - self.reach + offset) % self.places
        return moved


def check_labels(labels: NDArray[np.int64], arc: Arc) -> None:
    """Raise an error, which shows no label, unless all labels are integers from 0 to `arc.places` - 1."""
    if labels.dtype != np.int64 or (labels.size and (labels.min() < 0 or labels.max() >= arc.places)):
        raise ArgumentError(
            f"Randomised response takes integer labels from 0 to {arc.places - 1} only.", "Clip the labels first."
        )


def _exp_below(epsilon: Fraction) -> Fraction:
    """Return a fraction just below e^epsilon, or just below e^100 if epsilon is larger."""
    floor = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
    below = floor.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    if below > 100:  # noqa: PLR2004 - more than any weights can be apart
        below = Decimal(100)
    return Fraction(floor.exp(below)) * (1 - Fraction(1, 10 ** (_DIGITS - 2)))
