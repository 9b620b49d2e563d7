"""What must not run does not start, and says why with the id of its reason."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pace import patience
from tests.support.promises import promise
from tests.support.running import ROOT, RunningGateway, Store, free_port, manage
from tests.support.thoroughness import first_of

REFUSED = promise("What must not run does not start, and says why", target="the reason, and nothing promised")
pytestmark = [pytest.mark.either_store, REFUSED]

SLOW = pytest.mark.slow
# What every process needs, and nothing that sets up the gateway.
BASICS = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "VIRTUAL_ENV")}
SECRETS = {
    "SECRET_KEY": "s" * 40,
    "GATEWAY_TOKEN_KEY": "t" * 40,
    "GATEWAY_ENCRYPTION_KEYS": "e" * 40,
    "ALLOWED_HOSTS": "gateway.example",
    "GATEWAY_BASE_URL": "https://gateway.example",
}


def serve(directory, **environ: str) -> subprocess.CompletedProcess:
    """`manage.py serve` as it ends; one that runs on is a failure."""
    fixed = {"GATEWAY_VAR_DIR": str(directory), "PORT": str(free_port())}
    return subprocess.run(
        [sys.executable, "manage.py", "serve", "--no-demo"],
        cwd=ROOT, env=BASICS | fixed | environ, capture_output=True, text=True, check=False, timeout=patience(20),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"DEBUG": "true", "HOST": "0.0.0.0"}, "gateway.E001"),
        ({"GATEWAY_MODE": "production"}, "gateway.E002"),
        pytest.param({"GATEWAY_MODE": "production", **SECRETS, "SECRET_KEY": "short"}, "gateway.E002", marks=SLOW),
        pytest.param(
            {"GATEWAY_MODE": "production", **SECRETS, "GATEWAY_TOKEN_KEY": "s" * 40}, "gateway.E003", marks=SLOW
        ),
        ({"WEB_CONCURRENCY": "2"}, "gateway.E004"),
        ({"GATEWAY_WORKER_CLASS": "gevent"}, "gateway.E005"),
        pytest.param({"GATEWAY_MODE": "production", **SECRETS, "ALLOWED_HOSTS": "*"}, "gateway.E006", marks=SLOW),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_configuration_does_not_start(tmp_path, environ, reason):
    process = serve(tmp_path, **environ)
    assert process.returncode != 0
    assert reason in process.stderr
    assert "The gateway serves" not in process.stdout


@pytest.mark.parametrize("command", [["manage.py", "serve"], ["-m", "gunicorn", "gateway_project.wsgi"]])
def test_settings_that_cannot_be_used_are_named_and_nothing_else_is_said(tmp_path, command):
    wrong = {
        "PORT": "eighty",
        "DATABASE_URL": "mysql://here/there",
        "GATEWAY_LOG_LEVEL": "loud",
        "REDIS_URL": "here:1",
        "ALLOWED_HOSTS": "gateway.example:443",
        "GATEWAY_BASE_URL": "gateway.example",
    }
    process = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT, env=BASICS | {"GATEWAY_VAR_DIR": str(tmp_path)} | wrong, capture_output=True, text=True, check=False,
        timeout=patience(20),
    )  # fmt: skip
    assert process.returncode != 0
    names = [line.partition(" is ")[0] for line in process.stderr.splitlines()]
    assert sorted(names) == sorted(wrong)


@pytest.mark.parametrize("content", ["empty", "unreadable", "not text"])
def test_a_secret_that_cannot_be_read_is_named_and_nothing_stands_in_for_it(tmp_path, content):
    """As one is that another user has made, or of which a full disk has left nothing."""
    secret = tmp_path / "secrets/secret_key"
    secret.mkdir(parents=True) if content == "unreadable" else secret.parent.mkdir()
    if content != "unreadable":
        secret.write_bytes(b"" if content == "empty" else b"\xff")
    process = serve(tmp_path)
    assert process.returncode != 0
    assert process.stderr.startswith(f"GATEWAY_VAR_DIR: {secret} ")
    assert len(process.stderr.splitlines()) == 1


def test_a_python_without_the_requirements_is_named():
    process = subprocess.run(
        [sys.executable, "-I", "-S", "manage.py", "check"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=patience(20),
    )  # fmt: skip
    assert process.returncode != 0
    assert process.stderr.startswith(f"{sys.executable} lacks django: ")
    assert len(process.stderr.splitlines()) == 1


def test_a_port_that_is_taken_is_named_and_nothing_is_promised(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        prepared = {"GATEWAY_VAR_DIR": str(tmp_path), "PATH": os.environ["PATH"]}
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=prepared, check=True, timeout=patience(20)
        )
        process = serve(tmp_path, PORT=port)
    assert process.returncode != 0
    assert f"Port {port} is taken: PORT=" in process.stderr
    assert process.stdout == ""


@pytest.mark.parametrize("kind", first_of("file", "foreign"))
def test_a_journal_that_cannot_be_written_is_named(tmp_path, kind):
    """As a volume is that belongs to another user: every request would be refused."""
    folder = "/proc/nothing" if kind == "foreign" else str(tmp_path / "file")
    (tmp_path / "file").touch()
    prepared = {"GATEWAY_VAR_DIR": str(tmp_path), "PATH": os.environ["PATH"]}
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=prepared, check=True, timeout=patience(20)
    )
    process = serve(tmp_path, GATEWAY_JOURNAL_DIR=folder, PORT=str(free_port()))
    assert process.returncode != 0
    assert f"Log entries cannot be written in GATEWAY_JOURNAL_DIR, {folder}: " in process.stderr
    assert process.stdout == ""


@pytest.mark.parametrize("command", ["quickstart", "migrate", "serve"])
@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sqlite:////proc/nothing/x.sqlite3", "The database file /proc/nothing/x.sqlite3 cannot be used: "),
        pytest.param("postgresql://u:hunter2@127.0.0.1:{}/x", "The database x at 127.0.0.1:{} cannot be", marks=SLOW),
    ],
    ids=["file", "server"],
)
def test_a_database_that_cannot_be_used_is_named_in_a_line(tmp_path, command, url, named):
    if command == "serve" and "postgresql" in url:
        pytest.skip("a server may come back, and is waited for")
    port = free_port()
    environ = {"GATEWAY_VAR_DIR": str(tmp_path), "DATABASE_URL": url.format(port), "PORT": str(free_port())}
    process = subprocess.run(
        [sys.executable, "manage.py", command],
        cwd=ROOT, env=BASICS | environ, capture_output=True, text=True, check=False, timeout=patience(20),
    )  # fmt: skip
    assert process.returncode != 0
    assert named.format(port) in process.stderr.splitlines()[-1]
    assert len(process.stderr.splitlines()) <= 2  # the pool has its line too
    assert "hunter2" not in process.stderr


@pytest.mark.skipif("postgres" not in os.environ.get("DATABASE_URL", ""), reason="PostgreSQL has rights")
def test_a_database_that_lets_nobody_write_is_named_in_a_line(tmp_path):
    """As one is in whose schema the user may create nothing, or a replica that only reads."""
    url = os.environ["DATABASE_URL"]
    option = f"{'&' if '?' in url else '?'}options=-c%20default_transaction_read_only%3Don"
    process = subprocess.run(
        [sys.executable, "manage.py", "migrate"],
        cwd=ROOT, env=BASICS | {"GATEWAY_VAR_DIR": str(tmp_path), "DATABASE_URL": url + option},
        capture_output=True, text=True, check=False, timeout=patience(20),
    )  # fmt: skip
    assert process.returncode != 0
    assert "cannot be used: cannot execute CREATE TABLE in a read-only transaction" in process.stderr.splitlines()[-1]
    assert "Traceback" not in process.stderr


def test_a_database_without_tables_does_not_start(tmp_path):
    """That is a mistake of the operator, unlike a database that is away."""
    process = serve(tmp_path)
    assert process.returncode != 0
    assert "migrate" in process.stderr


@pytest.mark.parametrize("command", [["licence", "status"], ["createsuperuser", "--noinput"], ["housekeep"]])
def test_a_command_on_a_database_without_tables_says_what_to_run(tmp_path, command):
    superuser = {"DJANGO_SUPERUSER_USERNAME": "root", "DJANGO_SUPERUSER_PASSWORD": "a long pass phrase"}
    process = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT, env=BASICS | superuser | {"GATEWAY_VAR_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=patience(20),
    )  # fmt: skip
    assert process.returncode != 0
    assert "The database is not up to date: run `manage.py migrate`" in process.stderr.splitlines()[-1]
    assert "Traceback" not in process.stderr


def test_gunicorn_started_by_hand_refuses_too(tmp_path):
    environ = BASICS | {"GATEWAY_VAR_DIR": str(tmp_path), "PORT": str(free_port()), "DEBUG": "true", "HOST": "0.0.0.0"}
    process = subprocess.run(
        [sys.executable, "-m", "gunicorn", "gateway_project.wsgi"],
        cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=patience(20),
    )  # fmt: skip
    assert process.returncode != 0
    assert "gateway.E001" in process.stderr


# As the server does at SIGUSR2, but that it only looks whether it could serve.
SUCCESSOR = """
import os, runpy, sys, types
from gunicorn import __main__ as gunicorn
from tests.support.promises import promise
sys.argv = [gunicorn.__file__, "--check-config", "gateway_project.wsgi"]
server = types.SimpleNamespace(START_CTX={"args": [sys.executable, *sys.argv]})
settings = runpy.run_path("gunicorn.conf.py")
settings.get("pre_exec", id)(server)
os.execv(sys.executable, server.START_CTX["args"])
"""


def test_gunicorn_starts_its_successor_as_it_was_started(tmp_path):
    """By its file alone it would take its own `http` for Python's, and end at once."""
    process = subprocess.run(
        [sys.executable, "-c", SUCCESSOR],
        cwd=ROOT, env=BASICS | {"GATEWAY_VAR_DIR": str(tmp_path)}, capture_output=True, text=True, check=False,
        timeout=patience(20),
    )  # fmt: skip
    assert process.returncode == 0, process.stderr


@promise("What the gateway writes can be read by its user alone", target="no bits for others", suite="attack")
def test_what_it_writes_is_its_users_alone(tmp_path):
    """Also for a service manager that starts it with the usual mask, and where folders are there already."""
    for folder in (tmp_path / "var", tmp_path / "var/journal"):
        folder.mkdir(mode=0o755)
    store = Store(f"sqlite:///{tmp_path}/var/gateway.sqlite3", prefix="masks")
    before = os.umask(0o022)
    try:
        manage(store, tmp_path / "var", "migrate", "-v0")
        with RunningGateway(store, tmp_path / "var") as running:
            running.output.chmod(0o600)  # the test's own
            for pid in [running.process.pid, *running.workers()]:
                assert "Umask:\t0077" in Path(f"/proc/{pid}/status").read_text()
            written = [path for path in (tmp_path / "var").rglob("*") if path.is_file()]
            assert {path.name for path in written} > {"gateway.sqlite3"}
            assert [path for path in written if path.stat().st_mode & 0o077] == []
    finally:
        os.umask(before)
