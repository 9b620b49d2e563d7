"""Starts the processes that are measured, and stops exactly those."""

import http.client
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.measure import ROOT, MeasuringFailed, pinned, tree

GATEWAY_WORKER = "gateway_project.server.worker.GatewayThreadWorker"
START_TIMEOUT = 60
STOP_TIMEOUT = 20


class Server:
    """A child process that serves HTTP on a port of loopback."""

    def __init__(
        self, name: str, command: list[str], *, port: int, core: int | None, log: Path, **environ: str
    ) -> None:
        self.name = name
        self.port = port
        self.log = log
        with pinned(core), log.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=os.environ | environ, stdout=output, stderr=subprocess.STDOUT
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a GET."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def stats(self) -> dict[str, Any]:
        """What the stand-in has counted."""
        return json.loads(self.get("/stats")[1])

    def wait_until_ready(self, path: str) -> "Server":
        """Return once the path answers 200; raises MeasuringFailed with the end of the log if it never does."""
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self.process.poll() is None:
            with suppress(OSError, http.client.HTTPException):
                if self.get(path)[0] == 200:
                    return self
            time.sleep(0.05)
        raise MeasuringFailed(f"{self.name} did not start:\n{self.log_end()}")

    def log_end(self) -> str:
        """The last lines that the process wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def stop(self) -> None:
        """End the process by SIGTERM, and what is left of its tree, if anything, by SIGKILL."""
        if self.process.poll() is not None:
            return
        family = tree(self.pid)
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            for pid in family:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()


def start_standin(core: int | None, log: Path) -> Server:
    """The provider stand-in."""
    port = free_port()
    command = [sys.executable, "-m", "bench.standin", "--port", str(port)]
    return Server("stand-in", command, port=port, core=core, log=log).wait_until_ready("/stats")


def start_baseline(core: int | None, log: Path, *, standin: str, worker_class: str, threads: int) -> Server:
    """The bare Django project, in the same kind of worker as the gateway."""
    port = free_port()
    settings = {
        "--bind": f"127.0.0.1:{port}",
        "--worker-class": worker_class,
        "--workers": "1",
        "--threads": str(threads),
        "--worker-connections": str(threads + 1000),
        "--keep-alive": "75",
        # In place of the gateway's gunicorn.conf.py. It sets nothing in gunicorn, but it configures Django,
        # as the gateway's worker class needs before the application is loaded.
        "--config": "python:bench.baseline",
    }
    options = [part for pair in settings.items() for part in pair]
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        "--no-control-socket",
        *options,
        "bench.baseline:application",
    ]
    server = Server("baseline", command, port=port, core=core, log=log, BENCH_STANDIN=standin)
    return server.wait_until_ready("/hello")


def start_gateway(core: int | None, log: Path, *, environ: dict[str, str], threads: int) -> Server:
    """The gateway with one worker process."""
    port = free_port()
    fixed = {
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "WEB_CONCURRENCY": "1",
        "GATEWAY_THREADS": str(threads),
    }
    command = [sys.executable, "manage.py", "serve"]
    server = Server("gateway", command, port=port, core=core, log=log, **(environ | fixed))
    return server.wait_until_ready("/healthz")


def default_worker_class() -> str:
    """The gateway's worker class where it exists."""
    try:
        found = importlib.util.find_spec(GATEWAY_WORKER.rpartition(".")[0])
    except ModuleNotFoundError:
        found = None
    return GATEWAY_WORKER if found else "gthread"


def free_port() -> int:
    """A port that nothing uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
