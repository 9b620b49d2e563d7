"""Proof that a change is in force: awaited after the change, and kept in the audit.

A request may wait, but holds no transaction, lock or connection of the database meanwhile, and few may wait at once.
"""

import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection, transaction

from gateway_project.api import audit
from gateway_project.change_feed.cuts import Credential, order_cuts
from gateway_project.change_feed.feed import ChangeFeed
from gateway_project.errors import ServiceUnavailable
from gateway_project.hooks import Hook
from gateway_project.json_types import JsonObject

log = logging.getLogger("gateway.revocation")

MAX_WAITING, MAX_WAITING_OF_A_USER = 32, 8  # by each process
WAITING_SHARE = 8  # of the threads, an eighth may wait
MAX_NAMED = 100  # credentials in a row of the audit


class InForce(NamedTuple):
    """How many live workers there are, how many have acknowledged a change, and how many requests it has ended."""

    workers: int
    acknowledged: int
    seconds: float
    ended: int = 0

    @property
    def is_everywhere(self) -> bool:
        return self.acknowledged >= self.workers

    def document(self, *, cuts: bool) -> JsonObject:
        """As the management API answers; with `ended` if running requests were to end."""
        values = {"workers": self.workers, "acknowledged": self.acknowledged, "seconds": self.seconds}
        return {**values, "ended": self.ended} if cuts else values

    def sentence(self, *, cuts: bool) -> str:
        """The same for people."""
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        requests = "1 running request was" if self.ended == 1 else f"{self.ended} running requests were"
        ended = f" {requests} ended." if cuts else ""
        return f"In force on {self.acknowledged} of {workers} after {self.seconds:.1f} s.{ended}"


# Waits until the change with this mark in the change feed is in force, for at most so many seconds; counts the requests
# that were ended.
await_in_force: Hook[[int, Collection[Credential], float], InForce] = Hook("await_in_force")


class Waiters:
    """The requests of this process that wait: as few as leave the threads to others."""

    def __init__(self) -> None:
        self._by_user: Counter[int | None] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def place(self, user_id: int | None) -> Iterator[None]:
        """Within this block a request may wait. Raises ServiceUnavailable if too many do."""
        most = max(1, min(MAX_WAITING, settings.GATEWAY_THREADS // WAITING_SHARE))
        with self._lock:
            if self._by_user.total() >= most or self._by_user[user_id] >= MAX_WAITING_OF_A_USER:
                raise ServiceUnavailable(
                    "Nothing was changed: too many requests are waiting for a change to be in force. Send the request "
                    "without wait, or again in a moment."
                )
            self._by_user[user_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._by_user[user_id] -= 1
                if not self._by_user[user_id]:
                    del self._by_user[user_id]


waiters = Waiters()


class Revocation:
    """What a request wants besides its change: proof that it is in force, and the end of what runs."""

    def __init__(self, resource: str, *, waits: bool = False, cuts: bool = False) -> None:
        self.resource = resource
        self.waits, self.cuts = waits, cuts
        self.is_ordered = False  # whether something was changed
        self._change: int | None = None
        self._row_id: int | None = None
        self._credentials: list[Credential] = []

    def order(self, actor: audit.Actor, row_id: int | None, credentials: Collection[Credential]) -> None:
        """Order what is wanted, in the transaction of the change and after it."""
        self.is_ordered = True
        if self.cuts:
            order_cuts(credentials)
            self._credentials += credentials
            names = [str(one) for one in sorted(set(credentials))[:MAX_NAMED]]
            message = f"{actor.name or 'Nobody'} ends the running requests of {_names(names, len(credentials))}."
            audit.record(actor, "cut", self.resource, row_id, after={"credentials": names}, message=message)
        if self.waits:
            self._row_id = row_id if self._change is None else None  # of several rows none is named
            self._change = ChangeFeed(connection).own_mark()

    def conclude(self, actor: audit.Actor) -> InForce | None:
        """Wait until the change is in force and keep the receipt; None if nobody waits.

        Where nothing was left to change, all that was changed before is waited for.
        """
        if not self.waits:
            return None
        change = ChangeFeed(connection).own_mark() if self._change is None else self._change
        seconds = settings.GATEWAY_REVOCATION_TIMEOUT
        if connection.in_atomic_block:
            seconds = 0  # nobody sees the change before the transaction has ended
        else:
            connection.close()  # back to the pool: others need it meanwhile
        in_force = await_in_force(change, self._credentials, seconds)
        try:
            with transaction.atomic():
                self._keep_receipt(actor, in_force)
        except DatabaseError:  # the change is made, whatever becomes of its receipt
            log.warning("The receipt of a change of %s could not be stored.", self.resource, exc_info=True)
        return in_force

    def _keep_receipt(self, actor: audit.Actor, in_force: InForce) -> None:
        audit.record(
            actor,
            "revocation in force",
            self.resource,
            self._row_id,
            after=in_force.document(cuts=self.cuts),
            message=in_force.sentence(cuts=self.cuts),
            severity="info" if in_force.is_everywhere else "warning",
        )


def _names(names: list[str], number: int) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{number} keys and users"
