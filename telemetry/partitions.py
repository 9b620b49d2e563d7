"""The log's partitions on PostgreSQL: made ahead of their time, and dropped whole when all in them is old enough.

A partition holds a day, a week or a month, the longer the longer entries are kept: a query that knows no times asks all
of them, and locks each with all its indexes; PostgreSQL has a few thousand locks to give. So there are a few dozen, but
for those who keep entries for years. What falls into none (a clock that went wrong, a journal from long ago) is in the
default partition, so that every entry finds its place. The database's primary key is (id, timestamp), as partitions
demand; ids alone are unique all the same.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction

LOG = "telemetry_logentry"
DEFAULT = f"{LOG}_default"
AHEAD = 3
# Entries that are kept for so many days at most are kept in days, and in weeks (from Monday to Sunday).
DAYS, WEEKS = 31, 210
# Readers of the log hold a partition that is to be made or dropped; who waits for them makes all others wait.
LOCK_TIMEOUT = "1s"
_BOUND = re.compile(r"FOR VALUES FROM \('(.+)'\) TO \('(.+)'\)")


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition with its bounds: entries from start on and before end."""

    name: str
    start: datetime
    end: datetime


def tables() -> dict[str, str]:
    """The bounds of each partition, the default one's too, by the name of its table."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, pg_get_expr(relpartbound, oid) FROM pg_class"
            " WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(%s))",
            [LOG],
        )
        return dict(cursor.fetchall())


def partitions() -> list[Partition]:
    """All of them but the default one, the oldest first."""
    found = [(name, _BOUND.match(bound)) for name, bound in tables().items()]
    read = [Partition(name, *map(_moment, bound.groups())) for name, bound in found if bound is not None]
    return sorted(read, key=lambda partition: partition.start)


def make_ahead(now: datetime) -> int:
    """Make the partitions of now and of the time to come; how many were made."""
    if connection.vendor != "postgresql":
        return 0
    begin = max([_floor(now), *(partition.end for partition in partitions())])
    missing = list(_periods(begin, now))
    for start, end in missing:
        make(start, end)
    return len(missing)


def make(start: datetime, end: datetime) -> None:
    """Make one partition; what of it is in the default one moves.

    Raises OperationalError while readers are in the way.
    """
    name = f"{LOG}_{start:%Y%m%d}"
    bounds = f"FROM ('{start:%Y-%m-%d}T00:00Z') TO ('{end:%Y-%m-%d}T00:00Z')"
    gone = f'DELETE FROM "{DEFAULT}" WHERE "timestamp" >= %s AND "timestamp" < %s RETURNING *'
    with _without_waiting() as cursor:
        cursor.execute(f'CREATE TEMPORARY TABLE misplaced (LIKE "{LOG}") ON COMMIT DROP')
        cursor.execute(f"WITH gone AS ({gone}) INSERT INTO misplaced SELECT * FROM gone", [start, end])
        cursor.execute(f'CREATE TABLE "{name}" PARTITION OF "{LOG}" FOR VALUES {bounds}')
        cursor.execute(f'INSERT INTO "{LOG}" SELECT * FROM misplaced')


def drop_before(limit: datetime) -> int:
    """Drop the oldest partition of which every entry is older; 0 where there is none.

    Raises OperationalError while readers are in the way.
    """
    if connection.vendor == "postgresql":
        for partition in partitions():
            if partition.end <= limit:
                with _without_waiting() as cursor:
                    cursor.execute(f'DROP TABLE "{partition.name}"')
                return 1
    return 0


@contextmanager
def _without_waiting() -> Iterator[Any]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
        yield cursor


def _periods(begin: datetime, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Start and end of each partition from this moment on."""
    last = now + AHEAD * timedelta(days=_length())
    while begin <= last:
        end = _floor(begin + timedelta(days=_length()))
        yield begin, end
        begin = end


def _length() -> int:
    """How many days a partition has, or a little less."""
    kept = settings.GATEWAY_LOG_DAYS or WEEKS + 1
    return 1 if kept <= DAYS else 7 if kept <= WEEKS else 31


def _floor(moment: datetime) -> datetime:
    """The beginning of the day, week or month."""
    day = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    begins = {1: day, 7: day - timedelta(days=day.weekday()), 31: day.replace(day=1)}
    return begins[_length()]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
