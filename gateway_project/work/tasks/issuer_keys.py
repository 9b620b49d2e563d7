"""Fetches the keys of trusted issuers in the background: one of all processes does it, and all get them by the feed.

Where to is said by the issuer's row alone, or by the configuration that its own address has; never by a token.
"""

import logging
import math
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson
from django.conf import settings
from django.utils import timezone

from accounts.trusted_issuers.book import IssuerBook
from accounts.trusted_issuers.jwks import BadKeySet, KeySet, read_key_set
from accounts.trusted_issuers.models import TrustedIssuer
from accounts.trusted_issuers.services import claim_fetch, store_fetch_problem, store_fetched_keys
from accounts.trusted_issuers.values import is_fetchable, is_local
from accounts.trusted_issuers.verification import IssuerSnapshot
from gateway_project.background import BackgroundThread
from gateway_project.work.gateway import Gateway
from providers.transport.documents import DocumentUnavailable, fetch_document
from providers.transport.fetching import Bounds

log = logging.getLogger("gateway.issuers")

TICK_SECONDS = 0.5
REFRESH_SECONDS = 300.0  # how often keys are fetched
RETRY_SECONDS = 30.0  # at most so often for unknown keys, or after a failure
CLAIM_SECONDS = 2.0  # between two tries to be the one who fetches
FETCH_SECONDS = 5.0  # for both documents
MAX_BYTES = 256 * 1024
CONFIGURATION = "/.well-known/openid-configuration"


@dataclass(slots=True)
class Schedule:
    """When this process tries to be the one who fetches; in seconds of the monotonic clock."""

    due: float = 0.0
    last_try: float = -math.inf
    has_failed: bool = False


class IssuerKeys(BackgroundThread):
    """The thread that fetches keys: of every issuer from time to time, and of one whose token names an unknown key."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__("issuer keys", log, every=TICK_SECONDS)
        self._gateway = gateway
        self._schedules: dict[tuple[int, str, str], Schedule] = defaultdict(Schedule)  # by issuer and addresses

    def run_once(self) -> None:
        book = self._gateway.snapshot.issuers
        if book is None:
            return
        issuers = [issuer for issuer in book.issuers if not issuer.has_own_keys]
        for issuer in sorted(issuers, key=lambda issuer: issuer.id not in book.wanted_keys):
            if self.stopped.is_set():
                return
            self._refresh(issuer, book)

    def _refresh(self, issuer: IssuerSnapshot, book: IssuerBook) -> None:
        schedule, now = self._schedules[issuer.id, issuer.issuer, issuer.jwks_url], time.monotonic()
        asked_time = book.wanted_keys.get(issuer.id)
        if now < (schedule.due if asked_time is None else schedule.last_try + CLAIM_SECONDS):
            return
        schedule.last_try = now
        is_urgent = asked_time is not None or schedule.has_failed or not issuer.keys
        if claim_fetch(issuer.id, every=RETRY_SECONDS if is_urgent else REFRESH_SECONDS, now=timezone.now()):
            schedule.has_failed = not _fetch_and_store(issuer)
            schedule.due = now + (RETRY_SECONDS if schedule.has_failed else REFRESH_SECONDS) + TICK_SECONDS
            book.wanted_keys.pop(issuer.id, None)
            return
        schedule.due = now + RETRY_SECONDS
        if asked_time is not None and _is_fetched_since(issuer, asked_time):
            book.wanted_keys.pop(issuer.id, None)


def fetch_keys(issuer: IssuerSnapshot) -> KeySet:
    """The keys that the issuer publishes now. Raises DocumentUnavailable."""
    deadline = time.monotonic() + FETCH_SECONDS
    url = issuer.jwks_url or _discover(issuer.issuer, deadline)
    try:
        return read_key_set(_read(url, deadline))
    except BadKeySet as error:
        raise DocumentUnavailable(f"{url} {error}") from None


def _fetch_and_store(issuer: IssuerSnapshot) -> bool:
    """Whether the keys could be fetched; in the log a problem stands once, until it is another."""
    try:
        keys = fetch_keys(issuer)
    except DocumentUnavailable as error:
        if store_fetch_problem(issuer.id, f"{error}."):
            log.warning("The keys of the trusted issuer %s are not fetched: %s.", issuer.name, error)
        return False
    problem = " ".join(keys.problems)
    store_fetched_keys(issuer.id, issuer=issuer.issuer, jwks_url=issuer.jwks_url, jwks=keys.document, problem=problem)
    return True


def _discover(issuer: str, deadline: float) -> str:
    """Where the keys are by the issuer's own configuration. Raises DocumentUnavailable."""
    url = issuer.rstrip("/") + CONFIGURATION
    configuration = _read(url, deadline)
    if not isinstance(configuration, dict) or configuration.get("issuer") != issuer:
        raise DocumentUnavailable(f"{url} is the configuration of another issuer")
    address = configuration.get("jwks_uri")
    # Only a configuration of this machine may lead to this machine over http.
    if not isinstance(address, str) or not is_fetchable(address) or (is_local(address) and not is_local(issuer)):
        raise DocumentUnavailable(f"{url} names no https address as jwks_uri")
    return address


def _read(url: str, deadline: float) -> object:
    seconds = max(deadline - time.monotonic(), 0.001)
    try:
        return orjson.loads(fetch_document(url, Bounds(seconds, MAX_BYTES, settings.GATEWAY_PROVIDER_NETWORKS)))
    except orjson.JSONDecodeError:
        raise DocumentUnavailable(f"{url} is not JSON") from None


def _is_fetched_since(issuer: IssuerSnapshot, at: float) -> bool:
    return TrustedIssuer.objects.filter(pk=issuer.id).fetched_since(datetime.fromtimestamp(at, UTC)).exists()
