"""Bounds what unknown credentials write: the first refusals of an address have entries, the others are counted."""

import threading
import time
from collections import Counter
from collections.abc import Mapping

import orjson

from accounts.guessing.throttle import origin_of
from gateway_project.errors import AuthenticationFailed
from gateway_project.json_types import JsonObject
from telemetry.journal.records import empty_log_entry

WINDOW_SECONDS = 60.0
MAX_LOGGED_ADDRESSES, MAX_ADDRESSES = 40, 1000  # as many refusals are logged as those of so many addresses
OTHERS = ""  # in the place of an address: all those beyond MAX_ADDRESSES


class Refusals:
    """The refusals of unknown credentials in the present minute, as this process sees them.

    An IPv6 address counts as its /64 network, all of which one client has.
    """

    def __init__(self, own_entries: int) -> None:
        self._max_own_entries = own_entries  # of one address
        self._lock = threading.Lock()
        self._begin(time.monotonic())

    def _begin(self, now: float) -> None:
        self._begun, self._own_entries = now, 0
        self._logged: Counter[str] = Counter()
        self._unlogged: Counter[str] = Counter()

    def may_log(self, address: str) -> bool:
        """Whether one more refusal of this address gets an entry of its own; otherwise it is counted."""
        origin = origin_of(address)
        with self._lock:
            is_logged = self._own_entries < MAX_LOGGED_ADDRESSES * self._max_own_entries
            if is_logged and self._logged[origin] < self._max_own_entries:
                self._logged[origin] += 1
                self._own_entries += 1
                return True
            is_known = origin in self._unlogged or len(self._unlogged) < MAX_ADDRESSES
            self._unlogged[origin if is_known else OTHERS] += 1
            return False

    def take_counts(self, *, at_once: bool = False) -> Mapping[str, int]:
        """How many refusals of each address have no entry, once a minute or at once; then the next minute begins."""
        now = time.monotonic()
        if not at_once and now - self._begun < WINDOW_SECONDS:
            return {}
        with self._lock:
            counts = self._unlogged
            self._begin(now)
        return counts


def summary_entry(origin: str, count: int, timestamp: str) -> JsonObject:
    """The entry of so many refusals."""
    requests, whose = ("request", "its") if count == 1 else ("requests", "their")
    return empty_log_entry() | {
        "entry_type": "Message",
        "entry_source": "Not Set",
        "timestamp": timestamp,
        "severity": "warning",
        "outcome": "denied",
        "status": AuthenticationFailed.code,
        "exception": AuthenticationFailed.__name__,
        "address": origin.partition("/")[0] or None,
        "message": f"{count:,} more {requests} from {origin or 'other addresses'} had {whose} credentials refused.",
        "payload": orjson.dumps({"address": origin, "requests": count}).decode(),
    }
