"""How providers are, for the console: the circuits of all processes of this machine, and what each served of late."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from gateway_project.work.vitals import vitals
from providers.models import Provider
from providers.standing import Health
from telemetry import services
from telemetry.metrics import Gauges
from telemetry.statistics import Question
from telemetry.sums import Sums

if TYPE_CHECKING:
    from gateway_project.work.gateway import Gateway

MOST = 10_000


def health_in(gateway: "Gateway", providers: Sequence[Provider]) -> list[Health]:
    """How these providers are."""
    sums, processes = gateway.metrics.gather(vitals(gateway))
    failures, usage = _failures(sums), _usage()
    known, resting = _circuits(processes.values())
    return [
        Health(row.enabled, known[row.name], resting[row.name], failures[row.name], usage.get(row.pk))
        for row in providers
    ]


def resting_in(gateway: "Gateway") -> list[str]:
    """The names of the providers that rest in any process."""
    _, processes = gateway.metrics.gather(vitals(gateway))
    return sorted(+_circuits(processes.values())[1])


def _circuits(processes: Iterable[Gauges]) -> tuple[Counter[str], Counter[str]]:
    """By the name of a provider in how many processes it is known, and in how many of them it rests."""
    known: Counter[str] = Counter()
    resting: Counter[str] = Counter()
    for gauges in processes:
        for (name,), rests in gauges.get("provider_resting", ()):
            known[name] += 1
            resting[name] += int(rests)
    return known, resting


def _failures(sums: Sums) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for (name, exception), (number,) in sums.metrics.get("provider_failures", {}).items():
        found[name][exception] = int(number)
    return found


def _usage() -> dict[int, dict[str, Any]]:
    """What each provider served since the beginning of the last hour."""
    now = timezone.now()
    rows = services.usage(Question(*services.period(now - timedelta(hours=1), now), by=("provider",)), 0, MOST).rows
    return {row["provider_id"]: row for row in rows}
