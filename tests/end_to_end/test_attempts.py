"""Each sending to a provider is counted and logged, whether or not another provider answered in the end."""

from decimal import Decimal

import pytest

from telemetry.attempts import LoggedAttempt
from telemetry.models import UsageHour
from tests.support.management import Client, new_admin, refused
from tests.support.metrics import samples
from tests.support.provider_answers import Answer

pytestmark = pytest.mark.either_store

MEASURES = ("requests", "attempts", "failed_attempts")


def calls_of(entry):
    return [LoggedAttempt(*call)._asdict() for call in entry.provider_calls]


def test_the_entry_has_each_attempt_with_cause_time_and_cost(world, pair):
    world.price()
    first, second = map(world.row, pair)
    pair[0].answers(status=500, delay=0.2)
    entry = world.entry(world.ask())
    failed, served = calls_of(entry)
    assert (entry.attempts, entry.failed_attempts, entry.asked_before) == (2, 1, [first.pk])
    assert [failed["provider_id"], served["provider_id"]] == [first.pk, second.pk]
    assert (failed["status"], failed["cause"], failed["exception"]) == (502, "error", "ProviderError")
    assert (served["status"], served["cause"], served["exception"]) == (200, "", "")
    assert failed["duration_ms"] >= 200
    assert served["begin_ms"] >= failed["begin_ms"] + failed["duration_ms"]
    assert (failed["cost"], failed["cost_status"]) == (None, "unknown")
    assert Decimal(served["cost"]) == entry.cost > 0
    assert {failed["model"], served["model"]} == {world.model}


@pytest.mark.parametrize(
    ("answer", "cause", "failures"),
    [
        ({"status": 429}, "rate_limited", 1),
        ({"status": 400}, "rejected", None),
        ({"status": 503, "headers": {"Retry-After": "2"}}, "error", 1),
        ({"raw": b"nonsense"}, "error", 1),
    ],
)
def test_why_an_attempt_failed(world, provider, answer, cause, failures):
    provider.answers(**answer)
    entry = world.entry(world.ask())
    (call,) = calls_of(entry)
    assert (call["cause"], entry.failed_attempts) == (cause, failures)
    assert call["status"] == entry.status
    assert call["exception"] == entry.exception


def test_a_stream_is_one_attempt_until_its_end(world, provider):
    provider.answers(text="one two three", pace=0.05)
    whole = world.stream()
    assert whole.content
    entry = world.entry(whole)
    (call,) = calls_of(entry)
    assert call["cause"] == ""
    assert call["duration_ms"] == pytest.approx(entry.duration_ms, abs=100)
    provider.answers(text="one two three", no_terminal=True)
    broken = world.stream("again")
    assert broken.content
    entry = world.entry(broken)
    assert [call["cause"] for call in calls_of(entry)] == ["error"]
    assert entry.failed_attempts == 1
    failures = samples(world, "provider_failures_total")
    assert failures["ProviderError", world.model, world.row(provider).name] == 1


def steps_of(call):
    return {name: (begin, length) for name, begin, length in call["stages"]}


def test_each_attempt_tells_its_own_steps(world, pair):
    pair[0].answers(status=500, delay=0.2)
    entry = world.entry(world.ask())
    failed, served = calls_of(entry)
    assert list(steps_of(failed)) == ["connect", "first_byte"]
    assert list(steps_of(served)) == ["connect", "first_byte", "last_token"]
    assert steps_of(failed)["first_byte"][1] >= 190
    assert steps_of(served)["connect"][0] >= failed["begin_ms"] + failed["duration_ms"]
    for call in (failed, served):
        assert steps_of(call)["connect"][0] == pytest.approx(call["begin_ms"], abs=0.01)
        assert sum(length for _, length in steps_of(call).values()) <= call["duration_ms"]


def test_a_kept_connection_is_not_connected_again(world, provider):
    first, second = (calls_of(world.entry(world.ask(text)))[0] for text in ("first", "second"))
    assert "connect" in steps_of(first)
    assert list(steps_of(second)) == ["first_byte", "last_token"]


