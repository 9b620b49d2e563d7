import pytest

from gateway_project.work.what_if import running

HOUR = 3600.0


@pytest.fixture(autouse=True)
def quiet_heartbeat(monkeypatch):
    """No beat during a test: the test's transaction hides the what-if from the heartbeat, which would cancel it."""
    monkeypatch.setattr(running, "BEAT_SECONDS", HOUR)
