"""The price of a question on a secret sample, given its price on the whole table."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

__all__ = ["on_sample"]

_DIGITS = 80
_PLACES = Decimal(1).scaleb(-24)  # what is left of the result
_ERROR = Decimal(1).scaleb(-60)  # far above what rounding does to a number below 2e6


def on_sample(epsilon: Fraction, share: Fraction) -> Fraction:
    r"""Return the largest epsilon on a sample that costs no more than another one on the table.

    Parameters
    ----------
    epsilon : Fraction
        What the table pays, from 0 to 10⁶.
    share : Fraction
        The probability q that a sample holds any one person, above 0 and at most 1.

    Returns
    -------
    Fraction
        The solution of log(1 + q (exp(·) - 1)) = epsilon, rounded down to 24 decimals.

    Notes
    -----
    A mechanism that is (e, d)-private is :math:`(\log(1 + q (\exp e - 1)), q d)`-private on a secret sample [1]_;
    docs/explanation/sampling.md has the proof.

    References
    ----------
    .. [1] Balle, Barthe and Gaboardi (2018). Privacy amplification by subsampling: tight analyses via couplings and
       divergences. NeurIPS.

    Examples
    --------
    >>> float(on_sample(Fraction(1), Fraction(1, 10)))
    2.90047...
    """
    context = Context(prec=_DIGITS, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
    price = context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    more = context.subtract(context.exp(price), Decimal(1))
    many = context.divide(context.multiply(more, Decimal(share.denominator)), Decimal(share.numerator))
    within = context.subtract(context.ln(context.add(Decimal(1), many)), _ERROR)
    return max(Fraction(0), Fraction(within.quantize(_PLACES, context=context)))
