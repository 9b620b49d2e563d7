"""Limits as a resource: who may, what is refused, what is told."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.models import Group
from gateway_project.errors import NotFound
from keys.services import issue_key
from licensing.models import Limit
from licensing.services import change_limit
from providers.services import create_provider
from telemetry.models import LogEntry
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store


@pytest.fixture
def ann(db):
    return new_user()


def limit(**values):
    return Limit.objects.create(**({"measure": "requests", "window": "day", "amount": 5} | values))


@pytest.mark.parametrize("subject", ["key", "user", "group", "provider"])
def test_a_limit_is_set_for_each_kind_of_subject(admin, ann, subject):
    rows = {
        "key": lambda: issue_key(owner=ann, name="k").key,
        "user": lambda: ann,
        "group": lambda: Group.objects.create(name="team"),
        "provider": lambda: create_provider(name="p", url="https://api.example.org", format_name="openai"),
    }
    row = rows[subject]()
    response = admin.post("/limits/", **{f"{subject}Id": row.pk}, measure="tokens", window="month", amount=1000)
    assert (response.status_code, response.text) == (201, "{}")
    (result,) = admin.rows(f"/limits/?{subject}Id={row.pk}")
    assert response.headers["LimitId"] == str(result["id"])
    assert response.headers["Location"].endswith(f"/limits/{result['id']}/")
    values = {f"{kind}Id": row.pk if kind == subject else None for kind in ("key", "user", "group", "provider")}
    assert {name: result[name] for name in values} == values
    assert result[f"{subject}Name"]
    resets = result.pop("resetsAt")
    assert [result[name] for name in ("measure", "window", "amount", "used", "remaining")] == [
        "tokens",
        "month",
        1000,
        0,
        1000,
    ]
    assert datetime.fromisoformat(resets).day == 1
    assert datetime.fromisoformat(resets) > datetime.now(UTC)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"userId": None}, "userId"),
        ({"keyId": 5}, "keyId"),
        ({"userId": 999999}, "no user with id 999999"),
        ({"groupId": 1}, "no group with id 1"),
        ({"measure": "wishes"}, "measure"),
        ({"window": "year"}, "window"),
        ({"window": "none"}, "window none"),
        ({"measure": "concurrent"}, "window none"),
        ({"amount": -1}, "amount"),
        ({"amount": 2.5}, "whole"),
        ({"amount": "many"}, "amount"),
        ({"amount": 10**12}, "at most 12 digits before the point"),
        ({"measure": "cost", "amount": 9_000_001}, "cost must be from 0 (unlimited) to 9000000"),
        ({"measure": "cost", "amount": 10**30}, "amount"),
        ({"measure": "cost", "amount": "0.0000001"}, "decimals"),
        ({"hours": 3}, "hours"),
    ],
    ids=str,
)
def test_what_makes_no_limit_is_refused(admin, ann, changes, words):
    values = {"userId": ann.pk, "measure": "requests", "window": "day", "amount": 5} | changes
    refused(admin.post("/limits/", **values), 400, "ValidationError", words)
    assert not Limit.objects.exists()


def test_a_limit_may_be_sent_as_lists_show_its_subjects(admin, ann):
    subjects = {"keyId": None, "userId": ann.pk, "groupId": None, "providerId": None}
    assert admin.post("/limits/", **subjects, measure="requests", window="day", amount=5).status_code == 201
    assert subjects.items() <= admin.rows("/limits/")[0].items()


def test_a_limit_has_one_subject_and_a_window(admin, ann):
    values = {"measure": "requests", "amount": 5}
    refused(admin.post("/limits/", **values, window="day"), 400, "ValidationError", "one of keyId, userId")
    refused(admin.post("/limits/", **values, userId=ann.pk), 400, "ValidationError", "window: is missing")
    assert admin.post("/limits/", userId=ann.pk, measure="concurrent", amount=2).status_code == 201
    assert admin.rows("/limits/")[0]["window"] == "none"


def test_a_subject_has_one_limit_of_a_kind(admin, ann):
    values = {"userId": ann.pk, "measure": "cost", "window": "day", "amount": "12.5"}
    assert admin.post("/limits/", **values).status_code == 201
    refused(admin.post("/limits/", **values), 409, "Conflict", "Change that limit")
    assert admin.post("/limits/", **(values | {"window": "month"})).status_code == 201
    assert [row["amount"] for row in admin.rows("/limits/")] == [12.5, 12.5]


def test_the_amount_is_all_that_changes(admin, ann):
    row = limit(user=ann)
    assert admin.patch(f"/limits/{row.pk}/", amount=7).status_code == 200
    assert admin.patch("/limits/", id=row.pk, amount=0).status_code == 200
    refused(admin.patch(f"/limits/{row.pk}/", measure="tokens"), 400, "ValidationError", "measure")
    refused(admin.patch(f"/limits/{row.pk}/", amount=1.5), 400, "ValidationError", "whole")
    (result,) = admin.rows("/limits/")
    assert (result["amount"], result["remaining"]) == (0, None)


def test_a_change_without_an_amount_changes_nothing(admin, ann):
    row = limit(user=ann)
    before = admin.rows("/limits/")
    assert admin.patch(f"/limits/{row.pk}/").status_code == 200
    assert admin.rows("/limits/") == before


def test_what_was_counted_for_an_earlier_limit_counts_no_more_once_it_was_unlimited(admin, ann):
    row = limit(user=ann)
    set_at = row.bounds_since
    admin.patch(f"/limits/{row.pk}/", amount=7)
    row.refresh_from_db()
    assert row.bounds_since == set_at, "it has counted all the time"
    for amount in (0, 7):
        admin.patch(f"/limits/{row.pk}/", amount=amount)
    row.refresh_from_db()
    assert row.bounds_since > set_at


def test_every_change_is_in_the_log(admin, ann):
    row_id = admin.post("/limits/", userId=ann.pk, measure="tokens", window="day", amount=5).headers["LimitId"]
    admin.patch(f"/limits/{row_id}/", amount=6)
    admin.delete(f"/limits/{row_id}/")
    assert not Limit.objects.exists()
    entries = LogEntry.objects.filter(entry_type="Message", message__contains="limit").order_by("id")
    assert len(entries) == 3
    assert all("used" not in entry.payload for entry in entries)
    assert '"amount": 6' in entries[1].payload.replace('":6', '": 6')


def test_what_was_used_is_told_from_the_log_before_anything_was_counted(admin, ann):
    for minutes in (1, 2, 60 * 24 * 40):
        LogEntry.objects.create(
            entry_type="WorkRequest",
            timestamp=max(timezone.now() - timedelta(minutes=minutes), datetime(2020, 1, 1, tzinfo=UTC)),
            user_id=ann.pk,
            attempts=1,
            duration_ms=5,
            input_tokens=10,
            output_tokens=30,
            cost=Decimal("0.25"),
            cost_status="known",
        )
    limits = [("requests", 5), ("tokens", 100), ("cost", "1.5")]
    for measure, amount in limits:
        limit(user=ann, measure=measure, amount=Decimal(amount), window="month")
    rows = [(row["used"], row["remaining"]) for row in admin.rows("/limits/")]
    if timezone.now().minute > 2 or timezone.now().day > 1:
        assert rows == [(2, 3), (80, 20), (0.5, 1)]


def test_one_sees_the_limits_of_oneself_ones_keys_and_groups(nobody, admin, ann):
    team, others = Group.objects.create(name="team"), Group.objects.create(name="others")
    team.members.set([ann])
    eve = new_user()
    own = [limit(user=ann), limit(key=issue_key(owner=ann, name="k").key), limit(group=team)]
    foreign = [
        limit(user=eve),
        limit(key=issue_key(owner=eve, name="k").key),
        limit(group=others),
        limit(provider=create_provider(name="p", url="https://api.example.org", format_name="openai")),
    ]
    client = nobody.as_user(ann)
    assert [row["id"] for row in client.rows("/limits/")] == [row.pk for row in own]
    assert len(admin.rows("/limits/")) == len(own + foreign)
    refused(client.get(f"/limits/{foreign[0].pk}/"), 404, "NotFound")
    assert client.get(f"/limits/{own[0].pk}/").status_code == 200
    refused(client.post("/limits/", userId=ann.pk, measure="tokens", window="day", amount=9), 403, "PermissionDenied")
    refused(client.patch(f"/limits/{own[0].pk}/", amount=9), 403, "PermissionDenied")
    refused(client.delete(f"/limits/{own[0].pk}/"), 403, "PermissionDenied")


def test_filters(admin, ann):
    rows = [limit(user=ann), limit(user=ann, measure="tokens"), limit(user=ann, window="month"), limit(user=new_user())]

    def ids_of(query):
        return [row["id"] for row in admin.rows(f"/limits/?{query}")]

    assert ids_of("measure=tokens") == [rows[1].pk]
    assert ids_of("window=month") == [rows[2].pk]
    assert ids_of(f"userId={ann.pk}") == [row.pk for row in rows[:3]]
    assert ids_of(f"id={rows[3].pk}") == [rows[3].pk]
    refused(admin.get("/limits/?month=1"), 400, "ValidationError", "month")


def test_a_limit_that_was_deleted_meanwhile_is_not_brought_back(ann):
    row = limit(user=ann)
    Limit.objects.all().delete()
    with pytest.raises(NotFound):
        change_limit(row, amount=Decimal(7))
    assert not Limit.objects.exists()
