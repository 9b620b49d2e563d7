"""The log's partitions on PostgreSQL: created ahead of their time, and dropped whole when all entries in them are old.

A partition holds a day, a week or a month, depending on how long entries are kept. A query without times reads all
partitions and locks each with all its indexes, and PostgreSQL has a few thousand locks: so there are a few dozen
partitions, more only where entries are kept for years. Entries outside all of them (a wrong clock, an old journal) go
to the default partition. The primary key is (id, timestamp), as partitioning requires; ids alone are unique all the
same.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

LOG = "telemetry_logentry"
DEFAULT = f"{LOG}_default"
PERIODS_AHEAD = 3
# The longest retention with a partition for each day, and with one for each week (Monday to Sunday).
MAX_DAYS_DAILY, MAX_DAYS_WEEKLY = 31, 210
# Creating and dropping partitions waits for readers of the log, and all later queries queue behind that wait.
LOCK_TIMEOUT = "1s"
_BOUND = re.compile(r"FOR VALUES FROM \('(.+)'\) TO \('(.+)'\)")


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition with its bounds: entries from start on and before end."""

    name: str
    start: datetime
    end: datetime


def tables() -> dict[str, str]:
    """The bounds of each partition, the default one included, by table name."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, pg_get_expr(relpartbound, oid) FROM pg_class"
            " WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(%s))",
            [LOG],
        )
        return dict(cursor.fetchall())


def partitions() -> list[Partition]:
    """The partitions with bounds, oldest first."""
    bounds = [(name, _BOUND.match(bound)) for name, bound in tables().items()]
    read = [Partition(name, *map(_moment, bound.groups())) for name, bound in bounds if bound is not None]
    return sorted(read, key=lambda partition: partition.start)


def create_ahead(now: datetime) -> int:
    """Create the missing partitions from now on; returns how many were created."""
    if connection.vendor != "postgresql":
        return 0
    begin = max([_floor(now), *(partition.end for partition in partitions())])
    missing = list(_periods(begin, now))
    for start, end in missing:
        create(start, end)
    return len(missing)


def create(start: datetime, end: datetime) -> None:
    """Create one partition and move its entries there from the default one.

    Raises OperationalError while readers hold locks.
    """
    name = f"{LOG}_{start:%Y%m%d}"
    bounds = f"FROM ('{start:%Y-%m-%d}T00:00Z') TO ('{end:%Y-%m-%d}T00:00Z')"
    delete = f'DELETE FROM "{DEFAULT}" WHERE "timestamp" >= %s AND "timestamp" < %s RETURNING *'
    with _with_lock_timeout() as cursor:
        cursor.execute(f'CREATE TEMPORARY TABLE misplaced (LIKE "{LOG}")')
        move = f"WITH gone AS ({delete}) INSERT INTO misplaced SELECT * FROM gone"
        cursor.execute(move, [start, end])
        cursor.execute(f'CREATE TABLE "{name}" PARTITION OF "{LOG}" FOR VALUES {bounds}')
        insert = f'INSERT INTO "{LOG}" SELECT * FROM misplaced'
        cursor.execute(insert)
        cursor.execute("DROP TABLE misplaced")  # now: the caller's transaction may create several partitions


def drop_before(limit: datetime) -> int:
    """Drop the oldest partition that ends before the limit; 0 if there is none.

    Raises OperationalError while readers hold locks.
    """
    if connection.vendor == "postgresql":
        for partition in partitions():
            if partition.end <= limit:
                with _with_lock_timeout() as cursor:
                    cursor.execute(f'DROP TABLE "{partition.name}"')
                return 1
    return 0


@contextmanager
def _with_lock_timeout() -> Iterator[CursorWrapper]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
        yield cursor


def _periods(begin: datetime, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Start and end of each partition from `begin` to PERIODS_AHEAD periods after now."""
    last = now + PERIODS_AHEAD * timedelta(days=_partition_days())
    while begin <= last:
        end = _floor(begin + timedelta(days=_partition_days()))
        yield begin, end
        begin = end


def _partition_days() -> int:
    """The length of a partition in days; 31 for a month."""
    days = settings.GATEWAY_LOG_DAYS or MAX_DAYS_WEEKLY + 1
    return 1 if days <= MAX_DAYS_DAILY else 7 if days <= MAX_DAYS_WEEKLY else 31


def _floor(moment: datetime) -> datetime:
    """The beginning of the day, week or month."""
    day = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    begins = {1: day, 7: day - timedelta(days=day.weekday()), 31: day.replace(day=1)}
    return begins[_partition_days()]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
