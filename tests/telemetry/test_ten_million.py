"""Ten million entries slow nothing down: not the newest page, not writing, not pruning."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from telemetry import partitions, retention
from telemetry.batches import insert_log_entries
from telemetry.models import LogEntry
from tests.management import new_user, token_of
from tests.telemetry.test_million import p95
from tests.telemetry.test_rollups import done

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="ten million rows are for PostgreSQL"),
]
DAYS, DAY = 100, timedelta(days=1)
ROWS_A_DAY = 100_000
BATCHES, BATCH = 40, 500
PAGE_MS, PRUNE_SECONDS = 100, 1.0

FILL = """
INSERT INTO telemetry_logentry
    (timestamp, entry_type, entry_source, correlation_id, message, user_id, model, provider_id, outcome, payload)
SELECT %s::timestamptz + n * interval '1 day' / %s,
    CASE WHEN n %% 10 = 0 THEN 'Message' ELSE 'WorkRequest' END,
    CASE WHEN n %% 5 = 0 THEN 'Cache' ELSE 'Worker' END,
    md5(n::text), 'It was served.', n %% 1000, 'model-' || n %% 20, 1, 'completed', 'p'
FROM generate_series(0, %s - 1) n
"""
QUESTIONS = ["", "page[number]=5", "id=7", "type=WorkRequest", "source=Cache", "id=7&type=Message", "end={old}"]


def midnight(days):
    today = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - days * DAY


def fill(days):
    """Some days of entries up to today, each in a partition of its own."""
    for back in reversed(range(1, days + 1)):
        start = midnight(back)
        partitions.make(start, start + DAY)
        with connection.cursor() as cursor:
            cursor.execute(FILL, [start, ROWS_A_DAY, ROWS_A_DAY])
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE telemetry_logentry")


def clear():
    for partition in partitions.partitions():
        with connection.cursor() as cursor:
            cursor.execute(f'DROP TABLE "{partition.name}"')
    LogEntry.objects.all().delete()


def timed(action, times=1):
    """The seconds that an action took within which 19 of 20 were over."""
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        action()
        took.append(time.perf_counter() - begun)
    return sorted(took)[max(times * 95 // 100 - 1, 0)]


def measured(client, token):
    """p95 in milliseconds of the pages, of writing a batch and of each step of pruning."""
    old = f"{midnight(1) - timedelta(minutes=5):%Y-%m-%dT%H:%M:%SZ}"
    headers = {"Authorization": f"Bearer {token}"}
    found = {f"page {query}": p95(client, f"/logs/?{query.format(old=old)}", headers=headers) for query in QUESTIONS}
    batch = [done(f"new-{number}", datetime.now(UTC), user_id=number % 50) for number in range(BATCH)]
    found["insert"] = timed(lambda: insert_log_entries(batch), BATCHES) * 1000
    found["empty payloads"] = timed(lambda: retention.EmptyPayloads()(timezone.now())) * 1000
    found["prune"] = timed(lambda: retention.delete_entries(timezone.now())) * 1000
    return found


@pytest.mark.django_db(transaction=True)
def test_pages_writing_and_pruning_are_as_fast_as_with_a_hundredth_of_it(client, settings):
    settings.GATEWAY_LOG_DAYS, settings.GATEWAY_PAYLOAD_DAYS = DAYS - 1, DAYS - 2
    token = token_of(new_user("logs.view_all"))
    found = {}
    try:
        for days in (1, DAYS):
            clear()
            partitions.make_ahead(timezone.now())
            begun = time.perf_counter()
            fill(days)
            rows = days * ROWS_A_DAY
            print(f"\n{rows:,} entries filled in {time.perf_counter() - begun:.0f} s")
            settings.GATEWAY_LOG_DAYS, settings.GATEWAY_PAYLOAD_DAYS = days - 1 or 1, days - 2 if days > 2 else 1
            found[rows] = measured(client, token)
    finally:
        settings.GATEWAY_LOG_DAYS = 0
        clear()
        partitions.make_ahead(timezone.now())
    few, many = found.values()
    print("\n".join(f"{few[name]:8.1f} ms {many[name]:8.1f} ms  {name}" for name in many))
    slower = {name for name in many if name.startswith("page") and many[name] > max(PAGE_MS, 3 * few[name])}
    assert slower == set()
    assert many["insert"] < 2 * few["insert"] + 20
    assert many["prune"] < PRUNE_SECONDS * 1000
    assert many["empty payloads"] < PRUNE_SECONDS * 1000
