"""How providers are at this moment."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.utils.module_loading import import_string

from gateway_project.json_types import JsonObject
from providers.models import Provider


class Health(NamedTuple):
    """One provider as the processes of this machine see it, and what it served of late."""

    enabled: bool
    processes: int  # that know it: they learn of a change within a second
    resting: int  # of them those whose circuit is open: they do not ask it while another provider can serve
    failures: dict[str, int]  # attempts that failed since the server began, by error
    # since the beginning of the last hour (telemetry.usage.statistics), None without requests
    usage: JsonObject | None
    rests_until: datetime | None = None  # because it sent Retry-After; the latest of the processes

    @property
    def state(self) -> str:
        """In one word: off, new, resting or asked."""
        if not self.enabled:
            return "off"
        if not self.processes:
            return "new"
        return "resting" if self.resting or self.rests_until else "asked"


def health_of(providers: Sequence[Provider]) -> list[Health]:
    """How these are, as those tell who ask them (GATEWAY_PROVIDER_HEALTH)."""
    return import_string(settings.GATEWAY_PROVIDER_HEALTH)(providers) if providers else []
