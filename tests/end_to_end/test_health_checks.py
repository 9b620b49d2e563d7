"""Active checks: a tiny request while a provider fails, by one process, on nobody's account."""

import pytest

from providers.health import checks
from providers.health.models import HealthCheck
from telemetry.models import LogEntry, UsageHour
from tests.support.management import Client, new_admin
from tests.support.metrics import samples
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.either_store
EVERY = 10


def health(world, provider):
    (row,) = Client(world.gateway.url).as_user(new_admin()).rows(f"/providers/?id={world.row(provider).pk}")
    return row["health"], row["healthDetail"]


def checks_seen(provider):
    return [request for request in provider.seen if request.json["messages"][0]["content"] == "Hi"]


def test_one_that_fails_is_checked_until_it_answers(world):
    world.allow()
    provider = world.provider(health_check_seconds=EVERY)
    world.provider(priority=200)
    provider.default = Answer(status=500)
    for number in range(2):
        assert world.ask(f"{number}").status_code == 200
    before = len(provider.seen)
    world.until(lambda: len(provider.seen) > before, seconds=20)
    (check,) = checks_seen(provider)
    assert (check.json["max_tokens"], check.json["model"]) == (1, world.model)
    name = world.row(provider).name
    world.until(lambda: samples(world, "provider_failed_checks_total")["ProviderError", world.model, name] == 1)
    assert samples(world, "provider_checks_total")[world.model, name] == 1
    state, detail = health(world, provider)
    (model,) = detail["models"]
    assert (state, detail["attempts"], detail["failures"]) == ("failing", 2, 2)
    assert (model["checks"], model["failedChecks"]) == (1, 1)
    world.until(lambda: LogEntry.objects.filter(provider_name=name, message__startswith="Health check").exists())
    entry = LogEntry.objects.get(provider_name=name, message__startswith="Health check")
    assert (entry.entry_type, entry.tags, entry.user_id, entry.exception) == (
        "Message", {"check": "health"}, None, "ProviderError",
    )  # fmt: skip
    provider.default = Answer()
    world.until(lambda: HealthCheck.objects.filter(provider=world.row(provider), has_answered=True), seconds=40)
    assert health(world, provider)[1]["models"][0]["checks"] >= 2


def test_they_count_towards_nobody(world):
    world.allow()
    provider = world.provider(health_check_seconds=EVERY, health_check_always=True)
    world.settle()
    world.until(lambda: len(provider.seen) == 1, seconds=20)
    world.until(lambda: HealthCheck.objects.filter(provider=world.row(provider), has_answered=True))
    assert health(world, provider)[0] == "healthy"
    assert not UsageHour.objects.filter(provider_id=world.row(provider).pk).exists()
    assert not LogEntry.objects.filter(provider_id=world.row(provider).pk, entry_type="WorkRequest").exists()
    assert (world.model, world.row(provider).name) not in samples(world, "provider_attempts_total")


def test_one_that_works_or_rests_or_wants_none_is_not_checked(world):
    world.allow()
    works, rests = world.provider(health_check_seconds=EVERY), world.provider(priority=1, health_check_seconds=EVERY)
    unwanted = world.provider(priority=0)
    rests.default = Answer(status=429, headers={"Retry-After": "60"})
    unwanted.default = Answer(status=500)
    assert world.ask().status_code == 200
    sent = [len(provider.seen) for provider in (works, rests, unwanted)]
    with pytest.raises(AssertionError):
        world.until(lambda: sent != [len(provider.seen) for provider in (works, rests, unwanted)], seconds=3)


@pytest.mark.django_db(transaction=True)
def test_of_many_processes_one_has_the_turn(world):
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection
    from django.utils import timezone

    provider = world.row(world.provider())
    now = timezone.now()

    def claim(_):
        try:
            return checks.claim_check(provider.pk, every=60, now=now)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(8))) == 1
    HealthCheck.objects.update(begun_at=now - timezone.timedelta(seconds=61))
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(8))) == 1
    assert not checks.claim_check(provider.pk, every=60, now=now)
    assert not checks.claim_check(10**9, every=60, now=now)
