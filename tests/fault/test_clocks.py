"""A gateway whose clock is wrong: the windows of limits are those of Redis, and nothing that was used is forgotten."""

import time
from datetime import UTC, datetime

import pytest

from gateway_project.work.limits.checks import DAY
from licensing.models import Limit
from tests.support.fault.clock import JumpingClock
from tests.support.servers import own_redis

pytestmark = pytest.mark.servers
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(params=[30, 7200, -600])
def wrong(request, tmp_path):
    """The clock of a gateway that is so many seconds ahead."""
    return JumpingClock(tmp_path, request.param)


@pytest.fixture
def redis_server():
    """Ends after the gateways, which are never at rest without it."""
    with own_redis() as server:
        yield server


def test_a_quota_is_kept_whatever_the_gateways_clock_shows(redis_server, start, wrong):
    if time.time() % DAY > DAY - 60:  # on one day
        time.sleep(60)
    # Of ten processes each may let in nobody by itself: who is served was counted.
    world = start(REDIS_URL=redis_server.url, WEB_CONCURRENCY="1", GATEWAY_PROCESSES="10", **wrong.environ)
    world.allow()
    world.provider()
    key = world.new_key()
    Limit.objects.create(key=key.key, measure="requests", window="day", amount=3, bounds_since=LONG_AGO)
    world.settle()

    def asked(count):
        return [world.ask(str(n), key=key.text, headers={"X-Svc-Cache": "bypass"}).status_code for n in range(count)]

    assert asked(2) == [200, 200]
    with redis_server.client() as client:
        client.flushall()
    assert asked(3) == [200, 429, 429]
    wrong.jump(0)  # the logins with which the books are compared have the right time
