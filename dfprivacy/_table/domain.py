r"""Declared domains of keys: the number of possible keys, and the position of each key among them.

A domain is a list of values, a range of integers, or all texts of a pattern, such as ``[A-Z]\d{2}``. Only a
list is ever held in memory. A value is in a domain as it would be among as many categories.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dfprivacy._table.keys import LENGTH_MAX
from dfprivacy.errors import ArgumentError, quoted
from dfprivacy.schema import code_book_of, distinct_categories
from dfprivacy.schema.values import TRUTH, read_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dfprivacy._table.keys import Key
    from dfprivacy.schema import Category

__all__ = ["Domain", "read_domain"]

_SIZE_MAX = 10**15
_WHOLE_MAX = 2**53  # float64 holds every integer up to here
_ONE = r"\\.|[^\\]"  # a character, or an escaped one
_SIGN = re.compile(
    r"(\[(?P<set>(?:\\.|[^]\\[^])(?:\\.|[^]\\[])*)\]|(?P<sign>\\.|[^][\\(){}.*+?|^$]))"
    r"(\{(?P<times>[1-9][0-9]{0,2})\})?",
    re.DOTALL,
)
_MEMBER = re.compile(rf"(?P<low>{_ONE})-(?P<high>{_ONE})|(?P<one>{_ONE})", re.DOTALL)
_HOW = r"Use characters, sets of characters and repeat counts: r'\d{5}' or '[A-Z][0-9]{2}', but not {1,2}."


class Domain(ABC):
    """Ordered set of all possible keys."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of keys in the domain."""

    @abstractmethod
    def key(self, position: int) -> Category:
        """Return the key at a position, counted from 0."""

    @abstractmethod
    def position(self, key: Category) -> int | None:
        """Return the position of a value in the domain; None if the value is not a key."""

    def counts_by_position(self, counts: Mapping[Key, int]) -> Counter[int]:
        """Convert counts by value to counts by position; values outside the domain are dropped."""
        by_place: Counter[int] = Counter()
        for (key,), count in counts.items():
            if (place := self.position(key)) is not None:
                by_place[place] += count
        return by_place

    def counts_by_key(self, counts: Mapping[int, int]) -> dict[Key, int]:
        """Convert counts by position to counts by key."""
        return {(self.key(place),): count for place, count in counts.items()}


@dataclass(frozen=True, repr=False)
class ListedKeys(Domain):
    """Domain given as a list of all keys."""

    keys: tuple[Category, ...]

    @property
    def size(self) -> int:
        """Number of keys in the domain."""
        return len(self.keys)

    def key(self, position: int) -> Category:
        """Return the key at a position, counted from 0."""
        return self.keys[position]

    def position(self, key: Category) -> int | None:
        """Return the position of a value in the domain; None if the value is not a key."""
        return code_book_of(self.keys).code(key, None)


@dataclass(frozen=True)
class NumberRange(Domain):
    """Domain of a range of integers."""

    numbers: range

    @cached_property
    def size(self) -> int:
        """Number of keys in the domain."""
        count, rest = divmod(self.numbers.stop - self.numbers.start, self.numbers.step)
        return max(0, count + (rest != 0))  # `len` ends at 2^63

    def key(self, position: int) -> Category:
        """Return the key at a position, counted from 0."""
        return self.numbers[position]

    def position(self, key: Category) -> int | None:
        """Return the position of a number, or of a text that reads as a number; None if the value is not a key."""
        number = read_number(key) if isinstance(key, str) else float(key)
        if not number.is_integer() or int(number) not in self.numbers:
            return None
        return self.numbers.index(int(number))


