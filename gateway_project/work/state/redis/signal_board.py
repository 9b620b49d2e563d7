"""What the processes have measured, in Redis."""

from collections.abc import Sequence

from gateway_project.work.state.redis.client import RedisClient, RedisUnavailable
from gateway_project.work.state.redis.connection import RedisReplyError

LAPSE_MS = 5000


class RedisSignalBoard:
    """The board of any number of processes: a key for each, which lapses when it ends."""

    def __init__(self, client: RedisClient, *, prefix: str, process: str) -> None:
        self._client = client
        self._prefix, self._process = f"{prefix}:signals:", process
        self._processes = f"{prefix}:processes:"  # the live ones, as they count each other

    def swap(self, payload: bytes) -> Sequence[bytes]:
        try:
            self._client.command("SET", self._prefix + self._process, payload, "PX", LAPSE_MS)
            names = [name.decode() for name in self._client.command("ZRANGE", self._processes, 0, -1)]
            keys = [self._prefix + name for name in names if name != self._process]
            payloads = self._client.command("MGET", *keys) if keys else ()
        except (RedisUnavailable, RedisReplyError):
            return ()
        return [one for one in payloads if isinstance(one, bytes)]
