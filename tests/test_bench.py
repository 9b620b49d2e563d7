"""What `make bench` compares with starts, and the path of a request gets no longer."""

import json
import subprocess
import sys
from contextlib import ExitStack

import pytest

from bench import servers
from tests.support.pace import patience
from tests.support.running import ROOT

pytestmark = pytest.mark.embedded


# Function calls of a request. They only fall: each one more is paid by every request.
MOST_CALLS = {"hit": 579, "miss": 918}


@pytest.mark.long
def test_a_request_takes_no_more_calls_than_before():
    command = [sys.executable, "-m", "bench.path"]
    calls = json.loads(subprocess.check_output(command, cwd=ROOT, text=True, timeout=patience(40)))
    assert {kind: calls[kind] for kind in calls if calls[kind] > MOST_CALLS[kind]} == {}


@pytest.mark.long
def test_the_bare_view_passes_a_request_on(tmp_path):
    """The gateway's worker, in which it runs, reads settings that it has to lend."""
    with ExitStack() as resources:
        standin = servers.start_standin(None, tmp_path / "standin.log")
        resources.callback(standin.stop)
        baseline = servers.start_baseline(
            None,
            tmp_path / "baseline.log",
            standin=f"http://127.0.0.1:{standin.port}",
            worker_class=servers.GATEWAY_WORKER,
            threads=4,
        )
        resources.callback(baseline.stop)
        status, body = baseline.get("/pass")
        assert (status, b"choices" in body) == (200, True)
