"""Budgets, calls and releases of an account, for display."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, overload

from dfprivacy._ledger.calls import CallRecord, CallSelection
from dfprivacy._privacy.filters import UNIT
from dfprivacy.errors import ArgumentError, trimmed
from dfprivacy.markup import Grid, escaped
from dfprivacy.release import Release, Value
from dfprivacy.tidy import csv_of, frame_of

if TYPE_CHECKING:
    import datetime as dt

    from dfprivacy._ledger.accounts import Account
    from dfprivacy._ledger.calls import KeptAnswer
    from dfprivacy._ledger.ledger import Ledger
    from dfprivacy._ledger.store import Store

__all__ = [
    "PAGE",
    "Budget",
    "Releases",
    "calls_as_csv",
    "ledger_as_dict",
    "questions_grid",
]

PAGE = 50
"""Number of calls or answers that are read, or shown, at once."""

_BAR = 20
_WIDE = 1000  # characters: a question is shown in full


class Budget:
    """Budget of an account at one moment: the total, the part spent and the part left.

    Attributes
    ----------
    epsilon, delta : Fraction
        The whole budget.
    remaining : Fraction
        The largest epsilon that one question with Laplace noise can have.
    spent : Fraction
        The sum of the epsilons charged so far. With a delta, it may exceed `epsilon`: `remaining` decides.
    """

    def __init__(self, account: Account) -> None:
        spent = account.spent()
        self._account = account
        self._used = account.accountant.fraction_used(spent)
        self._spent = spent
        self.epsilon = account.epsilon
        self.delta = account.delta
        self.remaining = account.accountant.largest(spent)
        self.spent = account.total_charged()

    def to_dict(self) -> dict[str, Any]:
        """Return the budget as plain JSON values, with epsilons as exact strings."""
        account = self._account
        return {
            "account": account.name,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "accounting": account.accounting,
            "neighbors": account.neighbors,
            "tables": [
                {"name": each.name, "edition": each.edition, **each.terms_by_argument, "size": each.size}
                for each in account.tables()
            ],
            "opened": account.opened.isoformat(timespec="seconds"),
            "spent": str(self.spent),
            "remaining": str(self.remaining),
            "used": self._used,
            "shares": {
                each.analyst: {
                    "epsilon": str(each.epsilon),
                    "delta": str(each.accountant.delta),
                    "remaining": str(each.remaining),
                }
                for each in account.shares()
            },
        }

    def _facts(self) -> list[tuple[str, str]]:
        """Return what was spent and is left of epsilon and delta; they add up in basic accounting alone."""
        spent, epsilon, left = (f"{float(each):g}" for each in (self.spent, self.epsilon, self.remaining))
        if self._account.accounting != "basic":
            told = f"{spent} charged in sum, budget {epsilon}, {left} left for one question"
            return [("epsilon", told), ("delta", f"{float(self.delta):g} for all questions")]
        _, delta, *_ = self._spent.counts
        used = f"{float((delta or 0) * UNIT):g} of {float(self.delta):g} spent"
        return [("epsilon", f"{spent} of {epsilon} spent, {left} left"), *[("delta", used)] * bool(self.delta)]

    def __repr__(self) -> str:
        filled = round(_BAR * self._used)
        told = "; ".join(f"{name}: {text}" for name, text in self._facts())
        return f"budget {'█' * filled}{'░' * (_BAR - filled)} {told}"

    def _repr_html_(self) -> str:
        facts = [
            *self._facts(),
            ("accounting", self._account.accounting),
            ("neighbors", self._account.neighbors),
            *(("table", str(each)) for each in self._account.tables()),
        ]
        meter = f'<meter min="0" max="1" value="{self._used:.4f}" aria-label="budget used"></meter>'
        table = Grid((), facts).html(f"Budget of {self._account.name!r}")
        return f"{table}{meter} {escaped(f'{self._used:.0%} used')}"


class Releases(Sequence[Release]):
    """Every answer that an account has paid for, oldest first, across processes.

    A release of another version, whose class has changed since, is a `Value` with its numbers by name.
    """

    def __init__(self, account: Account, wanted: CallSelection | None = None, library: str = "pandas") -> None:
        self._account = account
        self._wanted = wanted or CallSelection()
        self._library = library

    def filter(
        self,
        *,
        method: str | None = None,
        analyst: str | None = None,
        since: str | dt.date | None = None,
        until: str | dt.date | None = None,
    ) -> Self:
        """Return the releases of a method, of an analyst, or of a period.

        Parameters
        ----------
        method : str, optional
            The method's name.
        analyst : str, optional
            The analyst who asked.
        since, until : str or date, optional
            A day, which is included, or a time; in UTC unless it has a time zone.

        Returns
        -------
        Releases
            The releases that meet all of the given conditions.

        Raises
        ------
        ArgumentError
            If `since` or `until` is not a date.

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
        """Return questions, askers and prices as plain JSON values; prices as exact strings."""
        return [each.to_dict() for each in self._account.calls(self._wanted, answered=True)]

    @trimmed
    def to_frame(self, library: str | None = None) -> Any:
        """Return a dataframe of the questions: one row for each release, oldest first.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            The library of the dataframe; default: the library of the protected table.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            The columns ``asked`` (when), ``by``, ``method``, ``question``, ``epsilon`` and ``delta``.
        """
        with self._account.ledger.reporting_damage():
            rows = [
                {
                    "asked": each.at.isoformat(sep=" ", timespec="seconds"),
                    "by": each.analyst,
                    "method": each.method,
                    "question": each.brief,
                    "epsilon": float(each.epsilon),
                    "delta": float(each.delta),
                }
                for each in self._account.calls(self._wanted, answered=True)
            ]
        return frame_of(rows, self._library if library is None else library)

    def _answers_between(self, start: int, stop: int) -> list[KeptAnswer]:
        """Return the kept answers at positions `start` to `stop` - 1, counted from the oldest."""
        count = len(self)
        stop = min(stop, count)
        return self._account.newest_answers(self._wanted, stop - start, count - stop)[::-1]

    @overload
    def __getitem__(self, index: int) -> Release: ...
    @overload
    def __getitem__(self, index: slice) -> list[Release]: ...
    def __getitem__(self, index: int | slice) -> Release | list[Release]:
        places = range(len(self))[index]
        if isinstance(places, int):
            return _release_of_answer(self._answers_between(places, places + 1)[0])
        if not places:
            return []
        first = min(places)
        page = self._answers_between(first, max(places) + 1)
        return [_release_of_answer(page[at - first]) for at in places]

    def __len__(self) -> int:
        return self._account.count("answers", self._wanted)

    def __iter__(self) -> Iterator[Release]:
        for start in range(0, len(self), PAGE):
            yield from map(_release_of_answer, self._answers_between(start, start + PAGE))

    def __repr__(self) -> str:
        heading, grid = self._newest_grid()
        return "\n  ".join([heading, *(grid.lines(_WIDE) if grid.rows else ())])

    def _repr_html_(self) -> str:
        heading, grid = self._newest_grid()
        return grid.html(heading)

    def _newest_grid(self) -> tuple[str, Grid]:
        """Return a heading with the number of releases, and a grid of the newest ones, for display."""
        count = len(self)
        heading = f"{count:,} release{'' if count == 1 else 's'}"
        last = self._account.calls(self._wanted, PAGE, answered=True)
        heading += f", of which the last {PAGE}" if count > PAGE else ""
        return heading, questions_grid(last, self._account.ledger)


