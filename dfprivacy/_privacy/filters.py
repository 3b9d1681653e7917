"""Privacy filters: running sums of privacy losses, compared with caps.

A *filter* allows releases while a running sum stays under a cap that was fixed before the first release. All
filters here stay valid when the analyst chooses every question, and what to spend on it, after seeing all
earlier answers; docs/explanation/accounting.md has the proofs. A charge depends on the request alone, never
on data, so a refusal reveals nothing.

======  ============================================  ======================================================
Filter  What is added up                              Guarantee
======  ============================================  ======================================================
basic   every epsilon; every delta                    (epsilon, delta)-DP [1]_
gdp     mu^2 of Gaussian DP                           mu-GDP [2]_
rdp     Rényi divergence at one order, fixed at       (alpha, R)-Rényi DP [3]_
        opening
mix     epsilon of pure releases up to epsilon/2;     (epsilon, delta(epsilon/2, mu))-DP: the pure part shifts
        mu^2 of Gaussian releases                     the Gaussian part's loss by epsilon/2 at most
======  ============================================  ======================================================

A *portfolio* allows a release while at least one of the four still holds. Each reserves a share of delta and
charges every release, so the deltas add up to the account's. (Four filters at the full delta each would not
do: two of them, played against each other, already reach 1.97 times delta.)

Sums are exact: charges are rounded up, caps down, to integer multiples of `UNIT`.

References
----------
.. [1] Rogers, Roth, Ullman and Vadhan (2016). Privacy odometers and filters. arXiv:1605.08294.
.. [2] Smith and Thakurta (2022). Fully adaptive composition for Gaussian DP. arXiv:2210.17520.
.. [3] Feldman and Zrnic (2021). Individual privacy accounting via a Rényi filter. arXiv:2008.11193.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf, isfinite, lcm
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Self

from dfprivacy._privacy.calibrate import gaussian_scale, laplace_scale
from dfprivacy._privacy.conversions import (
    EPSILON_MAX,
    SMALLEST,
    best_renyi_order,
    float_below,
    mu_budget,
    renyi_budget,
    rounding_delta,
)
from dfprivacy._privacy.losses import Approximate, Gaussian, Laplace, PrivacyLoss, Pure
from dfprivacy.errors import ArgumentError, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DIGITS", "NUMBER", "UNIT", "Accountant", "Accounting", "Filter", "Spent", "exact"]

DIGITS = 1000
"""Largest number of characters of a number given as text, and its largest decimal exponent."""

NUMBER = "Give a number, or a string such as '0.1' or '1/3'."

UNIT = Fraction(1, 10**18 * lcm(*range(1, 37)))
"""Unit in which charges are summed, 6.9e-33; decimals of 18 places, divided by 1 to 36, are multiples of it."""

Accounting = Literal["basic", "rdp", "gdp", "portfolio"]


def exact(x: object, what: str = "A number") -> Fraction:
    """Return a number as an exact fraction, from which charges and noise are computed.

    Parameters
    ----------
    x : int, float, Fraction, Decimal or str
        Integers, fractions, decimals and strings such as ``"0.1"`` or ``"1/3"`` are taken as they are. A
        float is taken for the decimal of at most ten digits it stands for (0.1 for one tenth, 0.1 + 0.2 for
        three tenths), else cut to fifteen digits. A text of more than `DIGITS` characters, or with a larger
        exponent, is not computed.
    what : str
        What it is, for errors.

    Returns
    -------
    Fraction
        Not necessarily above zero.

    Raises
    ------
    ArgumentError
        If `x` is not a finite number, or has too many digits. A truth value is not a number.

    Notes
    -----
    Ten releases of 0.1 spend exactly 1, and k equal float shares of a total of ten digits never exceed
    it. The guarantee does not rest on how floats are read: the noise is computed from the same fraction.

    Examples
    --------
    >>> 10 * exact(0.1), 3 * exact("1/3"), exact(1 / 3)
    (Fraction(1, 1), Fraction(1, 1), Fraction(333333333333333, 1000000000000000))
    """
    try:
        if isinstance(x, bool):
            pass
        elif isinstance(x, int | Fraction | Decimal | str):
            return _read_exact(x, what)
        elif isinstance(x, Real) and isfinite(x):
            return _float_as_decimal(float(x))
    except ArgumentError:
        raise
    except Exception:  # noqa: BLE001, S110 - whatever a caller's own kind of number raises: it is none
        pass
    raise ArgumentError(f"{what}{quoted(x)} is not a finite number.", NUMBER) from None


def _read_exact(number: int | Fraction | Decimal | str, what: str) -> Fraction:
    """Return an int, Fraction, Decimal or string as a fraction; raise an error if it has too many digits."""
    power = 0
    if isinstance(number, str):
        digits = len(number)
        power = int(number.lower().partition("e")[2] or "0") if digits <= DIGITS else 0
    elif isinstance(number, Decimal):
        digits = len(number.as_tuple().digits)
        power = number.adjusted() if number.is_finite() else 0
    else:
        digits = max(number.numerator.bit_length(), number.denominator.bit_length()) * 3 // 10
    if max(digits, abs(power)) > DIGITS:
        raise ArgumentError(f"{what}{quoted(number)} has too many digits.", NUMBER)
    return Fraction(number)


@lru_cache(maxsize=1024)
def _float_as_decimal(number: float) -> Fraction:
    x = Fraction(number)
    error = abs(x) / 2**50
    nearby = _round_to_digits(x, 10, ROUND_HALF_EVEN)
    return nearby if abs(nearby - x) <= error else _round_to_digits(x - x / 2**50, 15, ROUND_DOWN)


def _round_to_digits(x: Fraction, digits: int, rounding: str) -> Fraction:
    """Round a fraction to `digits` significant decimal digits, independently of the decimal context."""
    context = Context(prec=digits, rounding=rounding)
    return Fraction(context.divide(Decimal(x.numerator), Decimal(x.denominator)))


@dataclass(frozen=True, slots=True)
class Spent:
    """Charges of an account so far: a running sum for each cap, in the order of the accountant's filters.

    Attributes
    ----------
    counts : tuple of int or None
        Whole multiples of `UNIT`. None stands for more than any cap: it stays None for good.
    """

    counts: tuple[int | None, ...]

    def to_list(self) -> list[str | None]:
        """Return the sums as strings in a list, as they are too long for the integers of most databases."""
        return [None if count is None else str(count) for count in self.counts]

    @classmethod
    def from_list(cls, counts: list[str | None]) -> Self:
        """Construct a `Spent` from the result of `to_list`."""
        return cls(tuple(None if count is None else int(count) for count in counts))


@dataclass(frozen=True, slots=True)
class Filter:
    """Privacy filter of an account: one way of summing privacy losses, with a cap on each sum.

    Attributes
    ----------
    name : str
        ``"basic"``, ``"gdp"``, ``"rdp"`` or ``"mix"``.
    delta : Fraction
        Share of the account's delta that is reserved for this filter.
    caps : tuple of int
        What each of its sums may reach, in multiples of `UNIT`.
    alpha : float or None
        Order of the Rényi filter.
    """

    name: str
    delta: Fraction
    caps: tuple[int, ...]
    alpha: float | None = None

    @classmethod
    def open(cls, name: str, epsilon: Fraction, delta: Fraction) -> Self:
        """Construct a filter with caps at which it guarantees (`epsilon`, `delta`)-DP on its own."""
        alpha = None
        caps: tuple[Fraction, ...]
        match name:
            case "basic":
                caps = (epsilon, delta)
            case "gdp":
                caps = (_gaussian_cap(epsilon, delta),)
            case "rdp":
                alpha = best_renyi_order(float_below(epsilon), float_below(delta))
                caps = (Fraction(renyi_budget(float_below(epsilon), float_below(delta), alpha)),)
            case _:
                caps = (epsilon / 2, _gaussian_cap(epsilon / 2, delta))
        return cls(name, delta, tuple(floor(cap / UNIT) for cap in caps), alpha)

    def charge(self, loss: PrivacyLoss) -> tuple[Fraction | None, ...]:
        """Return what a privacy loss adds to each of the filter's sums; None where no finite charge suffices."""
        match self.name:
            case "basic":
                return loss.epsilon, loss.delta
            case "gdp":
                return (loss.mu_squared(),)
            case "rdp" if self.alpha is not None:
                return (loss.renyi(self.alpha),)
            case _ if isinstance(loss, Gaussian):
                return Fraction(0), loss.mu_squared()
            case _:
                return loss.epsilon, Fraction(0)


