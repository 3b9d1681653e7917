"""Strict readers of the ledger's rows: a damaged row must not pass for another one.

Every reader here raises an ordinary error (`ValueError`, `TypeError`, `KeyError` and their like) for what dfprivacy
never writes; `Ledger.decoding` says so to people.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from dfprivacy._privacy.filters import Accountant, Spent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dfprivacy._privacy.losses import PrivacyLoss

__all__ = [
    "Record",
    "charged",
    "covers",
    "read_accountant",
    "read_fraction",
    "read_moment",
    "read_public",
    "read_relation",
    "read_spent",
    "read_text",
    "relation_of",
    "written_moment",
    "written_relation",
]

KEY_BYTES = 32
_RELATIONS = ("replace_one", "add_remove")
_FRACTION = re.compile(r"[0-9]{1,4000}(/[0-9]{1,4000})?", re.ASCII)
_SUMS = {"basic": 2, "gdp": 1, "rdp": 1, "mix": 2}


@dataclass(frozen=True)
class Record:
    """An event in the life of a ledger: made, found, forgotten, restored, or a key that belongs to an analyst."""

    at: datetime
    event: str
    subject: str
    value: str


def read_text(value: object, *choices: str) -> str:
    """Read text, one of `choices` if there are any."""
    if not isinstance(value, str) or (choices and value not in choices):
        raise ValueError
    return value


def written_relation(neighbors: str, whose: tuple[str, int, str] | None, key: str) -> str:
    """Write a neighbouring relation: whose all rows may differ, how many count, what of those that name nobody.

    An older dfprivacy, which would take a person's rows for different people's, cannot read it.
    """
    if whose is None:
        return neighbors
    column, max_rows, missing = whose
    return json.dumps(
        {"neighbors": neighbors, "unit": column, "max_rows": max_rows, "unit_missing": missing, "key": key}
    )


def relation_of(neighbors: str, whose: tuple[str, int, str] | None) -> str:
    """Write a neighbouring relation in words."""
    if whose is None:
        return neighbors
    column, max_rows, missing = whose
    return f"{neighbors} of all rows of one {column!r}, {max_rows} at most, unit_missing={missing!r}"


def read_relation(value: object) -> tuple[str, tuple[str, int, str] | None, str]:
    """Read what `written_relation` wrote."""
    written = read_text(value)
    if written in _RELATIONS:
        return written, None, ""
    plain = json.loads(written)
    whose = read_text(plain["unit"]), plain["max_rows"], read_text(plain["unit_missing"], "omit", "own")
    if type(whose[1]) is not int or whose[1] < 1 or len(plain) != 5:  # noqa: PLR2004
        raise ValueError
    key = read_text(plain["key"])
    if len(bytes.fromhex(key)) < KEY_BYTES:
        raise ValueError
    return read_text(plain["neighbors"], *_RELATIONS), whose, key


def read_fraction(value: object) -> Fraction:
    """Read a number that is at least 0, in the form ``p/q``."""
    if not _FRACTION.fullmatch(read_text(value)):
        raise ValueError
    return Fraction(str(value))


def read_moment(value: object) -> datetime:
    """Read a moment in UTC."""
    moment = datetime.fromisoformat(read_text(value))
    if moment.tzinfo is None:
        raise ValueError
    return moment


def written_moment(moment: datetime) -> str:
    """Write a moment in UTC; texts of moments are in the order of the moments."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def read_public(value: str) -> tuple[str, ...]:
    """Read what else was declared public."""
    names = json.loads(value)
    if not isinstance(names, list):
        raise TypeError
    return tuple(read_text(name) for name in names)


def read_accountant(value: str) -> Accountant:
    """Read the filters of an account."""
    plain = json.loads(value)
    accountant = Accountant.from_dict(plain)
    sums = {member.name: len(member.caps) for member in accountant.members}
    complete = sums and sums.items() <= _SUMS.items() and len(sums) == len(accountant.members)
    if not complete or accountant.to_dict() != plain or min(min(member.caps) for member in accountant.members) < 0:
        raise ValueError
    return accountant


def read_spent(value: str, accountant: Accountant) -> Spent:
    """Read what was spent: a sum for each cap of the account."""
    plain = json.loads(value)
    spent = Spent.from_list(plain)
    if (
        len(spent.counts) != len(accountant.nothing.counts)
        or spent.to_list() != plain
        or any(count is not None and count < 0 for count in spent.counts)
    ):
        raise ValueError
    return spent


def charged(accountant: Accountant, already: Spent, losses: Iterable[tuple[PrivacyLoss, int]]) -> Spent:
    """Add up charges of an account, each with how often it was made; in any order, for sums are whole numbers."""
    counts = list(already.counts)
    for loss, times in losses:
        each = accountant.after(accountant.nothing, loss).counts
        counts = [
            None if sum_ is None or one is None else sum_ + times * one
            for sum_, one in zip(counts, each, strict=True)
        ]
    return Spent(tuple(counts))


def covers(spent: Spent, least: Spent) -> bool:
    """Return whether no sum of `spent` is less than that of `least`.

    Charges are computed in floating point before they become whole numbers, and two machines may differ in the last
    bits: 2 to the minus 30 of a sum is let pass.
    """
    if len(spent.counts) != len(least.counts):
        return False
    return all(
        have is None or (want is not None and have + (have >> 30) >= want)
        for have, want in zip(spent.counts, least.counts, strict=True)
    )
