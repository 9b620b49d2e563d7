"""What is not loaded costs no memory, in every process that serves."""

import os
import subprocess
import sys

import pytest

from tests.support.running import ROOT

pytestmark = [pytest.mark.embedded, pytest.mark.long]


def loaded_by(code: str, *modules: str) -> str:
    """Which of these modules a process has loaded that runs this code."""
    code += f"; import sys; print(*sorted({set(modules)!r} & sys.modules.keys()))"
    environ = os.environ | {"DATABASE_URL": "postgresql://127.0.0.1/nowhere", "GATEWAY_MODE": "local"}
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def test_the_server_that_starts_the_workers_loads_neither_django_nor_a_driver():
    """It serves nothing, and its memory comes on top of theirs."""
    configure = "import runpy, gunicorn.app.wsgiapp; runpy.run_path('gunicorn.conf.py')"
    code = f"{configure}; import gateway_project.server.worker"
    assert loaded_by(code, "django.conf", "django.http", "django.db", "asyncio", "psycopg") == ""


def test_a_worker_loads_what_logins_and_the_schema_need_with_the_first_of_them():
    """Each brings Django's test client along: together 5 MB of every worker that serves work alone."""
    assert loaded_by("import gateway_project.wsgi", "gateway_project.work.runtime") == "gateway_project.work.runtime"
    assert loaded_by("import gateway_project.wsgi", "django.test", "drf_spectacular", "jwt", "unittest") == ""
