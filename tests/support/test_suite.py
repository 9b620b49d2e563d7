"""A test that fails only beside others passes alone; one that always fails fails the run."""

import os
import subprocess
import sys

import pytest

from tests.support.running import ROOT

ONCE = """
from pathlib import Path

def test_it_fails_once(request):
    mark = Path("mark")
    existed = mark.exists()
    mark.touch()
    assert existed
"""
ALWAYS = "def test_it_fails():\n    assert False\n"


@pytest.mark.parametrize(("text", "code", "runs"), [(ONCE, 0, 2), (ALWAYS, 1, 2), ("import nothing_like_this", 2, 2)])
def test_what_fails_runs_once_more_alone(tmp_path, text, code, runs):
    (tmp_path / "test_one.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable,
        "-m",
        "tests.support.suite",
        "pytest",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "-p",
        "no:django",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == code, result.stdout
    assert result.stdout.count("short test summary info") + (code == 0) == runs, result.stdout