@dataclass(frozen=True)
class PatternTexts(Domain):
    """Domain of all strings of one length whose i-th character is in the i-th alphabet."""

    alphabets: tuple[str, ...]

    @cached_property
    def size(self) -> int:
        """Number of keys in the domain."""
        return math.prod(map(len, self.alphabets))

    def key(self, position: int) -> Category:
        """Return the key at a position, counted from 0."""
        characters = []
        for alphabet in reversed(self.alphabets):
            position, at = divmod(position, len(alphabet))
            characters.append(alphabet[at])
        return "".join(reversed(characters))

    def position(self, key: Category) -> int | None:
        """Return the position of a text, or of a number that the domain has as exactly one text; else None.

        An integer is written with zeros before it too: "01234" is 1234 where a library reads digits as numbers.
        """
        place = self._position_of_text(key) if isinstance(key, str) else None
        if place is not None:
            return place
        number = read_number(key) if isinstance(key, str) else float(key)
        places = {self._position_of_text(text) for text in self._written_forms(number)} - {None}
        return places.pop() if len(places) == 1 else None

    def _written_forms(self, number: float) -> Iterator[str]:
        """Yield the texts by which a number is commonly written."""
        if not math.isfinite(number):
            return
        number += 0.0  # there is no -0
        yield repr(number)
        if number.is_integer() and abs(number) < _WHOLE_MAX:
            digits = (str(int(number)), *(["-0"] if not number else []))
            yield from (*digits, *(text.zfill(len(self.alphabets)) for text in digits))
        yield from (text for text, truth in TRUTH.items() if truth == number)

    def _position_of_text(self, text: str) -> int | None:
        if len(text) != len(self.alphabets):
            return None
        place = 0
        for sign, alphabet in zip(text, self.alphabets, strict=True):
            if (at := alphabet.find(sign)) < 0:
                return None
            place = place * len(alphabet) + at
        return place


def read_domain(declared: object) -> Domain:
    r"""Make a `Domain` from a list of values, a range of integers or a pattern of texts.

    Parameters
    ----------
    declared : list, range, or str
        Its values, a range of integers, or the pattern of its texts: characters, sets of them in brackets, and
        ``\d`` for a digit, each followed by how often it is there, if not once, in braces.

    Returns
    -------
    Domain
        The domain.

    Raises
    ------
    ArgumentError, SchemaError
        If it is none of these, empty, of more than 10^15 keys, or holds one twice.

    Examples
    --------
    >>> icd = read_domain("[A-Z][0-9]{2}")
    >>> icd.size, icd.key(26 * 100 - 1), icd.position("J45"), icd.position("j45")
    (2600, 'Z99', 945, None)
    """
    domain: Domain
    if isinstance(declared, str):
        domain = PatternTexts(_alphabets(declared))
    elif isinstance(declared, range):
        domain = NumberRange(declared)
        if max(map(abs, (declared.start, declared.stop))) > _WHOLE_MAX:
            raise ArgumentError(
                f"domain={declared!r} has integers beyond 2^53.",
                "Use smaller integers, or texts: float64 rounds larger integers.",
            )
    elif isinstance(declared, list | tuple | np.ndarray):
        domain = ListedKeys(distinct_categories("domain", declared))
    else:
        raise ArgumentError(
            f"domain{quoted(declared)} is not a list, a range or a pattern.",
            "Turn a column into a list: .tolist().",
        )
    if not domain.size:
        raise ArgumentError(f"domain={declared!r} has no keys.", "List the possible values: domain=['a', 'b'].")
    if domain.size > _SIZE_MAX:
        raise ArgumentError(
            f"domain{quoted(declared)} has more than {_SIZE_MAX:,} keys.",
            "Use a domain with fewer possible values.",
        )
    return domain


def _alphabets(pattern: str) -> tuple[str, ...]:
    """Return the characters that a pattern allows at each position, one string for each position."""
    alphabets: list[str] = []
    end = 0
    while end < len(pattern):
        sign = _SIGN.match(pattern, end)
        if sign is None:
            raise _pattern_error(pattern, end)
        members = [
            _characters_of_member(each, pattern, end) for each in _MEMBER.finditer(sign["set"] or sign["sign"])
        ]
        alphabets += ["".join(sorted(set().union(*members)))] * int(sign["times"] or 1)
        if len(alphabets) > LENGTH_MAX:
            raise ArgumentError(
                "domain= has keys that are too long.", f"Use a pattern of at most {LENGTH_MAX} characters."
            )
        end = sign.end()
    if not alphabets:
        raise _pattern_error(pattern, 0)
    return tuple(alphabets)


def _characters_of_member(member: re.Match[str], pattern: str, at: int) -> str:
    r"""Return the characters that one item of a pattern's character set stands for, such as ``\d`` or a-z."""
    ends = [member["one"]] if member["one"] else [member["low"], member["high"]]
    if ends == [r"\d"]:
        return "0123456789"
    if any(len(end) > 1 and end[1].isalnum() for end in ends) or ends[0][-1] > ends[-1][-1]:
        raise _pattern_error(pattern, at)
    return "".join(map(chr, range(ord(ends[0][-1]), ord(ends[-1][-1]) + 1)))


def _pattern_error(pattern: str, at: int) -> ArgumentError:
    return ArgumentError(f"domain={pattern!r} is not a supported pattern from character {at + 1} on.", _HOW)
