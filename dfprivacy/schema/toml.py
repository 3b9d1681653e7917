"""Functions that write schemas as TOML, for the types of values that schemas have."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dfprivacy._visible import HIDDEN, visible
from dfprivacy.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["commented", "key", "table", "value"]

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def value(plain: object) -> str:
    r"""Return a value as TOML text: a string, a number, True, False, or a list or mapping of these.

    Examples
    --------
    >>> value([0.5, 18, "a \"b\"", True]), value({"ana": "1/3"})
    ('[0.5, 18, "a \\"b\\"", true]', '{ana = "1/3"}')
    """
    match plain:
        case bool():
            return "true" if plain else "false"
        case str():
            return _quote_text(plain)
        case Fraction():
            return _quote_text(str(plain))
        case int() | float():
            return repr(plain)
        case list() | tuple():
            return f"[{', '.join(map(value, plain))}]"
        case dict():
            return "{" + ", ".join(f"{key(name)} = {value(item)}" for name, item in plain.items()) + "}"
    raise SchemaError(f"A schema file cannot hold a value of type {type(plain).__name__}.", "Use numbers and text.")


def key(name: str) -> str:
    """Return the TOML text of a key, quoted if necessary."""
    return name if _BARE.fullmatch(name) else _quote_text(name)


def table(facts: Mapping[str, Any], *heading: str) -> list[str]:
    """Return the lines of a TOML table."""
    lines = [f"{key(name)} = {value(item)}" for name, item in facts.items()]
    return [f"[{'.'.join(map(key, heading))}]", *lines] if heading else lines


def commented(text: str) -> str:
    """Return a text as one line of TOML comment."""
    return f"# {visible(text)}" if text else "#"


def _quote_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SchemaError("A name has an unpaired surrogate, which a file cannot hold.") from None
    return HIDDEN.sub(_escape_character, json.dumps(text, ensure_ascii=False))


def _escape_character(hidden: re.Match[str]) -> str:
    code = ord(hidden[0])
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
