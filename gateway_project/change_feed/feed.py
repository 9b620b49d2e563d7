"""The change feed: what changed since a position, for processes that keep a copy of the configuration.

The rows are written by triggers (gateway_project/change_feed/triggers.py), in the transaction of the change itself. A
kind is one of KINDS; the row id 0 says that every row of the kind may have changed.

On SQLite one transaction writes at a time, so ids tell the order of commits and a position is an id. On
PostgreSQL ids are given out before the commits and a late commit would hide behind higher ids. There a
position is the snapshot of the reader's last query, which says exactly which transactions it could see: what
is new is what that snapshot could not see.

The age of a change or a position is measured by the database's clock alone: clocks of readers may differ.
"""

from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from gateway_project.change_feed.triggers import CHANGES, KINDS

# How long every change is kept at least; a reader that was away for half of it has to reload everything.
RETENTION_SECONDS = 3600

# Seconds since 1970; of the query, not of the transaction that it may be in.
_CLOCK = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "extract(epoch FROM statement_timestamp())::float8",
}
_NOW = {
    "sqlite": f"SELECT {_CLOCK['sqlite']}, coalesce(max(id), 0) FROM {CHANGES}",
    "postgresql": f"SELECT {_CLOCK['postgresql']}, pg_current_snapshot()::text",
}
# Rows of our own transaction count as new every time: its snapshots do not tell when it wrote them.
# Rows of transactions yet to come were restored from another server, where they were long seen.
_SINCE = {
    "sqlite": f"""
        SELECT clock.at, new.id, new.kind, new.row_id
        FROM (SELECT {_CLOCK["sqlite"]} AS at) AS clock LEFT JOIN {CHANGES} AS new ON new.id > %s
    """,
    "postgresql": f"""
        WITH seen AS (SELECT %s::pg_snapshot AS snapshot)
        SELECT {_CLOCK["postgresql"]}, pg_current_snapshot()::text, new.kind, new.row_id
        FROM seen LEFT JOIN LATERAL (
            SELECT DISTINCT kind, row_id FROM {CHANGES}
            WHERE xid = pg_current_xact_id_if_assigned() OR (
                xid >= pg_snapshot_xmin(seen.snapshot) AND xid < pg_snapshot_xmax(pg_current_snapshot())
                AND NOT pg_visible_in_snapshot(xid, seen.snapshot)
            )
        ) AS new ON TRUE
    """,
}
# Within a transaction, after its changes: SQLite's writers hold the whole database, so the last id is their own.
_OWN = {
    "sqlite": f"SELECT coalesce(max(id), 0) FROM {CHANGES}",
    "postgresql": "SELECT pg_current_xact_id()::text::bigint",
}
# The moments of SQLite are texts; a fraction makes one later than the same without, as it should.
_PRUNE = {
    "sqlite": f"DELETE FROM {CHANGES} WHERE at < datetime('now', '-{RETENTION_SECONDS} seconds')",
    "postgresql": f"DELETE FROM {CHANGES} WHERE at < statement_timestamp() - interval '{RETENTION_SECONDS} seconds'",
}


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader has read; only ChangeFeed looks inside."""

    mark: int | str
    time: float  # seconds since 1970 by the database's clock


class ChangeFeed:
    """Reads the changes through one database connection, best outside a transaction."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection

    def position(self) -> Position:
        """The present position: read_since() will return every change that is not visible yet."""
        with self.connection.cursor() as cursor:
            cursor.execute(_NOW[self.connection.vendor])
            time, mark = cursor.fetchone()
            return Position(mark, time)

    def own_mark(self) -> int:
        """Where the changes of the present transaction stand; has_reached() compares positions with it."""
        with self.connection.cursor() as cursor:
            cursor.execute(_OWN[self.connection.vendor])
            return cursor.fetchone()[0]

    def read_since(self, position: Position) -> tuple[dict[str, set[int]], Position]:
        """The ids of changed rows by kind, and the next position; no change is missed, some are returned twice."""
        with self.connection.cursor() as cursor:
            cursor.execute(_SINCE[self.connection.vendor], [position.mark])
            rows = cursor.fetchall()
        marks = (mark for _, mark, *_ in rows if mark is not None)
        now = Position(max(marks, key=_order, default=position.mark), rows[0][0])
        if _is_out_of_reach(position, now):
            return {kind: {0} for kind in KINDS}, now
        changes: dict[str, set[int]] = {}
        for _, _, kind, row_id in rows:
            if kind is not None:
                changes.setdefault(kind, set()).add(row_id)
        return changes, now

    def prune(self) -> int:
        """Delete the changes that are older than RETENTION_SECONDS; returns their number."""
        with self.connection.cursor() as cursor:
            cursor.execute(_PRUNE[self.connection.vendor])
            return cursor.rowcount


def has_reached(mark: int | str, change: int) -> bool:
    """Whether a reader at this position's mark has seen the transaction of a change; raises ValueError."""
    if isinstance(mark, int):
        return mark >= change
    lowest, highest, running = mark.split(":")
    return change < int(lowest) or (change < int(highest) and str(change) not in running.split(","))


def _order(mark: int | str) -> int:
    """The place of a mark: an id, or xmax of a snapshot `xmin:xmax:list`, the first transaction after it."""
    return mark if isinstance(mark, int) else int(mark.split(":")[1])


def _is_out_of_reach(position: Position, now: Position) -> bool:
    """Whether changes may be missing: the reader was away, or this server is a replica that lags behind."""
    elapsed = now.time - position.time
    return not 0 <= elapsed < RETENTION_SECONDS / 2 or _order(now.mark) < _order(position.mark)
