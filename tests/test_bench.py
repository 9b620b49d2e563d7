"""What `make bench` compares with starts: it lends the gateway's worker the settings that this one reads."""

from contextlib import ExitStack

import pytest

from bench import servers

pytestmark = pytest.mark.embedded


def test_the_bare_view_passes_a_request_on(tmp_path):
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
