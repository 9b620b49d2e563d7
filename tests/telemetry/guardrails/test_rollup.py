"""The counts of guardrails say what the log says, however entries came and hours were merged."""

import random
from datetime import timedelta

import pytest

from telemetry.guardrails import rollup
from telemetry.guardrails.statistics import MAX_ROWS, GuardrailQuery, guardrail_counts
from telemetry.journal.batches import insert_log_entries
from telemetry.models import GuardrailHour, LogEntry
from telemetry.retention import deletion
from telemetry.usage.verification import differences, repair_hours
from tests.support.management import new_user, token_of
from tests.support.usage_entries import BEGIN, END, HOUR, done

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.either_store]
WITHIN = f"from={BEGIN:%Y-%m-%dT%H:%M:%SZ}&to={END:%Y-%m-%dT%H:%M:%SZ}"


def ran(number=5, result="passed", direction="request", milliseconds=0.25, name="No cards"):
    return {"id": number, "name": name, "direction": direction, "result": result, "milliseconds": milliseconds,
            "counts": {} if result == "passed" else {"card": 1}}  # fmt: skip


def test_a_batch_is_counted_as_it_is_stored():
    insert_log_entries(
        [
            done("r1", guardrails=[ran(), ran(direction="response", result="redacted", milliseconds=0.5)]),
            done("r2", guardrails=[ran(result="blocked", milliseconds=0.125), ran(6, "monitored", name="Other")]),
            done("r3"),
            done("r4", HOUR + timedelta(hours=1), guardrails=[ran(result="failed")]),
            done("r5", entry_type="Message", guardrails=[ran()]),
            done("r6", model='"guardrails":[{'),
        ]
    )
    counts = guardrail_counts(GuardrailQuery(BEGIN, END, ("hour", "guardrail", "direction"), 5))
    assert [(row["hour"][11:13], row["direction"], row["searched"], row["average_ms"]) for row in counts] == [
        ("08", "request", 2, 0.188), ("08", "response", 1, 0.5), ("09", "request", 1, 0.25)
    ]  # fmt: skip
    assert [counts[0][name] for name in rollup.RESULTS] == [1, 1, 0, 0, 0]
    both = guardrail_counts(GuardrailQuery(BEGIN, END))
    assert [(row["guardrail_id"], row["guardrail_name"], row["searched"]) for row in both] == [
        (5, "No cards", 4), (6, "Other", 1)
    ]  # fmt: skip


def test_entries_without_guardrails_count_nothing():
    insert_log_entries([done("r1"), done("r2")])
    assert not GuardrailHour.objects.exists()


def test_counts_and_log_agree_after_batches_and_merging():
    chance = random.Random(3)
    for batch in range(12):
        insert_log_entries(
            [
                done(
                    f"{batch}-{number}",
                    HOUR + timedelta(minutes=chance.randrange(-200, 200)),
                    guardrails=[
                        ran(chance.randrange(3), chance.choice(rollup.RESULTS), chance.choice(("request", "response")),
                            chance.randrange(10_000) / 1000)
                        for _ in range(chance.randrange(4))
                    ] or None,
                )
                for number in range(chance.randrange(1, 30))
            ]
        )  # fmt: skip
        rollup.merge_hour(HOUR + timedelta(hours=chance.randrange(-3, 3)))
        assert differences(BEGIN, END) == []
    before = guardrail_counts(GuardrailQuery(BEGIN, END))
    while deletion.merge_guardrail_hours(END + timedelta(days=9)):
        pass
    assert guardrail_counts(GuardrailQuery(BEGIN, END)) == before
    assert not GuardrailHour.objects.filter(merged=False).exists()


def test_a_difference_is_found_and_repaired():
    insert_log_entries([done("r1", guardrails=[ran(result="blocked")])])
    GuardrailHour.objects.update(blocked=7)
    (difference,) = differences(BEGIN, END)
    assert difference.of_guardrail
    assert difference.amounts == {"blocked": -6}
    assert repair_hours(BEGIN, END) == 1
    assert differences(BEGIN, END) == []


