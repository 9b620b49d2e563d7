"""The clock of a gateway jumps under load: no request fails, nothing lapses or lasts, no time is negative."""

import time
from collections import Counter

import pytest

from telemetry.models import LogEntry
from tests.support.fault.clock import JumpingClock
from tests.support.load import Load, check_books
from tests.support.promises import promise

pytestmark = [
    pytest.mark.either_store,
    pytest.mark.slow,
]

# Not at midnight by accident: the jumps come back to where they began.
JUMPS = {"an hour ahead": 3600, "ten minutes back": -600, "a day ahead": 86_400, "a second back": -1}


@promise("A gateway whose clock jumps under load fails no request", target="0 failed; durations by a steady clock")
@pytest.mark.parametrize("seconds", JUMPS.values(), ids=JUMPS)
def test_the_clock_jumps_there_and_back(start, tmp_path, seconds, figure):
    clock = JumpingClock(tmp_path)
    world = start(**clock.environ)
    world.allow()
    provider = world.provider()
    assert world.ask("before").status_code == 200
    provider.default.delay = 0.3
    with Load(world, clients=4) as whole, Load(world, clients=4, stream=True) as streams:
        for ahead in (seconds, 0):
            serve_on(whole)
            serve_on(streams)
            clock.jump(ahead)
        serve_on(whole)
        serve_on(streams)
    sent = whole.sent + streams.sent
    assert Counter((one.status, one.error, one.served) for one in sent) == {(200, "", True): len(sent)}
    assert set(check_books(sent, provider).values()) == {"completed"}
    longest = max(one.ended - one.began for one in sent)
    ids = {one.request_id for one in sent}
    logged = LogEntry.objects.filter(entry_type="WorkRequest").values_list("correlation_id", "duration_ms")
    durations = [duration for name, duration in logged if name in ids]
    assert 250 <= min(durations) <= max(durations) <= longest * 1000 + 50
    figure(f"{len(sent)} requests, 0 failed, durations {min(durations):.0f} to {max(durations):.0f} ms")


def serve_on(load: Load) -> None:
    before = load.served()
    load.wait(lambda: load.served() > before + 12, 30)
    time.sleep(0.2)
