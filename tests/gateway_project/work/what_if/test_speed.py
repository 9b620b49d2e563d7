"""A million recorded requests are judged again within a minute of one core, in bounded memory."""

import resource
import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from gateway_project.work.what_if.drafts import read_draft
from gateway_project.work.what_if.running import compare_requests
from providers.services import create_provider
from rules.services import create_rule
from tests.support.management import new_user

ENTRIES, DAYS = 1_000_000, 7
START = datetime(2026, 11, 1, tzinfo=UTC)
USERS, MODELS, MAX_MEGABYTES = 200, 10, 200
MAX_SECONDS = 60
COLUMNS = (
    *("timestamp", "entry_type", "outcome", "user_id", "model", "served_model", "provider_id", "input_tokens"),
    *("output_tokens", "cost", "currency", "cost_status", "duration_ms", "cache_status"),
)


def fill(user_ids, provider_id):
    """Entries a fraction of a second apart."""
    step, adapt = timedelta(days=DAYS) / ENTRIES, connection.ops.adapt_datetimefield_value
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    statement = f"INSERT INTO telemetry_logentry ({names}) VALUES ({', '.join(['%s'] * len(COLUMNS))})"
    rows = (
        (
            adapt(START + number * step), "WorkRequest", "completed", user_ids[number % len(user_ids)],
            f"model-{number % MODELS}", f"model-{number % MODELS}", provider_id, number % 3000, number % 700,
            "0.001", "USD", "known", float(number % 9000), "HIT" if number % 5 == 0 else "MISS",
        )
        for number in range(ENTRIES)
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.executemany(statement, rows)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_million_requests(db, capsys):
    users = [new_user("work").pk for _ in range(USERS)]
    models = [f"model-{number}" for number in range(MODELS)]
    provider = create_provider(name="one", url="https://api.example.org/v1", format_name="openai", models=models)
    create_rule(name="all", user_id=0)
    fill(users, provider.pk)
    rules = {"rules": [{"name": "no", "effect": "deny", "regex": "model-[0-4]", "userId": users[0]}]}
    prices = {"prices": [{"model": "model-*", "currency": "USD", "input": 1, "output": 2}]}
    limits = {
        "limits": [
            {"userId": user_id, "measure": measure, "window": window, "amount": amount}
            for user_id in users
            for measure, window, amount in (("requests", "minute", 20), ("cost", "day", 0.5))
        ]
    }
    for name, draft in {"rules": rules, "prices": prices, "limits": limits}.items():
        before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        outcome = compare_requests(read_draft(draft), START, START + timedelta(days=DAYS), lambda share: None)
        seconds = time.process_time() - begin
        growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        with capsys.disabled():
            print(f"\n{name}: {ENTRIES:,} requests in {seconds:.1f} s, {growth:.0f} MB more")
        assert outcome.total.requests == ENTRIES
        assert sum(outcome.total.changes.values()) > 0
        assert seconds < MAX_SECONDS, name
        assert growth < MAX_MEGABYTES, name
