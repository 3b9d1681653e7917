"""What an account has spent, can still spend, and has released, for people to look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from dfprivacy.errors import ArgumentError
from dfprivacy.markup import Grid, escaped
from dfprivacy.release import Release, Value

if TYPE_CHECKING:
    from dfprivacy._ledger.accounts import Account, Answer

__all__ = ["Budget", "Releases"]

_BAR = 20


class Budget:
    """The state of an account at one moment.

    Attributes
    ----------
    epsilon, delta : Fraction
        The whole budget.
    remaining : Fraction
        The largest epsilon that can be asked at once, with Laplace noise.
    spent : Fraction
        The sum of the epsilons charged so far. With a delta, the account may allow more than `epsilon` in all:
        what counts is `remaining`.
    """

    def __init__(self, account: Account) -> None:
        spent = account.spent()
        self._account = account
        self._used = account.accountant.fraction_used(spent)
        self.epsilon = account.epsilon
        self.delta = account.delta
        self.remaining = account.accountant.largest(spent)
        self.spent = sum((entry.epsilon for entry in account.entries()), Fraction(0))

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain JSON values; epsilons as exact strings."""
        account = self._account
        return {
            "account": account.name,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "accounting": account.accounting,
            "neighbors": account.relation,
            "public": list(account.public),
            "opened": account.opened.isoformat(timespec="seconds"),
            "spent": str(self.spent),
            "remaining": str(self.remaining),
            "used": self._used,
        }

    def __repr__(self) -> str:
        filled = round(_BAR * self._used)
        total = f"epsilon {float(self.epsilon):g}" + (f", delta {float(self.delta):g}" if self.delta else "")
        rest = (
            f"the largest next Laplace release is ε = {float(self.remaining):g}"
            if self.remaining
            else "nothing is left"
        )
        bar = "█" * filled + "░" * (_BAR - filled)
        return f"budget {bar} spent {float(self.spent):g} of {total}; {rest}"

    def _repr_html_(self) -> str:
        account = self._account
        meter = f'<meter min="0" max="1" value="{self._used:.4f}" aria-label="budget used"></meter>'
        total = f"epsilon {float(self.epsilon):g}" + (f", delta {float(self.delta):g}" if self.delta else "")
        facts = [
            ("spent", f"epsilon {float(self.spent):g} of {total}"),
            ("largest next Laplace release", f"epsilon {float(self.remaining):g}" if self.remaining else "none"),
            ("accounting", account.accounting),
            ("neighbors", account.relation),
        ]
        return f"{Grid((), facts).html(f'Budget of {account.name!r}')}{meter} {escaped(f'{self._used:.0%} used')}"


class Releases(Sequence[Release]):
    """Every answer an account has paid for, oldest first, across processes.

    What another version released, in a class that is no longer as it was, is a `Value` with its numbers by name.
    """

    def __init__(self, account: Account) -> None:
        self._answers: list[Answer] = account.answers()
        self._ledger = account.ledger

    @overload
    def __getitem__(self, index: int) -> Release: ...
    @overload
    def __getitem__(self, index: slice) -> list[Release]: ...
    def __getitem__(self, index: int | slice) -> Release | list[Release]:
        if isinstance(index, slice):
            return [_read(answer) for answer in self._answers[index]]
        return _read(self._answers[index])

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Release]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        lines = [f"{len(self)} release{'' if len(self) == 1 else 's'}"]
        return "\n  ".join(lines + [" ".join(row) for row in self._rows()])

    def _rows(self) -> list[tuple[str, str, str]]:
        with self._ledger.decoding():
            return [
                (
                    answer.at.isoformat(sep=" ", timespec="seconds"),
                    answer.mechanism,
                    f"ε = {answer.release['privacy']['epsilon']:g}" if answer.release.get("privacy") else "",
                )
                for answer in self._answers
            ]

    def _repr_html_(self) -> str:
        caption = f"{len(self)} release{'' if len(self) == 1 else 's'}"
        return Grid(("released", "method", "price"), self._rows()).html(caption)


def _read(answer: Answer) -> Release:
    """Make a release of an answer."""
    try:
        return Release.from_dict(answer.release)
    except ArgumentError:
        numbers = {name: value for name, value in answer.release.items() if name not in {"type", "privacy"}}
        plain = Value(value=None).to_dict()
        return Release.from_dict({**plain, "value": numbers, "privacy": answer.release.get("privacy")})
