"""The change feed: what changed since a position, for processes that keep a copy of the configuration.

The rows are written by triggers (gateway_project/triggers.py), in the transaction of the change itself. A
kind is one of KINDS; the row id 0 says that every row of the kind may have changed.

On SQLite one transaction writes at a time, so ids tell the order of commits and a position is an id. On
PostgreSQL ids are given out before the commits and a late commit would hide behind higher ids. There a
position is the snapshot of the reader's last query, which says exactly which transactions it could see: what
is new is what that snapshot could not see.
"""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from gateway_project.triggers import CHANGES, KINDS

# How long every change is kept at least; a reader that was away for half of it is told to reload everything.
KEPT_SECONDS = 3600

_NOW = {
    "sqlite": f"SELECT coalesce(max(id), 0) FROM {CHANGES}",
    "postgresql": "SELECT pg_current_snapshot()::text",
}
# Rows of our own transaction count as new every time: its snapshots do not tell when it wrote them.
# Rows of transactions yet to come were restored from another server, where they were long seen.
_SINCE = {
    "sqlite": f"SELECT id, kind, row_id FROM {CHANGES} WHERE id > %s",
    "postgresql": f"""
        WITH seen AS (SELECT %s::pg_snapshot AS snapshot)
        SELECT pg_current_snapshot()::text, new.kind, new.row_id
        FROM seen LEFT JOIN LATERAL (
            SELECT DISTINCT kind, row_id FROM {CHANGES}
            WHERE xid = pg_current_xact_id_if_assigned() OR (
                xid >= pg_snapshot_xmin(seen.snapshot) AND xid < pg_snapshot_xmax(pg_current_snapshot())
                AND NOT pg_visible_in_snapshot(xid, seen.snapshot)
            )
        ) AS new ON TRUE
    """,
}


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader has read; only ChangeFeed looks inside."""

    mark: int | str
    taken_at: float


class ChangeFeed:
    """Reads the changes through one database connection, best outside a transaction."""

    def __init__(self, connection) -> None:
        self.connection = connection

    def position(self) -> Position:
        """The position of now: since() will tell every change that is not visible yet."""
        taken_at = time.time()
        with self.connection.cursor() as cursor:
            cursor.execute(_NOW[self.connection.vendor])
            return Position(cursor.fetchone()[0], taken_at)

    def since(self, position: Position) -> tuple[dict[str, set[int]], Position]:
        """The ids of changed rows by kind, and the next position; none is missed, some are told twice."""
        taken_at = time.time()
        with self.connection.cursor() as cursor:
            cursor.execute(_SINCE[self.connection.vendor], [position.mark])
            rows = cursor.fetchall()
        now = Position(max((row[0] for row in rows), key=_order, default=position.mark), taken_at)
        if _out_of_reach(position, now):
            return {kind: {0} for kind in KINDS}, now
        changes: dict[str, set[int]] = {}
        for _, kind, row_id in rows:
            if kind is not None:
                changes.setdefault(kind, set()).add(row_id)
        return changes, now

    def prune(self, older_than: datetime) -> int:
        """Delete changes from before a moment, none younger than KEPT_SECONDS; how many there were."""
        before = min(older_than, timezone.now() - timedelta(seconds=KEPT_SECONDS))
        with self.connection.cursor() as cursor:
            moment = self.connection.ops.adapt_datetimefield_value(before)
            cursor.execute(f"DELETE FROM {CHANGES} WHERE at < %s", [moment])
            return cursor.rowcount


def _order(mark: int | str) -> int:
    """Where a mark stands: an id, or xmax of a snapshot `xmin:xmax:list`: the first transaction after it."""
    return mark if isinstance(mark, int) else int(mark.split(":")[1])


def _out_of_reach(position: Position, now: Position) -> bool:
    """Whether changes may be gone: the reader slept, or this server is a copy that lags behind the last."""
    asleep = now.taken_at - position.taken_at
    return not 0 <= asleep < KEPT_SECONDS / 2 or _order(now.mark) < _order(position.mark)
