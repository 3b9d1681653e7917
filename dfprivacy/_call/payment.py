"""What pays for one call: its budget, and what each group of it takes from that."""

from __future__ import annotations

import uuid
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dfprivacy._call.kept import Kept
from dfprivacy._privacy.losses import Cube
from dfprivacy.errors import PluginError

if TYPE_CHECKING:
    from collections import defaultdict
    from collections.abc import Sequence

    from dfprivacy._call.target import Target
    from dfprivacy._ledger.accounts import Account
    from dfprivacy._ledger.joint import JointAccount
    from dfprivacy._privacy.losses import PrivacyLoss
    from dfprivacy.release import MeasurementRecord
    from dfprivacy.schema import Column

__all__ = ["CallPayer", "GroupPayer", "Unpaid", "delta_of", "epsilon_of"]


class CallPayer:
    """What pays for one call: every loss goes to the account, durably, before it is incurred.

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
        many: bool = False,
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
        self.kept = Kept(account, self.id, fresh=fresh, many=many)
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

    def spare(self, losses: Sequence[PrivacyLoss]) -> None:
        """Pay nothing for what was paid before."""

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


class GroupPayer:
    """What pays for one group of a call by group.

    What one group has paid for its i-th measurement covers the same loss of the others' i-th: the loss is that of
    all groups' sums together, because the curator takes the sensitivity of them all (`Table.sensitivity`).
    """

    def __init__(self, call: CallPayer, paid: defaultdict[int, list[PrivacyLoss]]) -> None:
        self.epsilon = call.epsilon
        self.delta = call.delta
        self._call = call
        self.basic_composition = call.basic_composition
        self._paid = paid
        self._next = 0

    def pay(self, losses: Sequence[PrivacyLoss], reserve: Sequence[PrivacyLoss]) -> None:
        """Charge what no other group has paid."""
        for loss in losses:
            paid = self._paid[self._next]
            # Groups that measure the same have the same object, which is told sooner than equal fractions.
            if not any(loss is each or _priced(loss) == _priced(each) for each in paid):
                self._call.pay([loss], reserve)
                paid.append(loss)
            self._next += 1

    def spare(self, losses: Sequence[PrivacyLoss]) -> None:
        """Count losses that another measurement has paid for: this group's next one is that of the others still."""
        self._next += len(losses)


class Unpaid:
    """What pays for a plan: nothing. It notes what the ledger spares."""

    def __init__(self, target: Target, epsilon: Fraction, delta: Fraction) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.basic_composition = target.payer.basic_composition or target.table.sample is not None
        self.spared = Fraction(0)

    def pay(self, losses: Sequence[PrivacyLoss], reserve: Sequence[PrivacyLoss]) -> None:
        """Charge nothing."""

    def spare(self, losses: Sequence[PrivacyLoss]) -> None:
        """Note what need not be charged."""
        self.spared += epsilon_of(losses)


def _priced(loss: PrivacyLoss) -> object:
    """Give what a loss is priced by: noise of the cube by its epsilon alone, whatever the steps of its grid."""
    return (loss.kind, loss.epsilon) if isinstance(loss, Cube) else loss


def epsilon_of(losses: Sequence[PrivacyLoss]) -> Fraction:
    return sum((loss.epsilon for loss in losses), Fraction(0))


def delta_of(losses: Sequence[PrivacyLoss]) -> Fraction:
    return sum((loss.delta for loss in losses), Fraction(0))
