"""Licence keys: compact JWS (RFC 7515) signed with Ed25519 (RFC 8037); nothing in a key chooses how it is checked."""

import base64
import re
from dataclasses import dataclass
from datetime import date

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gateway_project.api.strict_json import parse_object
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject

MAX_LENGTH = 4096
MAX_SENT_LENGTH = 2 * MAX_LENGTH  # with the blanks of the file that it was copied from
MAX_TEXT_LENGTH = 200
MAX_USES = 10**9
MAX_LIFETIME_SECONDS = 366 * 24 * 3600
HEADER = {"alg": "EdDSA", "typ": "JWT"}
JWS_PARTS = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\Z")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")


class KeyRefused(ValueError):
    """The text is not a licence key of this vendor; the message names the claim, if one is wrong, and why."""

    def __init__(self, reason: str, claim: str = "") -> None:
        super().__init__(f"{claim}: {reason}" if claim else reason)
        self.reason, self.claim = reason, claim


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims of a licence key; `expiry` is its last valid day (UTC), 0 uses are unlimited, the lifetime is seconds."""

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
    return _base64url(private), _base64url(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))


def sign_licence(claims: Claims, private_key: str) -> str:
    """The licence key with these claims; raises KeyRefused for claims that verify_licence() would refuse."""
    payload = {
        "id": claims.id,
        "issued": claims.issued.isoformat() if claims.issued else None,
        "type": claims.type,
        "licensee": claims.licensee,
        "expiry": claims.expiry.isoformat(),
        "maxActiveUses": claims.max_active_uses,
        "activeUseLifeTime": claims.active_use_life_time,
    }
    payload = {name: value for name, value in payload.items() if value not in ("", None)}
    _claims(payload)
    signed = f"{_base64url(orjson.dumps(HEADER))}.{_base64url(orjson.dumps(payload))}"
    return f"{signed}.{_base64url(_private(private_key).sign(signed.encode()))}"


def verify_licence(text: str, public_key: str) -> Claims:
    """The claims of a key of the vendor; raises KeyRefused. Expired keys are verified too."""
    parts = JWS_PARTS.match(text) if len(text) <= MAX_LENGTH else None
    if parts is None:
        raise KeyRefused(f"It is not a licence key: three parts of base64url, at most {MAX_LENGTH} characters in all.")
    header, payload, signature = map(_from_base64url, parts.groups())
    # The signature is checked before header and payload are parsed.
    try:
        read_public_key(public_key).verify(signature, text.rpartition(".")[0].encode())
    except InvalidSignature:
        raise KeyRefused(
            "Its signature is not the vendor's: the key was altered, or made for another public key."
        ) from None
    _check_header(_object(header))
    return _claims(_object(payload))


def read_public_key(text: str) -> Ed25519PublicKey:
    """The public key that a text holds; raises KeyRefused."""
    try:
        return Ed25519PublicKey.from_public_bytes(_from_base64url(text))
    except ValueError:
        raise KeyRefused("GATEWAY_LICENCE_PUBLIC_KEY is not a valid public key.") from None


def _private(text: str) -> Ed25519PrivateKey:
    try:
        return Ed25519PrivateKey.from_private_bytes(_from_base64url(text))
    except ValueError:
        raise KeyRefused("This is not a private key of `licence keygen`.") from None


def _check_header(header: JsonObject) -> None:
    # Unknown header parameters may change a key's meaning: none is ignored (RFC 7515, 4.1.11).
    if header.get("alg") != HEADER["alg"] or header.keys() - HEADER.keys():
        raise KeyRefused("Its header must have alg EdDSA and no other member that changes the meaning.")


def _claims(claims: JsonObject) -> Claims:
    return Claims(
        type=_text(claims, "type"),
        licensee=_text(claims, "licensee"),
        expiry=_date(claims, "expiry"),
        max_active_uses=_integer(claims, "maxActiveUses", 0, MAX_USES),
        active_use_life_time=_integer(claims, "activeUseLifeTime", 1, MAX_LIFETIME_SECONDS),
        id=_text(claims, "id") if "id" in claims else "",
        issued=_date(claims, "issued") if "issued" in claims else None,
    )


def _text(claims: JsonObject, name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MAX_TEXT_LENGTH:
        raise KeyRefused(f"must be a printable text of at most {MAX_TEXT_LENGTH} characters.", name)
    return value


def _date(claims: JsonObject, name: str) -> date:
    value = claims.get(name)
    try:
        if isinstance(value, str) and DATE.match(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise KeyRefused("must be a date such as 2030-12-31.", name)


def _integer(claims: JsonObject, name: str, minimum: int, maximum: int) -> int:
    value = claims.get(name)
    if type(value) is not int or not minimum <= value <= maximum:
        raise KeyRefused(f"must be a whole number from {minimum} to {maximum}.", name)
    return value


def _object(raw: bytes) -> JsonObject:
    try:
        return parse_object(raw)
    except ValidationError:
        raise KeyRefused("A licence key must contain two JSON objects; this one does not.") from None


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _from_base64url(text: str) -> bytes:
    """The bytes of a base64url text; raises KeyRefused unless the text is their canonical form."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raw = b""
    if not raw or _base64url(raw) != text:
        raise KeyRefused("It is not written as base64url.")
    return raw
