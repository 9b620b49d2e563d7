"""Requests to ship at once, in Redis."""

from contextlib import suppress

from gateway_project.work.state.redis.client import RedisClient, RedisUnavailable
from gateway_project.work.state.redis.connection import RedisReplyError

REPORTS_LAPSE_SECONDS = 600


class RedisShippingRequests:
    """The requests of any number of processes: a counter, and the last number that each process reported."""

    def __init__(self, client: RedisClient, *, prefix: str, process: str) -> None:
        self._client = client
        self._process = process
        self._processes = f"{prefix}:processes:"  # the live ones, as they count each other
        self._counter, self._reports = f"{prefix}:shipping:requests", f"{prefix}:shipping:reports"

    def add(self) -> int | None:
        with suppress(RedisUnavailable, RedisReplyError):
            return int(self._client.command("INCR", self._counter))
        return None

    def latest(self) -> int | None:
        with suppress(RedisUnavailable, RedisReplyError):
            return _number(self._client.command("GET", self._counter))
        return None

    def report(self, number: int) -> bool:
        with suppress(RedisUnavailable, RedisReplyError):
            self._client.command("HSET", self._reports, self._process, number)
            self._client.command("EXPIRE", self._reports, REPORTS_LAPSE_SECONDS)
            return True
        return False

    def are_reported(self, number: int) -> bool:
        with suppress(RedisUnavailable, RedisReplyError):
            processes = self._client.command("ZRANGE", self._processes, 0, -1)
            reports = self._client.command("HMGET", self._reports, *processes) if processes else ()
            return all((_number(report) or 0) >= number for report in reports)
        return False

    def leave(self) -> None:
        with suppress(RedisUnavailable, RedisReplyError):
            self._client.command("ZREM", self._processes, self._process)


def _number(reply: object) -> int | None:
    return int(reply) if isinstance(reply, bytes) and reply.isdigit() else None
