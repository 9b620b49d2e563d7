"""What a provider says of itself (discovery) and the keys that it signs with: fetched when needed, and remembered.

A process asks each provider once at a time. What it remembers is used for a while longer if the provider fails.
"""

import base64
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from threading import Lock, Thread
from typing import TYPE_CHECKING

from accounts.sso.protocol.http import CANNOT_BE_USED, get_json, is_secure, unusable_error
from gateway_project.errors import ProviderError, UpstreamError
from gateway_project.json_types import JsonObject

if TYPE_CHECKING:
    from joserfc.jwk import Key

log = logging.getLogger("gateway.sso")

# The asymmetric algorithms, with the type of their keys: a shared secret or no signature is never accepted.
KEY_TYPES = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    **dict.fromkeys(("EdDSA", "Ed25519"), "OKP"),
}
REFRESH_SECONDS = 600.0  # in the background
MAX_AGE_SECONDS = 3600.0  # then a login waits for a new copy
MAX_STALE_SECONDS = 24 * 3600.0  # and goes on with the old one if there is none
RETRY_SECONDS = 10.0  # after a failure
UNKNOWN_KEY_SECONDS = 30.0  # between fetches for a key that is not known
MAX_KEYS, MIN_RSA_BITS = 50, 2048
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
FURTHER_ENDPOINTS = ("userinfo_endpoint", "end_session_endpoint")


@dataclass(frozen=True, slots=True)
class Metadata:
    """A provider's endpoints; optional ones that it does not have are ''."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    auth_method: str = "client_secret_basic"
    sends_issuer: bool = False  # in the answers of the authorization endpoint: RFC 9207


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key; `id` and `algorithm` are '' if the provider names none."""

    id: str
    type: str
    algorithm: str
    key: "Key"


