"""Metrics in Prometheus' text format; imported by the first scrape, as nothing else needs prometheus_client."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from telemetry.metrics.counters import Gauges
from telemetry.metrics.sums import BUCKET_BOUNDS, Labels, Sums


class Family(NamedTuple):
    """A metric family: its type, its name without the prefix `gateway_`, its help text, and its label names."""

    kind: type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]
    name: str
    text: str
    labels: Labels = ()


SUMS = (
    Family(
        CounterMetricFamily,
        "requests",
        "Work requests that have ended.",
        ("operation", "provider", "model", "outcome", "status"),
    ),
    Family(
        HistogramMetricFamily,
        "request_duration_seconds",
        "Time from the arrival of a request to the last byte of its answer.",
        ("operation", "provider", "model"),
    ),
    Family(
        HistogramMetricFamily,
        "first_byte_seconds",
        "Time from the arrival of a request to the first byte of its stream.",
        ("provider", "model"),
    ),
    Family(
        HistogramMetricFamily,
        "stage_duration_seconds",
        "Time of each stage of a request, and of each step of its attempts at providers.",
        ("stage", "provider"),
    ),
    Family(CounterMetricFamily, "tokens", "Tokens, by kind.", ("provider", "model", "kind", "source")),
    Family(
        CounterMetricFamily, "cost", "Cost charged by providers, as far as prices are known.", ("provider", "currency")
    ),
    Family(CounterMetricFamily, "cache_lookups", "Requests that were looked up in the cache.", ("result",)),
    Family(
        CounterMetricFamily,
        "provider_attempts",
        "Requests that were sent to a provider, including those after which another provider was asked.",
        ("provider", "model"),
    ),
    Family(
        CounterMetricFamily,
        "provider_failures",
        "Failed attempts at a provider, including those after which another provider answered.",
        ("provider", "model", "exception"),
    ),
    Family(
        CounterMetricFamily,
        "provider_checks",
        "Active checks of a provider's health.",
        ("provider", "model"),
    ),
    Family(
        CounterMetricFamily,
        "provider_failed_checks",
        "Active checks of a provider's health that failed.",
        ("provider", "model", "exception"),
    ),
    Family(
        CounterMetricFamily,
        "guardrail_results",
        "Requests and answers that a guardrail has searched, by result.",
        ("guardrail", "direction", "result"),
    ),
    Family(CounterMetricFamily, "guardrail_seconds", "Time that a guardrail took.", ("guardrail", "direction")),
    Family(CounterMetricFamily, "limit_refusals", "Requests refused because of a limit.", ("exception",)),
)
# Of the whole machine, and not of each process.
MACHINE = (
    Family(
        GaugeMetricFamily,
        "provider_health",
        "1 for the present health of each enabled provider: healthy, failing, resting or unknown.",
        ("provider", "health"),
    ),
    Family(
        GaugeMetricFamily,
        "provider_model_failing",
        "1 while at least half of the latest attempts at a provider's model fail.",
        ("provider", "model"),
    ),
)
GAUGES = (
    Family(GaugeMetricFamily, "requests_in_flight", "Work requests being served."),
    Family(
        GaugeMetricFamily, "processes", "Processes on all machines that share the limits, as far as this process knows."
    ),
    Family(
        GaugeMetricFamily,
        "provider_resting",
        "1 while no credential of a provider can be used and at least one circuit is open.",
        ("provider",),
    ),
    Family(
        GaugeMetricFamily,
        "provider_rest_seconds",
        "Seconds until the end of the rest for which a provider sent Retry-After.",
        ("provider",),
    ),
    Family(GaugeMetricFamily, "journal_backlog_bytes", "Log records that are not in the database yet."),
    Family(
        GaugeMetricFamily,
        "journal_backlog_seconds",
        "The greatest possible age of the oldest record that is not in the database yet.",
    ),
    Family(
        GaugeMetricFamily, "snapshot_age_seconds", "Time since keys, rules and providers were last known to be current."
    ),
    Family(GaugeMetricFamily, "snapshot_entries", "Number of rows in memory, by kind.", ("kind",)),
    Family(
        GaugeMetricFamily, "audit_head", "Id of the newest audit entry that a process knows, with its hash.", ("hash",)
    ),
    Family(GaugeMetricFamily, "store_available", "1 while the store answers.", ("store",)),
    Family(GaugeMetricFamily, "process_resident_memory_bytes", "Memory of a process."),
    Family(CounterMetricFamily, "process_cpu_seconds", "User and system time of a process."),
    Family(GaugeMetricFamily, "process_threads", "Threads of a process."),
    Family(GaugeMetricFamily, "request_threads", "Threads of a process that were started for requests and mirrors."),
    Family(GaugeMetricFamily, "process_open_fds", "Open files and connections of a process."),
    Family(GaugeMetricFamily, "process_start_time_seconds", "Start time of a process, in seconds since 1970."),
)


def render(
    sums: Sums, processes: Mapping[int, Gauges], info: Mapping[str, str], machine: Gauges | None = None
) -> bytes:
    """The text format of the sums of all processes, the gauges of each with its slot as a label, and the build info.

    `machine` are the gauges of all processes together.
    """
    return generate_latest(_Collector(lambda: _families(sums, processes, info, machine or {})))


class _Collector:
    """A collector in the shape that prometheus_client expects."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self.collect = collect


def _families(
    sums: Sums, processes: Mapping[int, Gauges], info: Mapping[str, str], machine: Gauges
) -> Iterator[Metric]:
    yield _family(
        Family(GaugeMetricFamily, "info", "The running version; always 1.", tuple(info)), [(tuple(info.values()), 1)]
    )
    for family in SUMS:
        yield _family(family, sums.metrics.get(family.name, {}).items())
    for family in MACHINE:
        yield _family(family, machine.get(family.name, ()))
    for family in GAUGES:
        labelled = family._replace(labels=("process", *family.labels))
        yield _family(labelled, _of_processes(family.name, processes))


def _of_processes(name: str, processes: Mapping[int, Gauges]) -> Iterator[tuple[Labels, float]]:
    for slot, gauges in sorted(processes.items()):
        for labels, value in gauges.get(name, ()):
            yield (str(slot), *labels), value


def _family(family: Family, series: Iterable[tuple[Labels, float | list[float]]]) -> Metric:
    metric = family.kind(f"gateway_{family.name}", family.text, labels=family.labels)
    for labels, numbers in series:
        if not isinstance(metric, HistogramMetricFamily):
            metric.add_metric(labels, numbers[0] if isinstance(numbers, list) else numbers)
        elif isinstance(numbers, list):
            metric.add_metric(labels, _buckets(numbers[:-1]), numbers[-1])
    return metric


def _buckets(counts: list[float]) -> list[tuple[str, float]]:
    """The upper bounds with the number of observations up to them, as the text format has it."""
    buckets, below = [], 0.0
    for bound, count in zip([*map(str, BUCKET_BOUNDS), "+Inf"], counts, strict=True):
        below += count
        buckets.append((bound, below))
    return buckets
