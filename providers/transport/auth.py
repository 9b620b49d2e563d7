"""How a provider's credential is sent: the headers and the query it becomes, or the signature it makes."""

import base64
import re
from urllib.parse import quote, urlsplit

from providers.transport.sigv4 import Signer

SIGV4 = "aws-sigv4"
ENCODED = ("basic", "query", "none")  # whatever the credential holds, what is sent of it is plain ASCII
REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]+")


class CredentialUnusable(Exception):
    """The authentication method cannot carry this credential."""


def headers(method: str, credential: str) -> dict[str, str]:
    """The headers that carry the credential."""
    if not credential or method in ("none", "query"):
        return {}
    if method == "bearer":
        return {"Authorization": f"Bearer {credential}"}
    if method == "basic":
        return {"Authorization": f"Basic {base64.b64encode(credential.encode()).decode()}"}
    if method in ("x-api-key", "api-key", "x-goog-api-key"):
        return {method: credential}
    raise CredentialUnusable(f"the authentication method {method} signs each request by itself")


def signer(method: str, credential: str, address: str) -> Signer | None:
    """Who signs the requests to this address, for the method that does so; None for all others.

    The credential is `ACCESS_KEY:SECRET_KEY[:SESSION_TOKEN[:REGION]]`; the region is for hosts that do not name it.
    """
    if method != SIGV4 or not credential:
        return None
    access_key, secret_key, token, region, *rest = [*credential.split(":"), "", "", ""]
    if not access_key or not secret_key or any(rest):
        raise CredentialUnusable("for aws-sigv4 it is written ACCESS_KEY:SECRET_KEY[:SESSION_TOKEN[:REGION]]")
    host_region, service = _region_and_service(urlsplit(address).hostname or "")
    if not (host_region or region):
        raise CredentialUnusable("the host names no region: add it, as ACCESS_KEY:SECRET_KEY:SESSION_TOKEN:REGION")
    return Signer(access_key, secret_key, token, host_region or region, service)


def check(method: str, credential: str, address: str) -> None:
    """Raise CredentialUnusable where no request to the address could carry the credential, which is never repeated."""
    signer(method, credential, address)
    if method == "basic" and credential and ":" not in credential:
        raise CredentialUnusable("for basic it is written user:password")
    if method in ENCODED or (credential.isascii() and credential.replace("\t", " ").isprintable()):
        return
    raise CredentialUnusable(
        "it contains a character that is not allowed in a header, such as a line break or a non-ASCII character"
    )


def secrets(method: str, credential: str) -> set[str]:
    """What of the credential may stand by itself somewhere, and must not be shown."""
    return set(credential.split(":")[:3]) if method == SIGV4 else set()


def _region_and_service(host: str) -> tuple[str, str]:
    """Region and signing name out of a host such as bedrock-runtime.eu-west-1.amazonaws.com; '' where it has none."""
    labels = host.split(".")
    at = next((at for at, label in enumerate(labels) if REGION.fullmatch(label)), 0)
    service = labels[at - 1] if at else "bedrock"
    return labels[at] if at else "", "bedrock" if service.startswith("bedrock") else service


def url(method: str, credential: str, address: str) -> str:
    """The address, with the credential as its `key` where the method says so."""
    if method != "query" or not credential:
        return address
    return f"{address}{'&' if '?' in address else '?'}key={quote(credential, safe='')}"
