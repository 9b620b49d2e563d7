"""The text of an API key: `svc_<id>_<secret><checksum>`, all base62, 64 characters.

The id (10 characters) is public and finds the row; the secret is 256 random bits (43 characters), of which
only the SHA-256 is stored; the checksum is the CRC32 of everything before it (6 characters), so that a typing
error or a look-alike costs no query, and scanners for leaked secrets recognise a key.
"""

import hashlib
import hmac
import re
from itertools import product
from secrets import choice, randbits
from typing import NamedTuple
from zlib import crc32

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PREFIX = "svc_"
ID_LENGTH, SECRET_LENGTH, CHECKSUM_LENGTH = 10, 43, 6
ID_START = len(PREFIX)
ID_END = ID_START + ID_LENGTH
SECRET_START = ID_END + 1
SECRET_END = SECRET_START + SECRET_LENGTH
LENGTH = SECRET_END + CHECKSUM_LENGTH
DUMMY_DIGEST = bytes(32)
_KEY = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{ID_LENGTH}}})\w*")
_WHOLE_KEY = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{ID_LENGTH}}})_[0-9A-Za-z]{{{SECRET_LENGTH + CHECKSUM_LENGTH}}}")

# Two digits at a time: every request computes the checksum.
_PAIRS = tuple(a + b for a, b in product(BASE62, repeat=2))


class NewKey(NamedTuple):
    """A new key: its whole text (never stored), its public id, and the digest that is stored."""

    text: str
    public_id: str
    digest: bytes


def generate_key() -> NewKey:
    """A new key from the system's source of randomness."""
    public_id = "".join(choice(BASE62) for _ in range(ID_LENGTH))
    secret = _base62(randbits(256), SECRET_LENGTH)
    text = f"{PREFIX}{public_id}_{secret}"
    return NewKey(text + _checksum(text), public_id, hashlib.sha256(secret.encode()).digest())


def parse_key(text: object) -> tuple[str, bytes] | None:
    """(public id, digest of the secret), or None for anything but a complete key with a correct checksum."""
    if not isinstance(text, str) or len(text) != LENGTH or not text.isascii():
        return None
    # Within ASCII isalnum() is exactly base62.
    public_id, rest = text[ID_START:ID_END], text[SECRET_START:]
    if text[:ID_START] != PREFIX or text[ID_END] != "_" or not (public_id.isalnum() and rest.isalnum()):
        return None
    if _checksum(text[:SECRET_END]) != text[SECRET_END:]:
        return None
    return public_id, hashlib.sha256(rest[:SECRET_LENGTH].encode()).digest()


def without_secrets(text: str) -> str:
    """The text with each key in it, complete or truncated, replaced by its public id."""
    return _KEY.sub(r"\1", text)


def without_whole_keys(text: str) -> str:
    """The text with each complete key in it replaced by its public id. Names that merely begin like a key stay."""
    return _WHOLE_KEY.sub(r"\1", text)


def digests_match(expected: bytes | None, digest: bytes) -> bool:
    """Whether two digests are equal, in constant time; False if none is stored, in the same time."""
    return hmac.compare_digest(expected or DUMMY_DIGEST, digest) and expected is not None


def _checksum(text: str) -> str:
    high, low = divmod(crc32(text.encode()), 62**2)
    highest, middle = divmod(high, 62**2)
    return _PAIRS[highest] + _PAIRS[middle] + _PAIRS[low]


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(BASE62[digit])
    return "".join(reversed(digits))
