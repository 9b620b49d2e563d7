"""The attributes of a trusted issuer as the API and the console take them: addresses, algorithms, subjects, keys."""

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from accounts.trusted_issuers.jwks import ALGORITHMS, BadKeySet, has_private_members, read_key_set
from gateway_project.errors import ValidationError
from gateway_project.json_types import JsonObject

MAX_URL_LENGTH = 2000
MAX_SUBJECTS, MAX_SUBJECT_LENGTH, MAX_USERNAME_LENGTH = 1000, 500, 150
DEFAULT_ALGORITHMS = ("RS256", "ES256")
NEEDS_HTTPS = "must be an https URL without a user name, such as https://login.example.org/keys."


def is_fetchable(url: str) -> bool:
    """Whether keys may be fetched from this URL: over https, or over http from this machine."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    is_plain = url.isascii() and url.isprintable() and " " not in url and "@" not in parts.netloc and "\\" not in url
    if not host or port == 0 or not is_plain or len(url) > MAX_URL_LENGTH:
        return False
    return parts.scheme == "https" or is_local(url)


def is_local(url: str) -> bool:
    """Whether it is an http URL of this machine."""
    parts = urlsplit(url)
    if parts.scheme != "http":
        return False
    try:
        return parts.hostname == "localhost" or ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def read_algorithms(value: object, path: str = "") -> list[str]:
    """Names of asymmetric algorithms; raises ValidationError."""
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise ValidationError("must be an array of one or more algorithms.", field=path)
    if unknown := [name for name in value if name not in ALGORITHMS]:
        raise ValidationError(f"{unknown[0][:20]} is none of {', '.join(ALGORITHMS)}.", field=path)
    return list(dict.fromkeys(value))


def read_subjects(value: object, path: str = "") -> dict[str, str]:
    """User names by the exact values of the claim; raises ValidationError."""
    if not isinstance(value, dict):
        raise ValidationError('must be an object with user names by values of the claim: {"…": "ann"}.', field=path)
    if len(value) > MAX_SUBJECTS:
        raise ValidationError(f"must have at most {MAX_SUBJECTS:,} members.", field=path)
    for subject, username in value.items():
        if not 0 < len(subject) <= MAX_SUBJECT_LENGTH or not subject.isprintable():
            raise ValidationError(f"must have names of 1 to {MAX_SUBJECT_LENGTH} printable characters.", field=path)
        if not isinstance(username, str) or not 0 < len(username) <= MAX_USERNAME_LENGTH:
            raise ValidationError(f"{subject[:60]!r} must have the name of a user.", field=path)
        if not username.isprintable():
            raise ValidationError(f"there is no user named {username!a}.", field=path)
    return dict(value)


def read_jwks(value: object, path: str = "") -> JsonObject | None:
    """A key set that an administrator pastes, with its public members alone; null for none. Raises ValidationError."""
    if value is None:
        return None
    try:
        if has_private_members(value):
            raise ValidationError("must not contain private or symmetric keys.", field=path)
        keys, problems = key_set = read_key_set(value)
    except BadKeySet as error:
        raise ValidationError(str(error), field=path) from None
    if problems or not keys:
        raise ValidationError(problems[0] if problems else "must contain a key for signatures.", field=path)
    return key_set.document


def key_ids(document: object) -> Iterable[str]:
    """The ids of the keys in a stored set."""
    keys = document.get("keys") if isinstance(document, dict) else None
    rows = keys if isinstance(keys, list) else []
    return [row["kid"] for row in rows if isinstance(row, dict) and isinstance(row.get("kid"), str)]
