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


@pytest.mark.embedded
@pytest.mark.long
@pytest.mark.parametrize(("text", "code"), [(ONCE, 0), (ALWAYS, 1), ("import nothing_like_this", 2)])
def test_what_fails_runs_once_more_alone(tmp_path, text, code):
    (tmp_path / "test_one.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    arguments = ["pytest", "-p", "xdist", "-n", "2", "--dist", "loadfile"]
    result = subprocess.run(
        [sys.executable, "-m", "tests.support.suite", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code, result.stdout
    assert result.stdout.count("test session starts") == 2, result.stdout