def test_a_stream_tells_its_first_and_last_token(world, provider):
    provider.answers(text="one two three", pace=0.1)
    entry = world.entry(world.stream())
    (call,) = calls_of(entry)
    assert list(steps_of(call)) == ["connect", "first_byte", "first_token", "last_token"]
    assert steps_of(call)["last_token"][1] >= 90
    assert sum(length for _, length in steps_of(call).values()) <= call["duration_ms"]
    assert [stage[0] for stage in entry.stages][-1] == "logging"


def test_the_metrics_have_each_stage_and_each_step_of_a_provider(world, provider):
    assert world.stream().content
    name = world.row(provider).name
    counts = samples(world, "stage_duration_seconds_count")
    assert counts[name, "first_token"] == counts[name, "connect"] == 1
    assert counts["", "logging"] >= 1
    assert counts["", "waiting"] >= 1


def test_answers_from_the_cache_and_refused_requests_have_none(world, provider):
    assert world.ask().status_code == 200
    stored = world.entry(world.ask())
    refused = world.entry(world.ask(body={"model": "unknown"}))
    for entry in (stored, refused):
        assert (entry.attempts, entry.failed_attempts, entry.provider_calls) == (0, None, None)


def test_the_filter_finds_attempts_as_well_as_answers(world, pair):
    first, second = map(world.row, pair)
    pair[0].answers(status=500)
    failed_over, direct = world.entry(world.ask("one")), world.entry(world.ask("two"))
    admin = Client(world.gateway.url).as_user(new_admin())

    def entries(number):
        rows = admin.rows(f"/logs/?attemptedProvider={number}&type=WorkRequest")
        return {row["correlationId"]: row for row in rows}

    at_first = entries(first.pk)
    assert at_first.keys() == {failed_over.correlation_id, direct.correlation_id}
    assert entries(second.pk).keys() == {failed_over.correlation_id}
    shown = at_first[failed_over.correlation_id]
    assert (shown["attempts"], shown["failedAttempts"], shown["providerId"]) == (2, 1, second.pk)
    assert [call["providerName"] for call in shown["providerCalls"]] == [first.name, second.name]
    assert shown["providerCalls"][0]["cause"] == "error"
    assert entries(10**9) == {}


def test_a_user_finds_own_entries_alone(world, pair):
    pair[0].answers(status=500)
    assert world.entry(world.ask()).attempts == 2
    first = world.row(pair[0])
    for owner, result in ((world.user, 1), (world.new_user(), 0)):
        rows = Client(world.gateway.url).as_user(owner).rows(f"/logs/?attemptedProvider={first.pk}&type=WorkRequest")
        assert len(rows) == result


@pytest.mark.parametrize("value", ["-1", "x", "1,2", "", "99999999999999999999", "1&attemptedProvider=2"])
def test_a_wrong_filter_is_refused_with_its_name(world, provider, value):
    client = Client(world.gateway.url).as_user(world.user)
    refused(client.get(f"/logs/?attemptedProvider={value}"), 400, "ValidationError", "attemptedProvider")


def test_the_statistics_count_attempts_for_each_provider_and_model(world, pair):
    first, second = map(world.row, pair)
    pair[0].default = Answer(status=500)
    for number in range(3):
        assert world.ask(f"{number}").status_code == 200
    for request_id, _ in world.answers:
        assert world.entry(request_id).attempts == 2
    rows = UsageHour.objects.filter(model=world.model)
    counts = {
        row.pk: [sum(filter(None, rows.filter(provider_id=row.pk).values_list(name, flat=True))) for name in MEASURES]
        for row in (first, second)
    }
    assert counts == {first.pk: [0, 3, 3], second.pk: [3, 3, 0]}


def test_models_that_only_a_linked_key_names_count_as_other(world, provider):
    row = world.row(provider)
    linked = world.new_key(provider=row).text
    for number in range(3):
        assert world.ask(body={"model": f"invented-{world.number}-{number}"}, key=linked).status_code == 200
    attempts = samples(world, "provider_attempts_total")
    assert {model: count for (model, name), count in attempts.items() if name == row.name} == {"other": 3}
