"""Escape characters that terminals and pages interpret and do not display."""

from __future__ import annotations

import re

__all__ = ["HIDDEN", "visible"]

_CLASS = "\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
_CLASS += "\U000e0000-\U000e007f"
HIDDEN = re.compile(f"[\x00-\x1f{_CLASS}]")
"""Control characters, half characters, those that turn the direction of writing, and those without width (but for
the two joiners, which some scripts are written with)."""
_HIDDEN_IN_LINES = re.compile(f"[\x00-\x09\x0b-\x1f{_CLASS}]")


def visible(text: object, *, lines: bool = False) -> str:
    r"""Return a text with control and bidirectional characters escaped as Python escapes them.

    Parameters
    ----------
    text : object
        Any text, such as the name of a column.
    lines : bool
        Whether ends of lines stay.

    Returns
    -------
    str
        The same, without control and bidirectional characters.

    Examples
    --------
    >>> print(visible("\x1b[31mred\u202e"), visible("two\nlines"))
    \x1b[31mred\u202e two\nlines
    """
    return (_HIDDEN_IN_LINES if lines else HIDDEN).sub(_escape_character, str(text))


def _escape_character(hidden: re.Match[str]) -> str:
    return hidden[0].encode("unicode_escape").decode()
