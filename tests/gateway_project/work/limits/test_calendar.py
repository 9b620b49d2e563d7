"""Windows are those of the calendar, in UTC."""

from datetime import UTC, datetime

import pytest

from gateway_project.work.limits.checks import DAY, MINUTE, MONTH, window_begin, window_end
from tests.gateway_project.work.conftest import needs_redis, redis_state


@pytest.mark.parametrize(
    ("window", "at", "begin", "end"),
    [
        (MINUTE, "2026-03-29T01:59:59.9", "2026-03-29T01:59:00", "2026-03-29T02:00:00"),
        (DAY, "2026-02-28T23:59:59.9", "2026-02-28T00:00:00", "2026-03-01T00:00:00"),
        (MONTH, "2026-02-28T23:59:59.9", "2026-02-01T00:00:00", "2026-03-01T00:00:00"),
        (MONTH, "2028-02-29T12:00:00", "2028-02-01T00:00:00", "2028-03-01T00:00:00"),
        (MONTH, "2026-12-31T23:59:59.9", "2026-12-01T00:00:00", "2027-01-01T00:00:00"),
        (MONTH, "2027-01-01T00:00:00", "2027-01-01T00:00:00", "2027-02-01T00:00:00"),
    ],
)
def test_windows_are_those_of_the_calendar_in_utc(window, at, begin, end):
    result = window_begin(window, datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp())
    results = [
        datetime.fromtimestamp(moment, UTC).replace(tzinfo=None) for moment in (result, window_end(window, result))
    ]
    assert [moment.isoformat() for moment in results] == [begin, end]


@pytest.mark.servers
@needs_redis
def test_redis_has_the_same_calendar():
    """The script's months, for every day of forty years."""
    from gateway_project.work.state.redis.admission_script import ADMIT

    state = redis_state()
    month = ADMIT[ADMIT.index("local function month") : ADMIT.index("local function begin_of")]
    script = f"{month} local out = {{}} for day = 0, 14609 do out[day + 1] = month(day * 86400 + 86399) end return out"
    months = state._client.command("EVAL", script, 0)
    assert months == [window_begin(MONTH, day * DAY + DAY - 1) for day in range(14610)]
