"""Orders in the change feed to end the running requests of keys and users, written in the transaction of a change.

Readers that know nothing of them ignore their kinds.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from gateway_project.models import Change

CUT_KINDS = {"cut_key": "key", "cut_user": "user"}
BATCH_SIZE = 1000


class Credential(NamedTuple):
    """A key, or a user with all of theirs: `kind` is `key` or `user`."""

    kind: str
    id: int

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


def order_cuts(credentials: Collection[Credential]) -> None:
    """Let every process end the requests of these credentials that are running, once it knows of this change."""
    rows = [Change(kind=f"cut_{credential.kind}", row_id=credential.id) for credential in sorted(set(credentials))]
    Change.objects.bulk_create(rows, batch_size=BATCH_SIZE)


def cuts_in(changes: Mapping[str, Collection[int]]) -> list[Credential]:
    """The credentials whose requests are to end, by the changes that ChangeFeed.read_since() returned."""
    return [
        Credential(CUT_KINDS[kind], row_id) for kind in CUT_KINDS.keys() & changes.keys() for row_id in changes[kind]
    ]
