"""Requests and answers in files: signed JSON, which is validated and never executed.

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
from dfprivacy._ledger.calls import question_as_python
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
"""Largest number of questions in one request."""

VARIABLE = "DFPRIVACY_KEY"
_LARGEST = {REQUEST: 1 << 24, ANSWERS: 1 << 30}  # bytes
_KEY_LEAST, _KEY_MOST = 32, 4096  # bytes


@dataclass(frozen=True)
class PlainQuestion:
    """Question that can be written as JSON, for a request file or for a server.

    Attributes
    ----------
    method : str
        The method's name.
    arguments : mapping
        Its arguments by name, without those equal to their default.
    steps : sequence of (str, value)
        The verbs that made the view, such as ``where``, as `write_steps` returns them.
    by : sequence of str
        The columns of the groups.
    epsilon, delta : str or None
        The exact price as text, or "rest"; a delta of None is in proportion to the budget's.
    fresh : bool
        Whether to measure anew what is kept.
    number : int
        Its position in the request, from 1; 0 for a question outside a request.
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
        """Question as Python text, with its conditions and groups."""
        where = [rule for verb, given in self.steps if verb == "where" for rule in given]
        made = [verb for verb, _ in self.steps if verb not in {"where", "select"}]
        plain = {"mechanism": self.method, "arguments": self.arguments, "where": where}
        asked = question_as_python({**plain, "group_by": list(self.by)})
        return asked + (f", after {', '.join(made)}" if made else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a dictionary of JSON values, without its number."""
        return {name: value for name, value in vars(self).items() if name != "number"}

    @classmethod
    def read(cls, plain: Any, number: int = 0) -> PlainQuestion:
        """Construct a question from the result of `to_dict`; raise a `ValueError` for any other value."""
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
        f"{what} is a {type(value).__name__}, which cannot be written to a request.",
        "Use finite numbers, text, True or False, ranges, or lists, tuples and dictionaries of them.",
    )


def decode_argument(value: Any) -> Any:
    """Decode the result of `encode_argument`; raise a `ValueError` for any other value."""
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
    """Convert a condition from JSON to an argument of `where`; raise a `ValueError` for any other value."""
    match rule:
        case {"between": [int() | float() as low, int() | float() as high], **more} if not more:
            return low, high
        case {"in": list(found), **more} if not more and all(isinstance(each, str | int | float) for each in found):
            return found
        case {"is": "present" | "missing" as which, **more} if not more:
            return Presence(which)
    raise ValueError


def read_key(path: str | os.PathLike[str] | None) -> bytes:
    """Read the key that signs requests and answers.

    Parameters
    ----------
    path : str or path or None
        A file of at least 32 random bytes; None for the file that the variable ``DFPRIVACY_KEY`` names.

    Returns
    -------
    bytes
        The key, without white space at its ends.
    """
    where = path if path is not None else os.environ.get(VARIABLE)
    make = (
        "Make a key file: python -c 'import secrets; print(secrets.token_hex(32))' > ana.key, and set the "
        f"environment variable {VARIABLE} to its path."
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
    """Return a hash of a key, which the ledger records in place of the key."""
    return hmac.new(key, b"dfprivacy key of an analyst", hashlib.sha256).hexdigest()


def content_digest(plain: Mapping[str, Any]) -> str:
    """Return the SHA-256 digest of a file's content."""
    return hashlib.sha256(_canonical_json(plain)).hexdigest()


def sign_content(plain: Mapping[str, Any], key: bytes) -> str:
    """Return a file's content as JSON text, with its signature."""
    return json.dumps({**plain, "signature": _compute_signature(plain, key)}, indent=1, allow_nan=False) + "\n"


def read_signed(path: str | os.PathLike[str], kind: str, key: bytes) -> dict[str, Any]:
    """Return the content of a signed file after checking its format and its signature.

    Parameters
    ----------
    path : str or path
        The file.
    kind : str
        The format that its content must name.
    key : bytes
        The key that must have signed it.

    Returns
    -------
    dict
        Its content, as JSON values.

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
        raise ArgumentError(
            f"The file {path} has no dfprivacy {what}: it is not JSON of the format {kind!r}.",
            "Name a file with this format, made by dfprivacy.",
        ) from None
    if not hmac.compare_digest(signature, wanted):
        raise ArgumentError(
            f"The signature of {path} is wrong: the file was signed with another key, or changed since.",
            "Do not use the file. Ask its sender for it again.",
        )
    return dict(plain)


def write_new_file(path: str | os.PathLike[str], text: str) -> None:
    """Write text to a new file atomically; raise an error if the file exists."""
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
    """Return the content of a file as canonical JSON, the text that is signed; it includes the file's format."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    pairs_once = dict(pairs)
    if len(pairs_once) < len(pairs):
        raise ValueError
    return pairs_once
