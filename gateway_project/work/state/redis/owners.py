"""Whose the things are that providers keep, as all processes have noted it in Redis lately."""

from collections.abc import Collection, Iterable, Mapping

from gateway_project.work.state.local_owners import OWNER_SECONDS
from gateway_project.work.state.redis import scripts
from gateway_project.work.state.redis.client import RedisClient, RedisUnavailable
from gateway_project.work.state.redis.connection import RedisReplyError, Reply
from gateway_project.work.state.redis.seals import Seals


class RedisOwners:
    """The owners in Redis, sealed: who can only write there makes nobody an owner."""

    def __init__(self, client: RedisClient, seals: Seals, *, prefix: str) -> None:
        self._client = client
        self._seals = seals
        self._prefix = prefix

    def find(self, digests: Collection[str]) -> dict[str, int] | None:
        """The user ids of those that are known; None if Redis does not answer."""
        try:
            values = self._client.command("MGET", *map(self._name, digests))
        except (RedisUnavailable, RedisReplyError):
            return None
        return self._owners_in(digests, values)

    def claim(self, claims: Mapping[str, int]) -> dict[str, int] | None:
        """Record an owner for each thing that has none; returns the owner of each, None if Redis does not answer."""
        names = [self._name(digest) for digest in claims]
        users = [self._seals.seal(name, b"%d" % user) for name, user in zip(names, claims.values(), strict=True)]
        try:
            values = self._client.run(scripts.OWN, names, [OWNER_SECONDS, *users])
        except RedisUnavailable:
            return None
        return self._owners_in(claims, values)

    def _name(self, digest: str) -> str:
        return f"{self._prefix}:owner:{digest}"

    def _owners_in(self, digests: Iterable[str], values: Reply) -> dict[str, int]:
        owners = {
            digest: self._seals.open(self._name(digest), value)
            for digest, value in zip(digests, values, strict=True)
            if isinstance(value, bytes)
        }
        return {digest: int(user_id) for digest, user_id in owners.items() if user_id.isdigit()}
