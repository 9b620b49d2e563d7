"""The gauges of this process: its current state, published beside the counters."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from gateway_project.work.gateway import Gateway
from telemetry.audit.head import known_head
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
        # A provider rests while each of its accounts does.
        "provider_resting": [
            ((provider.name,), float(all(map(gateway.breakers.is_resting, provider.accounts))))
            for provider in providers
        ],
        "provider_rest_seconds": [
            ((provider.name,), min(map(gateway.rests.seconds_left, provider.accounts))) for provider in providers
        ],
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
        "audit_head": [((head.hash,), head.id)] if (head := known_head()) else [],
        **_process_gauges(),
    }


def _process_gauges() -> Gauges:
    times = os.times()
    gauges: Gauges = {
        "process_cpu_seconds": [((), times.user + times.system)],
        "process_threads": [((), threading.active_count())],
        "process_start_time_seconds": [((), STARTED)],
    }
    with suppress(OSError):  # Linux only
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
        gauges["process_resident_memory_bytes"] = [((), resident)]
        gauges["process_open_fds"] = [((), len(os.listdir("/proc/self/fd")))]
    return gauges
