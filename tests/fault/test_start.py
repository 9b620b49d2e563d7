"""What must not run does not start, and says why with the id of its reason."""

import os
import subprocess
import sys

import pytest

from tests.running import ROOT, free_port

SLOW = pytest.mark.slow
SECRETS = {
    "SECRET_KEY": "s" * 40,
    "GATEWAY_TOKEN_KEY": "t" * 40,
    "GATEWAY_ENCRYPTION_KEYS": "e" * 40,
    "ALLOWED_HOSTS": "gateway.example",
    "GATEWAY_BASE_URL": "https://gateway.example",
}


def serve(directory, **environ: str) -> subprocess.CompletedProcess:
    """`manage.py serve` as it ends; one that runs on is a failure."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "VIRTUAL_ENV")}
    fixed = {"GATEWAY_VAR_DIR": str(directory), "PORT": str(free_port())}
    return subprocess.run(
        [sys.executable, "manage.py", "serve", "--no-demo"],
        cwd=ROOT, env=kept | fixed | environ, capture_output=True, text=True, check=False, timeout=60,
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
        pytest.param({"PORT": "eighty"}, "PORT is 'eighty'", marks=SLOW),
        pytest.param({"DATABASE_URL": "mysql://here/there"}, "DATABASE_URL is 'mysql'", marks=SLOW),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_configuration_does_not_start(tmp_path, environ, reason):
    done = serve(tmp_path, **environ)
    assert done.returncode != 0
    assert reason in done.stderr
    assert "The gateway serves" not in done.stdout


def test_a_database_without_tables_does_not_start(tmp_path):
    """That is a mistake of the operator, unlike a database that is away."""
    done = serve(tmp_path)
    assert done.returncode != 0
    assert "migrate" in done.stderr


def test_gunicorn_started_by_hand_refuses_too(tmp_path):
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    environ = kept | {"GATEWAY_VAR_DIR": str(tmp_path), "PORT": str(free_port()), "DEBUG": "true", "HOST": "0.0.0.0"}
    done = subprocess.run(
        [sys.executable, "-m", "gunicorn", "gateway_project.wsgi"],
        cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert "gateway.E001" in done.stderr
