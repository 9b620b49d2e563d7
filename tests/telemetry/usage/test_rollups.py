"""The hours of usage say what the log says: always, whoever wrote it, and however often they are merged."""

import random
import threading
from collections import Counter
from datetime import timedelta
from decimal import Decimal
from importlib import import_module

import pytest
from django.apps import apps
from django.db import DatabaseError, connection
from django.db.models import Sum

from telemetry.attempts import LoggedAttempt
from telemetry.journal.adoption import adopt_journal
from telemetry.journal.batches import insert_log_entries
from telemetry.journal.files import Journal
from telemetry.journal.shipping import Shipper
from telemetry.models import LogEntry, ModelUsageDay, ModelUsageHour, UsageDay, UsageHour
from telemetry.retention import deletion
from telemetry.usage import rollups
from telemetry.usage.models import LATENCY_COLUMNS, LATENCY_MS
from telemetry.usage.verification import differences, repair_hours
from tests.support.usage_entries import BEGIN, END, HOUR, at, done
from tests.telemetry.conftest import SEGMENT, entry

pytestmark = pytest.mark.django_db(transaction=True)

OUTCOMES = ("completed", "completed", "completed", "denied", "failed", "truncated", "client_closed", "aborted")


def anything(seed):
    """An entry as any request could leave it."""
    chance = random.Random(seed)
    hit = chance.random() < 0.2
    status = chance.choice(["known", "estimated", "unknown", ""])
    return entry(
        f"r{seed}",
        entry_type=chance.choice(["WorkRequest"] * 5 + ["Message"]),
        timestamp=at(HOUR + timedelta(minutes=chance.randrange(-200, 200), microseconds=chance.randrange(10**6))),
        outcome=chance.choice(OUTCOMES),
        cache_status="HIT" if hit else chance.choice(["MISS", "BYPASS", ""]),
        user_id=chance.choice([None, 1, 2]),
        group_ids=chance.choice([[], [1], [1, 2]]),
        key_id=chance.choice([None, 5]),
        provider_id=chance.choice([None, 7]),
        model=chance.choice(["a", "b", "made up"]),
        tags=chance.choice([{}, {"team": "x"}, {"team": "x", "env": "ä '%s"}]),
        currency="" if status in ("", "unknown") else chance.choice(["USD", "EUR"]),
        cost=None if status in ("", "unknown") else f"{Decimal(chance.randrange(10**9)).scaleb(-12):f}",
        saved_cost=f"{Decimal(chance.randrange(10**9)).scaleb(-12):f}" if hit and chance.random() < 0.5 else None,
        cost_status=status,
        usage_estimated=chance.random() < 0.2,
        duration_ms=chance.choice([None, chance.lognormvariate(3, 3)]),
        first_byte_ms=chance.choice([None, 3.25]),
        **{name: chance.choice([None, chance.randrange(10_000)]) for name in (*rollups.TOKENS, "reasoning_tokens")},
    )


def totals(**filters):
    result = UsageHour.objects.filter(**filters).aggregate(**{f"all_{name}": Sum(name) for name in rollups.MEASURES})
    return {name.removeprefix("all_"): value for name, value in result.items() if value}


