"""Provider health for the console: breaker states in all processes of this machine, failures and recent usage."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from gateway_project.work.gateway import Gateway
from gateway_project.work.tasks.process_metrics import process_gauges
from providers.health.status import Health
from providers.models import Provider
from telemetry import services
from telemetry.metrics.counters import Gauges
from telemetry.metrics.sums import Sums
from telemetry.usage.statistics import UsageQuery

MAX_ROWS = 10_000


def health_of(gateway: Gateway, providers: Sequence[Provider]) -> list[Health]:
    """The health of these providers, in their order."""
    sums, processes = gateway.metrics.gather(process_gauges(gateway))
    failures, usage = _failures(sums), _usage()
    counts, resting = _circuits(processes.values())
    ends = _rest_ends(processes.values())
    return [
        Health(
            row.enabled, counts[row.name], resting[row.name], failures[row.name], usage.get(row.pk), ends.get(row.name)
        )
        for row in providers
    ]


def resting_providers(gateway: Gateway) -> list[str]:
    """The names of the providers whose breaker is open in any process."""
    _, processes = gateway.metrics.gather(process_gauges(gateway))
    return sorted(+_circuits(processes.values())[1])


def _circuits(processes: Iterable[Gauges]) -> tuple[Counter[str], Counter[str]]:
    """By provider name: the number of processes that know it, and of those in which its breaker is open."""
    processes_by_name: Counter[str] = Counter()
    resting: Counter[str] = Counter()
    for gauges in processes:
        for (name,), rests in gauges.get("provider_resting", ()):
            processes_by_name[name] += 1
            resting[name] += int(rests)
    return processes_by_name, resting


def _rest_ends(processes: Iterable[Gauges]) -> dict[str, datetime]:
    """By provider name, until when it rests because it sent Retry-After."""
    seconds: dict[str, float] = defaultdict(float)
    for gauges in processes:
        for (name,), seconds_left in gauges.get("provider_rest_seconds", ()):
            seconds[name] = max(seconds[name], seconds_left)
    now = timezone.now()
    return {name: now + timedelta(seconds=rest) for name, rest in seconds.items() if rest}


def _failures(sums: Sums) -> dict[str, dict[str, int]]:
    failures: dict[str, dict[str, int]] = defaultdict(dict)
    for (name, exception), (number,) in sums.metrics.get("provider_failures", {}).items():
        failures[name][exception] = int(number)
    return failures


def _usage() -> dict[int, dict[str, Any]]:
    """What each provider served since the beginning of the previous hour, by its id."""
    now = timezone.now()
    rows = services.usage(
        UsageQuery(*services.period(now - timedelta(hours=1), now), by=("provider",)), 0, MAX_ROWS
    ).rows
    return {row["provider_id"]: row for row in rows}
