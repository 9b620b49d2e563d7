"""Which target of an alias would serve a request now, and why."""

from typing import NamedTuple

from gateway_project.hooks import Hook


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


# The ids of the enabled aliases of which no target can serve, as the pipeline resolves the stored ones.
find_idle_aliases: Hook[[], list[int]] = Hook("find_idle_aliases")
# The targets of the alias with this id in the order of trying; None while this process does not know it.
read_alias_routing: Hook[[int], list[RoutedTarget] | None] = Hook("read_alias_routing")
