"""Fetches the keys of trusted issuers in the background: one of all processes does it, and all get them by the feed.

Only the issuer's row, or the configuration at its own address, says where they are; never a token.
"""

import logging
import math
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils import timezone

from accounts.trusted_issuers.book import IssuerBook
from accounts.trusted_issuers.fetching import KeySource, fetch_and_store
from accounts.trusted_issuers.models import TrustedIssuer
from accounts.trusted_issuers.services import claim_fetch
from accounts.trusted_issuers.verification import IssuerSnapshot
from gateway_project.background import BackgroundThread
from gateway_project.work.gateway import Gateway

log = logging.getLogger("gateway.issuers")

TICK_SECONDS = 0.5
REFRESH_SECONDS = 300.0  # how often keys are fetched
RETRY_SECONDS = 30.0  # at most so often for unknown keys, or after a failure
CLAIM_SECONDS = 2.0  # between two tries to be the one who fetches


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
        request_time = book.wanted_keys.get(issuer.id)
        if now < (schedule.due if request_time is None else schedule.last_try + CLAIM_SECONDS):
            return
        schedule.last_try = now
        is_urgent = request_time is not None or schedule.has_failed or not issuer.keys
        if claim_fetch(issuer.id, every=RETRY_SECONDS if is_urgent else REFRESH_SECONDS, now=timezone.now()):
            source = KeySource(issuer.id, issuer.name, issuer.issuer, issuer.jwks_url)
            schedule.has_failed = not fetch_and_store(source)
            schedule.due = now + (RETRY_SECONDS if schedule.has_failed else REFRESH_SECONDS) + TICK_SECONDS
            book.wanted_keys.pop(issuer.id, None)
            return
        schedule.due = now + RETRY_SECONDS
        if request_time is not None and _is_fetched_since(issuer, request_time):
            book.wanted_keys.pop(issuer.id, None)


def _is_fetched_since(issuer: IssuerSnapshot, at: float) -> bool:
    return TrustedIssuer.objects.filter(pk=issuer.id).fetched_since(datetime.fromtimestamp(at, UTC)).exists()