def test_the_api_groups_filters_and_refuses(client):
    insert_log_entries([done("r1", guardrails=[ran(result="blocked"), ran(6, direction="response")])])
    credential = {"headers": {"Authorization": f"Bearer {token_of(new_user('stats.view'))}"}}

    def ask(query):
        return client.get(f"/stats/guardrails/?{WITHIN}&{query}", **credential)

    rows = [row["attributes"] for row in ask("by=day,guardrail").json()["data"]]
    assert [(row["day"], row["guardrailId"], row["searched"], row["blocked"]) for row in rows] == [
        ("2027-01-15", 5, 1, 1), ("2027-01-15", 6, 1, 0)
    ]  # fmt: skip
    assert [row["attributes"]["guardrailId"] for row in ask("guardrail=6").json()["data"]] == [6]
    assert rows[0]["direction"] is None
    for query in ("by=user", "by=day,day,day", "guardrail=x"):
        assert ask(query).status_code == 400, query
    own = {"headers": {"Authorization": f"Bearer {token_of(new_user())}"}}
    assert client.get("/stats/guardrails/", **own).status_code == 403


@pytest.mark.long
def test_no_more_counts_than_memory_has_room_for(client):
    """An hour each, for more than two years: by hour they are too many, and the answer says what to ask for."""
    hours = (HOUR + timedelta(hours=number) for number in range(MAX_ROWS + 1))
    GuardrailHour.objects.bulk_create([
        GuardrailHour(hour=hour, guardrail_id=5, guardrail_name="x", direction="request", searched=1) for hour in hours
    ])  # fmt: skip
    credential = {"headers": {"Authorization": f"Bearer {token_of(new_user('stats.view'))}"}}
    period = f"from={HOUR:%Y-%m-%dT%H:%M:%SZ}&to={HOUR + timedelta(hours=MAX_ROWS + 1):%Y-%m-%dT%H:%M:%SZ}"
    refused = client.get(f"/stats/guardrails/?{period}&by=hour,guardrail", **credential)
    assert refused.status_code == 400
    (problem,) = refused.json()["errors"]
    assert problem["source"] == {"parameter": "by"}
    assert f"would give more than {MAX_ROWS:,} counts" in problem["detail"]
    assert client.get(f"/stats/guardrails/?{period}&by=day", **credential).status_code == 200
    month = f"from={HOUR:%Y-%m-%dT%H:%M:%SZ}&to={HOUR + timedelta(days=30):%Y-%m-%dT%H:%M:%SZ}"
    assert client.get(f"/stats/guardrails/?{month}&by=hour", **credential).status_code == 200


def test_the_log_is_filtered_by_guardrail_and_its_own_result(client):
    insert_log_entries(
        [
            done("r1", outcome="blocked", guardrails=[ran(result="blocked"), ran(6)]),
            done("r2", guardrails=[ran(), ran(6, "redacted")]),
            done("r3"),
        ]
    )
    credential = {"headers": {"Authorization": f"Bearer {token_of(new_user('logs.view_all'))}"}}

    def ids(query):
        rows = client.get(f"/logs/?{query}", **credential).json()["data"]
        return sorted(row["attributes"]["correlationId"] for row in rows)

    assert ids("guardrail=5") == ids("guardrail=6") == ["r1", "r2"]
    assert ids("guardrail=5&guardrailResult=blocked") == ["r1"]
    assert ids("guardrail=6&guardrailResult=blocked") == []
    assert ids("guardrailResult=redacted") == ["r2"]
    assert ids("outcome=blocked") == ["r1"]
    assert LogEntry.objects.guarded_by(name="No cards' OR 1=1").count() == 0


@pytest.mark.long
def test_the_console_filters_and_counts(console):
    insert_log_entries([done("r1", guardrails=[ran(result="blocked")]), done("r2", guardrails=[ran(6, name="Other")])])
    page = "/admin/telemetry/logentry/?guardrail"
    assert len(console.get(f"{page}=No cards").context["cl"].result_list) == 1
    assert len(console.get(f"{page}=No cards&guardrail_result=passed").context["cl"].result_list) == 0
    assert len(console.get(f"{page}_result=passed").context["cl"].result_list) == 1
    GuardrailHour.objects.update(hour=deletion.rollups.floor_hour(deletion.datetime.now(deletion.UTC)))
    text = console.get("/admin/guardrail-usage/?guardrail=5").text
    assert "Usage of No cards" in text
    assert "Other" not in text
    assert "Other" in console.get("/admin/guardrail-usage/").text
    assert console.get("/admin/guardrail-usage/?guardrail=x").status_code == 200
