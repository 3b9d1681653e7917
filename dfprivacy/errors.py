"""Exceptions of dfprivacy.

::

    DPError
    ├── NotProtected        this frame has no private view              (also an AttributeError)
    ├── ArgumentError       an argument of a call cannot be used        (also a ValueError)
    │   └── SchemaError     a column, a bound, a category               (also a ValueError)
    ├── BudgetError
    │   ├── BudgetExceeded  the account cannot pay
    │   └── AccountMismatch the name is known with other terms
    ├── AwaitingApproval    a custodian has to approve the question first
    ├── LedgerError         the ledger cannot be read or written
    ├── PluginError         a plugin cannot be used
    ├── MissingDependency   an optional library is not installed        (also an ImportError)
    └── ReadError           the data could not be read, after the charge

Every message says three things: what happened (in public numbers only), what became of the budget,
and what to do. No message contains a value of the data, and none depends on one.
"""

from __future__ import annotations

import functools
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

from dfprivacy._visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")
T = TypeVar("T")

__all__ = [
    "AccountMismatch",
    "ArgumentError",
    "AwaitingApproval",
    "BudgetError",
    "BudgetExceeded",
    "DPError",
    "LedgerError",
    "MissingDependency",
    "NotProtected",
    "PluginError",
    "PluginWarning",
    "ReadError",
    "SchemaError",
]


_LONGEST = 4000  # characters of what an error says


class DPError(Exception):
    """Base class of the errors of dfprivacy.

    Parameters
    ----------
    what : str
        What happened, in public numbers only.
    hint : str
        What to do about it.
    """

    outcome = "Nothing was released or spent."

    def __init__(self, what: str, hint: str = "") -> None:
        self.what = _shorten(what)
        self.hint = _shorten(hint)
        super().__init__(str(self))

    def __str__(self) -> str:
        """Return what happened, the outcome and the hint as one text."""
        return " ".join(part for part in (self.what, self.outcome, self.hint) if part)

    def after(self, outcome: str) -> Self:
        """Return the same error with another `outcome`, the sentence on what was charged or released."""
        other = type(self)(self.what, self.hint)
        other.outcome = outcome
        other.args = (str(other),)
        return other

    def __reduce__(self) -> tuple[Callable[..., DPError], tuple[type[DPError], str, str, str]]:
        return _rebuild_error, (type(self), self.what, self.hint, self.outcome)


class NotProtected(DPError, AttributeError):  # noqa: N818 - reads as the sentence it is
    """Raised for a frame without a private view; an `AttributeError` too, so that ``hasattr`` returns False."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.obj = None  # else Python keeps the frame here, and asks "Did you mean: 'ztest'?"


class ArgumentError(DPError, ValueError):
    """Raised if an argument of a call cannot be used."""


class SchemaError(ArgumentError):
    """Raised if a declaration about the table (columns, bounds, categories) cannot be used."""


class BudgetError(DPError):
    """Base class of errors about the budget of an account."""


class BudgetExceeded(BudgetError):  # noqa: N818
    """Raised if the account cannot pay for a question."""


class AccountMismatch(BudgetError):  # noqa: N818
    """Raised if the ledger has an account or a table of the same name with other terms."""


class AwaitingApproval(DPError):  # noqa: N818
    """Raised for a question that waits until the custodian approves it."""


class LedgerError(DPError):
    """Raised if the ledger cannot be read or written, so that nothing can be charged."""


class PluginError(DPError):
    """Raised if a plugin, or a mechanism of a plugin, cannot be used."""


class PluginWarning(UserWarning):
    """Warning about a plugin that is left out in whole or in part, or fails."""


class MissingDependency(DPError, ImportError):  # noqa: N818
    """Raised if an optional library is needed and not installed."""


class ReadError(DPError):
    """Raised if the data cannot be read. The original error is withheld, as its text may quote the data."""

    outcome = "Nothing was released; what was charged stays charged."


def trimmed(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a public function so that tracebacks of its errors omit frames inside dfprivacy.

    An error says what to do; a dozen frames of ours would only hide the caller's own line. What a plugin or a
    library raised stays as the cause, with its own frames.
    """

    @functools.wraps(function)
    def call_and_trim(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except DPError as error:
            cause = None if isinstance(error.__cause__, DPError) else error.__cause__
            if cause is not None:
                cause.with_traceback(_without_own_frames(cause.__traceback__))
            raise error.with_traceback(None) from cause

    return call_and_trim


def _without_own_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return a traceback without frames of dfprivacy; the last frame if all are of dfprivacy."""
    every = [*_traceback_frames(frames)]
    kept = [each for each in every if not _is_own_frame(each)] or every[-1:]
    inner = None
    for each in reversed(kept):
        inner = TracebackType(inner, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return inner


def _traceback_frames(frames: TracebackType | None) -> Iterator[TracebackType]:
    while frames is not None:
        yield frames
        frames = frames.tb_next


def _is_own_frame(frames: TracebackType) -> bool:
    return str(frames.tb_frame.f_globals.get("__name__")).partition(".")[0] == "dfprivacy"


def _shorten(text: str) -> str:
    """Return a text with its hidden characters escaped, cut at a maximum length."""
    return visible(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…", lines=True)


def _rebuild_error(kind: type[DPError], what: str, hint: str, outcome: str) -> DPError:
    """Rebuild a pickled error with its `outcome`, the sentence on what was charged or released."""
    return kind(what, hint).after(outcome)


def quoted(value: object) -> str:
    """Return ``=value`` for messages, or the type of a long argument, which may be a column of private values.

    Parameters
    ----------
    value : object
        The argument.

    Returns
    -------
    str
        The text after the argument's name.
    """
    if value is None or isinstance(value, bool):
        return f"={value}"
    for kind in (float, complex):  # not as a kind of its own says it
        if isinstance(value, kind):
            return f"={kind.__repr__(value)}"
    if isinstance(value, str):
        return f"={str.__str__(value)[:40]!r}"
    if isinstance(value, int) and abs(int(value)) < 10**20:
        return f"={int.__repr__(value)}"
    return f" (of type {type(value).__name__})"
