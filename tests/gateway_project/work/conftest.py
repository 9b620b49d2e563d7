"""The two shared states under one name, so that one suite holds them to the same promises."""

import os
import secrets

import pytest

from gateway_project.work.state.process_count import ProcessCount
from gateway_project.work.state.shared import LocalState

needs_redis = pytest.mark.skipif(not os.environ.get("REDIS_URL"), reason="needs a Redis at REDIS_URL")
TIMEOUT = 0.25
# Where nothing is wrong with Redis nobody is to run into a time-out, however busy this machine is.
PATIENT = 10.0


def redis_state(**options):
    from gateway_project.work.state.redis.state import RedisState

    values = {"prefix": f"test-{secrets.token_hex(6)}", "secret": "s" * 40, "connections": 8, "timeout": PATIENT}
    return RedisState(**values | {"processes": ProcessCount(local=4)} | options)


@pytest.fixture(params=["local", pytest.param("redis", marks=[pytest.mark.servers, needs_redis])])
def state(request):
    """A shared state of its own for each test, of which Redis must not refuse anything."""
    row = LocalState(cache_bytes=10_000) if request.param == "local" else redis_state()
    yield row
    assert not row.degraded


@pytest.fixture
def redis_at(settings):
    """Makes states of a Redis at another address: redis_at(url) -> RedisState."""

    def make(url, **options):
        settings.CACHES = {"default": settings.CACHES["default"] | {"LOCATION": url}}
        return redis_state(**{"timeout": TIMEOUT} | options)

    return make