def test_a_batch_is_added_up_as_it_is_stored():
    tokens = {
        "input_tokens": 10,
        "cache_read_tokens": 4,
        "cache_write_tokens": 2,
        "output_tokens": 5,
        "reasoning_tokens": 3,
    }
    cost = {"cost": "0.000000000123", "currency": "USD", "cost_status": "known"}
    saved = {"cost": "0", "saved_cost": "0.5"}
    same = {"user_id": 3, "key_id": 4, "group_ids": [1, 2], "tags": {"team": "x"}, "currency": "USD"}
    insert_log_entries(
        [
            done("r1", duration_ms=5.5, first_byte_ms=2.25, **same | tokens | cost),
            done("r2", HOUR + timedelta(minutes=59, seconds=59.9), duration_ms=100.0, **same | tokens | cost),
            done("r3", cache_status="HIT", duration_ms=0.5, **same | tokens | cost | saved),
            done("r4", outcome="failed", duration_ms=9.0, **same | {"cost_status": "unknown"}),
            done("r5", outcome="truncated", usage_estimated=True, **same | {"cost": "1", "cost_status": "estimated"}),
            done("r6", entry_type="Message", **same | tokens | cost),
            done("r7", HOUR + timedelta(hours=1), **same),
        ]
    )
    row = UsageHour.objects.get(hour=HOUR)
    assert (row.user_id, row.key_id, row.provider_id, row.model, row.currency) == (3, 4, 1, "m", "USD")
    assert (row.group_ids, row.tags, row.merged) == ([1, 2], {"team": "x"}, False)
    assert totals(hour=HOUR) == {
        "requests": 5, "completed": 3, "errors": 2, "cache_hits": 1, "estimated_requests": 1,
        "unknown_cost_requests": 1, "input_tokens": 20, "cache_read_tokens": 8, "cache_write_tokens": 4,
        "output_tokens": 10, "reasoning_tokens": 6, "saved_tokens": 21, "cost": Decimal("0.000000000246"),
        "estimated_cost": 1, "saved_cost": Decimal("0.5"),
        "duration_us": 106_000, "first_byte_us": 2_250, "first_bytes": 1, "asked": 4, "attempts": 5,
        "latency_0": 1, "latency_3": 1, "latency_9": 1,
    }  # fmt: skip
    assert totals(hour=HOUR + timedelta(hours=1))["requests"] == 1


def test_a_request_without_a_price_is_told_from_one_that_ended_without_an_answer():
    outcomes = ("completed", "completed", "timeout", "failed", "client_closed")
    insert_log_entries([done(f"r{n}", outcome=one, cost_status="unknown") for n, one in enumerate(outcomes)])
    assert (totals()["unknown_cost_requests"], totals()["unpriced_requests"]) == (5, 2)


def test_names_that_clients_made_up_do_not_fill_the_table():
    insert_log_entries([done(f"r{n}", provider_id=None, model=f"made up {n}", outcome="denied") for n in range(50)])
    assert UsageHour.objects.get().model == ""
    assert totals()["denied"] == 50


def test_every_latency_has_its_place():
    edges = [0.0, *LATENCY_MS, 10.0**9]
    insert_log_entries([done(f"r{n}", duration_ms=float(edge)) for n, edge in enumerate(edges)])
    counted = [totals().get(name, 0) for name in LATENCY_COLUMNS]
    assert counted == [1] * (len(LATENCY_COLUMNS) - 1) + [2]


def test_only_the_tags_that_the_setting_names_are_counted(settings):
    settings.GATEWAY_STATS_TAGS = ["team", "o'x%"]
    insert_log_entries([done("r1", tags={"team": "x", "trace": "1"}), done("r2", tags={"team": "x", "trace": "2"})])
    assert UsageHour.objects.get().tags == {"team": "x"}
    assert differences(BEGIN, END) == []
    settings.GATEWAY_STATS_TAGS = []
    insert_log_entries([done("r3", tags={"team": "x"})])
    assert UsageHour.objects.filter(tags={}).count() == 1


@pytest.mark.long
def test_it_equals_the_log_whatever_is_in_it_and_stays_so_when_it_is_merged():
    for batch in range(12):
        insert_log_entries([anything(batch * 100 + number) for number in range(60)])
    assert LogEntry.objects.filter(entry_type="WorkRequest").count() == totals()["requests"]
    assert differences(BEGIN, END) == []
    before, rows = totals(), UsageHour.objects.count()
    for hour in UsageHour.objects.values_list("hour", flat=True).distinct():
        rollups.merge_hour(hour)
    assert totals() == before
    assert UsageHour.objects.count() < rows
    assert differences(BEGIN, END) == []
    assert not UsageHour.objects.filter(merged=False).exists()


