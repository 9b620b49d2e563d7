"""The resource /what-if/: drafts are checked as their create would, and tried by a process that claims them."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from gateway_project.work.what_if.running import run_claimed
from keys.services import issue_key
from licensing.services import set_limit
from providers.services import create_provider, set_price
from rules.models import Rule, WhatIf
from rules.services import create_rule
from rules.what_if import services
from rules.what_if.services import begin_what_if, claim_next, finish_what_if, keep_claim
from telemetry.audit.models import AuditEntry
from telemetry.models import LogEntry
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store

DAY = "2026-11-{:02}T00:00:00Z"
PERIOD = {"start": DAY.format(10), "end": DAY.format(12)}
MOMENT = datetime(2026, 11, 10, 12, tzinfo=UTC)


@pytest.fixture
def bob(db):
    return new_user("work", username="bob")


@pytest.fixture
def provider(db):
    return create_provider(name="first", url="https://api.example.org/v1", format_name="openai", models=["m1"])


@pytest.fixture
def allowed(bob, provider):
    """A rule that allows Bob everything."""
    return create_rule(name="all", user_id=bob.pk)


@pytest.fixture
def served(bob, provider, allowed):
    """Records requests of Bob's, a minute after the other: served(3, cost="0.5") -> entries."""

    def record(count, *, begin=MOMENT, every=60, **values):
        usual = {
            "entry_type": "WorkRequest", "entry_source": "Worker", "outcome": "completed", "status": 200,
            "user_id": bob.pk, "username": bob.username, "model": "m1", "served_model": "m1",
            "provider_id": provider.pk, "provider_name": provider.name, "input_tokens": 10, "output_tokens": 5,
            "duration_ms": 100.0, "cost": Decimal("0.5"), "currency": "USD", "cost_status": "known",
        }  # fmt: skip
        rows = [
            LogEntry(**{**usual, **values}, timestamp=begin + timedelta(seconds=every * number))
            for number in range(count)
        ]
        return LogEntry.objects.bulk_create(rows)

    return record


def begun(client, **attributes):
    """The id of a what-if that the API has begun."""
    response = client.post("/what-if/", **{**PERIOD, **attributes})
    assert response.status_code == 202, response.text
    assert response.json() == {}
    return int(response.headers["WhatIfId"])


def ended(client, number):
    """The what-if once this process has worked on all that waits."""
    while (what_if := claim_next()) is not None:
        run_claimed(what_if)
    (row,) = [client.get(f"/what-if/{number}/", flat=True).json()["data"]]
    return row


def result_of(client, **attributes):
    row = ended(client, begun(client, **attributes))
    assert row["state"] == "done", row
    return row["result"]


def test_it_is_begun_worked_on_and_read(admin, served, bob, provider):
    entries = served(3)
    draft = {"rules": [{"name": "no", "effect": "deny", "userId": bob.pk}]}
    number = begun(admin, **draft)
    before = admin.get(f"/what-if/{number}/", flat=True).json()["data"]
    assert (before["state"], before["progress"], before["result"], before["startedAt"]) == ("running", 0, None, None)
    after = ended(admin, number)
    assert (after["state"], after["progress"]) == ("done", 1)
    assert (after["start"], after["end"], after["rules"]) == (PERIOD["start"], PERIOD["end"], draft["rules"])
    result = after["result"]
    assert (result["requests"], result["newlyDenied"], result["costBefore"], result["costAfter"]) == (
        3, 3, {"USD": "1.5"}, {},
    )  # fmt: skip
    (user,), (model,) = result["byUser"], result["byModel"]
    assert (user["userId"], user["userName"], user["newlyDenied"]) == (bob.pk, "bob", 3)
    assert (model["model"], model["examples"]["newlyDenied"]) == (
        "m1", [entry.pk for entry in entries],
    )  # fmt: skip
    for row in (user, model):
        assert [one["id"] for one in admin.rows(row["log"])] == [one.pk for one in reversed(entries)]
    assert (after["limits"], after["delete"]) == ([], {})
    assert not Rule.objects.filter(name="no").exists()
    (listed,) = admin.rows("/what-if/?state=done")
    assert (listed["id"], listed["result"]) == (number, None)
    audited = AuditEntry.objects.filter(resource="what-if", action="create", resource_id=number)
    assert audited.count() == 1


