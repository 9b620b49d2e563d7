"""Long commands say on a terminal how far they are, and nothing where their output is read by a program."""

import io
import os
import pty
import subprocess
import sys

import pytest
from django.core.management.base import OutputWrapper

from gateway_project.progress import Progress
from tests.support.pace import patience
from tests.support.running import ROOT
from tests.support.thoroughness import first_of

pytestmark = [pytest.mark.long, pytest.mark.either_store]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_items_are_counted_on_a_terminal():
    terminal = Terminal()
    progress = Progress(OutputWrapper(terminal))
    assert list(progress.count_items(["a", "b"], "Comparing days")) == ["a", "b"]
    lines = terminal.getvalue().split("\r\x1b[K")
    assert lines == ["", "Comparing days: 1 of 2…", "Comparing days: 2 of 2…", ""]


def test_a_program_that_reads_the_output_sees_nothing_of_it():
    output = io.StringIO()
    assert list(Progress(OutputWrapper(output)).count_items([1, 2], "Comparing days")) == [1, 2]
    assert output.getvalue() == ""


@pytest.mark.parametrize(
    ("command", "shown"),
    first_of(
        (["verify_usage", "--from=2026-01-01", "--to=2026-01-03"], "Comparing days: 2 of 2…"),
        (["housekeep"], "entries: batch 1…"),
    ),
)
def test_a_command_shows_where_it_is(tmp_path, command, shown):
    environ = os.environ | {"GATEWAY_VAR_DIR": str(tmp_path), "DATABASE_URL": "", "REDIS_URL": ""}
    manage = [sys.executable, "manage.py"]
    subprocess.run([*manage, "migrate", "-v0"], cwd=ROOT, env=environ, check=True, timeout=patience(40))
    master, terminal = pty.openpty()
    process = subprocess.run(
        [*manage, *command],
        cwd=ROOT,
        env=environ,
        check=True,
        timeout=patience(40),
        stdout=subprocess.PIPE,
        stderr=terminal,
    )
    os.close(terminal)
    printed = os.read(master, 100_000).decode()
    os.close(master)
    assert shown in printed
    assert printed.endswith("\r\x1b[K"), "the line is gone before the result is printed"
    assert process.stdout.decode().count("\n") == 1
    quiet = subprocess.run(
        [*manage, *command], cwd=ROOT, env=environ, check=True, timeout=patience(40), capture_output=True
    )
    assert quiet.stderr == b""
