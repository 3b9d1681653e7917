"""Payment of a question: its target (table and accounts), its price, and the payer that charges it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from dfprivacy._ledger.accounts import JointAccount
from dfprivacy._measure.kept_measurements import ResultCache
from dfprivacy._plugins.loader import registry
from dfprivacy._privacy.filters import NUMBER, exact
from dfprivacy.errors import ArgumentError, PluginError, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dfprivacy._ledger.accounts import Account
    from dfprivacy._measure.evaluate import Table
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.release import MeasurementRecord
    from dfprivacy.schema import Column

__all__ = [
    "CallPayer",
    "PlanPayer",
    "Step",
    "Target",
    "is_rest_of_budget",
    "parse_delta",
    "positive_price",
    "total_delta",
    "total_epsilon",
]

Step: TypeAlias = tuple[str, Any]
"""Name of a method that derives a view, such as ``where``, and its argument."""

EPSILON_MIN = Fraction(1, 10**9)  # below it a release says nothing
EPSILON_MAX = 10**6  # beyond it there is no privacy left to speak of, and noise finer than the grid
_BITS_MAX = 1000  # of an exact price's denominator


def positive_price(argument: str, value: object) -> Fraction:
    """Return a positive price as an exact fraction, or raise an `ArgumentError`."""
    number = exact(value, argument)
    if not EPSILON_MIN <= number <= EPSILON_MAX:
        raise ArgumentError(
            f"{argument}{quoted(value)} must be a number from {float(EPSILON_MIN):g} to {EPSILON_MAX}.",
            "Typical values are between 0.01 and 10.",
        )
    return _refuse_many_digits(argument, number)


def parse_delta(argument: str, value: object) -> Fraction:
    """Return a delta as an exact fraction, or raise an `ArgumentError`."""
    number = exact(value, argument)
    if not 0 <= number < 1:
        raise ArgumentError(
            f"{argument}{quoted(value)} must be at least 0 and below 1.",
            "Typical values are far below 1 / (number of rows).",
        )
    return _refuse_many_digits(argument, number)


def _refuse_many_digits(argument: str, number: Fraction) -> Fraction:
    if number.denominator.bit_length() > _BITS_MAX:  # the ledger keeps prices as text
        raise ArgumentError(f"{argument} has too many digits.", NUMBER)
    return number


@dataclass(frozen=True)
class Target:
    """Target of a question: the selected rows, public facts about them, and the account that pays.

    A question of two views is asked of the union of their tables, and their accounts both pay. `steps` are the
    verbs that made the view of the whole table. Where rows are elsewhere, the `question_handler` receives the
    question, and records it in a request or sends it to a server.
    """

    account: Account
    table: Table
    default_epsilon: Fraction | None = None
    second: Account | None = None
    steps: tuple[Step, ...] = ()
    question_handler: Callable[..., Any] | None = field(default=None, compare=False)

    @property
    def served_name(self) -> str:
        """Name of the table on the server that holds it; without a server, its name in this process."""
        return getattr(self.account, "table", "") or self.name

    def with_step(self, table: Table, verb: str, given: object) -> Target:
        """Return the target with a derived table, and record the verb, such as ``where``, that derived it."""
        return replace(self, table=table, steps=(*self.steps, (verb, given)))

    @property
    def payer(self) -> Account | JointAccount:
        """Account that pays, or the joint account of a question about two views."""
        return self.account if self.second is None else JointAccount(self.account, self.second)

    @property
    def name(self) -> str:
        """Title of the table (its name and edition), or the account's name if the table has no title."""
        return self.table.schema.title or self.payer.name

    def price(self, epsilon: object, delta: object, *, takes_delta: bool) -> tuple[Fraction, Fraction]:
        """Return epsilon and delta of a call as fractions; None means the default, "rest" all that is left."""
        if epsilon is None:
            if self.default_epsilon is None:
                raise ArgumentError(
                    "No epsilon was given.",
                    "Pass a price, such as epsilon=0.1, or protect the table with default_epsilon=.",
                )
            price = self.default_epsilon
        elif is_rest_of_budget(epsilon):
            price = self._remaining(delta if takes_delta else 0)
        else:
            price = positive_price("epsilon", epsilon)
        if not takes_delta:
            return price, Fraction(0)
        if delta is None:
            return price, self.payer.default_delta(price)
        slackness = parse_delta("delta", delta)
        if slackness and not self.payer.default_delta(Fraction(EPSILON_MAX)):
            raise ArgumentError(
                f"delta{quoted(delta)} cannot be paid: the budget has no delta.",
                "A delta is set when the table is first protected: protect(..., epsilon=1, delta=1e-6). "
                "With this budget, use methods that need no delta.",
            )
        return price, slackness

    def _remaining(self, delta: object) -> Fraction:
        """Return the largest epsilon that one call can have: with Laplace noise, or, on a sample, any mechanism."""
        if self.table.sample is None:
            return self.payer.largest()
        slackness = (
            self.payer.default_delta(Fraction(EPSILON_MAX)) if delta is None else parse_delta("delta", delta)
        )
        if not slackness:
            return self.payer.largest("pure")
        return self.payer.largest("approximate", *(() if delta is None else (slackness,)))