def test_the_same_in_json_api(admin, served, bob):
    served(1)
    number = begun(admin, prices=[{"model": "m1", "currency": "USD", "input": 1, "output": 2}])
    ended(admin, number)
    document = admin.get(f"/what-if/{number}/").json()["data"]
    assert document["type"] == "what-if"
    assert document["attributes"]["result"]["costAfter"] == {"USD": "0.00002"}


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"start": None}, ["start"]),
        ({"start": "yesterday"}, ["start"]),
        ({"start": DAY.format(12)}, ["start"]),
        ({"start": "2020-01-01T00:00:00Z"}, ["end", "366 days"]),
        ({"rules": 5}, ["rules", "array"]),
        ({"rules": [{"regex": "a"}]}, ["rules[0].name"]),
        ({"rules": [{"name": "a", "userId": 99999999}]}, ["rules[0].userId", "99999999"]),
        ({"rules": [{"name": "a", "userId": None, "user_id": 0}]}, ["rules[0]", "'user_id'"]),
        ({"rules": [{"name": "all"}]}, ["rules[0]", "exists already"]),
        ({"rules": [{"name": "a", "providerId": 99999999}]}, ["rules[0].providerId"]),
        ({"aliases": [{"name": "a", "targets": [{"provider": 99999999, "model": "m1"}]}]}, ["aliases[0]"]),
        ({"limits": [{"userId": 99999999, "measure": "requests", "window": "day", "amount": 1}]}, ["limits[0].userId"]),
        ({"limits": [{"measure": "requests", "window": "day", "amount": 1}]}, ["limits[0]", "keyId"]),
        ({"prices": [{"model": "m1", "currency": "USD", "input": -1, "output": 2}]}, ["prices[0].input"]),
        ({"guardrails": [{"name": "g", "type": "pattern", "parameters": {"patterns": ["("]}}]}, ["guardrails[0]"]),
        ({"delete": {"guardrails": [99999999]}}, ["delete.guardrails", "99999999"]),
        ({"guardrails": [{"id": 99999999, "name": "g", "type": "secrets"}]}, ["guardrails[0]", "99999999"]),
        ({"delete": {"limits": [99999999]}}, ["delete.limits", "99999999"]),
        ({"delete": {"users": [1]}}, ["delete.users"]),
        ({"colour": "red"}, ["colour"]),
    ],
)
def test_what_is_wrong_is_named(admin, allowed, attributes, words):
    refused(admin.post("/what-if/", **{**PERIOD, **attributes}), 400, "ValidationError", *words)
    assert not WhatIf.objects.exists()
    assert Rule.objects.count() == 1


def test_limits_are_counted_over_time(admin, served, bob):
    served(5, every=1)
    served(5, every=1, begin=MOMENT + timedelta(minutes=1))
    limit = {"userId": bob.pk, "measure": "requests", "window": "minute", "amount": 3}
    result = result_of(admin, limits=[limit])
    assert (result["requests"], result["newlyDenied"], result["refusedByLimits"]) == (10, 4, 4)
    assert result["costAfter"] == {"USD": "3"}
    assert any("Limits that the draft does not have" in one for one in result["unknown"])


@pytest.mark.parametrize(
    ("measure", "window", "amount", "denials"),
    [("tokens", "day", 45, 3), ("cost", "day", 2, 2), ("requests", "month", 4, 2), ("concurrent", "none", 1, 0)],
)
def test_each_measure_counts_its_own(admin, served, bob, measure, window, amount, denials):
    served(6)
    limit = {"userId": bob.pk, "measure": measure, "window": window, "amount": amount}
    assert result_of(admin, limits=[limit])["refusedByLimits"] == denials


def test_requests_at_once_are_counted(admin, served, bob):
    served(4, every=10, duration_ms=15_000.0)
    limit = {"userId": bob.pk, "measure": "concurrent", "window": "none", "amount": 1}
    assert result_of(admin, limits=[limit])["newlyDenied"] == 2


def test_what_was_used_before_the_period_counts(admin, served, bob):
    served(3, begin=datetime(2026, 11, 9, 23, 55, tzinfo=UTC))
    served(3)
    limit = {"userId": bob.pk, "measure": "requests", "window": "month", "amount": 4}
    assert result_of(admin, limits=[limit])["newlyDenied"] == 2


