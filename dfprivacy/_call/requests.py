"""Questions and answers in files: signed JSON, which is read strictly and never run.

A request names methods of the registry and gives them plain values; an answer is a release as `Release.to_dict`
writes it. Both are signed with HMAC-SHA256 by a key that analyst and custodian share: without the key, nobody can
ask in the analyst's name, or change an answer unseen. With it, both can be done, so each analyst has a key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dfprivacy._json import read_release
from dfprivacy._ledger.calls import question_as_typed
from dfprivacy._table.conditions import Presence
from dfprivacy._visible import visible
from dfprivacy.errors import ArgumentError
from dfprivacy.release import Release
from dfprivacy.schema import FoundPair
from dfprivacy.schema.files import read_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "ANSWERS",
    "MOST",
    "REQUEST",
    "PlainQuestion",
    "condition_argument",
    "decode_argument",
    "encode_argument",
    "key_fingerprint",
    "read_key",
    "read_signed",
    "sign_content",
    "write_new_file",
]

REQUEST, ANSWERS = "dfprivacy request 2", "dfprivacy answers 2"
MOST = 1000
"""Questions in one request."""

VARIABLE = "DFPRIVACY_KEY"
_LARGEST = {REQUEST: 1 << 24, ANSWERS: 1 << 30}  # bytes
_KEY_LEAST, _KEY_MOST = 32, 4096  # bytes


@dataclass(frozen=True)
class PlainQuestion:
    """One question of a request, in plain JSON values.

    Attributes
    ----------
    method : str
        The method's name.
    arguments : mapping
        Its arguments by name, those that are as usual left out.
    steps : sequence of (str, value)
        The verbs by which the view was made, as `write_steps` writes them.
    by : sequence of str
        The columns of the groups.
    epsilon, delta : str or None
        The price, exact, or "rest"; a delta of None is the budget's in proportion.
    fresh : bool
        Whether to measure anew what is kept.
    number : int
        Its place in the request; 0 where there is one question alone.
    """

    method: str
    arguments: Mapping[str, Any]
    steps: Sequence[Sequence[Any]] = ()
    by: Sequence[str] = ()
    epsilon: str = ""
    delta: str | None = None
    fresh: bool = False
    number: int = field(default=0, compare=False)

    def __repr__(self) -> str:
        return visible(f"question {self.number}: {self.text}, at epsilon {self.epsilon}")

    @property
    def text(self) -> str:
        """Question as it would be typed."""
        where = [rule for verb, given in self.steps if verb == "where" for rule in given]
        made = [verb for verb, _ in self.steps if verb not in {"where", "select"}]
        plain = {"mechanism": self.method, "arguments": self.arguments, "where": where}
        asked = question_as_typed({**plain, "group_by": list(self.by)})
        return asked + (f", after {', '.join(made)}" if made else "")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {name: value for name, value in vars(self).items() if name != "number"}

    @classmethod
    def read(cls, plain: Any, number: int = 0) -> PlainQuestion:
        """Read the result of `to_dict`; raise a ValueError for anything else."""
        match plain:
            case {
                "method": str(method),
                "arguments": dict(arguments),
                "steps": list(steps),
                "by": list(by),
                "epsilon": str(epsilon),
                "delta": str() | None as delta,
                "fresh": bool(fresh),
                **more,
            } if not more and all(isinstance(name, str) for name in by):
                if not all(isinstance(each, list) and len(each) == 2 for each in steps):  # noqa: PLR2004
                    raise ValueError
                decode_argument(arguments)
                return cls(method, arguments, steps, by, epsilon, delta, fresh, number)
        raise ValueError


def encode_argument(value: Any, what: str) -> Any:
    """Encode an argument (numbers, text, and lists of them) as JSON values, or raise an `ArgumentError`."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list | tuple) and not isinstance(value, FoundPair):
        items = [encode_argument(item, what) for item in value]
        return {"$tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, FoundPair):
        return {"$found": [*value, encode_argument(value.beyond, what)]}
    if isinstance(value, range):
        return {"$range": [value.start, value.stop, value.step]}
    if isinstance(value, Release):
        return {"$release": value.to_dict()}
    if isinstance(value, dict) and all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {key: encode_argument(item, what) for key, item in value.items()}
    raise ArgumentError(
        f"{what} is a {type(value).__name__}, which no request can hold.",
        "A request holds finite numbers, text, True and False, ranges, and lists, tuples and dictionaries of them.",
    )


def decode_argument(value: Any) -> Any:
    """Decode a value from `encode_argument`; raise a ValueError for any other value."""
    if isinstance(value, list):
        return [decode_argument(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$tuple"} and isinstance(value["$tuple"], list):
        return tuple(decode_argument(item) for item in value["$tuple"])
    if set(value) == {"$range"} and isinstance(value["$range"], list):
        ends = value["$range"]
        if len(ends) == 3 and ends[2] and all(type(end) is int for end in ends):  # noqa: PLR2004 - and no boolean
            return range(*ends)
    if set(value) == {"$found"} and isinstance(value["$found"], list):
        low, high, beyond = value["$found"]
        return FoundPair((float(low), float(high)), float(beyond))
    if set(value) == {"$release"}:
        return read_release(Release, value["$release"])
    if any(key.startswith("$") for key in value):
        raise ValueError
    return {key: decode_argument(item) for key, item in value.items()}


def condition_argument(rule: Any) -> Any:
    """Return the argument of `where` that a condition written as JSON stands for; else raise a ValueError."""
    match rule:
        case {"between": [int() | float() as low, int() | float() as high], **more} if not more:
            return low, high
        case {"in": list(found), **more} if not more and all(isinstance(each, str | int | float) for each in found):
            return found
        case {"is": "present" | "missing" as which, **more} if not more:
            return Presence(which)
    raise ValueError


def read_key(path: str | os.PathLike[str] | None) -> bytes:
    """Read the key that requests and answers are signed with.

    Parameters
    ----------
    path : str or path or None
        A file of at least 32 bytes that nobody can guess; None for the one that ``DFPRIVACY_KEY`` names.

    Returns
    -------
    bytes
        The key, without white space at its ends.
    """
    where = path if path is not None else os.environ.get(VARIABLE)
    make = (
        f"Make one: python -c 'import secrets; print(secrets.token_hex(32))' > ana.key, and name it by {VARIABLE}."
    )
    if not where or not isinstance(where, str | os.PathLike):
        raise ArgumentError("Requests and answers are signed, and no key file was named.", make)
    try:
        with Path(where).open("rb") as file:
            key = file.read(_KEY_MOST).strip()
    except OSError as error:
        raise ArgumentError(f"The key file {where} cannot be read: {error.strerror}.", make) from None
    if len(key) < _KEY_LEAST:
        raise ArgumentError(f"The key in {where} has {len(key)} bytes, fewer than {_KEY_LEAST}.", make)
    return key


def key_fingerprint(key: bytes) -> str:
    """Return a hash of a key, by which a ledger identifies the key."""
    return hmac.new(key, b"dfprivacy key of an analyst", hashlib.sha256).hexdigest()


def content_digest(plain: Mapping[str, Any]) -> str:
    """Return a digest of a file's content."""
    return hashlib.sha256(_canonical_json(plain)).hexdigest()


def sign_content(plain: Mapping[str, Any], key: bytes) -> str:
    """Write a file's content as JSON, with its signature."""
    return json.dumps({**plain, "signature": _compute_signature(plain, key)}, indent=1, allow_nan=False) + "\n"


def read_signed(path: str | os.PathLike[str], kind: str, key: bytes) -> dict[str, Any]:
    """Read a signed file.

    Parameters
    ----------
    path : str or path
        The file.
    kind : str
        Its first words.
    key : bytes
        The key that it must have been signed with.

    Returns
    -------
    dict
        Its content, as JSON has it.

    Raises
    ------
    ArgumentError
        If it cannot be read, is something else, or was signed with another key or changed since.
    """
    what = kind.split()[1]
    try:
        content = read_whole(path, _LARGEST[kind])
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ArgumentError(f"The file {path} cannot be read: {reason}.", "Check its path.") from None
    try:
        plain = json.loads(content, object_pairs_hook=_refuse_repeated_keys)
        signature = plain.pop("signature").encode()
        wanted = _compute_signature(plain, key).encode()
        if plain["format"] != kind:
            raise ValueError  # noqa: TRY301 - said below
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ArgumentError(f"No {what} can be read from the file {path}.", f"Its format is {kind!r}.") from None
    if not hmac.compare_digest(signature, wanted):
        raise ArgumentError(
            f"The signature of {path} is wrong: the file was signed with another key, or changed since.",
            "Do not use the file. Ask its sender for it again.",
        )
    return dict(plain)


def write_new_file(path: str | os.PathLike[str], text: str) -> None:
    """Write a new file atomically; raise an error if it exists."""
    target = Path(path)
    beside = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, target)
        except FileExistsError:
            raise ArgumentError(f"The file {path} exists.", "Name a new file.") from None
        except OSError:  # a file system without links
            if target.exists():
                raise ArgumentError(f"The file {path} exists.", "Name a new file.") from None
            beside.replace(target)
    except OSError as error:
        raise ArgumentError(f"The file {path} cannot be written: {error.strerror}.", "Name another file.") from None
    finally:
        beside.unlink(missing_ok=True)


def _compute_signature(plain: Mapping[str, Any], key: bytes) -> str:
    return hmac.new(key, _canonical_json(plain), hashlib.sha256).hexdigest()


def _canonical_json(plain: Mapping[str, Any]) -> bytes:
    """Write content as canonical JSON, which names its format, so that a request cannot pass for an answer."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    pairs_once = dict(pairs)
    if len(pairs_once) < len(pairs):
        raise ValueError
    return pairs_once
