"""The keys of a trusted issuer from its own server. Only its row says where they are, never a token."""

import logging
import time
from dataclasses import dataclass

import orjson
from django.conf import settings
from django.utils import timezone

from accounts.trusted_issuers.jwks import BadKeySet, KeySet, read_key_set
from accounts.trusted_issuers.models import TrustedIssuer
from accounts.trusted_issuers.services import claim_fetch, drop_stale_keys, store_fetch_problem, store_fetched_keys
from accounts.trusted_issuers.values import is_fetchable, is_local
from gateway_project.errors import Conflict, RateLimited
from providers.transport.documents import DocumentUnavailable, fetch_document
from providers.transport.fetching import Bounds

log = logging.getLogger("gateway.issuers")

FETCH_SECONDS = 5.0  # for both documents
MAX_BYTES = 256 * 1024
ORDERED_SECONDS = 5  # between two fetches that somebody orders
CONFIGURATION = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where the keys of an issuer come from."""

    id: int
    name: str
    issuer: str
    jwks_url: str


def fetch_keys_now(row: TrustedIssuer) -> None:
    """Fetch the keys of an issuer and store them, or why there are none; not in a transaction.

    Raises Conflict for an issuer whose keys are not fetched, and RateLimited right after another fetch.
    """
    if row.has_own_keys:
        raise Conflict("The keys of this issuer are stored in jwks. None are fetched.")
    if not row.enabled:
        raise Conflict("The issuer is disabled. Its keys are not fetched.")
    if not claim_fetch(row.pk, every=ORDERED_SECONDS, now=timezone.now()):
        raise RateLimited("The keys have just been fetched.", retry_after=ORDERED_SECONDS)
    fetch_and_store(KeySource(row.pk, row.name, row.issuer, row.jwks_url))
    row.refresh_from_db()


def fetch_and_store(source: KeySource) -> bool:
    """Whether the keys could be fetched; a problem is logged once, until it changes."""
    try:
        keys = fetch_keys(source)
    except DocumentUnavailable as error:
        if store_fetch_problem(source.id, f"{error}."):
            log.warning("The keys of the trusted issuer %s could not be fetched: %s.", source.name, error)
        if drop_stale_keys(source.id):
            log.error(
                "The keys of the trusted issuer %s could not be fetched for a day. They are no longer accepted.",
                source.name,
            )
        return False
    problem = " ".join(keys.problems)
    store_fetched_keys(source.id, issuer=source.issuer, jwks_url=source.jwks_url, jwks=keys.document, problem=problem)
    return True


def fetch_keys(source: KeySource) -> KeySet:
    """The keys that the issuer publishes now. Raises DocumentUnavailable."""
    deadline = time.monotonic() + FETCH_SECONDS
    url = source.jwks_url or _discover(source.issuer, deadline)
    try:
        return read_key_set(_read(url, deadline))
    except BadKeySet as error:
        raise DocumentUnavailable(f"{url} {error}") from None


def _discover(issuer: str, deadline: float) -> str:
    """Where the keys are by the issuer's own configuration. Raises DocumentUnavailable."""
    url = issuer.rstrip("/") + CONFIGURATION
    configuration = _read(url, deadline)
    if not isinstance(configuration, dict) or configuration.get("issuer") != issuer:
        raise DocumentUnavailable(f"{url} is the configuration of another issuer")
    address = configuration.get("jwks_uri")
    # Only a configuration of this machine may lead to this machine over http.
    if not isinstance(address, str) or not is_fetchable(address) or (is_local(address) and not is_local(issuer)):
        raise DocumentUnavailable(f"the jwks_uri in {url} is not an https address")
    return address


def _read(url: str, deadline: float) -> object:
    seconds = max(deadline - time.monotonic(), 0.001)
    try:
        return orjson.loads(fetch_document(url, Bounds(seconds, MAX_BYTES, settings.GATEWAY_PROVIDER_NETWORKS)))
    except orjson.JSONDecodeError:
        raise DocumentUnavailable(f"{url} is not JSON") from None
