"""Which target of an alias would serve a request now, and why."""

from collections.abc import Mapping
from typing import NamedTuple

from gateway_project.hooks import Hook
from rules.offers import OfferedAlias, OfferedProvider


class RoutedTarget(NamedTuple):
    """A target as the gateway sees it at this moment."""

    tier: int  # 1 is tried first
    provider_id: int
    provider: str
    model: str
    share: float  # of its tier's weights, in percent
    conditions: str
    state: str  # in words: ready, its circuit is open, and so on
    is_ready: bool
    serves: bool  # whether requests go to it now
    reason: str  # why it serves, or does not
    first_token_ms: float | None
    in_flight: int


# The enabled aliases by id, with those of their targets that these providers have, as the pipeline resolves them.
resolve_aliases: Hook[[Mapping[int, OfferedProvider]], list[OfferedAlias]] = Hook("resolve_aliases")
# The targets of the alias with this id in the order of trying; None while this process does not know it.
read_alias_routing: Hook[[int], list[RoutedTarget] | None] = Hook("read_alias_routing")
