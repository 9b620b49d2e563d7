"""What the targets of the Makefile run, and with which settings."""

import os
import subprocess

import pytest

from tests.support.running import ROOT

pytestmark = [pytest.mark.embedded, pytest.mark.long]
SHOWN = ("SOAK", "FUZZ_RUNS")


@pytest.fixture
def commands(tmp_path):
    """Runs a target with a Python that writes down its arguments and environment: commands("faults") -> text."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python"
    python.write_text(f'#!/bin/sh\necho "$@ {" ".join(f"{name}=[${{{name}-unset}}]" for name in SHOWN)}"\n')
    python.chmod(0o755)
    for name in (".installed", ".installed-dev"):  # in this order: each is made anew after the one before
        (tmp_path / name).touch()

    def run(target: str, **environ: str) -> str:
        own = {name: value for name, value in os.environ.items() if name not in SHOWN}
        command = ["make", "--silent", target, f"VENV={tmp_path}"]
        return subprocess.run(
            command, cwd=ROOT, env=own | environ, capture_output=True, text=True, check=True, timeout=30
        ).stdout

    return run


@pytest.mark.parametrize(("environ", "soak"), [({}, "1800"), ({"SOAK": "120"}, "120"), ({"SOAK": ""}, "")])
def test_faults_soaks_for_half_an_hour_unless_told_otherwise(commands, environ, soak):
    assert f"SOAK=[{soak}]" in commands("faults", **environ)


@pytest.mark.parametrize(("environ", "seeds"), [({}, "20"), ({"FUZZ_RUNS": "2"}, "2")])
def test_fuzz_tries_twenty_seeds_with_the_slow_tests(commands, environ, seeds):
    command = commands("fuzz", **environ)
    assert f"FUZZ_RUNS=[{seeds}]" in command
    assert "tests/test_fuzzing.py" in command
    assert "not slow" not in command


def test_other_targets_neither_soak_nor_fuzz_for_long(commands):
    assert "SOAK=[unset] FUZZ_RUNS=[unset]" in commands("attacks")
