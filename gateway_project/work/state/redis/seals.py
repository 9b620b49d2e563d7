"""Seals on the answers in Redis: who can write there, but has not our secrets, cannot forge, alter or swap one."""

import hashlib
from hmac import compare_digest

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

SEAL_BYTES = 16
PURPOSE = b"gateway cached answers"


class Seals:
    """Seals values under their names, by a keyed BLAKE2b; the key is derived from a secret, for this alone."""

    def __init__(self, secret: str) -> None:
        key = HKDF(algorithm=SHA256(), length=32, salt=None, info=PURPOSE).derive(secret.encode())
        self._begun = hashlib.blake2b(key=key, digest_size=SEAL_BYTES)

    def seal(self, name: str, value: bytes) -> bytes:
        """The value with its seal before it."""
        return self._seal_of(name, value) + value

    def open(self, name: str, data: bytes) -> bytes:
        """The value; b"", which is no answer, if it was not sealed under this name with this secret."""
        value = data[SEAL_BYTES:]
        return value if compare_digest(data[:SEAL_BYTES], self._seal_of(name, value)) else b""

    def _seal_of(self, name: str, value: bytes) -> bytes:
        seal = self._begun.copy()  # has read the key already
        seal.update(b"%d %b" % (len(name), name.encode()))  # the length: no part of a value can pass for one of a name
        seal.update(value)
        return seal.digest()
