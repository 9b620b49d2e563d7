"""Many entries with one statement, on either database."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.db import DataError, IntegrityError, connection, transaction
from django.utils import timezone

from telemetry.journal.batches import count_hits, insert_cache_entries, insert_log_entries
from telemetry.models import CacheEntry, LogEntry
from tests.telemetry.conftest import cached, entry

pytestmark = pytest.mark.django_db
AWKWARD = "ä 🇵🇹 \"'; DROP TABLE x; -- %s \\ \n\t \0 $$ {} \u2028"


def test_every_column_arrives():
    fields = {
        "entry_source": "Worker", "message": "m", "payload": '{"a": 1}', "user_id": 7, "username": "ann",
        "severity": "error", "outcome": "failed", "status": 502, "exception": "ProviderError", "operation": "chat",
        "stream": True, "model": "fast", "provider_id": 8, "provider_name": "p", "key_id": 9, "key_name": "k",
        "rule_id": 10, "rule_name": "r", "attempts": 2, "cache_status": "MISS", "cache_hash": "f" * 64,
        "input_tokens": 2**52, "cache_read_tokens": 1, "cache_write_tokens": 2, "output_tokens": 3,
        "reasoning_tokens": 4, "usage_estimated": True, "currency": "EUR", "finish_reason": "stop",
        "provider_finish_reason": "eos", "duration_ms": 1.5, "first_byte_ms": 0.25,
        "stages": [["auth", 0.0, 1.5]], "candidates": [["p", "failed", "ä"]], "tags": {"team": "ä"}, "address": "::1",
    }  # fmt: skip
    insert_log_entries([entry("r1", **fields)])
    stored = LogEntry.objects.get(correlation_id="r1")
    assert {name: getattr(stored, name) for name in fields} == fields
    assert stored.timestamp == datetime(2027, 1, 15, 8, 0, 0, 500_000, tzinfo=UTC)


def test_what_is_not_known_is_null_or_empty():
    insert_log_entries([entry("r1")])
    stored = LogEntry.objects.get()
    assert (stored.user_id, stored.status, stored.cost, stored.message) == (None, None, None, "")
    assert stored.candidates is None
    assert (stored.tags, stored.stages, stored.stream, stored.attempts) == ({}, [], False, 0)


def test_any_text_arrives_as_it_is_but_for_nul():
    insert_log_entries([entry("r1", message=AWKWARD, payload=AWKWARD * 1000, tags={AWKWARD: AWKWARD})])
    stored, result = LogEntry.objects.get(), AWKWARD.replace("\0", "\ufffd")
    assert (stored.message, stored.payload, stored.tags) == (result, result * 1000, {result: result})


def test_many_entries_keep_their_order_and_take_one_statement(django_assert_num_queries):
    with django_assert_num_queries(1 if connection.vendor == "postgresql" else 3):  # SQLite adds them up afterwards
        insert_log_entries([entry(f"r{number}") for number in range(1000)])
    assert list(LogEntry.objects.order_by("id").values_list("correlation_id", flat=True)) == [
        f"r{number}" for number in range(1000)
    ]


def test_nothing_to_store_is_no_statement(django_assert_num_queries):
    with django_assert_num_queries(0):
        insert_log_entries([])
        insert_cache_entries([])
        count_hits([])


def test_a_cost_arrives_exactly():
    insert_log_entries([entry("r1", cost="0.0000000123")])
    assert LogEntry.objects.get().cost == Decimal("0.0000000123")


def test_one_impossible_entry_stores_none_of_its_batch():
    with pytest.raises((IntegrityError, DataError)), transaction.atomic():
        insert_log_entries([entry("r1"), entry("r2", message=None), entry("r3")])
    assert not LogEntry.objects.exists()


def test_a_cached_answer_is_listed():
    insert_cache_entries([cached("a" * 64, response=AWKWARD, chunks=True, size_bytes=9, user_id=7, username="ann")])
    stored = CacheEntry.objects.get()
    assert (stored.response, stored.chunks, stored.size_bytes) == (AWKWARD.replace("\0", "\ufffd"), True, 9)
    assert (stored.user_id, stored.username, stored.hits) == (7, "ann", 0)
    assert stored.expires_at == datetime(2030, 3, 17, 17, 46, 40, tzinfo=UTC)


def test_a_new_answer_replaces_the_old_one_and_its_hits_begin_anew():
    insert_cache_entries([cached("a" * 64, response="old", model="m1")])
    CacheEntry.objects.update(hits=5, last_hit_at=datetime.now(UTC))
    insert_cache_entries([cached("a" * 64, response="new", model="m2"), cached("b" * 64)])
    stored = CacheEntry.objects.get(request_hash="a" * 64)
    assert (stored.response, stored.model, stored.hits, stored.last_hit_at) == ("new", "m2", 0, None)
    assert CacheEntry.objects.count() == 2


def test_of_several_answers_to_one_request_the_last_is_kept():
    insert_cache_entries([cached("a" * 64, response=text) for text in ("first", "second", "third")])
    assert CacheEntry.objects.get().response == "third"


def test_hits_are_added_up():
    insert_cache_entries([cached("a" * 64), cached("b" * 64)])
    hit = [entry(f"r{number}", cache_status="HIT", cache_hash="a" * 64) for number in range(3)]
    others = [entry("r4", cache_status="MISS", cache_hash="b" * 64), entry("r5"), entry("r6", message=hit[0].decode())]
    count_hits(hit + others)
    count_hits(hit[:1])
    assert dict(CacheEntry.objects.values_list("request_hash", "hits")) == {"a" * 64: 4, "b" * 64: 0}
    assert CacheEntry.objects.get(request_hash="a" * 64).last_hit_at is not None


def test_a_tag_that_is_named_like_a_column_makes_no_hit():
    insert_cache_entries([cached("a" * 64)])
    tags = {"cache_status": "HIT", "cache_hash": "a" * 64}
    count_hits([entry("r1", cache_status="MISS", cache_hash="a" * 64, tags=tags), entry("r2", tags=tags)])
    assert CacheEntry.objects.get().hits == 0


def test_a_hit_of_an_answer_that_is_not_listed_is_no_error():
    count_hits([entry("r1", cache_status="HIT", cache_hash="c" * 64)])
    assert not CacheEntry.objects.exists()


def test_hits_of_many_answers_are_counted_in_one_go(django_assert_num_queries):
    hashes = [f"{number:064x}" for number in range(300)]
    insert_cache_entries([cached(name) for name in hashes])
    records = [entry(f"r{name}{time}", cache_status="HIT", cache_hash=name) for name in hashes for time in range(2)]
    before = timezone.now()
    with django_assert_num_queries(1):
        count_hits(records)
    assert set(CacheEntry.objects.values_list("hits", flat=True)) == {2}
    assert CacheEntry.objects.filter(last_hit_at__range=(before, timezone.now())).count() == len(hashes)


def test_hits_of_answers_that_are_not_listed_are_told():
    insert_cache_entries([cached("a" * 64)])
    records = [entry(f"r{name}", cache_status="HIT", cache_hash=name * 64) for name in "aabbbc"]
    assert count_hits(records) == {"b" * 64: 3, "c" * 64: 1}
    assert CacheEntry.objects.get().hits == 2