@pytest.mark.parametrize("limits", [[], [{"measure": "requests", "window": "day", "amount": 1}]])
def test_the_cost_before_says_what_it_does_not_contain(admin, served, bob, limits):
    served(2)
    served(3, begin=MOMENT + timedelta(hours=1), cost=None, currency="", cost_status="unknown", outcome="timeout")
    draft = {"limits": [limit | {"userId": bob.pk} for limit in limits]} if limits else {"aliases": []}
    assert "The cost before does not contain 3 requests of unknown cost." in result_of(admin, **draft)["unknown"]


def test_a_limit_of_a_group_and_of_a_provider(admin, served, bob, provider):
    group = admin.post("/groups/", name="team", members=[{"id": bob.pk}]).headers["GroupId"]
    served(4)
    for subject in ({"groupId": int(group)}, {"providerId": provider.pk}):
        result = result_of(admin, limits=[{**subject, "measure": "requests", "window": "day", "amount": 1}])
        assert result["refusedByLimits"] == 3, subject
    (row,) = result["byGroup"]
    assert (row["groupId"], row["groupName"], row["newlyDenied"]) == (int(group), "team", 3)


def test_a_limit_that_would_be_raised_or_deleted(admin, served, bob):
    limit = set_limit(user=bob, measure="requests", window="day", amount=Decimal(2))
    served(2)
    denied = {"outcome": "denied", "exception": "QuotaExceeded", "provider_id": None, "served_model": None}
    nothing = {"cost": None, "input_tokens": None, "output_tokens": None, "currency": ""}
    served(3, begin=MOMENT + timedelta(hours=1), **denied, **nothing)
    raised = {"id": limit.pk, "userId": bob.pk, "measure": "requests", "window": "day", "amount": 4}
    assert result_of(admin, limits=[raised])["newlyAllowed"] == 2
    result = result_of(admin, delete={"limits": [limit.pk]})
    assert (result["newlyAllowed"], result["newlyDenied"]) == (3, 0)
    assert "The cost of 3 requests under the draft is unknown." in result["unknown"]
    assert any("averages of their models" in one for one in result["unknown"])


def test_what_another_limit_has_refused_stays_refused(admin, served, bob):
    served(2, outcome="denied", exception="RateLimited", provider_id=None, cost=None, currency="")
    limit = {"userId": bob.pk, "measure": "requests", "window": "day", "amount": 100}
    assert result_of(admin, limits=[limit])["newlyAllowed"] == 0


def test_prices_make_another_cost(admin, served, provider):
    price = set_price(provider=provider, model="m1", currency="USD", input=Decimal(1), output=Decimal(1))
    served(2)
    draft = {"providerId": provider.pk, "model": "m1", "currency": "EUR", "input": 1000, "output": 2000, "request": 1}
    result = result_of(admin, prices=[{**draft, "id": price.pk}])
    assert (result["repriced"], result["newlyDenied"]) == (2, 0)
    assert (result["costBefore"], result["costAfter"]) == ({"USD": "1"}, {"EUR": "2.04"})
    without = result_of(admin, delete={"prices": [price.pk]})
    assert (without["repriced"], without["costAfter"], without["unknownCosts"]) == (2, {}, 2)


def test_prices_of_long_requests_are_theirs(admin, served, provider):
    served(2)
    served(1, input_tokens=2000, begin=MOMENT + timedelta(hours=1))
    common = {"providerId": provider.pk, "model": "m1", "currency": "USD", "output": 0}
    result = result_of(admin, prices=[{**common, "input": 1000}, {**common, "input": 2000, "aboveInputTokens": 1000}])
    assert result["costAfter"] == {"USD": "4.02"}


def test_answers_from_the_cache(admin, served, bob):
    served(3)
    (hit,) = served(1, cache_status="HIT", entry_source="Cache", cost=Decimal(0))
    same = result_of(admin)
    assert (same["cacheShareBefore"], same["cacheShareAfter"], same["byUser"]) == (0.25, 0.25, [])
    denied = result_of(admin, rules=[{"name": "no", "effect": "deny", "userId": bob.pk}])
    assert (denied["cacheShareBefore"], denied["cacheShareAfter"]) == (0.25, 0)
    assert same["examples"]["cacheShareBefore"] == same["examples"]["cacheShareAfter"] == [hit.pk]
    assert (denied["examples"]["cacheShareBefore"], denied["examples"]["cacheShareAfter"]) == ([hit.pk], [])
    (row,) = denied["byUser"]
    assert (row["cacheShareBefore"], row["examples"]["cacheShareBefore"]) == (0.25, [hit.pk])


