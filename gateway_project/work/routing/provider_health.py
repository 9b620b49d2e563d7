"""Provider health: attempts, circuits and rests in all processes of this machine, and recent usage."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from django.utils import timezone

from gateway_project.json_types import JsonObject
from gateway_project.work.gateway import Gateway
from gateway_project.work.tasks.process_metrics import process_gauges
from providers.health.status import RECENT_SECONDS, Health, HealthState, LastError, ModelHealth, state_of
from providers.models import Provider
from telemetry import services
from telemetry.metrics.attempts import Record
from telemetry.metrics.counters import Gauges
from telemetry.usage.statistics import UsageQuery

MAX_ROWS = 10_000


def health_of(gateway: Gateway, providers: Sequence[Provider], *, with_usage: bool) -> list[Health]:
    """The health of these providers, in their order."""
    usage = recent_usage() if with_usage else {}
    healths = _healths(gateway, [(row.pk, row.name, row.enabled) for row in providers])
    return [health._replace(usage=usage.get(row.pk)) for row, health in zip(providers, healths, strict=True)]


def present_health(gateway: Gateway) -> dict[str, Health]:
    """The health of each enabled provider by its name; needs no database."""
    rows = [(row.id, row.name, True) for row in gateway.snapshot.providers.values()]
    return {name: health for (_, name, _), health in zip(rows, _healths(gateway, rows), strict=True)}


def health_gauges(healths: Mapping[str, Health]) -> Gauges:
    """The health of providers by their names, as gauges."""
    models = [(name, model) for name, health in healths.items() for model in health.models]
    failing = [(name, model.model) for name, model in models if model.state is HealthState.FAILING]
    words = [(name, health.state.value) for name, health in healths.items()]
    return {
        "provider_health": [(labels, 1.0) for labels in words],
        "provider_model_failing": [(labels, 1.0) for labels in failing],
    }


def failing_providers(gateway: Gateway) -> dict[str, Health]:
    """The health of those that fail, by their names in order."""
    healths = sorted(present_health(gateway).items())
    return {name: health for name, health in healths if health.state is HealthState.FAILING}


def _healths(gateway: Gateway, providers: Sequence[tuple[int, str, bool]]) -> list[Health]:
    """The health of providers, each named by id, name and whether it is enabled."""
    gateway.metrics.aggregate(gateway.snapshot.targets_by_model)
    _, gauges = gateway.metrics.gather(process_gauges(gateway))
    records, now = gateway.metrics.gather_attempts().by_provider(), time.time()
    processes, open_circuits = _circuits(gauges.values())
    ends = _rest_ends(gauges.values())
    return [
        Health(
            is_enabled,
            processes[name],
            open_circuits[name],
            ends.get(name),
            _models(records.get(number, {}), now),
        )
        for number, name, is_enabled in providers
    ]


def _models(records: Mapping[str, Record], now: float) -> tuple[ModelHealth, ...]:
    return tuple(_model(model, record, now) for model, record in sorted(records.items()))


def _model(model: str, record: Record, now: float) -> ModelHealth:
    error = None
    if record.failed_at:
        at = datetime.fromtimestamp(record.failed_at, UTC)
        error = LastError(at, model, record.exception, record.message)
    counts = (record.attempts, record.failures, record.checks, record.failed_checks)
    recent = record.results_since(now - RECENT_SECONDS)
    return ModelHealth(model, state_of(record.latest, now), *counts, error, *recent)


def _circuits(processes: Iterable[Gauges]) -> tuple[Counter[str], Counter[str]]:
    """By provider name: the number of processes that know it, and of those in which its circuit is open."""
    processes_by_name: Counter[str] = Counter()
    open_circuits: Counter[str] = Counter()
    for gauges in processes:
        for (name,), is_open in gauges.get("provider_resting", ()):
            processes_by_name[name] += 1
            open_circuits[name] += int(is_open)
    return processes_by_name, open_circuits


def _rest_ends(processes: Iterable[Gauges]) -> dict[str, datetime]:
    """By provider name, until when it rests because it sent Retry-After."""
    seconds: dict[str, float] = defaultdict(float)
    for gauges in processes:
        for (name,), seconds_left in gauges.get("provider_rest_seconds", ()):
            seconds[name] = max(seconds[name], seconds_left)
    now = timezone.now()
    return {name: now + timedelta(seconds=rest) for name, rest in seconds.items() if rest}


def recent_usage() -> dict[int, JsonObject]:
    """What each provider served since the beginning of the previous hour, by its id."""
    now = timezone.now()
    rows = services.usage(
        UsageQuery(*services.period(now - timedelta(hours=1), now), by=("provider",)), 0, MAX_ROWS
    ).rows
    return {row["provider_id"]: row for row in rows}
