"""A gateway as operators run it: `manage.py serve` in a process of its own, with a database of its own."""

import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import requests
from django.conf import settings
from django.db import connection

from tests.support.footprint import Footprint, connections_out, largest
from tests.support.pace import patience, slowness
from tests.support.template import copy_template_file, new_database, template_database

ROOT = Path(__file__).resolve().parents[2]
SETTLING_SECONDS = 3.0
SERVE = ["manage.py", "serve", "--no-demo"]
GUNICORN = ["-m", "gunicorn", "gateway_project.wsgi"]
# What would only wait in a test is scaled down.
QUICK = {
    "GATEWAY_THREADS": "64",
    "GATEWAY_ACTIVE_USE_SECONDS": "1",  # a later test on the same database may count who uses the licence
    "GATEWAY_USER_CONCURRENT": "0",  # most tests send as one user; who tests this limit sets it
    "GATEWAY_REFUSAL_ENTRIES": "10000",  # all tests come from one address; who tests this bound sets it
    "GATEWAY_CONNECT_TIMEOUT": "1",
    "GATEWAY_FIRST_BYTE_TIMEOUT": "2",
    "GATEWAY_IDLE_TIMEOUT": "2",
    "GATEWAY_TOTAL_TIMEOUT": "8",
    "GATEWAY_HEARTBEAT": "1",
    "GATEWAY_GRACEFUL_TIMEOUT": "6",
    "GATEWAY_CLIENT_TIMEOUT": "2",
    "GATEWAY_BREAKER_COOLDOWN": "1",
    "GATEWAY_RETRY_PERCENT": "0",  # tests count calls; who tests retries sets it
    "GATEWAY_LOG_INTERVAL": "0.03",
    "GATEWAY_REDIS_TIMEOUT": "2",  # a busy machine is no fault of Redis; who tests faults sets it
}


@dataclass
class Store:
    """A database of its own for gateways under test, and the Redis they share, if any."""

    database_url: str
    redis_url: str = ""
    prefix: str = field(default_factory=lambda: f"test-{secrets.token_hex(6)}")

    def environ(self) -> dict[str, str]:
        """What a gateway on this store is started with; its secrets are this process's, which writes its rows."""
        return {
            "SECRET_KEY": settings.SECRET_KEY,
            "GATEWAY_ENCRYPTION_KEYS": ",".join(settings.GATEWAY_ENCRYPTION_KEYS),
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "GATEWAY_REDIS_PREFIX": self.prefix,
        }

    @contextmanager
    def used_by_orm(self) -> Iterator[None]:
        """Inside, this process's ORM reads and writes the same database."""
        before = {name: connection.settings_dict[name] for name in ("NAME", "HOST", "PORT", "USER", "PASSWORD")}
        _switch({"NAME": self.name} | self.server())
        try:
            yield
        finally:
            _switch(before)

    def server(self) -> dict[str, str]:
        """Where a PostgreSQL of its own listens; empty for that of DATABASE_URL."""
        url = urlsplit(self.database_url)
        if self.database_url.startswith("sqlite:///") or not url.hostname:
            return {}
        return {"HOST": url.hostname, "PORT": str(url.port or 5432), "USER": url.username or "postgres"}

    @property
    def name(self) -> str:
        if self.database_url.startswith("sqlite:///"):
            return self.database_url.removeprefix("sqlite:///")
        return urlsplit(self.database_url).path[1:]


def _switch(settings_dict: dict[str, str]) -> None:
    drop_connections()
    connection.settings_dict.update(settings_dict)


def drop_connections() -> None:
    """The next query of this process opens a new connection: its server may have ended the old ones."""
    connection.close()
    if hasattr(connection, "close_pool"):
        connection.close_pool()


@contextmanager
def fresh_store(directory: Path, url: str = "") -> Iterator[Store]:
    """A migrated, empty database on this server (default: DATABASE_URL), and REDIS_URL's Redis; gone afterwards."""
    redis_url = os.environ.get("REDIS_URL", "")
    if not (url or os.environ.get("DATABASE_URL", "")).startswith("postgres"):
        file = directory / "gateway.sqlite3"
        copy_template_file(file)
        yield Store(f"sqlite:///{file}", redis_url)
    elif url:
        with new_database(url) as address:
            store = Store(address, redis_url)
            manage(store, directory, "migrate", "-v0")
            yield store
    else:
        with new_database(os.environ["DATABASE_URL"], template_database()) as address:
            yield Store(address, redis_url)


