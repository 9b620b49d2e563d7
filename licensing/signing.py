"""Licence keys: compact JWS (RFC 7515) signed with Ed25519 (RFC 8037); nothing in a key chooses how it is checked."""

import base64
import re
from dataclasses import dataclass
from datetime import date
from typing import Any

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gateway_project.errors import ValidationError
from gateway_project.strictjson import parse_object

LONGEST = 4096
LONGEST_SENT = 2 * LONGEST  # with the blanks of the file that it was copied from
LONGEST_TEXT = 200
MOST_USES = 10**9
MOST_SECONDS = 366 * 24 * 3600
HEADER = {"alg": "EdDSA", "typ": "JWT"}
PARTS = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\Z")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")


class KeyRefused(ValueError):
    """The text is no licence key of this vendor; the message says why, in words for people."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What a licence key says; `expiry` is its last good day (UTC), 0 uses are unlimited, the lifetime is seconds."""

    type: str
    licensee: str
    expiry: date
    max_active_uses: int
    active_use_life_time: int
    id: str = ""
    issued: date | None = None


def new_key_pair() -> tuple[str, str]:
    """A private key and its public key, each 32 bytes as base64url."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    return _encoded(private), _encoded(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))


def sign(claims: Claims, private_key: str) -> str:
    """The licence key that says this; raises KeyRefused for what could not be read back."""
    told = {
        "id": claims.id,
        "issued": claims.issued.isoformat() if claims.issued else None,
        "type": claims.type,
        "licensee": claims.licensee,
        "expiry": claims.expiry.isoformat(),
        "maxActiveUses": claims.max_active_uses,
        "activeUseLifeTime": claims.active_use_life_time,
    }
    told = {name: value for name, value in told.items() if value not in ("", None)}
    _claims(told)
    signed = f"{_encoded(orjson.dumps(HEADER))}.{_encoded(orjson.dumps(told))}"
    return f"{signed}.{_encoded(_private(private_key).sign(signed.encode()))}"


def verify(text: str, public_key: str) -> Claims:
    """What a key of the vendor says; raises KeyRefused. A key whose time is over is still the vendor's."""
    parts = PARTS.match(text) if len(text) <= LONGEST else None
    if parts is None:
        raise KeyRefused(f"It is not a licence key: three parts of base64url, at most {LONGEST} characters in all.")
    header, payload, signature = map(_decoded, parts.groups())
    # Before any of it is read: what nobody has signed is not looked at.
    try:
        read_public_key(public_key).verify(signature, text.rpartition(".")[0].encode())
    except InvalidSignature:
        raise KeyRefused("Its signature is not the vendor's: it was altered, or made for another public key.") from None
    _check_header(_object(header))
    return _claims(_object(payload))


def read_public_key(text: str) -> Ed25519PublicKey:
    """The public key that a text holds; raises KeyRefused."""
    try:
        return Ed25519PublicKey.from_public_bytes(_decoded(text))
    except ValueError:
        raise KeyRefused("There is no good public key to check it against (GATEWAY_LICENCE_PUBLIC_KEY).") from None


def _private(text: str) -> Ed25519PrivateKey:
    try:
        return Ed25519PrivateKey.from_private_bytes(_decoded(text))
    except ValueError:
        raise KeyRefused("The private key is not one that `licence keygen` has made.") from None


def _check_header(header: dict[str, Any]) -> None:
    # A name that is not known here may change what a key means: none is passed over (RFC 7515, 4.1.11).
    if header.get("alg") != HEADER["alg"] or header.keys() - HEADER.keys():
        raise KeyRefused("Its header must say alg EdDSA, and nothing else that matters.")


def _claims(told: dict[str, Any]) -> Claims:
    return Claims(
        type=_text(told, "type"),
        licensee=_text(told, "licensee"),
        expiry=_date(told, "expiry"),
        max_active_uses=_whole(told, "maxActiveUses", 0, MOST_USES),
        active_use_life_time=_whole(told, "activeUseLifeTime", 1, MOST_SECONDS),
        id=_text(told, "id") if "id" in told else "",
        issued=_date(told, "issued") if "issued" in told else None,
    )


def _text(told: dict[str, Any], name: str) -> str:
    value = told.get(name)
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > LONGEST_TEXT:
        raise KeyRefused(f"{name}: must be a printable text of at most {LONGEST_TEXT} characters.")
    return value


def _date(told: dict[str, Any], name: str) -> date:
    value = told.get(name)
    try:
        if isinstance(value, str) and DATE.match(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise KeyRefused(f"{name}: must be a date, as 2030-12-31.")


def _whole(told: dict[str, Any], name: str, least: int, most: int) -> int:
    value = told.get(name)
    if type(value) is not int or not least <= value <= most:
        raise KeyRefused(f"{name}: must be a whole number from {least} to {most}.")
    return value


def _object(raw: bytes) -> dict[str, Any]:
    try:
        return parse_object(raw)
    except ValidationError:
        raise KeyRefused("It does not hold what a licence key holds: two JSON objects.") from None


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    """The bytes; raises KeyRefused unless the text is the one way in which they are written."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raw = b""
    if not raw or _encoded(raw) != text:
        raise KeyRefused("It is not written as base64url.")
    return raw
