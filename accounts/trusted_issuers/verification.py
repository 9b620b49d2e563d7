"""Whether a token is good, by what is in memory: its issuer's keys, audience and bounds. No database, no network."""

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from accounts.trusted_issuers.jwks import PublicKey
from gateway_project.errors import AuthenticationFailed
from gateway_project.json_types import JsonObject

MAX_TOKEN_LENGTH = 8192
MAX_SUBJECT_LENGTH = 500
REQUIRED = ["iss", "aud", "exp", "iat"]
UNKNOWN_KEY = "The key that signed this token is unknown."
IS_FETCHED = f"{UNKNOWN_KEY} The issuer's keys are fetched now; send the request again in a few seconds."


@dataclass(frozen=True, slots=True)
class IssuerSnapshot:
    """An enabled trusted issuer as requests see it."""

    id: int
    name: str
    issuer: str
    audience: str
    leeway_seconds: int
    max_age_seconds: int
    user_claim: str
    user_prefix: str
    subjects: Mapping[str, str]
    keys: Mapping[str, PublicKey] = field(repr=False)
    jwks_url: str = ""
    has_own_keys: bool = False  # stored by an administrator: none are fetched

    def username_of(self, subject: object) -> str:
        """The user whom a value of the claim stands for; '' for nobody."""
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_LENGTH:
            return ""
        return self.subjects.get(subject, "") if self.subjects else f"{self.user_prefix}{subject}"


class UnverifiedToken(NamedTuple):
    """What a text says that has the form of a JWT; anybody can have written it."""

    key_id: object
    algorithm: object
    issuer: object
    audience: object
    has_extensions: bool


class VerifiedToken(NamedTuple):
    """Whose token it is, and from when to when it is good, in seconds since 1970."""

    issuer: str  # the name of the trusted issuer
    username: str
    begins: float
    ends: float


def read_unverified(token: str) -> UnverifiedToken | None:
    """What a token says; None for a text that is no JWT."""
    segments = token.split(".")
    if len(segments) != 3:
        return None
    try:
        header, claims = map(_decode_segment, segments[:2])
    except ValueError:
        return None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        return None
    return UnverifiedToken(header.get("kid"), header.get("alg"), claims.get("iss"), claims.get("aud"), "crit" in header)


def _decode_segment(segment: str) -> object:
    return orjson.loads(urlsafe_b64decode(segment + "=" * (-len(segment) % 4)))


def verify_token(token: str, algorithm: object, key: PublicKey, issuer: IssuerSnapshot) -> VerifiedToken:
    """The token if this key of the issuer has signed it and all of its claims hold. Raises AuthenticationFailed.

    Whoever has a token that the issuer signed may know what is wrong with it; all others get the usual message.
    """
    if not isinstance(algorithm, str) or algorithm not in key.algorithms:
        raise AuthenticationFailed
    claims = _verified_claims(token, key, issuer)
    issued, expires = _seconds(claims, "iat"), _seconds(claims, "exp")
    begins = max(issued, _seconds(claims, "nbf") if "nbf" in claims else issued) - issuer.leeway_seconds
    ends = min(expires, issued + issuer.max_age_seconds) + issuer.leeway_seconds
    username = issuer.username_of(claims.get(issuer.user_claim))
    if not username:
        raise AuthenticationFailed(f"The token's {issuer.user_claim} names no user.")
    return VerifiedToken(issuer.name, username, begins, ends)


def require_time(token: VerifiedToken, now: float) -> None:
    """Raise AuthenticationFailed before the token is good, and after."""
    if now >= token.ends:
        raise AuthenticationFailed("The token has expired, or is older than the gateway accepts from its issuer.")
    if now < token.begins:
        raise AuthenticationFailed("The token is not valid yet.")


def _verified_claims(token: str, key: PublicKey, issuer: IssuerSnapshot) -> JsonObject:
    import jwt

    try:
        return jwt.decode(
            token,
            key.key,
            algorithms=sorted(key.algorithms),
            audience=issuer.audience,
            issuer=issuer.issuer,
            leeway=issuer.leeway_seconds,
            options={"require": REQUIRED, "verify_sub": False, "verify_jti": False},
        )
    except jwt.ExpiredSignatureError:
        raise AuthenticationFailed("The token has expired.") from None
    except jwt.ImmatureSignatureError:
        raise AuthenticationFailed("The token is not valid yet.") from None
    except jwt.InvalidAudienceError:
        raise AuthenticationFailed("The token is for another audience.") from None
    except jwt.MissingRequiredClaimError as error:
        raise AuthenticationFailed(f"The token has no claim {error.claim}.") from None
    except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError):
        raise AuthenticationFailed from None


def _seconds(claims: JsonObject, name: str) -> float:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AuthenticationFailed(f"The token's {name} is not a number.")
    return float(value)
