"""What a process tree costs: CPU time and memory from /proc, and which cores it may use."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")


class MeasuringFailed(Exception):
    """A server or a load run did not do what a measurement needs."""


@dataclass(frozen=True)
class Cores:
    """Where the processes run: the server alone on one core; load and stand-in elsewhere, if there is any."""

    server: int | None
    load: int | None
    standin: int | None

    @classmethod
    def choose(cls) -> "Cores":
        """First, middle and last of our cores, as neighbours may share one core's hardware."""
        if not hasattr(os, "sched_getaffinity") or len(cores := sorted(os.sched_getaffinity(0))) < 2:
            return cls(None, None, None)
        return cls(cores[0], cores[len(cores) // 2], cores[-1])


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Children started meanwhile run on that core only; None leaves them where they are."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def tree(root: int) -> list[int]:
    """The process and all that descends from it."""
    children = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                children[int(stat_fields(int(entry.name))[1])].append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children[pid])
    return found


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; the second, the name, may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds(root: int) -> float:
    """User and system time of the tree, with that of its children that have ended."""
    ticks = 0
    for pid in tree(root):
        with suppress(OSError):
            ticks += sum(map(int, stat_fields(pid)[11:15]))
    return ticks / TICKS


def pss_mb(root: int) -> float:
    """Memory of the tree in MB, what is shared counted by its share."""
    return sum(map(pss_kb, tree(root))) / 1000 * 1.024


def pss_kb(pid: int) -> int:
    """The proportional set size of one process in KiB; 0 once it has gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


@dataclass
class Run:
    """One load run: what the load counted, and what it cost the server."""

    results: dict[str, Any]
    cpu_seconds: float
    pss_mb: float
    store_seconds: dict[str, float]  # CPU time of PostgreSQL and Redis, where they were measured

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds for each request served."""
        return self.cpu_seconds * 1000 / self.results["requests"]

    def store_ms(self, name: str) -> float | None:
        """CPU milliseconds that a store spent for each request served; None if it was not measured."""
        seconds = self.store_seconds.get(name)
        return None if seconds is None else seconds * 1000 / self.results["requests"]

    @property
    def cpu_us_per_chunk(self) -> float:
        """CPU microseconds for each content chunk passed on."""
        return self.cpu_seconds * 1e6 / self.results["chunks"]


def load_run(
    server: int | None, core: int | None, *, meters: Mapping[str, Callable[[], float]] | None = None, **options: Any
) -> Run:
    """Run the load generator against a server (its pid, or None if its cost does not matter)."""
    meters = meters or {}
    with pinned(core):
        load = subprocess.Popen(
            [sys.executable, "-m", "bench.load", *arguments(options)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
    try:
        expect(load, "start")
        stores_before = {name: meter() for name, meter in meters.items()}
        before = cpu_seconds(server) if server else 0.0
        expect(load, "stop")
        spent = cpu_seconds(server) - before if server else 0.0
        stores = {name: meter() - stores_before[name] for name, meter in meters.items()}
        memory = pss_mb(server) if server else 0.0
        results = json.loads(load.stdout.read() or "{}")
    finally:
        # It has ended by itself, unless we were interrupted.
        load.kill()
        load.wait()
        load.stdout.close()
    if not results.get("requests"):
        raise MeasuringFailed(f"no request was served: {results}")
    return Run(results, spent, memory, stores)


def arguments(options: dict[str, Any]) -> list[str]:
    """Keyword arguments as command line options."""
    given = {f"--{name}": value for name, value in options.items() if value not in (None, False)}
    return [part for name, value in given.items() for part in ([name] if value is True else [name, str(value)])]


def expect(load: "subprocess.Popen[str]", word: str) -> None:
    """Wait for a line of the load generator."""
    if (line := load.stdout.readline().strip()) != word:
        raise MeasuringFailed(f"the load generator said {line!r} in place of {word!r}")
