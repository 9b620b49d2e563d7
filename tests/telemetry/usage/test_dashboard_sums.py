"""The figures of the console's first page, out of entries that were shipped."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.services import create_user
from gateway_project.console.dashboard.attention import unpriced_models
from providers.services import create_provider, set_price
from telemetry.journal.batches import insert_log_entries
from telemetry.models import LogEntry, UsageHour
from telemetry.usage.dashboard_sums import PERIODS, dashboard_sums
from telemetry.usage.statistics import UsageQuery, usage
from tests.support.usage_entries import done


def test_an_empty_installation_has_a_first_page(db):
    for period in PERIODS.values():
        result = dashboard_sums(period)
        assert result["totals"]["requests"] == 0
        assert result["totals"]["cost"] == {}
        assert sum(result["series"]["requests"]) == 0
        assert result["top"] == {"users": [], "models": [], "providers": []}


def test_what_was_done_is_counted(world):
    world.provider()
    world.allow()
    world.price(1, 2)
    logged = LogEntry.objects.filter(entry_type="WorkRequest")
    before, already = dashboard_sums(PERIODS["hour"])["totals"], logged.count()
    assert world.ask().status_code == 200
    stored = world.ask()
    assert stored.headers["X-Svc-Cache"] == "HIT"
    world.entry(stored)
    after = dashboard_sums(PERIODS["hour"])["totals"]
    assert after["requests"] - before["requests"] == logged.count() - already >= 2
    assert after["cache_hits"] - before["cache_hits"] == 1
    assert after["p50"] is not None
    assert after["cost"].get("USD", 0) > before["cost"].get("USD", Decimal(0))
    assert after["saved"].get("USD", 0) > before["saved"].get("USD", Decimal(0))


def test_latencies_are_those_of_the_statistics(db):
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    UsageHour.objects.create(hour=hour, requests=100, completed=100, model="m", latency_8=90, latency_12=10)
    totals = dashboard_sums(PERIODS["hour"])["totals"]
    (row,) = usage(UsageQuery(hour, hour + timedelta(hours=1), ("model",)), 0, 1).rows
    assert (totals["p50"], totals["p95"]) == (row["p50_ms"], row["p95_ms"])


def test_the_top_is_ordered_and_named_with_cost_in_each_currency(db):
    user = create_user(username="busy", password="a long pass phrase")
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    busy, deleted_id = user.pk, user.pk + 1
    rows = [(7, 70, busy, "USD", 1), (3, 30, None, "USD", 4), (2, 20, deleted_id, "EUR", 8), (1, 5, busy, "EUR", 2)]
    for number, tokens, user_id, currency, cost in rows:
        spent = {"cost": cost, "estimated_cost": Decimal("0.5"), "currency": currency}
        UsageHour.objects.create(hour=hour, requests=number, input_tokens=tokens, user_id=user_id, model="m", **spent)
    top = dashboard_sums(PERIODS["hour"])["top"]
    figures = [(row.id, row.name, row.sums["requests"], row.sums["tokens"], row.sums["costs"]) for row in top["users"]]
    euro, dollar = Decimal("2.5"), Decimal("1.5")
    assert figures == [
        (busy, "busy", 8, 75, {"EUR": euro, "USD": dollar}),
        (deleted_id, str(deleted_id), 2, 20, {"EUR": Decimal("8.5")}),
    ]
    assert [(row.id, row.name, row.sums["requests"]) for row in top["models"]] == [("m", "m", 13)]


def test_a_provider_that_never_served_is_among_those_with_the_most_attempts(db):
    bad, good = (create_provider(name=name, url="https://a.example", format_name="openai") for name in ("bad", "good"))
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    UsageHour.objects.create(hour=hour, provider_id=bad.pk, attempts=9, failed_attempts=9)
    UsageHour.objects.create(hour=hour, provider_id=good.pk, requests=4, completed=4, attempts=4, latency_8=4)
    first, second = dashboard_sums(PERIODS["hour"])["top"]["providers"]
    assert (first.name, first.sums["attempts"], first.sums["failed_attempts"], first.sums["p95"]) == ("bad", 9, 9, None)
    assert (second.name, second.sums["failed_attempts"], second.sums["p50"] is not None) == ("good", 0, True)


def test_the_chart_of_costs_has_each_currency_and_the_same_sum_as_the_total(db):
    now = timezone.now()
    for hours, currency, cost in ((0, "USD", 1), (2, "USD", 2), (2, "EUR", 4)):
        hour = (now - timedelta(hours=hours)).replace(minute=0, second=0, microsecond=0)
        UsageHour.objects.create(hour=hour, requests=1, cost=cost, currency=currency)
    figures = dashboard_sums(PERIODS["day"])
    assert {name: sum(costs) for name, costs in figures["series"]["costs"].items()} == {"EUR": 4, "USD": 3}
    assert figures["totals"]["cost"] == {"EUR": 4, "USD": 3}
    assert len(figures["series"]["costs"]["USD"]) == len(figures["series"]["labels"])
    assert all(re.fullmatch(r"\d\d:00 UTC|\d\d \w\w\w", label) for label in figures["series"]["labels"])


@pytest.mark.parametrize("name", PERIODS)
def test_the_page_of_a_period_is_short_work(db, django_assert_max_num_queries, name):
    with django_assert_max_num_queries(12):
        dashboard_sums(PERIODS[name])


@pytest.mark.django_db(transaction=True)
def test_attention_is_drawn_to_models_without_a_price_and_not_to_calls_that_broke():
    provider = create_provider(name="p", url="https://api.example.org", format_name="openai")
    set_price(model="priced", currency="USD", input=Decimal(1), output=Decimal(1))
    broke = {"provider_id": provider.pk, "cost_status": "unknown"}
    unknown = broke | {"input_tokens": 7}
    now = timezone.now()
    insert_log_entries(
        [done("r1", now, model="priced", **unknown), done("r2", now, model="new", **unknown)]
        + [done(f"r3-{number}", now - timedelta(days=2), model="long ago", **unknown) for number in range(2)]
        + [done("r4", now, model="broke", **broke)]
    )
    assert unpriced_models(now - timedelta(days=1)) == [("new", provider.pk, "p")]
    assert unpriced_models(now - timedelta(days=3)) == [("long ago", provider.pk, "p"), ("new", provider.pk, "p")]
