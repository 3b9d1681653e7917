"""Functions that write questions, conditions and values as text, from their JSON records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["call_as_text", "class_description", "condition_as_text", "join_names", "value_as_text"]

_EXACT = 1e15  # below which all digits of an integer are shown


def join_names(names: Sequence[str]) -> str:
    """Return names as a list in words: "x", "x and y", or "x, y and z"."""
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last


def class_description(kind: type, names: Sequence[str]) -> str:
    """Return the description of a class of features or statistics, with the names of its columns filled in."""
    template = getattr(kind, "description", "")
    return template.replace("{columns}", join_names(names)) if template else f"{kind.__name__}({', '.join(names)})"


def call_as_text(name: str, arguments: Iterable[tuple[str, str]]) -> str:
    """Return a call as Python text.

    Parameters
    ----------
    name : str
        The method.
    arguments : iterable of pairs of str
        Name and value as text; the name of a positional argument is empty.

    Returns
    -------
    str
        The call.

    Examples
    --------
    >>> call_as_text("ttest", [("", "'age'"), ("popmean", "30")])
    "ttest('age', popmean=30)"
    """
    return f"{name}({', '.join(f'{given}={text}' if given else text for given, text in arguments)})"


def condition_as_text(described: Mapping[str, Any]) -> str:
    """Return a condition on rows, given as JSON values, as text.

    Parameters
    ----------
    described : mapping
        The result of a condition's `describe`, possibly after a conversion to JSON text and back.

    Returns
    -------
    str
        The same in words.

    Examples
    --------
    >>> condition_as_text({"age": {"between": [30.0, 40.5]}})
    'age from 30 to 40.5'
    >>> condition_as_text({"age": {"between": [30.0, 30.0]}})
    'age = 30'
    >>> condition_as_text({"sex": {"in": ["f", "d"]}})
    'sex = f or d'
    """
    ((name, rule),) = described.items()
    match rule:
        case {"between": [low, high]} if low == high:
            return f"{name} = {value_as_text(low)}"
        case {"between": [low, high]}:
            return f"{name} from {value_as_text(low)} to {value_as_text(high)}"
        case {"in": list(values)}:
            return (
                f"{name} = {' or '.join(each if isinstance(each, str) else value_as_text(each) for each in values)}"
            )
        case {"is": str(presence)}:
            return f"{name} is {presence}"
    raise ValueError


def value_as_text(plain: Any) -> str:
    """Return a value, given as JSON values, as Python text.

    Parameters
    ----------
    plain : object
        As `dfprivacy._json.plain_json` writes it.

    Returns
    -------
    str
        The same in words.
    """
    match plain:
        case {"$tuple": items}:
            return f"({', '.join(map(value_as_text, items))}{',' if len(items) == 1 else ''})"
        case {"$fraction": [numerator, denominator]}:
            return f"{numerator}/{denominator}"
        case {"$decimal": text} | {"$float": text}:
            return str(text)
        case {"sha256": text, **rest} if not rest:
            return f"<of sha256 {str(text)[:12]}>"
        case float() if plain.is_integer() and abs(plain) < _EXACT:
            return str(int(plain))
        case list():
            return f"[{', '.join(map(value_as_text, plain))}]"
        case dict():
            return "{" + ", ".join(f"{name!r}: {value_as_text(item)}" for name, item in plain.items()) + "}"
    return repr(plain)