# Shares of delta; what they leave is the pool, which serves every filter but the basic one.
_SHARES: dict[str, dict[str, Fraction]] = {
    "basic": {"basic": Fraction(1)},
    "gdp": {"gdp": Fraction(4095, 4096)},
    "rdp": {"rdp": Fraction(4095, 4096)},
    "portfolio": {
        "basic": Fraction(511, 1024),
        "gdp": Fraction(1, 4),
        "rdp": Fraction(1, 8),
        "mix": Fraction(1, 8),
    },
}


@dataclass(frozen=True, slots=True)
class Accountant:
    """Privacy accounting of an account: its budget, its filters and their caps, which never change.

    Make one with `Accountant.open`. It holds no running total: that is a `Spent`, kept by the ledger.

    Attributes
    ----------
    accounting : str
        ``"basic"``, ``"gdp"``, ``"rdp"`` or ``"portfolio"``.
    epsilon, delta : Fraction
        The guarantee for everything that is ever released.
    members : tuple of Filter
        The filters. A release is allowed while at least one of them holds.
    pool : Fraction
        Share of delta for events after which a release would not be what the filters other than basic take it
        for: a discrete Gaussian that is not rounded continuous noise, the delta of an `Approximate` loss.

    Notes
    -----
    Why a portfolio is (epsilon, delta)-DP: sums only grow, so at the end of any transcript some filter j held
    throughout; let S_j be the part of the event S where j is the first such. An analyst who stops as soon as
    filter j breaks gives every transcript in S_j the same probability, so
    P(S_j) <= e^epsilon Q(S_j) + delta_j, and the sum over j is the claim. Events of the pool are drawn once,
    whichever filter holds, so their probability is added once.

    Examples
    --------
    >>> from dfprivacy._privacy.losses import Pure
    >>> account = Accountant.open(None, exact(1), exact(0))
    >>> spent = account.after(account.no_charges, Pure(exact(0.1)))
    >>> account.holds(spent), account.largest(spent)
    (True, Fraction(9, 10))
    """

    accounting: Accounting
    epsilon: Fraction
    delta: Fraction
    members: tuple[Filter, ...]
    pool: Fraction

    @classmethod
    def open(cls, accounting: Accounting | None, epsilon: Fraction, delta: Fraction) -> Self:
        """Construct the accountant of a new account, with the caps of its filters.

        Parameters
        ----------
        accounting : {"basic", "rdp", "gdp", "portfolio"} or None
            How releases add up. None stands for ``"basic"`` if delta is 0, else ``"portfolio"``.
        epsilon, delta : Fraction
            The whole budget; see `exact`.

        Raises
        ------
        ArgumentError
            If the budget is no budget, or the accounting needs a delta and there is none.
        """
        if not epsilon > 0 or not 0 <= delta < 1:
            raise ArgumentError(
                f"A budget of epsilon {float(epsilon):g} and delta {float(delta):g} is not valid.",
                "Give an epsilon above 0, and a delta that is 0 or far below 1 / (number of rows).",
            )
        if accounting is None:
            accounting = "basic" if delta == 0 else "portfolio"
        if accounting not in _SHARES:
            raise ArgumentError(
                f"{accounting!r} is not an accounting method.", f"Choose one of {', '.join(map(repr, _SHARES))}."
            )
        if accounting != "basic" and delta == 0:
            raise ArgumentError(
                f"The {accounting!r} accounting needs a delta above 0: it trades a small probability of a "
                "larger loss for many more releases.",
                "Give a delta such as 1e-6, or choose accounting='basic', under which epsilons add up.",
            )
        if accounting != "basic" and not (SMALLEST <= epsilon <= EPSILON_MAX and delta >= SMALLEST):
            raise ArgumentError(
                f"The {accounting!r} accounting cannot compute with epsilon {float(epsilon):g} and delta "
                f"{float(delta):g}.",
                f"Give an epsilon of at most {EPSILON_MAX} and a delta of at least 1e-100, or choose "
                "accounting='basic'.",
            )
        shares = _SHARES[accounting]
        members = tuple(Filter.open(name, epsilon, delta * share) for name, share in shares.items())
        return cls(accounting, epsilon, delta, members, delta - sum(member.delta for member in members))

    @property
    def no_charges(self) -> Spent:
        """Filter sums of an account that has released nothing: zero for each cap."""
        return Spent((0,) * (sum(len(member.caps) for member in self.members) + 1))

    def after(self, spent: Spent, loss: PrivacyLoss) -> Spent:
        """Return the filter sums after `loss` is added to every filter, exhausted or not, and to the pool."""
        charges = [charge for member in self.members for charge in member.charge(loss)]
        charges.append(self._pool_charge(loss))
        return Spent(
            tuple(
                None if count is None or charge is None else count + ceil(charge / UNIT)
                for count, charge in zip(spent.counts, charges, strict=True)
            )
        )

    def _pool_charge(self, loss: PrivacyLoss) -> Fraction | None:
        match loss:
            case Approximate():
                return loss.delta
            case Gaussian():
                if self.epsilon > EPSILON_MAX:  # a basic account, which never looks at its pool
                    return None
                return rounding_delta(loss.dimension, loss.scale, self.epsilon)
            case _:
                return Fraction(0)

    def holds(self, spent: Spent) -> bool:
        """Return whether at least one filter's sums are within its caps."""
        return any(used <= 1 for used in self._used_parts(spent))

    def _used_parts(self, spent: Spent) -> list[Fraction | float]:
        """Return for each filter the largest ratio of a sum to its cap; above 1 if the filter is exhausted."""
        counts = list(spent.counts)
        pool = (counts.pop(), floor(self.pool / UNIT))
        used: list[Fraction | float] = []
        for member in self.members:
            sums = [(counts.pop(0), cap) for cap in member.caps]
            if member.name != "basic":
                sums.append(pool)
            used.append(max(_used_part(count, cap) for count, cap in sums))
        return used

    def fraction_used(self, spent: Spent) -> float:
        """Return the used fraction of the budget, from 0 to 1, in the filter with the most left."""
        return min(1.0, *map(float, self._used_parts(spent)))

    def default_delta(self, epsilon: Fraction) -> Fraction:
        """Return the default delta of a Gaussian release, which is in proportion to its `epsilon`.

        In proportion, out of the first filter's share: so the basic filter runs out of delta no sooner than
        of epsilon. 0 if the account has no delta.
        """
        return floor(self.members[0].delta * epsilon / self.epsilon / UNIT) * UNIT

    def largest(
        self,
        spent: Spent,
        kind: Literal["laplace", "pure", "gaussian", "approximate"] = "laplace",
        delta: Fraction | None = None,
    ) -> Fraction:
        """Return the largest epsilon that one more release of a kind can have.

        Parameters
        ----------
        spent : Spent
            The total so far.
        kind : {"laplace", "pure", "gaussian", "approximate"}
            The noise of the release, on a fine grid: at least 2^15 steps, as sums of the core are; or any other
            release, without a delta or with one.
        delta : Fraction, optional
            Delta of a release that has one; `default_delta` unless given.

        Returns
        -------
        Fraction
            What is left to the last digit where the basic filter decides; else eight significant digits,
            rounded down by a millionth or 3e-10 at most. 0 if not even a billionth of the budget is left.
        """

        def is_admitted(epsilon: Fraction) -> bool:
            loss = self._example_loss(kind, epsilon, delta)
            return loss is not None and self.holds(self.after(spent, loss))

        rest = self._basic_remaining(spent)
        best = rest if rest > 0 and is_admitted(rest) else Fraction(0)
        low, high = best, max(best * (1 + Fraction(1, 2**20)), self.epsilon / 10**9)
        while is_admitted(high) and high < EPSILON_MAX:
            low, high = high, 2 * high
        if low == best:
            return best
        while high - low > low / 2**30:
            middle = (low + high) / 2
            low, high = (middle, high) if is_admitted(middle) else (low, middle)
        # Laplace noise of 2^15 steps is charged as 2^-32 more than the much finer noise of the example, and
        # Gaussian noise a relative 2^-32 more.
        return max(best, _round_to_digits(low - max(Fraction(1, 2**32), low / 2**24), 8, ROUND_DOWN))

    def _basic_remaining(self, spent: Spent) -> Fraction:
        """Return the epsilon that is left in the basic filter; 0 for an account without a basic filter."""
        count = spent.counts[0]
        if self.members[0].name != "basic" or count is None:
            return Fraction(0)
        return (self.members[0].caps[0] - count) * UNIT

    def _example_loss(self, kind: str, epsilon: Fraction, delta: Fraction | None) -> PrivacyLoss | None:
        """Return the loss of a release with `epsilon` on a very fine grid; None if no such release is possible."""
        steps = 2**40
        if kind == "laplace":
            return Laplace(steps, laplace_scale(steps, epsilon), epsilon)
        if kind == "pure":
            return Pure(epsilon) if SMALLEST <= epsilon <= EPSILON_MAX else None
        delta = self.default_delta(epsilon) if delta is None else delta
        if not (SMALLEST <= epsilon <= EPSILON_MAX and SMALLEST <= delta < 1):
            return None
        if kind == "approximate":
            return Approximate(epsilon, delta)
        try:
            scale = gaussian_scale(steps**2, 1, epsilon, delta)
        except ArgumentError:  # epsilon is so large that no grid is fine enough for delta
            return None
        return Gaussian(steps**2, scale, 1, epsilon, delta)

    def describe(self) -> str:
        """Return the account's privacy guarantee as a sentence."""
        delta = f" and delta = {float(self.delta):g}" if self.delta else ""
        kind = "(epsilon, delta)-" if self.delta else "epsilon-"
        return (
            f"All releases of this account together are {kind}differentially private with epsilon = "
            f"{float(self.epsilon):g}{delta}, whatever is asked, even if each question is chosen after "
            f"seeing the earlier answers (accounting: {self.accounting})."
        )

    def to_dict(self) -> dict[str, object]:
        """Return the budget, the filters and their caps as plain JSON values, for the ledger."""
        return {
            "accounting": self.accounting,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "pool": str(self.pool),
            "members": [
                {
                    "name": member.name,
                    "delta": str(member.delta),
                    "caps": [str(cap) for cap in member.caps],
                    "alpha": None if member.alpha is None else member.alpha.hex(),
                }
                for member in self.members
            ],
        }

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Self:
        """Construct an accountant from the result of `to_dict`, with the caps that were set at its opening."""
        members = tuple(
            Filter(
                name=member["name"],
                delta=Fraction(member["delta"]),
                caps=tuple(int(cap) for cap in member["caps"]),
                alpha=None if member["alpha"] is None else float.fromhex(member["alpha"]),
            )
            for member in d["members"]
        )
        return cls(d["accounting"], Fraction(d["epsilon"]), Fraction(d["delta"]), members, Fraction(d["pool"]))


def _gaussian_cap(epsilon: Fraction, delta: Fraction) -> Fraction:
    return Fraction(mu_budget(float_below(epsilon), float_below(delta))) ** 2


def _used_part(count: int | None, cap: int) -> Fraction | float:
    if count is None:
        return inf
    if cap <= 0:
        return inf if count > 0 else Fraction(0)
    return Fraction(count, cap)