def test_days_hold_what_their_merged_hours_come_to_and_with_the_others_it_is_all():
    """However far the merging of hours and days has come, a period reads the same."""
    begin, end = HOUR - timedelta(hours=40), HOUR + timedelta(hours=90)

    def sums_of(start, end, **options):
        rows, parameters = rollups.usage_rows(start, end, **options)
        sums = ", ".join(f'coalesce(sum("{name}"), 0)' for name in rollups.MEASURES)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {sums} FROM {rows}", parameters)
            return [pytest.approx(float(value)) for value in cursor.fetchone()]

    def read(start, end):
        whole = sums_of(start, end)
        assert sums_of(start, end, dimensions=["model"]) == whole
        assert sums_of(start, end, dimensions=["model"], by_hour=True) == whole
        assert sums_of(start, end, by_hour=True) == whole
        return whole

    for step in range(6):
        batch = [done("r", HOUR + timedelta(hours=11 * number), input_tokens=number) for number in range(-4, 9)]
        insert_log_entries([*batch, *(anything(step * 100 + number) for number in range(30))])
        entries = LogEntry.objects.filter(entry_type="WorkRequest", timestamp__range=(begin, end)).count()
        whole, part = read(begin, end), read(HOUR, HOUR + timedelta(hours=50))
        hours = sorted(set(UsageHour.objects.filter(merged=False).values_list("hour", flat=True)))
        for hour in hours[:: step + 1]:  # some are left as they are
            rollups.merge_hour(hour)
        assert read(begin, end) == whole
        for day in sorted(set(UsageDay.objects.filter(merged=False).values_list("hour", flat=True)))[: step // 2]:
            rollups.merge_day(day)
        assert (read(begin, end), read(HOUR, HOUR + timedelta(hours=50))) == (whole, part)
        assert whole[0] == entries
        assert differences(begin, end) == []
    assert UsageDay.objects.filter(merged=True).exists()
    assert UsageDay.objects.filter(merged=False).exists()
    assert UsageHour.objects.filter(merged=False).exists()


def test_a_day_that_differs_from_its_hours_is_found_told_and_repaired():
    insert_log_entries([done("r1", input_tokens=7), done("r2", HOUR + timedelta(hours=3))])
    rollups.merge_hour(HOUR)
    UsageDay.objects.update(input_tokens=5)
    (result,) = differences(BEGIN, END)
    assert str(result) == "2027-01-15, all of it provider_id=1 model=m: input_tokens +2"
    assert repair_hours(BEGIN, END) == 1
    assert differences(BEGIN, END) == []
    ModelUsageHour.objects.update(requests=5)
    (result,) = differences(BEGIN, END)
    assert str(result) == "2027-01-15 08:00, sums of models: provider_id=1 model=m: requests -4"
    assert repair_hours(BEGIN, END) == 1
    assert differences(BEGIN, END) == []
    UsageDay.objects.all().delete()
    assert [difference.amounts["requests"] for difference in differences(BEGIN, END)] == [1]
    repair_hours(BEGIN, END)
    assert differences(BEGIN, END) == []
    assert (UsageDay.objects.get().requests, UsageDay.objects.get().hour) == (1, HOUR.replace(hour=0))


def test_usage_by_model_is_read_from_few_rows_however_many_users_there_are():
    insert_log_entries([done(f"r{n}", user_id=n, key_id=n, tags={"team": str(n)}) for n in range(9)])
    rollups.merge_hour(HOUR)
    for model in (ModelUsageHour, ModelUsageDay):
        assert [(row.provider_id, row.model, row.requests) for row in model.objects.all()] == [(1, "m", 9)]
    UsageHour.objects.update(requests=0)
    rows, parameters = rollups.usage_rows(BEGIN, END, dimensions=("provider_id", "alias"))
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT sum("requests") FROM {rows}', parameters)
        assert cursor.fetchone() == (9,)


def test_rollups_that_an_earlier_version_left_behind_are_found_within_an_hour():
    """During an upgrade it may still merge, and it knows of no models' hours and days."""
    insert_log_entries([done("r1"), done("r2", HOUR + timedelta(days=1))])
    check, now = deletion.RollupCheck(), HOUR + timedelta(days=2)
    for days in range(2):
        rollups.merge_hour(HOUR + timedelta(days=days))
    assert not check(now)
    for model in (ModelUsageHour, ModelUsageDay):
        model.objects.all().delete()
    assert not check(now + timedelta(minutes=59))
    assert differences(BEGIN, END) != []
    assert sum(iter(lambda: check(now + timedelta(hours=1)), False)) == 2
    assert differences(BEGIN, END) == []
    ModelUsageDay.objects.filter(hour__lt=HOUR).update(requests=2)  # as after an hour that was counted twice
    assert sum(iter(lambda: check(now + timedelta(hours=2)), False)) == 1
    assert differences(BEGIN, END) == []


def test_rows_of_models_have_no_callers():
    rows, parameters = rollups.usage_rows(BEGIN, END, dimensions=("model",))
    with pytest.raises(DatabaseError), connection.cursor() as cursor:
        cursor.execute(f"SELECT used.user_id FROM {rows}", parameters)


def test_the_migration_adds_up_what_is_merged():
    insert_log_entries([anything(number) for number in range(60)])
    hours = sorted(set(UsageHour.objects.values_list("hour", flat=True)))
    for hour in hours[1:]:
        rollups.merge_hour(hour)
    rollups.rebuild_day(rollups.floor_day(hours[-1]))
    for model in (ModelUsageHour, ModelUsageDay):
        model.objects.all().delete()
    migration = import_module("telemetry.migrations.0032_usage_of_models")
    with connection.schema_editor() as editor:
        migration.add_up(apps, editor)
    assert differences(BEGIN, END) == []


def test_an_hour_that_is_made_anew_takes_its_day_along():
    insert_log_entries([done("r1"), done("r2"), done("r3", HOUR + timedelta(hours=1))])
    for hours in range(2):
        rollups.merge_hour(HOUR + timedelta(hours=hours))
    UsageHour.objects.filter(hour=HOUR).update(requests=9)
    kinds = [difference.of_rollup for difference in differences(BEGIN, END)]
    assert kinds == [None, *rollups.ROLLUPS]
    rollups.rebuild_hour(HOUR)
    assert differences(BEGIN, END) == []
    assert UsageDay.objects.get().requests == 1  # the hour that was made anew is not merged yet


def test_a_difference_is_found_told_and_repaired():
    insert_log_entries([done("r1", input_tokens=7), done("r2", HOUR + timedelta(hours=3))])
    UsageHour.objects.filter(hour=HOUR).update(input_tokens=5)
    UsageHour.objects.filter(hour__gt=HOUR).delete()
    result = differences(BEGIN, END)
    assert [(difference.hour, difference.amounts["input_tokens"]) for difference in result[:1]] == [(HOUR, 2)]
    assert str(result[0]) == "2027-01-15 08:00 provider_id=1 model=m: input_tokens +2"
    assert result[1].amounts["requests"] == 1
    assert repair_hours(BEGIN, END) == 2
    assert differences(BEGIN, END) == []


def test_what_the_log_does_not_have_is_a_difference_too():
    insert_log_entries([done("r1"), done("r2")])
    LogEntry.objects.filter(correlation_id="r1").delete()
    assert [difference.amounts["requests"] for difference in differences(BEGIN, END)] == [-1]
    repair_hours(BEGIN, END, allow_fewer=True)
    assert totals()["requests"] == 1
    assert differences(BEGIN, END) == []


@pytest.mark.parametrize("merged", [False, True])
def test_the_usage_of_entries_that_were_deleted_stays(merged):
    insert_log_entries([done("r1"), done("r2"), done("r3", HOUR + timedelta(hours=1))])
    if merged:
        rollups.merge_hour(HOUR)
    LogEntry.objects.filter(correlation_id__in=["r1", "r3"]).delete()
    LogEntry.objects.filter(correlation_id="r2").update(input_tokens=9)
    assert repair_hours(BEGIN, END) == 0
    assert totals()["requests"] == 3


def test_sums_of_large_costs_are_no_difference():
    """SQLite adds up costs as floating point numbers, in another order for each table."""
    chance = random.Random(3)
    costs = [f"{chance.random() * 1e5:.6f}" for _ in range(24 * 40)]
    paid = {"currency": "EUR", "cost_status": "known"}
    moments = [HOUR.replace(hour=number % 24) for number in range(len(costs))]
    insert_log_entries(
        [
            done(f"r{number}", moment, user_id=number // 24, cost=cost, **paid)
            for number, (moment, cost) in enumerate(zip(moments, costs, strict=True))
        ]
    )
    for number in range(24):
        rollups.merge_hour(HOUR.replace(hour=number))
    rollups.merge_day(HOUR.replace(hour=0))
    assert differences(BEGIN, END) == []
    first = UsageHour.objects.exclude(cost=None).first()
    UsageHour.objects.filter(pk=first.pk).update(cost=first.cost + Decimal("0.001"))
    assert differences(BEGIN, END)


def test_what_a_dead_process_left_behind_is_counted_as_aborted(tmp_path):
    journal = Journal(tmp_path, segment_bytes=SEGMENT)
    journal.append_start(done("r1"))
    adopt_journal(journal.folder)
    assert totals()["errors"] == totals()["unknown_cost_requests"] == 1
    assert differences(BEGIN, END) == []


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")
def test_several_shippers_and_merging_at_once_lose_nothing(tmp_path):
    errors = Counter()

    def ship(number):
        journal = Journal(tmp_path / str(number), segment_bytes=SEGMENT)
        shipper = Shipper(journal, tmp_path / str(number))
        for request in range(400):
            journal.append_complete(done(f"{number}-{request}", HOUR, input_tokens=1, key_id=request % 3))
            if request % 20 == 19:
                errors["refused"] += not shipper.ship()
        connection.close()

    def merge():
        while any(thread.is_alive() for thread in threads):
            rollups.merge_hour(HOUR)
        connection.close()

    threads = [threading.Thread(target=ship, args=[number]) for number in range(6)]
    merging = threading.Thread(target=merge)
    for thread in (*threads, merging):
        thread.start()
    for thread in (*threads, merging):
        thread.join(60)
    assert errors["refused"] == 0
    assert totals()["requests"] == LogEntry.objects.count() == 2400
    assert differences(BEGIN, END) == []
    rollups.merge_hour(HOUR)
    assert UsageHour.objects.count() == 3


def test_attempts_count_for_the_provider_and_model_that_were_asked():
    def call(provider_id, model, cause=""):
        return list(LoggedAttempt(provider_id, "p", 0, model, 200, cause, "", 0.0, 1.0, None, "", ""))

    failed_over = [call(2, "big", "error"), call(2, "big", "rate_limited"), call(3, "big", "error"), call(1, "m")]
    stored_then = [call(2, "big", "error")]
    insert_log_entries(
        [
            done("plain", attempts=1, provider_calls=[call(1, "m")]),
            done("over", attempts=4, failed_attempts=3, asked_before=[2, 3], provider_calls=failed_over),
            done(
                "hit", attempts=1, failed_attempts=1, asked_before=[2], provider_calls=stored_then, cache_status="HIT"
            ),
            done("refused", attempts=1, provider_calls=[call(1, "m", "rejected")], outcome="failed"),
            done("left", attempts=2, asked_before=[2], provider_calls=[call(2, "m", "interrupted"), call(1, "m")]),
            done("before this version", attempts=1),
        ]
    )
    rows = UsageHour.objects.values_list("provider_id", "model").annotate(Sum("attempts"), Sum("failed_attempts"))
    counts = {row[:2]: tuple(number or 0 for number in row[2:]) for row in rows}
    assert counts == {(1, "m"): (5, 0), (2, "big"): (3, 3), (3, "big"): (1, 1), (2, "m"): (1, 0)} | {
        pair: (0, 0) for pair in counts if not any(counts[pair])
    }
    rollups.merge_hour(HOUR)
    assert not differences(HOUR, HOUR + timedelta(hours=1))
    assert totals()["attempts"] == 10
