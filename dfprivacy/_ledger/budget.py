"""Budgets and lists of releases, as people see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, overload

from dfprivacy._ledger.history import PAGE, Wanted, calls_by
from dfprivacy.errors import ArgumentError, trimmed
from dfprivacy.markup import Grid, escaped
from dfprivacy.release import Release, Value
from dfprivacy.tidy import frame_of

if TYPE_CHECKING:
    import datetime as dt

    from dfprivacy._ledger.accounts import Account, Answer
    from dfprivacy._ledger.analysts import Share
    from dfprivacy._ledger.history import CallRecord
    from dfprivacy._ledger.ledger import Ledger

__all__ = ["Budget", "Releases", "questions_grid"]

_BAR = 20
_WIDE = 1000  # characters: a question is shown in full


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
        self.spent = account.charged()

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
            "shares": {share.analyst: _of_share(share) for share in account.shares()},
        }

    def __repr__(self) -> str:
        filled = round(_BAR * self._used)
        total = f"epsilon {float(self.epsilon):g}" + (f", delta {float(self.delta):g}" if self.delta else "")
        rest = f"{float(self.remaining):g} left" if self.remaining else "nothing is left"
        bar = "█" * filled + "░" * (_BAR - filled)
        return f"budget {bar} spent {float(self.spent):g} of {total}; {rest}"

    def _repr_html_(self) -> str:
        account = self._account
        meter = f'<meter min="0" max="1" value="{self._used:.4f}" aria-label="budget used"></meter>'
        total = f"epsilon {float(self.epsilon):g}" + (f", delta {float(self.delta):g}" if self.delta else "")
        facts = [
            ("spent", f"epsilon {float(self.spent):g} of {total}"),
            ("left", f"epsilon {float(self.remaining):g}" if self.remaining else "nothing"),
            ("accounting", account.accounting),
            ("neighbors", account.relation),
        ]
        return f"{Grid((), facts).html(f'Budget of {account.name!r}')}{meter} {escaped(f'{self._used:.0%} used')}"


class Releases(Sequence[Release]):
    """Every answer an account has paid for, oldest first, across processes.

    What another version released, in a class that is no longer as it was, is a `Value` with its numbers by name.
    """

    def __init__(self, account: Account, wanted: Wanted | None = None, library: str = "pandas") -> None:
        self._account = account
        self._wanted = wanted or Wanted()
        self._library = library

    def filter(
        self,
        *,
        method: str | None = None,
        analyst: str | None = None,
        since: str | dt.date | None = None,
        until: str | dt.date | None = None,
    ) -> Self:
        """Keep the releases of a method, an analyst, or a time.

        Parameters
        ----------
        method : str, optional
            The method's name.
        analyst : str, optional
            Who asked.
        since, until : str or date, optional
            A day, of which all counts, or a moment; in UTC unless it says otherwise.

        Returns
        -------
        Releases
            Those of all that is said.

        Raises
        ------
        ArgumentError
            If a date is none.

        Examples
        --------
        >>> import pandas as pd, dfprivacy as dp
        >>> df = pd.DataFrame({"age": [31, 45, 28, 52] * 50})
        >>> view = dp.protect(df, "asked often", epsilon=1, bounds={"age": (18, 90)}, ledger="memory:")
        >>> answers = view.mean("age", epsilon=0.25), view.ttest("age", popmean=30, epsilon=0.25)
        >>> len(view.releases.filter(method="ttest", since="2026-01-01")), len(view.releases)
        (1, 2)
        """
        given = {"method": method, "analyst": analyst, "since": since, "until": until}
        new: dict[str, Any] = {name: each for name, each in given.items() if each is not None}
        return type(self)(self._account, replace(self._wanted, **new), self._library)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return what was asked, by whom and at what price, as plain JSON values; prices as exact strings."""
        return [each.to_dict() for each in calls_by(self._account, self._page(0, len(self)))]

    @trimmed
    def to_frame(self, library: str | None = None) -> Any:
        """Return a table of what was asked: one row for each release, oldest first.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            Whose table to make; default: the library's that holds the table that was asked.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            The columns ``asked`` (when), ``by``, ``method``, ``question``, ``epsilon`` and ``delta``.
        """
        with self._account.ledger.decoding():
            rows = [
                {
                    "asked": each.at.isoformat(sep=" ", timespec="seconds"),
                    "by": each.analyst,
                    "method": each.method,
                    "question": each.brief,
                    "epsilon": float(each.epsilon),
                    "delta": float(each.delta),
                }
                for each in calls_by(self._account, self._page(0, len(self)))
            ]
        return frame_of(rows, self._library if library is None else library)

    def _page(self, start: int, stop: int) -> list[Answer]:
        """Read some answers by their places, oldest first."""
        count = len(self)
        stop = min(stop, count)
        return self._account.page(self._wanted, count - stop, stop - start)[::-1]

    @overload
    def __getitem__(self, index: int) -> Release: ...
    @overload
    def __getitem__(self, index: slice) -> list[Release]: ...
    def __getitem__(self, index: int | slice) -> Release | list[Release]:
        places = range(len(self))[index]
        if isinstance(places, int):
            return _read(self._page(places, places + 1)[0])
        if not places:
            return []
        first = min(places)
        page = self._page(first, max(places) + 1)
        return [_read(page[at - first]) for at in places]

    def __len__(self) -> int:
        return self._account.count("answers", self._wanted)

    def __iter__(self) -> Iterator[Release]:
        for start in range(0, len(self), PAGE):
            yield from map(_read, self._page(start, start + PAGE))

    def __repr__(self) -> str:
        heading, grid = self._shown()
        return "\n  ".join([heading, *(grid.lines(_WIDE) if grid.rows else ())])

    def _repr_html_(self) -> str:
        heading, grid = self._shown()
        return grid.html(heading)

    def _shown(self) -> tuple[str, Grid]:
        """Write how many there are, and a table of the last."""
        count = len(self)
        heading = f"{count:,} release{'' if count == 1 else 's'}"
        last = calls_by(self._account, self._page(max(0, count - PAGE), count))
        heading += f", of which the last {PAGE}" if count > PAGE else ""
        return heading, questions_grid(last, self._account.ledger)


def questions_grid(calls: Sequence[CallRecord], ledger: Ledger) -> Grid:
    """Make a table of what was asked, as it was typed."""
    with ledger.decoding():
        rows = [
            (
                each.at.isoformat(sep=" ", timespec="seconds"),
                each.analyst or "?",
                each.brief,
                _price(each),
            )
            for each in calls
        ]
    return Grid(("asked", "by", "question", "price"), rows)


def _price(call: CallRecord) -> str:
    price = f"ε = {float(call.epsilon):g}" + (f", δ = {float(call.delta):.3g}" if call.delta else "")
    price += f", {call.reused} measurement{'s' * (call.reused > 1)} reused" if call.reused else ""
    return price if call.answered else f"{price}, not answered"


def _of_share(share: Share) -> dict[str, str]:
    remaining = share.accountant.largest(share.spent)
    return {"epsilon": str(share.epsilon), "delta": str(share.accountant.delta), "remaining": str(remaining)}


def _read(answer: Answer) -> Release:
    """Convert a stored answer to a release."""
    try:
        return Release.from_dict(answer.release)
    except ArgumentError:
        numbers = {name: value for name, value in answer.release.items() if name not in {"type", "privacy"}}
        plain = Value(value=None).to_dict()
        return Release.from_dict({**plain, "value": numbers, "privacy": answer.release.get("privacy")})
