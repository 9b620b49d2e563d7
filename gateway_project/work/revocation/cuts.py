"""Ends the running requests of keys and users that were revoked."""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from gateway_project.change_feed.cuts import Credential
from providers.transport.calls import Call, End

if TYPE_CHECKING:
    from gateway_project.work.exchange import Identity

# A request that has begun is in the watcher's list most of the time; it is found later if it is not now.
KEEP_SECONDS = 600.0


@dataclass(slots=True)
class Cut:
    """When the requests of one credential were ended, and which."""

    at: float
    owners: set[int] = field(default_factory=set)  # one of each request, whose calls may be several


class Cuts:
    """The latest cut of each credential: it ends calls that have begun before it, and no later ones."""

    def __init__(self) -> None:
        self.latest: dict[Credential, Cut] = {}

    def begin(self, credentials: Collection[Credential], calls: Iterable[Call]) -> None:
        """End the calls of these credentials, now and when they are watched again."""
        now = time.monotonic()
        self._forget(now - KEEP_SECONDS)
        self.latest.update({credential: Cut(now) for credential in credentials})
        for call in calls:
            self.apply(call)

    def apply(self, call: Call) -> None:
        """End the call if it is one of those."""
        if call.owner is None or call.end is not None:
            return
        for credential in _credentials(cast("Identity", call.owner)):
            cut = self.latest.get(credential)
            if cut is not None and call.started <= cut.at:
                call.interrupt(End.REVOKED)
                cut.owners.add(id(call.owner))

    def counts(self) -> dict[str, int]:
        """How many requests each cut has ended, without those that ended none."""
        return {str(credential): len(cut.owners) for credential, cut in list(self.latest.items()) if cut.owners}

    def _forget(self, before: float) -> None:
        for credential, cut in list(self.latest.items()):
            if cut.at < before:
                del self.latest[credential]


def _credentials(identity: "Identity") -> Iterable[Credential]:
    if identity.key is not None:
        yield Credential("key", identity.key.id)
    if identity.caller is not None:
        yield Credential("user", identity.caller.id)
