"""Limits the entries of unknown callers: the first refusals of an address have entries, the others are counted."""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import orjson

from accounts.guessing.throttle import origin_of
from accounts.refusals.entry_budget import EntryBudget
from gateway_project.errors import AccessError, AuthenticationFailed, GatewayError
from gateway_project.json_types import JsonObject
from telemetry.journal.records import empty_log_entry

WINDOW_SECONDS = 60.0
MAX_LOGGED_ADDRESSES, MAX_COUNTS = 40, 1000  # as many refusals are logged as those of so many addresses
OTHERS = ""  # in the place of an address: all those beyond MAX_COUNTS


class Refusal(NamedTuple):
    """The key by which refusals are counted: an address and an error."""

    origin: str
    kind: type[GatewayError]


class Refusals:
    """The refusals of unknown callers in the present minute, as this process sees them.

    An IPv6 address counts as its /64 network, all of which one client has.
    """

    def __init__(self, own_entries: int) -> None:
        self._budget = EntryBudget(own_entries, MAX_LOGGED_ADDRESSES * own_entries)
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self._unlogged: Counter[Refusal] = Counter()

    def may_log(self, address: str, kind: type[GatewayError]) -> bool:
        """Whether one more refusal of this address gets an entry of its own; otherwise it is counted."""
        refusal = Refusal(origin_of(address), kind)
        with self._lock:
            if self._budget.take(refusal.origin):
                return True
            is_counted = refusal in self._unlogged or len(self._unlogged) < MAX_COUNTS
            self._unlogged[refusal if is_counted else Refusal(OTHERS, kind)] += 1
            return False

    def take_counts(self, *, at_once: bool = False) -> Mapping[Refusal, int]:
        """How many refusals of each kind have no entry, once a minute or at once; then the next minute begins."""
        now = time.monotonic()
        if not at_once and now - self._begun < WINDOW_SECONDS:
            return {}
        with self._lock:
            counts, self._unlogged, self._begun = self._unlogged, Counter(), now
            self._budget.begin()
        return counts


def summary_entry(refusal: Refusal, count: int, timestamp: str) -> JsonObject:
    """The entry of so many refusals."""
    origin, kind = refusal
    requests, whose = ("request", "its") if count == 1 else ("requests", "their")
    reason = f"had {whose} credentials refused"
    if not issubclass(kind, AuthenticationFailed):
        reason = f"failed before the user was known ({kind.exception})"
    return empty_log_entry() | {
        "entry_type": "Message",
        "entry_source": "Not Set",
        "timestamp": timestamp,
        "severity": "warning",
        "outcome": "denied" if issubclass(kind, AccessError) else "failed",
        "status": kind.code,
        "exception": kind.exception,
        "address": origin.partition("/")[0],
        "message": f"{count:,} more {requests} from {origin or 'other addresses'} {reason}.",
        "payload": orjson.dumps({"address": origin, "requests": count}).decode(),
    }
