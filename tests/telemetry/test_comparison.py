"""GET /logs/{id}/comparison/: the stages of a request beside the p50 and p95 of its kind."""

from datetime import UTC, datetime, timedelta

import pytest

from telemetry.models import LogEntry
from tests.support.management import new_user, refused

pytestmark = pytest.mark.either_store

MOMENT = datetime(2026, 11, 10, 12, tzinfo=UTC)
KIND = {
    "entry_type": "WorkRequest", "entry_source": "Worker", "provider_id": 5, "model": "fast", "served_model": "m1",
    "stream": False, "outcome": "completed",
}  # fmt: skip


def attempt(length):
    """An attempt with one step, as entries have it."""
    return [5, "first", 0, "m1", 200, "", "", 1.0, length, None, "", "unknown", [["connect", 1.0, length]]]


def recorded(length, *, minutes=0, **values):
    """An entry with stages of such lengths; it came back to `limits` once."""
    stages = [["auth", 0.0, length], ["limits", 5.0, length], ["limits", 9.0, length]]
    usual = {**KIND, "user_id": 1, "stages": stages, "provider_calls": [attempt(length)], "duration_ms": 20.0}
    return LogEntry.objects.create(**{**usual, **values}, timestamp=MOMENT - timedelta(minutes=minutes))


def comparison(client, entry):
    response = client.get(f"/logs/{entry.pk}/comparison/")
    assert response.status_code == 200, response.text
    return response.json()["data"]


def test_stages_beside_those_of_its_kind(admin, db):
    entry = recorded(7.0)
    for length in range(1, 21):
        recorded(float(length), minutes=length)
    for other in ({"model": "slow"}, {"stream": True}, {"provider_id": 6}, {"outcome": "failed"}):
        recorded(1000.0, minutes=1, **other)
    recorded(1000.0, minutes=25 * 60)
    document = comparison(admin, entry)
    assert document["kind"] == {
        "entryType": "WorkRequest", "entrySource": "Worker", "providerId": 5, "model": "fast", "servedModel": "m1",
        "stream": False, "outcome": "completed",
    }  # fmt: skip
    assert document["entries"] == 20
    assert document["stages"] == [
        {"stage": "auth", "attempt": None, "milliseconds": 7.0, "p50": 10.0, "p95": 19.0},
        {"stage": "limits", "attempt": None, "milliseconds": 14.0, "p50": 20.0, "p95": 38.0},
        {"stage": "connect", "attempt": 1, "milliseconds": 7.0, "p50": 10.0, "p95": 19.0},
    ]


def test_nothing_to_compare_with(admin, db):
    for entry in (recorded(7.0), recorded(7.0, provider_id=None, provider_calls=None, outcome="denied")):
        document = comparison(admin, entry)
        assert document["entries"] == 0
        assert {(row["p50"], row["p95"]) for row in document["stages"]} == {(None, None)}


def test_who_may_see_the_entry_sees_it_beside_entries_that_they_may_see(nobody, admin, db):
    owner, other = new_user(), new_user()
    entry = recorded(7.0, user_id=owner.pk)
    recorded(3.0, minutes=1, user_id=owner.pk)
    recorded(100.0, minutes=2, user_id=other.pk)
    assert comparison(nobody.as_user(owner), entry)["entries"] == 1
    assert (
        comparison(admin, entry)["entries"]
        == comparison(nobody.as_user(new_user("logs.view_all")), entry)["entries"]
        == 2
    )
    for path in (f"/logs/{entry.pk}/comparison/", f"/logs/{entry.pk + 1000}/comparison/"):
        refused(nobody.as_user(other).get(path), 404, "NotFound")
    assert nobody.get(f"/logs/{entry.pk}/comparison/").status_code == 401


def test_admins_of_a_group_see_what_happened_to_its_members(nobody, admin, db):
    """Both sub-resources of an entry, as the entry itself."""
    member, head = new_user(), new_user()
    group = int(admin.post("/groups/", name="team", members=[{"id": member.pk}]).headers["GroupId"])
    admin.post(f"/groups/{group}/members/", id=head.pk, admin=True)
    entry = recorded(7.0, user_id=member.pk, group_ids=[group])
    recorded(3.0, minutes=1, user_id=member.pk, group_ids=[group])
    client = nobody.as_user(head)
    assert client.get(f"/logs/{entry.pk}/").status_code == 200
    assert comparison(client, entry)["entries"] == 1
    refused(nobody.as_user(new_user()).get(f"/logs/{entry.pk}/explanation/"), 404, "NotFound")
