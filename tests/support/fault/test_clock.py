"""The clock of the fault tests: everything that says the time jumps, and dates are dates as before."""

import json
import os
import subprocess
import sys
import time

import pytest

from tests.support.fault.clock import JumpingClock
from tests.support.running import ROOT

pytestmark = [pytest.mark.embedded, pytest.mark.long]
DAY = 86_400
READ = """
import json, time
from datetime import UTC, date, datetime
from django.utils import timezone

print(json.dumps({
    "time": time.time(),
    "time_ns": time.time_ns() / 10**9,
    "now": datetime.now().timestamp(),
    "now with a time zone": datetime.now(UTC).timestamp(),
    "utcnow": datetime.utcnow().replace(tzinfo=UTC).timestamp(),
    "today": datetime.today().timestamp(),
    "timezone.now": timezone.now().timestamp(),
    "date.today": datetime.combine(date.today(), datetime.now().time()).timestamp(),
}))
"""
USE = """
import pickle, sqlite3
from datetime import UTC, date, datetime, timedelta
from django.core.serializers.json import DjangoJSONEncoder

real = datetime.__base__
assert real is not datetime
assert isinstance(real.now(UTC), datetime) and issubclass(real, datetime)
assert not isinstance(date.today(), datetime) and isinstance(datetime.now(), date)
moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
assert moment == real(2026, 1, 2, 3, 4, 5, tzinfo=UTC) and hash(moment) == hash(real(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
assert type(moment + timedelta(days=1)) is datetime
assert pickle.loads(pickle.dumps(moment)) == moment == datetime.fromisoformat(moment.isoformat())
assert DjangoJSONEncoder().default(moment) == "2026-01-02T03:04:05Z"
assert (real.now(UTC) - datetime.now(UTC)) < timedelta(seconds=-86_000)
print("as before")
"""


def run(code: str, clock: JumpingClock) -> bytes:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    return subprocess.run(command, cwd=ROOT, env=os.environ | clock.environ, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("seconds", [DAY, -600, 0])
def test_whatever_says_the_time_jumps(tmp_path, seconds):
    clock = JumpingClock(tmp_path)
    clock.jump(seconds)
    times = json.loads(run(READ, clock))
    ahead = {name: value - time.time() for name, value in times.items()}
    assert ahead == {name: pytest.approx(seconds, abs=30) for name in times}


def test_dates_of_a_jumping_clock_are_dates(tmp_path):
    assert run(USE, JumpingClock(tmp_path, DAY)) == b"as before\n"