def test_a_running_one_is_cancelled(admin, served):
    served(1)
    number = begun(admin)
    claimed = claim_next()
    assert admin.delete(f"/what-if/{number}/").status_code == 200
    assert not keep_claim(claimed.claim, 0.5)
    run_claimed(claimed)
    row = admin.get(f"/what-if/{number}/", flat=True).json()["data"]
    assert (row["state"], row["result"]) == ("cancelled", None)
    assert row["endedAt"]
    assert admin.delete(f"/what-if/{number}/").status_code == 200


def test_one_that_has_ended_stays_when_it_is_cancelled(admin, served):
    number = begun(admin)
    assert ended(admin, number)["state"] == "done"
    assert admin.delete(f"/what-if/{number}/").status_code == 200
    assert admin.get(f"/what-if/{number}/", flat=True).json()["data"]["state"] == "done"


def test_what_stops_to_be_valid_fails_with_its_reason(admin, allowed):
    number = begun(admin, delete={"rules": [allowed.pk]})
    Rule.objects.all().delete()
    row = ended(admin, number)
    assert (row["state"], row["error"]) == ("failed", f"rules: no row with id {allowed.pk}.")


def test_others_see_nothing_of_it(admin, nobody, allowed):
    who = nobody.as_user(new_user("rules.modify", "logs.view_all"))
    number, own = begun(admin), begun(who)
    refused(who.get(f"/what-if/{number}/"), 404, "NotFound")
    refused(who.delete(f"/what-if/{number}/"), 404, "NotFound")
    assert [row["id"] for row in who.rows("/what-if/")] == [own]
    assert [row["id"] for row in admin.rows("/what-if/")] == [own, number]
    for features in (["rules.modify"], ["logs.view_all"]):
        refused(
            nobody.as_user(new_user(*features)).post("/what-if/", **PERIOD), 403, "PermissionDenied", "logs.view_all"
        )


def test_a_key_with_both_permissions_may(nobody, allowed):
    owner = new_user("rules.modify", "logs.view_all")
    key = issue_key(owner=owner, name="k", permissions=["rules.modify", "logs.view_all"])
    begun(nobody.with_credential(key.text))


def test_only_so_many_run_and_are_kept(admin, allowed, monkeypatch):
    for _ in range(services.MAX_WAITING_OF_USER):
        begun(admin)
    refused(admin.post("/what-if/", **PERIOD), 409, "Conflict", "running")
    WhatIf.objects.update(state="done", ended_at=timezone.now())
    for _ in range(services.MAX_KEPT_OF_USER):
        begun(admin)
        WhatIf.objects.running().update(state="done", ended_at=timezone.now())
    assert WhatIf.objects.count() == services.MAX_KEPT_OF_USER


def two_waiting():
    period = {"start": MOMENT, "end": MOMENT + timedelta(days=1)}
    return [begin_what_if(user_id=1, user_name="a", draft={}, **period) for _ in range(2)]


def test_results_go_after_seven_days(db):
    old, new = two_waiting()
    for what_if, days in ((old, 8), (new, 6)):
        ended_at = timezone.now() - timedelta(days=days)
        WhatIf.objects.filter(pk=what_if.pk).update(state="done", ended_at=ended_at)
    services.delete_old_results()
    assert list(WhatIf.objects.all()) == [new]


def test_one_is_worked_on_at_a_time_and_adopted_when_its_process_dies(db):
    first, second = two_waiting()
    claimed = claim_next()
    assert (claimed, claim_next()) == (first, None)
    for _ in range(services.MAX_CLAIMS - 1):
        WhatIf.objects.filter(pk=first.pk).update(claimed_until=timezone.now() - timedelta(seconds=1))
        adopted = claim_next()
        assert adopted == first
        assert not keep_claim(claimed.claim, 0.5)
        assert not finish_what_if(claimed.claim, {})
        claimed = adopted
    WhatIf.objects.filter(pk=first.pk).update(claimed_until=timezone.now() - timedelta(seconds=1))
    assert claim_next() == second
    first.refresh_from_db()
    assert (first.state, first.error) == ("failed", services.DIED)
