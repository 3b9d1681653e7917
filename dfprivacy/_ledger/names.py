"""Names of data sets and analysts, and keys that are equal for names that look the same.

A data set gets its budget once, by its name, so a name that only looks other than a known one would be a second
budget. Names are compared by a key: compatibility forms (NFKC), upper and lower case, spaces and dashes are one,
and so are the Cyrillic and Greek letters that look like Latin ones. What is stored and shown is the name as given.
"""

from __future__ import annotations

import functools
import getpass
import os
import re
import unicodedata

from dfprivacy.errors import ArgumentError

__all__ = [
    "LENGTH",
    "checked_analyst",
    "checked_edition",
    "checked_name",
    "current_analyst",
    "edition_key",
    "has_invisible_characters",
    "name_key",
]

LENGTH = 200
VARIABLE = "DFPRIVACY_ANALYST"
# Lower case, for keys are: a letter stands here if either of its cases looks like the Latin one.
_LATIN = str.maketrans(
    "авекмнорстухѕіјһԁԛԝѵү" + "αβεζηικμνορτυχ" + "ıℓ", "abekmhopctyxsijhdqwvy" + "abezhikmnoptyx" + "il"
)
# Letters and marks of no width, which `str.isprintable` lets pass; Unicode: Default_Ignorable_Code_Point.
_INVISIBLE = frozenset(
    map(chr, [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810)])
) | frozenset(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))


def has_invisible_characters(name: str) -> bool:
    """Return whether a name has invisible characters: format and control characters, odd spaces, fillers."""
    return not name.isprintable() or not _INVISIBLE.isdisjoint(name)


@functools.lru_cache(maxsize=4096)
def name_key(name: str) -> str:
    """Return a key that is equal for names that look the same.

    Parameters
    ----------
    name : str
        A data set's name, or an analyst's.

    Returns
    -------
    str
        The key; not a name to show.

    Examples
    --------
    >>> name_key("Clinic  2024 ") == name_key("сlinic 2024")
    True
    >>> name_key("clinic-1") == name_key("clinic-2")
    False
    """
    for _ in range(2):  # twice, for each step can make work for the other
        name = unicodedata.normalize("NFKC", name).casefold()
    folded = unicodedata.normalize("NFKC", name)
    seen = "".join("-" if unicodedata.category(c) == "Pd" or c == "−" else c for c in folded)
    visible = "".join(c for c in seen if c not in _INVISIBLE and unicodedata.category(c) != "Cf")
    return " ".join(visible.translate(_LATIN).split())


def checked_name(argument: str, name: object) -> str:
    """Return a name without spaces around it; raise an `ArgumentError` if it is no short printable text."""
    if not isinstance(name, str) or not name.strip() or len(name) > LENGTH or has_invisible_characters(name):
        raise ArgumentError(
            f"{argument} is not a short printable text.", f"Use 1 to {LENGTH} printable characters."
        )
    return name.strip()


def checked_analyst(name: object) -> str:
    """Return an analyst's name after checking it, or raise an `ArgumentError`."""
    return checked_name("The analyst's name", name)


def checked_edition(edition: object) -> str:
    """Return the name of an edition after checking it, and an empty text for None."""
    return "" if edition is None else checked_name("edition=", edition)


def edition_key(edition: str) -> tuple[tuple[str, int], ...]:
    """Return a key that sorts editions by their numbers: "2026-9" before "2026-11".

    Examples
    --------
    >>> edition_key("2026-9") < edition_key("2026-11") < edition_key("2027")
    True
    """
    parts = re.findall(r"([^0-9]*)([0-9]*)", name_key(edition), re.ASCII)
    return tuple((text, int(digits or -1)) for text, digits in parts)


def current_analyst() -> str:
    """Return the asker's name: ``DFPRIVACY_ANALYST``, or else the operating system's user."""
    if named := os.environ.get(VARIABLE, "").strip():
        return checked_analyst(named)
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name, as in some containers
        return "unknown"
