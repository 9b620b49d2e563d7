"""What every command of manage.py does alike."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.pace import patience
from tests.support.running import ROOT

pytestmark = pytest.mark.either_store

# As a terminal starts it, whatever the tests were started by.
STARTED = "import signal, manage; signal.signal(signal.SIGINT, signal.default_int_handler); manage.main()"
PROMPT = "User name: "


@pytest.fixture
def asking(tmp_path):
    """A command that waits for an answer."""
    values = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    with subprocess.Popen(
        [sys.executable, "-c", STARTED, "createsuperuser"],
        cwd=ROOT, env=values | {"GATEWAY_VAR_DIR": str(tmp_path)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout.read(len(PROMPT)) == PROMPT
        yield process


@pytest.mark.long
def test_one_that_is_interrupted_ends_without_a_word(asking):
    time.sleep(patience(0.3))  # it has asked, and does not wait yet
    asking.send_signal(signal.SIGINT)
    assert asking.wait(30) == 130
    assert asking.communicate() == ("", "")


@pytest.mark.long
def test_one_that_gets_no_answer_says_so_in_a_line(asking):
    result, refused = asking.communicate(timeout=30)
    assert (asking.returncode, result) == (1, "")
    assert refused == "The command asked a question, but its input has ended.\n"


@pytest.fixture
def run_script(tmp_path):
    """Runs Python where commands run."""
    values = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    values |= {"DJANGO_SETTINGS_MODULE": "gateway_project.settings", "GATEWAY_VAR_DIR": str(tmp_path)}
    options = {"cwd": ROOT, "env": values, "capture_output": True, "text": True, "timeout": 60}
    return lambda script: subprocess.run([sys.executable, "-c", script], check=False, **options)


@pytest.mark.long
def test_one_loads_neither_the_console_nor_the_management_api(run_script):
    """They take longer to load than all else that most commands need."""
    run = run_script(
        "import sys, django; from django.core import checks; django.setup(); checks.run_checks(tags=['gateway'])\n"
        "print({'gateway_project.console.site', 'unfold.admin', 'rest_framework.views', 'requests'} & set(sys.modules))"
    )
    assert run.stdout == "set()\n", run.stderr


@pytest.mark.long
def test_check_looks_at_the_console(run_script):
    run = run_script(
        "import sys, manage\n"
        "from gateway_project.console import loading\n"
        "loading.load_console = lambda load=loading.load_console: (load(), spoil())\n"
        "def spoil():\n"
        "    from keys.admin import KeyAdmin\n"
        "    KeyAdmin.list_display = ['no_such_field']\n"
        "sys.argv = ['manage.py', 'check']\n"
        "manage.main()\n"
    )
    assert "no_such_field" in run.stderr
    assert "admin.E108" in run.stderr