def manage(store: Store, directory: Path, *arguments: str, **environ: str) -> str:
    """Run a management command against the store; its output. The environment is an operator's."""
    variables = os.environ | store.environ() | {"GATEWAY_VAR_DIR": str(directory)} | environ
    command = [sys.executable, "manage.py", *arguments]
    process = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=patience(40)
    )
    if process.returncode:
        raise AssertionError(f"manage.py {' '.join(arguments)} failed:\n{process.stdout}{process.stderr}")
    return process.stdout


class RunningGateway:
    """One `manage.py serve`; `stop()` ends it in good order, `kill()` does not."""

    def __init__(self, store: Store, directory: Path, **environ: str) -> None:
        self.store = store
        self.directory = directory
        self.port = int(environ.get("PORT") or free_port())
        self.url = f"http://127.0.0.1:{self.port}"
        self.output = directory / f"serve-{self.port}.log"
        self.environ = (
            os.environ
            | QUICK
            | store.environ()
            | {"GATEWAY_VAR_DIR": str(directory), "HOST": "127.0.0.1", "PORT": str(self.port)}
            | environ
        )
        self.code = ROOT  # the folder of manage.py
        self.command = SERVE
        self.launcher: list[str] = []  # a command that ends by executing its arguments
        self.process: subprocess.Popen | None = None
        self.at_rest: Footprint | None = None  # what each worker holds before the first request

    def skip_checks(self) -> None:
        """Start what `serve` ends by executing, in half the time: for tests that are not about starting."""
        self.command = GUNICORN
        self.environ |= {"MALLOC_ARENA_MAX": "2", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}

    def start(self) -> "RunningGateway":
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [*self.launcher, sys.executable, *self.command],
                cwd=self.code,
                env=self.environ,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_until_ready()
        self.at_rest = self.settled()
        return self

    def settled(self) -> Footprint:
        """What it holds as soon as its last threads and connections are there."""
        deadline, before, now = time.monotonic() + SETTLING_SECONDS, Footprint(), self.holds()
        while now[:2] != before[:2] and time.monotonic() < deadline:
            time.sleep(0.1)
            before, now = now, self.holds()
        return now

    def holds(self) -> Footprint:
        """The most that a worker holds, without what it keeps for the next requests."""
        process = largest(self.workers())
        threads = self.threads()
        own = max((all_ - requests for all_, requests in threads), default=process.threads)
        return process._replace(threads=own, files=max(self.own_files(), default=0))

    def threads(self) -> list[tuple[int, int]]:
        """Of each worker: all threads, and those of them that were started for requests."""
        with suppress(requests.RequestException):
            text = requests.get(f"{self.url}/metrics", timeout=10).text
            by_name = {
                name: dict(re.findall(rf'^gateway_{name}{{process="(\d+)"}} (\d+)', text, re.MULTILINE))
                for name in ("process_threads", "request_threads")
            }
            every, serving = by_name.values()
            return [(int(number), int(serving[slot])) for slot, number in every.items() if slot in serving]
        return []

    def own_files(self) -> Iterator[int]:
        """The open files of each worker, without the connections that it keeps."""
        for pid in self.workers():
            with suppress(FileNotFoundError, ProcessLookupError):
                yield len(os.listdir(f"/proc/{pid}/fd")) - self.kept_connections(pid)

    def kept_connections(self, pid: int) -> int:
        database = urlsplit(self.environ["DATABASE_URL"])
        return connections_out(pid, self.port, (database.port or 5432) if database.hostname else 0)

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def wait_until_ready(self, seconds: float = 30) -> None:
        deadline = time.monotonic() + patience(seconds)
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the gateway ended with {self.process.returncode}:\n{self.log()}")
            try:
                if requests.get(f"{self.url}/healthz", timeout=slowness()).status_code == 200:
                    return
            except requests.RequestException:
                time.sleep(0.05)
        raise AssertionError(f"the gateway did not become ready:\n{self.log()}")

    def log(self) -> str:
        """What it has printed."""
        return self.output.read_text(errors="replace")

    def workers(self) -> list[int]:
        """The process ids of gunicorn's workers."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def stop(self, seconds: float = 20) -> int:
        """SIGTERM and wait; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds * slowness())

    def kill(self) -> None:
        """SIGKILL to the master and its workers, which cannot tidy up."""
        for pid in [self.process.pid, *self.workers()]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait(10)

    def __enter__(self) -> "RunningGateway":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill()


def free_port() -> int:
    """A port that nothing listens on, below those that the kernel gives to everybody who connects somewhere."""
    while True:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port
