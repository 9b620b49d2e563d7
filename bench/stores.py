"""CPU seconds that PostgreSQL and Redis have spent, to be read before and after a run."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bench.measure import cpu_seconds, stat_fields

Meter = Callable[[], float]


def store_meters(database: str, redis_url: str) -> dict[str, Meter]:
    """A meter for each store that can be measured: PostgreSQL only where its processes run on this machine."""
    meters = {"redis": lambda: redis_seconds(redis_url)}
    if (server := postmaster(database)) is not None:
        meters["postgresql"] = lambda: cpu_seconds(server)
    return meters


def redis_seconds(url: str) -> float:
    import redis

    with redis.Redis.from_url(url) as client:
        usage = client.info("cpu")
    return usage["used_cpu_sys"] + usage["used_cpu_user"]


def postmaster(url: str) -> int | None:
    """The process that all of PostgreSQL's descend from; None if it runs elsewhere."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection, suppress(OSError):
        backend = connection.info.backend_pid
        if Path(f"/proc/{backend}/comm").read_text().startswith("postgres"):
            return int(stat_fields(backend)[1])
    return None