def is_rest_of_budget(epsilon: object) -> bool:
    return isinstance(epsilon, str) and epsilon == "rest"


class CallPayer:
    """Payer of one call: charges every privacy loss to the account, durably, before it is incurred.

    On a secret sample, epsilon and delta are what the call may lose there; the first loss charges the `price`,
    which is what all of that costs on the table.
    """

    def __init__(
        self,
        account: Account | JointAccount,
        mechanism: str,
        epsilon: Fraction,
        delta: Fraction,
        *,
        fresh: bool = False,
        price: PrivacyLoss | None = None,
    ) -> None:
        self.id = uuid.uuid4().hex
        self.epsilon = epsilon
        self.delta = delta
        self.losses: list[PrivacyLoss] = []
        self.charged: list[PrivacyLoss] = []
        self._price = price
        self.noise: list[MeasurementRecord] = []
        self.looked = False
        self.numbers: set[Column] = set()
        self.kept = ResultCache(account, registry("").origins, self.id, fresh=fresh)
        self._account = account
        self._mechanism = mechanism

    @property
    def basic_composition(self) -> bool:
        """Whether the epsilons of losses are summed: by the account's terms, and always on a secret sample."""
        return self._account.basic_composition or self._price is not None

    def pay(self, losses: Sequence[PrivacyLoss], reserve: Sequence[PrivacyLoss]) -> None:
        """Charge all losses, or raise an error and charge none; on a sample, charge the whole price of the call."""
        together = [*self.losses, *losses]
        if total_epsilon(together) > self.epsilon or total_delta(together) > self.delta:
            raise PluginError(
                f"Mechanism {self._mechanism!r} measures groups with different noise, "
                "so that all groups together cost more than the call's epsilon or delta.",
                "Report this to the authors of the mechanism: shares of the budget must not depend on the group.",
            )
        charge = losses if self._price is None else [] if self.charged else [self._price]
        if charge:
            reserve = reserve if self._price is None else ()
            self._account.charge(*charge, call=self.id, mechanism=self._mechanism, reserve=reserve)
        self.losses += losses
        self.charged += charge

    def keep(self, question: str | None = None, release: dict[str, Any] | None = None) -> None:
        """Store the measurements of the call in the ledger, with the release if there is one."""
        if release is not None or self.kept.new:
            self._account.keep(
                call=self.id,
                mechanism=self._mechanism,
                question=question,
                release=release,
                measurements=self.kept.new,
            )


class PlanPayer:
    """Payer of a plan: has the budget of a call, and charges nothing."""

    def __init__(self, target: Target, epsilon: Fraction, delta: Fraction) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.basic_composition = target.payer.basic_composition or target.table.sample is not None

    def pay(self, losses: Sequence[PrivacyLoss], reserve: Sequence[PrivacyLoss]) -> None:
        """Accept any losses, and charge nothing."""


def total_epsilon(losses: Sequence[PrivacyLoss]) -> Fraction:
    return sum((loss.epsilon for loss in losses), Fraction(0))


def total_delta(losses: Sequence[PrivacyLoss]) -> Fraction:
    return sum((loss.delta for loss in losses), Fraction(0))
