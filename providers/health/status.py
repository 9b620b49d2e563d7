"""How providers are at this moment."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from gateway_project.hooks import Hook
from providers.models import Provider


class Health(NamedTuple):
    """One provider as the processes of this machine see it, and what it served of late."""

    enabled: bool
    processes: int  # that know it: they learn of a change within a second
    resting: int  # of them those whose circuit is open: they do not ask it while another provider can serve
    failures: dict[str, int]  # attempts that failed since the server began, by error
    # since the beginning of the last hour (telemetry.usage.statistics), None without requests
    usage: dict[str, Any] | None
    rests_until: datetime | None = None  # because it sent Retry-After; the latest of the processes

    @property
    def state(self) -> str:
        """In one word: off, new, resting or asked."""
        if not self.enabled:
            return "off"
        if not self.processes:
            return "new"
        return "resting" if self.resting or self.rests_until else "asked"


# The health of each provider, over all processes of this machine.
read_provider_health: Hook[[Sequence[Provider]], list[Health]] = Hook("read_provider_health")


def health_of(providers: Sequence[Provider]) -> list[Health]:
    """The health of each provider."""
    return read_provider_health(providers) if providers else []