def questions_grid(calls: Sequence[CallRecord], ledger: Store) -> Grid:
    """Return a grid with the time, analyst, question and price of each call, for display."""
    with ledger.reporting_damage():
        rows = [
            (each.at.isoformat(sep=" ", timespec="seconds"), each.analyst or "?", each.brief, _price_text(each))
            for each in calls
        ]
    return Grid(("asked", "by", "question", "price"), rows)


def _price_text(call: CallRecord) -> str:
    price = f"ε = {float(call.epsilon):g}" + (f", δ = {float(call.delta):.3g}" if call.delta else "")
    price += f", {call.reused} measurement{'s' * (call.reused > 1)} reused" if call.reused else ""
    return price if call.answered else f"{price}, not answered"


def _release_of_answer(answer: KeptAnswer) -> Release:
    """Convert a stored answer to a release."""
    try:
        return Release.from_dict(answer.release)
    except ArgumentError:
        numbers = {name: value for name, value in answer.release.items() if name not in {"type", "privacy"}}
        plain = Value(value=None).to_dict()
        return Release.from_dict({**plain, "value": numbers, "privacy": answer.release.get("privacy")})


def ledger_as_dict(
    ledger: Ledger, calls: Mapping[Account, Sequence[CallRecord]], problems: Sequence[str]
) -> dict[str, Any]:
    """Return accounts with their calls, and the ledger's events and problems, as plain JSON values."""
    entries = [
        Budget(account).to_dict()
        | {"entries": _charges_as_dicts(each), "questions": [call.to_dict() for call in each]}
        for account, each in calls.items()
    ]
    records = [{**vars(each), "at": each.at.isoformat(timespec="seconds")} for each in ledger.records()]
    return {"ledger": ledger.where, "accounts": entries, "records": records, "problems": problems}


def _charges_as_dicts(calls: Sequence[CallRecord]) -> list[dict[str, Any]]:
    every = sorted(((entry, each.analyst) for each in calls for entry in each.charges), key=lambda pair: pair[0].id)
    return [
        {
            "id": entry.id,
            "at": entry.at.isoformat(timespec="seconds"),
            "mechanism": entry.mechanism,
            "analyst": analyst,
            "call": entry.call,
            "epsilon": str(entry.epsilon),
            "delta": str(entry.delta),
            "loss": entry.loss.to_dict(),
        }
        for entry, analyst in every
    ]


def calls_as_csv(calls: Mapping[Account, Sequence[CallRecord]]) -> str:
    """Return CSV text with one row for each call of each account."""
    names = ("account", "at", "analyst", "method", "asked", "epsilon", "delta", "reused", "answered", "call")
    every = ({"account": account.name, **each.to_dict()} for account, asked in calls.items() for each in asked)
    return csv_of([{name: each[name] for name in names} for each in every], names)
