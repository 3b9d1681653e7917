"""Authentication of analysts by tokens of an OpenID Connect identity provider, verified by its published keys."""

from __future__ import annotations

import json
import math
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dfprivacy._ledger.names import checked_analyst
from dfprivacy.errors import ArgumentError, LedgerError, MissingDependency, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jwt import PyJWK

__all__ = ["HERE", "Issuer"]

HERE = {"localhost", "127.0.0.1", "::1"}
"""Hosts whose traffic stays on this machine."""

_ALGORITHMS = {"RS256", "ES256"}  # by which only the holder of a private key can sign
_RSA_BITS = 2048
_LEEWAY = 30  # seconds that clocks may differ
_PAUSE = 60  # seconds between two attempts to get the keys
_OLD = 3600  # seconds after which they are fetched anew, for one may have been withdrawn
_PATIENCE = 5  # seconds that the provider has
_LARGEST = 1 << 20  # bytes of what it publishes


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler of HTTP redirects that follows none, as a redirect might lead to an address without TLS."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, so that a redirect raises an HTTP error."""


@dataclass
class Issuer:
    """OpenID Connect identity provider whose tokens are accepted.

    Attributes
    ----------
    issuer : str
        Its address, as its tokens say it.
    audience : str
        What its tokens say of whom they are for: this server.
    claim : str
        What of a token names the analyst. An ``email`` counts if the token says that it was verified.

    Raises
    ------
    ArgumentError
        If the address is none, or is of another machine and without TLS.
    MissingDependency
        If PyJWT is not installed.
    """

    issuer: str
    audience: str
    claim: str = "email"
    _keys: Mapping[str, PyJWK] = field(init=False, repr=False, default_factory=dict)
    _tried: float = field(init=False, repr=False, default=-math.inf)
    _got: float = field(init=False, repr=False, default=-math.inf)
    _fetching: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if not _is_safe(self.issuer):
            raise ArgumentError(
                f"issuer{quoted(self.issuer)} is neither an https:// address nor an address of this machine.",
                "Write the identity provider's address as its tokens have it in `iss`.",
            )
        try:
            import cryptography
            import jwt
        except ModuleNotFoundError as error:
            raise MissingDependency(
                f"Verifying an identity provider's tokens needs the package {error.name}.",
                'Install it: pip install "dfprivacy[server]".',
            ) from None
        _ = cryptography, jwt

    def analyst(self, token: str) -> str | None:
        """Return the analyst whom a token names; None if it is not the provider's, expired, or for another server.

        Raises
        ------
        LedgerError
            If the provider's keys cannot be fetched.
        """
        import jwt

        try:
            key = self._key_by_id(jwt.get_unverified_header(token).get("kid"))
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=[*_ALGORITHMS],
                audience=self.audience,
                issuer=self.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud"]},
            )
            name = checked_analyst(claims.get(self.claim))
        except (
            jwt.PyJWTError,
            ValueError,
            TypeError,
            OverflowError,
            RecursionError,
        ):  # ArgumentError is a ValueError
            return None
        if name != claims[self.claim] or (self.claim == "email" and claims.get("email_verified") is not True):
            return None
        return name

    def _key_by_id(self, key_id: Any) -> PyJWK | None:
        """Return the provider's key with an id; None if unknown. Keys are fetched again at most once a minute."""
        if not isinstance(key_id, str):
            return None
        if key_id not in self._keys or time.monotonic() - self._got > _OLD:
            with self._fetching:
                self._fetch(key_id)
        return self._keys.get(key_id)

    def _fetch(self, key_id: str) -> None:
        now = time.monotonic()
        if now - self._tried >= _PAUSE and (key_id not in self._keys or now - self._got > _OLD):
            self._tried = now
            try:
                about = _fetch_json(self.issuer.rstrip("/") + "/.well-known/openid-configuration")
                if about["issuer"] != self.issuer:
                    raise ValueError  # noqa: TRY301 - said below
                self._keys, self._got = _read_keys(_fetch_json(about["jwks_uri"])), now
            except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
                pass  # what was fetched before counts on
        if not self._keys:
            raise LedgerError("The identity provider's keys cannot be fetched.", "Ask again in a minute.")


def _is_safe(address: str) -> bool:
    """Return whether an address has TLS, or is on this machine."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in HERE))


def _fetch_json(address: str) -> Any:
    """Fetch the JSON document at an address, with limits on time and size."""
    if not _is_safe(address):
        raise ValueError
    with urllib.request.build_opener(_NoRedirect).open(address, timeout=_PATIENCE) as answer:
        content = answer.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError
    return json.loads(content)


def _read_keys(plain: Any) -> dict[str, PyJWK]:
    """Return the provider's keys by id, without those of unsupported algorithms or too few bits."""
    import jwt

    keys = {}
    for each in plain["keys"]:
        try:
            key = jwt.PyJWK(each)
        except jwt.PyJWTError:
            continue  # of a kind that is not used here
        long = key.algorithm_name != "RS256" or key.key.key_size >= _RSA_BITS
        if key.algorithm_name in _ALGORITHMS and key.public_key_use in {None, "sig"} and key.key_id and long:
            keys[key.key_id] = key
    return keys
