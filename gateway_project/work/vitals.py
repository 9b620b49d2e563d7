"""How this process is at the moment: what its metrics tell beside what it has counted."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry.metrics import Gauges

if TYPE_CHECKING:
    from gateway_project.work.gateway import Gateway

STARTED = time.time()
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def vitals(gateway: "Gateway") -> Gauges:
    """Every gauge with its labels and value."""
    snapshot, backlog = gateway.snapshot, gateway.shipper.backlog()
    resting = gateway.breakers.resting()
    return {
        "requests_in_flight": [((), gateway.metrics.in_flight)],
        "provider_resting": [
            ((provider.name,), float(provider.id in resting)) for provider in list(snapshot.providers.values())
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
        **_of_the_process(),
    }


def _of_the_process() -> Gauges:
    times = os.times()
    known: Gauges = {
        "process_cpu_seconds": [((), times.user + times.system)],
        "process_threads": [((), threading.active_count())],
        "process_start_time_seconds": [((), STARTED)],
    }
    with suppress(OSError):  # Linux has these
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
        known["process_resident_memory_bytes"] = [((), resident)]
        known["process_open_fds"] = [((), len(os.listdir("/proc/self/fd")))]
    return known
