"""Payment for one call."""

from __future__ import annotations

import uuid
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dfprivacy._measure.kept import Kept
from dfprivacy._plugins.loader import registry
from dfprivacy.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dfprivacy._call.target import Target
    from dfprivacy._ledger.accounts import Account, JointAccount
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.release import MeasurementRecord
    from dfprivacy.schema import Column

__all__ = ["CallPayer", "Unpaid", "delta_of", "epsilon_of"]


class CallPayer:
    """The payer of one call: every loss goes to the account, durably, before it is incurred.

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
        self.kept = Kept(account, registry("").origins, self.id, fresh=fresh)
        self._account = account
        self._mechanism = mechanism

    @property
    def basic_composition(self) -> bool:
        """Whether epsilons simply add up: on the account, and always within a sample."""
        return self._account.basic_composition or self._price is not None

    def pay(self, losses: Sequence[PrivacyLoss], reserve: Sequence[PrivacyLoss]) -> None:
        """Charge losses at once, or none of them and raise; on a sample, what all of them together may cost."""
        together = [*self.losses, *losses]
        if epsilon_of(together) > self.epsilon or delta_of(together) > self.delta:
            raise PluginError(
                f"Mechanism {self._mechanism!r} measures one group otherwise than another, "
                "and all groups together more than the call may cost.",
                "Tell its authors: shares must not depend on the group.",
            )
        charge = losses if self._price is None else [] if self.charged else [self._price]
        if charge:
            reserve = reserve if self._price is None else ()
            self._account.charge(*charge, call=self.id, mechanism=self._mechanism, reserve=reserve)
        self.losses += losses
        self.charged += charge

    def keep(self, question: str | None = None, release: dict[str, Any] | None = None) -> None:
        """Keep what was measured, with the release if there is one."""
        if release is not None or self.kept.new:
            self._account.keep(
                call=self.id,
                mechanism=self._mechanism,
                question=question,
                release=release,
                measurements=self.kept.new,
            )


class Unpaid:
    """The payer of a plan: nothing is charged."""

    def __init__(self, target: Target, epsilon: Fraction, delta: Fraction) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.basic_composition = target.payer.basic_composition or target.table.sample is not None

    def pay(self, losses: Sequence[PrivacyLoss], reserve: Sequence[PrivacyLoss]) -> None:
        """Charge nothing."""


def epsilon_of(losses: Sequence[PrivacyLoss]) -> Fraction:
    return sum((loss.epsilon for loss in losses), Fraction(0))


def delta_of(losses: Sequence[PrivacyLoss]) -> Fraction:
    return sum((loss.delta for loss in losses), Fraction(0))
