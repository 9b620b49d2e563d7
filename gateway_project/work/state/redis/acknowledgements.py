"""What each process shows of the changes that are in force in it, in Redis."""

from collections.abc import Mapping
from contextlib import suppress

from gateway_project.work.state.process_count import LAPSE_MS
from gateway_project.work.state.redis.client import RedisClient, RedisUnavailable
from gateway_project.work.state.redis.connection import RedisReplyError
from gateway_project.work.state.redis.seals import Seals


class RedisAcknowledgements:
    """A key for each process, which lapses with its heartbeat; sealed: who can only write there proves nothing."""

    def __init__(self, client: RedisClient, seals: Seals, *, prefix: str, process: str) -> None:
        self._client, self._seals = client, seals
        self._prefix, self._process = f"{prefix}:position:", process
        self._processes = f"{prefix}:processes:"  # the live ones, as they count each other

    def publish(self, payload: bytes) -> bool:
        name = self._prefix + self._process
        with suppress(RedisUnavailable, RedisReplyError):
            self._client.command("SET", name, self._seals.seal(name, payload), "PX", LAPSE_MS)
            return True
        return False

    def read_others(self) -> Mapping[str, bytes | None] | None:
        try:
            processes = [name.decode() for name in self._client.command("ZRANGE", self._processes, 0, -1)]
            names = {name: self._prefix + name for name in processes if name != self._process}
            values = self._client.command("MGET", *names.values()) if names else ()
        except (RedisUnavailable, RedisReplyError):
            return None
        return {name: self._open(names[name], value) for name, value in zip(names, values, strict=True)}

    def _open(self, name: str, value: object) -> bytes | None:
        return self._seals.open(name, value) or None if isinstance(value, bytes) else None
