"""Active uses under pressure: never one too many, and never a refusal while there was room."""

import json
import os
import secrets
import subprocess
import sys

import pytest

from gateway_project.work.state.shared import LocalState
from tests.gateway_project.work.conftest import needs_redis
from tests.support.limits.pressure import MAX_USES, Seen, most_at_once, press, refused_for_nothing
from tests.support.pace import patience
from tests.support.running import ROOT


def assert_exact(request: list[Seen]) -> None:
    assert most_at_once(request) == MAX_USES, "so many were let in, and not one more"
    assert refused_for_nothing(request) == []
    assert len({one.user for one in request if one.ending}) > MAX_USES, "uses lapsed, and others took their place"
    assert any(not one.ending for one in request)


@pytest.mark.long
def test_fifty_threads_of_one_process():
    assert_exact(press(LocalState(cache_bytes=0)))


@pytest.mark.slow
@pytest.mark.servers
@needs_redis
def test_four_processes_of_fifty_threads_each():
    environ = os.environ | {"DJANGO_SETTINGS_MODULE": "gateway_project.settings"}
    command = [sys.executable, "-m", "tests.support.limits.pressure", f"test-{secrets.token_hex(6)}"]
    running = [
        subprocess.Popen([*command, str(seed)], cwd=ROOT, env=environ, stdout=subprocess.PIPE) for seed in range(4)
    ]
    bodies = [json.loads(process.communicate(timeout=patience(30))[0]) for process in running]
    assert_exact([Seen(*one) for some in bodies for one in some])
