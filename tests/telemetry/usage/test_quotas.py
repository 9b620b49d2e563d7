"""What the log tells about quotas whose counts were lost."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from gateway_project.work.log.timestamps import timestamp
from telemetry.journal.batches import insert_log_entries
from telemetry.journal.records import empty_log_entry, to_record
from telemetry.models import UsageDay, UsageHour
from telemetry.usage import rollups
from telemetry.usage.quotas import QuotaUsage, quota_usage
from telemetry.usage.statistics import UsageQuery, usage
from telemetry.usage.verification import differences

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)
BEGIN = datetime(2026, 5, 1, tzinfo=UTC).timestamp()


def entry(minutes=0, **values):
    """An entry of a request that began so many minutes before noon and took a second, as a process writes it."""
    attributes = {"timestamp": timestamp((NOON - timedelta(minutes=minutes)).timestamp()), "duration_ms": 1000.0}
    request = {"user_id": 1, "key_id": 2, "provider_id": 3, "group_ids": [4, 45], "attempts": 1, "cache_status": "MISS"}
    spent = {"input_tokens": 10, "cache_read_tokens": 5, "output_tokens": 20, **cost("0.000000000123")}
    names = {"entry_type": "WorkRequest", "outcome": "completed"} | attributes | request | spent
    insert_log_entries([to_record(empty_log_entry() | names | values)])


def cost(amount):
    return {"cost": amount, "cost_status": "known", "currency": "USD"}


NOTHING = {"input_tokens": None, "cache_read_tokens": None, "output_tokens": None, "cost": None, "cost_status": ""}


def usage_of(subject, subject_id, until=NOON + timedelta(hours=1)):
    return quota_usage(subject, [subject_id], begin=BEGIN, until=until.timestamp())[subject_id]


@pytest.mark.parametrize(("subject", "subject_id"), [("user", 1), ("key", 2), ("provider", 3), ("group", 4)])
def test_each_has_what_its_requests_used(subject, subject_id):
    for minutes in (0, 10):
        entry(minutes)
    entry(20 * 24 * 60)
    assert usage_of(subject, subject_id) == QuotaUsage(2, 70, Decimal("0.000000000246"))
    assert usage_of(subject, 5) == QuotaUsage(0, 0, Decimal(0))


def test_stored_answers_and_failures_are_requests_and_refusals_are_not():
    for minutes in (0, 24 * 60):  # of the last hours the entries are asked, of all before them usage
        entry(minutes, attempts=0, entry_source="Cache", cache_status="HIT", **cost("0"))
        # Found when another provider had failed: this one was not asked.
        entry(minutes, attempts=1, entry_source="Cache", cache_status="HIT", **cost("0"))
        entry(minutes, attempts=0, outcome="denied", exception="RuleDenied", **NOTHING)
        entry(minutes, outcome="aborted", duration_ms=None, **NOTHING)
        for exception in ("RateLimited", "QuotaExceeded", "ActiveUseLimitReached"):
            entry(minutes, attempts=0, exception=exception, **NOTHING)
        entry(minutes, entry_type="Message")
    assert usage_of("key", 2) == QuotaUsage(8, 0, Decimal(0))
    assert usage_of("provider", 3) == QuotaUsage(2, 0, Decimal(0))


def test_a_provider_was_asked_also_where_another_one_served():
    for minutes in (0, 24 * 60):
        entry(minutes, attempts=3, asked_before=[6, 7])
        entry(minutes, attempts=1, asked_before=[6], provider_id=None, **NOTHING)
        entry(minutes, attempts=1, asked_before=[7], entry_source="Cache", cache_status="HIT", **cost("0"))
    requests = {number: usage_of("provider", number).requests for number in (3, 6, 7, 8)}
    assert requests == {3: 2, 6: 4, 7: 4, 8: 0}
    assert usage_of("provider", 6).tokens == 0
    day = NOON.replace(hour=0)
    assert not differences(day - timedelta(days=2), day + timedelta(days=1))
    question = UsageQuery(day - timedelta(days=2), day + timedelta(days=1), ("provider",))
    assert [(row["provider_id"], row["requests"]) for row in usage(question, 0, 9).rows] == [(3, 4), (None, 2)]


def test_what_had_not_ended_by_then_is_not_told():
    entry(duration_ms=30_000.0)
    entry(duration_ms=90_000.0)
    assert usage_of("user", 1, NOON + timedelta(seconds=60)).requests == 1
    assert usage_of("user", 1, NOON + timedelta(seconds=91)).requests == 2
    assert usage_of("user", 1, NOON + timedelta(seconds=29.9)).requests == 0


@pytest.mark.parametrize("merged", [False, True])
def test_of_an_hour_that_had_begun_before_the_entries_are_asked(merged):
    for minutes in (600, 630, 640, 659.5, 660, 720):  # before noon: 02:00 to 00:00
        entry(minutes)
    if merged:
        for hour in UsageHour.objects.values_list("hour", flat=True).distinct():
            rollups.merge_hour(hour)

    def requests(begin):
        result = quota_usage("key", [2], begin=begin.timestamp(), until=(NOON + timedelta(hours=1)).timestamp())
        return result[2].requests

    assert requests(NOON - timedelta(minutes=640)) == 3
    assert requests(NOON - timedelta(minutes=641)) == 3
    assert requests(NOON - timedelta(minutes=659.75)) == 4
    assert requests(NOON - timedelta(minutes=660)) == 5


@pytest.mark.long
def test_usage_and_entries_together_tell_what_all_entries_do():
    """Hours, days and the last entries, whatever is merged, to the microsecond: compared with entries one by one."""
    rows = [plausible(seed) for seed in range(600)]
    insert_log_entries([to_record(empty_log_entry() | row) for row in rows])
    whose = [("user", 1), ("key", 5), ("provider", 7), ("group", 1), ("group", 2)]
    moments = [NOON + timedelta(minutes=minutes, microseconds=1) for minutes in (-4000, -90, -61, -1, 0, 1, 59, 300)]
    for merge in (lambda hour: None, rollups.merge_hour):
        for hour in UsageHour.objects.filter(hour__lt=NOON - timedelta(hours=1)).values_list("hour", flat=True):
            merge(hour)
        for until in moments:
            assert {one: usage_of(*one, until) for one in whose} == {
                one: one_by_one(*one, until, rows) for one in whose
            }
    assert UsageDay.objects.exists()


def plausible(seed):
    """An entry as some request leaves it, which began up to three days before noon or a little later."""
    chance = random.Random(seed)
    began = NOON + timedelta(minutes=chance.choice([0, 0, 1, 60, 60, 4320]) * (chance.random() - 0.95))
    hit, tried = chance.random() < 0.2, chance.random() < 0.8
    served = tried and not hit
    exception = chance.choice(["", "", "RuleDenied"]) if served or hit else chance.choice(["RuleDenied", "RateLimited"])
    values = cost(f"{Decimal(chance.randrange(10**6)).scaleb(-9):f}") if served else NOTHING
    tokens = {name: chance.choice([None, chance.randrange(1000)]) if served or hit else None for name in rollups.TOKENS}
    return {
        "entry_type": chance.choice(["WorkRequest"] * 5 + ["Message"]),
        "timestamp": timestamp(began.timestamp()),
        "duration_ms": chance.choice([None, 3.125, chance.random() * 120_000]),
        "cache_status": "HIT" if hit else "MISS",
        "attempts": int(served),
        "exception": exception,
        "user_id": chance.choice([None, 1, 2]),
        "group_ids": chance.choice([[], [1], [1, 2]]),
        "key_id": chance.choice([None, 5]),
        "provider_id": chance.choice([None, 7]),
        "model": chance.choice(["a", "b"]),
        **values,
        **tokens,
    }


def one_by_one(subject, subject_id, until, rows):
    results = [
        row
        for row in rows
        if row["entry_type"] == "WorkRequest"
        and (subject_id in row["group_ids"] if subject == "group" else row[f"{subject}_id"] == subject_id)
        and row["exception"] != "RateLimited"
        and _ended(row) <= until.timestamp()
    ]
    bought = [row for row in results if row["attempts"]]
    return QuotaUsage(
        len(bought if subject == "provider" else results),
        sum(row[name] or 0 for row in bought for name in rollups.TOKENS),
        sum((Decimal(row["cost"]) for row in bought), Decimal(0)),
    )


def _ended(row):
    began = datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC)
    return began.timestamp() + (row["duration_ms"] or 0) / 1000
