"""Two accounts that pay for the same releases, both or neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dfprivacy.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

    from dfprivacy._ledger.accounts import Account, Answer
    from dfprivacy._ledger.measurements import KeptMeasurement
    from dfprivacy._privacy.losses import PrivacyLoss

__all__ = ["JointAccount"]


@dataclass(frozen=True)
class JointAccount:
    """The accounts of two data sets that are asked together.

    What is released is charged to both, in one transaction of the ledger that holds them: a person is in one of the
    data sets, and neighbouring pairs of data sets differ in that one. The answer is kept under both; the first
    account finds it again, for the question names the second.

    Parameters
    ----------
    first, second : Account
        Two accounts of one ledger.

    Raises
    ------
    ArgumentError
        If they are the same, or in different ledgers, which no transaction could charge together.
    """

    first: Account
    second: Account

    def __post_init__(self) -> None:
        if self.first.ledger.where != self.second.ledger.where:
            raise ArgumentError(
                f"The accounts {self.first.name!r} and {self.second.name!r} are in two ledgers, "
                f"{self.first.ledger.where} and {self.second.ledger.where}, which cannot be charged together.",
                "Protect both data sets with the same ledger=.",
            )
        if self.first.name == self.second.name:
            raise ArgumentError(
                f"Both views are of the data set {self.first.name!r}.",
                "Compare two groups of one view by a column: by=.",
            )

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.first.name} and {self.second.name}"

    @property
    def basic_composition(self) -> bool:
        """Whether epsilons simply add up on both."""
        return self.first.basic_composition and self.second.basic_composition

    @property
    def keeps_measurements(self) -> bool:
        """Whether the ledger of both keeps what was measured."""
        return self.first.keeps_measurements

    def largest(self, *kind: Any) -> Fraction:
        """Largest epsilon that both can pay now."""
        return min(self.first.largest(*kind), self.second.largest(*kind))

    def default_delta(self, epsilon: Fraction) -> Fraction:
        """Return the smaller of the two deltas in proportion."""
        return min(self.first.default_delta(epsilon), self.second.default_delta(epsilon))

    def charge(self, *losses: PrivacyLoss, call: str, mechanism: str, reserve: Sequence[PrivacyLoss] = ()) -> int:
        """Charge losses to both, or to neither; see `Account.charge`."""
        return self.first.charge(*losses, call=call, mechanism=mechanism, reserve=reserve, also=[self.second])

    def answer(self, *questions: str) -> Answer | None:
        """Return the newest answer to the first of some questions that has one, or None."""
        return self.first.answer(*questions)

    def measurements(self, keys: Sequence[str], *, private: bool) -> dict[tuple[str, str], list[KeptMeasurement]]:
        """Return what is kept of measurements of both; a description names them, so the first account knows."""
        return self.first.measurements(keys, private=private)

    def steps(self, kept: KeptMeasurement) -> NDArray[np.int64]:
        """Return the noisy values of a measurement."""
        return self.first.steps(kept)

    def keep(self, **what: Any) -> None:
        """Keep an answer, and what it was concluded from, under both; see `Account.keep`."""
        self.first.keep(**what, also=[self.second])
