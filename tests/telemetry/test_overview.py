"""The figures of the console's first page, out of entries that were shipped."""

from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.services import create_user
from telemetry.models import LATENCY_MS, LogEntry, UsageHour
from telemetry.overview import PERIODS, overview, percentile


def test_a_percentile_is_the_bound_below_which_its_share_lies():
    counts = [0] * (len(LATENCY_MS) + 1)
    assert percentile(counts, 0.5) is None
    counts[4], counts[8] = 95, 5
    assert percentile(counts, 0.5) == LATENCY_MS[4]
    assert percentile(counts, 0.95) == LATENCY_MS[4]
    assert percentile(counts, 0.96) == LATENCY_MS[8]
    counts = [0] * len(LATENCY_MS) + [1]
    assert percentile(counts, 0.5) == LATENCY_MS[-1]


def test_an_empty_installation_has_a_first_page(db):
    for period in PERIODS.values():
        found = overview(period)
        assert found["totals"]["requests"] == 0
        assert found["totals"]["cost"] == {}
        assert sum(found["series"]["requests"]) == 0
        assert found["top"] == {"users": [], "models": [], "providers": []}


def test_what_was_done_is_counted(world):
    world.provider()
    world.allow()
    world.price(1, 2)
    logged = LogEntry.objects.filter(entry_type="WorkRequest")
    before, already = overview(PERIODS["hour"])["totals"], logged.count()
    assert world.ask().status_code == 200
    stored = world.ask()
    assert stored.headers["X-Svc-Cache"] == "HIT"
    world.entry(stored)
    after = overview(PERIODS["hour"])["totals"]
    assert after["requests"] - before["requests"] == logged.count() - already >= 2
    assert after["cache_hits"] - before["cache_hits"] == 1
    assert after["p50"] is not None
    assert after["cost"].get("USD", 0) > before["cost"].get("USD", Decimal(0))
    assert after["saved"].get("USD", 0) > before["saved"].get("USD", Decimal(0))


def test_the_top_is_ordered_and_named(db):
    user = create_user(username="busy", password="a long pass phrase")
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    for number, tokens, user_id in ((7, 70, user.pk), (3, 30, None), (2, 20, user.pk + 1)):
        UsageHour.objects.create(hour=hour, requests=number, input_tokens=tokens, user_id=user_id, model="m")
    top = overview(PERIODS["hour"])["top"]
    assert top["users"] == [("busy", 7, 70), (str(user.pk + 1), 2, 20)]
    assert top["models"] == [("m", 12, 120)]


@pytest.mark.parametrize("name", PERIODS)
def test_the_page_of_a_period_is_short_work(db, django_assert_max_num_queries, name):
    with django_assert_max_num_queries(12):
        overview(PERIODS[name])
