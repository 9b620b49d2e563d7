"""Measure the gateway next to a bare Django pass-through, all on loopback; ends by itself.

Exit status 0 says that it could measure and that every answer was right, not that every target was met.
"""

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench import guardrails, report, servers, stores, translation
from bench.measure import Cores, MeasuringFailed, Run, load_run
from bench.scenarios import CASES, FULL, GROUPS, QUICK, Case, Pace, Prepare, Provisioned, chosen

# Enough for 1,000 requests in flight; unused threads are never started.
THREADS = 1100
WITHOUT_SERVERS = {"translation": translation, "guardrails": guardrails}


class Fleet:
    """The processes of a run, each started when it is first needed and stopped at the end."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.cores = Cores.choose()
        self.started: dict[str, servers.Server] = {}
        self.provisioned: dict[str, Provisioned] = {}
        self.stack = ExitStack()

    def __enter__(self) -> Self:
        self.directory = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="gateway-bench-")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    def server(self, name: str) -> servers.Server:
        """The running server of that name."""
        if name not in self.started:
            self.started[name] = self.start(name)
            self.stack.callback(self.started[name].stop)
        return self.started[name]

    def start(self, name: str) -> servers.Server:
        log = self.directory / f"{name}.log"
        if name == "standin":
            return servers.start_standin(self.cores.standin, log)
        threads = self.options.threads
        if name == "baseline":
            worker = self.options.worker_class
            return servers.start_baseline(
                self.cores.server, log, standin=self.standin_url(), worker_class=worker, threads=threads
            )
        environ = self.provision(name)["environ"]
        return servers.start_gateway(self.cores.server, log, environ=environ, threads=threads)

    def standin_url(self) -> str:
        return f"http://127.0.0.1:{self.server('standin').port}"

    def provision(self, name: str) -> Provisioned:
        """Make the database rows of a gateway, once."""
        if name not in self.provisioned:
            directory = self.directory / f"{name}-data"
            directory.mkdir()
            scenario = "large" if name == "large" else "small"
            made = provisioning()(scenario, standin=self.standin_url(), directory=directory)
            self.stack.callback(made.get("stop", lambda: None))
            self.provisioned[name] = made
        return self.provisioned[name]

    def run(self, case: Case, pace: Pace) -> Run:
        """Load one case once."""
        server = self.server(case.server)
        where: dict[str, Any] = {"path": case.where}
        if case.server not in ("standin", "baseline"):
            made = self.provision(case.server)
            model = made["models"][case.where]
            where = {"path": made.get("path", "/work"), "key": made["credentials"][case.caller], "model": model}
        timing = {"seconds": pace.seconds, "warmup": pace.warmup, "meters": self.meters(case)}
        return load_run(server.pid, self.cores.load, port=server.port, **where, **timing, **case.options)

    def meters(self, case: Case) -> dict[str, stores.Meter]:
        """What measures the stores of the case's gateway."""
        row = self.provisioned.get(case.server, {})
        return stores.store_meters(row["database"], row["redis"]) if "database" in row else {}

    def peak(self) -> int:
        """The most requests in flight at the stand-in since this was last asked."""
        return self.server("standin").stats()["peak"]


def provisioning() -> Prepare:
    """The function that makes a gateway's rows."""
    try:
        from bench.provision import prepare
    except ModuleNotFoundError as missing:
        raise MeasuringFailed(f"the gateway cannot be provisioned: {missing}") from missing
    return prepare


def measure_group(fleet: Fleet, cases: list[Case], pace: Pace) -> report.Rows:
    """The rows of a group, whose cases take turns because the machine drifts."""
    runs: dict[Case, list[Run]] = defaultdict(list)
    peaks: dict[Case, int] = {}
    for case in cases:
        fleet.server(case.server)
    for number in range(pace.rounds):
        for case in cases:
            progress(f"round {number + 1} of {pace.rounds}: {case.label}")
            fleet.peak()
            runs[case].append(checked(case, fleet.run(case, pace)))
            peaks[case] = max(peaks.get(case, 0), fleet.peak())
    return {case.name: report.row(case, runs[case], peaks[case]) for case in cases}


def checked(case: Case, run: Run) -> Run:
    """Say on the spot if answers were wrong."""
    if run.results["errors"]:
        progress(f"WRONG ANSWERS in {case.label}: {run.results['errorKinds']}\n{run.results['sample']}\n")
    return run


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(options: argparse.Namespace) -> report.Rows:
    """Every chosen row; raises MeasuringFailed."""
    paces = QUICK if options.quick else FULL
    named = [name for name in options.only or () if name not in WITHOUT_SERVERS]
    cases = chosen(named) if named or not options.only else []
    rows: report.Rows = {}
    with Fleet(options) as fleet:
        for group in GROUPS:
            if members := [case for case in cases if case.group == group]:
                rows |= measure_group(fleet, members, paces[group])
    return rows


def machine(options: argparse.Namespace) -> dict[str, Any]:
    """Where and how the numbers were made."""
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "baselineWorker": options.worker_class,
        "threads": options.threads,
        "loadBefore": round(os.getloadavg()[0], 2),
    }


def parse() -> argparse.Namespace:
    names = [*WITHOUT_SERVERS, *GROUPS, *(case.name for case in CASES)]
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short runs, one round: a rough picture")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--worker-class", default=servers.default_worker_class(), help="of the baseline")
    parser.add_argument("--threads", type=int, default=THREADS, help="of every server (default %(default)s)")
    return parser.parse_args()


def main() -> int:
    options = parse()
    # SIGTERM unwinds like Ctrl-C, so that the servers are stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    setting = machine(options)
    if setting["loadBefore"] > 1:
        progress("Something else keeps this machine busy: CPU times will come out too high.")
    started = time.monotonic()
    chosen_names = [name for name in WITHOUT_SERVERS if not options.only or name in options.only]
    costs: dict[str, Any] = {name: WITHOUT_SERVERS[name].measure() for name in chosen_names}
    try:
        rows = measure(options)
    except MeasuringFailed as problem:
        progress(f"Could not measure: {problem}")
        return 1
    except KeyboardInterrupt:
        return 130
    print(", ".join(f"{name} {value}" for name, value in setting.items()), end="\n\n")
    tables = [WITHOUT_SERVERS[name].text(costs_of_it) for name, costs_of_it in costs.items()]
    print("\n\n".join(part for part in (*tables, report.text(rows)) if part))
    print(f"\nIt took {time.monotonic() - started:.0f} s.")
    if options.json:
        documents = {name: WITHOUT_SERVERS[name].document(costs_of_it) for name, costs_of_it in costs.items()}
        options.json.write_text(json.dumps({"machine": setting, **documents, **report.document(rows)}, indent=2) + "\n")
    return 1 if any(row.errors for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
