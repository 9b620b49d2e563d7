"""Failed logins, which anybody can cause: the first of a minute are recorded each, the others as one event.

So the audit, which is kept for ever, says who was attacked, from where and how often, and nobody can fill it.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from django.conf import settings
from django.db import DatabaseError

from accounts.guessing.throttle import origin_of
from accounts.refusals.entry_budget import EntryBudget
from gateway_project.api import audit

WINDOW_SECONDS = 60.0
MAX_LOGGED_ADDRESSES = 4  # as many failed logins are recorded as those of so many addresses
MAX_COUNTS = 100  # accounts, and addresses, that have a number of their own
OTHERS = "others"
NOBODY = ""  # in the place of an account: a name that no user has


class FailedLogins:
    """The failed logins of the present minute, as this process sees them; an IPv6 address counts as its /64 network."""

    def __init__(self) -> None:
        self._budget = EntryBudget(0, 0)
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._begun = time.monotonic()
        self._budget.begin()
        self._accounts: Counter[str] = Counter()
        self._addresses: Counter[str] = Counter()

    def record(self, record_event: Callable[[], None], *, address: str, account: str) -> None:
        """Record one by calling the function, or count it if its address, its account or all have had enough."""
        if time.monotonic() - self._begun >= WINDOW_SECONDS:
            self.write_counts()
        if self._take_entry(origin_of(address), account):
            record_event()

    def _take_entry(self, origin: str, account: str) -> bool:
        names = [f"address {origin}"] + ([f"account {account}"] if account != NOBODY else [])
        with self._lock:
            self._budget.each = settings.GATEWAY_REFUSAL_ENTRIES
            self._budget.total = MAX_LOGGED_ADDRESSES * settings.GATEWAY_REFUSAL_ENTRIES
            if self._budget.take(*names):
                return True
            _add(self._accounts, account)
            _add(self._addresses, origin)
            return False

    def write_counts(self) -> None:
        """Record those that were counted, as one event, and begin the next minute. None are lost if that fails."""
        with self._lock:
            accounts, addresses = self._accounts, self._addresses
            self._begin()
        try:
            if accounts:
                _record_counts(accounts, addresses)
        except DatabaseError:
            with self._lock:
                self._accounts.update(accounts)
                self._addresses.update(addresses)
            raise


def _add(counts: Counter[str], name: str) -> None:
    counts[name if name in counts or len(counts) < MAX_COUNTS else OTHERS] += 1


def _record_counts(accounts: Mapping[str, int], addresses: Mapping[str, int]) -> None:
    users = {name: count for name, count in accounts.items() if name != NOBODY}
    number, unknown = sum(accounts.values()), accounts.get(NOBODY, 0)
    whom = ", ".join([*_name_most_frequent(users), *([f"names that no user has ({unknown:,})"] if unknown else [])])
    audit.record(
        audit.Actor(),
        "login",
        "auth",
        after={"failedLogins": number, "users": users, "unknownNames": unknown, "addresses": addresses},
        message=f"{number:,} more logins failed: for {whom}, from {', '.join(_name_most_frequent(addresses))}.",
        severity="warning",
        is_refusal=True,
    )


def _name_most_frequent(counts: Mapping[str, int]) -> list[str]:
    """The three most frequent names with their numbers, and how many more there are."""
    names = [f"{name} ({count:,})" for name, count in Counter(counts).most_common(3)]
    return names + ([f"{len(counts) - 3:,} more"] if len(counts) > 3 else [])


failed_logins = FailedLogins()
