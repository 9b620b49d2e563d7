"""The gauges of this process: its current state, published beside the counters."""

import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gateway_project.server.threads import started_threads
from gateway_project.work.gateway import Gateway
from gateway_project.work.snapshot.records import ProviderSnapshot
from providers.health.breakers import Breakers
from providers.health.rests import Rests
from telemetry.audit.head import latest_head
from telemetry.metrics.counters import Gauges

STARTED = time.time()
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def process_gauges(gateway: Gateway) -> Gauges:
    """Every gauge by name, as (label values, value) pairs."""
    snapshot, backlog = gateway.snapshot, gateway.shipper.backlog()
    providers = list(snapshot.providers.values())
    return {
        "requests_in_flight": [((), gateway.metrics.in_flight)],
        "processes": [((), gateway.state.processes)],
        **rest_gauges(providers, gateway.breakers, gateway.rests),
        "journal_backlog_bytes": [((), backlog.bytes)],
        "journal_backlog_seconds": [((), backlog.seconds)],
        "snapshot_age_seconds": [((), time.monotonic() - gateway.follower.last_success)],
        "snapshot_entries": [
            (("keys",), len(snapshot.keys)),
            (("users",), len(snapshot.callers)),
            (("rules",), len(snapshot.rule_rows)),
            (("providers",), len(snapshot.providers)),
        ],
        "store_available": [
            (("database",), float(gateway.follower.fresh)),
            (("cache",), float(not gateway.state.degraded)),
        ],
        "audit_head": [((head.hash,), head.id)] if (head := latest_head()) else [],
        **_process_gauges(),
    }


def rest_gauges(providers: Iterable[ProviderSnapshot], breakers: Breakers, rests: Rests) -> Gauges:
    """Which providers cannot be asked: while each of a provider's accounts rests, or has an open circuit."""
    gauges: Gauges = {"provider_resting": [], "provider_rest_seconds": []}
    for provider in providers:
        seconds = [rests.account_seconds_left(account) for account in provider.accounts]
        are_open = list(map(breakers.is_resting, provider.accounts))
        is_idle = all(map(max, seconds, are_open))
        gauges["provider_resting"].append(((provider.name,), float(is_idle and any(are_open))))
        shortest = min(filter(None, seconds), default=0.0) if is_idle else 0.0
        gauges["provider_rest_seconds"].append(((provider.name,), shortest))
    return gauges


def _process_gauges() -> Gauges:
    times = os.times()
    gauges: Gauges = {
        "process_cpu_seconds": [((), times.user + times.system)],
        "process_threads": [((), threading.active_count())],
        "request_threads": [((), started_threads["request"] + started_threads["mirror"])],
        "process_start_time_seconds": [((), STARTED)],
    }
    with suppress(OSError):  # Linux only
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
        gauges["process_resident_memory_bytes"] = [((), resident)]
        gauges["process_open_fds"] = [((), len(os.listdir("/proc/self/fd")))]
    return gauges
