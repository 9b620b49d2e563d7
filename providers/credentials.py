"""Encryption of provider credentials: a stored text opens only for the origin that it was sealed for."""

import base64
import os
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

VERSION = "v1"
NONCE_BYTES = 12
# A hint of four characters would be half of a shorter credential, or all of it.
SHORTEST_WITH_HINT = 8
DEFAULT_PORTS = {"http": 80, "https": 443}


class CredentialUnreadable(Exception):
    """The stored text was sealed for another origin or under a key that is gone, or it was altered."""


class KeyMissing(CredentialUnreadable):
    """The text was sealed with a key that is not configured, or the file of the keys cannot be read."""


def encrypt(text: str, *, origin: str, keys: Sequence[str]) -> str:
    """`v1.<key id>.<base64url of nonce and ciphertext>`, sealed with the first key for this origin alone."""
    if not keys:
        raise ValueError("There is no encryption key.")
    nonce = os.urandom(NONCE_BYTES)
    ciphertext = _cipher(keys[0]).encrypt(nonce, text.encode(), _bound_to(origin))
    return f"{VERSION}.{_key_id(keys[0])}.{base64.urlsafe_b64encode(nonce + ciphertext).decode()}"


def decrypt(token: str, *, origin: str, keys: Sequence[str]) -> str:
    """The text that encrypt() sealed; raises CredentialUnreadable."""
    ciphertext, key = _split_token(token, keys)
    try:
        return _cipher(key).decrypt(ciphertext[:NONCE_BYTES], ciphertext[NONCE_BYTES:], _bound_to(origin)).decode()
    except (InvalidTag, ValueError):
        raise CredentialUnreadable("The credential was altered, or belongs to another origin.") from None


def is_sealed_with(token: str, key: str) -> bool:
    """Whether a stored text names this key as its own."""
    return token.startswith(f"{VERSION}.{_key_id(key)}.")


def hint_of(credential: str) -> str:
    """The last four characters, by which people recognise the credential; '' for a short one."""
    return credential[-4:] if len(credential) >= SHORTEST_WITH_HINT else ""


def origin_of(url: str) -> str:
    """scheme://host:port of a URL, in lower case and with the default port written out; raises ValueError."""
    parts = urlsplit(url)
    port = DEFAULT_PORTS.get(parts.scheme) if parts.port is None else parts.port
    if not parts.hostname or port is None:
        raise ValueError("The URL has no host, or its scheme has no known port.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def _split_token(token: str, keys: Sequence[str]) -> tuple[bytes, str]:
    version, _, rest = token.partition(".")
    key_id, _, encoded = rest.partition(".")
    if version != VERSION:
        raise CredentialUnreadable("The credential was altered: it was not encrypted by this gateway.")
    try:
        key = next((key for key in keys if _key_id(key) == key_id), None)
    except (OSError, UnicodeDecodeError) as error:
        raise KeyMissing(f"The encryption keys cannot be read: {error}.") from None
    if key is None:
        raise KeyMissing("The credential was encrypted with a key that is not configured.")
    try:
        return base64.b64decode(encoded, altchars=b"-_", validate=True), key
    except ValueError:
        raise CredentialUnreadable("The credential was altered.") from None


def _bound_to(origin: str) -> bytes:
    return f"provider credential {origin}".encode()


@lru_cache(maxsize=64)
def _cipher(key: str) -> AESGCM:
    return AESGCM(_derive_key(key, b"gateway provider credentials", 32))


@lru_cache(maxsize=64)
def _key_id(key: str) -> str:
    # Derived, so that it names the key and says nothing about it.
    return _derive_key(key, b"gateway encryption key id", 4).hex()


def _derive_key(key: str, purpose: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=purpose).derive(key.encode())