class ProviderMemory:
    """What a process remembers of one provider."""

    def __init__(self, issuer: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.issuer = issuer
        self._clock = clock
        self.begun_at = time.time()
        self._lock = Lock()
        self._metadata: Metadata | None = None
        self._keys: list[SigningKey] = []
        self._metadata_at = self._keys_at = self._failed_at = -MAX_STALE_SECONDS
        self._unknown_key_at = -UNKNOWN_KEY_SECONDS

    def metadata(self) -> Metadata:
        """The endpoints. Raises UpstreamError."""
        with self._lock:
            return self._current_metadata(MAX_AGE_SECONDS)

    def keys(self, algorithm: str, key_id: str) -> list[SigningKey]:
        """The keys that may have signed with this algorithm, by the id in the token's header if it has one.

        For an id that is not known the keys are fetched once more, not too often. Raises UpstreamError.
        """
        with self._lock:
            self._refresh_keys(MAX_AGE_SECONDS)
            matches = self._find_key(algorithm, key_id)
            if not matches and self._clock() - self._unknown_key_at >= UNKNOWN_KEY_SECONDS:
                self._unknown_key_at = self._clock()
                self._refresh_keys(0)
                matches = self._find_key(algorithm, key_id)
            return matches

    def fetch(self) -> int:
        """Fetch all that is not remembered yet, and return the number of keys. Raises UpstreamError."""
        with self._lock:
            self._refresh_keys(MAX_AGE_SECONDS)
            return len(self._keys)

    def refresh(self) -> None:
        """Fetch again what is remembered and not new any more. Raises UpstreamError."""
        with self._lock:
            if self._metadata is not None:
                self._current_metadata(REFRESH_SECONDS)
                self._refresh_keys(REFRESH_SECONDS)

    def _find_key(self, algorithm: str, key_id: str) -> list[SigningKey]:
        return [
            key
            for key in self._keys
            if key.type == KEY_TYPES[algorithm]
            and key.algorithm in ("", algorithm)
            and (not key_id or key.id == key_id)
        ]

    def _current_metadata(self, max_age: float) -> Metadata:
        now = self._clock()
        if now - self._metadata_at >= max_age:
            try:
                self._refuse_retry(now)
                self._metadata = read_metadata(self.issuer, get_json(discovery_url(self.issuer)))
                self._metadata_at = now
            except UpstreamError:
                self._note_failure(now)
                if now - self._metadata_at >= MAX_STALE_SECONDS:
                    raise
        if self._metadata is None:
            raise ProviderError(CANNOT_BE_USED)
        return self._metadata

    def _refresh_keys(self, max_age: float) -> None:
        metadata, now = self._current_metadata(MAX_AGE_SECONDS), self._clock()
        if now - self._keys_at >= max_age:
            try:
                self._refuse_retry(now)
                self._keys = read_keys(get_json(metadata.jwks_uri))
                self._keys_at = now
            except UpstreamError:
                self._note_failure(now)
                if now - self._keys_at >= MAX_STALE_SECONDS:
                    raise

    def _refuse_retry(self, now: float) -> None:
        if now - self._failed_at < RETRY_SECONDS:
            raise ProviderError(CANNOT_BE_USED)

    def _note_failure(self, now: float) -> None:
        if now - self._failed_at >= RETRY_SECONDS:  # else it was not asked
            self._failed_at = self._clock()


_registry: dict[str, ProviderMemory] = {}
_registry_lock = Lock()


def recall_provider(issuer: str, *, fetched_at: datetime | None = None) -> ProviderMemory:
    """What this process remembers of an issuer that an administrator named, since the last fetch that was ordered."""
    with _registry_lock:
        memory = _registry.get(issuer)
        if memory is None or (fetched_at is not None and memory.begun_at < fetched_at.timestamp()):
            memory = _registry[issuer] = ProviderMemory(issuer)
        return memory


def renew_provider(issuer: str) -> int:
    """Fetch metadata and keys anew, and return the number of keys; what is remembered stays if that fails.

    Raises UpstreamError.
    """
    memory = ProviderMemory(issuer)
    number = memory.fetch()
    with _registry_lock:
        _registry[issuer] = memory
    return number


def forget_provider(issuer: str) -> None:
    """Ask again at the next login."""
    with _registry_lock:
        _registry.pop(issuer, None)


def refresh_known_providers() -> None:
    """Fetch metadata and keys of those providers anew that somebody has logged in with, in a thread of its own."""
    with _registry_lock:
        providers = list(_registry.values())
    if providers:
        Thread(target=_refresh, args=[providers], name="signing-keys", daemon=True).start()


def _refresh(providers: list[ProviderMemory]) -> None:
    for provider in providers:
        try:
            provider.refresh()
        except UpstreamError:
            log.warning("The keys of %s could not be refreshed.", provider.issuer)


def discovery_url(issuer: str) -> str:
    return issuer.rstrip("/") + "/.well-known/openid-configuration"


def read_metadata(issuer: str, document: JsonObject) -> Metadata:
    """The endpoints of a discovery document. Raises ProviderError, also for the document of another issuer."""
    if document.get("issuer") != issuer:
        raise _unusable_metadata(issuer, f"it is of another issuer, {document.get('issuer')!r:.200}")
    endpoints = {name: document.get(name) or "" for name in (*ENDPOINTS, *FURTHER_ENDPOINTS)}
    for name, value in endpoints.items():
        if (value or name in ENDPOINTS) and not (isinstance(value, str) and is_secure(value)):
            raise _unusable_metadata(issuer, f"its {name} is no https address")
    return Metadata(
        issuer=issuer,
        auth_method=_auth_method(document.get("token_endpoint_auth_methods_supported")),
        sends_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        **{name: str(value) for name, value in endpoints.items()},
    )


def _unusable_metadata(issuer: str, reason: str) -> ProviderError:
    return unusable_error("The discovery document of %s cannot be used: %s.", issuer, reason)


def _auth_method(supported: object) -> str:
    """How the client shows its secret: in the header unless the provider only takes it in the body."""
    methods = supported if isinstance(supported, list) else []
    return (
        "client_secret_post"
        if "client_secret_post" in methods and "client_secret_basic" not in methods
        else ("client_secret_basic")
    )


def read_keys(document: JsonObject) -> list[SigningKey]:
    """The public keys of a JWKS that can verify signatures; all others are left out."""
    entries = document.get("keys")
    candidates = [_key(entry) for entry in (entries if isinstance(entries, list) else [])[:MAX_KEYS]]
    return [key for key in candidates if key is not None]


def _key(entry: object) -> SigningKey | None:
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    if not isinstance(entry, dict) or entry.get("use") not in (None, "sig"):
        return None
    kind, key_id, algorithm = entry.get("kty"), entry.get("kid") or "", entry.get("alg") or ""
    if kind not in KEY_TYPES.values() or (kind == "RSA" and _bits(entry.get("n")) < MIN_RSA_BITS):
        return None
    try:
        key = import_key({name: value for name, value in entry.items() if name in ("kty", "n", "e", "crv", "x", "y")})
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return SigningKey(str(key_id), str(kind), str(algorithm), key)


def _bits(number: object) -> int:
    """The size of a number in base64url; 0 for anything else."""
    try:
        text = number if isinstance(number, str) else ""
        return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big").bit_length()
    except ValueError:
        return 0
