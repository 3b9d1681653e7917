"""The target of a question, and its price."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dfprivacy._ledger.accounts import JointAccount
from dfprivacy._privacy.filters import NUMBER, exact
from dfprivacy.errors import ArgumentError, quoted

if TYPE_CHECKING:
    from dfprivacy._ledger.accounts import Account
    from dfprivacy._measure.evaluate import Table

__all__ = ["Target", "is_rest", "parse_delta", "positive"]

EPSILON_MIN = Fraction(1, 10**9)  # below it a release says nothing
EPSILON_MAX = 10**6  # beyond it there is no privacy left to speak of, and noise finer than the grid
_BITS_MAX = 1000  # of an exact price's denominator


def positive(argument: str, value: object) -> Fraction:
    """Read a positive price exactly, or raise an `ArgumentError`."""
    number = exact(value, argument)
    if not EPSILON_MIN <= number <= EPSILON_MAX:
        raise ArgumentError(
            f"{argument}{quoted(value)} must be above zero, from {float(EPSILON_MIN):g} to {EPSILON_MAX}.",
            "Typical: between 0.01 and 10.",
        )
    return _written_out(argument, number)


def parse_delta(argument: str, value: object) -> Fraction:
    """Read a delta exactly, or raise an `ArgumentError`."""
    number = exact(value, argument)
    if not 0 <= number < 1:
        raise ArgumentError(
            f"{argument}{quoted(value)} must be at least 0 and below 1.", "Typical: far below one over the rows."
        )
    return _written_out(argument, number)


def _written_out(argument: str, number: Fraction) -> Fraction:
    if number.denominator.bit_length() > _BITS_MAX:  # the ledger keeps prices as text
        raise ArgumentError(f"{argument} has too many digits.", NUMBER)
    return number


@dataclass(frozen=True)
class Target:
    """The target of questions: rows, the public facts about them, and the account that pays.

    A question of two views is asked of the union of their tables, and their accounts both pay.
    """

    account: Account
    table: Table
    default_epsilon: Fraction | None = None
    second: Account | None = None

    @property
    def payer(self) -> Account | JointAccount:
        """The account, or the two accounts, that pay."""
        return self.account if self.second is None else JointAccount(self.account, self.second)

    def price(self, epsilon: object, delta: object, *, takes_delta: bool) -> tuple[Fraction, Fraction]:
        """Read the price of a call: ``"rest"`` (0 if nothing is left), the default, or a number."""
        if epsilon is None:
            if self.default_epsilon is None:
                raise ArgumentError(
                    "No epsilon was given.",
                    "Say what the answer may cost, epsilon=0.1, or protect the table with a default_epsilon.",
                )
            price = self.default_epsilon
        elif is_rest(epsilon):
            price = self._rest(delta if takes_delta else 0)
        else:
            price = positive("epsilon", epsilon)
        if not takes_delta:
            return price, Fraction(0)
        if delta is None:
            return price, self.payer.default_delta(price)
        slackness = parse_delta("delta", delta)
        if slackness and not self.payer.default_delta(Fraction(EPSILON_MAX)):
            raise ArgumentError(
                f"delta{quoted(delta)} cannot be paid: the budget has no delta.",
                "The table's holder gives it one when its name is first used, protect(..., epsilon=1, delta=1e-6). "
                "Else ask what takes none.",
            )
        return price, slackness

    def _rest(self, delta: object) -> Fraction:
        """Read what is left: for Laplace noise, or on a sample for whatever is asked there, at its delta."""
        if self.table.sample is None:
            return self.payer.largest()
        slackness = (
            self.payer.default_delta(Fraction(EPSILON_MAX)) if delta is None else parse_delta("delta", delta)
        )
        if not slackness:
            return self.payer.largest("pure")
        return self.payer.largest("approximate", *(() if delta is None else (slackness,)))


def is_rest(epsilon: object) -> bool:
    return isinstance(epsilon, str) and epsilon == "rest"
